"""The site's own steps in MkDocs' build: what pages print and draw, equations, the gallery, the reference.

`make docs` calls MkDocs with mkdocs.yml, which names this file. The pages of docs/ are the source; what lies outside of
docs/ and is linked from there, and what is written from docstrings, becomes a page here.
"""

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.verification import pages, reference_pages  # noqa: E402  which MkDocs, started elsewhere, does not find

GENERATED = ROOT / "build" / "generated"
OUTSIDE = re.compile(
    r"\]\(((?:\.\./)+)((?:data|examples|functionals|tests)/[^)#\s]+|README\.md|CHANGELOG\.md|CONTRIBUTING\.md)"
)
BESIDE = ("README.md", "CONTRIBUTING.md")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)
NAMED_BY_FILE = re.compile(r"\[[\w/]+\.md\]\(([\w./]+\.md)(#[\w-]+)?\)")
PICTURE = '<div class="picture" data-number="{}"></div>'
_drawn: dict[str, list[str]] = {}


def on_config(config):
    """Name the generated pages in the menu, and the pages of docs/ that are named nowhere."""
    menu = {title: part for entry in config["nav"] for title, part in entry.items()}
    menu["Gallery"] += [name for name in gallery() if name != "examples/index.md"]
    menu["Reference"] += [name for name in reference_pages.paths() if name != "reference/index.md"]
    menu["House"] += ["readme_first.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/reference/README.md"]
    named = set(re.findall(r"[\w/]+\.md", str(config["nav"])))
    left = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in named)
    menu["Reference"] += [{"More": left}] if left else []
    return config


def on_files(files, config):
    """Add the gallery, the reference and whatever pages link to outside of docs/; run all pages."""
    written = (
        {"readme_first.md": None, "CONTRIBUTING.md": None, "CHANGELOG.md": None} | gallery() | reference_pages.pages()
    )
    for page in sorted(ROOT.glob("docs/**/*.md")):
        for _, target in OUTSIDE.findall(page.read_text()):
            written.setdefault(_inside(target), None)
    for name in BESIDE:
        for target in re.findall(r"\]\(((?!http|docs/)[^)#]+\.\w+)\)", (ROOT / name).read_text()):
            written.setdefault(_inside(target), None)
    for name, text in written.items():
        source = ROOT / (
            "README.md" if name == "readme_first.md" else name if (ROOT / name).is_file() else name.removesuffix(".md")
        )
        if text is None:
            text = _as_page(source)
        path = GENERATED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        level = InclusionLevel.INCLUDED if name in str(config["nav"]) else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, name, abs_src_path=str(path), inclusion=level))
    _run_all([Path(file.abs_src_path) for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown, page, config, files):
    """Write what came of each piece behind it; take out the marks of numbers and hidden code."""
    path = Path(page.file.abs_src_path)
    try:
        results = pages.outcomes(path) if path.name != "CHANGELOG.md" else []
    except pages.PageError as error:
        raise PluginError(str(error)) from error
    found = pages.pieces(markdown)
    assert len(found) == len(results), f"{path.name}: front matter with code"
    drawn = _drawn[page.file.src_uri] = []
    for piece, outcome in reversed(list(zip(found, results, strict=True))):
        behind = _shown(piece, outcome, drawn)
        start = piece.end if piece.kind in ("python", "console") else piece.start
        markdown = markdown[:start] + behind + markdown[piece.end :]
    markdown = re.sub(r"<!-- not run: (.*?) -->\n", r"(Not run for this page: \1.)\n\n", markdown)
    markdown = re.sub(r"<!--.*?-->\n?", "", markdown, flags=re.S)
    page.meta["search"] = {"boost": _weight(page.file.src_uri)}
    up = "../" * page.file.src_uri.count("/")
    if "docs" not in path.parts:
        return markdown
    markdown = NAMED_BY_FILE.sub(lambda m: f"[{_title(path.parent / m[1])}]({m[1]}{m[2] or ''})", markdown)
    return OUTSIDE.sub(lambda m: f"]({up}{_inside(m[2])}", markdown)


def _weight(name):
    """How much a page counts in the search: answers before guides, whatever was written for the record last."""
    first = name.partition("/")[0]
    if name == "howto/which_functional.md":
        return 30  # its title has no word that others have not
    if first in ("howto", "install.md", "not_there.md", "citing.md", "reproducibility.md", "accuracy.md"):
        return 4
    if first in ("examples", "data", "tests", "functionals") or name in ("CHANGELOG.md", "decisions.md", "house.md"):
        return 0.2
    return 1 if first == "reference" else 2


def _title(path):
    """The heading of a page of docs/, for links that name its file."""
    found = re.search(r"^# (.+)$", path.read_text(), re.M) if path.is_file() else None
    return found[1].partition(":")[0] if found else path.name


def on_page_content(html, page, config, files):
    """Put pictures where they belong, and equations as MathML, which browsers draw without a script."""
    for number, svg in enumerate(_drawn.get(page.file.src_uri, ())):
        mark = f"p{number}-"
        svg = re.sub(r'\bid="', f'id="{mark}', svg)
        svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{mark}", svg)
        html = html.replace(PICTURE.format(number), f'<div class="picture">{svg}</div>')
    return EQUATION.sub(_mathml, html)


def on_post_page(output, page, config):
    """Names that the theme leaves out for those who hear a page: of the search, and of each part of the menu."""
    search = 'data-md-component="search" role="dialog"'
    output = output.replace(search, f'{search} aria-label="Search"')
    return re.sub(r'aria-labelledby="__nav_([\d_]+)_label"', r'aria-label="Menu \1"', output)


def on_post_build(config):
    """Take out the page of servers for what is not found; forget what came of pages a month ago and longer."""
    Path(config["site_dir"], "404.html").unlink()
    for kept in pages.KEPT.glob("*.json"):
        if kept.stat().st_mtime < time.time() - 30 * 86400:
            kept.unlink()


def gallery() -> dict[str, str]:
    """A page for each script of examples/: its words, its code, and what it prints and draws."""
    scripts = sorted(ROOT.glob("examples/*.py"))
    found = {}
    for script in scripts:
        words, code = re.fullmatch(r'"""(.*?)"""\n(.*)', script.read_text(), re.S).groups()
        title, _, rest = words.partition("\n\n")
        rest = re.sub(r"(?m)^    (.*)$", r"        \1", rest)
        quick = " with `--quick`" if '"--quick"' in code else ""
        run = RUN.format("import sys\n\nsys.argv += ['--quick']\n" if quick else "\n", script.name)
        text = f"# {title.rstrip('.')}\n\n{rest}\n\nWhat it prints and draws{quick}:\n\n{run}\n\n## The script\n\n"
        found[f"examples/{script.name}.md"] = f"{text}`examples/{script.name}`\n\n~~~ python\n{code.strip()}\n~~~\n"
    for path in (path for folder in SHOWN for path in sorted(ROOT.glob(f"examples/{folder}/*.py"))):
        if "__main__" not in path.read_text() and path.parent.name != "paper":
            continue
        found[f"examples/{path.parent.name}/{path.name}.md"] = _as_page(path)
    rows = []
    for name, text in found.items():
        inside, title = name.removeprefix("examples/"), text.partition("\n")[0][2:]
        folder = f"{inside.partition('/')[0]}: " if "/" in inside else ""
        rows.append(f"- [{folder}{title}]({inside})")
    head = "# Gallery\n\nScripts that run as tests. Those of `paper`, `benchmarks` and `faults` take minutes to hours "
    head += "and are shown as code.\n\n"
    return {"examples/index.md": head + "\n".join(rows) + "\n"} | found


SHOWN = ("paper", "benchmarks", "faults")
RUN = """<!-- run
import runpy
{}runpy.run_path("examples/{}", run_name="__main__")

from pathlib import Path

import matplotlib.pyplot as plt

for path in sorted(Path().glob("*.png")):
    plt.figure("picture drawn by the script", figsize=(8, 6))
    plt.imshow(plt.imread(path))
    plt.axis("off")
-->"""


def _as_page(path):
    """A Markdown file with links as they are here, code and data between fences."""
    if path.is_dir():
        return f"# {path.relative_to(ROOT)}\n\n" + "".join(f"- `{inside.name}`\n" for inside in sorted(path.iterdir()))
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"\]\((?!http|#)([^)]*)\)", lambda match: _relinked(path, match[1]), text)
    title = re.match(r'"""(.*?)[.\n]', text)
    language = {".py": "python", ".json": "json"}.get(path.suffix, "text")
    return f"# {title[1] if title else path.name}\n\n`{path.relative_to(ROOT)}`\n\n~~~ {language}\n{text}\n~~~\n"


def _relinked(path, target):
    """The end of a link of a page outside of docs/: to what has a page, or none."""
    if path.name not in BESIDE:
        return "]"
    if target.startswith("docs/"):
        return f"]({target.removeprefix('docs/')})"
    return f"]({'examples/index.md' if target == 'examples' else _inside(target)})"


def _inside(target):
    """Where a file outside of docs/ stands in the site."""
    if target == "README.md":  # MkDocs would take it for the start page
        return "readme_first.md"
    return target if target.endswith(".md") else f"{target.rstrip('/')}.md"


def _run_all(paths):
    """All pages at once, as many as there are cores; outcomes are kept, so that this is the only time they run."""
    from dftfd.runtime.threads import worker_count

    with ThreadPoolExecutor(worker_count()) as pool:
        failures = [error for error in pool.map(_failure, paths) if error]
    if failures:
        raise PluginError("\n\n".join(failures))


def _failure(path):
    try:
        if path.suffix == ".md":
            pages.require_complete(path)
        pages.outcomes(path) if path.suffix == ".md" and path.name != "CHANGELOG.md" else None
    except pages.PageError as error:
        return str(error)


def _shown(piece, outcome, drawn):
    """The Markdown of an outcome. Pictures are counted from the end of the page, where the caller begins."""
    if piece.kind == "table":
        return f"\n\n{outcome.text}\n"
    text = outcome.text.rstrip() if piece.kind != "=" and piece.shown is None and ">>> " not in piece.code else ""
    behind = f"\n\n~~~ {{ .text .output .no-copy }}\n{text}\n~~~\n" if text else ""
    for svg in outcome.pictures:
        behind += f"\n\n{PICTURE.format(len(drawn))}\n"
        drawn.append(svg)
    return behind


def _mathml(match):
    display = "block" if match[1] == "div" else "inline"
    latex = match[2].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").strip()
    drawn = convert(latex, display=display)
    return f'<div class="equation" tabindex="0">{drawn}</div>' if display == "block" else drawn
