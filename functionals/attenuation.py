"""Exchange with the short-range operator erfc(omega r)/r: the uniform gas, and GGAs by rescaling of k_F.

P. M. W. Gill, R. D. Adamson, J. A. Pople, Mol. Phys. 88, 1005 (1996). doi:10.1080/00268979609484488
H. Iikura, T. Tsuneda, T. Yanai, K. Hirao, J. Chem. Phys. 115, 3540 (2001). doi:10.1063/1.1383587
"""

import math

import jax.numpy as jnp

from dftfd.autofd import elementary, erf
from dftfd.functionals import b88
from dftfd.functionals.common import fermi_wavevector, slater_exchange, spin_scaled
from dftfd.functionals.registry import functional

_SERIES_LIMIT = 2.25
"""Largest b^2 for which the series is taken; its last term is below the rounding unit there."""


def _series_coefficient(m):
    first, second, third = 1 / (math.factorial(m) * (2 * m + 1)), 1 / math.factorial(m + 1), 1 / math.factorial(m + 2)
    return -4 / 3 * (-1) ** m * (2 * first - second - 0.5 * third)


_SERIES = tuple(_series_coefficient(m) for m in range(1, 25))


def _power_series(b2):
    total = jnp.zeros_like(b2)
    for c in reversed(_SERIES):
        total = total * b2 + c
    return total


def _short_range_fraction_by_b2(b2):
    small = b2 < _SERIES_LIMIT
    near, far = jnp.where(small, b2, jnp.zeros_like(b2)), jnp.where(small, jnp.full_like(b2, _SERIES_LIMIT), b2)
    b = jnp.sqrt(far)
    brackets = math.sqrt(math.pi) * erf(b) + ((1 - 0.5 / far) * jnp.exp(-far) - 1.5 + 0.5 / far) / b
    return jnp.where(small, _power_series(near), (1 - 4 / (3 * b) * brackets) / far)


short_range_fraction_by_b2 = elementary(_short_range_fraction_by_b2, "short_range_fraction_by_b2")
r"""F(b^2) / b^2, F the part of the uniform gas's exchange energy that is of short range, b = k_F / omega:

F = 1 - 4/(3b) [sqrt(pi) erf(b) + (1/b - 1/(2 b^3)) exp(-b^2) - 3/(2b) + 1/(2 b^3)],

with the opposite sign of Gill's a = 1/(2b); below b = 1.5, where the terms cancel, its power series in b^2. At small b,
F is b^2 / 9.
"""


@functional("lda_x_erf", doi="10.1080/00268979609484488")
@spin_scaled
def short_range_slater(n, *, omega=0.3):
    """e_x^LDA(n) F(k_F^2 / omega^2): exchange of the uniform gas with erfc(omega r)/r."""
    return attenuated_slater(n, omega)


def attenuated_slater(n, omega):
    """Short-range exchange energy per volume of the unpolarised gas."""
    b = fermi_wavevector(n) / omega
    return slater_exchange(n) * b * b * short_range_fraction_by_b2(b * b)


@functional("gga_x_ityh", doi="10.1063/1.1383587")
@spin_scaled
def short_range_b88(n, *, omega=0.2, beta=0.0042):
    """B88 exchange with erfc(omega r)/r: e_x^B88 F(b^2), b = k/omega, k = k_F (e_x^LDA / e_x^B88)^(1/2), eqs. 4 to 10.

    e_x^B88 b^2 depends on the density alone.
    """
    k_F, e_lda = fermi_wavevector(n), slater_exchange(n)
    b2_local = k_F * k_F / omega**2
    b2 = b2_local * e_lda / b88.unpolarised_exchange(n, beta)
    return e_lda * b2_local * short_range_fraction_by_b2(b2)
