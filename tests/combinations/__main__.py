"""Random combinations of features, each checked in an independent way: `python -m tests.combinations --minutes 30`.

Outcomes: right, refused (a typed error in one line), unconverged, soft (orbitals turn at no cost, as in OH), rough (the
differences that would decide contradict each other), slow, inapplicable; defects are wrong (a number disagrees), raw
(any other exception) and table (refused though the table of what is supported offers it, or the other way round). Each
line of the record is a case, so that it can be run again: `--again FILE`. Seconds are those of the processor.
`--summary FILE ...` counts what records hold, and with --save writes data/reliability/combinations.json.
"""

import argparse
import collections
import itertools
import json
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from dftfd.errors import DftfdError, NotConvergedError, NumericalError, ResourceError
from tests.combinations.cases import PROPERTIES, Case, draw
from tests.combinations.checks import CHECKS
from tests.combinations.differences import SCALES, Difference, Trial, judged
from tests.combinations.own import know_own
from tests.combinations.solving import Inapplicable, softness
from tests.combinations.table import disagrees

DEFECTS = ("wrong", "raw", "table")
SUMMARY = Path(__file__).parents[2] / "data" / "reliability" / "combinations.json"
SECOND_ORDER = (
    "hessian", "polarizability", "dynamic_polarizability", "infrared", "excited_forces", "excited_dipole",
    "excitations",
)  # fmt: skip
SOFT = 0.01
"""Hessian eigenvalue [hartree] below which an SCF's own thresholds decide differences between calculations."""


class TooLong(Exception):
    """A case took more than its time."""


def outcome(case: Case, seconds: float = 60.0) -> tuple[str, str]:
    """(outcome, in words) of a case."""

    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            know_own(case.xc)
            return _compared(case)
    except Inapplicable:
        return "inapplicable", ""
    except TooLong:
        return "slow", f"more than {seconds:g} s"
    except (NotConvergedError, NumericalError, ResourceError) as error:
        return "unconverged", str(error)
    except Exception as error:  # noqa: BLE001  any other exception is the defect that is looked for
        return "raw", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _otherwise(case: Case, what: str):
    """The same comparison with other steps, or a finer grid where turning is looked at: its scale, and all of it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 600.0)
    for Trial.number in range(1, len(SCALES)):
        try:
            found = [c for c in CHECKS[case.property](case) if c[0] == what]
        except (TooLong, DftfdError):
            continue
        finally:
            scale, Trial.number = SCALES[Trial.number], 0
        if found:
            yield scale, found[0]


def _difference(got, expected) -> float:
    return float(np.abs(np.asarray(got) - np.asarray(expected)).max(initial=0.0))


def _tried_again(case: Case, comparison) -> tuple[str, str]:
    """The verdict on a comparison that is off, by all steps or by finer grids."""
    what, got, expected, tolerance, *error = comparison
    if error:
        tried = [(1.0, comparison), *_otherwise(case, what)]
        verdict, words = judged([Difference(scale, c[2], c[3], c[4]) for scale, c in tried], got)
        return verdict, f"{what}: {words}"
    passes = (_difference(*c[1:3]) <= tolerance for _, c in _otherwise(case, what))
    return ("right", f"{what}: by a finer grid") if any(passes) else ("wrong", "")


def _compared(case: Case) -> tuple[str, str]:
    """The outcome of a case that ends without an exception, or with a refusal."""
    worst = rough = ""
    try:
        for comparison in CHECKS[case.property](case):
            what, got, expected, tolerance, *_ = comparison
            difference = _difference(got, expected)
            if not difference <= tolerance:
                if case.property in SECOND_ORDER and softness(case) < SOFT:
                    return "soft", f"{what}: off by {difference:.2e} where orbitals turn at no cost"
                verdict, words = _tried_again(case, comparison)
                if verdict == "wrong":
                    return "wrong", words or f"{what}: off by {difference:.2e}, within {tolerance:.1e} expected"
                rough = rough or (words if verdict == "rough" else "")
                worst = worst or words
            worst = worst or f"{what}: {difference:.1e}"
    except (NotConvergedError, NumericalError, ResourceError):
        raise
    except DftfdError as error:
        if "\n" in str(error) or (words := disagrees(case, error)):
            return ("raw", str(error)) if "\n" in str(error) else ("table", words)
        return "refused", f"{type(error).__name__}: {error}"
    if words := disagrees(case, None):
        return "table", words
    return ("rough", rough) if rough else ("right", worst)


def shrunk(case: Case, found: str) -> Case:
    """The simplest case with the same defect, one thing taken away at a time."""
    for simpler in case.simpler():
        if outcome(simpler)[0] == found:
            return shrunk(simpler, found)
    return case


def summary(lines: list[dict]) -> dict:
    """Counts of a record; those that have nothing to compare apart."""
    compared = [line for line in lines if line["outcome"] != "inapplicable"]
    by_property = collections.defaultdict(collections.Counter)
    for line in compared:
        by_property[line["case"]["property"]][line["outcome"]] += 1
    return {
        "cases": len(compared),
        "outcomes": dict(collections.Counter(line["outcome"] for line in compared).most_common()),
        "nothing to compare": len(lines) - len(compared),
        "calculations": len({line["case"]["seed"] for line in compared}),
        "seeds": sorted({line["seed"] for line in lines if line.get("seed") is not None}),
        "processor time [s]": round(sum(line["seconds"] for line in lines)),
        "slowest [s]": max((line["seconds"] for line in lines), default=0.0),
        "properties": {name: dict(counts.most_common()) for name, counts in sorted(by_property.items())},
    }


def _read(path: Path) -> list[dict]:
    """Lines of a record, or cases alone."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line if "case" in line else {"case": line} for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100000, help="cases that have something to compare")
    parser.add_argument("--each", type=int, default=4, help="properties of each calculation")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=None, help="by default of the clock")
    parser.add_argument("--property", action="append", choices=PROPERTIES)
    parser.add_argument("--record", type=Path, default=Path("build/combinations.jsonl"))
    parser.add_argument("--again", type=Path, help="the cases of a record")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--first", action="store_true", help="end with the first defect")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="FILE", help="count the cases of records")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.summary:
        found = summary([line for path in options.summary for line in _read(path)])
        print(json.dumps(found, indent=1))
        if options.save:
            SUMMARY.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    seed = int(time.time()) if options.seed is None else options.seed
    rng = np.random.default_rng(seed)
    print(f"seed {seed}")
    if options.again:
        cases = iter([Case(**line["case"]) for line in _read(options.again)])
    else:
        drawn = (draw(rng, options.property or PROPERTIES, options.each) for _ in itertools.count())
        cases = itertools.chain.from_iterable(drawn)
    options.record.parent.mkdir(parents=True, exist_ok=True)
    end, counts = time.process_time() + 60 * options.minutes, collections.Counter()
    for case in cases:
        if time.process_time() > end or counts.total() >= options.cases:
            break
        begun = time.process_time()
        found, words = outcome(case)
        if found in DEFECTS and options.shrink:
            case = shrunk(case, found)
            words = outcome(case)[1]
        counts[found] += found != "inapplicable"
        line = {
            "outcome": found,
            "words": words,
            "seconds": round(time.process_time() - begun, 2),
            "seed": None if options.again else seed,
            "case": json.loads(case.json()),
        }
        with options.record.open("a") as record:
            record.write(json.dumps(line) + "\n")
        if found in DEFECTS:
            print(found, words, case.json(), flush=True)
            if options.first:
                break
    print(dict(counts))
    return int(any(counts[name] for name in DEFECTS))


if __name__ == "__main__":
    sys.exit(main())
