"""Grid functionals: not written with operators but as code of JAX on arrays over a molecule's grid.

Learned functionals are: a network of features of all points, of the nuclei and of what points tell each other. A grid
functional is a function of such arrays, chosen by the names of its arguments (`FEATURES`), that returns an energy. JAX
derives it by each of them: by the density's features for the matrix and the response, by points, weights and nuclei for
forces.

    E = energy(features of all points)                       or, block by block, with what blocks have in common,
    E = sum_b energy(features of b, G),   G = sum_b gather(features of b)

Before a grid functional is entered, and while it is used, its energy of a small made-up density is formed anew: one
that does not give the same again, because it draws random numbers or its weights have changed, is refused.
"""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd.core.fixed_places import refuse_places_outside
from dftfd.errors import DftfdError, FunctionalError, SignatureError, UnsupportedError, one_line, shown
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.densities import signature_of

FEATURES = {
    "rho": "spin densities (2, point) [bohr^-3]",
    "grad_rho": "their gradients (2, 3, point) [bohr^-4]",
    "hess_rho": "their second derivatives (2, 3, 3, point) [bohr^-5]",
    "tau": "kinetic energy densities (2, point) [hartree bohr^-3]",
    "points": "(point, 3) [bohr]",
    "weights": "of the quadrature (point,) [bohr^3]",
    "nuclei": "their positions (atom, 3) [bohr]",
    "charges": "their charges (atom,)",
    "owner": "number of the atom that each point moves with (point,)",
    "gathered": "what gather(...) gave, summed over all blocks",
}

DENSITY = ("rho", "grad_rho", "hess_rho", "tau")
"""Features that come from the orbitals."""

SAME = 1e-12
"""Relative difference up to which two evaluations of the trial are the same."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")

BLOCKWISE, SYMMETRIC, SLOPE = 1e-9, 1e-9, 1e-4
"""Relative tolerances: one block or two, spins exchanged, derivative and difference."""


@dataclass(frozen=True, eq=False)
class GridFunctionalTerm(EnergyTerm):
    """An energy [hartree] as code on features of a grid.

    gather: code whose sum over blocks `formula` takes as `gathered`, or None.   by_blocks: the energy is a sum over
    blocks of points; otherwise `formula` sees all points at once.
    """

    gather: Callable | None = None
    by_blocks: bool = False
    is_grid_functional = True

    def __deepcopy__(self, memo) -> "GridFunctionalTerm":
        return self  # nothing of it changes

    @property
    def is_nonlocal(self) -> bool:  # type: ignore[override]
        return True

    def energy_density(self, rho, tau=None, *e_x):
        raise UnsupportedError(
            f"functional {self.name!r} is a grid functional, code on the molecular grid, not a function of the "
            "density at a point; use it in calculations (dftfd.run_scf)."
        )

    @property
    def gather_ingredients(self) -> tuple[str, ...]:
        """Features that `gather` takes."""
        return () if self.gather is None else _signature(self.gather, self.name, gathering=True)[0]

    @property
    def features(self) -> frozenset[str]:
        """All that it takes, gather included."""
        return frozenset({*self.ingredients, *self.gather_ingredients} - {"gathered"})

    @property
    def order(self) -> int:
        """Of the density's derivatives that it takes."""
        return 2 if "hess_rho" in self.features else int("grad_rho" in self.features)

    @property
    def needs_tau(self) -> bool:
        return "tau" in self.features

    @property
    def plain_parameters(self) -> dict:
        """Large arrays as a fingerprint: a definition names a grid functional's weights, it does not hold them."""
        if not self.parameters:
            return {}
        return {"sha256": fingerprint_of(dict(self.parameters))}

    def energy(self, features: Mapping[str, Any], parameters: Mapping, gathered: Any = None):
        """Of one block, or of all points; FunctionalError where it is not one float64 number."""
        given = {**features, "gathered": gathered}
        code = lambda *given: jnp.asarray(self.formula(*given, **parameters))
        found = self._called(code, *(given[name] for name in self.ingredients))
        if found.shape or found.dtype != np.float64:
            raise refused(
                self, f"returned {found.dtype} of shape {found.shape}; one float64 number, an energy, expected"
            )
        return found

    def gathering(self, features: Mapping[str, Any], parameters: Mapping):
        """What `gather` gives for one block."""
        gather: Any = self.gather
        names, own = _signature(gather, self.name, gathering=True)
        return self._called(gather, *(features[name] for name in names), **{k: parameters[k] for k in own})

    def _called(self, code, *given, **parameters):
        """What somebody's code returns; FunctionalError for whatever it raises while it is traced or run."""
        try:
            return code(*given, **parameters)
        except DftfdError:
            raise
        except Exception as error:
            raise refused(self, f"raised {type(error).__name__}: {one_line(str(error), 120)}") from error

    def trial_energy(self) -> float:
        """The energy of the made-up density by the formula as it is now: traced anew, and compiled if it changed."""
        return self._called(self._trial_energy)

    def _trial_energy(self):
        features = trial_features()
        traced = jax.make_jaxpr(lambda: _whole(self, features))()
        key = _ADDRESS.sub("", str(traced.jaxpr)), fingerprint_of(traced.consts)
        known = vars(self).get("_trial_program", (None, None))
        if known[0] != key:
            known = vars(self)["_trial_program"] = key, jax.jit(jaxpr_as_fun(traced))
        return float(known[1]()[0])

    def require_unchanged(self, before: float) -> None:
        """FunctionalError unless the formula gives the energy of the made-up density that it gave before."""
        now = self.trial_energy()
        if not np.isfinite(now):
            raise refused(self, f"gave {now} for an ordinary density; a finite energy [hartree] expected")
        if not abs(now - before) <= SAME * (abs(now) + abs(before)):
            raise FunctionalError(
                f"grid functional {self.name!r} gave {before:.12g} and now {now:.12g} hartree for the same density: "
                "its weights have changed or it draws numbers; give weights as parameters (def f(..., *, weights=...)) "
                "and use with_parameters for others."
            )


def fingerprint_of(tree) -> str:
    """64 hexadecimal digits of the arrays and other leaves of a pytree."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    digest = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        digest.update(np.asarray(leaf).tobytes() if is_number(leaf) else shown(leaf).encode())
    return digest.hexdigest()


def is_number(leaf) -> bool:
    """Whether a leaf of parameters is an operand of compiled code: a float or an array."""
    return isinstance(leaf, float) or hasattr(leaf, "dtype")


def without_grid_functionals(functional: Functional, what: str) -> None:
    """UnsupportedError, naming them, for a functional with grid functionals where `what` has none of them."""
    if functional.grid_functionals:
        names = ", ".join(repr(term.name) for _, term in functional.grid_functionals)
        raise UnsupportedError(
            f"{names} is a grid functional, code on the molecular grid, {what}; use it in calculations (dftfd.run_scf)."
        )


def grid_functional_term(
    formula: Callable, name: str, doi: str | None, gather: Callable | None, by_blocks: bool
) -> GridFunctionalTerm:
    """The term of a formula; its arrays are copied, so nobody can change them."""
    ingredients, parameters = _signature(formula, name)
    if ("gathered" in ingredients) != (gather is not None):
        found = "the argument alone" if gather is None else "gather alone"
        raise FunctionalError(
            f"grid functional {name!r}: an argument `gathered` and gather=... go together; {found} found."
        )
    if gather is not None:
        missing = [p for p in _signature(gather, name, gathering=True)[1] if p not in parameters]
        if missing:
            raise FunctionalError(
                f"grid functional {name!r}: gather takes the parameter {missing[0]!r}, which the energy lacks."
            )
    copied = jax.tree_util.tree_map(lambda x: jnp.array(x) if hasattr(x, "dtype") else x, parameters)
    return GridFunctionalTerm(
        name, formula, ingredients, copied, doi, gather=gather, by_blocks=by_blocks or gather is not None
    )


def _signature(formula, name, gathering=False):
    """(features, parameters); those of a gather have the values that the energy's have."""
    if gathering:
        try:
            own = [p.name for p in inspect.signature(formula).parameters.values() if p.kind is p.KEYWORD_ONLY]
        except Exception as error:  # of what somebody passed: no code, or built in
            message = (
                f"grid functional {name!r}: gather={shown(formula)} is not a function whose arguments can be read."
            )
            raise FunctionalError(message) from error
        formula = functools.partial(formula, **dict.fromkeys(own))
    return signature_of(formula, name, {k: v for k, v in FEATURES.items() if k != "gathered" or not gathering}, "rho")


# --------------------------------------------------------------------------------------------------------- validation


@functools.lru_cache(maxsize=1)
def trial_features() -> Mapping[str, Any]:
    """A made-up density of two Gaussians and a half at 40 points around two nuclei."""
    random = np.random.default_rng(22)
    nuclei = np.array([[0.0, 0.0, 0.0], [0.3, -0.2, 1.9]])
    points = np.vstack([R + random.normal(scale=0.9, size=(20, 3)) for R in nuclei])
    factors = np.array([[0.9, 0.4], [0.5, 0.45]])  # (spin, nucleus)

    def rho(r):
        squares = jnp.sum((r[None] - nuclei) ** 2, axis=1)
        return factors @ jnp.exp(-0.8 * squares) + 0.02 * jnp.exp(-0.2 * squares.sum())

    n, gradient, hessian = (jax.vmap(f)(points) for f in (rho, jax.jacfwd(rho), jax.jacfwd(jax.jacfwd(rho))))
    tau = jnp.sum(gradient**2, axis=-1) / (8 * n) + 1.5 * n ** (5 / 3)  # above that of one orbital
    return {
        "rho": n.T,
        "grad_rho": gradient.transpose(1, 2, 0),
        "hess_rho": hessian.transpose(1, 2, 3, 0),
        "tau": tau.T,
        "points": jnp.asarray(points),
        "weights": jnp.asarray(random.uniform(0.05, 0.4, len(points))),
        "nuclei": jnp.asarray(nuclei),
        "charges": jnp.array([3.0, 1.0]),
        "owner": jnp.repeat(jnp.arange(2), 20),
    }


def _part(features, start, stop) -> dict:
    """The features of some of the points."""
    cut = {k: features[k][..., start:stop] for k in (*DENSITY, "weights", "owner")}
    return {**features, **cut, "points": features["points"][start:stop]}


def _whole(term, features, parts=((0, None),)):
    blocks = [_part(features, *part) for part in parts]
    gathered = None
    if term.gather is not None:
        found = [term.gathering(b, term.parameters) for b in blocks]
        gathered = jax.tree_util.tree_map(lambda *x: sum(x), *found)
    return sum(term.energy(b, term.parameters, gathered) for b in blocks)


def require_valid_grid_functional(term: GridFunctionalTerm, spin_symmetric: bool = True) -> None:
    """FunctionalError unless it can be used: shape, type, finite, repeatable, differentiable, spins, blocks."""
    features = trial_features()
    energy = term.trial_energy()
    try:
        refuse_places_outside(jax.make_jaxpr(lambda given: _whole(term, given))(features))
    except SignatureError as error:
        raise refused(term, f"is refused: {str(error).rstrip('.')}") from error
    term.require_unchanged(energy)
    varying = [k for k in (*DENSITY, "points", "weights", "nuclei") if k in term.features]
    slopes_of = jax.jit(jax.value_and_grad(lambda values: _whole(term, {**features, **values})))
    values = {k: features[k] for k in varying}
    _require_slopes(term, slopes_of, values, energy)
    if spin_symmetric:
        swapped, _ = slopes_of({k: v[::-1] if k in DENSITY else v for k, v in values.items()})
        _require_same(term, energy, float(swapped), SYMMETRIC, "spins exchanged (spin_symmetric=False allows it)")
    if term.by_blocks:
        in_two = float(jax.jit(lambda: _whole(term, features, ((0, 20), (20, None))))())
        _require_same(term, energy, in_two, BLOCKWISE, "points in two blocks")


def _require_same(term, energy, other, tolerance, what):
    if not abs(energy - other) <= tolerance * (abs(energy) + abs(other)):
        raise refused(term, f"gave {energy:.12g}, and {other:.12g} hartree with {what}")


def _require_slopes(term, slopes_of, values, energy):
    """Derivatives are finite, and those of the energy along a change of everything that varies."""
    try:
        _, slopes = slopes_of(values)
    except Exception as error:
        raise refused(term, f"has no derivative by JAX: {one_line(str(error), 120)}") from error
    for name, slope in slopes.items():
        if not np.isfinite(slope).all():
            raise refused(term, f"has a derivative by {name} that is not finite for an ordinary density")
    random = np.random.default_rng(5)
    along = {k: v * random.uniform(0.5, 1.5, v.shape) for k, v in values.items()}
    moved = lambda t: float(slopes_of({k: v + t * along[k] for k, v in values.items()})[0])
    h = 1e-5
    numerical = (moved(h) - moved(-h)) / (2 * h)
    derived = float(sum(np.sum(slopes[k] * along[k]) for k in values))
    if not abs(numerical - derived) <= SLOPE * (abs(derived) + abs(energy)):
        raise refused(term, f"has the derivative {derived:.6g} where its energy's slope is {numerical:.6g}")


def refused(term: GridFunctionalTerm, what: str) -> FunctionalError:
    """The error that says what is wrong with a grid functional."""
    return FunctionalError(f"grid functional {term.name!r} {what}.")
