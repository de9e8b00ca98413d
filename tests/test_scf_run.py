"""run_scf as a whole: invariances, limits, options, what a result knows."""

import dataclasses
import logging

import jax
import numpy as np
import pytest
from pyscf import dft, gto, scf
from pyscf.dft import gen_grid

import dftfd
from dftfd.errors import FunctionalError, InputError, InputWarning, NotConvergedError
from dftfd.libcint.mole import to_pyscf
from dftfd.runtime.progress import PlainProgress, Progress

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
EXACT = {"density_fit": False}


@pytest.fixture(scope="module")
def water():
    return dftfd.run_scf(dftfd.molecule(WATER, basis="6-31g"), **EXACT)


@pytest.fixture(scope="module")
def hydroxyl():
    return dftfd.run_scf(dftfd.molecule("O 0 0 0; H 0 0 0.97", basis="6-31g", spin=1), **EXACT)


@pytest.mark.parametrize(
    ("xc", "spin"),
    [("pbe", 0), ("b3lyp", 2), *(pytest.param(*of, marks=pytest.mark.slow) for of in (("b3lyp", 0), ("pbe", 2)))],
)
def test_density_fitted_energy_matches_pyscf(xc, spin):
    """Density fitting is PySCF's, auxiliary basis included: energies on PySCF's grid agree to 1e-8 hartree."""
    mole = gto.M(atom=WATER, basis="def2-svp", spin=spin, verbose=0)
    mf = (dft.rks.RKS if spin == 0 else dft.uks.UKS)(mole, xc=xc).density_fit()
    mf.conv_tol, mf.grids.level = 1e-11, 1
    energy = mf.kernel()
    result = dftfd.run_scf(
        dftfd.molecule(WATER, basis="def2-svp", spin=spin), xc=xc, grid=(mf.grids.coords, mf.grids.weights)
    )
    assert result.energy == pytest.approx(energy, abs=1e-8)
    assert result.settings.auxiliary_basis in str(result)
    assert "density fitting" in str(result)


@pytest.mark.parametrize("spin", [0, 2])
def test_hartree_fock_through_run_scf(spin):
    """xc='hf' is Hartree-Fock: PySCF's RHF and UHF energies, no grid, no semilocal part, a zero local potential."""
    system = dftfd.molecule(WATER, basis="6-31g", spin=spin)
    mf = (scf.hf.RHF if spin == 0 else scf.uhf.UHF)(to_pyscf(system))
    mf.conv_tol = 1e-11
    result = dftfd.run_scf(system, xc="hf", **EXACT)
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)
    assert result.energies["xc"] == 0.0 and result.energies["exact_exchange"] < 0
    assert result.n_electrons_quadrature is None and result.settings.n_points == 0


@pytest.mark.parametrize("atom", ["H 0 0 0; H 0 0 0.74", "He 0 0 0;", "H 0 0 0; H 0 0 0.9; H 0.779 0 0.45"])
def test_orbital_energies_belong_to_the_fock_matrix_of_the_density(atom):
    """Where symmetry fixes the density there is no gradient to tell orbitals of another Fock matrix; PySCF's RHF."""
    charge = 1 if atom.count("H ") == 3 else 0
    molecule = dftfd.molecule(atom, basis="sto-3g", charge=charge)
    reference = scf.RHF(to_pyscf(molecule)).run(conv_tol=1e-12)
    for fitted in (False, True):
        result = dftfd.run_scf(molecule, "hf", density_fit=fitted)
        F = result.mo_coeff[0].T @ result.fock[0] @ result.mo_coeff[0]
        assert result.mo_energy[0] == pytest.approx(np.diag(F), abs=1e-10)
        assert result.mo_energy[0] == pytest.approx(reference.mo_energy, abs=2e-3 if fitted else 1e-7)


@pytest.mark.filterwarnings("ignore:smearing of 0.2 hartree")
def test_occupations_of_an_end_without_a_check_are_those_of_its_own_orbital_energies():
    """Fermi smearing of H2, whose orbitals symmetry fixes: n = f(e) of the energies that are returned."""
    width = 0.2
    result = dftfd.run_scf(dftfd.molecule("H 0 0 0; H 0 0 1.1", basis="sto-3g"), "hf", smearing=width)
    assert result.converged
    n, e = result.mo_occ[0], result.mo_energy[0]
    assert np.log(2 / n[0] - 1) - np.log(2 / n[1] - 1) == pytest.approx((e[0] - e[1]) / width, abs=1e-5)


def test_energy_does_not_change_with_translation(water):
    """The grid moves with the molecule: 1e-9 hartree after a shift of several bohr."""
    system = water.molecule
    moved = dftfd.run_scf(system.at(system.coordinates + np.array([3.0, -5.0, 0.7])), **EXACT)
    assert moved.energy == pytest.approx(water.energy, abs=1e-9)
    np.testing.assert_allclose(moved.dipole, water.dipole, atol=1e-5)  # a neutral molecule's does not depend on origin


def test_energy_hardly_changes_with_rotation(water, rng):
    """Lebedev grids are not rotated with the molecule: 1e-5 hartree, the known orientation noise of level 3."""
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotated = dftfd.run_scf(water.molecule.at(water.molecule.coordinates @ R.T), **EXACT)
    assert rotated.energy == pytest.approx(water.energy, abs=1e-5)
    np.testing.assert_allclose(rotated.dipole, R @ water.dipole, atol=1e-4)


def test_unrestricted_closed_shell_equals_restricted(water):
    """UKS for a closed shell finds the RKS energy, equal spins and <S^2> = 0."""
    result = dftfd.run_scf(water.molecule, method="uks", **EXACT)
    assert result.method == "UKS"
    assert result.energy == pytest.approx(water.energy, abs=1e-9)
    assert result.s_squared == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(result.density_matrix.sum(0), water.density_matrix[0], atol=1e-5)


def test_turning_all_spins_over_changes_nothing():
    """spin = -1 is spin = +1 with alpha and beta exchanged (lithium: no degenerate orbital is open)."""
    up, down = (dftfd.run_scf(dftfd.molecule("Li 0 0 0;", basis="6-31g", spin=spin), **EXACT) for spin in (1, -1))
    assert up.energy == pytest.approx(down.energy, abs=1e-9)
    np.testing.assert_allclose(up.density_matrix[::-1], down.density_matrix, atol=1e-4)


def test_dipole_is_the_derivative_with_respect_to_a_field(water):
    """Virtual work: minus the central difference of E in a field along z is the dipole moment, to 1e-5 e bohr."""
    energies = [
        dftfd.run_scf(
            water.molecule, conv_tol=1e-12, guess=water.density_matrix, electric_field=(0, 0, field), **EXACT
        ).energy
        for field in (1e-3, -1e-3)
    ]
    assert -(energies[0] - energies[1]) / 2e-3 == pytest.approx(water.dipole[2], abs=1e-5)


def test_components_sum_to_the_energy(water, hydroxyl):
    """All names are there, the sum is the total, and what the calculation lacks is zero."""
    lacking = ["nonlocal", "grid_functional", "dispersion", "external", "solvent", "solvent_cds", "pt2"]
    names = ["nuclear", "one_electron", "coulomb", "exact_exchange", "xc", *lacking]
    for result in (water, hydroxyl):
        assert list(result.energies) == names
        assert sum(result.energies.values()) == pytest.approx(result.energy, abs=1e-12)
        assert not any(result.energies[name] for name in ("exact_exchange", *lacking))


def test_density_is_a_function_that_integrates_to_the_electrons(hydroxyl):
    """rho(r) at the points of a grid: spin-resolved, sums to 5 and 4 electrons, as the matrix build says."""
    grid = dftfd.molecular_grid(hydroxyl.molecule.atomic_numbers, hydroxyl.molecule.coordinates, 1)
    rho = jax.lax.map(hydroxyl.density, grid.points, batch_size=512)
    np.testing.assert_allclose(rho.T @ grid.weights, [5, 4], atol=1e-3)
    assert hydroxyl.density is hydroxyl.density


def test_restricted_density_has_two_equal_spins(water):
    """The density Function is R^3 -> R^2 in a restricted run, too."""
    rho = water.density(np.array([0.1, 0.2, 0.3]))
    assert rho.shape == (2,) and rho[0] == rho[1] > 0


@pytest.mark.slow
def test_potential_matches_libxc_along_a_bond(hydroxyl):
    """v_xc(r) of PBE between O and H against the expression with libxc's derivatives, v_rho - div(2 v_ss' grad rho).

    The divergence is a central difference of libxc's own vsigma grad rho, good to 1e-6 hartree.
    """
    ni, mole = dft.numint.NumInt(), to_pyscf(hydroxyl.molecule)

    def first_order(points):
        ao = ni.eval_ao(mole, points, deriv=1)
        rho = np.stack([ni.eval_rho(mole, ao, P, xctype="GGA") for P in hydroxyl.density_matrix])
        return ni.eval_xc_eff("pbe,pbe", rho, deriv=1, xctype="GGA", spin=1)[1]  # (spin, 4, point)

    bond = hydroxyl.molecule.coordinates[1] - hydroxyl.molecule.coordinates[0]
    points = hydroxyl.molecule.coordinates[0] + np.linspace(0.25, 0.75, 5)[:, None] * bond
    expected, h = first_order(points)[:, 0], 1e-4
    for axis, shift in enumerate(np.eye(3) * h):
        expected = expected - (first_order(points + shift) - first_order(points - shift))[:, 1 + axis] / (2 * h)
    ours = np.array([hydroxyl.v_xc(r) for r in points])
    np.testing.assert_allclose(ours, expected.T, atol=2e-6)
    assert hydroxyl.v_tau is None


def test_own_functional_as_an_object_and_by_name():
    """A Functional may be passed in place of a name; expressions are recorded with all their parameters."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    by_name = dftfd.run_scf(helium, xc="0.25*HF + 0.75*PBE, PBE")
    by_object = dftfd.run_scf(helium, xc=dftfd.get_functional("pbe0"))
    assert by_name.energy == pytest.approx(by_object.energy, abs=1e-10)
    definition = by_name.settings.definition
    assert definition["exact_exchange"] == [[0.0, 0.25]]
    assert {term["name"]: term["coefficient"] for term in definition["terms"]} == {"gga_x_pbe": 0.75, "gga_c_pbe": 1.0}
    assert definition["terms"][0]["parameters"]["kappa"] == 0.804


def test_restart_from_a_density_takes_few_cycles(water):
    """The density matrix of a result is a starting point: same energy within two cycles."""
    again = dftfd.run_scf(water.molecule, guess=water.density_matrix, **EXACT)
    assert again.cycles <= 2
    assert again.energy == pytest.approx(water.energy, abs=1e-9)
    assert again.settings.guess == "given"


def test_core_guess_ends_at_the_same_energy(water):
    """Another starting density, the same end."""
    result = dftfd.run_scf(water.molecule, guess="core", **EXACT)
    assert result.energy == pytest.approx(water.energy, abs=1e-8)


def test_linear_dependence_option():
    """A threshold of 0.3 leaves water/6-31g fewer orbitals; the energy goes up, and the summary still prints."""
    system = dftfd.molecule(WATER, basis="6-31g")
    full = dftfd.run_scf(system, xc="lda,vwn")
    result = dftfd.run_scf(system, xc="lda,vwn", linear_dependence=0.3)
    assert result.mo_energy.shape[1] < 13
    assert result.energy > full.energy


def test_non_convergence_is_a_field(water):
    """Two cycles are not enough: converged is False, and the summary shouts it."""
    result = dftfd.run_scf(water.molecule, max_cycles=2, **EXACT)
    assert not result.converged and result.cycles == 2
    assert "NOT CONVERGED after 2 cycles" in str(result) and "dipole" not in str(result)
    for name in ("dipole", "s_squared", "frontier", "density", "v_xc", "elf", "charges", "stability"):
        with pytest.raises(NotConvergedError, match="allow_unconverged=True") as caught:
            value = getattr(result, name)
            value()  # `charges` and `stability` are methods
        assert caught.value.exit_code == 3


def test_properties_of_an_unconverged_density_on_request(water):
    """allow_unconverged=True gives them: the dipole is PySCF's of the same density matrix."""
    result = dftfd.run_scf(water.molecule, max_cycles=2, allow_unconverged=True, **EXACT)
    assert not result.converged
    expected = scf.hf.dip_moment(to_pyscf(water.molecule), result.density_matrix[0], unit="au", verbose=0)
    np.testing.assert_allclose(result.dipole, expected, atol=1e-10)
    assert "NOT CONVERGED" in str(result) and "dipole" in str(result)


def test_result_cannot_be_changed(water):
    """Fields and arrays of a result are read-only."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        water.energy = 0.0
    with pytest.raises(ValueError, match="read-only"):
        water.density_matrix[0, 0, 0] = 1.0


def test_result_records_what_it_depends_on(water):
    """Functional, basis, integrals, grid, thresholds and versions are in the result."""
    settings = water.settings
    assert (settings.functional, settings.basis, settings.auxiliary_basis) == ("pbe", "6-31g", None)
    assert settings.grid_level == 3 and settings.n_points > 10_000
    assert settings.versions["pyscf"] and settings.versions["dftfd"] == dftfd.__version__
    assert {"integrals", "grid", "scf"} <= set(water.seconds)
    assert water.dipole_debye == pytest.approx(water.dipole * 2.541746, abs=1e-5)


def test_summary_reads_well(water, hydroxyl):
    """The text that a person sees: what, whether converged, energies, orbitals, spin, grid."""
    for part in ("H2O  RKS pbe / 6-31g", "converged in", "total energy", "HOMO, LUMO", "debye", "exact", "level 3"):
        assert part in str(water)
    assert "<S^2>" in str(hydroxyl) and "<S^2>" not in str(water)
    assert "-0.000000" not in str(water)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"method": "rhf"}, "method='rhf': give one of 'auto', 'RKS', 'UKS'"),
        ({"grid_level": 10}, "grid_level=10: give a whole number from 0 to 9"),
        ({"grid_level": -1}, "grid_level=-1: give a whole number"),
        ({"grid_level": 2.5}, "grid_level=2.5: give a whole number"),
        ({"grid_lvel": 2}, "no option 'grid_lvel'; the closest ones are grid_level"),
        ({"density_fit": "yes"}, "density_fit='yes': give True or False"),
        ({"conv_tol": -1.0}, "conv_tol=-1.0: give a positive number of hartree"),
        ({"conv_tol": "tight"}, "conv_tol='tight': give a positive number of hartree"),
        ({"max_cycles": 0}, "max_cycles=0"),
        ({"guess": "magic"}, "unknown guess 'magic'; allowed: minao, atom, hueckel, sap, core"),
        ({"guess": np.full((2, 2), np.nan)}, "guess=.*: give the name of a guess .* finite numbers"),
        ({"guess": np.eye(5)}, r"shape \(5, 5\), but the basis set has 2 functions"),
        ({"grid": (np.zeros((4, 3)), np.zeros(5))}, "4 points and 5 weights"),
        ({"grid": (np.full((4, 3), np.nan), np.zeros(4))}, "grid=.*: give a pair .* finite numbers"),
        ({"grid": 3}, "grid=3: give a pair"),
        ({"progress": "loud"}, "progress='loud'"),
        ({"linear_dependence": -1.0}, "linear_dependence=-1.0: give a number of at least 0"),
    ],
)
def test_bad_options_get_one_clear_line(options, message):
    """Every option that cannot be carried out is an InputError that names the option, the value and the way out."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    with pytest.raises(InputError, match=message):
        dftfd.run_scf(helium, xc="lda,vwn", **options)


def test_restricted_run_of_an_open_shell_is_refused():
    """PySCF would silently switch to ROKS; here it is an error that names the way out."""
    with pytest.raises(InputError, match="RKS needs spin 0, but the molecule has spin 1; use method='UKS'"):
        dftfd.run_scf(dftfd.molecule("H 0 0 0;", basis="sto-3g", spin=1), method="RKS")


def test_other_objects_than_a_molecule_or_a_functional_are_refused():
    """The message says how to make the right thing."""
    with pytest.raises(InputError, match=r"molecule='water.xyz': give a Molecule, from dftfd.molecule"):
        dftfd.run_scf("water.xyz")
    with pytest.raises(FunctionalError, match="closest"):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), xc="pbee")


def test_progress_goes_where_it_is_asked_to(capsys, caplog):
    """Default: log records under `dftfd`; True: plain lines; an object: its methods; nothing printed otherwise."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    with caplog.at_level(logging.INFO, logger="dftfd"):
        dftfd.run_scf(helium, xc="hf")
    assert any("cycle= 1 E= -2.8" in record.message for record in caplog.records)
    assert capsys.readouterr().out == ""
    dftfd.run_scf(helium, xc="hf", progress=True)
    assert "cycle= 1 E= -2.8" in capsys.readouterr().out

    seen = []

    class Watch(Progress):
        def begin(self, name):
            seen.append(name)

        def cycle(self, cycle):
            seen.append(cycle.number)

    dftfd.run_scf(helium, xc="hf", progress=Watch())
    assert seen[:4] == ["integrals", "starting density", "scf", 0]
    assert isinstance(PlainProgress(), Progress)


def test_grid_without_points_of_one_atom_is_used_as_given():
    """grid=(points, weights) replaces the molecular grid: half of PySCF's weights give half of the electrons."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    grids = gen_grid.Grids(to_pyscf(helium)).build()
    with pytest.warns(InputWarning, match="1.0000 electrons instead of 2"):
        result = dftfd.run_scf(helium, xc="lda,vwn", grid=(grids.coords, grids.weights / 2))
    assert result.n_electrons_quadrature == pytest.approx([1.0], abs=1e-6)
    assert result.settings.grid_level is None and "given by the user" in str(result)
