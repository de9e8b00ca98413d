"""JAX's operations that only move entries, on NumPy arrays.

Tracing calls them on small arrays of entry numbers by the hundred; each would be compiled for its shape.
"""

from collections.abc import Callable

import numpy as np


def _broadcast_in_dim(array, params, shape):
    kept = [1] * len(shape)
    for size, axis in zip(array.shape, params["broadcast_dimensions"], strict=True):
        kept[axis] = size
    return np.broadcast_to(array.reshape(kept), shape)


def _slice(array, params, shape):
    strides = params["strides"] or (1,) * array.ndim
    return array[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]


def _reshape(array, params, shape):
    return array.reshape(shape)


MOVES: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "expand_dims": _reshape,
    "reshape": _reshape,
    "rev": lambda array, params, shape: np.flip(array, params["dimensions"]),
    "slice": _slice,
    "squeeze": _reshape,
    "transpose": lambda array, params, shape: array.transpose(params["permutation"]),
}
"""code(array, parameters of the equation, shape of the result), for operations with one operand, by their names."""


def dynamic_slice(array, places, sizes):
    """The part of an array from `places` on; as in JAX, places too near to the end are moved back."""
    starts = [min(max(int(p), 0), n - size) for p, n, size in zip(places, array.shape, sizes, strict=True)]
    return array[tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))]
