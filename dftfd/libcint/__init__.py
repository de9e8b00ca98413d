"""Integrals, basis sets and atomic data of PySCF, as plain arrays. The lowest layer that imports PySCF.

At its import PySCF executes the file that PYSCF_CONFIG_FILE names, or a `.pyscf_conf.py` of the current folder or of
HOME, which may also change what its integrals and guesses do. Under dftfd none of them is read. A program that has
imported PySCF before keeps its configuration; a warning names what that changes.
"""

import logging
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

from dftfd.errors import FileError, InputError, InputWarning, UnsupportedError

_VARIABLE, _NAME = "PYSCF_CONFIG_FILE", ".pyscf_conf.py"
# Of printing, scratch files, sizes of buffers, and what dftfd sets for each Mole.
_WITHOUT_EFFECT = {"DEBUG", "VERBOSE", "TMPDIR", "ARGPARSE", "UNIT", "MAX_MEMORY", "conf_file"}

log = logging.getLogger(__name__)


def _import_pyscf():
    """Import PySCF with its own defaults."""
    if sys.flags.optimize > 1:
        raise UnsupportedError(
            "Python runs without docstrings (-OO, or PYTHONOPTIMIZE=2), but PySCF needs them when it is "
            "imported; start Python without -OO, or with -O."
        )
    given = os.environ.get(_VARIABLE)
    for file in (given, Path.home() / _NAME, _NAME):
        if file is not None and os.path.isfile(file):
            log.info("PySCF's configuration file %s is not read; import pyscf before dftfd to have it.", file)
    os.environ[_VARIABLE] = str(Path(__file__).with_name("pyscf_defaults.py"))  # the first file is the only one
    try:
        import pyscf  # noqa: F401
    except FileNotFoundError as error:  # PySCF asks for the current folder
        raise FileError("the current folder no longer exists; change to another one.") from error
    except ValueError as error:
        raise InputError(f"PySCF does not start: {error}; PYSCF_MAX_MEMORY must be a number of MB.") from error
    finally:
        del os.environ[_VARIABLE]
        if given is not None:
            os.environ[_VARIABLE] = given


def _warn_of_configuration(config):
    """Say which settings a file has changed before dftfd was imported."""
    changed = sorted(
        name
        for name, value in vars(config).items()
        if not (name.startswith("__") or name in _WITHOUT_EFFECT or isinstance(value, ModuleType))
    )
    if changed and config.conf_file is not None:
        warnings.warn(
            f"PySCF was imported before dftfd, and its configuration file {config.conf_file} sets "
            f"{', '.join(changed)}: integrals and guesses may differ from PySCF's own; import dftfd.interop first.",
            InputWarning,
            stacklevel=2,
        )


if "pyscf" in sys.modules:
    _warn_of_configuration(sys.modules["pyscf.__config__"])
else:
    _import_pyscf()
