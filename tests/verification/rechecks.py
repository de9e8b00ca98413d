"""XCVerifier's 31 pairs: proved once more, and every box of every certificate rechecked in Arb's ball arithmetic.

    python -m tests.verification.rechecks [--boxes N] [--condition C] [--table] [NAME ...]

One line of JSON for each part of N boxes, in data/proofs/rechecks.jsonl; parts that stand there are not done again, so
a run that was ended goes on where it was. A pair's proof is the same every time: its count of boxes is compared with
that of the parts before.
"""

import argparse
import json
import time
from pathlib import Path

import dftfd
from dftfd.verify.inequality import FACE, PROVED
from dftfd.verify.local_conditions import SEVEN
from dftfd.verify.proof_checker import recheck_tree
from dftfd.verify.proof_report import decidable

RECORD = Path(__file__).parents[2] / "data/proofs/rechecks.jsonl"
FUNCTIONALS = ("lda_c_vwn_rpa", "gga_c_lyp", "pbe", "gga_x_am05,gga_c_am05", "scan")


def parts_done() -> dict[tuple[str, str], list[dict]]:
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    found: dict = {}
    for entry in map(json.loads, lines):
        found.setdefault((entry["functional"], entry["condition"]), []).append(entry)
    return found


def boxes_done(entries: list[dict]) -> int:
    return sum(entry.get("looked at", entry["checked"]) for entry in entries)


def recheck(name: str, condition: str, size: int) -> None:
    """Parts of one pair that are left; what is not proved has no certificate and gets one line that says so."""
    before = parts_done().get((name, condition), [])
    if before and (before[0]["outcome"] != "proved" or boxes_done(before) == before[0]["of"]):
        return
    proof, entry = dftfd.prove(name, condition), {"functional": name, "condition": condition}
    if not proof.proved:
        write(entry | {"outcome": proof.outcome, "checked": 0, "of": 0})
        return
    start, total = boxes_done(before), None
    while total is None or start < total:
        began = time.process_time()
        found = recheck_tree(proof.inequality, list(proof.tree), part=slice(start, start + size))
        total = sum(1 for kind in proof.tree if kind == PROVED or kind >= FACE)
        assert all(e["of"] == total for e in before), "the proof has another tree than before"
        outcome = "proved" if found.unrefuted else "does not hold"
        seconds, looked_at = round(time.process_time() - began, 1), min(size, total - start)
        counts = {"looked at": looked_at, "checked": found.held, "directly": found.directly, "of": total}
        write(entry | {"outcome": outcome, "from": start, **counts, "seconds": seconds})
        if not found.unrefuted:
            return
        start += looked_at


def write(entry: dict) -> None:
    with RECORD.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def table() -> str:
    rows = ["| Functional | " + " | ".join(SEVEN) + " |", "| --- |" + " --- |" * len(SEVEN)]
    done = parts_done()
    for name in FUNCTIONALS:
        cells = []
        for condition in SEVEN:
            entries = done.get((name, condition), [])
            proved = entries and all(e["outcome"] == "proved" for e in entries)
            cells.append(
                f"{sum(e['checked'] for e in entries):,} of {entries[0]['of']:,}"
                if proved
                else entries[0]["outcome"]
                if entries
                else "-"
            )
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FUNCTIONALS)
    parser.add_argument("--boxes", type=int, default=500)
    parser.add_argument("--condition", action="append", choices=SEVEN)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print(table())
        return
    for name in arguments.names:
        for condition in [c for c in arguments.condition or SEVEN if c in decidable(name)]:
            recheck(name, condition, arguments.boxes)


if __name__ == "__main__":
    main()
