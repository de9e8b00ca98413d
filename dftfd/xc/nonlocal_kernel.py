r"""Functionals with double integrals on the channels of the density, on a grid as a whole.

A lowered functional (dftfd.autofd.lowering.two_points) is

    E = sum_p w_p phi(j_p, S_1p, S_2p, ...),   S_kp = sum_q w_q c(j_q) K(r_p, a(j_p), r_q, b(j_q))

with the density's jets j. Its derivative with respect to the jets at a point has three parts: through phi, through the
left features a, and through charges c and right features b of the same point in the sums of others. The last one costs
a second pass over all pairs. Where phi is linear in S_k and the summand is proven symmetric, it equals the part of S_k
in the first two, which is doubled instead.

Where derivatives with respect to the points are asked for, r counts as one more left and right feature; that with
respect to a weight is phi plus the charge times the sums of others at this point.

Sums over pairs are bounded in memory by their tiles (xc.pair_kernel); everything else takes a few numbers per point.
"""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from dftfd.errors import InputError, NumericalError
from dftfd.functionals.base import Functional
from dftfd.runtime.array_types import DensityOnGrid, Points, Weights
from dftfd.xc.kernel import Slopes, SlopesAlong
from dftfd.xc.nonlocal_code import NonlocalCode
from dftfd.xc.nonlocal_third import NonlocalXCThird
from dftfd.xc.operands import code_with_operands, values_of


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A kernel at a density on a grid: what its derivatives are made of, which the response differentiates once more.

    given: density (spin, channel, point), places (NonlocalCode), weights (point,).   slopes: of the energy, by them.
    integrals: each S (..., point).   work, sides: of each integral, as `Stage.forward` and `backward` give them.
    """

    energy: float
    slopes: Slopes
    given: tuple
    integrals: list
    work: list
    sides: list


class NonlocalXCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a functional with double integrals, for a whole grid.

    The interface is that of dftfd.xc.kernel.XCKernel.
    moving_points: derivatives with respect to the points are wanted; the pair kernel's cost a little more time.
    """

    whole_grid = True

    def __init__(self, functional: Functional, n_spin: int, moving_points: bool = False):
        self.functional, self.n_spin, self.moving_points = functional, n_spin, moving_points
        code = cache(partial(NonlocalCode, functional, n_spin, moving_points))
        kind = NonlocalXCKernel, n_spin, moving_points
        trace, make = (lambda operands: code(operands).in_all()), (lambda operands, _: code(operands))
        self.code, operands = code_with_operands(kind, functional, trace, make)
        self._values = values_of(operands)
        self.order, self.needs_tau, self.channels = self.code.order, self.code.needs_tau, self.code.channels

    @property
    def stages(self):
        """The integrals, as `Stage`."""
        return self.code.stages

    def __call__(self, points: Points, weights: Weights, density: DensityOnGrid) -> tuple[float, DensityOnGrid]:
        """points (point, 3), weights (point,), density (spin, channel, point); (float, array like density)."""
        found = self.evaluate(points, weights, density)
        return found.energy, found.slopes.density

    def slopes(self, points: Points, weights: Weights, density: DensityOnGrid) -> Slopes:
        """All first derivatives of the energy; those by the points need `moving_points`."""
        if not self.moving_points:
            raise InputError("this kernel keeps its points fixed; make it with moving_points=True.")
        return self.evaluate(points, weights, density).slopes

    def second_slopes(
        self, points: Points, weights: Weights, density: DensityOnGrid, first: DensityOnGrid, second: DensityOnGrid
    ) -> SlopesAlong:
        """The slopes along density + e first + e^2/2 second; those by the points are whole if these move."""
        code = self.code
        code.third = code.third or NonlocalXCThird(code)
        return code.third.slopes(self, points, weights, density, first, second).finite(self.functional.name)

    def given(self, points, weights, density):
        """(density, places of the points, weights) as arrays, which the code at one point takes."""
        density, points, weights = np.asarray(density), np.asarray(points), np.asarray(weights)
        values = np.broadcast_to(self._values[:, None], (len(self._values), len(weights)))
        return density, np.vstack([values, points.T]), weights

    def evaluate(self, points, weights, density) -> Evaluation:
        """Energy and derivatives, with what they came from; those by the points are whole if these move."""
        given = density, _, weights = self.given(points, weights, density)
        integrals = [np.zeros((*s.integral.shape, len(weights))) for s in self.stages]
        work = [stage.forward(given, integrals) for stage in self.stages]
        energy = float(weights @ self.code.energy(*given, tuple(integrals)))
        self._require_finite("energy", energy)
        e, (*slopes, d_integrals) = self.code.outer_slopes(*given, self.doubled(integrals))
        d_density, d_points, d_cell = (slope * weights for slope in slopes)
        d_weights = e + d_cell
        d_integrals = [d * weights for d in d_integrals]
        sides: list[tuple] = []
        for k in reversed(range(len(self.stages))):
            stage = self.stages[k]
            explicit, side = stage.backward(given, integrals, work[k], d_integrals[k])
            sides.insert(0, side)
            *more, more_integrals = stage.pull_back(*given, tuple(integrals), *side[1:4])
            d_density += more[0]
            d_points += more[1]
            d_weights += explicit + more[2]
            d_integrals = [a + b for a, b in zip(d_integrals, more_integrals, strict=True)]
        self._require_finite("derivative by the density", d_density)
        if self.moving_points:
            self._require_finite("derivative by points or weights", d_points, d_weights)
        return Evaluation(energy, Slopes(d_weights, d_density, d_points[-3:]), given, integrals, work, sides)

    def doubled(self, integrals) -> tuple:
        """Symmetric integrals twice: phi is linear in them, so its derivative there holds their part twice."""
        return tuple(2.0 * S if s.symmetric else S for s, S in zip(self.stages, integrals, strict=True))

    def _require_finite(self, what, *values):
        wrong = [x for value in values for x in np.ravel(value)[~np.isfinite(np.ravel(value))]]
        if wrong:
            raise NumericalError(
                f"the {what} of functional {self.functional.name!r} is {wrong[0]}. If its pair kernel is not finite "
                "for coinciding points, leave such pairs out and add the part of one cell, as functionals/hartree.py "
                "does."
            )
