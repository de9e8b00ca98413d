r"""Energy and matrix of functionals with double integrals, on a grid as a whole.

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

from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering.jets import CELL_VOLUME
from dftfd.autofd.lowering.two_points import PairIntegral, lower_nonlocal
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.autofd.scalar.symmetry import is_symmetric
from dftfd.errors import InputError, NumericalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.xc.kernel import Slopes, channel_count, checked_orders, density_jets, placeholders
from dftfd.xc.matrix import MatrixBuilder, XCContribution
from dftfd.xc.pair_kernel import PairSums

POINTS = 4096  # points per call of pointwise code


class NonlocalXCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a functional with double integrals, for a whole grid.

    The interface is that of dftfd.xc.kernel.XCKernel, with NumPy arrays of any number of points.
    moving_points: derivatives with respect to the points are wanted; the pair kernel's cost a little more time.
    """

    def __init__(self, functional: Functional, n_spin: int, moving_points: bool = False):
        self._program = lower_nonlocal(functional.energy_density(*placeholders()))
        orders = self._program.orders
        if orders.pop(CELL_VOLUME, 0) > 0:
            raise UnsupportedError(f"functional {functional.name!r} differentiates the cell volume of grid points.")
        self.functional = functional
        self.n_spin = n_spin
        self.moving_points = moving_points
        self.order, self.needs_tau = checked_orders(functional, orders)
        self.channels = channel_count(self.order, self.needs_tau)
        self.stages = [_Stage(self, k, integral) for k, integral in enumerate(self._program.integrals)]
        self.outer_slopes = on_points(jax.value_and_grad(self.energy_density, argnums=(0, 1, 2, 3)))
        self._energy = on_points(self.energy_density)

    def jets(self, density, cell, integrals) -> dict[str, list]:
        """What code at one point knows: jets of rho and tau, volume of the cell, integrals."""
        named = {s.name: [value] for s, value in zip(self._program.integrals, integrals, strict=True)}
        return density_jets(density, self.order) | {CELL_VOLUME: [cell]} | named

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
        energy, slopes = self._evaluate(points, weights, density)
        return energy, slopes.density

    def slopes(self, points, weights, density) -> Slopes:
        """All first derivatives of the energy; those by the points need `moving_points`."""
        if not self.moving_points:
            raise InputError("this kernel keeps its points fixed; make it with moving_points=True.")
        return self._evaluate(points, weights, density)[1]

    def _evaluate(self, points, weights, density):
        points, weights, density = np.asarray(points), np.asarray(weights), np.asarray(density)
        n_points = len(weights)
        integrals = [np.zeros((*s.integral.shape, n_points)) for s in self.stages]
        given = (density, np.ascontiguousarray(points.T), weights)
        work = [stage.forward(given, integrals) for stage in self.stages]
        energy = float(weights @ self._energy(*given, tuple(integrals)))
        self._require_finite("energy", energy)
        # phi is linear in symmetric integrals: at twice their values its derivative holds their part twice
        doubled = tuple(2.0 * S if s.symmetric else S for s, S in zip(self.stages, integrals, strict=True))
        e, (*slopes, d_integrals) = self.outer_slopes(*given, doubled)
        d_density, d_points, d_cell = (slope * weights for slope in slopes)
        d_weights = e + d_cell
        d_integrals = [d * weights for d in d_integrals]
        for k in reversed(range(len(self.stages))):
            explicit, (*more, more_integrals) = self.stages[k].backward(given, integrals, work[k], d_integrals[k])
            d_density += more[0]
            d_points += more[1]
            d_weights += explicit + more[2]
            d_integrals = [a + b for a, b in zip(d_integrals, more_integrals, strict=True)]
        self._require_finite("derivative by the density", d_density)
        if self.moving_points:
            self._require_finite("derivative by points or weights", d_points, d_weights)
        return energy, Slopes(d_weights, d_density, d_points)

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

        First, (point,), that by the weight of a point as one that is integrated over; then, through charge and
        features, those by density, point, volume of the cell, and integrals.
        """
        weights = given[2]
        charge, left, right, rows, jacobian = work
        d_S = d_S.reshape(self.integral.size, -1)
        d_left, d_right, d_charge = np.zeros_like(left), np.zeros_like(right), np.zeros_like(charge)
        explicit = np.zeros_like(charge)
        d_left[self.n_fixed :, rows] = np.einsum("mp,mfp->fp", d_S[:, rows], jacobian)
        if self.symmetric:
            d_left *= 2.0
        else:
            values, slopes = self.transposed(given, integrals, work, d_S)
            d_charge, explicit = weights * values, charge * values
            d_right[self.n_fixed :] = weights * charge * slopes
        return explicit, self.pull_back(*given, tuple(integrals), d_charge, d_left, d_right)

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


def on_points(code):
    """Code at one point as code on arrays with a last axis of points, in calls of one fixed size."""
    compiled = jax.jit(jax.vmap(code, in_axes=-1, out_axes=-1))

    def run(*args):
        n_points = jax.tree_util.tree_leaves(args)[0].shape[-1]
        blocks = []
        for start in range(0, n_points, POINTS):
            cut = partial(_block, start=start)
            blocks.append(jax.tree_util.tree_map(np.asarray, compiled(*jax.tree_util.tree_map(cut, args))))
        joined = jax.tree_util.tree_map(lambda *parts: np.concatenate(parts, axis=-1)[..., :n_points], *blocks)
        return joined

    return run


def _block(array, start):
    """POINTS points from `start` on; the last block is filled up with its last point."""
    block = array[..., start : start + POINTS]
    missing = POINTS - block.shape[-1]
    return np.pad(block, [(0, 0)] * (block.ndim - 1) + [(0, missing)], mode="edge") if missing else block


class NonlocalXCBuilder(MatrixBuilder):
    """Energy and matrix of a NonlocalXCKernel for density matrices in the basis of `store`."""

    def build(self, P, C_occ=None) -> XCContribution:
        """Energy, matrix and electron numbers of P (spin, ao, ao), symmetric; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        points, weights = self.grid
        density = self.density(P, C_occ)
        energy, potential = self.kernel(points, weights, density)
        return XCContribution(energy, self.matrix(potential), density[:, 0] @ weights)

    @cached_property
    def grid(self):
        """Points and weights of all blocks one after the other, (point, 3) and (point,)."""
        return tuple(np.concatenate([getattr(b, name) for b in self.store.blocks]) for name in ("points", "weights"))

    def density(self, P, C_occ=None) -> np.ndarray:
        """Density of P on the grid, (spin, channel, point)."""
        density = np.empty((len(P), self.kernel.channels, len(self.store.blocks) * self.store.block_size))
        self._on_workers(self._densities, P, C_occ, density)
        return density

    def matrix(self, potential) -> np.ndarray:
        """Matrix (spin, ao, ao) of a potential (spin, channel, point) on the grid."""
        M = sum(self._on_workers(self._half_matrices, potential))
        return M + M.transpose(0, 2, 1)

    def _block_slice(self, index):
        size = self.store.block_size
        return slice(index * size, (index + 1) * size)

    def _densities(self, part, scratch, P, C_occ, density):
        out = scratch("density", len(P), self.kernel.channels, self.store.block_size)
        for index in part:
            self._density(index, self._values(index, scratch), P, C_occ, out, scratch)
            density[..., self._block_slice(index)] = out

    def _half_matrices(self, part, scratch, potential):
        M = np.zeros((len(potential), self.store.n_ao, self.store.n_ao))
        for index in part:
            block = np.ascontiguousarray(potential[..., self._block_slice(index)])
            self._add_half_matrix(index, self._values(index, scratch), block, M, scratch)
        return M
