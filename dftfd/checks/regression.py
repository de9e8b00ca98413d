"""All functionals against libxc: the numbers as HDF5, the outcome as a page.

Disagreements are explained one by one in `explanations.json` beside the data: a list of
{"functional": name, "quantity": beginning of the quantity's name, "why": text}. What is not explained is a failure.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from dftfd.check import check
from dftfd.checks.report import Report
from dftfd.errors import UnsupportedError
from dftfd.functionals.registry import get_functional, list_functionals
from dftfd.interop import libxc

_COLUMNS = {"energy": "e,", "1st": "de", "2nd": "d2", "3rd": "d3", "v(r)": "v_xc", "matrix": "matrix"}


def check_all(data: Path, page: Path, tell: Callable[[str], None] = lambda text: None, names=None) -> bool:
    """Compare every functional with libxc; write `data` (HDF5) and `page` (Markdown). True if nothing is unexplained.

    names: functionals to compare instead of all.   tell: told one line for each.
    """
    reports, skipped = {}, {}
    for name in names or distinct_names():
        start = time.perf_counter()
        try:
            reports[name] = check(name)
        except UnsupportedError as error:
            skipped[name] = str(error)
            tell(f"{name}: not compared: {error}")
            continue
        verdict = "passed" if reports[name].passed else f"{len(reports[name].failures)} rows differ"
        tell(f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)")
    explained = explanations(data.parent / "explanations.json")
    data.parent.mkdir(parents=True, exist_ok=True)
    write_data(data, reports)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(as_page(reports, skipped, explained))
    return all(why_different(r, row, explained) for r in reports.values() for row in r.failures)


def distinct_names() -> list[str]:
    """Registered names without second names of the same sum of terms."""
    seen, names = set(), []
    for name in sorted(list_functionals(), key=lambda n: (not libxc.is_known(n), n)):
        f = get_functional(name)
        key = (tuple((c, t.name, repr(sorted(t.parameters.items()))) for c, t in f.terms), f.exact_exchange)
        if key not in seen:
            seen.add(key)
            names.append(name)
    return sorted(names)


def explanations(path: Path) -> list[dict]:
    """The explained disagreements; empty where there is no such file."""
    return json.loads(path.read_text()) if path.exists() else []


def why_different(report: Report, row, explained) -> str | None:
    """The explanation of a row that failed."""
    for entry in explained:
        if entry["functional"] == report.name and row.quantity.startswith(entry["quantity"]):
            return entry["why"]
    return None


def write_data(path: Path, reports: dict[str, Report]) -> None:
    """One group per functional: quantity, spins, largest error, tolerance and place of each comparison."""
    text = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs["libxc"] = libxc.version()
        for name, report in reports.items():
            group = file.create_group(name)
            group.attrs["reference"], group.attrs["notes"] = report.reference, "\n".join(report.notes)
            group["quantity"] = np.array([row.quantity for row in report.rows], dtype=text)
            group["n_spin"] = np.array([row.n_spin for row in report.rows])
            group["error"] = np.array([row.error for row in report.rows])
            group["tolerance"] = np.array([row.tolerance for row in report.rows])
            group["where"] = np.array([row.where for row in report.rows], dtype=text)


def as_page(reports: dict[str, Report], skipped: dict[str, str], explained) -> str:
    """The page: largest errors by functional, disagreements and their explanations, what was not compared."""
    agreeing = sum(report.passed for report in reports.values())
    lines = [
        "# Regression against libxc",
        "",
        f"`make regression` (or `dftfd check --all`) compares each functional with libxc {libxc.version()} and writes",
        "this page. The largest relative errors are listed, over dense, dilute and polarised points, with one and two",
        "spins; how errors are measured and which are allowed is said in `dftfd.check`. `v(r)` is the strong form of",
        "the potential, `matrix` the error of the matrix in hartree.",
        "",
        f"{len(reports)} functionals were compared, {agreeing} agree everywhere, {len(skipped)} have no counterpart.",
        "",
        "| functional | " + " | ".join(_COLUMNS) + " | |",
        "| --- |" + " --- |" * (len(_COLUMNS) + 1),
    ]
    for name, report in reports.items():
        cells = [_largest(report, start) for start in _COLUMNS.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {'' if report.passed else 'differs'} |")
    lines += ["", "## Disagreements", ""]
    for name, report in reports.items():
        for row in report.failures:
            why = why_different(report, row, explained) or "**not explained yet**"
            where = f" at {row.where}" if row.where else ""
            lines.append(f"- {name}, {row.quantity} ({row.n_spin} spin): {row.error:.1e}{where}. {why}")
    lines += ["", "## Not compared", "", *(f"- {name}: {reason}" for name, reason in skipped.items()), ""]
    return "\n".join(lines)


def _largest(report, start) -> str:
    errors = [row.error for row in report.rows if row.quantity.startswith(start)]
    return f"{np.max(errors):.0e}" if errors else ""
