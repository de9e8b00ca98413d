"""Nothing false is proved: numbers of functionals, branches without a value, files that hold no tree of boxes."""

import base64
import json
import math
import zlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

import dftfd
from dftfd.autofd import compose
from dftfd.autofd.core.roots import power
from dftfd.autofd.scalar.on_mpmath import OnMpmath
from dftfd.autofd.scalar.program import evaluate
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import DamagedFileError, InputError, NumericalError
from dftfd.functionals.common import slater_exchange
from dftfd.functionals.registry import term
from dftfd.verify import proofs
from dftfd.verify.inequality import PROVED

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


@pytest.mark.parametrize("name", _FALSE)
def test_numbers_of_a_functional_are_not_rounded(name):
    proof = dftfd.prove(_correlation(_FALSE[name]), "ec_nonpositive", _RS, boxes=50)
    irrational = name in ("a root", "an exponential")  # less than one rounding below zero
    assert proof.outcome == ("undecided" if irrational else "violated")
    assert irrational or float(proof.value) < 0


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
