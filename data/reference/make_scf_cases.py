"""Recompute the SCF reference energies of scf_cases.json with PySCF.

    python data/reference/make_scf_cases.py            compare: print each case's stored and new energy
    python data/reference/make_scf_cases.py --write    replace the reference values and the record of versions

The inputs stay as they stand in the file; to add a case, add an entry with `id`, `shows`, `input` and `tolerance`, and
write. All 21 cases take a few minutes. PySCF's defaults hold everywhere (minao guess, CDIIS, Treutler-Ahlrichs radial
grid, NWChem pruning, Becke partition) except for the convergence threshold.
"""

import json
import sys
from pathlib import Path

import numpy as np
from pyscf import __version__, dft, gto
from pyscf.data import nist

FILE = Path(__file__).with_name("scf_cases.json")
CONV_TOL = 1e-11


def mole(case):
    """The PySCF molecule of a case."""
    given = case["input"]
    return gto.M(
        atom=[(symbol, xyz) for symbol, *xyz in given["atoms"]],
        unit=given["unit"],
        charge=given["charge"],
        spin=given["spin"],
        basis=given["basis"],
        cart=given["cartesian"],
        verbose=0,
    )


def reference(case):
    """Energy, components [hartree] and a few more facts of the converged calculation."""
    given, mol = case["input"], mole(case)
    mf = (dft.rks.RKS if given["method"] == "RKS" else dft.uks.UKS)(mol, xc=given["xc"])
    mf.grids.level, mf.conv_tol = given["grid_level"], CONV_TOL
    energy = mf.kernel()
    if not mf.converged:
        raise RuntimeError(f"{case['id']}: PySCF did not converge")
    P = mf.make_rdm1()
    mo_energy, mo_occ = np.atleast_2d(mf.mo_energy), np.atleast_2d(mf.mo_occ)
    n_electrons, semilocal, _ = getattr(mf._numint, f"nr_{given['method'].lower()}")(mol, mf.grids, given["xc"], P)
    return {
        "energy": energy,
        "nuclear": mol.energy_nuc(),
        "one_electron": mf.scf_summary["e1"],
        "coulomb": mf.scf_summary["coul"],
        "xc_with_exact_exchange": mf.scf_summary["exc"],
        "xc_semilocal": semilocal,
        "n_electrons_quadrature": np.atleast_1d(n_electrons).tolist(),
        "homo": [max(e[n > 0], default=None) for e, n in zip(mo_energy, mo_occ, strict=True)],
        "lumo": [min(e[n == 0], default=None) for e, n in zip(mo_energy, mo_occ, strict=True)],
        "dipole_debye": mf.dip_moment(verbose=0).tolist(),
        "s_squared": float(mf.spin_square()[0]),
        "n_ao": mol.nao,
        "n_mo": mo_energy.shape[1],
        "n_points": len(mf.grids.weights),
        "cycles": mf.cycles,
    }


def record():
    """What the numbers were made with."""
    return {
        "program": f"PySCF {__version__}, libxc {dft.libxc.__version__}",
        "conv_tol": CONV_TOL,
        "bohr_in_angstrom": nist.BOHR,
        "units": "hartree; dipole in debye; geometry in the unit of the input",
        "tolerance": "same_grid: with PySCF's points and weights; own_grid: with the grid of the program under test",
        "script": "data/reference/make_scf_cases.py",
    }


def to_text(document):
    """JSON with one line for each part of a case, so that a change of one number is a change of one line."""
    cases = []
    for case in document["cases"]:
        parts = [f'"{name}": {json.dumps(case[name])}' for name in ("id", "shows", "input", "reference", "tolerance")]
        cases.append("{" + ",\n ".join(parts) + "}")
    return '{"made_with": ' + json.dumps(document["made_with"]) + ',\n"cases": [\n' + ",\n".join(cases) + "\n]}\n"


def main():
    document = json.loads(FILE.read_text())
    for case in document["cases"]:
        new = reference(case)
        stored = case.get("reference", {}).get("energy", np.nan)
        print(
            f"{case['id']:28} {new['energy']:18.10f}  stored {stored:18.10f}  {new['energy'] - stored:9.1e}", flush=True
        )
        case["reference"] = new
    if "--write" in sys.argv[1:]:
        FILE.write_text(to_text(document | {"made_with": record()}))


if __name__ == "__main__":
    main()
