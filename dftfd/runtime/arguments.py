"""The boundary: arguments of public functions are checked here, by their annotations, before any work begins.

    @public
    def charges(result, scheme: Annotated[str, choice("mulliken", "loewdin")] = "mulliken"): ...

A kind of argument says in words what is expected and turns what fits into a plain value (a Python number, exact text, a
finite array, a tuple); whatever else is given, objects that fail when they are looked at included, becomes an
InputError of one line that names the argument. What a function receives needs no second look.
"""

import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from dftfd.errors import DftfdError, InputError, closest_names, shown
from dftfd.runtime.written_numbers import UnclearNumber

LONGEST_SEQUENCE = 10**6
MADE_BY = {"Molecule": ", from dftfd.molecule(...)", "Functional": ", from dftfd.get_functional(...)"}
_Code = TypeVar("_Code", bound=Callable)


@dataclass(frozen=True)
class Kind:
    """A kind of argument.

    expected: in words, as they follow 'give'.   convert: value -> plain value; raises anything for what does not fit.
    """

    expected: str
    convert: Callable[[Any], Any]

    def __repr__(self) -> str:
        """Short, since `help` shows it in signatures."""
        return f"<{self.expected}>"

    def checked(self, name: str, value, error: type[InputError] = InputError):
        """The plain value of the argument `name`; InputError, or `error`, where it does not fit."""
        try:
            return self.convert(value)
        except (DftfdError, Warning):  # a warning of ours that the caller made an error
            raise
        except Exception as reason:  # what looking at somebody's object may raise is anything
            why = f"; {reason}" if isinstance(reason, UnclearNumber) else ""
            raise error(f"{name}={shown(value)}: give {self.expected}{why}.") from reason


def accepted(fits, value):
    """The value where it fits, else ValueError, of which `Kind.checked` makes an error that names the argument."""
    if not fits:
        raise ValueError
    return value


# -------------------------------------------------------------------------------------------------------------- kinds


def _as_text(value):
    return str.__str__(accepted(isinstance(value, str), value))


def require_bare(value) -> None:
    """UnclearNumber for numbers with a unit, a mask or named columns, which NumPy's arrays do not have.

    Lists and tuples are looked into, since an array of their entries has none of these either.
    """
    for what, has in (
        ("a unit", hasattr(value, "unit") or hasattr(value, "units")),
        ("masked values", np.ma.is_masked(value)),
        ("names of its columns", hasattr(value, "columns")),
    ):
        if has:
            raise UnclearNumber(f"a {type(value).__name__} with {what} is not an array of bare numbers")
    if isinstance(value, list | tuple):
        for one in value:
            if type(one) not in (float, int, str, np.float64):
                require_bare(one)


def _as_real(value):
    require_bare(value)
    if isinstance(value, bool | np.bool_):
        raise ValueError
    if not isinstance(value, Real):  # arrays without axes, NumPy's and JAX's, are numbers too
        array = np.asarray(accepted(hasattr(value, "dtype") and value.shape == (), value))
        value = accepted(array.dtype.kind in "iuf", array).item()
    return float(value)


def _as_path(value):
    text = os.fspath(accepted(isinstance(value, str | os.PathLike), value))
    return Path(os.fsdecode(os.fsencode(accepted(isinstance(text, str) and text and "\0" not in text, text))))


flag = Kind("True or False", lambda value: bool(accepted(isinstance(value, bool | np.bool_), value)))
text = Kind("text", _as_text)
path = Kind("the name of a file", _as_path)
mapping = Kind(
    "a dictionary with names as keys",
    lambda value: {_as_text(name): value[name] for name in accepted(isinstance(value, Mapping), value)},
)


def whole(least: int | None = None, most: int | None = None) -> Kind:
    """Whole numbers from `least` to `most`, where they are given."""

    def convert(value):
        value = int(accepted(isinstance(value, Integral) and not isinstance(value, bool), value))
        return accepted((least is None or value >= least) and (most is None or value <= most), value)

    among = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
    return Kind(f"a whole number{among}", convert)


def number(
    fits: Callable[[float], bool] = lambda x: True, expected: str = "a finite number", finite: bool = True
) -> Kind:
    """Real numbers for which `fits` is true; infinities only where they are allowed."""

    def convert(value):
        value = _as_real(value)
        return accepted((np.isfinite(value) or not finite) and fits(value), value)

    return Kind(expected, convert)


def choice(*words: str | None) -> Kind:
    """One of some words, whose case does not matter; None may be one of them."""
    known = {word.lower(): word for word in words if word is not None}

    def convert(value):
        if value is None and None in words:
            return None
        return known[_as_text(value).lower()]

    return Kind(f"one of {', '.join(map(repr, words))}", convert)


def _fits(found, shape):
    return not shape or (len(found) == len(shape) and all(n in (None, m) for n, m in zip(shape, found, strict=True)))


def array(*shape: int | None, expected: str = "an array of finite real numbers", empty: bool = True) -> Kind:
    """Arrays of finite real numbers; float64, read-only. An axis of length None is arbitrary; no axes: any shape.

    empty: whether there may be no number.
    """

    def convert(value):
        require_bare(value)
        found = np.asarray(value)
        accepted(found.dtype.kind in "iuf", found)
        found = np.array(found, dtype=np.float64)
        accepted(_fits(found.shape, shape) and np.all(np.isfinite(found)) and (empty or found.size), found)
        found.flags.writeable = False
        return found

    return Kind(expected, convert)


def traceable(*shape: int | None, expected: str = "an array of finite real numbers") -> Kind:
    """As `array`, or a JAX array whose values are being traced."""
    concrete = array(*shape, expected=expected)

    def convert(value):
        try:
            return concrete.convert(value)
        except TypeError as error:
            if type(error).__name__ != "TracerArrayConversionError":
                raise
            traced = sys.modules["jax"].numpy.asarray(value)  # loaded by whoever traces
            return accepted(_fits(traced.shape, shape) and traced.dtype.kind in "iuf", traced)

    return Kind(expected, convert)


def each(kind: Kind, expected: str | None = None) -> Kind:
    """Sequences, arrays among them, of one kind; a tuple."""

    def convert(values):
        require_bare(values)
        jax = sys.modules.get("jax")  # this module answers before JAX is loaded
        values = np.asarray(values) if jax and isinstance(values, jax.Array) else values
        accepted(isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes | bytearray), values)
        accepted(len(values) <= LONGEST_SEQUENCE, values)
        return tuple(kind.convert(value) for value in islice(values, LONGEST_SEQUENCE + 1))

    return Kind(expected or f"a list, of each {kind.expected}", convert)


def either(*kinds: Kind, expected: str | None = None) -> Kind:
    """What fits one of some kinds, the first of which makes it a plain value."""

    def convert(value):
        for kind in kinds[:-1]:
            try:
                return kind.convert(value)
            except Exception:  # noqa: S112  the next kind may fit
                continue
        return kinds[-1].convert(value)

    return Kind(expected or " or ".join(kind.expected for kind in kinds), convert)


def optional(kind: Kind) -> Kind:
    """None, or what fits a kind."""
    return Kind(f"{kind.expected}, or None", lambda value: None if value is None else kind.convert(value))


def instance(*classes: type, expected: str | None = None) -> Kind:
    """Objects of some classes, as they are."""
    names = " or ".join(f"a {c.__name__}{MADE_BY.get(c.__name__, '')}" for c in classes)
    return Kind(expected or names, lambda value: accepted(issubclass(type(value), classes), value))


def callback(n_arguments: int) -> Kind:
    """Code that can be called with so many arguments."""

    def convert(value):
        inspect.signature(accepted(callable(value), value)).bind(*range(n_arguments))
        return value

    return Kind(f"a function of {n_arguments} argument{'s'[: n_arguments != 1]}", convert)


anything = Kind("an object of the class it names", lambda value: accepted(value.__class__ is type(value), value))

_PLAIN = {bool: flag, int: whole(), float: number(), str: text, Path: path, dict: mapping, Mapping: mapping}


def _holding(outer: Kind, inner: Kind) -> Kind:
    """Dictionaries, lists or tuples of a kind whose contents are of another one; they stay as they are."""

    def convert(value):
        found = outer.convert(value)
        for one in found.values() if isinstance(found, dict) else found:
            inner.convert(one)
        return found

    return Kind(f"{outer.expected}, of each {inner.expected}", convert)


def kind_of(annotation) -> Kind:
    """The kind that an annotation stands for: a Kind in Annotated, plain types, classes, unions, sequences of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        given = [a for a in arguments[1:] if isinstance(a, Kind)]
        return given[0] if given else kind_of(arguments[0])
    if origin in (Union, types.UnionType):
        kinds = [kind_of(a) for a in arguments if a is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else either(*kinds)
        return optional(kind) if type(None) in arguments else kind
    if annotation in _PLAIN or origin in _PLAIN:
        plain = _PLAIN[annotation if annotation in _PLAIN else origin]
        return plain if origin is None or arguments[1] is Any else _holding(plain, kind_of(arguments[1]))
    if origin is Callable:
        return callback(len(arguments[0]))
    if origin is Sequence:
        return each(kind_of(arguments[0]))
    if origin in (list, tuple) and set(arguments[1:]) <= {...}:
        return _holding(instance(origin), kind_of(arguments[0]))
    return instance(annotation) if isinstance(annotation, type) and annotation not in (Any, object) else anything


# ---------------------------------------------------------------------------------------------------------- functions


def bound(name: str, signature: inspect.Signature, given: tuple, named: dict, error=InputError) -> dict:
    """Arguments by name, defaults left out; an `error` for those that are missing, too many or unknown."""
    parameters = signature.parameters
    known = [p.name for p in parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        refuse_unknown(name, named, known, error)
    try:
        return signature.bind(*given, **named).arguments
    except TypeError as reason:
        raise error(f"{name}({', '.join(known)}): {reason}.") from reason


def refuse_unknown(function: str, given, known, error=InputError) -> None:
    """Raise an `error` for the first name in `given` that is no option of a function, with the closest ones."""
    for name in given:
        if name not in known:
            closest = closest_names(name if isinstance(name, str) else shown(name), known)
            said = ", ".join(closest) or "none: it takes none"
            raise error(f"{function} has no option {shown(name)}; the closest ones are {said}.")


def require_arguments(function: Callable, **given) -> None:
    """InputError for arguments that a public function would refuse, long before it is called."""
    hints = get_type_hints(function, include_extras=True)
    for name, value in given.items():
        kind_of(hints[name]).checked(name, value)


def public(function: _Code, error: type[InputError] = InputError) -> _Code:
    """Decorator of public functions and methods, which checks their arguments as this file says.

    error: what it raises.
    """
    signature, name = inspect.signature(function), function.__name__

    @lru_cache(maxsize=1)
    def kinds():  # at the first call, when all classes that annotations name are there
        hints = get_type_hints(function, include_extras=True)
        return {p: kind_of(hints[p]) for p in signature.parameters if p in hints}

    @wraps(function)
    def checked(*given, **named):
        arguments = bound(name, signature, given, named, error)
        spread = inspect.BoundArguments(signature, {p: _checked(p, v) for p, v in arguments.items()})
        return function(*spread.args, **spread.kwargs)

    def _checked(parameter, value):
        kind = kinds().get(parameter)
        if kind is None:
            return value
        match signature.parameters[parameter].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                return tuple(kind.checked(parameter, v, error) for v in value)
            case inspect.Parameter.VAR_KEYWORD:
                return {key: kind.checked(key, v, error) for key, v in value.items()}
        return kind.checked(parameter, value, error)

    return cast(_Code, checked)


def public_raising(error: type[InputError]) -> Callable[[_Code], _Code]:
    """The decorator `public` with another error."""
    return lambda function: public(function, error)
