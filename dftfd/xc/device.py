"""The exchange-correlation matrix on an accelerator, or on several devices.

Blocks of the AO store are gathered into batches, which stay on the devices as far as there is room. Three programs take
a batch from the density matrix to its part of the result: densities, the functional's energy and slopes on all points,
matrices. Batches have equal numbers of blocks and a few numbers of orbitals, and the programs are kept for all
calculations, so that little is compiled: the functional's program, the longest by far, once.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dftfd.errors import NumericalError
from dftfd.libcint.gto import component_count
from dftfd.runtime.threads import share_out
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, HESSIAN, PAIRS, ROW, TAU, ao_order
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder, XCContribution

_GROWTH = 1.25  # numbers of orbitals in batches are powers of it, rounded up
_BLOCKS = 64  # of a batch on each device, where they are not too large
_SHARE = 0.4  # of a device's memory for orbitals, beside the fitting tensor
_BATCH = 1 << 30  # bytes of a batch's orbitals on each device: what must find room beside those that stay there

WORTH = 200
"""Basis functions from which on a calculation is put on an accelerator: below, programs take longer to compile for it,
some ten seconds once and a few in every process, than they save."""


def accelerated_devices(n_ao: int) -> list | None:
    """JAX's devices for so many basis functions where there is an accelerator, or more than one device.

    None for the processor alone.
    """
    if n_ao < WORTH:
        return None
    devices = jax.devices()
    return devices if len(devices) > 1 or devices[0].platform != "cpu" else None


class DeviceXCBuilder(XCBuilder):
    """Energy, matrix and electron numbers as XCBuilder gives them, computed on `devices`; responses are not.

    memory_limit: bytes of orbitals that may stay there; by default 40 % of the memory that the devices have. Batches
    beyond it stay with the processor and travel for every matrix.
    """

    kernel: XCKernel

    def __init__(self, kernel: XCKernel, store: AOStore, devices, memory_limit: float | None = None):
        super().__init__(kernel, store)
        mesh = Mesh(np.array(devices), ("devices",))
        self._everywhere = NamedSharding(mesh, PartitionSpec())
        self._over_blocks = NamedSharding(mesh, PartitionSpec("devices"))
        self._density_of_batch, self._add_batch = _programs(mesh, kernel.order, kernel.needs_tau)
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
        P = np.asarray(self._checked(P, None)[0], np.float64)
        padded = np.pad(P, ((0, 0), (0, 1), (0, 1)))  # orbital number n_ao is the zero function
        placed = jax.device_put(padded, self._everywhere)
        total = jax.device_put((0.0, np.zeros_like(padded), np.zeros(len(P)), 0.0), self._everywhere)
        for arrays in self._batches:
            ao, aos, points, weights = map(self._place, arrays)
            density = self._density_of_batch(placed, ao, aos)
            slopes = self.kernel.code.slopes_in_jax(density.reshape(-1, *weights.shape), points)
            total = self._add_batch(total, ao, aos, weights, density, slopes)
        energy, matrix, n_electrons, of_densities = map(np.asarray, total)
        matrix = matrix[:, :-1, :-1]
        if not (np.isfinite(of_densities) and np.isfinite(energy) and np.isfinite(matrix).all()):
            super().build(P)  # raises and says where, if it finds the same
            raise NumericalError(
                f"the energy or matrix of {self.kernel.functional.name!r} is not finite on the "
                f"{jax.devices()[0].platform}, though on the processor; JAX_PLATFORMS=cpu computes it there."
            )
        return XCContribution(float(energy), matrix + matrix.transpose(0, 2, 1), n_electrons)


@cache
def _programs(mesh, order: int, tau: bool):
    """(P, ao, aos -> density (spin, channel, block, point)), and what adds a batch to the sums over all batches."""
    everywhere, blocks, densities = PartitionSpec(), PartitionSpec("devices"), PartitionSpec(None, None, "devices")
    on_devices = partial(jax.shard_map, mesh=mesh, check_vma=False)

    @jax.jit
    @partial(on_devices, in_specs=(everywhere, blocks, blocks), out_specs=densities)
    def density(P, ao, aos):
        P_blocks = P[:, aos[:, :, None], aos[:, None, :]].transpose(1, 0, 2, 3)
        of_blocks = jax.vmap(partial(block_density, order=order, tau=tau))(ao, P_blocks)
        return of_blocks.transpose(1, 2, 0, 3)

    @partial(jax.jit, donate_argnums=0)
    @partial(
        on_devices,
        in_specs=(everywhere, blocks, blocks, blocks, densities, PartitionSpec(None, "devices")),
        out_specs=everywhere,
    )
    def add(total, ao, aos, weights, density, slopes):
        e, potential = slopes[0], (weights[None] * slopes[1:]).reshape(density.shape)
        M = half_matrices(ao, potential, order, tau)
        part = (
            jnp.vdot(weights, e),
            jnp.zeros_like(total[1]).at[:, aos[:, :, None], aos[:, None, :]].add(M),
            jnp.einsum("sbp,bp->s", density[:, 0], weights),
            density.sum(),
        )
        return jax.tree_util.tree_map(jnp.add, total, jax.lax.psum(part, "devices"))

    return density, add


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


def half_matrices(ao, potential, order: int, tau: bool):
    """M (spin, block, ao, ao) as dftfd.xc.matrix.half_matrix has it, of many blocks, in code that JAX compiles.

    ao: (block, component, ao, point).   potential: (spin, channel, block, point).
    """

    def product(i, weighted):
        return jnp.einsum("bmp,sbnp->sbmn", ao[:, i], weighted)

    n = component_count(order)
    scale = jnp.concatenate([0.5 * potential[:, :1], potential[:, 1:n]], axis=1)
    M = product(0, jnp.einsum("bcmp,scbp->sbmp", ao[:, :n], scale))
    if order >= 2:
        for i in range(3):
            v = potential[:, ROW[i, i] : ROW[i, 2] + 1]  # v_ij with j >= i
            M += product(1 + i, jnp.einsum("bjmp,sjbp->sbmp", ao[:, 1 + i : 4], v))
    if tau:
        for i in range(1, 4):
            M += product(i, jnp.einsum("bmp,sbp->sbmp", ao[:, i], 0.25 * potential[:, TAU]))
    return M


def _memory_of(devices) -> float:
    """Bytes for orbitals on all devices together; no limit where a device does not tell."""
    return _SHARE * sum((device.memory_stats() or {}).get("bytes_limit", float("inf")) for device in devices)


def _batches(store: AOStore, order: int, n_devices: int):
    """(ao (block, component, ao, point), aos (block, ao), points, weights) of batches of blocks, padded with zeros.

    Blocks come in numbers that are multiples of n_devices; the index store.n_ao stands for no orbital.
    """
    sizes = np.array([len(block.aos) for block in store.blocks])
    by_size = np.argsort(-sizes, kind="stable")
    start, whole = 0, min(_BLOCKS, _power_of_two(len(sizes) / n_devices))
    while start < len(by_size):
        width = _width(sizes[by_size[start]])
        room = _BATCH / (8 * component_count(order) * width * store.block_size)
        count = n_devices * min(whole, max(1, _power_of_two(room / 2)))
        members = by_size[start : start + count]
        start += count
        yield _batch(store, members, width, order, count)


def _power_of_two(x: float) -> int:
    """The smallest power of two that is not below x."""
    return 1 << int(np.ceil(np.log2(max(1.0, x))))


def _width(n_ao: int) -> int:
    """The number of orbitals of a batch whose largest block has n_ao."""
    return int(np.ceil(_GROWTH ** np.ceil(np.log(max(8, n_ao)) / np.log(_GROWTH) - 1e-9)))


def _batch(store, members, width, order, n_blocks):
    n_points = store.block_size
    ao = np.zeros((n_blocks, component_count(order), width, n_points))
    aos = np.full((n_blocks, width), store.n_ao)
    points, weights = np.tile(store.blocks[0].points, (n_blocks, 1, 1)), np.zeros((n_blocks, n_points))

    def fill(rows):
        scratch = np.empty(store.scratch_size)
        for row in rows:
            block = store.blocks[members[row]]
            ao[row, :, : len(block.aos)] = store.values(members[row], scratch)[: component_count(order)]
            aos[row, : len(block.aos)] = block.aos
            points[row], weights[row] = block.points, block.weights

    share_out(range(len(members)), fill)
    return ao, aos, points, weights
