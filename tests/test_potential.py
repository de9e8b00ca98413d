"""v_xc(r) of the scalar program against the operators' strong form, which shares nothing with it but the formula."""

import time

import jax
import numpy as np
import pytest

import dftfd
from dftfd.autofd import laplacian, nabla
from dftfd.functionals.common import gradient_squared
from dftfd.functionals.registry import term
from dftfd.runtime.threads import worker_count
from dftfd.xc.density import density_function, evaluate_at
from dftfd.xc.potential import potentials

POINTS = np.array([[0.1, 0.2, 0.3], [0.5, -0.4, 1.0], [2.0, 1.5, -1.0], [0.0, 0.05, 1.9]])


HYDROXYL = dftfd.molecule("O 0 0 0; H 0 0.1 1.83", basis="6-31g", unit="bohr", spin=1)


def _density(spin):
    """A density matrix that solves nothing: any density will do."""
    molecule, rng = HYDROXYL, np.random.default_rng(3)
    C = rng.normal(size=(spin, molecule.n_ao, min(5, molecule.n_ao))) * 0.4
    return molecule, np.einsum("smi,sni->smn", C, C)


@term("everything")
def everything(rho, tau, *, a=0.1, b=0.02, c=0.03):
    """Value, gradients of both spins and their product, Laplacians and tau, each with each."""
    n = rho[0] + rho[1]
    L = laplacian(rho[0]) + 0.7 * laplacian(rho[1])
    crossed = gradient_squared(rho[0]) * rho[1] - 0.5 * gradient_squared(n) * rho[0]
    return n ** (4 / 3) * (1 + a * tau[0]) + b * crossed * tau[1] + c * L**2 * rho[0] + 0.01 * L * gradient_squared(n)


@term("alike")
def alike(n, *, b=0.1):
    """A GGA of the total density: one program for equal spins."""
    return n ** (4 / 3) + b * gradient_squared(n) / (1 + n)


@pytest.mark.parametrize(("functional", "spin"), [pytest.param(everything, 2, marks=pytest.mark.slow), (alike, 1)])
def test_both_strong_forms_agree(functional, spin):
    """Every kind of ingredient, to rounding; v_tau along."""
    molecule, P = _density(spin)
    ours, v_tau = potentials(functional, molecule, P)
    operators = functional.potential(*_densities(functional, molecule, P))
    operators = operators if functional.needs_tau else (operators,)
    for f, reference in zip((ours, v_tau), operators, strict=False):
        expected = np.asarray(evaluate_at(reference, POINTS))
        np.testing.assert_allclose(evaluate_at(f, POINTS), expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(f(POINTS[1]), expected[1], rtol=1e-11, atol=1e-12)


def _densities(functional, molecule, P):
    found = density_function(molecule, P, tau=functional.needs_tau)
    return found if functional.needs_tau else (found,)


@pytest.mark.slow
def test_an_energy_that_knows_the_spins_keeps_both():
    """One density matrix for both spins does not make their potentials equal."""
    molecule, P = _density(1)
    reference, _ = everything.potential(*density_function(molecule, P, tau=True))
    ours, _ = potentials(everything, molecule, P)
    expected = np.asarray(evaluate_at(reference, POINTS))
    assert np.abs(expected[:, 0] - expected[:, 1]).max() > 1e-3
    np.testing.assert_allclose(evaluate_at(ours, POINTS), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "spin"),
    [(x, s) for x in ("pbe", "hyb_gga_xc_wb97", "tpss", "r2scan", "mgga_x_br89") for s in (1, 2)],
)
def test_both_strong_forms_agree_for_the_library(name, spin):
    """Functionals of every kind (1e-9, metas lose digits in both); BR89 and `everything` take Laplacians."""
    molecule, P = _density(spin)
    functional = dftfd.get_functional(name).semilocal_part
    operators = functional.potential(*_densities(functional, molecule, P))
    reference = operators[0] if functional.needs_tau else operators
    ours, _ = potentials(functional, molecule, P)
    np.testing.assert_allclose(evaluate_at(ours, POINTS), evaluate_at(reference, POINTS), rtol=1e-9, atol=1e-10)


def test_a_potential_is_a_function_like_any_other():
    """Components, sums and operators, jit and vmap; the slope of v is that of its values."""
    molecule, P = _density(1)
    v, _ = potentials(dftfd.get_functional("lda_x"), molecule, P)
    one, r, h = float(v[0](POINTS[1])), POINTS[1], 1e-4
    assert one == pytest.approx(float(evaluate_at(v[0] + 2.0 * v[1], POINTS)[1]) / 3, rel=1e-14)
    np.testing.assert_allclose(jax.vmap(v)(POINTS), evaluate_at(v, POINTS), rtol=1e-13)
    difference = float(v[0](r + h * np.eye(3)[2]) - v[0](r - h * np.eye(3)[2])) / (2 * h)
    assert float(nabla(v[0])(r)[2]) == pytest.approx(difference, rel=1e-6)


def test_what_is_no_function_of_scalars_goes_by_the_operators():
    """An energy that knows directions."""

    @term("anisotropic")
    def anisotropic(n):
        return n ** (4 / 3) + 0.1 * nabla(n)[2] ** 2

    molecule, P = _density(1)
    v, v_tau = potentials(anisotropic, molecule, P)
    reference = anisotropic.potential(density_function(molecule, P))
    assert v_tau is None
    np.testing.assert_allclose(v(POINTS[0]), reference(POINTS[0]), rtol=1e-12)


@pytest.mark.slow  # 0.6 s of a limit of many
def test_a_point_takes_no_compilation():
    """r2SCAN at a point and on a plane in less processor time than its strong form takes to trace."""
    molecule, P = _density(1)
    start = time.process_time()
    v, _ = potentials(dftfd.get_functional("r2scan"), molecule, P)
    assert np.isfinite(v(POINTS[0])).all()
    assert np.isfinite(evaluate_at(v, np.random.default_rng(0).normal(size=(500, 3)))).all()
    assert time.process_time() - start < 6.0 * worker_count()
