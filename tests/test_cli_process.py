"""The command in odd surroundings: one line and an exit code, whatever the shell, the folder and the limits are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sample import sample

HELIUM = ["run", "He 0 0 0;", "--xc", "hf", "--basis", "sto-3g", "--quiet"]
WATER = Path(__file__).parents[1] / "examples" / "water.xyz"


def command(*arguments, prepare=":", environment=None, **options):
    """The finished process of `dftfd ARGUMENTS`; prepare is what its shell does before."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(
        ["sh", "-c", f'{prepare}; exec "$@"', "sh", sys.executable, "-m", "dftfd", *arguments],
        env=os.environ | (environment or {}),
        timeout=120,
        **options,
    )


def requires_one_line(done, code, words):
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(b"dftfd: error: ") and done.stderr.count(b"\n") == 1
    assert words in done.stderr and b"internal" not in done.stderr


@pytest.mark.slow  # 2 s; test_standard_output_that_is_closed is quick
def test_a_folder_that_is_gone(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    requires_one_line(command(*HELIUM, prepare="rmdir ../gone", cwd=folder), 5, b"the current folder no longer exists")


@pytest.mark.parametrize(
    "name, value, words",  # the first two: test_platforms_that_do_not_exist_in_python; DFTFD_CACHE_SIZE: its own test
    sample(
        [
            ("JAX_PLATFORMS", "nothing", b"Look at JAX_PLATFORMS, here 'nothing'"),
            ("JAX_PLATFORMS", "cpu,rocm", b"Look at JAX_PLATFORMS, here 'cpu,rocm'"),
            ("JAX_ENABLE_X64", "0", b"Unset the variable"),
            ("DFTFD_CACHE_SIZE", "much", b"DFTFD_CACHE_SIZE='much' is not a size"),
            ("PYSCF_MAX_MEMORY", "much", b"PYSCF_MAX_MEMORY must be a number"),
        ],
        at=[2],
    ),
)
def test_variables_that_name_nothing(name, value, words):
    arguments = [*HELIUM[:3], "lda,vwn", *HELIUM[4:]]
    requires_one_line(command(*arguments, environment={name: value}), 2, words)


@pytest.mark.parametrize("platforms", sample(["nothing", "rocm", " cpu"], ["nothing"]))
def test_platforms_that_do_not_exist_in_python(platforms):
    """The import ends in an InputError of one line, whatever is imported first; nothing of JAX's own is raised."""
    program = f"import jax; jax.config.update('jax_platforms', {platforms!r})\ntry:\n    import dftfd.autofd\n"
    program += "except Exception as error: print(type(error).__name__, str(error))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("InputError JAX does not start: ") and done.stdout.count("\n") == 1, done.stderr
    assert f"here {platforms!r}: unset it" in done.stdout and len(done.stdout) <= 311


def test_standard_output_that_is_closed():
    """Exit code 5 before anything is computed, where 0 would say that the energy was printed."""
    requires_one_line(command(*HELIUM, prepare="exec >&-"), 5, b"standard output is closed")


def test_standard_output_that_is_full(tmp_path):
    """The result is in its file; the exit code tells that it was not printed."""
    with open("/dev/full", "wb") as full:
        done = command(*HELIUM, "--json", str(tmp_path / "he.json"), stdout=full)
    requires_one_line(done, 5, b"No space left on device")
    assert json.loads((tmp_path / "he.json").read_text())["success"]


@pytest.mark.slow  # 2 s; test_standard_output_that_is_full is quick
def test_standard_output_that_nobody_reads(tmp_path):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as output:
        done = command(*HELIUM, "--json", str(tmp_path / "he.json"), stdout=output)
    assert done.returncode == 1, done.stderr
    assert json.loads((tmp_path / "he.json").read_text())["success"]


@pytest.mark.parametrize("megabytes", [300, 500, 900, 1300, 1500])
def test_limits_of_the_address_space(megabytes):
    """Below what the libraries need: exit code 6 at once, no signal and no thread that waits for ever."""
    requires_one_line(command(*HELIUM, prepare=f"ulimit -v {megabytes * 1000}"), 6, b"the address space is limited to")


@pytest.mark.slow  # 2 s; test_plain_text.py has what is shown of odd names
def test_names_that_a_terminal_cannot_show(tmp_path):
    """Bytes that are no UTF-8 in a file's name, on an ASCII terminal: read, and shown with escapes."""
    path = os.fsencode(tmp_path) + b"/w\xff.xyz"
    with open(path, "wb") as file:
        file.write(WATER.read_bytes())
    ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = command("run", path, WATER, *HELIUM[2:-1], "--record", tmp_path / "r.jsonl", environment=ascii)
    assert done.returncode == 0, done.stderr
    assert b"w\\udcff.xyz  -74." in done.stdout and b"2 of 2 molecules converged" in done.stdout


@pytest.mark.slow  # 3 s; test_every_failure_has_its_exit_code of test_cli is quick
def test_folders_that_cannot_be_searched(tmp_path):
    """Input, output, checkpoint, record and trajectory in them are refused with exit code 5."""
    program = """
import os, sys
from dftfd.cli import main
for folder in ("missing", "priv"):  # the first round loads all modules, which another user cannot
    helium, sub = ["run", "He 0 0 0;"], f"{folder}/sub"
    for arguments in (
        ["run", f"{folder}/w.xyz"],
        [*helium, "--json", f"{sub}/w.json"],
        [*helium, "--record", f"{sub}/r"],
        ["run", f"{sub}/*.xyz"],
        [*helium, "--restart", f"{sub}/w.chk"],
        ["optimize", "H 0 0 0; H 0 0 1", "--trajectory", f"{sub}/p.xyz"],
    ):
        print("code", main(arguments))
    if os.geteuid() == 0:
        os.seteuid(65534)
"""
    (tmp_path / "priv" / "sub").mkdir(parents=True)
    (tmp_path / "priv" / "w.xyz").write_text("1\n\nHe 0 0 0\n")
    (tmp_path / "priv").chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    options = {"cwd": tmp_path, "env": os.environ | {"DFTFD_CACHE_DIR": ""}, "capture_output": True, "timeout": 120}
    done = subprocess.run([sys.executable, "-c", program], **options)
    (tmp_path / "priv").chmod(0o755)
    codes = [line for line in done.stdout.splitlines() if line.startswith(b"code")]
    assert codes == [b"code 5"] * 12 and b"internal" not in done.stderr, done.stderr


@pytest.mark.slow  # two processes
def test_python_without_assertions_computes_the_same_and_without_docstrings_refuses():
    """PySCF puts docstrings together where it is imported, which fails with -OO; -O takes assertions away alone."""
    plain = command(*HELIUM)
    optimised = command(*HELIUM, environment={"PYTHONOPTIMIZE": "1"})
    assert optimised.returncode == 0 and optimised.stdout == plain.stdout
    for arguments in (["--help"], ["run", "--help"], ["list"]):
        assert command(*arguments, environment={"PYTHONOPTIMIZE": "2"}).returncode == 0
    requires_one_line(command(*HELIUM, environment={"PYTHONOPTIMIZE": "2"}), 2, b"Python runs without docstrings (-OO")
