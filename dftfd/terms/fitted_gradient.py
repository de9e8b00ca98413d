r"""The derivative of density-fitted Coulomb and exchange energies with respect to the positions of the nuclei.

Both are sums of terms f/2 tr(X^T V^-1 X), with the metric V_PQ = (P|Q) and projections X of the integrals (Q|mn):

    Coulomb   f = 1,      X_Q = sum_mn (Q|mn) P_mn
    exchange  f = -f_s,   X_Q,ij = sum_mn (Q|mn) C_mi C_nj

With Y = V^-1 X, the derivative of a term is f (sum_Q,mn Gamma_Q,mn d(Q|mn) + sum_PQ G_PQ dV_PQ), where Gamma_Q is
Y_Q P or C Y_Q C^T. Moving all three functions together changes nothing, so the derivative by the position of m alone
gives those by n and Q too.

F. Weigend, M. Haeser, Theor. Chem. Acc. 97, 331 (1997). doi:10.1007/s002140050269
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from dftfd.libcint.derivatives import atom_sums
from dftfd.libcint.three_centre import ThreeCentre
from dftfd.libcint.two_electron import LINEAR_DEPENDENCE

_BLOCK_BYTES = 48 * 2**20
_COPIES = 3  # of the projections: X in pieces, X or Y whole, and what the solver works on


class Metric:
    """The inverse of a metric V (aux, aux) as `fitting_tensor` takes it, and the derivative through it.

    Where V is not positive definite, eigenvalues up to LINEAR_DEPENDENCE and their vectors are left out.
    """

    def __init__(self, V):
        self._factor = self._spectrum = None
        try:
            self._factor = scipy.linalg.cholesky(V, lower=True)
        except scipy.linalg.LinAlgError:
            s, U = scipy.linalg.eigh(V)
            kept = s > LINEAR_DEPENDENCE
            self._spectrum = s[kept], U[:, kept], s[~kept], U[:, ~kept]

    def solve(self, X) -> np.ndarray:
        """V^-1 X for X (aux, k)."""
        if self._spectrum is None:
            return scipy.linalg.cho_solve((self._factor, True), X)
        s, U, *_ = self._spectrum
        return U @ ((U.T @ X) / s[:, None])

    def pull_back(self, X, Y) -> np.ndarray:
        """G (aux, aux) with tr(G dV) = 1/2 tr(X^T dV^-1 X) for X (aux, k) and Y = V^-1 X.

        The space that is left out turns as V changes.
        """
        G = -0.5 * (Y @ Y.T)
        if self._spectrum is not None:
            s, U, s_out, U_out = self._spectrum
            turned = U_out @ ((U_out.T @ X) @ (X.T @ U) / (s * (s - s_out[:, None]))) @ U.T
            G += 0.5 * (turned + turned.T)
        return G


class _Coulomb:
    """The projection on a density matrix P (ao, ao)."""

    factor = 1.0

    def __init__(self, P):
        self._P = P

    def project(self, integrals):
        """X (aux, 1) of integrals (aux, ao, ao)."""
        return integrals.reshape(len(integrals), -1) @ self._P.reshape(-1, 1)

    def add_expanded(self, Y, Gamma):
        """Adds factor Gamma (aux, ao, ao) of Y (aux, 1)."""
        Gamma += self.factor * Y[:, :, None] * self._P


class _Exchange:
    """The projection on pairs ij of orbitals C (ao, occupied), each scaled by the root of its occupation.

    first: the orbitals i, columns of C; Gamma is symmetric when the terms of all i are added up.
    """

    def __init__(self, fraction, C, first):
        self.factor, self._C, self._first = -fraction, C, C[:, first]

    def project(self, integrals):
        return (self._first.T @ (integrals @ self._C)).reshape(len(integrals), -1)

    def add_expanded(self, Y, Gamma):
        shape = len(Y), self._first.shape[1], self._C.shape[1]
        Gamma += self.factor * (self._first @ (Y.reshape(shape) @ self._C.T))


def fitted_gradient(
    molecule,
    auxiliary: dict,
    omega: float,
    P,
    exchange: Sequence[tuple[float, np.ndarray]],
    memory_limit: float,
) -> np.ndarray:
    """dE/dR (atom, 3) [hartree/bohr] at fixed densities of 1/2 tr(P J[P]) - sum_s f_s/2 tr(P_s K[P_s]).

    P: (ao, ao), the density of the Coulomb energy, or None without.   omega: as in dftfd.terms.integrals.
    exchange: pairs (f_s, C_s) with P_s = C_s C_s^T.
    memory_limit: bytes for the projections; where they do not fit, they and the integrals are computed in several
        passes.
    """
    integrals = ThreeCentre(molecule, auxiliary, omega)
    metric = Metric(integrals.metric)
    columns = sum(C.shape[1] ** 2 for _, C in exchange)
    n_passes = max(1, math.ceil(_COPIES * 8 * integrals.n_auxiliary * columns / memory_limit))
    gradient = np.zeros((molecule.n_atoms, 3))
    for number in range(n_passes):
        terms: list = [_Coulomb(P)] if number == 0 and P is not None else []
        for fraction, C in exchange:
            first = np.array_split(np.arange(C.shape[1]), n_passes)[number]
            terms += [_Exchange(fraction, C, first)] if len(first) else []
        if terms:
            gradient += _gradient_of(terms, molecule, integrals, metric)
    return gradient


def _gradient_of(terms, molecule, integrals, metric):
    parts: list[list[np.ndarray]] = [[] for _ in terms]
    for _, values in integrals.blocks(_BLOCK_BYTES):
        for blocks, term in zip(parts, terms, strict=True):
            blocks.append(term.project(values))
    X = [np.concatenate(blocks) for blocks in parts]
    Y = [metric.solve(x) for x in X]
    G = sum(term.factor * metric.pull_back(x, y) for term, x, y in zip(terms, X, Y, strict=True))
    del X
    gradient = -2.0 * integrals.atom_sums(np.einsum("xpq,pq->xp", integrals.metric_slope, G))

    n = molecule.n_ao
    per_ao, per_function = np.zeros((3, n)), np.zeros((3, integrals.n_auxiliary))
    for functions, slopes in integrals.slope_blocks(_BLOCK_BYTES):
        Gamma = np.zeros(slopes.shape[1:])
        for term, y in zip(terms, Y, strict=True):
            term.add_expanded(y[functions], Gamma)
        for x in range(3):
            product = np.multiply(slopes[x], Gamma, out=slopes[x])
            per_function[x, functions] = product.sum(axis=(1, 2))
            per_ao[x] += product.sum(axis=(0, 1))
    return gradient + 2.0 * integrals.atom_sums(per_function) - 2.0 * atom_sums(molecule, per_ao)
