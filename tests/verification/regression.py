"""All functionals against libxc, in about an hour. docs/regression.md shows the numbers.

    python -m tests.verification.regression [--resume] [--data FILE]

Exit code 1 says that a difference has no known cause.

Disagreements are explained in `explanations.json` beside the data, one entry for each cause: a list of
{"title": text, "why": text, "largest": {functional: {quantity: error}}}. A quantity is named as in a row, and may hold
a * for any letters; the error is the largest that the cause excuses. What is not explained is a failure.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import h5py
import jax
import numpy as np

from dftfd.errors import DftfdError, FileError, UnsupportedError
from dftfd.functionals.registry import get_functional, list_functionals
from dftfd.interop import libxc
from dftfd.runtime.files import check_writable
from dftfd.verify.check import check
from dftfd.verify.reports import Decision, Report, Row


@dataclass(frozen=True)
class Cause:
    """Why functionals differ from libxc, and by how much at most.

    largest: functional -> quantity, which may hold a * for any letters -> the largest error that this is the cause of.
    """

    title: str
    why: str
    largest: dict[str, dict[str, float]]

    def explains(self, name: str, row: Row) -> bool:
        """True for a row of the functional `name` that this is the cause of; not if its error is NaN."""
        limits = self.largest.get(name, {}).items()
        return any(fnmatchcase(row.quantity, quantity) and row.error <= limit for quantity, limit in limits)


@dataclass(frozen=True)
class Comparisons:
    """What a data file holds.

    reports: by functional.   skipped: why a functional was not compared.   version: libxc's.
    missing: names of functionals that were neither compared nor skipped.
    """

    reports: dict[str, Report]
    skipped: dict[str, str]
    version: str
    missing: tuple[str, ...] = ()


def check_all(data: Path, **options) -> bool:
    """Compare every functional with libxc and write `data` (HDF5). True if nothing is unexplained.

    options: of `compare_all`. The causes of disagreements are in explanations.json beside data.
    """
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {data}: {error.strerror}: {error.filename}.") from error
    check_writable(data)
    return not unexplained(compare_all(data, **options), explanations(data.parent / "explanations.json"))


def compare_all(
    data: Path, tell: Callable[[str], None] = lambda text: None, names=None, resume: bool = False, **options
) -> Comparisons:
    """Compare functionals with libxc one by one; each result is in `data` (HDF5) as soon as it is there.

    names: functionals to compare, all by default; the results of others stay as they are in `data`.   resume: leave
    out what is in `data` already.   tell: told one line for each functional.   options: of `dftfd.check`.
    """
    with h5py.File(data, "a" if names or resume else "w") as file:
        file.attrs["libxc"] = libxc.version()
    for name in names or distinct_names():
        start = time.perf_counter()
        with h5py.File(data) as file:
            if resume and name in file:
                continue
        try:
            report = check(name, **options)
            result: Report | str = report
            verdict = "passed" if report.passed else f"{len(report.failures)} rows differ"
        except UnsupportedError as error:
            result = str(error)
            verdict = f"not compared: {error}"
        with h5py.File(data, "a") as file:
            write(file, name, result)
        tell(f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)")
        jax.clear_caches()  # a process may have 65,530 memory maps; the programs of a hundred functionals take more
    return read(data)


def distinct_names() -> list[str]:
    """Registered names without second names of the same sum of terms and without those that libxc lacks.

    It has no local hybrids and no perturbation theory.
    """
    seen, names = set(), []
    for name in sorted(list_functionals(), key=lambda n: (not libxc.is_known(n), n)):
        f = get_functional(name)
        key = (tuple((c, t.name, repr(sorted(t.parameters.items()))) for c, t in f.terms), f.exact_exchange)
        if key not in seen and not f.exact_exchange_ranges and not f.pt2:
            seen.add(key)
            names.append(name)
    return sorted(names)


def explanations(path: Path) -> list[Cause]:
    """The causes in a file; none where there is no such file."""
    entries = json.loads(path.read_text()) if path.exists() else []
    return [Cause(e["title"], e["why"], e["largest"]) for e in entries]


def cause_of(name: str, row: Row, causes: list[Cause]) -> Cause | None:
    """The cause of a row of the functional `name` that failed, None if it is not known."""
    return next((cause for cause in causes if cause.explains(name, row)), None)


def unexplained(comparisons: Comparisons, causes: list[Cause]) -> list[tuple[str, Row]]:
    """Pairs (functional, row) of what failed without a cause."""
    failed = [(name, row) for name, report in comparisons.reports.items() for row in report.failures]
    return [(name, row) for name, row in failed if cause_of(name, row, causes) is None]


# ---- the file


def write(file: h5py.File, name: str, result: Report | str) -> None:
    """A table of a functional: quantity, spins, largest error, its place, tolerance, and what decided each row.

    decision: ours, reference, is_rounding of `dftfd.verify.reports.Decision`, NaN where there was none.
    result: a report, or the reason why there is none.
    """
    if name in file:
        del file[name]
    if isinstance(result, str):
        file.create_group(name).attrs["skipped"] = result
        return
    rows = result.rows
    decisions = [(np.nan,) * 3 if row.decision is None else astuple(row.decision) for row in rows]
    columns = {key: np.array([getattr(row, key) for row in rows]) for key in ("n_spin", "error", "tolerance")}
    columns |= {key: np.array([getattr(row, key) for row in rows], dtype="S") for key in ("quantity", "where")}
    columns["decision"] = np.array(decisions, dtype=float)
    table = np.empty(len(rows), dtype=[(key, c.dtype, c.shape[1:]) for key, c in columns.items()])
    for key, column in columns.items():
        table[key] = column
    dataset = file.create_dataset(name, data=table, compression="gzip")
    dataset.attrs["reference"], dataset.attrs["notes"] = result.reference, "\n".join(result.notes)


def read(data: Path) -> Comparisons:
    """What `compare_all` has written."""
    reports, skipped = {}, {}
    with h5py.File(data) as file:
        for name, entry in file.items():
            if "skipped" in entry.attrs:
                skipped[name] = entry.attrs["skipped"]
            else:
                notes = tuple(entry.attrs["notes"].split("\n")) if entry.attrs["notes"] else ()
                reports[name] = Report(name, entry.attrs["reference"], tuple(map(_row, entry[()])), notes)
        missing = tuple(name for name in distinct_names() if name not in file)
        return Comparisons(reports, skipped, file.attrs["libxc"], missing)


def _row(entry) -> Row:
    ours, reference, is_rounding = map(float, entry["decision"])
    decision = None if np.isnan(is_rounding) else Decision(ours, reference, bool(is_rounding))
    numbers = int(entry["n_spin"]), float(entry["error"]), entry["where"].decode(), float(entry["tolerance"])
    return Row(entry["quantity"].decode(), *numbers, decision)


def main(arguments=None) -> int:
    """Compare all functionals; returns the exit code."""
    parser = argparse.ArgumentParser(prog="regression", description="Compare every functional with libxc.")
    default = Path(__file__).parents[2] / "data/regression/libxc.h5"
    parser.add_argument("--data", type=Path, default=default, help="HDF5 file for all errors")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run ended")
    given = parser.parse_args(arguments)
    try:
        return 0 if check_all(given.data, tell=print, resume=given.resume) else 1
    except DftfdError as error:
        print(f"regression: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
