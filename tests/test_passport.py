"""Passports: energies of functionals on fixed atomic densities, against libxc on the same points and exact values."""

import json
import math

import numpy as np
import pytest
from pyscf.dft import libxc

import dftfd
from dftfd.cli import main
from dftfd.errors import FileError, FunctionalError, UnsupportedError
from dftfd.verify.passport import POINTS, Comparison, passport, passport_of, read_passport, spherical_density
from tests.sample import sample
from tests.verification import passports

ELECTRONS = {"H": 1, "He": 2, "Li": 3, "N": 7, "Ar": 18, "Cr": 24, "Mn": 25, "As": 33, "Kr": 36}
KINETIC = {"H": 0.5, "N": 54.400934180, "Ar": 526.817512750, "Cr": 1043.356375276, "Kr": 2752.054976552}
"""Kinetic energies [hartree] that Koga et al. print with their orbitals."""


def test_densities_are_those_of_the_tables():
    """Electrons and kinetic energies to the digits of the published coefficients; the Laplacian integrates to zero."""
    for symbol, n in ELECTRONS.items():
        weights, x = spherical_density(symbol, POINTS[0])
        assert weights @ (x[0] + x[1]) == pytest.approx(n, rel=2e-7)
        assert weights @ (x[5] + x[6]) == pytest.approx(0.0, abs=1e-6)
    for symbol, expected in KINETIC.items():
        weights, x = spherical_density(symbol, POINTS[0])
        assert weights @ (x[7] + x[8]) == pytest.approx(expected, rel=3e-7)


def test_hydrogen_is_its_exact_density():
    """n = exp(-2 r) / pi of one spin; its Dirac exchange is -(3/2) (3/(4 pi))^(1/3) int n^(4/3) in closed form."""
    weights, x = spherical_density("H", POINTS[1])
    assert not x[1].any() and weights @ x[0] == pytest.approx(1.0, abs=1e-13)
    integral = 4 * math.pi * math.pi ** (-4 / 3) * 2 / (8 / 3) ** 3  # int n^(4/3), n^(4/3) = pi^(-4/3) exp(-8 r / 3)
    assert passport("lda_x").atoms["H"].energy == pytest.approx(
        -1.5 * (3 / (4 * math.pi)) ** (1 / 3) * integral, rel=1e-12
    )


@pytest.mark.parametrize("name", sample(["pbe", "r2scan", "b3lyp", "blyp", "m06_l"], ["pbe"]))
def test_energies_are_libxcs_on_the_same_points(name):
    """libxc's energy per particle, through PySCF, summed with the same weights: 1e-9, its own cut-offs."""
    ours = passport(name)
    for symbol in ("He", "N", "Ar", "Kr"):
        weights, x = spherical_density(symbol, POINTS[1])
        gradient = np.sqrt(np.stack([x[2], x[4]])) * np.sign([-1.0])
        rho = np.zeros((2, 6, len(weights)))
        rho[:, 0], rho[:, 1], rho[:, 4], rho[:, 5] = x[:2], gradient, x[5:7], x[7:9]
        kind = libxc.xc_type(name)
        given = rho[:, : {"LDA": 1, "GGA": 4, "MGGA": 6}[kind]]
        e = libxc.eval_xc(name, given, spin=1, deriv=0)[0]
        assert ours.atoms[symbol].energy == pytest.approx(weights @ (e * (x[0] + x[1])), rel=1e-9)


@pytest.mark.slow  # 0.8 s; energies on these grids: the test above
def test_two_grids_agree_to_rounding():
    """Not SCAN's: its steep switch needs more points than these, and its error bars say so (doi:10.1063/5.0167763)."""
    worst = lambda name: max(atom.error / abs(atom.energy) for atom in passport(name).atoms.values())
    assert worst("pbe") < 1e-12 < 1e-7 < worst("scan") < 1e-5


@pytest.mark.slow  # 2 s; two formulas of one name: the next test
def test_variants_of_one_name_are_told_apart():
    """B3LYP with VWN of the electron gas or of RPA; P86 with and without VWN5 beneath: other energies on every atom."""
    comparison = Comparison(passport("b3lyp"), passport("b3lyp5"))
    assert not comparison.same and all(abs(value) > 1e-3 for value in comparison.differences.values())
    assert "differ" in str(comparison) and "*" in str(comparison)
    assert not Comparison(passport("b88,p86"), passport("b88,gga_c_p86vwn")).same
    assert Comparison(passport("pbe"), passport("pbe,pbe")).same
    assert not Comparison(passport("pbe"), passport_of("pbesol")).same


def test_an_own_functional_and_its_edited_formula(tmp_path):
    """Three lines have a passport; a changed constant shows in it, under the same name."""
    written = tmp_path / "mine.json"
    mine = dftfd.functional("t_mine")(lambda n, *, a=0.74: -a * n ** (4 / 3))
    passport(mine).write(written)
    assert read_passport(written) == passport(mine)
    edited = dftfd.functional("t_mine_too")(lambda n, *, a=0.7400001: -a * n ** (4 / 3))
    assert not Comparison(read_passport(written), passport(edited)).same


def test_the_command_writes_and_compares(tmp_path, capsys):
    path = tmp_path / "lda.json"
    assert main(["passport", "lda,vwn", "--output", str(path)]) == 0
    assert "lda_c_vwn" in capsys.readouterr().out
    assert json.loads(path.read_text())["atoms"]["Kr"]["terms"].keys() == {"lda_x", "lda_c_vwn"}
    assert main(["passport", "lda,vwn", "--output", str(path)]) == 5
    assert main(["passport", "lda,vwn", "--output", str(tmp_path / "lda.txt")]) == 2
    assert main(["passport", "lda,vwn", "--compare", str(path)]) == 0
    assert main(["passport", str(path), "--compare", "lda,pw"]) == 1
    (tmp_path / "own.py").write_text("def own_x(n):\n    return -0.7385587663820224 * n ** (4 / 3)\n")
    assert main(["passport", f"{tmp_path}/own.py:own_x", "--compare", f"{tmp_path}/own.py:0.5*own_x + 0.5*own_x"]) == 0


def test_what_has_no_passport_is_refused(tmp_path):
    for name in ("hf", "vv10", "lb94"):
        with pytest.raises((UnsupportedError, FunctionalError)):
            passport(name)
    (tmp_path / "a.json").write_text('{"dftfd_passport": 1}')
    with pytest.raises(FileError, match="not a passport"):
        read_passport(tmp_path / "a.json")
    assert main(["passport", "no_such"]) == 2 and main(["passport", str(tmp_path / "b.json")]) == 5


KEPT = passports.stored()["functionals"]
SAMPLE = ["lda_c_pw", "gga_x_b88", "gga_c_lyp", "mgga_x_r2scan", "hyb_gga_xc_b3lyp"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.slow) for n in KEPT])
@pytest.mark.one_in(3)
def test_energies_are_those_that_are_kept(name):
    """data/passports: no number of a functional moves by more than its error bar and what another JAX rounds.

    Where exact energies vanish, as that of one electron by revTPSS correlation, error bars are below what is rounded of
    one hartree, 1e-15.
    """
    found = passport(name)
    for symbol, (energy, error) in KEPT[name]["atoms"].items():
        assert found.atoms[symbol].energy == pytest.approx(energy, rel=1e-13, abs=max(error, 1e-15))
