r"""Fits of a functional's parameters to reaction energies and other terms, by Levenberg and Marquardt's method.

    minimise  sum_i r_i(p)^2,   r = (w (E_reaction - reference), terms(p), (p - p_0) / sigma)

Energies have their exact gradients without a response (training.self_consistent), so that a step costs little more than
the energies. Everything that was evaluated, and the densities that the next evaluation begins with, stand in a record:
a fit that was killed goes over it again and continues, to the same bits.

K. Levenberg, Q. Appl. Math. 2, 164 (1944). doi:10.1090/qam/10666.   D. W. Marquardt, J. Soc. Indust. Appl. Math. 11,
431 (1963). doi:10.1137/0111030
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import HARTREE, BenchmarkSet
from dftfd.errors import InputError, NotConvergedError, NumericalError
from dftfd.functionals.base import Functional
from dftfd.functionals.guests import without_guests
from dftfd.functionals.registry import get_functional
from dftfd.model.options import Options
from dftfd.runtime.arguments import (
    Kind,
    callback,
    each,
    mapping,
    number,
    optional,
    public,
    refuse_unknown,
    text,
    whole,
)
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.molecule import molecule
from dftfd.training.fit_record import FitRecord, identity_of
from dftfd.training.saved import save_functional
from dftfd.training.self_consistent import DifferentiableSCF

log = logging.getLogger(__name__)

BASIS = "def2-svp"
"""Where neither the call nor the set names one."""

START, LESS, MORE, LARGEST = 1e-2, 1 / 3, 5.0, 1e8
"""Marquardt's parameter: at first, after a step that helps, after one that does not, and where no step does."""

SETTLED = 1e-7
"""Relative fall of the loss below which a fit has ended."""


def _as_set(value):
    if issubclass(type(value), BenchmarkSet):
        return value
    return read_set(str(as_path.convert(value)))


SET = Kind("the name of a set, a path, or a BenchmarkSet", _as_set)
PAIRS = Kind("a dictionary {parameter: (lowest, highest)}", lambda value: mapping.convert(value))


@dataclass(frozen=True)
class Step:
    """One evaluation of a fit.

    number: from 1.   loss: half the sum of squares, infinite where an SCF has no solution.   training, validation: mean
    absolute error of reaction energies [kcal/mol], None without.   accepted: whether it was the best so far.
    parameters: flat.
    """

    number: int
    loss: float
    training: float | None
    validation: float | None
    accepted: bool
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
            rows.append(f"  held out: {validated[0]:.3f} -> {min(self._accepted_validation()):.3f} kcal/mol")
        return "\n".join(rows)

    def _accepted_validation(self):
        return [step.validation for step in self.steps if step.accepted and step.validation is not None]

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
    evaluations: Annotated[int, whole(1)] = 20,
    patience: Annotated[int, whole(1)] = 3,
    record: Annotated[Path | None, optional(as_path)] = None,
    on_step: Callable[[Step], None] = lambda step: None,
    **options: Any,
) -> Fit:
    """The functional whose parameters fit reaction energies, and whatever `terms` ask for, best.

    functional: a name or a Functional.   training, validation: sets of reactions, by name, file or as BenchmarkSet (the
    form of docs/benchmark.md); weights of reactions count.   parameters: those that vary, the others stay.
    terms: functions of a Functional that give residuals (k,), see dftfd.losses.
    prior: {parameter: standard deviation} about the start.   bounds: {parameter: (lowest, highest)}.
    evaluations: at most.   patience: evaluations in a row that may help the training alone, before it ends.
    record: a file, with which a fit that was interrupted continues.   on_step: told of each evaluation.
    options: those of run_scf.

    Raises InputError for names and data that do not fit, what the SCF raises, CheckpointError for another fit's record.
    """
    refuse_unknown("fit", options, [name for name in Options.__dataclass_fields__ if name not in ("xc", "guess")])
    problem = _Problem(get_functional(functional), parameters, prior or {}, bounds or {}, terms)
    problem.read(training, validation, basis, options)
    kept = None if record is None else FitRecord(record, problem.identity(options))
    return _minimised(problem, kept, evaluations, patience, on_step)


class _Problem:
    """Residuals and their derivatives as functions of the flat parameters."""

    def __init__(self, functional: Functional, names, prior, bounds, terms):
        known = functional.parameters
        for name in names:
            if name not in known:
                functional.with_parameters(**{name: 0.0})  # which says so, with the closest ones
        if not names or len(set(names)) < len(names):
            raise InputError("fit: give the names of the parameters that vary, each once.")
        for what, given in (("prior", prior), ("bounds", bounds)):
            refuse_unknown(f"fit's {what}", given, names)
        without_guests(functional, "whose parameters fits do not reach")
        self.functional, self.terms, self._names = functional, terms, names
        for _, term in functional.terms:
            term.is_nonlocal  # noqa: B018  known before there are tracers
        chosen = {name: _numbers(name, known[name]) for name in names}
        flat, self._unravel = ravel_pytree(chosen)
        self.start = np.asarray(flat)
        sizes = {name: np.size(ravel_pytree(chosen[name])[0]) for name in names}
        ordered = sorted(names)  # as pytrees have them
        self.names = tuple(name if sizes[name] == 1 else f"{name}[{k}]" for name in ordered for k in range(sizes[name]))
        deviations = {name: _POSITIVE.checked(f"prior of {name}", prior[name]) for name in prior}
        spread = [deviations.get(name, np.inf) for name in ordered for _ in range(sizes[name])]
        self.precision = 1.0 / np.array(spread)
        limits = {name: _LIMITS.checked(f"bounds of {name}", bounds[name]) for name in bounds}
        pairs = [limits.get(name, (-np.inf, np.inf)) for name in ordered for _ in range(sizes[name])]
        self.lowest, self.highest = np.array(pairs).T
        if np.any(self.start < self.lowest) or np.any(self.start > self.highest):
            raise InputError("fit: the parameters begin outside of their bounds.")

    def read(self, training, validation, basis, options):
        """Takes the sets in, with a differentiable SCF for each molecule."""
        self.sets = [found for found in (training, validation) if found is not None]
        if training is None and not self.terms:
            raise InputError("fit: give a training set, or terms.")
        species: dict[str, Any] = {}
        for found in self.sets:
            for name, one in found.species.items():
                if species.setdefault(name, one) != one:
                    raise InputError(f"fit: molecule {name!r} differs between training and validation set.")
        self.basis = basis or (training.basis if training is not None else None) or BASIS
        self.scfs, self.densities = {}, {}
        needed = {name for found in self.sets for r in found.reactions for name, _ in r.stoichiometry}
        for name in sorted(needed):
            one = species[name]
            system = molecule(one.atoms, self.basis, one.charge, one.spin, allow_close=True)
            self.scfs[name] = DifferentiableSCF(system, Options(xc=self.functional, **options))
        self.training = () if training is None else training.reactions
        self.validation = () if validation is None else validation.reactions

    def identity(self, options) -> str:
        """Text that is equal for equal fits."""
        reactions = [(r.name, r.stoichiometry, r.reference, r.weight) for r in (*self.training, *self.validation)]
        return identity_of(self.functional, self.names, reactions, self.basis, options, len(self.terms))

    def unravelled(self, flat) -> dict[str, Any]:
        """Parameters by name."""
        return self._unravel(jnp.asarray(flat))

    def ordered_scfs(self) -> list:
        """(name, DifferentiableSCF) of all molecules, in the order of the record."""
        return sorted(self.scfs.items())

    def with_numbers(self, flat) -> Functional:
        return self.functional.with_parameters(**self.unravelled(flat))

    def evaluated(self, flat):
        """(training errors, their derivatives, validation errors [kcal/mol], terms' residuals, their derivatives)."""
        energies, slopes, densities = {}, {}, {}
        for name, scf in self.ordered_scfs():
            guess = self.densities.get(name)

            def energy(p, scf=scf, guess=guess):
                found = scf(self.with_numbers(p), guess=guess)
                return found.energy, found.density_matrix

            (E, P), slope = jax.value_and_grad(energy, has_aux=True)(jnp.asarray(flat))
            energies[name], slopes[name], densities[name] = float(E), np.asarray(slope), np.asarray(P)
        of = lambda reactions, table: np.array([sum(c * table[n] for n, c in r.stoichiometry) for r in reactions])
        reference = lambda reactions: np.array([r.reference for r in reactions])
        errors = HARTREE * of(self.training, energies) - reference(self.training)
        held_out = HARTREE * of(self.validation, energies) - reference(self.validation)
        jacobian = HARTREE * of(self.training, slopes).reshape(len(self.training), len(self.start))
        residuals, by_terms = self._of_terms(jnp.asarray(flat))
        found = errors, jacobian, held_out, residuals, by_terms
        if not all(np.all(np.isfinite(x)) for x in found):
            raise NumericalError(f"fit: the residuals at {dict(zip(self.names, flat, strict=True))} are not finite.")
        self.densities = densities  # where the next evaluation begins; not where this one fails
        return found

    def tried(self, flat):
        """What `evaluated` gives, None where an SCF does not converge or is not finite."""
        try:
            return self.evaluated(flat)
        except (NotConvergedError, NumericalError) as error:
            if not self.densities and self.scfs:
                raise  # at the start
            log.warning("fit: no solution at %s: %s", dict(zip(self.names, flat, strict=True)), error)
            return None

    def _of_terms(self, flat):
        """Residuals of all terms (k,) and their derivatives (k, parameter), forward or in reverse."""
        size, parts = len(flat), []
        for term in self.terms:
            code = lambda p, term=term: jnp.ravel(jnp.asarray(term(self.with_numbers(p))))
            value, pull = jax.vjp(code, flat)
            if len(value) <= size:
                rows = np.array([pull(unit)[0] for unit in jnp.eye(len(value))])
            else:
                rows = np.transpose([jax.jvp(code, (flat,), (unit,))[1] for unit in jnp.eye(size)])
            parts.append((np.asarray(value), np.reshape(rows, (len(value), size))))
        if not parts:
            return np.zeros(0), np.zeros((0, size))
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def least_squares(self, flat, errors, jacobian, residuals, by_terms):
        """(r, dr/dp) of everything whose squares are added up."""
        weights = np.array([1.0 if r.weight is None else np.sqrt(r.weight) for r in self.training])
        r = [weights * errors, residuals, (flat - self.start) * self.precision]
        return np.concatenate(r), np.concatenate([weights[:, None] * jacobian, by_terms, np.diag(self.precision)])


def _numbers(name, value):
    """A parameter with arrays in the place of its numbers; InputError for what else there may be."""
    leaves = jax.tree_util.tree_leaves(value)
    if not leaves or any(np.asarray(leaf).dtype.kind not in "f" for leaf in leaves):
        raise InputError(f"fit: parameter {name!r} is not made of real numbers alone; give others.")
    return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), value)


def _plain(value):
    """An array as it stands in a functional: a number where it is one."""
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


_POSITIVE = number(lambda x: x > 0, "a positive number")


def _as_limits(value):
    low, high = (number().convert(x) for x in value)
    if low >= high:
        raise ValueError
    return low, high


_LIMITS = Kind("a pair of numbers, the lower one first", _as_limits)


def _mean(errors):
    return float(np.abs(errors).mean()) if len(errors) else None


def _minimised(problem: _Problem, record, most: int, patience: int, on_step) -> Fit:
    """Levenberg's and Marquardt's steps from the start."""
    steps: list[Step] = []
    best: Any = None  # loss, point, what was evaluated, residuals, their derivatives
    chosen: Any = None  # (step, best) of what did best where it counts
    damping, point, reason, since, first_errors = START, problem.start, f"{most} evaluations", 0, None
    while len(steps) < most:
        found = problem.tried(point) if record is None else record.tried(problem, point)
        before = np.inf if best is None else best[0]
        step, r, J = _looked_at(problem, len(steps) + 1, point, found, before)
        loss, first_errors = step.loss, found[0] if first_errors is None else first_errors
        steps.append(step)
        on_step(step)
        if step.accepted:
            best, damping = (loss, point, found, r, J), damping * LESS
            improves = chosen is None or step.validation is None or step.validation < chosen[0].validation
            chosen, since = ((step, best), 0) if improves else (chosen, since + 1)
            if since >= patience:
                reason = f"no better on the validation set in {patience} steps"
                break
            if before < np.inf and before - loss < SETTLED * before:
                reason = "settled"
                break
        else:
            damping *= MORE
        point = _next(problem, best, damping)
        if damping > LARGEST or np.array_equal(point, best[1]):
            reason = "settled: no step lowers the loss"
            break
    return _result(problem, steps, first_errors, chosen[1], reason)


def _looked_at(problem: _Problem, number, point, found, before):
    """(Step, residuals, their derivatives) of an evaluation; without a solution an infinite loss and None."""
    if found is None:
        return Step(number, np.inf, None, None, False, point), None, None
    errors, jacobian, held_out, residuals, by_terms = found
    r, J = problem.least_squares(point, errors, jacobian, residuals, by_terms)
    loss = 0.5 * float(r @ r)
    return Step(number, loss, _mean(errors), _mean(held_out), loss < before, point), r, J


def _next(problem, best, damping):
    """The point of the damped step from the best one, within bounds: what would leave them is held there."""
    _, point, _, r, J = best
    H, g = J.T @ J, J.T @ r
    at_edge = ((point <= problem.lowest) & (g > 0)) | ((point >= problem.highest) & (g < 0))
    free = np.flatnonzero(~at_edge)
    move = np.zeros_like(point)
    if len(free):
        A = H[np.ix_(free, free)]
        scale = np.maximum(np.diag(A), max(1e-12 * float(np.diag(A).max()), 1e-300))
        move[free] = -np.linalg.solve(A + damping * np.diag(scale), g[free])
    return np.clip(point + move, problem.lowest, problem.highest)


def _result(problem: _Problem, steps, first_errors, best, reason) -> Fit:
    _, point, (errors, jacobian, *_), r, J = best
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
