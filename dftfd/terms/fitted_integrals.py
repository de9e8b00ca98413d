"""Coulomb and exchange matrices from fitted integrals, in double precision and, for estimates, in single precision.

On an accelerator the tensor stays in its memory. The processor computes the integrals. J of all and K of each set of
orbitals are matrix products of the accelerator, in double precision: there are no estimates beside them.
"""

import weakref
from copy import copy
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.errors import InputError, ResourceError, UnsupportedError
from dftfd.libcint import two_electron
from dftfd.libcint.derivatives import derivative_by_range
from dftfd.libcint.two_electron import coulomb_metric, three_centre_integrals, unpack
from dftfd.runtime.memory import Need, available_memory, in_bytes
from dftfd.runtime.threads import share_out
from dftfd.system.molecule import Molecule
from dftfd.terms.fitted_derivatives import Metric, fitted_curvature, fitted_gradient
from dftfd.terms.integrals import CoulombExchange, drop_ranges, share, signed_factors
from dftfd.terms.pair_tensor import ROUGHLY, PairTensor, SingleTensor, WholeTensor

_BLOCK_BYTES = 4 * 2**20
"""Unpacked three-centre integrals of a worker at a time: they should stay in its cache."""

SHARE = 0.8
"""Part of the limit from which on the tensor for exchange is kept by pairs."""

_LAST_FITS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
"""Of each molecule, the auxiliary basis, the last density that was fitted, and what came out: forces ask for it again.

A few matrices, where the tensor that they were computed with may be gigabytes.
"""


TENSORS = 5
"""Tensors (aux, pair) that are in memory at a time, at most."""


class FittedRangeDerivative:
    r"""P (ao, ao) -> K'[P] (ao, ao) for one omega, with the tensors c and Z.

    The derivative of density-fitted exchange by the range omega of its operator erf(omega r)/r.

    With integrals A = (Q|ij), metric V and c = V^-1 A the matrix is K = sum_Q A_Q P c_Q, and its derivative

        K' = sum_Q (Z_Q P c_Q + c_Q P Z_Q),   Z = A' - 1/2 V' c,

    A' and V' as of dftfd.libcint.derivatives. Where fitting functions depend on each other V^-1 is the inverse on
    the space that is kept, and Z has a part from its turning. The fitted energy jumps, by some 1e-8 hartree, where the
    size of that space changes with omega; between the jumps this is its derivative.
    """

    def __init__(self, molecule, auxiliary: dict, omega: float):
        self.omega = omega
        metric = Metric(coulomb_metric(molecule, auxiliary, omega))
        A = three_centre_integrals(molecule, auxiliary, omega)
        self._c = metric.solve(A)
        self._Z = metric.half_change(
            derivative_by_range(lambda w: coulomb_metric(molecule, auxiliary, w), omega), A, self._c
        )
        self._Z += derivative_by_range(lambda w: three_centre_integrals(molecule, auxiliary, w), omega)

    def __call__(self, P) -> np.ndarray:
        n = len(P)
        size = max(1, _BLOCK_BYTES // (16 * n * n))

        def part(starts):
            M, (c, Z) = np.zeros((n, n)), np.empty((2, size, n, n))
            for start in starts:
                rows = slice(start, start + size)
                c_Q, Z_Q = (unpack(x[rows], out[: len(x[rows])]) for x, out in ((self._c, c), (self._Z, Z)))
                M += (Z_Q @ P).transpose(1, 0, 2).reshape(n, -1) @ c_Q.reshape(-1, n)
            return M

        M = sum(share_out(range(0, len(self._c), size), part))
        return M + M.T


class _Way(NamedTuple):
    """What estimates of exchange keep of few functions: their tensor unpacked, and it on orbitals before a change."""

    keeps_unpacked: bool
    keeps_transformed: bool


_WAYS = _Way(True, True), _Way(False, True), _Way(False, False)  # the fastest first


class DensityFittedCoulombExchange(CoulombExchange):
    """J and K from (ij|kl) ~ sum_Q B_Q,ij B_Q,kl, with the tensor B (aux, ao (ao + 1) / 2) computed once and kept.

    For J alone B is a PairTensor, of which as much is kept as there is room for, and with K where the whole B does not
    fit into SHARE of the limit.

    exact_exchange: whether the functional needs K; it decides, as in PySCF, between a Coulomb fit and a
    Coulomb-and-exchange fit, unless `auxiliary_basis` names a set.
    memory_limit: bytes allowed for B, by default 70 % of what is available.

    O. Vahtras, J. Almlof, M. W. Feyereisen, Chem. Phys. Lett. 213, 514 (1993). doi:10.1016/0009-2614(93)89151-7
    F. Weigend, Phys. Chem. Chem. Phys. 4, 4285 (2002). doi:10.1039/b204199p
    """

    _single_coulomb = _single_exchange = False
    _rough: PairTensor | None = None  # the integrals of estimates, where the exact ones do not all fit
    _n_operators = 2
    _by_range: FittedRangeDerivative | None = None  # the last that was asked for
    fitting_functions: dict
    exchange_is_rough = False
    """Whether K is good for changes alone, of which it makes some percent of error."""

    def __init__(
        self,
        molecule: Molecule,
        exact_exchange: bool,
        memory_limit: float | None = None,
        auxiliary_basis: str | None = None,
    ):
        self.molecule, self._chosen = molecule, auxiliary_basis
        found = two_electron.auxiliary_basis(molecule, exact_exchange, name=auxiliary_basis)
        self.fitting_functions, self.auxiliary_basis = found
        self.n_auxiliary, self._n_pairs = two_electron.fitting_tensor_size(molecule, self.fitting_functions)
        self._memory_limit = 0.7 * available_memory() if memory_limit is None else memory_limit
        self._tensors: dict[float, WholeTensor | PairTensor] = {}
        self._with_exchange = exact_exchange
        self._estimates = _WAYS[0] if exact_exchange else None  # None: there are none
        self._whole = exact_exchange and self._whole_fits(1)
        if not exact_exchange:
            self._pairs = self._pairs.within(self._memory_limit - self._bytes_of(0, False))
        self._check_memory(self._bytes_of(1, self._whole))

    @cached_property
    def _pairs(self) -> PairTensor:
        return PairTensor(self.molecule, self.fitting_functions, for_exchange=self._with_exchange)

    def in_memory(self, omega):
        return two_electron.unpacked_pairs(self.tensor(omega), self.molecule.n_ao)

    def anew(self):
        return DensityFittedCoulombExchange(self.molecule, self._with_exchange, self._memory_limit, self._chosen)

    def with_few_for_exchange(self) -> "DensityFittedCoulombExchange":
        """The same J, and an exchange on orbitals from a few fitting functions: for estimates that others correct."""
        return _FewForExchange(self)

    def for_estimates(self) -> "DensityFittedCoulombExchange":
        """J in single precision, K from a few fitting functions; the same as it is where these have no place.

        Where the integrals for J do not all fit, those of all pairs with fewer digits take the place of the last that
        do: an estimate forms none anew.
        """
        if self._with_exchange:
            return self if self._estimates is None else _Estimates(self, self._estimates)
        if self._rough is None and not self._pairs.is_whole:
            rough = self._pairs.roughly()
            if rough.nbytes <= self._pairs.nbytes:
                self._rough, self._pairs = rough, self._pairs.within(self._pairs.nbytes - rough.nbytes)
        other = copy(self)
        other._single_coulomb = True
        if self._rough is not None:
            other._pairs = self._rough
        return other

    def rehearsal(self) -> "DensityFittedCoulombExchange":
        """The same J, and K of orbitals with products in single precision, from the same tensor."""
        other = copy(self)
        other._single_exchange = True
        return other

    @cached_property
    def _few_functions(self) -> tuple[dict, int]:
        few = two_electron.few_fitting_functions(self.molecule)
        return few, two_electron.fitting_tensor_size(self.molecule, few)[0]

    @cached_property
    def _few_pairs(self) -> PairTensor:
        few, _ = self._few_functions
        return PairTensor(self.molecule, few, for_exchange=True, digits=ROUGHLY)

    def incremental_build(self, P, C_occ=None, omegas=()):
        before, coulomb_change = [self.exchange(P, C_occ, omega) for omega in omegas], self._coulomb_change(P)

        def change(P_new, C_new=None):
            after = (self.exchange(P_new, C_new, omega) for omega in omegas)
            return coulomb_change(P_new), [new - old for new, old in zip(after, before, strict=True)]

        return change

    def _coulomb_change(self, P):
        """P_new -> J of P_new less that of P. Where the last fit was that of P, that of P_new becomes the last."""
        total = P.sum(axis=0)
        rough = self._rough is not None and self._pairs is self._rough
        fit = None if rough else self._last_fit(total)

        def change(P_new):
            total_new = P_new.sum(axis=0)
            fits, J = self._fits_and_coulomb((total_new - total)[None])
            if fit is not None:
                _LAST_FITS[self.molecule] = self.auxiliary_basis, total_new, fit + fits[0]
            return J[0]

        return change

    def tensor(self, omega: float = 0.0) -> np.ndarray:
        """B_Q,ij of the operator, packed over i >= j, (aux, ao (ao + 1) / 2)."""
        found = self._tensors.get(omega)
        if not isinstance(found, WholeTensor):
            self._make_room(True)
            found = WholeTensor(two_electron.fitting_tensor(self.molecule, self.fitting_functions, omega))
            self._tensors[omega] = found
        return found.values

    def _rows(self, omega: float):
        """B of the operator, whole or by pairs."""
        if self._whole or not self._with_exchange:
            self.tensor(omega)
        elif omega not in self._tensors:
            self._make_room(False)
            self._tensors[omega] = self._pairs.of_operator(omega) if omega else self._pairs
        return self._tensors[omega]

    def coulomb_of_each(self, P):
        fits, J = self._fits_and_coulomb(P)
        if len(P) == 1 and not self._single_coulomb:
            _LAST_FITS[self.molecule] = self.auxiliary_basis, P[0].copy(), fits[0]
        return J

    def _fits_and_coulomb(self, P):
        """(sum_ij B_Q,ij P_ij (n, aux), J (n, ao, ao)) of density matrices (n, ao, ao)."""
        folded = (P + P.transpose(0, 2, 1))[:, *self._lower]
        diagonal = np.arange(1, P.shape[1] + 1).cumsum() - 1
        folded[:, diagonal] /= 2  # each pair i > j stands for ij and ji
        tensor = self._rows(0.0) if self._with_exchange else self._tensors.get(0.0, self._pairs)
        fits, packed = tensor.coulomb(folded, self._single_coulomb)
        return fits, packed[:, self._positions_in_square].reshape(P.shape)

    def _last_fit(self, total):
        """sum_ij B_Q,ij P_ij (aux,) where this density (ao, ao) was the last whose J was asked for, else None."""
        auxiliary, P, fit = _LAST_FITS.get(self.molecule, (None, None, None))
        return fit if auxiliary == self.auxiliary_basis and np.array_equal(P, total) else None

    def exchange(self, P, C_occ=None, omega=0.0):
        P = self._check(P)
        if C_occ is None:
            return np.stack([self._exchange_of_density(P_s, omega) for P_s in P])
        if len(C_occ) != len(P):
            raise InputError(f"orbitals of {len(C_occ)} spin channels were given for {len(P)} density matrices.")
        return np.stack([self._exchange_of_orbitals(np.asarray(C, dtype=float), omega) for C in C_occ])

    def exchange_on_orbitals(self, C, dC, omega=0.0, crossed=1.0):
        n_orbitals, n = C.shape
        if not n_orbitals:
            return np.zeros(dC.shape)
        B = self._rows(omega)
        block = max(1, _BLOCK_BYTES // (8 * n * max(n, n_orbitals)))
        columns = crossed * np.ascontiguousarray(dC.reshape(-1, n).T)

        def part(starts):
            K, full = np.zeros(dC.shape), np.empty((block, n, n))
            for start in starts:
                BQ = B.unpacked(start, full)
                half = np.matmul(C, BQ)  # (Q|q m)
                pairs = np.matmul(half, C.T).reshape(-1, n_orbitals).T  # (Q|p q) as (p, Qq)
                half = half.reshape(-1, n)
                if crossed:
                    turned = (half @ columns).reshape(len(BQ), n_orbitals, *dC.shape[:2])  # (Q|p dC_q), (Q, p, t, q)
                for t, (K_t, dC_t) in enumerate(zip(K, dC, strict=True)):
                    K_t += pairs @ np.matmul(dC_t, BQ).reshape(-1, n)  # (Q|dC_q m)
                    if crossed:
                        K_t += turned[:, :, t].transpose(1, 0, 2).reshape(n_orbitals, -1) @ half
            return K

        return sum(share_out(range(0, len(B), block), part))

    def exchange_by_range(self, P, omega, order=1):
        if order > 1:
            raise UnsupportedError("second derivatives by the range omega of exchange need density_fit=False.")
        if self._by_range is None or self._by_range.omega != omega:
            self._check_memory(self._bytes_of(len(self._tensors) + TENSORS, True))
            self._by_range = FittedRangeDerivative(self.molecule, self.fitting_functions, omega)
        return np.stack([self._by_range(P_s) for P_s in self._check(P)])

    def gradient(self, P, C_occ, exact_exchange):
        P = self._check(P)
        total = P.sum(axis=0)
        terms: dict[float, list] = {0.0: []}
        terms |= {omega: [(fraction * share(P), C) for C in C_occ] for omega, fraction in exact_exchange}
        return sum(
            fitted_gradient(
                *(self.molecule, self.fitting_functions, omega, None if omega else total, exchange),
                memory_limit=self._memory_limit,
                fit=None if omega else self._last_fit(total),
            )
            for omega, exchange in terms.items()
        )

    def curvature(self, P, C_occ, C, exact_exchange):
        P = self._check(P)
        if exact_exchange and any(
            found.shape[::-1] != orbitals.shape for found, orbitals in zip(C_occ, C, strict=True)
        ):
            return None  # orbitals that another spin alone occupies
        terms: dict[float, list] = {0.0: []}
        terms |= {omega: [(fraction * share(P), C_s) for C_s in C_occ] for omega, fraction in exact_exchange}
        whole = None
        for omega, exchange in terms.items():
            total = None if omega else P.sum(axis=0)
            given = self.molecule, self.fitting_functions, omega, total, exchange, C, self._memory_limit
            if (found := fitted_curvature(*given)) is None:
                return None
            whole = found if whole is None else whole + found
        return whole

    def describe(self):
        return f"density fitting in {self.auxiliary_basis} ({self.n_auxiliary} functions)"

    def _exchange_of_density(self, P, omega):
        return sum((s * self._exchange_of_orbitals(C, omega) for s, C in signed_factors(P)), start=np.zeros_like(P))

    def _exchange_of_orbitals(self, C, omega):
        """K_ij = sum_Q,o X_Q,o,i X_Q,o,j with X_Q,o,i = sum_k C_k,o B_Q,ki, in blocks of Q, shared by the workers."""
        n, n_occ = C.shape
        if not n_occ:
            return np.zeros((n, n))
        B, transposed = self._rows(omega), np.ascontiguousarray(C.T)
        if self._single_exchange:
            return SingleTensor(B, n, kept=False).exchange(C)
        block = max(1, _BLOCK_BYTES // (8 * n * n))

        def part(starts):
            full, X = np.empty((block, n, n)), np.empty((block, n_occ, n))
            K, product = np.zeros((n, n)), np.empty((n, n))
            for start in starts:
                BQ = B.unpacked(start, full)
                flat = np.matmul(transposed, BQ, out=X[: len(BQ)]).reshape(-1, n)
                K += np.matmul(flat.T, flat, out=product)
            return K

        return sum(share_out(range(0, len(B), block), part))

    @cached_property
    def _lower(self):
        """Rows and columns of the packed lower triangle, in its order."""
        return np.tril_indices(self.molecule.n_ao)

    @cached_property
    def _positions_in_square(self):
        """Where each element of a symmetric matrix (ao ao,) stands in its packed lower triangle."""
        positions = np.empty((self.molecule.n_ao,) * 2, dtype=np.intp)
        positions[self._lower] = positions[self._lower[::-1]] = np.arange(self._n_pairs)
        return positions.ravel()

    def memory(self, omegas):
        n_tensors = len({0.0, *omegas})
        if not self._with_exchange:
            kept = {"the fitting tensor": self._pairs.nbytes}
            return Need({"three-centre integrals": self._bytes_of(0, False)}, kept)
        way = self._estimates
        flexible = {} if way is None else {"exchange at reduced accuracy": self._bytes_of_estimates(way, len(omegas))}
        return Need({"the fitting tensor": self._bytes_of(n_tensors, self._whole_fits(n_tensors))}, flexible)

    def within(self, room, omegas=()):
        other = copy(self)
        if not self._with_exchange:
            other._pairs, other._rough = self._pairs.within(room), None
            return other
        other._n_operators = len({0.0, *omegas})
        other._whole = self._whole_fits(other._n_operators)
        ways = (way for way in _WAYS if other._bytes_of_estimates(way, len(omegas)) <= room)
        other._estimates = next(ways, None)
        return other

    def _bytes_of_estimates(self, way, n_operators):
        """Of J in single precision and K from few functions; J of a PairTensor takes none."""
        (_, n_few), n, molecule = self._few_functions, self.molecule.n_ao, self.molecule
        occupied = molecule.n_alpha + (molecule.n_beta if molecule.spin else 0)
        rounded = 4 * self.n_auxiliary * self._n_pairs if self._whole and way.keeps_unpacked else 0
        packed = 8 * n_few * self._n_pairs if self._whole else self._few_pairs.nbytes
        values = 4 * n_few * n**2 if way.keeps_unpacked else packed
        return n_operators * (values + 4 * n_few * n * occupied * way.keeps_transformed) + rounded

    def _whole_fits(self, n_tensors) -> bool:
        """Whether so many tensors in double precision take at most SHARE of the limit."""
        return self._bytes_of(n_tensors, True) <= SHARE * self._memory_limit

    def _bytes_of(self, n_tensors, whole):
        tensor = 8 * self.n_auxiliary * self._n_pairs
        work = min(two_electron.WORK_BYTES, 2 * tensor)
        if not whole:
            tensor, work = self._pairs.nbytes, self._pairs.work_bytes
        return n_tensors * tensor + 16 * self.n_auxiliary**2 + work

    def _make_room(self, whole):
        """For the tensor of one more operator."""
        drop_ranges(self._tensors, self._n_operators - 1)
        self._check_memory(self._bytes_of(len(self._tensors) + 1, whole))

    def _check_memory(self, needed):
        if needed > self._memory_limit:
            raise ResourceError(
                f"density fitting needs {in_bytes(needed)} for {self.n_auxiliary} auxiliary functions and "
                f"{self.molecule.n_ao} basis functions, the limit is {in_bytes(self._memory_limit)}; use a smaller "
                "basis set, more memory, or density_fit=False."
            )


class _FewForExchange(DensityFittedCoulombExchange):
    """J as the builder that it is made of, K from a few fitting functions."""

    exchange_is_rough = True

    def __init__(self, exact: DensityFittedCoulombExchange):
        self.__dict__.update(exact.__dict__)
        self._few = copy(exact)
        self._few.fitting_functions, self._few.n_auxiliary = exact._few_functions
        self._few._tensors, self._few._whole = {}, exact._whole
        self._few.__dict__.pop("_pairs", None)
        if not exact._whole:
            self._few._pairs = exact._few_pairs

    def exchange_on_orbitals(self, C, dC, omega=0.0, crossed=1.0):
        return self._few.exchange_on_orbitals(C, dC, omega, crossed)


class _Estimates(_FewForExchange):
    """Both in single precision; J in double where there is room for one copy of the whole tensor alone."""

    def __init__(self, exact: DensityFittedCoulombExchange, way: _Way):
        super().__init__(exact)
        self._way, self._single_coulomb = way, way.keeps_unpacked or not self._whole
        self._single: dict[float, SingleTensor] = {}

    def _of(self, omega) -> SingleTensor:
        if omega not in self._single:
            self._single[omega] = SingleTensor(self._few._rows(omega), self.molecule.n_ao, *self._way)
            del self._few._tensors[omega]
        return self._single[omega]

    def _exchange_of_orbitals(self, C, omega):
        return self._of(omega).exchange(C) if C.shape[1] else np.zeros((len(C),) * 2)

    def incremental_build(self, P, C_occ=None, omegas=()):
        if C_occ is None:
            return super().incremental_build(P, C_occ, omegas)
        changes = [[self._of(omega).incremental_build(before) for before in C_occ] for omega in omegas]
        coulomb_change = self._coulomb_change(P)

        def change(P_new, C_new):
            of_operators = ([of_spin(C) for of_spin, C in zip(of, C_new, strict=True)] for of in changes)
            return coulomb_change(P_new), [np.stack(K) for K in of_operators]

        return change


DEVICE_SHARE = 0.45
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

    def __init__(self, molecule, exact_exchange: bool, device, memory_limit=None, auxiliary_basis=None):
        self.molecule, self._device, self._chosen = molecule, device, auxiliary_basis
        found = two_electron.auxiliary_basis(molecule, exact_exchange, name=auxiliary_basis)
        self.fitting_functions, self.auxiliary_basis = found
        self.n_auxiliary, self._n_pairs = two_electron.fitting_tensor_size(molecule, self.fitting_functions)
        self._memory_limit = 0.7 * available_memory() if memory_limit is None else memory_limit
        self._on_device: dict[float, DeviceTensor] = {}
        self._tensors, self._with_exchange, self._whole = {}, True, True
        self._check_memory(self._bytes_of(1, True))

    @staticmethod
    def has_room(molecule, exact_exchange, device, auxiliary_basis=None) -> bool:
        """Whether the tensors of a functional's operators, pairs (omega, fraction), fit into the device's memory."""
        auxiliary, _ = two_electron.auxiliary_basis(molecule, bool(exact_exchange), name=auxiliary_basis)
        n_operators = len({0.0, *(omega for omega, _ in exact_exchange)})
        size = np.prod(two_electron.fitting_tensor_size(molecule, auxiliary), dtype=float)
        limit = (device.memory_stats() or {}).get("bytes_limit", np.inf)
        return 8.0 * n_operators * size <= DEVICE_SHARE * limit

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
