"""One kernel for one content: what is compiled for a functional is found again, and only then; and what it computes."""

import jax
import numpy as np
import pytest

import dftfd
from dftfd.autofd import compose
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import get_functional
from dftfd.xc import code
from dftfd.xc.code import OnPoints, shared
from dftfd.xc.kernel import XCKernel
from dftfd.xc.pointwise import PointwiseKernel, pointwise_kernel
from tests.compilations import compilations


def power(exponent):
    """-n^exponent as a functional, made anew at each call."""
    formula = lambda n, *, c=1.0: compose(lambda n: -c * n**exponent, n)
    return Functional("power", ((1.0, EnergyTerm.from_formula(formula, "power")),))


def test_a_functional_is_compiled_once_however_often_it_is_made():
    """Whole calculations with functionals of equal parameters, made one after the other: one alone compiles."""
    molecule = dftfd.molecule("H 0 0 0; F 0 0 0.92", basis="sto-3g")
    run = lambda kappa: dftfd.run_scf(molecule, get_functional("pbe", kappa=kappa), grid_level=1).energy
    first, other = get_functional("pbe", kappa=0.917), get_functional("pbe", kappa=0.917)
    assert not {id(t) for _, t in first.terms} & {id(t) for _, t in other.terms}
    with compilations() as compiled:
        energy = run(0.917)
    assert compiled
    with compilations() as compiled:
        again = run(0.917)
    assert not compiled and again == energy
    with compilations() as compiled:
        assert abs(run(0.918) - energy) > 1e-6
    assert compiled


@pytest.mark.parametrize("kind", [XCKernel, PointwiseKernel])
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


@pytest.mark.parametrize("n_spin", [1, 2])
@pytest.mark.parametrize("name", ["lda,vwn", "pbe", "tpss", "mgga_x_br89"])
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
