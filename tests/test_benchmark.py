"""Benchmarks: the documented form, readers of other makers' forms, runs that can be interrupted, numbers and tables."""

import json
import random
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import dftfd
from dftfd.benchmarks import compare_totals, plan_benchmark, read_set, shipped_sets
from dftfd.benchmarks import energies as running
from dftfd.benchmarks.gscdb import read_table, read_totals
from dftfd.benchmarks.reactions import document_of, read_document
from dftfd.benchmarks.verdict import interval, statistics_of, wtmad1, wtmad2
from dftfd.cli import main
from dftfd.cli.verdicts import functionals_of
from dftfd.errors import FileError, FunctionalError, InputError, UnsupportedError
from dftfd.libcint.mole import HARTREE_IN_KCAL

SETTINGS = {"basis": "sto-3g", "density_fit": False}
H2, H4 = "H 0 0 0; H 0 0 0.74;", "H 0 0 0; H 0 0 0.74; H 0 3 0; H 0 3 0.74;"
SET = {
    "dftfd_benchmark": 1,
    "name": "tiny",
    "unit": "hartree",
    "weighting": "WTMAD-2",
    "subsets": {
        "bonds": {"class": "energies", "mean_reference": 0.17, "published": {"pbe": 0.02}},
        "pairs": {"class": "energies", "mean_reference": 0.001},
    },
    "molecules": {
        "h": {"atoms": "H 0 0 0;", "spin": 1},
        "h again": {"atoms": "H 0 0 0;", "spin": 1},
        "h2": {"atoms": H2},
        "h4": {"atoms": H4},
    },
    "reactions": [
        {
            "name": "h2",
            "subset": "bonds",
            "stoichiometry": {"h2": -1, "h": 1, "h again": 1},
            "reference": 0.17,
            "weight": 2,
        },
        {"name": "h4", "subset": "pairs", "stoichiometry": {"h4": -1, "h2": 2}, "reference": 0.001, "weight": 30},
    ],
}


@pytest.fixture
def tiny(tmp_path):
    """The path of a set with two reactions of hydrogen."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(SET))
    return path


# ------------------------------------------------------------------------------------------------- the documented form


def test_a_set_is_read_from_json_and_toml_with_xyz_files(tiny, tmp_path):
    """Both hold the same; a molecule may be an xyz file, which brings charge and spin; energies become kcal/mol."""
    (tmp_path / "ion.xyz").write_text("2\ncharge=1 spin=1\nH 0 0 0\nH 0 0 1.06\n")
    (tmp_path / "set.toml").write_text(
        'dftfd_benchmark = 1\nunit = "eV"\n[molecules]\nion = {file = "ion.xyz"}\nh2 = {atoms = "H 0 0 0; H 0 0 1;"}\n'
        '[[reactions]]\nname = "ip"\nstoichiometry = {ion = 1, h2 = -1}\nreference = 15.4\n'
    )
    found = read_document(tmp_path / "set.toml")
    assert (found.species["ion"].charge, found.species["ion"].spin) == (1, 1)
    assert found.reactions[0].reference == pytest.approx(15.4 * 23.0605478, rel=1e-7)  # kcal/mol in an eV, CODATA 2018
    assert found.reactions[0].subset == "set"
    tiny_set = read_document(tiny)
    assert tiny_set.reactions[0].reference == pytest.approx(0.17 * HARTREE_IN_KCAL)
    assert tiny_set.subsets["bonds"].published["pbe"] == pytest.approx(0.02 * HARTREE_IN_KCAL)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(document_of(tiny_set)))
    assert read_document(again) == tiny_set


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"dftfd_benchmark": 2}, InputError, "form 2"),
        ({"unit": "furlong"}, InputError, "furlong"),
        ({"reactions": None}, InputError, "list of reactions"),
        ({"molecules": []}, InputError, "molecules"),
        ({"reactions": [{"stoichiometry": {"h2": "x"}, "reference": 1}]}, InputError, "finite number"),
        ({"reactions": [{"stoichiometry": {"h2": 1}}]}, InputError, "reference"),
        ({"molecules": {"h2": {"atoms": 3}}}, InputError, "atoms"),
    ],
)
def test_what_is_no_set_is_refused_with_its_place(tmp_path, change, error, words):
    path = tmp_path / "set.json"
    path.write_text(json.dumps(SET | change))
    with pytest.raises(error, match=words):
        read_document(path)


def test_files_that_hold_no_set_are_refused(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[1]")
    with pytest.raises(FileError, match="neither JSON nor TOML"):
        read_document(tmp_path / "a.json")
    with pytest.raises(InputError, match="not a benchmark set"):
        read_document(tmp_path / "b.json")
    with pytest.raises(InputError, match="closest are"):
        read_set("s23")
    with pytest.raises(InputError, match="--data PATH"):
        read_set("gmtkn55")
    with pytest.raises(FileError, match="does not contain gscdb"):
        read_set("gscdb", tmp_path)
    with pytest.raises(FileError, match="in no known format"):
        read_set(str(tmp_path))


def test_reactions_that_cannot_be_computed_are_listed_and_duplicates_noted(tmp_path):
    """A missing molecule, a spin that does not go with the electrons, a file that is not there, a strange element."""
    wrong = {
        "odd": {"atoms": H2, "spin": 1},
        "gone": {"file": "gone.xyz"},
        "strange": {"atoms": "Xx 0 0 0;"},
        "bare": {"atoms": "H 0 0 0;", "charge": 1},
    }
    reactions = [{"name": name, "stoichiometry": {name: 1}, "reference": 1} for name in (*wrong, "nowhere")]
    twice = [{"name": f"twice {k}", "stoichiometry": {"h2": 1}, "reference": 2} for k in (1, 2)]
    path = tmp_path / "set.json"
    path.write_text(json.dumps(SET | {"molecules": SET["molecules"] | wrong, "reactions": reactions + twice}))
    found = read_document(path)
    assert [reaction.name for reaction in found.reactions] == ["twice 1", "twice 2"]
    assert [name for name, _ in found.left_out] == [f"tiny/{name}" for name in (*wrong, "nowhere")]
    reasons = " ".join(reason for _, reason in found.left_out)
    for words in ("1 unpaired do not go with 2 electrons", "gone.xyz", "unknown element", "0 electrons", "no such"):
        assert words in reasons
    assert found.notes == ("tiny/twice 2 is tiny/twice 1 once more",)


def test_a_sample_of_a_seed_grows(tiny):
    """The first reactions of a seed are those of a larger sample; another seed gives another order."""
    found = read_set("w4-17")
    first, more = found.sample(10, 3), found.sample(20, 3)
    assert more.reactions[:10] == first.reactions and len(more.reactions) == 20
    assert found.sample(10, 4).reactions != first.reactions
    assert set(first.species) == {name for reaction in first.reactions for name, _ in reaction.stoichiometry}
    assert len(read_document(tiny).only(["PAIRS"]).reactions) == 1
    with pytest.raises(InputError, match="it has bonds, pairs"):
        read_document(tiny).only(["none"])


# ------------------------------------------------------------------------------------------------ forms of other makers


def test_gmtkn55_folders_are_read(tmp_path):
    """Braces, coefficients, charges and unpaired electrons; WTMAD-2's weights are 56.84 over the mean reference."""
    res = "f=$1\n#comment\n$tmer {h2,h}/$f  x -1 2 $w 109.493\n$tmer P_{a,b}/$f h/$f x -1 1 1 $w -10.507 # more\n"
    molecules = {"h2": H2, "h": "H 0 0 0;", "P_a": H2, "P_b": "H 0 0 0;"}
    for name, atoms in molecules.items():
        place = tmp_path / "W4-11" / name
        place.mkdir(parents=True)
        rows = [row.strip() for row in atoms.split(";") if row.strip()]
        (place / "struc.xyz").write_text(f"{len(rows)}\n\n" + "\n".join(rows) + "\n")
        if len(rows) == 1:
            (place / ".UHF").write_text("1\n")
    (tmp_path / "W4-11" / "P_a" / ".CHRG").write_text("-1\n")
    (tmp_path / "W4-11" / "P_a" / ".UHF").write_text("1\n")
    (tmp_path / "W4-11" / ".res").write_text(res)
    found = read_set("gmtkn55:w4-11", tmp_path)
    first, second = found.reactions
    assert first.stoichiometry == (("W4-11/h2", -1.0), ("W4-11/h", 2.0)) and first.reference == 109.493
    assert dict(second.stoichiometry) == {"W4-11/P_a": -1.0, "W4-11/P_b": 1.0, "W4-11/h": 1.0}
    assert found.species["W4-11/P_a"].charge == -1 and found.species["W4-11/h"].spin == 1
    assert found.weighting == "WTMAD-2" and first.weight == pytest.approx(56.84 / 60.0)
    assert found.subsets["W4-11"].kind.startswith("basic properties")
    (tmp_path / "W4-11" / "h" / "struc.xyz").unlink()
    assert len(read_set("gmtkn55", tmp_path).left_out) == 2
    for line in ("h2/$f h/$f x -1 $w 1", "h2/$f h/$f x -1 2 $w 1_0", "h2/$f h/$f x -1 2 109.4", "h2/$f h/$f -1 2 $w 1"):
        (tmp_path / "W4-11" / ".res").write_text(f"{res}$tmer {line}\n")
        with pytest.raises(FileError, match=r"W4-11/\.res, line 5: .* not a reaction"):
            read_set("gmtkn55", tmp_path)


DIET = """
W4-11:
  30:
    Energy: 109.493
    Weight: 0.1900
    Species:
      h2:
        Count: -1
        Charge: 0
        UHF: 0
        Number: 2
        Elements: [ H, H ]
        Positions:
          - [   0.0,   0.0,   0.0]
          - [   0.0,   0.0,   0.74]
      h:
        Count: 2
        Charge: 0
        UHF: 1
        Number: 1
        Elements: [ H ]
        Positions:
          - [   0.0,   0.0,   0.0]
"""


def test_diet_files_are_read(tmp_path):
    """The mean reference energy of the whole subset follows from the weight."""
    (tmp_path / "AllElements_030.yaml").write_text(DIET)
    found = read_set("diet:30", tmp_path)
    assert found.reactions[0].stoichiometry == (("W4-11/h2", -1.0), ("W4-11/h", 2.0))
    assert (found.reactions[0].reference, found.reactions[0].weight) == (109.493, 0.19)
    assert found.subsets["W4-11"].mean_reference == pytest.approx(56.84 / 0.19)
    assert found.species["W4-11/h"].spin == 1 and "0.74" in found.species["W4-11/h2"].atoms
    with pytest.raises(InputError, match="choose one with diet:SIZE"):
        read_set("diet", tmp_path)
    for broken in (DIET.replace("Energy", "Enrgy"), "nonsense\n", DIET.replace("- [   0.0,   0.0,   0.74]", "")):
        (tmp_path / "AllElements_030.yaml").write_text(broken)
        with pytest.raises(FileError, match="layout"):
            read_set("diet:30", tmp_path)


def write_xlsx(path, rows):
    """A spreadsheet as ECMA-376 has it: words shared, numbers in place; empty cells left out."""
    words = sorted({cell for row in rows for cell in row if isinstance(cell, str) and cell})
    cells = lambda k, row: "".join(
        f'<c r="{chr(65 + j)}{k}" t="s"><v>{words.index(cell)}</v></c>'
        if isinstance(cell, str)
        else f'<c r="{chr(65 + j)}{k}"><v>{cell!r}</v></c>'
        for j, cell in enumerate(row)
        if cell != ""
    )
    main_ns = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rel_ns = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    body = "".join(f'<row r="{k}">{cells(k, row)}</row>' for k, row in enumerate(rows, 1))
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main_ns}" xmlns:r="{rel_ns}"><sheets>'
        '<sheet name="one" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main_ns}">{"".join(f"<si><t>{word}</t></si>" for word in words)}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main_ns}"><sheetData>{body}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as book:
        for name, text in parts.items():
            book.writestr(name, text)


@pytest.fixture
def gscdb(tmp_path):
    """A folder of GSCDB's layout with two reactions."""
    for folder in ("Info", "Analysis", "xyz_files"):
        (tmp_path / folder).mkdir()
    write_xlsx(
        tmp_path / "Info" / "DatasetEval.xlsx",
        [
            ["Reaction", "Dataset", "Reference", "Stoichiometry"],
            ["X_1", "X", 0.17, "-1,h2,2,h"],
            ["F_1", "F", 0.17, "-1,h2,1,field"],
        ],
    )
    write_xlsx(
        tmp_path / "Analysis" / "Molecule_Energies.xlsx",
        [["", "B3LYP", "wB97X-V"], ["h2", -1.18, -1.17], ["h", -0.5, ""]],
    )
    comment = "charge=0, multiplicity={}, basis=def2-QZVPPD, num_basis=1"
    (tmp_path / "xyz_files" / "h2.xyz").write_text(f"2\n{comment.format(1)}\nH 0 0 0\nH 0 0 0.74\n")
    (tmp_path / "xyz_files" / "h.xyz").write_text(f"1\n{comment.format(2).title().replace('=', ' = ')}\nH 0 0 0\n")
    (tmp_path / "xyz_files" / "field.xyz").write_text(
        f"2\n{comment.format(1)}, multipole_field=X 0.1\nH 0 0 0\nH 0 0 0.74\n"
    )
    return tmp_path


def test_gscdb_is_read_from_spreadsheets_and_xyz_files(gscdb):
    """Hartree become kcal/mol; molecules in fields are left out and say so; total energies by functional."""
    found = read_set("gscdb", gscdb)
    (reaction,) = found.reactions
    assert reaction.reference == pytest.approx(0.17 * 627.5094740631) and reaction.subset == "X"
    assert found.species["h"].spin == 1 and found.species["h2"].basis == "def2-qzvppd"
    assert found.left_out[0][0] == "F/F_1" and "electric field" in found.left_out[0][1]
    assert read_totals(gscdb, "wb97x-v") == {"h2": -1.17}
    with pytest.raises(InputError, match="it has b3lyp, wb97x-v"):
        read_totals(gscdb, "pbe")
    with pytest.raises(InputError, match="it has F, X"):
        read_set("gscdb:Y", gscdb)


def test_tables_that_are_none_are_refused(tmp_path):
    (tmp_path / "a.xlsx").write_text("no zip")
    (tmp_path / "b.csv").write_text("a,b\n1,2\n")
    assert read_table(tmp_path / "b.csv") == [["a", "b"], ["1", "2"]]
    with pytest.raises(FileError, match="not a table"):
        read_table(tmp_path / "a.xlsx")
    write_xlsx(tmp_path / "c.xlsx", [["one", "", 2.5]])
    assert read_table(tmp_path / "c.xlsx") == [["one", "", "2.5"]]
    with pytest.raises(FileError, match="no sheet 'two'"):
        read_table(tmp_path / "c.xlsx", "two")
    with zipfile.ZipFile(tmp_path / "d.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    with pytest.raises(FileError, match="definitions of its own"):
        read_table(tmp_path / "d.xlsx")


def test_refdata_is_read(tmp_path):
    """din files name molecules, whose xyz files say charge and multiplicity in their second line."""
    for folder in ("10_din", "20_s22", "20_other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "10_din" / "s22.din").write_text("# S22: some.\n#@ x\n-1\nh2\n2\nh\n0\n109.5\n1\nh2\n0\n0.0\n")
    (tmp_path / "20_s22" / "h2.xyz").write_text("2\n0 1\nH 0 0 0\nH 0 0 0.74\n")
    (tmp_path / "20_other" / "h2.xyz").write_text("2\n0 1\nH 0 0 0\nH 0 0 9\n")
    (tmp_path / "20_s22" / "h.xyz").write_text("1\n0 2\nH 0 0 0\n")
    found = read_set("refdata:s22", tmp_path)
    assert found.reactions[0].stoichiometry == (("h2", -1.0), ("h", 2.0)) and found.reactions[0].reference == 109.5
    assert found.species["h"].spin == 1 and "0.74" in found.species["h2"].atoms
    assert found.subsets["s22"].source.startswith("S22: some.")
    assert read_set(str(tmp_path / "10_din" / "s22.din")).reactions == found.reactions
    (tmp_path / "10_din" / "s22.din").write_text("-1\nh2\n2\n")
    with pytest.raises(FileError, match="no din file"):
        read_set("refdata:s22", tmp_path)
    with pytest.raises(InputError, match="refdata:NAME"):
        read_set("refdata", tmp_path)


def test_quest_gives_lowest_triplets_and_ionisations(tmp_path):
    """Of the states of QUEST those that differ from the ground state by spin or charge; eV become kcal/mol."""
    for folder in ("data/json/MAIN", "geometries/xyz", "charged/valence_IPs/geometries"):
        (tmp_path / folder).mkdir(parents=True)
    states = [
        {"Molecule": "Hydrogen ", "State": "^1A", "TBE/AVTZ": 5.0},
        {"Molecule": "Hydrogen ", "State": "^3A", "TBE/AVTZ": 9.0},
        {"Molecule": "Hydrogen ", "State": "^3B", "TBE/AVTZ": 8.0},
    ]
    (tmp_path / "data/json/MAIN/H.json").write_text(json.dumps(states))
    (tmp_path / "geometries/xyz/h_1.xyz").write_text("2\nHydrogen 1333-74-0 CC3\nH 0 0 0\nH 0 0 0.74\n")
    table = {"IP": [{"sCI": {"Energy": {"aug-cc-pVQZ": [None, 3.0], "aug-cc-pVTZ": [15.4, 20.0]}}}]}
    (tmp_path / "charged/valence_IPs/h2.json").write_text(json.dumps(table))
    (tmp_path / "charged/valence_IPs/geometries/H2.xyz").write_text(" 2\n\nH 0 0 0\nH 0 0 0.74\n")
    found = read_set("quest", tmp_path)
    energies = {reaction.subset: reaction.reference / 23.0605478 for reaction in found.reactions}
    assert energies == {"triplets": pytest.approx(8.0), "ips": pytest.approx(15.4)}
    spins = {(species.charge, species.spin) for species in found.species.values()}
    assert spins == {(0, 0), (0, 2), (1, 1)}


def test_g2_of_ase_has_known_atomisation_energies():
    """D_e of water and methane: 232.6 and 420 kcal/mol by experiment (W4-11's: 232.97 and 420.42)."""
    found = read_set("g2-97")
    assert len(found.reactions) == 148 and not found.left_out
    energies = {reaction.name: reaction.reference for reaction in found.reactions}
    assert energies["H2O"] == pytest.approx(232.97, abs=0.6) and energies["CH4"] == pytest.approx(420.42, abs=0.6)
    assert found.species["O2"].spin == 2 and found.species["atom N"].spin == 3


# ------------------------------------------------------------------------------------------------- sets that come along


RMSE_OF_GSCDB = {
    "bh46": {"b3lyp": 5.254465417725121, "pbe0": 4.496440474966417, "wb97m-v": 1.841387908524527},
    "s22": {"b3lyp": 4.901726193683816, "pbe0": 3.409258499590304, "wb97m-v": 0.2873540166993831},
    "a24": {"b3lyp": 1.082256188893902, "pbe0": 0.5587816864874595, "wb97m-v": 0.09365333451608464},
    "g21ip": {"b3lyp": 4.749317112255934, "pbe0": 4.328549322672939, "wb97m-v": 3.889985682546049},
    "w4-17": {"b3lyp": 7.165540914763858, "pbe0": 5.542639489619553, "wb97m-v": 2.2565279057365},
}
"""Root mean square errors [kcal/mol] of GSCDB's own evaluation, Analysis/Errors_per_set.xlsx."""


def test_sets_that_come_along_are_whole():
    """Nothing is left out, sources are named, and references with Q-Chem's energies give GSCDB's own errors."""
    assert set(shipped_sets()) == {"quick", "w4-17", "bh46", "dbh22", "s22", "a24", "g21ip", "g21ea", "mixed"}
    for name in shipped_sets():
        found = read_set(name)
        assert not found.left_out and found.source and all(subset.source for subset in found.subsets.values())
        for xc, expected in RMSE_OF_GSCDB.get(name, {}).items():
            errors = [reaction.published[xc] - reaction.reference for reaction in found.reactions]
            assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(expected, abs=2e-4)
    quick = read_set("quick")
    assert len(quick.reactions) == 30 and len(quick.subsets) == 5


# ------------------------------------------------------------------------------------------------------------- numbers


def test_statistics_are_those_of_their_definitions():
    found = statistics_of([1.0, -3.0, 2.0], ["a", "b", "c"], 4)
    assert (found.n, found.total, found.mean, found.mean_absolute) == (3, 4, 0.0, 2.0)
    assert found.root_mean_square == pytest.approx((14 / 3) ** 0.5)
    assert (found.largest, found.worst) == (-3.0, "b")
    assert found.low < 2.0 < found.high and 1.0 <= found.low and found.high <= 3.0
    assert statistics_of([], [], 2) is None


def test_the_bootstrap_interval_has_the_width_of_theory():
    """For many normal values: mean +- 1.96 s / sqrt(n); the same values give the same interval."""
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    low, high = interval(values)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert interval(values) == (low, high)


def test_weighted_means_are_gmtkn55s():
    """Eqs. 1 and 2 of Goerigk et al. by hand: two subsets of 1 and 3 reactions, mean references 2 and 100."""
    weights = [56.84 / 2, *[56.84 / 100] * 3]
    by_subset = (1 * 56.84 / 2 * 0.5 + 3 * 56.84 / 100 * 4.0) / 4
    assert wtmad2([0.5, 3.0, -4.0, 5.0], weights) == pytest.approx(by_subset)
    assert wtmad1([0.5, 4.0], [2.0, 100.0]) == pytest.approx((10 * 0.5 + 0.1 * 4.0) / 2)
    assert wtmad2([1.0], [None]) is None and wtmad1([1.0], [None]) is None


# -------------------------------------------------------------------------------------------------------------- running


def energy(atoms, spin=0, xc="hf"):
    return dftfd.run_scf(dftfd.molecule(atoms, "sto-3g", spin=spin), xc, density_fit=False).energy


def test_errors_are_reaction_energies_less_references(tiny, tmp_path):
    """Two functionals, checked against run_scf; equal molecules under two names are computed once for each."""
    record = tmp_path / "record.jsonl"
    steps = []
    verdict = dftfd.benchmark(tiny, ["hf", "pbe"], record=record, on_step=steps.append, grid_level=1, **SETTINGS)
    h, h2, h4 = energy("H 0 0 0;", 1), energy(H2), energy(H4)
    errors = {one.reaction.name: one.error for one in verdict.errors("hf")}
    assert errors["h2"] == pytest.approx(HARTREE_IN_KCAL * (2 * h - h2 - 0.17), abs=1e-5)
    assert errors["h4"] == pytest.approx(HARTREE_IN_KCAL * (2 * h2 - h4 - 0.001), abs=1e-5)
    assert len(record.read_text().splitlines()) == 6  # three molecules with two functionals
    assert [step.done for step in steps] == [1, 2, 3, 4, 5, 6] and steps[-1].seconds_left == 0
    assert steps[0].seconds_left is None  # a hydrogen atom does not tell how long four take
    names = [step.name for step in steps]
    assert names == ["h", "h", "h2", "h2", "h4", "h4"]  # by cost
    weighted = verdict.weighted("hf")
    assert weighted["WTMAD-2"] == pytest.approx((2 * abs(errors["h2"]) + 30 * abs(errors["h4"])) / 2)
    assert weighted["WTMAD-1"] == pytest.approx((0.1 * abs(errors["h2"]) + 10 * abs(errors["h4"])) / 2)
    text = str(verdict)
    assert "WTMAD-2" in text and "energies" in text and "fitted" not in text and f"{errors['h4']:.2f}" in text


def test_a_record_is_shared_by_functionals_and_sets(tiny, tmp_path, monkeypatch):
    """What it holds is not computed again, whichever functional or set asks; another functional is."""
    record, how = tmp_path / "record.jsonl", SETTINGS | {"grid_level": 1}
    first = dftfd.benchmark(tiny, "hf", record=record, **how)
    lines = record.read_text()
    both = dftfd.benchmark(tiny, ["hf", "lda,vwn"], record=record, **how)
    assert record.read_text().startswith(lines) and len(record.read_text().splitlines()) == 6
    monkeypatch.setattr("dftfd.batch.entries.run_scf", lambda *a, **k: pytest.fail("computed twice"))
    again = dftfd.benchmark(tiny, ["lda,vwn", "hf"], record=record, **how)
    assert again.rows() == [row for xc in again.functionals for row in both.rows() if row["functional"] == xc]
    assert [row for row in again.rows() if row["functional"] == "hf"] == first.rows()


def test_interrupted_at_any_molecule_the_table_is_the_same(tiny, tmp_path):
    """Ctrl-C after each molecule in turn: the next run goes on, and no molecule is computed twice."""
    how = SETTINGS | {"grid_level": 1}
    expected = dftfd.benchmark(tiny, ["hf", "lda,vwn"], **how)
    record, seen = tmp_path / "record.jsonl", []

    def interrupt(step):
        if len(record.read_text().splitlines()) > len(seen):
            seen.append(step.name)
            raise KeyboardInterrupt

    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            dftfd.benchmark(tiny, ["hf", "lda,vwn"], record=record, on_step=interrupt, **how)
    verdict = dftfd.benchmark(tiny, ["hf", "lda,vwn"], record=record, on_step=interrupt, **how)
    keys = [json.loads(line)["key"] for line in record.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 6
    assert str(verdict) == str(expected)


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_killed_at_random_instants_the_table_is_the_same(tmp_path, monkeypatch):
    """Five kills of the process: no molecule is in the record twice, the table is that of one run, to the last digit.

    On one thread: PySCF adds exact integrals up in the order in which its threads finish.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-m", "dftfd", "benchmark", "w4-17", "--xc", "hf;lda,vwn"]
    command += ["--limit", "20", "--basis", "sto-3g"]
    table = lambda name: ["--quiet", "--csv", str(tmp_path / name), "--overwrite"]
    subprocess.run([*command, *table("whole.csv")], check=True, capture_output=True)
    record, rng, kills = tmp_path / "record.jsonl", random.Random(20261122), []
    for _ in range(5):
        before, wanted, deadline = lines_of(record), rng.randint(0, 2), time.monotonic() + 120
        run = subprocess.Popen([*command, "--record", str(record), *table("killed.csv")], stdout=subprocess.DEVNULL)
        while run.poll() is None and lines_of(record) < before + wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5 * rng.random())  # in the midst of the next molecule, or of the start
        run.kill()
        run.wait()
        kills.append(lines_of(record))
    assert kills == sorted(kills) and kills[-1] > 0
    subprocess.run([*command, "--record", str(record), *table("killed.csv")], check=True, capture_output=True)
    keys = [json.loads(line)["key"] for line in record.read_text().splitlines()]
    assert len(keys) == len(set(keys)) > kills[-1]
    assert (tmp_path / "killed.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_energies_on_another_density(tiny):
    """E_hf[P_lda] from PySCF's J and K; on its own density a functional has its usual energy."""
    from pyscf import dft, gto

    verdict = dftfd.benchmark(tiny, ["hf", "lda,vwn"], density="lda,vwn", grid_level=2, **SETTINGS)
    usual = dftfd.benchmark(tiny, "lda,vwn", grid_level=2, **SETTINGS)
    assert verdict.settings["density of"] == "lda,vwn"
    for name, own in usual.computed.items():
        assert verdict.computed[name].energy == pytest.approx(own.energy, abs=1e-9)
    mole = gto.M(atom=H4, basis="sto-3g", verbose=0)
    field = dft.RKS(mole, xc="lda,vwn")
    field.grids.level, field.conv_tol = 2, 1e-11
    field.kernel()
    P = field.make_rdm1()
    expected = mole.RHF().energy_tot(P)
    assert verdict.computed["hf", "h4"].energy == pytest.approx(expected, abs=2e-8)
    assert verdict.computed["hf", "h4"].energy > usual.computed["lda,vwn", "h4"].energy


def test_a_functional_that_fails_on_a_density_fails_alone(tiny, tmp_path, capsys):
    """A double hybrid has no energy on another density; the other functional's stays, in every table."""
    verdict = dftfd.benchmark(tiny, ["b2plyp", "hf"], density="lda,vwn", grid_level=0, **SETTINGS)
    alone = dftfd.benchmark(tiny, "hf", density="lda,vwn", grid_level=0, **SETTINGS)
    assert [one.error for one in verdict.errors("hf")] == [one.error for one in alone.errors("hf")]
    assert {xc for xc, _, reason in verdict.missing() if "double hybrid" in reason} == {"b2plyp"}
    assert verdict.weighted("hf") and not verdict.weighted("b2plyp")
    last = f"{verdict.weighted('hf')['WTMAD-2']:.2f}"
    assert f"WTMAD-2 &  & -- & {last}" in verdict.latex() and last in str(verdict) and last in verdict.html()
    assert not any("double hybrid" in text for xc, _, text in verdict.remarks() if xc == "hf")


@pytest.mark.slow  # test_energies_on_another_density is quick
def test_functionals_without_energies_or_names_of_their_own_are_refused(tiny, tmp_path, capsys):
    """A model potential has no energy to be compared, but a density; a file's functional has one, too."""
    with pytest.raises(UnsupportedError, match="gga_x_lb"):
        dftfd.benchmark(tiny, "lb94", **SETTINGS)
    path = tmp_path / "mine.py"
    path.write_text("import dftfd\n\npbe = 2 * dftfd.get_functional('lda_x')\n")
    with pytest.raises(InputError, match="two functionals are called 'pbe'"):
        dftfd.benchmark(tiny, ["pbe", "pbe"], **SETTINGS)
    command = ["benchmark", str(tiny), "--xc", "hf", "--basis", "sto-3g", "--grid-level", "0", "--limit", "1"]
    for density in ("lb94", f"{path}:pbe"):
        assert main([*command, "--density", density, "--quiet"]) == 0
        assert "density of" in capsys.readouterr().out


def test_outputs_that_cannot_be_written_end_before_anything_is_computed(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dftfd.benchmarks.compute", pytest.fail)
    one = str(tmp_path / "one.txt")
    assert main(["benchmark", str(tiny), "--csv", str(tmp_path / "no" / "a.csv")]) == 5
    assert main(["benchmark", str(tiny), "--csv", one, "--json", one]) == 2
    assert "two outputs have the same file name" in capsys.readouterr().err
    assert main(["passport", "pbe", "--output", str(tmp_path / "no" / "a.json")]) == 5
    assert not capsys.readouterr().out


def test_a_molecule_that_does_not_converge_climbs_the_ladder(tmp_path, monkeypatch):
    """Four cycles are too few for the first way; the second is told of. Without a ladder it is listed, not dropped."""
    document = SET | {
        "molecules": {"oh": {"atoms": "O 0 0 0; H 0 0 1.1;", "spin": 1}, "h2": {"atoms": H2}},
        "reactions": [
            {"name": name, "subset": "bonds", "stoichiometry": {name: 1}, "reference": 0, "weight": 1}
            for name in ("oh", "h2")
        ],
    }
    path = tmp_path / "set.json"
    path.write_text(json.dumps(document))
    how = SETTINGS | {"max_cycles": 6, "guess": "core"}
    verdict = dftfd.benchmark(path, "hf", **how)
    if verdict.remarks():
        assert "converged with" in verdict.remarks()[0][2]
    monkeypatch.setattr(running, "LADDER", ())
    verdict = dftfd.benchmark(path, "hf", **how)
    assert verdict.missing() == [("hf", "bonds/oh", "oh: SCF not converged after 6 cycles.")]
    assert verdict.statistics("hf").n == 1 and verdict.statistics("hf").total == 2
    assert "without energy: 1" in str(verdict) and "of 2" in str(verdict)


def test_a_molecule_without_basis_is_listed(tmp_path):
    """Uranium has no def2-svp: the reaction is listed with the reason, the others are computed."""
    molecules = SET["molecules"] | {"u": {"atoms": "U 0 0 0;", "spin": 4}}
    reactions = [
        *SET["reactions"],
        {"name": "u", "subset": "bonds", "stoichiometry": {"u": 1}, "reference": 0, "weight": 1},
    ]
    path = tmp_path / "set.json"
    path.write_text(json.dumps(SET | {"molecules": molecules, "reactions": reactions}))
    verdict = dftfd.benchmark(path, "hf", basis="sto-3g", only=["bonds"], density_fit=False)
    assert [row[:2] for row in verdict.missing()] == [("hf", "bonds/u")]
    assert verdict.statistics("hf").n == 1


def test_wrong_requests_end_before_anything_is_computed(tiny, monkeypatch):
    monkeypatch.setattr("dftfd.batch.entries.run_scf", lambda *a, **k: pytest.fail("computed"))
    for given, error in [
        ({"xc": "no_such"}, FunctionalError),
        ({"xc": []}, InputError),
        ({"xc": ["pbe", "pbe"]}, InputError),
        ({"grid_levl": 3}, InputError),
        ({"checkpoint": "a.chk"}, InputError),
        ({"density": "no_such"}, FunctionalError),
        ({"only": ["x"]}, InputError),
        ({"limit": 0}, InputError),
        ({"basis": ""}, InputError),
    ]:
        with pytest.raises(error):
            dftfd.benchmark(tiny, **given)
    for wrong in ("", 3, None):
        with pytest.raises(InputError):
            dftfd.benchmark(wrong)


def test_a_plan_counts_calculations_and_looks_at_the_memory_of_the_largest(tiny, tmp_path, monkeypatch, capsys):
    """Molecules that differ and their sizes are those of a run; each of two jobs has half of the free memory."""
    monkeypatch.setattr("dftfd.batch.entries.run_scf", lambda *a, **k: pytest.fail("computed"))
    plan = plan_benchmark(tiny, ["hf", "lda,vwn"], basis="6-31g", grid_level=1)
    assert dict(plan.n_ao) == {"h": 2, "h2": 4, "h4": 8} and plan.n_reactions == 2
    assert "calculations: 6" in str(plan) and "2 to 8" in str(plan) and not plan.failed
    assert set(plan.memory) == {"hf", "lda,vwn"} and all(
        text.startswith("memory: about") for text in plan.memory.values()
    )
    assert plan.seconds == 2 * plan_benchmark(tiny, "hf", basis="6-31g").seconds
    monkeypatch.setattr("dftfd.runtime.memory._system_memory", lambda: 1 << 30)
    assert plan_benchmark(tiny, "hf", basis="6-31g").memory["hf"].endswith("of 0.80 GiB")
    assert plan_benchmark(tiny, "hf", basis="6-31g", jobs=2).memory["hf"].endswith("of 0.40 GiB")
    assert "needs at least" in plan_benchmark(tiny, "hf", basis="6-31g", jobs=8).memory["hf"]
    assert main(["benchmark", str(tiny), "--xc", "hf", "--basis", "6-31g", "--dry-run"]) == 0
    assert "calculations: 3" in capsys.readouterr().out
    with pytest.raises(InputError):
        plan_benchmark(tiny, "hf", grid_levl=3)


# ---------------------------------------------------------------------------------------------------- command and files


def test_the_command_prints_tables_and_writes_files(tiny, tmp_path, capsys):
    """Exit code 0; the files agree with the verdict of Python; existing ones are not replaced without --overwrite."""
    outputs = [tmp_path / f"out{ending}" for ending in (".csv", ".json", ".tex", ".html")]
    named = [
        word
        for name, path in zip(("csv", "json", "latex", "html"), outputs, strict=True)
        for word in (f"--{name}", str(path))
    ]
    command = [
        "benchmark",
        str(tiny),
        "--xc",
        "hf;lda,vwn",
        "--basis",
        "sto-3g",
        "--no-density-fit",
        "--grid-level",
        "1",
    ]
    assert main([*command, "--record", str(tmp_path / "r.jsonl"), *named]) == 0
    said = capsys.readouterr().out
    verdict = dftfd.benchmark(tiny, ["hf", "lda,vwn"], record=tmp_path / "r.jsonl", grid_level=1, **SETTINGS)
    assert str(verdict) in said and "h4 / hf" in said
    table, document, latex, page = (path.read_text() for path in outputs)
    assert table == verdict.csv() and "WTMAD-2" in table.splitlines()[0]
    found = json.loads(document)
    assert found["table"] == json.loads(json.dumps(verdict.rows())) and len(found["reactions"]) == 4
    assert found["energies"][0]["components"]
    assert r"\begin{tabular}" in latex and f"{verdict.statistics('hf', 'bonds').mean_absolute:.2f}" in latex
    assert (
        page.startswith("<!DOCTYPE html>") and page.count("<circle") == 4 and "http" not in page and "<canvas" in page
    )
    assert main([*command, *named]) == 5
    assert main(["benchmark"]) == 0 and "quick" in capsys.readouterr().out
    assert main(["benchmark", "s23"]) == 2


def test_a_functional_of_a_file_is_computed_by_its_formula(tiny, tmp_path, capsys):
    """Twice Slater's exchange in a file, is what an expression of the library's name gives."""
    path = tmp_path / "mine.py"
    path.write_text("import dftfd\n\ntwice = 2 * dftfd.get_functional('lda_x')\n")
    command = ["benchmark", str(tiny), "--quiet", "--basis", "sto-3g", "--grid-level", "1", "--json"]
    energies = []
    for xc in (f"{path}:twice", "2*lda_x"):
        output = tmp_path / f"{len(energies)}.json"
        assert main([*command, str(output), "--xc", xc]) == 0
        energies.append([row["energy"] for row in json.loads(output.read_text())["energies"]])
    assert energies[0] and energies[0] == energies[1]
    assert main([*command, str(tmp_path / "none.json"), "--xc", f"{path}:absent"]) == 2
    assert "has no functional 'absent'; it has twice" in capsys.readouterr().err


def test_a_failing_molecule_shows_in_the_exit_code(tiny, monkeypatch, capsys):
    monkeypatch.setattr(running, "LADDER", ())
    assert main(["benchmark", str(tiny), "--xc", "hf", "--basis", "sto-3g", "--max-cycles", "1", "--quiet"]) == 3
    assert "SCF not converged after 1 cycles" in capsys.readouterr().out


def test_functionals_are_told_apart_by_commas_or_semicolons():
    assert functionals_of("pbe, r2scan") == ["pbe", "r2scan"]
    assert functionals_of("lda,vwn; pbe") == ["lda,vwn", "pbe"] and functionals_of("lda,vwn;") == ["lda,vwn"]


def test_names_in_a_page_are_no_markup(tmp_path):
    """A set may come from anywhere: what it calls its molecules cannot become part of the page."""
    evil = "</script><script>alert(1)</script>"
    document = SET | {
        "name": evil,
        "molecules": {evil: {"atoms": H2}},
        "reactions": [{"name": evil, "stoichiometry": {evil: 1}, "reference": 0, "weight": 1}],
    }
    path = tmp_path / "set.json"
    path.write_text(json.dumps(document))
    page = dftfd.benchmark(path, "hf", **SETTINGS).html()
    assert "<script>alert" not in page and page.count("</script>") == 1


# ------------------------------------------------------------------------------------------------------ total energies


def pyscf_energy(atoms, xc, level=3, unrestricted=False):
    """PySCF's energy, exact integrals; with a start of broken symmetry where it is unrestricted."""
    from pyscf import dft, gto

    mole = gto.M(atom=atoms, basis="sto-3g", verbose=0)
    field = dft.UKS(mole, xc=xc) if unrestricted else dft.RKS(mole, xc=xc)
    field.grids.level, field.conv_tol = level, 1e-11
    if unrestricted:
        P = field.get_init_guess()
        P[0][0, 0], P[1][-1, -1] = 0, 0
        return field.kernel(dm0=P)
    return field.kernel()


def test_total_energies_are_compared_and_disagreements_explained(tmp_path):
    """PySCF's energies: one agrees, the others have broken symmetry, a finer grid, or are wrong by 1 mhartree."""
    apart = "H 0 0 0; H 0 0 2.5;"
    molecules = [
        {
            "name": "same",
            "atoms": H2,
            "energies": {"hf": pyscf_energy(H2, "hf"), "lda,vwn": pyscf_energy(H2, "lda,vwn", 8)},
        },
        {"name": "apart", "atoms": apart, "energies": {"hf": pyscf_energy(apart, "hf", unrestricted=True)}},
        {"name": "wrong", "atoms": [["He", 0, 0, 0]], "energies": {"hf": pyscf_energy("He 0 0 0", "hf") + 1e-3}},
    ]
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps([{"charge": 0, "spin": 0, "basis": "sto-3g"} | entry for entry in molecules]))
    found = compare_totals(path, ["hf", "lda,vwn"], grid_level=0, record=tmp_path / "record.jsonl")
    causes = {(one.molecule, one.functional): one.cause for one in found.totals}
    assert causes == {
        ("same", "hf"): "agree",
        ("apart", "hf"): "another SCF state, of broken spin symmetry",
        ("wrong", "hf"): "definition of the functional, basis set, or their settings",
        ("same", "lda,vwn"): "grid",
    }
    assert sum(found.histogram("hf").values()) == 3 and "hf: 1 of 3 agree" in str(found)
    (wrong,) = [one for one in found.totals if one.molecule == "wrong"]
    assert wrong.difference == pytest.approx(-1e-3, abs=1e-7) and "wrong / hf: -1.0e-03" in str(found)
    found.write(tmp_path / "totals.csv")
    assert (tmp_path / "totals.csv").read_text().splitlines()[0].startswith("molecule,functional,theirs,ours")
    command = ["benchmark", "totals", "--data", str(path), "--xc", "hf", "--grid-level", "0", "--quiet"]
    assert main([*command, "--record", str(tmp_path / "record.jsonl"), "--json", str(tmp_path / "totals.json")]) == 0
    assert len(json.loads((tmp_path / "totals.json").read_text())["totals"]) == 3
    assert main([*command, "--html", str(tmp_path / "totals.html")]) == 2


def test_total_energies_of_a_molecule_without_its_basis_set_are_a_row(tmp_path):
    """One that asks for a basis set that nobody knows does not keep the others from being compared."""
    helium = {"atoms": "He 0 0 0;", "charge": 0, "spin": 0, "energies": {"hf": -2.8077839575}}
    rows = [helium | {"name": name, "basis": basis} for name, basis in (("he", "sto-3g"), ("odd", "aug-cc-nothing"))]
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(rows))
    found = {one.molecule: one for one in compare_totals(path, "hf", grid_level=0).totals}
    assert found["he"].cause == "agree" and "unknown basis set 'aug-cc-nothing'" in found["odd"].cause
    for seed in range(4):  # whichever comes first
        assert "he" in {one.molecule for one in compare_totals(path, "hf", grid_level=0, limit=1, seed=seed).totals}


def test_total_energies_without_data_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('[{"name": "a"}]')
    with pytest.raises(FileError, match="not a list of molecules"):
        compare_totals(tmp_path / "a.json", "hf")
    with pytest.raises(FileError, match="does not contain gscdb"):
        compare_totals(tmp_path, "hf")
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(InputError, match="no energies with"):
        compare_totals(tmp_path / "b.json", "hf")
