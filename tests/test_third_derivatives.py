"""Third functional derivatives of every kind of energy on a grid, and forces and dipoles of excited states with them.

References: seven-point differences of first derivatives at random densities, energies of excited states nearby and in
fields, each with an SCF of its own, and a formula of operators for the same formula as a grid functional.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import exp, function
from dftfd.errors import NumericalError
from dftfd.functionals.base import Functional
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange
from dftfd.functionals.grid_functionals import grid_functional_term
from dftfd.functionals.numerics import nonnegative
from dftfd.functionals.pairs import integral_over_there, squared_distance, there
from dftfd.functionals.registry import term
from dftfd.response.excitations import excitations_of
from dftfd.xc.grid_functional_kernel import GridFunctionalKernel
from dftfd.xc.kernel import XCKernel
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel
from tests.own_functionals import OwnFunctionals

C_X = -0.9305257363491
SLATER = -0.75 * (3 / math.pi) ** (1 / 3)


own = OwnFunctionals()
known = own.fixture()
pytestmark = pytest.mark.usefixtures("known")


@own("own_lda_of_r")
def lda_of_r(n):
    """Slater exchange that depends on where it is, and stays there when the nuclei move."""
    return slater_exchange(n) * (
        1 + function(lambda r: 0.02 * jnp.sum(jnp.sin(r) * jnp.array([1.0, 0.5, 0.3])), *n.domains)
    )


@term("own_of_tau")
def of_gradients_and_tau(n, tau, *, c=0.1):
    """Short, but with everything that a meta-GGA has."""
    uniform, t = 0.3 * (3 * math.pi**2) ** (2 / 3) * n ** (5 / 3), tau[0] + tau[1]
    return slater_exchange(n) * (1 + c * t / (t + uniform) + c * reduced_gradient_squared(n))


@own("own_averaged_density")
def averaged_density_exchange(n, *, width=1.0):
    """Exchange of an averaged density: a double integral, neither linear in its integral nor symmetric."""
    averaged = integral_over_there(there(n) * (math.pi * width**2) ** -1.5 * exp(-squared_distance(n) / width**2))
    return SLATER * n * nonnegative(averaged) ** (1 / 3)


def slater(rho, weights, *, c=C_X):
    return c * weights @ (jnp.where(rho > 1e-27, rho, 1e-27) ** (4 / 3)).sum(axis=0)


def near(rho, points, weights, nuclei):
    """Electrons near each nucleus, (atom,)."""
    return (weights * rho.sum(axis=0)) @ jnp.exp(-0.5 * jnp.sum((points[:, None] - nuclei[None]) ** 2, axis=-1))


def talking(rho, grad_rho, points, weights, nuclei, gathered, *, c=C_X):
    """Slater exchange enhanced by what is near the nuclei, and by gradients."""
    enhanced = jnp.exp(-0.5 * jnp.sum((points[:, None] - nuclei[None]) ** 2, axis=-1)) @ jnp.tanh(gathered)
    local = jnp.tanh((grad_rho.sum(axis=0) ** 2).sum(axis=0))
    return c * weights @ ((jnp.where(rho > 1e-27, rho, 1e-27) ** (4 / 3)).sum(axis=0) * (1 + 0.1 * enhanced * local))


def grid_functional(formula=slater, gather=None, by_blocks=False) -> Functional:
    return Functional(
        "own grid functional", ((1.0, grid_functional_term(formula, "own grid functional", None, gather, by_blocks)),)
    )


NUCLEI = np.array([[0.0, 0.0, 0.1], [0.3, -0.4, 1.2]])
KERNELS = {
    "semilocal": lambda: XCKernel(of_gradients_and_tau, 2),
    "r2SCAN": lambda: XCKernel(dftfd.get_functional("r2scan"), 2),
    "of r": lambda: XCKernel(dftfd.get_functional("own_lda_of_r"), 1),
    "grid_functional": lambda: GridFunctionalKernel(grid_functional(talking, near), 2, NUCLEI, [2, 1]),
    "grid functional by blocks": lambda: GridFunctionalKernel(
        grid_functional(talking, near, by_blocks=True), 1, NUCLEI, [2, 1]
    ),
    "vv10": lambda: NonlocalXCKernel(dftfd.get_functional("vv10"), 1, moving_points=True),
    "averaged": lambda: NonlocalXCKernel(dftfd.get_functional("own_averaged_density"), 2, moving_points=True),
}


SLOW = ("r2SCAN", "vv10", "grid_functional", "grid functional by blocks")
"""Two seconds; another double integral is quick; so is
test_an_excited_state_of_a_grid_functional_is_that_of_its_formula."""


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KERNELS])
def test_slopes_along_densities_are_differences_of_slopes(kind):
    """1e-7 of the largest: by densities, weights, points and nuclei, of a path that bends, at densities above 0.2."""
    kernel, rng, n_points = KERNELS[kind](), np.random.default_rng(4), 20
    points, weights = rng.normal(size=(n_points, 3)), rng.uniform(0.1, 0.5, n_points)
    shape = kernel.n_spin, kernel.channels, n_points
    density, first, second = rng.uniform(0.3, 0.6, shape), *(rng.uniform(-0.1, 0.1, (2, *shape)))
    if kernel.needs_tau:
        density[:, 4] += 0.5  # above von Weizsaecker's
    h, shifts = 0.02, np.arange(-3, 4)
    at = [kernel.slopes(points, weights, density + h * k * first + (h * k) ** 2 / 2 * second) for k in shifts]
    along = lambda values: np.tensordot([-1, 9, -45, 0, 45, -9, 1], values, axes=1) / (60 * h)
    twice = lambda values: np.tensordot([2, -27, 270, -490, 270, -27, 2], values, axes=1) / (180 * h**2)
    found = kernel.second_slopes(points, weights, density, first, second)
    potentials = [slopes.density for slopes in at]
    pairs = [(found.potential, at[3].density), (found.change, along(potentials))]
    pairs += [(of, twice([slopes[i] for slopes in at])) for i, of in enumerate(found.second)]
    for ours, expected in pairs:
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-7 * max(np.abs(expected).max(), 1e-4))
    assert np.abs(found.second.points).max() > 1e-7 or kind in ("semilocal", "r2SCAN")


HEH, OPEN_HEH = ("He 0 0 0; H 0 0.1 0.8", 1, 0), ("He 0 0 0; H 0 0.1 1.0", 0, 1)
TIGHT = {"conv_tol": 1e-13, "grid_level": 0, "nlc_grid_level": 0}


def molecule_of(atoms, charge, spin):
    return dftfd.molecule(atoms, basis="6-31g", charge=charge, spin=spin)


@pytest.mark.filterwarnings("ignore:the grid holds")
@pytest.mark.parametrize("system", [pytest.param(HEH, marks=pytest.mark.slow), OPEN_HEH], ids=["RKS", "UKS"])
def test_an_excited_state_of_a_grid_functional_is_that_of_its_formula(system):
    """Forces and relaxed dipole moments of Slater exchange as a grid functional and as a formula: 1e-9."""
    results = [dftfd.run_scf(molecule_of(*system), xc, **TIGHT) for xc in (grid_functional(by_blocks=True), "lda_x")]
    ours, expected = (result.excitations(3).state(0) for result in results)
    np.testing.assert_allclose(ours.forces, expected.forces, atol=1e-9)
    np.testing.assert_allclose(ours.dipole, expected.dipole, atol=1e-9)


def require_slopes(system, xc, spin=None, density_fit=True, h=2e-3):
    """A force along a direction and a dipole moment along another against five-point differences of energies, 1e-6."""
    molecule = molecule_of(*system)
    rng = np.random.default_rng(3)
    direction, field = rng.normal(size=molecule.coordinates.shape), np.array([0.3, 0.2, 1.0])
    direction, field = direction / np.linalg.norm(direction), field / np.linalg.norm(field)
    options = TIGHT | {"density_fit": density_fit}

    def energy(shift=0.0, strength=0.0):
        at = molecule.at(molecule.coordinates + shift * direction)
        result = dftfd.run_scf(at, xc, **options | {"conv_tol": 1e-14, "electric_field": strength * field})
        return result.energy + excitations_of(result, 3, False, spin, None, 1e-10).energies[0]

    slope = lambda of: np.dot([1, -8, 8, -1], [of(k * h) for k in (-2, -1, 1, 2)]) / (12 * h)
    state = dftfd.run_scf(molecule, xc, **options).excitations(3, spin=spin).state(0)
    assert np.sum(state.forces * direction) == pytest.approx(-slope(energy), abs=1e-6)
    assert state.dipole @ field == pytest.approx(-slope(functools.partial(energy, 0.0)), abs=1e-6)


@pytest.mark.slow  # 0.8 s; its slopes: above
@pytest.mark.filterwarnings("ignore:the grid holds")
def test_an_excited_state_of_a_functional_of_r():
    """A functional that knows where it is, for HeH+ on a coarse grid."""
    require_slopes(HEH, "own_lda_of_r")


CASES = [
    (OPEN_HEH, "own_lda_of_r", None, True),
    (HEH, "own_averaged_density", "singlet", True),
    (HEH, "own_averaged_density", "triplet", True),
    (OPEN_HEH, "talking", None, True),
    (HEH, "talking", "triplet", True),
    (HEH, "pbe + 1.0*vv10", "singlet", True),
    (OPEN_HEH, "wb97x-v", None, True),
    (HEH, "camb3lyp", "singlet", False),
    (OPEN_HEH, "lda,vwn", None, True),
    (HEH, "tpss", "singlet", True),
    (HEH, "r2scanl", "singlet", True),
    (HEH, "r2scanl", "triplet", True),
    (HEH, "hf", "singlet", True),
    (OPEN_HEH, "pbe0", None, False),
    (HEH, "vdw-df", "singlet", True),
]


@pytest.mark.slow  # eight SCFs with excitations each, and code of third order to compile
@pytest.mark.filterwarnings("ignore")  # coarse grids, for which the derivatives are exact, too
@pytest.mark.parametrize(("system", "xc", "spin", "density_fit"), CASES)
def test_excited_states_of_functionals_of_every_kind(system, xc, spin, density_fit):
    h = 2e-4 if xc == "r2scanl" else 2e-3  # r2SCAN's excitation energies have ripples of 1e-3 bohr on coarse grids
    require_slopes(system, grid_functional(talking, near) if xc == "talking" else xc, spin, density_fit, h)


def test_a_third_derivative_that_is_not_finite_is_said():
    """|n - 0.3|^2.5 at n = 0.3 has two derivatives: an error of one line, no NaN."""
    cusp = grid_functional(lambda rho, weights: weights @ (jnp.sqrt((rho.sum(axis=0) - 0.3) ** 2) ** 2.5))
    density = np.full((1, 1, 4), 0.3)
    kernel = GridFunctionalKernel(cusp, 1, NUCLEI, [2, 1])
    with pytest.raises(NumericalError, match="third derivative of functional"):
        kernel.second_slopes(np.zeros((4, 3)), np.ones(4), density, density, density)
