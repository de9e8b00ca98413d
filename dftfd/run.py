"""run_scf: from a molecule and a functional to a self-consistent result. Here the pieces are put together."""

from functools import partial
from importlib import metadata

import numpy as np

import dftfd
from dftfd.ao_store import AOStore
from dftfd.density import density_function
from dftfd.errors import InputError
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.integrals import DensityFittedCoulombExchange, ExactCoulombExchange, one_electron
from dftfd.interop.pyscf import minao_guess
from dftfd.io.progress import as_progress
from dftfd.kernel import XCKernel
from dftfd.kohn_sham import KohnSham, dipole_moment, spin_square
from dftfd.molecule import Molecule
from dftfd.nonlocal_xc import NonlocalXCBuilder, NonlocalXCKernel
from dftfd.options import checked_grid, checked_method, refuse_unknown
from dftfd.scf.guess import checked_density, core_guess
from dftfd.scf.loop import Convergence, solve_scf
from dftfd.scf.orbitals import LINEAR_DEPENDENCE, canonical_orthonormaliser, occupied_orbitals
from dftfd.scf.result import SCFResult, Settings
from dftfd.xc import XCBuilder

GUESSES = ("minao", "core")
MAX_KERNELS = 16
_KERNELS: dict[tuple, XCKernel | NonlocalXCKernel] = {}
VERSIONED = ("jax", "jaxlib", "numpy", "scipy", "pyscf")


def run_scf(
    molecule: Molecule,
    xc="pbe",
    method: str = "auto",
    *,
    grid_level: int = 3,
    nlc_grid_level: int = 3,
    density_fit: bool = True,
    grid=None,
    conv_tol: float = 1e-9,
    max_cycles: int = 50,
    guess="minao",
    linear_dependence: float = LINEAR_DEPENDENCE,
    progress=None,
    **unknown,
) -> SCFResult:
    """The self-consistent Kohn-Sham solution for a molecule.

    molecule: from `dftfd.molecule(...)`.
    xc: name of a functional ('pbe', 'b3lyp', 'lda,vwn', '0.25*HF + 0.75*PBE, PBE') or a Functional.
    method: 'RKS', 'UKS', or 'auto': restricted for spin 0, unrestricted otherwise.
    grid_level: quality of the quadrature grid, 0 to 9.   grid: (points (point, 3) [bohr], weights (point,)) instead.
    nlc_grid_level: the same for the double integrals of nonlocal functionals, such as VV10; their cost grows with the
        square of the number of points.
    density_fit: fit the Coulomb and exchange integrals in PySCF's choice of auxiliary basis; False for exact integrals.
    conv_tol: threshold of the energy change [hartree]; its square root is that of the orbital gradient.
    max_cycles: how many cycles to try; a run that has not converged then says so in `result.converged`.
    guess: starting density: 'minao' (superposed atoms in a minimal basis), 'core' (no electron repulsion), or a matrix
        (spin, ao, ao), such as the `density_matrix` of another result.
    linear_dependence: overlap eigenvalues at or below it are removed from the orbital space.
    progress: True prints the SCF table; None logs it under the name `dftfd`; or a dftfd.io.progress.Progress.

    Raises InputError for options that cannot be carried out, NumericalError where NaN or Inf appears, ResourceError
    where memory would not suffice.

    >>> import dftfd
    >>> result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="lda,vwn")
    >>> round(result.energy, 4)
    -2.8267
    """
    if not isinstance(molecule, Molecule):
        raise InputError(f"run_scf takes a Molecule, not {type(molecule).__name__}; make one with dftfd.molecule(...).")
    refuse_unknown(unknown, run_scf.__kwdefaults__)
    method = checked_method(method, molecule.spin)
    grid, nlc_level = checked_grid(grid, grid_level), checked_grid(None, nlc_grid_level)
    n_spin = 1 if method == "RKS" else 2
    functional = get_functional(xc)
    convergence = Convergence(conv_tol, max_cycles)
    progress = as_progress(progress)

    with progress.stage("integrals"):
        matrices = one_electron(molecule)
        X = canonical_orthonormaliser(matrices.S, linear_dependence)
        coulomb_exchange = _coulomb_exchange(molecule, density_fit, bool(functional.exact_exchange))
        progress.note(coulomb_exchange.describe())
    n_occupied = (molecule.n_alpha,) if n_spin == 1 else (molecule.n_alpha, molecule.n_beta)
    with progress.stage("starting density"):
        P, guess = _starting_density(guess, molecule, matrices.H_core, X, n_occupied)
    builders = _XCBuilders(functional, molecule, n_spin, grid, nlc_level, progress)
    energy = KohnSham(
        molecule.nuclear_repulsion,
        matrices.H_core,
        coulomb_exchange,
        builders.semilocal,
        functional.exact_exchange,
        builders.nonlocal_xc,
    )
    with progress.stage("scf"):
        solution = solve_scf(
            energy.evaluate, matrices.S, X, P, n_occupied, convergence=convergence, on_cycle=progress.cycle
        )
    settings = Settings(
        functional=functional.name,
        definition=_definition(functional),
        basis=molecule.basis,
        auxiliary_basis=getattr(coulomb_exchange, "auxiliary_basis", None),
        grid_level=grid if isinstance(grid, int) else None,
        n_points=builders.n_points,
        guess=guess,
        conv_tol=conv_tol,
        max_cycles=max_cycles,
        linear_dependence=linear_dependence,
        versions={"dftfd": dftfd.__version__} | {name: metadata.version(name) for name in VERSIONED},
        nlc_grid_level=nlc_level if functional.is_nonlocal else None,
    )
    function_of_r = partial(_function_of_r, builders.nlc_grid)
    return _result(molecule, method, functional, settings, solution, matrices, progress.seconds, function_of_r)


def _result(molecule, method, functional, settings, solution, matrices, seconds, function_of_r):
    """The properties of the last state, and everything that was said along the way."""
    state = solution.state
    C_occ = occupied_orbitals(state.mo_coeff, state.mo_occ)
    return SCFResult(
        molecule=molecule,
        method=method,
        functional=functional,
        settings=settings,
        energy=state.energy,
        energies=dict(state.evaluation.energies),
        converged=solution.converged,
        cycles=solution.cycles,
        mo_energy=state.mo_energy,
        mo_occ=state.mo_occ,
        mo_coeff=state.mo_coeff,
        density_matrix=state.P,
        dipole=dipole_moment(state.P, matrices.dipole, molecule.nuclear_charges, molecule.coordinates),
        s_squared=spin_square(C_occ, matrices.S) if method == "UKS" else 0.0,
        n_electrons_quadrature=state.evaluation.n_electrons,
        history=solution.history,
        seconds=dict(seconds),
        function_of_r=function_of_r,
    )


def _definition(functional):
    """What the functional's name stood for: terms with coefficients and parameters, and exact exchange."""
    terms = [
        {
            "name": term.name,
            "coefficient": float(coefficient),
            "parameters": {name: np.asarray(value).tolist() for name, value in term.parameters.items()},
        }
        for coefficient, term in functional.terms
    ]
    return {"terms": terms, "exact_exchange": [list(map(float, pair)) for pair in functional.exact_exchange]}


def _coulomb_exchange(molecule, density_fit, exact_exchange):
    if not isinstance(density_fit, bool):
        raise InputError(f"density_fit={density_fit!r}: give True or False.")
    return DensityFittedCoulombExchange(molecule, exact_exchange) if density_fit else ExactCoulombExchange(molecule)


def _starting_density(guess, molecule, H_core, X, n_occupied):
    """P (spin, ao, ao) and the name of the guess."""
    n_spin = len(n_occupied)
    if not isinstance(guess, str):
        return checked_density(guess, n_spin, molecule.n_ao), "given"
    if guess == "minao":
        return minao_guess(molecule, n_spin), guess
    if guess == "core":
        return core_guess(H_core, X, n_occupied, 2 if n_spin == 1 else 1), guess
    raise InputError(f"unknown guess {guess!r}; allowed: {', '.join(GUESSES)} or a density matrix.")


class _XCBuilders:
    """Builders of the semilocal and the nonlocal energy, each None without such terms; the same grid is used once.

    n_points: of the semilocal grid, zero without.   nlc_grid: (points, weights) of the nonlocal one, or None.
    """

    def __init__(self, functional, molecule, n_spin, grid, nlc_level, progress):
        self.semilocal = self.nonlocal_xc = self.nlc_grid = None
        self.n_points = 0
        if not functional.terms:
            return
        kernels = {}
        with progress.stage("functional"):
            if functional.is_semilocal:
                kernels["semilocal"] = _kernel(XCKernel, functional.semilocal_part, n_spin)
            if functional.is_nonlocal:
                kernels["nonlocal_xc"] = _kernel(NonlocalXCKernel, functional.nonlocal_part, n_spin)
        grids = {"semilocal": grid, "nonlocal_xc": nlc_level}
        shared = len(kernels) == 2 and isinstance(grid, int) and grid == nlc_level
        order = max(map(_ao_order, kernels.values()))
        store = None
        for part, kernel in kernels.items():
            if store is None or not shared:
                points, weights = self._grid(molecule, grids[part], progress)
                with progress.stage("orbitals on the grid"):
                    store = AOStore(molecule, points, weights, order if shared else _ao_order(kernel))
            if part == "semilocal":
                self.semilocal, self.n_points = XCBuilder(kernel, store, progress.part), len(points)
            else:
                self.nonlocal_xc, self.nlc_grid = NonlocalXCBuilder(kernel, store), (points, weights)

    @staticmethod
    def _grid(molecule, grid, progress):
        """(points, weights) of a level, or as given."""
        with progress.stage("grid"):
            points, weights = _molecular_grid(molecule, grid) if isinstance(grid, int) else grid
            progress.note(f"grid of {len(points)} points")
        return points, weights


def _ao_order(kernel):
    return max(kernel.order, int(kernel.needs_tau))


def _kernel(kind, functional, n_spin):
    """The lowered functional; the same terms are compiled once per process, for the last few functionals."""
    key = (kind, n_spin, *((float(coefficient), id(term)) for coefficient, term in functional.terms))
    if key not in _KERNELS:
        while len(_KERNELS) >= MAX_KERNELS:
            del _KERNELS[next(iter(_KERNELS))]
        _KERNELS[key] = kind(functional, n_spin)  # holds the terms, so their ids stay theirs
    return _KERNELS[key]


def _molecular_grid(molecule, level):
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    return np.asarray(grid.points), np.asarray(grid.weights)


def _function_of_r(nlc_grid, name, result):
    """The lazy Functions of an SCFResult; nlc_grid: (points, weights) for integrals in them."""
    if name == "density":
        return density_function(result.molecule, result.density_matrix)
    potential = partial(result.functional.potential, quadrature=nlc_grid)
    if not result.functional.needs_tau:
        return potential(result.density) if name == "v_xc" else None
    densities = density_function(result.molecule, result.density_matrix, tau=True)
    return potential(*densities)[("v_xc", "v_tau").index(name)]
