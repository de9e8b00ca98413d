"""The intrinsic reaction path: downhill on both sides of a transition state, in mass-weighted coordinates.

K. Fukui, Acc. Chem. Res. 14, 363 (1981). doi:10.1021/ar00072a001. Steps: C. Gonzalez, H. B. Schlegel, J. Chem. Phys.
90, 2154 (1989). doi:10.1063/1.456010
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.errors import InputError
from dftfd.interop.geometric import REACTION_PATH, minimise
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, HARTREE_IN_KCAL
from dftfd.model.forces import nuclear_forces, require_forces
from dftfd.results.result import SCFResult
from dftfd.results.vibrations import Vibrations
from dftfd.runtime.arguments import public, whole
from dftfd.runtime.files import ENDINGS, picture, require_ending, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.progress import Progress, as_progress
from dftfd.system.isotopes import AVERAGE, masses
from dftfd.tasks.run import run_scf

FORMATS = (".xyz", ".csv", *ENDINGS)


@dataclass(frozen=True, eq=False, repr=False)
class ReactionPath(ShownAsText):
    """Points along a reaction, from one end through the transition state to the other.

    symbols (atom,).   coordinates (point, atom, 3) [bohr], energies (point,) [hartree].   lengths: (point,) along the
    path [bohr u^1/2], zero at the transition state, which is the point number `top`.   converged: whether both ends are
    minima.   model: what was computed, in words.   charge, spin: of the molecule.
    """

    symbols: tuple[str, ...]
    coordinates: np.ndarray
    energies: np.ndarray
    lengths: np.ndarray
    top: int
    converged: bool
    model: str
    charge: int = 0
    spin: int = 0

    @property
    def barriers(self) -> tuple[float, float]:
        """Energy of the transition state above the first and above the last point [hartree]."""
        top = float(self.energies[self.top])
        return top - float(self.energies[0]), top - float(self.energies[-1])

    def __str__(self):
        doubt = "" if self.converged else "  NOT CONVERGED: an end is not a minimum"
        first, last = (barrier * HARTREE_IN_KCAL for barrier in self.barriers)
        rows = [f"reaction path, {len(self.energies)} points: {self.model}{doubt}"]
        rows.append(f"  barrier {first:.3f} kcal/mol from the first point, {last:.3f} from the last")
        rows.append(f"{'bohr u^1/2':>12}{'energy / hartree':>20}{'kcal/mol':>12}")
        for s, energy in zip(self.lengths, self.energies, strict=True):
            rows.append(f"{s:12.4f}{energy:20.10f}{(energy - self.energies[self.top]) * HARTREE_IN_KCAL:12.3f}")
        return "\n".join(rows)

    @public
    def write(self, path: Path) -> None:
        """Write the geometries (.xyz), a table (.csv) or the curve (.png, .svg, .pdf)."""
        require_ending(path, *FORMATS, exactly=True)
        if path.suffix.lower() not in ENDINGS:
            write_text(path, self._xyz() if path.suffix.lower() == ".xyz" else self._csv())
            return
        with picture(path) as figure:
            axes = figure.subplots()
            axes.plot(self.lengths, (self.energies - self.energies[self.top]) * HARTREE_IN_KCAL, "o-", ms=3)
            axes.set(xlabel="bohr u$^{1/2}$", ylabel="energy / kcal mol$^{-1}$", title=self.model)

    def _xyz(self):
        rows = []
        for s, energy, x in zip(self.lengths, self.energies, self.coordinates * BOHR_IN_ANGSTROM, strict=True):
            said = f"charge={self.charge} spin={self.spin} path={float(s)!r} energy_hartree={float(energy)!r}"
            rows += [str(len(self.symbols)), f"Properties=species:S:1:pos:R:3 {said}"]
            rows += [
                f"{symbol:<4}" + "".join(f"{v:18.10f}" for v in r) for symbol, r in zip(self.symbols, x, strict=True)
            ]
        return "\n".join([*rows, ""])

    def _csv(self):
        rows = (f"{float(s)!r},{float(e)!r}" for s, e in zip(self.lengths, self.energies, strict=True))
        return "\n".join(["path_bohr_sqrt_u,energy_hartree", *rows, ""])


@public
def reaction_path(
    transition_state: SCFResult,
    vibrations: Vibrations | None = None,
    *,
    max_steps: Annotated[int, whole(1)] = 100,
    optimizer: dict[str, Any] | None = None,
    progress: Any = None,
) -> ReactionPath:
    """The path of steepest descent on both sides of a transition state, by geomeTRIC.

    transition_state: the result there, for example of `optimize(..., transition_state=True)`.
    vibrations: its result.vibrations(), if known. Exactly one mode must be imaginary.
    max_steps: on each side.   optimizer: other parameters of geomeTRIC, such as {'trust': 0.05} [angstrom] for shorter
        steps.   progress: as in run_scf, called for each point.

    Masses are averages over isotopes.

    Raises InputError unless exactly one mode is imaginary, and for ghost atoms and vibrations of chosen isotopes,
    NotConvergedError if the SCF of a point does not converge.
    """
    progress = as_progress(progress)
    result = transition_state
    require_forces(result.functional)
    if any(result.molecule.ghost):
        raise InputError(
            "a reaction path needs masses, and ghost atoms have none; give a transition state without them."
        )
    found = result.vibrations(progress=progress) if vibrations is None else vibrations
    _require_saddle(result, found)
    options = result.settings.options.kept(xc=result.functional)
    last = [result]

    def evaluate(coordinates):
        with progress.stage("energy and forces"):
            start = options.along_from(last[0]) | {"progress": Progress()}
            last[0] = run_scf(result.molecule.at(coordinates), **start)
            forces = nuclear_forces(last[0], progress=Progress()).values
        progress.note(f"E = {last[0].free_energy:.10f}")
        return last[0].free_energy, -forces

    molecule = result.molecule
    converged, coordinates, energies = minimise(
        molecule.symbols,
        molecule.coordinates,
        evaluate,
        max_steps=max_steps,
        hessian=found.hessian,
        kind=REACTION_PATH,
        options=optimizer,
    )
    return _path(result, found, converged, coordinates, energies)


def _require_saddle(result, vibrations):
    if vibrations.coordinates.shape != result.molecule.coordinates.shape or not np.allclose(
        vibrations.coordinates, result.molecule.coordinates, atol=1e-6
    ):
        raise InputError("the vibrations are those of another geometry; give those of the transition state.")
    usual = (masses(vibrations.symbols, which) for which in (None, AVERAGE))
    if not any(np.array_equal(vibrations.masses, of_all) for of_all in usual):
        raise InputError(
            "the vibrations are for given isotopes, but a reaction path uses average masses; give "
            "vibrations.with_isotopes()."
        )
    if vibrations.n_imaginary != 1:
        raise InputError(
            f"{vibrations.n_imaginary} modes are imaginary; a transition state has one: "
            "optimize(..., transition_state=True) looks for it."
        )


def _path(result, vibrations, converged, coordinates, energies) -> ReactionPath:
    """With lengths along it, and without points that are there twice."""
    moved = np.abs(np.diff(coordinates, axis=0)).max(axis=(1, 2), initial=0.0) > 1e-8
    kept = np.concatenate([[True], moved])
    coordinates, energies = coordinates[kept], energies[kept]
    m = masses(vibrations.symbols, AVERAGE)
    steps = np.sqrt(np.einsum("a,sax->s", m, np.diff(coordinates, axis=0) ** 2))
    top = int(np.argmin(np.abs(coordinates - result.molecule.coordinates).max(axis=(1, 2))))
    lengths = np.concatenate([[0.0], np.cumsum(steps)])
    return ReactionPath(
        vibrations.symbols,
        coordinates,
        energies,
        lengths - lengths[top],
        top,
        converged,
        vibrations.what,
        result.molecule.charge,
        result.molecule.spin,
    )
