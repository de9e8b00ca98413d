"""What a program is asked by `dftfd audit-code`, and what it may answer: the protocol of its targets.

Atomic units throughout: bohr, hartree, e bohr. Forces are minus the gradient.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.constants import angstrom, physical_constants

from dftfd.errors import UnsupportedError

QUANTITIES = {
    "energy": "hartree",
    "forces": "hartree/bohr",
    "hessian": "hartree/bohr^2",
    "dipole": "e bohr",
    "polarizability": "bohr^3",
    "dipole_derivatives": "e",
    "polarizability_derivatives": "bohr^2",
    "infrared": "km/mol",
    "charge_forces": "hartree/bohr",
    "restarted": "hartree",
    "reloaded": "hartree",
    "in_angstrom": "hartree",
    "other_integrals": "hartree",
}
"""What a target may offer, with its unit. Shapes: (), (atom, 3), (atom, 3, atom, 3), (3,), (3, 3), (atom, 3, 3) with
the dipole's component last, (atom, 3, 3, 3), (mode,), (charge, 3), and four energies: from stored orbitals, from a
stored result, of positions that the program is told in angstrom in place of bohr or the other way round, and with
density fitting in place of exact integrals or the other way round."""

CONDITIONS = ("spin", "field", "charges", "state")
"""What a target may be asked under: open shells, an electric field, point charges, excited states."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One calculation: nuclei and what surrounds them.

    symbols: elements, 'ghost-O' for basis functions alone.   positions: (atom, 3) [bohr].   spin: N_alpha - N_beta.
    field: (3,) [hartree / (e bohr)]; E = E(0) - dipole . field.   charges: (charge, 4), x y z [bohr] and q [e].
    state: 0 for the ground state, k for the k-th excited one.
    """

    symbols: tuple[str, ...]
    positions: np.ndarray
    charge: int = 0
    spin: int = 0
    field: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    charges: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 4)))
    state: int = 0
    name: str = ""

    def but(self, **changes: Any) -> "Setting":
        """The same with some of it replaced."""
        return replace(self, **changes)

    @property
    def in_angstrom(self) -> np.ndarray:
        """The positions (atom, 3) [angstrom], by SciPy's constant, which is none of the programs'."""
        return np.asarray(self.positions) * (physical_constants["Bohr radius"][0] / angstrom)

    @property
    def conditions(self) -> set[str]:
        """Those of CONDITIONS that this calculation has."""
        present = (self.spin != 0, bool(np.any(self.field)), len(self.charges) > 0, self.state > 0)
        return {name for name, there in zip(CONDITIONS, present, strict=True) if there}

    @property
    def key(self) -> tuple:
        """What tells calculations apart, to the last digit."""
        arrays = (self.positions, self.field, self.charges)
        return (self.symbols, self.charge, self.spin, self.state, *(np.asarray(a, float).tobytes() for a in arrays))


class Target(Protocol):
    """A program that is audited.

    name: with its version.   offers: of QUANTITIES.   conditions: of CONDITIONS.
    """

    @property
    def name(self) -> str: ...

    @property
    def offers(self) -> frozenset[str]: ...

    @property
    def conditions(self) -> frozenset[str]: ...

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity as an array. UnsupportedError where this combination is not offered."""

    def variants(self, setting: Setting) -> Mapping[str, "Target"]:
        """The same program with less of an approximation or without an ingredient, by what changes.

        "finer grid" and "without solvent" are known to the diagnosis, others are named as they are.
        """

    def in_basis(self, basis: str) -> "Target":
        """The same program in another basis set. UnsupportedError where it has none."""


def shape_of(quantity: str, setting: Setting) -> tuple[int, ...] | None:
    """The shape of a quantity; None for intensities, of which programs list as many modes as they like."""
    n = len(setting.symbols)
    shapes: dict[str, tuple[int, ...]] = {"forces": (n, 3), "hessian": (n, 3, n, 3), "dipole": (3,)}
    shapes |= {"polarizability": (3, 3), "dipole_derivatives": (n, 3, 3), "charge_forces": (len(setting.charges), 3)}
    shapes |= {"polarizability_derivatives": (n, 3, 3, 3)}
    return None if quantity == "infrared" else shapes.get(quantity, ())


def multiplicity(setting: Setting) -> int:
    """2 S + 1; UnsupportedError for more beta than alpha electrons, which programs of multiplicities do not know."""
    if setting.spin < 0:
        raise UnsupportedError("no more beta than alpha electrons offered.")
    return setting.spin + 1


class Fixed:
    """What a target has that offers no variants and no other basis set."""

    conditions: frozenset[str] = frozenset()

    def variants(self, setting: Setting) -> Mapping[str, Target]:
        return {}

    def in_basis(self, basis: str) -> Target:
        raise UnsupportedError("no basis set can be chosen for this target.")
