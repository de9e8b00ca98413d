"""Time of a whole SCF against pyscfad, PySCF on JAX, which needs an environment of its own (pip install pyscfad).

    python examples/benchmarks/against_pyscfad.py /path/to/that/environment/bin/python --save

Every calculation has a process of its own. dftfd keeps its compiled programs; pyscfad is told by JAX's own settings to
keep all of its own. The first pair, in which everything is compiled, is told apart. Integrals are exact, since pyscfad
fits in another basis; energies must agree to 1e-6 hartree.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import measuring
from molecules import geometry

import dftfd
from dftfd.runtime.progress import Progress

TOLERANCE = 1e-6  # hartree
KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
}

CODE = """
import json, sys, time
import jax
jax.config.update("jax_enable_x64", True)
from pyscfad import dft, gto
order = json.loads(sys.stdin.read())
mole = gto.Mole(atom=order["atoms"], basis=order["basis"], unit="Bohr", verbose=0)
mole.build(trace_exp=False, trace_ctr_coeff=False)
start = time.perf_counter()
solver = dft.RKS(mole, xc=order["xc"])
solver.conv_tol = 1e-9
energy = float(solver.kernel())
print(json.dumps({"energy": energy, "converged": bool(solver.converged), "seconds": time.perf_counter() - start}))
"""


def pyscfad_alone(python, case, pair, programs):
    """Energy, whether it converged, and seconds, in a new process of that interpreter."""
    mole = geometry(case["molecule"], case["basis"], case["charge"], pair)
    places = zip(mole.elements, mole.atom_coords().tolist(), strict=True)
    order = {"atoms": [list(place) for place in places], "basis": case["basis"], "xc": case["xc"]}
    answer = subprocess.run(
        [python, "-c", CODE],
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env=os.environ | KEEP_ALL | {"JAX_COMPILATION_CACHE_DIR": programs},
    )
    return json.loads(answer.stdout.splitlines()[-1])


def dftfd_alone(case, pair):
    """The same of dftfd."""
    command = [sys.executable, __file__, "-", "--one", json.dumps({"case": case, "pair": pair})]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def one(case, pair):
    """What `dftfd_alone` tells, in this process."""
    mole = dftfd.molecule(geometry(case["molecule"], case["basis"], case["charge"], pair))
    options = {"xc": case["xc"], "density_fit": case["density_fit"], "progress": Progress()}
    seconds, found = measuring.seconds(lambda: dftfd.run_scf(mole, **options))
    return {"energy": float(found.energy), "converged": bool(found.converged), "seconds": seconds}


def measure(python, molecule, xc="pbe", pairs=3):
    """One row of results."""
    case = {"molecule": molecule, "basis": "def2-svp", "xc": xc, "charge": 0, "density_fit": False}
    runs = []
    with tempfile.TemporaryDirectory() as programs:
        for pair in range(pairs + 1):
            theirs, ours = pyscfad_alone(python, case, pair, programs), dftfd_alone(case, pair)
            converged = theirs["converged"] and ours["converged"]
            if not converged or abs(theirs["energy"] - ours["energy"]) > TOLERANCE:
                raise SystemExit(f"{molecule} {xc}: pyscfad {theirs}, dftfd {ours}: not the same converged energy")
            runs.append((theirs["seconds"], ours["seconds"]))
    row = measuring.ratio_of(runs[1:])
    return case | {key.replace("pyscf", "pyscfad"): value for key, value in row.items()} | {"first_pair": runs[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", help="interpreter of an environment with pyscfad")
    parser.add_argument("--molecules", nargs="+", default=("water", "benzene"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/pyscfad.json")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(**options.one)))
        return
    command = [options.python, "-c", "from importlib.metadata import version; print(version('pyscfad'))"]
    version = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    for molecule in options.molecules:
        row = measure(options.python, molecule, pairs=options.pairs) | {"pyscfad": version}
        print(
            f"{molecule:10s} pyscfad {row['pyscfad_seconds']:7.2f} s, dftfd {row['dftfd_seconds']:6.2f} s, "
            f"ratio {row['ratio']} {row['ratio_range']}",
            flush=True,
        )
        if options.save:
            measuring.keep("pyscfad", [measuring.machine() | row])


if __name__ == "__main__":
    main()
