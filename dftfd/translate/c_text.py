"""The parts of exported C code that are the same for every functional."""

ARITHMETIC = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

/* As in IEEE 754: what is no number stays none. */
static inline double larger(double a, double b) { return ((a > b) | (a != a)) ? a : b; }
static inline double smaller(double a, double b) { return ((a < b) | (a != a)) ? a : b; }
static inline double sign_of(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
static inline int is_number(double x) { return x - x == 0.0; }

/* Cube root of x >= 0, without divisions. A third of the exponent starts y ~ x^(-1/3), which is y (1 - r)^(-1/3) with
   r = 1 - x y^3, by its power series; a step of Newton's method for x^(1/3) gives the last digits. */
static inline double cube_root(double x)
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

/* Values of {digits} digits, rounded: energies as such, derivatives by finite differences of them. tolerance is absolute,
   1e-12, 1e-11, 1e-10, 1e-9 and 1e-9 by order, relative to the value and the natural size of such a derivative. */
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
