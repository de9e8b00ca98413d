"""What each test costs, which tests have passed, and which part of them this run takes.

Options of pytest that this file adds:

--ledger=FILE   one line of JSON per finished test: outcome, processor time [s] with child processes, wall time [s],
                programs compiled by XLA, processes started; before them one that counts the tests that were asked for
--resume        leave out what passed according to FILE in the same environment, with this code or with another commit
                from which nothing has changed that the test could see: other tests, pages and data that it never names
--shard K/N     take the K-th of N parts; parts are whole files, balanced by data/reliability/durations.json
"""

import ast
import functools
import hashlib
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from importlib.metadata import distributions, version
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[1]
DURATIONS = ROOT / "data" / "reliability" / "durations.json"
COMPILED = "/jax/core/compile/backend_compile_duration"
MADE = {COMPILED: "compiling", "/jax/core/compile/jaxpr_trace_duration": "tracing"}
MADE["/jax/core/compile/jaxpr_to_mlir_module_duration"] = "tracing"
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty"}  # since Python 3.13 Popen calls os.posix_spawn, too
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "pyscf", "pytest")
_counts = {"compilations": 0, "processes": 0, "compiling": 0.0, "tracing": 0.0}


def _count_compilation(name, seconds, **_):
    _counts["compilations"] += name == COMPILED
    if name in MADE:
        _counts[MADE[name]] += seconds


def _count_process(event, _, counts=_counts, starts=STARTS):  # of its own: it outlives the module's names at the end
    counts["processes"] += event in starts


jax.monitoring.register_event_duration_secs_listener(_count_compilation)
sys.addaudithook(_count_process)


def environment() -> dict[str, str]:
    """Versions and machine, in so far as an outcome may depend on them."""
    return {
        "python": platform.python_version(),
        "machine": processor(),
        "programs": "quick" if os.environ.get("DFTFD_QUICK_PROGRAMS") else "full",
        **packages(),
    }


@functools.cache
def packages() -> dict[str, str]:
    """Versions of PACKAGES, and a fingerprint of all that are installed."""
    found = [about.metadata for about in distributions()]
    all_of_them = " ".join(sorted(f"{about['Name']} {about['Version']}" for about in found))
    digest = hashlib.sha256(all_of_them.encode()).hexdigest()[:12]
    return {**{name: version(name) for name in PACKAGES}, "all packages": digest}


def processor() -> str:
    """Name and model number of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    found = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return f"{found.get('model name', platform.machine()).strip()} (model {found.get('model', '?').strip()})"


def code() -> str:
    """The commit, with a fingerprint of what differs from it; without git a fingerprint of the sources."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
    try:
        commit, changes = git("rev-parse", "HEAD").decode().strip(), git("diff", "HEAD")
        new = [
            ROOT / os.fsdecode(name) for name in git("ls-files", "-o", "--exclude-standard", "-z").split(b"\0") if name
        ]
    except (OSError, subprocess.CalledProcessError):
        commit, changes = "unknown", b""
        new = [
            path for part in ("dftfd", "functionals", "grids", "tests") for path in sorted((ROOT / part).rglob("*.py"))
        ]
    if not (changes or new):
        return commit
    digest = hashlib.sha256(changes)
    for path in new:
        digest.update(path.read_bytes())
    return f"{commit}+{digest.hexdigest()[:12]}"


def key() -> str:
    """One text for the code and its environment: outcomes with another key say nothing about this run."""
    return hashlib.sha256(json.dumps([code(), environment()], sort_keys=True).encode()).hexdigest()[:16]


def holds(line: dict, code_now: str, environment_now: dict) -> bool:
    """Whether the outcome of a line is that of this code, too: nothing that its test could see has changed."""
    if line.get("environment") != environment_now:
        return False
    file = line["test"].split("::")[0]
    return line["code"] == code_now or not any(may_see(file, path) for path in changed(line["code"], code_now))


LOOKS_AROUND = re.compile(r"(?<!tmp_path\.)\b(?:r?glob|iterdir|listdir|os\.walk)\((?!tmp_path)|ls-files")
"""What a module has that goes through folders, as the tests of the project's own files do: it may see every file."""
NAMES_TESTS = re.compile(r"[\"']tests[\"']|\btests/|ls-files|\b(?:ROOT|HERE)\.r?glob\(")


@functools.cache
def changed(before: str, now: str) -> frozenset[str]:
    """Files that differ between two commits; with changes that are in neither, all of them."""
    words = ["git", "diff", "--name-only", "--no-renames", "-z", before, now]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return frozenset({"unknown"} if found.returncode else filter(None, found.stdout.split("\0")))


def may_see(file: str, path: str) -> bool:
    """Whether the outcome of the tests of a file may depend on a file of the project: said too often, never too rarely.

    Modules of tests are seen where they are imported, or where a module that goes through folders names theirs; pages
    and data where words of theirs stand in these modules.
    """
    if path == "tests/ledger.py":
        return False  # it counts
    modules, words = _imported(file)
    if LOOKS_AROUND.search(words) and (not path.startswith("tests/test_") or NAMES_TESTS.search(words)):
        return True
    runs_others = any(word in words for word in ("examples", "verification", "docs"))
    if path.endswith(".md") or path.startswith("docs/"):
        return runs_others or any(word in words for word in (".md", "README", "CHANGELOG"))
    if path.startswith("data/"):
        return runs_others or Path(path).parts[1] in words
    if path.startswith("tests/") and path.endswith(".py"):
        of_all = Path(path).name in ("__init__.py", "conftest.py", "budgets.py", "order.py")
        return of_all or path in modules or ("verification" in path and runs_others)
    return True


@functools.cache
def _imported(file: str) -> tuple[frozenset[str], str]:
    """The modules below tests/ that a file imports, directly or not, itself included, and their text."""
    found, left = {}, [file]
    while left:
        path = left.pop()
        if path in found or not (ROOT / path).is_file():
            continue
        found[path] = (ROOT / path).read_text()
        for node in ast.walk(ast.parse(found[path])):
            names = [alias.name for alias in getattr(node, "names", ())] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            tails = [name.replace(".", "/") for name in names if name.startswith("tests.")]
            left += [tail + end for tail in tails for end in (".py", "/__init__.py", "/__main__.py")]
    return frozenset(found), "\n".join(found.values())


def entries(file) -> list[dict]:
    """The lines of a ledger; a last line that was cut short by a kill is left out."""
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    found = []
    for number, line in enumerate(lines):
        try:
            found.append(json.loads(line))
        except ValueError:
            if number != len(lines) - 1:
                raise
    return found


def shares(files: dict[str, float], parts: int) -> list[set[str]]:
    """`parts` sets of files of about equal cost: the dearest file first, always to the part with least so far."""
    taken, cost = [set() for _ in range(parts)], [0.0] * parts
    for file in sorted(files, key=lambda name: (-files[name], name)):
        least = cost.index(min(cost))
        taken[least].add(file)
        cost[least] += files[file]
    return taken


def expected(tests: list[str], known: dict[str, float]) -> dict[str, float]:
    """Processor seconds of tests: those known, else the mean of other cases of the same test, else half a second."""
    cases: dict[str, list[float]] = {}
    for test, seconds in known.items():
        cases.setdefault(test.split("[")[0], []).append(seconds)
    mean = {name: sum(seconds) / len(seconds) for name, seconds in cases.items()}
    return {test: known.get(test, mean.get(test.split("[")[0], 0.5)) for test in tests}


def pytest_addoption(parser):
    group = parser.getgroup("ledger")
    group.addoption("--ledger", help="file with one line per finished test")
    group.addoption("--resume", action="store_true", help="leave out what passed according to the ledger")
    group.addoption("--shard", help="K/N: the K-th of N parts of the tests")


def pytest_configure(config):
    if config.getoption("ledger") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ledger(Path(config.getoption("ledger"))), "dftfd-ledger")


@pytest.hookimpl(trylast=True)  # behind -m and -k, whose tests alone are counted and shared out
def pytest_collection_modifyitems(config, items):
    file, worker = config.getoption("ledger"), getattr(config, "workerinput", {})
    now = worker.get("ledger key") or (key() if file else None)
    if file and worker.get("workerid", "gw0") == "gw0":
        _append(Path(file), {"key": now, "asked for": len(items)})
    left_out = []
    if config.getoption("shard"):
        left_out += _other_shards(config.getoption("shard"), items)
    if config.getoption("resume") and file:
        here = worker.get("code") or code(), environment()
        passed = {line["test"] for line in entries(file) if line.get("outcome") == "passed" and holds(line, *here)}
        left_out += [item for item in items if item.nodeid in passed]
    if left_out:
        gone = set(map(id, left_out))
        config.hook.pytest_deselected(items=[item for item in items if id(item) in gone])
        items[:] = [item for item in items if id(item) not in gone]


def _append(file, line):
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.write(json.dumps(line) + "\n")


def _other_shards(text, items):
    part, parts = (int(word) for word in text.split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--shard {text}: expected K/N with 1 <= K <= N")
    known = json.loads(DURATIONS.read_text())["tests"] if DURATIONS.exists() else {}
    cost: dict[str, float] = {}
    for test, seconds in expected([item.nodeid for item in items], known).items():
        file = test.split("::")[0]
        cost[file] = cost.get(file, 0.0) + seconds
    mine = shares(cost, parts)[part - 1]
    return [item for item in items if item.nodeid.split("::")[0] not in mine]


class Ledger:
    """Writes a line for each test that has ended; lives in the process that sees all reports."""

    def __init__(self, file):
        self.file, self.key, self.outcomes = file, key(), {}
        self.of_the_run = {"code": code(), "environment": environment()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput |= {"ledger key": self.key, "code": self.of_the_run["code"]}

    def pytest_runtest_logreport(self, report):
        worst = ("passed", "skipped", "failed")
        outcome, why = self.outcomes.get(report.nodeid, ("passed", None))
        if worst.index(report.outcome) > worst.index(outcome):
            outcome, why = report.outcome, reason(report.longrepr)
        self.outcomes[report.nodeid] = outcome, why
        if report.when in ("setup", "call"):  # what remains is the teardown, or that the worker died
            return
        line = {
            "key": self.key,
            "test": report.nodeid,
            "outcome": outcome,
            **dict(report.user_properties).get("cost", {}),
        }
        _append(self.file, {**line, **self.of_the_run, **({"why": why} if why else {})})


def reason(longrepr) -> str:
    """Why a test did not pass, in one line: what a skip lacks, or where a failure is and the first line it says."""
    if isinstance(longrepr, tuple):
        return longrepr[2].removeprefix("Skipped: ")
    crash = getattr(longrepr, "reprcrash", None)
    if crash is None:
        return str(longrepr).splitlines()[-1].replace(f"{ROOT}/", "")
    message = (crash.message.splitlines() or [""])[0].replace(f"{ROOT}/", "")
    return f"{os.path.relpath(crash.path, ROOT)}:{crash.lineno}: {message[:300]}"


def _now():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = time.process_time() + children.ru_utime + children.ru_stime
    return {"cpu": cpu, "wall": time.monotonic(), **_counts}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    item.cost_before = _now()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        after = _now()
        cost = {name: round(after[name] - before, 3) for name, before in item.cost_before.items()}
        report.user_properties.append(("cost", cost))
    return report
