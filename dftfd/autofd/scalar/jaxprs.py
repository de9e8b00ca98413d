"""JAX's programs, equation by equation: the one walk that all readers share, and what their equations are made of."""

from collections.abc import Callable

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, Literal, Primitive, jaxpr_as_fun, primitives

from dftfd.autofd.core.jax_adapter import type_of_array
from dftfd.autofd.scalar import vocabulary
from dftfd.errors import UnsupportedError

INLINED = {"jit": "jaxpr", "remat2": "jaxpr", "closed_call": "call_jaxpr", "eval_jaxpr": "call_jaxpr"}
"""Operations that are nothing but an inner program: the parameter that holds it."""

CUSTOM = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Operations with a derivative rule of their own: the parameter that holds the program of their value."""

_OF_JAX = {p.name: p for module in (jax.lax, primitives) for p in vars(module).values() if isinstance(p, Primitive)}
"""JAX's operations by their names, which others may have, too."""
_KNOWN = vocabulary.KNOWN | INLINED.keys() | CUSTOM.keys()
"""Names that readers give a meaning to, some of which this release of JAX may not have."""


def is_of_jax(primitive: Primitive) -> bool:
    """False for an operation of others that has a name of JAX's, or one that readers give a meaning to: what an
    operation is, the object says."""
    name = primitive.name
    return _OF_JAX.get(name, None if name in _KNOWN else primitive) is primitive


def closed(program) -> ClosedJaxpr:
    """A program with its constants; JAX 0.12 keeps inner programs without."""
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def has_reverse_rule(eqn) -> bool:
    """Whether a derivative rule for reverse mode alone (jax.custom_vjp) is in an equation, at any depth."""
    return eqn.primitive.name.startswith("custom_vjp") or any(map(has_reverse_rule, inner_equations(eqn)))


def inner_equations(eqn) -> list:
    """The equations of the programs that are parameters of an equation."""
    given = [p for param in eqn.params.values() for p in (param if isinstance(param, tuple | list) else (param,))]
    return [e for p in given if isinstance(p, Jaxpr | ClosedJaxpr) for e in closed(p).jaxpr.eqns]


def is_exact(eqn) -> bool:
    """Whether JAX makes of numbers what exact arithmetic does: nothing is computed in float64 or complex numbers, by
    programs in the equation neither, and nothing is asked of Python or of a clock.

    Numbers of float32 and whole ones are what JAX makes of them.
    """
    if eqn.primitive.name in vocabulary.MOVES:
        return True
    taken, given = ([getattr(v.aval, "dtype", None) for v in vs] for vs in (eqn.invars, eqn.outvars))
    known = all(isinstance(d, np.dtype) and d.kind != "c" for d in (*taken, *given)) and np.float64 not in given
    return known and eqn.primitive.name in vocabulary.ON_NUMBERS and all(map(is_exact, inner_equations(eqn)))


def live_equations(jaxpr: Jaxpr, results=None, given=()) -> list:
    """The equations that the results depend on, in order.   given: variables whose values are known."""
    results = jaxpr.outvars if results is None else results
    needed = {v for v in results if not isinstance(v, Literal) and v not in given}
    live = []
    for eqn in reversed(jaxpr.eqns):
        if needed.intersection(eqn.outvars):
            live.append(eqn)
            needed.update(v for v in eqn.invars if not isinstance(v, Literal) and v not in given)
    return live[::-1]


def operands_of(eqn) -> list:
    """The distinct variables that an equation takes, in order."""
    return list(dict.fromkeys(v for v in eqn.invars if not isinstance(v, Literal)))


def equation_code(eqn):
    """An equation as code of `operands_of(eqn)`, with the derivative that it has in JAX; gives a list."""
    variables = operands_of(eqn)
    info = DebugInfo("equation", eqn.primitive.name, ("",) * len(variables), ("",) * len(eqn.outvars))
    return jaxpr_as_fun(ClosedJaxpr(Jaxpr((), variables, eqn.outvars, [eqn], eqn.effects, debug_info=info), ()))


def scan_layout(eqn, body: Jaxpr) -> tuple[int, int]:
    """Numbers of operands of scan before the carry and before the scanned arrays, which have one axis more."""
    count = lambda pairs: sum(type_of_array(a).ndim != type_of_array(b).ndim for a, b in pairs)
    scanned = count(zip(eqn.invars, body.invars, strict=True))
    stacked = count(zip(eqn.outvars, body.outvars, strict=True))
    carried = len(body.invars) - scanned
    return carried - (len(body.outvars) - stacked), carried


def walk(program, arguments, apply: Callable, known: Callable = lambda x: x, given=(), wanted=None) -> list:
    """The results of a program on values of any kind.

    apply(equation, operands) gives the results of one equation; what is nothing but an inner program is walked through.
    known: makes values of the program's constants and numbers.   given: values of variables that need no computation.
    wanted: which results are needed (None: all).
    """
    program, given = closed(program), dict(given)
    values = dict(zip(program.jaxpr.constvars, map(known, program.consts), strict=True))
    values |= dict(zip(program.jaxpr.invars, arguments, strict=True)) | given
    read = lambda v: known(v.val) if isinstance(v, Literal) else values[v]
    results = [v for i, v in enumerate(program.jaxpr.outvars) if wanted is None or i in wanted]
    for eqn in live_equations(program.jaxpr, results, given):
        name = eqn.primitive.name
        if not is_of_jax(eqn.primitive):
            raise UnsupportedError(f"the operation {name!r} is not JAX's of this name: give it another one.")
        operands, inner = [read(v) for v in eqn.invars], INLINED.get(name)
        found = walk(eqn.params[inner], operands, apply, known) if inner else apply(eqn, operands)
        for variable, value in zip(eqn.outvars, found, strict=True):
            values.setdefault(variable, value)
    return [read(v) for v in results]
