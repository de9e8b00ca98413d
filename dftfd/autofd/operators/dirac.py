"""Dirac distributions: s(x) delta(y - y0), the transpose of fixing the argument y of a function at y0.

<h, s delta> = int h(x, y0) s(x) dx with the measures of the domains. A distribution has no values. What can be done
with it is linear: add, scale, multiply with functions, and integrate, which takes the other factors at y0. A rule for
its derivatives does not exist here; the error says so.

JVP         d s(x) delta(y - y0)
transpose   x -> ct(x, y0)
"""

from dataclasses import dataclass

from dftfd.autofd.domain import Domain, Signature
from dftfd.autofd.function import Function
from dftfd.autofd.operators.base import Operator
from dftfd.autofd.operators.leaf import zeros
from dftfd.errors import NoRuleError


def dirac(strength: Function, domains: tuple[Domain, ...], argnums: tuple[int, ...], points) -> Function:
    """strength times a delta in the arguments `argnums` of `domains`; strength is a Function of the other arguments."""
    return Function(_dirac, (strength,), tuple(points), {"domains": tuple(domains), "argnums": tuple(argnums)})


class Dirac(Operator):
    name, linear, singular = "dirac", True, True

    def signature(self, operands, arrays, static):
        return Signature(static["domains"], operands[0].result)

    def evaluate(self, node, *args):
        raise NoRuleError(f"{node!r} has no values; integrate it against a function.")

    def transpose(self, node, cotangent, needed):
        from dftfd.autofd.operators.partial import partial

        return [partial(cotangent, node.static["argnums"], node.arrays)]


_dirac = Dirac()


@dataclass(frozen=True)
class Term:
    """strength(other arguments) * delta(arguments `argnums` - points)"""

    strength: Function
    argnums: tuple[int, ...]
    points: tuple


def separate(f: Function) -> tuple[Function | None, list[Term]]:
    """f as a regular function (None: zero) plus Dirac terms."""
    from dftfd.autofd.operators.broadcast import Broadcast, Permute
    from dftfd.autofd.operators.compose import composition

    if not f.singular:
        return f, []
    if f.operator is _dirac:
        return _separate_dirac(f)
    if f.operator is composition:
        return _separate_composition(f)
    if isinstance(f.operator, Broadcast | Permute):
        return _separate_rearranged(f)
    raise NoRuleError(
        f"a Dirac distribution can't pass through operator {f.operator.name!r} in {f!r}: only linear combinations, "
        "products with functions, and integrals of it are defined here."
    )


def _separate_dirac(f):
    argnums, points = f.static["argnums"], f.arrays
    rest = [i for i in range(len(f.domains)) if i not in argnums]
    regular, terms = separate(f.operands[0])
    found = [] if regular is None else [Term(regular, argnums, points)]
    for t in terms:  # a delta in other arguments
        found.append(Term(t.strength, argnums + tuple(rest[i] for i in t.argnums), points + t.points))
    return None, found


def _separate_composition(f):
    from dftfd.autofd.degree import is_affine, is_linear
    from dftfd.autofd.operators.compose import compose
    from dftfd.autofd.operators.linearize import pushforward
    from dftfd.autofd.operators.partial import partial

    outer, *inner = f.operands
    singular = tuple(i for i, g in enumerate(inner) if g.singular)
    if outer.singular or not is_affine(outer, singular):
        raise NoRuleError(f"{f!r} is not linear in the Dirac distributions in it; such a product is undefined.")
    slope, regulars, terms = pushforward(outer, singular), list(inner), []
    for i in singular:
        regulars[i], found = separate(inner[i])
        for t in found:
            point = [
                _zero_like(t, g) if j in singular else partial(g, t.argnums, t.points) for j, g in enumerate(inner)
            ]
            direction = [t.strength if j == i else _zero_like(t, inner[j]) for j in singular]
            terms.append(Term(compose(slope, *point, *direction), t.argnums, t.points))
    if all(regulars[i] is None for i in singular) and is_linear(outer, singular):
        return None, terms
    filled = [zeros(g.signature) if r is None else r for r, g in zip(regulars, inner, strict=True)]
    return compose(outer, *filled), terms


def _zero_like(term, h):
    return zeros(Signature(term.strength.domains, h.result))


def _separate_rearranged(f):
    from dftfd.autofd.operators.broadcast import Broadcast, broadcast

    (g,), count = f.operands, len(f.domains)
    if isinstance(f.operator, Broadcast):
        places = f.static["argnums"]
    else:  # argument k of f is argument permutation[k] of g
        places = tuple(f.static["permutation"].index(i) for i in range(count))
    regular, terms = separate(g)
    found = []
    for t in terms:
        argnums = tuple(places[i] for i in t.argnums)
        rest = [i for i in range(count) if i not in argnums]
        used = tuple(rest.index(places[i]) for i in range(len(g.domains)) if i not in t.argnums)
        domains = tuple(f.domains[i] for i in rest)
        found.append(Term(broadcast(t.strength, domains, used) if domains else t.strength, argnums, t.points))
    return None if regular is None else broadcast(regular, f.domains, places), found
