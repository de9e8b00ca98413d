"""Time of one exchange-correlation build (energy and matrix) against PySCF's numint, on the same grid and density.

    python examples/benchmarks/xc_build.py                       caffeine, PBE, def2-SVP
    python examples/benchmarks/xc_build.py --suite --save        all cases, appended to data/benchmarks/xc_build.json
    python examples/benchmarks/xc_build.py --molecule water --basis def2-tzvp --xc b3lyp
    OMP_NUM_THREADS=1 python examples/benchmarks/xc_build.py --clock cpu       one thread, for a busy machine

Grids, made new each time, and the first evaluation of the orbitals are timed beside it, three times.

PySCF gets its screening table (`with_non0tab=True`) and its orbitals, as in one of its own SCF runs. Builds alternate,
the ratio is the median over pairs. Energy and matrix are compared first, so a fast wrong answer stops the benchmark.
"""

import argparse
from functools import partial

import measuring
import numpy as np
from measuring import CLOCKS, machine, ratio_of, seconds
from molecules import NAMES, atoms
from pyscf import dft, gto, lib

from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder

SUITE = (
    {"molecule": "water", "basis": "def2-svp", "xc": "pbe"},
    {"molecule": "benzene", "basis": "def2-svp", "xc": "pbe"},
    {"molecule": "benzene", "basis": "def2-tzvp", "xc": "pbe"},
    {"molecule": "benzene_cation", "basis": "def2-svp", "xc": "pbe", "charge": 1},
    {"molecule": "caffeine", "basis": "def2-svp", "xc": "lda,vwn"},
    {"molecule": "caffeine", "basis": "def2-svp", "xc": "pbe"},
    {"molecule": "caffeine", "basis": "def2-svp", "xc": "b3lyp"},
    {"molecule": "caffeine", "basis": "def2-svp", "xc": "r2scan"},
)
ENERGY_TOLERANCE, MATRIX_TOLERANCE = 1e-8, 1e-7  # hartree


def coarse_density(mole, unrestricted: bool):
    """A density near convergence with its orbitals: four PBE cycles, density fitting, level-1 grid."""
    calculation = (dft.UKS if unrestricted else dft.RKS)(mole, xc="pbe").density_fit()
    calculation.grids.level, calculation.max_cycle, calculation.conv_tol = 1, 4, 1e-4
    calculation.kernel()
    C, occupation = np.atleast_3d(np.array(calculation.mo_coeff)), np.atleast_2d(calculation.mo_occ)
    C = C.reshape(len(occupation), mole.nao, -1)
    C_occ = [C_s[:, n_s > 0] * np.sqrt(n_s[n_s > 0]) for C_s, n_s in zip(C, occupation, strict=True)]
    P = np.stack([C_s @ C_s.T for C_s in C_occ])
    tagged = lib.tag_array(P if unrestricted else P[0], mo_coeff=calculation.mo_coeff, mo_occ=calculation.mo_occ)
    return P, C_occ, tagged


def grid_times(mole, grids, clock):
    """Median seconds of (PySCF's grid, dftfd's without compilation); PySCF's stays in `grids`."""
    ours = partial(molecular_grid, mole.atom_charges(), mole.atom_coords(), grids.level)
    np.asarray(ours().weights)
    times = [
        (
            seconds(lambda: grids.build(with_non0tab=True), clock)[0],
            seconds(lambda: np.asarray(ours().weights), clock)[0],
        )
        for _ in range(3)
    ]
    return np.median(times, axis=0)


def measure(molecule, basis, xc, charge=0, level=3, pairs=5, clock="wall"):
    """One row of results."""
    mole = gto.M(atom=atoms(molecule), basis=basis, charge=charge, spin=charge % 2, verbose=0)
    unrestricted = mole.spin > 0
    grids = dft.gen_grid.Grids(mole)
    grids.level = level
    grid_seconds = grid_times(mole, grids, CLOCKS[clock])
    P, C_occ, tagged = coarse_density(mole, unrestricted)
    timed = partial(seconds, clock=CLOCKS[clock])
    numint = dft.numint.NumInt()
    numint_build = numint.nr_uks if unrestricted else numint.nr_rks

    def pyscf_build():
        return numint_build(mole, grids, xc, tagged, max_memory=mole.max_memory)

    def pyscf_ao_pass():
        for _ in numint.block_loop(mole, grids, mole.nao, int(kernel.order > 0), max_memory=mole.max_memory):
            pass

    kernel = XCKernel(get_functional(xc), len(P))
    order = max(kernel.order, int(kernel.needs_tau))
    ao_seconds, store_seconds = [], []
    store = None
    for _ in range(3):
        ao_seconds.append(timed(pyscf_ao_pass)[0])
        del store
        elapsed, store = timed(lambda: AOStore(mole, grids.coords, grids.weights, order))
        store_seconds.append(elapsed)
    builder = XCBuilder(kernel, store)
    first_seconds, ours = timed(lambda: builder.build(P, C_occ))
    n_electrons, energy, matrix = pyscf_build()
    energy_error = float(ours.energy - energy)
    matrix_error = float(np.abs(ours.matrix - np.reshape(matrix, P.shape)).max())
    if abs(energy_error) > ENERGY_TOLERANCE or matrix_error > MATRIX_TOLERANCE:
        raise SystemExit(
            f"{molecule} {xc}: wrong result, energy off by {energy_error:.1e}, matrix by {matrix_error:.1e}"
        )
    times = [(timed(pyscf_build)[0], timed(lambda: builder.build(P, C_occ))[0]) for _ in range(pairs)]
    return {
        "molecule": molecule,
        "basis": basis,
        "xc": xc,
        "charge": charge,
        "spins": len(P),
        "ao": mole.nao,
        "points": len(grids.weights),
        "grid_level": level,
        "ao_per_block": round(float(np.mean([len(block.aos) for block in store.blocks])), 1),
        "block_size": store.block_size,
        "cutoff": store.cutoff,
        "clock": clock,
        **ratio_of(times),
        "first_build_seconds": round(first_seconds, 4),
        "energy_error": energy_error,
        "matrix_error": matrix_error,
        "electrons_error": float(np.abs(ours.n_electrons - n_electrons).max()),
        "pyscf_grid_seconds": round(float(grid_seconds[0]), 4),
        "dftfd_grid_seconds": round(float(grid_seconds[1]), 4),
        "pyscf_ao_pass_seconds": round(float(np.median(ao_seconds)), 4),
        "store_seconds": round(float(np.median(store_seconds)), 4),
        "store_gigabytes": round(store.nbytes / 1e9, 3),
        "peak_memory_gigabytes": measuring.peak_gigabytes(),
    }


def report(row):
    """One line per case."""
    name = f"{row['molecule']}{'+' * row['charge']} {row['basis']} {row['xc']}"
    low, high = row["ratio_range"]
    return (
        f"{name:26s} {row['ao']:4d} AOs {row['points']:7d} points | build: PySCF {row['pyscf_seconds']:7.3f} s, "
        f"dftfd {row['dftfd_seconds']:7.3f} s, ratio {row['ratio']:5.2f} ({low} to {high}) | "
        f"dE {row['energy_error']:8.1e}, dV {row['matrix_error']:7.1e} | "
        f"grid: PySCF {row['pyscf_grid_seconds']:.3f} s, dftfd {row['dftfd_grid_seconds']:.3f} s | orbitals: PySCF "
        f"{row['pyscf_ao_pass_seconds']:.3f} s, dftfd {row['store_seconds']:.3f} s, {row['store_gigabytes']:.2f} GB | "
        f"peak {row['peak_memory_gigabytes']:.1f} GB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--charge", type=int, default=0)
    parser.add_argument("--level", type=int, default=3, help="grid level")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs of builds")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: CPU seconds, needs OMP_NUM_THREADS=1")
    parser.add_argument("--suite", action="store_true", help="all cases of the table")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/xc_build.json")
    options = parser.parse_args()
    measuring.require_one_thread_for(options.clock)
    single = {"molecule": options.molecule, "basis": options.basis, "xc": options.xc, "charge": options.charge}
    for case in SUITE if options.suite else (single,):
        row = measure(**case, level=options.level, pairs=options.pairs, clock=options.clock)
        print(report(row), flush=True)
        if options.save:
            measuring.keep("xc_build", [machine() | row])


if __name__ == "__main__":
    main()
