"""Nodes of scalar code as they are made, equal ones once, and the rules that make them fewer.

A rule takes (nodes, operands, params) and gives the number of the node that the operation on real numbers amounts to,
or None where nothing can be said. There are three sets:

NONE     nothing is changed: formulas are shown as they were written.
ENTRIES  x / y becomes x * (1 / y), which leaves one division where a derivative has several (XLA keeps them all).
POINT    also what a functional of equal spins does not need, x - x and 0 * y, before derivatives are formed, and
         numbers are collected: (a x) (b y) becomes (a b) (x y).

`regrouped` is for code that runs on vectors. The order in which a derivative comes out is not the one in which it is
computed best. Every value is held as a product c u_1 u_2 ... v_1 v_2 ...: a number, factors that are the same for a
whole vector, and vectors. Products only collect factors, sums take common factors out, and a product is carried out
where another operation needs it: first the uniform factors, which cost nothing per element. For VV10 this halves the
time per pair, as fewer intermediate vectors remain.

`is_symmetric` proves that scalar code keeps its value when inputs are exchanged. Every expression gets a normal form: a
number times a product of powers, or a number times a sum, of normal forms. Sums and products are sorted, so a + b and b
+ a, (r - s)^2 and (s - r)^2 have the same one. If the code and the code with exchanged inputs have the same normal
form, they are equal: a proof, while unequal forms prove nothing.
"""

import functools
import math
import operator
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import jax
import numpy as np

from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate


class Nodes:
    """Nodes under construction, simplified by a set of rules.   fold: whether numbers may be rounded as they meet."""

    def __init__(self, rules: dict, fold: bool = True):
        self.rules, self.fold = rules, fold
        self.nodes: list[Node] = []
        self._known: dict[tuple, int] = {}

    def intern(self, node: Node) -> int:
        """The number of a node, the same for the same operation on the same operands."""
        key = (node.kind, node.args)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return self._known[key]

    def make(self, op: str, args, code=None, params=None) -> int:
        """The node of an operation on real numbers, simplified."""
        args, params = tuple(args), dict(params or {})
        rule = self.rules.get(op)
        found = rule(self, args, params) if rule else None
        return self.plain(op, args, code, params) if found is None else found

    def plain(self, op: str, args, code=None, params=None, real: bool = True) -> int:
        """The node of an operation as it is."""
        return self.intern(Node(op, tuple(args), None, code or getattr(jax.lax, f"{op}_p"), dict(params or {}), real))

    def number(self, value) -> int:
        return self.intern(Node("const", value=np.float64(value)))

    def product(self, i: int, j: int) -> int:
        return self.make("mul", (i, j))

    def sum(self, i: int, j: int) -> int:
        return self.make("add", (i, j))

    def reciprocal(self, i: int) -> int:
        return self.rules["reciprocal"](self, i)

    def is_value(self, i: int, number) -> bool:
        node = self.nodes[i]
        return node.op == "const" and node.value == number

    def joined(self, operation, *numbers) -> float | None:
        """What an operation makes of numbers; None where that is rounded and may not be."""
        with np.errstate(all="ignore"):
            value = float(operation(*map(np.float64, numbers)))
        finite = np.isfinite([value, *numbers]).all()
        if self.fold or (finite and operation(*map(Fraction, numbers)) == Fraction(value)):
            return value
        return None

    def factor(self, i: int) -> tuple[float, int | None]:
        """(number, node or None): i is their product."""
        node = self.nodes[i]
        if node.op == "const":
            return float(node.value), None
        if node.op == "mul":
            for k in (0, 1):
                if self.nodes[node.args[k]].op == "const":
                    return float(self.nodes[node.args[k]].value), node.args[1 - k]
        return 1.0, i


# ---- entries


def _quotient(n, args, params):
    return None if n.is_value(args[0], 1) else n.product(args[0], n.reciprocal(args[1]))


def _reciprocal(n, i):
    node = n.nodes[i]
    number = n.joined(operator.truediv, 1.0, node.value) if node.op == "const" else None
    return n.plain("div", (n.number(1.0), i)) if number is None else n.number(number)


def _natural_power(n, args, params):
    if params["y"] >= 0:
        return None
    one_over = n.reciprocal(args[0])
    return one_over if params["y"] == -1 else n.plain("integer_pow", (one_over,), params={**params, "y": -params["y"]})


def _product(n, args, params):
    i, j = args
    if n.is_value(i, 1):
        return j
    return i if n.is_value(j, 1) else n.plain("mul", sorted((i, j)))


def _sum(n, args, params):
    i, j = args
    if n.is_value(i, 0):
        return j
    return i if n.is_value(j, 0) else n.plain("add", sorted((i, j)))


NONE: dict = {}
ENTRIES = {
    "div": _quotient,
    "integer_pow": _natural_power,
    "mul": _product,
    "add": _sum,
    "add_any": _sum,
    "reciprocal": _reciprocal,
}

# ---- point


def _difference(n, args, params):
    if args[0] == args[1]:
        return n.number(0.0)
    return args[0] if n.is_value(args[1], 0) else None


def _small_power(n, args, params):
    if params["y"] in (1, 2):
        return args[0] if params["y"] == 1 else n.product(args[0], args[0])
    return _natural_power(n, args, params)


def _negative(n, args, params):
    node = n.nodes[args[0]]
    return n.number(-node.value) if node.op == "const" else None


def _selection(n, args, params):
    """where(p, c, a x) with numbers a and c becomes a where(p, c / a, x), so that a floor under x / 2 is seen."""
    predicate, *branches = args
    if len(set(branches)) == 1:
        return branches[0]
    if n.nodes[predicate].op == "const":
        return branches[int(n.nodes[predicate].value)]
    factors = [n.factor(b) for b in branches]
    scale = next((a for a, x in factors if x is not None), 1.0)
    if scale in (0, 1) or sum(x is None for _, x in factors) != len(branches) - 1:
        return None
    numbers = [n.joined(operator.truediv, a, scale) for a, _ in factors]
    if not all(a == 0 or _is_ordinary(c) for (a, _), c in zip(factors, numbers, strict=True)):
        return None
    scaled = [n.number(c) if x is None else x for (_, x), c in zip(factors, numbers, strict=True)]
    return n.product(n.number(scale), n.plain("select_n", (predicate, *scaled), params=params))


def _collected_product(n, args, params):
    """i * j with the numbers in front: (a x) (b y) becomes (a b) (x y)."""
    i, j = args
    (a, x), (b, y) = n.factor(i), n.factor(j)
    if a == 0 or b == 0:
        return n.number(0.0)
    number = n.joined(operator.mul, a, b)
    if not _is_ordinary(number):  # two numbers whose product overflows stay apart
        return _product(n, args, params)
    rest = y if x is None else x if y is None else _product_of_variables(n, x, y)
    if rest is None:
        return n.number(number)
    c, rest = n.factor(rest)
    number = n.joined(operator.mul, number, c)
    if number is None:
        return _product(n, args, params)
    if rest is None:
        return n.number(number)
    return rest if number == 1 else _product(n, (n.number(number), rest), params)


def _product_of_variables(n, i, j):
    for x, y in ((i, j), (j, i)):
        if n.nodes[y].op == "div" and n.nodes[y].args[1] == x:
            return n.number(n.nodes[n.nodes[y].args[0]].value)
    return _product(n, (i, j), {})


def _collected_reciprocal(n, i):
    number, rest = n.factor(i)
    over = None if rest is None or number in (0.0, 1.0) else n.joined(operator.truediv, 1.0, number)
    if rest is None or not _is_ordinary(over):
        return _reciprocal(n, i)
    return n.product(n.number(over), _reciprocal(n, rest))


def _collected_sum(n, args, params):
    a, b = (n.nodes[i] for i in args)
    number = n.joined(operator.add, a.value, b.value) if a.op == "const" and b.op == "const" else None
    if number is not None:
        return n.number(number)
    return n.product(n.number(2.0), args[0]) if args[0] == args[1] else _sum(n, args, params)


def _is_ordinary(number: float | None) -> bool:
    """True for a number that is neither rounded to zero nor infinite."""
    return number is not None and sys.float_info.min <= abs(number) <= sys.float_info.max


POINT = {
    "div": lambda n, args, params: n.product(args[0], n.reciprocal(args[1])),
    "sub": _difference,
    "integer_pow": _small_power,
    "square": lambda n, args, params: n.product(args[0], args[0]),
    "neg": _negative,
    "select_n": _selection,
    "max": lambda n, args, params: args[0] if args[0] == args[1] else None,
    "min": lambda n, args, params: args[0] if args[0] == args[1] else None,
    "mul": _collected_product,
    "add": _collected_sum,
    "add_any": _collected_sum,
    "reciprocal": _collected_reciprocal,
}


_SIGNS = {"add": (1.0, 1.0), "sub": (1.0, -1.0)}


def regrouped(program: ScalarProgram, uniform) -> ScalarProgram:
    """An equal program up to rounding; inputs at positions `uniform` are the same for all elements of the vectors."""
    products, uniform = Products(), frozenset(uniform)
    inputs = [products.factor(Node("input", value=k), k in uniform) for k in range(program.n_inputs)]
    outputs = tuple(map(products.formed, evaluate(program, products, inputs)))
    return ScalarProgram(tuple(products.build.nodes), outputs, program.n_inputs)


class Products:
    """Scalars (number, uniform factors, vector factors); factors are sorted numbers of nodes of the new program."""

    def __init__(self):
        self.build = Nodes(ENTRIES)

    def factor(self, node, uniform: bool):
        """A node of the new program as a factor."""
        number = (self.build.intern(node),)
        return (1.0, number, ()) if uniform else (1.0, (), number)

    def constant(self, value):
        if value.dtype == np.float64 and value != 0 and np.isfinite(value):
            return float(value), (), ()
        return self.factor(Node("const", value=value), uniform=True)

    def apply(self, node, args):
        if node.real and node.op == "mul":
            (c, u, v), (d, s, w) = args
            return c * d, _sorted(u, s), _sorted(v, w)
        if node.real and node.op == "neg":
            return -args[0][0], *args[0][1:]
        if node.real and node.op in _SIGNS:
            return self._sum(node, *args)
        uniform = not any(v for _, _, v in args)
        return self.factor(replace(node, args=tuple(map(self.formed, args))), uniform)

    def _sum(self, node, a, b):
        (c, u, v), (d, s, w) = a, b
        d = d * _SIGNS[node.op][1]
        same_u, same_v = _common(u, s), _common(v, w)
        size = abs(c) if abs(c) == abs(d) else 1.0
        sign = -1.0 if size == abs(c) and c < 0 else 1.0  # one minus sign is left inside at most
        left = (c * sign / size, _without(u, same_u), _without(v, same_v))
        right = (d * sign / size, _without(s, same_u), _without(w, same_v))
        c, u, v = self._plain_sum(left, right)
        return c * sign * size, _sorted(u, same_u), _sorted(v, same_v)

    def _plain_sum(self, a, b):
        uniform = not (a[2] or b[2])
        if a[0] == 1.0 and b[0] == -1.0:
            args = self.formed(a), self.formed((1.0, *b[1:]))
            number = self.build.plain("sub", args)
        else:
            number = self.build.sum(self.formed(a), self.formed(b))
        return (1.0, (number,), ()) if uniform else (1.0, (), (number,))

    def formed(self, value) -> int:
        """The number of the node that holds the product."""
        coefficient, uniform, vectors = value
        first = [self.build.number(coefficient)] if coefficient != 1.0 or not (uniform or vectors) else []
        groups = [functools.reduce(self.build.product, group) for group in ([*first, *uniform], vectors) if group]
        return functools.reduce(self.build.product, groups)


def _sorted(a, b):
    return tuple(sorted(a + b))


def _common(a, b):
    return tuple((Counter(a) & Counter(b)).elements())


def _without(a, removed):
    return tuple(sorted((Counter(a) - Counter(removed)).elements()))


_COMMUTATIVE = frozenset("add mul max min and or xor eq ne".split())


def is_symmetric(program: ScalarProgram, partners) -> bool:
    """True if the outputs are proven to stay the same when input i becomes input partners[i], for all i."""
    forms = Forms()
    variables = [(1.0, forms.core("input", k)) for k in range(program.n_inputs)]
    as_given, exchanged = (evaluate(program, forms, x) for x in (variables, [variables[k] for k in partners]))
    return [(_rounded(c), core) for c, core in as_given] == [(_rounded(c), core) for c, core in exchanged]


class Forms:
    """Scalars are normal forms (coefficient, number of the core); cores are numbered as they are met."""

    def __init__(self):
        self._numbers: dict[tuple, int] = {}
        self._cores: list[tuple] = []

    def core(self, *key) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._cores)
            self._cores.append(key)
        return self._numbers[key]

    def constant(self, value):
        if value.dtype.kind == "f" and value != 0 and math.isfinite(value):
            return float(value), self.core("product", ())
        return 1.0, self.core("const", value.dtype.str, value.tobytes())

    def apply(self, node, args):
        if not node.real:
            return self._opaque(node, args)
        if node.op in ("add", "add_any", "sub", "neg"):
            signs = (1.0, -1.0) if node.op == "sub" else (-1.0,) if node.op == "neg" else (1.0, 1.0)
            return self._sum([(sign * c, core) for sign, (c, core) in zip(signs, args, strict=True)])
        powers = {"mul": (1, 1), "div": (1, -1), "square": (2,)}.get(node.op)
        if node.op == "integer_pow":
            powers = (node.params["y"],)
        if powers is not None:
            return self._product(args, powers)
        if node.op == "abs":
            return abs(args[0][0]), self.core("abs", args[0][1])
        return self._opaque(node, args)

    def _opaque(self, node, args):
        forms = [(_rounded(c), core) for c, core in args]
        if node.op in _COMMUTATIVE:
            forms = sorted(forms)
        return 1.0, self.core("operation", node.kind, tuple(forms))

    def _sum(self, terms):
        total: Counter = Counter()
        for c, core in terms:
            if self._cores[core][0] == "sum":
                for inner, part in self._cores[core][1]:
                    total[inner] += c * part
            else:
                total[core] += c
        parts = sorted((core, c) for core, c in total.items() if c != 0)
        if len(parts) == 1:
            return parts[0][1], parts[0][0]
        sign = -1.0 if parts and parts[0][1] < 0 else 1.0
        return sign, self.core("sum", tuple((core, _rounded(sign * c)) for core, c in parts))

    def _product(self, factors, powers):
        coefficient, total = 1.0, Counter[int]()
        for (c, core), power in zip(factors, powers, strict=True):
            coefficient *= c**power
            if self._cores[core][0] == "product":
                for inner, inner_power in self._cores[core][1]:
                    total[inner] += power * inner_power
            else:
                total[core] += power
        parts = tuple(sorted((core, p) for core, p in total.items() if p != 0))
        if len(parts) == 1 and parts[0][1] == 1:
            return coefficient, parts[0][0]
        return coefficient, self.core("product", parts)


def _rounded(c: float) -> float:
    """c to 13 digits: products of the same numbers in another order differ in the last one."""
    return float(f"{c:.12e}")
