"""How soon a search finds the formula that its data come from: PBE, B88 and B97 exchange, and Becke's tau form of 2000.

    python data/discovery/rediscover.py [--seeds 10] [--jobs 1] [--hours 1] [--only gga_x_b88] [--records FOLDER]

Data are exchange energies of the molecules that come with dftfd, on their densities, by the library's functional. No
condition is asked for: B88 breaks the local Lieb-Oxford bound. A row is added to rediscovery.csv for each formula and
seed: candidates and seconds until the mean error is below 1e-5 kcal/mol, and how far F_x then is from the one sought
for s up to 3 (alpha up to 3). Rows that are there are not computed again, and with --records a search that was
interrupted goes on; its seconds are then those of the last run.
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import dftfd
from dftfd.discovery.expressions import at_points
from dftfd.discovery.forms import exchange_ingredients, native_exchange
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.running import discover
from dftfd.functionals.common import (
    slater_exchange,
    spin_gradient_squared,
    spin_scaled,
    uniform_kinetic_energy,
)

FOLDER = Path(__file__).parent
ENOUGH = 1e-5
SOUGHT = {
    "gga_x_pbe": ("s2",),
    "gga_x_b88": ("s2",),
    "mgga_x_becke00_form": ("s2", "alpha", "w"),
    "gga_x_b97_form": ("s2",),
}


@dftfd.functional("mgga_x_becke00_form")
@spin_scaled
def becke00(n, tau, *, A=0.5):
    """F_x = 1 + A (w - 2 w^3 + w^5), the inhomogeneity factor of A. D. Becke, J. Chem. Phys. 112, 4020 (2000)."""
    t = uniform_kinetic_energy(n) / tau
    w = (t - 1) / (t + 1)
    return slater_exchange(n) * (1 + A * (w - 2 * w**3 + w**5))


@dftfd.functional("gga_x_b97_form")
@spin_scaled
def b97(n, *, c1=0.5073, c2=0.7481, gamma=0.004):
    """F_x = 1 + c1 u + c2 u^2, u = gamma x^2 / (1 + gamma x^2): B97 exchange (A. D. Becke, J. Chem. Phys. 107, 8554
    (1997)) with the uniform gas's 1 for c0 = 0.8094. SyFES was shown on it (H. Ma et al., doi:10.1126/sciadv.abq0279).
    """
    x2 = spin_gradient_squared(n)
    u = gamma * x2 / (1 + gamma * x2)
    return slater_exchange(n) * (1 + c1 * u + c2 * u**2)


def data_of(name: str) -> TrainingPoints:
    """Exchange energies of a functional as if they were reactions, every other molecule for validation."""
    points = TrainingPoints.read()
    count = len(points.molecules)
    given = replace(
        points,
        base=np.zeros(count),
        stoichiometry=np.eye(count),
        reference=points.sum_x(native_exchange(name, points.x_s2, points.x_alpha)),
        reaction_weight=np.ones(count),
        reaction_names=points.molecules,
        subsets=("energies",) * count,
        role=tuple("validation" if k % 2 else "training" for k in range(count)),
    )
    return given


def specification(name: str, seed: int) -> dict:
    return {
        "name": "again",
        "seed": seed,
        "size": 100,
        "generations": 1000,
        "stop_below": ENOUGH,
        "exchange": {"ingredients": list(SOUGHT[name])},
        "correlation": {"form": ""},
    }


def rediscovered(name: str, seed: int, jobs: int = 1, hours: float | None = None, records: Path | None = None) -> dict:
    """A row: what was found, after how many candidates and seconds, and the largest difference of F_x."""
    began, cpu = time.perf_counter(), time.process_time()
    folder = None if records is None else records / f"{name}_{seed}"
    given = {"points": data_of(name), "jobs": jobs, "hours": hours, "folder": folder, "resume": folder is not None}
    found = discover(specification(name, seed), **given)
    best = min(found.front, key=lambda f: f.training)
    s2, alpha = (a.ravel() for a in np.meshgrid(np.linspace(0, 3, 61) ** 2, np.linspace(0.0, 3, 31)))
    F = 1 + at_points(best.candidate.x, exchange_ingredients(s2, alpha))
    off = float(np.abs(F - native_exchange(name, s2, np.maximum(alpha, 1e-12))).max())
    return {
        "sought": name,
        "seed": seed,
        "found": bool(best.training < ENOUGH),
        "number": best.number,
        "candidates": found.counts["fitted"],
        "training": f"{best.training:.2e}",
        "validation": f"{best.validation:.2e}",
        "largest_difference": f"{off:.2e}",
        "seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(time.process_time() - cpu, 1),
        "formula": str(best.candidate),
    }


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seeds", type=int, default=10)
    asked.add_argument("--jobs", type=int, default=1)
    asked.add_argument("--hours", type=float, help="of a search that has not found the formula")
    asked.add_argument("--only", choices=SOUGHT, help="one formula")
    asked.add_argument("--records", type=Path, help="folder for the records of the searches")
    given = asked.parse_args()
    path = FOLDER / "rediscovery.csv"
    done = set()
    if path.exists():
        with open(path, newline="") as stream:
            done = {(row["sought"], int(row["seed"])) for row in csv.DictReader(stream)}
    for name in [given.only] if given.only else SOUGHT:
        for seed in range(given.seeds):
            if (name, seed) in done:
                continue
            row = rediscovered(name, seed, given.jobs, given.hours, given.records)
            print(row, flush=True)
            new = not path.exists()
            with open(path, "a", newline="") as stream:
                writer = csv.DictWriter(stream, row)
                if new:
                    writer.writeheader()
                writer.writerow(row)
