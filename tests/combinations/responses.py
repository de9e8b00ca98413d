"""Responses and excited states of a random case: differences of whole calculations, sums over states, PySCF."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from pyscf import tddft

from dftfd.errors import InputError
from dftfd.response.hessian import second_derivatives
from tests.combinations.cases import Case
from tests.combinations.solving import (
    FIELD,
    STEP,
    Comparison,
    Inapplicable,
    bend,
    direction,
    in_field,
    moving_grid,
    pyscfs,
    slope,
    solved,
    total,
)

MOST_PAIRS = 60
"""Pairs of orbitals up to which all roots are found."""


def polarizability(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    alpha = result.polarizability()
    expected, error = bend(lambda t: -total(solved(case, guess=result, **in_field(case, t * d))), -total(result), FIELD)
    yield "differences of energies in fields", d @ alpha @ d, expected, 1e-4 + 1e-4 * abs(expected) + 0.3 * error


def infrared(case: Case) -> Iterator[Comparison]:
    """Derivatives of the dipole by the nuclei, as mixed differences of energies."""
    moving_grid(case)
    result, d = solved(case), direction(case)
    F = d[0] / np.linalg.norm(d[0])
    found = np.einsum("ax,axy,y->", d, second_derivatives(result).dipole_derivatives, F)

    def dipole_along(t):
        def value(f):
            return -total(solved(case, t * d, guess=result, **in_field(case, f * F)))

        return slope(value, FIELD)[0]

    near, far = ((dipole_along(k * STEP) - dipole_along(-k * STEP)) / (2 * k * STEP) for k in (2, 4))
    expected, error = (4 * near - far) / 3, abs(far - near)
    yield "differences of energies", found, expected, 2e-4 + 0.3 * error


def _pairs(result) -> int:
    """Pairs of an occupied and an empty orbital."""
    return int(sum(np.sum(n > 0) * np.sum(n == 0) for n in result.mo_occ))


def dynamic_polarizability(case: Case) -> Iterator[Comparison]:
    """Sum over all states, whose energies and strengths other equations give."""
    result = solved(case)
    pairs = _pairs(result)
    if not 0 < pairs <= MOST_PAIRS or "solvent" in case.options:
        raise Inapplicable
    states = result.excitations(pairs)
    w, mu = states.energies, states.transition_dipoles
    omega = 0.4 * float(w[0])
    expected = np.einsum("n,nx,ny->xy", 2 * w / (w**2 - omega**2), mu, mu)
    yield "sum over states", result.polarizability(omega), expected, 1e-4 * max(1.0, np.abs(expected).max())


def excitations(case: Case) -> Iterator[Comparison]:
    """Singlets and triplets of RKS are the states of UKS."""
    if case.is_open:
        raise Inapplicable
    result = solved(case)
    n = min(5, _pairs(result))
    restricted = np.sort(
        np.concatenate([result.excitations(max(n, 1), spin=spin).energies for spin in ("singlet", "triplet")])
    )
    other = solved(case, method="UKS", guess=result)
    count = min(n, 4)
    unrestricted = np.sort(other.excitations(min(count + 2, 2 * n)).energies)
    yield "excitations of UKS", restricted[:count], unrestricted[:count], 2e-5


def tamm_dancoff(case: Case) -> Iterator[Comparison]:
    """Tamm-Dancoff energies are above the whole ones, and their vectors diagonalise A."""
    result = solved(case)
    n = max(1, min(3, _pairs(result)))
    whole, tda = result.excitations(n), result.excitations(n, tda=True)
    yield "residuals", tda.residuals, np.zeros(n), 1e-4
    yield "above the whole energies", np.minimum(tda.energies - whole.energies, 0.0), np.zeros(n), 1e-6


def excitations_of_pyscf(case: Case) -> Iterator[Comparison]:
    """PySCF's own Kohn-Sham object, converged anew from our density."""
    if case.method == "ROKS" or {"smearing", "occupations"} & set(case.options):
        raise Inapplicable
    result = solved(case)
    mf, of_nuclei = pyscfs(case, result)
    n = max(1, min(3, _pairs(result)))
    ours = result.excitations(n).energies
    P = result.density_matrix
    mf.conv_tol = 1e-11
    mf.kernel(P[0] if len(P) == 1 else P)
    if abs(mf.e_tot + of_nuclei - result.energy) > 1e-6:
        raise Inapplicable  # it went on to another state
    theirs = tddft.TDDFT(mf)
    theirs.nstates, theirs.conv_tol = min(n + 2, _pairs(result)), 1e-8
    yield "PySCF's energies", ours, np.sort(theirs.kernel()[0])[:n], 2e-5


def _state_of(case, result):
    """Excitations whose lowest root stands apart, and how they are asked for again."""
    asked = {"spin": "triplet"} if not case.is_open and case.seed % 2 else {}
    asked |= {"tda": True} if case.seed % 3 == 0 else {}
    asked |= {"equilibrium_solvation": True} if "solvent" in case.options else {}
    found = result.excitations(max(1, min(2, _pairs(result))), **asked)
    if len(found.energies) > 1 and found.energies[1] - found.energies[0] < 0.03:
        raise Inapplicable
    return found, asked


def excited_forces(case: Case) -> Iterator[Comparison]:
    moving_grid(case)
    result, d = solved(case), direction(case)
    found, asked = _state_of(case, result)
    got = -np.sum(found.forces(0) * d)

    def value(t):
        at = solved(case, t * d, guess=result)
        return at.energy + at.excitations(len(found), **asked).energies[0]

    expected, error = slope(value, STEP)
    yield "differences of excitation energies", got, expected, 5e-5 + 0.1 * error


def excited_dipole(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    found, asked = _state_of(case, result)
    got = found.state(0).dipole @ d

    def value(t):
        at = solved(case, guess=result, **in_field(case, t * d))
        return -(at.energy + at.excitations(len(found), **asked).energies[0])

    expected, error = slope(value, 2 * FIELD)
    yield "differences of excitation energies in fields", got, expected, 2e-4 + 0.3 * error


def stability(case: Case) -> Iterator[Comparison]:
    """The internal eigenvalue is that of UKS at most; where it is negative, there is a lower energy down there."""
    result = solved(case)
    found = result.stability()
    if found.guess is None or len(found.guess) != len(result.density_matrix):
        yield "nothing lower", min(found.internal or 0.0, 0.0), 0.0, max(1e-5, 2 * found.noise)
        return
    try:
        lower = solved(replace(case, options=case.options | {"convergence": "hard"}), guess=found.guess)
    except InputError:
        raise Inapplicable from None
    yield "a lower energy", max(total(lower) - total(result), 0.0), 0.0, 1e-9
