"""Costs of the operator calculus: eager calls, deep nests, gradients of nests, nested derivatives.

Times are medians of five, in milliseconds unless noted; "first" includes tracing and compilation.

    python examples/benchmarks/autofd_core.py
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import dftfd  # noqa: F401  float64
from dftfd import autofd

nodes, weights = np.polynomial.legendre.leggauss(40)
X = autofd.Domain((), points=(nodes + 1) / 2, weights=weights / 2, name="x")


def milliseconds(action):
    began = time.perf_counter()
    jax.block_until_ready(action())
    return 1e3 * (time.perf_counter() - began)


def row(name, action, repeats=5):
    first = milliseconds(action)
    later = statistics.median(milliseconds(action) for _ in range(repeats))
    print(f"{name:<52}{first:>12.1f}{later:>12.3f}")


def nest(q, depth):
    """h = sin(h) + cos(h) / 2, `depth` times."""
    f, g = autofd.function(jnp.sin, X), autofd.function(lambda x: 0.5 * jnp.cos(x), X)
    for _ in range(depth):
        q = autofd.compose(f, q) + autofd.compose(g, q)
    return q


def main():
    jax.config.update("jax_enable_compilation_cache", False)  # compilations of earlier runs are kept on disk
    f = autofd.function(lambda x: jnp.sin(3 * x) + 1.5, X)
    d = autofd.function(lambda x: jnp.exp(-x), X)
    E = lambda f: autofd.integrate(autofd.exp(f) * f) * autofd.integrate(f * f)
    print(f"JAX {jax.__version__}\n{'':<52}{'first':>12}{'later':>12}")
    composed = autofd.exp(f) * autofd.nabla(f)
    row("call of exp(f) nabla f at a point", lambda: composed(0.3), 100)
    gradient = autofd.grad(E)(f)
    row("call of a functional gradient at a point", lambda: gradient(0.3), 100)
    row("grad(E)(f) and its value, all anew", lambda: autofd.grad(E)(f)(0.3))
    row("jax.grad(E)(f) and its value, all anew", lambda: jax.grad(E)(f)(0.3))
    row("hvp(E, f, d) and its value, all anew", lambda: autofd.hvp(E, f, d)(0.3))
    q = autofd.function(lambda x: x * x, X)
    for depth in (10, 20, 30):
        row(f"nest of depth {depth}: build and evaluate", lambda n=depth: nest(q, n)(0.3))
        row(
            f"nest of depth {depth}: functional gradient at a point",
            lambda n=depth: autofd.grad(lambda q: autofd.integrate(nest(q, n)))(q)(0.3),
        )


if __name__ == "__main__":
    main()
