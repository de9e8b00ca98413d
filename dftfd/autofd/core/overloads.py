"""Python's operators on Functions: f + g, 2 * f, f ** (1 / 3), k @ f, f[0], abs(f)."""

import numpy as np

from dftfd.autofd.core.operator_table import op
from dftfd.errors import SignatureError

_UFUNCS = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.true_divide: "divide",
    np.power: "power",
}
_NOT_AN_ARRAY = (
    "{what} is for arrays, and {f!r} is a function: use the one of dftfd.autofd (exp, sin, sqrt, ...), or "
    "compose(code, f) with code of one value; sums over points are integrate(f)."
)


class _NoArray:
    """What functions of jax.numpy get for a Function; it raises when they want to use it, or to say what it is."""

    def __init__(self, f):
        self.f = f

    def __array__(self, *args, **options):
        raise SignatureError(_NOT_AN_ARRAY.format(what="jax.numpy", f=self.f))

    __repr__ = __str__ = __format__ = __array__


def _both_sides(name):
    """f op other, and other op f."""
    return lambda self, other: op.combine(name, self, other), lambda self, other: op.combine(name, other, self)


class Overloads:
    """Base of Function: pointwise arithmetic between Functions on the same domains, or with numbers and arrays."""

    __slots__ = ()

    __add__, __radd__ = _both_sides("add")
    __sub__, __rsub__ = _both_sides("subtract")
    __mul__, __rmul__ = _both_sides("multiply")
    __truediv__, __rtruediv__ = _both_sides("divide")
    __pow__, __rpow__ = _both_sides("power")

    def __matmul__(self, other):
        return op.integral_transform(self, other)

    def __neg__(self):
        return op.negative(self)

    def __pos__(self):
        return self

    def __abs__(self):
        return op.absolute(self)

    def __getitem__(self, index):
        return op.item(self, index)

    def _no_order(self, other):
        raise SignatureError(
            f"functions have no order ({self!r}); select values inside one function: "
            "compose(lambda x: jnp.where(x > 0.3, x, 0.0), f)."
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if ufunc in _UFUNCS and method == "__call__" and not options:
            return op.combine(_UFUNCS[ufunc], *inputs)
        raise SignatureError(_NOT_AN_ARRAY.format(what=f"numpy.{ufunc.__name__}", f=self))

    def __array__(self, *args, **options):
        raise SignatureError(_NOT_AN_ARRAY.format(what="NumPy", f=self))

    def __jax_array__(self):
        return _NoArray(self)  # arrays of JAX leave arithmetic to us then; functions of jax.numpy complain

    def __copy__(self):
        return self  # nothing in it can change

    def __deepcopy__(self, memo):
        return self

    def __len__(self):
        raise SignatureError(f"a function has no length ({self!r}); f.shape is the shape of its values.")

    def __bool__(self):
        raise SignatureError(f"the truth value of a function is not defined ({self!r}).")

    def __iter__(self):
        raise SignatureError(f"a function can't be iterated over ({self!r}); index it, or use split.")
