"""Terms of the energy: each one's matrix, response and gradient against differences, and what sums over them.

The references are differences of energies and matrices, which no code for derivatives has a part in; PySCF's integrals
for the potential of a smeared charge; and the electric field for a potential that is linear in r.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import function
from dftfd.errors import CheckpointError, FunctionalError, InputError, ResourceError, UnsupportedError
from dftfd.functionals.densities import SPACE
from dftfd.libcint.mole import to_pyscf
from dftfd.model.calculation import Calculation
from dftfd.runtime import memory
from dftfd.runtime.memory import give_back, process_memory
from dftfd.runtime.progress import Progress
from dftfd.scf import convergence
from dftfd.scf.orbitals import Aufbau
from dftfd.scf.problem import State
from dftfd.scf.rotation import Rotations, rotated
from dftfd.terms import fitted_integrals
from dftfd.terms.on_grid import Quadrature
from dftfd.terms.one_electron import surroundings_for

BENT = "O 0 0.02 0.1173; H 0.1 0.7572 -0.4692; H 0 -0.7572 -0.4692"
FIELD = (0.01, 0.02, -0.03)
COARSE = {"grid_level": 0, "nlc_grid_level": 0}
slow = pytest.mark.slow


def water(**options):
    return dftfd.molecule(BENT, **{"basis": "sto-3g"} | options)


def ion(method):
    """Water, or its cation for a method with two spins."""
    return water() if method == "RKS" else water(charge=1, spin=1)


def molecule_for(name):
    """H2 where pairs of points would take minutes of water."""
    if name in ("omegaB97M-V", "vdW-DF"):
        return dftfd.molecule("H 0 0.02 0.1; H 0.1 0.3 0.8", basis="6-31g")
    return ion(CASES[name][1])


def linear(r):
    """The potential energy of an electron in the field FIELD."""
    return jnp.dot(r, jnp.array(FIELD))


def bowl(r):
    """A smooth potential without any symmetry about the molecule."""
    return 0.02 * jnp.sum((r - jnp.array([0.3, -0.2, 0.5])) ** 2) + 0.05 * jnp.exp(-jnp.sum((r - 0.7) ** 2))


# ------------------------------------------------------------------------------------------------ one term at a time


def calculation_of(molecule, xc, method, potential=bowl, **options):
    """A calculation with all kinds of terms, on coarse grids."""
    surroundings = surroundings_for(molecule, np.array(FIELD), np.array([(0.5, 4.0, 1.0, 1.0)]), None, potential)
    given = {"grid": Quadrature(0), "nlc_level": 0, "density_fit": True, "linear_dependence": 1e-6} | options
    return Calculation(molecule, dftfd.get_functional(xc), method, surroundings=surroundings, **given)


CASES = {
    "fitted hybrid": ("0.2*hf + 0.8*gga_x_pbe + lda_c_pw + 0.2*hartree", "RKS", {}),
    "B3LYP": ("b3lyp + 0.2*hartree", "RKS", {}),
    "exact, two ranges": ("camb3lyp", "UKS", {"density_fit": False}),
    "tau, dispersion": ("r2scan-d3bj", "UKS", {}),
    "Laplacian": ("r2scanl", "RKS", {}),
    "VV10": ("pbe + 1.0*vv10", "UKS", {}),
    "omegaB97M-V": ("wb97m-v", "RKS", {}),
    "vdW-DF": ("vdw-df", "RKS", {}),
}
EXPENSIVE = ("B3LYP", "tau, dispersion", "Laplacian", "VV10", "omegaB97M-V", "vdW-DF", "exact, two ranges")
NAMES = [pytest.param(name, marks=slow) if name in EXPENSIVE else name for name in CASES]


def density_of(calculation, rng):
    """A density matrix that is no solution, its orbitals, and a change of them."""
    P = calculation.build(Progress())
    C = np.linalg.qr(rng.normal(size=P.X.shape))[0] @ np.eye(P.X.shape[1])
    occupied = [np.sqrt(calculation.capacity) * (P.X @ C[:, :n]) for n in calculation.n_occupied]
    density = np.stack([c @ c.T for c in occupied])
    return density, occupied, [0.1 * rng.normal(size=c.T.shape) for c in occupied]


H = 2e-4
"""Where a random density nearly vanishes, the error of the formula at 1e-3 is 1e-6; that of rounding here is 1e-11."""


def slope(value, h):
    """Fourth-order central difference of value(x) at 0."""
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize("name", NAMES)
def test_matrix_and_response_of_every_term(name, rng):
    """Matrices are the slopes of their components of the energy, the response that of F: to 1e-7 of the largest."""
    xc, method, options = CASES[name]
    calculation = calculation_of(molecule_for(name), xc, method, **options)
    P, C_occ, dC = density_of(calculation, rng)
    dP = np.stack([dC_s.T @ C_s.T + C_s @ dC_s for dC_s, C_s in zip(dC, C_occ, strict=True)])
    energy = calculation.energy(Progress())
    assert not energy.lacks_response
    for term in energy.terms:
        matrix = lambda x, term=term: sum(term.evaluate(P + x * dP).matrices.values(), start=np.zeros(P.shape))
        energies = lambda x, term=term: term.evaluate(P + x * dP).energies
        matrices = term.evaluate(P).matrices
        for component in energies(0.0):
            of_component = lambda x, name=component, energies=energies: energies(x)[name]
            if component in matrices:
                found = np.sum(matrices[component] * dP)
                assert found == pytest.approx(slope(of_component, H), rel=1e-8, abs=1e-7)
            else:
                assert of_component(0.0) == of_component(0.3)
        if not matrices:
            continue
        changes, C = slope(matrix, H), [c.T for c in C_occ]
        found = term.response(P, C)([dC_s[None] for dC_s in dC])
        for matrix_s, C_s, found_s in zip(changes, C, found, strict=True):
            np.testing.assert_allclose(
                found_s + 0 * C_s[None], (C_s @ matrix_s)[None], atol=1e-7 * max(1, abs(changes).max())
            )


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize("name", NAMES)
def test_gradient_of_every_term(name, rng):
    """dE/dR of each term at a fixed density matrix, along one nucleus: differences of its energies to 2e-8."""
    xc, method, options = CASES[name]
    molecule = molecule_for(name)
    calculation = calculation_of(molecule, xc, method, **options)
    P, C_occ, _ = density_of(calculation, rng)
    terms = calculation.energy(Progress()).terms
    gradients = [term.gradient(P, C_occ, True, Progress()) for term in terms]

    def energies(x):
        R = molecule.coordinates.copy()
        R[1, 1] += x
        moved = replace(calculation, molecule=molecule.at(R)).energy(Progress())
        return np.array([sum(term.evaluate(P, C_occ).energies.values()) for term in moved.terms])

    for term, gradient, expected in zip(terms, gradients, slope(energies, 1e-3), strict=True):
        assert gradient[1, 1] == pytest.approx(expected, abs=2e-8), type(term).__name__


# ---------------------------------------------------------------------------------------------------------- stability


def lowest_by_differences(result, calculation, repeat):
    """Lowest eigenvalue of the Hessian in orbital rotations from energies alone, by extrapolated differences."""
    problem = calculation.build(Progress()).problem(Aufbau(calculation.n_occupied, calculation.capacity))
    arrays = [np.repeat(a, repeat, axis=0) for a in (result.mo_energy, result.mo_occ / repeat, result.mo_coeff)]
    P = np.repeat(result.density_matrix / repeat, repeat, axis=0)
    state = State(P, problem.start(P).evaluation, *arrays)
    rotations = Rotations.of(problem, state)
    size = rotations.size // repeat
    opposite = lambda x: x if repeat == 1 else np.concatenate([x, -x])
    energy = lambda x: rotated(problem, state, rotations, opposite(x), 0).energy

    def second(i, j, h):
        x, y = h * np.eye(size)[[i, j]]
        return (energy(x + y) - energy(x - y) - energy(y - x) + energy(-x - y)) / (4 * h * h)

    richardson = lambda i, j: (4 * second(i, j, 0.00125) - second(i, j, 0.0025)) / 3
    H = np.array([[richardson(max(i, j), min(i, j)) for j in range(size)] for i in range(size)])
    return np.linalg.eigvalsh(H)[0] / repeat


@slow  # 2.4 s; each response: the tests above, eigenvalues: test_scf_convergence
@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize(
    "xc, basis",
    [
        ("hf + 0.3*hartree", "sto-3g"),
        *(pytest.param(xc, "6-31g", marks=slow) for xc in ("hf + 0.3*hartree", "pbe + 1.0*vv10")),
    ],
)
def test_stability_is_that_of_the_whole_energy(xc, basis):
    """Internal and external eigenvalues of HeH+ are those of a Hessian of energy differences: to 2e-6 hartree.

    Without VV10 the internal one would be off by 5e-5, without Coulomb's double integral by 0.3; changes of the spin
    alone, which the external one is made of, do not touch functionals of the total density.
    """
    molecule = dftfd.molecule("He 0 0 0; H 0 0 0.8", charge=1, basis=basis)
    result = dftfd.run_scf(molecule, xc, conv_tol=1e-12, **COARSE)
    stability = result.stability()
    for found, calculation, repeat in (
        (stability.internal, result.calculation, 1),
        (stability.external, result.calculation.unrestricted(), 2),
    ):
        assert found == pytest.approx(lowest_by_differences(result, calculation, repeat), abs=2e-6)


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize(
    "xc", ["lb94", *(pytest.param(xc, marks=slow) for xc in ("mgga_x_tb09,lda_c_pw", "pbe + 0.1*mgga_x_bj06, pbe"))]
)
def test_models_of_the_potential_have_no_hessian(xc):
    """Stability and every minimiser refuse and name the model, with its reason; DIIS goes on."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    result = dftfd.run_scf(helium, xc, **COARSE)
    assert result.converged
    message = "is a model potential without an energy: there is no Hessian"
    with pytest.raises(UnsupportedError, match=message):
        result.stability()
    for word in ("second-order", "direct", "hard"):
        with pytest.raises(UnsupportedError, match=message):
            dftfd.run_scf(helium, xc, convergence=word, **COARSE)


def test_no_minimiser_takes_over_a_model_of_the_potential(monkeypatch):
    """'auto' hands over to second order when DIIS is given up, but not for what has no energy: it ends there."""
    monkeypatch.setattr(convergence, "LATEST", 1)
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    assert any("second order" in step for step in dftfd.run_scf(helium, "pbe", grid_level=0, conv_tol=1e-12).steps)
    model = dftfd.run_scf(helium, "lb94", grid_level=0, conv_tol=1e-12)
    assert model.converged and not model.steps


# ------------------------------------------------------------------------------------------------------------- memory


def test_limit_of_memory_reaches_forces_and_stability(monkeypatch):
    """What follows from a result stays within the limit of the run: the fitted gradient is told of it."""
    give_back()  # as is done before a limit is counted
    limit = process_memory() + 2**30
    result = dftfd.run_scf(water(), "b3lyp", max_memory=f"{limit} b", **COARSE)
    told, used = [], []
    inner = fitted_integrals.fitted_gradient

    def counted():  # what earlier tests left may go during the run
        used.append(process_memory())
        return used[-1]

    def spy(*arguments, memory_limit, **more):
        told.append(memory_limit)
        return inner(*arguments, memory_limit=memory_limit, **more)

    monkeypatch.setattr(fitted_integrals, "fitted_gradient", spy)
    monkeypatch.setattr(memory, "process_memory", counted)
    forces = result.forces()
    assert told and max(told) <= limit - min(used)
    unlimited = dftfd.run_scf(water(), "b3lyp", **COARSE)
    np.testing.assert_allclose(forces, unlimited.forces(), atol=1e-6)
    too_little = replace(result, calculation=replace(result.calculation, max_memory=f"{process_memory() // 2} b"))
    for call in (too_little.forces, too_little.stability):
        with pytest.raises(ResourceError, match="max_memory"):
            call()


def test_a_grid_that_two_terms_share_counts_once():
    """Semilocal part and double integrals on one level: one AO store; on two levels: two."""
    notes = []

    class Notes(Progress):
        def note(self, text):
            notes.append(text)

    for level, stores in ((0, 1), (1, 2)):
        notes.clear()
        calculation = calculation_of(water(), "pbe + 1.0*vv10", "RKS", None, nlc_level=level)
        calculation.build(Notes())
        assert sum("grid of" in note for note in notes) == stores


# ------------------------------------------------------------------------------------------------- external potential


@pytest.fixture(scope="module")
def in_field():
    """Water in the field FIELD, as electric_field and as a function of r."""
    options = {"grid_level": 3, "conv_tol": 1e-11}
    field = dftfd.run_scf(water(), "hf", electric_field=FIELD, **options)
    return field, dftfd.run_scf(water(), "hf", external_potential=linear, **options)


def test_a_linear_potential_is_a_field(in_field):
    """f(r) = F . r, electrons and nuclei: energy to 1e-7 hartree, density, forces to 1e-6 (the error of quadrature)."""
    field, potential = in_field
    assert potential.energy == pytest.approx(field.energy, abs=1e-7)
    assert abs(potential.energies["external"]) > 1e-3 and field.energies["external"] == 0.0
    np.testing.assert_allclose(potential.dipole, field.dipole, atol=1e-6)
    np.testing.assert_allclose(potential.forces(), field.forces(), atol=1e-6)
    assert potential.stability().internal == pytest.approx(field.stability().internal, abs=1e-5)


def test_a_function_object_acts_like_its_code(in_field):
    """A Function R^3 -> R of dftfd.autofd instead of plain code: the same energy to the last digits."""
    as_function = function(linear, SPACE)
    again = dftfd.run_scf(water(), "hf", external_potential=as_function, grid_level=3, conv_tol=1e-11)
    assert again.energy == pytest.approx(in_field[1].energy, abs=1e-11)


def test_potential_of_a_smeared_charge():
    """erf(w r) / r of a unit charge 2 bohr from oxygen: PySCF's analytic integrals to 1e-5 hartree, nuclei included."""
    molecule, place, w = water(basis="6-31g"), np.array([0.0, 1.2, -2.0]), 1.3

    def f(r):
        d = jnp.sqrt(jnp.sum((r - place) ** 2))
        return -jnp.where(d > 1e-6, jnp.array(erf(w * d)) / d, 2 * w / np.sqrt(np.pi))

    from jax.scipy.special import erf

    result = dftfd.run_scf(molecule, "hf", external_potential=f, grid_level=4, density_fit=False)
    mole = to_pyscf(molecule)
    with mole.with_rinv_origin(place), mole.with_rinv_zeta(w * w):
        V = -mole.intor("int1e_rinv")
    from scipy.special import erf as exact_erf

    distances = np.linalg.norm(molecule.coordinates - place, axis=1)
    expected = np.sum(result.density_matrix[0] * V)
    expected += float(molecule.nuclear_charges @ (exact_erf(w * distances) / distances))
    assert result.energies["external"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("f", [lambda r: 1e-3 * r[3], lambda r: jnp.sum(r[jnp.array([0, 5])]), lambda r: r[-4]])
def test_an_index_beyond_the_point_is_refused(f):
    """JAX takes the last element for all behind it: r[3] was r[2]."""
    with pytest.raises(
        InputError, match="external_potential takes an element that is not there.*shape \\(3,\\): index"
    ):
        dftfd.run_scf(water(), "hf", external_potential=f)


def test_electrons_alone_feel_a_confining_potential():
    """(f, 'electrons'): the energy of the nuclei is left out, exactly -sum Z f(R); orbitals are the same."""
    options = {"grid_level": 1, "conv_tol": 1e-11}
    both = dftfd.run_scf(water(), "hf", external_potential=bowl, **options)
    electrons = dftfd.run_scf(water(), "hf", external_potential=(bowl, "electrons"), **options)
    R, Z = water().coordinates, water().nuclear_charges
    of_nuclei = -sum(z * float(bowl(r)) for z, r in zip(Z, R, strict=True))
    assert both.energy - electrons.energy == pytest.approx(of_nuclei, abs=1e-10)
    np.testing.assert_allclose(both.mo_energy, electrons.mo_energy, atol=1e-8)
    assert abs(electrons.electron_number_error) < 1e-3
    assert "bowl, acts on electrons" in str(electrons) and "bowl, acts on electrons and nuclei" in str(both)


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize("acts_on", ["all", "electrons"])
def test_forces_in_an_external_potential(acts_on):
    """Differences of the energy to 1e-8 hartree/bohr; the potential stays in space."""
    options = COARSE | {"conv_tol": 2e-14, "external_potential": (bowl, acts_on)}
    result = dftfd.run_scf(water(), "lda,vwn", **options)

    def energy(x):
        R = water().coordinates.copy()
        R[1, 1] += x
        return dftfd.run_scf(water().at(R), "lda,vwn", guess=result, **options).energy

    assert result.forces()[1, 1] == pytest.approx(-slope(energy, 1e-3), abs=1e-8)


def test_files_say_that_a_potential_was_there(in_field, tmp_path):
    """A result file knows the potential again, refuses another, and without it refuses what would need it."""
    result = in_field[1]
    result.save(tmp_path / "water.h5")
    loaded = dftfd.load_result(tmp_path / "water.h5")
    assert "linear, acts on electrons and nuclei" in str(loaded)
    for call in (loaded.forces, loaded.stability):
        with pytest.raises(InputError, match=r"pass it as load_result\(path, external_potential=f\)"):
            call()
    again = dftfd.load_result(tmp_path / "water.h5", external_potential=linear)
    np.testing.assert_allclose(again.forces(), result.forces(), atol=1e-7)
    for other in (bowl, (linear, "electrons")):
        with pytest.raises(InputError, match="in another external potential"):
            dftfd.load_result(tmp_path / "water.h5", external_potential=other)
    in_field[0].save(tmp_path / "field.h5")
    with pytest.raises(InputError, match="without external potential"):
        dftfd.load_result(tmp_path / "field.h5", external_potential=linear)
    assert result.to_qcschema()["keywords"]["external_potential"] == "linear"
    with pytest.raises(UnsupportedError, match="cannot hand over"):
        result.to_pyscf()


@pytest.mark.filterwarnings("ignore:the grid holds")
def test_a_checkpoint_is_of_its_potential(tmp_path):
    """A run goes on in the same potential and not in another."""
    helium, path = dftfd.molecule("He 0 0 0;", basis="6-31g"), tmp_path / "he.chk"
    first = dftfd.run_scf(helium, "pbe", external_potential=bowl, checkpoint=path, max_cycles=2, **COARSE)
    again = dftfd.run_scf(helium, "pbe", external_potential=bowl, restart=path, **COARSE)
    assert not first.converged and again.converged
    for other in (linear, (bowl, "electrons"), None):
        with pytest.raises(CheckpointError, match="external potential"):
            dftfd.run_scf(helium, "pbe", external_potential=other, restart=path, **COARSE)


@pytest.mark.parametrize(
    "given, message",
    [
        (3.0, "give a function of one point"),
        ((bowl, "protons"), "allowed: 'all' or 'electrons'"),
        (lambda r: r, "one real number"),
        (lambda r: jnp.sum(r) > 0, "one real number"),
        (lambda r: float(r[0]), "can't be evaluated at one point"),
        (lambda: 0.0, "can't be evaluated at one point"),
        (lambda r: 1 / jnp.sum(r - r), r"NaN or Inf at \["),
    ],
)
def test_potentials_that_are_none(given, message):
    """Typed errors of one line, before the SCF begins."""
    with pytest.raises(InputError, match=message) as caught:
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "pbe", external_potential=given, grid_level=0)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


# -------------------------------------------------------------------------------- what results say of themselves


def test_charge_and_electrons_are_those_of_the_occupations():
    """Eight electrons in water: the printed charge, QCSchema's charge and counts are of H2O2+, not of the molecule."""
    result = dftfd.run_scf(water(), "hf", occupations=[2, 2, 2, 2])
    assert (result.n_electrons, result.charge, result.spin) == (8.0, 2.0, 0.0)
    assert "charge +2, spin 0, 8 electrons" in str(result)
    document = result.to_qcschema()
    assert document["molecule"]["molecular_charge"] == 2.0
    assert document["properties"]["calcinfo_nalpha"] == document["properties"]["calcinfo_nbeta"] == 4
    assert result.charges().sum() == pytest.approx(2.0, abs=1e-8)
    open_shell = dftfd.run_scf(water(), "hf", "UKS", occupations=[[1] * 5, [1] * 3 + [0.5]])
    assert "charge +1.5, spin 1.5, 8.5 electrons" in str(open_shell)


@pytest.mark.parametrize("name", ["vv10", "0.5*vv10", "rvv10", "vdw_df_nl"])
def test_nonlocal_correlation_alone_is_no_functional(name):
    """PySCF's 'vv10' is a whole functional; here it is the double integral: refused as text, with what to write."""
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    with pytest.raises(FunctionalError, match="nonlocal correlation alone.*add it to another"):
        dftfd.run_scf(helium, name, **COARSE)


@slow  # 0.7 s; SCFs with VV10: test_nonlocal
@pytest.mark.filterwarnings("ignore:the grid holds")
def test_nonlocal_correlation_alone_runs_on_purpose():
    """As an object it is what was asked for."""
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    assert dftfd.run_scf(helium, dftfd.get_functional("vv10"), **COARSE).energies["nonlocal"] > 0
