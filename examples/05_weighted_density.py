"""A functional that is no sum over points: exchange of an averaged density, written as a double integral.

The uniform gas's exchange energy is taken at the density averaged around each point,

    e_x(r) = C_x n(r) nbar(r)^(1/3),   nbar(r) = integral of w(|r - r'|; k_F(r)) n(r') dr'

with a normalised Gaussian w whose width follows the local Fermi wavelength. The energy is nonlinear in the integral and
the kernel treats r and r' differently; nothing is known about either but the formula. Energy, potential and matrix are
derived, in memory that does not grow with the number of pairs of points.

Averaged densities: O. Gunnarsson, M. Jonson, B. I. Lundqvist, Phys. Rev. B 20, 3136 (1979),
doi:10.1103/PhysRevB.20.3136. The Gaussian is this example's choice, its parameter is fitted to nothing.
"""

import math

import numpy as np

import dftfd
from dftfd.autofd import constant, exp, with_quadrature
from dftfd.functionals.base import SPACE
from dftfd.functionals.common import C_X, fermi_wavevector
from dftfd.functionals.numerics import nonnegative
from dftfd.functionals.pairs import here, integral_over_there, squared_distance, there
from dftfd.grids.molecular import molecular_grid
from dftfd.xc.ao_store import AOStore
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel


@dftfd.functional("x_averaged_density", doi="10.1103/PhysRevB.20.3136")
def averaged_density_exchange(n, *, alpha=1.0):
    """Exchange energy per volume; w = (alpha k_F^2 / pi)^(3/2) exp(-alpha k_F^2 R^2), without spin polarisation."""
    a = alpha * fermi_wavevector(n) ** 2
    w = here((a / math.pi) ** (3 / 2)) * exp(-1.0 * here(a) * squared_distance(n))
    nbar = nonnegative(integral_over_there(w * there(n)))  # weights of a quadrature may be negative
    return C_X * n * nbar ** (1 / 3)


def main():
    neon = dftfd.molecule("Ne 0 0 0;", basis="6-31g")
    options = {"grid_level": 1, "nlc_grid_level": 1}
    result = dftfd.run_scf(neon, xc=averaged_density_exchange, **options)
    local = dftfd.run_scf(neon, xc="lda_x", **options)
    print(f"neon, exchange alone: averaged density {result.energy:.6f} hartree in {result.cycles} cycles")
    print(f"                      local density    {local.energy:.6f}")
    uniform, scaling, matrix = uniform_gas(), coordinate_scaling(), derivative(neon, result.density_matrix)
    print(f"uniform gas: energy per volume is the local one to {uniform:.1e}, relative")
    print(f"coordinate scaling: E_x[n_gamma] = gamma E_x[n] to {scaling:.1e}")
    print(f"matrix against a central difference of the energy: {matrix:.1e}, relative")
    return result, uniform, scaling, matrix


def energies(kernel, points, weights, n):
    """Energy of a density on a grid, nothing but n needed."""
    return kernel(points, weights, np.asarray(n)[None, None])[0]


def uniform_gas(n=0.3):
    """Relative error of e_x(r) for a constant density, as a function evaluated at the origin."""
    grid = molecular_grid([2], np.zeros((1, 3)), n_radial=60, n_angular=50, pruning=None)
    rho = constant(np.full(2, 0.5 * n), SPACE)
    e = with_quadrature(averaged_density_exchange.energy_density(rho), grid.points, grid.weights)
    return abs(float(e(np.zeros(3))) / (C_X * n ** (4 / 3)) - 1)


def coordinate_scaling(gamma=1.7):
    """Relative error of E_x[n_gamma] = gamma E_x[n], n_gamma(r) = gamma^3 n(gamma r), on scaled points."""
    grid = molecular_grid([2], np.zeros((1, 3)), level=0)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    n = np.exp(-2 * np.linalg.norm(points, axis=1))
    kernel = NonlocalXCKernel(averaged_density_exchange, 1)
    dense = n > 1e-12
    points, weights, n = points[dense], weights[dense], n[dense]
    scaled = energies(kernel, points / gamma, weights / gamma**3, gamma**3 * n)
    return abs(scaled / (gamma * energies(kernel, points, weights, n)) - 1)


def derivative(molecule, P):
    """Relative difference of <V, dP> and a fourth-order difference of the energy, in a random direction."""
    kernel = NonlocalXCKernel(averaged_density_exchange, 1)
    grid = molecular_grid(molecule.atomic_numbers, molecule.coordinates, level=0)
    builder = NonlocalXCBuilder(kernel, AOStore(molecule, grid.points, grid.weights, kernel.order))
    dP = np.random.default_rng(1).normal(size=P.shape) * 1e-3
    dP = dP + dP.transpose(0, 2, 1)
    h = 1e-2
    energy = lambda step: builder.build(P + step * dP).energy
    difference = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    return abs(np.vdot(builder.build(P).matrix, dP) / difference - 1)


if __name__ == "__main__":
    main()
