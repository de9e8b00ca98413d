"""Self-consistent errors beside those on fixed densities: python data/discovery/self_consistent.py FOLDER --until HH:MM

PBE, BLYP and TPSS in def2-QZVP for atomisation energies of the smallest molecules that have densities, resumable;
`self_consistent.csv` has both errors and their difference, which the density makes.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np
from make_densities import solve, whole_set

from dftfd.benchmarks.energies import How, distinct_molecules
from dftfd.discovery.ingredients import Ingredients
from dftfd.discovery.scores import BASIS
from dftfd.libcint.mole import HARTREE_IN_KCAL

FUNCTIONALS = ("pbe", "blyp", "tpss")
MOLECULES = "h h2 f hf c n n2 o co o2 f2 oh ch4 nh3 h2o cl hcl s h2s hcn c2h2 no nh ch cn hco h2co".split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--until", default="23:59")
    given = parser.parse_args()
    record = given.folder / "self_consistent.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    done = {(one["molecule"], one["xc"]): one for one in map(json.loads, lines)}
    found = whole_set()
    distinct, keys, _ = distinct_molecules(found, How(BASIS))
    names = json.loads((given.folder / "names.json").read_text())
    for short in MOLECULES:
        name = f"w4-17/{short}"
        file = given.folder / f"{names[name].replace('/', '__')}.npz"
        if not file.exists():
            continue
        for xc in FUNCTIONALS:
            if (name, xc) in done or time.strftime("%H:%M") >= given.until:
                continue
            d = np.load(file)
            density = Ingredients(d["weights"], d["rho"], d["sigma"], d["tau"])
            fixed = float(d["base"]) + density.energy(xc)
            result = solve(distinct[keys[name]][1], xc)
            if result is None:
                continue
            done[name, xc] = {"molecule": name, "xc": xc, "fixed": fixed, "own": result.energy}
            with open(record, "a") as stream:
                stream.write(json.dumps(done[name, xc]) + "\n")
            print(name, xc, (fixed - result.energy) * HARTREE_IN_KCAL, flush=True)
    rows = []
    for reaction in found.reactions:
        for xc in FUNCTIONALS:
            if all((name, xc) in done for name, _ in reaction.stoichiometry):
                sums = [
                    sum(c * done[n, xc][which] for n, c in reaction.stoichiometry) * HARTREE_IN_KCAL
                    - reaction.reference
                    for which in ("fixed", "own")
                ]
                rows.append((f"{reaction.subset}/{reaction.name}", xc, *(f"{x:.4f}" for x in sums)))
    with open(Path(__file__).with_suffix(".csv"), "w", newline="") as stream:
        csv.writer(stream).writerows([("reaction", "functional", "on r2SCAN's density", "self-consistent"), *rows])
    for xc in FUNCTIONALS:
        errors = np.array([[float(x) for x in row[2:]] for row in rows if row[1] == xc])
        if len(errors):
            fixed, own = np.abs(errors).mean(axis=0)
            gap = errors[:, 0] - errors[:, 1]
            print(
                f"{xc}: MAE {fixed:.2f} on fixed densities, {own:.2f} self-consistent, n = {len(errors)}; difference "
                f"mean {gap.mean():.3f}, mean absolute {np.abs(gap).mean():.3f}, largest {np.abs(gap).max():.3f} kcal/mol"
            )


if __name__ == "__main__":
    main()
