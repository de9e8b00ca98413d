"""Pointwise code as straight-line scalar code, before and after differentiation.

`point_program(code, *specs)` takes code on small arrays apart into scalars. What a functional of equal spins does not
need (x - x, 0 * y) disappears here, before derivatives are formed. Functions with a derivative rule of their own, and
loops, stay whole: a node `call` that takes scalars and gives arrays, and nodes `entry` that pick from them. So JAX can
differentiate the program. `inline=True` opens functions with derivative rules too, for code that is final.

A program runs on numbers, or on arrays `(point,)` of equal length, one operation after the other on all points.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.keys import NoKey, equation_code, equation_key, operands_of
from dftfd.autofd.scalars import Node, ScalarProgram, Table, _Builder
from dftfd.errors import UnsupportedError

_WHOLE = frozenset(
    {"stop_gradient", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "while", "scan", "cond"}
)
_LOOPS = frozenset({"while", "scan", "cond"})
_ON_NUMBERS = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "sqrt": np.sqrt, "abs": np.abs, "max": np.maximum, "min": np.minimum, "square": np.square,
    "gt": np.greater, "lt": np.less, "ge": np.greater_equal, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert, "sign": np.sign, "convert_element_type": np.asarray,
    "rem": np.fmod, "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "select_n": lambda which, *cases: np.choose(which, cases),
}  # fmt: skip

_NUMBERS = itertools.count()
_CODES = {"add": jax.lax.add, "mul": jax.lax.mul, "div": jax.lax.div, "max": jax.lax.max, "min": jax.lax.min}


def point_program(code, *specs, inline: bool = False) -> ScalarProgram:
    """The scalar program of code on arrays of these shapes; outputs in the order of the flattened result."""
    closed = jax.make_jaxpr(code)(*specs)
    build = _PointBuilder(inline)
    arguments, numbers = [], itertools.count()
    for leaf in jax.tree_util.tree_leaves(specs):
        ids = [build.intern(Node("input", value=next(numbers))) for _ in range(int(np.prod(leaf.shape)))]
        arguments.append(np.array(ids, dtype=np.int64).reshape(leaf.shape))
    with jax.ensure_compile_time_eval():
        results = build.run(closed.jaxpr, closed.consts, arguments)
    return ScalarProgram(tuple(build.nodes), tuple(int(i) for r in results for i in np.ravel(r)), next(numbers))


def with_gradient(program: ScalarProgram, count: int | None = None, inline: bool = False) -> ScalarProgram:
    """Program of (value, derivatives with respect to the first `count` inputs) from the program of one value."""
    count = program.n_inputs if count is None else count

    def code(*inputs):
        moving, still = inputs[:count], inputs[count:]
        value, pull = jax.vjp(lambda *x: run(program, [*x, *still])[0], *moving)
        return value, *pull(jnp.ones_like(value))

    return point_program(code, *[jax.ShapeDtypeStruct((), np.float64)] * program.n_inputs, inline=inline)


def run(program: ScalarProgram, inputs) -> list:
    """Outputs of a program on numbers, or on arrays (point,), as such."""
    shape = jnp.shape(inputs[0])
    values = {}
    for i in program.needed:
        node = program.nodes[i]
        args = [values[a] for a in node.args]
        if node.op == "input":
            values[i] = inputs[node.value]
        elif node.op == "const":
            values[i] = jnp.full(shape, node.value)
        elif node.op in ("call", "entry", "look up") and shape:
            values[i] = jax.vmap(lambda *a, node=node: node.primitive.bind(*a, **node.params))(*args)
        elif node.op in _CODES:
            values[i] = _CODES[node.op](*args)
        else:
            values[i] = node.primitive.bind(*args, **node.params)
    return [values[i] for i in program.outputs]


def _is_ordinary(number: float) -> bool:
    """True for a number that is neither rounded to zero nor infinite."""
    return np.finfo(np.float64).tiny <= abs(number) <= np.finfo(np.float64).max


class _Whole:
    """An equation that is carried out as it stands, on scalars; its results as flat arrays."""

    def __init__(self, eqn):
        self.eqn, self.inputs, self.code = eqn, operands_of(eqn), equation_code(eqn)

    @functools.cached_property
    def key(self):
        """Equal for equal equations; a new number where an equation has no exact key."""
        try:
            return equation_key(self.eqn)
        except NoKey:
            return next(_NUMBERS)

    @functools.cached_property
    def on_points(self):
        """Code of arrays (point,), compiled."""
        return jax.jit(jax.vmap(self.bind))

    def bind(self, *scalars):
        scalars, arrays = iter(scalars), []
        for v in self.inputs:
            entries = list(itertools.islice(scalars, int(np.prod(v.aval.shape))))
            arrays.append(jnp.stack(entries).reshape(v.aval.shape) if v.aval.shape else entries[0])
        return tuple(jnp.ravel(out) for out in self.code(*arrays))


class _Entry:
    """One entry of one result of a whole equation."""

    @staticmethod
    def bind(results, result, index):
        return results[result][index]


class _PointBuilder(_Builder):
    """The scalar builder, with whole equations and a few more simplifications."""

    def __init__(self, inline):
        super().__init__()
        self.whole = _LOOPS if inline else _WHOLE

    def _equation(self, eqn, args):
        name = eqn.primitive.name
        if any(isinstance(a, Table) for a in args):
            return super()._equation(eqn, args)
        constant = all(map(self._is_constant, args))
        if name in self.whole and not constant:
            return self._kept_whole(eqn, args)
        if constant and name in _ON_NUMBERS:
            values = [self._concrete(a, v.aval) for a, v in zip(args, eqn.invars, strict=True)]
            with np.errstate(all="ignore"):
                return [self.constants(np.asarray(_ON_NUMBERS[name](*values), dtype=eqn.outvars[0].aval.dtype))]
        try:
            return super()._equation(eqn, args)
        except UnsupportedError:
            return self._kept_whole(eqn, args)

    def _kept_whole(self, eqn, args):
        block = _Whole(eqn)
        by_variable = dict(zip((id(v) for v in eqn.invars), args, strict=True))
        scalars = tuple(int(i) for v in block.inputs for i in np.ravel(by_variable[id(v)]))
        call = self.intern(Node("call", scalars, block.key, block))
        return [self._entries(call, k, v.aval) for k, v in enumerate(eqn.outvars)]

    def _entries(self, call, result, aval):
        """Numbers of the nodes that pick the entries of one result of a whole equation."""
        entry = lambda k: Node("entry", (call,), None, _Entry, {"result": result, "index": k}, aval.dtype == np.float64)
        ids = [self.intern(entry(k)) for k in range(int(np.prod(aval.shape)))]
        return np.array(ids, dtype=np.int64).reshape(aval.shape)

    def _scalar(self, name, primitive, params, args):
        if name == "div":
            return self.product(args[0], self.reciprocal(args[1], primitive))
        if name == "sub":
            if args[0] == args[1]:
                return self.number(0.0)
            if self._is_value(args[1], 0):
                return args[0]
        if name == "integer_pow" and params["y"] in (1, 2):
            return args[0] if params["y"] == 1 else self.product(args[0], args[0])
        if name == "square":
            return self.product(args[0], args[0])
        if name == "neg" and self.nodes[args[0]].op == "const":
            return self.number(-self.nodes[args[0]].value)
        if name == "select_n" and len(set(args[1:])) == 1:
            return args[1]
        if name == "select_n" and self.nodes[args[0]].op == "const":
            return args[1 + int(self.nodes[args[0]].value)]
        if name == "select_n":
            return self._selection(primitive, params, args)
        if name in ("max", "min") and args[0] == args[1]:
            return args[0]
        return super()._scalar(name, primitive, params, args)

    def _selection(self, primitive, params, args):
        """where(p, c, a x) with numbers a and c becomes a where(p, c / a, x), so that a floor under x / 2 is seen."""
        predicate, *branches = args
        factors = [self._factor(b) for b in branches]
        scale = next((a for a, x in factors if x is not None), 1.0)
        ordinary = all(a == 0 or _is_ordinary(a / scale) for a, _ in factors)
        if ordinary and scale != 1 and sum(x is None for _, x in factors) == len(branches) - 1:
            scaled = [self.number(a / scale) if x is None else x for a, x in factors]
            chosen = self._plain("select_n", primitive, params, (predicate, *scaled))
            return self.product(self.number(scale), chosen)
        return self._plain("select_n", primitive, params, args)

    def number(self, value) -> int:
        return self.intern(Node("const", value=np.float64(value)))

    def product(self, i, j):
        """i * j with the numbers in front: (a x) (b y) becomes (a b) (x y)."""
        (a, x), (b, y) = self._factor(i), self._factor(j)
        if a == 0 or b == 0:
            return self.number(0.0)
        if not _is_ordinary(a * b):  # two numbers whose product overflows stay apart
            return super().product(i, j)
        rest = y if x is None else x if y is None else self._product_of_variables(x, y)
        if rest is None:
            return self.number(a * b)
        c, rest = self._factor(rest)
        if rest is None:
            return self.number(a * b * c)
        return rest if a * b * c == 1 else super().product(self.number(a * b * c), rest)

    def _factor(self, i):
        """(number, node or None): i is their product."""
        node = self.nodes[i]
        if node.op == "const":
            return float(node.value), None
        if node.op == "mul":
            for k in (0, 1):
                if self.nodes[node.args[k]].op == "const":
                    return float(self.nodes[node.args[k]].value), node.args[1 - k]
        return 1.0, i

    def _product_of_variables(self, i, j):
        for x, y in ((i, j), (j, i)):
            if self.nodes[y].op == "div" and self.nodes[y].args[1] == x:
                return self.number(self.nodes[self.nodes[y].args[0]].value)
        return super().product(i, j)

    def reciprocal(self, i, primitive):
        number, rest = self._factor(i)
        if rest is None or number in (0.0, 1.0) or not _is_ordinary(1.0 / number):
            return super().reciprocal(i, primitive)
        return self.product(self.number(1.0 / number), super().reciprocal(rest, primitive))

    def sum(self, i, j):
        a, b = self.nodes[i], self.nodes[j]
        if a.op == "const" and b.op == "const":
            return self.number(a.value + b.value)
        return self.product(self.number(2.0), i) if i == j else super().sum(i, j)
