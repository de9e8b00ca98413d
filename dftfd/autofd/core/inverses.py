"""Registry of inverses: what the transpose of f -> f(g) with respect to f needs to know of g.

An inverse is registered for code; functions that carry arrays pass them on to it: g(a, x) has the inverse g_inv(a, y).
Compositions of invertible functions are inverted factor by factor.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.closure import Frozen, label_of
from dftfd.autofd.core.domain import Domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.structure import Code, structural_key
from dftfd.errors import NoRuleError, SignatureError

_inverses: dict = {}


def register_inverse(g: Callable, g_inverse: Any, logabsdet: Any = None) -> None:
    """Declare that g_inverse is the inverse of g, or, as a tuple, the inverses of the parts on which g is one-to-one.

    g, g_inverse: Functions of one argument, or Python code that takes the same arrays before the point.
    logabsdet: code of the same arguments as g_inverse, log |det D g_inverse(y)|, or a tuple of such codes;
        differentiated numerically if absent.
    A branch returns any number, NaN included, where g has no such value: x = g_inverse(y) counts if g(x) = y and x lies
    in the space of x.
    """
    code = _code_of(g)
    several = isinstance(g_inverse, tuple | list)
    branches = [_code_of(b) for b in (g_inverse if several else (g_inverse,))]
    dets = list(logabsdet) if isinstance(logabsdet, tuple | list) else [logabsdet] * (len(branches) == 1)
    if logabsdet is None:
        dets = [None] * len(branches)
    if not branches or len(dets) != len(branches):
        raise SignatureError(f"register_inverse: {len(branches)} branches and {len(dets)} determinants; one each.")
    _inverses[_source_key(code)] = list(zip(branches, dets, strict=True))
    if len(branches) == 1:
        _inverses.setdefault(_source_key(branches[0]), [(code, None)])


def _code_of(g):
    if isinstance(g, Function):
        if g.code is None or len(g.domains) != 1:
            raise SignatureError(f"register_inverse takes functions of one argument given by code, {g!r} found.")
        return g.code
    if not callable(g):
        raise SignatureError(f"register_inverse takes Functions or code, {g!r} found.")
    return g


def _registered(code):
    if hasattr(code, "inverse"):  # code that knows its own, such as arithmetic with a number
        return [(branch, None) for branch in code.inverse()] or None
    return _inverses.get(_source_key(code))


def _source_key(code):
    """Key of code as it was written, whatever function was made of it."""
    return code.source_key if isinstance(code, Frozen) else structural_key(code)


def branches_of(g: Function, domain: Domain) -> list[tuple[Function, Function]]:
    """[(g_b^-1, log |det D g_b^-1|)] as Functions on `domain`, the space of g's values; NoRuleError if unknown."""
    if g.tags:
        raise NoRuleError(f"the inverse of {g!r} is needed, but g itself is being differentiated; there is no rule.")
    if g.operator.name == "compose" and len(g.operands) == 2:
        outer, inner = g.operands
        return [
            (x(y), outer_det + inner_det(y))
            for y, outer_det in branches_of(outer, domain)
            for x, inner_det in branches_of(inner, outer.domains[0])
        ]
    found = _registered(g.code) if g.code is not None else None
    if found is None:
        raise NoRuleError(
            f"the inverse of {g!r} is needed and none is registered: call register_inverse(g, g_inverse)."
        )
    return [
        (_on(inverse, g, domain), _on(LogAbsDet(inverse) if det is None else det, g, domain)) for inverse, det in found
    ]


def _on(code, g, domain):
    return Function(g.operator, (), g.arrays, {"code": code, "domains": (domain,)})


class LogAbsDet(Code):
    """log |det D code| of code of (*arrays, y)."""

    def __init__(self, code):
        self.code, self.__name__ = code, f"log|det D {label_of(code)}|"

    def __call__(self, *args):
        *arrays, y = args
        jacobian = jax.jacfwd(lambda y: self.code(*arrays, y))(y)
        size = int(np.prod(jnp.shape(y), dtype=int))
        return jnp.linalg.slogdet(jnp.reshape(jacobian, (size, size)))[1]
