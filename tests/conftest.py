"""The test session: float64, strict dtype promotion, no rank promotion; warnings are errors (pyproject.toml)."""

import dftfd  # noqa: F401  turns float64 on
import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(20261121)
