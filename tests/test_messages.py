"""Messages say what was found in words of their readers, and what to do; names of functionals hold no entrails."""

import logging

import jax
import jax.numpy as jnp
import pytest

import dftfd
from dftfd import autofd as fd
from dftfd.errors import FunctionalError, InputError, LeakError, NumericalError, SignatureError
from dftfd.training.fit_problem import FitProblem, _numbers

X = fd.interval(8, 0.0, 1.0)


@pytest.mark.parametrize("transform", [jax.grad, jax.jit, jax.hessian])
def test_names_of_functionals_hold_no_tracers(transform):
    """Coefficients and parameters that JAX traces are called so, in names as in errors."""
    said = []

    def name(x):
        pbe = dftfd.get_functional("pbe")
        said.extend(f.name for f in (x * pbe, pbe.with_parameters(kappa=x), 2 * pbe + x * pbe))
        with pytest.raises(FunctionalError, match="a traced value") as caught:
            dftfd.long_range_exchange(x)
        said.append(str(caught.value))
        return x**2

    transform(name)(0.3)
    assert said[:3] == ["traced*(pbe)", "pbe(kappa=traced)", "2*(pbe) + traced*(pbe)"]
    assert not any("Tracer" in words for words in said)


@pytest.mark.parametrize("factor", [float("inf"), float("nan"), -float("inf"), jnp.inf])
def test_coefficients_that_are_no_numbers_are_refused(factor):
    """By arithmetic as by name: the energy would be NaN, at the first point of the grid."""
    with pytest.raises(FunctionalError, match="not a finite number"):
        factor * dftfd.get_functional("pbe")


def test_taylor_mode_within_a_gradient_names_the_other_order():
    """Where no jit stands, none is blamed; what is advised works: the gradient of f^3 moves by 3 d^2 at f = 0."""
    f, d = fd.zeros(fd.identity(X).signature), fd.identity(X)
    energy = lambda g: fd.integrate(g**3)
    for transform in (fd.grad, lambda F: lambda g: fd.jvp(F, (g,), (d,))):
        with pytest.raises(LeakError, match=r"taylor\(grad\(E\)") as caught:
            transform(lambda g: fd.taylor(energy, (g,), (d,), 3)[3])(f)
        assert "jit" not in str(caught.value)
    assert fd.taylor(fd.grad(energy), (f,), (d,), 2)[2](0.5) == pytest.approx(6 * 0.5**2, rel=1e-12)


def test_a_function_without_a_domain_is_told_to_name_one():
    with pytest.raises(SignatureError, match=r"no domain was named\. Name one for each argument: function\(code, X"):
        fd.function(lambda x: x**2)
    assert fd.function(lambda x: x**2, X)(0.5) == 0.25


def test_a_trial_without_a_solution_is_told_in_one_sentence(caplog):
    """The reason ends with a full stop; another does not follow it."""
    problem = object.__new__(FitProblem)
    problem.begun, problem.names = True, ["mu"]

    def evaluated(*arguments):
        raise NumericalError("functional 'x' is NaN; see dftfd.functionals.numerics.")

    problem.evaluated = evaluated
    with caplog.at_level(logging.WARNING, logger="dftfd"):
        assert problem.tried([-0.5]) is None
    (said,) = caplog.messages
    assert said.startswith("no solution at mu = -0.5: functional 'x' is NaN") and ".." not in said and "bounds=" in said


def test_a_network_with_its_activation_functions_is_told_how_to_go_on():
    """A fit moves real numbers; what else a parameter holds has to stay outside."""
    with pytest.raises(InputError, match=r"'network' is not made of real numbers alone; .*equinox\.partition"):
        _numbers("network", {"weights": 1.0, "activation": jax.nn.relu})
    assert _numbers("network", {"weights": 1.0})["weights"] == 1.0
