"""Tables of spreadsheets: rows of text and numbers from .xlsx and .csv files. Formulas, styles and macros are not read.

An .xlsx file is a zip archive of XML (Office Open XML, ECMA-376, part 1, section 18). Its parts are read piece by
piece, within bounds of bytes, rows, columns and cells, so that a small file cannot stand for any number of them; a
definition of entities, which could unfold without end, is refused wherever it stands.
"""

import csv
import io
import re
import zipfile
import zlib
from pathlib import Path
from xml.parsers import expat

from dftfd.errors import FileError, shown
from dftfd.runtime.files import read_bytes

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
