"""Registry of inverses: what the transpose of f -> f(g) with respect to f needs.

<f(g), ct> = int f(g(x)) ct(x) w(x) dx = int f(y) sum_b ct(x_b) |det D g_b^-1(y)| w(x_b) dy,   x_b = g_b^-1(y),

the sum over the branches of the inverse whose x_b lie in the space of x: nothing where y is no value of g, several
terms where g takes a value several times. What is registered and what the spaces declare is tried before it is used;
see `dftfd.autofd.operators.substitution`.

An inverse is registered for code; functions that carry arrays pass them on to it: g(a, x) has the inverse g_inv(a, y).
Compositions of invertible functions are inverted factor by factor.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.domain import Domain, same_spec
from dftfd.autofd.function import Function
from dftfd.autofd.operators.broadcast import Broadcast, permute
from dftfd.autofd.operators.closure import Frozen, label_of
from dftfd.autofd.operators.compose import composition
from dftfd.autofd.operators.dirac import dirac, image, separate
from dftfd.autofd.operators.leaf import identity, leaf
from dftfd.autofd.structure import HasKey, structural_key
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
        if g.operator is not leaf or len(g.domains) != 1:
            raise SignatureError(f"register_inverse takes functions of one argument given by code, {g!r} found.")
        return g.static["code"]
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
    if g.operator is composition and len(g.operands) == 2:
        outer, inner = g.operands
        return [
            (x(y), outer_det + inner_det(y))
            for y, outer_det in branches_of(outer, domain)
            for x, inner_det in branches_of(inner, outer.domains[0])
        ]
    found = _registered(g.static["code"]) if g.operator is leaf else None
    if found is None:
        raise NoRuleError(
            f"the inverse of {g!r} is needed and none is registered: call register_inverse(g, g_inverse)."
        )
    return [
        (_on(inverse, g, domain), _on(LogAbsDet(inverse) if det is None else det, g, domain)) for inverse, det in found
    ]


def _on(code, g, domain):
    return Function(leaf, (), g.arrays, {"code": code, "domains": (domain,)})


class LogAbsDet(HasKey):
    """log |det D code| of code of (*arrays, y)."""

    def __init__(self, code):
        self.code, self.__name__ = code, f"log|det D {label_of(code)}|"

    def __call__(self, *args):
        *arrays, y = args
        jacobian = jax.jacfwd(lambda y: self.code(*arrays, y))(y)
        size = int(np.prod(jnp.shape(y), dtype=int))
        return jnp.linalg.slogdet(jnp.reshape(jacobian, (size, size)))[1]

    def structural_key(self):
        return ("log det", structural_key(self.code))


def transport(ct: Function, inner: tuple[Function, ...], target: tuple[Domain, ...]) -> Function:
    """What ct becomes under x -> y = (g_1, ..., g_n)(x): a Function on `target`, or a distribution.

    It is a function if each g is a known one-to-one map of an argument of its own onto its space, else the image of
    ct, which integrals consume; see `dirac`. Where all g are constant these are Dirac terms.
    ct is integrated over the arguments that no g uses.   target: the domains of y_1..y_n.
    """
    from dftfd.autofd.operators.integrate import integrate_over
    from dftfd.autofd.operators.substitution import check_values, constant_value, substituted

    inner = tuple(inner)
    if ct.singular:
        return _transported_dirac(ct, inner, target)
    for g, domain in zip(inner, target, strict=True):
        check_values(g, domain)
    points = {i: constant_value(g) for i, g in enumerate(inner)}
    points = {i: p for i, p in points.items() if p is not None}
    if len(points) == len(inner):
        return dirac(integrate_over(ct, tuple(range(len(ct.domains)))), target, tuple(points), points.values())
    masked, reason, density = False, "", None
    try:
        own, moved = _own_arguments(inner, target), ct
        for position, i, h in own:
            moved, jumps = substituted(moved, position, h, target[i])
            masked = masked or jumps
        unused = tuple(k for k in range(len(ct.domains)) if k not in [p for p, *_ in own])
        density = permute(integrate_over(moved, unused), np.argsort([i for _, i, _ in sorted(own, key=lambda o: o[0])]))
    except NoRuleError as error:
        reason = str(error)
    if density is not None and not masked:
        return density
    return image(ct, ct.domains, target, tuple(range(len(target))), inner, density, reason)


def _own_arguments(inner, target):
    """[(number of the argument, i, h)] with g_i(x_1, x_2, ...) = h(x_number), the numbers different."""
    own = []
    for i, (g, domain) in enumerate(zip(inner, target, strict=True)):
        position, h = _own_argument(g)
        if position in [p for p, *_ in own] or not same_spec(h.domains[0].spec, domain.spec):
            raise NoRuleError(
                f"the transpose with respect to a function of {', '.join(map(repr, inner))} has values if each of "
                "these is an invertible function of its own argument."
            )
        own.append((position, i, h))
    return own


def _transported_dirac(ct, inner, target):
    """s delta(x - x0) becomes s delta(y - g(x0))."""
    regular, terms = separate(ct)
    parts = [] if regular is None else [transport(regular, inner, target)]
    for t in terms:
        if t.sources or len(t.argnums) != len(ct.domains):
            raise NoRuleError(f"the image of {ct!r}, a distribution in some arguments, has no rule.")
        point = [t.points[t.argnums.index(i)] for i in range(len(t.argnums))]
        parts.append(dirac(t.strength, target, tuple(range(len(target))), [g(*point) for g in inner]))
    return functools.reduce(operator.add, parts)


def _own_argument(g):
    """(k, h) if g(x_1, x_2, ...) = h(x_k)."""
    if isinstance(g.operator, Broadcast) and len(g.static["argnums"]) == 1:
        return g.static["argnums"][0], g.operands[0]
    if g.operator is composition and len(g.operands) == 2:
        outer, inner = g.operands
        position, h = _own_argument(inner)
        return position, Function(composition, (outer, h))
    if len(g.domains) != 1:
        raise NoRuleError(f"{g!r} is a function of {len(g.domains)} arguments, so it has no inverse.")
    return 0, g


def _identity_inverse():
    code = identity(Domain(())).static["code"]
    register_inverse(code, code, _zero)


def _zero(y):
    return jnp.zeros((), jnp.result_type(y))


_identity_inverse()
