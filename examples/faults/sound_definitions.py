"""Random definitions of functionals that are sound by construction.

Each is an energy scale of the electron gas times 1 + a B, with |a| < 0.4 and B a random tree of smooth bounded
functions of reduced gradients, Laplacians, Hessians, kinetic energies, spin polarisations and radii. So it is finite,
smooth and symmetric in the spins wherever there is a density.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import Function, arctan, compose, dot, erf, exp, laplacian, log1p, nabla, sqrt, tanh
from dftfd.functionals import common

K_F2 = (3 * math.pi**2) ** (2 / 3)


@dataclass(frozen=True)
class Expression:
    """A formula in words, and its Function from the ingredients by name."""

    text: str
    of: Callable[[dict], Function]


@dataclass(frozen=True)
class Definition:
    """What is given to the decorator. formula(ingredients ..., *, a).   text: in words."""

    text: str
    formula: Callable
    spin_symmetric: bool = True


def code(text, f):
    """A rule for trees: Python code of JAX, or an elementary function of Functions, with its name."""
    return lambda *parts: Expression(
        text.format(*(p.text for p in parts)), lambda given: f(*(p.of(given) for p in parts))
    )


def leaf(text, f, *needed):
    """An expression of ingredients, and which of them it needs."""
    return Expression(text, lambda given: f(*(given[name] for name in needed))), set(needed)


def _hessian_norm(n):
    return compose(lambda n, H: jnp.sum(H * H) * n ** (-10 / 3) / (16 * K_F2**2), n, nabla(nabla(n)))


def _curvature(n):
    return compose(lambda n, g, H: g @ H @ g * n ** (-13 / 3) / (4 * K_F2) ** 2, n, nabla(n), nabla(nabla(n)))


POSITIVE = [
    leaf("s^2", common.reduced_gradient_squared, "n"),
    leaf("|nabla n|^2/n^(8/3)", lambda n: dot(nabla(n), nabla(n)) / n ** (8 / 3), "n"),
    leaf("r_s", common.wigner_seitz_radius, "n"),
    leaf("n^(1/3)", lambda n: n ** (1 / 3), "n"),
    leaf("sqrt(|H|^2)", lambda n: sqrt(1 + _hessian_norm(n)), "n"),
    leaf("zeta^2", lambda rho: common.polarisation(rho) ** 2, "rho"),
    leaf("phi(zeta)", common.spin_scaling_factor, "rho"),
    leaf("|nabla zeta|^2/n^(2/3)", lambda rho, n: common.polarisation_gradient_squared(rho) / n ** (2 / 3), "rho", "n"),
    leaf("tau/tau_unif", lambda n, t: t / common.uniform_kinetic_energy(n), "n", "tau"),
    leaf("tau_W/tau", lambda n, t: common.weizsaecker_kinetic_energy(n) / t, "n", "tau"),
]
SIGNED = [
    leaf("q", lambda n: laplacian(n) * n ** (-5 / 3) / (4 * K_F2), "n"),
    leaf("gHg", _curvature, "n"),
    leaf("log n", lambda n: compose(jnp.log, n), "n"),
]
OF_POSITIVE = [
    code("{0}/(1+{0})", lambda u: u / (1 + u)),
    code("exp(-{0})", lambda u: exp(-u)),
    code("tanh({0})", tanh),
    code("1/sqrt(1+{0})", lambda u: (1 + u) ** (-1 / 2)),
    code("arctan({0})", arctan),
    code("erf({0})", erf),
    code("log1p({0})/(1+log1p({0}))", lambda u: compose(lambda u: jnp.log1p(u) / (1 + jnp.log1p(u)), u)),
    code("sigmoid({0})", lambda u: compose(lambda u: jax.nn.sigmoid(u), u)),
]
OF_SIGNED = [
    code("tanh({0})", tanh),
    code("arctan({0})", arctan),
    code("{0}/sqrt(1+{0}^2)", lambda v: v / sqrt(1 + v * v)),
    code("erf({0})", erf),
]
OF_BOUNDED = [
    code("sin({0})", lambda b: compose(jnp.sin, b)),
    code("exp({0}/2)", lambda b: exp(0.5 * b)),
    code("sqrt(1+({0})^2)", lambda b: sqrt(1 + b * b)),
    code("({0})^2", lambda b: b**2),
    code("log1p(({0})^2)", lambda b: log1p(b * b)),
    code("loop({0})", lambda b: compose(lambda b: jax.lax.fori_loop(0, 3, lambda _, y: b * jnp.cos(y), b), b)),
]


def _network(seed):
    weights = np.random.default_rng(seed).normal(size=(2, 4, 2)) / 2
    return lambda b, c: compose(lambda b, c: weights[1, :, 0] @ jnp.tanh(weights[0] @ jnp.stack([b, c])) / 2, b, c)


OF_TWO = [
    code("({0})*({1})", lambda b, c: b * c),
    code("({0}+{1})/2", lambda b, c: 0.5 * (b + c)),
    code("({0}-{1})/2", lambda b, c: 0.5 * (b - c)),
    code("network({0},{1})", _network(1)),
    code("hypot(1,{0},{1})", lambda b, c: compose(lambda b, c: jnp.sqrt(1 + b * b + c * c), b, c)),
]
SCALES = [
    leaf("C n^(4/3)", common.slater_exchange, "n"),
    leaf("n^(5/3)", lambda n: 0.2 * n ** (5 / 3), "n"),
    leaf("n/(1+r_s)", lambda n: -0.4 * n / (1 + common.wigner_seitz_radius(n)), "n"),
    leaf("n log1p(1/r_s)", lambda n: -0.03 * n * log1p(1 / common.wigner_seitz_radius(n)), "n"),
    leaf("n^(4/3)/(1+n^(1/3))", lambda n: compose(lambda n: -(n ** (4 / 3)) / (1 + n ** (1 / 3)), n), "n"),
    leaf("tau_W", common.weizsaecker_kinetic_energy, "n"),
    leaf("tau", lambda t: 0.3 * t, "tau"),
]
SHAPES = {
    "n": {"n"},
    "n, tau": {"n", "tau"},
    "rho": {"n", "rho"},
    "rho, tau": {"n", "rho", "tau"},
    "spin scaled n": {"n"},
    "spin scaled n, tau": {"n", "tau"},
}
"""Positional arguments of the definitions, and which ingredients can be made of them."""


def sound_definition(rng, arguments=None) -> Definition:
    """One at random, with any of these arguments."""
    arguments = str(rng.choice(list(arguments or SHAPES)))
    known = SHAPES[arguments]
    scale, bounded = _leaf(rng, SCALES, known), _tree(rng, known, int(rng.integers(1, 4)))
    return definition(arguments, scale, bounded, rng.choice([-1, 1]) * rng.uniform(0.05, 0.4))


def definition(arguments, scale, bounded, strength) -> Definition:
    """scale (1 + a B) of the arguments."""

    def energy(given, a):
        return scale.of(given) * (1 + a * bounded.of(given))

    text = f"f({arguments}) = {scale.text} (1 + {strength:.3f} [{bounded.text}])"
    return Definition(text, _WITH_ARGUMENTS[arguments](energy, float(strength)))


def _of_n(energy, strength):
    return lambda n, *, a=strength: energy({"n": n}, a)


def _of_n_tau(energy, strength):
    return lambda n, tau, *, a=strength: energy({"n": n, "tau": tau[0] + tau[1]}, a)


def _of_rho(energy, strength):
    return lambda rho, *, a=strength: energy({"n": common.total_density(rho), "rho": rho}, a)


def _of_rho_tau(energy, strength):
    total = common.total_density
    return lambda rho, tau, *, a=strength: energy({"n": total(rho), "rho": rho, "tau": total(tau)}, a)


def _spin_scaled_n_tau(energy, strength):
    return common.spin_scaled(lambda n, tau, *, a=strength: energy({"n": n, "tau": tau}, a))


_WITH_ARGUMENTS = {
    "n": _of_n,
    "n, tau": _of_n_tau,
    "rho": _of_rho,
    "rho, tau": _of_rho_tau,
    "spin scaled n": lambda energy, strength: common.spin_scaled(_of_n(energy, strength)),
    "spin scaled n, tau": _spin_scaled_n_tau,
}


def _leaf(rng, leaves, known):
    """One of the leaves that can be made of what is known."""
    possible = [expression for expression, needed in leaves if needed <= known]
    return possible[rng.integers(len(possible))]


def _tree(rng, known, size) -> Expression:
    """A bounded expression with `size` leaves."""
    if size > 1:
        left = int(rng.integers(1, size))
        return _one_of(rng, OF_TWO)(_tree(rng, known, left), _tree(rng, known, size - left))
    if rng.random() < 0.3:
        bounded = _one_of(rng, OF_SIGNED)(_leaf(rng, SIGNED, known))
    else:
        bounded = _one_of(rng, OF_POSITIVE)(_leaf(rng, POSITIVE, known))
    return _one_of(rng, OF_BOUNDED)(bounded) if rng.random() < 0.4 else bounded


def _one_of(rng, rules):
    return rules[rng.integers(len(rules))]
