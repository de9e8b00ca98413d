"""Nothing false is proved: jumps, kinks, domains of definition, operations without an enclosure."""

import ctypes
import functools
import inspect
import itertools
import json
import math
import os
import platform
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import flint
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive

import dftfd
from dftfd.autofd import compose
from dftfd.autofd.core import degree
from dftfd.autofd.core.roots import _cube_root
from dftfd.autofd.scalar import reader, vocabulary
from dftfd.autofd.scalar.jaxprs import INLINED
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.autofd.transforms.taylor_mode import ELEMENTARY
from dftfd.errors import InputError, NumericalError, UnsupportedError
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange
from dftfd.functionals.registry import get_functional, term
from dftfd.functionals.special import lambert_w
from dftfd.verify import ball_formulas, factored
from dftfd.verify.ball_intervals import Between
from dftfd.verify.inequality import FACE, PROVED, UNDECIDED, Enclosure, own_inequality, subdivide
from dftfd.verify.local_conditions import part_of
from dftfd.xc.pointwise import pointwise_kernel
from tests.own_functionals import OwnFunctionals
from tests.sample import sample
from tests.verification.adversarial_proofs import tried, wrong

# ---- jumps and kinks


@pytest.mark.parametrize(
    "code, domain",
    [
        (lambda x: jnp.sign(x) + 0.5, {"x": (-1e-6, 3.0)}),
        (lambda x, y: jnp.sign(x * y - 1e-7) * (1 + x) + 0.5 * y, {"x": (0.0, 1.0), "y": (0.0, 1.0)}),
        (lambda x: jnp.abs(x - 1e-7) - 1e-8, {"x": (0.0, 1.0)}),
        (lambda x: jnp.where(x < 1e-6, -1.0, 1.0), {"x": (0.0, 1.0)}),
        (lambda x: jnp.where((x > 0.3) & (x < 0.3 + 1e-7), -1.0, x), {"x": (0.1, 1.0)}),
        (lambda x: jnp.maximum(x - 0.5, 0.5 - x) - 1e-9, {"x": (0.0, 1.0)}),
        (lambda x: jnp.clip(x, 0.0, 1.0) - jnp.sign(1 - x - 1e-9), {"x": (0.0, 1.0)}),
    ],
)
def test_false_statements_about_jumps_and_kinks_are_not_proved(code, domain):
    assert not dftfd.prove(code, domain=domain, boxes=3000).proved


def test_true_statements_across_jumps_and_kinks_are_proved_and_rechecked():
    for code in (lambda x: jnp.sign(x) + 1.0, lambda x: jnp.abs(x) + jnp.sign(x) * 0.5 + 0.6, lambda x: abs(x)):
        proof = dftfd.prove(code, domain={"x": (-1.0, 1.0)})
        assert proof.proved
        done, total = proof.recheck()
        assert done == total


_A = 1.00001e-4
_RS = {"rs": (1e-4, 2e-4)}


def _rs(n):
    return (3 / (4 * math.pi * n)) ** (1 / 3)


own = OwnFunctionals()
known = own.fixture()


@own("lda_c_with_a_kink")
def _kink(n):
    """F_c falls from r_s = 1e-4 to a."""
    return 0.05 * slater_exchange(n) * compose(lambda n: 1 + jnp.abs(_rs(n) - _A), n)


@own("lda_c_with_a_sign")
def _step(n):
    """F_c < 0 from r_s = 1e-4 to a."""
    return 0.05 * slater_exchange(n) * compose(lambda n: jnp.sign(_rs(n) - _A), n)


@own("lda_c_with_a_step_down")
def _down(n):
    """F_c rises, but for a step down at r_s = 1.5e-4: its derivative is a negative delta function there."""
    return 0.05 * slater_exchange(n) * compose(lambda n: 1 + _rs(n) - 0.1 * jnp.where(_rs(n) < 1.5e-4, 0.0, 1.0), n)


@own("lda_c_with_a_fold")
def _fold(n):
    """The slope of F_c falls from 2 to 1 at r_s = 1.5e-4: d/dr_s of r_s^2 dF/dr_s is a negative delta function."""
    return 0.05 * slater_exchange(n) * compose(lambda n: 1 + _rs(n) + jnp.minimum(_rs(n), 1.5e-4), n)


@own("lda_c_with_a_number")
def _with_a_number(n, *, a=1.0):
    return 0.05 * a * slater_exchange(n) * compose(lambda n: 1 + _rs(n), n)


@pytest.mark.parametrize(
    "name, condition",
    [
        ("lda_c_with_a_kink", "ec_scaling"),
        ("lda_c_with_a_sign", "ec_nonpositive"),
        ("lda_c_with_a_step_down", "ec_scaling"),
        ("lda_c_with_a_fold", "uc_monotone"),
    ],
)
@pytest.mark.usefixtures("known")
def test_conditions_of_formulas_with_jumps_and_kinks_are_not_proved(name, condition):
    assert not dftfd.prove(name, condition, _RS, boxes=2000).proved


@pytest.mark.usefixtures("known")
def test_the_derivative_at_a_kink_that_is_positive_on_both_sides_is_proved_and_rechecked():
    proof = dftfd.prove("lda_c_with_a_fold", "ec_scaling", _RS)
    assert proof.proved
    assert proof.recheck()[0] > 0


def test_the_step_of_perdew_zunger_leaves_conditions_on_derivatives_undecided():
    """Its two branches differ by 3e-5 hartree at r_s = 1 (J. P. Perdew, A. Zunger, PRB 23, 5048 (1981), table XII)."""
    proof = dftfd.prove("lda_c_pz", "ec_scaling")
    assert proof.outcome == "undecided"
    assert all(lo[0] <= 1 <= hi[0] for lo, hi in proof.open_boxes)
    assert dftfd.prove("lda_c_pz", "ec_nonpositive").proved


# ---- where formulas are defined


@pytest.mark.parametrize(
    "code, domain, at",
    [
        (lambda x: jnp.sqrt(x - 1.0) ** 2 + 1.0, (0.0, 2.0), 0.5),
        (lambda x: jnp.exp(jnp.log(x - 1.0)) + 1.0, (0.0, 2.0), 0.5),
        (lambda x: (x - 1.0) ** 1.5 / (x - 1.0) ** 0.5 + 1.5, (0.0, 2.0), 0.5),
        (lambda x: jnp.log(x) - jnp.log(x) + 1.0, (-1.0, 2.0), -0.5),
        (lambda x: 0.0 * jnp.log(x) + 1.0, (-1.0, 2.0), -0.5),
        (lambda x: x / x, (-1.0, 1.0), 0.0),
        (lambda x: (1 / x) * x, (-1.0, 1.0), 0.0),
        (lambda x: jnp.log1p(x) * 0.0 + 1.0, (-2.0, 1.0), -1.5),
        (lambda x: jnp.sqrt(jnp.sqrt(x) - 1.0) * 0.0 + 1.0, (0.5, 4.0), 0.75),
        (lambda x: jnp.maximum(jnp.sqrt(x), 1.0), (-1.0, 1.0), -0.5),
        (lambda x: jnp.where(jnp.sqrt(x) >= 0.0, 1.0, 1.0 + x), (-0.5, 1.0), -0.25),
        (lambda x: 1.0 + x**0.5 * x**-0.5, (0.0, 1.0), 0.0),
        (lambda x: jnp.where(x > -0.5, jnp.log(x) - jnp.log(x), 1.0) + 1.0, (-1.0, 1.0), -0.25),
        (lambda x: 1.0 + jnp.inf * x - jnp.inf * x, (0.0, 1.0), 0.5),
    ],
)
def test_what_is_not_a_number_somewhere_is_not_proved(code, domain, at):
    if not np.isnan(float(code(jnp.float64(at)))):
        assert float(code(jnp.float64(at))) == float("inf") or at == -0.25
    assert not dftfd.prove(code, domain={"x": domain}, boxes=2000).proved


_DROPPED = {
    "0 times a logarithm": lambda rs: 1 + 0 * jnp.log(1.5e-4 - rs),
    "x / x": lambda rs: 1 + (rs - 1.5e-4) / (rs - 1.5e-4),
    "x - x": lambda rs: 1 + jnp.sqrt(rs - 1.5e-4) - jnp.sqrt(rs - 1.5e-4),
    "equal branches": lambda rs: jnp.where(jnp.log(rs - 1.5e-4) > 0, 1.0, jnp.ones_like(rs)),
}


@pytest.mark.parametrize("name", _DROPPED)
def test_what_kernels_drop_has_to_be_defined(name):
    """The kernel's program of F_c is a positive number everywhere; the formula is undefined in half of the domain."""
    formula = lambda n: 0.05 * slater_exchange(n) * compose(lambda n: _DROPPED[name](_rs(n)), n)
    proof = dftfd.prove(term("lda_c_dropped")(formula), "ec_nonpositive", _RS, boxes=100)
    assert proof.outcome == "undecided"
    forged = replace(proof, outcome="proved", tree=(PROVED,))
    try:
        assert forged.recheck() == (0, 1)  # x / x is undefined at a point that no box has as its centre
    except NumericalError:
        pass


def test_a_variable_belongs_to_the_domain_where_it_stands_in_the_formula():
    """The kernel's program does not depend on s; the first formula is undefined for small s, the second never."""

    def functional(shift):
        factor = lambda n, s2: 1 + 0 * n + 0 * jnp.log(s2 + shift)
        return term("gga_c_dropped")(
            lambda n: 0.05 * slater_exchange(n) * compose(factor, n, reduced_gradient_squared(n))
        )

    for shift, outcome in ((-1.0, "undecided"), (1.0, "proved")):
        f = functional(shift)
        assert pointwise_kernel(f, 2).ingredients == ("rho",)
        proof = dftfd.prove(f, "ec_nonpositive", {"zeta": (0.0, 0.5)}, boxes=100)
        assert (proof.outcome, tuple(proof.domain)) == (outcome, ("rs", "s", "zeta"))


def test_a_branch_that_is_not_taken_need_not_be_defined():
    """where(x > 0, exp(log x), 1) is 1 or x; so is the one with a floor inside."""
    for code in (
        lambda x: jnp.where(x > 0.25, jnp.exp(jnp.log(x)), 1.0),
        lambda x: jnp.where(x > 0.25, jnp.log(jnp.where(x > 0.25, x, 1.0)) + 2.0, 1.0),
        lambda x: jnp.sqrt(jnp.maximum(x, 0.0)),
    ):
        proof = dftfd.prove(code, domain={"x": (-1.0, 1.0)})
        assert proof.proved
        assert proof.recheck()[0] > 0


def test_an_undefined_point_is_named():
    proof = dftfd.prove(lambda x: jnp.log(x) - jnp.log(x) + 1.0, domain={"x": (-1.0, 2.0)})
    assert proof.undefined_at["x"] <= 0
    assert "undefined at x = -" in str(proof)


def test_a_point_with_a_value_is_not_called_undefined():
    """hypot and softmax have infinite constants in branches that finite numbers do not take."""
    for code in (lambda x: jnp.hypot(x, 1.0), lambda x: jax.nn.softmax(jnp.stack([x, -x]))[0]):
        proof = dftfd.prove(code, domain={"x": (0.5, 1.0)}, boxes=20)
        assert proof.proved or proof.undefined_at is None


def _finite(inner):
    return lambda x: jnp.where(jnp.isfinite(inner(x)), 1.0, -1.0)


@pytest.mark.parametrize("number", [Fraction(1, 10), Decimal("0.1"), np.longdouble(1) / 10])
def test_a_domain_begins_at_the_number_that_was_given(number):
    """The tenth is below the float64 0.1."""
    for ends in ((number, 1), (number, number)):
        assert not dftfd.prove(lambda x, y: x - 0.1 + 0.0 * y, domain={"x": ends, "y": (0, 1)}, boxes=200).proved
    assert not dftfd.prove(lambda x: jnp.where(x <= 2.0**53, 1.0, -1.0), domain={"x": (0, 2**53 + 1)}, boxes=200).proved


def test_a_small_jump_that_no_float64_is_lies_within_its_bounds():
    """1e13 + 8 + 2^-49 + 0.98 * 2^-50 where x < 1/2, else 1e13: above 1e13 + 8 + 2e-15 exp(u), by 4e-16 and more."""

    def code(x, u):
        far = x * 0.0 + 1e13
        above = jnp.where(x < 0.5, far + 8.0 + 2.0**-49 + 0.98 * 2.0**-50, far) - 1e13
        return jnp.where(above - 8.0 - 2e-15 * jnp.exp(u) > 0, -1.0, 1.0)

    assert not dftfd.prove(code, domain={"x": (0.0, 1.0), "u": (0.0, 0.05)}, boxes=200).proved


def test_two_jumps_within_one_rounding_are_two():
    """1e-40 - 2e-40 where x < 1/2."""
    one, small = jnp.float64(1.0), jnp.float64(1e-13)
    jump = lambda x, tiny: jnp.where(x < 0.5, one + small + jnp.float64(tiny), one)
    code = lambda x: jump(x, 1e-40) - jump(x, 2e-40)
    assert not dftfd.prove(code, domain={"x": (0.0, 1.0)}, boxes=50).proved


def test_finiteness_is_about_rounding_and_never_decided():
    for inner in (jnp.log, lambda x: 1 / x, lambda x: jnp.exp(1000 * x)):
        code = _finite(inner)
        assert not dftfd.prove(code, domain={"x": (-1.0, 1.0)}, boxes=500).proved


# ---- operations and numbers


@pytest.mark.parametrize(
    "code",
    [
        jnp.floor,
        jnp.ceil,
        jnp.round,
        jnp.tan,
        jnp.arccos,
        lambda x: jnp.arctan2(x, 1.0),
        lambda x: x % 1.0,
        lambda x: lax.reduce_precision(x, 8, 7) + 1e-3 - x,
        lambda x: x.astype(jnp.float32).astype(jnp.float64) - x,
        lambda x: lax.fori_loop(0, 3, lambda k, y: y * x, 1.0),
        lambda x: jnp.nextafter(x, 2.0) - x,
    ],
)
def test_operations_without_an_enclosure_are_refused(code):
    with pytest.raises(UnsupportedError):
        dftfd.prove(lambda x: code(x), domain={"x": (0.0, 1.0)})


@pytest.mark.parametrize("code", [lambda x: x > 0, lambda x: jnp.ones(3) * x, lambda x: jnp.int32(1), lambda x: (x, x)])
def test_what_is_no_number_is_refused(code):
    with pytest.raises((InputError, UnsupportedError)):
        dftfd.prove(code, domain={"x": (0.0, 1.0)})


def test_numbers_of_an_inequality_are_not_rounded_while_it_is_read():
    """0.1 * 0.3 in JAX's operations is the product of the two float64 numbers, below that which float64 has for it."""
    a, b = 0.1, 0.3
    exact = Fraction(a) * Fraction(b)
    near = float(exact)
    sign = 1.0 if Fraction(near) > exact else -1.0
    assert Fraction(near) != exact
    proof = dftfd.prove(lambda x: sign * (a * (b * x) - near * x), domain={"x": (1.0, 2.0)})
    assert proof.outcome == "violated"
    e = math.e  # 1.4e-16 below exp(1)
    assert not dftfd.prove(lambda x: e * x - jnp.exp(jnp.float64(1.0)) * x, domain={"x": (1.0, 2.0)}, boxes=500).proved


def test_numbers_in_a_function_with_a_derivative_rule_are_not_rounded_either():
    @jax.custom_jvp
    def product(x):
        return jnp.float64(0.1) * jnp.float64(0.3) * x

    product.defjvp(lambda p, t: (product(*p), t[0]))
    sign = 1.0 if Fraction(0.1 * 0.3) > Fraction(0.1) * Fraction(0.3) else -1.0
    proof = dftfd.prove(lambda x: sign * (product(x) - 0.1 * 0.3 * x), domain={"x": (1.0, 2.0)}, boxes=200)
    assert proof.outcome == "violated"


def test_no_two_questions_of_finiteness_are_one():
    """exp(1000) is no float64, x is: -1 - 1 < 0."""
    finite = lambda u: jnp.where(jnp.isfinite(u), 1.0, -1.0)
    assert not dftfd.prove(lambda x: finite(jnp.exp(1000 * x)) - finite(x), domain={"x": (0, 1)}, boxes=50).proved
    proof = dftfd.prove(lambda x: finite(x) + 1.5, domain={"x": (0, 1)})
    assert proof.recheck() == (1, 1)


@pytest.mark.parametrize(
    "code",
    [
        lambda x: (jnp.where(x > -1, 4, 0) & 2).astype(jnp.float64) - 0.5,
        lambda x: 0.5 - (jnp.where(x > -1, 4, 0) | 2).astype(jnp.float64),
        lambda x: 0.5 - (~jnp.where(x > -1, 4, 0)).astype(jnp.float64),
        lambda x: (jnp.where(x > -1, jnp.float32(2**24), jnp.float32(0)) + 1 - 2**24).astype(jnp.float64) - 0.5,
        lambda x: 2.0**53 + 0.5 - jnp.where(x > -1, 2**53 + 1, 0).astype(jnp.float64) * x**0,
    ],
)
def test_bits_and_other_numbers_than_float64_are_refused(code):
    """4 & 2 is 0 and not true; 2^24 + 1 - 2^24 is 0 in float32."""
    with pytest.raises(UnsupportedError):
        dftfd.prove(code, domain={"x": (0.0, 1.0)})


@pytest.mark.parametrize(
    "code",
    [
        lambda x: 4.0 - jnp.abs(jnp.complex128(3 + 4j)) * x**0,
        lambda x: 1.0 + 0 * jnp.where(x > 0.5, jnp.bfloat16(jnp.inf), jnp.bfloat16(0)).astype(jnp.float64),
    ],
)
def test_numbers_that_are_not_float64_are_refused(code):
    """|3 + 4i| is 5, the real part 3; 0 times infinity is undefined."""
    with pytest.raises(UnsupportedError, match="numbers of type"):
        dftfd.prove(code, domain={"x": (0.0, 1.0)})


def _negative(name):
    """An operation of this name, -x, with the parameters of one that is nothing but a program, here of x."""
    negative, program = Primitive(name), jax.make_jaxpr(lambda x: x)(0.5)
    negative.def_impl(lambda x, **_: -x)
    negative.def_abstract_eval(lambda x, **_: x)
    return lambda x: negative.bind(x, jaxpr=program, call_jaxpr=program)


@pytest.mark.parametrize(
    "name", ["exp", "copy_p", "one_minus_square", "expand_dims", *INLINED, "custom_jvp_call", "tile"]
)
def test_operations_of_others_with_a_name_of_jax_are_refused(name):
    """By proofs, and by kernels, which would compute exp(x) or x; also names that only some releases have."""
    with pytest.raises(UnsupportedError, match=f"'{name}' is not JAX's"):
        dftfd.prove(_negative(name), domain={"x": (0.5, 1.0)})
    with pytest.raises(UnsupportedError, match=f"'{name}' is not JAX's"):
        point_program(_negative(name), jax.ShapeDtypeStruct((), np.float64))


@pytest.mark.parametrize("name", ["pjit", "composite"])
def test_operations_of_others_are_no_programs(name):
    """Names that other releases of JAX have for what is nothing but a program: proofs know no such operation."""
    with pytest.raises(UnsupportedError, match=f"'{name}' has no scalar form"):
        dftfd.prove(_negative(name), domain={"x": (0.5, 1.0)})


def test_names_that_are_given_a_meaning_are_in_the_vocabulary():
    """One that is not could be taken for JAX's in a release that lacks it."""
    given = {*reader._MOVES, *reader._RULES, *ELEMENTARY, *degree._KEEPS, *degree._JOINS, *degree._MULTIPLIES}
    assert given <= vocabulary.KNOWN


class _Held:
    factor = 1.0

    @classmethod
    def of_class(cls):
        return cls.factor


@pytest.mark.parametrize("read", sample([_Held.of_class, lambda: float(os.environ["DFTFD_TEST_FACTOR"])], at=[0]))
def test_a_proof_is_about_what_a_formula_reads_now(read, monkeypatch, tmp_path):
    """F_c is 0.05, then -0.05: a compiled kernel may know of the first alone. The first proof is no more rechecked."""

    def holds(factor):
        monkeypatch.setattr(_Held, "factor", factor)
        monkeypatch.setenv("DFTFD_TEST_FACTOR", str(factor))

    holds(1.0)
    dftfd.functional("lda_c_of_state")(lambda n: 0.05 * slater_exchange(n) * compose(lambda n: read() + 0 * n, n))
    proof = dftfd.prove("lda_c_of_state", "ec_nonpositive", _RS)
    assert proof.recheck() == (1, 1)
    proof.save(tmp_path / "proof.json")
    holds(-1.0)
    assert dftfd.prove("lda_c_of_state", "ec_nonpositive", _RS).outcome == "violated"
    with pytest.raises(InputError, match="has changed"):
        proof.recheck()
    with pytest.raises(InputError, match="another formula"):
        dftfd.load_proof(tmp_path / "proof.json").recheck()


def test_a_proof_of_code_that_has_changed_is_not_rechecked():
    numbers = [0.26]
    proof = dftfd.prove(lambda x: x * x - x + numbers[0], domain={"x": (0.0, 1.0)})
    assert proof.recheck()[0] > 0
    numbers[0] = 0.24
    with pytest.raises(InputError, match="has changed"):
        proof.recheck()


@pytest.mark.parametrize("p", [-1, -1.5])
def test_a_power_of_what_is_found_to_be_zero_is_undefined(p):
    code = lambda x: (jnp.maximum(x, 0.5) + jnp.minimum(x, 0.5) - x - 0.5) ** p
    assert dftfd.prove(code, domain={"x": (0.0, 1.0)}, boxes=50).outcome == "undecided"


def test_entries_keep_their_order_where_an_array_is_read_by_columns():
    """1.5 - 2 < 0; by rows it would be 1.5 - 1. Kernels read such arrays as proofs do."""
    code = lambda x: jnp.reshape(jnp.array([[x, 1.0], [2.0, 3.0]]), (4,), order="F")
    assert dftfd.prove(lambda x: 1.5 - code(x)[1], domain={"x": (0.0, 1.0)}).outcome == "violated"
    program = point_program(code, jax.ShapeDtypeStruct((), np.float64))
    assert [float(v[0]) for v in run_on_numpy(program, [np.array([0.5])])] == [0.5, 2.0, 1.0, 3.0]


def test_more_variables_than_a_tree_has_places_for_are_refused():
    names = [f"v{k}" for k in range(10)]
    code = lambda **v: sum(v.values())
    code.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names])
    with pytest.raises(InputError, match="9 at most"):
        dftfd.prove(code, domain=dict.fromkeys(names, (0.0, 1.0)))
    assert dftfd.prove(code, domain=dict.fromkeys(names, (0.0, 1.0)) | {"v9": (1.0, 1.0)}).proved


# ---- the recheck


@pytest.mark.parametrize("name", ["sin", "cos", "lambert_w", "tanh", "erfc"])
def test_the_recheck_encloses_taylor_coefficients(name):
    """Of f(3/2 x + x y/2) along ln x on a box, and their slopes by y, against mpmath's."""
    f = {"lambert_w": lambda u: mpmath.re(mpmath.lambertw(u))}.get(name) or getattr(mpmath, name)
    algebra = ball_formulas.OnBalls(flint, [1.0, 0.3], [1.5, 0.9], 1, True)
    x, y = algebra.variables
    u = algebra.add(algebra.mul(x, algebra.number(1.5)), algebra.mul(algebra.mul(x, y), algebra.number(0.5)))
    series = algebra.plain(algebra._function(name, u)).a
    e = mpmath.mpf(10) ** -6
    for x0, y0 in itertools.product((1.0, 1.2, 1.5), (0.3, 0.9)):
        taylor = lambda y, x0=x0: mpmath.taylor(lambda t: f(x0 * mpmath.exp(t) * (1.5 + 0.5 * y)), 0, 2)
        below, at, above = map(taylor, (y0 - e, y0, y0 + e))
        for k, ball in enumerate(series):
            assert ball.v.lo.lower() - 1e-9 <= float(at[k]) <= ball.v.hi.upper() + 1e-9
            if k < 2:  # the last one's slope is not needed
                slope = float((above[k] - below[k]) / (2 * e))
                assert ball.g[1].lo.lower() - 1e-6 <= slope <= ball.g[1].hi.upper() + 1e-6


def test_roots_of_what_the_recheck_does_not_know_are_not_known():
    algebra, nan = ball_formulas.OnBalls(flint, [1.0], [2.0], 0, False), flint.arb("nan")
    for x in (nan, Between(nan, nan), Between(flint.arb(0), nan)):
        assert not algebra._to_power(x, Fraction(1, 2)).is_finite()


@own("gga_c_with_a_step_down")
def _slanted(n):
    """F_c rises, but for a step down at r_s = 1/2 + s, which the domain does not meet at s = 0."""
    s = lambda s2: jnp.sqrt(s2)
    factor = lambda n, s2: 1 + _rs(n) - 0.1 * jnp.where(_rs(n) < 0.5 + s(s2), 0.0, 1.0)
    return 0.05 * slater_exchange(n) * compose(factor, n, reduced_gradient_squared(n))


@pytest.mark.usefixtures("known")
def test_the_recheck_knows_no_slope_across_a_jump():
    """A forged tree: monotonous along s, and positive at s = 0."""
    proof = dftfd.prove("gga_c_with_a_step_down", "ec_scaling", {"rs": (1.0, 2.0), "s": (0.0, 1.2)}, boxes=50)
    assert not proof.proved
    held, total = replace(proof, outcome="proved", tree=(FACE + 3, PROVED)).recheck()
    assert (held, total) == (1, 2)


@pytest.fixture(scope="module")
def of_lyp():
    """LYP violates the condition at s above 1, and holds at s = 0, where a domain without s was taken to be."""
    proof = dftfd.prove("gga_c_lyp", "ec_nonpositive", {"rs": (1.0, 2.0), "s": (0.0, 0.5)})
    assert proof.proved
    return proof


@pytest.mark.parametrize(
    "changed",
    [
        {"domain": {"rs": [1.0, 2.0]}},
        {"domain": {"rs": [1.0, 2.0], "S": [0.0, 5.0]}},
        {"domain": {"rs": [1.0, 2.0], "s": [5.0, 0.0]}},
        {"domain": {"s": [0.0, 5.0]}},
        {"domain": {"rs": [1.0, 2.0], "s": [0.0, 0.5], "alpha": [0.0, 5.0]}},
        {"statement": "E_x non-positivity"},
    ],
)
def test_a_certificate_of_another_domain_or_statement_is_refused(changed, of_lyp, tmp_path):
    of_lyp.save(tmp_path / "proof.json")
    entries = json.loads((tmp_path / "proof.json").read_text()) | changed
    (tmp_path / "proof.json").write_text(json.dumps(entries))
    with pytest.raises(InputError):
        dftfd.load_proof(tmp_path / "proof.json").recheck()


@pytest.mark.parametrize(
    "changed",
    [
        {"domain": {"rs": (1.0, 2.0), "s": (0.0, 5.0)}},
        {"functional": "gga_c_pbe"},
        {"condition": "uc_monotone"},
        {"statement": "U_c monotonicity"},
    ],
)
def test_a_changed_copy_of_a_proof_is_not_rechecked(changed, of_lyp, tmp_path):
    """It holds the boxes and the inequality of the first one, of which its texts say something else."""
    proof = replace(of_lyp, **changed)
    with pytest.raises(InputError, match="its boxes are about"):
        proof.recheck()
    with pytest.raises(InputError, match="its boxes are about"):
        proof.plot(tmp_path / "map.png")


_TIMES, _DRAWN = itertools.count(), np.random.default_rng(1)


@pytest.mark.parametrize(
    "code",
    [
        lambda x: x + 1.0 - 2.0 * min(next(_TIMES), 1),
        lambda x: x + _DRAWN.uniform(0.0, 1.0),
        lambda x: x + 1.0 if isinstance(x, jax.core.Tracer) else x - 2.0,
        lambda x: x + 1.0 if isinstance(x, jax.core.Tracer) else [x][1],
    ],
)
def test_code_that_is_another_formula_when_it_is_called_is_refused(code):
    """The first is x + 1 when it is traced first and x - 1 ever after; its proof was rechecked."""
    with pytest.raises(InputError, match=r"changes each time|where it is called with"):
        dftfd.prove(code, domain={"x": (0.0, 1.0)})


def test_a_functional_that_is_another_formula_each_time_is_refused():
    formula = lambda n: _DRAWN.uniform(0.1, 1.0) * slater_exchange(n)
    with pytest.raises(InputError, match="changes each time"):
        dftfd.prove(term("lda_c_by_chance")(formula), "ec_nonpositive", _RS)


@pytest.mark.parametrize(
    "name, parameters, domain",
    sample(
        [("lda_c_with_a_number", {"a": 2.0}, _RS), ("gga_c_lyp", {"a": 0.07377}, {"rs": (1.0, 2.0), "s": (0.0, 0.5)})],
        at=[0],
    ),
)
@pytest.mark.usefixtures("known")
def test_a_certificate_of_another_formula_is_refused(name, parameters, domain, tmp_path):
    """A proof of LYP with 1.5 a says nothing of LYP, though its tree may hold there; older files lack a fingerprint."""
    proof = dftfd.prove(dftfd.get_functional(name).with_parameters(**parameters), "ec_nonpositive", domain)
    assert proof.proved
    proof.save(tmp_path / "proof.json")
    read = dftfd.load_proof(tmp_path / "proof.json")
    assert read.recheck(0.1)[1] > 0
    with pytest.raises(InputError, match="another formula or other parameters"):
        replace(read, functional=name).recheck()
    with pytest.raises(InputError, match="no fingerprint"):
        replace(read, fingerprint="").recheck()


@pytest.mark.parametrize("name", ["b2plyp", "pbe + 0.1*pt2", "pbe + vv10", "pbe-d3bj"])
def test_correlation_without_a_value_at_a_point_is_refused(name):
    with pytest.raises(UnsupportedError, match="not evaluated|no value at a point"):
        part_of(get_functional(name), "c")


def test_local_hybrids_are_refused():
    with pytest.raises(UnsupportedError, match="exact-exchange energy density"):
        dftfd.prove("lh07t_svwn", "ec_nonpositive")


def test_exchange_beside_integrals_is_refused_unless_they_are_correlation():
    assert part_of(get_functional("svwn + vv10"), "x").terms[0][1].name == "lda_x"
    with pytest.raises(UnsupportedError):
        part_of(get_functional("svwn + hartree"), "x")


def test_densities_below_the_kernels_floors_are_no_domain():
    """PW92's F_c is 0.946 at r_s = 1e9, where the kernel is zero."""
    with pytest.raises(InputError, match="to 1e"):
        dftfd.prove("lda_c_pw", lambda F_c: 0.001 - F_c, {"rs": (1e9, 2e9)})


def test_a_forged_proof_across_a_pole_is_refuted():
    """1/x - 1/x + 1 has no value at 0, the middle of the box."""
    proof = dftfd.prove(lambda x: 1 / x - 1 / x + 1, domain={"x": (-1.0, 1.0)}, boxes=20)
    with pytest.raises(NumericalError, match="does not hold"):
        replace(proof, outcome="proved", tree=(PROVED,)).recheck()


@pytest.mark.parametrize("outer", [jnp.tanh, jax.nn.sigmoid, jnp.cbrt, jnp.reciprocal, jnp.arcsinh, jnp.log1p])
def test_a_function_of_what_is_undefined_is_undefined(outer):
    """sqrt(x) has no second derivative for x < 0, and none at 0."""
    code = lambda x: 2.0 + outer(jax.hessian(jnp.sqrt)(x)) ** 2
    proof = dftfd.prove(code, domain={"x": (-3.0, 3.0)}, boxes=20)
    assert proof.outcome == "undecided"
    with pytest.raises(NumericalError, match="does not hold"):
        replace(proof, outcome="proved", tree=(0, PROVED, PROVED)).recheck()


def test_a_tree_with_more_nodes_than_boxes_does_not_hold():
    proof = dftfd.prove(lambda x: x + 1.0, domain={"x": (0.0, 1.0)})
    with pytest.raises(NumericalError, match="does not hold"):
        replace(proof, tree=(*proof.tree, PROVED)).recheck()


def test_the_recheck_finds_an_error_of_the_prover_s_algebra(monkeypatch):
    """sqrt(x)^2 taken for x^2 by the factored algebra: the certificate is refuted from the formula."""
    from dftfd.verify.factored import Factored

    right = Factored.power
    monkeypatch.setattr(Factored, "power", lambda self, a, p: right(self, a, 2 * p if p == Fraction(1, 2) else p))
    proof = dftfd.prove(lambda x: jnp.sqrt(x) - x + 1e-9, domain={"x": (1.0, 2.0)})
    assert proof.proved
    with pytest.raises(NumericalError, match="does not hold"):
        proof.recheck()


def test_the_recheck_finds_an_error_of_the_prover_s_derivatives(monkeypatch):
    """exp's slope with the wrong sign makes exp(-x) rise, so that its least value would lie at the left end."""
    from dftfd.verify import enclosures
    from dftfd.verify.known_functions import OPERATIONS

    wrong = OPERATIONS["exp"]._replace(slope=lambda x, y: y.scaled(-1.0))
    monkeypatch.setitem(enclosures.OPERATIONS, "exp", wrong)
    proof = dftfd.prove(lambda x: jnp.exp(-x) - 0.9999, domain={"x": (0.0, 1e-3)})
    if proof.proved:
        with pytest.raises(NumericalError, match="does not hold"):
            proof.recheck()


@term("gga_c_that_cancels")
def cancelling(n):
    """PBE's form, e_c + g ln(1 + b/g t^2 (1 + A t^2) / (1 + A t^2 + A^2 t^4)), with a short e_c and without spins."""
    g, b = 0.031, 0.0667

    def factor(n, s2):
        e = -0.062 * jnp.log1p(1 / _rs(n))
        t2 = 1.2 * s2 / _rs(n)
        x = b / g / jnp.expm1(-e / g) * t2
        return -_rs(n) * (e + g * jnp.log1p(b / g * t2 * (1 + x) / (1 + x + x * x)))

    return slater_exchange(n) * compose(factor, n, reduced_gradient_squared(n))


_FAULTS = {
    "the identity of logarithms": ("_rewritten", lambda f: lambda a, w, G, R: a.add(f(a, w, G, R), a.number(1e-9))),
    "numbers": ("number", lambda f: staticmethod(lambda x: f(x * (1 + 1e-13)))),
    "a function": ("unary", lambda f: lambda a, n, x: a.add(f(a, n, x), a.number(1e-12 if n == "log1p" else 0.0))),
    "products": ("mul", lambda f: lambda a, x, y: a.scaled(f(a, x, y), 1 + Fraction(1, 10**13))),
    "powers": ("power", lambda f: lambda a, x, p: f(a, x, p + Fraction(1, 10**13) * (p.denominator > 1))),
}
"""Of the prover's algebra, which the recheck takes for formulas that cancel: what is replaced, and by what."""


@pytest.mark.parametrize("functional", sample([cancelling, "gga_c_pbe"], at=[0]), ids=["short", "PBE"])
@pytest.mark.parametrize("fault", _FAULTS)
def test_the_recheck_finds_faults_of_the_rules_that_it_shares(fault, functional, monkeypatch):
    """The one box of the certificate does not hold directly; program and formula differ by 1e-13 to 1e-9."""
    name, broken = _FAULTS[fault]
    monkeypatch.setattr(factored.Factored, name, broken(getattr(factored.Factored, name)))
    proof = dftfd.prove(functional, "ec_nonpositive", {"rs": (1.0, 2.0), "s": (2.0, 5.0)})
    assert proof.proved
    with pytest.raises(NumericalError, match="does not hold"):
        proof.recheck()


@pytest.mark.parametrize("functional", sample([cancelling, "gga_c_pbe"], at=[0]), ids=["short", "PBE"])
@pytest.mark.usefixtures("known")
def test_boxes_that_do_not_hold_directly_are_told_from_those_that_do(functional):
    held = dftfd.prove(functional, "ec_nonpositive", {"rs": (1.0, 2.0), "s": (2.0, 5.0)}).recheck()
    assert held == (1, 1)
    assert held.directly == 0
    assert dftfd.prove("lda_c_with_a_number", "ec_nonpositive").recheck().directly == 1


def test_the_recheck_finds_a_lost_condition_of_where_a_formula_is_defined(monkeypatch):
    monkeypatch.setattr(factored.OnDomains, "_where", lambda self, domain, a: factored.ALWAYS)
    proof = dftfd.prove(lambda x: jnp.sqrt(x - 1.0) ** 2 + 2.0, domain={"x": (0.0, 2.0)})
    assert proof.proved
    with pytest.raises(NumericalError, match="does not hold"):
        proof.recheck()


def test_the_recheck_follows_every_operation_of_the_table():
    """Never a raw error: each function and choice in one formula that is positive by construction."""
    names = "exp expm1 log1p arctan arcsinh tanh sinh cosh sin cos sqrt cbrt abs sign exp2 square".split()
    for name in names:
        code = _squared(getattr(jnp, name))
        proof = dftfd.prove(code, domain={"x": (0.5, 0.6), "y": (0.25, 0.5)})
        assert proof.proved, name
        done, total = proof.recheck()
        assert done == total, name
    for code in (jax.scipy.special.erf, jax.scipy.special.erfc, jax.nn.sigmoid, jnp.log):
        done, total = dftfd.prove(_squared(code), domain={"x": (0.5, 0.6), "y": (0.25, 0.5)}).recheck()
        assert done == total


def _squared(function):
    return lambda x, y: function(x) ** 2 * y + jnp.clip(x**1.5, y, 1.0) + jnp.where(x > y, x**y, 1.0)


# ---- names, and drawn formulas


def _namesake(name, value):
    """A function with a derivative rule that has the name of one that the prover knows."""

    def function(x):
        return value(x)

    function.__name__ = function.__qualname__ = name
    function = jax.custom_jvp(function)
    function.defjvp(lambda p, t: (function(*p), t[0]))
    return function


_NAMESAKES = [
    ("lambert_w", lambda x: x * 0 + 5.0),
    *((name, lambda x: x + 2.0) for name in ("_cube_root", "stop_gradient", "copy", "optimization_barrier")),
]


@pytest.mark.parametrize("name, value", _NAMESAKES)
def test_a_function_is_not_known_by_its_name(name, value):
    """1 - f(x) with f(x) > 2; W(x), the cube root and x are below 1 there. Nor do kernels take it for x."""
    function = _namesake(name, value)
    assert dftfd.prove(lambda x: 1.0 - function(x), domain={"x": (0.5, 0.9)}).outcome == "violated"
    program = point_program(lambda x: 2.0 * function(x), jax.ShapeDtypeStruct((), np.float64))
    assert run_on_numpy(program, [np.array([0.5])])[0] == 2.0 * value(0.5)


@pytest.mark.parametrize("known", [lambert_w, lax.stop_gradient])
def test_a_wrapped_function_is_not_what_it_wraps(known):
    """functools.wraps gives 2 + f(x) the name and the file of f; 1 - 2 - f(x) is negative."""

    @jax.custom_jvp
    @functools.wraps(known)
    def raised(x):
        return known(x) + 2.0

    raised.defjvp(lambda p, t: (raised(*p), t[0]))
    assert dftfd.prove(lambda x: 1.0 - raised(x), domain={"x": (0.5, 0.9)}).outcome == "violated"
    program = point_program(raised, jax.ShapeDtypeStruct((), np.float64))
    assert run_on_numpy(program, [np.array([0.5])])[0] > 2.0


def test_a_known_function_of_an_array_is_that_of_each_entry():
    """W(2 x) is above 0.6 at x = 0.9."""
    second = lambda f, x: f(jnp.stack([x, 2 * x]))[1]
    assert dftfd.prove(lambda x: 0.6 - second(lambert_w, x), domain={"x": (0.5, 0.9)}).outcome == "violated"
    proof = dftfd.prove(lambda x: 1.3 - second(_cube_root, x), domain={"x": (0.5, 0.9)})
    assert proof.recheck() == (1, 1)


def test_functions_of_the_library_are_known():
    """AM05 has Lambert's W, and its proofs need what is known of it."""
    program = pointwise_kernel(get_functional("gga_x_am05"), 2).program
    names = {node.code.name for node in program.nodes if node.op == "call"}
    assert {"lambert_w", "_cube_root"} <= names


def _draw(start, count):
    entries = [tried(seed, 200) for seed in range(start, start + count)]
    assert not [entry for entry in entries if wrong(entry)]
    assert any(entry["outcome"] == "proved" for entry in entries)


@pytest.mark.parametrize("start", [100_000, *(pytest.param(k, marks=pytest.mark.slow) for k in (100_005, 100_010))])
def test_no_drawn_false_statement_is_proved(start):
    """Some of the formulas of tests/verification/adversarial_proofs.py, which has thousands."""
    _draw(start, 5)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100_100, 100_200, 20))
def test_no_drawn_false_statement_is_proved_of_a_hundred(start):
    """0.2 s of processor time a formula."""
    _draw(start, 20)


def test_an_exponent_that_is_nearly_nothing_is_not_nothing():
    """(-1/2)^(2.5e-601) and (-1/2)^(5e-324) have no real value; rounded to 0 the exponent gave 1."""
    for code in (lambda x: x ** jnp.square(jnp.float64(5e-301)), lambda x: x**5e-324):
        assert not dftfd.prove(code, domain={"x": (-1.0, 1.0)}, boxes=20).proved


# ---- exponents, and what is proved of whole numbers and truth values

_TENTH, _PRODUCT = 0.1 * 0.3, Fraction(0.1) * Fraction(0.3)
_SIGN = 1.0 if Fraction(_TENTH) < _PRODUCT else -1.0


@pytest.mark.parametrize(
    "code, ends",
    [
        (lambda x: x**2.0000000000000004, (-1.0, 1.0)),
        (lambda x: x**2.9999999999999996 + 2.0, (-1.0, 1.0)),
        (lambda x: x**-0.9999999999999999 + 20.0, (-2.0, -1.0)),
        (lambda x: x**0.3333333333333333 - jnp.cbrt(x), (1.5, 2.0)),
        (lambda x: jnp.exp(0.3333333333333333 * jnp.log(x)) - jnp.cbrt(x), (1.5, 2.0)),
        (lambda x: _SIGN * (x**_TENTH - jnp.exp(0.1 * (0.3 * jnp.log(x)))), (1.5, 2.0)),
        (lambda x: x ** (1 / 3) * x ** (2 / 3) - x, (1.5, 2.0)),
    ],
)
def test_exponents_are_the_numbers_that_they_are(code, ends):
    """Beside 2 no negative number has a power; x^(1/3 - 2e-17) is below the cube root, and 0.1 times 0.3 no float64."""
    assert not dftfd.prove(code, domain={"x": ends}, boxes=200).proved


def test_exponents_of_functionals_are_fractions_and_never_whole_numbers_that_they_are_not():
    for exponent in (factored.exponent, ball_formulas.as_fraction):
        assert exponent(2.6666666666666665) == Fraction(8, 3)
        assert exponent(2.0000000000000004) == Fraction(2.0000000000000004)
        assert exponent(2.0) == 2


@pytest.mark.parametrize(
    "code",
    [
        lambda x: (3.0 * x) ** 1e9 + 1.0,
        lambda x: (3.0 * x) ** 1e15 + 1.0,
        lambda x: (x**1e300) ** 1e300 + 1.0,
        lambda x: (((3.0 * x) ** 1000) ** 1000) ** 1000 + 1.0,
    ],
)
def test_powers_whose_digits_nobody_can_hold_are_no_hang(code):
    assert dftfd.prove(code, domain={"x": (0.1, 1.0)}, boxes=50).outcome in ("proved", "undecided")


def test_a_tower_of_products_is_refused():
    def tower(x):
        for _ in range(40):
            x = x * x
        return x

    with pytest.raises(UnsupportedError, match="too many digits"):
        dftfd.prove(lambda x: tower(3.0 * x), domain={"x": (0.1, 1.0)})


def test_arithmetic_of_truth_values_is_refused():
    with pytest.raises(UnsupportedError, match="truth values"):
        dftfd.prove(lambda x: jnp.where(jnp.maximum(x > 0, x > 1), 1.0, -1.0), domain={"x": (-1.0, 1.0)})


def test_a_box_that_is_violated_without_a_point_is_not_proved(monkeypatch):
    monkeypatch.setattr(Enclosure, "violated_at_centre", property(lambda self: np.zeros(self.value.r.lo.shape, bool)))
    inequality, _ = own_inequality(None, lambda x: -1.0 - x, {"x": (0.0, 1.0)})
    tree, point = subdivide(inequality, 10)
    assert point is None
    assert UNDECIDED in tree.kind[: tree.count]


def test_the_domain_of_a_proof_is_printed_in_full():
    proof = dftfd.prove(lambda x: 1.0 - x - 5e-8, domain={"x": (0.0, 0.9999999)})
    assert proof.proved
    assert "0.9999999" in str(proof)
    assert "0.9999999" in proof.line


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc", reason="glibc's fenv_t")
@pytest.mark.parametrize("bits", [0x2000, 0x4000, 0x6000, 0x8000, 0x0040], ids=["down", "up", "to zero", "FTZ", "DAZ"])
def test_nothing_is_proved_where_numbers_are_rounded_otherwise(bits):
    """Bits of MXCSR, the last four bytes of glibc's fenv_t, as a library built with -ffast-math sets them."""
    libm, before = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)()
    libm.fegetenv(before)
    changed = type(before)(*before)
    changed[7] |= bits
    box = own_inequality(None, lambda x: x * x - x + 0.26, {"x": (0.0, 1.0)})[0]
    assert box.enclosed(box.lo[:, None], box.hi[:, None]).value.r.hi > 0
    libm.fesetenv(changed)
    try:
        with pytest.raises(NumericalError, match="round as IEEE 754"):
            box.enclosed(box.lo[:, None], box.hi[:, None])
    finally:
        libm.fesetenv(before)
    assert dftfd.prove(lambda x: x * x - x + 0.26, domain={"x": (0, 1)}).proved
