"""Every line of code in docs/autofd.md gives the result or the error that is printed there."""

from pathlib import Path

import pytest

from tests.verification import pages

PAGE = Path(__file__).parents[1] / "docs" / "autofd.md"


@pytest.mark.slow  # 10 s; `make docs` runs every block of the page, too
def test_the_page_on_functional_derivatives():
    """Run as one session, in the package's default settings of types; a line that differs is an error."""
    assert PAGE.read_text().count(">>> ") > 80
    assert {"E", "f", "X"} <= set(pages.run(PAGE))
