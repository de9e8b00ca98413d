"""Total energies of self-consistent calculations with the library's functionals, against PySCF on the same grid."""

import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.functionals.jax_xc_kernels import is_installed
from dftfd.interop.pyscf import to_pyscf

needs_jax_xc = pytest.mark.skipif(not is_installed(), reason="no jax-xc for this Python")

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


def pyscf_energy(molecule, name, omega=None):
    """(energy, points, weights) of PySCF 2.14 without screening of small orbital values, on its grid of level 1."""
    method = (dft.UKS if molecule.spin else dft.RKS)(to_pyscf(molecule))
    method.xc, method.conv_tol = name, 1e-11
    if omega is not None:
        method.omega = omega
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, changes, in_pyscf",
    [
        ("camb3lyp", {"omega": 0.25}, ("camb3lyp", 0.25)),
        ("wb97x", {"omega": 0.21}, ("wb97x", 0.21)),
        pytest.param("libxc:hyb_gga_xc_lc_blyp", {"omega": 0.4}, ("lc_blyp", 0.4), marks=needs_jax_xc),
        ("pbe0", {"exact_exchange": 0.4}, ("0.4*hf + 0.6*pbe, pbe",)),
    ],
)
def test_another_omega_or_fraction_reaches_integrals_and_formula(name, changes, in_pyscf):
    """Energies of water are PySCF's with the same omega, or with the hybrid written out, to 1e-8 hartree."""
    molecule = dftfd.molecule(WATER, basis="6-31g")
    reference, points, weights = pyscf_energy(molecule, *in_pyscf)
    grid, functional = (np.asarray(points), np.asarray(weights)), dftfd.get_functional(name, **changes)
    result = dftfd.run_scf(molecule, xc=functional, density_fit=False, grid=grid, conv_tol=1e-10)
    assert result.energy == pytest.approx(reference, abs=1e-8)
