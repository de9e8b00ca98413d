"""Derivatives of self-consistent solutions, against five-point differences of other self-consistent solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dftfd
from dftfd.errors import InputError, UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled
from dftfd.training import self_consistent

OPTIONS = {"grid_level": 0, "conv_tol": 1e-14, "density_fit": False}
LIH, BEH = ("Li 0 0 0; H 0 0 1.6", {}), ("Be 0 0 0; H 0 0 1.35", {"spin": 1})
POINTS = np.array([[0.3, 0.4, 0.5], [0.0, -1.0, 0.7]])


@spin_scaled
def enhanced(n, *, mu=0.2, kappa=0.8):
    """A gradient-corrected exchange that compiles quickly."""
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * (1 + mu * s2 / (1 + mu * s2 / kappa))


HYBRID = 0.8 * Functional("toy", ((1.0, EnergyTerm.from_formula(enhanced, "toy")),)) + 0.2 * dftfd.exact_exchange
LEAVES, TREE = jax.tree_util.tree_flatten(HYBRID)
DIRECTION = np.array([0.7, -0.4, 0.5, 0.3])


def along(t):
    """The functional with all of its numbers on a line: coefficient, both parameters, share of exact exchange."""
    return TREE.unflatten([leaf * (1 + t * d) for leaf, d in zip(LEAVES, DIRECTION, strict=True)])


def outputs(found):
    """Numbers of every kind."""
    weights = jnp.linspace(-1.0, 1.0, found.density_matrix.size)
    return {
        **found.energies,
        "total": found.energy,
        "density matrix": weights @ found.density_matrix.ravel(),
        "orbital energies": found.mo_energy.ravel() @ jnp.linspace(-1.0, 1.0, found.mo_energy.size) ** 3,
        "gap": found.gap,
        "dipole": found.dipole[2],
        "density": found.density(POINTS).sum(),
    }


def five_points(f, h):
    """The derivative of a dictionary of numbers, or of a number, at zero."""
    rows = [f(k * h) for k in (1, -1, 2, -2)]
    return jax.tree_util.tree_map(lambda a, b, c, d: (8 * (a - b) - (c - d)) / (12 * h), *rows)


@pytest.fixture(scope="module", params=[pytest.param(LIH, marks=pytest.mark.slow), BEH], ids=["RKS", "UKS"])
def scf(request):
    geometry, options = request.param
    return dftfd.differentiable_scf(dftfd.molecule(geometry, basis="sto-3g", **options), **OPTIONS)


@pytest.mark.slow  # 6 s; energies twice by the same numbers, dipoles by a field: below
def test_every_output_by_the_numbers_of_a_functional(scf):
    """Forward and in reverse, 1e-6 of five-point differences (of what is below 0.01, of that)."""
    f = lambda t: outputs(scf(along(t)))
    expected = five_points(f, 5e-3)
    _, forward = jax.jvp(f, (0.0,), (1.0,))
    values, pull = jax.vjp(f, 0.0)
    for name in values:
        (reverse,) = pull({other: jnp.asarray(float(other == name)) for other in values})
        scale = max(abs(float(expected[name])), 1e-2)
        assert float(reverse) == pytest.approx(float(expected[name]), abs=1e-6 * scale), name
        assert float(forward[name]) == pytest.approx(float(reverse), abs=1e-8 * scale), name


def test_values_are_those_of_run_scf(scf):
    """With arrays as numbers, which other programs compute with, and with plain ones; components add up."""
    result = dftfd.run_scf(scf.molecule, HYBRID, **OPTIONS)
    for found in scf(HYBRID), scf(along(jnp.asarray(0.0))):
        assert float(found.energy) == pytest.approx(result.energy, abs=1e-11)
        assert float(sum(found.energies.values())) == pytest.approx(result.energy, abs=1e-11)
        assert {k: float(v) for k, v in found.energies.items()} == pytest.approx(
            {k: result.energies[k] for k in found.energies}, abs=1e-9
        )
        np.testing.assert_allclose(found.mo_energy, result.mo_energy, atol=1e-8)
        np.testing.assert_allclose(found.dipole, result.dipole, atol=1e-8)
        assert float(found.gap) == pytest.approx(result.gap, abs=1e-8)
        points = np.asarray(found.density(POINTS)).sum(axis=0)
        np.testing.assert_allclose(points, [float(result.density(r).sum()) for r in POINTS], atol=1e-9)


def test_the_energys_gradient_takes_no_response(scf, monkeypatch):
    """And is that of the functional as a pytree, number by number."""
    monkeypatch.setattr(self_consistent, "LinearResponse", None)  # whoever asks for it fails
    slopes = jax.grad(lambda f: scf(f).energy)(HYBRID)
    along_line = sum(
        float(g) * leaf * d for g, leaf, d in zip(jax.tree_util.tree_leaves(slopes), LEAVES, DIRECTION, strict=True)
    )
    assert along_line == pytest.approx(float(five_points(lambda t: scf(along(t)).energy, 5e-3)), rel=1e-6)


def test_second_derivatives_of_energies_and_no_others():
    """jvp of grad: one response. That of a dipole would be wrong without the response of the response: refused."""
    scf = dftfd.differentiable_scf(dftfd.molecule(LIH[0], basis="sto-3g"), **OPTIONS)
    slope = jax.grad(lambda t: scf(along(t)).energy)
    _, second = jax.jvp(slope, (0.0,), (1.0,))
    assert float(second) == pytest.approx(float(five_points(slope, 5e-3)), rel=1e-6)
    for output in (lambda found: found.dipole[2], lambda found: found.gap):
        with pytest.raises(
            UnsupportedError, match="second derivatives with respect to parameters exist for energies only"
        ):
            jax.jvp(jax.grad(lambda t, output=output: output(scf(along(t)))), (0.0,), (1.0,))


def test_by_an_electric_field_it_is_the_polarisability(scf):
    """d mu / dF of the response module, and d E / dF = -mu."""
    mu = lambda F: scf(HYBRID, electric_field=F).dipole
    result = dftfd.run_scf(scf.molecule, HYBRID, **OPTIONS)
    np.testing.assert_allclose(jax.jacrev(mu)(jnp.zeros(3)), result.polarizability(), atol=1e-5)
    slope = jax.grad(lambda F: scf(HYBRID, electric_field=F).energy)(jnp.zeros(3))
    np.testing.assert_allclose(slope, -result.dipole, atol=1e-8)


def test_by_coordinates_energies_have_forces_and_the_rest_is_refused():
    """-dE/dR is what `forces` computes; a density's derivative needs integrals that are not there."""
    scf = dftfd.differentiable_scf(dftfd.molecule(LIH[0], basis="sto-3g"), **OPTIONS)
    R = jnp.asarray(scf.molecule.coordinates) * 1.05
    slope = jax.grad(lambda R: scf(HYBRID, coordinates=R).energy)(R)
    shift = jnp.array([[0.0, 0, 0], [0.0, 0, 1.0]])
    expected = five_points(lambda t: scf(HYBRID, coordinates=R + t * shift).energy, 5e-3)
    assert float(slope[1, 2]) == pytest.approx(float(expected), rel=1e-6)
    with pytest.raises(UnsupportedError, match="only the energy has a derivative"):
        jax.grad(lambda R: scf(HYBRID, coordinates=R).density_matrix[0, 0, 0])(R)
    with pytest.raises(UnsupportedError, match="the energy and the density matrix"):
        scf(HYBRID, coordinates=R).dipole  # noqa: B018


@pytest.mark.slow  # 1.5 s; transformations of kernels: test_shared_code
def test_one_after_the_other_under_vmap_and_refused_under_jit():
    """What is computed on the host has no place in a compiled program."""
    scf = dftfd.differentiable_scf(dftfd.molecule(LIH[0], basis="sto-3g"), **OPTIONS)
    slope = jax.grad(lambda t: scf(along(t)).dipole[2])
    several = jax.vmap(slope)(jnp.array([0.0, 0.1]))
    np.testing.assert_allclose(several, [slope(0.0), slope(0.1)], rtol=1e-8)
    with pytest.raises(UnsupportedError, match="outside of compiled programs"):
        jax.jit(lambda t: scf(along(t)).energy)(0.0)


def test_what_has_no_derivative_is_refused():
    """Smearing, checkpoints; an occupied orbital that an empty one is degenerate with."""
    far = dftfd.molecule("H 0 0 -20; H 0 0 20", basis="sto-3g", unit="bohr")
    with pytest.raises(UnsupportedError, match="smeared"):
        dftfd.differentiable_scf(far, smearing=("fermi", 0.01))
    with pytest.raises(InputError, match="no checkpoint"):
        dftfd.differentiable_scf(far, checkpoint="a.chk")


def test_orbitals_without_a_gap_are_named(monkeypatch):
    """HOMO and LUMO, where they are closer than what counts as degenerate; lithium hydride's are 0.2 hartree apart."""
    monkeypatch.setattr(self_consistent, "SMALLEST_GAP", 0.5)
    scf = dftfd.differentiable_scf(dftfd.molecule(LIH[0], basis="sto-3g"), **OPTIONS)
    assert np.isfinite(jax.grad(lambda t: scf(along(t)).energy)(0.0))
    with pytest.raises(UnsupportedError, match=r"orbitals 1 \(occupied\) and 2 \(less\) of alpha spin are degenerate"):
        jax.grad(lambda t: scf(along(t)).dipole[2])(0.0)


@pytest.mark.slow  # 2.7 s; kernels made within a transformation: test_shared_code
def test_coefficients_that_varied_leave_plain_ones_alone():
    """A functional differentiated by its coefficients, then the same one by a field: its kernel is not the first's."""
    scf = dftfd.differentiable_scf(dftfd.molecule("H 0 0 0; H 0 0 0.74", basis="sto-3g"), **OPTIONS | {"grid_level": 1})
    lda = dftfd.get_functional("lda_x")
    leaves, tree = jax.tree_util.tree_flatten(lda)
    slope = jax.grad(lambda s: scf(tree.unflatten([s * x for x in leaves])).energies["xc"])(1.0)
    found = scf(lda)
    assert float(slope) == pytest.approx(float(found.energies["xc"]), rel=0.2)  # nearly linear in its coefficient
    by_field = jax.grad(lambda F: scf(lda, electric_field=F).energies["xc"])(jnp.zeros(3))
    np.testing.assert_allclose(by_field, 0.0, atol=1e-6)  # of a molecule with a centre
