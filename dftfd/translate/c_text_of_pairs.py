"""The parts of exported C code of double integrals that are the same for every functional."""

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
