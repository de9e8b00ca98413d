"""Water from a script, and its exchange-correlation potential along an O-H bond next to libxc's.

The potential is the functional derivative of the energy, a function of r that is called at points. libxc has no such
function: its curve is put together from its second derivatives and the derivatives of the density.

    python examples/02_potential_along_a_bond.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

import dftfd
from dftfd.verify.check import libxc_potential
from dftfd.xc.density import evaluate_at

PICTURE = Path("potential_along_a_bond.png")  # in the current folder


def main(picture=PICTURE):
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    result = dftfd.run_scf(water, xc="pbe")
    print(result)

    oxygen, hydrogen = water.coordinates[:2]
    bond = np.linalg.norm(hydrogen - oxygen)
    t = np.linspace(-2.5, 4.5, 351)  # distance from the oxygen [bohr]
    points = oxygen + np.outer(t, (hydrogen - oxygen) / bond)

    v_xc = np.asarray(evaluate_at(result.v_xc, points))[:, 0]
    v_libxc = libxc_potential(result.functional, water, result.density_matrix, points)[0]
    difference = np.abs(v_xc - v_libxc)
    print(f"\nlargest difference between v_xc and libxc's at {len(t)} points: {difference.max():.1e} hartree")
    draw(picture, t, v_xc, v_libxc, bond)
    return difference.max()


def draw(picture, t, v_xc, v_libxc, bond):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7, 5.2), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    above.plot(t, v_libxc, color="tab:orange", linewidth=5, alpha=0.5, label="libxc, put together by hand")
    above.plot(t, v_xc, color="black", linewidth=1.2, label="dftfd, functional derivative of the energy")
    above.set_ylabel(r"$v_\mathrm{xc}$ / hartree")
    above.set_title("PBE potential of water along an O-H bond")
    above.legend(frameon=False, loc="lower right")
    below.plot(t, 1e15 * (v_xc - v_libxc), color="black", linewidth=0.8)
    below.set_ylabel("difference / $10^{-15}$")
    below.set_xlabel("distance from the oxygen / bohr")
    for axes in (above, below):
        for place in (0.0, bond):
            axes.axvline(place, color="0.8", linewidth=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    for name, place in (("O", 0.0), ("H", bond)):
        above.annotate(
            name, (place, 1.0), xycoords=("data", "axes fraction"), va="top", ha="center", backgroundcolor="w"
        )
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
