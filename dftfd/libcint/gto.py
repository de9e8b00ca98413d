"""Atomic-orbital values on points by libcint, and the tables that define the orbitals.

The only door to libcint's grid routines. Values come out in the layout that libcint fills, (component, ao, point), so
a caller's buffer is written in place and nothing is transposed. Components: 1 | x y z | xx xy xz yy yz zz | ...
"""

import math
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import SimpleNamespace

import numpy as np
import pyscf.gto
import scipy.special

from dftfd.errors import UnsupportedError
from dftfd.libcint.mole import to_pyscf

_eval_gto = sys.modules["pyscf.gto.eval_gto"]  # `pyscf.gto.eval_gto` itself is the function of the same name

MAX_ORDER = 4
MAX_CONTRACTIONS, MAX_CARTESIANS = 40, 128
"""What a shell may have of contractions, and of contractions times Cartesian components, in PySCF's grid code

(NPRIMAX and NCTR_CART in pyscf/lib/gto/grid_ao_drv.h). It writes past its buffers beyond."""


def component_count(order: int) -> int:
    """Number of derivatives up to `order` in three dimensions: 1, 4, 10, 20, 35."""
    return (order + 1) * (order + 2) * (order + 3) // 6


@dataclass(frozen=True, eq=False)
class GaussianBasis:
    """Contracted Gaussian shells of a molecule, as libcint's tables.

    atm, bas, env: libcint's integer and real tables.   ao_offsets: (shell + 1,), first AO of each shell.
    cartesian: 6 d functions instead of 5.
    """

    atm: np.ndarray
    bas: np.ndarray
    env: np.ndarray
    ao_offsets: np.ndarray
    cartesian: bool

    @property
    def n_ao(self) -> int:
        return int(self.ao_offsets[-1])

    @property
    def n_shells(self) -> int:
        return len(self.bas)

    @property
    def atoms(self) -> np.ndarray:
        """The atom of every shell, (shell,)."""
        return self.bas[:, pyscf.gto.ATOM_OF]

    @cached_property
    def centres(self) -> np.ndarray:
        """Centre of every shell, (shell, 3) [bohr]."""
        start = self.atm[self.atoms, pyscf.gto.PTR_COORD]
        return self.env[start[:, None] + np.arange(3)]

    def angular_momentum(self, shell: int) -> int:
        return int(self.bas[shell, pyscf.gto.ANG_OF])

    def primitives(self, shell: int) -> tuple[np.ndarray, np.ndarray]:
        """Exponents (primitive,) [bohr^-2] and normalised contraction coefficients (primitive, contraction)."""
        row = self.bas[shell]
        n_primitives, n_contractions = row[pyscf.gto.NPRIM_OF], row[pyscf.gto.NCTR_OF]
        exponents = self.env[row[pyscf.gto.PTR_EXP] :][:n_primitives]
        coefficients = self.env[row[pyscf.gto.PTR_COEFF] :][: n_primitives * n_contractions]
        return exponents, coefficients.reshape(n_contractions, n_primitives).T

    def angular_matrix(self, l: int) -> np.ndarray:
        """Orbitals of a shell from x^i y^j z^k (i descending, then j), (cartesian, orbital), libcint's conventions.

        Spherical: the real solid harmonics. Cartesian: the monomials, which libcint normalises for s and p alone.
        """
        if self.cartesian:
            return np.eye((l + 1) * (l + 2) // 2) * {0: np.sqrt(0.25 / np.pi), 1: np.sqrt(0.75 / np.pi)}.get(l, 1.0)
        return pyscf.gto.cart2sph(l)

    def aos_of_shells(self, shells: np.ndarray) -> np.ndarray:
        """AO indices of the given shells, ascending."""
        selected = np.zeros(self.n_shells, dtype=bool)
        selected[shells] = True
        return np.flatnonzero(np.repeat(selected, np.diff(self.ao_offsets)))

    def bound(self, shell: int, order: int, distances) -> np.ndarray:
        r"""Upper bound of a shell's values and derivatives up to `order` at all points at or beyond a distance.

        distances: (n,) [bohr] from the shell's centre, zero included; the result (n,) does not increase with them.

        An orbital is N(x) g(r^2), with N homogeneous of degree l and g = sum_p c_p exp(-a_p r^2). Its derivatives of
        order k are at most, for each primitive,

            sum_i binom(k, i) M_i r^(l-i) sum_m n! / (m! (n - 2m)!) (2r)^(n-2m) a^(n-m) exp(-a r^2),   n = k - i,

        where M_i bounds the i-th derivatives of N on the unit sphere, and the sum over m counts the ways in which n
        derivatives of g(r^2) fall in m pairs on the same r^2. Beyond d, r^s exp(-a r^2) is largest at the larger one of
        d and sqrt(s / 2a).
        """
        l = self.angular_momentum(shell)
        exponents, coefficients = self.primitives(shell)
        a, d = exponents[:, None], np.asarray(distances, dtype=float)
        powers = np.arange(l + order + 1)[:, None, None]
        r = np.maximum(d, np.sqrt(powers / (2.0 * a)))
        largest = r**powers * np.exp(-a * r**2)  # (power, primitive, n)
        slopes = self._angular_slopes(l, order)
        bounds = []
        for k in range(order + 1):
            polynomial = np.zeros((l + order + 1, len(a), 1))
            for i in range(min(k, l) + 1):
                n = k - i
                for m in range(n // 2 + 1):
                    ways = math.comb(k, i) * math.factorial(n) / (math.factorial(m) * math.factorial(n - 2 * m))
                    polynomial[l - i + n - 2 * m] += slopes[i] * ways * 2.0 ** (n - 2 * m) * a ** (n - m)
            bounds.append(np.abs(coefficients).T @ (polynomial * largest).sum(axis=0))
        return np.max(bounds, axis=(0, 1))

    def _angular_slopes(self, l: int, order: int) -> list[float]:
        """Bounds M_i of the derivatives of order i = 0 ... min(l, order) of a shell's N on the unit sphere.

        A harmonic polynomial p of degree l with norm 1 on the sphere is at most sqrt((2l + 1) / 4 pi), and the norm of
        its gradient is sqrt(l (2l + 1)). Of monomials, x^l has the largest value and derivatives.
        """
        orders = range(min(l, order) + 1)
        if self.cartesian:
            return [float(self.angular_matrix(l)[0, 0]) * math.perm(l, i) for i in orders]
        norms = [math.prod(math.sqrt(j * (2 * j + 1)) for j in range(l - i + 1, l + 1)) for i in orders]
        return [math.sqrt((2 * (l - i) + 1) / (4 * math.pi)) * norm for i, norm in enumerate(norms)]

    def reach(self, order: int, cutoff: float) -> np.ndarray:
        """Distance from its centre at and beyond which a shell's `bound` is below `cutoff`, (shell,) [bohr]."""
        known: dict[tuple, float] = {}
        for shell in range(self.n_shells):
            key = self._kind(shell)
            if key not in known:
                known[key] = self._reach_of(shell, order, cutoff)
        return np.array([known[self._kind(shell)] for shell in range(self.n_shells)])

    def _kind(self, shell):
        exponents, coefficients = self.primitives(shell)
        return self.angular_momentum(shell), exponents.tobytes(), coefficients.tobytes()

    def _reach_of(self, shell, order, cutoff):
        """The upper end of a bracket that is made 64 times narrower again and again."""
        width = 1.0 / np.sqrt(self.primitives(shell)[0].min())
        low, high = 0.0, np.inf
        for ladder in (np.geomspace(1e-3, 1e2, 64) * width, None, None):
            ladder = np.linspace(low, high, 64) if ladder is None else ladder
            below = np.flatnonzero(self.bound(shell, order, ladder) < cutoff)
            if not below.size:
                return np.inf
            high, low = ladder[below[0]], ladder[below[0] - 1] if below[0] else low
        return high

    def evaluate(self, points, order: int, shells=None, out=None) -> np.ndarray:
        """AO values and derivatives up to `order`, (component, ao, point) [bohr^(-3/2 - derivative)].

        points: (point, 3) [bohr], fastest when Fortran-ordered.   shells: indices, ascending; default all.
        out: flat float64 array of at least the result's size, written in place; the result is a view of it.
        """
        if not 0 <= order <= MAX_ORDER:
            raise UnsupportedError(
                f"AO derivatives of order {order} were asked for; libcint has orders 0 to {MAX_ORDER}."
            )
        bas = self.bas if shells is None else self.bas[shells]
        widths = np.diff(self.ao_offsets) if shells is None else np.diff(self.ao_offsets)[shells]
        offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
        shape = (component_count(order), int(offsets[-1]), len(points))
        out = np.empty(shape) if out is None else out[: np.prod(shape)].reshape(shape)
        if out.size:
            name = f"GTOval_{'cart' if self.cartesian else 'sph'}" + (f"_deriv{order}" if order else "")
            tables = SimpleNamespace(_atm=self.atm, _bas=bas, _env=self.env, cart=self.cartesian)
            _eval_gto.eval_gto(tables, name, points, ao_loc=offsets, out=out)
        return out


def gaussian_basis(source) -> GaussianBasis:
    """The basis of a Molecule or of a PySCF Mole."""
    if not isinstance(source, pyscf.gto.Mole):
        source = to_pyscf(source)
    bas = _narrow_shells(np.asarray(source._bas, dtype=np.int32))
    widths = (_n_cartesian(bas) if source.cart else 2 * bas[:, pyscf.gto.ANG_OF] + 1) * bas[:, pyscf.gto.NCTR_OF]
    return GaussianBasis(
        atm=np.asarray(source._atm, dtype=np.int32),
        bas=bas,
        env=np.asarray(source._env, dtype=np.float64),
        ao_offsets=np.concatenate([[0], np.cumsum(widths)]).astype(np.int32),
        cartesian=bool(source.cart),
    )


def _n_cartesian(bas):
    l = bas[:, pyscf.gto.ANG_OF]
    return (l + 1) * (l + 2) // 2


def _narrow_shells(bas):
    """Shells of many contractions cut into shells of fewer, with the same orbitals in the same order."""
    most = np.minimum(MAX_CONTRACTIONS, MAX_CARTESIANS // _n_cartesian(bas))
    rows = []
    for row, width in zip(bas, most, strict=True):
        for first in range(0, row[pyscf.gto.NCTR_OF], width):
            part = row.copy()
            part[pyscf.gto.NCTR_OF] = min(width, row[pyscf.gto.NCTR_OF] - first)
            part[pyscf.gto.PTR_COEFF] += first * row[pyscf.gto.NPRIM_OF]
            rows.append(part)
    return np.array(rows, dtype=np.int32)


def monomial_powers(l: int) -> np.ndarray:
    """Exponents (i, j, k) of the monomials of degree l, i descending, then j: xx xy xz yy yz zz; (monomial, 3)."""
    return np.array([(i, j, l - i - j) for i in range(l, -1, -1) for j in range(l - i, -1, -1)])


@lru_cache
def slopes_of_monomials(l: int, order: int) -> np.ndarray:
    """d^s of the monomials of degree l in those of degree l - order, (s, monomial, monomial)."""
    s, c, m = monomial_powers(order), monomial_powers(l), monomial_powers(l - order)
    falling = scipy.special.poch(c - s[:, None] + 1, s[:, None]).prod(axis=2)
    return falling[:, :, None] * (c[:, None] - s[:, None, None] == m).all(axis=3)


def monomials(l: int, R) -> list[np.ndarray]:
    """x^i y^j z^k of each degree up to l, (monomial, ...), at R (3, ...)."""
    found = [np.ones((1, *R.shape[1:]), R.dtype)]
    for degree in range(1, l + 1):
        before = found[-1]
        found.append(np.concatenate([before * R[0], before[-degree:] * R[1], before[-1:] * R[2]]))
    return found
