"""ASE's calculators as targets of `dftfd audit-code`."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dftfd.errors import MissingDependencyError, UnsupportedError
from dftfd.interop.asked import Fixed, Setting, multiplicity


class ASETarget(Fixed):
    """A calculator of ASE.

    make: nothing -> Calculator, or keywords charge and multiplicity where with_electrons.
    """

    def __init__(self, make: Callable[..., Any], title: str = "", with_electrons: bool = False):
        try:
            self._ase = import_module("ase"), import_module("ase.units")
        except ImportError as error:
            raise MissingDependencyError("calculators of ASE need ASE: pip install 'dftfd[ase]'.") from error
        self.make, self.with_electrons = make, with_electrons
        first = make()
        self.name = f"ASE {self._ase[0].__version__}, {title or type(first).__name__}"
        has = set(first.implemented_properties)
        self.offers = frozenset({"energy", "forces", "dipole"} & has)
        self.conditions = frozenset({"spin"} if with_electrons else ())
        self._calculator: tuple[tuple[int, int], Any] | None = None

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity in atomic units; one calculator serves all geometries, as it does in ASE's own loops."""
        package, units = self._ase
        atoms = package.Atoms(setting.symbols, np.asarray(setting.positions) * units.Bohr)
        electrons = setting.charge, setting.spin
        if any(electrons) and not self.with_electrons:
            raise UnsupportedError("this calculator takes no charge and no spin.")
        if self._calculator is None or self._calculator[0] != electrons:
            given = {"charge": setting.charge, "multiplicity": multiplicity(setting)} if self.with_electrons else {}
            self._calculator = electrons, self.make(**given)
        atoms.calc = self._calculator[1]
        if quantity == "energy":
            return atoms.get_potential_energy() / units.Hartree
        if quantity == "forces":
            return atoms.get_forces(apply_constraint=False) * (units.Bohr / units.Hartree)
        return atoms.get_dipole_moment() / units.Bohr
