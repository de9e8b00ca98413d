r"""The fitting tensor B_Q,ij, whole, or each pair of basis functions with the digits that it deserves.

    J_ij = sum_Q B_Q,ij sum_kl B_Q,kl P_kl

By the Schwarz inequality sum_Q B_Q,ij^2 is nearly (ij|ij). Pairs whose bound sqrt (ij|ij) is small are kept in single
precision, whose 7 digits leave an error below 1e-11, and those below what counts are not kept. A double is kept as the
sum of two single-precision numbers, the first of which is enough for estimates. J stays the exact derivative of the
energy, since both have the same B.

For J alone the integrals A = L B are kept: what to solve for B grows as the cube of the molecule, and

    B P = L^-1 (A P),   J = A^T L^-T (B P)

take a second pass over A in its place. Sums and A P are in double precision for estimates, too, since L^-1 enlarges the
errors of A P. Pairs for which there is no room have their integrals formed twice for every J.
"""

from copy import copy
from functools import cached_property

import numpy as np

from dftfd.libcint.two_electron import (
    WORK_BYTES,
    InverseRoot,
    fitting_tensor_size,
    on_three_centre_blocks,
    schwarz_bounds,
    unpack,
)
from dftfd.runtime import kept_memory
from dftfd.runtime.threads import share_out

SINGLE, DROPPED = 1e-4, 1e-12
"""Bounds sqrt (ij|ij) [sqrt hartree] below which a pair is kept in single precision, and not at all."""

SINGLE_INTEGRALS = 1e-6
"""As SINGLE, of integrals that are kept as they are: L^-1 takes two digits more off the fit than B has lost."""

_WIDEST = 5
"""Functions of a shell, of d as a rule, that are transformed at least at a time."""

_ROWS = 16
"""Rows of a tensor that are rounded at a time."""

_BLOCK_BYTES = 2 * 2**20
"""Of a worker's rows at a time, which are read twice and should stay in its cache."""

_WIDTH = 2**15
"""Pairs of some rows whose values in double precision a worker makes of those in single at a time."""


class WholeTensor:
    """B (aux, ao (ao + 1) / 2) in double precision."""

    def __init__(self, B: np.ndarray):
        self.values = B

    def __len__(self):
        return len(self.values)

    def unpacked(self, start: int, out: np.ndarray) -> np.ndarray:
        """Rows (n, ao, ao) from `start` on, as many as there are and `out` has room for, written to it."""
        rows = self.values[start : start + len(out)]
        return unpack(rows, out[: len(rows)])

    def coulomb(self, folded, single=False) -> tuple[np.ndarray, np.ndarray]:
        """(B P (n, aux), B^T B P (n, pair)) of densities (n, pair) packed over i >= j, where i > j stands for both.

        single: in single precision, which reads half as much.
        """
        values = self._rounded if single else self.values
        folded = folded.astype(values.dtype, copy=False)
        size = max(1, _BLOCK_BYTES // (values.itemsize * values.shape[1]))
        fits = np.empty((len(folded), len(values)), values.dtype)

        def part(starts):
            J = np.zeros(folded.shape)
            for start in starts:
                B = values[start : start + size]
                J += np.matmul(folded, B.T, out=fits[:, start : start + size]) @ B
            return J

        return fits, sum(share_out(range(0, len(values), size), part))

    @cached_property
    def _rounded(self) -> np.ndarray:
        rounded = kept_memory.empty(self.values.size, np.float32).reshape(self.values.shape)

        def write(starts):
            for start in starts:
                rounded[start : start + _ROWS] = self.values[start : start + _ROWS]

        share_out(range(0, len(rounded), _ROWS), write)
        return rounded


class PairTensor:
    """B of a molecule and its fitting functions for an operator; `nbytes` is known before it is computed.

    for_exchange: its rows will be asked for, so that B itself is kept, and all of it; else A.
    """

    def __init__(self, molecule, auxiliary: dict, omega: float = 0.0, for_exchange: bool = False):
        self._molecule, self._auxiliary, self._omega = molecule, auxiliary, omega
        self._for_exchange = for_exchange
        self.n_auxiliary, _ = fitting_tensor_size(molecule, auxiliary)
        bounds = schwarz_bounds(molecule)
        single = SINGLE if for_exchange else SINGLE_INTEGRALS
        self._double = np.flatnonzero(bounds >= single)
        self._single = np.flatnonzero((bounds < single) & (bounds >= DROPPED))
        self._anew = np.zeros(0, dtype=int)

    def within(self, room: float) -> "PairTensor":
        """The same of which at most `room` bytes are kept: pairs of the last shells are left out first."""
        bytes_of = np.zeros(len(self._double) + len(self._single))
        pairs = np.sort(np.concatenate([self._double, self._single]))
        bytes_of[np.searchsorted(pairs, self._double)] = 8.0 * self.n_auxiliary
        bytes_of[np.searchsorted(pairs, self._single)] = 4.0 * self.n_auxiliary
        n_kept = int(np.searchsorted(bytes_of.cumsum(), room, side="right"))
        other = copy(self)
        if n_kept < len(pairs):
            for name in ("_kept", "_values", "_positions"):
                other.__dict__.pop(name, None)
            other._double, other._single = (p[p < pairs[n_kept]] for p in (self._double, self._single))
            other._anew = np.concatenate([pairs[n_kept:], self._anew])
        return other

    def __len__(self):
        return self._root.rank

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept."""
        return self.n_auxiliary * (8 * len(self._double) + 4 * len(self._single))

    @property
    def work_bytes(self) -> int:
        """Bytes that computing it takes besides: four copies of the integrals of a shell with all functions."""
        widest = 8 * self.n_auxiliary * _WIDEST * self._molecule.n_ao
        most = max(WORK_BYTES, 4 * widest)
        return most if len(self._anew) else min(2 * self.nbytes, most)

    def _on_blocks(self, pairs, code) -> list:
        """code(pairs, integrals) on blocks of some pairs."""
        return on_three_centre_blocks(self._molecule, self._auxiliary, pairs, code, self._omega)

    @cached_property
    def _root(self) -> InverseRoot:
        return InverseRoot(self._molecule, self._auxiliary, self._omega)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Pairs of the columns of the values."""
        return np.concatenate([self._double, self._single])

    @cached_property
    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        """What is kept of the pairs, rounded to single precision, and what is missing of those in double."""
        rows, n_double = self.n_auxiliary, len(self._double)
        high = kept_memory.empty(rows * len(self._kept), np.float32).reshape(rows, -1)
        low = kept_memory.empty(rows * n_double, np.float32).reshape(rows, -1)
        root = self._root
        if self._for_exchange:  # the rank is less than the number of functions where some depend on others
            high, low = high[: root.rank], low[: root.rank]

        def write(pairs, integrals):
            block = root(integrals) if self._for_exchange else integrals
            for positions, before in ((self._double, 0), (self._single, n_double)):
                first, last = np.searchsorted(positions, [pairs[0], pairs[-1] + 1])
                values = block
                if last - first < len(pairs):
                    values = block.take(np.searchsorted(pairs, positions[first:last]), axis=1, mode="clip")
                rounded = high[:, before + first : before + last]
                rounded[...] = values
                if not before:
                    np.subtract(values, rounded, out=low[:, first:last], casting="same_kind")

        self._on_blocks(np.sort(self._kept), write)
        return high, low

    def _in_double(self, start: int, out: np.ndarray) -> np.ndarray:
        """Rows of the values (n, kept) from `start` on, as many as there are and `out` has room for, written to it."""
        high, low = (values[start : start + len(out)] for values in self._values)
        rows = out[: len(high)]
        rows[...] = high
        rows[:, : low.shape[1]] += low
        return rows

    def coulomb(self, folded, single=False) -> tuple[np.ndarray, np.ndarray]:
        """(B P (n, aux), B^T B P (n, pair)) of densities (n, pair) packed over i >= j, where i > j stands for both.

        single: J from values in single precision, which reads half as much; sums, and the fit, in double.
        """
        P, fits = np.ascontiguousarray(folded[:, self._kept].T), self._fits_anew(folded)
        found, J = np.zeros((len(self._values[0]), P.shape[1])), np.zeros(folded.shape)
        starts = range(0, len(found), self._part[0])

        def project(starts):
            for rows, columns, values in self._parts(starts):
                found[rows] += values @ P[columns]

        def expand(starts):
            J = np.zeros(P.shape[::-1])
            for rows, columns, values in self._parts(starts, single):
                J[:, columns] += coefficients[:, rows] @ values
            return J

        share_out(starts, project)
        fits += (found if self._for_exchange else self._root(found)).T
        coefficients = fits if self._for_exchange else self._root.transposed(fits.T).T
        J[:, self._kept] = sum(share_out(starts, expand))
        if len(self._anew):

            def write(pairs, integrals):
                J[:, pairs] = coefficients @ integrals

            self._on_blocks(self._anew, write)
        return fits, J

    @property
    def _part(self) -> tuple[int, int]:
        """Rows and columns of a part."""
        width = max(1, min(len(self._kept), _WIDTH))
        return max(1, min(self.n_auxiliary, _BLOCK_BYTES // (8 * width))), width

    def _parts(self, starts, single=False):
        """(rows, columns, their values in double precision) of rows that start there; valid until the next ones."""
        (high, low), (height, width) = self._values, self._part
        wide = np.empty((height, width))
        for first in starts:
            rows = slice(first, first + height)
            for start in range(0, len(self._kept), width):
                columns = slice(start, start + width)
                rounded, missing = high[rows, columns], low[rows, columns]
                values = wide[: rounded.shape[0], : rounded.shape[1]]
                values[...] = rounded
                if not single:
                    values[:, : missing.shape[1]] += missing
                yield rows, columns, values

    def _fits_anew(self, folded):
        """The part of B P (n, aux) of the pairs that are not kept."""
        if not len(self._anew):
            return np.zeros((len(folded), self._root.rank))
        parts = self._on_blocks(self._anew, lambda pairs, integrals: integrals @ folded[:, pairs].T)
        return np.ascontiguousarray(self._root(sum(parts)).T)

    @cached_property
    def _positions(self):
        """Where each element of a symmetric matrix (ao ao,) stands in a row of `unpacked`: the last place holds 0."""
        n = self._molecule.n_ao
        packed = np.full(n * (n + 1) // 2, len(self._kept))
        packed[self._kept] = np.arange(len(self._kept))
        square, lower = np.empty((n, n), dtype=np.intp), np.tril_indices(n)
        square[lower] = square[lower[::-1]] = packed
        return square.ravel()

    def unpacked(self, start: int, out: np.ndarray) -> np.ndarray:
        """As WholeTensor's; of a tensor that is kept."""
        row = np.zeros((len(out), len(self._kept) + 1))
        row = row[: len(self._in_double(start, row[:, :-1]))]
        np.take(row, self._positions, axis=1, out=out[: len(row)].reshape(len(row), -1), mode="clip")
        return out[: len(row)]
