r"""Functionals with double integrals on the channels of the density, on a grid as a whole.

A lowered functional (dftfd.autofd.lowering) is

    E = sum_p w_p phi(j_p, S_1p, S_2p, ...),   S_kp = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, b(j_q))

with the density's jets j. Its derivative with respect to the jets at a point has three parts: through phi, through the
left features a, and through charges c and right features b of the same point in the sums of others. The last one costs
a second pass over all pairs. Where phi is linear in S_k and the summand is proven symmetric, it equals the part of S_k
in the first two, which is doubled instead.

Where derivatives with respect to the points are asked for, r counts as one more left and right feature; that with
respect to a weight is phi plus the charge times the sums of others at this point.

Sums over pairs are bounded in memory by their tiles (xc.nonlocal_code); everything else takes a few numbers per point.

The response dV[dP] = d/dt V[P + t dP] at t = 0 differentiates every step forward along the change: code at one point by
jax.jvp, and the sums over pairs, values and slopes alike, by the derivative of the pair kernel's own code,

    d sum_q c_q K(a_p, b_q) = sum_q [dc_q K + c_q (K_a da_p + K_b db_q)],

in the same tiles. So it is the exact derivative of the potential that the SCF uses; the grid stays fixed. Third
derivatives, along densities n + e n' + e^2/2 n'', carry every step as (value, first, second derivative by e at e = 0),
and products by the binomial rule.
"""

from dataclasses import dataclass
from functools import cache, cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError, NumericalError
from dftfd.functionals.base import Functional
from dftfd.runtime.array_types import DensityOnGrid, Points, Weights
from dftfd.xc.code import jets_along, on_points
from dftfd.xc.kernel import Slopes, SlopesAlong
from dftfd.xc.matrix import MatrixBuilder, XCContribution, require_finite_response
from dftfd.xc.nonlocal_code import NonlocalCode, PairSums, any_nonzero, with_jacobian
from dftfd.xc.operands import code_with_operands, values_of


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A kernel at a density on a grid: what its derivatives are made of, which the response differentiates once more.

    given: density (spin, channel, point), places (NonlocalCode), weights (point,).   slopes: of the energy, by them.
    integrals: each S (..., point).   work, sides: of each integral, as `Stage.forward` and `backward` give them.
    """

    energy: float
    slopes: Slopes
    given: tuple
    integrals: list
    work: list
    sides: list


class NonlocalXCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a functional with double integrals, for a whole grid.

    The interface is that of dftfd.xc.kernel.XCKernel.
    moving_points: derivatives with respect to the points are wanted; the pair kernel's cost a little more time.
    """

    whole_grid = True

    def __init__(self, functional: Functional, n_spin: int, moving_points: bool = False):
        self.functional, self.n_spin, self.moving_points = functional, n_spin, moving_points
        code = cache(partial(NonlocalCode, functional, n_spin, moving_points))
        kind = NonlocalXCKernel, n_spin, moving_points
        trace, make = (lambda operands: code(operands).in_all()), (lambda operands, _: code(operands))
        self.code, operands = code_with_operands(kind, functional, trace, make)
        self._values = values_of(operands)
        self.order, self.needs_tau, self.channels = self.code.order, self.code.needs_tau, self.code.channels

    @property
    def stages(self):
        """The integrals, as `Stage`."""
        return self.code.stages

    def __call__(self, points: Points, weights: Weights, density: DensityOnGrid) -> tuple[float, DensityOnGrid]:
        """points (point, 3), weights (point,), density (spin, channel, point); (float, array like density)."""
        found = self.evaluate(points, weights, density)
        return found.energy, found.slopes.density

    def slopes(self, points: Points, weights: Weights, density: DensityOnGrid) -> Slopes:
        """All first derivatives of the energy; those by the points need `moving_points`."""
        if not self.moving_points:
            raise InputError("this kernel keeps its points fixed; make it with moving_points=True.")
        return self.evaluate(points, weights, density).slopes

    def second_slopes(
        self, points: Points, weights: Weights, density: DensityOnGrid, first: DensityOnGrid, second: DensityOnGrid
    ) -> SlopesAlong:
        """The slopes along density + e first + e^2/2 second; those by the points are whole if these move."""
        code = self.code
        code.third = code.third or NonlocalXCThird(code)
        return code.third.slopes(self, points, weights, density, first, second).finite(self.functional.name)

    def given(self, points, weights, density):
        """(density, places of the points, weights) as arrays, which the code at one point takes."""
        density, points, weights = np.asarray(density), np.asarray(points), np.asarray(weights)
        values = np.broadcast_to(self._values[:, None], (len(self._values), len(weights)))
        return density, np.vstack([values, points.T]), weights

    def evaluate(self, points, weights, density) -> Evaluation:
        """Energy and derivatives, with what they came from; those by the points are whole if these move."""
        given = density, _, weights = self.given(points, weights, density)
        integrals = [np.zeros((*s.integral.shape, len(weights))) for s in self.stages]
        work = [stage.forward(given, integrals) for stage in self.stages]
        energy = float(weights @ self.code.energy(*given, tuple(integrals)))
        self._require_finite("energy", energy)
        e, (*slopes, d_integrals) = self.code.outer_slopes(*given, self.doubled(integrals))
        d_density, d_points, d_cell = (slope * weights for slope in slopes)
        d_weights = e + d_cell
        d_integrals = [d * weights for d in d_integrals]
        sides: list[tuple] = []
        for k in reversed(range(len(self.stages))):
            stage = self.stages[k]
            explicit, side = stage.backward(given, integrals, work[k], d_integrals[k])
            sides.insert(0, side)
            *more, more_integrals = stage.pull_back(*given, tuple(integrals), *side[1:4])
            d_density += more[0]
            d_points += more[1]
            d_weights += explicit + more[2]
            d_integrals = [a + b for a, b in zip(d_integrals, more_integrals, strict=True)]
        self._require_finite("derivative by the density", d_density)
        if self.moving_points:
            self._require_finite("derivative by points or weights", d_points, d_weights)
        return Evaluation(energy, Slopes(d_weights, d_density, d_points[-3:]), given, integrals, work, sides)

    def doubled(self, integrals) -> tuple:
        """Symmetric integrals twice: phi is linear in them, so its derivative there holds their part twice."""
        return tuple(2.0 * S if s.symmetric else S for s, S in zip(self.stages, integrals, strict=True))

    def _require_finite(self, what, *values):
        wrong = [x for value in values for x in np.ravel(value)[~np.isfinite(np.ravel(value))]]
        if wrong:
            raise NumericalError(
                f"the {what} of functional {self.functional.name!r} is {wrong[0]}. If its pair kernel is not finite "
                "for coinciding points, leave such pairs out and add the part of one cell, as functionals/hartree.py "
                "does."
            )


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


class _StageDerivatives:
    """Derivatives of one integral's steps (nonlocal_code.Stage): of code by `along`, of sums by `sums_along`."""

    def __init__(self, stage, along, sums_along):
        self._stage, self._sums_along = stage, sums_along
        self.features = along(stage.flat_features, (0, 3))
        self.pull_back = along(stage.pulled, (0, 3, 4, 5, 6))
        self.sums = sums_along(stage.pair, stage.left_size, stage.right_size, stage.integral.size, stage.n_fixed)

    @cached_property
    def transposed_sums(self):
        """Those with the sides exchanged, which symmetric integrals do without."""
        stage = self._stage
        n_col = stage.left_size + stage.integral.size
        return self._sums_along(stage.transposed_pair, stage.right_size, n_col, 1, stage.n_fixed)


class _StageAlong(_StageDerivatives):
    """One integral's steps along e."""

    def __init__(self, stage):
        super().__init__(stage, _along, _sums_along)

    def forward(self, k, given, S, rows):
        """Writes S[k] (order, ..., point) at the points `rows`; returns what `backward` needs."""
        weights = given[2]
        charge, left, right = _stacked(self.features((*given, tuple(S))))
        columns = any_nonzero(charge * weights)
        with_charges = np.concatenate([right, (weights * charge)[:, None]], axis=1)[..., columns]
        values, jacobian = self.sums(left[..., rows], with_charges)
        S[k][..., rows] = values.reshape(ORDERS, *self._stage.integral.shape, -1)
        return charge, left, right, rows, jacobian

    def backward(self, given, S, forward, by_S):
        """Orders of the derivatives by a weight that is integrated over, and by charge, left and right features."""
        weights, (charge, left, right, rows, jacobian), n_fixed = given[2], forward, self._stage.n_fixed
        by_S = by_S.reshape(ORDERS, self._stage.integral.size, -1)
        by_charge, by_left, by_right = (np.zeros_like(side) for side in (charge, left, right))
        by_left[:, n_fixed:, rows] = _product("mp,mfp->fp", by_S[..., rows], jacobian)
        explicit = np.zeros_like(charge)
        if self._stage.symmetric:
            return explicit, (by_charge, 2.0 * by_left, by_right)
        here = any_nonzero(by_S)
        there = any_nonzero(charge * weights)
        there |= self._stage.charged((given[0][0], *given[1:]), [of[0] for of in S], charge[0])
        columns = np.concatenate(
            [left, by_S, np.broadcast_to([[[1.0]], [[0.0]], [[0.0]]], (3, 1, len(weights)))], axis=1
        )
        values, slopes = self.transposed_sums(right[..., there], columns[..., here])
        by_charge[:, there] = weights[there] * values[:, 0]
        explicit[:, there] = _product("p,p->p", charge[:, there], values[:, 0])
        by_right[:, n_fixed:, there] = _product("p,fp->fp", (weights * charge)[:, there], slopes[:, 0])
        return explicit, (by_charge, by_left, by_right)


def _along(code, moving):
    """Code at one point on arrays of points; arguments numbered `moving` have a leading axis of orders.

    Gives (value, first, second derivative by e).
    """

    def along(arguments):
        orders = [tuple(jax.tree.map(lambda x, k=k: x[k], arguments[i]) for i in moving) for k in range(ORDERS)]
        return jets_along(_of_moving(code, arguments, moving), *orders)

    return on_points(along)


def _of_moving(code, given, moving):
    """code(*given) as a function of the tuple of arguments numbered `moving`."""

    def moved(values):
        replaced = dict(zip(moving, values, strict=True))
        return code(*(replaced.get(i, value) for i, value in enumerate(given)))

    return moved


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


class NonlocalXCTangent:
    """The derivatives of a kernel's steps, compiled once. The density changes together with the integrals of it."""

    def __init__(self, kernel: NonlocalXCKernel):
        if kernel.moving_points:
            raise InputError("the response is at fixed points; make the kernel with moving_points=False.")
        self.kernel = kernel
        self.stages = [_StageDerivatives(stage, _change_along, tangent_sums) for stage in kernel.stages]
        slopes = jax.grad(kernel.code.energy_density, argnums=(0, 3))
        self.outer = _change_along(slopes, (0, 3))


def _change_along(code, moving):
    """(*arguments, *changes of those numbered `moving`) -> change of the result, on arrays of points."""

    def along(*given):
        values, changes = given[: -len(moving)], given[-len(moving) :]
        return jax.jvp(_of_moving(code, values, moving), (tuple(values[i] for i in moving),), (changes,))[1]

    return on_points(along)


def tangent_sums(code, n_row: int, n_col: int, n_values: int, n_fixed: int):
    """sums(rows, d_rows, columns, d_columns): the change of the sums of PairSums(code, ...), values and jacobian.

    rows (n_row, row), columns (n_col + 1, column) with the charges last; their changes without the fixed entries.
    Returns (values (n_values, row), jacobian (n_values, moving, row)).
    """
    both = with_jacobian(code, n_fixed, n_row, n_values)
    fixed = jnp.zeros(n_fixed)

    def change(row, col):
        d_row, d_col = (jnp.concatenate([fixed, x]) for x in (row[n_row:], col[n_col + 1 :]))
        return jax.jvp(both, (row[:n_row], col[: n_col + 1]), (d_row, d_col))[1]

    rows_in_all = 2 * n_row - n_fixed
    pair_sums = PairSums(change, rows_in_all, 2 * (n_col + 1) - n_fixed, n_fixed=rows_in_all)

    def sums(rows, d_rows, columns, d_columns):
        charges = np.ones(columns.shape[1])  # the true ones are among the columns
        out, _ = pair_sums(np.vstack([rows, d_rows]), np.vstack([columns, d_columns]), charges)
        return out[:n_values], out[n_values:].reshape(n_values, n_row - n_fixed, rows.shape[1])

    return sums


class NonlocalXCResponse:
    """change(tangent (spin, channel, point)) -> change of the potential, alike, at one density on one grid."""

    def __init__(self, kernel: NonlocalXCKernel, points, weights, density):
        self._tangent = kernel.code.tangent = kernel.code.tangent or NonlocalXCTangent(kernel)
        self._kernel, self._fixed = kernel, kernel.code.n_fixed
        found = kernel.evaluate(points, weights, density)
        self._given, self._integrals, self._work, self._sides = found.given, found.integrals, found.work, found.sides

    def __call__(self, tangent):
        given, integrals, weights = self._given, tuple(self._integrals), self._given[2]
        d_integrals, forward = [np.zeros_like(S) for S in integrals], []
        for k in range(len(integrals)):
            forward.append(self._forward(k, tangent, d_integrals))
        doubled = self._kernel.doubled
        potential, dd = self._tangent.outer(*given, doubled(integrals), tangent, doubled(d_integrals))
        potential, dd = potential * weights, [x * weights for x in dd]
        for k in reversed(range(len(integrals))):
            more, *_, more_integrals = self._backward(k, tangent, d_integrals, dd[k], *forward[k])
            potential += more
            dd = [a + b for a, b in zip(dd, more_integrals, strict=True)]
        require_finite_response(self._kernel, potential)
        return potential

    def _forward(self, k, tangent, d_integrals):
        """Writes the change of S to d_integrals[k]; returns those of charge, left, right and jacobian."""
        stage, weights = self._kernel.stages[k], self._given[2]
        charge, left, right, rows, _ = self._work[k]
        features = self._tangent.stages[k].features
        d_charge, d_left, d_right = features(*self._given, tuple(self._integrals), tangent, tuple(d_integrals))
        columns = (weights * charge != 0) | (weights * d_charge != 0)
        values, jacobian = self._tangent.stages[k].sums(
            left[:, rows],
            d_left[self._fixed :, rows],
            np.vstack([right, weights * charge])[:, columns],
            np.vstack([d_right[self._fixed :], weights * d_charge])[:, columns],
        )
        d_integrals[k][..., rows] = values.reshape(*stage.integral.shape, -1)
        return d_charge, d_left, d_right, jacobian

    def _backward(self, k, tangent, d_integrals, dd_S, d_charge, d_left, d_right, d_jacobian):
        """Changes of the derivatives by density, point, volume and integrals through one integral."""
        stage, weights = self._kernel.stages[k], self._given[2]
        charge, left, right, rows, jacobian = self._work[k]
        d_S, *sides, slopes = self._sides[k]
        dd_S = dd_S.reshape(d_S.shape)
        dd_charge, dd_left, dd_right = (np.zeros_like(side) for side in sides)
        for weight, J in ((dd_S, jacobian), (d_S, d_jacobian)):
            dd_left[self._fixed :, rows] += np.einsum("mp,mfp->fp", weight[:, rows], J)
        if stage.symmetric:
            dd_left *= 2.0
        else:
            there, here = stage.charged(self._given, self._integrals, charge), any_nonzero(d_S) | any_nonzero(dd_S)
            n_here = np.count_nonzero(here)
            d_values, d_slopes = self._tangent.stages[k].transposed_sums(
                right[:, there],
                d_right[self._fixed :, there],
                np.vstack([left[:, here], d_S[:, here], np.ones(n_here)]),
                np.vstack([d_left[self._fixed :, here], dd_S[:, here], np.zeros(n_here)]),
            )
            dd_charge[there] = weights[there] * d_values[0]
            dd_right[self._fixed :] = weights * d_charge * slopes
            dd_right[self._fixed :, there] += (weights * charge)[there] * d_slopes[0]
        changes = tangent, tuple(d_integrals), dd_charge, dd_left, dd_right
        return self._tangent.stages[k].pull_back(*self._given, tuple(self._integrals), *sides, *changes)


class NonlocalXCBuilder(MatrixBuilder):
    """Energy and matrix of a kernel for density matrices in the basis of `store`."""

    kernel: NonlocalXCKernel

    def build(self, P, C_occ=None) -> XCContribution:
        """Energy, matrix and electron numbers of P; arguments as in XCBuilder.build."""
        points, weights = self.grid
        density = self.density(P, C_occ)
        energy, potential = self.kernel(points, weights, density)
        return XCContribution(energy, self.matrix(potential), density[:, 0] @ weights)
