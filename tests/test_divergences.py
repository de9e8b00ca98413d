"""What diverges in the published formulas does so with the exponents of docs/floors.md, far above the floors."""

import math

import numpy as np
import pytest

from dftfd.functionals.registry import get_functional
from dftfd.verify.sampling import variables
from dftfd.xc.channels import VARIABLES
from dftfd.xc.pointwise import pointwise_kernel
from tests.sample import sample


def point(n_a=1.0, n_b=1.0, s_a=0.7, s_b=0.7, alpha=1.3):
    """(9, 1)"""
    column = lambda a, b: np.array([[a], [b]])
    return variables(column(n_a, n_b), column(s_a, s_b), column(alpha, alpha), column(0.3, 0.3), 0.4)


PATHS = {
    "rare spin": lambda t: point(n_b=t),
    "sigma": lambda t: point(s_a=math.sqrt(t), s_b=math.sqrt(t)),
    "sigma of one orbital": lambda t: point(s_a=math.sqrt(t), s_b=math.sqrt(t), alpha=0.0),
}
"""Code of t -> point, by the variable that goes as t."""

CASES = [
    *((name, "rare spin", "rho_b", 1e-14, -1 / 3) for name in ("gga_c_pbe", "gga_c_pw91", "gga_c_chachiyo")),
    *((name, "rare spin", "rho_b", 1e-14, -1 / 3) for name in ("mgga_c_tpss", "mgga_c_r2scan", "mgga_c_mn15_l")),
    *((name, "rare spin", "rho_b rho_b", 1e-14, -4 / 3) for name in ("gga_c_pbe", "mgga_c_r2scan")),
    *((name, "rare spin", "rho_b rho_b", 1e-16, -2 / 3) for name in ("lda_x", "lda_c_pw", "gga_x_b88")),
    *((name, "rare spin", "sigma_bb", 1e-14, -4 / 3) for name in ("gga_x_pbe", "gga_x_b88", "mgga_x_tpss")),
    ("mgga_x_tpss", "rare spin", "tau_b", 1e-14, -1 / 3),
    ("gga_c_p86", "sigma", "sigma_aa sigma_aa", 1e-20, -1 / 2),
    ("gga_x_mpw91", "sigma", "sigma_aa sigma_aa sigma_aa", 1e-20, 3.72 / 2 - 3),
    *((name, "sigma of one orbital", "sigma_aa", 1e-8, -1) for name in ("mgga_x_tpss", "mgga_c_tpss", "mgga_c_m06_l")),
]


@pytest.mark.parametrize(("name", "path", "variables", "t", "exponent"), sample(CASES, at=[0, 4, 8, 10, 14, 17]))
def test_exponent(name, path, variables, t, exponent):
    """ln of the derivative's ratio over ln of that of t, between t and t / 1000, to 1e-2."""
    kernel = pointwise_kernel(get_functional(name), 2)
    combination = tuple(VARIABLES[2].index(v) for v in variables.split())
    order = len(combination)
    row = kernel.combinations(order).index(combination)
    far, near = (kernel(PATHS[path](u), order, compiled=False)[order][row, 0] for u in (t, t / 1000))
    assert math.log(near / far) / math.log(1 / 1000) == pytest.approx(exponent, abs=1e-2)
