"""First derivatives of integrals with respect to the positions of the nuclei, contracted with density matrices, and

with respect to the range omega of erf(omega r)/r.

Libcint differentiates a basis function by the electron's position; moving the function's centre is minus that. Moving
the centre of an operator moves both functions the other way.

An integral W_mn <m|O|n> depends on the centres of m and n and, where the operator O belongs to an atom, its owner, on
that one's. Everything depends on differences: the derivative by the owner is minus the sum of the others. Orbitals are
differentiated by the electron's position here; moving their centres is minus that.

libcint has none of d/domega erf(omega r)/r = 2 pi^(-1/2) exp(-omega^2 r^2), so they are central differences of the
integrals, which are analytic in omega > 0: of eighth order, with a step that is a small part of omega. The difference
of sixth order on the same nodes tells how good they are.
"""

from collections.abc import Callable

import numpy as np
from pyscf.grad import rhf
from pyscf.gto import ATOM_OF
from pyscf.x2c import sfx2c1e, sfx2c1e_grad

from dftfd.errors import NumericalError, UnsupportedError
from dftfd.libcint.mole import ao_slices, quiet, to_pyscf
from dftfd.libcint.two_electron import mole_with_range


class MovingCentres:
    """The orbitals of a molecule by their atoms."""

    def __init__(self, molecule):
        slices = ao_slices(molecule)
        self.n_atoms = len(slices)
        self.atom_of_ao = np.repeat(np.arange(len(slices)), [stop - start for start, stop in slices])

    def add_first(self, found, Z, C, owner: int | None) -> None:
        """Adds to `found` (atom, 3, orbital, ao) the matrices' derivatives on orbitals C (orbital, ao).

        Z: (3, ao, ao), <nabla_x m|O|n>.
        """
        of_left, of_right = (Z @ C.T).transpose(0, 2, 1), C @ Z  # (3, orbital, ao)
        for atom in range(self.n_atoms):
            own = self.atom_of_ao == atom
            found[atom][:, :, own] -= of_left[:, :, own]
            found[atom] -= np.matmul(C[:, own], Z[:, own])
        if owner is not None:
            found[owner] += of_left + of_right

    def pairs(self, S, twice, aos=None) -> tuple[np.ndarray, list[int]]:
        """K (atom, 3, atom, 3), sums over orbitals by their atoms, and which atoms these are.

        S: (3, 3, ao, ao), W_mn <nabla_x m|O|nabla_y n>.   twice: (3, 3, ao), sum_n W_mn <nabla_x nabla_y m|O|n>.
        aos: the orbitals of both, ascending, where they are not all.
        """
        atoms = self.atom_of_ao if aos is None else self.atom_of_ao[aos]
        present, starts = [atom for atom, _ in runs(atoms)], [rows.start for _, rows in runs(atoms)]
        K = np.add.reduceat(np.add.reduceat(S, starts, axis=2), starts, axis=3).transpose(2, 0, 3, 1).copy()
        diagonal = np.add.reduceat(twice, starts, axis=2)
        for k in range(len(present)):
            K[k, :, k] += diagonal[:, :, k]
        return K, present

    def add_second(self, H, K, present, owner: int | None) -> None:
        """Adds K of `pairs`, and what the owner's motion makes of it, to H (atom, 3, atom, 3)."""
        for a, k in zip(present, K, strict=True):
            for b, part in zip(present, k.transpose(1, 0, 2), strict=True):
                H[a, :, b] += part
        if owner is None:
            return
        of_rows = K.sum(axis=0)
        for b, part in zip(present, of_rows.transpose(1, 0, 2), strict=True):
            H[owner, :, b] -= part
        for a, part in zip(present, K.sum(axis=2), strict=True):
            H[a, :, owner] -= part
        H[owner, :, owner] += of_rows.sum(axis=1)


def runs(atoms):
    """(atom, slice of the orbitals that are its) of ascending numbers of atoms (ao,)."""
    starts = np.flatnonzero(np.diff(atoms, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(atoms)], strict=True):
        yield int(atoms[start]), slice(int(start), int(stop))


def atom_sums(molecule, per_ao) -> np.ndarray:
    """Sums over the basis functions of each atom, (atom, 3) from (3, ao)."""
    return np.array([per_ao[:, start:stop].sum(axis=1) for start, stop in ao_slices(molecule)])


def overlap_derivative(molecule, W) -> np.ndarray:
    """d tr(W S)/dR (atom, 3) of a symmetric matrix W (ao, ao)."""
    nabla = to_pyscf(molecule).intor("int1e_ipovlp", comp=3)
    return -2.0 * atom_sums(molecule, np.einsum("xmn,mn->xm", nabla, W))


def kinetic_energy_derivative(molecule, P) -> np.ndarray:
    """d tr(P T)/dR (atom, 3) [hartree/bohr] of the kinetic energy; P (ao, ao), symmetric."""
    return -2.0 * atom_sums(molecule, np.einsum("xmn,mn->xm", to_pyscf(molecule).intor("int1e_ipkin", comp=3), P))


def core_potential_derivative(molecule, P) -> np.ndarray:
    """d tr(P V)/dR (atom, 3) [hartree/bohr] of core potentials; P (ao, ao), symmetric."""
    mole = to_pyscf(molecule)
    if not len(mole._ecpbas):
        return np.zeros((molecule.n_atoms, 3))
    gradient = -2.0 * atom_sums(molecule, np.einsum("xmn,mn->xm", mole.intor("ECPscalar_ipnuc", comp=3), P))
    for atom in set(mole._ecpbas[:, ATOM_OF]):
        with mole.with_rinv_at_nucleus(atom):
            gradient[atom] += 2.0 * np.einsum("xmn,mn->x", mole.intor("ECPscalar_iprinv", comp=3), P)
    return gradient


def x2c_core_hamiltonian_derivative(molecule, P) -> np.ndarray:
    """d tr(P H)/dR (atom, 3) [hartree/bohr] for the Hamiltonian of `x2c_core_hamiltonian`; P (ao, ao), symmetric."""
    with quiet():
        derivative_of_atom = sfx2c1e_grad.hcore_grad_generator(sfx2c1e.SpinFreeX2C(to_pyscf(molecule)))
        return np.array([np.einsum("xmn,mn->x", derivative_of_atom(a), P) for a in range(molecule.n_atoms)])


def core_hamiltonian_curvature(molecule, P, C) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """d2 tr(P H)/dRdR (atom, 3, atom, 3), and per spin dH/dR C (atom, 3, orbital, ao) of orbitals C (orbital, ao).

    None with core potentials. P: (ao, ao), symmetric.
    """
    mole, centres = to_pyscf(molecule), MovingCentres(molecule)
    if len(mole._ecpbas):
        return None
    n, n_ao = centres.n_atoms, mole.nao
    H, on_orbitals = np.zeros((n, 3, n, 3)), [np.zeros((n, 3, *C_s.shape)) for C_s in C]

    def add(kind, factor, owner):
        """<m|O|n> of an owner, times a factor; kind: how libcint calls its derivatives."""
        matrices = (factor * mole.intor(name.format(kind)) for name in ("int1e_ip{}", "int1e_ip{}ip", "int1e_ipip{}"))
        Z, S, D = (matrix.reshape(-1, n_ao, n_ao) for matrix in matrices)
        S, twice = 2.0 * P * S.reshape(3, 3, n_ao, n_ao), 2.0 * np.einsum("kmn,mn->km", D, P).reshape(3, 3, n_ao)
        centres.add_second(H, *centres.pairs(S, twice), owner)
        for found, C_s in zip(on_orbitals, C, strict=True):
            centres.add_first(found, Z, C_s, owner)

    add("kin", 1.0, None)
    for atom, charge in enumerate(mole.atom_charges()):
        if charge:
            with mole.with_rinv_at_nucleus(atom):
                add("rinv", -charge, atom)
    return H, on_orbitals


def electric_field_derivative(molecule, P, field) -> np.ndarray:
    """d tr(P F . r)/dR (atom, 3) of the position operator r and a field F (3,)."""
    mole = to_pyscf(molecule)
    with mole.with_common_origin((0.0, 0.0, 0.0)):
        r_nabla = mole.intor("int1e_irp", comp=9).reshape(3, 3, mole.nao, mole.nao)  # <m| r_i nabla_x |n>
    return -2.0 * atom_sums(molecule, np.einsum("i,ixmn,mn->xn", field, r_nabla, P, optimize=True))


def exact_coulomb_exchange_derivative(molecule, P, fraction: float) -> np.ndarray:
    """d/dR (atom, 3) of 1/2 sum P_ij (ij|kl) P_kl - fraction/2 sum_s P_s,ij (ik|jl) P_s,kl for symmetric P_s.

    P: (spin, ao, ao), whose sum is the first term's. The integrals are computed once for both terms.
    """
    mole, total = to_pyscf(molecule), P.sum(axis=0)
    if not fraction:
        vj = rhf.get_j(mole, total)  # -sum_kl (nabla i j|kl) P_kl
        return 2.0 * atom_sums(molecule, np.einsum("xmn,mn->xm", vj, total))
    vj, vk = rhf.get_jk(mole, P)
    per_ao = np.einsum("sxmn,mn->xm", vj, total) - fraction * np.einsum("sxmn,smn->xm", vk, P)
    return 2.0 * atom_sums(molecule, per_ao)


def exact_exchange_derivative(molecule, P, omega: float) -> np.ndarray:
    """d/dR (atom, 3) of 1/2 sum_s P_s,ij (ik|jl) P_s,kl for P_s (spin, ao, ao), symmetric or antisymmetric.

    omega as in integrals.
    """
    with mole_with_range(molecule, omega) as mole:
        vk = rhf.get_k(mole, P)
    return 2.0 * atom_sums(molecule, np.einsum("sxmn,smn->xm", vk, P))


STEP = 0.02
"""Part of omega between two nodes. The nearest singularity of an integral in the plane of complex omega is omega away,
so that the error of eighth order is about 1e-12, as that of rounding is."""

AGREEMENT = 1e-8
"""Largest difference of eighth and sixth order, as a part of the largest derivative; in practice it is 1e-9 or less."""

ROUNDING = 1e-13
"""Errors of integrals, as a part of the largest."""

_EIGHTH = {1: (4 / 5, -1 / 5, 4 / 105, -1 / 280), 2: (8 / 5, -1 / 5, 8 / 315, -1 / 560)}
_SIXTH = {1: (3 / 4, -3 / 20, 1 / 60, 0.0), 2: (3 / 2, -3 / 20, 1 / 90, 0.0)}
"""Weights of f(x + kh), k = 1 to 4, in h f' and h^2 f''; that of f(x - kh) is minus this in the first, the same in the
second, where f(x) has minus the sum of all."""

_SAMPLE = 10**6
"""Numbers that both orders are compared on."""


def derivative_by_range(code: Callable[[float], np.ndarray], omega: float, order: int = 1) -> np.ndarray:
    """The derivative of code(omega), a new array linear in integrals, of order 1 or 2 by omega [1/bohr].

    Raises NumericalError where differences of two orders disagree, UnsupportedError beyond the second derivative.
    """
    if order not in _EIGHTH:
        raise UnsupportedError(
            f"the derivative of order {order} with respect to omega of exact exchange is not available, only the "
            "first and second."
        )
    step, sign = STEP * omega, (-1) ** order
    nodes = [(k, w, v) for k, (w, v) in enumerate(zip(_EIGHTH[order], _SIXTH[order], strict=True), start=1)]
    rows = [(s * k, s**order * w, s**order * v) for k, w, v in nodes for s in (1, -1)]
    if sign > 0:
        rows.append((0, -2.0 * sum(_EIGHTH[order]), -2.0 * sum(_SIXTH[order])))
    found, difference, largest = np.zeros(()), np.zeros(()), 0.0
    for k, weight, weight_of_sixth in rows:
        values = code(omega + k * step)
        sample = np.ravel(values)[:: max(1, values.size // _SAMPLE)]
        difference = difference + (weight - weight_of_sixth) * sample
        largest = max(largest, float(np.abs(sample).max(initial=0.0)))
        values *= weight
        found = found + values if found.ndim < values.ndim else np.add(found, values, out=found)
    error, scale = np.abs(difference).max(initial=0.0), np.abs(found).max(initial=0.0)
    if not error <= AGREEMENT * scale + ROUNDING * largest:
        raise NumericalError(
            f"the derivative of exact exchange by its range at omega = {omega:g} is uncertain by {error:.1e} of "
            f"{scale:.1e} hartree; take an omega that is neither tiny nor huge."
        )
    found /= step**order
    return found
