"""The documentation as programs, and the site that is made of it, in a browser (docs/house.md says how to have one).

The plain run looks at the mechanism; the slow one builds the site, which runs every page, and opens each in Chromium.
"""

import html
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import dftfd
from dftfd.functionals import jax_xc_formula
from tests.verification import pages, reference_pages

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SEARCHES = {
    "install": "install.html",
    "solvent": "solvents.html",
    "reproducible": "reproducibility.html",
    "accuracy": "accuracy.html",
    "cite": "citing.html",
    "which functional": "howto/which_functional.html",
    "ingredients": "nomenclature.html",
    "VV10": "nonlocal.html",
    "optimize": "howto/optimise_a_geometry.html",
    "PySCF": "howto/use_in_pyscf.html",
    "libxc wrong": "regression.html",
}
"""Words of people who looked for something, and where it is: among the first three pages that are found."""
EVERY_KIND = ["index", "howto/grid", "learn/teach", "theory", "performance", "reference/functionals", "examples/index"]


def page(tmp_path, text):
    """The outcomes of a page of this text."""
    path = tmp_path / "page.md"
    path.write_text(text)
    session = pages.Session(path)
    return [session.outcome(piece) for piece in pages.pieces(text)]


def test_pieces_run_in_one_session(tmp_path):
    """Code, dialogue, hidden code, commands and numbers see the same names; `code` in a line is left alone."""
    text = """
```python
x = 6 * 7
print("x is", x)
```
```text
x is ...
```
<!-- run
print("hidden", x)
-->
```python
>>> x + 1
43

```
```console
$ dftfd list lda_x_erf
$ dftfd list --family none  # exit code 2
```
<!-- not run: it would fail -->
```python
undefined
```
In the text x is 42<!-- = x -->, a third of it 14.0<!-- = x / 3 -->, 1.4e1 <!-- = x / 3 -->
and 4,200 %<!-- = 100 * x -->, a word
**list**<!-- = list.__name__ -->. `<!-- = none -->`
"""
    code, hidden, dialogue, command, *numbers = page(tmp_path, text)
    assert (code.text, hidden.text, dialogue.text) == ("x is 42\n", "hidden 42\n", "")
    assert command.text.startswith("lda_x_erf\n") and "one of LDA, GGA" in command.text
    assert len(numbers) == 5


@pytest.mark.parametrize(
    "text, message",
    [
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\n>>> 1 + 1\n3\n\n```\n", "Expected:\n    3"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "where the page shows"),
        ("```console\n$ dftfd list --family none\n```\n", "ends with exit code 2, not 0"),
        ("```console\n$ ls nowhere\n```\n", "ends with exit code 2, not 0"),
        ("the answer is 41<!-- = 42 -->", "the page says 41, 42 is 42"),
        ("the answer is 42.10<!-- = 42.106 -->", "says 42.10"),
        ("no number<!-- = 1 -->", "says number, 1 is 1"),
        ("```python\nimport matplotlib.pyplot as plt\nplt.figure()\n```\n", "words for those who do not see it"),
    ],
)
def test_what_is_wrong_on_a_page_is_an_error(tmp_path, text, message):
    """Failing code, other output, exit codes, numbers off by more than the last digit, pictures without words."""
    with pytest.raises(pages.PageError, match=re.escape(message)):
        page(tmp_path, text)
    plt.close("all")


@pytest.mark.parametrize(
    "text, message",
    [
        ("<!-- run\nx = 1\n-->\n```python\nx + 1\n```\n", "line 5: the code uses x, which no code shown above"),
        ("```python\ndef f():\n    return g() + len([])\n```\n", "the code uses g"),
        ("```python\n>>> y\n1\n\n```\n", "the code uses y"),
        ("of <S^2> and <f, g>\n", "line 1: browsers take '<S^2>' for a tag"),
        ("`a`\n\nof <f, g>\n", "line 3: browsers take '<f, g>' for a tag"),
    ],
)
def test_incomplete_pages_are_errors(tmp_path, text, message):
    """Names that only hidden code makes, so that what is shown does not run as copied; words that browsers swallow."""
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(pages.PageError, match=re.escape(message)):
        pages.require_complete(path)
    assert pages.main(str(path), str(tmp_path / "outcome.json")) == 1


def test_pages_are_complete(tmp_path):
    """All of them; what looks like a tag in code, a formula or a real tag is none."""
    for path in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        pages.require_complete(path)
    path = tmp_path / "page.md"
    path.write_text("`<S^2>` $a <b> c$ <b>bold</b> 1 < 2 > 0\n~~~\n<x>\n~~~\n```python\nx = [k for k in 'ab']\n```\n")
    pages.require_complete(path)


def test_pictures_are_kept_with_their_words(tmp_path):
    """Text takes the colour of the page; the words stand for the picture."""
    text = '```python\nimport matplotlib.pyplot as plt\n\nplt.figure("a <line>")\nplt.plot([1, 2])\n```\n'
    ((picture,),) = [outcome.pictures for outcome in page(tmp_path, text)]
    assert picture.startswith('<svg role="img" aria-label="a &lt;line&gt;"') and picture.rstrip().endswith("</svg>")


def test_tables_of_pages_are_made():
    """Each `<!-- table CALL -->` of docs/ gives one in Markdown."""
    calls = {piece for path in ROOT.glob("docs/**/*.md") for piece in pages.pieces(path.read_text())}
    calls = [piece for piece in calls if piece.kind == "table"]
    assert len(calls) > 10
    for piece in calls:
        found = pages.Session(ROOT / "docs" / "page.md").outcome(piece).text
        assert "\n| --- |" in found, piece.code


def test_every_page_of_code_is_run_or_says_why_not():
    """No block of Python in docs/ is outside of the mechanism."""
    for path in sorted(ROOT.glob("docs/**/*.md")):
        text = path.read_text()
        blocks = len(re.findall(r"^```python$", text, re.M)) - len(re.findall(r"^<!-- not run: \S", text, re.M))
        assert blocks == sum(piece.kind == "python" for piece in pages.pieces(text)), path


@pytest.mark.parametrize("query", SEARCHES)
def test_words_of_a_search_are_on_its_page(query):
    """The search finds words and their stems, so the page must have them; that it comes first is seen in a browser."""
    text = (ROOT / "docs" / SEARCHES[query].replace(".html", ".md")).read_text().lower()
    assert all(re.search(rf"\b{word}", text) for word in query.lower().split())


def test_the_reference_names_what_is_public():
    """Each public name has an entry with its signature; docstrings' shapes are kept."""
    found = "\n".join(reference_pages.pages().values())
    modules = {name for name in dftfd.__all__ if inspect.ismodule(getattr(dftfd, name))}
    assert all(f"{getattr(dftfd, name).__name__}: " in str(reference_pages.PAGES) for name in modules)
    for name in set(dftfd.__all__) - modules - {"__version__"}:
        assert f"`{name}`" in found, name
    assert "<li><code>charge, spin</code>: total charge" in found and "max_memory" in found
    assert "<li><code>parameters</code>: names of the parameters to be fitted" in found and "on_step=...," in found
    assert "JAX implementation" not in found, "functions of JAX have one line, not JAX's own page"
    assert reference_pages.as_markdown("Says.\n\n    x < 1\n\n>>> 1\n1").count("~~~") == 4


# --------------------------------------------------------------------------------------------- the site, in a browser


@pytest.fixture(scope="module")
def site():
    """The folder of the site, built anew; pages that have not changed since the last build are not run again."""
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install 'dftfd[docs]'")
    if not jax_xc_formula.is_installed():
        pytest.skip("no jax-xc for this Python, whose functionals some pages show")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"], cwd=ROOT, capture_output=True, text=True, timeout=3600
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return SITE


@pytest.mark.slow
def test_reasons_and_titles_are_shown(site):
    """Why a block was not run; the title of a page for a link that names its file; tables written from data/."""
    assert "<summary>All functionals</summary>\n<" in (site / "passports.html").read_text()
    marked = 0
    for path in ROOT.glob("docs/**/*.md"):
        shown = (site / path.relative_to(ROOT / "docs")).with_suffix(".html").read_text()
        for reason in re.findall("^<!-- not run: (.*?) -->", path.read_text(), re.M):
            assert f"(Not run for this page: {reason}.)" in html.unescape(shown), (path, reason)
            marked += 1
    assert marked > 3
    start = (site / "index.html").read_text()
    assert ">scf.md<" not in start and ">Self-consistent field<" in start


@pytest.mark.slow
def test_the_site_needs_no_network(site):
    """No page loads a script, style, font or picture from elsewhere."""
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]* src=\"?(?:https?:)?//|<link[^>]*stylesheet[^>]*//", path.read_text()
        )
        assert not loaded, path


@pytest.mark.slow
def test_pages_open_without_errors(site, browser):
    """Each page from its file: nothing on the console, nothing wider than a phone's screen."""
    opened = browser.new_page(viewport=PHONE)
    told = []
    opened.on("console", lambda message: message.type in ("error", "warning") and told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    for path in sorted(site.rglob("*.html")):
        opened.goto(path.as_uri())
        width = opened.evaluate("document.documentElement.scrollWidth")
        assert not told and width <= PHONE["width"], (path, told, width)
    opened.close()


@pytest.mark.slow
def test_search_finds_and_buttons_copy(site, browser):
    """A question is found by a word of it; the button of a block copies its code and nothing else."""
    context = browser.new_context(viewport=DESKTOP)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened = context.new_page()
    opened.goto((site / "index.html").as_uri())
    opened.locator(".md-search__input").click()
    opened.keyboard.type("superposition error")
    found = opened.locator(".md-search-result__link").first
    found.wait_for()
    assert "howto/interaction.html" in found.get_attribute("href")
    for query, target in SEARCHES.items():
        opened.goto((site / "index.html").as_uri() + f"?q={query}")
        opened.locator(".md-search-result__link").first.wait_for()
        hits = [link.get_attribute("href") for link in opened.locator(".md-search-result__link").all()[:3]]
        assert any(target in hit for hit in hits), (query, hits)
    opened.goto((site / "howto" / "grid.html").as_uri())
    opened.locator("[data-clipboard-target], [data-md-type=copy]").first.click()
    copied = opened.evaluate("navigator.clipboard.readText()")
    shown = (ROOT / "docs/howto/grid.md").read_text()
    assert copied.strip() == re.search(r"```python\n(.*?)```", shown, re.S)[1].strip()
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_KIND)
def test_pages_are_accessible(site, browser, name):
    """axe finds nothing wrong on a page of each kind, in light and dark; screenshots go to build/screenshots."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: pip install 'dftfd[browser]'")
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    for width, viewport in (("phone", PHONE), ("desktop", DESKTOP)):
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport=viewport, color_scheme=scheme)
            opened = context.new_page()
            opened.goto((site / f"{name}.html").as_uri())
            opened.screenshot(path=folder / f"{name.replace('/', '_')}_{width}_{scheme}.png")
            found = axe.Axe().run(opened).response["violations"]
            assert not found, json.dumps(
                [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found], indent=1
            )
            context.close()


# ------------------------------------------------------------------------------------------------------- notebooks


@pytest.mark.slow
@pytest.mark.parametrize("lesson", sorted((ROOT / "docs/lessons").glob("*.md")), ids=lambda path: path.stem)
def test_lessons_run_as_notebooks(lesson, tmp_path):
    """What `make notebooks` writes runs from the first cell to the last in a kernel of its own."""
    jupytext = pytest.importorskip("jupytext", reason="Jupytext is not installed: pip install 'dftfd[docs]'")
    target = tmp_path / f"{lesson.stem}.ipynb"
    jupytext.write(jupytext.read(lesson), target)
    code = (
        f"import nbformat, nbclient; nbclient.NotebookClient(nbformat.read({str(target)!r}, 4), timeout=900).execute()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    cells = json.loads(target.read_text())["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) == lesson.read_text().count("```python")
