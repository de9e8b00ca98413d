"""Measures that a space does not say: told when a strong form is taken on them, and shown by `check`."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd.autofd as fd
from dftfd.autofd.core.domain import unknown_slope
from dftfd.errors import InputWarning, SignatureError


def gauss(n, a, b):
    x, w = np.polynomial.legendre.leggauss(n)
    return (a + b) / 2 + (b - a) / 2 * x, (b - a) / 2 * w


def sphere(jacobian=True, **given):
    """Angles theta, phi; weights with sin(theta) in them, unless not."""
    (t, u), (p, v) = gauss(16, 0, np.pi), gauss(16, 0, 2 * np.pi)
    points = np.stack(np.meshgrid(t, p, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.outer(u * np.sin(t) if jacobian else u, v).ravel()
    return fd.Domain((2,), points=points, weights=weights, name="sphere", **given)


def radial(power, **given):
    r, w = gauss(20, 0.0, 5.0)
    return fd.Domain((), points=r, weights=w * r**power, name="r", **given)


def radial_of(n):
    r, w = gauss(n, 0.0, 4.0)
    return fd.Domain((), points=r, weights=w)


stiffness_of_r = lambda f: 0.5 * fd.integrate(fd.nabla(f) ** 2)
SIN = {"density": lambda q: jnp.sin(q[0])}
SQUARE = {"density": lambda r: r**2}
POLAR = jnp.array([1.0, 0.0])
cosine = lambda q: jnp.cos(q[0])


def stiffness(f):
    """1/2 int (df/dtheta)^2; on the sphere its derivative is -nabla^2 f = 2 f for f = cos(theta), l (l + 1) = 2."""
    slope = fd.dot(fd.nabla(f), fd.constant(POLAR, *f.domains))
    return 0.5 * fd.integrate(slope * slope)


def test_a_jacobian_in_the_weights_is_told_when_a_strong_form_is_taken():
    """Without density the derivative of the stiffness is cos where it should be 2 cos; once for each space."""
    hidden, said = sphere(), sphere(**SIN)
    q = jnp.array([0.7, 0.3])
    with pytest.warns(InputWarning, match=r"sphere.*do not belong to the measure dx.*density=lambda x: jnp\.sin"):
        wrong = fd.grad(stiffness)(fd.function(cosine, hidden))(q)
    assert wrong == pytest.approx(np.cos(0.7), rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fd.grad(stiffness)(fd.function(cosine, said))(q) == pytest.approx(2 * np.cos(0.7), rel=1e-9)
        fd.grad(stiffness)(fd.function(cosine, hidden))
        f = fd.function(lambda q: jnp.sin(q[0]), sphere())
        fd.grad(lambda f: fd.integrate(f**2))(f)  # nothing by parts: nothing is wrong


@pytest.mark.parametrize("transform", [jax.jit, lambda code: code])
def test_it_is_told_inside_of_jit_too(transform):
    space = radial(2)
    energy = lambda a: fd.grad(lambda f: fd.integrate(fd.nabla(f) ** 2))(fd.function(lambda r: jnp.exp(-r), space) * a)(
        1.0
    )
    with pytest.warns(InputWarning, match="do not belong to the measure dx"):
        transform(energy)(2.0)


@pytest.mark.parametrize(
    "space, right",
    [
        (lambda: sphere(), False),
        (lambda: sphere(**SIN), True),
        (lambda: sphere(jacobian=False), True),
        (lambda: sphere(jacobian=False, **SIN), False),
        (lambda: radial(0), True),
        (lambda: radial(2), False),
        pytest.param(lambda: radial(2, **SQUARE), True, marks=pytest.mark.slow),
        (lambda: radial(1, **SQUARE), False),
        (lambda: fd.Domain((), points=np.linspace(0, 1, 9), weights=np.full(9, 1 / 9)), True),
    ],
)
def test_measures_that_are_as_said_are_let_alone(space, right):
    """Own quadratures of several kinds; in both directions, a density for weights that have none too."""
    space = space()
    assert (unknown_slope(space) == 0.0) == right
    f = fd.function(lambda x: jnp.cos(jnp.sum(x) / 2), space)
    found = fd.check(lambda f: 0.5 * fd.integrate(fd.dot(fd.nabla(f), fd.nabla(f))), f) if right else None
    if right and len(space.points) > 9:
        assert found.passed and not found.remarks


def test_quadratures_of_the_library_are_not_asked():
    """Their measure is known, with few and with random points, too."""
    spaces = [
        fd.interval(4),
        fd.periodic(6),
        fd.gauss_hermite(5),
        fd.gauss_laguerre(5),
        fd.product(fd.interval(3), fd.periodic(4)),
    ]
    spaces.append(fd.monte_carlo(jax.random.key(0), 100, box=(0.0, 1.0)))
    assert all(space.measure_is_known for space in spaces)
    assert not fd.product(fd.interval(3), radial(2)).measure_is_known


def test_check_shows_both_sides_of_the_identity():
    """dE by differences of the functional itself; <grad, df> equal on a space that says its density."""
    f = fd.function(lambda q: jnp.cos(q[0]) + 0.3 * jnp.sin(q[0]) * jnp.cos(q[1]), sphere(**SIN))
    found = fd.check(stiffness, f, bumps=3, seed=5)
    assert found.passed and found.error < 0.02 and not found.remarks and "they agree" in repr(found)
    with pytest.warns(InputWarning, match="do not belong"):
        wrong = fd.check(stiffness, fd.function(f.code, sphere()), bumps=3, seed=5)
    assert not wrong.passed and wrong.error > 0.2 and "DISAGREE" in repr(wrong) and "density" in wrong.remarks[0]


def test_check_takes_functions_of_several_arguments_and_components():
    X, Y = fd.interval(16), fd.periodic(16)
    f = fd.function(lambda x, y: jnp.stack([x * jnp.sin(y), jnp.cos(y) + x**2]), X, Y)
    energy = lambda f: fd.integrate(fd.dot(fd.nabla(f, 0), fd.nabla(f, 1)) + fd.dot(f, f) ** 2)
    assert fd.check(energy, f).passed


@pytest.mark.parametrize("n", [3, 4, 5])
def test_check_judges_no_quadrature_of_one_node_a_bump(n):
    """With one node in the middle of a bump its slope is zero on all nodes: dE = 0 said nothing of the functional."""
    f = fd.function(lambda r: jnp.exp(-r), radial_of(n))
    if n < 5:
        with pytest.raises(SignatureError, match=f"has {n} points, too few"):
            fd.check(stiffness_of_r, f)
    else:
        assert fd.check(stiffness_of_r, f).passed


@pytest.mark.parametrize("wrong", [{"bumps": 0}, {"bumps": 1.5}, {"seed": -1}, {"seed": "x"}])
def test_options_of_check_are_whole_numbers(wrong):
    with pytest.raises(SignatureError, match="a whole number"):
        fd.check(stiffness_of_r, fd.function(lambda r: jnp.exp(-r), radial_of(5)), **wrong)


@pytest.mark.parametrize("wrong", [3.0, fd.function(lambda x: x, fd.Domain(()))])
def test_check_says_what_it_takes(wrong):
    with pytest.raises(SignatureError, match="check"):
        fd.check(lambda f: 0.0, wrong)
