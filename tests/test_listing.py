"""dftfd list and dftfd cache: what they say, that the file behind the list is true, that nothing is loaded for it."""

import json
import os
import subprocess
import sys
import time

import pytest

from dftfd.cli import main
from dftfd.cli.listing import INDEX, known_functionals
from dftfd.errors import InputError
from dftfd.functionals import catalogue
from dftfd.functionals.registry import _library
from tests.verification import functional_index


@pytest.fixture
def said(capsys):
    def run(*words):
        code = main(list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def test_the_index_holds_every_name():
    """Of the library and of the catalogue, no other."""
    index = json.loads(INDEX.read_text())
    assert index["own"].keys() == _library
    assert list(index["libxc"]) == catalogue.names()


@pytest.mark.parametrize("name", ["pbe0", "gga_x_pbe", "lda_c_pw", "hf", "scanl", "vv10", "lb94", "gga_k_tfvw"])
def test_rows_are_what_the_functionals_say(name):
    rows = json.loads(INDEX.read_text())["own"]
    assert rows[name] == functional_index.row_of(name, functional_index.years())


@pytest.mark.slow
def test_all_rows_are_what_the_functionals_say():
    assert json.loads(INDEX.read_text()) == json.loads(json.dumps(functional_index.index()))


def test_filters(said):
    """Each keeps what it names; sources, years and shares of exact exchange are the literature's."""
    rows = known_functionals()
    assert rows["gga_x_pbe"]["year"] == 1996 and rows["gga_x_pbe"]["doi"] == ["10.1103/PhysRevLett.77.3865"]
    assert rows["pbe0"]["exact_exchange"] == [[0.0, 0.25]] and rows["pbe0"]["kind"] == "exchange-correlation"
    assert rows["r2scan"]["uses"] == ["rho", "sigma", "tau"] and rows["scanl"]["family"] == "meta-GGA"
    code, out, err = said("list", "pbe", "--hybrid", "--family", "gga")
    names = out.split()
    assert (code, err) == (0, "") and "pbe0" in names and not {"pbe", "gga_x_pbe", "hf"} & set(names)
    assert "scanl" in said("list", "scan", "--uses", "lapl")[1].split()
    assert "r2scan" not in said("list", "--uses", "lapl")[1].split()
    assert "pbe" not in said("list", "--since", "2010")[1].split()
    long = next(line for line in said("list", "--long")[1].splitlines() if line.startswith("pbe0 "))
    assert "GGA, exchange-correlation, " in long and "+25% exact exchange" in long and "doi:10." in long
    assert json.loads(said("list", "gga_x_pbe", "--json")[1])["gga_x_pbe"] == rows["gga_x_pbe"]
    assert (
        said("list", "--family", "MGGA", "--kind", "x")[1]
        == said("list", "--family", "meta-gga", "--kind", "exchange")[1]
    )
    code, _, err = said("list", "--family", "mega-gga")
    assert code == 2 and "meta-GGA" in err and err.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list", "--long"]])
def test_nothing_is_loaded_for_help_and_list(words):
    """JAX and PySCF take a second."""
    code = (
        f"import sys; sys.argv = sys.orig_argv = ['dftfd', *{words!r}]\n"
        "from dftfd.cli import main\n"
        "code = main()\n"
        "print(code, {'jax', 'pyscf', 'scipy', 'h5py'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "0 set()\n" and len(done.stdout.splitlines()) > 5


def test_cache_shows_and_clears(said, tmp_path, monkeypatch):
    """Number, size, age; --older-than removes by the time of the last use, --clear all; other files stay."""
    monkeypatch.setenv("DFTFD_CACHE_DIR", str(tmp_path))
    assert said("cache") == (0, f"0 programs, 0 MB of at most 1000 MB, in {tmp_path}\n", "")
    for days, name in ((10, "a-cache"), (1, "b-cache"), (30, "notes")):
        (tmp_path / name).write_bytes(b"x" * 2_000_000)
        os.utime(tmp_path / name, (time.time() - 86400 * days,) * 2)
    assert "2 programs, 4 MB" in said("cache")[1] and "used 10.0 days ago" in said("cache")[1]
    assert said("cache", "--older-than", "5")[1].startswith("1 programs removed, 2 MB\n1 programs, 2 MB")
    assert said("cache", "--clear")[1].startswith("1 programs removed")
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    code, _, err = said("cache", "--older-than", "-1")
    assert code == 2 and "number of days" in err
    monkeypatch.setenv("DFTFD_CACHE_DIR", "")
    assert "no compiled programs are kept" in said("cache")[1]


def test_programs_that_nobody_uses_go(tmp_path, monkeypatch):
    """At the first program that is written, whatever the size."""
    from dftfd.runtime import compilation_cache

    old, new = tmp_path / "old-cache", tmp_path / "new-cache"
    for path, days in ((old, 91), (new, 89)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - 86400 * days,) * 2)
    compilation_cache._make_room(tmp_path)
    assert new.exists() and not old.exists()
    monkeypatch.setenv("DFTFD_CACHE_DAYS", "none")
    with pytest.raises(InputError, match="DFTFD_CACHE_DAYS='none': a positive number of days"):
        compilation_cache._make_room(tmp_path)
