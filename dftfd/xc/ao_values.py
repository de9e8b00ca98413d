"""Atomic orbitals as a pure JAX function of the point, and so differentiable to any order, at the nuclei too.

chi(r) = N(x, y, z) sum_p c_p exp(-a_p |r - R|^2), with N a polynomial: solid harmonic or Cartesian monomial. Nothing
divides by |r - R| or takes its root. Made for values at single points and as leaves of the operator calculus; the grid
work of a calculation goes through `dftfd.xc.ao_store`.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.libcint.gto import GaussianBasis, gaussian_basis, monomial_powers


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
