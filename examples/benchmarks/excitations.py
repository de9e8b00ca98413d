"""Time of the ten lowest singlets, full linear response, of a converged calculation against PySCF's.

    python examples/benchmarks/excitations.py                           caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/excitations.py --xc b3lyp --pairs 1 --save
    python examples/benchmarks/excitations.py --densities FOLDER        the density from an earlier call, or kept

Both start from the same orbitals, ours, with the same grid, fitting functions and residual (1e-5). PySCF finds
its fitted integrals and its grid ready; ours are made again, and are part of the time. Energies must agree to 1e-6
hartree, which is what the convergence of the density leaves open.
"""

import argparse

import measuring
import numpy as np
from gradient import density, timed
from molecules import NAMES, atoms
from pyscf import dft, gto

import dftfd  # noqa: F401 (float64)

TOLERANCE = 1e-6  # hartree


def measure(molecule="caffeine", xc="pbe", basis="def2-svp", grid_level=3, n=10, pairs=3, densities=None):
    """One row of results."""
    mole = gto.M(atom=atoms(molecule), basis=basis, verbose=0)
    path = densities and measuring.Path(densities) / f"{molecule}_{xc}_{basis}_fitted_{grid_level}.h5"
    result = density(mole, xc, True, grid_level, path)
    solver = dft.RKS(mole, xc=xc).density_fit()
    solver.mo_coeff, solver.mo_occ, solver.mo_energy = result.mo_coeff[0], result.mo_occ[0], result.mo_energy[0]
    solver.grids.level, solver.converged, solver.e_tot = grid_level, True, result.energy
    solver.grids.build()
    solver.with_df.build()

    def theirs():
        td = solver.TDDFT()
        td.nstates = n
        return td.kernel()[0]

    ours = lambda: result.excitations(n)
    rows, deviations = [], []
    for _ in range(pairs):
        our_times, found = timed(ours)
        reference_times, reference = timed(theirs)
        deviations.append(float(np.abs(found.energies - np.sort(reference)).max()))
        if deviations[-1] > TOLERANCE:
            raise SystemExit(f"{molecule} {xc}: energies differ by {deviations[-1]:.1e} hartree")
        rows.append((reference_times, our_times))
    wall, processor = ([(theirs[k], ours[k]) for theirs, ours in rows] for k in range(2))
    return {
        "molecule": molecule,
        "basis": basis,
        "xc": xc,
        "grid_level": grid_level,
        "roots": n,
        "wall": measuring.ratio_of(wall),
        "processor": measuring.ratio_of(processor),
        "largest_deviation": max(deviations),
        "peak_gigabytes": measuring.peak_gigabytes(),
        "machine": measuring.machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--grid-level", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--densities", metavar="FOLDER", help="where converged densities are kept")
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/excitations.json")
    given = vars(parser.parse_args())
    save = given.pop("save")
    row = measure(**given)
    print({key: value for key, value in row.items() if key != "machine"}, flush=True)
    if save:
        measuring.keep("excitations", [row])


if __name__ == "__main__":
    main()
