r"""The Boys function F_n(x) = integral_0^1 t^(2n) exp(-x t^2) dt, for x >= 0, differentiable to any order."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import erf

FAR = 30.0
SERIES_TERMS = 95  # at x = FAR the first one left out is 1e-17 of the sum


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def boys(n_max: int, x):
    """F_0 ... F_n_max at x, an array of any shape; (n_max + 1, ...). dF_n/dx = -F_(n+1).

    Both directions of (2n + 1) F_n = 2 x F_(n+1) + exp(-x): upwards from F_0 = sqrt(pi / x) erf(sqrt x) / 2 for large
    x, else downwards from F_n = exp(-x) sum_i (2x)^i / ((2n + 1) (2n + 3) ... (2n + 2i + 1)).
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
