"""JSON that others wrote: of bounded depth and digits, without NaN and infinities, each name once in its object.

Python's reader takes the last of two entries of one name, and NaN, which JSON does not have.
No other module reads JSON.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from dftfd.errors import FileError, shown

MAX_DEPTH, MAX_LISTS, MAX_VALUES = 64, 10**6, 4 * 10**6
"""Levels of lists and objects in one another, how many of them, and of values: each takes twenty times its text."""

_LONG_NUMBER = re.compile(r"[-+.0-9eE]{1000}")
_WORDS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # possessive: nothing is kept to go back to
_BRACKETS = re.compile(r"[\[\]{}]")


def parse_json(content: bytes | str, finite: bool = True) -> Any:
    """The value of a JSON document in UTF-8, with or without a byte order mark; ValueError says why it is none.

    finite: refuse NaN and infinities, which files of dftfd's own may hold.
    """
    text = (content.decode() if isinstance(content, bytes) else content).removeprefix("\ufeff")
    bare = _WORDS.sub('""', text)
    if _LONG_NUMBER.search(bare):
        raise ValueError("a number has more than a thousand digits")
    if bare.count("[") + bare.count("{") > MAX_LISTS or bare.count(",") > MAX_VALUES:
        raise ValueError(f"more than {MAX_LISTS} lists and objects, or {MAX_VALUES} values")
    depth = 0
    for bracket in _BRACKETS.finditer(bare):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"lists and objects are nested more than {MAX_DEPTH} deep")
    numbers: dict[str, Any] = {"parse_constant": _no_number, "parse_float": _finite} if finite else {}
    return json.loads(text, object_pairs_hook=_object, **numbers)


def read_json(content: bytes | str, name) -> Any:
    """The value of the JSON document `name`; FileError where it is none."""
    try:
        return parse_json(content)
    except ValueError as error:
        raise FileError(f"{name} is not JSON: {error}.") from error


def as_json(value, default: Callable | None = None) -> Any:
    """What a value is once it has been written and read.   default: of json.dumps."""
    return parse_json(json.dumps(value, default=default), finite=False)


def plain_values(value: Any, not_finite: Callable[[float], Any] = lambda x: x) -> Any:
    """Lists, dictionaries, numbers and text of nested values and arrays.   not_finite: what stands for NaN and inf."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {name: plain_values(one, not_finite) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(one, not_finite) for one in value]
    return not_finite(value) if isinstance(value, float) and not math.isfinite(value) else value


def shipped_json(package: str, name: str) -> Any:
    """The value of a file that is part of a package, which is trusted as its code is."""
    return json.loads((files(package) / name).read_text())


def _object(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {shown(twice)} occurs twice in one object; rename or remove one")
    return found


def _no_number(word):
    raise ValueError(f"{word} is not a number of JSON")


def _finite(word):
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f"{shown(word)} is beyond the largest number")
    return value
