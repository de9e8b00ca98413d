"""A result as a PySCF mean-field object, as a Molden file, and as the entries of PySCF's checkpoint files.

The terms of the energy say what they are in PySCF (`Term.in_pyscf`), and the object is made of their sum. Before it is
handed over, what it computes at the result's density is compared with the result: nothing depends on whether PySCF
means the same by a name, an option or a default.
"""

import io
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from pyscf import dft, lib
from pyscf.scf.dispersion import parse_dft
from pyscf.tools import molden

from dftfd.errors import UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.empirical_dispersion import find_pair
from dftfd.functionals.registry import get_functional
from dftfd.interop.numint import ROWS, Library, numint
from dftfd.libcint.mole import quiet, to_pyscf
from dftfd.runtime.progress import as_progress

KINDS = {"RKS": dft.rks.RKS, "UKS": dft.uks.UKS, "ROKS": dft.roks.ROKS}

SAME_ENERGY, SAME_GRADIENT = 1e-9, 1e-6
"""Differences between PySCF's numbers and ours of one density [hartree, hartree/bohr], above which the object is not
handed over. PySCF's gradient takes the orbitals for exact solutions: what is left of the orbital gradient is allowed in
addition."""

SAME_POTENTIAL = {"by name": 1e-9, "by numint": 1e-6}
"""The same of an entry of the Fock matrix [hartree]. PySCF's VV10, in both of them, leaves out densities below 1e-8
bohr^-3, which changes it by up to 3e-8; all others agree to 1e-12 (tests/test_to_pyscf.py)."""

SMALL = 60
"""Basis functions up to which PySCF's gradient is compared without being asked for."""


def mean_field(result: Any, follow: Callable, compare_gradient: bool | None = None) -> Any:
    """A PySCF object of the same energy, with the result's orbitals, on a Mole of its own.

    The functional is PySCF's own where its name stands for the same formula with the same parameters, else dftfd's by
    `dftfd.interop.numint`. Energy and Fock matrix of the result's density are compared, and the gradient of a converged
    result where `compare_gradient` says so (None: up to SMALL basis functions).

    follow: (numbers, orbitals, overlap) -> a rule of occupation, for states that are not those of the lowest orbitals.

    Raises UnsupportedError where PySCF has no place for the functional, the occupations or a term of the energy, and
    where its numbers are others.
    """
    supports.require("to_pyscf", result.functional, result.features)
    parts = [term.in_pyscf() for term in result.calculation.energy(as_progress(None)).terms]
    name = _name_without_correction(result)
    functional = reduce(add, (part.functional for part in parts if part.functional is not None)).named(name)
    plain = _is_plain(name)
    mf = _made_of(result, parts, name) if plain and _is_pyscfs(name, functional) else None
    if mf is None or _difference(mf, result, SAME_POTENTIAL["by name"]):
        mf = _made_of(result, parts, name if plain else "", numint(functional))
        if found := _difference(mf, result, SAME_POTENTIAL["by numint"]):
            raise UnsupportedError(f"to_pyscf() hands over nothing: {found}.")
    if not np.array_equal(mf.get_occ(mf.mo_energy, mf.mo_coeff), mf.mo_occ):  # an empty orbital lies below a full one
        mf = lib.set_class(mf, (_FollowsOrbitals, mf.__class__))
        numbers = tuple(map(tuple, np.atleast_2d(mf.mo_occ).tolist()))
        mf.followed = follow(numbers, _of_spins(mf.mo_coeff), mf.get_ovlp())
    if compare_gradient or (compare_gradient is None and result.molecule.n_ao <= SMALL):
        _require_same_gradient(mf, result)
    return mf


def _made_of(result, parts, name, functional=None):
    """The object with PySCF's functional of a name, or with a `numint` in its place."""
    mf = KINDS[result.method](to_pyscf(result.molecule).copy(), xc=name)
    if functional is not None:
        mf._numint = functional
        functional.short_range_by_difference = any(part.auxiliary_basis is not None for part in parts)
    for part in parts:
        if part.auxiliary_basis is not None:
            mf = mf.density_fit(auxbasis=part.auxiliary_basis)
    for attribute, value in {k: v for part in parts for k, v in part.attributes.items()}.items():
        *path, last = attribute.split(".")
        setattr(reduce(getattr, path, mf), last, value)
    for attribute, value in orbital_entries(result).items():
        setattr(mf, attribute, value)
    mf.converged, mf.conv_tol = result.converged, result.settings.conv_tol
    whole_atoms = not any(result.molecule.ghost) and not any(result.molecule.atom_ecp)
    if result.calculation.grid.moves and whole_atoms:
        return mf
    return lib.set_class(mf, (_WithoutGridResponse, mf.__class__))


def _name_without_correction(result):
    """The name of the result's functional without that of a dispersion correction, which is a term of its own."""
    name = result.settings.functional
    if result.functional.dispersion is None:
        return name
    return (find_pair(name.lower(), get_functional) or {"functional": name})["functional"]


def _is_plain(name) -> bool:
    """Whether PySCF reads a functional from the name, and nothing else: no dispersion, and no absence of VV10."""
    try:
        with quiet():
            _, nlc, correction = parse_dft(name)
            dft.libxc.parse_xc(name)
    except (KeyError, ValueError, NotImplementedError):  # how PySCF says that it does not know a name
        return False
    return nlc == "" and correction is None


def _is_pyscfs(name, functional) -> bool:
    """True where PySCF's functional of this name has the same energy, exact exchange and VV10 at a few points.

    Their spin densities differ, which the density of a closed shell does not show.
    """
    theirs, ours = dft.libxc, Library(functional)
    try:
        with quiet():
            rows = ROWS[theirs.xc_type(name)]
            rho = _DENSITIES[:, 0] if rows == 1 else _DENSITIES[:, :rows]
            pairs = (
                (theirs.rsh_coeff(name), ours.rsh_coeff()),
                (theirs.nlc_coeff(name), ours.nlc_coeff()),
                (theirs.eval_xc1(name, rho, 1, 0)[0], ours.energy_per_electron(_DENSITIES)),
            )
    except (KeyError, ValueError, NotImplementedError):  # how PySCF says that it does not know a name
        return False
    return all(_close(*pair) for pair in pairs)


def _close(a, b):
    a, b = (np.hstack([np.ravel(part) for part in _flat(x)] or [np.zeros(1)]) for x in (a, b))
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-11, atol=1e-14)


def _flat(x):
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, (tuple, list)) else [x]


def _densities():
    """(spin, component, point): density, gradient and a tau above its bound, at a few points."""
    rho = np.random.default_rng(1).uniform(0.05, 0.5, (2, 5, 12))
    rho[:, 4] += np.sum(rho[:, 1:4] ** 2, axis=1) / (8 * rho[:, 0])
    return rho


_DENSITIES = _densities()


def _difference(mf, result, same_potential) -> str:
    """What PySCF's object makes otherwise of the result's orbitals, in words; empty where nothing is."""
    if not np.array_equal(np.sort(mf.get_occ(mf.mo_energy, mf.mo_coeff)), np.sort(mf.mo_occ)):
        return (
            "PySCF fills the orbitals of its molecule one after the other, so that its next cycle would be of another "
            "state than these occupations; run without smearing= and occupations=, or take mo_coeff and mo_occ alone"
        )
    try:
        with quiet():
            P, core, S = mf.make_rdm1(), mf.get_hcore(), mf.get_ovlp()
            potential = mf.get_veff(dm=P)
            energy, fock = mf.energy_tot(P, core, potential), core + np.asarray(potential)
            n_orbitals = np.shape(mf.eig(np.stack([core, core]) if mf.mo_coeff.ndim == 3 else core, S)[0])[-1]
    except (KeyError, ValueError, NotImplementedError, RuntimeError) as error:
        return f"PySCF cannot compute this energy ({' '.join(str(error).split())[:150]})"
    if not abs(energy - result.energy) <= SAME_ENERGY:
        off = abs(energy - result.energy)
        return (
            f"PySCF's energy of this density is {energy:.10f} hartree, {off:.1e} from the result's; if their fits of "
            "densities differ, density_fit=False helps"
        )
    off = np.abs(fock.reshape(result.density_matrix.shape) - _fock(result)).max()
    if not off <= same_potential:
        return f"PySCF's Fock matrix of this density is up to {off:.1e} hartree from the result's"
    if n_orbitals != mf.mo_coeff.shape[-1]:
        return (
            f"of a nearly dependent basis the result has {mf.mo_coeff.shape[-1]} orbitals, PySCF's next cycle would "
            f"have {n_orbitals}; run with linear_dependence=1e-6, as PySCF 2.14 does"
        )
    return ""


def _fock(result):
    if result.fock is not None:
        return result.fock
    return result.calculation.energy(as_progress(None)).evaluate(result.density_matrix).F


def _require_same_gradient(mf, result):
    """Raise UnsupportedError where PySCF has a gradient of a converged density, and it is another than ours."""
    if not result.converged:
        return
    try:
        with quiet():
            theirs = mf.nuc_grad_method().kernel()
    except (NotImplementedError, UnsupportedError):  # there is none, and who asks for it is told
        return
    off = np.abs(theirs + result.forces(grid_response=False)).max()
    allowed = SAME_GRADIENT + np.linalg.norm(mf.get_grad(mf.mo_coeff, mf.mo_occ))
    if not off <= allowed:
        raise UnsupportedError(
            f"to_pyscf() hands over nothing: PySCF's gradient is up to {off:.1e} hartree/bohr from the result's, "
            f"but convergence explains only {allowed:.1e}; use result.forces(), or "
            "to_pyscf(compare_gradient=False)."
        )


class _FollowsOrbitals:
    """A mean field whose cycles keep the occupations of given orbitals, by maximum overlap, where aufbau would not.

    followed: the rule of occupation; PySCF's mom_occ is not for closed shells.
    """

    __name_mixin__ = "FollowsOrbitals"
    _keys = {"followed"}
    followed: Callable
    mo_coeff: Any
    mo_energy: Any

    def get_occ(self, mo_energy=None, mo_coeff=None):
        energies = self.mo_energy if mo_energy is None else mo_energy
        occupations, _ = self.followed(
            np.atleast_2d(energies), _of_spins(self.mo_coeff if mo_coeff is None else mo_coeff)
        )
        return occupations.reshape(np.shape(energies))


def _of_spins(mo_coeff) -> np.ndarray:
    """Orbitals (spin, ao, mo), of which PySCF has no first axis where both spins share them."""
    return np.reshape(mo_coeff, (-1, *np.shape(mo_coeff)[-2:]))


class _FixedGrid:
    """A gradient or a Hessian of PySCF without the motion of the grid."""

    __name_mixin__ = "FixedGrid"

    @property
    def grid_response(self):
        return False

    @grid_response.setter
    def grid_response(self, wanted):
        if wanted:
            raise UnsupportedError(
                "PySCF's grid_response is wrong with ghost atoms and core potentials, and impossible with a "
                "given grid; use result.forces() and result.hessian(), or PySCF's derivatives without it."
            )


class _WithoutGridResponse:
    """A mean field whose derivatives by the nuclei refuse `grid_response`.

    PySCF 2.14 gives ghosts no radius where weights move, 1.5e-3 hartree/bohr off differences of its own energies, and
    atoms with core potentials that of the element of their remaining charge, 2.9e-4 for NaH in SBKJC on grid level 0.
    In place of given points it moves those of a grid that it makes.
    """

    __name_mixin__ = "WithoutGridResponse"

    def nuc_grad_method(self):
        found = super().nuc_grad_method()  # type: ignore[misc]
        return lib.set_class(found, (_FixedGrid, found.__class__))

    Gradients = nuc_grad_method

    def Hessian(self):  # noqa: N802 -- PySCF's name
        found = super().Hessian()  # type: ignore[misc]
        return lib.set_class(found, (_FixedGrid, found.__class__))


def orbital_entries(result: Any) -> dict:
    """e_tot, mo_energy, mo_occ and mo_coeff in the shapes that PySCF gives them for the method."""
    arrays = {name: np.array(getattr(result, name)) for name in ("mo_energy", "mo_occ", "mo_coeff")}
    if result.method == "RKS":
        arrays = {name: array[0] for name, array in arrays.items()}
    elif result.method == "ROKS":
        arrays = {name: array.sum(axis=0) if name == "mo_occ" else array[0] for name, array in arrays.items()}
    return {"e_tot": result.energy, **arrays}


def mole_text(molecule: Any) -> str:
    """The Mole as JSON, as PySCF's checkpoint files hold it."""
    with quiet():
        return to_pyscf(molecule).dumps()


def molden_text(result: Any) -> str:
    """Geometry, basis set and orbitals of a result in Molden format; unrestricted ones as alpha, then beta."""
    mole, stream = to_pyscf(result.molecule), io.StringIO()
    if max(mole.bas_angular(shell) for shell in range(mole.nbas)) > 4:
        raise UnsupportedError("the Molden format has no functions beyond g; use a smaller basis set, or an .h5 file.")
    spins = ("Alpha", "Beta") if result.method == "UKS" else ("Alpha",)
    occupations = result.mo_occ if result.method == "UKS" else result.mo_occ.sum(axis=0, keepdims=True)
    with quiet():
        molden.header(mole, stream, ignore_h=False)
        for s, spin in enumerate(spins):
            C, e = np.array(result.mo_coeff[s]), result.mo_energy[s]
            molden.orbital_coeff(mole, stream, C, spin=spin, ene=e, occ=occupations[s], ignore_h=False)
    return stream.getvalue()
