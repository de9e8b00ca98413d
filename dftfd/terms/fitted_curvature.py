r"""Second derivatives of density-fitted Coulomb and exchange energies by the nuclei, at fixed density matrices.

Both are sums of terms f/2 X . V^-1 X as in dftfd.terms.fitted_gradient. With Y = V^-1 X and R^a = X^a - V^a Y,

    E^ab = f (Y . X^ab - 1/2 Y . V^ab Y + R^a . V^-1 R^b)
    J^a = sum_Q (Q|mn)^a Y_Q + (Q|mn) (V^-1 R^a)_Q,   K^a C_i = sum_Qj (Q|mj)^a Y_Q,ij + (Q|mj) (V^-1 R^a)_Q,ij

An integral (Q|mn) depends on its centres' differences alone: moving Q is moving m and n the other way.
"""

from collections.abc import Sequence

import numpy as np

from dftfd.libcint.derivatives import MovingCentres
from dftfd.libcint.three_centre import ThreeCentre
from dftfd.runtime.threads import blas_threads, share_out, worker_count
from dftfd.terms.fitted_gradient import Metric
from dftfd.terms.term import Curvature

_BLOCK_BYTES = 32 * 2**20
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
        terms.append(_Coulomb(integrals, metric, centres, P, range(len(C))))
    for s, (fraction, C_s) in enumerate(exchange):
        if not C_s.shape[1]:  # a spin without electrons
            continue
        lengths = np.linalg.norm(C_s, axis=0) / np.linalg.norm(C[s], axis=1)
        terms.append(_Exchange(integrals, metric, centres, -fraction, C_s, lengths, s))
    parts = integrals.parts_of_atoms(_BLOCK_BYTES)
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


class _Coulomb:
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


class _Exchange:
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
