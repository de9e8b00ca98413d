"""Exchange with the short-range operator erfc(omega r)/r: the uniform gas, and GGAs by rescaling of k_F.

P. M. W. Gill, R. D. Adamson, J. A. Pople, Mol. Phys. 88, 1005 (1996). doi:10.1080/00268979609484488
H. Iikura, T. Tsuneda, T. Yanai, K. Hirao, J. Chem. Phys. 115, 3540 (2001). doi:10.1063/1.1383587
"""

import math

import jax.numpy as jnp

from dftfd.autofd import elementary
from dftfd.functionals import b88
from dftfd.functionals.common import C_X, FERMI, fermi_wavevector, spin_scaled
from dftfd.functionals.registry import functional

_BORDER = 3.0
"""Of b^2, below which terms of the closed form cancel."""

_NEAR = (
    0.1111111111111111,
    -0.016666666666666666,
    0.0023809523809523803,
    -0.00030864197530863254,
    3.607503607497375e-05,
    -3.815628815378594e-06,
    3.6743092232235984e-07,
    -3.242037432905015e-08,
    2.637062400465122e-09,
    -1.9882464113400696e-10,
    1.3963195251469721e-11,
    -9.169997860450993e-13,
    5.637113193837018e-14,
    -3.2112899338045714e-15,
    1.6224463396206115e-16,
    -6.421132992561097e-18,
    1.438998702879601e-19,
)
"""F/b^2 in powers of b^2, fitted up to the border. Both tables: data/fits/make_short_range_fraction.py."""

_FAR = (
    0.7499996002539163,
    -0.9374759862823427,
    0.7024457602340267,
    -1.335573799768743,
    2.908849764213737,
    -7.436388210033226,
    19.145163100172592,
    -45.727108441194,
    94.61854021967508,
    -161.5565543535408,
    217.98233685297365,
    -221.57711134571448,
    158.64426902718483,
    -71.0956451980192,
    14.968373972898878,
)
"""exp(b^2) times the difference of F from its limit at large b, in powers of 2/(b^2 + 2)."""


def _polynomial(coefficients, x):
    total = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total


def _short_range_fraction_by_b2(b2):
    is_near = b2 < _BORDER
    near, far = jnp.where(is_near, b2, 0.0), jnp.where(is_near, _BORDER, b2)
    t = 1 / far
    short = jnp.exp(-far) * _polynomial(_FAR, 2 / (far + 2))
    beyond = t * (1 - 4 / 3 * math.sqrt(math.pi) * jnp.sqrt(t) + t * (2 - t * (2 / 3 - 4 / 3 * t * short)))
    return jnp.where(is_near, _polynomial(_NEAR, near), beyond)


short_range_fraction_by_b2 = elementary(_short_range_fraction_by_b2, "short_range_fraction_by_b2")
r"""F(b^2) / b^2, F the part of the uniform gas's exchange energy that is of short range, b = k_F / omega:

F = 1 - 4/(3b) [sqrt(pi) erf(b) + (1/b - 1/(2 b^3)) exp(-b^2) - 3/(2b) + 1/(2 b^3)],

Gill's a is 1/(2b). At small b, F is b^2 / 9. Beyond the border erf(b) = 1 - exp(-b^2) erfcx(b), and a polynomial takes
the place of what is multiplied with exp(-b^2).
"""


@functional("lda_x_erf", doi="10.1080/00268979609484488")
@spin_scaled
def short_range_slater(n, *, omega=0.3):
    """e_x^LDA(n) F(k_F^2 / omega^2): exchange of the uniform gas with erfc(omega r)/r."""
    return attenuated_slater(n, omega)


def attenuated_slater(n, omega):
    """Short-range exchange energy per volume of the unpolarised gas."""
    b = fermi_wavevector(n) / omega
    return dilute_limit(n, omega) * short_range_fraction_by_b2(b * b)


def dilute_limit(n, omega):
    """e_x^LDA b^2, which is as n^2: a whole power, so that its third derivative is zero and not the rest of a sum.

    That of a rare spin of 1e-14 had lost ten digits.
    """
    return C_X * FERMI ** (2 / 3) / omega**2 * n * n


@functional("gga_x_ityh", doi="10.1063/1.1383587")
@spin_scaled
def short_range_b88(n, *, omega=0.2, beta=0.0042):
    """B88 exchange with erfc(omega r)/r: e_x^B88 F(b^2), b = k/omega, k = k_F (e_x^LDA / e_x^B88)^(1/2), eqs. 4 to 10.

    e_x^B88 b^2 depends on the density alone.
    """
    limit = dilute_limit(n, omega)
    return limit * short_range_fraction_by_b2(limit / b88.unpolarised_exchange(n, beta))
