"""mol and SD files, V2000: molecules, charges, radicals, several records, and what is refused."""

import numpy as np
import pytest

import dftfd
from dftfd.errors import DftfdError

HEAD = "{name}\n  test    01012612003D\n\n{count:3d}{bonds:3d}  0  0  0  0  0  0  0  0999 V2000\n"
ATOM = "{0:10.4f}{1:10.4f}{2:10.4f} {3:<3} 0{4:3d}  0  0  0  0  0  0  0  0  0  0\n"


def record(atoms, lines="", name="made by hand", codes=None):
    codes = codes or [0] * len(atoms)
    body = "".join(ATOM.format(*r, symbol, code) for (symbol, *r), code in zip(atoms, codes, strict=True))
    return HEAD.format(name=name, count=len(atoms), bonds=1) + body + "  1  2  1  0\n" + lines + "M  END\n"


HYDROXIDE = [("O", 0, 0, 0), ("H", 0, 0, 0.97)]


@pytest.mark.parametrize(
    ("lines", "codes", "charge", "spin"),
    [
        ("M  CHG  1   1  -1\n", None, -1, 0),
        ("M  RAD  1   1   2\n", None, 0, 1),
        ("M  CHG  2   1   2   2  -1\nM  RAD  1   1   3\n", None, 1, 2),
        ("", [5, 0], -1, 0),
        ("", [4, 0], 0, 1),
        ("M  RAD  2   1   2   2   0\n", None, 0, 1),
        ("M  CHG  1   1  -1\nM  END\n> <note>\nM  CHG  1   2  -3\n", None, -1, 0),  # data behind the end
        ("M  CHG  1   1  -1\n", [3, 0], -1, 0),  # the codes of the atoms do not count beside it
    ],
)
def test_charges_and_radicals(tmp_path, lines, codes, charge, spin):
    (tmp_path / "oh.mol").write_text(record(HYDROXIDE, lines, codes=codes))
    found = dftfd.molecule(tmp_path / "oh.mol", basis="sto-3g")
    assert (found.charge, found.spin, found.symbols) == (charge, spin, ("O", "H"))
    np.testing.assert_allclose(found.coordinates[1] * 0.529177210903, [0, 0, 0.97], atol=1e-7)


def test_records_of_an_sd_file(tmp_path):
    """Each by its number, all of them as a batch; data between them is left aside."""
    pair = (
        record([("He", 0, 0, 0)], name="one")
        + "> <kind>\nnoble\n\n$$$$\n"
        + record([("H", 0, 0, 0), ("H", 0, 0, 0.74)])
    )
    (tmp_path / "two.sdf").write_text(pair + "$$$$\n")
    assert dftfd.molecule(f"{tmp_path}/two.sdf@0").formula == "He"
    assert dftfd.molecule(f"{tmp_path}/two.sdf@-1").formula == "H2"
    outcomes = dftfd.run_batch([tmp_path / "two.sdf"], "hf", molecule_options={"basis": "sto-3g"})
    expected = [
        dftfd.run_scf(dftfd.molecule(t, basis="sto-3g"), "hf").energy for t in ("He 0 0 0;", "H 0 0 0; H 0 0 0.74")
    ]
    assert [o.energy for o in outcomes] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (record(HYDROXIDE).replace("V2000", "V3000"), "version V3000; V2000 is read"),
        (record(HYDROXIDE).replace("12003D", "12002D"), "a drawing in two dimensions"),
        (record(HYDROXIDE).replace("    0.9700", "   0.9x700"), "line 6: three numbers in columns of ten expected"),
        (record(HYDROXIDE).replace("  2  1  0", " 99  1  0", 1), "does not count the atoms"),
        (record(HYDROXIDE, "M  CHG  1   1  x1\n"), "not made of whole numbers"),
        (record(HYDROXIDE) + "$$$$\n" + record(HYDROXIDE), "holds several molecules; name one as FILE@0"),
        (record([("Q", 0, 0, 0)]), "Q"),
        (record(HYDROXIDE, "M  CHG  1   1  -1\nM  CHG  1   1  -1\n"), "an atom that has been named"),
        (record(HYDROXIDE, "M  RAD  1   1   9\n"), "1 to 3 expected"),
        (record(HYDROXIDE, "m  chg  1   1  -1\n"), "before 'M END' expected"),
        (record(HYDROXIDE, "M  CH G  1   1  -1\n"), "before 'M END' expected"),
        (record(HYDROXIDE) + "M  CHG  1   1  -1\n", "before 'M END' expected"),
        (record(HYDROXIDE).removesuffix("M  END\n"), "no line 'M END', before which charges stand"),
    ],
)
def test_what_is_refused(tmp_path, text, match):
    (tmp_path / "bad.mol").write_text(text)
    with pytest.raises(DftfdError, match=match) as found:
        dftfd.molecule(tmp_path / "bad.mol")
    assert "\n" not in str(found.value)
