"""Local exact conditions: inequalities on the energy per volume at a point that imply conditions on energies.

With F = e / e_x^LDA (the unpolarised gas), f_1 = r_s dF_c/dr_s and f_2 = r_s d f_1/dr_s at fixed s, alpha, q, zeta:

  E_c non-positivity       F_c >= 0
  E_c scaling inequality   f_1 >= 0
  U_c monotonicity         f_2 + f_1 >= 0          (d/dr_s of r_s^2 dF_c/dr_s)
  Lieb-Oxford bound        F_xc + f_1 <= 2.27      (on U_xc)
  Lieb-Oxford extension    F_xc <= 2.27            (on E_xc)
  T_c upper bound          f_1 <= F_c(r_s = 100) - F_c
  conjectured T_c bound    f_1 <= F_c

R. Pederson, K. Burke, J. Chem. Phys. 159, 214113 (2023) (the seven and their variables). doi:10.1063/5.0172058
S. Helal et al., arXiv:2408.05316 (XCVerifier: these seven; r_s from 1e-4 to 5, s and alpha from 0 to 5).
J. P. Perdew, A. Ruzsinszky, J. Sun, K. Burke, J. Chem. Phys. 140, 18A533 (2014) (1.174). doi:10.1063/1.4870763
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.verify.conditions import Parts
from dftfd.verify.factored import Factored, OnDomains, Partial, factored
from dftfd.verify.model_systems import C_F, C_X
from dftfd.verify.statements import Energy
from dftfd.xc.pointwise import as_vectors, written_ingredients

VARIABLES = ("rs", "s", "alpha", "q", "zeta")
DOMAIN = {"rs": (1e-4, 5.0), "s": (0.0, 5.0), "alpha": (0.0, 5.0), "q": (-1.0, 1.0), "zeta": (0.0, 0.0)}
"""XCVerifier's domain; q as in Pederson and Burke's search, one spin as much as the other."""

LIEB_OXFORD, FAR = 2.27, 100.0
"""C_LO of the local conditions, and the r_s that stands for infinity, as in both references."""


@dataclass(frozen=True)
class LocalCondition:
    """sum over (part, order) of coefficient times Taylor coefficient, plus constant, is >= 0.

    parts: "c", "x", "c far"; a Taylor coefficient of order k is that of F(exp(t) r_s) in t.
    """

    name: str
    title: str
    terms: tuple[tuple[str, int, float], ...]
    constant: float = 0.0

    @property
    def order(self) -> int:
        return max(k for _, k, _ in self.terms)

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for part, _, _ in self.terms))


def _c(*coefficients):
    return tuple(("c", k, c) for k, c in enumerate(coefficients) if c)


CONDITIONS = {
    c.name: c
    for c in (
        LocalCondition("ec_nonpositive", "E_c non-positivity", _c(1.0)),
        LocalCondition("ec_scaling", "E_c scaling inequality", _c(0.0, 1.0)),
        LocalCondition("uc_monotone", "U_c monotonicity", _c(0.0, 1.0, 2.0)),
        LocalCondition("lieb_oxford", "Lieb-Oxford bound", (("x", 0, -1.0), *_c(-1.0, -1.0)), LIEB_OXFORD),
        LocalCondition("lieb_oxford_exc", "Lieb-Oxford extension", (("x", 0, -1.0), *_c(-1.0)), LIEB_OXFORD),
        LocalCondition("tc_upper", "T_c upper bound", (("c far", 0, 1.0), *_c(-1.0, -1.0))),
        LocalCondition("tc_conjecture", "conjectured T_c bound", _c(1.0, -1.0)),
        LocalCondition("ex_nonpositive", "E_x non-positivity", (("x", 0, 1.0),)),
        LocalCondition("ex_bounded", "local Lieb-Oxford bound of exchange", (("x", 0, -1.0),), 1.804),
        LocalCondition("ex_two_electrons", "bound of two-electron exchange", (("x", 0, -1.0),), 1.174),
    )
}
"""The first seven are the literature's, in XCVerifier's order."""


def used_variables(functional: Functional) -> tuple[str, ...]:
    """Those of VARIABLES that stand in the formula; r_s always, zeta last."""
    names = written_ingredients(functional)
    found = {"sigma": "s", "tau": "alpha", "lapl": "q"}
    return ("rs", *(v for k, v in found.items() if k in names or (v == "s" and "tau" in names)), "zeta")


def part_of(functional: Functional, part: str) -> Functional:
    """The exchange or the correlation of a functional; UnsupportedError where it has none that is local."""
    if part == "c" and functional.dispersion:
        raise UnsupportedError("the dispersion correction contributes to it and has no value at a point")
    parts = Parts(functional)
    return parts.exchange() if part == "x" else parts.correlation()


class Gas:
    """libxc's variables as polynomials in (r_s, s, alpha, q, zeta), the definitions of Pederson and Burke.

    Spins share gradient, Laplacian and kinetic energy as they share the density; alpha is (tau - tau_W) / tau_unif with
    tau_unif of the polarised gas.
    """

    def __init__(self, algebra: Factored, variables: dict, polarised: bool):
        a, number = algebra, algebra.number
        self.algebra = algebra
        zero: dict = {}
        self.written: list = []
        rs, s = variables["rs"], variables.get("s", zero)
        scaled = lambda x, c: a.mul(number(c), x)
        self.n = n = scaled(a.power(rs, Fraction(-3)), 3 / (4 * math.pi))
        sigma = scaled(a.mul(a.power(s, Fraction(2)), a.power(n, Fraction(8, 3))), 4 * (3 * math.pi**2) ** (2 / 3))
        unit = a.power(n, Fraction(5, 3))
        lapl = scaled(a.mul(variables.get("q", zero), unit), 4 * (3 * math.pi**2) ** (2 / 3))
        tau_W = scaled(a.mul(sigma, a.power(n, Fraction(-1))), 0.125)
        tau = scaled(a.mul(variables.get("alpha", zero), unit), C_F)
        slope = scaled(a.mul(s, a.power(n, Fraction(4, 3))), 2 * (3 * math.pi**2) ** (1 / 3))
        if not polarised:
            self.variables = [n, sigma, lapl, a.add(tau, tau_W)]
            half = number(0.5)
            self.written = as_vectors(([a.mul(half, x)] * 2 for x in (n, slope, lapl, a.add(tau, tau_W))), zero)
            return
        z = variables["zeta"]
        up, down = (scaled(a.add(number(1.0), z, sign=sign), 0.5) for sign in (1, -1))
        power = Fraction(5, 3)
        d_s = scaled(a.add(a.power(scaled(up, 2.0), power), a.power(scaled(down, 2.0), power)), 0.5)
        tau = a.add(a.mul(tau, d_s), tau_W)
        self.variables = [a.mul(up, n), a.mul(down, n)]
        self.variables += [a.mul(a.mul(x, y), sigma) for x, y in ((up, up), (up, down), (down, down))]
        self.variables += [a.mul(x, lapl) for x in (up, down)] + [a.mul(x, tau) for x in (up, down)]
        self.written = as_vectors(([a.mul(x, y) for x in (up, down)] for y in (n, slope, lapl, tau)), zero)

    def needs_more(self, formula: Energy) -> bool:
        """Adds the conditions under which the formula as it was written is defined to those of the algebra's domain;
        whether there are any that the kernel's program does not have."""
        (energy,) = evaluate(formula.written, OnDomains(self.algebra), list(map(Partial, self.written)))
        more = energy.defined - self.algebra.domain
        self.algebra.domain |= more
        return bool(more)

    def enhancement(self, formula: Energy):
        """F = e / e_x^LDA as a polynomial."""
        energy = factored(formula.program, self.variables, self.algebra)[0]
        unit = self.algebra.mul(self.algebra.number(C_X), self.algebra.power(self.n, Fraction(4, 3)))
        return self.algebra.mul(energy, self.algebra.power(unit, Fraction(-1)))


def enhancements(functional: Functional, parts, algebra: Factored, variables: dict, polarised: bool) -> list:
    """(polynomial F, what `Statement.energies` has of it) of parts of a functional."""
    gas = {"": Gas(algebra, variables, polarised)}
    formulas = {part[0]: Energy.of(part_of(functional, part[0]), 2 if polarised else 1) for part in parts}
    found = []
    for part in parts:
        if part == "c far":
            far = variables | {"rs": algebra.number(FAR)}
            gas[part] = Gas(algebra, far, polarised)
        place, formula = gas.get(part, gas[""]), formulas[part[0]]
        found.append((place.enhancement(formula), (formula, part == "c far", place.needs_more(formula))))
    return found


Inequality = Callable[..., object]
"""A user's own: code of the variables by name, in JAX's functions, that is to be >= 0."""
