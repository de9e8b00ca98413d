"""What is asked of a functional with double integrals before it is registered.

It is lowered to pairs of points, as for a calculation, and evaluated on a few points with weights, where densities are
ordinary, each paired with all and with itself. Refused, besides what is refused of others: what can't be lowered; pair
kernels that are other numbers as scalar code. Jumps are not looked for: the wide step that finds them would change a
kernel of short range by orders of magnitude.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.lowering.jets import CELL_VOLUME
from dftfd.autofd.lowering.two_points import lower_nonlocal
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import scalar_program
from dftfd.errors import NotSemilocalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.validation_points import Trial, differentiable, formed, one_line, refused

TOLERANCE = 1e-4
"""Of derivatives by differences."""


class PairTrial(Trial):
    """A term with double integrals as code of the jets (entry, point) of rho and tau at all points together.

    Its derivatives are those of the sum over the points with their weights.
    """

    count = 8
    rounding = 1e-9  # of the energies of all points: what is not asked of their sums, which hold terms of both signs
    hint = (
        "also where the two points coincide: leave such pairs out and add the part of one cell, as "
        "functionals/hartree.py does"
    )
    steps = ((1e-5, TOLERANCE),)
    verb = "has the derivative"

    def __init__(self, term: EnergyTerm):
        try:
            self.program = lower_nonlocal(formed(term))
        except NotSemilocalError as error:
            raise refused(term, f"can't be computed on a grid: {one_line(error)}") from error
        super().__init__(term, self.program.orders)
        self.points, self.specs = jnp.asarray(self.x[-3:].T), [self.x[:-3]]
        self.weights = np.random.default_rng(7).uniform(0.5, 1.5, self.count)

    def require_sound(self):
        if self.program.orders.get(CELL_VOLUME, 0) > 0:
            raise refused(self.term, "differentiates the cell volume of grid points, which has no derivative")

    def known(self, jets):
        """What code at each point knows: jets, volume of the cell, integrals."""
        named = {k: [jnp.moveaxis(a, -1, 0) for a in arrays] for k, arrays in self.named(self.in_shapes(jets)).items()}
        return self.program.known_on(named, self.points, jnp.asarray(self.weights))

    def code(self, jets):
        """Energy per volume at each point."""
        return jax.vmap(self.program.outer)(self.known(jets), self.points)

    def energies(self, x):
        return np.asarray(jax.jit(self.code)(x[:-3]))

    @functools.cached_property
    def _value_and_slope(self):
        def total(jets):
            energies = self.code(jets)
            return self.weights @ energies, energies

        return jax.jit(jax.value_and_grad(total, has_aux=True))

    def slopes(self, x):
        with differentiable(self.term):
            (_, energies), slopes = self._value_and_slope(x[:-3])
        return np.asarray(energies), np.asarray(slopes)

    def of_spins(self, energy, gradient, x):
        """The derivatives, of a sum that may count alpha here and beta there."""
        return np.sum(gradient * x[:-3], axis=0)

    def differences(self, step, direction, energy):
        """Of the sum when the jets of one point after the other move."""
        numerical, size = np.zeros((2, self.count))
        for i in range(self.count):
            moved = np.zeros_like(direction)
            moved[:, i] = step * direction[:, i]
            up, down = (self.slopes(self.x + s * moved)[0] for s in (1, -1))
            change = self.weights * (up - down) / (2 * step)
            numerical[i], size[i] = change.sum(), np.abs(change).sum()
        return numerical, size + self.rounding / TOLERANCE * np.sum(self.weights * np.abs(energy))

    def require_as_written(self, energy, gradient):
        """The pair kernels as scalar code against themselves, at all pairs of points."""
        known = self.known(self.x[:-3])
        here, there = (np.ravel(i) for i in np.indices((self.count, self.count)))
        at = lambda tree, places: jax.tree_util.tree_map(lambda array: array[places], tree)
        for integral in self.program.integrals:
            left, right = (jax.vmap(code)(known, self.points) for code in (integral.left, integral.right))
            pairs = (self.points[here], at(left, here), self.points[there], at(right, there))
            flat = lambda *pair, integral=integral: integral.kernel(*pair).reshape(-1)
            try:
                program = scalar_program(flat, *at(pairs, 0))
            except UnsupportedError:  # calculations use the kernel itself
                continue
            rows = [np.asarray(r) for a in jax.tree_util.tree_leaves(pairs) for r in a.reshape(len(here), -1).T]
            lowered = np.stack(run_on_numpy(program, rows), axis=1)
            plain = np.asarray(jax.vmap(flat)(*pairs))
            worst = np.argmax(np.abs(lowered - plain), axis=1, keepdims=True)
            lowered, plain = (np.take_along_axis(a, worst, axis=1)[:, 0] for a in (lowered, plain))
            scale = np.abs(plain) + np.abs(plain).max()
            self.require_same("pair kernel", lowered, plain, scale, here)
