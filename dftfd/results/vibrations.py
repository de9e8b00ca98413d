r"""Vibrations of a molecule: wavenumbers, normal modes, intensities, thermochemistry, from second derivatives.

    M^-1/2 H M^-1/2 q = w^2 q,   without the translations and rotations of the whole

E. B. Wilson, J. C. Decius, P. C. Cross, Molecular Vibrations (1955). Raman: J. Neugebauer, M. Reiher, C. Kind,
B. A. Hess, J. Comput. Chem. 23, 895 (2002). doi:10.1002/jcc.10089

Files made from vibrations: the ending of the name chooses the format.

.h5      everything, for dftfd.load_vibrations     .molden   geometry, modes and intensities, for viewers
.json    QCSchema AtomicResult, driver hessian     .xyz      a frame for each mode, displacements beside positions
.csv     a table                                   .html     a report with spectrum and thermochemistry
.png, .svg, .pdf   the infrared spectrum
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError
from dftfd.libcint.mole import BOHR_IN_ANGSTROM, DALTON_IN_ELECTRON_MASSES, HARTREE_IN_WAVENUMBERS
from dftfd.response.hessian import SecondDerivatives
from dftfd.results.html_report import drawn, table
from dftfd.results.qcschema import printed_numbers, write_json
from dftfd.results.scene import STYLE as SCENE_STYLE
from dftfd.results.scene import molecule_scene, scene_figure, scene_script
from dftfd.results.thermochemistry import Thermochemistry, thermochemistry
from dftfd.results.web_page import web_page
from dftfd.runtime.arguments import array, choice, number, optional, public, whole
from dftfd.runtime.documents import require_types, saved_part, write_part
from dftfd.runtime.files import ENDINGS, picture, require_ending, write_text
from dftfd.runtime.notebook import ShownAsText
from dftfd.system.isotopes import ISOTOPES, masses
from dftfd.system.rotations import moments_of_inertia, n_rotations, rigid_motions, symmetry

FORMAT = 1
KM_PER_MOL = 974.8801118
"""Infrared intensity [km/mol] of |d mu/dQ|^2 = 1 e^2/u: N_A e^2 / (12 eps_0 c^2 u)."""


AMPLITUDE = 0.6
"""Largest displacement of an atom where a page shows a mode [bohr]."""

KELVIN = number(lambda x: 1e-3 <= x <= 1e6, "a temperature from 0.001 to 1e6 kelvin")
PRESSURE = number(lambda x: 1e-10 <= x <= 1e12, "a pressure of pascal above 0, such as 101325")
SYMMETRY_NUMBER, QUASI_HARMONIC = optional(whole(1, 120)), choice("grimme", "truhlar", None)
WIDTH = number(lambda x: 1e-3 <= x <= 1e4, "a width in cm^-1, such as 10")


@dataclass(frozen=True, eq=False, repr=False)
class Vibrations(ShownAsText):
    """Vibrations of a molecule's atoms; ghosts are not among them.

    symbols (atom,), coordinates (atom, 3) [bohr], masses (atom,) [u].   hessian: (atom, 3, atom, 3) [hartree/bohr^2].
    dipole_derivatives: (atom, 3, 3) [e], the dipole's axis last.   polarizability_derivatives: (atom, 3, 3, 3)
    [bohr^2], or None.   forces: (atom, 3) [hartree/bohr], which a minimum has none of.   energy [hartree].
    multiplicity.   free: whether the whole can move and turn at no cost; its motions are then left out.
    method: how the second derivatives were found.   asymmetry: of the Hessian as it was computed [hartree/bohr^2].
    what: molecule and model in words.   document: QCSchema of the result.
    of_ghosts: what ghosts add to the sum of the Hessian over atoms, (3, atom, 3) [hartree/bohr^2], or None.
    """

    symbols: tuple[str, ...]
    coordinates: np.ndarray
    masses: np.ndarray
    hessian: np.ndarray = field(repr=False)
    dipole_derivatives: np.ndarray = field(repr=False)
    polarizability_derivatives: np.ndarray | None = field(repr=False)
    forces: np.ndarray = field(repr=False)
    energy: float
    multiplicity: int
    free: bool
    method: str
    asymmetry: float
    what: str
    document: dict = field(repr=False, default_factory=dict)
    of_ghosts: np.ndarray | None = field(repr=False, default=None)

    # ------------------------------------------------------------------------------------------------ normal modes

    @property
    def wavenumbers(self) -> np.ndarray:
        """(mode,) [cm^-1], ascending, imaginary ones negative."""
        return _wavenumbers(self._solution[0])

    @cached_property
    def modes(self) -> np.ndarray:
        """Cartesian displacements (mode, atom, 3), each of length one."""
        return self._moves / np.linalg.norm(self._moves, axis=(1, 2), keepdims=True)

    @property
    def reduced_masses(self) -> np.ndarray:
        """(mode,) [u], of modes of length one."""
        return 1.0 / np.sum(self._moves**2, axis=(1, 2))

    @property
    def force_constants(self) -> np.ndarray:
        """(mode,) [hartree/bohr^2], of modes of length one."""
        return self._solution[0] * self.reduced_masses

    @property
    def infrared(self) -> np.ndarray:
        """Intensities (mode,) [km/mol], in the double harmonic approximation."""
        slopes = np.einsum("nax,axk->nk", self._moves, self.dipole_derivatives)
        return KM_PER_MOL * np.sum(slopes**2, axis=1)

    @property
    def raman(self) -> np.ndarray:
        """Activities (mode,) [angstrom^4/u], 45 a'^2 + 7 g'^2, static; InputError without raman=True."""
        mean, anisotropy = self._raman_parts
        return (45 * mean**2 + 7 * anisotropy) * BOHR_IN_ANGSTROM**4

    @property
    def depolarization(self) -> np.ndarray:
        """Depolarisation ratios (mode,) of Raman scattering of linearly polarised light, 0 to 3/4."""
        mean, anisotropy = self._raman_parts
        total = 45 * mean**2 + 4 * anisotropy
        return 3 * anisotropy / np.where(total > 0, total, 1.0)

    @property
    def rigid(self) -> np.ndarray:
        """Wavenumbers [cm^-1] that translations and rotations have without being left out; all zero for exact forces.

        Rotations have some where the geometry is no minimum.
        """
        motions = rigid_motions(self.masses, self.coordinates)
        return _wavenumbers(np.linalg.eigvalsh(motions @ self._weighted @ motions.T))

    @property
    def sum_rule(self) -> float:
        """Largest sum over atoms and ghosts of the Hessian [hartree/bohr^2], zero where moving all costs nothing."""
        total = self.hessian.sum(axis=0) + (0.0 if self.of_ghosts is None else self.of_ghosts)
        return float(np.abs(total).max())

    @property
    def rotational_constants(self) -> np.ndarray:
        """A, B, C (3,) [cm^-1], infinite where there is no moment of inertia."""
        moments, _ = moments_of_inertia(self.masses * DALTON_IN_ELECTRON_MASSES, self.coordinates)
        moments[: 3 - n_rotations(self.masses, self.coordinates)] = 0.0
        with np.errstate(divide="ignore"):
            return HARTREE_IN_WAVENUMBERS / (2.0 * moments)

    @property
    def symmetry_number(self) -> int:
        """How many rotations turn the molecule into itself, isotopes told apart."""
        return symmetry(self.masses, self.coordinates).number

    @property
    def n_imaginary(self) -> int:
        """How many wavenumbers are imaginary: none at a minimum, one at a transition state."""
        return int(np.sum(self.wavenumbers < 0))

    @cached_property
    def _weighted(self):
        """M^-1/2 H M^-1/2, (3 atom, 3 atom) [hartree / (bohr^2 u)]."""
        root = np.repeat(np.sqrt(self.masses), 3)
        n = len(root)
        return self.hessian.reshape(n, n) / root[:, None] / root

    @cached_property
    def _solution(self):
        """Squares of frequencies (mode,) [hartree / (bohr^2 u)] and mass-weighted modes (mode, 3 atom)."""
        vectors = np.eye(3 * len(self.masses))
        if self.free:
            motions = rigid_motions(self.masses, self.coordinates)
            _, _, V = np.linalg.svd(motions)
            vectors = V[len(motions) :]
        squares, turn = np.linalg.eigh(vectors @ self._weighted @ vectors.T)
        found = turn.T @ vectors
        largest = found[np.arange(len(found)), np.argmax(np.abs(found), axis=1)] if len(found) else np.ones(0)
        return squares, found * np.sign(largest)[:, None]

    @cached_property
    def _moves(self):
        """dR/dQ (mode, atom, 3) [u^-1/2]."""
        root = np.repeat(np.sqrt(self.masses), 3)
        return (self._solution[1] / root).reshape(len(self._solution[1]), len(self.masses), 3)

    @property
    def _raman_parts(self):
        """Mean and squared anisotropy of d alpha/dQ, (mode,) each."""
        if self.polarizability_derivatives is None:
            raise InputError("Raman intensities need derivatives of the polarisability: result.vibrations(raman=True).")
        slopes = np.einsum("nax,axkl->nkl", self._moves, self.polarizability_derivatives)
        mean = np.trace(slopes, axis1=1, axis2=2) / 3
        off = slopes - mean[:, None, None] * np.eye(3)
        return mean, 1.5 * np.sum(off**2, axis=(1, 2))

    # ------------------------------------------------------------------------------------------------ what follows

    @public
    def with_isotopes(self, isotopes: Annotated[Any, ISOTOPES] = None) -> "Vibrations":
        """The same molecule of other isotopes, at no cost: {atom: mass number or mass [u]}, 'average' or None.

        Atoms are counted as in the molecule, ghost atoms included.
        """
        real = self.document.get("molecule", {}).get("real")
        return replace(self, masses=masses(self.symbols, isotopes, real and np.flatnonzero(real).tolist()))

    @public
    def thermochemistry(
        self,
        temperature: Annotated[float, KELVIN] = 298.15,
        pressure: Annotated[float, PRESSURE] = 101325.0,
        symmetry_number: Annotated[int | None, SYMMETRY_NUMBER] = None,
        quasi_harmonic: Annotated[str | None, QUASI_HARMONIC] = None,
    ) -> Thermochemistry:
        """Enthalpy, entropy and Gibbs energy of the ideal gas of rigid rotors and harmonic oscillators.

        temperature [K], pressure [Pa].   symmetry_number: by default that of the geometry.
        quasi_harmonic: entropies of modes below 100 cm^-1 go over to those of free rotors ('grimme'), or are those of
            100 cm^-1 ('truhlar').
        Imaginary modes are left out, which the result says.
        """
        state = self.energy, self.multiplicity, self.masses, self.coordinates, self.wavenumbers
        return thermochemistry(*state, temperature, pressure, symmetry_number, quasi_harmonic)

    @public
    def spectrum(
        self, wavenumbers: Annotated[np.ndarray, array(None)], width: Annotated[float, WIDTH] = 10.0
    ) -> np.ndarray:
        """Infrared absorption [km/mol cm] at wavenumbers (k,) [cm^-1]: Lorentzians of the intensities' areas.

        width: their full width at half maximum [cm^-1].
        """
        real = self.wavenumbers > 0
        x = wavenumbers[:, None] - self.wavenumbers[real]
        return (width / (2 * np.pi) / (x**2 + width**2 / 4)) @ self.infrared[real]

    # ------------------------------------------------------------------------------------------------------- in words

    def __str__(self):
        columns = self._printed_columns()
        rows = [" ".join(f"{text:>{width}}" for (_, width, _), text in zip(columns, texts, strict=True))
                for texts in zip(*(texts for *_, texts in columns), strict=True)]  # fmt: skip
        rows = [f"{row} imaginary" if w < 0 else row for row, w in zip(rows, self.wavenumbers, strict=True)]
        heads = " ".join(f"{head:>{width}}" for head, width, _ in columns)
        return "\n".join([self._headline, heads, *rows, *(f"  {line}" for line in self._remarks)])

    @property
    def _headline(self) -> str:
        return f"{self.what}: {len(self.wavenumbers)} vibrations, by {self.method}"

    def _printed_columns(self) -> list[tuple[str, int, list[str]]]:
        """(head, width, text of each mode) of each column of the table."""
        texts = lambda values, format_: [f"{value:{format_}}" for value in values]
        found = [
            ("n", 4, texts(range(1, len(self.wavenumbers) + 1), "d")),
            ("1/cm", 10, texts(self.wavenumbers, ".2f")),
            ("mass/u", 10, texts(self.reduced_masses, ".4f")),
            ("k/(Eh/a0^2)", 12, texts(self.force_constants, ".6f")),
            ("IR/(km/mol)", 12, texts(self.infrared, ".3f")),
        ]
        raman = self.polarizability_derivatives is not None
        return found + ([("Raman/(A^4/u)", 14, texts(self.raman, ".3f"))] if raman else [])

    @property
    def _remarks(self) -> list[str]:
        rigid = f"left out, 1/cm: {' '.join(f'{w:.2f}' for w in self.rigid)} (translations and rotations)"
        held = "surroundings hold the molecule: its motions as a whole are among the vibrations"
        largest = float(np.linalg.norm(self.forces, axis=1).max())
        lines = [
            rigid if self.free else held,
            f"largest force {largest:.1e} hartree/bohr, sum rule of the Hessian {self.sum_rule:.1e}",
        ]
        if largest > FORCE:
            lines.append("NO STATIONARY POINT: wavenumbers have a meaning where forces vanish; optimise the geometry")
        return lines

    @public
    def write(self, path: Path, document: Any = None) -> None:
        """Write a file in the format of its ending: .h5 .json .molden .xyz .csv .html, or the spectrum .png .svg .pdf.

        document: what a command prints, for .h5, .json and .html; without it .html has the gas at standard conditions.
        InputError for unknown endings, FileError where the file cannot be written, MissingDependencyError for pictures
        without Matplotlib.
        """
        require_ending(path, *WRITERS, exactly=True)
        WRITERS[path.suffix.lower()](self, path, document)

    @public
    def save(self, path: Path, document: Any = None) -> None:
        """Write everything to an HDF5 file, for `dftfd.load_vibrations(path)`.   document: of a command, kept too."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        text = {name: values[name] for name in _TEXT}
        write_part(path, "vibrations", FORMAT, text, arrays, document)


FORCE = 2e-3
"""Force [hartree/bohr] above which a geometry is said to be no stationary point."""

_TEXT = ("symbols", "energy", "multiplicity", "free", "method", "asymmetry", "what", "document")


def _wavenumbers(squares):
    """[cm^-1] of squares of frequencies [hartree / (bohr^2 u)], imaginary ones negative."""
    squares = squares / DALTON_IN_ELECTRON_MASSES
    return np.sign(squares) * np.sqrt(np.abs(squares)) * HARTREE_IN_WAVENUMBERS


def vibrations_of(result: Any, found: SecondDerivatives, isotopes: Any, document: dict) -> Vibrations:
    """The Vibrations of a result with these second derivatives."""
    molecule, surroundings = result.molecule, result.calculation.surroundings
    real = ~np.asarray(molecule.ghost)
    symbols = tuple(np.array(molecule.symbols)[real].tolist())
    alone = not (surroundings.electric_field.any() or len(surroundings.charges) or surroundings.potential is not None)
    polarizability = found.polarizability_derivatives
    return Vibrations(
        symbols=symbols,
        coordinates=molecule.coordinates[real],
        masses=masses(symbols, isotopes, np.flatnonzero(real).tolist()),
        hessian=found.hessian[real][:, :, real],
        dipole_derivatives=found.dipole_derivatives[real],
        polarizability_derivatives=None if polarizability is None else polarizability[real],
        forces=found.forces[real],
        energy=float(result.free_energy),
        multiplicity=round(abs(result.spin)) + 1,
        free=bool(alone and real.all()),
        method=found.method,
        asymmetry=found.asymmetry,
        what=f"{molecule.formula}  {result.method} {result.settings.functional} / {result.settings.basis}",
        document=document,
        of_ghosts=None if real.all() else found.hessian[~real].sum(axis=0)[:, real],
    )


@public
def load_vibrations(path: Path) -> Vibrations:
    """Read Vibrations written by `Vibrations.save`. Raises FileError for other files."""
    with saved_part(path, "vibrations", FORMAT) as (text, arrays):
        found = Vibrations(
            **{"polarizability_derivatives": None, "of_ghosts": None}
            | dict(arrays)
            | {name: text[name] for name in _TEXT},
        )
        found = replace(found, symbols=tuple(map(str, found.symbols)), document=dict(found.document))
        _require_shapes(require_types(found))
        return found


def _require_shapes(found):
    n = len(found.symbols)
    shapes = {"coordinates": (n, 3), "masses": (n,), "hessian": (n, 3, n, 3), "forces": (n, 3)}
    shapes |= {"dipole_derivatives": (n, 3, 3)}
    if found.polarizability_derivatives is not None:
        shapes["polarizability_derivatives"] = (n, 3, 3, 3)
    if found.of_ghosts is not None:
        shapes["of_ghosts"] = (3, n, 3)
    for name, shape in shapes.items():
        value = getattr(found, name)
        if value.shape != shape or not np.isfinite(value).all():
            raise ValueError(f"{name} has the shape {value.shape}, or is not finite")
    if not (found.masses > 0).all() or not np.isfinite([found.energy, found.asymmetry]).all():
        raise ValueError("masses or energies that are none")
    if int(found.multiplicity) < 1:
        raise ValueError(f"multiplicity {found.multiplicity}")


def molden_text(vibrations) -> str:
    """Geometry [bohr], wavenumbers, modes and intensities in the Molden format."""
    atoms = list(zip(vibrations.symbols, vibrations.coordinates, strict=True))
    rows = ["[Molden Format]", "[Atoms] AU"]
    rows += [f"{s:<3}{n:5d}{ATOMIC_NUMBERS[s]:5d}{_three(x)}" for n, (s, x) in enumerate(atoms, start=1)]
    rows += ["[FREQ]", *(f"{w:14.6f}" for w in vibrations.wavenumbers)]
    rows += ["[FR-COORD]", *(f"{s:<3}{_three(x)}" for s, x in atoms), "[FR-NORM-COORD]"]
    for n, mode in enumerate(vibrations.modes, start=1):
        rows += [f"vibration {n}", *map(_three, mode)]
    raman = vibrations.raman if vibrations.polarizability_derivatives is not None else None
    rows.append("[INT]")
    for n, strength in enumerate(vibrations.infrared):
        rows.append(f"{strength:14.6f}" + ("" if raman is None else f"{raman[n]:14.6f}"))
    return "\n".join([*rows, ""])


def _three(x):
    return "".join(f"{value:16.8f}" for value in x)


def xyz_text(vibrations) -> str:
    """Extended xyz: a frame for each mode, positions [angstrom] and displacements, which viewers animate."""
    rows = []
    for n, (mode, w, strength) in enumerate(
        zip(vibrations.modes, vibrations.wavenumbers, vibrations.infrared, strict=True), start=1
    ):
        said = f"mode={n} wavenumber={w:.4f} infrared={strength:.4f}"
        rows += [str(len(vibrations.symbols)), f"Properties=species:S:1:pos:R:3:displacement:R:3 {said}"]
        positions = vibrations.coordinates * BOHR_IN_ANGSTROM
        rows += [f"{s:<3}{_three(x)}{_three(d)}" for s, x, d in zip(vibrations.symbols, positions, mode, strict=True)]
    return "\n".join([*rows, ""])


def columns(vibrations) -> dict[str, np.ndarray]:
    """What tables list of each mode, by the head of the column."""
    found = {
        "wavenumber_per_cm": vibrations.wavenumbers,
        "reduced_mass_u": vibrations.reduced_masses,
        "force_constant_hartree_per_bohr2": vibrations.force_constants,
        "infrared_km_per_mol": vibrations.infrared,
    }
    if vibrations.polarizability_derivatives is not None:
        found |= {"raman_A4_per_u": vibrations.raman, "depolarization": vibrations.depolarization}
    return found


def csv_text(vibrations) -> str:
    """A table with a line for each mode."""
    found = columns(vibrations)
    rows = (",".join(repr(float(value)) for value in row) for row in zip(*found.values(), strict=True))
    return "\n".join([",".join(found), *rows, ""])


def qcschema_document(vibrations, printed=None) -> dict:
    """The result's AtomicResult with the driver hessian, (3 atom)^2 numbers [hartree/bohr^2] of all that vibrates.

    printed: the Document of a command.
    """
    document = vibrations.document
    of_dftfd = document.get("extras", {}).get("dftfd", {})
    about = {name: values.tolist() for name, values in columns(vibrations).items()}
    about |= {"modes": vibrations.modes.tolist(), "masses": vibrations.masses.tolist(), "method": vibrations.method}
    about["dipole_derivatives"] = vibrations.dipole_derivatives.tolist()
    return document | {
        "driver": "hessian",
        "return_result": vibrations.hessian.ravel().tolist(),
        "extras": {"dftfd": of_dftfd | {"vibrations": about} | printed_numbers(printed)},
    }


def html_text(vibrations, printed=None) -> str:
    """A report on one page: the molecule that vibrates, spectrum, table of modes, and what a command prints, or the gas
    at standard conditions."""
    heads, _, texts = zip(*vibrations._printed_columns(), strict=True)
    button = '<button type="button" data-mode="{}" aria-pressed="false">{}</button>{}'.format
    rows = [
        [button(k, n, " imaginary" if vibrations.wavenumbers[k] < 0 else ""), *row]
        for k, (n, *row) in enumerate(zip(*texts, strict=True))
    ]
    scene = molecule_scene(vibrations.symbols, vibrations.coordinates, vibrations.what)
    scene["modes"] = [_scaled(mode).tolist() for mode in vibrations.modes]
    body = [
        f"<h1>{escape(vibrations._headline)}</h1>",
        '<div class="columns">',
        f"<section>{scene_figure('vibration', large=True)}</section>",
        "<section>",
        drawn(draw_spectrum, vibrations) if rows else "",
        f'<div class="scroll" tabindex="0">{table(rows, heads)}</div>',
        "<p><small>The number of a mode starts and stops its motion.</small></p>" if rows else "",
        *(f"<p>{escape(line)}</p>" for line in vibrations._remarks),
        "</section>",
        "</div>",
        f'<pre tabindex="0">{escape(str(vibrations.thermochemistry()))}</pre>'
        if printed is None
        else printed.html("vibrations"),
    ]
    return web_page(vibrations.what, "\n".join(body), SCENE_STYLE, scene_script({"vibration": scene}))


def _scaled(mode):
    """Displacements (atom, 3) of which the largest is AMPLITUDE."""
    return np.round(AMPLITUDE * mode / np.linalg.norm(mode, axis=1).max(), 5)


def draw_spectrum(axes, vibrations) -> None:
    """Infrared absorption, with a line for each real mode."""
    real = vibrations.wavenumbers > 0
    w, strengths = vibrations.wavenumbers[real], vibrations.infrared[real]
    x = np.linspace(0.0, 1.1 * w.max(initial=100.0), 2000)
    axes.plot(x, vibrations.spectrum(x), lw=1)
    axes.set(xlabel="wavenumber / cm$^{-1}$", ylabel="absorption / (km mol$^{-1}$ cm)", title="Infrared spectrum")
    lines = axes.twinx()
    lines.vlines(w, 0.0, strengths, color="0.4", lw=1)
    lines.set(ylabel="intensity / (km mol$^{-1}$)", ylim=(0.0, None))
    axes.invert_xaxis()


def _write_picture(vibrations, path, printed):
    with picture(path) as figure:
        draw_spectrum(figure.subplots(), vibrations)


WRITERS = {
    ".h5": lambda vibrations, path, printed: vibrations.save(path, printed),
    ".json": lambda vibrations, path, printed: write_json(path, qcschema_document(vibrations, printed)),
    ".molden": lambda vibrations, path, printed: write_text(path, molden_text(vibrations)),
    ".xyz": lambda vibrations, path, printed: write_text(path, xyz_text(vibrations)),
    ".csv": lambda vibrations, path, printed: write_text(path, csv_text(vibrations)),
    ".html": lambda vibrations, path, printed: write_text(path, html_text(vibrations, printed)),
    **dict.fromkeys(ENDINGS, _write_picture),
}
