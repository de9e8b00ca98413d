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
    """Numbers, largest errors by functional, disagreements by cause, what was decided, what was not compared."""
    sections = [
        _introduction(comparisons, causes),
        _table(comparisons.reports),
        *(_explained(cause, comparisons.reports, causes) for cause in causes),
        _not_explained(unexplained(comparisons, causes)),
        _decided(comparisons.reports),
        _not_compared(comparisons),
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
        f"`make regression` compares each functional with libxc {comparisons.version} and",
        "writes data/regression/libxc.h5 and this page. Errors are relative where a quantity is large and in units of",
        "its natural size where it is small; how they are measured, at which points, and which are allowed is said in",
        "[the comparison with libxc](functionals.md#comparison-with-libxc). libxc's thresholds are lowered where it is",
        "compared point by point: its own ones enter TPSS and SCAN-L at any density. Second names of the same sum are",
        "left out. Where libxc is wrong beyond rounding, [tests](../tests/test_libxc_faults.py) show it, by libxc",
        "against itself or by another calculation; where both follow another constant than the paper, or differ on",
        "purpose, is said in [functionals](functionals.md#where-libxc-is-followed-against-the-paper).",
        "",
        "| | functionals | quantities |",
        "| --- | --- | --- |",
        f"| compared | {len(reports)} | {len(rows)} |",
        f"| their potential and matrix, too | {count(_has_potential)} | |",
        f"| agree with libxc throughout | {count(_agrees)} | {sum(row.agrees for row in rows)} |",
        "| differ, extended precision finds rounding in libxc and dftfd within the tolerance | "
        f"{count(lambda r: r.decided)} | {decided} |",
        f"| differ for one of the causes below | {count(lambda r: r.failures)} | {failed - len(unknown)} |",
        f"| differ without a known cause | {len({name for name, _ in unknown})} | {len(unknown)} |",
        f"| not compared | {len(comparisons.skipped)} | |",
        "",
        "A functional can be in both of the classes that differ. A cause excuses differences up to a limit for each",
        "quantity, about twice what was found (data/regression/explanations.json in the source tree). Larger ones have",
        "no known cause.",
        "",
    ]


def _table(reports):
    lines = [
        "## Largest differences",
        "",
        "<!-- run",
        "from tests.verification import charts",
        "",
        "charts.against_libxc()",
        "-->",
        "Over dense, dilute and polarised points, with one and two spins. `v(r)` is the strong form of the potential,",
        "`matrix` the error of the matrix in hartree; where they are empty they were not compared. The verdict:",
        "nothing, all agree; *decided*, a difference is larger than the tolerance, 150-digit arithmetic finds libxc's",
        "rounding in it and dftfd within the tolerance; *differs*, for a cause that is named below.",
        "",
        "| functional | " + " | ".join(_COLUMNS) + " | verdict |",
        "| --- |" + " --- |" * (len(_COLUMNS) + 1),
    ]
    for name, report in reports.items():
        cells = [_largest(report, start) for start in _COLUMNS.values()]
        verdict = "" if _agrees(report) else "decided" if report.passed else "differs"
        lines.append(f"| {name} | {' | '.join(cells)} | {verdict} |")
    return [*lines, ""]


def _explained(cause, reports, causes):
    rows = [(n, row) for n, report in reports.items() for row in report.failures if cause_of(n, row, causes) is cause]
    return [f"## {cause.title}", "", cause.why, "", *_shown(rows), ""] if rows else []


def _not_explained(rows):
    return ["## Differences without a known cause", "", *_shown(rows), ""] if rows else []


def _decided(reports):
    return [
        "## Decided in extended precision",
        "",
        "Errors of both against 150-digit arithmetic, at the two worst points of each quantity. libxc's change sign",
        "from point to point: they are rounding.",
        "",
        *_shown([(name, row) for name, report in reports.items() for row in report.decided]),
        "",
    ]


def _not_compared(comparisons):
    lines = [
        "## Not compared",
        "",
        "Models of the potential are compared in tests/test_library_potentials.py, with libxc's potentials.",
        "",
        *(f"- {name}: {reason}" for name, reason in comparisons.skipped.items()),
        "",
    ]
    if comparisons.missing:
        lines += [f"The data do not hold {', '.join(comparisons.missing)} yet.", ""]
    return lines


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
