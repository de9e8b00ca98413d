"""Atoms and small molecules for pages that evaluate functionals: densities on radial and stored grids, along bonds.

Spherical atoms have the passport's densities, of Hartree-Fock orbitals. E_x is exact: by the virial theorem E = -T of
these orbitals, so E_x = -2 T - V_ne - J, all three from the density and the tabulated T.

Molecules have densities of Hartree-Fock (data/molecular_densities/make_densities.py makes the file). With them a
functional's atomisation energies are Hartree-Fock's with its exchange replaced, those of density-corrected DFT.

T. Koga, K. Kanayama, T. Watanabe, A. J. Thakkar, Int. J. Quantum Chem. 71, 491 (1999).
S. J. Chakravorty, S. R. Gwaltney, E. R. Davidson, F. A. Parpia, C. Froese Fischer, Phys. Rev. A 47, 3649 (1993)
(total energies). doi:10.1103/PhysRevA.47.3649
W4-17: A. Karton, N. Sylvetsky, J. M. L. Martin, J. Comput. Chem. 38, 2063 (2017). doi:10.1002/jcc.24854
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from scipy.special import gammainc, gammaincc

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.runtime.json_reader import parse_json
from dftfd.verify.passport import atom_tables

TOTAL = {
    "H": -0.5, "He": -2.90372, "Li": -7.47806, "Be": -14.66736, "N": -54.5892, "Ne": -128.9376, "Na": -162.2546,
    "Mg": -200.053, "P": -341.259, "Ar": -527.54,
}  # fmt: skip
"""Nonrelativistic total energies [hartree] of Chakravorty et al., compared with set AE18 of GSCDB (arXiv:2508.13468,
CC BY 4.0), where they stand in kcal/mol; the last digits are estimates from n = 11 on."""

ATOMS = (*TOTAL, "Ca", "Zn", "Kr")
POINTS = 241
INSIDE, OUTSIDE = 1e-6, 45.0
"""Radii [bohr] between which the grid lies: 1e-10 of the energy lies outside."""

_HIGHEST = 4
"""Of the orbitals' radial derivatives: a Laplacian's potential takes the density's fourth."""


@dataclass(frozen=True)
class Atom:
    """An atom on the radial grid r (point,) [bohr]."""

    symbol: str
    r: np.ndarray
    weights: np.ndarray

    @cached_property
    def _jets(self):
        """Derivatives by r, orders 0 to 4, of the density of each spin; 0 to 2 of tau."""
        n, tau = [], []
        for spin in (0, 1):
            density, kinetic = np.zeros((_HIGHEST + 1, len(self.r))), np.zeros((3, len(self.r)))
            for shell, orbital in _orbitals(self.symbol):
                share, l = orbital["occupation"][spin] / (4 * math.pi), shell["l"]
                R = _radial(shell, orbital["coefficients"], self.r)
                over_r = _leibniz(R, _power(-1, self.r), 3)
                density += share * _leibniz(R, R, _HIGHEST + 1)
                kinetic += 0.5 * share * (_leibniz(R[1:], R[1:], 3) + l * (l + 1) * _leibniz(over_r, over_r, 3))
            n.append(density)
            tau.append(kinetic)
        return n, tau

    @cached_property
    def _variables(self) -> np.ndarray:
        """All nine variables with their first two radial derivatives, (3, 9, point)."""
        n, tau = self._jets
        rows = [n_s[:3] for n_s in n]
        rows += [_leibniz(n[s][1:], n[t][1:], 3) for s, t in ((0, 0), (0, 1), (1, 1))]
        rows += [_laplacian_of(n_s, self.r) for n_s in n]
        return np.stack([*rows, *tau], axis=1)

    @property
    def x(self) -> np.ndarray:
        """The variables, (9, point)."""
        return self._variables[0]

    @property
    def change(self) -> np.ndarray:
        """Their derivative by r; by other directions they have none."""
        return self._variables[1]

    @property
    def laplacian(self) -> np.ndarray:
        """Their Laplacians."""
        return self._variables[2] + 2 * self._variables[1] / self.r

    @property
    def slope(self) -> np.ndarray:
        """dn_s/dr, (2, point)."""
        return np.stack([n[1] for n in self._jets[0]])

    @cached_property
    def hartree_potential(self) -> np.ndarray:
        r"""\int n(r') / |r - r'| dr' [hartree]: what is inside over r, and the shells outside."""
        v = np.zeros_like(self.r)
        for shell, orbital in _orbitals(self.symbol):
            occupation = sum(orbital["occupation"])
            functions = list(zip(shell["n"], shell["zeta"], orbital["coefficients"], strict=True))
            for (n1, z1, c1), (n2, z2, c2) in itertools.product(functions, repeat=2):
                k, zeta = n1 + n2, z1 + z2
                charge = occupation * c1 * c2 * _norm(n1, z1) * _norm(n2, z2)
                inside = math.factorial(k) / zeta ** (k + 1) * gammainc(k + 1, zeta * self.r)
                outside = math.factorial(k - 1) / zeta**k * gammaincc(k, zeta * self.r)
                v += charge * (inside / self.r + outside)
        return v

    @property
    def exact_exchange(self) -> float:
        """E_x [hartree] of the orbitals."""
        n, Z = self.x[0] + self.x[1], ATOMIC_NUMBERS[self.symbol]
        outside = math.fsum(self.weights * n * (0.5 * self.hartree_potential - Z / self.r))
        return -2 * atom_tables()["atoms"][self.symbol]["kinetic_energy"] - outside

    @property
    def exact_correlation(self) -> float | None:
        """E - E_HF [hartree], where E is known; E_HF = -T by the virial theorem."""
        if self.symbol not in TOTAL:
            return None
        return TOTAL[self.symbol] + atom_tables()["atoms"][self.symbol]["kinetic_energy"]

    @property
    def exact_potential(self) -> tuple[str, np.ndarray] | None:
        """(of what, v of spin alpha [hartree]) where it is known: of the electron of H, and exchange of He's two."""
        if self.symbol == "H":
            return "xc", -self.hartree_potential
        return ("x", -0.5 * self.hartree_potential) if self.symbol == "He" else None


@lru_cache(maxsize=32)
def atom(symbol: str) -> Atom:
    """The atom on the grid of POINTS radii in a geometric series, for the trapezoidal rule in log r."""
    s, step = np.linspace(math.log(INSIDE), math.log(OUTSIDE), POINTS, retstep=True)
    r = np.exp(s)
    return Atom(symbol, r, 4 * math.pi * r**3 * step)


def _orbitals(symbol):
    for shell in atom_tables()["atoms"][symbol]["shells"]:
        for orbital in shell["orbitals"]:
            yield shell, orbital


def _norm(n, zeta):
    return (2 * zeta) ** (n + 0.5) / math.sqrt(math.factorial(2 * n))


def _power(a, r, order=_HIGHEST):
    """r^a and its derivatives, (order, point)."""
    rows, factor = [], 1.0
    for k in range(order + 1):
        rows.append(factor * r ** float(a - k))
        factor *= a - k
    return np.stack(rows)


def _radial(shell, coefficients, r):
    """R(r) of an orbital and its derivatives, (order, point): sums of N r^(n - 1) exp(-zeta r)."""
    R = np.zeros((_HIGHEST + 1, len(r)))
    for n, zeta, c in zip(shell["n"], shell["zeta"], coefficients, strict=True):
        decay = np.stack([(-zeta) ** k * np.exp(-zeta * r) for k in range(_HIGHEST + 1)])
        R += c * _norm(n, zeta) * _leibniz(_power(n - 1, r), decay, _HIGHEST + 1)
    return R


def _leibniz(f, g, count):
    """Derivatives of f g from those of f and g."""
    return np.stack([sum(math.comb(k, j) * f[j] * g[k - j] for j in range(k + 1)) for k in range(count)])


def _laplacian_of(n, r):
    """n'' + 2 n'/r and its first two derivatives."""
    return n[2:5] + 2 * _leibniz(n[1:], _power(-1, r), 3)


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
