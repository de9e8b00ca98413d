"""Pages of reference, written from signatures and docstrings of what is public."""

import html
import importlib
import inspect
import re

PAGES = {
    "Molecules and calculations": "dftfd: molecule run_scf energy differentiable_scf optimize reaction_path scan "
    "load_scan invert nuclear_forces numerical_forces interaction_energy solvation_energy "
    "reaction run_batch density_function molecular_grid Molecule Grid",
    "Results": "dftfd: SCFResult load_result load_excitations load_vibrations load_inversion",
    "Functionals": "dftfd: functional potential register get_functional list_functionals Functional exact_exchange "
    "long_range_exchange export",
    "Verification and benchmarks": "dftfd: check audit report_card prove load_proof benchmark workbench; "
    "dftfd.benchmarks: compare_totals plan_benchmark read_set shipped_sets",
    "Functional derivatives": "dftfd.autofd: *",
    "Building blocks of formulas": "dftfd.functionals.common: *",
    "Losses": "dftfd.training.losses: *",
    "More of dftfd": "dftfd: +",  # public names that stand on no other page
    "Errors": "dftfd.errors: *",
    "Other programs": "dftfd.interop.pyscf: numint correlated_density; dftfd.ase: DFTFD",
}


def paths() -> list[str]:
    """Where the pages stand in the site."""
    return ["reference/index.md", *(f"reference/{title.lower().replace(' ', '_')}.md" for title in PAGES)]


def pages() -> dict[str, str]:
    """{path: Markdown} of all pages of reference."""
    found, rows = {}, []
    for path, (title, content) in zip(paths()[1:], PAGES.items(), strict=True):
        objects = [pair for part in content.split(";") for pair in _objects(*part.strip().split(":"))]
        found[path] = f"# {title}\n\n" + "\n\n".join(_entry(name, thing) for name, thing in objects) + "\n"
        names = ", ".join(f"`{name.rpartition('.')[2]}`" for name, _ in objects)
        rows.append(f"- [{title}]({path.removeprefix('reference/')}): {names}")
    head = "# Reference\n\nFrom the docstrings, with units and shapes. Atomic units unless stated otherwise.\n\n"
    return {"reference/index.md": head + "\n".join(rows) + "\n"} | found


def _objects(module, names):
    loaded = importlib.import_module(module)
    wanted = names.split()
    if wanted == ["+"]:
        elsewhere = set(" ".join(PAGES.values()).split()) | {"autofd", "errors", "__version__"}
        wanted = [n for n in loaded.__all__ if n not in elsewhere]
    if wanted == ["*"]:
        own = [n for n, thing in vars(loaded).items() if getattr(thing, "__module__", "").startswith(module)]
        wanted = sorted(n for n in getattr(loaded, "__all__", own) if not n.startswith("_"))
    return [
        (f"{module}.{name}", getattr(loaded, name)) for name in wanted if not inspect.ismodule(getattr(loaded, name))
    ]


def _entry(name, thing):
    """A class or function; of a class its public methods and properties, too."""
    short = name.rpartition(".")[2]
    text = _section("##", short, f"{name}{_signature(thing)}", thing)
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        members = sorted((name, member) for name, member in _members(thing).items() if name[0] != "_")
        text += "".join(_member(short, *member) for member in members)
    return text


def _members(kind):
    """What a class offers, that of its own base classes included."""
    own = [base for base in reversed(kind.__mro__) if base.__module__.startswith("dftfd.results")]
    return {name: member for base in own for name, member in vars(base).items()} | dict(vars(kind))


def _member(owner, name, attribute):
    is_value = isinstance(attribute, property) or hasattr(attribute, "func")
    function = next(
        (getattr(attribute, kind) for kind in ("fget", "func", "__func__") if hasattr(attribute, kind)), attribute
    )
    if not callable(function) or not inspect.getdoc(function):
        return ""
    arguments = "" if is_value else _signature(function)
    return "\n\n" + _section("###", f"{owner}.{name}", f".{name}{arguments}", function)


def _section(level, name, signature, thing):
    """A heading with an anchor, the signature, the docstring."""
    anchor = name.lower().replace(".", "-")
    code = f"~~~ {{ .python .signature .no-copy }}\n{signature}\n~~~"
    from_jax = (getattr(thing, "__module__", None) or "").startswith("jax")
    doc = f"JAX's function `{name}`, of the values of Functions, or of arrays." if from_jax else inspect.getdoc(thing)
    return f"{level} `{name}` {{ #{anchor} }}\n\n{code}\n\n{as_markdown(doc)}"


def _signature(thing):
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    names, keyword = [], False
    for parameter in bare:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword:
            names.append("*")
        keyword = keyword or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        names.append(re.sub(r"=.* at 0x.*", "=...", str(parameter)))
    line = f"({', '.join(names)})"
    return line if len(line) < 70 else "(\n" + "".join(f"    {n},\n" for n in names) + ")"


def as_markdown(doc: str | None) -> str:
    """A docstring as Markdown: paragraphs, `name: meaning` as lists, what is indented or a dialogue as code."""
    if not doc:
        return ""
    first, *others = re.split(r"\n\s*\n", doc.strip("\n"))
    return "\n\n".join([f"<p>{_words(' '.join(first.split()))}</p>", *map(_paragraph, others)])


def _paragraph(text):
    lines = text.splitlines()
    if lines[0].lstrip().startswith(">>>"):
        return f"~~~ python\n{inspect.cleandoc(text)}\n~~~"
    if lines[0].startswith("  ") or any(re.search(r"\S {4,}\S", line) for line in lines[1:]):
        return f"~~~ {{ .text .no-copy }}\n{text}\n~~~"
    entries = re.split(r"\n(?=\S)|(?<=\S) {3}(?=[a-z_][\w, ]*:)", text)
    if all(re.match(r"(- |[\w, *()]+:( |$))", entry) for entry in entries) and not entries[0].startswith("Raises"):
        items = [re.match(r"(?:- )?(?:([\w, *]+):)?(.*)", " ".join(e.split()), re.S).groups() for e in entries]
        named = [f"<code>{html.escape(name)}</code>: {_words(rest)}" if name else _words(rest) for name, rest in items]
        return "<ul>" + "".join(f"<li>{item}</li>" for item in named) + "</ul>"
    return f"<p>{_words(' '.join(text.split()))}</p>"


def _words(text):
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text.strip(), quote=False))
