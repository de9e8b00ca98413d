"""Which part of a grid the wavenumbers of M06-L need: curvatures of energies along modes, by PySCF and libxc.

    python -m tests.verification.curvature_on_grids [NAME ...]

Nothing of the analytic Hessian takes part. At points along each mode of frequencies_on_grids' molecules (from our
Hessian on level 3) the density is that of a calculation on level 4, and E_xc is computed on other grids: what those
would change of the density is of second order in the error of the grid. Second differences of E_xc beside those on
level 8, as changes of wavenumbers, are kept in data/reliability/curvature_on_grids.json.
"""

import json
import sys
from pathlib import Path

import numpy as np
from pyscf import gto
from pyscf.dft import gen_grid, numint

import dftfd
from tests.verification.frequencies_on_grids import MOLECULES

RECORD = Path(__file__).parents[2] / "data" / "reliability" / "curvature_on_grids.json"
XC, STEP, BLOCK = "m06l", 0.02, 20_000  # STEP in bohr, along a mode of length one
CONVERGED = "level 8"
# level, then what differs from it: shells and directions of heavy atoms and of hydrogen, and pruning
GRIDS = {
    "level 3": {},
    "no pruning": {"pruned": False},
    "shells x 2": {"shells": (150, 100)},
    "434 directions": {"directions": (434, 302)},
    "590 directions": {"directions": (590, 302)},
    "590 directions, hydrogen too": {"directions": (590, 590)},
    "590 directions, hydrogen alone": {"directions": (302, 590)},
    "level 4": {"level": 4},
    "level 5": {"level": 5},
    "level 6": {"level": 6},
    CONVERGED: {"level": 8},
}


def points_of(mole, level=3, shells=None, directions=None, pruned=True):
    """PySCF's points and weights."""
    grids = gen_grid.Grids(mole)
    grids.level, grids.verbose = level, 0
    usual = lambda Z: (gen_grid._default_rad(Z, level), gen_grid._default_ang(Z, level))
    grids.atom_grid = {
        symbol: tuple(
            given[gto.charge(symbol) == 1] if given else usual(gto.charge(symbol))[k]
            for k, given in enumerate((shells, directions))
        )
        for symbol in {mole.atom_symbol(i) for i in range(mole.natm)}
    }
    if not pruned:
        grids.prune = None
    grids.build(with_non0tab=False, sort_grids=False)
    return grids.coords, grids.weights


def xc_energy(mole, orbitals, occupations, points, weights) -> float:
    """E_xc [hartree] of a density on given points, by libxc."""
    integrator, energy = numint.NumInt(), 0.0
    for first in range(0, len(weights), BLOCK):
        block = slice(first, first + BLOCK)
        ao = integrator.eval_ao(mole, points[block], deriv=1)
        rho = integrator.eval_rho2(mole, ao, orbitals, occupations, xctype="MGGA", with_lapl=False)
        energy += float((integrator.eval_xc_eff(XC, rho, deriv=0, xctype="MGGA")[0] * rho[0]) @ weights[block])
    return energy


def measure(name: str) -> dict:
    """Points of each grid, and by how much [cm^-1] wavenumbers on it differ from those on the converged one."""
    molecule = dftfd.molecule(MOLECULES[name], basis="def2-svp")
    found = dftfd.run_scf(molecule, XC, grid_level=3, conv_tol=1e-10).vibrations(method="response")
    start = gto.M(atom=MOLECULES[name], basis="def2-svp", verbose=0)

    def energies(displacement):
        mole = start.set_geom_(molecule.coordinates + displacement, unit="Bohr", inplace=False)
        solved = dftfd.run_scf(dftfd.molecule(mole), XC, grid_level=4, conv_tol=1e-10)
        density = np.array(solved.mo_coeff[0]), np.array(solved.mo_occ[0])
        return np.array([xc_energy(mole, *density, *points_of(mole, **grid)) for grid in GRIDS.values()])

    centre, rows = energies(0.0), []
    for wavenumber, mode, force in zip(found.wavenumbers, found.modes, found.force_constants, strict=True):
        if rows and abs(wavenumber - rows[-1]["wavenumber"]) < 0.3:
            continue  # degenerate
        curvature = (energies(STEP * mode) - 2 * centre + energies(-STEP * mode)) / STEP**2
        off = (curvature - curvature[list(GRIDS).index(CONVERGED)]) * wavenumber / (2 * force)
        rows.append(
            {"wavenumber": round(float(wavenumber), 2), "off": dict(zip(GRIDS, off.round(2).tolist(), strict=True))}
        )
    sizes = {grid: len(points_of(start, **options)[1]) for grid, options in GRIDS.items()}
    return {"points": sizes, "modes": rows}


def main() -> None:
    """Fills what is missing in the record and prints the largest change of a wavenumber by grid."""
    for name in sys.argv[1:] or MOLECULES:
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        if name not in kept:
            kept[name] = measure(name)
            RECORD.write_text(json.dumps(kept, indent=1) + "\n")
        largest = {grid: max(abs(row["off"][grid]) for row in kept[name]["modes"]) for grid in GRIDS}
        print(name, largest, flush=True)


if __name__ == "__main__":
    main()
