"""Lowering: from a graph over unknown functions to a kernel on numbers.

At a point x, a semilocal expression of a function rho needs only the jet of rho: its value and its derivatives up to
some order. `placeholder` makes a function that is known by its jet; `lower` finds the order by tracing and returns the
expression as code of the jets. nabla of a placeholder is a look-up; nabla of a composition goes through the chain rule
until it meets placeholders.

An expression may hold integrals I(r) = integrate(f, argnums=1) of functions f of two points. Each is taken apart into

    I(r) = l(r) S(r),   S(r) = integral of c(r') K(r, left(r), r', right(r')) dr'

Sub-graphs that depend on one point only become features, left and right, lowered pointwise to jets; factors of one
point become the charge c and, as part of the outer expression, l. What remains is the pair kernel K on numbers. S then
stands as an unknown of its own in the outer expression phi(jets, S_1, S_2, ..., r), which may be nonlinear, and in the
features of later integrals.
"""

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import Domain, Signature, same_domain
from dftfd.autofd.core.function import Function, is_constant, nodes_of
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.broadcast import _broadcast, _permute, broadcast, permute
from dftfd.autofd.operators.compose import Binary, compose, composition
from dftfd.autofd.operators.integrate import _integrate, integrate_over
from dftfd.autofd.operators.leaf import constant, leaf, zeros
from dftfd.autofd.operators.nabla import _nabla, nabla
from dftfd.autofd.operators.zip_split import zip_functions
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


LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class PairIntegral:
    """S(r) = integral of charge(r') kernel(r, left(r), r', right(r')) dr'.

    name: under which S stands among the jets, {name: [S]}.   shape: of S.
    charge: scalar.   left, right: tuples of features; PointKernels of the jets and of integrals that come earlier.
    needs: names of those integrals.
    """

    name: str
    shape: tuple[int, ...]
    charge: PointKernel
    left: PointKernel
    right: PointKernel
    kernel: "PairKernel"
    needs: frozenset[str]

    @property
    def size(self) -> int:
        """Number of entries of S."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class PairKernel:
    """Code of two points and their features: `kernel(r, left, s, right)`, features as tuples of arrays."""

    root: Function

    def __call__(self, r, left, s, right):
        def leaf(node):
            return (left, right)[node.static["side"]][node.static["number"]] if node.operator is _feature else None

        return evaluate_graph(self.root, leaf, r, s)


@dataclass(frozen=True)
class NonlocalProgram:
    """An expression with double integrals as code: integrals in the order of computation, then outer(jets, x).

    orders: highest derivative needed of each unknown function.
    """

    outer: PointKernel
    integrals: tuple[PairIntegral, ...]
    orders: dict[str, int]

    def known_on(self, jets, points, weights) -> dict:
        """What `outer` knows at each point of a small grid, (point, ...): jets, the cell's volume, all integrals.

        jets: of the unknown functions, {name: [value (point, ...), gradient, ...]}. All pairs at once, in JAX.
        """
        known = jets | {CELL_VOLUME: [weights]}
        for S in self.integrals:
            charge, left, right = (jax.vmap(code)(known, points) for code in (S.charge, S.left, S.right))
            of_row = jax.vmap(S.kernel, (None, None, 0, 0))
            pairs = jax.vmap(of_row, (0, 0, None, None))(points, left, points, right)
            known = known | {S.name: [jnp.einsum("q,pq...->p...", weights * charge, pairs)]}
        return known


def lower_nonlocal(expression: Function) -> NonlocalProgram:
    """The program of an expression with double integrals; NotSemilocalError if it is anything beyond them."""
    lowering = NonlocalLowering()
    outer = _point_kernel(lowering, expression)
    orders = {name: n for name, n in lowering.orders.items() if name not in lowering.names}
    return NonlocalProgram(outer, _used(outer, lowering.integrals), orders)


def _used(outer: PointKernel, integrals) -> tuple[PairIntegral, ...]:
    """Those that the outer expression depends on; where only nabla of an integral is, the integral itself is not."""
    names, used = set(outer.orders), []
    for integral in reversed(integrals):
        if integral.name in names:
            used.append(integral)
            names |= integral.needs
    return tuple(reversed(used))


def has_integrals(expression: Function) -> bool:
    """True if an expression integrates over a space whose grid comes later."""
    return any(node.operator is _integrate and not node.arrays for node in nodes_of(expression))


class _Feature(Placeholder):
    """A feature of one point in a graph on two points."""

    name = "feature"


_feature = _Feature()


class NonlocalLowering(Lowering):
    """Rewrites one-point graphs; integrals on the way become unknowns of their own."""

    def __init__(self):
        super().__init__()
        self.integrals: list[PairIntegral] = []
        self.names: set[str] = set()
        self._integrands: dict[Function, tuple] = {}  # S -> (integrand, argument that it is integrated over)
        self._known: dict = {}

    def _rewrite(self, node):
        if node.operator is _integrate and not self.is_free(node):
            return self._integral(node)
        return super()._rewrite(node)

    def _gradient(self, node):
        if node in self._integrands:
            integrand, argnum = self._integrands[node]
            return self.rewrite(integrate_over(nabla(integrand, 1 - argnum), (argnum,)))
        return super()._gradient(node)

    def _integral(self, node):
        """l * S as a one-point function, S being a new unknown."""
        (f,), argnums = node.operands, node.static["argnums"]
        if len(f.domains) != 2 or len(argnums) != 1 or node.arrays or not same_domain(*f.domains):
            raise NotSemilocalError(
                f"{node!r}: integrals of unknown functions are lowered over one of two points of the same space, on "
                "the grid that comes later (no quadrature attached)."
            )
        argnum = argnums[0]
        pairs = _Pairs(self, (LEFT, RIGHT) if argnum == 1 else (RIGHT, LEFT), node.domains[0])
        sides: dict[int, list[Function]] = {LEFT: [], RIGHT: []}
        rest = None
        for factor in _factors(f):
            side, g = pairs.rewrite(factor, pairs.places)
            if side in (LEFT, RIGHT) and g.result.shape == ():
                sides[side].append(g)
            else:
                rest = factor if rest is None else rest * factor
        left, charge = _multiplied(sides[LEFT]), _multiplied(sides[RIGHT])
        kept = rest if charge is None else broadcast(charge, f.domains, argnum)
        kept = kept * rest if charge is not None and rest is not None else kept
        S = self._unknown(node, pairs, charge, rest, f)
        if kept is not None:
            self._integrands[S] = (kept, argnum)
        return S if left is None else self.rewrite(left) * S

    def _unknown(self, node, pairs, charge, rest, f):
        X = node.domains[0]
        charge = constant(1.0, X) if charge is None else charge
        root = pairs.as_pair(pairs.rewrite(constant(1.0, *f.domains) if rest is None else rest, pairs.places))
        left, right = (zip_functions(*gs) if gs else constant((), X) for gs in pairs.features)
        key = tuple(map(_identity, (charge, left, right, root)))
        if key not in self._known:
            parts = [_point_kernel(self, g) for g in (charge, left, right)]  # integrals within them come first
            of_charge, of_left, of_right = parts
            name = f"integral {len(self.integrals)}"
            needs = frozenset(n for p in parts for n in p.orders if n in self.names)
            shape, kernel = root.result.shape, PairKernel(root)
            self.integrals.append(PairIntegral(name, shape, of_charge, of_left, of_right, kernel, needs))
            self.names.add(name)
            self._known[key] = self.rewrite(placeholder(name, X, root.result.shape))
        return self._known[key]


def _point_kernel(lowering, g) -> PointKernel:
    """The kernel of one function within a larger lowering, with its own orders."""
    root = lowering.rewrite(g)
    orders: dict[str, int] = {}
    for node in nodes_of(root):
        jet = jet_of(node)
        if jet is not None:
            orders[jet[0]] = max(jet[1], orders.get(jet[0], 0))
    return PointKernel(root, orders)


def _identity(f: Function):
    """A key that is equal for functions of equal structure over the same arrays, which it keeps alive: JAX's view of a
    Function is one leaf, made anew inside of a transformation, whose address means nothing."""
    return f.structural_key()


def _multiplied(functions):
    total = None
    for f in functions:
        total = f if total is None else total * f
    return total


def _factors(f) -> list[Function]:
    """Functions of two points whose product is f; scalar ones wherever that is seen."""
    code = f.operands[0].static.get("code") if f.operator is composition else None
    if not isinstance(code, Binary):
        return [f]
    numbers = [x for x in (code.left, code.right) if x is not None]
    match code.name, numbers:
        case "multiply", []:
            return [g for inner in f.operands[1:] for g in _factors(inner)]
        case "divide", []:
            return [*_factors(f.operands[1]), 1.0 / f.operands[2]]
        case "multiply", [int() | float() as number]:
            return [constant(float(number), *f.domains), *_factors(f.operands[1])]
    return [f]


class _Pairs:
    """Rewrites graphs on two points into a pair kernel over features.

    places: side (LEFT or RIGHT) of each argument of the integrand.   features: one-point functions of each side.
    """

    def __init__(self, points: NonlocalLowering, places, domain):
        self.points, self.places, self.domain = points, places, domain
        self.features: tuple[list, list] = ([], [])
        self._numbers: tuple[dict, dict] = ({}, {})
        self.rewrite = functools.cache(self._rewrite)

    def as_pair(self, sided):
        """The function of both points, features in place of one-point functions."""
        side, f = sided
        if side is None:
            return f
        number = self._numbers[side].setdefault(_identity(f), len(self.features[side]))
        if number == len(self.features[side]):
            self.features[side].append(f)
        signature = Signature((self.domain, self.domain), f.result)
        return Function(_feature, (), (), {"side": side, "number": number, "signature": signature}, signature)

    def _rewrite(self, node, places):
        """(side, function): a one-point function for side LEFT or RIGHT; for None (both) a graph over features."""
        if node.operator in (_broadcast, _permute) and node.operands[0].domains:
            (g,) = node.operands
            sides = {node.operator.argument_below(node, i): side for i, side in enumerate(places)}
            inner = tuple(sides[i] for i in range(len(g.domains)))
            return (*inner, g) if len(inner) == 1 else self.rewrite(g, inner)
        if self.points.is_free(node):
            return None, node if places == (LEFT, RIGHT) or is_constant(node) else permute(node, (1, 0))
        if node.operator is _nabla:
            return self.rewrite(_push_nabla(self.points, node.operands[0], node.static["argnum"]), places)
        if node.operator is composition and self.points.is_free(node.operands[0]):
            return self._composition(node, [self.rewrite(g, places) for g in node.operands[1:]])
        raise NotSemilocalError(
            f"operator {node.operator.name!r} in {node!r}: beyond functions of two points made of functions of one. "
            "Integrals over three points at once are not lowered."
        )

    def _composition(self, node, inner):
        numbers = [side is None and is_constant(g) for side, g in inner]
        sides = {side for (side, _), number in zip(inner, numbers, strict=True) if not number}
        if len(sides) == 1 and None not in sides:
            one_point = [
                constant(g.arrays[0], self.domain) if number else g
                for (_, g), number in zip(inner, numbers, strict=True)
            ]
            return sides.pop(), compose(node.operands[0], *one_point)
        return None, compose(node.operands[0], *map(self.as_pair, inner))


def _push_nabla(lowering, f, argnum):
    """nabla with respect to one argument of a function of two points, moved inwards."""
    if lowering.is_free(f):
        return nabla(f, argnum)
    if f.operator is _nabla:
        return _push_nabla(lowering, _push_nabla(lowering, f.operands[0], f.static["argnum"]), argnum)
    if f.operator in (_broadcast, _permute):
        (g,), below = f.operands, f.operator.argument_below(f, argnum)
        if below is None:
            return zeros(nabla(f, argnum).signature)
        inner = nabla(g) if len(g.domains) == 1 else _push_nabla(lowering, g, below)
        return Function(f.operator, (inner,), f.arrays, f.static)
    if f.operator is composition and lowering.is_free(f.operands[0]):
        outer, *inner = f.operands
        chain = ChainRule(outer, tuple(range(len(inner))), len(inner))
        return compose(chain, *inner, *(_push_nabla(lowering, g, argnum) for g in inner))
    raise NotSemilocalError(f"nabla of {f!r}: beyond functions of two points made of functions of one.")
