"""Methods of PySCF as targets of `dftfd audit-code`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyscf
from pyscf import gto, qmmm

from dftfd.errors import NotConvergedError, UnsupportedError
from dftfd.interop.asked import Fixed, Setting

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
