"""GSCDB: energies of reactions in a table, a molecule in each xyz file, and total energies of Q-Chem.

`Info/DatasetEval.xlsx` or .csv has rows Reaction, Dataset, Reference [hartree], Stoichiometry ('-1,A,2,B'); the comment
line of `xyz_files/A.xyz` says charge, multiplicity, basis; `Analysis/Molecule_Energies.xlsx` has a row for each
molecule and a column for each functional. ACCDB's tables for MGCDB84 have the same first form without a header.

J. Liang, M. Head-Gordon, GSCDB137, arXiv:2508.13468. Data under CC BY 4.0.

Tables of spreadsheets: rows of text and numbers from .xlsx and .csv files. Formulas, styles and macros are not read.

An .xlsx file is a zip archive of XML (Office Open XML, ECMA-376, part 1, section 18). Its parts are read piece by
piece, within bounds of bytes, rows, columns and cells, so that a small file cannot stand for any number of them; a
definition of entities, which could unfold without end, is refused wherever it stands.
"""

import csv
import io
import math
import re
import zipfile
import zlib
from pathlib import Path
from xml.parsers import expat

from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, Subset, atom_text, checked
from dftfd.errors import DftfdError, FileError, InputError, shown
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.runtime.files import read_bytes
from dftfd.runtime.written_numbers import as_real, as_whole, real
from dftfd.system.geometry import parse_geometry, read_text

SOURCE = "GSCDB137: J. Liang, M. Head-Gordon, arXiv:2508.13468, CC BY 4.0"
FUNCTIONALS = {
    "B3LYP": "b3lyp",
    "BMK": "bmk",
    "CAMB3LYP": "camb3lyp",
    "M052X": "m052x",
    "M062X": "m062x",
    "MN15": "mn15",
    "PBE0": "pbe0",
    "PW6B95": "pw6b95",
    "SOGGA11X": "sogga11_x",
    "r2SCAN0": "r2scan0",
    "wB97M-V": "wb97m-v",
    "wB97X-V": "wb97x-v",
}
"""Functionals of the table of total energies, and what they are called here."""

SPECIAL_BASIS = "gen"


def is_gscdb(path) -> bool:
    """Whether a folder holds the database."""
    return (Path(path) / "xyz_files").is_dir() and _table(Path(path), "DatasetEval") is not None


def _table(path, name):
    return next((p for ending in (".xlsx", ".csv") if (p := path / "Info" / f"{name}{ending}").is_file()), None)


def read_gscdb(path, subsets=()) -> BenchmarkSet:
    """The reactions of the subsets of these names, of all without; FileError, InputError for another layout."""
    path = Path(path)
    if (table := _table(path, "DatasetEval")) is None:
        raise FileError(f"{path} lacks Info/DatasetEval.xlsx (or .csv).")
    header, *rows = read_table(table)
    columns = {word.strip().lower(): k for k, word in enumerate(header)}
    if not {"reaction", "dataset", "reference", "stoichiometry"} <= columns.keys():
        raise FileError(
            f"{table}: the first row is {header[:4]}; Reaction, Dataset, Reference, Stoichiometry expected."
        )
    rows = [row for row in rows if len(row) > max(columns.values()) and row[columns["stoichiometry"]]]
    known = {row[columns["dataset"]].lower(): row[columns["dataset"]] for row in rows}
    for name in subsets:
        if name.lower() not in known:
            raise InputError(f"{path} has no subset {name!r}; it has {', '.join(sorted(known.values()))}.")
    wanted = {name.lower() for name in subsets} or set(known)
    reactions = [
        _reaction({name: row[k] for name, k in columns.items()}, table)
        for row in rows
        if row[columns["dataset"]].lower() in wanted
    ]
    labels = sorted({label for reaction in reactions for label, _ in reaction.stoichiometry})
    described = _described(path, {reaction.subset for reaction in reactions})
    species = {label: read_molecule(path, label) for label in labels}
    return checked(BenchmarkSet("GSCDB", species, tuple(reactions), described, source=SOURCE))


def _reaction(row, table) -> Reaction:
    name, words = row["reaction"], [word.strip() for word in row["stoichiometry"].split(",")]
    try:
        total: dict[str, float] = {}
        for coefficient, label in zip(words[::2], words[1::2], strict=True):
            total[label] = total.get(label, 0.0) + as_real(coefficient)
        value = HARTREE_IN_KCAL * as_real(row["reference"].strip())
    except ValueError as error:
        raise FileError(f"{table}: reaction {name!r} cannot be read ({error}).") from error
    return Reaction(name, row["dataset"], tuple(total.items()), value)


def _described(path, names):
    """Class and level of theory of each subset, from Info/Datasets, where it is there."""
    described = {name: Subset(name, "", SOURCE) for name in names}
    if (table := _table(path, "Datasets")) is None:
        return described
    header, *rows = read_table(table)
    at = {word: k for k, word in enumerate(header)}
    for row in rows:
        if row and row[0] in names and {"Datatype", "Theory level"} <= at.keys() and len(row) > at["Datatype"]:
            level = row[at["Theory level"]] if len(row) > at["Theory level"] else ""
            described[row[0]] = Subset(row[0], row[at["Datatype"]].lower(), f"{level}; {SOURCE}" if level else SOURCE)
    return described


def read_molecule(path, label) -> Species:
    """A molecule by the name of its xyz file."""
    file = Path(path) / "xyz_files" / f"{label}.xyz"
    if Path(label).name != label or not file.is_file():
        return Species(label, "", reason=f"{file} is missing")
    try:
        lines = read_text(file).splitlines()
        entries = [part.partition("=") for part in (lines + ["", ""])[1].split(",")]
        said = {key.strip().lower(): value.strip() for key, _, value in entries}
        # their comment line has commas, which dftfd's reader takes for blanks: the atoms are read without it
        geometry = parse_geometry("\n".join([lines[0], "", *lines[2:]]), str(file))
        charge, spin = as_whole(said.get("charge", "0")), as_whole(said.get("multiplicity", "1")) - 1
    except (DftfdError, ValueError, IndexError) as error:
        return Species(label, "", reason=f"{file}: {error}")
    reason = ""
    if said.get("multipole_field"):
        reason = "is in an electric field, in Q-Chem's form"
    basis = said.get("basis", "").lower() or None
    if basis in (SPECIAL_BASIS, "mixed"):
        reason, basis = f"needs a basis set of its own ({said['basis']})", None
    return Species(label, atom_text(geometry), charge, spin, basis, reason)


def read_totals(path, xc: str) -> dict[str, float]:
    """Total energies [hartree] of Q-Chem with a functional, by the names of the molecules."""
    path = Path(path)
    files = [path / "Analysis" / f"Molecule_Energies{ending}" for ending in (".xlsx", ".csv")]
    table = next((p for p in files if p.is_file()), None)
    if table is None:
        raise FileError(f"{path} lacks Analysis/Molecule_Energies.xlsx (or .csv).")
    header, *rows = read_table(table)
    at = {_plain(FUNCTIONALS.get(word, word)): k for k, word in enumerate(header) if word}
    if _plain(xc) not in at:
        known = ", ".join(FUNCTIONALS.get(word, word) for word in header if word)
        raise InputError(f"{table} has no energies with {xc!r}; it has {known}.")
    column = at[_plain(xc)]
    found = {row[0]: real(row[column].strip()) for row in rows if len(row) > column}
    # of calculations that they do not have, nothing or a word stands there
    return {name: energy for name, energy in found.items() if energy is not None and math.isfinite(energy)}


def _plain(name):
    return name.lower().replace("-", "").replace("_", "")


MAX_BYTES, MAX_UNPACKED, MAX_PARTS = 32 * 2**20, 32 * 2**20, 10_000
"""Of a file, of a table packed in it, and of the parts of an archive."""

MAX_ROWS, MAX_COLUMNS, MAX_CELLS, LONGEST_CELL = 100_000, 16_384, 250_000, 32_767
"""Of a table, with the empty cells before its last one in each row."""

MAX_ELEMENTS = 800_000
"""Of the XML of a part."""

_SPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships id"
_CELL = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_PIECE = 2**22  # expat before 2.6 looks at a long piece of markup anew with each one
_UNREADABLE = (zipfile.BadZipFile, zlib.error, expat.ExpatError, csv.Error, ValueError, LookupError, EOFError, OSError)


def read_table(path, sheet: str | None = None) -> list[list[str]]:
    """The rows of a sheet, by default of the first, as text; cells that are left out are empty. FileError otherwise."""
    rows = _read(path, sheet)
    if not rows:
        raise FileError(f"{path} has no rows.")
    return rows


def _read(path, sheet):
    content = read_bytes(path, MAX_BYTES)
    try:
        if Path(path).suffix.lower() != ".xlsx":
            return _rows_of_text(content.decode("utf-8-sig"))
        if content.count(b"PK\1\2") > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} parts")
        with zipfile.ZipFile(io.BytesIO(content)) as book:
            return _rows(book, sheet, path)
    except FileError:
        raise
    except (*_UNREADABLE, RuntimeError, NotImplementedError) as error:  # an archive may be encrypted, or packed oddly
        raise FileError(f"{path} is not a table that can be read ({error}); expected .xlsx or .csv.") from error


def _rows_of_text(text) -> list[list[str]]:
    if text.count(",") + text.count("\n") + text.count("\r") > MAX_CELLS:
        raise ValueError(f"more than {MAX_CELLS} cells")
    return list(csv.reader(io.StringIO(text)))


def _rows(book, wanted, path):
    sheets = {a.get("name"): a.get(_RELATION) for a in _attributes(book, "xl/workbook.xml", "sheet")}
    if wanted is not None and wanted not in sheets:
        raise FileError(f"{path} has no sheet {wanted!r}; it has {', '.join(map(str, sheets))}.")
    relation = sheets[wanted] if wanted is not None else next(iter(sheets.values()), None)
    targets = {a.get("Id"): a.get("Target") for a in _attributes(book, "xl/_rels/workbook.xml.rels", "Relationship")}
    target = targets.get(relation)
    if target is None:
        raise ValueError("no sheet")
    texts = _Texts()
    if "xl/sharedStrings.xml" in book.namelist():
        _parse(book, "xl/sharedStrings.xml", texts)
    rows = _Rows(texts.found)
    _parse(book, target.lstrip("/") if target.startswith("/") else f"xl/{target}", rows)
    return rows.found


def _parse(book, name, handler) -> None:
    """Tell a handler of a part's elements and text, without ever holding the whole of it."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = handler.start, handler.end
    parser.CharacterDataHandler = handler.text

    def refuse(*_):
        raise ValueError(f"{name} has definitions of its own; save it anew")

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    if book.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is packed in another way than spreadsheets are")  # zipfile unpacks these at once
    size = 0
    with book.open(name) as stream:
        while piece := stream.read(_PIECE):
            size += len(piece)
            if size > MAX_UNPACKED:
                raise ValueError(f"{name} unpacks to more than {MAX_UNPACKED} bytes")
            parser.Parse(piece, False)
    parser.Parse(b"", True)


def _attributes(book, part, tag) -> list[dict]:
    """The attributes of all elements of a name, of any namespace, in a part."""
    handler = _Attributes(tag)
    _parse(book, part, handler)
    return handler.found


class _Handler:
    """What is done at each element; its text is kept where `_inside` says so."""

    def __init__(self):
        self.found: list = []
        self._elements, self._inside, self._parts = 0, False, []

    def start(self, name, attributes):
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} elements")
        self.begin(name, attributes)

    def begin(self, name, attributes):
        raise NotImplementedError

    def end(self, name):
        self._inside = False

    def text(self, text):
        if self._inside:
            self._parts.append(text)


class _Attributes(_Handler):
    def __init__(self, tag):
        super().__init__()
        self._tag = tag

    def begin(self, name, attributes):
        if name.rpartition(" ")[2] == self._tag:
            self.found.append(attributes)


class _Texts(_Handler):
    """Shared texts: one for each <si>, of all <t> in it."""

    def begin(self, name, attributes):
        self._inside = name == f"{_SPACE} t"
        if name == f"{_SPACE} si":
            self._parts = []

    def end(self, name):
        self._inside = False
        if name == f"{_SPACE} si":
            self.found.append(_text_of(self._parts))


class _Rows(_Handler):
    """Rows of cells: <row><c r="B3" t="s"><v>0</v></c></row>."""

    def __init__(self, texts):
        super().__init__()
        self._texts, self._cells, self._column, self._kind = texts, 0, 0, ""
        self._row: list[str] | None = None

    def begin(self, name, attributes):
        tag = name.removeprefix(f"{_SPACE} ")
        if tag == "row":
            if len(self.found) >= MAX_ROWS:
                raise ValueError(f"more than {MAX_ROWS} rows")
            self._row = []
            self.found.append(self._row)
        elif tag == "c" and self._row is not None:
            self._kind, self._parts = attributes.get("t", ""), []
            self._column = _index(attributes["r"]) if "r" in attributes else len(self._row)
        elif tag == ("t" if self._kind == "inlineStr" else "v"):
            self._inside = True

    def end(self, name):
        self._inside = False
        if name == f"{_SPACE} c" and self._row is not None:
            missing = max(0, self._column + 1 - len(self._row))
            self._cells += missing
            if self._cells > MAX_CELLS:
                raise ValueError(f"more than {MAX_CELLS} cells")
            self._row += [""] * missing
            text = _text_of(self._parts)
            self._row[self._column] = self._texts[_place(text)] if self._kind == "s" else text
        elif name == f"{_SPACE} row":
            self._row = None


def _text_of(parts) -> str:
    if sum(map(len, parts)) > LONGEST_CELL:
        raise ValueError(f"a cell of more than {LONGEST_CELL} characters")
    return "".join(parts)


def _place(text) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"{shown(text)} for the number of a text")
    return int(text)


def _index(reference):
    """0 for A1, 26 for AA1."""
    if (match := _CELL.fullmatch(reference)) is None:
        raise ValueError(f"cell {shown(reference)}")
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    if number > MAX_COLUMNS:
        raise ValueError(f"cell {reference}, beyond {MAX_COLUMNS} columns")
    return number - 1
