"""Text for people: the summary of a result, and what its reader must know and no number shows, one line each.

Such notes are shown while a calculation runs and below its outcome, and kept in all files of results. The functions
read attributes only, so this module depends on nothing above it.
"""

import math
import textwrap
import warnings
from collections.abc import Iterator

import numpy as np

from dftfd.errors import InputWarning
from dftfd.libcint.derivatives import atom_sums
from dftfd.libcint.mole import HARTREE_IN_EV
from dftfd.model.calculation import Calculation

WIDTH = 80  # columns


def result_summary(result):
    """A readable account of an SCF result; energies in hartree."""
    rows = (f"  {what:<22}{value}".rstrip() for what, value in result_rows(result))
    said = (
        textwrap.fill(words, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        for words in (outcome(result), *result.notes)
    )
    return "\n".join([title(result), *said, *rows])


def in_one_line(result):
    """What a prompt shows of a result: what was computed, its energy [hartree], whether it is a solution."""
    state = "converged" if result.converged else "NOT CONVERGED"
    return f"<SCFResult: {title(result)}, {result.energy:.10f} hartree, {state}>"


def result_rows(result) -> list[tuple[str, str]]:
    """What the summaries list, as (what, value) in text: energies [hartree], orbitals and moments, approximations."""
    return [*_energy_rows(result), *(_property_rows(result) if result.has_properties else ()), *_method_rows(result)]


def title(result):
    """What was computed, in one line."""
    molecule, settings = result.molecule, result.settings
    return (
        f"{molecule.formula}  {result.method} {settings.functional} / {settings.basis}  "
        f"charge {result.charge:+g}, spin {result.spin:g}, {result.n_electrons:g} electrons"
    )


def outcome(result):
    """Whether the run converged."""
    if result.converged:
        steps = (step for step in result.steps if step not in result.notes)
        return "; ".join([f"converged in {result.all_cycles} cycles", *steps])
    last = result.history[-1]
    return (
        f"NOT CONVERGED after {result.cycles} cycles (energy change {last.energy_change:.1e}, gradient "
        f"{last.gradient_norm:.1e}): these numbers are not a solution"
    )


def _energy_rows(result):
    """Components that are not zero, then their sum, and what has no energy to be in it."""
    shown = [*result.energy_table, ("total energy", result.energy)]
    if result.entropy_term:
        shown += [("entropy, -T S", result.entropy_term), ("free energy", result.free_energy)]
    yield from ((what, f"{value:20.10f}") for what, value in shown)
    models = ", ".join(term.name for _, term in result.functional.terms if not term.has_energy)
    if models:
        yield f"no energy of {models}, a model potential: the total is incomplete", ""


def _property_rows(result):
    """Frontier orbitals, dipole moment and spin."""
    names = ("",) if len(result.frontier) == 1 else (" alpha", " beta")
    for name, (homo, lumo) in zip(names, result.frontier, strict=True):
        gap = "" if None in (homo, lumo) else f"   gap {(lumo - homo) * HARTREE_IN_EV:.4f} eV"
        yield f"HOMO, LUMO{name}", "".join("none".rjust(12) if e is None else f"{e:12.6f}" for e in (homo, lumo)) + gap
    x, y, z = (round(component, 6) + 0.0 for component in result.dipole)  # + 0.0 turns -0.0 into 0.0
    yield "dipole, orbitals only" if result.functional.pt2 else "dipole", f"{x:12.6f}{y:12.6f}{z:12.6f} e bohr"
    yield "dipole, length", f"{math.hypot(*result.dipole_debye):12.6f} debye"
    if result.method != "RKS":
        yield "<S^2>", f"{result.s_squared:12.6f}"


def _method_rows(result):
    """The approximations that a reader of the numbers must know."""
    settings = result.settings
    yield "Coulomb integrals", f"density fitting, {settings.auxiliary_basis}" if settings.auxiliary_basis else "exact"
    if result.n_electrons_quadrature is not None:
        origin = "given by the user" if settings.grid_level is None else f"level {settings.grid_level}"
        counts = " + ".join(f"{n:.8f}" for n in result.n_electrons_quadrature)
        yield "grid", f"{origin}, {settings.n_points} points"
        yield "electrons on the grid", counts
    potential, solvent = result.calculation.surroundings.potential, result.calculation.surroundings.solvent
    if solvent is not None:
        yield "solvent", str(solvent)
    for chosen in result.calculation.terms:
        yield "energy term", chosen.words
    if potential is not None:
        yield "external potential", f"{potential.name}, acts on electrons{' and nuclei' if potential.on_nuclei else ''}"


DEGENERATE = 1e-4
"""Energies of orbitals [hartree] that are nearer to one another have no order: a grid does not resolve it."""

DOUBT = "DOUBT: "
"""How a note begins after which the numbers may not be those of the state that was meant."""


def notes_before(calculation: Calculation, n_orbitals: int) -> tuple[str, ...]:
    """What is known before the first cycle, from the number of orbitals that the basis set has room for."""
    molecule = calculation.molecule
    notes = molecule.basis_remarks + molecule.diffuse_remarks + molecule.cartesian_remarks
    dependent = molecule.n_ao - n_orbitals
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


ELECTRON_ERROR, OF_COARSE_LEVELS = 1e-5, {0: 1e-3, 1: 1e-4}
"""Share of the electrons that no grid made for the molecule loses, and that of the two coarse levels.

Atoms H to U in all-electron bases lose 1e-6 at level 1 and 1e-7 at level 3, but up to 1e-3 at level 0; small molecules
up to 2e-5 at level 1.
"""

STEEP, DIFFUSE = 10.0, 0.03
"""Kinetic energies [hartree] of a basis function above and below which it is called so: lengths of 0.2 and 4 bohr."""


def warn_about_electrons(result, ingredients) -> None:
    """Warn where the grid holds another number of electrons than the orbitals of an SCFResult, and say why."""
    error, count = result.electron_number_error, float(np.sum(result.mo_occ))
    level = result.settings.grid_level
    if error is not None and abs(error) > OF_COARSE_LEVELS.get(level, ELECTRON_ERROR) * count:
        warnings.warn(
            f"the grid holds {count + error:.{4 if abs(error) > 1e-3 else 6}f} electrons instead of {count:.4g}: "
            + _why_electrons_are_missed(level, *_where_electrons_are_missed(result, ingredients)),
            InputWarning,
            stacklevel=4,
        )


def _where_electrons_are_missed(result, ingredients) -> tuple[str, str]:
    """The atom and the kind of basis function ('steep', 'diffuse', '') with the largest part of the electrons' error.

    The part of a function is sum_nu P_mu,nu (S^grid - S)_mu,nu; they add up to the error.
    """
    matrices, molecule = ingredients.matrices, result.molecule
    parts = np.sum(result.density_matrix.sum(axis=0) * (ingredients.grid_overlap() - matrices.S), axis=1)
    kinetic = np.diag(matrices.T)
    kinds = {"steep": kinetic > STEEP, "diffuse": kinetic < DIFFUSE}
    kinds[""] = ~(kinds["steep"] | kinds["diffuse"])
    per_atom = atom_sums(molecule, np.array([parts * of_kind for of_kind in kinds.values()]))
    largest = np.argmax(per_atom * np.sign(result.electron_number_error))
    atom, kind = np.unravel_index(largest, per_atom.shape)
    return f"{molecule.symbols[atom]}{atom + 1}", list(kinds)[kind]


def _why_electrons_are_missed(level, atom, kind) -> str:
    if level == 0:
        return "level 0 is a coarse grid, use a higher grid_level."
    if kind == "diffuse":
        return (
            f"the grid ends inside of the diffuse functions of {atom}; leave them out, or give grid=(points, weights) "
            "of molecular_grid(..., level=7, radial='becke'), which reaches farther."
        )
    which = "the points that were given are" if level is None else f"grid level {level} is"
    remedy = "give more of them there." if level is None else "use a higher grid_level."
    return f"{which} too coarse for the {f'{kind} functions of' if kind else 'density at'} {atom}, {remedy}"
