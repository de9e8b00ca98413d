"""An own GGA: three lines of formula, and nobody writes its potential.

The functional below is not in any library. It is registered, run through an SCF, and its derivatives are verified:
the strong form against a potential derived with pencil and paper, the weak form against finite differences.
"""

import jax
import numpy as np

import dftfd
from dftfd.functionals.common import C_X, reduced_gradient_squared, slater_exchange, spin_scaled


@dftfd.functional("gga_x_own")
@spin_scaled
def own_exchange(n, *, mu=0.22):
    """Exchange energy per volume with F(s) = (1 + 4 mu s^2)^(1/4)."""
    s2 = reduced_gradient_squared(n)
    F = (1 + 4 * mu * s2) ** (1 / 4)
    return slater_exchange(n) * F


def potential_by_hand(n, gradient, hessian, mu=0.22):
    """v = e_n - 2 div(e_sigma grad n) of e = C n^(4/3) F(s^2), with s^2 = c sigma n^(-8/3); closed shell.

    n (point,), gradient (3, point), hessian (3, 3, point): total density and its derivatives.
    """
    C, c = C_X, 1 / (4 * (3 * np.pi**2) ** (2 / 3))
    sigma = np.einsum("ip,ip->p", gradient, gradient)
    u = 1 + 4 * mu * c * sigma * n ** (-8 / 3)
    F, dF, ddF = u**0.25, mu * u**-0.75, -3 * mu**2 * u**-1.75  # derivatives with respect to s^2
    s2 = c * sigma * n ** (-8 / 3)
    e_n = C * n ** (1 / 3) * (4 / 3 * F - 8 / 3 * s2 * dF)
    e_sigma = C * c * n ** (-4 / 3) * dF
    e_n_sigma = C * c * n ** (-7 / 3) * (-4 / 3 * dF - 8 / 3 * s2 * ddF)
    e_sigma_sigma = C * c**2 * n**-4.0 * ddF
    laplacian = np.trace(hessian)
    grad_sigma = 2 * np.einsum("ijp,jp->ip", hessian, gradient)
    return e_n - 2 * (
        e_sigma * laplacian + e_n_sigma * sigma + e_sigma_sigma * np.einsum("ip,ip->p", gradient, grad_sigma)
    )


def main():
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="def2-svp")
    result = dftfd.run_scf(water, xc=own_exchange + dftfd.get_functional("gga_c_pbe"))
    print(f"water with the own exchange and PBE correlation: {result.energy:.8f} hartree, {result.cycles} cycles\n")
    return result.energy, strong_form(result), weak_form(result)


def strong_form(result):
    """Largest difference to the potential by hand at 100 points, relative to 1 + |v|."""
    rng = np.random.default_rng(1)
    atoms = result.molecule.coordinates
    points = atoms[rng.integers(0, len(atoms), 100)] + rng.normal(size=(100, 3))
    at_points = lambda f: np.moveaxis(np.asarray(jax.jit(jax.vmap(f))(points)), 0, -1)
    v = at_points(own_exchange.potential(result.density))[0]
    n = lambda r: result.density(r).sum()
    by_hand = potential_by_hand(at_points(n), at_points(jax.grad(n)), at_points(jax.hessian(n)))
    print("v_x(r) [hartree]     derived by dftfd      by hand")
    for r, a, b in list(zip(points, v, by_hand, strict=True))[:4]:
        print(f"({r[0]:5.2f} {r[1]:5.2f} {r[2]:5.2f})   {a:19.14f}  {b:19.14f}")
    error = np.max(np.abs(v - by_hand) / (1 + np.abs(by_hand)))
    print(f"largest difference at 100 points: {error:.1e}\n")
    return error


def weak_form(result):
    """Largest difference of <V, dP> to a central difference of the energy, over three random symmetric dP."""
    P = result.density_matrix
    energy = dftfd.energy(result.molecule, own_exchange, grid_level=1)
    exchange = lambda P: energy.components(P)["xc"]
    V = jax.grad(exchange)(P)
    rng, h, worst = np.random.default_rng(2), 1e-4, 0.0
    print("<V, dP>              exact gradient        central difference of E")
    for k in range(3):
        A = rng.normal(size=P.shape[1:])
        dP = (A + A.T)[None] * np.abs(P).max() / P.shape[1]
        slope = float(exchange(P + h * dP) - exchange(P - h * dP)) / (2 * h)
        exact = np.vdot(V, dP)
        worst = max(worst, abs(exact - slope))
        print(f"direction {k + 1}          {exact:17.12f}     {slope:17.12f}")
    print(f"largest difference: {worst:.1e} hartree")
    return worst


if __name__ == "__main__":
    main()
