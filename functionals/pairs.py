"""Functions of two points r, r' for double integrals: a function of r or of r', their distance."""

from collections.abc import Callable

import jax.numpy as jnp

from dftfd.autofd import Function, broadcast, compose, function, integrate
from dftfd.autofd.core.structure import HasKey


def guarded(formula: Callable) -> Callable:
    """Decorator of a formula that treats vanishing densities itself, so that no density threshold is applied.

    The floor treats the point of the energy density unlike the points integrated over, which would spoil a symmetry
    that halves the cost; see dftfd/xc/nonlocal_kernel.py.
    """
    vars(formula)["is_guarded"] = True
    return formula


def here(f: Function) -> Function:
    """(r, r') -> f(r)"""
    return broadcast(f, f.domains * 2, 0)


def there(f: Function) -> Function:
    """(r, r') -> f(r')"""
    return broadcast(f, f.domains * 2, 1)


def _squared_distance(r, s):
    return jnp.sum((r - s) ** 2)


def squared_distance(f: Function) -> Function:
    """(r, r') -> |r - r'|^2 [bohr^2] on the space of f."""
    return function(_squared_distance, *f.domains * 2)


def integral_over_there(f: Function) -> Function:
    """r -> integral of f(r, r') dr'"""
    return integrate(f, argnums=1)


class _DenserThan(HasKey):
    """n -> n if n >= threshold, else a replacement."""

    def __init__(self, threshold, replacement):
        self.threshold, self.replacement = threshold, replacement
        self.__name__ = f"denser than {threshold:g}"

    def __call__(self, n):
        return jnp.where(n >= self.threshold, n, jnp.full_like(n, self.replacement))

    def structural_key(self):
        return ("denser than", self.threshold, self.replacement)


def dense_part(n: Function, threshold: float) -> tuple[Function, Function]:
    """(n or zero, n or the threshold) where n is above or below it: densities to multiply with, and to divide by.

    The first one weights points, so that those of low density are left out of double integrals; the second one is safe
    in denominators and roots.
    """
    return compose(_DenserThan(threshold, 0.0), n), compose(_DenserThan(threshold, threshold), n)
