"""Central differences by the positions of nuclei, of two and of four points.

In a linearly dependent basis, functions with overlap eigenvalues s up to a threshold are left out (dftfd.scf.orbitals).
As nuclei move, the kept ones u turn into the left-out ones v, to first order by (v . dS/dR u) / (s_u - s_v), and at
the threshold the energy jumps.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dftfd.errors import InputError
from dftfd.libcint.mole import overlap_integrals

STEPS = {
    "differences": {2: 5e-3, 4: 2e-2},
    "response": {2: 2e-4, 4: 5e-4},
    "response, fitted ranges": {2: 1e-3, 4: 5e-3},
}
"""Displacement [bohr] by method and number of points, where none is given.

Without an SCF's error they are shorter: what sums over atoms miss zero by is the differences' own error, h^2 F''' / 6.
The metric of erf(omega r)/r is singular to rounding in every fitting basis, which leaves 1e-10 hartree/bohr in forces.
"""

WEIGHTS = {2: ((1, 1 / 2),), 4: ((1, 8 / 12), (2, -1 / 12))}


@dataclass(frozen=True)
class Differences:
    """How differences are taken: points (2 or 4), step [bohr], and whether polarisabilities are wanted, too."""

    points: int
    step: float
    raman: bool

    @property
    def shifts(self) -> tuple[int, ...]:
        """Displacements in units of the step."""
        return tuple(sign * k for k, _ in WEIGHTS[self.points] for sign in (1, -1))

    def derivative(self, values) -> np.ndarray:
        """d/dx of values (shift, ...) in the order of `shifts`."""
        pairs = zip(values[::2], values[1::2], WEIGHTS[self.points], strict=True)
        return sum(weight * (plus - minus) for plus, minus, (_, weight) in pairs) / self.step

    def __str__(self):
        return f"{self.points + 1}-point differences, step {self.step:g} bohr"


SHARE = {2: 1 / 500, 4: 1 / 100}
"""Step by number of points, as a share of the length over which kept functions turn by one radian.
Measured for H2 with a ghost in aug-cc-pVDZ, linear_dependence=1e-3: errors of 1.5e-5 and 7e-7 hartree/bohr^2."""

MARGIN = 3.0
"""How many times farther than the outermost point the threshold has to be, to first order."""

SHORTEST = 1e-4
"""Step [bohr] below which the rounding of forces, about 1e-9 hartree/bohr, is as large as the error."""

SHIFT = 1e-4
"""Displacement [bohr] for derivatives of the overlap."""


@dataclass(frozen=True)
class KeptFunctions:
    """n_left_out: eigenvalues of the overlap up to the threshold.   turning: length [bohr] over which a displacement of
    one coordinate turns the kept functions by one radian.   to_threshold: shortest displacement [bohr] of one
    coordinate that brings an eigenvalue to the threshold; both to first order.
    """

    n_left_out: int
    turning: float
    to_threshold: float

    def step(self, points: int, most: float) -> float:
        """Displacement [bohr], at most `most`; InputError where none is long enough."""
        found = min(most, self.turning * SHARE[points], self.to_threshold / (MARGIN * points / 2))
        if found < SHORTEST:
            raise InputError(
                f"the {self.n_left_out} linear combinations of basis functions that were removed change within "
                f"{found:.0e} bohr, too fast for differences of forces. Move linear_dependence= away from the "
                "eigenvalues of the overlap, or take a basis with fewer functions."
            )
        return found

    def __str__(self):
        return f"{self.n_left_out} dependent functions left out, turning within {self.turning:.2g} bohr"


def kept_functions(molecule, threshold: float) -> KeptFunctions:
    """Of a molecule whose overlap has eigenvalues up to the threshold."""
    s, U = scipy.linalg.eigh(overlap_integrals(molecule))
    out, turning, to_threshold = s <= threshold, 0.0, np.inf
    gaps = s[~out] - s[out][:, None]
    for b in range(molecule.coordinates.size):
        plus, minus = molecule.coordinates.copy(), molecule.coordinates.copy()
        plus[divmod(b, 3)] += SHIFT
        minus[divmod(b, 3)] -= SHIFT
        dS = (overlap_integrals(molecule.at(plus)) - overlap_integrals(molecule.at(minus))) / (2.0 * SHIFT)
        dS = U.T @ dS @ U
        turning = max(turning, float(np.linalg.norm(dS[np.ix_(out, ~out)] / gaps, 2)))
        rates = np.maximum(np.abs(np.diag(dS)), np.finfo(float).tiny)
        to_threshold = min(to_threshold, float(np.min(np.abs(s - threshold) / rates)))
    return KeptFunctions(int(out.sum()), 1.0 / max(turning, np.finfo(float).tiny), to_threshold)


def require_same_number(found, before, what: str) -> None:
    """Raise InputError where two results of one molecule keep different numbers of functions: the energy jumps."""
    n, n_before = found.mo_coeff.shape[2], before.mo_coeff.shape[2]
    if n != n_before:
        raise InputError(
            f"{what} keeps {n} of {found.mo_coeff.shape[1]} basis functions, the geometry itself {n_before}: the "
            "energy jumps between them. Take a shorter step=, or move linear_dependence= away from the eigenvalues "
            "of the overlap."
        )
