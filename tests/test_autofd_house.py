"""The shape of autofd: one table of operators, one stack of interpreters and one adapter to JAX."""

import re
import threading
from pathlib import Path

import jax.numpy as jnp
import pytest

from dftfd import autofd
from dftfd.autofd.core.calling import Interpreter, interpreters, interpreting
from dftfd.autofd.core.operator_table import op
from dftfd.errors import UnknownOperatorError

ROOT = Path(autofd.__file__).parent
FILES = {path: ".".join(["dftfd.autofd", *path.relative_to(ROOT).with_suffix("").parts]) for path in ROOT.rglob("*.py")}
X = autofd.interval(8, 0.0, 1.0)
f = autofd.function(lambda x: jnp.sin(3 * x), X)


def test_operators_do_not_import_each_other():
    """They find each other by name, so one can be read, replaced or left out on its own."""
    for path, name in FILES.items():
        if path.parent.name == "operators":
            assert not re.search(r"^(from|import) dftfd\.autofd\.operators", path.read_text(), re.M), name


def test_every_operator_that_is_named_is_in_the_table():
    """A name that is spelled wrong would show in the rule that uses it only."""
    used = {name for path in FILES for name in re.findall(r"\bop\.([a-z_]+)\(", path.read_text())}
    assert len(used) > 20
    for name in used:
        assert callable(getattr(op, name))
    with pytest.raises(UnknownOperatorError, match="'nabbla'; closest: nabla"):
        op.nabbla(f)


def test_one_file_goes_beyond_the_promised_interface_of_jax():
    """jax.core, jax.interpreters and jax.experimental.hijax stand in the adapter alone."""
    found = {path.name for path in FILES if re.search(r"jax\.(core|interpreters|experimental)[. ]", code_of(path))}
    assert found == {"jax_adapter.py"}


def code_of(path):
    """The code without docstrings and comments."""
    return "\n".join(
        line
        for line in re.sub(r'"""(.|\n)*?"""', "", path.read_text()).splitlines()
        if not line.strip().startswith("#")
    )


class Shout(Interpreter):
    """Answers for one function, with a number of its own."""

    def __init__(self, mine, number):
        self.mine, self.number = mine, number

    def answers(self, g):
        return g is self.mine

    def value(self, g, args, outer):
        return self.number + len(outer)


def test_the_innermost_interpreter_that_feels_responsible_answers():
    """Others are passed over, and each knows how many stand around it; outside of the block all is as before."""
    value, g, bottom = f(0.4), autofd.exp(f), 2
    with interpreting(Shout(f, 10)), interpreting(Shout(g, 20)), interpreting(Shout(f, 30)):
        assert (f(0.4), g(0.4)) == (30 + bottom + 2, 20 + bottom + 1)
    assert f(0.4) == value and not interpreters()


def test_each_thread_has_its_own_interpreters():
    """What one thread pushes is not asked by another."""
    found = []
    with interpreting(Shout(f, 10)):
        thread = threading.Thread(target=lambda: found.append(f(0.4)))
        thread.start()
        thread.join()
    assert found == [f(0.4)]
