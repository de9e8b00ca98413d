"""Atomisation energies of LH07t-SVWN, SVWN and B3LYP beside W4-11; rows are added to atomisation.json.

    python data/local_hybrids/atomisation.py [seconds]

def2-TZVP without density fitting, grid level 3, experimental geometries; electrons unpaired as the ground state has them.
References: nonrelativistic-clamped-nuclei TAE_e of W4-11 [kcal/mol]; A. Karton, S. Daon, J. M. L. Martin, Chem. Phys.
Lett. 510, 165 (2011), doi:10.1016/j.cplett.2011.05.007.
Each LH07t-SVWN energy is formed a second time from its density matrix without dftfd's formulas and integrals: PySCF's
numint, its one-electron integrals at points, and libxc's VWN.
"""
