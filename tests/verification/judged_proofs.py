"""Formulas whose truth is judged without the prover's reader: one line of JSON for each in data/proofs/judged.jsonl.

    python -m tests.verification.judged_proofs [--count N] [--from SEED] [--boxes N]

Each operation of a drawn formula has two meanings, written apart: code in JAX, which `dftfd.prove` traces, and a rule
on mpmath's numbers of 400 digits, which says the value or that there is none. (`adversarial_proofs` runs the traced
program on mpmath instead, and would share a fault of the reader.) Formulas have needles of width 1e-12 to 1e-300, poles
hidden by cancellation, undefined unused branches, whole and other powers of negative numbers, sorting, `cond`, wrong
derivative rules, numbers of float32 and of bits, and global variables that change between proofs.

Three statements a formula: f >= c with c above f's lowest value in the sample (false), f >= c below all of it (likely),
and the first one by where(f > c, 1, -1). Of one formula in six F_c of a functional is made, over r_s and s, and its
conditions are judged by difference quotients along ln r_s. Of seeds from a million on, what the prover and the recheck
say of 60 boxes is judged instead: bounds, slopes, whether f is defined. Errors are: a false statement that is proved; a
point of a violation at which the left side is not negative; a forged tree all of whose boxes hold; a bound or slope
that is exceeded; an error that is not one of dftfd's.
"""

import argparse
import itertools
import json
import math
import random
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
from jax import lax

import dftfd
from dftfd.autofd import compose
from dftfd.errors import DftfdError
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, wigner_seitz_radius
from dftfd.functionals.registry import term
from dftfd.verify.inequality import FACE, PROVED, own_inequality
from dftfd.verify.proof_checker import BITS, _arb, _left_side

RECORD = Path(__file__).parents[2] / "data/proofs/judged.jsonl"
DIGITS = 400
mp = mpmath.mp
GLOBAL = {"shift": 0.0}


class Undefined(Exception):
    """The formula has no real value at this point."""


def _need(condition):
    if not condition:
        raise Undefined


def _size(u):
    """What is too large to be followed counts as not sampled."""
    if abs(u) > mpmath.mpf(10) ** 6:
        raise OverflowError
    return u


def _root(u, n):
    _need(u >= 0)
    return mpmath.root(u, n)


def _log(u):
    _need(u > 0)
    return mpmath.log(u)


def _power(u, p):
    """u^p of real numbers; p is a float64."""
    if p == int(p):
        _need(u != 0 or p >= 0)
        return u ** int(p)
    _need(u > 0 or (u == 0 and p > 0))
    return u ** mpmath.mpf(p) if u else u


def _over(u):
    _need(u != 0)
    return 1 / u


def _sign(u):
    return mpmath.mpf((u > 0) - (u < 0))


def _with_wrong_rule(f):
    g = jax.custom_jvp(f)
    g.defjvp(lambda p, t: (g(*p), -7.0 * t[0]))
    return g


@jax.custom_vjp
def _wrong_vjp(u):
    return u * u


_wrong_vjp.defvjp(lambda u: (u * u, None), lambda _, t: (t * 0,))

_wrong_square = _with_wrong_rule(lambda u: u * u - 1.0)
_F32 = float(jnp.float32(0.1))


def _scan(u):
    return lax.scan(lambda c, k: (c * u + k, c), jnp.float64(1.0), jnp.arange(3.0))[0]


UNARY = {
    "exp": (jnp.exp, lambda u: mpmath.exp(_size(u))),
    "log": (jnp.log, _log),
    "sqrt": (jnp.sqrt, lambda u: _root(u, 2)),
    "cbrt": (jnp.cbrt, lambda u: _sign(u) * mpmath.cbrt(abs(u))),
    "abs": (jnp.abs, abs),
    "sign": (jnp.sign, _sign),
    "1/u": (lambda u: 1 / u, _over),
    "u^-2": (lambda u: u**-2, lambda u: _over(u) ** 2),
    "tanh": (jnp.tanh, mpmath.tanh),
    "u^3": (lambda u: u**3, lambda u: u**3),
    "u^2.5": (lambda u: u**2.5, lambda u: _power(u, 2.5)),
    "pow 2": (lambda u: jnp.power(u, 2.0), lambda u: u**2),
    "sin": (jnp.sin, lambda u: mpmath.sin(_size(u))),
    "cos": (jnp.cos, lambda u: mpmath.cos(_size(u))),
    "arctan": (jnp.arctan, mpmath.atan),
    "pow -1": (lambda u: jnp.power(u, -1.0), _over),
    "pow 1/3": (lambda u: u ** (1 / 3), lambda u: _power(u, 1 / 3)),
    "u/u": (lambda u: u / u, lambda u: u * _over(u)),
    "hidden pole": (lambda u: 1 / u - 1 / u + 0.5, lambda u: 0 * _over(u) + 0.5),
    "u (1/u)": (lambda u: u * (1 / u), lambda u: u * _over(u)),
    "0 log": (lambda u: 0 * jnp.log(u), lambda u: 0 * _log(u)),
    "log u^2": (lambda u: jnp.log(u * u) - 2 * jnp.log(jnp.abs(u)), lambda u: 0 * _log(abs(u))),
    "guard": (
        lambda u: jnp.where(u > 0, jnp.log(jnp.where(u > 0, u, 1.0)), -1.0),
        lambda u: _log(u) if u > 0 else mpmath.mpf(-1),
    ),
    "bad guard": (lambda u: jnp.where(u > 0.5, jnp.sqrt(u), 2.0), lambda u: _root(u, 2) if u > 0.5 else mpmath.mpf(2)),
    "guard beside": (
        lambda u: jnp.where(u > -1e-9, jnp.sqrt(u), 1.0),
        lambda u: _root(u, 2) if u > -1e-9 else mpmath.mpf(1),
    ),
    "relu": (jax.nn.relu, lambda u: max(u, mpmath.mpf(0))),
    "relu6": (jax.nn.relu6, lambda u: min(max(u, mpmath.mpf(0)), mpmath.mpf(6))),
    "leaky": (jax.nn.leaky_relu, lambda u: u if u >= 0 else mpmath.mpf(0.01) * u),
    "elu": (jax.nn.elu, lambda u: u if u > 0 else mpmath.expm1(u)),
    "softplus": (jax.nn.softplus, lambda u: mpmath.log1p(mpmath.exp(_size(u)))),
    "sigmoid": (jax.nn.sigmoid, lambda u: 1 / (1 + mpmath.exp(-_size(u)))),
    "erf": (jax.scipy.special.erf, lambda u: mpmath.erf(_size(u))),
    "jit": (jax.jit(lambda u: u * u - u), lambda u: u * u - u),
    "vmap": (lambda u: jax.vmap(lambda v: v * u)(jnp.array([1.0, -2.0])).sum(), lambda u: -u),
    "sort": (
        lambda u: jnp.sort(jnp.stack([u, 0.25 - u, 0.1 * u]))[1],
        lambda u: sorted([u, mpmath.mpf(0.25) - u, mpmath.mpf(0.1) * u])[1],
    ),
    "cumsum": (lambda u: jnp.cumsum(jnp.stack([u, -2 * u, u * u]))[2], lambda u: -u + u * u),
    "prod": (lambda u: jnp.prod(jnp.stack([u, u - 0.5, 2.0 + 0 * u])), lambda u: 2 * u * (u - 0.5)),
    "max of 3": (lambda u: jnp.max(jnp.stack([u, -u, 0.3 + 0 * u])), lambda u: max(u, -u, mpmath.mpf(0.3))),
    "dot": (lambda u: jnp.dot(jnp.stack([u, 1.0 + 0 * u]), jnp.array([2.0, -1.0])), lambda u: 2 * u - 1),
    "roll": (lambda u: jnp.roll(jnp.stack([u, 2 * u, -u]), 1)[0], lambda u: -u),
    "flip": (lambda u: jnp.stack([u, -u])[::-1][0], lambda u: -u),
    "take": (lambda u: jnp.take(jnp.stack([u, -u]), 1), lambda u: -u),
    "beyond": (lambda u: jnp.stack([u, -u])[-1], lambda u: -u),
    "set": (lambda u: jnp.zeros(3).at[1].set(u).at[1].add(-0.5).sum(), lambda u: u - mpmath.mpf(0.5)),
    "set max": (lambda u: jnp.full(2, 0.2).at[0].max(u)[0], lambda u: max(u, mpmath.mpf(0.2))),
    "polyval": (lambda u: jnp.polyval(jnp.array([1.0, 0.0, -0.25]), u), lambda u: u * u - 0.25),
    "cond": (lambda u: lax.cond(u > 0.2, lambda v: v - 1.0, lambda v: v * v, u), lambda u: u - 1 if u > 0.2 else u * u),
    "cond log": (lambda u: lax.cond(u > 0.2, jnp.log, lambda v: v + 1.0, u), lambda u: _log(u) if u > 0.2 else u + 1),
    "switch": (lambda u: lax.switch(7, [lambda v: v, lambda v: -v], u), lambda u: -u),
    "switch of u": (
        lambda u: lax.switch(jnp.where(u > 0, 1, 0), [lambda v: v, lambda v: -v], u),
        lambda u: -u if u > 0 else u,
    ),
    "scan": (_scan, lambda u: ((u * 1 + 0) * u + 1) * u + 2),
    "fori": (lambda u: lax.fori_loop(0, 3, lambda k, c: c * u - k, 1.0 + 0 * u), lambda u: ((u - 0) * u - 1) * u - 2),
    "while": (
        lambda u: lax.while_loop(lambda c: c < 1.0, lambda c: c + 0.5, u),
        lambda u: u + 0.5 * max(0, mpmath.ceil((1 - u) / 0.5)),
    ),
    "floor": (jnp.floor, mpmath.floor),
    "mod": (lambda u: u % 0.3, lambda u: u - mpmath.mpf(0.3) * mpmath.floor(u / mpmath.mpf(0.3))),
    "rem": (
        lambda u: lax.rem(u, 0.3 + 0 * u),
        lambda u: u - mpmath.mpf(0.3) * (mpmath.floor if u >= 0 else mpmath.ceil)(u / mpmath.mpf(0.3)),
    ),
    "round": (jnp.round, mpmath.nint),
    "trunc": (jnp.trunc, lambda u: _sign(u) * mpmath.floor(abs(u))),
    "atan2": (lambda u: jnp.arctan2(u, -1.0), lambda u: mpmath.atan2(u, -1) if u else +mpmath.pi),
    "heaviside": (lambda u: jnp.heaviside(u, 0.5), lambda u: (1 + _sign(u)) / 2),
    "copysign": (lambda u: jnp.copysign(1.0, u), lambda u: _sign(u) or mpmath.mpf(1)),
    "hypot": (lambda u: jnp.hypot(u, 1.0), lambda u: mpmath.sqrt(1 + u * u)),
    "float_power": (lambda u: jnp.float_power(u, 3), lambda u: u**3),
    "logsumexp": (lambda u: jax.nn.logsumexp(jnp.stack([u, -u])), lambda u: mpmath.log(2 * mpmath.cosh(_size(u)))),
    "softmax": (lambda u: jax.nn.softmax(jnp.stack([u, -u]))[0], lambda u: 1 / (1 + mpmath.exp(-2 * _size(u)))),
    "norm": (lambda u: jnp.linalg.norm(jnp.stack([u, -u])), lambda u: mpmath.sqrt(2 * u * u)),
    "det": (
        lambda u: jnp.linalg.det(jnp.stack([jnp.stack([u, 1.0 + 0 * u]), jnp.stack([0.5 + 0 * u, u])])),
        lambda u: u * u - mpmath.mpf(0.5),
    ),
    "interp": (
        lambda u: jnp.interp(u, jnp.array([0.0, 1.0]), jnp.array([1.0, -1.0])),
        lambda u: 1 - 2 * min(max(u, 0), 1),
    ),
    "piecewise": (
        lambda u: jnp.piecewise(u, [u < 0, u >= 0.5], [lambda v: -v, lambda v: v, lambda v: 0 * v]),
        lambda u: -u if u < 0 else u if u >= 0.5 else 0 * u,
    ),
    "select": (
        lambda u: jnp.select([u < 0.1, u < 0.2], [u, 2 * u], -u),
        lambda u: u if u < 0.1 else 2 * u if u < 0.2 else -u,
    ),
    "nan_to_num": (jnp.nan_to_num, lambda u: u),
    "grad": (
        jax.grad(lambda v: jnp.where(v > 0.1, v**3, jnp.sin(v))),
        lambda u: 3 * u * u if u > 0.1 else mpmath.cos(_size(u)),
    ),
    "stopped": (jax.grad(lambda v: v * lax.stop_gradient(v)), lambda u: u),
    "jvp": (
        lambda u: jax.jvp(lambda v: v**2 * jnp.exp(-v), (u,), (2.0 + 0 * u,))[1],
        lambda u: 2 * (2 * u - u * u) * mpmath.exp(-_size(u)),
    ),
    "hessian": (jax.hessian(lambda v: v**4 - v), lambda u: 12 * u * u),
    "wrong rule": (_wrong_square, lambda u: u * u - 1),
    "grad of wrong": (lambda u: jax.grad(_wrong_square)(u) + 0 * u, lambda u: mpmath.mpf(-7)),
    "wrong vjp": (_wrong_vjp, lambda u: u * u),
    "grad of abs": (jax.grad(jnp.abs), lambda u: mpmath.mpf(1 if u >= 0 else -1)),
    "float32 0.1": (lambda u: u - jnp.float64(jnp.float32(0.1)), lambda u: u - mpmath.mpf(_F32)),
    "int": (lambda u: u * jnp.array([2, 3])[1], lambda u: 3 * u),
    "wrap": (lambda u: u + (jnp.array([250], jnp.uint8) + jnp.uint8(10))[0].astype(jnp.float64), lambda u: u + 4),
    "int power": (lambda u: u ** jnp.int32(3), lambda u: u**3),
    "bool": (
        lambda u: jnp.float64((u > 0.3) & ~(u > 0.4)) - 0.5,
        lambda u: mpmath.mpf(0.5) if 0.3 < u <= 0.4 else -mpmath.mpf(0.5),
    ),
    "count": (
        lambda u: ((u > jnp.array([0.1, 0.2])).sum()).astype(jnp.float64),
        lambda u: mpmath.mpf((u > 0.1) + (u > 0.2)),
    ),
    "overflow": (
        lambda u: 1 / (1e200 * (1e200 + u * u)),
        lambda u: 1 / (mpmath.mpf(1e200) * (mpmath.mpf(1e200) + u * u)),
    ),
    "denormal": (lambda u: u * 1e-310 * 1e300, lambda u: u * mpmath.mpf(1e-310) * mpmath.mpf(1e300)),
    "tiny": (lambda u: 1e-200 * u * 1e-200 * 1e300, lambda u: u * mpmath.mpf(1e-200) ** 2 * mpmath.mpf(1e300)),
    "lost": (lambda u: (u + 1e20) - 1e20, lambda u: u),
    "global": (lambda u: u - GLOBAL["shift"], lambda u: u - mpmath.mpf(GLOBAL["shift"])),
    "complex": (lambda u: jnp.abs(lax.complex(u, 0.5 + 0 * u)), lambda u: mpmath.sqrt(u * u + mpmath.mpf(0.25))),
    "real": (lambda u: jnp.real(jnp.sqrt(lax.complex(u, 0 * u))), lambda u: mpmath.sqrt(u) if u >= 0 else 0 * u),
    "signbit": (lambda u: jnp.where(jnp.signbit(u), -1.0, 1.0), lambda u: mpmath.mpf(-1 if u < 0 else 1)),
    "argmax": (lambda u: jnp.stack([u, -u])[jnp.argmax(jnp.stack([u, 0.2 + 0 * u]))], lambda u: u if u >= 0.2 else -u),
    "remat": (jax.checkpoint(lambda u: u * jnp.exp(-u)), lambda u: u * mpmath.exp(-_size(u))),
    "clip rev": (lambda u: jnp.clip(u, 0.5, 0.1), lambda u: mpmath.mpf(0.1)),
    "lax clamp": (
        lambda u: lax.clamp(0.1 + 0 * u, u, 0.4 + 0 * u),
        lambda u: min(max(u, mpmath.mpf(0.1)), mpmath.mpf(0.4)),
    ),
    "expm1": (jnp.expm1, lambda u: mpmath.expm1(_size(u))),
    "log1p": (jnp.log1p, lambda u: _log(1 + u)),
}
for _w in (1e-12, 1e-30, 1e-100, 1e-160, 1e-300):
    UNARY[f"box {_w}"] = (
        lambda u, w=_w: jnp.where(jnp.abs(u) < w, -1.0, 1.0),
        lambda u, w=_w: mpmath.mpf(-1 if abs(u) < w else 1),
    )
    UNARY[f"bell {_w}"] = (
        lambda u, w=_w: 1 - 2 * w / (w + jnp.abs(u)),
        lambda u, w=_w: 1 - 2 * mpmath.mpf(w) / (mpmath.mpf(w) + abs(u)),
    )
    UNARY[f"hat {_w}"] = (
        lambda u, w=_w: jnp.minimum(jnp.abs(u / w), 1.0) - 0.5,
        lambda u, w=_w: min(abs(u / mpmath.mpf(w)), mpmath.mpf(1)) - 0.5,
    )
    UNARY[f"strip {_w}"] = (
        lambda u, w=_w: jnp.where((u > 0) & (u < w), -u / w, 1.0),
        lambda u, w=_w: -u / mpmath.mpf(w) if 0 < u < w else mpmath.mpf(1),
    )
    UNARY[f"root {_w}"] = (lambda u, w=_w: jnp.sqrt(u + w), lambda u, w=_w: _root(u + mpmath.mpf(w), 2))

BINARY = {
    "+": (lambda u, v: u + v, lambda u, v: u + v),
    "-": (lambda u, v: u - v, lambda u, v: u - v),
    "*": (lambda u, v: u * v, lambda u, v: u * v),
    "/": (lambda u, v: u / v, lambda u, v: u * _over(v)),
    "max": (jnp.maximum, max),
    "min": (jnp.minimum, min),
    "where": (lambda u, v: jnp.where(u < v, u + v, u * v - 0.5), lambda u, v: u + v if u < v else u * v - 0.5),
    "where <=": (lambda u, v: jnp.where(u <= v, 1.0, -1.0), lambda u, v: mpmath.mpf(1 if u <= v else -1)),
    "where ==": (lambda u, v: jnp.where(u == v, -1.0, 1.0), lambda u, v: mpmath.mpf(-1 if u == v else 1)),
    "twin": (lambda u, v: jnp.where(u < v, (u - v) * (u + v), u * u - v * v), lambda u, v: u * u - v * v),
    "nearly twin": (
        lambda u, v: jnp.where(u < v, 1.0, 1.0 - 1e-13) * v - v,
        lambda u, v: (1 if u < v else mpmath.mpf(1.0 - 1e-13)) * v - v,
    ),
    "unused": (
        lambda u, v: jnp.where(u > 0, v, jnp.log(v)),
        lambda u, v: v if u > 0 else _log(v),
    ),
    "pow": (lambda u, v: jnp.exp(v * jnp.log(u)), lambda u, v: mpmath.exp(_size(v * _log(u)))),
    "u^v": (lambda u, v: u**v, lambda u, v: mpmath.exp(_size(v * _log(u))) if v else mpmath.mpf(1)),
    "x - x": (lambda u, v: (u + v) - u - v + jnp.sqrt(v) - jnp.sqrt(v), lambda u, v: 0 * _root(v, 2)),
    "cancelled": (lambda u, v: (u * u - v * v) / (u - v), lambda u, v: (u * u - v * v) * _over(u - v)),
    "cond": (
        lambda u, v: lax.cond(u < v, lambda a, b: a / b, lambda a, b: a - b, u, v),
        lambda u, v: u * _over(v) if u < v else u - v,
    ),
    "atan2": (lambda u, v: jnp.arctan2(u, v), lambda u, v: mpmath.atan2(u, v)),
    "hypot": (jnp.hypot, lambda u, v: mpmath.sqrt(u * u + v * v)),
    "kron": (lambda u, v: jnp.kron(jnp.stack([u, v]), jnp.stack([v, -u]))[0], lambda u, v: u * v),
    "einsum": (lambda u, v: jnp.einsum("i,j->", jnp.stack([u, v]), jnp.stack([v, u])), lambda u, v: (u + v) ** 2),
    "median": (
        lambda u, v: jnp.median(jnp.stack([u, v, 0.5 + 0 * u])),
        lambda u, v: sorted([u, v, mpmath.mpf(0.5)])[1],
    ),
    "logaddexp": (jnp.logaddexp, lambda u, v: mpmath.log(mpmath.exp(_size(u)) + mpmath.exp(_size(v)))),
    "fmod": (jnp.fmod, lambda u, v: u - v * (lambda q: _sign(q) * mpmath.floor(abs(q)))(u * _over(v))),
}

_REFUSED = frozenset(
    "set max,polyval,cond,cond log,switch,switch of u,scan,fori,while,floor,mod,rem,round,trunc,atan2,copysign,interp,"
    "sort,piecewise,select,count,complex,real,signbit,argmax,median,fmod".split(",")
)
"""Operations of which nothing is proved: drawn in a fiftieth of the cases."""
_ENDS = (
    (0.0, 1.0),
    (-1.0, 1.0),
    (1e-4, 5.0),
    (-1e-9, 1.0),
    (0.25, 0.75),
    (0.0, 1e-300),
    (-5e-324, 1.0),
    (1 - 1e-9, 1 + 1e-9),
    (0.0, 1e30),
    (1e-12, 1e7),
    (-3.0, 3.0),
    (0.1, 0.1 + 2e-16),
    (-1e-12, 1e-12),
)


class Formula:
    """A drawn formula.   jax, judge: the code and the rule on mpmath's numbers, of the variables by name."""

    def __init__(self, seed: int, names=None, ends=None):
        self.rng = r = random.Random(seed)
        self.names = names or ["x", "y"][: r.choice([1, 1, 2])]
        self.domain = ends or {k: r.choice(_ENDS) for k in self.names}
        self.places: dict = {k: [] for k in self.names}
        self.widths: set = set()
        self.jax, self.judge, self.text = self._drawn(r.choice([2, 2, 3, 3, 4]))

    def _leaf(self):
        r = self.rng
        name, kind = r.choice(self.names), r.choice(["plain", "shifted", "shifted", "number"])
        if kind == "number":
            c = r.choice([0.5, 1.0, -1.0, 0.3, 1e-310, 1e-7, r.uniform(-2, 2)])
            return (lambda v: jnp.float64(c)), (lambda v: mpmath.mpf(c)), repr(c)
        if kind == "plain":
            return (lambda v: v[name]), (lambda v: v[name]), name
        a, b = self.domain[name]
        p = a + r.choice([0.0, 1e-9, 0.25, 0.5, 1 / 3, 1 - 1e-9, 1.0, r.random()]) * (b - a)
        self.places[name].append(p)
        return (lambda v: v[name] - p), (lambda v: v[name] - mpmath.mpf(p)), f"({name} - {p!r})"

    def _drawn(self, depth: int):
        r = self.rng
        if depth == 0 or r.random() < 0.1:
            return self._leaf()
        op = r.choice([*UNARY, *BINARY, *BINARY])
        while op in _REFUSED and r.random() < 0.98:
            op = r.choice([*UNARY, *BINARY, *BINARY])
        if op.split()[0] in ("box", "bell", "hat", "strip", "root"):
            self.widths.add(float(op.split()[1]))
        if op in UNARY and (op not in BINARY or r.random() < 0.5):
            code, rule = UNARY[op]
            f, g, text = self._drawn(depth - 1)
            return (lambda v: code(f(v))), (lambda v: rule(g(v))), f"{op}[{text}]"
        code, rule = BINARY[op]
        (f, g, a), (h, k, b) = self._drawn(depth - 1), self._drawn(depth - 1)
        return (lambda v: code(f(v), h(v))), (lambda v: rule(g(v), k(v))), f"{op}[{a}, {b}]"

    def value(self, point):
        """The value, None where there is none, "?" where it is not known."""
        try:
            x = self.judge(point)
        except (Undefined, ZeroDivisionError):
            return None
        except (OverflowError, ValueError):
            return "?"
        return x if isinstance(x, mpmath.mpf) and mpmath.isfinite(x) else "?"

    def sample(self, count=60):
        """Points {name: mpf} in the domain; some are no float64."""
        r, points, near = self.rng, [], {}
        for k in self.names:
            a, b = map(mpmath.mpf, self.domain[k])
            steps = {1e-15, 1e-13, 1e-9, 1e-6, 1e-3, *self.widths}
            found = [a, b, (a + b) / 2]
            for p in (a, b, mpmath.mpf(0), *map(mpmath.mpf, self.places[k])):
                found += [
                    p,
                    *(p + sign * w * f for w in map(mpmath.mpf, steps) for sign in (1, -1) for f in (0.5, 0.99)),
                ]
            found += [a + (b - a) * mpmath.mpf(r.random()) ** r.choice([1, 1, 20]) for _ in range(count)]
            near[k] = [x for x in found if a <= x <= b]
        if len(self.names) == 1:
            return [{self.names[0]: x} for x in near[self.names[0]]]
        for _ in range(6 * count):
            points.append({k: r.choice(near[k]) for k in self.names})
        return points


def _code(names, inner):
    of_one = {"x": lambda x: inner({"x": x}), "y": lambda y: inner({"y": y})}
    return of_one[names[0]] if len(names) == 1 else lambda x, y: inner({"x": x, "y": y})


def _forged(rng, proof, variables: int) -> bool:
    """Whether a forged tree is accepted in all its boxes."""
    kind = rng.choice(["one", "cut", "face"])
    tree = {"one": (PROVED,), "cut": (rng.randrange(variables), PROVED, PROVED)}.get(
        kind, (FACE + rng.choice([1, 2]) * 3 ** rng.randrange(variables), PROVED)
    )
    forged = replace(proof, outcome="proved", tree=tree, boxes=tree.count(PROVED))
    try:
        held, total = forged.recheck(0.15)
    except DftfdError:
        return False
    return held == total


def judged(
    formula: Formula, statement, domain, condition_judge, boxes: int, false_at, entry: dict, name: str
) -> list[str]:
    """What is wrong with what `prove` says.   condition_judge: point -> value of the left side, None or "?"."""
    try:
        proof = statement()
    except DftfdError as error:
        entry[name] = "refused"
        entry.setdefault("reason", str(error)[:100])
        return []
    entry[name], wrong = proof.outcome, []
    if proof.proved and false_at is not None:
        wrong.append(f"{name}: proved, but false at {false_at}")
    if proof.outcome == "violated":
        v = condition_judge({k: mpmath.mpf(x) for k, x in proof.point.items()})
        if v is None or (v != "?" and v >= 0):
            wrong.append(f"{name}: no counterexample at {proof.point}, {v if v is None else mpmath.nstr(v, 8)}")
    if proof.undefined_at:
        v = condition_judge({k: mpmath.mpf(x) for k, x in proof.undefined_at.items()})
        if v is not None and v != "?":
            entry["defined"] = proof.undefined_at  # as where a library's own code has an infinite constant
    if false_at is not None and not proof.proved and _forged(formula.rng, proof, len(proof.inequality.names)):
        wrong.append(f"{name}: a forged tree is accepted, but false at {false_at}")
    if proof.proved:
        held, total = proof.recheck(0.1)
        entry["rechecked"] = [a + b for a, b in zip(entry.get("rechecked", [0, 0]), (held, total), strict=True)]
    return wrong


def _own(seed: int, boxes: int, entry: dict) -> list[str]:
    f = Formula(seed)
    GLOBAL["shift"] = f.rng.choice([0.0, 0.5, -1e-9])
    entry |= {"formula": f.text, "domain": f.domain, "shift": GLOBAL["shift"]}
    points = f.sample()
    values = [f.value(p) for p in points]
    where_none = next((p for p, v in zip(points, values, strict=True) if v is None), None)
    known = [(v, p) for p, v in zip(points, values, strict=True) if isinstance(v, mpmath.mpf)]
    if not known and where_none is None:
        return []
    low, at = min(known, key=lambda e: e[0]) if known else (mpmath.mpf(0), where_none)
    size = max(abs(float(low)), 1e-3) if abs(low) < 1e200 else 1e200
    text = lambda p: {k: mpmath.nstr(x, 20) for k, x in p.items()}
    wrong: list[str] = []
    c = float(low) + f.rng.choice([1e-15, 1e-12, 1e-9, 1e-6, 1e-3]) * size
    below = float(low) - 0.1 * size - 1e-3
    zero = lambda v: sum((0.0 * v[k] for k in f.names), jnp.float64(0.0))
    cases = {
        "false": (c, lambda v: f.jax(v) - c + zero(v), lambda u: u - mpmath.mpf(c)),
        "strict": (c, lambda v: jnp.where(f.jax(v) > c, 1.0, -1.0) + zero(v), lambda u: mpmath.mpf(1 if u > c else -1)),
        "likely": (below, lambda v: f.jax(v) - below + zero(v), lambda u: u - mpmath.mpf(below)),
    }
    for name, (number, code, rule) in cases.items():
        judge = lambda p, rule=rule: rule(v) if isinstance(v := f.value(p), mpmath.mpf) else v
        false_at = text(at) if known and low < mpmath.mpf(number) else text(where_none) if where_none else None
        statement = lambda code=code: dftfd.prove(_code(f.names, code), domain=f.domain, boxes=boxes)
        wrong += judged(f, statement, f.domain, judge, boxes, false_at, entry, name)
        entry["untrue"] = entry.get("untrue", 0) + (false_at is not None)
    return wrong


_CONDITIONS = {
    "ec_nonpositive": (1, 0, 0),
    "ec_scaling": (0, 1, 0),
    "uc_monotone": (0, 1, 2),
    "tc_conjecture": (1, -1, 0),
}


def _of_functional(seed: int, boxes: int, entry: dict) -> list[str]:
    rng = random.Random(seed)
    ends = {
        "rs": rng.choice([(1e-4, 5.0), (1.0, 2.0), (1e-12, 1e7), (0.5, 0.5 + 1e-9)]),
        "s": rng.choice([(0.0, 5.0), (0.0, 1e-6), (1.0, 1e10)]),
    }
    f = Formula(seed, ["rs", "s"], ends)
    shift, tilt = rng.choice([0.0, 1.0, 3.0]), rng.choice([0.0, 0.3, 1.0])
    entry |= {"formula": f"F_c = 0.1 ({f.text} + {shift} + {tilt} rs)", "domain": ends}

    def energy(n):
        # r_s and s as the definitions have them; the factor that makes F_c of it is e_x of the unpolarised gas
        inner = lambda rs, s2: f.jax({"rs": rs, "s": jnp.sqrt(s2)}) + shift + tilt * rs
        rs = wigner_seitz_radius(n)
        return 0.1 * slater_exchange(n) * compose(inner, rs, reduced_gradient_squared(n))

    functional = term("gga_c_drawn")(energy)
    F = lambda p: (
        (v + shift + mpmath.mpf(tilt) * p["rs"]) * mpmath.mpf(0.1) if isinstance(v := f.value(p), mpmath.mpf) else v
    )
    # the code's r_s and s have the roundings of pi and of fractions: a needle next to an end may lie outside for it
    inside = lambda k, x: ends[k][0] * (1 + noise) <= x <= ends[k][1] * (1 - noise)
    noise = mpmath.mpf(10) ** -14
    points = [p for p in f.sample(30) if all(inside(k, x) for k, x in p.items())][:120]
    h, digits = mpmath.mpf(10) ** -340, 1200  # a second difference divides by h^2
    wrong = []

    def left_side(p, condition):
        with mpmath.workdps(digits):
            return differences(p, *_CONDITIONS[condition])

    def differences(p, a, b, c):
        at = lambda t: F(p | {"rs": p["rs"] * mpmath.exp(t)})
        f0 = at(mpmath.mpf(0))
        if not isinstance(f0, mpmath.mpf) or not (b or c):
            return a * f0 if isinstance(f0, mpmath.mpf) else f0
        fp, fm = at(h), at(-h)
        if not (isinstance(fp, mpmath.mpf) and isinstance(fm, mpmath.mpf)):
            return "?"
        first, second = (fp - fm) / (2 * h), (fp - 2 * f0 + fm) / (h * h)
        if abs(first) > 1e300 or abs(second) > 1e300 or abs((fp - f0) - (f0 - fm)) > mpmath.mpf(10) ** -380:
            return "?"  # on a jump or a kink
        return a * f0 + b * first + c * second / 2

    with_kernel = "rs" in f.text or tilt or "s" in f.text
    for condition in rng.sample(list(_CONDITIONS), 2) if with_kernel else []:
        judge = lambda p, condition=condition: left_side(p, condition)
        found = [(judge(p), p) for p in points]
        bad = next(
            (p for v, p in found if v is None or (isinstance(v, mpmath.mpf) and v < -noise * (1 + abs(v)))), None
        )
        false_at = {k: mpmath.nstr(x, 20) for k, x in bad.items()} if bad else None
        statement = lambda condition=condition: dftfd.prove(functional, condition, ends, boxes=boxes)
        wrong += judged(
            f, statement, ends, lambda p, judge=judge: _lenient(judge(p)), boxes, false_at, entry, condition
        )
        entry["untrue"] = entry.get("untrue", 0) + (false_at is not None)
    return wrong


def _lenient(v):
    """A value that is zero but for noise says nothing about a point of the other side."""
    return "?" if isinstance(v, mpmath.mpf) and abs(v) < 1e-12 else v


def _enclosures(seed: int, boxes: int, entry: dict) -> list[str]:
    """What the prover and the recheck say of f on boxes beside its special points: least and largest value, whether it
    is defined, and slopes, against values at points in them and quotients of these."""
    f, wrong = Formula(seed), []
    GLOBAL["shift"] = f.rng.choice([0.0, 0.5, -1e-9])
    entry |= {"formula": f.text, "domain": f.domain, "shift": GLOBAL["shift"], "boxes": 0, "claims": 0}
    zero = lambda v: sum((0.0 * v[k] for k in f.names), jnp.float64(0.0))
    inequality, _ = own_inequality(None, _code(f.names, lambda v: f.jax(v) + zero(v)), f.domain)
    points = f.sample(20)
    known = [(p, f.value(p)) for p in points]
    ends = {k: sorted({min(max(float(p[k]), f.domain[k][0]), f.domain[k][1]) for p in points}) for k in f.names}
    pairs = lambda k: sorted(f.rng.choices(ends[k], k=2)) if f.rng.random() < 0.7 else _neighbours(f.rng, ends[k])
    sides = [[pairs(k) for k in inequality.names] for _ in range(60)]
    lo, hi = (np.array([[side[j] for side in box] for box in sides]).T for j in (0, 1))
    found = inequality.enclosed(lo, hi)
    low, high = (np.broadcast_to(x, 60) for x in (found.value.r.lo, found.value.r.hi))
    flint = _arb()
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        for i, box in enumerate(sides):
            inside = [
                (p, v)
                for p, v in known
                if v != "?" and all(a <= p[k] <= b for k, (a, b) in zip(inequality.names, box, strict=True))
            ]
            if not inside:
                continue
            entry["boxes"] += 1
            claims = [
                (
                    "prover",
                    bool(found.defined.lo[i] == 1),
                    low[i],
                    high[i],
                    {k: (g.lo[i], g.hi[i]) for k, g in found.value.g.items() if np.ndim(g.lo)},
                )
            ]
            if i % 6 == 0:
                side = _left_side(flint, inequality, *map(list, zip(*box, strict=True)))
                ends_of = lambda x: (_number(getattr(x, "lo", x), "lower"), _number(getattr(x, "hi", x), "upper"))
                claims.append(
                    (
                        "recheck",
                        side.known is True,
                        *ends_of(side.value),
                        {k: ends_of(g) for k, g in side.gradient.items()},
                    )
                )
            for who, defined, least, largest, slopes in claims:
                if not defined:
                    continue
                entry["claims"] += 1
                for p, v in inside:
                    if v is None or v < _exact(least, -1) or v > _exact(largest, 1):
                        wrong.append(f"{who}: {[least, largest]} on {box}, {v and mpmath.nstr(v, 20)} at {p}")
                if len(f.names) == 1 and 0 in slopes and len(inside) > 1:
                    row = sorted(((p[f.names[0]], v) for p, v in inside if v is not None), key=lambda e: e[0])
                    for (x, u), (y, v) in itertools.pairwise(row):
                        q = (v - u) / (y - x) if y - x > 1e-40 and abs(v - u) > 1e-250 else None  # 400 digits
                        if q is not None and (q < _exact(slopes[0][0], -1) or q > _exact(slopes[0][1], 1)):
                            wrong.append(
                                f"{who}: slope {slopes[0]} on {box}, {mpmath.nstr(q, 20)} from {float(x)} to {float(y)}"
                            )
    finally:
        flint.ctx.prec = before
    return wrong[:3]


def _neighbours(rng, ends) -> list:
    i = rng.randrange(len(ends))
    return [ends[i], ends[min(i + 1, len(ends) - 1)]]


def _number(ball, end):
    x = getattr(ball, end)()
    man, e = x.man_exp() if x.is_finite() else (0, 0)
    return mpmath.mpf(int(man)) * mpmath.mpf(2) ** int(e) if x.is_finite() else None


def _exact(x, sign):
    """An end, a little outwards, since 400 digits are rounded, too; one that is not known is none."""
    if x is None or (not isinstance(x, mpmath.mpf) and math.isnan(x)):
        return sign * mpmath.inf
    x = mpmath.mpf(x)
    return x + sign * mpmath.mpf(10) ** -60 * (abs(x) if x else mpmath.mpf(10) ** -320)


def tried(seed: int, boxes: int) -> dict:
    began, entry = time.process_time(), {"seed": seed}
    with mpmath.workdps(DIGITS):
        try:
            kind = _enclosures if seed >= 1_000_000 else _of_functional if seed % 6 == 5 else _own
            entry["wrong"] = kind(seed, boxes, entry)
        except DftfdError as error:
            entry |= {"wrong": [], "reason": str(error)[:100]}
        except Exception as error:  # noqa: BLE001
            entry["wrong"] = [f"raw {type(error).__name__}: {str(error)[:200]}"]
    return entry | {"seconds": round(time.process_time() - began, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--boxes", type=int, default=150)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    for seed in range(given.start, given.start + given.count):
        entry = tried(seed, given.boxes)
        with given.record.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        if entry["wrong"]:
            print("WRONG", json.dumps(entry), flush=True)


if __name__ == "__main__":
    main()
