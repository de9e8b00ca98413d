"""The energy of one reaction from an equation, against PySCF's energies and the thermochemistry of each species."""

import json

import numpy as np
import pytest
from pyscf import gto, scf

import dftfd
from dftfd.cli import main
from dftfd.errors import DftfdError, InputError
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.results.document import read_document
from dftfd.results.thermochemistry import thermochemistry

EXACT = {"molecule_options": {"basis": "6-31g"}, "density_fit": False, "conv_tol": 1e-11}
CHEAP = {"molecule_options": {"basis": "sto-3g"}, "density_fit": False}
ON_COMMAND = ("--xc", "hf", "--basis", "sto-3g", "--no-density-fit")
ATOMS = {"h": "H 0 0 0", "h2": "H 0 0 0; H 0 0 0.74", "li": "Li 0 0 0", "lih": "Li 0 0 0; H 0 0 1.6"}
ATOMS |= {"he": "He 0 0 0", "heh": "He 0 0 0; H 0 0 0.93"}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, atoms in ATOMS.items():
        rows = atoms.split("; ")
        (tmp_path / f"{name}.xyz").write_text("\n".join([str(len(rows)), "", *rows, ""]))
    return tmp_path


def pyscfs(name, spin=0):
    mf = scf.HF(gto.M(atom=ATOMS[name], basis="6-31g", spin=spin, verbose=0))
    mf.conv_tol = 1e-11
    return mf.kernel()


def test_the_energy_is_that_of_pyscfs_runs():
    """Doublets by :CHARGE,MULTIPLICITY, names without ending, a coefficient (1e-8 hartree)."""
    found = dftfd.reaction("2 lih + 2 h.xyz:0,2 -> 2 li:0,2 + 2 h2.xyz", "hf", **EXACT)
    energy = 2 * (pyscfs("li", 1) + pyscfs("h2") - pyscfs("lih") - pyscfs("h", 1))
    assert found.energy == pytest.approx(energy, abs=1e-8)
    assert found.energy_kcal == pytest.approx(energy * HARTREE_IN_KCAL, abs=1e-5)
    assert f"{energy * 2625.49963948:.2f}" in str(found) and not found.failed
    assert "hf has no dispersion correction (hf-d4 has one); 6-31g is a small basis set" in str(found)


def test_coefficients_are_added_up():
    """Decimals, fractions, the same species on both sides, other arrows; what stands on both sides is not computed."""
    found = dftfd.reaction(
        "1.5 A + 1/2 A + h2 = B + h2", "hf", species={"A": "He 0 0 0;", "B": "He 0 0 0; He 0 0 9"}, **CHEAP
    )
    assert found.stoichiometry == (("A", -2.0), ("B", 1.0)) and found.energy == pytest.approx(0.0, abs=1e-7)
    assert dict(dftfd.reaction("heh.xyz:+1 <=> he + H+", "hf", **CHEAP).stoichiometry)["H+"] == 1.0


def test_a_number_of_libxc_is_a_functional():
    """7 is lda_c_vwn, in the table, too."""
    options = {"species": {"A": "He 0 0 0;", "B": "He 0 0 0; He 0 0 3"}} | CHEAP
    found, expected = (dftfd.reaction("2 A -> B", xc, **options) for xc in (7, "lda_c_vwn"))
    assert found.energy == pytest.approx(expected.energy, abs=1e-9) and dict(found.settings)["xc"] in ("7", "lda_c_vwn")


@pytest.mark.parametrize(
    "equation, said",
    [
        ("h2 -> 3 h:0,2", "'h2 -> 3 h:0,2' does not balance; missing: 1 H on the left."),
        ("lih -> h:0,2", "does not balance; missing: 1 Li on the right."),
        ("he -> he:+1,2", "does not balance; missing: charge +1 on the left."),
        ("h2 -> h2", "does not balance; missing: all species."),
        ("h2 + he -", "one arrow expected, as in 'a.xyz + 2 b.xyz -> c.xyz'; in a shell put it in quotes."),
        ("h2 = he -> h2", "one arrow expected"),
        ("h2 + -> h2", "'' is not a species; '2 a.xyz' expected."),
        ("0 h2 -> h2", "has the coefficient 0; leave it out."),
        ("2h2 -> h2", "file not found: '2h2'"),
        ("2 h -> h2", "allowed here: 1; write h:CHARGE,MULTIPLICITY."),
        ("h2 -> 2 x", "species= has 'y', which is not in the equation"),
    ],
)
def test_equations_that_are_refused(equation, said):
    """In one line, before anything is computed, with what is missing."""
    with pytest.raises(DftfdError) as caught:
        dftfd.reaction(equation, "hf", species={"y": "He 0 0 0;"} if " x" in equation else None, **CHEAP)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_species_is_no_free_particle_and_is_given_once(capsys):
    """`species=` of H+ counted for nothing, the first of two --species of one name neither."""
    with pytest.raises(DftfdError, match="has 'H\\+', a free particle"):
        dftfd.reaction("H+ + A -> B", "hf", species={"H+": "H 0 0 0;", "A": "He 0 0 0;", "B": "He 0 0 0;"})
    assert main(["reaction", "A -> He+ + e-", "--species", "A=a.xyz", "--species", "A=b.xyz"]) == 2
    assert "twice" in capsys.readouterr().err


def test_gibbs_energies_are_those_of_the_species():
    """At 350 K of molecules, each from its own vibrations; entropy of H+ in NIST-JANAF's tables, 1 bar."""
    found = dftfd.reaction("he + H+ -> heh:+1", "hf", thermo=True, temperature=350.0, **CHEAP)
    gases = {}
    for name, charge in (("he", 0), ("heh", 1)):
        result = dftfd.run_scf(dftfd.molecule(f"{name}.xyz", "sto-3g", charge=charge), "hf", density_fit=False)
        gases[name] = result.vibrations().thermochemistry(350.0)
    proton = found.thermochemistry["H+"]
    enthalpy = gases["heh"].enthalpy - gases["he"].enthalpy - proton.enthalpy
    assert found.enthalpy == pytest.approx(enthalpy, abs=1e-8)
    assert proton.enthalpy == pytest.approx(2.5 * 350.0 * 8.314462618e-3 / 2625.49963948, rel=1e-6)
    gibbs = gases["heh"].gibbs_energy - gases["he"].gibbs_energy - proton.gibbs_energy
    assert found.gibbs_energy == pytest.approx(gibbs, abs=1e-8) and "Gibbs energy, 350 K" in str(found)
    room = thermochemistry(0.0, 1, np.array([1.007276]), np.zeros((1, 3)), np.zeros(0), 298.15, 1e5, None, None)
    assert room.entropy * 2625499.63948 == pytest.approx(108.946, abs=0.002)


def test_optimised_species_lose_their_geometry():
    """Two starts of the same molecule: no energy between their minima (1e-6 hartree)."""
    pytest.importorskip("geometric")
    apart = {"A": "H 0 0 0; H 0 0 0.70", "B": "H 0 0 0; H 0 0 0.76"}
    assert abs(dftfd.reaction("A -> B", "hf", species=apart, **CHEAP).energy) > 1e-4
    assert abs(dftfd.reaction("A -> B", "hf", species=apart, optimize=True, **CHEAP).energy) < 1e-6


def test_the_command(files, capsys):
    """Files hold what is printed; a record goes on without computing; refusals have their exit codes."""
    words = ["reaction", "li:0,2 + h:0,2 = lih", *ON_COMMAND, "--record", "r.jsonl"]
    outputs = [word for name in ("r.json", "r.html", "r.h5") for word in ("--output", name)]
    assert main([*words, *outputs]) == 0
    said, lines = capsys.readouterr().out, (files / "r.jsonl").read_text()
    assert "3/3  li:0,2 / hf" in said and said.splitlines()[-1].startswith("wall time ")
    numbers = json.loads((files / "r.json").read_text())
    energy = numbers["reaction"]["reaction"]["kcal_per_mol"]["energy"]
    assert f"{energy:14.4f}" in said and f"{energy:14.4f}" in (files / "r.html").read_text()
    assert read_document(files / "r.h5")[1] == numbers
    assert main([*words, "--quiet"]) == 0 and float(capsys.readouterr().out) == pytest.approx(energy, abs=1e-6)
    assert (files / "r.jsonl").read_text() == lines
    assert main([*words, *outputs]) == 5 and "r.json exists" in capsys.readouterr().err
    assert main(["reaction", "X", "=", "2", "he", "--species", "X=he.xyz", *ON_COMMAND]) == 2
    assert capsys.readouterr().err.endswith("missing: 1 He on the left.\n")
    assert main([*words, "--temperature", "300"]) == 2 and main([*words, "--output", "r.txt"]) == 2
    assert main([*words[:-2], "--max-cycles", "1", "--convergence", "diis"]) == 3
    assert "energy                 FAILED" in capsys.readouterr().out


def test_solvation_energy_is_the_difference_of_pyscfs(capsys, files):
    """C-PCM with PySCF's cavity and its dielectric constant of water, RHF (1e-6 hartree)."""
    words = ("run", "lih.xyz", "--xc", "hf", "--basis", "6-31g", "--no-density-fit", "--solvent", "78.3553")
    assert main([*words, "--solvation-energy", "--output", "s.json"]) == 0
    mf = scf.RHF(gto.M(atom=ATOMS["lih"], basis="6-31g", verbose=0)).PCM()
    energy = mf.kernel() - pyscfs("lih")
    printed = json.loads((files / "s.json").read_text())["extras"]["dftfd"]["document"]["solvation"]
    assert printed["solvation_energy_hartree"] == pytest.approx(energy, abs=1e-6)
    said = capsys.readouterr().out
    assert f"= {printed['solvation_energy_kcal_per_mol']:.4f} kcal/mol, electrostatic part" in said
    assert main([*words[:-2], "--solvation-energy"]) == 2 and "needs a solvent" in capsys.readouterr().err
    assert main([*words, "lih.xyz", "--solvation-energy"]) == 2
    molecule = dftfd.molecule("lih.xyz", "6-31g")
    again = dftfd.solvation_energy(molecule, "hf", solvent=78.3553, density_fit=False)
    assert again.energy_kcal == pytest.approx(printed["solvation_energy_kcal_per_mol"], abs=1e-5)
    with pytest.raises(InputError):
        dftfd.solvation_energy(molecule, "hf", solvent="watr")
