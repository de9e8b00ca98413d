"""Growth of each part of an SCF and of its gradient with the size of the molecule: extended alanine chains, def2-SVP.

    OMP_NUM_THREADS=1 python examples/benchmarks/growth.py --residues 2 4 8 16 --save                         PBE
    OMP_NUM_THREADS=1 python examples/benchmarks/growth.py --xc b3lyp --residues 2 4 8 --save

Processor time of one thread, without what the system takes to hand out memory, fitted integrals, each part once, on the
orbitals of the superposition of atomic densities: a matrix costs the same there as later. The exponent is that of the
number of basis functions, between the two largest chains and over all.
"""

import argparse
import resource

import measuring
import numpy as np
from molecules import atoms
from pyscf import gto
from scaling import exponent

import dftfd
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.progress import as_progress
from dftfd.scf.orbitals import diagonalise, occupied_orbitals
from dftfd.tasks.run import starting_density
from dftfd.terms import CoulombExchangeEnergy, SemilocalEnergy


def timed(call):
    """(processor seconds in the program, without the system's, result)"""
    return measuring.seconds(call, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime)


def measure(residues, xc, gradients=True):
    """Seconds of each part for one chain."""
    molecule = dftfd.molecule(gto.M(atom=atoms(f"alanine{residues}"), basis="def2-svp", verbose=0))
    progress = as_progress(False)
    calculation = Calculation.of(molecule, Options(xc=xc, density_fit=True))
    row = {"residues": residues, "ao": molecule.n_ao}
    row["grid and its orbitals"], parts = timed(lambda: calculation.build(progress))
    P, _ = starting_density("minao", parts)
    integrals, semilocal = parts.energy.of_kind(CoulombExchangeEnergy), parts.energy.of_kind(SemilocalEnergy)
    row["fitting tensor"], F = timed(lambda: parts.energy.evaluate(P).F)
    row["diagonalisation"], (energies, C) = timed(lambda: diagonalise(F, parts.X))
    occupation = np.zeros_like(energies)
    occupation[:, : calculation.n_occupied[0]] = calculation.capacity
    C_occ = occupied_orbitals(C, occupation)
    P = np.stack([C_s @ C_s.T for C_s in C_occ])
    row["XC matrix"], _ = timed(lambda: semilocal.evaluate(P, C_occ))
    row["Coulomb matrix"], _ = timed(lambda: integrals.builder.coulomb(P))
    row["fitting tensor"] -= row["XC matrix"] + row["Coulomb matrix"]  # the first matrices made it
    for omega, _ in integrals.exact_exchange:
        row["exchange matrix"], _ = timed(lambda omega=omega: integrals.builder.exchange(P, C_occ, omega))
        row["fitting tensor"] -= row["exchange matrix"]
    for name, term in (("gradient, integrals", integrals), ("gradient, XC", semilocal)) if gradients else ():
        row[name], _ = timed(lambda term=term: term.gradient(P, C_occ, True, progress))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--residues", type=int, nargs="+", default=(2, 4, 8))
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/growth.json")
    options = parser.parse_args()
    measuring.require_one_thread_for("cpu")
    measure(1, options.xc)  # compiled programs
    rows = []
    for residues in options.residues:
        rows.append(measure(residues, options.xc))
        print({key: round(value, 2) for key, value in rows[-1].items()}, flush=True)
    names = [key for key in rows[0] if key not in ("residues", "ao")]
    exponents = {key: {"largest two": exponent(rows[-2:], key), "all": exponent(rows, key)} for key in names}
    print(exponents)
    if options.save:
        measuring.keep("growth", [measuring.machine() | {"xc": options.xc, "exponents": exponents, "rows": rows}])


if __name__ == "__main__":
    main()
