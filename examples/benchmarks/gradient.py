"""Time of the forces of a converged calculation against PySCF's with the grid's response.

    python examples/benchmarks/gradient.py                          caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/gradient.py --suite caffeine --save  PBE, r2SCAN and B3LYP
    python examples/benchmarks/gradient.py --molecule water --basis sto-3g --exact
    python examples/benchmarks/gradient.py --xc b3lyp --densities FOLDER    the density from an earlier call, or kept
    python examples/benchmarks/gradient.py --suite caffeine --own           beside the calculation's own SCF, no PySCF

Both codes differentiate the same density, ours, on the same grid, in turns; neither keeps anything from one gradient to
the next but compiled code and what the SCF left, such as the grid. Processor time is recorded beside wall time, which
others on the machine lengthen. Gradients must agree to 1e-6 hartree/bohr, which is
what the convergence of the density leaves open: orbital energies enter one, the Fock matrix the other.
"""

import argparse
import gc
import time
from dataclasses import replace
from pathlib import Path

import measuring
import numpy as np
from molecules import NAMES, atoms, geometry
from pyscf import dft, gto

import dftfd
from dftfd.model.forces import nuclear_forces
from dftfd.runtime.progress import Progress
from dftfd.scf.orbitals import occupied_orbitals

TOLERANCE = 1e-6  # hartree/bohr
SUITES = {
    "caffeine": ({"xc": "pbe"}, {"xc": "r2scan"}, {"xc": "b3lyp"}),
    "water": ({"molecule": "water", "xc": "pbe", "basis": "sto-3g", "density_fit": False, "pairs": 9},),
}


def timed(call):
    """((wall, processor) seconds, result)"""
    gc.collect()
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return (time.perf_counter() - wall, time.process_time() - processor), result


def density(mole, xc, density_fit, grid_level, path=None):
    """A tightly converged result with its Fock matrix, kept in a file where a path is given."""
    if path is None or not path.exists():
        options = {"density_fit": density_fit, "grid_level": grid_level, "progress": Progress()}
        result = dftfd.run_scf(dftfd.molecule(mole), xc=xc, conv_tol=1e-13, **options)
        if path is not None:
            result.save(path)
        return result
    result = dftfd.load_result(path)
    C_occ = occupied_orbitals(result.mo_coeff, result.mo_occ)
    state = result.calculation.build(Progress()).energy.evaluate(result.density_matrix, C_occ)
    return replace(result, fock=state.F)


def measure(molecule, xc, basis, density_fit, grid_level, pairs, densities=None):
    """What was measured beside PySCF."""
    mole = gto.M(atom=atoms(molecule), basis=basis, verbose=0)
    name = f"{molecule}_{xc}_{basis}_{'fitted' if density_fit else 'exact'}_{grid_level}.h5"
    result = density(mole, xc, density_fit, grid_level, densities and Path(densities) / name)
    solver = dft.RKS(mole, xc=xc)
    solver = solver.density_fit() if density_fit else solver
    solver.mo_coeff, solver.mo_occ, solver.mo_energy = result.mo_coeff[0], result.mo_occ[0], result.mo_energy[0]
    solver.grids.level, solver.converged, solver.e_tot = grid_level, True, result.energy
    solver.grids.build()

    def theirs():
        gradient = solver.nuc_grad_method()
        gradient.grid_response = True
        return gradient.kernel()

    stages = []

    def ours():
        progress = Progress()
        forces = nuclear_forces(result, progress=progress).values
        stages.append(dict(progress.seconds))
        return -forces

    (first, _), _ = timed(ours)  # compiles the kernel's slopes
    rows, deviations = [], []
    for _ in range(pairs):
        (reference_times, reference), (our_times, found) = timed(theirs), timed(ours)
        deviations.append(float(np.abs(found - reference).max()))
        if deviations[-1] > TOLERANCE:
            raise SystemExit(f"{molecule} {xc}: gradients differ by {deviations[-1]:.1e} hartree/bohr")
        rows.append((reference_times, our_times))
    wall, processor = ([(theirs[k], ours[k]) for theirs, ours in rows] for k in range(2))
    return {
        "wall": measuring.ratio_of(wall),
        "processor": measuring.ratio_of(processor),
        "first_gradient_seconds": round(first, 3),
        "stages": {name: round(float(np.median([s[name] for s in stages[1:]])), 4) for name in stages[0]},
        "largest_deviation": max(deviations),
        "machine": measuring.machine(),
    }


def measure_own(molecule, xc, basis, density_fit, grid_level, pairs, densities=None):
    """SCF and gradient on displaced geometries, after a first one that compiles; no density is kept."""
    rows, stages = [], []
    for pair in range(pairs + 1):
        mole, progress = geometry(molecule, basis, pair=pair), Progress()
        options = {"density_fit": density_fit, "grid_level": grid_level}
        scf_times, result = timed(lambda m=mole, o=options: dftfd.run_scf(dftfd.molecule(m), xc=xc, **o))
        gradient_times, _ = timed(lambda r=result, p=progress: nuclear_forces(r, progress=p))
        rows.append((gradient_times, scf_times))
        stages.append(dict(progress.seconds))
    names = {"pyscf_seconds": "gradient_seconds", "dftfd_seconds": "scf_seconds"}

    def ratio(clock):
        found = measuring.ratio_of([(gradient[clock], scf[clock]) for gradient, scf in rows[1:]])
        return {names.get(name, name): value for name, value in found.items()}

    return {
        "what": "gradient over its own SCF",
        "wall": ratio(0),
        "processor": ratio(1),
        "stages": {name: round(float(np.median([s[name] for s in stages[1:]])), 4) for name in stages[0]},
        "machine": measuring.machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--exact", action="store_true", help="exact integrals instead of density fitting")
    parser.add_argument("--grid-level", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--densities", metavar="FOLDER", help="where converged densities are kept")
    parser.add_argument("--own", action="store_true", help="beside the calculation's own SCF in place of PySCF")
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/gradient.json")
    given = parser.parse_args()
    common = {"grid_level": given.grid_level, "pairs": given.pairs, "densities": given.densities}
    one = {"molecule": given.molecule, "xc": given.xc, "basis": given.basis, "density_fit": not given.exact}
    for case in SUITES[given.suite] if given.suite else (one,):
        full = one | common | case
        told = {name: full[name] for name in ("molecule", "basis", "xc", "density_fit", "grid_level")}
        row = told | (measure_own if given.own else measure)(**full)
        print({key: value for key, value in row.items() if key != "machine"}, flush=True)
        if given.save:
            measuring.keep("gradient", [row])


if __name__ == "__main__":
    main()
