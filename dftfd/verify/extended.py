"""Functionals in extended precision: what a formula gives when no digit is lost.

The energy of a functional as scalar code of libxc's variables runs on mpmath numbers of 150 digits. Derivatives are
finite differences of these energies, with more than 50 right digits, so automatic differentiation takes no part.
Functions that dftfd computes by iteration or continued fraction are replaced by mpmath's own. Numbers of a formula
enter as the float64 that they are, power series and fitted polynomials with their error, below 1e-16; how near the
fits are to their functions is tested beside them.

Wrong formulas and parameters are found by comparison with libxc; this finds what rounding does to right ones, and
decides where libxc and dftfd differ.
"""

import itertools
import math

from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.on_mpmath import mpmath as mpmath
from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.xc.channels import VARIABLES
from dftfd.xc.pointwise import pointwise_kernel

DIGITS = 150
"""Digits that are carried. Third differences take ninety of them; where one spin is rare, its share takes more."""

STEP = mpmath.mpf(10) ** -30
"""Step of the differences, relative; its square is their error."""


class ExtendedEnergy:
    """energy(x) -> energy per volume, an mpmath number, of x, the variables `dftfd.xc.channels.VARIABLES[n_spin]`.

    used: positions of the variables that it depends on. Evaluate inside `mpmath.workdps(DIGITS)`.
    """

    def __init__(self, functional: Functional, n_spin: int = 2, program: ScalarProgram | None = None):
        """program: the energy's, where it is known."""
        self.n_spin, self._program = n_spin, program or pointwise_kernel(functional.semilocal_part, n_spin).program
        self.used = tuple(k for k in range(len(VARIABLES[n_spin])) if self._program.depends_on({k})) or (0,)

    def __call__(self, x):
        return evaluate(self._program, OnMpmath(_EXACT), [mpmath.mpf(v) for v in x])[0]

    def derivative(self, x, variables: tuple[int, ...]):
        """The derivative with respect to the variables at these positions, by central differences.

        Raises UnsupportedError where one of the variables is zero, on the border of what is defined.
        """
        steps = [self._step(x, k) for k in variables]
        total = mpmath.mpf(0)
        for signs in itertools.product((1, -1), repeat=len(variables)):
            moved = [mpmath.mpf(v) for v in x]
            for k, step, sign in zip(variables, steps, signs, strict=True):
                moved[k] += sign * step / 2
            total += math.prod(signs) * self(moved)
        return total / mpmath.fprod(steps)

    def size(self, x, k):
        """What a step in a variable is measured by, zero on the border of what is defined, where none can be taken.

        sigma_ab, which can be small, moves by parts of |g_a| |g_b|, a Laplacian of zero by parts of rho^(5/3), other
        variables by parts of their own.
        """
        name, value = VARIABLES[self.n_spin][k], mpmath.mpf(x[k])
        if name == "sigma_ab":
            return mpmath.sqrt(mpmath.mpf(x[k - 1]) * mpmath.mpf(x[k + 1]))
        if name.startswith("lapl") and not value:
            return mpmath.cbrt(mpmath.mpf(x[1 if name == "lapl_b" else 0])) ** 5
        return abs(value)

    def _step(self, x, k):
        size = self.size(x, k)
        if not size:
            raise UnsupportedError(f"{VARIABLES[self.n_spin][k]} is zero, where no central difference can be taken.")
        return STEP * size


def _exponential_integrals(count, x):
    """Gamma(a) exp(x) Gamma(1 - a, x) for a = 1/2, 1, ..., by V_(a+1) = Gamma(a) x^(-a) - V_a.

    Upwards each step loses as many digits as x has powers, so the recursion has as many more.
    """
    with mpmath.workdps(mpmath.mp.dps + int(count * max(0, mpmath.log10(x))) + 10):
        root = mpmath.sqrt(x)
        V = [mpmath.pi * mpmath.exp(x) * mpmath.erfc(root), mpmath.exp(x) * mpmath.e1(x)]
        for k in range(3, count + 1):
            V.append(mpmath.gamma(mpmath.mpf(k) / 2 - 1) * root ** (2 - k) - V[k - 3])
        return V[:count]


def _hole_shape(_, r):
    """x > 0 with (1 - 2/x) exp(2x/3) = r, by Newton's method on a convex function, from above."""
    x = 3 + 1.5 * mpmath.log1p(r) if r > 0 else mpmath.mpf(2)
    for _ in range(200):
        e = mpmath.exp(2 * x / 3)
        change = ((x - 2) * e - r * x) / ((2 * x - 1) * e / 3 - r)
        x -= change
        if abs(change) <= abs(x) * mpmath.mpf(10) ** (5 - mpmath.mp.dps):
            return [x]
    raise UnsupportedError(f"no hole shape was found for r = {mpmath.nstr(r)}.")


def _logaddexp(_, a, b):
    """ln(exp(a) + exp(b)), without overflow."""
    high, low = max(a, b), min(a, b)
    return [high + mpmath.log1p(mpmath.exp(low - high))]


_EXACT = {
    "logaddexp": _logaddexp,
    "_cube_root": lambda _, x: [mpmath.cbrt(x)],
    "exponential_integrals": _exponential_integrals,
    "log_plus_v1": lambda _, x: [mpmath.log(x) + mpmath.exp(x) * mpmath.e1(x)],
    "_hole_shape": _hole_shape,
}
