r"""The fitting tensor B_Q,ij, whole, or each pair of basis functions with the digits that it deserves.

    J_ij = sum_Q B_Q,ij sum_kl B_Q,kl P_kl

By the Schwarz inequality sum_Q B_Q,ij^2 is nearly (ij|ij), so that digits of a pair whose bound sqrt (ij|ij) is small
are not needed. Numbers of a pair are whole multiples of a fraction of its largest one: 6 bytes each, of which the
leading 4 are enough for estimates, 4, or 2, with errors below 1e-11; pairs below what counts are not kept. J stays the
exact derivative of the energy, since both have the same B.

For J alone the integrals A = L B are kept, in units of each fitting function's norm: what to solve for B grows as the
cube of the molecule, and

    B P = L^-1 (A P),   J = A^T L^-T (B P)

take a second pass over A in its place. L^-1 enlarges errors, so that they have more digits. Pairs for which there is no
room have their integrals formed twice for every J.
"""

import itertools
import math
from collections.abc import Callable
from copy import copy
from functools import cached_property, partial

import numpy as np

from dftfd.libcint.two_electron import (
    WORK_BYTES,
    InverseRoot,
    fitting_tensor_size,
    on_three_centre_blocks,
    schwarz_bounds,
    unpack,
)
from dftfd.runtime import memory
from dftfd.runtime.array_types import to_single
from dftfd.runtime.threads import share_out

DROPPED = 1e-12
"""Bound sqrt (ij|ij) [sqrt hartree] below which a pair is not kept."""

OF_INTEGRALS, OF_TENSOR, ROUGHLY = (1e-4, 2e-9), (1e-2, 2e-7), (np.inf, 1e-2)
"""Bounds below which a pair of A, of B, and of a B for estimates has 4 bytes, and below which it has 2."""

_BYTES = 6, 4, 2

_LEADING, _TRAILING, _SHORT = 2**31 - 1, 2**16 - 2, 2**15 - 1
"""The largest leading number, parts of its unit in the trailing one, and the largest of two bytes alone."""

_WIDEST = 5
"""Functions of a shell, of d as a rule, that are transformed at least at a time."""

_ROWS = 16
"""Rows of a tensor that are rounded at a time."""

_BLOCK_BYTES = 8 * 2**20
"""Of a worker's rows at a time. They are read twice, but workers wait for the interpreter lock after each operation:
some 50 us, as long as reading 0.5 MB, so that blocks of the size of a cache cost more than they save."""

_WIDTH = 2**15
"""Pairs of some rows whose values in double precision a worker makes of those that are kept at a time."""


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
        size = max(1, 2 * _BLOCK_BYTES // (values.itemsize * values.shape[1]))
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
        rounded = memory.empty(self.values.size, np.float32).reshape(self.values.shape)

        def write(starts):
            for start in starts:
                rounded[start : start + _ROWS] = self.values[start : start + _ROWS]

        share_out(range(0, len(rounded), _ROWS), write)
        return rounded


class PairTensor:
    """B of a molecule and its fitting functions for an operator; `nbytes` is known before it is computed.

    for_exchange: its rows will be asked for, so that B itself is kept, and all of it; else A.
    digits: bounds as OF_TENSOR, which it is by default, or OF_INTEGRALS.
    """

    def __init__(self, molecule, auxiliary: dict, omega: float = 0.0, for_exchange: bool = False, digits=None):
        self._molecule, self._auxiliary, self._omega = molecule, auxiliary, omega
        self._for_exchange = for_exchange
        self._roots: dict[float, InverseRoot] = {}
        self.n_auxiliary, _ = fitting_tensor_size(molecule, auxiliary)
        self._bounds = schwarz_bounds(molecule)
        self._kinds = self._kinds_of(digits or (OF_TENSOR if for_exchange else OF_INTEGRALS))
        self._anew = np.zeros(0, dtype=int)

    def _kinds_of(self, digits) -> list[np.ndarray]:
        """Pairs of 6, of 4 and of 2 bytes."""
        edges = np.inf, *digits, DROPPED
        within = ((self._bounds < high) & (self._bounds >= low) for high, low in itertools.pairwise(edges))
        return [np.flatnonzero(of_kind) for of_kind in within]

    def _changed(self, **other) -> "PairTensor":
        """The same with other attributes, and nothing computed yet."""
        changed = copy(self)
        for name in ("_kept", "_values", "_positions"):
            changed.__dict__.pop(name, None)
        changed.__dict__.update(other)
        return changed

    def of_operator(self, omega: float) -> "PairTensor":
        """The same pairs for another operator."""
        return self._changed(_omega=omega)

    @property
    def is_whole(self) -> bool:
        return not len(self._anew)

    def roughly(self) -> "PairTensor":
        """All pairs with fewer digits: J to some 1e-6 of itself."""
        return self._changed(_kinds=self._kinds_of(ROUGHLY), _anew=np.zeros(0, dtype=int))

    def within(self, room: float) -> "PairTensor":
        """The same of which at most `room` bytes are kept: pairs of the last shells are left out first."""
        pairs = np.sort(self._kept)
        bytes_of = np.zeros(len(pairs))
        for of_kind, n_bytes in zip(self._kinds, _BYTES, strict=True):
            bytes_of[np.searchsorted(pairs, of_kind)] = n_bytes * self.n_auxiliary
        n_kept = int(np.searchsorted(bytes_of.cumsum(), room, side="right"))
        if n_kept == len(pairs):
            return copy(self)
        kinds = [of_kind[of_kind < pairs[n_kept]] for of_kind in self._kinds]
        return self._changed(_kinds=kinds, _anew=np.concatenate([pairs[n_kept:], self._anew]))

    def __len__(self):
        return self._root.rank

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept."""
        return self.n_auxiliary * sum(n * len(pairs) for n, pairs in zip(_BYTES, self._kinds, strict=True))

    @property
    def work_bytes(self) -> int:
        """Bytes that computing it takes besides: four copies of the integrals of a shell with all functions."""
        widest = 8 * self.n_auxiliary * _WIDEST * self._molecule.n_ao
        most = max(WORK_BYTES, 4 * widest)
        return most if len(self._anew) else min(2 * self.nbytes, most)

    def _on_blocks(self, pairs, code) -> list:
        """code(pairs, integrals) on blocks of some pairs."""
        return on_three_centre_blocks(self._molecule, self._auxiliary, pairs, code, self._omega)

    @property
    def _root(self) -> InverseRoot:
        """One for all tensors of an operator that come from this one."""
        if self._omega not in self._roots:
            self._roots[self._omega] = InverseRoot(self._molecule, self._auxiliary, self._omega)
        return self._roots[self._omega]

    @cached_property
    def _kept(self) -> np.ndarray:
        """Pairs of the columns of the values."""
        return np.concatenate(self._kinds)

    @cached_property
    def _values(self) -> tuple[np.ndarray, ...]:
        """Of pairs of more than 2 bytes the leading 4, of those of 6 the trailing 2, of the others 2; units (kept,)."""
        # the rank is less than the number of functions where some depend on others
        rows = self._root.rank if self._for_exchange else self.n_auxiliary
        n_six, n_four, n_two = (len(pairs) for pairs in self._kinds)
        leading, trailing, short = (
            memory.empty(rows * count, kind).reshape(rows, count)
            for count, kind in ((n_six + n_four, np.int32), (n_six, np.int16), (n_two, np.int16))
        )
        units = np.zeros(len(self._kept))
        norms = None if self._for_exchange else self._root.norms[:, None]

        def write(pairs, integrals):
            block = self._root(integrals) if norms is None else integrals
            height = max(1, _WIDTH // len(pairs))
            largest = np.zeros(len(pairs))
            for start in range(0, rows, height):
                some = block[start : start + height]
                if norms is not None:
                    some /= norms[start : start + height]
                np.maximum(largest, np.abs(some).max(axis=0), out=largest)
            before = 0
            for n_bytes, positions in zip(_BYTES, self._kinds, strict=True):
                first, last = np.searchsorted(positions, [pairs[0], pairs[-1] + 1])
                chosen, columns = np.searchsorted(pairs, positions[first:last]), slice(before + first, before + last)
                before += len(positions)
                if first == last:
                    continue
                unit = np.maximum(largest[chosen], np.finfo(float).tiny) / (_SHORT if n_bytes == 2 else _LEADING)
                units[columns] = unit
                out, offset = (short, n_six + n_four) if n_bytes == 2 else (leading, 0)
                columns = slice(columns.start - offset, columns.stop - offset)
                for start in range(0, rows, height):
                    some = block[start : start + height].take(chosen, axis=1, mode="clip")
                    some /= unit
                    rounded = np.rint(some)
                    out[start : start + height, columns] = rounded
                    if n_bytes == 6:
                        some -= rounded
                        some *= _TRAILING
                        trailing[start : start + height, columns] = np.rint(some, out=some)

        self._on_blocks(np.sort(self._kept), write)
        return leading, trailing, short, units

    def _in_units(self, rows: slice, columns: slice, out: np.ndarray, single=False) -> np.ndarray:
        """Some values over their columns' units, as many as there are and `out` has room for, written to it."""
        leading, trailing, short, units = self._values
        of = lambda values, before: values[rows, max(columns.start - before, 0) : max(columns.stop - before, 0)]
        four, last, two = of(leading, 0), of(trailing, 0), of(short, leading.shape[1])
        out = out[: len(four), : len(units[columns])]
        split, exact = four.shape[1], 0 if single else last.shape[1]
        if exact:
            out[:, :exact] = last
            out[:, :exact] *= 1.0 / _TRAILING
            out[:, :exact] += four[:, :exact]
        out[:, exact:split] = four[:, exact:]
        out[:, split:] = two
        return out

    def coulomb(self, folded, single=False) -> tuple[np.ndarray, np.ndarray]:
        """(B P (n, aux), B^T B P (n, pair)) of densities (n, pair) packed over i >= j, where i > j stands for both.

        single: from the leading digits alone, which reads two thirds; sums in double precision.
        """
        root, units = self._root, self._values[-1]
        P, fits = np.ascontiguousarray(folded[:, self._kept].T) * units[:, None], self._fits_anew(folded)
        found, J = np.zeros((len(self._values[0]), P.shape[1])), np.zeros(folded.shape)
        starts = range(0, len(found), self._part[0])

        def project(starts):
            for rows, columns, values in self._parts(starts, single):
                found[rows] += values @ P[columns]

        def expand(starts):
            J = np.zeros(P.shape[::-1])
            for rows, columns, values in self._parts(starts, single):
                J[:, columns] += scaled[:, rows] @ values
            return J

        share_out(starts, project)
        fits += (found if self._for_exchange else root(found * root.norms[:, None])).T
        coefficients = fits if self._for_exchange else root.transposed(fits.T).T
        scaled = coefficients if self._for_exchange else coefficients * root.norms
        J[:, self._kept] = sum(share_out(starts, expand)) * units
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

    def _parts(self, starts, single):
        """(rows, columns, their values over units) of rows that start there; valid until the next ones."""
        height, width = self._part
        wide = np.empty((height, width))
        for first in starts:
            rows = slice(first, first + height)
            for start in range(0, len(self._kept), width):
                columns = slice(start, start + width)
                yield rows, columns, self._in_units(rows, columns, wide, single)

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
        values = self._in_units(slice(start, start + len(out)), slice(0, len(self._kept)), row)
        values *= self._values[-1]
        np.take(
            row[: len(values)], self._positions, axis=1, out=out[: len(values)].reshape(len(values), -1), mode="clip"
        )
        return out[: len(values)]


_SINGLE_BYTES = 4 * 2**20
"""Of the tensor at a time: it should stay in a worker's cache."""


class SingleTensor:
    r"""A fitting tensor in single precision, (aux, ao, ao), from one in double (terms.pair_tensor).

    kept: whether it is kept like that, or unpacked and rounded anew, a few rows at a time, whenever it is used.
    keeps_transformed: whether X of orbitals from which changes are asked for is kept, too.

    Fitted exchange in single precision, for cycles whose results others correct.

    Far from the solution 7 digits are plenty. Near it the change of K from a known density is asked for, of orbitals
    D = C - C_0 and S = (C + C_0) / 2 with both sets turned to be as close as can be:

        K[C C^T] - K[C_0 C_0^T] = M + M^T,   M_ij = sum_Q,o X[D]_Q,o,i X[S]_Q,o,j,   X[C]_Q,o,i = sum_k C_k,o B_Q,ki

    X[C_0] is kept, or formed anew for each change. Rounding errors are 1e-7 of that change, not of K, and vanish with
    it.
    """

    def __init__(self, B, n_ao: int, kept: bool = True, keeps_transformed: bool = True):
        self._B, self._shape, self._keeps_transformed = B, (len(B), n_ao, n_ao), keeps_transformed
        self._values: np.ndarray | None = None
        self._block = max(1, _SINGLE_BYTES // (4 * n_ao**2))
        if kept:
            values = memory.empty(len(B) * n_ao**2, np.float32).reshape(self._shape)
            self._share_out(partial(self._fill, values))
            self._B, self._values = None, values

    def exchange(self, C) -> np.ndarray:
        """K (ao, ao) of the density C C^T of orbitals C (ao, occupied)."""
        return sum(self._share_out(partial(self._exchange, np.ascontiguousarray(C.T, dtype=np.float32))))

    def incremental_build(self, before) -> Callable:
        """C -> K (ao, ao) of C less K of `before`, both (ao, occupied)."""
        C_0, X = before.T.astype(np.float32), None
        if self._keeps_transformed:
            shape = self._shape[0], *C_0.shape
            X = memory.empty(math.prod(shape), np.float32).reshape(shape)
            self._share_out(partial(self._transform, C_0, X))

        def change(C):
            U, _, V = np.linalg.svd(C.T @ before)
            D = (C @ (U @ V) - before).T.astype(np.float32)
            M = sum(self._share_out(partial(self._change, D, C_0, X)))
            return M + M.T

        return change

    def _share_out(self, code):
        return share_out(range(0, self._shape[0], self._block), code)

    def _rows(self, starts):
        """(which rows, their values (n, ao, ao)) of blocks; valid until the next ones."""
        shape = (0 if self._B is None else self._block, *self._shape[1:])
        wide, narrow = np.empty(shape), np.empty(shape, np.float32)
        for start in starts:
            which = slice(start, start + self._block)
            if self._values is not None:
                yield which, self._values[which]
            else:
                rows = self._B.unpacked(start, wide)
                yield which, to_single(rows, narrow[: len(rows)])

    def _fill(self, values, starts):
        for which, rows in self._rows(starts):
            values[which] = rows

    def _exchange(self, C, starts):
        n_occ, n = C.shape
        X, product, K = np.empty((self._block, n_occ, n), C.dtype), np.empty((n, n), C.dtype), np.zeros((n, n))
        for _, B in self._rows(starts):
            half = np.matmul(C, B, out=X[: len(B)]).reshape(-1, n)
            K += np.matmul(half.T, half, out=product)
        return K

    def _transform(self, C, X, starts):
        for which, B in self._rows(starts):
            np.matmul(C, B, out=X[which])

    def _change(self, D, C_0, X, starts):
        """M of one worker, with X[S] = X[C_0] + X[D] / 2."""
        (n_occ, n), S = D.shape, C_0 + 0.5 * D
        of_D, of_S = np.empty((2, self._block, n_occ, n), D.dtype)
        product, M = np.empty((n, n), D.dtype), np.zeros((n, n))
        for which, B in self._rows(starts):
            changed, both = np.matmul(D, B, out=of_D[: len(B)]), of_S[: len(B)]
            if X is None:
                np.matmul(S, B, out=both)
            else:
                np.multiply(changed, 0.5, out=both)
                both += X[which]
            M += np.matmul(changed.reshape(-1, n).T, both.reshape(-1, n), out=product)
        return M
