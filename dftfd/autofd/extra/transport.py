"""The transpose of f -> f(g) with respect to f: a density moves with y = g(x).

<f(g), ct> = int f(g(x)) ct(x) w(x) dx = int f(y) sum_b ct(x_b) |det D g_b^-1(y)| w(x_b) dy,   x_b = g_b^-1(y),

the sum over the branches of the inverse whose x_b lie in the space of x: nothing where y is no value of g, several
terms where g takes a value several times. What is registered and what the spaces declare is tried before it is used;
see `substitution`.
"""

import functools
import operator

import numpy as np

from dftfd.autofd.core.domain import Domain, same_spec
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.extra.substitution import check_values, constant_value, substituted
from dftfd.errors import NoRuleError


@op.register
def transport(ct: Function, inner: tuple[Function, ...], target: tuple[Domain, ...]) -> Function:
    """What ct becomes under x -> y = (g_1, ..., g_n)(x): a Function on `target`, or a distribution.

    It is a function if each g is a known one-to-one map of an argument of its own onto its space, else the image of
    ct, which integrals consume; see `dirac`. Where all g are constant these are Dirac terms.
    ct is integrated over the arguments that no g uses.   target: the domains of y_1..y_n.
    """
    inner = tuple(inner)
    if ct.singular:
        return _transported_dirac(ct, inner, target)
    for g, domain in zip(inner, target, strict=True):
        check_values(g, domain)
    points = {i: constant_value(g) for i, g in enumerate(inner)}
    points = {i: p for i, p in points.items() if p is not None}
    if len(points) == len(inner):
        return op.dirac(op.integrate_over(ct, tuple(range(len(ct.domains)))), target, tuple(points), points.values())
    masked, reason, density = False, "", None
    try:
        own, moved = _own_arguments(inner, target), ct
        for position, i, h in own:
            moved, jumps = substituted(moved, position, h, target[i])
            masked = masked or jumps
        unused = tuple(k for k in range(len(ct.domains)) if k not in [p for p, *_ in own])
        density = op.permute(
            op.integrate_over(moved, unused), np.argsort([i for _, i, _ in sorted(own, key=lambda o: o[0])])
        )
    except NoRuleError as error:
        reason = str(error)
    if density is not None and not masked:
        return density
    return op.image(ct, ct.domains, target, tuple(range(len(target))), inner, density, reason)


def _own_arguments(inner, target):
    """[(number of the argument, i, h)] with g_i(x_1, x_2, ...) = h(x_number), the numbers different."""
    own: list[tuple[int, int, Function]] = []
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
    regular, terms = op.separate(ct)
    parts = [] if regular is None else [transport(regular, inner, target)]
    for t in terms:
        if t.sources or len(t.argnums) != len(ct.domains):
            raise NoRuleError(f"the image of {ct!r}, a distribution in some arguments, has no rule.")
        point = [t.points[t.argnums.index(i)] for i in range(len(t.argnums))]
        parts.append(op.dirac(t.strength, target, tuple(range(len(target))), [g(*point) for g in inner]))
    return functools.reduce(operator.add, parts)


def _own_argument(g):
    """(k, h) if g(x_1, x_2, ...) = h(x_k)."""
    if g.operator.name == "broadcast" and len(g.static["argnums"]) == 1:
        return g.static["argnums"][0], g.operands[0]
    if g.operator.name == "compose" and len(g.operands) == 2:
        outer, inner = g.operands
        position, h = _own_argument(inner)
        return position, op.compose(outer, h)
    if len(g.domains) != 1:
        raise NoRuleError(f"{g!r} is a function of {len(g.domains)} arguments, so it has no inverse.")
    return 0, g
