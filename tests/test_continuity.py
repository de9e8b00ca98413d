"""Energies and potentials do not jump where formulas are cut off or change form: `tests.verification.continuity`."""

import json
from pathlib import Path

import numpy as np
import pytest

from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import wigner_seitz_radius
from dftfd.functionals.numerics import where_less
from dftfd.functionals.registry import get_functional
from tests.verification.continuity import jump, paths
from tests.verification.native import native_formulas

LIMIT = 2e-8
"""hartree"""

PUBLISHED = {
    ("lda_c_pz", "r_s = 1"): (4e-5, 2e-4),
    ("gga_c_p86", "r_s = 1"): (4e-5, 2e-4),
    **{
        (name, border): sizes
        for name in ("gga_x_wpbeh", "gga_x_wpbeh_sr", "gga_x_wpbeh_sr of hyb_gga_xc_lc_wpbe")
        for border, sizes in {"s = 0.08": (3e-8, 1e-5), "s = 1": (5e-4, 5e-4), "s = 15": (2e-4, 5e-3)}.items()
    },
}
"""Jumps of the published formulas, (energy, potential) at most, by formula and border; docs/floors.md explains them."""

QUICK = ["lda_c_pz", "gga_c_pbe", "mgga_x_r2scan"]


def wrong(name, functional):
    """Borders with a jump that is above the limit or, where the published formula has one, is not found any more."""
    found = {}
    for border, path in paths().items():
        sizes, published = jump(functional, path), PUBLISHED.get((name, border))
        if max(sizes) >= LIMIT if published is None else np.any(np.array(sizes) > published) or max(sizes) < LIMIT:
            found[border] = sizes
    return found


def test_a_jump_is_measured():
    """1e-6 n below r_s = 1 and nothing above: energy per electron and v_rho jump by 1e-6 there, nothing elsewhere."""

    def formula(n):
        return where_less(wigner_seitz_radius(n), 1.0, 1e-6 * n, 0.0 * n)

    toy = Functional("toy", ((1.0, EnergyTerm.from_formula(formula, "toy")),))
    for border, path in paths().items():
        expected = 1e-6 if border == "r_s = 1" else 0.0
        assert jump(toy, path) == pytest.approx((expected, expected), abs=1e-12), border


@pytest.mark.parametrize("name", QUICK)
def test_energy_and_potential_are_continuous(name):
    """Less than 2e-8 hartree in the energy per electron and each term of the potential, across every border."""
    assert wrong(name, get_functional(name)) == {}


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(3))
def test_all_formulas_are_continuous(part):
    """The same for every native formula, a third at a time; data/extremes/jumps.json has these figures."""
    kept = json.loads((Path(__file__).parents[1] / "data/extremes/jumps.json").read_text())
    formulas = native_formulas()
    assert set(kept) == set(formulas) and all(set(row) == set(paths()) for row in kept.values())
    assert {name: found for name, f in list(formulas.items())[part::3] if (found := wrong(name, f))} == {}
    for name, row in kept.items():
        for border, sizes in row.items():
            assert max(sizes) < LIMIT or np.all(np.array(sizes) <= PUBLISHED[name, border]), (name, border)
