"""Every line of code in docs/autofd.md gives the result or the error that is printed there."""

import doctest
from pathlib import Path

import jax
import pytest

PAGE = Path(__file__).parents[1] / "docs" / "autofd.md"


def test_the_page_on_functional_derivatives():
    """Run as one session, in the package's default settings of types."""
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags, encoding="utf-8")
    assert found.attempted > 80
    if found.failed:
        pytest.fail(f"{found.failed} of {found.attempted} lines differ; see the output above")
