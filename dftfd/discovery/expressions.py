"""Formulas as trees of dimensionless ingredients, in which no value of a parameter can divide by zero.

A tree is a nested tuple, immutable, hashable, and JSON as it stands:

    ("v", name)   an ingredient                       ("n", x)   a number of the formula's
    ("c", x)      a parameter of either sign          ("p", x)   a positive parameter; x is its present value
    ("+", a, ...), ("*", a, ...), ("^", a, k)         sums, products, integer powers k >= 2
    (f, a)        a function of FUNCTIONS, of an argument that cannot be negative

`is_valid` decides by structure alone: arguments of functions are sums and products of what is never negative, so every
function is smooth and finite, whatever a fit does with the parameters.
"""

import ast
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dftfd.errors import InputError, shown

Tree = tuple


class Ingredient(NamedTuple):
    """is_nonnegative, vanishes: whether it is never negative, and zero in the uniform gas.   latex: its symbol."""

    is_nonnegative: bool
    vanishes: bool
    latex: str
    meaning: str


INGREDIENTS = {
    "s2": Ingredient(True, True, "s^2", "s^2 = |nabla n|^2 / (2 k_F n)^2"),
    "alpha": Ingredient(True, False, r"\alpha", "alpha = (tau - tau_W) / tau_unif"),
    "d": Ingredient(False, True, "d", "d = (1 - alpha) / (1 + alpha)"),
    "w": Ingredient(False, True, "w", "w = (tau_unif - tau) / (tau_unif + tau)"),
    "rs": Ingredient(True, False, "r_s", "r_s, the Wigner-Seitz radius"),
    "z2": Ingredient(True, False, r"\zeta^2", "z2 = zeta^2, zeta the spin polarisation"),
    "t2": Ingredient(True, True, "t^2", "t2 = |nabla n|^2 / (2 phi k_s n)^2"),
    "y": Ingredient(True, True, "y", "y = A t^2 of PBE correlation"),
}


def _ash(x):
    r = np.sqrt(x)
    return r * np.arcsinh(r)


def _ash_1(x):
    safe = np.where(np.abs(x) < 1e-8, 1e-8, x)
    return 0.5 * (np.arcsinh(np.sqrt(safe)) / np.sqrt(safe) + 1 / np.sqrt(1 + safe))


def _ash_2(x):
    safe = np.where(np.abs(x) < 1e-3, 1e-3, x)
    root = np.sqrt(1 + safe)
    g = np.arcsinh(np.sqrt(safe)) / np.sqrt(safe)
    return np.where(
        np.abs(x) < 1e-3, -1 / 3 + 0.3 * x, 0.5 * ((1 / root - g) / (2 * safe) - 0.5 / (root * root * root))
    )


class Code(NamedTuple):
    """A function of x >= 0 with two derivatives, as Python and as LaTeX.   vanishes: whether f(0) = 0."""

    value: Callable
    slope: Callable
    curvature: Callable
    python: str
    latex: str
    vanishes: bool


FUNCTIONS = {
    "u": Code(lambda x: x / (1 + x), lambda x: (1 + x) ** -2, lambda x: -2 * (1 + x) ** -3, "u({})", r"u({})", True),
    "inv": Code(
        lambda x: 1 / (1 + x),
        lambda x: -((1 + x) ** -2),
        lambda x: 2 * (1 + x) ** -3,
        "1 / (1 + {})",
        r"\frac{{1}}{{1 + {}}}",
        False,
    ),
    "exp": Code(
        lambda x: np.exp(-x),
        lambda x: -np.exp(-x),
        lambda x: np.exp(-x),
        "exp(-({}))",
        r"e^{{-\left({}\right)}}",
        False,
    ),
    "log": Code(
        np.log1p,
        lambda x: 1 / (1 + x),
        lambda x: -((1 + x) ** -2),
        "log1p({})",
        r"\ln\left(1 + {}\right)",
        True,
    ),
    "sqrt": Code(
        lambda x: np.sqrt(1 + x),
        lambda x: 0.5 / np.sqrt(1 + x),
        lambda x: -0.25 * (1 + x) ** -1.5,
        "sqrt(1 + {})",
        r"\sqrt{{1 + {}}}",
        False,
    ),
    "ash": Code(_ash, _ash_1, _ash_2, "x_asinh_x({})", r"\operatorname{{ash}}\left({}\right)", True),
}
"""u = x / (1 + x), inv = 1 / (1 + x), exp(-x), log(1 + x), sqrt(1 + x), ash = x^(1/2) asinh(x^(1/2))."""

LEAVES, PARAMETERS = ("v", "n", "c", "p"), ("c", "p")


def children(tree: Tree) -> tuple[Tree, ...]:
    """The trees below."""
    head = tree[0]
    return () if head in LEAVES else tree[1:2] if head == "^" else tree[1:]


def rebuilt(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """The tree with other children."""
    head = tree[0]
    return tree if head in LEAVES else (head, *parts, tree[2]) if head == "^" else (head, *parts)


def nodes(tree: Tree) -> Iterator[Tree]:
    """The tree and all below, in the order in which parameters are counted."""
    yield tree
    for part in children(tree):
        yield from nodes(part)


def parameters(tree: Tree) -> list[float]:
    """Values in their order."""
    return [node[1] for node in nodes(tree) if node[0] in PARAMETERS]


def signs(tree: Tree) -> list[str]:
    """'c' or 'p' of each parameter."""
    return [node[0] for node in nodes(tree) if node[0] in PARAMETERS]


def with_parameters(tree: Tree, values: Sequence[float]) -> Tree:
    """The tree with other values."""
    left = iter(values)

    def walk(node):
        if node[0] in PARAMETERS:
            return node[0], float(next(left))
        return rebuilt(node, [walk(part) for part in children(node)])

    return walk(tree)


@lru_cache(maxsize=200_000)
def skeleton(tree: Tree) -> str:
    """The formula without its parameters' values, as text."""
    if tree[0] in PARAMETERS:
        return tree[0]
    if tree[0] in LEAVES:
        return str(tree[1])
    power = str(tree[2]) if tree[0] == "^" else ""
    return f"{tree[0]}{power}({','.join(map(skeleton, children(tree)))})"


def complexity(tree: Tree) -> int:
    """Operations, ingredients and parameters."""
    own = max(1, len(tree) - 2) if tree[0] in "+*" else 1
    return own + sum(map(complexity, children(tree)))


@lru_cache(maxsize=200_000)
def is_nonnegative(tree: Tree) -> bool:
    """Whether its structure says that it is never negative."""
    head = tree[0]
    if head == "v":
        return INGREDIENTS[tree[1]].is_nonnegative
    if head in ("n", "c"):
        return head == "n" and tree[1] >= 0
    if head == "^" and tree[2] % 2 == 0:
        return True
    return head == "p" or all(map(is_nonnegative, children(tree)))


@lru_cache(maxsize=200_000)
def vanishes(tree: Tree) -> bool:
    """Whether its structure says that it is zero in the uniform gas."""
    head, parts = tree[0], children(tree)
    if head == "v":
        return INGREDIENTS[tree[1]].vanishes
    if head in LEAVES:
        return False
    if head == "*":
        return any(map(vanishes, parts))
    return all(map(vanishes, parts)) and (head in "+^" or FUNCTIONS[head].vanishes)


def is_valid(tree: Tree, ingredients: Sequence[str]) -> bool:
    """Whether it is a hole: zero in the uniform gas, of these ingredients, with functions of what is not negative."""
    allowed = all(node[0] != "v" or node[1] in ingredients for node in nodes(tree))
    return allowed and vanishes(tree) and all(is_nonnegative(n[1]) for n in nodes(tree) if n[0] in FUNCTIONS)


# ---- values.


def value(tree: Tree, at: Mapping[str, Any], functions: Mapping[str, Callable], values: Iterator | None = None) -> Any:
    """The formula in any arithmetic.

    at: ingredients.   functions: those of FUNCTIONS by name.   values: parameters in their order, in place of the
    tree's own.
    """
    head = tree[0]
    if head == "v":
        return at[tree[1]]
    if head in LEAVES:
        return tree[1] if values is None or head == "n" else next(values)
    parts = [value(part, at, functions, values) for part in children(tree)]
    if head == "^":
        return parts[0] ** tree[2]
    if head in FUNCTIONS:
        return functions[head](parts[0])
    total = parts[0]
    for part in parts[1:]:
        total = total + part if head == "+" else total * part
    return total


NUMPY = {name: code.value for name, code in FUNCTIONS.items()}


def at_points(tree: Tree, at: Mapping[str, np.ndarray]) -> np.ndarray:
    """The formula at points in NumPy."""
    return value(tree, at, NUMPY)


def with_slopes(tree: Tree, at: Mapping[str, np.ndarray], weight) -> tuple[Any, list]:
    """(value, [weight times derivative by each parameter]) at points, by one pass upwards and one downwards.

    Both are numbers where they are the same everywhere.
    """
    graph = _upwards(tree, at)
    found: list = []
    _downwards(tree, graph, weight, found)
    return graph[0], found


def _upwards(tree, at):
    """(value, graphs of the children)."""
    head = tree[0]
    if head in LEAVES:
        return (at[tree[1]] if head == "v" else tree[1]), ()
    below = [_upwards(part, at) for part in children(tree)]
    first = below[0][0]
    if head == "^":
        return _power(first, tree[2]), below
    if head in FUNCTIONS:
        return FUNCTIONS[head].value(first), below
    total = first
    for other, _ in below[1:]:
        total = total + other if head == "+" else total * other
    return total, below


def _power(x, k):
    return x * x if k == 2 else x**k


@lru_cache(maxsize=200_000)
def _has_parameters(tree):
    return tree[0] in PARAMETERS or any(map(_has_parameters, children(tree)))


def _downwards(tree, graph, weight, found):
    head, below = tree[0], graph[1]
    if head in PARAMETERS:
        found.append(weight)
    if not below or not _has_parameters(tree):
        return
    for k, part in enumerate(children(tree)):
        if not _has_parameters(part):
            continue
        factor = weight
        if head == "*":
            for j, (other, _) in enumerate(below):
                factor = factor * other if j != k else factor
        elif head == "^":
            factor = weight * (tree[2] * _power(below[0][0], tree[2] - 1) if tree[2] > 2 else 2 * below[0][0])
        elif head in FUNCTIONS:
            factor = weight * FUNCTIONS[head].slope(below[0][0])
        _downwards(part, below[k], factor, found)


class Series(NamedTuple):
    """f(t) to second order: value, first, and second Taylor coefficient, real or complex arrays."""

    f: Any
    d: Any = 0.0
    h: Any = 0.0
    __array_ufunc__ = None  # NumPy's numbers leave sums and products to the series

    def __add__(self, other):
        o = _series(other)
        return Series(self.f + o.f, self.d + o.d, self.h + o.h)

    def __mul__(self, other):
        o = _series(other)
        return Series(self.f * o.f, self.f * o.d + self.d * o.f, self.f * o.h + self.d * o.d + self.h * o.f)

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, k):
        total = self
        for _ in range(k - 1):
            total = total * self
        return total

    def of(self, f, f1, f2):
        """A function with two derivatives of it."""
        slope = f1(self.f)
        return Series(f(self.f), slope * self.d, slope * self.h + 0.5 * f2(self.f) * self.d * self.d)


def _series(x) -> Series:
    return x if isinstance(x, Series) else Series(x)


SERIES = {name: (lambda x, c=code: _series(x).of(*c[:3])) for name, code in FUNCTIONS.items()}


# ---- equal is found equal.


def canonical(tree: Tree) -> Tree:
    """The same function in the form that equal ones share: flat, sorted, with parameters and powers collected."""
    for _ in range(8):
        simpler = _simplified(tree)
        if simpler == tree:
            break
        tree = simpler
    return tree


def _order(tree):
    return tree[0] not in (*PARAMETERS, "n"), skeleton(tree), repr(tree)


def _simplified(tree):
    head = tree[0]
    if head in LEAVES:
        return tree
    parts = [_simplified(part) for part in children(tree)]
    if head == "^":
        return _as_power(parts[0], tree[2])
    if head in FUNCTIONS:
        if parts[0][0] in ("p", "n") and parts[0][1] >= 0:
            return parts[0][0], float(FUNCTIONS[head].value(parts[0][1]))
        return head, parts[0]
    flat = [p for part in parts for p in (part[1:] if part[0] == head else (part,))]
    return _as_product(flat) if head == "*" else _as_sum(flat)


def _as_power(base, k):
    if base[0] == "^":
        return "^", base[1], base[2] * k
    if base[0] in ("n", "p", "c"):
        return ("p" if base[0] == "c" and k % 2 == 0 else base[0]), base[1] ** k
    if base[0] == "*" and base[1][0] in ("n", "p", "c"):
        return ("*", *(_as_power(part, k) for part in base[1:]))
    return "^", base, k


def _folded(leaves, is_sum):
    """One coefficient for several."""
    total = math.fsum(x for _, x in leaves) if is_sum else math.prod(x for _, x in leaves)
    kinds = {kind for kind, _ in leaves}
    if is_sum and "p" in kinds and any(x < 0 for kind, x in leaves if kind == "n"):
        kinds.add("c")
    if not is_sum and "p" in kinds and total < 0:
        kinds.add("c")
    return ("c" if "c" in kinds else "p" if "p" in kinds else "n"), float(total)


def _as_product(parts):
    leaves = [p for p in parts if p[0] in ("c", "p", "n")]
    powers: dict[Tree, int] = {}
    for part in parts:
        if part[0] not in ("c", "p", "n"):
            base, k = (part[1], part[2]) if part[0] == "^" else (part, 1)
            powers[base] = powers.get(base, 0) + k
    coefficient = _folded(leaves, False) if leaves else ("n", 1.0)
    if coefficient[0] != "n":  # c x inv(p x) = (c / p) u(p x)
        for base in list(powers):
            if (
                base[0] == "inv"
                and (scaled := _scaled(base[1])) is not None
                and powers.get(scaled[1], 0) >= powers[base]
            ):
                k = powers.pop(base)
                powers[scaled[1]] -= k
                powers[("u", base[1])] = powers.get(("u", base[1]), 0) + k
                coefficient = coefficient[0], coefficient[1] / scaled[0] ** k
    exponents = [base for base in powers if base[0] == "exp"]
    if sum(powers[base] for base in exponents) > 1:
        terms = [base[1] for base in exponents for _ in range(powers.pop(base))]
        powers[("exp", _as_sum([t for term in terms for t in (term[1:] if term[0] == "+" else (term,))]))] = 1
    rest = [base if k == 1 else ("^", base, k) for base, k in powers.items() if k]
    if coefficient == ("n", 0.0):
        return coefficient
    if len(rest) == 1 and rest[0][0] == "+" and coefficient != ("n", 1.0):
        terms = [_split(term) for term in rest[0][1:]]
        if all(own[0] == "c" or own[0] == "p" and coefficient[0] != "c" for own, _ in terms):
            return _as_sum([_joined(_folded([coefficient, own], False), factors) for own, factors in terms])
    return _joined(coefficient, sorted(rest, key=_order))


def _scaled(tree):
    """(value of p, x) of p x."""
    if tree[0] == "*" and len(tree) == 3 and tree[1][0] == "p":
        return tree[1][1], tree[2]
    return None


def _split(term):
    """(coefficient, factors) of a term of a sum."""
    if term[0] in ("c", "p", "n"):
        return term, []
    if term[0] == "*":
        leaves = [p for p in term[1:] if p[0] in ("c", "p", "n")]
        return (_folded(leaves, False) if leaves else ("n", 1.0)), [p for p in term[1:] if p[0] not in ("c", "p", "n")]
    return ("n", 1.0), [term]


def _joined(coefficient, factors):
    if not factors:
        return coefficient
    parts = factors if coefficient == ("n", 1.0) else [coefficient, *factors]
    return parts[0] if len(parts) == 1 else ("*", *parts)


def _as_sum(parts):
    groups: dict[tuple, list] = {}
    for part in parts:
        coefficient, factors = _split(part)
        groups.setdefault(tuple(sorted(factors, key=_order)), []).append(coefficient)
    terms = [_joined(_folded(own, True), list(factors)) for factors, own in groups.items()]
    terms = sorted((t for t in terms if t != ("n", 0.0)), key=_order)
    return ("n", 0.0) if not terms else terms[0] if len(terms) == 1 else ("+", *terms)


# ---- as text.


def python(tree: Tree, names: Iterator[str] | None = None) -> str:
    """The formula in Python; parameters by name, or as numbers."""
    return _python(tree, names, 0)


def _python(tree, names, tightness):
    head = tree[0]
    if head == "v":
        return tree[1]
    if head in LEAVES:
        if head != "n" and names is not None:
            return next(names)
        number = int(tree[1]) if tree[1] == int(tree[1]) and head == "n" else float(tree[1])
        return f"({number})" if number < 0 and tightness else repr(number)
    if head in FUNCTIONS:
        inner = _python(tree[1], names, 1 if "+ {}" in FUNCTIONS[head].python else 0)
        text = FUNCTIONS[head].python.format(inner)
        return f"({text})" if head == "inv" and tightness > 1 else text
    if head == "^":
        text = f"{_python(tree[1], names, 3)}**{tree[2]}"
        return f"({text})" if tightness > 2 else text
    own = 1 if head == "+" else 2
    text = (" + " if head == "+" else " * ").join(_python(part, names, own) for part in tree[1:])
    return f"({text})" if tightness > own or (tightness == 1 and head == "+") else text


def latex(tree: Tree) -> str:
    """The formula in LaTeX, with numbers of six digits."""
    head = tree[0]
    if head == "v":
        return INGREDIENTS[tree[1]].latex
    if head in LEAVES:
        return f"{tree[1]:.6g}"
    if head in FUNCTIONS:
        return FUNCTIONS[head].latex.format(latex(tree[1]))
    bracketed = lambda text, needed: rf"\left({text}\right)" if needed else text
    if head == "^":
        text = latex(tree[1])
        return f"{bracketed(text, tree[1][0] != 'v' or '^' in text)}^{{{tree[2]}}}"
    if head == "+":
        return " + ".join(map(latex, tree[1:])).replace("+ -", "- ")
    texts = [latex(part) for part in tree[1:]]
    return r"\, ".join(
        bracketed(text, part[0] == "+" or (k and text.startswith("-")))
        for k, (part, text) in enumerate(zip(tree[1:], texts, strict=True))
    )


LONGEST = 4000


def parsed(text: str) -> Tree:
    """The tree of a formula such as "0.8*u(0.27*s2) + 0.1*s2*exp(-1.0*s2)"; nothing is executed.

    Numbers with a point are parameters, positive ones inside functions; whole numbers belong to the formula. 1/(1 + x)
    and x/(1 + x) may be written so. InputError for what is no formula of this language.
    """
    if len(text) > LONGEST:
        raise InputError(f"a formula of {len(text)} characters; {LONGEST} at most.")
    try:
        return canonical(_read(ast.parse(text.strip(), mode="eval").body, False))
    except (SyntaxError, ValueError, RecursionError, OverflowError) as error:
        known = ", ".join([*INGREDIENTS, *(f"{name}(x)" for name in FUNCTIONS)])
        raise InputError(f"{shown(text)} is no formula: {error}. Known are + - * / ** and {known}.") from error


_CALLS = {"u": "u", "inv": "inv", "exp": "exp", "log1p": "log", "log": "log", "sqrt1p": "sqrt", "x_asinh_x": "ash"}
_CALLS |= {"ash": "ash", "sqrt": "sqrt"}


def _read(node, inside):
    match node:
        case ast.Constant(value=float(x)) | ast.Constant(value=int(x)) if math.isfinite(x) and not isinstance(x, bool):
            return (("p" if inside else "c") if isinstance(x, float) else "n"), float(x)
        case ast.Name(id=name) if name in INGREDIENTS:
            return "v", name
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return _as_product([("n", -1.0), _read(part, inside)])
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return "+", _read(a, inside), _read(b, inside)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return "+", _read(a, inside), ("*", ("n", -1.0), _read(b, inside))
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return "*", _read(a, inside), _read(b, inside)
        case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(k))) if 2 <= k <= 12:
            return "^", _read(a, inside), k
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return "*", _read(a, inside), ("inv", _less_one(b))
        case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if name in _CALLS:
            return _called(name, part)
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not known")


def _called(name, part):
    if name == "exp":
        return "exp", _with_positive(canonical(("*", ("n", -1.0), _read(part, True))))
    return _CALLS[name], _less_one(part) if name == "sqrt" else _read(part, True)


def _with_positive(tree):
    """Parameters above zero as positive ones."""
    if tree[0] == "c" and tree[1] > 0:
        return "p", tree[1]
    return rebuilt(tree, [_with_positive(part) for part in children(tree)])


def _less_one(node):
    """x of 1 + x, in whatever order the sum is written."""
    read = canonical(("+", _read(node, True), ("n", -1.0)))
    if any(part[0] == "n" for part in (read, *children(read))):
        raise ValueError(f"{ast.unparse(node)[:60]!r}: 1 + ... expected below a fraction or a root")
    return read


def from_json(data: Any) -> Tree:
    """The tree of nested lists, checked; ValueError for others."""
    match data:
        case [("v") as head, str(name)] if name in INGREDIENTS:
            return head, name
        case ["n" | "c" | "p" as head, float(x) | int(x)] if math.isfinite(x):
            return head, float(x)
        case ["^", part, int(k)] if 2 <= k <= 99:
            return "^", from_json(part), k
        case ["+" | "*" as head, *parts] if len(parts) > 1:
            return head, *map(from_json, parts)
        case [str(head), part] if head in FUNCTIONS:
            return head, from_json(part)
    raise ValueError(f"{json.dumps(data)[:60]} is no tree")
