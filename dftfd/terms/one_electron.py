"""Kinetic energy, nuclear attraction, core potentials, relativity, and what surrounds the molecule: tr(P H)."""

from functools import cached_property

import numpy as np

from dftfd.terms.integrals import OneElectron
from dftfd.terms.term import Contribution, Curvature, PySCFPart, Term


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

    def in_pyscf(self):
        self._surroundings.require_none_for_pyscf()
        return PySCFPart()
