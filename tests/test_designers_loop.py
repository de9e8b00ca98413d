"""Writing a functional, running it, changing it: cells and files that run again, FILE.py:NAME, other processes."""

import gc
import json
import pickle
import sys

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.cli.verdicts import functionals_of
from dftfd.errors import FileError, FunctionalError, InputWarning
from dftfd.functionals import named_files
from dftfd.functionals.definition import Portable, made_again, portable
from dftfd.functionals.named_files import functional_in_file, load_file, names_file
from dftfd.functionals.registry import term

HELIUM = "He 0 0 0;"
CODE = '''
import dftfd
from dftfd.functionals.common import slater_exchange, spin_scaled

@dftfd.functional("loop_x")
@spin_scaled
def own_x(n, *, scale=1.0):
    """Slater's exchange, scaled."""
    return scale * slater_exchange(n)

def plain(n, *, scale=1.1):
    return scale * slater_exchange(n)

hybrid = 0.5 * dftfd.exact_exchange + 0.5 * own_x
number = 3
'''


@pytest.fixture
def own(tmp_path):
    """A file of functionals."""
    path = tmp_path / "own.py"
    path.write_text(CODE)
    return path


def command(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def energy(xc):
    return dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), xc, grid_level=0).energy


def test_a_cell_that_runs_again_redefines(recwarn):
    """The same formula without a word; another parameter, formula or sum with one line that says which."""

    def cell(power, factor=1.0):
        return dftfd.functional("loop_cell")(lambda n, *, factor=factor: -factor * n**power)

    first = cell(1.3)
    assert cell(1.3) is not first and not recwarn.list
    with pytest.warns(InputWarning, match="^functional 'loop_cell' is redefined: factor is 0.9, was 1.0.$") as said:
        changed = cell(1.3, 0.9)
    assert said[0].filename == __file__
    assert dftfd.get_functional("loop_cell").terms == changed.terms
    with pytest.warns(InputWarning, match="redefined: its formula has changed.$"):
        cell(1.4, 0.9)
    with pytest.warns(InputWarning, match="redefined: it consists of other terms.$"):
        dftfd.register(changed + dftfd.get_functional("lda_x"), "loop_cell")


def test_functionals_of_a_file_are_named_by_it(own):
    """A registered one, a formula without a decorator, a sum, and names of the file within an expression."""
    x = functional_in_file(f"{own}:own_x")
    assert x.terms == dftfd.get_functional("loop_x").terms == functional_in_file(f"{own}:loop_x").terms
    assert functional_in_file(f"{own}:plain").parameters == {"scale": 1.1}
    assert dict(functional_in_file(f"{own}:hybrid").exact_exchange) == {0.0: 0.5}
    names = [t.name for _, t in functional_in_file(f"{own}:own_x, pbe").terms]
    assert names == ["loop_x", "gga_c_pbe"]
    assert load_file(own) is load_file(own)


@pytest.mark.slow  # 1 s; test_a_cell_that_runs_again_redefines is quick
def test_a_changed_file_is_read_again_and_says_so(own):
    """One line; the result of the formula before remembers it, and says that it has changed."""
    result = dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), functional_in_file(f"{own}:own_x"), grid_level=0)
    result.save(own.with_suffix(".h5"))
    own.write_text(CODE.replace("return scale * sl", "return 2 * scale * sl", 1))
    with pytest.warns(InputWarning, match="'loop_x' is redefined: its formula has changed"):
        functional_in_file(f"{own}:own_x")
    with pytest.raises(FunctionalError, match="formula of functional 'loop_x' is not the one"):
        dftfd.load_result(own.with_suffix(".h5"))


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("own.py:other", FunctionalError, "has no functional 'other'; it has own_x, hybrid"),
        ("own.py:number", FunctionalError, "'number' in .* is 3; a Functional or a formula expected"),
        ("own.py:number + pbe", FunctionalError, "unknown functional 'number'"),
        ("none.py:own", FileError, "cannot read .*none.py"),
        ("folder.py:own", FileError, "cannot read .*folder.py"),
        ("bad.py:own", FunctionalError, "bad.py, line 2: ZeroDivisionError: division by zero"),
        ("worse.py:own", FunctionalError, "worse.py, line 1: SyntaxError"),
        ("leaves.py:own", FunctionalError, "leaves.py, line 1: SystemExit: 3"),
    ],
)
def test_what_a_file_has_not_is_said_in_one_line(own, name, error, match):
    (own.parent / "bad.py").write_text("x = 1\nx / 0\n")
    (own.parent / "worse.py").write_text("def (:\n")
    (own.parent / "leaves.py").write_text("raise SystemExit(3)\n")
    (own.parent / "folder.py").mkdir()
    with pytest.raises(error, match=match) as found:
        functional_in_file(f"{own.parent}/{name}")
    assert "\n" not in str(found.value)


def test_a_script_is_told_to_import(own, monkeypatch):
    """The command line's way to name a functional is none in Python, where nothing is executed for a text."""
    monkeypatch.setattr(named_files, "load_file", None)
    with pytest.raises(FunctionalError, match="in Python: 'from own import own_x'"):
        dftfd.get_functional(f"{own}:own_x")


def test_plain_formulas_count_in_expressions(own):
    """A def without decorator is a functional wherever its name stands; other names of the file are none."""
    alone = functional_in_file(f"{own}:plain")
    mixed = functional_in_file(f"{own}:0.5*plain + 0.5*own_x")
    assert {t.name: c for c, t in mixed.terms} == {"plain": 0.5, "loop_x": 0.5} and alone.terms[0][1].name == "plain"
    assert energy(functional_in_file(f"{own}:0.5*plain + 0.5*PLAIN")) == pytest.approx(energy(alone), abs=1e-10)


def test_a_file_within_an_expression_is_told_where_it_belongs(own, monkeypatch):
    """What is suggested is what works."""
    monkeypatch.chdir(own.parent)
    with pytest.raises(FunctionalError, match="write the file first") as found:
        functional_in_file("0.25*hf + 0.75*own.py:own_x, pbe")
    suggested = str(found.value).rpartition(": '")[2].removesuffix("'.")
    assert suggested == "own.py:0.25*hf + 0.75*own_x, pbe"
    assert functional_in_file(suggested).exact_exchange == ((0.0, 0.25),)


def test_a_file_is_executed_for_who_names_it_alone(own, monkeypatch):
    """Not for a name in a document or a call of get_functional, nor as it lies in the current folder."""
    own.write_text(f"import pathlib\npathlib.Path({str(own.parent / 'mark')!r}).touch()\n" + CODE)
    monkeypatch.chdir(own.parent)
    document = {"schema_name": "qcschema_input", "schema_version": 1, "driver": "energy"}
    document |= {
        "molecule": {"symbols": ["He"], "geometry": [0, 0, 0]},
        "model": {"method": f"{own}:own_x", "basis": "x"},
    }
    (own.parent / "input.json").write_text(json.dumps(document))
    assert main(["run", "input.json"]) == 2
    for text in (f"{own}:own_x", "own.py:own_x", "own", "own_x"):
        with pytest.raises(FunctionalError):
            dftfd.get_functional(text)
    assert not (own.parent / "mark").exists() and names_file("own.py:own_x") and not names_file("libxc:pbe")
    functional_in_file("own.py:own_x")
    assert (own.parent / "mark").exists()


def test_commands_take_functionals_of_files(own, capsys):
    """run, batches, show, audit, check and lists of functionals; the energies are those of the Functional."""
    options = ("--basis", "sto-3g", "--grid-level", 0)
    code, out, err = command(capsys, "run", HELIUM, "--xc", f"{own}:own_x", *options, "--quiet")
    assert (code, err) == (0, "")
    assert float(out) == pytest.approx(energy(functional_in_file(f"{own}:own_x")), abs=1e-9)
    code, out, err = command(capsys, "run", HELIUM, "Ne 0 0 0;", "--xc", f"{own}:plain", *options, "--quiet")
    assert (code, len(out.splitlines()), err) == (0, 2, "")
    assert command(capsys, "run", HELIUM, "--xc", f"{own}:nothing", *options)[0] == 2
    code, out, _ = command(capsys, "audit", f"{own}:plain")
    assert code == 0 and "plain" in out
    code, _, err = command(capsys, "check", f"{own}:own_x")
    assert code == 2 and "libxc" in err and err.count("\n") == 1
    mine, known = functionals_of(f"{own}:plain, pbe")
    assert mine.name == "plain" and known == "pbe"


def test_show_takes_functionals_of_files(own, capsys):
    code, out, _ = command(capsys, "show", f"{own}:plain")
    assert code == 0 and out.startswith("plain") and "scale" in out


def test_unregistered_functionals_come_back_from_files(tmp_path):
    """A result of term("trial")(formula) is read as long as the formula is there; another one of its name is not it."""
    trial = term("loop_trial")(lambda n, *, power=1.3: -(n**power))
    result = dftfd.run_scf(dftfd.molecule(HELIUM, basis="sto-3g"), 1.0 * trial, grid_level=0)
    result.save(tmp_path / "he.h5")
    assert dftfd.load_result(tmp_path / "he.h5").energy == result.energy
    other = term("loop_trial")(lambda n, *, power=1.3: -2 * (n**power))
    with pytest.raises(FunctionalError, match="is not the one"):
        dftfd.load_result(tmp_path / "he.h5")
    del other


def test_functionals_travel_as_data(own):
    """Definition, fingerprint and file: no code in it; what is another formula there is refused."""
    for name in ("plain", "hybrid"):
        f = functional_in_file(f"{own}:{name}").with_parameters(scale=0.9)
        sent = pickle.loads(pickle.dumps(portable(f)))
        assert sent.files == (own,) and made_again(sent).definition == f.definition
    with pytest.raises(FunctionalError, match="another formula here"):
        made_again(Portable(sent.name, sent.definition, "0" * 64, sent.files, sent.modules))
    with pytest.raises(FunctionalError, match="of the module nowhere, which can't be imported"):
        made_again(Portable(sent.name, sent.definition, sent.fingerprint, sent.files, ("nowhere",)))


def test_what_was_typed_in_stays_in_its_process(monkeypatch):
    """A formula of an interactive session, before any process is started."""
    typed = term("loop_typed")(lambda n: n**1.3)
    typed.terms[0][1].formula.__module__ = "__main__"
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with pytest.raises(FunctionalError, match="'loop_typed' was typed in, so no other process has it"):
        dftfd.run_batch([HELIUM], typed, jobs=2)


def test_another_process_can_make_one_whose_origin_is_gone(own):
    """A formula of a file with a changed parameter, of which nobody holds the unchanged one."""
    f = functional_in_file(f"{own}:own_x").with_parameters(scale=0.9)
    gc.collect()
    assert made_again(portable(f)).definition == f.definition


@pytest.mark.slow
def test_a_batch_in_processes_takes_them(own):
    """The energies are those of this process, for a formula of a file with a changed parameter, and for its sum."""
    for name in ("plain", "hybrid"):
        f = functional_in_file(f"{own}:{name}").with_parameters(scale=0.9)
        options = {"grid_level": 0, "molecule_options": {"basis": "sto-3g"}}
        outcomes = dftfd.run_batch([HELIUM, HELIUM], f, jobs=2, **options)
        np.testing.assert_allclose([o.energy for o in outcomes], energy(f), atol=1e-9)


def test_parameters_on_the_command_line_are_remembered(own, tmp_path, capsys):
    """A formula of a file with a number in brackets: its energy, its saved result, and `view --xc` of it."""
    saved, page = tmp_path / "r.h5", tmp_path / "r.html"
    run = ["run", HELIUM, "--basis", "sto-3g", "--grid-level", "0", "--quiet"]
    assert main([*run, "--xc", f"{own}:plain(scale=1.2)", "--output", str(saved)]) == 0
    energy = float(capsys.readouterr().out)
    scaled = functional_in_file(f"{own}:plain").with_parameters(scale=1.2)
    molecule = dftfd.molecule(HELIUM, basis="sto-3g")
    assert energy == pytest.approx(dftfd.run_scf(molecule, scaled, grid_level=0).energy, abs=1e-9)
    assert dftfd.load_result(saved, functional=scaled).settings.functional == "plain(scale=1.2)"
    assert main(["view", str(saved), "--xc", f"{own}:plain", "-o", str(page)]) == 2
    assert "other terms or parameters" in capsys.readouterr().err
    assert main(["view", str(saved), "--xc", f"{own}:plain(scale=1.2)", "-o", str(page)]) == 0 and page.exists()
    assert main(["view", str(saved), "-o", str(page)]) == 5 and "--overwrite" in capsys.readouterr().err
    assert main(["show", str(own)]) == 2 and f"{own}:NAME" in capsys.readouterr().err
