"""Who proposes candidates: evolution, enumeration, growth along the gradient of the loss, and a program outside.

A proposer is an object with a `name` and `propose(population, rng, count) -> list of (Candidate, origin)`, origin a few
words for the log. What it proposes may be broken or known: the search makes it canonical and drops what it can't use.
"""

import itertools
import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dftfd.discovery import expressions
from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.expressions import FUNCTIONS, INGREDIENTS, Tree, children, rebuilt
from dftfd.discovery.forms import Candidate, Form
from dftfd.errors import DftfdError, FileError
from dftfd.runtime.child_processes import run_program
from dftfd.runtime.files import read_bytes
from dftfd.runtime.json_reader import parse_json

LONGEST_ANSWER = 2**22
DEMAND_TIME = 600.0
"""Seconds after which a program that proposes is given up."""


@dataclass(frozen=True)
class Member:
    """A candidate of the population with fitted parameters.   score: to be small [kcal/mol]."""

    candidate: Candidate
    score: float


@dataclass(frozen=True)
class Population:
    """What proposers see.   members: the last ones, oldest first.   front: best for their complexity.

    asked: how many candidates each proposer has been asked for so far, by its name.   known: keys of all candidates.
    """

    members: Sequence[Member]
    front: Sequence[Member]
    asked: dict[str, int]
    known: Set[str] = frozenset()


class Proposer(Protocol):
    """See the module."""

    name: str

    def propose(self, population: Population, rng: np.random.Generator, count: int) -> list[tuple[Candidate, str]]:
        """At most `count` candidates; the same for the same population and random numbers."""


# ---- pieces of formulas.


def basis(ingredients: Sequence[str]) -> list[Tree]:
    """Factors of the terms of a hole: ingredients, and functions of those that are never negative."""
    found: list[Tree] = [("v", name) for name in ingredients]
    for name in ingredients:
        if INGREDIENTS[name].is_nonnegative:
            found += [(f, ("*", ("p", 1.0), ("v", name))) for f in FUNCTIONS]
    return found


def small_holes(ingredients: Sequence[str]) -> Iterator[Tree]:
    """All sums of terms c f g h of factors f, g, h of the basis that vanish in the uniform gas, the simplest first."""
    factors = basis(ingredients)
    seen: set[str] = set()
    terms: list[Tree] = []
    for size in (1, 2, 3):
        for chosen in itertools.combinations_with_replacement(factors, size):
            term = expressions.canonical(("*", ("c", 0.1), *chosen))
            if expressions.is_valid(term, ingredients) and expressions.skeleton(term) not in seen:
                seen.add(expressions.skeleton(term))
                terms.append(term)
                yield term
        if size == 2:
            for pair in itertools.combinations(terms, 2):
                yield expressions.canonical(("+", *pair))


class Enumeration:
    """Small forms one after the other, in all holes at once where there are two."""

    name = "enumeration"

    def __init__(self, form: Form):
        self._form = form
        self._made: dict[str, tuple[Iterator[Tree], list[Tree]]] = {
            p: (small_holes(form.ingredients(p)), []) for p in form.parts
        }

    def _hole(self, part, k) -> Tree | None:
        source, made = self._made[part]
        made.extend(itertools.islice(source, max(0, k + 1 - len(made))))
        return made[k] if k < len(made) else None

    def propose(self, population, rng, count):
        found, start = [], population.asked.get(self.name, 0)
        for k in range(start, start + count):
            places = [k] if len(self._form.parts) == 1 else _pair(k)
            holes = dict(
                zip(
                    self._form.parts,
                    (self._hole(p, j) for p, j in zip(self._form.parts, places, strict=True)),
                    strict=True,
                )
            )
            if all(hole is not None for hole in holes.values()):
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
                fits = candidate.trees and candidate.complexity <= self._largest and candidate.is_valid(self._form)
                if fits and candidate.key not in population.known and candidate.key not in own:
                    found.append((candidate, origin))
                    own.add(candidate.key)
                    break
        return found

    def _child(self, population, rng):
        if not population.members or rng.random() < 0.05:
            return Candidate(**{part: self._term(part, rng) for part in self._form.parts}).canonical(), "random"
        parent = self._winner(population, rng)
        if rng.random() < self._crossing:
            return self._crossed(parent, self._winner(population, rng), rng), "crossing"
        for _ in range(1 + rng.geometric(0.6) - 1 if rng.random() < 0.5 else 1):
            parent = self._mutated(parent, rng)
        return parent, "mutation"

    def _winner(self, population, rng) -> Candidate:
        if population.front and rng.random() < 0.4:  # of any complexity
            return population.front[rng.integers(len(population.front))].candidate
        pool = population.members
        chosen = rng.integers(len(pool), size=min(self._tournament, len(pool)))
        return min((pool[k] for k in chosen), key=lambda member: member.score).candidate

    def _part(self, candidate, rng) -> str:
        return self._form.parts[rng.integers(len(self._form.parts))]

    def _mutated(self, candidate, rng) -> Candidate:
        part = self._part(candidate, rng)
        tree = candidate.x if part == "x" else candidate.c
        if tree is None:
            return candidate.replaced(part, self._term(part, rng)).canonical()
        act = rng.integers(6)
        if act == 0:
            new: Tree | None = ("+", tree, self._term(part, rng))
        elif act == 1 and tree[0] == "+":
            new = rebuilt(tree, _without(tree[1:], rng)) if len(tree) > 3 else tree[1 + int(rng.integers(2))]
        else:
            places = list(expressions.nodes(tree))
            new = _with_node(tree, int(rng.integers(len(places))), lambda node: self._changed(node, part, act, rng))
        return candidate.replaced(part, new).canonical()

    def _changed(self, node, part, act, rng) -> Tree:
        """A node's successor."""
        if node[0] in expressions.PARAMETERS:
            return node[0], float(node[1] * np.exp(rng.normal(0, 0.7)))
        if act == 2:  # multiplied by a factor
            return "*", node, self._factor(part, rng)
        if act == 3 and len(children(node)) > 1:  # less an argument
            rest = _without(children(node), rng)
            return rest[0] if len(rest) == 1 else rebuilt(node, rest)
        if act == 3 and children(node):
            return children(node)[0]
        if act == 4:  # of another function, or power
            if node[0] in FUNCTIONS:
                return list(FUNCTIONS)[rng.integers(len(FUNCTIONS))], node[1]
            return (
                ("^", node, 2)
                if rng.random() < 0.5
                else (list(FUNCTIONS)[rng.integers(len(FUNCTIONS))], ("*", ("p", 1.0), node))
            )
        return self._factor(part, rng)

    def _factor(self, part, rng) -> Tree:
        ingredients = self._form.ingredients(part)
        name = ingredients[rng.integers(len(ingredients))]
        tree: Tree = ("v", name)
        if INGREDIENTS[name].is_nonnegative and rng.random() < 0.6:
            tree = (
                list(FUNCTIONS)[rng.integers(len(FUNCTIONS))],
                ("*", ("p", float(10 ** rng.uniform(-1.5, 0.5))), tree),
            )
        return ("^", tree, int(rng.integers(2, 5))) if rng.random() < 0.15 else tree

    def _term(self, part, rng) -> Tree:
        factors = [self._factor(part, rng) for _ in range(int(rng.integers(1, 4)))]
        return "*", ("c", 0.1), *factors

    def _crossed(self, a, b, rng) -> Candidate:
        if len(self._form.parts) == 2 and rng.random() < 0.4:
            return Candidate(a.x, b.c)
        part = self._part(a, rng)
        into, source = (t.x if part == "x" else t.c for t in (a, b))
        if into is None or source is None:
            return a.replaced(part, into or source)
        if rng.random() < 0.4:
            terms = source[1:] if source[0] == "+" else (source,)
            return a.replaced(part, ("+", into, terms[rng.integers(len(terms))])).canonical()
        pieces = list(expressions.nodes(source))
        piece = pieces[rng.integers(len(pieces))]
        return a.replaced(
            part, _with_node(into, int(rng.integers(sum(1 for _ in expressions.nodes(into)))), lambda _: piece)
        ).canonical()


def _without(parts, rng) -> list:
    k = int(rng.integers(len(parts)))
    return [part for j, part in enumerate(parts) if j != k]


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
        self._problem = problem
        self._library = {part: self._terms(problem.form.ingredients(part)) for part in problem.form.parts}
        self._fixed: dict[str, np.ndarray] = {}

    def _terms(self, ingredients) -> list[Tree]:
        """Products of two factors, with some scales of their functions."""
        factors: list[Tree] = [("v", name) for name in ingredients]
        for name in ingredients:
            if INGREDIENTS[name].is_nonnegative:
                factors += [(f, ("*", ("p", g), ("v", name))) for f in ("u", "exp", "inv") for g in self.SCALES]
        products = [*((f,) for f in factors), *itertools.combinations_with_replacement(factors, 2)]
        terms = (expressions.canonical(("*", ("n", 1.0), *p)) for p in products)
        return [t for t in dict.fromkeys(terms) if expressions.is_valid(t, ingredients)]

    def _columns(self, part, candidate):
        is_fixed = part == "x" or self._problem.form.correlation == "factor"
        if not is_fixed:
            return self._problem.columns(part, candidate, self._library[part])
        if part not in self._fixed:
            self._fixed[part] = self._problem.columns(part, Candidate(), self._library[part])
        return self._fixed[part]

    def propose(self, population, rng, count):
        pool = [*population.front, *population.members[-50:]] or [Member(Candidate(), np.inf)]
        return [self._grown(pool[rng.integers(len(pool))].candidate, rng) for _ in range(count)]

    def _grown(self, parent, rng):
        part = self._problem.form.parts[rng.integers(len(self._problem.form.parts))]
        weight = self._problem.weight[:, None]
        errors, J = self._problem.with_slopes(parent)
        A, r, J = weight * self._columns(part, parent), weight[:, 0] * errors, weight * J
        if not all(np.isfinite(x).all() for x in (A, r, J)):
            return parent, "growth"  # known, and left out
        if J.shape[1]:
            Q, _ = np.linalg.qr(J)
            A, r = A - Q @ (Q.T @ A), r - Q @ (Q.T @ r)
        gain = (A.T @ r) ** 2 / np.maximum(np.sum(A * A, axis=0), 1e-12)
        best = np.argsort(-gain, kind="stable")[:6]
        k = int(best[min(int(rng.geometric(0.5)) - 1, len(best) - 1)])
        term = self._library[part][k]
        before = parent.x if part == "x" else parent.c
        size = -float(A[:, k] @ r) / max(float(A[:, k] @ A[:, k]), 1e-12)
        new = "*", ("c", float(np.clip(size, -50, 50))), term
        return parent.replaced(part, new if before is None else ("+", before, new)).canonical(), "growth"


# ---- a program outside.


class FromCommand:
    """A program that is told the front, one line of JSON a member, and answers with formulas, one line of JSON each.

    To it: {"x": "0.8 * u(0.27 * s2)", "c": null, "score": 3.2, "complexity": 6}, then end of file. From it:
    {"x": "...", "c": "..."}. Lines that are no formulas of this form are left out and counted in `refused`. What it
    answered is in the record, so that a run that goes on does not ask again.
    """

    name = "command"

    def __init__(self, words: Sequence[str], form: Form):
        self._words, self._form, self.refused = list(words), form, 0

    def propose(self, population, rng, count):
        told = "".join(json.dumps(_told(member)) + "\n" for member in population.front)
        try:
            done = run_program(self._words, ".", DEMAND_TIME, told)
        except OSError as error:
            raise FileError(f"the command {self._words[0]!r} that proposes does not run: {error}.") from error
        if done.returncode:
            said = done.stderr.strip()[-200:]
            raise FileError(f"the command {self._words[0]!r} that proposes ended with code {done.returncode}: {said}")
        found = [self._read(line) for line in done.stdout[:LONGEST_ANSWER].splitlines() if line.strip()]
        self.refused += sum(one is None for one in found)
        return [(one, "command") for one in found if one is not None][:count]

    def _read(self, line) -> Candidate | None:
        try:
            return read_candidate(parse_json(line), self._form)
        except (ValueError, AttributeError, DftfdError, RecursionError):
            return None


def _told(member: Member) -> dict[str, Any]:
    texts = {
        p: None if t is None else expressions.python(t)
        for p, t in (("x", member.candidate.x), ("c", member.candidate.c))
    }
    return texts | {"score": member.score, "complexity": member.candidate.complexity}


def read_candidate(data: dict, form: Form) -> Candidate:
    """Of {"x": formula, "c": formula}; ValueError or InputError where it is none of this form."""
    trees = {part: expressions.parsed(data[part]) for part in ("x", "c") if data.get(part)}
    found = Candidate(**trees).canonical()
    if not found.trees or not found.is_valid(form):
        raise ValueError(f"{found} has ingredients that the search does not, or does not vanish in the uniform gas")
    return found


def candidates_in(path: Any, form: Form) -> list[Candidate]:
    """Of a file of such lines; FileError for a line that is none, with its number."""
    found = []
    for number, line in enumerate(read_bytes(Path(path), LONGEST_ANSWER).decode(errors="replace").splitlines(), 1):
        if line.strip():
            try:
                found.append(read_candidate(parse_json(line), form))
            except (ValueError, AttributeError, TypeError, RecursionError, DftfdError) as error:
                raise FileError(f'{path}, line {number}: {error}; {{"x": "0.8*u(0.27*s2)"}} is expected.') from error
    return found
