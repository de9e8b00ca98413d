"""Derivatives of functionals: grad, value_and_grad, jvp.

A functional E takes Functions (and arrays, and pytrees of both) and returns a scalar; `grad(E)(f)` is the functional
derivative, a Function v with dE = integral of v df. Only public JAX is used; everything works under jit, vmap and scan.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves

from dftfd.autofd.core.function import is_function
from dftfd.autofd.core.graph import nested_derivatives
from dftfd.autofd.transforms.outcome import Arguments, Outcome, clean
from dftfd.autofd.transforms.tape import ForwardTape
from dftfd.autofd.transforms.transposition import Run
from dftfd.errors import InputWarning, SignatureError

DEEP = 6
"""Derivatives one inside of another from which on a gradient warns: three steps of a descent on an energy of slopes."""


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
        def scalar(*args):
            out = functional(*args, **kwargs)
            value, aux = _pair(out) if has_aux else (out, None)
            return _checked_scalar(value), aux

        _warn_about_nesting(args)
        found = Run(scalar, Arguments(args, argnums), has_aux=True)
        gradient = found.pull(jnp.ones_like(found.value))
        gradient = gradient[0] if isinstance(argnums, int) else gradient
        return ((found.value, found.aux) if has_aux else found.value), gradient

    return run


def _warn_about_nesting(args):
    deepest = max((nested_derivatives(f) for f in tree_leaves(args, is_leaf=is_function) if is_function(f)), default=0)
    if deepest >= DEEP:
        warnings.warn(
            f"a function that holds {deepest} derivatives one inside of another is differentiated: the time for its "
            "values doubles with each. After every step of a descent go on from values at the points of its space, "
            "f = fd.interpolate(X, jax.vmap(f)(X.points)).",
            InputWarning,
            stacklevel=3,
        )


def _pair(out):
    if not isinstance(out, tuple) or len(out) != 2:
        raise SignatureError(
            f"has_aux: the functional must return (value, auxiliary data), {type(out).__name__} found."
        )
    return out


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
    chosen, tape, kept = Arguments(primals), ForwardTape(), []
    along = chosen.tangents(tangents, "jvp")

    def line(thread, arrays):
        with tape.recording(thread):
            watched = [tape.watch_along(f, df) for f, df in zip(chosen.functions, along.functions, strict=True)]
            kept.append(Outcome(functional(*chosen.full(watched, arrays))))
        return kept[-1].arrays

    start, direction = (jnp.zeros(()), chosen.arrays), (jnp.ones(()), along.arrays)
    arrays, moved = jax.jvp(line, start, direction)
    out = kept[-1].filled(arrays)
    return clean(kept[-1].tree(out), tape.tag), kept[-1].along(out, moved, tape.tag, tape.seeds)
