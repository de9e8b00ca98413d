"""Functionals of dftfd as arrays in libxc's layout."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose, dot, laplacian, nabla
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.interop import libxc
from dftfd.interop.libxc import evaluate
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import VARIABLES
from dftfd.xc.pointwise import pointwise_kernel
from tests.compilations import compilations
from tests.sample import sample

_K_F = (6 * np.pi**2) ** (1 / 3)


def arrays(rng, n_spin=2, count=50):
    """Random rho, sigma, lapl, tau with sigma_ab^2 < sigma_aa sigma_bb and tau > tau_W."""
    rho = 10 ** rng.uniform(-2, 1, (2, count))
    g = rng.uniform(0.1, 3, (2, count)) * 2 * _K_F * rho ** (4 / 3)
    sigma = np.stack([g[0] ** 2, g[0] * g[1] * rng.uniform(-0.9, 0.9, count), g[1] ** 2])
    lapl = rng.uniform(-3, 3, (2, count)) * 4 * _K_F**2 * rho ** (5 / 3)
    tau = g**2 / (8 * rho) + rng.uniform(0.1, 3, (2, count)) * 0.3 * _K_F**2 * rho ** (5 / 3)
    if n_spin == 1:
        return dict(rho=rho[0], sigma=sigma[0], lapl=lapl[0], tau=tau[0])
    return dict(rho=rho, sigma=sigma, lapl=lapl, tau=tau)


def rows(given, n_spin):
    """Arrays stacked as the rows of VARIABLES."""
    return np.concatenate([np.reshape(given[k], (-1, given["rho"].shape[-1])) for k in ("rho", "sigma", "lapl", "tau")])


def polynomial(exponents, coefficients):
    """A functional sum_k c_k prod_i x_i^p_ki of libxc's nine variables, written on Functions; in rising powers."""

    def code(rho, gradient, trace, tau):
        x = [*rho, *(jnp.sum(gradient[s] * gradient[t]) for s, t in ((0, 0), (0, 1), (1, 1))), *trace, *tau]
        monomial = lambda powers: functools.reduce(
            jnp.multiply, [v ** int(p) for v, p in zip(x, powers, strict=True) if p]
        )
        return sum(float(c) * monomial(powers) for c, powers in zip(coefficients, exponents, strict=True))

    def formula(rho, tau):
        return compose(code, rho, nabla(rho), laplacian(rho), tau)

    formula.is_guarded = True
    return Functional("polynomial", ((1.0, EnergyTerm.from_formula(formula, "polynomial")),))


def derivative(powers, combination):
    """(factor, powers) of the derivative of a monomial with respect to the variables of `combination`."""
    factor, powers = 1.0, list(powers)
    for k in combination:
        factor *= powers[k]
        powers[k] -= 1
    return factor, powers


def of_total_density(exponents, coefficients):
    """The polynomial of rho, sigma, lapl, tau that is left at equal spins: each is a half or, for sigma, a quarter."""
    parts = np.array([0.5] * 2 + [0.25] * 3 + [0.5] * 4)
    summed = np.stack([exponents[:, rows].sum(axis=1) for rows in ([0, 1], [2, 3, 4], [5, 6], [7, 8])], axis=1)
    return summed, coefficients * np.prod(parts**exponents, axis=1)


def components_by_name(n_spin, order):
    """libxc's names of one order with their components, written down without dftfd."""
    families = {"rho": 2, "sigma": 3, "lapl": 2, "tau": 2} if n_spin == 2 else dict.fromkeys(VARIABLES[1], 1)
    ends = dict(zip(families, itertools.accumulate(families.values()), strict=True))
    places = {name: range(ends[name] - size, ends[name]) for name, size in families.items()}
    for chosen in itertools.combinations_with_replacement(families, order):
        powers = {f: chosen.count(f) for f in dict.fromkeys(chosen)}
        suffix = "".join(f + (str(p) if p > 1 else "") for f, p in powers.items())
        parts = [itertools.combinations_with_replacement(places[f], p) for f, p in powers.items()]
        yield f"v{order if order > 1 else ''}{suffix}", [sum(part, ()) for part in itertools.product(*parts)]


@pytest.mark.parametrize("n_spin", sample([1, 2], [2]))
def test_random_polynomials_excite_every_cross_derivative(n_spin, rng):
    """All derivatives to fourth order of random polynomials in all variables, against their closed form.

    No two components of an order are near one another, so any swapped pair fails.
    """
    exponents, coefficients = rng.integers(0, 5, (12, 9)), rng.uniform(0.5, 2, 12)
    exponents[:2] = [[1] * 9, [4] * 9]
    functional = polynomial(exponents, coefficients)
    if n_spin == 1:
        exponents, coefficients = of_total_density(exponents, coefficients)
    x = rng.uniform(0.5, 1.5, (len(VARIABLES[n_spin]), 5))
    groups = [x[:2], x[2:5], x[5:7], x[7:9]] if n_spin == 2 else list(x)
    result = evaluate(functional, **dict(zip(("rho", "sigma", "lapl", "tau"), groups, strict=True)), order=4)
    seen = {"exc"}
    for order in (1, 2, 3, 4):
        rows = []
        for name, components in components_by_name(n_spin, order):
            for row, component in zip(np.atleast_2d(result[name]), components, strict=True):
                terms = [(c, *derivative(p, component)) for c, p in zip(coefficients, exponents, strict=True)]
                expected = sum(c * f * np.prod(x ** np.array(p)[:, None], axis=0) for c, f, p in terms if f)
                np.testing.assert_allclose(row, expected, rtol=1e-11, atol=1e-11, err_msg=name)
                rows.append(expected)
            seen.add(name)
        assert min(np.max(np.abs(a - b) / np.abs(a)) for a, b in itertools.combinations(rows, 2)) > 1e-6
    assert seen == set(result)


@pytest.mark.parametrize(
    "name, tolerance, n_spin",
    sample([(name, 1e-10, n) for name in ("lda_c_vwn", "gga_c_pbe", "mgga_x_tpss") for n in (1, 2)], at=[1, 2, 5]),
)
def test_derivatives_to_third_order_match_libxc(rng, name, tolerance, n_spin):
    """Every component against the libxc in PySCF, relative to the sum of its size and the natural one."""
    given = arrays(rng, n_spin)
    x = rows(given, n_spin)
    kernel = pointwise_kernel(dftfd.get_functional(name), n_spin)
    ours, reference = kernel(x, 3), libxc.reference([(1.0, name)], x, n_spin, order=3)
    n = x[0] if n_spin == 1 else x[0] + x[1]
    families = {k: v.split("_")[0] for k, v in enumerate(VARIABLES[n_spin])}
    for order in (1, 2, 3):
        expected = {
            1: lambda c: reference.first[c[0]],
            2: lambda c: reference.second[c],
            3: lambda c: reference.third[c],
        }
        largest = {}
        for c in kernel.combinations(order):
            group = tuple(families[k] for k in c)
            largest[group] = np.maximum(largest.get(group, 0), np.abs(expected[order](c)))
        for row, c in zip(ours[order], kernel.combinations(order), strict=True):
            group = tuple(families[k] for k in c)
            if not row.any():  # of different spins: exactly zero here, rounding noise there
                assert np.all(np.abs(expected[order](c)) < 1e-12 * largest[group]), c
            else:
                assert scaled_error(row, expected[order](c), n, group).max() < tolerance, c


def test_shapes_and_names():
    """Polarised and unpolarised arrays; only what the functional depends on; the mapping and its attributes agree."""
    one = evaluate("pbe", rho=np.ones(4), sigma=np.ones(4), order=2)
    assert {k: a.shape for k, a in one.items()} == dict.fromkeys(
        ["exc", "vrho", "vsigma", "v2rho2", "v2rhosigma", "v2sigma2"], (4,)
    )
    two = evaluate("pbe", rho=np.ones((2, 4)), sigma=np.ones((3, 4)), tau=np.ones((2, 4)), order=2)
    sizes = {"vrho": 2, "vsigma": 3, "v2rho2": 3, "v2rhosigma": 6, "v2sigma2": 6}
    assert {k: a.shape for k, a in two.items() if k != "exc"} == {k: (m, 4) for k, m in sizes.items()}
    assert two.v2rhosigma is two["v2rhosigma"]
    with pytest.raises(AttributeError, match="vtau"):
        two.vtau  # noqa: B018


@pytest.mark.slow  # 1 s; both layouts are compared with libxc above
def test_equal_spins_agree_with_the_total_density(rng):
    """v_n of the total density is (v_a + v_b)/2 at equal spins; sigma's derivative is the mean of its three."""
    given = arrays(rng, 1)
    two = {k: np.stack([a / 2] * 2) for k, a in given.items() if k != "sigma"}
    two["sigma"] = np.stack([given["sigma"] / 4] * 3)
    for name in ("pbe", "blyp", "tpss"):
        a, b = evaluate(name, **given), evaluate(name, **two)
        np.testing.assert_allclose(a.exc, b.exc, rtol=1e-14)
        np.testing.assert_allclose(a.vrho, b.vrho[0], rtol=1e-12)
        np.testing.assert_allclose(a.vsigma, b.vsigma.sum(axis=0) / 4, rtol=1e-11)


def test_derivatives_at_vanishing_gradients_are_exact():
    """At sigma = 0 PBE exchange has de/dsigma = e_x^LDA mu / (4 (3 pi^2)^(2/3) n^(8/3)); no limit is taken."""
    n = np.array([1e-3, 1.0, 50.0])
    result = evaluate("gga_x_pbe", rho=n, sigma=np.zeros(3), order=2)
    k = 4 * (3 * np.pi**2) ** (2 / 3)
    mu, kappa, lda = 0.2195149727645171, 0.804, -0.75 * (3 / np.pi) ** (1 / 3) * n ** (4 / 3)
    np.testing.assert_allclose(result.vsigma, lda * mu / (k * n ** (8 / 3)), rtol=1e-13)
    np.testing.assert_allclose(result.v2sigma2, -2 * lda * mu**2 / kappa / (k * n ** (8 / 3)) ** 2, rtol=1e-13)


def test_any_number_of_points_uses_one_compiled_program(rng):
    """Blocks are padded: results do not depend on how many points are asked for, and nothing is compiled again."""
    whole = arrays(rng, 2, count=9000)
    all_points = evaluate("pbe", **whole)
    with compilations() as compiled:
        part = evaluate("pbe", **{k: a[:, 4000:4777] for k, a in whole.items()})
    assert not compiled
    np.testing.assert_array_equal(part.vsigma, all_points.vsigma[:, 4000:4777])
    assert evaluate("pbe", rho=np.ones((2, 0)), sigma=np.ones((3, 0))).vrho.shape == (2, 0)


def test_errors_say_what_is_missing_or_does_not_fit():
    """Ingredients that are not given, shapes that do not fit, energies that depend on something else."""
    with pytest.raises(FunctionalError, match="sigma"):
        evaluate("pbe", rho=np.ones(3))
    with pytest.raises(FunctionalError, match="tau"):
        evaluate("tpss", rho=np.ones(3), sigma=np.ones(3))
    with pytest.raises(FunctionalError, match=r"sigma has shape \(3,\); \(3, 4\) expected"):
        evaluate("pbe", rho=np.ones((2, 4)), sigma=np.ones(3))
    with pytest.raises(FunctionalError, match="order 5"):
        evaluate("pbe", rho=np.ones(3), sigma=np.ones(3), order=5)
    with pytest.raises(FunctionalError, match="rho is not an array, its rows differ in length"):
        evaluate("pbe", rho=[[1.0, 2.0], [1.0]], sigma=[1.0])
    with pytest.raises(FunctionalError, match="complex"):
        evaluate("lda_x", rho=np.ones(3) * 1j)
    with pytest.raises(FunctionalError, match=r"sigma\[1, 2\] is nan"):
        evaluate("pbe", rho=np.ones((2, 3)), sigma=[[1, 1, 1], [1, 1, np.nan], [1, 1, 1]])
    for name in ("vv10", "b97m_v"):
        with pytest.raises(UnsupportedError, match=f"{name}.*integrals over a second point"):
            evaluate(name, rho=np.ones(3), sigma=np.ones(3), tau=np.ones(3))
    component = lambda n: nabla(n)[0] * nabla(n)[0]
    with pytest.raises(UnsupportedError, match="scalar products"):
        evaluate(Functional("x", ((1.0, EnergyTerm.from_formula(component, "x")),)), rho=np.ones(3), sigma=np.ones(3))


def test_components_that_add_up_to_scalar_products_are_recognised():
    """|grad n|^2 written out by components is a function of sigma; so is grad n . grad n divided by n."""
    by_hand = lambda n: sum((nabla(n)[i] ** 2 for i in (1, 2)), nabla(n)[0] ** 2) / n
    with_dot = lambda n: dot(nabla(n), nabla(n)) / n
    given = dict(rho=np.array([[0.3], [0.4]]), sigma=np.array([[0.5], [0.2], [0.7]]))
    results = [
        evaluate(Functional("x", ((1.0, EnergyTerm.from_formula(f, "x")),)), **given) for f in (by_hand, with_dot)
    ]
    for result in results:
        np.testing.assert_allclose(result.exc, 1.6 / 0.7**2, rtol=1e-14)
        np.testing.assert_allclose(result.vsigma[:, 0], np.array([1, 2, 1]) / 0.7, rtol=1e-14)


def test_models_of_the_potential_have_no_energy():
    """LB94's potential on two points; there is no `exc` that could be taken for an energy."""
    found = evaluate("lb94", rho=[0.3, 0.1], sigma=[0.2, 0.05])
    assert "exc" not in found and found.vrho.shape == (2,) and np.all(found.vrho < 0)
