"""Growth of responses with the size of the molecule: extended alanine chains, def2-SVP, fitted integrals, grid level 3.

    OMP_NUM_THREADS=1 python examples/benchmarks/growth_of_responses.py --residues 1 2 4 --save                     PBE
    OMP_NUM_THREADS=1 python examples/benchmarks/growth_of_responses.py --xc b3lyp --what hessian --residues 1 2 --save

Processor time of one thread, without what the system takes to hand out memory, from a converged density. The exponent
is that of the number of basis functions.
"""

import argparse

import measuring
from gradient import density
from growth import timed
from molecules import atoms
from pyscf import gto
from scaling import exponent

TASKS = {
    "polarizability": lambda result: result.polarizability(),
    "excitations": lambda result: result.excitations(10),
    "hessian": lambda result: result.hessian(),
}


def measure(residues, xc, tasks, densities=None) -> dict:
    """Seconds of each task for one chain."""
    mole = gto.M(atom=atoms(f"alanine{residues}"), basis="def2-svp", verbose=0)
    path = densities and measuring.Path(densities) / f"alanine{residues}_{xc}_def2-svp_fitted_3.h5"
    result = density(mole, xc, True, 3, path)
    row = {"residues": residues, "atoms": int(mole.natm), "ao": int(mole.nao)}
    for name in tasks:
        row[name], _ = timed(lambda name=name: TASKS[name](result))
        print(f"alanine{residues} {xc} {name}: {row[name]:.1f} s", flush=True)
    return row | {"peak_gigabytes": measuring.peak_gigabytes()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--residues", type=int, nargs="+", default=(1, 2, 4))
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--what", choices=TASKS, nargs="+", default=tuple(TASKS))
    parser.add_argument("--densities", metavar="FOLDER", help="where converged densities are kept")
    parser.add_argument(
        "--save", action="store_true", help="keep the results in data/benchmarks/growth_of_responses.json"
    )
    options = parser.parse_args()
    rows = [measure(n, options.xc, options.what, options.densities) for n in options.residues]
    exponents = {name: exponent(rows, name) for name in options.what} if len(rows) > 1 else {}
    print("exponents of the number of basis functions:", exponents)
    if options.save:
        kept = {"xc": options.xc, "basis": "def2-svp", "exponents": exponents, "rows": rows}
        measuring.keep("growth_of_responses", [measuring.machine() | kept])


if __name__ == "__main__":
    main()
