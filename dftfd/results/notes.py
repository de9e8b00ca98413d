"""What a reader of a result's numbers must know and no number shows: one line each.

They are shown while a calculation runs and below its outcome, and kept in all files of results.
"""

from collections.abc import Iterator

import numpy as np

from dftfd.libcint.mole import HARTREE_IN_EV
from dftfd.model.calculation import Calculation

DEGENERATE = 1e-4
"""Energies of orbitals [hartree] that are nearer to one another have no order: a grid does not resolve it."""

DOUBT = "DOUBT: "
"""How a note begins after which the numbers may not be those of the state that was meant."""


def notes_before(calculation: Calculation, n_orbitals: int) -> tuple[str, ...]:
    """What is known before the first cycle, from the number of orbitals that the basis set has room for."""
    molecule = calculation.molecule
    notes, dependent = molecule.basis_remarks + molecule.diffuse_remarks, molecule.n_ao - n_orbitals
    if dependent:
        words = f"{dependent} of {molecule.n_ao} basis functions left out as linearly dependent: overlap eigenvalues at"
        notes += (f"{words} or below {calculation.linear_dependence:g} (linear_dependence)",)
    return notes


def notes_of(result) -> tuple[str, ...]:
    """All notes on an SCFResult, those of its convergence among them."""
    return (
        *(step for step in result.steps if step.startswith(DOUBT)),
        *notes_before(result.calculation, result.mo_energy.shape[1]),
        *_empty_below_filled(result),
        *_undefined_energies(result),
        *_orbitals_alone(result),
    )


def _empty_below_filled(result) -> Iterator[str]:
    """Of occupations that were neither given nor smeared: those of the lowest orbitals alone are a ground state's.

    Orbitals that both spins share are compared where both fill or both leave them: the energies of others are a
    convention of Roothaan's matrix.
    """
    options = result.settings.options
    if not result.converged or options.occupations is not None or options.smearing is not None:
        return
    occupations = result.mo_occ.sum(axis=0, keepdims=True) / 2 if result.method == "ROKS" else result.mo_occ
    full = 1 if result.method != "RKS" else 2
    for number, (n, energies) in enumerate(zip(occupations, result.mo_energy, strict=False)):
        filled, empty = energies[n == full], energies[n == 0]
        depth = np.max(filled, initial=-np.inf) - np.min(empty, initial=np.inf)
        if depth > DEGENERATE:
            spin = ("alpha ", "beta ")[number] if result.method == "UKS" else ""
            yield (
                f"{DOUBT}an empty {spin}orbital lies {depth * HARTREE_IN_EV:.3f} eV below a filled one: perhaps not "
                "the ground state; try another spin, convergence='hard' or smearing="
            )


def _orbitals_alone(result) -> Iterator[str]:
    if result.functional.pt2:
        yield (
            "dipole, charges and all that follows from the density are those of the orbitals; the perturbation "
            "theory of a double hybrid is in the energy alone"
        )


def _undefined_energies(result) -> Iterator[str]:
    if result.has_properties and result.undefined_spin is not None:
        yield (
            f"orbital energies of the empty {('alpha', 'beta')[result.undefined_spin]} spin are not defined: this "
            "functional's potential at zero density is not the limit of that at small ones"
        )
