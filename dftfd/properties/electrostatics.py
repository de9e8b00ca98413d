r"""The electrostatic potential of a Gaussian density at any point, exact and differentiable.

Products of two primitive Gaussians are expanded in Hermite Gaussians, whose potentials are derivatives of the Boys
function F_0 (L. E. McMurchie, E. R. Davidson, J. Comput. Phys. 26, 218 (1978). doi:10.1016/0021-9991(78)90092-X):

    rho(r) = sum_k sum_tuv c_ktuv (d/dP_k)^tuv exp(-p_k |r - P_k|^2)
    integral rho(r') / |r - r'| dr' = sum_k 2 pi / p_k sum_tuv c_ktuv R_tuv(p_k, P_k - r)

The expansion is made once, with NumPy; the sum is JAX code of the point r.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from dftfd.xc.ao_values import ao_tables, monomial_powers

NEGLIGIBLE = 1e-16
"""Pairs of primitives whose expansion coefficients are all below this [e] are left out."""

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
    `components(degree)`.
    """

    degree: int
    centres: jax.Array
    exponents: jax.Array
    coefficients: jax.Array


def of_degree(degree: int) -> list[tuple[int, ...]]:
    """(t, u, v) with t + u + v = degree."""
    return [(t, u, degree - t - u) for t in range(degree + 1) for u in range(degree + 1 - t)]


def components(degree: int) -> list[tuple[int, ...]]:
    """(t, u, v) with t + u + v <= degree, by their sum."""
    return [tuv for d in range(degree + 1) for tuv in of_degree(d)]


def hermite_density(molecule, P_total) -> tuple[HermiteGaussians, ...]:
    """The electron density of a density matrix (ao, ao), one entry for each degree."""
    tables = ao_tables(molecule)
    order = np.argsort(tables.positions)  # AOs as the tables list them
    P = np.asarray(P_total)[np.ix_(order, order)]
    sizes = [table.centres.shape[0] * table.angular.shape[1] for table in tables.shells]
    starts = np.cumsum([0, *sizes])
    found: dict[int, list] = {}
    for a, b in product(range(len(sizes)), repeat=2):
        if a <= b:
            block = P[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] * (1.0 if a == b else 2.0)
            degree = tables.angular_momenta[a] + tables.angular_momenta[b]
            found.setdefault(degree, []).append(_pairs(tables, a, b, block))
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
    for tuv in of_degree(degree):
        axis = next(i for i in range(3) if tuv[i] > 0)
        once, twice = (tuple(x - k * (i == axis) for i, x in enumerate(tuv)) for k in (1, 2))
        axes.append(axis)
        less.append(of_degree(degree - 1).index(once))
        factors.append(float(once[axis]))
        least.append(of_degree(degree - 2).index(twice) if once[axis] else 0)
    return np.array(axes), np.array(less), np.array(least), np.array(factors)


def _pairs(tables, a, b, P):
    """(centres, exponents, coefficients) of all products of primitives of two shell tables; P: their density block."""
    left, right = (jax.tree_util.tree_map(np.asarray, tables.shells[k]) for k in (a, b))
    l, m = tables.angular_momenta[a], tables.angular_momenta[b]
    n, k = len(left.centres), len(right.centres)
    P = P.reshape(n, left.angular.shape[1], k, right.angular.shape[1])
    D = np.einsum("xi,aibj,yj->abxy", left.angular, P, right.angular, optimize=True)
    # every contraction with its primitives: indices (shell, primitive) on both sides
    i, p, j, q = (index.ravel() for index in np.indices((n, left.exponents.shape[1], k, right.exponents.shape[1])))
    alpha, beta = left.exponents[i, p], right.exponents[j, q]
    c = left.coefficients[i, p] * right.coefficients[j, q]
    used = (alpha > 0) & (beta > 0)  # tables are padded with zeros
    i, j, alpha, beta, c = (x[used] for x in (i, j, alpha, beta, c))
    A, B = left.centres[i], right.centres[j]
    exponent = alpha + beta
    centre = (alpha[:, None] * A + beta[:, None] * B) / exponent[:, None]
    c = c * np.exp(-alpha * beta / exponent * np.sum((A - B) ** 2, axis=1))
    E = [_expansion(l, m, exponent, centre[:, x] - A[:, x], centre[:, x] - B[:, x]) for x in range(3)]
    index = {tuv: position for position, tuv in enumerate(components(l + m))}
    coefficients = np.zeros((len(c), len(index)))
    for (s, first), (t, second) in product(enumerate(monomial_powers(l)), enumerate(monomial_powers(m))):
        weight = c * D[i, j, s, t]
        for tuv in product(*(range(f + g + 1) for f, g in zip(first, second, strict=True))):
            factors = [E[x][first[x], second[x], tuv[x]] for x in range(3)]
            coefficients[:, index[tuv]] += weight * factors[0] * factors[1] * factors[2]
    kept = np.abs(coefficients).max(axis=1, initial=0.0) > NEGLIGIBLE
    return centre[kept], exponent[kept], coefficients[kept]


def _expansion(l, m, p, PA, PB):
    """E[i, j, t] (pair,): x_A^i x_B^j exp(-p x_P^2) = sum_t E_t^ij (d/dP)^t exp(-p x_P^2)."""
    E = {(0, 0, 0): np.ones_like(p)}

    def raised(i, j, t, shift):
        """E^{i+1,j}_t or E^{i,j+1}_t from E^{ij}."""
        below = E.get((i, j, t - 1), 0.0) / (2.0 * p)
        return below + shift * E.get((i, j, t), 0.0) + (t + 1) * E.get((i, j, t + 1), 0.0)

    for i in range(l):
        for t in range(i + 2):
            E[i + 1, 0, t] = raised(i, 0, t, PA)
    for i in range(l + 1):
        for j in range(m):
            for t in range(i + j + 2):
                E[i, j + 1, t] = raised(i, j, t, PB)
    return E
