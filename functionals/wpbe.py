r"""Short-range PBE exchange from the PBE exchange hole, the exchange of HSE06 and LC-omegaPBE.

J. Heyd, G. E. Scuseria, M. Ernzerhof, J. Chem. Phys. 118, 8207 (2003); 124, 219906 (2006). doi:10.1063/1.1564060
M. Ernzerhof, J. P. Perdew, J. Chem. Phys. 109, 3313 (1998), the hole. doi:10.1063/1.476928
A. V. Krukau, O. A. Vydrov, A. F. Izmaylov, G. E. Scuseria, J. Chem. Phys. 125, 224106 (2006). doi:10.1063/1.2404663
O. A. Vydrov, G. E. Scuseria, J. Chem. Phys. 125, 234109 (2006), LC-omegaPBE. doi:10.1063/1.2409292

F_x(s, w) = -8/9 \int_0^inf y J(s, y) erfc(w y) dy,   w = omega / k_F,
J = [-A / (y^2 (1 + 4/9 A y^2)) + (A/y^2 + B + C (1 + s^2 F) y^2 + E (1 + s^2 G) y^4) exp(-D y^2)] exp(-s^2 H y^2)

The terms with B, C, E are integrated exactly. In the one with A the paper puts erfc(x) = exp(-b x^2) sum_i a_i x^i.
Beyond w = 14 libxc takes b = 2, with a jump there; here b stays, and no digits are lost at any density.
"""

import math
from typing import Any

import jax.numpy as jnp

from dftfd.autofd import compose, elementary
from dftfd.functionals import pbe
from dftfd.functionals.base import exact_exchange, long_range_exchange
from dftfd.functionals.common import (
    C_X,
    FERMI,
    fermi_wavevector,
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
)
from dftfd.functionals.numerics import at_least, at_most, safe_root, where_less
from dftfd.functionals.parameters import Switch
from dftfd.functionals.registry import functional, register, reparametrised
from dftfd.functionals.special import exponential_integrals, log_plus_v1

A, B, C, D, E = 1.0161144, -0.37170836, -0.077215461, 0.57786348, -0.051955731
"""Parameters of the hole of the uniform gas."""

_H = (0.00979681, 0.0410834, 0.187440, 0.00120824, 0.0347188)
_F = (6.4753871, 0.47965830)
_EG_SMALL = (-0.02628417880, -0.07117647788, 0.08534541323)
_EG_BORDER = 0.08

_ERFC_A = (
    *(1.0, -1.128223946706117, 1.452736265762971, -1.243162299390327, 0.971824836115601),
    *(-0.568861079687373, 0.246880514820192, -0.065032363850763, 0.008401793031216),
)
_ERFC_B = 1.455915450052607

_LEAST_H = 1e-30
"""Least s^2 H; s^4 is below its rounding unit there."""


def _exponent(s2):
    """s^2 H(s) = s^2 (a1 s^2 + a2 s^4) / (1 + a3 s^4 + a4 s^5 + a5 s^6)."""
    a1, a2, a3, a4, a5 = _H
    s4 = s2 * s2
    return s4 * (a1 + a2 * s2) / (1 + s4 * (a3 + a4 * safe_root(s2) + a5 * s2))


def _EG(s2, s2H, s2F, d):
    """E G(s), which gives the hole its normalisation; a fit to it below s = 0.08 where its terms cancel."""
    small = s2 < _EG_BORDER**2
    fit = _EG_SMALL[0] + s2 * (_EG_SMALL[1] + s2 * _EG_SMALL[2])
    lift = lambda x, safe: jnp.where(small, jnp.full_like(x, safe), x)
    s2, s2H, s2F, d = lift(s2, 1.0), lift(s2H, 1.0), lift(s2F, 1.0), lift(d, 1.0)
    scaled_erfc = exponential_integrals(9 * s2H / (4 * A), 1)[0] / math.pi
    denominator = math.sqrt(math.pi) / (16 * d**3 * jnp.sqrt(d))
    a = (15 * E + d * (6 * C * (1 + s2F) + d * (4 * B + d * 8 * A))) * denominator
    a = a - 0.75 * math.pi * math.sqrt(A) * scaled_erfc
    return jnp.where(small, fit, -(0.75 * math.pi + a) / (15 * s2 * denominator))


def _exact_moments(d, w):
    r"""\int y^k exp(-d y^2) erfc(w y) dy for k = 1, 3, 5, without cancellation; S = (d + w^2)^(1/2)."""
    S = jnp.sqrt(d + w * w)
    T = 1 / (S * (S + w))
    return (
        0.5 * T,
        0.25 * (2 * S + w) * T * T / S,
        0.125 * (8 * S * S + 9 * S * w + 3 * w * w) * T**3 / (S * S),
    )


_FAR = 2.5
"""x = 9h/(4A) from which the two exponentials are subtracted before they are integrated."""


def _moments_of_a(h, w, count):
    r"""sum_i a_i w^i \int y^(i-1) exp(-h y^2) [exp(-D y^2) - 1 / (1 + c y^2)] dy, c = 4A/9, over i < count.

    With x = h/c and the V of `exponential_integrals` the bracket's two parts give Gamma(i/2) (D + h)^(-i/2) and
    c^(-i/2) V_i/2. At large h they are nearly equal; (exp(-D y^2) - 1) + c y^2 / (1 + c y^2) is integrated instead.
    """
    c = 4 * A / 9
    near = 0.5 * (log_plus_v1(h / c) + math.log(c) - jnp.log(D + h))
    if count == 1:
        return near
    V = exponential_integrals(h / c, count + 1)
    is_far = h > _FAR * c
    h_far = jnp.where(is_far, h, jnp.full_like(h, _FAR * c))
    ratio = jnp.sqrt(h_far / (D + h_far))
    less_one = -D / (h_far + D) / (1 + ratio)
    far = 0.5 * (V[1] - jnp.log1p(D / h_far))
    gaussian, rational, plain = w / jnp.sqrt(D + h), w / math.sqrt(c), w / jnp.sqrt(h_far)
    geometric: Any = 1.0
    for i in range(1, count):
        gamma = math.gamma(i / 2)
        near = near + 0.5 * _ERFC_A[i] * (gamma * gaussian**i - V[i - 1] * rational**i)
        far = far + 0.5 * _ERFC_A[i] * (gamma * plain**i * less_one * geometric + V[i + 1] * rational**i)
        geometric = geometric * ratio + 1.0
    return jnp.where(is_far, far, near)


def _enhancement(s2, w, is_attenuated):
    """F_x(s, w)."""
    s2H = _exponent(s2)
    s2F = s2 * _F[1] + _F[0] * s2H
    d = D + s2H
    h = jnp.where(s2H > _LEAST_H, s2H, jnp.full_like(s2H, _LEAST_H))
    h = h + _ERFC_B * w * w if is_attenuated else h
    m1, m3, m5 = _exact_moments(d, w)
    polynomial = B * m1 + C * (1 + s2F) * m3 + (E + s2 * _EG(s2, s2H, s2F, d)) * m5
    return -8 / 9 * (A * _moments_of_a(h, w, 9 if is_attenuated else 1) + polynomial)


_DILUTE = 20.0
"""w from which F_x w^2 is a series in 1/w^2."""

_GAMMA = [
    sum(a * 0.5 * math.gamma(i / 2 + m) * _ERFC_B ** (-i / 2 - m) for i, a in enumerate(_ERFC_A)) for m in range(1, 9)
]
r"""sum_i a_i \int t^(i + 2m - 1) exp(-b t^2) dt, m = 1, 2, ..."""


def _dilute_moments_of_a(s2H, u):
    r"""`_moments_of_a` times w^2, u = 1/w^2: sum_i a_i \int t^(i-1) exp(-b t^2) [...] dt / u, t = w y, with

    [...] = exp(-s^2 H u t^2) [exp(-D u t^2) - 1 / (1 + c u t^2)] as its power series in u t^2.
    """
    total = jnp.zeros_like(u)
    for m in range(len(_GAMMA), 0, -1):
        of_s = jnp.zeros_like(s2H)
        for j in range(m - 1, -1, -1):
            k = m - j
            of_s = of_s * s2H + (-1) ** j / math.factorial(j) * ((-D) ** k / math.factorial(k) - (-4 * A / 9) ** k)
        total = total * u + _GAMMA[m - 1] * of_s
    return total


def _dilute_enhancement(s2, w):
    """F_x(s, w) w^2 beyond `_DILUTE`, where it hardly depends on w: its derivatives are no rest of others."""
    u = 1 / (w * w)
    s2H = _exponent(s2)
    s2F = s2 * _F[1] + _F[0] * s2H
    d = D + s2H
    S = jnp.sqrt(1 + d * u)
    T = 1 / (S * (S + 1))
    m1, m3 = 0.5 * T, 0.25 * u * (2 * S + 1) * T * T / S
    m5 = 0.125 * u * u * (8 * S * S + 9 * S + 3) * T**3 / (S * S)
    polynomial = B * m1 + C * (1 + s2F) * m3 + (E + s2 * _EG(s2, s2H, s2F, d)) * m5
    return -8 / 9 * (A * _dilute_moments_of_a(s2H, u) + polynomial)


_full_range = elementary(lambda s2: _enhancement(s2, jnp.zeros_like(s2), False), "wpbe_enhancement")
_short_range = elementary(lambda s2, w: _enhancement(s2, w, True), "wpbe_enhancement")
_dilute = elementary(_dilute_enhancement, "wpbe_dilute_enhancement")


_S_MAX, _S_END = 8.572844, 15.0
_S_FROM = Switch(1.0)


def _rescaled(s2, s_from):
    r"""s^2 of the hole: s - ln(1 + exp(s - s_max)) from s_from on and s_max = 8.572844 beyond 15.

    No larger s enters, as the hole would violate the Lieb-Oxford bound. The code of the authors, and libxc, switch this
    on at s = 1, where s jumps by 5e-4 and F_x by 1e-4; so does the default here, and s_from=0 does not. Their jumps at
    s = 15 and at s = 0.08, of the fit in `_EG`, remain.
    T. M. Henderson, A. F. Izmaylov, G. Scalmani, G. E. Scuseria, J. Chem. Phys. 131, 044108 (2009).
    doi:10.1063/1.3185673
    """
    s = safe_root(jnp.where(s2 < _S_END**2, s2, jnp.full_like(s2, _S_END**2)))
    soft = s - jnp.log1p(jnp.exp(s - _S_MAX))
    return jnp.where(s2 < s_from**2, s2, jnp.where(s2 < _S_END**2, soft * soft, jnp.full_like(s2, _S_MAX**2)))


@functional("gga_x_wpbeh", doi="10.1063/1.1564060")
@spin_scaled
def full_range_exchange(n, *, s_from=_S_FROM):
    """e_x^LDA F_x(s, 0): the exchange of the PBE hole, close to PBE's own.

    s_from: where the bound on s begins. At 1, as in libxc, F_x jumps by 1e-4 there, and differences of energies are off
    from the forces by up to 1e-4 hartree/bohr; 0 has no such jump.
    """
    return slater_exchange(n) * _full_range(_hole_s2(n, s_from))


def _hole_s2(n, s_from):
    return compose(lambda s2: _rescaled(s2, s_from), reduced_gradient_squared(n))


@functional("gga_x_wpbeh_sr", doi="10.1063/1.1564060")
@spin_scaled
def short_range_exchange(n, *, omega=0.11, s_from=_S_FROM):
    """e_x^LDA F_x(s, omega / k_F).

    s_from: where the bound on s begins. At 1, as in libxc, F_x jumps by 1e-4 there, and differences of energies are off
    from the forces by up to 1e-4 hartree/bohr; 0 has no such jump.
    """
    s2, w = _hole_s2(n, s_from), omega / fermi_wavevector(n)
    dense = slater_exchange(n) * _short_range(s2, at_most(w, _DILUTE))
    return where_less(w, _DILUTE, dense, compose(_local_limit, n, omega) * _dilute(s2, at_least(w, _DILUTE)))


def _local_limit(n, omega):
    """e_x^LDA / w^2, a whole power of n, of which third derivatives leave nothing; without omega nothing is dilute."""
    safe = jnp.where(omega > 0, omega, jnp.ones_like(omega))
    return C_X * FERMI ** (2 / 3) * n * n / (safe * safe)


# ---- HSE06 and LC-omegaPBE


def _hse(name, a=0.25, omega=0.11):
    """E_x = a E_x^SR-HF + E_x^wPBE(0) - a E_x^wPBE(omega), with the short range as 1/r less erf(omega r)/r."""
    exact = a * exact_exchange - a * long_range_exchange(omega)
    short = reparametrised(short_range_exchange, "gga_x_wpbeh_sr", omega=omega)
    return register(exact + full_range_exchange - a * short + pbe.correlation, name, doi="10.1063/1.2404663")


hse06 = _hse("hyb_gga_xc_hse06")
register(hse06, "hse06")

_lc_exchange = reparametrised(short_range_exchange, "gga_x_wpbeh_sr", doi="10.1063/1.2409292", omega=0.4)
lc_wpbe = register(long_range_exchange(0.4) + _lc_exchange + pbe.correlation, "hyb_gga_xc_lc_wpbe")
register(lc_wpbe, "lcwpbe")
