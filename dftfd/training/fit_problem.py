"""What a fit minimises: residuals of reactions and of terms with their derivatives, as functions of flat parameters.

Energies of molecules and their derivatives by parameters are computed here, in processes, or on a Dask cluster.
Processes and cluster are those of batches (dftfd.batch); a process keeps the integrals of the molecules it met.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dftfd.batch.entries import failure
from dftfd.batch.processes import in_processes, on_cluster
from dftfd.errors import FileError, InputError, NotConvergedError, NumericalError, ResourceError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.definition import made_again, portable
from dftfd.functionals.grid_functionals import without_grid_functionals
from dftfd.functionals.parameters import place_of
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.model.identity import formula_of, identity_of_molecule, identity_of_options
from dftfd.model.options import Options
from dftfd.runtime.arguments import Kind, accepted, number, refuse_unknown
from dftfd.runtime.records import digest
from dftfd.system.molecule import Molecule, molecule
from dftfd.training.self_consistent import DifferentiableSCF

ERRORS: dict[int, type[Exception]] = {
    error.exit_code: error for error in (NotConvergedError, NumericalError, FileError, ResourceError)
}
"""What the exit code of a failure elsewhere stands for; InputError for others."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A molecule whose energy is asked for.

    fit: what it belongs to.   options: of run_scf.   functional: as other processes get it, whose parameters `names`
    are the flat numbers `at`.   guess: density matrix to begin with, or None.
    """

    number: int
    name: str
    fit: str
    molecule: Molecule
    options: dict
    functional: Any
    names: tuple[str, ...]
    at: np.ndarray
    guess: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Answer:
    """Energy [hartree], its derivatives by the flat numbers, density matrix (spin, ao, ao)."""

    number: int
    name: str
    energy: float
    slope: np.ndarray
    P: np.ndarray
    error: str | None = None


def energy_and_slope(scf: DifferentiableSCF, functional_at, flat, guess) -> tuple[float, np.ndarray, np.ndarray]:
    """(E, dE/dp, P) of the functional that functional_at makes of flat numbers p."""

    def energy(p):
        found = scf(functional_at(p), guess=guess)
        return found.energy, found.density_matrix

    (E, P), slope = jax.value_and_grad(energy, has_aux=True)(jnp.asarray(flat))
    return float(E), np.asarray(slope), np.asarray(P)


_met: dict[tuple[str, str], DifferentiableSCF] = {}
"""Molecules of the fit that this process works for."""


def answered(asked: Asked) -> Any:
    """The Answer, or the Outcome of a failure."""
    try:
        functional = made_again(asked.functional)
        _, unravel = ravel_pytree({name: functional.parameters[name] for name in asked.names})
        for key in [key for key in _met if key[0] != asked.fit]:
            del _met[key]
        key = asked.fit, asked.name
        if key not in _met:
            _met[key] = DifferentiableSCF(asked.molecule, Options(xc=functional, **asked.options))
        found = energy_and_slope(_met[key], lambda p: functional.with_parameters(**unravel(p)), asked.at, asked.guess)
        return Answer(asked.number, asked.name, *found)
    except Exception as error:
        return failure(cast(Any, asked), error)


@dataclass
class Elsewhere:
    """Processes, or the workers of a Dask client, that answer; `close` ends the processes."""

    jobs: int
    client: Any = None
    workers: list = field(default_factory=list)

    def answers(self, asked: Iterable[Asked]) -> Iterator[Answer]:
        """As they come; raises what the first failure stands for."""
        task: Any = answered  # batches ask of an entry that it has a number and a name
        entries: list[Any] = list(asked)
        arriving: Any = (
            in_processes(task, entries, min(self.jobs, len(entries)), self.workers)
            if self.client is None
            else on_cluster(task, entries, self.client)
        )
        for answer in arriving:
            if answer.error is not None:
                arriving.close()
                raise ERRORS.get(answer.exit_code, InputError)(f"{answer.name}: {answer.error}")
            yield answer

    def close(self) -> None:
        """Ends the processes."""
        for worker in self.workers:
            worker.stop()
        self.workers.clear()


log = logging.getLogger(__name__)

BASIS = "def2-svp"
"""Where neither the call nor the set names one."""

_POSITIVE = number(lambda x: x > 0, "a positive number")


def _as_limits(value):
    low, high = (number(finite=False).convert(x) for x in value)
    return accepted(low < high, (low, high))


_LIMITS = Kind("a pair of numbers, the lower one first", _as_limits)


class FitProblem:
    """Residuals and their derivatives as functions of the flat parameters.

    gradient_alone: the search asks for no more, so that terms are differentiated in reverse, all at once.
    """

    def __init__(
        self, functional: Functional, names, prior, bounds, terms, elsewhere: Elsewhere | None, gradient_alone: bool
    ):
        self.elsewhere, self.gradient_alone = elsewhere, gradient_alone
        self.begun = False  # whether an evaluation has been there
        terms_of = [term for _, term in functional.terms]
        known: dict[str, Any] = {}
        plain: set[str] = set()
        for name in names:
            parameter, chosen = place_of(functional.name, terms_of, functional.exact_exchange, name)
            known[name] = chosen[-1].parameters[parameter]
            plain.add(parameter)
        if not names or len(set(names)) < len(names):
            raise InputError("fit: give the names of the parameters that vary, each once.")
        for what, given in (("prior", prior), ("bounds", bounds)):
            refuse_unknown(f"fit's {what}", given, names)
        without_grid_functionals(functional, "whose parameters fits do not reach")
        self.functional, self.terms, self._names, self._plain = functional, terms, names, plain
        for _, term in functional.terms:
            term.is_nonlocal  # noqa: B018  known before there are tracers
        begun = {name: _numbers(name, known[name]) for name in names}
        flat, self._unravel = ravel_pytree(begun)
        self.start = np.asarray(flat)
        sizes = {name: np.size(ravel_pytree(begun[name])[0]) for name in names}
        ordered = sorted(names)  # as pytrees have them
        self.names = tuple(name if sizes[name] == 1 else f"{name}[{k}]" for name in ordered for k in range(sizes[name]))
        deviations = {name: _POSITIVE.checked(f"prior of {name}", prior[name]) for name in prior}
        spread = [deviations.get(name, np.inf) for name in ordered for _ in range(sizes[name])]
        self.precision = 1.0 / np.array(spread)
        limits = {name: _LIMITS.checked(f"bounds of {name}", bounds[name]) for name in bounds}
        pairs = [limits.get(name, (-np.inf, np.inf)) for name in ordered for _ in range(sizes[name])]
        self.lowest, self.highest = np.array(pairs).T
        if np.any(self.start < self.lowest) or np.any(self.start > self.highest):
            raise InputError("fit: the initial parameters are outside their bounds.")

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
        self.scfs, self.densities, self.at_fixed = {}, {}, {}
        self.options, self.key = options, uuid.uuid4().hex
        needed = {name for found in self.sets for r in found.reactions for name, _ in r.stoichiometry}
        if len(needed) > 1 and (given := Options(**options).by_number()):
            raise InputError(f"{min(given)}= is for one molecule; this fit computes {len(needed)}.")
        for name in sorted(needed):
            one = species[name]
            system = molecule(one.atoms, self.basis, one.charge, one.spin, allow_close=True)
            self.scfs[name] = DifferentiableSCF(system, Options(xc=self.functional, **options))
        self.training = () if training is None else training.reactions
        self.validation = () if validation is None else validation.reactions

    def fix_densities(self, functional: Functional, record) -> None:
        """Energies are those at the densities of a functional from now on, which are computed here."""
        _require_semilocal_change(self.functional, self._plain)
        known = {} if record is None else record.fixed
        for name, P in self._densities_of(functional, known):
            known[name] = P
            if record is not None:
                record.keep_fixed(known)
        for name, scf in self.ordered_scfs():
            self.at_fixed[name] = scf.at_fixed_density(self.functional, known[name])
            scf.forget()
        self.scfs = {}

    def _densities_of(self, functional, known):
        """(name, P) of the molecules that are not known yet."""
        if self.elsewhere is None:
            for name, scf in self.ordered_scfs():
                if name not in known:
                    yield name, np.asarray(scf(functional).density_matrix)
                    scf.forget()
            return
        asked = self._asked(functional, (), np.zeros(0), {})
        for answer in self.elsewhere.answers(one for one in asked if one.name not in known):
            yield answer.name, answer.P

    def identity(self, fixed, order: dict[str, Any]) -> dict[str, Any]:
        """What evaluations depend on, by name; order: what decides on batches."""
        reactions = [(r.name, r.stoichiometry, r.reference, r.weight) for r in (*self.training, *self.validation)]
        molecules = [scf.molecule for _, scf in self.ordered_scfs()]
        found = identity_of_options(Options(xc=self.functional, **self.options), molecules)
        found |= {"parameters": " ".join(self._names), "reactions": digest(reactions), "basis": self.basis}
        found |= {"held out": len(self.validation)} if self.validation else {}
        found |= {"molecules": digest([identity_of_molecule(m) for m in molecules]), "number of terms": len(self.terms)}
        found |= {"prior": digest(self.precision), "bounds": digest([str(self.lowest), str(self.highest)])}
        return found | ({} if fixed is None else {"fixed densities": formula_of(fixed)}) | order

    def unravelled(self, flat) -> dict[str, Any]:
        """Parameters by name."""
        return self._unravel(jnp.asarray(flat))

    def ordered_scfs(self) -> list:
        """(name, DifferentiableSCF) of all molecules, in the order of the record."""
        return sorted(self.scfs.items())

    def with_numbers(self, flat) -> Functional:
        return self.functional.with_parameters(**self.unravelled(flat))

    def evaluated(self, flat, batch=None, validated=True):
        """(training errors, their derivatives, validation errors [kcal/mol], terms' residuals, their derivatives).

        batch: indices of the training reactions that are computed, None for all.   validated: whether the validation
        set is.   Rows of others are zero.
        """
        rows = range(len(self.training)) if batch is None else batch
        validation = self.validation if validated else ()
        needed = {name for r in (*(self.training[k] for k in rows), *validation) for name, _ in r.stoichiometry}
        energies, slopes, densities = {}, {}, {}
        for name, E, slope, P in self._of_molecules(flat, needed):
            energies[name], slopes[name], densities[name] = E, slope, P
        for name in sorted(needed & self.at_fixed.keys()):
            energy = lambda p, name=name: self.at_fixed[name](self.with_numbers(p))
            E, slope = jax.value_and_grad(energy)(jnp.asarray(flat))
            energies[name], slopes[name] = float(E), np.asarray(slope)
        of = lambda r, table: HARTREE_IN_KCAL * sum(c * table[name] for name, c in r.stoichiometry)
        errors, held_out = np.zeros(len(self.training)), np.zeros(len(self.validation))
        jacobian = np.zeros((len(self.training), len(self.start)))
        for k in rows:
            errors[k] = of(self.training[k], energies) - self.training[k].reference
            jacobian[k] = of(self.training[k], slopes)
        held_out[: len(validation)] = [of(r, energies) - r.reference for r in validation]
        residuals, by_terms = self.of_terms(jnp.asarray(flat))
        found = errors, jacobian, held_out, residuals, by_terms
        if not all(np.all(np.isfinite(x)) for x in found):
            raise NumericalError(f"fit: the residuals at {dict(zip(self.names, flat, strict=True))} are not finite.")
        self.begun = True
        self.densities |= densities  # where the next evaluation begins; not where this one fails
        return found

    def _of_molecules(self, flat, names):
        """(name, E, dE/dp, P) of each of those that have an SCF."""
        if self.elsewhere is None:
            for name, scf in self.ordered_scfs():
                if name not in names:
                    continue
                yield name, *energy_and_slope(scf, self.with_numbers, flat, self.densities.get(name))
            return
        asked = self._asked(self.functional, self._names, flat, self.densities)
        for answer in self.elsewhere.answers(one for one in asked if one.name in names):
            yield answer.name, answer.energy, answer.slope, answer.P

    def _asked(self, functional, names, flat, guesses):
        sent = portable(functional)
        for k, (name, scf) in enumerate(self.ordered_scfs()):
            yield Asked(k, name, self.key, scf.molecule, self.options, sent, tuple(names), flat, guesses.get(name))

    def tried(self, flat, batch=None, validated=True):
        """What `evaluated` gives, None where an SCF does not converge or is not finite."""
        try:
            return self.evaluated(flat, batch, validated)
        except (NotConvergedError, NumericalError) as error:
            if not self.begun:
                raise
            at = ", ".join(f"{name} = {float(value):.6g}" for name, value in zip(self.names, flat, strict=True))
            why = str(error).partition(". Converge it")[0].rstrip(".")
            log.warning("no solution at %s: %s. bounds= (--bounds) keeps parameters where there are some", at, why)
            return None

    def of_terms(self, flat):
        """Residuals of all terms and their derivatives; the root of the sum of squares where its gradient is enough."""
        if not self.gradient_alone or not self.terms:
            return self.every_term(flat)

        def half(p):
            return 0.5 * sum(jnp.sum(jnp.ravel(jnp.asarray(term(self.with_numbers(p)))) ** 2) for term in self.terms)

        value, slope = jax.value_and_grad(half)(flat)
        root = float(jnp.sqrt(2.0 * value))
        return np.array([root]), np.asarray(slope)[None] / (root or 1.0)

    def every_term(self, flat):
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

    def least_squares(self, flat, errors, jacobian, residuals, by_terms, batch):
        """(r, dr/dp) of everything whose squares are added up; reactions of a batch count for those left out, too."""
        weights = np.zeros(len(self.training))
        for k in batch:
            weight = self.training[k].weight
            weights[k] = np.sqrt(len(weights) / len(batch)) * (1.0 if weight is None else np.sqrt(weight))
        r = [weights * errors, residuals, (flat - self.start) * self.precision]
        return np.concatenate(r), np.concatenate([weights[:, None] * jacobian, by_terms, np.diag(self.precision)])


def _require_semilocal_change(functional, names):
    """UnsupportedError where parameters are also those of terms that are no semilocal energies."""
    part = functional.semilocal_part
    if part.exact_exchange_ranges or not set(names) <= set(part.parameters) - set(functional.nonlocal_part.parameters):
        raise UnsupportedError(
            f"fixed_densities= needs parameters of a purely semilocal energy, but {functional.name[:60]!r} has "
            "none, or also others; leave it out."
        )


def _numbers(name, value):
    """A parameter with arrays in the place of its numbers; InputError for what else there may be."""
    leaves = jax.tree_util.tree_leaves(value)
    if not leaves or any(np.asarray(leaf).dtype.kind not in "f" for leaf in leaves):
        raise InputError(
            f"fit: parameter {name!r} is not made of real numbers alone; give the formula the arrays of a network as "
            "its parameter, and keep the rest, such as activation functions, outside (equinox.partition)."
        )
    return jax.tree_util.tree_map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), value)
