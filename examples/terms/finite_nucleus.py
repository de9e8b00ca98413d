"""Nuclei of finite size: a Gaussian charge in place of a point, which matters where densities at nuclei do.

    E = - sum_A Z_A tr(P [erf(sqrt(zeta_A) r_A) / r_A - 1 / r_A]),   zeta = 3 / (2 R^2)

with the radius R = (0.836 M^(1/3) + 0.570) fm of the most frequent isotope's mass number M.

L. Visscher, K. G. Dyall, At. Data Nucl. Data Tables 67, 207 (1997). doi:10.1006/adnd.1997.0751

    python examples/terms/finite_nucleus.py
    dftfd run hbr.xyz --term examples/terms/finite_nucleus.py:finite-nucleus
"""

import numpy as np
from pyscf.data.elements import ISOTOPE_MAIN
from pyscf.data.nist import BOHR

import dftfd
from dftfd.libcint.mole import to_pyscf
from dftfd.terms import Contribution, Term, energy_term


@energy_term("finite-nucleus")
class FiniteNucleus(Term):
    """What Gaussian nuclei change of the attraction; the repulsion among nuclei is that of points."""

    components, stage = {"finite_nucleus": "finite nuclei"}, "derivatives of finite nuclei"
    is_linear = True

    def __init__(self, molecule):
        self.mole, self.charges = to_pyscf(molecule), molecule.nuclear_charges
        R = (0.836 * np.cbrt([ISOTOPE_MAIN[Z] for Z in molecule.atomic_numbers]) + 0.570) * 1e-5 / BOHR
        self.zeta = 1.5 / R**2
        self.V = -sum(self._change(atom, "int1e_rinv") for atom in np.flatnonzero(self.charges))

    def _change(self, atom, integral):
        """Z times the integral over erf(sqrt(zeta) r)/r less that over 1/r, about an atom."""
        with self.mole.with_rinv_at_nucleus(atom):
            point = self.mole.intor(integral)
            with self.mole.with_rinv_zeta(self.zeta[atom]):
                return self.charges[atom] * (self.mole.intor(integral) - point)

    def evaluate(self, P, C_occ=None):
        return Contribution({"finite_nucleus": float(np.sum(P * self.V))}, {"finite_nucleus": self.V[None]})

    def gradient(self, P, C_occ, grid_response, progress):
        gradient, total = np.zeros((len(self.charges), 3)), P.sum(axis=0)
        for atom in np.flatnonzero(self.charges):  # <nabla m| V |n>: functions move, and the nucleus the other way
            by_function = -2.0 * np.einsum("xmn,mn->xm", self._change(atom, "int1e_iprinv"), total)
            gradient[atom] += by_function.sum(axis=1)
            for other, (start, end) in enumerate(self.mole.aoslice_by_atom()[:, 2:]):
                gradient[other] -= by_function[:, start:end].sum(axis=1)
        return gradient


def main():
    hbr = dftfd.molecule("H 0 0 0; Br 0 0 1.41", basis="sto-3g")
    result = dftfd.run_scf(hbr, "pbe", terms=[FiniteNucleus])
    print(result)
    print(result.forces())


if __name__ == "__main__":
    main()
