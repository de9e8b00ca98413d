"""The code of functionals with double integrals, at one point and at two, that kernels share: see xc.nonlocal_kernel.

Kernels whose functionals differ by the values of operands (xc.operands) alone have one code. Its points know the
values: a place is (values of operands, point), the first the same at all points.

Sums over all pairs of grid points, with derivatives, are formed in bounded memory:

    values_k(p) = sum_q charge_q f_k(row_p, col_q),   jacobian_ki(p) = sum_q charge_q d f_k / d row_p,i

f is code of the numbers known of one point each. Its derivative is taken by automatic differentiation of f itself, for
one pair; the result, as scalar code (dftfd.autofd.scalar), is unrolled over a few columns and vectorised over rows.
Differentiating the sums in reverse mode instead would cost ten times more. Tiles have fixed shapes, so a functional is
compiled once, and they bound the memory.
"""

from contextlib import suppress
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering import CELL_VOLUME, PairIntegral, lower_nonlocal
from dftfd.autofd.scalar.on_jax import run
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.autofd.scalar.simplify import is_symmetric, regrouped
from dftfd.errors import UnsupportedError
from dftfd.functionals.densities import unknown_densities
from dftfd.runtime.threads import share_out
from dftfd.xc.channels import channel_count, channels_for, jets, without_exact_exchange
from dftfd.xc.code import on_points
from dftfd.xc.operands import values_of, with_values

ROWS = 512
COLUMNS = 1024
UNROLLED_OPERATIONS = 64  # operations in the body of the loop over columns: two columns of VV10
GENERAL_COLUMNS = 64  # width of a tile of code that has no scalar form


class PairSums:
    """Sums over columns, for each row, of code(row (n_row,), col (n_col,)) -> (m,) and its derivative.

    n_fixed: how many leading entries of `row` derivatives are not taken with respect to.
    """

    def __init__(self, code, n_row: int, n_col: int, n_fixed: int):
        self.n_row, self.n_col = n_row, n_col
        row, col = (jax.ShapeDtypeStruct((n,), np.float64) for n in (n_row, n_col))
        self.n_values = jax.eval_shape(code, row, col).shape[0]
        self.n_moving = n_row - n_fixed
        self._code = with_jacobian(code, n_fixed, n_row, self.n_values)
        self.program: ScalarProgram | None = None
        try:
            program = scalar_program(self._code, row, jax.ShapeDtypeStruct((n_col + 1,), np.float64))
            self.program = regrouped(program, range(n_row, n_row + n_col + 1))
        except UnsupportedError:  # no scalar form
            self._tile = jax.jit(self._general_tile)
        else:
            self._tile = jax.jit(partial(self._unrolled_tile, self.program))

    def __call__(self, rows, columns, charges):
        """(values (m, row), jacobian (m, moving, row)) from rows (n_row, row), columns (n_col, column) and
        charges (column,)."""
        n_rows, n_out = rows.shape[1], self.n_values * (1 + self.n_moving)
        out = np.zeros((n_out, n_rows))
        tiles = _column_tiles(columns, charges)

        def part(starts):
            for start in starts:
                block = rows[:, start : start + ROWS]
                width = block.shape[1]
                block = jnp.asarray(np.pad(block, ((0, 0), (0, ROWS - width)), mode="edge"))
                for tile in tiles:
                    out[:, start : start + width] += np.asarray(self._tile(block, tile))[:, :width]

        share_out(range(0, n_rows, ROWS) if columns.shape[1] else (), part)
        return out[: self.n_values], out[self.n_values :].reshape(self.n_values, self.n_moving, n_rows)

    def _unrolled_tile(self, program: ScalarProgram, rows, columns):
        """rows (n_row, ROWS), columns (n_col + 1, COLUMNS) with the charge last; (n_out, ROWS)."""
        unrolled = 1
        while unrolled < 8 and 2 * unrolled * program.length <= UNROLLED_OPERATIONS:
            unrolled *= 2
        rows = list(rows)

        columns = list(columns)

        def body(step, total):
            for k in range(unrolled):
                column = [c[step * unrolled + k] for c in columns]
                values = jax.vmap(lambda *row, column=column: run(program, [*row, *column]))(*rows)
                total = [t + v for t, v in zip(total, values, strict=True)]
            return total

        zeros = [jnp.zeros(ROWS) for _ in program.outputs]
        return jnp.stack(jax.lax.fori_loop(0, COLUMNS // unrolled, body, zeros))

    def _general_tile(self, rows, columns):
        """The same for code without scalar form."""

        def body(total, tile):
            one = lambda row: jax.vmap(lambda column: self._code(row, column))(tile).sum(axis=0)
            return total + jax.vmap(one, in_axes=1, out_axes=1)(rows), None

        n_out = self.n_values * (1 + self.n_moving)
        tiles = columns.T.reshape(-1, GENERAL_COLUMNS, self.n_col + 1)
        return jax.lax.scan(body, jnp.zeros((n_out, ROWS)), tiles)[0]


def with_jacobian(code, n_fixed, n_row, n_values):
    """(row, (*col, charge)) -> charge times values and, row-major, their derivatives with respect to row[n_fixed:]."""

    def both(row, col):
        at = lambda x: col[-1] * code(jnp.concatenate([row[:n_fixed], x]), col[:-1])
        x = row[n_fixed:]
        if n_fixed == n_row:
            return at(x)
        return jnp.concatenate([at(x), _jacobian(at, x, n_values).reshape(-1)])

    return both


def _jacobian(f, x, n_values):
    """df/dx in the cheaper direction; a while_loop has derivatives in the forward one alone."""
    if n_values <= x.size:
        with suppress(ValueError):  # what JAX says of such loops; of anything else it is said again below
            return jax.jacrev(f)(x)
    return jax.jacfwd(f)(x)


def _column_tiles(columns, charges):
    """Tiles (n_col + 1, COLUMNS); the last one is filled up with its last column, without charge."""
    n_columns = columns.shape[1]
    tiles = []
    for start in range(0, n_columns, COLUMNS):
        tile = np.vstack([columns[:, start : start + COLUMNS], charges[None, start : start + COLUMNS]])
        width = tile.shape[1]
        tile = np.pad(tile, ((0, 0), (0, COLUMNS - width)), mode="edge")
        tile[-1, width:] = 0.0
        tiles.append(jnp.asarray(tile))
    return tiles


class NonlocalCode:
    """The code at one point and at two that kernels with other values of operands share.

    A place is (values of operands, point): what a point knows but for the density, the same values at all points.
    """

    def __init__(self, functional, n_spin, moving_points, operands):
        self.functional, self.n_spin, self.operands = functional, n_spin, operands
        self.n_values = values_of(operands).size
        self.n_place = self.n_values + 3
        self.n_fixed = self.n_values if moving_points else self.n_place
        self._program = lower_nonlocal(functional.energy_density(*unknown_densities()))
        orders = dict(self._program.orders)
        if orders.pop(CELL_VOLUME, 0) > 0:
            raise UnsupportedError(f"functional {functional.name!r} differentiates the cell volume of grid points.")
        without_exact_exchange(functional, orders, "which double integrals do not know")
        self.order, self.needs_tau = channels_for(functional, orders)
        self.channels = channel_count(self.order, self.needs_tau)
        self.outer_slopes = on_points(jax.value_and_grad(self.energy_density, argnums=(0, 1, 2, 3)))
        self.energy = on_points(self.energy_density)
        self.tangent = self.third = None  # derivatives of these steps, made when a response, or forces of states, ask

    @property
    def integrals(self) -> tuple[PairIntegral, ...]:
        return self._program.integrals

    @cached_property
    def stages(self):
        return [Stage(self, k, integral) for k, integral in enumerate(self.integrals)]

    def program(self, place):
        """The lowered functional with the values of a place."""
        if not self.n_values:
            return self._program
        values, start = [], 0
        for operand in self.operands:
            size = np.size(operand.value)
            values.append(place[start : start + size].reshape(np.shape(operand.value)))
            start += size
        given = with_values(self.functional, self.operands, values)
        program = lower_nonlocal(given.energy_density(*unknown_densities()))
        if [(i.name, i.shape) for i in program.integrals] != [(i.name, i.shape) for i in self._program.integrals]:
            raise UnsupportedError(f"functional {self.functional.name!r}: its control flow depends on its integrals.")
        return program

    def jets(self, density, cell, integrals) -> dict[str, list]:
        """What code at one point knows: jets of rho and tau, volume of the cell, integrals."""
        named = {s.name: [value] for s, value in zip(self._program.integrals, integrals, strict=True)}
        return jets(density, self.order) | {CELL_VOLUME: [cell]} | named

    def energy_density(self, density, place, cell, integrals):
        """phi at one point: density (spin, channel), place, cell volume, integrals (each of its shape)."""
        return self.program(place).outer(self.jets(density, cell, integrals), place[self.n_values :])

    def inputs(self):
        """Shapes of the arguments of `energy_density`."""
        shapes = (
            (self.n_spin, self.channels),
            (self.n_place,),
            (),
            tuple(i.shape for i in self._program.integrals),
        )
        array = lambda shape: jax.ShapeDtypeStruct(shape, np.float64)
        return (*map(array, shapes[:3]), tuple(map(array, shapes[3])))

    def in_all(self) -> ScalarProgram:
        """phi, and charges and kernels of all integrals, for two points; the last inputs are the values of operands.

        What decides whether formulas take these operands. UnsupportedError where there is no scalar form.
        """

        def code(density, points, cells, integrals, *values):
            flat = [jnp.reshape(value, -1) for value in values]
            here, there = (
                (density[k], jnp.concatenate([*flat, points[k]]), cells[k], tuple(S[k] for S in integrals))
                for k in range(2)
            )
            found = [self.energy_density(*here)]
            for stage in self.stages:
                found += [stage.charge(*there), stage.pair_at(here, there)]
            return jnp.concatenate([jnp.reshape(x, -1) for x in found])

        array = lambda shape: jax.ShapeDtypeStruct(shape, np.float64)
        density, _, cell, integrals = self.inputs()
        twice = lambda spec: array((2, *spec.shape))
        values = (array(np.shape(operand.value)) for operand in self.operands)
        return scalar_program(code, twice(density), array((2, 3)), twice(cell), tuple(map(twice, integrals)), *values)


class Stage:
    """One integral S: its sums over pairs, forwards and backwards.

    linear: phi is linear in S, with a coefficient free of integrals.   symmetric: and the summand is symmetric.
    """

    def __init__(self, code: NonlocalCode, number: int, integral: PairIntegral):
        self.code, self.number, self.integral = code, number, integral
        self.n_fixed = code.n_fixed  # how many of the entries of a row have no derivative
        self.features = on_points(self.flat_features)
        self.charge_slope = on_points(jax.jacrev(self.charge))
        self.coefficient_and_slope = on_points(lambda *x: (self._coefficient(*x), jax.jacrev(self._coefficient)(*x)))
        self.pull_back = on_points(self.pulled)
        self._transposed_sums: PairSums | None = None

    @cached_property
    def left_size(self) -> int:
        """Entries of a row: those of a place, and the features."""
        return self._size(self._left)

    @cached_property
    def right_size(self) -> int:
        return self._size(self._right)

    def _size(self, code):
        leaves = jax.eval_shape(code, *self.code.inputs())
        return self.code.n_place + sum(int(np.prod(leaf.shape)) for leaf in leaves)

    @cached_property
    def linear(self) -> bool:
        return self._is_linear()

    @cached_property
    def symmetric(self) -> bool:
        return self.linear and self._is_symmetric()

    @cached_property
    def _sums(self):
        return PairSums(self.pair, self.left_size, self.right_size, self.n_fixed)

    # code at one point; arguments as in NonlocalCode.energy_density

    def _of(self, place):
        """The integral with the values of a place."""
        return self.code.program(place).integrals[self.number]

    def charge(self, density, place, cell, integrals):
        return self._at(self._of(place).charge, density, place, cell, integrals)

    def _left(self, density, place, cell, integrals):
        return self._at(self._of(place).left, density, place, cell, integrals)

    def _right(self, density, place, cell, integrals):
        return self._at(self._of(place).right, density, place, cell, integrals)

    def _at(self, code, density, place, cell, integrals):
        return code(self.code.jets(density, cell, integrals), place[self.code.n_values :])

    def _coefficient(self, *inputs):
        """d phi / d S."""
        return jax.grad(self.code.energy_density, argnums=3)(*inputs)[self.number]

    def flat_features(self, *inputs):
        """Charge, and the place followed by the features, of both sides."""
        left, right = (_flat((inputs[1], *code(*inputs))) for code in (self._left, self._right))
        return self.charge(*inputs), left, right

    def pulled(self, density, place, cell, integrals, *cotangents):
        return jax.vjp(self.flat_features, density, place, cell, integrals)[1](cotangents)

    def pair_at(self, here, there):
        """K at two points."""
        point = lambda inputs: inputs[1][self.code.n_values :]
        return self._of(here[1]).kernel(point(here), self._left(*here), point(there), self._right(*there))

    def pair(self, row, col):
        """K on (place, features) of both sides as vectors; flat."""
        inputs, n, start = self.code.inputs(), self.code.n_place, self.code.n_values
        left = _unflat(row[n:], jax.eval_shape(self._left, *inputs))
        right = _unflat(col[n:], jax.eval_shape(self._right, *inputs))
        return self._of(row[:n]).kernel(row[start:n], left, col[start:n], right).reshape(-1)

    def transposed_pair(self, row, col):
        """sum of g K with the sides exchanged: a row is right, a column is left with the sensitivities g at its end."""
        split = self.left_size
        return jnp.sum(col[split:] * self.pair(col[:split], row))[None]

    # proofs

    def _is_linear(self) -> bool:
        if any(self.integral.name in other.integral.needs for other in self.code.stages):
            return False
        try:
            program = scalar_program(self._coefficient, *self.code.inputs())
        except UnsupportedError:
            return False
        first = sum(int(np.prod(s.shape)) for s in self.code.inputs()[:3])
        return not program.depends_on(range(first, program.n_inputs))

    def _is_symmetric(self) -> bool:
        def summand(values, here, there):
            here, there = ((d, jnp.concatenate([values, r]), *more) for d, r, *more in (here, there))
            return jnp.sum(self._coefficient(*here) * self.pair_at(here, there)) * self.charge(*there)

        density, _, *more = self.code.inputs()
        one = density, jax.ShapeDtypeStruct((3,), np.float64), *more
        try:
            program = scalar_program(summand, jax.ShapeDtypeStruct((self.code.n_values,), np.float64), one, one)
        except UnsupportedError:
            return False
        start = self.code.n_values
        half = (program.n_inputs - start) // 2
        middle = start + half
        return is_symmetric(program, [*range(start), *range(middle, program.n_inputs), *range(start, middle)])

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
