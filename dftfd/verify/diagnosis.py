"""What kind of mistake a wrong derivative is, from its values at many points."""

import numpy as np

CLOSE = 4e-7
"""Relative difference below which two derivatives are the same."""


def diagnose(component, given, expected, n, alternatives, energy_per_electron) -> tuple[str, str]:
    """(kind, message) for a component with wrong values.

    given, expected: (point,).   n: total density.   alternatives: {name: (point,)}, what else it could have been meant
    to be, other components of the same order.   energy_per_electron: (point,), where it is a first derivative with
    respect to a density, 0.0 else.
    """
    if not np.any(given):
        return "silent zero", "is zero without being it"
    if _same(given, -expected):
        return "sign", "has the wrong sign"
    with np.errstate(all="ignore"):
        ratio = given / expected
        typical = float(np.median(ratio))
        is_constant = bool(ratio.size > 2 and np.all(np.abs(ratio - typical) < 0.3 * abs(typical - 1)))
    if is_constant and abs(typical - 1) < 0.01:
        return "factor", f"is {typical:.8g} times what it should be"
    for name, values in alternatives.items():
        if _same(given, values) and not _same(values, expected):
            return "order", f"holds {name}"
    if len(component) == 1 and _is_per_electron(given, expected, n, energy_per_electron):
        return "per electron", "is the derivative of the energy per electron, not per volume"
    if is_constant:
        return "factor", f"is {typical:.8g} times what it should be"
    return "wrong", "is not the derivative; a term is wrong or missing"


def _is_per_electron(given, expected, n, energy_per_electron):
    """n d(e/n)/dx + (e/n) dn/dx = de/dx, at points where the first of the two counts."""
    right = np.abs(n * given + energy_per_electron - expected) <= 10 * CLOSE * np.abs(expected)
    return bool(right.all() and np.any(np.abs(n * given) > 0.1 * np.abs(expected)))


def _same(a, b):
    return bool(np.all(np.abs(a - b) <= 10 * CLOSE * np.abs(b)) and np.any(b))
