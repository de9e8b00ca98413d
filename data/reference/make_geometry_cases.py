"""Recompute the minima of geometry_cases.json with PySCF's gradients, grid response included, and geomeTRIC.

    python data/reference/make_geometry_cases.py [ID...]            compare: print each case's stored and new result
    python data/reference/make_geometry_cases.py [ID...] --write    replace the references and the record of versions

To add a case, add an entry with `id`, `shows` and `input`, and write.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
from make_gradient_cases import to_text
from pyscf import __version__, dft, gto
from pyscf.data import nist
from pyscf.geomopt import geometric_solver

FILE = Path(__file__).with_name("geometry_cases.json")
CONV_TOL, CONV_TOL_GRAD = 1e-11, 1e-7


def reference(given):
    """The minimum's coordinates (atom, 3) [bohr], and the energies of the path, the start included [hartree]."""
    mole = gto.M(atom=[(symbol, xyz) for symbol, *xyz in given["atoms"]], basis=given["basis"], verbose=0)
    mf = dft.rks.RKS(mole, xc=given["xc"])
    if given["density_fit"]:
        mf = mf.density_fit()
    mf.grids.level, mf.nlcgrids.level = given["grid_level"], given["nlc_grid_level"]
    mf.conv_tol, mf.conv_tol_grad = CONV_TOL, CONV_TOL_GRAD
    gradient = mf.nuc_grad_method()
    gradient.grid_response = True
    energies = []

    def tell(step):
        energies.append(float(step["energy"]))
        print(f"    step {len(energies) - 1:3d}  E = {energies[-1]:.10f}", flush=True)

    converged, minimum = geometric_solver.kernel(gradient.as_scanner(), callback=tell, maxsteps=100, **given["options"])
    if not converged:
        raise RuntimeError("geomeTRIC did not converge")
    return {"energies": energies, "coordinates": minimum.atom_coords().tolist()}


def record():
    """What the numbers were made with."""
    return {
        "program": f"PySCF {__version__}, libxc {dft.libxc.__version__}, geomeTRIC {metadata.version('geometric')}",
        "conv_tol": CONV_TOL,
        "conv_tol_grad": CONV_TOL_GRAD,
        "bohr_in_angstrom": nist.BOHR,
        "units": "start in angstrom; energies in hartree, coordinates of the minimum in bohr",
        "script": "data/reference/make_geometry_cases.py",
    }


def main():
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    document = json.loads(FILE.read_text())
    for case in document["cases"]:
        if wanted and case["id"] not in wanted:
            continue
        print(case["id"], flush=True)
        new = reference(case["input"])
        stored = case.get("reference", {}).get("coordinates", np.nan)
        change = np.abs(np.subtract(new["coordinates"], stored)).max()
        print(f"    {len(new['energies'])} energies; change of the stored minimum {change:8.1e} bohr", flush=True)
        case["reference"] = new
        if "--write" in sys.argv[1:]:
            FILE.write_text(to_text(document | {"made_with": record()}))


if __name__ == "__main__":
    main()
