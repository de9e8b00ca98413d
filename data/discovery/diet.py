"""Diet-150 for functionals that were found: python data/discovery/diet.py DATA FOLDER FILE.py:NAME [FILE.py:NAME ...]

Reactions whose molecules have ATOMS atoms at most, without those that a search used, in def2-TZVP, on the
self-consistent densities of PBE, so that a molecule is computed once for all functionals. The table, with weights of
WTMAD-2, is printed and goes to FOLDER/diet.csv, with the energies in FOLDER/diet.jsonl. DATA: DietGMTKN55 and GMTKN55.
"""

import argparse
import csv
from pathlib import Path

from dftfd.benchmarks.collections import read_set
from dftfd.discovery.points import TrainingPoints, ledger_in
from dftfd.discovery.scores import ratio, score_on_benchmark

ATOMS, BASIS, DENSITY = 21, "def2-tzvp", "pbe"
PEERS = ["pbe-d3bj", "revpbe-d3bj", "r2scan-d3bj"]

if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("data")
    asked.add_argument("folder", type=Path)
    asked.add_argument("functionals", nargs="+")
    asked.add_argument("--atoms", type=int, default=ATOMS)
    asked.add_argument("--jobs", type=int, default=2)
    given = asked.parse_args()
    found = read_set("diet:150", given.data)
    n_atoms = lambda name: found.species[name].atoms.count(";") + 1
    found = found.of(r for r in found.reactions if all(n_atoms(name) <= given.atoms for name, _ in r.stoichiometry))
    options = {"basis": BASIS, "density": DENSITY, "jobs": given.jobs, "record": given.folder / "diet.jsonl"}
    ledger, why = ledger_in(given.folder), f"diet-150 for {', '.join(given.functionals)}"
    scores = score_on_benchmark([*given.functionals, *PEERS], found, TrainingPoints.read(), ledger, why, **options)
    with open(given.folder / "diet.csv", "w", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["functional", "reactions", "weighted mean absolute error", "low", "high", *PEERS])
        for name, score in scores.items():
            numbers = [f"{x:.3f}" for x in (score.mean_absolute, score.low, score.high)]
            ratios = ["{:.2f} [{:.2f}, {:.2f}]".format(*ratio(score, scores[peer])) for peer in PEERS]
            rows.writerow([name, len(score.names), *numbers, *ratios])
    print((given.folder / "diet.csv").read_text())
