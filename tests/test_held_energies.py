"""Energies of three cases of data/reference are those of an earlier version: data/reference/held_energies.json.

All cases: `python -m tests.verification.held_energies`, for changes of the code that ought to change no number. The
suite compares the same cases with other programs: test_scf_reference, test_scf_hard_cases, test_forces_reference.
"""

import pytest

from tests.sample import sample
from tests.verification.held_energies import cases, held

CASES, HELD = cases(), held()


def test_no_case_is_left_out():
    assert set(CASES) == set(HELD)


@pytest.mark.parametrize(
    "name", sample(["gradient h2o_pbe_fitted", "scf h_atom_pbe", "hard o2_triplet_roks_pbe_def2svp"], at=[0])
)
def test_energies_are_held(name):
    """To 1e-10 hartree."""
    assert CASES[name]().energy == pytest.approx(HELD[name], abs=1e-10)
