r"""Excitation energies, strengths and characters from time-dependent Kohn-Sham theory.

    (A + B) R = w L,   (A - B) L = w R,   R . L = 1;   Tamm-Dancoff: A X = w X

M. E. Casida, in Recent Advances in Density Functional Methods I (1995), p. 155. doi:10.1142/9789812830586_0005
S. Hirata, M. Head-Gordon, Chem. Phys. Lett. 314, 291 (1999). doi:10.1016/S0009-2614(99)01149-5
"""

import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.errors import ConvergenceWarning, InputError, NotConvergedError, shown
from dftfd.functionals import supports
from dftfd.libcint.mole import (
    HARTREE_IN_EV,
    gradient_integrals,
    overlap_integrals,
    position_integrals,
    rotation_integrals,
)
from dftfd.model.kohn_sham import FockEvaluation
from dftfd.model.solved_calculation import SolvedCalculation, solved_at
from dftfd.response.excited_states import ExcitedState, excited_state
from dftfd.response.linear_response import LinearResponse
from dftfd.response.subspaces import lowest_roots
from dftfd.runtime.arguments import array, choice, number, public, whole
from dftfd.runtime.documents import require_types, saved_part, write_part
from dftfd.runtime.files import picture
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, as_progress
from dftfd.scf.convergence import Convergence
from dftfd.scf.orbitals import Aufbau
from dftfd.scf.problem import State
from dftfd.scf.rotation import canonical
from dftfd.terms import CoulombExchangeEnergy
from dftfd.terms.solvent import Solvent

TOLERANCE = 1e-5
"""What may be left of the equations [hartree]; energies are off by its square."""

LOOSE = 1e-4
"""The same where a cheaper energy finds vectors to start with."""

CLOSE = {"energy": 1e-10, "orbital_gradient": 1e-9, "residual": 1e-8}
"""Convergence [hartree] of a ground state and of a root where errors enter to first order."""

DEGENERATE = 1e-7
"""Difference of excitation energies [hartree] below which they are equal."""
SAME = 0.7
"""Overlap of a root with itself, converged further."""

NM = 45.56335252767
"""Wavelength [nm] of one hartree."""
MOLAR_ABSORPTION = 1054.95
"""L mol^-1 cm^-1 of an absorption of 1 / hartree:  int epsilon dk = f N_A e^2 / (4 ln(10) epsilon_0 m_e c^2)."""
TICKS = (2000, 1000, 700, 500, 400, 350, 300, 250, 220, 200, 180, 160, 140, 120, 110, 100, 90, 80, 70, 60, 50, 40, 30)
"""Wavelengths [nm] that are marked in a picture."""

MAX_PRODUCTS_PER_ROOT = 60
NOISE, SEED = 1e-3, 5
FORMAT = 1
SPINS = choice("singlet", "triplet", "flip", None)
WIDTH = number(lambda x: 1e-6 <= x <= 10.0, "a number of hartree from 1e-6 to 10, such as 0.01")


@dataclass(frozen=True, eq=False)
class NaturalTransitionOrbitals:
    """Pairs of orbitals between which one excitation goes, of one spin, the largest weight first.

    weights: (pair,), which add up to the share of the spin, of |X|^2.   holes, particles: (ao, pair).
    R. L. Martin, J. Chem. Phys. 118, 4775 (2003). doi:10.1063/1.1558471
    """

    weights: np.ndarray
    holes: np.ndarray
    particles: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Excitations(ShownAsText):
    """Vertical excitations of a Kohn-Sham state, in ascending order. Atomic units.

    energies: (root,) [hartree].   oscillator_strengths: (root,), length form.   transition_dipoles: <0|mu|n> (root, 3)
    [e bohr], of either sign.   rotatory_strengths: (root,) [e^2 bohr^3 hartree / (hbar c), that is atomic units of
    mu . m], velocity form, which no origin changes.
    spin: 'singlet', 'triplet', 'flip', or 'any' of unrestricted orbitals.   tda: Tamm-Dancoff approximation.
    converged: (root,).   residuals: (root,) [hartree].
    X, Y: per spin (root, occupied, virtual), X . X - Y . Y = 1; those of a closed shell are alpha's times sqrt 2.
    occupied, virtual: the result's orbitals that they are of, per spin (ao, orbital).
    solvation: 'equilibrium' or 'non-equilibrium' in a solvent, else empty.
    result: the ground state; None of a file.
    """

    energies: np.ndarray
    oscillator_strengths: np.ndarray
    transition_dipoles: np.ndarray
    rotatory_strengths: np.ndarray
    converged: np.ndarray
    residuals: np.ndarray
    spin: str
    tda: bool
    what: str
    X: tuple[np.ndarray, ...] = field(repr=False)
    Y: tuple[np.ndarray, ...] = field(repr=False)
    occupied: tuple[np.ndarray, ...] = field(repr=False)
    virtual: tuple[np.ndarray, ...] = field(repr=False)
    solvation: str = ""
    result: SolvedCalculation | None = field(default=None, repr=False)

    def __len__(self):
        return len(self.energies)

    @public
    def natural_transition_orbitals(
        self, root: Annotated[int, whole(0)], spin: Annotated[int, whole(0, 1)] = 0
    ) -> NaturalTransitionOrbitals:
        """Those of the excitation number `root`, from 0; spin: 0 for alpha or a closed shell, 1 for beta."""
        if root >= len(self) or spin >= len(self.X):
            found = f"{len(self)} roots of {len(self.X)} sets of orbitals"
            raise InputError(f"root {shown(root)} of spin {spin}: there are {found}.")
        U, s, V = np.linalg.svd(self.X[spin][root], full_matrices=False)
        return NaturalTransitionOrbitals(s**2, self.occupied[spin] @ U, self.virtual[spin] @ V.T)

    @public
    def state(
        self, root: Annotated[int, whole(0)] = 0, grid_response: bool = True, progress: Any = None
    ) -> ExcitedState:
        """The excited state number `root`, from 0: total energy, forces, relaxed density and its dipole moment.

        Ground state and root are converged further before. grid_response=False leaves out the quadrature grid's motion
        with the nuclei, as other programs do.   progress: as in run_scf. See docs/excited_states.md.

        Raises InputError for excitations of a file, spin flips and given grids, UnsupportedError for functionals of
        the exact-exchange energy density, NotConvergedError where something does not converge.
        """
        if root >= len(self):
            raise InputError(f"root {shown(root)}: there are {len(self)} roots, from 0.")
        return state_of(self, self.ground_state, root, grid_response, as_progress(progress))

    @property
    def ground_state(self) -> SolvedCalculation:
        """The result that these are excitations of; InputError for those of a file."""
        if self.result is None:
            raise InputError(
                "excitations loaded from a file do not contain the ground state; compute them with "
                "result.excitations(...)."
            )
        return self.result

    @public
    def forces(
        self, root: Annotated[int, whole(0)] = 0, grid_response: bool = True, progress: Any = None
    ) -> np.ndarray:
        """Forces on the nuclei (atom, 3) [hartree/bohr] in the excited state number `root`, from 0; see `state`."""
        return self.state(root, grid_response, progress).forces

    @cached_property
    def characters(self) -> tuple[str, ...]:
        """The transitions that each excitation consists of, in words: 'HOMO -> LUMO 94 %'."""
        return tuple(self._character(root) for root in range(len(self)))

    def _character(self, root):
        found = []
        flip = self.spin == "flip"
        names = ("alpha ",) if flip else ("alpha ", "beta ") if len(self.X) > 1 else ("",)
        for X, Y, name in zip(self.X, self.Y, names, strict=True):
            weights = X[root] ** 2 - Y[root] ** 2
            for place in np.argsort(-weights, axis=None)[:3]:
                i, a = np.unravel_index(place, weights.shape)
                below = len(weights) - 1 - i
                here, there = f"HOMO-{below}" if below else "HOMO", f"LUMO+{a}" if a else "LUMO"
                found.append((float(weights[i, a]), f"{name}{here} -> {'beta ' * flip}{there}"))
        found.sort(reverse=True)
        shown = [f"{words} {100 * weight:.0f} %" for weight, words in found if weight > 0.1]
        return ", ".join(shown[:3]) or f"{found[0][1]} {100 * found[0][0]:.0f} %, and many others"

    @property
    def title(self) -> str:
        """What they are, in one line."""
        return f"{self.what}: {len(self)} excitations ({self.spin}), {_method(self.tda)}"

    def rows(self):
        """(number, hartree, eV, nm, f, rotatory strength, lines of the character) of each excitation, as text."""
        columns = self.energies, wavelengths(self.energies), self.oscillator_strengths, self.rotatory_strengths
        for n, (w, nm, f, R, words) in enumerate(zip(*columns, self.characters, strict=True)):
            left = [] if self.converged[n] else [f"NOT CONVERGED, residual {self.residuals[n]:.0e}"]
            length = f"{nm:9.2f}" if nm > 0 else "        -"
            yield (
                f"{n + 1:3d}",
                f"{w:9.6f}",
                f"{w * HARTREE_IN_EV:8.4f}",
                length,
                f"{f:8.5f}",
                f"{R:9.5f}",
                [
                    *words.split(", "),
                    *left,
                ],
            )

    def __str__(self):
        rows = [self.title, "  n   hartree       eV        nm        f  rotatory  character"]
        for *cells, (first, *others) in self.rows():
            rows += [f"{' '.join(cells)}  {first}", *(f"{'':53}{other}" for other in others)]
        return "\n".join(rows)

    @public
    def spectrum(
        self, energies: Annotated[np.ndarray, array(None)], width: Annotated[float, WIDTH] = 0.01
    ) -> np.ndarray:
        """Absorption sum_n f_n g(w - w_n) [1/hartree] at energies w (k,) [hartree], with Gaussians g of area one.

        width: their full width at half maximum [hartree].
        """
        sigma = width / (2 * np.sqrt(2 * np.log(2)))
        x = (energies[:, None] - self.energies) / sigma
        x = np.clip(x, -40.0, 40.0)  # beyond, it is zero
        return np.exp(-0.5 * x**2) @ self.oscillator_strengths / (sigma * np.sqrt(2 * np.pi))

    @public
    def plot(self, path: Path, width: Annotated[float, WIDTH] = 0.01) -> None:
        """Write the absorption spectrum as a picture, .png, .svg or .pdf; needs Matplotlib.   width: as of `spectrum`.

        InputError for an unknown ending, FileError where the file cannot be written.
        """
        with picture(path) as figure:
            draw_spectrum(figure.subplots(), self, width)

    @public
    def save(self, path: Path, document: Any = None) -> None:
        """Write everything to an HDF5 file, for `dftfd.load_excitations(path)`.   document: of a command, kept too."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        arrays["converged"] = arrays["converged"].astype(np.int64)
        for name in PER_SPIN:
            arrays |= {f"{name}_{s}": array for s, array in enumerate(values[name])}
        text = {name: values[name] for name in TEXT}
        write_part(path, "excitations", FORMAT, text, arrays, document)


def draw_spectrum(axes, excitations: Excitations, width: float = 0.01) -> None:
    """Molar absorption of Gaussians of this full width at half maximum [hartree] over eV and nm; lines of height f."""
    energies = excitations.energies
    x = np.linspace(max(0.0, energies.min() - 4 * width), energies.max() + 4 * width, 800)
    axes.plot(x * HARTREE_IN_EV, MOLAR_ABSORPTION * excitations.spectrum(x, width))
    axes.set(xlabel="energy / eV", ylabel="absorption / L mol$^{-1}$ cm$^{-1}$", title=excitations.what, ylim=(0, None))
    strengths = axes.twinx()
    strengths.vlines(energies * HARTREE_IN_EV, 0.0, excitations.oscillator_strengths, color="0.4", lw=1)
    strengths.set(ylabel="oscillator strength (lines)", ylim=(0, None))
    ticks: list[int] = []
    for nm in TICKS:
        if x[0] <= NM / nm <= x[-1] and (not ticks or NM / nm - NM / ticks[-1] > 0.06 * (x[-1] - x[0])):
            ticks.append(nm)
    above = axes.secondary_xaxis("top")
    above.set_xticks([NM / nm * HARTREE_IN_EV for nm in ticks], labels=[str(nm) for nm in ticks])
    above.set_xlabel("wavelength / nm")


PER_SPIN, TEXT = ("X", "Y", "occupied", "virtual"), ("spin", "tda", "what", "solvation")


def excitations_of(
    result, n: int, tda: bool, spin: str | None, progress=None, tolerance: float = TOLERANCE, equilibrium: bool = False
):
    """The Excitations of a result; see SCFResult.excitations."""
    progress = as_progress(progress)
    if equilibrium and result.calculation.surroundings.solvent is None:
        raise InputError("equilibrium_solvation=True needs a result with a solvent; give run_scf solvent='water'.")
    response, tda = _operators(result, spin, progress, not equilibrium), tda or spin == "flip"
    if n > response.size:
        raise InputError(
            f"n={shown(n)} excitations of {response.size} pairs of occupied and virtual orbitals; give fewer."
        )
    with progress.stage("excitations"):
        roots = _roots(response, n, tda, tolerance, progress)
    converged = roots.residuals <= tolerance
    if not converged.all():
        warnings.warn(
            f"{np.sum(~converged)} of {n} excitations have not converged: residuals up to {roots.residuals.max():.1e} "
            f"hartree after {roots.products} products.",
            ConvergenceWarning,
            stacklevel=4,
        )
    found = _excitations(result, response, roots, converged, tda, spin)
    solvent = result.calculation.surroundings.solvent
    return found if solvent is None else _named_by_solvent(found, solvent, equilibrium)


def _named_by_solvent(found: Excitations, solvent: Solvent, equilibrium: bool) -> Excitations:
    """The same, with the solvent and what of it follows in the title."""
    how = "equilibrium" if equilibrium else "non-equilibrium"
    what = f"{found.what} in {solvent.name or solvent.epsilon} ({solvent.model}, {how})"
    return replace(found, what=what, solvation=how)


def _operators(result: SolvedCalculation, spin, progress, fast) -> Any:
    """The equations of excitations of a spin; InputError where the result has none."""
    if spin == "flip":
        return SpinFlip(result, progress)
    supports.require("excitations", result.functional, result.features)
    if spin is not None and result.method != "RKS":
        raise InputError(f"spin={spin!r} is for closed shells (RKS); UKS excitations include all spins: leave it out.")
    response = LinearResponse(result, spin == "triplet", progress, fast=fast)
    if not response.size:
        raise InputError(
            "there is no empty orbital in this basis set, so there are no excitations; use a larger basis."
        )
    return response


def _roots(response, n, tda, tolerance, progress):
    """The n lowest, those of large molecules with the help of a cheaper energy."""
    start = _start(response, min(response.size, n + max(6, n // 2)))
    limit = MAX_PRODUCTS_PER_ROOT * (n + 2)
    cheaper = response.cheaper
    if cheaper is None:
        return lowest_roots(response, (start, start), n, tda, tolerance, limit, progress.note)
    begin = lowest_roots(cheaper, (start, start), min(n + 2, len(start)), tda, LOOSE, limit, progress.note)
    progress.note("now with the full response")
    return lowest_roots(response, (begin.R, begin.L), n, tda, tolerance, limit, progress.note, cheaper)


def _start(response, count):
    """Vectors (count, size) to begin with: the smallest gaps, with noise so that no symmetry hides a root."""
    chosen = np.argsort(response.gaps, kind="stable")[:count]
    scale = np.maximum(np.abs(response.gaps), 0.05)  # noise must not bring in the core orbitals' large elements
    start = np.random.default_rng(SEED).normal(size=(count, response.size)) * NOISE * scale.min() / scale
    start[np.arange(count), chosen] += 1.0
    return start


def _excitations(result: SolvedCalculation, response, roots, converged, tda, spin):
    """Strengths and amplitudes of the roots."""
    molecule = result.molecule
    X, Y = (response.blocks(part / 2) for part in (roots.R + roots.L, roots.R - roots.L))
    R, L = response.blocks(roots.R), response.blocks(roots.L)
    # closed shells: sqrt 2 for both spins; triplets and flipped spins are dark
    weight = 0.0 if spin in ("triplet", "flip") else np.sqrt(response.scale / 2)

    def between(h, amplitudes):
        """Sum over the spins of <occupied| h |virtual> times amplitudes, (root, 3)."""
        orbitals = zip(response.occupied, response.virtual, amplitudes, strict=True)
        parts = (np.einsum("aq,kab,bp,nqp->nk", C_o, h, C_v, X, optimize=True) for C_o, C_v, X in orbitals)
        return weight * sum(parts)

    position = between(position_integrals(molecule, 1), R)
    gradient, rotation = between(gradient_integrals(molecule), L), between(rotation_integrals(molecule), L)
    w = roots.values
    orbitals = list(zip(result.mo_coeff, result.mo_occ, strict=True))
    from_spins, to_spins = (orbitals[:1], orbitals[1:]) if spin == "flip" else (orbitals, orbitals)
    occupied = tuple(C[:, n > 0] for C, n in from_spins)
    virtual = tuple(C[:, n == 0] for C, n in to_spins)
    X, Y = (_in_orbitals(molecule, blocks, response, occupied, virtual) for blocks in (X, Y))
    return Excitations(
        energies=w,
        oscillator_strengths=2.0 / 3.0 * w * np.sum(position**2, axis=1),
        transition_dipoles=-position,
        rotatory_strengths=np.sum(gradient * rotation, axis=1) / (2.0 * w),
        converged=converged,
        residuals=roots.residuals,
        spin=spin or ("singlet" if result.method == "RKS" else "any"),
        tda=tda,
        what=f"{molecule.formula}  {result.method} {result.settings.functional} / {result.settings.basis}",
        X=tuple(X),
        Y=tuple(Y),
        occupied=occupied,
        virtual=virtual,
        result=result,
    )


def state_of(
    found: Excitations, ground_state: SolvedCalculation, root: int, grid_response: bool, progress: Progress
) -> ExcitedState:
    """See Excitations.state."""
    if found.spin == "flip":
        raise InputError("spin-flip states have no forces; use excitations of UKS, or spin='triplet'.")
    if found.solvation == "non-equilibrium":
        raise InputError(
            "states that are not in equilibrium with the solvent have no forces; use equilibrium_solvation=True."
        )
    thresholds = Convergence(CLOSE["energy"], ground_state.settings.options.max_cycles, CLOSE["orbital_gradient"])
    result, ingredients = solved_at(ground_state, ground_state.molecule.coordinates, thresholds, Progress())
    result.require_converged("excited states")
    response = LinearResponse(result, found.spin == "triplet", progress, ingredients)
    pairs = [[X + sign * Y for X, Y in zip(found.X, found.Y, strict=True)] for sign in (1.0, -1.0)]
    turned = (_in_orbitals(result.molecule, X, found, response.occupied, response.virtual) for X in pairs)
    start = [response.vectors(list(blocks)) for blocks in turned]
    limit = MAX_PRODUCTS_PER_ROOT * (root + 3)
    partners = int(
        np.sum(np.abs(found.energies[root + 1 :] - found.energies[root]) < found.residuals.max() + DEGENERATE)
    )
    with progress.stage("excitations"):
        roots = lowest_roots(response, start, root + 1 + partners, found.tda, CLOSE["residual"], limit, progress.note)
    R, L, residual, overlap = _closest(roots, start[1][root])
    if residual > CLOSE["residual"] or overlap < SAME:
        raise NotConvergedError(
            f"root {root} has not converged: residual {residual:.1e} hartree, overlap {overlap:.2f} with the "
            "earlier root; request a few more excitations."
        )
    what = f"{found.what}: excited state {root + 1} ({found.spin}), {_method(found.tda)}"
    return excited_state(response, R, L, what, grid_response, progress)


def _closest(roots, L):
    """R, L, residual and overlap of the root that is closest to X - Y = L (size,).

    Roots of one energy are so in any combination, of which the closest is taken.
    """
    overlaps = roots.R @ L
    near = np.abs(roots.values - roots.values[np.argmax(np.abs(overlaps))]) < DEGENERATE
    overlap = np.linalg.norm(overlaps[near])
    shares = overlaps[near] / overlap
    return shares @ roots.R[near], shares @ roots.L[near], roots.residuals[near].max(), overlap


def _in_orbitals(molecule, amplitudes, owner, occupied, virtual):
    """Amplitudes per spin (root, occupied, virtual) of the owner's orbitals in those given, which span the same.

    Orbitals of equal energies may be turned.
    """
    S = overlap_integrals(molecule)
    orbitals = zip(amplitudes, owner.occupied, owner.virtual, occupied, virtual, strict=True)
    return tuple((to_o.T @ S @ C_o) @ X @ (C_v.T @ S @ to_v) for X, C_o, C_v, to_o, to_v in orbitals)


def _method(tda):
    return "Tamm-Dancoff approximation" if tda else "full linear response"


def wavelengths(energies) -> np.ndarray:
    """Of light of energies [hartree], in nm; NaN where there is hardly any."""
    return NM / np.where(energies > 1e-3, energies, np.nan)


class SpinFlip:
    r"""A of a result with two spins, on vectors (trial, size) of pairs (occupied alpha, empty beta).

    gaps: (size,) [hartree].   occupied, virtual: of alpha and of beta, each a tuple of one (ao, orbital).

    Spin-flip excitations: an alpha electron becomes a beta one, in the Tamm-Dancoff approximation.

        A_ia,jb = delta_ij F^beta_ab - delta_ab F^alpha_ij - f (ij|ab),   i, j occupied alpha, a, b empty beta orbitals

    From a high-spin state they reach states of lower spin, closed shells with two competing configurations among them.
    With spins along one axis (collinear) densities and semilocal potentials do not change, so exact exchange f alone
    couples.

    Y. Shao, M. Head-Gordon, A. I. Krylov, J. Chem. Phys. 118, 4807 (2003). doi:10.1063/1.1545679
    """

    is_local, cheaper, scale = True, None, 2.0

    def __init__(self, result: SolvedCalculation, progress=None):
        result.require_converged("linear response")
        calculation, progress = result.calculation, progress or Progress()
        supports.require("spin flips", result.functional, result.features)
        if len(result.mo_occ) == 1 or not set(np.unique(result.mo_occ)) <= {0.0, 1.0}:
            raise InputError("spin-flip excitations need UKS or ROKS with full and empty orbitals.")
        if result.mo_occ[0].sum() < result.mo_occ[1].sum():
            raise InputError(
                "spin-flip excitations change alpha electrons to beta; the high-spin state needs a positive spin."
            )
        ingredients = calculation.build(progress)
        problem = ingredients.problem(Aufbau(calculation.n_occupied, calculation.capacity))
        P = result.density_matrix
        F = problem.start(P).F if result.fock is None else result.fock
        state = State(P, FockEvaluation(F, {}, None), result.mo_energy, result.mo_occ, result.mo_coeff)
        C, n = canonical(problem, state).mo_coeff, result.mo_occ
        self.occupied, self.virtual = (C[0][:, n[0] > 0],), (C[1][:, n[1] == 0],)
        self._F_oo, self._F_vv = (c.T @ f @ c for (c,), f in zip((self.occupied, self.virtual), F, strict=True))
        self.gaps = (np.diagonal(self._F_vv) - np.diagonal(self._F_oo)[:, None]).ravel()
        self._exchange = ingredients.energy.of_kind(CoulombExchangeEnergy)

    @property
    def size(self) -> int:
        """Number of pairs."""
        return len(self.gaps)

    def tamm_dancoff(self, X) -> np.ndarray:
        """A X."""
        (blocks,), (C_o,), (C_v,) = self.blocks(X), self.occupied, self.virtual
        found = blocks @ self._F_vv - self._F_oo @ blocks
        C, dC = np.ascontiguousarray(C_o.T), blocks @ C_v.T
        for omega, fraction in self._exchange.exact_exchange:
            found = found - fraction * self._exchange.builder.exchange_on_orbitals(C, dC, omega, 0.0) @ C_v
        return found.reshape(X.shape)

    real = imaginary = tamm_dancoff

    def blocks(self, X) -> list[np.ndarray]:
        """One array (trial, occupied alpha, empty beta) of vectors (trial, size)."""
        return [X.reshape(-1, len(self._F_oo), len(self._F_vv))]


@public
def load_excitations(path: Path) -> Excitations:
    """Read Excitations written by `Excitations.save`. Raises FileError for other files."""
    with saved_part(path, "excitations", FORMAT) as (text, arrays):
        n_spin = 1 if "X_1" not in arrays else 2
        text = {"solvation": ""} | text  # older files have none
        entries = dict(arrays) | {name: text[name] for name in TEXT}
        entries |= {name: tuple(entries.pop(f"{name}_{s}") for s in range(n_spin)) for name in PER_SPIN}
        found = Excitations(**entries | {"converged": arrays["converged"].astype(bool)})
        _require_shapes(require_types(found))
        return found


def _require_shapes(found):
    n = len(found.energies)
    for name in ("energies", "oscillator_strengths", "rotatory_strengths", "converged", "residuals"):
        if getattr(found, name).shape != (n,):
            raise ValueError(f"{name} has the shape {getattr(found, name).shape}")
    for X, Y, C_o, C_v in zip(found.X, found.Y, found.occupied, found.virtual, strict=True):
        if X.shape != (n, C_o.shape[1], C_v.shape[1]) or Y.shape != X.shape or len(C_o) != len(C_v):
            raise ValueError("amplitudes and orbitals of different sizes")
