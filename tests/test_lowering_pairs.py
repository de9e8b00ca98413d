"""Double integrals: scalar code, proofs of symmetry, lowering, and the derivatives of sums over pairs of points.

References are dense sums over all pairs written in plain jax.numpy beside each formula, differentiated by jax.grad.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import (
    Domain,
    broadcast,
    cbrt,
    compose,
    dot,
    exp,
    function,
    integrate,
    laplacian,
    nabla,
    permute,
    power,
    sqrt,
    tanh,
    with_quadrature,
)
from dftfd.autofd.lowering import has_integrals, lower_nonlocal, placeholder
from dftfd.autofd.scalar.on_jax import run
from dftfd.autofd.scalar.reader import LARGE, point_program, scalar_program
from dftfd.autofd.scalar.simplify import is_symmetric, regrouped
from dftfd.errors import NotSemilocalError, NumericalError, QuadratureError, UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.densities import SPACE, unknown_densities
from dftfd.functionals.pairs import guarded, here, integral_over_there, squared_distance, there
from dftfd.functionals.registry import get_functional
from dftfd.xc.nonlocal_code import COLUMNS, PairSums
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel, NonlocalXCResponse
from tests.sample import sample

VECTOR = jax.ShapeDtypeStruct((3,), np.float64)


# ---- scalar code


def elementwise(x, y):
    return jnp.concatenate([jnp.exp(x) / y - x * y**-3, cbrt(y) + power(y, 5 / 6), jnp.where(x > y, x, -y)])


def contractions(x, y):
    A = jnp.outer(x, y) + jnp.eye(3)
    return jnp.stack([jnp.linalg.norm(A @ x), jnp.einsum("i,ij,j", x, A, y), jnp.prod(y), jnp.max(x) - jnp.min(y)])


def integers(x, y):
    k = jnp.floor(3 * y).astype(jnp.int32)
    return (k // 2 - k * k).astype(jnp.float64) + x[::-1][jnp.array([2, 0, 1])]


def look_up(x, y):
    table = jnp.asarray(np.linspace(0.0, 1.0, 2 * LARGE))
    return jnp.stack([table.at[(100 * y[k]).astype(jnp.int32)].get(mode="promise_in_bounds") * x[k] for k in range(3)])


def moved(x, y):
    A = jnp.broadcast_to(jnp.outer(x, y), (2, 3, 3)).transpose(2, 0, 1)
    parts = [A[::2, :, 1:], A[::-1, :, :2][1:], jnp.expand_dims(A[0], 1)[:2, 0, :2].reshape(1, 2, 2).swapaxes(1, 2)]
    late = jax.lax.dynamic_slice(A.reshape(-1), (jnp.asarray(99),), (2,))  # as near to the end as it fits
    return jnp.concatenate([*(jnp.ravel(p) for p in parts), jnp.squeeze(A[:1, 0]), late])


def on_constants(x, y):
    """Masks, shifts, remainders and choices among numbers that are known when the code is traced."""
    k = jnp.asarray(np.array([13, -6, 7]))
    mask = ((k & 5) | 2) + (~k >> 1) + (k << 2) + jax.lax.rem(k, jnp.asarray([4, 4, 4]))
    chosen = jnp.where(jnp.asarray([True, False, True]), jnp.sign(k), k).astype(jnp.float64)
    return x * mask.astype(jnp.float64) + chosen * y


@pytest.mark.parametrize(
    "code", sample([elementwise, contractions, integers, look_up, moved, on_constants], at=[1, 2, 3, 4])
)
def test_scalar_program_and_its_regrouped_form_compute_the_same(code, rng):
    """Every kind of operation, with derivatives: taken apart into scalars, values agree with the array code."""
    both = lambda x, y: (code(x, y), jax.jacrev(code)(x, y))
    x, y = rng.uniform(0.5, 2.0, size=(2, 3))
    expected = np.concatenate([np.ravel(v) for v in jax.jit(both)(x, y)])
    program = scalar_program(both, VECTOR, VECTOR)
    whole = point_program(both, VECTOR, VECTOR)
    forms = (whole, program, regrouped(program, range(3)), regrouped(program, range(3, 6)))
    together = jax.jit(lambda entries: [jnp.stack(run(form, list(entries))) for form in forms])
    for found in together(np.concatenate([x, y])):
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_scalar_program_divides_once_where_a_derivative_would_divide_thrice():
    """A reciprocal and its square are shared: 1 / d and its derivative -1 / d^2 need one division."""
    both = lambda x, y: jax.value_and_grad(lambda x: jnp.sum(x) / jnp.sum(x * y))(x)
    program = scalar_program(both, VECTOR, VECTOR)
    assert sum(program.nodes[i].op == "div" for i in program.needed) == 1


def test_loops_have_no_scalar_form():
    with pytest.raises(UnsupportedError, match="while"):
        scalar_program(lambda x, y: jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x + y, x), VECTOR, VECTOR)


SYMMETRIC = [
    lambda x, y: jnp.sum((x - y) ** 2) * (x[0] + y[0]),
    lambda x, y: jnp.linalg.norm(x - y) / (x[1] * y[1] * (x[1] + y[1])),
    lambda x, y: jnp.exp(-jnp.abs(x[0] - y[0])) * jnp.maximum(x[1], y[1]) * 0.5 * x[2] * y[2],
    lambda x, y: (x[0] * y[0]) * (0.1 * x[1]) * (0.3 * y[1]) / jnp.sqrt(3 + x @ y),
]
ASYMMETRIC = [
    lambda x, y: x[0] - y[0],
    lambda x, y: jnp.sum((x - y) ** 2) * x[0],
    lambda x, y: (x[0] - y[0]) ** 3,
    lambda x, y: jnp.where(x[0] > y[0], x[1], -y[1]),
    lambda x, y: x[0] * y[0] * 0.3 + x[1] * y[2],
    lambda x, y: jnp.floor(x[0] / y[0]) * (x[0] * y[0]),
]


@pytest.mark.parametrize("code", SYMMETRIC)
def test_symmetry_is_proven(code):
    assert is_symmetric(scalar_program(code, VECTOR, VECTOR), [3, 4, 5, 0, 1, 2])


@pytest.mark.parametrize("code", ASYMMETRIC)
def test_nothing_asymmetric_is_taken_for_symmetric(code, rng):
    """Each of these changes its value under exchange at random points, so a proof would be false."""
    x, y = rng.uniform(0.5, 2.0, size=(2, 3))
    assert not np.isclose(code(x, y), code(y, x))
    assert not is_symmetric(scalar_program(code, VECTOR, VECTOR), [3, 4, 5, 0, 1, 2])


# ---- sums over pairs


def pair(row, col):
    """Two values of two points with two features each."""
    r2 = jnp.sum((row[:3] - col[:3]) ** 2)
    return jnp.stack([jnp.exp(-r2 * row[3]) * col[3], row[4] ** 2 * col[4] / (1 + r2 * row[3] * col[3])])


def pair_of_a_loop(row, col):
    """The same from a while_loop, of which JAX has derivatives in one direction only: 1/2 + 1/4 + 1/4 of them."""
    turn = lambda carry: (carry[0] + 1, carry[1] + 0.25 * pair(row, col))
    return jax.lax.while_loop(lambda carry: carry[0] < 2, turn, (0, 0.5 * pair(row, col)))[1]


PAIRS = {
    "scalar": pair,
    "solve": jax.checkpoint(lambda row, col: jnp.linalg.solve(jnp.eye(2), pair(row, col))),
    "loop": pair_of_a_loop,
}


@pytest.mark.parametrize(
    "kind, n_rows, n_columns",
    sample(
        [(kind, *size) for kind in ("scalar", "solve", "loop") for size in ((700, COLUMNS + 5), (3, 0))], at=[0, 1, 5]
    ),
)
def test_sums_over_pairs_with_derivatives(kind, n_rows, n_columns, rng):
    """Values and Jacobians for sizes that do and don't fill tiles, as scalar code and as general code."""
    sums = PairSums(PAIRS[kind], 5, 5, 3)
    assert (sums.program is not None) is (kind == "scalar")
    rows, columns = rng.uniform(0.5, 1.5, size=(5, n_rows)), rng.uniform(0.5, 1.5, size=(5, n_columns))
    charges = rng.normal(size=n_columns)
    values, jacobian = sums(rows, columns, charges)

    def dense(row):
        return jnp.einsum("qk,q->k", jax.vmap(lambda c: pair(row, c))(columns.T), charges)

    sums_and_slopes = jax.jit(jax.vmap(lambda row: (dense(row), jax.jacfwd(dense)(row))))
    expected, slopes = sums_and_slopes(rows.T)
    np.testing.assert_allclose(values.T, expected, rtol=1e-11, atol=1e-12)
    expected = slopes[..., 3:]
    np.testing.assert_allclose(jacobian.transpose(2, 0, 1), expected, rtol=1e-11, atol=1e-12)


# ---- functionals: each beside a dense sum over all pairs


@dataclass(frozen=True)
class Case:
    """formula: as users write it.   dense(n, g, R2, w): the energy from n (p,), nabla n (3, p), R^2 (p, p), weights.

    integrals: how many there are.   symmetric: for how many symmetry is used.
    """

    formula: Callable
    dense: Callable
    integrals: int = 1
    symmetric: int = 0


def gaussian_repulsion(n):
    return 0.5 * n * integral_over_there(there(n) * exp(-1.0 * squared_distance(n)))


def gaussian_repulsion_dense(n, g, R2, w):
    return 0.5 * (w * n) @ jnp.exp(-R2) @ (w * n)


def gap_damped(n):
    q = sqrt(n + dot(nabla(n), nabla(n)))
    kernel = 1.0 / (here(q) * there(q) * (1.0 + squared_distance(n) * (here(q) + there(q))))
    return n * (0.3 + integral_over_there(there(n) * kernel))


def gap_damped_dense(n, g, R2, w):
    q = jnp.sqrt(n + jnp.sum(g * g, axis=0))
    K = 1 / (q[:, None] * q[None, :] * (1 + R2 * (q[:, None] + q[None, :])))
    return (w * n) @ (0.3 + K @ (w * n))


def one_sided(n):
    """The kernel's width depends on one point only."""
    return n * integral_over_there(there(n) * exp(-1.0 * squared_distance(n) * here(n)))


def one_sided_dense(n, g, R2, w):
    return (w * n) @ jnp.exp(-R2 * n[:, None]) @ (w * n)


def weighted_density(n):
    """e = n tanh(nbar), nonlinear in the integral."""
    return n * tanh(integral_over_there(there(n) * exp(-1.0 * squared_distance(n))))


def weighted_density_dense(n, g, R2, w):
    return (w * n) @ jnp.tanh(jnp.exp(-R2) @ (w * n))


def vector_weighted(n):
    """A vector-valued integral, squared: int n(r') (r - r') exp(-R^2) dr'."""
    displacement = function(lambda r, s: r - s, *n.domains * 2)
    v = integral_over_there(there(n) * exp(-1.0 * squared_distance(n)) * displacement)
    return n * dot(v, v)


def vector_weighted_dense(n, g, R2, w, points):
    d = points[:, None, :] - points[None, :, :]
    v = jnp.einsum("pq,pqi,q->pi", jnp.exp(-R2), d, w * n)
    return (w * n) @ jnp.sum(v * v, axis=1)


def gradient_of_integral(n):
    """nabla of a weighted density, through the kernel: nabla exp(-R^2) = -2 (r - r') exp(-R^2)."""
    nbar = integral_over_there(there(n) * exp(-1.0 * squared_distance(n)))
    return dot(nabla(nbar), nabla(nbar)) * 0.25


def gradient_of_integral_dense(n, g, R2, w, points):
    d = points[:, None, :] - points[None, :, :]
    v = jnp.einsum("pq,pqi,q->pi", jnp.exp(-R2), -2 * d, w * n)
    return 0.25 * w @ jnp.sum(v * v, axis=1)


def nested(n):
    """The kernel of the second integral depends on the first one at both points."""
    nbar = integral_over_there(there(n) * exp(-1.0 * squared_distance(n)))
    return n * integral_over_there(there(n * nbar) * exp(-1.0 * squared_distance(n) * (here(nbar) + there(nbar))))


def nested_dense(n, g, R2, w):
    nbar = jnp.exp(-R2) @ (w * n)
    return (w * n) @ jnp.exp(-R2 * (nbar[:, None] + nbar[None, :])) @ (w * n * nbar)


def several(n):
    """Two integrals, one of them squared, beside a gradient term."""
    a = integral_over_there(there(n) * exp(-1.0 * squared_distance(n)))
    b = integral_over_there(there(n * n) * exp(-2.0 * squared_distance(n)))
    return 0.1 * dot(nabla(n), nabla(n)) + n * a + n * b * b


def several_dense(n, g, R2, w):
    a, b = jnp.exp(-R2) @ (w * n), jnp.exp(-2 * R2) @ (w * n * n)
    return w @ (0.1 * jnp.sum(g * g, axis=0) + n * a + n * b * b)


CASES = {
    "gaussian repulsion": Case(gaussian_repulsion, gaussian_repulsion_dense, symmetric=1),
    "gap-damped": Case(gap_damped, gap_damped_dense, symmetric=1),
    "one-sided": Case(one_sided, one_sided_dense),
    "weighted density": Case(weighted_density, weighted_density_dense),
    "vector-weighted": Case(vector_weighted, vector_weighted_dense),
    "gradient of an integral": Case(gradient_of_integral, gradient_of_integral_dense),
    "nested": Case(nested, nested_dense, integrals=2),
    "several": Case(several, several_dense, integrals=2, symmetric=1),
}


ENERGIES = ("nested", "several", "vector-weighted", "weighted density")
"""Of two spins, at every run; what symmetry saves and gradients of integrals: the tests of responses."""


def functional_of(formula):
    return Functional("test", ((1.0, EnergyTerm.from_formula(guarded(formula), "test")),))


@pytest.mark.parametrize(
    "name, n_spin",
    [
        *(pytest.param(name, 2, marks=[pytest.mark.slow] * (name not in ENERGIES)) for name in CASES),
        ("gap-damped", 1),
    ],
)
def test_energy_and_derivative_of_double_integrals(name, n_spin, rng):
    """E and dE/d(density channels) equal jax.grad of the dense double sum, on random points, weights of both signs."""
    case = CASES[name]
    kernel = NonlocalXCKernel(functional_of(case.formula), n_spin)
    assert len(kernel.stages) == case.integrals
    assert sum(s.symmetric for s in kernel.stages) == case.symmetric
    points, weights = rng.normal(size=(60, 3)), rng.uniform(-0.2, 1.0, 60)
    density = rng.uniform(0.1, 1.0, size=(n_spin, kernel.channels, 60))
    R2 = jnp.sum((points[:, None] - points[None]) ** 2, axis=-1)

    def dense(density):
        total = density.sum(axis=0)
        args = (total[0], total[1:4], R2, weights)
        return case.dense(*args, points) if case.dense.__code__.co_argcount == 5 else case.dense(*args)

    energy, potential = kernel(points, weights, density)
    expected, gradient = jax.jit(jax.value_and_grad(dense))(jnp.asarray(density))
    assert energy == pytest.approx(float(expected), rel=1e-12)
    np.testing.assert_allclose(potential, gradient, rtol=1e-10, atol=1e-12)


RESPONSES = ("gradient of an integral",)
"""Beside a symmetric kernel of gradients: gradients behind the integral; the others take half a second to one each."""


@pytest.mark.parametrize(
    "name, n_spin",
    [
        ("gap-damped", 1),
        pytest.param("gap-damped", 2, marks=pytest.mark.slow),
        *(
            pytest.param(name, 2, marks=[pytest.mark.slow] * (name not in RESPONSES))
            for name in CASES
            if name != "gap-damped"
        ),
    ],
)
def test_response_of_double_integrals(name, n_spin, rng):
    """The change of dE/d(density channels) along a change of the density: forward over jax.grad of the dense sum."""
    case = CASES[name]
    kernel = NonlocalXCKernel(functional_of(case.formula), n_spin)
    points, weights = rng.normal(size=(60, 3)), rng.uniform(-0.2, 1.0, 60)
    weights[7] = 0.0  # a point that only fills a block up
    density, change = rng.uniform(0.1, 1.0, size=(2, n_spin, kernel.channels, 60))
    R2 = jnp.sum((points[:, None] - points[None]) ** 2, axis=-1)

    def dense(density):
        total = density.sum(axis=0)
        args = (total[0], total[1:4], R2, weights)
        return case.dense(*args, points) if case.dense.__code__.co_argcount == 5 else case.dense(*args)

    _, expected = jax.jit(lambda x, dx: jax.jvp(jax.grad(dense), (x,), (dx,)))(density, change)
    response = NonlocalXCResponse(kernel, points, weights, density)
    found = response(change)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    other = rng.normal(size=density.shape)
    assert np.vdot(other, found) == pytest.approx(np.vdot(response(other), change), rel=1e-11)


@pytest.mark.slow  # 1.5 s; energies and responses of symmetric kernels against dense sums: the tests above
def test_symmetric_shortcut_equals_the_general_way(rng):
    """Doubling one side and summing over both sides give the same derivative, and the same response."""
    kernel = NonlocalXCKernel(functional_of(gap_damped), 1)
    points, weights = rng.normal(size=(40, 3)), rng.uniform(0.1, 1.0, 40)
    density = rng.uniform(0.1, 1.0, size=(1, kernel.channels, 40))
    _, short = kernel(points, weights, density)
    change = rng.normal(size=density.shape)
    short_response = NonlocalXCResponse(kernel, points, weights, density)(change)
    assert kernel.stages[0].symmetric
    kernel.stages[0].symmetric = False
    _, general = kernel(points, weights, density)
    np.testing.assert_allclose(general, short, rtol=1e-12)
    general_response = NonlocalXCResponse(kernel, points, weights, density)(change)
    np.testing.assert_allclose(general_response, short_response, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "weighted density",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gradient of an integral", "gap-damped", "nested")),
    ],
)
def test_lowered_energy_equals_the_graph_evaluated_with_the_quadrature(name, rng):
    """The lowered functional and the operator graph itself, integrals attached to the same points, give one energy."""
    formula = CASES[name].formula
    functional = functional_of(formula)
    rho = function(lambda r: jnp.exp(-jnp.sum(r * r)) * (1 + 0.3 * jnp.stack([r[0], -r[1]])), SPACE)
    points, weights = rng.normal(size=(40, 3)), rng.uniform(0.1, 1.0, 40)
    jet = jax.vmap(lambda r: jnp.concatenate([rho(r)[:, None], nabla(rho)(r)], axis=1), out_axes=-1)(points)
    kernel = NonlocalXCKernel(functional, 2)
    energy, _ = kernel(points, weights, np.asarray(jet)[:, : kernel.channels])
    e = with_quadrature(functional.energy_density(rho), points, weights)
    assert energy == pytest.approx(float(weights @ jax.vmap(e)(points)), rel=1e-12)


def test_features_are_folded_and_charges_taken_out():
    """One-point factors leave the integral; what depends on one point becomes one feature, however it is written."""
    n = placeholder("n", SPACE)
    root = sqrt(n) + n * n
    kernel = there(n) * exp(-1.0 * squared_distance(n) * (here(root) + there(root))) * here(n) * 2.0
    program = lower_nonlocal(integral_over_there(kernel))
    (integral,) = program.integrals
    assert program.orders == {"n": 0}
    assert len(integral.left.root.operands) - 1 == 1 and len(integral.right.root.operands) - 1 == 1
    assert float(integral.charge({"n": [jnp.float64(0.3)]}, jnp.zeros(3))) == 0.3
    assert float(program.outer({"n": [jnp.float64(0.5)], integral.name: [jnp.float64(3.0)]}, jnp.zeros(3))) in (1.5, 3)


def test_arguments_in_any_order():
    """Integrals over the first argument and permuted functions lower to the same numbers."""
    n = placeholder("n", SPACE)
    decay = function(lambda r, s: jnp.exp(-jnp.sum(r * r) - 2 * jnp.sum(s * s)), SPACE, SPACE)
    forms = [
        integrate(there(n) * decay * here(n), argnums=1),
        integrate(here(n) * permute(decay, (1, 0)) * there(n), argnums=0),
        integrate(permute(there(n) * decay * here(n), (1, 0)), argnums=0),
    ]
    r, s, f = jnp.array([0.1, 0.2, 0.3]), jnp.array([-0.3, 0.1, 0.5]), jnp.float64(0.7)
    values = []
    for form in forms:
        program = lower_nonlocal(form)
        (integral,) = program.integrals
        features = [part({"n": [f]}, r) for part in (integral.left, integral.right)]
        K = integral.kernel(r, features[0], s, features[1]) * integral.charge({"n": [f]}, s)
        values.append(float(program.outer({"n": [f], integral.name: [K]}, r)))
    assert values == pytest.approx([0.49 * float(decay(r, s))] * 3)


def test_what_is_beyond_double_integrals_is_refused():
    """Integrals over three points, and integrals with a quadrature of their own, are errors with a reason."""
    n = placeholder("n", SPACE)
    triple = function(lambda r, s, t: jnp.exp(-jnp.sum((r - s) ** 2 + (s - t) ** 2)), SPACE, SPACE, SPACE)
    n_t = broadcast(n, (SPACE,) * 3, 2)
    with pytest.raises(NotSemilocalError, match="three points|beyond"):
        lower_nonlocal(integrate(integrate(n_t * triple, argnums=2) * there(n), argnums=1))
    quadrature = (jnp.zeros((1, 3)), jnp.ones(1))
    with pytest.raises(NotSemilocalError, match="no quadrature attached"):
        lower_nonlocal(integrate(there(n), argnums=1, quadrature=quadrature))
    with pytest.raises(NotSemilocalError, match="integrate|integral"):
        from dftfd.xc.kernel import XCKernel

        XCKernel(functional_of(gaussian_repulsion), 1)


def test_quadrature_comes_later():
    """A space with grid_later lets integrals be formed; their value is an error until a quadrature is attached."""
    f = function(lambda r, s: jnp.sum(r) * jnp.exp(-jnp.sum(s * s)), SPACE, SPACE)
    integral = integrate(f, argnums=1)
    with pytest.raises(QuadratureError, match="with_quadrature"):
        integral(jnp.ones(3))
    attached = with_quadrature(integral, jnp.zeros((2, 3)), jnp.array([1.0, 2.0]))
    assert float(attached(jnp.ones(3))) == pytest.approx(9.0)
    with pytest.raises(QuadratureError):
        integrate(function(lambda r: r[0], Domain((3,))))
    with pytest.raises(QuadratureError, match="do not fit"):
        with_quadrature(integral, jnp.zeros((2, 2)), jnp.ones(2))


def test_functionals_know_which_terms_hold_integrals():
    semilocal = functional_of(lambda n: n * n)
    both = semilocal + functional_of(gaussian_repulsion)
    assert semilocal.is_semilocal and not semilocal.is_nonlocal
    assert both.is_semilocal and both.is_nonlocal
    assert len(both.semilocal_part.terms) == len(both.nonlocal_part.terms) == 1
    assert not both.nonlocal_part.is_semilocal
    assert has_integrals(both.energy_density(placeholder("rho", SPACE, (2,))))


def test_a_kernel_that_diverges_at_coinciding_points_is_reported(rng):
    """1 / R without a word on R = 0 gives an infinite energy: an error that says where to look."""
    diverging = lambda n: n * integral_over_there(there(n) / sqrt(squared_distance(n)))
    kernel = NonlocalXCKernel(functional_of(diverging), 1)
    with pytest.raises(NumericalError, match="coinciding points"):
        kernel(rng.normal(size=(5, 3)), np.ones(5), np.ones((1, 1, 5)))


def test_second_derivatives_in_features(rng):
    """The Laplacian may enter features: order 2 is found, and the energy is that of the dense sum."""
    formula = lambda n: n * integral_over_there(there(laplacian(n)) * exp(-1.0 * squared_distance(n)))
    kernel = NonlocalXCKernel(functional_of(formula), 1)
    assert (kernel.order, kernel.channels) == (2, 10)
    points, weights, density = rng.normal(size=(20, 3)), rng.uniform(0.1, 1, 20), rng.uniform(0.1, 1, (1, 10, 20))
    R2 = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    trace = density[0, 4] + density[0, 7] + density[0, 9]
    energy, _ = kernel(points, weights, density)
    assert energy == pytest.approx((weights * density[0, 0]) @ np.exp(-R2) @ (weights * trace), rel=1e-12)


def test_compose_with_numbers_of_both_points():
    """compose of functions of one point and of both: only the latter stays in the pair kernel."""
    n = placeholder("n", SPACE)
    mixed = compose(lambda a, b, r2: a * b * jnp.exp(-r2), here(n * n), there(sqrt(n)), squared_distance(n))
    (integral,) = lower_nonlocal(integral_over_there(mixed)).integrals
    (left,), (right,) = (side({"n": [jnp.float64(4.0)]}, jnp.zeros(3)) for side in (integral.left, integral.right))
    assert (float(left), float(right)) == (16.0, 2.0)


def test_features_with_traced_numbers_are_told_apart():
    """omega_0 and kappa of VV10 are two features of a point, inside of transformations too, however often one looks."""
    counts = []

    def look(numbers):
        f = get_functional("vv10").with_parameters(b=numbers[0], C=numbers[1])
        (integral,) = lower_nonlocal(f.energy_density(*unknown_densities())).integrals
        counts.extend([len(integral.left.root.result), len(integral.right.root.result)])
        return numbers[0] * numbers[1]

    for _ in range(3):
        jax.vmap(lambda x: jax.vjp(look, x)[0])(jnp.ones((2, 2)))
    assert counts == [2] * 6
