"""The comparison of all functionals with libxc, and the page on it, docs/regression.md.

    python -m tests.verification.regression_page [--resume] [--data FILE] [--page FILE]

takes about an hour. Exit code 1 says that a difference has no known cause.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from dftfd.errors import DftfdError, FileError
from dftfd.runtime.files import check_writable, write_text
from dftfd.verify.reports import Report, Row
from tests.verification.regression import Cause, Comparisons, cause_of, compare_all, explanations, unexplained

_COLUMNS = {"energy": "e,", "1st": "de", "2nd": "d2", "3rd": "d3", "v(r)": "v_xc", "matrix": "matrix"}

_ROW_HEAD = (
    "| functional | quantity | spins | difference | dftfd off by | libxc off by | at |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def check_all(data: Path, page: Path, **options) -> bool:
    """Compare every functional with libxc; write `data` (HDF5) and `page` (Markdown). True if nothing is unexplained.

    options: of `tests.verification.regression.compare_all`. The causes of disagreements are in
    explanations.json beside data.
    """
    for path in (data, page):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}: {error.filename}.") from error
        check_writable(path)
    comparisons, causes = compare_all(data, **options), explanations(data.parent / "explanations.json")
    write_text(page, as_page(comparisons, causes))
    return not unexplained(comparisons, causes)


def as_page(comparisons: Comparisons, causes: list[Cause]) -> str:
    """Counts, a chart, each cause with its differences, what was not compared, and the tables, folded."""
    sections = [
        _introduction(comparisons, causes),
        _causes(comparisons.reports, causes),
        _not_explained(unexplained(comparisons, causes)),
        _not_compared(comparisons),
        _tables(comparisons.reports),
    ]
    return "\n".join(line for section in sections for line in section)


def _introduction(comparisons, causes):
    reports = comparisons.reports
    rows = [row for report in reports.values() for row in report.rows]
    decided = sum(len(report.decided) for report in reports.values())
    failed, unknown = sum(len(report.failures) for report in reports.values()), unexplained(comparisons, causes)
    count = lambda test: sum(bool(test(report)) for report in reports.values())
    return [
        "# Regression against libxc",
        "",
        "Each functional of dftfd is compared with the same functional of libxc: the energy and its derivatives to",
        "third order at dense, dilute and strongly polarised points, with one and two spins, then the potential in",
        "space and its matrix. If the two codes differ by more than the tolerance, 150-digit arithmetic decides which",
        "of them is wrong.",
        "",
        f"The last comparison was made with libxc {comparisons.version}:",
        "",
        "| | functionals | quantities |",
        "| --- | --- | --- |",
        f"| compared | {len(reports)} | {len(rows)} |",
        f"| potential and matrix compared | {count(_has_potential)} | |",
        f"| agree with libxc throughout | {count(_agrees)} | {sum(row.agrees for row in rows)} |",
        f"| differ by libxc's rounding, dftfd within the tolerance | {count(lambda r: r.decided)} | {decided} |",
        f"| differ for one of the causes below | {count(lambda r: r.failures)} | {failed - len(unknown)} |",
        f"| differ without a known cause | {len({name for name, _ in unknown})} | {len(unknown)} |",
        f"| not compared | {len(comparisons.skipped)} | |",
        "",
        "A functional is counted in every row that applies to it. Second names of the same functional are left out.",
        "",
        "<!-- run",
        "from tests.verification import charts",
        "",
        "charts.against_libxc()",
        "-->",
        "`dftfd check NAME` repeats the comparison for one functional. `make regression` repeats all of it in about an",
        "hour and writes data/regression/libxc.h5 and this page.",
        "[Comparison with libxc](functionals.md#comparison-with-libxc) defines the errors, the points and the",
        "tolerances. libxc's density thresholds are lowered for the comparison at points, because they change TPSS and",
        "SCAN-L at every density.",
        "",
    ]


def _causes(reports, causes):
    """Differences with a known cause, each with the number of quantities, the largest one, and all of them folded."""
    lines = [
        "## Where libxc is wrong or loses digits",
        "",
        "These differences are larger than rounding. [Tests](../tests/test_libxc_faults.py) show each of them by",
        "comparing libxc with itself or with a separate calculation. Each cause has a limit for each quantity, about",
        "twice the largest difference found (data/regression/explanations.json). A larger difference counts as",
        "unexplained, and the test fails.",
        "",
        "Some constants differ from those of the papers, in libxc or in both codes.",
        "[Functionals](functionals.md#where-libxc-is-followed-against-the-paper) lists them.",
        "",
    ]
    failures = [(name, row, cause_of(name, row, causes)) for name, report in reports.items() for row in report.failures]
    for cause in causes:
        if rows := [(name, row) for name, row, found in failures if found is cause]:
            title = f"Differences: {len(rows)}, of {', '.join(dict.fromkeys(name for name, _ in rows))}"
            lines += [f"### {cause.title}", "", cause.why, "", *_folded(title, _shown(rows)), ""]
    return lines if any(cause for *_, cause in failures) else []


def _not_explained(rows):
    return ["## Differences without a known cause", "", *_shown(rows), ""] if rows else []


def _not_compared(comparisons):
    lines = [
        "## Not compared",
        "",
        "Exact exchange and nonlocal correlation have no values at points. Models of the potential have no energy, and",
        "tests/test_library_potentials.py compares them with libxc's potentials.",
        "",
        *_folded("Names and reasons", [f"- {name}: {reason}" for name, reason in comparisons.skipped.items()]),
        "",
    ]
    if comparisons.missing:
        lines += [f"The data do not hold {', '.join(comparisons.missing)} yet.", ""]
    return lines


def _tables(reports):
    decided = [(name, row) for name, report in reports.items() for row in report.decided]
    return [
        "## All numbers",
        "",
        "Errors are relative where a quantity is large, and in units of its natural size where it is small.",
        "",
        *_folded("Largest difference of each functional", _table(reports)),
        "",
        *_folded(f"Rounding in libxc: {len(decided)} differences decided in 150 digits", _decided(decided)),
        "",
    ]


def _table(reports):
    lines = [
        "`v(r)` is the potential in space and `matrix` the error of the XC matrix in hartree, empty where they were",
        "not compared. *Decided*: 150-digit arithmetic finds rounding in libxc and dftfd within the tolerance.",
        "*Differs*: for one of the causes above.",
        "",
        "| functional | " + " | ".join(_COLUMNS) + " | verdict |",
        "| --- |" + " --- |" * (len(_COLUMNS) + 1),
    ]
    for name, report in reports.items():
        cells = [_largest(report, start) for start in _COLUMNS.values()]
        verdict = "" if _agrees(report) else "decided" if report.passed else "differs"
        lines.append(f"| {name} | {' | '.join(cells)} | {verdict} |")
    return lines


def _decided(rows):
    return [
        "Errors of both codes against 150-digit arithmetic, at the two worst points of each quantity. Those of libxc",
        "change sign from point to point, as rounding errors do.",
        "",
        *_shown(rows),
    ]


def _folded(summary: str, lines: list[str]) -> list[str]:
    return ['<details markdown="1">', f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def _shown(rows: list[tuple[str, Row]]):
    return [*_ROW_HEAD, *(_line(name, row) for name, row in rows)]


def _line(name, row):
    ours, reference = ("", "") if row.decision is None else (row.decision.ours, row.decision.reference)
    cells = (f"{value:.0e}" if value != "" else "" for value in (row.error, ours, reference))
    return f"| {name} | {row.quantity} | {row.n_spin} | {' | '.join(cells)} | {row.where} |"


def _has_potential(report: Report) -> bool:
    return any(row.quantity.startswith("v_xc") for row in report.rows)


def _agrees(report: Report) -> bool:
    return all(row.agrees for row in report.rows)


def _largest(report: Report, start: str) -> str:
    errors = [row.error for row in report.rows if row.quantity.startswith(start)]
    return f"{np.max(errors):.0e}" if errors else ""


def main(arguments=None) -> int:
    """Compare all functionals; returns the exit code."""
    root = Path(__file__).parents[2]
    parser = argparse.ArgumentParser(prog="regression", description="Compare every functional with libxc.")
    parser.add_argument("--data", type=Path, default=root / "data/regression/libxc.h5", help="HDF5 file for all errors")
    parser.add_argument("--page", type=Path, default=root / "docs/regression.md", help="Markdown page of the outcome")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    given = parser.parse_args(arguments)
    try:
        return 0 if check_all(given.data, given.page, tell=print, resume=given.resume) else 1
    except DftfdError as error:
        print(f"regression: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
