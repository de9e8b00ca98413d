"""What is printed can be read: whole words in 80 columns, colour on terminals alone, short values, cycles in notebooks.

A terminal here is a pseudo-terminal of 80 columns that the command writes to.
"""

import contextlib
import os
import pty
import re
import sys
import threading
import types
import warnings

import pytest

import dftfd
from dftfd.cli import main
from dftfd.cli.commands import messages
from dftfd.cli.terminal import coloured, wrapped
from dftfd.runtime.progress import LogProgress, NotebookProgress, as_progress

COLUMNS = 80
COMMANDS = (
    "run gradient optimize frequencies reaction reaction-path view scan interaction excitations polarizability fit "
    "list check audit audit-code read show prove export workbench oracle completion cache doctor benchmark passport "
    "invert get-libxc discover"
).split()
HELIUM = "He 0 0 0;"
END = "\0"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def on_terminal(monkeypatch):
    """Code of arguments: what the command shows on a terminal of 80 columns, both streams, and its exit code."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments):
        ours, its = pty.openpty()
        received = []
        reader = threading.Thread(target=_read_all, args=(ours, received))
        reader.start()
        with open(its, "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            code = main(list(arguments))
            stream.write(END)
            stream.flush()
            reader.join()  # before the other end closes: what stands unread then can be lost
        return b"".join(received).decode().removesuffix(END).replace("\r\n", "\n"), code

    return run


def _read_all(descriptor, received):
    with contextlib.suppress(OSError):  # the other end is closed, since the command failed
        while not (received and received[-1].endswith(END.encode())):
            received.append(os.read(descriptor, 65536))
    os.close(descriptor)


def words(text):
    return ESCAPE.sub("", text).split()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_whole_words_in_80_columns(command, monkeypatch, capsys):
    """The same words as on a very wide terminal, none broken."""
    shown = {}
    for width in (COLUMNS, 400):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr(sys, "argv", ["dftfd", command, "--help"])
        assert main([command, "--help"] if command else ["--help"]) == 0
        shown[width] = capsys.readouterr().out
    assert max(map(len, shown[COLUMNS].splitlines())) <= COLUMNS
    assert shown[COLUMNS].split() == shown[400].split()


def test_the_list_of_commands_is_not_cut_off(monkeypatch, capsys):
    """Each has a sentence that fits 80 columns."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    main(["--help"])
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in lines} == set(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


@pytest.mark.parametrize(
    "arguments", [["check", "lda_x", "--quick"], ["list", "--long", "scan"], ["show", "lda_x"], ["audit", "lda_x"]]
)
def test_what_commands_print_keeps_words_whole(arguments, on_terminal, capsys):
    """On a terminal no line is wider than it, and the words are those of a pipe."""
    assert main(arguments) == 0
    piped = capsys.readouterr().out
    assert "\x1b" not in piped
    shown, code = on_terminal(*arguments)
    assert code == 0 and max(len(line) for line in ESCAPE.sub("", shown).splitlines()) <= COLUMNS
    last = shown.rpartition("\r")[2] if "\x1b[1A" in shown else shown  # after the sign of life is wiped away
    assert words(last)[-20:] == words(piped)[-20:] and set(words(piped)) <= set(words(shown))


@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        (("prove", "lda_x", "--condition", "ex_nonpositive"), "looking at up to"),
        (("export", "lda_x", "--order", "1", "--overwrite", "-o"), "deriving and writing lda_x"),
        (("passport", "lda_x"), "computing energies of atoms"),
    ],
)
def test_what_takes_long_gives_a_sign_of_life(arguments, sign, on_terminal, tmp_path):
    """On a terminal, while it is at work."""
    more = (str(tmp_path),) if arguments[-1] == "-o" else ()
    shown, code = on_terminal(*arguments, *more)
    assert code == 0 and sign in shown


def screen(raw):
    """The lines that stand on a terminal in the end: cursor up, lines wiped, carriage returns carried out."""
    lines, y, x = [""], 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", raw):
        if part == "\n":
            y, x = y + 1, 0
            lines += [""] * (y == len(lines))
        elif part == "\r":
            x = 0
        elif part.startswith("\x1b["):
            y -= int(part[2:-1] or 1) if part.endswith("A") else 0
            lines[y] = "" if part == "\x1b[2K" else lines[y]
        else:
            lines[y] = lines[y][:x].ljust(x) + part + lines[y][x + len(part) :]
            x += len(part)
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("command", "last", "tables"),
    [
        (["run"], "dipole, length", 1),
        (["gradient"], "torque", 1),
        (["polarizability"], "anisotropy", 1),
        (["excitations", "-n", "1"], "character", 1),
        (["interaction"], "interaction energy", 3),
    ],
)
def test_a_result_stands_below_the_cycles(command, last, tables, on_terminal):
    """A table of cycles for each calculation, facts once, and the result below all of it; no line goes on."""
    pair = "He 0 0 0; He 0 0 3"
    shown, code = on_terminal(*command, pair, "--basis", "6-31g", "--grid-level", "0", "--xc", "lda,vwn")
    assert code == 0
    lines = screen(shown)
    heads = [k for k, line in enumerate(lines) if "density change" in line]
    (result,) = (k for k, line in enumerate(lines) if last in line)
    assert len(heads) == tables and result > heads[-1]
    assert sum(line.startswith("grid of") for line in lines) == 1
    assert lines[1] == "nearest atoms He1-He2 3.0000 angstrom"


def test_no_convergence_failures_and_warnings_are_in_colour_on_a_terminal(on_terminal, monkeypatch):
    """Red: what is no solution, FAIL, errors. Yellow: warnings. None with NO_COLOR, nor on a dumb terminal."""
    unconverged = ["run", HELIUM, "--basis", "6-31g", "--max-cycles", "1"]
    shown, code = on_terminal(*unconverged)
    assert code == 3 and "\x1b[1;31mNOT CONVERGED\x1b[0m" in shown and "\x1b[1;31mdftfd: error:\x1b[0m" in shown
    assert "\x1b[1;31mFAIL\x1b[0m  exchange of hydrogen" in on_terminal("show", "lda_x")[0]
    heading = ["run", "He 0 0 0; He 0 0 0.4", "--basis", "sto-3g", "--max-cycles", "1"]  # nuclei too near: a warning
    assert "\x1b[33mdftfd: warning:\x1b[0m" in on_terminal(*heading)[0]
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            plain = on_terminal(*unconverged)[0]
            assert "NOT CONVERGED" in plain and not re.search(r"\x1b\[[0-9;]*m[^\x1b]*(NOT CONV|dftfd: error)", plain)


def test_nothing_is_in_colour_in_a_pipe(capsys):
    """Neither stream has an escape in it, and each report is one line for a script to read."""
    main(["run", HELIUM, "--basis", "6-31g", "--max-cycles", "1"])
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err and err.splitlines()[-1].startswith("dftfd: error: SCF not converged")
    assert "NOT CONVERGED" in out and "dftfd: error" not in out


def test_long_words_and_columns_survive_wrapping():
    """A path wider than the terminal stays whole; columns of the first line stay; what goes on is indented."""
    path = "/" + "x" * 120
    text = f"  pass  condition: {path} and some more words that do not fit\nshort  a   b"
    lines = wrapped(text, 40).split("\n")
    assert path in " ".join(lines).split() and lines[0].startswith("  pass  condition:")
    assert lines[-1] == "short  a   b" and all(line.startswith("      ") for line in lines[1:-1])
    assert coloured("FAILURE is none") == "FAILURE is none"


def test_a_warning_is_said_once_by_a_command(capsys):
    """The points of a scan say the same thing; another text is another warning."""
    with messages(False, False):
        for text in ("the grid is coarse", "the grid is coarse", "another"):
            warnings.warn(text, dftfd.errors.InputWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == [
        "dftfd: warning: the grid is coarse",
        "dftfd: warning: another",
    ]


@pytest.fixture(scope="module")
def helium():
    return dftfd.run_scf(dftfd.molecule(HELIUM, basis="6-31g"), "lda,vwn")


def test_values_print_short_and_show_themselves_in_notebooks(helium):
    """One line at a prompt, with what it is; HTML in a notebook, with special characters taken care of."""
    pair = dftfd.molecule("He 0 0 0; He 0 0 3", basis="sto-3g")
    values = {
        "He, charge +0, spin 0, 2 electrons": helium.molecule,
        "hartree, converged": helium,
        "Functional(b3lyp)": dftfd.get_functional("b3lyp"),
        "ReportCard: lda_x": dftfd.report_card("lda_x"),
        "AuditReport: Audit of lda_x": dftfd.audit("lda_x"),
        "Forces: forces / (hartree/bohr)": dftfd.nuclear_forces(helium),
        "Interaction: interaction energy": dftfd.interaction_energy(pair, [[0], [1]], "lda,vwn"),
        "1 outcomes, 0 failed": (batch := dftfd.run_batch([HELIUM], "lda,vwn", molecule_options={"basis": "6-31g"})),
        "Outcome: He 0 0 0;  -2.8": batch[0],
    }
    for part, value in values.items():
        assert part in repr(value) and len(repr(value)) < 120 and "\n" not in repr(value)
        assert "<" in value._repr_html_() and len(value._repr_html_()) < 6000
    assert "erf(omega r)/r" in dftfd.get_functional("hse06")._repr_html_()
    assert "energy / hartree" in str(batch) and max(map(len, str(helium).splitlines())) <= COLUMNS
    failed = dftfd.run_batch(["He 0 0;"], "lda,vwn", molecule_options={"charge": 5})
    assert repr(failed) == "<1 outcomes, 1 failed>" and "BAD INPUT" in str(failed) and "BAD INPUT" in str(failed[0])


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook would show, one list for each place; its IPython is played."""
    places = []

    class Place:
        def __init__(self, value):
            self.shown = [str(value)]
            places.append(self)

        def update(self, value):
            self.shown.append(str(value))

    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    display.display = lambda value, display_id: Place(value)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return places


def test_run_scf_shows_its_cycles_in_a_notebook(notebook):
    """One place below the cell, which grows; progress=False keeps it empty; a batch does not fill the page."""
    molecule = dftfd.molecule(HELIUM, basis="6-31g")
    result = dftfd.run_scf(molecule, "lda,vwn")
    (place,) = notebook
    assert len(place.shown) >= len(result.history)
    assert place.shown[-1].count("cycle= ") == sum(not c.extra and c.number > 0 for c in result.history)
    dftfd.run_scf(molecule, "lda,vwn", progress=False)
    dftfd.run_batch([HELIUM], "lda,vwn", molecule_options={"basis": "6-31g"})
    assert len(notebook) == 1


def test_elsewhere_nothing_is_shown_unasked():
    """A script and a prompt of IPython in a terminal log."""
    assert type(as_progress(None)) is LogProgress and NotebookProgress is not LogProgress
