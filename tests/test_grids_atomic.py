"""Grids of single atoms: radial and angular rules, pruning, quality levels."""

import mpmath
import numpy as np
import pytest
from pyscf.dft import gen_grid, radi

from dftfd.errors import InputError, UnsupportedError
from dftfd.grids.atomic import (
    BRAGG_SLATER,
    GILL_JOHNSON_POPLE,
    LEBEDEV_SIZES,
    N_LEVELS,
    PRUNING_SCHEMES,
    RADIAL_SCHEMES,
    TREUTLER_AHLRICHS_SCALE,
    atomic_grid,
    lebedev,
    level_size,
)

ELEMENTS = (0, 1, 2, 3, 6, 10, 11, 18, 20, 26, 36, 54, 57, 79, 86, 92, 103)


def test_radii_equal_those_of_pyscf():
    """The tables were copied without a slip: PySCF's stop at 130, 103 and 18."""
    np.testing.assert_allclose(BRAGG_SLATER, radi.BRAGG_RADII[: len(BRAGG_SLATER)], rtol=1e-15)
    np.testing.assert_array_equal(TREUTLER_AHLRICHS_SCALE[:104], radi._treutler_ahlrichs_xi)
    np.testing.assert_array_equal(GILL_JOHNSON_POPLE, radi.SG1RADII)


@pytest.mark.parametrize("n", [1, 10, 75, 200])
@pytest.mark.parametrize("name", RADIAL_SCHEMES)
def test_radial_schemes_equal_those_of_pyscf(name, n):
    """Nodes and weights agree to rounding. PySCF's Gauss-Chebyshev nodes lose up to nine digits far out (next test)."""
    tolerance = 1e-6 if name == "gauss_chebyshev" else 1e-11
    for charge in ELEMENTS:
        r, weights = RADIAL_SCHEMES[name](n, charge)
        reference_r, reference_dr = (np.sort(x) for x in getattr(radi, name)(n, charge))
        np.testing.assert_allclose(r, reference_r, rtol=tolerance, atol=1e-13)
        np.testing.assert_allclose(weights, reference_r**2 * reference_dr, rtol=10 * tolerance, atol=1e-15)


@pytest.mark.parametrize("n", [10, 60, 200])
def test_gauss_chebyshev_equals_the_published_formula(n):
    """The paper's node formula evaluated with 40 digits; in double precision it cancels near the ends."""
    with mpmath.workdps(40):
        r, weights = [], []
        for k in range(1, n + 1):
            t = k * mpmath.pi / (n + 1)
            sine, cosine = mpmath.sin(t), mpmath.cos(t)
            x = 1 - mpmath.mpf(2 * k) / (n + 1) + 2 / mpmath.pi * (1 + mpmath.mpf(2) / 3 * sine**2) * cosine * sine
            r.append(1 - mpmath.log(1 + x, 2))
            weights.append(r[-1] ** 2 / (mpmath.log(2) * (1 + x)) * 16 * sine**4 / (3 * (n + 1)))
        expected = np.array(r, dtype=float), np.array(weights, dtype=float)
    ours = RADIAL_SCHEMES["gauss_chebyshev"](n, 1)
    np.testing.assert_allclose(ours, expected, rtol=1e-13)


@pytest.mark.parametrize("name", RADIAL_SCHEMES)
def test_radial_schemes_integrate_slater_functions(name):
    """int r^2 exp(-zeta r) dr = 2 / zeta^3 for a core-like and a valence-like exponent."""
    for charge, zeta in [(1, 2.0), (8, 15.0), (8, 2.0), (79, 4.0)]:
        r, weights = RADIAL_SCHEMES[name](100, charge)
        assert np.all(np.diff(r) > 0)
        assert weights @ np.exp(-zeta * r) == pytest.approx(2.0 / zeta**3, rel=1e-6)


@pytest.mark.parametrize("size", LEBEDEV_SIZES)
def test_lebedev_rules_integrate_even_powers_exactly(size):
    """int (u . n)^2k dOmega = 4 pi / (2k + 1) for a tilted axis u, up to the degree in PySCF's table."""
    directions, weights = lebedev(size)
    degree = {points: degree for degree, points in gen_grid.LEBEDEV_ORDER.items()}[size]
    along = directions @ np.array([0.36, -0.48, 0.8])
    assert directions.shape == (size, 3)
    for power in range(0, degree + 1, 2):
        assert weights @ along**power == pytest.approx(4.0 * np.pi / (power + 1), rel=1e-12)


def test_lebedev_keeps_negative_weights_and_shares_read_only_arrays():
    """The rules with 74, 230 and 266 points have negative weights, which no filter may drop."""
    assert [size for size in LEBEDEV_SIZES if lebedev(size)[1].min() < 0] == [74, 230, 266]
    assert lebedev(302)[0] is lebedev(302)[0]
    with pytest.raises(ValueError, match="read-only"):
        lebedev(302)[1][0] = 0.0


def test_lebedev_names_the_nearest_sizes():
    """A size between two rules is answered with its neighbours."""
    with pytest.raises(InputError, match="no Lebedev rule with 300 points; the nearest have 266, 302, 350"):
        lebedev(300)


@pytest.mark.parametrize("name", ["nwchem", "sg1", "treutler"])
@pytest.mark.parametrize("n_angular", [26, 38, 50, 74, 86, 302, 434, 1454])
def test_pruning_equals_that_of_pyscf(name, n_angular):
    """Same angular size on every shell, for elements of all three zone tables."""
    reference = {"nwchem": gen_grid.nwchem_prune, "sg1": gen_grid.sg1_prune, "treutler": gen_grid.treutler_prune}[name]
    for charge in ELEMENTS if name != "sg1" else (0, 1, 2, 3, 8, 10, 11, 18):
        r, _ = RADIAL_SCHEMES["treutler_ahlrichs"](75, charge)
        np.testing.assert_array_equal(
            PRUNING_SCHEMES[name](charge, r, n_angular), reference(charge, r, n_angular), err_msg=str(charge)
        )


def test_sg1_is_refused_beyond_argon():
    """The published radii end at argon."""
    with pytest.raises(UnsupportedError, match="Z = 19"):
        atomic_grid(19, 50, 194, "treutler_ahlrichs", "sg1")


def test_levels_equal_those_of_pyscf():
    """Shells and angular points of every element at every level."""
    for level in range(N_LEVELS):
        for charge in range(119):
            reference = gen_grid._default_rad(charge, level), gen_grid._default_ang(charge, level)
            assert level_size(charge, level) == reference


@pytest.mark.parametrize("pruning", ["nwchem", "treutler", "none"])
def test_atomic_grid_integrates_a_gaussian_off_centre(pruning):
    """int exp(-|r - d|^2) d^3r = pi^1.5 although the function is not centred on the nucleus."""
    grid = atomic_grid(8, 75, 302, "treutler_ahlrichs", pruning)
    values = np.exp(-np.sum((grid.offsets - np.array([0.1, -0.2, 0.15])) ** 2, axis=1))
    assert grid.volumes @ values == pytest.approx(np.pi**1.5, rel=1e-7)
