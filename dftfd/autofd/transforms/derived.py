"""Transformations made of grad, jvp and vjp: linearize, linear_transpose, hvp, jacfwd, jacrev."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import spec_of
from dftfd.autofd.core.function import is_function
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.leaf import zeros
from dftfd.autofd.operators.linear_transpose import linear_transpose as _transposed_function
from dftfd.autofd.operators.linearize import linearize as _linearized_function
from dftfd.autofd.operators.zip_split import Stack
from dftfd.autofd.transforms.gradients import grad, jvp
from dftfd.autofd.transforms.outcome import Arguments, units
from dftfd.autofd.transforms.transposition import Run, is_linear_operator, pairing, vjp
from dftfd.errors import SignatureError


def linearize(functional: Callable, *primals: Any, **options: Any) -> Any:
    """(value, linear map of tangents) of a functional or operator at `primals`.

    Of a Function, linearize(f, argnums, tangent=...), the operator that makes the Function (x, y) -> f'(x) y; see
    `operators.linearize`.
    """
    if is_function(functional):
        return _linearized_function(functional, *primals, **options)
    run = Run(functional, Arguments(primals))
    return run.value, lambda *tangents: run.push(tangents)


def linear_transpose(operator: Callable, *primals: Any, **options: Any) -> Callable[..., Any]:
    """Transpose of a linear operator or functional: cotangent -> tuple of cotangents of the arguments.

    primals: arguments of the types that the operator takes; their values do not matter.
    Of a Function, linear_transpose(f, argnum, domain, pairing), the operator that makes the Function y -> f^T y; see
    `operators.linear_transpose`.
    """
    if is_function(operator):
        return _transposed_function(operator, *primals, **options)
    zero = tree_map(lambda f: zeros(f.signature) if is_function(f) else jnp.zeros_like(f), primals, is_leaf=is_function)
    if not is_linear_operator(operator, zero):
        raise SignatureError(
            "linear_transpose: the operator is not linear in its arguments, or its program has steps that are not "
            "known to be. The transpose of its derivative is vjp(operator, *primals)[1]."
        )
    return vjp(operator, *zero)[1]


def hvp(functional: Callable, f: Any, df: Any, mode: str = "forward-over-reverse") -> Any:
    """Second functional derivative at f applied to df.

    mode: "forward-over-reverse" (the derivative of grad(functional) along df), "reverse-over-forward" (the gradient of
        the derivative along df) or "reverse-over-reverse" (the gradient of <grad, df>); the same result.
    """
    if mode == "forward-over-reverse":
        return jvp(grad(functional), (f,), (df,))[1]
    if mode == "reverse-over-forward":
        return grad(lambda f: jvp(functional, (f,), (df,))[1])(f)
    if mode == "reverse-over-reverse":
        return grad(lambda f: pairing(df, grad(functional)(f)))(f)
    raise SignatureError(f"hvp: mode {mode!r}; forward-over-reverse, reverse-over-forward or reverse-over-reverse.")


def jacrev(functional: Callable, argnum: int = 0) -> Callable[..., Any]:
    """(*args) -> Jacobian of a functional with array value, by one transposition per entry.

    For a Function argument the Jacobian is a Function whose values have the axes of the result first, then those of
    the Function's values; for an array argument the array of the shape (*result, *argument). Complex values of real
    arguments have a complex Jacobian. With respect to a complex argument only real values are differentiated, with
    JAX's convention: dE is the real part of the Jacobian times the change.
    """

    def run(*args):
        value, pull = vjp(lambda x: functional(*args[:argnum], x, *args[argnum + 1 :]), args[argnum])
        if is_function(value) or len(tree_leaves(value)) != 1:
            raise SignatureError("jacrev takes functionals with one array as value.")
        spec = spec_of(value)
        rows = [pull(unit)[0] for unit in units(spec)]
        if jnp.issubdtype(spec.dtype, jnp.complexfloating):
            if _is_complex(args[argnum]):
                raise SignatureError(
                    "jacrev of a complex value with respect to a complex argument: that is a Jacobian for holomorphic "
                    "functions alone. Take the real and imaginary part of the value one after the other."
                )
            # pull(c) is the gradient of Re c v
            rows = [_complex(row, pull(-1j * unit)[0]) for row, unit in zip(rows, units(spec), strict=True)]
        return _stacked(rows, spec.shape, axis_last=False)

    return run


def jacfwd(functional: Callable, argnum: int = 0) -> Callable[..., Any]:
    """(*args) -> Jacobian with respect to an array argument, by one forward derivative per entry.

    The functional may return an array or a Function; the axes of the argument are appended to those of the value.
    """

    def run(*args):
        x = args[argnum]
        if is_function(x) or len(tree_leaves(x)) != 1:
            raise SignatureError("jacfwd takes an array argument; a function has infinitely many entries, use jacrev.")
        if _is_complex(x):
            raise SignatureError(
                "jacfwd with respect to a complex argument: that is a Jacobian for holomorphic functions alone. Take "
                "the real and imaginary part of the argument as two real ones, or use grad for a real value."
            )
        spec = spec_of(jnp.asarray(x))

        def of_one(x):
            return functional(*args[:argnum], x, *args[argnum + 1 :])

        columns = [jvp(of_one, (x,), (unit,))[1] for unit in units(spec)]
        return _stacked(columns, spec.shape, axis_last=True)

    return run


def _is_complex(x) -> bool:
    leaves = tree_leaves(x.result if is_function(x) else x)
    return any(jnp.issubdtype(jnp.result_type(v), jnp.complexfloating) for v in leaves)


def _complex(real, imag):
    """real + i imag, of arrays or Functions."""
    return compose(jax.lax.complex, real, imag) if is_function(real) else jax.lax.complex(real, imag)


def _stacked(values, shape, axis_last):
    code = Stack(shape, axis_last)
    return compose(code, *values) if is_function(values[0]) else code(*values)
