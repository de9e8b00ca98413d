"""A solution with what it was made of, and its responses once a derivative asks for them."""

from functools import cached_property

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.model.calculation import Ingredients
from dftfd.model.forces import nuclear_forces
from dftfd.response.linear_response import LinearResponse
from dftfd.results.result import SCFResult

RESPONSE_TOLERANCE = 0.01
"""Of the coupled-perturbed equations, as a share of the perturbation: this part of the SCF's own orbital gradient."""

LARGE, LOOSE = 50, 1e-7
"""Pairs of orbitals from which a response begins with that of a cheaper energy, fewer than where many are asked for;
and the tolerance down to which it does: corrections by a cheaper energy stall sooner than its own products do."""

SMALLEST_GAP = 1e-6
"""Difference [hartree] of orbital energies below which an occupied and an empty orbital count as degenerate."""


class Solved:
    """A solution with what it was made of, and its responses once they are asked for."""

    def __init__(self, result: SCFResult, ingredients: Ingredients):
        self.result, self._ingredients = result, ingredients

    @cached_property
    def _response(self):
        large = LARGE if self._tolerance > LOOSE else None
        found = LinearResponse(self.result, ingredients=self._ingredients, large=large)
        _require_gaps(found)
        return found

    @cached_property
    def _kernel(self):
        return self._ingredients.energy.response(self.result.density_matrix)

    @property
    def _tolerance(self):
        return RESPONSE_TOLERANCE * np.sqrt(self.result.settings.options.conv_tol)

    def density_response(self, dF) -> np.ndarray:
        """dP (spin, ao, ao) of a change dF (spin, ao, ao) of the Fock matrix."""
        G = self._response.of_matrices(0.5 * (dF + dF.transpose(0, 2, 1))[:, None])
        return self._response.density_changes(self._response.solve(G, 0.0, self._tolerance)[0])[0]

    def fock_response(self, dP) -> np.ndarray:
        """dF (spin, ao, ao) of a change dP of the density matrix, at fixed functional."""
        return self._kernel(0.5 * (dP + dP.transpose(0, 2, 1)))

    def energy_gradient(self) -> np.ndarray:
        """dE/dR (atom, 3) [hartree/bohr]."""
        return -nuclear_forces(self.result).values


def _require_gaps(response: LinearResponse) -> None:
    """UnsupportedError where an occupied and an empty orbital have one energy: the density has no derivative there."""
    if response.size == 0 or np.abs(response.gaps).min() > SMALLEST_GAP:
        return
    worst = int(np.argmin(np.abs(response.gaps)))
    pairs = response.rotations.pairs
    p, q = (np.concatenate([pair[k] for pair in pairs])[worst] for k in (0, 1))
    s = int(np.repeat(np.arange(len(pairs)), [len(less) for less, _ in pairs])[worst])
    e = response.state.mo_energy[s]
    raise UnsupportedError(
        f"orbitals {int(q)} (occupied) and {int(p)} (less) of {'alpha' if s == 0 else 'beta'} spin are "
        f"degenerate, {e[q]:.6f} and {e[p]:.6f} hartree: the density has no derivative there; occupy "
        "them alike with occupations=."
    )
