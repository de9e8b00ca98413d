"""Is a function linear, or affine, in some of its arguments? Tried on random vectors, since code can't be read."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.function import Function, assemble, parts
from dftfd.autofd.structure import is_tracer

_TOLERANCE = 1e-8


def is_linear(f: Function, argnums: tuple[int, ...]) -> bool:
    """True if f(a u + b v) = a f(u) + b f(v) in the arguments `argnums` together, for random u, v and the others.

    Arrays that stand for values inside a JAX transformation are replaced by random ones.
    """
    return _is_linear(f, argnums, with_constant=False)


def is_affine(f: Function, argnums: tuple[int, ...]) -> bool:
    """True if f - f(0) is linear in the arguments `argnums` together."""
    return _is_linear(f, argnums, with_constant=True)


def _is_linear(f, argnums, with_constant):
    from dftfd.autofd.graph import without_variables

    rng = np.random.default_rng(20240507)
    with jax.ensure_compile_time_eval():
        leaves, structure = parts(without_variables(f))
        probe = assemble(structure, [_random(rng, x) if is_tracer(x) else x for x in leaves])
        others = [tree_map(lambda s: _random(rng, s), d.spec) for d in f.domains]
        u, v = ([tree_map(lambda s: _random(rng, s), f.domains[i].spec) for i in argnums] for _ in range(2))
        a, b = rng.uniform(-2, 2, 2)

        def value(direction):
            args = list(others)
            for i, x in zip(argnums, direction, strict=True):
                args[i] = x
            return [np.asarray(y) for y in tree_leaves(probe.evaluate(*args))]

        zero = value(tree_map(jnp.zeros_like, u)) if with_constant else None
        images = [value(tree_map(lambda x, y: (a * x + b * y).astype(x.dtype), u, v)), value(u), value(v)]
        if with_constant:
            images = [[y - y0 for y, y0 in zip(image, zero, strict=True)] for image in images]
        return all(
            np.allclose(m, a * x + b * y, rtol=_TOLERANCE, atol=_TOLERANCE * (1 + np.abs(x).max() + np.abs(y).max()))
            for m, x, y in zip(*images, strict=True)
            if m.size
        )


def _random(rng, spec):
    values = rng.normal(size=spec.shape)
    if jnp.issubdtype(spec.dtype, jnp.complexfloating):
        values = values + 1j * rng.normal(size=spec.shape)
    return jnp.asarray(np.asarray(values).astype(spec.dtype))
