"""Sums over all pairs of grid points, with derivatives, in bounded memory.

    values_k(p) = sum_q charge_q f_k(row_p, col_q),   jacobian_ki(p) = sum_q charge_q d f_k / d row_p,i

f is code of the numbers known of one point each. Its derivative is taken by automatic differentiation of f itself, for
one pair; the result, as scalar code (dftfd.autofd.scalar), is unrolled over a few columns and vectorised over rows.
Differentiating the sums in reverse mode instead would cost ten times more. Tiles have fixed shapes, so a functional is
compiled once, and they bound the memory.
"""

from contextlib import suppress
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.on_jax import run
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.autofd.scalar.regroup import regrouped
from dftfd.errors import UnsupportedError
from dftfd.runtime.threads import share_out

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
