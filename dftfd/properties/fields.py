"""Quantities of space as Functions of the point r: they compose with operators of dftfd.autofd, as in laplacian(V)."""

import jax.numpy as jnp

from dftfd.autofd import Function, function
from dftfd.functionals.common import gradient_squared, per_spin, uniform_kinetic_energy
from dftfd.functionals.densities import SPACE
from dftfd.functionals.numerics import where_dense
from dftfd.properties.electrostatics import electron_potential, hermite_density


def electrostatic_potential(molecule, P) -> Function:
    """Potential that a unit positive charge sees [hartree / e], R^3 -> R; infinite at the nuclei.

    V(r) = sum_A Z_A / |r - R_A| - integral n(r') / |r - r'| dr'

    P: (spin, ao, ao). Z_A is the charge that the electrons see.
    """
    real = molecule.nuclear_charges != 0
    charges, positions = molecule.nuclear_charges[real], molecule.coordinates[real]
    density = hermite_density(molecule, sum(P))
    return function(_potential_at, SPACE, params=(jnp.asarray(charges), jnp.asarray(positions), density))


def _potential_at(charges, positions, density, r):
    distances = jnp.sqrt(jnp.sum((r[None, :] - positions) ** 2, axis=1))
    return jnp.sum(charges / distances) - electron_potential(density, r)


def localisation_function(rho: Function, tau: Function) -> Function:
    """Electron localisation function ELF, R^3 -> R, between 0 and 1; 1/2 in a uniform gas, 1 for one electron pair.

    ELF = 1 / (1 + (D / D_h)^2),   D = sum_s (tau_s - |nabla rho_s|^2 / (8 rho_s)),   D_h = the same of a uniform gas

    rho, tau: spin-resolved, R^3 -> R^2. A. D. Becke, K. E. Edgecombe, J. Chem. Phys. 92, 5397 (1990).
    doi:10.1063/1.458517, in the spin-polarised form of M. Kohout, A. Savin, Int. J. Quantum Chem. 60, 875 (1996).
    doi:10.1002/(SICI)1097-461X(1996)60:4<875::AID-QUA10>3.0.CO;2-4
    """

    def ratio_of(rho):
        D = per_spin(lambda n, tau_s: tau_s - gradient_squared(n) / (8.0 * n), rho, tau)
        D_h = per_spin(lambda n: 0.5 * uniform_kinetic_energy(2.0 * n), rho)
        return D_h**2 / (D_h**2 + D**2)

    return where_dense(ratio_of, rho)
