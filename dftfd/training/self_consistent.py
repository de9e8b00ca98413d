r"""The self-consistent solution as a function of a functional's numbers that JAX differentiates.

    E(p) = min over P of E[P; p],    dE/dp = (dE/dp) at fixed P
    dP/dp = X dF/dp at fixed P,      X the response of the density to a change of the Fock matrix

The SCF is that of `run_scf`; nothing of it is differentiated. X solves the coupled-perturbed equations at the solution
(dftfd.response), where only pairs of unequal occupation turn into each other, and is symmetric: a derivative in
reverse takes one solution for each scalar, whatever the number of parameters, and that of an energy none.

Operations of the host (SCF, X, integrals, densities on a grid) are primitives of JAX with rules, evaluated at once: no
callbacks from compiled programs. What depends on the parameters alone is JAX throughout.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_tracer, is_zero, shaped, whole_tangents
from dftfd.errors import InputError, UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.parameters import are_equal
from dftfd.functionals.pytree import plain_numbers, put_together, taken_apart
from dftfd.functionals.registry import get_functional
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.mole import overlap_integrals, position_integrals
from dftfd.model.calculation import Calculation, Ingredients
from dftfd.model.forces import nuclear_forces
from dftfd.model.options import Options, taking
from dftfd.response.linear_response import LinearResponse
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import array, public, traceable
from dftfd.runtime.progress import as_progress
from dftfd.scf.orbitals import canonical_orthonormaliser
from dftfd.system.molecule import Molecule
from dftfd.tasks.run import solution_of
from dftfd.terms import OneElectronEnergy
from dftfd.terms.traced import Numbers, TracedEnergy, energies, linear_map
from dftfd.xc.derivatives_by_numbers import drop_oldest

_COMPILED = (
    "a self-consistent calculation runs outside of compiled programs: take jax.jit, lax.scan and the like off what "
    "calls it; what depends on its results may be compiled."
)


def _solve(centres, field, start, *values, scf, structure):
    arrays = [np.asarray(x) for x in (centres, field, start)]
    result = scf.solution(structure, *arrays, [np.asarray(v) for v in values]).result
    return [result.energy, result.density_matrix, result.fock, result.mo_coeff, result.mo_occ]


def _shapes_of_solution(centres, field, start, *values, scf, structure):
    n, n_mo, spins = scf.molecule.n_ao, scf.n_orbitals, scf.n_spin
    shapes = (), (spins, n, n), (spins, n, n), (spins, n, n_mo), (spins, n_mo)
    return [shaped(jax.ShapeDtypeStruct(shape, np.float64)) for shape in shapes]


SOLUTION = host_primitive("self_consistent_solution", _solve, _shapes_of_solution, _COMPILED)
"""(centres, field, guess, *values) -> energy, density matrix, Fock matrix, orbitals, occupations."""


def _jvp_of_solution(primals, tangents, *, scf, structure):
    centres, field, _, *values = primals
    found = SOLUTION.bind(*primals, scf=scf, structure=structure)
    P = found[1]
    moves = not is_zero(tangents[0])
    dcentres, dfield, _, *dvalues = whole_tangents(tangents)

    def energy(field, values, P):
        return scf.total(structure, field, values, P, varying=True)

    def slopes(field, values):
        return jax.value_and_grad(energy, argnums=2)(field, values, P)

    dE, dF = jax.jvp(slopes, (field, values), (dfield, dvalues))[1]
    residual = centres, field, *values, P
    if moves:
        (slope,) = NUCLEAR_GRADIENT.bind(*residual, scf=scf, structure=structure)
        dE = dE + jnp.sum(slope * dcentres)
        dF = dF + linear_map(_no_moving_orbitals, _no_moving_orbitals, P.shape, dcentres)
    (dP,) = RESPONSE.bind(*residual, dF, scf=scf, structure=structure, of="density_response")
    (change,) = RESPONSE.bind(*residual, dP, scf=scf, structure=structure, of="fock_response")
    return found, [dE, dP, dF + change, *map(jnp.zeros_like, found[3:])]


derivative_rules(SOLUTION, _jvp_of_solution)


def _no_moving_orbitals(x):
    raise UnsupportedError(
        "with respect to coordinates only the energy has a derivative, in reverse mode (jax.grad); those of "
        "densities need derivatives of integrals, which are not implemented."
    )


def _respond(centres, field, *rest, scf, structure, of):
    *values, P, X = map(np.asarray, rest)
    solved = scf.at_density(structure, np.asarray(centres), np.asarray(field), values, P)
    return [getattr(solved, of)(X)]


RESPONSE = host_primitive("response", _respond, lambda *avals, **_: [avals[-1]], _COMPILED)
"""(centres, field, *values, P, X) -> a symmetric linear map of X (spin, ao, ao) at a solution."""


def _jvp_of_response(primals, tangents, **params):
    _require_constant(tangents[:-1])
    found = RESPONSE.bind(*primals, **params)
    return found, RESPONSE.bind(*primals[:-1], *whole_tangents(tangents[-1:]), **params)


def _require_constant(tangents):
    if not all(map(is_zero, tangents)):
        raise UnsupportedError(
            "second derivatives with respect to parameters exist for energies only, by jax.jvp(jax.grad(f), "
            "...); those of densities, dipoles and orbital energies need second-order response, which is not "
            "implemented."
        )


def _transposed_response(cotangents, *operands, **params):
    (cotangent,) = cotangents
    if is_zero(cotangent):
        return [None] * len(operands)
    return [*[None] * (len(operands) - 1), *RESPONSE.bind(*operands[:-1], cotangent, **params)]


derivative_rules(RESPONSE, _jvp_of_response, _transposed_response)


def _nuclear_gradient(centres, field, *rest, scf, structure):
    *values, P = map(np.asarray, rest)
    return [scf.at_density(structure, np.asarray(centres), np.asarray(field), values, P).energy_gradient()]


NUCLEAR_GRADIENT = host_primitive("nuclear_gradient", _nuclear_gradient, lambda *avals, **_: [avals[0]], _COMPILED)


def _jvp_of_gradient(primals, tangents, **params):
    _require_constant(tangents)
    return NUCLEAR_GRADIENT.bind(*primals, **params), [jnp.zeros_like(primals[0])]


derivative_rules(NUCLEAR_GRADIENT, _jvp_of_gradient)


@dataclass(frozen=True, eq=False)
class DifferentiableResult:
    """The self-consistent solution for one functional, of arrays that JAX differentiates.

    energy [hartree].   density_matrix, fock: (spin, ao, ao).   mo_coeff (spin, ao, mo), mo_occ (spin, mo): without
    derivatives.   functional, electric_field: what they were computed for.
    """

    scf: "DifferentiableSCF"
    functional: Functional
    electric_field: Any
    coordinates: Any
    energy: Any
    density_matrix: Any
    fock: Any
    mo_coeff: Any
    mo_occ: Any

    @property
    def energies(self) -> dict[str, Any]:
        """Components of the energy [hartree], those that the functional has."""
        self.scf.require_fixed_nuclei(self.coordinates)
        structure, values = taken_apart(self.functional)
        return self.scf.components(structure, self.electric_field, values, self.density_matrix)

    @property
    def mo_energy(self) -> Any:
        """Orbital energies (spin, mo) [hartree]; of degenerate orbitals the mean has a derivative, in any case."""
        if self.scf.method == "ROKS":
            raise UnsupportedError("derivatives of ROKS orbital energies are not implemented; use method='UKS'.")
        C = self.mo_coeff
        return jnp.einsum("sap,sab,sbp->sp", C, self.fock, C)

    @property
    def gap(self) -> Any:
        """LUMO less HOMO [hartree], the lowest and the highest of both spins."""
        filled = self.mo_occ > 0
        return jnp.min(jnp.where(filled, jnp.inf, self.mo_energy)) - jnp.max(
            jnp.where(filled, self.mo_energy, -jnp.inf)
        )

    @property
    def dipole(self) -> Any:
        """Dipole moment (3,) [e bohr], origin zero."""
        self.scf.require_fixed_nuclei(self.coordinates)
        return self.scf.nuclear_dipole - jnp.einsum("xab,sab->x", self.scf.positions, self.density_matrix)

    @public
    def density(self, points: Annotated[np.ndarray, array(None, 3)]) -> Any:
        """The densities (spin, point) [bohr^-3] at points (point, 3) [bohr]; one spin of RKS is the total."""
        self.scf.require_fixed_nuclei(self.coordinates)
        ao = gaussian_basis(self.scf.molecule).evaluate(points, 0)[0]
        return jnp.einsum("ap,sab,bp->sp", ao, self.density_matrix, ao)


class DifferentiableSCF:
    """scf(functional) -> DifferentiableResult, from `dftfd.differentiable_scf(molecule, **options)`."""

    def __init__(self, molecule: Molecule, options: Options):
        _require_differentiable(options)
        self.molecule, self._options = molecule, options
        calculation = Calculation.of(molecule, replace(options, xc="hf"))
        self.method, self._field = calculation.method, np.asarray(calculation.surroundings.electric_field)
        self.n_spin = calculation.n_spin
        self._ingredients: OrderedDict = OrderedDict()
        self._solutions: OrderedDict = OrderedDict()
        self._at_densities: OrderedDict = OrderedDict()
        self.orthonormal = canonical_orthonormaliser(overlap_integrals(molecule), options.linear_dependence)
        self.n_orbitals = self.orthonormal.shape[1]
        self.positions = position_integrals(molecule, 1)
        self.nuclear_dipole = molecule.nuclear_charges @ molecule.coordinates

    @public
    def __call__(
        self, functional: Any = None, *, electric_field: Any = None, coordinates: Any = None, guess: Any = None
    ) -> DifferentiableResult:
        """The converged SCF of a functional, by default the one of the options. Its parameters may be traced by JAX.

        electric_field: (3,) [hartree / (e bohr)], replaces that of the options; may be traced.
        coordinates: (atom, 3) [bohr], replace those of the molecule. If traced, the energy has reverse-mode
            derivatives.
        guess: initial density matrix (spin, ao, ao).

        Raises NotConvergedError if the SCF does not converge, UnsupportedError for model potentials.
        """
        functional = get_functional(self._options.xc if functional is None else functional)
        _require_energy(functional)
        structure, values = taken_apart(functional)
        field = self._field if electric_field is None else _FIELD.checked("electric_field", electric_field)
        shape = self.molecule.coordinates.shape
        centres = self.molecule.coordinates
        if coordinates is not None:
            wanted = f"coordinates of shape {shape}, finite numbers"
            centres = traceable(*shape, expected=wanted).checked("coordinates", coordinates)
        start = np.zeros((0,)) if guess is None else _GUESS.checked("guess", guess)
        operands = [jnp.asarray(x, dtype=jnp.float64) for x in (centres, field, start, *values)]
        found = SOLUTION.bind(*operands, scf=self, structure=structure)
        return DifferentiableResult(self, functional, operands[1], operands[0], *found)

    @public
    def fock(self, functional: Any, P: Annotated[np.ndarray, array(None, None, None)]) -> Any:
        """Fock matrices dE/dP (spin, ao, ao) [hartree] at a given density matrix P (spin, ao, ao), without an SCF."""
        functional = get_functional(functional)
        _require_energy(functional)
        self._require_density_matrix(P)
        (structure, values), field = taken_apart(functional), jnp.asarray(self._field)
        slopes = lambda **which: jax.grad(lambda P: self.total(structure, field, values, P, **which))(jnp.asarray(P))
        key = _key(structure, P)
        if key not in self._at_densities:  # what does not depend on the functional's numbers, of the last densities
            self._at_densities[key] = np.asarray(slopes(varying=False))
            drop_oldest(self._at_densities)
        return self._at_densities[key] + slopes(varying=True)

    @public
    def at_fixed_density(self, functional: Any, P: Annotated[np.ndarray, array(None, None, None)]) -> Callable:
        """The energy [hartree] at P (spin, ao, ao) as a function of functionals of the same structure.

        They may differ in the semilocal part and in exact exchange, including its range. Only the density on the grid
        is kept from the SCF. Integrals of a new range are computed.
        """
        functional = get_functional(functional)
        _require_energy(functional)
        self._require_density_matrix(P)
        structure, _ = taken_apart(functional)
        _, parts = self._base(structure, self.molecule.coordinates, functional)
        field, fixed = jnp.asarray(self._field), functional.nonlocal_part
        of_parts = [part.at(np.asarray(P), Numbers(functional, field)) for part in parts]

        def energy(f):
            if not are_equal(f.nonlocal_part, fixed) or f.dispersion != functional.dispersion:
                raise UnsupportedError(
                    f"functional {f.name[:60]!r} has another double integral or dispersion correction than "
                    f"{functional.name[:60]!r}, of which the energy at a fixed density keeps them; make it anew."
                )
            return sum(of_part(Numbers(f, field)) for of_part in of_parts)

        return energy

    def forget(self) -> None:
        """Free the memory of solutions, integrals and orbitals on grids. They are recomputed when needed."""
        self._solutions.clear()
        self._at_densities.clear()
        self._ingredients.clear()

    def _require_density_matrix(self, P):
        shape = self.n_spin, self.molecule.n_ao, self.molecule.n_ao
        if P.shape != shape:
            raise InputError(f"a density matrix of shape {P.shape} was given; expected {shape}.")

    def require_fixed_nuclei(self, coordinates) -> None:
        """UnsupportedError where nuclei are not where the molecule has them, whose operators these are."""
        if is_tracer(coordinates) or not np.array_equal(coordinates, self.molecule.coordinates):
            raise UnsupportedError(
                "with coordinates there are the energy and the density matrix; make a differentiable_scf of the "
                "molecule there, molecule.at(coordinates), for other properties."
            )

    # --------------------------------------------------------------------------------------------------- on the host

    def solution(self, structure, centres, field, start, values) -> "Solved":
        """The converged solution; for what was asked last it is still there."""
        key = _key(structure, centres, field, start, *values)
        if key not in self._solutions:
            ingredients = self.ingredients(structure, centres, field, values)
            guess = {} if start.size == 0 else {"guess": start}
            options = replace(self._options, xc=ingredients.calculation.functional, electric_field=field, **guess)
            result = solution_of(ingredients.calculation, options, lambda progress: ingredients)
            result.require_converged("a derivative")
            self._solutions[key] = Solved(result, ingredients)
            drop_oldest(self._solutions)
        return self._solutions[key]

    def at_density(self, structure, centres, field, values, P) -> "Solved":
        """The solution whose density matrix is P, as `solution` found it; where it was dropped, found again from P."""
        beginning = _key(structure, centres, field)
        for key, solved in self._solutions.items():
            same = key[: len(beginning)] == beginning and key[len(beginning) + 1 :] == _key(*values)
            if same and np.array_equal(solved.result.density_matrix, P):
                return solved
        return self.solution(structure, centres, field, P, values)

    def ingredients(self, structure, centres, field, values) -> Ingredients:
        """Integrals and grids for a structure, as often as it has other numbers the same."""
        functional = put_together(structure, values)
        return with_numbers(self._base(structure, centres, functional)[0], functional, field)

    def _base(self, structure, centres, functional) -> tuple[Ingredients, list[TracedEnergy]]:
        """Ingredients, and the terms of their energy as code of JAX."""
        key = _key(structure, centres)
        if key not in self._ingredients:
            molecule = self.molecule
            if not np.array_equal(centres, molecule.coordinates):
                molecule = molecule.at(np.asarray(centres))
            options = replace(self._options, xc=plain_numbers(functional))
            made = Calculation.of(molecule, options).build(as_progress(self._options.progress))
            parts = [term.traced(molecule, in_memory=False) for term in made.energy.terms]
            self._ingredients[key] = made, parts
            drop_oldest(self._ingredients)
        return self._ingredients[key]

    # ------------------------------------------------------------------------------------- code that JAX transforms

    def components(self, structure, field, values, P, varying: bool | None = None) -> dict[str, Any]:
        """Energies [hartree] by component at P (spin, ao, ao), at the molecule's own coordinates.

        varying: as of terms.traced.energies.
        """
        concrete = put_together(structure, [np.ones(np.shape(v)) for v in values])
        _, parts = self._base(structure, self.molecule.coordinates, concrete)
        return energies(parts, P, Numbers(put_together(structure, values), field), varying)

    def total(self, structure, field, values, P, varying: bool | None = None) -> Any:
        """The sum of `components`."""
        return sum(self.components(structure, field, values, P, varying).values(), start=jnp.zeros(()))


@taking(Options)
def differentiable_scf(molecule: Molecule, options: Options) -> DifferentiableSCF:
    """A converged SCF as a function scf(functional) that JAX differentiates.

    `jax.grad`, `jax.jvp`, `jax.vjp` and `jax.value_and_grad` differentiate `.energy`, `.energies`, `.density_matrix`,
    `.density(points)`, `.dipole`, `.mo_energy` and `.gap` with respect to the functional's parameters (a pytree) and an
    electric field, and `.energy` also with respect to coordinates. `jax.vmap` runs one SCF after the other. `jax.jit`
    is refused. See docs/training.md.

    {options}

    Raises UnsupportedError for smeared occupations and checkpoints.

    >>> import dftfd, jax
    >>> scf = dftfd.differentiable_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), grid_level=1)
    >>> x, c = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
    >>> energy = lambda kappa: scf(x.with_parameters(kappa=kappa) + c).energy
    >>> round(float(jax.grad(energy)(0.804)), 4)
    -0.0448
    """
    return DifferentiableSCF(molecule, options)


def _require_differentiable(options: Options) -> None:
    if options.smearing is not None:
        raise UnsupportedError(
            "the response of smeared occupations is not implemented; use whole or fixed occupations."
        )
    for name in ("checkpoint", "restart"):
        if getattr(options, name) is not None:
            raise InputError(f"differentiable_scf takes no {name}: start from a density with scf(functional, guess=P).")


def _require_energy(functional) -> None:
    for _, term in functional.terms:
        term.is_nonlocal  # noqa: B018  asked once, of the terms that all others come from
    supports.require("differentiable SCF", functional)


_FIELD = traceable(3, expected="three finite numbers")
_GUESS = array(None, None, None, expected="a density matrix (spin, ao, ao) of finite numbers")


def _key(*parts) -> tuple:
    return tuple(p if isinstance(p, tuple) else np.asarray(p).tobytes() for p in parts)


RESPONSE_TOLERANCE = 0.01
"""Of the coupled-perturbed equations, as a share of the perturbation: this part of the SCF's own orbital gradient."""

LARGE, LOOSE = 50, 1e-7
"""Pairs of orbitals from which a response begins with that of a cheaper energy, fewer than where many are asked for;
and the tolerance down to which it does: corrections by a cheaper energy stall sooner than its own products do."""

SMALLEST_GAP = 1e-6
"""Difference [hartree] of orbital energies below which an occupied and an empty orbital count as degenerate."""


class Solved:
    """A solution with what it was made of, and its responses once they are asked for."""

    def __init__(self, result: SCFResult, ingredients: Ingredients):
        self.result, self._ingredients = result, ingredients

    @cached_property
    def _response(self):
        large = LARGE if self._tolerance > LOOSE else None
        found = LinearResponse(self.result, ingredients=self._ingredients, large=large)
        _require_gaps(found)
        return found

    @cached_property
    def _kernel(self):
        return self._ingredients.energy.response(self.result.density_matrix)

    @property
    def _tolerance(self):
        return RESPONSE_TOLERANCE * np.sqrt(self.result.settings.options.conv_tol)

    def density_response(self, dF) -> np.ndarray:
        """dP (spin, ao, ao) of a change dF (spin, ao, ao) of the Fock matrix."""
        G = self._response.of_matrices(0.5 * (dF + dF.transpose(0, 2, 1))[:, None])
        return self._response.density_changes(self._response.solve(G, 0.0, self._tolerance)[0])[0]

    def fock_response(self, dP) -> np.ndarray:
        """dF (spin, ao, ao) of a change dP of the density matrix, at fixed functional."""
        return self._kernel(0.5 * (dP + dP.transpose(0, 2, 1)))

    def energy_gradient(self) -> np.ndarray:
        """dE/dR (atom, 3) [hartree/bohr]."""
        return -nuclear_forces(self.result).values


def _require_gaps(response: LinearResponse) -> None:
    """UnsupportedError where an occupied and an empty orbital have one energy: the density has no derivative there."""
    if response.size == 0 or np.abs(response.gaps).min() > SMALLEST_GAP:
        return
    worst = int(np.argmin(np.abs(response.gaps)))
    pairs = response.rotations.pairs
    p, q = (np.concatenate([pair[k] for pair in pairs])[worst] for k in (0, 1))
    s = int(np.repeat(np.arange(len(pairs)), [len(less) for less, _ in pairs])[worst])
    e = response.state.mo_energy[s]
    raise UnsupportedError(
        f"orbitals {int(q)} (occupied) and {int(p)} (less) of {'alpha' if s == 0 else 'beta'} spin are "
        f"degenerate, {e[q]:.6f} and {e[p]:.6f} hartree: the density has no derivative there; occupy "
        "them alike with occupations=."
    )


def with_numbers(ingredients: Ingredients, functional: Functional, electric_field) -> Ingredients:
    """Ingredients, made for a functional of this structure, with the numbers of another and in a field (3,)."""
    before = ingredients.calculation
    surroundings = replace(before.surroundings, electric_field=electric_field)
    calculation = replace(before, functional=plain_numbers(functional), surroundings=surroundings)
    terms = tuple(term.with_numbers(functional, surroundings) for term in ingredients.energy.terms)
    matrices = next(term.matrices for term in terms if isinstance(term, OneElectronEnergy))
    return replace(ingredients, calculation=calculation, matrices=matrices).with_terms(*terms)
