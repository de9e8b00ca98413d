"""What the fault scripts share: a small molecule, its right energy, processes that run it, and a place for figures.

Every script prints its figures as JSON, `--runs N` changes how many faults there are, `--save` keeps the figures in
data/reliability/.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import jax
import numpy as np
import pyscf

import dftfd

RESULTS = Path(__file__).parents[2] / "data" / "reliability"
GEOMETRY = "H 0 0 0; F 0 0 0.95"
OPTIONS = {"xc": "lda,vwn", "grid_level": 1, "conv_tol": 1e-10}
TOLERANCE = 1e-10  # hartree


def molecule():
    """Hydrogen fluoride in a minimal basis."""
    return dftfd.molecule(GEOMETRY, basis="sto-3g")


def arguments(*more):
    """The same calculation for the command line."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    return ["run", GEOMETRY, "--basis", "sto-3g", *options, *map(str, more)]


def start(*more):
    """A process with the command `dftfd run`, its outputs piped."""
    command = [sys.executable, "-m", "dftfd", *arguments(*more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def right_energy():
    """Energy [hartree] of the run that nothing happens to."""
    return dftfd.run_scf(molecule(), **OPTIONS).energy


def resumed(path):
    """(result, warnings) of a run that goes on from a checkpoint, which stays as it is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dftfd.run_scf(molecule(), **OPTIONS, restart=path, checkpoint=Path(path).with_name("next.chk"))
    return result, [str(w.message) for w in caught]


def report(name, faults, runs):
    """The script `name`: faults(number of runs, empty folder, rng) gives the figures."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help=f"keep the figures in data/reliability/{name}.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = faults(given.runs, Path(folder), np.random.default_rng(given.seed))
    versions = {"dftfd": dftfd.__version__, "jax": jax.__version__, "pyscf": pyscf.__version__, "numpy": np.__version__}
    machine = {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}
    text = json.dumps({"seed": given.seed, **figures, "versions": versions, "machine": machine}, indent=1)
    print(text)
    if given.save:
        (RESULTS / f"{name}.json").write_text(text + "\n")
