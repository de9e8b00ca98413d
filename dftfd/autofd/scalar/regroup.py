"""Cheaper products and sums in scalar code that runs on vectors.

The order in which a derivative comes out is not the one in which it is computed best. Every value is held as a product
c u_1 u_2 ... v_1 v_2 ...: a number, factors that are the same for a whole vector, and vectors. Products only collect
factors, sums take common factors out, and a product is carried out where another operation needs it: first the uniform
factors, which cost nothing per element. For VV10 this halves the time per pair, as fewer intermediate vectors remain.
"""

import functools
from collections import Counter
from dataclasses import replace

import numpy as np

from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.simplify import ENTRIES, Nodes

_SIGNS = {"add": (1.0, 1.0), "sub": (1.0, -1.0)}


def regrouped(program: ScalarProgram, uniform) -> ScalarProgram:
    """An equal program up to rounding; inputs at positions `uniform` are the same for all elements of the vectors."""
    products, uniform = Products(), frozenset(uniform)
    inputs = [products.factor(Node("input", value=k), k in uniform) for k in range(program.n_inputs)]
    outputs = tuple(map(products.formed, evaluate(program, products, inputs)))
    return ScalarProgram(tuple(products.build.nodes), outputs, program.n_inputs)


class Products:
    """Scalars (number, uniform factors, vector factors); factors are sorted numbers of nodes of the new program."""

    def __init__(self):
        self.build = Nodes(ENTRIES)

    def factor(self, node, uniform: bool):
        """A node of the new program as a factor."""
        number = (self.build.intern(node),)
        return (1.0, number, ()) if uniform else (1.0, (), number)

    def constant(self, value):
        if value.dtype == np.float64 and value != 0 and np.isfinite(value):
            return float(value), (), ()
        return self.factor(Node("const", value=value), uniform=True)

    def apply(self, node, args):
        if node.real and node.op == "mul":
            (c, u, v), (d, s, w) = args
            return c * d, _sorted(u, s), _sorted(v, w)
        if node.real and node.op == "neg":
            return -args[0][0], *args[0][1:]
        if node.real and node.op in _SIGNS:
            return self._sum(node, *args)
        uniform = not any(v for _, _, v in args)
        return self.factor(replace(node, args=tuple(map(self.formed, args))), uniform)

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
            args = self.formed(a), self.formed((1.0, *b[1:]))
            number = self.build.plain("sub", args)
        else:
            number = self.build.sum(self.formed(a), self.formed(b))
        return (1.0, (number,), ()) if uniform else (1.0, (), (number,))

    def formed(self, value) -> int:
        """The number of the node that holds the product."""
        coefficient, uniform, vectors = value
        first = [self.build.number(coefficient)] if coefficient != 1.0 or not (uniform or vectors) else []
        groups = [functools.reduce(self.build.product, group) for group in ([*first, *uniform], vectors) if group]
        return functools.reduce(self.build.product, groups)


def _sorted(a, b):
    return tuple(sorted(a + b))


def _common(a, b):
    return tuple((Counter(a) & Counter(b)).elements())


def _without(a, removed):
    return tuple(sorted((Counter(a) - Counter(removed)).elements()))
