r"""The energy of a density matrix as code that JAX transforms: `energy(molecule, functional)(P)`.

    E[P] = sum of constants + sum of tr(P M) + E_J[P] + E_x[P] + E_xc[rho, tau]

It is the number that `run_scf` minimises, on the same grid with the same integrals, for systems so small that all of
these fit into memory at once. jax.grad gives the Fock matrix, jax.jvp of that the response, jax.grad with respect to
a functional's parameters how they change the energy.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.errors import InputError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.double_hybrids import without_pt2
from dftfd.functionals.exchange_ranges import with_plain_ranges
from dftfd.functionals.guests import without_guests
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.functionals.registry import get_functional
from dftfd.libcint.gto import component_count
from dftfd.libcint.two_electron import eri, unpacked_pairs
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.arguments import public, traceable
from dftfd.runtime.memory import Need, memory_budget, memory_plan
from dftfd.runtime.progress import as_progress
from dftfd.system.molecule import Molecule
from dftfd.terms import (
    COMPONENTS,
    CoulombExchangeEnergy,
    DoubleIntegralEnergy,
    OneElectronEnergy,
    SemilocalEnergy,
)
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.integrals import share
from dftfd.terms.on_grid import Quadrature
from dftfd.terms.term import linear_parts
from dftfd.xc.channels import without_exact_exchange
from dftfd.xc.in_jax import (
    OrbitalsOnGrid,
    double_integral_energy,
    double_integral_order,
    orbitals_on_grid,
    semilocal_energy,
    semilocal_order,
)

ORBITAL_WORK, FITTED_WORK = 3, 10
"""Arrays of the size of the orbitals on a grid, and of the fitted integrals of an operator, that the gradient of two
spins needs beside them; measured on benzene, rounded up. The exact integrals need none."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Energy:
    """E(P): energy [hartree] of a density matrix, from `dftfd.energy(molecule, functional)`.

    P: (1, ao, ao), the total density of a closed shell, or (2, ao, ao), alpha and beta. Its symmetric part counts, so
        that derivatives are symmetric.

    A pytree of its arrays and of the functional's parameters:

    S: overlap (ao, ao).   constants, matrices: of the components that do not depend on P and are linear in it.
    integrals: by omega, those of 1/r under 0, else of erf(omega r)/r; exact, (ij|kl) as (ao, ao, ao, ao), or fitted,
        B as (aux, ao, ao) with (ij|kl) ~ sum_Q B_Qij B_Qkl.
    grids: under 'xc' and 'nonlocal' the quadrature with the orbitals on it.   n_electrons: (alpha, beta).
    """

    S: jax.Array
    constants: dict[str, jax.Array]
    matrices: dict[str, jax.Array]
    integrals: dict[float, jax.Array]
    grids: dict[str, OrbitalsOnGrid]
    functional: Functional
    n_electrons: tuple[int, int] = field(metadata={"static": True})

    def __call__(self, P: Any) -> jax.Array:
        """The total energy [hartree]."""
        return sum(self.components(P).values(), start=jnp.zeros(()))

    def components(self, P: Any) -> dict[str, jax.Array]:
        """Its terms [hartree], under the names of `result.energies`; those that the functional has."""
        n = self.S.shape[0]
        kind = traceable(None, n, n, expected=f"a density matrix of shape (1 or 2, {n}, {n}) of finite numbers")
        P = jnp.asarray(kind.checked("P", P), dtype=jnp.float64)
        if P.shape[0] not in (1, 2):
            raise InputError(f"P has the shape {P.shape}: give {kind.expected}.")
        structure, values = taken_apart(self.functional)
        found = _components(structure, replace(self, functional=_ELSEWHERE), values, P)
        return {name: found[name] for name in COMPONENTS if name in found}

    @property
    def H_core(self) -> jax.Array:
        """Core Hamiltonian (ao, ao) [hartree]: kinetic energy, nuclei, and fields and charges around the molecule."""
        return self.matrices["one_electron"]

    def with_functional(self, functional: Any) -> "Energy":
        """The same with another functional, or with other, also traced, parameters of the same one.

        Integrals and grids stay, so it may not need others: InputError for ranges of exact exchange, double integrals,
        derivatives of orbitals or a dispersion correction that are not there, UnsupportedError for a traced range.
        """
        functional = _with_energy(functional)
        old, new = self.functional, functional
        lacks = [f"exact exchange of range {omega:g}" for omega, _ in new.exact_exchange if omega not in self.integrals]
        if bool(new.exact_exchange) != bool(old.exact_exchange) and self.integrals[0.0].ndim == 3:
            lacks.append("other fitting functions (density_fit=False has none)")
        lacks += ["a quadrature grid"] * (new.is_semilocal and "xc" not in self.grids)
        lacks += ["a grid for double integrals"] * (new.is_nonlocal and "nonlocal" not in self.grids)
        lacks += ["another dispersion correction"] * (new.dispersion != old.dispersion)
        if lacks:
            raise InputError(
                f"functional {new.name!r} needs {lacks[0]}, which the energy made for {old.name!r} does not have; make "
                "another one, dftfd.energy(molecule, functional)."
            )
        return replace(self, functional=functional)


@public
def energy(
    molecule: Molecule,
    functional: Any = "pbe",
    *,
    grid_level: int = 3,
    nlc_grid_level: int | None = None,
    density_fit: bool = True,
    grid: Any = None,
    electric_field: Any = None,
    point_charges: Any = None,
    relativity: str | None = None,
    external_potential: Any = None,
    max_memory: Any = None,
) -> Energy:
    """The energy of a molecule as a function of the density matrix, E(P) [hartree], for JAX's transformations.

    functional: a name or a Functional.   The other options, and their defaults, are those of `run_scf`: at the same P,
    E(P) is the energy of `run_scf`, and jax.grad(E)(P) its Fock matrix. All integrals and orbitals are held in memory.

    Raises InputError for options that cannot be carried out, UnsupportedError for models of the potential alone,
    ResourceError where the arrays take more than `max_memory`, by default 80 % of what is free.

    >>> import dftfd, jax
    >>> helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    >>> result = dftfd.run_scf(helium, "pbe")
    >>> E = dftfd.energy(helium, "pbe")
    >>> round(float(E(result.density_matrix)) - result.energy, 10)
    0.0
    >>> F = jax.grad(E)(result.density_matrix)
    >>> round(float(abs(F - result.fock).max()), 5)
    0.0
    """
    options = Options(
        xc=_with_energy(functional),
        grid_level=grid_level,
        nlc_grid_level=nlc_grid_level,
        density_fit=density_fit,
        grid=grid,
        electric_field=electric_field,
        point_charges=point_charges,
        relativity=relativity,
        external_potential=external_potential,
        max_memory=max_memory,
    )
    calculation = Calculation.of(molecule, options)
    terms = calculation.energy(as_progress(None)).terms
    linear = linear_parts(terms, WRITTEN_OUT, molecule.n_ao)
    one_electron = next(term for term in terms if isinstance(term, OneElectronEnergy))
    plans = _grids(calculation)
    _require_room(calculation, terms, plans)
    return Energy(
        S=jnp.asarray(one_electron.matrices.S),
        constants={name: jnp.asarray(E) for p in linear for name, E in p.energies.items()},
        matrices={name: jnp.asarray(V[0]) for p in linear for name, V in p.matrices.items()},
        integrals=_integrals(next(term for term in terms if isinstance(term, CoulombExchangeEnergy)), molecule),
        grids=_orbitals(molecule, plans),
        functional=calculation.functional,
        n_electrons=(molecule.n_alpha, molecule.n_beta),
    )


WRITTEN_OUT = CoulombExchangeEnergy, SemilocalEnergy, DoubleIntegralEnergy
"""Terms of which JAX has the formula; others have to be linear."""


def _with_energy(functional) -> Functional:
    """The functional of a name, if it has an energy."""
    functional = with_plain_ranges(get_functional(functional), "and the integrals here are those of one number")
    if not functional.has_energy:
        models = ", ".join(repr(term.name) for _, term in functional.terms if not term.has_energy)
        raise UnsupportedError(
            f"{models} is a model of the potential alone, so there is no energy of a density matrix; give a functional "
            "that is an energy."
        )
    without_exact_exchange(functional, functional.ingredients, "whose integrals JAX does not have")
    without_guests(functional, "which is not written out here")
    without_pt2(functional, "whose perturbation theory is no function of the density matrix")
    return functional


# --------------------------------------------------------------------------------------------------------- the arrays


def _grids(calculation) -> dict[str, tuple[Quadrature, int]]:
    """(quadrature, order of the orbitals' derivatives) by the component of the energy that is integrated there."""
    functional, plans = calculation.functional, {}
    if functional.is_semilocal:
        plans["xc"] = calculation.grid, semilocal_order(functional.semilocal_part)
    if functional.is_nonlocal:
        plans["nonlocal"] = Quadrature(calculation.nlc_level), double_integral_order(functional.nonlocal_part)
    return plans


def _require_room(calculation, terms, plans):
    """Raise ResourceError where the arrays, and a gradient that works on them, take more than is allowed."""
    n = calculation.molecule.n_ao
    J = next(term for term in terms if isinstance(term, CoulombExchangeEnergy)).builder
    n_operators = len({0.0, *(omega for omega, _ in calculation.functional.exact_exchange)})
    fixed = {"all two-electron integrals": 8.0 * n**4 * n_operators}
    if isinstance(J, DensityFittedCoulombExchange):
        fixed = {"all fitted integrals": 8.0 * n * n * J.n_auxiliary * (n_operators + FITTED_WORK)}
    for grid, order in plans.values():
        on_grid = 8.0 * component_count(order) * n * len(grid.on(calculation.molecule)[1])
        fixed["all orbitals on the grid"] = fixed.get("all orbitals on the grid", 0.0) + (1 + ORBITAL_WORK) * on_grid
    memory_plan(n, 2, [Need(fixed)], memory_budget(calculation.max_memory)).require_room()


def _integrals(term: CoulombExchangeEnergy, molecule) -> dict[float, jax.Array]:
    """Two-electron integrals of each operator that the functional needs."""
    omegas = {0.0, *(omega for omega, _ in term.exact_exchange)}
    if isinstance(term.builder, DensityFittedCoulombExchange):
        return {w: jnp.asarray(unpacked_pairs(term.builder.tensor(w), molecule.n_ao)) for w in sorted(omegas)}
    return {w: jnp.asarray(eri(molecule, w)) for w in sorted(omegas)}


def _orbitals(molecule, plans) -> dict[str, OrbitalsOnGrid]:
    found = {}
    for name, (grid, order) in plans.items():
        points, weights = grid.on(molecule)
        found[name] = orbitals_on_grid(molecule, points, weights, order)
    return found


# -------------------------------------------------------------------------------------------------------- the formulas

_ELSEWHERE = Functional("")
"""Stands for the functional of an Energy where it comes beside it."""


@partial(jax.jit, static_argnums=0)
def _components(structure, arrays: Energy, values, P):
    """Energies by component of an Energy, compiled once for a functional; its own, taken apart, stands beside it."""
    functional = put_together(structure, values)
    P = 0.5 * (P + P.transpose(0, 2, 1))
    total = P.sum(axis=0)
    found = dict(arrays.constants)
    for name, matrix in arrays.matrices.items():
        found[name] += jnp.sum(total * matrix)
    found["coulomb"] = _coulomb(arrays.integrals[0.0], total)
    if functional.exact_exchange:
        found["exact_exchange"] = sum(c * _exchange(arrays.integrals[w], P) for w, c in functional.exact_exchange)
    if functional.is_semilocal:
        found["xc"] = semilocal_energy(functional.semilocal_part, P, arrays.grids["xc"])
    if functional.is_nonlocal:
        found["nonlocal"] = double_integral_energy(functional.nonlocal_part, P, arrays.grids["nonlocal"])
    return found


def _coulomb(integrals, total):
    """1/2 sum_ijkl P_ij (ij|kl) P_kl."""
    if integrals.ndim == 3:
        fitted = jnp.einsum("Qij,ij->Q", integrals, total)
        return 0.5 * fitted @ fitted
    return 0.5 * jnp.sum(total * jnp.einsum("ijkl,kl->ij", integrals, total))


def _exchange(integrals, P):
    """-1/2 sum_s sum_ijkl P_ij (ik|jl) P_kl, of a restricted P half of that; see dftfd.terms.coulomb_exchange."""
    if integrals.ndim == 3:
        X = jnp.einsum("Qik,skl->sQil", integrals, P)
        energy = jnp.einsum("sQil,sQli->", X, X)
    else:
        energy = jnp.sum(P * jnp.einsum("ikjl,skl->sij", integrals, P))
    return -0.5 * share(P) * energy
