"""A net for the rules of the operators: <grad E, df> = dE, the derivative, and second derivatives, against plain JAX.

Functionals are read twice (autofd_programs.py): with the operators, and as arithmetic of values at quadrature points.
On bounded, periodic, half-infinite and infinite, two- and three-dimensional and discrete spaces each answer is right or
a typed error. The last tests break a rule at a time and show that the net notices.
"""

import contextlib
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dftfd import autofd as fd
from dftfd.errors import DftfdError
from tests.autofd_programs import Arrays, Operators, Writer, given
from tests.autofd_spaces import make_spaces
from tests.sample import sample

SPACES = make_spaces()
NAMES = tuple(SPACES)
F, A, B, K = ("f",), ("a", 0), ("a", 1), ("k", 0)
TWO = lambda a, b, how="mul": ("two", how, a, b)
SQUARE = lambda e: ("point", "square", e)
ROW = ("fix", ("left", F), 0, 2)

# operator -> a functional that uses it on f
TABLE = {
    "multiply": ("integral", TWO(TWO(F, F), A)),
    "elementary": ("integral", TWO(("point", "sin", F), ("point", "ratio", F))),
    "power": ("integral", TWO(("point", "power", F), A)),
    "integrate": ("number", "mul", ("integral", SQUARE(F)), ("integral", TWO(F, A))),
    "integrate one of two": ("integral", SQUARE(("over", TWO(K, ("left", F)), 0))),
    "broadcast": ("integral", SQUARE(TWO(("left", F), ("right", F), "add"))),
    "permute": ("integral", TWO(K, ("permute", TWO(K, ("right", SQUARE(F)))))),
    "integral transform": ("integral", TWO(SQUARE(("transform", K, F)), A)),
    "braket": ("braket", SQUARE(F), F),
    "zip and split": ("integral", ("zip", F, TWO(F, F, "add"))),
    "partial": ("integral", SQUARE(("fix", TWO(TWO(K, ("left", F)), ("right", F)), 1, 2))),
    "point value": ("number", "mul", ("at", SQUARE(F), 3), ("integral", F)),
    "nabla": ("integral", TWO(("slope", F, F), A)),
    "nabla of products": ("integral", ("slope", TWO(F, A), SQUARE(F))),
    "nabla of an integral": ("integral", ("slope", ("transform", K, F), TWO(("transform", K, F), F))),
    "laplacian": ("integral", TWO(("laplacian", ("transform", K, F)), ("transform", K, F))),
    "linearize": ("integral", ("linearize", SQUARE(F), A)),
    "outer function": ("integral", TWO(SQUARE(("outer", F)), A)),
    "outer and inner": ("integral", TWO(("outer", TWO(F, ("transform", K, F))), F)),
    "diagonal": ("integral", SQUARE(("diagonal", TWO(K, ("left", F))))),
    "feedback": ("integral", TWO(("feedback", F, ("integral", F)), A)),
    "jvp inside": ("integral", TWO(("jvp", TWO(SQUARE(F), A), A), F)),
    "vjp inside": ("integral", TWO(("vjp", SQUARE(F), A), F)),
    "grad inside": ("integral", SQUARE(("grad", ("number", "mul", ("integral", SQUARE(F)), ("integral", F))))),
    "vjp of a gradient, partial": ("integral", TWO(("vjp", ("grad", ("integral", SQUARE(ROW))), A), F)),
    "vjp of a gradient, outer": ("integral", TWO(("vjp", ("grad", ("integral", TWO(SQUARE(("outer", F)), A))), A), F)),
}
NEEDS_SLOPES = ("nabla", "nabla of products", "nabla of an integral", "laplacian", "linearize")
NEEDS_WILD = ("elementary", "power")
OUTER = "vjp of a gradient, outer"


def answers(space, program, seed, kinds=("value", "jvp", "grad", "hvp")):
    """{kind: (what dftfd finds or the DftfdError, what plain JAX finds)}"""
    functions, kernels = given(space, seed)
    operators, arrays = Operators(space, functions, kernels), Arrays(space, functions, kernels)
    (f, u), (df, du), (dg, dv) = (space.function(seed + i, i > 5000) for i in (5000, 6000, 7000))
    E, plain = (lambda f: operators(program, f)), (lambda u: arrays(program, u))
    slope = lambda u: jax.jvp(plain, (u,), (du,))[1]
    codes = {
        "value": (lambda: E(f), lambda: plain(u)),
        "jvp": (lambda: fd.jvp(E, (f,), (df,))[1], lambda: slope(u)),
        "grad": (lambda: fd.integrate(fd.grad(E)(f) * df), lambda: slope(u)),
        "jax.grad": (lambda: fd.integrate(jax.grad(E)(f) * df), lambda: slope(u)),
        "hvp": (lambda: fd.integrate(fd.hvp(E, f, df) * dg), lambda: jax.jvp(slope, (u,), (dv,))[1]),
    }
    found = {}
    for kind in kinds:
        ours, theirs = codes[kind]
        try:
            found[kind] = float(ours()), float(theirs())
        except DftfdError as error:
            found[kind] = error, None
    size = abs(float(plain(u))) + 1e-3
    return found, size


def is_right(answer, size) -> bool:
    got, want = answer
    return abs(got - want) <= 1e-7 * (size + abs(want))


def judged(space, program, seed, kinds=("value", "jvp", "grad", "hvp")) -> Counter:
    """How many answers are right, refused and wrong."""
    found, size = answers(space, program, seed, kinds)
    count = Counter()
    for kind, answer in found.items():
        refused = isinstance(answer[0], DftfdError)
        verdict = "refused" if refused else "right" if is_right(answer, size) else "wrong"
        count[verdict] += 1
        if verdict == "wrong":
            print(f"seed {seed}, {space.name}, {kind}: {answer[0]} found, {answer[1]} expected: {program}")
    return count


def suits(name, space) -> bool:
    if not space.lines and name in (*NEEDS_SLOPES, "outer function", "outer and inner", OUTER):
        return False
    return space.wild or name not in NEEDS_WILD


CASES = [(name, s) for name in TABLE for s in NAMES if suits(name, SPACES[s])]
COSTLY = ("cube", "square")  # hundreds of points, whose kernels are large matrices


ENDS = {"nabla": "interval with ends", "nabla of an integral": "interval"}  # where rules differ from a circle's


def _one_space(k, name):
    """A space for an operator, the next one for the next."""
    suitable = [s for s in NAMES if s not in COSTLY and suits(name, SPACES[s])]
    return ENDS.get(name, suitable[k % len(suitable)])


# made of operators that have a quick case, too
SLOW = ("nabla of products", "laplacian", "outer and inner", "diagonal", "feedback", "integral transform")
QUICK = [(name, _one_space(k, name)) for k, name in enumerate(TABLE) if name not in SLOW]


def check_operator(name, where):
    count = judged(SPACES[where], TABLE[name], 17)
    assert not count["wrong"]
    assert count["right"] >= 2, "the value and the derivative along a direction always exist"


@pytest.mark.parametrize("name, where", QUICK)
def test_each_operator(name, where):
    """Value, derivative, gradient and second derivative of a functional with this operator."""
    check_operator(name, where)


@pytest.mark.slow
@pytest.mark.parametrize("name, where", [c for c in CASES if c not in QUICK])
@pytest.mark.one_in(3)
def test_each_operator_on_each_space(name, where):
    """The same on all spaces."""
    check_operator(name, where)


def random_functionals(seeds, kinds) -> Counter:
    total = Counter()
    for seed in seeds:
        space = SPACES[NAMES[seed % len(NAMES)]]
        total += judged(space, Writer(space, seed).number(2 if seed % 3 else 3), seed, kinds)
    return total


@pytest.mark.parametrize("seeds", sample([range(2), range(2, 11), range(11, 23)], at=[0]))
def test_random_functionals(seeds):
    """Right or refused by a typed error; few are refused."""
    count = random_functionals(seeds, ("value", "jvp", "grad"))
    assert not count["wrong"]
    assert count["refused"] <= 0.1 * count.total(), count


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.one_in(5)
def test_many_random_functionals(block):
    """Forty seeds a block, both doors, second derivatives too."""
    count = random_functionals(range(100 + 40 * block, 140 + 40 * block), ("value", "jvp", "grad", "jax.grad", "hvp"))
    assert not count["wrong"]
    assert count["refused"] <= 0.15 * count.total(), count


# ---- does the net notice a wrong rule?


def _scaled(result):
    """Cotangents with a factor that a rule may have lost."""
    return [None if part is None else 2.0 * part for part in result]


@contextlib.contextmanager
def broken(operator, rule):
    """An operator whose rule (the name of a method) gives twice the right result."""
    original = getattr(operator, rule)

    def wrong(self, *args):
        result = original(self, *args)
        return _scaled(result) if isinstance(result, list) else 2.0 * result

    own = rule in vars(operator)
    setattr(operator, rule, wrong)
    try:
        yield
    finally:
        if own:
            setattr(operator, rule, original)
        else:
            delattr(operator, rule)


def _operator(module, name):
    import importlib

    return getattr(importlib.import_module(f"dftfd.autofd.operators.{module}"), name)


MUTANTS = [
    ("integrate", "Integrate", "transpose", "integrate", "interval with ends"),
    ("integrate", "Integrate", "tangent", "integrate", "points"),
    ("broadcast", "Broadcast", "transpose", "broadcast", "interval with ends"),
    ("broadcast", "Broadcast", "tangent", "broadcast", "points"),
    ("broadcast", "Permute", "transpose", "permute", "points"),
    ("broadcast", "Permute", "tangent", "permute", "points"),
    ("compose", "Compose", "transpose", "multiply", "points"),
    ("compose", "Compose", "tangent", "multiply", "points"),
    ("nabla", "Nabla", "transpose", "nabla", "interval with ends"),
    ("nabla", "Nabla", "tangent", "nabla", "interval with ends"),
    ("linearize", "Linearize", "tangent", "linearize", "interval with ends"),
    ("linearize", "Linearize", "transpose", "linearize", "interval with ends"),
    ("partial", "Partial", "transpose", "partial", "points"),
    ("partial", "Partial", "tangent", "partial", "points"),
    ("dirac", "Dirac", "tangent", "point value", "points"),
    ("dirac", "Image", "tangent", "outer function", "interval with ends"),
    ("dirac", "Image", "transpose", OUTER, "interval with ends"),
    ("dirac", "Dirac", "transpose", "vjp of a gradient, partial", "points"),
]


@pytest.mark.parametrize("module, name, rule, program, where", sample(MUTANTS, at=[0, 8, 12]))
def test_a_lost_factor_is_found(module, name, rule, program, where):
    """With a factor of two in one rule the functional of that operator has a wrong answer.

    tests/verification/mutations.py makes these and other rules wrong, too.
    """
    kinds = ("jvp", "grad", "hvp")
    with broken(_operator(module, name), rule):
        assert judged(SPACES[where], TABLE[program], 17, kinds)["wrong"]


def test_the_surface_term_and_the_shift_into_integrals_are_found_missing(monkeypatch):
    """Without the Dirac terms at the ends, and with nabla left outside of integrals, gradients are wrong."""
    from dftfd.autofd.operators import nabla

    space = SPACES["interval with ends"]
    with monkeypatch.context() as patch:
        patch.setattr(nabla, "_surface", lambda ct, argnum: iter(()))
        assert judged(space, TABLE["nabla"], 17, ("grad",))["wrong"]
    with monkeypatch.context() as patch:
        patch.setattr(nabla, "acts_elsewhere", lambda f, argnum: False)
        assert judged(SPACES["interval"], TABLE["nabla of an integral"], 17, ("grad",))["wrong"]


def test_the_spaces_differentiate_and_interpolate():
    """The matrices of the second opinion against derivatives by JAX of the functions they stand for."""
    for space in SPACES.values():
        f, values = space.function(3)
        slope = jax.jit(jax.vmap(jax.grad(f.evaluate)))(space.x) if space.lines else None
        for i, D in enumerate(space.gradient):
            want = np.asarray(slope)[:, i] if space.vector else np.asarray(slope)
            np.testing.assert_allclose(D @ values, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())
        if space.lines:
            moved = jax.vmap(space.map)(jnp.asarray(space.x))
            np.testing.assert_allclose(space.at(np.asarray(moved)) @ values, jax.vmap(f)(moved), rtol=1e-6, atol=1e-7)
