"""From JAX's programs to scalar code: every entry of every array becomes a variable of its own.

A pair kernel is written on points (3,) and features, and runs on millions of pairs. As arrays with a trailing axis of
three it takes several times longer than on three separate numbers per point, so it is taken apart. On the way equal
operations become one, constants are folded, and a set of rules makes the code shorter (simplify.py).

Pointwise code is taken apart before and after it is differentiated. Until derivatives are formed, functions with a
derivative rule of their own stay whole, loops always: a node `call` that takes scalars and gives arrays, and nodes
`entry` that pick from them. So JAX can differentiate the program.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from dftfd.autofd.scalar import vocabulary
from dftfd.autofd.scalar.jaxprs import CUSTOM, closed, equation_code, is_exact, operands_of, walk
from dftfd.autofd.scalar.keys import NoKey, equation_key, function_name, value_key
from dftfd.autofd.scalar.on_numpy import exactly
from dftfd.autofd.scalar.program import Node, ScalarProgram
from dftfd.autofd.scalar.simplify import ENTRIES, NONE, POINT, Nodes
from dftfd.errors import UnsupportedError

LARGE = 1024
"""Entries of a constant array from which on it is a table."""


def scalar_program(code, *specs, rules: dict = ENTRIES) -> ScalarProgram:
    """The scalar program of code on arrays with these shapes; outputs in the order of the flattened result.

    UnsupportedError where the code is not straight-line (loops, look-ups at computed places).
    """
    return _read(code, specs, Reader(rules, whole=None))


def point_program(code, *specs, inline: bool = False, keep=frozenset(), fold: bool = True) -> ScalarProgram:
    """The same for pointwise code; what has no scalar form is kept whole.

    inline: functions with derivative rules are opened, too, for code that is final, but those with names in `keep`.
    fold: see `Reader`.
    """
    return _read(code, specs, Reader(POINT, kept_whole(inline), keep=keep, fold=fold))


def kept_whole(inline: bool) -> frozenset:
    return vocabulary.LOOPS if inline else vocabulary.LOOPS | vocabulary.WITH_RULES


def symbolic_program(code, *specs) -> ScalarProgram:
    """The scalar program of code as it was written; functions with derivative rules stay whole, all else has to be
    straight-line code."""
    return _read(code, specs, Reader(NONE, frozenset(CUSTOM), straight=True))


def written_program(code, *specs) -> ScalarProgram:
    """`exact_program`, but what has no scalar form is kept whole."""
    return _read(code, specs, Reader(NONE, vocabulary.LOOPS | frozenset(CUSTOM), fold=False))


def exact_program(code, *specs) -> ScalarProgram:
    """The scalar program of code as it was written, in which real numbers that JAX would round are not computed."""
    return _read(code, specs, Reader(NONE, frozenset(CUSTOM), straight=True, fold=False))


def _read(code, specs, reader) -> ScalarProgram:
    program = jax.make_jaxpr(code)(*specs)
    arguments, count = [], itertools.count()
    for spec in jax.tree_util.tree_leaves(specs):
        ids = [reader.intern(Node("input", value=next(count))) for _ in range(int(np.prod(spec.shape)))]
        arguments.append(np.array(ids, dtype=np.int64).reshape(spec.shape))
    with jax.ensure_compile_time_eval():
        results = reader.read(program, arguments)
    return ScalarProgram(tuple(reader.nodes), tuple(int(i) for r in results for i in np.ravel(r)), next(count))


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
        return self.primitive.bind(self.array, *_in_shapes(place, self.shapes), **self.params).reshape(())


class Whole:
    """An equation that is carried out as it stands, on scalars; its results as flat arrays.   fold: see `Reader`."""

    def __init__(self, eqn, tables: dict, fold: bool = True):
        self.eqn, self.tables, self._fold = eqn, tables, fold
        self.operands, self._code = operands_of(eqn), equation_code(eqn)
        self.inputs = [v for v in self.operands if v not in tables]

    @functools.cached_property
    def name(self) -> str:
        """Of the operation; of a function with a derivative rule the name that it has in Python."""
        return function_name(self.eqn)

    @property
    def has_rule(self) -> bool:
        """True for a function with a derivative rule of its own, which has a program for its value."""
        return self.eqn.primitive.name in CUSTOM

    def numbers(self, args) -> list:
        """All operands of a function of numbers, those that are constants of the equation in their places."""
        given = self.tables | dict(zip(self.inputs, args, strict=True))
        return [v.val if isinstance(v, Literal) else given[v] for v in self.eqn.invars]

    def entries(self, args, constant: Callable) -> list:
        """The operands of a function of one array; constant(number) where that is a number of the equation."""
        return args or [constant(np.float64(v.val)) for v in self.eqn.invars]

    @property
    def key(self):
        """Equal for equal equations; of its own where an equation has no exact key."""
        try:
            return equation_key(self.eqn), value_key([self.tables.get(v) for v in self.operands])
        except NoKey:
            return object()

    @functools.cached_property
    def program(self) -> ScalarProgram:
        """The value of a function with a derivative rule as scalar code; those inside it stay whole, as in symbols."""
        program = jaxpr_as_fun(closed(self.eqn.params[CUSTOM[self.eqn.primitive.name]]))
        specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in self.inputs]
        return (symbolic_program if self._fold else exact_program)(lambda *x: program(*self.numbers(x)), *specs)

    @functools.cached_property
    def matrix(self) -> np.ndarray | None:
        """(result, operand) of the product of a table, such as weights, with one array; None for anything else."""
        if self.eqn.primitive.name != "dot_general" or len(self.inputs) != 1 or len(self.operands) != 2:
            return None
        size = int(np.prod(self.inputs[0].aval.shape))
        return np.asarray(jax.vmap(lambda unit: self.bind(*unit)[0])(jnp.eye(size))).T

    def _results(self, values):
        values = iter(values)
        return self._code(*(self.tables[v] if v in self.tables else next(values) for v in self.operands))

    def bind(self, *scalars):
        return tuple(map(jnp.ravel, self._results(_in_shapes(scalars, [v.aval.shape for v in self.inputs]))))


class Entry:
    """One entry of one result of a whole equation."""

    @staticmethod
    def bind(results, result, index):
        return results[result][index]


def _in_shapes(scalars, shapes) -> list:
    """Arrays of these shapes from scalars one after the other."""
    scalars, arrays = iter(scalars), []
    for shape in shapes:
        entries = list(itertools.islice(scalars, int(np.prod(shape))))
        arrays.append(jnp.stack(entries).reshape(shape) if shape else entries[0])
    return arrays


class Reader(Nodes):
    """Reads a program on arrays of node numbers.

    whole: operations that are kept as they are, besides those without scalar form; None: both are refused.
    straight: only the operations in `whole` are kept, all others without scalar form refused.
    keep: names of functions with derivative rules that are kept whole as well.
    fold: whether operations on constants are carried out; of real numbers that rounds.
    """

    def __init__(self, rules, whole, straight: bool = False, keep=frozenset(), fold: bool = True):
        super().__init__(rules, fold)
        self.straight, self.keep = straight or whole is None, keep
        self.whole = whole or frozenset()

    def constants(self, value):
        """Node numbers of the entries of a concrete array; a Table where they are many."""
        value = np.asarray(value)
        if value.size > LARGE:
            return Table(value)
        ids = [self.intern(Node("const", value=entry)) for entry in value.reshape(-1)]
        return np.array(ids, dtype=np.int64).reshape(value.shape)

    def read(self, program, arguments) -> list[np.ndarray]:
        return walk(program, arguments, self._equation, self.constants)

    def _equation(self, eqn, args) -> list[np.ndarray]:
        name = eqn.primitive.name
        tables, constant = any(isinstance(a, Table) for a in args), all(map(self._is_constant, args))
        opened = constant and self.fold or not (name in self.whole or function_name(eqn) in self.keep)
        if name in CUSTOM and opened:
            return self.read(eqn.params[CUSTOM[name]], args)
        if constant and (self.fold or is_exact(eqn)) and (tables or name not in _MOVES):
            return self._folded(eqn, args)
        if name not in self.whole:
            rule = _looked_up if tables else _MOVES.get(name) or _RULES.get(name)
            results = rule(self, eqn, args) if rule else None
            if results is not None:
                return results
        if self.straight and (tables or name not in self.whole):
            raise UnsupportedError(f"operation {name!r} has no scalar form.")
        return self._kept_whole(eqn, args)

    def _is_constant(self, ids):
        return isinstance(ids, Table) or all(self.nodes[i].op == "const" for i in ids.reshape(-1))

    def _concrete(self, ids, aval):
        if isinstance(ids, Table):
            return ids.values
        values = [self.nodes[i].value for i in ids.reshape(-1)]
        return np.array(values, dtype=aval.dtype).reshape(ids.shape)

    def _folded(self, eqn, args):
        """An equation of constants, by NumPy where that is exact, since JAX compiles it for every shape."""
        name, params = eqn.primitive.name, eqn.params
        values = [self._concrete(a, v.aval) for a, v in zip(args, eqn.invars, strict=True)]
        with np.errstate(all="ignore"):
            exact = exactly(name, params, values)
        if exact is not None:
            return [self.constants(np.asarray(exact, dtype=eqn.outvars[0].aval.dtype))]
        out = eqn.primitive.bind(*map(jnp.asarray, values), **params)
        return [self.constants(o) for o in (out if eqn.primitive.multiple_results else [out])]

    def _kept_whole(self, eqn, args):
        operands = {v: a for v, a in zip(eqn.invars, args, strict=True) if not isinstance(v, Literal)}
        block = Whole(eqn, {v: a.values for v, a in operands.items() if isinstance(a, Table)}, self.fold)
        scalars = tuple(int(i) for v in block.inputs for i in np.ravel(operands[v]))
        call = self.intern(Node("call", scalars, block.key, block))
        return [self._entries(call, k, v.aval) for k, v in enumerate(eqn.outvars)]

    def _entries(self, call, result, aval):
        """Numbers of the nodes that pick the entries of one result of a whole equation."""
        ids = [
            self.plain("entry", (call,), Entry, {"result": result, "index": k}, aval.dtype == np.float64)
            for k in range(int(np.prod(aval.shape)))
        ]
        return np.array(ids, dtype=np.int64).reshape(aval.shape)

    def pairwise(self, op, a, b):
        """An operation on the entries of two arrays of one shape."""
        pairs = zip(np.ravel(a), np.ravel(b), strict=True)
        return np.array([self.make(op, (int(i), int(j))) for i, j in pairs], dtype=np.int64).reshape(a.shape)

    def reduced(self, ids, axes, op):
        """The entries along axes joined by an operation, from the first to the last."""
        kept = [k for k in range(ids.ndim) if k not in axes]
        columns = ids.transpose(*kept, *axes).reshape([ids.shape[k] for k in kept] + [-1])
        return functools.reduce(lambda a, b: self.pairwise(op, a, b), np.moveaxis(columns, -1, 0))


def _looked_up(reader, eqn, args):
    """One entry of a table at a computed place: dynamic_slice or gather with one index per axis."""
    (table, *places), name, shape = args, eqn.primitive.name, eqn.outvars[0].aval.shape
    if not isinstance(table, Table) or any(isinstance(p, Table) for p in places) or np.prod(shape) != 1:
        return None
    axes = tuple(range(table.values.ndim))
    if name != "dynamic_slice" and not (name == "gather" and eqn.params["dimension_numbers"].start_index_map == axes):
        return None
    ids = tuple(int(i) for place in places for i in place.reshape(-1))
    code = LookUp(eqn, table, tuple(place.shape for place in places))
    node = Node("look up", ids, code.key, code, real=table.values.dtype == np.float64)
    return [np.full(shape, reader.intern(node), dtype=np.int64)]


# ---- operations that move entries


def _broadcast_in_dim(array, params, shape):
    kept = [1] * len(shape)
    for size, axis in zip(array.shape, params["broadcast_dimensions"], strict=True):
        kept[axis] = size
    return np.broadcast_to(array.reshape(kept), shape)


def _slice(array, params, shape):
    strides = params["strides"] or (1,) * array.ndim
    return array[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]


def _by_numpy(move: Callable):
    """The rule of an operation with one operand: move(array, parameters, shape of the result)."""

    def rule(reader, eqn, args):
        dynamic = args[1:]  # sizes that are no constants
        return None if dynamic else [move(args[0], eqn.params, eqn.outvars[0].aval.shape)]

    return rule


def _reshape(array, params, shape):
    return array.reshape(shape)


def _in_order(array, params, shape):
    """Of entries in the order of other axes, as in jnp.reshape(order="F")."""
    axes = params["dimensions"]
    return (array if axes is None else array.transpose(axes)).reshape(shape)


_MOVES = {
    "broadcast_in_dim": _by_numpy(_broadcast_in_dim),
    "expand_dims": _by_numpy(_reshape),
    "reshape": _by_numpy(_in_order),
    "rev": _by_numpy(lambda array, params, shape: np.flip(array, params["dimensions"])),
    "slice": _by_numpy(_slice),
    "squeeze": _by_numpy(_reshape),
    "transpose": _by_numpy(lambda array, params, shape: array.transpose(params["permutation"])),
    "concatenate": lambda reader, eqn, args: [np.concatenate(args, axis=eqn.params["dimension"])],
    "stack": lambda reader, eqn, args: [np.stack(args, axis=eqn.params["axis"])],
}
"""Rules (reader, equation, operands as node numbers) -> node numbers of the results, or None."""


def _moved_by_jax(reader, eqn, args):
    out = eqn.primitive.bind(*map(jnp.asarray, args), **eqn.params)
    return [np.asarray(o) for o in (out if eqn.primitive.multiple_results else [out])]


def _at_constant_places(reader, eqn, args):
    """Moves to and from places; as in JAX, a slice too near to the end is moved back, a gather outside is a number."""
    moves = [v.aval.dtype == eqn.outvars[0].aval.dtype for v in eqn.invars]
    if not all(move or reader._is_constant(a) for a, move in zip(args, moves, strict=True)):
        return None
    if eqn.outvars[0].aval.dtype != np.float64:
        return None
    operands = [a if m else reader._concrete(a, v.aval) for a, v, m in zip(args, eqn.invars, moves, strict=True)]
    array, *places = operands
    if eqn.primitive.name == "dynamic_slice":
        sizes = eqn.params["slice_sizes"]
        starts = [min(max(int(p), 0), n - size) for p, n, size in zip(places, array.shape, sizes, strict=True)]
        return [array[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]]
    params = dict(eqn.params)
    if "fill_value" in params:
        params["fill_value"] = -1  # not a node
    moved = np.asarray(eqn.primitive.bind(*map(jnp.asarray, operands), **params))
    return None if (moved < 0).any() else [moved]


def _elementwise(reader, eqn, args):
    name, code, params = eqn.primitive.name, eqn.primitive, eqn.params
    args = np.broadcast_arrays(*args)
    entries = zip(*(map(int, np.ravel(a)) for a in args), strict=True)
    if eqn.outvars[0].aval.dtype == np.float64:
        flat = [reader.make(name, entry, code, params) for entry in entries]
    else:
        flat = [reader.plain(name, entry, code, params, real=False) for entry in entries]
    return [np.array(flat, dtype=np.int64).reshape(args[0].shape)]


def _reduction(reader, eqn, args):
    if eqn.outvars[0].aval.dtype != np.float64 or not args[0].size:
        return None
    return [reader.reduced(args[0], eqn.params["axes"], vocabulary.REDUCTIONS[eqn.primitive.name])]


def _dot(reader, eqn, args):
    a, b = args
    if any(v.aval.dtype != np.float64 for v in (*eqn.invars, *eqn.outvars)) or not a.size * b.size:
        return None
    (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    free_a = [k for k in range(a.ndim) if k not in (*contract_a, *batch_a)]
    free_b = [k for k in range(b.ndim) if k not in (*contract_b, *batch_b)]
    shape = [a.shape[k] for k in (*batch_a, *free_a)] + [b.shape[k] for k in free_b]
    batch = int(np.prod([a.shape[k] for k in batch_a]))
    depth = int(np.prod([a.shape[k] for k in contract_a]))
    a = a.transpose(*batch_a, *free_a, *contract_a).reshape(batch, -1, 1, depth)
    b = b.transpose(*batch_b, *free_b, *contract_b).reshape(batch, 1, -1, depth)
    products = reader.pairwise("mul", *np.broadcast_arrays(a, b))
    return [reader.reduced(products, (3,), "add").reshape(shape)]


def _sums_of_entries(reader, eqn, args):
    """A sum whose places are constants: the entries that go to each, from what the operation makes of each alone."""
    direct = lambda *values: eqn.primitive.bind(*values, **eqn.params)
    values = [v.aval.dtype == np.float64 for v in eqn.invars]
    if not all(value or reader._is_constant(a) for a, value in zip(args, values, strict=True)):
        return None
    still = [
        jnp.zeros(v.aval.shape) if value else reader._concrete(a, v.aval)
        for a, v, value in zip(args, eqn.invars, values, strict=True)
    ]
    shape = eqn.outvars[0].aval.shape
    total = np.full(shape, reader.number(0.0))
    for k in (k for k, value in enumerate(values) if value):
        units = jnp.eye(args[k].size).reshape(-1, *args[k].shape)
        images = np.asarray(jax.vmap(lambda u, k=k: direct(*still[:k], u, *still[k + 1 :]))(units))
        for element, image in zip(np.ravel(args[k]), images, strict=True):
            for place in zip(*np.nonzero(image), strict=True):
                total[place] = reader.sum(int(total[place]), int(element))
    return [total]


_RULES: dict[str, Callable] = {
    **dict.fromkeys(vocabulary.ELEMENTWISE, _elementwise),
    **dict.fromkeys(vocabulary.ALIASES, lambda reader, eqn, args: args),
    **dict.fromkeys(vocabulary.LOOK_UPS, _at_constant_places),
    **dict.fromkeys(vocabulary.REDUCTIONS, _reduction),
    **dict.fromkeys("pad split tile unstack".split(), _moved_by_jax),
    **dict.fromkeys(["dynamic_update_slice", "scatter"], _at_constant_places),
    **dict.fromkeys(["cumsum", "reduce_window_sum", "scatter-add"], _sums_of_entries),
    "dot_general": _dot,
}
