"""Errors and warnings of dftfd.

Each class has the exit code that the command line returns for it. A message says in one line what was found, what was
expected and what to do. The module imports nothing of the package, so every layer can raise its errors.
"""

import difflib
import reprlib
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 299
"""Characters of a message, whatever was found."""


class DftfdError(Exception):
    """Base class of dftfd's errors. The message is one line of at most LONGEST characters."""

    exit_code = 2

    def __init__(self, *arguments: object):
        super().__init__(*(one_line(a) if isinstance(a, str) else a for a in arguments))


class InputError(DftfdError, ValueError):
    """An invalid request: geometry, charge, spin, basis set, options."""


class FunctionalError(InputError):
    """A functional is unknown, malformed, or needs missing ingredients."""


class MissingDependencyError(DftfdError, ImportError):
    """An optional package is needed for this request."""


class UnsupportedError(DftfdError, NotImplementedError):
    """A valid request that is not implemented. The message names what is missing."""


class NumericalError(DftfdError, ArithmeticError):
    """NaN or Inf appeared where a finite number is required."""

    exit_code = 4


class FileError(DftfdError, OSError):
    """A file or checkpoint is missing, unreadable, damaged or not writable."""

    exit_code = 5


class DamagedFileError(FileError):
    """A file was truncated or changed."""


class ResourceError(DftfdError, MemoryError):
    """The request needs more memory or disk than is allowed."""

    exit_code = 6


class CheckpointError(FileError):
    """A checkpoint is missing, damaged, of another calculation or version, or cannot be written."""


class NotConvergedError(DftfdError, RuntimeError):
    """A property of an unconverged density was requested, or an iteration did not converge."""

    exit_code = 3


class InputWarning(UserWarning):
    """The input is valid but looks like a mistake, for example bohr read as angstrom."""


class ConvergenceWarning(UserWarning):
    """A part of a result has not converged. The result names it."""


@contextmanager
def warnings_named(name: str) -> Iterator[None]:
    """Inside, warnings begin with a name: of several molecules, equal ones are shown once and would not tell which."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    finally:
        for warning in caught:
            warnings.warn(f"{name}: {warning.message}", warning.category, stacklevel=4)


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written, or the previous one was read. The calculation continues."""


class AutofdError(DftfdError):
    """Base class of the errors of dftfd.autofd."""


class SignatureError(AutofdError, TypeError):
    """Functions, domains, shapes or dtypes are inconsistent."""


class QuadratureError(AutofdError, ValueError):
    """An integral over a domain without a quadrature, or with an inconsistent one."""


class NoRuleError(AutofdError, NotImplementedError):
    """There is no differentiation or transposition rule for this use of an operator."""


class UnknownOperatorError(AutofdError, AttributeError):
    """A rule names an unknown operator."""


class LeakError(AutofdError, RuntimeError):
    """A differentiated function was used where its derivative would be lost."""


class NotSemilocalError(AutofdError, NotImplementedError):
    """A functional is neither semilocal nor a double integral, so it has no grid kernel."""


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text without line breaks and control characters. Of a long text the beginning and the end are kept."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 5]} ... {text[-end:]}"


@contextmanager
def users_code(what: str) -> Iterator[None]:
    """InputError, 'WHAT: TYPE: MESSAGE.', for whatever the code of a user raises, but for dftfd's own errors."""
    try:
        yield
    except DftfdError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {type(error).__name__}: {one_line(str(error), 150)}.") from error


class _Short(reprlib.Repr):
    """Python's short repr, with arrays by their shape."""

    def __init__(self, longest):
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, longest, longest, 40

    def repr_int(self, x, level):
        return super().repr_int(x, level) if abs(x) < 10**100 else f"a number of {x.bit_length()} bits"

    def repr1(self, x, level):
        kinds = {kind.__name__ for kind in type(x).__mro__}  # subclasses are shown as these, too
        if {"Tracer", "aval"} <= {*kinds, *dir(type(x))}:
            return "a traced value"  # its repr is JAX's own affair
        return self.repr_ndarray(x, level) if "ndarray" in kinds else super().repr1(x, level)

    def repr_ndarray(self, x, level):
        if x.size <= 3:
            return repr(x)
        bad = x.size - int((abs(x) < float("inf")).sum()) if x.dtype.kind in "fc" else 0
        return f"<array {x.shape} {x.dtype}{f', {bad} not finite' if bad else ''}>"


def shown(value, longest: int = 60) -> str:
    """A value in an error message: its repr on one line, truncated; its type if it has none."""
    try:
        text = one_line(_Short(longest).repr(value), 10 * longest)
    except Exception:  # an object whose repr fails is to be named all the same
        text = f"<{type(value).__name__} object>"
    return text if len(text) <= longest else text[: longest - 4] + "..." + text[-1]


def odd_character(text: str) -> str:
    """', which has ... in it' about the first character outside of ASCII, by its name in Unicode; empty without."""
    found = next((c for c in text[:1000] if ord(c) > 127), None)
    if found is None:
        return ""
    name = unicodedata.name(found, "a character without a name").lower()
    return f", which has U+{ord(found):04X} ({name}) in it; write plain letters, digits and signs"


def closest_names(name: str, known, count: int = 3) -> list[str]:
    """The `count` known names closest to `name`, best first."""
    table = {k.lower(): k for k in known}
    return [table[k] for k in difflib.get_close_matches(name.lower(), table, n=count, cutoff=0.0)]
