"""Functionals that a file of tests defines at its top: known by name in the tests that ask for them only."""

from collections.abc import Callable

import pytest

import dftfd
from dftfd.functionals import registry


class OwnFunctionals:
    """own = OwnFunctionals(); @own("lda_x_made_up") as @dftfd.functional; known = own.fixture() at the module's top.

    They are checked when a test first asks for the fixture: every worker imports every file, few run its tests.
    """

    def __init__(self):
        self._formulas: dict = {}
        self._made: dict = {}

    def __call__(self, name: str, **options) -> Callable:
        def keep(formula):
            self._formulas[name] = formula, options
            return formula

        return keep

    def fixture(self):
        """What it adds is taken away with all that a test registers (tests/conftest.py)."""

        @pytest.fixture
        def known(unregistered):
            registry._REGISTRY.update(self._made)
            for name, (formula, options) in self._formulas.items():
                if name not in self._made:
                    dftfd.functional(name, **options)(formula)
                    self._made[name] = registry._REGISTRY[name]

        return known
