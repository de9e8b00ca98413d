"""`dftfd.export`: a functional as files for other programs."""

import itertools
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.errors import FileError, UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import public, whole
from dftfd.runtime.files import write_text
from dftfd.translate.c_files import Exported, c_files, filled, fortran_module
from dftfd.translate.c_pairs import pair_files
from dftfd.translate.c_text import TEST
from dftfd.translate.libxc_source import libxc_source
from dftfd.translate.on_c import number_text
from dftfd.translate.programs import identifier
from dftfd.translate.torch_module import torch_module
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import FAMILIES, MEMBERS, family_of

log = logging.getLogger(__name__)

HIGHEST = 4
"""Order of the derivatives that libxc has names for."""


@public
def export(
    functional: Any,
    folder: Path | str,
    order: Annotated[int, whole(0, HIGHEST)] = HIGHEST,
    overwrite: bool = False,
) -> list[Path]:
    """Write a functional as C99 code without dependencies to a folder: the paths of the files.

    functional: name, expression or Functional. The semilocal part is written, and a double integral with a driver over
        pairs of points. Comments give the fractions of exact exchange and the dispersion correction, which the calling
        program adds.
    order: highest order of the derivatives, 0 to 4. Variables and results are libxc's, for one and two spins.
    overwrite: replaces existing files.

    `cc FOLDER/*.c -lm -o t && ./t` compares the compiled code with values in extended precision, which need mpmath. See
    docs/export.md. Raises UnsupportedError for model potentials, exact exchange alone, and whatever is not an energy
    per volume of rho, sigma, lapl and tau in straight-line code; FileError for a folder that cannot be written.

        dftfd.export("gga_x_pbe", "pbe_in_c", order=2)
    """
    given = functional if isinstance(functional, Functional) else get_functional(functional)
    folder = _new_folder(Path(folder), overwrite)
    texts = files_of(given, order)
    paths = [folder / name for name in texts]
    if not overwrite:
        for path in paths:
            if os.path.lexists(path):
                raise FileError(f"{path} exists; take another folder, or give overwrite=True, --overwrite.")
    for path, text in zip(paths, texts.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return paths


def files_of(functional: Functional, order: int) -> dict[str, str]:
    """Texts of all files by name."""
    supports.require("export", functional)
    exported = Exported(identifier(functional.name), functional, order)
    if not functional.is_semilocal:
        return pair_files(exported)
    texts = {**c_files(exported), f"{exported.name}_test.c": test_program(exported)}
    for language, write in _WRITERS.items():
        try:
            texts |= write(exported)
        except UnsupportedError as error:
            log.warning("no file for %s is written: %s", language, error)
    return texts


Writer = Callable[[Exported], Mapping[str, str]]
"""What is exported -> {path in the folder: text}; UnsupportedError for what the language has no form of."""

_WRITERS: dict[str, Writer] = {
    "Fortran": lambda exported: {f"fortran/{exported.name}.f90": fortran_module(exported)},
    "PyTorch": lambda exported: {f"pytorch/{exported.name}.py": torch_module(exported)},
    "libxc": lambda exported: {f"libxc/{exported.name}_libxc.c": libxc_source(exported)},
    "its double integral": lambda exported: pair_files(exported) if exported.functional.is_nonlocal else {},
}


def export_language(language: str) -> Callable[[Writer], Writer]:
    """Decorator: `export` also writes the files that the code gives."""

    def register(write):
        _WRITERS[language] = write
        return write

    return register


def _new_folder(folder: Path, overwrite: bool) -> Path:
    """The folder, which may be there already; FileError, before anything is computed, where it cannot be one."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise FileError(f"cannot write into {folder}: it is not a folder.")
    above = next(p for p in (folder, *folder.absolute().parents) if os.path.isdir(p))
    if not os.access(above, os.W_OK):
        raise FileError(f"cannot write into {folder}: no permission to write in {above}.")
    return folder


TOLERANCES = (1e-12, 1e-11, 1e-10, 1e-9, 1e-9)
"""Relative, by order of the derivative."""

SAMPLE = 6
"""Derivatives of each order above the second that are tested at a point: one takes 2^order energies."""

POINTS = {
    1: [[0.31, 0.52], [0.12, 0.011], [-0.4, 0.15], [0.24, 0.031]],
    2: [
        [0.21, 0.13, 0.04, 0.41],
        [0.09, -0.02, 0.05, 0.013, 0.007, 0.11],
        [-0.3, 0.2, 0.1, -0.5],
        [0.17, 0.12, 0.021, 0.33],
    ],
}
"""Two points: rho, sigma, lapl and tau of each, as libxc lays them out."""


def test_program(exported: Exported) -> str:
    """The text of the program."""
    rows = [row for n_spin in POINTS for row in _checks(exported, n_spin)]
    table = ",\n".join(
        f"    {{{', '.join(map(str, place))}, {value}, {tolerance}}}" for *place, value, tolerance in rows
    )
    tables = [
        f"static const double {family}_{n_spin}[] = {{{', '.join(map(number_text, values))}}};"
        for n_spin, arrays in POINTS.items()
        for family, values in zip(FAMILIES, arrays, strict=True)
    ]
    tables.append(f"\nstatic const check checks[] = {{\n{table}}};\n")
    most = max(len(c) for c in exported.components(2).values())
    text = TEST.replace("NAME", exported.name)
    slots = filled(", ".join(f"out[{k}]" for k in range(len(exported.slots))))
    for key, value in {
        "digits": DIGITS, "TABLES": "\n".join(tables), "N_SLOTS": len(exported.slots), "N_POINTS": 2, "MOST": most,
        "SLOTS": slots,
    }.items():  # fmt: skip
        text = text.replace(f"{{{key}}}", str(value))
    return text


def _checks(exported, n_spin):
    """Rows (n_spin, point, slot, stride, offset, value, tolerance)."""
    energy = ExtendedEnergy(exported.semilocal, n_spin)
    rng = np.random.default_rng(7)
    for point, x in enumerate(_variables(n_spin)):
        n = x[list(MEMBERS[n_spin]["rho"])].sum()
        components = exported.components(n_spin)
        for order in range(exported.order + 1):
            named = [(s, k, d) for s, of in components.items() for k, d in enumerate(of) if exported.slots[s] == order]
            known = [row for row in named if set(row[2]) <= set(energy.used)]
            if order > 2:
                known = [known[i] for i in sorted(rng.permutation(len(known))[:SAMPLE])]
            for slot, offset, derivative in known:
                with mpmath.workdps(DIGITS):
                    value = float(energy.derivative(x, derivative) if derivative else energy(x))
                value = value / n if slot == "zk" else value
                size = _natural_size(n, n_spin, derivative) / (n if slot == "zk" else 1)
                tolerance = TOLERANCES[order] * (abs(value) + size)
                place = n_spin, point, list(exported.slots).index(slot), len(components[slot]), offset
                yield *place, number_text(value), f"{tolerance:.2e}"


def _natural_size(n, n_spin, derivative):
    families = [family_of(k, n_spin) for k in derivative]
    return 1 / scaled_error(1.0, 0.0, n, families)


def _variables(n_spin) -> list[np.ndarray]:
    columns = [np.reshape(values, (2, -1)) for values in POINTS[n_spin]]
    return [np.array(list(itertools.chain(*(c[p] for c in columns)))) for p in range(2)]
