r"""The derivative of density-fitted Coulomb and exchange energies with respect to the positions of the nuclei.

Both are sums of terms f/2 tr(X^T V^-1 X), with the metric V_PQ = (P|Q) and projections X of the integrals (Q|mn):

    Coulomb   f = 1,      X_Q = sum_mn (Q|mn) P_mn
    exchange  f = -f_s,   X_Q,ij = sum_mn (Q|mn) C*_mi C_nj

With Y = V^-1 X, the derivative of a term is f (sum_Q,mn Gamma_Q,mn d(Q|mn) + sum_PQ G_PQ dV_PQ), where Gamma_Q is
Y_Q P or C Y_Q C^+. Orbitals may be complex; real and imaginary parts of their X are columns of their own. Moving all
three functions together changes nothing, so the derivative by the position of m alone gives those by n and Q too.

F. Weigend, M. Haeser, Theor. Chem. Acc. 97, 331 (1997). doi:10.1007/s002140050269
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from dftfd.libcint.derivatives import atom_sums
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.hermite_gaussians import coulomb_slopes, fit_of
from dftfd.libcint.three_centre import ThreeCentre
from dftfd.libcint.two_electron import LINEAR_DEPENDENCE, cholesky_factor
from dftfd.runtime.threads import blas_threads, share_out, worker_count

_BLOCK_BYTES = 8 * 2**20
"""Derivatives of integrals of a worker at a time."""

_COPIES = 3  # of the projections: X in pieces, X or Y whole, and what the solver works on


class Metric:
    """The inverse of a metric V (aux, aux) as `fitting_tensor` takes it, and the derivative through it.

    Where V is not positive definite (`cholesky_factor`), eigenvalues up to LINEAR_DEPENDENCE and their vectors are left
    out.
    """

    def __init__(self, V):
        self._factor, self._spectrum = cholesky_factor(V), None
        if self._factor is None:
            s, U = scipy.linalg.eigh(V)
            kept = s > LINEAR_DEPENDENCE
            self._spectrum = s[kept], U[:, kept], s[~kept], U[:, ~kept]

    @property
    def is_definite(self) -> bool:
        """Whether no fitting function depends on others."""
        return self._factor is not None

    def solve(self, X) -> np.ndarray:
        """V^-1 X for X (aux, k)."""
        if self._spectrum is None:
            return scipy.linalg.cho_solve((self._factor, True), X)
        s, U, *_ = self._spectrum
        return U @ ((U.T @ X) / s[:, None])

    def half_change(self, dV, X, Y) -> np.ndarray:
        """Z (aux, k) with X^T dV^-1 X = Y^T Z + Z^T Y for a change dV of V, X (aux, k) and Y = V^-1 X."""
        Z = -0.5 * (dV @ Y)
        if self._spectrum is not None:
            s, U, s_out, U_out = self._spectrum
            Z += U @ ((U.T @ dV @ U_out / (s[:, None] - s_out)) @ (U_out.T @ X))
        return Z

    def unfitted(self, fit) -> np.ndarray | None:
        """X (aux,) of L^-1 X, with V = L L^T; None without that, or where a fit does not hold all of X."""
        return None if fit is None or self._factor is None else self._factor @ fit

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

    factor, columns = 1.0, 1

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
        self.columns = len(first) * columns_of(C)

    def project(self, integrals):
        X = self._first.conj().T @ (integrals @ self._C)
        return X.reshape(len(integrals), -1).view(float)

    def add_expanded(self, Y, Gamma):
        shape = len(Y), self._first.shape[1], self._C.shape[1]
        Y = np.ascontiguousarray(Y).view(self._C.dtype).reshape(shape)
        Gamma += self.factor * (self._first @ (Y @ self._C.conj().T)).real


def columns_of(C) -> int:
    """Numbers that one orbital has with all orbitals C (ao, occupied)."""
    return C.shape[1] * (2 if np.iscomplexobj(C) else 1)


def fitted_gradient(
    molecule,
    auxiliary: dict,
    omega: float,
    P,
    exchange: Sequence[tuple[float, np.ndarray]],
    memory_limit: float,
    fit: np.ndarray | None = None,
) -> np.ndarray:
    """dE/dR (atom, 3) [hartree/bohr] at fixed densities of 1/2 tr(P J[P]) - sum_s f_s/2 tr(P_s K[P_s]).

    P: (ao, ao), the density of the Coulomb energy, for which omega is 0, or None without.
    omega: as in dftfd.terms.integrals.
    exchange: pairs (f_s, C_s) with P_s = C_s C_s^+.
    memory_limit: bytes for the projections; where they do not fit, they and the integrals are computed in several
        passes.
    fit: B P (aux,) with the tensor B of `fitting_tensor`, where it is known.
    """
    integrals = ThreeCentre(molecule, auxiliary, omega)
    metric = Metric(integrals.metric)
    if not exchange:
        return np.zeros((molecule.n_atoms, 3)) if P is None else _coulomb_gradient(P, fit, molecule, integrals, metric)
    columns = sum(C.shape[1] * columns_of(C) for _, C in exchange)
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


def _coulomb_gradient(P, fit, molecule, integrals, metric):
    """That of the Coulomb energy alone: Gamma_Q = Y_Q P leaves no integral to be formed."""
    X = metric.unfitted(fit)
    X = (integrals.projection(P) if X is None else X)[:, None]
    Y = metric.solve(X)
    sources, n = fit_of(integrals.functions, Y[:, 0]), molecule.n_atoms
    of_orbitals, of_fit = coulomb_slopes(gaussian_basis(molecule), P, sources, n, n)
    return of_orbitals + of_fit + integrals.metric_slopes(metric.pull_back(X, Y))


def _gradient_of(terms, molecule, integrals, metric):
    """Each worker forms the integrals of its auxiliary functions, in blocks that stay near its processor."""
    n, parts = molecule.n_ao, integrals.parts(_BLOCK_BYTES)
    X = [np.empty((integrals.n_auxiliary, term.columns)) for term in terms]

    def project(parts):
        for part in parts:
            values = integrals.block(part)
            for x, term in zip(X, terms, strict=True):
                x[part.functions] = term.project(values)

    share_out(parts, project)
    with blas_threads(worker_count()):
        Y = [metric.solve(x) for x in X]
        G = sum(term.factor * metric.pull_back(x, y) for term, x, y in zip(terms, X, Y, strict=True))
    X.clear()
    per_function = np.zeros((3, integrals.n_auxiliary))

    def contract(parts):
        per_ao = np.zeros((3, n))
        for part in parts:
            slopes = integrals.slope_block(part)
            Gamma = np.zeros(slopes.shape[1:])
            for term, y in zip(terms, Y, strict=True):
                term.add_expanded(y[part.functions], Gamma)
            contracted = np.einsum("xqnm,qnm->xqm", slopes, Gamma)
            per_function[:, part.functions] = contracted.sum(axis=2)
            per_ao += contracted.sum(axis=1)
        return per_ao

    per_ao = sum(share_out(parts, contract))
    return 2.0 * (integrals.atom_sums(per_function) - atom_sums(molecule, per_ao)) + integrals.metric_slopes(G)
