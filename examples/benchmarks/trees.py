"""SCF, forces, exchange-correlation matrices and kernels of two source trees in turns: what a change gains or costs.

    python examples/benchmarks/trees.py ../before                           caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/trees.py ../before --xc b3lyp --pairs 5 --save
    python examples/benchmarks/trees.py ../before --cold                    a new process with nothing compiled

A tree is a folder with a `dftfd` package; each has a long-lived process of its own, with the Python that is given for
it (`--python`, by default the one in its .venv where there is one). A round is, in one tree and then in the other, an
SCF from the guess on a geometry displaced by 1e-3 bohr, its forces, five exchange-correlation matrices, and five
calls of the functional's kernel at a million points (first derivatives); a first round, which compiles, is not
counted. Forces of a tightly converged density must agree to 1e-7 hartree/bohr.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
import numpy as np
from cold_start import CODE, ENERGY_TOLERANCE

WORKER = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import measuring, numpy as np
from molecules import atoms
from pyscf import gto
import dftfd
from dftfd.grids.molecular import molecular_grid
from dftfd.interop import libxc
from dftfd.model.forces import nuclear_forces
from dftfd.runtime.progress import Progress
from dftfd.scf.orbitals import occupied_orbitals
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder
from dftfd.xc.pointwise import pointwise_kernel
name, xc, basis = sys.argv[2:5]
functional = dftfd.get_functional(xc)
semilocal, random = functional.semilocal_part, np.random.default_rng(0)
n = 10.0 ** random.uniform(-4, 1, 1_000_000)
points = {"rho": n, "sigma": random.uniform(0, 4, n.size) * n ** (8 / 3)}
points["tau"] = random.uniform(1, 4, n.size) * n ** (5 / 3)
points = {k: points[k] for k in pointwise_kernel(semilocal, 1).ingredients}
start = dftfd.molecule(gto.M(atom=atoms(name), basis=basis, verbose=0))
def timed(call):
    wall, processor = time.perf_counter(), time.process_time()
    progress = Progress()
    result = call(progress)
    seconds = {k: round(v, 4) for k, v in progress.seconds.items()}
    return result, [time.perf_counter() - wall, time.process_time() - processor, seconds]
for line in sys.stdin:
    command, seed = line.split()
    shift = 1e-3 * np.random.default_rng(int(seed)).normal(size=start.coordinates.shape)
    tight = {"conv_tol": 1e-12} if command == "check" else {}
    molecule = start.at(start.coordinates + shift)
    result, scf = timed(lambda progress: dftfd.run_scf(molecule, xc=xc, progress=progress, **tight))
    forces, gradient = timed(lambda progress: nuclear_forces(result, progress=progress).values)
    grid = molecular_grid(start.atomic_numbers, molecule.coordinates, 3)
    occupied = occupied_orbitals(result.mo_coeff, result.mo_occ)
    kernel = XCKernel(functional, len(occupied))
    order = max(kernel.order, int(kernel.needs_tau))
    builder = XCBuilder(kernel, AOStore(molecule, np.asarray(grid.points), np.asarray(grid.weights), order))
    P = np.stack([c @ c.T for c in occupied])
    builder.build(P, occupied)
    matrix = timed(lambda progress: [builder.build(P, occupied) for _ in range(5)])[1]
    values = timed(lambda progress: [libxc.evaluate(semilocal, **points) for _ in range(5)])[1]
    answer = {"scf": scf, "gradient": gradient, "xc matrix": matrix, "kernel": values}
    answer |= {"energy": result.energy, "forces": forces.tolist()}
    print("ANSWER " + json.dumps(answer | {"machine": measuring.machine()}), flush=True)
"""
TOLERANCE = 1e-7  # hartree/bohr
KINDS = "scf", "gradient", "xc matrix", "kernel"


def python_of(folder: Path, python):
    own = folder / ".venv/bin/python"
    return python or (own if own.exists() else sys.executable)


class Tree:
    """A process that answers commands with the code of one tree."""

    def __init__(self, folder, python, case):
        folder, here = Path(folder).resolve(), Path(__file__).parent
        command = [python_of(folder, python), "-c", WORKER, here, *case]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(list(map(str, command)), cwd=folder, **pipes)

    def __call__(self, command, seed=0) -> dict:
        self._process.stdin.write(f"{command} {seed}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                return json.loads(line.removeprefix("ANSWER "))
        raise SystemExit(f"a worker ended: {self._process.args[-3:]}")

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def middle(values):
    """[median, least, largest]"""
    values = sorted(values)
    return [round(values[k], 3) for k in (len(values) // 2, 0, -1)]


def measure(before, python, molecule, xc, basis, pairs, check):
    """One row of results."""
    trees = [Tree(folder, python, (molecule, xc, basis)) for folder in (before, Path(__file__).parents[2])]
    first = [tree("check" if check else "round") for tree in trees]
    deviation = float(np.abs(np.subtract(*(answer["forces"] for answer in first))).max())
    if check and deviation > TOLERANCE:
        raise SystemExit(f"{molecule} {xc}: forces differ by {deviation:.1e} hartree/bohr")
    rounds = [[tree("round", seed) for tree in trees] for seed in range(1, pairs + 1)]
    for tree in trees:
        tree.end()
    row = {"molecule": molecule, "basis": basis, "xc": xc, "pairs": pairs}
    row |= {"largest_deviation": deviation} if check else {}
    for clock, k in (("wall", 0), ("processor", 1)):
        old, new = ([{kind: r[tree][kind][k] for kind in KINDS} for r in rounds] for tree in (0, 1))
        row[clock] = {
            "before": {kind: middle([r[kind] for r in old]) for kind in KINDS},
            "after": {kind: middle([r[kind] for r in new]) for kind in KINDS},
            **{
                f"{kind}_before_over_after": middle([a[kind] / b[kind] for a, b in zip(old, new, strict=True)])
                for kind in KINDS
            },
            "gradient_over_scf_before": middle([r["gradient"] / r["scf"] for r in old]),
            "gradient_over_scf": middle([r["gradient"] / r["scf"] for r in new]),
        }
    stages = rounds[len(rounds) // 2][1]["gradient"][2]
    return row | {"stages_of_gradient": stages, "machine": rounds[-1][1]["machine"]}


def cold(before, python, pairs):
    """Seconds from the start of a process to the energy of water, with nothing compiled."""
    trees = [Path(folder).resolve() for folder in (before, Path(__file__).parents[2])]
    times, energies = [], []
    for _ in range(pairs):
        pair = []
        for folder in trees:
            with tempfile.TemporaryDirectory() as cache:
                start, environment = time.perf_counter(), os.environ | {"DFTFD_CACHE_DIR": cache}
                command = [python_of(folder, python), "-c", CODE["dftfd"]]
                done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
                pair.append(time.perf_counter() - start)
                energies.append(float(done.stdout))
        times.append(pair)
    if np.ptp(energies) > ENERGY_TOLERANCE:
        raise SystemExit(f"not the same energy: {energies}")
    old, new = zip(*times, strict=True)
    ratios = middle([a / b for a, b in times])
    return {"cold start": {"before": middle(old), "after": middle(new), "before_over_after": ratios}, "pairs": pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", help="the other source tree")
    parser.add_argument("--python", help="of both trees")
    parser.add_argument("--molecule", default="caffeine")
    parser.add_argument("--xc", nargs="+", default=["pbe"])
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="water in a new process with nothing compiled")
    parser.add_argument("--no-check", dest="check", action="store_false", help="without comparing forces")
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/trees.json")
    given = parser.parse_args()
    for xc in [None] if given.cold else given.xc:
        if given.cold:
            row = cold(given.before, given.python, given.pairs) | {"machine": measuring.machine()}
        else:
            row = measure(given.before, given.python, given.molecule, xc, given.basis, given.pairs, given.check)
        print(json.dumps(row, indent=1), flush=True)
        if given.save:
            measuring.keep("trees", [row])


if __name__ == "__main__":
    main()
