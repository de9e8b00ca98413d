"""Energy density and its derivatives in libxc's variables, ours against libxc's, point by point."""

import itertools
import math

import jax.numpy as jnp
import numpy as np

from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.pointwise import pointwise_kernel

_K_F2 = (3 * math.pi**2) ** (2 / 3)
_UNITS = {"rho": (1.0, 1), "sigma": (4 * _K_F2, 8 / 3), "lapl": (4 * _K_F2, 5 / 3), "tau": (0.3 * _K_F2, 5 / 3)}
"""Natural unit c n^p of each variable, as pairs (c, p): n, (2 k_F n)^2, (2 k_F)^2 n, tau of the uniform gas."""

_SHARED_ROUNDING = 1e-13
"""Rounding of the largest component of an array enters the others: mixed derivatives of exchange with respect to both
spins, exactly zero here, are of this size in libxc. At strong polarisation that is far above their natural size."""


def lowered_derivatives(functional: Functional, n_spin: int, order: int = 2):
    """Code of x (variable, point), libxc's variables: (energy, first, second, ...) of the functional, up to `order`.

    first: (variable, point), second: (variable, variable, point), third: by ascending triples of variables.
    """
    kernel = pointwise_kernel(functional, n_spin)
    count = len(libxc.VARIABLES[n_spin])

    def derivatives(x):
        by_order = kernel(np.asarray(x), order)
        energy, first = by_order[0][0], np.zeros((count, x.shape[1]))
        first[[c[0] for c in kernel.combinations(1)]] = by_order[1]
        if order == 1:
            return energy, first
        second = np.zeros((count, count, x.shape[1]))
        for (i, j), row in zip(kernel.combinations(2), by_order[2], strict=True):
            second[i, j] = second[j, i] = row
        if order == 2:
            return energy, first, second
        return energy, first, second, dict(zip(kernel.combinations(3), by_order[3], strict=True))

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

    ours: (energy, first, second) or, where the reference has third derivatives, (energy, first, second, third).
    Quantities that vanish on both sides are left out.
    """
    energy, first, second = (np.asarray(a) for a in ours[:3])
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
    if reference.third is not None and len(ours) > 3:
        for group in itertools.combinations_with_replacement(_UNITS, 3):
            triples = [t for t in {**ours[3], **reference.third} if tuple(families[i] for i in t) == group]
            rows = [
                np.stack([d.get(t, np.zeros(n.size)) for t in triples] or [np.zeros(n.size)])
                for d in (ours[3], reference.third)
            ]
            _enter(errors, "d3e/d" + "d".join(group), *rows, n, group)
    return errors


def _enter(errors, quantity, ours, reference, n, variables):
    if np.any(ours) or np.any(reference):
        ours, reference = (np.reshape(a, (-1, n.size)) for a in (ours, reference))
        error = scaled_error(ours, reference, n, variables)
        noise = _SHARED_ROUNDING * np.max(np.abs(reference), axis=0)
        error[np.abs(ours - reference) <= noise] = 0.0
        errors[quantity] = error.max(axis=0)


def scaled_error(ours, reference, n, variables):
    r"""|ours - reference| / (|reference| + natural size), dimensionless.

    The natural size of a derivative is n^(4/3), an energy per volume, divided by the natural units of its variables.
    So large components are compared relatively, and those that vanish by symmetry or nearly so are not blown up.
    """
    size = n ** (4 / 3)
    for coefficient, power in (_UNITS[v] for v in variables):
        size = size / (coefficient * n**power)
    return np.abs(ours - reference) / (np.abs(reference) + size)
