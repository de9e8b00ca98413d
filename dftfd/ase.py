"""An ASE Calculator: energies and forces for ASE's optimisers, dynamics, vibrations and databases.

    atoms.calc = DFTFD(xc="pbe", basis="def2-svp")

Needs ASE: pip install 'dftfd[ase]'. A. Hjorth Larsen et al., J. Phys.: Condens. Matter 29, 273002 (2017).
doi:10.1088/1361-648X/aa680e
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dftfd.errors import InputError, MissingDependencyError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.model.options import OPTIONS
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import refuse_unknown
from dftfd.system.molecule import molecule
from dftfd.tasks.run import run_scf

try:
    from ase import units
    from ase.calculators.calculator import Calculator, SCFError, all_changes
except ImportError as error:
    raise MissingDependencyError("dftfd.ase needs ASE: pip install 'dftfd[ase]'.") from error

OF_MOLECULE = ("basis", "charge", "spin", "cartesian", "ecp", "allow_close")


class DFTFD(Calculator):
    """Kohn-Sham energies (eV), forces (eV/angstrom), dipole moments (e angstrom), charges and magnetic moments.

    Parameters are options of `dftfd.molecule` (basis, charge, spin, cartesian, ecp) and `dftfd.run_scf` (xc, method,
    grid_level, ...), in their units, and scheme='mulliken', 'loewdin' or 'meta-loewdin' for charges and moments. By
    default, charge and spin are the sums of the atoms' initial charges and magnetic moments.

    Each calculation starts from the last density of the same atoms. With smearing, forces are those of `free_energy`.
    `calc.result` is the last SCFResult. Raises ASE's SCFError if the SCF does not converge, dftfd's errors for invalid
    input.
    """

    implemented_properties = ["energy", "free_energy", "forces", "dipole", "charges", "magmom", "magmoms"]
    default_parameters = {"xc": "pbe", "basis": "def2-svp", "charge": None, "spin": None, "scheme": "mulliken"}
    ignored_changes = {"cell"}
    discard_results_on_any_change = True

    def __init__(self, **options: Any):
        self.result: SCFResult | None = None
        super().__init__(**options)

    def set(self, **options: Any) -> dict:
        """Change parameters. Results with other parameters are discarded."""
        refuse_unknown("DFTFD", options, [*OF_MOLECULE, *OPTIONS, "scheme"])
        changed = super().set(**options)
        if changed:
            self.result = None
        return changed

    def calculate(
        self, atoms: Any = None, properties: Sequence[str] = ("energy",), system_changes: Sequence[str] = all_changes
    ) -> None:
        """Called by ASE: computes the requested properties and stores them in `results`."""
        super().calculate(atoms, properties, system_changes)
        if system_changes or self.result is None:
            self.result = self._run()
        result = self.result
        self.results |= {
            "energy": result.energy * units.Hartree,
            "free_energy": result.free_energy * units.Hartree,
            "magmom": result.spin,
        }
        if "forces" in properties:
            self.results["forces"] = result.forces() * (units.Hartree / BOHR_IN_ANGSTROM)
        if "dipole" in properties:
            self.results["dipole"] = result.dipole * BOHR_IN_ANGSTROM
        if "charges" in properties:
            self.results["charges"] = result.charges(self.parameters["scheme"])
        if "magmoms" in properties:
            self.results["magmoms"] = result.spin_populations(self.parameters["scheme"])

    def _run(self):
        options, atoms = dict(self.parameters), self.atoms
        if atoms is None:
            raise InputError("the calculator has no atoms; set atoms.calc = DFTFD(...).")
        del options["scheme"]
        of_molecule = {name: options.pop(name) for name in OF_MOLECULE if name in options}
        bare = atoms.copy()
        bare.set_constraint()  # ASE applies them to the forces
        system = molecule(bare, **of_molecule)
        last = self.result
        if last is not None and "guess" not in options and _same_electrons(last.molecule, system):
            options["guess"] = last
        result = run_scf(system, **{"progress": False} | options)
        if not result.has_properties:
            raise SCFError(f"SCF not converged after {result.cycles} cycles; see convergence= and max_cycles=.")
        return result


def _same_electrons(a, b):
    return a.symbols == b.symbols and a.spin == b.spin and np.array_equal(a.nuclear_charges, b.nuclear_charges)
