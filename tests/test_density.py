"""Orbitals in pure JAX and the density as a function of the point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto

from dftfd.autofd import Domain, nabla
from dftfd.errors import InputError
from dftfd.xc.density import ao_tables, ao_values, density_function, evaluate_at, monomial_powers
from tests.sample import sample

UP_TO_I = [[l, [0.3 + 0.2 * l, 1.0], [1.9, 0.4]] for l in range(7)]
BASES = {
    "s to i": {"N": UP_TO_I, "H": "sto-3g"},
    "general contraction": {"N": "ano", "H": [[0, [2.0, 0.4, 0.1], [0.3, 0.7, -0.2]], [1, [0.8, 1.0]]]},
    "def2-tzvpp": "def2-tzvpp",
}


def imine(basis, cartesian=False, **keywords):
    return gto.M(
        atom="N 0 0 0; H 0.3 0.2 1.0; H -0.2 0.9 -0.4", basis=basis, cart=cartesian, charge=1, verbose=0, **keywords
    )


@pytest.fixture(scope="module")
def water_density():
    """A closed-shell SCF density, its molecule, and PySCF's calculation."""
    calculation = dft.RKS(gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", basis="6-31g*", verbose=0))
    calculation.grids.level = 1
    calculation.kernel()
    return calculation


def test_monomials_come_in_libcint_s_order():
    """xx xy xz yy yz zz."""
    assert monomial_powers(2).tolist() == [[2, 0, 0], [1, 1, 0], [1, 0, 1], [0, 2, 0], [0, 1, 1], [0, 0, 2]]


ALL = [(basis, kind) for basis in BASES for kind in ("spherical", "cartesian")]


@pytest.mark.parametrize(("basis", "kind"), sample(ALL, at=[0, 3]))
def test_orbitals_and_their_derivatives_match_libcint(basis, kind, rng):
    """Values, gradients and second derivatives, at random points and at the nuclei themselves, to rounding."""
    cartesian = kind == "cartesian"
    mole = imine(BASES[basis], cartesian)
    points = np.vstack([mole.atom_coords(), rng.normal(size=(6, 3))])
    tables = ao_tables(mole)
    reference = mole.eval_gto(f"GTOval_{'cart' if cartesian else 'sph'}_deriv2", points)
    f = lambda r: ao_values(tables, r)
    derivatives = jax.jit(jax.vmap(lambda r: (f(r), jax.jacfwd(f)(r), jax.jacfwd(jax.jacfwd(f))(r))))
    value, gradient, hessian = map(np.asarray, derivatives(points))
    upper = hessian[:, :, *np.triu_indices(3)]
    found = np.concatenate([value[None], np.moveaxis(gradient, 2, 0), np.moveaxis(upper, 2, 0)])
    scale = np.abs(reference).max(axis=(1, 2), keepdims=True)  # second derivatives of tight shells reach 1e4
    np.testing.assert_allclose(found / scale, reference / scale, atol=3e-15)


def test_fourth_derivatives_at_a_nucleus_are_exact():
    """A 1s Gaussian at its own centre: d4/dx4 exp(-a x^2) = 12 a^2, d4/dx2dy2 = 4 a^2; no 0/0 from |r|."""
    a = 1.3
    tables = ao_tables(gto.M(atom="He 0 0 0", basis={"He": [[0, [a, 1.0]]]}, verbose=0))
    chi = lambda r: ao_values(tables, r)[0]
    fourth = jax.jit(jax.jacfwd(jax.jacfwd(jax.jacfwd(jax.jacfwd(chi)))))(jnp.zeros(3)) / chi(jnp.zeros(3))
    assert fourth[0, 0, 0, 0] == pytest.approx(12 * a**2, rel=1e-14)
    assert fourth[0, 0, 1, 1] == pytest.approx(4 * a**2, rel=1e-14)


def test_density_and_tau_match_pyscf(water_density, rng):
    """Each spin carries half of PySCF's closed-shell density and tau (numint.eval_rho, MGGA)."""
    mole, P = water_density.mol, water_density.make_rdm1()
    points = np.vstack([mole.atom_coords(), rng.normal(size=(40, 3))])
    rho, tau = density_function(mole, P[None], tau=True)
    ao = dft.numint.eval_ao(mole, points, deriv=1)
    reference = dft.numint.eval_rho(mole, ao, P, xctype="MGGA", with_lapl=False)
    np.testing.assert_allclose(evaluate_at(rho, points), np.repeat(reference[0][:, None] / 2, 2, axis=1), rtol=1e-10)
    np.testing.assert_allclose(evaluate_at(tau, points), np.repeat(reference[4][:, None] / 2, 2, axis=1), rtol=1e-10)
    gradient = evaluate_at(nabla(rho), points)
    np.testing.assert_allclose(gradient.sum(axis=1), reference[1:4].T, rtol=1e-8, atol=1e-9)


def test_unrestricted_densities_stay_apart(rng):
    """rho = (alpha, beta) of a two-spin P; reference: libcint's orbitals contracted in NumPy."""
    mole = imine("6-31g")
    P = rng.normal(size=(2, mole.nao, mole.nao))
    P = P + P.transpose(0, 2, 1)
    points = rng.normal(size=(10, 3))
    chi = mole.eval_gto("GTOval_sph", points)
    expected = np.einsum("pm,smn,pn->ps", chi, P, chi)
    np.testing.assert_allclose(evaluate_at(density_function(mole, P), points), expected, rtol=1e-11, atol=1e-12)


def test_the_density_integrates_to_the_electrons(water_density):
    """Quadrature of the Function on PySCF's level-1 grid gives 5 + 5 electrons to the grid's accuracy."""
    grids = water_density.grids
    rho = density_function(water_density.mol, water_density.make_rdm1()[None])
    n_electrons = grids.weights @ np.asarray(evaluate_at(rho, grids.coords))
    np.testing.assert_allclose(n_electrons, [5.0, 5.0], atol=1e-4)


def test_batches_do_not_change_values(water_density, rng):
    """Point by point, in batches that divide the number of points, and in batches that do not."""
    rho = density_function(water_density.mol, water_density.make_rdm1()[None])
    points = rng.normal(size=(6, 3))
    single = np.stack([rho(point) for point in points])
    for batch_size in (3, 4, 100):
        np.testing.assert_allclose(evaluate_at(rho, points, batch_size), single, rtol=1e-13)


def test_the_density_matrix_is_a_differentiable_leaf(water_density):
    """rho is linear in P: its derivative along dP is the density of dP."""
    mole, P = water_density.mol, jnp.asarray(water_density.make_rdm1()[None])
    r = jnp.array([0.1, 0.4, -0.3])
    dP = jnp.ones_like(P)
    change = jax.jvp(lambda P: density_function(mole, P)(r), (P,), (dP,))[1]
    np.testing.assert_allclose(change, density_function(mole, dP)(r), rtol=1e-13)


def test_the_domain_can_be_chosen_and_bad_matrices_are_refused(water_density):
    """Densities live on the caller's domain; a matrix without its spin axis is named with both shapes."""
    space = Domain((3,), name="space")
    P = water_density.make_rdm1()
    assert density_function(water_density.mol, P[None], domain=space).domains == (space,)
    with pytest.raises(InputError, match=r"\(18, 18\).*\(1 or 2, ao, ao\)"):
        density_function(water_density.mol, P)
