"""Two searches of some hours, held-out reactions for what they find, and rediscovery with ten seeds.

    python examples/discovery/searches.py FOLDER [--hours 3] [--jobs 2] [--seeds 10] [--gscdb DATA]

FOLDER/gga and FOLDER/mgga hold the searches (docs/discovery.md) and held_out.csv, a comparison on fixed densities. With
--gscdb, what was found gets the D3(BJ) parameters of the published functional that make it best for A24, and
benchmark.csv compares it, self-consistently, with others on random reactions of GSCDB137. Everything goes on where it
was interrupted: searches from their records up to the hours that they have had in all, comparisons that are there are
not made again.
"""

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import dftfd
from dftfd import discover
from dftfd.benchmarks.collections import read_set
from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.forms import native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints, ledger_in
from dftfd.discovery.scores import (
    ratio,
    score_of,
    score_on_benchmark,
    score_on_fixed_densities,
    without_reactions,
)
from dftfd.functionals.named_files import functional_in_file
from dftfd.libcint.mole import HARTREE_IN_KCAL as KCAL
from dftfd.terms.dispersion import correction

CONDITIONS = ["ex_nonpositive", "ex_bounded", "ec_nonpositive", "ec_scaling", "uc_monotone", "lieb_oxford"]
CONDITIONS += ["lieb_oxford_exc", "tc_upper"]  # all that PBE obeys
COMMON = {"generations": 100_000, "conditions": {"prove": CONDITIONS}}
SEARCHES = {
    "gga": {"exchange": {"ingredients": ["s2"]}, "correlation": {"form": "pbe", "ingredients": ["y", "t2"]}},
    "mgga": {
        "exchange": {"ingredients": ["s2", "alpha", "d"]},
        "correlation": {"form": "pbe", "ingredients": ["y", "alpha", "d"]},
        "conditions": {"prove": CONDITIONS, "boxes": 100_000},  # 0.75 d in correlation: 13,000 and 33,000 boxes
    },
}
BASIS, LIMIT, SEED, ATOMS = "def2-tzvp", 40, 1, 12
"""Of the self-consistent comparison: random reactions of molecules of so many atoms at most."""
PEERS = {"pbe": "pbe", "revpbe": "pbe_r", "r2scan": "r2scan"}
PARENTS = "b97d blyp bp86 bpbe hcth120 olyp opbe pbe pbesol revpbe rpbe rpw86pbe xlyp revtpss r2scan scan tpss".split()
ROOT = Path(__file__).parents[2]


def searched(name: str, folder: Path, hours: float, jobs: int):
    """The Discovery of a search that has had `hours` in all, counted in FOLDER/hours."""
    folder.mkdir(parents=True, exist_ok=True)
    clock = folder / "hours"
    had, began = float(clock.read_text()) if clock.exists() else 0.0, time.monotonic()

    def step(found):
        spent = had + (time.monotonic() - began) / 3600
        clock.write_text(f"{spent:.5f}")
        print(f"{name}, {spent:.2f} h:", *found.summary, sep="\n  ", flush=True)

    given = COMMON | SEARCHES[name] | {"name": name}
    return discover(given, folder=folder, resume=True, hours=max(hours - had, 1e-6), jobs=jobs, on_step=step)


def scores_on_fixed_densities(found, folder: Path) -> dict:
    """name -> Score on the held-out reactions, of the member of the front with the best own score and of its peers."""
    points = TrainingPoints.read().held_out(ledger_in(folder), f"comparison of the best of {found.specification.name}")
    best = min(found.front, key=lambda f: f.score)
    errors = Problem.of_points(points, found.specification.form).values(best.candidate)
    scores = {found.name_of(best): score_of(errors, points.reaction_names, points.reaction_weight)}
    c = points.c_rs, points.c_zeta, points.c_s2, points.c_alpha
    for peer, x in PEERS.items():
        kind, of_c = ("mgga", "r2scan") if peer == "r2scan" else ("gga", "pbe")
        F_x = native_exchange(f"{kind}_x_{x}", points.x_s2, points.x_alpha)
        scores[peer] = score_on_fixed_densities(points, F_x, native_correlation(f"{kind}_c_{of_c}", *c))
    return scores


def dispersed(functional: str, folder: Path, jobs: int) -> str:
    """FILE.py:NAME of the functional with D3(BJ), whose parameters are those of a published semilocal functional.

    That with the smallest mean absolute error for A24, which is used for nothing else; errors of all in a24.csv.
    """
    path, name = functional.split(":")
    verdict = dftfd.benchmark("a24", functional_in_file(functional), jobs=jobs, record=folder / "a24.jsonl")
    species, known = verdict.benchmark_set.species, verdict.known(name)
    molecules = {
        key: dftfd.molecule(species[key].atoms, basis="sto-3g") for r, _ in known for key, _ in r.stoichiometry
    }
    errors = {}
    for parent in PARENTS:
        of = {key: KCAL * correction(molecule, "d3bj", parent)[0] for key, molecule in molecules.items()}
        shift = [sum(c * of[key] for key, c in reaction.stoichiometry) for reaction, _ in known]
        errors[parent] = float(np.abs([error for _, error in known] + np.array(shift)).mean())
    ranked = sorted(errors, key=errors.get)
    rows = [f"{parent},{errors[parent]:.3f}" for parent in ranked]
    (folder / "a24.csv").write_text("\n".join(["functional,mean absolute error for A24", *rows, ""]))
    own = Path(path).with_name(f"{name}_d3.py")
    own.write_text(
        f"{Path(path).read_text()}\n\nfrom dataclasses import replace\n\n"
        f'{name}_d3 = register(replace({name}, dispersion=("d3bj", "{ranked[0]}")).named("{name}_d3"))\n'
    )
    return f"{own}:{name}_d3"


def self_consistent_scores(found, folder: Path, data: str, jobs: int) -> dict:
    """name -> Score on random reactions of GSCDB137 but those of the search and of A24, all with D3."""
    best = found.name_of(min(found.front, key=lambda f: f.score))
    own, why = dispersed(f"{folder / best}.py:{best}", folder, jobs), f"comparison of {best}"
    points, every = TrainingPoints.read(), without_reactions(read_set("gscdb", data), read_set("a24"))
    small = lambda r: all(every.species[name].atoms.count(";") <= ATOMS for name, _ in r.stoichiometry)
    reactions = every.of(r for r in every.reactions if small(r)).sample(LIMIT, SEED)
    functionals = [own, "pbe-d3bj", "revpbe-d3bj", "r2scan-d3bj"]
    options = {"jobs": jobs, "record": folder.parent / "benchmark.jsonl", "basis": BASIS}
    return score_on_benchmark(functionals, reactions, points, ledger_in(folder), why, **options)


def compared(path: Path, make) -> None:
    """Write a row for each score, with the ratio of the first one to it, unless the file is there."""
    if path.exists():
        return
    scores = make()
    first = next(iter(scores.values()))
    with open(path, "w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(
            ["functional", "reactions", "mean absolute error", "low", "high", "ratio", "ratio low", "ratio high"]
        )
        for name, score in scores.items():
            numbers = score.mean_absolute, score.low, score.high, *ratio(first, score)
            rows.writerow([name, len(score.names), *(f"{x:.3f}" for x in numbers)])
    print(path.read_text(), flush=True)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--hours", type=float, default=3.0)
    asked.add_argument("--jobs", type=int, default=2)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--gscdb", help="folder of GSCDB137, for the self-consistent comparison")
    given = asked.parse_args()
    for name in SEARCHES:
        folder = given.folder / name
        found = searched(name, folder, given.hours, given.jobs)
        print(found, flush=True)
        if not found.front:
            continue
        compared(folder / "held_out.csv", lambda found=found, folder=folder: scores_on_fixed_densities(found, folder))
        if given.gscdb:
            make = lambda found=found, folder=folder: self_consistent_scores(found, folder, given.gscdb, given.jobs)
            compared(folder / "benchmark.csv", make)
    words = ["--seeds", str(given.seeds), "--jobs", str(given.jobs), "--hours", "1"]
    records = ["--records", str(given.folder / "rediscovery")]
    subprocess.run([sys.executable, ROOT / "data/discovery/rediscover.py", *words, *records], check=True)
