"""All local conditions tried on functionals: one line of JSON for each pair, in data/proofs/record.jsonl.

    python -m tests.verification.proofs [--boxes N] [--seconds S] [--again] [NAME ...]

Names are all that are registered where none is given. Pairs that stand in the record are not tried again, so a run that
was ended goes on where it was; with --again those are that were left undecided with fewer boxes, and those of an
earlier prover (RULES), whose proofs the table marks. The last line of a pair counts.
A pair that takes more than S seconds of processor time is undecided. What has the same formula for a
condition, the correlation of scan and scan0 for instance, is tried once: the lines of the others name the one that was.
docs/proofs.md shows the record.
"""

import argparse
import json
import signal
import time
from pathlib import Path

import dftfd
from dftfd.errors import DftfdError
from dftfd.verify.local_conditions import CONDITIONS, part_of
from dftfd.verify.proofs import decidable

RECORD = Path(__file__).parents[2] / "data/proofs/record.jsonl"
RULES = 3
"""Raised when a mend of the prover could take proofs away; lines of the record say by which rules they were made."""


def known() -> dict[tuple[str, str], dict]:
    """Lines of the record by functional and condition."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    return {(entry["functional"], entry["condition"]): entry for entry in map(json.loads, lines)}


class TimeIsOver(BaseException):
    """Raised by the clock; no `except Exception` on the way holds it up."""


def _ends(*_) -> None:
    raise TimeIsOver


def formula_of(name: str, condition: str) -> str:
    """A condition and the terms that it is about, with their parameters, whatever they are called together."""
    f = dftfd.get_functional(name)
    parts = [part_of(f, part[0]).terms for part in CONDITIONS[condition].parts]
    return repr([condition, *([(c, t.name, sorted(t.parameters.items())) for c, t in terms] for terms in parts)])


def tried(name: str, condition: str, boxes: int, seconds: float) -> dict:
    began = time.process_time()
    entry = {"functional": name, "condition": condition, "limit": boxes, "rules": RULES}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        proof = dftfd.prove(name, condition, boxes=boxes)
    except TimeIsOver:
        return {**entry, "outcome": "undecided", "boxes": 0, "seconds": seconds, "reason": "out of time"}
    except DftfdError as error:
        return {**entry, "outcome": "refused", "reason": str(error)[:200]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    entry |= {"outcome": proof.outcome, "boxes": proof.boxes, "seconds": round(time.process_time() - began, 2)}
    if proof.point:
        entry |= {"point": proof.point, "value": proof.value[:12], "fraction": round(proof.fraction, 4)}
        entry |= {"region": proof.region}
    return entry


def table() -> str:
    """The record in Markdown: proved, violated, undecided, or - where a condition is not about a functional."""
    found = known()
    outcomes = [entry["outcome"] for entry in found.values()]
    names = sorted({name for (name, _), entry in found.items() if entry["outcome"] != "refused"})
    without = sorted(set(dftfd.list_functionals()) - set(names))
    earlier = sum(cell(entry) == "earlier" for entry in found.values())
    counts = f"{outcomes.count('proved') - earlier} proved, " + (f"{earlier} *earlier*, " if earlier else "")
    counts += ", ".join(f"{outcomes.count(k)} {k}" for k in ("violated", "undecided"))
    rows = ["| Functional | " + " | ".join(CONDITIONS) + " |", "| --- |" + " --- |" * len(CONDITIONS)]
    for name in names:
        cells = [cell(found.get((name, c))) for c in CONDITIONS]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    refused = ", ".join(f"`{name}`" for name in without)
    return (
        f"{len(names)} functionals: {counts}. {_EARLIER if earlier else ''}A violation is a point, which no repair of "
        f"the prover can take away.\n\n"
        '<details markdown="1">\n<summary>All functionals and conditions</summary>\n\n'
        + "\n".join(rows)
        + f"\n\nNo condition applies to these {len(without)} names. They have no value at a point, no energy, or "
        f"exchange and correlation that are fitted as one: {refused}.\n\n</details>\n"
    )


_EARLIER = "*Earlier*: proved by an earlier version of the prover and not tried again, so it is not claimed. "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--boxes", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="processor time for a pair")
    parser.add_argument("--again", action="store_true", help="try what was undecided, or of earlier rules")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPROF, _ends)
    names = arguments.names or dftfd.list_functionals()
    done = known()
    stale = lambda entry: _is_earlier(entry) or (entry["outcome"] == "undecided" and _tried(entry) < arguments.boxes)
    is_open = lambda entry: arguments.again and stale(entry)
    first = {formula_of(n, c): (n, c) for (n, c), entry in done.items() if entry["outcome"] != "refused"}
    for name in names:
        for condition in _conditions(name):
            pair, formula = (name, condition), formula_of(name, condition)
            if pair in done and not is_open(done[pair]):
                continue
            same = first.get(formula, pair)
            if same != pair and not is_open(done[same]):
                entry = done[same] | {"functional": name, "same formula as": same[0]}
            else:
                entry = tried(name, condition, arguments.boxes, arguments.seconds)
                if entry["outcome"] != "refused":  # which may be for another part of the functional
                    first[formula] = pair
            done[pair] = entry
            with RECORD.open("a") as file:
                file.write(json.dumps(entry) + "\n")


def _is_earlier(entry: dict) -> bool:
    return entry.get("rules", 1) < RULES


def cell(entry: dict | None) -> str:
    """An outcome as the tables have it; a proof by earlier rules is not claimed."""
    if entry is None:
        return "-"
    return "earlier" if entry["outcome"] == "proved" and _is_earlier(entry) else entry["outcome"]


def _tried(entry: dict) -> int:
    """With how many boxes a pair was tried; lines of the first runs do not say, and had 15,000."""
    return entry.get("limit", 15_000)


def _conditions(name: str) -> list[str]:
    """Conditions that are about a functional, in order; none of what has no value at a point."""
    try:
        return [c for c in CONDITIONS if c in decidable(name)]
    except DftfdError:
        return []


if __name__ == "__main__":
    main()
