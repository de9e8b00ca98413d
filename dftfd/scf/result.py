"""What a finished SCF run knows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dftfd.io.report import result_summary
from dftfd.scf.loop import Cycle
from dftfd.scf.occupation import frontier_energies

DEBYE = 2.5417464157449032
"""One e bohr in debye, from the CODATA 2014 constants that PySCF uses."""


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on, as it was used.

    functional, definition: its name, and the terms, parameters and exact exchange that the name stood for.
    auxiliary_basis: None for exact Coulomb and exchange integrals.   grid_level: None where the points were given.
    linear_dependence: threshold of the overlap eigenvalues.   conv_tol [hartree].
    versions: package -> version.   nlc_grid_level: of the grid for double integrals, None without them.
    convergence: the plan that was asked for.   smearing: (kind, width [hartree]) or None.
    """

    functional: str
    definition: Mapping
    basis: str
    auxiliary_basis: str | None
    grid_level: int | None
    n_points: int
    guess: str
    conv_tol: float
    max_cycles: int
    linear_dependence: float
    versions: Mapping[str, str]
    nlc_grid_level: int | None = None
    convergence: str = "auto"
    smearing: tuple[str, float] | None = None


@dataclass(frozen=True, eq=False)
class SCFResult:
    """Energy, orbitals and density of a Kohn-Sham calculation. Atomic units; `spin` is 1 (restricted) or 2.

    energy [hartree], and energies, its components: nuclear, one_electron, coulomb, xc, exact_exchange, nonlocal.
    converged, cycles: False is not an error, but no property of such a density means much.
    mo_energy, mo_occ (spin, mo); mo_coeff (spin, ao, mo); density_matrix (spin, ao, ao), the total one for one spin.
    dipole: (3,) [e bohr], origin zero.   s_squared: <S^2> of the determinant.
    n_electrons_quadrature: (spin,), integral of the density on the grid, None without a semilocal functional.
    history: the SCF table.   seconds: wall time by stage.
    entropy_term: -T S [hartree] of smeared occupations, else 0.   steps: what convergence took besides DIIS, in words.
    density, v_xc, v_tau: Functions of the point r, built when first asked for.
    """

    molecule: object
    method: str
    functional: object = field(repr=False)
    settings: Settings
    energy: float
    energies: Mapping[str, float]
    converged: bool
    cycles: int
    mo_energy: np.ndarray = field(repr=False)
    mo_occ: np.ndarray = field(repr=False)
    mo_coeff: np.ndarray = field(repr=False)
    density_matrix: np.ndarray = field(repr=False)
    dipole: np.ndarray
    s_squared: float
    n_electrons_quadrature: np.ndarray | None
    history: tuple[Cycle, ...] = field(repr=False)
    seconds: Mapping[str, float] = field(repr=False)
    function_of_r: Callable = field(repr=False)
    entropy_term: float = 0.0
    steps: tuple[str, ...] = ()
    analyse_stability: Callable | None = field(default=None, repr=False)

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __str__(self):
        return result_summary(self)

    @property
    def free_energy(self):
        """E - T S [hartree], which smeared occupations make stationary; the energy without smearing."""
        return self.energy + self.entropy_term

    def stability(self):
        """Whether the solution is a minimum: lowest eigenvalues of the energy's Hessian, internal and RKS to UKS.

        Takes about as long as the calculation. Returns a dftfd.scf.stability.Stability.
        """
        return self.analyse_stability(self)

    @property
    def dipole_debye(self):
        """Dipole moment (3,) [debye], origin zero."""
        return self.dipole * DEBYE

    @property
    def frontier(self):
        """Per spin the energies (HOMO, LUMO) [hartree]; None where there is no such orbital."""
        return frontier_energies(self.mo_energy, self.mo_occ)

    @cached_property
    def density(self):
        """The spin densities (alpha, beta) as a Function of r, R^3 -> R^2 [bohr^-3]."""
        return self.function_of_r("density", self)

    @cached_property
    def v_xc(self):
        """The exchange-correlation potential (alpha, beta) as a Function of r, R^3 -> R^2 [hartree].

        The strong form: functional derivative of the semilocal energy at `density`. For a functional of the kinetic
        energy density the operator is v_xc - 1/2 div(v_tau grad). Exact exchange has no local potential: left out.
        """
        return self.function_of_r("v_xc", self)

    @cached_property
    def v_tau(self):
        """dE_xc/dtau (alpha, beta) as a Function of r, R^3 -> R^2; None for a functional without tau."""
        return self.function_of_r("v_tau", self)
