"""Random cases against other programs, other ones every night; a failure's name holds the seed that repeats it.

Molecule, basis set, functional, charge and spin are drawn. PySCF's libxc on the same density and the same points gives
E_xc and its matrix; where Psi4 is installed it runs the whole calculation of a small molecule. DFTFD_NIGHT=NUMBER
repeats a night; without it the date is the number.
"""

import shutil
import subprocess
import warnings

import numpy as np
import pytest
from pyscf import dft

import dftfd
from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, InputWarning
from dftfd.libcint.mole import to_pyscf
from tests.order import NIGHT

SYMBOLS = sorted(ATOMIC_NUMBERS, key=ATOMIC_NUMBERS.get)[:86]
BASES = (
    "sto-3g", "6-31g**", "6-311++g**", "def2-svp", "def2-tzvp", "def2-svpd", "cc-pvdz", "cc-pvtz", "aug-cc-pvdz",
    "cc-pcvdz", "cc-pwcvdz", "dyallv2z", "dyallv3z", "ano-rcc", "ano-rcc-vdzp", "x2c-svpall", "x2c-tzvpall",
    "sapporodkh3dzp", "sapporotzp", "pc-1", "pcseg-1", "jorgedzp", "dzp-dkh", "lanl2dz",
    "stuttgart", "unc-def2-svp", "cc-pvdz-dk",
)  # fmt: skip
FUNCTIONALS = (
    "lda,vwn", "pbe", "blyp", "bp86", "revpbe", "pbesol", "b3lyp", "pbe0", "bhandhlyp", "camb3lyp", "hse06", "wb97x-v",
    "wb97m-v", "b97m-v", "tpss", "scan", "r2scan", "m06l", "m06", "m06-2x", "tpssh", "revtpss", "pw91", "olyp", "b97-1",
)  # fmt: skip
MAX_AO = 220


def random_case(rng):
    """(molecule, functional): one to three atoms from hydrogen to radon, at least 0.8 angstrom apart."""
    while True:
        symbols = rng.choice(SYMBOLS[:18] * 3 + SYMBOLS, size=rng.integers(1, 4))
        positions = np.cumsum(rng.normal(size=(len(symbols), 3)), axis=0)
        positions *= 1.6 / max(np.linalg.norm(np.diff(positions, axis=0), axis=1).min(initial=1.6), 1e-3)
        n_electrons, charge = sum(ATOMIC_NUMBERS[s] for s in symbols), int(rng.integers(-1, 3))
        charge = min(charge, n_electrons - 1)
        spin = (n_electrons - charge) % 2 + 2 * int(rng.random() < 0.3 and n_electrons > 5)
        atoms = [(str(s), tuple(map(float, r))) for s, r in zip(symbols, positions, strict=True)]
        try:
            found = dftfd.molecule(atoms, basis=str(rng.choice(BASES)), charge=charge, spin=spin, allow_close=True)
        except InputError:  # the basis set lacks an element, or the core potential leaves too few electrons
            continue
        if found.n_ao <= MAX_AO:
            return found, str(rng.choice(FUNCTIONALS))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20), ids=lambda number: f"night{NIGHT}-{number}")
def test_exchange_correlation_of_a_random_density_is_libxcs(number):
    """After two cycles: E_xc to 1e-6 hartree + 1e-9 of it, on the same points; PySCF screens what it is told not to."""
    rng = np.random.default_rng((NIGHT, number))
    molecule, xc = random_case(rng)
    mole = to_pyscf(molecule)
    grids = dft.gen_grid.Grids(mole)
    grids.level, grids.prune = 0, None
    grids.build(with_non0tab=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        result = dftfd.run_scf(molecule, xc, grid=(grids.coords, grids.weights), max_cycles=2, convergence="diis")
    ni = dft.numint.NumInt()
    ni.cutoff = 1e-30
    grids.non0tab = None
    P = result.density_matrix
    evaluate, density = (ni.nr_rks, P[0]) if len(P) == 1 else (ni.nr_uks, P)
    expected = evaluate(mole, grids, xc, density)[1]

    assert result.energies["xc"] == pytest.approx(expected, abs=1e-6, rel=1e-9)


PSI4 = """
molecule {{
{charge} {multiplicity}
{atoms}
symmetry c1
no_com
no_reorient
units angstrom
}}
set {{ basis def2-svp
scf_type pk
reference {reference}
e_convergence 1e-9
d_convergence 1e-8
dft_radial_points 150
dft_spherical_points 770 }}
e = energy('{xc}')
print_variables()
f = open('energy', 'w')
f.write(repr(e))
f.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("psi4") is None, reason="Psi4 is not installed")
@pytest.mark.parametrize("number", range(2), ids=lambda number: f"night{NIGHT}-{number}")
def test_whole_calculation_of_a_random_hydride_is_psi4s(number, tmp_path):
    """A hydride of the first two rows with a distorted geometry: total energies to 1e-5 hartree, grids of each."""
    rng = np.random.default_rng((NIGHT, 100 + number))
    centre, count = [
        ("Li", 1),
        ("B", 3),
        ("C", 4),
        ("N", 3),
        ("O", 2),
        ("F", 1),
        ("Si", 4),
        ("P", 3),
        ("S", 2),
        ("Cl", 1),
    ][rng.integers(10)]
    corners = np.array([[1, 1, 1], [-1, -1, 1], [-1, 1, -1], [1, -1, -1]])[:count]
    hydrogens = corners * 0.75 + rng.normal(scale=0.05, size=(count, 3))
    atoms = [(centre, (0.0, 0.0, 0.0)), *(("H", tuple(map(float, r))) for r in hydrogens)]
    xc = str(rng.choice(["pbe", "blyp", "b3lyp5", "pbe0", "tpss"]))
    cation = bool(rng.random() < 0.5)
    molecule = dftfd.molecule(atoms, basis="def2-svp", charge=int(cation), spin=int(cation))
    ours = dftfd.run_scf(molecule, xc, density_fit=False, grid_level=6)
    text = PSI4.format(
        charge=int(cation),
        multiplicity=1 + int(cation),
        atoms="\n".join(f"{s} {x:.10f} {y:.10f} {z:.10f}" for s, (x, y, z) in atoms),
        reference="uks" if cation else "rks",
        xc=xc,
    )
    (tmp_path / "input.dat").write_text(text)
    ended = subprocess.run(["psi4", "-n", "2", "input.dat"], cwd=tmp_path, capture_output=True, timeout=600)
    if "Could not converge SCF iterations" in (tmp_path / "output.dat").read_text():
        pytest.skip("Psi4 finds no state of this molecule, with which ours would be compared")
    ended.check_returncode()
    assert ours.energy == pytest.approx(float((tmp_path / "energy").read_text()), abs=1e-5)
