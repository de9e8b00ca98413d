"""Operator graphs as text."""

import jax.numpy as jnp
import numpy as np
import pytest

from dftfd.autofd import Domain, broadcast, compose, constant, function, jvp, nabla, show
from dftfd.functionals.densities import SPACE
from dftfd.functionals.registry import get_functional

X = Domain(name="x")


def square(x):
    return x * x


def test_tree_with_shared_nodes_numbered():
    """A node used twice is shown once and referred to by its number; numbers stand where they belong."""
    n = function(square, X)
    assert show(n**2 * nabla(n) - 1 / n) == "\n".join(
        [
            "(x:float64[]) -> float64[]",
            "subtract: float64[]",
            "├─ multiply: float64[]",
            "│  ├─ · ** 2: float64[]",
            "│  │  └─ #1 square: float64[]",
            "│  └─ nabla: float64[]",
            "│     └─ #1",
            "└─ 1 / ·: float64[]",
            "   └─ #1",
        ]
    )


def test_depth_cuts_the_tree():
    """Below the given depth operands are an ellipsis; depth 0 is the top node alone."""
    n = function(square, X)
    assert show(n + n * n, depth=0).splitlines() == ["(x:float64[]) -> float64[]", "add: float64[]", "└─ ..."]
    assert show(n * (n * n), depth=1).count("...") == 1


def test_constants_arrays_and_composition_are_named():
    """Scalars by value, arrays by shape, code applied to functions by its name, functions of functions as compose."""
    n, f = function(square, X), function(lambda a, x: jnp.sum(a) * x, X, params=(np.ones(3),))
    text = show(compose(jnp.hypot, n, f) + constant(2.5, X))
    for words in ("hypot", "constant 2.5", "of arrays float64[3]", "square"):
        assert words in text
    outer = n + function(square, X)
    assert show(compose(outer, n)).splitlines()[1] == "compose: float64[]"


def test_two_arguments_and_derivatives():
    """Domains of every argument are in the signature; a derivative names the code it is of."""
    Y = Domain((2,), name="y")
    n = function(square, X)
    assert show(broadcast(n, (X, Y), 0)).startswith("(x:float64[], y:float64[2]) -> float64[]")
    _, dn = jvp(lambda f: compose(jnp.hypot, f, 2 * f), (n,), (function(jnp.sin, X),))
    assert " of (hypot): float64[]" in show(dn)


@pytest.mark.parametrize("name", ["pbe", "blyp"])
def test_every_node_of_a_functional_and_of_its_potential_is_shown_once(name):
    """Graphs with hundreds of nodes print without repetition: as many definitions of a number as numbers."""
    rho = function(lambda r: jnp.exp(-jnp.dot(r, r)) * jnp.array([1.0, 0.5]), SPACE)
    functional = get_functional(name)
    for f in (functional.energy_density(rho), functional.potential(rho)):
        lines = show(f).splitlines()
        marks = [line.split("─ ")[-1] for line in lines if "#" in line]
        defined = {mark.split()[0] for mark in marks if " " in mark}
        used = {mark for mark in marks if " " not in mark}
        assert used and used <= defined and len(defined) == sum(" " in mark for mark in marks)
