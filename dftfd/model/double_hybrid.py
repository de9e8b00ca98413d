"""What a double hybrid adds to the energy of its orbitals: perturbation theory of second order, after the SCF."""

from dataclasses import replace
from typing import Any

from dftfd.errors import InputError
from dftfd.libcint.pair_correlation import core_orbitals, second_order_energies
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.memory import memory_budget, process_memory
from dftfd.runtime.threads import blas_threads

NOT_CONVERGED = "perturbation theory was left out: the orbitals are no solution"


def require_full_orbitals(calculation: Calculation, options: Options) -> None:
    """Raise InputError where the perturbation theory of a double hybrid is not defined, or frozen_core= for another."""
    name, with_pt2 = calculation.functional.name, bool(calculation.functional.pt2)
    if options.frozen_core and not with_pt2:
        raise InputError(f"frozen_core=True is for double hybrids; {name!r} has no perturbation theory.")
    if not with_pt2:
        return
    if calculation.method == "ROKS":
        raise InputError(f"{name!r} is a double hybrid, of RKS and UKS; take method='UKS' instead of ROKS.")
    if options.smearing is not None or options.occupations is not None:
        raise InputError(f"{name!r} is a double hybrid, of the lowest orbitals, full; leave smearing, occupations out.")


def with_perturbation_theory(result: Any, progress: Any) -> Any:
    """The SCFResult with the scaled energy of second order, under "pt2"; of other functionals as it is."""
    fractions = result.functional.pt2
    if not fractions:
        return result
    if not result.converged:
        return replace(result, steps=(*result.steps, NOT_CONVERGED))
    calculation, molecule = result.calculation, result.molecule
    frozen = core_orbitals(molecule) if result.settings.frozen_core else 0
    room = process_memory() + memory_budget(calculation.max_memory)
    orbitals = result.mo_energy, result.mo_coeff, result.mo_occ
    with progress.stage("perturbation theory"), blas_threads(1):
        pairs = second_order_energies(molecule, *orbitals, calculation.density_fit, frozen, room)
    energy = sum(fraction * pair for fraction, pair in zip(fractions, pairs, strict=True))
    return replace(result, energy=result.energy + energy, energies={**result.energies, "pt2": energy})
