r"""Fits of a functional's parameters to reaction energies and other terms.

    minimise  sum_i r_i(p)^2,   r = (w (E_reaction - reference), terms(p), (p - p_0) / sigma)

Energies have their exact gradients without a response (training.self_consistent), so that a step costs little more than
the energies. Everything that was evaluated, and the densities that the next evaluation begins with, stand in a record:
a fit that was killed goes over it again and continues, to the same bits. The next point follows from what was
evaluated alone, and batches from the seed alone:

    damped:    (J^T J + lambda diag(J^T J)) dp = -J^T r from the best point, lambda smaller after each step that helps
    stepwise:  dp of a rule such as Adam's, from the gradient J^T r at the last point

K. Levenberg, Q. Appl. Math. 2, 164 (1944). doi:10.1090/qam/10666.   D. W. Marquardt, J. Soc. Indust. Appl. Math. 11,
431 (1963). doi:10.1137/0111030
"""

import base64
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.batch.processes import require_client
from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import BenchmarkSet, checked, require_reactions
from dftfd.errors import CheckpointError, InputError, InputWarning, NumericalError
from dftfd.functionals.base import Functional
from dftfd.functionals.named_files import save_functional
from dftfd.functionals.registry import get_functional
from dftfd.model.options import Options
from dftfd.runtime.arguments import (
    Kind,
    accepted,
    callback,
    each,
    mapping,
    optional,
    public,
    refuse_unknown,
    text,
    whole,
)
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.documents import MAGIC
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.records import Record, recorded
from dftfd.training.fit_problem import Elsewhere, FitProblem

START, LESS, MORE, LARGEST = 1e-2, 1 / 3, 5.0, 1e8
"""Marquardt's parameter: at first, after a step that helps, after one that does not, and where no step does."""

SETTLED = 1e-7
"""Relative fall of the loss below which a fit has ended."""


@dataclass(frozen=True)
class Batches:
    """Which reactions an evaluation looks at: all of them, or after the first one batch after the other.

    size: reactions of a batch at most; None for all.   seed: of the order, another one for each pass over the data.
    """

    total: int
    size: int | None
    seed: int

    def at(self, number: int) -> tuple[np.ndarray, bool]:
        """(indices of reactions in order, whether a pass over the data ends here) of an evaluation, from 1."""
        if self.size is None or number == 1:
            return np.arange(self.total), True
        parts = -(-self.total // self.size)
        epoch, part = divmod(number - 2, parts)
        order = np.random.default_rng([self.seed, epoch]).permutation(self.total)
        return np.sort(np.array_split(order, parts)[part]), part == parts - 1


class Damped:
    """Levenberg and Marquardt."""

    def __init__(self, problem):
        self._problem, self._damping = problem, START

    def after(self, step, r, J, best, before) -> tuple[np.ndarray, str]:
        """(the next point, why the fit has ended, empty where it has not); best: loss, point, ..., r, J."""
        if step.accepted and before < np.inf and before - step.loss < SETTLED * before:
            return best[1], "settled"
        self._damping *= LESS if step.accepted else MORE
        point = self._next(best)
        stuck = self._damping > LARGEST or np.array_equal(point, best[1])
        return point, "settled: no step lowers the loss" if stuck else ""

    def _next(self, best):
        """The point of the damped step from the best one, within bounds: what would leave them is held there."""
        _, point, _, r, J = best
        H, g = J.T @ J, J.T @ r
        at_edge = ((point <= self._problem.lowest) & (g > 0)) | ((point >= self._problem.highest) & (g < 0))
        free = np.flatnonzero(~at_edge)
        move = np.zeros_like(point)
        if len(free):
            A = H[np.ix_(free, free)]
            scale = np.maximum(np.diag(A), max(1e-12 * float(np.diag(A).max()), 1e-300))
            move[free] = -np.linalg.solve(A + self._damping * np.diag(scale), g[free])
        return np.clip(point + move, self._problem.lowest, self._problem.highest)


class Stepwise:
    """A transformation of gradients of optax, on the flat parameters; bounds are kept by projection."""

    def __init__(self, problem, optimiser):
        self._problem, self._optimiser = problem, optimiser
        self._state = optimiser.init(jnp.asarray(problem.start))

    def after(self, step, r, J, best, before) -> tuple[np.ndarray, str]:
        """(the next point, why the fit has ended); without a solution where the last step led there is no gradient."""
        if r is None:
            return best[1], "the last step led to where an SCF has no solution; take smaller ones"
        point = jnp.asarray(step.parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a number to an integer array
            move, self._state = self._optimiser.update(jnp.asarray(J.T @ r), self._state, point)
            found = np.asarray(point + move)
        if found.shape != step.parameters.shape or not np.all(np.isfinite(found)):
            raise NumericalError("fit: the optimiser's step is not finite; take a smaller learning rate.")
        return np.clip(found, self._problem.lowest, self._problem.highest), ""


def _as_set(value):
    is_set = issubclass(type(value), BenchmarkSet)
    found = checked(value) if is_set else read_set(str(as_path.convert(value)))
    require_reactions(found)
    if found.left_out:
        name, reason = found.left_out[0]
        warnings.warn(
            f"fit: {len(found.left_out)} reactions of {found.name} are left out: {name}: {reason}",
            InputWarning,
            stacklevel=2,
        )
    return found


SET = Kind("the name of a set, a path, or a BenchmarkSet", _as_set)


OPTIMISER = Kind(
    "a transformation of gradients of optax, such as optax.adam(0.01)",
    lambda value: accepted(all(callable(getattr(value, name, None)) for name in ("init", "update")), value),
)
PAIRS = Kind("a dictionary {parameter: (lowest, highest)}", lambda value: mapping.convert(value))


@dataclass(frozen=True)
class Step:
    """One evaluation of a fit.

    number: from 1.   loss: half the sum of squares, infinite where an SCF has no solution; of a batch, times what it is
    a part of.   training, validation: mean absolute error of reaction energies [kcal/mol], None without.
    accepted: whether it was the best so far; None within a pass over the data, whose mean loss decides at its end.
    parameters: flat.
    """

    number: int
    loss: float
    training: float | None
    validation: float | None
    accepted: bool | None
    parameters: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Fit(ShownAsText):
    """A fitted functional, and how well the data determine it.

    functional: with the parameters that did best, in the validation set where there is one.   names: of its numbers.
    parameters, start: their values.   uncertainties: standard deviations as the curvature of the loss gives them,
    for residuals as large as they are left.   reactions, errors: names and errors [kcal/mol] of the training set at the
    end, errors_before at the start.   sensitivities: (reaction, parameter) dE/dp [kcal/mol per unit].
    steps: the history.   reason: why it ended.
    """

    functional: Functional
    names: tuple[str, ...]
    parameters: np.ndarray
    start: np.ndarray
    uncertainties: np.ndarray
    reactions: tuple[str, ...]
    errors: np.ndarray
    errors_before: np.ndarray
    sensitivities: np.ndarray
    steps: tuple[Step, ...]
    reason: str

    def __str__(self):
        rows = [f"fit of {', '.join(self.names)}: {len(self.steps)} evaluations; {self.reason}"]
        rows += [f"  {'parameter':24s}{'before':>12s}{'after':>12s}{'+-':>10s}"]
        values = zip(self.names, self.start, self.parameters, self.uncertainties, strict=True)
        rows += [f"  {name:24s}{a:12.6f}{b:12.6f}{s:10.2g}" for name, a, b, s in values]
        if len(self.errors):
            before, after = (np.abs(e).mean() for e in (self.errors_before, self.errors))
            rows.append(f"  mean absolute error of {len(self.errors)} reactions: {before:.3f} -> {after:.3f} kcal/mol")
        validated = [step.validation for step in self.steps if step.validation is not None]
        if validated:
            best = min(step.validation for step in self.steps if step.accepted and step.validation is not None)
            rows.append(f"  held out: {validated[0]:.3f} -> {best:.3f} kcal/mol")
        return "\n".join(rows)

    @public
    def save(self, path: Path, name: str) -> None:
        """Write the functional to a file, which `dftfd.load_functional(path)` registers under `name`.

        Raises InputError where the functional that was fitted has no name that finds it again.
        """
        save_functional(path, name, self.functional)


@public
def fit(
    functional: Any,
    training: Annotated[Any, optional(SET)] = None,
    *,
    parameters: Annotated[Sequence[str], each(text, "a list of names of parameters")],
    validation: Annotated[Any, optional(SET)] = None,
    terms: Annotated[Sequence, each(callback(1), "a list of functions of a Functional that give residuals")] = (),
    basis: Annotated[str | None, optional(text)] = None,
    prior: Annotated[dict | None, optional(mapping)] = None,
    bounds: Annotated[dict | None, optional(PAIRS)] = None,
    fixed_densities: Any = None,
    optimiser: Annotated[Any, optional(OPTIMISER)] = None,
    batch_size: Annotated[int | None, optional(whole(1))] = None,
    seed: Annotated[int, whole(0)] = 0,
    evaluations: Annotated[int, whole(1, 1_000_000)] = 20,
    patience: Annotated[int, whole(1)] = 3,
    record: Annotated[Path | None, optional(as_path)] = None,
    jobs: Annotated[int, whole(1)] = 1,
    client: Any = None,
    on_step: Callable[[Step], None] = lambda step: None,
    **options: Any,
) -> Fit:
    """Fit the parameters of a functional to reaction energies, and to the residuals of `terms`.

    functional: a name or a Functional.   training, validation: sets of reactions, by name, file or as BenchmarkSet
        (docs/benchmark.md); weights of reactions are used.   parameters: names of the parameters to be fitted.
    terms: functions Functional -> residuals (k,), see dftfd.losses.
    prior: {parameter: standard deviation} around the initial value.   bounds: {parameter: (lowest, highest)}, which may
        be infinite.
    fixed_densities: a functional whose densities are used for all energies, computed once; None: each functional's own.
        Only the semilocal part of `functional` may then vary.
    optimiser: a gradient transformation of optax, such as optax.adam(0.01), instead of Levenberg-Marquardt. Terms are
        then differentiated in reverse mode, once per evaluation.
    batch_size: reactions per step of such an optimiser, in an order given by `seed`, a new one for each pass over the
        data. The first evaluation uses all reactions. The validation set is evaluated at the end of each pass.
    evaluations: maximum number of evaluations, with `batch_size` of batches.   patience: number of evaluations (with
        `batch_size`: passes) without a smaller validation error, after which the fit ends.
    jobs: number of processes, which share cores and memory.   client: a dask.distributed.Client, as in `run_batch`.
    record: file from which an interrupted fit continues.   on_step: called after each evaluation.
    options: for `run_scf`.

    Raises InputError for unknown names and invalid data, errors of the SCF, CheckpointError for another fit's record.
    """
    refuse_unknown("fit", options, [name for name in Options.__dataclass_fields__ if name not in ("xc", "guess")])
    _require_batches(batch_size, optimiser, training)
    if client is not None:
        require_client(client)
    elsewhere = Elsewhere(jobs, client) if jobs > 1 or client is not None else None
    given = get_functional(functional), parameters, prior or {}, bounds or {}, terms, elsewhere
    problem = FitProblem(*given, gradient_alone=optimiser is not None)
    fixed = None if fixed_densities is None else get_functional(fixed_densities)
    problem.read(training, validation, basis, options)
    batches = Batches(len(problem.training), batch_size, seed)
    order = {} if batch_size is None else {"batch size": batch_size, "seed": seed}
    identity = {} if record is None else problem.identity(fixed, order)
    with recorded_fit(record, problem, identity) as kept, nullcontext() if elsewhere is None else closing(elsewhere):
        if fixed is not None:
            problem.fix_densities(fixed, kept)
        search = Damped(problem) if optimiser is None else Stepwise(problem, optimiser)
        return _minimised(problem, batches, kept, evaluations, patience, on_step, search)


def _require_batches(size, optimiser, training) -> None:
    """InputError for batches of nothing, or for a method that needs all reactions at once."""
    if size is not None and (optimiser is None or training is None):
        raise InputError(
            f"fit: batch_size={size} needs a training set and a gradient optimiser, optimiser=optax.adam(0.01) "
            "(--adam 0.01); give both, or leave it out."
        )


def _plain(value):
    """An array as it stands in a functional: a number where it is one."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _mean(errors):
    return float(np.abs(errors).mean()) if len(errors) else None


def _minimised(problem: FitProblem, batches: Batches, record, most: int, patience: int, on_step, search) -> Fit:
    """The points of a search from the start, until it ends or helps no more."""
    steps: list[Step] = []
    best: Any = None  # loss, point, what was evaluated, residuals, their derivatives
    chosen: Any = None  # (step, best) of what did best where it counts
    point, reason, since, first_errors = problem.start, f"{most} evaluations", 0, None
    losses: list[float] = []  # of this pass over the data
    tried = (problem if record is None else record).tried
    while len(steps) < most:
        batch, ends = batches.at(len(steps) + 1)
        found = tried(point, batch, ends)
        before = np.inf if best is None else best[0]
        step, r, J = _looked_at(problem, len(steps) + 1, point, found, batch, ends)
        losses.append(step.loss)
        if ends:
            loss, losses = float(np.mean(losses)), []
            step = replace(step, accepted=loss < before)
        first_errors = found[0] if first_errors is None else first_errors
        steps.append(step)
        on_step(step)
        if step.accepted:
            best = loss, point, found, r, J
            improves = chosen is None or step.validation is None or step.validation < chosen[0].validation
            chosen, since = ((step, best), 0) if improves else (chosen, since + 1)
            if since >= patience:
                reason = f"no better on the validation set in {patience} steps"
                break
        point, ended = search.after(step, r, J, best, before)
        if ended:
            reason = ended
            break
    return _result(problem, batches, steps, first_errors, chosen[1], reason)


def _looked_at(problem: FitProblem, number, point, found, batch, ends):
    """(Step, residuals, their derivatives) of an evaluation; without a solution an infinite loss and None."""
    if found is None:
        return Step(number, np.inf, None, None, None, point), None, None
    errors, jacobian, held_out, residuals, by_terms = found
    r, J = problem.least_squares(point, errors, jacobian, residuals, by_terms, batch)
    loss, validation = 0.5 * float(r @ r), _mean(held_out) if ends else None
    return Step(number, loss, _mean(errors[batch]), validation, None, point), r, J


def _result(problem: FitProblem, batches: Batches, steps, first_errors, best, reason) -> Fit:
    """The Fit at the best point; what the search has not asked for there is computed now and stands in no record."""
    _, point, found, r, J = best
    everything = np.arange(batches.total)
    if batches.size is not None:
        found = problem.evaluated(point)
    errors, jacobian, _, residuals, by_terms = found
    if problem.gradient_alone:
        residuals, by_terms = problem.every_term(jnp.asarray(point))
        r, J = problem.least_squares(point, errors, jacobian, residuals, by_terms, everything)
    spare = max(1, len(r) - int(np.count_nonzero(problem.precision == 0)) - len(point))
    covariance = np.linalg.pinv(J.T @ J) * float(r @ r) / spare
    numbers = jax.tree_util.tree_map(_plain, problem.unravelled(point))
    return Fit(
        functional=problem.functional.with_parameters(**numbers),
        names=problem.names,
        parameters=point,
        start=problem.start,
        uncertainties=np.sqrt(np.diag(covariance)),
        reactions=tuple(reaction.name for reaction in problem.training),
        errors=errors,
        errors_before=first_errors,
        sensitivities=jacobian,
        steps=tuple(steps),
        reason=reason,
    )


RECORD, PARTS = "a fit", ("errors", "jacobian", "held_out", "residuals", "by_terms")


@contextmanager
def recorded_fit(path, problem, identity: dict[str, Any]) -> Iterator["FitRecord | None"]:
    """The FitRecord of a FitProblem, None without a path; CheckpointError for the record of another fit."""
    if path is None:
        yield None
        return

    def refuse_earlier(content):
        if content.startswith(MAGIC):  # which lacks the geometries, so that it fits to other molecules, too
            raise CheckpointError(
                f"{path} is the record of a fit by an earlier version, which lacks the molecules; use another name."
            )

    with recorded(path, RECORD, identity, earlier=refuse_earlier) as record:
        yield FitRecord(record, problem)


class FitRecord:
    """Evaluations in a record, of `problem`."""

    def __init__(self, record: Record, problem):
        self._record, self._problem, self._asked = record, problem, 0
        self.fixed: dict[str, np.ndarray] = {}
        self._points: list[np.ndarray] = []
        self._answers: list[tuple | None] = []
        self._densities: dict[str, np.ndarray] = {}
        for number, piece in enumerate(record.pieces):
            try:
                self._take(piece)
            except (KeyError, TypeError, ValueError) as error:
                raise record.damaged(number, error) from error

    def _take(self, piece):
        if "fixed" in piece:
            self.fixed = _unpacked_densities(piece["fixed"])
        elif "densities" in piece:
            self._densities = _unpacked_densities(piece["densities"])
        else:
            point = _unpacked(piece["point"])
            self._points.append(point)
            if piece["answer"] is None:
                self._answers.append(None)
                return
            rows = {"jacobian": (-1, len(point)), "by_terms": (-1, len(point))}
            parts = {name: _unpacked(piece["answer"][name]) for name in PARTS}
            self._answers.append(tuple(part.reshape(rows.get(name, -1)) for name, part in parts.items()))

    def keep_fixed(self, densities: dict[str, np.ndarray]) -> None:
        """Keeps density matrices of molecules that the fit does not change."""
        self.fixed = densities
        self._write()

    def tried(self, point, batch, validated):
        """What `problem.tried` gives, from the record as far as it reaches."""
        k, self._asked = self._asked, self._asked + 1
        if k < len(self._points):
            if not np.array_equal(self._points[k], point):
                raise CheckpointError(
                    f"{self._record.path} is the record of another fit: the optimiser or the code of its terms "
                    "differs; use another file."
                )
            if k == 0:
                self._require_terms(point)
            if k == len(self._points) - 1:
                self._problem.densities |= self._densities
                self._problem.begun = True
            return self._answers[k]
        answer = self._problem.tried(point, batch, validated)
        self._points.append(np.array(point))
        self._answers.append(answer)
        self._densities = {name: self._problem.densities[name] for name, _ in self._problem.ordered_scfs()}
        self._write()
        return answer

    def _require_terms(self, point):
        """CheckpointError unless the terms give at the start what they gave; their code is told by that alone."""
        if not self._problem.terms or self._answers[0] is None:
            return
        now = self._problem.of_terms(point)
        for here, there in zip(now, self._answers[0][3:], strict=True):
            if here.shape != there.shape or not np.allclose(here, there, rtol=1e-6, atol=1e-9):
                raise CheckpointError(
                    f"{self._record.path}: the terms of the fit now give other residuals at the start; continue "
                    "with the same terms, or use another file."
                )

    def _write(self):
        pieces: list[dict] = [{"fixed": _packed_densities(self.fixed)}] if self.fixed else []
        for point, answer in zip(self._points, self._answers, strict=True):
            parts = None if answer is None else {n: _packed(part) for n, part in zip(PARTS, answer, strict=True)}
            pieces.append({"point": _packed(point), "answer": parts})
        self._record.replace([*pieces, {"densities": _packed_densities(self._densities)}])


def _packed(array) -> str:
    """Numbers to the last bit."""
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _unpacked(text) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(float)


def _packed_densities(densities) -> dict[str, list]:
    return {name: [*np.shape(P), _packed(P)] for name, P in densities.items()}


def _unpacked_densities(packed) -> dict[str, np.ndarray]:
    return {str(name): _unpacked(text).reshape(shape) for name, (*shape, text) in packed.items()}
