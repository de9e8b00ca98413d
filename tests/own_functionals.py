"""Functionals that a file of tests defines at its top: known by name in its own tests, and in no others."""

from collections.abc import Callable

import pytest

import dftfd
from dftfd.functionals import registry


class OwnFunctionals:
    """own = OwnFunctionals(); @own("lda_x_made_up") as @dftfd.functional; known = own.fixture() at the module's top."""

    def __init__(self):
        self._made: dict = {}

    def __call__(self, name: str, **options) -> Callable:
        def register(formula):
            made = dftfd.functional(name, **options)(formula)
            self._made[name] = registry._REGISTRY.pop(name)
            return made

        return register

    def fixture(self):
        """An autouse fixture; what it adds is taken away with all that a test registers (tests/conftest.py)."""

        @pytest.fixture(autouse=True)
        def known(unregistered):
            registry._REGISTRY.update(self._made)

        return known
