"""Two-electron integrals from PySCF, packed, integral-direct or three-centre; PySCF's energies of second order.

`omega` selects the operator: 0 is 1/r, a positive value its long-range part erf(omega r)/r. Chemists' notation (ij|kl).
"""

import contextlib
import ctypes
import threading
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from pyscf import gto, lib, mp, scf
from pyscf.data import elements
from pyscf.df import addons
from pyscf.mp import dfmp2, dfump2, mp2, ump2
from pyscf.scf import _vhf

from dftfd.errors import InputError, NumericalError
from dftfd.libcint.basis_sets import fitting_set, has_functions, load_basis, normalise_basis_name, to_lists
from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.runtime import memory
from dftfd.runtime.threads import share_out, worker_count

LINEAR_DEPENDENCE = 1e-7
"""Eigenvalues of the Coulomb metric below this are dropped where its Cholesky factor is lost in rounding errors."""
_ROUNDING = 10 * np.finfo(float).eps
"""Lowest eigenvalue, as a part of the norm of a metric, of which a Cholesky factor knows a digit."""

WORK_BYTES = 64 * 2**20
"""Buffers of PySCF while it builds a three-centre tensor; larger ones cost page faults and gain nothing."""

_ROWS = 128
"""Rows of a triangular factor that are eliminated at a time."""

_RANGE_LOCK = threading.RLock()


@contextlib.contextmanager
def mole_with_range(molecule, omega):
    """The molecule's Mole with its Coulomb operator set to `omega`; PySCF keeps that in a shared array."""
    mole = to_pyscf(molecule)
    with _RANGE_LOCK, mole.with_range_coulomb(omega):
        yield mole


def packed_eri(molecule, omega: float = 0.0) -> np.ndarray:
    """(ij|kl) with its eightfold symmetry used: pairs of pairs i >= j, k >= l, ij >= kl, as one vector."""
    with mole_with_range(molecule, omega) as mole:
        return mole.intor("int2e", aosym="s8")


def eri(molecule, omega: float = 0.0) -> np.ndarray:
    """All (ij|kl), (ao, ao, ao, ao)."""
    with mole_with_range(molecule, omega) as mole:
        return mole.intor("int2e")


def unpacked_pairs(tensor, n_ao: int) -> np.ndarray:
    """(aux, ao, ao) from `fitting_tensor`."""
    full, (rows, columns) = np.empty((len(tensor), n_ao, n_ao)), np.tril_indices(n_ao)
    full[:, rows, columns] = full[:, columns, rows] = tensor
    return full


def unpack(packed, out) -> np.ndarray:
    """Symmetric matrices (n, ao, ao) from their lower triangles (n, ao (ao + 1) / 2), written to `out`."""
    return lib.unpack_tril(packed, out=out)


def contract_packed_eri(eri, density, coulomb: bool, exchange: bool, symmetric: bool = True):
    """J and K (n, ao, ao) of densities (n, ao, ao) from `packed_eri`; None for what was not asked.

    K_mn = sum_rs (mr|sn) P_rs; J only of symmetric densities.
    """
    return _vhf.incore(eri, np.ascontiguousarray(density), int(symmetric), coulomb, exchange)


class DirectCoulombExchange:
    """J and K as from `contract_packed_eri`, with integrals computed on the fly.

    threshold: contributions that the Schwarz inequality bounds below it are skipped.
    """

    def __init__(self, molecule, threshold: float = 1e-13):
        self._molecule, self._threshold = molecule, threshold
        self._bounds: dict[float, object] = {}

    def __call__(self, density, coulomb: bool, exchange: bool, omega: float = 0.0, symmetric: bool = True):
        with mole_with_range(self._molecule, omega) as mole:
            if omega not in self._bounds:
                names = ("CVHFnrs8_prescreen", "CVHFnr_int2e_q_cond", "CVHFnr_dm_cond")
                self._bounds[omega] = _vhf._VHFOpt(mole, "int2e", *names, self._threshold)
            density = np.ascontiguousarray(density)
            environment = mole._atm, mole._bas, mole._env, self._bounds[omega]
            return _vhf.direct(density, *environment, int(symmetric), mole.cart, coulomb, exchange)


def auxiliary_basis(molecule, exact_exchange: bool, pairs: bool = False, name: str | None = None) -> tuple[dict, str]:
    """Fitting functions of a set, or as PySCF chooses them, and their name: {label: shells}, 'def2-universal-jfit'.

    One orbital basis for all atoms selects a set of PySCF's tables, a Coulomb (j) fit for pure functionals and a
    Coulomb-and-exchange (jk) fit with exact exchange. Where they have none, or where atoms carry different basis sets,
    PySCF takes the jk fit of each element's own orbital basis, or even-tempered functions from its exponents.
    name: of the set, such as 'def2-universal-jkfit'.
    pairs: those for products of occupied and empty orbitals instead, of perturbation theory.
    """
    mole = to_pyscf(molecule)
    if name is not None:
        key = fitting_set(name)
        atoms = zip(mole._atom, molecule.symbols, strict=True)
        return {label: to_lists(load_basis(key, symbol)) for (label, _), symbol in atoms}, name
    names = set(molecule.atom_basis)
    with quiet():
        if len(names) == 1 and isinstance(molecule.atom_basis[0], str):
            chosen = addons.predefined_auxbasis(mole, molecule.atom_basis[0], "HF" if exact_exchange else "PBE", pairs)
            if chosen is not None and (table := _tabulated(mole, chosen)):
                return table, chosen
    atoms = zip(mole._atom, molecule.atom_basis, molecule.symbols, strict=True)
    chosen = {label: (_fitting_set(mole, basis, symbol, pairs), symbol) for (label, _), basis, symbol in atoms}
    tempered = addons.aug_etb(mole) if any(name is None for name, _ in chosen.values()) else {}
    table = {
        label: tempered[label] if name is None else to_lists(load_basis(normalise_basis_name(name), symbol))
        for label, (name, symbol) in chosen.items()
    }
    return table, ", ".join(sorted({name or "even-tempered" for name, _ in chosen.values()}))


def _fitting_set(mole, basis, symbol, pairs):
    """Name of the fit of one atom's orbital basis; None where there is none, or none for its element."""
    if not isinstance(basis, str):
        return None
    family = f"{basis.split('g')[0]}g" if gto.basis._is_pople_basis(basis) else basis  # 6-31g(d): 6-31g
    name = addons.predefined_auxbasis(mole, family, "HF", pairs)
    try:
        return None if name is None or not load_basis(normalise_basis_name(name), symbol) else name
    except InputError:
        return None


def _tabulated(mole, name):
    """Shells of a fitting set for every kind of atom, or None where it lacks one of the elements."""
    symbols = {label: gto.mole._std_symbol_without_ghost(label) for label, _ in mole._atom}
    try:
        key = normalise_basis_name(name)
        if not all(has_functions(key, symbol) for symbol in symbols.values()):
            return None  # before load_basis looks for sets to name in its error
        return {label: to_lists(load_basis(key, symbol)) for label, symbol in symbols.items()}
    except InputError:
        return None


FEW = {0: (0.2, 0.8, 3.2, 16.0, 80.0, 400.0), 1: (0.3, 1.2), 2: (0.6,)}, {0: (0.25, 1.0), 1: (0.6,)}
"""Exponents [bohr^-2] by angular momentum of the few fitting functions of an atom, and of hydrogen or helium."""


def few_fitting_functions(molecule) -> dict:
    """A tenth of a fitting basis, which gives exchange to a few percent, in the form of `auxiliary_basis`.

    The idea is that of minimal auxiliary basis sets: Z. Zhou, F. Della Sala, S. M. Parker, J. Phys. Chem. Lett. 14,
    1968 (2023). doi:10.1021/acs.jpclett.2c03698
    """
    table = {}
    for (label, _), Z in zip(to_pyscf(molecule)._atom, molecule.atomic_numbers, strict=True):
        table[label] = [[l, [x, 1.0]] for l, exponents in FEW[int(Z <= 2)].items() for x in exponents]
    return table


def fitting_tensor_size(molecule, auxiliary: dict) -> tuple[int, int]:
    """Rows and columns of `fitting_tensor`: auxiliary functions and packed pairs of basis functions."""
    n = int(to_pyscf(molecule).nao)
    with quiet():
        return int(addons.make_auxmol(to_pyscf(molecule), auxiliary).nao), n * (n + 1) // 2


def fitting_tensor(molecule, auxiliary: dict, omega: float = 0.0) -> np.ndarray:
    """B_Q,ij with (ij|kl) ~ sum_Q B_Q,ij B_Q,kl and i >= j packed, (aux, ao (ao + 1) / 2).

    B = L^-1 (Q|ij) with the Cholesky factor L of the Coulomb metric (Q|R), or its inverse square root without the
    eigenvalues below LINEAR_DEPENDENCE where the metric is not positive definite (`cholesky_factor`).
    """
    root = InverseRoot(molecule, auxiliary, omega)
    _, n_pairs = fitting_tensor_size(molecule, auxiliary)
    B = memory.empty(root.rank * n_pairs).reshape(root.rank, n_pairs)

    def write(pairs, integrals):
        B[:, pairs[0] : pairs[-1] + 1] = root(integrals)

    on_three_centre_blocks(molecule, auxiliary, np.arange(n_pairs), write, omega)
    return B


def on_three_centre_blocks(molecule, auxiliary: dict, pairs, code, omega: float = 0.0) -> list:
    """code(pairs of a block, (Q|ij) (aux, pair)) for blocks of some packed pairs, ascending (n,), on all workers.

    Blocks hold whole shells, one at least, and the workers' together about WORK_BYTES / 3; their integrals may be
    overwritten. The list has what `code` returned.
    """
    with mole_with_range(molecule, omega) as mole, quiet():
        auxmol = addons.make_auxmol(mole, auxiliary)
        tables = gto.conc_env(mole._atm, mole._bas, mole._env, auxmol._atm, auxmol._bas, auxmol._env)
        name, shells = mole._add_suffix("int3c2e"), mole.nbas
        optimiser = gto.moleintor.make_cintopt(mole._atm, mole._bas, mole._env, name)
        first_pair = np.array([i * (i + 1) // 2 for i in mole.ao_loc_nr()])
        width = max(1, WORK_BYTES // (24 * auxmol.nao * worker_count()))
        blocks, start = [], 0
        while start < shells:
            stop = max(start + 1, int(np.searchsorted(first_pair, first_pair[start] + width, side="right")) - 1)
            chosen = pairs[slice(*np.searchsorted(pairs, first_pair[[start, stop]]))]
            if len(chosen):
                blocks.append((start, stop, chosen))
            start = stop

        def done(blocks):
            found = []
            for start, stop, chosen in blocks:
                part = start, stop, 0, shells, shells, shells + auxmol.nbas
                values = gto.moleintor.getints3c(name, *tables, part, 1, "s2ij", cintopt=optimiser).T
                if len(chosen) < values.shape[1]:
                    values = values.take(chosen - first_pair[start], axis=1, mode="clip")
                found.append(code(chosen, values))
            return found

        return [one for part in share_out(blocks, done) for one in part]


def three_centre_integrals(molecule, auxiliary: dict, omega: float = 0.0) -> np.ndarray:
    """(Q|ij) packed over i >= j, (aux, ao (ao + 1) / 2)."""
    shape = fitting_tensor_size(molecule, auxiliary)
    found = np.empty(shape)

    def write(pairs, integrals):
        found[:, pairs[0] : pairs[-1] + 1] = integrals

    on_three_centre_blocks(molecule, auxiliary, np.arange(shape[1]), write, omega)
    return found


def coulomb_metric(molecule, auxiliary: dict, omega: float = 0.0) -> np.ndarray:
    """(Q|R) of the fitting functions, (aux, aux)."""
    with mole_with_range(molecule, omega) as mole, quiet():
        return addons.make_auxmol(mole, auxiliary).intor("int2c2e", hermi=1)


def cholesky_factor(V) -> np.ndarray | None:
    """L (n, n) of V = L L^T, lower; None where V is not positive definite by more than its rounding errors.

    Whether the factorisation ends is a matter of chance there: with metrics of HSE06's range (lowest eigenvalues of
    1e-16, highest of 200) it may, with exchange that is 6e-3 hartree off.
    """
    try:
        L = scipy.linalg.cholesky(V, lower=True)
    except scipy.linalg.LinAlgError:
        return None
    norm = np.abs(V).sum(axis=0).max(initial=0.0)
    reciprocal, _ = scipy.linalg.lapack.dpocon(L, norm, uplo="L")  # about the lowest eigenvalue over the highest
    return L if reciprocal > _ROUNDING else None


class InverseRoot:
    """L^-1 of the Coulomb metric V = L L^T of fitting functions, or its inverse root without eigenvalues next to zero.

    With it B = L^-1 (Q|ij) is `fitting_tensor`.   norms: sqrt V_QQ (aux,), 1 where that is not positive.
    factor: L (aux, aux), or None, and then inverse (rank, aux).
    """

    def __init__(self, molecule, auxiliary: dict, omega: float = 0.0):
        V = coulomb_metric(molecule, auxiliary, omega)
        self.factor: Any = None
        self.inverse: Any = None
        squares = V.diagonal()  # of a long-range operator they may be rounding errors
        self.norms = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        try:
            self.factor = cholesky_factor(V)
        except ValueError as error:
            message = f"the Coulomb metric of the auxiliary basis could not be factorised: {error}."
            raise NumericalError(message) from error
        if self.factor is None:
            s, U = scipy.linalg.eigh(V)
            kept = s > LINEAR_DEPENDENCE
            self.inverse = U[:, kept].T / np.sqrt(s[kept])[:, None]

    @property
    def rank(self) -> int:
        """Rows of B."""
        return len(self.inverse if self.factor is None else self.factor)

    def __call__(self, X) -> np.ndarray:
        """L^-1 X of X (aux, n), which is overwritten.

        Forward substitution by blocks of rows, all of it matrix products, which workers can form side by side.
        """
        if self.factor is None:
            return self.inverse @ X
        for start, inverse in zip(range(0, len(X), _ROWS), self._inverse_blocks, strict=True):
            rows = slice(start, start + _ROWS)
            X[rows] -= self.factor[rows, :start] @ X[:start]
            X[rows] = inverse @ X[rows]
        return X

    @cached_property
    def _inverse_blocks(self):
        """Inverses of the blocks on the diagonal of L."""
        blocks = [self.factor[k : k + _ROWS, k : k + _ROWS] for k in range(0, len(self.factor), _ROWS)]
        return [scipy.linalg.solve_triangular(block, np.eye(len(block)), lower=True) for block in blocks]

    def transposed(self, Y) -> np.ndarray:
        """L^-T Y of Y (aux, n)."""
        if self.factor is None:
            return self.inverse.T @ Y
        return scipy.linalg.solve_triangular(self.factor, Y, lower=True, trans=1, check_finite=False)


def schwarz_bounds(molecule) -> np.ndarray:
    """sqrt of the largest (ij|ij) of the shells of each pair of basis functions, packed over i >= j, (pair,)."""
    mole = to_pyscf(molecule)
    of_shells = largest_integrals(mole)
    widths = np.diff(mole.ao_loc_nr())
    return np.repeat(np.repeat(of_shells, widths, axis=0), widths, axis=1)[np.tril_indices(mole.nao)]


def largest_integrals(mole) -> np.ndarray:
    """sqrt of the largest (ij|ij) of each pair of shells, (shell, shell), by PySCF."""
    bounds = np.empty((mole.nbas, mole.nbas))
    _vhf.libcvhf.CVHFnr_int2e_q_cond(
        *(getattr(_vhf.libcvhf, mole._add_suffix("int2e")), lib.c_null_ptr(), bounds.ctypes, mole.ao_loc_nr().ctypes),
        *(mole._atm.ctypes, ctypes.c_int(mole.natm), mole._bas.ctypes, ctypes.c_int(mole.nbas), mole._env.ctypes),
    )
    return bounds


MEGABYTE = 1e6


def core_orbitals(molecule) -> int:
    """Orbitals of closed inner shells, those of core potentials not among them; ghosts have none."""
    found = 0
    for Z, shown, ghost in zip(molecule.atomic_numbers, molecule.nuclear_charges, molecule.ghost, strict=True):
        if not ghost:
            found += max(0, int(elements.chemcore_atm[Z] - round(Z - shown) // 2))
    return found


def second_order_energies(
    molecule, mo_energy, mo_coeff, mo_occ, fitted: bool, frozen: int, max_memory: float
) -> tuple[float, float]:
    """Energies [hartree] of pairs of opposite and of equal spins, at whatever orbitals and orbital energies.

    mo_energy, mo_occ (spin, mo), mo_coeff (spin, ao, mo): full and empty orbitals.   fitted: in PySCF's choice of
    functions for it; else exact.   frozen: how many of the lowest of each spin stay out.   max_memory: bytes.
    A spin without active occupied or without empty orbitals has no excitations and enters no pair.

    F. Weigend, M. Haeser, Theor. Chem. Acc. 97, 331 (1997). doi:10.1007/s002140050269
    """
    excited = [s for s, n in enumerate(mo_occ) if (n > 0).sum() > frozen and (n == 0).any()]
    if not excited:
        return 0.0, 0.0
    if len(excited) < len(mo_occ):  # pairs of one spin alone: half of those of a closed shell of its orbitals
        alone = mo_energy[excited], mo_coeff[excited], 2.0 * mo_occ[excited]
        return 0.0, second_order_energies(molecule, *alone, fitted, frozen, max_memory)[1] / 2.0
    mole = to_pyscf(molecule).copy()
    restricted = len(mo_occ) == 1
    field = (scf.RHF if restricted else scf.UHF)(mole)
    of_spins = lambda a: np.array(a[0] if restricted else a)
    field.mo_energy, field.mo_coeff, field.mo_occ = map(of_spins, (mo_energy, mo_coeff, mo_occ))
    field.converged, field.max_memory = True, max_memory / MEGABYTE
    if fitted:
        code = dfmp2 if restricted else dfump2
        method = (dfmp2.DFRMP2 if restricted else dfump2.DFUMP2)(field, frozen=frozen)
        method.with_df.auxbasis, _ = auxiliary_basis(molecule, True, pairs=True)
    else:
        code, method = (mp2, mp.mp2.RMP2(field, frozen=frozen)) if restricted else (ump2, ump2.UMP2(field, frozen))
    method.verbose, method.max_memory = 0, max_memory / MEGABYTE
    with quiet():
        found, _ = code.kernel(method, with_t2=False)
    energies = float(found.e_corr_os), float(found.e_corr_ss)
    if not np.isfinite(energies).all():
        raise NumericalError("the energy of second order is NaN or Inf; occupied and empty orbitals are degenerate.")
    return energies
