"""What examiners once found stays mended, and lines that were made wrong on purpose are lines that exist."""

import json
from pathlib import Path

import pytest

from tests.verification import findings, mutations

ROOT = Path(__file__).parents[1]
RECORD = json.loads(findings.RECORD.read_text())


def test_the_record_is_complete():
    """Each finding was tried before and after."""
    assert set(RECORD) == set(findings.FINDINGS)
    for answers in RECORD.values():
        assert answers["after"]["verdict"] in ("right", "refused")


def test_each_finding_names_tests():
    for _, _, tests in findings.FINDINGS.values():
        assert all((ROOT / "tests" / name).exists() for name in tests.split(", "))


@pytest.mark.slow
@pytest.mark.parametrize("name", findings.FINDINGS)
@pytest.mark.one_in(2)
def test_what_was_found_is_mended(name):
    """In a process and a folder of its own."""
    assert findings.main([name]) == 0


def test_each_mutation_has_its_place():
    """What is to be replaced stands there once, and the net has its tests."""
    for mutation in mutations.MUTATIONS:
        text = (ROOT / "dftfd" / mutation.file).read_text()
        assert mutations.mutated(text, mutation) != text
        assert all((ROOT / name).exists() for name in mutations.NETS[mutation.net])
