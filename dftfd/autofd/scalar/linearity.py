"""Is code linear in some of its arguments? Decided by its operations, not by trying numbers.

Each value is free of the arguments, linear, affine, or none of these: sums keep the degree, products with what is free
of the arguments too, choices keep it where the choice is free of them. What the operations do not show is not believed:
x y / y counts as linear in x, sin(x)^2 + cos(x)^2 - 1 + x does not.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from dftfd.autofd.scalar.keys import CUSTOM, INLINED, closed, live_equations
from dftfd.autofd.structure import is_tracer

_TOGETHER = frozenset(
    """add add_any broadcast_in_dim complex concatenate copy copy_p cumsum dynamic_update_slice expand_dims fft imag neg
    optimization_barrier pad real reduce_precision reduce_sum reduce_window_sum reshape rev scatter scatter-add select_n
    slice split squeeze stack sub tile transpose unstack""".split()
)
"""Linear in all operands together that are no integers or truth values, which choose."""

_IN_FIRST = frozenset("dynamic_slice gather div".split())
_PRODUCTS = frozenset("mul dot_general conv_general_dilated".split())


class Degree(enum.IntEnum):
    """In the arguments: zero, free of them, linear, linear with a constant, anything else."""

    ZERO, FREE, LINEAR, AFFINE, NONLINEAR = range(5)


def is_linear(code, *specs, argnums: tuple[int, ...] | None = None) -> bool:
    """True if the operations of code(*arguments) show that it is linear in the arguments `argnums` together."""
    return all(d in (Degree.ZERO, Degree.LINEAR) for d in _of_results(code, specs, argnums))


def is_affine(code, *specs, argnums: tuple[int, ...] | None = None) -> bool:
    """True if they show that code - code(0) is linear in them."""
    return all(d is not Degree.NONLINEAR for d in _of_results(code, specs, argnums))


def _of_results(code, specs, argnums) -> list[Degree]:
    argnums = range(len(specs)) if argnums is None else argnums
    kinds = [Degree.LINEAR if i in argnums else Degree.FREE for i in range(len(specs))]
    start = [k for k, spec in zip(kinds, specs, strict=True) for _ in jax.tree_util.tree_leaves(spec)]
    return degrees(jax.make_jaxpr(code)(*specs), start)


def degrees(program, start: list[Degree]) -> list[Degree]:
    """Degrees of a program's results from those of its inputs."""
    program = closed(program)
    known = dict(zip(program.jaxpr.constvars, map(_of_number, program.consts), strict=True))
    known |= dict(zip(program.jaxpr.invars, start, strict=True))
    read = lambda v: _of_number(v.val) if isinstance(v, Literal) else known[v]
    for eqn in live_equations(program.jaxpr):
        known.update(zip(eqn.outvars, _of_equation(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in program.jaxpr.outvars]


def _of_number(value) -> Degree:
    return Degree.FREE if is_tracer(value) or np.any(value) else Degree.ZERO


def _of_equation(eqn, args: list[Degree]) -> list[Degree]:
    name, count, params = eqn.primitive.name, len(eqn.outvars), eqn.params
    if name in INLINED or name in CUSTOM:
        return degrees(params[INLINED.get(name) or CUSTOM[name]], args)
    if name == "cond" and args[0] <= Degree.FREE:
        return [_together(found) for found in zip(*(degrees(b, args[1:]) for b in params["branches"]), strict=True)]
    if name == "scan":
        return _of_scan(eqn, args)
    return [_of_operation(name, args, eqn)] * count


def _of_operation(name, args, eqn) -> Degree:
    if name in _TOGETHER:
        values = [_is_inexact(v) for v in eqn.invars]
        if any(values) and all(a <= Degree.FREE for a, value in zip(args, values, strict=True) if not value):
            return _together(a for a, value in zip(args, values, strict=True) if value)
    if name in _PRODUCTS and (Degree.ZERO in args or min(args) is Degree.FREE):
        return Degree.ZERO if Degree.ZERO in args else max(args)
    if name in _IN_FIRST and all(a <= Degree.FREE for a in args[1:]):
        return args[0]
    if name == "convert_element_type" and _is_inexact(eqn.outvars[0]):
        return args[0]
    if name == "triangular_solve" and args[0] is Degree.FREE:
        return args[1]
    return Degree.FREE if all(a <= Degree.FREE for a in args) else Degree.NONLINEAR


def _of_scan(eqn, args):
    """Degrees of the carry grow from turn to turn until they stay."""
    body = closed(eqn.params["jaxpr"])
    stacked = sum(a.aval.ndim != b.aval.ndim for a, b in zip(eqn.outvars, body.jaxpr.outvars, strict=True))
    scanned = sum(a.aval.ndim != b.aval.ndim for a, b in zip(eqn.invars, body.jaxpr.invars, strict=True))
    carried = len(eqn.outvars) - stacked
    first = len(eqn.invars) - scanned - carried
    while True:
        out = degrees(body, args)
        before = args[first : first + carried]
        carry = [_together(pair) for pair in zip(before, out[:carried], strict=True)]
        if carry == before:
            return [*carry, *out[carried:]]
        args = [*args[:first], *carry, *args[first + carried :]]


def _together(found) -> Degree:
    """Of a sum, or of one value or another by a choice that is free of the arguments."""
    kinds = set(found) - {Degree.ZERO}
    return max(kinds | {Degree.AFFINE}) if len(kinds) > 1 else max(kinds, default=Degree.ZERO)


def _is_inexact(variable) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.inexact)
