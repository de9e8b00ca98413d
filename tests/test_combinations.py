"""Random combinations of molecule, functional, environment and property (tests/combinations)."""

import dataclasses
import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest

from dftfd.errors import UnsupportedError
from dftfd.functionals import supports
from dftfd.model.forces import Forces
from tests.combinations import __main__ as combinations
from tests.combinations.__main__ import DEFECTS, outcome, shrunk
from tests.combinations.cases import PROPERTIES, Case, draw
from tests.combinations.checks import CHECKS
from tests.combinations.differences import SCALES, Difference, Trial, bend, judged, slope, threshold
from tests.combinations.solving import forget
from tests.sample import sample
from tests.verification.planted import ROOT, with_defect
from tests.verification.planted_list import PLANTED

KEPT = Path(__file__).parent / "combinations" / "kept.jsonl"
HYDROXYL = Case([["O", [0.01, 0.02, 0.03]], ["H", [0.4, 0.5, 0.75]]], 0, 1, "sto-3g", "pbe", "forces", seed=3)
FIELD = {"grid_level": 0, "density_fit": False, "electric_field": [0.004, -0.007, 0.005]}


@pytest.fixture(autouse=True)
def solved_anew():
    forget()


@pytest.mark.parametrize("name", ["energy", "forces", "dipole"])
def test_a_radical_in_a_field(name):
    """Three properties of one case, each against differences or PySCF."""
    found, words = outcome(dataclasses.replace(HYDROXYL, property=name, options=FIELD))
    assert found == "right", words


@pytest.mark.parametrize("name", sample(["energy", "parameters"], ["parameters"]))
def test_a_network(name, unregistered):
    """Its energy in plain NumPy; derivatives by its factor, beside an activation function that has none."""
    cation = Case([["He", [0.0, 0.1, 0.0]], ["H", [0.5, 0.3, 0.4]]], 1, 0, "sto-3g", "net_x_combination", name)
    found, words = outcome(dataclasses.replace(cation, options={"grid_level": 0, "density_fit": False}))
    assert found == "right", words


@pytest.mark.slow  # 1.8 s; another planted defect is found in the next test but one
def test_a_planted_defect_is_found(monkeypatch):
    """Forces that lose a thousandth of themselves disagree with differences of energies."""
    made = Forces.__init__
    monkeypatch.setattr(Forces, "__init__", lambda self, values, *rest: made(self, 0.999 * values, *rest))
    assert outcome(dataclasses.replace(HYDROXYL, options=FIELD))[0] == "wrong"


ALPHA, SOFTER, WIDTH = 133.3, 0.5, 6e-6


def _energy(t):
    """A polarisability of 133.8 at t = 0, and of 133.3 where t is longer than 6e-6, as that of Li is; rounded."""
    return round(-0.5 * ALPHA * t**2 - 30 * t**3 - SOFTER * WIDTH**2 * (np.hypot(1.0, t / WIDTH) - 1.0), 14)


def _smooth(t):
    return round(-0.5 * ALPHA * t**2 - 30 * t**3 - 4e3 * t**4, 14)


def _dipole(t):
    """Its slope is 2.5, with jumps of 1e-9."""
    return 2.5 * t + np.sin(3 * t) ** 3 + 1e-9 * np.sin(1e9 * t)


@pytest.mark.parametrize(
    ("differences", "got", "verdict"),
    [
        (lambda: bend(lambda t: -_energy(t), -_energy(0.0), 5e-4), ALPHA + SOFTER, "rough"),
        (lambda: bend(lambda t: -_energy(t), -_energy(0.0), 5e-4), ALPHA + 3 * SOFTER, "wrong"),
        (lambda: bend(lambda t: -_smooth(t), -_smooth(0.0), 5e-4), ALPHA, "right"),
        (lambda: bend(lambda t: -_smooth(t), -_smooth(0.0), 5e-4), ALPHA * 1.0003, "wrong"),
        (lambda: slope(_dipole, 5e-4), 2.5, "right"),
        (lambda: slope(_dipole, 5e-4), 2.5003, "wrong"),
    ],
)
def test_differences_that_contradict_each_other_decide_nothing(monkeypatch, differences, got, verdict):
    """Noise of short steps does not contradict the long ones; a second length scale, below them all, does."""
    found = []
    for number, scale in enumerate(SCALES):
        monkeypatch.setattr(Trial, "number", number)
        value, error = differences()
        found.append(Difference(scale, float(value), 1e-4 * abs(value) + 0.1 * error, error))
    assert judged(found, got)[0] == verdict


def test_short_steps_are_converged_as_tightly_as_they_are_short(monkeypatch):
    """In a field h, 133.8 h^2 / 2 hartree are to be found: the threshold is a thousandth of it, or a few roundings."""
    assert threshold(1e-12, -7.5) == 1e-12
    for number, scale in enumerate(SCALES):
        monkeypatch.setattr(Trial, "number", number)
        assert threshold(1e-12, -7.5) <= max(1e-3 * ALPHA / 2 * (5e-4 * scale) ** 2, 4e-15)


def test_rough_differences_are_an_outcome_of_their_own(monkeypatch):
    """Neither right nor a defect. Of a comparison within its tolerance, no other steps are taken."""

    def check(case):
        value, error = bend(lambda t: -_energy(t), -_energy(0.0), 5e-4)
        yield "as differences", value, value, 1e-4, error
        yield "as response", ALPHA + SOFTER, value, 1e-2, error

    monkeypatch.setattr(combinations, "CHECKS", {"forces": check})
    monkeypatch.setattr(combinations, "disagrees", lambda case, error: "")
    found, words = outcome(HYDROXYL)
    assert found == "rough" and words.startswith("as response: differences contradict each other")
    assert Trial.number == 0 and "rough" not in DEFECTS


def test_planted_defects_are_in_the_process_and_out_again():
    """Each of the list stands once in its file; one of them, the dipole of alpha alone, is found and taken back."""
    for planted in PLANTED:
        assert (ROOT / "dftfd" / planted.file).read_text().count(planted.old) == 1, planted.what
    (planted,) = (planted for planted in PLANTED if planted.what == "one spin in the dipole")
    case = dataclasses.replace(HYDROXYL, property="dipole", options=FIELD)
    with with_defect(planted):
        assert outcome(case)[0] == "wrong"
    assert outcome(case)[0] == "right"


def test_shrinking_ends_with_the_simplest_case(monkeypatch):
    """Of a defect that every case has; one that needs a field keeps it."""
    monkeypatch.setattr(
        combinations, "outcome", lambda case: ("wrong" if "electric_field" in case.options else "right", "")
    )
    simplest = shrunk(
        dataclasses.replace(HYDROXYL, xc="b3lyp", basis="6-31g", options=FIELD | {"smearing": 0.1}), "wrong"
    )
    assert (simplest.xc, simplest.basis, set(simplest.options)) == (
        "lda,vwn",
        "sto-3g",
        {"grid_level", "electric_field"},
    )


def test_a_case_is_plain_data():
    for case in draw(np.random.default_rng(0), each=3):
        assert Case.of(case.json()).json() == case.json()


def test_a_refusal_that_the_table_does_not_have_is_found(monkeypatch):
    """And so is a row of the table that nothing keeps to."""
    case = dataclasses.replace(HYDROXYL, options=FIELD)
    monkeypatch.setattr(combinations, "CHECKS", {"forces": _refusing})
    assert outcome(case)[0] == "table"
    rows = [supports.Refusal(("UKS",), "forces", "no forces of UKS.")]
    monkeypatch.setattr(supports, "REFUSALS", rows)
    monkeypatch.setattr(combinations, "CHECKS", {"forces": lambda case: iter([("nothing", 0.0, 0.0, 1.0)])})
    assert outcome(case)[0] == "table"


def _refusing(case):
    raise UnsupportedError("no forces here.")


def test_a_summary_counts():
    line = {"outcome": "right", "seconds": 1.0, "seed": 4, "case": {"property": "forces", "seed": 1}}
    found = combinations.summary([line, line | {"outcome": "refused"}, line | {"outcome": "inapplicable"}])
    assert (found["cases"], found["outcomes"], found["seeds"]) == (2, {"right": 1, "refused": 1}, [4])


def test_every_property_has_its_check():
    assert set(PROPERTIES) == set(CHECKS)


@pytest.mark.slow  # each is a whole calculation, or several
@pytest.mark.parametrize("line", KEPT.read_text().splitlines() if KEPT.exists() else [])
def test_what_was_found_stays_mended(line, unregistered):
    found, words = outcome(Case.of(line))
    assert found not in DEFECTS, words


@pytest.mark.slow  # some minutes: new cases each time
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(5))
def test_new_combinations_are_right_or_refused(part, unregistered):
    """Forty new cases, or those of three minutes; the message has the seed and the case, for kept.jsonl."""
    seed = int(os.environ.get("DFTFD_COMBINATIONS_SEED", time.time_ns() % 2**31)) + part
    rng = np.random.default_rng(seed)
    end = time.process_time() + 180
    for case in itertools.chain.from_iterable(draw(rng, each=4) for _ in range(10)):
        if time.process_time() > end:
            break
        found, words = outcome(case)
        assert found not in DEFECTS, f"seed {seed}: {words}\n{case.json()}"
