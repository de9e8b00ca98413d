"""Where a formula is defined: values, each with the conditions under which every operation that it needs has one.

Algebra takes sqrt(u)^2 for u and log(u) - log(u) for 0; that u has to be positive must not be lost. Conditions are
clauses, any of whose literals makes them true: a root in the branch of a choice is needed where the branch is taken.
All clauses have to hold; none is what is defined everywhere, an empty one what is defined nowhere.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dftfd.autofd.scalar.keys import package_function
from dftfd.autofd.scalar.known_functions import OPERATIONS, power_domain
from dftfd.autofd.scalar.on_objects import NotInAlgebra
from dftfd.autofd.scalar.polynomials import Predicate
from dftfd.autofd.scalar.program import evaluate

Clauses = frozenset
"""{{(predicate, whether it is to be true), ...}, ...}."""

ALWAYS: Clauses = frozenset()
NEVER: Clauses = frozenset([frozenset()])
_COMPARED = {"ne0": "ne", "gt0": "gt", "ge0": "ge"}
_ROOTS = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "div": Fraction(-1)}


@dataclass(frozen=True, slots=True)
class Partial:
    """value: of the algebra of values.   defined: clauses."""

    value: Any
    defined: Clauses = ALWAYS


def under(clauses: Clauses, predicate: Predicate, truth: bool) -> Clauses:
    """Clauses that are needed where a predicate has this truth value."""
    guard, contrary = (predicate, not truth), (predicate, truth)
    return frozenset(clause | {guard} for clause in clauses if contrary not in clause)


class OnDomains:
    """The algebra of Partial values; `values` is that of the values, polynomials (factored.py)."""

    def __init__(self, values):
        self.values = values

    def constant(self, value):
        finite = value.dtype.kind != "f" or bool(np.isfinite(value))
        return Partial(self.values.constant(value), ALWAYS if finite else NEVER)

    def apply(self, node, args):
        if node.op == "entry":
            return args[0][node.params["result"]][node.params["index"]]
        if node.op == "call":
            return self._call(node.code, args)
        if node.op == "select_n" and len(args) == 3:
            return self._choice(*args)
        numbers = [a.value for a in args]
        return Partial(self.values.apply(node, numbers), self._needs(args) | self._own(node, numbers))

    @staticmethod
    def _needs(args) -> Clauses:
        return frozenset().union(*(a.defined for a in args))

    def _choice(self, predicate: Partial, no: Partial, yes: Partial) -> Partial:
        truth = predicate.value
        if isinstance(truth, bool):
            taken = yes if truth else no
            return Partial(taken.value, taken.defined | predicate.defined)
        if not isinstance(truth, Predicate):
            raise NotInAlgebra("a choice by a number")
        needs = under(yes.defined, truth, True) | under(no.defined, truth, False) | predicate.defined
        return Partial(self.values.select(truth, no.value, yes.value), needs)

    def _own(self, node, args) -> Clauses:
        """Of an operation itself."""
        op = node.op
        if op in _ROOTS:
            return self._where(power_domain(_ROOTS[op]), args[-1])
        if op == "integer_pow":
            return self._where(power_domain(Fraction(node.params["y"])), args[0])
        if op == "pow":
            p = self.values.constant_exponent(args[1])
            return self._where(("gt0", 0.0) if p is None else power_domain(p), args[0])
        return self._where(OPERATIONS[op].domain, args[0]) if op in OPERATIONS else ALWAYS

    def _where(self, domain, a) -> Clauses:
        if domain is None:
            return ALWAYS
        comparison, number = domain
        truth = self.values.compare(_COMPARED[comparison], a, self.values.number(-number))
        if isinstance(truth, bool):
            return ALWAYS if truth else NEVER
        return frozenset([frozenset([(truth, True)])])

    def _known(self, name: str, a: Partial) -> Partial:
        if name == "_cube_root":
            domain, value = power_domain(Fraction(1, 3)), self.values.power(a.value, Fraction(1, 3))
        else:
            domain, value = OPERATIONS[name].domain, self.values.unary(name, a.value)
        return Partial(value, a.defined | self._where(domain, a.value))

    def _call(self, code, args):
        if code.name == "stop_gradient":
            return [[a] for a in args]
        name = package_function(code.eqn)
        if name:  # of each entry of an array
            return [[self._known(name, a) for a in args]]
        if not code.has_rule:
            raise NotInAlgebra(f"no enclosure of {code.name!r} is known: nothing can be proved of this formula.")
        flat = iter(evaluate(code.program, self, args))
        return [[next(flat) for _ in range(int(np.prod(v.aval.shape)))] for v in code.eqn.outvars]
