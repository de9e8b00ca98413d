r"""Terms whose energy is one function of the density matrix in JAX, of which everything else is derived.

    E = energy(P, S)

P are the density matrices of both spins, S the overlap of the basis functions and of reference functions of atoms.
Matrix dE/dP, response d2E/dP2, third derivatives, and what E gains as nuclei move, dE/dS . dS/dR, are JAX's.
"""

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.elements import parse_atom_name
from dftfd.errors import NumericalError, UnsupportedError, users_code
from dftfd.libcint.derivatives import overlap_derivative
from dftfd.libcint.mole import function_names, overlap_integrals
from dftfd.system.basis import resolve_basis
from dftfd.system.molecule import Molecule
from dftfd.terms.term import Contribution, Term
from dftfd.terms.traced import TracedEnergy


class DerivedTerm(Term):
    """A term of one component whose `energy` is code of JAX.

    It is 1/2 (P + P^T) whose spins `energy` gets, both of them also in a restricted calculation.
    """

    stage = "derivatives of further terms"

    hermitian: ClassVar[bool] = False
    """Whether `energy` is also right for complex Hermitian P, as products of matrices are: tr(P A P A), not sum(P * P).

    Changes of orbitals that are imaginary, in excitations and magnetic responses, are refused without.
    """

    reference_basis: ClassVar[str] = ""
    """Basis set, such as 'minao', of functions of the atoms whose overlap `energy` gets, too."""

    def __init__(self, molecule: Molecule):
        self._molecule = molecule

    @abstractmethod
    def energy(self, P, S) -> jax.Array:
        """E [hartree] of P (2, ao, ao), alpha and beta.

        S: overlap (n, n) of the ao basis functions and, after them, of those of `reference_basis`.
        """

    # ---------------------------------------------------------------------------------------------------- derivatives

    def evaluate(self, P, C_occ=None):
        (name,) = self.components
        energy, matrix = self._slopes(jnp.asarray(P))
        if not (np.isfinite(energy) and np.isfinite(matrix).all()):
            raise NumericalError(f"the energy term {type(self).__name__} or its derivative is NaN or Inf.")
        return Contribution({name: float(energy)}, {name: np.asarray(matrix)})

    def response(self, P, C, triplet=False):
        n_spin = len(P)
        P = jnp.asarray(_both_spins(P) if triplet else P)

        def change(dC, imaginary=0.0):
            if imaginary and not self.hermitian:
                raise UnsupportedError(
                    f"the energy term {type(self).__name__} has no response to imaginary orbital rotations, which "
                    "excitations need; write it for Hermitian P and set hermitian = True."
                )
            half = np.stack([jnp.einsum("tqm,qn->tmn", dC_s, C_s) for C_s, dC_s in zip(C, dC, strict=True)], axis=1)
            found = np.zeros(half.shape)
            for weight, sign, code in ((1.0 - imaginary, 1.0, self._change), (imaginary, -1.0, self._imaginary_change)):
                if weight:
                    dP = half + sign * half.transpose(0, 1, 3, 2)
                    if triplet:
                        dP = np.concatenate([dP, -dP], axis=1) / 2
                    found += weight * np.stack([code(P, jnp.asarray(d)) for d in dP])[:, :n_spin]
            return [np.einsum("tmn,qn->tqm", found[:, s], C_s) for s, C_s in enumerate(C)]

        return change

    def gradient(self, P, C_occ, grid_response, progress):
        return self._gradient_of(self._by_overlap(jnp.asarray(P)))

    bends = True

    def bent_matrices(self, P):
        return np.stack(_along(lambda P: self._slopes(P)[1], P))

    def bent_gradient(self, P, grid_response, progress):
        return self._gradient_of(_along(self._by_overlap, P)[2])

    def traced(self, molecule, in_memory):
        return _OfTerm(self)

    # ------------------------------------------------------------------------------------------------------------ code

    @cached_property
    def _reference(self) -> Molecule:
        """The atoms with reference functions alone."""
        molecule, name = self._molecule, self.reference_basis
        if any(ecp is not None for ecp in molecule.atom_ecp):
            raise UnsupportedError(
                f"the energy term {type(self).__name__} needs all-electron basis functions, but there are core "
                "potentials; choose a basis set without them."
            )
        names = tuple(parse_atom_name(symbol, "symbol") for symbol in molecule.symbols)
        return replace(molecule, atom_basis=resolve_basis(name, names))

    @property
    def functions(self) -> list[tuple[int, str, str]]:
        """(atom, element, name such as '2px') of each basis function, in their order."""
        return function_names(self._molecule)

    @property
    def reference_functions(self) -> list[tuple[int, str, str]]:
        """The same of each reference function."""
        return function_names(self._reference)

    @cached_property
    def _all_functions(self) -> Molecule:
        """The molecule, and after it, as ghosts in the same places, its atoms with reference functions."""
        molecule = self._molecule
        if not self.reference_basis:
            return molecule
        joined = {
            name: getattr(molecule, name) + getattr(self._reference, name)
            for name in ("symbols", "labels", "atom_basis", "atom_ecp")
        }
        ghost = molecule.ghost + (True,) * molecule.n_atoms
        return replace(molecule, coordinates=np.vstack([molecule.coordinates] * 2), ghost=ghost, **joined)

    @cached_property
    def _overlap(self):
        return overlap_integrals(self._all_functions)

    def energy_of(self, P) -> jax.Array:
        """E [hartree] of P (spin, ao, ao)."""
        return self._energy_at(P, jnp.asarray(self._overlap))

    def _energy_at(self, P, S):
        P = _both_spins(0.5 * (P + P.conj().transpose(0, 2, 1)))
        with users_code(f"the energy term {type(self).__name__} cannot be evaluated"):
            return jnp.real(self.energy(P, S.astype(P.dtype)))

    def _slopes(self, P):
        return jax.value_and_grad(self.energy_of)(P)

    def _by_overlap(self, P):
        return jax.grad(self._energy_at, argnums=1)(P, jnp.asarray(self._overlap))

    def _change(self, P, dP):
        return jax.jvp(jax.grad(self.energy_of), (P,), (dP,))[1]

    def _imaginary_change(self, P, A):
        """X of dF = i X for dP = i A, both antisymmetric."""
        slope = jax.grad(lambda A: self.energy_of(jax.lax.complex(P, A)))
        return jax.jvp(slope, (jnp.zeros_like(A),), (A,))[1]

    def _gradient_of(self, W):
        """sum_mn W_mn dS_mn/dR (atom, 3) of a matrix over both kinds of functions."""
        by_centre = overlap_derivative(self._all_functions, np.asarray(0.5 * (W + W.T)))
        return by_centre.reshape(-1, self._molecule.n_atoms, 3).sum(axis=0)


class _OfTerm(TracedEnergy):
    """The energy of a DerivedTerm, which is code of JAX already."""

    def __init__(self, term: DerivedTerm):
        self._term = term

    def names(self, functional):
        return tuple(self._term.components)

    def energy(self, name, P, numbers):
        return self._term.energy_of(P)


jax.tree_util.register_static(_OfTerm)


def _both_spins(P):
    """(2, ao, ao): one spin is the total density."""
    return jnp.concatenate([P, P]) / 2 if len(P) == 1 else P


def _along(code, P) -> list[np.ndarray]:
    """code(P_0 + e P_1 + e^2/2 P_2) and its first two derivatives by e."""
    zero, one = jnp.zeros(()), jnp.ones(())
    at = lambda e: code(P[0] + e * P[1] + 0.5 * e * e * P[2])
    first = lambda e: jax.jvp(at, (e,), (one,))
    (value, slope), (_, second) = jax.jvp(first, (zero,), (one,))
    return [np.asarray(x) for x in (value, slope, second)]


@jax.custom_jvp
def inverse_square_root(M) -> jax.Array:
    """M^(-1/2) of a symmetric positive matrix (n, n), as in Loewdin's orbitals; equal eigenvalues do no harm."""
    values, U = jnp.linalg.eigh(M)
    return (U / jnp.sqrt(values)[None].astype(U.dtype)) @ U.conj().T


@inverse_square_root.defjvp
def _jvp_of_inverse_square_root(primals, tangents):
    """In the eigenvectors of M the change is that of M times a divided difference of x^(-1/2)."""
    values, U = jnp.linalg.eigh(primals[0])
    root = jnp.sqrt(values)
    quotient = -1.0 / (jnp.outer(root, root) * (root[:, None] + root[None]))
    change = quotient.astype(U.dtype) * (U.conj().T @ tangents[0] @ U)
    return inverse_square_root(primals[0]), U @ change @ U.conj().T
