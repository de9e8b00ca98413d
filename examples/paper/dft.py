"""Exchange energy and potential of a density by functional differentiation.

M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024, section 4.2. The paper takes an exchange functional,
here gga_x_pbe, evaluates it on a density function and obtains the potential by `grad`: nobody writes the potential. The
density is that of two Gaussian-type orbitals whose density matrix is an array, so the same program also gives

    v_x(r)            the functional derivative at a point, compared with one derived by hand
    dE_x / dP         the gradient with respect to the density matrix, equal to the potential's matrix elements
    d v_x(r) / dP     a mixed derivative, inside jax.jit

and f_x, the second functional derivative along a change of the density.

    python examples/paper/dft.py             radial and angular grid with 8,000 points, and the figure
    python examples/paper/dft.py --quick     1,000 points
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dftfd import autofd
from dftfd.functionals.registry import get_functional

FIGURE = Path("paper_dft.png")  # in the current folder
CENTRES = np.array([[0.0, 0.0, -0.7], [0.0, 0.0, 0.7]])  # bohr
EXPONENTS = np.array([0.9, 1.3])  # bohr^-2
P = np.array([[1.1, 0.3], [0.3, 0.8]])  # density matrix


def space(n: int):
    """R^3 with a tensor-product Gauss-Hermite quadrature whose weight is taken back: n^3 points, measure dx."""
    line = autofd.gauss_hermite(n, width=0.8)
    weights = line.weights / jax.vmap(line.density)(line.points)
    plain = autofd.Domain((), points=line.points, weights=weights)
    return autofd.product(plain, plain, plain)


def orbitals(r):
    """phi_i(r), unnormalised s functions."""
    return jnp.exp(-EXPONENTS * jnp.sum((r[None, :] - CENTRES) ** 2, axis=1))


def density_value(P, r):
    """n(r) = sum_ij P_ij phi_i(r) phi_j(r)"""
    phi = orbitals(r)
    return phi @ P @ phi


def halves(n):
    return jnp.stack([n / 2, n / 2])


def unpolarised(n):
    """The spin densities (alpha, beta), R^3 -> R^2, of a total density without spin polarisation."""
    return autofd.compose(halves, n)


def potential_by_hand(energy_density, n, r):
    """v = de/dn - div de/d(grad n), with ordinary derivatives of e(n, grad n)."""
    slope = jax.grad(n)
    flux = lambda r: jax.grad(energy_density, 1)(n(r), slope(r))
    return jax.grad(energy_density)(n(r), slope(r)) - jnp.trace(jax.jacfwd(flux)(r))


def pbe_exchange_by_hand(n, g):
    """e_x(n, grad n) of PBE, spin-unpolarised; J. P. Perdew, K. Burke, M. Ernzerhof, doi:10.1103/PhysRevLett.77.3865"""
    kappa, mu = 0.804, 0.2195149727645171
    s2 = (g @ g) / (4 * (3 * np.pi**2) ** (2 / 3) * n ** (8 / 3))
    return -0.75 * (3 / np.pi) ** (1 / 3) * n ** (4 / 3) * (1 + kappa - kappa / (1 + mu * s2 / kappa))


def main(quick: bool):
    R3 = space(10 if quick else 20)
    functional = get_functional("gga_x_pbe")
    energy = lambda n: functional.energy(unpolarised(n))
    density = lambda P: autofd.function(density_value, R3, params=(P,))
    n = density(P)

    r = np.array([0.1, 0.2, 0.3])
    v = autofd.grad(energy)(n)
    by_hand = potential_by_hand(pbe_exchange_by_hand, lambda r: density_value(P, r), r)
    E = energy(n)
    print(f"E_x = {E:.12f} hartree with {len(R3.weights)} points, electrons {autofd.integrate(n):.9f}")
    print(f"v_x at {r} = {v(r):.15f}, by hand {by_hand:.15f}, difference {abs(v(r) - by_hand):.1e}")

    along = autofd.function(lambda r: jnp.exp(-jnp.sum(r**2)), R3)
    second = autofd.hvp(energy, n, along)(r)
    step = 1e-4
    difference = (autofd.grad(energy)(n + along * step)(r) - autofd.grad(energy)(n - along * step)(r)) / (2 * step)
    print(f"f_x applied to a change of the density, at the same point: {second:.9f}, by differences {difference:.9f}")

    matrix = jax.jit(jax.grad(lambda P: energy(density(P))))(P)
    phi = jax.vmap(orbitals)(R3.points)
    values = jax.vmap(v)(R3.points)
    elements = jnp.einsum("p,p,pi,pj->ij", R3.weights, values, phi, phi)
    print(f"dE_x/dP and the potential's matrix differ by {jnp.abs(matrix - elements).max():.1e} (quadrature error)")
    mixed = jax.jit(jax.grad(lambda P: autofd.grad(energy)(density(P))(r)))(P)
    print(f"d v_x(r)/dP inside jit: {np.array2string(np.asarray(mixed), precision=6)}".replace("\n", ""))
    return {
        "error": float(abs(v(r) - by_hand)),
        "second": (float(second), float(difference)),
        "matrix": (np.asarray(matrix), np.asarray(elements)),
        "potential": v,
        "density": n,
    }


def picture(results, path):
    """Density and exchange potential along the axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    z = np.linspace(-3.0, 3.0, 301)
    points = np.stack([0 * z, 0 * z, z], axis=1)
    figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
    axes.plot(z, jax.vmap(results["density"])(points), label="n [bohr$^{-3}$]")
    axes.plot(z, jax.vmap(results["potential"])(points), label="v$_x$ [hartree]")
    axes.set(xlabel="z [bohr]", title="gga_x_pbe: density and its functional derivative")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer points, no figure")
    options = parser.parse_args()
    results = main(options.quick)
    if not options.quick:
        picture(results, FIGURE)
