"""Cheaper products: factors that are the same for a whole vector are kept apart and multiplied on last.

In a loop over columns whose body works on vectors of rows, a number known of the column alone costs nothing, but in
the order in which a derivative comes out it multiplies many vectors. Every value is therefore held as s v: s a product
of such numbers, v a vector. Products multiply both parts, sums of equal s are formed of the v, and s v is formed only
where another operation needs it. The accumulation that follows then fuses multiplication and addition.
"""

import jax
import numpy as np

from dftfd.autofd.scalars import Node, ScalarProgram, _Builder

_SIGNS = {"add": (1.0, 1.0), "sub": (1.0, -1.0)}


def regrouped(program: ScalarProgram, uniform) -> ScalarProgram:
    """An equal program; inputs in `uniform` (positions) and all that follows from them alone are kept apart."""
    return _Regrouping(program, frozenset(uniform)).result()


class _Regrouping:
    """values[i] = (coefficient, numbers of the uniform factors, number of the vector or None)."""

    def __init__(self, program, uniform):
        self.program, self.uniform = program, uniform
        self.build = _Builder()
        self.values: dict[int, tuple] = {}
        self._is_uniform: dict[int, bool] = {}

    def result(self) -> ScalarProgram:
        for i in self.program.needed:
            self.values[i] = self._value(self.program.nodes[i])
        outputs = tuple(self._formed(self.values[i]) for i in self.program.outputs)
        return ScalarProgram(tuple(self.build.nodes), outputs, self.program.n_inputs)

    def _value(self, node):
        args = [self.values[a] for a in node.args]
        if node.op == "const" and node.value.dtype == np.float64 and node.value != 0 and np.isfinite(node.value):
            return float(node.value), (), None
        if node.op == "mul":
            return self._product(*args)
        if node.op == "neg":
            return -args[0][0], *args[0][1:]
        if node.op in _SIGNS and not all(a[2] is None for a in args):
            return self._sum(node, args, _SIGNS[node.op])
        number = self.build.intern(
            Node(node.op, tuple(map(self._formed, args)), node.value, node.primitive, node.params)
        )
        uniform = node.value in self.uniform if node.op == "input" else all(self._uniform(a) for a in args)
        return (1.0, (number,), None) if uniform else (1.0, (), number)

    def _uniform(self, value):
        return value[2] is None

    def _product(self, a, b):
        vectors = [v for v in (a[2], b[2]) if v is not None]
        vector = self.build.product(*vectors) if len(vectors) == 2 else vectors[0] if vectors else None
        return a[0] * b[0], tuple(sorted(a[1] + b[1])), vector

    def _sum(self, node, args, signs):
        (c, s, v), (d, t, w) = args
        c, d = c * signs[0], d * signs[1]
        if s == t and v is not None and w is not None and abs(c) == abs(d):
            if c == d:
                return c, s, self.build.sum(v, w)
            return c, s, self.build.intern(Node("sub", (v, w), None, jax.lax.sub_p))
        number = self.build.intern(Node(node.op, tuple(map(self._formed, args)), None, node.primitive, node.params))
        return 1.0, (), number

    def _formed(self, value) -> int:
        """The number of s v."""
        coefficient, factors, vector = value
        number = None
        if coefficient != 1.0 or (not factors and vector is None):
            number = self.build.intern(Node("const", value=np.float64(coefficient)))
        for factor in factors:
            number = factor if number is None else self.build.product(number, factor)
        if vector is None:
            return number
        return vector if number is None else self.build.product(number, vector)
