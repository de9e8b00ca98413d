"""How many planted defects do random combinations find? One line of the library is made wrong at a time.

    python -m tests.verification.planted [--seed S] [--hour N] [--only K ...] [--save]

An hour of `python -m tests.combinations` is N cases of a seed. Of these, the cases that concern a defect are run with
it, the smallest first, until one is a defect there; the same case is then run on the library as it is, where it has to
be none. What is found, and by which case, goes to data/reliability/planted.json with --save.

No file is changed: functions of this process get the code of the changed text, and their own code again.
"""

import argparse
import gc
import importlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np

from tests.combinations.__main__ import DEFECTS, outcome
from tests.combinations.cases import DOUBLE_INTEGRALS, Case, draw
from tests.combinations.solving import forget
from tests.verification.mutations import mutated
from tests.verification.planted_list import PLANTED, Planted

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "data" / "reliability" / "planted.json"
MOST, SECONDS = 6, 60.0
"""Cases that are tried for a defect, and seconds of the processor for all of them."""


def hour_of(seed: int, n: int) -> list[Case]:
    """The first n cases of a seed."""
    rng = np.random.default_rng(seed)
    return [case for _ in range(-(-n // 4)) for case in draw(rng, each=4)][:n]


def size(case: Case) -> tuple:
    """By which the smallest case comes first; atoms, on which no force can be wrong, come last."""
    costly = any(part in case.xc for part in DOUBLE_INTEGRALS)
    return costly, len(case.atoms) == 1, case.basis not in ("sto-3g", "6-31g", "3-21g"), len(case.options)


def codes(text: str, path: str) -> dict[str, CodeType]:
    """The code of every function of a module's text, by its qualified name."""

    def inside(code):
        for constant in filter(lambda c: isinstance(c, CodeType), code.co_consts):
            yield constant.co_qualname, constant
            yield from inside(constant)

    return dict(inside(compile(text, path, "exec", dont_inherit=True)))


@contextmanager
def with_defect(planted: Planted) -> Iterator[int]:
    """The library with the defect; how many of its functions have it."""
    path = (ROOT / "dftfd" / planted.file).resolve()
    importlib.import_module(".".join(("dftfd", *Path(planted.file).with_suffix("").parts)))
    text = path.read_text()
    before, after = (codes(t, str(path)) for t in (text, mutated(text, planted)))
    changed = {name for name in after if after[name] != before[name]}
    gc.unfreeze()  # get_objects omits frozen objects, and the command line calls gc.freeze
    live = [
        f
        for f in gc.get_objects()
        if isinstance(f, FunctionType)
        and f.__code__.co_qualname in changed
        and Path(f.__code__.co_filename).resolve() == path
    ]
    if not live:
        raise LookupError(f"no function of {planted.file} has the line of {planted.what!r}.")
    own = [f.__code__ for f in live]
    forget()
    try:
        for f in live:
            f.__code__ = after[f.__code__.co_qualname]
        yield len(live)
    finally:
        for f, code in zip(live, own, strict=True):
            f.__code__ = code
        forget()


def trial(planted: Planted, cases: list[Case]) -> dict:
    """What the cases that concern a defect say of it."""
    concerned, tried, found = sorted(filter(planted.concerns, cases), key=size), 0, None
    begun = time.process_time()
    for case in concerned[:MOST]:
        if found or time.process_time() - begun > SECONDS:
            break
        tried += 1
        with with_defect(planted) as n:
            if not n:
                raise SystemExit(f"{planted.what}: no function of {planted.file} has the changed code")
            kind, words = outcome(case)
        if kind in DEFECTS and outcome(case)[0] not in DEFECTS:
            found = {"by": f"{kind}: {words}", "case": json.loads(case.json())}
        forget()
    row = {"what": planted.what, "file": f"dftfd/{planted.file}", "old": planted.old, "new": planted.new}
    row |= {"concerned": len(concerned), "tried": tried, "found": found is not None}
    return row | {"seconds": round(time.process_time() - begun, 1)} | (found or {})


def save(rows: list[dict]) -> None:
    """Rows of the record, in the order of the list."""
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else []
    new, listed = {row["what"] for row in rows}, [planted.what for planted in PLANTED]
    rows = [row for row in kept if row["what"] in listed and row["what"] not in new] + rows
    rows.sort(key=lambda row: listed.index(row["what"]))
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")


def main(arguments=None) -> int:
    """Try the defects of the list; the number of those that no case found."""
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument("--seed", type=int, default=46)
    parser.add_argument("--hour", type=int, default=3000, help="cases")
    parser.add_argument("--only", nargs="+", type=int, help="numbers in the list, from 0")
    parser.add_argument("--save", action="store_true", help=f"keep what was found in {RECORD.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    cases, rows = hour_of(given.seed, given.hour), []
    for number, planted in enumerate(PLANTED):
        if given.only and number not in given.only:
            continue
        rows.append(trial(planted, cases))
        words = rows[-1].get("by", f"NOT FOUND by {rows[-1]['tried']} of {rows[-1]['concerned']} cases")
        print(f"{number} {planted.what}: {words} ({rows[-1]['seconds']} s)", flush=True)
        if given.save:
            save(rows)
    found = sum(row["found"] for row in rows)
    print(f"{found} of {len(rows)} found")
    return len(rows) - found


if __name__ == "__main__":
    sys.exit(bool(main()))
