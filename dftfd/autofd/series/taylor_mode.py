"""Taylor mode: all derivatives along one direction, up to order n, in one sweep.

`taylor(E, (f,), (df,), n)` gives E and d^k/dt^k E[f + t df] at t = 0 for k = 1..n. The program of t is traced once and
carried out on truncated power series, so the cost grows like n^2 where nested forward mode doubles it with each order.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_flatten, tree_leaves, tree_structure, tree_unflatten

from dftfd.autofd.core.function import Function, is_function, parts
from dftfd.autofd.core.graph import has_variables
from dftfd.autofd.core.jax_adapter import is_tracer, same_structure
from dftfd.autofd.core.packed import Packed, assemble, pack
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.operators.zip_split import split
from dftfd.autofd.series.coefficients import Series, as_series
from dftfd.autofd.series.on_series import run_series
from dftfd.errors import LeakError, SignatureError

_WITHIN_ANOTHER = (
    "Taylor mode of a function that another transformation, such as grad, differentiates: that derivative would be "
    "lost. Take Taylor derivatives of the gradient instead: taylor(grad(E), (f,), (df,), n)."
)


def derivatives_along(code: Callable, points: tuple, directions: tuple, order: int) -> tuple:
    """(y, y', ..., y^(n)): derivatives with respect to t at t = 0 of code(*(points + t directions)), arrays only.

    points, directions: tuples of arrays or pytrees of them, of the same structure.   Each y^(k) has the structure of
    the result of `code`.
    """
    leaves, steps, structure = _aligned(points, directions)
    leaves, steps = [jnp.asarray(x) for x in leaves], [jnp.asarray(x) for x in steps]
    moving = [_on_line(x, d) for x, d in zip(leaves, steps, strict=True)]
    rows, out = _coefficients(lambda *values: code(*tree_unflatten(structure, values)), leaves, moving, order)
    return tuple(tree_unflatten(out, [_derivative(row, k) for row in rows]) for k in range(order + 1))


def taylor(functional: Callable, primals: tuple, tangents: tuple, order: int) -> tuple:
    """(F, F', ..., F^(n)): derivatives of F[f + t df] with respect to t at t = 0, n = `order`.

    functional: takes Functions, arrays and pytrees of them. Its results may be arrays (an energy), Functions (its
        functional gradient, any operator) and pytrees of them; the derivatives have the same structure.
    primals, tangents: the arguments and their directions, as in `jvp`.

    taylor(E, (f,), (df,), 3) gives the energy and its first three derivatives along df; taylor(grad(E), (f,), (df,), 2)
    the functional derivative and its first two changes, as Functions.
    """
    leaves, steps, structure = _aligned(primals, tangents, is_leaf=is_function)
    if any(has_variables(x) for x in (*leaves, *steps) if is_function(x)):
        raise LeakError(_WITHIN_ANOTHER)

    def line(t):
        return pack(functional(*tree_unflatten(structure, [x + d * t for x, d in zip(leaves, steps, strict=True)])))

    t = jnp.zeros(())
    rows, out = _coefficients(line, [t], [Series([t, jnp.ones(())])], order)
    is_packed = lambda x: isinstance(x, Packed)
    places, outer = tree_flatten(tree_unflatten(out, range(len(rows))), is_leaf=is_packed)
    derivatives = [_of_function(p.function, rows, order) if is_packed(p) else _derivatives(rows[p]) for p in places]
    return tuple(tree_unflatten(outer, [d[k] for d in derivatives]) for k in range(order + 1))


def mixed_derivative(functional: Callable, f: Any, directions: tuple) -> Any:
    """E^(n)[d_1, ..., d_n] of a functional of one argument along n different directions, by polarisation.

    2^(n-1) n! E^(n)[d_1, ..., d_n] = sum over signs s_2..s_n of s_2 ... s_n E^(n) along d_1 + s_2 d_2 + ... + s_n d_n
    """
    first, *others = directions
    total, n = None, len(directions)
    for signs in itertools.product((1, -1), repeat=n - 1):
        along = first
        for sign, d in zip(signs, others, strict=True):
            along = along + d if sign > 0 else along - d
        term = taylor(functional, (f,), (along,), n)[n] * (math.prod(signs) / (2 ** (n - 1) * math.factorial(n)))
        total = term if total is None else total + term
    return total


def _on_line(x, d):
    """x + t d as a series; an integer stays where it is."""
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return Series([x, d.astype(x.dtype)])
    if is_tracer(d) or jnp.any(d != 0):
        raise SignatureError(
            f"Taylor mode: a point of dtype {x.dtype.name} moves along {d}; integers have no derivative. Write a "
            "float, or the direction 0."
        )
    return x


def _aligned(points, directions, is_leaf=None):
    leaves, structure = tree_flatten(tuple(points), is_leaf=is_leaf)
    steps, other = tree_flatten(tuple(directions), is_leaf=is_leaf)
    if not same_structure(structure, other):
        raise SignatureError(f"Taylor mode: point {structure} and direction {other} differ in structure.")
    return leaves, steps, structure


def _coefficients(code, leaves, moving, order: int):
    """([c_0, ..., c_order] for each array of the result of code(*leaves), structure of the result)"""
    if not isinstance(order, int) or isinstance(order, bool) or order < 0:
        raise SignatureError(f"Taylor mode of order {order!r}; an integer >= 0 expected.")
    program, shape = jax.make_jaxpr(code, return_shape=True)(*leaves)
    results = run_series(program, moving, order)
    rows = []
    for spec, result in zip(tree_leaves(shape), results, strict=True):
        first, *higher = as_series(result).upto(order)
        rows.append([jnp.zeros(spec.shape, spec.dtype) if first is None else first, *higher])
    return rows, tree_structure(shape)


def _derivative(row: list, k: int):
    """k! c_k"""
    return jnp.zeros_like(row[0]) if row[k] is None else math.factorial(k) * row[k] if k > 1 else row[k]


def _derivatives(row: list) -> list:
    return [_derivative(row, k) for k in range(len(row))]


class SeriesOfFunction(Code):
    """(coefficients of a Function's arrays, *point) -> tuple of the derivatives of its value."""

    __name__ = "taylor"

    def __init__(self, structure, order: int):
        self.structure, self.order = structure, order

    def __call__(self, rows, *args):
        evaluate = lambda *leaves: assemble(self.structure, leaves).evaluate(*args)
        moving = [Series(row) if any(c is not None for c in row[1:]) else row[0] for row in rows]
        values, out = _coefficients(evaluate, [row[0] for row in rows], moving, self.order)
        return tuple(tree_unflatten(out, [_derivative(v, k) for v in values]) for k in range(self.order + 1))


def _of_function(indexed: Function, rows, order: int) -> tuple:
    """The derivatives of a Function-valued result, whose arrays are the places of their coefficients in `rows`."""
    if indexed.tags:
        raise LeakError(_WITHIN_ANOTHER)
    places, structure = parts(indexed)
    code = SeriesOfFunction(structure, order)
    return split(function(code, *indexed.domains, params=([rows[i] for i in places],)))
