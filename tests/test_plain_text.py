"""Names and text of files in terminals, spreadsheets and LaTeX: shown, not obeyed."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import dftfd
from dftfd.cli import main
from dftfd.runtime.plain_text import csv_table, in_latex, printable

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\r\x9b1m\u202eb\x7f\x00"
CHEAP = ["--xc", "hf", "--basis", "sto-3g"]


def test_terminals_obey_nothing():
    """Escape sequences, bells, carriage returns, C1 controls and turned writing are shown; words stay."""
    shown = printable(HOSTILE)
    assert shown.isprintable() and all(word in shown for word in ("\\x1b", "\\x07", "\\r", "\\x9b", "\\u202e", "\\x7f"))
    kept = "wB97X-D\n\tÅngström ψ 水\u00a0\u2009x"
    assert printable(kept) == kept and printable("a\udcffb") == "a\\udcffb"


@pytest.mark.parametrize("command", ["run", "gradient", "optimize"])
def test_names_of_files_do_not_drive_the_terminal(command, tmp_path, capfd, monkeypatch):
    """A batch with a file whose name holds escape sequences, and one that is missing: lines, table and complaints."""
    monkeypatch.chdir(tmp_path)
    name = "h2\x1b]0;owned\x07\x1b[31m.xyz"
    Path(name).write_text("2\n\nH 0 0 0\nH 0 0 0.74\n")
    assert main([command, name, "none\x1b[2J.xyz", *CHEAP, "--record", "r.jsonl"]) != 0
    assert main(["run", name, *CHEAP, "--output", "no\x1b[2J/x.h5"]) != 0
    out, err = capfd.readouterr()
    assert "h2\\x1b]0;owned\\x07\\x1b[31m.xyz" in out and "\x1b" not in out + err and "\x07" not in out + err


def test_cells_are_no_formulas(tmp_path):
    """Names that a spreadsheet would compute have an apostrophe before them; numbers are numbers, negative ones too."""
    hostile = ['=HYPERLINK("http://x")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1"]
    rows = [[name, -1.5, "-1.5e-3", None] for name in hostile]
    found = list(csv.reader(csv_table(["=name", "a", "b", "c"], rows).splitlines()))
    assert [row[0] for row in found] == [f"'{name}" for name in ["=name", *hostile]]
    assert all(row[1:] == ["-1.5", "-1.5e-3", ""] for row in found[1:])
    outcomes = dftfd.run_batch([("=1+1", "He 0 0 0;")], "hf", molecule_options={"basis": "sto-3g"})
    outcomes.write(tmp_path / "t.csv")
    (row,) = csv.DictReader((tmp_path / "t.csv").read_text().splitlines())
    assert row["molecule"] == "'=1+1" and float(row["energy_hartree"]) == outcomes[0].energy < 0


def test_latex_prints_names_as_they_are(tmp_path):
    r"""A set named \input{/etc/passwd}: no command is left in the table, nor in its comment."""
    name = "\\input{/etc/passwd} ~^$x$ 50% #1 a_b & c\n\\end{tabular}"
    document = {
        "dftfd_benchmark": 1,
        "name": name,
        "unit": "kcal/mol",
        "molecules": {"H2": {"atoms": "H 0 0 0; H 0 0 0.74"}, "H": {"atoms": "H 0 0 0;", "spin": 1}},
        "reactions": [{"name": "r", "subset": name, "stoichiometry": {"H": 2, "H2": -1}, "reference": 100.0}],
    }
    (tmp_path / "set.json").write_text(json.dumps(document))
    table = dftfd.benchmark(tmp_path / "set.json", "hf", basis="sto-3g").latex()
    assert "\\input" not in table and table.count("\\end{tabular}") == 1
    assert in_latex(name) in table and "\\textbackslash{}input\\{/etc/passwd\\} \\textasciitilde{}" in table
    if shutil.which("pdflatex"):
        text = f"\\documentclass{{article}}\\begin{{document}}{table}\\end{{document}}"
        (tmp_path / "t.tex").write_text(text)
        subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)
