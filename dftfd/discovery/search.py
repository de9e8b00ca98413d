"""The search: propose, fit, refute or prove, and again; a record from which it goes on to the same bits.

A generation is proposed from the state of the search and a random number of its own, fitted in pieces of fixed size on
any number of processes, and its best members go to the prover, whose counterexamples become cuts of all later fits. The
state changes only between generations, so it follows from the record alone.

Most candidates cost a short fit on few nodes (dftfd.discovery.candidate_fits). Those near the front are fitted on all
points, checked at a few random points of the conditions' domain and fitted again under what these show.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dftfd.batch.entries import failure
from dftfd.batch.processes import in_processes, on_cluster
from dftfd.discovery.candidate_fits import (
    LARGEST_P,
    Cut,
    Demands,
    Fitter,
    Problem,
    Sampled,
    cut_of,
    finite,
    newest,
    proof_of,
)
from dftfd.discovery.forms import Candidate, Form
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.proposers import Enumeration, Evolution, FromCommand, Growth, Member, Population, Proposer
from dftfd.errors import InputError
from dftfd.runtime.records import Record
from dftfd.training.fit_problem import ERRORS

PIECE = 20
"""Candidates that are fitted at a time, with one line of the record."""

FEW, MANY = 512, 10_000
"""Points at which conditions are sampled for candidates near the front, and for those that the prover gets."""

EVALUATIONS, ROUGH, CLOSER, FINE = 100, 0.01, 1e-3, 1e-12
"""Evaluations of a fit, and the relative change of the loss's square that ends one: of all candidates, of those near
the front, and of the best."""

NEAR, CLOSE, NODES_ERROR = 1.2, 1.04, 0.02
"""A loss on the nodes below NEAR times the front's plus NODES_ERROR [kcal/mol] gets a better fit there, and one that is
then below CLOSE times the front's plus NODES_ERROR a fit on all points."""

STARTS, REFITS = 3, 2
"""Starts of a fit on all points, and fits under cuts of its own."""

KEPT = 8
"""Best candidates of each complexity that wait for the prover."""


_IN_IDENTITY = ("seed", "size", "population", "complexity", "largest_parameter", "proofs", "rounds", "fit_damping")


@dataclass(frozen=True)
class Specification:
    """A search.

    name: of what is found, NAME_1, NAME_2, ...   form: what is searched.   demands: what has to be proved.
    size: candidates of a generation.   generations: how many.   population: candidates that have children.
    complexity: the largest.   largest_parameter: of those inside functions.
    shares: {proposer: share of a generation}.   command: words of a program that proposes.
    proofs: members of the front that the prover gets after a generation.   rounds: fits of one of them under its cuts.
    stop_below: training error [kcal/mol] that ends the search.   points: file of TrainingPoints; None for dftfd's.
    dispersion: of all candidates, as `Functional.dispersion`.   fit_damping: whether each candidate's s8, a1 and a2
    are fitted, to first order about those.
    """

    form: Form
    demands: Demands
    name: str = "found"
    seed: int = 0
    size: int = 500
    generations: int = 20
    population: int = 400
    complexity: int = 30
    largest_parameter: float = LARGEST_P
    shares: Mapping[str, float] = field(default_factory=lambda: {"evolution": 0.6, "growth": 0.3, "enumeration": 0.1})
    command: tuple[str, ...] = ()
    proofs: int = 3
    rounds: int = 8
    stop_below: float = 0.0
    points: Path | None = None
    dispersion: tuple[str, str] | None = None
    fit_damping: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What the numbers of a run depend on, but for the points; generations may be added later."""
        form, demands = self.form, self.demands
        return {
            "exchange": f"{form.exchange} {' '.join(form.x)}",
            "correlation": f"{form.correlation} {' '.join(form.c)}",
            "conditions": " ".join(demands.names),
            "polarised": " ".join(demands.polarised),
            "domain": {name: list(ends) for name, ends in demands.domain.items()},
            "boxes": demands.boxes,
            "shares": dict(self.shares),
            "command": list(self.command),
            "dispersion": list(self.dispersion or ()),
        } | {name: getattr(self, name) for name in _IN_IDENTITY}


# ---- pieces.


@dataclass(frozen=True)
class Piece:
    """Work for a process.   what: "fit" or "prove".   front: (complexity, loss) so far."""

    number: int
    what: str
    seed: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    cuts: tuple[Cut, ...]
    front: tuple[tuple[int, float], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.what} {self.number}"


class Answer(NamedTuple):
    """found: a JSON object for each candidate."""

    number: int
    found: list
    error: str | None = None


@dataclass
class Workshop:
    """Answers pieces; what it needs is made once in each process."""

    specification: Specification
    points: TrainingPoints

    def __getstate__(self):
        return {"specification": self.specification, "points": self.points}

    def _problem(self, role, on_nodes=False):
        return Problem.of_points(self.points.of(role), self.specification.form, on_nodes)

    @cached_property
    def training(self) -> Problem:
        return self._problem("training")

    @cached_property
    def validation(self) -> Problem | None:
        return self._problem("validation") if "validation" in self.points.role else None

    @cached_property
    def nodes(self) -> Problem:
        return self._problem("training", True)

    @cached_property
    def sampled(self) -> dict[int, Sampled]:
        own = self.specification
        return {count: Sampled(own.form, own.demands, count, own.seed) for count in (FEW, MANY)}

    def __call__(self, piece: Piece) -> Any:
        try:
            return Answer(piece.number, (self._fitted if piece.what == "fit" else self._proved)(piece))
        except Exception as error:
            return failure(cast(Any, piece), error)

    def _fitter(self, problem, cuts, weight=1.0) -> Fitter:
        return Fitter(problem, cuts, weight, self.specification.largest_parameter)

    def _scores(self, candidate: Candidate, loss: float) -> dict[str, Any]:
        own, problems = self.training.multiples(candidate), {"training": self.training, "validation": self.validation}
        found = {name: None if p is None else finite(p.mean_absolute(candidate, own)) for name, p in problems.items()}
        return {**candidate.document, "loss": finite(loss), **found, **({"multiples": own} if own else {})}

    def _fitted(self, piece) -> list[dict]:
        """Parameters under the cuts, and under those that a small sample adds."""
        first, last = self._fitter(self.nodes, piece.cuts), self._fitter(self.training, piece.cuts)
        front, found = list(piece.front), []
        for k, candidate in enumerate(piece.candidates):
            rng = np.random.default_rng([*piece.seed, k])
            limit = min((loss for c, loss in front if c <= candidate.complexity), default=np.inf)
            fit = first.fit(candidate, EVALUATIONS, ROUGH)
            if fit.loss < NEAR * limit + NODES_ERROR:
                fit = first.best_of(fit.candidate, EVALUATIONS, rng, STARTS, CLOSER)
            if is_close := fit.loss < CLOSE * limit + NODES_ERROR:
                tolerance = FINE if fit.loss < limit + NODES_ERROR else CLOSER
                fit = last.fit(fit.candidate, EVALUATIONS, tolerance)
                if fit.loss == np.inf:  # no value at points of which the nodes know nothing
                    fit = last.fit(candidate, EVALUATIONS, tolerance)
            if not (is_close and fit.loss < NEAR * limit):
                found.append({**fit.candidate.document, "loss": finite(fit.loss)})
                continue
            own, broken = [], self.sampled[FEW].broken(fit.candidate)
            for _ in range(REFITS):
                if broken and fit.loss < NEAR * limit:
                    own += broken
                    fit = self._fitter(self.training, (*piece.cuts, *own)).fit(fit.candidate, EVALUATIONS, tolerance)
                    broken = self.sampled[FEW].broken(fit.candidate)
            front.append((candidate.complexity, fit.loss))
            found.append(self._scores(*fit) | {"broken": broken[:1], "cuts": own})
        return found

    def _proved(self, piece) -> list[dict]:
        """Cut, fit, sample, prove, until all conditions are proved or the rounds are over; of one candidate."""
        own, (candidate,), cuts = self.specification, piece.candidates, list(piece.cuts)
        rng, events, proofs, status = np.random.default_rng(piece.seed), [], {}, "given up"
        for turn in range(own.rounds + 1):
            fitter = self._fitter(self.training, newest(cuts), 2.0 ** max(turn - 1, 0))
            fit = fitter.best_of(candidate, EVALUATIONS, rng, 1 if turn else STARTS)
            candidate = fit.candidate
            if turn == own.rounds:
                break
            found, by = self.sampled[MANY].broken(candidate), "sampling"
            if not found:
                found, proofs, status = self._by_proof(candidate)
                by = "proof"
            if not found:
                break
            status = "given up"
            events.append({"by": by, "cuts": found, **self._scores(*fit)})
            cuts += found
        return [self._scores(*fit) | {"status": status, "proofs": proofs, "events": events}]

    def _by_proof(self, candidate):
        """([cut] or [], {condition: outcome}, status)."""
        own, proofs, status = self.specification, {}, "proved"
        for name in own.demands.of_form(own.form):
            proof = proof_of(own.form, candidate, name, own.demands)
            if proof is None:
                proofs[name] = "does not apply"
                continue
            proofs[name] = f"{proof.outcome}, {proof.boxes} boxes" if proof.proved else proof.outcome
            if proof.outcome == "violated":
                return [cut_of(proof)], proofs, "given up"
            status = status if proof.proved else "undecided"
        return [], proofs, status


# ---- state.


@dataclass(frozen=True)
class Found:
    """A candidate with its scores [kcal/mol]: root mean square with penalties, mean absolute errors.

    number: in the order of proposal, from 1.   training, validation: None where it was far from the front, or there
    are no such reactions.   broken: where a sample of conditions breaks it.
    status: "" before the prover had it, "proved", "undecided", "given up".   proofs: {condition: outcome}.
    multiples: of the points' corrections.
    """

    number: int
    proposer: str
    candidate: Candidate
    loss: float
    training: float | None = None
    validation: float | None = None
    broken: Cut | None = None
    status: str = ""
    proofs: Mapping[str, str] = field(default_factory=dict)
    multiples: Sequence[float] = ()

    @classmethod
    def of(cls, row: Mapping, number: int, proposer: str) -> "Found":
        """Of a row of an Answer."""
        known = {name: row[name] for name in ("training", "validation", "status", "proofs", "multiples") if name in row}
        broken = next(map(_cut, row.get("broken", ())), None)
        loss = np.inf if row["loss"] is None else row["loss"]
        return cls(number, proposer, Candidate.of(row), loss, broken=broken, **known)

    @property
    def score(self) -> float:
        """Mean absolute error that candidates are chosen by: the larger of training's and validation's."""
        return max(np.inf if x is None else x for x in (self.training, self.validation or 0.0))


def _cut(row) -> Cut:
    return Cut(row[0], tuple(row[1]), row[2])


class Refuted(NamedTuple):
    """A candidate that was refuted.   by: "sampling" of 10,000 points, or "proof", which sampling had passed."""

    found: Found
    by: str
    cut: Cut


class State:
    """What is known after some generations; follows from the pieces of the record."""

    def __init__(self, specification: Specification):
        self.specification = specification
        self.conditions = specification.demands.of_form(specification.form)
        self.generation = 0
        self.members: list[Found] = []
        self.best: dict[int, list[Found]] = {}  # of a complexity, the best few that no sample breaks
        self.tried: dict[str, Found] = {}  # by key, those that the prover had
        self.cuts: dict[tuple, Cut] = {}  # by condition and point
        self.refuted: list[Refuted] = []
        self.seen: set[str] = set()
        names = ("proposed", "repeated", "fitted", "near", "broken", "refuted", "proved", "undecided")
        self.counts = dict.fromkeys(names, 0)

    def population(self) -> Population:
        as_members = lambda found: [Member(f.candidate, f.loss * (1 + 0.01 * f.candidate.complexity)) for f in found]
        kept = self.members[-self.specification.population :]
        return Population(as_members(kept), as_members(self.leading()), self.generation, self.seen)

    def leading(self) -> list[Found]:
        """The front by loss of what is not refuted; those that the prover gave up are not there."""
        found = [self.tried.get(f.candidate.key, f) for own in self.best.values() for f in own]
        return _front(found, lambda f: f.loss)

    def front(self) -> list[Found]:
        """The front of error against complexity of what is proved; without conditions, of all."""
        proved = [f for f in self.tried.values() if f.status == "proved"] if self.conditions else self.leading()
        return _front(proved, lambda f: f.score)

    def to_prove(self) -> list[Found]:
        """Members of the front that the prover has not had, the best first."""
        new = [f for f in self.leading() if f.candidate.key not in self.tried] if self.conditions else []
        return sorted(new, key=lambda f: (f.loss, f.number))[: self.specification.proofs]

    def _add(self, cuts) -> None:
        for cut in cuts:
            self.cuts.setdefault(cut[:2], cut)

    def add_fitted(self, candidates, rows) -> None:
        """A generation has its parameters."""
        start = self.counts["fitted"]
        for k, ((candidate, proposer), row) in enumerate(zip(candidates, rows, strict=True), 1):
            f = Found.of(row, start + k, proposer)
            self.seen.add(candidate.key)
            self._add(map(_cut, row.get("cuts", ())))
            self.counts["near"] += "broken" in row
            self.counts["broken"] += f.broken is not None
            self.members += [f] if np.isfinite(f.loss) else []
            if f.training is not None and f.broken is None and np.isfinite(f.loss):
                own = self.best.setdefault(f.candidate.complexity, [])
                own.append(f)
                own.sort(key=lambda f: (f.loss, f.number))
                del own[KEPT:]
        del self.members[: -self.specification.population]
        self.counts["fitted"] += len(candidates)

    def add_proofs(self, chosen, rows) -> None:
        """A generation has its proofs, and is done."""
        self.generation += 1
        for before, row in zip(chosen, rows, strict=True):
            for event in row["events"]:
                cuts = [*map(_cut, event["cuts"])]
                self.refuted.append(Refuted(Found.of(event, before.number, before.proposer), event["by"], cuts[0]))
                self._add(cuts)
            self.counts["refuted"] += len(row["events"])
            f = Found.of(row, before.number, before.proposer)
            self.tried[before.candidate.key] = f
            self.counts["proved"] += f.status == "proved"
            self.counts["undecided"] += f.status == "undecided"
            if f.status != "proved":  # the next best takes its place
                own = self.best[before.candidate.complexity]
                own[:] = [other for other in own if other.candidate.key != before.candidate.key]


def _front(found, score) -> list[Found]:
    """Those that none of less complexity is as good as, the simplest first."""
    front: list[Found] = []
    for f in sorted(found, key=lambda f: (f.candidate.complexity, score(f), f.number)):
        if not front or score(f) < score(front[-1]) * (1 - 1e-9):
            front.append(f)
    return front


# ---- loop.


@dataclass
class Search:
    """A run over generations with a record."""

    specification: Specification
    points: TrainingPoints
    record: Record
    given: Sequence[Candidate] = ()
    jobs: int = 1
    client: Any = None

    def __post_init__(self):
        own = self.specification
        self.workshop, self.state = Workshop(own, self.points), State(own)
        self._processes: list = []
        making: dict[str, Callable[[], Proposer]] = {
            "evolution": lambda: Evolution(own.form, own.complexity),
            "growth": lambda: Growth(self.workshop.nodes),
            "enumeration": lambda: Enumeration(own.form),
            "command": lambda: FromCommand(own.command, own.form),
        }
        total = sum(own.shares.values())
        self._proposers = [(making[name](), share / total) for name, share in own.shares.items() if share]
        self._known: dict[tuple, Any] = {}
        for k, piece in enumerate(self.record.pieces):
            try:
                self._known[piece["what"], piece["generation"], piece["number"]] = piece["found"]
            except (KeyError, TypeError) as error:
                raise self.record.damaged(k, error) from error

    def generations(self, seconds: float | None = None) -> Iterator[State]:
        """The state after each generation; those in the record come from there, however little time is given."""
        began, own = time.monotonic(), self.specification
        with closing(self) if self.client is None else nullcontext():
            while self.state.generation < own.generations:
                if seconds is not None and not self._known and time.monotonic() - began > seconds:
                    return
                self._generation()
                yield self.state
                if any(f.training is not None and f.training < own.stop_below for f in self.state.front()):
                    return

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._processes:
            worker.stop()
        self._processes.clear()

    def _generation(self) -> None:
        state, seed = self.state, (self.specification.seed, self.state.generation)
        (head,) = self._kept("proposed", [0], lambda _: [(0, self._proposals(*seed))])
        candidates = [(Candidate.of(document), who) for document, who, _ in head["candidates"]]
        state.counts["proposed"] += len(candidates) + head["repeated"]
        state.counts["repeated"] += head["repeated"]
        front = tuple((f.candidate.complexity, f.loss) for f in state.leading())
        cuts, trees = newest(state.cuts.values()), tuple(c for c, _ in candidates)
        work = [
            Piece(k, "fit", (*seed, k), trees[i : i + PIECE], cuts, front)
            for k, i in enumerate(range(0, len(trees), PIECE))
        ]
        state.add_fitted(candidates, [row for rows in self._answers(work) for row in rows])
        chosen, cuts = state.to_prove(), newest(state.cuts.values())
        work = [Piece(k, "prove", (*seed, k, 1), (f.candidate,), cuts) for k, f in enumerate(chosen)]
        state.add_proofs(chosen, [row for rows in self._answers(work) for row in rows])

    def _proposals(self, seed, g) -> dict[str, Any]:
        """New candidates of a generation, each once, and how many were known."""
        own, found, repeated = self.specification, [], 0
        keys, population = set(self.state.seen), self.state.population()
        offered = [(c, "given", "given") for c in self.given] if g == 0 else []
        for k, (proposer, share) in enumerate(self._proposers):
            rng = np.random.default_rng([seed, g, k, 7])
            made = proposer.propose(population, rng, int(np.ceil(share * own.size)))
            offered += [(c, proposer.name, origin) for c, origin in made]
        for candidate, who, origin in offered:
            candidate = candidate.canonical()
            if candidate.key in keys:
                repeated += 1
            elif candidate.complexity <= own.complexity and candidate.is_valid(own.form):
                keys.add(candidate.key)
                found.append((candidate.document, who, origin))
        return {"candidates": found, "repeated": repeated}

    def _answers(self, work: list[Piece]) -> list[list]:
        """What each piece found, in their order."""

        def answers(numbers):
            task: Any = self.workshop
            left: list[Any] = [piece for piece in work if piece.number in numbers]
            if self.client is not None:
                arriving: Any = on_cluster(task, left, self.client)
            elif self.jobs > 1:
                arriving = in_processes(task, left, min(self.jobs, len(left)), self._processes)
            else:
                arriving = map(task, left)
            for answer in arriving:
                if answer.error is not None:
                    raise ERRORS.get(answer.exit_code, InputError)(f"discover, {answer.name}: {answer.error}")
                yield answer.number, answer.found

        return self._kept(work[0].what, [piece.number for piece in work], answers) if work else []

    def _kept(self, what: str, numbers: Sequence[int], compute: Callable) -> list:
        """What is known of pieces of this generation from the record; the others are computed and added to it."""
        g = self.state.generation
        found = {n: self._known.pop((what, g, n)) for n in numbers if (what, g, n) in self._known}
        left = [n for n in numbers if n not in found]
        for number, new in compute(left) if left else ():
            found[number] = new
            self.record.add({"what": what, "generation": g, "number": number, "found": new})
        return [found[n] for n in numbers]
