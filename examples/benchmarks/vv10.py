"""Time of VV10's sum over pairs of grid points, energy and derivatives, against PySCF's hand-written loop.

    python examples/benchmarks/vv10.py                        water, grid level 2
    python examples/benchmarks/vv10.py --suite --save         all cases, appended to data/benchmarks/vv10.json
    OMP_NUM_THREADS=1 python examples/benchmarks/vv10.py --clock cpu       one thread, for a busy machine

Both start from the same density on the same points and end with energy and derivatives with respect to density and
gradient; both leave out points below 1e-8. Runs alternate, the ratio is the median over pairs of runs. Results are
compared first, so a fast wrong answer stops the benchmark.
"""

import argparse

import measuring
import numpy as np
from measuring import CLOCKS, machine, ratio_of, seconds
from molecules import NAMES, atoms
from pyscf import dft, gto

import dftfd
from dftfd.xc.nonlocal_kernel import NonlocalXCKernel

SUITE = (
    {"molecule": "water", "level": 1},
    {"molecule": "water", "level": 3},
    {"molecule": "benzene", "level": 1},
)
TOLERANCE = 1e-9  # of the energy [hartree], and of the derivatives relative to the largest


def density_of(molecule, level):
    """Points, weights, and PBE density with gradient (4, point), def2-SVP."""
    mole = gto.M(atom=atoms(molecule), basis="def2-svp", verbose=0)
    calculation = dft.RKS(mole, xc="pbe").density_fit()
    calculation.grids.level, calculation.conv_tol = 1, 1e-6
    calculation.kernel()
    grids = dft.gen_grid.Grids(mole)
    grids.level = level
    grids.build()
    numint = dft.numint
    rho = numint.eval_rho(mole, numint.eval_ao(mole, grids.coords, deriv=1), calculation.make_rdm1(), xctype="GGA")
    return grids.coords, grids.weights, rho


def measure(molecule, level=2, pairs=5, clock="wall"):
    """One row of results."""
    points, weights, rho = density_of(molecule, level)
    now = CLOCKS[clock]
    lowering_seconds, kernel = seconds(lambda: NonlocalXCKernel(dftfd.get_functional("vv10"), 1), now)

    def ours():
        return kernel(points, weights, rho[None])

    def theirs():
        """Energy, and derivatives as ours from theirs with respect to density and squared gradient."""
        e, v = dft.numint._vv10nlc(rho, points, rho, weights, points, (5.9, 0.0093))
        v[1, rho[0] < 1e-8] = 0.0
        return rho[0] * weights @ e, np.vstack([v[0], 2 * v[1] * rho[1:]]) * weights

    first_seconds, _ = seconds(ours, now)
    (energy, potential), (their_energy, their_potential) = ours(), theirs()
    energy_error = float(energy - their_energy)
    potential_error = float(np.abs(potential[0] - their_potential).max() / np.abs(their_potential).max())
    if abs(energy_error) > TOLERANCE or potential_error > TOLERANCE:
        raise SystemExit(f"{molecule}: wrong result, energy by {energy_error:.1e}, potential by {potential_error:.1e}")
    times = [(seconds(theirs, now)[0], seconds(ours, now)[0]) for _ in range(pairs)]
    kept = int(np.count_nonzero(rho[0] >= 1e-8))
    theirs_per_pair, ours_per_pair = np.median(times, axis=0) / kept**2 * 1e9
    return {
        "molecule": molecule,
        "grid_level": level,
        "points": len(weights),
        "points_kept": kept,
        "clock": clock,
        **ratio_of(times),
        "pyscf_nanoseconds_per_pair": round(float(theirs_per_pair), 3),
        "dftfd_nanoseconds_per_pair": round(float(ours_per_pair), 3),
        "lowering_seconds": round(lowering_seconds, 2),
        "first_call_seconds": round(first_seconds, 2),
        "energy_error": energy_error,
        "potential_error": potential_error,
        "peak_memory_gigabytes": measuring.peak_gigabytes(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES, default="water")
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs of runs")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--suite", action="store_true", help="all cases")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/vv10.json")
    arguments = parser.parse_args()
    measuring.require_one_thread_for(arguments.clock)
    cases = SUITE if arguments.suite else ({"molecule": arguments.molecule, "level": arguments.level},)
    for case in cases:
        row = measure(**case, pairs=arguments.pairs, clock=arguments.clock)
        print(
            f"{row['molecule']:9s} level {row['grid_level']}  {row['points_kept']:6d} points   "
            f"PySCF {row['pyscf_nanoseconds_per_pair']:.2f} ns/pair   dftfd {row['dftfd_nanoseconds_per_pair']:.2f}   "
            f"ratio {row['ratio']:.2f} ({row['ratio_range'][0]} to {row['ratio_range'][1]})"
        )
        if arguments.save:
            measuring.keep("vv10", [machine() | row])


if __name__ == "__main__":
    main()
