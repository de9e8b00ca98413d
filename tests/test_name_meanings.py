"""What names of PySCF, Psi4 and ORCA mean here: what they mean there, or what data/names says."""

import pytest
from pyscf.dft import libxc

import dftfd
from dftfd.errors import FunctionalError
from dftfd.functionals.jax_xc_formula import is_installed
from dftfd.functionals.registry import get_functional
from tests.verification.name_meanings import (
    DATA,
    counts,
    differences,
    meanings,
    of_libxc,
    of_orca,
    of_pyscf,
    ours,
    pyscfs,
    read,
    twins,
)
from tests.verification.neon import OUTPUTS, energy
from tests.verification.orca_names import DOCUMENTED, REASONS

needs_jax_xc = pytest.mark.skipif(not is_installed(), reason="no jax-xc for this Python")


@needs_jax_xc
@pytest.mark.parametrize("name", ["x3lypg", pytest.param("mpw3pwg", marks=pytest.mark.slow)])
def test_names_with_gaussians_local_correlation(name):
    """PySCF's own evaluation of its name at the same points."""
    assert not differences(ours(name), pyscfs(name.upper()))


def test_another_functional_differs():
    assert differences(ours("b3lyp5"), pyscfs("B3LYPG"))


@pytest.mark.parametrize(
    "keyword", ["OLYP", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mPWLYP", "SCANfunc"))]
)
def test_what_orcas_keywords_consist_of(keyword):
    """The manual's composition, evaluated by libxc."""
    there = {**pyscfs(DOCUMENTED[keyword]), "vv10": None}
    assert not differences(ours(keyword), there)


@pytest.mark.parametrize("text", ["LR_HF(0.33) + ITYH, LYP", "RSH(0.65; -0.46; 0.33) + .46*ITYH + .35*B88, LYP"])
def test_attenuated_exchange_has_the_range_of_the_exact_one(text):
    """As PySCF evaluates the text, where it had the default of libxc: 0.2, and none in gga_x_wpbeh."""
    assert not differences(ours(text), pyscfs(text))
    assert get_functional("lr_hf(0.33) + ityh(omega=0.2), lyp").terms[0][1].parameters["omega"] == 0.2
    for open_range, words in (("lr_hf(.2) + sr_hf(.3) + ityh, lyp", "several"), ("lr_hf(.4) + wpbeh, pbe", "wpbeh_sr")):
        with pytest.raises(FunctionalError, match=words):
            get_functional(open_range)


@needs_jax_xc
def test_hsesol_has_the_correlation_of_pbesol():
    """L. Schimka, J. Harl, G. Kresse, J. Chem. Phys. 134, 024116 (2011), and VASP's GGA = PS; libxc's has PBE's."""
    libxcs, pbe, pbesol = (pyscfs(name) for name in ("HYB_GGA_XC_HSE_SOL", ",GGA_C_PBE", ",GGA_C_PBE_SOL"))
    there = libxcs | {"energy": libxcs["energy"] - pbe["energy"] + pbesol["energy"]}
    assert not differences(ours("HSEsol"), there) and differences(ours("HSEsol"), libxcs)


@needs_jax_xc
@pytest.mark.parametrize(
    ("name", "there"), [("hyb_gga_xc_b3p86_nwchem", -129.084636242), ("hyb_gga_xc_sb98_2c", -128.876126003)]
)
def test_b3p86_and_becke98_are_nwchems(name, there):
    """NWChem 7.0.2's keywords b3p86 and becke98 (grid xfine); libxc's own hyb_gga_xc_b3p86 is 0.17 hartree above.

    Gaussian 16 has this B3P86, too: a fluorine for a hydrogen gives -99.387 and -99.400 hartree in aromatics
    (6-311G(d,p)), and CH4 becomes CH3F by -99.386 hartree here, by -99.250 with libxc's.
    """
    atom = dftfd.molecule("Ne 0 0 0;", basis="cc-pvdz")
    found = dftfd.run_scf(atom, name, density_fit=False, grid_level=4, conv_tol=1e-9).energy
    assert found == pytest.approx(there, abs=5e-6)


def test_neon_is_turbomoles():
    """Turbomole 7.2's b-p has VWN V below P86 (1e-6 hartree on this grid); neon.py says where it stands."""
    (there,) = (row[-1] for row in OUTPUTS if row[0].startswith("Turbomole") and row[1] == "b-p")
    atom = dftfd.molecule("Ne 0 0 0;", basis="cc-pvdz")
    found = dftfd.run_scf(atom, "b88,p86 - pz + vwn", density_fit=False, grid_level=4, conv_tol=1e-9).energy
    assert found == pytest.approx(there, abs=1e-6)


@pytest.mark.slow  # 28 functionals are compiled
@pytest.mark.parametrize("row", read(DATA / "neon.csv"), ids=lambda row: f"{row[0]} {row[1]}")
@pytest.mark.filterwarnings("ignore")
def test_neon_is_what_the_table_says(row):
    """Within the differences from other programs that the page shows (1e-8 hartree)."""
    _, _, name, basis, there, _, difference = row
    assert energy(name, basis) - float(there) == pytest.approx(
        float(difference), abs=1e-8 + 0.05 * abs(float(difference))
    )


def test_every_difference_from_orca_has_its_reason():
    different = {name for name, verdict, _ in read(DATA / "orca.csv") if verdict == "different"}
    assert different == set(REASONS)


@pytest.mark.parametrize(
    "keyword, words",
    [("RI-B2PLYP", "the functional is 'b2plyp'"), ("revDSD-PBEP86-D4/2021", "'revdsd-pbep86-d4' has the parameters")],
)
def test_orcas_keywords_that_say_more_than_a_functional(keyword, words):
    with pytest.raises(FunctionalError, match=words):
        get_functional(keyword)


def test_the_page_shows_what_the_tables_of_names_say():
    assert read(DATA / "counts.csv") == counts()
    assert read(DATA / "meanings.csv") == meanings()
    assert all(reason for _, _, reason in meanings()), "a name that differs has its reason"


@pytest.mark.slow  # a hundred functionals are compiled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not hasattr(libxc, "XC_ALIAS"), reason="PySCF's table of names is elsewhere in this version")
@needs_jax_xc
def test_pyscfs_names():
    assert [list(row) for row in of_pyscf()] == read(DATA / "pyscf.csv")


@pytest.mark.slow  # a hundred functionals are compiled
@pytest.mark.filterwarnings("ignore")
@needs_jax_xc
def test_libxcs_names():
    assert [list(row) for row in of_libxc()] == read(DATA / "libxc.csv")


@pytest.mark.slow  # a hundred functionals are compiled
@pytest.mark.filterwarnings("ignore")
@needs_jax_xc
def test_orcas_keywords():
    assert [list(row) for row in of_orca()] == read(DATA / "orca.csv")


@pytest.mark.slow  # reads every name of the catalogue
@needs_jax_xc
def test_names_that_differ_by_marks_alone():
    assert [list(row) for row in twins()] == read(DATA / "twins.csv")
