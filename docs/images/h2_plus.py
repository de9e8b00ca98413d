"""Dissociation of H2+ with local hybrids, PBE and exactly. Writes h2_plus.svg beside this file.

The rows are those of data/local_hybrids/one_electron.py.

    python docs/images/h2_plus.py
"""

import json
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROWS = Path(__file__).parents[2] / "data" / "local_hybrids" / "one_electron.json"
KCAL = 627.5095
INK, BLUE, ORANGE, GREEN = "#1f2933", "#3f51b5", "#c75b12", "#2e7d32"
CURVES = {
    "hf": ("exact (Hartree-Fock)", INK, "-", None),
    "x_one_electron, gga_c_lyp": ("local hybrid, exact for one electron", ORANGE, "none", "o"),
    "lh07t_svwn": ("LH07t-SVWN", GREEN, "--", None),
    "pbe": ("PBE", BLUE, "-.", None),
}


def main():
    rows = json.loads(ROWS.read_text(encoding="utf-8"))["H2+"]
    atom = json.loads(ROWS.read_text(encoding="utf-8"))["ions"]["H"]
    plt.rcParams.update({"font.size": 11, "text.color": INK, "axes.edgecolor": INK, "svg.hashsalt": "h2_plus"})
    figure, axes = plt.subplots(figsize=(7, 4.2))
    R = np.array([row["bohr"] for row in rows])
    for name, (label, colour, line, marker) in CURVES.items():
        E = KCAL * np.array([row[name] - atom[name] for row in rows])
        axes.plot(R, E, color=colour, linestyle=line, marker=marker, markerfacecolor="none", label=label)
    axes.axhline(0.0, color="#9aa5b1", linewidth=0.7)
    axes.set(xlabel="distance / bohr", ylabel="energy less that of an atom / kcal/mol", ylim=(-85, 30), xlim=(0.8, 20))
    axes.legend(frameon=False)
    figure.tight_layout()
    path = Path(__file__).with_name("h2_plus.svg")
    figure.savefig(path, metadata={"Date": None})
    print(path)


if __name__ == "__main__":
    main()
