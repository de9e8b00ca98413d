"""Proof that scalar code keeps its value when inputs are exchanged.

Every expression gets a normal form: a number times a product of powers, or a number times a sum, of normal forms.
Sums and products are sorted, so a + b and b + a, (r - s)^2 and (s - r)^2 have the same one. If the code and the code
with exchanged inputs have the same normal form, they are equal: a proof, while unequal forms prove nothing.
"""

import math
from collections import Counter

from dftfd.autofd.scalar.program import ScalarProgram, evaluate

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
