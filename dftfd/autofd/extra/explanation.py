"""explain: the functional derivative of a functional as a formula.

`explain(F, X)` runs the functional on unknown functions of points of X, takes its functional derivative by the rules of
the operators, lowers it to the unknown functions' values and derivatives at a point, and carries that program out on
SymPy expressions. The result is the left side of the Euler-Lagrange equation, delta F / delta f = 0.

    >>> from dftfd.autofd import Domain, explain, integrate, nabla
    >>> print(explain(lambda u: integrate(nabla(u) ** 2 / 2 + u**4), Domain(name="x", grid_later=True)))
    4*u**3 - u''

Integrals inside the formula, as in the derivative of a product of integrals, stay integrals.

On a line the unknown function's derivatives are u, u', u'', u^(4); in several dimensions |nabla u|, laplace u and
nabla u . H . nabla u (H: second derivatives) where the formula does not depend on the orientation of the axes, else
u_x, u_xy, ...
"""

import inspect
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_leaves

from dftfd.autofd.core.calling import Walk, interpreting
from dftfd.autofd.core.domain import Domain, describe, spec_of
from dftfd.autofd.core.function import Function, is_constant, is_function, nodes_of
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.lowering import Placeholder, lower, placeholder
from dftfd.autofd.operators.compose import composition
from dftfd.autofd.operators.leaf import leaf
from dftfd.autofd.scalar.on_objects import SympyAlgebra, require_sympy
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import symbolic_program
from dftfd.autofd.transforms.gradients import grad
from dftfd.errors import SignatureError, UnsupportedError

MAX_INTEGRALS = 64  # numbers that the integrals inside one functional give


_SIMPLIFY_UP_TO = 600  # operations; longer formulas are only collected


@dataclass(frozen=True)
class Formula:
    """A formula in three forms.

    expression: SymPy, with Function, Derivative and Integral objects.
    compact: SymPy, with one symbol for each derivative.   names: LaTeX of these symbols.
    """

    expression: object
    compact: object
    names: dict = field(repr=False)

    @property
    def latex(self) -> str:
        return require_sympy().latex(self.compact, symbol_names=self.names)

    def __str__(self):
        return str(self.compact)

    def _repr_latex_(self):
        return f"$\\displaystyle {self.latex}$"


class Notation:
    """Symbols for the point, the jets of the unknown functions and the integrals over them."""

    def __init__(self, domain: Domain, unknowns, jets, positive: bool):
        self.sympy = require_sympy()
        self.positive = positive
        self.names: dict[Any, str] = {}
        self.meaning: dict[Any, Any] = {}
        self.axes = self._coordinates(domain)
        self.point = np.array(self.axes, object).reshape(domain.shape)
        self.jets = {
            u.name: [self._jet(u, order, spec.shape) for order, spec in enumerate(jets[u.name])]
            for u in unknowns.values()
        }

    def _coordinates(self, domain: Domain) -> list:
        count = int(np.prod(domain.shape))
        if domain.shape == ():
            letters = [domain.name if domain.name.isidentifier() else "x"]
        else:
            letters = "x y z".split()[:count] if count <= 3 else [f"x_{i + 1}" for i in range(count)]
        return [self.sympy.Symbol(letter, real=True) for letter in letters]

    def _jet(self, unknown, order: int, shape) -> np.ndarray:
        """Symbols of all derivatives of one order, (*result, *axes of the argument order times)."""
        out = np.empty(shape, object)
        rank = len(unknown.shape)
        for place in np.ndindex(*shape):
            along = sorted(place[rank:]) if unknown.domain.shape else [0] * order
            out[place] = self._derivative(unknown.name, place[:rank], along)
        return out

    def _derivative(self, name: str, component, along):
        label = name + "".join(f"_{i + 1}" for i in component)
        latex = name if not component else f"{name}_{{{','.join(str(i + 1) for i in component)}}}"
        axes = [self.axes[i] for i in along]
        if len(self.axes) == 1:
            marks = "'" * len(along) if len(along) < 4 else f"^({len(along)})"
            text, latex = label + marks, latex + ("'" * len(along) if len(along) < 4 else f"^{{({len(along)})}}")
        elif axes:
            index = "".join(map(str, axes))
            text, latex = f"{label}_{index}", f"\\partial_{{{index}}} {latex}"
        else:
            text = label
        kind = {"positive": True} if self.positive else {"real": True}
        f = self.sympy.Function(label, **kind)(*self.axes)
        symbol = self.sympy.Symbol(text, **({"real": True} if axes else kind))
        self.names[symbol] = latex
        self.meaning[symbol] = self.sympy.Derivative(f, *axes) if axes else f
        return symbol

    def numbers(self, count: int) -> np.ndarray:
        """Symbols of the integrals inside the functional."""
        self.integrals = [self.sympy.Symbol(f"I_{k + 1}", real=True) for k in range(count)]
        return np.array(self.integrals, object)

    def formula(self, results, simplify: bool) -> Formula:
        """results: the derivative (object array), then the integrands whose integrals are the numbers, in order."""
        algebra = SympyAlgebra()
        scalar = lambda e: e if isinstance(e, self.sympy.Basic) else algebra.constant(e)
        derivative, *integrands = (np.asarray(r, object) for r in results)
        entries = itertools.chain.from_iterable(i.ravel() for i in integrands)
        integrals: dict[Any, Any] = {}
        for symbol, entry in zip(self.integrals, entries, strict=False):
            integrals[symbol] = self._integral(self._readable(scalar(entry).xreplace(integrals), simplify))
        shown = [self._readable(scalar(e).xreplace(integrals), simplify) for e in derivative.ravel()]
        compact = shown[0] if derivative.shape == () else self.sympy.Array(shown, derivative.shape)
        expression = compact
        for symbol in reversed(self.meaning):  # later symbols are defined by earlier ones
            expression = expression.xreplace({symbol: self.meaning[symbol]})
        return Formula(expression, compact, dict(self.names))

    def _integral(self, inner):
        """A symbol for the integral of `inner` over the space."""
        measure = " ".join(f"d{a}" for a in self.axes)
        symbol = self._named(
            f"[int {inner} {measure}]",
            f"\\left[\\int {self.sympy.latex(inner, symbol_names=self.names)}\\, {measure}\\right]",
            self.sympy.Integral(inner, *self.axes),
        )
        return symbol

    def _named(self, text: str, latex: str, meaning, **assumptions):
        symbol = self.sympy.Symbol(text, **(assumptions or {"real": True}))
        self.names[symbol], self.meaning[symbol] = latex, meaning
        return symbol

    def _readable(self, expression, simplify: bool):
        """The shortest form found."""
        s = self.sympy
        shorter = self._without_axes(expression) if len(self.axes) > 1 else None
        expression = expression if shorter is None else shorter
        forms = [expression]
        if simplify and s.count_ops(expression) <= _SIMPLIFY_UP_TO:
            slow = expression.has(s.functions.elementary.trigonometric.TrigonometricFunction, s.sinh, s.cosh, s.tanh)
            simple = s.cancel(expression) if slow else s.simplify(expression)
            forms += [s.expand(expression), simple, s.expand(simple), s.factor_terms(simple)]
        return min(forms, key=s.count_ops)

    def _without_axes(self, expression):
        """The expression in |grad u|, lap u and grad u . H . grad u, if it is a function of these; else None.

        A function of these is the same in all frames, so it is read off in one whose first axis is along the gradient;
        a comparison at a random point in another frame shows whether it is such a function at all.
        """
        s, n = self.sympy, len(self.axes)
        if len(self.jets) != 1 or any(len(j) == 0 or np.ndim(j[0]) for j in self.jets.values()):
            return None
        ((name, jet),) = self.jets.items()
        if not 2 <= len(jet) <= 3 or np.ndim(self.point) != 1:
            return None
        gradient, hessian = jet[1], jet[2] if len(jet) == 3 else np.zeros((n, n), object)
        square = sum(p**2 for p in gradient)
        laplacian, curvature = np.trace(hessian), gradient @ hessian @ gradient
        g = self._named(f"|grad {name}|", f"\\left|\\nabla {name}\\right|", s.sqrt(square), positive=True)
        L = self._named(f"lap({name})", f"\\left(\\nabla^{{2}} {name}\\right)", laplacian)
        B = self._named(
            f"(grad {name}.H.grad {name})",
            f"\\left(\\nabla {name} \\cdot H_{{{name}}} \\nabla {name}\\right)",
            curvature,
        )
        frame = {p: g if i == 0 else s.Integer(0) for i, p in enumerate(gradient)}
        if len(jet) == 3:
            frame[hessian[0, 0]] = B / g**2
            frame[hessian[-1, -1]] = L - B / g**2 - sum(hessian[i, i] for i in range(1, n - 1))
        invariant = s.simplify(expression.xreplace(frame))
        if invariant.free_symbols & {*gradient, *hessian.ravel()} - {s.Integer(0)}:
            return None
        places = random.Random(1)
        values = {p: s.Float(places.uniform(0.5, 1.5)) for p in expression.free_symbols | {*gradient, *hessian.ravel()}}
        meaning = {g: s.sqrt(square), L: laplacian, B: curvature}
        here, there = (s.N(e.xreplace(values)) for e in (expression, invariant.xreplace(meaning)))
        return invariant if abs(here - there) <= 1e-9 * (1 + abs(here)) else None


@dataclass
class Unknown:
    """An unknown function of points of a domain, with results of a shape, for `explain`."""

    domain: Domain
    shape: tuple[int, ...] = ()
    name: str = ""


class _Run(Walk):
    """A functional running on unknown functions: each integral over them has a number for its value.

    numbers: (MAX_INTEGRALS,) traced.   used: how many of them have a meaning.
    """

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.used, self.integrands, self.recording = numbers, 0, [], False

    def step(self, node, args):
        unknown = node.operator.name == "integrate" and not args
        if unknown and any(isinstance(n.operator, Placeholder) for n in nodes_of(node)):
            return self.value_of(node.operands[0])
        return super().step(node, args)

    def value_of(self, f: Function):
        leaves, structure = jax.tree_util.tree_flatten(f.result)
        ends = self.used + np.cumsum([0, *(math.prod(leaf.shape) for leaf in leaves)])
        if ends[-1] > MAX_INTEGRALS:
            raise UnsupportedError(f"explain: more than {MAX_INTEGRALS} integrals inside the functional.")
        self.used = int(ends[-1])
        if self.recording:
            self.integrands.append(f)
        places = zip(leaves, ends, ends[1:], strict=False)
        return jax.tree_util.tree_unflatten(structure, [self.numbers[a:b].reshape(x.shape) for x, a, b in places])


def explain(
    functional: Callable, *arguments: Any, argnum: int = 0, positive: bool = False, simplify: bool = True
) -> Formula:
    """Functional derivative of `functional` with respect to argument `argnum`, as a `Formula`.

    arguments: for each argument of the functional a Domain or an `Unknown` for an unknown function, or a Function or
        value that is used as it is. Unknown functions are named after the functional's parameters, u, v, n, ...
    positive: unknown functions are positive (densities); simplifies roots and powers.
    simplify: let SymPy simplify the formula, which may take a while for long ones.

    print(formula) shows it as text, formula.latex as LaTeX, formula.expression is the SymPy expression. Raises
    NotSemilocalError if the derivative at a point needs the unknown functions elsewhere, UnsupportedError if it uses
    an operation without symbolic meaning.
    """
    require_sympy()
    unknowns = _unknowns(functional, arguments)
    if argnum not in unknowns:
        raise SignatureError(f"explain: argument {argnum} is not an unknown function; give a Domain there.")
    domain = unknowns[argnum].domain
    if any(u.domain is not domain for u in unknowns.values()):
        raise SignatureError("explain: the unknown functions have different domains.")
    program = _Program(functional, arguments, unknowns, argnum)
    jets = program.jets()
    return _formula(program.code, unknowns, jets, domain, positive, simplify)


def _unknowns(functional, arguments) -> dict[int, Unknown]:
    """The unknown functions by position, each with a name."""
    try:
        parameters = [p.name for p in inspect.signature(functional).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    found = {}
    for i, argument in enumerate(arguments):
        if isinstance(argument, Domain):
            argument = Unknown(argument)
        if isinstance(argument, Unknown):
            default = parameters[i] if i < len(parameters) else f"f_{i}"
            found[i] = Unknown(argument.domain, argument.shape, argument.name or default)
    if len({u.name for u in found.values()}) < len(found):
        raise SignatureError("explain: two unknown functions have the same name.")
    return found


class _Program:
    """The functional derivative at a point, as code of the unknown functions' jets there."""

    def __init__(self, functional, arguments, unknowns, argnum):
        self.functional, self.arguments, self.unknowns, self.argnum = functional, arguments, unknowns, argnum

    def kernels(self, numbers) -> list:
        """Kernels of the functional derivative and of the integrands of the integrals that it contains."""
        run = _Run(numbers)
        filled = [
            _placeholder(self.unknowns[i], numbers[0]) if i in self.unknowns else a
            for i, a in enumerate(self.arguments)
        ]

        with interpreting(run):  # inside an evaluation graphs are walked, not compiled, so each integral is met
            run.recording = True
            value = self.functional(*filled)
            run.recording, count = False, run.used
            if is_function(value):
                raise SignatureError(f"explain: the functional returned a Function, {value!r}; integrate it.")
            derivative = grad(self.functional, self.argnum)(*filled)  # meets the same integrals, whose values are known
            if run.used != count:
                raise UnsupportedError("explain: a functional that takes derivatives of another one inside.")
        return [lower(f) for f in (derivative, *run.integrands)]

    def jets(self) -> dict[str, list]:
        """Shapes of the jets that the kernels need."""
        orders: dict[str, int] = {}

        def find(numbers):
            for kernel in self.kernels(numbers):
                for name, order in kernel.orders.items():
                    orders[name] = max(order, orders.get(name, 0))
            return 0.0

        jax.eval_shape(find, np.zeros(MAX_INTEGRALS))
        return {
            u.name: [
                jax.ShapeDtypeStruct(u.shape + k * u.domain.shape, u.domain.dtype)
                for k in range(orders.get(u.name, 0) + 1)
            ]
            for u in self.unknowns.values()
        }

    def code(self, numbers, x, jets) -> list:
        return [kernel(jets, x) for kernel in self.kernels(numbers)]


def _placeholder(unknown: Unknown, mark) -> Function:
    """The unknown function; it carries a traced number, so nothing about it is compiled on the way."""
    return placeholder(unknown.name, unknown.domain, tuple(unknown.shape)).replace(arrays=(mark,))


def _formula(code, unknowns, jets, domain, positive, simplify) -> Formula:
    notation = Notation(domain, unknowns, jets, positive)
    numbers = notation.numbers(MAX_INTEGRALS)
    symbols = [numbers, notation.point, *(a for u in sorted(jets) for a in notation.jets[u])]
    specs = jax.ShapeDtypeStruct(numbers.shape, np.float64), domain.spec, jets
    try:
        program = symbolic_program(code, *specs)
        flat = iter(evaluate(program, SympyAlgebra(), [s for a in symbols for s in np.ravel(a)]))
    except UnsupportedError as error:
        raise UnsupportedError(f"explain: {str(error).removesuffix('.')} has no symbolic form.") from error
    shapes = [spec.shape for spec in jax.eval_shape(code, *specs)]
    results = [np.array([next(flat) for _ in range(math.prod(s))], object).reshape(s) for s in shapes]
    return notation.formula(results, simplify)


_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}


def show(f: Function, depth: int | None = None) -> str:
    """The graph of a Function as an indented tree, one node a line: what it does, and the type of its result.

    The first line is the signature. A node that is used several times is numbered where it is first shown, and is
    that number everywhere else. Code applied to the values of functions stands directly above them.

    depth: deepest level to show; default all.

    >>> from dftfd.autofd import Domain, function, nabla, show
    >>> n = function(lambda x: x * x, Domain(name="x"))
    >>> print(show(n**2 * nabla(n)))
    (x:float64[]) -> float64[]
    multiply: float64[]
    ├─ · ** 2: float64[]
    │  └─ #1 <lambda>: float64[]
    └─ nabla: float64[]
       └─ #1
    """
    uses: dict[int, int] = {}
    for node in nodes_of(f):
        for operand in _shown_operands(node):
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    tree = _Tree({key for key, count in uses.items() if count > 1}, depth)
    tree.write(f)
    return "\n".join([str(f.signature), *tree.lines])


class _Tree:
    """Lines written so far, and the numbers of nodes that are `shared` (by id)."""

    def __init__(self, shared, depth):
        self.shared, self.depth = shared, depth
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}

    def write(self, root):
        """All lines; without recursion, since graphs may be deep."""
        stack = [(root, "", "", 0)]
        while stack:
            node, first, rest, level = stack.pop()
            self._line(node, first, rest, level, stack)

    def _line(self, node, first, rest, level, stack):
        """The node after the indentation `first`; its operands, after `rest`, are put on the stack."""
        if id(node) in self.numbers:
            self.lines.append(f"{first}#{self.numbers[id(node)]}")
            return
        number = ""
        if id(node) in self.shared:
            self.numbers[id(node)] = len(self.numbers) + 1
            number = f"#{self.numbers[id(node)]} "
        self.lines.append(f"{first}{number}{label(node)}: {describe(node.result)}")
        operands = _shown_operands(node)
        if self.depth is not None and level >= self.depth and operands:
            self.lines.append(f"{rest}└─ ...")
            return
        for k, operand in reversed(list(enumerate(operands))):
            last = k == len(operands) - 1
            stack.append((operand, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), level + 1))


def _shown_operands(node) -> tuple[Function, ...]:
    """Operands that stand below a node: of a composition, the inner functions; the outer one where it has a graph."""
    if node.operator is not composition:
        return node.operands
    outer, *inner = node.operands
    return tuple(inner) if _is_code(outer) else (outer, *inner)


def _is_code(outer) -> bool:
    """True for a function that one line describes: code, or the derivative of code."""
    return outer.operator is leaf or (len(outer.operands) == 1 and outer.operands[0].operator is leaf)


def label(node: Function) -> str:
    """What one node does, in a few words."""
    if node.operator is composition:
        outer = node.operands[0]
        return _code_label(outer) if _is_code(outer) else "compose"
    return _code_label(node) if node.operator is leaf else node.operator.label(node)


def _code_label(f):
    if f.operator is not leaf:
        return _derivative_label(f)
    if is_constant(f):
        value = f.arrays[0]
        known = not any(map(is_tracer, tree_leaves(value))) and np.size(value) == 1
        return f"constant {float(value):.6g}" if known else "constant"
    code = f.static["code"]
    name = f.operator.label(f).lstrip("_")
    left, right = getattr(code, "left", None), getattr(code, "right", None)
    if left is not None:
        return f"{left:.6g} {_SYMBOLS[name]} ·"
    if right is not None:
        return f"· {_SYMBOLS[name]} {right:.6g}"
    arrays = [describe(spec_of(a)) for a in tree_leaves(f.arrays)]
    return f"{name} of arrays {', '.join(arrays)}" if arrays else name


def _derivative_label(f):
    """pullback or pushforward of code, with the arguments it is taken in where there are several."""
    (code,) = f.operands
    arguments = f.static.get("argnums", ())
    some = f" in {', '.join(map(str, arguments))}" if len(code.domains) > len(arguments) else ""
    return f"{f.operator.label(f)} of ({_code_label(code)}){some}"
