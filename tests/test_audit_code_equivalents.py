"""Audits of whole programs: two ways to ask for one energy, and forces on charges by dftfd (docs/audit_code.md)."""

import numpy as np
import pytest

from dftfd.verify.code_audit import OwnTarget, audit_code
from dftfd.verify.code_checks import CONSISTENT, INCONSISTENT
from tests.test_audit_code import Toy

HYDROGEN = "H 0 0 0.05; H 0.1 0 0.8"
WAYS = ["units", "density fitting"]


class Ways(Toy):
    """A toy that is told positions in angstrom, and has fitted integrals."""

    offers = Toy.offers | {"in_angstrom", "other_integrals"}

    def _in_angstrom(self, s):
        """With the bohr of 1986, or one of four digits."""
        bohr = 0.5292 if self.fault == "bohr" else 0.529177249
        return self._energy(s.but(positions=s.in_angstrom / bohr))

    def _other_integrals(self, s):
        """An error of each atom, of which a hundredth depends on where it is, or most of it."""
        part = 2.0 if self.fault == "fit" else 0.01
        return self._energy(s) + 1e-4 * (1 + part * np.sin(20 * s.positions[:, 0])).sum()


@pytest.mark.parametrize("fault", ["", "bohr", "fit"])
def test_ways_to_ask_for_an_energy(fault):
    """Of a sound program all are consistent, of one with a fault all but one."""
    found = {o.check: o.verdict for o in audit_code(Ways(fault), "water", WAYS).outcomes}
    expected = {name: CONSISTENT for name in WAYS}
    if fault:
        expected[{"bohr": "units", "fit": "density fitting"}[fault]] = INCONSISTENT
    assert found == expected


def test_hartree_fock_of_pyscf_from_either_side():
    """Exact integrals, for which fitted ones are the other kind, and the reverse."""
    scf = pytest.importorskip("pyscf.scf")
    for make in (scf.RHF, lambda mole: scf.RHF(mole).density_fit()):
        assert all(o.verdict == CONSISTENT for o in audit_code(make, HYDROGEN, [*WAYS, "restart"]).outcomes)


def test_dftfd_is_consistent():
    """Forces on charges beside H2, positions in angstrom, and fitted integrals, all of Hartree-Fock."""
    target = OwnTarget("hf", "sto-3g", density_fit=False, grid_level=0)
    report = audit_code(target, HYDROGEN, [*WAYS, "forces on charges"])
    assert all(o.verdict == CONSISTENT for o in report.outcomes)
