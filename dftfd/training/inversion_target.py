"""What is inverted: density matrices of results, of wave functions and given ones, and whether they fit a molecule."""

from dataclasses import replace

import numpy as np

from dftfd.errors import InputError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.interop.correlated import correlated_density
from dftfd.libcint.mole import one_electron_integrals
from dftfd.model.calculation import Calculation
from dftfd.model.options import Options
from dftfd.results.result import SCFResult
from dftfd.terms.on_grid import Quadrature
from dftfd.training.inverted import FERMI_AMALDI

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
        raise InputError(f"a result as the target brings its own {min(unknown)}; leave it out.")
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
        raise InputError("the target is no density matrix: it is not symmetric.")
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
