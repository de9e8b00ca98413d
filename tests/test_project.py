"""The project's shape: layout, direction of imports, habits that are forbidden everywhere."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import dftfd

ROOT = Path(__file__).parents[1]
FOLDERS = {"dftfd": "dftfd", "functionals": "dftfd.functionals", "grids": "dftfd.grids"}

# What each part may import from the rest of dftfd; parts that are not listed may import all but the commands.
MAY_IMPORT = {
    "errors": set(),
    "arguments": {"errors"},
    "autofd": {"errors"},
    "grids": {"arguments", "errors", "resources"},
    "functionals": {"arguments", "autofd", "errors"},
    "scf": {"arguments", "errors", "io"},
    "io": {"errors", "elements"},
    "interop": {"errors", "elements", "functionals", "io", "pointwise", "resources"},
    "kohn_sham": {"errors", "terms"},
    "memory": {"errors", "resources", "threads"},
    "xc": {"ao_store", "errors", "interop", "threads"},
}
# Who may import a third-party package; packages that are not listed are open to all.
IMPORTERS = {
    "pyscf": {"interop"},
    "typer": {"cli"},
    "rich": {"cli", "checks"},
    "ase": {"interop", "ase"},
    "geometric": {"interop"},
    "distributed": {"batch"},
}
COMMANDS = {"cli", "__main__"}


def modules():
    """Path and dotted name of every module of the package."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents if part != ROOT and ROOT in part.parents):
                continue
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield path, ".".join([package, *(part for part in parts if part != "__init__")])


def imports(path, name):
    """Dotted names of everything that a module imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative imports hide where things come from"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(name):
    """'autofd' for 'dftfd.autofd.operators.nabla'; '' for dftfd itself."""
    return (name.split(".") + [""])[1]


ALL = list(modules())


def test_all_three_folders_were_found():
    """The walk sees each folder once, not again through the links."""
    parts = {part(name) for _, name in ALL}
    assert {"", "autofd", "functionals", "grids", "scf", "interop", "run", "cli"} <= parts
    assert len({name for _, name in ALL}) == len(ALL)


def violation(name, imported):
    """Why the module `name` may not import `imported`; None if it may."""
    here, there, package = part(name), part(imported), imported.split(".")[0]
    if package in IMPORTERS and here not in IMPORTERS[package]:
        return f"{package} is imported in {', '.join(sorted(IMPORTERS[package]))} only"
    if package in ("functionals", "grids"):
        return f"the folder is part of dftfd: import dftfd.{imported}"
    exists = (ROOT / "dftfd" / there).exists() or (ROOT / "dftfd" / f"{there}.py").exists()
    if package != "dftfd" or not there or not exists or here in ("", there):
        return None
    if there in COMMANDS and here not in COMMANDS:
        return "nothing depends on the command line"
    if there not in MAY_IMPORT.get(here, {there}):
        return f"{here} may import {', '.join(sorted(MAY_IMPORT[here])) or 'nothing'} only"
    return None


@pytest.mark.parametrize("path, name", ALL, ids=[name for _, name in ALL])
def test_imports_point_one_way(path, name):
    """molecule + basis -> grid -> AO store -> densities -> functional -> kernel -> Fock -> SCF: never backwards.

    The operator core knows no chemistry, functionals no grids and no PySCF, the SCF cycle no functionals.
    """
    for imported in imports(path, name):
        assert violation(name, imported) is None, f"{name} imports {imported}: {violation(name, imported)}"


def test_reversed_imports_are_found():
    """The rule above refuses what it is there for, and nothing else."""
    for name, imported in [
        ("dftfd.scf.loop", "dftfd.functionals.pbe"),
        ("dftfd.functionals.pbe", "dftfd.grids.molecular"),
        ("dftfd.functionals.pbe", "pyscf.dft"),
        ("dftfd.autofd.function", "dftfd.molecule"),
        ("dftfd.run", "dftfd.cli"),
        ("dftfd.molecule", "pyscf.gto"),
        ("dftfd.kernel", "functionals.pbe"),
    ]:
        assert violation(name, imported), (name, imported)
    for name, imported in [
        ("dftfd.run", "dftfd.functionals.registry"),
        ("dftfd.functionals.pbe", "dftfd.autofd"),
        ("dftfd.interop.gto", "pyscf"),
        ("dftfd.scf.loop", "dftfd.errors.InputError"),
        ("dftfd", "dftfd.molecule"),
    ]:
        assert violation(name, imported) is None, (name, imported)


@pytest.mark.parametrize("path, name", ALL, ids=[name for _, name in ALL])
def test_nothing_is_evaluated_pickled_or_private(path, name):
    """No eval, exec or pickle on any input; only JAX's public names; no bare AssertionError for the user."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "compile", "__import__"), f"{name}:{node.lineno}"
        assert not isinstance(node, ast.Assert), f"{name}:{node.lineno}: raise an error of dftfd.errors instead"
    for imported in imports(path, name):
        assert not re.match(r"(pickle|dill|cloudpickle|marshal|shelve|yaml)\b", imported), f"{name} imports {imported}"
        if name == "dftfd.autofd.jax_door.jax_syntax" and imported.startswith("jax.interpreters"):
            continue  # the adapter to JAX's syntax is the one file that goes beyond the promised interface
        assert not re.match(r"jax\.(_src|core|interpreters)\b", imported), f"{name} imports {imported}"


@pytest.mark.parametrize("path, name", ALL, ids=[name for _, name in ALL])
def test_modules_are_short_and_documented(path, name):
    """A module says what it is for and fits into one reading."""
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{name} has no docstring"
    assert text.count("\n") <= 400, f"{name} has {text.count(chr(10))} lines; split it"


def test_folders_are_links_with_one_import_name():
    """dftfd.functionals and dftfd.grids are the top-level folders; importing them by their bare names is refused."""
    for folder in ("functionals", "grids"):
        link = ROOT / "dftfd" / folder
        assert link.is_symlink() and link.readlink() == Path("..") / folder
        source = (ROOT / folder / "__init__.py").read_text()
        with pytest.raises(ImportError, match=f"import dftfd.{folder}, not {folder}"):
            exec(compile(source, folder, "exec"), {"__name__": folder})


def test_public_names_exist():
    """Everything that `import dftfd` offers can be reached."""
    for name in dftfd.__all__:
        assert getattr(dftfd, name) is not None


def test_constraints_cover_what_the_results_depend_on():
    """constraints.txt pins the tested versions of the dependencies that decide numbers, and names no hosts."""
    text = (ROOT / "constraints.txt").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dependencies = sum(project["optional-dependencies"].values(), project["dependencies"])
    declared = {re.match(r"[A-Za-z0-9_-]+", line)[0] for line in dependencies}
    pinned = {re.match(r"[A-Za-z0-9_-]+", line)[0] for line in text.splitlines() if "==" in line}
    assert {"jax", "jaxlib", "numpy", "scipy", "pyscf"} <= pinned <= declared | {"jaxlib"}
    assert "://" not in text and "--" not in text


def test_makefile_offers_the_documented_commands():
    """README, Makefile and CI agree on the commands."""
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text()
    for command in ("demo", "test", "test-slow", "lint"):
        assert re.search(rf"^{command}:", makefile, re.M)
    assert "make demo" in readme and "make test" in readme
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_links_in_the_documents_lead_somewhere():
    """Every relative link and picture in README and docs exists; code, where f(a)[1](b) is no link, is left out."""
    for document in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", _without_code(document.read_text())):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def _without_code(markdown):
    return re.sub(r"```.*?```|`[^`\n]*`", "", markdown, flags=re.S)


def test_python_is_supported():
    """requires-python is what this test runs on, at least."""
    assert sys.version_info >= (3, 11)
