"""Contracted three-centre integrals against PySCF's plain ones, which are neither screened nor contracted."""

import numpy as np
import pytest
from pyscf.df import addons, incore

import dftfd
from dftfd.libcint import three_centre
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.three_centre import ThreeCentre
from dftfd.libcint.two_electron import auxiliary_basis, mole_with_range

CHAIN = "C 0 0 0; H 0 0 1.09; H 1.0 0 -0.4; H -0.5 0.9 -0.4; O -0.7 -1.2 -0.5; H 9.0 1.0 -0.8"  # one atom far away


@pytest.fixture(params=[(0.0, False), (0.0, True), (0.4, False)], ids=["spherical", "cartesian", "long-range"])
def system(request, rng):
    """Molecule, integrals, PySCF's (mn|Q) and (nabla m n|Q), a density of decaying size and fitting coefficients."""
    omega, cartesian = request.param
    molecule = dftfd.molecule(CHAIN, basis="def2-svp", cartesian=cartesian)
    auxiliary, _ = auxiliary_basis(molecule, exact_exchange=False)
    with mole_with_range(molecule, omega) as mole:
        auxmol = addons.make_auxmol(mole, auxiliary)
        plain = incore.aux_e2(mole, auxmol, "int3c2e")
        slopes = incore.aux_e2(mole, auxmol, "int3c2e_ip1", comp=3)
    centres = np.repeat(to_pyscf(molecule).atom_coords(), np.diff(to_pyscf(molecule).aoslice_by_atom()[:, 2:])[:, 0], 0)
    P = rng.normal(size=(molecule.n_ao,) * 2) * np.exp(-np.linalg.norm(centres[:, None] - centres, axis=2))
    y = rng.normal(size=plain.shape[2]) * 10.0 ** rng.uniform(-8, 1, size=plain.shape[2])
    return molecule, ThreeCentre(molecule, auxiliary, omega), plain, slopes, P + P.T, y


def test_projections_are_those_of_all_integrals(system):
    """To 1e-13; both operators and kinds of functions."""
    _, integrals, plain, _, P, _ = system
    np.testing.assert_allclose(integrals.projection(P), np.einsum("mnq,mn->q", plain, P), atol=1e-13, rtol=1e-12)


def test_what_is_left_out_is_bounded(system, monkeypatch):
    """A loose threshold leaves out much, and errs by no more than the number of contributions times itself."""
    _, integrals, plain, _, P, _ = system
    monkeypatch.setattr(three_centre, "NEGLIGIBLE", 1e-5)
    error = np.abs(integrals.projection(P) - np.einsum("mnq,mn->q", plain, P)).max()
    assert 1e-9 < error < 1e-5 * len(P) ** 2


def test_blocks_are_the_same_integrals_in_pieces(system):
    """Parts of any size cover every fitting function once."""
    molecule, integrals, plain, slopes, *_ = system
    found, seen = np.zeros(plain.shape[2]), 0
    for part in integrals.parts(24 * 9 * molecule.n_ao**2):
        np.testing.assert_allclose(integrals.block(part), plain[..., part.functions].transpose(2, 0, 1), atol=1e-13)
        expected = slopes[..., part.functions].transpose(0, 3, 2, 1)
        np.testing.assert_allclose(integrals.slope_block(part), expected, atol=1e-13)
        found[part.functions] += 1
        seen += 1
    assert seen > 1 and np.all(found == 1)
