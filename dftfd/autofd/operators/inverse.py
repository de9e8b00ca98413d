"""Registry of inverses: what the transpose of f -> f(g) with respect to f needs.

<f(g), ct> = int f(g(x)) ct(x) w(x) dx = int f(y) ct(g^-1(y)) |det D g^-1(y)| w(g^-1(y)) dy

An inverse is registered for code; functions that carry arrays pass them on to it: g(a, x) has the inverse g_inv(a, y).
Compositions of invertible functions are inverted factor by factor.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.domain import Domain, same_spec
from dftfd.autofd.function import Function
from dftfd.autofd.operators.broadcast import Broadcast
from dftfd.autofd.operators.closure import Frozen, label_of
from dftfd.autofd.operators.compose import composition
from dftfd.autofd.operators.leaf import identity, leaf
from dftfd.autofd.structure import HasKey, structural_key
from dftfd.errors import NoRuleError, SignatureError

_inverses: dict = {}


def register_inverse(g, g_inverse, logabsdet=None):
    """Declare that g_inverse is the inverse of g.

    g, g_inverse: Functions of one argument, or Python code that takes the same arrays before the point.
    logabsdet: code of the same arguments as g_inverse, log |det D g_inverse(y)|; differentiated numerically if absent.
    """
    code, inverse = _code_of(g), _code_of(g_inverse)
    _inverses[_source_key(code)] = (inverse, logabsdet)
    _inverses.setdefault(_source_key(inverse), (code, None))


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
        inverse = code.inverse()
        return None if inverse is None else (inverse, None)
    return _inverses.get(_source_key(code))


def _source_key(code):
    """Key of code as it was written, whatever function was made of it."""
    return code.source_key if isinstance(code, Frozen) else structural_key(code)


def inverse_of(g: Function, domain: Domain) -> tuple[Function, Function]:
    """(g^-1, log |det D g^-1|) as Functions on `domain`, the space of g's values; NoRuleError if none is known."""
    if g.tags:
        raise NoRuleError(f"the inverse of {g!r} is needed, but g itself is being differentiated; there is no rule.")
    if g.operator is composition and len(g.operands) == 2:
        outer, inner = g.operands
        outer_inverse, outer_det = inverse_of(outer, domain)
        inner_inverse, inner_det = inverse_of(inner, outer.domains[0])
        return inner_inverse(outer_inverse), outer_det + inner_det(outer_inverse)
    found = _registered(g.static["code"]) if g.operator is leaf else None
    if found is None:
        raise NoRuleError(
            f"the inverse of {g!r} is needed and none is registered: call register_inverse(g, g_inverse)."
        )
    inverse, logabsdet = found
    value = Function(leaf, (), g.arrays, {"code": inverse, "domains": (domain,)})
    det = LogAbsDet(inverse) if logabsdet is None else logabsdet
    return value, Function(leaf, (), g.arrays, {"code": det, "domains": (domain,)})


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
    """y -> ct(g^-1(y)) |det D g^-1(y)| w(g^-1(y)) / w(y), the density that ct becomes under x -> y = g(x).

    inner: g_1..g_n, each a function of one argument of its own; together they use every argument of ct.
    target: the domains of y_1..y_n.
    """
    from dftfd.autofd.elementary import exp
    from dftfd.autofd.operators.broadcast import broadcast
    from dftfd.autofd.operators.compose import compose

    source, place, factor = ct.domains, {}, None
    for i, (g, domain) in enumerate(zip(inner, target, strict=True)):
        position, h = _own_argument(g)
        if position in place or not same_spec(h.domains[0].spec, domain.spec):
            raise NoRuleError(
                f"the transpose with respect to a function of {', '.join(map(repr, inner))} needs each of these to be "
                "an invertible function of its own argument."
            )
        value, logdet = inverse_of(h, domain)
        scale = exp(logdet) * _density_ratio(value, source[position], domain)
        place[position] = broadcast(value, target, (i,))
        scale = broadcast(scale, target, (i,))
        factor = scale if factor is None else factor * scale
    if len(place) != len(source):
        raise NoRuleError(f"{', '.join(map(repr, inner))} do not use all arguments, so they have no inverse.")
    moved = compose(ct, *(place[k] for k in range(len(source))))
    return moved * factor


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


def _density_ratio(inverse, source, target):
    """w(g^-1(y)) / w(y) of the two measures' densities."""
    from dftfd.autofd.operators.leaf import function

    ratio = 1.0
    if source.density is not None:
        ratio = ratio * function(source.density, source)(inverse)
    if target.density is not None:
        ratio = ratio / function(target.density, target)
    return ratio


def _identity_inverse():
    code = identity(Domain(())).static["code"]
    register_inverse(code, code, _zero)


def _zero(y):
    return jnp.zeros((), jnp.result_type(y))


_identity_inverse()
