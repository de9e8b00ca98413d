"""How values show themselves at a prompt and in notebooks, what a calculation shows there, and pages that they show."""

import importlib
import os
import sys
import tempfile
import webbrowser
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from dftfd.errors import FileError
from dftfd.runtime.files import write_text


class ShownAsText:
    """A notebook shows what `print` would, with its columns; a list or a prompt the first line of it.

    Data classes say repr=False, or theirs takes the place of this one.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {str(self).partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Lines(ShownAsText):
    """Lines that become more, in one place of a notebook."""

    def __init__(self):
        self._lines, self._place = [], None

    def __str__(self):
        return "\n".join(self._lines)

    def __repr__(self) -> str:
        return str(self)

    def add(self, line: str) -> None:
        """Show one more line."""
        self._lines.append(line)
        if self._place is None:
            self._place = importlib.import_module("IPython.display").display(self, display_id=True)
        else:
            self._place.update(self)


def in_notebook() -> bool:
    """Whether the code that runs is a notebook's cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@dataclass(frozen=True)
class Page:
    """A page of HTML that needs no network; notebooks show it.   title: what it is about."""

    title: str
    html: str = field(repr=False)

    def write(self, path: Path | str, overwrite: bool = False) -> None:
        """Write the page; FileError for a file that is there already, but for overwrite=True."""
        require_new(path, overwrite)
        write_text(path, self.html)

    def open(self) -> Path:
        """Show the page in the browser, from a temporary file that stays; its path is returned."""
        handle, name = tempfile.mkstemp(prefix="dftfd-", suffix=".html")
        os.close(handle)
        self.write(name, overwrite=True)
        webbrowser.open(Path(name).as_uri())
        return Path(name)

    def __str__(self):
        return f"{self.title}, {len(self.html) / 1e6:.1f} MB of HTML"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:900px;border:0"></iframe>'


def require_new(path: Path | str, overwrite: bool) -> None:
    """FileError for a file that is there and is not to be replaced."""
    if not overwrite and os.path.lexists(path):
        raise FileError(f"{path} exists; take another name, or say overwrite=True (--overwrite).")
