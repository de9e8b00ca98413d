"""What editors and type checkers see: annotations of public names, the stub of the lazy ones, the marker of both."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

import dftfd
from dftfd import autofd
from dftfd.errors import MissingDependencyError

PACKAGE = Path(dftfd.__file__).parent
MODULES = (
    *(f"dftfd.interop.{name}" for name in ("pyscf", "libxc", "mean_field", "geometric")),
    *(f"dftfd.functionals.{name}" for name in ("base", "registry", "common", "densities", "pairs")),
    "dftfd.ase",
)
"""Modules that users import by name."""


def public_objects():
    """(name, object) of everything public that has a signature, methods of classes included."""
    named = [(name, getattr(dftfd, name)) for name in dftfd.__all__]
    named += [(f"autofd.{name}", getattr(autofd, name)) for name in autofd.__all__]
    for module in map(importlib.import_module, MODULES):
        own = getattr(module, "__all__", [n for n, x in vars(module).items() if _belongs(x, module)])
        named += [(f"{module.__name__}.{name}", getattr(module, name)) for name in own]
    for name, thing in named:
        if inspect.isclass(thing):
            methods = vars(thing).items() if thing.__module__.startswith("dftfd") else ()
            yield from ((f"{name}.{m}", _code(f)) for m, f in methods if not m.startswith("_") or m == "__call__")
            yield f"{name}.__init__", vars(thing).get("__init__")
        else:
            yield name, thing


def _belongs(thing, module):
    made = inspect.isclass(thing) or inspect.isfunction(thing)
    return made and thing.__module__ == module.__name__ and not thing.__name__.startswith("_")


def _code(member):
    """The function behind a member of a class."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def test_public_names_are_annotated():
    """Every argument and every result of what users call has a type."""
    checked, missing = 0, []
    for name, thing in public_objects():
        if not inspect.isroutine(thing):
            continue
        signature, checked = inspect.signature(thing), checked + 1
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        bare = [parameter for parameter in bare if parameter not in ("self", "cls")]
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            bare.append("return")
        missing += [f"{name}: {', '.join(bare)}"] if bare else []
    assert checked > 150 and missing == []


def test_the_stub_has_the_public_names():
    """dftfd/__init__.pyi imports each name from where dftfd/__init__.py finds it, and nothing else."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    lines = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in lines for alias in node.names)
    found = {alias.name: node.module for node in lines for alias in node.names}
    eager = {"DftfdError": "dftfd.errors", "InputError": "dftfd.errors", "autofd": "dftfd", "errors": "dftfd"}
    assert found == eager | dftfd._PUBLIC
    declared = [node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)]
    assert {*found, *declared} == {*dftfd.__all__}


def test_the_calculus_says_what_it_exports():
    """autofd.__all__ is written out, as checkers read it, and holds all that the package imports for users."""
    tree = ast.parse((PACKAGE / "autofd" / "__init__.py").read_text())
    imported = {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    public = {n for n in imported if not n.startswith("_") and not inspect.ismodule(getattr(autofd, n))}
    (listed,) = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    assert set(ast.literal_eval(listed)) == public


def test_the_package_is_marked_as_typed():
    """PEP 561: without the file, checkers ignore the annotations of an installed package."""
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.slow
def test_a_checker_knows_every_option_of_run_scf(tmp_path):
    """mypy, on a user's script: the result's type, a misspelt option, a molecule that is none."""
    pytest.importorskip("mypy", reason="pip install 'dftfd[dev]'")
    script = tmp_path / "script.py"
    script.write_text(
        "import dftfd\n"
        "helium = dftfd.molecule('He 0 0 0;')\n"
        "reveal_type(dftfd.run_scf(helium, 'pbe', grid_level=2).energy)\n"
        "reveal_type(dftfd.energy(helium, 'pbe').components)\n"
        "dftfd.run_scf(helium, gridlevel=2)\n"
        "dftfd.run_scf('He')\n"
    )
    options = ["--cache-dir", str(tmp_path / "cache"), "--config-file", str(PACKAGE.parent / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", *options, str(script)]
    run = subprocess.run(command, capture_output=True, text=True)
    said = [line.split(":", 1)[1] for line in run.stdout.splitlines() if line.startswith(str(script))]
    assert said[0].startswith("3: note: Revealed type is") and 'float"' in said[0]
    assert "Array]" in said[1]
    assert "5: error: Unexpected keyword argument" in said[2] and "grid_level" in said[2]
    assert any('6: error: Argument 1 to "run_scf"' in line for line in said)


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_strict_checkers_pass_a_users_script(checker, tmp_path):
    """Fifty lines over the public API (tests/typed_script.py): no error. pyright: pip install 'pyright[nodejs]'."""
    pytest.importorskip(checker)
    script = str(PACKAGE.parent / "tests" / "typed_script.py")
    command = [sys.executable, "-m", checker]
    if checker == "mypy":
        options = ["--cache-dir", str(tmp_path / "cache"), "--config-file", str(PACKAGE.parent / "pyproject.toml")]
        command += [*options, "--strict", "--no-warn-return-any", script]  # arithmetic of Functions has no types
    else:
        settings = {"typeCheckingMode": "strict", "include": [script], "extraPaths": [str(PACKAGE.parent)]}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
        command += ["--project", str(tmp_path), "--pythonpath", sys.executable]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in run.stdout.splitlines() if "typed_script.py:" in line and "error" in line]
    assert not said and ("0 errors" in run.stdout or "Success" in run.stdout or checker == "mypy"), run.stdout


EXTRAS = (
    "mpmath sympy flint matplotlib basis_set_exchange ase geometric dask distributed rdkit equinox optax dispersion"
)
NEED_MPMATH = {"check", "discover", "prove", "load_proof", "export"}


def test_the_package_is_imported_without_its_extras():
    """Every public name but those that compute in extended precision."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({EXTRAS.split()!r}))\n"
        "import dftfd, dftfd.cli.commands, dftfd.cli.chemistry\n"
        f"[getattr(dftfd, name) for name in dftfd._PUBLIC if name not in {NEED_MPMATH!r}]\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow  # 3 s, a process that compiles
def test_calculations_do_without_mpmath():
    """Energies, forces and functionals need no mpmath; a comparison with libxc does, and says which extra has it."""
    code = (
        "import sys\n"
        "sys.modules['mpmath'] = None\n"
        "import dftfd\n"
        "result = dftfd.run_scf(dftfd.molecule('He 0 0 0;', basis='sto-3g'), 'lda,vwn', grid_level=0)\n"
        "assert result.converged and abs(result.forces()).max() < 1e-8\n"
        "dftfd.energy, dftfd.audit, dftfd.report_card, dftfd.optimize, dftfd.run_batch\n"
        "try:\n"
        "    dftfd.check\n"
        "except dftfd.errors.MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "extended precision needs mpmath: pip install 'dftfd[verify]'."
    assert issubclass(MissingDependencyError, ImportError)
