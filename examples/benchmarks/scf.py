"""Time of a whole SCF against PySCF: guess, integrals, grid, orbitals on the grid and all cycles.

    python examples/benchmarks/scf.py                                   caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/scf.py --suite small --save              the table's small molecules
    python examples/benchmarks/scf.py --molecule benzene --xc b3lyp --exact
    python examples/benchmarks/scf.py --molecule c60 --pairs 3 --processes

Calculations alternate. Each pair has its own geometry, atoms displaced at random by 1e-3 bohr, so that nothing but
compiled code is carried over. Both codes use the same grid, fitting basis, thresholds and number of threads; energies
must agree to 1e-8 hartree. With --processes every calculation has a process of its own, which tells its peak memory.
"""

import argparse
import gc
import json
import subprocess
import sys

import measuring
import numpy as np
from molecules import NAMES, geometry
from pyscf import dft

import dftfd
from dftfd.runtime.progress import Progress

ENERGY_TOLERANCE = 1e-8  # hartree

SUITES = {
    "small": (
        {"molecule": "water"},
        {"molecule": "benzene"},
        {"molecule": "benzene", "basis": "def2-tzvp"},
        {"molecule": "benzene_cation", "charge": 1},
        {"molecule": "benzene", "xc": "b3lyp", "density_fit": False},
        {"molecule": "water", "xc": "wb97m-v"},
        {"molecule": "caffeine"},
        {"molecule": "caffeine", "xc": "r2scan"},
        {"molecule": "caffeine", "xc": "b3lyp"},
    ),
    "full": (
        {"molecule": "ala3"},
        {"molecule": "benzene", "xc": "wb97m-v"},
        {"molecule": "c60", "pairs": 3, "processes": True},
    ),
}


def pyscf_run(mole, xc, density_fit):
    """What came out, and the stages' seconds, of which PySCF tells none."""
    solver = (dft.UKS if mole.spin else dft.RKS)(mole, xc=xc)
    solver = solver.density_fit() if density_fit else solver
    solver.conv_tol = 1e-9
    solver.kernel()
    return {"energy": solver.e_tot, "cycles": solver.cycles, "converged": bool(solver.converged), "stages": {}}


def dftfd_run(mole, xc, density_fit):
    """The same."""
    found = dftfd.run_scf(dftfd.molecule(mole), xc=xc, density_fit=density_fit, conv_tol=1e-9, progress=Progress())
    return {"energy": found.energy, "cycles": found.cycles, "converged": found.converged, "stages": dict(found.seconds)}


CODES = {"pyscf": pyscf_run, "dftfd": dftfd_run}


def timed(code, case, pair, clock):
    """One calculation here: what came out, its seconds, and the peak memory of this process."""
    mole = geometry(case["molecule"], case["basis"], case["charge"], pair)
    gc.collect()
    seconds, found = measuring.seconds(
        lambda: CODES[code](mole, case["xc"], case["density_fit"]), measuring.CLOCKS[clock]
    )
    return found | {"seconds": seconds, "gigabytes": measuring.peak_gigabytes()}


def timed_alone(code, case, pair, clock):
    """The same in a new process."""
    order = json.dumps({"code": code, "case": case, "pair": pair, "clock": clock})
    answer = subprocess.run([sys.executable, __file__, "--one", order], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def measure(molecule, xc="pbe", basis="def2-svp", charge=0, density_fit=True, pairs=5, clock="wall", processes=False):
    """One row of results."""
    case = {"molecule": molecule, "basis": basis, "xc": xc, "charge": charge, "density_fit": density_fit}
    first = None
    if not processes:  # neither code's first call is timed: libraries are loaded, programs compiled
        pyscf_run(geometry("water"), xc, density_fit)
        first = timed("dftfd", case, None, clock)["seconds"]
    run, runs = timed_alone if processes else timed, []
    for pair in range(pairs):
        both = theirs, ours = [run(code, case, pair, clock) for code in CODES]
        converged = theirs["converged"] and ours["converged"]
        if not converged or abs(theirs["energy"] - ours["energy"]) > ENERGY_TOLERANCE:
            raise SystemExit(f"{molecule} {xc}: PySCF {theirs}, dftfd {ours}: not the same converged energy")
        runs.append(both)
        print(f"  {molecule} {xc}: {theirs['seconds']:.2f} s, {ours['seconds']:.2f} s", file=sys.stderr, flush=True)
    column = lambda key, code: [pair[code][key] for pair in runs]
    stages = column("stages", 1)
    return case | {
        "ao": geometry(molecule, basis, charge).nao,
        "clock": clock,
        **measuring.ratio_of(list(zip(column("seconds", 0), column("seconds", 1), strict=True))),
        "first_run_seconds": first and round(first, 3),
        "energy_error": float(np.max(np.abs(np.subtract(column("energy", 0), column("energy", 1))))),
        "cycles": [[int(theirs["cycles"]), int(ours["cycles"])] for theirs, ours in runs],
        "stages": {k: round(float(np.median([s.get(k, 0.0) for s in stages])), 3) for k in stages[0]},
        "peak_memory_gigabytes": (
            dict(zip(CODES, (max(column("gigabytes", k)) for k in (0, 1)), strict=True))
            if processes
            else measuring.peak_gigabytes()
        ),
    }


def report(row):
    """One line per case."""
    name = f"{row['molecule']}{'+' * row['charge']} {row['basis']} {row['xc']}{'' if row['density_fit'] else ' exact'}"
    low, high = row["ratio_range"]
    stages = ", ".join(f"{k} {v:.2f}" for k, v in row["stages"].items())
    first, peak = row["first_run_seconds"], row["peak_memory_gigabytes"]
    return (
        f"{name:30s} PySCF {row['pyscf_seconds']:7.2f} s, dftfd {row['dftfd_seconds']:7.2f} s, "
        f"ratio {row['ratio']:5.2f} ({low} to {high}), dE {row['energy_error']:.0e}, "
        f"{f'first run {first:.1f} s, ' if first else ''}peak memory {peak} GB\n"
        f"    {stages}; cycles {row['cycles'][0]}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--charge", type=int, default=0)
    parser.add_argument("--exact", action="store_true", help="exact integrals instead of density fitting")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs")
    parser.add_argument(
        "--clock", choices=measuring.CLOCKS, default="wall", help="cpu: CPU time, needs OMP_NUM_THREADS=1"
    )
    parser.add_argument("--processes", action="store_true", help="a process for every calculation; tells its memory")
    parser.add_argument("--suite", choices=SUITES, help="the cases of the table")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/scf.json")
    options = parser.parse_args()
    measuring.require_one_thread_for(options.clock)
    if options.one:
        print(json.dumps(timed(**options.one)))
        return
    single = {"molecule": options.molecule, "basis": options.basis, "xc": options.xc, "charge": options.charge}
    single |= {"density_fit": not options.exact, "processes": options.processes}
    for case in SUITES[options.suite] if options.suite else (single,):
        row = measure(**{"pairs": options.pairs, "clock": options.clock} | case)
        print(report(row), flush=True)
        if options.save:
            measuring.keep("scf", [measuring.machine() | row])


if __name__ == "__main__":
    main()
