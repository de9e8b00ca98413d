r"""The electrostatic potential of a Gaussian density at any point, exact and differentiable.

Products of two primitive Gaussians are expanded in Hermite Gaussians, whose potentials are derivatives of the Boys
function F_0 (L. E. McMurchie, E. R. Davidson, J. Comput. Phys. 26, 218 (1978). doi:10.1016/0021-9991(78)90092-X):

    rho(r) = sum_k sum_tuv c_ktuv (d/dP_k)^tuv exp(-p_k |r - P_k|^2)
    integral rho(r') / |r - r'| dr' = sum_k 2 pi / p_k sum_tuv c_ktuv R_tuv(p_k, P_k - r)

The expansion is made once, with NumPy; the sum is JAX code of the point r.

The potential and the density are Functions, which compose with operators of dftfd.autofd, as in laplacian(V).
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from dftfd.autofd import Function, function
from dftfd.functionals.common import gradient_squared, per_spin, uniform_kinetic_energy
from dftfd.functionals.densities import SPACE
from dftfd.functionals.numerics import where_dense
from dftfd.libcint.gto import gaussian_basis, monomial_powers
from dftfd.libcint.hermite_gaussians import pairs_of

NEGLIGIBLE = 1e-16
"""Pairs of primitives whose expansion coefficients are all below this [e] are left out."""

_PAIRS = 2**14  # expanded at a time

FAR = 30.0
SERIES_TERMS = 95  # at x = FAR the first one left out is 1e-17 of the sum


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def boys(n_max: int, x):
    """Boys functions F_n(x) = integral_0^1 t^(2n) exp(-x t^2) dt, n = 0 ... n_max, at x >= 0 of any shape; (n, ...).

    dF_n/dx = -F_(n+1), to any order. Both directions of (2n + 1) F_n = 2 x F_(n+1) + exp(-x): for large x upwards from
    F_0 = sqrt(pi / x) erf(sqrt x) / 2, else downwards from F_n = exp(-x) sum_i (2x)^i / ((2n + 1) ... (2n + 2i + 1)).
    """
    decay, near, far = jnp.exp(-x), jnp.minimum(x, FAR), jnp.maximum(x, FAR)
    add = lambda i, s: 1.0 + s * 2.0 * near / (2 * n_max + 1 + 2 * (SERIES_TERMS - i))
    down = [jnp.exp(-near) / (2 * n_max + 1) * jax.lax.fori_loop(0, SERIES_TERMS, add, jnp.ones_like(x))]
    up = [0.5 * jnp.sqrt(jnp.pi / far) * erf(jnp.sqrt(far))]
    for n in range(n_max):
        down.insert(0, (2.0 * x * down[0] + decay) / (2 * (n_max - n) - 1))
        up.append(((2 * n + 1) * up[-1] - decay) / (2.0 * far))
    return jnp.where(x < FAR, jnp.stack(down), jnp.stack(up))


@boys.defjvp
def _boys_jvp(n_max, primals, tangents):
    higher = boys(n_max + 1, *primals)
    return higher[:-1], -higher[1:] * tangents[0][None]


@partial(jax.tree_util.register_dataclass, meta_fields=["degree"], data_fields=["centres", "exponents", "coefficients"])
@dataclass(frozen=True)
class HermiteGaussians:
    """Hermite Gaussians up to one degree t + u + v.

    centres: (pair, 3) [bohr].   exponents: (pair,) [bohr^-2].   coefficients: (pair, component), in the order of
    `orders_up_to`.
    """

    degree: int
    centres: jax.Array
    exponents: jax.Array
    coefficients: jax.Array


def hermite_density(molecule, P_total) -> tuple[HermiteGaussians, ...]:
    """The electron density of a density matrix (ao, ao), one entry for each degree."""
    P, found = np.asarray(P_total), dict[int, list]()
    for pairs in pairs_of(gaussian_basis(molecule), NEGLIGIBLE, _PAIRS):
        coefficients = pairs.density(P)
        kept = np.abs(coefficients).max(axis=0) > NEGLIGIBLE
        values = pairs.centres.T, pairs.exponents, coefficients.T
        found.setdefault(pairs.L, []).append([value[kept] for value in values])
    return tuple(
        HermiteGaussians(degree, *(jnp.asarray(np.concatenate(parts)) for parts in zip(*pieces, strict=True)))
        for degree, pieces in sorted(found.items())
    )


def electron_potential(density: tuple[HermiteGaussians, ...], r):
    """integral rho(r') / |r - r'| dr' [hartree] at r (3,)."""
    return sum(_potential(gaussians, r) for gaussians in density)


def _potential(gaussians: HermiteGaussians, r):
    p, degree = gaussians.exponents, gaussians.degree
    X = (gaussians.centres - r[None, :]).T
    F = boys(degree, p * jnp.sum(X**2, axis=0))
    powers = jnp.stack([(-2.0 * p) ** n for n in range(degree + 1)])
    R = [(powers * F)[:, None]]  # for each t + u + v: (n, component, pair)
    for d in range(1, degree + 1):
        axis, less, least, factor = _recursion(d)
        R.append(X[None, axis] * R[d - 1][1:, less])
        if d > 1:
            R[d] += factor[None, :, None] * R[d - 2][1:-1, least]
    values = jnp.concatenate([R_d[0] for R_d in R])
    return jnp.sum(2.0 * jnp.pi / p * jnp.sum(gaussians.coefficients.T * values, axis=0))


def _recursion(degree):
    """Where R^n_tuv of this degree comes from: R^n_(t+1)uv = X R^(n+1)_tuv + t R^(n+1)_(t-1)uv, indices and factors."""
    axes, less, least, factors = [], [], [], []
    of_degree, of_one_less, of_two_less = (monomial_powers(d).tolist() for d in (degree, degree - 1, degree - 2))
    for tuv in of_degree:
        axis = next(i for i in range(3) if tuv[i] > 0)
        once, twice = ([x - k * (i == axis) for i, x in enumerate(tuv)] for k in (1, 2))
        axes.append(axis)
        less.append(of_one_less.index(once))
        factors.append(float(once[axis]))
        least.append(of_two_less.index(twice) if once[axis] else 0)
    return np.array(axes), np.array(less), np.array(least), np.array(factors)


def electrostatic_potential(molecule, P) -> Function:
    """Potential that a unit positive charge sees [hartree / e], R^3 -> R; infinite at the nuclei.

    V(r) = sum_A Z_A / |r - R_A| - integral n(r') / |r - r'| dr'

    P: (spin, ao, ao). Z_A is the charge that the electrons see.
    """
    real = molecule.nuclear_charges != 0
    charges, positions = molecule.nuclear_charges[real], molecule.coordinates[real]
    density = hermite_density(molecule, sum(P))
    return function(_potential_at, SPACE, params=(jnp.asarray(charges), jnp.asarray(positions), density))


def _potential_at(charges, positions, density, r):
    distances = jnp.sqrt(jnp.sum((r[None, :] - positions) ** 2, axis=1))
    return jnp.sum(charges / distances) - electron_potential(density, r)


def localisation_function(rho: Function, tau: Function) -> Function:
    """Electron localisation function ELF, R^3 -> R, between 0 and 1; 1/2 in a uniform gas, 1 for one electron pair.

    ELF = 1 / (1 + (D / D_h)^2),   D = sum_s (tau_s - |nabla rho_s|^2 / (8 rho_s)),   D_h = the same of a uniform gas

    rho, tau: spin-resolved, R^3 -> R^2. A. D. Becke, K. E. Edgecombe, J. Chem. Phys. 92, 5397 (1990).
    doi:10.1063/1.458517, in the spin-polarised form of M. Kohout, A. Savin, Int. J. Quantum Chem. 60, 875 (1996).
    doi:10.1002/(SICI)1097-461X(1996)60:4<875::AID-QUA10>3.0.CO;2-4
    """

    def ratio_of(rho):
        D = per_spin(lambda n, tau_s: tau_s - gradient_squared(n) / (8.0 * n), rho, tau)
        D_h = per_spin(lambda n: 0.5 * uniform_kinetic_energy(2.0 * n), rho)
        return D_h**2 / (D_h**2 + D**2)

    return where_dense(ratio_of, rho)
