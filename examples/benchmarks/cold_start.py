"""A cold start: a new process from `import` to the energy of water, PBE/def2-SVP, density fitting, against PySCF.

    python examples/benchmarks/cold_start.py --save        5 pairs

Processes alternate. Ours is measured with the programs that earlier runs compiled, as on the second day of use, and
with an empty cache, as on the first. Import alone is measured as well.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import measuring
import numpy as np

GEOMETRY = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
CODE = {
    "pyscf import": "import pyscf.dft",
    "dftfd import": "import dftfd",
    "pyscf": "from pyscf import dft, gto\n"
    f"mf = dft.RKS(gto.M(atom='{GEOMETRY}', basis='def2-svp', verbose=0), xc='pbe').density_fit()\n"
    "print(repr(float(mf.kernel())))",
    "dftfd": f"import dftfd\nprint(repr(dftfd.run_scf(dftfd.molecule('{GEOMETRY}', basis='def2-svp'), 'pbe').energy))",
}
ENERGY_TOLERANCE = 1e-8  # hartree


def process(code, **environment):
    """(seconds, output) of a new process."""
    return measuring.seconds(
        lambda: (
            subprocess.run(
                [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
            ).stdout
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/cold_start.json")
    options = parser.parse_args()
    times = {name: [] for name in (*CODE, "dftfd, nothing compiled")}
    process(CODE["dftfd"])
    for _ in range(options.pairs):
        energies = {}
        for name, code in CODE.items():
            seconds, energies[name] = process(code)
            times[name].append(seconds)
        with tempfile.TemporaryDirectory() as folder:
            times["dftfd, nothing compiled"].append(process(CODE["dftfd"], DFTFD_CACHE_DIR=folder)[0])
        if abs(float(energies["dftfd"]) - float(energies["pyscf"])) > ENERGY_TOLERANCE:
            raise SystemExit(f"not the same energy: {energies}")
    medians = {name: round(float(np.median(values)), 2) for name, values in times.items()}
    ranges = {name: [round(min(values), 2), round(max(values), 2)] for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:24s} {median:6.2f} s ({ranges[name][0]} to {ranges[name][1]})")
    print(f"longer than PySCF's by {medians['dftfd'] - medians['pyscf']:.2f} s")
    if options.save:
        row = {"pairs": options.pairs, "seconds": medians, "ranges": ranges}
        measuring.keep("cold_start", [measuring.machine() | row])


if __name__ == "__main__":
    main()
