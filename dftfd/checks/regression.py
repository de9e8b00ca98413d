"""All functionals against libxc: the numbers as HDF5, the outcome as a page.

Disagreements are explained one by one in `explanations.json` beside the data: a list of
{"functional": name, "quantity": beginning of the quantity's name, "why": text}. What is not explained is a failure.
"""

import json
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import h5py
import numpy as np

from dftfd.check import check
from dftfd.checks.referee import Decision
from dftfd.checks.report import Report, Row
from dftfd.errors import UnsupportedError
from dftfd.functionals.registry import get_functional, list_functionals
from dftfd.interop import libxc

_COLUMNS = {"energy": "e,", "1st": "de", "2nd": "d2", "3rd": "d3", "v(r)": "v_xc", "matrix": "matrix"}


def check_all(
    data: Path, page: Path, tell: Callable[[str], None] = lambda text: None, names=None, with_potentials: bool = True
) -> bool:
    """Compare every functional with libxc; write `data` (HDF5) and `page` (Markdown). True if nothing is unexplained.

    names: functionals to compare; the results of others stay as they are in `data`.   tell: told one line for each.
    with_potentials: see `dftfd.check`.
    """
    data.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(data, "a" if names else "w") as file:
        file.attrs["libxc"] = libxc.version()
        for name in names or distinct_names():
            start = time.perf_counter()
            try:
                report = check(name, with_potentials)
                write_report(file, report)
                verdict = "passed" if report.passed else f"{len(report.failures)} rows differ"
            except UnsupportedError as error:
                write_skipped(file, name, str(error))
                verdict = f"not compared: {error}"
            file.flush()
            tell(f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)")
        reports, skipped = read_reports(file)
    explained = explanations(data.parent / "explanations.json")
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


def write_report(file: h5py.File, report: Report) -> None:
    """A group: quantity, spins, largest error, tolerance and place of each comparison, and what decided it.

    decision: columns ours, reference, is_rounding of `dftfd.checks.referee.Decision`, NaN where there was none.
    """
    group = _new_group(file, report.name)
    group.attrs["reference"], group.attrs["notes"] = report.reference, "\n".join(report.notes)
    text, rows = h5py.string_dtype(), report.rows
    for column in ("quantity", "where"):
        group[column] = np.array([getattr(row, column) for row in rows], dtype=text)
    for column in ("n_spin", "error", "tolerance"):
        group[column] = np.array([getattr(row, column) for row in rows])
    decisions = [(np.nan,) * 3 if row.decision is None else astuple(row.decision) for row in rows]
    group["decision"] = np.array(decisions, dtype=float)


def write_skipped(file: h5py.File, name: str, reason: str) -> None:
    """A group that says why a functional was not compared."""
    _new_group(file, name).attrs["skipped"] = reason


def _new_group(file, name):
    if name in file:
        del file[name]
    return file.create_group(name)


def read_reports(file: h5py.File) -> tuple[dict[str, Report], dict[str, str]]:
    """(reports, reasons of those not compared) by functional."""
    reports, skipped = {}, {}
    for name, group in file.items():
        if "skipped" in group.attrs:
            skipped[name] = group.attrs["skipped"]
        else:
            notes = tuple(group.attrs["notes"].split("\n")) if group.attrs["notes"] else ()
            reports[name] = Report(name, group.attrs["reference"], tuple(_rows(group)), notes)
    return reports, skipped


def _rows(group):
    columns = [group["quantity"].asstr()[()], group["n_spin"][()], group["error"][()], group["where"].asstr()[()]]
    for quantity, n_spin, error, where, tolerance, (ours, reference, is_rounding) in zip(
        *columns, group["tolerance"][()], group["decision"][()], strict=True
    ):
        decision = None if np.isnan(is_rounding) else Decision(ours, reference, bool(is_rounding))
        yield Row(quantity, int(n_spin), float(error), where, float(tolerance), decision)


def as_page(reports: dict[str, Report], skipped: dict[str, str], explained) -> str:
    """The page: largest errors by functional, disagreements and their explanations, what was not compared."""
    tests = (_agrees, lambda r: r.decided, lambda r: r.failures)
    counts = [sum(bool(test(r)) for r in reports.values()) for test in tests]
    decided = sum(len(r.decided) for r in reports.values())
    lines = [
        "# Regression against libxc",
        "",
        f"`make regression` (or `dftfd check --all`) compares each functional with libxc {libxc.version()} and writes",
        "this page. The largest relative errors are listed, over dense, dilute and polarised points, with one and two",
        "spins; how errors are measured and which are allowed is said in `dftfd.check`. `v(r)` is the strong form of",
        "the potential, `matrix` the error of the matrix in hartree.",
        "",
        f"{len(reports)} functionals were compared, {counts[0]} agree everywhere, {counts[1]} differ where extended "
        f"precision finds rounding in libxc ({decided} quantities), {counts[2]} differ otherwise; {len(skipped)} have "
        "no counterpart.",
        "",
        "| functional | " + " | ".join(_COLUMNS) + " | |",
        "| --- |" + " --- |" * (len(_COLUMNS) + 1),
    ]
    for name, report in reports.items():
        cells = [_largest(report, start) for start in _COLUMNS.values()]
        verdict = "" if _agrees(report) else "decided" if report.passed else "differs"
        lines.append(f"| {name} | {' | '.join(cells)} | {verdict} |")
    lines += ["", "## Disagreements", ""]
    for name, report in reports.items():
        for row in report.failures:
            why = why_different(report, row, explained) or "**not explained yet**"
            lines.append(f"- {name}, {_shown(row)}. {why}")
    lines += [
        "",
        "## Decided in extended precision",
        "",
        "Differences between libxc and dftfd; the errors of each against 150-digit arithmetic at the two worst points",
        "of each quantity. libxc's change sign from point to point: they are rounding.",
        "",
        "| functional | quantity | spins | difference | dftfd off by | libxc off by | at |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, report in reports.items():
        for row in report.decided:
            errors = f"{row.error:.0e} | {row.decision.ours:.0e} | {row.decision.reference:.0e}"
            lines.append(f"| {name} | {row.quantity} | {row.n_spin} | {errors} | {row.where} |")
    lines += ["", "## Not compared", "", *(f"- {name}: {reason}" for name, reason in skipped.items()), ""]
    return "\n".join(lines)


def _agrees(report):
    return all(row.agrees for row in report.rows)


def _shown(row):
    where = f" at {row.where}" if row.where else ""
    text = f"{row.quantity} ({row.n_spin} spin): {row.error:.1e}{where}"
    if row.decision is None:
        return text
    return (
        f"{text}; in extended precision dftfd is off by {row.decision.ours:.0e}, libxc by {row.decision.reference:.0e}"
    )


def _largest(report, start) -> str:
    errors = [row.error for row in report.rows if row.quantity.startswith(start)]
    return f"{np.max(errors):.0e}" if errors else ""
