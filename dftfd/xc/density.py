"""The electron density of a density matrix, as functions of the point."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from dftfd.autofd import Domain, Function, function
from dftfd.autofd.core.packed import quick_values
from dftfd.errors import InputError
from dftfd.functionals.densities import SPACE
from dftfd.libcint.mole import is_pyscf_mole
from dftfd.runtime.arguments import Kind, public, traceable
from dftfd.system.molecule import Molecule
from dftfd.xc.ao_values import AOTables, ao_tables, ao_values
from dftfd.xc.channels import both_spins


def _as_molecule(value):
    if not (issubclass(type(value), Molecule) or is_pyscf_mole(value)):
        raise TypeError
    return value


@public
def density_function(
    molecule: Annotated[Any, Kind("a Molecule, from dftfd.molecule(...), or a PySCF Mole", _as_molecule)],
    P: Annotated[Any, traceable(None, None, None, expected="a matrix (1 or 2, ao, ao) of finite numbers")],
    tau: bool = False,
    domain: Domain = SPACE,
) -> Any:
    r"""Spin-resolved density rho(r) [bohr^-3], a Function R^3 -> R^2 (alpha, beta).

    rho_s(r) = sum_mn P^s_mn chi_m(r) chi_n(r)

    With `tau`, the pair (rho, tau) with the kinetic energy density [hartree bohr^-3]
    tau_s(r) = 1/2 sum_mn P^s_mn grad chi_m(r) . grad chi_n(r).

    P: (spin, ao, ao), symmetric. One spin is the total density of a closed shell, which is split in halves. The matrix
    is an array of the Function: it can be differentiated and replaced without a new compilation.
    """
    tables = ao_tables(molecule)
    P = jnp.asarray(P, dtype=jnp.float64)
    n_ao = len(tables.positions)
    if P.shape[0] not in (1, 2) or P.shape[1:] != (n_ao, n_ao):
        raise InputError(f"a density matrix of shape {P.shape} was given; expected (1 or 2, {n_ao}, {n_ao}).")
    rho = function(density_at, domain, params=(P, tables))
    return (rho, function(kinetic_energy_density_at, domain, params=(P, tables))) if tau else rho


def orbital_function(molecule, C) -> Function:
    """The orbital sum_m C_m chi_m(r) with coefficients C (ao,), a Function R^3 -> R [bohr^-3/2]."""
    return function(_orbital_at, SPACE, params=(jnp.asarray(C, dtype=jnp.float64), ao_tables(molecule)))


def _orbital_at(C, tables: AOTables, r):
    return C @ ao_values(tables, r)


def density_at(P, tables: AOTables, r):
    """Spin densities (2,) at the point r (3,)."""
    chi = ao_values(tables, r)
    return both_spins(jnp.einsum("m,smn,n->s", chi, P, chi))


def kinetic_energy_density_at(P, tables: AOTables, r):
    """Spin-resolved 1/2 sum occ |grad phi|^2 (2,) at the point r (3,)."""
    grad_chi = jax.jacfwd(ao_values, argnums=1)(tables, r)
    return both_spins(0.5 * jnp.einsum("mx,smn,nx->s", grad_chi, P, grad_chi))


def evaluate_at(f: Function, points, batch_size: int = 512):
    """Values of a Function on many points (point, 3), evaluated in batches so that memory stays bounded."""
    found = quick_values(f, points)
    return found if found is not None else _mapped(f, jnp.asarray(points, dtype=jnp.float64), batch_size)


def _map(f, points, batch_size):
    return jax.lax.map(f, points, batch_size=batch_size)


_mapped = jax.jit(_map, static_argnums=2)
