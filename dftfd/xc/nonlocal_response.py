r"""Response of functionals with double integrals: the derivative of their potential along a change of the density.

    dV[dP] = d/dt V[P + t dP] at t = 0

Every step of xc.nonlocal_kernel is differentiated forward along the change: code at one point by jax.jvp, and the sums
over pairs, values and slopes alike, by the derivative of the pair kernel's own code,

    d sum_q c_q K(a_p, b_q) = sum_q [dc_q K + c_q (K_a da_p + K_b db_q)],

in the same tiles. So it is the exact derivative of the potential that the SCF uses; the grid stays fixed.
"""

from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError
from dftfd.xc.code import on_points
from dftfd.xc.matrix import require_finite_response
from dftfd.xc.nonlocal_code import any_nonzero
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel
from dftfd.xc.pair_kernel import PairSums, with_jacobian


class NonlocalXCTangent:
    """The derivatives of a kernel's steps, compiled once."""

    def __init__(self, kernel: NonlocalXCKernel):
        if kernel.moving_points:
            raise InputError("the response is at fixed points; make the kernel with moving_points=False.")
        self.kernel = kernel
        self.stages = [_StageTangent(stage) for stage in kernel.stages]
        slopes = jax.grad(kernel.code.energy_density, argnums=(0, 3))
        self.outer = _along(slopes, (0, 3))


class _StageTangent:
    """The derivatives of one integral's steps. A change of the density comes as changes of density and integrals."""

    def __init__(self, stage):
        self.features = _along(stage.flat_features, (0, 3))
        self.pull_back = _along(stage.pulled, (0, 3, 4, 5, 6))
        self.sums = tangent_sums(stage.pair, stage.left_size, stage.right_size, stage.integral.size, stage.n_fixed)
        self._stage = stage

    @cached_property
    def transposed_sums(self):
        """Those with the sides exchanged, which symmetric integrals do without."""
        stage = self._stage
        n_col = stage.left_size + stage.integral.size
        return tangent_sums(stage.transposed_pair, stage.right_size, n_col, 1, stage.n_fixed)


def _along(code, moving):
    """(*arguments, *changes of those numbered `moving`) -> change of the result, on arrays of points."""

    def along(*given):
        values, changes = given[: -len(moving)], given[-len(moving) :]

        def moved(*new):
            replaced = dict(zip(moving, new, strict=True))
            return code(*(replaced.get(i, value) for i, value in enumerate(values)))

        return jax.jvp(moved, tuple(values[i] for i in moving), changes)[1]

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
