"""Energies of what PySCF does not have, in plain NumPy at PySCF's densities.

Formulas, a network, code on the grid, double integrals, local hybrids, perturbation theory: nothing of dftfd's
functionals, lowering, kernels or integrals takes part.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from pyscf import ao2mo, df
from pyscf.dft import gen_grid, numint

import dftfd
from tests.combinations.own import network

SLATER = -0.75 * (3.0 / np.pi) ** (1.0 / 3.0)
LIMIT = 3000
"""Points on which exchange is integrated anew; all of a small molecule's coarsest grid."""
DENSE = 1e-8
"""Density [bohr^-3] from which VV10 counts a point."""


class OnGrid(NamedTuple):
    """Of both spins, (2, point): n, its gradient (2, 3, point), Laplacian, tau; points (point, 3), weights (point,)."""

    n: np.ndarray
    gradient: np.ndarray
    laplacian: np.ndarray
    tau: np.ndarray
    points: np.ndarray
    weights: np.ndarray

    @property
    def doubled(self):
        """What exchange takes of each spin: twice its n, sigma, tau."""
        return 2 * self.n, 4 * np.sum(self.gradient**2, axis=1), 2 * self.tau

    def total(self):
        """n, sigma, Laplacian of both spins."""
        return self.n.sum(axis=0), np.sum(self.gradient.sum(axis=0) ** 2, axis=0), self.laplacian.sum(axis=0)


def of_both_spins(P: np.ndarray) -> np.ndarray:
    """(2, ao, ao) of one or two matrices."""
    return np.repeat(P, 2, axis=0) / 2 if len(P) == 1 else P


def on_grid(mole, P, points, weights) -> OnGrid:
    """Densities of P on a grid, by PySCF."""
    ao = numint.eval_ao(mole, points, deriv=2)
    rows = np.stack([numint.eval_rho(mole, ao, P_s, xctype="MGGA", with_lapl=True) for P_s in of_both_spins(P)])
    return OnGrid(rows[:, 0], rows[:, 1:4], rows[:, 4], rows[:, 5], points, weights)


def _with_gradients(at):
    n, sigma, _ = at.total()
    return at.weights @ (SLATER * n ** (4 / 3) * (1 + 0.016 * sigma / (n ** (8 / 3) + 1e-10)) ** 0.25)


def _with_tau(at):
    n, _, tau = at.doubled
    of_both = np.maximum(n ** (5 / 3) + tau, 1e-300)  # a spin may have no electron
    return at.weights @ np.sum(-0.375 * n ** (4 / 3) * (1 + 0.12 * n ** (5 / 3) / of_both), axis=0)


def _with_laplacian(at):
    n, _, laplacian = at.total()
    q = laplacian / (n ** (5 / 3) + 1e-3)
    return at.weights @ (-0.75 * n ** (4 / 3) * (1 + 0.01 * q / np.sqrt(1 + q * q)))


def _with_position(at):
    here = 1 + 0.02 * np.exp(-np.sum(at.points**2, axis=1) / 9)
    return at.weights @ np.sum(0.5 * SLATER * at.doubled[0] ** (4 / 3) * here, axis=0)


def _learned(at):
    n, sigma, _ = at.doubled
    safe = np.maximum(n, 1e-30)
    s2 = sigma / (4 * (3 * np.pi**2) ** (2 / 3) * safe ** (8 / 3))
    u = s2 / (1 + s2)
    hidden, last = network().layers
    w, b = np.asarray(hidden.weight)[:, 0], np.asarray(hidden.bias)
    x = w[:, None] * u.reshape(-1) + b[:, None]
    out = (np.asarray(last.weight)[0] @ (x / (1 + np.exp(-x))) + float(np.asarray(last.bias)[0])).reshape(u.shape)
    return at.weights @ np.sum(0.5 * SLATER * n ** (4 / 3) * (1 + 0.804 * u / (1 + np.exp(-out))), axis=0)


def _on_the_grid(at):
    n43 = np.maximum(at.n, 1e-20) ** (4 / 3)
    squares = np.sum(at.gradient**2, axis=1)
    return at.weights @ np.sum(-0.9305257363491 * n43 - 0.004 * squares * n43 / (n43**2 + squares / 20), axis=0)


def _squared_distances(points):
    norms = np.sum(points**2, axis=1)
    return np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0)


def _averaged(at):
    n = at.total()[0]
    near = np.exp(-_squared_distances(at.points) / 1.44) * (np.pi * 1.44) ** -1.5
    return at.weights @ (SLATER * n * np.maximum(near @ (at.weights * n), 0.0) ** (1 / 3))


def _vv10(at, b=5.9, C=0.0093):
    n, sigma, _ = at.total()
    dense = n > DENSE
    n, sigma, w, points = n[dense], sigma[dense], at.weights[dense], at.points[dense]
    omega = np.sqrt(C * (sigma / n**2) ** 2 + 4 * np.pi / 3 * n)
    kappa = b * 1.5 * np.pi * (n / (9 * np.pi)) ** (1 / 6)
    g = omega[:, None] * _squared_distances(points) + kappa[:, None]
    phi = -1.5 / (g * g.T * (g + g.T))
    return w @ (n * ((3 / b**2) ** 0.75 / 32 + 0.5 * phi @ (w * n)))


def exchange_on_grid(mole, P, points) -> np.ndarray:
    """Energy density of exact exchange (2, point), by integrals over one electron at each point."""
    ao, found = numint.eval_ao(mole, points), np.zeros((2, len(points)))
    for part in np.array_split(np.arange(len(points)), -(-len(points) // 500)):
        A = mole.intor("int1e_grids", grids=points[part])
        for s, P_s in enumerate(of_both_spins(P)):
            orbitals = ao[part] @ P_s
            found[s, part] = -0.5 * np.einsum("ga,gab,gb->g", orbitals, A, orbitals)
    return found


def _constant(at):
    return np.full(at.n.shape, 0.3)


def _t_mixing(at):
    n, sigma, tau = at.doubled
    return 0.48 * np.minimum(sigma / (8 * np.maximum(n, 1e-30)) / np.maximum(tau, 1e-30), 1.0)


def _exact(at, e_x):
    return at.weights @ np.sum(_constant(at) * e_x, axis=0)


def _lh07t(at, e_x):
    g = _t_mixing(at)
    return at.weights @ np.sum(g * e_x + (1 - g) * 0.5 * SLATER * at.doubled[0] ** (4 / 3), axis=0)


def imaginary_curvature(formula, mole, result, L) -> float:
    """L (A - B) L [hartree] of L = X - Y, per spin (occupied, empty), where the grid alone has exact exchange:

    (e_a - e_i) delta + c [(ib|ja) - (ij|ab)], with one of the two electrons on the grid and the share c(r) there.
    """
    (points, weights), C, e, n = result.grid, result.mo_coeff, result.mo_energy, result.mo_occ
    at = on_grid(mole, result.density_matrix, points, weights)
    share, ao, found = weights * formula.share(at), numint.eval_ao(mole, points), 0.0
    for s, L_s in enumerate(L):
        gaps = e[s][n[s] == 0] - e[s][n[s] > 0][:, None]
        found += np.sum(gaps * L_s**2)
        C_o, C_v = C[s][:, n[s] > 0], C[s][:, n[s] == 0]
        p, q = ao @ C_o @ L_s @ C_v.T, ao @ C_v @ L_s.T @ C_o.T
        for part in np.array_split(np.arange(len(points)), -(-len(points) // 500)):
            A = mole.intor("int1e_grids", grids=points[part])
            turned = q[part] - p[part]
            found += share[s, part] @ (-0.5 * np.einsum("ga,gab,gb->g", turned, A, turned))
    return float(found)


class Formula(NamedTuple):
    """code(densities, ...) -> energy [hartree].   rest: what PySCF has of the functional, in its words.

    nonlocal_grid: on the grid of double integrals.   takes_exchange: code(densities, e_x).
    """

    code: Callable[..., float]
    rest: str
    nonlocal_grid: bool = False
    takes_exchange: bool = False
    share: Callable | None = None


FORMULAS = {
    "gga_x_combination, pbe": Formula(_with_gradients, ",pbe"),
    "mgga_x_combination": Formula(_with_tau, ""),
    "lapl_x_combination": Formula(_with_laplacian, ""),
    "r_x_combination": Formula(_with_position, ""),
    "net_x_combination": Formula(_learned, ""),
    "grid_x_combination": Formula(_on_the_grid, ""),
    "pair_combination": Formula(_averaged, "", nonlocal_grid=True),
    "pbe + 0.8*vv10": Formula(lambda at: 0.8 * _vv10(at), "pbe", nonlocal_grid=True),
    "wb97xv": Formula(lambda at: _vv10(at, 6.0, 0.01), "wb97x_v", nonlocal_grid=True),
    "0.3*sn_x + 0.7*lda, vwn": Formula(_exact, "0.7*lda, vwn", takes_exchange=True, share=_constant),
    "lh07t_svwn": Formula(_lh07t, ",vwn", takes_exchange=True, share=_t_mixing),
}
"""By the text of the functional."""
DOUBLE_HYBRIDS = {"b2plyp": ("0.53*HF + 0.47*B88, 0.73*LYP", 0.27)}
"""What PySCF has of them, and the share of perturbation theory."""


def formula_energy(formula: Formula, mole, result) -> float:
    """The formula's energy of a result's density, on its grid, or on that of its double integrals."""
    molecule, (points, weights), P = result.molecule, result.grid, result.density_matrix
    if formula.nonlocal_grid:
        level = result.settings.options.nlc_grid_level
        grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
        points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    at = on_grid(mole, P, points, weights)
    more = (exchange_on_grid(mole, P, points),) if formula.takes_exchange else ()
    return float(formula.code(at, *more))


def pyscf_xc_energy(mole, xc: str, P, grid) -> float:
    """PySCF's energy of a functional on the grid [hartree]."""
    grids = gen_grid.Grids(mole)
    grids.coords, grids.weights = (np.asarray(x) for x in grid)
    grids.non0tab = None
    integration = numint.NumInt()
    if len(P) == 1:
        return float(integration.nr_rks(mole, grids, xc, P[0])[1])
    return float(integration.nr_uks(mole, grids, xc, P)[1])


def integrals(mole, omega: float, auxiliary) -> np.ndarray:
    """(ao, ao, ao, ao), exact, of erf(omega r)/r where omega > 0; or of 1/r fitted by auxiliary functions."""
    if auxiliary is None:
        with mole.with_range_coulomb(omega):
            return ao2mo.restore(1, mole.intor("int2e"), mole.nao)
    B = np.vstack(list(df.DF(mole, auxbasis=auxiliary).build().loop()))
    return ao2mo.restore(1, B.T @ B, mole.nao)


def second_order_energy(mole, mo_energy, mo_coeff, mo_occ, auxiliary) -> float:
    """Energy of pairs of full and empty orbitals [hartree], spin by spin.   auxiliary: functions of a fit, or None."""
    if len(mo_occ) == 1:
        mo_energy, mo_coeff, mo_occ = (np.repeat(x, 2, axis=0) for x in (mo_energy, mo_coeff, mo_occ))
    eri = integrals(mole, 0.0, auxiliary)
    C = [(c[:, n > 0], c[:, n == 0]) for c, n in zip(mo_coeff, mo_occ, strict=True)]
    e = [(x[n > 0], x[n == 0]) for x, n in zip(mo_energy, mo_occ, strict=True)]
    found = 0.0
    for s in range(2):
        for t in range(2):
            g = np.einsum("pqrs,pi,qa,rj,sb->iajb", eri, *C[s], *C[t], optimize=True)
            below = e[s][0][:, None, None, None] + e[t][0][:, None]
            gaps = below - e[s][1][:, None, None] - e[t][1]
            found += 0.5 * np.sum(g * (g - (g.transpose(0, 3, 2, 1) if s == t else 0.0)) / gaps)
    return float(found)
