"""Integrals against PySCF's own drivers and against identities that need no reference."""

import numpy as np
import pytest
import scipy.linalg
from pyscf import df, dft, gto, scf

import dftfd  # noqa: F401
from dftfd.errors import InputError, ResourceError
from dftfd.libcint import two_electron
from dftfd.libcint.mole import minao_guess, to_pyscf
from dftfd.runtime.memory import available_memory, in_bytes
from dftfd.system.molecule import molecule
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.integrals import ExactCoulombExchange, one_electron
from tests.sample import sample

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
CASES = {
    "water": {"atom": WATER, "basis": "def2-svp"},
    "water in a mixed basis": {"atom": WATER, "basis": {"O": "cc-pvtz", "H": "6-31g**"}},
    "cartesian": {"atom": "N 0 0 0; N 0 0 1.0977", "basis": "cc-pvtz", "cart": True},
    "core potential": {"atom": "H 0 0 0; I 0 0 1.609", "basis": "def2-svp", "ecp": "def2-svp"},
    "ghost": {"atom": "F 0 0 0; H 0 0 0.92; ghost-H 0 0 3; ghost-O 0 0 -2", "basis": "aug-cc-pvdz"},
    "tables know no fit": {"atom": WATER, "basis": "pcseg-1"},
}


def pair(name):
    """A case of PySCF's own making and our molecule of it, read from plain text (from the Mole for a mixed basis)."""
    options = CASES[name]
    mole = gto.M(verbose=0, **options)
    return mole, molecule(options["atom"], basis=options["basis"], cartesian=options.get("cart", False))


def random_densities(rng, n, spin=2):
    P = rng.standard_normal((spin, n, n))
    return P + P.transpose(0, 2, 1)


def orbitals(rng, n, n_occ, S):
    """S-orthonormal columns from a random matrix."""
    C = rng.standard_normal((n, n_occ))
    return C @ np.linalg.inv(scipy.linalg.sqrtm(C.T @ S @ C).real)


# ------------------------------------------------------------------------------------------------- one electron


@pytest.mark.parametrize("name", CASES)
def test_one_electron_matrices_equal_pyscf(name):
    """S, T, V with core potentials, and the dipole operator about the origin, from the same libcint: 1e-13."""
    mole, mol = pair(name)
    ours = one_electron(mol)
    np.testing.assert_allclose(ours.S, mole.intor("int1e_ovlp"), atol=1e-13)
    np.testing.assert_allclose(ours.T, mole.intor("int1e_kin"), atol=1e-13, rtol=1e-13)
    np.testing.assert_allclose(ours.H_core, scf.hf.get_hcore(mole), atol=1e-12, rtol=1e-13)
    np.testing.assert_allclose(ours.H_core - ours.T, ours.V, atol=1e-12)
    with mole.with_common_origin((0, 0, 0)):
        np.testing.assert_allclose(ours.dipole, mole.intor("int1e_r"), atol=1e-13)


def test_one_electron_identities():
    """Normalised functions, symmetry, T and S positive; the dipole moves with the origin: D(R + a) = D(R) + a S."""
    mol = molecule(WATER, basis="cc-pvdz")
    ints = one_electron(mol)
    np.testing.assert_allclose(np.diag(ints.S), 1.0, atol=1e-12)
    for matrix in (ints.S, ints.T, ints.V, *ints.dipole):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert min(np.linalg.eigvalsh(ints.S)[0], np.linalg.eigvalsh(ints.T)[0]) > 0
    shift = np.array([0.3, -1.2, 2.0])
    moved = one_electron(mol.at(mol.coordinates + shift))
    np.testing.assert_allclose(moved.dipole, ints.dipole + shift[:, None, None] * ints.S, atol=1e-12)
    np.testing.assert_allclose(moved.H_core, ints.H_core, atol=1e-11)


def test_hydrogen_like_atom_from_the_matrices():
    """The lowest eigenvalue of H_core of He+ in cc-pV5Z is -Z^2/2 = -2 hartree from above, as the variation demands."""
    ints = one_electron(molecule("He 0 0 0;", basis="cc-pv5z"))
    lowest = scipy.linalg.eigh(ints.H_core, ints.S, eigvals_only=True)[0]
    assert -2.0 < lowest < -1.9998


# ------------------------------------------------------------------------------------------------- exact J and K


def test_the_limit_is_that_of_all_operators_together():
    """A range-separated hybrid keeps two sets of integrals: with room for one and a half, none."""
    _, mol = pair(next(iter(CASES)))
    one = sum(ExactCoulombExchange(mol).memory(())[1].values())
    both = ExactCoulombExchange(mol, n_operators=2)
    assert sum(both.memory((0.33,))[1].values()) == 2 * one
    assert both.within(2 * one).in_core and not both.within(1.5 * one).in_core
    assert not ExactCoulombExchange(mol, 1.5 * one, n_operators=2).in_core


@pytest.mark.parametrize(
    ("in_core_limit", "name"),
    [
        pytest.param(limit, name, marks=[pytest.mark.slow] * (name == "ghost" or limit > 0 and name != "water"))
        for limit in (2**31, 0)
        for name in CASES
    ],
)
def test_exact_coulomb_and_exchange_equal_pyscf(name, in_core_limit, rng):
    """In-memory and direct J and K of indefinite densities, full and long range, against PySCF's get_jk: 1e-10."""
    mole, mol = pair(name)
    builder = ExactCoulombExchange(mol, in_core_limit)
    assert builder.in_core == (in_core_limit > 0)
    P = random_densities(rng, mol.n_ao) / mol.n_ao
    J, K = scf.hf.get_jk(mole, P)
    np.testing.assert_allclose(builder.coulomb(P), J.sum(0), atol=1e-10)
    np.testing.assert_allclose(builder.exchange(P), K, atol=1e-10)
    both = builder.coulomb_and_exchange(P)
    np.testing.assert_allclose(both[0], J.sum(0), atol=1e-10)
    np.testing.assert_allclose(both[1], K, atol=1e-10)
    _, K_long = scf.hf.get_jk(mole, P, omega=0.33)
    np.testing.assert_allclose(builder.exchange(P, omega=0.33), K_long, atol=1e-10)
    np.testing.assert_allclose(builder.coulomb_and_exchange(P, omega=0.33)[1], K_long, atol=1e-10)


@pytest.mark.parametrize("fitted", [False, True])
def test_coulomb_and_exchange_identities(fitted, rng):
    """Symmetric and linear, <P, J[Q]> = <Q, J[P]> for J and K; one electron has equal Coulomb and exchange energy;
    long-range exchange tends to 0 for omega -> 0 and to the full one for omega -> infinity."""
    mol = molecule(WATER, basis="6-31g")
    builder = DensityFittedCoulombExchange(mol, True) if fitted else ExactCoulombExchange(mol)
    P, Q = random_densities(rng, mol.n_ao, 1), random_densities(rng, mol.n_ao, 1)
    J_P, J_Q, K_P, K_Q = builder.coulomb(P), builder.coulomb(Q), builder.exchange(P)[0], builder.exchange(Q)[0]
    for matrix in (J_P, K_P):
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.vdot(Q, J_P) == pytest.approx(np.vdot(P, J_Q), abs=1e-9)
    assert np.vdot(Q, K_P) == pytest.approx(np.vdot(P, K_Q), abs=1e-9)
    np.testing.assert_allclose(builder.coulomb(P - 2 * Q), J_P - 2 * J_Q, atol=1e-10)
    np.testing.assert_allclose(builder.exchange(P - 2 * Q)[0], K_P - 2 * K_Q, atol=1e-10)
    c = rng.standard_normal((mol.n_ao, 1))
    one = (c @ c.T)[np.newaxis]
    assert np.vdot(one, builder.exchange(one)) == pytest.approx(np.vdot(one[0], builder.coulomb(one)), rel=1e-12)
    np.testing.assert_allclose(builder.exchange(P, omega=1e-4)[0], 0.0, atol=1e-2)
    np.testing.assert_allclose(builder.exchange(P, omega=1e3)[0], K_P, atol=1e-2)


def test_omega_does_not_leak_into_later_integrals(rng):
    """PySCF keeps omega in the shared Mole: after a long-range call the full-range integrals are unchanged."""
    mol = molecule(WATER, basis="6-31g")
    P = random_densities(rng, mol.n_ao)
    before = ExactCoulombExchange(mol, 0).exchange(P)
    ExactCoulombExchange(mol, 0).exchange(P, omega=0.5)
    DensityFittedCoulombExchange(mol, True).exchange(P, omega=0.5)
    assert to_pyscf(mol).omega == 0
    np.testing.assert_array_equal(ExactCoulombExchange(mol, 0).exchange(P), before)


# ------------------------------------------------------------------------------------------------- density fitting


def test_fitting_functions_by_name():
    """A named set is that of PySCF's density_fit(auxbasis=): energy to 1e-9 hartree; the settings name it."""
    mole = gto.M(atom="N 0 0 0; N 0 0 1.1; He 2 0 0", basis="6-31g", verbose=0)
    name = "def2-universal-jkfit"
    result = dftfd.run_scf(dftfd.molecule(mole), "pbe", grid_level=1, auxiliary_basis=name, conv_tol=1e-11)
    reference = dft.RKS(mole, xc="pbe").density_fit(auxbasis=name)
    reference.grids.level, reference.conv_tol = 1, 1e-11
    assert abs(result.energy - reference.kernel()) < 1e-9
    assert result.settings.auxiliary_basis == name
    default = dftfd.run_scf(dftfd.molecule(mole), "pbe", grid_level=1)
    assert abs(default.energy - result.energy) > 1e-7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"auxiliary_basis": "def2-svp"}, "orbital basis set"),
        ({"auxiliary_basis": "def2-universal-jkfits"}, "unknown basis set"),
        ({"auxiliary_basis": "cc-pvdz-jkfit"}, "no functions for Xe"),
        ({"auxiliary_basis": "def2-universal-jkfit", "density_fit": False}, "exact integrals"),
    ],
)
def test_fitting_functions_that_cannot_be(given, said):
    """One line each: sets of orbitals, unknown names, elements that a set lacks, exact integrals."""
    with pytest.raises(dftfd.errors.InputError, match=said):
        dftfd.run_scf(dftfd.molecule("Xe 0 0 0;", basis="def2-svp"), "pbe", grid_level=0, **given)


@pytest.mark.parametrize(
    "xc, name",
    sample(
        [(xc, name) for xc in ("pbe", "pbe0") for name in CASES],
        [
            ("pbe", "tables know no fit"),
            ("pbe", "cartesian"),
            *(("pbe0", n) for n in CASES if n not in ("ghost", "cartesian")),
        ],
    ),
)
def test_auxiliary_basis_and_fitted_matrices_equal_pyscf(name, xc, rng):
    """The fit that dft.RKS(mol).density_fit() chooses for the functional, its J, K and long-range K: 1e-10.

    The long-range metrics are singular to rounding (lowest eigenvalues -2e-15 to 2e-14, of up to 300). PySCF takes the
    Cholesky factor of those for which the factorisation ends by chance: 4e-9.
    """
    mole, mol = pair(name)
    reference = dft.RKS(mole, xc=xc).density_fit().with_df.build()
    builder = DensityFittedCoulombExchange(mol, exact_exchange=xc == "pbe0")
    assert builder.n_auxiliary == reference.auxmol.nao
    if isinstance(reference.auxbasis, str):
        assert builder.auxiliary_basis == reference.auxbasis
    assert str(builder.n_auxiliary) in builder.describe() and builder.auxiliary_basis in builder.describe()
    P = random_densities(rng, mol.n_ao) / mol.n_ao
    J, K = reference.get_jk(P)
    np.testing.assert_allclose(builder.coulomb(P), J.sum(0), atol=1e-10)
    np.testing.assert_allclose(builder.exchange(P), K, atol=1e-10)
    _, K_long = reference.get_jk(P, omega=0.3)
    found = builder.exchange(P, omega=0.3)
    np.testing.assert_allclose(found, K_long, rtol=1e-6, atol=1e-8)
    with mole.with_range_coulomb(0.3), reference.auxmol.with_range_coulomb(0.3):
        A, V = df.incore.aux_e2(mole, reference.auxmol), reference.auxmol.intor("int2c2e")
    s, U = np.linalg.eigh(V)
    B = np.tensordot(U[:, s > 1e-7] / np.sqrt(s[s > 1e-7]), A, axes=(0, 2))  # einsum of these takes 3 s
    expected = [np.tensordot(B @ P_s, B, axes=([0, 2], [0, 1])) for P_s in P]
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize(("xc", "spin"), [("pbe", 0), ("b3lyp", 0), ("hf", 1)])
def test_fitted_energies_equal_pyscf(xc, spin):
    """J and K energies of PySCF's converged density-fitted SCF, recomputed from our tensor: 1e-9 hartree."""
    mole = gto.M(atom=WATER, basis="def2-tzvp", charge=spin, spin=spin, verbose=0)
    method = (dft.UKS if spin else dft.RKS)(mole, xc=xc).density_fit()
    method.grids.level = 0
    method.kernel()
    density, potential = method.make_rdm1(), method.get_veff()
    P = np.reshape(density, (-1, mole.nao, mole.nao))
    builder = DensityFittedCoulombExchange(molecule(mole), exact_exchange=xc != "pbe")
    coulomb = 0.5 * np.vdot(P.sum(0), builder.coulomb(P))
    assert coulomb == pytest.approx(potential.ecoul, abs=1e-9)
    if xc != "pbe":
        reference = 0.5 * np.vdot(P, method.with_df.get_jk(P)[1])
        assert 0.5 * np.vdot(P, builder.exchange(P)) == pytest.approx(reference, abs=1e-9)


def test_exchange_from_orbitals_equals_exchange_from_the_density(rng):
    """Fractional and unequal occupations, an empty spin channel, and an indefinite density take the same values."""
    mol = molecule(WATER, basis="def2-svp")
    builder = DensityFittedCoulombExchange(mol, True)
    S = one_electron(mol).S
    C = [orbitals(rng, mol.n_ao, 5, S) * np.sqrt([1.0, 1.0, 1.0, 0.7, 0.3]), np.zeros((mol.n_ao, 0))]
    P = np.stack([c @ c.T for c in C])
    np.testing.assert_allclose(builder.exchange(P, C), builder.exchange(P), atol=1e-12)
    np.testing.assert_array_equal(builder.exchange(P, C)[1], 0.0)
    difference = P[:1] - minao_guess(mol)
    expected = builder.exchange(P[:1]) - builder.exchange(minao_guess(mol))
    np.testing.assert_allclose(builder.exchange(difference), expected, atol=1e-11)


def test_exchange_does_not_depend_on_the_block_size(rng, monkeypatch):
    """Working memory bounds the blocks of auxiliary functions; one function at a time gives the same K."""
    mol = molecule(WATER, basis="6-31g")
    builder = DensityFittedCoulombExchange(mol, True)
    P = random_densities(rng, mol.n_ao)
    K = builder.exchange(P)
    for size in (1, 8 * mol.n_ao**2 * 7):
        monkeypatch.setattr("dftfd.terms.fitted_integrals._BLOCK_BYTES", size)
        np.testing.assert_allclose(builder.exchange(P), K, atol=1e-12)


def test_linearly_dependent_auxiliary_functions():
    """Doubled fitting functions leave the metric singular: its null space is dropped and the fit is that of one set."""
    mol = molecule(WATER, basis="6-31g")
    single, _ = two_electron.auxiliary_basis(mol, True)
    doubled = {label: [*shells, *shells] for label, shells in single.items()}
    B_1, B_2 = (two_electron.fitting_tensor(mol, table) for table in (single, doubled))
    assert len(B_1) == two_electron.fitting_tensor_size(mol, single)[0]
    assert len(B_2) <= len(B_1) < two_electron.fitting_tensor_size(mol, doubled)[0]
    np.testing.assert_allclose(B_2.T @ B_2, B_1.T @ B_1, atol=1e-7)


def test_elements_without_a_fitting_set_get_even_tempered_functions():
    """aug-cc-pVDZ has no jk fit for helium: PySCF's density_fit() fails there; its make_auxbasis is used instead."""
    mol = molecule("He 0 0 0; H 0 0 0.77", basis="aug-cc-pvdz", charge=1)
    builder = DensityFittedCoulombExchange(mol, True)
    assert builder.auxiliary_basis == "aug-cc-pvdz-jkfit, even-tempered"
    P = minao_guess(mol)
    exact, fitted = ExactCoulombExchange(mol).coulomb(P), builder.coulomb(P)
    np.testing.assert_allclose(fitted, exact, atol=2e-3)


def test_fitting_error_is_small_and_of_second_order():
    """With the jk fit the Coulomb energy of the starting density of water is exact to 1e-4 hartree and never above:
    J in the Coulomb metric bounds the self-repulsion from below."""
    mol = molecule(WATER, basis="def2-svp")
    P = minao_guess(mol)
    exact = 0.5 * np.vdot(P[0], ExactCoulombExchange(mol).coulomb(P))
    fitted = 0.5 * np.vdot(P[0], DensityFittedCoulombExchange(mol, True).coulomb(P))
    assert 0 < exact - fitted < 1e-4


# ------------------------------------------------------------------------------------------------- refusals


def test_memory_limits_are_checked_before_any_integral():
    """Too little memory is ResourceError (exit code 6) with the needed and the allowed amount."""
    mol = molecule(WATER, basis="cc-pvtz")
    with pytest.raises(ResourceError, match="the limit is 1 MiB; use a smaller basis") as caught:
        DensityFittedCoulombExchange(mol, False, memory_limit=1e6)
    assert caught.value.exit_code == 6
    builder = DensityFittedCoulombExchange(mol, True, memory_limit=1e9)
    builder._memory_limit = 1e6
    with pytest.raises(ResourceError, match="MiB"):
        builder.tensor(0.3)


@pytest.mark.parametrize("fitted", [False, True])
def test_wrong_shapes_are_refused(fitted):
    """A density matrix of another basis or without the spin axis, orbitals of another spin: what was expected."""
    mol = molecule(WATER, basis="sto-3g")
    builder = DensityFittedCoulombExchange(mol, True) if fitted else ExactCoulombExchange(mol)
    for P in (np.eye(7), np.zeros((1, 5, 5)), np.zeros((2, 7, 8))):
        for build in (builder.coulomb, builder.exchange):
            with pytest.raises(InputError, match=r"expected \(spin, 7, 7\)"):
                build(P)
    if fitted:
        with pytest.raises(InputError, match="orbitals of 1 spin channels"):
            builder.exchange(np.zeros((2, 7, 7)), [np.zeros((7, 1))])


def test_available_memory_is_plausible():
    """Between 16 MiB and 64 TiB on anything that runs this test; the text form is readable."""
    assert 2**24 < available_memory() < 2**46
    assert in_bytes(1.5 * 2**30) == "1.50 GiB"


def test_pyscf_stays_silent(capfd):
    """Choosing even-tempered fitting functions makes PySCF talk; none of it reaches the terminal or the warnings."""
    DensityFittedCoulombExchange(molecule("He 0 0 0; I 0 0 5", basis="sto-3g", spin=1), False).tensor()
    DensityFittedCoulombExchange(molecule("He 0 0 0;", basis={"He": [[0, [1.0, 1.0]]]}), True).tensor()
    assert capfd.readouterr() == ("", "")
