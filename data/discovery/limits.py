"""How small errors of training reactions can be: python data/discovery/limits.py

Enhancement factors F_x and G = e_c / e_c^PW92 as splines of ingredients in place of formulas, fitted by least squares
between bounds, with damping parameters of D3(BJ). Bounds of the coefficients are bounds of a spline. Conditions other
than these bounds and the uniform gas are left out, so formulas with proved conditions can hardly do better.
`limits.csv` has mean absolute errors with the weights of a search, as its training and validation errors.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import block_diag
from scipy.optimize import lsq_linear

from dftfd.discovery.candidate_fits import CORRECTION, Problem
from dftfd.discovery.damping import UNITS, with_damping_slopes
from dftfd.discovery.forms import Form, Gas, exchange_ingredients, native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints

RIDGE, UNIFORM = 0.01, 1e3
"""Of coefficients about 1 [kcal/mol], and the weight of the uniform gas."""

COUNT = {"s": 10, "t": 6, "rs": 4, "zeta": 3, "b": 5}
"""Splines along each ingredient."""

BOUND = 1.804
LIMITS = [  # dispersion, ingredients of F_x, its upper bound, those of G or a functional
    ("revpbe", ["s"], BOUND, "gga_c_pbe"),
    ("revpbe", ["s"], 2.27, "gga_c_pbe"),
    ("revpbe", ["s"], BOUND, ["t"]),
    ("revpbe", ["s"], BOUND, ["t", "rs"]),
    ("revpbe", ["s"], BOUND, ["t", "rs", "zeta"]),
    ("r2scan", ["s", "b"], BOUND, "mgga_c_r2scan"),
    ("r2scan", ["s", "b"], BOUND, "gga_c_pbe"),
    ("r2scan", ["s", "b"], BOUND, ["t"]),
    ("r2scan", ["s", "b"], BOUND, ["t", "b"]),
    ("r2scan", ["s", "b"], BOUND, ["t", "b", "rs"]),
]
KNOWN = {"revPBE": ("revpbe", "gga_x_pbe_r", "gga_c_pbe"), "r2SCAN": ("r2scan", "mgga_x_r2scan", "mgga_c_r2scan")}


def splines(x, names):
    """(point, spline) products of cubic splines of x: {name: values from 0 to 1}; quadratic where there are three."""
    found = np.ones((len(x[names[0]]), 1))
    for name in names:
        k = min(3, COUNT[name] - 1)
        knots = np.concatenate([[0] * k, np.linspace(0, 1, COUNT[name] - k + 1), [1] * k])
        own = BSpline.design_matrix(np.clip(x[name], 0, 1), knots, k).toarray()
        found = (found[:, :, None] * own[:, None, :]).reshape(len(own), -1)
    return found


def between_0_and_1(s2, b=None, t2=None, rs=None, z2=None):
    """The variables of splines; b = 0 in the uniform gas."""
    fraction = lambda x: x / (1 + x)
    found = {"s": fraction(np.sqrt(s2)), "b": b if b is None else (1 + b) / 2}
    if t2 is not None:
        found |= {"t": fraction(np.sqrt(t2)), "rs": fraction(rs), "zeta": z2}
    return found


def exchange_splines(points, names):
    at = exchange_ingredients(points.x_s2, points.x_alpha)
    return splines(between_0_and_1(at["s2"], at["b"]), names)


def correlation_splines(points, names):
    at = Gas.of(Form(), points.c_rs, points.c_zeta, points.c_s2, points.c_alpha).at
    return splines(between_0_and_1(at["s2"], at["b"], at["t2"], at["rs"], at["z2"]), names)


def at_uniform_gas(names):
    """(row, spline): where F or G is 1; for a few r_s and zeta."""
    some = {"s": [0.0], "t": [0.0], "b": [0.5], "rs": np.linspace(0, 1, 5), "zeta": np.linspace(0, 1, 4)}
    points = np.meshgrid(*(some[name] for name in names))
    return splines({name: x.ravel() for name, x in zip(names, points, strict=True)}, names)


def correlation(points, name):
    return native_correlation(name, points.c_rs, points.c_zeta, points.c_s2, points.c_alpha)


@dataclass(frozen=True)
class Reactions:
    """Those of a role.   problem: their errors without exchange and correlation, X and C sum over points."""

    points: TrainingPoints
    problem: Problem

    @classmethod
    def of(cls, points: TrainingPoints) -> "Reactions":
        return cls(points, Problem.of_points(points, Form("", "")))

    def mean_absolute(self, errors) -> float:
        return float(np.average(np.abs(errors), weights=self.problem.weight))

    def errors(self, x, c):
        """(fixed part, columns) of errors [kcal/mol]: splines' coefficients, then multiples of corrections."""
        points, own = self.points, self.problem
        fixed, columns = own.fixed, [own.X @ exchange_splines(points, x)]
        if isinstance(c, str):
            fixed = fixed + own.C @ correlation(points, c)
        else:
            columns.append(own.C @ (correlation(points, "lda_c_pw_mod")[:, None] * correlation_splines(points, c)))
        return fixed, np.hstack([*columns, own.corrections])


def limit(roles, x, bound, c):
    """(number of splines, training error, validation error)."""
    uniform = [at_uniform_gas(x)] + ([] if isinstance(c, str) else [at_uniform_gas(c)])
    counts, extra = [rows.shape[1] for rows in uniform], len(UNITS)
    n = sum(counts)
    fixed, A = roles["training"].errors(x, c)
    W, known = roles["training"].problem.weight, UNIFORM * block_diag(*uniform, np.zeros((0, extra)))
    left = np.vstack([W[:, None] * A, np.diag([RIDGE] * n + [CORRECTION] * extra), known])
    right = np.concatenate([-W * fixed, [RIDGE] * n, [0.0] * extra, [UNIFORM] * len(known)])
    upper = np.repeat([bound, 1.0][: len(counts)], counts)
    bounds = np.append(np.zeros(n), [-np.inf] * extra), np.append(upper, [np.inf] * extra)
    found = lsq_linear(left, right, bounds, max_iter=2000)
    if not found.success:
        raise RuntimeError(found.message)
    means = []
    for own in roles.values():
        fixed, A = own.errors(x, c)
        means.append(own.mean_absolute(fixed + A @ found.x))
    return n, *means


if __name__ == "__main__":
    every, roles = TrainingPoints.read(), {}
    for name in ("revpbe", "r2scan"):
        roles[name] = {
            role: Reactions.of(with_damping_slopes(every.of(role), "d3bj", name)) for role in ("training", "validation")
        }
    rows = []
    for name, (dispersion, x, c) in KNOWN.items():
        means = []
        for own in roles[dispersion].values():
            F_x = native_exchange(x, own.points.x_s2, own.points.x_alpha)
            xc = own.problem.X @ F_x + own.problem.C @ correlation(own.points, c)
            means.append(own.mean_absolute(own.problem.fixed + xc))
        rows.append([f"{name}-D3", "", 0, *means])
    for dispersion, x, bound, c in LIMITS:
        of_c = c if isinstance(c, str) else f"PW92 G({', '.join(c)})"
        rows.append([f"F_x({', '.join(x)}) <= {bound}", of_c, *limit(roles[dispersion], x, bound, c)])
        print(rows[-1], flush=True)
    with open(Path(__file__).with_suffix(".csv"), "w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["exchange", "correlation", "splines", "training", "validation"])
        table.writerows([*row[:3], f"{row[3]:.2f}", f"{row[4]:.2f}"] for row in rows)
