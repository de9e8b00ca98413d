"""Twenty femtoseconds of a water molecule out of its shape by ASE's molecular dynamics, and how well energy is kept.

Forces are the exact derivative of the energy, the quadrature grid's motion included; so the total energy stays, but for
the error of the time step, which falls with its square.

python examples/11_molecular_dynamics.py
"""

import numpy as np
from ase import units
from ase.build import molecule
from ase.md.verlet import VelocityVerlet

from dftfd.ase import DFTFD


def trajectory(step, length=20.0):
    """Potential and total energies [eV] and OH distances [angstrom] (time, 2) at steps [fs]."""
    water = molecule("H2O")
    water.calc = DFTFD(xc="pbe", basis="6-31g", grid_level=1, conv_tol=1e-9)
    water.rattle(0.04, seed=1)  # angstrom: it starts at rest, out of its equilibrium
    dynamics, rows = VelocityVerlet(water, timestep=step * units.fs), []

    def note():
        bonds = water.get_distance(0, 1), water.get_distance(0, 2)
        rows.append((water.get_potential_energy(), water.get_total_energy(), *bonds))

    dynamics.attach(note)
    dynamics.run(round(length / step))
    potential, total, *bonds = np.array(rows).T
    return potential, total, np.transpose(bonds)


def main():
    """Print a few geometries, and how much potential and total energy move; return the latter for two time steps."""
    spread = []
    for step in (1.0, 0.5):
        potential, total, bonds = trajectory(step)
        spread.append(float(np.ptp(total)))
        if step == 0.5:
            for k in range(0, len(bonds), 8):
                print(f"{k * step:5.1f} fs: OH {bonds[k, 0]:.3f} and {bonds[k, 1]:.3f} angstrom")
        print(f"steps of {step} fs: potential energy over {np.ptp(potential):.3f} eV, total over {spread[-1]:.5f} eV")
    return spread


if __name__ == "__main__":
    main()
