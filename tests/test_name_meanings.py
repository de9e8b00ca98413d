"""What names of PySCF and Psi4 mean here: what they mean there, or what data/names says."""

import pytest
from pyscf.dft import libxc

from tests.verification.name_meanings import DATA, PAGE, differences, of_pyscf, ours, page, pyscfs, read, twins


@pytest.mark.parametrize("name", ["b3p86g", "x3lypg", "mpw3pwg"])
def test_names_with_gaussians_local_correlation(name):
    """PySCF's own evaluation of its name at the same points."""
    assert not differences(ours(name), pyscfs(name.upper()))


def test_another_functional_differs():
    assert differences(ours("b3lyp5"), pyscfs("B3LYPG"))


def test_the_page_is_that_of_the_tables():
    assert PAGE.read_text() == page()


@pytest.mark.slow  # a hundred functionals are compiled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not hasattr(libxc, "XC_ALIAS"), reason="PySCF's table of names is elsewhere in this version")
def test_pyscfs_names():
    assert [list(row) for row in of_pyscf()] == read(DATA / "pyscf.csv")


@pytest.mark.slow  # reads every name of the catalogue
def test_names_that_differ_by_marks_alone():
    assert [list(row) for row in twins()] == read(DATA / "twins.csv")
