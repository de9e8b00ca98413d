"""Growth of cost with the size of the molecule: extended alanine chains, PBE/def2-SVP, against PySCF.

    OMP_NUM_THREADS=1 python examples/benchmarks/scaling.py --clock cpu --save          1, 2, 4 and 8 residues
    python examples/benchmarks/scaling.py --residues 1 2 3 4 --pairs 5

One matrix of the exchange-correlation energy, as in xc_build.py, on orbitals that are kept where they fit. The exponent
is that of the number of basis functions, fitted to all chains.
"""

import argparse

import measuring
import numpy as np
from xc_build import measure, report


def exponent(rows, key):
    """p of seconds ~ nao^p."""
    return round(float(np.polyfit(np.log([r["ao"] for r in rows]), np.log([r[key] for r in rows]), 1)[0]), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--residues", type=int, nargs="+", default=(1, 2, 4, 8))
    parser.add_argument("--pairs", type=int, default=3, help="interleaved pairs")
    parser.add_argument("--clock", choices=measuring.CLOCKS, default="wall")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/scaling.json")
    options = parser.parse_args()
    measuring.require_one_thread_for(options.clock)
    rows = []
    for n in options.residues:
        rows.append(measure(f"alanine{n}", "def2-svp", "pbe", pairs=options.pairs, clock=options.clock))
        print(report(rows[-1]), flush=True)
    exponents = {code: exponent(rows, f"{code}_seconds") for code in ("dftfd", "pyscf")}
    print("exponents of the number of basis functions:", exponents)
    if options.save:
        measuring.keep("scaling", [measuring.machine() | {"exponents": exponents, "rows": rows}])


if __name__ == "__main__":
    main()
