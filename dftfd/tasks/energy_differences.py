"""Differences of energies: interaction energies of fragments, solvation energies, numerical forces.

In a finite basis set a fragment of a complex borrows the functions of its neighbours, which lowers the energy of the
complex alone. The counterpoise correction gives every fragment the functions and the grid of the whole, on ghosts.

S. F. Boys, F. Bernardi, Mol. Phys. 19, 553 (1970). doi:10.1080/00268977000101561

Numerical forces are slow. They check those of model.forces and share no formula with them.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from dftfd.errors import InputError, InputWarning, shown
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.model.forces import Forces, require_energy
from dftfd.model.options import Options
from dftfd.response.differences import Differences, require_same_number
from dftfd.results.document import numbers
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import number, public
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, as_progress
from dftfd.system.internal_coordinates import neighbours, reached
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import run_scf
from dftfd.terms import COMPONENTS


@dataclass(frozen=True, eq=False, repr=False)
class Interaction(ShownAsText):
    """whole: the result of the complex.   fragments: those of its parts, in its geometry.

    atoms: indices of the atoms of each.   counterpoise: whether the fragments have the basis of the whole.
    """

    whole: SCFResult
    fragments: tuple[SCFResult, ...]
    atoms: tuple[tuple[int, ...], ...] = ()
    counterpoise: bool = True

    @property
    def energy(self) -> float:
        """E(whole) - sum of E(fragment) [hartree], negative where they attract each other."""
        return self.whole.energy - sum(part.energy for part in self.fragments)

    @property
    def energy_kcal(self) -> float:
        """The same in kcal/mol."""
        return self.energy * HARTREE_IN_KCAL

    @property
    def parts(self) -> dict[str, float]:
        """The same for each component of the energy [hartree], by the names that `SCFResult.energies` has."""
        fragments = [part.energies for part in self.fragments]
        return {name: e - sum(part.get(name, 0.0) for part in fragments) for name, e in self.whole.energies.items()}

    def __str__(self):
        how = "counterpoise corrected" if self.counterpoise else "without counterpoise correction"
        doubt = "" if self.converged else "  NOT CONVERGED: these numbers are not a solution"
        rows = [f"interaction energy {self.energy_kcal:.4f} kcal/mol ({self.energy:.10f} hartree), {how}{doubt}"]
        rows.append(f"  {'whole':<24}{self.whole.energy:20.10f}  {self.whole.molecule.formula}")
        for k, part in enumerate(self.fragments, start=1):
            words = f"charge {part.molecule.charge:+d}, spin {part.molecule.spin}"
            atoms = f", atoms {' '.join(map(str, self.atoms[k - 1]))}" if self.atoms else ""
            rows.append(f"  {f'fragment {k}':<24}{part.energy:20.10f}  {words}{atoms}")
        rows.append("  parts [kcal/mol]")
        rows += [
            f"    {COMPONENTS.get(name, name):<22}{e * HARTREE_IN_KCAL:20.4f}" for name, e in self.parts.items() if e
        ]
        return "\n".join(rows)

    @property
    def converged(self) -> bool:
        """Whether all its energies are."""
        return all(result.converged for result in (self.whole, *self.fragments))


@public
def interaction_energy(
    molecule: Molecule,
    fragments: Sequence[Sequence[int]],
    xc: Any = "pbe",
    *,
    charges: Sequence[int] | None = None,
    spins: Sequence[int] | None = None,
    counterpoise: bool = True,
    **options: Any,
) -> Interaction:
    """Interaction energy of the fragments of a molecule, at its geometry.

    fragments: indices of the atoms of each fragment. Each atom, except ghosts, belongs to exactly one.
    charges, spins: of the fragments, zero by default. Charges must add up to the molecule's, and the spins must be able
        to couple to its spin.
    counterpoise: computes the fragments in the basis of the whole molecule; False: in their own.   options: for
        run_scf.

    Raises InputError for fragments that do not make up the molecule.
    """
    checked = Options.given_to("interaction_energy", xc=xc, **options)
    if given := checked.of_one_molecule() - {"progress", "grid", "broken_symmetry"}:
        raise InputError(f"{min(given)}= is for one molecule; an interaction energy computes the whole and its parts.")
    if not counterpoise and checked.broken_symmetry not in (None, "mix"):
        raise InputError(
            "broken_symmetry= by indices of atoms needs counterpoise=True, where they are the same in parts."
        )
    options = checked.changed()
    charges, spins = ([0] * len(fragments) if given is None else given for given in (charges, spins))
    real = [a for a in range(molecule.n_atoms) if not molecule.ghost[a]]
    if sorted(a for atoms in fragments for a in atoms) != real:
        raise InputError(f"fragments={shown(fragments)} must hold each of the atoms {shown(real)} once.")
    if not len(fragments) == len(charges) == len(spins) or sum(charges) != molecule.charge:
        raise InputError(
            f"{len(fragments)} fragments have charges {shown(charges)} and spins {shown(spins)}; one of each is "
            f"expected, charges adding up to {molecule.charge}."
        )
    if sum(map(abs, spins)) < abs(molecule.spin):
        raise InputError(
            f"the molecule has {abs(molecule.spin)} unpaired electrons, fragments with spins {shown(spins)} do not; "
            "give spins= (--spins) of the fragments, such as 2 for O2."
        )
    if 2 * max(map(abs, spins)) - sum(map(abs, spins)) > abs(molecule.spin):  # a metal that pairs its electrons, or O2
        warnings.warn(
            f"fragments with spins {shown(spins)} cannot couple to spin {molecule.spin} of the molecule: is its spin= "
            "(--spin) missing? The energy includes the pairing of electrons.",
            InputWarning,
            stacklevel=3,
        )
    parts = [
        fragment(molecule, atoms, charge, spin, counterpoise)
        for atoms, charge, spin in zip(fragments, charges, spins, strict=True)
    ]
    atoms = tuple(tuple(int(a) for a in fragment) for fragment in fragments)
    progress = as_progress(options.get("progress"))
    progress.note("the whole")
    whole, results = run_scf(molecule, **options), []
    for k, part in enumerate(parts, start=1):
        progress.note(f"fragment {k} of {len(parts)}")
        results.append(run_scf(part, **options))
    return Interaction(whole, tuple(results), atoms, counterpoise)


def connected_fragments(molecule: Molecule) -> list[list[int]]:
    """Indices of the atoms that hang together by bonds, those shorter than 1.3 times the sum of covalent radii."""
    bonds, found = neighbours(molecule), list[list[int]]()
    for atom in range(molecule.n_atoms):
        if not molecule.ghost[atom] and not any(atom in fragment for fragment in found):
            found.append(reached(bonds, atom))
    return found


def fragment(molecule: Molecule, atoms: Sequence[int], charge: int = 0, spin: int = 0, ghosts: bool = True) -> Molecule:
    """Some atoms of a molecule, by index, with a charge and spin of their own; the rest as ghosts, or left away."""
    names = ("symbols", "ghost", "atom_basis", "atom_ecp", "labels")
    if not ghosts:
        kept: dict[str, Any] = {name: tuple(getattr(molecule, name)[a] for a in atoms) for name in names}
        return replace(molecule, coordinates=molecule.coordinates[list(atoms)], charge=charge, spin=spin, **kept)
    inside = [a in atoms for a in range(molecule.n_atoms)]
    labels = [
        label if real or ghost else f"ghost-{label}"
        for label, real, ghost in zip(molecule.labels, inside, molecule.ghost, strict=True)
    ]
    return replace(
        molecule,
        charge=charge,
        spin=spin,
        labels=tuple(labels),
        ghost=tuple(ghost or not real for real, ghost in zip(inside, molecule.ghost, strict=True)),
        atom_ecp=tuple(ecp if real else None for real, ecp in zip(inside, molecule.atom_ecp, strict=True)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Solvation(ShownAsText):
    """solved, vacuum: the results with and without the solvent."""

    solved: SCFResult
    vacuum: SCFResult

    @property
    def energy(self) -> float:
        """E(solvent) - E(vacuum) [hartree]: with SMD the free energy of solvation, else its electrostatic part."""
        return self.solved.energy - self.vacuum.energy

    @property
    def energy_kcal(self) -> float:
        """The same in kcal/mol."""
        return self.energy * HARTREE_IN_KCAL

    @property
    def converged(self) -> bool:
        """Whether both results are."""
        return self.solved.converged and self.vacuum.converged

    def __str__(self):
        doubt = "" if self.converged else "  NOT CONVERGED"
        part = "" if self.solved.energies["solvent_cds"] else ", electrostatic part"
        rows = [f"  {'energy in vacuum':<22}{self.vacuum.energy:20.10f}"]
        rows.append(f"  {'solvation energy':<22}{self.energy:20.10f} = {self.energy_kcal:.4f} kcal/mol{part}{doubt}")
        return "\n".join(rows)


@numbers.register
def _numbers_of_solvation(found: Solvation):
    """What it prints; see dftfd.results.document."""
    return {
        "energy_in_vacuum_hartree": found.vacuum.energy,
        "solvation_energy_hartree": found.energy,
        "solvation_energy_kcal_per_mol": found.energy_kcal,
        "converged": found.converged,
    }


def in_vacuum(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `run_scf` without the solvent; a checkpoint is of the run with it."""
    return {k: v for k, v in options.items() if k not in ("solvent", "solvent_model", "checkpoint", "restart")}


@public
def solvation_energy(molecule: Molecule, xc: Any = "pbe", *, solvent: Any, **options: Any) -> Solvation:
    """Energy of a molecule in a solvent minus its energy in vacuum, at the same geometry.

    solvent, options: for `run_scf`; solvent_model="smd" gives free energies of solvation.
    """
    given = Options.given_to("solvation_energy", xc=xc, solvent=solvent, **options).changed()
    return Solvation(run_scf(molecule, **given), run_scf(molecule, **in_vacuum(given)))


STEP = 1e-3  # bohr: at 1e-13 hartree of rounding and fifth derivatives of some 10, both errors are near 1e-11


@public
def numerical_forces(
    molecule: Molecule,
    xc: Any = "pbe",
    method: str = "auto",
    *,
    step: Annotated[float, number(lambda h: 0 < h < 0.1, "a displacement between 0 and 0.1 bohr")] = STEP,
    conv_tol: float = 1e-12,
    guess: Any = "minao",
    progress: Any = None,
    **scf_options: Any,
) -> Forces:
    r"""Forces from five-point differences of the (free) energy.

        F(x) = -(8 E(x+h) - 8 E(x-h) - E(x+2h) + E(x-2h)) / 12h,   with an error of h^4 E^(5) / 30

    molecule, xc, method, scf_options: as in `run_scf`; 12 calculations per atom start from the density at the
        molecule's geometry.
    step: h [bohr].   conv_tol: of these calculations. It causes an error of about conv_tol / h in the force.

    Raises NotConvergedError if a calculation does not converge, UnsupportedError for model potentials.
    """
    progress = as_progress(progress)
    functional = get_functional(xc)
    require_energy(functional)
    given = {"xc": functional, "method": method, "conv_tol": conv_tol, "guess": guess} | scf_options
    options = Options.given_to("numerical_forces", **given, progress=Progress())
    first = run_scf(molecule, **options.changed())
    nearby = options.going_on_from(first)

    def energy(atom, axis, shift):
        coordinates = molecule.coordinates.copy()
        coordinates[atom, axis] += shift
        result = run_scf(molecule.at(coordinates), **nearby)
        result.require_converged("numerical forces")
        require_same_number(result, first, f"atom {atom} moved by {shift:g} bohr")
        return result.free_energy

    differences, values = Differences(4, step, raman=False), np.empty_like(molecule.coordinates)
    with progress.stage("displacements"):
        for done, (atom, axis) in enumerate(np.ndindex(values.shape), start=1):
            values[atom, axis] = -differences.derivative([energy(atom, axis, k * step) for k in differences.shifts])
            progress.part(done, values.size)
    fixed = not first.calculation.grid.moves
    return Forces(values, molecule.coordinates, molecule.symbols, not fixed, fixed)
