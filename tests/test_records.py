"""Records: what is gone on from is of the same formula and options, unchanged, and written by one process at a time."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import CheckpointError, DamagedFileError, FileError, InputWarning
from dftfd.functionals import registry
from dftfd.model import identity
from dftfd.model.identity import PATIENCE, identity_of
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, Options, names
from dftfd.runtime.records import Record, locked, recorded, require_same
from dftfd.tasks.optimization import TrajectoryWriter, read_trajectory
from dftfd.terms import DerivedTerm, energy_term

OWN = """
import dftfd
from dftfd.autofd import compose

@dftfd.functional("own_x")
def own_x(n, *, c={c}):
    return compose(lambda n: -c * n ** ({power}), n)
"""
BEFORE, PARAMETER, FORMULA = {"c": 0.75, "power": "4 / 3"}, {"c": 0.8, "power": "4 / 3"}, {"c": 0.75, "power": "1.3"}
H2, CHEAP = "H 0 0 0; H 0.1 0 0.9", ["--basis", "sto-3g", "--grid-level", "0"]
SET = {
    "dftfd_benchmark": 1,
    "name": "h2",
    "unit": "kcal/mol",
    "molecules": {"H2": {"atoms": "H 0 0 0; H 0 0 0.74"}, "H": {"atoms": "H 0 0 0;", "spin": 1}},
    "reactions": [{"name": "H2", "subset": "all", "stoichiometry": {"H": 2, "H2": -1}, "reference": 100.0}],
}

# What can be gone on from: a first run, which ends or stops early, and the same command once more.
XC = ["--xc", "own.py:own_x"]
COMMANDS = {
    "optimize": (["optimize", H2, *XC, *CHEAP, "--max-steps", "1"], ["--restart"]),
    "scan": (["scan", H2, *XC, *CHEAP, "--bond", "0", "1", "--from", "0.7", "--to", "0.9", "--steps", "2"], []),
    "frequencies": (["frequencies", H2, *XC, *CHEAP, "--record", "r.jsonl"], ["--restart"]),
    "run": (["run", H2, *XC, *CHEAP, "--checkpoint", "r.chk"], ["--restart", "r.chk"]),
    "fit": (
        ["fit", "own.py:own_x", "set.json", "--parameters", "c", *CHEAP, "--evaluations", "1", "--record", "r"],
        [],
    ),
}
COMMANDS["scan"] = ([*COMMANDS["scan"][0], "--record", "r.jsonl"], ["--restart"])


def write_own(numbers):
    """The file as an editor leaves it, for a process that has not read it yet."""
    registry._REGISTRY.pop("own_x", None)
    Path("own.py").write_text(OWN.format(**numbers))


OFTEN = ("run",)
"""A record and a checkpoint; what others compare, each option of paths and fits among it, is in the tests below."""


@pytest.mark.parametrize("command", [pytest.param(c, marks=[pytest.mark.slow] * (c not in OFTEN)) for c in COMMANDS])
def test_no_run_goes_on_with_another_formula_or_option(command, tmp_path, monkeypatch, capsys):
    """After an edit of own.py (a parameter, an exponent), with another grid: refused in one line that says what."""
    monkeypatch.chdir(tmp_path)
    Path("set.json").write_text(json.dumps(SET))
    write_own(BEFORE)
    first, again = COMMANDS[command]
    assert main(first) in (0, 3), capsys.readouterr().err
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.name not in ("own.py", "__pycache__")}
    for numbers, words in ((PARAMETER, "formula|functional"), (FORMULA, "formula|functional"), (BEFORE, "grid level")):
        write_own(numbers)
        capsys.readouterr()
        code = main([*first, *again] if numbers != BEFORE else [*first, *again, "--grid-level", "1"])
        said = capsys.readouterr().err.splitlines()[-1]
        assert code == CheckpointError.exit_code and re.search(words, said) and said.startswith("dftfd: error"), said
    assert all(path.read_bytes() == content for path, content in files.items() if path.is_file())
    write_own(BEFORE)
    assert main([*first, *again]) in (0, 3), capsys.readouterr().err


def h2(**more):
    return dftfd.molecule(H2, basis="sto-3g", **more)


@energy_term("of-these-records")
class OfTheseRecords(DerivedTerm):
    components = {"of_these_records": "toy"}

    def energy(self, P, S):
        return 1e-3 * jnp.trace(P.sum(axis=0) @ S)


# A value of each option that is not the default.
OTHER = {
    "xc": "hf",
    "method": "UKS",
    "grid_level": 4,
    "nlc_grid_level": 2,
    "density_fit": False,
    "auxiliary_basis": "def2-universal-jkfit",
    "grid": (np.ones((2, 3)), np.ones(2)),
    "conv_tol": 1e-8,
    "convergence": "fast",
    "level_shift": 0.1,
    "damping": 0.2,
    "guess": "core",
    "broken_symmetry": "mix",
    "occupations": [[1], [1]],
    "smearing": 0.01,
    "follow_orbitals": True,
    "electric_field": [0, 0, 1e-3],
    "point_charges": [[1.0, 0, 0, 9.0]],
    "relativity": "x2c",
    "external_potential": lambda r: 1e-3 * r[0],
    "solvent": "water",
    "solvent_model": "cosmo",
    "terms": ["of-these-records"],
    "frozen_core": True,
    "linear_dependence": 1e-5,
}


def test_every_option_that_changes_a_number_is_part_of_the_identity():
    """All of them are in OTHER; each has an identity of its own, other atoms and basis functions do, too."""
    counted = set(names(ENERGY, STATE, START, SEARCH)) - PATIENCE
    assert set(OTHER) == counted, "a new option: enter another value of it in OTHER"
    of = lambda molecule, **given: json.dumps(identity_of(molecule, Options(**{"xc": "pbe", **given})))
    given = [of(h2(), **{name: value}) for name, value in OTHER.items()]
    molecules = [h2(charge=1, spin=1), h2(spin=2), dftfd.molecule(H2, basis="6-31g"), h2().at([[0, 0, 0], [0, 0, 1.4]])]
    molecules += [dftfd.molecule("H 0 0 0; D 0.1 0 0.9".replace("D", "ghost-H"), basis="sto-3g", spin=1)]
    found = [of(h2()), *given, *map(of, molecules)]
    assert len(set(found)) == len(found)
    assert all(of(h2(), **{name: OPTIONS[name].default}) == found[0] for name in counted - {"xc"})
    assert of(h2(), max_cycles=77) == found[0]


def test_paths_and_scans_compare_each_option(tmp_path):
    """A path and a scan on the disk; each option, argument of the search, start and constraint is refused at once."""
    given = {"xc": "lda,vwn", "grid_level": 1}
    path, record, line = tmp_path / "p.xyz", tmp_path / "s.jsonl", {"atoms": (0, 1), "values": [0.8, 0.9]}
    dftfd.optimize(h2(), trajectory=path, max_steps=1, **given)
    dftfd.scan(h2(), path=record, relaxed=True, max_steps=1, **line, **given)
    kept = path.read_bytes(), record.read_bytes()
    others = {name: value for name, value in OTHER.items() if name not in ("grid", "occupations", "follow_orbitals")}
    search = [{"coordinate_system": "cart"}, {"constraints": "$freeze\nxyz 1"}, {"optimizer": {"trust": 0.05}}]
    of_paths = [{"transition_state": True}, {"state": 1}, {"grid_response": False}, {"hessian": np.zeros((2, 3, 2, 3))}]
    for more in [*({name: value} for name, value in others.items()), *search, *of_paths]:
        with pytest.raises(
            CheckpointError, match="of another calculation: .*Continue with the same calculation, or use another name"
        ):
            dftfd.optimize(h2(), trajectory=path, restart=True, **given | more)
        if more not in of_paths:
            with pytest.raises(CheckpointError, match="of another calculation"):
                dftfd.scan(h2(), path=record, restart=True, relaxed=True, **line, **given | more)
    with pytest.raises(CheckpointError, match="other positions"):
        dftfd.optimize(h2().at([[0, 0, 0], [0, 0, 1.5]]), trajectory=path, restart=True, **given)
    for more in ({"relaxed": False}, {"atoms": (1, 0)}):
        with pytest.raises(CheckpointError, match="relaxed|scanned"):
            dftfd.scan(h2(), path=record, restart=True, **{"relaxed": True} | line | given | more)
    assert (path.read_bytes(), record.read_bytes()) == kept


def test_each_frame_is_compared_and_the_last_energy_computed_again(tmp_path):
    """A path put together of two functionals; one whose last energy is another; one of an earlier version, told so."""
    frames = {}
    for xc in ("hf", "lda,vwn"):
        dftfd.optimize(h2(), xc, trajectory=tmp_path / "p.xyz", grid_level=1, max_steps=2)
        frames[xc] = read_trajectory(tmp_path / "p.xyz")
        (tmp_path / "p.xyz").unlink()
    first, second = frames["hf"][:2]
    go_on = lambda: dftfd.optimize(h2(), "hf", trajectory=tmp_path / "p.xyz", grid_level=1, restart=True)
    (tmp_path / "p.xyz").write_text(f"{first}{frames['lda,vwn'][1]}")
    with pytest.raises(CheckpointError, match="functional 'lda,vwn' instead of 'hf'"):
        go_on()
    (tmp_path / "p.xyz").write_text(f"{first}{replace(second, energy=second.energy + 1e-5)}")
    with pytest.raises(CheckpointError, match="last recorded energy"):
        go_on()
    whole = f"{first}{second}"
    (tmp_path / "p.xyz").write_text(whole.replace(f"{second.energy!r} model", f"{second.energy + 1e-9!r} model"))
    with pytest.raises(DamagedFileError, match="frame 1, line 5: the frame was changed"):
        go_on()
    (tmp_path / "p.xyz").write_text(re.sub(r" identity=.*", "", whole))
    with pytest.warns(InputWarning, match="earlier version"):
        assert go_on().converged


def test_frequencies_go_on_with_their_optimisation(tmp_path, monkeypatch, capsys):
    """Interrupted behind the optimisation, the same command with --restart takes its steps from the file beside."""
    monkeypatch.chdir(tmp_path)
    words = ["frequencies", H2, "--xc", "hf", *CHEAP, "--optimize", "--record", "r.jsonl"]
    assert main(words) == 0
    first = capsys.readouterr().out
    lines = Path("r.jsonl").read_text().splitlines(keepends=True)
    Path("r.jsonl").write_text("".join(lines[:4]))
    assert main(words) != 0 and "r.jsonl exists: continue from it" in capsys.readouterr().err
    assert main([*words, "--restart"]) == 0
    again = capsys.readouterr().out
    assert "(recorded)" in again and " cycles)" in first and " cycles)" not in again
    assert Path("r.jsonl").read_text().splitlines(keepends=True)[:4] == lines[:4]


@pytest.mark.slow  # 0.7 s; fits are compared above
def test_a_reaction_held_out_is_another_fit_than_one_fitted_to(tmp_path, monkeypatch):
    """Both sets together are the same reactions."""
    monkeypatch.chdir(tmp_path)

    def sets_of(*references):
        one = SET["reactions"][0]
        return SET | {"reactions": [one | {"name": f"H2 {r}", "reference": r} for r in references]}

    for name, references in {"a": (100.0, 105.0), "b": (110.0,), "c": (100.0,), "d": (105.0, 110.0)}.items():
        Path(f"{name}.json").write_text(json.dumps(sets_of(*references)))
    options = {"parameters": ["mu"], "basis": "sto-3g", "grid_level": 1, "evaluations": 1, "record": "r"}
    dftfd.fit("gga_x_pbe", "a.json", validation="b.json", **options)
    with pytest.raises(CheckpointError, match="held out 1 instead of 2"):
        dftfd.fit("gga_x_pbe", "c.json", validation="d.json", **options)


# ------------------------------------------------------------------------------------------------------ the file itself


def changed_digit(line):
    """The line with one digit of a number of its own changed."""
    place = re.search(r"\d{9}", line).start() + 4
    return line[:place] + str((int(line[place]) + 1) % 10) + line[place + 1 :]


def test_a_changed_digit_of_a_batch_or_benchmark_is_found(tmp_path, capsys, monkeypatch):
    """Refused with the line's number; without it, that molecule alone is computed again."""
    monkeypatch.chdir(tmp_path)
    Path("set.json").write_text(json.dumps(SET))
    for words in (["run", H2, "He 0 0 0;", "--xc", "hf"], ["benchmark", "set.json", "--xc", "hf"]):
        command = [*words, *CHEAP, "--record", "r.jsonl"]
        Path("r.jsonl").unlink(missing_ok=True)
        assert main(command) == 0
        lines = Path("r.jsonl").read_text().splitlines()
        Path("r.jsonl").write_text("\n".join([lines[0], changed_digit(lines[1]), ""]))
        capsys.readouterr()
        assert main(command) == DamagedFileError.exit_code
        assert "r.jsonl, line 2: the line was changed" in capsys.readouterr().err
        Path("r.jsonl").write_text("\n".join([lines[0], ""]))
        assert main(command) == 0
        assert len(Path("r.jsonl").read_text().splitlines()) == 2


def test_another_version_of_pyscf_is_another_calculation(tmp_path, monkeypatch):
    """Whose integrals and tables the numbers are of; what does not say which one it was is not compared."""
    molecule, options = h2(), Options(xc="hf")
    now = identity_of(molecule, options)
    monkeypatch.setattr(identity.metadata, "version", lambda name: "1.0")
    before = identity_of(molecule, options)
    assert before["PySCF"] == "1.0" != now["PySCF"]
    with pytest.raises(CheckpointError, match="PySCF '1.0' instead of "):
        require_same(tmp_path, "record", before, now)
    require_same(tmp_path, "record", {name: value for name, value in before.items() if name != "PySCF"}, now)


def test_lines_of_earlier_versions_are_read_and_told(tmp_path):
    """Without checksums: the answers are taken, and one warning says so."""
    given = {"xc": "hf", "record": tmp_path / "r.jsonl", "molecule_options": {"basis": "sto-3g"}}
    (first,) = dftfd.run_batch([H2], **given)
    text = given["record"].read_text()
    given["record"].write_text(re.sub(r', "check": "\w+"}', "}", text))
    with pytest.warns(InputWarning, match="1 lines without a checksum"):
        (again,) = dftfd.run_batch([H2], **given)
    assert again == first and "check" not in given["record"].read_text()


def test_a_record_survives_whatever_cuts_it_short(tmp_path):
    """Cut after each byte: what was whole is there, and the pieces that follow make the file that it was."""
    path, pieces = tmp_path / "r", [{"k": k, "row": [0.1 * k]} for k in range(3)]
    with recorded(path, "a test", {"a": 1}) as record:
        for piece in pieces:
            record.add(piece)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        with recorded(path, "a test", {"a": 1}) as record:
            done = len(record.pieces)
            assert record.pieces == pieces[:done] and done >= whole[:size].count(b"\n") - 1
            for piece in pieces[done:]:
                record.add(piece)
        assert path.read_bytes() == whole
    for k in range(len(whole)):  # any byte that is another one
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
        with pytest.raises(FileError), recorded(path, "a test", {"a": 1}) as record:
            assert record.pieces != pieces  # a line break that is none leaves a last line that is cut short
            raise FileError("cut short")
    with pytest.raises(CheckpointError, match="a 1 instead of 2; b the default instead of 3"):
        recorded(path, "a test", {"a": 2, "b": 3}).__enter__()


@pytest.mark.parametrize("command", ["optimize", "scan", "frequencies", "fit"])
def test_one_run_at_a_time_has_a_record(command, tmp_path, monkeypatch, capsys):
    """While another has it: refused, nothing computed, nothing written; the lock ends with its process."""
    monkeypatch.chdir(tmp_path)
    Path("set.json").write_text(json.dumps(SET))
    write_own(BEFORE)
    first, _ = COMMANDS[command]
    name = first[first.index("--record") + 1] if "--record" in first else "optimization.xyz"
    with locked(name):
        assert main(first) == FileError.exit_code
        assert f"{name} is in use by another run" in capsys.readouterr().err
    assert not os.path.exists(name) and not list(tmp_path.glob(".*lock"))


def test_a_lock_ends_with_its_process(tmp_path):
    """Killed: the next one has the file at once; a process that lives keeps it from all others."""
    code = (
        f"from dftfd.runtime.records import locked\nwith locked({str(tmp_path / 'r')!r}): print(1, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(FileError, match="in use"), locked(tmp_path / "r"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(tmp_path / "r"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    ["optimize", "scan", *(pytest.param(c, marks=pytest.mark.slow) for c in ("fit", "frequencies", "benchmark"))],
)
def test_an_interruption_names_the_record(command, tmp_path, monkeypatch, capsys):
    """Ctrl-C when something is done: exit code 130, and one line with the file and how to go on, which it then does."""
    monkeypatch.chdir(tmp_path)
    Path("set.json").write_text(json.dumps(SET))
    write_own(BEFORE)
    benchmark = ["benchmark", "set.json", *XC, *CHEAP, "--record", "r.jsonl"], []
    first, again = COMMANDS.get(command, benchmark)
    add, replace_, n = Record.add, Record.replace, []

    def interrupt(write, least):
        def written(*arguments):
            write(*arguments)
            n.append(1)
            if len(n) == least:
                raise KeyboardInterrupt

        return written

    monkeypatch.setattr(Record, "add", interrupt(add, 1 if command == "benchmark" else 2))
    monkeypatch.setattr(Record, "replace", interrupt(replace_, 1))
    monkeypatch.setattr(TrajectoryWriter, "append", interrupt(TrajectoryWriter.append, 1))
    assert main(first) == 130
    name = first[first.index("--record") + 1] if "--record" in first else "optimization.xyz"
    how = "the same command with --restart" if "--restart" in again else "the same command"
    assert capsys.readouterr().err.strip().endswith(f"interrupted; finished work is in {name}, continue with {how}")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main([*first, *again]) in (0, 3), capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------------- kills

WATER = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
MANY = [f"H 0 0 0; H 0 0 {0.7 + 0.05 * k:.2f}" for k in range(6)]
LONG = {  # a dipole moment has the error of the density itself, which conv-tol bounds by its square root
    "optimize": ["optimize", WATER, *XC, *CHEAP, "--conv-tol", "1e-11", "--trajectory", "r"],
    "scan": ["scan", WATER, *XC, *CHEAP, "--bond", "0", "1", "--from", "0.8", "--to", "1.2", "--record", "r"],
    "frequencies": ["frequencies", WATER, *XC, *CHEAP, "--derivatives", "differences", "--record", "r"],
    "run": ["run", *MANY, *XC, *CHEAP, "--record", "r"],
    "benchmark": ["benchmark", "set.json", *XC, "--xc", "own.py:own_x, pbe, hf", *CHEAP, "--record", "r"],
    "fit": ["fit", "own.py:own_x", "set.json", "--parameters", "c", *CHEAP, "--evaluations", "6", "--record", "r"],
}


def numbers_of(text):
    """The numbers that a command prints at its end, without those of each step, memory and times."""
    of_steps = r"recorded|^memory|cycles\)|^point|^displ|^ *\d+/\d+ "
    kept = [line for line in text.splitlines() if not re.search(of_steps, line)]
    return [float(x) for x in re.findall(r"-?\d+\.\d{2,}(?:e[-+]\d+)?", re.sub(r"\d+\.\d+ s\b", "", "\n".join(kept)))]


@pytest.mark.slow  # some thirty processes
@pytest.mark.parametrize("command", LONG)
@pytest.mark.one_in(2)
def test_killed_at_random_moments_a_run_ends_as_if_it_had_not_been(command, tmp_path, monkeypatch):
    """SIGKILL five times, after a random number of pieces and a random while; then what it prints is the same."""
    rng = random.Random(f"{command} 20261127")
    outputs, kills = [], 0
    for killed in (False, True):
        folder = tmp_path / str(killed)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("set.json").write_text(json.dumps(SET))
        Path("own.py").write_text(OWN.format(**BEFORE))
        words = [sys.executable, "-m", "dftfd", *LONG[command]]
        restart = ["--restart"] if command in ("optimize", "scan", "frequencies") else []
        size = lambda: os.path.getsize("r") if os.path.exists("r") else 0
        while killed and kills < 5:
            kills += 1
            again, before, wanted, last = restart if size() else [], size(), rng.randint(0, 3), size()
            with subprocess.Popen([*words, *again], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                while process.poll() is None and (wanted or size() == before == 0):
                    time.sleep(0.002)
                    wanted, last = wanted - (size() != last), size()
                time.sleep(rng.uniform(0, 0.3))
                process.kill()
                assert process.wait() in (0, -signal.SIGKILL), process.stderr.read()
        words += restart if killed and size() else []
        end = subprocess.run(words, capture_output=True, text=True)
        assert end.returncode == 0, end.stderr
        outputs.append(end.stdout)
    before, after = map(numbers_of, outputs)
    assert len(before) > 1 and before == pytest.approx(after, rel=1e-6, abs=2e-6)
