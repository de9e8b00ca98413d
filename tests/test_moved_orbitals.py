"""What energies gain as points and centres move, against sums over libcint's derivatives of one order more."""

import itertools

import numpy as np
import pytest
from pyscf import gto

import dftfd
from dftfd.libcint.gto import component_count, gaussian_basis
from dftfd.xc import gradient
from dftfd.xc.ao_store import Block
from dftfd.xc.channels import RAISED, ROW, TAU
from dftfd.xc.gradient import MovedOrbitals

N_POINTS = 24
WATER = "O 0.1 -0.2 0.3; H 0.2 1.5 0.9; H -0.3 -1.4 1.1"
BASES = {
    "def2-svp": {"basis": "def2-svp"},
    "general contractions": {"basis": "ano-rcc-vdzp"},
    "g functions": {"basis": "cc-pvqz"},
    "cartesian": {"basis": "cc-pvtz", "cart": True},
}


def slopes_by_components(P, rest, v, order, tau):
    """D_c of dftfd.xc.gradient, from its text."""
    D = np.zeros((component_count(max(order, int(tau))), *P.shape[1:]))
    D[0] = 2.0 * v[0] * P[0] + 2.0 * rest
    for i in range(1, len(P)) if order else ():
        D[0] += 2.0 * v[i] * P[i]
    for c in range(1, component_count(order)):
        D[c] = 2.0 * v[c] * P[0]
    if order >= 2:
        for i, j in itertools.product(range(3), repeat=2):
            D[1 + i] += (4.0 if i == j else 2.0) * v[ROW[i, j]] * P[1 + j]
    if tau:
        D[1:4] += v[TAU] * P[1:4]
    return D


KINDS = [(order, tau) for order in (0, 1, 2) for tau in (False, True)]
COMPILED = {("general contractions", 2, True), ("general contractions", 0, False), ("cartesian", 2, True)}
"""What is compared at every run in compiled code, too, which takes half a second for each."""


@pytest.mark.parametrize(
    ("n_blocks", "name", "order", "tau"),
    [
        pytest.param(n, name, *kind, marks=[pytest.mark.slow] * (n > 1 and (name, *kind) not in COMPILED))
        for n in (1, 10_000)
        for name in BASES
        for kind in KINDS
    ],
)
def test_gains_are_the_sums_over_derivatives_of_orbitals(name, order, tau, n_blocks):
    mole = gto.M(atom=WATER, unit="bohr", verbose=0, **BASES[name])
    basis, rng = gaussian_basis(mole), np.random.default_rng(5)
    shells = np.setdiff1d(np.arange(basis.n_shells), [1, basis.n_shells - 1])
    aos = basis.aos_of_shells(shells)
    points = np.asfortranarray(1.5 * rng.normal(size=(N_POINTS, 3)))
    points[0] = mole.atom_coord(0)
    block = Block(points, np.ones(N_POINTS), aos, shells, np.arange(N_POINTS))
    moved = MovedOrbitals(basis, order, tau, len(aos), N_POINTS, n_blocks)
    form = moved.form
    P = rng.normal(size=(form.n_products, form.n_orbitals, N_POINTS))
    v = rng.normal(size=(component_count(order) + 1, N_POINTS))

    by_atom, at_points = moved(block, P, v)

    n = len(aos)
    rest = P[form.n_alone :, :n].sum(axis=0)
    D = slopes_by_components(P[: form.n_alone, :n], rest, v, order, tau)
    A = basis.evaluate(points, max(order, int(tau)) + 1, shells)
    X = np.array([sum(D_c * A[RAISED[x, c]] for c, D_c in enumerate(D)) for x in range(3)])
    atom_of_ao = np.array([label[0] for label in mole.ao_labels(fmt=None)])[aos]
    expected = np.array([X[:, atom_of_ao == atom].sum(axis=(1, 2)) for atom in range(mole.natm)])
    scale = np.abs(X).max()
    np.testing.assert_allclose(at_points, X.sum(axis=1), rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(by_atom, expected, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("xc", ["pbe", pytest.param("r2scan", marks=pytest.mark.slow)])
def test_forces_are_the_same_compiled_and_by_numpy(xc, monkeypatch):
    """Blocks of different numbers of orbitals one after the other, on two workers, in memory that is used again."""
    molecule = dftfd.molecule("O 0 0 0; H 0 0.76 0.58; H 0 -0.76 0.58; Ne 0 0 9", basis="def2-svp")
    result = dftfd.run_scf(molecule, xc, grid_level=1)
    by_numpy = result.forces()
    monkeypatch.setattr(gradient, "WORTH_COMPILING", 0)
    np.testing.assert_allclose(result.forces(), by_numpy, rtol=0, atol=1e-12)
