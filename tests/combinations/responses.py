"""Responses and excited states of a random case: differences of whole calculations, sums over states, PySCF."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from pyscf import tddft
from scipy import constants
from scipy.linalg import null_space

from dftfd.errors import InputError
from dftfd.libcint.mole import to_pyscf
from dftfd.response.hessian import second_derivatives
from tests.combinations import solving
from tests.combinations.cases import BASES, DOUBLE_INTEGRALS, Case
from tests.combinations.differences import FIELD, SCALES, STEP, Trial, bend, slope
from tests.combinations.formulas import FORMULAS, LIMIT, imaginary_curvature, integrals
from tests.combinations.solving import (
    BOHR,
    KINKED,
    Comparison,
    Inapplicable,
    direction,
    fitting_functions,
    moving_grid,
    pyscfs,
    solved,
    total,
)

SAME = 1e-7
"""Difference of excitation energies [hartree] that symmetry makes zero."""
STRONG = 0.004
"""Field [hartree/(e bohr)] of second differences of what is no energy."""
MOST_PAIRS = 60
"""Pairs of orbitals up to which all roots are found."""


def in_field(case: Case, F) -> dict:
    """Options of the case in a further field. Becke and Roussel's exchange responds linearly to changes of the density
    below 1e-5 alone (hydrogen, LiH: polarisabilities of fields of 2e-3 are 5 and 9 % from those of none)."""
    if "br89" in case.xc:
        raise Inapplicable
    return solving.in_field(case, F)


def polarizability(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    alpha, at = result.polarizability(), lambda t: solved(case, guess=result, **in_field(case, t * d))
    if any(part in case.xc for part in KINKED):
        expected, error = slope(lambda t: at(t).dipole @ d, FIELD)
    else:
        expected, error = bend(lambda t: -total(at(t)), -total(result), FIELD)
    yield "differences of energies in fields", d @ alpha @ d, expected, 1e-4 + 1e-4 * abs(expected) + 0.3 * error, error


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

    steps = [k * STEP * SCALES[Trial.number] for k in (2, 4)]
    near, far = ((dipole_along(h) - dipole_along(-h)) / (2 * h) for h in steps)
    expected, error = (4 * near - far) / 3, abs(far - near)
    yield "differences of energies", found, expected, 2e-4 + 0.3 * error, error


def _third_order(case) -> None:
    """Inapplicable where third derivatives take too long."""
    small = isinstance(case.basis, str) and case.basis in BASES["small"]
    if not small or len(case.atoms) > 2 or any(part in case.xc for part in DOUBLE_INTEGRALS):
        raise Inapplicable


def _modes(found):
    """Wavenumbers [cm^-1] and modes dR/dQ (mode, atom, 3) [u^-1/2], lowest first, of vibrations' own Hessian."""
    root, R = np.sqrt(np.repeat(found.masses, 3)), found.coordinates
    allowed = np.eye(len(root))
    if found.free:
        R = R - found.masses @ R / found.masses.sum()
        moves = [np.tile(e, (len(R), 1)) for e in np.eye(3)] + [np.cross(e, R) for e in np.eye(3)]
        allowed = null_space(np.array([move.ravel() * root for move in moves]), rcond=1e-6)
    H = found.hessian.reshape(len(root), len(root)) / root[:, None] / root
    squares, turn = np.linalg.eigh(allowed.T @ H @ allowed)
    unit = constants.physical_constants
    per_second = np.sqrt(unit["Hartree energy"][0] / unit["atomic mass constant"][0]) / unit["Bohr radius"][0]
    wavenumbers = np.sign(squares) * np.sqrt(np.abs(squares)) * per_second / (200 * np.pi * constants.c)
    return wavenumbers, ((allowed @ turn).T / root).reshape(-1, len(R), 3)


def vibrations(case: Case) -> Iterator[Comparison]:
    """Wavenumbers and infrared intensities of Hessian and derivatives of the dipole, from constants of nature."""
    if len(case.atoms) == 1:
        raise Inapplicable
    found = solved(case).vibrations()
    wavenumbers, moves = _modes(found)
    yield "wavenumbers", found.wavenumbers, wavenumbers, 1e-3 + 1e-6 * np.abs(wavenumbers).max(initial=0.0)
    slopes = np.einsum("nax,axk->nk", moves, found.dipole_derivatives)
    in_si = constants.e**2 / constants.physical_constants["atomic mass constant"][0]
    per_mole = constants.N_A / (12 * constants.epsilon_0 * constants.c**2) / 1000
    expected = per_mole * in_si * np.sum(slopes**2, axis=1)
    yield "infrared intensities", np.sum(found.infrared), np.sum(expected), 1e-5 * (1 + np.sum(expected))


def raman(case: Case) -> Iterator[Comparison]:
    """Derivatives of the polarisability by the nuclei, as those of forces by fields; activities of them."""
    moving_grid(case)
    _third_order(case)
    if "scanl" in case.xc:  # polarisabilities of hydrogen change by 0.1 between geometries 0.01 bohr apart
        raise Inapplicable
    result, d = solved(case), direction(case)
    found = result.vibrations(raman=True, points=4)
    F = d[0] / np.linalg.norm(d[0])
    real = [a for a, (symbol, _) in enumerate(case.atoms) if not symbol.startswith("ghost")]
    alone = np.zeros_like(d)
    alone[real] = d[real]
    got = np.einsum("ax,axkl,k,l->", d[real], found.polarizability_derivatives, F, F)

    def force(t):
        return np.sum(alone * solved(case, guess=result, **in_field(case, t * F)).forces())

    (coarse, _), (expected, _) = (bend(force, np.sum(alone * result.forces()), t) for t in (STRONG / 2, STRONG / 4))
    error = abs(coarse - expected)  # LiH in a solvent: -0.18, -0.10, -0.03 as fields halve, -0.04 by response
    yield "differences of forces in fields", got, expected, 5e-3 * max(1.0, abs(expected)) + error, error
    slopes = np.einsum("nax,axkl->nkl", _modes(found)[1], found.polarizability_derivatives)
    squares, mean = np.einsum("nkl,nkl->n", slopes, slopes), np.einsum("nkk->n", slopes) / 3
    activities = (45 * mean**2 + 3.5 * (3 * squares - 9 * mean**2)) * BOHR**4
    yield "activities", np.sum(found.raman), np.sum(activities), 1e-6 * (1 + np.sum(activities))


def hyperpolarizability(case: Case) -> Iterator[Comparison]:
    """As second derivatives of the dipole by fields."""
    _third_order(case)
    result, d = solved(case), direction(case)[0]
    d = d / np.linalg.norm(d)
    beta = np.einsum("xyz,x,y,z->", result.hyperpolarizability(), d, d, d)
    along = lambda t: solved(case, guess=result, **in_field(case, t * d)).dipole @ d
    expected, error = bend(along, result.dipole @ d, STRONG)
    yield "differences of dipoles in fields", beta, expected, 0.05 + 3e-3 * abs(expected) + 0.5 * error, error


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
    formula = FORMULAS.get(case.xc)
    if formula is None or formula.share is None or len(result.grid[1]) > LIMIT:
        return
    X, Y = ([part[0] for part in parts] for parts in (whole.X, whole.Y))
    mole = to_pyscf(result.molecule)
    L = [x - y for x, y in zip(X, Y, strict=True)]
    length = sum(np.sum(x * x - y * y) for x, y in zip(X, Y, strict=True))
    yield "A - B of the formula", whole.energies[0] * length, imaginary_curvature(formula, mole, result, L), 1e-4


def excitations_of_pyscf(case: Case) -> Iterator[Comparison]:
    """PySCF's of its own Kohn-Sham object with our orbitals: kernels at low densities amplify what cycles leave."""
    if case.method == "ROKS" or {"smearing", "occupations"} & set(case.options):
        raise Inapplicable
    result = solved(case)
    if "tpss" in case.xc and np.sum(np.any(result.mo_occ > 0, axis=0)) == 1:
        raise Inapplicable  # where tau = tau_W, rounding decides libxc's potential (tests/test_libxc_faults.py)
    mf, of_nuclei = pyscfs(case, result)
    n = max(1, min(3, _pairs(result)))
    ours = result.excitations(n).energies
    alone = lambda arrays: arrays[0] if len(arrays) == 1 else np.array(arrays)
    if abs(mf.energy_tot(alone(result.density_matrix)) + of_nuclei - result.energy) > 1e-6:
        raise Inapplicable  # its functional is another one
    mf.mo_coeff, mf.mo_energy, mf.mo_occ = map(alone, (result.mo_coeff, result.mo_energy, result.mo_occ))
    mf.converged = True
    theirs = tddft.TDDFT(mf)
    theirs.nstates, theirs.conv_tol = min(n + 2, _pairs(result)), 1e-8
    theirs.positive_eig_threshold = 1e-6  # 1e-3, its own, leaves out excitations below 0.03 hartree
    yield "PySCF's energies", ours, np.sort(theirs.kernel()[0])[:n], 2e-5


def spin_flips(case: Case) -> Iterator[Comparison]:
    """Eigenvalues of A = (e_a - e_i) - c (ij|ab) of occupied alpha and empty beta orbitals, from all integrals."""
    ranges = any(name in case.xc for name in ("camb3lyp", "hse06", "wb97x"))
    beyond = case.options.get("terms") == "dft+u" or (ranges and case.options["density_fit"])
    if not case.is_open or case.method == "ROKS" or beyond:
        raise Inapplicable
    result = solved(case)
    mole, (n_alpha, n_beta) = to_pyscf(result.molecule), result.mo_occ
    size = int(np.sum(n_alpha > 0) * np.sum(n_beta == 0))
    found = result.excitations(max(min(3, size), 1), spin="flip").energies
    C_o, C_v = result.mo_coeff[0][:, n_alpha > 0], result.mo_coeff[1][:, n_beta == 0]
    gaps = result.mo_energy[1][n_beta == 0] - result.mo_energy[0][n_alpha > 0][:, None]
    A = np.diag(gaps.ravel())
    for omega, fraction in result.functional.exact_exchange:
        eri = integrals(mole, omega, fitting_functions(result))
        coupling = np.einsum("pqrs,pi,qj,ra,sb->iajb", eri, C_o, C_o, C_v, C_v, optimize=True)
        A -= fraction * coupling.reshape(A.shape)
    yield "eigenvalues", found, np.linalg.eigvalsh(A)[: len(found)], 2e-5


def _state_of(case, result):
    """Excitations whose lowest root stands apart or has others of the same energy, and how they are asked for again."""
    if "vdw" in case.xc:  # longest of all double integrals
        raise Inapplicable
    if np.sum(np.any(result.mo_occ > 0, axis=0)) == 1 and any(result.molecule.atom_ecp):
        raise Inapplicable  # the density has nodes, where kernels diverge: of NaH, BLYP's triplets jump by 5e-4 hartree
    asked = {"spin": "triplet"} if not case.is_open and case.seed % 2 else {}
    asked |= {"tda": True} if case.seed % 3 == 0 else {}
    asked |= {"equilibrium_solvation": True} if "solvent" in case.options else {}
    found = result.excitations(max(1, min(2, _pairs(result))), **asked)
    if len(found.energies) > 1 and SAME < found.energies[1] - found.energies[0] < 0.03:
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
    yield "differences of excitation energies", got, expected, 5e-5 + 0.1 * error, error


def excited_dipole(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    found, asked = _state_of(case, result)
    got = found.state(0).dipole @ d

    def value(t):
        at = solved(case, guess=result, **in_field(case, t * d))
        return -(at.energy + at.excitations(len(found), **asked).energies[0])

    expected, error = slope(value, 2 * FIELD)
    yield "differences of excitation energies in fields", got, expected, 2e-4 + 0.3 * error, error


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
