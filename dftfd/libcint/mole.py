"""The bridge between `Molecule` and PySCF's Mole, and the one-electron integrals of libcint.

PySCF is handed numbers only (coordinates in bohr, exponents, coefficients, core potentials), never strings that it
would interpret, and it is kept silent. All arrays that come back are plain NumPy float64 in atomic units.
"""

import re
import warnings
import weakref
from typing import Any

import numpy as np
import pyscf
from pyscf import gto, lo
from pyscf.data import elements, nist, radii
from pyscf.x2c import sfx2c1e

from dftfd.elements import ATOMIC_NUMBERS, AtomName, parse_atom_name
from dftfd.errors import InputError, MissingDependencyError, NumericalError, UnsupportedError
from dftfd.libcint.atoms import MINIMAL_BASIS, minimal_basis_density
from dftfd.libcint.basis_sets import NO_FILE, load_basis, normalise_basis_name, to_lists, to_tuples

OLDEST = (2, 9)
if tuple(int(part) for part in pyscf.__version__.split(".")[:2]) < OLDEST:
    raise MissingDependencyError(f"PySCF {pyscf.__version__} is too old; dftfd needs 2.9 or newer.")

BOHR_IN_ANGSTROM = nist.BOHR
"""0.52917721092 angstrom: one constant for every conversion, so that energies agree with PySCF to the last digit."""

DALTON_IN_ELECTRON_MASSES = nist.AMU2AU
HARTREE_IN_WAVENUMBERS = nist.HARTREE2WAVENUMBER
BOLTZMANN = nist.BOLTZMANN / nist.HARTREE2J
HARTREE_IN_EV = nist.HARTREE2EV
"""CODATA 2014, as PySCF has them: 1822.888 m_e, 219474.63 cm^-1, k_B [hartree/K], 27.21138602 eV."""

HARTREE_IN_KJ, HARTREE_IN_KCAL = 2625.49963948, 627.5094740631
"""Per mole, CODATA 2018; 4.184 kJ in a kcal."""

PASCAL = nist.BOHR_SI**3 / nist.HARTREE2J
"""One pascal [hartree/bohr^3]."""

_MOLES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def to_pyscf(molecule: Any) -> gto.Mole:
    """The PySCF Mole of a molecule; built once and shared, so treat it as read-only (or `.copy()` it)."""
    if molecule not in _MOLES:
        _MOLES[molecule] = _build(molecule)
    return _MOLES[molecule]


def _build(molecule):
    labels = _pyscf_labels(molecule)
    mole = gto.Mole()
    mole.verbose, mole.symmetry, mole.unit = 0, False, "Bohr"
    mole.charge, mole.spin, mole.cart = molecule.charge, molecule.spin, molecule.cartesian
    mole.atom = [(label, tuple(xyz)) for label, xyz in zip(labels, molecule.coordinates.tolist(), strict=True)]
    mole.basis = {
        label: to_lists(load_basis(basis, symbol) if isinstance(basis, str) else basis)
        for label, basis, symbol in zip(labels, molecule.atom_basis, molecule.symbols, strict=True)
    }
    mole.ecp = {label: to_lists(ecp) for label, ecp in zip(labels, molecule.atom_ecp, strict=True) if ecp is not None}
    with quiet():
        mole.build(dump_input=False, parse_arg=False)
    return mole


def mole_of_nuclei(molecule: Any) -> gto.Mole:
    """A Mole of the real atoms with their whole charges; its basis functions, one for each, stand for nothing."""
    mole = gto.Mole()
    mole.verbose, mole.unit, mole.charge = 0, "Bohr", molecule.charge
    mole.basis = {symbol: [[0, [1.0, 1.0]]] for symbol in molecule.symbols}
    atoms = zip(molecule.symbols, molecule.coordinates.tolist(), molecule.ghost, strict=True)
    mole.atom = [(symbol, tuple(position)) for symbol, position, ghost in atoms if not ghost]
    mole.spin = None  # either parity
    with quiet():
        mole.build(dump_input=False, parse_arg=False)
    return mole


def _pyscf_labels(molecule):
    """Names that tell apart atoms with different basis functions: O, O1, GHOST-O, ..."""
    kinds: dict[tuple, list] = {}
    labels = []
    for symbol, ghost, *data in zip(
        molecule.symbols, molecule.ghost, molecule.atom_basis, molecule.atom_ecp, strict=True
    ):
        variants = kinds.setdefault((symbol, ghost), [])
        if data not in variants:
            variants.append(data)
        number = variants.index(data)
        labels.append(("GHOST-" if ghost else "") + symbol + (str(number) if number else ""))
    return labels


class quiet(warnings.catch_warnings):  # noqa: N801  used as a function: with quiet(): ...
    """Context in which PySCF's Python warnings do not reach the user; dftfd states its own."""

    def __enter__(self):
        super().__enter__()
        warnings.simplefilter("ignore")


def from_pyscf(mole: gto.Mole) -> dict:
    """The fields of a `Molecule` read from a built PySCF Mole: geometry in bohr, charge, spin, basis and potentials."""
    _refuse_unsupported(mole)
    labels = [label for label, _ in mole._atom]
    names = [_atom_name(label, index) for index, label in enumerate(labels, start=1)]
    ghost = tuple(name.ghost for name in names)
    return {
        "names": tuple(names),
        "coordinates": np.array([position for _, position in mole._atom], dtype=float).reshape(len(labels), 3),
        "charge": int(mole.charge),
        "spin": int(mole.spin),
        "cartesian": bool(mole.cart),
        "atom_basis": tuple(_basis_entry(mole, label, name.symbol) for label, name in zip(labels, names, strict=True)),
        "atom_ecp": tuple(
            None if is_ghost else to_tuples(_of_atom(mole._ecp, label))
            for label, is_ghost in zip(labels, ghost, strict=True)
        ),
    }


def is_pyscf_mole(source) -> bool:
    """True for a Mole, and for the periodic Cell, which `from_pyscf` refuses by name."""
    return issubclass(type(source), gto.MoleBase)


def check_same_system(molecule, mole) -> None:
    """Raise UnsupportedError unless what integrals and electrons are counted from survived the way from `mole`.

    A Mole can be changed behind what it was built from: in its environment, by `set_range_coulomb`, by `nelectron`.
    """
    ours, theirs = _known_to_integrals(to_pyscf(molecule)), _known_to_integrals(mole)
    for what, values in theirs.items():
        if values.shape != ours[what].shape or not np.allclose(values, ours[what], rtol=1e-12, atol=1e-12):
            raise UnsupportedError(
                f"this PySCF Mole has modified {what}, which dftfd cannot carry over; build it with the values that it "
                "should have."
            )


def _known_to_integrals(mole) -> dict[str, np.ndarray]:
    """What libcint computes with and how many electrons there are, in words and numbers."""
    shells = range(mole.nbas)
    of_shell = lambda b: [mole.bas_exp(b), np.ravel(mole._libcint_ctr_coeff(b))]
    ecp = np.array(mole._ecpbas, dtype=int).reshape(-1, 8)
    runs = lambda column: [mole._env[row[column] : row[column] + row[2]] for row in ecp]
    return {
        "charges": mole.atom_charges().astype(float),
        "coordinates": mole.atom_coords(),
        "models of nuclei": mole._atm[:, gto.mole.NUC_MOD_OF],
        "angular momenta": np.array([[mole.bas_atom(b), mole.bas_angular(b), mole.bas_nctr(b)] for b in shells]),
        "basis functions": np.hstack([np.zeros(0), *(values for b in shells for values in of_shell(b))]),
        "core potentials": np.hstack([ecp[:, :5].ravel(), *runs(5), *runs(6)]),
        "numbers of electrons": np.array([mole.nelectron, mole.spin]),
        "range of the Coulomb operator (omega)": np.array([mole.omega]),
    }


_BUILT_OF = ("charges", "coordinates", "angular momenta", "basis functions", "core potentials")


def changed_since_built(mole) -> bool:
    """Whether atom, unit, basis or ecp of a Mole are others than it was built with, which PySCF does not notice."""
    fresh = mole.copy()
    fresh.verbose = 0
    try:
        with quiet():
            fresh.build(dump_input=False, parse_arg=False)
        ours, theirs = _known_to_integrals(fresh), _known_to_integrals(mole)
    except Exception:  # attributes of which nothing can be built
        return True
    same = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-6)
    return not all(same(ours[what], theirs[what]) for what in _BUILT_OF)


def unit_of(mole: gto.Mole) -> str | None:
    """'bohr' or 'angstrom', in which a Mole takes its atoms; None where its unit is a number of bohr."""
    return ("bohr" if gto.mole.is_au(mole.unit) else "angstrom") if isinstance(mole.unit, str) else None


def _refuse_unsupported(mole):
    if not isinstance(mole, gto.Mole):
        raise UnsupportedError(f"{type(mole).__name__} is not a molecule; periodic cells are not supported.")
    if not mole._built:
        raise InputError("this PySCF Mole has not been built; call mole.build() first.")
    for field in ("charge", "spin"):
        if (value := getattr(mole, field)) != int(value):
            raise InputError(f"this PySCF Mole has {field}={value}; a whole number expected.")
    for field in ("pseudo", "nucmod"):
        if getattr(mole, field, None):
            raise UnsupportedError(f"this PySCF Mole sets {field!r}, which dftfd cannot carry over.")
    if mole.natm != len(mole._atom):
        raise UnsupportedError("this PySCF Mole was assembled by hand: its atoms and its integral environment differ.")


def _atom_name(label, index):
    symbol = gto.mole._std_symbol_without_ghost(label)
    if symbol not in ATOMIC_NUMBERS:  # a ghost without an element has no basis set, nor have the charges of QM/MM
        return parse_atom_name(symbol.lower(), f"atom {index}")  # raises
    ghost = gto.is_ghost_atom(label)
    suffix = (
        re.sub(r"^(?:ghost[^a-z]?|x[^a-z]?)?[a-z]+", "", label, count=1, flags=re.I) if ghost else label[len(symbol) :]
    )
    return AtomName(symbol, ghost, ("ghost-" if ghost else "") + symbol + suffix)


def _of_atom(table, label):
    """PySCF's rule: the entry of the label, else of the label without digits and signs."""
    return table.get(label, table.get("".join(filter(str.isalpha, label))))


def _basis_entry(mole, label, symbol):
    """The name of a basis set where the Mole names a known one and uses it unchanged, else the shells."""
    shells = to_tuples(_of_atom(mole._basis, label) or mole._basis.get(symbol))
    candidates = [mole.basis]
    if isinstance(mole.basis, dict):
        table = {gto.mole._atom_symbol(key): value for key, value in mole.basis.items() if key != "default"}
        candidates = [table.get(label), table.get(symbol), mole.basis.get("default")]
    for candidate in candidates:
        try:
            key = normalise_basis_name(candidate)
            if load_basis(key, symbol) == shells:
                return key
        except InputError:
            continue
    return shells


# ------------------------------------------------------------------------------------------------ numbers from PySCF


def n_ao(molecule) -> int:
    """Number of basis functions."""
    return int(to_pyscf(molecule).nao)


def ao_slices(molecule) -> np.ndarray:
    """First and one-past-last basis function of each atom, (atom, 2)."""
    return to_pyscf(molecule).aoslice_by_atom()[:, 2:].copy()


def covalent_radii(atomic_numbers) -> np.ndarray:
    """Covalent radii in bohr, (atom,). B. Cordero et al., Dalton Trans. 2832 (2008). doi:10.1039/b801115j"""
    table = radii.COVALENT
    return np.array([table[z] if z < len(table) else table[-1] for z in atomic_numbers])


def one_electron_integrals(molecule) -> dict[str, np.ndarray]:
    """Overlap, kinetic energy, nuclear attraction, core potentials (ao, ao), and dipole (3, ao, ao), origin zero."""
    mole = to_pyscf(molecule)
    with mole.with_common_origin((0.0, 0.0, 0.0)):
        dipole = mole.intor_symmetric("int1e_r", comp=3)
    has_ecp = len(mole._ecpbas) > 0
    integrals = {
        "overlap": mole.intor_symmetric("int1e_ovlp"),
        "kinetic": mole.intor_symmetric("int1e_kin"),
        "nuclear": mole.intor_symmetric("int1e_nuc"),
        "core_potential": mole.intor_symmetric("ECPscalar") if has_ecp else np.zeros((mole.nao, mole.nao)),
        "dipole": dipole,
    }
    for name, values in integrals.items():
        if not np.isfinite(values).all():
            raise NumericalError(f"the {name} integrals hold NaN or Inf; look for extreme exponents or coordinates.")
    return integrals


def function_names(molecule) -> list[tuple[int, str, str]]:
    """(atom, element, name such as '2px') of each basis function."""
    labels = to_pyscf(molecule).ao_labels(fmt=False)
    return [(atom, molecule.symbols[atom], f"{shell}{component}") for atom, _, shell, component in labels]


def overlap_integrals(molecule) -> np.ndarray:
    """Overlap matrix (ao, ao)."""
    return to_pyscf(molecule).intor_symmetric("int1e_ovlp")


def position_integrals(molecule, order: int) -> np.ndarray:
    """<mu| r |nu> (3, ao, ao) for order 1, <mu| r r |nu> (3, 3, ao, ao) for order 2, origin zero [bohr^order]."""
    mole = to_pyscf(molecule)
    with mole.with_common_origin((0.0, 0.0, 0.0)):
        integrals = mole.intor_symmetric({1: "int1e_r", 2: "int1e_rr"}[order], comp=3**order)
    return integrals.reshape(*[3] * order, mole.nao, mole.nao)


def gradient_integrals(molecule) -> np.ndarray:
    """<mu| nabla |nu> (3, ao, ao), antisymmetric [1/bohr]."""
    return -to_pyscf(molecule).intor("int1e_ipovlp", comp=3)


def rotation_integrals(molecule) -> np.ndarray:
    """<mu| r x nabla |nu> (3, ao, ao), antisymmetric, about the origin of coordinates."""
    mole = to_pyscf(molecule)
    with mole.with_common_origin((0.0, 0.0, 0.0)):
        return mole.intor("int1e_cg_irxp", comp=3)


def point_charge_matrix(molecule, charges, positions) -> np.ndarray:
    """-sum_k q_k <mu| 1/|r - R_k| |nu>, (ao, ao) [hartree], of charges (k,) at positions (k, 3) [bohr]."""
    mole = to_pyscf(molecule)
    matrix = np.zeros((mole.nao, mole.nao))
    for charge, position in zip(charges, positions, strict=True):
        with mole.with_rinv_origin(position):
            matrix -= charge * mole.intor_symmetric("int1e_rinv")
    return matrix


def x2c_core_hamiltonian(molecule) -> np.ndarray:
    """Spin-free exact two-component core Hamiltonian (ao, ao) [hartree], one-electron approximation.

    W. Kutzelnigg, W. Liu, J. Chem. Phys. 123, 241102 (2005). doi:10.1063/1.2137315
    """
    with quiet():
        return np.array(sfx2c1e.SpinFreeX2C(to_pyscf(molecule)).get_hcore(), dtype=float)


def meta_loewdin_orbitals(molecule) -> np.ndarray:
    """Orthonormal orbitals C (ao, ao), each of one atom: core, valence and Rydberg sets orthogonalised in turn."""
    with quiet():
        return np.array(lo.orth_ao(to_pyscf(molecule), "meta_lowdin", NO_FILE + MINIMAL_BASIS), dtype=float)


def minao_guess(molecule, spin_channels: int = 1) -> np.ndarray:
    """Density matrix of superposed minimal-basis atoms, (spin_channels, ao, ao).

    One channel holds the total density, two hold equal halves. An open-shell singlet starts, as in PySCF, from a
    second channel without interatomic blocks, which breaks the spin symmetry.
    """
    mole = to_pyscf(molecule)
    with quiet():
        total = minimal_basis_density(mole)
    if spin_channels == 1:
        return total[np.newaxis]
    alpha, beta = total / 2, total / 2
    if molecule.spin == 0:
        beta = np.zeros_like(total)
        for start, stop in ao_slices(molecule):
            beta[start:stop, start:stop] = alpha[start:stop, start:stop]
    return np.stack([alpha, beta])


def is_open_atom(symbols, charge: int) -> bool:
    """Whether these atoms are a single one of evenly many electrons whose ground state has partly filled shells, as the
    neutral atom of as many electrons has; cations of 28, 68 and 78 (Zn2+, Lu3+, Hg2+) do not.
    """
    n = sum(ATOMIC_NUMBERS[symbol] for symbol in symbols) - charge
    full = charge > 0 and n in (28, 68, 78)
    if len(symbols) != 1 or n % 2 or full or not 0 < n < len(elements.CONFIGURATION):
        return False
    return any(of_l % (4 * l + 2) for l, of_l in enumerate(elements.CONFIGURATION[n]))


def common_masses(atomic_numbers) -> np.ndarray:
    """Masses (atom,) [u] of the most abundant isotope of elements."""
    return np.array([elements.COMMON_ISOTOPE_MASSES[Z] for Z in atomic_numbers])


def average_masses(atomic_numbers) -> np.ndarray:
    """Masses (atom,) [u] of elements, averages over their isotopes."""
    return np.array([elements.MASSES[Z] for Z in atomic_numbers])
