"""The ranges omega of exact exchange erf(omega r)/r: one number with the omega of the semilocal exchange beside it.

An omega is a plain number, an array or traced by JAX; it is compared as parameters are, and never hashed.
"""

import warnings
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dftfd.autofd.core.jax_adapter import holds_tracers, is_tracer
from dftfd.errors import FunctionalError, InputWarning, UnsupportedError
from dftfd.functionals.parameters import are_equal, parameter_text

_PER_ANGSTROM = (1.8, 1.95)
"""An omega is larger by so much in angstrom^-1: 1.8897, and 0.2 for HSE06's 0.11 bohr^-1."""


def is_range(omega) -> bool:
    """Whether it is that of erf(omega r)/r, not 0, which stands for 1/r."""
    return is_tracer(omega) or bool(omega != 0)


def holders(terms, omega) -> list:
    """The terms, of pairs (coefficient, term), whose omega is this range of exact exchange."""
    return [
        t for _, t in terms if "omega" in t.parameters and is_range(omega) and are_equal(t.parameters["omega"], omega)
    ]


def distinct(omegas) -> tuple:
    """Each omega once, in ascending order; traced ones come after the others."""
    found: list[Any] = []
    for omega in omegas:
        if not any(are_equal(omega, other) for other in found):
            found.append(omega)
    return tuple(sorted(found, key=lambda omega: (1, 0.0) if is_tracer(omega) else (0, float(omega))))


def merged(pairs) -> tuple:
    """Exact exchange, pairs (omega, fraction), with one entry per omega, without zeros."""
    totals = [(w, sum(part for other, part in pairs if are_equal(w, other))) for w in distinct(w for w, _ in pairs)]
    return tuple((omega, part) for omega, part in totals if is_tracer(part) or part != 0)


def with_range(name: str, terms, exact_exchange, omega) -> tuple:
    """Exact exchange whose range becomes omega, with that of the terms that complement it.

    FunctionalError where there are several ranges, or omega is not positive.
    """
    of_terms = distinct(term.parameters["omega"] for _, term in terms if "omega" in term.parameters)
    ranges = [w for w, _ in exact_exchange if is_range(w)]
    if len(of_terms) > 1 or not all(any(are_equal(w, other) for other in of_terms) for w in ranges):
        given = ", ".join(map(parameter_text, distinct([*of_terms, *ranges])))
        raise FunctionalError(f"functional {name!r} has several omegas, {given}; one value can't replace them.")
    if ranges and not is_tracer(omega) and not 0 < omega < np.inf:
        raise FunctionalError(
            f"functional {name!r}: omega={parameter_text(omega)} is given for the range of its exact exchange, "
            "erf(omega r)/r; a number omega > 0 [1/bohr] expected."
        )
    if any(not holds_tracers((omega, w)) and _PER_ANGSTROM[0] < omega / w < _PER_ANGSTROM[1] for w in ranges):
        warnings.warn(
            f"functional {name!r}: omega={parameter_text(omega)} is {parameter_text(ranges[0])} bohr^-1 in "
            "angstrom^-1; omega is in bohr^-1.",
            InputWarning,
            stacklevel=4,
        )
    return tuple((omega if is_range(w) else w, fraction) for w, fraction in exact_exchange)


def require_range(omega: float) -> float:
    """The omega of an operator, 0 for 1/r; FunctionalError for what is none."""
    if not 0 <= omega < np.inf:
        raise FunctionalError(f"omega={omega} as the range of exact exchange, erf(omega r)/r; omega > 0 expected.")
    return omega


def with_plain_ranges(functional: Any, why: str) -> Any:
    """The functional with ranges of exact exchange, and the same omegas of its terms, as plain numbers.

    UnsupportedError where one is traced; why: what it cannot be traced for.
    """
    of_densities = [term.parameters["omega"] for _, term in functional.terms if "e_x_lr" in term.ingredients]
    ranges = [*(omega for omega, _ in functional.exact_exchange), *of_densities]
    if any(map(is_tracer, ranges)):
        raise UnsupportedError(
            f"functional {functional.name[:60]!r}: the range omega of its exact exchange is traced, {why}. "
            "dftfd.differentiable_scf and result.parameter_gradient() have derivatives by it."
        )
    for omega in ranges:
        require_range(float(omega))
    arrays = [omega for omega in ranges if isinstance(omega, jax.Array | np.ndarray)]
    if not arrays:
        return functional

    def plain(term):
        omega = term.parameters.get("omega")
        known = any(omega is other or are_equal(omega, other) for other in arrays)
        return term.with_values({**term.parameters, "omega": float(omega)}) if known else term

    terms = tuple((coefficient, plain(term)) for coefficient, term in functional.terms)
    exchange = tuple((float(omega), fraction) for omega, fraction in functional.exact_exchange)
    return replace(functional, terms=terms, exact_exchange=exchange)
