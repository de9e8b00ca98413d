"""Inversion of ammonia by a nudged elastic band of ASE, and what it costs to be flat.

The band's highest image climbs to the saddle point, which symmetry gives, too: flat ammonia with the best bond length.

python examples/10_nudged_elastic_band.py
"""

import numpy as np
from ase import Atoms
from ase.mep import NEB
from ase.optimize import BFGS

from dftfd.ase import DFTFD

MODEL = {"xc": "pbe", "basis": "6-31g*", "grid_level": 1, "conv_tol": 1e-9}
CORNERS = np.array([[np.cos(a), np.sin(a), 0.0] for a in np.radians([0, 120, 240])])


def ammonia(height, bond=1.01):
    """NH3 with its nitrogen at a height [angstrom] above the plane of the hydrogens."""
    radius = np.sqrt(bond**2 - height**2)
    return Atoms("NH3", positions=np.vstack([[0.0, 0.0, height], radius * CORNERS]), calculator=DFTFD(**MODEL))


def relaxed(atoms):
    """The atoms where forces vanish, as far as the symmetry of the start lets them."""
    BFGS(atoms, logfile=None).run(fmax=0.01)
    return atoms


def main():
    """Print the energies along the band, and the barrier from it and from symmetry [eV]."""
    start = relaxed(ammonia(0.3))
    height, bond = start.positions[0, 2] - start.positions[1:, 2].mean(), start.get_distance(0, 1)
    images = [ammonia(h, bond) for h in np.linspace(height, -height, 5)]
    band = NEB(images, climb=True, method="improvedtangent")
    BFGS(band, logfile=None).run(fmax=0.03, steps=30)
    energies = np.array([image.get_potential_energy() for image in images])
    flat = relaxed(ammonia(0.0)).get_potential_energy()
    for image, energy in zip(images, energies - energies[0], strict=True):
        h = image.positions[0, 2] - image.positions[1:, 2].mean()
        print(f"nitrogen {h:6.3f} angstrom above the plane: {energy:.4f} eV")
    barrier, by_symmetry = energies.max() - energies[0], flat - start.get_potential_energy()
    print(f"barrier: {barrier:.4f} eV along the band, {by_symmetry:.4f} eV to flat ammonia")
    return barrier, by_symmetry


if __name__ == "__main__":
    main()
