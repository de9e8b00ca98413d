"""The range omega of exact exchange and the omega of the formula beside it are one number, wherever derivatives go.

References are differences of whole calculations, which no rule for omega has a part in.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd.scalar.derive import SCALAR, with_numbers_first
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import Functional, long_range_exchange
from dftfd.functionals.pytree import owners, put_together, taken_apart
from dftfd.functionals.registry import term
from dftfd.libcint.two_electron import eri
from dftfd.model.calculation import Calculation
from dftfd.terms import Contribution, Term
from dftfd.terms.coulomb_exchange import exchange_energy
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.integrals import ExactCoulombExchange
from dftfd.terms.traced import TracedEnergy
from tests.sample import sample

LIH = "Li 0 0 0; H 0 0 1.6"
OPTIONS = {"grid_level": 0, "conv_tol": 1e-13, "density_fit": False}


@term("screened_by_omega")
def screened(n, *, omega=0.33, a=0.7):
    """A formula that takes no time to compile."""
    return -a * n ** (4 / 3) / (1 + omega)


HYBRID = screened + 0.2 * dftfd.exact_exchange + 0.4 * long_range_exchange(0.33)
at = lambda omega: HYBRID.with_parameters(omega=omega)


def five_points(code, x, step=4e-3):
    """The central difference of fourth order."""
    near, far = (code(x + k * step) - code(x - k * step) for k in (1, 2))
    return (8 * near - far) / (12 * step)


# ----------------------------------------------------------------------------------------------------- the functional


@pytest.mark.parametrize("omega", [0.0, -0.2, float("nan"), float("inf")])
def test_a_range_is_positive(omega):
    """PySCF takes a negative omega for the short range; here it is refused, and so is what is no number."""
    with pytest.raises(FunctionalError, match="omega > 0"):
        at(omega)


@pytest.mark.parametrize("omega", [0.02, 0.11, 0.33])
def test_fitted_exchange_of_a_long_range_is_the_exact_one(omega):
    """Metrics of small omega have lowest eigenvalues of 1e-16, positive or negative by chance (1e-5 of the largest).

    At 0.11 a Cholesky factorisation ends for this geometry, with exchange that is 10 % off.
    """
    places = [("ghost-H", (-0.592015, 0.352057, 1.186959)), ("Li", (0.158718, 0.194769, 0.156486))]
    places += [("H", (1.371313, 0.616682, 1.144593)), ("He", (30.0, 3.0, -4.0))]
    molecule = dftfd.molecule(places, basis="sto-3g")
    C = np.random.default_rng(1).normal(size=(1, molecule.n_ao, 2))
    P = C @ C.transpose(0, 2, 1)
    expected = ExactCoulombExchange(molecule).exchange(P, omega=omega)
    found = DensityFittedCoulombExchange(molecule, True).exchange(P, omega=omega)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_ranges_of_sums_may_be_traced():
    """Sums compare omegas and never hash them; traced ones are equal where they are one object."""
    lr = lambda omega, part: Functional("lr", (), ((omega, part),))

    def total(omega):
        found = (lr(omega, 0.3) + lr(0.5, 0.1) + lr(omega, 0.2) + dftfd.exact_exchange).exact_exchange
        assert [float(part) for _, part in found] == [1.0, 0.1, 0.5]
        return found[-1][0] ** 2

    assert float(jax.grad(total)(0.4)) == pytest.approx(0.8)
    assert (lr(0.4, 0.3) + lr(0.4, -0.3)).exact_exchange == ()
    two = screened.with_parameters(omega=0.1) + screened + lr(0.1, 0.2)
    with pytest.raises(FunctionalError, match=r"several omegas, 0.1, 0.33"):
        two.with_parameters(omega=0.2)


def test_an_omega_is_structure_where_it_is_plain_and_one_leaf_where_it_varies():
    """So no derivative by a functional's leaves is that of the formula's omega alone."""
    names = lambda f: [name for _, name in owners(f)]
    assert "omega" not in names(HYBRID) and len(names(HYBRID)) == 4
    varying = at(jnp.asarray(0.4))
    assert names(varying).count("omega") == 1 and len(names(varying)) == len(jax.tree_util.tree_leaves(varying))
    structure, values = taken_apart(varying)
    again = put_together(structure, [2.0 * v for v in values])
    assert float(again.exact_exchange[1][0]) == float(again.parameters["omega"]) == pytest.approx(0.8)
    alone = Functional("lr", (), ((jnp.asarray(0.4), 0.3),))  # a range that no term has
    assert names(alone) == ["", "omega"]
    slopes = jax.grad(lambda f: f.exact_exchange[0][0] ** 2 * f.exact_exchange[0][1])(alone)
    assert np.allclose(slopes.exact_exchange[0], (0.24, 0.16))
    other = screened + 0.4 * long_range_exchange(0.5)  # a range of its own
    assert "omega" in names(other)


def test_truth_values_are_no_numbers_for_all_points():
    """A formula that compares its omega, as HSE's does, takes it as an operand of its code."""
    code = lambda n, omega: n * jnp.where(omega > 0.0, 1.0 / omega, 2.0)
    program = point_program(code, SCALAR, SCALAR)
    numbers, rest = with_numbers_first(program, range(1, 2))
    for omega in (0.5, -1.0):
        given = run_on_numpy(numbers, list(np.array([[0.0], [omega]])))
        assert all(np.asarray(x).dtype == np.float64 for x in given)
        (found,) = run_on_numpy(rest, [np.array([3.0]), *given])
        assert found[0] == pytest.approx(float(code(3.0, omega)))


# --------------------------------------------------------------------------------------------------- calculations


@pytest.mark.parametrize("spin", sample([0, 1], [1]))
def test_exchange_as_code_of_density_and_range(spin):
    """Gradient, mixed and second derivatives against code of JAX on the integrals of one omega each."""
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.8", basis="6-31g", charge=spin, spin=spin)
    P = np.random.default_rng(3).uniform(-1, 1, (1 + spin, molecule.n_ao, molecule.n_ao))
    builder, factor = ExactCoulombExchange(molecule, n_operators=2), -0.25 if spin == 0 else -0.5
    symmetric = lambda P: (P + P.transpose(0, 2, 1)) / 2
    there = lambda w: factor * np.einsum("sij,ikjl,skl->", symmetric(P), eri(molecule, w), symmetric(P))
    E = lambda w, P: exchange_energy(builder, w, P)
    assert float(E(0.4, P)) == pytest.approx(there(0.4), rel=1e-12)
    slope = jax.grad(E)(0.4, P)
    assert float(slope) == pytest.approx(five_points(there, 0.4), rel=1e-8)
    differences = five_points(lambda w: float(jax.grad(E)(w, P)), 0.4)
    assert float(jax.grad(jax.grad(E))(0.4, P)) == pytest.approx(differences, rel=1e-6)
    forward, reverse = jax.jacfwd(jax.grad(E, 1))(0.4, P), jax.jacrev(lambda w: jax.grad(E, 1)(w, P))(0.4)
    np.testing.assert_allclose(forward, reverse, atol=1e-12)
    assert float(np.sum(forward * P)) == pytest.approx(2 * float(slope), rel=1e-10)  # E is quadratic in P
    assert len(builder._integrals) <= 2  # those of other ranges are dropped
    with pytest.raises(UnsupportedError, match="outside of compiled programs"):
        jax.jit(E)(0.4, P)
    with pytest.raises(FunctionalError, match="omega > 0"):
        jax.grad(E)(-0.4, P)


@pytest.fixture(scope="module")
def scf():
    return dftfd.differentiable_scf(dftfd.molecule(LIH, basis="sto-3g"), **OPTIONS)


def test_the_solution_has_derivatives_by_omega(scf):
    """Energy and dipole of LiH; parameter_gradient has the same."""
    energy, dipole = (lambda w: scf(at(w)).energy), (lambda w: scf(at(w)).dipole[2])
    slope = jax.grad(energy)(0.33)
    assert float(slope) == pytest.approx(five_points(lambda w: float(energy(w)), 0.33), rel=1e-6)
    assert float(jax.grad(dipole)(0.33)) == pytest.approx(five_points(lambda w: float(dipole(w)), 0.33), rel=1e-5)
    result = dftfd.run_scf(scf.molecule, at(jnp.asarray(0.33)), **OPTIONS)
    assert result.parameter_gradient()["screened_by_omega"]["omega"] == pytest.approx(float(slope), rel=1e-8)
    with pytest.raises(FunctionalError, match="omega > 0"):
        jax.grad(energy)(-0.1)


@pytest.mark.slow  # 2 s; the first derivative and that of the dipole are quick
def test_the_solution_has_a_second_derivative_by_omega(scf):
    energy = lambda w: scf(at(w)).energy
    curvature = jax.jvp(jax.grad(energy), (0.33,), (1.0,))[1]
    assert float(curvature) == pytest.approx(five_points(lambda w: float(jax.grad(energy)(w)), 0.33), rel=1e-5)


@pytest.mark.parametrize("fitted", sample([False, True], [False]))
def test_at_a_fixed_density_exact_exchange_varies_too(fitted):
    """The energy of omega and a fraction at one density is dftfd.energy's."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    scf = dftfd.differentiable_scf(molecule, HYBRID, **OPTIONS | {"density_fit": fitted})
    P = np.asarray(scf(HYBRID).density_matrix)
    fixed = scf.at_fixed_density(HYBRID, P)

    def made(w, part):
        f = at(w)
        return Functional("f", f.terms, ((0.0, part), f.exact_exchange[1]))

    there = lambda w, part: float(dftfd.energy(molecule, made(w, part), grid_level=0, density_fit=fitted)(P))
    assert float(fixed(made(0.4, 0.3))) == pytest.approx(there(0.4, 0.3), abs=1e-10)
    by_omega, by_part = jax.grad(lambda w, part: fixed(made(w, part)), (0, 1))(0.4, 0.3)
    assert float(by_omega) == pytest.approx(five_points(lambda w: there(w, 0.3), 0.4), rel=1e-6)
    assert float(by_part) == pytest.approx(there(0.4, 1.3) - there(0.4, 0.3), rel=1e-8)
    with pytest.raises(UnsupportedError, match="another double integral"):
        fixed(HYBRID + dftfd.get_functional("vv10"))


def test_an_energy_of_other_integrals_is_refused():
    """dftfd.energy holds integrals of one omega: another one, traced or not, needs another energy."""
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g")
    E = dftfd.energy(molecule, at(jnp.asarray(0.33)), grid_level=0)
    P = jnp.asarray(dftfd.run_scf(molecule, HYBRID, grid_level=0).density_matrix)
    assert float(E.with_functional(HYBRID)(P)) == pytest.approx(float(E(P)), abs=1e-12)
    with pytest.raises(UnsupportedError, match="omega of its exact exchange is traced"):
        jax.grad(lambda w: E.with_functional(at(w))(P))(0.33)
    for run in (dftfd.energy, dftfd.run_scf):
        with pytest.raises(UnsupportedError, match="omega of its exact exchange is traced"):
            jax.grad(lambda w, run=run: run(molecule, at(w), grid_level=0).energy)(0.33)
    slopes = jax.grad(lambda f: E.with_functional(f)(P))(HYBRID)
    assert slopes.parameters["omega"] == 0.33  # structure, as whole numbers are: no derivative of one part alone
    assert isinstance(slopes.parameters["a"], jax.Array)


@pytest.mark.slow  # 1 s; test_at_a_fixed_density_... is quick
def test_a_fit_by_omega_at_fixed_densities_is_that_of_its_functional(tmp_path):
    """The errors that a fit tells are those of the functional that it gives, at the same densities."""
    path = tmp_path / "set.json"
    path.write_text(
        '{"dftfd_benchmark": 1, "name": "h2", "basis": "sto-3g", "molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;"},'
        '"h": {"atoms": "H 0 0 0;", "spin": 1}}, "reactions": [{"name": "a", "stoichiometry": {"h2": -1, "h": 2},'
        '"reference": 104.0}]}'
    )
    options = {"grid_level": 1, "density_fit": False}
    fit = dftfd.fit(HYBRID, str(path), parameters=["omega"], fixed_densities="lda_x", evaluations=3, **options)
    omega = float(fit.parameters[0])
    assert omega != 0.33 and fit.functional.exact_exchange[1][0] == pytest.approx(omega)
    energies = []
    for atoms, spin in (("H 0 0 0; H 0 0 0.74;", 0), ("H 0 0 0;", 1)):
        molecule = dftfd.molecule(atoms, basis="sto-3g", spin=spin)
        P = dftfd.run_scf(molecule, "lda_x", **options).density_matrix
        energies.append(float(dftfd.energy(molecule, at(omega), **options)(P)))
    assert fit.errors[0] == pytest.approx(627.5094740631 * (2 * energies[1] - energies[0]) - 104.0, abs=1e-4)


# ------------------------------------------------------------------------------------------- terms that nobody knows


class Quadratic(Term):
    """E = tr(P)^2, of which nothing but evaluate and gradient is written."""

    components, stage = {"one_electron": "one-electron"}, "toy"

    def evaluate(self, P, C_occ=None):
        trace = float(np.einsum("sii->", P))
        return Contribution({"one_electron": trace**2}, {"one_electron": 2 * trace * np.eye(P.shape[1])[None]})

    def gradient(self, P, C_occ, grid_response, progress):
        return np.zeros((1, 3))


class QuadraticInJax(Quadratic):
    """The same, and in code of JAX."""

    def traced(self, molecule, in_memory):
        return _TraceSquared()


@jax.tree_util.register_static
class _TraceSquared(TracedEnergy):
    def names(self, functional):
        return ("one_electron",)

    def energy(self, name, P, numbers):
        return jnp.trace(P.sum(axis=0)) ** 2


class QuadraticThatLies(Quadratic):
    """The same, which says that it is linear."""

    is_linear = True


def with_a_term(monkeypatch, term):
    terms = Calculation._terms
    monkeypatch.setattr(Calculation, "_terms", lambda self, *args: [*terms(self, *args), term])
    return dftfd.molecule("He 0 0 0;", basis="6-31g")


@pytest.mark.parametrize(
    ("term", "message"), [(Quadratic(), "Quadratic is not linear"), (QuadraticThatLies(), "says is_linear, but")]
)
def test_a_term_is_not_linear_unless_it_says_so(monkeypatch, term, message):
    """A term that is quadratic in P is refused wherever JAX needs its energy, and has no response by default.

    So is one that says to be linear and is not: nothing is taken at P = 0 unseen.
    """
    molecule = with_a_term(monkeypatch, term)
    with pytest.raises(UnsupportedError, match=message):
        dftfd.energy(molecule, "hf")
    scf = dftfd.differentiable_scf(molecule, "hf")
    with pytest.raises(UnsupportedError, match=message):
        scf.fock(dftfd.get_functional("hf"), np.zeros((1, 2, 2)))
    with pytest.raises(UnsupportedError, match=message):
        scf()
    with pytest.raises(UnsupportedError, match="cannot hand over the energy of 'one-electron'"):
        term.in_pyscf()
    if not term.is_linear:
        with pytest.raises(UnsupportedError, match="Quadratic has no response"):
            term.response(np.zeros((1, 2, 2)), [np.eye(2)])


def test_a_term_in_jax_takes_part_in_every_sum(monkeypatch):
    """E = tr(P)^2 adds tr(P)^2 to the energy and 2 tr(P) 1 to the Fock matrix, in memory and on the host."""
    molecule, P = dftfd.molecule("He 0 0 0;", basis="6-31g"), np.array([[[0.9, 0.4], [0.4, 0.5]]])
    hf = dftfd.get_functional("hf")
    without = float(dftfd.energy(molecule, hf)(P)), dftfd.differentiable_scf(molecule, hf).fock(hf, P)
    with_a_term(monkeypatch, QuadraticInJax())
    E, scf = dftfd.energy(molecule, hf), dftfd.differentiable_scf(molecule, hf)
    assert float(E(P)) - without[0] == pytest.approx(1.4**2, abs=1e-12)
    assert np.asarray(scf.fock(hf, P) - without[1]) == pytest.approx(2.8 * np.eye(2)[None], abs=1e-12)
    assert np.asarray(jax.grad(E)(P)) == pytest.approx(np.asarray(scf.fock(hf, P)), abs=1e-10)
    assert float(scf.at_fixed_density(hf, P)(hf)) == pytest.approx(float(E(P)), abs=1e-10)
