"""Total energies of self-consistent calculations with the library's functionals, against PySCF on the same grid."""

import json
import re

import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.functionals.jax_xc_formula import is_installed
from dftfd.libcint.mole import to_pyscf

needs_jax_xc = pytest.mark.skipif(not is_installed(), reason="no jax-xc for this Python")

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OXYGEN = "O 0 0 0; O 0 0 1.2075"

NAMES = [
    *("lda,xalpha", "lda,vwn", "lda,vwn_rpa", "lda,pw", "lda,pw_mod", "lda,pz", "lda,lda_c_chachiyo"),
    *("pbe", "revpbe", "pbesol", "rpbe", "pw91", "mpw91", "blyp", "bpbe", "bp86", "olyp", "opbe", "pw86,p86"),
    *("rpw86,pbe", "b86,lyp", "b86_mgc,pbe", "b86_r,pbe", "pbe,gga_c_chachiyo"),
    *("gga_xc_b97_d", "hcth_93", "hcth_120", "hcth_147", "hcth_407"),
    *("tpss", "revtpss", "scan", "rscan", "r2scan", "m06l", "mn15l", "b97m_v", "tpss,bc95"),
    *("hf,lyp", "hf,pw_mod", "b3lyp", "b3lyp5", "pbe0", "tpssh", "scan0", "r2scan0", "m062x", "pw6b95"),
    *("hse06", "camb3lyp", "lcwpbe", "wb97", "wb97x", "wb97x_v", "wb97m_v"),
]
NOT_IN_PYSCF = {
    *("scanl", "r2scanl", "vdw_df", "vdw_df2", "lb94", "bj06", "tb09"),
    *("lh07t_x", "lh07t_svwn", "lc_lh07t_x", "lc_lh07t_svwn", "sn_x", "sn_lr_x"),
    *("pt2", "pt2_os", "pt2_ss", "b2plyp", "revdsd_pbep86", "b97d"),
}
"""Laplacians, integrals, models without energy, local and double hybrids, D2; tests/test_library_published.py,
test_library_potentials.py, test_local_hybrids.py, test_double_hybrids.py and test_dispersion.py."""

QUICK = {"tpss"}
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


BUILT_IN = [
    name
    for name in dftfd.list_functionals()
    if all(term.formula.__module__.startswith("dftfd.functionals.") for _, term in dftfd.get_functional(name).terms)
]
PIECE = re.compile("(hyb_)?(lda|gga|mgga)_[xck](_.*)?|hf|hartree|r?vv10|vdw_df2?_nl")


def meaning(name):
    """What a name stands for, as text."""
    return json.dumps(dftfd.get_functional(name).definition, sort_keys=True)


def test_every_functional_of_the_library_is_compared():
    """What is registered is compared below, under this or another name, as a part at least, or is not in PySCF."""
    compared = {meaning(name) for name in NAMES} | {meaning(name) for name in NOT_IN_PYSCF}
    names = [name for name in BUILT_IN if not PIECE.fullmatch(name)]
    assert len(names) > 50
    assert [name for name in names if meaning(name) not in compared] == []
    terms = {term.name for name in [*NAMES, *NOT_IN_PYSCF] for _, term in dftfd.get_functional(name).terms}
    pieces = {name for name in BUILT_IN if re.match("(lda|gga|mgga)_[xc]_", name)}
    assert pieces - terms == {"lda_x_erf", "mgga_x_br89"}  # part of range-separated hybrids; Laplacian


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
@pytest.mark.parametrize(
    "geometry, spin", [(WATER, 0), pytest.param(OXYGEN, 2, marks=pytest.mark.slow)], ids=["H2O", "O2"]
)
@pytest.mark.one_in(3)
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
