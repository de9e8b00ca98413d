"""dftfd list and dftfd cache: what they say, that the file behind the list is true, that nothing is loaded for it."""

import json
import os
import re
import subprocess
import sys
import time

import jax
import pytest

import dftfd
from dftfd.cli import main
from dftfd.cli.installation import known_functionals
from dftfd.errors import FunctionalError, InputError
from dftfd.functionals import catalogue
from dftfd.functionals.registry import _library
from tests.sample import sample
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
    index = json.loads(functional_index.INDEX.read_text())
    assert index["own"].keys() == _library
    assert list(index["libxc"]) == catalogue.names()


@pytest.mark.parametrize(
    "name",
    [
        "pbe0",
        "gga_x_pbe",
        "lda_c_pw",
        "hf",
        pytest.param("scanl", marks=pytest.mark.slow),
        "vv10",
        "lb94",
        "gga_k_tfvw",
    ],
)
def test_rows_are_what_the_functionals_say(name):
    rows = json.loads(functional_index.INDEX.read_text())["own"]
    assert rows[name] == functional_index.row_of(name, functional_index.years())


@pytest.mark.slow
def test_all_rows_are_what_the_functionals_say():
    assert json.loads(functional_index.INDEX.read_text()) == json.loads(json.dumps(functional_index.index()))


PAPERS = {
    "10.1021/j100096a001": (1994, "b3lyp b3lyp5"),
    "10.1016/j.cplett.2004.06.011": (2004, "camb3lyp"),
    "10.1063/1.478522": (1999, "pbe0"),
    "10.1063/1.2148954": (2006, "b2plyp"),
    "10.1021/acs.jpca.9b03157": (2019, "revdsd_pbep86"),
    "10.1063/1.1626543": (2003, "tpssh"),
    "10.1063/1.4940734": (2016, "scan0"),
    "10.1063/5.0086040": (2022, "r2scan0"),
    "10.1063/1.2404663": (2006, "hse06"),
    "10.1063/1.2409292": (2006, "lcwpbe"),
    "10.1021/jp050536c": (2005, "pw6b95"),
    "10.1007/s00214-007-0310-x": (2008, "m062x"),
    "10.1063/1.2834918": (2008, "wb97 wb97x"),
    "10.1039/c3cp54374a": (2014, "wb97xv"),
    "10.1063/1.4952647": (2016, "wb97mv"),
    "10.1063/1.4907719": (2015, "b97mv"),
    "10.1063/1.2429058": (2007, "lh07t_svwn"),
    "10.1103/PhysRevLett.92.246401": (2005, "vdw_df"),
    "10.1103/PhysRevB.82.081101": (2010, "vdw_df2"),
    "10.1103/PhysRevLett.80.890": (1998, "revpbe"),
    "10.1103/PhysRevB.59.7413": (1999, "rpbe"),
    "10.1063/1.475428": (1998, "mpw91"),
}
"""The paper that a combination is from, of Kohn-Sham DFT's literature; 2005 is the year of vdW-DF's erratum."""
SUMS = {"svwn", "spw92", "blyp", "bp86", "bpbe", "olyp", "opbe", "hflyp", "hfpw92", "lc_lh07t_svwn"}
"""Names that say the papers of both terms, and have none of their own."""
ONE_PAPER = {"pbe", "pbesol", "pw91", "tpss", "revtpss", "scan", "rscan", "r2scan", "scanl", "r2scanl", "m06l", "mn15l"}
MODELS = {"lb94", "tb09", "bj06"}


def test_combinations_are_cited_by_their_own_papers():
    """Each name of several terms or with exact exchange: the first source is the combination's, not its first term's;
    no combination is without a verdict here."""
    expected = {name: (doi, year) for doi, (year, names) in PAPERS.items() for name in names.split()}
    rows, judged = json.loads(functional_index.INDEX.read_text())["own"], {*expected, *SUMS, *ONE_PAPER, *MODELS}
    for name, (doi, year) in expected.items():
        assert (rows[name]["doi"][0], rows[name]["year"]) == (doi, year), name
        assert dftfd.get_functional(name).dois[0] == doi
    for name in SUMS:
        terms = [term for _, term in dftfd.get_functional(name).terms]
        assert {term.doi for term in terms} == set(rows[name]["doi"]), name
    for name in ONE_PAPER:
        assert len(rows[name]["doi"]) == 1, name
    plain = lambda name: re.sub("^(hyb_)?(m?gga|lda)_xc?_", "", name).replace("_", "").replace("pbeh", "pbe0")
    seen = {plain(name) for name in judged}
    for name, f in ((name, dftfd.get_functional(name)) for name in _library - {"hf"}):
        if len(f.terms) > 1 or f.exact_exchange:
            assert plain(name) in seen, f"{name}: which paper is it from?"


def test_a_combination_of_ones_own_has_its_paper(said):
    """Through changed parameters and JAX's trees; sums with others do not take it along; the printed line has all."""
    mine = dftfd.register(dftfd.get_functional("b88,lyp"), "cited_blyp", doi="10.1000/mine")
    parts = ("10.1103/PhysRevA.38.3098", "10.1103/PhysRevB.37.785")
    assert mine.dois == ("10.1000/mine", *parts) and mine.with_parameters(beta=0.004).dois == mine.dois
    leaves, tree = jax.tree_util.tree_flatten(mine)
    assert jax.tree_util.tree_unflatten(tree, leaves).dois == mine.dois
    assert "10.1000/mine" not in (mine + dftfd.exact_exchange).dois
    for wrong in ("", "doi:10.1000/mine", 10.1000, ["10.1000/mine"]):
        with pytest.raises(FunctionalError, match="a DOI such as"):
            dftfd.register(mine, "cited_otherwise", doi=wrong)
    line = said("list", "b3lyp5", "--long")[1].splitlines()[0]
    assert line.index("10.1021/j100096a001") < line.index("10.1103/PhysRevA.38.3098") < line.index("10.1103/PhysRevB")


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


@pytest.mark.parametrize("words", sample([["--help"], ["run", "--help"], ["list", "--long"]], at=[1, 2]))
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
    from dftfd.runtime import jax_settings

    old, new = tmp_path / "old-cache", tmp_path / "new-cache"
    for path, days in ((old, 91), (new, 89)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - 86400 * days,) * 2)
    jax_settings._make_room(tmp_path)
    assert new.exists() and not old.exists()
    monkeypatch.setenv("DFTFD_CACHE_DAYS", "none")
    with pytest.raises(InputError, match="DFTFD_CACHE_DAYS='none': a positive number of days"):
        jax_settings._make_room(tmp_path)
