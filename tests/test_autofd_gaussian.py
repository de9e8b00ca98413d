"""Exact integrals of Gaussian-type functions: against closed forms, libcint and accurate quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd
from dftfd.errors import QuadratureError, SignatureError

R3 = autofd.euclidean(3)
LINE = autofd.euclidean(name="x")
A, B = np.array([0.3, -0.2, 0.5]), np.array([-0.4, 0.1, 0.2])


@pytest.fixture(scope="module")
def functions():
    return autofd.gaussian(R3, 1.3, A, (1, 0, 2)), autofd.gaussian(R3, 0.7, B, (0, 1, 1), 0.3)


def reference(code, n=40, width=0.75):
    """The integral over R^3 by tensor-product Gauss-Hermite quadrature in NumPy."""
    x, w = np.polynomial.hermite.hermgauss(n)
    w = width * w * np.exp(x**2)
    r = width * np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    return float(np.einsum("i,j,k->ijk", w, w, w).ravel() @ code(r))


def gto(r, alpha, centre, powers, c=1.0):
    d = r - centre
    return c * np.prod(d ** np.array(powers), axis=1) * np.exp(-alpha * np.sum(d * d, axis=1))


def test_overlap_of_two_gaussians_is_exact_and_says_so(functions):
    """<g1|g2> with powers against 40^3-point Gauss-Hermite quadrature in NumPy, relative 1e-12."""
    f, g = functions
    expected = reference(lambda r: gto(r, 1.3, A, (1, 0, 2)) * gto(r, 0.7, B, (0, 1, 1), 0.3))
    assert float(autofd.integrate(f * g)) == pytest.approx(expected, rel=1e-12)
    assert autofd.explain_integral(f * g) == "analytic: Gaussian-type functions"


def test_steep_functions_far_from_the_origin():
    """exp(-a|x-A|^2) exp(-b|x-B|^2), exponents 1e4 at 10 bohr: the product theorem to 1e-14, nothing cancels."""
    a, b, P = 1e4, 3e3, np.array([10.0, -3.0, 2.0])
    Q = P + np.array([0.01, 0.02, 0.005])
    value = autofd.integrate(autofd.gaussian(R3, a, P) * autofd.gaussian(R3, b, Q))
    expected = (np.pi / (a + b)) ** 1.5 * np.exp(-a * b / (a + b) * np.sum((P - Q) ** 2))
    assert float(value) == pytest.approx(expected, rel=1e-14)


@pytest.mark.slow
def test_kinetic_energy_by_both_forms(functions):
    """1/2 <nabla f, nabla g> = -1/2 <f, laplacian g>: derivatives of Gaussians stay Gaussians (1e-12)."""
    f, g = functions
    gradient = 0.5 * autofd.integrate(autofd.dot(autofd.nabla(f), autofd.nabla(g)))
    laplacian = -0.5 * autofd.integrate(f * autofd.laplacian(g))
    assert float(gradient) == pytest.approx(float(laplacian), rel=1e-12)


def test_molecular_integrals_against_libcint():
    """Overlap and quadrupole of normalised p functions on two atoms, against PySCF's integrals (1e-12)."""
    from pyscf import gto as pyscf_gto

    basis = {"H": [[1, [0.8, 1.0]]]}
    mole = pyscf_gto.M(atom=[("H", A), ("H", B)], unit="bohr", basis=basis, cart=True, verbose=0)
    overlap, quadrupole = mole.intor("int1e_ovlp"), mole.intor("int1e_rr").reshape(3, 3, 6, 6)
    norm = 1 / np.sqrt(overlap[0, 0]) * mole.intor("int1e_ovlp")[0, 0] ** 0.5
    raw = autofd.gaussian(R3, 0.8, A, (1, 0, 0))
    scale = np.sqrt(overlap[0, 0] / float(autofd.integrate(raw * raw))) * norm
    z_a = autofd.gaussian(R3, 0.8, A, (0, 0, 1), scale)
    x_b = autofd.gaussian(R3, 0.8, B, (1, 0, 0), scale)
    assert float(autofd.integrate(z_a * x_b)) == pytest.approx(overlap[2, 3], abs=1e-13)
    xz = autofd.function(lambda r: r[0] * r[2], R3)
    assert float(autofd.integrate(z_a * xz * x_b)) == pytest.approx(quadrupole[0, 2][2, 3], rel=1e-12)


def test_derivatives_with_respect_to_parameters():
    """d/d(alpha), d/dA of the overlap of two s functions, from differentiating its closed form by hand."""
    a, b, X, Y = 1.1, 0.6, 0.4, -0.3

    def overlap(a, X):
        return autofd.integrate(autofd.gaussian(LINE, a, X) * autofd.gaussian(LINE, b, Y))

    value, (d_alpha, d_centre) = jax.jit(jax.value_and_grad(overlap, (0, 1)))(jnp.asarray(a), jnp.asarray(X))
    p, q = a + b, a * b / (a + b)
    S = np.sqrt(np.pi / p) * np.exp(-q * (X - Y) ** 2)
    assert float(value) == pytest.approx(S, rel=1e-14)
    assert float(d_alpha) == pytest.approx(S * (-0.5 / p - (b / p) ** 2 * (X - Y) ** 2), rel=1e-13)
    assert float(d_centre) == pytest.approx(-2 * q * (X - Y) * S, rel=1e-13)


def test_functional_derivatives_of_exact_integrals(functions):
    """grad and jvp of a functional made of exact integrals; <dE/df, d> = dE[d] (1e-13)."""
    f, g = functions
    E = lambda f: autofd.integrate(f * f * g) + autofd.integrate(f) ** 2
    v = autofd.grad(E)(f)
    assert float(autofd.integrate(v * g)) == pytest.approx(float(autofd.jvp(E, (f,), (g,))[1]), rel=1e-13)


def test_plain_lambdas_and_polynomials_are_recognised():
    """The rule follows the program, not the type: exp(-x^2)(1 + x^4) integrates to sqrt(pi) (1 + 3/4)."""
    h = autofd.function(lambda x: jnp.exp(-(x**2)) * (1 + x**4), LINE)
    assert float(autofd.integrate(h)) == pytest.approx(1.75 * np.sqrt(np.pi), rel=1e-14)


def test_partial_and_double_integrals_with_a_gaussian_kernel():
    """The integral over y of exp(-(x-y)^2 - y^2/2) is a function of x; over both it is 2 pi / sqrt(2)."""
    k = autofd.function(lambda x, y: jnp.exp(-((x - y) ** 2) - y * y / 2), LINE, LINE)
    over_y = autofd.integrate(k, 1)
    assert float(over_y(0.3)) == pytest.approx(np.sqrt(np.pi / 1.5) * np.exp(-0.09 + 0.09 / 1.5), rel=1e-14)
    assert autofd.explain_integral(k, 1).startswith("analytic")
    assert float(autofd.integrate(k)) == pytest.approx(2 * np.pi / np.sqrt(2), rel=1e-14)


def test_everything_else_goes_to_the_quadrature():
    """exp(-x^4), a power, a cosine: no analytic rule, so the space's quadrature is used, and without one an error."""
    quartic = lambda X: autofd.function(lambda x: jnp.exp(-(x**4)), X)
    with_rule = autofd.euclidean(quadrature=autofd.interval(60, -3.2, 3.2), name="x")
    from scipy.special import gamma

    assert float(autofd.integrate(quartic(with_rule))) == pytest.approx(2 * gamma(1.25), rel=1e-12)
    assert autofd.explain_integral(quartic(with_rule)) == "quadrature with 60 points"
    assert autofd.explain_integral(quartic(LINE)) == "no quadrature"
    with pytest.raises(QuadratureError, match="no quadrature"):
        autofd.integrate(quartic(LINE))
    for code in (
        lambda x: jnp.cos(x) * jnp.exp(-x * x),
        lambda x: x * x,
        lambda x: jnp.where(x > 0, jnp.exp(-x * x), 0),
    ):
        assert autofd.explain_integral(autofd.function(code, LINE)) == "no quadrature"


def test_a_finite_interval_is_not_the_whole_line():
    """On [0, 1] a Gaussian integrates to sqrt(pi)/2 erf(1): the rule stays away from spaces that are not all of R^d."""
    from scipy.special import erf

    X = autofd.interval(20, 0.0, 1.0)
    g = autofd.gaussian(X, 1.0)
    assert autofd.explain_integral(g) == "quadrature with 20 points"
    assert float(autofd.integrate(g)) == pytest.approx(np.sqrt(np.pi) / 2 * erf(1.0), rel=1e-14)


def test_a_given_quadrature_is_used():
    """integrate(f, quadrature=...) means that quadrature, also where the exact value is known."""
    g = autofd.gaussian(LINE, 1.0)
    value = autofd.integrate(g, quadrature=(jnp.array([0.0]), jnp.array([3.0])))
    assert float(value) == 3.0


def test_divergent_integrals_are_nan():
    """exp(+x^2) has no integral over the line; an exponent known only at run time gives NaN, not a number."""
    assert np.isnan(float(autofd.integrate(autofd.gaussian(LINE, -1.0))))


def test_own_rules_can_be_registered():
    """A rule for cosines on a full period: found before the quadrature, named by explain_integral."""
    X = autofd.periodic(3, name="x")
    cosine = autofd.function(jnp.cos, X)

    def rule(f, argnums, args):
        return jnp.zeros(()) if f is cosine else None

    autofd.register_analytic_rule("test: cosine", rule)
    try:
        assert autofd.explain_integral(cosine) == "analytic: test: cosine"
    finally:
        autofd.register_analytic_rule("test: cosine", lambda f, argnums, args: None)


def test_misuse_is_a_typed_error():
    """Powers that are not integers, spaces of matrices, a quadrature of another space."""
    with pytest.raises(SignatureError, match="powers"):
        autofd.gaussian(R3, 1.0, powers=(1, 0))
    with pytest.raises(SignatureError, match="points of shape"):
        autofd.gaussian(autofd.Domain((2, 2)), 1.0)
    with pytest.raises(QuadratureError, match="does not fit"):
        autofd.euclidean(3, quadrature=autofd.interval(4, 0.0, 1.0))
