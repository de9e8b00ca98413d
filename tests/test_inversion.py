"""Inversions: potentials that are known are found again, derivatives are those of the functional, errors are typed."""

import jax
import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import FileError, FunctionalError, InputError, InputWarning, NotConvergedError, UnsupportedError
from dftfd.functionals.common import slater_exchange, spin_scaled
from dftfd.interop.pyscf import correlated_density
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.mole import one_electron_integrals
from dftfd.libcint.three_centre import overlaps_of_three
from dftfd.scf.orbitals import canonical_orthonormaliser
from dftfd.training.inversion import WuYang, _shifted
from dftfd.xc.density import evaluate_at

HELIUM = {"He": [[0, [0.15 * 2.2**k, 1.0]] for k in range(9)]}
H2 = "H 0 0 0; H 0 0 0.74"
LINE = np.linspace(0.3, 3.0, 12)[:, None] * np.array([0.6, 0.0, 0.8])


def converged(atoms, basis, xc="pbe", **options):
    options = {"density_fit": False, "grid_level": 1, "conv_tol": 1e-11} | options
    spin = options.pop("spin", 0)
    return dftfd.run_scf(dftfd.molecule(atoms, basis=basis, spin=spin), xc, **options)


@pytest.fixture(scope="module")
def helium():
    return converged("He 0 0 0;", HELIUM, "hf")


@pytest.fixture(scope="module")
def hydrogen():
    return converged(H2, "def2-tzvp")


@pytest.fixture(scope="module")
def inverted(hydrogen):
    return dftfd.invert(hydrogen.molecule, hydrogen, homo=hydrogen.mo_energy[0, 0])


@pytest.fixture(scope="module")
def search():
    """W of lithium hydride's density of another potential, for seven functions."""
    molecule = dftfd.molecule("Li 0 0 0; H 0 0 1.6", basis="sto-3g")
    functions = dftfd.molecule(
        "Li 0 0 0; H 0 0 1.6", basis={"default": [[0, [0.5, 1.0]], [0, [3.0, 1.0]], [1, [0.7, 1.0]]]}
    )
    integrals = one_electron_integrals(molecule)
    X = canonical_orthonormaliser(integrals["overlap"])
    target = np.diag(np.linspace(0.1, 1.1, molecule.n_ao))
    overlaps = overlaps_of_three(molecule, functions)
    return WuYang(
        overlaps,
        2 * one_electron_integrals(functions)["kinetic"],
        integrals["kinetic"] + integrals["nuclear"],
        X,
        target,
        2,
        2,
    )


def five_points(f, b, step=1e-2):
    """df/db (function, ...) by five points."""
    rows = []
    for direction in np.eye(len(b)):
        values = [f(b + k * step * direction) for k in (-2, -1, 1, 2)]
        rows.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step))
    return np.array(rows)


def test_derivatives_of_w_are_those_of_differences(search):
    """Slope and curvature of Wu and Yang's functional against five-point differences of it."""
    b, smoothing = 0.05 * np.random.default_rng(3).normal(size=10), 1e-2
    _, orbitals, P = search.at(b, smoothing)
    slope = search.slope(b, P, smoothing)
    np.testing.assert_allclose(slope, five_points(lambda b: search.at(b, smoothing)[0], b), atol=1e-7)
    slopes = five_points(lambda b: search.slope(b, search.at(b, smoothing)[2], smoothing), b)
    np.testing.assert_allclose(-search.curvature(orbitals, smoothing), slopes, atol=1e-6)


def test_overlaps_of_three_are_quadratures(hydrogen):
    """The integral of g chi chi by the molecular grid."""
    molecule = hydrogen.molecule
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level=4)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    ao = gaussian_basis(molecule).evaluate(np.asfortranarray(points), 0)[0]
    expected = np.einsum("tp,ap,bp,p->tab", ao, ao, ao, weights, optimize=True)
    np.testing.assert_allclose(overlaps_of_three(molecule, molecule), expected, atol=2e-5)


def test_two_electrons_of_hartree_fock_have_half_the_hartree_potential(helium):
    """v_x = -v_H / 2 for two electrons in one orbital: Fermi and Amaldi's reference is the answer."""
    found = dftfd.invert(helium.molecule, helium, smoothing=1e-4)
    hartree = 2.0 / np.linalg.norm(LINE, axis=1) - evaluate_at(helium.electrostatic_potential, LINE)
    np.testing.assert_allclose(evaluate_at(found.potential, LINE)[:, 0], -hartree / 2, atol=1e-6)
    assert found.density_error < 1e-6
    assert found.mo_energy[0, 0] == pytest.approx(helium.mo_energy[0, 0], abs=1e-6)
    T = one_electron_integrals(helium.molecule)["kinetic"]
    assert found.kinetic_energy == pytest.approx(np.sum(T * helium.density_matrix), abs=1e-6)


def test_the_formula_of_one_orbital_agrees_with_hartree_fock(helium):
    """nabla^2 sqrt(n) / 2 sqrt(n) of nine Gaussians, whose ripples are a hundredth of a hartree up to 2 bohr."""
    found = dftfd.invert(helium.molecule, helium, method="one-orbital", homo=helium.mo_energy[0, 0])
    r = np.linspace(0.4, 2.0, 60)[:, None] * np.array([0.0, 1.0, 0.0])
    hartree = 2.0 / r[:, 1] - evaluate_at(helium.electrostatic_potential, r)
    difference = np.asarray(evaluate_at(found.potential, r))[:, 0] + hartree / 2
    assert np.abs(difference).mean() < 2e-2
    assert abs(difference.mean()) < 5e-3


@pytest.mark.slow  # 0.5 s; that of two electrons: above
def test_one_electron_has_no_interaction_with_itself():
    """v_xc = -v_H for the electron of hydrogen, alpha; the empty spin keeps the reference."""
    result = converged("H 0 0 0;", "def2-svp", "hf", spin=1)
    found = dftfd.invert(result.molecule, result, smoothing=1e-3)
    hartree = 1.0 / np.linalg.norm(LINE, axis=1) - evaluate_at(result.electrostatic_potential, LINE)
    np.testing.assert_allclose(evaluate_at(found.potential, LINE), -np.stack([hartree, hartree], axis=1), atol=1e-6)
    assert found.frontier[1][0] is None


def test_a_functionals_potential_is_found_in_its_density(hydrogen, inverted):
    """PBE's v_xc of H2 to 1e-2 hartree, averaged over the space where n > 1e-3; density and orbital energies."""
    points, weights = hydrogen.grid
    dense = np.asarray(evaluate_at(hydrogen.density, points)).sum(axis=1) > 1e-3
    v, expected = (np.asarray(evaluate_at(f, points[dense])) for f in (inverted.potential, hydrogen.v_xc))
    assert weights[dense] @ np.abs(v - expected)[:, 0] / weights[dense].sum() < 1e-2
    assert inverted.density_error < 1e-4 * 2
    assert inverted.mo_energy[0, 0] == pytest.approx(hydrogen.mo_energy[0, 0], abs=1e-12)
    assert abs(weights @ (evaluate_at(inverted.density, points) - evaluate_at(hydrogen.density, points))).max() < 1e-4


def test_the_reference_itself_is_found_at_once(hydrogen):
    """From PBE, PBE's potential takes no Gaussians: a closed test of the functional's matrix and its function of r."""
    found = dftfd.invert(hydrogen.molecule, hydrogen, reference="pbe", smoothing=1e-3)
    assert np.abs(found.coefficients).max() < 1e-6
    np.testing.assert_allclose(evaluate_at(found.potential, LINE), evaluate_at(hydrogen.v_xc, LINE), atol=1e-5)
    np.testing.assert_allclose(found.mo_energy, hydrogen.mo_energy, atol=1e-5)


def test_both_methods_agree_for_both_spins():
    """Lithium: potentials by Gaussians and by a penalty, one for each spin; the density's error falls as 1 / factor."""
    lithium = converged("Li 0 0 0;", "6-31g", spin=1)
    homo = [lithium.mo_energy[0, 1], lithium.mo_energy[1, 0]]
    gaussians = dftfd.invert(lithium.molecule, lithium, homo=homo)
    penalty = dftfd.invert(lithium.molecule, lithium, homo=homo, method="zhao-morrison-parr", smoothing=1e-4)
    assert gaussians.density_error < 3e-4
    np.testing.assert_allclose(penalty.steps[:-1, 1] / penalty.steps[1:, 1], 10.0, rtol=0.4)
    a, b = (evaluate_at(found.potential, LINE) for found in (gaussians, penalty))
    assert np.abs(a - b).mean() < 2e-2
    assert np.abs(a[:, 0] - a[:, 1]).max() > 0.05  # the spins do differ


def test_values_at_a_point_are_those_on_many(inverted):
    """JAX's code of one point against libcint's integrals, which are used for many."""
    at_a_point = jax.jit(inverted.potential.evaluate)
    for r in LINE[:3]:
        np.testing.assert_allclose(at_a_point(r), evaluate_at(inverted.potential, r[None])[0], atol=1e-9)
    far = inverted.potential(np.array([0.0, 0.0, 60.0])) - inverted.constants[0]
    np.testing.assert_allclose(far, -1 / (60.0 - 0.37 / 0.529177), rtol=1e-3)  # of Fermi and Amaldi


def test_wave_functions_of_two_electrons_agree():
    """CCSD, CASSCF in all orbitals and full CI are the same density for H2; that of MP2 has its electrons."""
    molecule = dftfd.molecule(H2, basis="6-31g")
    full = correlated_density(molecule, "fci")
    for method, active in (("ccsd", None), ("casscf", (2, 4))):
        np.testing.assert_allclose(correlated_density(molecule, method, active), full, atol=1e-6)
    S = one_electron_integrals(molecule)["overlap"]
    assert np.sum(S * correlated_density(molecule, "mp2")) == pytest.approx(2.0, abs=1e-10)
    triplet = correlated_density(dftfd.molecule(H2, basis="6-31g", spin=2), "fci")
    np.testing.assert_allclose(np.sum(S * triplet, axis=(1, 2)), [2.0, 0.0], atol=1e-8)


def test_a_correlated_density_is_inverted():
    """H2's full CI: the kinetic energy of independent electrons is below that of the wave function, T - T_s > 0."""
    molecule = dftfd.molecule(H2, basis="cc-pvtz")
    P = correlated_density(molecule, "fci")
    found = dftfd.invert(molecule, P)
    assert found.density_error < 2e-3
    assert 0.0 < np.sum(one_electron_integrals(molecule)["kinetic"] * P) - found.kinetic_energy < 0.05
    with pytest.raises(NotConvergedError, match="density_tol"):
        dftfd.invert(molecule, P, density_tol=1e-6)


def test_files_bring_inversions_back(inverted, hydrogen, tmp_path):
    path = tmp_path / "v.h5"
    inverted.save(path)
    again = dftfd.load_inversion(path)
    np.testing.assert_array_equal(evaluate_at(again.potential, LINE), evaluate_at(inverted.potential, LINE))
    assert str(again) == str(inverted)
    assert again.molecule.n_ao == 12
    hydrogen.save(tmp_path / "result.h5")
    with pytest.raises(FileError, match="holds no inversion"):
        dftfd.load_inversion(tmp_path / "result.h5")


@pytest.mark.slow  # 1 s; the same of results: test_result_file
def test_the_formula_of_a_reference_is_that_of_the_file(hydrogen, tmp_path):
    """An own functional is handed over at loading; another formula is refused."""
    own = lambda c: dftfd.functional(f"t_inv_{c}")(spin_scaled(lambda n: c * slater_exchange(n)))
    path = tmp_path / "v.h5"
    found = dftfd.invert(hydrogen.molecule, hydrogen, reference=own(1), smoothing=1e-4)
    found.save(path)
    again = dftfd.load_inversion(path, functional=own(1))
    np.testing.assert_array_equal(evaluate_at(again.potential, LINE), evaluate_at(found.potential, LINE))
    with pytest.raises(FunctionalError, match="not the one"):
        dftfd.load_inversion(path, functional=own(2))


@pytest.mark.parametrize("homo", [-24.6, 0.9])
def test_ionisation_energies_and_electronvolts_as_homo_warn(helium, inverted, homo):
    """The potential was shifted by 24 hartree."""
    for given in ({"method": "one-orbital", "homo": homo}, None):
        with pytest.warns(InputWarning, match="is it an ionisation energy, whose sign is the other, or in electronv"):
            _shifted(inverted, np.array([homo])) if given is None else dftfd.invert(helium.molecule, helium, **given)
    _shifted(inverted, np.array([-0.6]))


def test_a_density_that_is_far_off_is_doubted(hydrogen, inverted):
    """By what is left of it for each electron; a potential of few functions leaves more than the usual."""
    assert "DOUBT" not in str(inverted) and not inverted.notes
    rough = dftfd.invert(hydrogen.molecule, hydrogen, potential_basis={"H": [[0, [0.1, 1.0]]]})
    share = rough.density_error / 2
    assert share > 1e-4
    (note,) = rough.notes
    assert note.startswith(f"DOUBT: {share:.1e} for each electron is {share * 1e4:.1f} times") and note in str(rough)


def test_pictures_and_the_command(hydrogen, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    hydrogen.save(tmp_path / "h2.h5")
    output, plot = tmp_path / "v.h5", tmp_path / "v.svg"
    command = ["invert", str(tmp_path / "h2.h5"), "--output", str(output), "--plot", str(plot), "--compare", "pbe"]
    assert main(command) == 0
    assert "density error" in capsys.readouterr().out
    assert plot.read_text().lstrip().startswith("<?xml")
    assert dftfd.load_inversion(output).density_error < 2e-4
    assert main(command) == 5  # the files are there
    assert main(["invert", str(tmp_path / "h2.h5"), "--target", "ccsd"]) == 2
    assert main(["invert", H2, "--basis", "sto-3g"]) == 2
    hopeless = ["invert", H2, "--basis", "6-31g", "--target", "fci", "--density-tol", "1e-7"]
    assert main([*hopeless, "--plot", str(tmp_path / "w.svg"), "--atoms", "a,b"]) == 2  # told before the inversion
    assert main(hopeless) == 3
    assert "above density_tol" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"target": np.zeros((1, 3, 3))}, InputError, "does not fit the molecule's basis"),
        ({"target": "half"}, InputError, "electrons, the molecule"),
        ({"target": "asymmetric"}, InputError, "not symmetric"),
        ({"target": "full"}, InputError, "natural orbitals"),
        ({"target": "casscf"}, InputError, "active="),
        ({"active": (2, 2)}, InputError, "belongs to"),
        ({"reference": "b3lyp"}, UnsupportedError, "local function"),
        ({"reference": "tpss"}, UnsupportedError, "local function"),
        ({"smoothing": -1.0}, InputError, "smoothing"),
        ({"smoothing": 0.0, "method": "zhao-morrison-parr"}, InputError, "infinite penalty"),
        ({"homo": [0.0, 0.0]}, InputError, "homo has 2"),
        ({"method": "one-orbital"}, InputError, "needs homo"),
        ({"grid": "fine"}, InputError, "has its own grid"),
        ({"max_cycles": 1, "smoothing": 1e-5}, NotConvergedError, "not converged after 1"),
        ({"xc": "pbe"}, InputError, "no option"),
    ],
)
def test_what_cannot_be_inverted_is_refused(hydrogen, given, kind, words):
    P = hydrogen.density_matrix
    wrong = {"half": P / 2, "asymmetric": P + np.triu(np.full_like(P, 0.1), 1), "full": _in_one_orbital(hydrogen)}
    target = given.get("target", hydrogen)
    target = wrong.get(target, target) if isinstance(target, str) else target
    with pytest.raises(kind, match=words):
        dftfd.invert(hydrogen.molecule, **{"target": target} | {k: v for k, v in given.items() if k != "target"})


def _in_one_orbital(result):
    """Three electrons in one orbital, less one in another."""
    C = result.mo_coeff[0]
    return (3 * np.outer(C[:, 0], C[:, 0]) - np.outer(C[:, 1], C[:, 1]))[None]


def test_another_molecules_result_is_refused(hydrogen):
    with pytest.raises(InputError, match="another molecule"):
        dftfd.invert(dftfd.molecule("H 0 0 0; H 0 0 0.75", basis="def2-tzvp"), hydrogen)
