"""Pederson and Burke's grid search compared row by row: 260 functionals of libxc, five to seven local conditions each.

    python -m tests.verification.grid_search SEARCH.csv [--points N] [--again] [NAME ...]
    python -m tests.verification.grid_search --page

SEARCH.csv is analysis/local_conditions/data/comprehensive_search.csv of github.com/pedersor/DFT_exconditions. Each row
says whether a grid of r_s from 1e-4 to 5, s and alpha from 0 to 5, q from -10 to 10, zeta from 0 to 1 holds a violation
larger than a tolerance, and in which ranges. Here the left side is enclosed by intervals at random points, of the whole
domain, and of the ranges where there is a violation: a negative upper end is a violation, whatever rounding does. What
disagrees is computed once more in 150 digits. One line of JSON a row in data/proofs/grid_search.jsonl; functionals that
stand there are not done again. --page writes the table of docs/proofs.md.

Exchange and correlation that are one formula (names with _xc_) are parted as there: F_x is F_xc at r_s / 5000.
"""

import argparse
import ast
import csv
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

import dftfd
from dftfd.autofd.scalar.factored import Factored
from dftfd.autofd.scalar.intervals import Interval
from dftfd.autofd.scalar.on_mpmath import mpmath
from dftfd.errors import DftfdError
from dftfd.verify.exact_point import _coefficient, _enhancement
from dftfd.verify.extended import DIGITS, ExtendedEnergy
from dftfd.verify.inequality import Inequality
from dftfd.verify.local_conditions import CONDITIONS, FAR, LIEB_OXFORD, SEVEN, Gas, used_variables

ROOT = Path(__file__).parents[2]
RECORD, PROOFS, PAGE = (ROOT / p for p in ("data/proofs/grid_search.jsonl", "data/proofs/record.jsonl", "docs/proofs.md"))
BEGIN, END = (f"<!-- {word}: python -m tests.verification.grid_search --page -->" for word in ("from", "to"))
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
DILUTION, TWO_ELECTRONS = 5000.0, 1.174


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
        self._algebra = Factored([Interval(*DOMAIN[k]) for k in self.names])
        self._variables = dict(zip(self.names, self._algebra.inputs, strict=True))
        self._polynomials: dict = {}

    def polynomial(self, part: str):
        if part not in self._polynomials:
            a, total = self._algebra, []
            for sign, f, factor in self.parts[part[0]]:
                rs = a.number(FAR * factor) if part == "c far" else a.mul(a.number(factor), self._variables["rs"])
                F = Gas(a, self._variables | {"rs": rs}, True).enhancement(f, 2)
                total.append(a.mul(a.number(float(sign)), F))
            self._polynomials[part] = total[0] if len(total) == 1 else a.add(*total)
        return self._polynomials[part]

    def constant(self, condition: str) -> float:
        known = CONDITIONS[condition].constant
        return known - TWO_ELECTRONS * self.fraction if known == LIEB_OXFORD else known

    def inequality(self, condition: str) -> Inequality:
        known = CONDITIONS[condition]
        program = self._algebra.program([self.polynomial(part) for part in known.parts])
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
    """Random points (variable, point) of ranges; half evenly in ln r_s, a quarter at the least zeta, some at least s."""
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


def compared(rows: Rows, row: dict, count: int) -> dict:
    """One row's outcome: the largest violation, in units of the tolerance, and where."""
    condition = NAMES[row["condition"]]
    inequality, where = rows.inequality(condition), ranges_of(row, rows.names)
    x = points(rows.names, DOMAIN, count, 7)
    if where is not None:
        x = np.hstack([x, points(rows.names, where, count, 8)])
    least, most = [], []
    for k in range(0, x.shape[1], 4096):
        block = x[:, k : k + 4096]
        side = inequality.enclosed(block, block).r
        least.append(np.asarray(side.lo))
        most.append(np.asarray(side.hi))
    lower, upper = np.hstack(least), np.hstack(most)
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
    if found["violated"]:
        point = dict(zip(rows.names, map(float, x[:, place]), strict=True))
        found |= {"point": point, "left side": float(upper[place]), "of tolerance": float(surely[place])}
        if found["beyond"] == (row["satisfied"] == "True"):
            found["in digits"] = rows.in_digits(condition, point)
    return found


def run(table: list[dict], names, count: int, again: bool) -> None:
    by_name = defaultdict(list)
    for row in table:
        by_name[row["xc id"]].append(row)
    done = set() if again else {entry["functional"] for entry in stored()}
    for name in [n for n in by_name if (not names or n in names) and n not in done]:
        entries, kind = [], by_name[name][0]["dfa type"]
        with_exchange = any("lieb" in row["condition"] for row in by_name[name])
        rows = problem = None
        try:
            rows = Rows(name, kind, with_exchange)
        except Exception as error:  # noqa: BLE001  what cannot be compared is listed with its reason
            problem = f"{type(error).__name__}: {error}"[:200]
        for row in by_name[name]:
            entry = {"functional": name, "condition": NAMES[row["condition"]], "theirs": row["satisfied"] == "True"}
            entry["their fraction"] = float(row["fraction violated"])
            try:
                entry |= compared(rows, row, count) if rows else {"refused": problem}
            except Exception as error:  # noqa: BLE001
                entry["refused"] = f"{type(error).__name__}: {error}"[:200]
            entries.append(entry)
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
    proved = [e for e in entries if proofs.get((e["functional"], e["condition"])) == "proved"]
    wrong = sum(not e["theirs"] for e in proved)
    lines += ["", f"{len(proved)} rows are of pairs proved above at zeta = 0; {wrong} of them are violated there."]
    return "\n".join(lines) + "\n"


def write_page() -> None:
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{page()}{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--points", type=int, default=8192)
    parser.add_argument("--again", action="store_true", help="what stands in the record, too")
    parser.add_argument("--page", action="store_true", help="write the table of the page and end")
    given = parser.parse_args()
    if given.page:
        write_page()
        return
    with given.search.open() as file:
        run(list(csv.DictReader(file)), given.names, given.points, given.again)


if __name__ == "__main__":
    main()
