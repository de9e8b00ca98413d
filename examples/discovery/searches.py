"""Two searches of some hours, held-out reactions for what they find, and rediscovery with ten seeds.

    python examples/discovery/searches.py FOLDER [--hours 3] [--jobs 2] [--only gga] [--gscdb DATA]

FOLDER/gga and FOLDER/mgga hold the searches (docs/discovery.md), validation.csv, errors by which one of the front is
chosen, and held_out.csv, a comparison on fixed densities. With --gscdb, benchmark.csv compares it, self-consistently,
with others on random reactions of GSCDB137. All have D3(BJ). Everything goes on where it was interrupted: searches from
their records up to the hours that they have had in all, comparisons that are there are not made again. A search
begins with the formulas of FOLDER/gga/start.jsonl or FOLDER/mgga/start.jsonl, if there is one (`--from`).
"""

import argparse
import csv
import math
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from dftfd import discover
from dftfd.benchmarks.collections import read_set
from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.damping import fitted_damping, with_dispersion
from dftfd.discovery.forms import file_text, native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints, ledger_in
from dftfd.discovery.scores import (
    benchmark_set_of,
    ratio,
    score_of,
    score_on_benchmark,
    score_on_fixed_densities,
    score_self_consistent,
    used_reactions,
    without_reactions,
)
from dftfd.functionals.named_files import functional_in_file

CONDITIONS = ["ex_nonpositive", "ex_bounded", "ec_nonpositive", "ec_scaling", "uc_monotone", "lieb_oxford"]
CONDITIONS += ["lieb_oxford_exc", "tc_upper"]  # all that PBE obeys
DEMANDS = {
    "prove": CONDITIONS,
    "domain": {"s": [0, 1000], "alpha": [0, 1000], "zeta": [0, 0.9]},
    "polarised": ["ec_nonpositive", "ec_scaling", "uc_monotone", "tc_upper"],
    "boxes": 100_000,
}
COMMON = {"generations": 100_000, "complexity": 40, "largest_parameter": 10.0, "conditions": DEMANDS}
SEARCHES = {
    "gga": {
        "exchange": {"ingredients": ["s2"]},
        "correlation": {"form": "factor", "ingredients": ["t2", "rs", "s2", "z2"]},
        "dispersion": "revpbe-d3bj",
        "fit_damping": True,
    },
    "mgga": {
        "exchange": {"ingredients": ["s2", "b", "w"]},
        "correlation": {"form": "factor", "ingredients": ["t2", "b", "w", "rs"]},
        "dispersion": "r2scan-d3bj",
        "fit_damping": True,
    },
}
BASIS, LIMIT, SEED, ATOMS = "def2-tzvp", 80, 3, 13
"""Of the self-consistent comparison: random reactions of molecules of so many atoms at most."""
SLOW = "CUAGAU"
"""In names of clusters of copper, silver and gold, whose calculations take minutes: left out of comparisons."""
PEERS = {"pbe": "pbe", "revpbe": "pbe_r", "r2scan": "r2scan"}
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
    start = folder / "start.jsonl"
    options = {"hours": max(hours - had, 1e-6), "jobs": jobs, "candidates": start if start.exists() else None}
    return discover(given, folder=folder, resume=True, on_step=step, **options)


def damped(found, f, folder: Path) -> str:
    """FILE.py:NAME of a member of the front with damping parameters fitted to the training reactions.

    The search fits them to first order.
    """
    name, form = f"{found.name_of(f)}_d", found.specification.form
    if not (file := folder / f"{name}.py").exists():
        points = TrainingPoints.read().of("training")
        dispersion = fitted_damping(points, Problem.of_points(points, form).values(f.candidate))
        file.write_text(file_text(form, f.candidate, name, [f"Dispersion: {' '.join(dispersion)}."], dispersion))
    return f"{file}:{name}"


def best_of(found, folder: Path, jobs: int, finalists: int):
    """The member of the front whose self-consistent error of validation reactions is least, and its file.

    Of at most `finalists` whose error on fixed densities is at most half above the least: the best, and half of them
    spread over the others. Errors in validation.csv.
    """
    least = min(f.score for f in found.front)
    near = [f for f in reversed(found.front) if f.score < 1.5 * least]
    half = (finalists + 1) // 2
    leading, others = near[:half], near[half:]
    step = max(1, math.ceil(len(others) / max(finalists - half, 1)))
    spread = others[step // 2 :: step] if finalists > half else []
    near = {damped(found, f, folder): f for f in (*leading, *spread)}
    options = {"basis": BASIS, "jobs": jobs, "record": folder / "validation.jsonl"}
    points = TrainingPoints.read().of("validation")
    points = points.chosen([SLOW not in subset for subset in points.subsets])
    scores = dict(zip(near, score_self_consistent([*near], points, **options).values(), strict=True))
    rows = [f"{found.name_of(f)},{f.score:.3f},{scores[name].mean_absolute:.3f},{scores[name].n_missing}"
            for name, f in near.items()]  # fmt: skip
    (folder / "validation.csv").write_text("\n".join(["functional,fixed densities,self-consistent,missing", *rows, ""]))
    whole = [name for name in near if not scores[name].n_missing]  # calculations of the others do not converge
    if not whole:
        sys.exit(f"No member of the front compared in {folder} converges for all validation reactions.")
    best = min(whole, key=lambda name: scores[name].mean_absolute)
    return near[best], best


def scores_on_fixed_densities(found, best, file: str, folder: Path) -> dict:
    """name -> Score on the held-out reactions, of a member of the front and of its peers."""
    points = TrainingPoints.read().held_out(ledger_in(folder), f"comparison of the best of {found.specification.name}")
    own = with_dispersion(points, *functional_in_file(file).dispersion)
    errors = Problem.of_points(own, found.specification.form).values(best.candidate)
    scores = {found.name_of(best): score_of(errors, points.reaction_names)}
    c = points.c_rs, points.c_zeta, points.c_s2, points.c_alpha
    for peer, x in PEERS.items():
        kind, of_c = ("mgga", "r2scan") if peer == "r2scan" else ("gga", "pbe")
        F_x = native_exchange(f"{kind}_x_{x}", points.x_s2, points.x_alpha)
        own = with_dispersion(points, "d3bj", peer)
        scores[peer] = score_on_fixed_densities(own, F_x, native_correlation(f"{kind}_c_{of_c}", *c))
    return scores


def self_consistent_scores(own: str, folder: Path, data: str, jobs: int) -> dict:
    """name -> Score on random reactions of GSCDB137 but those of the search, all with D3(BJ)."""
    why = f"comparison of {own.rpartition(':')[2]}"
    points, every = TrainingPoints.read(), read_set("gscdb", data)
    every = without_reactions(every, benchmark_set_of(used_reactions(points)))
    small = lambda r: all(every.species[name].atoms.count(";") < ATOMS for name, _ in r.stoichiometry)
    reactions = every.of(r for r in every.reactions if small(r)).sample(LIMIT, SEED)
    reactions = reactions.of(r for r in reactions.reactions if SLOW not in r.name)
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
    asked.add_argument("--only", choices=SEARCHES, help="one of the searches, without rediscovery")
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument(
        "--finalists", type=int, default=5, help="members of the front that are compared self-consistently"
    )
    asked.add_argument("--gscdb", help="folder of GSCDB137, for the self-consistent comparison")
    given = asked.parse_args()
    for name in [given.only] if given.only else SEARCHES:
        folder = given.folder / name
        found = searched(name, folder, given.hours, given.jobs)
        print(found, flush=True)
        if not found.front:
            continue
        best, own = best_of(found, folder, given.jobs, given.finalists)
        compared(folder / "held_out.csv", partial(scores_on_fixed_densities, found, best, own, folder))
        if given.gscdb:
            compared(folder / "benchmark.csv", partial(self_consistent_scores, own, folder, given.gscdb, given.jobs))
    if given.only:
        sys.exit()
    words = ["--seeds", str(given.seeds), "--jobs", str(given.jobs), "--hours", "1"]
    records = ["--records", str(given.folder / "rediscovery")]
    subprocess.run([sys.executable, ROOT / "data/discovery/rediscover.py", *words, *records], check=True)
