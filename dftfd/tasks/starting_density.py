"""The density an SCF starts from: by name, from a matrix, or from another result; and how its spin symmetry breaks."""

import os
from pathlib import Path

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import CheckpointError, InputError, closest_names
from dftfd.libcint.guesses import (
    atomic_density,
    atomic_potentials,
    fitted_potentials,
    hueckel_density,
    moved_density,
    projected_density,
)
from dftfd.libcint.mole import ao_slices, minao_guess
from dftfd.model.calculation import Calculation, Ingredients
from dftfd.results.checkpoint import result_of_checkpoint
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import array
from dftfd.scf.orbitals import aufbau, density_matrix, diagonalise

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


def other_starts(guess: str, ingredients: Ingredients):
    """Densities P (spin, ao, ao) other than that of the guess, for states that it may not lead to."""
    return [_named(name, ingredients) for name in OTHER_STARTS if name != guess]


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
