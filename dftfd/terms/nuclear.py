"""Repulsion among nuclei, and their energy in a field and near point charges."""

from dftfd.terms.term import Contribution, PySCFPart, Term


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

    def in_pyscf(self):
        self._surroundings.require_none_for_pyscf()
        return PySCFPart()
