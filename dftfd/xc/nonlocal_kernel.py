r"""Functionals with double integrals on the channels of the density, on a grid as a whole.

A lowered functional (dftfd.autofd.lowering.two_points) is

    E = sum_p w_p phi(j_p, S_1p, S_2p, ...),   S_kp = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, b(j_q))

with the density's jets j. Its derivative with respect to the jets at a point has three parts: through phi, through the
left features a, and through charges c and right features b of the same point in the sums of others. The last one costs
a second pass over all pairs. Where phi is linear in S_k and the summand is proven symmetric, it equals the part of S_k
in the first two, which is doubled instead.

Where derivatives with respect to the points are asked for, r counts as one more left and right feature; that with
respect to a weight is phi plus the charge times the sums of others at this point.

Sums over pairs are bounded in memory by their tiles (xc.pair_kernel); everything else takes a few numbers per point.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering.jets import CELL_VOLUME
from dftfd.autofd.lowering.two_points import PairIntegral, lower_nonlocal
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.autofd.scalar.symmetry import is_symmetric
from dftfd.errors import InputError, NumericalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.xc.channels import channel_count, channels_for, jets, without_exact_exchange
from dftfd.xc.code import on_points
from dftfd.xc.kernel import Slopes
from dftfd.xc.pair_kernel import PairSums


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A kernel at a density on a grid: what its derivatives are made of, which the response differentiates once more.

    given: density (spin, channel, point), points (3, point), weights (point,).   slopes: of the energy, by them.
    integrals: each S (..., point).   work, sides: of each integral, as `_Stage.forward` and `backward` give them.
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
        self._program = lower_nonlocal(functional.energy_density(*unknown_densities()))
        orders = self._program.orders
        if orders.pop(CELL_VOLUME, 0) > 0:
            raise UnsupportedError(f"functional {functional.name!r} differentiates the cell volume of grid points.")
        self.functional = functional
        self.n_spin = n_spin
        self.moving_points = moving_points
        without_exact_exchange(functional, orders, "which double integrals do not know")
        self.order, self.needs_tau = channels_for(functional, orders)
        self.channels = channel_count(self.order, self.needs_tau)
        self.stages = [_Stage(self, k, integral) for k, integral in enumerate(self._program.integrals)]
        self.outer_slopes = on_points(jax.value_and_grad(self.energy_density, argnums=(0, 1, 2, 3)))
        self._energy = on_points(self.energy_density)
        self.tangent = None  # the derivatives of these steps, compiled when a response asks for them

    def jets(self, density, cell, integrals) -> dict[str, list]:
        """What code at one point knows: jets of rho and tau, volume of the cell, integrals."""
        named = {s.name: [value] for s, value in zip(self._program.integrals, integrals, strict=True)}
        return jets(density, self.order) | {CELL_VOLUME: [cell]} | named

    def energy_density(self, density, point, cell, integrals):
        """phi at one point: density (spin, channel), point (3,), cell volume, integrals (each of its shape)."""
        return self._program.outer(self.jets(density, cell, integrals), point)

    def inputs(self):
        """Shapes of the arguments of `energy_density`."""
        shapes = ((self.n_spin, self.channels), (3,), (), tuple(i.shape for i in self._program.integrals))
        array = lambda shape: jax.ShapeDtypeStruct(shape, np.float64)
        return (*map(array, shapes[:3]), tuple(map(array, shapes[3])))

    def __call__(self, points, weights, density):
        """points (point, 3), weights (point,), density (spin, channel, point); (float, array like density)."""
        found = self.evaluate(points, weights, density)
        return found.energy, found.slopes.density

    def slopes(self, points, weights, density) -> Slopes:
        """All first derivatives of the energy; those by the points need `moving_points`."""
        if not self.moving_points:
            raise InputError("this kernel keeps its points fixed; make it with moving_points=True.")
        return self.evaluate(points, weights, density).slopes

    def evaluate(self, points, weights, density) -> Evaluation:
        """Energy and derivatives, with what they came from; those by the points are whole if these move."""
        density, points, weights = np.asarray(density), np.asarray(points), np.asarray(weights)
        given = density, np.ascontiguousarray(points.T), weights
        integrals = [np.zeros((*s.integral.shape, len(weights))) for s in self.stages]
        work = [stage.forward(given, integrals) for stage in self.stages]
        energy = float(weights @ self._energy(*given, tuple(integrals)))
        self._require_finite("energy", energy)
        e, (*slopes, d_integrals) = self.outer_slopes(*given, self.doubled(integrals))
        d_density, d_points, d_cell = (slope * weights for slope in slopes)
        d_weights = e + d_cell
        d_integrals = [d * weights for d in d_integrals]
        sides = [None] * len(self.stages)
        for k in reversed(range(len(self.stages))):
            stage = self.stages[k]
            explicit, sides[k] = stage.backward(given, integrals, work[k], d_integrals[k])
            *more, more_integrals = stage.pull_back(*given, tuple(integrals), *sides[k][1:4])
            d_density += more[0]
            d_points += more[1]
            d_weights += explicit + more[2]
            d_integrals = [a + b for a, b in zip(d_integrals, more_integrals, strict=True)]
        self._require_finite("derivative by the density", d_density)
        if self.moving_points:
            self._require_finite("derivative by points or weights", d_points, d_weights)
        return Evaluation(energy, Slopes(d_weights, d_density, d_points), given, integrals, work, sides)

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


class _Stage:
    """One integral S of a kernel: its sums over pairs, forwards and backwards.

    linear: phi is linear in S, with a coefficient free of integrals.   symmetric: and the summand is symmetric.
    """

    def __init__(self, kernel: NonlocalXCKernel, number: int, integral: PairIntegral):
        self.kernel, self.number, self.integral = kernel, number, integral
        self.left_size, self.right_size = (
            3 + sum(int(np.prod(leaf.shape)) for leaf in jax.eval_shape(code, *kernel.inputs()))
            for code in (self._left, self._right)
        )
        self.n_fixed = 0 if kernel.moving_points else 3  # how many of the entries of a row have no derivative
        self.linear = self._is_linear()
        self.symmetric = self.linear and self._is_symmetric()
        self.features = on_points(self.flat_features)
        self.charge_slope = on_points(jax.jacrev(self._charge))
        self.coefficient_and_slope = on_points(lambda *x: (self._coefficient(*x), jax.jacrev(self._coefficient)(*x)))
        self.pull_back = on_points(self.pulled)
        self._sums = PairSums(self.pair, self.left_size, self.right_size, self.n_fixed)
        self._transposed_sums = None

    # code at one point; arguments as in NonlocalXCKernel.energy_density

    def _charge(self, density, point, cell, integrals):
        return self.integral.charge(self.kernel.jets(density, cell, integrals), point)

    def _left(self, density, point, cell, integrals):
        return self.integral.left(self.kernel.jets(density, cell, integrals), point)

    def _right(self, density, point, cell, integrals):
        return self.integral.right(self.kernel.jets(density, cell, integrals), point)

    def _coefficient(self, *inputs):
        """d phi / d S."""
        return jax.grad(self.kernel.energy_density, argnums=3)(*inputs)[self.number]

    def flat_features(self, *inputs):
        """Charge, and the point followed by the features, of both sides."""
        left, right = (_flat((inputs[1], *code(*inputs))) for code in (self._left, self._right))
        return self._charge(*inputs), left, right

    def pulled(self, density, point, cell, integrals, *cotangents):
        return jax.vjp(self.flat_features, density, point, cell, integrals)[1](cotangents)

    def pair(self, row, col):
        """K on (point, features) of both sides as vectors; flat."""
        inputs = self.kernel.inputs()
        left = _unflat(row[3:], jax.eval_shape(self._left, *inputs))
        right = _unflat(col[3:], jax.eval_shape(self._right, *inputs))
        return self.integral.kernel(row[:3], left, col[:3], right).reshape(-1)

    def transposed_pair(self, row, col):
        """sum of g K with the sides exchanged: a row is right, a column is left with the sensitivities g at its end."""
        split = self.left_size
        return jnp.sum(col[split:] * self.pair(col[:split], row))[None]

    # proofs

    def _is_linear(self) -> bool:
        if any(self.integral.name in other.needs for other in self.kernel._program.integrals):
            return False
        try:
            program = scalar_program(self._coefficient, *self.kernel.inputs())
        except UnsupportedError:
            return False
        first = sum(int(np.prod(s.shape)) for s in self.kernel.inputs()[:3])
        return not program.depends_on(range(first, program.n_inputs))

    def _is_symmetric(self) -> bool:
        def summand(here, there):
            K = self.integral.kernel(here[1], self._left(*here), there[1], self._right(*there))
            return jnp.sum(self._coefficient(*here) * K) * self._charge(*there)

        try:
            program = scalar_program(summand, self.kernel.inputs(), self.kernel.inputs())
        except UnsupportedError:
            return False
        half = program.n_inputs // 2
        return is_symmetric(program, [*range(half, 2 * half), *range(half)])

    # sums

    def forward(self, given, integrals):
        """Writes S to integrals[number]; returns what `backward` needs."""
        weights = given[2]
        charge, left, right = self.features(*given, tuple(integrals))
        rows = weights != 0
        if self.linear:  # where its coefficient vanishes, S is not needed
            coefficient, slopes = self.coefficient_and_slope(*given, tuple(integrals))
            rows &= any_nonzero(coefficient) | any_nonzero(slopes)
        columns = weights * charge != 0
        values, jacobian = self._sums(
            left[:, rows],
            right[:, columns],
            (weights * charge)[columns],
        )
        S = integrals[self.number]
        S[..., rows] = values.reshape(*self.integral.shape, -1)
        return charge, left, right, rows, jacobian

    def backward(self, given, integrals, work, d_S):
        """Derivatives of the energy through this integral, with d_S: the one with respect to S.

        First, (point,), that by the weight of a point as one that is integrated over; then (d_S, derivatives by charge,
        left and right features, slopes by right features per charge, which symmetric integrals do without).
        """
        weights = given[2]
        charge, left, right, rows, jacobian = work
        d_S = d_S.reshape(self.integral.size, -1)
        d_left, d_right, d_charge = np.zeros_like(left), np.zeros_like(right), np.zeros_like(charge)
        explicit, slopes = np.zeros_like(charge), None
        d_left[self.n_fixed :, rows] = np.einsum("mp,mfp->fp", d_S[:, rows], jacobian)
        if self.symmetric:
            d_left *= 2.0
        else:
            values, slopes = self.transposed(given, integrals, work, d_S)
            d_charge, explicit = weights * values, charge * values
            d_right[self.n_fixed :] = weights * charge * slopes
        return explicit, (d_S, d_charge, d_left, d_right, slopes)

    def transposed(self, given, integrals, work, d_S):
        """Derivatives of sum d_S S by the charge at a point, (point,), and by its right features (moving, point)."""
        charge, left, right, *_ = work
        values, slopes = np.zeros_like(charge), np.zeros((self.right_size - self.n_fixed, len(charge)))
        there, here = self.charged(given, integrals, charge), any_nonzero(d_S)
        if self._transposed_sums is None:
            n_row, n_col = self.right_size, self.left_size + self.integral.size
            self._transposed_sums = PairSums(self.transposed_pair, n_row, n_col, self.n_fixed)
        found = self._transposed_sums(right[:, there], np.vstack([left, d_S])[:, here], np.ones(np.count_nonzero(here)))
        values[there], slopes[:, there] = found[0][0], found[1][0]
        return values, slopes

    def charged(self, given, integrals, charge):
        """Mask of the points that have a charge, or would have one at another density."""
        return (given[2] * charge != 0) | any_nonzero(self.charge_slope(*given, tuple(integrals)))


def _flat(features):
    return jnp.concatenate([f.reshape(-1) for f in features]) if features else jnp.zeros(0)


def _unflat(vector, specs):
    parts, start = [], 0
    for spec in specs:
        size = int(np.prod(spec.shape))
        parts.append(vector[start : start + size].reshape(spec.shape))
        start += size
    return tuple(parts)


def any_nonzero(tree):
    """Mask of the points (last axis) where any array of the tree is not zero."""
    flat = [leaf.reshape(-1, leaf.shape[-1]) for leaf in jax.tree_util.tree_leaves(tree)]
    return np.any(np.concatenate(flat) != 0, axis=0)
