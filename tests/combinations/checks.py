"""What each property of a random case is compared with: differences of calculations, PySCF's own objects, identities.

A check takes a `Case` and gives what it found: `(what, got, expected, tolerance)` per comparison. It raises
Inapplicable where the case has nothing to compare, and lets the typed errors of a refusal pass.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from pyscf import dft, qmmm

import dftfd
from dftfd.autofd import dot, nabla
from dftfd.errors import NotConvergedError
from dftfd.libcint.mole import to_pyscf
from tests.combinations.cases import Case

BOHR = 0.529177210903
STEP = 0.01
"""Displacements [bohr], fields [hartree/(e bohr)] are a tenth of it."""
PYSCF_NAMES = {"m06l": "m06_l", "m062x": "m06_2x", "lc_wpbe": "hyb_gga_xc_lc_wpbe"}
NOT_IN_PYSCF = ("combination", "lh07t", "b2plyp", "scanl", "vv10", "xv", "mv", "-d")

Comparison = tuple[str, Any, Any, float]


class Inapplicable(Exception):
    """The case has nothing that this property could be compared with."""


def register_own() -> None:
    """The functionals that no library has: one of a formula, one of code on the grid."""

    @dftfd.functional("gga_x_combination")
    def enhanced(n, *, c=-0.7385587663820224, b=0.004):
        """Slater exchange with a fourth root of the reduced gradient; spin is left out on purpose."""
        squares = dot(nabla(n), nabla(n))
        return c * n ** (4 / 3) * (1 + 4 * b * squares / (n ** (8 / 3) + 1e-10)) ** (1 / 4)

    @dftfd.guest("grid_x_combination")
    def on_the_grid(rho, grad_rho, weights, *, c=-0.9305257363491, b=0.004):
        """Slater exchange of each spin, enhanced by gradients."""
        n43 = jnp.where(rho > 1e-20, rho, 1e-20) ** (4 / 3)
        squares = (grad_rho**2).sum(axis=1)
        return weights @ (c * n43 - b * squares / (n43 + squares / 10)).sum(axis=0)


def solved(case: Case, shift=None, guess=None, xc=None, atoms=None, **options):
    """The converged result of the case; shift: displacements (atom, 3) [bohr]."""
    atoms = case.atoms if atoms is None else atoms
    positions = np.array([r for _, r in atoms]) + (0.0 if shift is None else np.asarray(shift) * BOHR)
    given = [(symbol, tuple(r)) for (symbol, _), r in zip(atoms, positions.tolist(), strict=True)]
    molecule = dftfd.molecule(given, basis=case.basis, charge=case.charge, spin=case.spin, cartesian=case.cartesian)
    options = {"conv_tol": 1e-11, "max_cycles": 200, **case.options, **options}
    if guess is not None:
        options |= {"guess": guess, "convergence": "fast"}
    result = dftfd.run_scf(molecule, xc or case.xc, options.pop("method", case.method), **options)
    if not result.converged and "max_cycles" not in options:
        raise NotConvergedError("the SCF has not converged.")
    return result


def slope(value: Callable[[float], Any], step: float) -> tuple[Any, float]:
    """Five-point derivative of value(t) at 0, and how far the three-point one is from it."""
    near, far = (np.asarray(value(t)) - np.asarray(value(-t)) for t in (step, 2 * step))
    best = (8 * near - far) / (12 * step)
    return best, float(np.abs(best - near / (2 * step)).max())


def direction(case: Case) -> np.ndarray:
    """A random displacement (atom, 3) of length 1."""
    d = np.random.default_rng(case.seed).normal(size=(len(case.atoms), 3))
    return d / np.linalg.norm(d)


def total(result) -> float:
    """What is stationary: the free energy, which without smearing is the energy."""
    return result.free_energy


def pyscfs(case: Case, result):
    """PySCF's Kohn-Sham object, whose options this function says anew, and the nuclei's energy in the field."""
    options = dict(case.options)
    if any(part in case.xc for part in NOT_IN_PYSCF) or "solvent" in options:
        raise Inapplicable
    mf = (dft.RKS if len(result.density_matrix) == 1 else dft.UKS)(to_pyscf(result.molecule))
    mf.xc, mf.grids.level, mf.small_rho_cutoff = PYSCF_NAMES.get(case.xc, case.xc), options["grid_level"], 0
    auxiliary = result.settings.auxiliary_basis
    mf = mf.density_fit(auxbasis=auxiliary) if auxiliary else mf
    mf = mf.sfx2c1e() if "relativity" in options else mf
    if "point_charges" in options:
        table = np.array(options["point_charges"])
        mf = qmmm.mm_charge(mf, table[:, 1:], table[:, 0], unit="Bohr")
    mf.verbose = 0
    if "electric_field" not in options:
        return mf, 0.0
    E = np.array(options["electric_field"])
    h = mf.get_hcore() + np.einsum("x,xab->ab", E, mf.mol.intor("int1e_r"))
    mf.get_hcore = lambda *_: h
    return mf, -float(mf.mol.atom_charges() @ mf.mol.atom_coords() @ E)


def softness(case: Case) -> float:
    """Lowest eigenvalue [hartree] of the Hessian by orbital rotations: where it is tiny, differences are noise."""
    return solved(case).stability().internal


def energy(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    mf, of_nuclei = pyscfs(case, result)
    P = result.density_matrix[0] if len(result.density_matrix) == 1 else result.density_matrix
    yield "PySCF's energy of the density", result.energy, mf.energy_tot(P) + of_nuclei, 2e-7
    F = mf.get_hcore() + mf.get_veff(mf.mol, P)
    yield "PySCF's Fock matrix of the density", result.fock, F if F.ndim == 3 else F[None], 2e-6


def forces(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)
    expected, error = slope(lambda t: total(solved(case, t * d, guess=result)), STEP)
    yield "differences of energies", -np.sum(result.forces() * d), expected, 2e-6 + 0.1 * error


def force_sums(case: Case) -> Iterator[Comparison]:
    if {"electric_field", "point_charges"} & set(case.options):
        raise Inapplicable
    result = solved(case)
    F, R = result.forces(), result.molecule.coordinates
    yield "no net force", F.sum(axis=0), np.zeros(3), 1e-6
    torque = np.cross(R, F).sum(axis=0)
    yield "no torque but the grid's", torque, np.zeros(3), 5e-3


def hessian(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)
    expected, error = slope(lambda t: -solved(case, t * d, guess=result).forces(), STEP)
    got = np.einsum("axby,by->ax", result.hessian(), d)
    yield "differences of forces", got, expected, 2e-5 + 0.1 * error


def _in_field(case: Case, F):
    return {"electric_field": list(np.array(case.options.get("electric_field", np.zeros(3))) + F)}


def dipole(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    expected, error = slope(lambda t: -total(solved(case, guess=result, **_in_field(case, t * d))), STEP / 10)
    yield "differences of energies in fields", result.dipole @ d, expected, 2e-6 + 0.1 * error


def polarizability(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)[0]
    expected, error = slope(lambda t: solved(case, guess=result, **_in_field(case, t * d)).dipole, STEP / 10)
    yield "differences of dipoles in fields", result.polarizability() @ d, expected, 1e-4 + 0.1 * error


def excitations(case: Case) -> Iterator[Comparison]:
    if case.spin or case.method != "auto" or "smearing" in case.options:
        raise Inapplicable
    result = solved(case)
    n = min(5, int(np.sum(result.mo_occ > 0)) * int(np.sum(result.mo_occ == 0)))
    restricted = np.sort(np.concatenate([result.excitations(n, spin=spin).energies for spin in ("singlet", "triplet")]))
    other = solved(case, method="UKS", guess=result)
    count = min(n, 4)
    yield "excitations of UKS", restricted[:count], np.sort(other.excitations(count + 2).energies)[:count], 2e-5


def excited_forces(case: Case) -> Iterator[Comparison]:
    result, d = solved(case), direction(case)
    found = result.excitations(2)
    if len(found.energies) > 1 and found.energies[1] - found.energies[0] < 0.02:
        raise Inapplicable

    def value(t):
        at = solved(case, t * d, guess=result)
        return at.energy + at.excitations(2).energies[0]

    expected, error = slope(value, STEP)
    yield "differences of excitation energies", -np.sum(found.forces(0) * d), expected, 2e-5 + 0.1 * error


def parameters(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    slopes = result.parameter_gradient()
    named = {(term, name) for term, of_term in slopes.items() for name, x in of_term.items() if np.ndim(x) == 0}
    values = result.functional.parameters
    names = sorted({name for _, name in named if isinstance(values.get(name), float)})
    if not names:
        raise Inapplicable
    name = names[case.seed % len(names)]
    p, got = values[name], sum(of_term[name] for of_term in slopes.values() if name in of_term)

    def value(t):
        return total(solved(case, guess=result, xc=result.functional.with_parameters(**{name: p + t})))

    expected, error = slope(value, 0.005 * max(abs(p), 0.1))
    yield f"differences of energies by {name}", got, expected, 1e-5 * max(1.0, abs(expected)) + 0.1 * error


def save_load(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "result.h5")
        again = dftfd.load_result(Path(folder) / "result.h5")
    for name in ("energy", "free_energy", "mo_energy", "mo_occ", "density_matrix", "dipole"):
        yield f"{name} of the file", getattr(again, name), getattr(result, name), 1e-12
    yield "forces of the file", again.forces(), result.forces(), 1e-8


def restart(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.chk"
        solved(case, max_cycles=2, checkpoint=path)
        yield "a run that was interrupted", total(solved(case, restart=path)), total(result), 1e-7


def order(case: Case) -> Iterator[Comparison]:
    result, turned = solved(case), case.atoms[::-1]
    other = solved(case, atoms=turned)
    yield "energy of the atoms in another order", total(other), total(result), 1e-7
    yield "forces of the atoms in another order", other.forces()[::-1], result.forces(), 1e-5


def spins(case: Case) -> Iterator[Comparison]:
    if case.spin or case.method != "auto":
        raise Inapplicable
    result = solved(case)
    other = solved(case, method="UKS", guess=result)
    yield "energy of UKS", total(other), total(result), 1e-8
    yield "forces of UKS", other.forces(), result.forces(), 1e-6


def to_pyscf_object(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    mf = result.to_pyscf()
    P = result.density_matrix[0] if len(result.density_matrix) == 1 else result.density_matrix
    yield "the object's energy", mf.energy_tot(P), result.energy, 1e-8
    try:
        gradient = mf.nuc_grad_method()
        gradient.grid_response, gradient.verbose = True, 0
        g = gradient.kernel()
    except (NotImplementedError, AttributeError):
        return
    real = np.arange(len(g))
    yield "the object's gradient", g, -result.forces()[real], 1e-5


def orbital_energies(case: Case) -> Iterator[Comparison]:
    result = solved(case)
    if case.method == "ROKS":
        raise Inapplicable
    F = np.einsum("spi,spq,sqj->sij", result.mo_coeff, result.fock, result.mo_coeff)
    yield "the Fock matrix in its orbitals", F, np.stack([np.diag(e) for e in result.mo_energy]), 1e-5


CHECKS = {
    "energy": energy,
    "forces": forces,
    "force_sums": force_sums,
    "hessian": hessian,
    "dipole": dipole,
    "polarizability": polarizability,
    "excitations": excitations,
    "excited_forces": excited_forces,
    "parameters": parameters,
    "save_load": save_load,
    "restart": restart,
    "order": order,
    "spins": spins,
    "to_pyscf": to_pyscf_object,
    "orbital_energies": orbital_energies,
}
