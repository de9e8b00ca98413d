"""Cheaper products and sums in scalar code that runs on vectors.

The order in which a derivative comes out is not the one in which it is computed best. Every value is held as a product
c u_1 u_2 ... v_1 v_2 ...: a number, factors that are the same for a whole vector, and vectors. Products only collect
factors, sums take common factors out, and a product is carried out where another operation needs it: first the uniform
factors, which cost nothing per element. For VV10 this halves the time per pair, as fewer intermediate vectors remain.
"""

from collections import Counter

import jax
import numpy as np

from dftfd.autofd.scalars import Node, ScalarProgram, _Builder

_SIGNS = {"add": (1.0, 1.0), "sub": (1.0, -1.0)}


def regrouped(program: ScalarProgram, uniform) -> ScalarProgram:
    """An equal program up to rounding; inputs at positions `uniform` are the same for all elements of the vectors."""
    return _Regrouping(program, frozenset(uniform)).result()


class _Regrouping:
    """values[i] = (number, uniform factors, vector factors); factors are sorted numbers of nodes of the new program."""

    def __init__(self, program, uniform):
        self.program, self.uniform = program, uniform
        self.build = _Builder()
        self.values: dict[int, tuple] = {}

    def result(self) -> ScalarProgram:
        for i in self.program.needed:
            self.values[i] = self._value(self.program.nodes[i])
        outputs = tuple(self._formed(self.values[i]) for i in self.program.outputs)
        return ScalarProgram(tuple(self.build.nodes), outputs, self.program.n_inputs)

    def _value(self, node):
        args = [self.values[a] for a in node.args]
        if node.op == "const" and node.value.dtype == np.float64 and node.value != 0 and np.isfinite(node.value):
            return float(node.value), (), ()
        if not node.real:
            return self._opaque(node, args)
        if node.op == "mul":
            (c, u, v), (d, s, w) = args
            return c * d, _sorted(u, s), _sorted(v, w)
        if node.op == "neg":
            return -args[0][0], *args[0][1:]
        if node.op in _SIGNS:
            return self._sum(node, *args)
        return self._opaque(node, args)

    def _opaque(self, node, args):
        """The result of an operation, as a factor."""
        ids = tuple(map(self._formed, args))
        number = self.build.intern(Node(node.op, ids, node.value, node.primitive, node.params, node.real))
        uniform = node.value in self.uniform if node.op == "input" else not any(v for _, _, v in args)
        return (1.0, (number,), ()) if uniform else (1.0, (), (number,))

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
            args = self._formed(a), self._formed((1.0, *b[1:]))
            number = self.build.intern(Node("sub", args, None, jax.lax.sub_p))
        else:
            number = self.build.sum(self._formed(a), self._formed(b))
        return (1.0, (number,), ()) if uniform else (1.0, (), (number,))

    def _formed(self, value) -> int:
        """The number of the node that holds the product."""
        coefficient, uniform, vectors = value
        number = None
        if coefficient != 1.0 or not (uniform or vectors):
            number = self.build.intern(Node("const", value=np.float64(coefficient)))
        for factor in uniform:
            number = factor if number is None else self.build.product(number, factor)
        vector = None
        for factor in vectors:
            vector = factor if vector is None else self.build.product(vector, factor)
        if number is None or vector is None:
            return vector if number is None else number
        return self.build.product(number, vector)


def _sorted(a, b):
    return tuple(sorted(a + b))


def _common(a, b):
    return tuple((Counter(a) & Counter(b)).elements())


def _without(a, removed):
    return tuple(sorted((Counter(a) - Counter(removed)).elements()))
