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
from dftfd.runtime.memory import available_memory
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
    out[: component_count(order)] *= 2.0
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


HESSIAN_BYTES = 2**29
"""Second derivatives of a functional on a grid that are kept; where they are more, each change asks the kernel."""


class Transitions:
    """Changes of the orbitals C, per spin (orbital, ao), on the grid of a MatrixBuilder.

    Changes are, per spin, (trial, orbital, ao).
    """

    def __init__(self, builder: MatrixBuilder, C: Sequence[np.ndarray]):
        self._builder, self._C = builder, C
        self._shape = len(C), builder.kernel.channels

    def change_of_potential(self, kernel, density) -> Callable:
        """dC -> what the change of a semilocal kernel's potential at `density` (spin, channel, point) does to C.

        The kernel's second derivatives are computed as soon as more changes are asked for than they cost, where there
        is room.
        """
        blocks, of_block = self._builder.store.blocks, self._builder._of_block
        here = lambda index: (blocks[index].points, blocks[index].weights, of_block(density, index))
        n, asked = density.shape[0] * density.shape[1], 0
        second: dict[int, np.ndarray] = {}
        has_room = 8 * n * n * density.shape[2] <= min(HESSIAN_BYTES, available_memory() / 4)
        compute = lambda part, scratch: second.update((k, kernel_hessian(kernel, *here(k))) for k in part)

        def change(index, _, tangent):
            if index in second:
                return np.einsum("icjdp,jdp->icp", second[index], tangent)
            return kernel.response(*here(index), tangent)

        def through(dC):
            nonlocal asked
            asked += len(dC[0])
            if has_room and asked > n and not second:
                self._builder._on_workers(compute)
            found = self._sweep(dC, len(dC[0]), change)
            for array in found:
                require_finite_response(kernel, array)
            return found

        return through

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
                    self._density(dC_s[trial].take(aos, axis=1), phi[s], ao, tangent[s], scratch)
                potential = potential_of(index, trial, tangent)
                if potential is not None:
                    self.apply(potential, phi, ao, aos, [r[trial] for r in result], scratch)
        return result

    @property
    def _of_gradients(self):
        """Whether values and gradients are all: then a derivative of a basis function or of an orbital is enough."""
        return self._builder.kernel.order == 1 and not self._builder.kernel.needs_tau

    def _density(self, dC, phi, ao, out, scratch):
        """Writes the change of one spin's channels on a block for dC (orbital, ao of the block) to `out`."""
        kernel = self._builder.kernel
        if not self._of_gradients:
            chi = np.matmul(dC, ao, out=scratch("chi", *phi.shape))
            transition_density(phi, chi, kernel.order, kernel.needs_tau, out)
            return
        chi = np.matmul(dC, ao[0], out=scratch("chi", *phi.shape[1:]))
        there = np.matmul(dC.T, phi[0], out=scratch("there", *ao.shape[1:]))  # sum_q dC_q phi_q
        np.einsum("qp,qp->p", phi[0], chi, out=out[0])
        np.einsum("mp,imp->ip", there, ao[1:], out=out[1:])
        out[1:] += np.einsum("qp,iqp->ip", chi, phi[1:])
        out *= 2.0

    def apply(self, potential, phi, ao, aos, result, scratch) -> None:
        """Adds to `result`, per spin (orbital, ao), what a potential (spin, channel, point) does to a block's phi."""
        kernel = self._builder.kernel
        for s, (phi_s, v) in enumerate(zip(phi, potential, strict=True)):
            if self._of_gradients:
                w = np.einsum("cqp,cp->qp", phi_s, v, out=scratch("chi", *phi_s.shape[1:]))
                along = np.einsum("imp,ip->mp", ao[1:], v[1:], out=scratch("there", *ao.shape[1:]))
                result[s][:, aos] += w @ ao[0].T + phi_s[0] @ along.T
                continue
            w = scratch("chi", *phi_s.shape)
            potential_on_orbitals(phi_s, v, kernel.order, kernel.needs_tau, w)
            total = w[0] @ ao[0].T
            for c in range(1, len(w)):
                total += w[c] @ ao[c].T
            result[s][:, aos] += total


def kernel_hessian(kernel, points, weights, density) -> np.ndarray:
    """Derivatives of a kernel's potential by the density on a block, (spin, channel, spin, channel, point)."""
    shape = density.shape
    hessian, direction = np.empty((*shape[:2], *shape)), np.zeros(shape)
    for s, c in np.ndindex(shape[:2]):
        direction[s, c] = 1.0
        hessian[:, :, s, c] = kernel.response(points, weights, density, direction)
        direction[s, c] = 0.0
    return hessian


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
