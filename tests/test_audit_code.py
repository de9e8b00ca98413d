"""Audits of whole programs: planted faults are recognised, sound programs pass (docs/audit_code.md).

The programs are toys with known energies: springs between atoms with charges in a field, for which forces, Hessian
and dipole are written by hand, so that each fault is one line.
"""

import json
import shutil
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import dftfd
from dftfd.errors import InputError, UnsupportedError
from dftfd.interop.audit_targets import Fixed, PySCFTarget, QCEngineTarget, Setting
from dftfd.interop.program_targets import SHIPPED, filled, read_program, shipped
from dftfd.verify.code_audit import MOLECULES, OwnTarget, audit_code, setting_of
from dftfd.verify.code_checks import CHECKS, CONSISTENT, INCONSISTENT, UNDECIDED, derivative, noise, symmetries

CHARGES = {"O": -0.8, "N": -0.8, "H": 0.4, "Cu": 0.0}


class Toy(Fixed):
    """Morse bonds of two spins between all pairs, charges on atoms in a field and beside point charges.

    E = sum_pairs (1 - exp(R_spin - r))^2 / 20 of each spin - mu . F + sum q Q / R, each force written by hand. `fault`
    changes one answer.
    """

    name = "toy 1"
    conditions = frozenset({"spin", "field", "charges"})
    offers = frozenset({"energy", "forces", "hessian", "dipole", "dipole_derivatives", "charge_forces", "restarted"})

    def __init__(self, fault="", grid=0.0, solvent=0.0):
        self.fault, self.grid, self.solvent = fault, grid, solvent
        self.rng, self.calls = np.random.default_rng(1), 0

    def variants(self, setting):
        found = {"finer grid": Toy(self.fault, self.grid / 50, self.solvent)} if self.grid else {}
        return found | ({"without solvent": Toy(self.fault, self.grid)} if self.solvent else {})

    def _spin(self, s, sign):
        """Energy and forces of one spin, whose bonds are as long as it has electrons."""
        longest, off = 1.5 + sign * 0.6 * s.spin / len(s.symbols), 1 - np.eye(len(s.symbols))
        r = s.positions[:, None] - s.positions[None]
        d = np.linalg.norm(r, axis=2) + np.eye(len(r))
        well = np.exp(longest - d)
        slope = off * 0.1 * (1 - well) * well / d
        return 0.025 * (((1 - well) ** 2 - 1) * off).sum(), -(slope[:, :, None] * r).sum(axis=1)

    def compute(self, quantity, s):
        self.calls += 1
        found = getattr(self, f"_{quantity}")(s)
        return self._faulty(quantity, np.asarray(found, dtype=float), s)

    def _energy(self, s):
        q = np.array([CHARGES[a] for a in s.symbols])
        gaps = np.linalg.norm(s.positions[:, None] - s.charges[None, :, :3], axis=2)
        total = (
            self._spin(s, 1)[0]
            + self._spin(s, -1)[0]
            - q @ s.positions @ s.field
            + (q[:, None] * s.charges[None, :, 3] / gaps).sum()
        )
        x = s.positions - s.positions.mean(axis=0)
        return total + self.solvent * (np.exp(-(x**2).sum(axis=1))).sum()

    _restarted = _energy

    def _forces(self, s):
        q = np.array([CHARGES[a] for a in s.symbols])
        r = s.positions[:, None] - s.charges[None, :, :3]
        gaps = np.linalg.norm(r, axis=2)
        push = (q[:, None] * s.charges[None, :, 3] / gaps**3)[..., None] * r
        f = self._spin(s, 1)[1] + (0 if self.fault == "one spin" else self._spin(s, -1)[1])
        x = s.positions - s.positions.mean(axis=0)
        bend = 2 * self.solvent * np.exp(-(x**2).sum(axis=1))[:, None] * x
        bend -= bend.mean(axis=0)
        return f + np.outer(q, s.field) + push.sum(axis=1) + (0 if self.fault == "solvent" else bend)

    def _hessian(self, s):
        """Sixth-order differences of the forces, two hundred times as fine as the audit's."""
        s = s.but(charges=s.charges[:0]) if self.fault == "no charges in hessian" else s
        found = np.zeros((*s.positions.shape, *s.positions.shape))
        for index in np.ndindex(s.positions.shape):
            step = np.zeros(s.positions.shape)
            step[index] = 1e-3
            at = lambda t, step=step: self._forces(s.but(positions=s.positions + t * step))
            found[index] = -(45 * (at(1) - at(-1)) - 9 * (at(2) - at(-2)) + (at(3) - at(-3))) / 60 / 1e-3
        return found

    def _dipole(self, s):
        return np.array([CHARGES[a] for a in s.symbols]) @ s.positions

    def _dipole_derivatives(self, s):
        return np.array([CHARGES[a] for a in s.symbols])[:, None, None] * np.eye(3)

    def _charge_forces(self, s):
        q = np.array([CHARGES[a] for a in s.symbols])
        r = s.charges[:, None, :3] - s.positions[None]
        return ((s.charges[:, None, 3] * q[None] / np.linalg.norm(r, axis=2) ** 3)[..., None] * r).sum(axis=1)

    def _faulty(self, quantity, found, s):
        fault = self.fault
        if fault == f"factor two in {quantity}":
            return 2 * found
        if fault == f"sign of {quantity}":
            return -found
        if fault == f"zero {quantity}":
            return 0 * found
        if fault == "oxygen" and quantity == "forces":
            return found + 1e-3 * (np.array(s.symbols) == "O")[:, None] * [1.0, -2.0, 0.5]
        if fault == "noise" and quantity == "energy":
            return found + self.rng.normal(scale=1e-5)
        if fault == "noisy forces" and quantity == "forces":
            return found + self.rng.normal(scale=1e-3, size=found.shape)
        if quantity == "forces":
            return found + self.grid * np.sin(50 * s.positions)
        if fault == "order" and quantity in ("energy", "restarted"):
            return found + 1e-4 * s.positions[0, 0] - 1e-4 * s.positions[:, 0].mean()
        if fault == "stale" and quantity == "energy":
            return found + (1e-4 if self.calls % 97 == 0 else 0.0)
        if fault == "pairs" and quantity == "energy":
            return found + 1e-4 * (len(s.symbols) > 3)
        if fault == "guess" and quantity == "restarted":
            return found + 1e-3
        return found


def found_by(toy, check, molecule="water"):
    (outcome,) = audit_code(toy, molecule, check).outcomes
    return outcome


def test_a_sound_program_passes():
    """Nothing is wrong with the toy, and nothing is said to be; what it lacks is named."""
    report = audit_code(Toy())
    assert report.passed and not report.findings
    assert {o.check for o in report.outcomes if o.verdict == CONSISTENT} >= {
        "forces", "forces in a field", "forces beside charges", "forces on charges", "Hessian", "dipole",
        "dipole derivatives", "net force", "torque", "symmetry", "spin exchange", "order of atoms", "translation",
        "rotation", "size consistency", "after others", "restart",
    }  # fmt: skip
    assert "polarisability" in report.left_out and "nested bases" in report.left_out


@pytest.mark.parametrize(
    ("toy", "check", "molecule", "pattern"),
    [
        (Toy("factor two in forces"), "forces", "water", "factor two"),
        (Toy("factor two in hessian"), "Hessian", "water", "factor two"),
        (Toy("factor two in dipole"), "dipole", "water", "factor two"),
        (Toy("factor two in dipole_derivatives"), "dipole derivatives", "water", "factor two"),
        (Toy("sign of forces"), "forces", "water", "sign"),
        (Toy("sign of charge_forces"), "forces on charges", "water", "sign"),
        (Toy("zero charge_forces"), "forces on charges", "water", "silent zero"),
        (Toy("one spin"), "forces", "NH2", "one spin"),
        (Toy("oxygen"), "forces", "water", "one atom kind"),
        (Toy(grid=1e-4), "forces", "water", "missing grid response"),
        (Toy("solvent", solvent=0.01), "forces", "water", "missing solvent term"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.fault or "grid",
)
def test_planted_faults_are_recognised(toy, check, molecule, pattern):
    """One line of the toy is wrong, and the audit says which kind of line."""
    outcome = found_by(toy, check, molecule)
    assert (outcome.verdict, outcome.pattern) == (INCONSISTENT, pattern)
    assert outcome.deviation > outcome.limit and outcome.evidence


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("no charges in hessian", "Hessian beside charges"),
        ("order", "order of atoms"),
        ("pairs", "size consistency"),
        ("guess", "restart"),
        ("oxygen", "net force"),
    ],
)
def test_what_has_to_be_equal_is_not(fault, check):
    assert found_by(Toy(fault), check).verdict == INCONSISTENT


@pytest.mark.parametrize("fault", ["", "factor two in polarizability_derivatives"])
def test_raman(fault):
    """Polarisabilities that are a sum of x x^T, with derivatives by hand, and with twice these."""

    class Polar(Toy):
        offers = Toy.offers | {"polarizability", "polarizability_derivatives"}

        def _polarizability(self, s):
            return s.positions.T @ s.positions

        def _polarizability_derivatives(self, s):
            half = np.einsum("ki,aj->akij", np.eye(3), s.positions)
            return half + half.swapaxes(2, 3)

    assert found_by(Polar(fault), "Raman").pattern == ("factor two" if fault else "")


@pytest.mark.parametrize("fault", ["noise", "noisy forces"])
def test_noise_is_no_mistake(fault):
    """Energies with noise of 1e-5, or forces with 1e-3, decide nothing, and are called what they are."""
    outcome = found_by(Toy(fault), "forces")
    assert (outcome.verdict, outcome.pattern) == (UNDECIDED, "noise")


def test_a_solvent_that_is_right_is_not_suspected():
    assert found_by(Toy(solvent=0.01), "forces").verdict == CONSISTENT


def test_error_bars_hold():
    """Differences of functions with known derivatives, smooth, stiff and noisy, are within six of their bars."""
    rng = np.random.default_rng(3)
    for scale, sigma in [(1.0, 0.0), (30.0, 0.0), (1.0, 1e-6), (1.0, 1e-9)]:
        of = lambda t, scale=scale, sigma=sigma: np.sin(scale * t + np.arange(9)) + rng.normal(scale=sigma, size=9)
        value, bar, second, second_bar = derivative(of, 0.01)
        for found, width in ((value, bar), (second, second_bar)):
            least = np.maximum(width, np.sqrt(np.mean(width**2)))
            assert (np.abs(found - scale * np.cos(np.arange(9))) <= 6 * least).all()
        assert sigma or second_bar.max() > 10 * bar.max()


def test_both_orders_are_reported():
    """Order 2 finds the same mistake with a wider error bar; what is no derivative has one answer."""
    wrong, right = found_by(Toy("factor two in forces"), "forces"), found_by(Toy(), "forces")
    assert wrong.second == pytest.approx(wrong.deviation, abs=6 * wrong.second_bar) and wrong.second_bar > wrong.bar > 0
    assert right.deviation <= right.limit and right.second <= 6 * right.second_bar
    assert f"+- {wrong.bar:.0e} hartree/bohr (order 2: {wrong.second:.1e} +- {wrong.second_bar:.0e})" in str(wrong)
    assert found_by(Toy(), "net force").second is None


def test_noise_is_measured():
    """Of a smooth function there is none; of noise its own standard deviation."""
    rng = np.random.default_rng(5)
    assert noise(lambda t: np.array([np.sin(t), np.exp(t)])) < 1e-12
    assert noise(lambda t: rng.normal(scale=1e-4, size=4000)) == pytest.approx(1e-4, rel=0.1)


def test_symmetries_of_molecules():
    """NH2 has an axis and two planes, bent water its plane, three atoms of one line at different places their own."""
    assert len(symmetries(setting_of("NH2"))) == 3
    skewed = setting_of("water")
    assert len(symmetries(skewed)) == 1
    other = replace(skewed, positions=skewed.positions, symbols=("O", "H", "O"))
    assert len(symmetries(other)) == 1


def test_answers_are_checked():
    """A wrong shape, a number that is none and an exception fail, each in one line; a refusal is no failure."""

    class Broken(Toy):
        def compute(self, quantity, s):
            if quantity == "forces":
                return super().compute(quantity, s)[:2]
            if quantity == "dipole":
                return [np.nan, 0.0, 0.0]
            if quantity == "hessian":
                raise KeyError("no grid")
            if quantity == "charge_forces":
                raise NotImplementedError("later")
            return super().compute(quantity, s)

    report = audit_code(Broken(), "water", ["forces", "dipole", "Hessian", "forces on charges"])
    said = {o.check: (o.verdict, o.evidence) for o in report.outcomes}
    assert said["forces"] == ("FAILED", "forces has shape (2, 3), expected (3, 3).")
    assert said["dipole"] == ("FAILED", "dipole is not finite.")
    assert said["Hessian"] == ("FAILED", "hessian: KeyError: 'no grid'")
    assert said["forces on charges"] == ("not offered", "no charge_forces here: later")
    assert not report.passed


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError, match="there is no check 'force'; the closest names are forces"):
        audit_code(Toy(), "water", "force")
    with pytest.raises(InputError, match="cannot be audited"):
        audit_code(3)
    with pytest.raises(UnsupportedError, match="no basis set"):
        Toy().in_basis("sto-3g")


def test_the_report_is_one_document(tmp_path):
    """Table within 80 columns, JSON with every number of it, a page of HTML."""
    report = audit_code(Toy("factor two in forces"), "water", ["forces", "dipole", "polarisability"])
    lines = str(report).splitlines()
    assert lines[0] == f"toy 1: 1 of 2 checks consistent, {report.calculations} calculations"
    assert all(len(line) <= 80 for line in lines[1:4])
    assert lines[-2].startswith("1. forces, water: INCONSISTENT by ") and "factor two" in lines[-2]
    assert lines[-1] == "not offered: polarisability"
    for name in ("audit.json", "audit.html"):
        report.write(tmp_path / name)
    kept = json.loads((tmp_path / "audit.json").read_text())
    assert kept["outcomes"][0]["deviation"] == report.outcomes[0].deviation and kept["passed"] is False
    page = (tmp_path / "audit.html").read_text()
    assert "factor two" in page and page.count("<tr>") == 3
    with pytest.raises(InputError, match=r"\.json or \.html"):
        report.write(tmp_path / "audit.txt")


def test_molecules_by_name_text_and_file(tmp_path):
    """An odd electron is unpaired unless the file says otherwise; ghosts stay ghosts."""
    (tmp_path / "oh.xyz").write_text("2\ncharge=-1\nO 0 0 0\nH 0 0 0.97\n")
    assert setting_of(str(tmp_path / "oh.xyz")).charge == -1
    assert setting_of("O 0 0 0; H 0 0 0.97").spin == 1
    assert setting_of("He 0 0 0; ghost-He 0 0 2").symbols == ("He", "ghost-He")
    assert {name: setting_of(name).spin for name in MOLECULES} == {"water": 0, "NH2": 1}


def test_hartree_fock_of_pyscf_is_consistent():
    """RHF in STO-3G: forces and dipole of H2 are derivatives of its energy."""
    scf = pytest.importorskip("pyscf.scf")
    report = audit_code(scf.RHF, "H 0 0 0.05; H 0.1 0 0.8", ["forces", "dipole", "net force", "torque", "restart"])
    assert report.passed and len([o for o in report.outcomes if o.verdict == CONSISTENT]) == 5


@pytest.mark.slow  # seventy SCFs on two grids
def test_a_grid_that_stands_still_is_found():
    """PySCF's forces without the motion of the grid, LDA on a coarse grid."""
    dft = pytest.importorskip("pyscf.dft")

    def coarse(mole):
        method = dft.RKS(mole, xc="lda,vwn")
        method.grids.level = 0
        return method

    target = PySCFTarget(coarse, basis="sto-3g")
    (outcome,) = audit_code(target, "H 0 0 0.05; H 0.1 0 0.8", "forces").outcomes
    assert (outcome.verdict, outcome.pattern) == (INCONSISTENT, "missing grid response")


def test_calculators_of_ase_are_consistent():
    """EMT's forces are those of its energy, with one calculator for all geometries."""
    emt = pytest.importorskip("ase.calculators.emt")
    copper = "Cu 0 0 0; Cu 2.3 0.1 0; Cu 1.1 2.0 0.3; Au 0.9 0.8 2.1"
    report = audit_code(emt.EMT, copper)
    assert report.passed and sum(o.verdict == CONSISTENT for o in report.outcomes) >= 6
    assert report.name.endswith("EMT")


PROGRAM = """
name = "springs"
command = ["PYTHON", "PROGRAM", "{input}", "{output}"]
template = "{charge} {basis}\\n{geometry_bohr}\\n{task} { stays }"
[values]
basis = "soft"
[tasks.energy]
text = "energy"
read = '^E = (\\S+)$'
[tasks.forces]
text = "gradient"
read = '^ +\\d+ +(\\S+) +(\\S+) +(\\S+)$'
factor = -1.0
"""
"""A program's description, and the program: springs of length 1.5 between all atoms."""
SPRINGS = """
import math
import sys

head, *atoms, task = open(sys.argv[1]).read().splitlines()
assert head == "0 soft" and task.split(" ", 1)[1] == "{ stays }"
r = [tuple(map(float, line.split()[1:])) for line in atoms]
energy, gradient = 0.0, [[0.0] * 3 for _ in r]
for a in range(len(r)):
    for b in range(len(r)):
        if a != b:
            d = math.dist(r[a], r[b])
            energy += 0.25 * (d - 1.5) ** 2
            for k in range(3):
                gradient[a][k] += (d - 1.5) / d * (r[a][k] - r[b][k])
with open(sys.argv[2], "w") as output:
    print(f"gradients\\nE = {energy:.14f}", file=output)
    if task.startswith("gradient"):
        for k, row in enumerate(gradient, start=1):
            print(f"   {k} " + " ".join(f"{x:.12f}" for x in row), file=output)
"""


@pytest.fixture
def springs(tmp_path):
    (tmp_path / "springs.py").write_text(SPRINGS)
    text = PROGRAM.replace("PYTHON", sys.executable).replace("PROGRAM", str(tmp_path / "springs.py"))
    path = tmp_path / "springs.toml"
    path.write_text(text)
    return path


@pytest.mark.slow  # forty processes
def test_an_executable_with_a_template(springs):
    """Its input is filled, its output read; a sign that is wrong in the description is found like any other."""
    assert audit_code(springs, "H 0 0 0; H 0.1 0 0.9", ["forces", "net force", "after others"]).passed
    springs.write_text(springs.read_text().replace("factor = -1.0", ""))
    assert found_by(springs, "forces", "H 0 0 0; H 0.1 0 0.9").pattern == "sign"


def test_output_without_numbers_fails(springs):
    springs.write_text(springs.read_text().replace("^E =", "^energy ="))
    outcome = found_by(springs, "translation", "H 0 0 0; H 0.1 0 0.9")
    assert outcome.verdict == "FAILED" and "0 of 1 numbers of energy in the output" in outcome.evidence


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("name =", "name 3", "is not a TOML file"),
        ("[tasks.energy]", "[tasks.enthalpy]", "are expected"),
        ("[tasks.forces]", "[tasks.force]", "the closest names are forces"),
        (r"(\S+)$'", r"(\S+$'", "not a regular expression"),
        (r"(\S+)$'", r"\S+$'", "has no groups"),
        ("template =", "tempelate =", "not 'tempelate'"),
        ("name =", "output = '../x'\nname =", "are expected"),
        pytest.param(sys.executable, "no_such_program", "no program 'no_such_program'", id="no program"),
    ],
)  # fmt: skip
def test_descriptions_of_programs_are_checked(springs, before, after, message):
    springs.write_text(springs.read_text().replace(before, after, 1))
    with pytest.raises(dftfd.DftfdError, match=message):
        audit_code(springs, "water")


LITHIUM_HYDRIDE = "Li 0 0 0.05; H 0.1 0 1.65"
BESIDE = np.array([[2.6, 3.1, 2.9, 0.6], [-3.4, -2.2, -3.7, -0.4]])
OUTPUTS = Path(__file__).parent.parent / "data" / "audits" / "outputs"


@pytest.fixture(scope="module")
def lithium_hydride():
    """LiH beside two charges, and PySCF's answers in STO-3G."""
    scf = pytest.importorskip("pyscf.scf")
    target, s = PySCFTarget(scf.HF, "sto-3g"), setting_of(LITHIUM_HYDRIDE).but(charges=BESIDE)
    return s, {quantity: target.compute(quantity, s) for quantity in ("energy", "forces", "dipole", "charge_forces")}


def close(given, expected, quantity):
    """Within the digits that are printed: NWChem's gradients have six decimals, Psi4's dipoles a factor with nine."""
    limit = {"energy": 1e-8, "dipole": 1e-6}.get(quantity, 1e-6)
    np.testing.assert_allclose(given, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("name", SHIPPED)
def test_outputs_of_programs_are_read(name, lithium_hydride, tmp_path, monkeypatch):
    """What NWChem 7.0.2 and Psi4 1.3.2 printed for LiH (data/audits/README.md) is read as PySCF's numbers."""
    (tmp_path / name).write_text(f"#!/bin/sh\ncp {OUTPUTS / name}/*.* .\ncat {OUTPUTS / name}/stdout\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    target, (s, expected) = shipped(name).in_basis("sto-3g"), lithium_hydride
    for quantity in target.offers & set(expected):
        close(target.compute(quantity, s), expected[quantity], quantity)
    hessian = target.compute("hessian", s).reshape(6, 6)
    np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=1e-9)


@pytest.mark.slow  # processes of other programs
@pytest.mark.parametrize("name", SHIPPED)
def test_programs_compute_what_they_are_asked(name, lithium_hydride):
    """NWChem and Psi4 themselves: geometry, charge, spin, basis, charges and field arrive as they are meant."""
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    target, (s, expected) = shipped(name).in_basis("sto-3g"), lithium_hydride
    for quantity in target.offers & set(expected):
        close(target.compute(quantity, s), expected[quantity], quantity)
    from pyscf import scf

    other = s.but(charge=1, spin=1)
    close(target.compute("energy", other), PySCFTarget(scf.HF, "sto-3g").compute("energy", other), "energy")
    if "state" in target.conditions:
        other, along = s.but(charges=s.charges[:0], state=1), np.eye(6)[5].reshape(2, 3)
        below, above = (
            target.compute("energy", other.but(positions=other.positions + t * along)) for t in (-0.01, 0.01)
        )
        assert target.compute("forces", other)[1, 2] == pytest.approx((below - above) / 0.02, abs=3e-5)
        assert below > target.compute("energy", other.but(state=0)) + 0.05
    if "field" in target.conditions:
        other = s.but(charges=s.charges[:0], field=np.array([0.004, -0.006, 0.005]))
        close(target.compute("energy", other), PySCFTarget(scf.HF, "sto-3g").compute("energy", other), "energy")


ECHO = """
command = ["cat", "{input}"]
ghost = "X-{symbol}"
template = '''
{geometry_bohr}
unpaired {unpaired} method {method}
{charges_last}
sum 0.0 {grid}
sum 0.0 0.0 0.0
{task}'''
[values]
method = "hf"
grid = "0.001 0.2"
[variants."finer grid"]
grid = "0.0 0.0"
[tasks.energy]
read = '^(?:unpaired|root) (.)'
excited = "root {state}"
[tasks.forces]
read = '^sum (.*)'
[tasks.charge_forces]
read = '^(-?[\\d.]+) (-?[\\d.]+) (-?[\\d.]+) -?[\\d.]+$'
[tasks.hessian]
text = "1 0 2 0 0 3 4 0 0 5 0 6 0 0 7 0 0 8 0 0 9"
output = "input.dat"
read = '^(1 .*)$'
"""
"""A description whose program prints its input."""


@pytest.fixture
def echo(tmp_path):
    path = tmp_path / "echo.toml"
    path.write_text(ECHO)
    return read_program(path)


def test_placeholders(echo, monkeypatch):
    """Ghosts, unpaired electrons, charges last, a method and a lower triangle; what has no place is refused."""
    s = setting_of("O 0 0 0; ghost-H 0 0 1").but(spin=2, charges=BESIDE)
    assert echo.conditions == {"spin", "charges", "state"} and echo.compute("energy", s) == 2.0
    assert echo.compute("energy", s.but(state=3)) == 3.0
    with pytest.raises(UnsupportedError, match="no charge forces of excited states offered"):
        echo.compute("charge_forces", s.but(state=3))
    np.testing.assert_array_equal(echo.compute("charge_forces", s), BESIDE[:, :3])
    hessian = echo.compute("hessian", s).reshape(6, 6)
    assert (hessian == hessian.T).all() and hessian.diagonal().tolist() == [1, 2, 3, 5, 7, 9] and hessian[4, 3] == 0
    seen = []
    fill = lambda text, places: seen.append(filled(text, places)) or seen[-1]
    monkeypatch.setattr("dftfd.interop.program_targets.filled", fill)
    echo.of("method", "pbe").compute("energy", s)
    assert any("method pbe" in text and "\nX-H 0.0" in text for text in seen)
    with pytest.raises(UnsupportedError, match="has no {basis} with a value"):
        echo.in_basis("sto-3g")
    with pytest.raises(UnsupportedError, match="no ghost atoms"):
        replace(echo, ghost="").compute("energy", s)


def test_variants_of_programs(echo):
    """A finer grid that an input may ask for tells where a sum of forces comes from."""
    outcome = found_by(echo, "net force", "H 0 0 0; H 0.1 0 0.9")
    assert (outcome.verdict, outcome.pattern) == (INCONSISTENT, "missing grid response")


def test_a_basis_set_that_a_program_does_not_know():
    """No energy under one of two names is no inconsistency; it is said which name that was."""

    class Named(Toy):
        basis = ""

        def in_basis(self, basis):
            other = Named(self.fault)
            other.basis = basis
            return other

        def compute(self, quantity, s):
            if self.basis == "6-31g(d)":
                raise KeyError("no such basis")
            return super().compute(quantity, s)

    outcome = found_by(Named(), "two names")
    assert outcome.verdict == "not offered" and "no energy in 6-31g(d)" in outcome.evidence
    assert found_by(Named(), "nested bases").verdict == CONSISTENT


def test_programs_of_qcengine():
    """RDKit's force field through QCEngine, which has the unit of length of its gradient upside down in 0.52."""
    pytest.importorskip("rdkit")
    pytest.importorskip("qcengine")
    target = QCEngineTarget("rdkit", "uff", None, [(0, 1, 1.0)])
    report = audit_code(target, "H 0 0 0; H 0.1 0 0.9", ["forces", "Hessian"])
    forces, hessian = report.outcomes
    assert hessian.verdict == "not offered" and "hessian" in hessian.evidence
    if version("qcengine").startswith("0.52"):
        assert forces.verdict == INCONSISTENT and "3.5711 times" in forces.evidence  # (bohr/angstrom)^2
    else:
        assert forces.verdict == CONSISTENT, str(report)


def test_dftfd_is_consistent():
    """Forces, dipole and a saved result of H2, Hartree-Fock with exact integrals."""
    target = OwnTarget("hf", "sto-3g", density_fit=False, grid_level=0)
    checks = ["forces", "dipole", "polarisability", "restart", "save and load"]
    report = audit_code(target, "H 0 0 0.05; H 0.1 0 0.8", checks)
    assert report.passed and all(o.verdict == CONSISTENT for o in report.outcomes)


def test_command(tmp_path, capsys):
    """`dftfd audit-code`: the exit code says whether the program is consistent; a file is not replaced unasked."""
    from dftfd.cli import main

    (tmp_path / "toy.py").write_text(
        "from ase.calculators.emt import EMT\n\n\nclass Wrong(EMT):\n    def get_forces(self, atoms):\n"
        "        return 2 * super().get_forces(atoms)\n"
    )
    pytest.importorskip("ase")
    wrong, copper = f"{tmp_path / 'toy.py'}:Wrong", ["--molecule", "Cu 0 0 0; Cu 2.3 0.1 0", "--check", "forces"]
    page = ["--output", str(tmp_path / "a.html")]
    assert main(["audit-code", "ase.calculators.emt:EMT", *copper, *page, "--quiet"]) == 0
    assert "1 of 1 checks consistent" in capsys.readouterr().out
    assert main(["audit-code", wrong, *copper]) == 1
    shown = capsys.readouterr()
    assert "factor two" in shown.out and "forces, 0 calculations so far" in shown.err
    assert main(["audit-code", wrong, *copper, *page]) == 5
    assert main(["audit-code", "nowhere:EMT"]) == 2


def test_public_name():
    assert dftfd.audit_code is audit_code
    assert set(CHECKS) and isinstance(setting_of("water"), Setting)
