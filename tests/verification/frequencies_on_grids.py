"""Wavenumbers of ten molecules on the default grid, the next finer one and a converged one, of demanding functionals.

    python -m tests.verification.frequencies_on_grids [NAME ...]

Each row is kept in data/reliability/frequencies_on_grids.json as it is done, and not computed again. Geometries are
fixed (experimental ones), the basis is def2-SVP, Hessians have the grid's response and five-point differences.
"""

import json
import sys
from pathlib import Path

import numpy as np

import dftfd

RECORD = Path(__file__).parents[2] / "data" / "reliability" / "frequencies_on_grids.json"
FUNCTIONALS = "r2scan", "m06l"
LEVELS, CONVERGED = {"r2scan": (3, 4), "m06l": (3, 4, 5)}, 8
MOLECULES = {
    "H2O": "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692",
    "HF": "F 0 0 0; H 0 0 0.9168",
    "N2": "N 0 0 0; N 0 0 1.0977",
    "CO": "C 0 0 0; O 0 0 1.1283",
    "CO2": "C 0 0 0; O 0 0 1.1621; O 0 0 -1.1621",
    "HCN": "C 0 0 0; H 0 0 -1.0655; N 0 0 1.1532",
    "C2H2": "C 0 0 0.6013; C 0 0 -0.6013; H 0 0 1.6644; H 0 0 -1.6644",
    "NH3": "N 0 0 0; H 0 -0.9377 -0.3816; H 0.8121 0.4689 -0.3816; H -0.8121 0.4689 -0.3816",
    "H2CO": "C 0 0 0; O 0 0 1.2050; H 0 0.9429 -0.5876; H 0 -0.9429 -0.5876",
    "CH4": "C 0 0 0; H 0.6276 0.6276 0.6276; H 0.6276 -0.6276 -0.6276; H -0.6276 0.6276 -0.6276; "
    "H -0.6276 -0.6276 0.6276",
}


def wavenumbers(name: str, xc: str, level: int) -> dict:
    """Of one molecule: wavenumbers [cm^-1], imaginary ones negative, and what sums over atoms miss zero by."""
    molecule = dftfd.molecule(MOLECULES[name], basis="def2-svp")
    result = dftfd.run_scf(molecule, xc, grid_level=level, conv_tol=1e-10)
    found = result.vibrations(method="response", points=4)
    return {"wavenumbers": np.round(found.wavenumbers, 4).tolist(), "sum_rule": float(f"{found.sum_rule:.2g}")}


def recorded() -> dict:
    """The rows that are there."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def main() -> None:
    """Fills what is missing in the record and prints the largest change of a wavenumber by molecule."""
    for name in sys.argv[1:] or MOLECULES:
        for xc in FUNCTIONALS:
            for level in (*LEVELS[xc], CONVERGED):
                if str(level) not in recorded().get(f"{name} {xc}", {}):
                    found = wavenumbers(name, xc, level)
                    rows = recorded()  # again: others may have added to it
                    rows.setdefault(f"{name} {xc}", {})[str(level)] = found
                    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
            row = recorded()[f"{name} {xc}"]
            fine = np.array(row[str(CONVERGED)]["wavenumbers"])
            off = (np.abs(np.array(row[str(level)]["wavenumbers"]) - fine).max() for level in LEVELS[xc])
            levels = (f"level {n}: {x:.2f} cm^-1" for n, x in zip(LEVELS[xc], off, strict=True))
            print(f"{name:5} {xc:7}", *levels, flush=True)


if __name__ == "__main__":
    main()
