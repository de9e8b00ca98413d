r"""From a tree to a functional: start formulas with holes, their values at points, and files that hold them.

    exchange      e_x = e_x^LDA(n) (1 + h_x),  with spin scaling
    correlation   "factor"  eps_c = eps_c^PW92(r_s, zeta) (1 + h_c)
                  "pbe"     eps_c = eps_c^PW92 + gamma phi^3 ln(1 + beta/gamma t^2 (1 + h_c))

A hole h vanishes in the uniform gas whatever its parameters, so the uniform limit, spin scaling and, for exchange,
coordinate scaling hold by construction. Instead of a hole, a registered functional can stand for a part.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dftfd.autofd import exp, expm1, log1p, sqrt
from dftfd.discovery import expressions
from dftfd.discovery.expressions import Series, Tree
from dftfd.errors import InputError, shown
from dftfd.functionals import pw92
from dftfd.functionals.base import Functional
from dftfd.functionals.common import (
    C_F,
    C_X,
    FERMI,
    polarisation,
    reduced_gradient_squared,
    slater_exchange,
    spin_powers,
    spin_scaled,
    spin_scaling_factor,
    total_density,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
    wigner_seitz_radius,
)
from dftfd.functionals.numerics import at_least, x_asinh_x
from dftfd.functionals.pbe import BETA, GAMMA, correlation_gradient_squared
from dftfd.functionals.registry import get_functional, term
from dftfd.xc.pointwise import pointwise_kernel

OF_EXCHANGE, OF_CORRELATION = ("s2", "alpha", "d", "w"), ("s2", "alpha", "d", "w", "rs", "z2", "t2", "y")
OF_TAU = {"alpha", "d", "w"}
HOLES = {"exchange": ("hole",), "correlation": ("factor", "pbe")}


@dataclass(frozen=True)
class Form:
    """What is searched.   exchange: "hole" or a functional's name.   correlation: "factor", "pbe", or a name.

    x, c: names of the ingredients that the holes may have.
    """

    exchange: str = "hole"
    correlation: str = "factor"
    x: tuple[str, ...] = ("s2",)
    c: tuple[str, ...] = ("t2",)

    @property
    def parts(self) -> tuple[str, ...]:
        """Those that have a hole: "x", "c"."""
        return (
            *(["x"] if self.exchange == "hole" else []),
            *(["c"] if self.correlation in HOLES["correlation"] else []),
        )

    def ingredients(self, part: str) -> tuple[str, ...]:
        return self.x if part == "x" else self.c


@dataclass(frozen=True)
class Candidate:
    """The trees of a form's holes; None where a hole is empty, h = 0, or there is none."""

    x: Tree | None = None
    c: Tree | None = None

    @property
    def trees(self) -> tuple[Tree, ...]:
        return tuple(tree for tree in (self.x, self.c) if tree is not None)

    @property
    def key(self) -> str:
        """The same for the same formulas, with whatever parameters."""
        return " | ".join("" if tree is None else expressions.skeleton(tree) for tree in (self.x, self.c))

    @property
    def complexity(self) -> int:
        return sum(map(expressions.complexity, self.trees))

    @property
    def parameters(self) -> np.ndarray:
        return np.array([p for tree in self.trees for p in expressions.parameters(tree)])

    @property
    def signs(self) -> list[str]:
        return [s for tree in self.trees for s in expressions.signs(tree)]

    def at(self, values) -> "Candidate":
        """The candidate with these parameters."""
        k = 0 if self.x is None else len(expressions.parameters(self.x))
        x = None if self.x is None else expressions.with_parameters(self.x, values[:k])
        return Candidate(x, None if self.c is None else expressions.with_parameters(self.c, values[k:]))

    def replaced(self, part: str, tree: Tree | None) -> "Candidate":
        return Candidate(tree, self.c) if part == "x" else Candidate(self.x, tree)

    def canonical(self) -> "Candidate":
        """In the form that equal ones share; a hole that has become a number is empty."""
        trees = [None if t is None or (f := expressions.canonical(t))[0] == "n" else f for t in (self.x, self.c)]
        return Candidate(*trees)

    def is_valid(self, form: Form) -> bool:
        holes = {"x": self.x, "c": self.c}
        return all(
            tree is None or expressions.is_valid(tree, form.ingredients(part)) for part, tree in holes.items()
        ) and (all(tree is None or part in form.parts for part, tree in holes.items()))

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"x": self.x, "c": self.c}

    @classmethod
    def of(cls, data: Mapping) -> "Candidate":
        """Of a document; ValueError for others."""
        return cls(*(None if data.get(part) is None else expressions.from_json(data[part]) for part in ("x", "c")))

    def __str__(self):
        texts = ["1" if tree is None else f"1 + {expressions.python(tree)}" for tree in (self.x, self.c)]
        return f"F_x = {texts[0]}" + (f";  correlation {texts[1]}" if self.c is not None else "")


# ---- values at points.

_KF = (9 * math.pi / 4) ** (1 / 3)  # k_F r_s
_FACTOR = -C_X * (3 / (4 * math.pi)) ** (1 / 3)  # e_x^LDA / n = -_FACTOR / r_s


def exchange_ingredients(s2, alpha) -> dict[str, Any]:
    """Of an exchange hole, from those of TrainingPoints."""
    t = alpha + 5 / 3 * s2
    return {"s2": s2, "alpha": alpha, "d": (1 - alpha) / (1 + alpha), "w": (1 - t) / (1 + t)}


@dataclass(frozen=True)
class Gas:
    """What correlation needs at points: ingredients `at`, PW92 energies `eps` [hartree], phi^3, beta/gamma t^2.

    With `series` all are Taylor series along ln r_s at fixed s, alpha and zeta.
    """

    at: dict[str, Any]
    eps: Any
    phi3: Any
    bt2: Any

    @classmethod
    def of(cls, rs, zeta, s2, alpha, series: bool = False) -> "Gas":
        up, down = 1 + zeta, np.maximum(1 - zeta, 0.0)
        phi = 0.5 * (np.cbrt(up) ** 2 + np.cbrt(down) ** 2)
        d_s = 0.5 * (up * np.cbrt(up) ** 2 + down * np.cbrt(down) ** 2)
        t = alpha + 5 / 3 * s2 / d_s
        t2 = math.pi / 4 * _KF * s2 / (rs * phi * phi)
        of_uniform_gas = lambda rs: native_correlation("lda_c_pw_mod", rs, zeta, 0 * rs, 0 * rs)
        eps, phi3 = along_rs(of_uniform_gas, rs) if series else of_uniform_gas(rs), phi**3
        if series:
            rs, t2 = Series(rs, rs, 0.5 * rs), Series(t2, -t2, 0.5 * t2)
        at = {"s2": s2, "alpha": alpha, "d": (1 - alpha) / (1 + alpha), "w": (1 - t) / (1 + t), "z2": zeta * zeta}
        gas = cls(at | {"rs": rs, "t2": t2}, eps, phi3, t2 * (BETA / GAMMA))
        at_y = gas.bt2 * _inverse_expm1(eps * (-1 / (GAMMA * phi3)))
        return cls(gas.at | {"y": at_y}, eps, phi3, gas.bt2)

    def energy(self, form: Form, hole):
        """eps_c [hartree] of a hole's values."""
        if form.correlation == "factor":
            return self.eps * (hole + 1.0)
        inner = self.bt2 * (hole + 1.0)
        log = inner.of(np.log1p, lambda x: 1 / (1 + x), lambda x: -((1 + x) ** -2)) if _is(inner) else np.log1p(inner)
        return self.eps + log * (GAMMA * self.phi3)

    def slope(self, form: Form, hole):
        """d eps_c / d hole."""
        return (
            self.eps if form.correlation == "factor" else GAMMA * self.phi3 * self.bt2 / (1 + self.bt2 * (hole + 1.0))
        )


def _is(x):
    return isinstance(x, Series)


def _inverse_expm1(x):
    """1 / (exp(x) - 1)."""
    f = lambda x: 1 / np.expm1(x)
    f1 = lambda x: -f(x) * (1 + f(x))
    return x.of(f, f1, lambda x: -f1(x) * (1 + 2 * f(x))) if _is(x) else f(x)


def along_rs(energy, rs, h=1e-3) -> Series:
    """Taylor series along ln r_s of energy(r_s) (point,), by five-point differences."""
    m2, m1, p1, p2 = (energy(rs * math.exp(k * h)) for k in (-2, -1, 1, 2))
    middle = energy(rs)
    first = (8 * (p1 - m1) - (p2 - m2)) / (12 * h)
    return Series(middle, first, (16 * (p1 + m1) - (p2 + m2) - 30 * middle) / (24 * h * h))


def native_exchange(name: str, s2, alpha) -> np.ndarray:
    """F_x (point,) of a registered exchange functional without polarisation."""
    sigma = 4 * FERMI ** (2 / 3) * s2  # at n = 1
    rows = np.array([np.ones_like(s2), sigma, 0 * s2, C_F * alpha + sigma / 8])
    (e,) = pointwise_kernel(_part(name, "x"), 1)(rows, 0, compiled=False)
    return np.asarray(e[0]) / C_X


def native_correlation(name: str, rs, zeta, s2, alpha) -> np.ndarray:
    """eps_c (point,) [hartree] of a registered correlation functional whose spins share gradient and tau as density."""
    n = 3 / (4 * math.pi * rs**3)
    shares = np.array([1 + zeta, 1 - zeta]) / 2
    sigma = 4 * FERMI ** (2 / 3) * s2 * n ** (8 / 3)
    d_s = 0.5 * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3))
    tau = C_F * n ** (5 / 3) * alpha * d_s + sigma / (8 * n)
    pairs = np.array([shares[0] ** 2, shares[0] * shares[1], shares[1] ** 2]) * sigma
    rows = np.concatenate([shares * n, pairs, 0 * shares, shares * tau])
    (e,) = pointwise_kernel(_part(name, "c"), 2)(rows, 0, compiled=False)
    return np.asarray(e[0]) / n


def _part(name: str, part: str) -> Functional:
    """A registered semilocal functional of exchange or correlation; InputError for others."""
    functional = get_functional(name)
    if not functional.is_semilocal or any(t.kind != part for _, t in functional.terms):
        words = "exchange" if part == "x" else "correlation"
        raise InputError(f"{shown(name)} is not a semilocal {words} functional, as 'gga_{part}_pbe' is.")
    return functional


# ---- as functionals.

_ON_FUNCTIONS = {
    "u": lambda x: x / (1 + x),
    "inv": lambda x: 1 / (1 + x),
    "exp": lambda x: exp(-x),
    "log": log1p,
    "sqrt": lambda x: sqrt(1 + x),
    "ash": x_asinh_x,
}


def _kinetic(n, tau, d_s):
    """(alpha, d, w) of a density and its tau."""
    tau_W, tau_unif = weizsaecker_kinetic_energy(n), uniform_kinetic_energy(n) * d_s
    alpha, t = at_least((tau - tau_W) / tau_unif, 0.0), tau / tau_unif
    return {"alpha": alpha, "d": (1 - alpha) / (1 + alpha), "w": (1 - t) / (1 + t)}


def _hole(tree, at):
    return 0.0 if tree is None else expressions.value(tree, at, _ON_FUNCTIONS)


def _uses_tau(tree):
    return tree is not None and any(node[0] == "v" and node[1] in OF_TAU for node in expressions.nodes(tree))


def as_functional(form: Form, candidate: Candidate, name: str = "found", only: str = "xc") -> Functional:
    """The functional of a candidate, or a part of it, unregistered, with its parameters as numbers."""
    parts = []
    for part, whole in (("x", form.exchange), ("c", form.correlation)):
        if part not in only:
            continue
        tree = candidate.x if part == "x" else candidate.c
        if part not in form.parts:
            if whole:
                parts.append(_part(whole, part))
            continue
        parts.append(_own(form, part, tree, f"{'mgga' if _uses_tau(tree) else 'gga'}_{part}_{name}"))
    total = parts[0]
    for other in parts[1:]:
        total = total + other
    return total.named(name)


def _own(form, part, tree, name):
    """The term of a hole; formulas name the ingredients that they take, so one with tau is another function."""
    if part == "c":
        code = lambda rho: _correlation(form, tree, rho, None)
        with_tau = lambda rho, tau: _correlation(form, tree, rho, tau)
    else:
        code = spin_scaled(lambda n: _exchange(tree, n, {}))
        with_tau = spin_scaled(lambda n, tau: _exchange(tree, n, _kinetic(n, tau, 1.0)))
    return term(name)(with_tau if _uses_tau(tree) else code)


def _exchange(tree, n, kinetic):
    return slater_exchange(n) * (1 + _hole(tree, {"s2": reduced_gradient_squared(n)} | kinetic))


def _correlation(form, tree, rho, tau):
    n, phi, eps = total_density(rho), spin_scaling_factor(rho), pw92.correlation_energy(rho)
    t2, phi3 = correlation_gradient_squared(n, phi), phi * phi * phi
    bt2 = BETA / GAMMA * t2
    at = {"s2": reduced_gradient_squared(n), "rs": wigner_seitz_radius(n), "t2": t2, "z2": polarisation(rho) ** 2}
    names = set() if tree is None else {node[1] for node in expressions.nodes(tree) if node[0] == "v"}
    if "y" in names:
        at["y"] = bt2 / expm1(-eps / (GAMMA * phi3))
    if tau is not None:
        up, down = spin_powers(rho, 5 / 3)
        at |= _kinetic(n, tau[0] + tau[1], 0.5 * (up + down))
    hole = _hole(tree, at)
    if form.correlation == "factor":
        return n * (eps * (1 + hole))
    return n * (eps + GAMMA * phi3 * log1p(bt2 * (1 + hole)))
