"""Forces, an optimisation and a Hessian of Skala, each beside differences; writes skala_derivatives.json.

python data/grid_functionals/skala_derivatives.py [hessians]
"""

import json
import pathlib
import sys
import time

import numpy as np

import dftfd

OUT = pathlib.Path(__file__).with_suffix(".json")
CASES = {
    "H2O": ("O 0 0 0.12; H 0 0.75 -0.45; H 0.1 -0.75 -0.46", 0),
    "NH2": ("N 0 0 0.1; H 0 0.8 -0.5; H 0.1 -0.8 -0.52", 1),
    "LiH": ("Li 0 0 0; H 0.3 0.1 1.5", 0),
}
OPTIONS = {"grid_level": 1, "conv_tol": 1e-10}


def keep(name, value):
    kept = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    print(name, value, flush=True)
    OUT.write_text(json.dumps(kept | {name: value}, indent=1) + "\n", encoding="utf-8")


def force(molecule, atom, axis, h=0.01):
    """Of one coordinate, by four energies."""
    energies = {}
    for k in (-2, -1, 1, 2):
        x = molecule.coordinates.copy()
        x[atom, axis] += k * h
        energies[k] = dftfd.run_scf(molecule.at(x), "skala", **OPTIONS).energy
    return -(8 * (energies[1] - energies[-1]) - (energies[2] - energies[-2])) / (12 * h)


def hessians():
    """Of hydrogen along and across the bond by both methods, with shorter and shorter steps."""
    start, rows = time.process_time(), {}
    hydrogen = dftfd.run_scf(dftfd.molecule("H 0 0 0; H 0 0 0.745", basis="6-31g"), "skala", **OPTIONS)
    for step in (1e-3, 5e-4, 2e-4):
        pair = [hydrogen.hessian(method, step=step) for method in ("response", "differences")]
        rows[str(step)] = {
            "along the bond": [float(H[1, 2, 1, 2]) for H in pair],
            "across": [float(H[1, 0, 1, 0]) for H in pair],
            "difference": float(np.abs(pair[0] - pair[1]).max()),
        }
    keep("Hessian of H2", rows | {"seconds": round(time.process_time() - start, 1)})


def main():
    if sys.argv[1:] == ["hessians"]:
        hessians()
        return
    for name, (atoms, spin) in CASES.items():
        molecule, start = dftfd.molecule(atoms, basis="6-31g", spin=spin), time.process_time()
        forces = dftfd.run_scf(molecule, "skala", **OPTIONS).forces()
        found = {"force": forces[1, 2], "differences": force(molecule, 1, 2), "net": np.abs(forces.sum(axis=0)).max()}
        keep(f"forces of {name}", found | {"seconds": round(time.process_time() - start, 1)})
    start = time.process_time()
    water = dftfd.molecule(CASES["H2O"][0], basis="6-31g")
    best = dftfd.optimize(water, "skala", grid_level=1)
    O, H1, H2 = best.molecule.coordinates * 0.529177210903
    lengths = [float(np.linalg.norm(H - O)) for H in (H1, H2)]
    angle = float(np.degrees(np.arccos((H1 - O) @ (H2 - O) / np.prod(lengths))))
    seconds = round(time.process_time() - start, 1)
    keep("optimisation of H2O", {"converged": best.converged, "lengths": lengths, "angle": angle, "seconds": seconds})
    hessians()
    start = time.process_time()
    vibrations = dftfd.run_scf(best.molecule, "skala", **OPTIONS).vibrations()
    wavenumbers = [float(v) for v in np.ravel(vibrations.wavenumbers)]
    keep("vibrations of H2O", {"wavenumbers": wavenumbers, "seconds": round(time.process_time() - start, 1)})


if __name__ == "__main__":
    main()
