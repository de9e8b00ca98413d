"""Calculations on the accelerator that JAX finds beside the same on the machine's processor.

    python examples/benchmarks/accelerator.py                     caffeine and taxol, three functionals
    python examples/benchmarks/accelerator.py --molecule caffeine --xc pbe --save

Each case runs in two processes of its own, one with JAX_PLATFORMS=cpu; both use all cores for what stays with the
processor. A row has the SCF with compilation, the same again without, one exchange-correlation build (median of five)
and the difference of the energies, of which more than 1e-8 hartree stops the benchmark. --save appends the rows to
data/benchmarks/accelerator.json. Caffeine takes three minutes on an H200 and 16 threads. Taxol was not run through:
one SCF with PBE took 98 s.
"""

import argparse
import json
import os
import subprocess
import sys

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))

import jax  # noqa: E402
import measuring  # noqa: E402
import numpy as np  # noqa: E402
from measuring import machine, seconds  # noqa: E402
from molecules import NAMES, atoms  # noqa: E402

import dftfd  # noqa: E402
from dftfd.functionals.registry import get_functional  # noqa: E402
from dftfd.grids.molecular import molecular_grid  # noqa: E402
from dftfd.xc.ao_store import AOStore  # noqa: E402
from dftfd.xc.channels import ao_order  # noqa: E402
from dftfd.xc.device import WORTH, DeviceXCBuilder, accelerated_devices  # noqa: E402
from dftfd.xc.kernel import XCKernel  # noqa: E402
from dftfd.xc.matrix import XCBuilder  # noqa: E402

SUITE = [(name, xc) for name in ("caffeine", "taxol") for xc in ("pbe", "r2scan", "b3lyp")]
ENERGY_TOLERANCE = 1e-8  # hartree
BUILDS = 5


def measured_here(name: str, xc: str, basis: str) -> dict:
    """Seconds and the energy [hartree] on what JAX computes with in this process."""
    molecule = dftfd.molecule(atoms(name), basis=basis)
    first, result = seconds(lambda: dftfd.run_scf(molecule, xc))
    again, _ = seconds(lambda: dftfd.run_scf(molecule, xc))
    kernel = XCKernel(get_functional(xc).semilocal_part, 1)
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, 3)
    store = AOStore(molecule, np.asarray(grid.points), np.asarray(grid.weights), ao_order(kernel))
    devices = accelerated_devices(molecule.n_ao)
    make = lambda: XCBuilder(kernel, store) if devices is None else DeviceXCBuilder(kernel, store, devices)
    placing, builder = seconds(make)
    P = np.asarray(result.density_matrix).reshape(1, molecule.n_ao, molecule.n_ao)
    C_occ = [np.asarray(result.mo_coeff).reshape(molecule.n_ao, -1)[:, : molecule.n_alpha] * np.sqrt(2.0)]
    builder.build(P, C_occ)
    builds = [seconds(lambda: builder.build(P, C_occ))[0] for _ in range(BUILDS)]
    return {
        "device": jax.devices()[0].device_kind,
        "scf with compilation [s]": round(first, 2),
        "scf [s]": round(again, 2),
        "orbitals to the device [s]": round(placing, 2),
        "build [s]": round(float(np.median(builds)), 4),
        "cycles": result.cycles,
        "energy [hartree]": result.energy,
    }


def in_process(case: list[str], **environment) -> dict:
    """What measured_here finds in a process with these variables."""
    done = subprocess.run(
        [sys.executable, __file__, "--here", *case],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, xc: str, basis: str) -> dict:
    """Both sides of one case."""
    case = ["--molecule", name, "--xc", xc, "--basis", basis]
    accelerator, processor = in_process(case), in_process(case, JAX_PLATFORMS="cpu")
    difference = accelerator["energy [hartree]"] - processor["energy [hartree]"]
    if not abs(difference) < ENERGY_TOLERANCE:
        raise SystemExit(
            f"{name}, {xc}: the energies differ by {difference:.1e} hartree; that must be explained first."
        )
    return {
        "molecule": name,
        "xc": xc,
        "basis": basis,
        "accelerator": accelerator,
        "processor": processor,
        "difference [hartree]": difference,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES)
    parser.add_argument("--xc")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured_here(options.molecule, options.xc, options.basis)))
        return
    if accelerated_devices(WORTH) is None:
        raise SystemExit("JAX finds no accelerator here; install jax[cuda13] for the version in constraints.txt.")
    chosen = [(name, xc) for name, xc in SUITE if options.molecule in (None, name) and options.xc in (None, xc)] or [
        (options.molecule or "caffeine", options.xc or "pbe")
    ]
    for name, xc in chosen:
        found = row(name, xc, options.basis)
        print(json.dumps(found), flush=True)
        if options.save:
            measuring.keep("accelerator", [found | {"machine": machine()}])


if __name__ == "__main__":
    main()
