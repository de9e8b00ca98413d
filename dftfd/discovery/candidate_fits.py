r"""Reaction energies and exact conditions of candidates, and fits of parameters to the one under the other.

Both are rows of numbers that are linear in energies at points (`Rows`): a reaction energy sums them over the points of
its molecules, the left side of a local condition (dftfd.verify.local_conditions) over points along ln r_s, whose
differences are its Taylor coefficients. A cut is a point at which an earlier candidate broke a condition. A fit is

    minimise  sum_i w_i (Delta E_i(p) - reference_i)^2 / sum_i w_i + ridge + sum_k [K max(0, m - g_k(p))]^2

with g_k the left sides at cuts. Parameters that the energy is linear in start from linear least squares, positive ones
are varied by their logarithm.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.linalg
from scipy.optimize import leastsq
from scipy.sparse import block_diag, csr_array, diags_array

from dftfd.discovery import expressions, forms
from dftfd.discovery.compression import orthonormal_functions
from dftfd.discovery.forms import Candidate, Form, Gas, spin_power
from dftfd.discovery.points import TrainingPoints
from dftfd.errors import InputError, UnsupportedError, closest_names, shown
from dftfd.functionals.common import C_X
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.verify.local_conditions import CONDITIONS, DOMAIN, FAR
from dftfd.verify.proofs import Proof, decide

RIDGE = 1e-6
"""kcal/mol for a parameter of 1, or a logarithm of 1: decides where the data do not."""

STEEPNESS, MARGIN = 1000.0, 2e-3
"""K [kcal/mol] and m, of the cuts; left sides are in units of the uniform gas's."""

CORRECTION = 0.1
"""kcal/mol for one unit of a correction."""

WORTHLESS = 1e6
"""Residual [kcal/mol] of a reaction or a cut for which the formula has no value."""

CHOICE = 40_000
"""Points among which nodes are chosen."""

LARGEST_C, LEAST_P, LARGEST_P = 50.0, 1e-4, 100.0
"""Bounds of a parameter's size, and of a positive one; u(1e4 t2) would be a jump at the uniform gas."""

TOLERANCE = 1e-7
"""A left side below minus this times the uniform gas's counts as negative here; proofs have no tolerance."""

MOST_CUTS = 24
"""Cuts of a condition that fits see: the last ones."""

VARIABLES = ("rs", "s", "alpha", "zeta")

FAR_S = (10.0, 20.0, 50.0, 1e2, 1e3, 1e4, 1e6)
"""Reduced gradients s beyond the domain: if F_xc grows without bound, energies of atoms may collapse."""

STEP = 4e-3
DIFFERENCES = {
    0: {0: 1.0},
    1: {-2: 1 / (12 * STEP), -1: -8 / (12 * STEP), 1: 8 / (12 * STEP), 2: -1 / (12 * STEP)},
    2: {k: d / (24 * STEP**2) for k, d in zip(range(-2, 3), (-1, 16, -30, 16, -1), strict=True)},
}
"""Taylor coefficients of f(exp(t) r_s) in t from f at k STEP, to STEP^4."""


class Cut(NamedTuple):
    """condition: name.   point: values of VARIABLES.   value: the left side of the candidate that broke it, if any."""

    condition: str
    point: tuple[float, ...]
    value: float | None = None


@dataclass(frozen=True)
class Rows:
    """fixed + X h_x + C eps_c(h_c): numbers that are linear in energies at points.

    fixed: (row,).   X: (row, x point), x: ingredients there.   C: (row, c point), gas: the Gas there, None without.
    """

    form: Form
    fixed: np.ndarray
    X: Any
    x: Mapping[str, np.ndarray]
    C: Any
    gas: Gas | None

    @classmethod
    def of(cls, form: Form, fixed, X, x_points, C, c_points) -> "Rows":
        """fixed + X F_x + C eps_c.   x_points: (s2, alpha).   c_points: (rs, zeta, s2, alpha)."""
        if "x" in form.parts:
            fixed = fixed + X @ np.ones(X.shape[1])
        elif form.exchange:
            fixed = fixed + X @ forms.native_exchange(form.exchange, *x_points)
        if "c" not in form.parts and form.correlation:
            fixed = fixed + C @ forms.native_correlation(form.correlation, *c_points)
        gas = Gas.of(form, *c_points) if "c" in form.parts else None
        return cls(form, np.asarray(fixed), X, forms.exchange_ingredients(*x_points), C, gas)

    def values(self, candidate: Candidate) -> np.ndarray:
        """(row,); NaN where a formula has no value."""
        with np.errstate(all="ignore"):
            found = self.fixed
            if candidate.x is not None:
                found = found + _product(self.X, expressions.at_points(candidate.x, self.x))
            if self.gas is not None:
                hole = 0.0 if candidate.c is None else expressions.at_points(candidate.c, self.gas.at)
                found = found + _product(self.C, self.gas.energy(hole))
        return found

    def with_slopes(self, candidate: Candidate, p: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """(values, their derivatives (row, parameter)) for parameters."""
        found, columns, n_x = self.fixed, [], 0
        with np.errstate(all="ignore"):
            if candidate.x is not None:
                hole, slopes = expressions.with_slopes(candidate.x, self.x, p)
                n_x = len(slopes)
                found = found + _product(self.X, hole)
                columns.append(_products(self.X, slopes))
            if self.gas is not None:
                given = (0.0, []) if candidate.c is None else expressions.with_slopes(candidate.c, self.gas.at, p[n_x:])
                found = found + _product(self.C, self.gas.energy(given[0]))
                by_hole = self.gas.slope(given[0])
                columns.append(_products(self.C, [by_hole * slope for slope in given[1]]))
        return found, np.concatenate(columns, axis=1) if columns else np.zeros((len(found), 0))

    def with_rows(self, other: "Rows | None") -> "Rows":
        """The rows of both."""
        if other is None:
            return self
        x = {name: np.append(own, other.x[name]) for name, own in self.x.items()}
        gas = self.gas if self.gas is None else self.gas.with_points(cast(Gas, other.gas))
        fixed = np.append(self.fixed, other.fixed)
        return Rows(self.form, fixed, _blocks(self.X, other.X), x, _blocks(self.C, other.C), gas)

    def columns(self, part: str, candidate: Candidate, terms: Sequence[expressions.Tree]) -> np.ndarray:
        """(row, term) what adding each term to a hole changes, to first order."""
        with np.errstate(all="ignore"):
            if part == "x":
                found = [self.X @ expressions.at_points(t, self.x) for t in terms]
            else:
                gas = cast(Gas, self.gas)
                hole = 0.0 if candidate.c is None else expressions.at_points(candidate.c, gas.at)
                slope = gas.slope(hole)
                found = [self.C @ (slope * expressions.at_points(t, gas.at)) for t in terms]
        return np.stack(found, axis=1)


def _product(matrix, values):
    """matrix @ values; NaN in the rows, and only in those, that have points without a finite value."""
    values = values if np.ndim(values) else np.full(matrix.shape[1], values)
    bad = ~np.isfinite(values)
    if not bad.any():
        return matrix @ values
    return np.where((matrix != 0) @ bad, np.nan, matrix @ np.where(bad, 0.0, values))


def _products(matrix, slopes):
    """(row, slope), without the NaN."""
    columns = np.empty((matrix.shape[1], len(slopes)))
    for k, slope in enumerate(slopes):
        columns[:, k] = slope
    return matrix @ columns


def _blocks(a, b):
    """Block diagonal, dense where the first one is."""
    if isinstance(a, np.ndarray):
        return scipy.linalg.block_diag(a, b.toarray())
    return block_diag([a, b], format="csr")


# ---- reactions.


@dataclass(frozen=True)
class Problem(Rows):
    """Errors of reactions [kcal/mol] as rows.   weight: (reaction,), roots of shares of 1.

    corrections: (reaction, correction) [kcal/mol], of which multiples c are added for which the squares of the weighted
    errors and of CORRECTION c are smallest. They are linear, so they are eliminated: with the singular values s of
    weighted corrections U s V, these squares are those of (1 - U (1 - CORRECTION / sqrt(s^2 + CORRECTION^2)) U^T)
    times the weighted errors.
    """

    weight: np.ndarray
    corrections: np.ndarray

    @classmethod
    def of_points(cls, points: TrainingPoints, form: Form, on_nodes: bool = False) -> "Problem":
        """On all points of the molecules, or on a few hundred nodes that they share, for a first look.

        Nodes are approximate Fekete points of the functions that the points integrate, weights those that integrate
        them alike: A. Sommariva, M. Vianello, Comput. Math. Appl. 57, 1324 (2009). doi:10.1016/j.camwa.2008.11.011
        """
        S = points.stoichiometry * HARTREE_IN_KCAL
        x: tuple[np.ndarray, ...] = (points.x_s2, points.x_alpha)
        c: tuple[np.ndarray, ...] = (points.c_rs, points.c_zeta, points.c_s2, points.c_alpha)
        (X, x), (C, c) = (
            _on_nodes(S, weights, offsets, variables) if on_nodes else (_on_points(S, weights, offsets), variables)
            for weights, offsets, variables in (
                (points.x_weight, points.x_offsets, x),
                (points.c_weight, points.c_offsets, c),
            )
        )
        rows = Rows.of(form, points.errors(points.base) * HARTREE_IN_KCAL, X, x, C, c)
        added = np.zeros((S.shape[1], 0)) if points.corrections is None else points.corrections
        weight = np.sqrt(points.reaction_weight / points.reaction_weight.sum())
        return cls(**vars(rows), weight=weight, corrections=S @ added)

    def mean_absolute(self, candidate: Candidate, multiples: Sequence[float] = ()) -> float:
        """Mean absolute error [kcal/mol] by `weight`, with multiples of corrections; NaN where there is no value."""
        errors = self.values(candidate)
        errors = errors + self.corrections @ multiples if len(multiples) else errors
        return float(np.sum(self.weight * np.abs(errors)) / np.sum(self.weight))

    def multiples(self, candidate: Candidate) -> list[float]:
        """Of the corrections, for a candidate; zeros where it has no value."""
        A, r = self.weight[:, None] * self.corrections, self.weight * self.values(candidate)
        ridge = CORRECTION * np.eye(A.shape[1])
        if not A.shape[1] or not np.isfinite(r).all():
            return [0.0] * A.shape[1]
        return [float(c) for c in np.linalg.lstsq(np.vstack([A, ridge]), np.append(-r, 0 * ridge[0]), rcond=None)[0]]

    @cached_property
    def _eliminated(self):
        U, s, _ = np.linalg.svd(self.weight[:, None] * self.corrections, full_matrices=False)
        return U, 1 - CORRECTION / np.hypot(s, CORRECTION)

    def without_corrections(self, weighted: np.ndarray) -> np.ndarray:
        """Weighted errors (reaction, ...), or derivatives of them, whose squares are those with the best multiples."""
        U, share = self._eliminated
        return weighted - (U * share) @ (U.T @ weighted) if share.size else weighted


def finite(x) -> float | None:
    """A number, or None for one that is none, as JSON has it."""
    return float(x) if np.isfinite(x) else None


def _on_points(S, weights, offsets):
    """(reaction, point): csr_array."""
    molecule = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    by_molecule = csr_array((weights, (molecule, np.arange(len(weights)))), shape=(S.shape[1], len(weights)))
    return csr_array(csr_array(S) @ by_molecule)


def _on_nodes(S, weights, offsets, variables):
    """((reaction, node), variables of the nodes)."""
    functions, scaled = orthonormal_functions(weights, np.array(variables))
    some = slice(None, None, 1 + len(weights) // CHOICE)
    _, order = scipy.linalg.qr((functions * np.sqrt(scaled))[:, some], mode="r", pivoting=True)
    nodes = np.arange(len(weights))[some][np.sort(order[: len(functions)])]
    moments = np.add.reduceat(functions * weights, offsets[:-1], axis=1)
    return S @ np.linalg.lstsq(functions[:, nodes], moments, rcond=None)[0].T, tuple(v[nodes] for v in variables)


# ---- conditions.


@dataclass(frozen=True)
class Demands:
    """What has to hold.   names: conditions.   domain: {variable: (from, to)} of VARIABLES.   boxes: of a proof.

    polarised: conditions for which the domain's zeta counts; the others have zeta = 0.
    """

    names: tuple[str, ...]
    domain: Mapping[str, tuple[float, float]]
    boxes: int = 20_000
    polarised: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: Sequence[str], domain: Mapping, boxes: int = 20_000, polarised: Sequence[str] | None = None
    ) -> "Demands":
        """InputError for unknown conditions and variables.   polarised: None for all."""
        for name in (*names, *(polarised or ())):
            if name not in CONDITIONS:
                close = ", ".join(closest_names(name, CONDITIONS))
                raise InputError(f"there is no condition {shown(name)}; the closest are {close}.")
        for name in polarised or ():
            if name not in names or domain.get("zeta", DOMAIN["zeta"])[1] == 0:
                raise InputError(
                    f"polarised {shown(name)}: one of the conditions to prove expected, and a domain with a range of "
                    "zeta, as zeta = [0, 0.9]."
                )
        for name, ends in domain.items():
            if not ends[0] <= ends[1]:
                raise InputError(
                    f"domain {shown(name)} = {shown(ends)}: [from, to] of {', '.join(VARIABLES)} expected."
                )
        lowest, highest = ({name: float(domain.get(name, DOMAIN[name])[k]) for name in VARIABLES} for k in (0, 1))
        ranges = {name: (lowest[name], highest[name]) for name in VARIABLES}
        return cls(tuple(names), ranges, boxes, tuple(names if polarised is None else polarised))

    def domain_of(self, name: str) -> Mapping[str, tuple[float, float]]:
        """Of a condition."""
        return self.domain if name in self.polarised else {**self.domain, "zeta": (0.0, 0.0)}

    def points(self, count: int, seed: int) -> np.ndarray:
        """(variable, count) random points, half of them evenly in ln r_s, s / (1 + s) and alpha / (1 + alpha)."""
        u = np.random.default_rng([seed, count]).uniform(size=(len(VARIABLES), count))
        lo, hi = (np.array([self.domain[name][k] for name in VARIABLES])[:, None] for k in (0, 1))
        x = lo + u * (hi - lo)
        a, b = np.log(lo[0, 0]), np.log(hi[0, 0])
        x[0, ::2] = np.exp(a + u[0, ::2] * (b - a))
        a, b = lo[1:3] / (1 + lo[1:3]), hi[1:3] / (1 + hi[1:3])
        x[1:3, ::2] = 1 / (1 - a - u[1:3, ::2] * (b - a)) - 1
        return np.clip(x, lo, hi)

    def far_points(self) -> np.ndarray:
        """(variable, point) beyond the domain: s of FAR_S at the ends of the other variables."""
        ends = {name: sorted(set(self.domain[name])) for name in VARIABLES}
        return np.array([*itertools.product(ends["rs"], FAR_S, ends["alpha"], ends["zeta"])]).T

    def of_form(self, form: Form) -> tuple[str, ...]:
        """The conditions that depend on a hole."""
        return tuple(n for n in self.names if any(part[0] in form.parts for part in CONDITIONS[n].parts))


def left_sides(form: Form, names: Sequence[str], columns: Sequence[int], points: np.ndarray) -> Rows:
    """Rows: left sides of conditions, each at the point (variable, point) of a column."""
    x_of: dict[tuple, int] = {}
    c_of: dict[tuple, int] = {}
    X: list[tuple] = []
    C: list[tuple] = []
    for row, (name, k) in enumerate(zip(names, columns, strict=True)):
        for part, order, coefficient in CONDITIONS[name].terms:
            if part == "x":
                X += [(row, x_of.setdefault((k, sign), len(x_of)), coefficient) for sign in (1, -1)]
                continue
            C += [
                (row, c_of.setdefault((k, part, step), len(c_of)), coefficient * d)
                for step, d in DIFFERENCES[order].items()
            ]
    fixed = np.array([CONDITIONS[name].constant for name in names])
    place, sign = np.array([*x_of], dtype=int).reshape(-1, 2).T
    _, s, alpha, zeta = points[:, place]
    of_spin = np.maximum(1 + sign * zeta, 1e-12)
    x_points = s**2 * of_spin ** (-2 / 3), alpha * spin_power(zeta, 5 / 3) * of_spin ** (-2 / 3)
    place, far, step = np.array([(k, part == "c far", step) for k, part, step in c_of], dtype=int).reshape(-1, 3).T
    rs, s, alpha, zeta = points[:, place]
    rs = np.where(far, FAR, rs) * np.exp(STEP * step)
    X = _sparse(X, (len(names), len(x_of)), 0.5 * of_spin ** (4 / 3))
    C = _sparse(C, (len(names), len(c_of)), rs / (C_X * (3 / (4 * math.pi)) ** (1 / 3)))
    return Rows.of(form, fixed, X, x_points, C, (rs, zeta, s * s, alpha))


def _sparse(entries, shape, scale) -> csr_array:
    rows, columns, values = np.array(entries, dtype=float).reshape(-1, 3).T
    columns = columns.astype(int)
    return csr_array((values * scale[columns], (rows.astype(int), columns)), shape=shape)


def relative(rows: Rows) -> tuple[Rows, np.ndarray]:
    """(rows in units of the uniform gas's left side, which is small where r_s is; the units (row,))."""
    unit = rows.fixed if rows.gas is None else rows.fixed + rows.C @ rows.gas.eps
    unit = np.maximum(np.abs(unit), 1e-9)
    scale = diags_array(1 / unit)
    return replace(rows, fixed=rows.fixed / unit, X=csr_array(scale @ rows.X), C=csr_array(scale @ rows.C)), unit


def at_cuts(form: Form, cuts: Sequence[Cut]) -> Rows | None:
    """Left sides at cuts in units of the uniform gas's as Rows; None without cuts."""
    points = np.array([cut.point for cut in cuts]).reshape(-1, len(VARIABLES)).T
    return relative(left_sides(form, [cut.condition for cut in cuts], range(len(cuts)), points))[0] if cuts else None


class Sampled:
    """Conditions at random points of the domain and at large s."""

    def __init__(self, form: Form, demands: Demands, count: int, seed: int):
        self.names = demands.of_form(form)
        polarised = np.concatenate([demands.points(count, seed), demands.far_points()], axis=1)
        n = polarised.shape[1]
        self.points = np.concatenate([polarised, polarised * [[1.0], [1.0], [1.0], [0.0]]], axis=1)
        if self.names:
            starts = np.array([0 if name in demands.polarised else n for name in self.names])
            self._places = (starts[:, None] + np.arange(n)).ravel()
            self._rows, self._unit = relative(left_sides(form, np.repeat(self.names, n), self._places, self.points))

    def broken(self, candidate: Candidate) -> list[Cut]:
        """Where each broken condition is broken most, or has no value, the worst one first; empty if none is."""
        if not self.names:
            return []
        g = self._rows.values(candidate)
        g = np.where(np.isnan(g), -np.inf, g)
        n = len(g) // len(self.names)
        worst = np.argmin(g.reshape(-1, n), axis=1) + n * np.arange(len(self.names))
        found = sorted((float(g[k]), name, k) for name, k in zip(self.names, worst, strict=True))
        return [
            Cut(name, tuple(map(float, self.points[:, self._places[k]])), finite(least * self._unit[k]))
            for least, name, k in found
            if least < -TOLERANCE
        ]


def proof_of(form: Form, candidate: Candidate, condition: str, demands: Demands, name: str = "found") -> Proof | None:
    """The proof of a condition, or its counterexample; None where it has no value at a point for this form."""
    try:
        functional = forms.as_functional(
            form, candidate, name, "".join(part[0] for part in CONDITIONS[condition].parts)
        )
        has_tau = any("tau" in term.ingredients for _, term in functional.terms)
        domain = demands.domain_of(condition)
        absent = [*([] if has_tau else ["alpha"]), *(["zeta"] if domain["zeta"] == (0.0, 0.0) else [])]
        domain = {k: v for k, v in domain.items() if k not in absent}
        return decide(functional, condition, domain, demands.boxes)
    except UnsupportedError:
        return None


def cut_of(proof: Proof) -> Cut:
    """The point of a violation; variables that the formula does not have are zero, alpha is 1."""
    default = {"rs": 1.0, "s": 0.0, "alpha": 1.0, "zeta": 0.0} | (proof.point or {})
    value = finite(float(proof.value)) if proof.value else None
    return Cut(proof.condition, tuple(float(default[name]) for name in VARIABLES), value)


def newest(cuts: Collection[Cut]) -> tuple[Cut, ...]:
    """Those that fits see: the last MOST_CUTS of each condition, in their order."""
    by_name: dict[str, list[Cut]] = {}
    for cut in cuts:
        by_name.setdefault(cut.condition, []).append(cut)
    chosen = {cut for own in by_name.values() for cut in own[-MOST_CUTS:]}
    return tuple(cut for cut in cuts if cut in chosen)


# ---- fits.


class Fitted(NamedTuple):
    """A candidate with fitted parameters.   loss: root mean square error with all penalties [kcal/mol]."""

    candidate: Candidate
    loss: float


class Fitter:
    """Fits to the reactions of a problem under cuts.   weight: of the cuts.   largest: bound of positive parameters."""

    def __init__(self, problem: Problem, cuts: Sequence[Cut] = (), weight: float = 1.0, largest: float = LARGEST_P):
        self._largest = math.log(largest)
        self.form, self._rows = problem.form, problem.with_rows(at_cuts(problem.form, cuts))
        self._corrected = problem.without_corrections
        self._n = len(problem.weight)
        self._scale = np.append(problem.weight, np.full(len(cuts), -weight * STEEPNESS))
        self._least = np.append(np.full(self._n, np.inf), np.full(len(cuts), MARGIN))  # no penalty from there

    def best_of(self, candidate, evaluations: int, rng: Any, starts: int, tolerance: float = 1e-12) -> Fitted:
        """The best fit of some starts: the candidate's own parameters, then random ones."""
        if linear(candidate, self.form).all():
            starts = 1
        found = [candidate, *(candidate.at(_random(candidate.positive, rng)) for _ in range(starts - 1))]
        return min((self.fit(one, evaluations, tolerance) for one in found), key=lambda fit: fit.loss)

    def fit(self, candidate: Candidate, evaluations: int, tolerance: float = 1e-12) -> Fitted:
        """From the candidate's parameters; linear ones at first at what fits best as the others stand.

        tolerance: relative change of the loss's square that ends it.
        """
        is_linear, positive = linear(candidate, self.form), candidate.positive
        least = np.where(positive, math.log(LEAST_P), -LARGEST_C)
        largest = np.where(positive, self._largest, LARGEST_C)
        n, v = self._n, candidate.parameters
        ridge = RIDGE * np.eye(len(v))
        known: list = [None] * 4

        def at(v):
            """[key, residuals, derivatives, parameters]."""
            if v.tobytes() != known[0]:
                p = np.clip(v, least, largest)
                p[positive] = np.exp(p[positive])
                r, D = self._residuals(candidate, p, np.where(positive, p, 1.0))
                known[:] = v.tobytes(), np.append(r, RIDGE * v), np.concatenate([D, ridge]), p
            return known

        v[positive] = np.log(np.maximum(v[positive], LEAST_P))
        if is_linear.any():
            _, r, D, _ = at(v)
            rows = np.r_[:n, len(r) - len(v) : len(r)]
            v = v.copy()
            v[is_linear] -= np.linalg.lstsq(D[rows][:, is_linear], r[rows], rcond=None)[0]
            v[is_linear] = np.clip(v[is_linear], -LARGEST_C, LARGEST_C)
        _, r, _, p = at(v)
        is_done = is_linear.all() and not np.any(r[n : len(r) - len(v)])
        if len(v) and not is_done and r @ r < WORTHLESS**2:
            options = {"ftol": tolerance, "xtol": 1e-12, "gtol": 0.0, "maxfev": evaluations, "full_output": True}
            v, *_ = leastsq(lambda v: at(v)[1], v, Dfun=lambda v: at(v)[2], **options)
            _, r, _, p = at(v)
        loss = math.sqrt(r @ r)
        return Fitted(candidate.at(p), loss if loss < WORTHLESS else math.inf)

    def _residuals(self, candidate, p, chain):
        """Errors of reactions times weights, what cuts lack times theirs, and derivatives; chain: dp/dv."""
        found, D = self._rows.with_slopes(candidate, p)
        is_cut = np.isfinite(self._least)
        r, D = self._scale * np.where(is_cut, found - MARGIN, found), (self._scale[:, None] * chain) * D
        if (kept := found >= self._least).any():
            r[kept], D[kept] = 0.0, 0.0
        if not np.isfinite(D).all() or not (np.abs(r) < WORTHLESS).all():
            usable = (np.abs(r) < WORTHLESS) & np.isfinite(D).all(axis=1)
            r, D = np.where(usable, r, WORTHLESS), np.where(usable[:, None], D, 0.0)
        n = self._n
        r[:n], D[:n] = self._corrected(r[:n]), self._corrected(D[:n])
        return r, D


def linear(candidate: Candidate, form: Form) -> np.ndarray:
    """Which parameters the energy is linear in: factors of the terms of a hole."""
    found: list[bool] = []
    for tree, possible in ((candidate.x, True), (candidate.c, form.correlation == "factor")):
        for term in () if tree is None else tree[1:] if tree[0] == "+" else (tree,):
            for factor in term[1:] if term[0] == "*" else (term,):
                found += [possible and factor[0] == "c"] * len(expressions.parameters(factor))
    return np.array(found, dtype=bool)


def _random(positive, rng):
    """A start: positive parameters over four and a half decades, free ones about zero."""
    return np.array([10 ** rng.uniform(-2.5, 2.0) if p else rng.normal(0, 0.5) for p in positive])
