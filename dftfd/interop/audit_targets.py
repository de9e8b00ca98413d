"""Targets of `dftfd audit-code`: the quantities that a program may compute, and the protocol of its adapter.

Targets here are ASE's calculators, the programs that QCEngine runs (D. G. A. Smith et al., J. Chem. Phys. 155, 204801
(2021), doi:10.1063/5.0059356), and the methods of PySCF.

Atomic units throughout: bohr, hartree, e bohr. Forces are minus the gradient.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import pyscf
from pyscf import gto, qmmm
from scipy.constants import angstrom, physical_constants

from dftfd.errors import MissingDependencyError, NotConvergedError, UnsupportedError

QUANTITIES = {
    "energy": "hartree",
    "forces": "hartree/bohr",
    "hessian": "hartree/bohr^2",
    "dipole": "e bohr",
    "polarizability": "bohr^3",
    "dipole_derivatives": "e",
    "polarizability_derivatives": "bohr^2",
    "infrared": "km/mol",
    "charge_forces": "hartree/bohr",
    "restarted": "hartree",
    "reloaded": "hartree",
    "in_angstrom": "hartree",
    "other_integrals": "hartree",
}
"""What a target may offer, with its unit. Shapes: (), (atom, 3), (atom, 3, atom, 3), (3,), (3, 3), (atom, 3, 3) with
the dipole's component last, (atom, 3, 3, 3), (mode,), (charge, 3), and four energies: from stored orbitals, from a
stored result, of positions that the program is told in angstrom in place of bohr or the other way round, and with
density fitting in place of exact integrals or the other way round."""

CONDITIONS = ("spin", "field", "charges", "state")
"""What a target may be asked under: open shells, an electric field, point charges, excited states."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One calculation: nuclei and what surrounds them.

    symbols: elements, 'ghost-O' for basis functions alone.   positions: (atom, 3) [bohr].   spin: N_alpha - N_beta.
    field: (3,) [hartree / (e bohr)]; E = E(0) - dipole . field.   charges: (charge, 4), x y z [bohr] and q [e].
    state: 0 for the ground state, k for the k-th excited one.
    """

    symbols: tuple[str, ...]
    positions: np.ndarray
    charge: int = 0
    spin: int = 0
    field: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    charges: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 4)))
    state: int = 0
    name: str = ""

    def but(self, **changes: Any) -> "Setting":
        """The same with some of it replaced."""
        return replace(self, **changes)

    @property
    def in_angstrom(self) -> np.ndarray:
        """The positions (atom, 3) [angstrom], by SciPy's constant, which is none of the programs'."""
        return np.asarray(self.positions) * (physical_constants["Bohr radius"][0] / angstrom)

    @property
    def conditions(self) -> set[str]:
        """Those of CONDITIONS that this calculation has."""
        present = (self.spin != 0, bool(np.any(self.field)), len(self.charges) > 0, self.state > 0)
        return {name for name, there in zip(CONDITIONS, present, strict=True) if there}

    @property
    def key(self) -> tuple:
        """What tells calculations apart, to the last digit."""
        arrays = (self.positions, self.field, self.charges)
        return (self.symbols, self.charge, self.spin, self.state, *(np.asarray(a, float).tobytes() for a in arrays))


class Target(Protocol):
    """A program that is audited.

    name: with its version.   offers: of QUANTITIES.   conditions: of CONDITIONS.
    """

    @property
    def name(self) -> str: ...

    @property
    def offers(self) -> frozenset[str]: ...

    @property
    def conditions(self) -> frozenset[str]: ...

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity as an array. UnsupportedError where this combination is not offered."""

    def variants(self, setting: Setting) -> Mapping[str, "Target"]:
        """The same program with less of an approximation or without an ingredient, by what changes.

        "finer grid" and "without solvent" are known to the diagnosis, others are named as they are.
        """

    def in_basis(self, basis: str) -> "Target":
        """The same program in another basis set. UnsupportedError where it has none."""


def shape_of(quantity: str, setting: Setting) -> tuple[int, ...] | None:
    """The shape of a quantity; None for intensities, of which programs list as many modes as they like."""
    n = len(setting.symbols)
    shapes: dict[str, tuple[int, ...]] = {"forces": (n, 3), "hessian": (n, 3, n, 3), "dipole": (3,)}
    shapes |= {"polarizability": (3, 3), "dipole_derivatives": (n, 3, 3), "charge_forces": (len(setting.charges), 3)}
    shapes |= {"polarizability_derivatives": (n, 3, 3, 3)}
    return None if quantity == "infrared" else shapes.get(quantity, ())


def multiplicity(setting: Setting) -> int:
    """2 S + 1; UnsupportedError for more beta than alpha electrons, which programs of multiplicities do not know."""
    if setting.spin < 0:
        raise UnsupportedError("no more beta than alpha electrons offered.")
    return setting.spin + 1


class Fixed:
    """What a target has that offers no variants and no other basis set."""

    conditions: frozenset[str] = frozenset()

    def variants(self, setting: Setting) -> Mapping[str, Target]:
        return {}

    def in_basis(self, basis: str) -> Target:
        raise UnsupportedError("no basis set can be chosen for this target.")


class ASETarget(Fixed):
    """A calculator of ASE.

    make: nothing -> Calculator, or keywords charge and multiplicity where with_electrons.
    """

    def __init__(self, make: Callable[..., Any], title: str = "", with_electrons: bool = False):
        try:
            self._ase = import_module("ase"), import_module("ase.units")
        except ImportError as error:
            raise MissingDependencyError("calculators of ASE need ASE: pip install 'dftfd[ase]'.") from error
        self.make, self.with_electrons = make, with_electrons
        first = make()
        self.name = f"ASE {self._ase[0].__version__}, {title or type(first).__name__}"
        has = set(first.implemented_properties)
        self.offers = frozenset({"energy", "forces", "dipole"} & has)
        self.conditions = frozenset({"spin"} if with_electrons else ())
        self._calculator: tuple[tuple[int, int], Any] | None = None

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity in atomic units; one calculator serves all geometries, as it does in ASE's own loops."""
        package, units = self._ase
        atoms = package.Atoms(setting.symbols, np.asarray(setting.positions) * units.Bohr)
        electrons = setting.charge, setting.spin
        if any(electrons) and not self.with_electrons:
            raise UnsupportedError("this calculator takes no charge and no spin.")
        if self._calculator is None or self._calculator[0] != electrons:
            given = {"charge": setting.charge, "multiplicity": multiplicity(setting)} if self.with_electrons else {}
            self._calculator = electrons, self.make(**given)
        atoms.calc = self._calculator[1]
        if quantity == "energy":
            return atoms.get_potential_energy() / units.Hartree
        if quantity == "forces":
            return atoms.get_forces(apply_constraint=False) * (units.Bohr / units.Hartree)
        return atoms.get_dipole_moment() / units.Bohr


DRIVERS = {"energy": "energy", "forces": "gradient", "hessian": "hessian", "dipole": "properties"}


class QCEngineTarget(Fixed):
    """A program, method and basis set by their names in QCEngine.

    bonds: (atom, atom, order), which force fields need.   keywords: of the program.
    """

    offers = frozenset(DRIVERS)
    conditions = frozenset({"spin"})

    def __init__(self, program: str, method: str = "hf", basis: str | None = "6-31g", bonds: Any = (), **keywords: Any):
        try:
            self._engine = import_module("qcengine")
        except ImportError as error:
            raise MissingDependencyError("programs of QCEngine need it: pip install qcengine.") from error
        self.program, self.method, self.basis, self.bonds, self.keywords = program, method, basis, bonds, keywords
        self.name = f"QCEngine {self._engine.__version__}, {program} {method}" + (f"/{basis}" if basis else "")

    def in_basis(self, basis: str) -> "QCEngineTarget":
        return QCEngineTarget(self.program, self.method, basis, self.bonds, **self.keywords)

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity by its driver; the frame of the molecule stays as it is."""
        ghosts = [symbol.startswith("ghost-") for symbol in setting.symbols]
        molecule = {
            "symbols": [symbol.removeprefix("ghost-") for symbol in setting.symbols],
            "geometry": np.ravel(setting.positions).tolist(),
            "real": [not ghost for ghost in ghosts],
            "molecular_charge": setting.charge,
            "molecular_multiplicity": multiplicity(setting),
            "fix_com": True,
            "fix_orientation": True,
        } | ({"connectivity": list(self.bonds)} if self.bonds else {})
        asked = {
            "molecule": molecule,
            "driver": DRIVERS[quantity],
            "model": {"method": self.method, "basis": self.basis},
            "keywords": self.keywords,
        }
        try:
            answer = self._engine.compute(asked, self.program, raise_error=True, return_dict=True)
        except self._engine.exceptions.InputError as error:  # such as a driver that a program lacks
            raise UnsupportedError(f"not taken by {self.program}: {error}") from error
        if quantity == "dipole":
            if (found := answer["properties"].get("scf_dipole_moment")) is None:
                raise UnsupportedError("no dipole in what the program returned.")
            return found
        found = np.reshape(answer["return_result"], shape_of(quantity, setting) or ())
        return -found if quantity == "forces" else found


TIGHT = {"conv_tol": 1e-12, "conv_tol_grad": 1e-8, "max_cycle": 200}
TIGHT_CORRELATED = {"conv_tol": 1e-10, "conv_tol_normt": 1e-8}
"""Audited are formulas, not thresholds: a looser threshold of the user is tightened."""


@dataclass(eq=False)
class PySCFTarget(Fixed):
    """A method of PySCF.

    make: Mole -> mean field, or another method with kernel, e_tot and nuc_grad_method, not yet run.
    basis, mole: basis set and further arguments of gto.M, such as ecp.
    gradient, hessian: attributes of the objects that compute forces and Hessians, such as {"grid_response": True}.
    excited: name of the method of the mean field that makes excitations.
    """

    make: Callable[[Any], Any]
    basis: Any = "6-31g"
    mole: Mapping[str, Any] = field(default_factory=dict)
    gradient: Mapping[str, Any] = field(default_factory=dict)
    hessian: Mapping[str, Any] = field(default_factory=dict)
    excited: str = "TDA"
    title: str = ""

    offers = frozenset(
        {"energy", "forces", "hessian", "dipole", "polarizability", "charge_forces"}
        | {"restarted", "in_angstrom", "other_integrals"}
    )
    conditions = frozenset({"spin", "field", "charges", "state"})

    def __post_init__(self):
        self._key: tuple | None = None
        self._method: Any = None

    @property
    def name(self) -> str:
        of = self.title or f"{getattr(self.make, '__name__', 'method')}/{self.basis}"
        return f"PySCF {pyscf.__version__}, {of}"

    def in_basis(self, basis: str) -> "PySCFTarget":
        return replace(self, basis=basis)

    def variants(self, setting: Setting) -> dict[str, "PySCFTarget"]:
        method = self.made(setting)
        mean_field = getattr(method, "_scf", method)
        found = {}
        if hasattr(mean_field, "grids"):
            found["finer grid"] = replace(self, make=lambda mole: _on_finer_grid(self.make(mole)))
        if hasattr(method, "with_solvent") and hasattr(method, "undo_solvent"):
            found["without solvent"] = replace(self, make=lambda mole: self.make(mole).undo_solvent())
        return found

    def made(self, setting: Setting, unit: str = "Bohr") -> Any:
        """The method of a molecule, not yet run."""
        positions = setting.in_angstrom if unit == "Angstrom" else setting.positions
        atoms = list(zip(setting.symbols, np.asarray(positions).tolist(), strict=True))
        given = {"basis": self.basis, "charge": setting.charge, "spin": setting.spin, **self.mole}
        method = self.make(gto.M(atom=atoms, unit=unit, verbose=0, **given))
        mean_field = getattr(method, "_scf", method)
        for name, value in TIGHT.items():
            now, better = getattr(mean_field, name, None), max if name == "max_cycle" else min
            setattr(mean_field, name, value if now is None else better(now, value))
        for name, value in TIGHT_CORRELATED.items():
            if method is not mean_field and hasattr(method, name):
                setattr(method, name, min(getattr(method, name), value))
        if np.any(setting.field):
            _in_field(mean_field, np.asarray(setting.field))
        if len(setting.charges):
            method = qmmm.mm_charge(method, setting.charges[:, :3], setting.charges[:, 3], unit="Bohr")
        return method

    def _run(self, setting):
        """The method after its calculation; the last one is kept."""
        ground = setting.but(state=0)
        if self._key != ground.key:
            method = _solved(self.made(ground), setting, self._start(ground))
            self._key, self._method = ground.key, method
        return self._method

    def _start(self, setting):
        """The density of the last calculation where that is of the same functions and electrons."""
        return self._method.make_rdm1() if self._key is not None and self._key[:4] == setting.key[:4] else None

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity from PySCF's own code."""
        if np.any(setting.field) and quantity not in ("energy", "dipole"):
            raise UnsupportedError("derivatives in a field are not those of PySCF's own code.")
        method = self._run(setting)
        if setting.state:
            method = self._excited(method, setting)
            if quantity not in ("energy", "forces"):
                raise UnsupportedError("energies and forces of excited states only.")
        return getattr(self, f"_{quantity}")(method, setting)

    def _excited(self, method, setting):
        excited = getattr(method, self.excited)()
        excited.nstates, excited.conv_tol = setting.state + 3, 1e-10
        excited.verbose = 0
        excited.kernel()
        return excited

    def _energy(self, method, setting):
        if setting.state:
            return method.e_tot[setting.state - 1]
        free = getattr(method, "e_free", None)  # forces belong to it where occupations are smeared
        return method.e_tot if free is None else free

    def _forces(self, method, setting):
        gradient = _with(method.nuc_grad_method(), self.gradient)
        return -gradient.kernel(**{"state": setting.state} if setting.state else {})

    def _hessian(self, method, setting):
        return _with(method.Hessian(), self.hessian).kernel().transpose(0, 2, 1, 3)

    def _dipole(self, method, setting):
        return method.dip_moment(unit="AU", verbose=0)

    def _polarizability(self, method, setting):
        if not hasattr(method, "Polarizability"):
            raise UnsupportedError("PySCF has polarizabilities in its package `properties`.")
        return method.Polarizability().polarizability()

    def _charge_forces(self, method, setting):
        gradient, density = method.nuc_grad_method(), method.make_rdm1()
        density = density if density.ndim == 2 else density.sum(axis=0)
        return -(gradient.grad_hcore_mm(density) + gradient.grad_nuc_mm())

    def _restarted(self, method, setting):
        if hasattr(method, "_scf"):
            raise UnsupportedError("mean fields only are restarted.")
        return self._energy(_solved(self.made(setting), setting, method.make_rdm1()), setting)

    def _in_angstrom(self, method, setting):
        return self._energy(_solved(self.made(setting, "Angstrom"), setting), setting)

    def _other_integrals(self, method, setting):
        if hasattr(method, "_scf") or not hasattr(method, "density_fit"):
            raise UnsupportedError("mean fields only have density fitting here.")
        other = self.made(setting)
        other = other.undo_df() if getattr(other, "with_df", None) else other.density_fit()
        return self._energy(_solved(other, setting), setting)


def _solved(method, setting, start=None):
    """The method after its calculation, which begins with a density where a mean field is asked for."""
    mean_field = getattr(method, "_scf", method)
    if mean_field is not method:
        mean_field.kernel()
        method.kernel()
    else:
        method.kernel(dm0=start)
    if not (getattr(method, "converged", True) and mean_field.converged):
        raise NotConvergedError(f"PySCF's calculation of {setting.name or 'a molecule'} has not converged.")
    return method


def _with(found, attributes):
    found.verbose = 0
    for name, value in attributes.items():
        setattr(found, name, value)
    return found


def _in_field(mean_field, electric):
    """Add the field to the one-electron operator and to the energy of the nuclei."""
    mole = mean_field.mol
    matrix = mean_field.get_hcore() + np.einsum("xij,x->ij", mole.intor("int1e_r"), electric)
    nuclei = mean_field.energy_nuc() - mole.atom_charges() @ mole.atom_coords() @ electric
    mean_field.get_hcore = lambda *arguments: matrix
    mean_field.energy_nuc = lambda *arguments: nuclei


def _on_finer_grid(method):
    grids = getattr(method, "_scf", method).grids
    grids.level, grids.atom_grid = min(grids.level + 3, 9), {}
    return method
