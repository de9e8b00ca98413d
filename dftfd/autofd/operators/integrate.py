"""integrate: over all or some arguments, by the quadrature of their domains.

JVP         itself; when a quadrature that is given as arrays moves, sum_k (dw_k f(x_k) + w_k nabla f(x_k) dx_k)
transpose   broadcast over the integrated arguments, from <int f dy, ct>_x = <f, ct>_{x,y}. The pairing has the measure
            of the space: a quadrature given as arrays has to belong to it, up to a factor. On a space that has no
            quadrature of its own the one that is given stands for it.

A quadrature needs the integrand at its points. Where the integrand contains further integrals, as in a layered operator
or after steps of functional gradient descent, walking the graph point by point would meet the same function again
inside each of them. Here a graph is evaluated on axes instead: an argument is a value or all points of a quadrature,
each function is tabulated once for each such choice, and an integral contracts an axis. The cost is linear in the size
of the graph.

Registered rules are asked before a quadrature. A rule gets (f, argnums, args): the Function to be integrated, which of
its arguments, and the values of the others. It returns the value, traceable and differentiable like any JAX code, or
None if the integrand is not of its kind.

Two cases of compose, broadcast and integrate, which have the rules: braket <l|r> = integral of conj(l) r, where with
JAX's convention for complex derivatives, dE = Re int (grad E) df, the gradient of <f|f> is 2 conj(f); and the integral
transform (k @ f)(x, z) = int k(x, y) f(y, z) dy, a product of infinite matrices. The transpose of f -> k @ f is
ct -> k^T @ ct.
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.calling import answer, walking
from dftfd.autofd.core.domain import Domain, Signature, check_real, checked_argnums, checked_rule, same_domain
from dftfd.autofd.core.function import Function, check_same_domains, is_constant, nodes_of, other_arguments
from dftfd.autofd.core.graph import over, rewrite, without_variables
from dftfd.autofd.core.jax_adapter import is_tracer, trace_state
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import QuadratureError, SignatureError

Rule = Callable[[Function, tuple[int, ...], tuple], object]
_RULES: dict[str, Rule] = {}


def register_analytic_rule(name: str, rule: Rule) -> None:
    """Let `integrate` use `rule`; a rule of the same name is replaced."""
    _RULES[name] = rule


def analytic_integral(f: Function, argnums: tuple[int, ...], args: tuple) -> Any:
    """(name of the rule, exact value) of the integral of f over the arguments `argnums`; None if no rule applies.

    args: values of the other arguments, in order.
    """
    for name, rule in _RULES.items():
        value = rule(f, argnums, args)
        if value is not None:
            return name, value
    return None


def exact_rule(f: Function, argnums: tuple[int, ...]) -> str | None:
    """Name of the rule that knows the integral, whatever the values of the other arguments; None if none does."""
    found = []

    def ask(*args):
        found.append(analytic_integral(f, argnums, args))
        return 0.0

    jax.eval_shape(ask, *(d.spec for i, d in enumerate(f.domains) if i not in argnums))
    return found[-1] and found[-1][0]


def explain_integral(f: Function, argnums: int | tuple[int, ...] | None = None) -> str:
    """How `integrate(f, argnums)` is computed: by which analytic rule, or by which quadrature."""
    argnums = tuple(range(len(f.domains))) if argnums is None else checked_argnums(argnums, f, "explain_integral")
    rule = exact_rule(without_variables(f), argnums)
    if rule is not None:
        return f"analytic: {rule}"
    lengths = [None if f.domains[i].points is None else len(f.domains[i].weights) for i in argnums]
    return " x ".join("no quadrature" if n is None else f"quadrature with {n} points" for n in lengths)


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


CHUNK = 4096  # quadrature points evaluated at once; bounds the memory on large grids


class Integrate(Operator):
    name, linear, passes_arguments = "integrate", True, True

    def signature(self, operands, arrays, static):
        (f,) = operands
        return Signature(tuple(f.domains[i] for i in other_arguments(f, static["argnums"])), f.result)

    def evaluate(self, node, *args):
        (f,), argnums = node.operands, node.static["argnums"]
        rest = other_arguments(f, argnums)

        def at(*nodes):
            full = dict(zip(rest, args, strict=True)) | dict(zip(argnums, nodes, strict=True))
            return f.evaluate(*(full[i] for i in range(len(full))))

        exact = None if node.arrays else analytic_integral(f, argnums, args)
        if exact is not None:
            return exact[1]
        rules = node.arrays or tuple(f.domains[i].quadrature() for i in argnums)
        value = integral(f, argnums, rules, args)
        return _weighted_sum(at, rules) if value is None else value

    def array_tangent(self, node, tangents):
        return Function(_moved, node.operands, (node.arrays, tangents), node.static, node.signature)

    def transpose(self, node, cotangent, needed):
        (f,), argnums = node.operands, node.static["argnums"]
        rules = [(f.domains[i], rule) for i, rule in zip(argnums, node.arrays, strict=False)]
        factor = math.prod(measure_ratio(domain, rule) for domain, rule in rules)
        if factor != 1.0:
            cotangent = cotangent * factor
        given = tuple((domain, _fingerprint(rule)) for domain, rule in rules if domain.points is None)
        return [op.broadcast(cotangent, f.domains, other_arguments(f, argnums), given)]

    def argument_below(self, node, i):
        return other_arguments(node.operands[0], node.static["argnums"])[i]


def measure_ratio(domain: Domain, rule) -> float:
    """c, if a quadrature (points, weights) integrates with c times the measure of the space; QuadratureError if not.

    Tried with powers and waves of the coordinates. The quadratures may have different points.
    """
    if domain.points is None or (rule[0] is domain.points and rule[1] is domain.weights):
        return 1.0
    refused = (
        f"the functional derivative on {domain!r} is paired with the quadrature of that space, but the integral has "
    )
    if any(map(is_tracer, rule)):
        raise QuadratureError(
            refused + "one of its own, `quadrature=`, with values of a JAX transformation. Use a domain without points "
            "and weights, which the quadrature then stands for, or no `quadrature=`."
        )
    (x, w), (y, v) = (map(np.asarray, pair) for pair in ((domain.points, domain.weights), rule))
    centre, width = x.reshape(len(x), -1).mean(axis=0), x.reshape(len(x), -1).std(axis=0)
    own, given = (np.asarray(_moments(p, q, centre, width)) for p, q in ((x, w), (y, v)))
    ratio = float(np.vdot(own, given).real / np.vdot(own, own).real)
    size = np.abs(_moments(x, np.abs(w), centre, width)).max()
    if x.shape == y.shape and np.array_equal(x, y):
        same = np.allclose(v, ratio * w, rtol=1e-9, atol=0.0)
    else:
        same = bool(np.all(np.abs(given - ratio * own) <= 1e-6 * abs(ratio) * size))
    if not same or not ratio:
        raise QuadratureError(
            refused + "another measure by its `quadrature=`. Put the ratio of the measures into the integrand, or make "
            "a domain of the quadrature and a function on it by composition."
        )
    return 1.0 if abs(ratio - 1) < 1e-6 else ratio


def _moments(points, weights, centre, width):
    """Integrals of 1, t, t^2, t^3 and exp(i t), exp(2 i t), by coordinate, where t = (x - centre) / width."""
    t = (points.reshape(len(points), -1) - centre) / np.where(width > 0, width, 1.0)
    phi = [np.ones_like(t), t, t**2, t**3, np.exp(1j * t), np.exp(2j * t)]
    return np.concatenate([weights @ p for p in phi])


def _fingerprint(rule) -> tuple:
    """What tells measures apart that were given for a space without a quadrature of its own."""
    points, weights = rule
    if is_tracer(points) or is_tracer(weights):
        return ("traced", id(weights))
    x = np.asarray(points)
    shift, width = np.zeros(max(x[0].size, 1)), np.ones(max(x[0].size, 1))
    return ("known", *_moments(x, np.asarray(weights), shift, width).tolist())


def check_one_measure(*gradients: Function):
    """Raise if integrals over a space that has no quadrature were given different measures.

    They stand for the measure of the pairing, so one functional derivative has room for one.
    """
    known: dict[Domain, tuple] = {}
    for root in gradients:
        for domain, mark in (m for node in nodes_of(root) for m in node.static.get("given", ())):
            kind, *moments = known.setdefault(domain, mark)
            if mark != (kind, *moments) and not (
                kind == mark[0] == "known" and np.allclose(moments, mark[1:], rtol=1e-6, atol=1e-6 * abs(moments[0]))
            ):
                raise QuadratureError(
                    f"integrals over {domain!r} have different quadratures by `quadrature=`, so there is no one "
                    "measure for the functional derivative. Give the domain points and weights, or put the ratio of "
                    "the measures into the integrand."
                )


class MovedQuadrature(Operator):
    """Derivative of an integral along a change of its quadrature. Linear in f.

    transpose: none, for the change of the points gives derivatives of Dirac distributions.
    """

    name, linear = "integral over a moving quadrature", True

    def evaluate(self, node, *args):
        return self._value(node, node.arrays, node.static.get("order", 1), args)

    def _value(self, node, arrays, order, args):
        """arrays: (quadrature, its change), of higher orders (those of the order below, their change)."""
        if order == 0:
            return _integrate.evaluate(node.replace(arrays=arrays), *args)
        inner, tangents = arrays
        return jax.jvp(lambda a: self._value(node, a, order - 1, args), (inner,), (tangents,))[1]

    def array_tangent(self, node, tangents):
        static = node.static | {"order": node.static.get("order", 1) + 1}
        return Function(self, node.operands, (node.arrays, tangents), static, node.signature)


def _weighted_sum(code, rules):
    """sum over the product of quadratures of weight * code(nodes), the innermost factor vectorised."""
    (points, weights), *others = rules
    if not others:
        return _reduce(code, points, weights)
    return _reduce(lambda x: _weighted_sum(lambda *y: code(x, *y), others), points, weights)


def _reduce(code, points, weights):
    if len(weights) <= CHUNK:
        return _contract(weights, jax.vmap(code)(points))
    chunks = -(-len(weights) // CHUNK)
    pad = chunks * CHUNK - len(weights)
    # padding repeats the last point with weight zero, so no new place is evaluated
    points = jnp.concatenate([points, jnp.repeat(points[-1:], pad, axis=0)]).reshape(chunks, CHUNK, *points.shape[1:])
    weights = jnp.concatenate([weights, jnp.zeros(pad, weights.dtype)]).reshape(chunks, CHUNK)
    partial = jax.lax.map(lambda block: _contract(block[1], jax.vmap(code)(block[0])), (points, weights))
    return tree_map(lambda v: v.sum(axis=0), partial)


def _contract(weights, values):
    return tree_map(lambda v: jnp.tensordot(weights.astype(v.dtype), v, 1), values)


_integrate, _moved = Integrate(), MovedQuadrature()


@op.register
def integrate_over(f: Function, argnums: tuple[int, ...], quadrature=()) -> Function:
    """The integral as a Function of the arguments that are left, possibly of none."""
    if not argnums:
        return f
    if not f.singular:
        for i in argnums if not quadrature else ():
            if not f.domains[i].grid_later:
                f.domains[i].quadrature()
        return Function(_integrate, (f,), quadrature, {"argnums": argnums})
    regular, terms = op.separate(f)
    parts = [] if regular is None else [integrate_over(regular, argnums, quadrature)]
    rules = dict(zip(argnums, quadrature, strict=True)) if quadrature else None
    parts += [op.integral_of_term(t, f.domains, argnums, rules) for t in terms]
    return functools.reduce(operator.add, parts)


@op.register
def integrate(f: Function, argnums: int | tuple[int, ...] | None = None, *, quadrature: Any = None) -> Any:
    """Integral of f over some arguments (a Function of the others), or over all of them (an array).

    argnums: which arguments; None means all.
    quadrature: (points, weights) for one argument, or a tuple of such pairs; None means the domains' own. Arrays given
        here may be traced and differentiated.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"integrate takes a Function, {type(f).__name__} found.")
    count = len(f.domains)
    if argnums is None:
        argnums = tuple(range(count))
    argnums = checked_argnums(argnums, f, "integrate") if count else argnums
    rules = () if quadrature is None else _checked_rules(quadrature, f, argnums)
    integral = integrate_over(f, argnums, rules)
    return integral if integral.domains else integral()


def with_quadrature(root: Function, points: Any, weights: Any) -> Function:
    """The same graph, its integrals over spaces with `grid_later` taken by this quadrature.

    points: (node, *shape of the space's points).   weights: (node,).
    """

    def rule(node, operands):
        node = over(node, operands)
        if node.operator is not _integrate or node.arrays:
            return node
        (f,), argnums = node.operands, node.static["argnums"]
        if not any(f.domains[i].grid_later and f.domains[i].points is None for i in argnums):
            return node
        given = [(points, weights) if f.domains[i].grid_later else f.domains[i].quadrature() for i in argnums]
        return node.replace(arrays=_checked_rules(tuple(given), f, argnums))

    return rewrite(root, rule)


def _checked_rules(quadrature, f, argnums):
    rules = (quadrature,) if len(argnums) == 1 and not isinstance(quadrature[0], tuple) else tuple(quadrature)
    if len(rules) != len(argnums):
        raise QuadratureError(f"integrate: {len(argnums)} quadratures (points, weights) expected, {len(rules)} found.")
    checked = []
    for i, (points, weights) in zip(argnums, rules, strict=True):
        what = f"integrate, argument {i} of {f!r}"
        checked.append(checked_rule(points, weights, f.domains[i], what))
        check_real(checked[-1][1], what)
    return tuple(checked)


def braket(left: Function, right: Function, *, real: bool = False) -> Any:
    """Integral over all arguments of conj(left) right, summed over the entries of array and tree values.

    real: the real part, which a functional to be differentiated must return.
    """
    check_same_domains(left, right, "braket")
    if [x.shape for x in tree_leaves(left.result)] != [x.shape for x in tree_leaves(right.result)]:
        raise SignatureError(f"braket of functions with results of different shape: {left!r} and {right!r}.")
    return op.integrate(op.compose(ConjugateProduct(real), left, right))


class ConjugateProduct(Code):
    """(l, r) -> sum of conj(l) r over all entries."""

    __name__ = "conj(l) r"

    def __init__(self, real=False):
        self.real = real

    def __call__(self, left, right):
        total = sum(tree_leaves(tree_map(lambda l, r: jnp.sum(jnp.conj(l) * r), left, right)))
        return jnp.real(total) if self.real else total


@op.register
def integral_transform(k: Function, f: Function):
    """Integral over the last argument of k and the first of f of their product; values are multiplied as by `@`."""
    if not isinstance(f, Function):
        raise SignatureError(f"{k!r} @ {type(f).__name__}: a Function expected on the right.")
    if not k.domains or not f.domains or not same_domain(k.domains[-1], f.domains[0]):
        raise SignatureError(f"@: the last argument of {k!r} is not the first of {f!r}.")
    middle, total = len(k.domains) - 1, len(k.domains) + len(f.domains) - 1
    domains = k.domains + f.domains[1:]
    product = op.compose(
        _multiply,
        op.broadcast(k, domains, tuple(range(middle + 1))),
        op.broadcast(f, domains, tuple(range(middle, total))),
    )
    result = op.integrate_over(product, (middle,))
    return result if result.domains else result()


def _multiply(a, b):
    return jnp.multiply(a, b) if a.ndim == 0 or b.ndim == 0 else jnp.matmul(a, b)
