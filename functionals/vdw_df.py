r"""Nonlocal correlation of the van der Waals density functionals vdW-DF and vdW-DF2, and the functionals themselves.

M. Dion, H. Rydberg, E. Schroeder, D. C. Langreth, B. I. Lundqvist, Phys. Rev. Lett. 92, 246401 (2004), erratum 95,
109902 (2005). doi:10.1103/PhysRevLett.92.246401
K. Lee, E. D. Murray, L. Kong, B. I. Lundqvist, D. C. Langreth, Phys. Rev. B 82, 081101(R) (2010).
doi:10.1103/PhysRevB.82.081101

Both depend on the total density alone, also for open shells. q_0 is not saturated, as implementations by Fourier
transforms do. Points with a density below DENSITY_THRESHOLD are left out. The kernel diverges like a logarithm at
r = r': coinciding points of a grid count with the mean of the kernel over a ball of the volume of the point's cell.

The double integral that defines the kernel phi(d1, d2) takes a tenth of a second per value, so it is tabulated
(vdw_df_kernel.json, see data/vdw_df_kernel/make_kernel.py): Chebyshev coefficients of

    psi = phi (5 + d1^2) (5 + d2^2) (10 + d1^2 + d2^2)   in ln D and delta^2,   d1,2 = D (1 +- delta)

At first use they become a bicubic spline in ln D and tau = 1 - sqrt(1 - |delta|), twice continuously differentiable,
whose polynomials are looked up in constant time. For D -> 0 phi grows like -2/pi ln D, which continues the table below
its smallest D; above the largest one psi stays constant, as phi's asymptotic form -12 (4 pi / 9)^3 / (d1^2 d2^2 (d1^2
+ d2^2)) has it.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from dftfd.autofd import compose
from dftfd.autofd.lowering import cell_volume
from dftfd.functionals import p86, pbe
from dftfd.functionals.common import fermi_wavevector, gradient_squared, wigner_seitz_radius
from dftfd.functionals.pairs import dense_part, guarded, here, integral_over_there, squared_distance, there
from dftfd.functionals.pw92 import PRINTED, correlation, fits
from dftfd.functionals.registry import functional, register
from dftfd.runtime.json_reader import shipped_json

CELLS_D, CELLS_TAU = 320, 96
ALMOST_ONE = 1 - 1e-15
"""Keeps |delta| above zero, so that second derivatives of what is even in delta are right for d1 = d2, too."""
SLOPE_AT_ZERO = -2 / np.pi
"""d phi / d ln D for D -> 0."""


class Table:
    """psi on cells of ln D and tau as cubic polynomials, coefficients (cells * 16,), and ln D at both ends."""

    def __init__(self):
        source = shipped_json("dftfd.functionals", "vdw_df_kernel.json")
        self.coefficients = np.array(source["coefficients"])
        self.low, self.high = np.log(source["D_range"])
        u, tau = np.linspace(self.low, self.high, CELLS_D + 1), np.linspace(0.0, 1.0, CELLS_TAU + 1)
        self.cells = _bicubic(u, tau, self.psi(u, 1 - (1 - tau) ** 2)).ravel()

    def psi(self, u, delta):
        """psi by the Chebyshev series, on the grid of ln D (row) and delta (column)."""
        x = (2 * np.asarray(u) - self.low - self.high) / (self.high - self.low)
        return chebyshev.chebgrid2d(x, 2 * np.asarray(delta) ** 2 - 1, self.coefficients)


@functools.lru_cache(maxsize=1)
def table() -> Table:
    return Table()


def _cubic_spline(x, values, **conditions):
    """Polynomials of a cubic spline, (power, cell, ...), highest powers first."""
    from scipy.interpolate import CubicSpline  # loading it takes longer than all of the other functionals

    return CubicSpline(x, values, **conditions).c


def _bicubic(x, y, values):
    """Polynomials (cell_x, cell_y, power_x, power_y) of the bicubic spline, in units of the cells' edges."""
    in_y = _cubic_spline(y, values, axis=1, bc_type=("clamped", "not-a-knot"))  # (power, cell_y, x); even in delta
    both = _cubic_spline(x, in_y, axis=2)  # (power_x, cell_x, power_y, cell_y), highest powers first
    h_x, h_y, powers = x[1] - x[0], y[1] - y[0], np.arange(4)
    return both[::-1, :, ::-1, :].transpose(1, 3, 0, 2) * h_x ** powers[:, None] * h_y ** powers[None, :]


def kernel(d1, d2):
    """phi(d1, d2) for d1, d2 > 0."""
    t = table()
    D = 0.5 * (d1 + d2)
    u = jnp.log(D)
    inside = jnp.clip(u, t.low, t.high)
    share = d1 * d2 / (D * D)  # 1 - delta^2
    delta = jnp.sqrt(1 - ALMOST_ONE * share)
    tau = 1 - jnp.sqrt(share / (1 + delta))
    a, b = d1 * d1, d2 * d2
    phi = _spline(t, inside, tau) / ((5 + a) * (5 + b) * (10 + a + b))
    return phi + SLOPE_AT_ZERO * jnp.minimum(u - t.low, 0.0)


def _spline(t: Table, u, tau):
    i, x = _interval((u - t.low) * (CELLS_D / (t.high - t.low)), CELLS_D)
    j, y = _interval(tau * CELLS_TAU, CELLS_TAU)
    first = (i * CELLS_TAU + j) * 16
    cells = jnp.asarray(t.cells)
    entry = lambda k: cells.at[first + k].get(mode="promise_in_bounds")
    total = 0.0
    for p in (3, 2, 1, 0):
        total = total * x + (entry(4 * p) + y * (entry(4 * p + 1) + y * (entry(4 * p + 2) + y * entry(4 * p + 3))))
    return total


def _interval(position, count):
    """Number of the cell (unsigned, which spares look-ups a test for negative places) and place within it."""
    number = jnp.clip(jnp.floor(position), 0, count - 1)
    return number.astype(jnp.uint32), position - number


@functools.lru_cache(maxsize=1)
def _mean_spline():
    """Cubic spline of the mean of phi(x, x) over the ball x < D, times (10 + D^2)^(3/2), on a grid of ln D."""
    t = table()
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(t.low, t.high, CELLS_D + 1)
    u = (0.5 * (edges[:-1] + edges[1:])[:, None] + 0.5 * np.diff(edges)[:, None] * x).ravel()
    d2 = np.exp(2 * u)
    phi = t.psi(u, [0.0])[:, 0] / ((5 + d2) ** 2 * (10 + 2 * d2))
    parts = ((3 * phi * np.exp(3 * u)).reshape(-1, 8) @ w) * 0.5 * np.diff(edges)
    start = t.psi([t.low], [0.0])[0, 0] / ((5 + np.exp(2 * t.low)) ** 2 * (10 + 2 * np.exp(2 * t.low)))
    first = np.exp(3 * t.low) * (start - SLOPE_AT_ZERO / 3)  # of phi = start + slope (u - low) below the table
    mean = np.concatenate([[first], first + np.cumsum(parts)]) / np.exp(3 * edges)
    c = _cubic_spline(edges, mean * (10 + np.exp(2 * edges)) ** 1.5)
    h = edges[1] - edges[0]
    return c[::-1].T * h ** np.arange(4)


def mean_over_ball(D):
    """3 / D^3 times the integral of phi(x, x) x^2 from 0 to D: mean over a ball of radius D / q, q constant in it."""
    t, c = table(), jnp.asarray(_mean_spline())
    u = jnp.log(D)
    i, x = _interval((jnp.clip(u, t.low, t.high) - t.low) * (CELLS_D / (t.high - t.low)), CELLS_D)
    value = c[i, 0] + x * (c[i, 1] + x * (c[i, 2] + x * c[i, 3]))
    return value / (10 + D * D) ** 1.5 + SLOPE_AT_ZERO * jnp.minimum(u - t.low, 0.0)


DENSITY_THRESHOLD = 1e-8
"""Density [bohr^-3] below which a point is left out: its energy, and its part in the energy of others."""


def _pair(R2, q, q_there):
    """phi(q R, q' R); zero for coinciding points."""
    apart = R2 > 0
    R = jnp.sqrt(jnp.where(apart, R2, jnp.ones_like(R2)))
    return jnp.where(apart, kernel(q * R, q_there * R), jnp.zeros_like(R2))


def _cell(q, volume):
    """Integral of phi over the cell of a point; zero where there are no cells. A negative weight keeps its sign."""
    nonzero = jnp.where(volume != 0, jnp.abs(volume), jnp.ones_like(volume))
    radius = jnp.cbrt(3 / (4 * math.pi) * nonzero)
    return volume * mean_over_ball(q * radius)


def nonlocal_energy(n, Z_ab):
    r"""1/2 n(r) \int n(r') phi(q_0(r) R, q_0(r') R) dr',   R = |r - r'|                            (eqs. 1, 14)

    q_0 = -4 pi / 3 eps_xc^LDA - Z_ab / 9 s^2 k_F,   eps_x^LDA = -3 k_F / (4 pi)                        (eqs. 11, 12)
    """
    dense_n, safe_n = dense_part(n, DENSITY_THRESHOLD)
    k_F = fermi_wavevector(safe_n)
    s2 = gradient_squared(n) / (4 * k_F * k_F * safe_n * safe_n)
    eps_c = fits(PRINTED)[0](wigner_seitz_radius(safe_n))
    q = k_F * (1 - Z_ab / 9 * s2) - 4 * math.pi / 3 * eps_c
    phi = compose(_pair, squared_distance(n), here(q), there(q))
    own_cell = dense_n * compose(_cell, q, cell_volume(*n.domains))
    return 0.5 * dense_n * (integral_over_there(there(dense_n) * phi) + own_cell)


@functional("vdw_df_nl", doi="10.1103/PhysRevLett.92.246401", kind="correlation")
@guarded
def vdw_df_nonlocal(n, *, Z_ab=-0.8491):
    """Nonlocal correlation of vdW-DF, energy per volume [hartree / bohr^3], eqs. 1 and 11 to 14; Z_ab in eq. 12."""
    return nonlocal_energy(n, Z_ab)


@functional("vdw_df2_nl", doi="10.1103/PhysRevB.82.081101", kind="correlation")
@guarded
def vdw_df2_nonlocal(n, *, Z_ab=-1.887):
    """Nonlocal correlation of vdW-DF2, energy per volume [hartree / bohr^3]: vdW-DF's with another Z_ab."""
    return nonlocal_energy(n, Z_ab)


_VDW_DF, _VDW_DF2 = "10.1103/PhysRevLett.92.246401", "10.1103/PhysRevB.82.081101"
vdw_df = register(pbe.revpbe_exchange + correlation + vdw_df_nonlocal, "vdw_df", doi=_VDW_DF)
vdw_df2 = register(p86.rpw86_exchange + correlation + vdw_df2_nonlocal, "vdw_df2", doi=_VDW_DF2)
