"""explain: the functional derivative of a functional as a formula.

`explain(F, X)` runs the functional on unknown functions of points of X, takes its functional derivative by the rules of
the operators, lowers it to the unknown functions' values and derivatives at a point, and carries that program out on
SymPy expressions. The result is the left side of the Euler-Lagrange equation, delta F / delta f = 0.

    >>> from dftfd.autofd import Domain, explain, integrate, nabla
    >>> print(explain(lambda u: integrate(nabla(u) ** 2 / 2 + u**4), Domain(name="x", grid_later=True)))
    4*u**3 - u''

Integrals inside the formula, as in the derivative of a product of integrals, stay integrals.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dftfd.autofd.core.calling import Walk, interpreting
from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function, is_function, nodes_of
from dftfd.autofd.extra.notation import Formula, Notation
from dftfd.autofd.lowering.jets import Placeholder, lower, placeholder
from dftfd.autofd.scalar.on_sympy import SympyAlgebra, require_sympy
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import symbolic_program
from dftfd.autofd.transforms.gradients import grad
from dftfd.errors import SignatureError, UnsupportedError

MAX_INTEGRALS = 64  # numbers that the integrals inside one functional give


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
        raise SignatureError("explain: the unknown functions live on different domains.")
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
