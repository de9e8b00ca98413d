"""Formulas in libxc's notation that are made to take all time and memory, or to fail: each is refused soon, in a line.

Two seconds of processor time and a gigabyte are what a refusal may take; most take milliseconds.
"""

import os
import random
import resource
import time
from fractions import Fraction

import jax.numpy as jnp
import pytest

from dftfd.cli import main
from dftfd.errors import DftfdError, FileError, FunctionalError
from dftfd.functionals import libxc_tree
from dftfd.functionals.maple_numbers import PI, add, multiply, negative, power
from dftfd.functionals.maple_program import Definitions, Evaluation
from dftfd.functionals.maple_text import parse
from dftfd.functionals.named_files import functional_of_formula

SECONDS, BYTES = 2.0, 10**9
HEAD = "(* type: lda_exc *)\n"
F = "f := (rs, z) -> rs:"
UP_TO = lambda n: "".join(f", i{k}=1..10000)" for k in range(n))

REFUSED = {
    "a number squared sixty times": "a0 := 3:" + "".join(f"a{k + 1} := a{k}^2:" for k in range(60)) + F,
    "a power of a thousand million": f"a := 3^(10^9): b := a: {F}",
    "a root to a huge power": f"a := 4^((10^18 + 1)/2): {F}",
    "sums in each other": "f := (rs, z) -> " + "add(" * 30 + "rs" + UP_TO(30) + ":",
    "sequences in each other": "f := (rs, z) -> nops([" + "seq(" * 30 + "rs" + UP_TO(30) + "]):",
    "lists that double": "a0 := [1, 1]:" + "".join(f"a{k + 1} := [a{k}, a{k}]:" for k in range(60)) + F,
    "a parameter of lists that double": "params_a_x0 := [1, 1]: a0 := [1, 1]:"
    + "".join(f"a{k + 1} := [a{k}, a{k}]:" for k in range(60))
    + "params_a_x := a60: "
    + F,
    "a series of order 1,000": "f := (rs, z) -> eval(convert(series(exp(y)*sin(y), y=0, 1000), polynom), y=rs):",
    "a series of functions in each other": "f := (rs, z) -> eval(series(exp(sin(exp(sin(y)))), y=0, 90), y=rs):",
    "a series of large powers": "f := (rs, z) -> eval(convert(series(exp(y^1000000000), y=0, 9), polynom), y=rs):",
    "a series of negative powers": "f := (rs, z) -> eval(convert(series((1/y)^1000000000+1, y=0, 9), polynom), y=rs):",
    "comments that do not end": "(*" * 45_000,
    "a head that makes patterns backtrack": '(* replace: "' + "a" * 75_000 + '"',
    "blank lines": "\n" * 95_000,
    "signs in a row": "f := (rs, z) -> " + "- " * 45_000 + "rs:",
    "a sum of 40,000": "f := (rs, z) -> rs" + "+1" * 40_000 + ":",
    "calls of calls": "f := (rs, z) -> rs" + "(1)" * 30_000 + ":",
    "definitions that wait": "".join(f"a{k}:=b{k}:" for k in range(4_900)) + F,
    "8,000 statements": "".join(f"a{k}:=1:" for k in range(8_000)) + F,
    "a function of itself": "g := x -> g(x + 1): f := (rs, z) -> g(1):",
    "derivatives in each other": "f := (rs, z) -> " + "diff(" * 30 + "sin(rs)" + ", rs)" * 30 + ":",
    "operations without end": "f := (rs, z) -> add(sin(rs*i), i=1..9999):",
    "sums of roots of an equation": "f := (rs, z) -> add(LambertW(rs*i), i=1..300):",
    "exp beyond all bounds": "f := (rs, z) -> exp(10^7)*rs:",
    "exp of exp of exp": "f := (rs, z) -> exp(exp(exp(20)))*rs:",
    "a constant beyond floats": "f := (rs, z) -> exp(1000)*rs:",
    "a parameter beyond floats": "params_a_x := 10^400: f := (rs, z) -> params_a_x*rs:",
    "cosh beyond floats": "f := (rs, z) -> cosh(1000)*rs:",
    "arcsin of two": "f := (rs, z) -> arcsin(2)*rs:",
    "arctanh of one": "f := (rs, z) -> arctanh(1)*rs:",
    "log of a zero of floats": "f := (rs, z) -> log(DBL_EPSILON - DBL_EPSILON)*rs:",
    "a division by Pi - Pi": "f := (rs, z) -> rs/(Pi - Pi):",
    "a division by a root's rest": "f := (rs, z) -> rs/(sqrt(2)^2 - 2):",
    "attributes of Python": "f := (rs, z) -> params_a___class__*rs:",
    "the namespace of the parameters": "f := (rs, z) -> params:",
    "an entry that a parameter lacks": "params_a_x := [1, 2]: f := (rs, z) -> params_a_x_7_*rs:",
    "an entry of a number": "params_a_x := 2: f := (rs, z) -> params_a_x_0_*rs:",
    "text": 'f := (rs, z) -> "a":',
    "truth": "f := (rs, z) -> true:",
    "a list": "f := (rs, z) -> [rs, z]:",
    "a procedure": "f := (rs, z) -> rs + (x -> x):",
    "a series": "f := (rs, z) -> rs*series(y, y=0, 3):",
    "text compared": 'f := (rs, z) -> piecewise("a" < 1, rs, z):',
    "a number as a condition": "f := (rs, z) -> piecewise(rs, rs, z):",
    "text joined": 'f := (rs, z) -> piecewise("a" and "b", rs, z):',
    "not of a list": "f := (rs, z) -> not [1]:",
    "no arguments": "f := (rs, z) -> eval() + simplify() + max():",
    "Zeta of a density": "f := (rs, z) -> Zeta(rs):",
    "Bessel's function of a density": "f := (rs, z) -> BesselI(rs, z):",
    "a polynomial of a huge order": "f := (rs, z) -> P(10^5000, rs):",
    "a huge index": "f := (rs, z) -> [1, 2][10^3000]:",
    "no value": "f := proc(rs, z) end proc:",
    "dimensions of a list": "DIMENSIONS := [1]: f := (rs, z) -> rs:",
    "a NUL": "f := (rs, z) -> rs\0:",
    "a file in itself": '$include "own.mpl"\n' * 100,
    "ifs in each other": "f := (rs, z) -> " + "if 1 = 1 then " * 2_000 + "rs" + " end if" * 2_000 + ":",
    "half a megabyte": F + " " * 500_000,
}


@pytest.fixture(scope="module", autouse=True)
def _formulas_are_read(tmp_path_factory):
    """What is imported at the first formula is not the text's fault."""
    path = tmp_path_factory.mktemp("first") / "own.mpl"
    path.write_text(HEAD + F)
    functional_of_formula(path)


def refusal(path) -> str:
    """What is said of the formula, within the limits."""
    seconds, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((FunctionalError, FileError)) as caught:
        functional_of_formula(path)
    assert time.process_time() - seconds < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) < BYTES
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(case, tmp_path):
    path = tmp_path / "own.mpl"
    path.write_text(HEAD + REFUSED[case])
    assert "\n" not in refusal(path)


def test_a_pipe_and_a_device_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "own.mpl")
    assert "regular file" in refusal(tmp_path / "own.mpl")
    (tmp_path / "other.mpl").write_text(HEAD + '$include "own.mpl"\n' + F)
    refusal(tmp_path / "other.mpl")
    (tmp_path / "device.mpl").symlink_to("/dev/zero")
    assert "regular file" in refusal(tmp_path / "device.mpl")


def test_common_definitions_that_merely_lie_there_do_not_count(tmp_path, monkeypatch):
    """util.mpl beside the formula counts where it is included by name; then, and from a tree, its definitions win."""
    value = lambda path: float(functional_of_formula(path).terms[0][1].formula.kernel.text(*POINT))
    own = tmp_path / "own.mpl"
    own.write_text(HEAD + F)
    (tmp_path / "util.mpl").write_text("f := (rs, z) -> 2*rs:\n")
    alone = value(own)
    own.write_text(HEAD + F + '\n$include "util.mpl"\n')
    assert value(own) == pytest.approx(2 * alone, rel=1e-15)
    tree = tmp_path / "tree" / "maple"
    tree.mkdir(parents=True)
    (tree / "util.mpl").write_text("f := (rs, z) -> 3*rs:\n")
    monkeypatch.setenv(libxc_tree.VARIABLE, str(tmp_path / "tree"))
    assert value(own) == pytest.approx(2 * alone, rel=1e-15)
    own.write_text(HEAD + F)
    assert value(own) == pytest.approx(3 * alone, rel=1e-15)


class _No:
    params = object()


POINT = _No(), (0.3, 0.2), (0.1, 0.1, 0.1), (0.0, 0.0), (0.1, 0.1)


def test_constants_that_cancel_are_zero():
    """As in symbols: Pi - Pi, sqrt(2)^2 - 2, exp(log 3) - 3 have 60 digits, of which nothing but rounding is left."""
    half = Fraction(1, 2)
    assert add(PI, negative(PI)) == 0
    assert add(power(power(Fraction(2), half), Fraction(2)), Fraction(-2)) == 0
    assert add(multiply(power(Fraction(3), half), power(Fraction(12), half)), Fraction(-6)) == 0
    assert add(PI, negative(multiply(PI, Fraction(10**40 + 1, 10**40)))) != 0


def test_a_folder_that_is_no_tree_is_refused_at_once(tmp_path, capsys):
    """Also by commands that ask for no formula of libxc's."""
    assert main(["--libxc-source", str(tmp_path), "list", "pbe"]) == 5
    assert "util.mpl is not there" in capsys.readouterr().err


WORDS = (
    *("rs", "z", "Pi", "1", "0", "2/3", "1e300", "10^40", "-1", "x", "infinity", "[1, 2]", '"a"', "true", "params_a_k"),
    *("+", "-", "*", "/", "^", "**", "(", ")", "[", "]", ",", "=", "<", ">=", "and", "not", "..", "->", ":=", ":"),
    *("exp(", "log(", "sqrt(", "arcsinh(", "LambertW(", "P(2, ", "add(", "seq(", "diff(", "eval(", "series(", "max("),
    *(
        "piecewise(",
        "if",
        "then",
        "else",
        "end if",
        "proc",
        "end proc",
        "i=1..3)",
        ", rs)",
        ", y=0, 5)",
        "nops(",
        "x ->",
    ),
)


def drawn(seed) -> str:
    """A formula of words at random, or a sound one with a word changed."""
    random_ = random.Random(seed)
    if seed % 2:
        return "f := (rs, z) -> " + " ".join(random_.choices(WORDS, k=random_.randint(1, 12))) + ":"
    sound = "params_a_k := 0.8 : g := x -> 1 + params_a_k * x ^ 2 : "
    sound += "f := ( rs , z ) -> add( g( i * rs ) , i=1..3) + exp( - rs ) :"
    words = sound.split()
    for _ in range(random_.randint(1, 3)):
        words[random_.randrange(len(words))] = random_.choice(WORDS)
    return " ".join(words)


@pytest.mark.parametrize("count", [300, pytest.param(30_000, marks=pytest.mark.slow)])  # 30,000: minutes
def test_formulas_at_random(count):
    """A value or an error of dftfd; on a float, whose functions are Python's, and on a value of JAX."""
    for seed in range(count):
        text = drawn(seed)
        for rs in (1.5, jnp.asarray(1.5)):
            start = time.process_time()
            try:
                Evaluation(Definitions(parse(text, "text"), True).names, {"params_a_k": 0.8}.get).run("f", rs, rs)
            except DftfdError as error:
                assert "\n" not in str(error)
            except BaseException as error:
                raise AssertionError(f"{text!r}: {error!r}") from error
            assert time.process_time() - start < SECONDS, text
