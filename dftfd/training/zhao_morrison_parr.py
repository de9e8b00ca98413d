r"""The potential of a density by a growing penalty: Zhao, Morrison and Parr's method.

    E[P] = tr(P H_0) + L k/2 sum_s int int dn_s(r) dn_s(r') / |r - r'|,   dn_s = n_s - n_s of the target

with k spins. Its orbitals move in v_s = v_0 + L k int dn_s(r') / |r - r'| d^3r', and dn vanishes as the factor L grows.
Each is an ordinary SCF (dftfd.scf), which goes on from the last one.

Q. Zhao, R. C. Morrison, R. G. Parr, Phys. Rev. A 50, 2138 (1994). doi:10.1103/PhysRevA.50.2138
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dftfd.model.kohn_sham import FockEvaluation
from dftfd.scf.convergence import STRATEGIES, Convergence
from dftfd.scf.loop import solve
from dftfd.scf.occupation import Aufbau
from dftfd.scf.problem import Problem, State


@dataclass(frozen=True)
class Penalised:
    """Orbitals of the penalty of one factor.

    matrices: (spin, ao, ao), of whose density the potential is.   complaint: empty where the SCF has converged.
    """

    state: State
    matrices: np.ndarray
    complaint: str


class PenalisedDensity:
    """H_0: (spin, ao, ao) [hartree].   target: P_t alike.   S, X: overlap and orthonormaliser.

    coulomb: J (n, ao, ao) of matrices (n, ao, ao).   occupy: rule for the occupations.
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
