"""Every failure that dftfd reports on purpose.

Each class carries the exit code that the command line returns for it. A message says in one line what was found, what
was expected and what to do. The module imports nothing, so every layer may raise from it.
"""

import difflib


class DftfdError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 2


class InputError(DftfdError, ValueError):
    """The request cannot be carried out as written: geometry, charge, spin, basis, options."""


class FunctionalError(InputError):
    """A functional is unknown, malformed, or needs ingredients that are not there."""


class MissingDependencyError(DftfdError, ImportError):
    """An optional package is needed for this request."""


class UnsupportedError(DftfdError, NotImplementedError):
    """A well-posed request that this version cannot serve; the message names the missing piece."""


class NumericalError(DftfdError, ArithmeticError):
    """NaN or Inf appeared where a finite number is required."""

    exit_code = 4


class FileError(DftfdError, OSError):
    """A file or checkpoint is missing, unreadable, damaged or not writable."""

    exit_code = 5


class DamagedFileError(FileError):
    """A file is not what was written: cut short, or changed."""


class ResourceError(DftfdError, MemoryError):
    """The request needs more memory or disk than is allowed."""

    exit_code = 6


class CheckpointError(FileError):
    """A checkpoint is missing, damaged, of another calculation or version, or cannot be written."""


class NotConvergedError(DftfdError, RuntimeError):
    """A property was asked of a density that is no solution."""

    exit_code = 3


class InputWarning(UserWarning):
    """The input is legal but looks like a mistake, for example bohr read as angstrom."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or its previous generation was read; the calculation goes on."""


class AutofdError(DftfdError):
    """Base of the errors of the operator calculus."""


class SignatureError(AutofdError, TypeError):
    """Functions, domains, shapes or dtypes do not fit together."""


class QuadratureError(AutofdError, ValueError):
    """An integral was asked for over a domain that has no quadrature."""


class NoRuleError(AutofdError, NotImplementedError):
    """A differentiation or transposition rule does not exist for this use of an operator."""


class LeakError(AutofdError, RuntimeError):
    """A function under differentiation was used where its derivative would be silently lost."""


class NotSemilocalError(AutofdError, NotImplementedError):
    """A functional is neither semilocal nor a double integral, so it cannot be lowered to a grid kernel."""


def closest_names(name: str, known, count: int = 3) -> list[str]:
    """The `count` known names nearest to `name`, best first."""
    table = {k.lower(): k for k in known}
    return [table[k] for k in difflib.get_close_matches(name.lower(), table, n=count, cutoff=0.0)]
