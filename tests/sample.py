"""Cases of a parametrised test: a sample for `make test`, the others for the slow suite."""

import pytest


def sample(cases, quick=(), at=()) -> list:
    """The cases, of which all but those in quick, or at these numbers in the list, are slow."""
    as_slow = lambda case: pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
    return [case if k in at or case in quick else as_slow(case) for k, case in enumerate(cases)]
