"""The lowered functional on blocks of grid points: energy, and its derivative with respect to the density jet."""

import threading
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.lowering.jets import lower, placeholder
from dftfd.autofd.scalar.derive import with_gradient
from dftfd.autofd.scalar.on_jax import run_in_one_loop
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import SPACE, Functional

_CHANNELS = {0: 1, 1: 4, 2: 10}
_HIGHEST = {"rho": 2, "tau": 0}  # order of derivatives
_HESSIAN = ((0, 1, 2), (1, 3, 4), (2, 4, 5))  # position of n_ij among n_xx n_xy n_xz n_yy n_yz n_zz


class Slopes(NamedTuple):
    """First derivatives of an energy on a grid, everything else held fixed.

    weights: (point,) [hartree bohr^-3].   density: (spin, channel, point).
    points: (3, point), by an explicit dependence on r.
    """

    weights: np.ndarray
    density: np.ndarray
    points: np.ndarray


class XCKernel:
    """kernel(points, weights, density) -> (energy, potential) of a functional.

    density: (spin, channel, point). One spin is the total density of a restricted run, two are alpha and beta.
        Channels: n | n_x n_y n_z | n_xx n_xy n_xz n_yy n_yz n_zz, as many as `order` asks for, then tau if
        `needs_tau` (1/2 sum occ |grad phi|^2 of that spin, or of both).
    energy: sum_p w_p e(r_p) [hartree].
    potential: (spin, channel, point), w_p de/d(channel); n_xy is one variable that stands for n_xy and n_yx.

    order: highest derivative of the density, 0, 1 or 2, found by tracing.   channels: their number.
    """

    def __init__(self, functional: Functional, n_spin: int):
        self._lowered = lower(functional.energy_density(*placeholders()))
        self.functional = functional
        self.n_spin = n_spin
        self.order, self.needs_tau = checked_orders(functional, self._lowered.orders)
        self.channels = channel_count(self.order, self.needs_tau)
        self._rows, self._lock = None, threading.Lock()

    def __call__(self, points, weights, density):
        if any(map(is_tracer, (points, weights, density))) or self._parameters_are_traced():
            return self._weighted(points, weights, density)
        slopes = self.slopes(points, weights, density)
        return np.dot(weights, slopes.weights), slopes.density

    def slopes(self, points, weights, density) -> Slopes:
        """All first derivatives of the energy; that by a weight is the energy per volume."""
        with self._lock:  # all workers ask for the first block at once
            if self._rows is None:
                self._rows = self._rows_code()
        n_entries, weights = self.n_spin * self.channels, np.asarray(weights)
        e, *rows = self._rows(np.asarray(points), np.asarray(density))
        slopes = np.empty((n_entries + 3, len(weights)))
        for out, row in zip(slopes, rows, strict=True):
            np.multiply(weights, row, out=out)
        return Slopes(
            weights=np.broadcast_to(e, weights.shape),
            density=slopes[:n_entries].reshape(self.n_spin, self.channels, -1),
            points=slopes[n_entries:],
        )

    def energy_density(self, density, point):
        """Energy per volume at one point from density (spin, channel)."""
        return self._lowered(density_jets(density, self.order), point)

    def _parameters_are_traced(self) -> bool:
        return any(map(is_tracer, jax.tree_util.tree_leaves([t.parameters for _, t in self.functional.terms])))

    def _weighted(self, points, weights, density):
        """Energy and potential where JAX transforms the call."""
        derivative = jax.vmap(jax.value_and_grad(self.energy_density), in_axes=(-1, 0), out_axes=(0, -1))
        e, potential = derivative(density, points)
        return jnp.dot(weights, e), potential * weights[None, None, :]

    def _rows_code(self):
        """(points, density) -> [e, its derivatives by each channel, and by the point], (point,) or a number each.

        The same derivative as in `_weighted`, written out for each entry, is several times faster: equal expressions
        of the spins and of energy and potential are formed once, and what is zero for equal spins is left out. So are
        results that are constants, and points that nothing depends on: a block is small, its arrays cost as much as
        the arithmetic.
        """
        n_entries = self.n_spin * self.channels
        shapes = (self.n_spin, self.channels), (3,)
        program = point_program(self.energy_density, *(jax.ShapeDtypeStruct(s, np.float64) for s in shapes))
        program = with_gradient(program, count=n_entries + 3, inline=True)
        explicit = program.depends_on(range(n_entries, n_entries + 3))
        nodes = [program.nodes[i] for i in program.outputs]
        varying = replace(program, outputs=tuple(i for i in program.outputs if program.nodes[i].op != "const"))

        @jax.jit
        def code(density, *coordinates):
            return run_in_one_loop(varying, [*density.reshape(n_entries, -1), *coordinates])

        def rows(points, density):
            values = iter(code(density, *(points.T if explicit else ())) if varying.outputs else ())
            return [node.value if node.op == "const" else np.asarray(next(values)) for node in nodes]

        return rows


def placeholders():
    """(rho, tau), the unknown functions of a functional."""
    return placeholder("rho", SPACE, (2,)), placeholder("tau", SPACE, (2,))


def checked_orders(functional: Functional, orders) -> tuple[int, bool]:
    """(order of the density's jet, whether tau is needed) from the lowered derivative orders."""
    for ingredient, highest in _HIGHEST.items():
        if orders.get(ingredient, 0) > highest:
            raise UnsupportedError(
                f"functional {functional.name!r} needs derivatives of {ingredient} of order {orders[ingredient]}; "
                f"matrices and forces are built from {' and '.join(f'{n} to order {k}' for n, k in _HIGHEST.items())}."
            )
    return orders.get("rho", 0), "tau" in orders


def channel_count(order: int, tau: bool) -> int:
    return _CHANNELS[order] + int(tau)


def density_jets(density, order: int) -> dict[str, list]:
    """Jets of rho and tau for a lowered functional, from density (spin, channel) at one point.

    One spin is the total density, shared equally.
    """
    if density.shape[0] == 1:
        half = 0.5 * density[0]
        density = jnp.stack([half, half])
    return {"rho": _jet(density, order), "tau": [density[:, -1]]}


def _jet(density, order):
    """[value (2,), gradient (2, 3), Hessian (2, 3, 3)] up to `order` from channels (2, channel)."""
    jet = [density[:, 0]]
    if order >= 1:
        jet.append(density[:, 1:4])
    if order >= 2:
        jet.append(density[:, 4 + np.array(_HESSIAN)])
    return jet
