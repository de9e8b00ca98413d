"""A grid functional: exchange with features that are integrals, in the manner of CIDER.

Each point weighs the density around it by a Gaussian whose width follows the density there,

    G(r) = int n(r') exp(-a(r) |r - r'|^2) d^3r',   a(r) = pi/2 (n(r) / 2)^(2/3),

K. Bystrom, B. Kozinsky, J. Chem. Theory Comput. 18, 2180 (2022), doi:10.1021/acs.jctc.1c00904. In a uniform gas G is 4,
where the density changes it is not, and a toy of a network makes an enhancement of exchange of that. The code is JAX
on arrays over all points of the grid; matrix, forces with the grid's motion and response follow.
"""

import jax
import jax.numpy as jnp
import numpy as np

import dftfd

C_X = -0.9305257363491
rng = np.random.default_rng(0)
WEIGHTS = {"in": rng.normal(size=(4, 2)), "out": 0.05 * rng.normal(size=4)}


def gaussian_integrals(n, points, weights):
    """G at each point, a few rows of the sum over all pairs at a time."""
    exponents = jnp.pi / 2 * (n / 2 + 1e-12) ** (2 / 3)

    @jax.checkpoint
    def at(one):
        r, a = one
        return jnp.sum(weights * n * jnp.exp(-a * jnp.sum((points - r[None]) ** 2, axis=1)))

    return jax.lax.map(at, (points, exponents), batch_size=256)


@dftfd.grid_functional("toy_cider_x")
def toy_cider(rho, grad_rho, points, weights, *, network=WEIGHTS):
    n = rho.sum(axis=0)
    G = gaussian_integrals(n, points, weights) / 4
    s2 = (grad_rho.sum(axis=0) ** 2).sum(axis=0) / (n + 1e-12) ** (8 / 3)
    features = jnp.stack([G / (1 + G), s2 / (1 + s2)])
    factor = 1 + network["out"] @ jnp.tanh(network["in"] @ features)
    return C_X * (weights @ (factor * (jnp.where(rho > 1e-20, rho, 1e-20) ** (4 / 3)).sum(axis=0)))


def main():
    molecule = dftfd.molecule("H 0 0 0; H 0 0 0.75", basis="6-31g")
    options = {"grid_level": 1, "conv_tol": 1e-10}
    result = dftfd.run_scf(molecule, "toy_cider_x", **options)
    force = result.forces()[1, 2]
    print(f"energy {result.energy:.8f} hartree, force {force:.8f} hartree/bohr")
    h, energies = 0.002, []
    for step in (h, -h):
        x = molecule.coordinates.copy()
        x[1, 2] += step
        energies.append(dftfd.run_scf(molecule.at(x), "toy_cider_x", **options).energy)
    print(f"force from a difference of energies {-(energies[0] - energies[1]) / (2 * h):.8f} hartree/bohr")
    print(f"polarisability along the bond {result.polarizability()[2, 2]:.6f} bohr^3")
    return force, -(energies[0] - energies[1]) / (2 * h)


if __name__ == "__main__":
    main()
