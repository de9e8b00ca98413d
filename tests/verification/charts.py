"""Pictures of what was measured, drawn from data/ for the pages of the site."""

import json
from collections.abc import Iterable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from tests.verification import regression

DATA = Path(__file__).parents[2] / "data"
BLUE, ORANGE, GREEN, RED = "#5b74e8", "#e07b39", "#3a9d5d", "#d64545"


def whole_calculations() -> None:
    """Time of Psi4 and of PySCF, tuned, over dftfd's for SCF and gradient, the latest measurement of each."""
    latest = {}
    for row in _read("benchmarks/yardsticks.json"):
        for program, code in (("Psi4", "psi4"), ("PySCF", "tuned")):
            for part, words in (("scf", "SCF"), ("gradient", "gradient")):
                if part in row.get(code, {}):
                    latest[f"{program}: {words}, {row['molecule']}, {row['xc']}/{row['basis']}"] = row[code][part]
    _ratios("whole calculations", latest, "wall time of the other program / dftfd's, two threads")


def kernels() -> None:
    """PySCF's (libxc's) time over dftfd's for energies and first derivatives, each functional once."""
    rows = {}
    for measurement in _read("benchmarks/functional_kernels.json"):
        for row in (row for row in measurement["rows"] if "ratio" in row):
            rows.setdefault(row["functional"].replace("-", ""), {})[row["spins"]] = row["ratio"]
    both = sorted((found for found in rows.values() if {1, 2} <= set(found)), key=lambda found: found[1])
    plt.figure("time of libxc over that of dftfd for each functional, one and two spins", figsize=(7, 3))
    for spins, colour in ((1, BLUE), (2, ORANGE)):
        plt.plot([found[spins] for found in both], ".", color=colour, label=f"{spins} spin{'s' * (spins > 1)}")
    plt.axhline(1, color="0.5", linewidth=0.8)
    plt.yscale("log")
    plt.yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    plt.xlabel(f"{len(both)} functionals, in order")
    plt.ylabel("libxc's time / dftfd's")
    plt.legend()


def matrices() -> None:
    """Seconds for a matrix of the XC energy over the size of alanine chains, log-log."""
    measurement = _read("benchmarks/scaling.json")[-1]
    rows = measurement["rows"]
    plt.figure("seconds for one matrix of the XC energy of alanine chains over their size", figsize=(6, 3))
    for code, colour in (("pyscf", ORANGE), ("dftfd", BLUE)):
        exponent = measurement["exponents"][code]
        label = f"{'PySCF' if code == 'pyscf' else code}: power {exponent}"
        plt.loglog([r["ao"] for r in rows], [r[f"{code}_seconds"] for r in rows], "o-", color=colour, label=label)
    plt.xlabel("basis functions")
    plt.ylabel("s")
    plt.legend()


def against_libxc() -> None:
    """The largest difference of each functional to libxc, energy and derivatives to third order."""
    reports = regression.read(DATA / "regression" / "libxc.h5").reports
    plt.figure("largest difference of each functional to libxc by order of the derivative", figsize=(7, 3.2))
    for order, (start, colour) in enumerate((("e,", BLUE), ("de", GREEN), ("d2", ORANGE), ("d3", RED))):
        largest = sorted(filter(None, (_largest(report.rows, start) for report in reports.values())))
        label = ("energy", "first derivatives", "second", "third")[order]
        plt.semilogy(np.linspace(0, 100, len(largest)), largest, color=colour, label=label)
    plt.xlabel(f"share of {len(reports)} functionals / %")
    plt.ylabel("largest difference")
    plt.legend()


def faults() -> None:
    """Faults that were tried, and what came of them."""
    kills, damage, interrupts = (_read(f"reliability/{name}.json") for name in ("kills", "damage", "interrupts"))
    sharing, definitions = _read("reliability/sharing.json"), _read("reliability/definitions.json")
    tried = {
        "SIGKILL: gone on": (kills["resumed"], kills["kills"]),
        "cut checkpoints: found": (damage["truncations found"], damage["truncations"]),
        "flipped bits: found": (damage["bit flips found"], damage["bit flips"]),
        "Ctrl-C: no traceback": (interrupts["interrupts"] - interrupts["tracebacks"], interrupts["interrupts"]),
        "eight processes: right energies": (sharing["right energies"], sharing["calculations"]),
        "broken definitions: refused": (definitions["broken ones refused"], definitions["broken ones"]),
    }
    plt.figure("faults that were tried, and how many ended as promised", figsize=(7, 2.6))
    names = list(tried)[::-1]
    plt.barh(names, [100 * tried[name][0] / tried[name][1] for name in names], color=GREEN, height=0.6)
    for place, name in enumerate(names):
        plt.text(101, place, f"{tried[name][0]} of {tried[name][1]}", va="center")
    plt.xlim(0, 118)
    plt.xticks([0, 50, 100])
    plt.xlabel("%")


def _largest(rows: Iterable, start: str) -> float:
    """The largest error of the quantities of one kind."""
    return max((float(row.error) for row in rows if row.quantity.startswith(start)), default=0.0)


def _ratios(words, rows, label):
    plt.figure(f"{words}: how many times faster than others", figsize=(7, 0.9 + 0.27 * len(rows)))
    names = sorted(rows, key=lambda name: rows[name]["ratio"])
    for place, name in enumerate(names):
        plt.plot(rows[name]["ratio_range"], [place, place], color=BLUE, linewidth=2)
        plt.plot(rows[name]["ratio"], place, "o", color=BLUE)
    plt.yticks(range(len(names)), names)
    plt.axvline(1, color="0.5", linewidth=0.8)
    plt.xlim(0, None)
    plt.xlabel(label)


def _read(name):
    return json.loads((DATA / name).read_text())
