r"""The response of a result's orbitals to a perturbation: coupled-perturbed Kohn-Sham, static and at a frequency.

    (A + B) R - w L = -G,   (A - B) L - w R = 0,   R = X + Y,   L = X - Y

for perturbations with matrix elements G_pq between an orbital p and a more occupied one q. The products with A + B and
A - B are those of the energy's Hessian in real and imaginary orbital rotations (dftfd.scf.rotation), which stability
analysis and second-order minimisation use, too: every term of the energy is in them by its exact response.

M. E. Casida, in Recent Advances in Density Functional Methods I (1995), p. 155. doi:10.1142/9789812830586_0005
"""

from copy import copy
from functools import cached_property, partial

import numpy as np

from dftfd.functionals import supports
from dftfd.model.calculation import Ingredients, cheaper_ingredients
from dftfd.model.kohn_sham import FockEvaluation, KohnSham
from dftfd.response.subspaces import driven_response
from dftfd.runtime.progress import Progress
from dftfd.scf.orbitals import Aufbau
from dftfd.scf.problem import State
from dftfd.scf.rotation import EnergyModel, canonical
from dftfd.terms import CoulombExchangeEnergy

MAX_PRODUCTS = 1000

LARGE = 1000
"""Pairs of orbitals from which a cheaper energy saves more products than it costs."""


class LinearResponse:
    """A + B, A - B and A of a result, on vectors (trial, size) of its pairs of orbitals.

    Restricted and unrestricted results, and, for static responses, restricted open shells and any given occupations;
    smeared ones also move electrons (dftfd.response.polarizability): UnsupportedError.
    triplet: of a closed shell, changes of one spin that are minus those of the other.
    fast: of changes that the nuclei of a solvent do not follow.
    gaps: (size,) [hartree].   scale: a vector's energy is scale/2 R . (A + B) R.
    """

    def __init__(
        self,
        result,
        triplet: bool = False,
        progress=None,
        ingredients: Ingredients | None = None,
        fast: bool = False,
        large: int | None = None,
    ):
        """ingredients: of the result's calculation, where they are still there.

        large: pairs from which a cheaper energy helps, LARGE without."""
        result.require_converged("linear response")
        supports.require("response", result.functional, result.features)
        self._progress, self.triplet, self._fast, self._large = progress or Progress(), triplet, fast, large or LARGE
        self.result, calculation = result, result.calculation
        self._ingredients = ingredients or calculation.build(self._progress)
        self._ingredients.energy.require_response()
        self._problem = self._ingredients.problem(Aufbau(calculation.n_occupied, calculation.capacity))
        P = result.density_matrix
        F = self._problem.start(P).F if result.fock is None else result.fock
        state = State(P, FockEvaluation(F, {}, None), result.mo_energy, result.mo_occ, result.mo_coeff)
        self.state = canonical(self._problem, state)
        self._model = self._with(self._ingredients.energy)
        functional = calculation.functional
        self.is_local = not (functional.exact_exchange or functional.exact_exchange_ranges)
        self.rotations = self._model.rotations
        differences = np.unique(self._electrons_moved())
        self.is_uniform = len(differences) <= 1 and not self._problem.shared_orbitals  # none: no orbital is empty
        uniform = self.is_uniform and len(differences)
        self.scale = 2.0 * float(differences[0]) if uniform else 2.0 * calculation.capacity
        self.gaps = self._model.diagonal / self.scale

    def _with(self, energy):
        """The Hessians at the state with the response of an energy."""
        energy = energy.without_slow_response() if self._fast else energy
        with self._progress.stage("response of the functional"):
            return EnergyModel(self._problem, self.state, partial(energy.orbital_response, triplet=self.triplet))

    @cached_property
    def cheaper(self) -> "LinearResponse | None":
        """The same with the response of an energy that costs less, which others correct; None where it saves little."""
        if self.size < self._large:
            return None
        found = cheaper_ingredients(self._ingredients, self._progress, looks=True)
        if found is None:
            return None
        energy = found.ingredients.energy
        exchange = energy.of_kind(CoulombExchangeEnergy)
        few = exchange.with_few_for_exchange()
        self._progress.note("first with an approximate response")
        other = copy(self)
        other._model = self._with(KohnSham(tuple(few if term is exchange else term for term in energy.terms)))
        return other

    def _electrons_moved(self):
        """n_q - n_p of each variable, the sum over the spins that share it."""
        n = self.rotations.occupations
        return self.rotations.flat(np.sum(n[:, :, None, :] - n[:, :, :, None], axis=1))

    @property
    def energy(self) -> KohnSham:
        """The terms whose responses these are."""
        return self._ingredients.energy

    @property
    def size(self) -> int:
        """Number of pairs."""
        return self.rotations.size

    def real(self, X) -> np.ndarray:
        """(A + B) X."""
        return self._model.hessian_times(X) / self.scale

    def imaginary(self, X) -> np.ndarray:
        """(A - B) X."""
        return self.gaps * X if self.is_local else self._model.hessian_times(X, 1.0) / self.scale

    def tamm_dancoff(self, X) -> np.ndarray:
        """A X."""
        return self._model.hessian_times(X, 0.5) / self.scale

    def of_operators(self, h) -> np.ndarray:
        """G (k, size) of perturbations h (k, ao, ao), the same for both spins: h_pq for full and empty orbitals."""
        return self.of_matrices(np.broadcast_to(h, (len(self.state.mo_coeff), *h.shape)))

    def of_matrices(self, h) -> np.ndarray:
        """G (k, size) of changes h (spin, k, ao, ao) of the Fock matrices."""
        spins = [
            np.einsum("ap,kab,bq->kpq", C, h_s, C, optimize=True) for C, h_s in zip(self.state.mo_coeff, h, strict=True)
        ]
        n = self.rotations.occupations
        moved = n[:, :, None, None, :] - n[:, :, None, :, None]  # (set, spin, 1, p, q)
        return self.rotations.flat(2.0 * np.sum(moved * self.rotations.by_set(spins), axis=1)) / self.scale

    @property
    def active_orbitals(self) -> list[np.ndarray]:
        """Per spin the indices of orbitals that have electrons in any spin that shares them."""
        repeat = len(self.state.mo_coeff) // len(self.rotations.active)
        return [active for active in self.rotations.active for _ in range(repeat)]

    def fock_changes(self, dC) -> list[np.ndarray]:
        """dF C of active orbitals, per spin (k, active, ao), with changes dC of the same shape; see `Term.response`."""
        return self._model.response(dC)

    def density_changes(self, R) -> np.ndarray:
        """dP (k, spin, ao, ao) of orbitals that change by R (k, size)."""
        occupied = self._model.active_orbitals()
        changes = self.rotations.changes(R, self.state.mo_coeff)
        half = [dC.transpose(0, 2, 1) @ C for dC, C in zip(changes, occupied, strict=True)]
        return np.stack([X + X.transpose(0, 2, 1) for X in half], axis=1)

    def solve(self, G, omega: float = 0.0, tolerance: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
        """R and L (k, size) for perturbations G (k, size) at a frequency omega [hartree].

        Static, R holds the derivatives of orbitals, kappa_pq = R_pq in C -> C exp(kappa); see `blocks`.
        tolerance: of the equations, as a share of each G. Raises NotConvergedError, at a resonance for example.
        """
        if omega:
            supports.require("response at a frequency", self.result.functional, self.result.features)
        note, cheaper = self._progress.note, self.cheaper
        return driven_response(self, np.asarray(G), float(omega), tolerance, MAX_PRODUCTS, note, cheaper)

    @property
    def occupied(self) -> tuple[np.ndarray, ...]:
        """Per spin the orbitals with electrons, (ao, orbital)."""
        return tuple(C[:, n > 0] for C, n in zip(self.state.mo_coeff, self.state.mo_occ, strict=True))

    @property
    def virtual(self) -> tuple[np.ndarray, ...]:
        """Per spin the empty orbitals, (ao, orbital)."""
        return tuple(C[:, n == 0] for C, n in zip(self.state.mo_coeff, self.state.mo_occ, strict=True))

    def blocks(self, X) -> list[np.ndarray]:
        """Per spin (trial, occupied, virtual) of vectors X (trial, size) of full and empty orbitals."""
        parts = np.split(X, np.cumsum([len(p) for p, _ in self.rotations.pairs])[:-1], axis=-1)
        shapes = [(int((n == 0).sum()), int((n > 0).sum())) for n in self.rotations.occupations[:, 0]]
        return [part.reshape(len(X), *shape).transpose(0, 2, 1) for part, shape in zip(parts, shapes, strict=True)]

    def vectors(self, blocks) -> np.ndarray:
        """The X (trial, size) whose `blocks` these are."""
        return np.concatenate([np.moveaxis(b, 1, 2).reshape(len(b), -1) for b in blocks], axis=-1)
