"""Proofs for functionals that were found: python data/discovery/prove.py TABLE.csv FILE.py:NAME [FILE.py:NAME ...]

Each condition of the searches at zeta = 0, then at zeta from 0 to 0.9, for s and alpha up to 1000, with up to 200,000
boxes. Proofs are rechecked in ball arithmetic, each for at most SECONDS. The table goes to TABLE.csv.
"""

import csv
import sys

from dftfd import prove
from dftfd.functionals.named_files import functional_in_file

CONDITIONS = ["ex_nonpositive", "ex_bounded", "ec_nonpositive", "ec_scaling", "uc_monotone", "tc_upper"]
CONDITIONS += ["lieb_oxford", "lieb_oxford_exc"]
WIDE = {"s": (0.0, 1000.0), "alpha": (0.0, 1000.0)}
BOXES, SECONDS = 200_000, 60.0


def row(functional, condition, zeta):
    has_tau = any("tau" in term.ingredients for _, term in functional.terms)
    domain = {name: ends for name, ends in WIDE.items() if has_tau or name != "alpha"} | ({"zeta": zeta} if zeta else {})
    if condition.startswith("ec") or condition in ("uc_monotone", "tc_upper"):
        domain = {name: ends for name, ends in domain.items() if name != "alpha" or of_tau(functional, "c")}
    elif condition.startswith("ex"):
        domain = {name: ends for name, ends in domain.items() if name != "alpha" or of_tau(functional, "x")}
    proof = prove(functional, condition, domain, boxes=BOXES)
    checked = ""
    if proof.proved:
        found = proof.recheck(SECONDS)
        checked = "{} of {}".format(*found)
    return [functional.name, condition, "0 to 0.9" if zeta else "0", proof.outcome, proof.boxes or "", checked]


def of_tau(functional, kind):
    return any("tau" in term.ingredients for _, term in functional.terms if term.kind == kind)


if __name__ == "__main__":
    with open(sys.argv[1], "w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["functional", "condition", "zeta", "outcome", "boxes", "boxes rechecked"])
        for name in sys.argv[2:]:
            functional = functional_in_file(name)
            for zeta in (None, (0.0, 0.9)):
                for condition in CONDITIONS:
                    found = row(functional, condition, zeta)
                    table.writerow(found)
                    stream.flush()
                    print(*found, flush=True)
