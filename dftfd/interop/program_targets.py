"""Executables with an input template as targets of `dftfd audit-code`: Psi4, NWChem and whatever reads a text file.

A program is described by a file .toml, read and never executed; those of Psi4 and NWChem are in the folder `programs`.
See docs/audit_code.md.
"""

import math
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dftfd.errors import (
    FileError,
    InputError,
    MissingDependencyError,
    NumericalError,
    UnsupportedError,
    closest_names,
    shown,
)
from dftfd.interop.audit_targets import QUANTITIES, Fixed, Setting, Target, multiplicity, shape_of
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.runtime.child_processes import run_program
from dftfd.runtime.files import read_bytes

LONGEST_FILE, LONGEST_OUTPUT = 10**6, 10**8
SECONDS = 600
"""What one calculation may take, where the file does not say `seconds`."""
FOLDER = Path(__file__).parent / "programs"
SHIPPED = ("nwchem", "psi4")
"""Programs whose descriptions are in FOLDER."""
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Task:
    """What a program is told for a quantity, and how its output is read.

    text: takes the place of {task}.   excited: the same for an excited state, empty where there is none.
    read: regular expression; numbers are all groups of all matches, of which the last ones count.
    factor: times these is the quantity in atomic units.   output: the file that is searched, by default the program's
    output.
    """

    text: str
    read: re.Pattern
    factor: float = 1.0
    output: str = ""
    excited: str = ""


@dataclass(frozen=True, eq=False)
class ProgramTarget(Fixed):
    """A program that is started anew for each calculation, in a folder of its own.

    command: words, in which {input} and {output} are names of files.   template: text of the input.
    values: what stands for further placeholders, such as basis and method.   changes: names of variants, and the values
    that they have instead.   ghost: how a ghost atom is written, with {symbol}; empty where there are none.
    """

    name: str
    command: tuple[str, ...]
    template: str
    tasks: Mapping[str, Task]
    values: Mapping[str, str]
    changes: Mapping[str, Mapping[str, str]]
    ghost: str = ""
    input: str = "input.dat"
    output: str = "output.dat"
    seconds: float = SECONDS

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]  # of this file
        return frozenset(self.tasks)

    @property
    def conditions(self) -> frozenset[str]:  # type: ignore[override]
        places = [("spin", "multiplicity"), ("spin", "unpaired"), ("field", "field_x"), ("charges", "charges")]
        places += [("charges", "charges_last"), ("state", "state")]
        return frozenset(name for name, place in places if f"{{{place}}}" in self._all_text)

    @property
    def _all_text(self):
        return self.template + "".join(task.text + task.excited for task in self.tasks.values())

    def in_basis(self, basis: str) -> "ProgramTarget":
        return self.of("basis", basis)

    def of(self, place: str, value: str) -> "ProgramTarget":
        """The same program with another basis, method or other value. UnsupportedError where it has no such place."""
        if place not in self.values or f"{{{place}}}" not in self._all_text:
            raise UnsupportedError(f"the description of {self.name} has no {{{place}}} with a value.")
        return replace(self, values={**self.values, place: value})

    def variants(self, setting: Setting) -> Mapping[str, Target]:
        return {name: replace(self, values={**self.values, **other}) for name, other in self.changes.items()}

    def compute(self, quantity: str, setting: Setting) -> np.ndarray:
        """Write the input, run the program, read the numbers."""
        task = self.tasks[quantity]
        text = task.excited if setting.state and task.excited else task.text
        if setting.state and "{state}" not in self.template + text:
            raise UnsupportedError(f"no {quantity.replace('_', ' ')} of excited states offered.")
        with tempfile.TemporaryDirectory(prefix="dftfd-audit-") as folder:
            places = self._places(setting)
            told = filled(self.template, places | {"task": filled(text, places)})
            (Path(folder) / self.input).write_text(told)
            words = [filled(word, {"input": self.input, "output": self.output}) for word in self.command]
            done = run_program(words, folder, self.seconds)
            path = Path(folder) / (task.output or self.output)
            in_file = path.exists() or task.output
            printed = read_bytes(path, LONGEST_OUTPUT).decode(errors="replace") if in_file else done.stdout
        found = [float(word.replace("D", "E")) for row in task.read.findall(printed) for word in _words(row)]
        expected = shape_of(quantity, setting)
        shape = (len(found),) if expected is None else expected
        count = math.prod(shape)
        n = 3 * len(setting.symbols)
        if quantity == "hessian" and len(found) == n * (n + 1) // 2:
            found = list(_symmetric(found, n).ravel())
        if len(found) < count or not found:
            last = (printed + done.stderr).strip().splitlines()[-1:] or ["nothing"]
            raise NumericalError(f"{len(found)} of {count} numbers of {quantity} in the output, which ends: {last[0]}")
        return task.factor * np.array(found[-count:]).reshape(shape)

    def _places(self, setting):
        r = np.asarray(setting.positions)
        symbols = [self._written(symbol) for symbol in setting.symbols]
        rows = lambda x: [" ".join(f"{value:.14f}" for value in row) for row in x]
        atoms = lambda x: "\n".join(f"{name} {row}" for name, row in zip(symbols, rows(x), strict=True))
        charges = "\n".join(rows(setting.charges[:, [3, 0, 1, 2]]))
        given = {"charge": setting.charge, "multiplicity": multiplicity(setting), "state": setting.state}
        given |= {"unpaired": setting.spin, "charges_last": "\n".join(rows(setting.charges))}
        given |= {f"field_{axis}": f"{value:.14f}" for axis, value in zip("xyz", setting.field, strict=True)}
        given |= {"geometry": atoms(r * BOHR_IN_ANGSTROM), "geometry_bohr": atoms(r), "charges": charges}
        return {name: str(value) for name, value in given.items()} | dict(self.values)

    def _written(self, symbol):
        """An atom's symbol as the program reads it."""
        element = symbol.removeprefix("ghost-")
        if element != symbol and not self.ghost:
            raise UnsupportedError("no ghost atoms offered.")
        return element if element == symbol else filled(self.ghost, {"symbol": element})


def filled(text: str, places: Mapping[str, str]) -> str:
    """The text with {name} replaced by what stands for known names; other braces stay."""
    return _PLACE.sub(lambda match: places.get(match[1], match[0]), text)


def _symmetric(triangle, n):
    """The matrix whose lower triangle this is, row by row."""
    found = np.zeros((n, n))
    found[np.tril_indices(n)] = triangle
    return found + np.tril(found, -1).T


def _words(row):
    return [word for group in ((row,) if isinstance(row, str) else row) for word in group.split()]


def read_program(path: Path) -> ProgramTarget:
    """The program that a .toml file describes; InputError for one that does not."""
    text = read_bytes(path, LONGEST_FILE).decode(errors="replace")
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not a TOML file: {error}.") from error
    tasks = found.pop("tasks", None)
    words = found.pop("command", None)
    of_text = {"name": str(path.stem), "ghost": "", "input": "input.dat", "output": "output.dat"}
    given = {name: found.pop(name, default) for name, default in of_text.items()} | {
        "template": found.pop("template", None),
        "seconds": found.pop("seconds", SECONDS),
        "values": found.pop("values", {}),
        "changes": found.pop("variants", {}),
    }
    right = (
        all(isinstance(given[name], str) for name in (*of_text, "template"))
        and isinstance(words, list)
        and len(words) > 0
        and all(isinstance(word, str) for word in words)
        and isinstance(tasks, dict)
        and "energy" in tasks
        and isinstance(given["seconds"], int | float)
        and _all_text(given["values"])
        and isinstance(given["changes"], dict)
        and all(_all_text(other) and set(other) <= set(given["values"]) for other in given["changes"].values())
    )
    if not right or found or not all(_is_name(given[name]) for name in ("input", "output")):
        raise InputError(
            f"{path}: command (a list of words), template, [tasks.energy] and, if need be, name, ghost, input, output "
            "(names of files), seconds, [values] of placeholders, [variants.NAME] with other values and further tasks "
            f"are expected{f', not {sorted(found)[0]!r}' if found else ''}."
        )
    if shutil.which(words[0]) is None:
        raise MissingDependencyError(f"{path}: there is no program {words[0]!r} on the path.")
    return ProgramTarget(command=tuple(words), tasks={q: _task(path, q, entry) for q, entry in tasks.items()}, **given)


def shipped(name: str) -> ProgramTarget:
    """The program of this name whose description comes with dftfd."""
    return read_program(FOLDER / f"{name}.toml")


def _all_text(table):
    return isinstance(table, dict) and all(isinstance(value, str) for value in table.values())


def _is_name(text):
    """Whether this names a file of the program's own folder."""
    return Path(text).name == text


def _task(path, quantity, entry):
    known = {"text", "read", "factor", "output", "excited"}
    right = isinstance(entry, dict) and set(entry) <= known and isinstance(entry.get("read"), str)
    right = right and all(isinstance(entry.get(name, ""), str) for name in ("text", "excited"))
    right = right and isinstance(entry.get("factor", 1.0), int | float)
    right = right and isinstance(entry.get("output", ""), str) and _is_name(entry.get("output", ""))
    if quantity not in QUANTITIES:
        close = ", ".join(closest_names(quantity, QUANTITIES))
        raise InputError(f"{path}: no quantity is called {shown(quantity)}; the closest names are {close}.")
    if not right:
        raise InputError(
            f"{path}: [tasks.{quantity}] needs text and read (a regular expression with groups); factor, output (a "
            "file's name) and excited (the text for excited states) if need be."
        )
    try:
        pattern = re.compile(entry["read"], re.MULTILINE)
    except re.error as error:
        raise InputError(f"{path}: read = {shown(entry['read'])} is not a regular expression: {error}.") from error
    if pattern.groups == 0:
        raise InputError(f"{path}: read = {shown(entry['read'])} has no groups, which say what the numbers are.")
    text, excited, output = (entry.get(name, "") for name in ("text", "excited", "output"))
    return Task(text, pattern, float(entry.get("factor", 1.0)), output, excited)
