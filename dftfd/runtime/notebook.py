"""How values show themselves at a prompt and in notebooks, and what a calculation shows there while it runs."""

import importlib
import sys
from html import escape


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
