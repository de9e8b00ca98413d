"""Fits: parameters that made the data are found again, interruptions change no bit, files know their formulas."""

import json
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import dftfd
from dftfd.errors import CheckpointError, DamagedFileError, FunctionalError, InputError, UnsupportedError
from dftfd.functionals import registry
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.functionals.named_files import functional_in_file, save_functional
from dftfd.libcint.mole import HARTREE_IN_KCAL, overlap_integrals
from dftfd.training.fitting import Batches

OPTIONS = {"basis": "sto-3g", "grid_level": 1, "conv_tol": 1e-11, "density_fit": False}
SMALL = OPTIONS | {"conv_tol": 1e-9}
ATOMS = {
    "H": ("H 0 0 0;", 1),
    "Li": ("Li 0 0 0;", 1),
    "H2": ("H 0 0 0; H 0 0 0.75", 0),
    "LiH": ("Li 0 0 0; H 0 0 1.6", 0),
}
REACTIONS = {"H2": {"H2": -1, "H": 2}, "LiH": {"LiH": -1, "Li": 1, "H": 1}}
TRUE = {"mu": 0.31, "kappa": 0.62}


def formula(c=1.0):
    """A gradient-corrected exchange that compiles quickly, times c."""

    @spin_scaled
    def exchange(n, *, mu=0.2, kappa=0.8):
        s2 = reduced_gradient_squared(n)
        return c * slater_exchange(n) * (1 + mu * s2 / (1 + mu * s2 / kappa))

    return exchange


@pytest.fixture(scope="module")
def toy():
    """A registered functional of two parameters."""
    made = dftfd.functional("t_fit_x")(formula())
    yield made
    registry._REGISTRY.pop("t_fit_x", None)
    registry._REGISTRY.pop("t_fitted_x", None)


def energies(functional, names=tuple(ATOMS)):
    """Of molecules, by run_scf [hartree]."""
    options = {name: value for name, value in OPTIONS.items() if name != "basis"}
    run = lambda atoms, spin: dftfd.run_scf(dftfd.molecule(atoms, basis="sto-3g", spin=spin), functional, **options)
    return {name: run(*ATOMS[name]).energy for name in names}


@pytest.fixture(scope="module")
def data(toy, tmp_path_factory):
    """A file of two atomisation energies of the functional with TRUE parameters, which run_scf computed."""
    E = energies(toy.with_parameters(**TRUE))
    document = {
        "dftfd_benchmark": 1,
        "name": "made",
        "unit": "kcal/mol",
        "molecules": {name: {"atoms": atoms, "spin": spin} for name, (atoms, spin) in ATOMS.items()},
        "reactions": [
            {
                "name": name,
                "subset": "made",
                "stoichiometry": reaction,
                "reference": HARTREE_IN_KCAL * sum(c * E[of] for of, c in reaction.items()),
            }
            for name, reaction in REACTIONS.items()
        ],
    }
    path = tmp_path_factory.mktemp("fit") / "made.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.slow  # 4 s; the derivatives: the next test; fits that find parameters: at fixed densities, and of terms
def test_parameters_that_made_the_data_are_found(toy, data):
    """Two energies of run_scf, two parameters."""
    found = dftfd.fit(toy, data, parameters=["mu", "kappa"], evaluations=9, **OPTIONS)
    assert found.names == ("kappa", "mu")
    np.testing.assert_allclose(found.parameters, [TRUE["kappa"], TRUE["mu"]], rtol=1e-4)
    assert np.abs(found.errors).max() < 1e-4 < np.abs(found.errors_before).max()


def test_sensitivities_are_differences_of_energies_of_run_scf(toy, data):
    found = dftfd.fit(toy, data, parameters=["mu", "kappa"], evaluations=1, **OPTIONS)
    assert "mean absolute error of 2 reactions" in str(found)
    h, (kappa, mu) = 2e-3, found.parameters
    at = lambda t: energies(toy.with_parameters(kappa=kappa, mu=mu + t), REACTIONS["H2"])
    plus, minus = at(h), at(-h)
    slope = HARTREE_IN_KCAL * sum(c * (plus[of] - minus[of]) for of, c in REACTIONS["H2"].items()) / (2 * h)
    assert found.sensitivities[0, 1] == pytest.approx(slope, rel=1e-4)


@pytest.mark.slow  # test_energies_at_fixed_densities_take_no_scf goes on from a record
def test_a_fit_that_is_killed_goes_on_to_the_same_bits(toy, data, tmp_path):
    """Stopped after two evaluations; the record of another fit is refused.

    With fitted integrals: threads add exact ones up in the order in which they end.
    """
    how = {"parameters": ["mu", "kappa"], "evaluations": 3, **SMALL, "density_fit": True}
    whole = dftfd.fit(toy, data, **how)

    def stop(step):
        if step.number == 2:
            raise KeyboardInterrupt

    record = tmp_path / "fit.h5"
    with pytest.raises(KeyboardInterrupt):
        dftfd.fit(toy, data, record=record, on_step=stop, **how)
    again = dftfd.fit(toy, data, record=record, **how)
    assert again.parameters.tobytes() == whole.parameters.tobytes()
    assert [step.loss for step in again.steps] == [step.loss for step in whole.steps]
    with pytest.raises(CheckpointError, match="of a fit of another calculation: parameters"):
        dftfd.fit(toy, data, record=record, **how | {"parameters": ["mu"]})


@pytest.mark.slow  # test_rules_of_optax_take_their_own_way and test_terms_pull_alike... are quick
def test_rules_of_optax_go_on_to_the_same_bits(toy, data, tmp_path):
    """Adam, stopped after the second evaluation; its moments are found again from the record."""
    optax = pytest.importorskip("optax", reason="pip install 'dftfd[learned]'")
    how = {"parameters": ["mu", "kappa"], "evaluations": 4, **SMALL, "density_fit": True}
    whole = dftfd.fit(toy, data, optimiser=optax.adam(0.02), **how)

    def stop(step):
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dftfd.fit(toy, data, optimiser=optax.adam(0.02), record=tmp_path / "fit.h5", on_step=stop, **how)
    again = dftfd.fit(toy, data, optimiser=optax.adam(0.02), record=tmp_path / "fit.h5", **how)
    assert again.parameters.tobytes() == whole.parameters.tobytes()
    assert len({step.loss for step in again.steps}) == 4
    with pytest.raises(CheckpointError, match="is the record of another fit"):
        dftfd.fit(toy, data, optimiser=optax.adam(0.03), record=tmp_path / "fit.h5", **how)


FIT_THAT_IS_KILLED = """
import sys
import optax
import dftfd
found = dftfd.fit("gga_x_pbe", sys.argv[1], parameters=["kappa", "mu"], record=sys.argv[2] or None, basis="sto-3g",
                  grid_level=1, density_fit=True, optimiser=optax.adam(0.01), evaluations=40)
print(found.parameters.tobytes().hex())
"""


@pytest.mark.slow
def test_killed_at_any_instant_it_ends_at_the_same_bits(library_data, tmp_path):
    """A process of its own, killed three times after a random while, and its record taken up again each time."""
    pytest.importorskip("optax", reason="pip install 'dftfd[learned]'")
    command = [sys.executable, "-c", FIT_THAT_IS_KILLED, str(library_data)]
    start = time.monotonic()
    whole = subprocess.run([*command, ""], capture_output=True, text=True, check=True).stdout
    lasts, record = time.monotonic() - start, tmp_path / "fit.h5"
    for share in np.random.default_rng().uniform(0.2, 0.9, 3):
        process = subprocess.Popen([*command, str(record)], stdout=subprocess.DEVNULL)
        time.sleep(share * lasts)
        process.kill()
        process.wait()
    again = subprocess.run([*command, str(record)], capture_output=True, text=True, check=True).stdout
    assert again == whole


def test_energies_at_fixed_densities_take_no_scf(toy, data, tmp_path, monkeypatch):
    """They are those of `dftfd.energy` at the densities of another functional; the record keeps densities, too."""
    lda = dftfd.get_functional("lda")
    how = {"parameters": ["mu", "kappa"], "fixed_densities": lda, "evaluations": 8, **SMALL, "density_fit": True}
    record = tmp_path / "fixed.h5"

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dftfd.fit(toy, data, record=record, on_step=stop, **how)
    whole = dftfd.fit(toy, data, **how)
    monkeypatch.setattr("dftfd.training.self_consistent.solution_of", None)  # no SCF from here on
    again = dftfd.fit(toy, data, record=record, **how)
    assert again.parameters.tobytes() == whole.parameters.tobytes()
    assert np.abs(again.errors).max() < 0.1 * np.abs(again.errors_before).max()
    monkeypatch.undo()
    options = {name: value for name, value in SMALL.items() if name not in ("basis", "density_fit")}
    E = {}
    for name, (atoms, spin) in ATOMS.items():
        molecule = dftfd.molecule(atoms, basis="sto-3g", spin=spin)
        P = dftfd.run_scf(molecule, lda, density_fit=True, **options).density_matrix
        E[name] = float(dftfd.energy(molecule, again.functional, density_fit=True, grid_level=1)(P))
    found = [HARTREE_IN_KCAL * sum(c * E[name] for name, c in r.items()) for r in REACTIONS.values()]
    reference = [r["reference"] for r in json.loads(data.read_text())["reactions"]]
    np.testing.assert_allclose(again.errors, np.array(found) - reference, atol=1e-4)
    with pytest.raises(CheckpointError, match="fixed densities"):
        dftfd.fit(toy, data, record=record, **how | {"fixed_densities": "pbe"})
    with pytest.raises(UnsupportedError, match="semilocal"):
        vv10 = toy + dftfd.get_functional("vv10")
        dftfd.fit(vv10, data, **how | {"parameters": ["b"]})


@pytest.fixture(scope="module")
def library_data(tmp_path_factory):
    """Two atomisation energies that nothing made: other processes know the library's functionals alone."""
    molecules = {name: {"atoms": atoms, "spin": spin} for name, (atoms, spin) in ATOMS.items()}
    reactions = [
        {"name": name, "subset": "made", "stoichiometry": reaction, "reference": 100.0}
        for name, reaction in REACTIONS.items()
    ]
    document = {"dftfd_benchmark": 1, "name": "two", "unit": "kcal/mol", "molecules": molecules, "reactions": reactions}
    path = tmp_path_factory.mktemp("two") / "two.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.slow  # two processes that import and compile everything anew
@pytest.mark.parametrize("fixed", [None, "lda"])
def test_processes_find_the_same(library_data, fixed):
    """Two processes, which stay from one evaluation to the next, against none."""
    how = {"parameters": ["kappa"], "evaluations": 3, "fixed_densities": fixed, **SMALL, "density_fit": True}
    how["bounds"] = {"kappa": (0.4, 1.6)}  # far outside a step multiplies the last digits of energies
    alone = dftfd.fit("gga_x_pbe", library_data, **how)
    together = dftfd.fit("gga_x_pbe", library_data, jobs=2, **how)
    np.testing.assert_allclose(together.parameters, alone.parameters, rtol=1e-9)
    np.testing.assert_allclose([s.loss for s in together.steps], [s.loss for s in alone.steps], rtol=1e-9)


@pytest.mark.slow
def test_nothing_is_lost_with_a_worker(library_data):
    """A local Dask cluster, one of whose two workers is killed after the first evaluation."""
    distributed = pytest.importorskip("distributed")
    how = {"parameters": ["kappa"], "evaluations": 3, **SMALL, "density_fit": True}
    alone = dftfd.fit("gga_x_pbe", library_data, **how)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        killed = []

        def kill(step):
            if not killed:
                killed.append(cluster.workers[0].process.process.pid)
                os.kill(killed[0], signal.SIGKILL)

        found = dftfd.fit("gga_x_pbe", library_data, client=client, on_step=kill, **how)
    assert killed
    np.testing.assert_allclose(found.parameters, alone.parameters, rtol=1e-9)


def test_prior_bounds_and_terms(toy):
    """Terms pull two parameters to where they say, a narrow prior holds one of them, a bound stops it."""
    pull = lambda f: jnp.stack([f.parameters["mu"] - 0.4, f.parameters["kappa"] - 0.6])
    how = {"parameters": ["mu", "kappa"], "terms": [pull]}
    np.testing.assert_allclose(dftfd.fit(toy, **how).parameters, [0.6, 0.4], rtol=1e-6)
    held = dftfd.fit(toy, prior={"mu": 1e-6}, **how)
    assert held.parameters[1] == pytest.approx(0.2, abs=1e-6) and held.parameters[0] == pytest.approx(0.6, rel=1e-6)
    for lowest in (0.1, -np.inf):
        bounded = dftfd.fit(toy, bounds={"mu": (lowest, 0.25)}, **how)
        assert bounded.parameters[1] == 0.25


def test_rules_of_optax_take_their_own_way(toy):
    """Adam on (mu - 0.4)^2 / 2, step by step as optax takes it on the derivative by hand; a bound stops it."""
    optax = pytest.importorskip("optax", reason="pip install 'dftfd[learned]'")
    how = {"parameters": ["mu"], "terms": [lambda f: jnp.reshape(f.parameters["mu"] - 0.4, (1,))]}
    rule, points = optax.adam(0.05), []
    found = dftfd.fit(toy, optimiser=rule, evaluations=6, on_step=lambda s: points.append(s.parameters), **how)
    point, expected = jnp.array([0.2]), []
    state = rule.init(point)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(6):
            expected.append(point)
            move, state = rule.update(point - 0.4, state, point)
            point = point + move
    np.testing.assert_allclose(points, expected, rtol=1e-12)
    assert found.reason == "6 evaluations" and found.parameters[0] == pytest.approx(float(expected[4][0]), rel=1e-12)
    assert found.uncertainties[0] == pytest.approx(abs(found.parameters[0] - 0.4))
    held = dftfd.fit(toy, optimiser=optax.sgd(5.0), evaluations=4, bounds={"mu": (0.1, 0.3)}, **how)
    assert held.parameters[0] == 0.3
    with pytest.raises(InputError, match=r"optax.adam\(0.01\)"):
        dftfd.fit(toy, optimiser="adam", **how)


@pytest.mark.slow  # test_each_pass_has_its_own_order, test_terms_pull_alike... are quick
def test_batches_are_parts_of_the_gradient_and_go_on_to_the_same_bits(toy, data, tmp_path):
    """Batches of one of two reactions: each step is along twice its part of the gradient that the whole set has there;
    a pass takes each once, the validation set is looked at as it ends; stopped within a pass, it ends at the same bits.
    """
    optax = pytest.importorskip("optax", reason="pip install 'dftfd[learned]'")
    rate, how = 1e-4, {"parameters": ["mu", "kappa"], **SMALL, "density_fit": True}
    batches = how | {"optimiser": optax.sgd(rate), "batch_size": 1, "seed": 3, "validation": data, "evaluations": 5}
    whole = dftfd.fit(toy, data, **batches)
    assert [step.validation is None for step in whole.steps] == [False, True, False, True, False]
    assert [step.accepted is None for step in whole.steps] == [False, True, False, True, False]
    order = [Batches(2, 1, 3).at(number)[0].tolist() for number in range(1, 6)]
    assert order[0] == [0, 1] and sorted(order[1] + order[2]) == sorted(order[3] + order[4]) == [0, 1]
    for step, after, batch in list(zip(whole.steps, whole.steps[1:], order, strict=False))[:3]:
        kappa, mu = step.parameters
        there = dftfd.fit(toy.with_parameters(kappa=kappa, mu=mu), data, evaluations=1, **how)
        slope = sum(2 / len(batch) * there.errors[k] * there.sensitivities[k] for k in batch)
        np.testing.assert_allclose(after.parameters, step.parameters - rate * slope, rtol=1e-6)
        assert step.loss == pytest.approx(sum(there.errors[k] ** 2 for k in batch) / len(batch), rel=1e-5)

    def stop(step):
        if step.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dftfd.fit(toy, data, record=tmp_path / "fit.h5", on_step=stop, **batches)
    again = dftfd.fit(toy, data, record=tmp_path / "fit.h5", **batches)
    assert again.parameters.tobytes() == whole.parameters.tobytes()
    assert again.errors.tobytes() == whole.errors.tobytes() and len(again.errors) == 2
    with pytest.raises(CheckpointError, match="seed 3 instead of 4"):
        dftfd.fit(toy, data, record=tmp_path / "fit.h5", **batches | {"seed": 4})
    with pytest.raises(InputError, match=r"batch_size=1 .*optax.adam\(0.01\)"):
        dftfd.fit(toy, data, batch_size=1, **how)


def test_each_pass_has_its_own_order():
    """Seven reactions in batches of at most three: parts that differ by one at most, no two passes or seeds alike."""
    passes = lambda seed: [[Batches(7, 3, seed).at(2 + 3 * e + k) for k in range(3)] for e in range(4)]
    for found in passes(0):
        assert [ends for _, ends in found] == [False, False, True]
        assert sorted(np.concatenate([batch for batch, _ in found])) == list(range(7))
        assert {len(batch) for batch, _ in found} == {2, 3}
    orders = {tuple(np.concatenate([batch for batch, _ in one])) for seed in (0, 1) for one in passes(seed)}
    assert len(orders) == 8
    assert all(Batches(7, None, 0).at(number)[0].tolist() == list(range(7)) for number in (1, 2, 9))


def test_terms_pull_alike_in_reverse_and_forward(toy, data):
    """Loss and derivative of reactions and two terms, as rules of optax have them, against all residuals."""
    optax = pytest.importorskip("optax", reason="pip install 'dftfd[learned]'")
    terms = [
        lambda f: jnp.stack([f.parameters["mu"] - 0.5, 2.0 * f.parameters["kappa"]]),
        lambda f: jnp.reshape(f.parameters["mu"] * f.parameters["kappa"], (1,)),
    ]
    how = {"parameters": ["mu", "kappa"], "terms": terms, **SMALL, "density_fit": True}
    whole = dftfd.fit(toy, data, evaluations=1, **how)
    rule, rate = optax.sgd(1e-4), 1e-4
    step = dftfd.fit(toy, data, optimiser=rule, evaluations=2, **how)
    mu, kappa = 0.2, 0.8
    r = np.array([mu - 0.5, 2 * kappa, mu * kappa, *whole.errors])
    J = np.array([[0.0, 1.0], [2.0, 0.0], [mu, kappa], *whole.sensitivities])
    assert step.steps[0].loss == pytest.approx(0.5 * r @ r, rel=1e-9)
    np.testing.assert_allclose(step.steps[1].parameters, np.array([kappa, mu]) - rate * J.T @ r, rtol=1e-9)


def test_a_saved_functional_of_a_file_is_found_with_it(tmp_path):
    """FILE.py:FILE.json: the formulas are those that the file registers; without it their names are unknown."""
    own, saved = tmp_path / "own.py", tmp_path / "refit.json"
    own.write_text(
        "import dftfd\n\n@dftfd.functional('t_of_a_file_x')\ndef mine(n, *, c=-0.7):\n    return c * n ** (4 / 3)\n"
    )
    mine = functional_in_file(f"{own}:mine")
    save_functional(saved, "t_refit_of_a_file_x", mine.with_parameters(c=-0.75))
    del registry._REGISTRY["t_of_a_file_x"]
    with pytest.raises(FunctionalError, match="unknown functional 't_of_a_file_x'"):
        functional_in_file(str(saved))
    own.write_text(own.read_text() + "\n")  # a changed file is executed again
    assert functional_in_file(f"{own}:{saved}").parameters["c"] == -0.75


def test_a_fitted_functional_is_a_file_that_knows_its_formula(toy, tmp_path):
    """It comes back under its name; another formula, or a damaged file, is refused."""
    fitted = dftfd.fit(toy, parameters=["mu"], terms=[lambda f: jnp.reshape(f.parameters["mu"] - 0.4, (1,))])
    path = tmp_path / "fitted.json"
    fitted.save(path, "t_fitted_x")
    assert dftfd.load_functional(path).parameters["mu"] == fitted.functional.parameters["mu"]
    assert dftfd.get_functional("t_fitted_x").parameters["mu"] == fitted.functional.parameters["mu"]
    assert functional_in_file(str(path)).parameters["mu"] == fitted.functional.parameters["mu"]
    path.with_name("half.json").write_text(path.read_text()[:100])
    with pytest.raises(DamagedFileError, match="not a saved functional"):
        dftfd.load_functional(path.with_name("half.json"))
    registry._REGISTRY["t_fit_x"] = registry.term("t_fit_x")(formula(1.001))
    try:
        with pytest.raises(FunctionalError, match="has changed since the fit"):
            dftfd.load_functional(path)
    finally:
        registry._REGISTRY["t_fit_x"] = toy


def test_what_a_fit_cannot_take_is_refused(toy, data):
    """Names, bounds and data that do not fit."""
    with pytest.raises(FunctionalError, match="no parameter 'nu'"):
        dftfd.fit(toy, data, parameters=["nu"])
    with pytest.raises(InputError, match="outside their bounds"):
        dftfd.fit(toy, data, parameters=["mu"], bounds={"mu": (0.3, 0.4)})
    with pytest.raises(InputError, match="the lower one first"):
        dftfd.fit(toy, data, parameters=["mu"], bounds={"mu": (np.nan, 0.4)})
    with pytest.raises(InputError, match="training set, or terms"):
        dftfd.fit(toy, parameters=["mu"])


@pytest.mark.slow  # test_slopes_by_turns_of_orbitals and test_exact_conditions_as_penalties are quick
def test_losses_vanish_where_they_should_and_have_slopes(toy):
    """Each loss of a functional's own results is zero; its gradient, elsewhere, is a difference."""
    options = {name: value for name, value in OPTIONS.items() if name != "basis"}
    scf = dftfd.differentiable_scf(dftfd.molecule(ATOMS["LiH"][0], basis="sto-3g"), **options | {"conv_tol": 1e-13})
    true = toy.with_parameters(**TRUE)
    found = scf(true)
    P, points, weights = np.asarray(found.density_matrix), np.array([[0.0, 0.1, 0.2], [0.3, 0.0, 2.0]]), np.ones(2)
    rho = dftfd.density_function(scf.molecule, P)
    v = true.potential(rho)
    losses = dftfd.losses
    terms = {
        "energy": losses.energy(scf, float(found.energy)),
        "reaction": losses.reaction_energy({"a": scf}, {"a": 2.0}, 2 * float(found.energy)),
        "density": losses.density(scf, points, weights, np.asarray(found.density(points))),
        "dipole": losses.dipole(scf, np.asarray(found.dipole)),
        "orbitals": losses.orbital_energies(scf, np.asarray(found.mo_energy)[:, :3]),
        "fock": losses.fock_matrix(scf, P, np.asarray(found.fock)),
        "potential": losses.potential(rho, points, weights, np.stack([v(r) for r in points])),
    }
    for name, term in terms.items():
        assert float(jnp.abs(term(true)).max()) < 1e-7, name
        loss = losses.mean_square(losses.scaled(term, 0.1))
        at = lambda mu, loss=loss: loss(toy.with_parameters(mu=mu, kappa=0.7))
        h = 5e-3
        difference = (8 * (at(0.3 + h) - at(0.3 - h)) - (at(0.3 + 2 * h) - at(0.3 - 2 * h))) / (12 * h)
        assert float(jax.grad(at)(0.3)) == pytest.approx(float(difference), rel=2e-5), name


@pytest.mark.parametrize("name", [pytest.param("LiH", marks=pytest.mark.slow), "Li"])
def test_slopes_by_turns_of_orbitals(toy, name):
    """Against differences of `dftfd.energy` along each turn of LDA's orbitals, closed and open shell; of a teacher's
    Fock matrices the difference; densities of no determinant are refused."""
    atoms, spin = ATOMS[name]
    molecule = dftfd.molecule(atoms, basis="sto-3g", spin=spin)
    options = {"grid_level": 1, "density_fit": False}
    P = dftfd.run_scf(molecule, "lda,vwn", **options).density_matrix
    scf = dftfd.differentiable_scf(molecule, **options)
    slopes = dftfd.losses.orbital_gradient(scf, P)
    S, energy = overlap_integrals(molecule), dftfd.energy(molecule, toy, **options)
    capacity, h, expected = 3 - len(P), 1e-3, []
    for s, P_s in enumerate(P):
        filling, C = scipy.linalg.eigh(S @ P_s @ S, S)
        C, n = C[:, ::-1], round(filling.sum()) // capacity
        for i in range(n):
            for a in range(n, len(S)):

                def at(t, s=s, C=C, i=i, a=a, n=n):
                    turned = C.copy()
                    turned[:, i] = np.cos(t) * C[:, i] + np.sin(t) * C[:, a]
                    return float(
                        energy(
                            np.stack(
                                [capacity * turned[:, :n] @ turned[:, :n].T if k == s else Q for k, Q in enumerate(P)]
                            )
                        )
                    )

                expected.append((8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h))
    found = np.asarray(slopes(toy))
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(expected), rel=1e-6)  # orbitals may mix among equals
    teacher = dftfd.get_functional("pbe")
    against = dftfd.losses.orbital_gradient(scf, P, np.asarray(scf.fock(teacher, P)))
    np.testing.assert_allclose(against(toy), slopes(toy) - slopes(teacher), atol=1e-10)
    assert float(jnp.abs(against(teacher)).max()) < 1e-12
    with pytest.raises(InputError, match="no single determinant"):
        dftfd.losses.orbital_gradient(scf, 0.9 * P)


@pytest.mark.slow  # TPSS takes a second to trace; PBE is quick
def test_the_uniform_gas_of_a_meta_gga():
    gas = dftfd.losses.uniform_gas([0.01, 0.1, 1.0], 0.3)
    assert float(jnp.abs(gas(dftfd.get_functional("tpss"))).max()) < 1e-4


def test_exact_conditions_as_penalties(toy):
    """PBE has the uniform gas as its limit, three quarters of PBE have not; a bound that holds costs nothing."""
    gas = dftfd.losses.uniform_gas([0.01, 0.1, 1.0], 0.3)
    pbe = dftfd.get_functional("pbe")
    assert float(jnp.abs(gas(pbe)).max()) < 1e-5
    np.testing.assert_allclose(gas(0.75 * pbe), -0.25, atol=1e-5)
    with pytest.raises(InputError, match="at least one"):
        dftfd.losses.uniform_gas([])
    lieb_oxford = dftfd.losses.penalty(lambda f: f.parameters["kappa"] - 0.804)
    assert float(lieb_oxford(toy)[0]) == 0.0
    assert float(lieb_oxford(toy.with_parameters(kappa=0.9))[0]) == pytest.approx(0.096)
