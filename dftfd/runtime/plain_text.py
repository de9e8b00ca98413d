"""Text of files, names and users, as terminals, spreadsheets and LaTeX take it: none of it is obeyed."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence

from dftfd.runtime.written_numbers import real

_FORMULA = re.compile(r"\s*[=+\-@]")
_TEX = {c: rf"\{c}" for c in "_%&#${}"}
_TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}


def printable(text: str) -> str:
    r"""Text without what terminals obey: escape sequences, carriage returns, marks that turn the direction of writing.

    They are shown as escapes, '\x1b'. Line breaks, tabs and spaces of all widths stay.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        c if c in "\n\t" or c.isprintable() or unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode()
        for c in text
    )


def csv_table(names: Sequence[str], rows: Iterable[Iterable]) -> str:
    """A table as CSV. Text that a spreadsheet would take for a formula has an apostrophe before it; numbers stay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value):
    if not isinstance(value, str) or not _FORMULA.match(value) or real(value) is not None:
        return value
    return f"'{value}"


def in_latex(text: str) -> str:
    """Text on one line that LaTeX prints as it is."""
    return "".join(_TEX.get(c, c) for c in printable(" ".join(text.split())))
