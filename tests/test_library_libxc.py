"""The functional library against libxc, formula by formula.

Energy per volume and its derivatives with respect to libxc's variables, at points with s <= 5, 1 - |zeta| >= 1e-3,
tau >= tau_W and densities from 1e-8 to 1e3. The reference is libxc 7 as PySCF 2.14 brings it along. Errors are relative
where the quantity is large and in units of its natural size where it is small (`dftfd.checks.pointwise.scaled_error`).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.checks.pointwise import _channels, compare
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
GGA_C = ["pbe", "pbe_sol", "lyp", "pw91", "p86"]
GGA_XC = ["hcth_93", "hcth_120", "hcth_147", "hcth_407", "b97_d"]
META_X = ["tpss", "revtpss", "scan", "rscan", "r2scan", "m06_l", "mn15_l"]
META_C = ["bc95", "tpss", "revtpss", "scan", "rscan", "r2scan", "m06_l", "m06_2x", "mn15_l"]
META_XC = ["b97m_v"]
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
    *HYBRIDS,
]

QUICK = {"lda_c_pz", "gga_x_rpbe", "gga_c_p86", "gga_xc_b97_d", "mgga_x_scan"}
"""Compared in every run of the tests; the others take two to ten seconds each to compile and are marked slow."""

TOLERANCES = {"e": 1e-12, "first": 1e-10, "second": 1e-9}
N_POINTS = 60


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


def errors(name, n_spin, order):
    """Largest error by quantity."""
    x = np.concatenate([sample(n_spin, region, N_POINTS) for region in REGIONS], axis=1)
    reference = libxc.reference([(1.0, name)], x, n_spin)
    if order < 2:
        reference = libxc.Derivatives(reference.energy, reference.first, None)
    ours = derivatives(dftfd.get_functional(name).semilocal_part, n_spin, order)(jnp.asarray(x))
    return {quantity: error.max() for quantity, error in compare(ours, reference, x, n_spin).items()}


def tolerance(quantity):
    return TOLERANCES["e" if quantity == "e" else "second" if quantity.startswith("d2") else "first"]


def quick_or_slow(names):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", quick_or_slow(NAMES))
def test_energy_and_first_derivatives_of_a_polarised_density_are_libxcs(name):
    """Energy to 1e-12, derivatives to 1e-10: the formula and its parameters are the published ones."""
    for quantity, error in errors(name, 2, 1).items():
        assert error < tolerance(quantity), (quantity, error)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_derivatives_to_second_order_are_libxcs(name):
    """Both spin layouts; derivatives by automatic differentiation against libxc's generated code."""
    for n_spin in (1, 2):
        for quantity, error in errors(name, n_spin, 2).items():
            assert error < tolerance(quantity), (n_spin, quantity, error)


@pytest.mark.parametrize("name", HYBRIDS)
def test_exact_exchange_of_hybrids_is_libxcs(name):
    """Fractions of exact exchange at full range and at long range, to rounding."""
    ours, reference = dict(dftfd.get_functional(name).exact_exchange), dict(libxc.exact_exchange(name))
    assert ours.keys() == reference.keys()
    assert all(ours[omega] == pytest.approx(reference[omega], abs=1e-15) for omega in ours)
