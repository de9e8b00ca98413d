"""Atomic radii on which grids are scaled. Index 0 stands for a ghost centre without an element."""

import numpy as np

from dftfd.errors import UnsupportedError

BOHR_IN_ANGSTROM = 0.52917721092  # CODATA 2010, the value PySCF uses; radial scalings carry it into the points

HEAVIEST_ELEMENT = 118

# fmt: off
_BRAGG_SLATER_ANGSTROM = (
    1.999999,                                                       # no element
    0.35, 1.40,
    1.45, 1.05, 0.85, 0.70, 0.65, 0.60, 0.50, 1.50,                 # Li - Ne
    1.80, 1.50, 1.25, 1.10, 1.00, 1.00, 1.00, 1.80,                 # Na - Ar
    2.20, 1.80,                                                     # K, Ca
    1.60, 1.40, 1.35, 1.40, 1.40, 1.40, 1.35, 1.35, 1.35, 1.35,     # Sc - Zn
    1.30, 1.25, 1.15, 1.15, 1.15, 1.90,                             # Ga - Kr
    2.35, 2.00,                                                     # Rb, Sr
    1.80, 1.55, 1.45, 1.45, 1.35, 1.30, 1.35, 1.40, 1.60, 1.55,     # Y - Cd
    1.55, 1.45, 1.45, 1.40, 1.40, 2.10,                             # In - Xe
    2.60, 2.15,                                                     # Cs, Ba
    1.95, 1.85, 1.85, 1.85, 1.85, 1.85, 1.85,                       # La - Eu
    1.80, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75, 1.75,                 # Gd - Lu
    1.55, 1.45, 1.35, 1.35, 1.30, 1.35, 1.35, 1.35, 1.50,           # Hf - Hg
    1.90, 1.80, 1.60, 1.90, 1.45, 2.10,                             # Tl - Rn
    1.80, 2.15,                                                     # Fr, Ra
    1.95, 1.80, 1.80,                                               # Ac - Pa
    *(1.75,) * 27,                                                  # U - Og
)

_TREUTLER_AHLRICHS_SCALE = (
    1.0,                                                            # no element
    0.8, 0.9,
    1.8, 1.4, 1.3, 1.1, 0.9, 0.9, 0.9, 0.9,                         # Li - Ne
    1.4, 1.3, 1.3, 1.2, 1.1, 1.0, 1.0, 1.0,                         # Na - Ar
    1.5, 1.4,                                                       # K, Ca
    1.3, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.1, 1.1, 1.1,               # Sc - Zn
    1.1, 1.0, 0.9, 0.9, 0.9, 0.9,                                   # Ga - Kr: end of the published table
    2.0, 1.7,                                                       # Rb, Sr
    1.5, 1.5, 1.35, 1.35, 1.25, 1.2, 1.25, 1.3, 1.5, 1.5,           # Y - Cd
    1.3, 1.2, 1.2, 1.15, 1.15, 1.15,                                # In - Xe
    2.5, 2.2, 2.5,                                                  # Cs, Ba, La
    *(1.5,) * 29,                                                   # Ce - Rn
    2.5, 2.1, 3.685,                                                # Fr, Ra, Ac
    *(1.5,) * 29,                                                   # Th - Og
)

_GILL_JOHNSON_POPLE = (
    1.0,                                                            # no element
    1.0000, 0.5882,
    3.0769, 2.0513, 1.5385, 1.2308, 1.0256, 0.8791, 0.7692, 0.6838, # Li - Ne
    4.0909, 3.1579, 2.5714, 2.1687, 1.8750, 1.6514, 1.4754, 1.3333, # Na - Ar
)
# fmt: on


def _frozen(values) -> np.ndarray:
    table = np.array(values)
    table.setflags(write=False)
    return table


BRAGG_SLATER = _frozen(_BRAGG_SLATER_ANGSTROM) / BOHR_IN_ANGSTROM
"""Empirical radii [bohr]: J. C. Slater, J. Chem. Phys. 41, 3199 (1964), doi:10.1063/1.1725697; rare gases, At and the
heaviest elements, which Slater left out, are filled in as in PySCF."""
BRAGG_SLATER.setflags(write=False)

TREUTLER_AHLRICHS_SCALE = _frozen(_TREUTLER_AHLRICHS_SCALE)
"""xi, the extent of the radial grid M4 [bohr]: O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995),
doi:10.1063/1.469408, for H to Kr; from Rb up to Lr the values are those of Psi4 and PySCF,
which end there; 1.5 is continued to Og."""

GILL_JOHNSON_POPLE = _frozen(_GILL_JOHNSON_POPLE)
"""Slater-rule radii of the SG-1 grid [bohr]: P. M. W. Gill, B. G. Johnson, J. A. Pople, Chem. Phys. Lett. 209, 506
(1993), doi:10.1016/0009-2614(93)80125-9."""


def sg1_radius(atomic_number: int) -> float:
    """Radius of an element in the SG-1 grid [bohr]; the scheme is published for H to Ar."""
    if atomic_number >= len(GILL_JOHNSON_POPLE):
        raise UnsupportedError(
            f"SG-1 pruning was asked for an element with Z = {atomic_number}, but it is defined from H to Ar. "
            "Use pruning='nwchem'."
        )
    return float(GILL_JOHNSON_POPLE[atomic_number])
