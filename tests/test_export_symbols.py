"""Formulas as SymPy expressions and LaTeX: with numbers in place of symbols they give the energies of our kernels."""

import numpy as np
import pytest
from typer.testing import CliRunner

import dftfd
from dftfd.cli.commands import app
from dftfd.errors import InputError, UnsupportedError
from dftfd.translate.sympy_terms import to_sympy
from dftfd.xc.pointwise import pointwise_kernel
from tests.sample import sample

sympy = pytest.importorskip("sympy", reason="pip install 'dftfd[explain]'")
POINT = {1: [0.3, 0.2, 0.1, 0.4], 2: [0.2, 0.1, 0.09, -0.02, 0.03, -0.2, 0.1, 0.19, 0.12]}
ALPHABET = {1: "n sigma l tau", 2: "n_a n_b sigma_aa sigma_ab sigma_bb l_a l_b tau_a tau_b"}


@pytest.mark.parametrize(("name", "n_spin"), sample([("gga_x_pbe", 1), ("pbe", 2), ("mgga_x_scan", 1)], at=[0]))
def test_expressions_have_the_energies_of_our_kernels(name, n_spin):
    """Sum of coefficient times term at a point, parameters at their values, to 1e-13."""
    functional, total = dftfd.get_functional(name), 0
    for term in to_sympy(functional, n_spin):
        values = dict(zip(ALPHABET[n_spin].split(), POINT[n_spin], strict=True))
        for p in term.parameters:
            names = [f"{p.name}_{k}" for k in range(len(p.values))] if p.is_list else [p.name]
            values |= dict(zip(names, p.values, strict=True))
        numbers = {symbol: values[symbol.name] for symbol in term.expression.free_symbols}
        total += term.coefficient * float(term.expression.subs(numbers).evalf(30))
    x = np.array(POINT[n_spin])[:, None]
    energy = pointwise_kernel(functional.semilocal_part, n_spin)(x, 0)[0][0, 0]
    assert total == pytest.approx(energy, rel=1e-13)


def test_the_command_prints_latex():
    """PBE exchange by the letters of its parameters; nothing of the report card."""
    found = CliRunner().invoke(app, ["show", "gga_x_pbe", "--latex"])
    assert found.exit_code == 0
    assert r"e_\mathrm{gga\_x\_pbe} = - 0.7385587663820" in found.output and r"\frac{\kappa}" in found.output
    assert r"\kappa = 0.804" in found.output and "Lieb-Oxford" not in found.output


def test_what_has_no_symbols_is_refused():
    """A model potential; three spins."""
    with pytest.raises(UnsupportedError):
        to_sympy("lb94")
    with pytest.raises(InputError):
        to_sympy("pbe", 3)
