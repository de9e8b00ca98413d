r"""Changes of orbitals on a grid: the densities that they make, and what changes of the potential do to the orbitals.

Orbitals phi_q that change by dphi_q change the density, bilinearly, by

    dn = 2 phi . dphi,   dn_i = 2 (phi_i . dphi + phi . dphi_i),   dtau = grad phi . grad dphi,

the dot summing over q; a potential v, derivative of an energy by the channels of the density, acts on the orbitals by
the adjoint of the same form, (v phi)_mq = <m| v |phi_q>. With few orbitals and many basis functions that costs less
than matrices over the basis, and many changes share one sweep over the orbitals on the grid.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dftfd.libcint.gto import component_count
from dftfd.xc.channels import GRADIENT, HESSIAN, PAIRS, TAU, ao_order
from dftfd.xc.matrix import MatrixBuilder, require_finite_response


def transition_density(phi, chi, order: int, tau: bool, out: np.ndarray) -> None:
    """Change of the density's channels, written to `out` (channel, point), as orbitals phi change by chi.

    phi, chi: (component, orbital, point), values and derivatives as far as the channels need them.
    """
    dot = lambda a, b: np.einsum("qp,qp->p", a, b)
    out[0] = dot(phi[0], chi[0])
    if order >= 1:
        for i in range(1, 4):
            out[i] = dot(phi[i], chi[0]) + dot(phi[0], chi[i])
    if order >= 2:
        for row, (i, j) in enumerate(PAIRS, start=HESSIAN.start):
            out[row] = dot(phi[row], chi[0]) + dot(phi[0], chi[row])
            out[row] += dot(phi[1 + i], chi[1 + j]) + dot(phi[1 + j], chi[1 + i])
    out *= 2.0
    if tau:
        out[TAU] = sum(dot(phi[i], chi[i]) for i in range(1, 4))


def potential_on_orbitals(phi, v, order: int, tau: bool, out: np.ndarray) -> None:
    """w (component, orbital, point), written to `out`, with <m| v |phi_q> = sum_c,p A_cm w_cq over a block's points.

    v: (channel, point), derivative of the energy by the channels. It is half the adjoint of `transition_density`.
    """
    n = component_count(order)
    out[n:] = 0.0
    np.einsum("cqp,cp->qp", phi[:n], v[:n], out=out[0])
    for c in range(1, n):
        np.multiply(phi[0], v[c], out=out[c])
    if order >= 2:
        for row, (i, j) in enumerate(PAIRS, start=HESSIAN.start):
            out[1 + i] += v[row] * phi[1 + j]
            out[1 + j] += v[row] * phi[1 + i]
    if tau:
        out[GRADIENT] += 0.5 * v[TAU] * phi[GRADIENT]


class Transitions:
    """Changes of the orbitals C, per spin (orbital, ao), on the grid of a MatrixBuilder.

    Changes are, per spin, (trial, orbital, ao).
    """

    def __init__(self, builder: MatrixBuilder, C: Sequence[np.ndarray]):
        self._builder, self._C = builder, C
        self._shape = len(C), builder.kernel.channels

    def through(self, kernel, density, dC) -> list[np.ndarray]:
        """What the change of a semilocal kernel's potential at `density` (spin, channel, point) does to C, like dC."""
        blocks, of_block = self._builder.store.blocks, self._builder._of_block

        def change(index, _, tangent):
            block = blocks[index]
            return kernel.response(block.points, block.weights, of_block(density, index), tangent)

        found = self._sweep(dC, len(dC[0]), change)
        for array in found:
            require_finite_response(kernel, array)
        return found

    def densities(self, dC) -> np.ndarray:
        """The changes of the density on `builder.grid`, (trial, spin, channel, point)."""
        store, n_trials = self._builder.store, len(dC[0])
        out = np.empty((n_trials, *self._shape, len(store.blocks) * store.block_size))

        def keep(index, trial, tangent):
            out[trial][..., self._builder._block_slice(index)] = tangent

        self._sweep(dC, n_trials, keep)
        return out

    def applied(self, potentials) -> list[np.ndarray]:
        """What potentials (trial, spin, channel, point) on `builder.grid` do to C, per spin (trial, orbital, ao)."""
        of_block = self._builder._of_block
        return self._sweep(None, len(potentials), lambda index, trial, _: of_block(potentials[trial], index))

    def _sweep(self, dC, n_trials: int, potential_of: Callable) -> list[np.ndarray]:
        """One pass over the blocks: densities of trials -> potential_of(block, trial, density) -> its action on C."""
        parts = self._builder._on_workers(self._blocks, dC, n_trials, potential_of)
        return [sum(of_spin) for of_spin in zip(*parts, strict=True)]

    def _blocks(self, part, scratch, dC, n_trials, potential_of):
        store, kernel = self._builder.store, self._builder.kernel
        n_components = component_count(ao_order(kernel))
        result = [np.zeros((n_trials, *C.shape)) for C in self._C]
        tangent = scratch("tangent", *self._shape, store.block_size)
        for index in part:
            aos = store.blocks[index].aos
            ao = self._builder._values(index, scratch)[:n_components]
            phi = [np.matmul(C.take(aos, axis=1), ao) for C in self._C]
            for trial in range(n_trials):
                for s, dC_s in enumerate(dC or ()):
                    chi = scratch("chi", *phi[s].shape)
                    np.matmul(dC_s[trial].take(aos, axis=1), ao, out=chi)
                    transition_density(phi[s], chi, kernel.order, kernel.needs_tau, tangent[s])
                potential = potential_of(index, trial, tangent)
                if potential is not None:
                    self._apply(potential, phi, ao, aos, [r[trial] for r in result], scratch)
        return result

    def _apply(self, potential, phi, ao, aos, result, scratch):
        """Adds what a potential (spin, channel, point) does to the orbitals phi of a block."""
        kernel = self._builder.kernel
        for s, phi_s in enumerate(phi):
            w = scratch("chi", *phi_s.shape)
            potential_on_orbitals(phi_s, potential[s], kernel.order, kernel.needs_tau, w)
            total = w[0] @ ao[0].T
            for c in range(1, len(w)):
                total += w[c] @ ao[c].T
            result[s][:, aos] += total


class TripletKernel:
    """A kernel of two spins at a closed shell, for changes of one spin that are minus those of the other.

    It stands for the restricted kernel in a response: density and change are of one spin, `change` is alpha's.
    """

    def __init__(self, kernel):
        self._kernel, self.functional = kernel, kernel.functional

    def response(self, points, weights, density, tangent):
        """As XCKernel.response, (1, channel, point) all."""
        return self._kernel.response(points, weights, equal_spins(density), opposite_spins(tangent))[:1]


def equal_spins(density) -> np.ndarray:
    """(2, ...) of a closed shell's total density (1, ...)."""
    return np.concatenate([density, density]) / 2


def opposite_spins(tangent) -> np.ndarray:
    """(2, ...) with the whole change (1, ...) shared between the spins with opposite signs."""
    return np.concatenate([tangent, -tangent]) / 2
