"""Terms of the energy that a user brings: DFT+U, a constraint, nuclei of finite size, of the files in examples/terms.

The references are PySCF's DFT+U with its gradient, PySCF's Gaussian nuclei, PySCF's SCF with a constraint's operator in
its core Hamiltonian, and differences of energies and matrices, in which no code for derivatives has a part.
"""

import json
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from pyscf import scf
from pyscf.dft import rkspu, ukspu

import dftfd
from dftfd.cli import main
from dftfd.errors import InputError, UnsupportedError
from dftfd.functionals.named_files import load_file
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import eri
from dftfd.runtime import chosen_terms
from dftfd.runtime.chosen_terms import ChosenTerm, term_named
from dftfd.runtime.progress import Progress
from dftfd.terms import Contribution, CoulombExchangeEnergy, DerivedTerm, Term, energy_term
from dftfd.terms.integrals import ExactCoulombExchange

FILES = Path(__file__).parents[1] / "examples" / "terms"
Hubbard, Constraint, FiniteNucleus = (
    getattr(load_file(FILES / f"{file}.py"), name)
    for file, name in (("hubbard", "Hubbard"), ("constraint", "Constraint"), ("finite_nucleus", "FiniteNucleus"))
)
constrained = load_file(FILES / "constraint.py").constrained
HARTREE_IN_EV = 27.211386245988
EXACT = {"density_fit": False, "conv_tol": 1e-12}
BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
slow = pytest.mark.slow


class Cubic(DerivedTerm):
    """No physics, but a response that changes: tr(P S P S P S) of the total density, and half of the spins' squares."""

    components, hermitian = {"cubic": "cubic"}, True

    def energy(self, P, S):
        n = P.sum(axis=0) @ S
        return 0.01 * jnp.trace(n @ n @ n) + 0.05 * sum(jnp.trace(P_s @ S @ P_s @ S) for P_s in P)


def water(spin=0):
    return dftfd.molecule(BENT, basis="sto-3g", charge=spin, spin=spin)


def helium_hydride():
    return dftfd.molecule("He 0 0 0; H 0 0 0.9", basis="sto-3g", charge=1)


def slope(value, h):
    """Fourth-order central difference of value(x) at 0."""
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)


def at(molecule, x):
    """The molecule with its second atom moved along y."""
    R = molecule.coordinates.copy()
    R[1, 1] += x
    return molecule.at(R)


# ------------------------------------------------------------------------------------------------ one term at a time

MAKERS = [
    pytest.param(partial(Hubbard, shell="O 2p", U=0.3), id="DFT+U"),
    pytest.param(partial(Constraint, atoms=[0, 1], value=8.5, V=0.2), id="constraint"),
    pytest.param(Cubic, id="cubic"),
    pytest.param(FiniteNucleus, id="finite nucleus"),
]


ONE_SPIN, TWO_SPINS = "finite", "DFT+U cubic"
"""Of which terms these derivatives are compared at every run; a program for each operation makes them dear."""


@pytest.mark.parametrize(
    ("maker", "spins"),
    [
        pytest.param(*maker.values, spins, id=f"{maker.id}-{spins}", marks=[] if maker.id.split()[0] in quick else slow)
        for maker in MAKERS
        for spins, quick in ((1, ONE_SPIN), (2, TWO_SPINS))
    ],
)
def test_matrix_response_and_gradient_are_slopes(maker, spins, rng):
    """Of the energy by P, of the matrix by orbitals, of the energy by a nucleus, at a density that is no solution."""
    molecule, n = water(), water().n_ao
    term, C = maker(molecule), [0.4 * rng.normal(size=(4, n)) for _ in range(spins)]
    dC = [0.2 * rng.normal(size=c.shape) for c in C]
    P = np.stack([c.T @ c for c in C])
    dP = np.stack([d.T @ c + c.T @ d for c, d in zip(C, dC, strict=True)])
    (name,) = term.components
    energy = lambda x: term.evaluate(P + x * dP).energies[name]
    matrix = lambda x: np.broadcast_to(term.evaluate(P + x * dP).matrices[name], P.shape)
    assert np.sum(matrix(0.0) * dP) == pytest.approx(slope(energy, 1e-3), abs=1e-9)
    response = term.response(P, C)([d[None] for d in dC])
    for c, found, expected in zip(C, response, slope(matrix, 1e-3), strict=True):
        np.testing.assert_allclose(found + 0 * c[None], (c @ expected)[None], atol=1e-9)
    of_nucleus = lambda x: maker(at(molecule, x)).evaluate(P).energies[name]
    gradient = term.gradient(P, None, True, Progress())
    assert gradient[1, 1] == pytest.approx(slope(of_nucleus, 1e-3), abs=1e-9)
    np.testing.assert_allclose(gradient.sum(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize("maker", [pytest.param(*MAKERS[0].values, id="DFT+U", marks=slow), *MAKERS[1:3]])
def test_triplet_and_imaginary_responses_are_second_derivatives(maker, rng):
    """Opposite changes of the spins, against a term of two spins; dP = i A, against differences of E(P + i x A)."""
    molecule, n = water(), water().n_ao
    term, C, dC = maker(molecule), 0.4 * rng.normal(size=(4, n)), 0.2 * rng.normal(size=(1, 4, n))
    P = (C.T @ C)[None]
    half = C / np.sqrt(2), dC / np.sqrt(2)
    opposite = term.response(np.repeat(P, 2, axis=0) / 2, [half[0], half[0]])([half[1], -half[1]])
    triplet = term.response(P, [C], triplet=True)([dC])
    np.testing.assert_allclose(triplet[0], opposite[0] * np.sqrt(2), atol=1e-11)
    A = dC[0].T @ C - C.T @ dC[0]  # orbitals that change by half of it change P by -i A
    X = term.response(P, [np.eye(n)])([0.5 * A[None]], imaginary=1.0)[0][0].T
    energy = lambda x: float(term.energy_of(P + 1j * x * A[None]))
    curvature = (16 * (energy(0.01) - energy(0.0)) - (energy(0.02) - energy(0.0))) / (6 * 0.01**2)
    assert -np.sum(X * A) == pytest.approx(curvature, abs=1e-6 * max(1.0, abs(curvature)))


class Exchange(DerivedTerm):
    """Exact exchange of any Hermitian P, -1/2 sum P_dm P_nl (mn|ld)."""

    components, hermitian = {"own_exchange": "exchange"}, True

    def energy(self, P, S):
        integrals = jnp.asarray(eri(self._molecule, 0.0)).astype(P.dtype)
        return -0.5 * jnp.einsum("sdm,snl,mnld->", P, P, integrals)


@pytest.mark.parametrize("imaginary", [0.0, 0.5, 1.0])
def test_the_derived_response_is_that_of_the_same_energy_written_by_hand(imaginary, rng):
    """Exact exchange as a DerivedTerm against CoulombExchangeEnergy: real, imaginary and mixed changes, two spins."""
    molecule, hf = helium_hydride(), dftfd.get_functional("hf")
    C = [rng.normal(size=(2, 2)) for _ in range(2)]
    dC = [rng.normal(size=(3, 2, 2)) for _ in range(2)]
    P = np.stack([c.T @ c for c in C])
    change = lambda pairs: CoulombExchangeEnergy(ExactCoulombExchange(molecule), pairs).response(P, C)(dC, imaginary)
    expected = [a - b for a, b in zip(change(hf.exact_exchange), change(()), strict=True)]
    found = Exchange(molecule).response(P, C)(dC, imaginary)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_third_derivatives_are_differences(rng):
    """Of matrix and gradient along P_0 + e P_1 + e^2/2 P_2, against values at a few e: a cubic energy has no more."""
    molecule, n = water(), water().n_ao
    term = Cubic(molecule)
    P = [0.1 * (x + x.transpose(0, 2, 1)) for x in rng.normal(size=(3, 2, n, n))]
    along = lambda e: P[0] + e * P[1] + e * e / 2 * P[2]
    matrices = lambda e: term.evaluate(along(e)).matrices["cubic"]
    gradients = lambda e: term.gradient(along(e), None, True, None)
    second = lambda f, h=1e-2: (16 * (f(h) + f(-h)) - f(2 * h) - f(-2 * h) - 30 * f(0.0)) / (12 * h * h)
    found = term.bent_matrices(P)
    np.testing.assert_allclose(found[0], matrices(0.0), atol=1e-12)
    np.testing.assert_allclose(found[1], slope(matrices, 1e-2), atol=1e-7)
    np.testing.assert_allclose(found[2], second(matrices), atol=1e-6)
    np.testing.assert_allclose(term.bent_gradient(P, True, None), second(gradients), atol=1e-6)


# -------------------------------------------------------------------------------------------- against other programs


@pytest.mark.parametrize("spin", [pytest.param(0, marks=slow), 1])
def test_dft_plus_u_is_pyscfs(spin, pyscf_grid):
    """Energy to 1e-8 hartree and gradient to 1e-6 of LDA+U of OH- and OH, on PySCF's grid with exact integrals."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0.3 0.9", basis="sto-3g", charge=spin - 1, spin=spin)
    grid, term = pyscf_grid(molecule, 1), partial(Hubbard, shell="O 2p", U=0.2)
    found = dftfd.run_scf(molecule, "lda,vwn", grid=grid, terms=[term], **EXACT)
    kind = ukspu.UKSpU if spin else rkspu.RKSpU
    mf = kind(to_pyscf(molecule).copy(), xc="lda,vwn", U_idx=["O 2p"], U_val=[0.2 * HARTREE_IN_EV])
    mf.grids.coords, mf.grids.weights, mf.conv_tol = *grid, 1e-12
    assert found.energy == pytest.approx(mf.kernel(), abs=1e-8)
    assert found.energies["hubbard"] > 1e-3
    assert -found.forces(grid_response=False) == pytest.approx(mf.nuc_grad_method().kernel(), abs=1e-6)


def test_gaussian_nuclei_are_pyscfs():
    """Hartree-Fock of HBr with the same exponents of the nuclei: energy to 1e-9 hartree, gradient to 1e-7."""
    molecule = dftfd.molecule("H 0 0.2 0; Br 0 0 1.41", basis="sto-3g")
    found = dftfd.run_scf(molecule, "hf", terms=[FiniteNucleus], **EXACT)
    zeta = dict(zip(molecule.atomic_numbers.tolist(), FiniteNucleus(molecule).zeta, strict=True))
    mole = to_pyscf(molecule).copy()
    mole.nucmod = dict.fromkeys(["H", "Br"], lambda charge, properties: zeta[int(charge)])
    mf = scf.RHF(mole.build(False, False))
    mf.conv_tol = 1e-12
    assert found.energy == pytest.approx(mf.kernel(), abs=1e-9)
    assert found.energies["finite_nucleus"] > 5e-3
    assert -found.forces() == pytest.approx(mf.nuc_grad_method().kernel(), abs=1e-7)


def test_a_constrained_state_is_pyscfs_with_the_operator_in_its_core_hamiltonian():
    """N of He in HeH+ is 1.5 to 1e-7; PySCF's SCF in the same potential, V times Loewdin's projector, is the same."""
    molecule = helium_hydride()
    found, V = constrained(molecule, "hf", [0], 1.5, **EXACT)
    mf = scf.RHF(to_pyscf(molecule).copy())
    S = mf.get_ovlp()
    root = scipy.linalg.sqrtm(S).real
    w = root @ np.diag([1.0, 0.0]) @ root
    core = mf.get_hcore()
    mf.get_hcore, mf.conv_tol = lambda *_: core + V * w, 1e-12
    theirs = mf.kernel() - V * np.sum(w * mf.make_rdm1())
    assert np.sum(w * mf.make_rdm1()) == pytest.approx(1.5, abs=1e-7)
    assert found.energy == pytest.approx(theirs, abs=1e-8)
    assert found.energies["constraint"] == pytest.approx(0.0, abs=1e-7)


@slow  # eight outer loops of a dozen SCFs each
def test_forces_and_slope_of_a_constrained_state():
    """-dE/dR at fixed N_0 are the forces, dE/dN_0 is -V, both by differences of whole constrained calculations."""
    molecule = helium_hydride()
    found, V = constrained(molecule, "hf", [0], 1.6, **EXACT)
    energy = lambda x, n: constrained(at(molecule, x), "hf", [0], 1.6 + n, **EXACT)[0].energy
    assert found.forces()[1, 1] == pytest.approx(-slope(lambda x: energy(x, 0.0), 5e-3), abs=1e-7)
    assert -V == pytest.approx(slope(lambda n: energy(0.0, n), 1e-2), abs=1e-6)


@slow  # 0.8 s; numbers of electrons are constrained above
def test_a_spin_is_constrained():
    """N_alpha - N_beta of one end of stretched H2+, which by symmetry is 1/2, is made 0.8."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 1.1", basis="sto-3g", charge=1, spin=1)
    found, V = constrained(molecule, "hf", [0], 0.8, spin=True, **EXACT)
    assert found.spin_populations("loewdin")[0] == pytest.approx(0.8, abs=1e-6) and abs(V) > 0.05


# ---------------------------------------------------------------------------------------------- whole calculations


HUBBARD = partial(Hubbard, shell="O 2p", U=0.3)


@pytest.fixture(scope="module")
def with_u():
    return dftfd.run_scf(water(), "hf", terms=[HUBBARD], **EXACT)


def test_energy_and_response_reach_what_is_derived(with_u):
    """dftfd.energy is the SCF's energy and Fock matrix; the polarizability is the dipole's slope by a field."""
    E = dftfd.energy(water(), "hf", terms=[HUBBARD], density_fit=False)
    assert float(E(with_u.density_matrix)) == pytest.approx(with_u.energy, abs=1e-9)
    assert E.components(with_u.density_matrix)["hubbard"] == pytest.approx(with_u.energies["hubbard"], abs=1e-11)
    assert np.asarray(jax.grad(E)(with_u.density_matrix)) == pytest.approx(with_u.fock, abs=1e-9)
    in_field = lambda F: dftfd.run_scf(water(), "hf", terms=[HUBBARD], electric_field=(0, 0, F), **EXACT).dipole[2]
    assert with_u.polarizability()[2, 2] == pytest.approx(slope(in_field, 2e-3), rel=1e-6)


@slow  # 4 s; responses of terms: above; a term in training: the next test
def test_training_goes_through_a_term():
    """The dipole's derivative by a share of exact exchange, against differences of differentiable_scf's."""
    molecule = dftfd.molecule("Li 0 0 0; H 0 0 1.6", basis="sto-3g")
    term = partial(Constraint, atoms=[0], value=3.0, V=0.1)
    solved = dftfd.differentiable_scf(molecule, terms=[term, Cubic], grid_level=0, **EXACT)
    dipole = lambda a: solved(a * dftfd.exact_exchange).dipole[2]
    assert float(jax.grad(dipole)(0.9)) == pytest.approx(float(slope(lambda x: dipole(0.9 + x), 1e-2)), rel=1e-6)
    plain = dftfd.differentiable_scf(molecule, grid_level=0, **EXACT)
    assert abs(float(plain(0.9 * dftfd.exact_exchange).dipole[2] - dipole(0.9))) > 1e-2


def test_a_linear_term_takes_part_in_training():
    """Nuclei of finite size: differentiable_scf has the energy of run_scf."""
    molecule = dftfd.molecule("H 0 0 0; Cl 0 0 1.3", basis="sto-3g")
    found = dftfd.run_scf(molecule, "hf", terms=[FiniteNucleus], **EXACT)
    solved = dftfd.differentiable_scf(molecule, "hf", terms=[FiniteNucleus], **EXACT)()
    assert float(solved.energy) == pytest.approx(found.energy, abs=1e-9)
    assert float(solved.energies["finite_nucleus"]) == pytest.approx(found.energies["finite_nucleus"], abs=1e-10)


def test_pyscf_gets_no_other_hamiltonian(with_u):
    """A hand-over without the term would be of another energy."""
    with pytest.raises(UnsupportedError, match="cannot hand over the energy of 'Hubbard correction'"):
        with_u.to_pyscf()


@slow  # TDDFT and a Hessian of water, 6 s
def test_excitations_and_frequencies_with_a_term(with_u):
    """TDHF is the response's: the static polarizability from all excitations; the Hessian is the slope of forces."""
    found = with_u.excitations(10)
    moments = np.asarray(found.transition_dipoles)
    alpha = 2 * np.sum(moments[:, 2] ** 2 / np.asarray(found.energies))
    assert alpha == pytest.approx(with_u.polarizability()[2, 2], rel=1e-5)
    forces = lambda x: dftfd.run_scf(at(water(), x), "hf", terms=[HUBBARD], **EXACT).forces()
    assert -with_u.hessian()[1, 1] == pytest.approx(slope(forces, 5e-3), abs=1e-5)


# ------------------------------------------------------------------------------------------------- names and files


def test_results_know_a_named_term_again(with_u, tmp_path, monkeypatch):
    """Saved and loaded with its arguments; refused where the name stands for other code, or for none."""
    with_u.save(tmp_path / "u.h5")
    again = dftfd.load_result(tmp_path / "u.h5")
    assert again.energies == with_u.energies and again.forces() == pytest.approx(with_u.forces(), abs=1e-10)
    assert 'energy term           dft+u(shell="O 2p", U=0.3)' in str(again)
    assert "Hubbard correction" in str(again)

    class Other(Hubbard):
        def energy(self, P, S):
            return 1.1 * super().energy(P, S)

    monkeypatch.setitem(chosen_terms._makers, "dft+u", Other)
    with pytest.raises(UnsupportedError, match="gives other energies than when the result was computed"):
        dftfd.load_result(tmp_path / "u.h5")
    monkeypatch.delitem(chosen_terms._makers, "dft+u")
    with pytest.raises(UnsupportedError, match="cannot be used here: unknown energy term 'dft\\+u"):
        dftfd.load_result(tmp_path / "u.h5")


def test_what_no_name_stands_for_is_computed_but_not_kept(tmp_path):
    """Files, QCSchema, checkpoints and records refuse a term without a name, in one line."""
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    found = dftfd.run_scf(helium, "hf", terms=[Cubic], density_fit=False)
    assert found.energies["cubic"] > 0 and "Cubic" in str(found)
    calls = (
        lambda: found.save(tmp_path / "he.h5"),
        found.to_qcschema,
        lambda: dftfd.run_scf(helium, "hf", terms=[Cubic], checkpoint=tmp_path / "he.chk"),
        lambda: dftfd.run_batch([helium], "hf", terms=[Cubic], record=tmp_path / "he.jsonl"),
    )
    for call in calls:
        with pytest.raises(InputError, match="has no name that files, records or other processes could know it by"):
            call()


@slow  # 1.6 s; a term is part of the identity in test_records
def test_restarts_and_records_tell_terms_apart(with_u, tmp_path):
    """A checkpoint of another U is refused, and a record's answer is that of the same U alone."""
    path = tmp_path / "u.chk"
    options = {"density_fit": False}
    dftfd.run_scf(water(), "hf", terms=[HUBBARD], checkpoint=path, max_cycles=3, **options)
    finished = dftfd.run_scf(water(), "hf", terms=[HUBBARD], restart=path, **options)
    assert finished.energy == pytest.approx(with_u.energy, abs=1e-8)
    with pytest.raises(dftfd.errors.CheckpointError, match="terms"):
        dftfd.run_scf(water(), "hf", terms=['dft+u(shell="O 2p", U=0.2)'], restart=path, **options)
    batch = lambda U: dftfd.run_batch(
        [water()], "hf", terms=[f'dft+u(shell="O 2p", U={U})'], record=tmp_path / "u.jsonl", **options
    )
    answers = [batch(U)[0] for U in (0.3, 0.2, 0.3)]
    assert [answer.error for answer in answers] == [None] * 3
    first, second, third = (answer.energy for answer in answers)
    assert first == third == pytest.approx(with_u.energy, abs=1e-8) and second < first - 1e-3


def test_the_command_line_and_documents(tmp_path, capsys, monkeypatch):
    """--term FILE.py:NAME(...) executes a file that was named there; what it prints and keeps has the term."""
    monkeypatch.chdir(tmp_path)
    text = f'{FILES / "hubbard.py"}:dft+u(shell="O 2p", U=0.3)'
    words = ["run", BENT, "--basis", "sto-3g", "--xc", "hf", "--no-density-fit", "--term", text, "--output", "u.json"]
    assert main(words) == 0
    assert "Hubbard correction" in capsys.readouterr().out
    document = json.loads((tmp_path / "u.json").read_text())
    assert document["keywords"]["terms"] == ['dft+u(shell="O 2p", U=0.3)']
    assert main([*words[:-3], f"{FILES / 'hubbard.py'}:dft+v(U=1)"]) == 2
    assert "unknown energy term" in capsys.readouterr().err


@slow  # starts a process
def test_other_processes_load_the_file_again(tmp_path, capsys):
    """Two molecules of the command line in two processes, with a term of a file."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.xyz").write_text("3\n\n" + BENT.replace("; ", "\n") + "\n")
    text = f'{FILES / "hubbard.py"}:dft+u(shell="O 2p", U=0.3)'
    files = [str(tmp_path / f"{name}.xyz") for name in ("a", "b")]
    assert main(["run", *files, "--basis", "sto-3g", "--xc", "hf", "--jobs", "2", "--term", text]) == 0
    assert "2 of 2 molecules converged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("dft+u", {}),
        ('DFT+U(shell="O 2p", U=0.2)', {"shell": "O 2p", "U": 0.2}),
        ("dft+u( atoms=[0, 1],shell=O 2p )", {"atoms": [0, 1], "shell": "O 2p"}),
        ("dft+u(shell='O 2p', U=.2, V=-1d-1,)", {"shell": "O 2p", "U": 0.2, "V": -0.1}),
    ],
)
def test_texts_of_terms(text, arguments):
    """JSON, or plain text without a comma; the text that it is written as gives it back."""
    found = term_named(text)
    assert dict(found.arguments) == arguments and found.maker is Hubbard
    assert term_named(str(found)).arguments == found.arguments


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (["dft+w(U=1)"], "unknown energy term 'dft.w.U=1.'; the closest names are dft.u"),
        (["dft+u(0.2)"], "'0.2' is not an argument"),
        (['dft+u(shell="O 2p", U=0.1, U=0.2)'], "'U' names one argument twice"),
        (['dft+u(shell="O 2p", V=0.1], U=0.2)'], "neither a number nor text"),
        (['dft+u(U=0.2, shell="O 2p" V=0.1)'], "neither a number nor text"),
        (['dft+u(U=0.2, shell="O 2p)'], "'shell' is not understood|neither a number nor text"),
        (['dft+u(shell="O 2p", U=4 eV)'], "neither a number nor text"),
        (['dft+u(shell="O 2p", U=0.2) V=0.1'], "lacks a bracket at its end"),
        ([partial(Hubbard, shell="O 2p", U=4)], "U=4 hartree are 108.846 eV"),
        ([partial(Constraint, atoms=[3], value=1.0)], r"atoms=.3.: numbers from 0 to 2 expected"),
        ([partial(Constraint, atoms=[0], value="8.5", V=0.1)], "Constraint cannot be evaluated: TypeError"),
        ([3], "terms= holds 3; code of a molecule"),
        ("dft+u", "terms="),
        ([Hubbard], "cannot be made for this molecule: TypeError"),
        ([partial(Hubbard, shell="Ni 3d", U=0.1)], "no atom of H2O has the shell 'Ni 3d'"),
        ([lambda molecule: 1], "which gave 1; a Term expected"),
    ],
)
def test_what_is_no_term_is_refused(terms, message):
    """In one line, before any integral."""
    with pytest.raises(InputError, match=message):
        dftfd.run_scf(water(), "hf", terms=terms)


def test_names_of_dftfds_own_are_not_taken():
    """A component 'xc' would be added to another energy; a name stands for one class."""

    class Doubled(Term):
        components, stage = {"xc": "more"}, "toy"

        def evaluate(self, P, C_occ=None):
            return Contribution({"xc": 1.0})

        def gradient(self, P, C_occ, grid_response, progress):
            return np.zeros((1, 3))

    with pytest.raises(InputError, match="component 'xc', which is dftfd's own"):
        dftfd.run_scf(water(), "hf", terms=[lambda molecule: Doubled()])
    with pytest.raises(InputError, match="take another name"):
        energy_term("dft+u")(Cubic)
    with pytest.raises(InputError, match="a name of letters"):
        energy_term("a b")
    assert ChosenTerm.of(Cubic).name == ""
