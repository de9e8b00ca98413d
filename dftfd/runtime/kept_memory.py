"""Large arrays whose memory the next calculation uses again.

New pages are zeroed when they are first touched, 0.1 s a gigabyte, and on a virtual machine whose host has taken them
away 1 to 2 s. What an array leaves is marked as free instead: the system takes it when it needs it, and the process
writes on it without a new page where nobody did.
"""

import mmap
import threading
import weakref

import numpy as np

LEAST = 2**26
"""Bytes from which on an array is kept: below, the C library does the same."""

ALIGNMENT = 64
"""Bytes: XLA reads an array at a multiple of it in place, and copies any other before it begins."""

_lock = threading.RLock()  # an owner may go while a list grows
_left: list[mmap.mmap] = []


class _Owner:
    """What the arrays on a mapping refer to: when it is gone, they are."""

    def __init__(self, mapping):
        flat = np.frombuffer(mapping, np.uint8)
        self.__array_interface__ = flat.__array_interface__
        weakref.finalize(self, _leave, mapping).atexit = False


def empty(count: int, dtype=np.float64) -> np.ndarray:
    """An uninitialised array (count,), if possible on memory of up to twice its size that an earlier one has left."""
    wanted = count * np.dtype(dtype).itemsize
    if wanted < LEAST or not hasattr(mmap, "MADV_FREE"):
        return np.empty(count, dtype)
    try:
        return np.asarray(_Owner(_mapping(wanted)))[:wanted].view(dtype)
    except OSError:  # no address space
        return np.empty(count, dtype)


def _mapping(wanted: int) -> mmap.mmap:
    """One that was left, of up to twice the size, or a new one in place of all that were left."""
    with _lock:
        fitting = [mapping for mapping in _left if wanted <= len(mapping) <= 2 * wanted]
        mapping = min(fitting, key=len, default=None)
        if mapping is None:
            _left.clear()
        else:
            _left.remove(mapping)
    if mapping is None:
        mapping = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def give_back() -> None:
    """Returns to the system what is kept and not used."""
    with _lock:
        _left.clear()


def _leave(mapping) -> None:
    mapping.madvise(mmap.MADV_FREE)
    with _lock:
        _left.append(mapping)


def aligned(count: int, dtype=np.float64) -> np.ndarray:
    """An uninitialised array (count,) that compiled code reads in place."""
    size = count * np.dtype(dtype).itemsize
    flat = np.empty(size + ALIGNMENT, np.uint8)
    start = -flat.ctypes.data % ALIGNMENT
    return flat[start : start + size].view(dtype)
