"""Sums of products of powers with rational coefficients, over the nodes of a program in the making.

A value is a polynomial {((node, exponent), ...): coefficient}. Sums and products are exact; what is not a sum of
products becomes a node. See factored.py for the nodes there are.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dftfd.autofd.scalar.on_objects import NotInAlgebra
from dftfd.autofd.scalar.program import Node
from dftfd.verify.enclosures import OnIntervals
from dftfd.verify.intervals import UNKNOWN, Interval, between

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
