"""Pederson and Burke's grid search compared row by row: 260 functionals of libxc, five to seven local conditions each.

    python -m tests.verification.grid_search SEARCH.csv [--points N] [--again] [NAME ...]

SEARCH.csv is analysis/local_conditions/data/comprehensive_search.csv of github.com/pedersor/DFT_exconditions. Each row
says whether a grid of r_s from 1e-4 to 5, s and alpha from 0 to 5, q from -10 to 10, zeta from 0 to 1 holds a violation
larger than a tolerance, and in which ranges. Here the left side is enclosed by intervals at random points, of the whole
domain, and of the ranges where there is a violation: a negative upper end is a violation, whatever rounding does. What
disagrees is computed once more in 150 digits. One line of JSON a row in data/proofs/grid_search.jsonl; functionals that
stand there are not done again. docs/proofs.md shows the outcome.

Exchange and correlation that are one formula (names with _xc_) are parted as there: F_x is F_xc at r_s / 5000.
"""

import argparse
import ast
import csv
import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

import dftfd
from dftfd.autofd.scalar.on_mpmath import mpmath
from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import DftfdError
from dftfd.verify.enclosures import Boxes, Dual, OnSeries
from dftfd.verify.extended import DIGITS, ExtendedEnergy
from dftfd.verify.factored import Factored
from dftfd.verify.inequality import UNDECIDED, Inequality, subdivide
from dftfd.verify.intervals import Interval, exactly
from dftfd.verify.local_conditions import CONDITIONS, FAR, LIEB_OXFORD, Gas, used_variables
from dftfd.verify.proofs import _coefficient, _enhancement
from dftfd.verify.statements import Energy

ROOT = Path(__file__).parents[2]
RECORD, PROOFS = (ROOT / "data/proofs" / name for name in ("grid_search.jsonl", "record.jsonl"))
NAMES = {
    "negativity_check": "ec_nonpositive",
    "deriv_lower_bd_check": "ec_scaling",
    "second_deriv_check": "uc_monotone",
    "lieb_oxford_bd_check_Uxc": "lieb_oxford",
    "lieb_oxford_bd_check_Exc": "lieb_oxford_exc",
    "deriv_upper_bd_check_1": "tc_upper",
    "deriv_upper_bd_check_2": "tc_conjecture",
}
DOMAIN = {"rs": (1e-4, 5.0), "s": (0.0, 5.0), "alpha": (0.0, 5.0), "q": (-10.0, 10.0), "zeta": (0.0, 1.0)}
STEPS = {"LDA": 5 / 9999, "GGA": 5 / 9999, "MGGA": 5 / 4999}
"""Of r_s in the grid; with a Laplacian 5 / 2999."""
BLOCK = 4096
DILUTION, TWO_ELECTRONS = 5000.0, 1.174
BOXES = 20_000
"""For a proof that the ranges of a violation that is not found hold none."""


def functional_of(name: str):
    """By its own name where it is registered, else libxc's formula."""
    return dftfd.get_functional(name if name in dftfd.list_functionals() else f"libxc:{name}")


def parts_of(name: str, with_exchange: bool) -> tuple[dict, float]:
    """({part: [(sign, functional, factor of r_s)]}, fraction of exact exchange)."""
    if "_xc_" in name:
        f = functional_of(name)
        fraction = sum(a for _, a in f.exact_exchange)
        f = f.semilocal_part
        return {"x": [(1, f, 1 / DILUTION)], "c": [(1, f, 1.0), (-1, f, 1 / DILUTION)]}, fraction
    parts, fraction = {"c": [(1, functional_of(name), 1.0)]}, 0.0
    if with_exchange:
        for partner in (name.replace("_c_", "_x_"), "hyb_" + name.replace("_c_", "_x_")):
            try:
                f = functional_of(partner)
            except DftfdError as error:
                reason = error
                continue
            parts["x"] = [(1, f.semilocal_part, 1.0)]
            return parts, sum(a for _, a in f.exact_exchange)
        raise reason
    return parts, fraction


class Rows:
    """The left sides of one functional's conditions."""

    def __init__(self, name: str, kind: str, with_exchange: bool):
        self.parts, self.fraction = parts_of(name, with_exchange)
        used = {v for terms in self.parts.values() for _, f, _ in terms for v in used_variables(f)} - {"zeta"}
        self.names = tuple(k for k in DOMAIN if k in used or k == "zeta")
        self.step = 5 / 2999 if "q" in used else STEPS[kind.removeprefix("HYB_")]
        self.algebra = Factored([Interval(*DOMAIN[k]) for k in self.names])
        self._variables = dict(zip(self.names, self.algebra.inputs, strict=True))
        self._polynomials: dict = {}

    def polynomial(self, part: str):
        if part not in self._polynomials:
            a, total = self.algebra, []
            for sign, f, factor in self.parts[part[0]]:
                rs = a.number(FAR * factor) if part == "c far" else a.mul(a.number(factor), self._variables["rs"])
                F = Gas(a, self._variables | {"rs": rs}, True).enhancement(Energy.of(f, 2))
                total.append(a.mul(a.number(float(sign)), F))
            self._polynomials[part] = total[0] if len(total) == 1 else a.add(*total)
        return self._polynomials[part]

    def constant(self, condition: str) -> float:
        known = CONDITIONS[condition].constant
        return known - TWO_ELECTRONS * self.fraction if known == LIEB_OXFORD else known

    def inequality(self, condition: str) -> Inequality:
        known = CONDITIONS[condition]
        program = self.algebra.program([self.polynomial(part) for part in known.parts])
        lo, hi = (np.array([DOMAIN[k][side] for k in self.names]) for side in (0, 1))
        terms = tuple((known.parts.index(part), k, c) for part, k, c in known.terms)
        return Inequality(program, self.names, lo, hi, terms, self.constant(condition))

    def tolerance(self, condition: str, rs):
        """What the search lets pass, in units of our left side."""
        found = {"ec_nonpositive": 1e-5, "ec_scaling": 1e-5 * rs / self.step, "uc_monotone": 1e-3 * rs}
        return found.get(condition, 5e-4 if condition == "tc_conjecture" else 1e-3) + 0 * rs

    def in_digits(self, condition: str, point: dict) -> str:
        """The left side at a point, from the formulas as they stand."""
        with mpmath.workdps(DIGITS):
            total = mpmath.mpf(self.constant(condition))
            for part, order, coefficient in CONDITIONS[condition].terms:
                for sign, f, factor in self.parts[part[0]]:
                    energy = ExtendedEnergy(f, 2)
                    rs = mpmath.mpf(FAR if part == "c far" else point["rs"]) * factor
                    F = lambda t, energy=energy, rs=rs: _enhancement(energy, point, rs * mpmath.exp(t), 2)
                    total += sign * coefficient * _coefficient(F, order)
            return mpmath.nstr(total, 12)


def points(names, ends: dict, count: int, seed: int) -> np.ndarray:
    """Random points (variable, point) of ranges; half evenly in ln r_s, a quarter at least zeta, some at least s."""
    rng = np.random.default_rng(seed)
    lo, hi = (np.array([ends[k][side] for k in names])[:, None] for side in (0, 1))
    u = rng.uniform(size=(len(names), count))
    u[-1, ::4] = 0.0
    if "s" in names:
        u[names.index("s"), 1::8] = 0.0
    x = lo + u * (hi - lo)
    a, b = np.log(lo[0]), np.log(hi[0])
    x[0, ::2] = np.exp(a + u[0, ::2] * (b - a))
    return np.clip(x, lo, hi)


def ranges_of(row: dict, names) -> dict | None:
    """Where the search found violations, None where there are none."""
    found = [ast.literal_eval(row[f"{k}_range"] or "None") for k in ("r_s", "s", "zeta", "alpha", "q")]
    if not found[0]:
        return None
    # of an LDA, which has no s, zeta stands in the column of s
    order = ("rs", "zeta") if row["dfa type"].endswith("LDA") else ("rs", "s", "zeta", "alpha", "q")
    ends = {k: ends for k, ends in zip(order, found, strict=False) if ends}
    return {k: tuple(np.clip(ends.get(k, DOMAIN[k]), *DOMAIN[k])) for k in names}


class AtPoints(OnSeries):
    """Series to second order at points (variable, point), where slopes along the variables are of no use."""

    def __init__(self, x):
        super().__init__(Boxes.of(x, x), 2)
        self.inputs = [[Dual(d.r, d.c, {}, self.boxes) for d in series] for series in self.inputs]
        self._radius, self._first = [self.inputs[0][0]], self.inputs[0]


def left_sides(rows: Rows, conditions, x) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Lower and upper ends of the left sides at points."""
    parts = tuple(dict.fromkeys(part for c in conditions for part in CONDITIONS[c].parts))
    program = rows.algebra.program([rows.polynomial(part) for part in parts])
    found: dict = {c: ([], []) for c in conditions}
    for start in range(0, x.shape[1], BLOCK):
        algebra = AtPoints(x[:, start : start + BLOCK])
        with np.errstate(all="ignore"):
            *outputs, (defined, _, _) = evaluate(program, algebra, algebra.inputs)
            series, known = dict(zip(parts, outputs, strict=True)), np.where(defined.lo == 1, 0.0, np.nan)
            for condition in conditions:
                total = exactly(rows.constant(condition))
                for part, order, coefficient in CONDITIONS[condition].terms:
                    if order < len(series[part]):
                        total = total + series[part][order].r * exactly(coefficient)
                for ends, side in zip(found[condition], (total.lo, total.hi), strict=True):
                    ends.append(np.broadcast_to(side + known, algebra.boxes.sides[0].lo.shape))
    return {c: tuple(map(np.hstack, ends)) for c, ends in found.items()}


def compared(rows: Rows, row: dict, x, sides, count: int) -> dict:
    """One row's outcome: the largest violation, in units of the tolerance, and where. The first `count` points are
    those of the whole domain."""
    condition = NAMES[row["condition"]]
    lower, upper = sides
    below = -upper / rows.tolerance(condition, x[0])
    on_grid = x[0] > DOMAIN["rs"][0] + 4 * rows.step  # the search leaves out its first points
    surely = np.where(np.isnan(below), -np.inf, below)
    place = int(np.argmax(np.where(on_grid, surely, -np.inf)))
    if surely[place] <= 1:
        place = int(np.argmax(surely))
    found = {
        "violated": bool((surely > 0).any()), "beyond": bool((surely > 1).any()),
        "on grid": bool((surely[on_grid] > 1).any()), "unknown": int(np.isnan(lower).sum()),
        "fraction": float((surely[:count] > 1).mean()),
    }  # fmt: skip
    if np.isfinite(surely[place]):
        point = dict(zip(rows.names, map(float, x[:, place]), strict=True))
        found |= {"point": point, "left side": float(upper[place]), "of tolerance": float(surely[place])}
        if found["beyond"] == (row["satisfied"] == "True"):
            found["in digits"] = rows.in_digits(condition, point)
    where = ranges_of(row, rows.names)
    if where is not None and not found["violated"]:
        inequality = rows.inequality(condition)
        ends = [np.array([where[k][side] for k in rows.names]) for side in (0, 1)]
        tree, negative = subdivide(replace(inequality, lo=ends[0], hi=ends[1]), BOXES)
        kinds = tree.kind[: tree.count]
        found["proved in their ranges"] = negative is None and not (kinds == UNDECIDED).any()
    return found


def entries_of(name: str, table: list[dict], count: int) -> list[dict]:
    """One line for each row of a functional."""
    entries = [
        {"functional": name, "condition": NAMES[row["condition"]], "theirs": row["satisfied"] == "True",
         "their fraction": float(row["fraction violated"])}
        for row in table
    ]  # fmt: skip
    try:
        rows = Rows(name, table[0]["dfa type"], any("lieb" in row["condition"] for row in table))
        where = [ranges_of(row, rows.names) for row in table]
        x = [points(rows.names, DOMAIN, count, 7)]
        x = np.hstack([*x, *(points(rows.names, ends, count // 4, 8) for ends in where if ends is not None)])
        sides = left_sides(rows, [entry["condition"] for entry in entries], x)
        for entry, row in zip(entries, table, strict=True):
            entry |= compared(rows, row, x, sides[entry["condition"]], count)
    except Exception as error:  # noqa: BLE001  what cannot be compared is listed with its reason
        reason = {"refused": f"{type(error).__name__}: {error}"[:200]}
        entries = [entry | reason for entry in entries]
    return entries


def run(table: list[dict], names, count: int, again: bool) -> None:
    by_name = defaultdict(list)
    for row in table:
        by_name[row["xc id"]].append(row)
    done = set() if again else {entry["functional"] for entry in stored()}
    for name in [n for n in by_name if (not names or n in names) and n not in done]:
        entries = entries_of(name, by_name[name], count)
        with RECORD.open("a") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in entries))
        print(name, [e.get("refused", outcome(e)) for e in entries], flush=True)


def stored() -> list[dict]:
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    return list({(e["functional"], e["condition"]): e for e in map(json.loads, lines)}.values())


def outcome(entry: dict) -> str:
    """What a row's comparison comes to."""
    if "refused" in entry:
        return "not compared"
    if entry["theirs"]:
        if not entry["violated"]:
            return "satisfied there, no violation here"
        if not entry["beyond"]:
            return "satisfied there within the tolerance, violated by less here"
        return "satisfied there, violated by more here" if entry["on grid"] else "violated here next to r_s = 0 only"
    if entry["beyond"]:
        return "violated there and here"
    return "violated there and, by less than the tolerance, here" if entry["violated"] else "violated there, not here"


def page() -> str:
    """Counts, and the contradictions with a point each, in Markdown."""
    entries = stored()
    proofs = {(e["functional"], e["condition"]): e["outcome"] for e in map(json.loads, PROOFS.read_text().splitlines())}
    counts = Counter(map(outcome, entries))
    lines = [f"| {len(entries):,} rows | count |", "| --- | --- |"]
    lines += [f"| {what} | {number} |" for what, number in counts.most_common()]
    decided = [proofs.get((e["functional"], e["condition"])) for e in entries if e["theirs"]]
    violated = [proofs.get((e["functional"], e["condition"])) for e in entries if not e["theirs"]]
    lines += [
        "",
        f"Pairs proved above at zeta = 0: {decided.count('proved')} of the rows satisfied there, and "
        f"{violated.count('proved')} of those violated there at other zeta.",
        "",
        "| Functional | condition | there | here | at r_s, s, alpha, q, zeta | left side (tolerances) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(e) for e in entries if outcome(e) in CONTRADICTIONS]
    reasons = Counter(_reason(e["refused"]) for e in entries if "refused" in e)
    lines += ["", "Not compared: " + "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common()) + "."]
    return "\n".join(lines) + "\n"


CONTRADICTIONS = ("satisfied there, violated by more here", "violated there, not here")


def _line(entry: dict) -> str:
    """A contradiction; of a violation that is not found, the least left side."""
    point = entry.get("point", {})
    at = ", ".join(f"{point[k]:.4g}" if k in point else "-" for k in DOMAIN)
    there = "satisfied" if entry["theirs"] else f"{100 * entry['their fraction']:.2g} % of points"
    here = (
        "violated"
        if entry["theirs"]
        else "none in their ranges"
        if entry.get("proved in their ranges")
        else "not found"
    )
    value = f"{float(entry.get('in digits', entry.get('left side', 'nan'))):.2e}"
    amount = f" ({entry['of tolerance']:.2g})" if entry["theirs"] else ""
    return f"| {entry['functional']} | {entry['condition']} | {there} | {here} | {at} | {value}{amount} |"


def _reason(text: str) -> str:
    """What several rows have in common."""
    for sign, reason in (
        ("unknown functional", "a name that libxc 7 does not serve here"),
        ("NotInAlgebra", "an operation without an enclosure"),
        ("needs the source tree", "libxc's source tree was not given"),
    ):
        if sign in text:
            return reason
    return text.partition(": ")[2].rstrip(".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--points", type=int, default=8192)
    parser.add_argument("--again", action="store_true", help="what stands in the record, too")
    given = parser.parse_args()
    with given.search.open() as file:
        run(list(csv.DictReader(file)), given.names, given.points, given.again)


if __name__ == "__main__":
    main()
