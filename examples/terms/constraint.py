"""Constrained DFT: the lowest state with a given number of electrons, or of unpaired ones, on a fragment.

    W(V) = min over P of E[P] + V (N[P] - N_0),   N = sum of the fragment's Loewdin populations

W is largest where N = N_0, and there it is the energy of the constrained state. An outer loop finds V. Its forces are
those of E + V N at fixed V. Q. Wu, T. Van Voorhis, Phys. Rev. A 72, 024502 (2005). doi:10.1103/PhysRevA.72.024502

    python examples/terms/constraint.py
"""

from functools import partial

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import dftfd
from dftfd.terms import DerivedTerm, energy_term, inverse_square_root

HIGHEST = 10.0  # multiplier that is tried [hartree]


@energy_term("constraint")
class Constraint(DerivedTerm):
    """atoms: the fragment's.   value: electrons N_0, with spin=True N_alpha - N_beta.   V: multiplier [hartree]."""

    components = {"constraint": "constraint"}
    hermitian = True

    def __init__(self, molecule, atoms, value, V=0.0, spin=False):
        super().__init__(molecule)
        if not atoms or not set(atoms) <= set(range(molecule.n_atoms)):
            raise dftfd.errors.InputError(f"atoms={atoms}: numbers from 0 to {molecule.n_atoms - 1} expected.")
        self.value, self.V, self.sign = value, V, -1.0 if spin else 1.0
        self.own = np.array([k for k, (atom, *_) in enumerate(self.functions) if atom in atoms])

    def population(self, P, S):
        root = S @ inverse_square_root(S)
        return jnp.sum(jnp.diag(root @ (P[0] + self.sign * P[1]) @ root)[self.own])

    def energy(self, P, S):
        return self.V * (self.population(P, S) - self.value)


def constrained(molecule, xc, atoms, value, spin=False, step=0.1, **options):
    """(result, V) of the constrained state."""
    last = {"guess": options.pop("guess", "minao")}

    def solved(V):
        term = partial(Constraint, atoms=atoms, value=value, V=V, spin=spin)
        last["guess"] = dftfd.run_scf(molecule, xc, terms=[term], guess=last["guess"], **options)
        return last["guess"]

    def excess(V):
        """N - N_0, which falls as V rises: no V is 1e-9."""
        return solved(V or 1e-9).energies["constraint"] / (V or 1e-9)

    start = excess(0.0)
    low, high = 0.0, step if start > 0 else -step
    while excess(high) * start > 0:
        low, high = high, 2 * high
        if abs(high) > HIGHEST:
            raise dftfd.errors.InputError(f"no state with {value} on atoms {atoms} up to V = {HIGHEST} hartree.")
    V = brentq(excess, low, high, xtol=1e-9)
    return solved(V), V


def main():
    pair = dftfd.molecule("He 0 0 0; H 0 0 1.2", basis="6-31g", charge=1)
    for electrons in (1.2, 1.5, 1.8):
        result, V = constrained(pair, "pbe", [0], electrons)
        print(f"{electrons} electrons on He: E = {result.energy:.6f}, V = {V:.5f}, force {result.forces()[1, 2]:.5f}")


if __name__ == "__main__":
    main()
