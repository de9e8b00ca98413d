"""Energies and derivatives at random points far outside of molecules are finite, see `tests.verification.extremes`."""

import json
from pathlib import Path

import numpy as np
import pytest

from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import get_functional, lookup
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.pointwise import pointwise_kernel
from tests.verification.extremes import directions, extreme_points, highest_order, not_finite, tail_points
from tests.verification.native import native_formulas

DATA = Path(__file__).parents[1] / "data/extremes"
ALL = sorted(json.loads((DATA / "scan.json").read_text()))
QUICK = ["lda_c_pw", "gga_x_pbe", "gga_x_b88", "gga_c_lyp", "mgga_x_r2scan"]


def test_points_are_as_extreme_as_they_say():
    """n from 1e-30 to 1e6, both spins absent somewhere, s from 0 to 1e3, alpha to 1e4, tau = 0 and tau below tau_W."""
    x = extreme_points(20_000)
    n = x[:2].sum(axis=0)
    assert n.min() < 1e-29 and n.max() > 1e5 and np.isfinite(x).all()
    for row in (0, 1, 2, 4, 7, 8):
        assert (x[row] == 0).any()
    assert ((x[7] > 0) & (8 * x[0] * x[7] < 0.999 * x[2])).any()
    up = x[:, x[0] > 0]
    s = np.sqrt(up[2]) / (2 * (6 * np.pi**2) ** (1 / 3) * up[0] ** (4 / 3))
    alpha = (up[7] - up[2] / (8 * up[0])) / (0.3 * (6 * np.pi**2) ** (2 / 3) * up[0] ** (5 / 3))
    assert s.max() > 900 and alpha.max() > 9e3


def test_directions_show_every_derivative():
    """Where one variable moves at a time the derivatives are those with respect to it: d^3 e of lda_c_pw and gga_x_b88.

    Expected: all components of the same kernel, which test_libxc_layout.py compares with closed forms.
    """
    for name in ("lda_c_pw", "gga_x_b88"):
        kernel = pointwise_kernel(get_functional(name), 2)
        x = extreme_points(400)
        x = x[:, (x[:2] > 1e-20).all(axis=0)]
        seeds = directions(x, 2, kernel.used)
        alone = np.flatnonzero(((seeds != 0).sum(axis=1) == 1).all(axis=0) & (seeds.max(axis=(0, 1)) == 1))
        assert len(alone) > 20
        third = kernel.along(x, seeds)[3]
        places = {c: k for k, c in enumerate(kernel.combinations(3))}
        components = kernel(x, 3, compiled=False)[3]
        for p in alone:
            chosen = seeds[:, :, p].argmax(axis=1)
            expected = [components[places[tuple(sorted((*chosen, k)))]][p] for k in kernel.used]
            np.testing.assert_allclose(third[:, p], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_what_is_not_finite_is_found():
    """rho^(3/2) without a floor: where a spin is absent, second and third derivatives are infinite, and nowhere else.

    The first, 3/2 rho^(1/2), is zero there.
    """

    def formula(rho):
        return rho[0] ** 1.5 + rho[1] ** 1.5

    formula.is_guarded = True
    x = extreme_points(1_000)
    found = not_finite(Functional("bare", ((1.0, EnergyTerm.from_formula(formula, "bare")),)), x, 3)
    absent = np.flatnonzero((x[:2] == 0).any(axis=0))
    assert absent.size and not found[0].size and not found[1].size
    for places in found[2:]:
        np.testing.assert_array_equal(places, absent)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in QUICK[:3])) for n in QUICK])
def test_derivatives_are_finite(name, count=5_000):
    """To fourth order for LDA and GGA, third for the others."""
    functional = get_functional(name)
    found = not_finite(functional, extreme_points(count), highest_order(functional))
    assert len(found) == highest_order(functional) + 1 and not any(len(places) for places in found)


@pytest.mark.parametrize(
    ("name", "compiled"),
    [("gga_c_pbe", False), ("mgga_c_tpss", False)]
    + [pytest.param(n, c, marks=[pytest.mark.slow, pytest.mark.one_in(3)]) for n in ALL for c in (False, True)],
)
def test_tails_of_two_spins(name, compiled, count=1_000, exact=12):
    """Energies and slopes are finite and energies as in 150 digits, where s is 1e8; `extreme_points` ends at 1e3.

    1 + c |nabla n|^2 lost its 1 where gradients cancel, so energies were NaN. alpha = (tau - tau_W) / tau_unif cannot
    be better than the rounding unit times tau / tau_unif.
    """
    found = None if " of " in name else lookup(name)
    functional = native_formulas()[name] if found is None else Functional(name, ((1.0, found.terms[0][1]),))
    kernel, x = pointwise_kernel(functional, 2), tail_points(count)
    x[:, :2] = np.array([[1.6e-26, 1.6e-26, 1.2e-50, 1.2e-50, 1.2e-50, 0, 0, 9e-26, 9e-26]] * 2).T
    x[3, 1] *= -1
    e, slopes = kernel(x, 1, compiled=compiled)
    assert np.isfinite(e).all() and np.isfinite(slopes).all()
    energy, used = ExtendedEnergy(functional), x[:, :exact]
    with mpmath.workdps(DIGITS):
        expected = np.array([float(energy(used[:, p])) for p in range(exact)])
    n = used[0] + used[1]
    unsure = 1e-15 * (used[7] + used[8]) / n ** (5 / 3) if name.startswith("mgga") else 0.0
    assert (scaled_error(e[0, :exact], expected, n, ()) < 1e-11 + unsure).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gga_c_pbe", "gga_xc_hcth_407", "mgga_c_tpss", "mgga_c_scan", "mgga_c_m06_l"])
def test_a_part_of_the_kept_scan(name):
    """20,000 points."""
    test_derivatives_are_finite(name, 20_000)


def test_the_kept_scan_found_nothing():
    """data/extremes/scan.json: at 50,000 points or more of each formula, to the order it has to have."""
    for name, outcome in json.loads((DATA / "scan.json").read_text()).items():
        assert outcome["points"] >= 50_000 and outcome["order"] == (3 if "mgga" in name else 4), name
        assert outcome["not_finite"] == [0] * (outcome["order"] + 1), name


@pytest.mark.slow
def test_the_kept_scan_knows_every_formula():
    assert set(json.loads((DATA / "scan.json").read_text())) == set(native_formulas())
