"""How values that print well show themselves in notebooks."""

from html import escape


class ShownAsText:
    """A notebook shows what `print` would, with its columns."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
