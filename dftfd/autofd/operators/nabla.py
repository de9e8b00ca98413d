"""nabla: derivative with respect to one argument.   f: R^3 -> R   gives   R^3 -> R^3

JVP         nabla df
transpose   -div, from partial integration; with a measure w(x) dx it is -div(w ct) / w. The surface term [w f ct] is
            dropped, so f, or its change, should vanish at the boundary or be periodic; on a space with `surface` it
            stays, as Dirac terms at the ends.

Only what is itself a function of x is differentiated by parts. d/dx int k(x, y) f(y) dy moves inside, onto k: nothing
is required of f at the ends of x.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import Signature, checked_argnums, warn_about_measure
from dftfd.autofd.core.function import Function, is_constant, is_zero
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import NoRuleError, SignatureError


@op.register
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
    if f.tags and acts_elsewhere(f, argnum):
        return _inside(f, argnum, mode)
    return Function(_nabla, (f,), (), {"argnum": argnum, "mode": mode})


class Nabla(Operator):
    name, linear, passes_arguments = "nabla", True, True

    def signature(self, operands, arrays, static):
        (f,) = operands
        shape = f.domains[static["argnum"]].shape
        return Signature(f.domains, tree_map(lambda r: jax.ShapeDtypeStruct(r.shape + shape, r.dtype), f.result))

    def evaluate(self, node, *args):
        (f,) = node.operands
        derivative = jax.jacfwd if node.static["mode"] == "forward" else jax.jacrev
        return derivative(f.evaluate, node.static["argnum"])(*args)

    def tangent(self, node, tangents):
        return nabla(tangents[0], node.static["argnum"], node.static["mode"])

    def transpose(self, node, cotangent, needed):
        return [transposed_nabla(cotangent, node.static["argnum"], node.static["mode"])]

    def argument_below(self, node, i):
        return i


_nabla = Nabla()


@op.register
def transposed_nabla(ct: Function, argnum: int, mode: str = "forward") -> Function:
    """-div(w ct) / w, w the density of the measure (1 for Lebesgue's), and the surface term if the space keeps it."""
    domain = ct.domains[argnum]
    if domain.discrete:
        raise NoRuleError(f"{domain!r} consists of separate points: derivatives with respect to it have no transpose.")
    warn_about_measure(domain)
    if domain.density is None:
        inside = -divergence(ct, argnum, mode)
    else:
        w = op.broadcast(op.function(domain.density, domain), ct.domains, (argnum,))
        inside = -divergence(ct * w, argnum, mode) / w
    if not domain.surface:
        return inside
    return functools.reduce(operator.add, _surface(ct, argnum), inside)


def _surface(ct, argnum):
    """w ct at the upper end times a Dirac term there, minus the same at the lower end."""
    domain = ct.domains[argnum]
    for end, sign in ((domain.extent.high, 1.0), (domain.extent.low, -1.0)):
        if np.isfinite(end):
            point = jnp.asarray(end, domain.dtype)
            w = 1.0 if domain.density is None else domain.density(point)
            strength = op.partial(ct, argnum, point) * (sign * w)
            yield op.dirac(strength, ct.domains, (argnum,), (point,))


# ---- derivatives of what depends on functions at other points


def _differentiated(f: Function, argnum: int) -> set:
    """{True, False} or a part: whether functions under differentiation below f are functions of its argument."""
    if not f.tags:
        return set()
    if f.operator.name == "compose":
        outer, *inner = f.operands
        elsewhere = {False} if outer.tags else set()  # an outer f is taken at g(x), which may end elsewhere
        return elsewhere.union(*(_differentiated(g, argnum) for g in inner))
    if not f.operator.passes_arguments:
        return {True}
    below = f.operator.argument_below(f, argnum)
    return {False} if below is None else _differentiated(f.operands[0], below)


@op.register
def acts_elsewhere(f: Function, argnum: int) -> bool:
    """True if some function under differentiation enters f otherwise than as a function of this argument."""
    return False in _differentiated(f, argnum)


def _inside(f: Function, argnum: int, mode: str) -> Function:
    """nabla f, nabla having moved towards the functions that depend on the argument."""
    if f.operator.name == "compose":
        return _chain_rule(f, argnum, mode)
    below = f.operator.argument_below(f, argnum)
    if below is None:
        return op.zeros(_nabla.signature((f,), (), {"argnum": argnum}))
    derivative = nabla(f.operands[0], below, mode)
    if f.operator is not _nabla:
        return Function(f.operator, (derivative,), f.arrays, f.static)
    first, second = (f.domains[i].shape for i in (f.static["argnum"], argnum))  # a second derivative: exchanged
    return op.compose(ExchangeAxes(len(first), len(second)), nabla(derivative, f.static["argnum"], f.static["mode"]))


def _chain_rule(f, argnum, mode):
    """nabla of outer(inner): for each coordinate of the argument the derivative of outer along those of the inner."""
    outer, *inner = f.operands
    shape = f.domains[argnum].shape
    slopes = {i: nabla(g, argnum, mode) for i, g in enumerate(inner) if not _is_still(g, argnum)}
    if not slopes:
        return op.zeros(_nabla.signature((f,), (), {"argnum": argnum}))
    along = op.pushforward(outer, tuple(slopes))
    if shape == ():
        return op.compose(along, *inner, *slopes.values())
    size = int(np.prod(shape))
    column = lambda k: (op.compose(Column(k, shape), d) for d in slopes.values())
    return op.stack([op.compose(along, *inner, *column(k)) for k in range(size)], shape)


def _is_still(g, argnum) -> bool:
    """True if g does not depend on its argument `argnum`, as far as its form tells."""
    return (
        is_zero(g) or is_constant(g) or (g.operator.passes_arguments and g.operator.argument_below(g, argnum) is None)
    )


class Column(Code):
    """value -> its entries at place k of the last axes `shape`."""

    def __init__(self, k, shape):
        self.k, self.shape, self.__name__ = k, shape, f"column {k}"

    def __call__(self, value):
        rank = len(self.shape)
        return tree_map(lambda a: a.reshape(*a.shape[: a.ndim - rank], -1)[..., self.k], value)


class ExchangeAxes(Code):
    """Exchanges the last `last` axes with the `before` axes before them: (..., last, before) -> (..., before, last)."""

    def __init__(self, before, last):
        self.before, self.last, self.__name__ = before, last, "exchange axes"

    def __call__(self, value):
        return tree_map(self._exchange, value)

    def _exchange(self, a):
        start = a.ndim - self.before - self.last
        axes = (*range(start), *range(start + self.last, a.ndim), *range(start, start + self.last))
        return jnp.transpose(a, axes)


def divergence(f: Function, argnum: int = 0, mode: str = "forward") -> Function:
    """div f = sum_i d f_i / d x_i over the last axes of the result, those of the argument."""
    gradient = nabla(f, argnum, mode)
    shape = f.domains[argnum].shape
    for part in tree_leaves(f.result):
        if len(part.shape) < len(shape) or part.shape[len(part.shape) - len(shape) :] != shape:
            raise SignatureError(f"divergence: the result of {f!r} must end with the axes {shape} of its argument.")
    return op.compose(Contract(len(shape)), gradient)


def laplacian(f: Function, argnum: int = 0) -> Function:
    """div nabla f."""
    return divergence(nabla(f, argnum), argnum)


class Contract(Code):
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
