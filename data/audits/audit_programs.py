"""Audits programs and keeps the rows in data/audits/programs.json: python data/audits/audit_programs.py [NAME ...].

A row has program, molecule, check, verdict, deviation, limit, unit, pattern, evidence. Rows of the programs that are
audited again are replaced.
"""

import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import other_programs  # noqa: E402
import pyscf_methods  # noqa: E402

from dftfd.verify.code_audit import audit_code  # noqa: E402

FILE = HERE / "programs.json"
SLOPES = [
    "forces",
    "forces beside charges",
    "forces on charges",
    "Hessian",
    "dipole",
    "net force",
    "torque",
    "symmetry",
]
EQUAL = ["spin exchange", "order of atoms", "translation", "size consistency", "after others", "restart"]
IODIDE = "H 0 0 0; I 0 0.1 1.7"
BOTH = ("water", "NH2")

FLUORIDE, HYDRIDE = "H 0 0 0.05; F 0.1 0 0.9", "Be 0 0 0.05; H 0.1 0 1.4"
GHOST = "H 0 0 0.05; F 0.1 0 0.9; ghost-O 0.2 0.1 2.6"
COPPER = "Cu 0 0 0; Cu 2.3 0.1 0; Cu 1.1 2.0 0.3; Au 0.9 0.8 2.1"
SUMS = ["net force", "torque"]

AUDITS = {
    "hf": (pyscf_methods, None, BOTH),
    "hf_fitted": (pyscf_methods, SLOPES, ("NH2",)),
    "rohf": (pyscf_methods, SLOPES, ("NH2",)),
    "hf_ecp": (pyscf_methods, ["forces", "Hessian", "dipole", *SUMS], (IODIDE,)),
    "hf_x2c": (pyscf_methods, ["forces", "Hessian", "dipole", *SUMS], ("water",)),
    "hf_d3": (pyscf_methods, ["forces", "Hessian", *SUMS], ("water",)),
    "hf_smeared": (pyscf_methods, ["forces", "Hessian", "dipole"], ("water",)),
    "hf_gth": (pyscf_methods, ["forces", "dipole", *SUMS], ("water",)),
    "hf_tdhf": (pyscf_methods, ["forces of state 1"], ("water",)),
    "hf_tda_fitted": (pyscf_methods, ["forces", "forces of state 1"], ("water",)),
    "mp2": (pyscf_methods, ["forces", *SUMS], ("water",)),
    "mp2_fitted": (pyscf_methods, ["forces", *SUMS], ("water",)),
    "ccsd": (pyscf_methods, ["forces", *SUMS], ("water",)),
    "ccsd_fitted": (pyscf_methods, ["forces", *SUMS], ("water",)),
    "pbe": (pyscf_methods, [*SLOPES, *EQUAL, "rotation"], (FLUORIDE,)),
    "pbe_grid": (pyscf_methods, ["forces", "Hessian", *SUMS], (FLUORIDE,)),
    "pbe_ghost": (pyscf_methods, ["forces", *SUMS], (GHOST,)),
    "m06l": (pyscf_methods, ["Hessian", "forces", *SUMS], (FLUORIDE, HYDRIDE)),
    "m06l_grid": (pyscf_methods, ["forces", "Hessian"], (FLUORIDE,)),
    "vv10": (pyscf_methods, ["forces", *SUMS], (FLUORIDE,)),
    "pbe0_tda": (pyscf_methods, ["forces of state 1"], (FLUORIDE,)),
    "hf_pcm": (pyscf_methods, ["forces", "Hessian", "dipole", *SUMS, "rotation", "forces of state 1"], ("water",)),
    "hf_cpcm": (pyscf_methods, ["forces", "Hessian", *SUMS], ("water",)),
    "hf_ssvpe": (pyscf_methods, ["forces", "Hessian", *SUMS], ("water",)),
    "hf_cosmo": (pyscf_methods, ["forces", "Hessian", *SUMS], ("water",)),
    "hf_ddcosmo": (pyscf_methods, ["forces", "Hessian", *SUMS, "rotation"], ("water",)),
    "hf_smd": (pyscf_methods, ["forces", *SUMS], ("water",)),
    "emt": (other_programs, None, (COPPER,)),
    "gfn1": (other_programs, None, BOTH),
    "gfn2": (other_programs, None, BOTH),
    "psi4_hf": (other_programs, ["forces", "net force"], (FLUORIDE,)),
    "psi4_pbe": (other_programs, ["forces", "net force"], (FLUORIDE,)),
    "nwchem_hf": (
        other_programs,
        ["forces", "forces on charges", "Hessian", "Hessian beside charges", *SUMS, "rotation"],
        (FLUORIDE,),
    ),
    "own_hf": (other_programs, None, (FLUORIDE,)),
    "own_pbe": (other_programs, None, (FLUORIDE,)),
    "own_m06l": (other_programs, ["forces", "Hessian", "net force"], (FLUORIDE,)),
    "own_pcm": (other_programs, [*SLOPES, *EQUAL, "dipole derivatives", "infrared"], ("water",)),
}


def rows_of(name):
    """Rows of one program."""
    module, checks, molecules = AUDITS[name]
    target = getattr(module, name.replace("_ghost", "_grid"))
    target = target() if module is other_programs else target
    start = time.process_time()
    report = audit_code(target, molecules, checks)
    print(report, f"\n{time.process_time() - start:.0f} s\n", flush=True)
    return [{"target": name, "program": report.name} | outcome for outcome in report.to_json()["outcomes"]]


def main(names):
    """Audit the programs of these names, all by default."""
    for name in names or AUDITS:
        found = rows_of(name)
        kept = json.loads(FILE.read_text()) if FILE.exists() else []
        kept = [row for row in kept if row["target"] != name] + found
        kept.sort(key=lambda row: list(AUDITS).index(row["target"]))
        FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in kept) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
