"""dE/dp against differences of converged energies, which know nothing of Hellmann and Feynman."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose
from dftfd.errors import NumericalError, UnsupportedError
from dftfd.functionals.base import long_range_exchange
from dftfd.functionals.registry import term
from dftfd.libcint.derivatives import derivative_by_range
from dftfd.libcint.two_electron import (
    LINEAR_DEPENDENCE,
    auxiliary_basis,
    coulomb_metric,
    three_centre_integrals,
    unpacked_pairs,
)
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange
from dftfd.terms.integrals import ExactCoulombExchange
from tests.verification.parameter_derivatives import error_of, hybrids, rows_of

TIGHT = {"grid_level": 0, "conv_tol": 1e-12, "density_fit": False}
LITHIUM = ("Li 0 0 0;", {"basis": "sto-3g", "spin": 1})
HELIUM = ("He 0 0 0;", {"basis": "6-31g"})


def slope(molecule, changed, step=2e-3):
    """Differences of second order with two steps, extrapolated."""
    energy = lambda d: dftfd.run_scf(molecule, changed(d), **TIGHT).energy
    wide, narrow = ((energy(h) - energy(-h)) / (2 * h) for h in (2 * step, step))
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize(
    ("system", "parameter"), [pytest.param(HELIUM, "kappa", marks=pytest.mark.slow), (LITHIUM, "mu")]
)
def test_derivatives_are_differences_of_energies(system, parameter):
    """PBE's two numbers of exchange beside correlation and exact exchange, of equal spins and of others."""
    molecule = dftfd.molecule(system[0], **system[1])
    pbe_x, rest = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
    made = lambda d: (
        0.75 * pbe_x.with_parameters(**{parameter: pbe_x.parameters[parameter] + d})
        + (rest + 0.25 * dftfd.exact_exchange)
    )
    found = dftfd.run_scf(molecule, made(0.0), **TIGHT).parameter_gradient()
    assert found.keys() == {"gga_x_pbe", "gga_c_pbe"} and found["gga_x_pbe"].keys() == {"kappa", "mu"}
    assert found["gga_x_pbe"][parameter] == pytest.approx(slope(molecule, made), abs=5e-9)


def test_series_and_whole_numbers():
    """A tuple has a tuple of derivatives; a whole number has none; a term that stands twice counts twice."""

    @term("of_series")
    def of_series(n, *, c=(0.1, 0.2), power=1):
        return -(c[0] * n ** (4 / 3) + c[1] * n**2) * power

    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    result = dftfd.run_scf(molecule, of_series + 1.0 * of_series, **TIGHT)
    found = result.parameter_gradient()["of_series"]
    made = lambda d: 2.0 * of_series.with_parameters(c=(0.1, 0.2 + d))
    assert list(found) == ["c"] and len(found["c"]) == 2
    assert found["c"][1] == pytest.approx(slope(molecule, made), abs=5e-9)
    assert np.isfinite(found["c"][0]) and found["c"][0] < 0


def five_points(energy, at, step):
    """The central difference of fourth order."""
    near, far = (energy(at + k * step) - energy(at - k * step) for k in (1, 2))
    return (8 * near - far) / (12 * step)


@term("screened")
def screened(n, *, omega=0.33, a=0.7):
    """A formula that takes no time to compile."""
    return -a * n ** (4 / 3) / (1 + omega)


def check_omega(functional, of_term):
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    run = lambda omega: dftfd.run_scf(molecule, functional(omega), **TIGHT)
    result = run(0.33)
    found = result.parameter_gradient()[of_term]["omega"]
    assert found == pytest.approx(five_points(lambda omega: run(omega).energy, 0.33, 4e-3), rel=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(dftfd.get_functional("camb3lyp"), marks=pytest.mark.slow),
        screened + 0.3 * long_range_exchange(0.33),
        0.5 * screened + 0.2 * dftfd.exact_exchange + 0.5 * screened - 0.4 * long_range_exchange(0.33),
    ],
    ids=["camb3lyp", "long range", "short range, two terms"],
)
def test_omega_is_one_number_in_formula_and_integrals(given):
    """dE/domega has the part of exact exchange, whose range is the omega of the formula."""
    check_omega(
        lambda omega: given.with_parameters(omega=omega), given.terms[-1 if len(given.terms) < 3 else 1][1].name
    )


def test_an_omega_of_the_formula_alone_stays_its_own():
    """Where exact exchange has another range, with_parameters(omega=) refuses, and the derivative is the formula's."""
    other = 0.3 * long_range_exchange(0.4)
    check_omega(lambda omega: screened.with_parameters(omega=omega) + other, "screened")


@pytest.mark.parametrize("in_core_limit", [2**30, 0])
def test_exchange_by_range_is_the_error_functions_derivative(in_core_limit):
    """One s Gaussian of exponent a: (ss|ss) of erf(omega r)/r is 2 omega (a / (omega^2 + a) / pi)^(1/2)."""
    a = 0.7
    hydrogen = dftfd.molecule("H 0 0 0;", basis={"H": [[0, [a, 1.0]]]}, spin=1)
    builder, P = ExactCoulombExchange(hydrogen, in_core_limit), np.ones((1, 1, 1))
    for omega in (0.05, 0.33, 2.0):
        with mpmath.workdps(40):
            closed = lambda w: 2 * mpmath.sqrt(a / (w**2 + a) / mpmath.pi) * w
            exact = [float(mpmath.diff(closed, omega, n)) for n in (0, 1, 2)]
        assert builder.exchange(P, omega=omega)[0, 0, 0] == pytest.approx(exact[0], rel=1e-12)
        assert builder.exchange_by_range(P, omega)[0, 0, 0] == pytest.approx(exact[1], rel=1e-10)
        assert builder.exchange_by_range(P, omega, 2)[0, 0, 0] == pytest.approx(exact[2], rel=1e-8)
    with pytest.raises(UnsupportedError, match="only the first and second"):
        builder.exchange_by_range(P, 0.3, 3)


@pytest.mark.parametrize(("omega", "definite"), [(1.0, True), (0.2, False)])
def test_fitted_exchange_by_range(omega, definite):
    """Against differences of fitted exchange that keep the number of fitting functions that are kept."""
    molecule = dftfd.molecule("H 0 0 0; F 0.1 0 0.92", basis="sto-3g")
    P = np.random.default_rng(5).uniform(-1, 1, (2, molecule.n_ao, molecule.n_ao))
    P += P.transpose(0, 2, 1)
    builder = DensityFittedCoulombExchange(molecule, True)
    auxiliary, _ = auxiliary_basis(molecule, True)
    spectrum = np.linalg.eigvalsh(coulomb_metric(molecule, auxiliary, omega))
    kept = np.sum(spectrum > (-np.inf if definite else LINEAR_DEPENDENCE))
    assert (kept == len(spectrum)) == definite

    def exchange(omega):
        s, U = np.linalg.eigh(coulomb_metric(molecule, auxiliary, omega))
        B = (U[:, -kept:] / np.sqrt(s[-kept:])).T @ three_centre_integrals(molecule, auxiliary, omega)
        B = unpacked_pairs(B, molecule.n_ao)
        return np.einsum("qij,sjk,qkl->sil", B, P, B)

    assert np.abs(exchange(omega) - builder.exchange(P, omega=omega)).max() < 1e-10
    differences = five_points(exchange, omega, 4e-3 * omega)
    assert np.abs(builder.exchange_by_range(P, omega) - differences).max() < (1e-8 if definite else 1e-6)
    with pytest.raises(UnsupportedError, match="density_fit=False"):
        builder.exchange_by_range(P, omega, 2)


def test_an_uncertain_derivative_by_a_range_is_told():
    """Differences of sixth and eighth order disagree for what is no smooth function of omega."""
    assert derivative_by_range(lambda w: np.array([w**3]), 2.0)[0] == pytest.approx(12.0, rel=1e-12)
    assert derivative_by_range(lambda w: np.array([w**3]), 2.0, 2)[0] == pytest.approx(12.0, rel=1e-10)
    with pytest.raises(NumericalError, match="uncertain"):
        derivative_by_range(lambda w: np.array([abs(w - 2.01)]), 2.0)


def test_where_there_is_none():
    """No term with parameters; model potentials."""
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    assert dftfd.run_scf(molecule, "hf", **TIGHT).parameter_gradient() == {}
    assert dftfd.run_scf(molecule, 1.0 * long_range_exchange(0.3), **TIGHT).parameter_gradient() == {}
    with pytest.raises(UnsupportedError, match="'mgga_x_tb09' is a model potential without one"):
        dftfd.run_scf(molecule, "tb09", **TIGHT | {"conv_tol": 1e-8}).parameter_gradient()


@pytest.mark.slow  # 4 s; such a parameter: test_shared_code; gradients by others: above
def test_parameters_of_double_integrals():
    """VV10's b and C, on a grid of its own."""
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    run = lambda **given: dftfd.run_scf(
        molecule, screened + dftfd.get_functional("vv10", **given), **TIGHT, nlc_grid_level=0
    )
    found = run().parameter_gradient()
    assert found.keys() == {"screened", "vv10"} and found["vv10"].keys() == {"b", "C"}
    for name, at, step in (("b", 5.9, 0.02), ("C", 0.0093, 4e-5)):
        energy = lambda x, name=name: run(**{name: x}).energy
        assert found["vv10"][name] == pytest.approx(five_points(energy, at, step), rel=1e-6)


def test_with_smearing_it_is_that_of_the_free_energy():
    """E - T S is stationary in orbitals and occupations, E alone is not."""
    molecule = dftfd.molecule("Li 0 0 0; H 0 0 1.6", basis="sto-3g")
    run = lambda a: dftfd.run_scf(molecule, screened.with_parameters(a=a), smearing=0.1, **TIGHT)
    found = run(0.7).parameter_gradient()["screened"]["a"]
    assert found == pytest.approx(five_points(lambda a: run(a).free_energy, 0.7, 4e-3), rel=1e-6)
    assert abs(found - five_points(lambda a: run(a).energy, 0.7, 4e-3)) > 1e-3 * abs(found)
    assert "free_energy" in dftfd.SCFResult.parameter_gradient.__doc__


@pytest.mark.slow  # 2.3 s; names beside each other: test_derivatives_are_differences_of_energies
def test_names_are_those_of_the_functional_that_was_asked():
    """And not of the one of equal structure that was asked before, whose program serves both."""
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    slopes = jax.jit(jax.grad(lambda functional: sum(x * x for x in jax.tree_util.tree_leaves(functional))))
    for name in ("hyb_gga_xc_wb97", "hyb_gga_xc_wb97x"):
        functional = dftfd.get_functional(name)
        assert slopes(functional).terms[0][1].name == name
        found = dftfd.run_scf(molecule, functional, grid_level=0).parameter_gradient()
        assert found.keys() == {name} and found[name].keys() == {"c_x", "c_ss", "c_ab", "omega"}


@pytest.mark.slow  # hundreds of self-consistent calculations for each functional
@pytest.mark.filterwarnings("ignore:the energy of:dftfd.errors.InputWarning")  # grids are coarse: both sides have them
@pytest.mark.parametrize("name", hybrids())
@pytest.mark.one_in(3)
def test_every_number_of_a_hybrid(name):
    """Coefficients, parameters, fractions and omega of all hybrids: gradients are differences of whole SCFs to 1e-6."""
    rows = rows_of(name)
    assert len(rows) > 1 and max(map(error_of, rows)) < 1e-6


@pytest.mark.slow  # 2 s; own formulas with a jump: the next test
def test_the_place_of_a_jump_of_the_library_is_left_out():
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    found = dftfd.run_scf(molecule, dftfd.get_functional("gga_x_wpbeh"), **TIGHT).parameter_gradient()
    assert found == {"gga_x_wpbeh": {}}


def test_the_place_of_a_jump_has_no_derivative():
    """HSE06's s_from is left out, as whole numbers are; fits and own formulas with such a parameter are refused."""
    hse = dftfd.get_functional("hse06")
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    with pytest.raises(UnsupportedError, match="'s_from' only says where the formula jumps"):
        jax.grad(lambda s: hse.with_parameters(s_from=s).parameters["s_from"])(1.0)
    assert hse.with_parameters(s_from=0).with_parameters(s_from=1).parameters["s_from"] == 1.0

    @term("jumping")
    def jumping(n, *, a=0.7, start=0.1, even=0.0):
        return -a * n ** (4 / 3) * compose(lambda x: jnp.where(x < start, 1.0, 1.01), n) * (1 + even * even)

    with pytest.raises(UnsupportedError, match="'start' affects the energy only through a comparison"):
        dftfd.run_scf(molecule, jumping, **TIGHT).parameter_gradient()
    smooth = dftfd.run_scf(molecule, jumping.with_parameters(start=-1.0), **TIGHT).parameter_gradient()
    assert smooth["jumping"]["even"] == smooth["jumping"]["start"] == 0.0 > smooth["jumping"]["a"]
