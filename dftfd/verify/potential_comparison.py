"""Potentials, ours against libxc's: the strong form at points, and the matrix in a basis.

The strong form is the functional derivative, a Function of r. libxc's counterpart is built from its second
derivatives and exact derivatives of the density; see `dftfd.interop.libxc.potential`.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import function
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import SPACE
from dftfd.interop import libxc
from dftfd.libcint.gto import gaussian_basis
from dftfd.verify.counterpart import counterpart
from dftfd.verify.point_comparison import LIBXC_THRESHOLD
from dftfd.verify.sampling import analytic_density
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, ROW, TAU, ao_order, both_spins, channel_count
from dftfd.xc.code import shared
from dftfd.xc.density import density_function, evaluate_at
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import Scratch, XCBuilder, density_jet


def potential_error(ours: np.ndarray, reference: np.ndarray, n: np.ndarray) -> np.ndarray:
    """|ours - reference| / (|reference| + n^(1/3)), largest over the spins, (point,); arrays (2, point)."""
    return np.max(np.abs(ours - reference) / (np.abs(reference) + np.cbrt(n)), axis=0)


def on_analytic_density(functional: Functional, terms: libxc.Terms, parameters, points: np.ndarray) -> np.ndarray:
    """Errors (point,) of v_xc on `dftfd.verify.sampling.analytic_density` with these parameters.

    A functional of the kinetic energy density gets tau = tau_W + 0.3 (6 pi^2)^(2/3) rho^(5/3) of each spin, a smooth
    function like any other here.
    """
    jet = analytic_jet(parameters, points)
    reference = libxc.potential(terms, jet, LIBXC_THRESHOLD)
    rho, tau = (function(code, SPACE, params=parameters) for code in (analytic_density, _tau))
    ours = functional.potential(rho, tau)[0] if functional.needs_tau else functional.potential(rho)
    return potential_error(np.asarray(evaluate_at(ours, points)).T, reference, jet.value.sum(axis=0))


def _tau(*density_and_point):
    parameters, r = density_and_point[:-1], density_and_point[-1]
    code: Any = functools.partial(analytic_density, *parameters)
    rho, gradient = code(r), jax.jacfwd(code)(r)
    return jnp.sum(gradient**2, axis=1) / (8 * rho) + 0.3 * (6 * jnp.pi**2) ** (2 / 3) * rho ** (5 / 3)


def analytic_jet(parameters, points: np.ndarray) -> libxc.DensityJet:
    """What libxc needs of an analytic density, by exact differentiation."""
    return libxc.DensityJet(*(np.asarray(values) for values in _jets(parameters, points)))


@jax.jit
def _jets(parameters, points):
    code, tau = (functools.partial(f, *parameters) for f in (analytic_density, _tau))
    derivatives = (code, jax.jacfwd(code), jax.hessian(code), tau, jax.jacfwd(tau))
    return [jax.vmap(d, out_axes=-1)(points) for d in derivatives]


def molecular_jet(molecule, P: np.ndarray, points: np.ndarray) -> libxc.DensityJet:
    """The same for a density matrix (2, ao, ao), from libcint's AO values and their derivatives to second order."""
    ao = gaussian_basis(molecule).evaluate(np.asfortranarray(points), order=2)
    density = np.empty((2, channel_count(2, True), len(points)))
    for P_s, channels in zip(P, density, strict=True):
        density_jet(ao, P_s, None, 2, True, channels, Scratch())
    return libxc.DensityJet(
        value=density[:, 0],
        gradient=density[:, GRADIENT],
        hessian=density[:, ROW],
        tau=density[:, TAU],
        tau_gradient=np.einsum("ijmp,smn,inp->sjp", ao[ROW], P, ao[GRADIENT], optimize=True),
    )


def on_molecular_density(functional: Functional, terms: libxc.Terms, molecule, P, points: np.ndarray) -> np.ndarray:
    """Errors (point,) of v_xc on the density of P (2, ao, ao)."""
    jet = molecular_jet(molecule, P, points)
    if functional.needs_tau:
        ours = functional.potential(*density_function(molecule, P, tau=True, domain=SPACE))[0]
    else:
        ours = functional.potential(density_function(molecule, P, domain=SPACE))
    values = np.asarray(evaluate_at(ours, points)).T
    return potential_error(values, libxc.potential(terms, jet, LIBXC_THRESHOLD), jet.value.sum(axis=0))


def libxc_potential(functional: Functional, molecule, P, points) -> np.ndarray:
    """libxc's v_xc (2, point) [hartree] on the density of P (1 or 2, ao, ao): to set beside `SCFResult.v_xc`.

    It is put together from libxc's second derivatives and libcint's derivatives of the density.
    """
    P = np.asarray(P)
    jet = molecular_jet(molecule, np.asarray(both_spins(P)), np.asarray(points))
    return libxc.potential(counterpart(functional), jet)


def matrix_difference(functional: Functional, terms: libxc.Terms, molecule, P, grid):
    """(energy error, matrix error (spin, ao, ao)) against PySCF's numint on the same grid; P (spin, ao, ao)."""
    points, weights = grid
    kernel = shared(XCKernel, functional, len(P))
    store = AOStore(molecule, points, weights, ao_order(kernel))
    ours = XCBuilder(kernel, store).build(P)
    energy, V = libxc.matrix(terms, molecule, points, weights, P)
    return abs(ours.energy - energy), np.abs(ours.matrix - V)
