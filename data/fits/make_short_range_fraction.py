"""Polynomials of functionals/attenuation.py: prints the two tables, fitted at 60 digits with mpmath.

    python data/fits/make_short_range_fraction.py

With y = b^2, F / y is a polynomial in y up to y = 3. Beyond it

F / y = [1 - 4/3 sqrt(pi / y) + 2/y - 2/(3 y^2) + 4/3 exp(-y) V / y^3] / y,

V a polynomial in 2/(y + 2), from erf(b) = 1 - exp(-y) erfcx(b). V is weighted with its share of F: at y = 40 the
exponential function has made it vanish.
"""

import mpmath
from mpmath import mpf

BORDER = mpf(3)
"""Of y between the two polynomials."""

LAST = mpf(45)
"""Largest y for the fit of V; exp(-45) is 3e-20."""

DEGREES = 16, 14
"""Of the polynomials in y and in 2/(y + 2): errors of 1e-20, so that third derivatives hold, too."""


def fraction(y):
    """F / y with all digits."""
    b = mpmath.sqrt(y)
    brackets = mpmath.sqrt(mpmath.pi) * mpmath.erf(b) + (1 / b - 1 / (2 * b**3)) * mpmath.exp(-y)
    return (1 - 4 / (3 * b) * (brackets - 3 / (2 * b) + 1 / (2 * b**3))) / y


def remainder(y):
    """V."""
    scaled = mpmath.exp(y) * mpmath.erfc(mpmath.sqrt(y))
    return (mpmath.sqrt(mpmath.pi / y) * scaled - 1 / y + 1 / (2 * y * y)) * y**3


def share(y):
    """Of V in F."""
    return 4 / mpf(3) * mpmath.exp(-y) / y**4 / fraction(y)


def fitted(function, weight, to_y, first, last, degree):
    """Coefficients of x^0, x^1, ...: weighted least squares at three Chebyshev points per coefficient."""
    count = 3 * (degree + 1)
    points = [
        (first + last) / 2 + (last - first) / 2 * mpmath.cospi((2 * k + 1) / mpf(2 * count)) for k in range(count)
    ]
    weights = [weight(to_y(x)) for x in points]
    rows = mpmath.matrix([[w * x**k for k in range(degree + 1)] for x, w in zip(points, weights, strict=True)])
    values = mpmath.matrix([w * function(to_y(x)) for x, w in zip(points, weights, strict=True)])
    return list(mpmath.lu_solve(rows, values))


def main():
    near = fitted(fraction, lambda y: 1 / fraction(y), lambda y: y, mpf(0), BORDER, DEGREES[0])
    far = fitted(remainder, share, lambda z: 2 / z - 2, 2 / (LAST + 2), 2 / (BORDER + 2), DEGREES[1])
    for name, table in (("_NEAR", near), ("_FAR", far)):
        print(f"{name} = (")
        for c in table:
            print(f"    {float(c)!r},")
        print(")")


if __name__ == "__main__":
    with mpmath.workdps(60):
        main()
