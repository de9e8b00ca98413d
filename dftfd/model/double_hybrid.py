"""What a double hybrid adds to the energy of its orbitals: perturbation theory of second order, after the SCF."""

from dataclasses import replace

from dftfd.errors import InputError
from dftfd.libcint.pair_correlation import core_orbitals, second_order_energies
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.model.solved_calculation import Solved
from dftfd.runtime.memory import memory_budget, process_memory
from dftfd.runtime.progress import Progress
from dftfd.runtime.threads import blas_threads

NOT_CONVERGED = "perturbation theory was left out: the orbitals are no solution"


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
