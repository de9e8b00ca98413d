"""What a proof is about, as it was given: the recheck starts from here and not from what the prover made of it.

Formulas are traced when a proof begins, by it alone: what they read elsewhere may have changed since a kernel of theirs
was compiled, and may change before the recheck.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.functionals.base import Functional
from dftfd.verify.model_systems import C_F, C_X
from dftfd.xc.pointwise import as_vectors, scalar_form, written_form

FAR = 100.0
"""The r_s that stands for infinity."""


@dataclass(frozen=True, eq=False)
class Energy:
    """A functional's energy per volume as the formula is when this is made.   program: that of kernels of one spin or
    two, simplified, without their rounding of numbers.   written: that of the formula as it was written.
    """

    program: ScalarProgram
    written: ScalarProgram

    @staticmethod
    def of(functional: Functional, n_spin: int) -> "Energy":
        return Energy(scalar_form(functional, n_spin, fold=False), written_form(functional))


@dataclass(frozen=True, eq=False)
class Statement:
    """energies: those whose e / e_x^LDA takes part, whether at r_s = FAR, and whether the formula as written is
    defined under conditions that the kernel's program does not have.   polarised: with zeta.
    fixed: {variable: number} of those that have no width.
    code: of an inequality's own; without it the energies are the outputs.   arguments: of the code, names of variables
    or numbers of energies that are added.
    """

    energies: tuple[tuple[Energy, bool, bool], ...] = ()
    polarised: bool = False
    fixed: dict[str, float] = field(default_factory=dict)
    code: ScalarProgram | None = None
    arguments: tuple[str | tuple[int, ...], ...] = ()

    def outputs(self, algebra: Any, names) -> list:
        """Values of the outputs; `algebra` has number, add, mul, power, where_defined, literal, and `variables` by the
        names."""
        variables = {k: algebra.number(x) for k, x in self.fixed.items()}
        variables |= dict(zip(names, algebra.variables, strict=True))
        energies = [self._enhancement(algebra, variables, *each) for each in self.energies]
        if self.code is None:
            return energies
        algebra.literal = True
        return evaluate(self.code, algebra, [self._argument(algebra, variables, energies, a) for a in self.arguments])

    @staticmethod
    def _argument(algebra, variables, energies, argument):
        if isinstance(argument, str):
            return variables[argument]
        total = energies[argument[0]]
        for k in argument[1:]:
            total = algebra.add(total, energies[k])
        return total

    def _enhancement(self, algebra, variables, formula: Energy, far: bool, more: bool):
        """e / (C_x n^(4/3)) at n = 3/(4 pi r_s^3), |nabla n| = 2 k_F n s, nabla^2 n = 4 k_F^2 n q, tau = tau_W + alpha
        tau_unif of the polarised gas; spins share all but the density as they share the density."""
        power, third = algebra.power, Fraction(1, 3)
        times = lambda number, *factors: _product(algebra, algebra.number(number), *factors)
        s, alpha, q = (variables.get(k, algebra.number(0)) for k in ("s", "alpha", "q"))
        n = times(3 / (4 * math.pi), power(algebra.number(FAR) if far else variables["rs"], Fraction(-3)))
        k_F2, unit = 4 * (3 * math.pi**2) ** (2 / 3), power(n, 5 * third)
        sigma, lapl = times(k_F2, power(s, Fraction(2)), power(n, 8 * third)), times(k_F2, q, unit)
        tau_W, tau = times(0.125, sigma, power(n, Fraction(-1))), times(C_F, alpha, unit)
        shares = (algebra.number(0.5),) * 2
        if not self.polarised:
            tau = algebra.add(tau, tau_W)
            inputs = [n, sigma, lapl, tau]
        else:
            z = variables["zeta"]
            up, down = shares = tuple(times(0.5, algebra.add(algebra.number(1), z, sign)) for sign in (1, -1))
            gas = algebra.add(*(power(times(2.0, x), 5 * third) for x in (up, down)))
            tau = algebra.add(times(0.5, tau, gas), tau_W)
            inputs = [_product(algebra, x, n) for x in (up, down)]
            inputs += [_product(algebra, x, y, sigma) for x, y in ((up, up), (up, down), (down, down))]
            inputs += [_product(algebra, x, y) for y in (lapl, tau) for x in (up, down)]
        (energy,) = evaluate(formula.program, algebra, inputs)
        if more:
            slope = times(2 * (3 * math.pi**2) ** (1 / 3), s, power(n, 4 * third))
            of_spins = ([_product(algebra, x, y) for x in shares] for y in (n, slope, lapl, tau))
            written = evaluate(formula.written, algebra, as_vectors(of_spins, algebra.number(0)))
            energy = algebra.where_defined(energy, *written)
        return algebra.mul(energy, power(times(C_X, power(n, 4 * third)), Fraction(-1)))


def _product(algebra, *factors):
    result = factors[0]
    for x in factors[1:]:
        result = algebra.mul(result, x)
    return result
