"""The density matrix an SCF starts from."""

import numpy as np

from dftfd.errors import InputError
from dftfd.runtime.arguments import array
from dftfd.scf.occupation import aufbau
from dftfd.scf.orbitals import density_matrix, diagonalise

DENSITY = array(expected="the name of a guess or of a file, a result, or a matrix (spin, ao, ao) of finite numbers")


def spin_densities(P_total, n_spin):
    """A total density matrix (ao, ao) as (n_spin, ao, ao): itself for a restricted run, two halves otherwise."""
    return np.repeat(P_total[None] / n_spin, n_spin, axis=0)


def core_guess(H_core, X, n_occupied, capacity):
    """P (spin, ao, ao) from the orbitals of the core Hamiltonian, electrons that do not see each other."""
    energies, C = diagonalise(np.repeat(H_core[None], len(n_occupied), axis=0), X)
    return density_matrix(C, aufbau(energies, n_occupied, capacity))


def mixed_frontier(F, X, n_occupied, angle=np.pi / 4):
    """P (2, ao, ao) of the orbitals of F (ao, ao) with HOMO and LUMO mixed, oppositely for alpha and beta.

    Both spins' HOMOs become cos HOMO +- sin LUMO: localised on either side where the two are bonding and antibonding.
    """
    energies, C = diagonalise(F[None], X)
    densities = []
    for n, sign in zip(n_occupied, (1.0, -1.0), strict=True):
        C_s = C[0].copy()
        if 0 < n < C_s.shape[1]:
            homo, lumo = C[0][:, n - 1], C[0][:, n]
            C_s[:, n - 1] = np.cos(angle) * homo + sign * np.sin(angle) * lumo
        densities.append(C_s[:, :n] @ C_s[:, :n].T)
    return np.stack(densities)


def nearest_determinant(P, S, X, n_occupied):
    """P (spin, ao, ao) of the `n_occupied` natural orbitals with the largest occupations per spin of a given P.

    Densities put together from pieces can have negative occupations, which no functional is made for.
    """
    densities = []
    for P_s, n in zip(P, n_occupied, strict=True):
        _, U = np.linalg.eigh(X.T @ S @ P_s @ S @ X)
        C = X @ U[:, U.shape[1] - n :]
        densities.append(C @ C.T)
    return np.stack(densities)


def checked_density(P, n_spin, n_ao):
    """A density matrix given by the user as (n_spin, ao, ao), checked for shape, finite entries and symmetry.

    A matrix (ao, ao) is taken as the total density.
    """
    P = DENSITY.checked("guess", P)
    if P.shape == (n_ao, n_ao):
        P = spin_densities(P, n_spin)
    if P.shape != (n_spin, n_ao, n_ao):
        raise InputError(
            f"the starting density has shape {P.shape}, but the basis set has {n_ao} functions: "
            f"expected ({n_spin}, {n_ao}, {n_ao}) or the total density ({n_ao}, {n_ao})."
        )
    if not np.allclose(P, P.transpose(0, 2, 1), rtol=0.0, atol=1e-8 * max(1.0, np.abs(P).max())):
        raise InputError("the starting density is not symmetric.")
    return P
