r"""Derivatives by omega of two-electron integrals with the operator erf(omega r)/r.

libcint has none of d/domega erf(omega r)/r = 2 pi^(-1/2) exp(-omega^2 r^2), so they are central differences of the
integrals, which are analytic in omega > 0: of eighth order, with a step that is a small part of omega. The difference
of sixth order on the same nodes tells how good they are.
"""

from collections.abc import Callable

import numpy as np

from dftfd.errors import NumericalError, UnsupportedError

STEP = 0.02
"""Part of omega between two nodes. The nearest singularity of an integral in the plane of complex omega is omega away,
so that the error of eighth order is about 1e-12, as that of rounding is."""

AGREEMENT = 1e-8
"""Largest difference of eighth and sixth order, as a part of the largest derivative; in practice it is 1e-9 or less."""

ROUNDING = 1e-13
"""Errors of integrals, as a part of the largest."""

_EIGHTH = {1: (4 / 5, -1 / 5, 4 / 105, -1 / 280), 2: (8 / 5, -1 / 5, 8 / 315, -1 / 560)}
_SIXTH = {1: (3 / 4, -3 / 20, 1 / 60, 0.0), 2: (3 / 2, -3 / 20, 1 / 90, 0.0)}
"""Weights of f(x + kh), k = 1 to 4, in h f' and h^2 f''; that of f(x - kh) is minus this in the first, the same in the
second, where f(x) has minus the sum of all."""

_SAMPLE = 10**6
"""Numbers that both orders are compared on."""


def derivative_by_range(code: Callable[[float], np.ndarray], omega: float, order: int = 1) -> np.ndarray:
    """The derivative of code(omega), a new array linear in integrals, of order 1 or 2 by omega [1/bohr].

    Raises NumericalError where differences of two orders disagree, UnsupportedError beyond the second derivative.
    """
    if order not in _EIGHTH:
        raise UnsupportedError(
            f"the derivative of order {order} by the range omega of exact exchange was asked for; there are the first "
            "and the second."
        )
    step, sign = STEP * omega, (-1) ** order
    nodes = [(k, w, v) for k, (w, v) in enumerate(zip(_EIGHTH[order], _SIXTH[order], strict=True), start=1)]
    rows = [(s * k, s**order * w, s**order * v) for k, w, v in nodes for s in (1, -1)]
    if sign > 0:
        rows.append((0, -2.0 * sum(_EIGHTH[order]), -2.0 * sum(_SIXTH[order])))
    found, difference, largest = np.zeros(()), np.zeros(()), 0.0
    for k, weight, weight_of_sixth in rows:
        values = code(omega + k * step)
        sample = np.ravel(values)[:: max(1, values.size // _SAMPLE)]
        difference = difference + (weight - weight_of_sixth) * sample
        largest = max(largest, float(np.abs(sample).max(initial=0.0)))
        values *= weight
        found = found + values if found.ndim < values.ndim else np.add(found, values, out=found)
    error, scale = np.abs(difference).max(initial=0.0), np.abs(found).max(initial=0.0)
    if not error <= AGREEMENT * scale + ROUNDING * largest:
        raise NumericalError(
            f"the derivative of exact exchange by its range at omega = {omega:g} is uncertain by {error:.1e} of "
            f"{scale:.1e} hartree; take an omega that is neither tiny nor huge."
        )
    found /= step**order
    return found
