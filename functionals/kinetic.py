"""Kinetic energy functionals: Thomas-Fermi, von Weizsaecker, their sum, and that of Perdew and Constantin.

SCAN-L and r2SCAN-L are SCAN and r2SCAN of density, gradient and Laplacian, with the last one's tau.

L. H. Thomas, Proc. Camb. Phil. Soc. 23, 542 (1927). doi:10.1017/S0305004100011683
C. F. von Weizsaecker, Z. Phys. 96, 431 (1935). doi:10.1007/BF01337700
J. P. Perdew, L. A. Constantin, Phys. Rev. B 75, 155109 (2007). doi:10.1103/PhysRevB.75.155109
D. Mejia-Rodriguez, S. B. Trickey, Phys. Rev. A 96, 052512 (2017). doi:10.1103/PhysRevA.96.052512
D. Mejia-Rodriguez, S. B. Trickey, Phys. Rev. B 102, 121109 (2020). doi:10.1103/PhysRevB.102.121109
"""

import inspect
import math

import jax.numpy as jnp

from dftfd.autofd import compose, laplacian, sqrt
from dftfd.functionals import scan
from dftfd.functionals.common import (
    FERMI,
    each_spin,
    reduced_gradient_squared,
    spin_pair,
    spin_scaled,
    uniform_kinetic_energy,
    weizsaecker_kinetic_energy,
)
from dftfd.functionals.registry import functional, register, variant


@functional("lda_k_tf", doi="10.1017/S0305004100011683")
@spin_scaled
def thomas_fermi(n):
    """tau_unif = 3/10 (3 pi^2)^(2/3) n^(5/3)."""
    return uniform_kinetic_energy(n)


@functional("gga_k_vw", doi="10.1007/BF01337700")
@spin_scaled
def weizsaecker(n):
    """tau_W = |nabla n|^2 / (8 n), exact for one orbital."""
    return weizsaecker_kinetic_energy(n)


@functional("gga_k_tfvw", doi="10.1007/BF01337700")
@spin_scaled
def tf_lambda_vw(n, *, lam=1.0):
    """tau_unif + lambda tau_W; lambda = 1/9 in the gradient expansion, 1/5 for atoms."""
    return uniform_kinetic_energy(n) + lam * weizsaecker_kinetic_energy(n)


def reduced_laplacian(n):
    """q = nabla^2 n / (4 (3 pi^2)^(2/3) n^(5/3))."""
    return FERMI ** (-2 / 3) / 4 * laplacian(n) * n ** (-5 / 3)


_LOWEST = 1e-200
"""Value of the interpolation below which it is set to zero."""


def _interpolation(z, a, b):
    """f(z) = [(1 + e^v) / (e^u + e^v)]^b with u = a/z, v = a/(a - z), from 0 at z = 0 to 1 at z = a (eq. 18)."""
    start, end = -a * b / math.log(_LOWEST), a * (1 - 1 / 600)
    inside = jnp.clip(z, start, end)
    u, v = a / inside, a / (a - inside)
    f = jnp.exp(b * (jnp.logaddexp(jnp.zeros_like(v), v) - jnp.logaddexp(u, v)))
    return jnp.where(z < start, jnp.zeros_like(z), jnp.where(z < end, f, jnp.ones_like(z)))


@functional("mgga_k_pc07", doi="10.1103/PhysRevB.75.155109")
@spin_scaled
def pc07(n, *, a=0.5389, b=3.0):
    r"""tau_unif F_s,   F_s = F_W + z f(z),   z = F_MGE4 - F_W,   F_W = 5/3 s^2                    (eqs. 13 to 19)

    F_MGE4 = F_GE4 / (1 + (Delta / (1 + F_W))^2)^(1/2),
    F_GE4 = 1 + 5/27 s^2 + 20/9 q + Delta,   Delta = 8/81 q^2 - 1/9 s^2 q + 8/243 s^4
    """
    p, q = reduced_gradient_squared(n), reduced_laplacian(n)
    F_W = 5 / 3 * p
    delta = 8 / 81 * q * q - 1 / 9 * p * q + 8 / 243 * p * p
    ratio = delta / (1 + F_W)
    z = (1 + 5 / 27 * p + 20 / 9 * q + delta) / sqrt(1 + ratio * ratio) - F_W
    above = uniform_kinetic_energy(n) * z * compose(lambda z: _interpolation(z, a, b), z)
    return weizsaecker_kinetic_energy(n) + above


pc07_opt = variant(pc07, "mgga_k_pc07_opt", doi="10.1103/PhysRevA.96.052512", a=1.784720, b=0.258304)


def tau_pc_opt(rho):
    """The spin-resolved tau of PC07opt: a stand-in for the orbitals' one, of density, gradient and Laplacian."""
    ((_, term),) = pc07_opt.terms
    unpolarised = inspect.unwrap(term.formula)
    tau = lambda n_s: 0.5 * unpolarised(2.0 * n_s, **term.parameters)
    return spin_pair(*each_spin(tau, rho))


def _deorbitalised(parent, name, doi):
    @functional(name, doi=doi)
    def energy(rho):
        """Energy per volume of the parent functional with the tau of PC07opt."""
        return parent.energy_density(rho, tau=tau_pc_opt(rho))

    return energy


_SCANL, _R2SCANL = "10.1103/PhysRevA.96.052512", "10.1103/PhysRevB.102.121109"

scanl_exchange = _deorbitalised(scan.scan_exchange, "mgga_x_scanl", _SCANL)
scanl_correlation = _deorbitalised(scan.scan_correlation, "mgga_c_scanl", _SCANL)
scanl = register((scanl_exchange + scanl_correlation).named("scanl"))

r2scanl_exchange = _deorbitalised(scan.r2scan_exchange, "mgga_x_r2scanl", _R2SCANL)
r2scanl_correlation = _deorbitalised(scan.r2scan_correlation, "mgga_c_r2scanl", _R2SCANL)
r2scanl = register((r2scanl_exchange + r2scanl_correlation).named("r2scanl"))
