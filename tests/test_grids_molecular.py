"""Molecular grids against PySCF's, their invariances, and how bad requests are answered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto
from pyscf.dft import gen_grid, radi
from scipy.spatial import cKDTree

import dftfd.grids.molecular as molecular
from dftfd.errors import InputError, UnsupportedError
from dftfd.grids.molecular import Grid, molecular_grid
from tests.sample import sample

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
HEAVY = "U 0 0 0; Br 2.5 0.1 0; Cs -3.1 0.4 1.0; Fe 0 2.4 -0.3; H 0.2 -2.2 0.1; He 0 0 -3.2; Rn 0 0 4.1"
MOLECULES = {
    "water": WATER,
    "heavy": HEAVY,
    "salt": "Na 0 0 0; Cl 2.36 0 0; Zn 0 2.4 0.2; I 0 0 -2.7; Au 1.4 1.5 1.6",
    "ghosts": "ghost-O 0 0 0.1173; H 0 0.7572 -0.4692; ghost-H 0 -0.7572 -0.4692; ghost-Au 3 0 0",
    "bare_ghost": "X 0 0 0; F 0 0 1.4",
    "close": "H 0 0 0; H 0 0 0.05",
    "far": "He 0 0 0; He 0 0 500",
    "chain": "; ".join(f"H {0.1 * (-1) ** i} 0 {0.8 * i}" for i in range(17)),  # padded to 18 atoms inside
}


def mole(atoms):
    return gto.M(atom=atoms, basis=[], verbose=0, spin=None)


def charges_of(mol):
    return [gto.charge(symbol.upper().removeprefix("GHOST-")) for symbol in mol.elements]


def ours(mol, **options):
    return molecular_grid(charges_of(mol), mol.atom_coords(), **options)


def theirs(mol, **settings):
    """PySCF's grid without its zero-weight padding: points (point, 3) and weights (point,)."""
    grids = dft.gen_grid.Grids(mol)
    for name, value in settings.items():
        setattr(grids, name, value)
    grids.build()
    real = grids.atm_idx >= 0
    return grids.coords[real], grids.weights[real], grids.atm_idx[real]


def assert_same_quadrature(grid, reference, tolerance=1e-10):
    """Equal as sets: points to the tolerance [bohr], weights to the tolerance times max(1, |w|), owners exactly.

    Points of different atoms may nearly coincide, so they are matched within each owner.
    """
    points, weights, owner = (np.asarray(x) for x in (grid.points, grid.weights, grid.owner))
    reference_points, reference_weights, reference_owner = reference
    assert len(points) == len(reference_points)
    for atom in np.unique(reference_owner):
        mine, other = owner == atom, reference_owner == atom
        distance, partner = cKDTree(reference_points[other]).query(points[mine])
        assert distance.max() < tolerance
        assert len(np.unique(partner)) == mine.sum() == other.sum()
        expected = reference_weights[other][partner]
        assert np.max(np.abs(weights[mine] - expected) / np.maximum(1.0, np.abs(expected))) < tolerance


@pytest.mark.parametrize(
    "name", sample(MOLECULES, [name for name in MOLECULES if name not in ("salt", "chain", "heavy")])
)
def test_default_grid_equals_that_of_pyscf(name):
    """PySCF 2.14's default grid at run time: light, heavy, ghost, nearly coinciding and distant atoms."""
    mol = mole(MOLECULES[name])
    assert_same_quadrature(ours(mol), theirs(mol))


@pytest.mark.parametrize("level", sample(range(10), range(5)))
def test_every_level_equals_that_of_pyscf(level):
    """Levels 0 to 9 for elements of three periods."""
    mol = mole("H 0 0 0; S 0 0 1.34" if level < 9 else "H 0 0 0; F 0 0 0.92")
    assert_same_quadrature(ours(mol, level=level), theirs(mol, level=level))


@pytest.mark.parametrize(
    "symbol", ["H", "He", "Li", "C", "Ne", "Ar", "Ca", "Cu", "Kr", "I", "La", "Hg", "Rn", "U", "Lr"]
)
def test_single_atoms_equal_those_of_pyscf(symbol):
    """One atom owns all of space."""
    mol = mole(f"{symbol} 0.3 -0.2 0.1")
    assert_same_quadrature(ours(mol, level=1), theirs(mol, level=1))


@pytest.mark.parametrize(
    "options, settings",
    [
        ({"radial": "mura_knowles"}, {"radi_method": radi.mura_knowles}),
        ({"radial": "gauss_chebyshev"}, {"radi_method": radi.gauss_chebyshev}),
        ({"radial": "becke"}, {"radi_method": radi.becke}),
        ({"pruning": "sg1"}, {"prune": gen_grid.sg1_prune}),
        ({"pruning": "treutler"}, {"prune": gen_grid.treutler_prune}),
        ({"pruning": None}, {"prune": None}),
        ({"partition": "stratmann"}, {"becke_scheme": gen_grid.stratmann}),
        ({"radius_adjustment": "becke"}, {"radii_adjust": radi.becke_atomic_radii_adjust}),
        ({"radius_adjustment": None}, {"radii_adjust": None}),
        (
            {"partition": "stratmann", "radius_adjustment": None, "radial": "mura_knowles", "pruning": "treutler"},
            {
                "becke_scheme": gen_grid.stratmann,
                "radii_adjust": None,
                "radi_method": radi.mura_knowles,
                "prune": gen_grid.treutler_prune,
            },
        ),
        ({"n_radial": 37, "n_angular": 230, "pruning": None}, {"atom_grid": (37, 230), "prune": None}),
        ({"n_radial": 37, "n_angular": 74}, {"atom_grid": (37, 74)}),
    ],
)
def test_every_scheme_equals_that_of_pyscf(options, settings):
    """Each radial, pruning, partition and adjustment scheme that PySCF has, changed one at a time and together.

    PySCF's Gauss-Chebyshev nodes carry rounding errors of 1e-9 bohr. Becke's radial grid reaches thousands of bohr,
    where a share below 1e-16 is rounding in either code and multiplies a volume of 1e9 bohr^3.
    """
    mol = mole("Na 0 0 0; Cl 2.36 0 0; O 0 1.9 0.2; H 0 2.1 1.1")
    tolerance = {"gauss_chebyshev": 2e-8, "becke": 1e-6}.get(options.get("radial"), 1e-10)
    assert_same_quadrature(ours(mol, level=1, **options), theirs(mol, level=1, **settings), tolerance)


def test_sizes_may_differ_between_atoms():
    """Per-atom sizes give the atomic product grids asked for."""
    grid = molecular_grid([8, 1], [[0, 0, 0], [0, 0, 1.8]], n_radial=[30, 20], n_angular=[110, 50], pruning=None)
    assert np.bincount(np.asarray(grid.owner)).tolist() == [30 * 110, 20 * 50]


def test_negative_weights_are_kept():
    """The 74-point rule has negative weights; the grid has all its points and some negative weights."""
    grid = molecular_grid([1, 1], [[0, 0, 0], [0, 0, 1.4]], n_radial=20, n_angular=74, pruning=None)
    assert len(grid.weights) == 2 * 20 * 74
    assert np.asarray(grid.weights).min() < 0


@pytest.mark.parametrize("partition", ["becke", "stratmann"])
def test_grid_integrates_a_promolecule(partition):
    """Three Gaussians of unit charge integrate to 3; the cells overlap all of them."""
    coordinates = np.array([[0.0, 0.0, 0.2], [0.0, 1.43, -0.9], [0.0, -1.43, -0.9]])
    grid = molecular_grid([8, 1, 1], coordinates, level=5, partition=partition)
    square = np.sum((np.asarray(grid.points)[:, None] - coordinates) ** 2, axis=2)
    density = np.sum((1.1 / np.pi) ** 1.5 * np.exp(-1.1 * square), axis=1)
    assert np.asarray(grid.weights) @ density == pytest.approx(3.0, abs=1e-6)


def test_grid_moves_with_the_molecule():
    """A rigid translation moves the points and leaves the weights, to rounding at a distance of 40 bohr."""
    mol = mole(HEAVY)
    shift = np.array([12.5, -31.0, 20.25])
    here = ours(mol, level=0)
    there = molecular_grid(charges_of(mol), mol.atom_coords() + shift, level=0)
    np.testing.assert_allclose(there.points, np.asarray(here.points) + shift, rtol=0, atol=1e-11)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-10, atol=1e-12)


def test_a_new_geometry_needs_no_compilation(monkeypatch):
    """Geometries of one molecule, and a molecule whose rounded shapes are the same, share one program."""
    mol = mole(WATER)
    ours(mol, level=0)
    traces = []
    original = molecular.owner_share
    monkeypatch.setattr(molecular, "owner_share", lambda *args: traces.append(1) or original(*args))
    ours(mole("O 0 0 0.2; H 0 0.8 -0.5; H 0 -0.7 -0.4"), level=0)
    ours(mole("N 0 0 0.2; H 0 0.8 -0.5; H 0 -0.7 -0.4"), level=0)
    assert traces == []


def test_grid_crosses_jit():
    """Grid is a pytree: it enters and leaves compiled functions; traced coordinates give the same grid."""
    mol = mole(WATER)
    outside = ours(mol, level=0)
    inside = jax.jit(lambda R: molecular_grid([8, 1, 1], R, level=0))(mol.atom_coords())
    assert isinstance(inside, Grid)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), outside, inside)
    assert outside.weights.dtype == outside.points.dtype == jnp.float64


@pytest.mark.parametrize(
    "change, message",
    [
        ({"level": 10}, "level=10: give a whole number from 0 to 9"),
        ({"level": 2.5}, "level=2.5: give a whole number"),
        ({"radial": "treutler"}, "radial='treutler': give one of 'treutler_ahlrichs'"),
        ({"pruning": "nwchm"}, "pruning='nwchm': give one of .*'nwchem'"),
        ({"partition": "beck"}, "partition='beck': give one of 'becke'"),
        ({"radius_adjustment": "bragg"}, "radius_adjustment='bragg': give "),
        ({"n_angular": 300}, "no Lebedev rule with 300 points"),
        ({"n_radial": 0}, "n_radial=0: give a whole number from 1"),
        ({"n_radial": [10, 10, 10]}, "n_radial has 3 numbers; one for all or one per atom \\(2\\)"),
        ({"atomic_numbers": [1, 119]}, "each a whole number from 0 to 118"),
        ({"atomic_numbers": [1.5, 1.0]}, "a list, of each a whole number"),
        ({"atomic_numbers": []}, "0 atoms need"),
        ({"coordinates": [[0.0, 0.0, 0.0]]}, "2 atoms need \\(2, 3\\)"),
        (
            {"coordinates": [[0.0, 0.0, 0.0], [0.0, 0.0, float("nan")]]},
            "coordinates=.*nan.*: give an array of finite",
        ),
        ({"coordinates": [[0.0, 0.0, 0.0], [0.0, 0.0, 1e-9]]}, "atoms 0 and 1 .* bohr apart"),
    ],
)
def test_bad_requests_are_refused_in_one_line(change, message):
    """Every malformed argument raises InputError and says what was found and what was expected."""
    request = {"atomic_numbers": [1, 1], "coordinates": [[0.0, 0.0, 0.0], [0.0, 0.0, 1.4]]} | change
    with pytest.raises(InputError, match=message) as error:
        molecular_grid(**request)
    assert "\n" not in str(error.value)


def test_sg1_beyond_argon_is_unsupported():
    """SG-1 is published for H to Ar."""
    with pytest.raises(UnsupportedError, match="defined from H to Ar"):
        molecular_grid([26], [[0.0, 0.0, 0.0]], pruning="sg1")
