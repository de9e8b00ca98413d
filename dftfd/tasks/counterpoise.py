"""Interaction energies of fragments, without what they gain from each other's basis functions.

In a finite basis set a fragment of a complex borrows the functions of its neighbours, which lowers the energy of the
complex alone. The counterpoise correction gives every fragment the functions and the grid of the whole, on ghosts.

S. F. Boys, F. Bernardi, Mol. Phys. 19, 553 (1970). doi:10.1080/00268977000101561
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dftfd.errors import InputError, shown
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import public
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import as_progress
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
        for number, part in enumerate(self.fragments, start=1):
            words = f"charge {part.molecule.charge:+d}, spin {part.molecule.spin}"
            atoms = f", atoms {' '.join(map(str, self.atoms[number - 1]))}" if self.atoms else ""
            rows.append(f"  {f'fragment {number}':<24}{part.energy:20.10f}  {words}{atoms}")
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
    """The energy that binds the fragments of a molecule, at its geometry.

    fragments: indices of the atoms of each; together all atoms that are not ghosts, none twice.
    charges, spins: of the fragments, zero by default; charges must add up to the molecule's.
    counterpoise: fragments in the basis of the whole; False leaves the others' functions away.   options: for run_scf.

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
    parts = [
        fragment(molecule, atoms, charge, spin, counterpoise)
        for atoms, charge, spin in zip(fragments, charges, spins, strict=True)
    ]
    atoms = tuple(tuple(int(a) for a in fragment) for fragment in fragments)
    progress = as_progress(options.get("progress"))
    progress.note("the whole")
    whole, results = run_scf(molecule, **options), []
    for number, part in enumerate(parts, start=1):
        progress.note(f"fragment {number} of {len(parts)}")
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
