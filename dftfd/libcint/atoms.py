"""Free atoms as PySCF's starting densities use them: a minimal basis of natural orbitals, spherical Hartree-Fock atoms.

PySCF's own guesses look their basis set up by its name, and take a file of that name in the current folder for it,
whose lines they evaluate. Here the shells come as numbers from `load_basis`; the densities are the same.
"""

import numpy as np
import scipy.linalg
from pyscf import gto
from pyscf.data.elements import NRSRHF_CONFIGURATION
from pyscf.scf import addons, atom_hf

from dftfd.errors import InputError
from dftfd.libcint.basis_sets import load_basis, to_lists

MINIMAL_BASIS = "ano"
"""Roos' atomic natural orbitals: the first ones of each angular momentum are a minimal basis."""

_HEAVIEST = 96
"""The last element whose natural orbitals are tabulated."""


def minimal_basis_density(mole: gto.Mole) -> np.ndarray:
    """Total density (ao, ao) of neutral atoms in a minimal basis, projected on the functions of a Mole."""
    if any(gto.charge(label) > _HEAVIEST for label, _ in mole._atom):
        return superposed_atoms(mole)
    shells, occupation, atoms = {}, {}, []
    for a, (label, position) in enumerate(mole._atom):
        if gto.is_ghost_atom(label):
            continue
        if label not in shells:
            occupation[label], shells[label] = _minimal_basis(mole, label, mole.atom_nelec_core(a))
        atoms.append((label, position))
    if not atoms:
        return np.zeros((mole.nao, mole.nao))
    minimal = _bare_mole(atoms, shells)
    C = addons.project_mo_nr2nr(minimal, np.eye(minimal.nao), mole)
    return (C * np.concatenate([occupation[label] for label, _ in atoms])) @ C.T


def _minimal_basis(mole, label, n_core):
    """Occupations (function,) and shells of one neutral atom's valence: natural orbitals, or its own functions.

    The latter with a core potential whose contracted functions are atomic orbitals already.
    """
    symbol = gto.mole._std_symbol(label)
    core, natural = _core_shells(n_core, symbol), to_lists(load_basis(MINIMAL_BASIS, symbol))
    of_shells: list[np.ndarray] = []
    shells: list[list] = []
    for l in range(4):
        n_full, rest = atom_hf.frac_occ(symbol, l)
        if n_full >= core[l]:  # else the core has taken what the neutral atom leaves open
            of_shells.append(np.repeat([2.0] * (n_full - core[l]) + [rest], 2 * l + 1))
            rows = natural[l][1:]
            shells.append([l, *(row[:1] + row[1 + core[l] : n_full + 2] for row in rows)])
    occupations = np.concatenate(of_shells)
    if n_core == 0:
        return occupations, shells
    own = sorted((shell for shell in mole._basis[label] if shell[0] < 4), key=lambda shell: shell[0])
    filled = np.concatenate([_valence(own, l, symbol, core) for l in range(4)])
    overlap = gto.intor_cross("int1e_ovlp", *(_bare_mole([(label, np.zeros(3))], {label: b}) for b in (own, shells)))
    block = overlap[filled > 0][:, occupations > 0]
    is_atomic = block.shape[0] == block.shape[1] and abs(np.linalg.det(block)) > 0.1
    return (filled, own) if is_atomic else (occupations, shells)


def _valence(shells, l, symbol, core):
    """Occupations of an atom's contracted functions of one angular momentum, the lowest ones first."""
    n_functions = sum(len(shell[-1]) - 1 for shell in shells if shell[0] == l)
    n_full, rest = atom_hf.frac_occ(symbol, l)
    n_full -= core[l]
    if n_full + (rest > 0) > n_functions:
        raise InputError(
            f"the basis of {symbol} has {n_functions} functions with l = {l}, too few for the free atom's electrons; "
            "take a larger one, or guess='core'."
        )
    occupations = np.zeros(n_functions)
    occupations[: max(n_full, 0)] = 2.0
    if rest > 0:
        occupations[n_full] = rest
    return np.repeat(occupations, 2 * l + 1)


def _core_shells(n_core, symbol):
    """Shells of each angular momentum, s to f, that a core potential replaces."""
    try:
        return gto.ecp.core_configuration(n_core, atom_symbol=symbol)
    except RuntimeError as error:
        raise InputError(
            f"no shells of {symbol} make up a core of {n_core} electrons, so there is no guess from free atoms; "
            "take guess='core'."
        ) from error


def _bare_mole(atoms, shells):
    """A Mole with functions and nothing else, for overlaps."""
    mole = gto.Mole()
    mole._atm, mole._bas, mole._env = mole.make_env(atoms, shells, [])
    mole._built = True
    return mole


def superposed_atoms(mole: gto.Mole) -> np.ndarray:
    """Total density (ao, ao) of neutral spherical Hartree-Fock atoms in the functions of a Mole."""
    energies, C, occupations = atomic_orbitals(mole)
    return (C * occupations) @ C.T


def atomic_orbitals(mole: gto.Mole) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orbitals of all atoms, each in its own functions: energies (mo,) [hartree], C (ao, mo), occupations (mo,)."""
    atoms = {}
    for a, (label, _) in enumerate(mole._atom):
        if label not in atoms:
            atoms[label] = _spherical_atom(mole, a)
    energies, C, occupations = zip(*(atoms[label] for label, _ in mole._atom), strict=True)
    C = scipy.linalg.block_diag(*C)
    if mole.cart:
        C = mole.cart2sph_coeff(normalized="sp") @ C
    return np.concatenate(energies), C, np.concatenate(occupations)


def _spherical_atom(mole, a):
    """Energies, coefficients and occupations of one neutral atom with the occupations averaged over directions."""
    label, position = mole._atom[a]
    atom = gto.Mole()
    atom.verbose, atom.symmetry, atom.unit, atom.max_memory = 0, False, "Bohr", mole.max_memory
    atom.atom, atom.basis, atom.spin = [(label, tuple(position))], {label: mole._basis[label]}, None
    atom.ecp = {label: mole._ecp[label]} if label in mole._ecp else {}
    atom.build(dump_input=False, parse_arg=False)
    if atom.nelectron == 0 or atom.nao == 0:
        return np.zeros(atom.nao), np.zeros((atom.nao, atom.nao)), np.zeros(atom.nao)
    symbol = gto.mole._std_symbol(label)
    for l in range(4):
        _valence(atom._basis[label], l, symbol, _core_shells(atom.atom_nelec_core(0), symbol))  # raises
    if atom.nelectron == 1:
        solver = atom_hf.AtomHF1e(atom)
        solver.kernel()
    else:
        solver = atom_hf.AtomSphAverageRHF(atom)
        solver.atomic_configuration = NRSRHF_CONFIGURATION
        start = minimal_basis_density(atom) if gto.charge(label) <= _HEAVIEST else solver.get_init_guess(key="1e")
        solver.kernel(dm0=start)
    return solver.mo_energy, solver.mo_coeff, solver.mo_occ
