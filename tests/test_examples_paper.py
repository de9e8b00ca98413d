"""The paper's experiments run, print their numbers, and show what they claim, in their quick setting."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(path):
    """An example as a module; its folder is on the path as when it runs as a script."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@pytest.fixture(scope="module")
def brachistochrone():
    return load(EXAMPLES / "paper" / "brachistochrone.py")


@pytest.mark.slow  # test_autofd_paper_listings has losses and their gradients
def test_losses_of_the_brachistochrone_fall(brachistochrone, capsys):
    """300 steps with a small network: the direct loss and the squared functional derivative both fall."""
    results, _ = brachistochrone.main(quick=True)
    assert results["direct"]["losses"][-1] < results["direct"]["losses"][0]
    assert results["stationary"]["losses"][-1] < 0.1 * results["stationary"]["losses"][0]
    assert capsys.readouterr().out.count("\n") == 5


def test_the_cycloid_is_where_the_functional_derivative_vanishes(brachistochrone):
    """The exact curve passes through (1, -1), is faster than the chord, and solves (1 + y'^2) y = const."""
    x, y, best = brachistochrone.cycloid()
    assert (x[-1], y[-1]) == pytest.approx((1.0, -1.0), abs=1e-12)
    slope = np.gradient(y[100:], x[100:])[1:-1]
    conserved = (1 + slope**2) * y[101:-1]
    assert np.ptp(conserved) < 1e-3 * abs(conserved.mean())
    chord = 2 * np.sqrt(2.0)  # F of y = -x: sqrt(2) times the integral of x^(-1/2)
    assert 2.5 < best < chord


@pytest.mark.slow
def test_functional_derivative_losses_come_closer_to_the_cycloid(brachistochrone):
    """Figure 1's claim with the network and rate of the paper, 2,000 of its 10,000 steps: nearer by a factor ten."""
    import jax

    start = brachistochrone.initial_layers(jax.random.key(3), [1, 128, 128, 128, 1])
    x, exact, _ = brachistochrone.cycloid()
    error = {}
    for name in ("direct", "projected"):
        layers, _ = brachistochrone.adam(brachistochrone.LOSSES[name], start, 2000)
        y = np.asarray(jax.vmap(brachistochrone.curve(layers))(x))
        error[name] = np.sqrt(np.trapezoid((y - exact) ** 2, x))
    assert error["projected"] < 0.1 * error["direct"]


@pytest.mark.slow  # test_deep_nests_cost_linearly of test_autofd_programs is quick
def test_call_cache_is_linear(capsys):
    """Equations double with each level when naive, and grow by the same number when cached."""
    rows = load(EXAMPLES / "paper" / "call_cache.py").main(quick=True)
    cached = [row["cached_equations"] for row in rows]
    assert set(np.diff(cached)) == {cached[1] - cached[0]}
    naive = [row["naive_equations"] for row in rows if "naive_equations" in row]
    assert naive[-1] / naive[-2] == pytest.approx(4, rel=0.01)  # two levels a row


@pytest.mark.slow  # 133 compilations; test_potential has the same comparison for single functionals
def test_exchange_potential_of_a_density_function():
    """v_x equals the hand-derived one to 1e-12, f_x the difference quotient of v_x, dE/dP the matrix of v_x."""
    results = load(EXAMPLES / "paper" / "dft.py").main(quick=True)
    assert results["error"] < 1e-12
    assert results["second"][0] == pytest.approx(results["second"][1], rel=1e-6)
    np.testing.assert_allclose(*results["matrix"], atol=5e-2)  # quadrature error of the quick grid


def test_neural_operator_learns_and_reproduces():
    """The loss falls at each step of functional gradient descent and is the same in a second run to 1e-6."""
    module = load(EXAMPLES / "paper" / "neural_operator.py")
    _, losses, _, _ = module.main(quick=True)
    _, again, _, _ = module.main(quick=True)
    assert np.all(np.diff(losses) < 0)
    np.testing.assert_allclose(losses, again, rtol=1e-6)


@pytest.mark.slow
def test_neural_operator_of_the_paper():
    """Appendix H's settings, four steps on 100 points; losses of this code in two evaluation orders (12 digits).

    The reference values were computed point by point, before integrals were tabulated.
    """
    _, losses, _, _ = load(EXAMPLES / "paper" / "neural_operator.py").main(quick=False)
    expected = [2.641506047970, 0.771751619776, 0.284366464616, 0.129468588676, 0.066492661740]
    np.testing.assert_allclose(losses, expected, rtol=1e-10)


@pytest.mark.slow
def test_higher_order_benchmark_runs():
    """Its three parts agree among themselves, or it stops with an error."""
    table = load(EXAMPLES / "benchmarks" / "higher_order.py").main(quick=True)
    assert all(row["deviation"] < 1e-10 for row in table["hessian_vector_products"])
