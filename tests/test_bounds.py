"""What is left out is bounded: no shell, pair or integral that could matter is skipped (docs/bounds.md).

Values are those of libcint at points, compared with bounds that come from formulas alone.
"""

import importlib
import itertools
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import gto
from pyscf.data.elements import ELEMENTS
from pyscf.gto import basis as tables
from pyscf.gto.basis import parse_nwchem

from dftfd.ao_store import AOStore
from dftfd.ao_values import ao_tables, ao_values
from dftfd.interop.gto import component_count, gaussian_basis

FOLDER = Path(tables.__file__).parent

ONLY_POTENTIALS = re.compile("bfd_pp|ccECP|ecp-q-vszp|ECPDS.*")
PARTS = 8
LADDER = np.concatenate([[0.0], np.geomspace(1e-6, 60.0, 45)])
DIRECTIONS = np.array([[0, 0, 1], [1, 0, 0], [1, -1, 0], [0.36, -0.48, 0.8]])
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1)[:, None]

SAMPLE = (
    ("dyall-basis/dyall_v4z.py", "Rn"),
    ("dyall-basis/dyall_v2z.py", "Xe"),
    ("ano.dat", "U"),
    ("cc-pCV5Z.dat", "Ne"),
    ("aug-pc-4.dat", "Cl"),
    ("def2-qzvpp.dat", "Au"),
    ("sarc-dkh2.dat", "Lu"),
    ("lanl2dz.dat", "Pb"),
    ("ccecp-basis/ccECP/ccECP_aug-cc-pV6Z.dat", "O"),
    ("def2-universal-jkfit.dat", "Rn"),
    ("sto-3g.dat", "H"),
)
"""Files of PySCF's folder and elements: all-electron relativistic and core sets, valence sets, fits."""


def shipped_files():
    """Files with shells, (path, symbols of the elements in it): basis sets, valence sets of core potentials, fits."""
    for path in sorted(FOLDER.rglob("*.dat")):
        found = re.findall(
            r"^\s*([A-Za-z]{1,2})[A-Za-z]*\s+[SPDFGHIKLspdfghikl]{1,2}\b", path.read_text(), re.MULTILINE
        )
        symbols = {text.capitalize() for text in found}
        if symbols and not ONLY_POTENTIALS.fullmatch(path.stem):
            yield path, [symbol for symbol in ELEMENTS[1:] if symbol in symbols]
    for path in sorted(FOLDER.rglob("*.py")):
        if not path.name.startswith(("parse", "_", "bse")):
            yield path, [symbol for symbol in ELEMENTS[1:] if hasattr(module_of(path), symbol)]


def module_of(path):
    """One of PySCF's modules that hold basis sets."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return importlib.import_module(".".join(("pyscf.gto.basis", *parts)))


def shells_of(path, symbol):
    """Shells of one element in PySCF's internal form, read from the file itself."""
    return getattr(module_of(path), symbol) if path.suffix == ".py" else parse_nwchem.load(str(path), symbol)


def at_the_origin(shells, cartesian=False):
    """A basis of the given shells, all at the origin."""
    return gaussian_basis(gto.M(atom="He 0 0 0", basis={"He": shells}, cart=cartesian, spin=None, verbose=0))


def require_bounds(basis):
    """Largest values at all points beyond each radius of the ladder are within the bounds, orders 0 to 4.

    Points are at both ends of each interval and at a place inside of it that differs from interval to interval.
    """
    inside = LADDER[:-1] + np.diff(LADDER) * np.resize([0.31, 0.5, 0.77], len(LADDER) - 1)
    radii = np.sort(np.concatenate([LADDER, inside]))  # end, inside, end, ...
    points = np.asfortranarray((radii[:, None, None] * DIRECTIONS).reshape(-1, 3))
    values = np.abs(basis.evaluate(points, 4)).reshape(35, basis.n_ao, len(radii), len(DIRECTIONS)).max(axis=-1)
    for shell, order in itertools.product(range(basis.n_shells), range(5)):
        largest = values[: component_count(order), slice(*basis.ao_offsets[shell : shell + 2])].max(axis=(0, 1))
        beyond = np.maximum.accumulate(largest[::-1])[::-1][::2]
        bounds = basis.bound(shell, order, LADDER)
        assert np.all(np.diff(bounds) <= 0.0)
        excess = beyond - bounds * (1.0 + 1e-12)
        assert np.all(excess <= 1e-300), (basis.angular_momentum(shell), basis.primitives(shell), order)


@pytest.mark.parametrize(("file", "symbol"), SAMPLE)
def test_bounds_hold_for_shells_of_every_kind(file, symbol):
    """No value or derivative up to fourth order exceeds the bound, from the nucleus to where it underflows."""
    shells = shells_of(FOLDER / file, symbol)
    require_bounds(at_the_origin(shells))
    require_bounds(at_the_origin(shells, cartesian=True))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_bounds_hold_for_every_shell_that_pyscf_ships(part):
    """H to Og: 90,000 different shells of 280 files; this part takes each file, but one of so many elements."""
    shells = {}
    for path, symbols in shipped_files():
        for symbol in symbols[part::PARTS]:
            shells |= {repr(shell): shell for shell in shells_of(path, symbol)}
    assert len(shells) > 5000
    shells = list(shells.values())
    for start in range(0, len(shells), 40):
        require_bounds(at_the_origin(shells[start : start + 40]))


def test_bounds_are_close_and_reach_is_where_they_meet_the_cutoff():
    """Screening keeps little in vain: at its reach the value of an uncontracted shell is within 2 % of the cutoff."""
    cutoff = 3e-9
    basis = at_the_origin(gto.uncontract(shells_of(FOLDER / "dyall-basis/dyall_v2z.py", "Xe")))
    for shell, reach in enumerate(basis.reach(0, cutoff)):
        points = np.asfortranarray(np.linspace(0.9 * reach, 3.0 * reach, 300)[:, None] * [[0.0, 0.0, 1.0]])
        values = np.abs(basis.evaluate(points, 0, np.array([shell]))[0]).max(axis=0)
        distances = points[:, 2]
        assert values[distances >= reach].max() < cutoff
        assert values[distances < reach].max() > cutoff
        at_reach = np.asfortranarray([[0.0, 0.0, reach]])
        assert np.abs(basis.evaluate(at_reach, 0, np.array([shell]))).max() > 0.98 * cutoff


def test_bounds_of_a_contraction_follow_each_of_its_orbitals():
    """A general contraction is bounded by its largest orbital, not by a sum of the largest coefficients of all."""
    basis = at_the_origin([[0, [10.0, 1.0, 0.0], [0.1, 0.0, 1.0]]])
    _, coefficients = basis.primitives(0)
    expected = np.abs(coefficients).max() * np.sqrt(0.25 / np.pi)
    np.testing.assert_allclose(basis.bound(0, 0, [0.0]), expected, rtol=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(("basis", "atom"), [("dyallv4z", "Kr"), ("dyallv2z", "Rn"), ("unc-ano", "Ti")])
def test_no_steep_shell_is_left_out_of_the_blocks_that_it_reaches(basis, atom, order):
    """Values and derivatives that a store leaves out are below its cutoff, from the first radial point (1e-6) on."""
    mole = gto.M(atom=f"{atom} 0 0 0", basis=basis, spin=None, verbose=0)
    radii = np.geomspace(1e-6, 30.0, 512)
    points = (radii[:, None, None] * DIRECTIONS).reshape(-1, 3)
    store = AOStore(mole, points, np.ones(len(points)), order, block_size=64)
    for index, block in enumerate(store.blocks):
        left_out = np.setdiff1d(np.arange(store.basis.n_shells), block.shells)
        assert np.abs(store.basis.evaluate(block.points, order, left_out)).max(initial=0.0) < store.cutoff, index
    assert sum(len(block.aos) for block in store.blocks) < len(store.blocks) * store.n_ao


def test_a_shell_of_many_contractions_is_evaluated_in_parts(rng):
    """40 contractions of g functions, more than PySCF's buffers hold, by the formula in JAX instead (ao_values)."""
    rows = [[0.3 * 1.5**k, *rng.normal(size=40)] for k in range(12)]
    for shells in ([[4, *rows]], [[0, [1.0, 1.0]], [4, *rows], [1, [0.7, 1.0]]]):
        mole = gto.M(atom="He 0 0 0", basis={"He": shells}, spin=None, verbose=0)
        points = np.asfortranarray(rng.normal(size=(70, 3)))
        values = gaussian_basis(mole).evaluate(points, 2)[0]
        expected = np.array(jax.jit(jax.vmap(partial(ao_values, ao_tables(mole))))(jnp.asarray(points))).T
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("exponent", [0.05, 1e8])
@pytest.mark.parametrize("l", [0, 1, 3])
def test_what_libcint_leaves_out_itself_is_rounding(l, exponent):
    """It takes exp(-a r^2) below 1e-18 as zero: 1e-14 of the largest value or slope, 1e-13 of second derivatives."""
    basis = at_the_origin([[l, [exponent, 1.0]]])
    radii = np.sqrt(np.linspace(0.0, 60.0, 400) / exponent)
    points = radii[:, None] * np.array([0.36, -0.48, 0.8])
    mole = gto.M(atom="He 0 0 0", basis={"He": [[l, [exponent, 1.0]]]}, spin=None, verbose=0)
    orbitals = partial(ao_values, ao_tables(mole))
    found, function = basis.evaluate(np.asfortranarray(points), 2), orbitals
    for components, tolerance in (([0], 1e-14), ([1, 2, 3], 1e-14), ([4, 5, 6, 5, 7, 8, 6, 8, 9], 1e-13)):
        expected = np.moveaxis(np.array(jax.jit(jax.vmap(function))(jnp.asarray(points))), 0, -1)
        expected = expected.reshape(expected.shape[0], -1, len(points)).transpose(1, 0, 2)
        np.testing.assert_allclose(found[components], expected, rtol=0, atol=tolerance * np.abs(expected).max())
        function = jax.jacfwd(function)
