"""Results as PySCF mean fields, and PySCF driven by functionals of dftfd: the same energy functional on both sides."""

from dataclasses import replace

import numpy as np
import pytest
from pyscf import dft, gto
from pyscf.dft import libxc as pyscf_libxc
from pyscf.dft import numint as pyscf_numint

import dftfd
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.interop.libxc import evaluate
from dftfd.interop.pyscf import numint
from dftfd.model.calculation import Calculation
from dftfd.terms import Contribution, Term
from tests.sample import sample

WATER = "O 0 0 .1173; H 0 .7572 -.4692; H 0 -.7572 -.4692"


@pytest.mark.parametrize("xc", sample(["pbe", "b3lyp", "pbe0"], ["pbe0"]))
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
    ):
        result = dftfd.run_scf(helium, xc, grid_level=0)
        mf = result.to_pyscf()
        assert type(mf._numint) is not pyscf_numint.NumInt
        assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-9)


HYDROGEN_FLUORIDE = "H 0 .1 0; F .2 0 .92"
QUICK = {"grid_level": 1, "conv_tol": 1e-11}


def hydrogen_fluoride(xc, **options):
    return dftfd.run_scf(dftfd.molecule(HYDROGEN_FLUORIDE, basis="sto-3g"), xc, **(QUICK | options))


@pytest.mark.parametrize("xc", ["lda,vwn + .25*sr_hf(0.3)", pytest.param("hse06", marks=pytest.mark.slow)])
def test_fitted_exchange_at_short_range_is_fitted_as_it_was(xc):
    """PySCF fits exchange at short range in another way for energies than for gradients, 5e-8 hartree with HSE06.

    The object's energy is the result's to 1e-9 hartree, its gradient the forces' to 1e-6 (slow: HSE06's kernels).
    """
    result = hydrogen_fluoride(xc)
    mf = result.to_pyscf()
    assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-9)
    gradient = mf.nuc_grad_method().kernel()
    np.testing.assert_allclose(gradient, -result.forces(grid_response=False), atol=1e-6)


@pytest.mark.slow  # 1.8 s; VV10 without a factor: test_vv10_goes_to_pyscfs_own_loop
def test_a_factor_of_vv10_is_in_the_energy_and_no_gradient_is_without_it():
    """PySCF's gradient and Hessian leave the factor out (4e-4 hartree/bohr); a factor of one is as before."""
    pbe, vv10 = dftfd.get_functional("pbe,pbe"), dftfd.get_functional("vv10")
    result = hydrogen_fluoride(pbe + 0.5 * vv10, nlc_grid_level=0)
    mf = result.to_pyscf()
    assert mf.energy_tot() == pytest.approx(result.energy, abs=1e-9)
    for derivative in (mf.nuc_grad_method(), mf.Hessian()):
        with pytest.raises(UnsupportedError, match=r"ignore the factor of VV10, here 0\.5"):
            derivative.kernel()
    mf._numint = numint(pbe + vv10)
    assert np.isfinite(mf.nuc_grad_method().kernel()).all()


def helium_pair(**options):
    return dftfd.run_scf(dftfd.molecule("He 0 0 0; He 0 0 1.2", basis="6-31g"), "pbe", **(QUICK | options))


@pytest.mark.filterwarnings("ignore:smearing of 0.2 hartree")
@pytest.mark.parametrize("options", [{"smearing": 0.2}, {"occupations": [[2.0, 1.5, 0.5]]}, {"occupations": [[2, 0]]}])
def test_occupations_that_pyscf_would_not_make_are_refused(options):
    """Fractions of electrons, and another number of them: PySCF's next cycle was of another state."""
    with pytest.raises(UnsupportedError, match="another state than these occupations"):
        helium_pair(**options).to_pyscf()


@pytest.mark.parametrize("method, numbers", [("RKS", [[2, 0, 2]]), ("UKS", [[1, 0, 1], [1, 1]])])
def test_states_with_an_empty_orbital_below_a_full_one_stay_themselves(method, numbers):
    """PySCF's next SCF, from the object's own density, has the energy of the excited state to 1e-8 hartree."""
    result = helium_pair(method=method, occupations=numbers, density_fit=False, grid_level=2)
    mf = result.to_pyscf()
    assert mf.kernel(dm0=mf.make_rdm1()) == pytest.approx(result.energy, abs=1e-8)
    np.testing.assert_array_equal(mf.copy().get_occ(mf.mo_energy, mf.mo_coeff), mf.mo_occ)


def test_the_grid_moves_only_where_pyscf_moves_it_right():
    """Beside a ghost PySCF's grid_response is 1e-3 off and refused, without it and without ghosts it is the forces'."""
    ghost = dftfd.molecule("He 0 0 0; ghost-He 0 0 1", basis="sto-3g")
    mf = dftfd.run_scf(ghost, "pbe", **QUICK).to_pyscf()
    for derivative in (mf.nuc_grad_method(), mf.Gradients(), mf.Hessian()):
        with pytest.raises(UnsupportedError, match="grid_response is wrong with ghost atoms"):
            derivative.grid_response = True
        derivative.grid_response = False
    assert np.isfinite(mf.nuc_grad_method().kernel()).all()
    core = dftfd.run_scf(dftfd.molecule("Na 0 0 0; H 0 0 1.9", basis="sbkjc"), "pbe", grid_level=0)
    with pytest.raises(UnsupportedError, match="core potentials"):
        core.to_pyscf().nuc_grad_method().grid_response = True
    result = helium_pair()
    free = result.to_pyscf().nuc_grad_method()
    free.grid_response = True
    np.testing.assert_allclose(free.kernel(), -result.forces(), atol=1e-6)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"energy": 2e-9}, "from the result's"),
        ({"fock": 2e-6}, "Fock matrix of this density is up to 2.0e-06"),
        ({"mo_energy": 1e-3}, "gradient is up to"),
    ],
)
def test_a_result_of_other_numbers_is_refused(change, message):
    """Energy, Fock matrix and gradient are compared: what is changed by a little is not handed over."""
    result = hydrogen_fluoride("pbe", density_fit=False)
    ((name, by),) = change.items()
    wrong = replace(result, **{name: getattr(result, name) + by})
    with pytest.raises(UnsupportedError, match=message):
        wrong.to_pyscf()
    if name == "mo_energy":
        assert wrong.to_pyscf(compare_gradient=False).xc == "pbe"


class QuadraticEnergy(Term):
    """1/2 sum P^2, an energy that PySCF knows nothing of and that vanishes nowhere."""

    components, stage = {"quadratic": "square of the density matrix"}, "quadratic"

    def evaluate(self, P, C_occ=None):
        return Contribution({"quadratic": 0.5 * float(np.sum(P**2))}, {"quadratic": P})

    def gradient(self, P, C_occ, grid_response, progress):
        raise NotImplementedError


class WithQuadraticEnergy(Calculation):
    def _terms(self, orbitals, budget, progress):
        yield from super()._terms(orbitals, budget, progress)
        yield QuadraticEnergy()


def test_a_term_that_says_nothing_of_pyscf_is_refused():
    """The default of `Term.in_pyscf`: a term is never left out in silence."""
    result = hydrogen_fluoride("pbe", density_fit=False)
    calculation = WithQuadraticEnergy(**vars(result.calculation))
    with pytest.raises(UnsupportedError, match="energy of 'square of the density matrix'"):
        replace(result, calculation=calculation).to_pyscf()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"electric_field": (0, 0, 0.01)}, "electric fields"),
        ({"point_charges": [(0.1, 0, 0, 9)]}, "point charges"),
        ({"relativity": "x2c"}, "relativity"),
        ({"external_potential": lambda r: 0.01 * r[0]}, "external potential"),
        ({"solvent": "water"}, "solvent"),
        pytest.param(
            {"xc": "pbe + 1.0*rvv10", "nlc_grid_level": 0}, "double integral other than VV10", marks=pytest.mark.slow
        ),
        pytest.param(
            {"xc": "b97-3c"},
            "which PySCF lacks",
            marks=pytest.mark.filterwarnings("ignore:the corrections of 'b97-3c'"),
        ),
        ({"xc": "lh07t_svwn"}, "depends on the exact-exchange energy density"),
    ],
)
def test_what_pyscf_has_no_place_for_is_refused(options, message):
    """Each term of the energy says it itself."""
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    with pytest.raises(UnsupportedError, match=message):
        dftfd.run_scf(helium, **({"xc": "pbe"} | QUICK | options)).to_pyscf()


def test_a_grid_of_double_integrals_beside_given_points():
    """VV10's level is handed over beside a grid that was given, too: PySCF's energy to 1e-9 hartree."""
    plain = helium_pair()
    points = plain.calculation.grid.on(plain.molecule)
    xc = dftfd.get_functional("pbe,pbe") + dftfd.get_functional("vv10")
    result = dftfd.run_scf(plain.molecule, xc, grid=points, nlc_grid_level=0, conv_tol=1e-11)
    assert result.to_pyscf().energy_tot() == pytest.approx(result.energy, abs=1e-9)


def _omega(mole):
    mole.set_range_coulomb(0.3)


def _electrons(mole):
    mole.nelectron = 8


def _exponent(mole):
    mole._env[mole._bas[0, gto.mole.PTR_EXP]] *= 1.1


def _position(mole):
    mole._env[mole._atm[1, gto.mole.PTR_COORD] + 2] += 0.5


def _core_potential(mole):
    mole._env[mole._ecpbas[0, 5]] *= 1.1


@pytest.mark.parametrize(
    "change, message",
    [
        (_omega, "range of the Coulomb operator"),
        (_electrons, "numbers of electrons"),
        (_exponent, "basis functions"),
        (_position, "coordinates"),
        (_core_potential, "core potentials"),
    ],
)
def test_a_mole_that_was_changed_after_it_was_built_is_refused(change, message):
    """The way back: what PySCF would compute with is compared, as a Mole can be changed behind its atoms and basis."""
    mole = gto.M(atom="I 0 0 0; H 0 0 1.6", basis="def2-svp", ecp={"I": "def2-svp"}, verbose=0)
    assert dftfd.molecule(mole).n_ao == mole.nao
    change(mole)
    with pytest.raises(UnsupportedError, match=message):
        dftfd.molecule(mole)


def water(spin=0, xc="pbe"):
    mf = (dft.UKS if spin else dft.RKS)(gto.M(atom=WATER, basis="sto-3g", charge=spin, spin=spin, verbose=0), xc=xc)
    mf.grids.level, mf.nlcgrids.level, mf.conv_tol = 1, 0, 1e-11
    return mf


@pytest.mark.parametrize(
    ("xc", "nlc"), [("pbe", "vv10"), *(pytest.param("wb97m-v", nlc, marks=pytest.mark.slow) for nlc in ("", 0))]
)
def test_vv10_goes_to_pyscfs_own_loop(xc, nlc):
    """wB97M-V, the same without VV10, and PBE with PySCF's VV10: PySCF's energies to 1e-8."""
    ours, theirs = water(xc=xc), water(xc=xc)
    ours._numint = numint(xc)
    ours.nlc = theirs.nlc = nlc
    assert ours.kernel() == pytest.approx(theirs.kernel(), abs=1e-8)


def test_other_double_integrals_are_refused():
    """PySCF's loop is VV10's: rVV10 has another kernel."""
    with pytest.raises(UnsupportedError, match="other than VV10"):
        numint("scan_rvv10")


@pytest.mark.parametrize(
    ("xc", "spin"),
    [
        *(("lda,vwn", 0), ("pbe", 0)),  # meta-GGAs: each array in tests/test_pyscf_numint.py
        *(pytest.param(xc, spin, marks=pytest.mark.slow) for xc in ("lda,vwn", "pbe") for spin in (1,)),
        *(pytest.param("mgga_x_lta,pbe", spin, marks=pytest.mark.slow) for spin in (0, 1)),
    ],
)
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


@pytest.mark.slow  # 1 s; the catalogue at points: test_libxc_catalogue
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
