"""What a finished SCF run knows, and what follows from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import numpy as np
from jax.tree_util import tree_map

from dftfd.autofd import Function
from dftfd.errors import InputError, NotConvergedError, shown
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.interop.mean_field import mean_field
from dftfd.libcint import mole as bridge
from dftfd.model.calculation import Calculation
from dftfd.model.forces import nuclear_forces, point_charge_forces
from dftfd.model.solved_calculation import result_stability
from dftfd.properties.electrostatics import electrostatic_potential, localisation_function
from dftfd.properties.moments import (
    DEBYE,
    SCHEMES,
    atomic_charges,
    atomic_spins,
    bond_orders,
    dipole_moment,
    quadrupole_moment,
    spin_square,
)
from dftfd.response.excitations import SPINS, Excitations, excitations_of
from dftfd.response.hessian import METHODS, POINTS, STEP, second_derivatives
from dftfd.response.polarizability import FREQUENCY, hyperpolarizabilities, polarizabilities
from dftfd.results.html_report import html_report, notebook_summary
from dftfd.results.output import write_result
from dftfd.results.qcschema import atomic_result
from dftfd.results.summary import in_one_line, notes_of, result_summary, title
from dftfd.results.tree import Settings, save_result
from dftfd.results.vibrations import Vibrations, vibrations_of
from dftfd.runtime.arguments import choice, public, whole
from dftfd.runtime.notebook import Page
from dftfd.runtime.progress import as_progress
from dftfd.scf.convergence import Cycle
from dftfd.scf.orbitals import MaximumOverlap, frontier_energies, occupied_orbitals
from dftfd.scf.stability import Stability
from dftfd.system.isotopes import ISOTOPES
from dftfd.system.molecule import Molecule
from dftfd.terms import COMPONENTS, OneElectronEnergy
from dftfd.terms.semilocal import SemilocalEnergy
from dftfd.xc.density import density_function, orbital_function
from dftfd.xc.potential import potentials

_Code = TypeVar("_Code", bound=Callable)


def of_a_solution(method: _Code) -> _Code:
    """A property that raises NotConvergedError where the density is no solution."""

    @wraps(method)
    def checked(result, *arguments, **named):
        result.require_converged(method.__name__.strip("_").replace("_", " "))
        return method(result, *arguments, **named)

    return cast(_Code, checked)


ALWAYS_SHOWN = ("nuclear", "xc")
"""Components that a table of energies lists even where they are zero."""

FEW, SETTLED = (1e-6, 1e-9, 1e-12), 1e-6
"""Electrons that stand for few, and the change of an orbital's energy [hartree] that is none."""

_SCHEME = choice(*SCHEMES)


def _settled(number) -> float:
    """A count without the rounding of the sum of its parts."""
    return round(float(number), 9) + 0.0  # + 0.0 turns -0.0 into 0.0


@dataclass(frozen=True, eq=False, repr=False)
class SCFResult:
    """Energy, orbitals and density of a Kohn-Sham calculation. Atomic units; `spin` is 1 (restricted) or 2.

    energy, energies: [hartree]; the components by the names of dftfd.terms.COMPONENTS.
    converged, cycles: an unconverged SCF is not an error, but its properties raise NotConvergedError unless
        `allow_unconverged`.
    mo_energy, mo_occ: (spin, mo).   mo_coeff: (spin, ao, mo).
    density_matrix: (spin, ao, ao), for one spin the total one.
    n_electrons_quadrature: (spin,), integral of the density on the grid, None without a semilocal functional.
    history: the SCF table.   preliminary: the table of the preliminary SCF at reduced accuracy, which `cycles`
        excludes.
    seconds: wall time by stage.   entropy_term: -T S [hartree] of smeared occupations, otherwise 0.
    steps: methods that convergence needed besides DIIS, in words.
    fock: (spin, ao, ao) [hartree], dE/dP; None if unknown, as in a loaded result.

    Properties are computed at first access. density, kinetic_energy_density, v_xc, v_tau, electrostatic_potential and
    elf are Functions of the point r [bohr].
    """

    calculation: Calculation = field(repr=False)
    settings: Settings
    energy: float
    energies: Mapping[str, float]
    converged: bool
    cycles: int
    mo_energy: np.ndarray = field(repr=False)
    mo_occ: np.ndarray = field(repr=False)
    mo_coeff: np.ndarray = field(repr=False)
    density_matrix: np.ndarray = field(repr=False)
    n_electrons_quadrature: np.ndarray | None
    history: tuple[Cycle, ...] = field(repr=False)
    seconds: Mapping[str, float] = field(repr=False)
    entropy_term: float = 0.0
    steps: tuple[str, ...] = ()
    fock: np.ndarray | None = field(default=None, repr=False)
    allow_unconverged: bool = False
    preliminary: tuple[Cycle, ...] = field(default=(), repr=False)

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    __repr__, __str__, _repr_html_ = in_one_line, result_summary, notebook_summary

    @property
    def all_cycles(self) -> int:
        """Number of cycles, including those of the preliminary SCF."""
        return len(self.preliminary) + self.cycles

    @property
    def has_properties(self) -> bool:
        """Whether properties are available: the SCF converged, or `allow_unconverged` was given."""
        return self.converged or self.allow_unconverged

    @public
    def require_converged(self, what: str) -> None:
        """Raise NotConvergedError if `what`, in words, needs a converged density and this one is not."""
        if not self.has_properties:
            raise NotConvergedError(
                f"{what} of a run that has not converged after {self.cycles} cycles: the density is not a solution. "
                "Converge it (max_cycles=, convergence='hard'), or insist with allow_unconverged=True."
            )

    @property
    def molecule(self) -> Molecule:
        """The Molecule."""
        return self.calculation.molecule

    @property
    def functional(self) -> Functional:
        """The Functional."""
        return self.calculation.functional

    @property
    def method(self) -> str:
        """'RKS', 'UKS' or 'ROKS'."""
        return self.calculation.method

    @property
    def features(self) -> frozenset[str]:
        """Features of the calculation and its orbitals for the table dftfd.functionals.supports."""
        whole = np.isin(self.mo_occ, (0.0, self.calculation.capacity)).all()
        numbers = [np.unique(n) for n in self.mo_occ]
        moved = {round(a - b, 12) for n in numbers for a in n for b in n if a > b}
        partly = {"partly filled orbitals": not whole, "unequal occupations": len(moved) > 1}
        found = (name for name, is_there in partly.items() if is_there)
        return self.calculation.features(self.settings.options).union(found)

    @property
    def n_electrons(self) -> float:
        """Number of electrons in the orbitals: the molecule's, unless `occupations` changes it."""
        return _settled(self.mo_occ.sum())

    @property
    def charge(self) -> float:
        """Total charge of nuclei, core potentials and the electrons in the orbitals [e]."""
        return _settled(self.molecule.nuclear_charges.sum() - self.mo_occ.sum())

    @property
    def spin(self) -> float:
        """N_alpha - N_beta of the occupations; zero for restricted runs."""
        return 0.0 if self.method == "RKS" else _settled(self.mo_occ[0].sum() - self.mo_occ[1].sum())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the result, one line each. Those about the state begin with 'DOUBT'."""
        return notes_of(self)

    @property
    def energy_table(self) -> tuple[tuple[str, float], ...]:
        """Components of the energy, with a description [hartree]. Unusual components that are zero are omitted."""
        shown = ((name, value) for name, value in self.energies.items() if value or name in ALWAYS_SHOWN)
        words = dict(COMPONENTS)
        for chosen in self.calculation.terms:
            words |= chosen.components
        return tuple((words.get(name, name), value) for name, value in shown)

    @property
    def free_energy(self) -> float:
        """E - T S [hartree], the stationary energy with smearing; without smearing the energy."""
        return self.energy + self.entropy_term

    @public
    def save(self, path: Path) -> None:
        """Write the result to an HDF5 file, for `dftfd.load_result(path)` and PySCF's own loader."""
        save_result(self, path)

    @public
    def write(self, path: Path, ending: str | None = None, overwrite: bool = True, **options: Any) -> None:
        """Write a file in the format of its ending, or of `ending`: .h5 .json .npz .molden .cube .xyz .html.

        overwrite: replace an existing file.   options: for .cube, field= (a name in results.output.FIELDS or a Function
        R^3 -> R), margin= and spacing= [bohr]; for .json, driver= of QCSchema; for .html, excitations=. Raises
        InputError for unknown endings and options, FileError if the file cannot be written, NotConvergedError for
        functions of r of an unconverged run.
        """
        write_result(self, path, ending, overwrite, options)

    @public
    def view(self, excitations: Excitations | None = None) -> Page:
        """The report as a page, which notebooks show. `.open()` opens it in the browser, `.write(path)` writes a file.

        excitations: those of this result, for their spectrum and orbitals. Raises MissingDependencyError without
            Matplotlib.
        """
        return Page(title(self), html_report(self, excitations))

    @public
    def to_qcschema(self, driver: str = "energy") -> dict:
        """The result as a QCSchema AtomicResult: dictionaries, lists, numbers and text.

        driver: 'energy', 'gradient' [hartree/bohr], 'hessian' [hartree/bohr^2] or 'properties': the content of
        `return_result`.
        """
        return atomic_result(self, driver)

    @public
    def to_pyscf(self, compare_gradient: bool | None = None) -> Any:
        """A PySCF mean-field object with these orbitals and this energy, for PySCF's own methods.

        Before it is returned, PySCF's energy and Fock matrix of this density are compared with the result's.
        compare_gradient: also PySCF's gradient. None compares it for small molecules.

        Raises UnsupportedError if numbers differ (docs/pyscf.md gives the limits), and for functionals, fields,
        charges, relativity, solvents, and smeared or given occupations that PySCF's object cannot represent.
        """
        return mean_field(self, MaximumOverlap, compare_gradient)

    # ------------------------------------------------------------------------------------------------- orbitals

    @property
    @of_a_solution
    def frontier(self) -> tuple:
        """Energies (HOMO, LUMO) of each spin [hartree]. None if there is no such orbital, and for the LUMO of
        `undefined_spin`.

        Occupied orbitals hold electrons; with smearing, they lie below the Fermi level.
        """
        pairs = list(frontier_energies(self.mo_energy, self.mo_occ, self._border))
        if self.undefined_spin is not None:
            pairs[self.undefined_spin] = (None, None)
        return tuple(pairs)

    @cached_property
    def undefined_spin(self) -> int | None:
        """The spin without electrons, 0 or 1, whose orbital energies are undefined; otherwise None.

        They are defined if dE/dn for n electrons in the lowest orbital has a limit for n -> 0. Most gradient-dependent
        correlation has none: with phi(zeta), the potential grows as n^(-1/3).
        """
        empty = [s for s, n in enumerate(self.mo_occ) if not n.any()]
        if self.method != "UKS" or len(empty) != 1:
            return None
        term = self.calculation.energy_once(as_progress(False)).find(
            SemilocalEnergy
        )  # what is shown asks for no memory
        if term is None:
            return None
        (spin,), P = empty, np.array(self.density_matrix)
        orbital = self.mo_coeff[spin][:, np.argmin(self.mo_energy[spin])]

        def energy(n):
            """The part of the semilocal energy in dE/dn."""
            P[spin] = n * np.outer(orbital, orbital)
            return sum(orbital @ matrix[spin] @ orbital for matrix in term.evaluate(P).matrices.values())

        none, *few = map(energy, (0.0, *FEW))
        last_but_one, last = (abs(a - b) for a, b in pairwise(few))
        settles = last <= max(last_but_one, SETTLED) and abs(none - few[-1]) <= 10 * last + SETTLED
        return None if settles else spin

    @property
    def is_occupied(self) -> np.ndarray:
        """(spin, mo), true for orbitals that hold electrons; with smearing, for those below the Fermi level."""
        return self.mo_occ > self._border

    @property
    def _border(self):
        return self.calculation.capacity / 2 if self.settings.smearing else 0.0

    @property
    def gap(self) -> float | None:
        """Lowest LUMO minus highest HOMO of both spins [hartree]. None if there is no such orbital."""
        homos, lumos = ([e for e in column if e is not None] for column in zip(*self.frontier, strict=True))
        return min(lumos) - max(homos) if homos and lumos else None

    @cached_property
    @of_a_solution
    def s_squared(self) -> float:
        """<S^2> of the determinant."""
        if self.method == "RKS":
            return 0.0
        return spin_square(occupied_orbitals(self.mo_coeff, self.mo_occ), bridge.overlap_integrals(self.molecule))

    # -------------------------------------------------------------------------------------------------- density

    @cached_property
    @of_a_solution
    def dipole(self) -> np.ndarray:
        """Dipole moment (3,) [e bohr], origin zero."""
        return dipole_moment(self.molecule, self.density_matrix)

    @property
    def dipole_debye(self) -> np.ndarray:
        """Dipole moment (3,) [debye], origin zero."""
        return self.dipole * DEBYE

    @cached_property
    @of_a_solution
    def quadrupole(self) -> np.ndarray:
        """Traceless quadrupole moment (3, 3) [e bohr^2], origin zero; see dftfd.properties.moments."""
        return quadrupole_moment(self.molecule, self.density_matrix)

    @public
    @of_a_solution
    def charges(self, scheme: Annotated[str, _SCHEME] = "mulliken") -> np.ndarray:
        """Atomic charges (atom,) [e]; scheme: 'mulliken', 'loewdin' or 'meta-loewdin'."""
        return atomic_charges(self.molecule, self.density_matrix, scheme)

    @public
    @of_a_solution
    def spin_populations(self, scheme: Annotated[str, _SCHEME] = "mulliken") -> np.ndarray:
        """Unpaired electrons, N_alpha - N_beta, of each atom (atom,); scheme as in `charges`."""
        return atomic_spins(self.molecule, self.density_matrix, scheme)

    @public
    @of_a_solution
    def bond_orders(self) -> np.ndarray:
        """Mayer's bond orders (atom, atom): about 1 for a single bond, 2 for a double one."""
        return bond_orders(self.molecule, self.density_matrix)

    @cached_property
    def overlap(self) -> np.ndarray:
        """Overlap of the basis functions (ao, ao)."""
        return bridge.overlap_integrals(self.molecule)

    @cached_property
    def core_hamiltonian(self) -> np.ndarray:
        """Kinetic energy, nuclei, core potentials and external fields in the basis, (ao, ao) [hartree]."""
        return np.asarray(OneElectronEnergy(self.molecule, self.calculation.surroundings).matrices.H_core)

    @cached_property
    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (point, 3) [bohr] and weights (point,) [bohr^3] of the quadrature."""
        return self.calculation.grid.on(self.molecule)

    @public
    @of_a_solution
    def parameter_gradient(self) -> dict:
        """dE/dp for each parameter of the functional: {'gga_x_pbe': {'kappa': ..., 'mu': ...}, ...} [hartree].

        The energy is stationary in the orbitals, so this is the derivative at fixed density. With smeared occupations,
        it is the derivative of `free_energy`. If terms of one name share a parameter, their derivatives are added. The
        derivative with respect to omega of exact exchange is listed with the first term that has this omega. Integers
        and positions of jumps, such as HSE06's s_from, are left out. Raises UnsupportedError for jump positions that
        are parameters of users' formulas, model potentials, and e_x_lr.
        """
        supports.require("parameter gradient", self.functional)
        found: dict[str, dict[str, Any]] = {}
        for term in self.calculation.energy(as_progress(False)).terms:
            for name, slopes in term.parameter_gradient(self.density_matrix, self.functional).items():
                of_term = found.setdefault(name, {})
                for parameter, slope in slopes.items():
                    known = of_term.get(parameter)
                    of_term[parameter] = slope if known is None else tree_map(lambda a, b: a + b, known, slope)
        return found

    @property
    def electron_number_error(self) -> float | None:
        """Integral of the density on the grid minus the number of electrons; None without a grid."""
        if self.n_electrons_quadrature is None:
            return None
        return float(np.sum(self.n_electrons_quadrature) - np.sum(self.mo_occ))

    # ------------------------------------------------------------------------------------------------- responses

    @public
    @of_a_solution
    def stability(self) -> Stability:
        """Lowest eigenvalues of the energy's Hessian: within the method (internal), and from RKS to UKS (external).

        The Hessian is exact, including double integrals. The cost is about that of the SCF, more with double integrals.
        Returns a `dftfd.scf.stability.Stability`. Its `guess` leads to a lower state: run_scf(molecule, xc, 'UKS',
        guess=stability.guess, convergence='hard'). Raises UnsupportedError for model potentials, which have no energy.
        """
        return result_stability(self)

    @public
    def forces(self, grid_response: bool = True) -> np.ndarray:
        """Nuclear forces (atom, 3) [hartree/bohr], see `dftfd.model.forces.nuclear_forces`.

        grid_response: False omits the motion of the grid with the nuclei. Such forces are not the gradient of the
            energy.
        """
        return nuclear_forces(self, grid_response).values

    @public
    def point_charge_forces(self) -> np.ndarray:
        """Forces of nuclei and electrons on the charges of `point_charges` (charge, 3) [hartree/bohr].

        Minus the derivative of the energy with respect to their positions. As in the energy, forces among the charges,
        and of a field or a solvent on them, are not included. Raises the errors of `forces`.
        """
        return point_charge_forces(self)

    @public
    def hessian(
        self,
        method: Annotated[str, METHODS] = "auto",
        points: Annotated[int, POINTS] = 2,
        step: Annotated[float | None, STEP] = None,
        progress: Any = None,
    ) -> np.ndarray:
        """Second derivatives of the energy with respect to nuclear positions, (atom, 3, atom, 3) [hartree/bohr^2].

        Of the free energy with smeared occupations. The motion of the quadrature grid is included. Arguments are those
        of `vibrations`. See docs/vibrations.md.

        Raises NotConvergedError if an SCF or the coupled-perturbed equations do not converge, UnsupportedError for
        model potentials, InputError for a grid given as points.
        """
        return second_derivatives(self, method, points, step, progress=progress).hessian

    @public
    def vibrations(
        self,
        isotopes: Annotated[Any, ISOTOPES] = None,
        *,
        raman: bool = False,
        method: Annotated[str, METHODS] = "auto",
        points: Annotated[int, POINTS] = 2,
        step: Annotated[float | None, STEP] = None,
        record: Path | None = None,
        restart: bool = False,
        progress: Any = None,
    ) -> Vibrations:
        """Harmonic vibrations: wavenumbers, modes, infrared intensities, thermochemistry.

        isotopes: {atom: mass number or mass [u]}, counting ghost atoms, 'average', or None for the most abundant ones.
        raman: also compute derivatives of the polarisability.
        method: 'response', coupled-perturbed equations; 'differences' of forces at displaced geometries; 'auto', the
            first if possible and neither raman= nor record= is given.
        points, step: 2 or 4 points and displacement [bohr] for differences; see docs/vibrations.md for the defaults.
        record: file of finished displacements; restart=True continues from it.   progress: as in run_scf.

        Raises the errors of `hessian`, and FileError for an existing record without restart.
        """
        found = second_derivatives(self, method, points, step, raman, record, restart, progress)
        return vibrations_of(self, found, isotopes, atomic_result(self))

    @public
    def polarizability(self, omega: Annotated[float, FREQUENCY] = 0.0, progress: Any = None) -> np.ndarray:
        """Dipole polarisability (3, 3) [bohr^3] at a frequency omega [hartree], by default static.

        The derivative of the dipole moment with respect to an electric field (coupled-perturbed Kohn-Sham). A frequency
        needs RKS or UKS with full and empty orbitals, and uses the optical dielectric constant of a solvent. With
        smeared occupations, static only, at fixed numbers of electrons.   progress: as in run_scf. See
        docs/response.md.

        Raises NotConvergedError at a resonance, UnsupportedError for model potentials, and for smeared occupations at a
        frequency.
        """
        return polarizabilities(self, [omega], progress)[0]

    @public
    def hyperpolarizability(self, progress: Any = None) -> np.ndarray:
        """Static first hyperpolarisability (3, 3, 3) [e^3 bohr^3 / hartree^2], the second derivatives of the dipole
        moment.

        Symmetrised differences of analytic polarisabilities in fields.   progress: as in run_scf. See docs/response.md.

        Raises the errors of `polarizability`, and NotConvergedError if the SCF in a field does not converge.
        """
        return hyperpolarizabilities(self, progress=progress)[0]

    @public
    def excitations(
        self,
        n: Annotated[int, whole(1)] = 5,
        tda: bool = False,
        spin: Annotated[str | None, SPINS] = None,
        progress: Any = None,
        equilibrium_solvation: bool = False,
    ) -> Excitations:
        """The n lowest vertical excitations by linear response: energies, oscillator strengths, characters, orbitals.

        tda: Tamm-Dancoff approximation.   spin: for closed shells 'singlet' (default) or 'triplet'; 'flip' changes an
            alpha electron of UKS or ROKS to beta spin, always Tamm-Dancoff.   progress: as in run_scf. See
            docs/response.md.
        equilibrium_solvation: the whole solvent responds; by default only its electrons.

        Unconverged roots give a ConvergenceWarning and are marked in `converged`. Raises InputError for ROKS and partly
        filled orbitals, UnsupportedError for an unstable ground state and model potentials.

        >>> import dftfd
        >>> helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe")
        >>> print(helium.excitations(1).characters[0])
        HOMO -> LUMO 100 %
        """
        return excitations_of(self, n, tda, spin, progress, equilibrium=equilibrium_solvation)

    # ------------------------------------------------------------------------------------- functions of the point

    @cached_property
    @of_a_solution
    def density(self) -> Function:
        """The spin densities (alpha, beta), R^3 -> R^2 [bohr^-3]."""
        return density_function(self.molecule, self.density_matrix)

    @public
    @of_a_solution
    def orbital(self, number: Annotated[int, whole(0)], spin: Annotated[int, whole(0, 1)] = 0) -> Function:
        """Orbital `number`, R^3 -> R [bohr^-3/2], in the order of `mo_energy`, from 0; spin 0 or 1 (beta)."""
        C = self.mo_coeff[min(spin, len(self.mo_coeff) - 1)]
        if number >= C.shape[1]:
            raise InputError(f"orbital {shown(number)} was asked for; there are {C.shape[1]}, 0 to {C.shape[1] - 1}.")
        return orbital_function(self.molecule, C[:, number])

    @cached_property
    @of_a_solution
    def kinetic_energy_density(self) -> Function:
        """tau = 1/2 sum occ |grad phi|^2 (alpha, beta), R^3 -> R^2 [hartree bohr^-3]."""
        return density_function(self.molecule, self.density_matrix, tau=True)[1]

    @property
    def v_xc(self) -> Function:
        """The exchange-correlation potential (alpha, beta), R^3 -> R^2 [hartree].

        The strong form: the functional derivative of the semilocal energy at `density`. For functionals of tau, the
        operator is v_xc - 1/2 div(v_tau grad). Exact exchange has no local potential and is not included.
        """
        return self._potentials[0]

    @property
    def v_tau(self) -> Function:
        """dE_xc/dtau (alpha, beta), R^3 -> R^2; None for a functional without tau."""
        return self._potentials[1]

    @cached_property
    @of_a_solution
    def _potentials(self):
        return potentials(self.functional, self.molecule, self.density_matrix, self.calculation.nlc_grid())

    @cached_property
    @of_a_solution
    def electrostatic_potential(self) -> Function:
        """Potential of nuclei and electrons on a unit positive charge, R^3 -> R [hartree / e]."""
        return electrostatic_potential(self.molecule, self.density_matrix)

    @cached_property
    @of_a_solution
    def elf(self) -> Function:
        """Electron localisation function, R^3 -> R, between 0 and 1; see dftfd.properties.electrostatics."""
        return localisation_function(self.density, self.kinetic_energy_density)
