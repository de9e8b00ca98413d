"""First-order models of values inside nested transformations; see dftfd.autofd.tape."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

from dftfd.autofd.function import Function, parts
from dftfd.autofd.graph import without_variables


@dataclass
class Model:
    """First-order model of one value: value + sum of slopes (leaves - leaves_0) + t derivative.

    moving: numbers of the arrays in the graph that depend on what is being differentiated.
    slopes: (array number, entry, "real" or "imag") -> derivative with respect to it; None: the graph is evaluated.
    """

    node: Function
    value: object
    moving: tuple[int, ...] = ()
    slopes: dict | None = None
    derivative: object = None

    def at(self, node: Function):
        """The value when the arrays in the graph are those of `node`."""
        if self.slopes is None:
            return without_variables(node).apply()
        value, new, old = self.value, parts(node)[0], parts(self.node)[0]
        for (k, entry, component), slope in self.slopes.items():
            step = jnp.ravel(new[k] - old[k])[entry]
            step = jnp.real(step) if component == "real" else jnp.imag(step)
            value = tree_map(lambda v, c, s=step: v + s.astype(v.dtype) * c.astype(v.dtype), value, slope)
        return value


def dependent_arrays(node) -> tuple[int, ...]:
    """Numbers of the arrays in the graph that depend on the parameters of the present derivative."""
    found = []
    for k, x in enumerate(parts(node)[0]):
        if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact) and x.size and _moves(x):
            found.append(k)
    return tuple(found)


def _moves(x) -> bool:
    """True if x has a tangent: JAX calls a derivative rule only then."""
    called = []

    @jax.custom_jvp
    def touch(x):
        return x

    @touch.defjvp
    def _(primals, tangents):
        called.append(True)
        return primals[0], tangents[0]

    touch(x)
    return bool(called)


def directions(array):
    """((entry, component), unit array) for each real degree of freedom of an array."""
    units = {"real": 1.0, "imag": 1.0j} if jnp.issubdtype(array.dtype, jnp.complexfloating) else {"real": 1.0}
    for entry in range(array.size):
        for component, unit in units.items():
            direction = np.zeros(array.size, array.dtype)
            direction[entry] = unit
            yield (entry, component), jnp.asarray(direction.reshape(array.shape))
