"""Files made from a result: the ending of the name chooses the format.

.h5      everything, for dftfd.load_result and PySCF        .molden   geometry, basis set, orbitals
.json    QCSchema AtomicResult                              .cube     a function of r on a box of points
.npz     arrays, for NumPy                                  .html     a report for people, one self-contained file
.xyz     the geometry, with charge and spin
"""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.autofd import Function
from dftfd.errors import InputError, NumericalError, closest_names, shown
from dftfd.interop.mean_field import molden_text
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.model.option_values import for_json
from dftfd.response.excitations import Excitations
from dftfd.results.html_report import html_report
from dftfd.results.qcschema import atomic_result, printed_numbers, write_json
from dftfd.results.scene import Box
from dftfd.results.tree import save_result
from dftfd.runtime.arguments import number, public, refuse_unknown
from dftfd.runtime.files import check_writable, write_text, written_whole
from dftfd.runtime.notebook import require_new
from dftfd.xc.density import evaluate_at

_LENGTH = number(lambda x: x > 0, "a positive number of bohr")

_ORBITAL = re.compile(
    r"(?:(?P<homo>homo)(?:-(?P<down>\d+))?|lumo(?:\+(?P<up>\d+))?|orbital_(?P<number>\d+))(?:_(?P<spin>alpha|beta))?"
)

FIELDS = {
    "density": lambda result: result.density[0] + result.density[1],
    "spin_density": lambda result: result.density[0] - result.density[1],
    "electrostatic_potential": lambda result: result.electrostatic_potential,
    "elf": lambda result: result.elf,
    "v_xc_alpha": lambda result: result.v_xc[0],
    "v_xc_beta": lambda result: result.v_xc[1],
}
"""Functions R^3 -> R that a cube file can hold by name."""


@public
def check_format(path: Path, ending: str | None = None) -> Callable:
    """The writer of a format. InputError for an unknown one, FileError for an unwritable place: before the run."""
    ending = path.suffix if ending is None else ending
    if ending.lower() not in WRITERS:
        raise InputError(
            f"cannot tell the format of {shown(str(path), 120)}: the name must end in {', '.join(WRITERS)}."
        )
    check_writable(path)
    return WRITERS[ending.lower()]


def write_result(result, path: Path, ending: str | None, overwrite: bool, options: dict) -> None:
    """Write a result in the format of an ending, by default that of the path; options are those of its writer."""
    writer = check_format(path, ending)
    require_new(path, overwrite)
    known = list(inspect.signature(writer).parameters)[2:]
    refuse_unknown(f"write of {(ending or path.suffix).lower()} files", options, [*known, "ending", "overwrite"])
    writer(result, path, **options)


def write_cube(path, box: Box, values, molecule, title: str) -> None:
    """Write values (point,) in the order of `box.points`; lengths in bohr, values in their atomic unit."""
    lines = [f"dftfd: {title}", "OUTER LOOP: X, MIDDLE LOOP: Y, INNER LOOP: Z"]
    lines.append(f"{molecule.n_atoms:5d}" + "".join(f"{x:12.6f}" for x in box.origin))
    for count, step in zip(box.counts, box.steps, strict=True):
        lines.append(f"{count:5d}" + "".join(f"{x:12.6f}" for x in step))
    for Z, charge, position in zip(
        molecule.atomic_numbers, molecule.nuclear_charges, molecule.coordinates, strict=True
    ):
        lines.append(f"{Z:5d}{charge:12.6f}" + "".join(f"{x:12.6f}" for x in position))
    for row in np.reshape(values, (-1, box.counts[2])):
        lines += ["".join(f"{v:14.6e}" for v in row[k : k + 6]) for k in range(0, len(row), 6)]
    write_text(path, "\n".join(lines) + "\n")


@public
def cube_file(
    result,
    path: Path,
    field: str | Function = "density",
    margin: Annotated[float, _LENGTH] = 4.0,
    spacing: Annotated[float, _LENGTH] = 0.2,
) -> None:
    """Values of a function of r on a box of points."""
    name, f = _field(result, field)
    box = Box.around(result.molecule.coordinates, margin, spacing)
    values = np.asarray(evaluate_at(f, box.points))
    if not np.all(np.isfinite(values)):
        raise NumericalError(
            f"{name} is not finite at {np.sum(~np.isfinite(values))} points of the box; change spacing= a little."
        )
    write_cube(path, box, values, result.molecule, f"{name} of {result.molecule.formula}")


def field_of(path: Path) -> str | None:
    """The field that the last word of a name before its ending stands for, as homo in water.homo.cube; None if none."""
    word = path.stem.rpartition(".")[2].lower()
    return word if word in FIELDS or _ORBITAL.fullmatch(word) else None


def orbital_place(result, field: str) -> tuple[int, int] | None:
    """(number, spin) of homo, lumo, homo-1, lumo+2_beta, orbital_7; None for a name that is no orbital's.

    Counted from the highest orbital that holds electrons, from the next, and from 0; spin alpha where none is said.
    """
    match = _ORBITAL.fullmatch(field)
    if match is None:
        return None
    spin = 1 if match["spin"] == "beta" and len(result.mo_occ) == 2 else 0
    if match["number"]:
        return int(match["number"]), spin
    occupied = result.is_occupied[spin]
    downward = np.argsort(-result.mo_energy[spin], kind="stable")
    order = [k for k in downward if occupied[k]] if match["homo"] else [k for k in downward[::-1] if not occupied[k]]
    step = int(match["down"] or match["up"] or 0)
    if step >= len(order):
        raise InputError(f"there is no orbital {field!r}: {len(order)} of this kind.")
    return int(order[step]), spin


def _field(result, field):
    """Name and Function of a field."""
    if isinstance(field, str) and (place := orbital_place(result, field)) is not None:
        number, spin = place
        return f"{field}, orbital {number} of spin {'alpha' if spin == 0 else 'beta'},", result.orbital(number, spin)
    if isinstance(field, str):
        if field not in FIELDS:
            closest = ", ".join(closest_names(field, FIELDS))
            allowed = f"{', '.join(FIELDS)}, homo, lumo, homo-1, lumo+2_beta, orbital_7"
            raise InputError(f"unknown field {shown(field)}; allowed: {allowed} (closest: {closest}).")
        return field, FIELDS[field](result)
    if field.result.shape != () or [getattr(domain.spec, "shape", None) for domain in field.domains] != [(3,)]:
        raise InputError(
            f"a cube file holds a Function R^3 -> R, {shown(field)} was given; take a component, such as density[0]."
        )
    return "function of r", field


@public
def molden_file(result, path: Path) -> None:
    """Geometry, basis set and orbitals."""
    write_text(path, molden_text(result))


@public
def html_file(result, path: Path, excitations: Excitations | None = None, document: Any = None) -> None:
    """The report; with the spectrum of its excitations where they are given.   document: as of `save_result`."""
    write_text(path, html_report(result, excitations, document))


@public
def json_file(result, path: Path, driver: str = "energy", document: Any = None) -> None:
    """A QCSchema AtomicResult.   document: as of `save_result`."""
    found = atomic_result(result, driver)
    found["extras"]["dftfd"] |= printed_numbers(document)
    write_json(path, found)


@public
def npz_file(result, path: Path) -> None:
    """Plain arrays; nothing in the file needs pickle."""
    molecule = result.molecule
    names = ("mo_energy", "mo_occ", "mo_coeff", "density_matrix", "energy", "converged")
    arrays = {name: getattr(result, name) for name in names}
    arrays |= {"atomic_numbers": molecule.atomic_numbers, "coordinates": molecule.coordinates}
    arrays["notes"] = np.array(result.notes, dtype=str)
    arrays["energies"] = np.array(list(result.energies.values()))
    arrays["energy_names"] = np.array(list(result.energies))
    settings = vars(result.settings) | result.settings.options.plain()
    del settings["options"], settings["grid"]
    arrays["settings"] = np.array(json.dumps(settings, default=for_json))
    with written_whole(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


@public
def xyz_file(result, path: Path) -> None:
    """The geometry [angstrom], with charge, spin and energy in the comment line, as `dftfd.molecule` reads it."""
    molecule = result.molecule
    said = f"charge={molecule.charge} spin={molecule.spin} energy_hartree={result.energy!r}"
    rows = [str(molecule.n_atoms), f'{said} model="{result.settings.functional}/{result.settings.basis}"']
    for label, position in zip(molecule.labels, molecule.coordinates * BOHR_IN_ANGSTROM, strict=True):
        rows.append(f"{label:<4}" + "".join(f"{x:18.10f}" for x in position))
    write_text(path, "\n".join(rows) + "\n")


WRITERS: dict[str, Callable] = {
    ".h5": save_result,
    ".json": json_file,
    ".npz": npz_file,
    ".molden": molden_file,
    ".cube": cube_file,
    ".html": html_file,
    ".xyz": xyz_file,
}
