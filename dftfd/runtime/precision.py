"""Values in single precision, for what is estimated first and corrected later."""

import numpy as np

ROUNDING = 4096.0
"""What is added and taken away again: doubles near it are multiples of 2^-40."""


def to_single(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Multiples of 2^-40, about 1e-12, nearest to the values, as float32; `values` (float64) are overwritten.

    What is smaller becomes zero, and products of what is left are no denormal numbers, with which a processor takes a
    hundred times as long.
    """
    out = np.empty(values.shape, dtype=np.float32) if out is None else out
    values += ROUNDING
    return np.subtract(values, ROUNDING, out=out, casting="same_kind")
