"""braket: <l|r> = integral of conj(l) r.   A case of compose and integrate, which have the rules.

With JAX's convention for complex derivatives, dE = Re int (grad E) df, the gradient of <f|f> is 2 conj(f).
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.function import Function, check_same_domains
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import SignatureError


def braket(left: Function, right: Function, *, real: bool = False) -> Any:
    """Integral over all arguments of conj(left) right, summed over the entries of array and tree values.

    real: the real part, which a functional to be differentiated must return.
    """
    check_same_domains(left, right, "braket")
    if [x.shape for x in tree_leaves(left.result)] != [x.shape for x in tree_leaves(right.result)]:
        raise SignatureError(f"braket of functions with results of different shape: {left!r} and {right!r}.")
    return op.integrate(op.compose(ConjugateProduct(real), left, right))


class ConjugateProduct(Code):
    """(l, r) -> sum of conj(l) r over all entries."""

    __name__ = "conj(l) r"

    def __init__(self, real=False):
        self.real = real

    def __call__(self, left, right):
        total = sum(tree_leaves(tree_map(lambda l, r: jnp.sum(jnp.conj(l) * r), left, right)))
        return jnp.real(total) if self.real else total
