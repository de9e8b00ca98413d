"""run_scf: from a molecule and a functional to a self-consistent result. Here the pieces are put together.

An SCF starts from a density by name, a matrix, or another result; `broken_symmetry` exchanges its spins on some atoms.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import CheckpointError, InputError, closest_names
from dftfd.functionals.names import refuse_part
from dftfd.libcint.guesses import (
    atomic_density,
    atomic_potentials,
    fitted_potentials,
    hueckel_density,
    moved_density,
    projected_density,
)
from dftfd.libcint.mole import ao_slices, minao_guess
from dftfd.libcint.two_electron import core_orbitals, second_order_energies
from dftfd.model.calculation import Calculation, Ingredients, cheaper_ingredients
from dftfd.model.input_warnings import (
    may_have_several_states,
    warn_about_basis,
    warn_about_functional,
    warn_about_sizes,
)
from dftfd.model.kohn_sham import FockEvaluation
from dftfd.model.option_values import occupations_for, require_settings_of_jax
from dftfd.model.options import Options, taking
from dftfd.model.solved_calculation import Solved
from dftfd.results.checkpoint import as_checkpoint, result_of_checkpoint, resume
from dftfd.results.result import SCFResult
from dftfd.results.summary import DOUBT, notes_before, warn_about_electrons
from dftfd.results.tree import Settings
from dftfd.runtime.arguments import array
from dftfd.runtime.memory import memory_budget, process_memory
from dftfd.runtime.progress import Progress, as_progress
from dftfd.runtime.threads import blas_threads
from dftfd.runtime.version import VERSION
from dftfd.scf.approach import Approach, approach, smallest_gap
from dftfd.scf.convergence import Convergence
from dftfd.scf.loop import solve
from dftfd.scf.orbitals import Aufbau, MaximumOverlap, Occupier, aufbau, density_matrix, diagonalise, require_room
from dftfd.scf.problem import Problem, Snapshot, Solution, State
from dftfd.scf.rotation import EnergyModel
from dftfd.scf.stability import LOOKS, SUSPICIOUS, difference_response, lowest_rotation
from dftfd.system.molecule import Molecule
from dftfd.terms import CoulombExchangeEnergy

NOTHING_TO_FOLLOW = (
    "follow_orbitals=True needs `occupations` and, as guess, the result whose orbitals they belong to, in the same "
    "basis set."
)
VERSIONED = ("jax", "jaxlib", "numpy", "scipy", "pyscf", "jax-xc")


@taking(Options)
def run_scf(molecule: Molecule, options: Options) -> SCFResult:
    """The self-consistent Kohn-Sham solution for a molecule, from `dftfd.molecule(...)`.

    {options}

    Raises InputError for options that cannot be carried out, UnsupportedError for minimisers of what has no energy, as
    model potentials, NumericalError where NaN or Inf appears, ResourceError where memory would not
    suffice, CheckpointError for a checkpoint that is damaged or of another calculation.

    >>> import dftfd
    >>> result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="lda,vwn")
    >>> round(result.energy, 4)
    -2.8267
    """
    require_settings_of_jax()
    calculation = Calculation.of(molecule, options)
    return solution_of(calculation, options, calculation.build)


def solution_of(calculation: Calculation, options: Options, build: Callable[[Any], Ingredients]) -> SCFResult:
    """The result of `run_scf` for a calculation whose ingredients `build(progress)` makes, or has made before."""
    options, guess, snapshot, checkpoint = _begun(calculation, options)
    molecule, strategy, progress = calculation.molecule, options.strategy, as_progress(options.progress)
    ingredients = build(progress)
    if strategy.always_minimises:
        ingredients.energy.require_response()
    if snapshot is None:
        with progress.stage("starting density"):
            P, guess_name = starting_density(guess, ingredients, options.broken_symmetry)
    else:
        P, guess_name = None, f"checkpoint of cycle {snapshot.solution.cycles}"
    occupy = _occupier(ingredients, options, guess)
    settings = _settings(ingredients, options, guess_name)
    for note in notes_before(calculation, ingredients.X.shape[1]):
        progress.fact(note)

    def keep(snapshot):
        checkpoint.write(_result(calculation, settings, snapshot.solution, progress.seconds), snapshot)

    chooses_state = not isinstance(guess, str) or options.broken_symmetry is not None or not isinstance(occupy, Aufbau)
    doubts = strategy.looks and not chooses_state and not ingredients.energy.lacks_response
    strategy = replace(strategy, looks=doubts and may_have_several_states(calculation))
    starts = (P,) if snapshot is None and (not chooses_state or _goes_on(guess, molecule, options, occupy)) else ()
    if starts and strategy.looks:
        starts += tuple(_named(name, ingredients) for name in OTHER_STARTS if name != guess_name)
    solution = _converge(
        ingredients,
        P,
        occupy,
        strategy,
        Convergence(options.conv_tol, options.max_cycles),
        progress,
        starts=starts,
        on_snapshot=None if checkpoint is None else keep,
        resume=snapshot,
    )
    if doubts and solution.converged:
        with progress.stage("doubts"):
            solution = _with_doubt(ingredients, solution, progress)
    result = with_perturbation_theory(_result(calculation, settings, solution, progress.seconds), progress)
    for note in result.notes:
        if note.startswith(DOUBT):
            progress.fact(note)
    warn_about_electrons(result, ingredients)
    return result


def plan_scf(molecule: Molecule, progress: Progress, **options: Any) -> None:
    """Refuse and warn about what `run_scf` would before its first integral, and tell the memory that it takes."""
    require_settings_of_jax()
    given = Options.given_to("run_scf", **options)
    calculation = Calculation.of(molecule, given)
    _begun(calculation, given)
    energy = calculation.energy(progress)
    if given.strategy.always_minimises:
        energy.require_response()


def _begun(calculation: Calculation, options: Options) -> tuple[Options, Any, Snapshot | None, Any]:
    """Options that were checked with the molecule, the guess, the Snapshot to go on from, the Checkpoint to write.

    All that is refused before an integral is computed is refused here, so that a plan and a run refuse the same.
    """
    occupations = occupations_for(options.occupations, calculation.n_spin, calculation.capacity)
    options = replace(options, method=calculation.method, occupations=occupations)
    occupied = calculation.n_occupied if occupations is None else map(len, occupations)
    require_room(max(occupied), calculation.molecule.n_ao)
    refuse_frozen_core(calculation, options)
    guess = checked_guess(options.guess, calculation)
    require_broken_symmetry(options.broken_symmetry, calculation)
    if options.follow_orbitals and (occupations is None or not _in_same_basis(guess, calculation.molecule)):
        raise InputError(NOTHING_TO_FOLLOW)
    refuse_part(options.xc, calculation.functional)
    warn_about_functional(options.xc, calculation.functional, calculation.grid)
    warn_about_basis(calculation.functional, calculation.molecule, options.relativity)
    warn_about_sizes(options, calculation.molecule)
    snapshot = None if options.restart is None else resume(options.restart, calculation, options)
    checkpoint: Any = as_checkpoint(options.checkpoint, options.restart)
    if checkpoint is not None:
        checkpoint.prepare(calculation)
    return options, guess, snapshot, checkpoint


def _goes_on(guess, molecule, options: Options, occupy) -> bool:
    """Whether a result at another geometry is gone on with, as in an optimisation: a cheaper energy is near it, too."""
    if not isinstance(guess, SCFResult) or options.broken_symmetry is not None or not isinstance(occupy, Aufbau):
        return False
    before = guess.molecule
    return before.symbols == molecule.symbols and not np.array_equal(before.coordinates, molecule.coordinates)


def _converge(ingredients: Ingredients, P, occupy, strategy, thresholds, progress, *, starts, **how) -> Solution:
    """The solution of the SCF from the density P or from where a cheaper energy leads from one of the `starts`.

    A strategy that minimises in any case is left to its own start.
    """
    problem, cheaper, begun, words = ingredients.problem(occupy), None, None, ""
    with blas_threads(1):
        if strategy.looks or starts and not strategy.always_minimises:
            cheaper, begun, words = cheaper_start(ingredients, problem, occupy, starts, strategy, thresholds, progress)
        with progress.stage("scf"):
            solution = solve(
                problem,
                begun.state if begun else P,
                memory=begun.memory if begun else None,
                change=begun.change if begun else float("nan"),
                strategy=strategy,
                convergence=thresholds,
                on_cycle=progress.cycle,
                cheaper=cheaper,
                **how,
            )
    if begun is None:
        return solution
    return replace(solution, steps=(words, *solution.steps), preliminary=begun.history)


def _with_doubt(ingredients: Ingredients, solution: Solution, progress) -> Solution:
    """The solution, with a line of doubt where its electron pairs would rather part."""
    value = spin_instability(ingredients, solution.state, progress)
    if value is None:
        return solution
    words = (
        f"{DOUBT}different orbitals for both spins are lower (Hessian eigenvalue {value:.3f} hartree), see "
        "method='UKS', broken_symmetry='mix', or a triplet, spin=2"
    )
    progress.fact(words)
    return replace(solution, steps=(*solution.steps, words))


def _settings(ingredients: Ingredients, options: Options, guess: str) -> Settings:
    """What the result remembers of how it was computed."""
    functional = ingredients.calculation.functional
    return Settings(
        options=options.kept(xc=functional.name),
        functional=functional.name,
        definition=functional.definition,
        basis=ingredients.calculation.molecule.basis,
        auxiliary_basis=ingredients.auxiliary_basis,
        n_points=ingredients.n_points,
        guess=guess,
        versions=dict(_versions()),
        nlc_grid_level=ingredients.calculation.nlc_level if functional.double_integral_part.terms else None,
    )


@lru_cache(maxsize=1)
def _versions():
    """(name, version) of dftfd and the packages that numbers may depend on, of those installed; takes 15 ms."""
    found = [("dftfd", VERSION)]
    for name in VERSIONED:
        try:
            found.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:  # jax-xc, which has wheels for some platforms only
            continue
    return tuple(found)


def _in_same_basis(guess, molecule: Molecule) -> bool:
    """Whether a guess is a result of the same atoms in the same basis set, wherever they are."""
    same = ("symbols", "atom_basis", "cartesian")
    return isinstance(guess, SCFResult) and all(getattr(guess.molecule, n) == getattr(molecule, n) for n in same)


def _occupier(ingredients: Ingredients, options: Options, guess):
    """The rule for occupation numbers that the options ask for."""
    calculation, occupations = ingredients.calculation, options.occupations
    if options.follow_orbitals:
        shape = (calculation.molecule.n_ao, ingredients.X.shape[1])
        if guess.mo_coeff.shape[1:] != shape:
            raise InputError(NOTHING_TO_FOLLOW)
        C = guess.mo_coeff if len(guess.mo_coeff) == calculation.n_spin else np.repeat(guess.mo_coeff[:1], 2, axis=0)
        return MaximumOverlap(occupations, C[: calculation.n_spin], ingredients.matrices.S)
    return calculation.occupier(options)


def _result(calculation, settings, solution, seconds):
    """The last state, and everything that was said along the way."""
    return SCFResult(
        calculation=calculation,
        settings=settings,
        seconds=dict(seconds),
        n_electrons_quadrature=solution.state.evaluation.n_electrons,
        **solution.told,
        allow_unconverged=settings.options.allow_unconverged,
    )


SMALL_GAP, EXCHANGE_GAP = 0.125, 0.3
"""Gap [hartree] from which on a closed shell is not asked whether its electrons would rather part, and what a whole
exact exchange adds to it."""

DOUBTFUL = 0.1
"""Hessian eigenvalue [hartree] on the coarse grid, with exchange from few fitting functions, below which that of the
calculation is asked for: up to 0.08 apart for N2 at 1.75 angstrom (SCAN), 0.02 with PBE, PBE0, CAM-B3LYP and r2SCAN."""

MOST_CYCLES = 30
"""Of the cheaper energy from each of several starts."""


def cheaper_start(
    ingredients: Ingredients, problem: Problem, occupy: Occupier, starts, strategy, thresholds: Convergence, progress
) -> tuple[Problem | None, Approach | None, str]:
    """A cheaper problem, where the SCF should start instead of starts[0] (spin, ao, ao), and how that was found.

    None where little would be saved, and where nothing was found, as without any `starts`.
    """
    found = cheaper_ingredients(ingredients, progress, strategy.looks)
    if found is None:
        return None, None, ""
    cheaper, words = found.ingredients.problem(occupy), found.words
    between, rehearsal = (one.problem(occupy) if one else None for one in (found.with_exchange, found.rehearsal))
    if not starts:
        return cheaper, None, ""
    limit = thresholds.max_cycles if len(starts) == 1 else min(thresholds.max_cycles, MOST_CYCLES)
    with progress.stage("approach"):
        begun = approach(cheaper, problem, starts, strategy, limit, thresholds, between, rehearsal)
    if begun is None:
        return cheaper, None, ""
    states = f", the lowest of {begun.states} states" if begun.states > 1 else ""
    ended = ", its last matrix corrected" if begun.corrected else ""
    words = f"{len(begun.history)} of them in a preliminary SCF {words}{states}{ended}"
    progress.note(f"preliminary SCF: {words.replace(' of them in a preliminary SCF', ' cycles')}")
    return cheaper, begun, words


def spin_instability(ingredients: Ingredients, state: State, progress) -> float | None:
    """Hessian eigenvalue [hartree] with which a closed shell goes downhill to different orbitals for both spins.

    The direction is a cheaper energy's, the value there the calculation's own: an upper bound of its lowest. None where
    it does not go downhill, and where the gap is too large for it: a semilocal Hessian is the gap less about 0.1
    hartree for frontier orbitals in the same place, and exact exchange widens the gap by what it takes off again.
    """
    calculation = ingredients.calculation
    share = sum(fraction for _, fraction in calculation.functional.exact_exchange)
    if calculation.method != "RKS" or not calculation.has_finer_grid:
        return None
    if smallest_gap(state) > SMALL_GAP + EXCHANGE_GAP * share:
        return None
    whole = ingredients.unrestricted(progress)
    found = cheaper_ingredients(whole, progress, True)
    if found is None:
        return None
    evaluation = FockEvaluation(np.repeat(state.F, 2, axis=0), state.evaluation.energies, None)
    P, energies, coefficients = (np.repeat(a, 2, axis=0) for a in (state.P / 2, state.mo_energy, state.mo_coeff))
    both = State(P, evaluation, energies, np.repeat(state.mo_occ / 2, 2, axis=0), coefficients)
    exchange = found.ingredients.energy.of_kind(CoulombExchangeEnergy)
    rough = _parting(found.ingredients, exchange.with_few_for_exchange(), both)
    value, direction = lowest_rotation(rough, antisymmetric=True, products=LOOKS)
    if value is None or value > DOUBTFUL:
        return None
    curvature = _parting(whole, whole.energy.of_kind(CoulombExchangeEnergy), both).hessian_times(direction)
    value = float(direction @ curvature / (direction @ direction))
    return value if value < SUSPICIOUS else None


def _parting(ingredients: Ingredients, exchange: CoulombExchangeEnergy, state: State) -> EnergyModel:
    """The energy in rotations that turn alpha and beta orbitals oppositely: exchange of one spin stands for both.

    exchange: what takes the place of the Coulomb and exchange energy, whose Coulomb part does not change.
    """
    calculation = ingredients.calculation
    rest = (term for term in ingredients.energy.terms if not isinstance(term, CoulombExchangeEnergy))
    problem = ingredients.with_terms(*rest).problem(Aufbau(calculation.n_occupied, calculation.capacity))

    def response(P, C):
        of_rest, of_exchange = difference_response(problem, P, C), exchange.response(P, C[:1], triplet=True)

        def change(dC):
            (dF,) = of_exchange(dC[:1])
            return [of_spin + sign * dF for of_spin, sign in zip(of_rest(dC), (1.0, -1.0), strict=True)]

        return change

    return EnergyModel(problem, state, response)


NOT_CONVERGED = "perturbation theory was left out: the orbitals are not a solution"


def refuse_frozen_core(calculation: Calculation, options: Options) -> None:
    """Raise InputError for frozen_core= without perturbation theory."""
    if options.frozen_core and not calculation.functional.pt2:
        name = calculation.functional.name
        raise InputError(f"frozen_core=True is for double hybrids; {name!r} has no perturbation theory.")


def with_perturbation_theory(result: Solved, progress: Progress) -> Solved:
    """The SCFResult with the scaled energy of second order, under "pt2"; of other functionals as it is."""
    fractions = result.functional.pt2
    if not fractions:
        return result
    if not result.converged:
        return replace(result, steps=(*result.steps, NOT_CONVERGED))
    calculation, molecule = result.calculation, result.molecule
    frozen = core_orbitals(molecule) if result.settings.options.frozen_core else 0
    room = process_memory() + memory_budget(calculation.max_memory)
    orbitals = result.mo_energy, result.mo_coeff, result.mo_occ
    with progress.stage("perturbation theory"), blas_threads(1):
        pairs = second_order_energies(molecule, *orbitals, calculation.density_fit, frozen, room)
    energy = sum(fraction * pair for fraction, pair in zip(fractions, pairs, strict=True))
    return replace(result, energy=result.energy + energy, energies={**result.energies, "pt2": energy})


GUESSES = ("minao", "atom", "hueckel", "sap", "core")

DENSITY = array(expected="the name of a guess or of a file, a result, or a matrix (spin, ao, ao) of finite numbers")

OTHER_STARTS = ("minao", "atom")
"""Guesses that are tried besides the one asked for where several states may compete."""

# Unpaired electrons of an atom in its ground state, by atomic number up to Kr; beyond, the element above in its group.
_UNPAIRED = "0 1 0 1 0 1 2 3 2 1 0 1 0 1 2 3 2 1 0 1 0 1 2 3 6 5 4 3 2 1 0 1 2 3 2 1 0".split()


def checked_guess(guess, calculation: Calculation):
    """A guess as `starting_density` takes it: the name of a checkpoint has become its result.

    Raises InputError, before any integral is computed, for an unknown name or a matrix that does not fit,
    CheckpointError for a file that is no checkpoint or one of other atoms.
    """
    if isinstance(guess, Path) or isinstance(guess, str) and _is_file_name(guess):
        result = result_of_checkpoint(guess)
        if result.molecule.symbols != calculation.molecule.symbols:
            raise CheckpointError(
                f"{guess} is the checkpoint of {result.molecule.formula} / {result.molecule.basis}, not of "
                f"{calculation.molecule.formula} / {calculation.molecule.basis}; to project its density anyway, "
                "give guess=dftfd.load_result(...)."
            )
        return result
    if isinstance(guess, str):
        if guess.lower() not in (*GUESSES, "huckel"):
            closest = ", ".join(closest_names(guess, GUESSES))
            raise InputError(
                f"unknown guess {guess!r}; allowed: {', '.join(GUESSES)} (closest: {closest}), a checkpoint file, a "
                "result or a density matrix."
            )
        if guess.lower() == "sap":
            fitted_potentials(calculation.molecule)
    elif not isinstance(guess, SCFResult):
        checked_density(guess, calculation.n_spin, calculation.molecule.n_ao)
    return guess


def _is_file_name(guess):
    """A name with a folder or an ending, which no guess has."""
    return guess.lower() not in GUESSES and ("." in guess or os.sep in guess)


def starting_density(guess, ingredients: Ingredients, broken_symmetry=None):
    """P (spin, ao, ao) and the name of the guess."""
    calculation = ingredients.calculation
    if isinstance(guess, str):
        P, name = _named(guess, ingredients), guess.lower()
    elif isinstance(guess, SCFResult):
        P, name = _from_result(guess, calculation), f"result of {guess.settings.functional} / {guess.settings.basis}"
    else:
        P, name = checked_density(guess, calculation.n_spin, calculation.molecule.n_ao), "given"
    if broken_symmetry is None:
        return P, name
    if broken_symmetry == "mix":
        F = ingredients.energy.evaluate(P).F.mean(axis=0)
        return mixed_frontier(F, ingredients.X, calculation.n_occupied), f"{name}, HOMO and LUMO mixed"
    atoms = list(broken_symmetry)
    P = flip_spins(calculation.molecule, P, atoms)
    P = nearest_determinant(P, ingredients.matrices.S, ingredients.X, calculation.n_occupied)
    return P, f"{name}, spin flipped on atoms {atoms}"


def require_broken_symmetry(broken_symmetry, calculation: Calculation) -> None:
    """InputError for broken symmetry of a restricted calculation, and of atoms that are not there."""
    if broken_symmetry is None:
        return
    if calculation.method != "UKS":
        raise InputError(f"broken_symmetry needs method='UKS', not {calculation.method}.")
    last = calculation.molecule.n_atoms - 1
    if broken_symmetry != "mix" and not 0 <= max(broken_symmetry, default=-1) <= last:
        raise InputError(f"broken_symmetry={list(broken_symmetry)}: give 'mix' or indices of atoms from 0 to {last}.")
    if broken_symmetry != "mix" and {*broken_symmetry} >= {*np.flatnonzero(calculation.molecule.nuclear_charges)}:
        raise InputError(
            f"broken_symmetry={list(broken_symmetry)} flips the spins of all atoms, which breaks no symmetry; name "
            "those whose spins are down."
        )


def _named(guess, ingredients):
    calculation = ingredients.calculation
    molecule, n_spin = calculation.molecule, calculation.n_spin
    match guess.lower():
        case "minao":
            return minao_guess(molecule, n_spin)
        case "atom":
            return spin_densities(atomic_density(molecule), n_spin)
        case "hueckel" | "huckel":
            return spin_densities(hueckel_density(molecule), n_spin)
        case "core":
            H = ingredients.matrices.H_core
        case _:  # sap
            H = ingredients.matrices.H_core + atomic_potentials(molecule)
    return core_guess(H, ingredients.X, calculation.n_occupied, calculation.capacity)


def _from_result(result: SCFResult, calculation: Calculation):
    """The result's density in the basis and with the number of spins of the new calculation."""
    P, before, molecule = result.density_matrix, result.molecule, calculation.molecule
    if any(getattr(before, name) != getattr(molecule, name) for name in ("symbols", "atom_basis", "cartesian")):
        P = projected_density(before, P, molecule)
    elif not np.array_equal(before.coordinates, molecule.coordinates):
        P = moved_density(before, P, molecule, calculation.linear_dependence)
    if len(P) != calculation.n_spin:
        P = spin_densities(P.sum(axis=0), calculation.n_spin)
    return checked_density(P, calculation.n_spin, molecule.n_ao)


def flip_spins(molecule, P, atoms) -> np.ndarray:
    """P (2, ao, ao) with the spins of some atoms turned over.

    A density with unpaired spins, as from a high-spin result, has alpha and beta exchanged in these atoms' blocks. One
    without gets its atoms' unpaired electrons first: each atomic block P_A/2 becomes (1 + m) P_A/2 and (1 - m) P_A/2,
    m the atom's unpaired electrons over its electrons, with m < 0 for the flipped atoms.
    """
    flipped = np.zeros(P.shape[1], dtype=bool)
    slices = ao_slices(molecule)
    for atom in atoms:
        flipped[slice(*slices[atom])] = True
    # some atomic block of the spin density is more than noise; minao's cut beta matrix has none
    if any(np.abs((P[0] - P[1])[a:b, a:b]).max(initial=0.0) > 1e-3 for a, b in slices):
        both = np.ix_(flipped, flipped)
        alpha, beta = P[0].copy(), P[1].copy()
        alpha[both], beta[both] = P[1][both], P[0][both]
        return np.stack([alpha, beta])
    total = P.sum(axis=0)
    alpha, beta = total / 2, total / 2
    for atom, (start, stop) in enumerate(slices):
        if molecule.nuclear_charges[atom] > 0:
            sign = -1.0 if atom in atoms else 1.0
            m = sign * unpaired_electrons(molecule.symbols[atom]) / molecule.nuclear_charges[atom]
            block = (slice(start, stop), slice(start, stop))
            alpha[block], beta[block] = (1 + m) * total[block] / 2, (1 - m) * total[block] / 2
    return np.stack([alpha, beta])


def unpaired_electrons(symbol) -> int:
    """Unpaired electrons of a free atom by Hund's rule; heavy elements count like the lighter ones of their group."""
    Z = ATOMIC_NUMBERS[symbol]
    while len(_UNPAIRED) <= Z:
        Z -= 32 if Z > 70 else 18
    return int(_UNPAIRED[Z])


def spin_densities(P_total, n_spin):
    """A total density matrix (ao, ao) as (n_spin, ao, ao): itself for a restricted run, two halves otherwise."""
    return np.repeat(P_total[None] / n_spin, n_spin, axis=0)


def core_guess(H_core, X, n_occupied, capacity):
    """P (spin, ao, ao) from the orbitals of the core Hamiltonian, electrons that do not see each other."""
    energies, C = diagonalise(np.repeat(H_core[None], len(n_occupied), axis=0), X)
    return density_matrix(C, aufbau(energies, n_occupied, capacity))


def mixed_frontier(F, X, n_occupied, angle=np.pi / 4):
    """P (2, ao, ao) of the orbitals of F (ao, ao) with HOMO and LUMO mixed, oppositely for alpha and beta.

    Both spins' HOMOs become cos HOMO +- sin LUMO: localised on either side where the two are bonding and antibonding.
    """
    energies, C = diagonalise(F[None], X)
    densities = []
    for n, sign in zip(n_occupied, (1.0, -1.0), strict=True):
        C_s = C[0].copy()
        if 0 < n < C_s.shape[1]:
            homo, lumo = C[0][:, n - 1], C[0][:, n]
            C_s[:, n - 1] = np.cos(angle) * homo + sign * np.sin(angle) * lumo
        densities.append(C_s[:, :n] @ C_s[:, :n].T)
    return np.stack(densities)


def nearest_determinant(P, S, X, n_occupied):
    """P (spin, ao, ao) of the `n_occupied` natural orbitals with the largest occupations per spin of a given P.

    Densities put together from pieces can have negative occupations, which no functional is made for.
    """
    densities = []
    for P_s, n in zip(P, n_occupied, strict=True):
        _, U = np.linalg.eigh(X.T @ S @ P_s @ S @ X)
        C = X @ U[:, U.shape[1] - n :]
        densities.append(C @ C.T)
    return np.stack(densities)


def checked_density(P, n_spin, n_ao):
    """A density matrix given by the user as (n_spin, ao, ao), checked for shape, finite entries and symmetry.

    A matrix (ao, ao) is taken as the total density.
    """
    P = DENSITY.checked("guess", P)
    if P.shape == (n_ao, n_ao):
        P = spin_densities(P, n_spin)
    if P.shape != (n_spin, n_ao, n_ao):
        raise InputError(
            f"the starting density has shape {P.shape}, but the basis set has {n_ao} functions: "
            f"expected ({n_spin}, {n_ao}, {n_ao}) or the total density ({n_ao}, {n_ao})."
        )
    if not np.allclose(P, P.transpose(0, 2, 1), rtol=0.0, atol=1e-8 * max(1.0, np.abs(P).max())):
        raise InputError("the starting density is not symmetric.")
    return P
