"""DFT+U as a user-defined energy term: a penalty for fractional occupation of an atomic shell.

    E_U = U/2 sum_atoms sum_spins tr(n - n n),   n = q^T P q

q projects on the shell in Loewdin's orbitals of a minimal basis. S. L. Dudarev, G. A. Botton, S. Y. Savrasov, C. J.
Humphreys, A. P. Sutton, Phys. Rev. B 57, 1505 (1998). doi:10.1103/PhysRevB.57.1505

    python examples/terms/hubbard.py
    dftfd run water.xyz --term 'examples/terms/hubbard.py:dft+u(shell="O 2p", U=0.15)'
"""

from functools import partial

import jax
import jax.numpy as jnp

import dftfd
from dftfd.terms import DerivedTerm, energy_term, inverse_square_root


@energy_term("dft+u")
class Hubbard(DerivedTerm):
    """shell: element and shell of the atoms that are corrected, 'O 2p'.   U: U - J [hartree]."""

    components = {"hubbard": "Hubbard correction"}
    reference_basis, hermitian = "minao", True

    def __init__(self, molecule, shell, U):
        super().__init__(molecule)
        if not abs(U) < 1:
            raise dftfd.errors.InputError(f"U={U} hartree are {27.2114 * U:g} eV; U - J in hartree expected.")
        self.U, (element, shell) = U, shell.split()
        found = {}
        for k, (atom, symbol, name) in enumerate(self.reference_functions):
            if (symbol, name[:2]) == (element, shell):
                found.setdefault(atom, []).append(k)
        if not found:
            raise dftfd.errors.InputError(f"no atom of {molecule.formula} has the shell '{element} {shell}'.")
        self.sites = [jnp.array(site) for site in found.values()]

    def energy(self, P, S):
        n = P.shape[-1]
        S_ao, S_both = S[:n, :n], S[:n, n:]
        q = S_both @ inverse_square_root(S_both.T @ jnp.linalg.solve(S_ao, S_both))
        occupations = [q[:, site].T @ P_s @ q[:, site] for site in self.sites for P_s in P]
        return self.U / 2 * sum(jnp.trace(n - n @ n) for n in occupations)


def main():
    water = dftfd.molecule("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", basis="6-31g")
    terms = [partial(Hubbard, shell="O 2p", U=0.15)]
    result = dftfd.run_scf(water, "pbe", terms=terms)
    print(result)
    print(result.forces())
    print(result.polarizability())
    print([f"{e:.5f}" for e in result.excitations(3).energies])  # [hartree]
    scf = dftfd.differentiable_scf(water, terms=terms)
    x, c = dftfd.get_functional("gga_x_pbe"), dftfd.get_functional("gga_c_pbe")
    print(jax.grad(lambda kappa: scf(x.with_parameters(kappa=kappa) + c).dipole[2])(0.804))


if __name__ == "__main__":
    main()
