"""Peak memory and time of an SCF within limits, and what was estimated before it began.

    python examples/benchmarks/memory.py                                  caffeine, PBE, def2-SVP: no limit, 1 GB
    python examples/benchmarks/memory.py --molecule c60 --limits none "8 GB" --save

Each limit in a process of its own. The estimate is what the process has when the SCF begins, and the line `memory:
about` of what it will add, less what is computed anew. Energies must agree to 1e-8 hartree.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import measuring
from molecules import NAMES, atoms
from pyscf import gto

import dftfd
from dftfd.runtime.memory import process_memory
from dftfd.runtime.progress import Progress

TOLERANCE = 1e-8  # hartree
UNITS = {"GiB": 2**30, "MiB": 2**20}


class Estimate(Progress):
    """Keeps the estimate in bytes: (about, room)."""

    def __init__(self):
        super().__init__()
        self.found, self.before = None, process_memory()

    def note(self, text):
        if text.startswith("memory: about") and self.found is None:
            words = text.replace(";", "").split()
            about, of = (float(words[k]) * UNITS[words[k + 1]] for k in (2, words.index("of") + 1))
            self.found = self.before + about, self.before + of


def measure(molecule, xc, basis, limit):
    """One row of results, of this process."""
    progress = Estimate()
    given = {} if limit == "none" else {"max_memory": limit}
    start = dftfd.molecule(gto.M(atom=atoms(molecule), basis=basis, verbose=0))
    wall, processor = time.perf_counter(), time.process_time()
    result = dftfd.run_scf(start, xc=xc, progress=progress, **given)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    about, room = progress.found
    return {
        "molecule": molecule,
        "basis": basis,
        "xc": xc,
        "limit": limit,
        "energy": result.energy,
        "cycles": result.cycles,
        "wall_seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
        "estimated_gigabytes": round(min(about, room) / 1e9, 2),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "machine": measuring.machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--limits", nargs="+", default=["none", "1 GB"])
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/memory.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in a process for one limit
    given = parser.parse_args()
    if given.here:
        print("ROW " + json.dumps(measure(given.molecule, given.xc, given.basis, given.limits[0])))
        return
    energies = []
    for limit in given.limits:
        options = ["--molecule", given.molecule, "--xc", given.xc, "--basis", given.basis, "--limits", limit]
        command = [sys.executable, __file__, "--here", *options]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        row = json.loads(next(line for line in printed.splitlines() if line.startswith("ROW "))[4:])
        energies.append(row["energy"])
        if max(energies) - min(energies) > TOLERANCE:
            raise SystemExit(f"energies differ: {energies}")
        print({name: value for name, value in row.items() if name != "machine"}, flush=True)
        if given.save:
            measuring.keep("memory", [row])


if __name__ == "__main__":
    main()
