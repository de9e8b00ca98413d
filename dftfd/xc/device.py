"""The exchange-correlation matrix on an accelerator, or on several devices.

Blocks of the AO store are gathered into batches of about the same number of orbitals, which stay on the devices as far
as there is room. A batch is one program: densities, kernel and matrices of all its blocks, with the blocks shared out
among the devices. The matrix is the derivative of the energy by the density matrix, which JAX takes through the very
formula of the density.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dftfd.errors import NumericalError
from dftfd.libcint.gto import component_count
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, HESSIAN, PAIRS, ao_order
from dftfd.xc.matrix import XCBuilder, XCContribution

_GROWTH = 1.25  # numbers of orbitals in a batch differ by less than this factor
_WORK = 1 << 28  # bytes of intermediate arrays at a time, for each device
_SHARE = 0.7  # of a device's memory for orbitals
_BATCH = 1 << 31  # bytes of a batch's orbitals on each device: what must find room beside those that stay there


def accelerated_devices() -> list | None:
    """JAX's devices where there is an accelerator, or more than one; None for the processor alone."""
    devices = jax.devices()
    return devices if len(devices) > 1 or devices[0].platform != "cpu" else None


class DeviceXCBuilder(XCBuilder):
    """Energy, matrix and electron numbers as XCBuilder gives them, computed on `devices`; responses are not.

    memory_limit: bytes of orbitals that may stay there; by default 70 % of the memory that the devices have. Batches
    beyond it stay with the processor and travel for every matrix.
    """

    def __init__(self, kernel, store: AOStore, devices, memory_limit: float | None = None):
        super().__init__(kernel, store)
        mesh = Mesh(np.array(devices), ("devices",))
        self._over_blocks = NamedSharding(mesh, PartitionSpec("devices"))
        self._sum = jax.jit(
            jax.shard_map(
                self._of_batch,
                mesh=mesh,
                in_specs=(PartitionSpec(), *[PartitionSpec("devices")] * 4),
                out_specs=PartitionSpec(),
                check_vma=False,
            )
        )
        room = _memory_of(devices) if memory_limit is None else memory_limit
        self._batches = []
        for arrays in _batches(store, ao_order(kernel), len(devices)):
            stays = arrays[0].nbytes <= room
            room -= arrays[0].nbytes if stays else 0
            self._batches.append(tuple(map(self._place, arrays)) if stays else arrays)

    def _place(self, array):
        return jax.device_put(array, self._over_blocks)

    def build(self, P, C_occ=None) -> XCContribution:
        """Arguments and result as in XCBuilder.build; C_occ is not needed here."""
        P, _ = self._checked(P, None)
        padded = jnp.pad(jnp.asarray(P), ((0, 0), (0, 1), (0, 1)))  # orbital number n_ao is the zero function
        energy, matrix, n_electrons, finite = 0.0, np.zeros_like(P), np.zeros(len(P)), True
        for arrays in self._batches:
            e, M, n, density_sum = self._sum(padded, *arrays)
            energy, n_electrons = energy + float(e), n_electrons + np.asarray(n)
            matrix += np.asarray(M)[:, :-1, :-1]
            finite &= bool(np.isfinite(density_sum))
        if not (finite and np.isfinite(energy) and np.isfinite(matrix).all()):
            super().build(P)  # raises and says where, if it finds the same
            raise NumericalError(
                f"the energy or matrix of {self.kernel.functional.name!r} is not finite on the "
                f"{jax.devices()[0].platform}, though on the processor; JAX_PLATFORMS=cpu computes it there."
            )
        return XCContribution(energy, (matrix + matrix.transpose(0, 2, 1)) / 2, n_electrons)

    def _of_batch(self, P, ao, aos, points, weights):
        """Sums over the blocks of all devices; this code sees those of one."""
        n_blocks, n_components, n_ao, n_points = ao.shape
        at_once = max(1, _WORK // (8 * n_points * n_ao * n_components * len(P) * 4))
        n_steps = -(-n_blocks // at_once)
        split = partial(_in_steps, n_steps=n_steps)
        total = (jnp.zeros(()), jnp.zeros_like(P), jnp.zeros(len(P)), jnp.zeros(()))
        total, _ = jax.lax.scan(partial(self._of_step, P), total, tuple(map(split, (ao, aos, points, weights))))
        return jax.lax.psum(total, "devices")

    def _of_step(self, P, total, blocks):
        ao, aos, points, weights = blocks
        P_blocks = P[:, aos[:, :, None], aos[:, None, :]].transpose(1, 0, 2, 3)
        derivative = jax.vmap(jax.value_and_grad(self._of_block, has_aux=True))
        (e, (n, density_sum)), M_blocks = derivative(P_blocks, ao, points, weights)
        energy, M, n_electrons, all_densities = total
        M = M.at[:, aos[:, :, None], aos[:, None, :]].add(M_blocks.transpose(1, 0, 2, 3))
        return (energy + e.sum(), M, n_electrons + n.sum(axis=0), all_densities + density_sum.sum()), None

    def _of_block(self, P, ao, points, weights):
        """Energy, electrons per spin and the sum of all channels, for density matrices over the orbitals of a block.

        The last tells of NaN, which the guards of functionals would take for a density too small to count.
        """
        density = block_density(ao, P, self.kernel.order, self.kernel.needs_tau)
        e = jax.vmap(self.kernel.energy_density, in_axes=(-1, 0))(density, points)
        return weights @ e, (density[:, 0] @ weights, density.sum())


def block_density(ao, P, order: int, tau: bool):
    """Density channels (spin, channel, point) as dftfd.xc.matrix.density_jet has them, in code that JAX transforms.

    ao: (component, ao, point).   P: (spin, ao, ao), symmetric.
    """
    PA = jnp.einsum("smn,cnp->scmp", P, ao[: 4 if order >= 2 or tau else 1])
    product = partial(jnp.einsum, "scmp,cmp->scp")
    channels = [product(PA[:, :1], ao[:1])]
    if order >= 1:
        channels.append(2.0 * jnp.einsum("smp,cmp->scp", PA[:, 0], ao[GRADIENT]))
    if order >= 2:
        i, j = 1 + np.transpose(PAIRS)
        mixed = product(PA[:, i], ao[j])
        channels.append(2.0 * (jnp.einsum("smp,cmp->scp", PA[:, 0], ao[HESSIAN]) + mixed))
    if tau:
        channels.append(0.5 * product(PA[:, GRADIENT], ao[GRADIENT]).sum(axis=1, keepdims=True))
    return jnp.concatenate(channels, axis=1)


def _memory_of(devices) -> float:
    """Bytes for orbitals on all devices together; no limit where a device does not tell."""
    known = [(device.memory_stats() or {}).get("bytes_limit") for device in devices]
    return float("inf") if None in known else _SHARE * sum(known)


def _batches(store: AOStore, order: int, multiple: int):
    """(ao (block, component, ao, point), aos (block, ao), points, weights) of batches of blocks, padded with zeros.

    Blocks come in numbers that are multiples of `multiple`; the index store.n_ao stands for no orbital.
    """
    sizes = np.array([max(1, len(block.aos)) for block in store.blocks])
    order_of_size = np.argsort(-sizes, kind="stable")
    while len(order_of_size):
        width = sizes[order_of_size[0]]
        most = multiple * max(1, _BATCH // (8 * component_count(order) * width * store.block_size))
        count = int(np.searchsorted(-sizes[order_of_size], -width / _GROWTH, side="right"))
        yield _batch(store, order_of_size[: min(count, most)], width, order, multiple)
        order_of_size = order_of_size[min(count, most) :]


def _batch(store, members, width, order, multiple):
    n_blocks, n_points = -(-len(members) // multiple) * multiple, store.block_size
    ao = np.zeros((n_blocks, component_count(order), width, n_points))
    aos = np.full((n_blocks, width), store.n_ao)
    points, weights = np.zeros((n_blocks, n_points, 3)), np.zeros((n_blocks, n_points))
    scratch = np.empty(store.scratch_size)
    for row, index in enumerate(members):
        block = store.blocks[index]
        ao[row, :, : len(block.aos)] = store.values(index, scratch)[: component_count(order)]
        aos[row, : len(block.aos)] = block.aos
        points[row], weights[row] = block.points, block.weights
    return ao, aos, points, weights


def _in_steps(array, n_steps):
    """(block, ...) as (step, block, ...), filled up by zeros: blocks without weight."""
    per_step = -(-len(array) // n_steps)
    array = jnp.pad(array, [(0, per_step * n_steps - len(array)), *[(0, 0)] * (array.ndim - 1)])
    return array.reshape(n_steps, per_step, *array.shape[1:])
