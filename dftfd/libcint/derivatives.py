"""First derivatives of integrals with respect to the positions of the nuclei, contracted with density matrices.

Libcint differentiates a basis function by the electron's position; moving the function's centre is minus that. Moving
the centre of an operator moves both functions the other way.
"""

import numpy as np
from pyscf.grad import rhf
from pyscf.gto import ATOM_OF
from pyscf.x2c import sfx2c1e, sfx2c1e_grad

from dftfd.libcint.mole import ao_slices, quiet, to_pyscf
from dftfd.libcint.moving_centres import MovingCentres
from dftfd.libcint.two_electron import mole_with_range


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
