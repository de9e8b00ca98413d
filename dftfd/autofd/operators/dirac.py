"""Distributions: s(x) delta(y - y0), the transpose of fixing the argument y of a function at y0, and images of
densities, the transpose of f -> f(g) with respect to f.

<h, s delta> = int h(x, y0) s(x) dx and <h, image of s> = int h(g(x)) s(x) dx, with the measures of the domains: Dirac
terms that are spread over x, so that nothing has to be known of g's inverse. What can be done with both is linear: add,
scale, multiply with functions, and integrate, which takes the other factors at y0 or g(x). A rule for their derivatives
does not exist here; the error says so. A Dirac distribution has no values; the image of a density has them where
inverses are known, but it may jump, so a quadrature over y is never used for it.

JVP         d s(x) delta(y - y0); image of ds
transpose   x -> ct(x, y0); ct(g(x))
"""

from dataclasses import dataclass

from dftfd.autofd.core.degree import is_affine, is_linear
from dftfd.autofd.core.domain import Domain, Signature
from dftfd.autofd.core.function import Function, other_arguments
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.errors import NoRuleError


@op.register
def dirac(strength: Function, domains: tuple[Domain, ...], argnums: tuple[int, ...], points) -> Function:
    """strength times a delta in the arguments `argnums` of `domains`; strength is a Function of the other arguments."""
    return Function(_dirac, (strength,), tuple(points), {"domains": tuple(domains), "argnums": tuple(argnums)})


class Dirac(Operator):
    name, linear, singular = "dirac", True, 2

    def signature(self, operands, arrays, static):
        return Signature(static["domains"], operands[0].result)

    def evaluate(self, node, *args):
        raise NoRuleError(f"{node!r} has no values; integrate it against a function.")

    def transpose(self, node, cotangent, needed):
        return [op.partial(cotangent, node.static["argnums"], node.arrays)]

    def separate(self, node):
        return _separate_dirac(node)


class Image(Operator):
    """int strength(x, others) delta(y - g(x)) dx, operands: strength, the g, and its values if they are known."""

    name, singular = "image", 1

    def signature(self, operands, arrays, static):
        return Signature(static["domains"], operands[0].result)

    def evaluate(self, node, *args):
        if node.static["reason"]:
            raise NoRuleError(f"{node!r} has no values here, it can be integrated only: {node.static['reason']}")
        return node.operands[-1].evaluate(*args)

    def tangent(self, node, tangents):
        strength, *maps = tangents[: 1 + len(node.static["argnums"])]
        if any(m is not None for m in maps):
            raise NoRuleError(f"{node!r} depends on where its points go; the derivative of that has no rule.")
        values = [op.zeros(f.signature) if t is None else t for f, t in zip(node.operands, tangents, strict=True)]
        return node.replace(operands=[values[0], *node.operands[1 : 1 + len(maps)], *values[1 + len(maps) :]])

    def transpose(self, node, cotangent, needed):
        strength, *others = node.operands
        if any(needed[1 : 1 + len(node.static["argnums"])]):
            raise NoRuleError(f"{node!r} depends on where its points go; the derivative of that has no rule.")
        drawn = _term_of(node).draw(cotangent)
        return [drawn, *(op.zeros(f.signature) for f in others)]

    def separate(self, node):
        return None, [_term_of(node)]


_dirac, _image = Dirac(), Image()


@op.register
def image(strength: Function, sources, domains, argnums, maps, density: Function | None, reason: str) -> Function:
    """The image of a density under maps, a distribution in the arguments `argnums` of `domains`.

    strength: a Function of (x_1.. in `sources`, the other arguments of `domains`).   maps: Functions of the sources.
    density: the same as a Function with values, or None and the `reason` why there are none.
    """
    if strength.singular:
        raise NoRuleError(f"{strength!r} is a distribution; its image under a map has no rule.")
    static = {"domains": tuple(domains), "argnums": tuple(argnums), "sources": tuple(sources), "reason": reason}
    return Function(_image, (strength, *maps, *([] if density is None else [density])), (), static)


@dataclass(frozen=True)
class Term:
    """int strength(sources, other arguments) delta(arguments `argnums` - points) d(sources)

    points: arrays, or Functions of the sources if there are any.
    """

    strength: Function
    argnums: tuple[int, ...]
    points: tuple
    sources: tuple[Domain, ...] = ()

    def draw(self, f: Function) -> Function:
        """f at the points, a Function of the sources and its other arguments."""
        if not self.sources:
            return op.partial(f, self.argnums, self.points)
        count = len(self.sources)
        rest = other_arguments(f, self.argnums)
        domains = (*self.sources, *(f.domains[i] for i in rest))
        place = {
            i: op.broadcast(m, domains, tuple(range(count))) for i, m in zip(self.argnums, self.points, strict=True)
        }
        for k, i in enumerate(rest):
            place[i] = op.broadcast(op.identity(f.domains[i]), domains, (count + k,))
        return op.compose(f, *(place[i] for i in range(len(f.domains))))


@op.register
def separate(f: Function) -> tuple[Function | None, list[Term]]:
    """f as a regular function (None: zero) plus terms with Dirac distributions."""
    return f.operator.separate(f) if f.singular else (f, [])


def _term_of(node) -> Term:
    argnums = node.static["argnums"]
    return Term(node.operands[0], argnums, node.operands[1 : 1 + len(argnums)], node.static["sources"])


def _separate_dirac(f):
    argnums, points = f.static["argnums"], f.arrays
    rest = other_arguments(f, argnums)
    regular, terms = separate(f.operands[0])
    found = [] if regular is None else [Term(regular, argnums, points)]
    for t in terms:  # a delta in other arguments
        if t.sources:
            raise NoRuleError(f"{f!r} is a product of distributions of two kinds, for which there is no rule.")
        found.append(Term(t.strength, argnums + tuple(rest[i] for i in t.argnums), points + t.points))
    return None, found


@op.register
def separate_composition(f: Function) -> tuple[Function | None, list[Term]]:
    """`separate` of f(g), linear in the distributions among the g."""
    outer, *inner = f.operands
    singular = tuple(i for i, g in enumerate(inner) if g.singular)
    if outer.singular or not is_affine(outer, singular):
        raise NoRuleError(f"{f!r} is not linear in the distributions in it, such as Dirac terms; that is undefined.")
    slope, regulars, terms = op.pushforward(outer, singular), list(inner), []
    for i in singular:
        regulars[i], found = separate(inner[i])
        for t in found:
            point = [_zero_like(t, g) if j in singular else t.draw(g) for j, g in enumerate(inner)]
            direction = [t.strength if j == i else _zero_like(t, inner[j]) for j in singular]
            terms.append(Term(op.compose(slope, *point, *direction), t.argnums, t.points, t.sources))
    if all(regulars[i] is None for i in singular) and is_linear(outer, singular):
        return None, terms
    filled = [op.zeros(g.signature) if r is None else r for r, g in zip(regulars, inner, strict=True)]
    return op.compose(outer, *filled), terms


def _zero_like(term, h):
    return op.zeros(Signature(term.strength.domains, h.result))


@op.register
def separate_rearranged(f: Function) -> tuple[Function | None, list[Term]]:
    """`separate` of a function whose arguments are handed on in another order, or with others beside them."""
    (g,), count = f.operands, len(f.domains)
    above = {f.operator.argument_below(f, i): i for i in range(count)}
    places = tuple(above[k] for k in range(len(g.domains)))
    regular, terms = separate(g)
    found = []
    for t in terms:
        argnums, first = tuple(places[i] for i in t.argnums), len(t.sources)
        rest = [i for i in range(count) if i not in argnums]
        kept = tuple(first + rest.index(places[i]) for i in range(len(g.domains)) if i not in t.argnums)
        domains = (*t.sources, *(f.domains[i] for i in rest))
        strength = op.broadcast(t.strength, domains, (*range(first), *kept)) if domains else t.strength
        found.append(Term(strength, argnums, t.points, t.sources))
    return None if regular is None else op.broadcast(regular, f.domains, places), found


@op.register
def integral_of_term(term: Term, domains, argnums, rules) -> Function:
    """Integral of a term: the deltas in the arguments `argnums` drop out, the strength is integrated."""
    rest = [i for i in range(len(domains)) if i not in term.argnums]
    first = len(term.sources)
    over = tuple(i for i in argnums if i not in term.argnums)
    quadrature = tuple(rules[i] for i in over) if rules else ()
    strength = op.integrate_over(term.strength, tuple(first + rest.index(i) for i in over), quadrature)
    left = [i for i in range(len(domains)) if i not in argnums]
    kept = [(i, p) for i, p in zip(term.argnums, term.points, strict=True) if i not in argnums]
    if not kept:
        return op.integrate_over(strength, tuple(range(first)))
    places, points = tuple(left.index(i) for i, _ in kept), [p for _, p in kept]
    others = tuple(domains[i] for i in left)
    if not first:
        return dirac(strength, others, places, points)
    return image(strength, term.sources, others, places, points, None, "it was integrated over an argument.")
