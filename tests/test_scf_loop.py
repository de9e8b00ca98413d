"""The SCF cycle on Hartree-Fock, built here from PySCF's integrals, against PySCF's own RHF and UHF."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
from pyscf import gto, scf

from dftfd.errors import InputError, NumericalError
from dftfd.scf.convergence import Convergence
from dftfd.scf.diis import DIIS, commutator, pulay_coefficients
from dftfd.scf.orbitals import aufbau, canonical_orthonormaliser, diagonalise, frontier_energies
from dftfd.tasks.run import checked_density, core_guess, spin_densities
from tests.plain_scf import solve_scf

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OZONE = "O 0 0 0.4477; O 0 1.0885 -0.2239; O 0 -1.0885 -0.2239"


def hartree_fock(mol, n_spin):
    """Overlap, Fock callback and minao start of Hartree-Fock, straight from the four-index integrals."""
    S, H, repulsion = mol.intor("int1e_ovlp"), scf.hf.get_hcore(mol), mol.intor("int2e")
    share = n_spin / 2

    def fock(P, C_occ):
        J = np.einsum("abcd,scd->ab", repulsion, P)
        K = np.einsum("acbd,scd->sab", repulsion, P)
        energies = {
            "nuclear": mol.energy_nuc(),
            "one_electron": np.sum(H * P),
            "coulomb": 0.5 * np.sum(J * P),
            "exact_exchange": -0.5 * share * np.sum(K * P),
        }
        return SimpleNamespace(F=H + J - share * K, energies=energies)

    P = spin_densities(scf.hf.init_guess_by_minao(mol), n_spin)
    if n_spin == 2 and mol.spin == 0:
        P = scf.UHF(mol).init_guess_by_minao()  # alpha and beta differ, so that a bond may break
    return fock, S, P


def solve(mol, n_spin, **options):
    fock, S, P = hartree_fock(mol, n_spin)
    n_occupied = (mol.nelec[0],) if n_spin == 1 else mol.nelec
    return solve_scf(fock, S, canonical_orthonormaliser(S), P, n_occupied, **options)


@pytest.mark.parametrize(
    "n_spin, atom, basis, charge, spin",
    [
        (1, WATER, "6-31g", 0, 0),
        (2, WATER, "6-31g", 0, 0),
        (1, OZONE, "sto-3g", 0, 0),
        (2, "O 0 0 0; O 0 0 1.2", "6-31g", 0, 2),
        (2, "H 0 0 0; H 0 0 3", "cc-pvdz", 0, 0),
        (2, "H 0 0 0; H 0 0 1.06", "cc-pvdz", 1, 1),
        (2, "H 0 0 0", "aug-cc-pvtz", 0, 1),
        (2, "H 0 0 0", "sto-3g", 0, 1),
        (1, "He 0 0 0", "sto-3g", 0, 0),
        (2, "Cr 0 0 0", "sto-3g", 0, 6),
    ],
    ids=["water", "water-uks", "ozone", "triplet-o2", "stretched-h2", "h2+", "h", "h-one-ao", "he-one-ao", "cr"],
)
def test_hartree_fock_energy_and_cycle_count_match_pyscf(n_spin, atom, basis, charge, spin):
    """Same energy to 1e-9 hartree in as many cycles as PySCF's SCF, give or take one.

    Includes no beta electrons, no virtual orbitals, and a broken-symmetry solution below the restricted one.
    """
    mol = gto.M(atom=atom, basis=basis, charge=charge, spin=spin, verbose=0)
    reference = (scf.RHF if n_spin == 1 else scf.UHF)(mol)
    if mol.nelectron == 1:  # scf.UHF would hand one electron to a solver without cycles
        reference = scf.uhf.UHF(mol)
    reference.conv_tol = 1e-9
    energy = reference.kernel()
    solution = solve(mol, n_spin)
    assert solution.converged
    assert solution.state.energy == pytest.approx(energy, abs=1e-9)
    assert abs(solution.cycles - reference.cycles) <= 1


def test_solution_is_stationary_and_orthonormal():
    """Converged tightly: [F, P] = 0 in the metric S, C^T S C = 1, P holds the electrons, P S P = 2 P."""
    mol = gto.M(atom=WATER, basis="6-31g", verbose=0)
    fock, S, P = hartree_fock(mol, 1)
    X = canonical_orthonormaliser(S)
    state = solve_scf(fock, S, X, P, (5,), convergence=Convergence(1e-14)).state
    assert np.abs(commutator(state.F, state.P, S, X)).max() < 1e-7
    np.testing.assert_allclose(state.mo_coeff[0].T @ S @ state.mo_coeff[0], np.eye(13), atol=1e-12)
    np.testing.assert_allclose(state.P[0] @ S @ state.P[0], 2 * state.P[0], atol=1e-12)
    assert np.sum(state.P[0] * S) == pytest.approx(10, abs=1e-12)


def test_too_few_cycles_is_reported_not_raised():
    """Non-convergence is a field of the solution; the table still holds every cycle."""
    lines = []
    solution = solve(
        gto.M(atom=WATER, basis="6-31g", verbose=0), 1, convergence=Convergence(max_cycles=3), on_cycle=lines.append
    )
    assert not solution.converged
    assert solution.cycles == 3
    assert [line.number for line in lines] == [0, 1, 2, 3]
    assert tuple(lines) == solution.history or np.isnan(lines[0].energy_change)


def test_a_failed_closing_check_is_not_the_end(rng):
    """If the step without extrapolation contradicts convergence, the cycle goes on and ends at the same energy.

    A tiny gap does that (stretched H2 in test_scf_reference.py); here the callback spoils the closing evaluation.
    """
    mol = gto.M(atom=WATER, basis="6-31g", verbose=0)
    fock, S, P = hartree_fock(mol, 1)
    X = canonical_orthonormaliser(S)
    undisturbed = solve_scf(fock, S, X, P, (5,))
    calls = []

    def spoiled(P, C_occ):
        calls.append(P)
        good = fock(P, C_occ)
        if len(calls) != undisturbed.cycles + 2:
            return good
        noise = rng.normal(size=S.shape) * 1e-2
        return SimpleNamespace(F=good.F + noise + noise.T, energies=good.energies | {"noise": 1e-3})

    solution = solve_scf(spoiled, S, X, P, (5,))
    assert any(line.extra and line.energy_change > 1e-4 for line in solution.history)
    assert solution.converged and solution.cycles > undisturbed.cycles
    assert solution.state.energy == pytest.approx(undisturbed.state.energy, abs=1e-9)


def test_a_gradient_far_below_its_threshold_needs_no_closing_check():
    """From a density converged to 1e-13 one step is enough; the energy is that of the tight run to 1e-12."""
    mol = gto.M(atom=WATER, basis="6-31g", verbose=0)
    fock, S, P = hartree_fock(mol, 1)
    X = canonical_orthonormaliser(S)
    tight = solve_scf(fock, S, X, P, (5,), convergence=Convergence(1e-13)).state
    again = solve_scf(fock, S, X, tight.P, (5,))
    assert again.converged and [line.extra for line in again.history] == [False, False]
    assert again.state.energy == pytest.approx(tight.energy, abs=1e-12)


def test_nan_is_named_and_stops_the_run():
    """A NaN in an energy component or in the Fock matrix is an error that says where, never a masked number."""
    mol = gto.M(atom="H 0 0 0; H 0 0 0.74", basis="sto-3g", verbose=0)
    fock, S, P = hartree_fock(mol, 1)
    X = canonical_orthonormaliser(S)

    def nan_energy(P, C_occ):
        good = fock(P, C_occ)
        return SimpleNamespace(F=good.F, energies=good.energies | {"coulomb": float("nan")})

    def nan_fock(P, C_occ):
        good = fock(P, C_occ)
        F = good.F if C_occ is None else np.where(np.eye(2) > 0, np.nan, good.F)
        return SimpleNamespace(F=F, energies=good.energies)

    with pytest.raises(NumericalError, match="SCF cycle 0: the energy component 'coulomb' is nan"):
        solve_scf(nan_energy, S, X, P, (1,))
    with pytest.raises(NumericalError, match="SCF cycle 1: the Fock matrix has 2 entries NaN or Inf"):
        solve_scf(nan_fock, S, X, P, (1,))


def test_canonical_orthogonalisation_drops_dependent_functions(rng):
    """A basis with a duplicated function gives one orbital fewer and an orthonormal set."""
    A = rng.normal(size=(12, 4))
    A = np.hstack([A, A[:, :1]])
    S = A.T @ A
    X = canonical_orthonormaliser(S)
    assert X.shape == (5, 4)
    np.testing.assert_allclose(X.T @ S @ X, np.eye(4), atol=1e-12)
    assert canonical_orthonormaliser(S + 1e-4 * np.eye(5)).shape == (5, 5)


def test_bad_thresholds_are_refused():
    """Each message names the option and a sensible value."""
    with pytest.raises(InputError, match="conv_tol=0.0: give a positive number"):
        Convergence(energy=0.0)
    with pytest.raises(InputError, match="max_cycles=0: give a whole number"):
        Convergence(max_cycles=0)
    with pytest.raises(InputError, match="no orbital is left"):
        canonical_orthonormaliser(np.eye(2), 2.0)
    with pytest.raises(InputError, match="3 orbitals must be occupied but the basis set gives only 2"):
        aufbau(np.zeros((1, 2)), (3,), 2)


def test_frontier_energies_without_occupied_or_virtual_orbitals():
    """Empty spins and full shells have no HOMO or no LUMO, and that is None, not an exception."""
    occupation = aufbau(np.array([[-1.0, 0.5], [-0.5, 0.5]]), (2, 0), 1)
    assert frontier_energies(np.array([[-1.0, 0.5], [-0.5, 0.5]]), occupation) == ((0.5, None), (None, -0.5))


def coefficients(errors):
    history = DIIS.of(len(errors), errors, errors)
    return pulay_coefficients(history.lengths, history.cosines)


def test_pulay_coefficients_solve_the_constrained_least_squares_problem(rng):
    """Against the textbook elimination of the constraint, for well-conditioned errors; sum of coefficients is 1."""
    errors = [rng.normal(size=30) for _ in range(5)]
    B = np.array([[a @ b for b in errors] for a in errors])
    expected = np.linalg.solve(B, np.ones(5))
    np.testing.assert_allclose(coefficients(errors), expected / expected.sum(), atol=1e-12)


def test_pulay_coefficients_survive_extreme_scales_and_linear_dependence(rng):
    """Errors from 1 down to 1e-12, a repeated error, and an exact zero: finite, normalised, no worse than the best."""
    vectors = rng.normal(size=(6, 40))
    errors = [10.0 ** (-2.4 * k) * v for k, v in enumerate(vectors)]
    for history in (errors, [*errors, errors[-1]], [*errors, 2.0 * errors[-1]]):
        c = coefficients(history)
        assert np.sum(c) == pytest.approx(1.0, abs=1e-12)
        residual = np.linalg.norm(sum(c_k * e for c_k, e in zip(c, history, strict=True)))
        assert residual <= np.linalg.norm(errors[-1]) * (1 + 1e-10)
    assert list(coefficients([errors[0], 0 * errors[0]])) == [0.0, 1.0]


def test_diis_keeps_the_last_matrices_only():
    """A space of two forgets the first of three; the combination of equal matrices is that matrix."""
    history = DIIS(space=2)
    for k in range(3):
        history = history.push(np.full((1, 2, 2), float(k)), np.array([1.0 + k]))
    assert [F[0, 0, 0] for F in history.focks] == [1.0, 2.0] and list(history.lengths) == [2.0, 3.0]
    np.testing.assert_allclose(history.cosines, 1.0)
    same = DIIS().push(np.eye(2)[None], np.array([1.0])).push(np.eye(2)[None], np.array([0.5]))
    np.testing.assert_allclose(same.extrapolate(), np.eye(2)[None], atol=1e-12)


def test_core_guess_reaches_the_same_energy():
    """Another start, the same end: water from the core Hamiltonian's orbitals."""
    mol = gto.M(atom=WATER, basis="6-31g", verbose=0)
    fock, S, P = hartree_fock(mol, 1)
    X = canonical_orthonormaliser(S)
    core = core_guess(scf.hf.get_hcore(mol), X, (5,), 2)
    energies = [solve_scf(fock, S, X, start, (5,)).state.energy for start in (P, core)]
    assert energies[0] == pytest.approx(energies[1], abs=1e-8)


def test_given_starting_density_is_checked():
    """Wrong size, NaN, asymmetry and nonsense are one clear line each; a total density is split."""
    assert checked_density(np.eye(3), 2, 3).shape == (2, 3, 3)
    assert checked_density(np.eye(3), 2, 3)[0, 0, 0] == 0.5
    with pytest.raises(InputError, match=r"shape \(5, 5\), but the basis set has 2 functions"):
        checked_density(np.eye(5), 1, 2)
    with pytest.raises(InputError, match="guess=.*4 not finite.*: give"):
        checked_density(np.full((2, 2), np.nan), 1, 2)
    with pytest.raises(InputError, match="not symmetric"):
        checked_density(np.array([[1.0, 0.5], [0.0, 1.0]]), 1, 2)
    with pytest.raises(InputError, match="guess=.minoa.: give the name of a guess"):
        checked_density("minoa", 1, 2)


def test_orbital_signs_do_not_depend_on_the_solver():
    """The largest coefficient of every orbital is positive."""
    F = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    _, C = diagonalise(F, np.eye(2))
    assert np.all(C[0][np.argmax(np.abs(C[0]), axis=0), [0, 1]] > 0)


def test_loop_logs_nothing_by_itself(caplog):
    """The loop reports by its callback alone; printing is the caller's choice."""
    with caplog.at_level(logging.DEBUG, logger="dftfd"):
        solve(gto.M(atom="He 0 0 0", basis="6-31g", verbose=0), 1)
    assert not caplog.records
