"""What `prove` is asked, made an inequality on a domain: a condition of a functional, or code."""

import inspect
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd.scalar.keys import code_fingerprint
from dftfd.autofd.scalar.reader import exact_program
from dftfd.errors import InputError, UnsupportedError, closest_names, shown
from dftfd.functionals.base import Functional
from dftfd.verify.factored import Factored, factored
from dftfd.verify.inequality import Inequality, end
from dftfd.verify.intervals import Interval
from dftfd.verify.local_conditions import CONDITIONS, DOMAIN, VARIABLES, enhancements, used_variables
from dftfd.verify.statements import Statement

_LIMITS = {"rs": (1e-12, 1e7), "s": (0.0, 1e30), "zeta": (-1.0, 1.0)}
"""Of domains. At larger r_s kernels lift spin densities (functionals/numerics.py), and below their floor are zero."""

_MOST = 9
"""Variables that have a width: as many as the tree of a certificate has places for (dftfd.verify.inequality)."""

_PARTS = {"F_x": ("x",), "F_c": ("c",), "F_xc": ("x", "c")}


def arguments_of(code) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(code).parameters)
    except Exception as error:
        raise InputError(
            f"the inequality cannot be read: its arguments have no names ({type(error).__name__}); write a function."
        ) from error


def _checked_ends(name: str, ends) -> tuple[float, float]:
    try:
        a, b = (end(x, far) for x, far in zip(ends, (-math.inf, math.inf), strict=True))
    except Exception as error:
        raise InputError(f"domain of {name}: {shown(ends)} found; a pair of numbers expected.") from error
    least, most = _LIMITS.get(name, (-1e30, 1e30))
    if not (least <= a <= b <= most):
        raise InputError(f"domain of {name}: ({a:g}, {b:g}) found; give ends in order, from {least:g} to {most:g}.")
    return a, b


def whole_domain(f: Functional, given: Mapping) -> dict[str, tuple[float, float]]:
    """The whole domain of a functional's variables."""
    _require_names(given, VARIABLES)
    used = used_variables(f.semilocal_part) if f.semilocal_part.terms else ("rs",)
    ends = {k: _checked_ends(k, given.get(k, DOMAIN[k])) for k in used}
    if (ends.get("zeta", (0.0, 0.0))) == (0.0, 0.0):
        ends.pop("zeta", None)
    return ends


def _require_names(given, known) -> None:
    for name in given:
        if name not in known:
            close = ", ".join(closest_names(name if isinstance(name, str) else "", known)) or "none"
            raise InputError(f"domain has no variable {shown(name)}; the closest are {close}.")


def _prepared(domain: Mapping, keep: tuple[str, ...]) -> tuple[Factored, dict, tuple[str, ...]]:
    """Algebra and polynomials of the variables; those of no width are numbers, but for `keep`."""
    names = tuple(k for k, (a, b) in domain.items() if a < b or k in keep)
    if len(names) > _MOST:
        raise InputError(f"the domain has {len(names)} variables with a width; {_MOST} at most: fix the others.")
    algebra = Factored([Interval(*domain[k]) for k in names])
    variables = {k: algebra.number(a) for k, (a, _) in domain.items() if k not in names}
    return algebra, variables | dict(zip(names, algebra.inputs, strict=True)), names


def condition_of(f: Functional, condition: str, domain: Mapping) -> Inequality:
    """A known condition of a functional on a domain."""
    known = CONDITIONS[condition]
    algebra, variables, names = _prepared(domain, ("rs",))
    polarised = "zeta" in domain
    polynomials, energies = zip(*enhancements(f, known.parts, algebra, variables, polarised), strict=True)
    terms = tuple((known.parts.index(part), k, c) for part, k, c in known.terms)
    statement = Statement(energies, polarised, _fixed(domain, names))
    return _inequality(algebra, polynomials, domain, names, terms, known.constant, statement)


def _fixed(domain, names) -> dict[str, float]:
    return {k: float(a) for k, (a, _) in domain.items() if k not in names}


def own_inequality(f: Functional | None, code: Callable, given: Mapping) -> tuple[Inequality, dict]:
    """An inequality that is given as code; and its domain."""
    wanted = arguments_of(code)
    energies = [k for k in wanted if f is not None and k in _PARTS]
    domain = whole_domain(f, {k: v for k, v in given.items() if k in VARIABLES}) if energies and f is not None else {}
    for k in wanted:
        if k not in energies and k not in domain:
            if k not in given and k not in DOMAIN:
                raise InputError(f"the domain of {k!r} is missing: give domain={{{k!r}: (from, to)}}.")
            domain[k] = _checked_ends(k, given.get(k, DOMAIN.get(k)))
    _require_names(given, domain)
    algebra, variables, names = _prepared(domain, ())
    formulas: list = []
    if f is not None:
        for k in energies:
            found, own = zip(*enhancements(f, _PARTS[k], algebra, variables, "zeta" in domain), strict=True)
            variables[k] = found[0] if len(found) == 1 else algebra.add(*found)
            formulas += own
    try:
        program = exact_program(*_by_places(code, wanted))
    except UnsupportedError:
        raise
    except Exception as error:
        raise InputError(
            f"the inequality cannot be read: {type(error).__name__}. Write it in JAX's functions."
        ) from error
    if len(program.outputs) != 1:
        raise InputError(f"the inequality has {len(program.outputs)} values; one expected.")
    _require_same_of_numbers(code, wanted, domain)
    algebra.literal = True
    polynomials = factored(program, [variables[k] for k in wanted], algebra)
    statement = _own_statement(wanted, energies, formulas, program, "zeta" in domain, _fixed(domain, names))
    return _inequality(algebra, polynomials, domain, names, ((0, 0, 1.0),), 0.0, statement), domain


def _require_same_of_numbers(code, wanted, domain) -> None:
    """InputError for code that does with numbers what it does not while JAX traces it: it asks which it is given.

    Both run one operation after the other in float64, so they give the same number; three points are tried.
    """
    called, *specs = _by_places(code, wanted)
    for share in (0.3, 0.6, 0.9):
        at = [jnp.float64(a + share * (b - a)) for a, b in (domain.get(k, (0.1, 1.1)) for k in wanted)]
        with jax.debug_nans(False), jax.debug_infs(False):
            traced = jaxpr_as_fun(jax.make_jaxpr(called)(*specs))(*at)[0]
            try:
                value = called(*at)
            except Exception as error:
                value = type(error).__name__
        same = not isinstance(value, str) and np.allclose(value, traced, rtol=1e-9, atol=0, equal_nan=True)
        if not same:
            where = ", ".join(f"{k} = {float(x):.6g}" for k, x in zip(wanted, at, strict=True))
            raise InputError(
                f"the inequality is {shown(value)} where it is called with {where}, but {float(traced):.10g} where JAX "
                "traces it: give code that does the same with numbers and with traced values."
            )


def _by_places(code, wanted) -> tuple:
    """(code of its arguments one after the other, their types)."""
    specs = [jax.ShapeDtypeStruct((), np.float64)] * len(wanted)
    return lambda *x: code(**dict(zip(wanted, x, strict=True))), *specs


def own_fingerprint(code: Callable) -> str:
    """Of an inequality's own code, as it is now."""
    return code_fingerprint(*_by_places(code, arguments_of(code)), rules=False)


def _own_statement(wanted, energies, formulas, program, polarised, fixed) -> Statement:
    numbers = {
        k: tuple(range(n := sum(len(_PARTS[j]) for j in energies[:i]), n + len(_PARTS[k])))
        for i, k in enumerate(energies)
    }
    return Statement(tuple(formulas), polarised, fixed, program, tuple(numbers.get(k, k) for k in wanted))


def _inequality(algebra, polynomials, domain, names, terms, constant, statement) -> Inequality:
    lo, hi = (np.array([domain[k][side] for k in names], dtype=float) for side in (0, 1))
    return Inequality(algebra.program(polynomials), names, lo, hi, terms, constant, statement)
