"""What a finished SCF run knows, and what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.autofd import Function
from dftfd.errors import InputError, NotConvergedError, shown
from dftfd.functionals.base import Functional
from dftfd.interop.mean_field import mean_field
from dftfd.libcint import mole as bridge
from dftfd.model.calculation import Calculation
from dftfd.model.parameter_gradient import parameter_gradient
from dftfd.properties.fields import electrostatic_potential, localisation_function
from dftfd.properties.moments import DEBYE, dipole_moment, quadrupole_moment, spin_square
from dftfd.properties.populations import SCHEMES, atomic_charges, atomic_spins, bond_orders
from dftfd.response.excitations import Excitations
from dftfd.results.html_report import html_report, notebook_summary
from dftfd.results.notes import notes_of
from dftfd.results.output import write_result
from dftfd.results.qcschema import atomic_result
from dftfd.results.responses import Responses, of_a_solution
from dftfd.results.settings import Settings
from dftfd.results.summary import in_one_line, result_summary, title
from dftfd.results.tree import save_result
from dftfd.runtime.arguments import choice, public, whole
from dftfd.runtime.notebook import Page
from dftfd.scf.convergence import Cycle
from dftfd.scf.occupation import MaximumOverlap, frontier_energies
from dftfd.scf.orbitals import occupied_orbitals
from dftfd.system.molecule import Molecule
from dftfd.terms import COMPONENTS, OneElectronEnergy
from dftfd.xc.density import density_function, orbital_function
from dftfd.xc.potential import potentials

ALWAYS_SHOWN = ("nuclear", "xc")
"""Components that a table of energies lists even where they are zero."""

_SCHEME = choice(*SCHEMES)


def _settled(number) -> float:
    """A count without the rounding of the sum of its parts."""
    return round(float(number), 9) + 0.0  # + 0.0 turns -0.0 into 0.0


@dataclass(frozen=True, eq=False, repr=False)
class SCFResult(Responses):
    """Energy, orbitals and density of a Kohn-Sham calculation. Atomic units; `spin` is 1 (restricted) or 2.

    energy [hartree], and energies, its components by the names of dftfd.terms.COMPONENTS.
    converged, cycles: False is not an error, but such a density is no solution: what is derived from it raises
        NotConvergedError unless `allow_unconverged`.
    mo_energy, mo_occ (spin, mo); mo_coeff (spin, ao, mo); density_matrix (spin, ao, ao), the total one for one spin.
    n_electrons_quadrature: (spin,), integral of the density on the grid, None without a semilocal functional.
    history: the SCF table.   preliminary: that of a cheaper energy whose cycles went before, which `cycles` does not
        count.   seconds: wall time by stage.
    entropy_term: -T S [hartree] of smeared occupations, else 0.   steps: what convergence took besides DIIS, in words.
    fock: (spin, ao, ao) [hartree], dE/dP; None where it is not known, as in a result that was loaded.

    Properties are computed when first asked for. density, kinetic_energy_density, v_xc, v_tau, electrostatic_potential
    and elf are Functions of the point r [bohr].
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
        """How many cycles it took, those of a cheaper energy among them."""
        return len(self.preliminary) + self.cycles

    @property
    def has_properties(self) -> bool:
        """Whether the density is a solution, or whoever asked for it takes it for one."""
        return self.converged or self.allow_unconverged

    @public
    def require_converged(self, what: str) -> None:
        """Raise NotConvergedError where `what`, in words, would be derived from a density that is no solution."""
        if not self.has_properties:
            raise NotConvergedError(
                f"{what} of a run that has not converged after {self.cycles} cycles: the density is no solution. "
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
        """What dftfd.functionals.supports knows of the calculation, and of its orbitals' numbers of electrons."""
        whole = np.isin(self.mo_occ, (0.0, self.calculation.capacity)).all()
        numbers = [np.unique(n) for n in self.mo_occ]
        moved = {round(a - b, 12) for n in numbers for a in n for b in n if a > b}
        partly = {"partly filled orbitals": not whole, "unequal occupations": len(moved) > 1}
        found = (name for name, is_there in partly.items() if is_there)
        return self.calculation.features(self.settings.options).union(found)

    @property
    def n_electrons(self) -> float:
        """Number of electrons in the orbitals: that of the molecule, unless `occupations` decided otherwise."""
        return _settled(self.mo_occ.sum())

    @property
    def charge(self) -> float:
        """Charge of nuclei, core potentials and the electrons in the orbitals [e]."""
        return _settled(self.molecule.nuclear_charges.sum() - self.mo_occ.sum())

    @property
    def spin(self) -> float:
        """N_alpha - N_beta of the occupations; zero of a restricted run."""
        return 0.0 if self.method == "RKS" else _settled(self.mo_occ[0].sum() - self.mo_occ[1].sum())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the numbers must know and no number shows, a line each; doubts begin with 'DOUBT'."""
        return notes_of(self)

    @property
    def energy_table(self) -> tuple[tuple[str, float], ...]:
        """Components of the energy in words [hartree], without those that are zero beside the usual ones."""
        shown = ((name, value) for name, value in self.energies.items() if value or name in ALWAYS_SHOWN)
        words = dict(COMPONENTS)
        for chosen in self.calculation.terms:
            words |= chosen.components
        return tuple((words.get(name, name), value) for name, value in shown)

    @property
    def free_energy(self) -> float:
        """E - T S [hartree], which smeared occupations make stationary; the energy without smearing."""
        return self.energy + self.entropy_term

    @public
    def save(self, path: Path) -> None:
        """Write the result to an HDF5 file, for `dftfd.load_result(path)` and PySCF's own loader."""
        save_result(self, path)

    @public
    def write(self, path: Path, ending: str | None = None, overwrite: bool = True, **options: Any) -> None:
        """Write a file in the format that its ending names, or `ending`: .h5 .json .npz .molden .cube .html.

        overwrite: replace a file that is there.   options: for .cube, field=, a name of results.output.FIELDS or a
        Function R^3 -> R, and margin=, spacing= [bohr] of the box around the atoms; for .json, driver=, of QCSchema;
        for .html, excitations=.
        InputError for unknown endings and options, FileError for places, NotConvergedError for functions of r.
        """
        write_result(self, path, ending, overwrite, options)

    @public
    def view(self, excitations: Excitations | None = None) -> Page:
        """The report as a page that notebooks show; `.open()` shows it in the browser, `.write(path)` keeps it.

        excitations: those of this result, for their spectrum and orbitals. MissingDependencyError without Matplotlib.
        """
        return Page(title(self), html_report(self, excitations))

    @public
    def to_qcschema(self, driver: str = "energy") -> dict:
        """The result as a QCSchema AtomicResult: plain dictionaries, lists, numbers and text.

        driver: 'energy', 'gradient' [hartree/bohr], 'hessian' [hartree/bohr^2] or 'properties', which decides what
            `return_result` holds.
        """
        return atomic_result(self, driver)

    @public
    def to_pyscf(self, compare_gradient: bool | None = None) -> Any:
        """A PySCF mean-field object with these orbitals and this energy, for PySCF's own methods.

        PySCF's energy and Fock matrix of this density are compared with the result's before.
        compare_gradient: PySCF's gradient, too; None compares it in small molecules, where it costs little.

        Raises UnsupportedError where numbers differ (docs/pyscf.md says by how much they may), and where PySCF has no
        place for the functional, for fields, charges, relativity, a solvent, or for smeared and given occupations.
        """
        return mean_field(self, MaximumOverlap, compare_gradient)

    # ------------------------------------------------------------------------------------------------- orbitals

    @property
    @of_a_solution
    def frontier(self) -> tuple:
        """Per spin the energies (HOMO, LUMO) [hartree]; None where there is no such orbital.

        Occupied are orbitals that hold electrons; with smearing, those that lie below the Fermi level.
        """
        return frontier_energies(self.mo_energy, self.mo_occ, self._border)

    @property
    def is_occupied(self) -> np.ndarray:
        """(spin, mo), true for orbitals that hold electrons; with smearing, for those below the Fermi level."""
        return self.mo_occ > self._border

    @property
    def _border(self):
        return self.calculation.capacity / 2 if self.settings.smearing else 0.0

    @property
    def gap(self) -> float | None:
        """LUMO less HOMO [hartree], the lowest and the highest of both spins; None where there is no such orbital."""
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
        """dE/dp of each parameter of the functional: {'gga_x_pbe': {'kappa': ..., 'mu': ...}, ...} [hartree].

        With smeared occupations it is the derivative of `free_energy`, which is stationary, as `energy` is not then.
        """
        return parameter_gradient(self.calculation, self.density_matrix)

    @property
    def electron_number_error(self) -> float | None:
        """Integral of the density on the grid less the number of electrons; None without a grid."""
        if self.n_electrons_quadrature is None:
            return None
        return float(np.sum(self.n_electrons_quadrature) - np.sum(self.mo_occ))

    # ------------------------------------------------------------------------------------- functions of the point

    @cached_property
    @of_a_solution
    def density(self) -> Function:
        """The spin densities (alpha, beta), R^3 -> R^2 [bohr^-3]."""
        return density_function(self.molecule, self.density_matrix)

    @public
    @of_a_solution
    def orbital(self, number: Annotated[int, whole(0)], spin: Annotated[int, whole(0, 1)] = 0) -> Function:
        """An orbital, R^3 -> R [bohr^-3/2], by its place in mo_energy, the lowest is 0; spin 0 or 1 (beta)."""
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

        The strong form: functional derivative of the semilocal energy at `density`. For a functional of the kinetic
        energy density the operator is v_xc - 1/2 div(v_tau grad). Exact exchange has no local potential: left out.
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
        """Electron localisation function, R^3 -> R, between 0 and 1; see dftfd.properties.fields."""
        return localisation_function(self.density, self.kinetic_energy_density)
