"""Solvation energies: the energy of a molecule in a solvent less that in vacuum, at the same geometry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.model.options import Options
from dftfd.results.document import numbers
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import public
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import run_scf


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
    """The energy of a molecule in a solvent less that in vacuum, at its geometry.

    solvent, options: for `run_scf`; solvent_model="smd" gives free energies of solvation.
    """
    given = Options.given_to("solvation_energy", xc=xc, solvent=solvent, **options).changed()
    return Solvation(run_scf(molecule, **given), run_scf(molecule, **in_vacuum(given)))
