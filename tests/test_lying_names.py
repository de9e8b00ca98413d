"""A folder whose files have the names of every module there is: no process that dftfd starts imports one of them.

Each file would leave a mark of its name. The programs run as the command does: the folder of the script is on the path
of imports, the current folder is not. The same without dftfd.runtime.child_processes leaves marks.
"""

import functools
import importlib.metadata
import os
import subprocess
import sys

import pytest

from dftfd.cli.installation import PACKAGE


@functools.cache
def names() -> set[str]:
    """Every module of Python and of the installed packages."""
    every = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    return {name for name in every if name.isidentifier()}


CHILD = """
import multiprocessing, os, sys
from dftfd.runtime import child_processes

if __name__ == "__main__":
    child = child_processes.start_child(os.mkdir, [sys.argv[1]], "test")
    child.join()
    print(child.exitcode, "PYTHONSAFEPATH" in os.environ)
"""
BARE_CHILD = """
import multiprocessing, os, sys

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=os.mkdir, args=(sys.argv[1],)).start()
"""
PIP = "from dftfd.runtime import child_processes; print(child_processes.run_module('pip', ['--version']).stdout)"
BARE_PIP = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', '--version'])"

COMMANDS = """
import sys
from dftfd.cli import installation, main
from dftfd.errors import FileError

if __name__ == "__main__":
    model = ["--xc", "lda,vwn", "--basis", "sto-3g", "--jobs", "2"]
    both = ["H 0 0 0; H 0 0 0.7", "H 0 0 0; H 0 0 0.8"]
    codes = [
        main(["run", *both, *model]),
        main(["run", *both, *model, "--record", "record.jsonl"]),
        main(["gradient", *both, *model]),
        main(["optimize", *both, *model]),
        main(["benchmark", "w4-17", *model, "--xc", "pbe", "--limit", "2"]),
        main(["fit", "pbe", "w4-17", "--limit", "1", "--parameters", "kappa", "--evaluations", "1", *model[2:]]),
    ]
    try:
        installation._fetch("nowhere")
    except FileError as error:
        print(error)
    print(codes)
"""


@pytest.fixture
def marks(tmp_path):
    """The folder of the marks; beside it `here`, the current folder, with a file of each name."""
    for name in ("marks", "here", "program"):
        (tmp_path / name).mkdir()
    for name in names():
        (tmp_path / "here" / f"{name}.py").write_text(f"open({str(tmp_path / 'marks' / name)!r}, 'w').close()\n")
    return tmp_path / "marks"


def ran(marks, code, *arguments, **environment):
    """What a program prints that is run in the folder with the names."""
    program = marks.parent / "program" / "script.py"
    program.write_text(code)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, str(program), *arguments]
    return subprocess.run(command, cwd=marks.parent / "here", env=kept | environment, capture_output=True, text=True)


def executed(marks):
    return sorted(path.name for path in marks.iterdir())


def test_a_child_imports_nothing_of_the_current_folder(marks):
    """It does its work, and the environment of its parent is what it was; more than 250 names lie there."""
    assert len(names()) > 250 and {"multiprocessing", "threading", "pip", "json", "numpy", "jax"} <= names()
    done = ran(marks, CHILD, str(marks.parent / "made"))
    assert (done.stdout, executed(marks)) == ("0 False\n", []), done.stderr
    assert (marks.parent / "made").is_dir()


@pytest.mark.slow  # 1.4 s, a process; a child among the same names: above
def test_pip_is_the_installed_one(marks):
    done = ran(marks, PIP)
    assert done.stdout.startswith("pip ") and executed(marks) == [], done.stderr


@pytest.mark.parametrize("code", [BARE_CHILD, BARE_PIP])
def test_the_names_would_be_imported(marks, code):
    """By processes that are started in the usual way."""
    ran(marks, code, str(marks.parent / "made"))
    assert executed(marks)


@pytest.mark.slow  # 0.7 s, three processes; a child among the same names: above
def test_the_module_form_leaves_the_current_folder_out(marks):
    """`python -m dftfd` imports from it only what Python itself does before dftfd is there, with -P nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    here = {"cwd": marks.parent / "here", "env": kept, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-P", "-m", "dftfd", "list", "pbe0"], **here)
    assert "pbe0" in done.stdout and executed(marks) == [], done.stderr
    found = "import sys, runpy; print(*sys.modules)"  # what a process has loaded as the first line of dftfd is run
    before = set(subprocess.run([sys.executable, "-c", found], env=kept, capture_output=True, text=True).stdout.split())
    for name in before & names():
        (marks.parent / "here" / f"{name}.py").unlink()
    done = subprocess.run([sys.executable, "-m", "dftfd", "list", "pbe0"], **here)
    assert "pbe0" in done.stdout and executed(marks) == [], done.stderr


@pytest.mark.slow
def test_commands_that_start_processes(marks):
    """Each with two processes; pip looks for a wheel. 40 s: every process loads JAX and PySCF."""
    done = ran(marks, COMMANDS, PIP_NO_INDEX="1")
    assert done.stdout.endswith("[0, 0, 0, 0, 0, 0]\n"), done.stdout + done.stderr
    assert f"No matching distribution found for {PACKAGE}" in done.stdout and executed(marks) == []
