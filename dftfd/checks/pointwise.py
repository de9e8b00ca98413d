"""Energy density and its derivatives in libxc's variables, ours against libxc's, point by point."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.kernel import XCKernel

_K_F2 = (3 * math.pi**2) ** (2 / 3)
_UNITS = {"rho": (1.0, 1), "sigma": (4 * _K_F2, 8 / 3), "lapl": (4 * _K_F2, 5 / 3), "tau": (0.3 * _K_F2, 5 / 3)}
"""Natural unit c n^p of each variable, as pairs (c, p): n, (2 k_F n)^2, (2 k_F)^2 n, tau of the uniform gas."""


def lowered_derivatives(functional: Functional, n_spin: int, order: int = 2):
    """Code of x (variable, point), libxc's variables: (energy, first, second) of the lowered functional,
    up to derivatives of `order`.

    The kernel takes gradient vectors; a pair of vectors with the given sigma is built, and JAX differentiates through
    that. The Laplacian is spread evenly over the diagonal of the Hessian.
    """
    kernel = XCKernel(functional, n_spin)
    energy = lambda x: kernel.energy_density(_channels(x, n_spin, kernel), jnp.zeros(3))

    @jax.jit
    def derivatives(x):
        codes = (energy, jax.grad(energy), jax.hessian(energy))[: order + 1]
        return tuple(jax.vmap(code, in_axes=-1, out_axes=-1)(x) for code in codes)

    return derivatives


def _channels(x, n_spin, kernel):
    """Density channels (spin, channel) of the kernel at one point from libxc's variables (variable,)."""
    if n_spin == 1:
        rho, sigma, lapl, tau = (x[i : i + 1] for i in range(4))
        gradients = _along_x(jnp.sqrt(sigma))
    else:
        rho, sigma, lapl, tau = x[:2], x[2:5], x[5:7], x[7:9]
        gradients = _vectors(sigma)
    channels = [rho[:, None]]
    if kernel.order >= 1:
        channels.append(gradients)
    if kernel.order >= 2:
        channels.append(lapl[:, None] * np.array([[1.0, 0, 0, 1.0, 0, 1.0]]) / 3)
    if kernel.needs_tau:
        channels.append(tau[:, None])
    return jnp.concatenate(channels, axis=1)


def _along_x(length):
    return jnp.stack([length, jnp.zeros_like(length), jnp.zeros_like(length)], axis=1)


def _vectors(sigma):
    """Two vectors (2, 3) with products sigma (aa, ab, bb); the longer one along x, which keeps rounding small."""
    aa, ab, bb = sigma
    swap = bb > aa
    long, short = jnp.where(swap, bb, aa), jnp.where(swap, aa, bb)
    first = jnp.stack([jnp.sqrt(long), jnp.zeros_like(ab), jnp.zeros_like(ab)])
    second = jnp.stack([ab / jnp.sqrt(long), jnp.sqrt(short - ab * ab / long), jnp.zeros_like(ab)])
    return jnp.where(swap, jnp.stack([second, first]), jnp.stack([first, second]))


def compare(ours, reference: libxc.Derivatives, x: np.ndarray, n_spin: int) -> dict[str, np.ndarray]:
    """Errors (point,) by quantity, largest over the components that belong to it; see `scaled_error`.

    ours: (energy, first, second). Quantities that vanish on both sides are left out.
    """
    energy, first, second = (np.asarray(a) for a in ours)
    families = [name.split("_")[0] for name in libxc.VARIABLES[n_spin]]
    n = x[0] if n_spin == 1 else x[0] + x[1]
    errors = {"e": scaled_error(energy, reference.energy, n, ())}
    for a in _UNITS:
        rows = [i for i, family in enumerate(families) if family == a]
        _enter(errors, f"de/d{a}", first[rows], reference.first[rows], n, (a,))
    if reference.second is not None:
        for a, b in itertools.combinations_with_replacement(_UNITS, 2):
            block = np.ix_(*([i for i, family in enumerate(families) if family == c] for c in (a, b)))
            _enter(errors, f"d2e/d{a}d{b}", second[block], reference.second[block], n, (a, b))
    return errors


def _enter(errors, quantity, ours, reference, n, variables):
    if np.any(ours) or np.any(reference):
        error = scaled_error(ours, reference, n, variables)
        errors[quantity] = error.reshape(-1, n.size).max(axis=0)


def scaled_error(ours, reference, n, variables):
    r"""|ours - reference| / (|reference| + natural size), dimensionless.

    The natural size of a derivative is n^(4/3), an energy per volume, divided by the natural units of its variables.
    So large components are compared relatively, and those that vanish by symmetry or nearly so are not blown up.
    """
    size = n ** (4 / 3)
    for coefficient, power in (_UNITS[v] for v in variables):
        size = size / (coefficient * n**power)
    return np.abs(ours - reference) / (np.abs(reference) + size)
