"""Methods beyond plain RKS and UKS, starting densities and surroundings, each against PySCF or an identity."""

import numpy as np
import pytest
import scipy.special
from pyscf import dft, gto, qmmm, scf

import dftfd
from dftfd.errors import InputError, UnsupportedError
from dftfd.libcint import guesses
from dftfd.libcint.mole import to_pyscf
from dftfd.model.option_values import occupations_for
from dftfd.model.options import Options
from dftfd.scf.orbitals import MaximumOverlap, Smearing
from dftfd.tasks.run import unpaired_electrons

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
EXACT = {"density_fit": False}


@pytest.fixture(scope="module")
def water():
    return dftfd.molecule(WATER, basis="6-31g")


@pytest.mark.parametrize("atom, spin, xc", [("N 0 0 0; H 0 0 1.04", 2, "pbe"), ("Li 0 0 0; H 0 0 1.6", 0, "hf")])
def test_restricted_open_shell_matches_pyscf(atom, spin, xc):
    """ROKS and ROHF energies on PySCF's grid to 1e-8 hartree; one set of orbitals, <S^2> of the pure spin."""
    system = dftfd.molecule(atom, basis="6-31g", spin=spin)
    mf = dft.roks.ROKS(to_pyscf(system), xc=xc) if xc != "hf" else scf.rohf.ROHF(to_pyscf(system))
    mf.conv_tol = 1e-11
    energy = mf.kernel()
    grid = None if xc == "hf" else (mf.grids.coords, mf.grids.weights)
    result = dftfd.run_scf(system, xc, "ROKS", grid=grid, **EXACT)
    assert result.converged and result.energy == pytest.approx(energy, abs=1e-8)
    np.testing.assert_array_equal(result.mo_coeff[0], result.mo_coeff[1])
    assert result.s_squared == pytest.approx(spin / 2 * (spin / 2 + 1), abs=1e-10)


def test_without_beta_electrons_the_shared_orbitals_are_those_of_one_spin():
    """M06-L has no potential where the beta density is zero: orbitals and a restart must not depend on it. Its
    diagonal blocks left the ground state of Na for 3p here, from orbital energies of 1e8 hartree."""
    sodium = dftfd.molecule("Na 0 0 0;", basis="lanl2dz", spin=1)
    shared = dftfd.run_scf(sodium, "m06l", "ROKS", grid_level=1)
    alone = dftfd.run_scf(sodium, "m06l", "UKS", grid_level=1)
    assert shared.energy == pytest.approx(alone.energy, abs=1e-9)
    assert shared.mo_energy[0] == pytest.approx(alone.mo_energy[0], abs=1e-5)
    again = dftfd.run_scf(sodium, "m06l", "ROKS", guess=shared, grid_level=1)
    assert again.energy == pytest.approx(shared.energy, abs=1e-9)


@pytest.mark.parametrize("fitted", [pytest.param(True, marks=pytest.mark.slow), False])
def test_range_separated_exchange_matches_pyscf(water, fitted):
    """CAM-B3LYP, full and long-range exact exchange, exact and density-fitted: 1e-8 hartree on PySCF's grid."""
    xc = "camb3lyp"
    mf = dft.rks.RKS(gto.M(atom=WATER, basis="6-31g", verbose=0), xc=xc)
    mf = mf.density_fit() if fitted else mf
    mf.conv_tol, mf.grids.level = 1e-11, 1
    energy = mf.kernel()
    result = dftfd.run_scf(water, xc, grid=(mf.grids.coords, mf.grids.weights), density_fit=fitted)
    assert result.energy == pytest.approx(energy, abs=1e-8)


@pytest.mark.parametrize("kind", ["fermi", "gaussian"])
def test_smeared_stretched_bond_matches_pyscf(kind):
    """H2 at 3 angstrom, width 0.1 hartree: PySCF's free energy and energy to 1e-8 hartree (same width)."""
    system = dftfd.molecule("H 0 0 0; H 0 0 3", basis="6-31g")
    mf = scf.addons.smearing_(scf.hf.RHF(to_pyscf(system)), sigma=0.1, method=kind)
    mf.conv_tol = 1e-11
    mf.kernel()
    result = dftfd.run_scf(system, "hf", smearing=(kind, 0.1), conv_tol=1e-11, **EXACT)
    assert result.free_energy == pytest.approx(mf.e_free, abs=1e-8)
    assert result.energy == pytest.approx(mf.e_tot, abs=1e-7)
    assert 0.01 < result.mo_occ[0, 1] < 1.99 and "free energy" in str(result)


@pytest.mark.parametrize("kind", ["fermi", "gaussian"])
def test_smeared_occupations_make_the_free_energy_stationary(kind, rng):
    """d(sum n e - T S)/d e_i = n_i at fixed electron number: central differences, to 1e-8; n sums to the electrons."""
    occupy = Smearing((3.0,), 2, 0.05, kind)
    e = np.sort(rng.normal(size=(1, 8)) * 0.1)

    def free_energy(e):
        n, entropy_term = occupy(e, None)
        return np.sum(n * e) + entropy_term

    n, _ = occupy(e, None)
    assert n.sum() == pytest.approx(3.0, abs=1e-12)
    for i in range(8):
        d = 1e-5 * np.eye(8)[i]
        assert (free_energy(e + d) - free_energy(e - d)) / 2e-5 == pytest.approx(n[0, i], abs=1e-8)


def test_smearing_does_not_move_the_gap():
    """Water, PBE, width 0.001 hartree, which fills nothing: HOMO and LUMO as without, the gap to 1e-3 eV."""
    system = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="6-31g")
    sharp, smeared = (dftfd.run_scf(system, "pbe", smearing=width) for width in (None, 0.001))
    assert (smeared.mo_occ > 0).sum() > (sharp.mo_occ > 0).sum()  # by numbers such as 1e-58
    np.testing.assert_allclose(smeared.frontier, sharp.frontier, atol=3e-5)


def test_smearing_of_a_restricted_open_shell_is_refused():
    """No Fock matrix has shared, fractionally filled orbitals as eigenvectors; the error says what to do."""
    system = dftfd.molecule("O 0 0 0; H 0 0 0.97", basis="sto-3g", spin=1)
    with pytest.raises(InputError, match="smearing needs method='UKS' or 'RKS', not ROKS"):
        dftfd.run_scf(system, "pbe", "ROKS", smearing=0.01)
    assert dftfd.run_scf(system, "lda,vwn", "UKS", smearing=0.01, grid_level=0).converged


def test_half_an_electron():
    """Hydrogen with half an electron, PBE/aug-cc-pVTZ: -0.3030876848 hartree (PySCF 2.14 with given occupations)."""
    hydrogen = dftfd.molecule("H 0 0 0;", basis="aug-cc-pvtz", spin=1)
    result = dftfd.run_scf(hydrogen, "pbe", occupations=[[0.5], []], **EXACT)
    assert result.converged and result.energy == pytest.approx(-0.3030876848029918, abs=1e-8)
    np.testing.assert_allclose(result.n_electrons_quadrature, [0.5, 0.0], atol=1e-6)


def test_delta_scf_follows_the_excited_orbitals(water):
    """Triplet-coupled HOMO -> LUMO excitation of water within M_s = 0, held by overlap: PySCF's mom_occ to 1e-8."""
    ground = dftfd.run_scf(water, "hf", "UKS", **EXACT)
    mf = scf.uhf.UHF(to_pyscf(water))
    mf.conv_tol = 1e-11
    occupations = [[1, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1]]
    setocc = np.zeros((2, water.n_ao))
    for s, numbers in enumerate(occupations):
        setocc[s, : len(numbers)] = numbers
    mf = scf.addons.mom_occ(mf, ground.mo_coeff, setocc)
    energy = mf.kernel(np.stack([(C * n) @ C.T for C, n in zip(ground.mo_coeff, setocc, strict=True)]))
    excited = dftfd.run_scf(water, "hf", "UKS", guess=ground, occupations=occupations, follow_orbitals=True, **EXACT)
    assert mf.converged and excited.converged
    assert excited.energy == pytest.approx(energy, abs=1e-8)
    assert excited.energy > ground.energy + 0.2


def test_maximum_overlap_keeps_numbers_with_their_orbitals():
    """Orbitals in another order and with signs changed keep their occupations, whatever their energies."""
    C = np.eye(4)[None]
    order = [2, 0, 3, 1]
    occupation, _ = MaximumOverlap(((2.0, 0.0, 1.0),), C, np.eye(4))(np.arange(4.0)[None], -C[:, :, order])
    np.testing.assert_array_equal(occupation[0], [1.0, 2.0, 0.0, 0.0])


@pytest.mark.parametrize("start", ["mix", [1], (0,)])
def test_broken_symmetry_of_stretched_hydrogen(start):
    """H2 at 5 angstrom, PBE/def2-SVP: broken symmetry at -0.9972615104 hartree (PySCF 2.14), <S^2> near 1."""
    system = dftfd.molecule("H 0 0 0; H 0 0 5", basis="def2-svp")
    result = dftfd.run_scf(system, "pbe", "UKS", broken_symmetry=start, **EXACT)
    assert result.energy == pytest.approx(-0.9972615103681886, abs=1e-8)
    assert result.s_squared == pytest.approx(1.0, abs=1e-3)


def test_spin_flip_of_a_high_spin_result():
    """The same state from the triplet with one atom's spin turned over; and the guess says so."""
    atoms, basis = "H 0 0 0; H 0 0 5", "6-31g"
    triplet = dftfd.run_scf(dftfd.molecule(atoms, basis=basis, spin=2), "hf", **EXACT)
    result = dftfd.run_scf(dftfd.molecule(atoms, basis=basis), "hf", "UKS", guess=triplet, broken_symmetry=[1], **EXACT)
    assert result.s_squared == pytest.approx(1.0, abs=1e-3)
    assert result.energy == pytest.approx(triplet.energy, abs=1e-5)
    assert "flipped" in result.settings.guess


@pytest.mark.parametrize("guess", ["minao", "atom", "hueckel", "sap", "core"])
def test_all_guesses_lead_to_the_same_energy(water, guess):
    """RHF energy of PySCF from each starting density, to 1e-8 hartree."""
    mf = scf.hf.RHF(to_pyscf(water))
    mf.conv_tol = 1e-11
    result = dftfd.run_scf(water, "hf", guess=guess, **EXACT)
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)
    assert result.settings.guess == guess
    assert np.abs(result.mo_occ.sum() - 10) < 1e-12


@pytest.mark.parametrize("cartesian", [False, True])
def test_atomic_potentials_of_the_guess(cartesian):
    """Matrix of potentials c erf(sqrt(a) r) / r by quadrature; PySCF's own is over spherical functions in any case."""
    molecule = dftfd.molecule(WATER, basis="6-31g*", cartesian=cartesian)
    grid = dft.gen_grid.Grids(to_pyscf(molecule))
    grid.level = 4
    grid.build()
    v = np.zeros(len(grid.coords))
    for place, fit in zip(molecule.coordinates, guesses.fitted_potentials(molecule), strict=True):
        r = np.linalg.norm(grid.coords - place, axis=1)
        v -= np.sum([c * scipy.special.erf(np.sqrt(a) * r) / r for a, c in fit], axis=0)
    ao = dft.numint.eval_ao(to_pyscf(molecule), grid.coords)
    assert guesses.atomic_potentials(molecule) == pytest.approx(ao.T @ ((grid.weights * v)[:, None] * ao), abs=1e-6)


def test_start_from_a_smaller_basis_saves_cycles(water):
    """A 6-31G result as guess in def2-SVP: same energy as from minao, to 1e-8 hartree, in no more cycles."""
    larger = dftfd.molecule(WATER, basis="def2-svp")
    small = dftfd.run_scf(water, "hf", **EXACT)
    from_atoms = dftfd.run_scf(larger, "hf", **EXACT)
    result = dftfd.run_scf(larger, "hf", guess=small, **EXACT)
    assert result.energy == pytest.approx(from_atoms.energy, abs=1e-8)
    assert result.cycles <= from_atoms.cycles
    assert "6-31g" in result.settings.guess.lower()


def test_point_charges_match_pyscf(water):
    """Two charges near water, RHF: PySCF's qmmm energy to 1e-8 hartree."""
    positions, charges = np.array([[3.0, 0.5, 4.0], [-4.0, 1.0, 2.0]]), np.array([0.7, -0.4])
    mf = qmmm.mm_charge(scf.hf.RHF(to_pyscf(water)), positions, charges, unit="Bohr")
    mf.conv_tol = 1e-11
    result = dftfd.run_scf(water, "hf", point_charges=np.column_stack([charges, positions]), **EXACT)
    assert result.energy == pytest.approx(mf.kernel(), abs=1e-8)


def test_x2c_matches_pyscf():
    """Scalar-relativistic RHF of argon: PySCF's sf-X2C-1e to 1e-8 hartree; refused with core potentials."""
    system = dftfd.molecule("Ar 0 0 0;", basis="6-31g")
    mf = scf.hf.RHF(to_pyscf(system)).sfx2c1e()
    mf.conv_tol = 1e-11
    assert dftfd.run_scf(system, "hf", relativity="x2c", **EXACT).energy == pytest.approx(mf.kernel(), abs=1e-8)
    with pytest.raises(UnsupportedError, match="core potentials"):
        dftfd.run_scf(dftfd.molecule("I 0 0 0; H 0 0 1.6", basis="def2-svp"), relativity="x2c")


def test_unpaired_electrons_of_atoms():
    """Ground-state terms: H 2S, N 4S, Cr 7S, Ni 3F, Zn 1S; Mo and Br count like Cr and Cl."""
    expected = {"H": 1, "He": 0, "N": 3, "Cr": 6, "Ni": 2, "Zn": 0, "Mo": 6, "Br": 1}
    assert {symbol: unpaired_electrons(symbol) for symbol in expected} == expected


@pytest.mark.parametrize(
    "options, words",
    [
        ({"convergence": "quick"}, "convergence='quick': give one of 'auto', 'fast'"),
        ({"level_shift": -1}, "level_shift=-1"),
        ({"damping": 1.0}, "damping=1.0"),
        ({"guess": "sad"}, "unknown guess 'sad'"),
        ({"broken_symmetry": "mix"}, "needs method='UKS'"),
        ({"method": "UKS", "broken_symmetry": [9]}, "indices of atoms from 0 to 2"),
        ({"smearing": ("cold", 0.1)}, "smearing=.'cold', 0.1.: give .* fermi, gaussian"),
        ({"occupations": [3.0]}, "between 0 and 2"),
        ({"follow_orbitals": True}, "follow_orbitals=True needs"),
        ({"electric_field": [0, 1]}, r"electric_field=\[0, 1\]: give three finite numbers"),
        ({"point_charges": [[1, 2]]}, r"point_charges=\[\[1, 2\]\]: give rows"),
        ({"relativity": "dkh"}, "relativity='dkh': give one of 'x2c', None"),
    ],
)
def test_wrong_options_are_explained(water, options, words):
    """Each option that cannot be carried out is named with what was found."""
    with pytest.raises(InputError, match=words):
        dftfd.run_scf(water, "hf", **options)


def test_options_exclude_each_other():
    """Smearing decides the occupations; occupations need one list per spin."""
    with pytest.raises(InputError, match="leave out one"):
        Options(smearing=0.01, occupations=(2.0,))
    with pytest.raises(InputError, match="1 spins, expected 2"):
        occupations_for(((1.0,),), 2, 1)
    assert Options(smearing=0.01).smearing == ("fermi", 0.01)
