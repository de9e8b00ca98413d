"""Whether energies and potentials are continuous where formulas are cut off or change their form.

Each border is crossed at a few hundred densities by a relative step of 2e-12.
"""

from collections.abc import Callable

import numpy as np

from dftfd.functionals.base import Functional
from dftfd.functionals.numerics import DENSITY_FLOOR, POLARISATION_FLOOR, ROOT_FLOOR, SPIN_FLOOR, TAU_FLOOR
from dftfd.verify.sampling import K_F, variables
from dftfd.xc.pointwise import pointwise_kernel

_STEP = 1e-12
_ETA, _TAU_R, _ALPHA_R = 1e-3, 1e-4, 1e-3  # of r2SCAN's and rSCAN's alpha


def paths(count: int = 400, seed: int = 3) -> dict[str, Callable[[float], np.ndarray]]:
    """For each border a code of t that gives points (9, count) in the variables of `xc.pointwise`, at t = 1 on it.

    Other variables: s = 0.02 to 3, alpha = 0 to 5 and reduced Laplacian -3 to 3 in each spin, any angle of gradients;
    1 - |zeta| = 1e-2 to 1, n = 1e-3 to 1e2, beside a rare spin 1e-6 to 1e2, for the share of a rare spin 1e2 to 1e6.
    Borders in s, alpha and |nabla n| are crossed by both spins at once, equal densities with parallel gradients.
    """
    return _Paths(count, np.random.default_rng(seed)).by_border()


class _Paths:
    def __init__(self, count, rng):
        between = lambda low, high: 10 ** rng.uniform(np.log10(low), np.log10(high), count)
        self.nothing = np.zeros(count)
        self.n, self.n_beside, self.n_dense = between(1e-3, 1e2), between(1e-6, 1e2), between(1e2, 1e6)
        self.minority = between(1e-2, 1) / 2
        self.s, self.alpha = rng.uniform(0.02, 3, (2, count)), rng.uniform(0, 5, (2, count))
        self.q, self.cosine = rng.uniform(-3, 3, (2, count)), rng.uniform(-1, 1, count)

    def by_border(self):
        shared = lambda n: n * np.stack([1 - self.minority, self.minority])
        beside = lambda n, rare: np.stack([n, np.broadcast_to(rare, n.shape)])
        alone = lambda n: np.stack([n + self.nothing, self.nothing])
        return {
            "n": lambda t: self._point(shared(t * DENSITY_FLOOR + self.nothing)),
            "n of a spin alone": lambda t: self._point(alone(t * DENSITY_FLOOR)),
            "n of a spin alone, doubled": lambda t: self._point(alone(t * DENSITY_FLOOR / 2)),
            "n of a rare spin": lambda t: self._point(beside(self.n_beside, t * DENSITY_FLOOR)),
            "n of a rare spin, doubled": lambda t: self._point(beside(self.n_beside, t * DENSITY_FLOOR / 2)),
            "smooth floor of a spin alone": lambda t: self._point(alone(t * SPIN_FLOOR)),
            "smooth floor of a rare spin": lambda t: self._point(beside(self.n_beside, t * SPIN_FLOOR)),
            "1 - |zeta|": lambda t: self._point(beside(self.n_dense, t * POLARISATION_FLOOR / 2 * self.n_dense)),
            "|nabla n|": lambda t: self._unpolarised(self.n, s=t * ROOT_FLOOR**0.5 / self._unit(self.n)),
            "tau = tau_W / 2": self._across_half_tau_w,
            **{f"k_F^2 = 3 omega^2, {w:g}": lambda t, w=w: self._unpolarised(t * self._density_of(w)) for w in _OMEGAS},
            "r_s = 1": lambda t: self._point(shared(t * 3 / (4 * np.pi) + self.nothing)),
            **{f"s = {s:g}": lambda t, s=s: self._unpolarised(self.n, s=t * s + self.nothing) for s in _BORDERS_OF_S},
            **{f"alpha = {a:g}": lambda t, a=a: self._across_alpha(t, a, 0.0, 0.0) for a in (0.999, 1.001)},
            "alpha = 2.5, r2SCAN": lambda t: self._across_alpha(t, 2.5, _ETA, 0.0),
            "alpha = 2.5, rSCAN": lambda t: self._across_alpha(t, _RSCAN_END, 0.0, _TAU_R),
            "alpha = 0": lambda t: self._unpolarised(self.n, alpha=(t - 1) + self.nothing),
        }

    def _point(self, rho):
        return variables(rho, self.s, self.alpha, self.q, self.cosine)

    def _unpolarised(self, n, s=None, alpha=None):
        """Equal spins with parallel gradients."""
        s, alpha = self.s[0] if s is None else s, self.alpha[0] if alpha is None else alpha
        twice = lambda x: np.stack([x, x])
        return variables(twice(n / 2), twice(s), twice(alpha), twice(self.q[0]), 1.0)

    def _density_of(self, omega):
        """n with k_F^2 = 3 omega^2."""
        return (3**0.5 * omega) ** 3 / (3 * np.pi**2) + self.nothing

    def _unit(self, n):
        """2 k_F n, the gradient of s = 1."""
        return 2 * (3 * np.pi**2) ** (1 / 3) * n ** (4 / 3)

    def _across_half_tau_w(self, t):
        """tau = t (tau_W + TAU_FLOOR tau_unif) / 2, both in units of tau_unif."""
        tau = t * (5 / 3 * self.s[0] ** 2 + TAU_FLOOR) / 2
        return self._unpolarised(self.n, alpha=tau - 5 / 3 * self.s[0] ** 2)

    def _across_alpha(self, t, border, eta, tau_r):
        """(tau - tau_W) / (tau_unif + eta tau_W + tau_r) = t times the border."""
        tau_unif = 0.3 * (3 * np.pi**2) ** (2 / 3) * self.n ** (5 / 3)
        return self._unpolarised(self.n, alpha=t * border * (1 + eta * 5 / 3 * self.s[0] ** 2 + tau_r / tau_unif))


_BORDERS_OF_S = (1e-7, 1e-3, 0.08, 1.0, 15.0)
_OMEGAS = (0.3, 0.4)  # of the short-range uniform gas in omegaB97 and its kin, whose two forms meet there
_RSCAN_END = np.roots([1, -2.5, 0, -2.5 * _ALPHA_R]).real.max()  # a^3 / (a^2 + alpha_r) = 2.5


def potential_terms(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(10, point): what first derivatives (9, point) contribute to the potentials of both spins [hartree].

    v_rho;   2 v_sigma_ss and v_sigma_ab times the Laplacian, v_lapl times the squared wave vector, v_tau times half of
    it, at the Fermi wave vector of the spin whose gradient, density or orbitals they multiply.
    """
    rho, k2 = x[:2], K_F**2 * x[:2] ** (2 / 3)
    laplacian = 4 * k2 * rho
    of_sigma = [2 * first[[2, 4]] * laplacian, first[3] * laplacian[::-1]]
    return np.concatenate([first[:2], *of_sigma, 4 * k2 * first[5:7], 0.5 * k2 * first[7:9]])


def jump(functional: Functional, path) -> tuple[float, float]:
    """Largest jump of the energy per electron and of the potential's terms [hartree] on a path across a border.

    It is the change over the border less that of both sides, which is the slope's part, and less 64 rounding units
    of the values themselves: the potential of a rare spin is 1e7 hartree where it is cut off.
    """
    kernel = pointwise_kernel(functional.semilocal_part, 2)
    values = []
    for steps in (-3, -1, 1, 3):
        x = path(1 + steps * _STEP)
        energy, rows = kernel(x, 1, compiled=False)
        first = np.zeros_like(x)
        first[list(kernel.used)] = rows
        values.append((energy[0] / x[:2].sum(axis=0), potential_terms(first, x)))
    energy, potential = (_size(*parts) for parts in zip(*values, strict=True))
    return energy, potential


def _size(a, b, c, d):
    rounding = 64 * np.finfo(float).eps * np.abs(b)
    return float(np.maximum(np.abs(1.5 * (c - b) - 0.5 * (d - a)) - rounding, 0.0).max())
