"""Types of the arrays that packages hand to each other, what they hold and their axes in order; single precision.

A type checker sees arrays. The names of the axes are for readers, and tests/test_array_types.py holds them against the
arrays of calculations: an axis of one name has one length in a call. Letters and units are those of
docs/nomenclature.md.
"""

from collections.abc import Sequence
from typing import Annotated, Protocol

import numpy as np

DensityMatrix = Annotated[np.ndarray, "spin ao ao"]
FockMatrix = Annotated[np.ndarray, "spin ao ao"]
PartOfFock = Annotated[np.ndarray, "spin ao ao", "1 ao ao"]
"""What one component of the energy adds to the Fock matrix; with a first axis of length 1 the same for all spins."""

MatrixJet = Annotated[np.ndarray, "3 spin ao ao"]
"""P_0, P_1, P_2 of P_0 + e P_1 + e^2/2 P_2, or what belongs to each power of e."""

Overlap = Annotated[np.ndarray, "ao ao"]
Orthonormaliser = Annotated[np.ndarray, "ao mo"]
Orbitals = Annotated[np.ndarray, "spin ao mo"]
OrbitalEnergies = Annotated[np.ndarray, "spin mo"]
Occupations = Annotated[np.ndarray, "spin mo"]
NumberOfElectrons = Annotated[np.ndarray, "spin"]

OccupiedOrbitals = Sequence[Annotated[np.ndarray, "ao occupied"]]
"""Per spin, with P = C_occ C_occ^T."""

OrbitalRows = Sequence[Annotated[np.ndarray, "orbital ao"]]
"""Per spin."""

OrbitalChanges = Sequence[Annotated[np.ndarray, "trial orbital ao"]]
"""Per spin."""

NuclearGradient = Annotated[np.ndarray, "atom 3"]
NuclearHessian = Annotated[np.ndarray, "atom 3 atom 3"]

Points = Annotated[np.ndarray, "point 3"]
Weights = Annotated[np.ndarray, "point"]
OnPoints = Annotated[np.ndarray, "point"]
DensityOnGrid = Annotated[np.ndarray, "spin channel point"]
"""The density and its derivatives, or derivatives of an energy by them; channels as in dftfd.xc.channels."""


class ChangeOfOrbitals(Protocol):
    """A linear map of changes of orbitals dC to what the change dF of the Fock matrix does to them, dF C.

    Orbitals that change by dC change the density by dP = sum_q dC_q C_q^T + C_q dC_q^T; those that change by i dC by
    dP = i sum_q (dC_q C_q^T - C_q dC_q^T), for which the result is dF C / i: only exact exchange has any.
    imaginary: what is returned is (1 - imaginary) times the former and `imaginary` times the latter: 0 and 1 are the
    kernels of A + B and A - B, 1/2 that of A.   The result is per spin like dC; 0.0 stands for zeros.
    """

    def __call__(self, dC: OrbitalChanges, imaginary: float = 0.0) -> Sequence[np.ndarray | float]: ...


ROUNDING = 4096.0
"""What is added and taken away again: doubles near it are multiples of 2^-40."""


def to_single(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Multiples of 2^-40, about 1e-12, nearest to the values, as float32; `values` (float64) are overwritten.

    What is smaller becomes zero, and products of what is left are no denormal numbers, with which a processor takes a
    hundred times as long.
    """
    out = np.empty(values.shape, dtype=np.float32) if out is None else out
    values += ROUNDING
    return np.subtract(values, ROUNDING, out=out, casting="same_kind")
