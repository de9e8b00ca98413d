"""Second derivatives of the energy by the positions of the nuclei, and first ones of its responses to a field.

By coupled-perturbed orbitals there is no SCF but the first. With C(R) = C (1 - 1/2 S^b) exp(kappa^b), in the basis of
the orbitals, orbitals stay orthonormal as nucleus b moves,

    (A + B) kappa^b = -G^b,   G^b from  F^b + F'[dP_S] - 1/2 (S^b F + F S^b),   F^b = dF/dR_b at fixed P

dP_S is what the first factor does to the density. The gradient E^a - tr(W S^a) of dftfd.model.forces changes by

    H_ab = E^ab + tr(F^a dP^b) - tr(W S^ab) - tr(S^a dW^b),   E^ab = d2E/dR_a dR_b at fixed P

Terms of the energy that know their E^ab and F^a (Term.curvature) give them. Those of all others are differences of
gradients and Fock matrices at the same density, in which there is no error of an SCF, so that steps can be short; those
of five points are exact to about 1e-9. The motion of the quadrature grid is part of either.

P. Pulay, Adv. Chem. Phys. 69, 241 (1987). doi:10.1002/9780470142943.ch4

By differences of forces between displaced geometries, each solved anew:

    d2E/dR_a dR_b = -(F_a(R_b + h) - F_a(R_b - h)) / 2h,   error h^2 F''' / 6, or from four points h^4 F^(5) / 30

It serves every energy that has forces. Dipole moments and polarisabilities at the same geometries give their
derivatives at no more cost, or at that of their responses. What is computed is on disk after each displacement.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import CheckpointError, DamagedFileError, InputError, InputWarning, NumericalError, UnsupportedError
from dftfd.functionals import supports
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import overlap_integrals, position_integrals
from dftfd.model.forces import energy_weighted_density, nuclear_forces
from dftfd.model.identity import identity_of, require_energy_again
from dftfd.model.option_values import for_json
from dftfd.model.options import ENERGY, SEARCH, STATE
from dftfd.model.solved_calculation import SolvedCalculation, solution_at, solved_at
from dftfd.properties.moments import dipole_moment
from dftfd.response.differences import SHARE, STEPS, Differences, kept_functions, require_same_number
from dftfd.response.linear_response import LinearResponse
from dftfd.response.polarizability import polarizabilities
from dftfd.runtime.arguments import Kind, choice, number, optional, whole
from dftfd.runtime.documents import MAGIC, read_tree
from dftfd.runtime.json_reader import as_json, parse_json
from dftfd.runtime.progress import Progress, as_progress
from dftfd.runtime.records import Record, recorded
from dftfd.runtime.threads import blas_threads
from dftfd.scf.convergence import Convergence
from dftfd.scf.orbitals import occupied_orbitals

METHODS = choice("auto", "response", "differences")
POINTS = Kind("2 or 4 points", lambda value: {2: 2, 4: 4}[whole().convert(value)])
STEP = optional(number(lambda h: 1e-5 <= h <= 0.1, "a displacement from 1e-5 to 0.1 bohr"))


@dataclass(frozen=True, eq=False)
class SecondDerivatives:
    """Of a result by the positions of its nuclei.

    hessian: (atom, 3, atom, 3) [hartree/bohr^2], symmetric.   asymmetry: the largest difference [hartree/bohr^2] of
    elements that should be equal, as they were computed.   dipole_derivatives: (atom, 3, 3) [e], the dipole's axis
    last.   polarizability_derivatives: (atom, 3, 3, 3) [bohr^2], or None.   forces: (atom, 3) [hartree/bohr].
    method: how they were found, in words.
    """

    hessian: np.ndarray
    asymmetry: float
    dipole_derivatives: np.ndarray
    polarizability_derivatives: np.ndarray | None
    forces: np.ndarray
    method: str


def second_derivatives(
    result: SolvedCalculation,
    method: str = "auto",
    points: int = 2,
    step: float | None = None,
    raman: bool = False,
    record: Path | None = None,
    restart: bool = False,
    progress: Any = None,
) -> SecondDerivatives:
    """Those of a result; see SCFResult.hessian and SCFResult.vibrations for the arguments."""
    result.require_converged("second derivatives")
    supports.require("second derivatives", result.functional, result.features)
    progress = as_progress(progress)
    displaced = method == "differences" or method == "auto" and (raman or record is not None or restart)
    lacking = "" if displaced else why_not(result)
    if method == "auto":
        method = "differences" if displaced or lacking else "response"
    kept = _dependent(result) if method == "differences" else None
    differences = Differences(points, _step(result, method, points, step, kept), raman)
    if method == "response":
        if raman or record is not None or restart:
            raise InputError("raman=, record= and restart= need method='differences'.")
        if lacking:
            raise UnsupportedError(lacking)
        found, how = by_response(result, differences, progress), "coupled-perturbed orbitals"
    else:
        with recorded_displacements(result, differences, record, restart) as done:
            found = by_differences(result, differences, done, progress)
        how = "forces at displaced geometries" + (f" ({kept})" if kept else "")
    n = 3 * result.molecule.n_atoms
    H = found["hessian"].reshape(n, n)
    if not np.isfinite(H).all():
        raise NumericalError("second derivatives contain NaN or Inf; look for coinciding nuclei.")
    return SecondDerivatives(
        hessian=((H + H.T) / 2).reshape(found["hessian"].shape),
        asymmetry=float(np.abs(H - H.T).max()),
        dipole_derivatives=found["dipole_derivatives"],
        polarizability_derivatives=found["polarizability_derivatives"],
        forces=nuclear_forces(result, progress=progress).values,
        method=f"{how}, {differences}",
    )


def _dependent(result: SolvedCalculation):
    """The KeptFunctions of a linearly dependent basis, else None."""
    if result.mo_coeff.shape[2] == result.molecule.n_ao:
        return None
    return kept_functions(result.molecule, result.calculation.linear_dependence)


def _step(result: SolvedCalculation, method, points, step, kept):
    fitted_ranges = result.calculation.density_fit and any(omega for omega, _ in result.functional.exact_exchange)
    usual = STEPS["response, fitted ranges" if method == "response" and fitted_ranges else method][points]
    if kept is None:
        return usual if step is None else step
    if step is None:
        return kept.step(points, usual)
    longest = kept.turning * SHARE[points]
    if step > longest:
        warnings.warn(
            f"step={step:g} bohr is long for second derivatives here: {kept}. Leave step= out, or take at most "
            f"{longest:.1g} bohr.",
            InputWarning,
            stacklevel=5,
        )
    return step


CLOSE = {"energy": 1e-10, "orbital_gradient": 1e-9}
"""Convergence at displaced geometries [hartree]: what is left of the orbital gradient enters forces to first order."""


class Displacements:
    """What is known at displaced geometries: rows of forces, dipole moment and, where wanted, polarisability."""

    def __init__(self, result: SolvedCalculation, differences: Differences, record: Record):
        n = result.molecule.n_atoms
        self.done = np.zeros(3 * n * differences.points, dtype=bool)
        self.rows = np.zeros((len(self.done), 3 * n + 3 + (9 if differences.raman else 0)))
        self._record = record
        if not record.pieces:
            record.add({"energy": result.energy})
        for k, piece in enumerate(record.pieces):
            try:
                self._take(piece, k, result)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise record.damaged(k, error) from error

    def _take(self, piece, k, result: SolvedCalculation):
        if k == 0:
            require_energy_again(self._record.path, piece["energy"], result.energy, result.settings.options.conv_tol)
            return
        number, row = int(piece["number"]), np.array(piece["row"], dtype=float)
        if number < 0 or row.shape != self.rows[number].shape or not np.isfinite(row).all():
            raise ValueError(f"row {number}")
        self.rows[number], self.done[number] = row, True

    def add(self, number: int, row) -> None:
        """A displacement is done."""
        self.rows[number], self.done[number] = row, True
        self._record.add({"number": number, "row": row.tolist()})


@contextmanager
def recorded_displacements(
    result: SolvedCalculation, differences: Differences, path, restart: bool
) -> Iterator[Displacements]:
    """Those of a result, in the record of that path where there is one."""
    options = replace(result.settings.options, xc=result.functional)
    identity = identity_of(result.molecule, options, ENERGY, STATE, SEARCH)
    identity |= {"differences": f"{differences}{', raman' if differences.raman else ''}"}
    earlier = partial(_of_hdf5, path, result, differences)
    with recorded(path, "displacements of nuclei", identity, restart, earlier) as record:
        yield Displacements(result, differences, record)


def _of_hdf5(path, result: SolvedCalculation, differences, content) -> list[dict] | None:
    """The pieces in a file of an earlier version, HDF5, which did not hold the program of the formula."""
    if not content.startswith(MAGIC):
        return None
    part: Any = read_tree(path, "a record of displacements").get("displacements")
    try:
        if parse_json(part["identity"]) != _earlier_identity(result, differences):
            raise CheckpointError(
                f"{path} is the record of another molecule, geometry, model or step; take another name."
            )
        rows = zip(part["done"].tolist(), part["rows"].tolist(), strict=True)
        pieces = [{"number": number, "row": row} for number, (done, row) in enumerate(rows) if done > 0]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(f"{path} holds no record of displacements: {error!r}.") from error
    said = f"{path} is of an earlier version, which compared energy and options, not the formula itself."
    warnings.warn(said, InputWarning, stacklevel=2)
    return [{"energy": result.energy}, *pieces]


def _earlier_identity(result: SolvedCalculation, differences):
    molecule, options = result.molecule, result.settings.options.plain(ENERGY, STATE)
    names = ("symbols", "charge", "spin", "cartesian", "ghost", "atom_basis", "atom_ecp")
    potential = result.calculation.surroundings.potential
    known = {
        "molecule": {name: getattr(molecule, name) for name in names},
        "coordinates": molecule.coordinates.round(8).tolist(),
        "options": options,
        "functional": result.settings.definition,
        "potential": None if potential is None else potential.name,
        "energy": round(result.energy, 6),
        "differences": [differences.points, differences.step, differences.raman],
    }
    return as_json(known, for_json)


def by_differences(
    result: SolvedCalculation, differences: Differences, record: Displacements, progress: Progress
) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3), dipole_derivatives (atom, 3, 3) and polarizability_derivatives of a result.

    The last axes of the derivatives are those of dipole moment and polarisability; None where they are not wanted.
    Raises NotConvergedError where the SCF at a displaced geometry does not converge.
    """
    n = result.molecule.n_atoms
    shape = 3 * n, differences.points
    thresholds = Convergence(CLOSE["energy"], result.settings.options.max_cycles, CLOSE["orbital_gradient"])
    with progress.stage("displacements"):
        for number, (coordinate, place) in enumerate(np.ndindex(shape)):
            if not record.done[number]:
                x = result.molecule.coordinates.copy()
                x[divmod(coordinate, 3)] += differences.shifts[place] * differences.step
                displaced = solution_at(result, x, thresholds, Progress())
                require_same_number(displaced, result, f"displacement {number + 1}")
                record.add(number, _row(displaced, differences.raman))
                progress.note(f"displacement {number + 1} of {len(record.rows)}")
            progress.part(number + 1, len(record.rows))
    slopes = np.stack([differences.derivative(rows) for rows in record.rows.reshape(*shape, -1)])
    forces, dipole, polarizability = np.split(slopes, [3 * n, 3 * n + 3], axis=1)
    return {
        "hessian": -forces.reshape(n, 3, n, 3),
        "dipole_derivatives": dipole.reshape(n, 3, 3),
        "polarizability_derivatives": polarizability.reshape(n, 3, 3, 3) if differences.raman else None,
    }


def _row(displaced, raman) -> np.ndarray:
    """Forces, dipole moment and polarisability at a displaced geometry in one row."""
    parts = [nuclear_forces(displaced, progress=Progress()).values.ravel(), displaced.dipole]
    if raman:
        parts.append(polarizabilities(displaced, [0.0], Progress())[0].ravel())
    return np.concatenate(parts)


TOLERANCE = 1e-9
"""Of the coupled-perturbed equations, as a share of each perturbation: it enters to first order."""


def why_not(result: SolvedCalculation) -> str:
    """Why there are no coupled-perturbed orbitals for a result, in a sentence; empty where there are."""
    calculation = result.calculation
    if result.settings.options.smearing:
        return "smeared occupations, which move electrons between orbitals, have no response here."
    if result.mo_coeff.shape[2] < calculation.molecule.n_ao:
        return "the basis is linearly dependent: functions that are left out change as nuclei move."
    return calculation.energy(Progress()).lacks_response


def by_response(result: SolvedCalculation, differences: Differences, progress: Progress) -> dict[str, Any]:
    """hessian (atom, 3, atom, 3) and dipole_derivatives (atom, 3, 3) of a result."""
    molecule = result.molecule
    thresholds = Convergence(1e-10, result.settings.options.max_cycles, 1e-9)
    result, ingredients = solved_at(result, molecule.coordinates, thresholds, Progress())
    result.require_converged("second derivatives")
    with progress.stage("coupled-perturbed orbitals"):
        perturbed = _Perturbed(result, ingredients, differences, progress)
    n = molecule.n_atoms
    H, dipoles = perturbed.hessian(), perturbed.dipole_derivatives()
    return {
        "hessian": H.reshape(n, 3, n, 3),
        "dipole_derivatives": dipoles.reshape(n, 3, 3),
        "polarizability_derivatives": None,
    }


class _Perturbed:
    """Changes of orbitals, densities and energy-weighted densities with each coordinate of the nuclei.

    Orbitals that change are those with electrons, per spin (coordinate, orbital, ao). dC: their changes times their
    occupations.   dF: what derivatives of the Fock matrices at the unperturbed density do to them.   dW: (coordinate,
    ao, ao).   skeleton: d2E/dRdR (coordinate, coordinate) at that density.
    """

    def __init__(self, result: SolvedCalculation, ingredients, differences, progress):
        self._result, self._differences, self._progress = result, differences, progress
        self._molecule, self._coordinates = result.molecule, result.molecule.coordinates
        with blas_threads(1):
            self._response = LinearResponse(result, progress=progress, ingredients=ingredients)
            state = self._response.state
            self._C, self._n, self._P, self._F = state.mo_coeff, state.mo_occ, state.P, state.F
            self._occupied = occupied_orbitals(self._C, self._n)
            pairs = zip(self._C, self._response.active_orbitals, strict=True)
            self._active = [np.ascontiguousarray(C[:, active].T) for C, active in pairs]
            self.dS = self._along(lambda molecule: overlap_integrals(molecule))
            with progress.stage("derivatives at fixed density"):
                self.skeleton, self.dF = self._fixed_density()
            self._solve()

    def hessian(self) -> np.ndarray:
        """d2E/dRdR (coordinate, coordinate)."""
        H = self.skeleton.copy()
        for dF, dC in zip(self.dF, self.dC, strict=True):
            H += 2.0 * np.einsum("bqm,aqm->ba", dC, dF, optimize=True)
        W = self._W
        H -= self._along(lambda molecule: overlap_derivative(molecule, W).ravel())
        H -= np.stack([overlap_derivative(self._molecule, dW).ravel() for dW in self.dW])
        return H

    def dipole_derivatives(self) -> np.ndarray:
        """(coordinate, 3) [e]."""
        fixed = self._along(lambda molecule: dipole_moment(molecule, self._P))
        r = position_integrals(self._molecule, 1)
        electrons = sum(
            np.einsum("kqa,xab,qb->kx", dC, r, C, optimize=True) for dC, C in zip(self.dC, self._active, strict=True)
        )
        return fixed - 2.0 * electrons

    def _along(self, code) -> np.ndarray:
        """Derivative of code(molecule) by each coordinate, stacked."""
        found, step = [], self._differences.step
        for b in range(self._coordinates.size):
            values = []
            for k in self._differences.shifts:
                x = self._coordinates.copy()
                x[divmod(b, 3)] += k * step
                values.append(code(self._molecule.at(x)))
            found.append(self._differences.derivative(values))
            self._progress.part(b + 1, self._coordinates.size)
        return np.stack(found)

    def _fixed_density(self):
        """`skeleton` and `dF`: the sum of the terms' own second derivatives and of differences of first ones."""
        P, C_occ, n = self._P, self._occupied, self._coordinates.size
        terms = self._response.energy.terms
        known = [term.curvature(P, C_occ, self._active, self._progress) for term in terms]
        rest = {number for number, found in enumerate(known) if found is None}
        if rest:
            names = ", ".join(word for number in sorted(rest) for word in terms[number].components.values())
            self._progress.fact(f"by differences of gradients and Fock matrices, which takes longer: {names}")

        def first(molecule):
            """Gradient and, per spin, F on the orbitals of the terms without second derivatives."""
            energy = replace(self._result.calculation, molecule=molecule).energy_once(Progress(), rest)
            F = energy.evaluate(P, C_occ).F
            gradient = energy.gradient(P, C_occ, True, Progress())
            return np.concatenate(
                [gradient.ravel(), *((C @ F_s).ravel() for C, F_s in zip(self._active, F, strict=True))]
            )

        sizes = np.cumsum([n, *(C.size for C in self._active)])
        H, *dF = np.split(self._along(first), sizes[:-1], axis=1)
        dF = [part.reshape(n, *C.shape) for part, C in zip(dF, self._active, strict=True)]
        for found in filter(None, known):
            H = H + found.hessian.reshape(n, n)
            dF = [part + of_term.reshape(part.shape) for part, of_term in zip(dF, found.on_orbitals, strict=True)]
        return H, dF

    def _solve(self):
        """Orbitals and what follows from them."""
        response, rotations, C, dS = self._response, self._response.rotations, self._C, self.dS
        active = response.active_orbitals
        in_overlap = []
        for s, (C_s, F) in enumerate(zip(C, self._F, strict=True)):
            XF = C_s @ (C_s.T @ F)  # S^-1 F
            left, right = self._active[s] @ XF.T, self._active[s] @ dS
            in_overlap.append(0.5 * (np.matmul(left, dS) + right @ XF))
        dC_S = [self._overlap_changes(dS, s, active[s]) for s in range(len(C))]
        changes = response.fock_changes(dC_S)
        forces = [dF - part + of_S for dF, part, of_S in zip(self.dF, in_overlap, changes, strict=True)]
        R, _ = response.solve(rotations.forces(forces, C) / response.scale, 0.0, TOLERANCE)
        turned = rotations.changes(R, C)
        self.dC = [a + b for a, b in zip(dC_S, turned, strict=True)]
        dFC = [a + b for a, b in zip(self.dF, response.fock_changes(self.dC), strict=True)]
        self.dW = sum(self._weighted_changes(s, dFC[s], active[s]) for s in range(len(C)))
        self.dW = (self.dW + self.dW.transpose(0, 2, 1)) / 2

    def _overlap_changes(self, dS, s, active):
        """Changes (coordinate, active, ao) of n_q C_q that keep orbitals orthonormal."""
        C, n = self._C[s], self._n[s]
        return -0.5 * n[active][:, None] * np.einsum("kab,bq,ap,cp->kqc", dS, C[:, active], C, C, optimize=True)

    def _weighted_changes(self, s, dFC, active):
        """d(P F X) of one spin with X = S^-1, (coordinate, ao, ao); dFC: the whole dF on orbitals."""
        C, P, F, n = self._C[s], self._P[s], self._F[s], self._n[s][active]
        X, half = C @ C.T, np.einsum("kqa,qb->kab", self.dC[s], self._active[s])
        dP = half + half.transpose(0, 2, 1)
        P_dF = np.einsum("qa,q,kqb->kab", self._active[s], n, dFC, optimize=True)
        return dP @ (F @ X) + P_dF @ X - (P @ F @ X) @ self.dS @ X

    @property
    def _W(self):
        S, threshold = overlap_integrals(self._molecule), self._result.calculation.linear_dependence
        return energy_weighted_density(S, self._P, self._F, self._C[0], threshold)
