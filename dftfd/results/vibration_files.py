"""Files made from vibrations: the ending of the name chooses the format.

.h5      everything, for dftfd.load_vibrations     .molden   geometry, modes and intensities, for viewers
.json    QCSchema AtomicResult, driver hessian     .xyz      a frame for each mode, displacements beside positions
.csv     a table                                   .html     a report with spectrum and thermochemistry
.png, .svg, .pdf   the infrared spectrum
"""

from html import escape

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, shown
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.results.html_report import STYLE, drawn, table
from dftfd.results.qcschema import printed_numbers, write_json
from dftfd.runtime.files import ENDINGS, check_writable, picture, require_matplotlib, write_text


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
    """A report on one page: spectrum, table of modes, and what a command prints, or the gas at standard conditions."""
    found = columns(vibrations)
    rows = [[str(n), *(f"{v:.4f}" for v in row)] for n, row in enumerate(zip(*found.values(), strict=True), start=1)]
    body = [
        f"<h1>{escape(vibrations.what)}</h1>",
        drawn(draw_spectrum, vibrations) if len(rows) else "",
        table(rows, ("mode", *(name.replace("_", " ") for name in found))),
        f"<pre>{escape(str(vibrations))}</pre><pre>{escape(str(vibrations.thermochemistry()))}</pre>"
        if printed is None
        else printed.html(),
    ]
    head = f'<meta charset="utf-8"><title>{escape(vibrations.what)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


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


def writer_for(path):
    """Writes vibrations to a path as its ending says; InputError and FileError before anything is computed."""
    if path.suffix not in WRITERS:
        raise InputError(
            f"cannot tell the format of {shown(str(path), 120)}: the name must end in {', '.join(WRITERS)}."
        )
    if path.suffix in (".html", *ENDINGS):
        require_matplotlib()
    check_writable(path)
    return WRITERS[path.suffix]
