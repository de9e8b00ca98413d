"""Loss terms for training functionals, which can be combined.

Each function returns a term, a function that maps a Functional to residuals (k,) and that JAX differentiates with
respect to the functional's parameters. `mean_square` combines terms to a loss, and `scaled` sets their units.

    loss = losses.mean_square(losses.scaled(losses.energy(scf, E), 1e-3), losses.dipole(scf, mu))
    jax.value_and_grad(lambda kappa: loss(x.with_parameters(kappa=kappa) + c))(0.804)
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import overlap_integrals
from dftfd.runtime.arguments import array, callback, instance, mapping, number, optional, public
from dftfd.training.self_consistent import DifferentiableSCF
from dftfd.xc.kernel import XCKernel

Term = Callable[[Any], Any]
"""Functional -> residuals (k,)."""

SCF = Annotated[
    DifferentiableSCF, instance(DifferentiableSCF, expected="what dftfd.differentiable_scf(molecule) gives")
]
Numbers = Annotated[np.ndarray, array()]
Number = Annotated[float, number()]
some = partial(array, expected="an array of finite real numbers, at least one", empty=False)
Code = Annotated[Callable, callback(1)]
Positive = Annotated[float, number(lambda x: x > 0, "a positive number")]

UNIFORM = "lda_x + lda_c_pw_mod"
"""What the energy of the uniform gas is compared with."""


@public
def energy(scf: SCF, reference: Number) -> Term:
    """Energy minus reference [hartree]."""
    return lambda f: jnp.reshape(scf(f).energy - reference, (1,))


@public
def reaction_energy(
    scfs: Annotated[Mapping, mapping], stoichiometry: Annotated[Mapping, mapping], reference: Number
) -> Term:
    """Reaction energy, sum of coefficient times energy, minus reference [hartree].

    scfs, stoichiometry: {molecule: scf} and {molecule: coefficient}.
    """
    if not stoichiometry or not set(stoichiometry) <= set(scfs):
        raise InputError("reaction_energy: each name in the stoichiometry has to be one of the molecules.")
    return lambda f: jnp.reshape(sum(c * scfs[name](f).energy for name, c in stoichiometry.items()) - reference, (1,))


@public
def density(
    scf: SCF,
    points: Annotated[np.ndarray, some(None, 3)],
    weights: Annotated[np.ndarray, some(None)],
    reference: Annotated[np.ndarray, some(None, None)],
) -> Term:
    """sqrt(|w|) (n - reference) at points (point, 3) [bohr]. The sum of squares is int |n - n_ref|^2.

    reference: (spin, point) [bohr^-3]; for RKS the total density, with one spin.
    """
    root = np.sqrt(np.abs(weights))[None]
    return lambda f: jnp.ravel((scf(f).density(points) - reference) * root)


@public
def dipole(scf: SCF, reference: Annotated[np.ndarray, array(3)]) -> Term:
    """Dipole moment minus reference (3,) [e bohr]."""
    return lambda f: scf(f).dipole - reference


@public
def orbital_energies(scf: SCF, reference: Annotated[np.ndarray, some(None, None)]) -> Term:
    """Energies of the lowest orbitals minus reference (spin, orbital) [hartree]."""
    n = reference.shape[1]
    return lambda f: jnp.ravel(scf(f).mo_energy[:, :n] - reference)


@public
def fock_matrix(
    scf: SCF,
    P: Annotated[np.ndarray, array(None, None, None)],
    reference: Annotated[np.ndarray, array(None, None, None)],
) -> Term:
    """X^T (F[P] - reference) X, Fock matrices in an orthonormal basis at a fixed density matrix, without an SCF.

    P, reference: (spin, ao, ao).   X: orthonormal functions (ao, mo), S^(-1/2) for a complete set.
    """
    X = scf.orthonormal
    return lambda f: jnp.ravel(jnp.einsum("am,sab,bn->smn", X, scf.fock(f, P) - reference, X))


@public
def orbital_gradient(
    scf: SCF,
    P: Annotated[np.ndarray, array(None, None, None)],
    reference: Annotated[np.ndarray | None, optional(array(None, None, None))] = None,
) -> Term:
    """Orbital gradient 2 f C_occ^T (F[P] - reference) C_virt [hartree] at a fixed density matrix, without an SCF.

    f: electrons per orbital, 2 or 1.   P (spin, ao, ao): density matrix of a single determinant.
    Without `reference`, it is zero if P is the functional's self-consistent density. With reference Fock matrices
    (spin, ao, ao), it is zero if the orbital gradients agree. Orbital energies and constant potentials have no effect.
    E. S. Eberhard et al., arXiv:2606.04279 (2026).
    """
    turns = [_filled_and_empty(scf, P_s) for P_s in P]
    wanted = np.zeros_like(P) if reference is None else reference

    def residuals(f):
        off = scf.fock(f, P) - wanted
        blocks = [jnp.ravel(filled.T @ F @ empty) for F, (filled, empty) in zip(off, turns, strict=True)]
        return 2.0 * (3 - scf.n_spin) * jnp.concatenate(blocks)

    return residuals


def _filled_and_empty(scf, P):
    """Natural orbitals (ao, mo) of P (ao, ao), those with electrons and those without; InputError for others."""
    S = overlap_integrals(scf.molecule)
    X = scf.orthonormal
    filling, U = np.linalg.eigh(X.T @ S @ P @ S @ X)
    capacity = 2.0 if scf.n_spin == 1 else 1.0
    filled = filling > 0.5 * capacity
    if np.abs(filling - capacity * filled).max() > 1e-4 * capacity:
        raise InputError(
            f"orbital_gradient: P is of no single determinant, its natural orbitals hold {filling.min():.4f} to "
            f"{filling.max():.4f} electrons, expected 0 or {capacity:.0f}; dftfd.invert finds one with its density."
        )
    return X @ U[:, filled], X @ U[:, ~filled]


@public
def potential(
    rho: Any,
    points: Annotated[np.ndarray, some(None, 3)],
    weights: Annotated[np.ndarray, some(None)],
    reference: Annotated[np.ndarray, some(None, None)],
) -> Term:
    """sqrt(|w|) (v_xc - reference) at points (point, 3), with the strong form of the potential of a fixed density.

    rho: spin densities R^3 -> R^2, such as result.density.   reference: (point, spin) [hartree]. For semilocal
    functionals without tau.
    """
    root = np.sqrt(np.abs(weights))[:, None]

    def residuals(f):
        v = jax.vmap(get_functional(f).potential(rho))(jnp.asarray(points))
        return jnp.ravel((v - reference) * root)

    return residuals


@public
def uniform_gas(densities: Annotated[np.ndarray, some(None)], polarization: Number = 0.0) -> Term:
    """e_xc divided by that of the uniform gas, minus 1, at densities (point,) [bohr^-3].

    polarization: (n_alpha - n_beta) / n. For semilocal functionals, without exact exchange.
    """
    exact = _of_uniform_gas(get_functional(UNIFORM), densities, polarization)
    return lambda f: _of_uniform_gas(get_functional(f), densities, polarization) / exact - 1.0


def _of_uniform_gas(functional, densities, polarization):
    """Energy per volume (point,)."""
    kernel = XCKernel(functional.semilocal_part, 2)
    spins = jnp.stack([0.5 * densities * (1 + polarization), 0.5 * densities * (1 - polarization)])
    tau = 0.3 * (6 * jnp.pi**2) ** (2 / 3) * spins ** (5 / 3)
    at = lambda k: kernel.energy_density(_channels(spins[:, k], tau[:, k], kernel), jnp.zeros(3))
    return jnp.stack([at(k) for k in range(len(densities))])


def _channels(n, tau, kernel):
    columns = [n, *[jnp.zeros(2)] * (kernel.channels - 1)]
    if kernel.needs_tau:
        columns[-1] = tau
    return jnp.stack(columns, axis=1)


@public
def penalty(violation: Code) -> Term:
    """Positive part of violation(functional), an array, for an exact condition violation <= 0."""
    return lambda f: jnp.ravel(jnp.maximum(jnp.asarray(violation(f)), 0.0))


@public
def scaled(term: Code, unit: Positive) -> Term:
    """Residuals divided by a unit: with 1e-3, an error of one millihartree counts as one."""
    return lambda f: term(f) / unit


@public
def mean_square(*terms: Code) -> Callable[[Any], Any]:
    """Sum of the mean squares of the terms, a number."""
    if not terms:
        raise InputError("mean_square: give one term or more.")
    return lambda f: sum(jnp.mean(term(f) ** 2) for term in terms)
