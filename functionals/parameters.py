"""Parameters of formulas, numbers or pytrees of arrays such as networks, as text and as plain data."""

from numbers import Number

import jax
import numpy as np


def is_acceptable(value, known) -> bool:
    """Whether a value may take the place of a known one: a real number, traced or not, that of a number."""
    if not isinstance(known, Number):
        return True
    return (isinstance(value, Number) or hasattr(value, "dtype")) and not np.iscomplexobj(value)


def parameter_text(value) -> str:
    """A parameter's value on one line; a network, or another pytree, by its kind and size."""
    if isinstance(value, Number | str | tuple | list | dict | np.ndarray | jax.Array | None):
        return str(value)
    size = sum(np.size(x) for x in jax.tree_util.tree_leaves(value) if hasattr(x, "dtype"))
    return f"{type(value).__name__} of {size} numbers"


def plain(value):
    """A parameter as numbers in lists and dicts; of a network, or another pytree, its arrays by their places."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, Number | str | np.ndarray | jax.Array | None):
        return np.asarray(value).tolist()
    leaves, _ = jax.tree_util.tree_flatten_with_path(value)
    return {jax.tree_util.keystr(path): np.asarray(x).tolist() for path, x in leaves if hasattr(x, "dtype")}


def in_tuples(value):
    """Lists, as `Functional.definition` and JSON have them, as tuples at every level."""
    if isinstance(value, list | tuple):
        return tuple(map(in_tuples, value))
    return {k: in_tuples(v) for k, v in value.items()} if isinstance(value, dict) else value
