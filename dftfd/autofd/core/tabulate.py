"""Functions at all quadrature points at once.

An integral needs its integrand at the points of a quadrature. Where the integrand contains further integrals, as in a
layered operator or after steps of functional gradient descent, walking the graph point by point would meet the same
function again inside each of them. Here a graph is evaluated on axes instead: an argument is a value or all points of a
quadrature, each function is tabulated once for each such choice, and an integral contracts an axis. The cost is linear
in the size of the graph.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.analytic import exact_rule
from dftfd.autofd.core.calling import answer, walking
from dftfd.autofd.core.codes import is_constant
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.jax_adapter import trace_state

MAX_POINTS = 4096  # longest axis; longer quadratures are worked off in chunks by integrate
MAX_ENTRIES = 2**22  # of one table; larger integrands are evaluated point by point


class TooLarge(Exception):
    """A table would not fit."""


@dataclass(frozen=True, eq=False)
class Axis:
    """All points of a quadrature. The slot tells several arguments over the same points apart."""

    points: jax.Array
    weights: jax.Array
    slot: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return (id(self.points), self.slot)


@dataclass(frozen=True)
class Table:
    """Values with one leading array axis for each of `axes`, given by their keys."""

    values: object
    axes: tuple


def integral(f: Function, argnums: tuple[int, ...], rules, args: tuple):
    """Integral of f over `argnums` by quadratures `rules`; `args` are the other arguments. None if it is too large."""
    if any(len(weights) > MAX_POINTS for _, weights in rules):
        return None
    try:
        return _integral(f, argnums, rules, list(args)).values
    except TooLarge:
        return None


def _integral(f, argnums, rules, args) -> Table:
    """args: of the integral, values and Axes."""
    used, over = {a.key for a in args if isinstance(a, Axis)}, []
    for points, weights in rules:
        slot = next(s for s in range(len(used) + 1) if (id(points), s) not in used)
        over.append(Axis(points, weights, slot))
        used.add(over[-1].key)
    rest, integrated = iter(args), dict(zip(argnums, over, strict=True))
    table = tabulate(f, [integrated[i] if i in integrated else next(rest) for i in range(len(f.domains))])
    for axis in over:
        table = _contracted(table, axis)
    return table


def _contracted(table: Table, axis: Axis) -> Table:
    if axis.key not in table.axes:
        return Table(tree_map(lambda v: v * jnp.sum(axis.weights).astype(v.dtype), table.values), table.axes)
    place = table.axes.index(axis.key)

    def contract(v):
        return jnp.tensordot(axis.weights.astype(v.dtype), v, axes=((0,), (place,)))

    return Table(tree_map(contract, table.values), table.axes[:place] + table.axes[place + 1 :])


def tabulate(node: Function, args: list) -> Table:
    """The node on arguments that are values or Axes; each choice of them once per trace."""
    with walking() as walk:
        ask = lambda asked: _Request(walk.cache, *asked)
        return answer(ask((node, args)), lambda request: _computed(request.node, request.args), ask)


class _Request:
    """The question for a table of a node, see `calling.answer`.

    In the cache axes go by their order among the arguments, so tables over equal points are shared between slots.
    """

    def __init__(self, cache: dict, node, args):
        self.node, self.args, self._state = node, args, trace_state()
        self._axes = list(dict.fromkeys(a.key for a in args if isinstance(a, Axis)))
        number = self._axes.index
        pattern = tuple(
            (id(a.points), number(a.key)) if isinstance(a, Axis) else tuple(map(id, tree_leaves(a))) for a in args
        )
        self._known = cache.setdefault(("table", id(node), pattern), ([], node, args))[0]

    def known(self):
        found = (table for state, table in self._known if state == self._state)
        return next(((Table(t.values, tuple(self._axes[i] for i in t.axes)),) for t in found), ())

    def answered(self, table):
        self._known.append((self._state, Table(table.values, tuple(self._axes.index(key) for key in table.axes))))
        return table


def _computed(node, args):
    """The table of a node; a generator where those of its operands are needed first."""
    name = node.operator.name
    if name in ("broadcast", "permute"):  # which hand Axes on as they do points
        return node.operator.evaluate(node, *args)
    if name == "compose":
        return _of_composition(node, args)
    if is_constant(node):
        return Table(node.arrays[0], ())
    if name == "integrate" and (node.arrays or exact_rule(node.operands[0], node.static["argnums"]) is None):
        (f,), argnums = node.operands, node.static["argnums"]
        rules = node.arrays or tuple(f.domains[i].quadrature() for i in argnums)
        if all(len(weights) <= MAX_POINTS for _, weights in rules):
            return _integral(f, argnums, rules, args)
    points = [Table(a.points, (a.key,)) if isinstance(a, Axis) else Table(a, ()) for a in args]
    return _mapped(node.evaluate, points, node.result)


def _of_composition(node, args):
    outer, *inner = node.operands
    tables = []
    for g in inner:
        tables.append((yield g, args))
    return _mapped(outer.evaluate, tables, node.result)


def _mapped(code, tables: list[Table], result) -> Table:
    """code of the tables' entries, for all combinations of their axes."""
    axes = tuple(dict.fromkeys(key for t in tables for key in t.axes))
    left, levels = [list(t.axes) for t in tables], []
    lengths: dict[tuple[int, int], int] = {}  # by the key of an axis
    for t in tables:
        lengths.update(zip(t.axes, tree_leaves(t.values)[0].shape, strict=False))
    largest = max((int(np.prod(leaf.shape)) for leaf in tree_leaves(result)), default=1)
    if int(np.prod([lengths[key] for key in axes])) * max(largest, 1) > MAX_ENTRIES:
        raise TooLarge
    for key in axes:
        levels.append(tuple(own.index(key) if key in own else None for own in left))
        for own in left:
            if key in own:
                own.remove(key)
    for in_axes in reversed(levels):
        code = jax.vmap(code, in_axes=in_axes)
    return Table(code(*(t.values for t in tables)), axes)
