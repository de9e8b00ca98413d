r"""From trees to functionals: formulas with holes, their values at points, and the files that keep them.

    exchange      e_x = e_x^LDA(n) (1 + h_x),  with spin scaling
    correlation   "factor"  eps_c = eps_c^PW92(r_s, zeta) (1 + h_c)
                  "pbe"     eps_c = eps_c^PW92 + gamma phi^3 ln(1 + w u(y (1 + h_c))),  u(x) = x / (1 + x),
                            w = exp(-eps_c^PW92 / (gamma phi^3)) - 1,  y = beta/gamma t^2 / w;  PBE has h_c = y

A hole h vanishes in the uniform gas whatever its parameters, so the uniform limit, spin scaling and, for exchange,
coordinate scaling hold by construction, with the form "pbe" E_c <= 0 where h_c >= -1, too. Instead of a hole, a
registered functional can stand for a part.

Functionals have u as 1 - 1 / (1 + x), and d and w alike: x stands there once, so that the intervals of the prover are
as narrow as they can be. With x / (1 + x) hardly any candidate is proved.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dftfd.autofd import exp, expm1, log1p, sqrt
from dftfd.discovery import expressions
from dftfd.discovery.expressions import Tree, variables
from dftfd.errors import InputError, shown
from dftfd.functionals import common, pw92
from dftfd.functionals.base import Functional
from dftfd.functionals.common import C_F, C_X, FERMI, reduced_gradient_squared, spin_scaled, total_density
from dftfd.functionals.numerics import at_least, x_asinh_x
from dftfd.functionals.pbe import BETA, GAMMA, correlation_gradient_squared
from dftfd.functionals.registry import get_functional, term
from dftfd.xc.pointwise import pointwise_kernel

OF_EXCHANGE, OF_CORRELATION = ("s2", "alpha", "d", "b", "w"), ("s2", "alpha", "d", "b", "w", "rs", "z2", "t2", "y")
OF_TAU = {"alpha", "d", "b", "w"}


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
        return ("x",) * (self.exchange == "hole") + ("c",) * (self.correlation in ("factor", "pbe"))

    def ingredients(self, part: str) -> tuple[str, ...]:
        return (self.x if part == "x" else self.c) if part in self.parts else ()


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
        return np.array([leaf[1] for tree in self.trees for leaf in expressions.parameters(tree)])

    @property
    def positive(self) -> np.ndarray:
        """Which parameters are positive ones."""
        return np.array([leaf[0] == "p" for tree in self.trees for leaf in expressions.parameters(tree)], dtype=bool)

    def at(self, values) -> "Candidate":
        """The candidate with these parameters."""
        left = iter(values)
        return Candidate(*(t if t is None else expressions.with_parameters(t, left) for t in (self.x, self.c)))

    def hole(self, part: str) -> Tree | None:
        return self.x if part == "x" else self.c

    def replaced(self, part: str, tree: Tree | None) -> "Candidate":
        return replace(self, **{part: tree})

    def canonical(self) -> "Candidate":
        """In the form that equal ones share; a hole that has become a number is empty."""
        trees = [None if t is None else expressions.canonical(t) for t in (self.x, self.c)]
        return Candidate(*(None if t is None or t[0] in expressions.NUMBERS else t for t in trees))

    def is_valid(self, form: Form) -> bool:
        holes = [(t, form.ingredients(p)) for p in "xc" if (t := self.hole(p)) is not None]
        return bool(holes) and all(expressions.is_valid(*hole) for hole in holes)

    @property
    def document(self) -> dict[str, Any]:
        """As JSON: its formulas."""
        return {part: None if (t := self.hole(part)) is None else expressions.python(t) for part in "xc"}

    @classmethod
    def of(cls, data: Mapping) -> "Candidate":
        """Of a document; InputError for others."""
        return cls(*(None if data.get(part) is None else expressions.parsed(data[part]) for part in "xc")).canonical()

    def __str__(self):
        texts = ["1" if tree is None else f"1 + {expressions.python(tree)}" for tree in (self.x, self.c)]
        return f"F_x = {texts[0]}" + (f";  correlation {texts[1]}" if self.c is not None else "")


# ---- values at points.

_KF = (9 * math.pi / 4) ** (1 / 3)  # k_F r_s


def spin_power(zeta, k):
    """((1 + zeta)^k + (1 - zeta)^k) / 2."""
    return 0.5 * ((1 + zeta) ** k + np.maximum(1 - zeta, 0.0) ** k)


def exchange_ingredients(s2, alpha) -> dict[str, Any]:
    """Of an exchange hole, from those of TrainingPoints."""
    t_W = 5 / 3 * s2
    t = alpha + t_W
    signed = {"d": (1 - alpha) / (1 + alpha), "b": (1 + t_W - alpha) / (1 + t), "w": (1 - t) / (1 + t)}
    return {"s2": s2, "alpha": alpha} | signed


@dataclass(frozen=True)
class Gas:
    """What correlation needs at points: ingredients `at`, PW92 energies `eps` [hartree], gamma phi^3, and w."""

    form: Form
    at: dict[str, Any]
    eps: Any
    size: Any
    w: Any

    @classmethod
    def of(cls, form: Form, rs, zeta, s2, alpha) -> "Gas":
        phi = spin_power(zeta, 2 / 3)
        t2 = math.pi / 4 * _KF * s2 / (rs * phi * phi)
        eps, size = native_correlation("lda_c_pw_mod", rs, zeta, 0 * rs, 0 * rs), GAMMA * phi**3
        w = np.expm1(-eps / size)
        at = exchange_ingredients(s2 / spin_power(zeta, 5 / 3), alpha) | {"s2": s2, "rs": rs, "t2": t2}
        return cls(form, at | {"z2": zeta * zeta, "y": BETA / GAMMA * t2 / w}, eps, size, w)

    def with_points(self, other: "Gas") -> "Gas":
        """The points of both."""
        arrays = (np.append(getattr(self, name), getattr(other, name)) for name in ("eps", "size", "w"))
        return Gas(self.form, {name: np.append(x, other.at[name]) for name, x in self.at.items()}, *arrays)

    def energy(self, hole):
        """eps_c [hartree] of a hole's values."""
        if self.form.correlation == "factor":
            return self.eps * (1 + hole)
        x = self.at["y"] * (1 + hole)
        return self.eps + self.size * np.log1p(self.w * (x / (1 + x)))

    def slope(self, hole):
        """d eps_c / d hole."""
        if self.form.correlation == "factor":
            return self.eps
        x = self.at["y"] * (1 + hole)
        return self.size * self.w * self.at["y"] / ((1 + x) * (1 + x + self.w * x))


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
    tau = C_F * n ** (5 / 3) * alpha * spin_power(zeta, 5 / 3) + sigma / (8 * n)
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
    "u": lambda x: 1 - 1 / (1 + x),
    "inv": lambda x: 1 / (1 + x),
    "exp": lambda x: exp(-x),
    "log": log1p,
    "sqrt": lambda x: sqrt(1 + x),
    "ash": x_asinh_x,
}


def as_functional(form: Form, candidate: Candidate, name: str = "found", only: str = "xc") -> Functional:
    """The functional of a candidate, or a part of it, unregistered, with its parameters as numbers."""
    parts = []
    for part, whole in (("x", form.exchange), ("c", form.correlation)):
        if part in only and part in form.parts:
            parts.append(_own(form, part, candidate.hole(part), name))
        elif part in only and whole:
            parts.append(_part(whole, part))
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
    has_tau = variables(tree) & OF_TAU
    return term(f"{'mgga' if has_tau else 'gga'}_{part}_{name}")(with_tau if has_tau else code)


def _kinetic(n, tau, d_s):
    tau_W, tau_unif = common.weizsaecker_kinetic_energy(n), common.uniform_kinetic_energy(n) * d_s
    alpha, t = at_least((tau - tau_W) / tau_unif, 0.0), tau / tau_unif
    b = 2 * ((tau_unif + tau_W) / (tau_unif + tau)) - 1
    return {"alpha": alpha, "d": 2 / (1 + alpha) - 1, "b": b, "w": 2 / (1 + t) - 1}


def _hole(tree, at):
    return 0.0 if tree is None else expressions.at_points(tree, at, _ON_FUNCTIONS)


def _exchange(tree, n, kinetic):
    return common.slater_exchange(n) * (1 + _hole(tree, {"s2": reduced_gradient_squared(n)} | kinetic))


def _correlation(form, tree, rho, tau):
    n, phi, eps = total_density(rho), common.spin_scaling_factor(rho), pw92.correlation_energy(rho)
    t2, size = correlation_gradient_squared(n, phi), GAMMA * (phi * phi * phi)
    at = {
        "s2": reduced_gradient_squared(n),
        "rs": common.wigner_seitz_radius(n),
        "t2": t2,
        "z2": common.polarisation(rho) ** 2,
    }
    if form.correlation == "pbe":
        w = expm1(-eps / size)
        at["y"] = BETA / GAMMA * t2 / w
    if tau is not None:
        up, down = common.spin_powers(rho, 5 / 3)
        at |= _kinetic(n, tau[0] + tau[1], 0.5 * (up + down))
    hole = _hole(tree, at)
    if form.correlation == "factor":
        return n * (eps * (1 + hole))
    return n * (eps + size * log1p(w * _ON_FUNCTIONS["u"](at["y"] * (1 + hole))))


# ---- as text.


def equations(form: Form, candidate: Candidate) -> list[str]:
    """The formulas in words of Python, with six digits."""
    hole = lambda tree: "(1)" if tree is None else f"(1 + {expressions.python(tree, digits=6)})"
    c, is_factor = hole(candidate.c), form.correlation == "factor"
    texts = {"x": f"e_x = e_x^LDA {hole(candidate.x)}"}
    texts["c"] = f"e_c = n eps_c^PW92 {c}" if is_factor else f"e_c = n [eps_c^PW92 + gamma phi^3 ln(1 + w u(y {c}))]"
    return [texts[part] for part in form.parts]


_KINETIC = [
    ("alpha", "at_least((tau - tau_W) / tau_unif, 0.0)"),
    ("b", "2 * ((tau_unif + tau_W) / (tau_unif + tau)) - 1"),
    ("d", "2 / (1 + alpha) - 1"),
    ("w", "2 / (1 + tau / tau_unif) - 1"),
]
_LINES = {
    "x": [
        ("s2", "reduced_gradient_squared(n)"),
        ("tau_W, tau_unif", "weizsaecker_kinetic_energy(n), uniform_kinetic_energy(n)"),
        *_KINETIC,
    ],
    "c": [
        ("n, eps", "total_density(rho), pw92.correlation_energy(rho)"),
        ("phi", "spin_scaling_factor(rho)"),
        ("size", "GAMMA * (phi * phi * phi)"),
        ("t2", "correlation_gradient_squared(n, phi)"),
        ("w1", "expm1(-eps / size)"),
        ("y", "BETA / GAMMA * t2 / w1"),
        ("s2", "reduced_gradient_squared(n)"),
        ("rs", "wigner_seitz_radius(n)"),
        ("z2", "polarisation(rho) ** 2"),
        ("up, down", "spin_powers(rho, 5 / 3)"),
        ("tau", "tau[0] + tau[1]"),
        ("tau_W, tau_unif", "weizsaecker_kinetic_energy(n), uniform_kinetic_energy(n) * (0.5 * (up + down))"),
        *_KINETIC,
    ],
}
"""Names and their values, of which a file has those that its formula needs."""

_ENERGY = {
    "hole": "slater_exchange(n) * (1 + {})",
    "factor": "n * (eps * (1 + {}))",
    "pbe": "n * (eps + size * log1p(w1 * u(y * (1 + {}))))",
}
_SOURCES = {
    "dataclasses": "replace",
    "dftfd": "functional get_functional register",
    "dftfd.autofd": "exp expm1 log1p sqrt",
    "dftfd.functionals": "pw92",
    "dftfd.functionals.common": "polarisation reduced_gradient_squared slater_exchange spin_powers spin_scaled "
    "spin_scaling_factor total_density uniform_kinetic_energy weizsaecker_kinetic_energy wigner_seitz_radius",
    "dftfd.functionals.numerics": "at_least x_asinh_x",
    "dftfd.functionals.pbe": "BETA GAMMA correlation_gradient_squared",
}


def file_text(
    form: Form,
    candidate: Candidate,
    name: str,
    notes: Sequence[str] = (),
    dispersion: tuple[str, str] | None = None,
) -> str:
    """A file of Python code that `FILE.py:NAME` names wherever a functional is wanted.   notes: for its docstring.

    dispersion: as `Functional.dispersion`.
    """
    code, terms = [], []
    for part, whole in (("x", form.exchange), ("c", form.correlation)):
        if part in form.parts:
            terms.append("exchange" if part == "x" else "correlation")
            code += _function(part, terms[-1], whole, candidate.hole(part), name)
        elif whole:
            terms.append(f"get_functional({whole!r})")
    total = " + ".join(terms)
    total = f"replace({total}, dispersion={tuple(dispersion)!r})" if dispersion else f"({total})"
    code.append(f"{name} = register({total}.named({name!r}))")
    used = _words("\n".join(code))
    lines = [f'"""{name}, found by dftfd discover.', "", *(f"    {line}" for line in equations(form, candidate)), ""]
    lines += [*notes, '"""', ""]
    for module, names in _SOURCES.items():
        if own := [word for word in names.split() if word in used]:
            lines.append(f"from {module} import {', '.join(own)}")
    if "u" in used:
        code = [
            "def u(x):",
            '    """x / (1 + x), proved more easily so."""',
            "    return 1 - 1 / (1 + x)",
            "",
            "",
            *code,
        ]
    return "\n".join([*lines, "", "", *code]) + "\n"


def _words(text) -> set[str]:
    return set(re.findall(r"\w+", text))


def _function(part, called, form, tree, name) -> list[str]:
    """Lines of a term, with its parameters as keywords: a1, ... of either sign, b1, ... positive."""
    leaves = [] if tree is None else expressions.parameters(tree)
    count = {"c": itertools.count(1), "p": itertools.count(1)}
    names = [f"{'a' if kind == 'c' else 'b'}{next(count[kind])}" for kind, _ in leaves]
    energy = _ENERGY[form].format("0.0" if tree is None else expressions.python(tree, iter(names)))
    used = _words(energy)
    lines: list[str] = []
    for known, text in reversed(_LINES[part]):
        if _words(known) & used:
            used |= _words(text)
            lines.insert(0, f"    {known} = {text}")
    has_tau = bool(variables(tree) & OF_TAU)
    takes = ", ".join(["n" if part == "x" else "rho", *["tau"] * has_tau, *["*"] * bool(names)])
    given = "".join(f", {n}={x!r}" for n, (_, x) in zip(names, leaves, strict=True))
    head = [f'@functional("{"mgga" if has_tau else "gga"}_{part}_{name}")', *["@spin_scaled"] * (part == "x")]
    return [*head, f"def {called}({takes}{given}):", *lines, f"    return {energy}", "", ""]
