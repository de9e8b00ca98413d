"""The left side of a local condition at one point, in 50 digits, from the formula as it stands.

Nothing of the prover takes part: the energy's own program runs on mpmath's numbers of 150 digits, and derivatives along
ln r_s are central differences with a step of 1e-30, whose error is the square of it.
"""

import math

from dftfd.autofd.scalar.on_mpmath import mpmath as mpmath
from dftfd.functionals.base import Functional
from dftfd.verify.extended import DIGITS, STEP, ExtendedEnergy
from dftfd.verify.local_conditions import FAR, part_of
from dftfd.verify.model_systems import C_F, C_X
from dftfd.xc.pointwise import scalar_form


def left_side_in_digits(functional: Functional, terms: dict, constant: float, point: dict[str, float]) -> str:
    """constant + sum of coefficient times Taylor coefficient {(part, order): coefficient} at {variable: number}."""
    n_spin = 2 if "zeta" in point else 1
    parts = {part[0]: part_of(functional, part[0]) for part, _ in terms}
    energies = {kind: ExtendedEnergy(f, n_spin, scalar_form(f, n_spin)) for kind, f in parts.items()}
    with mpmath.workdps(DIGITS):
        total = mpmath.mpf(constant)
        for (part, order), coefficient in terms.items():
            energy = energies[part[0]]
            rs = FAR if part == "c far" else point["rs"]
            F = lambda t, energy=energy, rs=rs: _enhancement(energy, point, mpmath.mpf(rs) * mpmath.exp(t), n_spin)
            total += coefficient * _coefficient(F, order)
        return mpmath.nstr(total, 50)


def _coefficient(F, order: int):
    """Taylor coefficient at t = 0."""
    h = STEP
    if order == 0:
        return F(mpmath.mpf(0))
    if order == 1:
        return (F(h) - F(-h)) / (2 * h)
    return (F(h) - 2 * F(mpmath.mpf(0)) + F(-h)) / (2 * h * h)


def _enhancement(energy, point, rs, n_spin):
    """e / e_x^LDA, in libxc's variables as in `local_conditions.Gas`."""
    third = mpmath.mpf(1) / 3
    s, alpha, q, zeta = (mpmath.mpf(point.get(k, 0.0)) for k in ("s", "alpha", "q", "zeta"))
    n = mpmath.mpf(3 / (4 * math.pi)) / rs**3
    k_F2 = mpmath.mpf(4 * (3 * math.pi**2) ** (2 / 3))
    sigma, unit = k_F2 * s**2 * n ** (8 * third), n ** (5 * third)
    lapl, tau_W, tau = k_F2 * q * unit, sigma * mpmath.mpf(0.125) / n, mpmath.mpf(C_F) * alpha * unit
    if n_spin == 1:
        x = [n, sigma, lapl, tau + tau_W]
    else:
        up, down = (1 + zeta) / 2, (1 - zeta) / 2
        tau = tau * ((2 * up) ** (5 * third) + (2 * down) ** (5 * third)) / 2 + tau_W
        x = [up * n, down * n, up * up * sigma, up * down * sigma, down * down * sigma]
        x += [up * lapl, down * lapl, up * tau, down * tau]
    return energy(x) / (mpmath.mpf(C_X) * n ** (4 * third))
