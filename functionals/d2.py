"""Dispersion from fixed coefficients of atoms: D2 of Grimme, and of Chai and Head-Gordon in wB97X-D.

    E = -s6 sum_{i<j} C6_ij f(r_ij) / r_ij^6,   C6_ij = sqrt(C6_i C6_j),   R_ij = R_i + R_j
    d2:   f = 1 / (1 + exp(-d (r/R - 1)))
    chg:  f = 1 / (1 + a (r/R)^-12)

S. Grimme, J. Comput. Chem. 27, 1787 (2006), table 1. doi:10.1002/jcc.20495
J.-D. Chai, M. Head-Gordon, Phys. Chem. Chem. Phys. 10, 6615 (2008), eqs. 6 and 7. doi:10.1039/b810189b
"""

import numpy as np

from dftfd.errors import UnsupportedError

_C6 = (
    *(0.14, 0.08, 1.61, 1.61, 3.13, 1.75, 1.23, 0.70, 0.75, 0.63, 5.71, 5.71, 10.79, 9.23, 7.84, 5.57, 5.07, 4.61),
    *(10.80,) * 12,
    *(16.99, 17.10, 16.37, 12.64, 12.47, 12.01),
    *(24.67,) * 12,
    *(37.32, 38.71, 38.44, 31.74, 31.50, 29.99),
)
"""J nm^6/mol, from hydrogen to xenon."""
_R0 = (
    *(1.001, 1.012, 0.825, 1.408, 1.485, 1.452, 1.397, 1.342, 1.287, 1.243),
    *(1.144, 1.364, 1.639, 1.716, 1.705, 1.683, 1.639, 1.595, 1.485, 1.474),
    *(1.562,) * 10,
    *(1.650, 1.727, 1.760, 1.771, 1.749, 1.727, 1.628, 1.606),
    *(1.639,) * 10,
    *(1.672, 1.804, 1.881, 1.892, 1.892, 1.881),
)
"""Angstrom."""
_BOHR = 0.52917721092
_C6_UNIT = 1e-3 / (2625.4996394798254 * (_BOHR / 10) ** 6)
"""J nm^6/mol in hartree bohr^6."""


def pairwise_dispersion(numbers, positions, *, s6: float, d: float = 0.0, a: float = 0.0):
    """Energy [hartree] and its gradient (atom, 3) [hartree/bohr].

    numbers: (atom,) atomic numbers.   positions: (atom, 3) [bohr].   d: steepness of Grimme's damping, or a: of Chai's.
    UnsupportedError beyond xenon, where the paper has no coefficients.
    """
    if max(numbers, default=0) > len(_C6):
        raise UnsupportedError("D2 has coefficients of the elements up to xenon; take D3 or D4 for heavier ones.")
    positions, index = np.asarray(positions), np.asarray(numbers, dtype=int) - 1
    C6, R0 = np.sqrt(np.array(_C6)[index] * _C6_UNIT), np.array(_R0)[index] / _BOHR
    i, j = np.triu_indices(len(index), 1)
    vectors = positions[i] - positions[j]
    r = np.linalg.norm(vectors, axis=1)
    x = r / (R0[i] + R0[j])
    damping = np.exp(-d * (x - 1)) if d else a * x**-12.0
    f = 1 / (1 + damping)
    df = f**2 * damping * (d * x if d else 12) / r
    energies = -s6 * C6[i] * C6[j] / r**6
    along = (energies * (df - 6 * f / r) / r)[:, None] * vectors
    gradient = np.zeros_like(positions)
    np.add.at(gradient, i, along)
    np.add.at(gradient, j, -along)
    return float((energies * f).sum()), gradient
