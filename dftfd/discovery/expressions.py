"""Formulas as trees of dimensionless ingredients, in which no value of a parameter can divide by zero.

A tree is a nested tuple, immutable and hashable:

    ("v", name)   an ingredient                       ("n", x)   a number of the formula's
    ("c", x)      a parameter of either sign          ("p", x)   a positive parameter; x is its present value
    ("+", a, ...), ("*", a, ...), ("^", a, k)         sums, products, integer powers k >= 2
    (f, a)        a function of FUNCTIONS, of an argument that cannot be negative

`is_valid` decides by structure alone: arguments of functions are sums and products of what is never negative, so every
function is smooth and finite, whatever a fit does with the parameters.
"""

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dftfd.errors import InputError, shown

Tree = tuple


class Ingredient(NamedTuple):
    """is_nonnegative, vanishes: whether it is never negative, and zero in the uniform gas."""

    is_nonnegative: bool
    vanishes: bool
    meaning: str


INGREDIENTS = {
    "s2": Ingredient(True, True, "s^2 = |nabla n|^2 / (2 k_F n)^2"),
    "alpha": Ingredient(True, False, "alpha = (tau - tau_W) / tau_unif"),
    "d": Ingredient(False, True, "d = (1 - alpha) / (1 + alpha)"),
    "b": Ingredient(False, True, "b = 1 - 2 beta, beta = (tau - tau_W) / (tau + tau_unif)"),
    "w": Ingredient(False, True, "w = (tau_unif - tau) / (tau_unif + tau)"),
    "rs": Ingredient(True, False, "r_s, the Wigner-Seitz radius"),
    "z2": Ingredient(True, False, "z2 = zeta^2, zeta the spin polarisation"),
    "t2": Ingredient(True, True, "t2 = |nabla n|^2 / (2 phi k_s n)^2"),
    "y": Ingredient(True, True, "y = A t^2 of PBE correlation"),
}


def _ash(x):
    r = np.sqrt(x)
    return r * np.arcsinh(r)


def _ash_slope(x):
    safe = np.where(x < 1e-8, 1e-8, x)
    r = np.sqrt(safe)
    return 0.5 * (np.arcsinh(r) / r + 1 / np.sqrt(1 + safe))


class Code(NamedTuple):
    """A function of x >= 0 with its derivative, and as Python.   vanishes: whether f(0) = 0."""

    value: Callable
    slope: Callable
    python: str
    vanishes: bool


FUNCTIONS = {
    "u": Code(lambda x: x / (1 + x), lambda x: (1 + x) ** -2, "u({})", True),
    "inv": Code(lambda x: 1 / (1 + x), lambda x: -((1 + x) ** -2), "1 / (1 + {})", False),
    "exp": Code(lambda x: np.exp(-x), lambda x: -np.exp(-x), "exp(-({}))", False),
    "log": Code(np.log1p, lambda x: 1 / (1 + x), "log1p({})", True),
    "sqrt": Code(lambda x: np.sqrt(1 + x), lambda x: 0.5 / np.sqrt(1 + x), "sqrt(1 + {})", False),
    "ash": Code(_ash, _ash_slope, "x_asinh_x({})", True),
}
"""u = x / (1 + x), inv = 1 / (1 + x), exp(-x), log(1 + x), sqrt(1 + x), ash = x^(1/2) asinh(x^(1/2))."""

NAMES = tuple(FUNCTIONS)
LEAVES, PARAMETERS, NUMBERS = ("v", "n", "c", "p"), ("c", "p"), ("n", "c", "p")

HIGHEST = 12
"""Power that formulas may have."""


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


def variables(tree: Tree | None) -> set[str]:
    """Names of its ingredients."""
    return set() if tree is None else {node[1] for node in nodes(tree) if node[0] == "v"}


def parameters(tree: Tree) -> list[Tree]:
    """Leaves ("c", value) and ("p", value) in their order."""
    return [node for node in nodes(tree) if node[0] in PARAMETERS]


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
    if not variables(tree) <= set(ingredients) or not vanishes(tree):
        return False
    return all(is_nonnegative(n[1]) if n[0] in FUNCTIONS else n[0] != "^" or n[2] <= HIGHEST for n in nodes(tree))


# ---- values.

NUMPY = {name: code.value for name, code in FUNCTIONS.items()}


class Step(NamedTuple):
    """A node of a flat program.   of: places of its arguments, or of a leaf its name, number, or which parameter it is.

    varies: whether it has parameters.   exponent: of a power.
    """

    head: str
    of: tuple
    varies: bool
    exponent: int = 1


@lru_cache(maxsize=20_000)
def program(tree: Tree) -> tuple[Step, ...]:
    """The tree's nodes, arguments first."""
    steps: list[Step] = []
    count = itertools.count()

    def add(node) -> int:
        if node[0] in LEAVES:
            steps.append(Step(node[0], (next(count) if node[0] in PARAMETERS else node[1],), node[0] in PARAMETERS))
        else:
            places = tuple(map(add, children(node)))
            varies = any(steps[k].varies for k in places)
            steps.append(Step(node[0], places, varies, node[2] if node[0] == "^" else 1))
        return len(steps) - 1

    add(tree)
    return tuple(steps)


def values(steps: Sequence[Step], at: Mapping[str, Any], p: Sequence[float], functions: Mapping = NUMPY) -> list:
    """Of each step, in any arithmetic.   at: ingredients.   p: parameters.   functions: those of FUNCTIONS by name."""
    found: list = []
    for head, of, _, exponent in steps:
        if head in LEAVES:
            x = at[of[0]] if head == "v" else of[0] if head == "n" else p[of[0]]
        elif head == "^":
            x = found[of[0]] ** exponent
        elif head in functions:
            x = functions[head](found[of[0]])
        else:
            x = found[of[0]]
            for k in of[1:]:
                x = x + found[k] if head == "+" else x * found[k]
        found.append(x)
    return found


def at_points(tree: Tree, at: Mapping[str, Any], functions: Mapping[str, Callable] = NUMPY) -> Any:
    """The formula at points, in NumPy or with other functions."""
    return values(program(tree), at, [leaf[1] for leaf in parameters(tree)], functions)[-1]


def with_slopes(tree: Tree, at: Mapping[str, np.ndarray], p: Sequence[float]) -> tuple[Any, list]:
    """(value, [derivative by each parameter]) at points for these parameters, by one pass forwards and one backwards.

    They are numbers where they are the same everywhere.
    """
    steps = program(tree)
    found = values(steps, at, p)
    weights: list = [None] * (len(steps) - 1) + [1.0]  # derivatives of the whole by each node
    slopes: dict[int, Any] = {}
    for place in reversed(range(len(steps))):
        (head, of, varies, exponent), weight = steps[place], weights[place]
        if head in PARAMETERS:
            slopes[of[0]] = weight
        elif varies:
            for k in of:
                if not steps[k].varies:
                    continue
                if head == "+":
                    weights[k] = weight
                elif head == "*":
                    factor = weight
                    for j in of:
                        factor = factor * found[j] if j != k else factor
                    weights[k] = factor
                elif head == "^":
                    weights[k] = weight * (exponent * found[k] ** (exponent - 1))
                else:
                    weights[k] = weight * FUNCTIONS[head].slope(found[k])
    return found[-1], [slopes[k] for k in range(len(slopes))]


# ---- equal is found equal.


def canonical(tree: Tree) -> Tree:
    """The same function in the form that equal ones share: flat, sorted, with parameters and powers collected.

    Parameters inside functions are positive ones unless they are negative now, others may have either sign.
    """
    for _ in range(8):
        simpler = _simplified(tree, False)
        if simpler == tree:
            break
        tree = simpler
    return tree


def _order(tree):
    return tree[0] not in NUMBERS, skeleton(tree), repr(tree)


def _simplified(tree, inside):
    head = tree[0]
    if head in PARAMETERS:
        return "p" if inside and tree[1] > 0 else "c", tree[1]
    if head == "v" or head == "n":
        return tree
    parts = [_simplified(part, inside or head in FUNCTIONS) for part in children(tree)]
    if head == "^":
        return _as_power(parts[0], tree[2])
    if head in FUNCTIONS:
        if parts[0][0] in ("p", "n") and parts[0][1] >= 0:
            return "p" if inside else "c", float(FUNCTIONS[head].value(parts[0][1]))
        return head, parts[0]
    flat = [p for part in parts for p in (part[1:] if part[0] == head else (part,))]
    return _as_product(flat) if head == "*" else _as_sum(flat)


def _as_power(base, k):
    if base[0] == "^":
        return "^", base[1], base[2] * k
    if base[0] in NUMBERS:
        return ("p" if base[0] == "c" and k % 2 == 0 else base[0]), base[1] ** k
    if base[0] == "*" and base[1][0] in NUMBERS:
        return ("*", *(_as_power(part, k) for part in base[1:]))
    return "^", base, k


def _folded(leaves, is_sum):
    """One coefficient for several."""
    total = math.fsum(x for _, x in leaves) if is_sum else math.prod(x for _, x in leaves)
    kinds = {kind for kind, _ in leaves}
    if "p" in kinds and (any(kind == "n" and x < 0 for kind, x in leaves) if is_sum else total < 0):
        kinds.add("c")
    return ("c" if "c" in kinds else "p" if "p" in kinds else "n"), float(total)


def _as_product(parts):
    coefficient, rest = _split(("*", *parts))
    powers: dict[Tree, int] = {}
    for part in rest:
        base, k = (part[1], part[2]) if part[0] == "^" else (part, 1)
        powers[base] = powers.get(base, 0) + k
    if coefficient[0] != "n":  # c x inv(p x) = (c / p) u(p x)
        for base in list(powers):
            scaled = _split(base[1]) if base[0] == "inv" else (("n", 1.0), [])
            if scaled[0][0] == "p" and len(scaled[1]) == 1 and powers.get(scaled[1][0], 0) >= powers[base]:
                k = powers.pop(base)
                powers[scaled[1][0]] -= k
                powers[("u", base[1])] = powers.get(("u", base[1]), 0) + k
                coefficient = coefficient[0], coefficient[1] / scaled[0][1] ** k
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


def _split(term):
    """(coefficient, factors) of a term of a sum."""
    parts = term[1:] if term[0] == "*" else (term,)
    leaves = [p for p in parts if p[0] in NUMBERS]
    return (_folded(leaves, False) if leaves else ("n", 1.0)), [p for p in parts if p[0] not in NUMBERS]


def _joined(coefficient, factors):
    parts = [coefficient, *factors] if not factors or coefficient != ("n", 1.0) else factors
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


def python(tree: Tree, names: Iterator[str] | None = None, digits: int | None = None, tightness: int = 0) -> str:
    """The formula in Python; parameters by name, or as numbers, of some digits. `parsed` reads it.

    tightness: of what stands around it, 1 for a sum, 2 for a product, 3 for a power.
    """
    head = tree[0]
    inner = lambda part, own: python(part, names, digits, own)
    if head == "v":
        return tree[1]
    if head == "n":
        return f"({int(tree[1])})" if tree[1] < 0 and tightness else f"{int(tree[1])}"
    if head in PARAMETERS:
        text = next(names) if names is not None else repr(float(f"{tree[1]:.{digits or 17}g}"))
        return f"({text})" if text.startswith("-") and tightness else text
    if head in FUNCTIONS:
        code = FUNCTIONS[head].python
        text = code.format(inner(tree[1], 1 if "+ {}" in code else 0))
        return f"({text})" if head == "inv" and tightness > 1 else text
    if head == "^":
        text, own = f"{inner(tree[1], 3)}**{tree[2]}", 2
    else:
        own = 1 if head == "+" else 2
        text = (" + " if head == "+" else " * ").join(inner(part, own) for part in tree[1:])
    return f"({text})" if tightness > own or (tightness == 1 and head == "+") else text


LONGEST = 4000


def parsed(text: str) -> Tree:
    """The tree of a formula such as "0.8*u(0.27*s2) + 0.1*s2*exp(-1.0*s2)"; nothing is executed.

    Numbers with a point are parameters, positive ones inside functions; whole numbers belong to the formula. 1/(1 + x)
    and x/(1 + x) may be written so. InputError for what is no formula of this language.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise InputError(f"{shown(text)}: a formula, a text of {LONGEST} characters at most, expected.")
    try:
        return canonical(_read(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, OverflowError, MemoryError) as error:
        known = ", ".join([*INGREDIENTS, *(f"{name}(x)" for name in FUNCTIONS)])
        raise InputError(f"{shown(text)} is not a formula: {error}. Known are + - * / ** and {known}.") from error


_CALLS = {"u": "u", "inv": "inv", "log1p": "log", "log": "log", "sqrt1p": "sqrt", "x_asinh_x": "ash", "ash": "ash"}
_MINUS = ("n", -1.0)


def _read(node):
    match node:
        case ast.Constant(value=float(x)) | ast.Constant(value=int(x)) if math.isfinite(x) and not isinstance(x, bool):
            return "c" if isinstance(x, float) else "n", float(x)
        case ast.Name(id=name) if name in INGREDIENTS:
            return "v", name
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return _as_product([_MINUS, _read(part)])
        case ast.BinOp(left=a, op=ast.Add(), right=b):
            return "+", _read(a), _read(b)
        case ast.BinOp(left=a, op=ast.Sub(), right=b):
            return "+", _read(a), ("*", _MINUS, _read(b))
        case ast.BinOp(left=a, op=ast.Mult(), right=b):
            return "*", _read(a), _read(b)
        case ast.BinOp(left=a, op=ast.Pow(), right=ast.Constant(value=int(k))) if 2 <= k <= HIGHEST:
            return "^", _read(a), k
        case ast.BinOp(left=a, op=ast.Div(), right=b):
            return "*", _read(a), ("inv", _less_one(b))
        case ast.Call(func=ast.Name(id="exp"), args=[part], keywords=[]):
            return "exp", canonical(("*", _MINUS, _read(part)))
        case ast.Call(func=ast.Name(id="sqrt"), args=[part], keywords=[]):
            return "sqrt", _less_one(part)
        case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if name in _CALLS:
            return _CALLS[name], _read(part)
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not known")


def _less_one(node):
    """x of 1 + x, in whatever order the sum is written."""
    read = canonical(("+", _read(node), _MINUS))
    if any(part[0] == "n" for part in (read, *children(read))):
        raise ValueError(f"{ast.unparse(node)[:60]!r}: 1 + ... expected below a fraction or a root")
    return read
