"""The command line: what it prints and returns. Most tests call main() in this process, a few start their own."""

import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.main import get_command

import dftfd
from dftfd.cli import InterruptWatch, main
from dftfd.cli.commands import app
from dftfd.errors import FileError, NumericalError, ResourceError
from dftfd.functionals import catalogue
from tests.sample import sample

HYDROGEN = "H 0 0 0; H 0 0 0.74"
WATER_FILE = Path(__file__).parents[1] / "examples/water.xyz"


@pytest.fixture
def dftfd_command(capsys):
    """Run the command; gives (exit code, standard output, standard error)."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def one_line(text):
    return text.count("\n") == 1 and "Traceback" not in text


def test_run_prints_plain_lines_and_a_summary(dftfd_command):
    """Away from a terminal: PySCF-style cycle lines, then the result; nothing on standard error, exit code 0."""
    code, out, err = dftfd_command("run", HYDROGEN, "--xc", "lda,vwn", "--basis", "6-31g", "--grid-level", 1)
    assert (code, err) == (0, "")
    assert "H2, 2 electrons, 4 basis functions\nnearest atoms H1-H2 0.7400 angstrom\n" in out
    assert "density fitting in" in out
    assert "cycle= 1 E= -1.1" in out and "  delta_E= " in out and "  |g|= " in out and "  |ddm|= " in out
    assert "converged in" in out and "total energy" in out
    assert re.fullmatch(r"wall time \d+\.\d s, peak memory \d+(\.\d\d GiB| MiB)", out.splitlines()[-1])


def test_quiet_prints_the_energy_alone(dftfd_command):
    """One number, the same as run_scf's."""
    code, out, err = dftfd_command("run", HYDROGEN, "--xc", "hf", "--basis", "sto-3g", "--quiet", "--no-density-fit")
    energy = dftfd.run_scf(dftfd.molecule(HYDROGEN, basis="sto-3g"), xc="hf", density_fit=False).energy
    assert (code, err) == (0, "")
    assert float(out) == pytest.approx(energy, abs=1e-9)


def test_verbose_adds_times_on_standard_error(dftfd_command):
    """Log records of the name `dftfd` go to standard error, results to standard output."""
    code, out, err = dftfd_command("run", HYDROGEN, "--xc", "hf", "--basis", "sto-3g", "--verbose")
    assert code == 0
    assert "integrals: " in err and "integrals: " not in out


def test_options_reach_the_calculation(dftfd_command, tmp_path):
    """Charge, spin, method, unit, basis and integrals of the command are those of the written result."""
    file = tmp_path / "out.json"
    options = "--xc hf --basis 6-31g --charge 1 --spin 1 --method uks --unit bohr --no-density-fit --cartesian"
    code, out, _ = dftfd_command("run", "H 0 0 0; H 0 0 2.0", *options.split(), "--json", file)
    document = json.loads(file.read_text())
    assert code == 0 and "UKS hf / 6-31g" in out
    assert document["molecule"]["molecular_charge"] == 1.0
    assert document["molecule"]["molecular_multiplicity"] == 2
    assert document["molecule"]["geometry"] == [0, 0, 0, 0, 0, 2.0]
    assert document["keywords"]["density_fit"] is False


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["run", "no_such_file.xyz"], 5, "no_such_file.xyz"),
        (["run", "Xx 0 0 0; H 0 0 1"], 2, "unknown element"),
        (["run", HYDROGEN, "--basis", "def2-svpp"], 2, "def2-svp"),
        (["run", HYDROGEN, "--xc", "pbee"], 2, "closest"),
        (["run", HYDROGEN, "--xc", ""], 2, "empty"),
        (["run", HYDROGEN, "--spin", "1"], 2, "spin=1"),
        (["run", HYDROGEN, "--charge", "3"], 2, "charge +3"),
        (["run", HYDROGEN, "--spin", "2", "--method", "rks", "--basis", "6-31g"], 2, "RKS needs spin 0"),
        (["run", HYDROGEN, "--unit", "nm"], 2, "unit='nm': give one of 'angstrom', 'bohr'"),
        (["run", HYDROGEN, "--grid-level", "12"], 2, "grid_level=12"),
        (["run", "H 0 0 0; H 0 0 nan"], 2, "atom 2"),
        (["run", "H 0 0 0; H 0 0 0"], 2, "atom"),
        (["run", "H 0 0 0; H 0 0 __import__('os').system('true')"], 2, "expected a number"),
        (["run", HYDROGEN, "--charge", "one"], 2, "--charge"),
        (["run", HYDROGEN, "--max-cycles", "0"], 2, "max_cycles=0"),
        (["run", HYDROGEN, "--json", "/no/such/folder/out.json"], 5, "does not exist"),
        (["run"], 2, "Missing argument"),
        (["run", HYDROGEN, "--bogus"], 2, "--bogus"),
        (["run", HYDROGEN, "\u2014xc", "pbe0"], 2, "em dash"),
        (["run", HYDROGEN, "--point-charges", ""], 2, "there are no numbers in it"),
        (["frobnicate"], 2, "frobnicate"),
        (["check", "no_such_functional"], 2, "no_such_functional"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(dftfd_command, arguments, code, message):
    """Exit code 2 (5 for files), one line on standard error that names the culprit, no traceback, no result."""
    got, out, err = dftfd_command(*arguments)
    assert got == code
    assert one_line(err) and err.startswith("dftfd: error: ")
    assert message in err
    assert "total energy" not in out


def test_not_converged_is_exit_code_3(dftfd_command, tmp_path):
    """The result is printed and written all the same, marked as a failure."""
    file = tmp_path / "out.json"
    code, out, err = dftfd_command(
        "run", WATER_FILE, "--xc", "hf", "--basis", "6-31g", "--max-cycles", 2, "--json", file
    )
    assert code == 3
    assert "NOT CONVERGED" in out
    assert err == "dftfd: error: SCF not converged after 2 cycles.\n"
    document = json.loads(file.read_text())
    assert "scf_dipole_moment" not in document["properties"] and document["extras"]["dftfd"]["s_squared"] is None
    assert document["success"] is False and document["error"]["error_type"] == "convergence_error"


@pytest.mark.parametrize(
    "error, code, message",
    [
        (NumericalError("SCF cycle 3: the energy component 'xc' is nan."), 4, "'xc' is nan"),
        (FileError("disk full"), 5, "disk full"),
        (ResourceError("needs 900 GiB"), 6, "900 GiB"),
        (MemoryError(), 6, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("a bug"), 1, "internal error: RuntimeError: a bug"),
    ],
)
def test_every_failure_has_its_exit_code(dftfd_command, monkeypatch, error, code, message):
    """Whatever the calculation raises ends in one line and the documented code."""

    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("dftfd.tasks.run.run_scf", fail)
    got, _, err = dftfd_command("run", HYDROGEN)
    assert got == code
    assert one_line(err) and message in err


def test_debug_shows_the_traceback():
    """--debug lets the exception through to the interpreter."""
    with pytest.raises(dftfd.InputError, match="unit='nm'"):
        main(["run", HYDROGEN, "--unit", "nm", "--debug"])


def test_warnings_are_one_line(dftfd_command):
    """Bohr read as angstrom: a warning without file names, and the run goes on."""
    code, _, err = dftfd_command("run", "H 0 0 0; H 0 0 1.4", "--xc", "hf", "--basis", "sto-3g")
    assert code == 0
    assert one_line(err) and err.startswith("dftfd: warning: ")


def test_list_names_functionals(dftfd_command):
    """All names, one per line, those of libxc's catalogue with their prefix; a pattern narrows them."""
    code, out, _ = dftfd_command("list")
    assert code == 0 and {"pbe", "b3lyp", "gga_x_pbe", "lda_c_vwn"} <= set(out.split())
    assert all("lyp" in name for name in dftfd_command("list", "LYP")[1].split())
    assert dftfd_command("list", "libxc:")[1].split() == [catalogue.PREFIX + name for name in catalogue.served_names()]


def test_check_prints_a_table_and_its_verdict(dftfd_command, monkeypatch):
    """Exit code 0 if everything is within the tolerances, 1 if not; the table is printed in both cases."""
    from dftfd.verify.reports import Report, Row

    module = importlib.import_module("dftfd.verify.check")  # the attribute dftfd.check is the function
    for error, expected in ((1e-14, 0), (1e-3, 1), (float("nan"), 1)):
        row = Row("e, dense", 2, error, "n = 1", 1e-12)
        report = lambda name, with_potentials, row=row, **_: Report(name, f"libxc {with_potentials}", (row,))
        monkeypatch.setattr(module, "check", report)
        code, out, err = dftfd_command("check", "lda_x")
        assert (code, err) == (expected, "")
        assert "lda_x against libxc True" in out and "e, dense" in out
        assert "libxc False" in dftfd_command("check", "lda_x", "--quick")[1]
        code, out, _ = dftfd_command("check", "lda_x", "--json")
        document = json.loads(out, parse_constant=pytest.fail)
        assert code == expected and document["passed"] == (code == 0) and document["rows"][0]["quantity"] == "e, dense"


@pytest.mark.slow  # 1 s; test_standard_output_that_is_full of test_cli_process is quick
def test_a_reader_that_leaves_early_is_not_an_error():
    """`dftfd list | head -1`: no traceback."""
    command = f"{sys.executable} -c 'import sys; from dftfd.cli import main; sys.exit(main([\"list\"]))' | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout and "Traceback" not in done.stderr


def test_help_and_version(dftfd_command):
    """Each command explains its options; no command means help."""
    assert "--no-density-fit" in dftfd_command("run", "--help")[1]
    assert "Commands" in dftfd_command()[1]
    assert dftfd_command("--version")[1].strip() == dftfd.__version__


def test_an_option_left_out_is_the_argument_left_out():
    """Options that are called as an argument of the function have its default; an empty text stands for nothing.

    They are declared twice, since commands may not load JAX before they run.
    """
    from dftfd.results.vibrations import Vibrations
    from dftfd.verify.oracle import oracle, oracle_at

    functions = {
        "run": [dftfd.run_batch],
        "gradient": [dftfd.run_batch],
        "interaction": [dftfd.interaction_energy],
        "frequencies": [dftfd.SCFResult.vibrations, Vibrations.thermochemistry],
        "excitations": [dftfd.SCFResult.excitations],
        "polarizability": [dftfd.SCFResult.polarizability],
        "oracle": [oracle, oracle_at],
    }
    same_name = "optimize scan reaction-path benchmark reaction check audit prove export fit discover invert"
    functions |= {name: [getattr(dftfd, name.replace("-", "_"))] for name in same_name.split()}
    for name, called in functions.items():
        options = {option.name: option.default for option in get_command(app).commands[name].params}
        options.pop("folder", None)  # of discover, where the command always keeps what it finds
        arguments = [a for f in called for a in inspect.signature(f).parameters.values() if a.name in options]
        defaults = {a.name: a.default or None for a in arguments if a.default is not a.empty}
        assert defaults and defaults == {argument: options[argument] or None for argument in defaults}, name


def test_every_command_has_debug_and_verbose(dftfd_command):
    """What an internal error asks for is there; commands that do without JAX have it, too."""
    for name, command in get_command(app).commands.items():
        assert {"debug", "verbose"} <= {option.name for option in command.params}, name
    assert dftfd_command("list", "pbe_x", "--debug") == dftfd_command("list", "pbe_x")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--report", "a.html"),
        ("frequencies", "--output", "a.html"),
        ("excitations", "--output", "a.html"),
        ("scan", "--bond", "0", "1", "--from", "1", "--to", "2", "--output", "a.PNG"),
        ("prove", "--plot", "a.png"),
    ],
)
def test_pictures_without_matplotlib_are_refused_before_anything_is_computed(words, dftfd_command, monkeypatch):
    """One line that names the extra; of the calculation there is none."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = dftfd_command(words[0], HYDROGEN, *words[1:])
    assert (code, out) == (2, "") and "dftfd[plots]" in err and one_line(err)


@pytest.mark.slow  # 1.4 s; help and lists load nothing: test_listing.py
def test_starting_the_command_imports_no_chemistry():
    """`dftfd --help` must answer at once: PySCF, SciPy and the operator core are imported by the commands only."""
    code = (
        "import sys, dftfd.cli; print([m for m in ('pyscf', 'scipy', 'dftfd.autofd', 'rich.live') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_a_process_returns_the_exit_code():
    """`python -m dftfd` is the command; the code reaches the shell."""
    done = subprocess.run([sys.executable, "-m", "dftfd", "frobnicate"], capture_output=True, text=True)
    assert done.returncode == 2
    assert one_line(done.stderr)


def interrupted(command, last_line):
    """(exit code, standard error) of a process that gets SIGINT after this line of its output, and has to end then."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith(last_line):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.slow  # 4 s; quick: test_an_interrupt_is_heard_in_the_end, restarts of test_checkpoint
def test_interrupt_ends_with_130(tmp_path):
    """Ctrl-C during the calculation: one line that says how to go on, exit code 130; --restart then finishes."""
    options = ["--xc", "lda,vwn", "--basis", "6-31g", "--grid-level", "7", "--checkpoint", str(tmp_path / "n2.chk")]
    run = ["run", "N 0 0 0; N 0 0 1.1", *options]
    code, err = interrupted([sys.executable, "-m", "dftfd", *run], "cycle= 2")
    assert code == 130
    assert err == f"dftfd: error: interrupted; the last cycle is saved, continue with --restart {tmp_path / 'n2.chk'}\n"
    assert main([*run[:-2], "--restart", run[-1]]) == 0


def test_where_interrupts_are_ignored_nothing_is_opened():
    """A command in the background of a shell, which turns Ctrl-C off: no thread, and no file or socket is left."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        opened, threads = os.listdir("/dev/fd"), threading.active_count()
        with InterruptWatch():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.active_count() == threads
            assert os.listdir("/dev/fd") == opened
    finally:
        signal.signal(signal.SIGINT, before)


DEAF = """
import time
from dftfd.cli import InterruptWatch
with InterruptWatch():
    while True:
        try:
            print("at work", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""

IN_A_CALLBACK = """
import sys, time
from dftfd.cli import InterruptWatch
class Slow:
    def __del__(self):
        print("at work", flush=True)
        time.sleep(60)
with InterruptWatch() as watch:
    try:
        slow = Slow()
        del slow
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(f"{watch.interrupted}")
"""


@pytest.mark.parametrize(
    "code, status, said", sample([(DEAF, 130, "dftfd: error: interrupted"), (IN_A_CALLBACK, 1, "True")], at=[0])
)
def test_an_interrupt_is_heard_in_the_end(code, status, said):
    """Code that swallows Ctrl-C, as compiled code that runs for minutes would: the watch ends it.

    In a callback whose exceptions Python ignores it is repeated, and nothing is printed about it.
    """
    assert interrupted([sys.executable, "-c", code], "at work") == (status, f"{said}\n")


@pytest.mark.slow  # 1 s, two processes; test_an_interrupt_is_heard_in_the_end is quick
def test_an_interrupt_during_imports_ends_at_once():
    """The command leaves the signal to the system until it is ready; a program that imports dftfd keeps its own."""
    code = (
        "import signal, sys; sys.orig_argv = {}; import dftfd\nprint(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)"
    )
    answers = [
        subprocess.run([sys.executable, "-c", code.format(words)], capture_output=True, text=True, check=True).stdout
        for words in (["python", "-m", "dftfd", "list"], ["python", "script.py"])
    ]
    assert answers == ["True\n", "False\n"]


def test_an_interrupt_after_the_end_changes_nothing():
    """The result is printed and the files are written; the signal does not turn that into exit code 130."""
    code = (
        "import os, signal, sys; sys.orig_argv = ['python', '-m', 'dftfd', 'list']\n"
        "from dftfd.cli import main\n"
        "code = main(['list', 'gga_x_pbe'])\n"
        "os.kill(os.getpid(), signal.SIGINT); print('end'); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("end\n")


def test_live_table_on_a_terminal():
    """With a terminal as output, rich draws the table; here on a recorded console."""
    from rich.console import Console

    from dftfd.cli.live import LiveProgress

    console = Console(force_terminal=True, width=100, record=True)
    with LiveProgress(console) as progress:
        dftfd.run_scf(dftfd.molecule(WATER_FILE, basis="6-31g"), xc="hf", progress=progress)
    text = console.export_text()
    for part in ("cycle", "energy / hartree", "density fitting", "start", "check"):
        assert part in text


def test_a_question_ends_with_its_mark(capsys):
    assert main(["optimse"]) == 2
    assert "Did you mean 'optimize'? See dftfd --help." in capsys.readouterr().err
