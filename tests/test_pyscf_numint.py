"""Functionals in the place of libxc in PySCF: arrays, mean fields, response, copies; the reference is PySCF's libxc."""

import copy
import io
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyscf import dft, gto
from pyscf.dft import libxc as pyscf_libxc
from pyscf.dft import numint as pyscf_numint

import dftfd
from dftfd.errors import FunctionalError, InputWarning, MissingDependencyError, UnsupportedError
from dftfd.functionals.base import exact_exchange, long_range_exchange
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    uniform_kinetic_energy,
)
from dftfd.functionals.registry import functional, get_functional, lookup
from dftfd.interop import numint as module
from dftfd.interop.pyscf import numint
from tests.compilations import compilations
from tests.sample import sample
from tests.verification import pages

WATER = "O 0 0 .1173; H 0 .7572 -.4692; H 0 -.7572 -.4692"
METHYLENE = "C 0 0 0; H 0 .99 .33; H 0 -.99 .33"
EXPONENT = 0.8


@spin_scaled
def own_gga(n, *, kappa=0.804, mu=0.2195149727645171):
    """PBE exchange in three lines; libxc has it as GGA_X_PBE."""
    x = mu * reduced_gradient_squared(n) / kappa
    return slater_exchange(n) * (1 + kappa * x / (1 + x))


@spin_scaled
def own_meta_gga(n, tau):
    """The local tau approximation; libxc has it as MGGA_X_LTA. M. Ernzerhof, G. E. Scuseria, doi:10.1063/1.479374"""
    return slater_exchange(n) * (tau / uniform_kinetic_energy(n)) ** EXPONENT


def registered(name, formula):
    return lookup(name) or functional(name)(formula)


@pytest.fixture(params=["GGA", "meta-GGA"])
def own_and_libxcs(request):
    """(a functional of three lines, PySCF's name of it)."""
    if request.param == "GGA":
        return registered("test_own_gga", own_gga) + get_functional(",lyp"), "gga_x_pbe,lyp"
    return registered("test_own_lta", own_meta_gga) + get_functional(",pbe"), "mgga_x_lta,pbe"


def molecule(spin=0, basis="6-31g", **options):
    return gto.M(atom=WATER, basis=basis, charge=spin, spin=spin, verbose=0, **options)


def mean_field(xc, spin, functional=None, mol=None):
    mf = (dft.UKS if spin else dft.RKS)(mol or molecule(spin), xc=xc)
    mf.grids.level, mf.conv_tol = 1, 1e-12
    if functional is not None:
        mf._numint = numint(functional)
    return mf


def densities(rng, xctype, spin):
    """PySCF's arrays of a density: n near 1, moderate gradients, tau above its bound."""
    rows = {"LDA": 1, "GGA": 4, "MGGA": 5}[xctype]
    rho = rng.uniform(0.1, 0.5, (spin + 1, rows, 40))
    if xctype == "MGGA":
        rho[:, 4] += 2.0
    return rho if spin else rho[0]


@pytest.mark.parametrize(
    "xctype, xc, spin",
    sample(
        [(*of, spin) for of in (("LDA", "lda,vwn"), ("GGA", "pbe"), ("MGGA", "mgga_x_lta,pbe")) for spin in (0, 1)],
        at=[0, 3, 5],
    ),
)
def test_derivatives_to_third_order_are_libxcs_in_pyscfs_layouts(rng, xctype, xc, spin):
    """eval_xc1, eval_xc_eff and the older eval_xc, element by element, against PySCF's own.

    1e-9 of the largest element of an array, and 1e-12 where libxc has rounding noise instead of zero.
    """
    f = xc if xctype != "MGGA" else registered("test_own_lta", own_meta_gga) + get_functional(",pbe")
    ours, theirs, rho = numint(f), pyscf_numint.NumInt(), densities(rng, xctype, spin)
    assert ours._xc_type("") == xctype
    flat = rho if xctype != "LDA" else rho[..., 0, :]
    compare = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 + 1e-9 * np.max(np.abs(b)))
    compare(ours.eval_xc1(xc, flat, spin, 3), theirs.eval_xc1(xc, flat, spin, 3))
    for a, b in zip(ours.eval_xc_eff(xc, flat, 3), theirs.eval_xc_eff(xc, flat, 3), strict=True):
        compare(a, b)
    for a, b in zip(
        ours.eval_xc(xc, flat, spin, deriv=3)[1:], theirs.eval_xc(xc, flat, spin, deriv=3)[1:], strict=True
    ):
        given = [(u, v) for u, v in zip(a, b, strict=False) if v is not None]
        assert len(given) == sum(u is not None for u in a) >= 1
        for u, v in given:
            compare(u, v)


@pytest.mark.parametrize("spin", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_energy_and_forces_are_pyscfs(spin):
    """SCF with PBE of water, and of its cation: energy and nuclear gradient to 1e-8."""
    ours, theirs = mean_field("pbe", spin, "pbe"), mean_field("pbe", spin)
    assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)
    assert ours.converged
    gradients = [mf.nuc_grad_method().kernel() for mf in (ours, theirs)]
    np.testing.assert_allclose(*gradients, atol=1e-8)


def stability_eigenvalues(mf, external):
    """Lowest eigenvalues of PySCF's internal and external stability matrices, which it prints and does not return.

    Left out is the external one of complex orbitals, where its eigensolver ends at 0, with libxc, by chance.
    """
    mf.stdout = io.StringIO()
    with np.printoptions(precision=14):
        mf.stability(external=external, verbose=4, nroots=1, tol=1e-10)
    found = re.findall(r"(?:internal|external): lowest eigs of H = (\S+)", mf.stdout.getvalue())
    assert len(found) == (2 if external else 1)
    return np.array(found, dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("spin", [0, 1])
def test_response_of_own_functionals(own_and_libxcs, spin):
    """SCF, gradient, TDDFT, Hessian, Newton's method and stability of a GGA and of a functional of tau: 1e-8.

    Water, and triplet methylene, since PySCF's DIIS does not converge for the cation of water with the LTA, whoever
    evaluates it: the gap of its beta spin is 0.02 hartree.
    """
    own, xc = own_and_libxcs
    mol = gto.M(atom=METHYLENE if spin else WATER, basis="6-31g", spin=2 * spin, verbose=0)
    results = []
    for f in (own, None):
        mf = mean_field(xc, spin, f, mol)
        energy = mf.kernel()
        assert mf.converged
        td = mf.TDDFT()
        td.nstates, td.conv_tol = 6, 1e-10  # asked for three, PySCF's eigensolver misses the third of the LTA
        newton = mean_field(xc, spin, f, mol).newton()
        results.append(
            {
                "energy": energy,
                "forces": mf.nuc_grad_method().kernel(),
                "excitations": np.sort(td.kernel()[0])[:3],
                "Hessian": mf.Hessian().kernel(),
                "Newton": newton.kernel(),
                "stability": stability_eigenvalues(mf, external=not spin),
            }
        )
    for key, ours in results[0].items():
        np.testing.assert_allclose(ours, results[1][key], atol=1e-8, rtol=0, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("ours, theirs", [("pbe0", "pbe0"), ("hyb_gga_xc_cam_b3lyp", "camb3lyp"), ("hf", "hf")])
def test_hybrids_bring_their_exact_exchange(ours, theirs):
    """A global, a range-separated hybrid and Hartree-Fock itself: energies to 1e-8."""
    assert mean_field(theirs, 0, ours).kernel() == pytest.approx(mean_field(theirs, 0).kernel(), abs=1e-8)


def test_exact_exchange_reads_as_in_pyscf():
    """(omega, alpha, beta), hybrid coefficient and their meaning, for global and range-separated hybrids."""
    for ours, theirs in [
        ("pbe0", "pbe0"),
        ("hyb_gga_xc_cam_b3lyp", "camb3lyp"),
        ("hyb_gga_xc_hse06", "hse06"),
        ("pbe",) * 2,
    ]:
        a, b = numint(ours), pyscf_numint.NumInt()
        assert a.rsh_and_hybrid_coeff("") == pytest.approx(b.rsh_and_hybrid_coeff(theirs), abs=1e-15)
        assert a.libxc.is_hybrid_xc("") == a.is_hybrid_xc() == b.libxc.is_hybrid_xc(theirs)
        assert not a.libxc.is_nlc("") and not a.is_nlc()


@pytest.mark.slow  # 0.9 s; omega of each alone: test_to_pyscf
def test_omega_changes_integrals_and_functional(rng):
    """mf.omega = 0.25 reaches both, as in PySCF; a functional without range separation refuses it."""
    ours, theirs = numint("hyb_gga_xc_cam_b3lyp"), pyscf_numint.NumInt()
    ours.omega = theirs.omega = 0.25
    rho = densities(rng, "GGA", 0)
    a, b = ours.eval_xc1("", rho, 0, 1), theirs.eval_xc1("camb3lyp", rho, 0, 1)
    np.testing.assert_allclose(a, b, rtol=1e-8)
    assert np.abs(a - numint("hyb_gga_xc_cam_b3lyp").eval_xc1("", rho, 0, 1)).max() > 1e-3
    assert ours.rsh_and_hybrid_coeff("") == pytest.approx(theirs.rsh_and_hybrid_coeff("camb3lyp"), abs=1e-15)
    plain = numint("pbe")
    plain.omega = 0.25
    with pytest.raises(UnsupportedError, match="range-separated"):
        plain.eval_xc1("", rho, 0, 1)


@pytest.mark.slow
def test_omega_of_hse06_attenuates_one_of_its_two_exchange_terms(rng):
    """Energies equal libxc's with both of its omegas set to 0.25, through its external parameters.

    mf.omega of PySCF 2.14 puts 0.25 into the unattenuated exchange too, which is 0.13 hartree per electron off.
    """
    rho, code = densities(rng, "GGA", 0), pyscf_libxc.XC_CODES["HYB_GGA_XC_HSE06"]
    pyscf_libxc.register_custom_functional_("test_hse06_025", "hse06", ext_params={code: (0.25, 0.25, 0.25)})
    ni = numint("hyb_gga_xc_hse06")
    ni.omega = 0.25
    expected = pyscf_libxc.eval_xc1("test_hse06_025", rho, 0, 1)
    pyscf_libxc.unregister_custom_functional_("test_hse06_025")
    np.testing.assert_allclose(ni.eval_xc1("", rho, 0, 1), expected, rtol=1e-8)
    assert ni.rsh_and_hybrid_coeff("") == pytest.approx((0.25, 0.0, 0.25), abs=1e-15)


def test_copies_and_pickles_hold_the_functional(rng):
    """copy, deepcopy, PySCF's copy and a pickle give the same numbers, with changed parameters too."""
    rho = densities(rng, "GGA", 1)
    ni = numint(get_functional("pbe", kappa=1.245))
    ni.cutoff = 1e-9
    expected = ni.eval_xc1("", rho, 1, 1)
    assert not np.array_equal(expected, numint("pbe").eval_xc1("", rho, 1, 1))
    for other in (copy.copy(ni), copy.deepcopy(ni), ni.copy(), pickle.loads(pickle.dumps(ni))):
        assert other is not ni and other.cutoff == 1e-9
        np.testing.assert_array_equal(other.eval_xc1("", rho, 1, 1), expected)
    mf = mean_field("pbe", 0, "pbe")
    mf.max_cycle = 2
    other = pickle.loads(pickle.dumps(mf))
    assert other.kernel() == pytest.approx(mf.kernel(), abs=1e-12)
    assert isinstance(mf.to_uks()._numint, module.NumInt)


def test_functionals_that_nobody_can_find_again_are_not_pickled():
    """A formula that is registered nowhere could not be restored elsewhere; the error says so."""
    known = registered("test_own_gga", own_gga).terms[0][1]
    unknown = dftfd.Functional("loose", ((1.0, replace(known, name="nowhere")),))
    with pytest.raises(FunctionalError, match="register it"):
        pickle.dumps(numint(unknown))


def test_a_new_geometry_compiles_nothing():
    """The code is compiled for blocks of a fixed size, so another molecule or grid runs the same program."""
    mean_field("pbe", 0, "pbe").kernel()
    bent = gto.M(atom="O 0 0 0; H 0 .9 .5; H 0 -.9 .6", basis="6-31g", verbose=0)
    with compilations() as compiled:
        mean_field("pbe", 0, "pbe", bent).kernel()
    assert not compiled


@pytest.mark.parametrize(
    "name, reason",
    [("scan_rvv10", "double integral"), ("mgga_x_br89", "Laplacian"), ("mgga_x_tb09", "potential")],
)
def test_what_pyscf_has_no_place_for_is_refused(name, reason):
    """Double integrals, Laplacians and model potentials, each with its reason."""
    with pytest.raises(UnsupportedError, match=reason):
        numint(name)
    with pytest.raises(UnsupportedError, match="several omegas"):
        numint(exact_exchange + long_range_exchange(0.2) + long_range_exchange(0.4))


def test_other_versions_of_pyscf_are_named(monkeypatch):
    """A PySCF out of the tested range is refused with that range; a newer 2.x is warned about."""
    for version in ("3.1.0", "2.8.1"):
        monkeypatch.setattr(module.pyscf, "__version__", version)
        with pytest.raises(MissingDependencyError, match=r"2\.9 to 2\.14"):
            numint("pbe")
    monkeypatch.setattr(module.pyscf, "__version__", "2.15.0")
    with pytest.warns(InputWarning, match=r"2\.15\.0 is newer than the versions 2\.9 to 2\.14"):
        numint("pbe")


@pytest.mark.slow
def test_the_script_of_the_documentation():
    """docs/pyscf.md: a functional of three lines that is PBE, with PySCF's forces and excitations.

    1e-8 in energy, 1e-6 in forces, 1e-5 in excitations: what PySCF's default thresholds leave.
    """
    found = pages.run(Path(__file__).parents[1] / "docs" / "pyscf.md")
    mf = dft.RKS(found["mf"].mol, xc="pbe").run()
    assert found["energy"] == pytest.approx(mf.e_tot, abs=1e-8)
    np.testing.assert_allclose(found["forces"], mf.nuc_grad_method().kernel(), atol=1e-6)
    np.testing.assert_allclose(found["excitations"], mf.TDDFT().kernel()[0], atol=1e-5)
