r"""Third derivatives of functionals with double integrals, along densities n + e n' + e^2/2 n''.

Every step of xc.nonlocal_kernel is carried as (value, first, second derivative by e at e = 0): code at one point by
forward derivatives of it (`jets_along`), sums over pairs by those of the pair kernel's own code,

    d2 sum_q c_q K(a_p, b_q) = sum_q d2/de2 [c_q(e) K(a_p(e), b_q(e))],

in the same tiles, and products by the binomial rule. Grid, weights and cells stay fixed.
"""

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.xc.code import jets_along, on_points
from dftfd.xc.kernel import Slopes, SlopesAlong
from dftfd.xc.nonlocal_code import any_nonzero
from dftfd.xc.pair_kernel import PairSums, with_jacobian

ORDERS = 3
"""Value, first and second derivative."""


class NonlocalXCThird:
    """The steps of a kernel's code (NonlocalCode) along e, compiled once."""

    def __init__(self, code):
        self._stages = [_StageAlong(stage) for stage in code.stages]
        self._outer = _along(jax.value_and_grad(code.energy_density, argnums=(0, 1, 2, 3)), (0, 3))

    def slopes(self, kernel, points, weights, density, first, second) -> SlopesAlong:
        """Those of a kernel along density + e first + e^2/2 second; that by points is whole where its points move."""
        stages = self._stages
        work, n = kernel.evaluate(points, weights, density).work, np.stack([density, first, second])
        _, places, weights = kernel.given(points, weights, density)
        S = [np.zeros((ORDERS, *stage.integral.shape, len(weights))) for stage in kernel.stages]
        forward = [stage.forward(k, (n, places, weights), S, work[k][3]) for k, stage in enumerate(stages)]
        orders = self._outer((n, places, weights, tuple(kernel.doubled(S))))
        e, by_density, by_places, by_cell, by_S = _stacked([(e, *slopes) for e, slopes in orders])
        by_density, by_places, by_weights = by_density * weights, by_places * weights, e + by_cell * weights
        by_S = [d * weights for d in by_S]
        for k in reversed(range(len(stages))):
            explicit, cotangents = stages[k].backward((n, places, weights), S, forward[k], by_S[k])
            more = stages[k].pull_back((n, places, weights, tuple(S), *cotangents))
            d_density, d_places, d_cell, d_S = _stacked(more)
            by_density, by_places = by_density + d_density, by_places + d_places
            by_weights = by_weights + explicit + d_cell
            by_S = [a + b for a, b in zip(by_S, d_S, strict=True)]
        potential, change, bend = by_density
        return SlopesAlong(potential, change, Slopes(by_weights[2], bend, by_places[2][-3:]))


class _StageAlong:
    """One integral's steps (nonlocal_code.Stage) along e."""

    def __init__(self, stage):
        self._stage, self.integral, self._n_fixed = stage, stage.integral, stage.n_fixed
        self._features = _along(stage.flat_features, (0, 3))
        self.pull_back = _along(stage.pulled, (0, 3, 4, 5, 6))
        self._sums = _sums_along(stage.pair, stage.left_size, stage.right_size, stage.integral.size, stage.n_fixed)

    @cached_property
    def _transposed_sums(self):
        stage = self._stage
        n_col = stage.left_size + stage.integral.size
        return _sums_along(stage.transposed_pair, stage.right_size, n_col, 1, stage.n_fixed)

    def forward(self, k, given, S, rows):
        """Writes S[k] (order, ..., point) at the points `rows`; returns what `backward` needs."""
        weights = given[2]
        charge, left, right = _stacked(self._features((*given, tuple(S))))
        columns = any_nonzero(charge * weights)
        with_charges = np.concatenate([right, (weights * charge)[:, None]], axis=1)[..., columns]
        values, jacobian = self._sums(left[..., rows], with_charges)
        S[k][..., rows] = values.reshape(ORDERS, *self.integral.shape, -1)
        return charge, left, right, rows, jacobian

    def backward(self, given, S, forward, by_S):
        """Orders of the derivatives by a weight that is integrated over, and by charge, left and right features."""
        weights, (charge, left, right, rows, jacobian) = given[2], forward
        by_S = by_S.reshape(ORDERS, self.integral.size, -1)
        by_charge, by_left, by_right = (np.zeros_like(side) for side in (charge, left, right))
        by_left[:, self._n_fixed :, rows] = _product("mp,mfp->fp", by_S[..., rows], jacobian)
        explicit = np.zeros_like(charge)
        if self._stage.symmetric:
            return explicit, (by_charge, 2.0 * by_left, by_right)
        here = any_nonzero(by_S)
        there = any_nonzero(charge * weights)
        there |= self._stage.charged((given[0][0], *given[1:]), [of[0] for of in S], charge[0])
        columns = np.concatenate(
            [left, by_S, np.broadcast_to([[[1.0]], [[0.0]], [[0.0]]], (3, 1, len(weights)))], axis=1
        )
        values, slopes = self._transposed_sums(right[..., there], columns[..., here])
        by_charge[:, there] = weights[there] * values[:, 0]
        explicit[:, there] = _product("p,p->p", charge[:, there], values[:, 0])
        by_right[:, self._n_fixed :, there] = _product("p,fp->fp", (weights * charge)[:, there], slopes[:, 0])
        return explicit, (by_charge, by_left, by_right)


def _along(code, moving):
    """Code at one point on arrays of points; arguments numbered `moving` have a leading axis of orders.

    Gives (value, first, second derivative by e).
    """

    def along(arguments):
        def moved(values):
            given = list(arguments)
            for number, value in zip(moving, values, strict=True):
                given[number] = value
            return code(*given)

        orders = [tuple(_order(arguments[i], k) for i in moving) for k in range(ORDERS)]
        return jets_along(moved, *orders)

    return on_points(along)


def _order(tree, k):
    return jax.tree_util.tree_map(lambda x: x[k], tree)


def _stacked(orders):
    """Pytrees of one structure, for each order, as one of arrays (order, ...)."""
    return jax.tree_util.tree_map(lambda *parts: np.stack(parts), *orders)


def _product(subscripts, a, b):
    """einsum of products of orders (order, ...) by the binomial rule."""
    of = lambda i, j: np.einsum(subscripts, a[i], b[j])
    return np.stack([of(0, 0), of(1, 0) + of(0, 1), of(2, 0) + 2.0 * of(1, 1) + of(0, 2)])


def _sums_along(code, n_row: int, n_col: int, n_values: int, n_fixed: int):
    """sums(rows (order, n_row, row), columns (order, n_col + 1, column), the charge last) along e, as of PairSums.

    The first n_fixed entries do not change. Gives values (order, n_values, row) and jacobian (order, n_values, moving,
    row).
    """
    both, fixed = with_jacobian(code, n_fixed, n_row, n_values), jnp.zeros(n_fixed)

    def orders(flat, n):
        changes = jnp.split(flat[n:], 2)
        return [flat[:n], *(jnp.concatenate([fixed, change]) for change in changes)]

    def along(row, col):
        jets = zip(orders(row, n_row), orders(col, n_col + 1), strict=True)
        return jnp.concatenate(jets_along(lambda pair: both(*pair), *jets))

    rows_in_all, flat = 3 * n_row - 2 * n_fixed, lambda x: np.concatenate([x[0], x[1][n_fixed:], x[2][n_fixed:]])
    pair_sums = PairSums(along, rows_in_all, 3 * (n_col + 1) - 2 * n_fixed, n_fixed=rows_in_all)

    def sums(rows, columns):
        out, _ = pair_sums(flat(rows), flat(columns), np.ones(columns.shape[2]))  # the true charges are in columns
        out = out.reshape(ORDERS, -1, rows.shape[2])
        return out[:, :n_values], out[:, n_values:].reshape(ORDERS, n_values, n_row - n_fixed, rows.shape[2])

    return sums
