"""StableHLO of functionals gives the numbers of our kernels."""

import numpy as np
import pytest

import dftfd
from dftfd.errors import InputError, UnsupportedError
from dftfd.translate.xla_code import stablehlo
from dftfd.xc.channels import MEMBERS
from dftfd.xc.pointwise import pointwise_kernel


def test_it_gives_what_our_kernels_give():
    """PBE with another kappa, for 3 and 5 points: energy, slopes, a second derivative; its text is StableHLO."""
    code = stablehlo("gga_x_pbe", 2, 2)
    assert "stablehlo.multiply" in code.mlir_module()
    rng = np.random.default_rng(1)
    revised = dftfd.get_functional("gga_x_pbe", kappa=1.245)
    for n_points in (3, 5):
        x = rng.uniform(0.1, 0.4, (9, n_points))
        arrays = [np.stack([x[k] for k in MEMBERS[2][f]], axis=-1) for f in ("rho", "sigma", "lapl", "tau")]
        found = code.call(*arrays, np.array([1.245, 0.2195149727645171]))
        expected = pointwise_kernel(revised, 2).by_component(x, 2)
        np.testing.assert_allclose(found["e"][:, 0], expected[0][()], rtol=1e-14)
        np.testing.assert_allclose(found["zk"][:, 0], expected[0][()] / (x[0] + x[1]), rtol=1e-14)
        np.testing.assert_allclose(found["vrho"].T, [expected[1][0,], expected[1][1,]], rtol=1e-13)
        np.testing.assert_allclose(found["vsigma"].T, [expected[1][2,], 0 * x[0], expected[1][4,]], rtol=1e-13)
        np.testing.assert_allclose(found["v2rhosigma"][:, 0], expected[2][0, 2], rtol=1e-13)


def test_what_cannot_be_exported_is_refused():
    """A model potential, double integrals, third order."""
    for name in ("lb94", "vv10"):
        with pytest.raises(UnsupportedError):
            stablehlo(name)
    with pytest.raises(InputError):
        stablehlo("pbe", 2, 3)
