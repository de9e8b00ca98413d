"""Proofs for functionals that were found: python data/discovery/prove.py TABLE.csv FILE.py:NAME [FILE.py:NAME ...]

Each condition of the searches at zeta = 0, then at zeta from 0 to 0.9, for s and alpha up to 1000, with up to 200,000
boxes. Proofs are rechecked in ball arithmetic, each for at most SECONDS. The table goes to TABLE.csv.
"""

import csv
import sys
from dataclasses import replace

from dftfd import prove
from dftfd.functionals.named_files import functional_in_file

CONDITIONS = ["ex_nonpositive", "ex_bounded", "ec_nonpositive", "ec_scaling", "uc_monotone", "tc_upper"]
CONDITIONS += ["lieb_oxford", "lieb_oxford_exc"]
WIDE = {"s": (0.0, 1000.0), "alpha": (0.0, 1000.0)}
BOXES, SECONDS = 200_000, 20.0


def row(functional, condition, zeta):
    proof = prove(functional, condition, WIDE | ({"zeta": zeta} if zeta else {}), boxes=BOXES)
    checked = "{} of {}".format(*proof.recheck(SECONDS)) if proof.proved else ""
    return [functional.name, condition, "0 to 0.9" if zeta else "0", proof.outcome, proof.boxes or "", checked]


if __name__ == "__main__":
    with open(sys.argv[1], "w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["functional", "condition", "zeta", "outcome", "boxes", "boxes rechecked"])
        for name in sys.argv[2:]:
            functional = replace(functional_in_file(name), dispersion=None)  # it has no value at a point
            for zeta in (None, (0.0, 0.9)):
                for condition in CONDITIONS:
                    found = row(functional, condition, zeta)
                    table.writerow(found)
                    stream.flush()
                    print(*found, flush=True)
