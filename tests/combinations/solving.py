"""What checks of random cases have in common: the converged calculation, differences, PySCF's object of the same.

A check takes a `Case` and gives what it found: `(what, got, expected, tolerance)` per comparison, and where `expected`
is a difference by steps, its estimated error as well (`differences`). It raises Inapplicable where the case has
nothing to compare, and lets the typed errors of a refusal pass.
"""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from pyscf import dft, qmmm

import dftfd
from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import NotConvergedError
from dftfd.functionals.named_files import load_file
from dftfd.libcint.mole import to_pyscf
from dftfd.libcint.two_electron import auxiliary_basis
from tests.combinations.cases import HEAVY_BASES, Case
from tests.combinations.differences import Trial, threshold

TERMS = Path(__file__).parents[2] / "examples" / "terms"
BOHR = 0.529177210903
KINKED = ("hse06", "vv10", "xv")
"""Parts of names. Energies of HSE06 jump where a point crosses s = 1, by 1e-4 of F_x as in libxc (functionals/wpbe.py),
those with VV10 by 1e-8 hartree where the density of a point crosses 1e-8: first derivatives are compared, not second
ones, and none by the place of the jump, `s_from`."""
PYSCF_NAMES = {"m06l": "m06_l", "m062x": "m06_2x"}
NOT_IN_PYSCF = ("combination", "lh07t", "b2plyp", "scanl", "br89", "vv10", "xv", "vdw", "lb94", "sn_x", "-d")
MULTIPLIER = 0.07
"""Of the constraint [hartree]."""

Comparison = tuple[str, Any, Any, float] | tuple[str, Any, Any, float, float]


class Inapplicable(Exception):
    """The case has nothing that this property could be compared with."""


def well(r):
    """A soft attraction [hartree] of an electron, off every axis."""
    return -0.1 * jnp.exp(-0.3 * jnp.sum((r - jnp.array([0.4, -0.3, 0.6])) ** 2))


def wall(r):
    """Growing with the distance from the origin."""
    return 0.002 * jnp.sum(r * r)


POTENTIALS = {"well": well, "wall of electrons": (wall, "electrons")}


def term_of(name: str, case: Case) -> str:
    """A term of the user's, as files have it: electrons on the first atom, or its lowest shell, cost energy."""
    for file in ("constraint.py", "hubbard.py"):
        load_file(TERMS / file)
    heavy = isinstance(case.basis, str) and case.basis in HEAVY_BASES
    if name == "constraint" or heavy:
        return f"constraint(atoms=[0], value=1.0, V={MULTIPLIER})"
    symbol = next(symbol for symbol, _ in case.atoms if not symbol.startswith("ghost"))
    return f'dft+u(shell="{symbol} {1 if ATOMIC_NUMBERS[symbol] < 3 else 2}s", U=0.1)'


def _constraint(mole):
    """Loewdin's population of the first atom, (ao, ao)."""
    values, vectors = np.linalg.eigh(mole.intor("int1e_ovlp"))
    root = vectors * np.sqrt(values) @ vectors.T
    start, end = mole.aoslice_by_atom()[0, 2:]
    return root[:, start:end] @ root[start:end]


def molecule_of(case: Case, shift=None, atoms=None):
    """The molecule; shift: displacements (atom, 3) [bohr]."""
    atoms = case.atoms if atoms is None else atoms
    positions = np.array([r for _, r in atoms]) + (0.0 if shift is None else np.asarray(shift) * BOHR)
    given = [(symbol, tuple(r)) for (symbol, _), r in zip(atoms, positions.tolist(), strict=True)]
    return dftfd.molecule(given, basis=case.basis, charge=case.charge, spin=case.spin, cartesian=case.cartesian)


def options_of(case: Case, molecule, **more) -> dict:
    """The options of `run_scf`; those that a case names are made."""
    light = sum(ATOMIC_NUMBERS[symbol] for symbol, _ in case.atoms if not symbol.startswith("ghost")) < 12
    options = {"conv_tol": 1e-12 if light else 1e-11, "max_cycles": 200, **case.options, **more}
    if options.get("external_potential") in POTENTIALS:
        options["external_potential"] = POTENTIALS[options["external_potential"]]
    if options.get("grid") == "given":
        level = options.pop("grid_level")
        options["grid"] = dftfd.molecular_grid(molecule.atomic_numbers, molecule.coordinates, level)
    if "terms" in options:
        options["terms"] = [term_of(options["terms"], case)]
    if isinstance(options.get("smearing"), list):
        options["smearing"] = tuple(options["smearing"])
    return options


_last: dict[str, Any] = {}
"""The result of the last calculation, whose other properties may be asked for."""


def forget() -> None:
    """The next case is solved anew."""
    _last.clear()


def solved(case: Case, shift=None, guess=None, xc=None, atoms=None, **more):
    """The converged result of the case, or of what differs from it by the other arguments."""
    whole = {"case": case.json().replace(f'"property": "{case.property}"', "")}
    plain = shift is None and guess is None and xc is None and atoms is None and not more
    if plain and _last.get("case") == whole["case"]:
        return _last["result"]
    molecule = molecule_of(case, shift, atoms)
    options = options_of(case, molecule, **more)
    if guess is not None:
        options |= {"guess": guess, "convergence": "fast", "broken_symmetry": None}
    if Trial.number and hasattr(guess, "energy"):
        options["conv_tol"] = threshold(options["conv_tol"], guess.energy)
    result = dftfd.run_scf(molecule, xc or case.xc, options.pop("method", case.method), **options)
    if not result.converged and "max_cycles" not in more:
        raise NotConvergedError("the SCF has not converged.")
    if plain:
        _last.update(whole, result=result)
    return result


def jumps(case: Case) -> float:
    """What jumps of the energy make of a slope [hartree/bohr, e bohr]: HSE06's of LiH are rough by 5e-5."""
    return 1e-4 if "hse06" in case.xc else 0.0


def direction(case: Case) -> np.ndarray:
    """A random displacement (atom, 3) of length 1."""
    d = np.random.default_rng(case.seed).normal(size=(len(case.atoms), 3))
    return d / np.linalg.norm(d)


def total(result) -> float:
    """What is stationary: the free energy, which without smearing is the energy."""
    return result.free_energy


def in_field(case: Case, F) -> dict:
    """The option of a field F (3,) in addition to the case's."""
    return {"electric_field": list(np.array(case.options.get("electric_field", np.zeros(3))) + F)}


def moving_grid(case: Case) -> None:
    """Inapplicable where points are given: differences between geometries would make them anew."""
    if "grid" in case.options:
        raise Inapplicable


def pyscfs(case: Case, result):
    """PySCF's Kohn-Sham object, whose options this function says anew, and what its energy lacks."""
    options = dict(case.options)
    beyond = {"solvent", "external_potential", "grid", "nlc_grid_level", "linear_dependence"} & set(options)
    if beyond or options.get("terms") == "dft+u" or any(part in case.xc for part in NOT_IN_PYSCF):
        raise Inapplicable
    mf = (dft.RKS if len(result.density_matrix) == 1 else dft.UKS)(to_pyscf(result.molecule).copy())
    mf.xc, mf.grids.level, mf.small_rho_cutoff = PYSCF_NAMES.get(case.xc, case.xc), options["grid_level"], 0
    auxiliary = fitting_functions(result)
    mf = mf.density_fit(auxbasis=auxiliary) if auxiliary else mf
    mf = mf.sfx2c1e() if "relativity" in options else mf
    if "point_charges" in options:
        table = np.array(options["point_charges"])
        mf = qmmm.mm_charge(mf, table[:, 1:], table[:, 0], unit="Bohr")
    mf.verbose = 0
    h, of_nuclei = mf.get_hcore(), 0.0
    if "electric_field" in options:
        E = np.array(options["electric_field"])
        h = h + np.einsum("x,xab->ab", E, mf.mol.intor("int1e_r"))
        of_nuclei = -float(mf.mol.atom_charges() @ mf.mol.atom_coords() @ E)
    if "terms" in options:
        h, of_nuclei = h + MULTIPLIER * _constraint(mf.mol), of_nuclei - MULTIPLIER
    mf.get_hcore = lambda *_: h
    return mf, of_nuclei


def fitting_functions(result):
    """Those of Coulomb and exchange integrals, {label: shells}; None where these are exact."""
    if not result.settings.options.density_fit:
        return None
    chosen = result.settings.options.auxiliary_basis
    return auxiliary_basis(result.molecule, bool(result.functional.exact_exchange), name=chosen)[0]


def of_one_set(P):
    """(spin, ao, ao) as PySCF has it."""
    return P[0] if len(P) == 1 else P


def softness(case: Case) -> float:
    """Lowest eigenvalue [hartree] of the Hessian by orbital rotations: where it is tiny, differences are noise."""
    if "smearing" in case.options:  # its stability is not defined
        return 1.0
    found = solved(case).stability().internal
    return 1.0 if found is None else found
