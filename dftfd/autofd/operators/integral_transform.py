"""k @ f: the integral transform (k @ f)(x, z) = int k(x, y) f(y, z) dy, a product of infinite matrices.

A case of broadcast, compose and integrate, which have the rules: the transpose of f -> k @ f is ct -> k^T @ ct.
"""

import jax.numpy as jnp

from dftfd.autofd.core.domain import same_domain
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.operator_table import op
from dftfd.errors import SignatureError


@op.register
def integral_transform(k: Function, f: Function):
    """Integral over the last argument of k and the first of f of their product; values are multiplied as by `@`."""
    if not isinstance(f, Function):
        raise SignatureError(f"{k!r} @ {type(f).__name__}: a Function expected on the right.")
    if not k.domains or not f.domains or not same_domain(k.domains[-1], f.domains[0]):
        raise SignatureError(f"@: the last argument of {k!r} is not the first of {f!r}.")
    middle, total = len(k.domains) - 1, len(k.domains) + len(f.domains) - 1
    domains = k.domains + f.domains[1:]
    product = op.compose(
        _multiply,
        op.broadcast(k, domains, tuple(range(middle + 1))),
        op.broadcast(f, domains, tuple(range(middle, total))),
    )
    result = op.integrate_over(product, (middle,))
    return result if result.domains else result()


def _multiply(a, b):
    return jnp.multiply(a, b) if a.ndim == 0 or b.ndim == 0 else jnp.matmul(a, b)
