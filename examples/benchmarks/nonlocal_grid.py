"""Error of VV10's energy on smaller grids, against level 3, for twenty molecules.

    python examples/benchmarks/nonlocal_grid.py --save            VV10, appended to data/benchmarks/nonlocal_grid.json
    python examples/benchmarks/nonlocal_grid.py --functional rvv10

At the density of PBE in def2-SVP, which is the same for all grids: to first order the error of the whole energy.
"""

import argparse

import measuring
import numpy as np
from measuring import seconds

import dftfd
from dftfd.xc.ao_store import AOStore
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel

LEVELS = (0, 1, 2)
REFERENCE = 3


def ring(radius, symbol):
    """Six atoms in the plane, in angstrom."""
    angles = np.arange(6) * np.pi / 3
    return "".join(f"{symbol} {radius * np.cos(a):.6f} {radius * np.sin(a):.6f} 0;" for a in angles)


MOLECULES = {
    "LiH": "Li 0 0 0; H 0 0 1.6",
    "CH4": "C 0 0 0; H .63 .63 .63; H -.63 -.63 .63; H -.63 .63 -.63; H .63 -.63 -.63",
    "NH3": "N 0 0 0.116; H 0 0.939 -0.271; H 0.813 -0.47 -0.271; H -0.813 -0.47 -0.271",
    "H2O": "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    "HF": "H 0 0 0; F 0 0 0.92",
    "N2": "N 0 0 0; N 0 0 1.1",
    "O2, triplet": "O 0 0 0; O 0 0 1.21",
    "CO2": "C 0 0 0; O 0 0 1.16; O 0 0 -1.16",
    "HCN": "H 0 0 -1.064; C 0 0 0; N 0 0 1.156",
    "C2H4": "C 0 0 .667; C 0 0 -.667; H 0 .923 1.238; H 0 -.923 1.238; H 0 .923 -1.238; H 0 -.923 -1.238",
    "CH3OH": "C -.046 .663 0; O -.046 -.755 0; H -1.087 .976 0; H .86 -1.057 0; H .438 1.07 .89; H .438 1.07 -.89",
    "SiH4": "Si 0 0 0; H .856 .856 .856; H -.856 -.856 .856; H -.856 .856 -.856; H .856 -.856 -.856",
    "PH3": "P 0 0 .127; H 0 1.19 -.64; H 1.03 -.595 -.64; H -1.03 -.595 -.64",
    "SO2": "S 0 0 .37; O 0 1.24 -.37; O 0 -1.24 -.37",
    "HCl": "H 0 0 0; Cl 0 0 1.28",
    "NaCl": "Na 0 0 0; Cl 0 0 2.36",
    "Br2": "Br 0 0 0; Br 0 0 2.28",
    "Ar2": "Ar 0 0 0; Ar 0 0 3.76",
    "(H2O)2": "O -1.551 -.1145 0; H -1.934 .7625 0; H -.5996 .0407 0; "
    "O 1.3506 .1115 0; H 1.680 -.374 -.7586; H 1.680 -.374 .7586",
    "benzene": ring(1.39, "C") + ring(2.48, "H"),
}
TRIPLETS = ("O2, triplet",)


def energy(kernel, molecule, P, level):
    """Energy [hartree] on a level, number of points, and seconds of the sums."""
    grid = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    builder = NonlocalXCBuilder(kernel, AOStore(molecule, grid.points, grid.weights, 1))
    duration, found = seconds(lambda: builder.build(P).energy, measuring.CLOCKS["wall"])
    return found, len(grid.weights), duration


def measure(name, kernel):
    """One row of results."""
    molecule = dftfd.molecule(MOLECULES[name], basis="def2-svp", spin=2 if name in TRIPLETS else 0)
    P = dftfd.run_scf(molecule, "pbe", grid_level=1).density_matrix.sum(axis=0)[None]
    reference, points, _ = energy(kernel, molecule, P, REFERENCE)
    found = {level: energy(kernel, molecule, P, level) for level in LEVELS}
    return {
        "molecule": name,
        "functional": kernel.functional.name,
        "energy": reference,
        "points": {level: n for level, (_, n, _) in found.items()} | {REFERENCE: points},
        "error_per_atom": {level: (E - reference) / molecule.n_atoms for level, (E, _, _) in found.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functional", default="vv10", choices=("vv10", "rvv10"))
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/nonlocal_grid.json")
    options = parser.parse_args()
    kernel = NonlocalXCKernel(dftfd.get_functional(options.functional), 1)
    rows = []
    for name in MOLECULES:
        row = measure(name, kernel)
        rows.append(row)
        errors = ", ".join(f"level {k}: {1e6 * e:8.3f}" for k, e in row["error_per_atom"].items())
        print(f"{name:12s} {row['energy']:.7f} hartree; 1e-6 hartree per atom on {errors}", flush=True)
    for level in LEVELS:
        errors = np.abs([1e6 * row["error_per_atom"][level] for row in rows])
        print(f"level {level}: mean {errors.mean():.3f}, largest {errors.max():.3f}")
    if options.save:
        measuring.keep("nonlocal_grid", rows)


if __name__ == "__main__":
    main()
