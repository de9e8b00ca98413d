"""How good the points are: python data/discovery/measure_points.py FOLDER

For each molecule of make_densities.py energies of functionals on the molecular grid and on compressed points of three
sizes, none of which the points were made with. FOLDER/measured has them, `points_errors.csv` the reaction energies.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from make_densities import whole_set

from dftfd.discovery import compression
from dftfd.discovery.compression import Ingredients
from dftfd.functionals.common import C_F, C_X, FERMI
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.xc.pointwise import pointwise_kernel

SIZES = {
    "200": (((10, 16), (512, 512)), ((6, 2, 6, 10), (128, 24, 96, 96))),
    "400": ((None, None), (None, None)),
    "800": (((26, 42), (768, 768)), ((12, 4, 12, 18), (160, 24, 128, 128))),
}
EXCHANGE = ("gga_x_pbe", "gga_x_b88", "gga_x_pbe_r", "gga_x_pw91", "mgga_x_r2scan", "mgga_x_tpss", "mgga_x_scan")
CORRELATION = ("gga_c_pbe", "gga_c_pw91", "mgga_c_r2scan")
LARGE = 12
"""The first of MOLECULES, which have points of the largest size."""

MOLECULES = """h c n o f h2 n2 co hf h2o f2 hcn c2h2 ch4 nh3 co2 h2co no oh nh ch cl hcl s h2s""".split()


def energy(xc, measure):
    """Exchange or correlation energy of a functional on the points of a measure [hartree]."""
    v = measure.variables
    if len(v) == 2:
        s2, alpha = v
        n, zeta, weights = np.ones_like(s2), np.zeros_like(s2), measure.weights / C_X
    else:
        r_s, zeta, s2, alpha = v
        n = 3 / (4 * np.pi * r_s**3)
        weights = measure.weights / n
    a, b = (1 + zeta) / 2, (1 - zeta) / 2
    sigma = 4 * FERMI ** (2 / 3) * s2 * n ** (8 / 3)
    d_s = 0.5 * ((1 + zeta) ** (5 / 3) + (1 - zeta) ** (5 / 3))
    tau = sigma / (8 * n) + C_F * n ** (5 / 3) * d_s * alpha
    rows = np.stack([a * n, b * n, a * a * sigma, a * b * sigma, b * b * sigma, 0 * n, 0 * n, a * tau, b * tau])
    (e,) = pointwise_kernel(get_functional(xc), 2)(rows, 0, compiled=False)
    return float(weights @ e[0])


def measured(folder, name, large):
    """{functional: {"grid": E, size: E}} of a molecule, from its file where it is there."""
    file = folder / "measured" / f"{name}.json"
    if file.exists():
        return json.loads(file.read_text())
    d = np.load(folder / f"{name}.npz")
    density = Ingredients(d["weights"], d["rho"], d["sigma"], d["tau"])
    found: dict = {}
    measures = compression.exchange_measure(density), compression.correlation_measure(density)
    for measure, functionals, which in zip(measures, (EXCHANGE, CORRELATION), (0, 1), strict=True):
        for xc in functionals:
            found[xc] = {"grid": energy(xc, measure)}
        for size, setup in SIZES.items():
            if size == "800" and not large:
                continue
            few = compression.compressed(measure, *setup[which])
            found.setdefault(f"points {'xc'[which]}", {})[size] = len(few.weights)
            for xc in functionals:
                found[xc][size] = energy(xc, few)
    file.write_text(json.dumps(found))
    print(name, found["points x"], found["points c"], flush=True)
    return found


def main(folder):
    (folder / "measured").mkdir(exist_ok=True)
    names = {key: name.replace("/", "__") for key, name in json.loads((folder / "names.json").read_text()).items()}
    files = [folder / f"w4-17__{name}.npz" for name in MOLECULES]
    found = {f.stem: measured(folder, f.stem, k < LARGE) for k, f in enumerate(files) if f.exists()}
    rows = []
    for reaction in whole_set().reactions:
        parts = [(names[name], c) for name, c in reaction.stoichiometry]
        if any(name not in found for name, _ in parts):
            continue
        for xc in (*EXCHANGE, *CORRELATION):
            energies = [(found[name][xc], c) for name, c in parts]
            there = [size for size in SIZES if all(size in E for E, _ in energies)]
            errors = {s: HARTREE_IN_KCAL * sum(c * (E[s] - E["grid"]) for E, c in energies) for s in there}
            rows.append({"reaction": f"{reaction.subset}/{reaction.name}", "functional": xc} | errors)
    with open(Path(__file__).with_name("points_errors.csv"), "w", newline="") as stream:
        writer = csv.DictWriter(stream, ["reaction", "functional", *SIZES])
        writer.writeheader()
        writer.writerows({key: f"{x:.5f}" if isinstance(x, float) else x for key, x in row.items()} for row in rows)
    for xc in (*EXCHANGE, *CORRELATION):
        for size in SIZES:
            errors = np.array([abs(row[size]) for row in rows if row["functional"] == xc and size in row])
            print(f"{xc} {size}: mean {errors.mean():.4f}, largest {errors.max():.4f} kcal/mol, n = {len(errors)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
