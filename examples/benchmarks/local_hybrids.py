"""Time of an SCF with a local hybrid, and of e_x in one of its cycles, def2-SVP, density fitting, grid level 3.

    python examples/benchmarks/local_hybrids.py                                       SCF of caffeine
    python examples/benchmarks/local_hybrids.py --cycle --save alanine1 alanine2      energy and matrix over chains

--cycle: energy and matrix of LH07t-SVWN, and of TPSS, which takes the same but e_x, on every sixteenth block of points,
from a density of SVWN on a coarse grid; times are multiplied by sixteen.
--save appends rows to data/benchmarks/local_hybrids.json.
"""

import argparse

from measuring import CLOCKS, keep, machine, peak_gigabytes, seconds  # first: it sets the number of threads
from molecules import atoms

import numpy as np  # isort: skip

import dftfd
from dftfd.grids.molecular import molecular_grid
from dftfd.terms.local_hybrid import LocalExchangeBuilder
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

FUNCTIONAL, WITHOUT, STRIDE = "lh07t_svwn", "tpss", 16


def scf(name, clock):
    """A row of a whole SCF."""
    molecule = dftfd.molecule(atoms(name), basis="def2-svp")
    taken, result = seconds(lambda: dftfd.run_scf(molecule, FUNCTIONAL), clock)
    found = {"converged": bool(result.converged), "cycles": result.cycles, "energy": result.energy}
    return row_of(name, molecule, len(result.grid[1])) | found | {"scf_seconds": round(taken, 1)}


def cycle(name, clock):
    """A row of one energy with its matrix, with and without e_x."""
    molecule = dftfd.molecule(atoms(name), basis="def2-svp")
    P = dftfd.run_scf(molecule, "svwn", grid_level=1, conv_tol=1e-6).density_matrix
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, 3)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    counting = np.abs(weights) > 1e-15
    blocks = AOStore(molecule, points[counting], weights[counting], 1, memory_limit=0).blocks[::STRIDE]
    store = AOStore(molecule, *(np.concatenate([getattr(b, x) for b in blocks]) for x in ("points", "weights")), 1)
    kernels = [XCKernel(dftfd.get_functional(name), 1) for name in (FUNCTIONAL, WITHOUT)]
    builders = [LocalExchangeBuilder(kernels[0], store, molecule), XCBuilder(kernels[1], store)]
    taken = []
    for builder in builders:
        builder.build(P)
        taken.append(STRIDE * seconds(lambda builder=builder: builder.build(P), clock)[0])
    return row_of(name, molecule, len(weights)) | {
        "e_x_seconds": round(taken[0] - taken[1], 2),
        "other_seconds": round(taken[1], 2),
        "e_x_milliseconds_per_point": round(1e3 * (taken[0] - taken[1]) / len(weights), 4),
    }


def row_of(name, molecule, points):
    found = {"molecule": name, "functional": FUNCTIONAL, "atoms": molecule.n_atoms}
    return found | {"basis_functions": molecule.n_ao, "points": points, "peak_memory_gigabytes": peak_gigabytes()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecules", nargs="*", default=["caffeine"])
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--cycle", action="store_true")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    for name in given.molecules:
        row = (cycle if given.cycle else scf)(name, CLOCKS[given.clock])
        print(row, flush=True)
        if given.save:
            keep("local_hybrids", [machine() | {"clock": given.clock} | row])


if __name__ == "__main__":
    main()
