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

import numpy as np

from dftfd.errors import InputError, NumericalError
from dftfd.functionals.guests import without_guests
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.interop import libxc
from dftfd.runtime.arguments import number, public
from dftfd.system.molecule import molecule
from dftfd.tasks.run import run_scf
from dftfd.verify import point_comparison as pointwise
from dftfd.verify import potential_comparison as potentials
from dftfd.verify import sampling
from dftfd.verify.counterpart import counterpart
from dftfd.verify.own_points import left_out, rows_of_file
from dftfd.verify.referee import Referee
from dftfd.verify.reports import Report, Row
from dftfd.xc.variables import VARIABLES

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
    """Comparison of a functional with libxc, a `Report`; print it for the table, ask `.passed` for the verdict.

    functional: name, expression or Functional. It is compared with the libxc functional of the same name, or else with
    the sum of the libxc functionals that its terms are named after. Exact exchange is left out, its fraction compared.
    with_potentials: False leaves out the last two of the following, which take most of the time.
    values: file of points, and of values of somebody's own, see `dftfd.verify.own_points`. Values are compared with
        dftfd's, without them dftfd is with libxc, at these points alone.   tolerance: then allowed, 1e-10 by default.

    What is compared, and the tolerances (errors are relative where the quantity is large, see
    `dftfd.verify.point_comparison.scaled_error`):

    - energy per volume, 1e-12, and first to third derivatives with respect to libxc's variables, 1e-10, at 100 points
      each: *dense* n = 1e-3 to 1e3, *dilute* n = 2e-7 to 1e-3, *polarised* 1 - |zeta| = 1e-4 to 0.1, all with s <= 5.
      Larger differences go to extended precision (`dftfd.verify.referee`). A row is *decided* where libxc's error is
      rounding, which it is in logarithms of 1 + x, in 1 - |zeta| and where |grad zeta|^2 vanishes, and ours is within
      the tolerance.
    - the strong form of v_xc on two analytic densities and on the molecular density: 1e-11, with tau 1e-9. Here and
      above libxc's thresholds are lowered, see `dftfd.verify.point_comparison.LIBXC_THRESHOLD`.
    - energy [hartree] and matrix [hartree] of the water molecule, restricted, and its cation, unrestricted, on the
      same grid as PySCF's numint: 1e-10.

    Raises UnsupportedError for functionals without a counterpart in libxc.

    >>> import dftfd
    >>> report = dftfd.check("lda_x")
    >>> report.passed
    True
    """
    whole = get_functional(functional)
    without_guests(whole, "with no counterpart in libxc and no value at a point")
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
            potentials.on_analytic_density(functional, terms, parameters, points),
            place,
            STRONG_FORM_TOLERANCE * _allowance(functional),
        )
        for name, parameters in sampling.ANALYTIC_DENSITIES.items()
    ]


def _molecular_rows(functional, terms):
    water, P, P_cation = reference_densities()
    points = sampling.points_around()
    error = potentials.on_molecular_density(functional, terms, water, P_cation, points)
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
        energy, V = potentials.matrix_difference(functional, terms, water, density, grid)
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
