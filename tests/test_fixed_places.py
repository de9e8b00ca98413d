"""Fixed places outside of arrays: what NumPy refuses (IndexError), and JAX takes from another entry without a word."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd
from dftfd.errors import FunctionalError, SignatureError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.grid_functionals import grid_functional_term, require_valid_grid_functional
from dftfd.functionals.validation import require_valid

VECTOR = autofd.function(lambda r: jnp.stack([r.sum(), r @ r, r[0]]), autofd.Domain((3,)))
TABLE = jnp.linspace(0.0, 1.0, 5)


@jax.custom_jvp
def ruled(g):
    return g[5]


ruled.defjvps(lambda t, value, g: t[2])

OUTSIDE = {
    "number": lambda g: g[3],
    "negative": lambda g: g[-4],
    "list": lambda g: g[np.array([0, 3])].sum(),
    "matrix": lambda g: jnp.outer(g, g)[1, 3],
    "one place of two": lambda g: jnp.outer(g, g)[jnp.argmax(g), 3],
    "vmap": lambda g: jax.vmap(lambda row: row[3])(jnp.outer(g, g)).sum(),
    "take": lambda g: jnp.take(jnp.outer(g, g), 3, axis=1).sum(),
    "set": lambda g: g.at[3].set(0.0).sum(),
    "add": lambda g: g.at[3].add(1.0).sum(),
    "slice": lambda g: jax.lax.dynamic_slice(g, (2,), (2,)).sum(),
    "update": lambda g: jax.lax.dynamic_update_slice(g, jnp.zeros(2), (2,)).sum(),
    "computed": lambda g: g[jnp.arange(3) + 1].sum(),
    "loop": lambda g: jax.lax.fori_loop(0, 4, lambda i, total: total + g[i], 0.0),
    "scan": lambda g: jax.lax.scan(lambda total, i: (total + g[i + 1], None), 0.0, jnp.arange(3))[0],
    "branch": lambda g: jax.lax.cond(g[0] > 0, lambda x: x[3], lambda x: x[2], g),
    "rule": lambda g: ruled(g),
    "jit": lambda g: jax.jit(lambda x: x[5])(g),
    "gradient": lambda g: jax.grad(lambda x: x[3] ** 2)(g).sum(),
}

INSIDE = {
    "all": lambda g: g[0] + g[2] + g[-1] + g[-3] + g[np.array([0, -3, 2])].sum() + g[1:9].sum(),
    "table": lambda g: TABLE[jnp.clip((4 * g[0]).astype(int), 0, 4)],
    "table, clipped by JAX": lambda g: TABLE[(4 * g[0]).astype(int)],
    "interpolation": lambda g: jnp.interp(g[0], TABLE, TABLE**2),
    "value asked for": lambda g: g.at[jnp.arange(4)].get(mode="fill", fill_value=0.0).sum(),
    "neighbours": lambda g: g.at[jnp.arange(3) + 1].get(mode="clip").sum(),
    "groups": lambda g: jax.ops.segment_sum(g, jnp.array([0, 1, 2]), num_segments=2).sum(),
    "loop": lambda g: jax.lax.fori_loop(0, 3, lambda i, total: total + g[i], 0.0),
    "sorted": lambda g: jnp.sort(g)[1] + jnp.roll(g, 2)[0] + jnp.cumsum(g)[2] + jnp.linalg.det(jnp.outer(g, g)),
    "branch not taken": lambda g: jax.lax.cond(len(g) > 3, lambda x: x[3], lambda x: x[2], g),
    "gradient": lambda g: jax.grad(lambda x: x.at[jnp.arange(4)].get(mode="fill", fill_value=0.0).sum())(g).sum(),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_fixed_place_outside_of_an_array_is_refused(name):
    with pytest.raises(SignatureError, match="correct the index"):
        autofd.compose(OUTSIDE[name], VECTOR)


@pytest.mark.parametrize("name", INSIDE)
def test_places_inside_and_places_of_data_are_let_alone(name):
    r = jnp.array([0.1, 0.2, 0.3])
    assert autofd.compose(INSIDE[name], VECTOR)(r) == INSIDE[name](VECTOR(r))


def test_functionals_are_refused_when_they_are_entered():
    """A formula at a point reads a fourth component of a gradient; a grid functional a fourth, and a third spin."""

    def of_point(n):
        s = autofd.compose(lambda g: g[0] ** 2 + g[3] ** 2, autofd.nabla(n))
        return autofd.compose(lambda n, s: -n * (n + s) / (n + 1), n, s)

    with pytest.raises(FunctionalError, match="place 3 along axis 0"):
        require_valid(EnergyTerm("own", of_point, ("rho",)))
    for formula, words in (
        (lambda grad_rho, weights: -weights @ (grad_rho[:, 3] ** 2).sum(axis=0), "place 3 along axis 1"),
        (lambda rho, weights: -weights @ (rho[0] * rho[1] + rho[2] ** 2), "place 2 along axis 0"),
    ):
        with pytest.raises(FunctionalError, match=words):
            require_valid_grid_functional(grid_functional_term(formula, "own", None, None, False), spin_symmetric=False)
