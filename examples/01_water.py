"""Kohn-Sham energy of water, and where to find everything else in the result.

python examples/01_water.py
"""

from pathlib import Path

import dftfd

water = dftfd.molecule(Path(__file__).with_name("water.xyz"), basis="def2-svp")
result = dftfd.run_scf(water, xc="pbe", progress=True)

print()
print(result)
print()
print(f"energy        {result.energy:.8f} hartree, the sum of {', '.join(result.energies)}")
print(f"dipole moment {abs(result.dipole_debye[2]):.4f} debye")
print(f"density at O  {result.density(water.coordinates[0]).sum():.4f} electrons / bohr^3")
