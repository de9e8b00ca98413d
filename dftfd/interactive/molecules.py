"""Small molecules and their atoms for pages that evaluate functionals: densities on stored grids, and along bonds.

The densities are of Hartree-Fock (data/molecular_densities/make_densities.py makes the file). With them a functional's
atomisation energies are Hartree-Fock's with its exchange replaced, those of density-corrected DFT. References: W4-17,
A. Karton, N. Sylvetsky, J. M. L. Martin, J. Comput. Chem. 38, 2063 (2017). doi:10.1002/jcc.24854
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from dftfd.runtime.json_reader import parse_json

_FILE = Path(__file__).with_name("molecules.npz")
_NINE = (0, 0, 1, 1, 1, 2, 2, 3, 3)
"""Rows of one spin of a closed shell (n, sigma, lapl, tau) in the places of all nine variables."""


@dataclass(frozen=True)
class Species:
    """A molecule or atom.   x: the nine variables (9, point), or the four of one spin of a closed shell (4, point).

    energy, exchange: of Hartree-Fock [hartree].   atoms: symbols.   reference: atomisation energy [kcal/mol].
    """

    name: str
    x: np.ndarray
    weights: np.ndarray
    energy: float
    exchange: float
    atoms: tuple[str, ...]
    reference: float | None


@dataclass(frozen=True)
class Bond:
    """Points along the axis of two atoms, like an Atom's along its radius: r (point,) [bohr] from the first nucleus.

    x, change, laplacian: the nine variables, their slopes along the axis and their Laplacians (9, point).
    slope: dn_s/dr (2, point).   hartree_potential: (point,) [hartree].
    """

    symbol: str
    r: np.ndarray
    x: np.ndarray
    change: np.ndarray
    laplacian: np.ndarray
    hartree_potential: np.ndarray

    @property
    def slope(self) -> np.ndarray:
        return self.change[:2]

    @property
    def exact_potential(self) -> tuple[str, np.ndarray] | None:
        """Exchange of two electrons, where there are two."""
        return ("x", -0.5 * self.hartree_potential) if self.symbol == "H2" else None


@lru_cache(maxsize=1)
def _stored() -> dict:
    with np.load(_FILE, allow_pickle=False) as arrays:
        return dict(arrays)


def species() -> list[Species]:
    """Atoms first."""
    arrays = _stored()
    found = parse_json(str(arrays["about"]))["species"]
    return [
        Species(
            name, arrays[f"{name}.x"], arrays[f"{name}.weights"],
            one["energy"], one["exchange"], tuple(one["atoms"]), one.get("reference"),
        )
        for name, one in found.items()
    ]  # fmt: skip


def all_nine(x: np.ndarray) -> np.ndarray:
    """The nine variables of two spins of rows that may be those of a closed shell."""
    return x if len(x) == len(_NINE) else x[list(_NINE)]


def bonds() -> list[Bond]:
    """Of the molecules of two atoms."""
    arrays = _stored()
    names = [key.partition(".")[0] for key in arrays if key.endswith(".line")]
    nine = lambda name, table: all_nine(arrays[f"{name}.{table}"])
    return [
        Bond(
            name, arrays[f"{name}.s"], nine(name, "line"), nine(name, "change"), nine(name, "laplacian"),
            arrays[f"{name}.hartree"],
        )
        for name in names
    ]  # fmt: skip
