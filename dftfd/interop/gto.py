"""Atomic-orbital values on points by libcint, and the tables that define the orbitals.

The only door to libcint's grid routines. Values come out in the layout that libcint fills, (component, ao, point), so
a caller's buffer is written in place and nothing is transposed. Components: 1 | x y z | xx xy xz yy yz zz | ...
"""

import sys
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pyscf.gto

from dftfd.errors import UnsupportedError

_eval_gto = sys.modules["pyscf.gto.eval_gto"]  # `pyscf.gto.eval_gto` itself is the function of the same name

MAX_ORDER = 4
POINT_GROUP = _eval_gto.BLKSIZE  # libcint screens shells on groups of this many points

_ENVELOPE_STEP, _ENVELOPE_REACH = 0.05, 80.0  # bohr


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

    @cached_property
    def centres(self) -> np.ndarray:
        """Centre of every shell, (shell, 3) [bohr]."""
        start = self.atm[self.bas[:, pyscf.gto.ATOM_OF], pyscf.gto.PTR_COORD]
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

    def envelope(self, order: int) -> "ShellEnvelope":
        """Radial upper bounds of all shells and their derivatives up to `order`."""
        r = np.arange(0.0, _ENVELOPE_REACH, _ENVELOPE_STEP)
        bounds = np.stack([self._shell_envelope(shell, order, r) for shell in range(self.n_shells)])
        return ShellEnvelope(bounds=bounds, step=_ENVELOPE_STEP)

    def _shell_envelope(self, shell, order, r):
        l = self.angular_momentum(shell)
        exponents, coefficients = self.primitives(shell)
        size = np.abs(coefficients).max(axis=1)[:, None]
        a = exponents[:, None]
        # Every derivative brings down at most l/r (from r^l) + 2 a r (from the exponential).
        slope = l / np.maximum(r, _ENVELOPE_STEP) + 2.0 * a * r
        angular = np.sqrt((2 * l + 1) / (4 * np.pi)) if l < 2 or not self.cartesian else 1.0
        gaussians = size * np.exp(-a * r**2) * r**l * angular
        bound = np.max([(gaussians * slope**k).sum(axis=0) for k in range(order + 1)], axis=0)
        return np.maximum.accumulate(bound[::-1])[::-1]  # non-increasing: the bound for all larger distances

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


@dataclass(frozen=True, eq=False)
class ShellEnvelope:
    """Upper bound of every shell beyond a distance: bounds (shell, distance // step), non-increasing."""

    bounds: np.ndarray
    step: float

    def at(self, distances: np.ndarray) -> np.ndarray:
        """Bound of each shell at its own distance, (shell,); zero beyond the table."""
        index = (distances / self.step).astype(np.intp)
        inside = index < self.bounds.shape[1]
        values = self.bounds[np.arange(len(index)), np.where(inside, index, 0)]
        return np.where(inside, values, 0.0)


def gaussian_basis(source) -> GaussianBasis:
    """The basis of a Molecule or of a PySCF Mole."""
    if not isinstance(source, pyscf.gto.Mole):
        from dftfd.interop.pyscf import to_pyscf

        source = to_pyscf(source)
    return GaussianBasis(
        atm=np.asarray(source._atm, dtype=np.int32),
        bas=np.asarray(source._bas, dtype=np.int32),
        env=np.asarray(source._env, dtype=np.float64),
        ao_offsets=np.asarray(source.ao_loc_nr(), dtype=np.int32),
        cartesian=bool(source.cart),
    )
