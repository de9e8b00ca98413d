r"""Spin-flip excitations: an alpha electron becomes a beta one, in the Tamm-Dancoff approximation.

    A_ia,jb = delta_ij F^beta_ab - delta_ab F^alpha_ij - f (ij|ab),   i, j occupied alpha, a, b empty beta orbitals

From a high-spin state they reach states of lower spin, closed shells with two competing configurations among them. With
spins along one axis (collinear) densities and semilocal potentials do not change, so exact exchange f alone couples.

Y. Shao, M. Head-Gordon, A. I. Krylov, J. Chem. Phys. 118, 4807 (2003). doi:10.1063/1.1545679
"""

import numpy as np

from dftfd.errors import InputError
from dftfd.functionals import supports
from dftfd.model.kohn_sham import FockEvaluation
from dftfd.model.solved_calculation import SolvedCalculation
from dftfd.runtime.progress import Progress
from dftfd.scf.occupation import Aufbau
from dftfd.scf.problem import State
from dftfd.scf.rotation import canonical
from dftfd.terms import CoulombExchangeEnergy


class SpinFlip:
    """A of a result with two spins, on vectors (trial, size) of pairs (occupied alpha, empty beta).

    gaps: (size,) [hartree].   occupied, virtual: of alpha and of beta, each a tuple of one (ao, orbital).
    """

    is_local, cheaper, scale = True, None, 2.0

    def __init__(self, result: SolvedCalculation, progress=None):
        result.require_converged("linear response")
        calculation, progress = result.calculation, progress or Progress()
        supports.require("spin flips", result.functional, result.features)
        if len(result.mo_occ) == 1 or not set(np.unique(result.mo_occ)) <= {0.0, 1.0}:
            raise InputError("spin-flip excitations begin at UKS or ROKS with full and empty orbitals.")
        ingredients = calculation.build(progress)
        problem = ingredients.problem(Aufbau(calculation.n_occupied, calculation.capacity))
        P = result.density_matrix
        F = problem.start(P).F if result.fock is None else result.fock
        state = State(P, FockEvaluation(F, {}, None), result.mo_energy, result.mo_occ, result.mo_coeff)
        C, n = canonical(problem, state).mo_coeff, result.mo_occ
        self.occupied, self.virtual = (C[0][:, n[0] > 0],), (C[1][:, n[1] == 0],)
        self._F_oo, self._F_vv = (c.T @ f @ c for (c,), f in zip((self.occupied, self.virtual), F, strict=True))
        self.gaps = (np.diagonal(self._F_vv) - np.diagonal(self._F_oo)[:, None]).ravel()
        self._exchange = ingredients.energy.of_kind(CoulombExchangeEnergy)

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.gaps)

    def tamm_dancoff(self, X) -> np.ndarray:
        """A X."""
        (blocks,), (C_o,), (C_v,) = self.blocks(X), self.occupied, self.virtual
        found = blocks @ self._F_vv - self._F_oo @ blocks
        C, dC = np.ascontiguousarray(C_o.T), blocks @ C_v.T
        for omega, fraction in self._exchange.exact_exchange:
            found = found - fraction * self._exchange.builder.exchange_on_orbitals(C, dC, omega, 0.0) @ C_v
        return found.reshape(X.shape)

    real = imaginary = tamm_dancoff

    def blocks(self, X) -> list[np.ndarray]:
        """One array (trial, occupied alpha, empty beta) of vectors (trial, size)."""
        return [X.reshape(-1, len(self._F_oo), len(self._F_vv))]
