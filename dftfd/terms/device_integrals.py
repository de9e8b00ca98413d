"""Coulomb and exchange matrices from fitted integrals on an accelerator, in whose memory the tensor stays.

The processor computes the integrals. J of all and K of each set of orbitals are matrix products of the accelerator, in
double precision: there are no estimates beside them.
"""

from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.libcint import two_electron
from dftfd.runtime.memory import Need, available_memory
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.pair_tensor import WholeTensor

SHARE = 0.45
"""Part of the accelerator's memory that the tensors may take."""

_BYTES = 1 << 30
"""Of unpacked rows, and of columns that are solved for, at a time."""


class DeviceTensor:
    """B_Q,ij of `fitting_tensor` on a device, (aux, ao (ao + 1) / 2) with rows of zeros at the end.

    The interface is WholeTensor's, in pair_tensor.
    """

    def __init__(self, molecule, auxiliary: dict, omega: float, device):
        root = two_electron.InverseRoot(molecule, auxiliary, omega)
        n, integrals = molecule.n_ao, two_electron.three_centre_integrals(molecule, auxiliary, omega)
        self._n_rows, self._at_once = root.rank, max(1, min(root.rank, _BYTES // (16 * n * n)))
        width = max(1, min(integrals.shape[1], _BYTES // (8 * len(integrals))))
        factor, solve = (root.inverse, jnp.matmul) if root.factor is None else (root.factor, _solved)
        factor = jax.device_put(factor, device)
        rows = -(-root.rank // self._at_once) * self._at_once
        self.values = jax.device_put(jnp.zeros((rows, integrals.shape[1])), device)
        for start in range(0, integrals.shape[1], width):
            start = min(start, integrals.shape[1] - width)  # all of one width, so that one program does
            block = np.ascontiguousarray(integrals[:, start : start + width])
            self.values = _written(solve, self.values, factor, block, start)
        lower, square = np.tril_indices(n), np.empty((n, n), dtype=np.int32)
        square[lower] = square[lower[::-1]] = np.arange(integrals.shape[1])
        self._positions = jax.device_put(square, device)

    def __len__(self):
        return self._n_rows

    def coulomb(self, folded, single=False) -> tuple[np.ndarray, np.ndarray]:
        """As WholeTensor's, in double precision always."""
        fits, J = _coulomb(self.values, folded)
        return np.asarray(fits)[:, : self._n_rows], np.asarray(J)

    def exchange(self, C) -> np.ndarray:
        """K (ao, ao) of orbitals C (ao, orbital)."""
        return np.asarray(_exchange(self.values, self._positions, C, self._at_once))

    @cached_property
    def on_the_processor(self) -> WholeTensor:
        """The same, for responses."""
        return WholeTensor(np.asarray(self.values)[: self._n_rows])

    def unpacked(self, start: int, out: np.ndarray) -> np.ndarray:
        """As WholeTensor's."""
        return self.on_the_processor.unpacked(start, out)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _written(solve, B, factor, block, start):
    return jax.lax.dynamic_update_slice(B, solve(factor, block), (0, start))


def _solved(factor, block):
    return jax.scipy.linalg.solve_triangular(factor, block, lower=True)


@jax.jit
def _coulomb(B, folded):
    fits = folded @ B.T
    return fits, fits @ B


@partial(jax.jit, static_argnums=3)
def _exchange(B, positions, C, at_once):
    n = len(C)

    def add(K, start):
        rows = jax.lax.dynamic_slice_in_dim(B, start, at_once)[:, positions]  # (row, ao, ao)
        X = jnp.einsum("ko,qki->qoi", C, rows).reshape(-1, n)
        return K + X.T @ X, None

    return jax.lax.scan(add, jnp.zeros((n, n)), jnp.arange(0, len(B), at_once))[0]


class DeviceCoulombExchange(DensityFittedCoulombExchange):
    """J and K as DensityFittedCoulombExchange gives them, on `device`; derivatives are the processor's, as there."""

    _estimates = None

    def __init__(self, molecule, exact_exchange: bool, device, memory_limit: float | None = None):
        self.molecule, self._device = molecule, device
        self.fitting_functions, self.auxiliary_basis = two_electron.auxiliary_basis(molecule, exact_exchange)
        self.n_auxiliary, self._n_pairs = two_electron.fitting_tensor_size(molecule, self.fitting_functions)
        self._memory_limit = 0.7 * available_memory() if memory_limit is None else memory_limit
        self._on_device: dict[float, DeviceTensor] = {}
        self._tensors, self._with_exchange, self._whole = {}, True, True
        self._check_memory(self._bytes_of(1, True))

    @staticmethod
    def has_room(molecule, exact_exchange, device) -> bool:
        """Whether the tensors of a functional's operators, pairs (omega, fraction), fit into the device's memory."""
        auxiliary, _ = two_electron.auxiliary_basis(molecule, bool(exact_exchange))
        n_operators = len({0.0, *(omega for omega, _ in exact_exchange)})
        size = np.prod(two_electron.fitting_tensor_size(molecule, auxiliary), dtype=float)
        limit = (device.memory_stats() or {}).get("bytes_limit", np.inf)
        return 8.0 * n_operators * size <= SHARE * limit

    def rehearsal(self) -> "DeviceCoulombExchange":
        return self

    def with_few_for_exchange(self) -> "DeviceCoulombExchange":
        return self

    def tensor(self, omega=0.0):
        return self._rows(omega).on_the_processor.values

    def _rows(self, omega):
        if omega not in self._on_device:
            self._on_device[omega] = DeviceTensor(self.molecule, self.fitting_functions, omega, self._device)
        return self._on_device[omega]

    def _exchange_of_orbitals(self, C, omega):
        return self._rows(omega).exchange(C) if C.shape[1] else np.zeros((len(C),) * 2)

    def memory(self, omegas):
        return Need({"three-centre integrals": self._bytes_of(1, True)})

    def within(self, room, omegas=()):
        return self
