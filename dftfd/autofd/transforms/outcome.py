"""What goes into a functional and what comes out: trees of Functions and arrays, taken apart and put together again."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from dftfd.autofd.core.function import Function, check_same_type, is_function, parts
from dftfd.autofd.core.graph import derivative, or_zero, with_arrays, without_variables
from dftfd.autofd.core.jax_adapter import is_traced_array, is_tracer, same_structure
from dftfd.errors import NoRuleError, SignatureError

MAX_ENTRIES = 64  # of an array whose derivative is taken entry by entry in nested transformations


class Arguments:
    """The arguments to differentiate, taken apart into Functions and arrays; argnums None: all of them."""

    def __init__(self, args, argnums=None):
        self.args = tuple(args)
        argnums = tuple(range(len(args))) if argnums is None else argnums
        self.positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not all(-len(args) <= i < len(args) for i in self.positions):
            raise SignatureError(f"argnums {argnums}, but the functional was called with {len(args)} argument(s).")
        if len({i % len(args) for i in self.positions}) != len(self.positions):
            raise SignatureError(f"argnums {argnums} name an argument twice.")
        chosen = tuple(args[i] for i in self.positions)
        self.leaves, self.treedef = tree_flatten(chosen, is_leaf=is_function)
        self.functions = [x for x in self.leaves if is_function(x)]
        self.arrays = [_differentiable(x) for x in self.leaves if not is_function(x)]

    def join(self, functions, arrays):
        """The chosen arguments with other Functions and arrays in the places of theirs."""
        functions, arrays = iter(functions), iter(arrays)
        return tree_unflatten(self.treedef, [next(functions if is_function(x) else arrays) for x in self.leaves])

    def full(self, functions, arrays):
        """All arguments, the chosen ones replaced."""
        args = list(self.args)
        for i, a in zip(self.positions, self.join(functions, arrays), strict=True):
            args[i] = a
        return args

    def tangents(self, tangents, what: str) -> "Arguments":
        """Tangents of the arguments; an error unless they are of the same structure and types."""
        along = Arguments(tangents)
        if not same_structure(self.treedef, along.treedef):
            raise SignatureError(f"{what}: primals {self.treedef} and tangents {along.treedef} differ in structure.")
        for f, df in zip(self.leaves, along.leaves, strict=True):
            check_same_type(f, df, what, "tangent")
        return along


def _differentiable(x):
    if callable(x):
        raise SignatureError(
            f"an argument to differentiate is Python code, {getattr(x, '__name__', x)!r}; declare the spaces of its "
            "arguments, function(code, X). Functionals are what is differentiated, not arguments."
        )
    try:
        x = jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise SignatureError(f"an argument to differentiate is {x!r}; a Function or an array expected.") from error
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise SignatureError(f"an argument to differentiate has dtype {x.dtype.name}; float or complex expected.")
    return x


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

    def filled(self, arrays) -> list:
        """The leaves with other arrays."""
        return [
            x if own is None else with_arrays(x, own) if is_function(x) else own for x, own in self.leaves_with(arrays)
        ]

    def tree(self, leaves):
        """Other leaves in the structure of this tree."""
        return tree_unflatten(self.structure, leaves)

    def along(self, leaves, moved, tag, seeds):
        """The derivative of the tree with these leaves along `seeds` of the variables and `moved` of the arrays."""
        derivatives = []
        for x, (_, own) in zip(leaves, self.leaves_with(moved), strict=True):
            if is_function(x):
                own = without_variables(or_zero(derivative(x, tag, seeds, own), x.signature), tag)
            derivatives.append(own)
        return self.tree(derivatives)


def clean(tree, tag):
    """A result of the functional without marks of the transformation."""
    return tree_map(lambda x: without_variables(x, tag) if is_function(x) else x, tree, is_leaf=is_function)


# ---- cotangents of the arrays that a graph carries


def array_derivative(f: Function, tangents: dict) -> Function:
    """Derivative of a graph along a change of arrays that it carries, {number of the array: tangent}."""
    return or_zero(derivative(f, None, (), tangents), f.signature)


def array_cotangents(arrays: dict, value: Callable, slope: Callable | None = None, what: str = "") -> dict:
    """Gradient with respect to arrays {number: array} of value(arrays), a real number.

    slope: (number, unit array) -> derivative, where transformations around this one differentiate functions in it.
    """
    if slope is not None:
        return entrywise_cotangents(arrays, slope, what)
    return jax.grad(value)(arrays) if arrays else {}


def entrywise_cotangents(arrays: dict, slope: Callable, what: str) -> dict:
    """The same, taken entry by entry, so that transformations around this one see slopes depend on functions."""
    return {k: _entrywise(x, lambda unit, k=k: slope(k, unit), what) for k, x in arrays.items()}


def _entrywise(array, slope: Callable, what: str):
    """Gradient with respect to one array: slope(unit array) is the derivative, a real number, along each entry."""
    if array.size > MAX_ENTRIES:
        raise NoRuleError(
            f"{what} carries an array of {array.size} entries that depends on what an inner transformation "
            f"differentiates; nested transformations allow {MAX_ENTRIES} entries."
        )
    if not array.size:
        return jnp.zeros_like(array)
    entries = []
    for unit in units(array):
        entries.append(jnp.asarray(slope(unit)).astype(array.dtype))
        if jnp.issubdtype(array.dtype, jnp.complexfloating):  # two real degrees of freedom
            entries[-1] += -1j * jnp.asarray(slope(1j * unit)).astype(array.dtype)
    return jnp.stack(entries).reshape(array.shape)


def units(spec):
    """The arrays of a shape and dtype with a single one, row by row."""
    for entry in range(int(np.prod(spec.shape, dtype=int))):
        unit = np.zeros(spec.shape, spec.dtype)
        unit.flat[entry] = 1
        yield jnp.asarray(unit)
