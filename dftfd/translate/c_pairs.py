"""C99 of a double integral: the pair kernel with its derivatives, and a plain driver over all pairs of grid points.

    E = sum_p w_p phi(j_p, S_p),   S_p = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, a(j_q))

with the density's channels j. Three programs are all that there is of a functional (dftfd.xc.nonlocal_kernel has the
same in JAX): charges and features of a point, K and its derivatives for a pair, energy and slopes of a point whose sums
are known. As the summand is symmetric, the slope through the features at p holds half of what p does to others.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.on_c import Piece, number_text, statements_of
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.autofd.scalar.reader import point_program
from dftfd.autofd.scalar.regroup import regrouped
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.translate.c_files import SPINS, Exported, comment, filled, indented, provenance
from dftfd.translate.c_text import ARITHMETIC
from dftfd.translate.c_text_of_pairs import CODE, HEADER, KERNELS, TEST
from dftfd.translate.programs import KEEP
from dftfd.translate.templates import substituted
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel

LANES = 8
"""Columns that are summed side by side: a loop of a known length becomes vector code, the sums stay in registers."""

TEST_POINTS = 24
"""Of the test program: all pairs of them."""

CHANNELS = ("n", "dn/dx", "dn/dy", "dn/dz")


@dataclass(frozen=True)
class PairCode:
    """The programs of a functional's double integral for one number of spins."""

    functional: Functional
    n_spin: int

    @cached_property
    def kernel(self) -> NonlocalXCKernel:
        return NonlocalXCKernel(self.functional.settled(), self.n_spin)  # C code holds its numbers

    @cached_property
    def stage(self):
        """The one integral. UnsupportedError where there are several, or where the driver would not do."""
        kernel, name = self.kernel, self.functional.name
        if len(kernel.stages) != 1:
            raise UnsupportedError(f"functional {name!r} has {len(kernel.stages)} double integrals; C code holds one.")
        if not kernel.stages[0].symmetric:
            raise UnsupportedError(f"the double integral of functional {name!r} is not symmetric in both points.")
        if kernel.channels > len(CHANNELS):
            raise UnsupportedError(f"functional {name!r} takes more than the density and its gradient.")
        return kernel.stages[0]

    @cached_property
    def features(self) -> ScalarProgram:
        """(charge, left features, right features) of a point's channels, place and weight."""

        def code(density, point, cell):
            charge, left, right = self.stage.flat_features(density, point, cell, self._no_sums())
            return charge, left[3:], right[3:]

        return _program(code, *self.kernel.code.inputs()[:3])

    @cached_property
    def pair(self) -> ScalarProgram:
        """K and its derivatives by the left features, times the column's charge; inputs: row, column, charge."""
        sums = self.stage._sums
        row, column = (jax.ShapeDtypeStruct((n,), np.float64) for n in (sums.n_row, sums.n_col + 1))
        return regrouped(_program(sums._code, row, column), range(sums.n_row, sums.n_row + sums.n_col + 1))

    @cached_property
    def finish(self) -> ScalarProgram:
        """(energy per volume, its slopes by the channels) of a point with its sums and their derivatives."""
        phi, stage = self.kernel.code.energy_density, self.stage

        def code(density, point, cell, S, jacobian):
            S, jacobian = S.reshape(stage.integral.shape), jacobian.reshape(stage.integral.size, -1)
            doubled = (2.0 * S,)  # phi is linear in S: its derivative there holds the part of S_p in others, too
            slopes, (d_S,) = jax.grad(phi, argnums=(0, 3))(density, point, cell, doubled)
            left = lambda d: stage.flat_features(d, point, cell, self._no_sums())[1][3:]
            (through_features,) = jax.vjp(left, density)[1](2.0 * d_S.reshape(-1) @ jacobian)
            return phi(density, point, cell, (S,)), slopes + through_features

        sizes = (stage.integral.size, stage.integral.size * (stage.left_size - 3))
        return _program(code, *self.kernel.code.inputs()[:3], *(jax.ShapeDtypeStruct((n,), np.float64) for n in sizes))

    def _no_sums(self):
        return tuple(jnp.zeros(i.shape) for i in self.kernel.code.integrals)


def _program(code, *specs) -> ScalarProgram:
    return point_program(code, *specs, inline=True, keep=KEEP)


def pair_files(exported: Exported) -> dict[str, str]:
    """Texts by name: header, code, a test program. UnsupportedError where C has no form of the integral."""
    functional, name = exported.functional.nonlocal_part, f"{exported.name}_nonlocal"
    codes = [PairCode(functional, n_spin) for n_spin in SPINS]
    tables: dict[str, str] = {}
    parts = "\n".join(_functions(code, tables) for code in codes)
    stage, channels = codes[0].stage, codes[0].kernel.channels
    values = {
        "ABOUT": comment(provenance(exported)),
        "NAME": name,
        "GUARD": f"{name.upper()}_H",
        "CHANNELS": channels,
        "LIST": ", ".join(CHANNELS[:channels]),
        "LANES": LANES,
        "LEFT": stage.left_size,
        "RIGHT": stage.right_size,
        "SUMS": len(codes[0].pair.outputs),
        "ARITHMETIC": ARITHMETIC,
        "FUNCTIONS": "".join(f"{t}\n" for t in tables.values()) + parts,
        "VALUES": _test_values(codes),
    }
    texts = {f"{name}.h": HEADER, f"{name}_kernels.h": KERNELS, f"{name}.c": CODE, f"{name}_test.c": TEST}
    return {f"nonlocal/{file}": substituted(text, values) for file, text in texts.items()}


def _functions(code: PairCode, tables: dict[str, str]) -> str:
    """The three functions of one number of spins."""
    suffix = SPINS[code.n_spin]
    at_point = [_at_point(f"features_{suffix}", code.features, tables)]
    at_point.append(_at_point(f"finish_{suffix}", code.finish, tables))
    return "\n".join([*at_point, _over_columns(f"pairs_{suffix}", code, tables)])


def _at_point(name: str, program: ScalarProgram, tables: dict[str, str]) -> str:
    """A function of numbers x of one point."""
    written, outputs = statements_of(program, [Piece(f"x[{k}]") for k in range(program.n_inputs)])
    tables |= written.tables
    rows = [*written.before, *written.inside, *(f"y[{k}] = {text};" for k, text in enumerate(outputs))]
    return f"static void {name}(const double *x, double *y)\n{{\n{indented(rows, 4)}}}\n"


def _over_columns(name: str, code: PairCode, tables: dict[str, str]) -> str:
    """A function of a row that sums over columns, lane by lane."""
    n_row, program = code.stage.left_size, code.pair
    numbers = [Piece(f"row[{k}]", uniform=True) for k in range(n_row)]
    columns = [Piece(f"c{k}") for k in range(program.n_inputs - n_row)]
    written, outputs = statements_of(program, [*numbers, *columns])
    tables |= written.tables
    rows = [f"const double {c.text} = column[{k}*stride + q + p];" for k, c in enumerate(columns)]
    rows += [*written.inside, *(f"sums[{k}][p] += {text};" for k, text in enumerate(outputs))]
    return (
        f"static void {name}(size_t m, size_t stride, const double *RESTRICT row, const double *RESTRICT column,\n"
        "    double *RESTRICT y)\n"
        "{\n"
        "    double sums[SUMS][LANES] = {{0.0}};\n"
        + indented(written.before, 4)
        + "    for (size_t q = 0; q < m; q += LANES)\n"
        + "    for (size_t p = 0; p < LANES; ++p) {\n"
        + indented(rows, 8)
        + "    }\n"
        "    for (int k = 0; k < SUMS; ++k) {\n"
        "        y[k] = 0.0;\n"
        "        for (int p = 0; p < LANES; ++p) y[k] += sums[k][p];\n"
        "    }\n"
        "}\n"
    )


def _test_values(codes: list[PairCode]) -> str:
    """Arrays of points, weights and densities, and what the library makes of them."""
    rng, channels = np.random.default_rng(19), codes[0].kernel.channels
    points, weights = rng.normal(scale=1.5, size=(TEST_POINTS, 3)), rng.uniform(0.1, 0.6, TEST_POINTS)
    n = np.exp(-np.linalg.norm(points, axis=1))
    lines = [_array("points", points), _array("weights", weights)]
    for code in codes:
        s = code.n_spin
        shares = np.linspace(0.6, 0.4, s)[:, None] if s == 2 else np.ones((1, 1))
        rows = [shares * n, *(shares * n * rng.normal(size=(s, TEST_POINTS)) for _ in range(channels - 1))]
        density = np.stack(rows, axis=1)  # (spin, channel, point)
        energy, potential = code.kernel(points, weights, density)
        lines += [_array(f"density_{s}", density.transpose(2, 0, 1)), f"static const double energy_{s} = {energy!r};"]
        lines += [_array(f"potential_{s}", potential.transpose(2, 0, 1))]
    return "\n".join(lines)


def _array(name: str, values) -> str:
    return f"static const double {name}[] = {{\n{filled(', '.join(map(number_text, np.ravel(values))))}}};"
