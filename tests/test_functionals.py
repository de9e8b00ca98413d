"""The functional library: exact identities, edges of the domain, algebra."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import function
from dftfd.errors import FunctionalError
from dftfd.functionals.base import EnergyTerm, Functional, exact_exchange, long_range_exchange
from dftfd.functionals.common import spin_scaled
from dftfd.functionals.densities import SPACE
from dftfd.functionals.numerics import DENSITY_FLOOR
from dftfd.functionals.registry import get_functional, list_functionals
from dftfd.grids.molecular import molecular_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.density import density_function, evaluate_at
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder
from tests.sample import sample

LDA = ["lda_x", "lda_c_pw", "lda_c_pw_mod", "lda_c_vwn", "lda_c_vwn_rpa"]
GGA = ["gga_x_pbe", "gga_c_pbe", "gga_x_b88", "gga_c_lyp"]
EXCHANGE = ["lda_x", "gga_x_pbe", "gga_x_b88"]


def compiled(functional, n_spin):
    """Code of (spin, 4, point), densities and gradients: energies per volume (point,)."""
    kernel = XCKernel(functional, n_spin)
    code = lambda d: kernel.energy_density(d[:, : kernel.channels], jnp.zeros(3))
    return jax.jit(jax.vmap(code, in_axes=-1))


compiled_by_name = functools.cache(lambda name, n_spin: compiled(get_functional(name), n_spin))


def energies(name, density, n_spin=2):
    """Energies per volume (point,) from (spin, 4, point): densities and gradients."""
    return np.asarray(compiled_by_name(name, n_spin)(jnp.asarray(density)))


def energies_of(functional, density):
    """The same for a Functional, two spins."""
    return np.asarray(compiled(functional, 2)(jnp.asarray(density)))


def random_densities(rng, n_points=50, n_spin=2):
    """Densities over four decades with reduced gradients up to a few, (spin, 4, point)."""
    rho = 10 ** rng.uniform(-3, 1, (n_spin, 1, n_points))
    return np.concatenate([rho, rho ** (4 / 3) * rng.normal(size=(n_spin, 3, n_points)) * 3], axis=1)


# ---- identities


@pytest.mark.parametrize("gga, lda", [("gga_x_pbe", "lda_x"), ("gga_x_b88", "lda_x"), ("gga_c_pbe", "lda_c_pw_mod")])
def test_uniform_gas_limit(gga, lda, rng):
    """Without gradients these GGAs are the local density approximation they are built on, exactly."""
    uniform = random_densities(rng) * np.array([1.0, 0, 0, 0])[None, :, None]
    np.testing.assert_allclose(energies(gga, uniform), energies(lda, uniform), rtol=1e-14)


@pytest.mark.parametrize("name", EXCHANGE)
def test_spin_scaling_of_exchange(name, rng):
    """E_x[a, b] = (E_x[2a] + E_x[2b]) / 2, where E_x[n] is the restricted evaluation."""
    density = random_densities(rng)
    separate = [energies(name, 2 * density[s : s + 1], n_spin=1) for s in (0, 1)]
    np.testing.assert_allclose(energies(name, density), 0.5 * (separate[0] + separate[1]), rtol=1e-14)


@pytest.mark.parametrize("name", EXCHANGE)
@pytest.mark.parametrize("scale", [0.3, 7.0])
def test_coordinate_scaling_of_exchange(name, scale, rng):
    """E_x[n_l] = l E_x[n] for n_l(r) = l^3 n(l r): at a point e_x(l^3 n, l^4 grad n) = l^4 e_x(n, grad n)."""
    density = random_densities(rng)
    scaled = density * np.array([scale**3] + [scale**4] * 3)[None, :, None]
    np.testing.assert_allclose(energies(name, scaled), scale**4 * energies(name, density), rtol=1e-13)


@pytest.mark.parametrize("name", ["lda_c_pw", "lda_c_pw_mod", "lda_c_vwn", "gga_c_pbe"])
def test_correlation_is_never_positive(name, rng):
    """E_c <= 0, here even at every point; PBE's H takes away no more than the uniform gas gives."""
    density = random_densities(rng, 400)
    density[:, 1:] *= 10 ** rng.uniform(-2, 2, 400)
    assert energies(name, density).max() <= 0


@pytest.mark.parametrize("name", LDA + GGA)
def test_spin_flip(name, rng):
    """E[a, b] = E[b, a]: no functional knows which spin is called alpha."""
    density = random_densities(rng)
    rounding = 1e-14 * np.abs(energies("lda_x", density)).max()
    np.testing.assert_allclose(energies(name, density), energies(name, density[::-1]), rtol=1e-14, atol=rounding)


@pytest.mark.parametrize("name", LDA + GGA)
def test_restricted_evaluation_is_the_polarised_one_with_equal_spins(name, rng):
    """One formula serves both kinds of run."""
    total = random_densities(rng, n_spin=1)
    halves = np.concatenate([total, total]) / 2
    np.testing.assert_allclose(energies(name, total, n_spin=1), energies(name, halves), rtol=1e-14)


def test_local_lieb_oxford_bound_of_pbe_exchange(rng):
    """F_x <= 1.804 at any gradient, and it is approached: the choice of kappa."""
    density = random_densities(rng, 200, n_spin=1)
    density[:, 1:] *= 10 ** rng.uniform(0, 4, 200)
    enhancement = energies("gga_x_pbe", density, 1) / energies("lda_x", density, 1)
    assert 1.8039 < enhancement.max() <= 1.804 * (1 + 1e-15)


def test_lyp_of_one_spin_alone_is_zero(rng):
    """LYP vanishes for fully polarised densities, so for one electron, up to rounding."""
    density = random_densities(rng)
    density[1] = 0
    assert np.all(np.abs(energies("gga_c_lyp", density)) < 1e-15 * np.abs(energies("lda_x", density)))


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["lda_x", *(pytest.param(n, marks=SLOW) for n in ("lda,vwn", "pbe", "blyp"))])
def test_strong_and_weak_form_give_the_same_change_of_energy(name):
    """integral of v_xc dn = <V, dP> = dE, on a grid fine enough for both.

    Left, the functional derivative as a function of r; right, the gradient of the quadrature energy. The density is a
    polarised, aspherical one on one centre, where quadrature converges fast (both sides to 1e-11 at level 5).
    """
    molecule = dftfd.molecule("He 0 0 0;", basis="6-31g**")
    functional = get_functional(name)
    a, b, c = np.array([[0.6, 0.5, 0, 0, 0], [0.5, -0.3, 0, 0, 0.3], [0.2, 0.4, 0.3, 0, 0.1]])
    P = np.stack([np.outer(a, a) + 0.3 * np.outer(b, b), 0.8 * np.outer(a, a) + 0.1 * np.outer(b, b)])
    dP = np.stack([np.outer(c, c), 0.4 * np.outer(b, b)])
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, 5)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    kernel = XCKernel(functional, 2)
    weak = np.vdot(XCBuilder(kernel, AOStore(molecule, points, weights, kernel.order)).build(P).matrix, dP)
    v = evaluate_at(functional.potential(density_function(molecule, P)), points)
    dn = evaluate_at(density_function(molecule, dP), points)
    strong = weights @ np.sum(np.asarray(v) * np.asarray(dn), axis=1)
    assert strong == pytest.approx(weak, abs=1e-10)


# ---- edges


def edge_densities():
    """Densities (2, 4, point) from 1e-30 to 1e6, unpolarised to fully polarised, without and with large gradients."""
    columns = []
    for n in 10.0 ** np.arange(-30, 7):
        for zeta in (0.0, 0.5, 1 - 1e-12, 1.0, -1.0):
            rho = 0.5 * n * np.array([1 + zeta, 1 - zeta])
            for s in (0.0, 1e-8, 1.0, 30.0):
                gradient = s * 6 * rho[:, None] ** (4 / 3) * np.array([[1.0, 0.5, -0.5], [0.2, 1.0, 0.3]])
                columns.append(np.concatenate([rho[:, None], gradient], axis=1))
    columns.append(np.zeros((2, 4)))
    return np.stack(columns, axis=-1)


@SLOW
@pytest.mark.parametrize("name", LDA + GGA)
@pytest.mark.one_in(3)
def test_energy_and_derivatives_are_finite_everywhere(name):
    """Energies, first and second derivatives at 741 points, vacuum and one empty spin among them: no NaN, no Inf.

    In programs that XLA compiles; test_scan has more points and orders, by NumPy.
    """
    kernel = XCKernel(get_functional(name), 2)
    density = jnp.asarray(edge_densities())[:, : kernel.channels]
    energy = lambda d: kernel.energy_density(d, jnp.zeros(3))
    for derivative in (energy, jax.grad(energy), jax.hessian(energy)):
        values = np.asarray(jax.jit(jax.vmap(derivative, in_axes=-1))(density))
        assert np.all(np.isfinite(values)), (
            f"not finite at density {density[..., np.argwhere(~np.isfinite(values))[0][0]]}"
        )


@pytest.mark.parametrize("name", sample(LDA + GGA, ["lda_x", "lda_c_vwn", "gga_x_pbe", "gga_c_lyp"]))
def test_zero_below_the_density_floor(name):
    """Energy and slopes vanish below the floor; just above it the energy is about n^(4/3), as by the formula."""
    kernel = XCKernel(get_functional(name), 2)
    of_density = jax.jit(jax.value_and_grad(lambda d: kernel.energy_density(d, jnp.zeros(3))))
    below, above = (jnp.zeros((2, kernel.channels)).at[:, 0].set(x * DENSITY_FLOOR / 2) for x in (0.2, 5.0))
    energy, slopes = of_density(below)
    assert energy == 0 and not np.any(slopes)
    assert 0 < -of_density(above)[0] < 3 * (5 * DENSITY_FLOOR) ** (4 / 3)


@pytest.mark.parametrize("name", sample(["lda_x", "pbe", "blyp"], ["lda_x"]))
def test_potential_and_energy_of_an_empty_point(name):
    """A density of exactly zero has potential zero in the strong form, not NaN."""
    nothing = function(lambda r: jnp.zeros(2) * r[0], SPACE)
    assert np.array_equal(get_functional(name).potential(nothing)(jnp.ones(3)), np.zeros(2))


# ---- algebra, parameters, refusals


def test_algebra_of_functionals(rng):
    """Sums, multiples, differences and negatives act on the energies, and on exact exchange."""
    density = random_densities(rng)
    a, b = get_functional("gga_x_pbe"), get_functional("gga_c_pbe")
    mixed = 0.25 * exact_exchange + 0.75 * a - 2 * b + (-a) * 0.5
    values = energies_of(mixed, density)
    expected = 0.25 * energies("gga_x_pbe", density) - 2 * energies("gga_c_pbe", density)
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    assert mixed.exact_exchange == ((0.0, 0.25),)
    assert (exact_exchange - exact_exchange).exact_exchange == ()
    assert (0.2 * exact_exchange + 0.6 * long_range_exchange(0.33)).exact_exchange == ((0.0, 0.2), (0.33, 0.6))
    with pytest.raises(FunctionalError, match="omega > 0"):
        long_range_exchange(0.0)
    with pytest.raises(TypeError):
        a * b


def test_hybrids_are_what_their_papers_say(rng):
    """B3LYP: 0.08 S + 0.72 B88 + 0.19 VWN + 0.81 LYP + 0.20 exact; PBE0: 0.75 PBE_x + PBE_c + 0.25 exact."""
    density = random_densities(rng)
    e = {name: energies(name, density) for name in LDA + GGA}
    for name, vwn in (("b3lyp", "lda_c_vwn_rpa"), ("b3lyp5", "lda_c_vwn")):
        expected = 0.08 * e["lda_x"] + 0.72 * e["gga_x_b88"] + 0.19 * e[vwn] + 0.81 * e["gga_c_lyp"]
        np.testing.assert_allclose(energies(name, density), expected, rtol=1e-13)
        assert get_functional(name).exact_exchange == ((0.0, 0.2),)
    np.testing.assert_allclose(energies("pbe0", density), 0.75 * e["gga_x_pbe"] + e["gga_c_pbe"], rtol=1e-13)
    assert get_functional("pbe0").exact_exchange == ((0.0, 0.25),)


def test_parameters(rng):
    """with_parameters changes a formula's numbers: PBE exchange with kappa = 0 is Slater exchange."""
    density = random_densities(rng)
    values = energies_of(get_functional("gga_x_pbe", kappa=1e-12), density)
    np.testing.assert_allclose(values, energies("lda_x", density), rtol=1e-11)
    assert get_functional("pbe", kappa=1.245).parameters["kappa"] == 1.245
    assert get_functional("pbe").parameters["kappa"] == 0.804
    with pytest.raises(FunctionalError, match="no parameter 'kapa'.*kappa"):
        get_functional("gga_x_pbe", kapa=1.0)


def test_formulas_that_cannot_be_used_are_refused_by_name():
    """Unknown ingredients, parameters without default, no density, no Function back: each is one clear message."""
    make = lambda formula: EnergyTerm.from_formula(formula, "mine")
    with pytest.raises(FunctionalError, match="takes 'sigma'.*n: total density"):
        make(lambda n, sigma: n)
    with pytest.raises(FunctionalError, match="'mu' needs a default"):
        make(eval("lambda n, *, mu: n"))
    with pytest.raises(FunctionalError, match="takes no density"):
        make(lambda: 0.0)
    rho = function(lambda r: jnp.exp(-jnp.dot(r, r)) * jnp.ones(2), SPACE)
    for formula in (lambda n: 1.0, lambda rho: rho):
        with pytest.raises(FunctionalError, match="one number at each r, expected"):
            make(formula).energy_density(rho)
    with pytest.raises(FunctionalError, match="kinetic energy density, but none was given"):
        make(lambda n, tau: n).energy_density(rho)
    with pytest.raises(FunctionalError, match="R\\^3 -> R\\^2"):
        get_functional("pbe").energy_density(rho[0])


def test_spin_scaling_takes_the_kinetic_energy_density_too():
    """E[a, b] = (E[2a, 2 tau_a] + E[2b, 2 tau_b]) / 2 for a formula of n and tau, and tau is seen as an ingredient."""

    @spin_scaled
    def formula(n, tau, *, c=3.0):
        return c * n * tau

    term = EnergyTerm.from_formula(formula, "mine")
    assert term.ingredients == ("rho", "tau") and term.parameters == {"c": 3.0}
    rho = function(lambda r: jnp.array([2.0, 3.0]) * jnp.exp(-r[0]), SPACE)
    tau = function(lambda r: jnp.array([5.0, 7.0]) * jnp.exp(-r[0]), SPACE)
    e = Functional("mine", ((1.0, term),)).energy_density(rho, tau)(jnp.zeros(3))
    assert e == pytest.approx(3.0 * (4 * 10 + 6 * 14) / 2, rel=1e-14)


def test_every_functional_has_a_source():
    """Each term of the library names the paper it comes from; what documents and tests register is not of it."""
    terms = [term for name in list_functionals() for _, term in get_functional(name).terms]
    ours = [term for term in terms if term.formula.__module__.startswith("dftfd.functionals.")]
    assert len(ours) > 70
    assert not [term.name for term in ours if not term.doi]
