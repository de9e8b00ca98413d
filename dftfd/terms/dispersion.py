"""Corrections that depend on the positions of the nuclei alone: dispersion, and gCP of the 3c methods."""

from functools import cached_property

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.empirical_dispersion import is_own, numbers_of, pairwise_dispersion
from dftfd.libcint.dispersion_correction import dispersion_correction
from dftfd.terms.term import Contribution, PySCFPart, Term


def correction(molecule, version: str, functional: str) -> tuple[float, np.ndarray]:
    """Energy [hartree] and its gradient (atom, 3) [hartree/bohr] of `Functional.dispersion`, such as 'd4+gcp'."""
    parts = [_part(molecule, part, functional) for part in version.split("+")]
    return sum(energy for energy, _ in parts), sum(gradient for _, gradient in parts)


def _part(molecule, version, functional):
    numbers = numbers_of(version, functional)
    if version not in ("d2", "chg"):
        return dispersion_correction(molecule, version, "" if is_own(functional) else functional, numbers)
    real, gradient = np.flatnonzero(~np.array(molecule.ghost)), np.zeros((molecule.n_atoms, 3))
    atoms = molecule.atomic_numbers[real], molecule.coordinates[real]
    energy, gradient[real] = pairwise_dispersion(*atoms, **numbers)
    return energy, gradient


class DispersionEnergy(Term):
    """The correction of a version, with the parameters of a functional; see dftfd.functionals.empirical_dispersion."""

    components = {"dispersion": "dispersion correction"}
    stage = "dispersion derivatives"
    is_linear = True

    def __init__(self, molecule, version: str, functional: str):
        self._of = molecule, version, functional

    @cached_property
    def _energy_and_gradient(self):
        return correction(*self._of)

    def prepare(self, progress):
        self.evaluate(None)

    def evaluate(self, P, C_occ=None):
        return Contribution({"dispersion": self._energy_and_gradient[0]})

    def gradient(self, P, C_occ, grid_response, progress):
        return self._energy_and_gradient[1]

    def in_pyscf(self):
        _, version, functional = self._of
        if not version.startswith(("d3", "d4")) or "+" in version or is_own(functional):
            raise UnsupportedError(
                f"to_pyscf() cannot hand over the correction {version!r} of {functional!r}, which PySCF lacks; run the "
                "calculation without it."
            )
        return PySCFPart(attributes={"disp": f"{version}:{functional}"})
