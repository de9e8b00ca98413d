"""nabla: derivative with respect to one argument.   f: R^3 -> R   gives   R^3 -> R^3

JVP         nabla df
transpose   -div, from partial integration; the surface term is dropped, so functions should vanish at the boundary of
            the domain or be periodic. With a measure w(x) dx it is -div(w ct) / w.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.domain import Signature
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator, checked_argnums
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.structure import HasKey, structural_key
from dftfd.errors import SignatureError


def nabla(f: Function, argnum: int = 0, mode: str = "forward") -> Function:
    """Gradient of f with respect to one argument; the argument's axes are appended to the result.

    mode: "forward" or "reverse" differentiation of the evaluation; same values.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"nabla takes a Function, {type(f).__name__} found.")
    if isinstance(argnum, tuple | list):
        raise SignatureError(
            f"nabla: argnum {argnum!r}; one argument expected, zip_functions(nabla(f, 0), nabla(f, 1))."
        )
    (argnum,) = checked_argnums(argnum, f, "nabla")
    if mode not in ("forward", "reverse"):
        raise SignatureError(f"nabla: mode {mode!r}, 'forward' or 'reverse' expected.")
    if not f.domains[argnum].is_array:
        raise SignatureError(f"nabla: argument {argnum} of {f!r} is a tree; differentiate with respect to an array.")
    if jnp.issubdtype(f.domains[argnum].dtype, jnp.complexfloating):
        raise SignatureError(f"nabla: argument {argnum} of {f!r} is complex; real arguments only.")
    if mode == "reverse" and any(jnp.issubdtype(r.dtype, jnp.complexfloating) for r in tree_leaves(f.result)):
        raise SignatureError(f"nabla: {f!r} is complex; use mode='forward'.")
    return Function(_nabla, (f,), (), {"argnum": argnum, "mode": mode})


class Nabla(Operator):
    name, linear = "nabla", True

    def signature(self, operands, arrays, static):
        (f,) = operands
        shape = f.domains[static["argnum"]].shape
        return Signature(f.domains, tree_map(lambda r: jax.ShapeDtypeStruct(r.shape + shape, r.dtype), f.result))

    def evaluate(self, node, *args):
        (f,) = node.operands
        derivative = jax.jacfwd if node.static["mode"] == "forward" else jax.jacrev
        return derivative(f.evaluate, node.static["argnum"])(*args)

    def transpose(self, node, cotangent, needed):
        return [transposed_nabla(cotangent, node.static["argnum"], node.static["mode"])]


_nabla = Nabla()


def transposed_nabla(ct: Function, argnum: int, mode: str = "forward") -> Function:
    """-div(w ct) / w for the density w of the measure (1 for Lebesgue's)."""
    domain = ct.domains[argnum]
    if domain.density is None:
        return -divergence(ct, argnum, mode)
    w = function(Argument(argnum, domain.density), *ct.domains)
    return -divergence(ct * w, argnum, mode) / w


def divergence(f: Function, argnum: int = 0, mode: str = "forward") -> Function:
    """div f = sum_i d f_i / d x_i over the last axes of the result, those of the argument."""
    gradient = nabla(f, argnum, mode)
    shape = f.domains[argnum].shape
    for part in tree_leaves(f.result):
        if len(part.shape) < len(shape) or part.shape[len(part.shape) - len(shape) :] != shape:
            raise SignatureError(f"divergence: the result of {f!r} must end with the axes {shape} of its argument.")
    return compose(Contract(len(shape)), gradient)


def laplacian(f: Function, argnum: int = 0) -> Function:
    """div nabla f."""
    return divergence(nabla(f, argnum), argnum)


class Contract(HasKey):
    """Trace over the last two groups of `axes` axes."""

    def __init__(self, axes):
        self.axes, self.__name__ = axes, "trace"

    def __call__(self, value):
        return tree_map(self._trace, value)

    def _trace(self, x):
        if self.axes == 0:
            return x
        size = int(np.prod(x.shape[-self.axes :]))
        return jnp.trace(x.reshape(*x.shape[: -2 * self.axes], size, size), axis1=-2, axis2=-1)

    def structural_key(self):
        return ("contract", self.axes)


class Argument(HasKey):
    """Code of one argument among several."""

    def __init__(self, position, code):
        self.position, self.code = position, code

    def __call__(self, *args):
        return self.code(args[self.position])

    def structural_key(self):
        return ("argument", self.position, structural_key(self.code))
