"""Arrays that a graph carries and that move under JAX: taken out, put back, and their cotangents."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from dftfd.autofd.core.function import Function, is_function, nodes_of, parts
from dftfd.autofd.core.structure import is_tracer
from dftfd.errors import NoRuleError

MAX_ENTRIES = 64  # of an array whose derivative is taken entry by entry in nested transformations


def is_traced_array(x) -> bool:
    """True for an array, not a function, that stands for a value inside a JAX transformation."""
    return is_tracer(x) and hasattr(x.aval, "shape")


def with_arrays(root: Function, arrays: dict) -> Function:
    """The graph with other arrays, {number of the array: array}; what does not change stays the same object."""
    if not arrays:
        return root
    done, start = {}, 0
    for node in nodes_of(root):
        leaves, treedef = tree_flatten(node.arrays)
        new = [arrays.get(start + k, x) for k, x in enumerate(leaves)]
        start += len(leaves)
        if any(a is not b for a, b in zip(new, leaves, strict=True)):
            done[id(node)] = node.replace([done[id(f)] for f in node.operands], tree_unflatten(treedef, new), node.tags)
        elif any(done[id(f)] is not f for f in node.operands):
            done[id(node)] = node.replace([done[id(f)] for f in node.operands], tags=node.tags)
        else:
            done[id(node)] = node
    return done[id(root)]


class Outcome:
    """A result, a tree of Functions, arrays and anything else, and the arrays in it that may move under JAX.

    arrays: the arrays outside Functions, and the traced ones that Functions carry, in order.
    """

    def __init__(self, tree):
        self.leaves, self.structure = tree_flatten(tree, is_leaf=is_function)
        self.places, self.arrays = [], []
        for x in self.leaves:
            found = None
            if is_function(x):
                found = [k for k, a in enumerate(parts(x)[0]) if is_traced_array(a)]
                self.arrays += [parts(x)[0][k] for k in found]
            elif isinstance(x, jax.Array | np.ndarray | np.generic | float | complex | int) or is_tracer(x):
                self.arrays.append(x)
                found = []
            self.places.append(found)

    def leaves_with(self, arrays):
        """(leaf, its entries of `arrays`): an array for an array, {number: array} for a Function, None for others."""
        arrays = iter(arrays)
        for x, places in zip(self.leaves, self.places, strict=True):
            yield x, None if places is None else {k: next(arrays) for k in places} if is_function(x) else next(arrays)

    def filled(self, arrays):
        """The tree with other arrays."""
        leaves = [
            x if own is None else with_arrays(x, own) if is_function(x) else own for x, own in self.leaves_with(arrays)
        ]
        return tree_unflatten(self.structure, leaves)


def directions(array):
    """((entry, component), unit array) for each real degree of freedom of an array."""
    units = {"real": 1.0, "imag": 1.0j} if jnp.issubdtype(array.dtype, jnp.complexfloating) else {"real": 1.0}
    for entry in range(array.size):
        for component, unit in units.items():
            direction = np.zeros(array.size, array.dtype)
            direction[entry] = unit
            yield (entry, component), jnp.asarray(direction.reshape(array.shape))


def entrywise(array, slope: Callable, what: str):
    """Gradient with respect to one array: slope(unit array) is the derivative, a real number, along each entry.

    For nested transformations, whose outer ones must see that the slopes depend on functions.
    """
    if array.size > MAX_ENTRIES:
        raise NoRuleError(
            f"{what} carries an array of {array.size} entries that depends on what an inner transformation "
            f"differentiates; nested transformations allow {MAX_ENTRIES} entries."
        )
    if not array.size:
        return jnp.zeros_like(array)
    entries = np.zeros(array.size, object)
    for (entry, component), unit in directions(array):
        entries[entry] += jnp.asarray(slope(unit)).astype(array.dtype) * (1 if component == "real" else -1j)
    return jnp.stack([jnp.asarray(x, array.dtype) for x in entries]).reshape(array.shape)
