"""The one idea in one picture: an energy is written, everything else is derived. Writes idea.svg beside this file.

All four pictures on the right are computed for water (def2-SVP) with PBE, whose exchange is the formula on the left.

    python docs/images/idea.py
"""

from pathlib import Path

import jax
import matplotlib
import numpy as np

import dftfd
from dftfd.xc.density import evaluate_at

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

INK, BLUE, ORANGE = "#1f2933", "#3f51b5", "#c75b12"
CODE = """@dftfd.functional("gga_x_mine")
@spin_scaled
def mine(n, *, kappa=0.804, mu=0.2195):
    s2 = reduced_gradient_squared(n)
    F = 1 + kappa - kappa / (1 + mu * s2 / kappa)
    return slater_exchange(n) * F"""


def main():
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    result = dftfd.run_scf(water, "pbe", conv_tol=1e-10)
    plt.rcParams.update({"font.size": 11, "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK})
    plt.rcParams.update({"xtick.color": INK, "ytick.color": INK, "svg.hashsalt": "idea", "axes.titlesize": 12})
    figure = plt.figure(figsize=(11, 5.2), facecolor="white")
    formula(figure)
    places = [(x, y, 0.165, 0.27) for y in (0.555, 0.09) for x in (0.60, 0.825)]
    for draw, place in zip((potential, matrix, spectrum, forces), places, strict=True):
        draw(figure.add_axes(place), result)
    path = Path(__file__).with_name("idea.svg")
    figure.savefig(path, metadata={"Date": None})
    print(path)


def formula(figure):
    figure.text(0.02, 0.945, "You write the energy ...", fontsize=17, color=BLUE, weight="bold")
    box = {"boxstyle": "round,pad=0.9", "facecolor": "#eef0fb", "edgecolor": BLUE}
    figure.text(0.035, 0.53, CODE, family="monospace", fontsize=9.8, va="center", linespacing=1.7, bbox=box)
    figure.text(0.035, 0.24, "no derivative, no potential, no gradient code", fontsize=11.5, style="italic")
    style = {"arrowstyle": "simple,head_width=1.3,head_length=1.1,tail_width=0.45", "mutation_scale": 22, "color": BLUE}
    arrow = matplotlib.patches.FancyArrowPatch((0.452, 0.53), (0.545, 0.53), **style, transform=figure.transFigure)
    figure.add_artist(arrow)
    words = {"fontsize": 9.5, "ha": "center", "va": "center", "color": BLUE}
    figure.text(0.497, 0.385, "functional\nautomatic\ndifferentiation", **words)
    figure.text(0.565, 0.945, "... and get everything else", fontsize=17, color=ORANGE, weight="bold")


def potential(axes, result):
    oxygen, hydrogen = result.molecule.coordinates[:2]
    t = np.linspace(-2.5, 4.5, 200)
    points = oxygen + np.outer(t, (hydrogen - oxygen) / np.linalg.norm(hydrogen - oxygen))
    axes.plot(t, np.asarray(evaluate_at(result.v_xc, points))[:, 0], color=BLUE)
    axes.set(title="potential at any point", xlabel="along the bond / bohr")
    axes.set_ylabel("$v_{xc}$ / hartree", labelpad=1)
    axes.spines[["top", "right"]].set_visible(False)


def matrix(axes, result):
    F = np.asarray(jax.grad(dftfd.energy(result.molecule, "pbe"))(result.density_matrix))[0]
    axes.imshow(np.arcsinh(3 * F), cmap="RdBu", vmin=-4, vmax=4)
    axes.set(title="Kohn-Sham matrix", xticks=[], yticks=[], xlabel=r"$\partial E / \partial P$")


def spectrum(axes, result):
    found = result.excitations(12)
    w, strengths = 27.211386 * np.asarray(found.energies), np.asarray(found.oscillator_strengths)
    grid = np.linspace(w.min() - 1.5, w.max() + 1.5, 300)
    axes.fill_between(grid, (strengths[:, None] * np.exp(-(((grid - w[:, None]) / 0.4) ** 2))).sum(0), color="#f3c9a8")
    axes.vlines(w, 0, strengths, color=ORANGE)
    axes.set(title="excitations", xlabel="eV", yticks=[])
    axes.spines[["top", "right", "left"]].set_visible(False)


def forces(axes, result):
    where, F = result.molecule.coordinates[:, 1:], result.forces()[:, 1:]
    axes.plot(*where[[1, 0, 2]].T, color="0.6", linewidth=4, zorder=0)
    axes.scatter(*where.T, s=[420, 190, 190], color=["#d64545", "#e4e7eb", "#e4e7eb"], edgecolor=INK, zorder=1)
    style = {"angles": "xy", "scale_units": "xy", "scale": np.abs(F).max() / 0.9, "width": 0.022, "zorder": 2}
    axes.quiver(*where.T, *F.T, color=ORANGE, **style)
    axes.set(title="forces", xticks=[], yticks=[], xlim=(-2.8, 2.8), ylim=(-2.4, 1.6), xlabel=r"$-dE/dR$")
    axes.set_aspect("equal")


if __name__ == "__main__":
    main()
