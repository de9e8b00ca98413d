r"""Inversion of the Kohn-Sham equations: the local potential whose orbitals have a given density.

    v_s = v_nuclei + v_H[n_target] + v_xc

v_H of the target stays fixed, so v_xc is what dftfd.training.inverted tells of it: a reference, and a sum of
functions g_t or a potential on the grid; or, for one orbital of each spin, the formula

    v_s - e = nabla^2 sqrt(n) / (2 sqrt(n))

The coefficients b_t of the g_t maximise Wu and Yang's functional:

    W[b] = T_s[P_b] + tr(P_b - P_t)(H_0 + sum_t b_t g_t) - smoothing |nabla sum_t b_t g_t|^2

P_b are the orbitals that the lowest eigenvectors of H_0 + sum_t b_t g_t make, P_t is the target. W is concave; without
smoothing it is largest where the densities agree as far as the functions g_t can tell. Its derivatives are exact:

    dW/db_t = int g_t (n_b - n_t) - 2 smoothing <nabla g_t, nabla v_b>
    d2W/db_t db_u = 2 f sum_ia <i|g_t|a><a|g_u|i> / (e_i - e_a) - 2 smoothing <nabla g_t, nabla g_u>

with f electrons in an orbital: the response of orbitals that do not feel each other, in a sum instead of an equation.

Q. Wu, W. Yang, J. Chem. Phys. 118, 2498 (2003). doi:10.1063/1.1535422. Smoothing: T. Heaton-Burgess, F. A. Bulat,
W. Yang, Phys. Rev. Lett. 98, 256401 (2007). doi:10.1103/PhysRevLett.98.256401
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy.linalg

from dftfd.elements import AtomName
from dftfd.errors import InputError, InputWarning, NotConvergedError, ResourceError, UnsupportedError, shown
from dftfd.functionals.base import Functional
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.interop.pyscf import WAVE_FUNCTIONS, Active, correlated_density
from dftfd.libcint.mole import one_electron_integrals
from dftfd.libcint.three_centre import overlaps_of_three
from dftfd.model.calculation import Calculation, Ingredients
from dftfd.model.kohn_sham import FockEvaluation, KohnSham
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.runtime.arguments import Kind, array, choice, either, number, optional, public, refuse_unknown, whole
from dftfd.runtime.memory import in_bytes, memory_budget
from dftfd.runtime.progress import as_progress
from dftfd.scf.convergence import STRATEGIES, Convergence
from dftfd.scf.loop import solve
from dftfd.scf.orbitals import Aufbau, density_matrix, diagonalise
from dftfd.scf.problem import Problem, State
from dftfd.system.basis import resolve_basis
from dftfd.system.molecule import Molecule
from dftfd.terms import CoulombExchangeEnergy
from dftfd.terms.on_grid import Quadrature
from dftfd.training.inverted import CLOSE, FERMI_AMALDI, ONE_ORBITAL, Inversion
from dftfd.xc.density import density_function, evaluate_at

METHODS = ("wu-yang", "zhao-morrison-parr", ONE_ORBITAL)
OPTIONS = (
    "density_fit",
    "grid_level",
    "grid",
    "linear_dependence",
    "electric_field",
    "point_charges",
    "relativity",
    "external_potential",
    "max_memory",
    "progress",
)
"""Those of run_scf that an inversion takes."""

LADDER = tuple(10.0**-k for k in range(3, 11))
"""Smoothing that is tried, the strongest first, until the density agrees; of the penalty 1 / factor."""

STALE, CLOSER = 2, 0.9
"""The search ends, too, where so many steps leave more than a share of the density's error."""

EVEN_TEMPERED, ORBITALS = "even-tempered", "orbitals"
RATIO, WIDEST, TIGHTEST, LESS = 2.0, 0.1, 30.0, 10.0
"""Of even-tempered exponents [bohr^-2]: each from the last, the smallest, the largest over Z^2, and by how much the
largest is smaller for each angular momentum."""


def _target(value):
    if isinstance(value, str):
        return choice(*WAVE_FUNCTIONS).convert(value)
    return value if issubclass(type(value), SCFResult) else array(None, None, None).convert(value)


TARGET = Kind("an SCFResult, a density matrix (1 or 2, ao, ao), 'mp2', 'ccsd', 'casscf' or 'fci'", _target)
STRENGTH = optional(number(lambda x: x >= 0, "a number from 0"))
HOMO = optional(either(number(), array(None), expected="a number of hartree, or two, of alpha and beta"))
POSITIVE = number(lambda x: x > 0, "a positive number")


@public
def invert(
    molecule: Molecule,
    target: Annotated[Any, TARGET],
    *,
    method: Annotated[str, choice(*METHODS)] = "wu-yang",
    reference: Any = FERMI_AMALDI,
    potential_basis: Any = EVEN_TEMPERED,
    smoothing: Annotated[float | None, STRENGTH] = None,
    density_tol: Annotated[float | None, optional(POSITIVE)] = None,
    homo: Annotated[Any, HOMO] = None,
    active: Active = None,
    conv_tol: Annotated[float, POSITIVE] = 1e-9,
    max_cycles: Annotated[int, whole(1)] = 100,
    **options: Any,
) -> Inversion:
    """The local exchange-correlation potential that reproduces a density (inverse Kohn-Sham).

    target: a result, a density matrix P (spin, ao, ao) in the molecule's basis, or a wave function computed by PySCF:
        'mp2', 'ccsd', 'casscf' with active=(electrons, orbitals), 'fci'. Two spins give two potentials.
    method: 'wu-yang', Gaussians, found by Newton's method; 'zhao-morrison-parr', an electrostatic potential with a
        growing penalty; 'one-orbital', the closed formula for at most one orbital per spin (helium), which needs
        `homo`.
    reference: the potential to which a correction is added, 'fermi-amaldi' or a local functional.
    potential_basis: for 'wu-yang': 'even-tempered', 'orbitals' (those of the molecule), or as in `molecule`.
    smoothing: weight of |nabla (v - reference)|^2, or 1 / factor of the penalty. None: the largest of 1e-3, 1e-4, ...
        1e-10 with a density error below 1e-4 electrons per electron. If no value reaches it, because orbitals in a
        finite basis cannot have every density, the one from which the error no longer falls.
    density_tol: the allowed density error instead of 1e-4. If it is exceeded, NotConvergedError is raised.
    homo: energy of the highest occupied orbital [hartree], for both spins or (alpha, beta), to which the potential is
        shifted. None: the potential vanishes at infinity.
    conv_tol: threshold of the gradient [electrons].   max_cycles: of Newton's method, or of each SCF.
    options: density_fit (default False), grid_level, linear_dependence, fields and charges as in run_scf. A result as
        target has its own.

    Raises InputError for a target that does not fit the molecule, NotConvergedError if no potential is found,
    UnsupportedError for references that are not a local potential. See docs/inversion.md.

    >>> import dftfd
    >>> helium = dftfd.run_scf(dftfd.molecule("He 0 0 0;", basis="6-31g"), "pbe")
    >>> dftfd.invert(helium.molecule, helium, homo=helium.mo_energy[0, 0]).density_error < 1e-4
    True
    """
    refuse_unknown("invert", options, OPTIONS)
    calculation, P = target_of(molecule, target, reference, active, options)
    require_density(calculation, P)
    homo = None if homo is None else _of_each_spin(homo, len(P))
    problem = _Problem.of(calculation, P, as_progress(options.get("progress", False)), reference)
    if method == ONE_ORBITAL:
        return _one_orbital(problem, homo)
    solve = _wu_yang(problem, potential_basis, conv_tol) if method == "wu-yang" else _penalty(problem)
    found = _smoothed(problem, solve, smoothing, density_tol, max_cycles)
    return found if homo is None else _shifted(found, homo)


@dataclass(frozen=True)
class _Problem:
    """What is inverted: F (spin, ao, ao) with the potentials of nuclei, surroundings, target and reference."""

    ingredients: Ingredients
    P: np.ndarray
    F: np.ndarray
    reference: str
    functional: Functional | None

    @classmethod
    def of(cls, calculation: Calculation, P, progress, reference) -> "_Problem":
        ingredients = calculation.build(progress)
        if calculation.functional.terms:
            f = calculation.functional
            return cls(ingredients, P, ingredients.energy.evaluate(P).F, f.name, f)
        coulomb = ingredients.energy.of_kind(CoulombExchangeEnergy)
        others = KohnSham(tuple(term for term in ingredients.energy.terms if term is not coulomb))
        J = coulomb.builder.coulomb(P) * (1.0 - 1.0 / calculation.molecule.n_electrons)
        return cls(ingredients, P, others.evaluate(P).F + J, FERMI_AMALDI, None)

    @property
    def molecule(self) -> Molecule:
        return self.ingredients.calculation.molecule

    @property
    def occupy(self) -> Aufbau:
        calculation = self.ingredients.calculation
        return Aufbau(calculation.n_occupied, calculation.capacity)

    def reference_charges(self) -> np.ndarray:
        """(spin, ao, ao) whose electrostatic potential the reference is."""
        if self.functional is not None:
            return np.zeros_like(self.P)
        return np.repeat(-self.P.sum(axis=0, keepdims=True) / self.molecule.n_electrons, len(self.P), axis=0)

    def density_error(self, P) -> float:
        """int |n - n_target| d^3r, of both spins."""
        points, weights = self.ingredients.calculation.grid.on(self.molecule)
        difference = np.asarray(evaluate_at(density_function(self.molecule, P - self.P), points))
        return float(weights @ np.abs(difference).sum(axis=1))

    def inversion(self, method, smoothing, state, potential_basis, coefficients, charges) -> Inversion:
        """What was found: orbitals (mo_energy, mo_occ, mo_coeff, P) and the parts of the potential."""
        e, n, C, P = state
        functional = self.functional
        return Inversion(
            molecule=self.molecule,
            potential_basis=potential_basis,
            method=method,
            reference=self.reference,
            fingerprint="" if functional is None else program_fingerprint(functional),
            density_error=self.density_error(P),
            smoothing=float(smoothing),
            steps=np.zeros((0, 2)),
            mo_energy=e,
            mo_occ=n,
            mo_coeff=C,
            density_matrix=P,
            target=self.P,
            charges=self.reference_charges() + charges,
            coefficients=coefficients,
            constants=np.zeros(len(P)),
            functional=functional,
        )


# -------------------------------------------------------------------------------------------------------- the methods


def _smoothed(problem, solve, smoothing, density_tol, max_cycles) -> Inversion:
    """The solution of a smoothing, or of the strongest whose density agrees, each from that of a stronger one.

    From far away a step may lead to where two orbitals change places. There W has an edge, on which the search ends
    with a complaint; less smoothing may lead away from it.
    """
    tried = LADDER if smoothing is None else (*(x for x in LADDER if x > smoothing), smoothing)
    allowed, found = (density_tol or CLOSE) * problem.molecule.n_electrons, []
    for strength in tried:
        found.append(solve(strength, max_cycles))
        errors = [inversion.density_error for inversion, _ in found]
        ends = errors[-1] < allowed if smoothing is None else strength == smoothing
        stale = smoothing is None and len(found) > STALE and errors[-1] > CLOSER * errors[-1 - STALE]
        if ends or stale:
            break
    chosen, complaint = found[-1 - STALE if stale else -1]
    if complaint:
        raise NotConvergedError(complaint)
    if not ends and density_tol is not None:
        raise NotConvergedError(
            f"the density error remains {min(errors):.1e} electrons, above density_tol={allowed:.1e}; use larger "
            "bases for orbitals and potential, or leave out density_tol= to get the closest density."
        )
    return replace(chosen, steps=np.stack([tried[: len(errors)], errors], axis=1))


def _wu_yang(problem: _Problem, potential_basis, tolerance):
    """smoothing, cycles -> (Inversion, complaint), each from the last one's potential."""
    calculation, X = problem.ingredients.calculation, problem.ingredients.X
    functions = _functions(problem.molecule, potential_basis)
    size = 4 * 8 * functions.n_ao * problem.molecule.n_ao**2
    if size > memory_budget(calculation.max_memory):
        raise ResourceError(
            f"integrals of {functions.n_ao} functions of the potential take {in_bytes(size)}, more than is free; take "
            "a smaller potential_basis."
        )
    overlaps = overlaps_of_three(problem.molecule, functions)
    gradients = 2.0 * one_electron_integrals(functions)["kinetic"]
    searches = [
        WuYang(overlaps, gradients, F, X, P, n, calculation.capacity)
        for F, P, n in zip(problem.F, problem.P, calculation.n_occupied, strict=True)
    ]
    last: list = [None] * len(searches)

    def solve(smoothing, max_cycles):
        found = [w.optimum(smoothing, tolerance, max_cycles, b) for w, b in zip(searches, last, strict=True)]
        last[:] = [one.coefficients for one in found]
        state = tuple(np.stack([getattr(one, name) for one in found]) for name in _STATE)
        complaint = next((one.complaint for one in found if one.complaint), "")
        return problem.inversion("wu-yang", smoothing, state, functions, np.stack(last), 0.0), complaint

    return solve


_STATE = ("mo_energy", "mo_occ", "mo_coeff", "P")


def _penalty(problem: _Problem):
    """1 / factor, cycles -> (Inversion, complaint), each from the last one's density."""
    builder = problem.ingredients.energy.of_kind(CoulombExchangeEnergy).builder
    matrices, X = problem.ingredients.matrices, problem.ingredients.X
    penalised = PenalisedDensity(problem.F, problem.P, matrices.S, X, builder.coulomb_of_each, problem.occupy)
    last: list = [problem.P]

    def solve(smoothing, max_cycles):
        if not smoothing:
            raise InputError("smoothing=0 is an infinite penalty; give 1 / factor, such as 1e-3.")
        found = penalised.at(1.0 / smoothing, last[0], max_cycles)
        last[0] = found.state.P
        state = tuple(getattr(found.state, name) for name in _STATE)
        nothing = np.zeros((len(problem.P), problem.molecule.n_ao))
        name = "zhao-morrison-parr"
        return problem.inversion(name, smoothing, state, problem.molecule, nothing, found.matrices), found.complaint

    return solve


def _functions(molecule, basis) -> Molecule:
    """The molecule with the functions of the potential as its basis."""
    if isinstance(basis, str) and basis.lower() == ORBITALS:
        return molecule
    names = [AtomName(*of) for of in zip(molecule.symbols, molecule.ghost, molecule.labels, strict=True)]
    if isinstance(basis, str) and basis.lower() == EVEN_TEMPERED:
        entries = tuple(map(_even_tempered, molecule.atomic_numbers))
    else:
        entries = resolve_basis(basis, tuple(names))
    return replace(molecule, atom_basis=entries)


def _even_tempered(Z) -> tuple:
    """Shells of one primitive each, s and p, of atoms beyond helium d and f, too."""
    shells = []
    for l in range(2 if Z <= 2 else 4):
        largest = TIGHTEST * int(Z) ** 2 / LESS**l
        count = max(1, 1 + int(np.log(largest / WIDEST) / np.log(RATIO)))
        shells += [(l, (WIDEST * RATIO**k, 1.0)) for k in range(count)]
    return tuple(shells)


def _one_orbital(problem: _Problem, homo) -> Inversion:
    """The formula for one orbital of each spin.

    Its orbital is the root of the density; what is told is the first natural one, which nearly is, and in the basis.
    """
    calculation = problem.ingredients.calculation
    if set(calculation.n_occupied) != {1}:
        raise InputError(f"method={ONE_ORBITAL!r} is for one orbital of each spin; use 'wu-yang'.")
    if homo is None:
        raise InputError(f"method={ONE_ORBITAL!r} needs homo=, the orbital's energy, minus the ionisation energy.")
    given = calculation.surroundings
    if given.electric_field.any() or len(given.charges) or given.relativity or given.potential is not None:
        raise UnsupportedError(f"method={ONE_ORBITAL!r} supports only the potential of the nuclei; use 'wu-yang'.")
    S = problem.ingredients.matrices.S
    C = np.stack([scipy.linalg.eigh(S @ P @ S, S)[1][:, -1:] for P in problem.P])
    n = np.full((len(C), 1), float(calculation.capacity))
    nothing = np.zeros((len(C), problem.molecule.n_ao))
    state = homo[:, None], n, C, density_matrix(C, n)
    _warn_about_energies(homo, (homo < -0.5 * problem.molecule.nuclear_charges.sum() ** 2).any())  # Z in one place
    found = problem.inversion(ONE_ORBITAL, 0.0, state, problem.molecule, nothing, 0.0)
    return replace(found, charges=np.zeros_like(problem.P), constants=homo)


def _of_each_spin(homo, n_spin) -> np.ndarray:
    values = np.atleast_1d(np.asarray(homo, dtype=float))
    if len(values) not in (1, n_spin):
        raise InputError(f"homo has {len(values)} values; give one, or one of each of the target's spins, {n_spin}.")
    return np.broadcast_to(values, (n_spin,)).copy()


_FAR = 1.5
"""Shift [hartree] of a potential that vanishes at infinity, above which an energy is of another unit or sign."""


def _warn_about_energies(homo, is_far) -> None:
    if is_far or (homo > 0.2).any():
        warnings.warn(
            f"homo={shown(homo.tolist())} hartree: is it an ionisation energy, whose sign is the other, or in "
            "electronvolts?",
            InputWarning,
            stacklevel=5,
        )


def _shifted(found: Inversion, homo) -> Inversion:
    """The same potentials plus constants, which put the highest orbital of each spin that has one to an energy."""
    spins = zip(found.mo_energy, found.mo_occ, homo, strict=True)
    shift = np.array([wanted - e[n > 0].max() if np.any(n > 0) else 0.0 for e, n, wanted in spins])
    _warn_about_energies(homo, np.abs(shift).max() > _FAR)
    return replace(found, mo_energy=found.mo_energy + shift[:, None], constants=found.constants + shift)


SAME_ELECTRONS = 1e-4
"""What a target may have more or less of electrons of a spin, or of electrons in one orbital."""


def target_of(molecule, target, reference, active, options) -> tuple[Calculation, np.ndarray]:
    """(the calculation without exchange and correlation, or with the reference's, and the target's P)."""
    functional = _local(reference)
    if isinstance(target, str):
        target = correlated_density(molecule, target, active)
    elif active is not None:
        raise InputError("active= belongs to target='casscf'.")
    if not isinstance(target, SCFResult):
        if len(target) not in (1, 2) or target.shape[1:] != (molecule.n_ao, molecule.n_ao):
            found = f"shape {target.shape}, expected (1 or 2, {molecule.n_ao}, {molecule.n_ao})"
            raise InputError(f"the target, a density matrix of {found}, does not fit the molecule's basis.")
        method = "RKS" if len(target) == 1 else "UKS"
        of_all = Options(**{"density_fit": False} | options, xc=functional, method=method)
        return Calculation.of(molecule, of_all), target
    target.require_converged("an inversion")
    _require_same(molecule, target.molecule)
    before = target.calculation
    method = "UKS" if before.method == "ROKS" else before.method
    density_fit = options.get("density_fit", False)
    if unknown := set(options) - {"density_fit", "grid_level", "max_memory", "progress"}:
        raise InputError(f"a result as the target has its own {min(unknown)}; leave it out.")
    grid = Quadrature(options["grid_level"]) if "grid_level" in options else before.grid
    calculation = replace(before, functional=functional, method=method, density_fit=density_fit, grid=grid)
    return replace(calculation, max_memory=options.get("max_memory")), target.density_matrix


def _local(reference) -> Functional:
    """The reference, without terms for Fermi and Amaldi; UnsupportedError where its potential is no function of r."""
    if isinstance(reference, str) and reference.lower() == FERMI_AMALDI:
        return get_functional("hf") * 0.0
    functional = get_functional(reference)
    beyond = functional.exact_exchange or functional.pt2 or functional.is_nonlocal
    if beyond or functional.needs_tau or not functional.terms:
        raise UnsupportedError(
            f"{functional.name[:60]!r} has no potential that is a local function of the density and its derivatives; "
            "take an LDA or GGA, or 'fermi-amaldi', as the reference."
        )
    return replace(functional, dispersion=None)


def _require_same(molecule, other):
    same = molecule.symbols == other.symbols and molecule.atom_basis == other.atom_basis
    electrons = (molecule.n_alpha, molecule.n_beta) == (other.n_alpha, other.n_beta)
    if not same or not electrons or not np.allclose(molecule.coordinates, other.coordinates, atol=1e-10):
        raise InputError(
            f"the target is a result of {other.formula}, {other.basis}, of another molecule; give its own."
        )


def require_density(calculation, P):
    """InputError unless P has the molecule's electrons, in orbitals of at most one electron of a spin."""
    molecule, S = calculation.molecule, one_electron_integrals(calculation.molecule)["overlap"]
    if len(P) == 1 and molecule.spin:
        raise InputError("the target has one density matrix, but unpaired electrons; give those of both spins.")
    if np.abs(P - P.transpose(0, 2, 1)).max() > 1e-8:
        raise InputError("the target is not a density matrix: it is not symmetric.")
    s, U = np.linalg.eigh(S)
    root = U * np.sqrt(np.maximum(s, 0.0)) @ U.T
    for name, P_s, n in zip(("alpha", "beta"), P, calculation.n_occupied, strict=False):
        electrons = float(np.sum(P_s * S)) / calculation.capacity
        name = "total" if len(P) == 1 else name
        if abs(electrons - n) > SAME_ELECTRONS:
            raise InputError(
                f"the target's {name} density has {calculation.capacity * electrons:.6f} electrons, the molecule "
                f"{calculation.capacity * n}: it does not fit."
            )
        filled = np.linalg.eigvalsh(root @ P_s @ root) / calculation.capacity
        if filled.min() < -10 * SAME_ELECTRONS or filled.max() > 1 + 10 * SAME_ELECTRONS:
            raise InputError(
                f"the target's {name} density has natural orbitals with {filled.min():.4f} to {filled.max():.4f} "
                "electrons of a spin: no wave function has it."
            )


@dataclass(frozen=True)
class Penalised:
    """Orbitals of the penalty of one factor.

    matrices: (spin, ao, ao), of whose density the potential is.   complaint: empty where the SCF has converged.
    """

    state: State
    matrices: np.ndarray
    complaint: str


class PenalisedDensity:
    r"""H_0: (spin, ao, ao) [hartree].   target: P_t alike.   S, X: overlap and orthonormaliser.

    coulomb: J (n, ao, ao) of matrices (n, ao, ao).   occupy: rule for the occupations.

    The potential of a density by a growing penalty: Zhao, Morrison and Parr's method.

        E[P] = tr(P H_0) + L k/2 sum_s int int dn_s(r) dn_s(r') / |r - r'|,   dn_s = n_s - n_s of the target

    with k spins. Its orbitals move in v_s = v_0 + L k int dn_s(r') / |r - r'| d^3r', and dn vanishes as the factor L
    grows. Each is an ordinary SCF (dftfd.scf), which goes on from the last one.

    Q. Zhao, R. C. Morrison, R. G. Parr, Phys. Rev. A 50, 2138 (1994). doi:10.1103/PhysRevA.50.2138
    """

    def __init__(self, H_0, target, S, X, coulomb: Callable, occupy: Aufbau):
        self._H_0, self._target, self._coulomb = H_0, target, coulomb
        self._S, self._X, self._occupy = S, X, occupy

    def at(self, factor: float, start, max_cycles: int) -> Penalised:
        """The solution for a factor L, from a density matrix, or where `max_cycles` end, with a complaint."""
        scale = factor * len(self._target)

        def fock(P, C_occ=None):
            J = scale * self._coulomb(P - self._target)
            energies = {"linear": float(np.sum(P * self._H_0)), "penalty": 0.5 * float(np.sum((P - self._target) * J))}
            return FockEvaluation(self._H_0 + J, energies, None)

        def response(P, C):
            def change(dC, imaginary=0.0):
                half = [np.matmul(d.transpose(0, 2, 1), c) for c, d in zip(C, dC, strict=True)]
                J = [(1.0 - imaginary) * scale * self._coulomb(h + h.transpose(0, 2, 1)) for h in half]
                return [c @ J_s for c, J_s in zip(C, J, strict=True)]

            return change

        problem = Problem(fock, self._S, self._X, self._occupy, response=response)
        limits = Convergence(1e-10, max_cycles, orbital_gradient=1e-6)
        found = solve(problem, start, strategy=STRATEGIES["second-order"], convergence=limits)
        complaint = ""
        if not found.converged:
            complaint = (
                f"the orbitals of the penalty {factor:g} have not converged after {found.cycles} cycles; end at a "
                "smaller one, smoothing=1/factor, or use method='wu-yang'."
            )
        return Penalised(found.state, scale * (found.state.P - self._target), complaint)


NEGLIGIBLE = 1e-13
"""Eigenvalues of the Hessian below this share of the largest belong to potentials that the density does not feel."""

SHORTEST = 2.0**-20
"""Share of a Newton step below which none goes uphill any more."""


@dataclass(frozen=True)
class Optimum:
    """Where W of one spin is largest.

    coefficients: b (function,).   mo_energy, mo_occ: (mo,).   mo_coeff: (ao, mo).   P: (ao, ao).
    complaint: why this is not the maximum, empty where it is.
    """

    coefficients: np.ndarray
    mo_energy: np.ndarray
    mo_occ: np.ndarray
    mo_coeff: np.ndarray
    P: np.ndarray
    complaint: str


class WuYang:
    """W of one spin.

    overlaps: <m| g_t |n> (function, ao, ao).   gradients: <nabla g_t, nabla g_u> (function, function) [bohr].
    F: H_0 (ao, ao) [hartree].   X: orthonormaliser (ao, mo).   target: P_t (ao, ao).   n_occupied, capacity: orbitals
    that are filled and electrons in each.
    """

    def __init__(self, overlaps, gradients, F, X, target, n_occupied: int, capacity: int):
        self._overlaps, self._gradients = overlaps, gradients
        self._F, self._X, self._target = F, X, target
        self._n, self._capacity = n_occupied, capacity

    def optimum(self, smoothing: float, tolerance: float, max_cycles: int, start=None) -> Optimum:
        """The maximum by Newton's method from coefficients b, or where it ends, with a complaint.

        tolerance: of the gradient's largest element [e].
        """
        b = np.zeros(len(self._overlaps)) if start is None else start
        there: Any = (b, self.at(b, smoothing))
        cycle = 0
        while there is not None:
            b, (W, orbitals, P) = there
            slope = self.slope(b, P, smoothing)
            left = float(np.abs(slope).max(initial=0.0))
            if left < tolerance:
                return self._optimum(b, orbitals, P, "")
            db, rise = self._newton(orbitals, slope, smoothing)
            there = None if cycle == max_cycles else self._uphill(b, db, rise, W, smoothing)
            cycle += there is not None
        return self._optimum(b, orbitals, P, self._complaint(cycle, left, orbitals[0][0]))

    def _optimum(self, b, orbitals, P, complaint):
        (e,), (C,) = orbitals
        return Optimum(b, e, self._filling(), C, P, complaint)

    def _filling(self):
        filling = np.zeros(self._X.shape[1])
        filling[: self._n] = self._capacity
        return filling

    def at(self, b, smoothing: float) -> tuple:
        """W [hartree] at b, its orbitals (mo_energy, mo_coeff), with an axis of one spin, and their density matrix."""
        F = self._F + np.tensordot(b, self._overlaps, 1)
        orbitals = diagonalise(F[None], self._X)
        P = density_matrix(orbitals[1], self._filling()[None])[0]
        return float(np.sum((P - self._target) * F) - smoothing * b @ self._gradients @ b), orbitals, P

    def slope(self, b, P, smoothing: float) -> np.ndarray:
        """dW/db (function,) [e] where the orbitals have P."""
        felt = np.tensordot(self._overlaps, P - self._target, 2)
        return felt - 2.0 * smoothing * self._gradients @ b

    def curvature(self, orbitals, smoothing: float) -> np.ndarray:
        """-d2W/db db (function, function) [e / hartree] of orbitals as `at` has them."""
        (e,), (C,) = orbitals
        moved = C[:, : self._n].T @ self._overlaps @ C[:, self._n :]  # (function, occupied, empty)
        gaps = e[None, self._n :] - e[: self._n, None]
        moved = (moved / np.sqrt(np.maximum(gaps, np.finfo(float).tiny))).reshape(len(moved), -1)
        return 2.0 * self._capacity * moved @ moved.T + 2.0 * smoothing * self._gradients

    def _newton(self, orbitals, slope, smoothing):
        """Newton's step, and how much W would rise along it to first order."""
        values, vectors = scipy.linalg.eigh(self.curvature(orbitals, smoothing))
        felt = values > NEGLIGIBLE * values[-1]
        along = vectors[:, felt].T @ slope
        return vectors[:, felt] @ (along / values[felt]), float(along**2 @ (1.0 / values[felt]))

    def _uphill(self, b, db, rise, W, smoothing):
        """(b, what is there) as far along the step as W rises; None where it does not, beyond rounding."""
        share, noise = 1.0, 1e-14 * max(1.0, abs(W), float(np.abs(self._target * self._F).sum()))
        while share > SHORTEST:
            there = self.at(b + share * db, smoothing)
            if there[0] - W > 1e-4 * share * rise - noise:
                return b + share * db, there
            share /= 2
        return None

    def _complaint(self, cycles, left, e):
        gap = e[self._n] - e[self._n - 1] if 0 < self._n < len(e) else np.inf
        close = f"; orbitals {self._n - 1} and {self._n} are {gap:.1e} hartree apart" if gap < 1e-3 else ""
        return (
            f"the potential has not converged after {cycles} cycles: {left:.1e} electrons are left of the gradient"
            f"{close}; use more smoothing, a smaller potential basis, or more max_cycles."
        )
