r"""The energy of a density matrix as code that JAX transforms: `energy(molecule, functional)(P)`.

    E[P] = sum over the terms of the energy of what they are in JAX, with their arrays in memory (Term.traced)

It is the number that `run_scf` minimises, on the same grid with the same integrals, for systems so small that all of
these fit into memory at once. jax.grad gives the Fock matrix, jax.jvp of that the response, jax.grad with respect to
a functional's parameters how they change the energy.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from dftfd.errors import InputError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import with_plain_ranges
from dftfd.functionals.pytree import put_together, taken_apart
from dftfd.functionals.registry import get_functional
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.arguments import public, traceable
from dftfd.runtime.memory import memory_budget, memory_plan
from dftfd.runtime.progress import as_progress
from dftfd.system.molecule import Molecule
from dftfd.terms import OneElectronEnergy
from dftfd.terms.coulomb_exchange import IntegralsInMemory
from dftfd.terms.traced import LinearEnergy, Numbers, TracedEnergy, energies
from dftfd.terms.traced_grid import DoubleIntegralInMemory, OrbitalsOnGrid, SemilocalInMemory


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Energy:
    """E(P): energy [hartree] of a density matrix, from `dftfd.energy(molecule, functional)`.

    P: (1, ao, ao), the total density of a closed shell, or (2, ao, ao), alpha and beta. Its symmetric part counts, so
        that derivatives are symmetric.

    A pytree of its arrays and of the functional's parameters:

    S: overlap (ao, ao).   parts: the terms of the energy, with their arrays.   n_electrons: (alpha, beta).
    """

    S: jax.Array
    parts: tuple[TracedEnergy, ...]
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
        return _energies(structure, self.parts, values, P)

    @property
    def H_core(self) -> jax.Array:
        """Core Hamiltonian (ao, ao) [hartree]: kinetic energy, nuclei, and fields and charges around the molecule."""
        linear = (part.matrices for part in self.parts if isinstance(part, LinearEnergy))
        return next(matrices["one_electron"] for matrices in linear if "one_electron" in matrices)

    @property
    def integrals(self) -> dict[float, jax.Array]:
        """Two-electron integrals by omega: of 1/r under 0, else of erf(omega r)/r.

        Exact, (ij|kl) as (ao, ao, ao, ao), or fitted, B as (aux, ao, ao) with (ij|kl) ~ sum_Q B_Qij B_Qkl.
        """
        return next(part.integrals for part in self.parts if isinstance(part, IntegralsInMemory))

    @property
    def grids(self) -> dict[str, OrbitalsOnGrid]:
        """By component, 'xc' and 'nonlocal', the quadrature with the orbitals on it."""
        on_grids = (part for part in self.parts if isinstance(part, SemilocalInMemory | DoubleIntegralInMemory))
        return {part.component: part.grid for part in on_grids}

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
    auxiliary_basis: str | None = None,
    grid: Any = None,
    electric_field: Any = None,
    point_charges: Any = None,
    relativity: str | None = None,
    external_potential: Any = None,
    terms: Any = (),
    max_memory: Any = None,
) -> Energy:
    """The energy of a molecule as a function of the density matrix, E(P) [hartree], for JAX's transformations.

    functional: a name or a Functional.   The other options, and their defaults, are those of `run_scf`: at the same P,
    E(P) is the energy of `run_scf`, and jax.grad(E)(P) its Fock matrix. All integrals and orbitals are held in memory.

    Raises InputError for options that cannot be carried out, UnsupportedError for model potentials,
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
        auxiliary_basis=auxiliary_basis,
        grid=grid,
        electric_field=electric_field,
        point_charges=point_charges,
        relativity=relativity,
        external_potential=external_potential,
        terms=terms,
        max_memory=max_memory,
    )
    calculation = Calculation.of(molecule, options)
    summed = calculation.energy(as_progress(None)).terms
    needs = [term.need_in_memory(molecule) for term in summed]
    memory_plan(molecule.n_ao, 2, needs, memory_budget(max_memory)).require_room()
    one_electron = next(term for term in summed if isinstance(term, OneElectronEnergy))
    return Energy(
        S=jnp.asarray(one_electron.matrices.S),
        parts=tuple(term.traced(molecule, in_memory=True) for term in summed),
        functional=calculation.functional,
        n_electrons=(molecule.n_alpha, molecule.n_beta),
    )


def _with_energy(functional) -> Functional:
    """The functional of a name, if it has an energy."""
    functional = with_plain_ranges(get_functional(functional), "and the integrals here are those of one number")
    supports.require("energy in JAX", functional)
    return functional


@partial(jax.jit, static_argnums=0)
def _energies(structure, parts, values, P):
    """Energies by component, compiled once for a functional, which is taken apart."""
    return energies(parts, 0.5 * (P + P.transpose(0, 2, 1)), Numbers(put_together(structure, values)))
