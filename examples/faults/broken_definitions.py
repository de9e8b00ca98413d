"""Random definitions of functionals that are broken by construction: a sound one with one thing wrong.

`broken_definition(rng)` gives what is wrong in words, and code that tries to use the definition under a name. It has to
raise a FunctionalError.
"""

import functools
import itertools
import math
import time

import jax
import jax.numpy as jnp
import numpy as np
from sound_definitions import sound_definition

import dftfd
from dftfd.autofd import Function, compose, dot, nabla, sqrt
from dftfd.functionals.base import exact_exchange, long_range_exchange
from dftfd.functionals.registry import functional, register


def broken_definition(rng):
    """(what is wrong, attempt), attempt(name) has to raise a FunctionalError."""
    kind = str(rng.choice(list(KINDS)))
    wrongs = KINDS[kind]
    label = str(rng.choice(list(wrongs)))
    return f"{kind}: {label}", functools.partial(wrongs[label], rng)


def result(change, arguments=None):
    """A sound formula, e, whose result is change(e, n), or change(e, rho) where `arguments` ask for rho."""

    def attempt(rng, name):
        formula = sound_definition(rng, arguments).formula
        return functional(name)(_changed(formula, change, spins=arguments is not None))

    return attempt


def _changed(formula, change, spins=False):
    @functools.wraps(formula)
    def broken(*given, **parameters):
        density = given[0]
        if not spins and density.shape:
            density = density[0] + density[1]
        return change(formula(*given, **parameters), density)

    return broken


def code(f):
    """The change by code of the values of e and n."""
    return result(lambda e, n: compose(f, e, n))


def inner(f):
    """The change by code of the value of e."""
    return result(lambda e, n: compose(f, e))


def drawn(make):
    """The change by make(rng)."""
    return lambda rng, name: result(make(rng))(rng, name)


def formula(f):
    """A formula that is no sound one changed."""
    return lambda rng, name: functional(name)(f)


def _raising(error):
    def change(e, n):
        raise error

    return result(change)


def _endless(e, n):
    return _endless(e, n)


def _branching(e, n):
    return e if n > 1 else -e


def _threshold(rng):
    return 10 ** rng.uniform(-2, 1)  # bohr^-3; test points lie between 1e-3 and 1e2


def _not_a_number_above(rng):
    limit = _threshold(rng)
    return lambda e, n: compose(lambda e, n: jnp.where(n > limit, jnp.nan, e), e, n)


def _logarithm_of_a_negative(rng):
    limit = _threshold(rng)
    return lambda e, n: e + compose(lambda n: jnp.log(limit - n), n)


def _callback(e):
    return jax.pure_callback(np.square, jax.ShapeDtypeStruct((), np.float64), e)


def _while_loop(e):
    return jax.lax.while_loop(lambda x: jnp.abs(x) > 1e-3, lambda x: x / 2, e)


@jax.custom_jvp
def _forged(e):
    return e * e


_forged.defjvp(lambda primals, tangents: (primals[0] ** 2, 2.1 * primals[0] * tangents[0]))


@jax.custom_vjp
def _forged_backwards(e):
    return 3 * e


_forged_backwards.defvjp(lambda e: (3 * e, None), lambda _, c: (-3 * c,))


def _memory(rng):
    seen = []

    def change(e, n):
        seen.append(n)
        return (1 + 0.1 * len(seen)) * e

    return change


def _counter(rng):
    calls = itertools.count(1)
    return lambda e, n: compose(lambda e: next(calls) * e, e)


def _random(rng):
    return lambda e, n: (1 + 1e-6 * rng.random()) * e


def _clock(rng):
    return lambda e, n: (1 + 1e-3 * time.perf_counter()) * e


def _alternating(rng):
    signs = itertools.cycle([1, -1])
    return lambda e, n: next(signs) * e


def named(make):
    """A sound formula under the name make(rng)."""
    return lambda rng, name: functional(make(rng))(sound_definition(rng).formula)


def parameter(value):
    """A sound formula times a parameter with a value that is no number."""

    def attempt(rng, name):
        sound = sound_definition(rng, ("n",)).formula
        return functional(name)(lambda n, *, b=value: b * sound(n))

    return attempt


def combined(make):
    """make(sound functional, name) registers or uses a combination."""

    def attempt(rng, name):
        return make(functional(name)(sound_definition(rng).formula), f"{name}_combined")

    return attempt


class Unprintable(Exception):
    """An error that cannot be printed."""

    def __str__(self):
        raise ValueError("no text")


KINDS = {
    "result": {
        "a vector": inner(lambda e: jnp.stack([e, e])),
        "a gradient": result(lambda e, n: nabla(n)),
        "the spin densities": result(lambda e, rho: rho, ("rho",)),
        "a number": result(lambda e, n: 1.0),
        "None": result(lambda e, n: None),
        "text": result(lambda e, n: "pbe"),
        "a pair": result(lambda e, n: (e, e)),
        "an array": result(lambda e, n: np.ones(3)),
        "a method": result(lambda e, n: e.evaluate),
        "a tree": inner(lambda e: {"e": e}),
        "complex": inner(lambda e: e.astype(jnp.complex128)),
        "complex by a root": inner(lambda e: jnp.sqrt(e + 0j)),
        "an integer": inner(lambda e: e.astype(jnp.int64)),
        "a truth value": inner(lambda e: e > 0),
        "another domain": result(lambda e, n: compose(lambda e: e, e)(dftfd.autofd.identity(DOMAIN_2))),
    },
    "precision": {
        "float32": inner(lambda e: e.astype(jnp.float32)),
        "float16": inner(lambda e: e.astype(jnp.float16)),
        "float32 on the way": inner(lambda e: e.astype(jnp.float32).astype(jnp.float64)),
        "float16 on the way": inner(lambda e: e.astype(jnp.float16).astype(jnp.float64)),
        "bfloat16 on the way": inner(lambda e: e.astype(jnp.bfloat16).astype(jnp.float64)),
    },
    "values": {
        "logarithm of -n": code(lambda e, n: e + jnp.log(-n)),
        "root of -1 - n": code(lambda e, n: e * jnp.sqrt(-1 - n)),
        "arccos of 2 + n": code(lambda e, n: e + jnp.arccos(2 + n)),
        "0 / 0": code(lambda e, n: e * (n - n) / (n - n)),
        "1 / 0": code(lambda e, n: e / (n - n)),
        "overflow": code(lambda e, n: e * jnp.exp(1000 + n)),
        "NaN above a density": drawn(_not_a_number_above),
        "logarithm of a negative number above a density": drawn(_logarithm_of_a_negative),
        "a root without slope at uniform densities": result(lambda e, n: e + sqrt(dot(nabla(n), nabla(n)))),
    },
    "spins": {
        "alpha counts more": result(lambda e, rho: e + 0.1 * rho[0], ("rho", "rho, tau")),
        "odd in the polarisation": result(lambda e, rho: e * (1 + (rho[0] - rho[1]) / (rho[0] + rho[1])), ("rho",)),
        "alpha's gradient": result(lambda e, rho: e + dot(nabla(rho[0]), nabla(rho[0])), ("rho", "rho, tau")),
        "alpha alone": result(lambda e, rho: rho[0] ** (4 / 3), ("rho", "rho, tau")),
    },
    "side effects": {
        "counts its calls": drawn(_counter),
        "remembers its densities": drawn(_memory),
        "draws a random number": drawn(_random),
        "looks at the clock": drawn(_clock),
        "changes its sign": drawn(_alternating),
    },
    "derivatives": {
        "a host callback": inner(_callback),
        "a loop without a fixed length": inner(_while_loop),
        "stop_gradient": inner(jax.lax.stop_gradient),
        "stop_gradient of a part": code(lambda e, n: e + jax.lax.stop_gradient(5 * n)),
        "steps": code(lambda e, n: e * jnp.floor(50 + 5 * jnp.log(n))),
        "rounding": code(lambda e, n: jnp.round(10 * jnp.log(n)) * n),
        "a wrong forward rule": inner(_forged),
        "a wrong backward rule": inner(_forged_backwards),
    },
    "exceptions": {
        type(error).__name__: _raising(error)
        for error in (
            ValueError("wrong"), TypeError("wrong"), KeyError("x"), IndexError(3), RuntimeError("two\nlines"),
            AssertionError(), StopIteration(), AttributeError("x"), NameError("x"), MemoryError(), OSError(28, "full"),
            NotImplementedError(), ArithmeticError(), UnicodeError("x"), UserWarning("x"), EOFError(), Unprintable(),
            ExceptionGroup("several", [ValueError("one")]),
        )
    } | {
        "division by zero": result(lambda e, n: e * (1 / 0)),
        "an endless recursion": result(_endless),
        "a name that jax.numpy lacks": inner(lambda e: jnp.sinn(e)),
    },
    "values as Python's": {
        "a branch on the density": result(_branching),
        "a branch in the code": inner(lambda e: e if e > 0 else -e),
        "float": inner(lambda e: float(e)),
        "math": inner(lambda e: math.sin(e)),
        "NumPy": inner(lambda e: np.sin(np.asarray(e))),
        "item": inner(lambda e: e.item()),
        "a loop over the value": inner(lambda e: sum(e for _ in range(int(e)))),
        "text in arithmetic": result(lambda e, n: e + "1"),
        "shapes that do not fit": result(lambda e, n: compose(lambda e, g: e * g @ jnp.ones(4), e, nabla(n))),
    },
    "arguments": {
        "an unknown ingredient": formula(lambda n, mu: n),
        "sigma": formula(lambda rho, sigma: sigma),
        "no density": formula(lambda *, a=1.0: a),
        "nothing": formula(lambda: 1.0),
        "a parameter without a value": formula(lambda n, *, mu: mu * n),
        "any arguments": formula(lambda *densities: densities[0]),
        "any parameters": formula(lambda n, **parameters: n),
        "positions only": formula(lambda n, /: n),
        "no formula but a number": formula(3.0),
        "no formula but None": formula(None),
        "no formula but a name": formula("pbe"),
        "no formula but a functional": formula(exact_exchange),
        "a builtin": formula(max),
        "a class": formula(int),
        "a type of ours": formula(Function),
    },
    "names": {
        "registered": named(lambda rng: str(rng.choice(["pbe", "hf", "gga_x_pbe", "b3lyp", "vv10"]))),
        "no word": named(lambda rng: str(rng.choice(["", " ", "a b", "1a", "_a", "a-b", "a\n", "\x00", "é", "a;b"]))),
        "capitals": named(lambda rng: f"T_{rng.integers(1000)}"),
        "a path": named(lambda rng: str(rng.choice(["../x", "/etc/x", "a/b", "c:\\x", "~"]))),
        "an expression": named(lambda rng: str(rng.choice(["pbe,pbe", "0.5*hf", "libxc:x", "rsh(1;1;1)", "b(a)"]))),
        "no text": named(lambda rng: [None, 3, b"x", ("a",), object()][rng.integers(5)]),
    },
    "options": {
        "an unknown one": lambda rng, name: functional(name, dio="10.1000/1")(sound_definition(rng).formula),
        "a number for the DOI": lambda rng, name: functional(name, doi=3)(sound_definition(rng).formula),
    },
    "parameters": {
        "NaN": parameter(math.nan),
        "infinity": parameter(math.inf),
        "text": parameter("0.3"),
        "None": parameter(None),
        "complex": parameter(1j),
        "a vector": parameter(np.ones(3)),
        "a list": parameter([1.0, 2.0]),
        "an object": parameter(object()),
    },
    "combinations": {
        "times NaN": combined(lambda f, name: register(math.nan * f, name)),
        "times infinity": combined(lambda f, name: register(math.inf * f, name)),
        "times a complex number": combined(lambda f, name: register(1j * f, name)),
        "a share of exact exchange that is NaN": combined(
            lambda f, name: register(f + math.nan * exact_exchange, name)
        ),
        "an unknown parameter": combined(lambda f, name: f.with_parameters(kapa=1.0)),
        "a parameter made NaN": combined(lambda f, name: register(f.with_parameters(a=math.nan), name)),
        "no functional": combined(lambda f, name: register(f.name, name)),
        "a negative range": combined(lambda f, name: register(f + long_range_exchange(-0.3), name)),
        "a range of NaN": combined(lambda f, name: register(f + long_range_exchange(math.nan), name)),
        "an unknown name in an expression": combined(lambda f, name: dftfd.get_functional(f"{f.name} + nosuch_x")),
        "an expression without end": combined(lambda f, name: dftfd.get_functional(f"0.5*({f.name}")),
    },
}  # fmt: skip
DOMAIN_2 = dftfd.autofd.Domain((2,))
