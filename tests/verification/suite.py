"""The report of a run of the tests, from the ledger that it wrote (tests/ledger.py).

python -m tests.verification.suite build/tests/whole.jsonl            print it; status 1 unless all tests passed
python -m tests.verification.suite build/tests/whole.jsonl --keep     and write data/reliability/suite.json
python -m tests.verification.suite build/tests/whole.jsonl --durations   and renew these tests in durations.json
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from tests import ledger

KEPT = ledger.DURATIONS.with_name("suite.json")
COSTS = ("cpu", "wall", "compiling", "tracing", "compilations", "processes")


def newest(lines: list[dict]) -> tuple[list[dict], int]:
    """The lines that hold for the code and environment of the last one, the last of each test; tests asked for."""
    head = [line for line in lines if "test" in line][-1:]
    of_the_run = [line for line in lines if head and line["key"] == head[0]["key"]]
    tests = {line["test"]: line for line in lines if "test" in line and holds(line, head[0])}
    tests = list(tests.values())
    return tests, max((line["asked for"] for line in of_the_run if "asked for" in line), default=len(tests))


def holds(line, head) -> bool:
    """Whether a line is of the code and environment of another, or its outcome does not hang on what has changed."""
    return line["key"] == head["key"] or ledger.holds(line, head["code"], head["environment"])


def report(lines: list[dict], asked_for: int) -> dict:
    """Counts, what did not pass and why, costs, the twenty dearest tests and files; of one code and environment."""
    outcomes = {o: sum(line["outcome"] == o for line in lines) for o in ("passed", "failed", "skipped")}
    files = defaultdict(float)
    for line in lines:
        files[line["test"].split("::")[0]] += line.get("cpu", 0.0)
    dearest = sorted(lines, key=lambda line: -line.get("cpu", 0.0))[:20]
    head = lines[-1]
    return {
        "code": head["code"],
        "environment": head["environment"],
        "asked for": asked_for,
        "tests": len(lines),
        "of earlier commits": sum(line["code"] != head["code"] for line in lines),
        **outcomes,
        **{cost: round(sum(line.get(cost, 0) for line in lines), 1) for cost in COSTS},
        "not passed": {line["test"]: line.get("why", "") for line in lines if line["outcome"] != "passed"},
        "dearest tests [s of CPU]": {line["test"]: line.get("cpu", 0.0) for line in dearest},
        "dearest files [s of CPU]": {
            name: round(cost, 1) for name, cost in sorted(files.items(), key=lambda item: -item[1])[:20]
        },
    }


def text(found: dict) -> str:
    """The report in lines for a screen."""
    environment = ", ".join(f"{name} {value}" for name, value in found["environment"].items())
    lines = [
        f"code         {found['code']}",
        f"environment  {environment}",
        f"tests        {found['tests']} of {found['asked for']}: "
        f"{found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped; of an earlier commit, from "
        f"which nothing has changed that they see: {found['of earlier commits']}",
        f"cost         {found['cpu']:,.0f} s of processor time, {found['compilations']:,.0f} programs compiled in "
        f"{found['compiling']:,.0f} s, traced in {found['tracing']:,.0f} s, {found['processes']:,.0f} processes",
    ]
    for title in ("dearest files [s of CPU]", "dearest tests [s of CPU]"):
        lines += ["", title, *(f"{cost:10.1f}  {name}" for name, cost in found[title].items())]
    if found["not passed"]:
        lines += ["", "not passed", *(f"  {name}: {why}" for name, why in found["not passed"].items())]
    return "\n".join(lines)


def durations(lines: list[dict], known: dict[str, float]) -> dict:
    """What `--shard` balances by: processor seconds of each test, those `known` of tests that still exist included."""
    tests = known | {line["test"]: line["cpu"] for line in lines if "cpu" in line}
    tests = {name: tests[name] for name in sorted(tests) if exists(name)}
    return {"environment": lines[-1]["environment"], "tests": tests}


def exists(test: str) -> bool:
    """Whether the file of a test still has a function of its name."""
    file, *_, function = test.split("[")[0].split("::")
    path = ledger.ROOT / file
    return path.exists() and f"def {function}(" in path.read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--durations", action="store_true")
    options = parser.parse_args()
    lines = ledger.entries(options.ledger)
    lines, asked_for = newest(lines) if lines else ([], 0)
    if not lines:
        sys.exit(f"{options.ledger} holds no finished test; run the tests with --ledger {options.ledger}.")
    if options.durations:
        known = json.loads(ledger.DURATIONS.read_text())["tests"]
        ledger.DURATIONS.write_text(json.dumps(durations(lines, known), indent=1) + "\n")
    found = report(lines, asked_for)
    if options.keep:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")
    print(text(found))
    sys.exit(found["failed"] > 0)


if __name__ == "__main__":
    main()
