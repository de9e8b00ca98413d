"""Time of an SCF with a local hybrid and of e_x in one cycle, def2-SVP, density fitting, grid level 3.

    python examples/benchmarks/local_hybrids.py                                          caffeine
    python examples/benchmarks/local_hybrids.py --save alanine1 alanine2 alanine4        growth over chains

A cycle's matrix is built twice from the converged density, with LH07t-SVWN and with TPSS, which has the same
ingredients but e_x; of each the second build counts. --save appends rows to data/benchmarks/local_hybrids.json.
"""

import argparse
from dataclasses import replace

from measuring import CLOCKS, keep, machine, peak_gigabytes, seconds
from molecules import atoms

import dftfd
from dftfd.runtime.progress import Progress

FUNCTIONAL, WITHOUT = "lh07t_svwn", "tpss"


def matrix_seconds(result, name, clock):
    """Of one energy with its matrix at the density of a result, orbitals on the grid at hand."""
    P = result.density_matrix
    occupied = [C[:, n > 0] * n[n > 0] ** 0.5 for C, n in zip(result.mo_coeff, result.mo_occ, strict=True)]
    energy = replace(result.calculation, functional=dftfd.get_functional(name)).energy(Progress())
    energy.evaluate(P, occupied)
    return seconds(lambda: energy.evaluate(P, occupied), clock)[0]


def measure(name, clock="wall"):
    """One row of results."""
    molecule, clock_of = dftfd.molecule(atoms(name), basis="def2-svp"), CLOCKS[clock]
    taken, result = seconds(lambda: dftfd.run_scf(molecule, FUNCTIONAL), clock_of)
    with_e_x, without = (matrix_seconds(result, functional, clock_of) for functional in (FUNCTIONAL, WITHOUT))
    return machine() | {
        "molecule": name,
        "functional": FUNCTIONAL,
        "clock": clock,
        "basis_functions": molecule.n_ao,
        "points": len(result.grid[1]),
        "converged": bool(result.converged),
        "cycles": result.cycles,
        "energy": result.energy,
        "scf_seconds": round(taken, 1),
        "matrix_seconds": round(with_e_x, 2),
        "matrix_seconds_without_e_x": round(without, 2),
        "peak_memory_gigabytes": peak_gigabytes(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("molecules", nargs="*", default=["caffeine"])
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    for name in given.molecules:
        row = measure(name, given.clock)
        print(*(f"{key}: {row[key]}" for key in list(row)[6:]), sep=", ", flush=True)
        if given.save:
            keep("local_hybrids", [row])


if __name__ == "__main__":
    main()
