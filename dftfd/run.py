"""run_scf: from a molecule and a functional to a self-consistent result. Here the pieces are put together."""

from dataclasses import replace
from functools import lru_cache
from importlib import metadata

import numpy as np

import dftfd
from dftfd.calculation import Calculation, Ingredients
from dftfd.cheaper import Cheaper, spin_instability
from dftfd.checkpoint import as_checkpoint, resume
from dftfd.errors import InputError
from dftfd.functionals.registry import get_functional
from dftfd.io.progress import as_progress
from dftfd.molecule import Molecule
from dftfd.options import (
    checked_grid,
    checked_method,
    checked_occupations,
    checked_smearing,
    refuse_unknown,
    require_float64,
)
from dftfd.result import SCFResult, Settings
from dftfd.scf.loop import Convergence, Solution, solve
from dftfd.scf.occupation import Aufbau, GivenOccupations, MaximumOverlap, Smearing
from dftfd.scf.orbitals import LINEAR_DEPENDENCE
from dftfd.scf.strategy import checked_strategy
from dftfd.starting_density import checked_guess, other_starts, starting_density
from dftfd.surroundings import checked_surroundings
from dftfd.suspicions import may_have_several_states, refuse_part, warn_about_electrons, warn_about_functional
from dftfd.threads import blas_threads

VERSIONED = ("jax", "jaxlib", "numpy", "scipy", "pyscf", "jax-xc")


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
    convergence: str = "auto",
    level_shift: float = 0.0,
    damping: float = 0.0,
    guess="minao",
    broken_symmetry=None,
    occupations=None,
    smearing=None,
    follow_orbitals: bool = False,
    electric_field=None,
    point_charges=None,
    relativity: str | None = None,
    external_potential=None,
    linear_dependence: float = LINEAR_DEPENDENCE,
    allow_unconverged: bool = False,
    checkpoint=None,
    restart=None,
    max_memory=None,
    progress=None,
    **unknown,
) -> SCFResult:
    """The self-consistent Kohn-Sham solution for a molecule.

    molecule: from `dftfd.molecule(...)`.
    xc: name of a functional ('pbe', 'b3lyp', 'lda,vwn', '0.25*HF + 0.75*PBE, PBE') or a Functional; 'hf' is
        Hartree-Fock.
    method: 'RKS', 'UKS', 'ROKS', or 'auto': restricted for spin 0, unrestricted otherwise.
    grid_level: quality of the quadrature grid, 0 to 9.   grid: (points (point, 3) [bohr], weights (point,)) instead.
    nlc_grid_level: the same for the double integrals of nonlocal functionals, such as VV10; their cost grows with the
        square of the number of points.
    density_fit: fit the Coulomb and exchange integrals in PySCF's choice of auxiliary basis; False for exact integrals.
    conv_tol: threshold of the energy change [hartree]; its square root is that of the orbital gradient.
    max_cycles: how many cycles to try, and again where second order takes over; a run that has not converged then says
        so in `result.converged`.
    convergence: 'auto' is DIIS, and second order after 50 cycles, with a look for lower states where several may
        compete; 'fast' is the same without it; 'hard' starts with ADIIS and a level shift, goes
        on with second order, follows internal instabilities and tries to exchange nearly degenerate orbitals; 'diis',
        'adiis', 'ediis' never leave DIIS; 'second-order' and 'direct' (quasi-Newton) minimise after a start by DIIS.
    level_shift [hartree]: raises the empty orbitals.   damping: share of the previous Fock matrix, 0 to 1.
    guess: starting density: 'minao' (superposed atoms in a minimal basis), 'atom' (spherical atoms), 'hueckel', 'sap'
        (atomic potentials), 'core' (no electron repulsion), another result or the name of its file, also one in
        another basis, or a matrix (spin, ao, ao).
    broken_symmetry: for UKS, 'mix' (HOMO and LUMO of the guess) or the indices of atoms whose spin is turned over.
    occupations: numbers for the lowest orbitals, one list for RKS, else a pair of lists; they decide the number of
        electrons.
    smearing: width [hartree] of Fermi occupations, or ('gaussian', width); see `result.free_energy`.
    follow_orbitals: `occupations` are those of the orbitals of `guess`, a result in the same basis, and stay with the
        orbitals that overlap most with them: Delta-SCF for excited states.
    electric_field: (3,) [hartree / (e bohr)].   point_charges: rows (charge, x, y, z), positions in bohr.
    relativity: 'x2c' for the spin-free exact two-component Hamiltonian.
    external_potential: a Function of the point R^3 -> R, or any JAX code of it: the potential energy f(r) [hartree]
        of an electron at r [bohr]. Nuclei feel -Z f; with (f, 'electrons') they do not. See dftfd.terms.external.
    linear_dependence: overlap eigenvalues at or below it are removed from the orbital space.
    allow_unconverged: give properties of a run that has not converged; without, asking for them is an error.
    checkpoint: file that holds, after every cycle, what it takes to go on; its last generation but one is kept beside
        it. If it cannot be written a CheckpointWarning says so, and the calculation goes on.
    restart: checkpoint to go on from, of the same calculation; it is written further unless `checkpoint` is given.
    max_memory: what the process may take, in MB or as text such as '4 GB'; by default 80 % of what is free, of the
        machine and of the container around it.
    progress: True prints the SCF table; None logs it under the name `dftfd`; or a dftfd.io.progress.Progress.

    Raises InputError for options that cannot be carried out, UnsupportedError for minimisers of what has no energy,
    as models of the potential alone, NumericalError where NaN or Inf appears, ResourceError
    where memory would not suffice, CheckpointError for a checkpoint that is damaged or of another calculation.

    >>> import dftfd
    >>> result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="lda,vwn")
    >>> round(result.energy, 4)
    -2.8267
    """
    if not isinstance(molecule, Molecule):
        raise InputError(f"run_scf takes a Molecule, not {type(molecule).__name__}; make one with dftfd.molecule(...).")
    refuse_unknown(run_scf, unknown)
    require_float64()
    calculation = Calculation(
        molecule=molecule,
        functional=get_functional(xc),
        method=checked_method(method, molecule.spin),
        grid=checked_grid(grid, grid_level),
        nlc_level=checked_grid(None, nlc_grid_level),
        density_fit=density_fit,
        linear_dependence=linear_dependence,
        surroundings=checked_surroundings(molecule, electric_field, point_charges, relativity, external_potential),
        max_memory=max_memory,
    )
    guess = checked_guess(guess, calculation)
    refuse_part(xc, calculation.functional)
    warn_about_functional(xc, calculation.functional, calculation.grid)
    occupations = checked_occupations(occupations, calculation.n_spin, calculation.capacity)
    smearing = checked_smearing(smearing, occupations, calculation.method)
    strategy = checked_strategy(convergence, level_shift, damping)
    if smearing or follow_orbitals:  # other occupations, or other orbitals, would lie lower: nothing to minimise
        strategy = replace(strategy, minimiser=None, always_minimises=False, follow=False)
    thresholds = Convergence(conv_tol, max_cycles)
    progress = as_progress(progress)
    rule = {"occupations": occupations, "smearing": smearing, "follow_orbitals": bool(follow_orbitals)}
    snapshot = None if restart is None else resume(restart, calculation, rule, conv_tol)
    checkpoint = as_checkpoint(checkpoint, restart)
    if checkpoint is not None:
        checkpoint.refuse_foreign(calculation)
        checkpoint.prepare()

    ingredients = calculation.build(progress)
    if strategy.always_minimises:
        ingredients.energy.require_response()
    if snapshot is None:
        with progress.stage("starting density"):
            P, guess_name = starting_density(guess, ingredients, broken_symmetry)
    else:
        P, guess_name = None, f"checkpoint of cycle {snapshot.solution.cycles}"
    occupy = _occupier(ingredients, occupations, smearing, follow_orbitals, guess)
    settings = _settings(ingredients, thresholds, guess_name, convergence.lower(), smearing)

    def keep(snapshot):
        so_far = _result(calculation, settings, snapshot.solution, progress.seconds, allow_unconverged=False)
        checkpoint.write(so_far, snapshot, rule)

    chooses_state = not isinstance(guess, str) or broken_symmetry is not None or not isinstance(occupy, Aufbau)
    doubts = strategy.looks and not chooses_state and not ingredients.energy.lacks_response
    strategy = replace(strategy, looks=doubts and may_have_several_states(calculation))
    starts = () if snapshot is not None or chooses_state else (P,)
    if starts and strategy.looks:
        starts += tuple(other_starts(guess_name, ingredients))
    solution = _converge(
        ingredients,
        P,
        occupy,
        strategy,
        thresholds,
        progress,
        starts=starts,
        on_snapshot=None if checkpoint is None else keep,
        resume=snapshot,
    )
    if doubts and solution.converged:
        with progress.stage("doubts"):
            solution = _with_doubt(ingredients, solution, progress)
    result = _result(calculation, settings, solution, progress.seconds, allow_unconverged)
    warn_about_electrons(result, ingredients)
    return result


def _converge(ingredients: Ingredients, P, occupy, strategy, thresholds, progress, *, starts, **options) -> Solution:
    """The solution of the SCF from the density P or from where a cheaper energy leads from one of the `starts`.

    A strategy that minimises in any case is left to its own start.
    """
    problem, begun, words, cheaper = ingredients.problem(occupy), None, "", None
    with blas_threads(1):
        if strategy.looks or starts and not strategy.always_minimises:
            cheaper = Cheaper.of(ingredients, occupy, strategy.looks, progress)
        if cheaper and starts:
            begun, words = cheaper.begin(problem, starts, strategy, thresholds.max_cycles, progress)
        with progress.stage("scf"):
            solution = solve(
                problem,
                begun.state if begun else P,
                memory=begun.memory if begun else None,
                strategy=strategy,
                convergence=thresholds,
                on_cycle=progress.cycle,
                cheaper=cheaper.problem if cheaper else None,
                **options,
            )
    return replace(solution, steps=(words, *solution.steps)) if words else solution


def _with_doubt(ingredients: Ingredients, solution: Solution, progress) -> Solution:
    """The solution, with a line of doubt where its electron pairs would rather part."""
    value = spin_instability(ingredients, solution.state, progress)
    if value is None:
        return solution
    words = (
        f"DOUBT: different orbitals for both spins are lower (Hessian eigenvalue {value:.3f} hartree), see "
        "method='UKS', broken_symmetry='mix'"
    )
    progress.note(words)
    return replace(solution, steps=(*solution.steps, words))


def _settings(ingredients: Ingredients, thresholds: Convergence, guess: str, convergence: str, smearing) -> Settings:
    """What the result remembers of how it was computed."""
    calculation = ingredients.calculation
    functional = calculation.functional
    return Settings(
        functional=functional.name,
        definition=functional.definition,
        basis=calculation.molecule.basis,
        auxiliary_basis=ingredients.auxiliary_basis,
        grid_level=calculation.grid if isinstance(calculation.grid, int) else None,
        n_points=ingredients.n_points,
        guess=guess,
        conv_tol=thresholds.energy,
        max_cycles=thresholds.max_cycles,
        linear_dependence=calculation.linear_dependence,
        versions=dict(_versions()),
        nlc_grid_level=calculation.nlc_level if functional.is_nonlocal else None,
        convergence=convergence,
        smearing=smearing,
    )


@lru_cache(maxsize=1)
def _versions():
    """(name, version) of dftfd and the packages that numbers may depend on, of those installed; takes 15 ms."""
    found = [("dftfd", dftfd.__version__)]
    for name in VERSIONED:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # jax-xc, which has wheels for some platforms only
            continue
    return tuple(found)


def _occupier(ingredients: Ingredients, occupations, smearing, follow_orbitals, guess):
    """The rule for occupation numbers that the options ask for."""
    calculation = ingredients.calculation
    if follow_orbitals:
        shape = (calculation.molecule.n_ao, ingredients.X.shape[1])
        fits = isinstance(guess, SCFResult) and guess.mo_coeff.shape[1:] == shape
        if not fits or occupations is None:
            raise InputError(
                "follow_orbitals=True needs `occupations` and, as guess, the result whose orbitals they belong to, in "
                "the same basis set."
            )
        C = guess.mo_coeff if len(guess.mo_coeff) == calculation.n_spin else np.repeat(guess.mo_coeff[:1], 2, axis=0)
        return MaximumOverlap(occupations, C[: calculation.n_spin], ingredients.matrices.S)
    if occupations is not None:
        return GivenOccupations(occupations)
    if smearing is not None:
        n_electrons = tuple(calculation.capacity * n for n in calculation.n_occupied)
        return Smearing(n_electrons, calculation.capacity, smearing[1], smearing[0])
    return Aufbau(calculation.n_occupied, calculation.capacity)


def _result(calculation, settings, solution, seconds, allow_unconverged):
    """The last state, and everything that was said along the way."""
    state = solution.state
    return SCFResult(
        calculation=calculation,
        settings=settings,
        energy=state.energy,
        energies=dict(state.evaluation.energies),
        converged=solution.converged,
        cycles=solution.cycles,
        mo_energy=state.mo_energy,
        mo_occ=state.mo_occ,
        mo_coeff=state.mo_coeff,
        density_matrix=state.P,
        n_electrons_quadrature=state.evaluation.n_electrons,
        history=solution.history,
        seconds=dict(seconds),
        entropy_term=state.entropy_term,
        steps=solution.steps,
        fock=state.F,
        allow_unconverged=allow_unconverged,
    )
