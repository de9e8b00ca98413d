"""What an inversion found: the exchange-correlation potential of a density, as a function of the point."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import Function, laplacian
from dftfd.autofd.core.domain import Signature
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import leaf
from dftfd.errors import FunctionalError, InputError
from dftfd.functionals.base import Functional
from dftfd.functionals.common import spin_pair
from dftfd.functionals.densities import SPACE
from dftfd.functionals.fingerprint import program_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.libcint.gto import gaussian_basis
from dftfd.libcint.mole import one_electron_integrals
from dftfd.libcint.three_centre import PairPotentials
from dftfd.model.option_values import for_json
from dftfd.properties.electrostatics import electron_potential, electrostatic_potential, hermite_density
from dftfd.results.result_file import molecule_of_text, require_shapes
from dftfd.results.tree import MOLECULE_TEXT
from dftfd.runtime.arguments import each, public, whole
from dftfd.runtime.documents import saved_part, write_part
from dftfd.runtime.files import picture
from dftfd.runtime.notebook import ShownAsText
from dftfd.scf.orbitals import frontier_energies
from dftfd.system.molecule import Molecule
from dftfd.xc.density import ao_tables, ao_values, density_function, evaluate_at
from dftfd.xc.potential import potentials

FORMAT = 1
BATCH = 4096
"""Points whose integrals are worked on together."""

CLOSE = 1e-4
"""What the density may be off for each electron."""

FERMI_AMALDI, ONE_ORBITAL = "fermi-amaldi", "one-orbital"
_TEXT = ("method", "reference", "fingerprint")
_NUMBERS = ("density_error", "smoothing")
_PER_SPIN = ("mo_energy", "mo_occ", "mo_coeff", "density_matrix", "target", "charges", "coefficients", "constants")
BEYOND, N_POINTS = 3.0, 400
"""How far a picture goes on beyond the nuclei [bohr], and its number of points."""


@dataclass(frozen=True, eq=False, repr=False)
class Inversion(ShownAsText):
    """The local potential whose orbitals have a given density. Atomic units; `spin` is 1 (restricted) or 2.

    potential(r) is v_xc (alpha, beta), R^3 -> R^2 [hartree]: the Kohn-Sham potential less those of nuclei, surroundings
    and target density. It is the sum of that of the reference (-1/N of the density's own for 'fermi-amaldi', v_xc of
    the target density for a functional), Gaussians (`coefficients` of the functions of `potential_basis`), the
    electrostatic potential of `charges`, and `constants`.

    density_error: int |n - n_target| d^3r [electrons], of both spins.   smoothing: how strongly the potential was
    smoothed.   steps: (step, 2), smoothing and density error of what was tried on the way.
    mo_energy, mo_occ (spin, mo); mo_coeff (spin, ao, mo); density_matrix, target (spin, ao, ao).
    """

    molecule: Molecule
    potential_basis: Molecule
    method: str
    reference: str
    fingerprint: str
    density_error: float
    smoothing: float
    steps: np.ndarray = field(repr=False)
    mo_energy: np.ndarray = field(repr=False)
    mo_occ: np.ndarray = field(repr=False)
    mo_coeff: np.ndarray = field(repr=False)
    density_matrix: np.ndarray = field(repr=False)
    target: np.ndarray = field(repr=False)
    charges: np.ndarray = field(repr=False)
    coefficients: np.ndarray = field(repr=False)
    constants: np.ndarray = field(repr=False)
    functional: Functional | None = field(default=None, repr=False)

    def __str__(self):
        rows = [f"inversion of {self.molecule.formula}, {self.molecule.basis}, by {self.method} from {self.reference}"]
        rows.append(f"  density error           {self.density_error:.2e} electrons (integral of abs(n - n_target))")
        rows += [f"  {note}" for note in self.notes]
        rows.append(f"  smoothing               {self.smoothing:.1e}, {self.coefficients.shape[1]} functions")
        rows.append(f"  kinetic energy          {self.kinetic_energy:.8f} hartree, non-interacting electrons")
        for name, (homo, lumo) in zip(("alpha", "beta"), self.frontier, strict=False):
            words = [f"HOMO {homo:.6f}" if homo is not None else "", f"LUMO {lumo:.6f}" if lumo is not None else ""]
            rows.append(f"  {name if len(self.target) > 1 else 'orbitals':24s}{' '.join(words)} hartree")
        return "\n".join(rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the potential must know, a line each: that its density is not the target's."""
        share = self.density_error / float(np.sum(self.mo_occ))
        if share < CLOSE:
            return ()
        return (
            f"DOUBT: {share:.1e} for each electron is {share / CLOSE:.1f} times the usual {CLOSE:.0e}; the potential "
            "is a rough one, try another potential_basis=, a larger basis set, or less smoothing",
        )

    @property
    def frontier(self) -> tuple:
        """Per spin the energies (HOMO, LUMO) [hartree]; None where there is no such orbital."""
        return frontier_energies(self.mo_energy, self.mo_occ)

    @property
    def kinetic_energy(self) -> float:
        """T_s [hartree], that of independent electrons in these orbitals."""
        return float(np.sum(self.density_matrix * one_electron_integrals(self.molecule)["kinetic"]))

    @cached_property
    def potential(self) -> Function:
        """v_xc (alpha, beta), R^3 -> R^2 [hartree]."""
        if self.method == ONE_ORBITAL:
            return _of_one_orbital(self.molecule, self.target, self.constants)
        spins = [hermite_density(self.molecule, Q) for Q in self.charges]
        Q, b, constants = (_both(jnp.asarray(x)) for x in (self.charges, self.coefficients, self.constants))
        arrays = (tuple(spins), Q, b, ao_tables(self.potential_basis), constants)
        code = _GaussianPotential(self.molecule, self.potential_basis)
        signature = Signature((SPACE,), jax.ShapeDtypeStruct((2,), np.float64))
        found = Function(leaf, (), arrays, {"code": code, "domains": (SPACE,)}, signature)
        if self.functional is not None:
            found = found + potentials(self.functional, self.molecule, self.target)[0]
        return found

    @cached_property
    def density(self) -> Function:
        """Spin densities (alpha, beta) of the orbitals, R^3 -> R^2 [bohr^-3]."""
        return density_function(self.molecule, self.density_matrix)

    @public
    def plot(
        self,
        path: Path,
        atoms: Annotated[Sequence[int], each(whole(0), "the numbers of two atoms, from 0")] = (0, 1),
        compare: Sequence[str] = (),
    ) -> None:
        """Draw v_xc along the line through two atoms, (0, 1); of a single atom along x; needs Matplotlib.

        compare: names of functionals whose v_xc of the target density is drawn beside it.
        InputError for an unknown ending or atom, FileError where the file cannot be written.
        """
        origin, along, places = _line(self.molecule, atoms)
        curves = {"inverted": self.potential}
        for name in compare:
            curves[name] = potentials(get_functional(name), self.molecule, self.target)[0]
        t = np.linspace(min(places) - BEYOND, max(places) + BEYOND, N_POINTS)
        points = origin + t[:, None] * along
        with picture(path) as figure:
            axes = figure.subplots()
            for name, v in curves.items():
                values = np.asarray(evaluate_at(v, points))
                (line,) = axes.plot(t, values[:, 0], label=name)
                if len(self.target) > 1:
                    axes.plot(t, values[:, 1], color=line.get_color(), linestyle="--", label=f"{name}, beta")
            for place in places:
                axes.axvline(place, color="0.8", linewidth=0.8, zorder=0)
            title = str(self).split(",")[0]
            if compare and not self.constants.any():
                title += "\nup to a constant, which homo= would choose"
            axes.set(xlabel="place / bohr", ylabel=r"$v_\mathrm{xc}$ / hartree", title=title)
            axes.legend(frameon=False)

    @public
    def save(self, path: Path) -> None:
        """Write everything to an HDF5 file, for `dftfd.load_inversion(path)`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        text = {name: values[name] for name in (*_TEXT, *_NUMBERS)}
        arrays = {name: values[name] for name in ("steps", *_PER_SPIN)}
        for name in ("molecule", "potential_basis"):
            text[name] = {key: getattr(values[name], key) for key in MOLECULE_TEXT}
        arrays["coordinates"] = self.molecule.coordinates
        write_part(path, "inversion", FORMAT, text, arrays, default=for_json)


@public
def load_inversion(path: Path, functional: Any = None) -> Inversion:
    """Read an Inversion written by `Inversion.save`.

    functional: the reference, if its name is not registered. Raises FileError for other files, FunctionalError if the
    formula of the reference has changed.
    """
    with saved_part(path, "inversion", FORMAT) as (text, arrays):
        molecules: dict[str, Any] = {
            k: molecule_of_text(text[k], arrays["coordinates"]) for k in ("molecule", "potential_basis")
        }
        entries: dict[str, Any] = {name: str(text[name]) for name in _TEXT}
        entries |= {name: float(text[name]) for name in _NUMBERS}
        entries |= {name: np.asarray(arrays[name]) for name in ("steps", *_PER_SPIN)}
        _require_sizes(entries, molecules["molecule"].n_ao, molecules["potential_basis"].n_ao)
    reference = _reference(path, entries["reference"], entries["fingerprint"], functional)
    return Inversion(**molecules, **entries, functional=reference)


def _reference(path, name, fingerprint, functional):
    """The functional of that name, None for Fermi and Amaldi; FunctionalError where it is another one."""
    if name == FERMI_AMALDI:
        return None
    found = get_functional(name if functional is None else functional)
    if program_fingerprint(found) != fingerprint:
        raise FunctionalError(
            f"the formula of {name!r} is not the one that the inversion in {path} began with; invert again, or pass "
            "the old one as load_inversion(path, functional=...)."
        )
    return found


def _require_sizes(arrays, n_ao, n_functions):
    n_spin, n_mo = np.shape(arrays["mo_energy"])
    if n_spin not in (1, 2):
        raise ValueError(f"{n_spin} spins")
    matrices = {name: arrays[name] for name in ("density_matrix", "target", "charges")}
    require_shapes(matrices, (n_spin, n_ao, n_ao))
    require_shapes({name: arrays[name] for name in ("mo_energy", "mo_occ")}, (n_spin, n_mo))
    require_shapes({"mo_coeff": arrays["mo_coeff"]}, (n_spin, n_ao, n_mo))
    require_shapes({"coefficients": arrays["coefficients"]}, (n_spin, n_functions))
    require_shapes({"constants": arrays["constants"]}, (n_spin,))
    require_shapes({"steps": arrays["steps"]}, (len(arrays["steps"]), 2))


class _GaussianPotential(Code):
    """(Hermite Gaussians per spin, Q, b, tables, constants, r) -> v (2,); `on_points` in NumPy, from libcint."""

    def __init__(self, molecule: Molecule, functions: Molecule):
        self.molecule, self.functions = molecule, functions
        self.__name__ = "v_xc"

    def __call__(self, densities, Q, b, tables, constants, r):
        electrostatic = jnp.stack([electron_potential(density, r) for density in densities])
        return _both(electrostatic) + b @ ao_values(tables, r) + constants

    def on_points(self, densities, Q, b, tables, constants, points) -> np.ndarray:
        """v (point, 2) at points (point, 3) [bohr]."""
        points = np.asarray(points, dtype=np.float64)
        parts = [
            self._on_batch(np.asarray(Q), b, constants, points[k : k + BATCH]) for k in range(0, len(points), BATCH)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def _on_batch(self, Q, b, constants, points):
        functions = gaussian_basis(self.functions).evaluate(np.asfortranarray(points), order=0)[0]
        v = np.asarray(b) @ functions + np.asarray(constants)[:, None]
        alike = np.array_equal(Q[0], Q[1])
        electrostatic = [self._electrostatic(Q_s, points) for Q_s in Q[: 1 if alike else 2]]
        return (v + np.stack(electrostatic)).T

    def _electrostatic(self, Q, points):
        """sum_k q_k <u_k| 1/|r - r'| |u_k> (point,), with eigenvectors u_k of Q (ao, ao)."""
        q, U = np.linalg.eigh(Q)
        U, q = U[:, q != 0.0], q[q != 0.0]
        if not len(q):
            return np.zeros(len(points))
        X = np.repeat(U.T[:, :, None], len(points), axis=2)
        return np.einsum("k,kmp,kmp->p", q, X, PairPotentials(self.molecule)(points, X))


def _of_one_orbital(molecule, P, homo) -> Function:
    """nabla^2 sqrt(n_s) / (2 sqrt(n_s)) + e_s less the potentials of nuclei and density, R^3 -> R^2."""
    rho, outer = density_function(molecule, P), electrostatic_potential(molecule, P)
    orbitals = [rho[s] ** 0.5 for s in (0, 1)]
    v = [laplacian(phi) / (2.0 * phi) + e + outer for phi, e in zip(orbitals, _both(jnp.asarray(homo)), strict=True)]
    return spin_pair(*v)


def _both(values):
    """Values of both spins, (2, ...), of one or two."""
    return jnp.concatenate([values, values]) if len(values) == 1 else values


def _line(molecule, atoms):
    """A point, a direction (3,) and the places of nuclei along it [bohr]."""
    if molecule.n_atoms == 1:
        return molecule.coordinates[0], np.array([1.0, 0.0, 0.0]), (0.0,)
    if len(atoms) != 2 or len({*atoms}) < 2 or max(atoms) >= molecule.n_atoms:
        raise InputError(f"atoms={tuple(atoms)}: give the numbers of two of the {molecule.n_atoms} atoms, from 0.")
    first, second = molecule.coordinates[list(atoms)]
    distance = float(np.linalg.norm(second - first))
    return first, (second - first) / distance, (0.0, distance)
