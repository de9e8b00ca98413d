"""A checker's own points and values: `check NAME --values FILE`."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import dftfd
from dftfd.cli import main
from dftfd.errors import InputError


@pytest.fixture
def table(tmp_path):
    """Writes columns as a file; gives its path."""

    def write(columns, name="mine.csv", separator=","):
        rows = [
            separator.join(columns),
            *(separator.join(map(repr, row)) for row in np.transpose([*columns.values()]).tolist()),
        ]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
        return tmp_path / name

    return write


def slater(n):
    """Energy per electron of the spin-unpolarised gas, written by hand."""
    return -0.75 * (3 / np.pi) ** (1 / 3) * n ** (1 / 3)


RHO = np.array([1e-3, 0.1, 1.0, 30.0])


def test_values_written_by_hand(table, capsys):
    """Slater exchange and its derivatives pass; a wrong digit fails with its row, and the exit code says so."""
    right = {"rho": RHO, "exc": slater(RHO), "vrho": 4 / 3 * slater(RHO), "v2rho2": 4 / 9 * slater(RHO) / RHO}
    report = dftfd.check("lda_x", values=table(right))
    assert report.passed and [row.quantity for row in report.rows] == ["exc", "vrho", "v2rho2"]
    wrong = right | {"vrho": right["vrho"] * np.array([1, 1, 1 + 1e-6, 1])}
    report = dftfd.check("lda_x", values=table(wrong))
    (row,) = report.failures
    assert (row.quantity, row.where) == ("vrho", "row 3") and row.error == pytest.approx(1e-6, rel=0.8)
    numbers = f"{wrong['vrho'][2]:.12g} in the file, {right['vrho'][2]:.12g} expected; at row 3, rho={RHO[2].item()!r}"
    assert numbers in str(report)
    path = str(table(wrong, "wrong.txt", " "))
    assert main(["check", "lda_x", "--values", path]) == 1 and "FAILED" in capsys.readouterr().out
    assert main(["check", "lda_x", "--values", path, "--tolerance", "1e-5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passed"] is True


def test_two_spins_against_pyscf(table):
    """PySCF's PBE in libxc's order of components, as a user would write it."""
    from pyscf.dft import libxc

    rng = np.random.default_rng(3)
    gradient = rng.normal(size=(2, 3, 5))
    rho = np.exp(rng.normal(size=(2, 5)))
    exc, (vrho, vsigma, *_), *_ = libxc.eval_xc(
        "pbe,pbe", [np.vstack([rho[s][None], gradient[s]]) for s in (0, 1)], spin=1
    )
    sigma = [np.sum(gradient[s] * gradient[t], axis=0) for s, t in ((0, 0), (0, 1), (1, 1))]
    columns = dict(zip(("rho_a", "rho_b", "sigma_aa", "sigma_ab", "sigma_bb"), [*rho, *sigma], strict=True))
    columns |= {
        "exc": exc,
        **{f"vrho_{k}": vrho[:, k] for k in (0, 1)},
        **{f"vsigma_{k}": vsigma[:, k] for k in range(3)},
    }
    report = dftfd.check("pbe", values=table(columns))
    assert report.passed, str(report)
    swapped = columns | {"vrho_0": columns["vrho_1"], "vrho_1": columns["vrho_0"]}
    assert len(dftfd.check("pbe", values=table(swapped)).failures) == 2
    points = {name: columns[name] for name in ("rho_a", "rho_b", "sigma_aa", "sigma_ab", "sigma_bb")}
    report = dftfd.check("pbe", values=table(points))
    assert report.passed and report.reference.startswith("libxc") and len(report.rows) > 5


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"sigma": RHO}, "no column rho"),
        ({"rho": RHO}, "no column sigma, which 'pbe' depends on"),
        ({"rho": RHO, "sigma": RHO, "mine": RHO}, "the column 'mine'; exc, e or derivatives such as vrho"),
        ({"rho": -RHO, "sigma": RHO}, "densities above zero"),
    ],
)
def test_what_a_table_lacks(table, columns, words):
    with pytest.raises(InputError, match=words):
        dftfd.check("pbe", values=table(columns))


def test_what_is_no_table(tmp_path):
    (tmp_path / "t.csv").write_text("rho\n1.0\none\n")
    with pytest.raises(InputError, match="row 2: 1 numbers expected, 'one' found"):
        dftfd.check("lda_x", values=tmp_path / "t.csv")
    with pytest.raises(InputError, match="tolerance= belongs to values="):
        dftfd.check("lda_x", tolerance=1e-3)


@pytest.mark.skipif(find_spec("jax_xc") is None, reason="the catalogue is not installed")
def test_names_of_the_catalogue_are_checked():
    """`check libxc:NAME`: libxc's formula as the catalogue has it against libxc's own code."""
    report = dftfd.check("libxc:lda_c_vwn", with_potentials=False)
    assert report.passed and "lda_c_vwn" in report.reference


def test_code_without_spins_is_audited_in_its_half():
    """Its one spin is looked at, in rows that it takes; a wrong factor there is found, a note tells of two spins."""

    def slater(factor):
        def eval_xc(xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
            n, _, _, _ = rho  # of two spins this is another number
            e = -0.75 * (3 / np.pi) ** (1 / 3) * n ** (1 / 3)
            return e, (factor * 4 / 3 * e, np.zeros_like(n)), None, None

        return eval_xc

    report = dftfd.audit(slater(1.0))
    assert report.passed and any("two spins were not checked" in note for note in report.notes)
    (finding,) = dftfd.audit(slater(1.01)).findings
    assert (finding.kind, finding.quantity, finding.n_spin) == ("factor", "vrho", 1)
