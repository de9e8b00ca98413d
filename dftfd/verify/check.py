"""Regression of a functional against libxc: energy density, derivatives, potential in both forms, kernel.

All of it is compared with the libxc that PySCF brings along. Nothing of libxc enters our numbers, and the derivatives
come from automatic differentiation on our side and from libxc's generated code on the other.
"""

import functools
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import function
from dftfd.errors import InputError, NumericalError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import SPACE
from dftfd.functionals.grid_functionals import without_grid_functionals
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.interop import libxc
from dftfd.libcint.gto import gaussian_basis
from dftfd.runtime.arguments import number, public
from dftfd.system.molecule import molecule
from dftfd.tasks.run import run_scf
from dftfd.verify import point_comparison as pointwise
from dftfd.verify import sampling
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import (
    LIBXC_THRESHOLD,
    component,
    components,
    counterpart,
    families,
    left_out,
    lowered_derivatives,
    rows_of_file,
    scaled_error,
)
from dftfd.verify.reports import Decision, Report, Row
from dftfd.verify.sampling import analytic_density
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, ROW, TAU, VARIABLES, ao_order, both_spins, channel_count
from dftfd.xc.code import shared
from dftfd.xc.density import density_function, evaluate_at
from dftfd.xc.kernel import XCKernel
from dftfd.xc.matrix import Scratch, XCBuilder, density_jet

log = logging.getLogger(__name__)

POINTWISE_TOLERANCES = (1e-12, 1e-10, 1e-10, 1e-10)
"""Allowed errors of the energy density, its first, second and third derivatives."""

N_POINTS = 100

META_GGA_FACTOR = 100
"""What a dependence on tau allows for in the strong form."""

STRONG_FORM_TOLERANCE = 1e-11
MATRIX_TOLERANCE = 1e-10  # hartree
FRACTION_TOLERANCE = 1e-14

WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"


@public
def check(
    functional: Any,
    with_potentials: bool = True,
    *,
    values: Path | None = None,
    tolerance: Annotated[float, number(lambda x: x > 0, "a positive number, such as 1e-10")] | None = None,
) -> Report:
    """Compare a functional with libxc: a `Report`, which prints as a table, with `.passed`.

    functional: name, expression or Functional. It is compared with the libxc functional of the same name, otherwise
        with the sum of the libxc functionals of its terms. Of exact exchange, only the fraction is compared.
    with_potentials: False omits the last two comparisons below, which take most of the time.
    values: file of points, optionally with values (`dftfd.verify.point_comparison`). Values are compared with dftfd's.
        Without values, dftfd is compared with libxc at these points.   tolerance: for `values`, 1e-10 by default.

    What is compared, and the tolerances (errors are relative where the quantity is large, see
    `dftfd.verify.point_comparison.scaled_error`):

    - energy per volume, 1e-12, and first to third derivatives with respect to libxc's variables, 1e-10, at 100 points
      each: *dense* n = 1e-3 to 1e3, *dilute* n = 2e-7 to 1e-3, *polarised* 1 - |zeta| = 1e-4 to 0.1, all with s <= 5.
      Larger differences are examined in extended precision (`dftfd.verify.check`). A row is *decided* if the difference
      is rounding in libxc (in logarithms of 1 + x, in 1 - |zeta|, where |grad zeta|^2 vanishes) and dftfd's value is
      within the tolerance.
    - the strong form of v_xc for two analytic densities and a molecular density: 1e-11, with tau 1e-9. Here and above,
      libxc's thresholds are lowered (`dftfd.verify.point_comparison.LIBXC_THRESHOLD`).
    - energy [hartree] and matrix [hartree] of the water molecule, restricted, and its cation, unrestricted, on the
      same grid as PySCF's numint: 1e-10.

    Raises UnsupportedError for functionals without a counterpart in libxc.

    >>> import dftfd
    >>> report = dftfd.check("lda_x")
    >>> report.passed
    True
    """
    whole = get_functional(functional)
    without_grid_functionals(whole, "with no counterpart in libxc and no value at a point")
    if values is not None:
        rows, reference = rows_of_file(whole.semilocal_part, values, tolerance)
        return Report(whole.name, reference, tuple(rows), left_out(whole))
    if tolerance is not None:
        raise InputError("tolerance= belongs to values=; the comparison with libxc has its own, by quantity.")
    functional, terms = whole.semilocal_part, counterpart(whole)
    notes = _catalogued(whole) + left_out(whole)
    rows = _exchange_rows(whole, terms)
    for n_spin in (1, 2):
        rows += _timed("energy density and derivatives", pointwise_rows, functional, terms, n_spin)
    if not with_potentials:
        notes += ("energy density and its derivatives alone were compared",)
    elif any(libxc.needs_laplacian(name) for _, name in terms):
        notes += ("libxc's derivatives do not reach the potential of a Laplacian-dependent functional: left out",)
    else:
        rows += _timed("strong form on analytic densities", _analytic_rows, functional, terms)
        rows += _timed("water", _molecular_rows, functional, terms)
    return Report(functional.name, f"libxc {libxc.version()} {_shown(terms)}", tuple(rows), notes)


def _catalogued(functional):
    """Says it where a name without libxc's prefix is none of the library's, and libxc's catalogue answered to it."""
    found = [t.name for _, t in functional.terms if t.name.startswith("libxc:") and "libxc:" not in functional.name]
    words = f"{functional.name!r} is registered nowhere: {', '.join(found)} of libxc's catalogue was compared"
    return (f"{words}; a file of your own is FILE.py:NAME",) if found else ()


def _shown(terms):
    return " + ".join(name if c == 1 else f"{c:g}*{name}" for c, name in terms)


def _timed(stage, code, *arguments):
    start = time.perf_counter()
    result = code(*arguments)
    log.info("check: %s, %.1f s", stage, time.perf_counter() - start)
    return result


def _exchange_rows(functional, terms):
    """The fraction of exact exchange, where libxc's functional is the whole hybrid."""
    (coefficient, name), *others = terms
    reference = dict(libxc.exact_exchange(name))
    if others or coefficient != 1 or not (reference or name == functional.name):
        return []
    ours = dict(functional.exact_exchange)
    if not ours and not reference:
        return []
    omegas = sorted({*ours, *reference})
    errors = [abs(ours.get(omega, 0.0) - reference.get(omega, 0.0)) for omega in omegas]
    worst = int(np.argmax(errors))
    return [Row("exact exchange fraction", 2, errors[worst], f"omega = {omegas[worst]:g}", FRACTION_TOLERANCE)]


def pointwise_rows(functional, terms: libxc.Terms, n_spin: int) -> list[Row]:
    """Energy per volume and derivatives of a semilocal functional against libxc's `terms`; see `check`."""
    rows = []
    ours = pointwise.lowered_derivatives(functional, n_spin, order=3)
    referee = Referee(functional, terms, n_spin)
    for region in sampling.REGIONS:
        if region == "polarised" and n_spin == 1:
            continue
        x = sampling.sample(n_spin, region, N_POINTS)
        reference = libxc.reference(terms, x, n_spin, order=3, threshold=pointwise.LIBXC_THRESHOLD)
        errors = pointwise.compare(ours(x), reference, x, n_spin)
        for quantity, error in errors.items():
            place = lambda i, x=x: sampling.describe(x[:, i])
            tolerance = POINTWISE_TOLERANCES[len(pointwise.families(quantity))]
            row = _row(f"{quantity}, {region}", n_spin, error, place, tolerance)
            there = x[:, int(np.argmax(np.where(np.isnan(error), np.inf, error)))]
            row = replace(row, point=dict(zip(VARIABLES[n_spin], there.tolist(), strict=True)))
            rows.append(row if row.agrees else replace(row, decision=referee.decide(quantity, error, x, tolerance)))
    return rows


def _allowance(functional):
    return META_GGA_FACTOR if functional.needs_tau else 1


def _analytic_rows(functional, terms):
    points = sampling.points_around()
    place = lambda i: _point(points[i])
    return [
        _row(
            f"v_xc(r), {name}",
            2,
            on_analytic_density(functional, terms, parameters, points),
            place,
            STRONG_FORM_TOLERANCE * _allowance(functional),
        )
        for name, parameters in sampling.ANALYTIC_DENSITIES.items()
    ]


def _molecular_rows(functional, terms):
    water, P, P_cation = reference_densities()
    points = sampling.points_around()
    error = on_molecular_density(functional, terms, water, P_cation, points)
    rows = [
        _row(
            "v_xc(r), water cation",
            2,
            error,
            lambda i: _point(points[i]),
            STRONG_FORM_TOLERANCE * _allowance(functional),
        )
    ]
    quadrature = molecular_grid(water.atomic_numbers, water.coordinates, 1)
    grid = np.asarray(quadrature.points), np.asarray(quadrature.weights)
    for n_spin, density in ((1, P), (2, P_cation)):
        energy, V = matrix_difference(functional, terms, water, density, grid)
        name = "water" if n_spin == 1 else "water cation"
        place = lambda i, shape=V.shape: "spin {}, AOs {}, {}".format(*np.unravel_index(i, shape))
        rows.append(Row(f"E_xc, {name}", n_spin, energy, "", MATRIX_TOLERANCE))
        rows.append(_row(f"matrix, {name}", n_spin, V.ravel(), place, MATRIX_TOLERANCE))
    return rows


@functools.cache
def reference_densities():
    """(water, P (1, ao, ao), P of the cation (2, ao, ao)): converged with PBE; the cation lacks the beta HOMO."""
    water = molecule(WATER, basis="6-31g*")
    result = run_scf(water, xc="pbe", grid_level=1, progress=False)
    if not result.converged:
        raise NumericalError("the density of water to compare on did not converge.")
    P, HOMO = result.density_matrix, result.mo_coeff[0][:, water.n_alpha - 1]
    half = 0.5 * P[0]
    return water, P, np.stack([half, half - np.outer(HOMO, HOMO)])


def _row(quantity, n_spin, errors, place, tolerance):
    """The row of the largest error; NaN counts as the largest."""
    worst = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
    return Row(quantity, n_spin, float(errors[worst]), place(worst), tolerance)


def _point(r):
    return "r = ({:+.2f}, {:+.2f}, {:+.2f}) bohr".format(*r)


MOST_POINTS = 2
"""Points per quantity that are decided, the worst above the tolerance; at each the component that differs most."""

_NEIGHBOURS, _DISTANCE = 60, 1e-6
_LARGEST_MEAN = 0.6
"""Largest mean of what is called rounding, in units of its standard deviation; 60 random numbers have 0.13."""


class Referee:
    """Decisions on one functional; terms: libxc's counterpart.

    Who is right where libxc and dftfd differ: extended precision, and whether libxc's error is rounding.

    Extended precision evaluates dftfd's own formula, so it can't see a wrong formula. A wrong formula or parameter
    differs from libxc smoothly, rounding does not: over points that are one millionth apart it changes sign. Only a
    difference of the second kind is decided here.
    """

    def __init__(self, functional: Functional, terms: libxc.Terms, n_spin: int):
        self.terms, self.n_spin = terms, n_spin
        self._ours = lowered_derivatives(functional, n_spin, order=3)
        self._functional = functional

    @functools.cached_property
    def _energy(self):
        return ExtendedEnergy(self._functional, self.n_spin)

    def decide(self, quantity: str, errors: np.ndarray, x: np.ndarray, tolerance: float) -> Decision:
        """The decision on a quantity with these differences (point,) at x (variable, point), some above tolerance."""
        worst = np.argsort(errors)[::-1][:MOST_POINTS]
        parts = [self._at(quantity, x[:, i]) for i in worst if not errors[i] <= tolerance]
        return Decision(max(d.ours for d in parts), max(d.reference for d in parts), all(d.is_rounding for d in parts))

    def _at(self, quantity, x):
        n = x[0] if self.n_spin == 1 else x[0] + x[1]
        ours, reference = self._both(x[:, None])
        error = lambda d, exact, place: float(scaled_error(component(d, place)[0], exact, n, families(quantity)))
        difference = lambda place: error(ours, component(reference, place)[0], place)
        place = max(components(quantity, self.n_spin), key=difference)
        exact = self._exact(x, place)
        return Decision(error(ours, exact, place), error(reference, exact, place), self._scatters(x, place))

    def _both(self, x):
        return self._ours(x), libxc.reference(self.terms, x, self.n_spin, order=3, threshold=LIBXC_THRESHOLD)

    def _exact(self, x, place):
        if not set(place) <= set(self._energy.used):
            return 0.0
        with mpmath.workdps(DIGITS):
            return float(self._energy.derivative(x, place) if place else self._energy(x))

    def _scatters(self, x, place) -> bool:
        """True if the difference of the two codes changes sign from point to point."""
        steps = np.random.default_rng(3).uniform(-_DISTANCE, _DISTANCE, (len(x), _NEIGHBOURS))
        ours, reference = (component(d, place) for d in self._both(x[:, None] * (1 + steps)))
        difference = reference - ours
        return bool(abs(np.mean(difference)) <= _LARGEST_MEAN * np.std(difference))


def potential_error(ours: np.ndarray, reference: np.ndarray, n: np.ndarray) -> np.ndarray:
    """|ours - reference| / (|reference| + n^(1/3)), largest over the spins, (point,); arrays (2, point)."""
    return np.max(np.abs(ours - reference) / (np.abs(reference) + np.cbrt(n)), axis=0)


def on_analytic_density(functional: Functional, terms: libxc.Terms, parameters, points: np.ndarray) -> np.ndarray:
    """Errors (point,) of v_xc on `dftfd.verify.sampling.analytic_density` with these parameters.

    A functional of the kinetic energy density gets tau = tau_W + 0.3 (6 pi^2)^(2/3) rho^(5/3) of each spin, a smooth
    function like any other here.
    """
    jet = libxc.DensityJet(*(np.asarray(values) for values in _jets(parameters, points)))
    reference = libxc.potential(terms, jet, LIBXC_THRESHOLD)
    rho, tau = (function(code, SPACE, params=parameters) for code in (analytic_density, _tau))
    ours = functional.potential(rho, tau)[0] if functional.needs_tau else functional.potential(rho)
    return potential_error(np.asarray(evaluate_at(ours, points)).T, reference, jet.value.sum(axis=0))


def _tau(*density_and_point):
    parameters, r = density_and_point[:-1], density_and_point[-1]
    code: Any = functools.partial(analytic_density, *parameters)
    rho, gradient = code(r), jax.jacfwd(code)(r)
    return jnp.sum(gradient**2, axis=1) / (8 * rho) + 0.3 * (6 * jnp.pi**2) ** (2 / 3) * rho ** (5 / 3)


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
