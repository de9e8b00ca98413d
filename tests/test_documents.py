"""What a command prints and what its files hold are the same numbers: HTML by text, JSON and HDF5 by value."""

import json
import re
from html import unescape

import pytest

import dftfd
from dftfd.cli import chemistry, commands, main
from dftfd.errors import InputError
from dftfd.results import html_report, vibrations
from dftfd.results.document import Document, Said, numbers, read_document
from dftfd.runtime.progress import Progress
from tests.sample import sample

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
HYDROGEN = "H 0 0 0; H 0 0 0.9"
HARTREE_FOCK = ("--xc", "hf", "--basis", "sto-3g")
LITHIUM = ("Li 0 0 0;", "--spin", "1", "--xc", "pbe", "--basis", "sto-3g", "--grid-level", "1")
GAS = ("--temperature", "350", "--pressure", "90000", "--symmetry-number", "1")

COMMANDS = {
    "run": ("run", WATER, *HARTREE_FOCK, "--stability"),
    "run, open shell": ("run", *LITHIUM),
    "run, smeared, in a solvent": ("run", *LITHIUM, "--smearing", "0.01", "--solvent", "water"),
    "run, not converged": ("run", WATER, *HARTREE_FOCK, "--max-cycles", "2", "--convergence", "diis"),
    "gradient": ("gradient", WATER, *HARTREE_FOCK, "--no-grid-response", "--point-charges", "0.5 9 1 1"),
    "gradient, numerical": ("gradient", HYDROGEN, *HARTREE_FOCK, "--numerical"),
    "gradient, excited state": ("gradient", HYDROGEN, *HARTREE_FOCK, "--state", "1"),
    "optimize": ("optimize", HYDROGEN, *HARTREE_FOCK),
    "frequencies": ("frequencies", WATER, *HARTREE_FOCK, *GAS, "--quasi-harmonic", "grimme"),
    "frequencies, raman": ("frequencies", HYDROGEN, *HARTREE_FOCK, "--raman", "--isotopes", "0:2"),
    "excitations": ("excitations", WATER, *HARTREE_FOCK, "-n", "3"),
    "excitations, triplets": ("excitations", WATER, *HARTREE_FOCK, "--triplets", "--tda"),
    "excitations, spin flip": ("excitations", "Be 0 0 0;", "--spin", "2", *HARTREE_FOCK, "--spin-flip", "-n", "2"),
}


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    """Runs a command, gives what it printed but the course of the calculation; pages are without pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(html_report, "result_scene", lambda *given: {"fields": {}})
    for module in (html_report, vibrations):
        monkeypatch.setattr(module, "drawn", lambda *given: "<figure></figure>")
    for module in (commands, chemistry):
        monkeypatch.setattr(module, "progress_of", lambda *given: Progress())

    def run(*words):
        main([str(word) for word in words])
        return capsys.readouterr().out

    return run


def words_of(text):
    return [word.strip("(),;:%\"'") for word in text.split()]


def numbers_of(text):
    """The words that are numbers, but for those that count the lines of a table."""
    words = [word for line in text.splitlines() for word in words_of(re.sub(r"^ *\d+ ", "", line))]
    return [word for word in words if re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]\d+)?", word)]


def values_of(tree):
    """All numbers of a document, those in its text among them."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return [value for one in tree for value in values_of(one)]
    if isinstance(tree, str):
        return [float(word) for word in numbers_of("text " + tree)]
    return [] if tree is None else [float(tree)]


def is_among(word, values):
    """Whether a number of the screen is one of these, rounded to its digits."""
    digits, _, exponent = word.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return any(abs(float(word) - value) <= 0.5000001 * unit for value in values)


@pytest.mark.parametrize(
    "name", sample(COMMANDS, [name for name in COMMANDS if name not in ("gradient, numerical", "frequencies")])
)
def test_files_hold_what_is_on_the_screen(name, said, tmp_path):
    """Each number that is printed stands in the page, and to its digits in JSON and HDF5; both hold the same."""
    files = {ending: tmp_path / f"x{ending}" for ending in (".html", ".json", ".h5")}
    if "not converged" in name:
        del files[".html"]  # a page shows properties, which such a density has none of
    screen = said(*COMMANDS[name], *(word for path in files.values() for word in ("--output", path)))
    found = numbers_of(screen)
    assert len(found) > 10
    text, values = read_document(files[".h5"])
    assert json.loads(files[".json"].read_text())["extras"]["dftfd"]["document"] == values
    assert [line for line in text.splitlines() if line.strip() and line not in screen.splitlines()] == []
    assert [word for word in found if not is_among(word, values_of(values))] == []
    if ".html" in files:
        assert missing_on_page(found, files[".html"]) == []


def missing_on_page(found, path):
    """The numbers that do not stand in the text of a page."""
    page = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", path.read_text(), flags=re.S)
    shown = set(words_of(unescape(re.sub(r"<[^>]*>", " ", page))))
    return [word for word in found if word not in shown]


@pytest.mark.parametrize(
    "words, endings",
    [
        (("benchmark", "quick", "--limit", "2", *HARTREE_FOCK, "--quiet"), (".json", ".html")),
        (("passport", "lda"), (".json",)),
    ],
)
def test_files_of_functionals_hold_what_is_on_the_screen(words, endings, said, tmp_path):
    """Tables of a benchmark with their pages and JSON, a passport with its JSON."""
    option = lambda ending: "--output" if words[0] == "passport" else f"--{ending[1:]}"
    files = {ending: tmp_path / f"x{ending}" for ending in endings}
    found = numbers_of(said(*words, *(word for ending, path in files.items() for word in (option(ending), path))))
    values = values_of(json.loads(files[".json"].read_text()))
    assert len(found) > 10 and [word for word in found if not is_among(word, values)] == []
    assert ".html" not in files or missing_on_page(found, files[".html"]) == []


def test_json_of_an_excited_state_returns_no_forces_of_the_ground_state(said, tmp_path):
    """QCSchema has no place for an excited state: the file is of the ground state, its document of the other."""
    path = tmp_path / "x.json"
    screen = said("optimize", HYDROGEN, *HARTREE_FOCK, "--state", "1", "--max-steps", "1", "--output", path)
    found = json.loads(path.read_text())
    assert found["driver"] == "energy" and isinstance(found["return_result"], float)
    geometry = found["extras"]["dftfd"]["document"]["geometry"]
    assert geometry["state"] == 1 and f"{geometry['largest_force_hartree_per_bohr']:.2e}" in screen


def test_the_page_of_hartree_fock_is_drawn_without_a_warning(recwarn):
    """Whose potential is zero everywhere: an axis has a length all the same. Warnings are errors here."""
    hydrogen = dftfd.run_scf(dftfd.molecule(HYDROGEN, basis="sto-3g"), "hf")
    assert hydrogen._repr_html_() and "potential" in html_report.drawn(html_report._draw_line, hydrogen, (0, 1))


def test_a_passport_file_holds_one_passport(capsys, tmp_path):
    """--compare has two: none of them is left out of the file in silence."""
    assert main(["passport", "lda", "--compare", "pbe", "--output", str(tmp_path / "x.json")]) == 2
    assert "--output writes one passport, but --compare has two" in capsys.readouterr().err


def test_an_inversion_is_in_its_file(said, tmp_path):
    """The file of `invert`, read again, prints what the command did."""
    path = tmp_path / "v.h5"
    screen = said("invert", "He 0 0 0;", "--basis", "6-31g", "--target", "mp2", "--output", path)
    assert str(dftfd.load_inversion(path)) in screen


def test_a_document_keeps_what_its_files_are_for(said, tmp_path):
    """Files with a document are read as before: results, vibrations and excitations."""
    for command, load in (("run", dftfd.load_result), ("excitations", dftfd.load_excitations)):
        path = tmp_path / f"{command}.h5"
        said(command, WATER, *HARTREE_FOCK, "--output", path)
        assert str(load(path)) in read_document(path)[0]
    path = tmp_path / "v.h5"
    said("frequencies", HYDROGEN, *HARTREE_FOCK, *GAS, "--output", path)
    again = dftfd.load_vibrations(path)
    assert f"{again}\n\n{again.thermochemistry(350.0, 90000.0, 1)}" in read_document(path)[0]


def test_a_scan_is_in_its_file(said, tmp_path):
    """Energies above the lowest, too, are in the JSON of a scan, which is read as before."""
    path = tmp_path / "scan.json"
    words = ("--bond", "0", "1", "--from", "0.7", "--to", "1.0", "--steps", "3", "--output", path)
    screen = said("scan", HYDROGEN, *HARTREE_FOCK, *words)
    rows = [line for line in screen.splitlines() if re.match(r" +\d", line)][-3:]
    points = [[p["value"], p["energy"], p["kcal_mol"]] for p in json.loads(path.read_text())["points"]]
    for row, point in zip(rows, points, strict=True):
        assert all(is_among(word, [value]) for word, value in zip(row.split(), point, strict=True))
    assert str(dftfd.load_scan(path)) in screen


@pytest.mark.parametrize(
    "words",
    [
        ("excitations", HYDROGEN, "--output", "e.csv"),
        ("excitations", HYDROGEN, "--output", "e"),
        ("invert", HYDROGEN, "--target", "mp2", "--output", "v.html"),
        ("run", HYDROGEN, "--json", "x.html"),
        ("run", HYDROGEN, "--report", "x.json"),
        ("benchmark", "totals", "--html", "x.csv"),
        ("workbench", "pbe", "--output", "x.json"),
        ("view", "x.h5", "--output", "x.pdf"),
        ("fit", "pbe", "x.json", "--parameters", "kappa", "--save", "x.csv"),
        ("prove", "pbe", "--save", "x.html"),
        ("run", HYDROGEN, WATER, "--table", "x.json"),
        ("oracle", "gga_x_pbe", "--output", "x.json"),
    ],
)
def test_names_of_other_formats_are_refused(words, capsys, tmp_path, monkeypatch):
    """A page under the name of a table, a sealed HDF5 file named .html: refused before anything is computed."""
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 2
    assert "format" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_sealed_files_have_no_names_of_other_formats(tmp_path):
    """`result.save("x.html")` is refused as the command is; a name that says nothing is taken."""
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "hf")
    with pytest.raises(InputError, match=r"the name must end in \.h5"):
        result.save(tmp_path / "x.html")
    result.save(tmp_path / "x")
    assert dftfd.load_result(tmp_path / "x").energy == result.energy


def test_what_says_no_numbers_is_no_part():
    """A class that prints something and tells no numbers is refused, and what is not finite is null in files."""
    with pytest.raises(TypeError, match="does not say which numbers it prints"):
        Document({"x": object()}).numbers()
    assert Document({"x": Said("nothing", {"a": float("nan"), "b": (1, True)})}).numbers() == {
        "x": {"a": None, "b": [1, True]}
    }
    assert numbers(Said("nothing")) == {}
