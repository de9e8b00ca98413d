"""The ledger of the tests: what it counts, what is left out when a run goes on, and how shards share the work."""

import json
import re
import subprocess

import pytest

from tests import budgets, ledger, order
from tests.verification import suite

pytest_plugins = ["pytester"]

SOME = """
import os, pytest, subprocess, sys
def test_right(): pass
def test_wrong(): assert os.path.exists("mended")
def test_left_out(): pytest.skip("lacks a thing")
def test_process(): subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
def test_compiled():
    import jax
    jax.jit(lambda x: x * 3.25 + 1)(2.0)
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs SOME with options, within this process unless `apart`; the ledger's lines."""
    pytester.makepyfile(test_some=SOME)
    pytester.makepyfile(
        conftest=f"import sys; sys.path.insert(0, {str(ledger.ROOT)!r})\npytest_plugins = ['tests.ledger']"
    )

    def go(*options, apart=False, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        go.result = start("-p", "no:randomly", "--ledger", "out.jsonl", *options)
        lines = ledger.entries(pytester.path / "out.jsonl")
        asked_for.append([line["asked for"] for line in lines if "asked for" in line][-1])
        return [line for line in lines if "test" in line]

    asked_for = go.asked_for = []
    return go


def test_a_line_for_each_test_with_its_cost_and_a_run_that_goes_on(run, pytester):
    lines = {line["test"].split("::")[1]: line for line in run(DFTFD_QUICK_PROGRAMS="")}
    assert {name: line["outcome"] for name, line in lines.items()} == {
        "test_right": "passed", "test_wrong": "failed", "test_left_out": "skipped", "test_process": "passed",
        "test_compiled": "passed",
    }  # fmt: skip
    assert (
        lines["test_left_out"]["why"] == "lacks a thing"
        and "test_some.py:3: AssertionError: assert False" in lines["test_wrong"]["why"]
    )
    assert lines["test_process"]["processes"] == 1 and lines["test_process"]["cpu"] > 0.01  # the child's
    assert lines["test_right"]["processes"] == lines["test_right"]["compilations"] == 0
    assert lines["test_compiled"]["compilations"] >= 1 and lines["test_compiled"]["compiling"] > 0

    (pytester.path / "mended").touch()
    again = run("--resume")[len(lines) :]
    assert {line["test"].split("::")[1]: line["outcome"] for line in again} == {
        "test_wrong": "passed", "test_left_out": "skipped",
    }  # fmt: skip

    few = run("--resume", "-k", "left_out")
    assert len(few) == len(lines) + len(again) + 1 and run.asked_for == [
        5,
        5,
        1,
    ]  # counted before what passed is left out

    others = run("--resume", DFTFD_QUICK_PROGRAMS="1")[len(few) :]  # of another environment
    assert len(others) == len(lines)


def test_shards_hold_each_file_once_and_cost_about_the_same():
    costs = {f"file {i}": float(i % 7 + 1) for i in range(60)}
    parts = ledger.shares(costs, 4)
    assert sorted(name for part in parts for name in part) == sorted(costs)
    totals = [sum(costs[name] for name in part) for part in parts]
    assert max(totals) - min(totals) <= 7.0


def test_a_test_that_is_not_known_costs_what_its_other_cases_do():
    known = {"a.py::x[1]": 2.0, "a.py::x[2]": 4.0, "a.py::y": 9.0}
    assert ledger.expected(["a.py::x[1]", "a.py::x[3]", "b.py::z"], known) == {
        "a.py::x[1]": 2.0, "a.py::x[3]": 3.0, "b.py::z": 0.5,
    }  # fmt: skip


def test_an_outcome_holds_until_something_changes_that_the_test_sees(tmp_path, monkeypatch):
    """Commits of a repository of a few files: the library, conftest and what a test imports, names or goes through."""
    git = lambda *words: subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=tmp_path, capture_output=True, check=True
    ).stdout.decode()
    texts = {
        "tests/test_a.py": "from tests import tool\nFILE = 'reference/a.json'\n",
        "tests/tool.py": "import tests.deep\n", "tests/deep.py": "", "tests/test_b.py": "PAGE = 'docs'\n",
        "tests/conftest.py": "", "tests/ledger.py": "", "dftfd/x.py": "", "data/reference/a.json": "",
        "data/other/b.json": "", "README.md": "", "tests/test_c.py": "FILES = sorted(HERE.glob('*.py'))\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def commit():
        git("add", ".")
        git("commit", "-qm", "one")
        return git("rev-parse", "HEAD").strip()

    git("init", "-q")
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    ledger._imported.cache_clear()
    first, here = commit(), {"python": "3"}
    line = lambda of: {"test": f"tests/test_{of}.py::x", "code": first, "environment": here}
    assert ledger.holds(line("a"), first, here) and not ledger.holds(line("a"), first, {"python": "4"})
    seen = {
        "tests/test_a.py": "ac", "tests/tool.py": "ac", "tests/deep.py": "ac", "tests/test_b.py": "bc",
        "dftfd/x.py": "abc", "data/reference/a.json": "abc", "data/other/b.json": "bc", "README.md": "bc",
        "tests/conftest.py": "abc", "tests/ledger.py": "", "tests/test_c.py": "c",
    }  # fmt: skip
    for name, by in seen.items():
        (tmp_path / name).write_text(texts[name] + "# more\n")
        now = commit()
        assert {of for of in "abc" if not ledger.holds(line(of), now, here)} == set(by), name
        git("checkout", "-q", first)
    assert not ledger.holds(line("a"), first + "+changes", here) and not ledger.holds(line("a"), "unknown", here)
    ledger._imported.cache_clear()


def test_a_line_cut_short_by_a_kill_is_left_out_and_a_broken_one_is_not(tmp_path):
    (tmp_path / "out").write_text('{"test": "a"}\n{"te')
    assert ledger.entries(tmp_path / "out") == [{"test": "a"}]
    (tmp_path / "out").write_text('{"te\n{"test": "a"}\n')
    with pytest.raises(ValueError):
        ledger.entries(tmp_path / "out")


def test_the_report_counts_the_newest_line_of_each_test_of_one_code():
    line = lambda test, outcome, cpu, key="new", **more: {
        "key": key, "code": "c0ffee", "environment": {"python": "3"},
        "test": test, "outcome": outcome, "cpu": cpu, **more,
    }  # fmt: skip
    lines = [
        line("a.py::x", "failed", 9.0, "old"),
        line("a.py::x", "failed", 1.0),
        line("b.py::y", "skipped", 2.0, why="no z"),
    ]
    lines = [{"key": "old", "asked for": 9}, *lines, {"key": "new", "asked for": 3}, line("a.py::x", "passed", 3.0)]
    found = suite.report(*suite.newest(lines))
    assert (found["tests"], found["passed"], found["failed"], found["skipped"], found["cpu"]) == (2, 1, 0, 1, 5.0)
    assert found["not passed"] == {"b.py::y": "no z"} and "2 of 3: 1 passed, 0 failed, 1 skipped" in suite.text(found)
    assert json.loads(json.dumps(found)) == found


def test_a_test_that_ends_its_worker_has_failed(tmp_path):
    """xdist reports such a test once, with neither cost nor phase."""
    file = tmp_path / "out"
    died = pytest.TestReport("a.py::x", ("a.py", None, "a.py"), {}, "failed", "worker 'gw0' crashed", "???")
    ledger.Ledger(file).pytest_runtest_logreport(died)
    found = suite.report(*suite.newest(ledger.entries(file)))
    assert found["failed"] == 1 and "crashed" in suite.text(found)
    assert suite.durations(ledger.entries(file), {"tests/test_ledger.py::run": 2.0, "a.py::x": 1.0})["tests"] == {
        "tests/test_ledger.py::run": 2.0
    }


def test_a_test_and_a_file_over_their_budgets_are_named():
    cost = lambda cpu, compiling=0.0, compilations=0: {"cpu": cpu, "compiling": compiling, "compilations": compilations}
    usual, more = budgets.SLACK * budgets.SECONDS, budgets.SLACK * budgets.TESTS["test_fit.py"][0]
    costs = {
        "tests/test_x.py::test_right": cost(usual + 0.9, 1.0, budgets.PROGRAMS),
        "tests/test_x.py::test_wrong": cost(usual + 1.1, 1.0, 1),
        "tests/test_fit.py::test_right": cost(more - 0.1),
        "tests/test_fit.py::test_wrong[7]": cost(more + 0.1),
    }
    over = budgets.exceeded(costs, 1.0)
    assert [line.split(": ")[0] for line in over] == [
        "tests/test_x.py::test_wrong", "tests/test_fit.py::test_wrong[7]", "tests/test_x.py",
    ]  # fmt: skip
    assert budgets.exceeded(costs, 2.0) == over[-1:]  # a machine of half the speed
    assert not budgets.exceeded(costs, 1.0, budgets.FAILS)


def test_make_writes_options_and_their_files_as_one_word():
    """Before pytest knows these options it takes a file behind a blank for tests: the second `make test` ended so."""
    text = (ledger.ROOT / "Makefile").read_text()
    assert len(re.findall("--(?:ledger|shard)=", text)) == 3 and not re.search("--(?:ledger|shard|order)[ \\t]", text)


def test_exceptions_from_the_budgets_name_tests_that_exist():
    tests = {name.removeprefix("tests/") for name in json.loads(ledger.DURATIONS.read_text())["tests"]}
    for start in (*budgets.TESTS, *budgets.FILES):
        assert any(name.startswith(start) for name in tests), start


MANY = """
import pytest
@pytest.mark.one_in(3)
@pytest.mark.parametrize("x", [0, *(pytest.param(x, marks=pytest.mark.slow) for x in range(1, 8))])
def test_many(x): pass
"""


def test_three_days_have_all_cases_and_each_day_what_is_not_slow(pytester, monkeypatch):
    pytester.makepyfile(MANY)

    def asked(night, *options):
        monkeypatch.setattr(order, "EVERY_DAY", night == "all")
        monkeypatch.setattr(order, "NIGHT", night)
        lines = pytester.runpytest_inprocess("-p", "tests.order", "--collect-only", "-q", *options).outlines
        return {int(line.split("[")[1][:-1]) for line in lines if "test_many[" in line}

    days = [asked(night) for night in (7, 8, 9, 10)]
    assert [sum(x in day for day in days[:3]) for x in range(8)] == [3, *[1] * 7]
    assert days[0] == days[3] and all(len(day) <= 4 for day in days)
    assert asked("all") == set(range(8)) and asked(7, "-k", "many") == set(range(8))


@pytest.mark.slow  # 3 s, pytest in a process; what is over budget: two tests above
def test_a_run_over_budget_fails(run, pytester):
    """What takes no time here has a budget of nothing."""
    conftest = pytester.path / "conftest.py"
    conftest.write_text(
        conftest.read_text()
        + "\npytest_plugins += ['tests.budgets']\nimport tests.budgets\ntests.budgets.SECONDS = -1.0"
    )
    (pytester.path / "mended").touch()
    run("--budgets", apart=True)
    assert run.result.ret == 1
    run.result.stdout.fnmatch_lines(["*over budget*", "*test_right: 0.0 s of processor time*"])
