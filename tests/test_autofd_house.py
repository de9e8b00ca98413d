"""The shape of autofd: one table of operators, one stack of interpreters, one adapter to JAX, no circles."""

import ast
import importlib
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


def imported(path):
    """(statement, whether it stands inside a function, module) for each import of a module of autofd."""
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(n) for function in functions for n in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dftfd.autofd"):
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield node, id(node) in inner, whole if whole in FILES.values() else node.module
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield node, id(node) in inner, ""


def test_nothing_is_imported_inside_functions():
    """But SymPy, which is optional."""
    found = [ast.unparse(node) for path in FILES for node, inside, _ in imported(path) if inside]
    assert set(found) <= {"import sympy"}


def test_there_are_no_circles():
    """Taking away, again and again, the modules that import none of the others leaves nothing."""
    graph = {name: {m for *_, m in imported(path) if m and m != name} for path, name in FILES.items()}
    while free := {name for name, others in graph.items() if not others & graph.keys()}:
        graph = {name: others for name, others in graph.items() if name not in free}
    assert not graph


def test_operators_do_not_import_each_other():
    """They find each other by name, so one can be read, replaced or left out on its own."""
    for path, name in FILES.items():
        if path.parent.name == "operators":
            assert not [m for *_, m in imported(path) if m.startswith("dftfd.autofd.operators")], name


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


def test_importing_any_module_leaves_the_public_names():
    """No module is hidden behind, or hides, what dftfd.autofd offers under its name."""
    before = {name: getattr(autofd, name) for name in autofd.__all__}
    for name in FILES.values():
        importlib.import_module(name.removesuffix(".__init__"))
    for name, value in before.items():
        assert getattr(autofd, name) is value, name


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
