"""Properties of a result against PySCF on the same density matrix, and as identities of the functions of r."""

import numpy as np
import pytest
from pyscf import dft, lo
from scipy.special import hyp1f1

import dftfd
from dftfd.autofd import laplacian
from dftfd.errors import InputError
from dftfd.libcint.mole import minao_guess, to_pyscf
from dftfd.properties.electrostatics import boys, electrostatic_potential
from dftfd.xc.density import evaluate_at


@pytest.fixture(scope="module")
def radical():
    """The HCO radical off the axes: result and a PySCF mean field that holds the same orbitals."""
    system = dftfd.molecule("C 0.1 0 0.2; O 0 0.3 1.35; H 0.9 -0.4 -0.3", basis="6-31g*", spin=1)
    result = dftfd.run_scf(system, xc="lda,vwn", grid_level=1)
    mf = dft.UKS(to_pyscf(system))
    mf.mo_coeff, mf.mo_occ, mf.mo_energy = result.mo_coeff, result.mo_occ, result.mo_energy
    return result, mf


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(7).normal(size=(60, 3)) * 1.5


def test_moments_and_spin_match_pyscf(radical):
    """Dipole, traceless quadrupole and <S^2> of HCO against PySCF's dip_moment, quad_moment, spin_square."""
    result, mf = radical
    np.testing.assert_allclose(result.dipole, mf.dip_moment(unit="au", verbose=0), atol=1e-10)
    np.testing.assert_allclose(result.dipole_debye, mf.dip_moment(verbose=0), atol=1e-9)
    np.testing.assert_allclose(result.quadrupole, mf.quad_moment(unit="au", verbose=0), atol=1e-9)
    assert np.trace(result.quadrupole) == pytest.approx(0.0, abs=1e-12)
    assert result.s_squared == pytest.approx(mf.spin_square()[0], abs=1e-10)


def test_charges_match_pyscf(radical):
    """Mulliken and meta-Loewdin charges and spins of HCO against PySCF's; Loewdin from its S^(-1/2) orbitals."""
    result, mf = radical
    S = mf.get_ovlp()
    P = np.asarray(mf.make_rdm1())
    np.testing.assert_allclose(result.charges(), mf.mulliken_pop(verbose=0)[1], atol=1e-10)
    meta = mf.mulliken_meta(verbose=0)
    np.testing.assert_allclose(result.charges("meta-loewdin"), meta[1], atol=1e-10)
    C = lo.orth.lowdin(S)  # columns: orthogonal orbitals
    populations = [np.diagonal(C.T @ S @ P_s @ S @ C) for P_s in P]
    slices = mf.mol.aoslice_by_atom()[:, 2:]
    alpha, beta = ([p[a:b].sum() for a, b in slices] for p in populations)
    np.testing.assert_allclose(result.charges("loewdin"), mf.mol.atom_charges() - alpha - np.array(beta), atol=1e-10)
    np.testing.assert_allclose(result.spin_populations("loewdin"), np.array(alpha) - beta, atol=1e-10)
    for scheme in ("mulliken", "loewdin", "meta-loewdin"):
        assert result.charges(scheme).sum() == pytest.approx(0.0, abs=1e-10)
        assert result.spin_populations(scheme).sum() == pytest.approx(1.0, abs=1e-10)
    with pytest.raises(InputError, match="'mulliken', 'loewdin', 'meta-loewdin'"):
        result.charges("hirshfield")


def test_gap_and_electron_number(radical):
    """The gap is that of all spin orbitals; the grid's electrons are those of the density up to the grid's error."""
    result, _ = radical
    occupied, empty = result.mo_energy[result.mo_occ > 0], result.mo_energy[result.mo_occ == 0]
    assert result.gap == pytest.approx(empty.min() - occupied.max(), abs=1e-14)
    assert result.electron_number_error == pytest.approx(result.n_electrons_quadrature.sum() - 15, abs=1e-12)
    assert 0 < abs(result.electron_number_error) < 1e-2


def test_boys_function_matches_the_hypergeometric_function():
    """F_n(x) = 1F1(n + 1/2; n + 3/2; -x) / (2n + 1), SciPy's, over both branches of the code."""
    x = np.array([0.0, 1e-9, 1e-3, 0.5, 2.0, 10.0, 29.99, 30.0, 30.01, 80.0, 3000.0])
    for n in range(13):
        np.testing.assert_allclose(boys(12, x)[n], hyp1f1(n + 0.5, n + 1.5, -x) / (2 * n + 1), rtol=2e-14)


def test_electrostatic_potential_matches_libcint(radical, points):
    """Potential at random points: nuclei by hand, electrons by libcint's integrals of 1/|r - R| (1e-12)."""
    result, mf = radical
    integrals = mf.mol.intor("int1e_grids", grids=points)
    expected = -np.einsum("kab,sab->k", integrals, mf.make_rdm1())
    for charge, position in zip(mf.mol.atom_charges(), mf.mol.atom_coords(), strict=True):
        expected += charge / np.linalg.norm(points - position, axis=1)
    np.testing.assert_allclose(evaluate_at(result.electrostatic_potential, points), expected, atol=1e-12)


@pytest.mark.slow  # 0.8 s; the potential against libcint: above
def test_operators_act_on_the_potential(points):
    """Poisson's equation away from the nuclei: the Laplacian of the potential is 4 pi n. HF molecule, any density."""
    system = dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g")
    P = minao_guess(system)
    n = np.asarray(evaluate_at(dftfd.density_function(system, P), points)).sum(axis=1)
    potential = electrostatic_potential(system, P)
    np.testing.assert_allclose(evaluate_at(laplacian(potential), points), 4 * np.pi * n, atol=1e-11)


def test_localisation_function(radical, points):
    """ELF in Kohout's and Savin's form from libcint's orbitals; 1 for any one-orbital density, here He's."""
    result, mf = radical
    ao = mf.mol.eval_gto("GTOval_sph_deriv1", points)
    D = D_h = 0.0
    for P in mf.make_rdm1():
        rho = np.einsum("pm,mn,pn->p", ao[0], P, ao[0])
        gradient = 2 * np.einsum("xpm,mn,pn->xp", ao[1:], P, ao[0])
        tau = 0.5 * np.einsum("xpm,mn,xpn->p", ao[1:], P, ao[1:])
        D += tau - np.sum(gradient**2, axis=0) / (8 * rho)
        D_h += 2 ** (2 / 3) * 0.3 * (3 * np.pi**2) ** (2 / 3) * rho ** (5 / 3)
    np.testing.assert_allclose(evaluate_at(result.elf, points), 1 / (1 + (D / D_h) ** 2), atol=1e-10)
    helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="hf")
    np.testing.assert_allclose(evaluate_at(helium.elf, points * 0.4), 1.0, atol=1e-10)
