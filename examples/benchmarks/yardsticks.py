"""Time of a whole SCF against Psi4 and against PySCF, at its defaults and tuned; calculations in turns.

    python examples/benchmarks/yardsticks.py --molecule benzene                    PBE, def2-SVP, fitted integrals
    python examples/benchmarks/yardsticks.py --gradient                            and the gradient of each
    python examples/benchmarks/yardsticks.py --suite small --save
    python examples/benchmarks/yardsticks.py --codes psi4 --xc b3lyp               Psi4 alone

Psi4 takes part where `psi4` is on the path. On Debian and Ubuntu: `apt install psi4 libopenblas0-openmp`. Both programs
run in processes of their own with the best BLAS kernels for the processor (`other_programs.py`), which each row names.
A row with generic ones is refused.

What is the same: geometries (of molecules.py, displaced in each round), basis, number of threads, energy threshold.
What is not, and what it costs in energy:
  Psi4    its grid, shells of 170 directions, as many points as level 3 within 5 % (told in each row), and no response
          of the grid in its gradient; its fitting basis, that of the orbital basis for exchange (jkfit) for every
          functional, where dftfd and PySCF fit the Coulomb energy of pure functionals in def2-universal-jfit: 1e-5 to
          1e-4 hartree; VV10 on its grid of 50 shells of 146 directions.
  PySCF   at its defaults, three-centre integrals of pure functionals in every cycle, VV10 on level 3; tuned, with the
          fitting tensor kept in memory and VV10 on the same level as dftfd. Its energies have to agree to 1e-8 hartree
          (1e-6 hartree per atom where VV10 is on another grid). Gradients with the response of the grid, as dftfd's.
Start-up is left out everywhere: each process first computes water.
"""

import argparse
import gc
import os
import shutil

import measuring
import numpy as np
import other_programs
from molecules import geometry

import dftfd
from dftfd.grids.molecular import grid_size
from dftfd.model.forces import nuclear_forces
from dftfd.runtime.progress import Progress

THREADS = os.environ.get("OMP_NUM_THREADS", "2")
NONLOCAL = ("-v",)  # endings of functionals with VV10
SUITES = {
    "small": (
        {"molecule": "benzene"},
        {"molecule": "caffeine"},
        {"molecule": "caffeine", "xc": "b3lyp"},
        {"molecule": "benzene", "xc": "wb97m-v", "codes": ("psi4",), "rounds": 3},
    ),
    "triple": tuple(
        {
            "molecule": molecule,
            "xc": xc,
            "basis": "def2-tzvp",
            "codes": ("psi4", "tuned"),
            "rounds": 3,
            "gradient": not xc.endswith(NONLOCAL),  # Psi4 1.3.2 has none with VV10
        }
        for molecule in ("benzene", "caffeine")
        for xc in ("pbe", "b3lyp", "r2scan", "wb97x-v")
    ),
}


def dftfd_run(mole, xc, gradient):
    """Energy, and seconds of the SCF and of the gradient."""
    gc.collect()
    options = {"xc": xc, "conv_tol": 1e-9, "progress": Progress()}
    seconds, found = {}, None
    seconds["scf"], found = measuring.seconds(lambda: dftfd.run_scf(dftfd.molecule(mole), **options))
    if gradient:
        seconds["gradient"], _ = measuring.seconds(lambda: nuclear_forces(found))
    return {"energy": float(found.energy), "seconds": seconds}


def measure(molecule, xc="pbe", basis="def2-svp", codes=("psi4", "pyscf", "tuned"), rounds=5, gradient=False):
    """One row of results: seconds, ratios and energy differences of each code to dftfd."""
    case = {"molecule": molecule, "basis": basis, "xc": xc}
    codes = [code for code in codes if code != "psi4" or shutil.which("psi4")]
    pyscf = other_programs.PySCF() if {"pyscf", "tuned"} & set(codes) else None

    def timed(code, name, number):
        mole = geometry(name, basis, 0, number)
        if code == "dftfd":
            return dftfd_run(mole, xc, gradient)
        if code == "psi4":
            return other_programs.psi4(mole, xc, basis, grid_size(mole.atom_charges(), 3), gradient)
        order = {"molecule": name, "xc": xc, "basis": basis, "pair": number, "gradient": gradient}
        return pyscf.run(**order, tuned=code == "tuned")

    for code in ("dftfd", *codes):  # compiled programs and libraries
        if code != "psi4":
            timed(code, molecule if code == "dftfd" else "water", None)
    found = [{code: timed(code, molecule, number) for code in (*codes, "dftfd")} for number in range(rounds)]
    if pyscf:
        pyscf.close()
    row = case | {"threads": THREADS, "kernels_asked_for": other_programs.best_kernels()}
    parts = ("scf", "gradient") if gradient else ("scf",)
    column = lambda code, part: np.array([entry[code]["seconds"][part] for entry in found])
    energies = lambda code: np.array([entry[code]["energy"] for entry in found])
    row["dftfd"] = {part: column("dftfd", part).tolist() for part in parts}
    for code in codes:
        error = float(np.abs(energies(code) - energies("dftfd")).max())
        per_atom = geometry(molecule).natm if xc.endswith(NONLOCAL) else 0
        if code != "psi4" and error > 1e-8 + 1e-6 * per_atom:
            raise SystemExit(f"{molecule} {xc}: {code} differs by {error:.1e} hartree")
        row[code] = {"energy_difference": error, "blas": found[0][code]["blas"]}
        for part in parts:
            ratios = column(code, part) / column("dftfd", part)
            row[code][part] = {
                "seconds": column(code, part).tolist(),
                "ratio": round(float(np.median(ratios)), 2),
                "ratio_range": [round(float(ratios.min()), 2), round(float(ratios.max()), 2)],
            }
    if "psi4" in codes:
        row["psi4"]["points"] = [found[0]["psi4"]["points"], grid_size(geometry(molecule).atom_charges(), 3)]
    return row


def report(row):
    """A line for each code and part."""
    ours = ", ".join(f"{part} {np.median(seconds):.2f} s" for part, seconds in row["dftfd"].items())
    lines = [f"{row['molecule']} {row['xc']} {row['basis']}: dftfd {ours}"]
    for code in ("psi4", "pyscf", "tuned"):
        for part in row["dftfd"] if code in row else ():
            r = row[code][part]
            low, high = r["ratio_range"]
            words = f"{part} {np.median(r['seconds']):.2f} s, ratio {r['ratio']} ({low} to {high})"
            lines.append(f"    {code:6s} {words}")
        if code in row:
            points = f", points {row[code]['points']}" if "points" in row[code] else ""
            used = ", ".join(f"{b['library']} {b['kernels']} x {b['threads']}" for b in row[code]["blas"])
            lines.append(f"           dE {row[code]['energy_difference']:.1e}{points}; {used}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", default="benzene")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--codes", default="psi4,pyscf,tuned", help="those to compare with, between commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gradient", action="store_true", help="time the gradient, too")
    parser.add_argument("--suite", choices=SUITES, help="the cases of a table")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/yardsticks.json")
    options = parser.parse_args()
    single = {"molecule": options.molecule, "xc": options.xc, "basis": options.basis, "gradient": options.gradient}
    single |= {"codes": tuple(options.codes.split(",")), "rounds": options.rounds}
    for case in SUITES[options.suite] if options.suite else (single,):
        row = measure(**case)
        print(report(row), flush=True)
        if options.save:
            measuring.keep("yardsticks", [measuring.machine() | row])


if __name__ == "__main__":
    main()
