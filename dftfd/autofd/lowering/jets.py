"""Lowering: from a graph over unknown functions to a kernel on numbers.

At a point x, a semilocal expression of a function rho needs only the jet of rho: its value and its derivatives up to
some order. `placeholder` makes a function that is known by its jet; `lower` finds the order by tracing and returns the
expression as code of the jets. nabla of a placeholder is a look-up; nabla of a composition goes through the chain rule
until it meets placeholders.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import Domain, Signature
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.compose import compose, composition
from dftfd.autofd.operators.leaf import leaf
from dftfd.autofd.operators.nabla import _nabla, nabla
from dftfd.errors import NotSemilocalError


class Placeholder(Operator):
    """A function known only by its jet at the point at hand."""

    name = "placeholder"

    def signature(self, operands, arrays, static):
        return static["signature"]

    def evaluate(self, node, *args):
        raise NotSemilocalError(
            f"the value of {node.static['name']!r} at another point, or its integral, is needed: the expression is not "
            "semilocal."
        )

    def label(self, node):
        return node.static["name"]


_placeholder = Placeholder()


def placeholder(name: str, domain: Domain, shape: tuple[int, ...] = ()) -> Function:
    """An unknown function of points of `domain` with results of `shape`."""
    signature = Signature((domain,), jax.ShapeDtypeStruct(shape, domain.dtype))
    return Function(_placeholder, (), (), {"name": name, "signature": signature}, signature)


class CellVolume(Placeholder):
    """The volume of the quadrature cell around a point: the point's weight on a grid, zero off it."""

    name = "cell volume"

    def evaluate(self, node, x):
        return jnp.zeros((), node.dtype)


_cell_volume = CellVolume()
CELL_VOLUME = "cell volume"


def cell_volume(domain: Domain) -> Function:
    """Volume of the quadrature cell around r, for the part of a double integral where both points are in one cell.

    A lowered functional finds the weight of the grid point here. For functions known everywhere it is zero, as such
    corrections vanish with the cell.
    """
    signature = Signature((domain,), jax.ShapeDtypeStruct((), domain.dtype))
    return Function(_cell_volume, (), (), {"name": CELL_VOLUME, "signature": signature}, signature)


@dataclass(frozen=True)
class PointKernel:
    """A semilocal expression as code: `kernel(jets, x)`.

    orders: highest derivative needed of each placeholder.
    jets: {name: [value, gradient, Hessian, ...]}, derivative axes appended, up to orders[name].
    """

    root: Function
    orders: dict[str, int]

    def __call__(self, jets, x):
        def leaf(node):
            jet = jet_of(node)
            return None if jet is None else jets[jet[0]][jet[1]]

        return evaluate_graph(self.root, leaf, x)


def evaluate_graph(root: Function, leaf, *points):
    """The value of a lowered graph at points, each node once; leaf(node): its given value, None if it has none."""

    @functools.cache
    def value(node):
        given = leaf(node)
        if given is not None:
            return given
        if node.operator is composition:
            outer, *inner = node.operands
            return outer.evaluate(*map(value, inner))
        return node.evaluate(*points)

    return value(root)


def lower(expression: Function) -> PointKernel:
    """The kernel of a semilocal expression over placeholders; NotSemilocalError if it is anything else."""
    lowering = Lowering()
    root = lowering.rewrite(expression)
    return PointKernel(root, lowering.orders)


def jet_of(node):
    """(name, order) if the node is nabla applied `order` times to a placeholder."""
    order = 0
    while node.operator is _nabla:
        node, order = node.operands[0], order + 1
    return (node.static["name"], order) if isinstance(node.operator, Placeholder) else None


class Lowering:
    """Rewrites a graph so that nabla stands only on placeholders and on functions free of them."""

    def __init__(self):
        self.orders: dict[str, int] = {}
        self.is_free = functools.cache(self._is_free)
        self.rewrite, self.gradient = functools.cache(self._rewrite), functools.cache(self._gradient)

    def _is_free(self, node) -> bool:
        """True if no placeholder stands below."""
        return not isinstance(node.operator, Placeholder) and all(map(self.is_free, node.operands))

    def _rewrite(self, node) -> Function:
        if self.is_free(node):
            return node
        jet = jet_of(node)
        if jet is not None:
            name, order = jet
            self.orders[name] = max(order, self.orders.get(name, 0))
            return node
        if node.operator is composition:
            outer, *inner = node.operands
            if not self.is_free(outer):
                raise NotSemilocalError(f"{node!r}: the unknown function is evaluated at points that depend on others.")
            return Function(composition, (outer, *map(self.rewrite, inner)), (), {}, node.signature)
        if node.operator is _nabla:
            return self.gradient(self.rewrite(node.operands[0]))
        raise NotSemilocalError(
            f"operator {node.operator.name!r} in {node!r}: the expression is not semilocal (values and derivatives at "
            "one point)."
        )

    def _gradient(self, node) -> Function:
        """nabla of a rewritten node, itself rewritten."""
        if self.is_free(node) or jet_of(node) is not None:
            return self.rewrite(nabla(node))
        outer, *inner = node.operands  # a rewritten node that is neither is a composition
        moving = tuple(i for i, g in enumerate(inner) if not (g.operator is leaf and not g.domains))
        chain = ChainRule(outer, moving, len(inner), len(node.domains[0].shape))
        gradients = [self.gradient(inner[i]) for i in moving]
        return compose(chain, *inner, *gradients)


class ChainRule(Code):
    """(y_1..y_n, nabla g_i) -> nabla f(g): derivative of f along each direction of the gradients' last `axes` axes."""

    __name__ = "chain rule"

    def __init__(self, outer: Function, moving: tuple[int, ...], count: int, axes: int = 1):
        self.outer, self.moving, self.count, self.axes = outer, moving, count, axes

    def __call__(self, *args):
        values, gradients = args[: self.count], args[self.count :]

        def along(*directions):
            tangents = [tree_map(jnp.zeros_like, y) for y in values]
            for i, d in zip(self.moving, directions, strict=True):
                tangents[i] = d
            return jax.jvp(self.outer.evaluate, tuple(values), tuple(tangents))[1]

        for _ in range(self.axes):
            along = jax.vmap(along, in_axes=-1, out_axes=-1)
        return along(*gradients)
