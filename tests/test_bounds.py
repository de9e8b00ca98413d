"""What is left out is bounded: no shell, pair or integral that could matter is skipped (docs/bounds.md).

Values are those of libcint at points, compared with bounds that come from formulas alone.
"""

import importlib
import itertools
import json
import re
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto, scf
from pyscf.data.elements import ELEMENTS
from pyscf.gto import basis as tables
from pyscf.gto.basis import parse_nwchem
from scipy.special import erf

import dftfd
from dftfd.errors import InputWarning
from dftfd.functionals import vv10
from dftfd.functionals.registry import get_functional
from dftfd.libcint.basis_sets import has_nothing
from dftfd.libcint.dispersion_correction import dispersion_correction
from dftfd.libcint.gto import GaussianBasis, component_count, gaussian_basis
from dftfd.libcint.mole import to_pyscf
from dftfd.terms.integrals import ExactCoulombExchange
from dftfd.terms.on_grid import LEAST_WEIGHT, counting_points, quadrature_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.density import ao_tables, ao_values
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel
from tests.sample import sample

DATA = Path(__file__).parents[1] / "data/bounds"
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
LONG = ("ano.dat", "U"), ("def2-universal-jkfit.dat", "Rn")  # quick: dyall_v4z of Rn has as many shells


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


@pytest.mark.parametrize(("file", "symbol"), sample(SAMPLE, [s for s in SAMPLE if s not in LONG]))
def test_bounds_hold_for_shells_of_every_kind(file, symbol):
    """No value or derivative up to fourth order exceeds the bound, from the nucleus to where it underflows."""
    shells = shells_of(FOLDER / file, symbol)
    require_bounds(at_the_origin(shells))
    require_bounds(at_the_origin(shells, cartesian=True))


@pytest.mark.slow
@pytest.mark.one_in(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_bounds_hold_for_every_shell_that_pyscf_ships(part):
    """H to Og: 90,000 different shells of 280 files; each day each file, but one of so many elements."""
    shells = {}
    for path, symbols in shipped_files():
        for symbol in symbols[part::PARTS]:
            # holmium's p shell of cc-pvdz-dk has a contraction of zeros, which is refused where it is asked for
            shells |= {repr(shell): shell for shell in shells_of(path, symbol) if not has_nothing(shell)}
    assert len(shells) > 5000
    shells = list(shells.values())
    for start in range(0, len(shells), 40):
        require_bounds(at_the_origin(shells[start : start + 40]))


def tabulated_bound(basis, shell, order, distances, step=0.05):
    """A bound that is none: values at points of a table, the largest at and beyond the point below each distance."""
    l, r = basis.angular_momentum(shell), np.arange(0.0, 80.0, step)
    a, coefficients = basis.primitives(shell)
    slope = l / np.maximum(r, step) + 2.0 * a[:, None] * r
    gaussians = np.abs(coefficients).max(axis=1)[:, None] * np.exp(-a[:, None] * r**2) * r**l
    table = np.max([(gaussians * slope**k).sum(axis=0) for k in range(order + 1)], axis=0)
    return np.maximum.accumulate(table[::-1])[::-1][(np.asarray(distances) / step).astype(int)]


@pytest.mark.parametrize("broken", ["table", "order", "normalisation"])
def test_broken_bounds_are_found(monkeypatch, broken):
    """A table each 0.05 bohr, one order too few and a factor of 1 - 1e-3 do not pass for bounds of xenon's shells."""
    true = GaussianBasis.bound
    monkeypatch.setattr(
        GaussianBasis,
        "bound",
        {
            "table": tabulated_bound,
            "order": lambda basis, shell, order, d: true(basis, shell, max(order - 1, 0), d),
            "normalisation": lambda basis, shell, order, d: 0.999 * true(basis, shell, order, d),
        }[broken],
    )
    with pytest.raises(AssertionError):
        require_bounds(at_the_origin(shells_of(FOLDER / "dyall-basis/dyall_v2z.py", "Xe")))


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


@pytest.mark.parametrize(
    ("l", "exponent"), sample([(l, exponent) for l in (0, 1, 3) for exponent in (0.05, 1e8)], at=[0, 5])
)
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


def test_recomputed_integrals_skip_nothing_that_matters(rng):
    """Schwarz screening: J and K of a long chain with steep and diffuse shells equal those of all kept integrals."""
    shells = [[0, [1e6, 1.0]], [0, [5.0, 0.3], [0.4, 0.8]], [1, [3e4, 1.0]], [1, [0.02, 1.0]]]
    mol = dftfd.molecule([("He", (5.0 * i, 0.4 * i, 0.0)) for i in range(6)], unit="bohr", basis={"He": shells})
    P = rng.normal(size=(2, mol.n_ao, mol.n_ao))
    P += P.transpose(0, 2, 1)
    kept, recomputed = ExactCoulombExchange(mol), ExactCoulombExchange(mol, 0)
    assert kept.in_core and not recomputed.in_core
    for found, expected in zip(recomputed.coulomb_and_exchange(P), kept.coulomb_and_exchange(P), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    long_range, expected = (builder.exchange(P, omega=0.33) for builder in (recomputed, kept))
    np.testing.assert_allclose(long_range, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


EXPONENTS = (1e9, 1e5, 30.0, 0.8, 0.01)


@pytest.mark.parametrize("distance", [0.0, 0.001, 0.5, 4.0, 25.0])
def test_integrals_of_steep_and_diffuse_functions_equal_their_formulas(distance):
    """libcint leaves out products below exp(-60): overlap, attraction, (ab|c) and (ab|cd) of s functions to 1e-13.

    Formulas: S. F. Boys, Proc. R. Soc. A 200, 542 (1950), with F_0(t) = sqrt(pi / t) erf(sqrt t) / 2.
    """
    atoms = [("H", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, distance)), ("H", (0.0, 0.3, 0.5 * distance))]
    pick = lambda a, b, c: dict(zip(("H1", "H2", "H3"), ([[0, [e, 1.0]]] for e in (a, b, c)), strict=True))
    for a, b, c in itertools.product(EXPONENTS, EXPONENTS, (1e5, 0.8, 0.01)):
        labelled = [(f"H{k + 1}", xyz) for k, (_, xyz) in enumerate(atoms)]
        mole = gto.M(atom=labelled, basis=pick(a, b, c), unit="bohr", spin=None, verbose=0)
        A, B, C = mole.atom_coords()
        norms = (2 * np.array([a, b, c]) / np.pi) ** 0.75
        p, P = a + b, (a * A + b * B) / (a + b)
        pair = norms[0] * norms[1] * np.exp(-a * b / p * (A - B) @ (A - B))
        boys = lambda t: 1.0 - t / 3 + t * t / 10 if t < 1e-5 else 0.5 * np.sqrt(np.pi / t) * erf(np.sqrt(t))
        overlap = pair * (np.pi / p) ** 1.5
        three = norms[2] * pair * 2 * np.pi**2.5 / (p * c * np.sqrt(p + c)) * boys(p * c / (p + c) * (P - C) @ (P - C))
        four = norms[2] ** 2 * pair * 2 * np.pi**2.5 / (p * 2 * c * np.sqrt(p + 2 * c))
        four *= boys(p * 2 * c / (p + 2 * c) * (P - C) @ (P - C))
        slices = (0, 1, 1, 2, 2, 3)
        assert mole.intor("int1e_ovlp")[0, 1] == pytest.approx(overlap, rel=1e-12, abs=1e-14)
        assert mole.intor("int3c2e", shls_slice=slices).item() == pytest.approx(three, rel=1e-12, abs=1e-13)
        assert mole.intor("int2e", shls_slice=(*slices, 2, 3)).item() == pytest.approx(four, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(
    ("atoms", "basis", "count"),
    [("Rn 0 0 0;", "dyallv2z", 0), ("Ar 0 0 0; Ar 0 0 3.8", "6-31g", 10), ("O 0 0 0; C 0 0 1.1", "6-31g", 20)],
)
def test_points_that_are_left_out_weigh_nothing(atoms, basis, count):
    """Of superposed atoms, LDA exchange at points of weights below 1e-15: at most 1e-11 of all of it.

    The shells next to a nucleus have such weights too, and densities of up to 1e7: radon would lose 1.7e-5 hartree.
    """
    molecule = dftfd.molecule(atoms, basis=basis)
    points, weights = quadrature_grid(molecule, 3)
    mole = to_pyscf(molecule)
    out = ~counting_points(molecule, points, weights, LEAST_WEIGHT)
    n = dft.numint.eval_rho(mole, mole.eval_gto("GTOval", points), scf.hf.init_guess_by_minao(mole))
    exchange = weights * np.maximum(n, 0.0) ** (4 / 3)
    assert out.sum() >= count
    assert np.abs(exchange[out]).sum() < 1e-11 * exchange.sum()


def test_pairs_of_points_are_never_too_far_apart():
    """VV10 between two clouds 60 bohr apart: every pair counts, by the double sum as the paper prints it."""
    rng = np.random.default_rng(7)
    points = rng.normal(size=(24, 3)) + 60.0 * (np.arange(24) >= 12)[:, None] * [0.0, 0.0, 1.0]
    n, gradient, weights = rng.uniform(0.05, 0.4, 24), 0.1 * rng.normal(size=(3, 24)), rng.uniform(0.5, 1.5, 24)
    kernel = NonlocalXCKernel(get_functional("vv10"), 1)
    energy = lambda rows: kernel(points[rows], weights[rows], np.vstack([n, gradient])[None][..., rows])[0]
    halves = np.arange(24) < 12
    between = energy(np.arange(24)) - energy(halves) - energy(~halves)
    C, b = 0.0093, 5.9
    omega = np.sqrt(C * (np.sum(gradient**2, axis=0) / n**2) ** 2 + 4 * np.pi * n / 3)
    kappa = b * 1.5 * np.pi * (n / (9 * np.pi)) ** (1 / 6)
    R2 = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    g = omega[:, None] * R2 + kappa[:, None]
    pairs = -1.5 / (g * g.T * (g + g.T)) * np.outer(weights * n, weights * n)
    assert between == pytest.approx(np.sum(pairs[np.ix_(halves, ~halves)]), rel=1e-5)


@pytest.mark.slow  # 1 s; test_pairs_of_points_are_never_too_far_apart is quick
def test_thin_points_of_vv10_weigh_little(monkeypatch):
    """Argon's VV10 energy without points below 1e-8 bohr^-3, and with all of them: 1e-7 hartree."""
    mole = gto.M(atom="Ar 0 0 0", basis="aug-cc-pvdz", verbose=0)
    P = scf.hf.init_guess_by_minao(mole)[None]
    grid = dftfd.molecular_grid(mole.atom_charges(), mole.atom_coords(), level=0)
    store = AOStore(mole, np.asarray(grid.points), np.asarray(grid.weights), 1)
    energies = []
    for threshold in (vv10.DENSITY_THRESHOLD, 1e-14):
        monkeypatch.setattr(vv10, "DENSITY_THRESHOLD", threshold)
        energies.append(NonlocalXCBuilder(NonlocalXCKernel(get_functional("vv10"), 1), store).build(P).energy)
    assert 0.0 < abs(energies[0] - energies[1]) < 1e-7


def test_dispersion_ends_at_sixty_bohr():
    """simple-dftd3 leaves out farther pairs: for two xenon atoms a jump below 1e-8 hartree."""
    pytest.importorskip("pyscf.dispersion")
    pair = lambda d: dftfd.molecule([("Xe", (0, 0, 0)), ("Xe", (0, 0, d))], unit="bohr", basis="def2-svp")
    near, far = (dispersion_correction(pair(d), "d3bj", "pbe")[0] for d in (59.9, 60.1))
    assert far == 0.0 and -1e-8 < near < 0.0


# ---------------------------------------------------------------------------------------------- electrons on the grid


def warnings_of(molecule, **options):
    """Texts of the warnings of an LDA run, and the electrons that its grid misses per electron."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dftfd.run_scf(molecule, "lda,vwn", density_fit=False, **options)
    texts = [str(w.message) for w in caught]
    assert all(issubclass(w.category, InputWarning) and "\n" not in str(w.message) for w in caught)
    return texts, abs(result.electron_number_error) / result.mo_occ.sum()


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (lambda r: r < 0.1, "points that were given are too coarse for the steep functions of Ne2"),
        (lambda r: (r > 0.6) & (r < 1.5), "points that were given are too coarse for the density at Ne2"),
    ],
)
def test_missed_electrons_are_explained(where, words):
    """Weights are 1/500 too small near, or farther from, one of two neon atoms: 1e-5 to 1e-3 of the electrons."""
    molecule = dftfd.molecule("Ne 0 0 0; Ne 0 0 8", basis="6-31g")
    points, weights = quadrature_grid(molecule, 3)
    wrong = where(np.linalg.norm(points - molecule.coordinates[1], axis=1))
    texts, missed = warnings_of(molecule, grid=(points, weights * np.where(wrong, 0.998, 1.0)))
    assert 1e-5 < missed < 1e-3
    assert len(texts) == 1 and words in texts[0]


def diffuse_anion():
    """H- in functions of 30 bohr."""
    shells = [[0, [5.0, 0.1], [0.5, 0.4]], [0, [0.05, 1.0]], [0, [0.002, 1.0]], [0, [0.0005, 1.0]]]
    return dftfd.molecule("H 0 0 0;", basis={"H": shells}, charge=-1)


def test_functions_beyond_the_grid_are_named():
    """Each level misses 6 % of the electrons: it is said whose functions, and that no level helps."""
    texts, missed = warnings_of(diffuse_anion(), grid_level=1)
    assert missed > 0.01
    assert "ends inside of the diffuse functions of H1; leave them out, or give grid=" in texts[0]


@pytest.mark.slow
def test_the_remedy_for_functions_beyond_the_grid_helps():
    """Becke's radial grid of level 7, as the warning says, holds all electrons."""
    molecule = diffuse_anion()
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level=7, radial="becke")
    texts, missed = warnings_of(molecule, grid=(np.asarray(grid.points), np.asarray(grid.weights)))
    assert missed < 1e-5 and not texts


def test_the_coarsest_grid_may_miss_more():
    """Level 0 misses 1.6e-4 of neon's electrons, as it does of most atoms: no warning; level 1, 4e-8."""
    neon = dftfd.molecule("Ne 0 0 0;", basis="cc-pcvtz")
    texts, missed = warnings_of(neon, grid_level=0)
    assert missed > 1e-5 and not texts
    texts, missed = warnings_of(neon, grid_level=1)
    assert missed < 1e-6 and not texts


def test_the_overlap_on_a_grid_is_the_overlap(rng):
    """Products of orbitals integrated on a fine grid in screened, partly recomputed blocks: the matrix S to 1e-8."""
    mole = gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", basis="6-31g", verbose=0)
    grid = dftfd.molecular_grid(mole.atom_charges(), mole.atom_coords(), level=5)
    store = AOStore(mole, np.asarray(grid.points), np.asarray(grid.weights), memory_limit=1e6)
    np.testing.assert_allclose(store.overlap(), mole.intor("int1e_ovlp"), rtol=0, atol=1e-7)


# ------------------------------------------------------------------------------------ all-electron atoms and molecules

CASES = {case["id"]: case for case in json.loads((DATA / "cases.json").read_text())}
COMPARISON = json.loads((DATA / "comparison.json").read_text())["rows"]
QUICK = ("Kr dyallv2z",)
LIGHT = ("He dyallv2z", "Ne dyallv2z", "Mg x2c-TZVPall")
HEAVY = [case for case, row in COMPARISON.items() if row.get("scf_pyscf") and case not in LIGHT]


def molecule_of(case):
    """The Molecule of a case; shells of sets that PySCF does not ship come from data/bounds/shells.json."""
    shells = json.loads((DATA / "shells.json").read_text())
    basis = {s: shells[f"{name[4:]} {s}"] if name.startswith("bse:") else name for s, name in case["basis"].items()}
    return dftfd.molecule([(symbol, xyz) for symbol, *xyz in case["atoms"]], charge=case["charge"], basis=basis)


@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] * (c not in QUICK)) for c in CASES])
def test_energy_of_a_steep_basis_equals_pyscf_on_the_same_density(case):
    """LDA, PBE and r2SCAN energies and electrons of superposed atoms, on the same points: 1e-9 hartree."""
    molecule = molecule_of(CASES[case])
    mole = to_pyscf(molecule)
    P = scf.hf.init_guess_by_minao(mole)
    points, weights = quadrature_grid(molecule, 3)
    grids = SimpleNamespace(coords=points, weights=weights, non0tab=None, cutoff=1e-40, mol=mole)
    for xc in ("lda,vwn", "pbe,pbe", "r2scan,r2scan"):
        n, expected, _ = dft.numint.NumInt().nr_rks(mole, grids, xc, P)
        kernel = shared(XCKernel, get_functional(xc), 1)
        found = XCBuilder(kernel, AOStore(molecule, points, weights, ao_order(kernel))).build(P[None])
        assert found.energy == pytest.approx(expected, abs=1e-9 * max(1.0, abs(expected) / 100)), xc
        assert found.n_electrons.sum() == pytest.approx(n, abs=1e-9)


@pytest.mark.parametrize(
    "case",
    [*LIGHT, *(pytest.param(c, marks=pytest.mark.slow) for c in HEAVY)],
)
@pytest.mark.one_in(6)
def test_scf_in_a_steep_basis_equals_pyscf(case):
    """PBE with X2C where the set is relativistic, against PySCF's energy on the same points (make_cases.py): 1e-7."""
    fitted = COMPARISON[case]["integrals"] == "fitted"
    result = dftfd.run_scf(
        molecule_of(CASES[case]), "pbe", density_fit=fitted, relativity=CASES[case]["relativity"], grid_level=3
    )
    assert result.converged
    assert result.energy == pytest.approx(COMPARISON[case]["scf_pyscf"], abs=1e-7)


def test_the_comparison_covers_what_the_page_says():
    """70 systems, exponents with l >= 1 to 7e7; no difference from PySCF above 1e-6 hartree."""
    assert set(COMPARISON) == set(CASES) and len(CASES) >= 60
    assert max(row["largest_exponent_with_l"] for row in COMPARISON.values()) > 5e7
    differences = [value for row in COMPARISON.values() for key, value in row.items() if key.endswith("_difference")]
    assert len(differences) >= 3 * len(CASES) and max(map(abs, differences)) < 1e-6
