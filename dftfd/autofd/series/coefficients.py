"""Truncated power series: arithmetic on Taylor coefficients.

A value that depends on a parameter t is kept as its coefficients c_0, c_1, ..., c_n. They are computed on demand in
increasing order, so a series may be defined through itself; None stands for a coefficient known to be zero. Products
are Cauchy products, and y = phi(u) with y' = g u' follows from k y_k = sum_{j=1..k} j u_j g_{k-j}: O(n^2) operations
to order n.

A. Griewank, A. Walther, Evaluating Derivatives, SIAM 2008, chapter 13. doi:10.1137/1.9780898717761
"""

import itertools
from collections.abc import Callable, Iterable, Iterator

import jax
import jax.numpy as jnp


class Series:
    """Taylor coefficients of one value, drawn from an iterator that may refer to earlier ones."""

    __slots__ = ("known", "source")

    def __init__(self, source: Iterable = ()):
        self.known: list = []
        self.source = iter(source)

    def __getitem__(self, k: int):
        while len(self.known) <= k:
            self.known.append(next(self.source, None))
        return self.known[k]

    def upto(self, order: int) -> list:
        """[c_0, ..., c_order]"""
        self[order]
        return self.known[: order + 1]

    def coefficients(self) -> Iterator:
        """All coefficients, without end."""
        return map(self.__getitem__, itertools.count())


def as_series(value) -> Series:
    """The value itself if it is a series, else the constant series."""
    return value if isinstance(value, Series) else Series([value])


def plus(a, b):
    """a + b, where None is zero."""
    return b if a is None else a if b is None else a + b


def minus(a, b):
    """a - b, where None is zero."""
    return a if b is None else -b if a is None else a - b


def convolve(u: Series, v: Series, k: int, start: int = 0, factor: Callable | None = None, multiply=jnp.multiply):
    """sum over j = start..k of factor(j) u_j v_{k-j}"""
    total = None
    for j in range(start, k + 1):
        if u[j] is None or v[k - j] is None:
            continue
        term = multiply(u[j], v[k - j])
        total = plus(total, term if factor is None else factor(j) * term)
    return total


def mapped(code: Callable, u: Series) -> Series:
    """Linear code applied to each coefficient."""
    return Series(None if c is None else code(c) for c in u.coefficients())


def product(u: Series, v: Series, multiply=jnp.multiply) -> Series:
    """u v, or another bilinear operation."""
    return Series(convolve(u, v, k, multiply=multiply) for k in itertools.count())


def quotient(a: Series, b: Series) -> Series:
    """a / b"""
    q = Series()

    def coefficients():
        for k in itertools.count():
            rest = minus(a[k], convolve(b, q, k, start=1))
            yield None if rest is None else rest / b[0]

    q.source = coefficients()
    return q


def solution(start, u: Series, slope: Callable[[Series], Series]) -> Series:
    """The series y with y_0 = start and y' = slope(y) u'."""
    y = Series()
    g = slope(y)

    def coefficients():
        yield start
        for k in itertools.count(1):
            total = convolve(u, g, k, start=1, factor=float)
            yield None if total is None else total / k

    y.source = coefficients()
    return y


def power(start, u: Series, exponent) -> Series:
    """u^a with y_0 = start, from u y' = a y u'; singular where u_0 = 0."""
    y = Series()

    def coefficients():
        yield start
        for k in itertools.count(1):
            total = convolve(u, y, k, start=1, factor=lambda j, k=k: (exponent + 1) * (j / k) - 1)
            yield None if total is None else total / u[0]

    y.source = coefficients()
    return y


def integer_power(u: Series, n: int) -> Series:
    """u^n by repeated squaring, regular where u_0 = 0 for positive n."""
    one = Series([jnp.ones_like(u[0])])
    result, base, left = None, u, abs(n)
    while left:
        if left % 2:
            result = base if result is None else product(result, base)
        left //= 2
        base = product(base, base) if left else base
    result = one if result is None else result
    return quotient(one, result) if n < 0 else result


def exponential(u: Series) -> Series:
    return solution(jnp.exp(u[0]), u, lambda y: y)


def logarithm(u: Series) -> Series:
    return solution(jnp.log(u[0]), u, lambda y: quotient(Series([jnp.ones_like(u[0])]), u))


def sine_and_cosine(u: Series) -> tuple[Series, Series]:
    """sin' = cos, cos' = -sin"""
    cosine = Series()
    sine = solution(jnp.sin(u[0]), u, lambda y: cosine)
    cosine.source = solution(jnp.cos(u[0]), u, lambda y: mapped(jnp.negative, sine)).coefficients()
    return sine, cosine


def hyperbolic_tangent(u: Series) -> Series:
    """y' = 1 - y^2"""
    return solution(jnp.tanh(u[0]), u, lambda y: shifted(mapped(jnp.negative, product(y, y)), 1))


def logistic(u: Series) -> Series:
    """y' = y (1 - y)"""
    return solution(jax.nn.sigmoid(u[0]), u, lambda y: product(y, shifted(mapped(jnp.negative, y), 1)))


def shifted(u: Series, number) -> Series:
    """u + number"""
    return Series(number + c if k == 0 else c for k, c in enumerate(u.coefficients()))


def derivative(u: Series) -> Series:
    """u'"""
    return Series(None if u[k] is None else k * u[k] for k in itertools.count(1))
