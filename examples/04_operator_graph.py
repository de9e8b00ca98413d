"""A look at the operator graph: an energy, its functional derivative, and what the grid kernel is made of.

An energy density is a graph of operators on the density, which is itself a function. Differentiation turns the graph
into another graph of the same operators. `show` prints either; #3 stands for a node that was shown before.
"""

import jax.numpy as jnp

import dftfd
from dftfd import autofd
from dftfd.autofd import Domain, function, laplacian, nabla, show
from dftfd.functionals.registry import get_functional
from dftfd.xc.kernel import XCKernel

R3 = Domain((3,), name="r")


def weizsaecker(n):
    """Kinetic energy per volume of one orbital, |grad n|^2 / 8n."""
    return autofd.dot(nabla(n), nabla(n)) / (8 * n)


def main():
    density = function(hydrogen_density, R3)
    print("The energy density |grad n|^2 / 8n of von Weizsaecker\n")
    print(show(weizsaecker(density)))

    grid = hydrogen_grid()
    energy = lambda n: autofd.integrate(weizsaecker(n), quadrature=(grid.points, grid.weights))
    derivative = autofd.grad(energy)(density)
    print("\nIts functional derivative, |grad n|^2 / 8n^2 - laplacian(n) / 4n\n")
    print(show(derivative))

    r = jnp.array([0.3, -0.4, 0.5])
    n, grad_n, lap_n = density(r), nabla(density)(r), laplacian(density)(r)
    by_hand = jnp.dot(grad_n, grad_n) / (8 * n**2) - lap_n / (4 * n)
    print(f"\nat r = {r}:  {derivative(r):.15f}   by hand {by_hand:.15f}")
    print(f"energy of the hydrogen atom's density: {energy(density):.10f} hartree (exact: 0.5)")

    rho = function(lambda r: jnp.stack([hydrogen_density(r), 0.5 * hydrogen_density(r)]), R3)
    pbe_x = get_functional("gga_x_pbe")
    print("\nPBE exchange of a spin density, to depth 5\n")
    print(show(pbe_x.energy_density(rho), depth=5))
    kernel = XCKernel(get_functional("pbe"), n_spin=2)
    print(f"\nLowered to a grid: PBE needs the density to order {kernel.order}, {kernel.channels} numbers a spin.")
    return float(jnp.abs(derivative(r) - by_hand)), float(energy(density))


def hydrogen_density(r):
    """exp(-2|r|) / pi"""
    return jnp.exp(-2 * jnp.sqrt(jnp.dot(r, r))) / jnp.pi


def hydrogen_grid():
    """The quadrature of a hydrogen atom at the origin."""
    atom = dftfd.molecule("H 0 0 0;", basis="sto-3g", spin=1)
    return dftfd.molecular_grid(atom.atomic_numbers, atom.coordinates, level=3)


if __name__ == "__main__":
    main()
