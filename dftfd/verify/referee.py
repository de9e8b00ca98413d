"""Who is right where libxc and dftfd differ: extended precision, and whether libxc's error is rounding.

Extended precision evaluates dftfd's own formula, so it can't see a wrong formula. A wrong formula or parameter differs
from libxc smoothly, rounding does not: over points that are one millionth apart it changes sign. Only a difference of
the second kind is decided here.
"""

import functools

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import (
    LIBXC_THRESHOLD,
    component,
    components,
    families,
    lowered_derivatives,
    scaled_error,
)
from dftfd.verify.reports import Decision

MOST_POINTS = 2
"""Points per quantity that are decided, the worst above the tolerance; at each the component that differs most."""

_NEIGHBOURS, _DISTANCE = 60, 1e-6
_LARGEST_MEAN = 0.6
"""Largest mean of what is called rounding, in units of its standard deviation; 60 random numbers have 0.13."""


class Referee:
    """Decisions on one functional; terms: libxc's counterpart."""

    def __init__(self, functional: Functional, terms: libxc.Terms, n_spin: int):
        self.terms, self.n_spin = terms, n_spin
        self._ours = lowered_derivatives(functional, n_spin, order=3)
        self._functional = functional

    @functools.cached_property
    def _energy(self):
        return ExtendedEnergy(self._functional, self.n_spin)

    def decide(self, quantity: str, errors: np.ndarray, x: np.ndarray, tolerance: float) -> Decision:
        """The decision on a quantity with these differences (point,) at x (variable, point), some above tolerance."""
        worst = np.argsort(errors)[::-1][:MOST_POINTS]
        parts = [self._at(quantity, x[:, i]) for i in worst if not errors[i] <= tolerance]
        return Decision(max(d.ours for d in parts), max(d.reference for d in parts), all(d.is_rounding for d in parts))

    def _at(self, quantity, x):
        n = x[0] if self.n_spin == 1 else x[0] + x[1]
        ours, reference = self._both(x[:, None])
        error = lambda d, exact, place: float(scaled_error(component(d, place)[0], exact, n, families(quantity)))
        difference = lambda place: error(ours, component(reference, place)[0], place)
        place = max(components(quantity, self.n_spin), key=difference)
        exact = self._exact(x, place)
        return Decision(error(ours, exact, place), error(reference, exact, place), self._scatters(x, place))

    def _both(self, x):
        return self._ours(x), libxc.reference(self.terms, x, self.n_spin, order=3, threshold=LIBXC_THRESHOLD)

    def _exact(self, x, place):
        if not set(place) <= set(self._energy.used):
            return 0.0
        with mpmath.workdps(DIGITS):
            return float(self._energy.derivative(x, place) if place else self._energy(x))

    def _scatters(self, x, place) -> bool:
        """True if the difference of the two codes changes sign from point to point."""
        steps = np.random.default_rng(3).uniform(-_DISTANCE, _DISTANCE, (len(x), _NEIGHBOURS))
        ours, reference = (component(d, place) for d in self._both(x[:, None] * (1 + steps)))
        difference = reference - ours
        return bool(abs(np.mean(difference)) <= _LARGEST_MEAN * np.std(difference))
