"""Sets of reactions from any reader and from Python: balance, empties, duplicates and weights, before anything runs."""

import json
from dataclasses import replace

import pytest

import dftfd
from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction, Species, checked, read_document
from dftfd.errors import FileError, InputError, InputWarning

MOLECULES = {
    "h": Species("h", "H 0 0 0;", spin=1),
    "h2": Species("h2", "H 0 0 0; H 0 0 0.74;"),
    "h2+": Species("h2+", "H 0 0 0; H 0 0 1.06;", 1, 1),
    "h3+": Species("h3+", "H 0 0 0; H 0 0 0.87; H 0.75 0 0.43;", 1),
    "oh-": Species("oh-", "O 0 0 0; H 0 0 0.97;", -1),
    "water": Species("water", "O 0 0 0.12; H 0 0.76 -0.47; H 0 -0.76 -0.47;"),
    "he": Species("he", "He 0 0 0;"),
    "he beside a ghost": Species("he beside a ghost", "He 0 0 0; ghost-H 0 0 1;"),
}


def set_of(*reactions):
    found = [Reaction(str(k), "s", pairs, reference, weight) for k, (pairs, reference, weight) in enumerate(reactions)]
    return checked(BenchmarkSet("own", MOLECULES, tuple(found)))


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ((("h2", -1), ("h", 2)), None),
        ((("h2", -0.3333), ("h", 0.6667)), None),
        ((("h2", 1),), None),  # a total energy
        ((("h2", -2), ("water", 0)), None),
        ((("h2", -1), ("h3+", 1)), None),  # a proton, which has no energy, is added
        ((("water", 1), ("oh-", -1)), None),
        ((("he", -1), ("he beside a ghost", 1)), None),
        ((("h2", -1), ("h", 1)), "its atoms do not balance, H -1"),
        ((("h2", -1), ("water", 1)), "its atoms do not balance, O +1"),
        ((("h2", -1), ("oh-", 1)), "its atoms do not balance, H -1, O +1"),
        ((), "it has no molecules"),
        ((("h2", 0.0),), "it has no molecules"),
        ((("h2", float("nan")), ("h", 1)), "is not finite"),
    ],
)
def test_reactions_conserve_atoms(pairs, reason):
    """Left out with the reason where they do not; bare protons and ghosts do not count."""
    found = set_of((pairs, 1.0, None))
    assert bool(found.reactions) == (reason is None)
    assert reason is None or reason in found.left_out[0][1]


def test_changes_of_charge_are_noted_and_checks_repeat_nothing():
    found = set_of(((("h2", -1), ("h2+", 1)), 355.0, None), ((("h2", -1), ("h", 2)), 109.0, 0.0))
    assert found.notes == ("1 of 2 reactions change the charge, s/0 the first",)
    lost = checked(replace(found, reactions=(*found.reactions, Reaction("lost", "s", (("h2", -1), ("h", 1)), 1.0))))
    assert checked(lost) == lost and len(lost.left_out) == 1


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_are_not_negative(weight):
    """Of sets made in Python too, by a benchmark and by a fit, which took its square root."""
    with pytest.raises(InputError, match="weight of 's/0' is .*at least 0 expected"):
        set_of(((("h2", -1), ("h", 2)), 109.0, weight))
    bare = BenchmarkSet("own", MOLECULES, (Reaction("r", "s", (("h2", -1), ("h", 2)), 109.0, weight),))
    with pytest.raises(InputError, match="at least 0 expected"):
        dftfd.benchmark(bare, "pbe", basis="sto-3g")
    with pytest.raises(InputError, match="at least 0 expected"):
        dftfd.fit("pbe", bare, parameters=["kappa"], basis="sto-3g")


def test_fits_say_what_they_leave_out():
    """A set without any reaction is refused; one that loses some is fitted with a warning."""
    lost = Reaction("lost", "s", (("h2", -1), ("h", 1)), 109.0)
    with pytest.raises(InputError, match="no reaction that can be computed: s/lost: its atoms do not balance"):
        dftfd.fit("pbe", BenchmarkSet("own", MOLECULES, (lost,)), parameters=["kappa"])
    both = BenchmarkSet("own", MOLECULES, (lost, Reaction("r", "s", (("h2", -1), ("h", 2)), 109.0)))
    with (
        pytest.warns(InputWarning, match="1 reactions of own are left out: s/lost"),
        pytest.raises(InputError, match="kapa"),
    ):
        dftfd.fit("pbe", both, parameters=["kapa"])


def test_names_stand_once(tmp_path):
    """In JSON, whose readers take the last of two; in TOML; in the layout of Diet GMTKN55."""
    molecules = '"molecules": {"h": {"atoms": "H 0 0 0;"}, "h": {"atoms": "He 0 0 0;"}}'
    text = '{"dftfd_benchmark": 1, ' + molecules + ', "reactions": []}'
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FileError, match="the name 'h' occurs twice"):
        read_document(tmp_path / "a.json")
    (tmp_path / "a.toml").write_text('dftfd_benchmark = 1\n[molecules]\nh = {atoms = "H 0 0 0;"}\nh = {}\n')
    with pytest.raises(FileError, match="neither JSON nor TOML"):
        read_document(tmp_path / "a.toml")
    (tmp_path / "AllElements_030.yaml").write_text("A:\n  1:\n    Energy: 1.0\n    Energy: 2.0\n")
    with pytest.raises(FileError, match="line 4: .*'Energy' occurs twice"):
        read_set("diet:30", tmp_path)
    energies = {"name": "h", "atoms": "H 0 0 0;", "charge": 0, "spin": 1, "energies": {"pbe": -0.5}}
    (tmp_path / "totals.json").write_text(json.dumps([energies, energies]))
    with pytest.raises(FileError, match="of a molecule occurs twice"):
        dftfd.benchmarks.compare_totals(tmp_path / "totals.json", "pbe")


@pytest.mark.parametrize("change", [{"weight": -1}, {"weight": "1"}, {"weight": 1e999}])
def test_files_with_such_weights_are_refused(tmp_path, change):
    reaction = {"name": "r", "stoichiometry": {"h2": 1}, "reference": 1.0} | change
    document = {"dftfd_benchmark": 1, "molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;"}}, "reactions": [reaction]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises((InputError, FileError), match=r"weight|not a number of JSON"):
        read_document(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;", "file": "h2.xyz"}}}, "has both a file and atoms"),
        ({"reactions": [{"stoichiometry": {"h2": 1, "h": 0}, "reference": 1.0}]}, "h=0: give a .* other than 0"),
        ({"reactions": [{"stoichiometry": {"h2": 1}, "reference": 1.0, "published": {"PBE": 1, "pbe": 2}}]}, "in case"),
    ],
)
def test_entries_that_contradict_each_other_are_refused(tmp_path, entry, words):
    """The file counted, a reaction became the total energy of what was left, the last of two names counted."""
    document = {"dftfd_benchmark": 1, "molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;"}}, "reactions": []} | entry
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=words):
        read_document(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("where", "entry"),
    [
        ("molecule h2", {"molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 1.4;", "unit": "bohr"}}}),
        ("molecule h2", {"molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;", "multiplicity": 3}}}),
        ("reaction 1", {"reactions": [{"stoichiometry": {"h2": 1}, "reference": 1.0, "wieght": 2.0}]}),
        ("a.json", {"units": "hartree"}),
    ],
)
def test_keys_that_mean_nothing_are_refused(tmp_path, where, entry):
    """A misspelt unit or weight would be left aside; a comment may stand anywhere."""
    document = {
        "dftfd_benchmark": 1,
        "comment": "made by hand",
        "molecules": {"h2": {"atoms": "H 0 0 0; H 0 0 0.74;", "comment": "r_e"}},
        "reactions": [{"name": "r", "stoichiometry": {"h2": 1}, "reference": 1.0}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert len(read_document(tmp_path / "a.json").reactions) == 1
    (tmp_path / "a.json").write_text(json.dumps(document | entry))
    with pytest.raises(InputError, match=f"{where} has no option"):
        read_document(tmp_path / "a.json")


def test_molecules_of_sets_are_what_their_comment_lines_say(tmp_path):
    """Charge and spin count in text as in files; coordinates in bohr are left out with the reason."""
    molecules = {"ion": {"atoms": "2\ncharge=1 multiplicity=2\nH 0 0 0\nH 0 0 1.06\n"}}
    molecules |= {"far": {"atoms": "2\nin bohr\nH 0 0 0\nH 0 0 1.4\n"}}
    reactions = [{"name": name, "stoichiometry": {name: 1}, "reference": 1.0} for name in molecules]
    document = {"dftfd_benchmark": 1, "molecules": molecules, "reactions": reactions}
    (tmp_path / "a.json").write_text(json.dumps(document))
    found = read_document(tmp_path / "a.json")
    assert (found.species["ion"].charge, found.species["ion"].spin) == (1, 1)
    assert [name for name, _ in found.left_out] == ["a/far"] and "in bohr" in found.left_out[0][1]
