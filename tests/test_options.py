"""The options of a calculation: said once, and known to everything that reads them."""

import inspect
import json

import jax
import numpy as np
import pytest

import dftfd
import dftfd.tasks.energy_differences  # here, lest it be imported while its run_scf is another one
from dftfd.cli import main
from dftfd.errors import InputError
from dftfd.model.options import ENERGY, OPTIONS, SEARCH, START, STATE, Options, names
from dftfd.results.qcschema import DECIDED, read_input
from dftfd.runtime.chosen_terms import energy_term

HYDROGEN = "H 0 0 0; H 0 0 0.74"
energy_term("of-these-options")(lambda molecule, a, b: None)
GIVEN = {
    "xc": ("lda,vwn", "lda,vwn"),
    "method": ("uks", "UKS"),
    "grid_level": ("1", 1),
    "nlc_grid_level": ("2", 2),
    "density_fit": (None, False),
    "auxiliary_basis": ("def2-universal-jkfit", "def2-universal-jkfit"),
    "grid": ("grid.txt", (np.array([[0.0, 0.0, 0.5], [0.0, 0.1, 0.0]]), np.array([1.0, 2.0]))),
    "conv_tol": ("1e-7", 1e-7),
    "max_cycles": ("7", 7),
    "convergence": ("hard", "hard"),
    "level_shift": ("0.3", 0.3),
    "damping": ("0.2", 0.2),
    "guess": ("core", "core"),
    "broken_symmetry": ("0 1", (0, 1)),
    "occupations": ("1 0; 0.5,0.5", ((1.0, 0.0), (0.5, 0.5))),
    "smearing": ("gaussian 0.01", ("gaussian", 0.01)),
    "follow_orbitals": ("", True),
    "electric_field": ("0 0 -0.01", np.array([0.0, 0.0, -0.01])),
    "point_charges": ("1 0 0 5; -1,0,0,-5", np.array([[1.0, 0, 0, 5], [-1.0, 0, 0, -5]])),
    "relativity": ("x2c", "x2c"),
    "solvent": ("78.4 1.78", (78.4, 1.78)),
    "solvent_model": ("smd", "smd"),
    "terms": ('of-these-options(a=1, b="x")', ('of-these-options(a=1, b="x")',)),
    "frozen_core": ("", True),
    "linear_dependence": ("1e-5", 1e-5),
    "allow_unconverged": ("", True),
    "checkpoint": ("h2.chk", "h2.chk"),
    "restart": ("h2.chk", "h2.chk"),
    "max_memory": ("4 GB", "4 GB"),
}
"""Each option but objects: its text on the command line, and the value that run_scf gets."""


@pytest.fixture
def taken(monkeypatch, tmp_path):
    """What the command line and batches hand over, as checked Options; nothing is computed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.txt").write_text("# x y z weight\n0 0 0.5 1\n0 0.1 0 2\n")
    found = []

    def take(molecule, **options):
        found.append(Options(**options))
        raise InputError("taken")

    monkeypatch.setattr("dftfd.tasks.run.run_scf", take)
    monkeypatch.setattr("dftfd.batch.entries.run_scf", take)
    return found


def arguments(name, text):
    """An option on the command line."""
    flag = OPTIONS[name].several or f"--{name.replace('_', '-')}"
    if text is None:
        return [f"--no-{flag[2:]}"]
    return [flag, *([text] if text else [])]


def same(value, expected):
    """Equality of numbers, text, tuples and arrays; a checkpoint is its name."""
    if isinstance(expected, tuple):
        return len(value) == len(expected) and all(map(same, value, expected))
    value = getattr(value, "path", value)
    return np.array_equal(value, expected) if isinstance(expected, np.ndarray) else str(value) == str(expected)


def test_every_option_has_a_case():
    """A new option needs its text here, which is all that tests of the command line ask for."""
    assert set(GIVEN) == {name for name, option in OPTIONS.items() if option.on_command}


@pytest.mark.parametrize("name", GIVEN)
def test_every_option_can_be_given_on_the_command_line(name, taken, capsys):
    """`dftfd run --name text` calls run_scf with the value, and with the defaults of all others."""
    text, expected = GIVEN[name]
    assert main(["run", HYDROGEN, *arguments(name, text)]) == 2
    assert capsys.readouterr().err == "dftfd: error: taken\n"
    (options,) = taken
    assert same(getattr(options, name), expected)
    assert set(options.changed()) - {"progress", "checkpoint"} == {name} - {"checkpoint"}


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in ("checkpoint", "restart")])
def test_every_option_can_be_given_to_a_batch(name, taken, capsys):
    """From the command line and from Python, for a molecule twice: some options number its orbitals or atoms."""
    text, expected = GIVEN[name]
    main(["run", HYDROGEN, HYDROGEN.replace("; ", ";"), *arguments(name, text)])
    dftfd.run_batch([HYDROGEN], **{name: expected})
    assert len(taken) == 3
    for options in taken:  # each entry of a batch is quiet
        assert same(getattr(options, name), expected) and set(options.changed()) - {"progress"} == {name}


@pytest.mark.parametrize("name", ["checkpoint", "restart", "progress"])
def test_files_of_one_molecule_are_none_of_a_batch(name):
    """They would be written by all molecules."""
    with pytest.raises(InputError, match=f"{name}= is for one molecule"):
        dftfd.run_batch([HYDROGEN], **{name: True})


def test_documents_hold_what_files_may():
    """Objects and names of files to write are no keywords of a QCSchema document."""
    assert set(DECIDED) == {"molecule", "xc"} | {name for name, option in OPTIONS.items() if not option.in_files}


def test_code_is_not_sent_to_other_processes():
    """An external potential is code; a batch of several processes says so before it starts them."""
    with pytest.raises(InputError, match="external_potential=.*cannot be sent to other processes"):
        dftfd.run_batch([HYDROGEN], external_potential=lambda r: r[0], jobs=2)


def test_wrong_text_is_one_line(taken, capsys):
    """Found, expected, exit code 2."""
    for name, text in [("electric_field", "0 0"), ("occupations", "two"), ("smearing", "much"), ("grid", "none.txt")]:
        assert main(["run", HYDROGEN, *arguments(name, text)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"dftfd: error: {name}=") and ": give " in err and err.count("\n") == 1
    assert not taken


def test_signature_and_help_are_those_of_the_fields():
    """What Python's help and notebooks show: the molecule, then each option with its default and meaning."""
    shown = inspect.signature(dftfd.run_scf).parameters
    assert list(shown) == ["molecule", *OPTIONS]
    assert {name: shown[name].default for name in OPTIONS} == {n: option.default for n, option in OPTIONS.items()}
    text = inspect.getdoc(dftfd.run_scf)  # Python 3.13 takes the indentation away, earlier ones leave it
    for name, option in OPTIONS.items():
        assert f"\n{name}: " in text and option.meaning.split()[0] in text
    for command in ("gradient", "optimize"):
        text = inspect.signature(__import__("dftfd.cli.chemistry", fromlist=[command]).__dict__[command]).parameters
        assert set(names(ENERGY, STATE, START, SEARCH)) - {"allow_unconverged", "external_potential"} <= set(text)


def test_checked_options_are_checked_once_more_unchanged():
    """Values that have become plain fit again: options can be kept, changed and read from files."""
    for name, (_, value) in GIVEN.items():
        options = Options(**{name: value})
        assert Options(**vars(options)) == options != Options()
        kept = {n: v.tolist() if isinstance(v, np.ndarray) and n != "grid" else v for n, v in options.plain().items()}
        assert name in ("checkpoint", "restart") or Options(**kept) == options


def test_a_grid_may_be_that_of_molecular_grid():
    """The same energy as with its level, and the points come back from the file of the result."""
    system = dftfd.molecule(HYDROGEN, basis="sto-3g")
    grid = dftfd.molecular_grid(system.atomic_numbers, system.coordinates, 1)
    by_level = dftfd.run_scf(system, "lda,vwn", grid_level=1)
    given = dftfd.run_scf(system, "lda,vwn", grid=grid)
    assert given.energy == pytest.approx(by_level.energy, abs=1e-12)
    assert given.settings.grid_level is None and np.array_equal(given.settings.grid[0], grid.points)


def test_a_document_can_be_sent_back(tmp_path):
    """All that decides the answer is among the keywords of the QCSchema document: the same energy again."""
    system = dftfd.molecule("Be 0 0 0;", basis="6-31g")
    charges = [(0.5, 0, 0, 4.0), (-0.5, 0, 0, -4.0)]
    result = dftfd.run_scf(system, "lda,vwn", smearing=("gaussian", 0.1), grid_level=1, point_charges=charges)
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(result.to_qcschema()))
    request = read_input(path)
    again = dftfd.run_scf(dftfd.molecule(**request.molecule), **request.settings)
    assert again.energy == pytest.approx(result.energy, abs=1e-10) and again.settings.options == result.settings.options


def test_broken_symmetry_begins_a_path_and_is_not_repeated():
    """Spins that were turned over once are not turned back at the next geometry."""
    options = Options(method="UKS", broken_symmetry=[0])
    nearby = options.going_on_from("result")
    assert Options(**nearby).broken_symmetry is None and nearby["guess"] == "result" and nearby["method"] == "UKS"


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("jax_check_tracer_leaks", True, False),
        ("jax_no_tracing", True, False),
        ("jax_transfer_guard", "disallow", "allow"),
        ("jax_error_checking_behavior_nan", "raise", "ignore"),
    ],
)
def test_settings_of_jax_that_no_calculation_gets_through(name, value, instead):
    """Refused by name; with what the message says instead, the calculation runs."""
    before, helium = getattr(jax.config, name), dftfd.molecule("He 0 0 0;", basis="sto-3g")
    try:
        jax.config.update(name, value)
        with pytest.raises(InputError, match=rf"setting {name}={value!r} .*update\('{name}', {instead!r}\)"):
            dftfd.run_scf(helium, "hf")
        jax.config.update(name, instead)
        assert dftfd.run_scf(helium, "lda,vwn", grid_level=0).converged
    finally:
        jax.config.update(name, before)
