"""The parts of exported C code that are the same for every functional."""

import re
from collections.abc import Mapping

ARITHMETIC = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#ifdef __cplusplus
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

/* As in IEEE 754: what is no number stays none. */
INLINE double larger(double a, double b) { return ((a > b) | (a != a)) ? a : b; }
INLINE double smaller(double a, double b) { return ((a < b) | (a != a)) ? a : b; }
INLINE double sign_of(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
INLINE int is_number(double x) { return x - x == 0.0; }

/* Places in tables: 0 of what is no number, the ends of the table for what is beyond. */
INLINE int whole_of(double x) { return ((x > -2e9) & (x < 2e9)) ? (int)x : 0; }
INLINE int within(int place, int count) { return place < 0 ? 0 : place < count ? place : count - 1; }

/* Cube root of x >= 0, without divisions. A third of the exponent starts y ~ x^(-1/3), which is y (1 - r)^(-1/3) with
   r = 1 - x y^3, by its power series; a step of Newton's method for x^(1/3) gives the last digits. */
INLINE double cube_root(double x)
{
    const double scaled = x < 2.3e-308 ? x*18014398509481984.0 : x; /* 2^54 */
    uint64_t bits;
    double y;
    memcpy(&bits, &scaled, sizeof bits);
    bits >>= 2;
    bits += bits >> 2;
    bits += bits >> 4;
    bits += bits >> 8;
    bits += bits >> 16; /* a third */
    bits = UINT64_C(0x553ef0ff289dd796) - bits;
    memcpy(&y, &bits, sizeof y);
    double r = 1.0 - scaled*y*y*y;
    y += y*r*(1.0/3.0 + r*(2.0/9.0 + r*(14.0/81.0 + r*(35.0/243.0 + r*(91.0/729.0)))));
    r = 1.0 - scaled*y*y*y;
    y += y*r*(1.0/3.0 + r*(2.0/9.0));
    double c = scaled*y*y;
    c += (scaled - c*c*c)*(y*y)*(1.0/3.0);
    c = x < 2.3e-308 ? c*3.814697265625e-06 : c; /* 2^-18 */
    return ((x > 0.0) & (x < INFINITY)) ? c : x;
}

/* exp, log and their kin, with errors of one or two units in the last place, in code that compilers turn into vector
   code, as they do not the library's. Compile without -ffast-math, which would undo the compensations. */

/* The whole number next to x, |x| < 2^31, and 2^k of a whole number |k| < 1023. */
INLINE double nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }
INLINE double power_of_two(double k)
{
    const double sum = k + 6755399441055744.0; /* 1.5*2^52: the last bits are k */
    uint64_t bits;
    double power;
    memcpy(&bits, &sum, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* exp(r) - 1 = r + r^2/2 + ... for |r| < 0.35; in pairs, which processors add at the same time. */
INLINE double short_expm1(double r)
{
    const double r2 = r*r, r4 = r2*r2, r8 = r4*r4;
    const double low = (0.5 + r*(1.0/6.0)) + r2*(1.0/24.0 + r*(1.0/120.0));
    const double middle = (1.0/720.0 + r*(1.0/5040.0)) + r2*(1.0/40320.0 + r*(1.0/362880.0));
    const double high = (1.0/3628800.0 + r*(1.0/39916800.0)) + r2*(1.0/479001600.0 + r*(1.0/6227020800.0));
    return r + r2*(low + (r4*middle + r8*high));
}

INLINE double exp_of(double x)
{
    const double above = x < -750.0 ? -750.0 : x;
    const double inside = above > 710.0 ? 710.0 : above;
    const double k = nearest(inside*1.4426950408889634), half = nearest(0.5*k);
    const double r = (inside - k*0.6931471803691238) - k*1.9082149292705877e-10; /* ln 2 in two parts */
    return (1.0 + short_expm1(r))*power_of_two(half)*power_of_two(k - half);
}

INLINE double expm1_of(double x)
{
    const double above = x < -50.0 ? -50.0 : x;
    const double inside = above > 710.0 ? 710.0 : above;
    const double k = nearest(inside*1.4426950408889634), half = nearest(0.5*k);
    const double r = (inside - k*0.6931471803691238) - k*1.9082149292705877e-10;
    const double rest = short_expm1(r), a = power_of_two(half), b = power_of_two(k - half);
    return x > 50.0 ? (a + a*rest)*b : a*b*rest + (a*b - 1.0);
}

/* ln(x) + small, a correction: with x = 2^k (1 + f), 1/sqrt(2) < 1 + f < sqrt(2), and s = f/(2 + f),
   ln(1 + f) = 2 s (1 + s^2/3 + s^4/5 + ...) = f - (f^2/2 - s (f^2/2 + the rest)). */
INLINE double log_plus(double x, double small)
{
    const double scaled = x < 2.3e-308 ? x*18014398509481984.0 : x; /* 2^54 */
    uint64_t bits, exponent;
    double one_plus_f, k;
    memcpy(&bits, &scaled, sizeof bits);
    bits += UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd);
    exponent = (bits >> 52) | UINT64_C(0x4330000000000000);
    memcpy(&k, &exponent, sizeof k);
    k -= 4503599627370496.0 + (x < 2.3e-308 ? 1077.0 : 1023.0); /* 2^52 */
    bits = (bits & UINT64_C(0x000fffffffffffff)) + UINT64_C(0x3fe6a09e667f3bcd);
    memcpy(&one_plus_f, &bits, sizeof one_plus_f);
    const double f = one_plus_f - 1.0, s = f/(2.0 + f), z = s*s, half = 0.5*f*f;
    const double z2 = z*z, z4 = z2*z2, z8 = z4*z4;
    const double low = (2.0/3.0 + z*(2.0/5.0)) + z2*(2.0/7.0 + z*(2.0/9.0));
    const double middle = (2.0/11.0 + z*(2.0/13.0)) + z2*(2.0/15.0 + z*(2.0/17.0));
    const double high = (2.0/19.0 + z*(2.0/21.0)) + z2*(2.0/23.0);
    const double rest = low + (z4*middle + z8*high);
    const double value = k*0.6931471803691238 - ((half - (s*(half + z*rest) + (k*1.9082149292705877e-10 + small))) - f);
    return x > 0.0 ? (x < INFINITY ? value : x) : x == 0.0 ? -INFINITY : NAN;
}

INLINE double log_of(double x) { return log_plus(x, 0.0); }

INLINE double log1p_of(double x)
{
    const double u = 1.0 + x, lost = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
    return log_plus(u, ((u > 0.0) & (u < INFINITY)) ? lost/u : 0.0);
}

INLINE double tanh_of(double x)
{
    const double e = expm1_of(-2.0*fabs(x)), t = -e/(2.0 + e);
    return x < 0.0 ? -t : t;
}

/* ln(a + sqrt(1 + a^2)) as ln(1 + w), and as ln(2 a) where a^2 is too large. */
INLINE double asinh_of(double x)
{
    const double a = fabs(x), inside = a > 1e150 ? 1.0 : a;
    const double w = inside + inside*inside/(1.0 + sqrt(1.0 + inside*inside)), u = 1.0 + w;
    const double lost = w > 1.0 ? 1.0 - (u - w) : w - (u - 1.0);
    const double value = log_plus(a > 1e150 ? a : u, a > 1e150 ? 0.6931471805599453 : lost/u);
    return x < 0.0 ? -value : a < INFINITY ? value : x;
}
"""

DRIVER = """\
/* Where a result goes: to out[slot][point*stride + offset], from row `row` of what a kernel gives for seeds number
   `lane`; -1 for what is zero. Ordered by lanes. */
typedef struct { short slot, stride, offset, lane, row; } place;

typedef struct { short family, stride, offset; } source;

typedef struct {
    kernel *code;
    const place *places;
    int n_places, n_lanes, n_levels;
    const short *lanes; /* n_levels variables of each lane */
} plan;
"""

EVALUATE = """\
static void one_block(const plan *task, int n_variables, int m, const double *x, const PARAMS *parameters,
                      size_t start, double *const *out)
{
    double y[MOST_ROWS*BLOCK], seeds[MOST_SEEDS + 1];
    int next = 0;
    for (int lane = 0; lane < task->n_lanes; ++lane) {
        int last = next, wanted = 0;
        while (last < task->n_places && task->places[last].lane == lane)
            wanted |= out[task->places[last++].slot] != NULL;
        if (wanted) {
            for (int k = 0; k < task->n_levels*n_variables; ++k)
                seeds[k] = task->lanes[lane*task->n_levels + k/n_variables] == k%n_variables;
            task->code(m, x, parameters, seeds, y);
        }
        for (; next < last; ++next) {
            const place to = task->places[next];
            double *const target = out[to.slot];
            if (target == NULL) continue;
            for (int p = 0; p < m; ++p)
                target[(start + (size_t)p)*(size_t)to.stride + (size_t)to.offset] =
                    to.row < 0 ? 0.0 : y[to.row*BLOCK + p];
        }
    }
}

static int highest_order(double *const *out)
{
    int highest = -1;
    for (int slot = 0; slot < N_SLOTS; ++slot)
        if (out[slot] != NULL && slot_orders[slot] > highest) highest = slot_orders[slot];
    return highest;
}

int NAME_evaluate(int n_spin, size_t n_points, const double *rho, const double *sigma, const double *lapl,
                  const double *tau, const PARAMS *parameters, const NAME_results *results)
{
    const double *const given[] = {rho, sigma, lapl, tau};
    double *out[N_SLOTS] = {SLOTS};
    double x[MOST_VARIABLES*BLOCK];
    if (n_spin != 1 && n_spin != 2) return 1;
    const int n_variables = variable_counts[n_spin - 1];
    const source *const from = sources[n_spin - 1];
    const int order = highest_order(out);
    if (order < 0 || n_points == 0) return 0;
    for (int k = 0; k < n_variables; ++k)
        if (given[from[k].family] == NULL) return 2;
    if (rho == NULL) return 2;
    if (parameters == NULL) parameters = &NAME_defaults;
    for (size_t start = 0; start < n_points; start += BLOCK) {
        const int m = n_points - start < BLOCK ? (int)(n_points - start) : BLOCK;
        for (int k = 0; k < n_variables; ++k) {
            const double *const row = given[from[k].family] + start*(size_t)from[k].stride + from[k].offset;
            for (int p = 0; p < m; ++p) x[k*BLOCK + p] = row[p*from[k].stride];
            for (int p = m; p%GROUP != 0; ++p) x[k*BLOCK + p] = x[k*BLOCK + m - 1]; /* groups are computed whole */
        }
        one_block(&plans[n_spin - 1][order], n_variables, m, x, parameters, start, out);
        for (int p = 0; results->zk != NULL && p < m; ++p) { /* there stands the energy per volume */
            const size_t i = start + (size_t)p;
            const double n = n_spin == 1 ? rho[i] : rho[2*i] + rho[2*i + 1];
            results->zk[i] = n > 0.0 ? results->zk[i]/n : 0.0;
        }
    }
    return 0;
}
"""

TEST = """\
#include <math.h>
#include <stdio.h>
#include "NAME.h"

/* Values of {digits} digits, rounded: energies as such, derivatives by finite differences of them. tolerance is
   absolute: 1e-12, 1e-11, 1e-10, 1e-9 and 1e-9 by order, times the value and the natural size of such a derivative. */
typedef struct { short n_spin, point, slot, stride, offset; double value, tolerance; } check;

{TABLES}
static double out[{N_SLOTS}][{N_POINTS}*{MOST}];

int main(void)
{
    const NAME_results results = {
{SLOTS}    };
    int wrong = 0, evaluated = 0;
    double worst = 0.0;
    for (size_t k = 0; k < sizeof checks/sizeof *checks; ++k) {
        const check c = checks[k];
        if (c.n_spin != evaluated) {
            const int polarised = c.n_spin == 2;
            if (NAME_evaluate(c.n_spin, {N_POINTS}, polarised ? rho_2 : rho_1, polarised ? sigma_2 : sigma_1,
                    polarised ? lapl_2 : lapl_1, polarised ? tau_2 : tau_1, NULL, &results) != 0) return 1;
            evaluated = c.n_spin;
        }
        const double found = out[c.slot][c.point*c.stride + c.offset];
        const double error = fabs(found - c.value)/c.tolerance;
        if (!(error <= 1.0)) {
            printf("%d spins, point %d, result %d[%d]: %.17g, expected %.17g\\n", c.n_spin, c.point, c.slot, c.offset,
                found, c.value);
            ++wrong;
        }
        if (error > worst) worst = error;
    }
    printf("NAME: %d values, %d wrong, largest error %.2g of what is allowed\\n",
        (int)(sizeof checks/sizeof *checks), wrong, worst);
    return wrong != 0;
}
"""


_PLACE = re.compile(r"@([A-Z_]+)@")


def substituted(template: str, values: Mapping[str, object]) -> str:
    """The template with each @NAME@ filled once: a functional may be called @TABLES@, and its name stays its name."""
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), template)
