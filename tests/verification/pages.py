"""The pages of the documentation as programs: what is in them to run, and what came of it.

A page is Markdown. Its pieces run from top to bottom in one session, in an empty folder with links to `examples` and
`data`; nothing of this shows where the page is read as plain Markdown:

    ```python            code; lines with >>> are compared with what is printed below them, as doctest does
    ```console           lines `$ dftfd ...` run the command here, other commands in a shell
    ```text              right behind one of these: what it prints ("..." stands for anything)
    <!-- run CODE -->    code that is not shown, its output and pictures are
    <!-- table CALL -->  a function of tables.py, whose Markdown the site shows there
    -76.27<!-- = CODE -->      the number (or word) before it is the value of CODE, to the last digit written;
                               data("NAME.json") is a file of data/
    <!-- not run: REASON -->   before a block that is left alone

A page is complete: code that is shown may use what shown code above it makes, nothing that hidden code makes alone; and
no angle bracket in its words may be taken for a tag by browsers. Both are looked at before anything runs.

Tests take the session's names from `run`; the site takes outputs and pictures from `outcomes`, which are kept under
the hash of code, sources of dftfd, versions and data.

    python -m tests.verification.pages PAGE.md OUTCOMES.json
"""

import builtins
import contextlib
import doctest
import hashlib
import html
import io
import json
import os
import re
import shlex
import subprocess
import symtable
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "pages"
PIECE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w*)[^\n]*\n(?P<block>.*?)^(?P=fence) *$"
    r"|<!--\s*(?P<mark>run|=|not run:|table)(?=\s)(?P<comment>.*?)-->|`[^`\n]*`",
    re.S | re.M,
)
NUMBER = re.compile(r"([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*%?[*`)]*\s*$")
WORD = re.compile(r"([\w.+/-]+)[*`]*\s*$")
AXES = "#010203"
"""The colour of text and axes in pictures, for which the site writes that of the page, in the dark too."""


class PageError(Exception):
    """A page's code fails, or prints something else than the page says."""


@dataclass(frozen=True)
class Piece:
    """Something to run at `start` to `end` of the page: python, console, run, table or =; `shown` is what it prints."""

    kind: str
    code: str
    line: int
    start: int
    end: int
    shown: str | None = None
    named: str = ""


@dataclass
class Outcome:
    """What a piece printed, and its pictures as SVG."""

    text: str = ""
    pictures: list[str] = field(default_factory=list)


def pieces(text: str) -> list[Piece]:
    """What is to be run in a page, from top to bottom."""
    found, left_alone = [], False
    for match in PIECE.finditer(text):
        mark, language = match["mark"], match["language"]
        line = text.count("\n", 0, match.start()) + 1
        if mark == "not run:":
            left_alone = True
        elif mark:
            before = text[: match.start()][-80:]
            named = (NUMBER.search(before) or WORD.search(before) or [""])[0] if mark == "=" else ""
            found.append(Piece(mark, match["comment"].strip(), line, match.start(), match.end(), named=named.strip()))
        elif language in ("python", "console") and not left_alone:
            found.append(Piece(language, match["block"], line + 1, match.start(), match.end()))
        elif language == "text" and found and not text[found[-1].end : match.start()].strip():
            last = found.pop()
            found.append(Piece(last.kind, last.code, last.line, last.start, last.end, shown=match["block"]))
        left_alone = left_alone and not match["block"]
    return found


def names_of(code: str) -> tuple[set[str], set[str]]:
    """(made, used): names that code binds for what comes after it, and names that it takes from what was before."""
    top = symtable.symtable(code, "page", "exec")
    made = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    scopes, used = [top], set()
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        used |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (scope is top or s.is_global())}
    return made, used - made - set(dir(builtins)) - {"__file__", "__name__"}


def require_complete(path: Path) -> None:
    """Raise PageError where shown code uses a name that nothing shown above it makes, or a word looks like a tag."""
    text, known = path.read_text(), set()
    for piece in pieces(text):
        if piece.kind != "python":
            continue
        lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", piece.code, re.M)
        made, used = names_of("\n".join(lines) if re.search(r"^>>> ", piece.code, re.M) else piece.code)
        if used - known:
            names = ", ".join(sorted(used - known))
            raise PageError(f"{path.name}, line {piece.line}: the code uses {names}, which no code shown above makes.")
        known |= made
    for match in _tags(text):
        line = text.count("\n", 0, match.start()) + 1
        raise PageError(f"{path.name}, line {line}: browsers take {match[0]!r} for a tag; write `code`, or &lt; for <.")


def _tags(text):
    """What looks like a tag of HTML and is none, outside of code and comments."""
    words = _NO_WORDS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return [match for match in re.finditer(r"</?([A-Za-z][\w-]*)[^<>\n]*>", words) if match[1].lower() not in _HTML]


_NO_WORDS = re.compile(r"^(`{3,}|~{3,}).*?^\1 *$|<!--.*?-->|(`+)(?!`).*?(?<!`)\2(?!`)|\$[^$\n]+\$", re.S | re.M)
_HTML = set("a b br code details div em img kbd li ol p pre span strong sub summary sup ul".split())


def run(path: Path) -> dict:
    """The names of a page's session after all its pieces; what they print goes to standard output.

    For tests, in the current folder and with the settings of types that users have.
    """
    import jax

    require_complete(path)
    session = Session(path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for piece in pieces(path.read_text()):
            print(session.outcome(piece).text, end="")
    return session.names


class Session:
    """The names of one page, and how each kind of piece is run."""

    def __init__(self, path: Path):
        self.path = path
        self.names = {"__name__": "__main__", "__file__": str(path), "data": data}

    def outcome(self, piece: Piece) -> Outcome:
        """Run one piece; raises PageError where it fails or does not print what is shown."""
        kinds = {"python": self.python, "run": self.python, "console": self.console, "=": self.number}
        kinds["table"] = self.table
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                kinds[piece.kind](piece)
        except PageError:
            raise
        except BaseException as error:
            told = "".join(traceback.format_exception(error))
            raise PageError(f"{self.place(piece)} fails:\n{printed.getvalue()}{told}") from error
        text = printed.getvalue()
        if piece.shown is not None and not _same(piece.shown, text):
            raise PageError(f"{self.place(piece)} prints\n{text}\nwhere the page shows\n{piece.shown}")
        return Outcome(text, pictures())

    def place(self, piece):
        return f"{self.path.name}, line {piece.line}:"

    def python(self, piece):
        if re.search(r"^>>> ", piece.code, re.M):
            return self.dialogue(piece)
        code = compile("\n" * (piece.line - 1) + piece.code, str(self.path), "exec", dont_inherit=True)
        exec(code, self.names)

    def dialogue(self, piece):
        flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
        told = io.StringIO()
        test = doctest.DocTestParser().get_doctest(piece.code, self.names, self.path.name, str(self.path), piece.line)
        test.globs = self.names
        runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
        if runner.run(test, out=told.write, clear_globs=False).failed:
            raise PageError(f"{self.place(piece)}\n{told.getvalue()}")

    def console(self, piece):
        """Each command with what it prints; a command's `# exit code N` is the one that it is to end with."""
        from dftfd.cli import main

        for line in piece.code.replace("\\\n", " ").splitlines():
            if not line.startswith("$ "):
                continue
            command, _, remark = line[2:].partition("  #")
            expected = int(found[1]) if (found := re.search(r"exit code (\d+)", remark)) else 0
            words = shlex.split(command)
            if words[0] == "dftfd" and not re.search(r"[|<>&;*]", re.sub(r"'.*?'|\".*?\"", "", command)):
                with contextlib.redirect_stderr(sys.stdout):
                    code = main(words[1:])
            else:
                path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
                settings = os.environ | {"PATH": path}
                ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=settings)
                code = ran.returncode
                print(ran.stdout + ran.stderr, end="")
            if code != expected:
                told = f"{command!r} ends with exit code {code}, not {expected}"
                raise PageError(f"{self.place(piece)} {told}\n{sys.stdout.getvalue()}")

    def number(self, piece):
        value = eval(compile(piece.code, str(self.path), "eval"), self.names)
        if not agrees(piece.named, value):
            raise PageError(f"{self.place(piece)} the page says {piece.named or 'nothing'}, {piece.code} is {value}")

    def table(self, piece):
        from tests.verification import tables

        print(eval(compile(piece.code, str(self.path), "eval"), vars(tables)))


def agrees(named: str, value) -> bool:
    """Whether a number or word in a text is `value`; a number to the last digit that is written."""
    number = NUMBER.search(named)
    if number is None or isinstance(value, str):
        return bool(named) and named.strip("*` ") == str(value)
    written = number[1].replace(",", "")
    mantissa, _, exponent = written.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(written) - float(value)) <= 0.5 * unit * (1 + 1e-6) + 1e-12 * abs(float(value))


def data(name: str):
    """The content of data/NAME, a JSON file: the numbers that a page names come from there."""
    return json.loads((ROOT / "data" / name).read_text())


def pictures() -> list[str]:
    """The open figures as SVG, which are closed; text has the colour of the page around it."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    import matplotlib.pyplot as plt

    found = []
    for number in plt.get_fignums():
        stream, figure = io.StringIO(), plt.figure(number)
        if not figure.get_label():
            raise PageError('a picture needs words for those who do not see it: plt.figure("what it shows").')
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        svg = stream.getvalue().replace(AXES, "currentColor")
        words = html.escape(figure.get_label(), quote=True)
        found.append(f'<svg role="img" aria-label="{words}" ' + svg[svg.index("<svg") + 5 :])
    plt.close("all")
    return found


def _same(shown, printed):
    tidy = lambda text: "\n".join(line.rstrip() for line in text.strip().splitlines())
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(tidy(shown) + "\n", tidy(printed) + "\n", flags)


# ------------------------------------------------------------------------------------------------- outcomes, kept


def outcomes(path: Path) -> list[Outcome]:
    """What came of each piece of a page: kept where nothing has changed since, else from a process of its own."""
    found = pieces(path.read_text())
    if not found:
        return []
    kept = KEPT / f"{path.stem}-{_key(found)}.json"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.verification.pages", str(path), str(kept)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode:
            raise PageError(ran.stdout + ran.stderr)
    return [Outcome(**outcome) for outcome in json.loads(kept.read_text())]


def _key(found):
    """The hash of whatever decides what comes of these pieces."""
    digest = hashlib.sha256(_sources().encode())
    for piece in found:
        digest.update(repr((piece.kind, piece.code, piece.shown, piece.named)).encode())
    named = {ROOT / "data" / name for piece in found for name in re.findall(r"data\(\"([^\"]+)\"\)", piece.code)}
    named |= {ROOT / name for piece in found for name in re.findall(r"examples/[\w./-]+\.\w+", piece.code)}
    if any("charts" in piece.code for piece in found):
        folders = ("benchmarks", "reliability", "regression")
        named |= {path for folder in folders for path in (ROOT / "data" / folder).iterdir()}
        named.add(Path(__file__).with_name("charts.py"))
    if any(piece.kind == "table" for piece in found):
        named |= {*(ROOT / "data").rglob("*"), *Path(__file__).parent.glob("*.py")}
    for path in sorted(path for path in named if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


@cache
def _sources() -> str:
    """The hash of dftfd's own sources, of this module, and of the packages' versions."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for folder in ("dftfd", "functionals", "grids"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update(repr([version(name) for name in ("jax", "numpy", "scipy", "pyscf", "matplotlib")]).encode())
    return digest.hexdigest()


def main(page: str, target: str) -> int:
    """Run a page in a folder of its own and write what came of it."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    import matplotlib

    text = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), AXES)
    style = {"svg.hashsalt": page, "font.size": 11, "axes.spines.top": False, "axes.spines.right": False}
    matplotlib.rcParams.update(text | style | {"figure.constrained_layout.use": True, "legend.frameon": False})
    path, target = Path(page).resolve(), Path(target).resolve()
    try:
        require_complete(path)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    sys.argv = [str(path)]  # of scripts that a page runs
    session, found = Session(path), []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "data"):
            (Path(folder) / name).symlink_to(ROOT / name)
        os.chdir(folder)
        try:
            for piece in pieces(path.read_text()):
                found.append(session.outcome(piece))
        except PageError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            os.chdir(ROOT)
    beside = target.with_suffix(".part")
    beside.write_text(json.dumps([asdict(outcome) for outcome in found]))
    beside.replace(target)
    return 0


if __name__ == "__main__":
    # as an imported module, so that processes started by a page find a plain main module
    from tests.verification import pages

    sys.exit(pages.main(*sys.argv[1:]))
