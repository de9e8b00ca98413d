"""The project's shape: layout, direction of imports, habits that are forbidden everywhere."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dftfd

ROOT = Path(__file__).parents[1]
FOLDERS = {"dftfd": "dftfd", "functionals": "dftfd.functionals", "grids": "dftfd.grids"}

# The floors of the house, from below: a module imports from its own part and from lower floors, nowhere else.
FLOORS = [
    {"errors"},
    {"elements"},
    {"runtime"},
    {"autofd"},
    {"functionals", "grids", "libcint"},
    {"system"},
    {"xc"},
    {"terms", "interop", "scf", "properties"},
    {"model"},
    {"response"},
    {"results"},
    {"tasks"},
    {"verify", "batch", "ase"},
    {"translate", "benchmarks"},
    {"training", "interactive"},
    {"discovery"},
    {"cli"},
    {"__main__"},
]
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
# Narrower than the floors: what knows no chemistry, and what knows neither grids nor molecules.
MAY_IMPORT = {
    "autofd": {"errors"},
    "functionals": {"autofd", "errors", "runtime"},
    "grids": {"errors", "runtime"},
    "scf": {"errors", "runtime"},
}
# Who may import a third-party package; packages that are not listed are open to all.
IMPORTERS = {
    "pyscf": {"libcint", "interop"},
    "typer": {"cli"},
    "rich": {"cli", "verify"},
    "ase": {"ase", "benchmarks"},
    "geometric": {"interop"},
    "distributed": {"batch"},
}
# Modules that import others of dftfd inside functions, and why.
IMPORT_LATE = {
    "cli": "`dftfd --help` and a misspelt option answer before JAX and PySCF are loaded",
    "__init__": "`import dftfd` loads public names at first use",
    "dftfd.system.columns": "options of the command line know its readers, which ask PySCF for masses",
}


def modules():
    """Path and dotted name of every module of the package."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents if part != ROOT and ROOT in part.parents):
                continue
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            yield path, ".".join([package, *(part for part in parts if part != "__init__")])


LOOKED_AT = (ast.Module, ast.Import, ast.ImportFrom, ast.Call, ast.Assert, ast.Attribute, ast.FunctionDef)


@functools.cache
def nodes(path):
    """The nodes of a module's syntax tree that a test asks for, the module itself first."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, LOOKED_AT))


@functools.cache
def import_nodes(path):
    return tuple(node for node in nodes(path) if isinstance(node, (ast.Import, ast.ImportFrom)))


def imports(path, name):
    """Dotted names of everything that a module imports, also inside functions."""
    for node in import_nodes(path):
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
NAMES = {name for _, name in ALL}


def test_all_three_folders_were_found():
    """The walk sees each folder once, not again through the links; each part has a floor, and each floor exists."""
    parts = {part(name) for name in NAMES} - {""}
    assert parts == set(FLOOR)
    assert len(NAMES) == len(ALL)


def violation(name, imported):
    """Why the module `name` may not import `imported`; None if it may."""
    here, there, package = part(name), part(imported), imported.split(".")[0]
    if package in IMPORTERS and here not in IMPORTERS[package]:
        return f"{package} is imported in {', '.join(sorted(IMPORTERS[package]))} only"
    if package in ("functionals", "grids"):
        return f"the folder is part of dftfd: import dftfd.{imported}"
    if package != "dftfd" or here in ("", there):
        return None
    if there not in FLOOR:
        return None if imported == "dftfd.libcint" else "modules import what they need from where it stands, not dftfd"
    if FLOOR[there] >= FLOOR[here]:
        return f"{there} is on floor {FLOOR[there]}, {here} on floor {FLOOR[here]}"
    if there not in MAY_IMPORT.get(here, {there}):
        return f"{here} may import {', '.join(sorted(MAY_IMPORT[here])) or 'nothing'} only"
    return None


def test_imports_run_downwards():
    """molecule + basis -> grid -> AO store -> densities -> functional -> kernel -> terms -> SCF -> results: never back.

    The operator core knows no chemistry, functionals no grids and no PySCF, the SCF cycle no functionals. Imports
    inside functions count.
    """
    found = [
        f"{name} imports {imported}: {reason}"
        for path, name in ALL
        for imported in imports(path, name)
        if imported != "dftfd" and (reason := violation(name, imported))
    ]
    assert not found, "\n".join(found)


def test_imports_that_run_upwards_are_found():
    """The rule above refuses what it is there for, and nothing else."""
    for name, imported in [
        ("dftfd.scf.loop", "dftfd.functionals.pbe"),
        ("dftfd.functionals.pbe", "dftfd.grids.molecular"),
        ("dftfd.functionals.pbe", "pyscf.dft"),
        ("dftfd.autofd.function", "dftfd.system.molecule"),
        ("dftfd.tasks.run", "dftfd.cli"),
        ("dftfd.system.molecule", "pyscf.gto"),
        ("dftfd.xc.kernel", "functionals.pbe"),
        ("dftfd.terms.semilocal", "dftfd.model.calculation"),
        ("dftfd.terms.semilocal", "dftfd.interop.numint"),
    ]:
        assert violation(name, imported), (name, imported)
    for name, imported in [
        ("dftfd.tasks.run", "dftfd.functionals.registry"),
        ("dftfd.functionals.pbe", "dftfd.autofd"),
        ("dftfd.libcint.gto", "pyscf"),
        ("dftfd.scf.loop", "dftfd.errors.InputError"),
        ("dftfd", "dftfd.system.molecule"),
    ]:
        assert violation(name, imported) is None, (name, imported)


def circles(graph):
    """Groups of modules that import each other, directly or through others (R. Tarjan, SIAM J. Comput. 1, 146)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            found.extend([sorted(group)] if len(group) > 1 else [])

    for node in graph:
        if node not in index:
            visit(node)
    return found


def modules_imported(path):
    """Modules of dftfd that a module imports; `from package import module` asks for the module alone."""
    found = set()
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            dotted = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (dotted & NAMES) | ({node.module} if dotted - NAMES else set())
    return found & NAMES


def test_no_modules_import_each_other():
    """The import graph has no circles, imports inside functions included."""
    graph = {name: modules_imported(path) - {name, "dftfd"} for path, name in ALL}
    graph["dftfd"] = set()  # its public names are loaded when they are asked for
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c"]]
    assert circles(graph) == []


def test_imports_inside_functions_have_a_reason():
    """dftfd's own modules are imported at the top, but where IMPORT_LATE says why not."""
    found = [
        f"{name}:{inner.lineno}"
        for path, name in ALL
        for function in nodes(path)
        if isinstance(function, ast.FunctionDef) and not IMPORT_LATE.keys() & {part(name), name} and name != "dftfd"
        for inner in ast.walk(function)
        if isinstance(inner, ast.ImportFrom) and inner.module.split(".")[0] == "dftfd"
    ]
    assert not found, found


def test_module_names_are_unique():
    """No two files have the same name, so that a traceback and a search are understood without their folders."""
    last = [path.stem for path, _ in ALL if path.stem not in ("__init__", "__main__")]
    assert sorted({stem for stem in last if last.count(stem) > 1}) == []


@pytest.mark.slow  # imports all modules in a process; the decorators that are in danger: test_registration
def test_no_name_hides_a_module():
    """`import dftfd.a.b` leaves the public names as they were: no package has another thing under a module's name."""
    code = (
        "import importlib, sys, types\n"
        "import dftfd\n"
        "before = {name: getattr(dftfd, name) for name in dftfd.__all__}\n"
        f"names = {sorted(NAMES - {'dftfd.__main__'})!r}\n"
        "modules = {name: importlib.import_module(name) for name in names}\n"
        "for name in names[1:]:\n"
        "    package, _, last = name.rpartition('.')\n"
        "    found = getattr(modules[package], last)\n"
        "    print(*[name] if found is not modules[name] else [], end=' ')\n"
        "print(*[name for name in before if getattr(dftfd, name) is not before[name]])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_nothing_is_evaluated_pickled_or_private():
    """No eval, exec or pickle on any input; only JAX's public names; no bare AssertionError for the user."""
    for path, name in ALL:
        _refuse_evaluation(path, name)


def _refuse_evaluation(path, name):
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec", "compile", "__import__"), f"{name}:{node.lineno}"
        assert not isinstance(node, ast.Assert), f"{name}:{node.lineno}: raise an error of dftfd.errors instead"
    for imported in imports(path, name):
        assert not re.match(r"(pickle|dill|cloudpickle|marshal|shelve|yaml)\b", imported), f"{name} imports {imported}"
        if name == "dftfd.autofd.core.jax_adapter" and not imported.startswith("jax._src"):
            continue  # the one file that goes beyond the promised interface
        assert not re.match(r"jax\.(_src|core|interpreters)\b", imported), f"{name} imports {imported}"


def test_json_is_read_in_one_place():
    """dftfd.runtime.json_reader has the bounds of what others wrote, and the files of the package."""
    readers = {name for path, name in ALL for at in imports(path, name) if re.fullmatch(r"json\.(loads?|JSON.*)", at)}
    used = re.compile(r"\bjson\.(loads?|JSONDecoder)\b")
    assert readers | {name for path, name in ALL if used.search(path.read_text())} == {"dftfd.runtime.json_reader"}


STARTS_PROCESSES = re.compile(
    r"(multiprocessing(?!\.(connection|reduction|current_process)\b)|subprocess|concurrent\.futures\.process|pty|pdb|runpy"
    r"|_posixsubprocess|concurrent\.futures\.ProcessPoolExecutor|asyncio\.(subprocess|create_subprocess_\w+))\b"
)
OF_OS = re.compile(r"(system|popen|fork\w*|exec[lv]\w*|spawn\w*|posix_spawnp?|startfile)$")


def test_processes_are_started_in_one_place():
    """dftfd.runtime.child_processes keeps the modules of the current folder out of all of them."""
    found = [f"{name}: {start}" for path, name in ALL for start in _starts(path, name)]
    assert {start.partition(":")[0] for start in found} == {"dftfd.runtime.child_processes"}, found


def _starts(path, name):
    for imported in imports(path, name):
        if imported != "multiprocessing" and STARTS_PROCESSES.match(imported):
            yield imported
    for node in nodes(path):
        if isinstance(node, ast.Import) and any(alias.name == "multiprocessing" for alias in node.names):
            yield "multiprocessing"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            if OF_OS.match(node.attr):
                yield f"os.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (f"os.{alias.name}" for alias in node.names if OF_OS.match(alias.name))


def test_layout_page_lists_the_packages():
    """docs/house.md says of each package which layer it is in, and what its docstring says."""
    page = (ROOT / "docs" / "house.md").read_text()
    for layer, packages in enumerate(FLOORS[:-1]):
        for package in packages:
            path = ROOT / "dftfd" / f"{package}.py"
            text = (path if path.is_file() else ROOT / "dftfd" / package / "__init__.py").read_text()
            first = ast.get_docstring(ast.parse(text)).partition("\n\n")[0].replace("\n", " ")
            assert f"| {layer} | `{package}` | {first} |" in page


def test_layout_page_names_modules_that_exist():
    """The modules after its subjects are files of dftfd."""
    page = (ROOT / "docs" / "house.md").read_text()
    names = re.findall(rf"`((?:{'|'.join(FLOOR)})/\w+)`", page)
    assert len(names) > 60
    for name in names:
        path = ROOT / "dftfd" / name
        assert path.is_dir() or path.with_suffix(".py").is_file() or name == "autofd/operators/NAME", name


def test_modules_are_short_and_documented():
    """A module says what it is for, and is one idea: at most 700 lines."""
    for path, name in ALL:
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(nodes(path)[0]), f"{name} has no docstring"
        assert text.count("\n") <= 700, f"{name} has {text.count(chr(10))} lines; more than one idea?"


def test_functions_are_short():
    """No function has 60 lines or more without its docstring."""
    long = []
    for path, name in ALL:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                text = node.body[0] if ast.get_docstring(node) else None
                lines = node.end_lineno - node.lineno + 1 - (text.end_lineno - text.lineno + 1 if text else 0)
                long += [f"{name}.{node.name}: {lines} lines"] if lines >= 60 else []
    assert not long, long


def test_folders_are_links_with_one_import_name():
    """dftfd.functionals and dftfd.grids are the top-level folders; importing them by their bare names is refused."""
    for folder in ("functionals", "grids"):
        link = ROOT / "dftfd" / folder
        assert link.is_symlink() and link.readlink() == Path("..") / folder
        source = (ROOT / folder / "__init__.py").read_text()
        with pytest.raises(ImportError, match=f"import dftfd.{folder}, not {folder}"):
            exec(compile(source, folder, "exec"), {"__name__": folder})


def test_every_file_of_functionals_is_imported():
    """A file that registers formulas stands in functionals/__init__.py; else nobody finds them, and libxc's catalogue
    answers to their names."""
    registers = re.compile(r"^(@functional|@potential|register)\(|= (register|variant)\(", re.M)
    files = [path for path in (ROOT / "functionals").glob("*.py") if path.stem not in ("__init__", "registry")]
    makers = {path.stem for path in files if registers.search(path.read_text())}
    assert len(makers) > 20 and makers <= set(dftfd.functionals.__all__)


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
