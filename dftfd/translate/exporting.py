"""`dftfd.export`: a functional as files for other programs."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any

from dftfd.errors import FileError, UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import public, whole
from dftfd.runtime.files import write_text
from dftfd.translate.c_files import Exported, c_files
from dftfd.translate.c_pairs import pair_files
from dftfd.translate.c_test import test_program
from dftfd.translate.fortran import fortran_module
from dftfd.translate.libxc_source import libxc_source
from dftfd.translate.programs import identifier
from dftfd.translate.torch_module import torch_module

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
    """Write a functional as C99 without dependencies into a folder; the paths of the files.

    functional: name, expression or Functional. Its semilocal part is written, and its double integral with a driver
    over pairs of points; the fractions of exact exchange and a dispersion correction stand in the comments, for the
    calling program to add.
    order: of the highest derivatives, 0 to 4. Variables and results are libxc's, of one and of two spins.
    overwrite: replaces files that are there.

    `cc FOLDER/*.c -lm -o t && ./t` compares the compiled code with values in extended precision, which needs mpmath.
    docs/export.md tells the rest. UnsupportedError for what is no energy per volume of rho, sigma, lapl and tau in
    straight-line code, exact exchange alone, and for models of the potential; FileError for a folder that cannot be
    written.

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
    name = exported.name
    texts = {**c_files(exported), f"{name}_test.c": test_program(exported)}
    texts[f"fortran/{name}.f90"] = fortran_module(exported)
    texts[f"pytorch/{name}.py"] = torch_module(exported)
    for what, further in (("libxc", _for_libxc), ("its double integral", pair_files)):
        try:
            texts |= further(exported) if what == "libxc" or functional.is_nonlocal else {}
        except UnsupportedError as error:
            log.warning("no file for %s is written: %s", what, error)
    return texts


def _for_libxc(exported: Exported) -> dict[str, str]:
    return {f"libxc/{exported.name}_libxc.c": libxc_source(exported)}


def _new_folder(folder: Path, overwrite: bool) -> Path:
    """The folder, which may be there already; FileError, before anything is computed, where it cannot be one."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise FileError(f"cannot write into {folder}: it is no folder.")
    above = next(p for p in (folder, *folder.absolute().parents) if os.path.isdir(p))
    if not os.access(above, os.W_OK):
        raise FileError(f"cannot write into {folder}: no permission to write in {above}.")
    return folder
