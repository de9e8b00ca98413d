"""Cost of a functional of dftfd inside PySCF, against PySCF with its own libxc, on caffeine.

    python examples/benchmarks/pyscf_numint.py --save      appended to data/benchmarks/pyscf_numint.json
    OMP_NUM_THREADS=1 python examples/benchmarks/pyscf_numint.py --clock cpu      one thread, for a busy machine

What is timed is PySCF's numerical integration (nr_rks: orbitals and density on the grid, functional, matrix), the only
part of a calculation in which the two differ. Calls alternate, the ratio is the median over pairs. Energies and
matrices are compared first, so a fast wrong answer stops the benchmark.
"""

import argparse

import measuring
import numpy as np
from measuring import CLOCKS, seconds
from molecules import atoms
from pyscf import dft, gto

from dftfd.interop.pyscf import numint

CASES = ("lda,vwn", "pbe", "b3lyp", "tpss", "r2scan")
ENERGY_TOLERANCE, MATRIX_TOLERANCE = 1e-8, 1e-8  # hartree


def measure(xc, basis, level, pairs, clock, mole, grids, P):
    """One row of results."""
    theirs, ours = dft.numint.NumInt(), numint(xc)
    call = lambda ni: ni.nr_rks(mole, grids, xc, P, hermi=1)
    first_call, (_, energy, V) = seconds(lambda: call(ours))
    _, reference, V_reference = call(theirs)
    if abs(energy - reference) > ENERGY_TOLERANCE or np.abs(V - V_reference).max() > MATRIX_TOLERANCE:
        raise SystemExit(f"{xc}: energies {energy}, {reference}, matrices {np.abs(V - V_reference).max()} apart")
    timed = lambda ni: seconds(lambda: call(ni), CLOCKS[clock])[0]
    times = np.array([[timed(ni) for ni in (ours, theirs)] for _ in range(pairs)])
    return measuring.machine() | {
        "molecule": "caffeine",
        "basis": basis,
        "grid_level": level,
        "xc": xc,
        "points": len(grids.weights),
        "clock": clock,
        "pairs": pairs,
        "dftfd_s": float(np.median(times[:, 0])),
        "libxc_s": float(np.median(times[:, 1])),
        "ratio": float(np.median(times[:, 0] / times[:, 1])),
        "first_call_s": first_call,
        "energy_difference": abs(energy - reference),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xc", nargs="*", default=CASES)
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    measuring.require_one_thread_for(options.clock)
    mole = gto.M(atom=atoms("caffeine"), basis=options.basis, verbose=0)
    grids = dft.gen_grid.Grids(mole)
    grids.level = options.level
    grids.build(with_non0tab=True)
    P = dft.RKS(mole, xc="pbe").get_init_guess()
    rows = []
    for xc in options.xc:
        row = measure(xc, options.basis, options.level, options.pairs, options.clock, mole, grids, P)
        print("{xc:10s} dftfd {dftfd_s:.2f} s  libxc {libxc_s:.2f} s  ratio {ratio:.2f}".format(**row), flush=True)
        rows.append(row)
    if options.save:
        measuring.keep("pyscf_numint", rows)


if __name__ == "__main__":
    main()
