"""The electron density of a density matrix, as functions of the point, and the orbitals that it is made of.

chi(r) = N(x, y, z) sum_p c_p exp(-a_p |r - R|^2), with N a polynomial: solid harmonic or Cartesian monomial. Nothing
divides by |r - R| or takes its root. Made for values at single points and as leaves of the operator calculus; the grid
work of a calculation goes through `dftfd.xc.ao_store`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import Domain, Function, function
from dftfd.autofd.core.packed import quick_values
from dftfd.errors import InputError
from dftfd.functionals.densities import SPACE
from dftfd.libcint.gto import GaussianBasis, gaussian_basis, monomial_powers
from dftfd.libcint.mole import is_pyscf_mole
from dftfd.runtime.arguments import Kind, accepted, public, traceable
from dftfd.system.molecule import Molecule
from dftfd.xc.channels import both_spins


@partial(
    jax.tree_util.register_dataclass, meta_fields=[], data_fields=["centres", "exponents", "coefficients", "angular"]
)
@dataclass(frozen=True)
class ShellTable:
    """All contractions of one angular momentum l.

    centres: (shell, 3) [bohr].   exponents [bohr^-2], coefficients: (shell, primitive), padded with zeros.
    angular: (monomial, orbital), the polynomial N of each orbital of a shell in x^i y^j z^k, i + j + k = l.
    """

    centres: jax.Array
    exponents: jax.Array
    coefficients: jax.Array
    angular: jax.Array


@partial(jax.tree_util.register_dataclass, meta_fields=["angular_momenta", "positions"], data_fields=["shells"])
@dataclass(frozen=True)
class AOTables:
    """A basis as arrays: one table per angular momentum; positions[ao] is the AO's place in the tables' order."""

    shells: tuple[ShellTable, ...]
    angular_momenta: tuple[int, ...]
    positions: tuple[int, ...]


def ao_tables(molecule) -> AOTables:
    """The tables of a Molecule's (or PySCF Mole's) basis, or of a GaussianBasis."""
    basis = molecule if isinstance(molecule, GaussianBasis) else gaussian_basis(molecule)
    momenta = tuple(sorted({basis.angular_momentum(s) for s in range(basis.n_shells)}))
    tables, ao_lists = [], []
    for l in momenta:
        angular = basis.angular_matrix(l)
        rows, aos = [], []
        for shell in (s for s in range(basis.n_shells) if basis.angular_momentum(s) == l):
            exponents, coefficients = basis.primitives(shell)
            first = basis.ao_offsets[shell]
            for contraction in range(coefficients.shape[1]):
                rows.append((basis.centres[shell], exponents, coefficients[:, contraction]))
                aos.append(first + contraction * angular.shape[1] + np.arange(angular.shape[1]))
        width = max(len(exponents) for _, exponents, _ in rows)
        tables.append(
            ShellTable(
                centres=jax.device_put(np.stack([centre for centre, _, _ in rows])),
                exponents=jax.device_put(np.stack([np.pad(e, (0, width - len(e))) for _, e, _ in rows])),
                coefficients=jax.device_put(np.stack([np.pad(c, (0, width - len(c))) for _, _, c in rows])),
                angular=jax.device_put(angular),
            )
        )
        ao_lists.append(np.concatenate(aos))
    positions = np.argsort(np.concatenate(ao_lists))
    return AOTables(tuple(tables), momenta, tuple(positions.tolist()))


def ao_values(tables: AOTables, r) -> jax.Array:
    """Values of all orbitals at the point r (3,) [bohr], (ao,) [bohr^-3/2]."""
    parts = [_shell_values(table, l, r) for table, l in zip(tables.shells, tables.angular_momenta, strict=True)]
    return jnp.concatenate(parts)[np.array(tables.positions)]


def _shell_values(table: ShellTable, l: int, r) -> jax.Array:
    displacement = r[None, :] - table.centres
    squared_distance = jnp.sum(displacement**2, axis=1)
    radial = jnp.sum(table.coefficients * jnp.exp(-table.exponents * squared_distance[:, None]), axis=1)
    powers = [jnp.ones_like(displacement)]
    for _ in range(l):
        powers.append(powers[-1] * displacement)
    stack = jnp.stack(powers)
    i, j, k = monomial_powers(l).T
    monomials = stack[i, :, 0] * stack[j, :, 1] * stack[k, :, 2]
    return (radial[:, None] * (monomials.T @ table.angular)).reshape(-1)


_MOLECULE = Kind(
    "a Molecule, from dftfd.molecule(...), or a PySCF Mole",
    lambda value: accepted(issubclass(type(value), Molecule) or is_pyscf_mole(value), value),
)


@public
def density_function(
    molecule: Annotated[Any, _MOLECULE],
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
