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

from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.autofd.scalar.reader import point_program
from dftfd.autofd.scalar.simplify import regrouped
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.translate.c_files import SPINS, Exported, comment, filled, indented, provenance
from dftfd.translate.c_text import ARITHMETIC, substituted
from dftfd.translate.on_c import Piece, number_text, statements_of
from dftfd.translate.programs import KEEP
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


HEADER = """\
@ABOUT@
#ifndef @GUARD@
#define @GUARD@

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Channels of the density of each spin: @LIST@ */
#define @GUARD@_CHANNELS @CHANNELS@

/* Energy [hartree] of the double integral on n_points points, and its derivatives by the density's channels, weights
   included: what a matrix element of the potential is made of, sum_p (potential . channels of phi_i phi_j at p).
   points: x, y, z of each [bohr].   weights: of the quadrature.   density, potential: point by point, the channels of
   each of n_spin (1 or 2) spins together.
   All pairs of points are summed: the time grows with the square of their number. Compiled with OpenMP, rows are shared
   out among threads.
   Returns 0; 1 for another n_spin; 2 where an array is missing; 3 where memory does not suffice. */
int @NAME@(int n_spin, size_t n_points, const double *points, const double *weights, const double *density,
    double *energy, double *potential);

#ifdef __cplusplus
}
#endif

#endif
"""

KERNELS = """\
/* For @NAME@.c alone. */

#ifndef @GUARD@_KERNELS
#define @GUARD@_KERNELS

@ARITHMETIC@
#endif
"""

CODE = """\
@ABOUT@
#include "@NAME@_kernels.h"
#include "@NAME@.h"
#include <stdlib.h>

#define CHANNELS @CHANNELS@
#define LANES @LANES@
#define LEFT @LEFT@   /* place and features of a row */
#define RIGHT @RIGHT@ /* place and features of a column */
#define SUMS @SUMS@   /* S and its derivatives by the features of the row */

@FUNCTIONS@
typedef void of_a_point(const double *, double *);
typedef void over_columns(size_t, size_t, const double *RESTRICT, const double *RESTRICT, double *RESTRICT);

static of_a_point *const features[] = {features_unpolarised, features_polarised};
static of_a_point *const finish[] = {finish_unpolarised, finish_polarised};
static over_columns *const pairs[] = {pairs_unpolarised, pairs_polarised};

/* Channels, place and weight of a point, one after the other; how many. */
static int given(int n_spin, size_t p, const double *points, const double *weights, const double *density, double *x)
{
    const int n = n_spin*CHANNELS;
    memcpy(x, density + p*(size_t)n, (size_t)n*sizeof *x);
    memcpy(x + n, points + 3*p, 3*sizeof *x);
    x[n + 3] = weights[p];
    return n + 4;
}

int @NAME@(int n_spin, size_t n_points, const double *points, const double *weights, const double *density,
    double *energy, double *potential)
{
    if (n_spin != 1 && n_spin != 2) return 1;
    if (points == NULL || weights == NULL || density == NULL || energy == NULL || potential == NULL) return 2;
    const size_t stride = (n_points + LANES - 1)/LANES*LANES;
    double *const rows = (double *)malloc((n_points*LEFT + stride*(RIGHT + 1) + 1)*sizeof(double));
    if (rows == NULL) return 3;
    double *const columns = rows + n_points*LEFT;
    size_t m = 0; /* columns with a charge */
    for (size_t p = 0; p < n_points; ++p) {
        double x[2*CHANNELS + 4], y[1 + LEFT + RIGHT];
        given(n_spin, p, points, weights, density, x);
        features[n_spin - 1](x, y);
        memcpy(rows + p*LEFT, points + 3*p, 3*sizeof(double));
        for (int k = 3; k < LEFT; ++k) rows[p*LEFT + (size_t)k] = y[k - 2];
        if (weights[p]*y[0] == 0.0) continue;
        for (int k = 0; k < 3; ++k) columns[(size_t)k*stride + m] = points[3*p + (size_t)k];
        for (int k = 3; k < RIGHT; ++k) columns[(size_t)k*stride + m] = y[LEFT + k - 5];
        columns[RIGHT*stride + m++] = weights[p]*y[0];
    }
    for (; m%LANES != 0; ++m) { /* lanes are summed whole: the last column once more, without a charge */
        for (size_t k = 0; k < RIGHT; ++k) columns[k*stride + m] = columns[k*stride + m - 1];
        columns[RIGHT*stride + m] = 0.0;
    }
    double total = 0.0;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) reduction(+ : total)
#endif
    for (size_t p = 0; p < n_points; ++p) {
        double x[2*CHANNELS + 4 + SUMS], y[1 + 2*CHANNELS];
        const int n = n_spin*CHANNELS, n_given = given(n_spin, p, points, weights, density, x);
        memset(y, 0, sizeof y);
        if (weights[p] != 0.0) {
            pairs[n_spin - 1](m, stride, rows + p*LEFT, columns, x + n_given);
            finish[n_spin - 1](x, y);
        }
        total += weights[p]*y[0];
        for (int k = 0; k < n; ++k) potential[p*(size_t)n + (size_t)k] = weights[p]*y[1 + k];
    }
    *energy = total;
    free(rows);
    return 0;
}
"""

TEST = """\
#include <math.h>
#include <stdio.h>
#include "@NAME@.h"

/* Points, weights and densities drawn at random, and what dftfd makes of them. */
@VALUES@

static double potential[sizeof density_2/sizeof *density_2];

static int wrong(int n_spin, const double *density, double energy, const double *expected, size_t count, double *worst)
{
    double found, largest = 0.0;
    int n_wrong = 0;
    if (@NAME@(n_spin, sizeof weights/sizeof *weights, points, weights, density, &found, potential) != 0) return 1;
    for (size_t k = 0; k < count; ++k) largest = fmax(largest, fabs(expected[k]));
    for (size_t k = 0; k <= count; ++k) { /* the energy last */
        const double error = k < count ? fabs(potential[k] - expected[k])/largest : fabs(found/energy - 1.0);
        *worst = fmax(*worst, error);
        n_wrong += !(error < 1e-12);
    }
    return n_wrong;
}

int main(void)
{
    double worst = 0.0;
    int count = wrong(1, density_1, energy_1, potential_1, sizeof potential_1/sizeof *potential_1, &worst);
    count += wrong(2, density_2, energy_2, potential_2, sizeof potential_2/sizeof *potential_2, &worst);
    printf("@NAME@: %d wrong, largest error %.2g, 1e-12 allowed\\n", count, worst);
    return count != 0;
}
"""
