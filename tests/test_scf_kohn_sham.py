"""The energy expression without a semilocal part is Hartree-Fock, which PySCF computes on its own; F is dE/dP."""

import numpy as np
import pytest
from pyscf import gto, scf

from dftfd.libcint.mole import minao_guess, to_pyscf
from dftfd.model.kohn_sham import KohnSham
from dftfd.properties.moments import dipole_moment, spin_square
from dftfd.scf.convergence import Convergence
from dftfd.scf.orbitals import canonical_orthonormaliser, occupied_orbitals
from dftfd.system.molecule import molecule
from dftfd.terms import Contribution, CoulombExchangeEnergy, NuclearEnergy, OneElectronEnergy
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.integrals import ExactCoulombExchange, one_electron
from dftfd.terms.one_electron import surroundings_for
from tests.plain_scf import solve_scf

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


def kohn_sham(system, exact_exchange, coulomb_exchange=None, *terms):
    """The energy without a semilocal part, and with whatever terms are given."""
    nothing = surroundings_for(system)
    two_electron = CoulombExchangeEnergy(coulomb_exchange or ExactCoulombExchange(system), exact_exchange)
    return KohnSham((NuclearEnergy(system, nothing), OneElectronEnergy(system, nothing), two_electron, *terms))


def hartree_fock(system, n_spin, coulomb_exchange=None, exact_exchange=((0.0, 1.0),)):
    """Solve SCF for a mix of exact exchange terms; returns the solution, the energy object and the matrices."""
    matrices = one_electron(system)
    X = canonical_orthonormaliser(matrices.S)
    energy = kohn_sham(system, exact_exchange, coulomb_exchange)
    n_occupied = (system.n_alpha,) if n_spin == 1 else (system.n_alpha, system.n_beta)
    P = minao_guess(system, n_spin)
    solution = solve_scf(energy.evaluate, matrices.S, X, P, n_occupied, convergence=Convergence(1e-10))
    return solution, energy, matrices


@pytest.mark.parametrize(
    "n_spin, source, spin", [(1, WATER, 0), (2, WATER, 0), (2, "O 0 0 0; O 0 0 1.2", 2), (2, "H 0 0 0;", 1)]
)
def test_hartree_fock_matches_pyscf(n_spin, source, spin):
    """Total energy and its parts equal PySCF's RHF and UHF to 1e-9 hartree; the components sum to the total."""
    system = molecule(source, basis="6-31g", spin=spin)
    reference = (scf.hf.RHF if n_spin == 1 else scf.uhf.UHF)(to_pyscf(system))
    reference.conv_tol = 1e-11
    solution, _, _ = hartree_fock(system, n_spin)
    energies = solution.state.evaluation.energies
    assert solution.state.energy == pytest.approx(reference.kernel(), abs=1e-9)
    assert sum(energies.values()) == pytest.approx(solution.state.energy, abs=1e-12)
    assert energies["xc"] == energies["nonlocal"] == 0.0
    assert energies["one_electron"] == pytest.approx(reference.scf_summary["e1"], abs=1e-5)


@pytest.mark.parametrize("n_spin", [1, 2])
def test_density_fitted_hartree_fock_matches_pyscf(n_spin):
    """Density fitting in PySCF's auxiliary basis gives PySCF's density-fitted energy to 1e-9 hartree."""
    system = molecule(WATER, basis="def2-svp")
    mole = gto.M(atom=WATER, basis="def2-svp", verbose=0)  # PySCF looks the auxiliary basis up by the basis set's name
    reference = (scf.RHF if n_spin == 1 else scf.UHF)(mole).density_fit()
    reference.conv_tol = 1e-11
    solution, _, _ = hartree_fock(system, n_spin, DensityFittedCoulombExchange(system, exact_exchange=True))
    assert solution.state.energy == pytest.approx(reference.kernel(), abs=1e-9)


@pytest.mark.parametrize("n_spin", [1, 2])
def test_fock_matrix_is_the_derivative_of_the_energy(n_spin, rng):
    """Central differences of E in random symmetric directions equal tr(F dP) to 1e-7, for several exchange terms.

    E is quadratic in P here, so the difference has no truncation error. A term of a test's own is there, tr(P A)^2.
    """
    system = molecule("O 0 0 0; H 0 0 0.97", basis="sto-3g", charge=-1)
    A = rng.normal(size=(6, 6))
    A = A + A.T

    class Squared:
        """A term that users might add: a class of its own with what the energy asks of it."""

        def evaluate(self, P, C_occ=None):
            value = float(np.sum(P * A))
            return Contribution({"squared": value**2}, {"squared": 2 * value * A[None]})

    energy = kohn_sham(system, ((0.0, 0.3), (0.4, 0.2)), None, Squared())
    P = minao_guess(system, n_spin)
    evaluation = energy.evaluate(P)
    for _ in range(3):
        D = rng.normal(size=P.shape)
        D = 1e-3 * (D + D.transpose(0, 2, 1))
        plus, minus = (sum(energy.evaluate(P + sign * D).energies.values()) for sign in (1, -1))
        assert 0.5 * (plus - minus) == pytest.approx(np.sum(evaluation.F * D), abs=1e-7)


def test_range_separated_exchange_matches_pyscf():
    """0.2 full-range + 0.5 long-range exchange (omega 0.33) on a fixed density: PySCF's get_k gives the same energy."""
    system = molecule(WATER, basis="6-31g")
    P = minao_guess(system, 1)
    mf = scf.hf.RHF(to_pyscf(system))
    K, K_long = mf.get_k(dm=P[0]), mf.get_k(dm=P[0], omega=0.33)
    expected = -0.25 * np.sum(P[0] * (0.2 * K + 0.5 * K_long))
    energy = kohn_sham(system, ((0.0, 0.2), (0.33, 0.5)))
    assert energy.evaluate(P).energies["exact_exchange"] == pytest.approx(expected, abs=1e-10)


def test_restricted_and_unrestricted_expressions_agree():
    """Half of the density in each spin: same energies, and each spin's Fock matrix is the restricted one."""
    system = molecule(WATER, basis="6-31g")
    energy = kohn_sham(system, ((0.0, 0.25),))
    P = minao_guess(system, 1)
    one, two = energy.evaluate(P), energy.evaluate(np.repeat(P / 2, 2, axis=0))
    for name, value in one.energies.items():
        assert two.energies[name] == pytest.approx(value, abs=1e-11)
    for F in two.F:
        np.testing.assert_allclose(F, one.F[0], atol=1e-12)


def test_dipole_and_spin_square_match_pyscf():
    """NO radical, UHF: dipole [e bohr] and <S^2> against PySCF's dip_moment and spin_square on our orbitals."""
    system = molecule("N 0 0 0; O 0 0 1.15", basis="6-31g", spin=1)
    solution, _, matrices = hartree_fock(system, 2)
    state = solution.state
    mf = scf.UHF(to_pyscf(system))
    dipole = mf.dip_moment(dm=state.P, unit="au", verbose=0)
    np.testing.assert_allclose(dipole_moment(system, state.P), dipole, atol=1e-10)
    orbitals = occupied_orbitals(state.mo_coeff, state.mo_occ)
    assert spin_square(orbitals, matrices.S) == pytest.approx(mf.spin_square(orbitals, matrices.S)[0], abs=1e-10)
    assert spin_square(orbitals[::-1], matrices.S) == pytest.approx(spin_square(orbitals, matrices.S), abs=1e-10)


def test_core_potential_atom_runs():
    """HF on an atom with an effective core potential (Ag+, def2-SVP) equals PySCF: charges are the effective ones."""
    system = molecule("Ag 0 0 0;", basis="def2-svp", charge=1)
    mole = gto.M(atom="Ag 0 0 0", basis="def2-svp", ecp="def2-svp", charge=1, verbose=0)
    mf = scf.RHF(mole)
    mf.conv_tol = 1e-11
    assert hartree_fock(system, 1)[0].state.energy == pytest.approx(mf.kernel(), abs=1e-8)
