"""Recompute the reference gradients of gradient_cases.json with PySCF, the quadrature grid's response included.

    python data/reference/make_gradient_cases.py            compare: print each case's stored and new gradient
    python data/reference/make_gradient_cases.py --write    replace the reference values and the record of versions

To add a case, add an entry with `id`, `shows` and `input`, and write. All cases take a few minutes.
"""

import json
import sys
from pathlib import Path

import numpy as np
from pyscf import __version__, dft, gto
from pyscf.data import nist

FILE = Path(__file__).with_name("gradient_cases.json")
CONV_TOL, CONV_TOL_GRAD = 1e-12, 1e-7


def reference(given):
    """Energy [hartree], gradient with and without the response of the grid, (atom, 3) [hartree/bohr]."""
    mole = gto.M(
        atom=[(symbol, xyz) for symbol, *xyz in given["atoms"]],
        basis=given["basis"],
        ecp=given["basis"] if given["ecp"] else {},
        spin=given["spin"],
        charge=given["charge"],
        verbose=0,
    )
    mf = (dft.rks.RKS if given["method"] == "RKS" else dft.uks.UKS)(mole, xc=given["xc"])
    if given["density_fit"]:
        mf = mf.density_fit()
    mf.grids.level, mf.nlcgrids.level = given["grid_level"], given["nlc_grid_level"]
    mf.conv_tol, mf.conv_tol_grad, mf.max_cycle = CONV_TOL, CONV_TOL_GRAD, 200
    energy = mf.kernel()
    if not mf.converged:  # DIIS circles around a degenerate radical: finish with second order
        mf = mf.newton()
        mf.conv_tol, mf.conv_tol_grad = CONV_TOL, CONV_TOL_GRAD
        energy = mf.kernel(mf.mo_coeff, mf.mo_occ)
        mf = mf.undo_newton() if hasattr(mf, "undo_newton") else mf
    if not mf.converged:
        raise RuntimeError("PySCF did not converge")
    gradient = mf.nuc_grad_method()
    without = gradient.kernel()
    gradient.grid_response = True
    return {"energy": energy, "gradient": gradient.kernel().tolist(), "without_response": without.tolist()}


def record():
    """What the numbers were made with."""
    return {
        "program": f"PySCF {__version__}, libxc {dft.libxc.__version__}",
        "conv_tol": CONV_TOL,
        "conv_tol_grad": CONV_TOL_GRAD,
        "bohr_in_angstrom": nist.BOHR,
        "units": "hartree, hartree/bohr; geometry in angstrom",
        "script": "data/reference/make_gradient_cases.py",
    }


def to_text(document):
    """JSON with one line for each part of a case."""
    cases = []
    for case in document["cases"]:
        parts = [f'"{name}": {json.dumps(case[name])}' for name in ("id", "shows", "input", "reference")]
        cases.append("{" + ",\n ".join(parts) + "}")
    return '{"made_with": ' + json.dumps(document["made_with"]) + ',\n"cases": [\n' + ",\n".join(cases) + "\n]}\n"


def main():
    document = json.loads(FILE.read_text())
    for case in document["cases"]:
        new = reference(case["input"])
        stored = case.get("reference", {}).get("gradient", np.nan)
        change = np.abs(np.subtract(new["gradient"], stored)).max()
        response = np.abs(np.subtract(new["gradient"], new["without_response"])).max()
        print(f"{case['id']:24} response {response:8.1e}  change of the stored gradient {change:8.1e}", flush=True)
        case["reference"] = new
    if "--write" in sys.argv[1:]:
        FILE.write_text(to_text(document | {"made_with": record()}))


if __name__ == "__main__":
    main()
