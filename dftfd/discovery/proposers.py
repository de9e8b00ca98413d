"""Who proposes candidates: evolution, enumeration, growth along the gradient of the loss, and a program outside.

A proposer is an object with a `name` and `propose(population, rng, count) -> list of (Candidate, origin)`, origin a few
words for the log. What it proposes may be broken or known: the search makes it canonical and drops what it can't use.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dftfd.discovery import expressions
from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.expressions import INGREDIENTS, NAMES, Tree, canonical, children, is_nonnegative, rebuilt
from dftfd.discovery.forms import Candidate, Form
from dftfd.errors import DftfdError, FileError, InputError
from dftfd.runtime.child_processes import run_program
from dftfd.runtime.files import read_bytes
from dftfd.runtime.json_reader import parse_json

LONGEST_ANSWER = 2**22
DEMAND_TIME = 600.0
"""Seconds after which a program that proposes is given up."""


class Member(NamedTuple):
    """A candidate of the population with fitted parameters.   score: to be small [kcal/mol]."""

    candidate: Candidate
    score: float


class Population(NamedTuple):
    """What proposers see.   members: the last ones, oldest first.   front: best for their complexity.

    generation: from 0.   known: keys of all candidates.
    """

    members: Sequence[Member]
    front: Sequence[Member]
    generation: int = 0
    known: Set[str] = frozenset()


class Proposer(Protocol):
    """See the module."""

    name: str

    def propose(self, population: Population, rng: np.random.Generator, count: int) -> list[tuple[Candidate, str]]:
        """At most `count` candidates; the same for the same population and random numbers."""


# ---- enumeration.


def basis(ingredients: Sequence[str]) -> list[Tree]:
    """Factors of the terms of a hole: ingredients, and functions of those that are never negative."""
    leaves: list[Tree] = [("v", name) for name in ingredients]
    return leaves + functions_of([leaf for leaf in leaves if is_nonnegative(leaf)])


def functions_of(trees: Sequence[Tree]) -> list[Tree]:
    return [(f, ("*", ("p", 1.0), tree)) for tree in trees for f in NAMES]


def small_holes(ingredients: Sequence[str]) -> Iterator[Tree]:
    """Sums of terms c f g h that vanish in the uniform gas, the simplest first: one and two factors of the basis, a
    factor and a function of one (as c s^2 / (1 + p x arsinh x) of B88), two terms, three factors."""
    factors = basis(ingredients)
    nested = functions_of([f for f in factors if f[0] != "v"])
    leaves = [f for f in factors if f[0] == "v"]
    combined = itertools.combinations_with_replacement
    products: list[Iterable[tuple[Tree, ...]]] = [combined(factors, size) for size in (1, 2)]
    products += [((f,) for f in nested), itertools.product(leaves, nested)]
    seen: set[str] = set()
    terms: list[Tree] = []

    def new(products):
        for chosen in products:
            term = canonical(("*", ("c", 0.1), *chosen))
            if expressions.is_valid(term, ingredients) and expressions.skeleton(term) not in seen:
                seen.add(expressions.skeleton(term))
                yield term

    for term in new(itertools.chain(*products)):
        terms.append(term)
        yield term
    for pair in itertools.combinations(terms, 2):
        yield canonical(("+", *pair))
    yield from new(itertools.combinations_with_replacement(factors, 3))


class Enumeration:
    """Small forms one after the other, in all holes at once where there are two."""

    name = "enumeration"

    def __init__(self, form: Form):
        self._sources = {p: small_holes(form.ingredients(p)) for p in form.parts}
        self._made: dict[str, list[Tree]] = {p: [] for p in form.parts}

    def _hole(self, part, k) -> Tree | None:
        made = self._made[part]
        made.extend(itertools.islice(self._sources[part], max(0, k + 1 - len(made))))
        return made[k] if k < len(made) else None

    def propose(self, population, rng, count):
        found, start = [], population.generation * count
        for k in range(start, start + count):
            places = [k] if len(self._made) == 1 else _pair(k)
            holes = {p: self._hole(p, j) for p, j in zip(self._made, places, strict=True)}
            if None not in holes.values():
                found.append((Candidate(**holes), f"form {k}"))
        return found


def _pair(k: int) -> tuple[int, int]:
    """The k-th pair of whole numbers along diagonals (Cantor)."""
    w = int((np.sqrt(8 * k + 1) - 1) // 2)
    y = k - w * (w + 1) // 2
    return w - y, y


# ---- evolution.


class Evolution:
    """Mutations and crossings of members of the front, and of winners of tournaments among the last candidates
    (regularised evolution).

    E. Real, A. Aggarwal, Y. Huang, Q. V. Le, AAAI 33, 4780 (2019). doi:10.1609/aaai.v33i01.33014780
    """

    name = "evolution"
    ATTEMPTS = 20

    def __init__(self, form: Form, largest: int, tournament: int = 8, crossing: float = 0.2):
        self._form, self._largest, self._tournament, self._crossing = form, largest, tournament, crossing

    def propose(self, population, rng, count):
        found, own = [], set()
        for _ in range(count):
            for _ in range(self.ATTEMPTS):
                candidate, origin = self._child(population, rng)
                is_new = candidate.key not in population.known and candidate.key not in own
                if is_new and candidate.complexity <= self._largest and candidate.is_valid(self._form):
                    found.append((candidate, origin))
                    own.add(candidate.key)
                    break
        return found

    def _child(self, population, rng):
        if not population.members or rng.random() < 0.05:
            return Candidate(**{part: self.term(part, rng) for part in self._form.parts}).canonical(), "random"
        parent = self._winner(population, rng)
        if rng.random() < self._crossing:
            return self._crossed(parent, self._winner(population, rng), rng).canonical(), "crossing"
        for _ in range(rng.geometric(0.6) if rng.random() < 0.5 else 1):
            parent = self._mutated(parent, rng)
        return parent, "mutation"

    def _winner(self, population, rng) -> Candidate:
        if population.front and rng.random() < 0.4:  # of any complexity
            return _one(population.front, rng).candidate
        drawn = [_one(population.members, rng) for _ in range(self._tournament)]
        return min(drawn, key=lambda member: member.score).candidate

    def _mutated(self, candidate, rng) -> Candidate:
        part, act = _one(self._form.parts, rng), rng.integers(6)
        tree = candidate.hole(part)
        if tree is None:
            new = self.term(part, rng)
        elif act == 0:
            new = "+", tree, self.term(part, rng)
        elif act == 1 and tree[0] == "+":
            new = _without(tree, rng)
        else:
            place = int(rng.integers(sum(1 for _ in expressions.nodes(tree))))
            new = _with_node(tree, place, lambda node: self._changed(node, part, act, rng))
        return candidate.replaced(part, new).canonical()

    def _changed(self, node, part, act, rng) -> Tree:
        """A node's successor."""
        if node[0] in expressions.PARAMETERS:
            return node[0], float(node[1] * np.exp(rng.normal(0, 0.7)))
        if act == 2:  # multiplied by a factor
            return "*", node, self.factor(part, rng)
        if act == 3 and children(node):  # less an argument
            return _without(node, rng)
        if act == 4:  # of another function, or power
            if node[0] in NAMES:
                return _one(NAMES, rng), node[1]
            return ("^", node, 2) if rng.random() < 0.5 else (_one(NAMES, rng), ("*", ("p", 1.0), node))
        return self.factor(part, rng)

    def factor(self, part, rng) -> Tree:
        """An ingredient, a function of one, or a power of either."""
        tree: Tree = ("v", _one(self._form.ingredients(part), rng))
        if is_nonnegative(tree) and rng.random() < 0.6:
            tree = _one(NAMES, rng), ("*", ("p", float(10 ** rng.uniform(-1.5, 0.5))), tree)
        return ("^", tree, int(rng.integers(2, 5))) if rng.random() < 0.15 else tree

    def term(self, part, rng) -> Tree:
        """One to three factors and a coefficient."""
        return "*", ("c", 0.1), *(self.factor(part, rng) for _ in range(int(rng.integers(1, 4))))

    def _crossed(self, a, b, rng) -> Candidate:
        if len(self._form.parts) == 2 and rng.random() < 0.4:
            return Candidate(a.x, b.c)
        part = _one(self._form.parts, rng)
        into, source = a.hole(part), b.hole(part)
        if into is None or source is None:
            return a.replaced(part, into or source)
        if rng.random() < 0.4:
            return a.replaced(part, ("+", into, _one(source[1:] if source[0] == "+" else (source,), rng)))
        piece = _one(list(expressions.nodes(source)), rng)
        place = int(rng.integers(sum(1 for _ in expressions.nodes(into))))
        return a.replaced(part, _with_node(into, place, lambda _: piece))


def _one(choices, rng):
    return choices[int(rng.integers(len(choices)))]


def _without(node, rng) -> Tree:
    """A node less one of its arguments; what is left of one is that itself."""
    parts = children(node)
    k = int(rng.integers(len(parts)))
    rest = [part for j, part in enumerate(parts) if j != k or len(parts) == 1]
    return rest[0] if len(rest) == 1 else rebuilt(node, rest)


def _with_node(tree, place, change):
    """The tree with the node of a number, from the root 0, replaced."""
    count = itertools.count()

    def walk(node):
        if next(count) == place:
            return change(node)
        return rebuilt(node, [walk(part) for part in children(node)])

    return walk(tree)


# ---- growth.


class Growth:
    """Adds the term that the functional derivative of the loss asks for most.

    To first order a term c f in a hole h changes the loss by c sum_k dL/dh_k f_k. Of a library of terms that is taken
    whose change of the reaction energies, made orthogonal to what the parent's parameters can do already, removes most
    of the residuals: orthogonal matching pursuit, with the derivative of any formula from the tree.
    """

    name = "growth"
    SCALES = (0.02, 0.1, 0.5, 2.0)

    def __init__(self, problem: Problem):
        self._problem, self._form = problem, problem.form
        self._library = {part: self._terms(self._form.ingredients(part)) for part in self._form.parts}
        self._fixed: dict[str, np.ndarray] = {}

    def _terms(self, ingredients) -> list[Tree]:
        """Products of two factors, with some scales of their functions."""
        factors: list[Tree] = [("v", name) for name in ingredients]
        for name in ingredients:
            if INGREDIENTS[name].is_nonnegative:
                factors += [(f, ("*", ("p", g), ("v", name))) for f in ("u", "exp", "inv") for g in self.SCALES]
        products = [*((f,) for f in factors), *itertools.combinations_with_replacement(factors, 2)]
        terms = (canonical(("*", ("n", 1.0), *p)) for p in products)
        return [t for t in dict.fromkeys(terms) if expressions.is_valid(t, ingredients)]

    def _columns(self, part, candidate):
        if part == "c" and self._form.correlation == "pbe":
            return self._problem.columns(part, candidate, self._library[part])
        if part not in self._fixed:
            self._fixed[part] = self._problem.columns(part, Candidate(), self._library[part])
        return self._fixed[part]

    def propose(self, population, rng, count):
        pool = [*population.front, *population.members[-50:]] or [Member(Candidate(), np.inf)]
        grown = (self._grown(_one(pool, rng).candidate, rng) for _ in range(count))
        return [(candidate, self.name) for candidate in grown if candidate is not None]

    def _grown(self, parent, rng) -> Candidate | None:
        part = _one(self._form.parts, rng)
        weight = self._problem.weight[:, None]
        errors, J = self._problem.with_slopes(parent, parent.parameters)
        columns = weight * self._columns(part, parent), weight[:, 0] * errors, weight * J
        A, r, J = map(self._problem.without_corrections, columns)
        if not all(np.isfinite(x).all() for x in (A, r, J)):
            return None
        if J.shape[1]:
            Q, _ = np.linalg.qr(J)
            A, r = A - Q @ (Q.T @ A), r - Q @ (Q.T @ r)
        overlap, square = A.T @ r, np.maximum(np.sum(A * A, axis=0), 1e-12)
        best = np.argsort(-(overlap**2) / square, kind="stable")[:6]
        k = int(best[min(int(rng.geometric(0.5)) - 1, len(best) - 1)])
        new = "*", ("c", float(np.clip(-overlap[k] / square[k], -50, 50))), self._library[part][k]
        before = parent.hole(part)
        return parent.replaced(part, new if before is None else ("+", before, new)).canonical()


# ---- a program outside.


class FromCommand:
    """A program that is told the front, one line of JSON a member, and answers with formulas, one line of JSON each.

    To it: {"x": "0.8 * u(0.27 * s2)", "c": null, "score": 3.2, "complexity": 6}, then end of file. From it:
    {"x": "...", "c": "..."}. Lines that are no formulas of this form are left out. What it answered is in the record,
    so that a run that goes on does not ask again.
    """

    name = "command"

    def __init__(self, words: Sequence[str], form: Form):
        self._words, self._form = list(words), form

    def propose(self, population, rng, count):
        rows = ({**c.document, "score": score, "complexity": c.complexity} for c, score in population.front)
        try:
            done = run_program(self._words, ".", DEMAND_TIME, "".join(json.dumps(row) + "\n" for row in rows))
        except OSError as error:
            raise FileError(f"the command {self._words[0]!r} for proposals does not run: {error}.") from error
        if done.returncode:
            said = done.stderr.strip()[-200:]
            raise FileError(f"the command {self._words[0]!r} for proposals ended with code {done.returncode}: {said}")
        found = (read_candidate(line, self._form) for line in done.stdout[:LONGEST_ANSWER].splitlines())
        return [(one, self.name) for one in found if isinstance(one, Candidate)][:count]


def read_candidate(line: str, form: Form) -> Candidate | Exception:
    """Of a line {"x": formula, "c": formula}, or why it is none of this form."""
    try:
        found = Candidate.of(parse_json(line))
    except (ValueError, AttributeError, RecursionError, DftfdError) as error:
        return error
    if found.is_valid(form):
        return found
    return InputError(f"{found} has ingredients that the search does not use, or does not vanish in the uniform gas")


def candidates_in(path: Any, form: Form) -> list[Candidate]:
    """Of a file of such lines; FileError for a line that is none, with its number."""
    found = []
    for number, line in enumerate(read_bytes(Path(path), LONGEST_ANSWER).decode(errors="replace").splitlines(), 1):
        one = read_candidate(line, form) if line.strip() else None
        if isinstance(one, Exception):
            raise FileError(f'{path}, line {number}: {one}; {{"x": "0.8*u(0.27*s2)"}} is expected.') from one
        found += [] if one is None else [one]
    return found
