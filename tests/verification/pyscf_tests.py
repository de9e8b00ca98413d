"""PySCF's own test files with dftfd's functionals in its numerical integration (pyscf_dropin.py).

    python -m tests.verification.pyscf_tests FOLDER [FILE ...] [--save]

FOLDER is a source tree of PySCF, of the version that is installed. Of each file it prints how many tests pass, and what
those end with that fail: an error of dftfd, which is a refusal, or something else. Files in which any fails run once
more with PySCF as it is, since some fail there, too. --save keeps the table in data/reliability/pyscf_tests.json.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pyscf

from dftfd import errors

RECORD = Path(__file__).parents[2] / "data" / "reliability" / "pyscf_tests.json"
FILES = (
    "dft/test_he", "dft/test_h2o", "dft/test_numint", "dft/test_libxc", "dft/test_xc_deriv", "dft/test_numint2c",
    "dft/test_dftu", "dft/test_gks", "dft/test_dks", "grad/test_h2o", "grad/test_rks", "grad/test_uks",
    "grad/test_roks", "grad/test_tdrks_grad", "grad/test_tduks_grad", "hessian/test_rks", "hessian/test_uks",
    "tdscf/test_tdrks", "tdscf/test_tduks",
)  # fmt: skip
DROP_IN = ("-p", "tests.verification.pyscf_dropin")
LIMIT = 1200  # seconds of wall time for a file
FAILURE = re.compile(r"^(?:FAILED|ERROR) \S+::(\w+)(?: - (.*))?$", re.MULTILINE)
COUNT = re.compile(r"(\d+) passed")
REFUSALS = tuple(name for name in dir(errors) if name.endswith("Error"))


def run_file(path: Path, options=()) -> dict:
    """{tests passed, {test that fails: first line of what it ends with}, processor time} of a file of tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "-q", "-n", "0", "-p", "no:cacheprovider", "-c", os.devnull]
            + ["--tb=no", "-rfE", str(path)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "400"},
            timeout=LIMIT,
        )
        text = done.stdout
    except subprocess.TimeoutExpired:
        text = f"ERROR {path}::whole_file - longer than {LIMIT} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    passed = COUNT.search(text)
    return {
        "passed": int(passed.group(1)) if passed else 0,
        "failed": dict(FAILURE.findall(text)),
        "seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
    }


def row(folder: Path, name: str) -> dict:
    """Of one file: with dftfd, and with PySCF alone where that is of interest."""
    group, file = name.split("/")
    path = folder / "pyscf" / group / "test" / f"{file}.py"
    ours = run_file(path, DROP_IN)
    kinds = ("fails in PySCF, too", "refused", "differs")
    sorted_out: dict[str, dict] = {kind: {} for kind in kinds}
    theirs = run_file(path)["failed"] if ours["failed"] else {}
    for test, end in ours["failed"].items():
        refused = any(kind in end for kind in REFUSALS)
        kind = kinds[0] if test in theirs else kinds[1] if refused else kinds[2]
        sorted_out[kind][test] = end
    return {"file": name, "passed": ours["passed"], **sorted_out, "seconds": ours["seconds"]}


def main(arguments=None) -> None:
    """Run the files; one line for each."""
    parser = argparse.ArgumentParser(prog="pyscf_tests", description="PySCF's tests with dftfd's functionals.")
    parser.add_argument("folder", type=Path, help=f"source tree of PySCF {pyscf.__version__}")
    parser.add_argument("files", nargs="*", default=FILES, help="such as dft/test_he; all by default")
    parser.add_argument("--save", action="store_true", help=f"keep the table in {RECORD.name}")
    given = parser.parse_args(arguments)
    rows = {r["file"]: r for r in json.loads(RECORD.read_text())} if RECORD.exists() else {}
    for name in given.files:
        rows[name] = row(given.folder, name)
        print(json.dumps(rows[name]), flush=True)
        if given.save:
            RECORD.write_text(json.dumps(list(rows.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
