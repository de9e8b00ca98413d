"""Results as PySCF mean fields, and PySCF driven by functionals of dftfd: the same energy functional on both sides."""

import numpy as np
import pytest
from pyscf import dft, gto
from pyscf.dft import libxc as pyscf_libxc
from pyscf.dft import numint as pyscf_numint

import dftfd
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.interop.libxc import evaluate
from dftfd.interop.pyscf import numint

WATER = "O 0 0 .1173; H 0 .7572 -.4692; H 0 -.7572 -.4692"


@pytest.mark.parametrize("xc", ["pbe", "b3lyp"])
def test_a_fitted_result_is_handed_over_with_its_fitting_basis(xc):
    """PySCF's energy of the handed-over density is ours to 1e-9; an even-tempered fitting set is 1e-5 off."""
    result = dftfd.run_scf(dftfd.molecule(WATER, basis="sto-3g"), xc, grid_level=1)
    mf = result.to_pyscf()
    assert type(mf._numint) is pyscf_numint.NumInt
    assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-9)
    assert np.linalg.norm(mf.get_grad(mf.mo_coeff, mf.mo_occ)) < 1e-4


def test_what_pyscf_knows_otherwise_is_evaluated_by_dftfd():
    """Another parameter, an own functional, and a name that means something else to PySCF: energies to 1e-9."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    own = (0.9 * dftfd.get_functional("lda_x")).named("pbe")
    for xc in (
        dftfd.get_functional("pbe", kappa=1.2),
        own,
        dftfd.get_functional("pbe,pbe") + dftfd.get_functional("vv10"),
    ):
        result = dftfd.run_scf(helium, xc, grid_level=0)
        mf = result.to_pyscf()
        assert type(mf._numint) is not pyscf_numint.NumInt
        assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-9)


def water(spin=0, xc="pbe"):
    mf = (dft.UKS if spin else dft.RKS)(gto.M(atom=WATER, basis="sto-3g", charge=spin, spin=spin, verbose=0), xc=xc)
    mf.grids.level, mf.nlcgrids.level, mf.conv_tol = 1, 0, 1e-11
    return mf


def test_vv10_goes_to_pyscfs_own_loop():
    """wB97M-V, the same without VV10, and PBE with PySCF's VV10: PySCF's energies to 1e-8."""
    for xc, nlc in (("wb97m-v", ""), ("wb97m-v", 0), ("pbe", "vv10")):
        ours, theirs = water(xc=xc), water(xc=xc)
        ours._numint = numint(xc)
        ours.nlc = theirs.nlc = nlc
        assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)


def test_other_double_integrals_are_refused():
    """PySCF's loop is VV10's: rVV10 has another kernel."""
    with pytest.raises(UnsupportedError, match="other than VV10"):
        numint("scan_rvv10")


@pytest.mark.parametrize("spin", [0, 1])
@pytest.mark.parametrize("xc", ["lda,vwn", "pbe", "mgga_x_lta,pbe"])
def test_tuples_have_pyscfs_lengths(xc, spin):
    """eval_xc gives as many arrays as PySCF's, of the same shapes, so that `define_xc_` takes it."""
    rows = {"LDA": 1, "GGA": 4, "MGGA": 5}[pyscf_libxc.xc_type(xc)]
    rho = np.random.default_rng(1).uniform(0.1, 0.5, (2, rows, 6))
    if rows == 5:
        rho[:, 4] += 2.0
    rho = rho[:, 0] if rows == 1 else rho
    rho = rho if spin else rho[0]
    ours = numint(xc).eval_xc("", rho, spin, deriv=3)
    theirs = pyscf_numint.NumInt().eval_xc(xc, rho, spin, deriv=3)
    shapes = lambda arrays: [None if a is None else a.shape for a in arrays]
    assert [shapes(a) for a in ours[1:]] == [shapes(a) for a in theirs[1:]]


def test_define_xc_takes_eval_xc():
    """PySCF's `define_xc_` with our eval_xc: the energy of PBE, and its second derivatives, to 1e-8."""
    ours, theirs = water(), water()
    ours.define_xc_(numint("pbe").eval_xc, "GGA")
    assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)
    assert ours.TDA().kernel()[0] == pytest.approx(theirs.TDA().kernel()[0], abs=1e-6)


def test_omega_of_exact_exchange_alone():
    """lda + 0.2 sr_hf(0.3) with mf.omega = 0.5: the integrals change, as in PySCF (1e-8)."""
    xc = "lda + .2*sr_hf(0.3)"
    ours, theirs = water(xc=xc), water(xc=xc)
    ours._numint = numint(xc)
    ours.omega = theirs.omega = 0.5
    assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)
    assert ours._numint.rsh_coeff("") == pytest.approx((0.5, 0.0, 0.2), abs=1e-15)


def test_omega_of_semilocal_exchange_alone():
    """An attenuated GGA without exact exchange takes another omega: libxc's energies to 1e-9."""
    rho = np.random.default_rng(2).uniform(0.1, 0.5, (4, 10))
    ours, theirs = numint("ityh,"), pyscf_numint.NumInt()
    ours.omega = theirs.omega = 0.5
    a, b = ours.eval_xc1("", rho, 0, 1), theirs.eval_xc1("ityh,", rho, 0, 1)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_negative_spin_densities_are_empty_spins():
    """As in libxc, a negative density counts as none: exc to 1e-7 of libxc's, where it was -5e14."""
    rho = np.array([[-5.755680e-4], [5.758269e-4]])
    found = evaluate("lda,vwn", rho=rho)
    expected = pyscf_libxc.eval_xc1("lda,vwn", rho, 1, 1)
    np.testing.assert_allclose(found.exc, expected[0], rtol=1e-7)
    np.testing.assert_allclose(found.vrho[1], expected[2], rtol=1e-7)


@pytest.mark.parametrize("kind", ["GKS", "DKS"])
def test_two_and_four_component_densities_are_refused(kind):
    """Orbitals with several components: a typed error where NaN and 1e8 came out."""
    mf = getattr(dft, kind)(gto.M(atom="H 0 0 0; F 0 0 0.9", basis="sto-3g", verbose=0), xc="pbe")
    mf._numint = numint("pbe")
    mf.grids.level = 0
    with pytest.raises(UnsupportedError, match="four-component"):
        mf.kernel()


def test_polarised_dense_ions_of_the_catalogue():
    """Ne 9+ with a catalogue functional whose kernel has 1 - zeta in branches: PySCF's energy to 1e-8."""
    result = dftfd.run_scf(dftfd.molecule("Ne 0 0 0;", charge=9, spin=1), "b97", density_fit=False)
    mf = dft.UKS(gto.M(atom="Ne 0 0 0", charge=9, spin=1, basis="def2-svp", verbose=0), xc="b97")
    mf.conv_tol = 1e-11
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)


def test_a_name_that_is_a_part_here_and_a_whole_functional_to_pyscf_is_refused():
    """'vv10' is the double integral alone; PySCF's functional of that name has exchange and correlation."""
    with pytest.raises(FunctionalError, match="gga_xc_vv10"):
        numint("vv10")
