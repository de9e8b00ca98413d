r"""Nonlocal correlation of the van der Waals density functionals vdW-DF and vdW-DF2, and the functionals themselves.

M. Dion, H. Rydberg, E. Schroeder, D. C. Langreth, B. I. Lundqvist, Phys. Rev. Lett. 92, 246401 (2004), erratum 95,
109902 (2005). doi:10.1103/PhysRevLett.92.246401
K. Lee, E. D. Murray, L. Kong, B. I. Lundqvist, D. C. Langreth, Phys. Rev. B 82, 081101(R) (2010).
doi:10.1103/PhysRevB.82.081101

Both depend on the total density alone, also for open shells. q_0 is not saturated, as implementations by Fourier
transforms do. Points with a density below DENSITY_THRESHOLD are left out. The kernel diverges like a logarithm at
r = r': coinciding points of a grid count with the mean of the kernel over a ball of the volume of the point's cell.
"""

import math

import jax.numpy as jnp

from dftfd.autofd import compose
from dftfd.autofd.lowering.jets import cell_volume
from dftfd.functionals import pbe, pw86, vdw_kernel
from dftfd.functionals.common import fermi_wavevector, gradient_squared, wigner_seitz_radius
from dftfd.functionals.pairs import dense_part, guarded, here, integral_over_there, squared_distance, there
from dftfd.functionals.pw92 import PRINTED, correlation, fits
from dftfd.functionals.registry import functional, register

DENSITY_THRESHOLD = 1e-8
"""Density [bohr^-3] below which a point is left out: its energy, and its part in the energy of others."""


def _pair(R2, q, q_there):
    """phi(q R, q' R); zero for coinciding points."""
    apart = R2 > 0
    R = jnp.sqrt(jnp.where(apart, R2, jnp.ones_like(R2)))
    return jnp.where(apart, vdw_kernel.kernel(q * R, q_there * R), jnp.zeros_like(R2))


def _cell(q, volume):
    """Integral of phi over the cell of a point; zero where there are no cells. A negative weight keeps its sign."""
    nonzero = jnp.where(volume != 0, jnp.abs(volume), jnp.ones_like(volume))
    radius = jnp.cbrt(3 / (4 * math.pi) * nonzero)
    return volume * vdw_kernel.mean_over_ball(q * radius)


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
vdw_df2 = register(pw86.rpw86_exchange + correlation + vdw_df2_nonlocal, "vdw_df2", doi=_VDW_DF2)
