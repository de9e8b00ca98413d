"""Time of a whole SCF against PySCF: guess, integrals, grid, orbitals on the grid and all cycles.

    python examples/benchmarks/scf.py                                   caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/scf.py --suite small --save              the table's small molecules
    python examples/benchmarks/scf.py --molecule benzene --xc b3lyp --exact

Calculations alternate. Each pair has its own geometry, atoms displaced at random by 1e-3 bohr, so that nothing but
compiled code is carried over. Both codes use the same grid, fitting basis, thresholds and number of threads; energies
must agree to 1e-8 hartree.
"""

import argparse
import gc
import os

import measuring
import numpy as np
from molecules import NAMES, atoms
from pyscf import dft, gto

import dftfd

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
        {"molecule": "c60", "pairs": 3},
    ),
}


def measure(molecule, xc="pbe", basis="def2-svp", charge=0, density_fit=True, pairs=5, clock="wall"):
    """One row of results."""
    rng = np.random.default_rng(5)
    reference = gto.M(atom=atoms(molecule), basis=basis, charge=charge, spin=charge % 2, verbose=0)
    clock_of = measuring.CLOCKS[clock]

    def pyscf_run(mole):
        solver = (dft.UKS if mole.spin else dft.RKS)(mole, xc=xc)
        solver = solver.density_fit() if density_fit else solver
        solver.conv_tol = 1e-9
        solver.kernel()
        return solver.e_tot, solver.cycles, solver.converged

    def our_run(mole):
        found = dftfd.run_scf(
            dftfd.molecule(mole), xc=xc, density_fit=density_fit, conv_tol=1e-9, progress=dftfd.io.progress.Progress()
        )
        return found.energy, found.cycles, found.converged, dict(found.seconds)

    first = measuring.seconds(lambda: our_run(reference), clock_of)[0]
    times, differences, stages, cycles = [], [], [], []
    for _ in range(pairs):
        mole = reference.set_geom_(
            reference.atom_coords() + rng.uniform(-1e-3, 1e-3, (reference.natm, 3)), unit="Bohr", inplace=False
        )
        gc.collect()
        theirs = measuring.seconds(lambda mole=mole: pyscf_run(mole), clock_of)
        gc.collect()
        ours = measuring.seconds(lambda mole=mole: our_run(mole), clock_of)
        if not (theirs[1][2] and ours[1][2]) or abs(theirs[1][0] - ours[1][0]) > ENERGY_TOLERANCE:
            raise SystemExit(f"{molecule} {xc}: PySCF {theirs[1]}, dftfd {ours[1]}: not the same converged energy")
        times.append((theirs[0], ours[0]))
        differences.append(ours[1][0] - theirs[1][0])
        cycles.append((theirs[1][1], ours[1][1]))
        stages.append(ours[1][3])
    row = {"molecule": molecule, "basis": basis, "xc": xc, "charge": charge, "density_fit": density_fit}
    return row | {
        "ao": reference.nao,
        "clock": clock,
        **measuring.ratio_of(times),
        "first_run_seconds": round(first, 3),
        "energy_error": float(np.max(np.abs(differences))),
        "cycles": [list(map(int, c)) for c in cycles],
        "stages": {k: round(float(np.median([s.get(k, 0.0) for s in stages])), 3) for k in stages[0]},
        "peak_memory_gigabytes": measuring.peak_gigabytes(),
    }


def report(row):
    """One line per case."""
    name = f"{row['molecule']}{'+' * row['charge']} {row['basis']} {row['xc']}{'' if row['density_fit'] else ' exact'}"
    low, high = row["ratio_range"]
    stages = ", ".join(f"{k} {v:.2f}" for k, v in row["stages"].items())
    return (
        f"{name:30s} PySCF {row['pyscf_seconds']:7.2f} s, dftfd {row['dftfd_seconds']:7.2f} s, "
        f"ratio {row['ratio']:5.2f} ({low} to {high}), dE {row['energy_error']:.0e}, "
        f"first run {row['first_run_seconds']:.1f} s, peak {row['peak_memory_gigabytes']:.1f} GB\n"
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
    parser.add_argument("--suite", choices=SUITES, help="the cases of the table")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/scf.json")
    options = parser.parse_args()
    if options.clock == "cpu" and os.environ["OMP_NUM_THREADS"] != "1":
        parser.error("CPU seconds of idling threads mean nothing; set OMP_NUM_THREADS=1 for --clock cpu.")
    single = {"molecule": options.molecule, "basis": options.basis, "xc": options.xc, "charge": options.charge}
    single["density_fit"] = not options.exact
    for case in SUITES[options.suite] if options.suite else (single,):
        row = measure(**{"pairs": options.pairs, "clock": options.clock} | case)
        print(report(row), flush=True)
        if options.save:
            measuring.keep("scf", [measuring.machine() | row])


if __name__ == "__main__":
    main()
