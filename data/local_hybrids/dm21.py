"""DM21, DM21m, DM21mc and DM21mu beside energies that its authors' program gives; rows are added to dm21.json.

    python data/local_hybrids/dm21.py CHECKPOINTS [small]

CHECKPOINTS: the folder of that name in google-deepmind/deepmind-research, density_functional_approximation_dm21.
Published: neon and carbon in STO-3G (neural_numint_test.py, there to 2e-4 hartree, since the authors' program works in
single precision), methane, carbon and hydrogen in def2-QZVP (README.md; converged to 1e-6 hartree from B3LYP's
density), and from these the atomisation energy of methane, 419.06 kcal/mol.

The grid is that of the PySCF of the paper, level 3 without the radii of elements that shells got later: energies of the
network depend on the grid. Rows of neon on grids of this version stand beside.
"""

import json
import pathlib
import sys
import time

from pyscf.dft import gen_grid, radi

import dftfd
from dftfd.libcint.mole import to_pyscf

OUT = pathlib.Path(__file__).with_suffix(".json")
METHANE = """C 0 0 1.0879; H 0 0 0; H 1.025681956337 0 1.450533333333; H -0.512840978169 0.888266630391 1.450533333333;
H -0.512840978169 -0.888266630391 1.450533333333"""
SMALL = {
    ("DM21", "Ne", 0): -126.898521,
    ("DM21m", "Ne", 0): -126.907332,
    ("DM21mc", "Ne", 0): -126.922127,
    ("DM21mu", "Ne", 0): -126.898178,
    ("DM21", "C", 2): -37.34184876,
    ("DM21m", "C", 2): -37.3377766,
    ("DM21mc", "C", 2): -37.33489173,
    ("DM21mu", "C", 2): -37.34015315,
}
LARGE = {
    ("H", "H 0 0 0;", 1): -0.5011533955627797,
    ("C", "C 0 0 0;", 2): -37.84542045526023,
    ("CH4", METHANE, 0): -40.51785372584538,
}


def kept():
    return json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else []


def keep(kind, name, molecule, published, **options):
    """Adds a row that is not there yet."""
    wanted = {"kind": kind, "molecule": name, "basis": molecule.basis}
    if any(wanted.items() <= row.items() for row in kept()):
        return
    found = wanted | row_of(kind, molecule, published, **options)
    print(found, flush=True)
    OUT.write_text(json.dumps([*kept(), found], indent=1) + "\n", encoding="utf-8")


def grid_of(molecule):
    """(points, weights) of PySCF's level 3 as it was in 2021."""
    radi.ATOM_SPECIFIC_TREUTLER_GRIDS = False
    grid = gen_grid.Grids(to_pyscf(molecule))
    grid.level = 3
    grid.build()
    return grid.coords, grid.weights


def row_of(kind, molecule, published, **options):
    start = time.process_time()
    result = dftfd.run_scf(molecule, kind.lower(), density_fit=False, **({"grid": grid_of(molecule)} | options))
    found = {"published": published, "energy": result.energy, "difference": result.energy - published}
    found |= {"converged": bool(result.converged)}
    return found | {"cycles": result.cycles, "processor_seconds": round(time.process_time() - start, 1)}


def main():
    for kind in ("DM21", "DM21m", "DM21mc", "DM21mu"):
        dftfd.dm21(kind, sys.argv[1])
    for (kind, symbol, spin), published in SMALL.items():
        keep(kind, symbol, dftfd.molecule(f"{symbol} 0 0 0;", basis="sto-3g", spin=spin), published)
    neon_on_other_grids()
    if sys.argv[2:] == ["small"]:
        return
    for (name, atoms, spin), published in LARGE.items():
        molecule = dftfd.molecule(atoms, basis="def2-qzvp", spin=spin)
        start = dftfd.run_scf(molecule, "b3lyp", grid_level=2, conv_tol=1e-6).density_matrix
        keep("DM21", name, molecule, published, conv_tol=1e-6, guess=start)


def neon_on_other_grids():
    """E less the published one by grid level, for the network that depends on it most."""
    published, neon = SMALL["DM21mc", "Ne", 0], dftfd.molecule("Ne 0 0 0;", basis="sto-3g")
    for level in (3, 5, 7, 9):
        keep("DM21mc", f"Ne, level {level}", neon, published, grid=None, grid_level=level)


if __name__ == "__main__":
    main()
