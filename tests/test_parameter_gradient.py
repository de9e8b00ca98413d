"""dE/dp against differences of converged energies, which know nothing of Hellmann and Feynman."""

import numpy as np
import pytest

import dftfd
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import long_range_exchange
from dftfd.functionals.registry import term

TIGHT = {"grid_level": 0, "conv_tol": 1e-12, "density_fit": False}
LITHIUM = ("Li 0 0 0;", {"basis": "sto-3g", "spin": 1})
HELIUM = ("He 0 0 0;", {"basis": "6-31g"})


def slope(molecule, changed, step=2e-3):
    """Differences of second order with two steps, extrapolated."""
    energy = lambda d: dftfd.run_scf(molecule, changed(d), **TIGHT).energy
    wide, narrow = ((energy(h) - energy(-h)) / (2 * h) for h in (2 * step, step))
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize(("system", "parameter"), [(HELIUM, "kappa"), (LITHIUM, "mu")])
def test_derivatives_are_differences_of_energies(system, parameter):
    """PBE's two numbers of exchange beside correlation and exact exchange, of equal spins and of others."""
    molecule = dftfd.molecule(system[0], **system[1])
    pbe_x, rest = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
    made = lambda d: (
        0.75 * pbe_x.with_parameters(**{parameter: pbe_x.parameters[parameter] + d})
        + (rest + 0.25 * dftfd.exact_exchange)
    )
    found = dftfd.run_scf(molecule, made(0.0), **TIGHT).parameter_gradient()
    assert found.keys() == {"gga_x_pbe", "gga_c_pbe"} and found["gga_x_pbe"].keys() == {"kappa", "mu"}
    assert found["gga_x_pbe"][parameter] == pytest.approx(slope(molecule, made), abs=5e-9)


def test_series_and_whole_numbers():
    """A tuple has a tuple of derivatives; a whole number has none; a term that stands twice counts twice."""

    @term("of_series")
    def of_series(n, *, c=(0.1, 0.2), power=1):
        return -(c[0] * n ** (4 / 3) + c[1] * n**2) * power

    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    result = dftfd.run_scf(molecule, of_series + 1.0 * of_series, **TIGHT)
    found = result.parameter_gradient()["of_series"]
    made = lambda d: 2.0 * of_series.with_parameters(c=(0.1, 0.2 + d))
    assert list(found) == ["c"] and len(found["c"]) == 2
    assert found["c"][1] == pytest.approx(slope(molecule, made), abs=5e-9)
    assert np.isfinite(found["c"][0]) and found["c"][0] < 0


def test_where_there_is_none():
    """No semilocal term; double integrals."""
    molecule = dftfd.molecule(*HELIUM[:1], **HELIUM[1])
    assert dftfd.run_scf(molecule, "hf", **TIGHT).parameter_gradient() == {}
    assert dftfd.run_scf(molecule, 1.0 * long_range_exchange(0.3), **TIGHT).parameter_gradient() == {}
    result = dftfd.run_scf(molecule, "lda_x + 1.0*vv10", **TIGHT, nlc_grid_level=0)
    with pytest.raises(UnsupportedError, match="semilocal energies, which vv10 is not"):
        result.parameter_gradient()
