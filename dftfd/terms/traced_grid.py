"""Energies on quadrature grids as code that JAX transforms: orbitals in memory, or a builder on the host.

The engine (dftfd.xc.matrix, dftfd.xc.nonlocal_kernel) writes its derivatives out in NumPy, block by block. Here the
same functional meets the same orbitals and quadrature in one piece, and JAX takes the derivatives.
"""

from collections import OrderedDict
from dataclasses import dataclass
from operator import add
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.lowering import CELL_VOLUME, lower_nonlocal
from dftfd.errors import InputError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.libcint.gto import component_count
from dftfd.runtime.memory import Need
from dftfd.terms.traced import TracedEnergy, linear_map
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order, channels_for, jets, without_exact_exchange
from dftfd.xc.code import shared
from dftfd.xc.derivatives_by_numbers import KEPT, Kept, SemilocalOnGrid, drop_oldest
from dftfd.xc.device import block_density
from dftfd.xc.kernel import XCKernel

ORBITAL_WORK = 3
"""Arrays of the size of the orbitals on a grid that a gradient of two spins in memory needs beside them; measured on
benzene, rounded up."""

ROWS = 128
"""Points whose pairs with all others are formed at a time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class OrbitalsOnGrid:
    """A quadrature with the orbitals on it.

    points: (point, 3) [bohr].   weights: (point,) [bohr^3].
    ao: (component, ao, point), values and derivatives, A | A_x A_y A_z | A_xx A_xy A_xz A_yy A_yz A_zz, as many as are
        needed.
    """

    points: jax.Array
    weights: jax.Array
    ao: jax.Array

    @property
    def order(self) -> int:
        return {component_count(n): n for n in range(3)}[self.ao.shape[0]]


def orbitals_in_memory(molecule, grid, order: int) -> OrbitalsOnGrid:
    """The orbitals on a Quadrature as the engine has them: where it leaves a small one out, it is zero."""
    points, weights = grid.on(molecule)
    store = AOStore(molecule, points, weights, order, memory_limit=0)
    size, scratch = store.block_size, np.empty(store.scratch_size)
    ao = np.zeros((component_count(order), store.n_ao, size * len(store.blocks)))
    for i, block in enumerate(store.blocks):
        ao[:, block.aos, i * size : (i + 1) * size] = store.values(i, scratch)
    points, weights = (np.concatenate([getattr(b, name) for b in store.blocks]) for name in ("points", "weights"))
    return OrbitalsOnGrid(jnp.asarray(points), jnp.asarray(weights), jnp.asarray(ao))


def need_of_orbitals(molecule, grid, order: int) -> Need:
    """Bytes of them, and of a gradient that works on them."""
    bytes_of_one = 8.0 * component_count(order) * molecule.n_ao * len(grid.on(molecule)[1])
    return Need({"all orbitals on the grid": (1 + ORBITAL_WORK) * bytes_of_one})


def semilocal_order(functional: Functional) -> int:
    """Order of the derivatives of orbitals that `semilocal_energy` needs."""
    return ao_order(shared(XCKernel, functional, 1))


def double_integral_order(functional: Functional) -> int:
    """The same of `double_integral_energy`."""
    order, tau = _lowered_pairs(functional)[1]
    return max(order, int(tau))


def semilocal_energy(functional: Functional, P, grid: OrbitalsOnGrid):
    """Energy [hartree] of a functional's terms without integrals; P (spin, ao, ao), symmetric."""
    kernel = shared(XCKernel, functional, len(P))
    without_exact_exchange(functional, kernel.exact_exchange, "whose integrals JAX does not have")
    density = _density(functional, P, grid, kernel.order, kernel.needs_tau)
    return kernel.energy(grid.points, grid.weights, density)


def double_integral_energy(functional: Functional, P, grid: OrbitalsOnGrid):
    """Energy [hartree] of a functional's terms with integrals: all pairs of points, so time grows with their square.

    E = sum_p w_p phi(j_p, S_1p, ...),   S_kp = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, b(j_q))

    with jets j, features a and b, and charges c, as in dftfd.xc.nonlocal_kernel.
    """
    density = _density(functional, P, grid, *_lowered_pairs(functional)[1])
    return double_integral_of_density(functional, density, grid.points, grid.weights)


def double_integral_of_density(functional: Functional, density, points, weights):
    """The same of a density (spin, channel, point), whose channels are those of the functional's kernel."""
    program, (order, _) = _lowered_pairs(functional)
    integrals: dict[str, jax.Array] = {}

    def at_points(code):
        """Code of jets and a point, on all points."""

        def at(density, point, weight, integrals):
            known = {name: [S] for name, S in integrals.items()}
            return code(jets(density, order) | {CELL_VOLUME: [weight]} | known, point)

        return jax.vmap(at, in_axes=(-1, 0, 0, 0))(density, points, weights, integrals)

    for integral in program.integrals:
        charge = weights * at_points(integral.charge)
        left, right = at_points(integral.left), at_points(integral.right)
        integrals[integral.name] = _sums_over_pairs(integral, points, charge, left, right)
    return weights @ at_points(program.outer)


def _sums_over_pairs(integral, points, charge, left, right):
    """S (point, ...) = sum_q charge_q K(r_p, left_p, r_q, right_q)."""

    def row(point_and_features):
        point, features = point_and_features
        K = jax.vmap(lambda there, right: integral.kernel(point, features, there, right))(points, right)
        return jnp.tensordot(charge, K, axes=1)

    # checkpointed: reverse mode keeps nothing of the pairs
    return jax.lax.map(jax.checkpoint(row), (points, left), batch_size=min(ROWS, len(points)))


def _lowered_pairs(functional):
    """The program of a functional with integrals, and (order, tau) of the density's jet that it needs."""
    program = lower_nonlocal(functional.energy_density(*unknown_densities()))
    orders = {name: n for name, n in program.orders.items() if name != CELL_VOLUME}
    return program, channels_for(functional, orders)


def _density(functional, P, grid, order, tau):
    """Channels (spin, channel, point) of the density."""
    needed = max(order, int(tau))
    if needed > grid.order:
        raise InputError(
            f"functional {functional.name!r} needs derivatives of the orbitals of order {needed}, and those on the "
            f"grid have {grid.order}; make another energy for it, dftfd.energy(molecule, functional)."
        )
    return block_density(grid.ao[: component_count(needed)], P, order, tau)


# -------------------------------------------------------------------------------------------------------- the energies


class _PartOfFunctional(TracedEnergy):
    """The energy of some terms of the functional, one component.   part: which property of a Functional has them."""

    component: ClassVar[str]
    part: ClassVar[str]

    def part_of(self, functional) -> Functional:
        """A functional of these terms alone."""
        return getattr(functional, self.part)

    def names(self, functional):
        return (self.component,) if self.part_of(functional).terms else ()

    def varies(self, name, numbers):
        return bool(taken_apart(self.part_of(numbers.functional))[1])


class _Semilocal(_PartOfFunctional):
    component, part = "xc", "semilocal_part"


class _DoubleIntegral(_PartOfFunctional):
    component, part = "nonlocal", "nonlocal_part"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class SemilocalInMemory(_Semilocal):
    """With the orbitals on a quadrature, grid."""

    grid: OrbitalsOnGrid

    def energy(self, name, P, numbers):
        return semilocal_energy(self.part_of(numbers.functional), P, self.grid)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class DoubleIntegralInMemory(_DoubleIntegral):
    """With the orbitals on a quadrature, grid."""

    grid: OrbitalsOnGrid

    def energy(self, name, P, numbers):
        return double_integral_energy(self.part_of(numbers.functional), P, self.grid)


class _OnHost:
    """The density on the grid of a builder (xc.matrix), of which the last ones are kept: derivatives follow values."""

    def __init__(self, builder):
        self.builder = builder
        self.points, self.weights = builder.grid
        self._density_of = Kept(lambda P: builder.density(0.5 * (P + P.transpose(0, 2, 1))), KEPT)

    def density(self, P) -> jax.Array:
        """(spin, channel, point)."""
        shape = len(P), self.builder.kernel.channels, len(self.weights)
        return linear_map(self._density_of, self.builder.matrix, shape, P)


class SemilocalOnHost(_OnHost, _Semilocal):
    """By compiled code of the functional's structure, whose numbers are arguments."""

    def __init__(self, builder):
        super().__init__(builder)
        self._codes: OrderedDict = OrderedDict()

    def energy(self, name, P, numbers):
        part, density = self.part_of(numbers.functional), self.density(P)
        structure = taken_apart(part)[0]
        if structure not in self._codes:
            self._codes[structure] = _code(part, len(density), self.points, self.weights)
            drop_oldest(self._codes)
        return _with_numbers(self._codes[structure], part, density)

    def at(self, P, numbers):
        """Of whatever functional: nothing is kept but the density on the grid."""
        density, points, weights = self.builder.density(P), self.points, self.weights

        def energy(numbers):
            part = self.part_of(numbers.functional)
            return _with_numbers(_code(part, len(density), points, weights), part, density)

        return energy


class DoubleIntegralOnHost(_OnHost, _DoubleIntegral):
    """By code of JAX alone, all pairs of points at a time."""

    def energy(self, name, P, numbers):
        part, density = self.part_of(numbers.functional), self.density(P)
        return double_integral_of_density(part, density, jnp.asarray(self.points), jnp.asarray(self.weights))


def _code(part, n_spin, points, weights) -> SemilocalOnGrid:
    structure, values = taken_apart(part)
    like = put_together(structure, [np.ones(np.shape(v)) for v in values])
    return SemilocalOnGrid(shared(XCKernel, like, n_spin, arrays_vary=True).code, points, weights)


def _with_numbers(on: SemilocalOnGrid, part, density):
    return on.energy(density, jnp.concatenate([jnp.zeros(0), *(jnp.ravel(v) for v in taken_apart(part)[1])]))


def by_terms(slopes: Functional) -> dict[str, dict[str, Any]]:
    """{name of a term: {parameter: derivative}} of a Functional of derivatives; terms of one name are added up.

    In a network, what is no array, such as an activation function, has None.
    """
    found: dict[str, dict[str, Any]] = {}
    for _, slope in slopes.terms:
        of_term = found.setdefault(slope.name, {})
        for name, value in slope.parameters.items():
            if any(isinstance(x, jax.Array) for x in tree_leaves(value)):  # integers stay as they are
                value = tree_map(_of_array, value)
                of_term[name] = value if name not in of_term else tree_map(add, of_term[name], value)
    return found


def _of_array(x):
    if not isinstance(x, jax.Array):
        return None
    return float(x) if jnp.ndim(x) == 0 else np.asarray(x)
