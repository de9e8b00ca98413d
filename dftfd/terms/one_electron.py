"""Kinetic energy, nuclear attraction, core potentials, relativity, and what surrounds the molecule: tr(P H)."""

from functools import cached_property

import numpy as np

from dftfd.terms.integrals import OneElectron
from dftfd.terms.term import Contribution, Curvature, PySCFPart, Term
from dftfd.terms.traced import linear_energy


class OneElectronEnergy(Term):
    """tr(P H) with the core Hamiltonian of the molecule in its surroundings."""

    components = {"one_electron": "one-electron"}
    stage = "one-electron derivatives"
    is_linear = True

    def __init__(self, molecule, surroundings):
        self._molecule, self._surroundings = molecule, surroundings

    @cached_property
    def matrices(self) -> OneElectron:
        """Overlap, kinetic energy, potential and position operator."""
        return self._surroundings.one_electron(self._molecule)

    def evaluate(self, P, C_occ=None):
        H = self.matrices.H_core
        return Contribution({"one_electron": float(np.sum(P * H))}, {"one_electron": H[None]})

    def changes_from(self, P, C_occ=None):
        return lambda P, C_occ=None: {}

    def gradient(self, P, C_occ, grid_response, progress):
        return self._surroundings.one_electron_gradient(self._molecule, P.sum(axis=0))

    def curvature(self, P, C_occ, C, progress):
        found = self._surroundings.one_electron_curvature(self._molecule, P.sum(axis=0), C)
        return found and Curvature(*found)

    def traced(self, molecule, in_memory):
        in_field = {"one_electron": (np.zeros(3), self.matrices.dipole)}
        given = {} if in_memory else {"in_field": in_field, "field": self._surroundings.electric_field}
        return linear_energy(self, molecule.n_ao, **given)

    def with_numbers(self, functional, surroundings):
        return OneElectronEnergy(self._molecule, surroundings)

    def in_pyscf(self):
        return PySCFPart()
