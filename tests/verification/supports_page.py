"""docs/supports.md from the table that refusals ask: `python -m tests.verification.supports_page`."""

import sys
from pathlib import Path

from dftfd.functionals.supports import INCLUDES, PROPERTIES, REFUSALS

PAGE = Path(__file__).parents[2] / "docs" / "supports.md"
WORDS = {
    "functional {name}": "the functional",
    "functional {models}": "the model",
    "{name}": "the functional",
    "{models}": "the model",
    "{guests}": "the grid functional",
    "{correction}": "the correction",
    "{parent}": "the functional",
}
HEAD = """# What is supported

Every property works with every functional, basis, method and option, except for what this page lists. The tables are
those that the library asks before it computes ([dftfd/functionals/supports.py](../dftfd/functionals/supports.py)), so a
refused request ends with the sentence that stands here. Random combinations of molecules, functionals, options and
properties (`python -m tests.combinations`) are held to it: each is right, or refused by one of these rows. Whether the
numbers allow it (a basis without empty orbitals, a linearly dependent one, an unstable ground state, too little memory)
is another question, and said where it arises. Made by `python -m tests.verification.supports_page`.
"""


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_by_property(), *_by_feature()]).rstrip() + "\n"


def _refused(name) -> list:
    """Rows of a property, those of what it includes among them."""
    own = [row for row in REFUSALS if row.property == name]
    return [*own, *(row for other in INCLUDES.get(name, ()) for row in _refused(other))]


def _by_property():
    yield "## By property\n"
    yield "| Asked for | By | Not with |\n| --- | --- | --- |"
    for name, calls in PROPERTIES.items():
        features = dict.fromkeys(" and ".join(row.features) for row in _refused(name))
        yield f"| {name} | {calls} | {', '.join(features) or 'none'} |"


def _by_feature():
    yield "\n## Reasons\n"
    yield "| With | Not there | Because |\n| --- | --- | --- |"
    rows: dict[tuple[str, str], list[str]] = {}
    for row in REFUSALS:
        rows.setdefault((" and ".join(row.features), row.reason), []).append(row.property)
    for (features, reason), properties in rows.items():
        for mark, words in WORDS.items():
            reason = reason.replace(mark, words)
        yield f"| {features} | {', '.join(properties)} | {reason} |"


def main() -> int:
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
