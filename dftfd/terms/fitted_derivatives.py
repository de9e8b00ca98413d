"""First and second derivatives of density-fitted Coulomb and exchange energies by the positions of the nuclei.

Both are sums of terms f/2 tr(X^T V^-1 X), with the metric V_PQ = (P|Q) and projections X of the integrals (Q|mn):

    Coulomb   f = 1,      X_Q = sum_mn (Q|mn) P_mn
    exchange  f = -f_s,   X_Q,ij = sum_mn (Q|mn) C*_mi C_nj

With Y = V^-1 X, the derivative of a term is f (sum_Q,mn Gamma_Q,mn d(Q|mn) + sum_PQ G_PQ dV_PQ), where Gamma_Q is
Y_Q P or C Y_Q C^+. Orbitals may be complex; real and imaginary parts of their X are columns of their own. Moving all
three functions together changes nothing, so the derivative by the position of m alone gives those by n and Q too.

F. Weigend, M. Haeser, Theor. Chem. Acc. 97, 331 (1997). doi:10.1007/s002140050269

For the second derivatives, with R^a = X^a - V^a Y,

    E^ab = f (Y . X^ab - 1/2 Y . V^ab Y + R^a . V^-1 R^b)
    J^a = sum_Q (Q|mn)^a Y_Q + (Q|mn) (V^-1 R^a)_Q,   K^a C_i = sum_Qj (Q|mj)^a Y_Q,ij + (Q|mj) (V^-1 R^a)_Q,ij

An integral (Q|mn) depends on its centres' differences alone: moving Q is moving m and n the other way.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from dftfd.libcint.derivatives import MovingCentres, atom_sums
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.hermite_gaussians import coulomb_slopes, fit_of
from dftfd.libcint.three_centre import ThreeCentre
from dftfd.libcint.two_electron import LINEAR_DEPENDENCE, cholesky_factor
from dftfd.runtime.threads import blas_threads, share_out, worker_count
from dftfd.terms.term import Curvature

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


_CURVATURE_BLOCK_BYTES = 32 * 2**20
"""Second derivatives of integrals of a worker at a time."""

_BATCH_BYTES = 96 * 2**20
"""Derivatives of projections on pairs of orbitals at a time."""


def fitted_curvature(
    molecule, auxiliary: dict, omega: float, P, exchange: Sequence[tuple[float, np.ndarray]], C, memory_limit: float
) -> Curvature | None:
    """That of 1/2 tr(P J[P]) - sum_s f_s/2 tr(P_s K[P_s]), arguments as of `fitted_gradient`.

    C: per spin the orbitals (orbital, ao), those of `exchange` but for their lengths.
    None where fitting functions depend on others, or where integrals of pairs of orbitals do not fit into memory.
    """
    integrals = ThreeCentre(molecule, auxiliary, omega)
    metric, centres = Metric(integrals.metric), MovingCentres(molecule)
    if not metric.is_definite:
        return None
    needed = sum(32 * integrals.n_auxiliary * molecule.n_ao * C_s.shape[1] for _, C_s in exchange) + 3 * _BATCH_BYTES
    if exchange and needed > memory_limit:
        return None
    n = centres.n_atoms
    H, on_orbitals = np.zeros((n, 3, n, 3)), [np.zeros((n, 3, *C_s.shape)) for C_s in C]
    weights = np.zeros((integrals.n_auxiliary,) * 2)
    terms: list = []
    if P is not None:
        terms.append(_CoulombCurvature(integrals, metric, centres, P, range(len(C))))
    for s, (fraction, C_s) in enumerate(exchange):
        if not C_s.shape[1]:  # a spin without electrons
            continue
        lengths = np.linalg.norm(C_s, axis=0) / np.linalg.norm(C[s], axis=1)
        terms.append(_ExchangeCurvature(integrals, metric, centres, -fraction, C_s, lengths, s))
    parts = integrals.parts_of_atoms(_CURVATURE_BLOCK_BYTES)
    for term in terms:
        share_out(parts, term.project)
        with blas_threads(worker_count()):
            H += term.first(on_orbitals)
            weights += term.in_metric
    H -= 0.5 * _of_metric(integrals, weights, n)
    found = share_out(parts, lambda parts: _second(parts, integrals, centres, terms, C))
    of_integrals, *more = (sum(of_part) for of_part in zip(*found, strict=True))
    return Curvature(H + of_integrals, [a + b for a, b in zip(on_orbitals, more, strict=True)])


def _second(parts, integrals, centres, terms, C):
    """Y . X^ab (atom, 3, atom, 3), and what moving integrals do to C per spin, of some of the fitting functions."""
    n, n_ao = centres.n_atoms, len(centres.atom_of_ao)
    H, on_orbitals = np.zeros((n, 3, n, 3)), [np.zeros((n, 3, *C_s.shape)) for C_s in C]
    for owner, part in parts:
        slopes = integrals.slope_block(part)
        Gamma = np.zeros(slopes.shape[1:])
        for term in terms:
            term.add_expanded(part.functions, Gamma)
            term.add_moved(owner, part, slopes, on_orbitals, C)
        sums = lambda block, Gamma=Gamma: np.einsum("kqnm,qnm->kmn", block, Gamma)
        S = sums(integrals.second_slope_block(part, "ipvip1")).reshape(3, 3, n_ao, n_ao)
        twice = np.einsum("kqnm,qnm->km", integrals.second_slope_block(part, "ipip1"), Gamma).reshape(3, 3, n_ao)
        centres.add_second(H, *centres.pairs(2.0 * S, 2.0 * twice), owner)
    return H, *on_orbitals


def _of_metric(integrals, weights, n):
    """sum_PQ weights_PQ V^ab_PQ (atom, 3, atom, 3)."""
    H, atoms = np.zeros((n, 3, n, 3)), integrals.atom_of_function
    is_of = np.equal.outer(np.arange(n), atoms).astype(float)
    weighted = integrals.metric_curvature * weights
    K = (is_of @ weighted @ is_of.T).reshape(3, 3, n, n)
    for a, b in np.ndindex(n, n):
        for first, second, sign in ((a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)):
            H[first, :, second] += sign * K[:, :, a, b]
    return H


def _metric_slopes(integrals, Y, n):
    """V^a Y (atom, 3, aux, k) of Y (aux, k)."""
    S, atoms = integrals.metric_slope, integrals.atom_of_function
    found = np.zeros((n, 3, *Y.shape))
    for atom in range(n):
        own = atoms == atom
        found[atom] = S[:, :, own] @ Y[own]
        found[atom][:, own] -= S[:, own] @ Y
    return found


class _CoulombCurvature:
    """The projection on a density matrix P (ao, ao), of spins whose matrices have J."""

    def __init__(self, integrals, metric, centres, P, spins):
        self._integrals, self._metric, self._centres, self._P, self._spins = integrals, metric, centres, P, spins
        self._X = np.empty(integrals.n_auxiliary)
        self._slopes = np.zeros((centres.n_atoms, 3, integrals.n_auxiliary))

    def project(self, parts):
        """X and X^a of some of the fitting functions."""
        for owner, part in parts:
            self._X[part.functions] = np.einsum("qmn,mn->q", self._integrals.block(part), self._P)
            per_ao = -2.0 * np.einsum("xqnm,nm->xqm", self._integrals.slope_block(part), self._P)
            found = np.zeros((self._centres.n_atoms, *per_ao.shape[:2]))
            for atom in range(len(found)):
                found[atom] = per_ao[:, :, self._centres.atom_of_ao == atom].sum(axis=2)
            found[owner] -= found.sum(axis=0)
            self._slopes[:, :, part.functions] = found

    def first(self, on_orbitals):
        """R^a . V^-1 R^b."""
        n = self._centres.n_atoms
        self._Y = self._metric.solve(self._X)
        R = (self._slopes - _metric_slopes(self._integrals, self._Y[:, None], n)[..., 0]).reshape(3 * n, -1)
        self._fits = self._metric.solve(R.T).T
        self.in_metric = np.outer(self._Y, self._Y)
        return (R @ self._fits.T).reshape(n, 3, n, 3)

    def add_expanded(self, functions, Gamma):
        """Adds Y_Q P_mn to Gamma (aux, ao, ao)."""
        Gamma += self._Y[functions, None, None] * self._P

    def add_moved(self, owner, part, slopes, on_orbitals, C):
        """Adds J^a C of some of the fitting functions."""
        n_ao = len(self._P)
        y, fits = self._Y[part.functions], self._fits[:, part.functions]
        Z = np.matmul(y, slopes.reshape(3, len(y), -1)).reshape(3, n_ao, n_ao).transpose(0, 2, 1)
        block = self._integrals.block(part)
        for s in self._spins:
            self._centres.add_first(on_orbitals[s], Z, C[s], owner)
            half = np.matmul(C[s], block).reshape(len(y), -1)
            on_orbitals[s] += (fits @ half).reshape(on_orbitals[s].shape)


class _ExchangeCurvature:
    """The projection on pairs of orbitals C (ao, orbital) of a spin, which are `lengths` times those that F acts on."""

    def __init__(self, integrals, metric, centres, factor, C, lengths, spin):
        self._integrals, self._metric, self._centres, self._factor = integrals, metric, centres, factor
        self._C, self._lengths, self._spin = C, lengths, spin
        (n_ao, n_occ), n = C.shape, integrals.n_auxiliary
        self._half = np.empty((n, n_occ, n_ao))  # (Q|j m)
        self._slopes = np.empty((3, n, n_occ, n_ao))  # (nabla m j|Q)
        self._atom_of_function = integrals.atom_of_function

    def project(self, parts):
        """Integrals of some of the fitting functions on one orbital."""
        for _, part in parts:
            self._half[part.functions] = self._C.T @ self._integrals.block(part)
            self._slopes[:, part.functions] = self._C.T @ self._integrals.slope_block(part)

    def first(self, on_orbitals):
        """f R^a . V^-1 R^b; adds what V^-1 R^a does to the orbitals."""
        (n, n_occ, n_ao), n_atoms = self._half.shape, self._centres.n_atoms
        X = (self._half @ self._C).reshape(n, -1)
        Y = self._metric.solve(X)
        self._Y, self.in_metric = Y.reshape(n, n_occ, n_occ), self._factor * (Y @ Y.T)
        H = np.zeros((3 * n_atoms, 3 * n_atoms))
        size = max(1, int(_BATCH_BYTES / (8 * 3 * n_atoms * n * n_occ)))
        rows = self._half.reshape(-1, n_ao)
        for start in range(0, n_occ, size):
            few = slice(start, min(start + size, n_occ))
            R = self._projection_slopes(few) - _metric_slopes(
                self._integrals, self._Y[:, few].reshape(n, -1), n_atoms
            )  # (atom, 3, aux, few j)
            R = R.reshape(3 * n_atoms, n, -1)
            fits = self._metric.solve(np.moveaxis(R, 1, 0).reshape(n, -1)).reshape(n, 3 * n_atoms, -1)
            fits = np.moveaxis(fits, 0, 1)
            H += R.reshape(len(H), -1) @ fits.reshape(len(H), -1).T
            columns = np.moveaxis(fits.reshape(3 * n_atoms, n, -1, n_occ), 2, 1).reshape(-1, n * n_occ)
            found = (columns @ rows).reshape(n_atoms, 3, -1, n_ao)
            on_orbitals[self._spin][:, :, few] += self._factor * found / self._lengths[few, None]
        return self._factor * H.reshape(n_atoms, 3, n_atoms, 3)

    def _projection_slopes(self, few):
        """X^a (atom, 3, aux, few j) of pairs of a few orbitals with all."""
        n_atoms, (n, n_occ, _) = self._centres.n_atoms, self._half.shape
        found = np.empty((n_atoms, 3, n, few.stop - few.start, n_occ))
        for atom in range(n_atoms):
            own = self._centres.atom_of_ao == atom
            moved = self._slopes[..., own]
            found[atom] = -(moved[:, :, few] @ self._C[own])
            found[atom] -= (moved @ self._C[own, few]).transpose(0, 1, 3, 2)
        whole = found.sum(axis=0)
        for atom in range(n_atoms):
            own = self._atom_of_function == atom
            found[atom][:, own] -= whole[:, own]
        return found.reshape(n_atoms, 3, n, -1)

    def add_expanded(self, functions, Gamma):
        """Adds f C Y_Q C^T to Gamma (aux, ao, ao)."""
        Gamma += self._factor * (self._C @ (self._Y[functions] @ self._C.T))

    def add_moved(self, owner, part, slopes, on_orbitals, C):
        """Adds f K^a C of some of the fitting functions, of integrals that move."""
        found, centres = on_orbitals[self._spin], self._centres
        scale = self._factor / self._lengths[:, None]
        Y, moved = self._Y[part.functions], self._slopes[:, part.functions]
        of_left = scale * np.tensordot(Y, moved, axes=((0, 1), (1, 2))).transpose(1, 0, 2)
        T = np.matmul(self._C, Y)  # sum_j C_nj Y_Q,jq as (aux, n, q)
        for atom in range(centres.n_atoms):
            own = centres.atom_of_ao == atom
            found[atom][:, :, own] -= of_left[:, :, own]
            # of the integrals (nabla_n n m|Q) with the moved function in the sum
            by_right = scale * np.tensordot(T[:, own], slopes[..., own], axes=((0, 1), (1, 3))).transpose(1, 0, 2)
            found[atom] -= by_right
            found[owner] += by_right
        found[owner] += of_left
