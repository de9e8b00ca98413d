"""Densities of the molecules of dftfd's own benchmark sets on grids: python data/discovery/make_densities.py FOLDER

One file a molecule, cheap reactions first, with a budget of processor time. What is there, in the folder or in
dftfd/discovery/points.npz, is not computed again; with --all, what measure_points.py and self_consistent.py need, only
what is in the folder. `make_points.py` adds the molecules to that file. Anions are left out: def2-QZVP has no diffuse
functions.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

import dftfd
from dftfd.benchmarks import read_set
from dftfd.benchmarks.energies import CONTAMINATION, How, cost, distinct_molecules
from dftfd.benchmarks.reactions import BenchmarkSet
from dftfd.discovery.compression import ingredients_on_grid
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.scores import BASIS, SETS

XC = "r2scan"


def whole_set() -> BenchmarkSet:
    """All reactions of SETS without anions, molecules named SET/NAME."""
    species, reactions = {}, []
    for name in SETS:
        found = read_set(name)
        anions = {key for key, one in found.species.items() if one.charge < 0}
        species |= {f"{name}/{key}": one for key, one in found.species.items() if key not in anions}
        for reaction in found.reactions:
            if anions.isdisjoint(key for key, _ in reaction.stoichiometry):
                pairs = tuple((f"{name}/{key}", c) for key, c in reaction.stoichiometry)
                reactions.append((reaction, pairs))
    from dataclasses import replace

    reactions = [replace(r, stoichiometry=pairs) for r, pairs in reactions]
    return BenchmarkSet("discovery", species, tuple(reactions))


def solve(system, xc=XC, level=3):
    """The SCF result, of the lower state where one is in doubt."""
    found = None
    for how in ({}, {"convergence": "hard"}):
        try:
            result = dftfd.run_scf(system, xc, grid_level=level, **how)
        except dftfd.errors.DftfdError as error:
            print("   ", error, flush=True)
            continue
        if result.converged and (found is None or result.energy < found.energy - 1e-6):
            found = result
        s = system.spin / 2
        if found is not None and found.s_squared - s * (s + 1) < CONTAMINATION:
            break
    return found


def wanted(found, names, systems, there, subsets):
    """Molecules to compute, those of the cheapest reactions first; `there` need not be."""
    lacking = [dict.fromkeys(names[key] for key, _ in r.stoichiometry if names[key] not in there)
               for r in found.reactions if not subsets or r.subset in subsets]  # fmt: skip
    total = lambda keys: sum(cost(systems[key]) for key in keys)
    return list(dict.fromkeys(name for keys in sorted(lacking, key=total) for name in keys))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--basis", default=BASIS)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--until", default="")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("K", "N"), help="every N-th from K on")
    parser.add_argument("--subsets", nargs="*", help="only reactions of these")
    parser.add_argument("--all", action="store_true", help="those in points.npz, too")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    found = whole_set()
    distinct, keys, _ = distinct_molecules(found, How(given.basis))
    names = {name: distinct[key][0] for name, key in keys.items()}
    systems = dict(distinct.values())
    (given.folder / "names.json").write_text(json.dumps(names))
    there = set() if given.all else {*TrainingPoints.read().molecules}
    order = wanted(found, names, systems, there, given.subsets)
    print(len(order), "molecules,", len(found.reactions), "reactions", flush=True)
    spent = 0.0
    first, step = given.part
    for k, name in list(enumerate(order))[first::step]:
        system, file = systems[name], given.folder / (name.replace("/", "__") + ".npz")
        if file.exists():
            spent += float(np.load(file)["seconds"])
            continue
        if spent > given.seconds or (given.until and time.strftime("%H:%M") >= given.until):
            break
        start = time.process_time()
        result = solve(system)
        if result is None:
            print(k, name, "FAILED", flush=True)
            continue
        density = ingredients_on_grid(result)
        base = result.energy - result.energies["xc"]
        s = system.spin / 2
        seconds = time.process_time() - start
        spent += seconds
        temporary = file.with_suffix(".tmp.npz")
        np.savez(
            temporary,
            weights=density.weights,
            rho=density.rho,
            sigma=density.sigma,
            tau=density.tau,
            base=base,
            xc=result.energies["xc"],
            xc_fine=density.energy(XC),
            excess=result.s_squared - s * (s + 1),
            n_electrons=system.n_electrons,
            seconds=seconds,
        )
        os.replace(temporary, file)
        off = density.energy(XC) - result.energies["xc"]
        missing = density.rho.sum(axis=0) @ density.weights - system.n_electrons
        print(
            f"{k} {name} {system.n_ao} {len(density.weights)} points, E {result.energy:.6f}, grid {off * 627.5:.4f} "
            f"kcal/mol, electrons {missing:.1e}, {seconds:.1f} s, {spent:.0f} s in all",
            flush=True,
        )


if __name__ == "__main__":
    main()
