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

Every property works with every functional, basis set, method and option, except for the combinations on this page. The
library asks the same tables before it computes
([functionals/supports.py](../functionals/supports.py)), and a refused request ends with the reason below.

`python -m tests.combinations` checks this with random molecules, functionals, options and properties. Each result is
right, or refused by one of these rows. Other limits depend on the numbers, such as a linearly dependent basis set, an
unstable ground state or too little memory. Their messages say so.
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
    yield '<details markdown="1">\n<summary>The reason for each combination</summary>\n'
    yield "| With | Not there | Because |\n| --- | --- | --- |"
    rows: dict[tuple[str, str], list[str]] = {}
    for row in REFUSALS:
        rows.setdefault((" and ".join(row.features), row.reason), []).append(row.property)
    for (features, reason), properties in rows.items():
        for mark, words in WORDS.items():
            reason = reason.replace(mark, words)
        yield f"| {features} | {', '.join(properties)} | {reason} |"
    yield "\n</details>\n\n`python -m tests.verification.supports_page` writes this page."


def main() -> int:
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
