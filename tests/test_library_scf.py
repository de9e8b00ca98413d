"""Total energies of self-consistent calculations with the library's functionals, against PySCF on the same grid."""

import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.interop.pyscf import to_pyscf

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OXYGEN = "O 0 0 0; O 0 0 1.2075"

NAMES = [
    *(
        "revpbe",
        "pbesol",
        "rpbe",
        "pw91",
        "bp86",
        "olyp",
        "b97_d",
        "hcth_407",
        "tpss",
        "revtpss",
        "scan",
        "rscan",
        "r2scan",
    ),
    *("m06l", "mn15l", "tpssh", "scan0", "r2scan0", "m062x", "pw6b95", "hse06", "camb3lyp", "lcwpbe", "wb97", "wb97x"),
    *("b97m_v", "wb97x_v", "wb97m_v"),
]
QUICK = {"tpss", "hse06"}
NLC_LEVEL = 1
"""Level of the grid of double integrals; dftfd's grids of a level are PySCF's."""


def pyscf_energy(molecule, name):
    """(energy, points, weights) of PySCF 2.14 without screening of small orbital values, on its grid of level 1."""
    method = (dft.UKS if molecule.spin else dft.RKS)(to_pyscf(molecule))
    method.xc, method.conv_tol = name, 1e-11
    method.grids.level, method.grids.prune = 1, None
    method.nlcgrids.level = NLC_LEVEL
    for grid in (method.grids, method.nlcgrids):
        grid.build(with_non0tab=False)
        grid.cutoff = 1e-40
    energy = method.kernel()
    assert method.converged
    return energy, method.grids.coords, method.grids.weights


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
@pytest.mark.parametrize(
    "geometry, spin", [(WATER, 0), pytest.param(OXYGEN, 2, marks=pytest.mark.slow)], ids=["H2O", "O2"]
)
def test_total_energy_is_pyscfs(name, geometry, spin):
    """1e-8 hartree in 6-31G with exact integrals; those of VV10 on the pruned grid of level 1."""
    molecule = dftfd.molecule(geometry, basis="6-31g", spin=spin)
    reference, points, weights = pyscf_energy(molecule, name)
    grid = np.asarray(points), np.asarray(weights)
    settings = dict(density_fit=False, grid=grid, nlc_grid_level=NLC_LEVEL, conv_tol=1e-10)
    result = dftfd.run_scf(molecule, xc=name, **settings)
    assert result.converged
    assert result.energy == pytest.approx(reference, abs=1e-8)
