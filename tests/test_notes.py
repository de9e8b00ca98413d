"""What no number of a result shows is said in a line: on the screen, in the summary, in every file."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest

import dftfd
from dftfd.results.html_report import draw_convergence
from dftfd.runtime.progress import Progress
from dftfd.scf.convergence import LINEAR_DEPENDENCE

SMALL = {"density_fit": False, "grid_level": 1}
TWICE = [[0, [6.0, 1.0]], [0, [1.0, 1.0]], [0, [1.0000001, 1.0]], [0, [0.3, 1.0]]]
NITROGEN_HYDRIDE = "N 0 0 0; H 0 0 1.04"
LITHIUM_HYDRIDE = "Li 0 0 0; H 0 0 1.6"


class Listening(Progress):
    """Remembers what is said, and where the table begins."""

    def __init__(self):
        super().__init__()
        self.said = []

    def note(self, text):
        self.said.append(text)

    def cycle(self, cycle):
        self.said.append(cycle)


def everywhere(result, folder):
    """The notes of a result as its documents have them: text, page, JSON, HDF5."""
    for name in ("x.html", "x.json", "x.h5"):
        result.write(folder / name)
    document = json.loads((folder / "x.json").read_text())["extras"]["dftfd"]["notes"]
    with h5py.File(folder / "x.h5") as file:
        stored = json.loads(file["dftfd/text"][()])["notes"]
    assert document == stored == list(result.notes) == list(dftfd.load_result(folder / "x.h5").notes)
    words = lambda text: " ".join(text.replace("&#x27;", "'").split())
    for text in (str(result), result._repr_html_(), (folder / "x.html").read_text()):
        assert all(note in words(text) for note in result.notes)
    return result.notes


def test_dependent_functions_that_are_left_out_are_counted():
    """As many as the overlap has eigenvalues at or below the threshold; said before the first cycle."""
    helium, listening = dftfd.molecule("He 0 0 0;", basis={"He": TWICE}), Listening()
    result = dftfd.run_scf(helium, "pbe", **SMALL, progress=listening)
    count = int(np.sum(np.linalg.eigvalsh(result.overlap) <= LINEAR_DEPENDENCE))
    (note,) = result.notes
    assert note.startswith(f"{count} of 4 basis functions left out as linearly dependent") and "1e-06" in note
    first_cycle = next(k for k, what in enumerate(listening.said) if not isinstance(what, str))
    assert listening.said.index(note) < first_cycle
    assert not dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe", **SMALL).notes


def test_the_dipole_of_a_double_hybrid_is_marked_as_that_of_the_orbitals(tmp_path):
    molecule = dftfd.molecule(LITHIUM_HYDRIDE, basis="sto-3g")
    double, plain = (dftfd.run_scf(molecule, xc, **SMALL) for xc in ("hf + 0.5*pt2", "hf"))
    (note,) = everywhere(double, tmp_path)
    assert note.startswith("dipole, charges") and "orbitals" in note
    assert "  dipole, orbitals only" in str(double) and "orbitals only" not in str(plain) and not plain.notes


@pytest.mark.slow  # 4 s; that it is said: the test above
@pytest.mark.parametrize(("xc", "without"), [("hf + 0.5*pt2", "hf"), ("b2plyp", "pbe")])
def test_the_dipole_of_a_double_hybrid_is_no_slope_of_its_energy(xc, without):
    """It is not the derivative of the energy by a field, which differences give; without perturbation theory it is."""
    molecule, field = dftfd.molecule(LITHIUM_HYDRIDE, basis="6-31g"), 1e-4
    run = lambda xc, E=0.0: dftfd.run_scf(molecule, xc, **SMALL, conv_tol=1e-11, electric_field=(0, 0, E))
    of_energy = {xc: -(run(xc, field).energy - run(xc, -field).energy) / (2 * field) for xc in (xc, without)}
    double, plain = run(xc), run(without)
    assert abs(of_energy[xc] - double.dipole[2]) > 1e-2 > 1e-4 > abs(of_energy[without] - plain.dipole[2])


@pytest.mark.slow  # 0.5 s; in one of the spins: the next test
def test_an_empty_orbital_below_a_filled_one_is_a_doubt():
    """NH as a closed shell: both pi orbitals have one energy as long as none is chosen; the filled one rises."""
    listening, molecule = Listening(), dftfd.molecule(NITROGEN_HYDRIDE, basis="6-31g")
    result = dftfd.run_scf(molecule, "pbe", **SMALL, progress=listening)
    ((homo, lumo),) = result.frontier
    assert result.converged and homo > lumo + 1e-3
    note = next(note for note in result.notes if "empty" in note)
    assert note.startswith(f"DOUBT: an empty orbital lies {(homo - lumo) * 27.21138602:.3f} eV below a filled one")
    assert note in listening.said


@pytest.mark.parametrize("method, words", [("UKS", "an empty beta orbital"), ("ROKS", "an empty orbital")])
def test_the_spin_of_an_empty_orbital_below_a_filled_one_is_named(method, words):
    """Lithium: the 1s orbital of beta, in ROKS of both, changes places with the highest one."""
    result = dftfd.run_scf(dftfd.molecule("Li 0 0 0;", basis="sto-3g", spin=1), "pbe", method, **SMALL)
    occupations, orbitals = result.mo_occ.copy(), np.arange(result.mo_occ.shape[1])
    for spin in (1,) if method == "UKS" else (0, 1):
        occupations[spin] = occupations[spin, np.roll(orbitals, 1)]
    (note,) = replace(result, mo_occ=occupations).notes
    assert note.startswith(f"DOUBT: {words} lies") and not result.notes


def test_occupations_that_were_asked_for_are_no_doubt():
    """An excited determinant has its hole on purpose."""
    excited = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe", **SMALL, occupations=[0, 2])
    assert excited.frontier[0][1] < excited.frontier[0][0] and not excited.notes


@pytest.mark.slow  # 0.9 s; the same doubt about hydrogen: test_scf_ground_states
def test_doubts_of_a_closed_shell_name_the_triplet():
    """O2: the triplet is the ground state, by 1.7 eV with PBE."""
    oxygen = "O 0 0 0; O 0 0 1.2075"
    options = {"grid_level": 2}
    singlet, triplet = (
        dftfd.run_scf(dftfd.molecule(oxygen, basis="sto-3g", spin=spin), "b3lyp", **options) for spin in (0, 2)
    )
    assert triplet.energy < singlet.energy - 0.03
    assert any(note.startswith("DOUBT: different orbitals") and "spin=2" in note for note in singlet.notes)
    assert not triplet.notes


def test_cycles_of_a_preliminary_scf_count(tmp_path):
    """Cyanogen: the whole energy's table is one row; what went before is told, drawn and kept in all files."""
    from matplotlib.figure import Figure  # half a second that no other test of this file needs

    cyanogen, listening = dftfd.molecule("N 0 0 0; C 0 0 1.16; C 0 0 2.54; N 0 0 3.7", basis="sto-3g"), Listening()
    result = dftfd.run_scf(cyanogen, "pbe", grid_level=2, progress=listening)
    count = len(result.preliminary)
    assert result.converged and count > 5 and result.all_cycles == count + result.cycles
    assert f"converged in {result.all_cycles} cycles; {count} of them in a preliminary SCF" in " ".join(
        str(result).split()
    )
    assert any(
        isinstance(words, str) and words.startswith(f"preliminary SCF: {count} cycles") for words in listening.said
    )
    energies = [cycle.energy for cycle in result.preliminary]
    assert [cycle.number for cycle in result.preliminary] == [*range(1, count + 1)]
    assert energies[-1] == pytest.approx(result.energy, abs=1e-6) and result.preliminary[-1].gradient_norm < 1e-4
    document = result.to_qcschema()
    assert document["properties"]["scf_iterations"] == result.all_cycles
    assert [row["energy"] for row in document["extras"]["dftfd"]["preliminary"]] == energies
    result.save(tmp_path / "x.h5")
    assert dftfd.load_result(tmp_path / "x.h5").preliminary == result.preliminary
    axes = Figure().subplots()
    draw_convergence(axes, result)
    curves = {line.get_label(): line.get_xdata() for line in axes.get_lines()}
    assert len(curves["orbital gradient"]) == count + 1 and len(curves["energy change"]) >= count


HYDROGEN = ("H 0 0 0;", {"basis": "6-31g", "spin": 1})


@pytest.mark.parametrize(
    ("xc", "is_defined"),
    [pytest.param("mgga_c_tpss", True, marks=pytest.mark.slow), ("lda,vwn", True), ("gga_c_pbe", False)],
)
def test_orbital_energies_of_an_empty_spin_are_limits_or_none(xc, is_defined, tmp_path):
    """The LUMO of no beta electrons is dE/dn of few, by differences of the energy; PBE's has no limit."""
    result = dftfd.run_scf(dftfd.molecule(HYDROGEN[0], **HYDROGEN[1]), f"hf + {xc}", "UKS", **SMALL)
    lumo, orbital, P = result.frontier[1][1], result.mo_coeff[1][:, 0], np.array(result.density_matrix)
    energy = result.calculation.energy(Progress()).evaluate

    def slope(n):
        """[hartree per electron]"""
        P[1] = n * np.outer(orbital, orbital)
        return (sum(energy(P).energies.values()) - result.energy) / n

    if is_defined:
        assert lumo == pytest.approx(slope(1e-6), abs=2e-3) and not result.notes
    else:
        assert lumo is None and slope(1e-9) > 2 * slope(1e-7) > 0
        assert any("empty beta spin are not defined" in note for note in everywhere(result, tmp_path))


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ("6-31G*", "the d functions of 6-31g* are spherical here (5 in a shell)"),
        ("6-31+g(d,p)", "as with cartesian=True"),
        ("6-31G(2df,p)", "(6), beside spherical f functions."),
        ({"O": "6-31g**", "H": "sto-3g"}, "of 6-31g** are"),
        ("6-311G**", ""),
        ("6-31G", ""),
        ("cc-pVDZ", ""),
    ],
)
def test_cartesian_functions_of_poples_sets(basis, words):
    """Gaussian 16's manual: pure d functions but in 3-21G, 6-21G, 4-31G, 6-31G and those made of them; f are pure."""
    water = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
    remarks = dftfd.molecule(water, basis=basis).cartesian_remarks
    assert len(remarks) == bool(words) and all(words in remark for remark in remarks)
    assert not dftfd.molecule(water, basis=basis, cartesian=True).cartesian_remarks


def test_cartesian_functions_are_a_note(tmp_path):
    neon = dftfd.run_scf(dftfd.molecule("Ne 0 0 0;", basis="6-31g*"), "hf", **SMALL)
    (note,) = everywhere(neon, tmp_path)
    assert "Cartesian in Gaussian" in note
