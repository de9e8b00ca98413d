"""Time of a geometry optimisation: dftfd, PySCF with geomeTRIC, Psi4 with its own optimiser.

    python examples/benchmarks/optimization.py                           caffeine, PBE, def2-SVP, density fitting, dftfd
    python examples/benchmarks/optimization.py --codes dftfd pyscf psi4 --max-steps 3
    python examples/benchmarks/optimization.py --codes psi4 --save

Each code runs in a process of its own, with as many threads as OMP_NUM_THREADS says, 2 by default, from the geometry of
molecules.py to its own default convergence: geomeTRIC's, which are Gaussian's, and the same in Psi4. Where the minimum
is not reached in `--max-steps`, seconds per energy and gradient are what can be compared. Grids: level 3, in Psi4 75 x
170 points unpruned, about as many. Fitting: def2-universal-jfit, in Psi4 its def2-universal-jkfit. PySCF's forces leave
out the response of its grid, its default. Psi4 comes from the distribution (`apt-get install psi4 libopenblas0-openmp`;
with the reference BLAS it is four times slower).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
from molecules import atoms
from other_programs import environment, environment_of_psi4
from pyscf import gto

PSI4 = """
memory 8 GB
molecule {{
{geometry}
symmetry c1
}}
set {{
  basis {basis}
  scf_type df
  g_convergence gau
  geom_maxiter {max_steps}
  dft_radial_points 75
  dft_spherical_points 170
}}
set_num_threads({threads})
optimize('{xc}')
"""


def with_dftfd(mole, xc, max_steps):
    """(converged, energies along the path)"""
    import dftfd

    found = dftfd.optimize(dftfd.molecule(mole), xc, max_steps=max_steps)
    return found.converged, found.energies.tolist()


def with_pyscf(mole, xc, max_steps):
    """As `with_dftfd`."""
    from pyscf import dft
    from pyscf.geomopt import geometric_solver

    solver = dft.RKS(mole, xc=xc).density_fit()
    solver.grids.level = 3
    energies = []
    converged, _ = geometric_solver.kernel(
        solver, maxsteps=max_steps, callback=lambda local: energies.append(float(local["energy"]))
    )
    return bool(converged), energies


def with_psi4(mole, xc, max_steps):
    """As `with_dftfd`."""
    lines = [
        f"{mole.atom_symbol(k)} {' '.join(f'{x:.10f}' for x in xyz)}"
        for k, xyz in enumerate(mole.atom_coords(unit="ang"))
    ]
    text = PSI4.format(
        geometry="\n".join(lines),
        basis=mole.basis,
        xc=xc,
        max_steps=max_steps,
        threads=os.environ["OMP_NUM_THREADS"],
    )
    with tempfile.TemporaryDirectory() as folder:
        given, output = Path(folder) / "input.dat", Path(folder) / "output.dat"
        given.write_text(text)
        command = [shutil.which("psi4"), "-i", given, "-o", output]
        subprocess.run(command, cwd=folder, capture_output=True, env=environment_of_psi4())
        report = output.read_text()
    energies = [float(words) for words in re.findall(r"^ *Total Energy = +(-\d+\.\d+)", report, re.M)]
    return "Optimization is complete" in report or "Final optimized geometry" in report, energies


CODES = {"dftfd": with_dftfd, "pyscf": with_pyscf, "psi4": with_psi4}


def measure(code, molecule, xc, basis, max_steps):
    """One row of results, of this process."""
    mole = gto.M(atom=atoms(molecule), basis=basis, verbose=0)
    wall, before = time.perf_counter(), os.times()
    converged, energies = CODES[code](mole, xc, max_steps)
    wall, after = time.perf_counter() - wall, os.times()
    processor = sum(after[:4]) - sum(before[:4])
    return {
        "code": code,
        "molecule": molecule,
        "basis": basis,
        "xc": xc,
        "converged": converged,
        "gradients": len(energies),
        "wall_seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
        "wall_seconds_per_gradient": round(wall / max(1, len(energies)), 2),
        "first_energy": energies[0] if energies else None,
        "last_energy": energies[-1] if energies else None,
        "peak_gigabytes": measuring.peak_gigabytes(),
        "machine": measuring.machine(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--codes", nargs="+", choices=CODES, default=["dftfd"])
    parser.add_argument("--molecule", default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--max-steps", type=int, default=60)
    parser.add_argument("--save", action="store_true", help="keep the results in data/benchmarks/optimization.json")
    parser.add_argument(
        "--here", action="store_true", help=argparse.SUPPRESS
    )  # a process that was started for one code
    given = parser.parse_args()
    case = given.molecule, given.xc, given.basis, given.max_steps
    if given.here:
        print("ROW " + json.dumps(measure(given.codes[0], *case)))
        return
    for code in given.codes:
        if code == "psi4" and shutil.which("psi4") is None:
            print("psi4 is not on the path: left out")
            continue
        names = "molecule", "xc", "basis", "max-steps"
        options = [f"--{name}={value}" for name, value in zip(names, case, strict=True)]
        command = [sys.executable, __file__, "--here", "--codes", code, *options]
        of_code = {"env": environment()} if code == "pyscf" else {}
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **of_code).stdout
        row = json.loads(next(line for line in printed.splitlines() if line.startswith("ROW "))[4:])
        print({name: value for name, value in row.items() if name != "machine"}, flush=True)
        if given.save:
            measuring.keep("optimization", [row])


if __name__ == "__main__":
    main()
