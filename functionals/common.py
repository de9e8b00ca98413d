"""Quantities shared by formulas: spin components, spin scaling, reduced gradients, the uniform electron gas.

Here `n` is one density R^3 -> R and `rho` the spin pair R^3 -> R^2; all results are Functions of r. Powers of n are
multiplied with, not divided by: derivatives of 1/y hold y^-5, which overflows for y = n^(8/3) at the density floor.
"""

import functools
import inspect
import math
from collections.abc import Callable

import jax.numpy as jnp

from dftfd.autofd import Function, compose, dot, nabla
from dftfd.functionals.densities import signature_of
from dftfd.functionals.numerics import nonnegative, positive_part, presence, where_dense

FERMI = 3 * math.pi**2
"""Of the uniform gas: k_F^3 = FERMI n; of one spin of it, k_F^3 = 2 FERMI rho_s."""

C_X = -0.75 * (3 / math.pi) ** (1 / 3)
"""Exchange energy per volume of the uniform gas: e_x = C_X n^(4/3) [hartree]."""

C_F = 0.3 * FERMI ** (2 / 3)
"""Kinetic energy per volume of the uniform gas: tau_unif = C_F n^(5/3) [hartree]."""


def total_density(rho: Function) -> Function:
    """n = rho_alpha + rho_beta [bohr^-3]."""
    return rho[0] + rho[1]


def spin_scaled(formula: Callable[..., Function]) -> Callable[..., Function]:
    """Decorator of exchange: (E[2 rho_a] + E[2 rho_b]) / 2 from a formula of one density. Doubles tau, too.

    E_x[rho_a, rho_b] = (E_x[2 rho_a] + E_x[2 rho_b]) / 2. Energy densities, if taken, are doubled too.
    G. L. Oliver, J. P. Perdew, Phys. Rev. A 20, 397 (1979). doi:10.1103/PhysRevA.20.397
    """
    ingredients, _ = signature_of(formula, formula.__name__)
    others = [i for i in ingredients if i != "n"]

    def of_one_spin(s, rho, given, parameters):
        doubled = {i: 2.0 * f[s] for i, f in zip(others, given, strict=True)}
        scaled = lambda n: formula(*(n if i == "n" else doubled[i] for i in ingredients), **parameters)
        return where_dense(scaled, 2.0 * rho[s])

    def scaled(rho, *given, **parameters):
        return 0.5 * (of_one_spin(0, rho, given, parameters) + of_one_spin(1, rho, given, parameters))

    functools.update_wrapper(scaled, formula)
    # guarded: the density floor is applied to each spin here
    vars(scaled).update(__signature__=_scaled_signature(formula), is_guarded=True)
    return scaled


def _scaled_signature(formula):
    """rho and what else is taken, then the keyword parameters of `formula`."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    kept = [p for p in inspect.signature(formula).parameters.values() if p.name != "n"]
    return inspect.Signature([inspect.Parameter("rho", kind), *kept])


def each_spin(e: Callable, rho: Function, *others: Function) -> tuple[Function, Function]:
    """(e(rho_a, other_a), e(rho_b, other_b)), zero for an absent spin. Others are spin-resolved, such as tau."""

    def one(s):
        return where_dense(lambda n_s: e(n_s, *(f[s] for f in others)), rho[s])

    return one(0), one(1)


def lifted_spins(q: Callable, rho: Function, *others: Function) -> tuple[Function, Function]:
    """(q(rho_a, other_a), q(rho_b, other_b)) of spin densities kept above zero, so that potentials are continuous."""
    up, down = (q(nonnegative(rho[s]), *(f[s] for f in others)) for s in range(2))
    return up, down


def spin_pair(up: Function, down: Function) -> Function:
    """The function R^3 -> R^2 of two components, for model potentials."""
    return compose(_stack, up, down)


def _stack(up, down):
    return jnp.stack([up, down])


def per_spin(e: Callable, rho: Function, *others: Function) -> Function:
    """Sum of the energies of both spins, smooth as a spin vanishes (`lifted_spins`)."""
    up, down = lifted_spins(e, rho, *others)
    return presence(rho[0]) * up + presence(rho[1]) * down


def gradient_squared(n: Function) -> Function:
    """|nabla n|^2 [bohr^-8]."""
    g = nabla(n)
    return dot(g, g)


def fermi_wavevector(n: Function) -> Function:
    """k_F = (3 pi^2 n)^(1/3) [1/bohr]."""
    return FERMI ** (1 / 3) * n ** (1 / 3)


def reduced_gradient_squared(n: Function) -> Function:
    """s^2 = |nabla n|^2 / (2 k_F n)^2."""
    return FERMI ** (-2 / 3) / 4 * gradient_squared(n) * n ** (-8 / 3)


def wigner_seitz_radius(n: Function) -> Function:
    """r_s = (3 / (4 pi n))^(1/3) [bohr]."""
    return (3 / (4 * math.pi)) ** (1 / 3) * n ** (-1 / 3)


def slater_exchange(n: Function) -> Function:
    """e_x = C_X n^(4/3), exchange of the unpolarised uniform gas [hartree bohr^-3]."""
    return C_X * n ** (4 / 3)


def uniform_kinetic_energy(n: Function) -> Function:
    """tau_unif = C_F n^(5/3), of the unpolarised uniform gas [hartree bohr^-3]."""
    return C_F * n ** (5 / 3)


def weizsaecker_kinetic_energy(n: Function) -> Function:
    """tau_W = |nabla n|^2 / (8 n), von Weizsaecker's lower bound of tau [hartree bohr^-3]."""
    return gradient_squared(n) / (8 * n)


def polarisation(rho: Function) -> Function:
    """zeta = (rho_alpha - rho_beta) / n."""
    return compose(_polarisation, rho)


def _polarisation(rho):
    return (rho[0] - rho[1]) / (rho[0] + rho[1])


def spin_fractions(rho: Function) -> tuple[Function, Function]:
    """(1 + zeta, 1 - zeta) = 2 rho_s / n, without cancellation near |zeta| = 1. At least POLARISATION_FLOOR."""
    n = total_density(rho)
    return positive_part(2 * rho[0] / n), positive_part(2 * rho[1] / n)


def spin_powers(rho: Function, exponent: float) -> tuple[Function, Function]:
    """((1 + zeta)^p, (1 - zeta)^p)."""
    up, down = spin_fractions(rho)
    return up**exponent, down**exponent


def spin_interpolation(rho: Function) -> Function:
    """f(zeta) = ((1 + zeta)^(4/3) + (1 - zeta)^(4/3) - 2) / (2^(4/3) - 2)."""
    up, down = spin_powers(rho, 4 / 3)
    return (up + down - 2) / (2 ** (4 / 3) - 2)


def spin_scaling_factor(rho: Function) -> Function:
    """phi(zeta) = ((1 + zeta)^(2/3) + (1 - zeta)^(2/3)) / 2."""
    up, down = spin_powers(rho, 2 / 3)
    return 0.5 * (up + down)


def spin_gradient_squared(n: Function) -> Function:
    """x^2 of one spin, x = |nabla rho_s| / rho_s^(4/3), from n = 2 rho_s."""
    return 2 ** (2 / 3) * gradient_squared(n) * n ** (-8 / 3)


def polarisation_gradient_squared(rho: Function) -> Function:
    """|nabla zeta|^2, nabla zeta = 2 (rho_b nabla rho_a - rho_a nabla rho_b) / n^2."""
    n, grad = total_density(rho), nabla(rho)
    difference = 2 * (rho[1] * grad[0] - rho[0] * grad[1])
    return dot(difference, difference) * n**-4
