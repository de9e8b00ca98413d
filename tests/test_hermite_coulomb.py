"""Slopes of a density's Coulomb energy with a fit, by Hermite Gaussians, against libcint's three-centre integrals."""

import mpmath
import numpy as np
import pytest
from pyscf.df import addons, incore

import dftfd
from dftfd.libcint import hermite_gaussians
from dftfd.libcint.gto import gaussian_basis, monomials
from dftfd.libcint.hermite_gaussians import boys, coulomb_slopes, derivatives, fit_of, orders_up_to, points_of
from dftfd.libcint.mole import to_pyscf
from tests.sample import sample

FAR = "O 0 0 0; H 0 0.76 0.59; H 0 -0.76 0.59; F 0 0 14.0; H 0 0 14.9"
"""Two molecules so far apart that integrals of one with the other are those of multipoles."""

CASES = {
    "contracted": ("def2-svp", "def2-universal-jfit", False),
    "general contractions": ("cc-pvdz", "cc-pvdz-ri", False),
    "g functions on both sides": ("cc-pvqz", "cc-pvqz-jkfit", False),
    "cartesian": ("6-31g**", "def2-universal-jfit", True),
}


@pytest.fixture(params=sample(CASES, ["contracted", "general contractions", "cartesian"]))
def system(request, rng):
    """A molecule, its fitting functions, a density matrix and coefficients of a fit of all sizes."""
    basis, auxiliary, cartesian = CASES[request.param]
    molecule = dftfd.molecule(FAR, basis=basis, cartesian=cartesian)
    functions = addons.make_auxmol(to_pyscf(molecule), auxiliary)
    P = rng.normal(size=(molecule.n_ao,) * 2)
    y = rng.normal(size=functions.nao) * 10.0 ** rng.uniform(-6, 0, size=functions.nao)
    return molecule, functions, P + P.T, y


def slopes_of(molecule, functions, P, y):
    sources, n = fit_of(gaussian_basis(functions), y), molecule.n_atoms
    return sum(coulomb_slopes(gaussian_basis(molecule), P, sources, n, n))


def slopes_by_libcint(molecule, functions, P, y):
    """By all integrals: moving a function is minus the electron's slope, and moving all functions changes nothing."""
    mole = to_pyscf(molecule)
    slopes = np.einsum("xmnq,mn,q->xmq", incore.aux_e2(mole, functions, "int3c2e_ip1", comp=3), P, y, optimize=True)
    of_functions = [slopes[:, :, slice(*where)].sum(axis=(1, 2)) for where in functions.aoslice_by_atom()[:, 2:]]
    of_orbitals = [slopes[:, slice(*where)].sum(axis=(1, 2)) for where in mole.aoslice_by_atom()[:, 2:]]
    return 2.0 * (np.array(of_functions) - np.array(of_orbitals))


def test_slopes_are_those_of_all_integrals(system):
    """To 1e-12 of the largest; P and y are no density and no fit of it, so that nothing cancels by chance."""
    expected = slopes_by_libcint(*system)
    np.testing.assert_allclose(slopes_of(*system), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_point_charges_are_nuclei(system):
    """The attraction by nuclei and by a charge beside them, whose own force is minus the sum of all others."""
    molecule, _, P, _ = system
    charges, positions = np.append(molecule.nuclear_charges, 0.7), np.vstack([molecule.coordinates, [[1.0, 2.0, -3.0]]])
    n, mole = molecule.n_atoms, to_pyscf(molecule)
    expected = np.zeros((n + 1, 3))
    for point, (charge, position) in enumerate(zip(charges, positions, strict=True)):
        with mole.with_rinv_origin(position):
            slopes = -2.0 * charge * np.einsum("xmn,mn->xm", mole.intor("int1e_iprinv", comp=3), P)
        expected[point] += slopes.sum(axis=1)
        expected[:n] -= [slopes[:, slice(*where)].sum(axis=1) for where in mole.aoslice_by_atom()[:, 2:]]
    of_orbitals, of_points = coulomb_slopes(gaussian_basis(molecule), P, points_of(-charges, positions), n, n + 1)
    of_points[:n] += of_orbitals
    np.testing.assert_allclose(of_points, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_pieces_of_products_do_not_matter(system, monkeypatch):
    """A few products at a time, in other pieces for each worker, give the same slopes."""
    whole = slopes_of(*system)
    monkeypatch.setattr(hermite_gaussians, "_TARGETS", 37)
    monkeypatch.setattr(hermite_gaussians, "_EXPANDED", 2000)
    np.testing.assert_allclose(slopes_of(*system), whole, rtol=0, atol=1e-12 * np.abs(whole).max())


def test_what_is_left_out_is_bounded(system, monkeypatch):
    """A loose threshold changes the slopes, by about as much as it says."""
    whole = slopes_of(*system)
    monkeypatch.setattr(hermite_gaussians, "NEGLIGIBLE", 1e-5)
    error = np.abs(slopes_of(*system) - whole).max()
    assert 1e-9 < error < 1e-2


def test_no_density_has_no_slopes(system):
    """Pairs of primitives whose density is negligible are left out, all of them, too."""
    molecule, functions, P, y = system
    assert not slopes_of(molecule, functions, 0.0 * P, y).any()


def test_boys_function():
    """Near zero, within the table, at its end and beyond, against 30 digits; the tail left out is below 1e-29."""
    x = np.array([0.0, 1e-9, 0.3, 5.0, 31.0, 63.99, 64.0, 64.01, 1e3, 1e7])
    with mpmath.workdps(30):
        for n in (0, 1, 5, 12, 17):
            exact = [mpmath.hyp1f1(n + 0.5, n + 1.5, -mpmath.mpf(v)) / (2 * n + 1) for v in x]
            for lowest in (0, n):
                np.testing.assert_allclose(
                    boys(lowest, n, x)[n - lowest], np.array(exact, dtype=float), rtol=5e-14, atol=1e-29
                )


def test_derivatives_of_a_function_of_the_distance():
    """exp(-a R^2) has products of Hermite polynomials for derivatives."""
    R, a, L = np.array([0.7, -1.1, 0.4]), 0.8, 6
    radial = np.exp(-a * R @ R) * (-2.0 * a) ** np.arange(L + 1)
    of_one = [np.polynomial.hermite.Hermite.basis(n)(np.sqrt(a) * R) * (-np.sqrt(a)) ** n for n in range(L + 1)]
    expected = [np.prod([of_one[n][x] for x, n in enumerate(t)]) * radial[0] for t in orders_up_to(L)]
    np.testing.assert_allclose(derivatives(radial[:, None], R[:, None])[:, 0], expected, rtol=1e-12)


def test_monomials():
    """In the order of their powers."""
    R = np.array([1.3, -0.4, 0.9])
    for l, found in enumerate(monomials(5, R[:, None])):
        powers = orders_up_to(l)[-len(found) :]
        np.testing.assert_allclose(found[:, 0], np.prod(R**powers, axis=1), rtol=1e-14)
