"""Time of a whole SCF against Psi4 and against PySCF, at its defaults and tuned; calculations in turns.

    python examples/benchmarks/yardsticks.py --molecule benzene                    PBE, def2-SVP, fitted integrals
    python examples/benchmarks/yardsticks.py --suite --save
    python examples/benchmarks/yardsticks.py --codes psi4 --xc b3lyp               Psi4 alone

Psi4 takes part where `psi4` is on the path. On Debian and Ubuntu: `apt install psi4 libopenblas0-openmp`; with the
reference BLAS that comes with psi4 alone it is four times slower, and the comparison would be worth nothing. The same
holds where another OpenBLAS stands first: `update-alternatives --config libblas.so.3-x86_64-linux-gnu` (and
liblapack.so.3) has to say openblas-openmp.

What is the same: geometries (those of scf.py, displaced in each round), basis, number of threads, energy threshold.
What is not, and what it costs in energy:
  Psi4    its grid, shells of 170 directions, as many points as level 3 within 5 % (told in each row); its fitting
          basis, def2-svp-jkfit for every functional, where dftfd and PySCF fit the Coulomb energy of pure functionals
          in def2-universal-jfit: 1e-5 to 1e-4 hartree; VV10 on its grid of 50 shells of 146 directions.
  PySCF   at its defaults, three-centre integrals of pure functionals in every cycle, VV10 on level 3; tuned, with the
          fitting tensor kept in memory and VV10 on the same level as dftfd. Its energies have to agree to 1e-8 hartree
          (1e-6 hartree per atom where VV10 is on another grid).
Start-up is left out everywhere: Psi4's process first computes water.
"""

import argparse
import gc
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import measuring
import numpy as np
from pyscf import dft
from scf import dftfd_run, geometry, pyscf_run

from dftfd.grids.molecular import grid_size

THREADS = os.environ.get("OMP_NUM_THREADS", "2")
CLOCK = measuring.CLOCKS["wall"]
SUITE = (
    {"molecule": "water"},
    {"molecule": "benzene"},
    {"molecule": "caffeine"},
    {"molecule": "caffeine", "xc": "b3lyp"},
    {"molecule": "benzene", "xc": "wb97m-v", "codes": ("psi4",), "rounds": 3},
)
NONLOCAL = ("-v",)  # endings of functionals with VV10
NLC_LEVEL = 1
DIRECTIONS, KEPT = 170, 0.978
"""Of a shell in Psi4's grid, and the share of its points that have a weight worth keeping."""

PSI4_INPUT = """
import json, time
memory 8 GB
set {{ basis {basis}
 scf_type df
 e_convergence 1e-9
 d_convergence 1e-6
 dft_radial_points {shells}
 dft_spherical_points 170
}}
molecule warm {{
O 0 0 0.1173
H 0 0.7572 -0.4692
H 0 -0.7572 -0.4692
}}
energy("{xc}")
molecule asked {{
{charge} {multiplicity}
{atoms}
units bohr
no_com
no_reorient
symmetry c1
}}
begun = time.perf_counter()
found = energy("{xc}")
with open("found.json", "w") as file:
    json.dump({{"seconds": time.perf_counter() - begun, "energy": found}}, file)
"""


def psi4_run(mole, case):
    """Energy, seconds and grid points of Psi4, in a process of its own."""
    atoms = "\n".join(
        f"{mole.atom_pure_symbol(i)} " + " ".join(f"{x:.12f}" for x in mole.atom_coord(i)) for i in range(mole.natm)
    )
    settings = {"basis": case["basis"], "xc": case["xc"], "charge": mole.charge, "multiplicity": mole.spin + 1}
    level_3 = grid_size(mole.atom_charges(), 3)
    settings["shells"] = round(level_3 / (KEPT * DIRECTIONS * mole.natm))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "input.dat").write_text(PSI4_INPUT.format(atoms=atoms, **settings))
        run = subprocess.run(["psi4", "-n", THREADS, "input.dat", "output.dat"], cwd=folder, capture_output=True)
        output = Path(folder, "output.dat").read_text()
        if run.returncode:
            raise SystemExit(f"psi4: {run.stderr.decode()[-500:]} {output[-1500:]}")
        points = [int(line.split("=")[1]) for line in output.splitlines() if "Total Points" in line]
        return json.loads(Path(folder, "found.json").read_text()) | {"points": [points[-1], level_3]}


def tuned_run(mole, xc, density_fit):
    """PySCF with its fitting tensor built once, and VV10 on the level of dftfd's default."""
    solver = (dft.UKS if mole.spin else dft.RKS)(mole, xc=xc).density_fit()
    solver.conv_tol, solver.nlcgrids.level = 1e-9, NLC_LEVEL
    solver.grids.build(with_non0tab=True)
    solver.with_df.build()
    solver.kernel()
    return {"energy": solver.e_tot}


def timed(code, case, number):
    """One calculation: energy and seconds."""
    mole = geometry(case["molecule"], case["basis"], 0, number)
    if code == "psi4":
        return psi4_run(mole, case)
    gc.collect()
    run = {"dftfd": dftfd_run, "pyscf": pyscf_run, "tuned": tuned_run}[code]
    duration, found = measuring.seconds(lambda: run(mole, case["xc"], True), CLOCK)
    return {"energy": float(found["energy"]), "seconds": duration}


def measure(molecule, xc="pbe", basis="def2-svp", codes=("psi4", "pyscf", "tuned"), rounds=5):
    """One row of results: seconds, ratios and energy differences of each code to dftfd."""
    case = {"molecule": molecule, "basis": basis, "xc": xc}
    codes = [code for code in codes if code != "psi4" or shutil.which("psi4")]
    for code in ("dftfd", *codes):  # compiled programs and libraries
        if code != "psi4":
            timed(code, case | {"molecule": molecule if code == "dftfd" else "water"}, None)
    found = [{code: timed(code, case, number) for code in (*codes, "dftfd")} for number in range(rounds)]
    column = lambda code, key: np.array([row[code][key] for row in found])
    row = case | {"threads": THREADS, "dftfd_seconds": column("dftfd", "seconds").tolist()}
    for code in codes:
        ratios = column(code, "seconds") / column("dftfd", "seconds")
        error = np.abs(column(code, "energy") - column("dftfd", "energy")).max()
        per_atom = geometry(molecule).natm if xc.endswith(NONLOCAL) else 0
        if code != "psi4" and error > 1e-8 + 1e-6 * per_atom:
            raise SystemExit(f"{molecule} {xc}: {code} differs by {error:.1e} hartree")
        row[code] = {
            "seconds": column(code, "seconds").tolist(),
            "ratio": round(float(np.median(ratios)), 2),
            "ratio_range": [round(float(ratios.min()), 2), round(float(ratios.max()), 2)],
            "energy_difference": float(error),
        }
    if "psi4" in codes:
        row["psi4"]["points"] = found[0]["psi4"]["points"]
    return row


def report(row):
    """One line per code."""
    ours = np.median(row["dftfd_seconds"])
    lines = [f"{row['molecule']} {row['xc']} {row['basis']}: dftfd {ours:.2f} s"]
    for code in ("psi4", "pyscf", "tuned"):
        if code in row:
            r = row[code]
            low, high = r["ratio_range"]
            points = f", points {r['points']}" if r.get("points") else ""
            words = f"{np.median(r['seconds']):.2f} s, ratio {r['ratio']} ({low} to {high})"
            lines.append(f"    {code:6s} {words}, dE {r['energy_difference']:.1e}{points}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", default="benzene")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--codes", default="psi4,pyscf,tuned", help="those to compare with, between commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suite", action="store_true", help="the cases of the table")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/yardsticks.json")
    options = parser.parse_args()
    single = {"molecule": options.molecule, "xc": options.xc, "basis": options.basis}
    single |= {"codes": tuple(options.codes.split(",")), "rounds": options.rounds}
    for case in SUITE if options.suite else (single,):
        row = measure(**case)
        print(report(row), flush=True)
        if options.save:
            measuring.keep("yardsticks", [measuring.machine() | row])


if __name__ == "__main__":
    main()
