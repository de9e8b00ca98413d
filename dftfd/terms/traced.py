r"""The energies of terms as code that JAX transforms; the whole energy is their sum, which is `energies`, nowhere else.

A term gives its own by `Term.traced`, or refuses. So dftfd.energy, differentiable_scf and whatever else JAX
differentiates know no term by name, and none is left out or taken for what it is not.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_argument, is_zero, shaped, whole_tangents
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional

Matrices = Annotated[jax.Array | np.ndarray, "spin ao ao"]
Vector = Annotated[jax.Array | np.ndarray, "3"]


@dataclass(frozen=True, eq=False)
class Numbers:
    """What energies depend on besides the density matrix, and JAX may trace.

    functional: of the calculation's structure, with any numbers.   electric_field: in the place of the
    calculation's [hartree / (e bohr)], None: that one.
    """

    functional: Functional
    electric_field: Vector | None = None


class TracedEnergy(ABC):
    """The energy of a term in code of JAX. One of arrays is a pytree of them, which compiled programs take.

    P is symmetric, and may be traced as numbers may.
    """

    @abstractmethod
    def names(self, functional: Functional) -> tuple[str, ...]:
        """The components that it has for a functional."""

    @abstractmethod
    def energy(self, name: str, P: Matrices, numbers: Numbers) -> jax.Array:
        """The energy of a component [hartree]."""

    def varies(self, name: str, numbers: Numbers) -> bool:
        """Whether arrays among the numbers take part in a component; plain numbers do not vary."""
        return False

    def at(self, P: Matrices, numbers: Numbers) -> Callable[[Numbers], jax.Array | float]:
        """The energy at one P as a function of numbers, which keeps neither integrals nor orbitals on grids."""
        fixed = sum(float(self.energy(name, P, numbers)) for name in self.names(numbers.functional))
        return lambda numbers: fixed


def energies(
    parts: Iterable[TracedEnergy], P: Matrices, numbers: Numbers, varying: bool | None = None
) -> dict[str, jax.Array]:
    """The energy [hartree] by component at P.

    varying: only the components in which arrays among the numbers take part (True), or only all others (False).
    """
    found: dict[str, jax.Array] = {}
    for part in parts:
        for name in part.names(numbers.functional):
            if varying is None or part.varies(name, numbers) == varying:
                energy = part.energy(name, P, numbers)
                found[name] = found[name] + energy if name in found else energy
    return found


# ------------------------------------------------------------------------------------------------------- linear terms


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class LinearEnergy(TracedEnergy):
    """Constants and tr(P M), by component.

    in_field: name -> (constant, matrix) that an electric field multiplies, on top of that `field` in which the others
    were computed; without, fields can't vary.
    """

    constants: dict[str, jax.Array]
    matrices: dict[str, Annotated[jax.Array, "ao ao"]]
    in_field: dict[str, tuple[Vector, Annotated[jax.Array, "3 ao ao"]]] = field(default_factory=dict)
    field: Vector | None = None

    def names(self, functional):
        return tuple(self.constants)

    def energy(self, name, P, numbers):
        total, energy = P.sum(axis=0), self.constants[name]
        if name in self.matrices:
            energy = energy + jnp.sum(total * self.matrices[name])
        if self.varies(name, numbers):
            constant, matrix = self.in_field[name]
            energy = energy + (numbers.electric_field - self.field) @ (
                constant + jnp.einsum("xab,ab->x", matrix, total)
            )
        return energy

    def varies(self, name, numbers):
        return numbers.electric_field is not None and name in self.in_field


def linear_energy(term: Any, n_ao: int, **in_field) -> LinearEnergy:
    """That of a Term with `is_linear`, from its matrix at P = 0.   in_field, field: of LinearEnergy.

    UnsupportedError where the energy at another P shows that it is not.
    """
    first = term.evaluate(np.zeros((1, n_ao, n_ao)))
    P = np.eye(n_ao)[None]
    there, none = term.evaluate(P), np.zeros(1)
    for name, energy in first.energies.items():
        V, V_there = first.matrices.get(name, none), there.matrices.get(name, none)
        constant, slope = energy, float(np.sum(P[0] * V[0])) if name in first.matrices else 0.0
        size = 1e-8 * (1.0 + abs(constant) + n_ao * np.abs(V).max(initial=0.0))
        same = np.shape(V) == np.shape(V_there) and np.abs(V_there - V).max(initial=0.0) <= size
        if not (same and abs(there.energies[name] - constant - slope) <= size):
            raise UnsupportedError(
                f"the energy term {type(term).__name__} says is_linear, but its energy {name!r} is not a constant and "
                "tr(P M) with one matrix M; leave is_linear out and write traced()."
            )
    constants = {name: jnp.asarray(E) for name, E in first.energies.items()}
    return LinearEnergy(constants, {name: jnp.asarray(V[0]) for name, V in first.matrices.items()}, **in_field)


# -------------------------------------------------------------------------------------- linear operations of the host

_COMPILED = (
    "integrals and orbitals on the grid are worked with outside of compiled programs: take jax.jit, lax.scan and the "
    "like off what calls them."
)


def linear_map(forward, backward, shape, x) -> jax.Array:
    """forward(x), an array of this shape, of a linear map with the adjoint `backward`, both on NumPy arrays."""
    return LINEAR.bind(x, forward=forward, backward=backward, shape=tuple(shape))[0]


def symmetric_map(code, x) -> jax.Array:
    """code(x) of a linear map that is its own adjoint."""
    return linear_map(code, code, x.shape, x)


def _apply(x, *, forward, backward, shape):
    return [forward(np.asarray(x))]


def _shape_of_image(x, *, forward, backward, shape):
    return [shaped(jax.ShapeDtypeStruct(shape, np.float64))]


LINEAR = host_primitive("linear_map", _apply, _shape_of_image, _COMPILED)


def _jvp_of_linear(primals, tangents, **params):
    return LINEAR.bind(*primals, **params), LINEAR.bind(*whole_tangents(tangents), **params)


def _transposed_linear(cotangents, x, *, forward, backward, shape):
    (cotangent,) = cotangents
    if is_zero(cotangent):
        return [None]
    shape = tuple((x.aval if is_argument(x) else x).shape)
    return LINEAR.bind(cotangent, forward=backward, backward=forward, shape=shape)


derivative_rules(LINEAR, _jvp_of_linear, _transposed_linear)
