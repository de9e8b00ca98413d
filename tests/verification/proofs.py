"""All local conditions tried on functionals: one line of JSON for each pair, in data/proofs/record.jsonl.

    python -m tests.verification.proofs [--boxes N] [--table] [NAME ...]

Names are all that are registered where none is given. Pairs that stand in the record are not tried again, so a run that
was ended goes on where it was.
"""

import argparse
import json
import time
from pathlib import Path

import dftfd
from dftfd.errors import DftfdError
from dftfd.verify.local_conditions import CONDITIONS
from dftfd.verify.proof_report import decidable

RECORD = Path(__file__).parents[2] / "data" / "proofs" / "record.jsonl"


def known() -> dict[tuple[str, str], dict]:
    """Lines of the record by functional and condition."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    return {(entry["functional"], entry["condition"]): entry for entry in map(json.loads, lines)}


def tried(name: str, condition: str, boxes: int) -> dict:
    began = time.perf_counter()
    entry = {"functional": name, "condition": condition}
    try:
        proof = dftfd.prove(name, condition, boxes=boxes)
    except DftfdError as error:
        return {**entry, "outcome": "refused", "reason": str(error)[:200]}
    entry |= {"outcome": proof.outcome, "boxes": proof.boxes, "seconds": round(time.perf_counter() - began, 2)}
    if proof.point:
        entry |= {"point": proof.point, "value": proof.value[:12], "fraction": round(proof.fraction, 4)}
        entry |= {"region": proof.region}
    return entry


def table() -> str:
    """The record in Markdown: proved, violated, undecided, or - where a condition is not about a functional."""
    found = known()
    rows = ["| Functional | " + " | ".join(CONDITIONS) + " |", "| --- |" + " --- |" * len(CONDITIONS)]
    for name in sorted({name for name, _ in found}):
        cells = [found.get((name, c), {}).get("outcome", "-") for c in CONDITIONS]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--boxes", type=int, default=60_000)
    parser.add_argument("--table", action="store_true", help="print the record in Markdown and end")
    arguments = parser.parse_args()
    if arguments.table:
        print(table())
        return
    done = known()
    for name in arguments.names or dftfd.list_functionals():
        try:
            conditions = decidable(name)
        except DftfdError:
            continue
        for condition in [c for c in CONDITIONS if c in conditions and (name, c) not in done]:
            with RECORD.open("a") as file:
                file.write(json.dumps(tried(name, condition, arguments.boxes)) + "\n")


if __name__ == "__main__":
    main()
