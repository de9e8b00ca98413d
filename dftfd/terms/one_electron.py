"""Kinetic energy, attraction and repulsion of nuclei, core potentials, relativity, surroundings: tr(P H), E_nn."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dftfd.errors import InputError
from dftfd.libcint.derivatives import (
    core_hamiltonian_curvature,
    core_potential_derivative,
    electric_field_derivative,
    kinetic_energy_derivative,
    x2c_core_hamiltonian_derivative,
)
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.hermite_gaussians import coulomb_slopes, points_of
from dftfd.libcint.mole import point_charge_matrix, x2c_core_hamiltonian
from dftfd.terms.external import ExternalPotential, checked_potential
from dftfd.terms.integrals import OneElectron, one_electron
from dftfd.terms.solvent import USUAL_MODEL, Solvent, solvent_for
from dftfd.terms.term import Contribution, Curvature, PySCFPart, Term
from dftfd.terms.traced import linear_energy


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Checked options. electric_field: (3,) [hartree / (e bohr)].   charges: (k,) at positions (k, 3) [bohr].

    relativity: None, or 'x2c' for the spin-free exact two-component core Hamiltonian.
    potential: a function of r that a term of its own integrates (dftfd.terms.external), or None.   solvent: the same.
    """

    electric_field: np.ndarray
    charges: np.ndarray
    positions: np.ndarray
    relativity: str | None = None
    potential: ExternalPotential | None = None
    solvent: Solvent | None = None

    def one_electron(self, molecule) -> OneElectron:
        """The molecule's one-electron matrices with what surrounds it in V."""
        matrices = one_electron(molecule)
        V = matrices.V
        if self.relativity == "x2c":
            V = x2c_core_hamiltonian(molecule) - matrices.T
        if self.electric_field.any():
            V = V + np.einsum("x,xab->ab", self.electric_field, matrices.dipole)  # an electron's charge is -1
        if len(self.charges):
            V = V + point_charge_matrix(molecule, self.charges, self.positions)
        return matrices if V is matrices.V else replace(matrices, V=V)

    def nuclear_energy(self, molecule) -> float:
        """Repulsion among nuclei plus their energy in the field and near the point charges [hartree].

        The field's and the charges' own energies are not part of it.
        """
        Z, R = molecule.nuclear_charges, molecule.coordinates
        energy = molecule.nuclear_repulsion - float(Z @ R @ self.electric_field)
        for charge, position in zip(self.charges, self.positions, strict=True):
            distances = np.linalg.norm(R - position, axis=1)
            energy += float(charge * np.sum(Z[Z != 0] / distances[Z != 0]))
        return energy

    def nuclear_gradient(self, molecule) -> np.ndarray:
        """Derivative of `nuclear_energy` by the positions of the nuclei, (atom, 3) [hartree/bohr]."""
        Z, R = molecule.nuclear_charges, molecule.coordinates
        real = np.flatnonzero(Z)
        gradient = -Z[:, None] * self.electric_field
        for a in real:
            others = real[real != a]
            gradient[a] += _coulomb_slope(R[a], Z[a], R[others], Z[others])
            gradient[a] += _coulomb_slope(R[a], Z[a], self.positions, self.charges)
        return gradient

    def point_charge_gradient(self, molecule, P) -> np.ndarray:
        """Derivative of the energy by the positions of the charges, (charge, 3) [hartree/bohr], for a symmetric P.

        Neither orbitals nor nuclei move with a charge, so that of its interaction with both is all of it.
        """
        Z, R, k = molecule.nuclear_charges, molecule.coordinates, len(self.charges)
        points = points_of(-self.charges, self.positions)
        _, gradient = coulomb_slopes(gaussian_basis(molecule), P, points, molecule.n_atoms, k)
        of_nuclei = [_coulomb_slope(self.positions[c], self.charges[c], R[Z != 0], Z[Z != 0]) for c in range(k)]
        return gradient + np.reshape(of_nuclei, (k, 3))

    def one_electron_gradient(self, molecule, P) -> np.ndarray:
        """d tr(P H)/dR of the matrices of `one_electron` for a symmetric P (ao, ao), (atom, 3) [hartree/bohr]."""
        n, attracting = molecule.n_atoms, molecule.nuclear_charges
        if self.relativity == "x2c":
            gradient, attracting = x2c_core_hamiltonian_derivative(molecule, P), np.zeros(n)
        else:
            gradient = kinetic_energy_derivative(molecule, P) + core_potential_derivative(molecule, P)
        if self.electric_field.any():
            gradient += electric_field_derivative(molecule, P, self.electric_field)
        charges = np.append(attracting, self.charges)
        if charges.any():
            points = points_of(-charges, np.vstack([molecule.coordinates, self.positions]))
            of_orbitals, of_points = coulomb_slopes(gaussian_basis(molecule), P, points, n, len(charges))
            gradient += of_orbitals + of_points[:n]
        return gradient

    def one_electron_curvature(self, molecule, P, C):
        """As `core_hamiltonian_curvature`; None with anything in the surroundings."""
        if self.relativity or self.electric_field.any() or len(self.charges):
            return None
        return core_hamiltonian_curvature(molecule, P, C)


def _coulomb_slope(position, charge, others, charges):
    """Derivative of the charge's energy among other charges (k,) by its position, (3,)."""
    d = position - others
    return -charge * (charges / np.linalg.norm(d, axis=1) ** 3) @ d


def surroundings_for(
    molecule,
    electric_field=None,
    point_charges=None,
    relativity=None,
    external_potential=None,
    solvent=None,
    solvent_model=USUAL_MODEL,
) -> Surroundings:
    """Surroundings of a molecule from the options of run_scf, which are checked by themselves.

    electric_field: None or (3,).   point_charges: None, or rows (q, x, y, z) with positions in bohr.
    external_potential: None, a function of r, or a pair of it and 'electrons'; see dftfd.terms.external.
    solvent, solvent_model: see dftfd.terms.solvent.
    """
    field = np.zeros(3) if electric_field is None else electric_field
    rows = np.zeros((0, 4)) if point_charges is None else point_charges
    nuclei = molecule.coordinates[molecule.nuclear_charges != 0]
    for position in rows[:, 1:]:
        if np.any(np.linalg.norm(nuclei - position, axis=1) < 1e-6):
            raise InputError(f"a point charge sits on a nucleus, at {position} bohr.")
    potential, around = checked_potential(external_potential), solvent_for(solvent, solvent_model)
    return Surroundings(field, rows[:, 0], rows[:, 1:], relativity, potential, around)


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

    def incremental_build(self, P, C_occ=None):
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
