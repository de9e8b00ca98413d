"""Documents that others wrote: bombs end soon, whatever stands where a value was is one line, in every reader."""

import json
import os
import random
import resource
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dftfd
from dftfd.batch.entries import read_entries
from dftfd.benchmarks.gmtkn55 import read_diet
from dftfd.benchmarks.gscdb import read_gscdb, read_table, read_totals
from dftfd.benchmarks.reactions import read_document
from dftfd.benchmarks.totals import _document
from dftfd.errors import DftfdError, InputError
from dftfd.functionals.named_files import load_functional, save_functional
from dftfd.results.qcschema import read_input
from dftfd.runtime.documents import read_tree, require_types, write_tree
from dftfd.runtime.json_reader import parse_json
from dftfd.tasks.scanning import load_scan
from dftfd.translate.c_text import substituted
from dftfd.verify.passport import read_passport
from tests.order import NIGHT

pytestmark = pytest.mark.filterwarnings("ignore::dftfd.errors.InputWarning")
SECONDS, BYTES = 2.0, 10**9
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def refused(read, path) -> str:
    """What is said of a file, within the limits."""
    seconds, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DftfdError) as caught:
        read(path)
    assert time.process_time() - seconds < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) < BYTES
    assert "\n" not in str(caught.value)
    return str(caught.value)


def book(path, pieces, head="", shared=None):
    """A spreadsheet whose sheet holds these pieces of XML; its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        sheets = '<sheets><sheet name="a" r:id="r1"/></sheets>'
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}">{sheets}</workbook>')
        relation = '<Relationship Id="r1" Target="worksheets/s.xml"/>'
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{relation}</Relationships>")
        with archive.open("xl/worksheets/s.xml", "w") as sheet:
            sheet.write(f'{head}<worksheet xmlns="{MAIN}"><sheetData>'.encode())
            for piece in pieces:
                sheet.write(piece.encode())
            sheet.write(b"</sheetData></worksheet>")
        if shared is not None:
            archive.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{shared}</sst>')
    return path


ENTITY = '<!DOCTYPE a [<!ENTITY b "c">]>'
SHEETS = {
    "a cell ZZZ1 in each row": (['<row><c r="ZZZ1"/></row>' * 30_000], {}),
    "the last column in each row": (['<row><c r="XFD1"/></row>' * 30_000], {}),
    "forty million empty rows": (("<row/>" * 10**6 for _ in range(40)), {}),
    "elements outside of rows": (("<v/>" * 10**6 for _ in range(8)), {}),
    "elements in each other": (["<a>" * 3_000_000], {}),
    "a hundred megabytes of blanks": ((" " * 10**6 for _ in range(100)), {}),
    "a late DOCTYPE": (["<row/>"], {"head": "<?xml version='1.0'?><!--" + "a" * 5_000 + f"-->{ENTITY}"}),
    "a million cells": (["<row>", "<c/>" * 10**6, "</row>"], {}),
    "the number of a text of a megabyte": (['<row><c t="s"><v>' + "9" * 10**6 + "</v></c></row>"], {"shared": ""}),
    "a text that is not there": (['<row><c t="s"><v>7</v></c></row>'], {"shared": "<si><t>a</t></si>"}),
    "a negative number of a text": (['<row><c t="s"><v>-1</v></c></row>'], {"shared": "<si><t>a</t></si>"}),
    "a text of ten megabytes": (["<row/>"], {"shared": "<si><t>" + "a" * 10**7 + "</t></si>"}),
    "an open element": (["<row>"], {}),
    "no rows": ([], {}),
}


LONG = (
    *("elements outside of rows", "elements in each other", "forty million empty rows"),
    "a hundred megabytes of blanks",
)
"""A second or so; a million cells are refused at every run, and so is a text of ten megabytes."""


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case in LONG)) for case in SHEETS])
def test_spreadsheets(case, tmp_path):
    pieces, more = SHEETS[case]
    refused(read_table, book(tmp_path / "a.xlsx", pieces, **more))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_spreadsheets_packed_in_other_ways(method, tmp_path):
    """Python unpacks what is not deflated without a bound."""
    plain = book(tmp_path / "a.xlsx", ["<row><c><v>1</v></c></row>"])
    with zipfile.ZipFile(plain) as there, zipfile.ZipFile(tmp_path / "b.xlsx", "w", method) as here:
        for name in there.namelist():
            here.writestr(name, there.read(name) + b" " * 10**6)
    assert "another way" in refused(read_table, tmp_path / "b.xlsx")


def test_a_spreadsheet_is_read(tmp_path):
    """Shared and own texts, numbers, cells that are left out."""
    rows = '<row><c r="A1" t="s"><v>1</v></c><c r="C1"><v>2.5</v></c></row><row/>'
    rows += '<row><c t="inlineStr"><is><r><t>a</t></r><r><t>b</t></r></is></c></row>'
    path = book(tmp_path / "a.xlsx", [rows], shared="<si><t>x</t></si><si><r><t>o</t></r><r><t>ne</t></r></si>")
    assert read_table(path) == [["one", "", "2.5"], [], ["ab"]]


@pytest.mark.parametrize("text", ["\n" * 10**7, "," * 10**7, '"' + "a" * 10**7, "\0" * 10**6, ""])
def test_tables_of_text(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    refused(read_table, tmp_path / "a.csv")


DIETS = {
    "a list of a megabyte": "a:\n  1:\n    Positions:\n" + "      - [1]\n" * 90_000,
    "levels without end": "\n".join(" " * k + "a:" for k in range(3_000)),
    "lines without end": "a: b\n" * 10**6,
    "no tree": "- 1\n",
    "text for a tree": "a: b\n",
    "numbers for names": "1:\n  2: 3\n",
}


@pytest.mark.parametrize("case", DIETS)
def test_diets(case, tmp_path):
    (tmp_path / "a.yaml").write_text(DIETS[case])
    refused(read_diet, tmp_path / "a.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "[]," * 5 * 10**6,
        "[" * 10**6,
        "[" + "[]," * 2 * 10**6 + "1]",
        '"' + '\\"' * 10**7,
        '"' + "a" * 10**7,
        "9" * 10**6,
    ]
    + ['{"a":1,"a":2}', "1e999", "NaN", "[" + "1," * 5 * 10**6 + "1]", "", "\ufeff"],
)
def test_json(text):
    """Time and memory of text that is no document, or too much of one."""
    seconds, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError):
        parse_json(text)
    assert time.process_time() - seconds < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) < BYTES


TOMLS = {
    "a name of many parts": ".".join("a" * 50_000) + " = 1",
    "a quoted name of many parts": ".".join(["'a'"] * 50_000) + " = 1",
    "a table of many parts": "[" + " . ".join("a" * 50_000) + "]",
    "tables without end": "[[a]]\n" * 10**6,
    "lists in each other": "a = " + "[" * 10**5,
    "a long word": "a" * 10**6,
    "quotes": "'" * 10**6,
}


@pytest.mark.parametrize("case", TOMLS)
def test_toml(case, tmp_path):
    (tmp_path / "a.toml").write_text(TOMLS[case])
    refused(read_document, tmp_path / "a.toml")


TABLES = ("file\n" + "a\n" * 10**7, "file," * 10**6, '"' + "a" * 10**6, "file\n" + "a" * 10**6, "\n" * 10**7, "a\n\0\n")


@pytest.mark.parametrize("text", TABLES)
def test_tables_of_molecules(text, tmp_path):
    (tmp_path / "a.csv").write_text(text)

    def read(path):
        (entry,) = read_entries([str(path)], {})
        raise entry.error

    refused(read, tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["/proc/kmsg", "/dev/zero", "pipe", "."])
def test_a_set_does_not_wait_for_what_is_no_file(name, tmp_path):
    """The molecule is left out with a reason, at once."""
    os.mkfifo(tmp_path / "pipe")
    reaction = {"stoichiometry": {"a": 1}, "reference": 0.0}
    document = {"dftfd_benchmark": 1, "molecules": {"a": {"file": name}}, "reactions": [reaction]}
    (tmp_path / "set.json").write_text(json.dumps(document))
    seconds = time.process_time()
    try:
        assert read_document(tmp_path / "set.json").left_out
    except InputError:
        pass  # a set without a reaction that can be computed
    assert time.process_time() - seconds < SECONDS


def test_a_place_of_a_template_in_a_name():
    """What is filled in is not looked at again: a functional may be called @TABLES@ when it is exported."""
    assert substituted("# @ABOUT@\n@TABLES@ @OTHER@", {"ABOUT": "@TABLES@", "TABLES": 1}) == "# @TABLES@\n1 @OTHER@"


def test_long_smiles(tmp_path):
    pytest.importorskip("rdkit", reason="pip install 'dftfd[smiles]'")
    assert "250 are embedded" in refused(dftfd.molecule, "smiles:" + "C" * 1990)


# ------------------------------------------------------------------------------------------- values in wrong places

JUNK = (None, True, -1, 0, 3, 1e300, 10**30, "", "x", "1e400", "a" * 5_000, [], [[]], {}, {"a": 1}, [None], ["a", 1])


def changed(value, draw):
    """A document with one of its values, at any depth, exchanged, left out or of another name."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key, found = draw.choice(list(keys)), value.copy()
        if isinstance(value, dict) and draw.random() < 0.15:
            found.pop(key)
        elif isinstance(value, dict) and draw.random() < 0.1:
            found[draw.choice(["", "x", "__class__"])] = found.pop(key)
        else:
            found[key] = changed(value[key], draw)
        return found
    return draw.choice(JUNK)


def saved(path):
    save_functional(path, "untrusted_own", dftfd.get_functional("pbe0", kappa=0.9))
    return load_functional


def passport(path):
    atoms = {"H": {"energy": -0.5, "error": 1e-6, "terms": {"x": -0.3}}}
    definition = dict(dftfd.get_functional("pbe").definition)
    document = {"dftfd_passport": 1, "functional": "pbe", "definition": definition, "atoms": atoms, "version": "0"}
    path.write_text(json.dumps(document))
    return lambda p: str(read_passport(p))


def scan(path):
    point = {"value": 0.7, "energy": -1.1, "converged": True, "coordinates": [[0, 0, 0], [0, 0, 1.3]]}
    document = {"dftfd_scan": 1, "symbols": ["H", "H"], "atoms": [0, 1], "relaxed": False, "model": "hf / sto-3g"}
    path.write_text(json.dumps(document | {"points": [point, point | {"value": 0.8}]}))
    return lambda p: str(load_scan(p))


def qcschema(path):
    molecule = {"symbols": ["H", "He"], "geometry": [0, 0, 0, 0, 0, 1.5], "molecular_charge": 1, "real": [True, True]}
    document = {"molecule": molecule, "driver": "energy", "model": {"method": "hf", "basis": "sto-3g"}}
    path.write_text(json.dumps(document | {"keywords": {"grid_level": 1}}))
    return lambda p: dftfd.molecule(**read_input(p).molecule)


def reactions(path):
    molecules = {"H2": {"atoms": "H 0 0 0; H 0 0 0.74"}, "H": {"atoms": "H 0 0 0;", "spin": 1}}
    reaction = {"name": "a", "stoichiometry": {"H2": -1, "H": 2}, "reference": 109.5, "weight": 1.0}
    document = {"dftfd_benchmark": 1, "name": "s", "molecules": molecules, "reactions": [reaction]}
    path.write_text(json.dumps(document | {"subsets": {"s": {"class": "c", "mean_reference": 10.0}}}))
    return read_document


def totals(path):
    entry = {"name": "H", "atoms": [["H", 0, 0, 0]], "charge": 0, "spin": 1, "energies": {"pbe": -0.5}}
    path.write_text(json.dumps([entry]))
    return lambda p: _document(p, ["pbe"])


READERS = (saved, passport, scan, qcschema, reactions, totals)


QUICK = [(make, 60) for make in READERS if make is not saved]
WHOLE = [pytest.param(make, 3_000, marks=pytest.mark.slow) for make in READERS if make is not saved]
WHOLE += [pytest.param(saved, 100, marks=pytest.mark.slow)]  # each functional that is read is examined: seconds


@pytest.mark.parametrize(("make", "count"), QUICK + WHOLE)
def test_values_in_wrong_places(make, count, tmp_path):
    """A sound document with one or two values changed is read, or refused in one line; nothing else, and soon."""
    path, draw = tmp_path / "a.json", random.Random(7)
    read = make(path)
    sound = json.loads(path.read_text())
    read(path)
    for _ in range(count):
        document = changed(sound, draw)
        path.write_text(json.dumps(changed(document, draw) if draw.random() < 0.3 else document))
        check(read, path)


def check(read, path):
    seconds = time.process_time()
    try:
        read(path)
    except DftfdError as error:
        assert "\n" not in str(error)
    except BaseException as error:
        raise AssertionError(f"{Path(path).read_bytes()[:600]!r}: {error!r}") from error
    assert time.process_time() - seconds < 2 * SECONDS, Path(path).read_bytes()[:600]  # sound ones are worked with


@pytest.mark.parametrize("count", [60, pytest.param(5_000, marks=pytest.mark.slow)])  # 5,000: minutes
def test_bytes_in_wrong_places(count, tmp_path):
    """The same of bytes: of a spreadsheet's archive and XML, and of a diet."""
    (tmp_path / "Info").mkdir()
    (tmp_path / "Analysis").mkdir()
    rows = [
        ["Reaction", "Dataset", "Reference", "Stoichiometry"],
        ["X_1", "X", "0.17", "-1,h2,2,h"],
        ["name", "PBE", "", ""],
    ]
    cells = lambda row: "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in row)
    sheet = book(tmp_path / "a.xlsx", [f"<row>{cells(row)}</row>" for row in rows])
    diet = "X:\n  1:\n    Energy: 5.2\n    Weight: 2.3\n    Species:\n      h:\n        Count: 1\n        Charge: 0\n"
    diet += "        UHF: 1\n        Elements: [ H ]\n        Positions:\n          - [ 0.0, 0.0, 0.0]\n"
    samples = {"Info/DatasetEval.xlsx": sheet.read_bytes(), "Analysis/Molecule_Energies.xlsx": sheet.read_bytes()}
    samples |= {"a.yaml": diet.encode()}
    readers = (read_gscdb, lambda folder: read_totals(folder, "pbe"), lambda folder: read_diet(folder / "a.yaml"))
    draw = random.Random(11)
    for _ in range(count):
        for (name, content), read in zip(samples.items(), readers, strict=True):
            wrong = bytearray(content)
            for _ in range(draw.randint(1, 3)):
                place = draw.randrange(len(wrong))
                wrong[place : place + draw.choice([0, 1, 1, 4])] = draw.choice(
                    [b"", b"\0", b"\xff", b":", b"-", b"9", b"\n  "]
                )
            (tmp_path / name).write_bytes(wrong)
            try:
                read(tmp_path)
            except DftfdError as error:
                assert "\n" not in str(error)
            except BaseException as error:
                raise AssertionError(f"{name}: {bytes(wrong)!r}: {error!r}") from error


def changed_tree(tree, draw):
    """A tree of HDF5 with one leaf exchanged for another number, array or text, or with its text changed."""
    key, found = draw.choice(list(tree)), dict(tree)
    if isinstance(tree[key], dict) and tree[key]:
        found[key] = changed_tree(tree[key], draw)
    elif isinstance(tree[key], str) and tree[key].startswith("{") and draw.random() < 0.8:
        found[key] = json.dumps(changed(json.loads(tree[key]), draw))
    else:
        found[key] = draw.choice([np.zeros(0), np.zeros((2, 3)), np.array(7), np.array([1e300, 1.0]), "x", "", {}])
    return found


@pytest.mark.slow  # excitations and vibrations of H2, and 1,000 files of each, others each day
@pytest.mark.parametrize("kind", ["result", "excitations", "vibrations"])
def test_sealed_files_with_wrong_contents(kind, tmp_path):
    """Behind a right checksum: read, or refused in one line."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g")
    result = dftfd.run_scf(molecule, "lda,vwn", grid_level=0)
    made = {"result": lambda: result, "excitations": lambda: result.excitations(1), "vibrations": result.vibrations}[
        kind
    ]()
    load = getattr(dftfd, f"load_{kind}")
    path, draw = tmp_path / "a.h5", random.Random(NIGHT)
    (made.write if kind == "result" else made.save)(path)
    sound = read_tree(path, "a file")
    for _ in range(1_000):
        write_tree(path, changed_tree(sound, draw))
        check(lambda p: str(load(p)), path)


@dataclass
class Typed:
    lines: tuple[str, ...] = ()
    energies: dict[str, float] = field(default_factory=dict)
    rows: list[int] | None = None
    anything: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"lines": ("a", 1)}, "lines is"),
        ({"energies": {"xc": "much"}}, "energies is"),
        ({"energies": {"xc": 1.0, "d": None}}, "energies is"),
        ({"rows": [1, 2.5]}, "rows is"),
        ({"rows": "12"}, "rows is"),
    ],
)
def test_types_are_looked_at_inside_of_lists_and_dictionaries(fields, named):
    """One wrong entry is a wrong field; those of the right types stay as they are."""
    with pytest.raises(ValueError, match=named):
        require_types(Typed(**fields))
    good = {"lines": ("a",), "energies": {"xc": 1}, "rows": [1], "anything": {"x": [None]}}
    assert vars(require_types(Typed(**good))) == good
