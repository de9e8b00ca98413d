"""Errors of known functionals on the training points: python data/discovery/known_functionals.py

Of training and validation reactions by set, with D3(BJ), to `known_functionals.csv`. Correlation is PBE's or r2SCAN's,
which are functions of the points' variables.
"""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from dftfd.discovery.damping import with_dispersion
from dftfd.discovery.forms import native_correlation, native_exchange
from dftfd.discovery.points import TrainingPoints
from dftfd.discovery.scores import score_on_fixed_densities

FUNCTIONALS = {
    "PBE": ("gga_x_pbe", "gga_c_pbe", "pbe"),
    "revPBE": ("gga_x_pbe_r", "gga_c_pbe", "revpbe"),
    "RPBE": ("gga_x_rpbe", "gga_c_pbe", "rpbe"),
    "BPBE": ("gga_x_b88", "gga_c_pbe", "bpbe"),
    "r2SCAN": ("mgga_x_r2scan", "mgga_c_r2scan", "r2scan"),
}
SETS = {
    "atomisation energies": ("W4-17",),
    "ionisation energies": ("G21IP",),
    "barriers": ("BH46", "DBH22"),
    "noncovalent": ("A24",),
}


def score(points, exchange, correlation, parameters):
    """The Score with D3(BJ) of these parameters."""
    points = with_dispersion(points, "d3bj", parameters)
    F_x = native_exchange(exchange, points.x_s2, points.x_alpha)
    return score_on_fixed_densities(
        points, F_x, native_correlation(correlation, points.c_rs, points.c_zeta, points.c_s2, points.c_alpha)
    )


if __name__ == "__main__":
    every = TrainingPoints.read()
    every = every.chosen([role != "held out" for role in every.role])
    masks = {name: np.isin(every.subsets, own) for name, own in SETS.items()}
    masks["all other kinds"] = ~np.any([*masks.values()], axis=0)
    parts = {f"{name}, {mask.sum()}": mask for name, mask in masks.items()}
    rows = [["", *parts]]
    for name, given in FUNCTIONALS.items():
        row = [name]
        for part in parts.values():
            points = every.chosen(part)
            found = score(replace(points, reaction_weight=np.ones(part.sum())), *given)
            row.append(f"{found.mean_absolute:.2f} [{found.low:.2f}, {found.high:.2f}]")
        rows.append(row)
    with open(Path(__file__).with_suffix(".csv"), "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
