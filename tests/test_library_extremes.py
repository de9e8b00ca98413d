"""Energies and their derivatives are finite where densities are extreme, in programs that XLA compiled.

Points: n from 1e-30 to 1e6, zeta to +-1 exactly, s to 1e3 and exactly 0, alpha from 0 to 1e4, tau at, below and far
below tau_W, and tau = 0; Laplacians of either sign. Nothing here is compared with another code: at such points
other codes have their own cut-offs.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.xc.kernel import XCKernel
from dftfd.xc.pointwise import pointwise_kernel

_K_F = (6 * math.pi**2) ** (1 / 3)

NAMES = [
    *("lda_c_pw", "lda_c_vwn", "lda_c_pz", "lda_c_chachiyo"),
    *(
        "gga_x_pbe",
        "gga_x_b88",
        "gga_x_b86_mgc",
        "gga_x_mpw91",
        "gga_x_optx",
        "gga_x_rpw86",
        "gga_x_ityh",
        "gga_x_wpbeh",
    ),
    *("gga_c_pbe", "gga_c_lyp", "gga_c_pw91", "gga_c_p86", "hyb_gga_xc_wb97x"),
    *("mgga_x_tpss", "mgga_c_tpss", "mgga_x_scan", "mgga_x_rscan", "mgga_c_r2scan", "mgga_x_m06_l", "mgga_c_m06_l"),
    *("mgga_xc_b97m_v", "mgga_c_bc95", "mgga_k_pc07_opt", "mgga_x_scanl", "mgga_c_r2scanl", "mgga_x_br89"),
]
"""Each way of writing a formula once. Their kin, and every formula, are in `test_scan` and its kept scan, by NumPy."""
QUICK = {"gga_x_b88"}


def one_spin(rho, s, excess, q):
    """Channels n | gradient | Hessian | tau of one spin; tau = tau_W + excess tau_unif, or less than tau_W."""
    g = 2 * _K_F * s * rho ** (4 / 3)
    tau_W = g * g / (8 * rho) if rho > 0 else 0.0
    tau = tau_W + excess * 0.3 * _K_F**2 * rho ** (5 / 3) if excess >= 0 else (1 + excess) * tau_W
    curvature = 4 * _K_F**2 * q * rho ** (5 / 3) / 3
    return [rho, 0.6 * g, 0.0, 0.8 * g, curvature, 0.0, 0.1 * curvature, curvature, 0.0, curvature, tau]


def extreme_points():
    """(point, spin, 11)."""
    densities = [1e-30, 1e-25, 2e-24, 1e-20, 1e-12, 1e-4, 1.0, 1e6]
    fractions = [0.5, 0.9, 1 - 1e-6, 1 - 1e-14, 1.0]
    shapes = [
        (0.0, 0.0),
        (0.0, 1.0),
        (1e-9, 0.0),
        (0.7, 0.0),
        (0.7, 1e4),
        (1e3, 1.0),
        (0.7, -0.5),
        (0.7, -1.0),
        (5, -0.9),
    ]
    points = []
    for n, fraction, (s, excess) in itertools.product(densities, fractions, shapes):
        majority, minority = one_spin(n * fraction, s, excess, 0.3), one_spin(n * (1 - fraction), 0.5 * s, excess, -2.0)
        points += [[majority, minority], [minority, majority]]
    return np.array(points)


def channels_of(kernel, points):
    """The channels that a kernel takes, (point, spin, channel)."""
    kept = [*range({0: 1, 1: 4, 2: 10}[kernel.order]), *([10] if kernel.needs_tau else [])]
    return points[:, :, kept]


def derivatives_along(kernel, density, direction, order):
    """d^k/dt^k of the energy density along `direction`, k = 0 to order."""
    codes = [lambda t: kernel.energy_density(density + t * direction, jnp.zeros(3))]
    for _ in range(order):
        codes.append(lambda t, f=codes[-1]: jax.jvp(f, (t,), (1.0,))[1])
    return [code(0.0) for code in codes]


def quick_or_slow(names):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.slow  # 1.2 s; derivatives at other extreme points: test_scan
@pytest.mark.parametrize("name", quick_or_slow(NAMES))
@pytest.mark.one_in(3)
def test_energy_and_higher_derivatives_are_finite(name):
    """To fourth order for LDA and GGA, third for the others, along two random directions, at 720 extreme points.

    Along a direction each channel changes by a part of itself.
    """
    order = 4 if name.startswith(("lda", "gga")) else 3
    kernel = XCKernel(dftfd.get_functional(name).semilocal_part, 2)
    density = channels_of(kernel, extreme_points())
    rng = np.random.default_rng(4)
    code = jax.jit(
        jax.vmap(lambda d, v: derivatives_along(kernel, d, v, order)),
        compiler_options={"xla_backend_optimization_level": 0},
    )
    for _ in range(2):
        for k, values in enumerate(code(density, density * rng.uniform(-1, 1, density.shape))):
            wrong = ~np.isfinite(np.asarray(values))
            assert not wrong.any(), (k, wrong.sum(), density[wrong][0])


@pytest.mark.slow  # 0.7 s; derivatives at extreme points: test_scan
@pytest.mark.parametrize("name", quick_or_slow(["gga_x_b88", "gga_c_pbe", "mgga_x_scan"]))
def test_all_first_and_second_derivatives_are_finite(name):
    """Gradient and Hessian over the channels, at a fifth of the extreme points."""
    kernel = XCKernel(dftfd.get_functional(name).semilocal_part, 2)
    density = channels_of(kernel, extreme_points()[::5])
    energy = lambda d: kernel.energy_density(d, jnp.zeros(3))
    both = lambda d: (jax.grad(energy)(d), jax.jacfwd(jax.grad(energy))(d))
    first, second = jax.jit(jax.vmap(both), compiler_options={"xla_backend_optimization_level": 0})(density)
    for values in (first, second):
        wrong = ~np.isfinite(np.asarray(values)).reshape(len(density), -1).all(axis=1)
        assert not wrong.any(), (wrong.sum(), density[wrong][0])


OF_TAU = [name for name in NAMES if name.startswith("mgga") and name != "mgga_x_br89"]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [n if n == "mgga_x_scan" else pytest.param(n, marks=pytest.mark.slow) for n in OF_TAU])
def test_tails_of_one_orbital(name, compiled):
    """Hydrogen's density to 32 bohr, where tau is tau_W, both 1e16 times tau_unif, and alpha what rounding leaves."""
    r = np.linspace(0.01, 32, 8001)
    n, zero = np.exp(-2 * r) / np.pi, np.zeros_like(r)
    x = [n, zero, 4 * n * n, zero, zero, 4 * n * (1 - 1 / r), zero, 0.5 * n, zero]
    kernel = pointwise_kernel(dftfd.get_functional(name).semilocal_part, 2)
    for rows in kernel(x, 1, compiled=compiled):
        assert np.isfinite(rows).all()
