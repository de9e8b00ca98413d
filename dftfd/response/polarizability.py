r"""Polarisabilities: the change of the dipole moment with an electric field, static and at a frequency.

    mu_x(w) = alpha_xy(w) F_y,   alpha_xy(w) = -s r_x . R_y(w),

with matrix elements r_x of the position and the response R_y to the perturbation +y (an electron's charge is -1);
s as in LinearResponse. What is left of the equations enters squared.
"""

import numpy as np

from dftfd.libcint.mole import position_integrals
from dftfd.response.linear_response import LinearResponse
from dftfd.runtime.arguments import number
from dftfd.runtime.progress import as_progress

TOLERANCE = 1e-6
FREQUENCY = number(lambda x: 0 <= x < 1e4, "a frequency of 0.0 or more hartree")


def polarizabilities(result, frequencies, progress=None) -> np.ndarray:
    """alpha (frequency, 3, 3) [bohr^3] of a result at frequencies [hartree]; see SCFResult.polarizability."""
    progress = as_progress(progress)
    response = LinearResponse(result, progress=progress)
    G = response.of_operators(position_integrals(result.molecule, 1))
    found = []
    for omega in frequencies:
        with progress.stage("polarizability"):
            R, _ = response.solve(G, omega, TOLERANCE)
        alpha = -response.scale * G @ R.T
        found.append((alpha + alpha.T) / 2)
    return np.stack(found)


def in_words(alpha, omega: float) -> str:
    """A table of alpha (3, 3) [bohr^3] with its mean and anisotropy."""
    mean = np.trace(alpha) / 3
    anisotropy = np.sqrt(1.5 * np.sum((alpha - mean * np.eye(3)) ** 2))
    rows = [f"polarizability / bohr^3 at {omega:g} hartree"]
    rows += [f"  {x} " + "".join(f"{value + 0.0:14.6f}" for value in row) for x, row in zip("xyz", alpha, strict=True)]
    return "\n".join([*rows, f"  mean {mean:.6f}, anisotropy {anisotropy:.6f}"])
