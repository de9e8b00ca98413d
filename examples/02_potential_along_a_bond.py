"""The exchange-correlation potential as a function of r, derived from the energy, next to libxc's hand-written one.

    python examples/02_potential_along_a_bond.py [picture.png]

PBE is written in dftfd as an energy only. Its functional derivative is a Function: evaluate it anywhere. libxc gives
partial derivatives of the energy density, from which v = de/drho - div(de/d(grad rho)) takes one more derivative,
here a finite difference.
"""

import sys
from pathlib import Path

import numpy as np
from pyscf import dft

import dftfd
from dftfd.density import evaluate_at
from dftfd.interop.pyscf import to_pyscf

STEP = 1e-3  # bohr, for the divergence of libxc's derivatives


def libxc_potential(molecule, P, points):
    """v_xc (point,) [hartree] of PBE for a closed-shell density matrix P (ao, ao), from PySCF's interface to libxc."""
    numint, mole = dft.numint.NumInt(), to_pyscf(molecule)

    def derivatives(points):  # de/drho and de/d(grad rho), (4, point)
        rho = numint.eval_rho(mole, numint.eval_ao(mole, points, deriv=1), P, xctype="GGA")
        return numint.eval_xc_eff("pbe,pbe", rho, deriv=1, xctype="GGA", spin=0)[1]

    v = derivatives(points)[0]
    for axis, shift in enumerate(STEP * np.eye(3), start=1):  # a five-point formula for each part of the divergence
        near = derivatives(points + shift)[axis] - derivatives(points - shift)[axis]
        far = derivatives(points + 2 * shift)[axis] - derivatives(points - 2 * shift)[axis]
        v = v - (8 * near - far) / (12 * STEP)
    return v


def picture(distance, ours, libxc, bond_length, file):
    """Both potentials along the bond, and their difference."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    axes.plot(distance, ours, lw=2, color="#1f5fa8", label="dftfd: derivative of the energy")
    axes.plot(
        distance[::6], libxc[::6], "o", ms=4.5, mfc="none", color="#d1495b", label="libxc: hand-written derivatives"
    )
    for x, name in ((0.0, "O"), (bond_length, "H")):
        axes.axvline(x, color="0.8", lw=1, zorder=0)
        axes.annotate(name, (x, axes.get_ylim()[1]), ha="center", va="bottom", annotation_clip=False)
    axes.set(xlabel="position along the O-H bond of water / bohr", ylabel=r"PBE $v_{xc}(r)$ / hartree")
    axes.set_ylim(max(-4.0, ours.min() - 0.1), 0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", framealpha=1.0, edgecolor="none")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main(file="potential_along_a_bond.png"):
    """Run the calculation, compare, draw; returns the largest difference [hartree]."""
    water = dftfd.molecule(Path(__file__).with_name("water.xyz"), basis="6-31g*")
    result = dftfd.run_scf(water, xc="pbe")

    oxygen, hydrogen = water.coordinates[:2]
    bond_length = np.linalg.norm(hydrogen - oxygen)
    distance = np.linspace(-1.5, bond_length + 1.5, 241)
    points = oxygen + distance[:, None] * (hydrogen - oxygen) / bond_length

    ours = np.asarray(evaluate_at(result.v_xc, points))[:, 0]  # alpha; beta is equal
    libxc = libxc_potential(water, result.density_matrix[0], points)
    away = np.minimum(abs(distance), abs(distance - bond_length)) > 0.05  # the density has cusps at the nuclei
    error = np.abs(ours - libxc)[away].max()
    print(f"largest difference from libxc on {away.sum()} points: {error:.1e} hartree")
    picture(distance, ours, libxc, bond_length, file)
    print(f"picture: {file}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
