"""Who is right where a formula and libxc differ: the energy of both at the worst points, beside the formula's in sixty
digits.

    python data/libxc_formulas/in_sixty_digits.py NAME ...      with two spins; needs mpmath and DFTFD_LIBXC_SOURCE
"""

import functools
import sys
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import compare
import mpmath
import numpy as np

from dftfd.functionals import catalogue, libxc_tree
from dftfd.functionals import maple_numbers as numbers
from dftfd.functionals.maple_kernel import _ARGUMENTS, _definitions, _given
from dftfd.functionals.maple_numbers import DIGITS, PI, in_context, is_constant
from dftfd.functionals.maple_program import Evaluation
from dftfd.interop import libxc

IN_DIGITS = {
    "xc_E1_scaled": lambda x: mpmath.exp(x) * mpmath.e1(x),
    "xc_erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "arcsinh": mpmath.asinh,
    "arctan": mpmath.atan,
    "tanh": mpmath.tanh,
    "abs": abs,
}


OF_VALUES = numbers.function


def function(name, x):
    """The functions of maple_numbers, in sixty digits."""
    if not is_constant(x):
        return OF_VALUES(name, x)
    with mpmath.workdps(DIGITS + 10):
        given = mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(str(x))
        value = IN_DIGITS[name](given)
        return Decimal(mpmath.nstr(value, DIGITS + 5))


def exact(value):
    return tuple(map(exact, value)) if isinstance(value, tuple | list) else Fraction(value)


def exact_energy(record, x):
    """Energy per volume of one formula at a point of libxc's nine variables."""
    kernel = libxc_tree.kernel(record["kernel"], record["reads"])
    params = {key: exact(value) for key, value in record.get("params", {}).items()}
    settings = {"zeta_threshold": np.finfo(float).eps, "dens_threshold": record["dens_threshold"]}
    settings |= {key: Fraction(record.get(key, 0.0)) for key in ("cam_omega", "cam_alpha", "cam_beta")}
    p = SimpleNamespace(params=SimpleNamespace(**params), **settings)
    a, b, aa, ab, bb, *rest = (Fraction(float(v)) for v in x)
    with in_context():
        rs = numbers.power(numbers.multiply(Fraction(4, 3) * (a + b), PI), Fraction(-1, 3))
        reduced = lambda q, n, power: numbers.multiply(q, numbers.power(n, -power / Fraction(3)))
        root = lambda q: numbers.power(q, Fraction(1, 2))
        gradients = ((aa + 2 * ab + bb, a + b), (aa, a), (bb, b))
        arguments = [rs, (a - b) / (a + b), *(reduced(root(q), n, Fraction(4)) for q, n in gradients)]
        arguments += [reduced(q, n, Fraction(5)) for q, n in zip(rest, (a, b, a, b), strict=True)]
        given = functools.partial(_given, kernel, p, set())
        e = Evaluation(_definitions(kernel).names, given).run("f", *arguments[: _ARGUMENTS[kernel.family]])
        return float(numbers.multiply(a + b, e))


def main(*names):
    numbers.function = function
    measurement = compare.Measurement(101)
    x = measurement.x[2][:, ::3]
    measurement.x = {2: x}
    for name in names:
        entry = catalogue.source_table()[name]
        parts = [measurement.term(c, t, 2) for c, t in catalogue._built(name, entry).semilocal_part.terms]
        ours = sum(e for e, _ in parts)
        theirs = libxc.reference([(1.0, name)], x, 2, order=1).energy
        worst = np.argsort(-np.abs(ours - theirs) / np.abs(theirs))[:12]
        off = {"formula": 0.0, "libxc": 0.0}
        for k in worst:
            true = sum(c * exact_energy(record, x[:, k]) for c, record in entry["terms"])
            for who, e in (("formula", ours[k]), ("libxc", theirs[k])):
                off[who] = max(off[who], abs(e / true - 1))
        print(name, {who: f"{error:.1e}" for who, error in off.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
