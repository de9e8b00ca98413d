"""XCVerifier's 31 pairs: proved once more, and every box of every certificate rechecked in Arb's ball arithmetic.

    python -m tests.verification.rechecks [--boxes N] [--condition C] [NAME ...]

One line of JSON for each part of N boxes, in data/proofs/rechecks.jsonl; parts that stand there are not done again, so
a run that was ended goes on where it was. A pair's proof is the same every time: its count of boxes is compared with
that of the parts before. One box in EVERY is tried directly, without the prover's algebra; the record says how many
were tried and held so, and how many have been looked at.
"""

import argparse
import json
import time
from pathlib import Path

import dftfd
from dftfd.verify.inequality import FACE, PROVED
from dftfd.verify.local_conditions import CONDITIONS
from dftfd.verify.proof_checker import recheck_tree
from dftfd.verify.proofs import decidable
from tests.verification.proofs import cell, known

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "data/proofs/rechecks.jsonl"
EVERY = 100
SEVEN = tuple(CONDITIONS)[:7]
FUNCTIONALS = ("lda_c_vwn_rpa", "gga_c_lyp", "pbe", "gga_x_am05,gga_c_am05", "scan")


def parts_done() -> dict[tuple[str, str], list[dict]]:
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    found: dict = {}
    for entry in map(json.loads, lines):
        found.setdefault((entry["functional"], entry["condition"]), []).append(entry)
    return found


def boxes_done(entries: list[dict]) -> int:
    return sum(entry["looked at"] for entry in entries)


def recheck(name: str, condition: str, size: int) -> None:
    """Parts of one pair that are left; what is not proved has no certificate and gets one line that says so."""
    before = parts_done().get((name, condition), [])
    if before and (before[0]["outcome"] != "proved" or boxes_done(before) == before[0]["of"]):
        return
    proof, entry = dftfd.prove(name, condition), {"functional": name, "condition": condition}
    if not proof.proved:
        write(entry | {"outcome": proof.outcome, "looked at": 0, "checked": 0, "of": 0})
        return
    start, total = boxes_done(before), None
    while total is None or start < total:
        began = time.process_time()
        found = recheck_tree(proof.inequality, list(proof.tree), part=slice(start, start + size), every=EVERY)
        total = sum(1 for kind in proof.tree if kind == PROVED or kind >= FACE)
        assert all(e["of"] == total for e in before), "the proof has another tree than before"
        outcome = "proved" if found.unrefuted else "does not hold"
        seconds, looked_at = round(time.process_time() - began, 1), min(size, total - start)
        counts = {
            "looked at": looked_at,
            "checked": found.held,
            "directly": found.directly,
            "tried directly": found.tried,
        }
        counts |= {"of": total}
        write(entry | {"outcome": outcome, "from": start, **counts, "seconds": seconds})
        if not found.unrefuted:
            return
        start += looked_at


def write(entry: dict) -> None:
    with RECORD.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def _table(text) -> str:
    """In Markdown.   text: of (functional, condition)."""
    rows = ["| Functional | " + " | ".join(SEVEN) + " |", "| --- |" + " --- |" * len(SEVEN)]
    rows += [f"| {name} | " + " | ".join(text((name, c)) for c in SEVEN) + " |" for name in FUNCTIONALS]
    return "\n".join(rows)


def _decided(entry: dict | None) -> str:
    if entry is None:
        return "-"
    return f"{cell(entry)} ({entry['boxes']:,})" if entry["outcome"] == "proved" else entry["outcome"]


def _cell(entries: list[dict]) -> str:
    """Boxes that hold of those that were looked at, and of how many there are."""
    if not entries or entries[-1]["outcome"] != "proved":
        return entries[-1]["outcome"] if entries else "-"
    held, of = sum(e["checked"] for e in entries), entries[0]["of"]
    whole = f"{held:,} of {boxes_done(entries):,}"
    return whole if boxes_done(entries) == of else f"{whole}; {of:,} in all"


def counts() -> str:
    """What all of them come to, in a sentence."""
    entries = [e for pair in parts_done().values() for e in pair if e["outcome"] != "violated"]
    total = lambda key: f"{sum(e.get(key, 0) for e in entries):,}"
    failed = sum(e["outcome"] == "does not hold" for e in entries)
    return (
        f"Of {total('looked at')} boxes and faces {total('checked')} hold, and {failed} parts are refuted. "
        f"{total('tried directly')} were tried directly, and {total('directly')} of these hold directly."
    )


def tables() -> str:
    """Outcomes, what was rechecked of them, and what that comes to."""
    pairs, parts = known(), parts_done()
    outcomes, checked = _table(lambda pair: _decided(pairs.get(pair))), _table(lambda pair: _cell(parts.get(pair, [])))
    return f"{outcomes}\n\n{checked}\n\n{counts()}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FUNCTIONALS)
    parser.add_argument("--boxes", type=int, default=500)
    parser.add_argument("--condition", action="append", choices=SEVEN)
    arguments = parser.parse_args()
    for name in arguments.names:
        for condition in [c for c in arguments.condition or SEVEN if c in decidable(name)]:
            recheck(name, condition, arguments.boxes)


if __name__ == "__main__":
    main()
