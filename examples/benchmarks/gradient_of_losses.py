"""Processor time of the gradient of a loss through an SCF, beside that of the SCF itself.

    OMP_NUM_THREADS=1 python examples/benchmarks/gradient_of_losses.py [--save data/benchmarks/gradient_of_losses.json]

Each parameter value is new, so that nothing is kept from the one before, and programs are compiled beforehand. SCFs
begin at the usual guess. What counts is the ratio: (value and gradient) less SCF, over SCF.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

import dftfd

MOLECULES = {
    "H2O": ("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", {}),
    "NH2": ("N 0 0 0.14; H 0 0.80 -0.49; H 0 -0.80 -0.49", {"spin": 1}),
    "CH3OH": (
        "C -0.05 0.66 0; O -0.05 -0.76 0; H -1.08 0.98 0; H 0.44 1.07 0.89; H 0.44 1.07 -0.89; H 0.86 -1.06 0",
        {},
    ),
}
REPEATS = 5


def losses(molecule, options):
    """name -> loss(kappa), each through the SCF."""
    scf = dftfd.differentiable_scf(molecule, **options)
    x, c = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
    at = lambda kappa: scf(x.with_parameters(kappa=kappa) + c)
    points = molecule.coordinates + 0.3
    return (
        scf,
        at,
        {
            "energy": lambda kappa: at(kappa).energy ** 2,
            "dipole": lambda kappa: (at(kappa).dipole ** 2).sum(),
            "density": lambda kappa: (at(kappa).density(points) ** 2).sum(),
        },
    )


def measured(molecule, options):
    """{what: median processor seconds}."""
    scf, at, terms = losses(molecule, options)
    calls = {"scf": lambda kappa: at(jax.numpy.asarray(kappa)).energy}
    calls |= {f"gradient, {name}": jax.value_and_grad(loss) for name, loss in terms.items()}
    for call in calls.values():
        jax.block_until_ready(call(0.8))
    times = {name: [] for name in calls}
    for k in range(REPEATS):
        for n, (name, call) in enumerate(calls.items()):
            start = time.process_time()
            jax.block_until_ready(call(0.75 + 0.01 * k + 0.001 * n))
            times[name].append(time.process_time() - start)
    return {name: float(np.median(of_one)) for name, of_one in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save")
    parser.add_argument("--basis", default="def2-svp")
    arguments = parser.parse_args()
    table = {}
    for name, (geometry, given) in MOLECULES.items():
        found = measured(dftfd.molecule(geometry, basis=arguments.basis, **given), {"grid_level": 3})
        ratios = {what: (t - found["scf"]) / found["scf"] for what, t in found.items() if what != "scf"}
        table[name] = {"seconds": found, "gradient less scf, over scf": ratios}
        print(
            f"{name:6s} scf {found['scf']:.2f} s; " + ", ".join(f"{k} {v:.2f}" for k, v in ratios.items()), flush=True
        )
    if arguments.save:
        Path(arguments.save).write_text(
            json.dumps({"basis": arguments.basis, "functional": "PBE", "cases": table}, indent=1)
        )


if __name__ == "__main__":
    main()
