"""Random combinations of features, each checked in an independent way: `python -m tests.combinations --minutes 30`.

Outcomes: right, refused (a typed error in one line), unconverged, soft (orbitals turn at no cost, as in OH), slow,
inapplicable; wrong (a number disagrees) and raw (any
other exception) are defects. Each line of the record is a case, so that it can be run again: `--again FILE`.
"""

import argparse
import collections
import json
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from dftfd.errors import DftfdError, NotConvergedError, NumericalError
from tests.combinations.cases import PROPERTIES, Case, draw
from tests.combinations.checks import CHECKS, Inapplicable, register_own, softness

DEFECTS = ("wrong", "raw")
SECOND_ORDER = ("hessian", "polarizability", "excited_forces")
SOFT = 0.01
"""Hessian eigenvalue [hartree] below which an SCF's own thresholds decide differences between calculations."""


class TooLong(Exception):
    """A case took more than its time."""


def outcome(case: Case, seconds: int = 300) -> tuple[str, str]:
    """(outcome, in words) of a case."""

    def stop(*_):
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            worst = ""
            for what, got, expected, tolerance in CHECKS[case.property](case):
                difference = float(np.abs(np.asarray(got) - np.asarray(expected)).max())
                if not difference <= tolerance:
                    if case.property in SECOND_ORDER and softness(case) < SOFT:
                        return "soft", f"{what}: off by {difference:.2e} where orbitals turn at no cost"
                    return "wrong", f"{what}: off by {difference:.2e}, within {tolerance:.1e} expected"
                worst = worst or f"{what}: {difference:.1e}"
            return "right", worst
    except Inapplicable:
        return "inapplicable", ""
    except TooLong:
        return "slow", f"more than {seconds} s"
    except (NotConvergedError, NumericalError) as error:
        return "unconverged", str(error)
    except DftfdError as error:
        return ("raw" if "\n" in str(error) else "refused"), f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001  any other exception is the defect that is looked for
        return "raw", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def shrunk(case: Case, found: str) -> Case:
    """The simplest case with the same defect, one thing taken away at a time."""
    for simpler in case.simpler():
        if outcome(simpler)[0] == found:
            return shrunk(simpler, found)
    return case


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="by default of the clock")
    parser.add_argument("--property", action="append", choices=PROPERTIES)
    parser.add_argument("--record", type=Path, default=Path("build/combinations.jsonl"))
    parser.add_argument("--again", type=Path, help="the cases of a record")
    parser.add_argument("--shrink", action="store_true")
    options = parser.parse_args()
    register_own()
    seed = int(time.time()) if options.seed is None else options.seed
    rng = np.random.default_rng(seed)
    print(f"seed {seed}")
    if options.again:
        kept = [json.loads(line) for line in options.again.read_text().splitlines()]
        cases = iter([Case(**line["case"]) for line in kept])
    else:
        cases = (draw(rng, options.property or PROPERTIES) for _ in range(options.cases))
    options.record.parent.mkdir(parents=True, exist_ok=True)
    end, counts = time.monotonic() + 60 * options.minutes, collections.Counter()
    for case in cases:
        if time.monotonic() > end:
            break
        begun = time.monotonic()
        found, words = outcome(case)
        if found in DEFECTS and options.shrink:
            case = shrunk(case, found)
            words = outcome(case)[1]
        counts[found] += found != "inapplicable"
        line = {
            "outcome": found,
            "words": words,
            "seconds": round(time.monotonic() - begun, 1),
            "case": json.loads(case.json()),
        }
        with options.record.open("a") as record:
            record.write(json.dumps(line) + "\n")
        if found in DEFECTS:
            print(found, words, case.json(), flush=True)
    print(dict(counts))
    return int(any(counts[name] for name in DEFECTS))


if __name__ == "__main__":
    sys.exit(main())
