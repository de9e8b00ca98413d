"""What PySCF lacks, Laplacians, kinetic energies, model potentials and vdW-DF: libxc, derivatives, limits.

libxc's numbers are its own, through its C interface: `dftfd.interop.libxc.reference` and `model_potential`.

Double integrals and the learned functional have their own tests of the same kind, in test_nonlocal.py, test_learned.py
and, for the weighted density, test_examples.py. Published numbers for whole atoms or dimers are scarce: Becke and
Roussel's is exact for hydrogen (test_report_card.py), for vdW-DF another code's dimer is below.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from pyscf import dft, gto

import dftfd
from dftfd.grids.molecular import molecular_grid
from dftfd.interop import libxc
from dftfd.verify.point_comparison import LIBXC_THRESHOLD
from dftfd.xc.ao_store import AOStore
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import XCBuilder
from dftfd.xc.nonlocal_kernel import NonlocalXCBuilder, NonlocalXCKernel
from tests.sample import sample

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
OXYGEN = "O 0 0 0; O 0 0 1.2075"
SEMILOCAL = ["scanl", "r2scanl", "mgga_x_br89", "lda_k_tf", "gga_k_vw", "gga_k_tfvw", "mgga_k_pc07", "mgga_k_pc07_opt"]
MODELS = ["gga_x_lb", "mgga_x_bj06", "mgga_x_tb09"]
CORRELATION = ("gga_c_pbe", "lda_c_pw")


def of_spins(names, quick):
    """Closed and open shells of each name; those in quick in every run: an open shell has all that a closed one has."""
    return sample([(name, spin) for name in names for spin in (0, 2)], quick)


@functools.cache
def molecule(spin):
    """(PySCF molecule, grid of level 0, density matrix (spin, ao, ao) of superposed atoms) of water or triplet O2."""
    mole = gto.M(atom=OXYGEN if spin else WATER, spin=spin, basis="6-31g*", verbose=0)
    grid = dft.gen_grid.Grids(mole)
    grid.level = 0
    grid.build()
    P = (dft.UKS if spin else dft.RKS)(mole).get_init_guess(key="minao")
    return (
        mole,
        grid,
        np.asarray(P).reshape(-1, mole.nao, mole.nao) * np.array([[1.1], [0.9]])[: 1 + (spin > 0), :, None],
    )


def builder(functional, spin):
    mole, grid, P = molecule(spin)
    kernel = XCKernel(functional, len(P))
    return XCBuilder(kernel, AOStore(mole, grid.coords, grid.weights, kernel.order))


def variables(spin):
    """libxc's rho, sigma, lapl, tau (variable, point) on the grid, from PySCF's own orbitals and Laplacians."""
    mole, grid, P = molecule(spin)
    ao = dft.numint.eval_ao(mole, grid.coords, deriv=2)
    rho = [dft.numint.eval_rho(mole, ao, p, xctype="MGGA", hermi=1, with_lapl=True) for p in P]
    sigma = [np.sum(a[1:4] * b[1:4], axis=0) for i, a in enumerate(rho) for b in rho[i:]]
    n, lapl, tau = (np.stack([a[row] for a in rho]) for row in (0, 4, 5))
    return np.concatenate([n, sigma, lapl, tau])


@pytest.mark.parametrize("name, spin", of_spins(SEMILOCAL, [("mgga_x_br89", 2), ("gga_k_vw", 0)]))
def test_energy_is_libxcs_on_a_molecule(name, spin):
    """E[P] is the sum of libxc's energies at PySCF's density, gradient, Laplacian and tau: 1e-10 relative.

    libxc's thresholds are lowered; what is left out here, n < 1e-10, does not reach 1e-10 of the energy.
    """
    _, grid, P = molecule(spin)
    x, functional = variables(spin), dftfd.get_functional(name)
    terms = [(c, term.name) for c, term in functional.terms]
    e = libxc.reference(terms, x, len(P), order=1, threshold=LIBXC_THRESHOLD).energy
    dense = x[: len(P)].sum(axis=0) > 1e-10
    assert builder(functional, spin).build(P).energy == pytest.approx((grid.weights * e)[dense].sum(), rel=1e-10)


@pytest.mark.parametrize("name, spin", of_spins(SEMILOCAL, [("mgga_x_br89", 2), ("gga_k_vw", 0)]))
def test_matrix_is_the_slope_of_the_energy(name, spin):
    """<V, dP> equals the fourth-order central difference of E in a random direction to 1e-7, relative."""
    _, _, P = molecule(spin)
    xc = builder(dftfd.get_functional(name), spin)
    dP = np.random.default_rng(5).normal(size=P.shape) * 1e-2
    dP = dP + dP.transpose(0, 2, 1)
    energy, h = lambda step: xc.build(P + step * dP).energy, 1e-4
    difference = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    assert np.vdot(xc.build(P).matrix, dP) == pytest.approx(difference, rel=1e-7)


def leeuwen_baerends(variables, n_spin):
    """x_s = |grad rho_s| / rho_s^(4/3) and v_s = v_s^LDA - 0.05 rho_s^(1/3) x^2 / (1 + 0.15 x asinh x).

    R. van Leeuwen, E. J. Baerends, Phys. Rev. A 49, 2421 (1994).
    """
    share = 2 / n_spin
    n = np.maximum(variables[:n_spin] / share, 1e-12)
    x = np.sqrt(variables[[1] if n_spin == 1 else [2, 4]]) / share / n ** (4 / 3)
    return x, -np.cbrt(6 / math.pi * n) - 0.05 * np.cbrt(n) * x * x / (1 + 0.15 * x * np.arcsinh(x))


@pytest.mark.parametrize("name, spin", of_spins(MODELS, [("mgga_x_tb09", 2), ("gga_x_lb", 0)]))
def test_matrix_of_a_model_is_that_of_its_potential(name, spin):
    """V_ab = sum_p w_p chi_a v(r_p) chi_b with libxc's potential, which has no energy that V could be the slope of.

    LB94 is that of its paper where libxc has a limit instead, x > 300 (tests/test_libxc_faults.py).
    """
    mole, grid, P = molecule(spin)
    x = variables(spin)
    v = libxc.model_potential(name, x, len(P))
    if name == "gga_x_lb":
        gradient, printed = leeuwen_baerends(x, len(P))
        v = np.where(gradient < 300, v, printed)
    v = np.where(x[: len(P)] > 1e-9, v, 0.0)
    ao = dft.numint.eval_ao(mole, grid.coords)
    expected = np.einsum("sp,p,pa,pb->sab", v, grid.weights, ao, ao)
    found = builder(dftfd.get_functional(name), spin).build(P).matrix
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_kinetic_energies_of_hydrogen_in_closed_form():
    """n = exp(-2r) / pi: T_W = 1/2, and T_TF of spin-polarised 1s is 2^(2/3) 3/10 (3 pi^2)^(2/3) pi^(-2/3) 27/125."""
    grid = molecular_grid([1], np.zeros((1, 3)), level=3)
    points, weights = np.asarray(grid.points), np.asarray(grid.weights)
    r = np.linalg.norm(points, axis=1)
    n = np.exp(-2 * r) / math.pi
    density = np.zeros((2, 4, len(r)))
    density[0, 0], density[0, 1:] = n, -2 * n * points.T / r
    thomas_fermi = 2 ** (2 / 3) * 0.3 * (3 * math.pi**2) ** (2 / 3) * math.pi ** (-2 / 3) * 8 * 27 / 1000
    for lam in (0.0, 0.2, 1.0):
        kernel = XCKernel(dftfd.get_functional("gga_k_tfvw", lam=lam), 2)
        energy = float(kernel(jnp.asarray(points), jnp.asarray(weights), jnp.asarray(density))[0])
        assert energy == pytest.approx(thomas_fermi + 0.5 * lam, rel=1e-6)


@pytest.mark.slow
def test_vdw_df_of_the_argon_dimer_is_that_of_another_code():
    """Binding at 3.9 angstrom and revPBE's density: -4.8 meV with revPBE, 22.3 meV with vdW-DF.

    Numbers and tolerances, 0.6 and 3 meV, are those of GPAW's test gpaw/test/vdw/test_ar2.py, which works with
    projector-augmented waves, real-space grids and Fourier transforms of a saturated q_0. Monomer in the dimer's basis.
    """
    energies = [_argon(atoms) for atoms in ("Ar 0 0 0; Ar 0 0 3.9", "Ar 0 0 0; ghost-Ar 0 0 3.9")]
    revpbe, vdw_df = (27.211386 * 1e3 * (2 * one - two) for two, one in zip(*energies, strict=True))
    assert revpbe == pytest.approx(-4.8, abs=0.6)
    assert vdw_df == pytest.approx(22.3, abs=3.0)


def _argon(atoms):
    """Energies [hartree] of revPBE and, at its density, vdW-DF."""
    system = dftfd.molecule(atoms, basis="aug-cc-pvqz")
    result = dftfd.run_scf(system, "revpbe", grid_level=3, conv_tol=1e-10)
    P, grid = result.density_matrix, molecular_grid(system.atomic_numbers, system.coordinates, level=3)
    store = AOStore(system, grid.points, grid.weights, 1)
    local = {name: XCBuilder(XCKernel(dftfd.get_functional(name), 1), store).build(P).energy for name in CORRELATION}
    coarse = molecular_grid(system.atomic_numbers, system.coordinates, level=0)
    kernel = NonlocalXCKernel(dftfd.get_functional("vdw_df_nl"), 1)
    nonlocal_energy = NonlocalXCBuilder(kernel, AOStore(system, coarse.points, coarse.weights, 1)).build(P).energy
    return result.energy, result.energy - local["gga_c_pbe"] + local["lda_c_pw"] + nonlocal_energy
