"""Tables of spreadsheets: rows of text and numbers from .xlsx and .csv files. Formulas, styles and macros are not read.

An .xlsx file is a zip archive of XML (Office Open XML, ECMA-376, part 1, section 18).
"""

import csv
import io
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from dftfd.errors import FileError
from dftfd.runtime.files import read_bytes

MAX_BYTES = 256 * 2**20
"""Files, and the tables packed in them, above this size are refused unread."""

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_CELL = re.compile(r"([A-Z]{1,3})[0-9]+")


def read_table(path, sheet: str | None = None) -> list[list[str]]:
    """The rows of a sheet, by default of the first, as text; cells that are left out are empty. FileError otherwise."""
    content = read_bytes(path, MAX_BYTES)
    try:
        if Path(path).suffix.lower() != ".xlsx":
            return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))
        with zipfile.ZipFile(io.BytesIO(content)) as book:
            return _rows(_part(book, _sheet(book, sheet, path), path), _texts(book, path))
    except (zipfile.BadZipFile, ElementTree.ParseError, csv.Error, ValueError, KeyError, IndexError) as error:
        raise FileError(f"{path} is no table that can be read ({error}); expected .xlsx or .csv.") from error


def _part(book, name, path):
    if book.getinfo(name).file_size > MAX_BYTES:
        raise FileError(f"{path} unpacks to more than {MAX_BYTES} bytes.")
    text = book.read(name)
    if b"<!DOCTYPE" in text[:2000]:  # entities could unfold without end
        raise FileError(f"{path} has definitions of its own in {name}; save it anew as .xlsx or .csv.")
    return ElementTree.fromstring(text)


def _sheet(book, wanted, path):
    """Name of the archive's member that holds a sheet."""
    sheets = {s.get("name"): s.get(_RELATION) for s in _part(book, "xl/workbook.xml", path).iter(f"{_MAIN}sheet")}
    if wanted is not None and wanted not in sheets:
        raise FileError(f"{path} has no sheet {wanted!r}; it has {', '.join(map(str, sheets))}.")
    relation = sheets[wanted] if wanted else next(iter(sheets.values()))
    targets = {r.get("Id"): r.get("Target") for r in _part(book, "xl/_rels/workbook.xml.rels", path)}
    target = targets[relation]
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _texts(book, path):
    if "xl/sharedStrings.xml" not in book.namelist():
        return []
    shared = _part(book, "xl/sharedStrings.xml", path)
    return ["".join(t.text or "" for t in item.iter(f"{_MAIN}t")) for item in shared.iter(f"{_MAIN}si")]


def _rows(sheet, texts):
    rows = []
    for row in sheet.iter(f"{_MAIN}row"):
        cells: list[str] = []
        for cell in row.iter(f"{_MAIN}c"):
            column = _index(cell.get("r")) if cell.get("r") else len(cells)
            cells += [""] * (column + 1 - len(cells))
            cells[column] = _value(cell, texts)
        rows.append(cells)
    return rows


def _index(reference):
    """0 for A1, 26 for AA1."""
    if (match := _CELL.fullmatch(reference)) is None:
        raise ValueError(f"cell {reference!r}")
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _value(cell, texts):
    if cell.get("t") == "inlineStr":
        return "".join(t.text or "" for t in cell.iter(f"{_MAIN}t"))
    found = cell.find(f"{_MAIN}v")
    text = "" if found is None else found.text or ""
    return texts[int(text)] if cell.get("t") == "s" else text
