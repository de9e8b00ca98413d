"""Repulsion among nuclei, and their energy in a field and near point charges."""

import numpy as np

from dftfd.terms.term import Contribution, PySCFPart, Term
from dftfd.terms.traced import linear_energy


class NuclearEnergy(Term):
    """E_nn of the molecule in its surroundings."""

    components = {"nuclear": "nuclear repulsion"}
    stage = "one-electron derivatives"
    is_linear = True

    def __init__(self, molecule, surroundings):
        self._molecule, self._surroundings = molecule, surroundings
        self.energy = float(surroundings.nuclear_energy(molecule))

    def evaluate(self, P, C_occ=None):
        return Contribution({"nuclear": self.energy})

    def gradient(self, P, C_occ, grid_response, progress):
        return self._surroundings.nuclear_gradient(self._molecule)

    def traced(self, molecule, in_memory):
        in_field = {"nuclear": (-molecule.nuclear_charges @ molecule.coordinates, np.zeros((3, 1, 1)))}
        given = {} if in_memory else {"in_field": in_field, "field": self._surroundings.electric_field}
        return linear_energy(self, molecule.n_ao, **given)

    def with_numbers(self, functional, surroundings):
        return NuclearEnergy(self._molecule, surroundings)

    def in_pyscf(self):
        return PySCFPart()
