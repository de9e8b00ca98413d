"""The kernels of functionals, compiled once per process."""

import threading

MAX_KERNELS = 16
_KERNELS: dict[tuple, object] = {}
_LOCK = threading.Lock()


def lowered(kind, functional, n_spin, **options):
    """kind(functional, n_spin, **options); the same terms are compiled once, for the last few functionals."""
    key = (kind, n_spin, *options.items(), *((float(coefficient), id(term)) for coefficient, term in functional.terms))
    with _LOCK:
        kernel = _KERNELS.get(key)
    if kernel is None:
        kernel = kind(functional, n_spin, **options)  # holds the terms, so their ids stay theirs
        with _LOCK:
            while len(_KERNELS) >= MAX_KERNELS:
                del _KERNELS[next(iter(_KERNELS))]
            _KERNELS[key] = kernel
    return kernel
