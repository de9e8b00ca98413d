"""Formulas drawn to mislead `dftfd.prove`: one line of JSON for each in data/proofs/adversarial.jsonl.

    python -m tests.verification.adversarial_proofs [--count N] [--from SEED] [--boxes N] [--summary]

Formulas of one or two variables are drawn from every operation that proofs know, with jumps, kinks, cusps, poles,
needles of width 1e-12, roots and logarithms that leave their domain near an edge, denormal numbers, and extremes in
corners; domains begin and end beside such points. Each is looked at on a dense sample with the edges, the corners and
the neighbours of its special points. Three statements follow:

false      f >= m, m above f at the lowest point of the sample, where mpmath confirms f < m in 60 digits;
undefined  f >= a number below all of the sample, where mpmath finds that f has no value at a point of the sample;
likely     f >= a number below all of the sample, which is mostly true: how many of them are proved says what is lost.

A fourth one says by where(f - m > 0, 1, -1) what the first one does. Of formulas of x > 0 more are about derivatives
by ln x, of first and second order: the statement that one of them is above m everywhere is false where a difference
quotient of f in 60 digits is below m, by the mean value theorem.

A false or undefined one that is proved is an error. Proofs of likely ones are rechecked for a second. Numbers of seeds
that stand in the file are not drawn again.
"""

import argparse
import json
import random
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath
import numpy as np

import dftfd
from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import exact_program
from dftfd.errors import DftfdError
from dftfd.verify.inequality import UNDECIDED, subdivide
from dftfd.verify.proofs import own_inequality

RECORD = Path(__file__).parents[2] / "data/proofs/adversarial.jsonl"
DIGITS = 60

_UNARY = {
    "exp": jnp.exp, "expm1": jnp.expm1, "log": jnp.log, "log1p": jnp.log1p, "arctan": jnp.arctan, "tanh": jnp.tanh,
    "arcsinh": jnp.arcsinh, "sinh": jnp.sinh, "cosh": jnp.cosh, "sin": jnp.sin, "cos": jnp.cos, "sqrt": jnp.sqrt,
    "erf": jax.scipy.special.erf, "erfc": jax.scipy.special.erfc, "sigmoid": jax.nn.sigmoid, "cbrt": jnp.cbrt,
    "abs": jnp.abs, "sign": jnp.sign, "square": jnp.square, "exp2": jnp.exp2, "reciprocal": lambda u: 1 / u,
    "cusp": lambda u: jnp.sqrt(jnp.abs(u)), "root": lambda u: jnp.cbrt(u) ** 2, "pole": lambda u: 1 / u**2,
    "lost root": lambda u: jnp.sqrt(u) ** 2, "lost log": lambda u: jnp.exp(jnp.log(u)), "none": lambda u: u / u,
    "lost power": lambda u: u**1.5 / u**0.5, "fourth": lambda u: u**4, "power": lambda u: u**1.3,
    "hundredth": lambda u: (1 + u / 100) ** 101, "needle": lambda u: -jnp.exp(-((1e12 * u) ** 2)),
    "spike": lambda u: jnp.where(jnp.abs(u) < 1e-12, -1.0, u), "wave": lambda u: jnp.sin(1e6 * u),
    "floor 0": lambda u: jnp.maximum(u, 0.0), "hinge": lambda u: jnp.clip(u, -0.1, 0.2),
    "nearly square": lambda u: u**2.0000000000000004,
    "third by log": lambda u: jnp.exp(0.3333333333333333 * jnp.log(u)), "softplus": jax.nn.softplus,
    "step of erf": lambda u: jax.scipy.special.erf(1e15 * u), "sinc": jnp.sinc,
    "removable": lambda u: jnp.expm1(u) / u, "half circle": lambda u: jnp.sqrt(1 - u * u),
    "sixth": lambda u: (((((u - 6) * u + 15) * u - 20) * u + 15) * u - 6) * u + 1,
    "slope of a root": jax.grad(lambda v: jnp.sqrt(v * v)),
    "slope of a hinge": jax.grad(lambda v: jnp.clip(v, -0.1, 0.2)), "slope of a floor": jax.grad(jax.nn.relu),
    "slope of a product": jax.grad(lambda v: v * jnp.abs(v) * jnp.exp(-v)),
    "newton": lambda u: u - (u * jnp.exp(u) - 1) / (jnp.exp(u) * (1 + u)), "huge": lambda u: (3 * u) ** 1e9,
}  # fmt: skip
_BINARY = {
    "add": lambda u, v: u + v, "sub": lambda u, v: u - v, "mul": lambda u, v: u * v, "div": lambda u, v: u / v,
    "max": jnp.maximum, "min": jnp.minimum, "where": lambda u, v: jnp.where(u < v, u + v, u * v - 0.5),
    "pow": lambda u, v: u**v, "gap": lambda u, v: jnp.where(u >= 0, v, v - 0.25),
    "guard": lambda u, v: jnp.where(v > 0, jnp.log(jnp.where(v > 0, v, 1.0)) * u, u),
    "hypot": jnp.hypot, "logaddexp": jnp.logaddexp, "strict": lambda u, v: jnp.where(u > v, 1.0, -1.0),
    "equal": lambda u, v: jnp.where(u == v, -1.0, 1.0 + u),
    "clips": lambda u, v: jnp.clip(jnp.clip(u, v, v + 0.1), 0.0, v),
    "same pieces": lambda u, v: jnp.where(u < v, (u - v) * (u + v), u * u - v * v),
}  # fmt: skip


class Formula:
    """A drawn formula: code of the variables, text, and the special places of each variable."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.names = ["x", "y"][: self.rng.choice([1, 1, 2])]
        self.domain = {name: self._ends() for name in self.names}
        self.places: dict[str, list[float]] = {name: [] for name in self.names}
        build, self.text = self._drawn(self.rng.choice([2, 3, 3, 4]))
        if len(self.names) == 1:
            self.code = lambda x: build({"x": x}) + 0.0 * x
        else:
            self.code = lambda x, y: build({"x": x, "y": y})

    def _ends(self) -> tuple[float, float]:
        r = self.rng
        return r.choice([
            (0.0, 1.0), (-1.0, 1.0), (1e-4, 5.0), (-1e-9, 1.0), (-2.0, 1e-9), (0.5, 2.0), (0.0, 1e-300), (1e-3, 40.0),
            (-3.0, 3.0), (1 - 1e-9, 1 + 1e-9), (-1e-6, 3.0), (20.0, 27.0), (0.0, 1e-12),
        ])  # fmt: skip

    def _place(self, name: str) -> float:
        """A number in a domain, most often beside one of its ends."""
        a, b = self.domain[name]
        u = self.rng.choice([0.0, 1e-9, 1e-6, 0.25, 0.5, 1 / 3, 1 - 1e-9, 1.0, self.rng.random()])
        place = a + u * (b - a)
        self.places[name].append(place)
        return place

    def _drawn(self, depth: int):
        r = self.rng
        if depth == 0 or r.random() < 0.1:
            name = r.choice(self.names)
            kind = r.choice(["plain", "shifted", "shifted", "number"])
            if kind == "number":
                c = r.choice([0.5, 1.0, -1.0, 2.0, 1e-310, 1e-7, 3.7, r.uniform(-2, 2)])
                return (lambda v: jnp.float64(c)), f"{c!r}"
            if kind == "plain":
                return (lambda v: v[name]), name
            a = self._place(name)
            return (lambda v: v[name] - a), f"({name} - {a!r})"
        if r.random() < 0.5:
            op = r.choice(sorted(_UNARY))
            inner, text = self._drawn(depth - 1)
            return (lambda v: _UNARY[op](inner(v))), f"{op}({text})"
        op = r.choice(sorted(_BINARY))
        (left, a), (right, b) = self._drawn(depth - 1), self._drawn(depth - 1)
        return (lambda v: _BINARY[op](left(v), right(v))), f"{op}({a}, {b})"

    def sample(self) -> np.ndarray:
        """Points (variable, point): random ones, ends, special places, their neighbours, and all corners of these."""
        rng = np.random.default_rng(self.rng.randrange(2**32))
        columns, special = [], []
        for name in self.names:
            a, b = self.domain[name]
            near = [a, b, 0.5 * (a + b)]
            for p in (a, b, 0.0, *self.places[name]):
                steps = [0.0, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3, 5e-13]
                near += [p + s * e for s in (1, -1) for e in steps] + [np.nextafter(p, 9.0), np.nextafter(p, -9.0)]
            near = np.unique(np.clip(near, a, b))
            special.append(near)
            u = rng.random(4000)
            wide = a + (b - a) * np.where(np.arange(4000) % 2, u, 10.0 ** (-14 * u))
            columns.append(np.clip(wide, a, b))
        if len(special) == 1:
            return np.concatenate([columns[0], special[0]])[None, :]
        grid = np.array(np.meshgrid(*(s[:: max(1, s.size // 60)] for s in special))).reshape(2, -1)
        edge = np.stack([special[0][rng.integers(special[0].size, size=2000)], columns[1][:2000]])
        return np.concatenate([np.stack(columns), grid, edge], axis=1)


class _Bounded(OnMpmath):
    """What would never end is refused: exponentials of numbers beyond 2^40, and of complex ones beyond 2^10."""

    def apply(self, node, args):
        if node.op in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "logistic", "pow", "erf", "erfc", "sin", "cos"):
            for a in args:
                most = {mpmath.mpf: 40, mpmath.mpc: 10}.get(type(a), mpmath.inf)
                if a and mpmath.isfinite(a) and mpmath.mag(a) > most:
                    raise OverflowError
        return super().apply(node, args)


def in_digits(program, point):
    """The value at a point, None where there is none."""
    with mpmath.workdps(DIGITS):
        try:
            value = evaluate(program, _Bounded(), [mpmath.mpf(float(v)) for v in point])[0]
        except ZeroDivisionError:
            return "?"  # perhaps in a branch that is not taken
        except (ValueError, OverflowError, TypeError):
            return "?"
        if isinstance(value, mpmath.mpc):
            return None
        value = mpmath.mpf(value)
        return value if mpmath.isfinite(value) else None


def _shifted(formula: Formula, c: float):
    if len(formula.names) == 1:
        return lambda x: formula.code(x) - c
    return lambda x, y: formula.code(x, y) - c


def _proof(formula, c, boxes):
    return dftfd.prove(_shifted(formula, c), domain=formula.domain, boxes=boxes)


def _strict(formula: Formula, c: float):
    shifted = _shifted(formula, c)
    if len(formula.names) == 1:
        return lambda x: jnp.where(shifted(x) > 0, 1.0, -1.0)
    return lambda x, y: jnp.where(shifted(x, y) > 0, 1.0, -1.0)


_POSITIVE = ((1e-4, 1e-3), (0.5, 2.0), (1e-4, 5.0), (1 - 1e-9, 1 + 1e-9), (0.2, 0.3))


def slopes(formula: Formula, program, seed: int, boxes: int) -> dict:
    """{statement about a derivative by ln x: whether it is proved}, on a domain with x > 0."""
    rng, ends = np.random.default_rng(seed), _POSITIVE[seed % len(_POSITIVE)]
    domain = formula.domain | {"x": ends}
    inequality, _ = own_inequality(None, _shifted(formula, 0.0), domain)
    if inequality.names[:1] != ("x",):
        return {}
    x = np.exp(rng.uniform(*np.log(ends), 80))
    near = [p * (1 + e) for p in (*formula.places["x"], 0.5, 1.0) for e in (0, 1e-12, -1e-12, 1e-8, -1e-8)]
    x = np.unique(np.clip([*x, *near, *ends], *ends))
    rows = [[]] if len(formula.names) == 1 else [[y] for y in (*domain["y"], rng.uniform(*domain["y"]))]
    least: dict[int, object] = {}
    with mpmath.workdps(DIGITS):
        t = [mpmath.log(mpmath.mpf(float(v))) for v in x]
        for row in rows:
            f = [v if isinstance(v := in_digits(program, [p, *row]), mpmath.mpf) else mpmath.nan for p in x]
            first = [(f[i + 1] - f[i]) / (t[i + 1] - t[i]) for i in range(len(t) - 1)]
            second = [2 * (first[i + 1] - first[i]) / (t[i + 2] - t[i]) for i in range(len(t) - 2)]
            for order, quotients in ((1, first), (2, second)):
                known = [q for q in quotients if mpmath.isfinite(q)]
                least[order] = min([*known, *([least[order]] if order in least else [])], default=mpmath.inf)
        found = {}
        for order, m in least.items():
            size = max(abs(float(m)), 1e-3)
            if size > 1e12:
                continue
            for kind, c in (
                ("false", float(m) + (1e-9, 1e-6, 1e-3)[seed % 3] * size),
                ("likely", float(m) - 0.2 * size),
            ):
                if kind == "likely" or m < mpmath.mpf(c):
                    statement = replace(inequality, terms=((0, order, float(order)),), constant=-c)
                    tree, point = subdivide(statement, boxes)
                    found[f"{kind} {order}"] = point is None and not (tree.kind[: tree.count] == UNDECIDED).any()
    return found


def tried(seed: int, boxes: int) -> dict:
    formula = Formula(seed)
    entry = {"seed": seed, "formula": formula.text, "domain": formula.domain}
    try:
        specs = [jax.ShapeDtypeStruct((), np.float64)] * len(formula.names)
        program = exact_program(formula.code, *specs)
        x = formula.sample()
        with np.errstate(all="ignore"):
            values = np.broadcast_to(run_on_numpy(program, list(x))[0], x.shape[1]).astype(float)
        nowhere = np.flatnonzero(np.isnan(values))
        undefined = next((k for k in nowhere[:20] if in_digits(program, x[:, k]) is None), None)
        finite = values[np.isfinite(values)]
        low = float(finite.min()) if finite.size else 0.0
        size = max(1e-300, abs(low), float(np.median(np.abs(finite)))) if finite.size else 1.0
        below = low - 0.1 * size - 1e-3 * max(1.0, size)
        if undefined is not None:
            entry |= {"kind": "undefined", "at": x[:, undefined].tolist()}
            return entry | {"outcome": _proof(formula, below, boxes).outcome}
        place = x[:, int(np.nanargmin(np.where(np.isfinite(values), values, np.inf)))]
        exact = in_digits(program, place)
        if exact not in (None, "?"):
            c = float(exact) + random.Random(seed).choice([1e-12, 1e-9, 1e-6, 1e-3]) * size
            if exact < mpmath.mpf(c):
                entry |= {"false": _proof(formula, c, boxes).outcome, "c": c, "at": place.tolist()}
                entry["strict"] = dftfd.prove(_strict(formula, c), domain=formula.domain, boxes=boxes).outcome
        if formula.domain["x"][1] > 1e-200:
            entry["slopes"] = slopes(formula, program, seed, boxes)
        proof = _proof(formula, below, boxes)
        entry |= {"kind": "likely", "outcome": proof.outcome, "below": below}
        if proof.proved:
            entry["rechecked"] = list(proof.recheck(1.0))
    except DftfdError as error:
        entry |= {"kind": entry.get("kind", "refused"), "outcome": "refused", "reason": str(error)[:160]}
    except Exception as error:  # noqa: BLE001  counted as an error of the prover
        entry |= {"kind": "raw", "outcome": "raw", "reason": f"{type(error).__name__}: {error}"[:160]}
    return entry


def wrong(entry: dict) -> bool:
    if entry["kind"] == "raw":
        return True
    if entry.get("strict") == "proved" or any(v for k, v in entry.get("slopes", {}).items() if k.startswith("false")):
        return True
    return entry.get("false") == "proved" or (entry["kind"] == "undefined" and entry["outcome"] == "proved")


def summary(entries: list[dict]) -> str:
    false = [e for e in entries if "false" in e]
    undefined = [e for e in entries if e["kind"] == "undefined"]
    likely = [e for e in entries if e["kind"] == "likely"]
    proved = [e for e in likely if e["outcome"] == "proved"]
    held, total = (sum(e.get("rechecked", (0, 0))[k] for e in proved) for k in (0, 1))
    count = lambda among, key, value: sum(e[key] == value for e in among)
    strict = [e for e in entries if "strict" in e]
    of_slopes = lambda kind: [v for e in entries for k, v in e.get("slopes", {}).items() if k.startswith(kind)]
    false_slopes, likely_slopes = of_slopes("false"), of_slopes("likely")
    return (
        f"{len(entries)} formulas: {len(false)} false statements, {count(false, 'false', 'proved')} proved; "
        f"{len(undefined)} with undefined points, {count(undefined, 'outcome', 'proved')} proved; "
        f"{len(strict)} false ones with a strict comparison, {count(strict, 'strict', 'proved')} proved; "
        f"{len(false_slopes)} false ones about derivatives, {sum(false_slopes)} proved, "
        f"{sum(likely_slopes)} of {len(likely_slopes)} likely ones; "
        f"{len(likely)} likely ones, {len(proved)} proved, {held} of {total} boxes rechecked in a second each; "
        f"{count(entries, 'outcome', 'refused')} refused, {count(entries, 'kind', 'raw')} raw errors"
    )


def stored() -> list[dict]:
    return list(map(json.loads, RECORD.read_text().splitlines())) if RECORD.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--boxes", type=int, default=400)
    parser.add_argument("--summary", action="store_true", help="count what is in the record and end")
    given = parser.parse_args()
    done = {entry["seed"] for entry in stored()}
    if not given.summary:
        for seed in range(given.start, given.start + given.count):
            if seed in done:
                continue
            began = time.process_time()
            entry = tried(seed, given.boxes) | {"seconds": round(time.process_time() - began, 2)}
            with RECORD.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            if wrong(entry):
                print("PROVED WRONGLY", json.dumps(entry), flush=True)
    print(summary(stored()))


if __name__ == "__main__":
    main()
