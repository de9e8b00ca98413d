"""The search: propose, fit, refute or prove, and again; a record from which it goes on to the same bits.

A generation is proposed from the state of the search and a random number of its own, fitted in pieces of fixed size on
any number of processes, and its best members go to the prover, whose counterexamples become cuts of all later fits. The
state changes only between generations, so it follows from the record alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from dftfd.batch.cluster import on_cluster
from dftfd.batch.entries import failure
from dftfd.batch.processes import in_processes
from dftfd.discovery.candidate_conditions import Cut, Sampled, cut_of, newest, proof_of
from dftfd.discovery.candidate_fits import Fitted, Fitter, Problem
from dftfd.discovery.forms import Candidate
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.proposers import Enumeration, Evolution, FromCommand, Growth, Member, Population, Proposer
from dftfd.discovery.specification import Specification
from dftfd.errors import InputError
from dftfd.runtime.records import Record
from dftfd.training.fit_problem import ERRORS

PIECE = 20
"""Candidates that are fitted at a time, with one line of the record."""

FEW, MANY = 512, 10_000
"""Points at which conditions are sampled for every candidate, and for those that the prover gets."""

REFITS, STARTS, PROMISING = 2, 5, 1.2
"""Fits under cuts of its own of every candidate; starts of one whose loss is below PROMISING times the front's."""


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


@dataclass(frozen=True)
class Answer:
    """found: a JSON object for each candidate."""

    number: int
    found: list
    error: str | None = None


@dataclass
class Workshop:
    """Answers pieces; what it needs is made once in each process."""

    specification: Specification
    points: TrainingPoints
    _made: dict = field(default_factory=dict)

    def __getstate__(self):
        return {"specification": self.specification, "points": self.points, "_made": {}}

    def once(self, name: str, code: Callable) -> Any:
        if name not in self._made:
            self._made[name] = code()
        return self._made[name]

    @property
    def training(self) -> Problem:
        return self.once("training", lambda: Problem(self.points.of("training"), self.specification.form))

    @property
    def validation(self) -> Problem | None:
        if "validation" not in self.points.role:
            return None
        return self.once("validation", lambda: Problem(self.points.of("validation"), self.specification.form))

    def sampled(self, count: int) -> Sampled:
        own = self.specification
        return self.once(f"sampled {count}", lambda: Sampled(own.form, own.demands, count, own.seed))

    def __call__(self, piece: Piece) -> Any:
        try:
            code = self._fitted if piece.what == "fit" else self._proved
            return Answer(piece.number, [code(piece, k) for k in range(len(piece.candidates))])
        except Exception as error:
            return failure(cast(Any, piece), error)

    def _scores(self, found: Fitted) -> dict[str, Any]:
        training = self.training.mean_absolute(self.training.errors(found.candidate))
        held = self.validation
        return {
            **found.candidate.document,
            "loss": _finite(found.loss),
            "training": _finite(training),
            "validation": None if held is None else _finite(held.mean_absolute(held.errors(found.candidate))),
        }

    def _fitted(self, piece, k):
        """Parameters under the cuts, and under those that a small sample adds."""
        candidate, cuts, own = piece.candidates[k], piece.cuts, []
        rng = np.random.default_rng([*piece.seed, k])
        limit = min((loss for c, loss in piece.front if c <= candidate.complexity), default=np.inf)
        found = Fitter(self.training, cuts).fit(candidate, rng)
        if found.loss < PROMISING * limit:
            found = Fitter(self.training, cuts, 40).fit(found.candidate, rng, STARTS)
        broken = self.sampled(FEW).worst(found.candidate)
        for _ in range(REFITS):
            if broken is None or found.loss > 2 * limit:
                break
            own.append(broken[1])
            found = Fitter(self.training, (*cuts, *own)).fit(found.candidate, rng)
            broken = self.sampled(FEW).worst(found.candidate)
        return self._scores(found) | {
            "broken": None if broken is None else broken[1].document,
            "cuts": [c.document for c in own],
        }

    def _proved(self, piece, k):
        """Cut, fit, sample, prove, until all conditions are proved or the rounds are over."""
        own, fitted = self.specification, piece.candidates[k]
        rng, cuts, events, proofs = np.random.default_rng([*piece.seed, k]), list(piece.cuts), [], {}
        found, status = Fitter(self.training, newest(cuts), 40).fit(fitted, rng, STARTS), "given up"
        for turn in range(own.rounds):
            sample = self.sampled(MANY).worst(found.candidate)
            cut, by = (None, "") if sample is None else (sample[1], "sampling")
            if cut is None:
                cut, proofs, status = self._by_proof(found.candidate)
                by = "proof"
            if cut is None:
                break
            status = "given up"
            events.append({"by": by, "cut": cut.document, **self._scores(found)})
            cuts.append(cut)
            found = Fitter(self.training, newest(cuts), 40).fit(found.candidate, rng, 2, weight=2.0**turn)
        return self._scores(found) | {"status": status, "proofs": proofs, "events": events}

    def _by_proof(self, candidate):
        """(cut or None, {condition: outcome}, status)."""
        own, proofs, status = self.specification, {}, "proved"
        for name in own.demands.of_form(own.form):
            proof = proof_of(own.form, candidate, name, own.demands)
            if proof is None:
                proofs[name] = "does not apply"
                continue
            proofs[name] = f"{proof.outcome}, {proof.boxes} boxes" if proof.proved else proof.outcome
            if proof.outcome == "violated":
                return cut_of(proof), proofs, "given up"
            status = status if proof.proved else "undecided"
        return None, proofs, status


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _number(x: float | None) -> float:
    return np.inf if x is None else x


# ---- state.


@dataclass(frozen=True)
class Found:
    """A candidate with its scores [kcal/mol]: root mean square with penalties, mean absolute errors.

    number: in the order of proposal, from 1.   broken: where a sample of conditions breaks it.
    status: "" before the prover had it, "proved", "undecided", "given up".   proofs: {condition: outcome}.
    """

    number: int
    candidate: Candidate
    loss: float
    training: float
    validation: float | None
    proposer: str
    broken: Cut | None = None
    status: str = ""
    proofs: Mapping[str, str] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """Mean absolute error that candidates are chosen by: of the validation set where there is one."""
        return self.training if self.validation is None else max(self.training, self.validation)


@dataclass(frozen=True)
class Cheat:
    """A candidate that was refuted.   by: "sampling" of 10,000 points, or "proof", which sampling had passed."""

    found: Found
    by: str
    cut: Cut


class State:
    """What is known after some generations; follows from the pieces of the record."""

    def __init__(self, specification: Specification):
        self.specification = specification
        self.generation = 0
        self.members: list[Found] = []
        self.best: dict[int, list[Found]] = {}  # of a complexity, the best few that no sample breaks
        self.tried: dict[str, Found] = {}  # by key, those that the prover had
        self.cuts: list[Cut] = []
        self.cheats: list[Cheat] = []
        self.seen: set[str] = set()
        self.counts = {
            "proposed": 0,
            "repeated": 0,
            "fitted": 0,
            "broken": 0,
            "refuted": 0,
            "proved": 0,
            "undecided": 0,
        }

    def population(self, asked: dict[str, int]) -> Population:
        """asked: how many candidates each proposer has been asked for."""
        large = 1e6
        as_member = lambda f: Member(f.candidate, min(large, f.loss * (1 + 0.01 * f.candidate.complexity)))
        kept = self.members[-self.specification.population :]
        return Population([as_member(f) for f in kept], [as_member(f) for f in self.leading()], asked, self.seen)

    def leading(self) -> list[Found]:
        """The front by loss of what is not refuted; those that the prover gave up are not there."""
        rows = sorted(
            ((c, f) for c, own in self.best.items() for f in own), key=lambda row: (row[0], row[1].loss, row[1].number)
        )
        found: list[Found] = []
        for _, f in rows:
            f = self.tried.get(f.candidate.key, f)
            if not found or f.loss < found[-1].loss * (1 - 1e-9):
                found.append(f)
        return found

    def front(self) -> list[Found]:
        """The front of error against complexity of what is proved; without conditions, of all."""
        proved = [f for f in self.tried.values() if f.status == "proved"] if self.conditions else self.leading()
        found: list[Found] = []
        for f in sorted(proved, key=lambda f: (f.candidate.complexity, f.score, f.number)):
            if not found or f.score < found[-1].score:
                found.append(f)
        return found

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.specification.demands.of_form(self.specification.form)

    def add_fitted(self, candidates, fitted) -> None:
        """A generation has its parameters."""
        start = self.counts["proposed"]
        for k, ((candidate, proposer), row) in enumerate(zip(candidates, fitted, strict=True), 1):
            f = _found(row, start + k, proposer)
            self.counts["fitted"] += 1
            self.cuts += [c for c in map(_cut, row["cuts"]) if c not in self.cuts]
            self.counts["broken"] += f.broken is not None
            self.seen.add(candidate.key)
            if np.isfinite(f.loss):
                self.members.append(f)
                if f.broken is None:
                    own = self.best.setdefault(f.candidate.complexity, [])
                    own.append(f)
                    own.sort(key=lambda f: (f.loss, f.number))
                    del own[8:]
        del self.members[: -2 * self.specification.population]
        self.counts["proposed"] += len(candidates)

    def add_proofs(self, proved) -> None:
        """A generation has its proofs, rows of (key, number, proposer, what was found), and is done."""
        self.generation += 1
        for key, number, proposer, row in proved:
            for event in row["events"]:
                cut = _cut(event["cut"])
                self.cheats.append(Cheat(_found(event, number, proposer), event["by"], cut))
                self.cuts += [cut] if cut not in self.cuts else []
                self.counts["refuted"] += 1
            f = _found(row, number, proposer)
            self.counts["proved"] += f.status == "proved"
            self.counts["undecided"] += f.status == "undecided"
            self.tried[key] = f
            if f.status != "proved":
                for own in self.best.values():
                    own[:] = [other for other in own if other.candidate.key != key]

    def to_prove(self) -> list[Found]:
        """Members of the front that the prover has not had, the best first."""
        if not self.conditions:
            return []
        new = [f for f in self.leading() if f.candidate.key not in self.tried]
        return sorted(new, key=lambda f: (f.loss, f.number))[: self.specification.proofs]


def _cut(document) -> Cut:
    return Cut(document[0], tuple(document[1]))


def _found(row, number, proposer) -> Found:
    return Found(
        number,
        Candidate.of(row),
        _number(row["loss"]),
        _number(row["training"]),
        None if row["validation"] is None else row["validation"],
        proposer,
        None if row.get("broken") is None else _cut(row["broken"]),
        row.get("status", ""),
        row.get("proofs", {}),
    )


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
        self.workshop = Workshop(self.specification, self.points)
        self.state = State(self.specification)
        self._proposers = self._made_proposers()
        self._processes: list = []

    def _made_proposers(self) -> list[tuple[Proposer, float]]:
        own = self.specification
        total = sum(own.shares.values())
        making: dict[str, Callable[[], Proposer]] = {
            "evolution": lambda: Evolution(own.form, own.complexity),
            "growth": lambda: Growth(self.workshop.training),
            "enumeration": lambda: Enumeration(own.form),
            "command": lambda: FromCommand(own.command, own.form),
        }
        return [(making[name](), share / total) for name, share in own.shares.items() if share]

    def generations(self, seconds: float | None = None) -> Iterator[State]:
        """The state after each generation; those in the record come from there."""
        began, pieces = time.monotonic(), _Pieces(self.record)
        with closing(self) if self.client is None else nullcontext():
            while self.state.generation < self.specification.generations:
                if seconds is not None and time.monotonic() - began > seconds:
                    return
                self._generation(pieces)
                yield self.state
                if any(f.training < self.specification.stop_below for f in self.state.front()):
                    return

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._processes:
            worker.stop()
        self._processes.clear()

    def _generation(self, pieces: "_Pieces") -> None:
        state, g = self.state, self.state.generation
        head = pieces.take("proposed", g, 0)
        if head is None:
            proposals, repeated = self._proposals(g)
            head = {"candidates": [[c.document, who, origin] for c, who, origin in proposals], "repeated": repeated}
            pieces.add("proposed", g, 0, head)
        candidates = [(Candidate.of(doc), who) for doc, who, _ in head["candidates"]]
        state.counts["repeated"] += head["repeated"]
        front = tuple((f.candidate.complexity, f.loss) for f in state.leading())
        cuts, trees = newest(state.cuts), [c for c, _ in candidates]
        seed = self.specification.seed
        work = [
            Piece(k, "fit", (seed, g, k), tuple(trees[i : i + PIECE]), cuts, front)
            for k, i in enumerate(range(0, len(trees), PIECE))
        ]
        fitted = [row for rows in self._answers(work, g, pieces) for row in rows]
        state.add_fitted(candidates, fitted)
        chosen = state.to_prove()
        cuts = tuple(state.cuts)
        work = [Piece(k, "prove", (seed, g, k, 1), (f.candidate,), cuts) for k, f in enumerate(chosen)]
        rows = [rows[0] for rows in self._answers(work, g, pieces)]
        state.add_proofs([(f.candidate.key, f.number, f.proposer, row) for f, row in zip(chosen, rows, strict=True)])

    def _proposals(self, g):
        """New candidates of a generation, each once, and how many were known."""
        own, found, repeated = self.specification, [], 0
        keys = set(self.state.seen)
        offered = [(c, "given", "given") for c in self.given] if g == 0 else []
        for k, (proposer, share) in enumerate(self._proposers):
            count = int(np.ceil(share * own.size))
            population = self.state.population({proposer.name: g * count})
            made = proposer.propose(population, np.random.default_rng([own.seed, g, k, 7]), count)
            offered += [(c, proposer.name, origin) for c, origin in made]
        for candidate, who, origin in offered:
            candidate = candidate.canonical()
            if not candidate.trees or candidate.complexity > own.complexity or not candidate.is_valid(own.form):
                continue
            if candidate.key in keys:
                repeated += 1
                continue
            keys.add(candidate.key)
            found.append((candidate, who, origin))
        return found, repeated

    def _answers(self, work: list[Piece], g: int, pieces: "_Pieces") -> list[list]:
        """What each piece found, in their order; those in the record are not computed."""
        if not work:
            return []
        what = work[0].what
        found = {
            piece.number: known["found"] for piece in work if (known := pieces.take(what, g, piece.number)) is not None
        }
        left: list[Any] = [piece for piece in work if piece.number not in found]
        task: Any = self.workshop
        if not left:
            arriving: Any = ()
        elif self.client is not None:
            arriving = on_cluster(task, left, self.client)
        elif self.jobs > 1:
            arriving = in_processes(task, left, min(self.jobs, len(left)), self._processes)
        else:
            arriving = map(task, left)
        for answer in arriving:
            if answer.error is not None:
                raise ERRORS.get(answer.exit_code, InputError)(f"discover, {answer.name}: {answer.error}")
            found[answer.number] = answer.found
            pieces.add(what, g, answer.number, {"found": answer.found})
        return [found[piece.number] for piece in work]


class _Pieces:
    """The lines of the record by what, generation and number."""

    def __init__(self, record: Record):
        self._record = record
        self._known: dict[tuple, dict] = {}
        for k, piece in enumerate(record.pieces):
            try:
                self._known[piece["what"], piece["generation"], piece["number"]] = piece["of"]
            except (KeyError, TypeError) as error:
                raise record.damaged(k, error) from error

    def take(self, what: str, generation: int, number: int) -> dict | None:
        return self._known.pop((what, generation, number), None)

    def add(self, what: str, generation: int, number: int, of: dict) -> None:
        self._record.add({"what": what, "generation": generation, "number": number, "of": of})
