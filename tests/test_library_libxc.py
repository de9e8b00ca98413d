"""The functional library against libxc, formula by formula.

Energy per volume and its derivatives with respect to libxc's variables, at points with s <= 5, 1 - |zeta| >= 1e-3,
tau >= tau_W and densities from 1e-8 to 1e3. The reference is libxc 7 as PySCF 2.14 brings it along. Errors are relative
where the quantity is large and in units of its natural size where it is small (`dftfd.checks.pointwise.scaled_error`).
Where the two differ by more than the tolerance, the formula in 50 digits decides (`dftfd.checks.extended`): libxc loses
digits at low density and strong polarisation.
"""

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import dftfd
from dftfd.checks.extended import DIGITS, ExtendedEnergy
from dftfd.checks.pointwise import _channels, compare, scaled_error
from dftfd.checks.sampling import REGIONS, sample
from dftfd.interop import libxc
from dftfd.kernel import XCKernel

LDA = ["lda_x", "lda_c_xalpha", "lda_c_pw", "lda_c_pw_mod", "lda_c_pz", "lda_c_vwn", "lda_c_vwn_rpa", "lda_c_chachiyo"]
GGA_X = [
    "pbe",
    "mpw91",
    "ityh",
    "pbe_r",
    "rpbe",
    "pbe_sol",
    "b88",
    "b86",
    "b86_mgc",
    "b86_r",
    "pw91",
    "optx",
    "pw86",
    "rpw86",
]
GGA_C = ["chachiyo", "pbe", "pbe_sol", "lyp", "pw91", "p86"]
GGA_XC = ["hcth_93", "hcth_120", "hcth_147", "hcth_407", "b97_d"]
META_X = ["tpss", "revtpss", "scan", "rscan", "r2scan", "m06_l", "mn15_l"]
META_C = ["bc95", "tpss", "revtpss", "scan", "rscan", "r2scan", "m06_l", "m06_2x", "mn15_l"]
META_XC = ["b97m_v"]
LAPLACIAN = ["mgga_x_br89", "mgga_x_scanl", "mgga_c_scanl", "mgga_x_r2scanl", "mgga_c_r2scanl"]
KINETIC = ["lda_k_tf", "gga_k_vw", "gga_k_tfvw", "mgga_k_pc07", "mgga_k_pc07_opt"]
SHORT_RANGE_PBE = ["gga_x_wpbeh", "hyb_gga_xc_hse06", "hyb_gga_xc_lc_wpbe"]
HYBRIDS = [
    *("hyb_gga_xc_cam_b3lyp", "hyb_gga_xc_wb97", "hyb_gga_xc_wb97x", "hyb_gga_xc_wb97x_v", "hyb_mgga_xc_wb97m_v"),
    *("hyb_mgga_x_m06_2x", "hyb_mgga_xc_pw6b95", "hyb_mgga_xc_tpssh", "hyb_mgga_xc_r2scan0", "hyb_mgga_x_scan0"),
]

NAMES = [
    *LDA,
    *(f"gga_x_{name}" for name in GGA_X),
    *(f"gga_c_{name}" for name in GGA_C),
    *(f"gga_xc_{name}" for name in GGA_XC),
    *(f"mgga_x_{name}" for name in META_X),
    *(f"mgga_c_{name}" for name in META_C),
    *(f"mgga_xc_{name}" for name in META_XC),
    *(LAPLACIAN + KINETIC + SHORT_RANGE_PBE + HYBRIDS),
]

QUICK = {"lda_c_pz", "gga_x_rpbe", "gga_c_p86", "gga_xc_b97_d", "mgga_x_scan"}
"""Compared in every run of the tests; the others take two to ten seconds each to compile and are marked slow."""

TOLERANCES = {"e": 1e-12, "first": 1e-10, "second": 1e-9}
N_POINTS = 60
MOST_REFEREED = 3
"""Points per quantity, the worst ones, at which extended precision decides."""


def derivatives(functional, n_spin, order):
    """Code of x (variable, point): energy, gradient and, for order 2, Hessian. Compiled with little optimisation."""
    kernel = XCKernel(functional, n_spin)
    energy = lambda x: kernel.energy_density(_channels(x, n_spin, kernel), jnp.zeros(3))
    over_points = functools.partial(jax.vmap, in_axes=-1, out_axes=-1)

    def all_orders(x):
        e, first = over_points(jax.value_and_grad(energy))(x)
        second = over_points(jax.jacfwd(jax.grad(energy)))(x) if order > 1 else jnp.zeros((len(x), *x.shape))
        return e, first, second

    return jax.jit(all_orders, compiler_options={"xla_backend_optimization_level": 0})


def check_against_libxc(name, n_spin, order):
    """Every quantity within its tolerance of libxc's, or where they differ, of the formula in 50 digits."""
    x = np.concatenate([sample(n_spin, region, N_POINTS) for region in REGIONS], axis=1)
    reference = libxc.reference([(1.0, name)], x, n_spin)
    if order < 2:
        reference = libxc.Derivatives(reference.energy, reference.first, None)
    functional = dftfd.get_functional(name).semilocal_part
    ours = [np.asarray(a) for a in derivatives(functional, n_spin, order)(jnp.asarray(x))]
    referee = None
    for quantity, error in compare(ours, reference, x, n_spin).items():
        doubtful = [i for i in np.argsort(error)[::-1][:MOST_REFEREED] if not error[i] < tolerance(quantity)]
        for i in doubtful:
            referee = referee or Referee(functional, n_spin)
            assert referee.error(quantity, ours, x[:, i], i) < tolerance(quantity), (quantity, error[i], x[:, i])


class Referee:
    """The formula in 50 digits, as a function of libxc's variables."""

    def __init__(self, functional, n_spin):
        self.n_spin, self.energy = n_spin, ExtendedEnergy(functional, n_spin)
        self.kernel = XCKernel(functional, n_spin)

    def error(self, quantity, ours, x, i):
        """Scaled error of our energy or derivatives at point i, the largest of the quantity's components."""
        with mpmath.workdps(DIGITS):
            exact = [mpmath.mpf(float(v)) for v in x]
            n = x[0] if self.n_spin == 1 else x[0] + x[1]
            if quantity == "e":
                return float(scaled_error(ours[0][i], float(self.along(exact, [])), n, ()))
            variables = re.findall("d(rho|sigma|lapl|tau)", quantity)
            errors = []
            for rows in itertools.product(*(self.rows(v) for v in variables)):
                value = ours[len(rows)][(*rows, i)]
                errors.append(scaled_error(value, float(self.derivative(exact, rows)), n, variables))
            return float(max(errors))

    def rows(self, variable):
        names = libxc.VARIABLES[self.n_spin]
        return [k for k, name in enumerate(names) if name.split("_")[0] == variable]

    def derivative(self, x, rows):
        """d^k e / dx_rows."""
        if not all(x[k] for k in rows):
            return mpmath.mpf(0)
        step = mpmath.mpf(10) ** -12
        if len(rows) == 1 or rows[0] == rows[1]:
            k = rows[0]
            return mpmath.diff(lambda t: self.along(x, [(k, t)]), 0, len(rows), h=step * abs(x[k]))
        (j, k), (a, b) = rows, (step * abs(x[r]) for r in rows)
        corner = lambda p, q: self.along(x, [(j, p * a), (k, q * b)])
        return (corner(1, 1) - corner(1, -1) - corner(-1, 1) + corner(-1, -1)) / (4 * a * b)

    def along(self, x, changes):
        """Energy with some variables changed."""
        x = list(x)
        for k, t in changes:
            x[k] = x[k] + t
        if self.n_spin == 1:
            return self.energy([self.channels(x[0], [mpmath.sqrt(x[1]), 0, 0], x[2], x[3])])
        a, b, aa, ab, bb, la, lb, ta, tb = x
        length = mpmath.sqrt(aa)
        other = [ab / length, mpmath.sqrt(bb - ab**2 / aa), 0]
        return self.energy([self.channels(a, [length, 0, 0], la, ta), self.channels(b, other, lb, tb)])

    def channels(self, rho, gradient, laplacian, tau):
        l3 = laplacian / 3
        parts = [[rho], gradient, [l3, 0, 0, l3, 0, l3]][: self.kernel.order + 1]
        return sum(parts, []) + ([tau] if self.kernel.needs_tau else [])


def tolerance(quantity):
    return TOLERANCES["e" if quantity == "e" else "second" if quantity.startswith("d2") else "first"]


def quick_or_slow(names):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", quick_or_slow(NAMES))
def test_energy_and_first_derivatives_of_a_polarised_density_are_libxcs(name):
    """Energy to 1e-12, derivatives to 1e-10: the formula and its parameters are the published ones."""
    check_against_libxc(name, 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_derivatives_to_second_order_are_libxcs(name):
    """Both spin layouts; derivatives by automatic differentiation against libxc's generated code."""
    for n_spin in (1, 2):
        check_against_libxc(name, n_spin, 2)


@pytest.mark.parametrize("name", HYBRIDS + SHORT_RANGE_PBE[1:])
def test_exact_exchange_of_hybrids_is_libxcs(name):
    """Fractions of exact exchange at full range and at long range, to rounding."""
    ours, reference = dict(dftfd.get_functional(name).exact_exchange), dict(libxc.exact_exchange(name))
    assert ours.keys() == reference.keys()
    assert all(ours[omega] == pytest.approx(reference[omega], abs=1e-15) for omega in ours)
