"""Nonlocal functionals: VV10 against PySCF, the others against dense sums, identities and published values."""

import functools
import importlib.util
import resource
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto

import dftfd
from dftfd.autofd import function
from dftfd.errors import InputError, QuadratureError
from dftfd.functionals import vdw_df
from dftfd.functionals.densities import SPACE
from dftfd.grids.molecular import molecular_grid
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.runtime.progress import as_progress
from dftfd.terms.double_integral import DoubleIntegralEnergy
from dftfd.xc.ao_store import AOStore
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel

NONLOCAL = ["vv10", "rvv10", "vdw_df_nl", "hartree", "vdw_df2_nl"]


@functools.cache
def kernel_of(name, n_spin=1, **parameters):
    return NonlocalXCKernel(dftfd.get_functional(name, **parameters), n_spin)


@functools.cache
def water():
    """PySCF molecule, level-0 grid and a density matrix that is no solution of anything."""
    mole = gto.M(atom="O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469", basis="6-31g*", verbose=0)
    grid = dft.gen_grid.Grids(mole)
    grid.level = 0
    grid.build()
    return mole, grid, dft.RKS(mole).get_init_guess(key="minao")


def builder_on(kernel, mole, grid):
    return NonlocalXCBuilder(kernel, AOStore(mole, grid.coords, grid.weights, kernel.order))


@functools.cache
def kernel_script():
    """The script behind the tabulated kernel of vdW-DF."""
    path = Path(__file__).parents[1] / "data" / "vdw_df_kernel" / "make_kernel.py"
    spec = importlib.util.spec_from_file_location("make_kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- energies and matrices


@pytest.mark.parametrize("b, C", [(5.9, 0.0093), (6.0, 0.01)])
def test_vv10_of_a_closed_shell_matches_pyscf(b, C):
    """Energy and matrix of PySCF's hand-written VV10 on the same grid, threshold included; two sets of parameters.

    PySCF's `nr_nlc_vxc` takes the second set from omega-B97M-V."""
    mole, grid, P = water()
    code = "vv10" if b == 5.9 else "wb97m_v"
    _, energy, matrix = dft.numint.NumInt().nr_nlc_vxc(mole, grid, code, P)
    found = builder_on(kernel_of("vv10", b=b, C=C), mole, grid).build(P[None])
    assert found.energy == pytest.approx(energy, abs=1e-12)
    np.testing.assert_allclose(found.matrix[0], matrix, atol=1e-13)


def test_vv10_of_an_open_shell_matches_pyscf():
    """Both spins of O2 feel PySCF's potential of the total density."""
    mole = gto.M(atom="O 0 0 0; O 0 0 1.2", spin=2, basis="sto-3g", verbose=0)
    grid = dft.gen_grid.Grids(mole)
    grid.level = 0
    grid.build()
    P = dft.UKS(mole).get_init_guess(key="minao") * np.array([1.1, 0.9])[:, None, None]
    _, energy, matrix = dft.numint.NumInt().nr_nlc_vxc(mole, grid, "vv10", P[0] + P[1])
    found = builder_on(kernel_of("vv10", 2), mole, grid).build(P)
    assert found.energy == pytest.approx(energy, abs=1e-12)
    np.testing.assert_allclose(found.matrix, np.stack([matrix, matrix]), atol=1e-12)
    np.testing.assert_allclose(found.n_electrons, np.einsum("sab,ba->s", P, mole.intor("int1e_ovlp")), rtol=1e-2)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "vv10")) for name in NONLOCAL])
def test_matrices_are_derivatives_of_the_energy(name):
    """<V, dP> equals the fourth-order central difference of E to 1e-8 relative."""
    mole, grid, P = water()
    kernel = kernel_of(name)
    few = slice(None, None, 4)  # points and weights may be any
    builder = NonlocalXCBuilder(kernel, AOStore(mole, grid.coords[few], grid.weights[few], kernel.order))
    rng = np.random.default_rng(5)
    dP = rng.normal(size=P.shape) * 1e-2
    dP = (dP + dP.T)[None]
    energy = lambda step: builder.build(P[None] + step * dP).energy
    h = 1e-3
    difference = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    assert np.vdot(builder.build(P[None]).matrix, dP) == pytest.approx(difference, rel=1e-8)


def test_built_in_kernels_are_proven_symmetric_and_scalar():
    """Every built-in functional takes the fast way: one pass over pairs of scalar code. VV10 divides once per pair."""
    for name in NONLOCAL:
        (stage,) = kernel_of(name).stages
        assert stage.symmetric and stage._sums.program is not None
    program = kernel_of("vv10").stages[0]._sums.program
    assert sum(program.nodes[i].op == "div" for i in program.needed) == 1
    assert program.length < 32


def test_memory_does_not_grow_with_the_number_of_pairs():
    """8,000 points: one array of all pairs would take 500 MB; the peak of the process grows by less than 150 MB."""
    rng = np.random.default_rng(0)
    kernel = kernel_of("vv10")
    n_points = 8000
    points, weights = rng.normal(size=(n_points, 3)) * 5, rng.uniform(0.0, 0.01, n_points)
    density = rng.uniform(0.01, 1.0, size=(1, 4, n_points))
    kernel(points[:600], weights[:600], density[..., :600])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kernel(points, weights, density)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


# ---- formulas


def random_points(n_points=12, seed=3):
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(n_points, 3)), rng.uniform(0.1, 0.5, n_points)
    density = rng.uniform(0.05, 0.6, size=(1, 4, n_points))
    R = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return points, weights, density, R


def test_rvv10_is_the_double_sum_of_its_paper():
    """Sabatini et al., eqs. 5 and 6, written out in NumPy with b = 6.3, C = 0.0093."""
    points, weights, density, R = random_points()
    n, g2 = density[0, 0], np.sum(density[0, 1:] ** 2, axis=0)
    omega = np.sqrt(0.0093 * (g2 / n**2) ** 2 + 4 * np.pi / 3 * n)
    kappa = 6.3 * 1.5 * np.pi * (n / (9 * np.pi)) ** (1 / 6)
    q = omega / kappa
    z, y = q[:, None] * R**2 + 1, q[None, :] * R**2 + 1
    m = weights * n / kappa**1.5
    expected = (3 / 6.3**2) ** 0.75 / 32 * (weights @ n) + 0.5 * m @ (-1.5 / (z * y * (z + y))) @ m
    energy, _ = kernel_of("rvv10")(points, weights, density)
    assert energy == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name, n, b", [("vv10", 0.3, 5.9), ("rvv10", 0.02, 9.0)])
def test_uniform_gas_has_no_nonlocal_energy(name, n, b):
    """beta makes the energy of the uniform gas vanish: a point amid shells of constant density around it."""
    x, w = np.polynomial.legendre.leggauss(400)
    radius, jacobian = (1 + x) / (1 - x), 2 / (1 - x) ** 2
    weights = np.concatenate([[0.0], 4 * np.pi * radius**2 * w * jacobian])
    points = np.zeros((401, 3))
    points[1:, 0] = radius
    density = np.zeros((1, 4, 401))
    density[0, 0] = n
    kernel = NonlocalXCKernel(dftfd.get_functional(name, b=b).settled(), 1)
    S = np.zeros((1, 401))
    weights[0] = 1e-30  # counts as a point, contributes nothing
    kernel.stages[0].forward((density, points.T.copy(), weights), [S[0]])
    e = kernel.code.energy_density(density[..., 0], points[0], 0.0, (S[0, 0],))
    assert abs(float(e) / n) < 1e-9


def test_low_densities_are_left_out_of_vv10():
    """Points below 1e-8 change neither energy nor potential, and are finite themselves, down to zero density."""
    points, weights, density, _ = random_points()
    energy, potential = kernel_of("vv10")(points, weights, density)
    thin = np.zeros((1, 4, 3))
    thin[0, :, 1:] = [[0.9e-8, 1e-20], [1e-8, 0.0], [0.0, 1e-3], [0.0, 0.0]]
    extended = [np.concatenate(pair, axis=-1) for pair in ((weights, [1.0, 2.0, 3.0]), (density, thin))]
    with_thin, more = kernel_of("vv10")(np.vstack([points, np.eye(3)]), *extended)
    assert with_thin == energy
    np.testing.assert_array_equal(more[..., :12], potential)
    np.testing.assert_array_equal(more[..., 12:], 0.0)


def test_hartree_energy_of_a_gaussian():
    """n = (a/pi)^(3/2) exp(-a r^2) has the energy sqrt(a / 2 pi); the part of one cell takes away most of the error."""
    grid = molecular_grid([2], np.zeros((1, 3)), level=1)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    a = 1.7
    n = (a / np.pi) ** 1.5 * np.exp(-a * np.sum(points**2, axis=1))
    exact = np.sqrt(a / (2 * np.pi))
    energy, _ = kernel_of("hartree")(points, weights, n[None, None])
    radius = np.cbrt(3 / (4 * np.pi) * np.abs(weights))
    own_cells = 0.5 * np.sum(weights * n**2 * np.sign(weights) * 2 * np.pi * radius**2)
    assert abs(energy - exact) < 0.2 * abs(energy - own_cells - exact)
    assert energy == pytest.approx(exact, rel=2e-3)


# ---- the kernel of vdW-DF


def test_tabulated_kernel_is_the_defining_integral():
    """The spline against the double integral, evaluated with other nodes and another cut: 2e-8 absolute."""
    script = kernel_script()
    rng = np.random.default_rng(1)
    saved = script.CUT, script.NODES
    try:
        script.CUT, script.NODES = 120.0, 9
        for d1, d2 in np.exp(rng.uniform(np.log(2e-3), np.log(30.0), size=(12, 2))):
            assert float(vdw_df.kernel(d1, d2)) == pytest.approx(script.kernel(d1, d2), abs=2e-8, rel=1e-4)
    finally:
        script.CUT, script.NODES = saved


def test_kernel_against_the_integral_as_it_is_printed():
    """W with a^3 b^3 in its denominator and Gauss-Legendre on a = tan t up to 64, as other codes have it: 1e-4."""
    t, w = np.polynomial.legendre.leggauss(512)
    t, w = 0.5 * np.arctan(64.0) * (t + 1), 0.5 * np.arctan(64.0) * w
    a, w = np.tan(t), w * (1 + np.tan(t) ** 2)
    A, B = a[:, None], a[None, :]
    sin, cos = np.sin, np.cos
    W = 2 / (A**3 * B**3) * (
        (3 - A**2) * B * cos(B) * sin(A)
        + (3 - B**2) * A * cos(A) * sin(B)
        + (A**2 + B**2 - 3) * sin(A) * sin(B)
        - 3 * A * B * cos(A) * cos(B)
    )  # fmt: skip
    for d1, d2 in ((1.0, 1.0), (0.5, 2.0), (3.0, 1.0)):
        nu_1, nu_2 = (a**2 / (2 * (1 - np.exp(-4 * np.pi / 9 * (a / d) ** 2))) for d in (d1, d2))
        v, x, y, z = nu_1[:, None], nu_1[None, :], nu_2[:, None], nu_2[None, :]
        T = 0.5 * (1 / (v + x) + 1 / (y + z)) * (1 / ((v + y) * (x + z)) + 1 / ((v + z) * (y + x)))
        phi = 2 / np.pi**2 * (w * a**2) @ (W * T) @ (w * a**2)
        assert float(vdw_df.kernel(d1, d2)) == pytest.approx(phi, abs=1e-4)


def test_limits_of_the_kernel():
    """Published properties: int phi D^2 dD = 0 for d1 = d2 and otherwise (Dion et al.), phi -> -C / (d1^2 d2^2 (d1^2 +
    d2^2)) with C = 12 (4 pi / 9)^3, symmetry, and a logarithm at small distance."""
    kernel = jax.jit(jax.vmap(vdw_df.kernel))
    u, w = np.polynomial.legendre.leggauss(400)
    u = 0.5 * (np.log(1e-4) + np.log(500.0)) + 0.5 * np.log(5e6) * u
    D, w = np.exp(u), 0.5 * np.log(5e6) * w
    for delta in (0.0, 0.4, 0.8):
        integrand = kernel(D * (1 + delta), D * (1 - delta)) * D**3
        assert abs(w @ integrand) < 3e-6 * (w @ np.abs(integrand))  # the tail beyond 500 is 3e-7 of it
    d1, d2 = np.array([60.0, 90.0]), np.array([80.0, 70.0])
    asymptotic = -12 * (4 * np.pi / 9) ** 3 / (d1**2 * d2**2 * (d1**2 + d2**2))
    np.testing.assert_allclose(kernel(d1, d2), asymptotic, rtol=2e-4)
    np.testing.assert_array_equal(kernel(d1, d2), kernel(d2, d1))
    slope = float(vdw_df.kernel(1e-5, 1e-5) - vdw_df.kernel(1e-4, 1e-4)) / np.log(10)
    assert slope == pytest.approx(2 / np.pi)


def test_derivatives_of_the_tabulated_kernel():
    """Automatic derivatives against finite differences, also at d1 = d2, where tau has a kink, and across cells."""
    for d1, d2 in ((1.0, 1.0), (0.3, 2.0), (5.0, 4.9), (1e-4, 2e-4), (300.0, 5.0)):
        h = 1e-5 * d1
        difference = (vdw_df.kernel(d1 + h, d2) - vdw_df.kernel(d1 - h, d2)) / (2 * h)
        assert float(jax.grad(vdw_df.kernel)(d1, d2)) == pytest.approx(float(difference), rel=2e-6)


def test_vdw_df_energy_is_the_double_sum_of_its_paper():
    """Dion et al., eqs. 1, 11, 12 and the kernel's integral in NumPy, libxc's eps_c; 4 points, own cells included."""
    script = kernel_script()
    points, weights, density, R = random_points(4)
    n, g2 = density[0, 0], np.sum(density[0, 1:] ** 2, axis=0)
    k_F = np.cbrt(3 * np.pi**2 * n)
    eps_c = dft.libxc.eval_xc(",lda_c_pw", n)[0]
    q = k_F * (1 + 0.8491 / 9 * g2 / (2 * k_F * n) ** 2) - 4 * np.pi / 3 * eps_c
    x, w = np.polynomial.legendre.leggauss(16)
    t = 0.5 * (x + 1)
    expected = 0.0
    for i in range(4):
        for j in range(i):
            phi = script.kernel(q[i] * R[i, j], q[j] * R[i, j])
            expected += weights[i] * weights[j] * n[i] * n[j] * phi
        D = q[i] * np.cbrt(3 / (4 * np.pi) * weights[i])
        regular = [script.kernel(D * s, D * s) + 2 / np.pi * np.log(s) for s in t]
        mean = 3 * 0.5 * w @ (t**2 * regular) + 2 / (3 * np.pi)
        expected += 0.5 * weights[i] ** 2 * n[i] ** 2 * mean
    energy, _ = kernel_of("vdw_df_nl")(points, weights, density)
    assert energy == pytest.approx(expected, rel=1e-6)


# ---- potentials as functions of r


def gaussians(r):
    """A density R^3 -> R without any symmetry about the origin."""
    return jnp.exp(-1.2 * jnp.sum(r * r)) + 0.2 * jnp.exp(-0.5 * jnp.sum((r - 0.5) ** 2))


def jet(f, points):
    """Value and gradient (4, point)."""
    one = lambda r: jnp.concatenate([f(r)[None], jax.grad(f)(r)])
    return np.asarray(jax.jit(jax.vmap(one, out_axes=1))(points))


@pytest.mark.slow  # 4 s; the strong form of a double integral: the next test
def test_strong_form_of_the_potential_agrees_with_the_weak_one():
    """VV10: <v, dn> with v(r) as a Function, its integrals over the grid attached, equals dE along dn on that grid.

    They differ by the error of the quadrature: 3e-5 with 20 radial points, 3e-7 with 30, 6e-11 with 50."""
    rho = function(lambda r: 0.5 * gaussians(r) * jnp.ones(2), SPACE)
    change = lambda r: jnp.exp(-0.9 * jnp.sum((r - 0.2) ** 2))
    grid = molecular_grid([2], np.zeros((1, 3)), n_radial=30, n_angular=50, pruning=None)
    near = np.linalg.norm(grid.points, axis=1) < 9
    points, weights = np.asarray(grid.points)[near], np.asarray(grid.weights)[near]
    v = dftfd.get_functional("vv10").potential(rho, quadrature=(points, weights))
    strong = weights @ (np.asarray(jax.vmap(v)(points))[:, 0] * np.asarray(jax.vmap(change)(points)))
    _, potential = kernel_of("vv10")(points, weights, jet(gaussians, points)[None])
    weak = np.vdot(potential[0], jet(change, points))
    assert strong == pytest.approx(weak, rel=1e-6)


def test_hartree_potential_as_a_function():
    """v(r) of a Gaussian of charge one is erf(sqrt(a) r) / r; between the points of the grid there are no own cells."""
    a = 1.3
    rho = function(lambda r: 0.5 * (a / jnp.pi) ** 1.5 * jnp.exp(-a * jnp.sum(r * r)) * jnp.ones(2), SPACE)
    grid = molecular_grid([2], np.zeros((1, 3)), level=3)
    v = dftfd.get_functional("hartree").potential(rho, quadrature=(grid.points, grid.weights))
    for r in (0.0, 2.0, 6.0):
        place = jnp.array([0.3, -0.2, r])
        distance = float(jnp.linalg.norm(place))
        expected = float(jax.scipy.special.erf(np.sqrt(a) * distance)) / distance
        np.testing.assert_allclose(v(place), expected, rtol=1e-2)


def test_potential_needs_a_quadrature_for_its_integrals():
    rho = function(lambda r: 0.5 * gaussians(r) * jnp.ones(2), SPACE)
    with pytest.raises(QuadratureError, match="quadrature"):
        dftfd.get_functional("vv10").potential(rho)(jnp.zeros(3))


# ---- self-consistent calculations


@pytest.mark.slow  # 1 s; PySCF's energy at our density: tests/test_to_pyscf.py
def test_scf_with_vv10_matches_pyscf():
    """PBE + VV10 for water, both grids of level 0, exact integrals: PySCF's converged energy to 1e-9 hartree."""
    atom = "O 0 0 0.117; H 0 0.757 -0.469; H 0 -0.757 -0.469"
    reference = dft.RKS(gto.M(atom=atom, basis="sto-3g", verbose=0), xc="pbe")
    reference.nlc = "vv10"
    reference.grids.level = reference.nlcgrids.level = 0
    reference.kernel()
    xc = dftfd.get_functional("pbe") + dftfd.get_functional("vv10")
    options = dict(grid_level=0, nlc_grid_level=0, density_fit=False)
    result = dftfd.run_scf(dftfd.molecule(atom, basis="sto-3g"), xc, **options)
    assert result.converged
    assert result.energy == pytest.approx(reference.e_tot, abs=1e-9)
    assert result.energies["nonlocal"] > 0.04
    assert result.energy == pytest.approx(sum(result.energies.values()), abs=1e-12)
    assert result.settings.nlc_grid_level == 0


@pytest.mark.slow  # 1.3 s; matrices of open shells, and an SCF of a closed one, are compared above
def test_scf_of_an_open_shell_on_a_grid_of_its_own():
    """Triplet methylene, UKS, NLC grid coarser than the other one: PySCF's energy to 1e-9 hartree."""
    atom = "C 0 0 0; H 0 0.99 0.42; H 0 -0.99 0.42"
    reference = dft.UKS(gto.M(atom=atom, spin=2, basis="sto-3g", verbose=0), xc="lda,pw_mod")
    reference.nlc = "vv10"
    reference.grids.level, reference.nlcgrids.level = 1, 0
    reference.kernel()
    xc = dftfd.get_functional("spw92") + dftfd.get_functional("vv10")
    options = dict(grid_level=1, nlc_grid_level=0, density_fit=False)
    result = dftfd.run_scf(dftfd.molecule(atom, spin=2, basis="sto-3g"), xc, **options)
    assert result.converged and result.method == "UKS"
    assert result.energy == pytest.approx(reference.e_tot, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("xc", ["vdw_df", "vdw_df2"])
def test_scf_with_vdw_df(xc):
    """Helium converges, and the energy is the sum of its parts evaluated at the density found."""
    helium = dftfd.molecule("He 0 0 0;", basis="6-31g")
    result = dftfd.run_scf(helium, xc, grid_level=0, nlc_grid_level=0)
    assert result.converged
    grid = molecular_grid([2], np.zeros((1, 3)), level=0)
    kernel = kernel_of(xc + "_nl")
    found = NonlocalXCBuilder(kernel, AOStore(helium, grid.points, grid.weights, 1)).build(result.density_matrix)
    assert result.energies["nonlocal"] == pytest.approx(found.energy, rel=1e-12)
    v = result.v_xc(jnp.array([0.1, 0.2, 0.3]))
    assert v.shape == (2,) and np.all(np.isfinite(v)) and v[0] == v[1]


@pytest.mark.parametrize("xc, level", [("wb97m-v", 1), ("pbe + 1.0*rvv10", 1), ("vdw_df", 3), ("pbe + 0.1*hartree", 3)])
def test_default_grid_of_double_integrals_suits_their_kernel(xc, level):
    """Level 1 for kernels that are smooth where points meet, 3 for others, and whatever is asked for."""
    molecule = dftfd.molecule("He 0 0 0;", basis="sto-3g")
    assert Calculation.of(molecule, Options(xc=xc)).nlc_level == level
    assert Calculation.of(molecule, Options(xc=xc, nlc_grid_level=2)).nlc_level == 2


@pytest.mark.slow  # 2.6 s; which level it is: the test above
def test_default_grid_of_vv10_costs_a_millionth_of_a_hartree_per_atom():
    """Hydrogen fluoride: VV10's energy on the default grid against PySCF's on level 3, 1e-6 hartree per atom."""
    mole = gto.M(atom="H 0 0 0; F 0 0 0.92", basis="6-31g", verbose=0)
    molecule = dftfd.molecule(mole)
    P = dftfd.run_scf(molecule, "pbe", grid_level=0).density_matrix
    grid = dft.gen_grid.Grids(mole)
    grid.level = 3
    _, expected, _ = dft.numint.NumInt().nr_nlc_vxc(mole, grid.build(), "vv10", P[0])
    terms = Calculation.of(molecule, Options(xc="pbe + 1.0*vv10")).build(as_progress(None)).energy
    found = terms.of_kind(DoubleIntegralEnergy).evaluate(P).energies["nonlocal"]
    assert 0 < abs(found - expected) < 2e-6


def test_grid_level_of_double_integrals_is_checked():
    with pytest.raises(InputError, match="level"):
        dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="sto-3g"), "pbe", nlc_grid_level=12)


def test_the_kernel_of_vdw_df_bends_where_both_points_are_alike():
    """phi(d + x, d - x) is even in x; its second derivative at 0 is that of differences, and not lost in |x|."""
    phi = lambda x: vdw_df.kernel(2.0 + x, 2.0 - x)
    h, bend = 2e-3, jax.grad(jax.grad(phi))(0.0)
    assert float(bend) == pytest.approx(float((phi(h) - 2 * phi(0.0) + phi(-h)) / h**2), rel=1e-3)
    assert abs(bend) > 1e-3
