"""Straight-line scalar code: what is left of code on small arrays when every entry becomes a variable of its own.

A pair kernel is written on points (3,) and features, and runs on millions of pairs. As arrays with a trailing axis of
three it takes several times longer than on three separate numbers per point, so `scalar_program` takes it apart. On
the way equal subexpressions become one, constants are folded, and x / y becomes x * (1 / y), which leaves one division
where a derivative would have several (XLA keeps them all).
"""

from dataclasses import dataclass, field
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from dftfd.autofd.moves import MOVES, dynamic_slice
from dftfd.autofd.scalar.keys import CUSTOM, INLINED, NoKey, closed, live_equations, value_key
from dftfd.errors import UnsupportedError

_ELEMENTWISE = frozenset(
    """abs acos acosh add add_any and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp
    convert_element_type cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow
    is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not one_minus_square or pow rem round rsqrt
    select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh xor""".split()
)
_MOVES = frozenset("pad split stack tile unstack".split())  # besides those of dftfd.autofd.moves
_ALIASES = frozenset(["copy", "copy_p", "optimization_barrier", "stop_gradient"])
_LOOKUPS = frozenset(["dynamic_slice", "gather"])  # at constant places
_REDUCTIONS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}
LARGE = 1024  # entries of a constant array from which on it is a table


@dataclass(frozen=True, eq=False)
class Node:
    """One scalar: an input ("input", position), a constant ("const", value), or an operation on other scalars.

    op: name of the operation.   args: numbers of its operands.   primitive, params: how to compute it.
    real: False for integers and truth values, to which the algebra of real numbers does not apply.
    """

    op: str
    args: tuple[int, ...] = ()
    value: object = None
    primitive: object = None
    params: dict = field(default_factory=dict)
    real: bool = True


class Table:
    """A large constant array, known as a whole; entries are looked up at computed places."""

    def __init__(self, values):
        self.values = np.asarray(values)


class LookUp:
    """One entry of a table by dynamic_slice or gather, which say what happens outside of it."""

    def __init__(self, eqn, table: Table, shapes):
        self.primitive, self.params, self.shapes = eqn.primitive, dict(eqn.params), shapes
        self.array = jnp.asarray(table.values)
        self.key = value_key((eqn.primitive.name, self.params, shapes, table.values))

    def bind(self, *place):
        place, operands = iter(place), []
        for shape in self.shapes:
            entries = [next(place) for _ in range(int(np.prod(shape)))]
            operands.append(jnp.stack(entries).reshape(shape) if shape else entries[0])
        return self.primitive.bind(self.array, *operands, **self.params).reshape(())


@dataclass(frozen=True, eq=False)
class ScalarProgram:
    """Scalar code; each node after its operands, equal nodes once.

    Called with a list of scalars (one per entry of the inputs, in order); gives the list of its outputs.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    n_inputs: int

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Numbers of the nodes that the outputs depend on, ascending."""
        found, pending = set(), list(self.outputs)
        while pending:
            i = pending.pop()
            if i not in found:
                found.add(i)
                pending.extend(self.nodes[i].args)
        return tuple(sorted(found))

    @cached_property
    def last_uses(self) -> dict[int, list[int]]:
        """By position in `needed`: the values that are needed no more after it."""
        last = {}
        for position, i in enumerate(self.needed):
            last[i] = position
            for a in self.nodes[i].args:
                last[a] = position
        for i in self.outputs:
            last.pop(i, None)
        table: dict[int, list[int]] = {}
        for i, position in last.items():
            table.setdefault(position, []).append(i)
        return table

    @property
    def length(self) -> int:
        """Operations that have to be carried out."""
        return sum(bool(self.nodes[i].args) for i in self.needed)

    def depends_on(self, positions) -> bool:
        """True if an output depends on one of these inputs."""
        return any(self.nodes[i].op == "input" and self.nodes[i].value in positions for i in self.needed)

    def __call__(self, inputs) -> list:
        values = {}
        for i in self.needed:
            node = self.nodes[i]
            if node.op == "input":
                values[i] = inputs[node.value]
            elif node.op == "const":
                values[i] = jnp.asarray(node.value)
            else:
                values[i] = node.primitive.bind(*(values[a] for a in node.args), **node.params)
        return [values[i] for i in self.outputs]


def scalar_program(code, *specs) -> ScalarProgram:
    """The scalar program of code on arrays with these shapes; outputs in the order of the flattened result.

    UnsupportedError where the code is not straight-line (loops, look-ups at computed places).
    """
    closed = jax.make_jaxpr(code)(*specs)
    build = _Builder()
    start, arguments = 0, []
    for leaf in jax.tree_util.tree_leaves(specs):
        size = int(np.prod(leaf.shape))
        ids = [build.intern(Node("input", value=k)) for k in range(start, start + size)]
        arguments.append(np.array(ids, dtype=np.int64).reshape(leaf.shape))
        start += size
    with jax.ensure_compile_time_eval():
        results = build.run(closed.jaxpr, closed.consts, arguments)
    return ScalarProgram(tuple(build.nodes), tuple(int(i) for r in results for i in np.ravel(r)), start)


class _Builder:
    """Interprets a jaxpr on arrays of node numbers."""

    def __init__(self):
        self.nodes: list[Node] = []
        self._known: dict[tuple, int] = {}

    def intern(self, node: Node) -> int:
        """The number of a node, the same for nodes of equal keys; a node without exact key equals no other."""
        value = node.value if node.op != "const" else (node.value.dtype.str, node.value.tobytes())
        try:
            key = (node.op, node.args, value, node.real, value_key(node.params) if node.params else ())
        except NoKey:
            key = len(self.nodes)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return self._known[key]

    def constants(self, value):
        """Node numbers of the entries of a concrete array; a Table where they are many."""
        value = np.asarray(value)
        if value.size > LARGE:
            return Table(value)
        ids = [self.intern(Node("const", value=entry)) for entry in value.reshape(-1)]
        return np.array(ids, dtype=np.int64).reshape(value.shape)

    def run(self, jaxpr, consts, arguments) -> list[np.ndarray]:
        known = dict(zip(jaxpr.constvars, map(self.constants, consts), strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))
        read = lambda v: self.constants(v.val) if isinstance(v, Literal) else known[v]
        for eqn in live_equations(jaxpr):
            results = self._equation(eqn, [read(v) for v in eqn.invars])
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn, args) -> list[np.ndarray]:
        name, params = eqn.primitive.name, eqn.params
        if name in INLINED or name in CUSTOM:
            inner = closed(params[INLINED.get(name) or CUSTOM[name]])
            return self.run(inner.jaxpr, inner.consts, args)
        if any(isinstance(a, Table) for a in args):
            return [self._looked_up(eqn, *args)]
        if name in MOVES and len(args) == 1:
            return [MOVES[name](args[0], params, eqn.outvars[0].aval.shape)]
        if name == "concatenate":
            return [np.concatenate(args, axis=params["dimension"])]
        if all(self._is_constant(a) for a in args):
            values = [jnp.asarray(self._concrete(a, v.aval)) for a, v in zip(args, eqn.invars, strict=True)]
            out = eqn.primitive.bind(*values, **params)
            return [self.constants(o) for o in (out if eqn.primitive.multiple_results else [out])]
        if name in _ALIASES:
            return args
        if name in _ELEMENTWISE:
            return [self._elementwise(eqn, args)]
        if name in _MOVES:
            out = eqn.primitive.bind(*map(jnp.asarray, args), **params)
            return [np.asarray(o) for o in (out if eqn.primitive.multiple_results else [out])]
        if name in _LOOKUPS and all(self._is_constant(a) for a in args[1:]):
            places = [self._concrete(a, v.aval) for a, v in zip(args[1:], eqn.invars[1:], strict=True)]
            if name == "dynamic_slice":
                return [dynamic_slice(args[0], places, params["slice_sizes"])]
            places = map(jnp.asarray, places)
            return [np.asarray(eqn.primitive.bind(jnp.asarray(args[0]), *places, **params))]
        if name in _REDUCTIONS and eqn.outvars[0].aval.dtype == np.float64:
            return [self._reduction(args[0], params["axes"], _REDUCTIONS[name])]
        if name == "dot_general" and all(v.aval.dtype == np.float64 for v in (*eqn.invars, *eqn.outvars)):
            return [self._dot(*args, params["dimension_numbers"])]
        raise UnsupportedError(f"operation {name!r} has no scalar form.")

    def _looked_up(self, eqn, table, *places):
        """One entry of a table at a computed place: dynamic_slice or gather with one index per axis."""
        name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape
        whole = isinstance(table, Table) and not any(isinstance(p, Table) for p in places)
        numbers = eqn.params.get("dimension_numbers")
        single = name == "dynamic_slice" or (
            name == "gather" and numbers.start_index_map == tuple(range(table.values.ndim))
        )
        if not (whole and single and np.prod(shape) == 1):
            raise UnsupportedError(f"operation {name!r} on a large constant array has no scalar form.")
        ids = tuple(int(i) for place in places for i in place.reshape(-1))
        code = LookUp(eqn, table, tuple(place.shape for place in places))
        return np.full(shape, self.intern(Node("look up", ids, code.key, code)), dtype=np.int64)

    def _is_constant(self, ids):
        return all(self.nodes[i].op == "const" for i in ids.reshape(-1))

    def _concrete(self, ids, aval):
        values = [self.nodes[i].value for i in ids.reshape(-1)]
        return np.array(values, dtype=aval.dtype).reshape(ids.shape)

    def _elementwise(self, eqn, args):
        args = np.broadcast_arrays(*args)
        name, primitive, params = eqn.primitive.name, eqn.primitive, eqn.params
        code = self._scalar if eqn.outvars[0].aval.dtype == np.float64 else self._not_real
        entries = zip(*(map(int, np.ravel(a)) for a in args), strict=True)
        flat = [code(name, primitive, params, list(entry)) for entry in entries]
        return np.array(flat, dtype=np.int64).reshape(args[0].shape)

    def _plain(self, name, primitive, params, args) -> int:
        return self.intern(Node(name, tuple(args), None, primitive, dict(params)))

    def _not_real(self, name, primitive, params, args) -> int:
        return self.intern(Node(name, tuple(args), None, primitive, dict(params), real=False))

    def _scalar(self, name, primitive, params, args) -> int:
        """One operation on float64 scalars, simplified."""
        if name == "div" and not self._is_value(args[0], 1):
            return self.product(args[0], self.reciprocal(args[1], primitive))
        if name == "integer_pow" and params["y"] < 0:
            one_over = self.reciprocal(args[0], jax.lax.div_p)
            if params["y"] == -1:
                return one_over
            return self.intern(Node(name, (one_over,), None, primitive, {**params, "y": -params["y"]}))
        if name == "mul":
            return self.product(*args)
        if name in ("add", "add_any"):
            return self.sum(*args)
        return self._plain(name, primitive, params, args)

    def _is_value(self, i, number) -> bool:
        node = self.nodes[i]
        return node.op == "const" and node.value == number

    def reciprocal(self, i, primitive) -> int:
        node = self.nodes[i]
        if node.op == "const":
            with np.errstate(divide="ignore"):
                return self.intern(Node("const", value=1.0 / node.value))
        one = self.intern(Node("const", value=np.float64(1.0)))
        return self.intern(Node("div", (one, i), None, primitive))

    def product(self, i, j) -> int:
        if self._is_value(i, 1):
            return j
        if self._is_value(j, 1):
            return i
        return self.intern(Node("mul", tuple(sorted((i, j))), None, jax.lax.mul_p))

    def sum(self, i, j) -> int:
        if self._is_value(i, 0):
            return j
        if self._is_value(j, 0):
            return i
        return self.intern(Node("add", tuple(sorted((i, j))), None, jax.lax.add_p))

    def _reduction(self, ids, axes, name):
        kept = [k for k in range(ids.ndim) if k not in axes]
        columns = ids.transpose(*kept, *axes).reshape([ids.shape[k] for k in kept] + [-1])
        total = columns[..., 0]
        for k in range(1, columns.shape[-1]):
            total = self._pairwise(name, total, columns[..., k])
        return total

    def _pairwise(self, name, a, b):
        code = {"add": self.sum, "mul": self.product}.get(name)
        primitive = {"max": jax.lax.max_p, "min": jax.lax.min_p}.get(name)
        code = code or (lambda i, j: self._plain(name, primitive, {}, (i, j)))
        pairs = zip(np.ravel(a), np.ravel(b), strict=True)
        return np.array([code(int(i), int(j)) for i, j in pairs], dtype=np.int64).reshape(a.shape)

    def _dot(self, a, b, dimension_numbers):
        (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
        free_a = [k for k in range(a.ndim) if k not in (*contract_a, *batch_a)]
        free_b = [k for k in range(b.ndim) if k not in (*contract_b, *batch_b)]
        shape = [a.shape[k] for k in (*batch_a, *free_a)] + [b.shape[k] for k in free_b]
        batch = int(np.prod([a.shape[k] for k in batch_a]))
        depth = int(np.prod([a.shape[k] for k in contract_a]))
        a = a.transpose(*batch_a, *free_a, *contract_a).reshape(batch, -1, 1, depth)
        b = b.transpose(*batch_b, *free_b, *contract_b).reshape(batch, 1, -1, depth)
        products = self._pairwise("mul", *np.broadcast_arrays(a, b))
        return self._reduction(products, (3,), "add").reshape(shape)
