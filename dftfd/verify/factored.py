"""Scalar programs in sums of products, exactly: what cancels is gone before intervals are put in.

Interval arithmetic takes each occurrence of a variable for another one. With n = c r_s^-3 and its gradient's square
c' s^2 n^(8/3) put into a formula, almost all occurrences of r_s cancel; here they do, with rational coefficients and
exponents. A value is a polynomial {factors: coefficient}; factors are nodes of the new program with exponents.
Conditions that the domain decides are decided. Numbers of a formula are the float64 that they are; exponents, the
fractions that they stand for.

Inputs are taken as their domain says. x / x is 1, also where x vanishes: removable singularities are removed.

Nodes of the new program: input, const (a Fraction), between (an Interval: any number in it), term (coefficient times
powers of the operands), sum, min0 and max0 (of one operand and zero), select, comparisons with zero (lt0, le0, gt0,
ge0, eq0, ne0), and, or, not, and functions of one operand by name.

Algebra takes sqrt(u)^2 for u and log(u) - log(u) for 0; that u has to be positive must not be lost. Conditions are
clauses, any of whose literals makes them true: a root in the branch of a choice is needed where the branch is taken.
All clauses have to hold; none is what is defined everywhere, an empty one what is defined nowhere.

Polynomials {((node, exponent), ...): coefficient} are over the nodes of a program in the making. Sums and products are
exact; what is not a sum of products becomes a node.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dftfd.autofd.scalar.keys import package_function
from dftfd.autofd.scalar.on_objects import NotInAlgebra
from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.verify.enclosures import OnIntervals
from dftfd.verify.intervals import UNKNOWN, Interval, between
from dftfd.verify.known_functions import FUNCTIONS, OPERATIONS, power_domain

Monomial = tuple[tuple[int, Fraction], ...]
"""(node, exponent) of each factor, in ascending order; () stands for a number."""

Polynomial = dict[Monomial, Fraction]
"""Coefficients of the monomials; {} is zero."""

_LONGEST = 24
"""Terms of a polynomial that is multiplied out."""

_MOST_JOINS = 1024
"""Selections that are joined in one program; SCAN's has nine."""

_BITS = 2**18
"""Length of a coefficient from which on a power of it remains a power, and a product is refused."""

ROUNDING = Fraction(1, 10**12)
"""Relative jumps of a formula at a switch that are below this are rounding of its constants; see `between`."""


def _length(c: Fraction, p) -> int:
    """Bits of c^p, about."""
    return 0 if abs(c) == 1 else int(abs(p)) * (c.numerator.bit_length() + c.denominator.bit_length())


def _short(c: Fraction) -> Fraction:
    if _length(c, 1) > _BITS:
        raise NotInAlgebra("its numbers have too many digits, so nothing can be proved about this formula.")
    return c


@dataclass(frozen=True)
class Predicate:
    """A condition that the domain leaves open: node of it, and where it compares, what with zero and how."""

    node: int
    op: str = ""
    difference: tuple = ()


class Polynomials:
    """The new program in the making; `domain` are the intervals of the inputs.   nodes, ranges: its own."""

    def __init__(self, domain: list[Interval]):
        self._intervals = OnIntervals([Interval(np.float64(x.lo), np.float64(x.hi)) for x in domain])
        self.nodes: list[Node] = []
        self.ranges: list = []
        self._known: dict = {}
        self._sums: dict[int, Polynomial] = {}
        self._polynomials: dict[int, Polynomial] = {}
        self._selections: dict[int, tuple[Predicate, Polynomial, Polynomial]] = {}
        self._joins = 0
        self.inputs = [self._atom(self.intern("input", (), k)) for k in range(len(domain))]
        self.n_inputs = len(domain)

    # ---- nodes

    def intern(self, op: str, args: tuple = (), value=None, exact: Fraction | None = None) -> int:
        """The number of a node, the same for the same operation; with its range on the domain.

        exact: tells a number that is known by an interval alone from others in the same interval.
        """
        key = (op, args, value if not isinstance(value, Interval) else (float(value.lo), float(value.hi), exact))
        if key not in self._known:
            self._known[key] = len(self.nodes)
            node = Node(op, args, value)
            self.nodes.append(node)
            with np.errstate(all="ignore"):
                self.ranges.append(self._intervals.apply(node, [self.ranges[a] for a in args]))
        return self._known[key]

    @staticmethod
    def _atom(node: int) -> Polynomial:
        return {((node, Fraction(1)),): Fraction(1)}

    def node_of(self, a: Polynomial) -> int:
        """The number of the node with this value."""
        if not a:
            return self.intern("const", (), Fraction(0))
        coefficient, factors = self.as_product(a)
        if not factors:
            return self.intern("const", (), coefficient)
        if coefficient == 1 and len(factors) == 1 and factors[0][1] == 1:
            return factors[0][0]
        nodes, powers = zip(*factors, strict=True)
        node = self.intern("term", nodes, (coefficient, powers))
        self._polynomials[node] = {factors: coefficient}
        return node

    def _nonnegative(self, node: int) -> bool:
        return bool(np.all(np.asarray(self.ranges[node].lo) >= 0))

    def _is_plain(self, factors) -> bool:
        return all(self.nodes[i].op in ("input", "const") for i, _ in factors)

    # ---- polynomials

    @staticmethod
    def number(value) -> Polynomial:
        return {(): Fraction(float(value))} if value else {}

    @staticmethod
    def add(a: Polynomial, b: Polynomial, *, sign: int = 1) -> Polynomial:
        total = dict(a)
        for factors, c in b.items():
            new = total.get(factors, 0) + sign * c
            if new:
                total[factors] = new
            else:
                total.pop(factors, None)
        return total

    def scaled(self, a: Polynomial, coefficient: Fraction, factors=()) -> Polynomial:
        """Each term times a monomial."""
        result: Polynomial = {}
        for own, c in a.items():
            number, merged = self._merged(own, factors)
            result = self.add(result, {merged: _short(c * coefficient * number)})
        return result

    def _merged(self, a, b):
        """(number, factors) of the product of factors."""
        powers = dict(a)
        for node, p in b:
            powers[node] = powers.get(node, Fraction(0)) + p
        number = Fraction(1)
        for node, p in list(powers.items()):
            whole = p.numerator // p.denominator
            if self.nodes[node].op == "const" and whole and _length(self.nodes[node].value, whole) <= _BITS:
                number *= self.nodes[node].value ** whole
                powers[node] = p - whole
        return number, tuple(sorted((i, p) for i, p in powers.items() if p))

    def mul(self, a: Polynomial, b: Polynomial) -> Polynomial:
        if not a or not b:
            return {}
        for x, y in ((a, b), (b, a)):
            if len(x) == 1:
                ((factors, c),) = x.items()
                if (self._is_plain(factors) and len(y) <= _LONGEST) or len(y) == 1:
                    return self.scaled(y, c, factors)
        (c, factors), (d, others) = self.as_product(a), self.as_product(b)
        number, merged = self._merged(factors, others)
        return {merged: _short(c * d * number)} if c * d else {}

    def power(self, a: Polynomial, p: Fraction) -> Polynomial:
        """a^p; what may be negative keeps a node of its own under a root."""
        if p == 1:
            return a
        c, factors = self.as_product(a)
        if not c:
            return {} if p > 0 else self._atom(self.intern("between", (), UNKNOWN))
        if p.denominator == 1 and _length(c, p) <= _BITS:
            number, merged = self._merged((), [(i, e * p) for i, e in factors])
            return {merged: c ** int(p) * number}
        inside: list[tuple[int, Fraction]] = []
        outside: list[tuple[int, Fraction]] = []
        for i, e in factors:
            (outside if self._nonnegative(i) else inside).append((i, e))
        if inside or c < 0:
            sign = -1 if c < 0 else 1
            outside.append((self.node_of({tuple(inside): Fraction(sign)}), Fraction(1)))
        constant = self.intern("const", (), abs(c))
        number, merged = self._merged((), [(i, e * p) for i, e in outside] + ([(constant, p)] if abs(c) != 1 else []))
        return {merged: number}

    def as_product(self, a: Polynomial) -> tuple[Fraction, Monomial]:
        """(coefficient, factors) of a polynomial that is not zero, with a node for the sum of several terms."""
        a = self._turned(self._joined(a))
        if not a:
            return Fraction(0), ()
        if len(a) == 1:
            ((factors, c),) = a.items()
            return c, factors
        keys = list(a)
        common = {i: p for i, p in keys[0] if all(i in dict(k) for k in keys)}
        for i in common:
            common[i] = min(dict(k)[i] for k in keys)
        shared = tuple(sorted((i, p) for i, p in common.items() if p))
        rest = self._expanded(self.scaled(a, Fraction(1), tuple((i, -p) for i, p in shared)))
        if len(rest) == 1:
            ((factors, c),) = rest.items()
            number, merged = self._merged(shared, factors)
            return c * number, merged
        if not rest:
            return Fraction(0), ()
        lead = max(rest.items(), key=lambda item: (abs(item[1]), item[0]))[1]
        terms = tuple(self.node_of({k: c / lead}) for k, c in sorted(rest.items()))
        node = self.intern("sum", terms)
        self._sums.setdefault(node, {k: c / lead for k, c in rest.items()})
        number, merged = self._merged(shared, [(node, Fraction(1))])
        return lead * number, merged

    def _expanded(self, a: Polynomial) -> Polynomial:
        """With sums multiplied out where terms cancel or join."""
        for factors, c in list(a.items()):
            found = [i for i, p in factors if i in self._sums and p == 1]
            rest = tuple((i, p) for i, p in factors if i not in found)
            if len(found) == 1 and self._is_plain(rest):
                others = {k: v for k, v in a.items() if k != factors}
                opened = self.add(others, self.scaled(self._sums[found[0]], c, rest))
                if len(opened) <= len(a):
                    return self._expanded(opened)
        return a

    def _turned(self, a: Polynomial) -> Polynomial:
        """With max(d, 0) as d - min(d, 0), or the other way round, where d cancels: x + (max(x, f) - x) = max(x, f)."""
        for factors, c in list(a.items()):
            for i, p in factors:
                node = self.nodes[i]
                rest = tuple(f for f in factors if f[0] != i)
                if p != 1 or node.op not in ("max0", "min0") or not self._is_plain(rest):
                    continue
                other = self.intern("min0" if node.op == "max0" else "max0", node.args)
                d = self._polynomials.get(node.args[0], self._atom(node.args[0]))
                whole = self.add(self._opened(d), self._atom(other), sign=-1)
                others = {k: v for k, v in a.items() if k != factors}
                turned = self.add(others, self.scaled(whole, c, rest))
                if len(turned) < len(a):
                    return self._turned(turned)
        return a

    def _opened(self, a: Polynomial) -> Polynomial:
        """With sums that are factors multiplied out, where nothing else but powers stands beside them."""
        result: Polynomial = {}
        for factors, c in a.items():
            found = [i for i, p in factors if i in self._sums and p == 1]
            if len(found) != 1:
                result = self.add(result, {factors: c})
                continue
            rest = tuple(f for f in factors if f[0] != found[0])
            result = self.add(result, self.scaled(self._sums[found[0]], c, rest))
        return result

    # ---- selections

    def _joined(self, a: Polynomial) -> Polynomial:
        """Selections by the same condition in one sum become one selection of sums.

        Each may hold others: nested ones double with every level, so there is an end to it.
        """
        groups: dict = {}
        if self._joins > _MOST_JOINS:
            return a
        for factors, c in a.items():
            found = [i for i, p in factors if i in self._selections and p == 1]
            rest = tuple((i, p) for i, p in factors if i not in found)
            if len(found) == 1 and self._is_plain(rest):
                predicate, no, yes = self._selections[found[0]]
                groups.setdefault(predicate, []).append((factors, self.scaled(no, c, rest), self.scaled(yes, c, rest)))
        for predicate, parts in groups.items():
            self._joins += 1
            no, yes = {}, {}
            for factors, n, y in parts:
                a = {k: c for k, c in a.items() if k != factors}
                no, yes = self.add(no, n), self.add(yes, y)
            a = self.add(a, self._selection(predicate, no, yes))
        return a

    def _selection(self, predicate: Predicate, no: Polynomial, yes: Polynomial) -> Polynomial:
        """What a condition d < 0 (or > 0) chooses; branches lambda d + mu use the sign that d has where they are taken.

        lambda d is lambda min(d, 0) where d < 0, so an enclosure never sees values from beyond the switch.
        """
        total: Polynomial = {}
        if predicate.op in ("lt0", "le0", "gt0", "ge0"):
            d = dict(predicate.difference)
            low = predicate.op in ("lt0", "le0")
            for branch, part in ((yes, "min0" if low else "max0"), (no, "max0" if low else "min0")):
                slope = self._slope(branch, d)
                if slope:
                    rest = self.add(branch, self.scaled(d, slope), sign=-1)
                    total = self.add(total, self.scaled(self._atom(self.intern(part, (self.node_of(d),))), slope))
                    no, yes = (no, rest) if branch is yes else (rest, yes)
        jump = self.add(yes, no, sign=-1)
        if not jump:
            return self.add(total, no)
        if list(jump) == [()] and abs(jump[()]) <= ROUNDING * max(
            abs(branch.get((), Fraction(0))) for branch in (no, yes)
        ):
            noise = self.intern("between", (predicate.node,), between(*sorted((jump[()], Fraction(0)))), jump[()])
            return self.add(self.add(total, no), self._atom(noise))
        node = self.intern("select", (predicate.node, self.node_of(no), self.node_of(yes)))
        self._selections.setdefault(node, (predicate, no, yes))
        return self.add(total, self._atom(node))

    def _slope(self, branch: Polynomial, d: Polynomial) -> Fraction | None:
        """lambda, where branch - lambda d is a number."""
        moving = {k: c for k, c in d.items() if k}
        if not moving or {k for k in branch if k} != set(moving):
            return None
        slopes = {branch[k] / c for k, c in moving.items()}
        return slopes.pop() if len(slopes) == 1 else None


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
            return [args]
        name = package_function(code.eqn)
        if name:  # of each entry of an array
            return [[self._known(name, a) for a in code.entries(args, self.constant)]]
        if not code.has_rule:
            raise NotInAlgebra(f"no enclosure of {code.name!r} is known: nothing can be proved of this formula.")
        flat = iter(evaluate(code.program, self, args))
        return [[next(flat) for _ in range(int(np.prod(v.aval.shape)))] for v in code.eqn.outvars]


_LOGICAL = frozenset("lt le gt ge eq ne and or not select_n convert_element_type copy copy_p".split())
"""Operations whose operands need not be numbers."""
_COMPARISONS = {"lt": "lt0", "le": "le0", "gt": "gt0", "ge": "ge0", "eq": "eq0", "ne": "ne0"}
_UNARY = frozenset(FUNCTIONS) - {"abs", "sign", "cbrt", "exp"}
_POWERS = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "square": Fraction(2)}


def factored(program: ScalarProgram, inputs, algebra: "Factored") -> list[Polynomial]:
    """The program's outputs for inputs that are polynomials; nodes are added to the algebra's, and to its `domain`
    the conditions under which they are defined."""
    outputs = evaluate(program, OnDomains(algebra), [Partial(a) for a in inputs])
    algebra.domain = algebra.domain.union(*(output.defined for output in outputs))
    values = [output.value for output in outputs]
    if not all(isinstance(value, dict) for value in values):
        raise NotInAlgebra("the formula's value is a truth value, a number is expected: write where(condition, 1, -1).")
    return values


def exponent(value: float) -> Fraction:
    """The fraction that a floating-point exponent of a functional stands for; never a whole number that it is not, of
    which negative numbers have powers."""
    near = Fraction(value).limit_denominator(48)
    stands_for = near.denominator > 1 and abs(float(near) - value) <= 2 * np.spacing(abs(value))
    return near if stands_for else Fraction(value)


class Factored(Polynomials):
    """The algebra of programs' operations on polynomials.   domain: where all that was read is defined, in clauses.

    literal: exponents are the numbers that they are, as in an inequality that is given as code.
    """

    def __init__(self, domain):
        super().__init__(domain)
        self.domain, self.literal = ALWAYS, False

    def program(self, outputs: list[Polynomial]) -> ScalarProgram:
        """The new program of these outputs, and, as the last one, of the truth value that they are defined."""
        results = (*map(self.node_of, outputs), self._truth_of(self.domain))
        return ScalarProgram(tuple(self.nodes), results, self.n_inputs)

    def _truth_of(self, clauses) -> int:
        literal = lambda predicate, truth: predicate.node if truth else self.intern("not", (predicate.node,))
        zero = self.intern("const", (), Fraction(0))
        ends = {True: self.intern("ge0", (zero,)), False: self.intern("gt0", (zero,))}
        nodes = {tuple(sorted(literal(*each) for each in clause)) or (ends[False],) for clause in clauses}
        joined = sorted({clause[0] if len(clause) == 1 else self.intern("or", clause) for clause in nodes})
        return self.intern("and", tuple(joined)) if len(joined) > 1 else joined[0] if joined else ends[True]

    def constant(self, value):
        if value.dtype.kind == "b":
            return bool(value)
        if value.dtype.kind in "iu":
            return int(value)
        if value.dtype.kind != "f":
            raise NotInAlgebra(f"numbers of type {value.dtype} are not known.")
        return self.number(value) if np.isfinite(value) else self._atom(self.intern("between", (), UNKNOWN))

    def select(self, predicate, no, yes):
        """The choice among polynomials, or among truth values."""
        if isinstance(predicate, bool):
            return yes if predicate else no
        if not isinstance(no, dict) or not isinstance(yes, dict):
            raise NotInAlgebra("a choice between conditions")
        return no if no == yes else self._selection(predicate, no, yes)

    def compare(self, op: str, a, b):
        """True, False, or a Predicate."""
        if not isinstance(a, dict) or not isinstance(b, dict):
            if isinstance(a, Predicate) or isinstance(b, Predicate):
                raise NotInAlgebra("a comparison of conditions")
            return bool(getattr(np, _NUMPY[op])(a, b))
        difference = self._joined(self.add(a, b, sign=-1))
        node = self.intern(_COMPARISONS[op], (self.node_of(difference),))
        truth = self.ranges[node]
        if np.all(truth.lo == truth.hi):
            return bool(truth.lo)
        return Predicate(node, _COMPARISONS[op], tuple(sorted(difference.items())))

    def _logic(self, op, *args):
        if not all(isinstance(a, bool | Predicate) for a in args):
            raise NotInAlgebra(f"the operation {op!r} of the bits of whole numbers is not known.")
        known = [a for a in args if isinstance(a, bool)]
        open_ones = [a for a in args if isinstance(a, Predicate)]
        if op == "not":
            return not known[0] if known else Predicate(self.intern("not", (open_ones[0].node,)))
        if not open_ones:
            return all(known) if op == "and" else any(known)
        if any(k is (op == "or") for k in known):
            return op == "or"
        if len(open_ones) == 1:
            return open_ones[0]
        return Predicate(self.intern(op, tuple(p.node for p in open_ones)))

    def _extreme(self, op, a, b):
        """max(a, b) = b + max(a - b, 0)."""
        difference = self.node_of(self.add(a, b, sign=-1))
        lo, hi = (np.asarray(end) for end in (self.ranges[difference].lo, self.ranges[difference].hi))
        if lo >= 0 or hi <= 0:
            return a if (lo >= 0) == (op == "max") else b
        part = self.intern("max0" if op == "max" else "min0", (difference,))
        return self.add(b, self._atom(part))

    def unary(self, name: str, a: Polynomial) -> Polynomial:
        if name == "exp":
            c, factors = self.as_product(a)
            if len(factors) == 1 and factors[0][1] == 1 and self.nodes[factors[0][0]].op == "log":
                return self.power(self._atom(self.nodes[factors[0][0]].args[0]), c)
        if name == "log1p" and a:
            found = self._log1p(a)
            if found is not None:
                return found
        node = self.node_of(a)
        if name == "sign" and self.ranges[node].lo > 0:
            return self.number(1.0)
        if name in ("abs", "cbrt") and self._nonnegative(node):
            return a if name == "abs" else self.power(a, Fraction(1, 3))
        return self._atom(self.intern(name, (node,)))

    def _log1p(self, a: Polynomial) -> Polynomial | None:
        """ln(1 + w (1 - G) + R), w = exp(u) - 1, as u + ln(1 + (exp(-u) - 1) G + exp(-u) R); None if a is not such.

        Gradient corrections are such logarithms beside a local correlation energy -u, which they cancel where G is
        small. Here -u + u is nothing, and what is left is small without a difference.
        """
        c, factors = self.as_product(a)
        for i, p in factors:
            if self.nodes[i].op == "expm1" and p == 1:  # w (1 - G)
                rest = {tuple(f for f in factors if f[0] != i): c}
                return self._rewritten(i, self.add(self.number(1.0), self._opened(rest), sign=-1), {})
        for i, p in factors:
            if i in self._sums and p == -1:  # w (S - S_0) / S
                S = self._sums[i]
                above = self._opened({tuple(f for f in factors if f[0] != i): c})
                for w in {k for f in S for k, _ in f if self.nodes[k].op == "expm1"}:
                    lead = S.get((), Fraction(0))
                    if not lead:
                        continue
                    target = self.scaled(self.add(S, {(): lead}, sign=-1), Fraction(1), ((w, Fraction(1)),))
                    residual = self.add(above, target, sign=-1)
                    if all(abs(v) <= ROUNDING * abs(target.get(k, Fraction(0))) for k, v in residual.items()):
                        over: Polynomial = {((i, Fraction(-1)),): Fraction(1)}
                        return self._rewritten(w, self.scaled(over, lead), self.mul(residual, over))
        return None

    def _rewritten(self, w: int, G: Polynomial, R: Polynomial) -> Polynomial:
        minus_u = self.scaled(self._atom(self.nodes[w].args[0]), Fraction(-1))
        u = self._polynomials.get(self.nodes[w].args[0], self._atom(self.nodes[w].args[0]))
        small = self.mul(self.unary("expm1", minus_u), G)
        if R:
            small = self.add(small, self.mul(self.unary("exp", minus_u), R))
        return self.add(u, self._atom(self.intern("log1p", (self.node_of(small),))))

    def apply(self, node, args):
        op = node.op
        if op not in _LOGICAL and not all(isinstance(a, dict) for a in (args[:1] if op == "pow" else args)):
            raise NotInAlgebra(f"the operation {op!r} of truth values or whole numbers is not known.")
        if op not in _LOGICAL and not node.real and op != "is_finite":
            raise NotInAlgebra(f"the operation {op!r} of other numbers than float64 rounds.")
        if op in ("add", "add_any", "sub"):
            return self.add(*args, sign=-1 if op == "sub" else 1)
        if op == "mul":
            return self.mul(*args)
        if op == "div":
            return self.mul(args[0], self.power(args[1], Fraction(-1)))
        if op == "neg":
            return self.scaled(args[0], Fraction(-1))
        if op in _POWERS:
            return self.power(args[0], _POWERS[op])
        if op == "integer_pow":
            return self.power(args[0], Fraction(node.params["y"])) if node.params["y"] else self.number(1.0)
        if op == "one_minus_square":
            return self.add(self.number(1.0), self.power(args[0], Fraction(2)), sign=-1)
        if op == "pow":
            return self._general_power(*args)
        if op in ("max", "min"):
            return self._extreme(op, *args)
        if op in _UNARY or op in ("exp", "abs", "cbrt", "sign"):
            return self.unary(op, args[0])
        return self._other(node, args)

    def constant_exponent(self, b) -> Fraction | None:
        """The exponent that a value stands for, None where it varies."""
        if isinstance(b, int):
            return Fraction(b)
        if not set(b) <= {()}:
            return None
        exact = Fraction(b.get((), 0))
        near = float(exact) if abs(exact) < 2**60 else 0.0
        return exact if self.literal or near != exact else exponent(near)  # what was computed is no rounded fraction

    def _general_power(self, a, b):
        p = self.constant_exponent(b)
        if p is not None:
            return self.power(a, p) if p else self.number(1.0)
        return self.unary("exp", self.mul(b, self.unary("log", a)))

    def _whole(self, value: int) -> Polynomial:
        if int(float(value)) != value:
            raise NotInAlgebra(f"the whole number {value} is rounded to float64.")
        return self.number(float(value))

    def _other(self, node, args):
        op = node.op
        if op in _COMPARISONS:
            return self.compare(op, *args)
        if op in ("and", "or", "not"):
            return self._logic(op, *args)
        if op == "is_finite":  # about rounding, of which algebra knows nothing: no two of them are the same
            nothing = Interval(float("nan"), float("nan"))  # these two equal no others, as keys of a node either
            return self.compare("gt", self._atom(self.intern("between", (), nothing)), {})
        if op == "exp2":
            return self.unary("exp", self.mul(args[0], self.unary("log", self.number(2.0))))
        if op == "clamp":
            return self._extreme("min", self._extreme("max", args[1], args[0]), args[2])
        if op in ("convert_element_type", "copy", "copy_p") and node.real:
            if isinstance(args[0], dict):
                return args[0]
            if isinstance(args[0], int):
                return self._whole(args[0])
            return self.select(args[0], {}, self.number(1.0))
        raise NotInAlgebra(f"no enclosure of the operation {op!r} is known: nothing can be proved of this formula.")


_NUMPY = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
