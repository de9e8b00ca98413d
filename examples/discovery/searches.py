"""Two searches of some hours, held-out reactions for what they find, and rediscovery with ten seeds.

    python examples/discovery/searches.py FOLDER [--hours 3] [--jobs 2] [--seeds 10] [--gscdb DATA]

FOLDER/gga and FOLDER/mgga hold the searches (docs/discovery.md), FOLDER/held_out.csv the comparison on fixed densities,
FOLDER/diet.csv a self-consistent one with --gscdb. Everything goes on where it was interrupted: searches from their
records up to the hours that they have had in all, comparisons that are there are not made again.
"""

import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

from dftfd import discover
from dftfd.discovery.candidate_fits import Problem
from dftfd.discovery.forms import native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints, ledger_in
from dftfd.discovery.scores import ratio, score_of, score_on_benchmark, score_on_fixed_densities

CONDITIONS = ["ex_nonpositive", "ex_bounded", "ec_nonpositive", "ec_scaling", "uc_monotone", "lieb_oxford"]
CONDITIONS += ["lieb_oxford_exc", "tc_upper"]  # all that PBE obeys
COMMON = {"generations": 100_000, "conditions": {"prove": CONDITIONS}}
SEARCHES = {
    "gga": {"exchange": {"ingredients": ["s2"]}, "correlation": {"form": "pbe", "ingredients": ["y", "t2"]}},
    "mgga": {
        "exchange": {"ingredients": ["s2", "alpha", "d"]},
        "correlation": {"form": "pbe", "ingredients": ["y", "alpha", "d"]},
    },
}
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


def self_consistent_scores(found, folder: Path, data: str, jobs: int) -> dict:
    """name -> Score on diet-150 without the reactions of the search, the peers with D3."""
    best = found.name_of(min(found.front, key=lambda f: f.score))
    own, why = f"{folder / best}.py:{best}", f"comparison of {best}"
    options = {"data": data, "jobs": jobs, "record": folder / "diet.jsonl"}
    functionals = [own, "pbe-d3bj", "revpbe-d3bj", "r2scan-d3bj"]
    return score_on_benchmark(functionals, "diet:150", TrainingPoints.read(), ledger_in(folder), why, **options)


def compared(path: Path, make) -> None:
    """Write a row for each score, with the ratio of the first one to it, unless the file is there."""
    if path.exists():
        return
    scores = make()
    first = next(iter(scores.values()))
    with open(path, "w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["functional", "reactions", "mean absolute error", "low", "high", "ratio", "low", "high"])
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
            compared(folder / "diet.csv", make)
    words = ["--seeds", str(given.seeds), "--jobs", str(given.jobs), "--hours", "1"]
    records = ["--records", str(given.folder / "rediscovery")]
    subprocess.run([sys.executable, ROOT / "data/discovery/rediscover.py", *words, *records], check=True)
