"""Nothing false is proved: numbers of functionals, branches without a value, files that hold no tree of boxes."""

import base64
import decimal
import json
import math
import zlib
from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

import dftfd
from dftfd.autofd import compose, function, nabla
from dftfd.autofd.core.roots import power
from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import DamagedFileError, FunctionalError, InputError, NumericalError, UnsupportedError
from dftfd.functionals.base import SPACE
from dftfd.functionals.common import slater_exchange
from dftfd.functionals.registry import term
from dftfd.verify import proofs
from dftfd.verify.inequality import PROVED
from tests.sample import sample

_RS = {"rs": (1e-4, 2e-4)}
_SCALAR = jax.ShapeDtypeStruct((), np.float64)


def _correlation(factor):
    """F_c is a twentieth of a factor of r_s."""
    r_s = lambda n: (3 / (4 * math.pi * n)) ** (1 / 3)
    return term("lda_c_own")(lambda n: 0.05 * slater_exchange(n) * compose(lambda n: factor(r_s(n)), n))


_FALSE = {
    "a sum": lambda r: 0.5 - (((0 * r + 1e16) + 1) - 1e16),
    "a product": lambda r: 0.03 * r - 0.1 * (0.3 * r),
    "a quotient": lambda r: (1 / 3) * r - r / 3,
    "a root": lambda r: power(jnp.float64(2.0), 1 / 3) - 1.2599210498948732 + 0 * r,
    "an exponential": lambda r: math.e * r - jnp.exp(jnp.float64(1.0)) * r,
    "stopped": lambda r: lax.stop_gradient(0.03) * r - 0.1 * (lax.stop_gradient(0.3) * r),
}
"""Of r_s, negative by less than kernels round: there each is zero, and 1/2 the first."""


@pytest.mark.parametrize("name", sample(_FALSE, ["a root", "a product", "stopped"]))
def test_numbers_of_a_functional_are_not_rounded(name):
    proof = dftfd.prove(_correlation(_FALSE[name]), "ec_nonpositive", _RS, boxes=50)
    irrational = name in ("a root", "an exponential")  # less than one rounding below zero
    assert proof.outcome == ("undecided" if irrational else "violated")
    assert irrational or float(proof.value) < 0


def _lost(x):
    return (x + 1.0) - x > 0.5


_with_rule = jax.custom_jvp(_lost)
_with_rule.defjvp(lambda p, t: (_with_rule(*p), np.zeros((), jax.dtypes.float0)))
_TRUE = {
    "cond": lambda: lax.cond(True, lambda: _lost(jnp.float64(1e16)), lambda: False),
    "loop": lambda: lax.fori_loop(0, 1, lambda _, k: jnp.where(_lost(jnp.float64(1e16)), k + 1, k), 0) == 1,
    "complex": lambda: (lax.complex(jnp.float64(1e16), jnp.float64(0.0)) + 1.0) - 1e16 != 0,
    "Python": lambda: jax.pure_callback(lambda: np.int32(1), jax.ShapeDtypeStruct((), np.int32)) == 1,
    "rule": lambda: _with_rule(jnp.float64(1e16)),
}
"""Conditions on numbers, which are true; float64 finds the first three and the last one false."""


@pytest.mark.parametrize("name", _TRUE)
def test_what_numbers_decide_is_not_decided_in_float64(name):
    """The left sides are -1; false ones were proved, and held in the recheck."""
    outcomes = []
    for statement in (
        lambda: dftfd.prove(lambda x: jnp.where(_TRUE[name](), -1.0, 1.0) + 0 * x, domain={"x": (0.0, 1.0)}),
        lambda: dftfd.prove(_correlation(lambda r: jnp.where(_TRUE[name](), -r, r)), "ec_nonpositive", _RS, boxes=9),
    ):
        try:
            outcomes.append(statement().outcome)
        except UnsupportedError:
            outcomes.append("refused")
    assert outcomes == ["violated" if name == "rule" else "refused"] * 2


def test_derivatives_along_rs_are_not_proved_at_one_rs():
    """F_c is 2 - r_s also at r_s = 1, where the branch that the switch takes rises."""
    r_s = lambda n: (3 / (4 * math.pi) / n) ** (1 / 3)
    isolated = lambda r: jnp.where(r == 1.0, r, 2 - r)
    f = term("lda_c_own")(lambda n: slater_exchange(n) * compose(lambda n: isolated(r_s(n)), n))
    with pytest.raises(InputError, match="give rs two ends"):
        dftfd.prove(f, "ec_scaling", {"rs": (1.0, 1.0)})
    assert dftfd.prove(f, "ec_nonpositive", {"rs": (1.0, 1.0)}, boxes=9).proved


def test_a_formula_of_the_position_is_refused_though_simplification_drops_it():
    """It is undefined far from the origin."""
    place = function(lambda r: jnp.log(5.0 - r[0]), SPACE)
    f = term("lda_c_own")(lambda n: slater_exchange(n) * (1.0 + 0.0 * place))
    with pytest.raises(UnsupportedError, match="position r"):
        dftfd.prove(f, "ec_nonpositive", _RS, boxes=9)


_DIRECTIONS = {
    "component": lambda n: compose(lambda g: jnp.log(1.0 + g[1]), nabla(n)),
    "branch": lambda n: compose(lambda g: jnp.where(jnp.log(1.0 + g[1]) > 0.0, 1.0, 1.0), nabla(n)),
    "denominator": lambda n: compose(lambda g: g[2] / g[2], nabla(n)),
    "second derivative": lambda n: compose(lambda h: jnp.sqrt(1.0 - h[0, 1] ** 2), nabla(nabla(n))),
    "square": lambda n: compose(lambda g: jnp.log(1.0 + g[0] ** 2), nabla(n)),
}
"""Parts without a value in some directions; simplification drops them, and along x they have one."""


@pytest.mark.parametrize("name", _DIRECTIONS)
def test_a_part_of_directions_is_refused_though_simplification_drops_it(name):
    """F_c = 1 + 0 log(1 + g_y) was proved to be positive, also by the recheck, since gradients were taken along x."""
    f = term("gga_c_own")(lambda n: slater_exchange(n) * (1.0 + 0.0 * _DIRECTIONS[name](n)))
    with pytest.raises(UnsupportedError, match="more of the density gradients than their scalar products"):
        dftfd.prove(f, "ec_nonpositive", {"rs": (1.0, 2.0), "s": (0.0, 1.0)}, boxes=50)


def test_a_part_of_scalar_products_may_be_dropped():
    """Where it has a value, and nowhere else."""
    dropped = lambda c: lambda n: 0.0 * compose(lambda g: jnp.log(c - g @ g), nabla(n))
    prove = lambda c: dftfd.prove(
        term("gga_c_own")(lambda n: slater_exchange(n) * (1.0 + dropped(c)(n))),
        "ec_nonpositive", {"rs": (1.0, 2.0), "s": (0.0, 1.0)}, boxes=200,
    )  # fmt: skip
    assert prove(5.0).proved
    assert not prove(0.5).proved


_OF_SCALAR_PRODUCTS = {
    "quotient": lambda n: compose(lambda n, g: (g / n) @ (g / n) * n**2, n, nabla(n)),
    "squares": lambda n: compose(lambda g: (g**2).sum(), nabla(n)),
    "square": lambda n: compose(lambda g: jnp.square(g[0]) + g[1] * g[1] + g[2] ** 2, nabla(n)),
    "gradient of a function": lambda n: compose(lambda n, g: g @ g * n**2, n, nabla(compose(jnp.log, n))),
}
"""|nabla n|^2 without a product of two components of the gradient."""


@pytest.mark.parametrize("name", _OF_SCALAR_PRODUCTS)
def test_squares_and_quotients_of_gradients_are_scalar_products(name):
    """They were refused as formulas of directions."""
    f = term("gga_c_own")(lambda n: slater_exchange(n) * (0.9 - 0.001 * _OF_SCALAR_PRODUCTS[name](n)))
    slope = 2 * (3 * math.pi**2) ** (1 / 3) * (3 / (4 * math.pi)) ** (4 / 3)  # |nabla n| at r_s = s = 1
    for s in (0.9, 1.1):
        end = s * math.sqrt(0.9 / 0.001) / slope
        assert dftfd.prove(f, "ec_nonpositive", {"rs": (1.0, 2.0), "s": (0.0, end)}, boxes=50).proved == (s < 1)


@pytest.mark.parametrize("code", [lambda x: jnp.maximum(x, 0.0), jax.nn.relu, jax.grad(jax.nn.relu)])
def test_a_lower_end_of_zero_stays_zero(code):
    """The recheck left these open: 0 united with 1, or met by a ball from -1/2 to 4e-9, was a ball around 0."""
    proof = dftfd.prove(lambda r: code(r - 1.5), domain={"r": (1.0, 2.0)})
    assert tuple(proof.recheck()) == (1, 1)


@pytest.mark.parametrize("call", [lambda p: p.recheck("a"), lambda p: p.recheck(1j), lambda p: p.save(5)])
def test_arguments_of_a_proof_are_checked(call):
    with pytest.raises(InputError, match="seconds=|path="):
        call(dftfd.prove(lambda x: x + 1.0, domain={"x": (0.0, 1.0)}))


def test_refused_ends_are_named_as_they_are():
    with pytest.raises(InputError, match="-1.0000001"):
        dftfd.prove("lda_c_pw", "ec_nonpositive", {"zeta": (-1.0000001, 1)})


@pytest.mark.parametrize("coefficient", [2**53 + 1, -(2**53) - 1, Fraction(1, 3), decimal.Decimal("0.1"), 1j])
def test_a_coefficient_is_a_number_of_float64(coefficient):
    with pytest.raises(FunctionalError, match="no real number of float64"):
        coefficient * dftfd.get_functional("lda_x")
    with pytest.raises(FunctionalError, match="a real number expected"):
        dftfd.get_functional("gga_x_pbe").with_parameters(kappa=coefficient)
    assert (2**53 * dftfd.get_functional("lda_x")).definition["terms"][0]["coefficient"] == 2.0**53


def test_sides_without_a_number_inside_are_not_cut():
    """Else boxes of one rounding are cut until the limit is reached, an hour later."""
    code = lambda x: jnp.sin(x) ** 2 + jnp.cos(x) ** 2 - 1.0
    assert dftfd.prove(code, domain={"x": (1.0, math.nextafter(1.0, 2.0))}, boxes=10**8).outcome == "undecided"


def test_nested_choices_are_read_without_doubling():
    """Else each level takes twice as long as the one before; sixteen took minutes."""

    def code(x):
        y = x
        for k in range(30):
            y = jnp.where(x > k / 31, y + 1.0, 2.0 * y)
        return y

    assert dftfd.prove(code, domain={"x": (0.0, 1.0)}, boxes=1).outcome != "violated"


def test_the_value_of_an_inequality_may_stand_in_a_dict():
    assert dftfd.prove(lambda x: {"left": x}, domain={"x": (0.0, 1.0)}).proved


def test_gradients_of_arrays_may_be_stopped():
    f = _correlation(lambda r: lax.stop_gradient(jnp.stack([r, -2 * r]))[1])
    assert dftfd.prove(f, "ec_nonpositive", _RS, boxes=9).outcome == "violated"


@pytest.mark.parametrize("domain", [["rs=1:2", "rs=3:4"], ["rs=1:2", "rs =3"], ["rs=1:"], ["rs=:1"]])
def test_ends_of_a_domain_are_not_guessed(domain):
    with pytest.raises(InputError, match="once|FROM:TO"):
        proofs.parsed_domain(domain)


def test_a_violation_is_found_beside_a_branch_that_has_no_value():
    """F_c is -0.05 below r_s = 1.5e-4, where the other branch is the logarithm of a negative number, or has a pole."""
    others = (lambda r: jnp.where(jnp.log(r - 1.5e-4) > 0, 1.0, 2.0), lambda r: 1 / (0.0 * r), lambda r: jnp.log(0 * r))
    for other in others:
        f = _correlation(lambda r, other=other: jnp.where(r < 1.5e-4, -1.0, other(r)))
        proof = dftfd.prove(f, "ec_nonpositive", _RS, boxes=50)
        assert (proof.outcome, float(proof.value)) == ("violated", -0.05)


@pytest.mark.parametrize("code", [jnp.log, jnp.sqrt, lambda x: 1 / (x + 1), lax.digamma, lambda x: x**0.5])
def test_a_formula_without_a_value_is_no_number_in_extended_precision(code):
    program = point_program(lambda x: jnp.where(x > 0, 2.0, jnp.where(code(x) > 0, x, 1.0)) + code(x), _SCALAR)
    assert mpmath.isnan(evaluate(program, OnMpmath(), [mpmath.mpf(-1)])[0])


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_an_exponent_has_to_be_defined_for_the_recheck_too(shift):
    """x^(sqrt(x - 2)^0 + shift), of exponents 0 and 2, has no value below 2."""
    proof = dftfd.prove(lambda x: x ** (lax.pow(jnp.sqrt(x - 2.0), 0.0) + shift), domain={"x": (0.1, 1.0)}, boxes=20)
    assert proof.outcome == "undecided"
    with pytest.raises(NumericalError, match="does not hold"):
        replace(proof, outcome="proved", tree=(PROVED,)).recheck()


def _file_with(tree, boxes, path):
    proof = dftfd.prove(lambda x: x + 1.0, domain={"x": (0.0, 1.0)})
    proof.save(path)
    packed = base64.b64encode(zlib.compress(np.asarray(tree, dtype="<i2").tobytes(), 9)).decode()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tree": packed, "boxes": boxes}))
    return path


@pytest.mark.parametrize(
    "tree, boxes",
    [
        (np.zeros(10**6), 0),
        ([], 0),
        ([0, PROVED], 1),
        ([PROVED, PROVED], 2),
        ([0, PROVED, 18], 1),
        ([-1, PROVED], 1),
        ([20, PROVED], 1),
    ],
)
def test_what_is_no_tree_of_proved_boxes_is_no_certificate(tree, boxes, tmp_path):
    with pytest.raises(DamagedFileError):
        dftfd.load_proof(_file_with(tree, boxes, tmp_path / "proof.json"))


def test_a_tree_of_cuts_and_faces_is_read(tmp_path):
    tree = (0, 33, PROVED, 0, PROVED, PROVED)
    assert dftfd.load_proof(_file_with(tree, 3, tmp_path / "proof.json")).tree == tree


def test_a_certificate_that_nobody_could_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(proofs, "_LARGEST", 10)
    proof = replace(dftfd.prove(lambda x: x + 1.0, domain={"x": (0.0, 1.0)}), tree=(0,) * 5 + (PROVED,) * 6)
    with pytest.raises(InputError, match="a file holds 5"):
        proof.save(tmp_path / "proof.json")
