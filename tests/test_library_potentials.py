"""Model potentials: values against libxc, exact limits, and what they refuse."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import function
from dftfd.errors import UnsupportedError
from dftfd.functionals.br89 import hole_potential
from dftfd.functionals.densities import SPACE
from dftfd.interop import libxc
from dftfd.verify.point_comparison import lowered_derivatives
from dftfd.verify.sampling import REGIONS, sample

MODELS = ["gga_x_lb", "mgga_x_bj06", "mgga_x_tb09"]


def our_potential(name, x, n_spin=2):
    """The derivative of the lowered term with respect to the densities."""
    return lowered_derivatives(dftfd.get_functional(name), n_spin, order=1)(x)[1][:n_spin]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("region", "n_spin"), [*((region, 2) for region in REGIONS), ("dense", 1), ("dilute", 1)])
def test_model_potentials_are_libxcs(name, region, n_spin):
    """1e-12 relative for LB94; 1e-9 for the others, whose hole libxc solves to about that accuracy."""
    x = sample(n_spin, region, 100)
    reference, ours = libxc.model_potential(name, x, n_spin), our_potential(name, x, n_spin)
    error = np.abs(ours - reference) / np.abs(reference)
    assert error.max() < (1e-12 if name == "gga_x_lb" else 1e-9)


def hydrogen(r):
    """Density of the hydrogen atom, all of it alpha."""
    return jnp.stack([jnp.exp(-2 * jnp.sqrt(jnp.sum(r * r))) / math.pi, jnp.asarray(1e-30)])


def test_the_becke_roussel_hole_of_hydrogen_is_its_density():
    """Without D, U is minus the Coulomb potential of the 1s density, -(1/r) + (1 + 1/r) exp(-2r)."""
    rho = function(hydrogen, SPACE)
    tau_W = function(lambda r: 0.5 * hydrogen(r), SPACE)  # |grad n|^2 / (8 n) = n / 2
    U = hole_potential(rho[0], tau_W[0], 1.0)
    for r in (0.3, 1.0, 2.5, 6.0):
        exact = -1 / r + (1 + 1 / r) * math.exp(-2 * r)
        assert float(U(jnp.array([0.0, r, 0.0]))) == pytest.approx(exact, rel=1e-12)


@pytest.mark.slow  # 2.4 s; its hole, and strong forms of models: the tests around
def test_becke_and_johnsons_potential_of_hydrogen_is_exact_up_to_a_constant():
    """2 tau = n everywhere in the 1s orbital, so the response term is sqrt(5/12) / pi, as their paper says."""
    rho, tau = function(hydrogen, SPACE), function(lambda r: 0.5 * hydrogen(r), SPACE)
    v, v_tau = dftfd.get_functional("mgga_x_bj06").potential(rho, tau)
    for r in (0.3, 1.0, 2.5, 6.0):
        place = jnp.array([0.0, r, 0.0])
        exact = -1 / r + (1 + 1 / r) * math.exp(-2 * r)
        assert float(v(place)[0]) - exact == pytest.approx(math.sqrt(5 / 12) / math.pi, rel=1e-10)
        assert float(v_tau(place)[0]) == 0


def test_strong_form_of_a_model_is_its_potential():
    """The derivative of the term as a function of r, at a point, is the formula's value there."""
    rho = function(hydrogen, SPACE)
    v = dftfd.get_functional("gga_x_lb").potential(rho)
    x = np.array([hydrogen(jnp.array([0.0, 0.0, 1.5]))[0], 1e-30, 0, 0, 0, 0, 0, 0, 0])[:, None]
    x[2] = (2 * x[0]) ** 2
    reference = libxc.model_potential("gga_x_lb", x, 2)[0, 0]
    assert float(v(jnp.array([0.0, 0.0, 1.5]))[0]) == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_potential_has_no_energy(name):
    """It says so, alone and in a sum, and its kernel's energy is zero."""
    model = dftfd.get_functional(name)
    assert not model.has_energy
    assert not (model + dftfd.get_functional("lda_c_pw")).has_energy
    with pytest.raises(UnsupportedError, match="has no energy"):
        model.energy(function(hydrogen, SPACE), function(hydrogen, SPACE))


def test_libxcs_energies_are_no_models_of_the_potential():
    """A GGA's vrho is not its potential: `model_potential` refuses functionals that have an energy."""
    with pytest.raises(UnsupportedError, match="has an energy"):
        libxc.model_potential("gga_x_pbe", sample(1, "dense", 3), 1)


def test_results_of_a_model_say_that_their_energy_is_incomplete():
    """In the summary and in the HTML table; a functional's results have no such line."""
    helium = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    model, functional = (dftfd.run_scf(helium, xc, grid_level=0) for xc in ("lb94", "lda,vwn"))
    for text in (str(model), model._repr_html_()):
        assert "no energy of gga_x_lb, a model potential: the total is incomplete" in text
    assert "incomplete" not in str(functional)


def test_c_of_tb09_is_a_parameter():
    """c = 1 is BJ06; another c changes the weight of hole and response."""
    x = sample(2, "dense", 20)
    assert our_potential("mgga_x_tb09", x) == pytest.approx(our_potential("mgga_x_bj06", x), rel=1e-14)
    assert dftfd.get_functional("tb09", c=1.3).parameters["c"] == 1.3
