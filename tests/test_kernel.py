"""Any semilocal functional goes one way, whatever its ingredients: kernel, matrix, potential, SCF.

The functionals here are toys that no library has: polynomials in the density, its gradient and Hessian, and the
kinetic energy density, with random coefficients, so that every derivative and cross-derivative is excited; and a
Laplacian-, a Hessian- and a tau-dependent one that stay bounded enough for an SCF.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import dftfd
from dftfd.autofd import compose, dot, function, laplacian, nabla
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import slater_exchange, spin_scaled, total_density
from dftfd.functionals.densities import SPACE
from dftfd.functionals.registry import get_functional
from dftfd.verify.check import molecular_jet
from dftfd.xc.ao_store import AOStore
from dftfd.xc.density import density_function, evaluate_at
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder
from tests.compilations import compilations
from tests.sample import sample

HESSIAN = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
INGREDIENTS = [(0, False), (1, False), (2, False), (0, True), (1, True), (2, True)]
N_DIRECTIONS = 5


def toy(formula, name="toy"):
    """A Functional of one formula that is not registered."""
    return Functional(name, ((1.0, EnergyTerm.from_formula(formula, name)),))


def directions(order, tau):
    """Random coefficients u (direction, spin, ingredient) over the value, 3 gradient, 9 Hessian components and tau."""
    rng = np.random.default_rng(100 * order + tau)
    scale = np.array([1.0] + [0.3] * 3 + [0.1] * 9 + [0.2])
    kept = [0] + [*range(1, 4)] * (order >= 1) + [*range(4, 13)] * (order >= 2) + [13] * tau
    u = np.zeros((N_DIRECTIONS, 2, 14))
    u[:, :, kept] = rng.normal(size=(N_DIRECTIONS, 2, len(kept))) * scale[kept]
    return u


def polynomial_value(u, rho, *rest):
    """sum_k (u_k . x)^2 / 2 + (u_k . x)^3 / 6 over everything in x; rest: gradient, Hessian, tau as far as given."""
    x = jnp.concatenate([part.reshape(2, -1) for part in (rho, *rest)], axis=1)
    y = jnp.einsum("ksc,sc->k", u, x)
    return jnp.sum(y**2 / 2 + y**3 / 6)


def polynomial(order, tau):
    """A Functional: the polynomial above, of the ingredients named."""
    u = directions(order, tau)
    width = (1, 4, 13)[order]
    used = jnp.asarray(np.concatenate([u[:, :, :width], u[:, :, 13:]], axis=2) if tau else u[:, :, :width])

    def build(rho, *rest):
        parts = [rho]
        for _ in range(order):
            parts.append(nabla(parts[-1]))
        return compose(functools.partial(polynomial_value, used), *parts, *rest)

    if tau:
        return toy(lambda rho, tau: build(rho, tau))
    return toy(lambda rho: build(rho))


def channels_to_ingredients(density, order, tau):
    """x (spin, 14) from the kernel's channels (spin, channel); n_ij fills both of its places."""
    x = np.zeros((2, 14))
    x[:, 0] = density[:, 0]
    if order >= 1:
        x[:, 1:4] = density[:, 1:4]
    if order >= 2:
        for c, (i, j) in enumerate(HESSIAN):
            x[:, 4 + 3 * i + j] = x[:, 4 + 3 * j + i] = density[:, 4 + c]
    if tau:
        x[:, 13] = density[:, -1]
    return x


@pytest.mark.parametrize("n_spin", [1, 2])
@pytest.mark.parametrize("order, tau", INGREDIENTS)
def test_kernel_of_a_polynomial_equals_its_derivative_by_hand(order, tau, n_spin, rng):
    """Energy and all channel derivatives of sum_k y^2/2 + y^3/6, y = u . x: y u + y^2 u / 2, both places of n_ij added.

    One spin is a total density: the derivative with respect to it is the mean of those of the two spins.
    """
    kernel = XCKernel(polynomial(order, tau), n_spin)
    assert (kernel.order, kernel.needs_tau, kernel.channels) == (order, tau, (1, 4, 10)[order] + tau)
    density = rng.normal(size=(n_spin, kernel.channels, 7))
    density[:, 0] = np.abs(density[:, 0]) + 0.1
    points, weights = rng.normal(size=(7, 3)), rng.normal(size=7)
    energy, potential = kernel(points, weights, density)
    both = density if n_spin == 2 else np.concatenate([density, density]) / 2
    u, e, v = directions(order, tau), 0.0, np.zeros((2, kernel.channels, 7))
    for p in range(7):
        y = np.einsum("ksc,sc->k", u, channels_to_ingredients(both[:, :, p], order, tau))
        e += weights[p] * np.sum(y**2 / 2 + y**3 / 6)
        slope = weights[p] * np.einsum("k,ksc->sc", y + y**2 / 2, u)
        v[:, 0, p] = slope[:, 0]
        if order >= 1:
            v[:, 1:4, p] = slope[:, 1:4]
        if order >= 2:
            for c, (i, j) in enumerate(HESSIAN):
                v[:, 4 + c, p] = slope[:, 4 + 3 * i + j] + (slope[:, 4 + 3 * j + i] if i != j else 0)
        if tau:
            v[:, -1, p] = slope[:, 13]
    if n_spin == 1:
        v = v.mean(axis=0, keepdims=True)
    assert float(energy) == pytest.approx(e, rel=1e-12)
    np.testing.assert_allclose(potential, v, rtol=1e-11, atol=1e-12)


@pytest.mark.slow  # PBE of two spins: test_shared_code
@pytest.mark.parametrize(
    ("name", "n_spin"), [(name, n_spin) for name in ("lda,vwn", "lda,pw", "pbe") for n_spin in (1, 2)]
)
def test_compiled_kernels_equal_plain_derivatives(name, n_spin, rng):
    """The program in one loop computes what JAX's own value_and_grad does, arctan of VWN included."""
    kernel = XCKernel(get_functional(name).semilocal_part, n_spin)
    points, weights = rng.normal(size=(1024, 3)), rng.uniform(size=1024)
    density = np.exp(rng.normal(size=(n_spin, kernel.channels, 1024)))
    energy, potential = kernel(points, weights, density)
    expected, slopes = jax.jit(jax.value_and_grad(kernel.energy, argnums=2))(points, weights, density)
    assert float(energy) == pytest.approx(float(expected), rel=1e-13)
    np.testing.assert_allclose(potential, slopes, atol=1e-12)


@pytest.fixture(scope="module")
def water():
    return dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="6-31g*")


def random_symmetric(rng, n_spin, n_ao):
    P = rng.normal(size=(n_spin, n_ao, n_ao)) / n_ao
    return P + P.transpose(0, 2, 1)


def positive_density(rng, n_spin, n_ao):
    """P = C C^T / n of random orbitals, and so a density that is nowhere negative."""
    C = rng.normal(size=(n_spin, n_ao, n_ao)) / n_ao
    return C @ C.transpose(0, 2, 1)


def matrix_against_differences(functional, molecule, n_spin, rng, step=1e-4):
    """(<V, dP>, fourth-order central difference of the energy) in a random direction dP."""
    kernel = XCKernel(functional, n_spin)
    points = molecule.coordinates.mean(axis=0) + rng.normal(size=(300, 3))
    store = AOStore(molecule, points, rng.uniform(0.01, 0.1, 300), max(kernel.order, int(kernel.needs_tau)))
    builder = XCBuilder(kernel, store)
    P, dP = positive_density(rng, n_spin, molecule.n_ao), random_symmetric(rng, n_spin, molecule.n_ao) * 0.1
    difference = lambda h: builder.build(P + h * dP).energy - builder.build(P - h * dP).energy
    return np.vdot(builder.build(P).matrix, dP), (8 * difference(step) - difference(2 * step)) / (12 * step)


@pytest.mark.parametrize(
    "order, tau, n_spin",
    sample([(*of, n) for of in INGREDIENTS for n in (1, 2)], [(2, True, 2), (1, False, 1), (0, True, 2)]),
)
def test_matrix_of_a_polynomial_is_the_slope_of_its_energy(order, tau, n_spin, water, rng):
    """<V, dP> = dE/dP along random directions to 1e-8: jets of every order through kernel and XCBuilder."""
    exact, difference = matrix_against_differences(polynomial(order, tau), water, n_spin, rng)
    assert exact == pytest.approx(difference, rel=1e-8)


def smooth_density(r):
    """A spin density R^3 -> R^2 without symmetry."""
    centres = np.array([[0.0, 0.1, -0.2], [0.5, -0.3, 0.4]])
    weights = np.array([[1.0, 0.6], [0.7, 0.9]])
    return weights @ jnp.exp(-0.8 * jnp.sum((r[None, :] - centres) ** 2, axis=1))


def smooth_tau(r):
    return 1.5 * smooth_density(1.1 * r) + 0.2


@pytest.mark.parametrize(
    "order, tau",
    sample(INGREDIENTS, [(2, True)]),
)
def test_potential_of_a_polynomial_is_the_euler_lagrange_expression(order, tau):
    """v = e_n - d_i e_{n_i} + d_ij e_{n_ij} at points, with v_tau = e_tau.

    The right side differentiates the polynomial as ordinary code of r: no operator, no transpose rule is involved.
    """
    functional = polynomial(order, tau)
    rho, t = function(smooth_density, SPACE), function(smooth_tau, SPACE)
    derived = functional.potential(rho, t) if tau else (functional.potential(rho), None)
    u = jnp.asarray(directions(order, tau))

    def slope(r):
        """de/dx (spin, 14) along the density."""
        x = [smooth_density(r)[:, None], jax.jacfwd(smooth_density)(r), jax.hessian(smooth_density)(r).reshape(2, 9)]
        x = jnp.concatenate([*x, smooth_tau(r)[:, None]], axis=1)
        y = jnp.einsum("ksc,sc->k", u, x)
        return jnp.einsum("k,ksc->sc", y + y**2 / 2, u)

    @jax.jit
    def euler_lagrange(r):
        v = slope(r)[:, 0] - jnp.einsum("sii->s", jax.jacfwd(lambda r: slope(r)[:, 1:4])(r))
        second = jax.hessian(lambda r: slope(r)[:, 4:13].reshape(2, 3, 3))(r)
        return v + jnp.einsum("sijij->s", second)

    for r in np.random.default_rng(3).normal(size=(3, 3)):
        np.testing.assert_allclose(derived[0](r), euler_lagrange(jnp.asarray(r)), rtol=1e-10)
        if tau:
            np.testing.assert_allclose(derived[1](r), jax.jit(slope)(jnp.asarray(r))[:, 13], rtol=1e-12)


# ---- toys for an SCF: bounded corrections to Slater exchange


@spin_scaled
def laplacian_exchange(n, *, c=0.02):
    """C_x n^(4/3) (1 + c q / (1 + q^2)), q = laplacian(n) / (4 (3 pi^2)^(2/3) n^(5/3)), in a form without q."""
    size = 4 * (3 * np.pi**2) ** (2 / 3) * n ** (5 / 3)
    lap = laplacian(n)
    return slater_exchange(n) * (1 + c * lap * size / (size * size + lap * lap))


def hessian_energy(rho, *, c=0.02):
    """Slater exchange of the total density and -c n^(4/3) tr(H^2) / (tr(H^2) + n^2 + n^4), H its Hessian."""
    n = total_density(rho)
    H = nabla(nabla(n))
    curvature = dot(H, H)
    return slater_exchange(n) - c * n ** (4 / 3) * curvature / (curvature + n**2 + n**4)


@spin_scaled
def tau_exchange(n, tau, *, c=0.1):
    """C_x n^(4/3) (1 + c tau / (tau + tau_0)), tau_0 that of the uniform gas."""
    uniform = 0.3 * (3 * np.pi**2) ** (2 / 3) * n ** (5 / 3)
    return slater_exchange(n) * (1 + c * tau / (tau + uniform))


TOYS = {"laplacian": laplacian_exchange, "hessian": hessian_energy, "tau": tau_exchange}


@pytest.mark.parametrize("name, n_spin", sample([(t, n) for t in TOYS for n in (1, 2)], [("laplacian", 2), ("tau", 1)]))
def test_matrix_of_a_toy_functional_is_the_slope_of_its_energy(name, n_spin, water, rng):
    """<V, dP> = dE/dP to 1e-7 for Laplacian, density Hessian and kinetic energy density."""
    functional = toy(TOYS[name], name)
    kernel = XCKernel(functional, n_spin)
    assert (kernel.order, kernel.needs_tau) == {"laplacian": (2, False), "hessian": (2, False), "tau": (0, True)}[name]
    exact, difference = matrix_against_differences(functional, water, n_spin, rng)
    assert exact == pytest.approx(difference, abs=1e-7)


@pytest.mark.parametrize(
    "name, charge, spin", sample([("laplacian", 0, 0), ("hessian", 1, 1), ("tau", 0, 0), ("tau", 1, 1)], at=[1, 2])
)
def test_toy_functionals_run_through_scf(name, charge, spin):
    """RKS of He2 and UKS of He2+ converge with each of them, so the matrix is the gradient of the energy minimised.

    At the solution the energy is stationary: rotating the orbitals by a small angle raises it in second order.
    """
    molecule = dftfd.molecule("He 0 0 0; He 0 0 1.3", basis="6-31g", charge=charge, spin=spin)
    functional = toy(TOYS[name], name)
    result = dftfd.run_scf(molecule, xc=functional, grid_level=1)
    assert result.converged and result.cycles < 15
    plain = dftfd.run_scf(molecule, xc="lda_x", grid_level=1)
    assert 1e-4 < abs(result.energy - plain.energy) < 0.3


# ---- own functionals as a user writes them


@pytest.mark.slow  # 1.3 s; potentials of all ingredients: the polynomials above
def test_an_own_gga_has_the_potential_derived_by_hand(water):
    """v of C n^(4/3) (1 + mu s^2) at 100 points equals the expression by hand to 1e-10, relative near the nuclei.

    e = C n^(4/3) + C mu c sigma n^(-4/3): v = 4/3 C n^(1/3) + C mu c (4/3 sigma n^(-7/3) - 2 n^(-4/3) lap n), c = s^2
    n^(8/3) / sigma. The density is that of a random positive matrix, its derivatives are libcint's.
    """
    mu, C = 0.21, -0.75 * (3 / np.pi) ** (1 / 3)

    @spin_scaled
    def own(n, *, mu=mu):
        s2 = dot(nabla(n), nabla(n)) / (4 * (3 * np.pi**2) ** (2 / 3) * n ** (8 / 3))
        return slater_exchange(n) * (1 + mu * s2)

    rng = np.random.default_rng(8)
    P = positive_density(rng, 1, water.n_ao)
    points = water.coordinates[rng.integers(0, 3, 100)] + rng.normal(size=(100, 3)) * 0.7
    jet = molecular_jet(water, np.concatenate([P, P]) / 2, points)
    n, g, lap = jet.value.sum(axis=0), jet.gradient.sum(axis=0), np.trace(jet.hessian.sum(axis=0))
    c, sigma = 1 / (4 * (3 * np.pi**2) ** (2 / 3)), np.sum(g * g, axis=0)
    by_hand = 4 / 3 * C * n ** (1 / 3) + C * mu * c * (4 / 3 * sigma * n ** (-7 / 3) - 2 * n ** (-4 / 3) * lap)
    derived = np.asarray(evaluate_at(toy(own).potential(density_function(water, P)), points))
    np.testing.assert_allclose(derived, np.stack([by_hand, by_hand], axis=1), rtol=1e-10, atol=1e-10)


def test_derivatives_beyond_the_matrix_are_refused_by_name():
    """Third derivatives of the density and derivatives of tau: UnsupportedError that says what is needed."""
    third = toy(lambda n: dot(nabla(laplacian(n)), nabla(laplacian(n))), "third")
    with pytest.raises(UnsupportedError, match="'third' needs derivatives of rho of order 3"):
        XCKernel(third, 2)
    slope = toy(lambda n, tau: dot(nabla(tau), nabla(tau)), "slope")
    with pytest.raises(UnsupportedError, match="'slope' needs derivatives"):
        XCKernel(slope, 2)


def test_orders_are_found_by_tracing():
    """What a functional needs is seen from its graph, through sums and hybrids too."""
    expected = {"lda,vwn": (0, False, 1), "pbe": (1, False, 4), "b3lyp": (1, False, 4), "lda_x": (0, False, 1)}
    for name, found in expected.items():
        kernel = XCKernel(get_functional(name), 2)
        assert (kernel.order, kernel.needs_tau, kernel.channels) == found
    mixed = XCKernel(get_functional("lda_x") + toy(TOYS["laplacian"]) + toy(TOYS["tau"]), 1)
    assert (mixed.order, mixed.needs_tau, mixed.channels) == (2, True, 11)


def test_what_numpy_lacks_is_compiled_once():
    """An operation by JAX within code for NumPy, for whichever program, call or part of the points asks for it."""
    program = lambda k: point_program(lambda x: jax.lax.lgamma(x) + k, jax.ShapeDtypeStruct((), np.float64))
    x = [np.linspace(0.1, 0.9, 8)]
    first = run_on_numpy(program(1.0), x)[0]
    with compilations() as compiled:
        second = run_on_numpy(program(2.0), x)[0]
    assert not compiled
    np.testing.assert_allclose(second - first, 1.0, rtol=1e-14)
    np.testing.assert_allclose(first - 1.0, special.gammaln(x[0]), atol=1e-14)
