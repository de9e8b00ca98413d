"""Every formula of the library in float64 against the same formula in 150 digits, data/oracle/README.md.

Derivatives are automatic here and finite differences of extended energies there. Points go down to n = 1e-20, up to
1 - |zeta| = 1e-14, to s = 100 and below tau_W.
"""

import importlib.util
import itertools
from pathlib import Path

import h5py
import mpmath
import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import FunctionalError, InputError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import lookup
from dftfd.verify.extended import ExtendedEnergy
from dftfd.verify.oracle import GROUPS, oracle, oracle_at, oracle_names
from dftfd.verify.point_comparison import lowered_derivatives, scaled_error
from dftfd.xc.channels import VARIABLES
from tests.verification.native import native_formulas

FOLDER = Path(__file__).parents[1] / "data/oracle"
ORACLE = Path(__file__).parents[1] / "dftfd/verify/oracle.h5"
with h5py.File(ORACLE) as _file:
    NAMES = sorted(set(_file) - {"points"})
FAMILY = [name.split("_")[0] for name in VARIABLES[2]]

SECOND_ORDER = {
    *("lda_c_pw", "gga_x_pbe", "gga_x_b88", "gga_c_pbe", "gga_c_lyp", "hyb_gga_xc_wb97x"),
    *("mgga_x_r2scan", "mgga_c_tpss", "mgga_x_br89"),
}
"""One formula of a family: their second derivatives are compared at every run, those of all by `make test-slow`."""

TOLERANCES = {"energy": 1e-12, "first": 1e-10, "second": 1e-10}

KNOWN = {
    ("mgga_x_scanl", "polarised", "first"): 4e-10,
    ("mgga_x_r2scanl", "polarised", "first"): 4e-10,
    ("mgga_c_rscan", "polarised", "second"): 2e-9,
    ("mgga_c_scanl", "polarised", "second"): 4e-5,
    ("mgga_c_r2scanl", "polarised", "second"): 4e-5,
    ("mgga_x_scanl", "extreme", "second"): 2e-9,
}
"""Errors above the tolerance by (formula, points, quantity): the limit that holds instead, below four times the
error, which depends on how XLA compiles what cancels.

Second derivatives with respect to a spin of 1e-14 of the density: tau - tau_W is a difference of numbers that are
nearly equal, and multiplies (1 - |zeta|)^(-4/3). First derivatives of SCAN-L by sigma of such a spin, where alpha is 0
and s small: 4e11 is what is left of terms of 5e20, since tau - tau_W, which cancels, has slopes that cancel to a unit.
"""


def formula(name):
    """The formula of a name in the file; those that stand only inside other functionals need all to be looked at."""
    found = None if " of " in name else lookup(name)
    return native_formulas()[name] if found is None else Functional(name, ((1.0, found.terms[0][1]),))


def errors(name, order):
    """Largest scaled error by (points, quantity), see `dftfd.verify.point_comparison.scaled_error`."""
    found, code = {}, lowered_derivatives(formula(name), 2, order)
    with h5py.File(ORACLE) as file:
        for kind, group in file[name].items():
            x = file["points"][kind][()]
            energy, first, *second = code(x)
            variables = group.attrs["variables"]
            entries = {
                "energy": [(energy, group["energy"][()], ())],
                "first": [(first[k], row, (k,)) for k, row in zip(variables, group["first"][()], strict=True)],
            }
            if order == 2:
                pairs = itertools.combinations_with_replacement(variables, 2)
                entries["second"] = [(second[0][p], row, p) for p, row in zip(pairs, group["second"][()], strict=True)]
            for quantity, rows in entries.items():
                scaled = [scaled_error(a, b, x[0] + x[1], [FAMILY[k] for k in place]) for a, b, place in rows]
                found[kind, quantity] = np.max(scaled)
    return found


SLOW = {
    *("gga_x_ityh of camb3lyp", "gga_x_wpbeh_sr of hyb_gga_xc_lc_wpbe", "hyb_gga_xc_wb97", "hyb_gga_xc_wb97x_v"),
    *(
        "gga_x_mpw91_pw6b95",
        "hyb_gga_xc_wb97x",
        "gga_xc_hcth_93",
        "gga_xc_hcth_120",
        "gga_xc_hcth_147",
        "mgga_c_bc95_pw6b95",
        "mgga_c_m06_2x",
    ),
    *("mgga_c_rscan", "mgga_c_scanl", "gga_x_wpbeh", "gga_xc_hcth_407"),
    *("gga_x_wpbeh_sr", "hyb_mgga_xc_wb97m_v", "mgga_c_revtpss", "mgga_c_r2scanl", "mgga_x_r2scanl"),
}
"""Half a second to ten seconds each for formulas that are there with other parameters, too."""


@pytest.mark.parametrize(
    ("name", "order"),
    [
        *((name, 2 if name in SECOND_ORDER else 1) for name in NAMES if name not in SLOW),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in NAMES if name not in SECOND_ORDER),
    ],
)
def test_energy_and_derivatives_are_those_of_extended_precision(name, order):
    """1e-12 in the energy, 1e-10 in first and second derivatives, at all 120 points; exceptions are in `KNOWN`."""
    for (kind, quantity), error in errors(name, order).items():
        limit = KNOWN.get((name, kind, quantity), TOLERANCES[quantity])
        assert error <= limit, (kind, quantity)
        assert limit == TOLERANCES[quantity] or error > limit / 4, "KNOWN holds more than it has to"


@pytest.mark.slow  # 6 s, which looks at all functionals; names without a formula: test_listing
def test_every_formula_is_there():
    """The file knows each formula that the library has, and no other."""
    assert set(native_formulas()) == set(NAMES)


def test_every_formula_has_a_hundred_points_and_more():
    """120 points of each formula, at n from 1e-20 to beyond 1e5, with numbers everywhere."""
    with h5py.File(ORACLE) as file:
        points = file["points"]
        densities = np.concatenate([group[:2].sum(axis=0) for group in points.values()])
        assert densities.min() < 1e-19 and densities.max() > 1e5
        for name in NAMES:
            assert sum(len(group["energy"]) for group in file[name].values()) == 120
            for kind, group in file[name].items():
                assert group["energy"].shape == (points[kind].shape[1],)
                assert all(np.isfinite(group[q][()]).all() for q in TOLERANCES)


@pytest.mark.parametrize("name", ["gga_x_b88"])
def test_the_script_gives_the_numbers_of_the_file(name):
    """One point of each kind again, to the rounding unit; the points to the last digit, in which the processors' own
    exp and power differ."""
    spec = importlib.util.spec_from_file_location("make_oracle", FOLDER / "make_oracle.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    energy = ExtendedEnergy(formula(name))
    with h5py.File(ORACLE) as file:
        for kind, drawn in script.points().items():
            x = file["points"][kind][()]
            np.testing.assert_allclose(drawn, x, rtol=4 * np.finfo(float).eps)
            group = file[name][kind]
            e, first, second = script.derivatives(energy, x[:, 3], list(group.attrs["variables"]))
            np.testing.assert_allclose(e, group["energy"][3], rtol=1e-15)
            np.testing.assert_allclose(first, group["first"][:, 3], rtol=1e-14)
            # zero between spins that do not interact, where the file has what differences in 150 digits leave, 1e-83
            np.testing.assert_allclose(second, group["second"][:, 3], rtol=1e-13, atol=1e-70)


def test_the_reader_gives_the_numbers_of_the_file():
    """Each group; Slater exchange and its derivatives by alpha in closed form, in the right columns."""
    assert oracle_names() == NAMES
    for points in GROUPS:
        table = oracle("lda_x", points)
        a, b = table.columns["rho_a"], table.columns["rho_b"]
        e = -0.75 * (6 / np.pi) ** (1 / 3) * (a ** (4 / 3) + b ** (4 / 3))
        np.testing.assert_allclose(table.columns["e"], e, rtol=1e-14)
        np.testing.assert_allclose(table.columns["vrho_0"], -((6 * a / np.pi) ** (1 / 3)), rtol=1e-14)
        np.testing.assert_allclose(table.columns["v2rho2_0"], -((6 / np.pi) ** (1 / 3)) * a ** (-2 / 3) / 3, rtol=1e-14)
        assert table.digits == 150 and ("vrho_1" in table.columns) == (points != "one spin")
    assert "v2rhosigma_5" in oracle("gga_x_pbe").columns
    with pytest.raises(FunctionalError, match="closest are gga_x_pbe"):
        oracle("gga_x_pbee")
    with pytest.raises(dftfd.InputError, match="regular"):
        oracle("gga_x_pbe", "far")


def test_the_table_of_the_oracle_is_what_check_reads(tmp_path, capsys):
    """Written by the command, read by `check --values`: passes to 1e-10; another functional's table does not."""
    table = tmp_path / "exact.csv"
    assert main(["oracle", "gga_x_pbe", "-o", str(table)]) == 0
    assert main(["check", "gga_x_pbe", "--values", str(table)]) == 0
    assert main(["check", "gga_x_pbe_sol", "--values", str(table)]) == 1
    assert main(["oracle", "gga_x_pbe", "-o", str(table)]) == 5 and "overwrite" in capsys.readouterr().err
    assert main(["oracle"]) == 0 and capsys.readouterr().out.splitlines() == NAMES
    assert main(["oracle", "lda_x", "--points", "one spin"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13 and lines[0].startswith("rho_a,rho_b,sigma_aa") and lines[0].endswith("e,vrho_0,v2rho2_0")


def test_points_of_ones_own_have_the_digits_of_a_closed_form():
    """Slater exchange, e = -3/4 (3/pi)^(1/3) n^(4/3), and its derivatives to third order, to 45 digits by mpmath."""
    table = oracle_at("lda_x", {"rho": [0.1, 3.0]}, order=3)
    assert list(table.columns) == ["rho", "e", "vrho", "v2rho2", "v3rho3"]
    rows = [line.split(",") for line in table.csv(digits=50).splitlines()[1:]]
    with mpmath.workdps(60):
        n, factor = mpmath.mpf(0.1), 1
        for order, text in enumerate(rows[0][1:]):
            power = mpmath.mpf(4) / 3 - order
            exact = -mpmath.mpf(3) / 4 * mpmath.cbrt(3 / mpmath.pi) * factor * n**power
            assert abs(mpmath.mpf(text) / exact - 1) < 1e-15  # the formula's constant is a float64
            factor *= power
        ratio = mpmath.mpf(rows[0][2]) * n / mpmath.mpf(rows[0][1])  # and cancels here
        assert abs(ratio - mpmath.mpf(4) / 3) < mpmath.mpf(10) ** -45
        assert abs(mpmath.mpf(rows[0][0]) - n) < mpmath.mpf(10) ** -49  # the float64, not the decimal 0.1


def test_points_of_ones_own_give_what_the_file_holds():
    """Points of the file given by hand: all its columns again, to the last digit, one spin alone included."""
    for points in ("regular", "one spin"):
        stored = oracle("mgga_c_scan", points)
        given = {name: column[:2] for name, column in stored.columns.items() if name in VARIABLES[2]}
        table = oracle_at("mgga_c_scan", given)
        assert table.columns.keys() == stored.columns.keys()
        for name, column in table.columns.items():
            np.testing.assert_allclose(column, stored.columns[name][:2], rtol=1e-15, atol=1e-70)


def test_what_the_oracle_does_not_evaluate():
    """Slopes on the border of what is defined, energies that are no function of a point, columns of unequal length."""
    border = {"rho": [1.0, 1.0], "sigma": [0.5, 0.0]}
    with pytest.raises(InputError, match="row 2: sigma is zero.*order 0"):
        oracle_at("pbe", border)
    assert np.isfinite(oracle_at("pbe", border, order=0).columns["e"]).all()
    assert list(oracle_at("pbe", {"rho": [1.0], "sigma": [0.0]}, order=1).columns) == ["rho", "sigma", "e", "vrho"]
    for name in ("hf", "lb94", "vv10"):
        with pytest.raises(UnsupportedError, match="semilocal energies"):
            oracle_at(name, {"rho": [1.0], "sigma": [0.5]})
    with pytest.raises(InputError, match="columns of one length"):
        oracle_at("lda_x", {"rho": [1.0, 2.0], "sigma": [0.5]})
    with pytest.raises(InputError, match="digits=51: give a whole number from 1 to 50"):
        oracle_at("lda_x", {"rho": [1.0]}).csv(digits=51)


def test_the_command_evaluates_points_of_ones_own(tmp_path, capsys):
    """A hybrid's semilocal part, which a warning says; the table passes `check --values`; options that do not go."""
    points, table = tmp_path / "points.csv", tmp_path / "exact.csv"
    points.write_text("rho, sigma, mine\n0.1, 0.02, 7\n1.0, 0.5, 7\n")
    assert main(["oracle", "pbe0", "--at", str(points), "-o", str(table)]) == 0
    assert "exact exchange 0.25" in capsys.readouterr().err
    assert table.read_text().splitlines()[0] == "rho,sigma,e,vrho,vsigma,v2rho2,v2rhosigma,v2sigma2"
    assert main(["check", "pbe0", "--values", str(table)]) == 0
    capsys.readouterr()
    assert main(["oracle", "gga_c_pbe", "--at", str(points), "--order", "0", "--digits", "30"]) == 0
    assert len(capsys.readouterr().out.splitlines()[1].split(",")[2]) == len("-3.") + 29 + len("e-3")
    assert main(["oracle", "gga_x_pbe", "--digits", "5"]) == 2 and "--at" in capsys.readouterr().err
    assert main(["oracle", "pbe", "--at", str(points), "--points", "extreme"]) == 2
    assert main(["oracle", "pbe", "--at", str(tmp_path / "none.csv")]) == 5
