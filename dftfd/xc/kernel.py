"""A functional on the channels of the density: energy, and its derivatives with respect to them.

Builders of matrices and gradients (xc.matrix, xc.gradient) ask a kernel for `order`, `needs_tau` and `channels`, and
call it on blocks of the grid, or, where it says `whole_grid`, on the grid as a whole (xc.nonlocal_matrix).
"""

import threading
from functools import cached_property
from typing import Annotated, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.autofd.lowering import lower
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import NumericalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import EXACT_EXCHANGE, unknown_densities
from dftfd.runtime.array_types import DensityOnGrid, NuclearGradient, OnPoints, Points, Weights
from dftfd.xc.channels import channel_count, channels_for, jets
from dftfd.xc.code import PointCode, kept
from dftfd.xc.operands import arrays_of, code_with_operands, key_without_values, values_of, with_values


class Slopes(NamedTuple):
    """First derivatives of an energy on a grid, everything else held fixed.

    weights: [hartree bohr^-3].   points: by an explicit dependence on r.   nuclei: by one on their
    positions (grid functionals).
    """

    weights: OnPoints
    density: DensityOnGrid
    points: Annotated[np.ndarray, "3 point"]
    nuclei: NuclearGradient | float = 0.0


class SlopesAlong(NamedTuple):
    """Derivatives of an energy along densities n + e n' + e^2/2 n'' at e = 0, up to the third functional derivative.

    potential, change: the slopes by the density and their first derivative by e.
    second: the second derivative by e of all slopes.
    """

    potential: DensityOnGrid
    change: DensityOnGrid
    second: Slopes

    def finite(self, name: str) -> "SlopesAlong":
        """The same; NumericalError of a functional's name where they are NaN or Inf."""
        if not all(np.isfinite(values).all() for values in (self.potential, self.change, *self.second)):
            raise NumericalError(
                f"the third derivative of functional {name!r}, which forces and dipole moments of excited states take, "
                "is NaN or Inf on the grid; look at powers and logarithms of densities that vanish far from the nuclei."
            )
        return self


class Kernel(Protocol):
    """An energy on a grid: kernel(points, weights, density) -> (energy [hartree], its derivative by the density).

    order: highest derivative of the density that it takes.   needs_tau: whether it takes tau.   channels: their number.
    whole_grid: whether it takes all points at once, not block by block.
    """

    @property
    def order(self) -> int: ...

    @property
    def needs_tau(self) -> bool: ...

    @property
    def channels(self) -> int: ...

    @property
    def whole_grid(self) -> bool: ...

    def __call__(self, points: Points, weights: Weights, density: DensityOnGrid) -> tuple[float, DensityOnGrid]: ...

    def slopes(self, points: Points, weights: Weights, density: DensityOnGrid) -> Slopes: ...


class FunctionalKernel(Kernel, Protocol):
    """That of a functional, which has a third derivative too."""

    @property
    def functional(self) -> Functional: ...

    @property
    def n_spin(self) -> int: ...

    def second_slopes(
        self, points: Points, weights: Weights, density: DensityOnGrid, first: DensityOnGrid, second: DensityOnGrid
    ) -> SlopesAlong: ...


class XCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a semilocal functional, on NumPy arrays.

    density: (spin, channel, point), channels as in dftfd.xc.channels; one spin is a restricted run's total density.
    energy: sum_p w_p e(r_p) [hartree].
    potential: (spin, channel, point), w_p de/d(channel).

    order: highest derivative of the density, 0, 1 or 2, found by tracing.   channels: their number.
    exact_exchange: names of the energy densities of exact exchange that are among them.
    arrays_vary: of all numbers, those in arrays are operands of the code, which has derivatives by them too.
    `energy` and `energy_density` are the same energy in code that JAX can transform.
    """

    whole_grid = False

    def __init__(self, functional: Functional, n_spin: int, arrays_vary: bool = False):
        self.functional, self.n_spin, self.arrays_vary = functional, n_spin, arrays_vary
        self._arrays = arrays_of(functional) if arrays_vary else ()
        orders = lambda: self._lowered.orders
        if self._arrays:
            orders = kept((*self._kind, "orders", key_without_values(functional, self._arrays)), orders)
        else:
            orders = orders()
        self.order, self.needs_tau = channels_for(functional, orders)
        self.exact_exchange = tuple(name for name in EXACT_EXCHANGE if name in orders)
        self.channels = channel_count(self.order, self.needs_tau, self.exact_exchange)
        self._code: PointCode | None = None
        self._lock = threading.Lock()

    @cached_property
    def _lowered(self):
        return lower(self.functional.energy_density(*unknown_densities()))

    def energy_density(self, density, point):
        """Energy per volume at one point (3,) from density (spin, channel); pure JAX."""
        return self._lowered(jets(density, self.order, self.exact_exchange), point)

    def energy(self, points, weights, density):
        """Energy [hartree]; pure JAX, differentiable by all arguments and by traced parameters of the functional."""
        return jnp.dot(weights, jax.vmap(self.energy_density, in_axes=(-1, 0))(density, points))

    def __call__(self, points: Points, weights: Weights, density: DensityOnGrid) -> tuple[float, DensityOnGrid]:
        slopes = self.slopes(points, weights, density)
        return np.dot(weights, slopes.weights), slopes.density

    def slopes(self, points: Points, weights: Weights, density: DensityOnGrid) -> Slopes:
        """All first derivatives of the energy; that by a weight is the energy per volume."""
        self._refuse_tracers((points, weights, density))
        code, (points, weights, density) = self.code, (np.asarray(x, np.float64) for x in (points, weights, density))
        e, *rows = code.slopes(density.reshape(code.n, -1), *((points.T,) if self.knows_the_point else ()))
        slopes = np.empty((code.n + 3, len(weights)))
        for out, row in zip(slopes, rows, strict=True):
            np.multiply(weights, row, out=out)
        return Slopes(e, slopes[: code.n].reshape(density.shape), slopes[code.n :])

    def response(
        self, points: Points, weights: Weights, density: DensityOnGrid, tangent: DensityOnGrid
    ) -> DensityOnGrid:
        """The derivative of the potential along a change `tangent` of the density."""
        n = self.code.n
        rows = self.code.change_of_slopes(density.reshape(n, -1), points.T, tangent.reshape(n, -1))
        return np.multiply(weights, rows).reshape(density.shape)

    def second_slopes(
        self, points: Points, weights: Weights, density: DensityOnGrid, first: DensityOnGrid, second: DensityOnGrid
    ) -> SlopesAlong:
        """The slopes along density + e first + e^2/2 second."""
        n, code = self.code.n, self.code.of_all_inputs if self.knows_the_point else self.code
        fixed = np.zeros((code.n - n, len(weights)))
        first, second = (np.vstack([change.reshape(n, -1), fixed]) for change in (first, second))
        x = [*density.reshape(n, -1), *points.T]
        _, slopes, along, twice = code.along(x, [first] * 2)
        twice += code.along(x, [second])[2]
        by_weights = np.sum(slopes * second + along * first, axis=0)
        potential, change, bend = ((weights * rows[:n]).reshape(density.shape) for rows in (slopes, along, twice))
        by_points = weights * twice[n:] if self.knows_the_point else np.zeros((3, len(weights)))
        return SlopesAlong(potential, change, Slopes(by_weights, bend, by_points)).finite(self.functional.name)

    @property
    def code(self) -> PointCode:
        """The energy per volume as a function of all spins' channels, and of the point.

        Its derivative written out for each entry is several times faster than JAX's on arrays: equal expressions of the
        spins and of energy and potential are formed once, and what is zero for equal spins is left out. So are points
        that nothing depends on: a block is small, its arrays cost as much as the arithmetic.
        """
        if self._code is None:
            with self._lock:
                self._code = self._code or self._point_code()
        return self._code

    @cached_property
    def knows_the_point(self) -> bool:
        """Whether the energy per volume depends on the point itself."""
        n = self.code.n
        return self.code.program(1).depends_on(range(n, n + 3))

    def _point_code(self):
        self._refuse_tracers([(c, dict(t.parameters)) for c, t in self.functional.terms])
        operands = self._arrays if self.arrays_vary else None
        code, operands = code_with_operands(self._kind, self.functional, self._program, self._code_of, operands)
        return code.at(values_of(operands)) if operands else code

    @property
    def _kind(self):
        return XCKernel, self.n_spin

    def _code_of(self, operands, trace):
        return PointCode(
            trace(operands), self.n_spin * self.channels, sum(np.size(operand.value) for operand in operands)
        )

    def _program(self, operands=()):
        """The energy per volume at a point, with inputs: density, point, values of operands."""

        def of_values(density, point, *values):
            given = with_values(self.functional, operands, values)
            return lower(given.energy_density(*unknown_densities()))(
                jets(density, self.order, self.exact_exchange), point
            )

        shapes = (self.n_spin, self.channels), (3,), *(np.shape(operand.value) for operand in operands)
        code = of_values if operands else self.energy_density
        return point_program(code, *(jax.ShapeDtypeStruct(s, np.float64) for s in shapes))

    def _refuse_tracers(self, values):
        if holds_tracers(values):
            raise UnsupportedError(
                f"functional {self.functional.name!r}: kernel(...) computes with NumPy, and was called inside a JAX "
                "transformation; use kernel.energy(points, weights, density), which JAX can differentiate."
            )
