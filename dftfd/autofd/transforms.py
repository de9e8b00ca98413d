"""Derivatives of functionals: grad, value_and_grad, jvp.

A functional E takes Functions (and arrays, and pytrees of both) and returns a scalar; `grad(E)(f)` is the functional
derivative, a Function v with dE = integral of v df. Only public JAX is used; everything works under jit, vmap and scan.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from dftfd.autofd.first_order import Outcome
from dftfd.autofd.function import is_function, parts
from dftfd.autofd.graph import forward, or_zero, without_variables
from dftfd.autofd.operators.compose import check_same_type
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.operators.leaf import zero_tangent
from dftfd.autofd.tape import ForwardTape, ReverseTape
from dftfd.errors import SignatureError


class Arguments:
    """The arguments to differentiate, taken apart into Functions and arrays and put together again."""

    def __init__(self, args, argnums):
        self.args = args
        self.positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not all(-len(args) <= i < len(args) for i in self.positions):
            raise SignatureError(f"argnums {argnums}, but the functional was called with {len(args)} argument(s).")
        if len({i % len(args) for i in self.positions}) != len(self.positions):
            raise SignatureError(f"argnums {argnums} name an argument twice.")
        chosen = tuple(args[i] for i in self.positions)
        self.leaves, self.treedef = tree_flatten(chosen, is_leaf=is_function)
        self.functions = [x for x in self.leaves if is_function(x)]
        self.arrays = [_differentiable(x) for x in self.leaves if not is_function(x)]

    def join(self, functions, arrays):
        """The chosen arguments with other Functions and arrays in the places of theirs."""
        functions, arrays = iter(functions), iter(arrays)
        return tree_unflatten(self.treedef, [next(functions if is_function(x) else arrays) for x in self.leaves])

    def full(self, functions, arrays):
        """All arguments, the chosen ones replaced."""
        args = list(self.args)
        for i, a in zip(self.positions, self.join(functions, arrays), strict=True):
            args[i] = a
        return args


def _differentiable(x):
    if callable(x):
        raise SignatureError(
            f"an argument to differentiate is Python code, {getattr(x, '__name__', x)!r}; declare the spaces of its "
            "arguments, function(code, X). Functionals are what is differentiated, not arguments."
        )
    try:
        x = jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise SignatureError(f"an argument to differentiate is {x!r}; a Function or an array expected.") from error
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise SignatureError(f"an argument to differentiate has dtype {x.dtype.name}; float or complex expected.")
    return x


def _checked_scalar(value):
    if is_function(value):
        raise SignatureError(f"the functional returned a Function, {value!r}; a scalar expected: integrate it.")
    if not isinstance(value, float | int | np.ndarray | np.generic | jax.Array):
        raise SignatureError(
            f"the functional returned a {type(value).__name__}; a real scalar expected, or (scalar, data) with "
            "has_aux=True. jacrev differentiates arrays."
        )
    value = jnp.asarray(value)
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise SignatureError(
            f"the functional returned {value.dtype.name}{list(value.shape)}; a real scalar expected "
            "(take the real part of a complex energy)."
        )
    return value


def _clean(tree, tag):
    """A result of the functional without marks of the transformation."""
    return tree_map(lambda x: without_variables(x, tag) if is_function(x) else x, tree, is_leaf=is_function)


def value_and_grad(
    functional: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """(*args) -> (value, gradient) of a functional with a real scalar value.

    argnums: positions of the arguments to differentiate; each may be a Function, an array or a pytree of them. The
        gradient has the same structure: a Function for a Function, an array for an array. With complex functions the
        convention is JAX's: dE = Re of the integral of gradient times df.
    has_aux: the functional returns (value, auxiliary data).
    """

    @functools.wraps(functional)
    def run(*args, **kwargs):
        chosen, tape, kept = Arguments(args, argnums), ReverseTape(), []

        def differentiate(thread, arrays):
            with tape.recording(thread):
                out = functional(*chosen.full(map(tape.watch, chosen.functions), arrays), **kwargs)
                value, aux = _pair(out) if has_aux else (out, None)
                value = _checked_scalar(value)
            kept.append(Outcome(_clean(aux, tape.tag)))
            return value, kept[-1].arrays

        value, pull, arrays = jax.vjp(differentiate, jnp.zeros(()), chosen.arrays, has_aux=True)
        (_, d_arrays), gradients = tape.pull(lambda: pull(jnp.ones_like(value)), len(chosen.functions))
        gradient = chosen.join(finished(gradients, chosen.functions, tape.tag), d_arrays)
        gradient = gradient[0] if isinstance(argnums, int) else gradient
        return ((value, kept[-1].filled(arrays)) if has_aux else value), gradient

    return run


def _pair(out):
    if not isinstance(out, tuple) or len(out) != 2:
        raise SignatureError(
            f"has_aux: the functional must return (value, auxiliary data), {type(out).__name__} found."
        )
    return out


def finished(gradients, functions, tag):
    """Gradients without marks of the transformation, zero where nothing arrived."""
    found = [without_variables(or_zero(g, f.signature), tag) for g, f in zip(gradients, functions, strict=True)]
    check_one_measure(*found)
    return found


def grad(functional: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """(*args) -> functional derivative. See `value_and_grad`; with has_aux (gradient, aux)."""
    both = value_and_grad(functional, argnums, has_aux)

    @functools.wraps(functional)
    def run(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def jvp(functional: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """(value, derivative) of a functional or operator along `tangents`.

    primals, tangents: tuples of Functions, arrays and pytrees of them; a tangent has the type of its primal. Values and
    derivatives may be arrays, Functions and pytrees of them.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise SignatureError("jvp: primals and tangents must be tuples: jvp(F, (f,), (df,)).")
    chosen = Arguments(tuple(primals), tuple(range(len(primals))))
    along = Arguments(tuple(tangents), tuple(range(len(tangents))))
    if chosen.treedef != along.treedef:
        raise SignatureError(f"jvp: primals {chosen.treedef} and tangents {along.treedef} differ in structure.")
    for f, df in zip(chosen.leaves, along.leaves, strict=True):
        check_same_type(f, df, "jvp", "tangent")
    tape, kept = ForwardTape(), []

    def line(thread, arrays):
        with tape.recording(thread):
            watched = [tape.watch_along(f, df) for f, df in zip(chosen.functions, along.functions, strict=True)]
            kept.append(Outcome(functional(*chosen.full(watched, arrays))))
        return kept[-1].arrays

    start, direction = (jnp.zeros(()), chosen.arrays), (jnp.ones(()), along.arrays)
    arrays, moved = jax.jvp(line, start, direction)
    out, structure = tree_flatten(kept[-1].filled(arrays), is_leaf=is_function)
    derivatives = [
        _along(f, own, tape) if is_function(f) else own
        for f, (_, own) in zip(out, kept[-1].leaves_with(moved), strict=True)
    ]
    return _clean(kept[-1].filled(arrays), tape.tag), tree_unflatten(structure, derivatives)


def _along(f, d_arrays: dict, tape: ForwardTape):
    """Derivative of a Function-valued result, whose arrays move by `d_arrays`."""
    moved = [d_arrays[k] if k in d_arrays else zero_tangent(x) for k, x in enumerate(parts(f)[0])]
    derivative = forward(f, tape.tag, tape.seeds, moved)
    return without_variables(or_zero(derivative, f.signature), tape.tag)
