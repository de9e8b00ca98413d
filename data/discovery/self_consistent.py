"""Reaction energies on r2SCAN's densities beside self-consistent ones: python data/discovery/self_consistent.py FOLDER

In def2-QZVP for atomisation energies of the smallest molecules of make_densities.py, resumable, with --until HH:MM;
`self_consistent.csv` has both energies. References are not used, since some of these reactions are held out.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np
from make_densities import solve, whole_set

from dftfd.benchmarks.energies import How, distinct_molecules
from dftfd.discovery.compression import Ingredients
from dftfd.discovery.scores import BASIS
from dftfd.libcint.mole import HARTREE_IN_KCAL

FUNCTIONALS = ("pbe", "blyp", "tpss", "revpbe")
MOLECULES = "h h2 n n2 o c co h2o f hf hcn c2h2 ch4 nh3 o2 f2 co2 h2co".split()


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
                    for which in ("fixed", "own")
                ]
                rows.append((f"{reaction.subset}/{reaction.name}", xc, *(f"{x:.4f}" for x in sums)))
    with open(Path(__file__).with_suffix(".csv"), "w", newline="") as stream:
        csv.writer(stream).writerows([("reaction", "functional", "on r2SCAN's density", "self-consistent"), *rows])
    for xc in FUNCTIONALS:
        gap = np.array([float(row[2]) - float(row[3]) for row in rows if row[1] == xc])
        if len(gap):
            size = np.abs(gap)
            print(f"{xc}: mean {gap.mean():.2f}, absolute {size.mean():.2f}, largest {size.max():.2f}, n = {len(gap)}")


if __name__ == "__main__":
    main()
