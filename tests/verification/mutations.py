"""Do the nets catch what they are there for? One line of the code is made wrong at a time, and its tests are run.

    python -m tests.verification.mutations [--net NAME ...] [--save]

A copy of the package and its tests is changed, never the package itself. A mutation is found if a test fails. Each of
the list makes some formula, derivative, key or bound wrong, so one that is not found is a hole in a net: exit code 1.
What is found is printed with the test that finds it; --save keeps that in data/reliability/mutations.json.
"""

import argparse
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.verification.mutation_list import MUTATIONS, NETS, Mutation

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "data" / "reliability" / "mutations.json"
FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass
class Trial:
    """What the tests said of a mutation."""

    mutation: Mutation
    found_by: str | None
    seconds: float


class Copy:
    """The package and its tests in a folder of their own, where lines may be changed."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in ("dftfd", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for name in ("data", "docs", "examples", "functionals", "grids"):
            (folder / name).symlink_to(ROOT / name)
        self._time = itertools.count(1_000_000_000)  # Python knows compiled modules by seconds of their sources

    def write(self, file: str, text: str) -> None:
        path, time = self.folder / "dftfd" / file, next(self._time)
        path.write_text(text)
        os.utime(path, (time, time))

    def first_failure(self, tests) -> tuple[str | None, float]:
        """(the first test that fails or None, seconds of processor time)."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", "--tb=no", "-rfE"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.folder,
            env={**os.environ, "DFTFD_QUICK_PROGRAMS": "1"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode not in (0, 1):  # nothing was tested: the copy does not even start
            raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        failure = FIRST_FAILURE.search(done.stdout)
        return (failure.group(1) if failure else "a test") if done.returncode else None, seconds


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a file with the mutation; what it replaces has to be there once."""
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file} has {text.count(mutation.old)} times what is to be replaced: {mutation.old}")
    return text.replace(mutation.old, mutation.new)


def trial(copy: Copy, mutation: Mutation) -> Trial:
    """Run the tests of a mutation's net on a copy with the mutation."""
    original = (ROOT / "dftfd" / mutation.file).read_text()
    copy.write(mutation.file, mutated(original, mutation))
    try:
        return Trial(mutation, *copy.first_failure(NETS[mutation.net]))
    finally:
        copy.write(mutation.file, original)


def row(trial: Trial) -> dict:
    mutation = trial.mutation
    return {
        "net": mutation.net,
        "file": f"dftfd/{mutation.file}",
        "old": mutation.old,
        "new": mutation.new,
        "found by": trial.found_by,
        "seconds": round(trial.seconds, 1),
    }


def main(arguments=None) -> int:
    """Try all mutations of the nets that are asked for; the number of those that no test found."""
    parser = argparse.ArgumentParser(prog="mutations", description="Make lines wrong and see whether a test notices.")
    parser.add_argument("--net", nargs="+", choices=NETS, default=list(NETS), help="names of nets; all by default")
    parser.add_argument("--save", action="store_true", help=f"keep what was found in {RECORD.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    chosen, rows = [m for m in MUTATIONS if m.net in given.net], []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for net in given.net:
            failure, seconds = copy.first_failure(NETS[net])
            print(f"{net}: {seconds:.0f} s without a mutation", flush=True)
            if failure:
                raise SystemExit(f"{failure} fails without a mutation")
        for mutation in chosen:
            rows.append(row(trial(copy, mutation)))
            found = rows[-1]["found by"] or "NOT FOUND"
            print(f"{mutation.file}: {mutation.old!r} -> {mutation.new!r}: {found}", flush=True)
    missed = sum(not r["found by"] for r in rows)
    print(
        f"{len(rows)} mutations, {len(rows) - missed} found, {sum(r['seconds'] for r in rows):.0f} s of processor time"
    )
    if given.save:
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else []
        kept = [r for r in kept if r["net"] not in given.net] + rows
        RECORD.write_text(json.dumps(kept, indent=1) + "\n")
    return missed


if __name__ == "__main__":
    sys.exit(bool(main()))
