"""One kernel for one content: what is compiled for a functional is found again, and only then; and what it computes."""

import functools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import dftfd
from dftfd.autofd import compose, exp
from dftfd.errors import UnsupportedError
from dftfd.functionals import jax_xc_formula
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange
from dftfd.functionals.pairs import here, integral_over_there, squared_distance, there
from dftfd.functionals.registry import get_functional
from dftfd.xc import code
from dftfd.xc.channels import VARIABLES
from dftfd.xc.code import OnPoints, shared
from dftfd.xc.kernel import XCKernel
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel, NonlocalXCResponse
from dftfd.xc.pointwise import PointwiseKernel, pointwise_kernel
from tests.compilations import compilations
from tests.sample import sample


def power(exponent):
    """-n^exponent as a functional, made anew at each call."""
    formula = lambda n, *, c=1.0: compose(lambda n: -c * n**exponent, n)
    return Functional("power", ((1.0, EnergyTerm.from_formula(formula, "power")),))


def test_a_functional_is_compiled_once_however_often_it_is_made():
    """Whole calculations with equal functionals, made one after the other: one alone compiles. No other test has it."""

    def made():
        formula = lambda n: (
            slater_exchange(n) * compose(lambda s2: 2 - jnp.exp(-0.231 * s2), reduced_gradient_squared(n))
        )
        return Functional("made for one test", ((1.0, EnergyTerm.from_formula(formula, "made for one test")),))

    molecule = dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g")
    run = lambda: dftfd.run_scf(molecule, made(), grid_level=1).energy
    with compilations() as compiled:
        energy = run()
    assert compiled
    with compilations() as compiled:
        again = run()
    assert not compiled and again == energy


class Settings:
    """Held as classes hold it."""

    factor = 1.0


class Held:
    """Held by an object, two steps away, and read by its own code."""

    __slots__ = ("inner",)

    def __init__(self):
        self.inner = types.SimpleNamespace(factor=1.0)

    def __call__(self, n):
        return -self.inner.factor * n ** (4 / 3)


def of_states(monkeypatch):
    """How a formula is made that reads a number from elsewhere, and what holds the number."""
    module = types.ModuleType("numbers_of_a_user")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.factor, held, space = 1.0, Held(), types.SimpleNamespace(factor=1.0)
    helper = types.FunctionType((lambda n: -factor * n ** (4 / 3)).__code__, vars(module))  # noqa: F821  the module's
    return {
        "class": (lambda: lambda n: -Settings.factor * n ** (4 / 3), Settings),
        "object": (lambda: lambda n: -held.inner.factor * n ** (4 / 3), held.inner),
        "callable": (lambda: lambda n: held(n), held.inner),
        "namespace": (lambda: lambda n: -space.factor * n ** (4 / 3), space),
        "module": (lambda: lambda n: -module.factor * n ** (4 / 3), module),
        "function of a module": (lambda: lambda n: helper(n), module),
    }


@pytest.mark.parametrize("where", ["class", "object", "callable", "namespace", "module", "function of a module"])
def test_a_number_that_a_formula_reads_elsewhere_is_read_again(monkeypatch, where):
    """What stands in attributes of users' objects, classes and modules is part of what a formula is."""
    make, holder = of_states(monkeypatch)[where]
    monkeypatch.setattr(holder, "factor", 1.0)
    energy = lambda: pointwise_energy(Functional("of_state", ((1.0, EnergyTerm.from_formula(make(), "of_state")),)))
    before = energy()
    monkeypatch.setattr(holder, "factor", 2.0)
    assert energy() == pytest.approx(2 * before, rel=1e-14) and before == pytest.approx(-(0.4 ** (4 / 3)), rel=1e-12)


def pointwise_energy(functional):
    """Energy at one point of density 0.4."""
    return float(shared(XCKernel, functional, 1)(np.zeros((1, 3)), np.ones(1), np.array([[[0.4]]]))[0])


PUBLISHED = (0.59, 0.9269, 0.6225, 2.154)
SERIES = tuple(1.1 * x for x in PUBLISHED)


def own_hybrid(**parameters):
    """A quarter of exact exchange, and a short formula of a number and a list."""

    def formula(n, *, mu=0.2, c=(1.0, 0.8)):
        return slater_exchange(n) * compose(
            lambda s2: c[0] + c[1] * mu * s2 / (1 + mu * s2), reduced_gradient_squared(n)
        )

    terms = ((0.75, EnergyTerm.from_formula(formula, "own")),)
    return Functional("own hybrid", terms, ((0.0, 0.25),)).with_parameters(**parameters)


@pytest.mark.parametrize(
    "make, cases",
    sample(
        [
            (own_hybrid, [("mu", (0.21, 0.22)), ("c", ((1.1, 0.8), (1.0, 0.8)))]),
            (functools.partial(get_functional, "pbe0"), [("mu", (0.21, 0.22))]),
            (functools.partial(get_functional, "revtpss"), [("C0", (SERIES, PUBLISHED))]),
        ],
        at=[0],
    ),
    ids=["own", "pbe0", "revtpss"],
)
def test_another_value_of_a_parameter_compiles_nothing(make, cases):
    """Whole calculations with forces: the energy is that of constants to rounding, of a hybrid and of lists too."""
    molecule = dftfd.molecule("He 0 0 0; H 0 0 0.9", basis="6-31g", charge=1)
    run = lambda functional: dftfd.run_scf(molecule, functional, grid_level=0, density_fit=False)
    for parameter, (first, *others) in cases:
        run(make(**{parameter: first})).forces()
        for value in others:
            functional = make(**{parameter: value})
            with compilations() as compiled:
                result = run(functional)
                forces = result.forces()
            assert not compiled
            expected = run(functional.settled())
            assert result.energy == pytest.approx(expected.energy, abs=1e-10)
            np.testing.assert_allclose(forces, expected.forces(), atol=1e-8)
    if parameter != "mu":  # the last list is the formula's own
        assert result.energy == pytest.approx(run(make()).energy, abs=1e-10)


@pytest.mark.parametrize(
    "parts, n_spin",
    sample(
        [
            ((("gga_x_b88", {"beta": 0.0041}), ("gga_x_pbe", {"kappa": 0.7, "mu": 0.2})), 2),
            *(((("b3lyp", {"beta": 0.0041}), ("pbe", {"kappa": 0.7, "gamma": 0.03})), n_spin) for n_spin in (1, 2)),
        ],
        at=[0],
    ),
)
def test_values_of_parameters_reach_energy_potential_and_response(parts, n_spin):
    """Code of operands against code of constants, with several parameters at once."""
    rng = np.random.default_rng(8)
    one, other = (get_functional(name, **parameters).semilocal_part for name, parameters in parts)
    functional = one + other
    by_value, plain = XCKernel(functional, n_spin), XCKernel(functional.settled(), n_spin)
    points, weights = rng.normal(size=(40, 3)), rng.uniform(size=40)
    density, tangent = (np.exp(0.3 * rng.normal(size=(n_spin, plain.channels, 40))) for _ in range(2))
    for found, expected in zip(by_value(points, weights, density), plain(points, weights, density), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    found, expected = (k.response(points, weights, density, tangent) for k in (by_value, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def blocks(n_spin, channels, size=40):
    """(points, weights, density, tangent) of an invented density on an invented grid."""
    rng = np.random.default_rng(9)
    density, tangent = (np.exp(0.3 * rng.normal(size=(n_spin, channels, size))) for _ in range(2))
    return rng.normal(size=(size, 3)), rng.uniform(size=size), density, tangent


def beside(n, *, a=0.3):
    """A double integral whose kernel of two points holds the parameter itself, and which is not symmetric."""
    close = exp(-(a**2) * squared_distance(n))
    return n * integral_over_there(there(n * n) * close * (1.0 + a * here(n)))


BESIDE = Functional("beside", ((1.0, EnergyTerm.from_formula(beside, "beside")),))


@pytest.mark.slow  # 5 s; energy and potential of such code: the next test
@pytest.mark.parametrize(
    "name, first, second",
    [
        ("vv10", {"b": 6.2, "C": 0.0093}, {"b": 5.4, "C": 0.009}),
        ("vdw_df_nl", {"Z_ab": -0.9}, {"Z_ab": -0.7}),
    ],
)
def test_values_reach_double_integrals_without_compilation(name, first, second):
    """Energy, derivatives by density, weights and points, and response: code of operands against that of constants."""
    made = [0.5 * get_functional(name, **given) for given in (first, second)]
    given = blocks(1, 4)
    fixed, moving = (shared(NonlocalXCKernel, made[0], 1, **o) for o in ({}, {"moving_points": True}))
    fixed(*given[:3]), moving.slopes(*given[:3]), NonlocalXCResponse(fixed, *given[:3])(given[3])
    fixed, moving = (shared(NonlocalXCKernel, made[1], 1, **o) for o in ({}, {"moving_points": True}))
    assert {*fixed._values} == {0.5, *second.values()} and fixed.stages[0].symmetric
    with compilations() as compiled:
        found = fixed(*given[:3]), moving.slopes(*given[:3]), NonlocalXCResponse(fixed, *given[:3])(given[3])
    assert not compiled
    plain = made[1].settled()
    fixed, moving = (NonlocalXCKernel(plain, 1, moving_points) for moving_points in (False, True))
    expected = fixed(*given[:3]), moving.slopes(*given[:3]), NonlocalXCResponse(fixed, *given[:3])(given[3])
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * np.abs(b).max())


def test_a_parameter_in_the_kernel_of_two_points():
    """Against the double sum itself, for two values, in one code."""
    points, weights, density, _ = blocks(1, 1)
    n = density[0, 0]
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    for a in (0.5, 0.8):
        energy = lambda n, a=a: np.einsum(
            "p,q,p,q,pq->", weights, weights, n * (1 + a * n), n * n, np.exp(-((a * distances) ** 2))
        )
        kernel = NonlocalXCKernel(BESIDE.with_parameters(a=a), 1)
        assert list(kernel._values) == [a] and not kernel.stages[0].symmetric
        found, potential = kernel(points, weights, density)
        assert found == pytest.approx(energy(n), rel=1e-13)
        step = 1e-5 * np.eye(len(n))[3]
        assert potential[0, 0, 3] == pytest.approx((energy(n + step) - energy(n - step)) / 2e-5, rel=1e-8)


@pytest.mark.slow  # 2 s; parameters as operands, a coefficient beside them: the tests around
def test_coefficients_of_expressions_and_products_are_operands():
    """Sums that differ by them alone share their code; those of the library keep theirs as constants."""
    weigh = lambda spec: [XCKernel(get_functional(spec).semilocal_part, 1), *blocks(1, 4)[:3]]
    for spec in ("0.25*HF + 0.7*PBE, PBE", "0.3*gga_x_pbe + 0.6*gga_x_b88"):
        weigh(spec)[0](*weigh(spec)[1:])
    for spec, parts in (
        ("0.25*HF + 0.55*PBE, PBE", ((0.55, "gga_x_pbe"), (1, "gga_c_pbe"))),
        ("0.45*gga_x_pbe + 0.2*gga_x_b88", ((0.45, "gga_x_pbe"), (0.2, "gga_x_b88"))),
    ):
        kernel, *given = weigh(spec)
        with compilations() as compiled:
            energy, potential = kernel(*given)
        assert not compiled and list(kernel.code._values) == [c for c, _ in parts if c != 1]
        expected = [(c, XCKernel(get_functional(name), 1)(*given)) for c, name in parts]
        assert energy == pytest.approx(sum(c * e for c, (e, _) in expected), rel=1e-13)
        np.testing.assert_allclose(potential, sum(c * v for c, (_, v) in expected), rtol=1e-11, atol=1e-13)
    of_libxc = ["libxc:hyb_gga_xc_b97_1p"] if jax_xc_formula.is_installed() else []
    for name in ("b3lyp", "pbe0", "b3p86v5", *of_libxc):
        assert not XCKernel(get_functional(name).semilocal_part, 1).code._values
    assert XCKernel(get_functional("pbe").with_exact_exchange(0.3).semilocal_part, 1).code._values == (0.7,)


@pytest.mark.parametrize(
    "name, parameter, values",
    sample(
        [
            ("gga_x_pbe", "kappa", (0.9, 0.7)),
            ("pbe", "kappa", (0.9, 0.7)),
            ("r2scan", "eta", (0.002, 0.0015)),
        ],
        at=[0],
    ),
)
def test_values_reach_the_potential_at_points(name, parameter, values):
    """v_xc(r) of another value: nothing is traced or compiled, and it is that of constants."""
    for n_spin in (1, 2) if name == "r2scan" else (2,):
        for order in (1, 2):
            x = np.exp(0.3 * np.random.default_rng(3).normal(size=(len(VARIABLES[n_spin]), 30)))
            kernels = [pointwise_kernel(get_functional(name, **{parameter: v}), n_spin) for v in values]
            assert kernels[0]._form is kernels[1]._form
            plain = pointwise_kernel(get_functional(name, **{parameter: values[1]}).settled(), n_spin)
            for compiled in (False,) if order > 1 else (False, True):
                found, expected = (k(x, order, compiled) for k in (kernels[1], plain))
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
            found, expected = (k.along(x, x[None]) for k in (kernels[1], plain))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def looked_at(n, *, c=1.0, p=1.5, q=4):
    """-c n^p, for c above 2 -c n^p / 2: a formula that looks at its number."""
    c = c / 2 if c > 2 else c
    return compose(lambda n: -c * n**p + 0.01 * n**q, n)


def told_apart(n, *, c=1.0, p=1.5):
    """A formula that does something else with a traced number than with one of Python's, and says nothing."""
    c = c if isinstance(c, float) else 7.0 * c
    return compose(lambda n: -c * n**p, n)


def test_exponents_and_what_a_formula_looks_at_stay_constants():
    """Powers keep their roots, branches on a value are right on both sides, and what differs when traced is noticed."""
    kernel = lambda formula, **p: XCKernel(
        Functional("f", ((1.0, EnergyTerm.from_formula(formula, "f")),)).with_parameters(**p), 1
    )
    points, weights, density = np.zeros((5, 3)), np.ones(5), np.linspace(0.1, 2.0, 5).reshape(1, 1, 5)
    n = density[0, 0]
    for formula in (looked_at, told_apart):
        for c, p in ((1.5, 1.5), (3.0, 1.5), (3.0, 1.25), (2.5, 1.0)):
            scale = c / 2 if c > 2 and formula is looked_at else c
            quartic = 0.01 * n**4 if formula is looked_at else 0
            energy, _ = kernel(formula, c=c, p=p)(points, weights, density)
            assert energy == pytest.approx(np.sum(-scale * n**p + quartic), rel=1e-13)
    plain = lambda n, *, c=1.0, p=1.5: compose(lambda n: -c * n**p, n)
    assert kernel(plain, c=2.0, p=1.25).code._values == (2.0,)
    for p in (1.25, 1.75):
        energy, potential = kernel(plain, c=3.0, p=p)(points, weights, density)
        assert energy == pytest.approx(np.sum(-3 * n**p), rel=1e-13)
        np.testing.assert_allclose(potential[0, 0], -3 * p * n ** (p - 1), rtol=1e-13)
    assert kernel(looked_at, q=3, p=1.3)(points, weights, density)[0] == pytest.approx(np.sum(-(n**1.3) + 0.01 * n**3))


@pytest.mark.parametrize("kind", [XCKernel, pytest.param(PointwiseKernel, marks=pytest.mark.slow)])
def test_equal_content_is_one_kernel_and_other_content_another(kind):
    """Parameters, coefficients, what a formula closes over, and the number of spins make the difference, not names."""
    pbe = get_functional("pbe")
    assert shared(kind, pbe, 1) is shared(kind, get_functional("gga_x_pbe") + get_functional("gga_c_pbe"), 1)
    assert shared(kind, power(1.5), 1) is shared(kind, power(1.5), 1)
    others = [
        pbe,
        pbe.with_parameters(kappa=0.9),
        0.5 * pbe,
        power(1.5),
        power(1.25),
        power(1.5).with_parameters(c=2.0),
    ]
    assert len({id(shared(kind, f, n_spin)) for f in others for n_spin in (1, 2)}) == 2 * len(others)


def test_the_last_kernels_are_kept(monkeypatch):
    """Beyond the limit the one that was asked for longest ago goes. (A kernel of one spin is made of one of two.)"""
    monkeypatch.setattr(code, "_MOST_KEPT", 2)
    monkeypatch.setattr(code, "_kept", {})
    a, b = pointwise_kernel(power(1.5), 2), pointwise_kernel(power(1.25), 2)
    assert pointwise_kernel(power(1.5), 2) is a
    pointwise_kernel(power(1.75), 2)
    assert pointwise_kernel(power(1.5), 2) is a
    assert pointwise_kernel(power(1.25), 2) is not b


def test_parameters_under_a_transformation():
    """dE/dkappa through `energy` equals a central difference; the compiled path refuses and says where to go."""
    rng = np.random.default_rng(4)
    points, weights = rng.normal(size=(6, 3)), rng.uniform(size=6)
    density = np.exp(rng.normal(size=(2, 4, 6)))
    kernel = lambda kappa: shared(XCKernel, get_functional("gga_x_pbe").with_parameters(kappa=kappa), 2)
    energy = lambda kappa: kernel(kappa).energy(points, weights, density)
    before = len(code._kept)
    slope = jax.grad(energy)(0.804)
    assert len(code._kept) == before
    assert float(slope) == pytest.approx(float(energy(0.805) - energy(0.803)) / 2e-3, rel=1e-4)
    with pytest.raises(UnsupportedError, match=r"kernel\.energy"):
        jax.grad(lambda d: kernel(0.804)(points, weights, d)[0])(density)
    with pytest.raises(UnsupportedError, match=r"kernel\.energy"):
        jax.jit(lambda kappa: kernel(kappa)(points, weights, density)[0])(0.804)


def test_a_kernel_that_is_first_asked_for_inside_of_jit_serves_outside():
    """What is kept holds no tracer of the transformation in which it was made."""
    points, weights, density = np.zeros((5, 3)), np.ones(5), np.linspace(0.1, 2.0, 20).reshape(1, 4, 5)
    functional = get_functional("gga_x_pbe", kappa=0.871)
    inside = jax.jit(lambda x: x * shared(XCKernel, functional, 1)(points, weights, density)[0])(1.0)
    kernel = shared(XCKernel, functional, 1)
    assert float(inside) == pytest.approx(kernel(points, weights, density)[0], rel=1e-14)
    assert float(kernel.energy(points, weights, density)) == pytest.approx(float(inside), rel=1e-13)


SLOW_TO_COMPILE = (
    pytest.mark.slow
)  # jax.jit of plain derivatives: up to 25 s; test_oracle has their values in 150 digits


@pytest.mark.parametrize(
    ("name", "n_spin"),
    [
        ("pbe", 2),
        *[pytest.param(*of, marks=SLOW_TO_COMPILE) for of in [("lda,vwn", 1), ("lda,vwn", 2), ("pbe", 1), ("tpss", 2)]],
        *[pytest.param("mgga_x_br89", n_spin, marks=SLOW_TO_COMPILE) for n_spin in (1, 2)],
    ],
)
@pytest.mark.one_in(3)
def test_kernels_equal_plain_derivatives(name, n_spin):
    """Energy, potential and response in one loop against JAX's own derivatives of the energy at each point."""
    rng = np.random.default_rng(7)
    kernel = shared(XCKernel, get_functional(name).semilocal_part, n_spin)
    points, weights = rng.normal(size=(40, 3)), rng.uniform(size=40)
    density, tangent = (np.exp(0.3 * rng.normal(size=(n_spin, kernel.channels, 40))) for _ in range(2))
    energy, potential = kernel(points, weights, density)
    plain = jax.value_and_grad(lambda d: kernel.energy(points, weights, d))
    (value, expected), (_, change) = jax.jit(lambda d, t: jax.jvp(plain, (d,), (t,)))(density, tangent)
    assert energy == pytest.approx(float(value), rel=1e-12)
    np.testing.assert_allclose(potential, expected, rtol=1e-10, atol=1e-12)
    found = kernel.response(points, weights, density, tangent)
    np.testing.assert_allclose(found, change, rtol=1e-9, atol=1e-11)


def test_what_numpy_does_not_have_is_compiled_once():
    """Not for each chunk, call and derivative (section E of the findings): digamma is JAX's alone."""
    of_digamma = lambda n: compose(lambda n: -n * jax.scipy.special.digamma(1 + n), n)
    kernel = pointwise_kernel(Functional("psi", ((1.0, EnergyTerm.from_formula(of_digamma, "psi")),)), 1)
    x = [np.linspace(0.1, 2.0, 12_000), None, None, None]
    e, _ = kernel(x, 1, compiled=False)
    np.testing.assert_allclose(e[0], -x[0] * scipy.special.digamma(1 + x[0]), rtol=1e-12, atol=1e-14)
    with compilations() as compiled:
        kernel(x, 1, compiled=False)
    assert not compiled


def test_a_program_is_compiled_once_for_each_number_of_points():
    """By all workers together: the first block is asked for by several threads at once."""
    kernel = shared(XCKernel, power(1.5), 1)
    on_points = OnPoints(kernel.code.program(1))
    x = np.linspace(0.1, 2.0, 33)[None]
    with compilations() as compiled:
        found = dftfd.runtime.threads.run_on_workers([lambda: on_points(x)] * 4)
    assert len(compiled) == 1
    for e, slope, *by_point in found:
        np.testing.assert_allclose([e, slope], [-(x[0] ** 1.5), -1.5 * x[0] ** 0.5], rtol=1e-14)
        np.testing.assert_array_equal(by_point, np.zeros((3, 33)))
    with compilations() as compiled:
        on_points(x[:, :20]), on_points(x[:, 13:])
    assert len(compiled) == 1
