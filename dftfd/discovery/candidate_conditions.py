"""Exact conditions of candidates: at sampled points, at cuts, and by proof.

The conditions are those of `dftfd.prove` (dftfd.verify.local_conditions), whose Taylor coefficients along ln r_s come
here from series of trees in NumPy. A cut is a point at which an earlier candidate broke a condition.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dftfd.discovery import expressions
from dftfd.discovery.expressions import Series
from dftfd.discovery.forms import (
    Candidate,
    Form,
    Gas,
    along_rs,
    as_functional,
    exchange_ingredients,
    native_correlation,
    native_exchange,
)
from dftfd.errors import InputError, UnsupportedError, closest_names, shown
from dftfd.functionals.common import C_X
from dftfd.verify.local_conditions import CONDITIONS, DOMAIN, FAR
from dftfd.verify.proofs import Proof, decide

VARIABLES = ("rs", "s", "alpha", "zeta")
MOST_CUTS = 24
"""Cuts of a condition that fits see: the last ones."""

TOLERANCE = 1e-10
"""A left side below minus this counts as negative in double precision; proofs have none."""

NO_VALUE = -1.0
"""Left side that a cut counts with where a formula has no finite value: the condition does not hold there."""

_STEP = 1e-30


@dataclass(frozen=True)
class Cut:
    """condition: name.   point: values of VARIABLES."""

    condition: str
    point: tuple[float, ...]

    @property
    def document(self) -> list:
        return [self.condition, list(self.point)]


@dataclass(frozen=True)
class Demands:
    """What has to hold.   names: conditions.   domain: {variable: (from, to)} of VARIABLES.   boxes: of a proof."""

    names: tuple[str, ...]
    domain: Mapping[str, tuple[float, float]]
    boxes: int = 20_000

    @classmethod
    def of(cls, names: Sequence[str], domain: Mapping, boxes: int = 20_000) -> "Demands":
        """InputError for unknown conditions and variables."""
        for name in names:
            if name not in CONDITIONS:
                close = ", ".join(closest_names(name, CONDITIONS))
                raise InputError(f"there is no condition {shown(name)}; the closest are {close}.")
        for name, ends in domain.items():
            if name not in VARIABLES or not ends[0] <= ends[1]:
                raise InputError(
                    f"domain {shown(name)} = {shown(ends)}: [from, to] of {', '.join(VARIABLES)} expected."
                )
        return cls(tuple(names), {name: tuple(map(float, domain.get(name, DOMAIN[name]))) for name in VARIABLES}, boxes)

    def points(self, count: int, seed: int) -> np.ndarray:
        """(variable, count) random points of the domain, half of them evenly in ln r_s."""
        u = np.random.default_rng([seed, count]).uniform(size=(len(VARIABLES), count))
        lo, hi = (np.array([self.domain[name][k] for name in VARIABLES])[:, None] for k in (0, 1))
        x = lo + u * (hi - lo)
        a, b = np.log(lo[0, 0]), np.log(hi[0, 0])
        x[0, ::2] = np.exp(a + u[0, ::2] * (b - a))
        return np.clip(x, lo, hi)

    def of_form(self, form: Form) -> tuple[str, ...]:
        """The conditions that depend on a hole."""
        holes = form.parts
        return tuple(n for n in self.names if any(part[0] in holes for part in CONDITIONS[n].parts))


class AtPoints:
    """Left sides of conditions at points (variable, point); what the candidate does not change is computed once."""

    def __init__(self, form: Form, points: np.ndarray):
        self.form, self.points = form, points
        self._made: dict[str, Any] = {}

    def left_side(self, condition: str, candidate: Candidate, values: Any = None) -> np.ndarray:
        """(point,), or (..., point) for parameters that are arrays (..., 1)."""
        known = CONDITIONS[condition]
        p = list(candidate.parameters) if values is None else values
        n_x = 0 if candidate.x is None else len(expressions.parameters(candidate.x))
        series = {part: self._enhancement(part, candidate, p[:n_x], p[n_x:]) for part in known.parts}
        total: Any = known.constant
        for part, order, coefficient in known.terms:
            total = total + coefficient * series[part][order]
        return total + 0.0 * self.points[0]

    def _enhancement(self, part, candidate, p_x, p_c) -> Series:
        if part == "x":
            return Series(self._exchange(candidate.x, p_x))
        rs, gas = self._once(part, lambda: self._gas(part))
        if "c" in self.form.parts:
            hole = 0.0 if candidate.c is None else expressions.value(candidate.c, gas.at, expressions.SERIES, iter(p_c))
            eps = gas.energy(self.form, hole if isinstance(hole, Series) else Series(hole))
        else:
            eps = gas
        return eps * rs * (1 / (C_X * (3 / (4 * math.pi)) ** (1 / 3)))

    def _once(self, name, code):
        if name not in self._made:
            self._made[name] = code()
        return self._made[name]

    def _gas(self, part):
        rs, s, alpha, zeta = self.points
        rs = rs if part == "c" else np.full_like(rs, FAR)
        if "c" in self.form.parts:
            gas: Any = Gas.of(rs, zeta, s * s, alpha, series=True)
        elif self.form.correlation:
            gas = along_rs(lambda r: native_correlation(self.form.correlation, r, zeta, s * s, alpha), rs)
        else:
            gas = Series(0.0)
        return Series(rs, rs, 0.5 * rs), gas

    def _exchange(self, tree, values):
        total: Any = 0.0
        _, s, alpha, zeta = self.points
        d_s = 0.5 * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3))
        for sign in (1, -1) if np.any(zeta) else (1,):
            of_spin = np.maximum(1 + sign * zeta, 1e-12)
            s2, a = s * s * of_spin ** (-2 / 3), alpha * d_s * of_spin ** (-2 / 3)
            if "x" in self.form.parts:
                at = exchange_ingredients(s2, a)
                F = 1.0 + (0.0 if tree is None else expressions.value(tree, at, expressions.NUMPY, iter(values)))
            else:
                name = f"native {sign}"
                F = (
                    self._once(name, lambda s2=s2, a=a: native_exchange(self.form.exchange, s2, a))
                    if self.form.exchange
                    else 0.0
                )
            total = total + 0.5 * of_spin ** (4 / 3) * F
        return total if np.any(zeta) else 2 * total


def values_of_cuts(form: Form, candidate: Candidate, cuts: Sequence[Cut], slopes: bool = False) -> Any:
    """Left sides (cut,); with `slopes` also their derivatives (cut, parameter), by complex steps."""
    p = candidate.parameters
    g, G = np.zeros(len(cuts)), np.zeros((len(cuts), len(p)))
    with np.errstate(all="ignore"):
        for condition, (rows, at) in _by_condition(form, tuple(cuts)).items():
            g[rows] = at.left_side(condition, candidate)  # of real numbers: complex ones have logarithms everywhere
            if slopes and len(p):
                values = list((p[:, None] + 1j * _STEP * np.eye(len(p)))[:, :, None])
                found = np.broadcast_to(at.left_side(condition, candidate, values), (len(p), len(rows)))
                G[rows] = found.imag.T / _STEP
    has_value = np.isfinite(g) & np.isfinite(G).all(axis=1)
    g, G = np.where(has_value, g, NO_VALUE), np.where(has_value[:, None], G, 0.0)
    return (g, G) if slopes else g


_kept: dict = {}


def _by_condition(form, cuts):
    """{condition: (rows, AtPoints)}; the last ones are kept, as a fit asks for the same many times."""
    if (form, cuts) not in _kept:
        _kept.clear()
        rows: dict[str, list[int]] = {}
        for k, cut in enumerate(cuts):
            rows.setdefault(cut.condition, []).append(k)
        _kept[form, cuts] = {
            name: (np.array(own), AtPoints(form, np.array([cuts[k].point for k in own]).T))
            for name, own in rows.items()
        }
    return _kept[form, cuts]


class Sampled:
    """Conditions at random points of the domain."""

    def __init__(self, form: Form, demands: Demands, count: int, seed: int):
        self.form, self.names = form, demands.of_form(form)
        self.points = demands.points(count, seed)
        self._at = AtPoints(form, self.points)

    def worst(self, candidate: Candidate) -> tuple[float, Cut] | None:
        """(left side, cut) where a condition is broken most; None where all hold at all points."""
        found: tuple[float, Cut] | None = None
        with np.errstate(all="ignore"):
            for name in self.names:
                g = np.broadcast_to(self._at.left_side(name, candidate), self.points[0].shape)
                g = np.where(np.isnan(g), -np.inf, g)  # no value: the condition does not hold there
                k = int(np.argmin(g))
                if g[k] < -TOLERANCE and (found is None or g[k] < found[0]):
                    found = float(g[k]), Cut(name, tuple(map(float, self.points[:, k])))
        return found


def proof_of(form: Form, candidate: Candidate, condition: str, demands: Demands, name: str = "found") -> Proof | None:
    """The proof of a condition, or its counterexample; None where it has no value at a point for this form."""
    try:
        functional = as_functional(form, candidate, name, "".join(part[0] for part in CONDITIONS[condition].parts))
        has_tau = any("tau" in term.ingredients for _, term in functional.terms)
        absent = [*([] if has_tau else ["alpha"]), *(["zeta"] if demands.domain["zeta"] == (0.0, 0.0) else [])]
        domain = {k: v for k, v in demands.domain.items() if k not in absent}
        return decide(functional, condition, domain, demands.boxes)
    except UnsupportedError:
        return None


def cut_of(proof: Proof) -> Cut:
    """The point of a violation; variables that the formula does not have are zero, alpha is 1."""
    point = proof.point or {}
    default = {"rs": 1.0, "s": 0.0, "alpha": 1.0, "zeta": 0.0}
    return Cut(proof.condition, tuple(float(point.get(name, default[name])) for name in VARIABLES))


def newest(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """Those that fits see: the last MOST_CUTS of each condition, in their order."""
    kept, counts = [], dict.fromkeys(CONDITIONS, 0)
    for cut in reversed(list(cuts)):
        counts[cut.condition] += 1
        if counts[cut.condition] <= MOST_CUTS:
            kept.append(cut)
    return tuple(reversed(kept))
