"""D3 and D4 corrections, which depend on the positions of the nuclei alone."""

from functools import cached_property

from dftfd.libcint.dispersion_correction import dispersion_correction
from dftfd.terms.term import Contribution, Term


class DispersionEnergy(Term):
    """The correction of a version, with the parameters of a functional; see dftfd.functionals.empirical_dispersion."""

    components = {"dispersion": "dispersion correction"}
    stage = "dispersion derivatives"

    def __init__(self, molecule, version: str, functional: str):
        self._of = molecule, version, functional

    @cached_property
    def _energy_and_gradient(self):
        return dispersion_correction(*self._of)

    def prepare(self, progress):
        self.evaluate(None)

    def evaluate(self, P, C_occ=None):
        return Contribution({"dispersion": self._energy_and_gradient[0]})

    def gradient(self, P, C_occ, grid_response, progress):
        return self._energy_and_gradient[1]
