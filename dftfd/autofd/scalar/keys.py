"""When are two operations the same? Exact keys of equations, by content, and fingerprints of whole programs.

A key holds everything that an equation of a program depends on: the operation, its operands, numbers that stand in it,
lengths, directions, branches and inner programs. Derivative rules of its own (jax.custom_jvp, jax.custom_vjp) are
Python functions: they count as equal if they are the same objects with the same static arguments. Where a parameter has
no exact key, NoKey is raised, and the equation equals no other.

A fingerprint is the same in another process and changes with any number or operation of a formula; derivative rules
enter it by the programs that they trace to.

Names of functions with a derivative rule count where name and program are those of the function itself. What
functools.wraps decorates says the name and file of what it wraps, and may compute anything. So a name is known where
the program of the value is that which the module's own function has.
"""

import enum
import functools
import hashlib
import sys
import types
from dataclasses import fields, is_dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from dftfd.autofd.core.jax_adapter import is_tracer, type_of_array
from dftfd.autofd.core.structure import Identity
from dftfd.autofd.scalar.jaxprs import CUSTOM, INLINED, closed, equation_code, is_of_jax, live_equations, operands_of

_LARGE = 4096  # bytes; larger arrays enter keys by a hash of 256 bits
_RULE_DEPTH = 3  # fingerprints follow derivative rules to third derivatives
_MACHINERY = frozenset(
    "DynamicJaxprTrace Store EqualStore DebugInfo ShapedArray PyTreeDef dict object NoneType".split()
)


class NoKey(Exception):
    """A value has no exact key."""


def equation_key(eqn):
    """A hashable key, equal for equations that are the same function of `operands_of(eqn)`; NoKey where none exists."""
    return Keys().equation(eqn, {})


def value_key(value):
    """A hashable key of a parameter of an operation; NoKey where there is no exact one."""
    return Keys().value(value)


def code_fingerprint(code, *specs, rules: bool = True) -> str:
    """64 hexadecimal digits that stand for code of arrays with these shapes, the same in every process; for its value
    alone without rules of derivatives."""
    program = jax.make_jaxpr(lambda *x: code(*x))(*specs)  # of a new function, since JAX keeps what it has traced
    return hashlib.sha256(repr(_Contents(_RULE_DEPTH if rules else 0).program(program)).encode()).hexdigest()


class Keys:
    """Keys in which functions count by their identity."""

    def program(self, program):
        """Variables are numbered in the order in which they appear."""
        program = closed(program)
        names: dict = {}
        start = tuple(self.variable(v, names) for v in program.jaxpr.invars)
        constants = (*(self.value(c) for c in program.consts), len(program.jaxpr.constvars))
        rows = [self.variable(v, names) for v in program.jaxpr.constvars]
        rows += [self.equation(eqn, names) for eqn in live_equations(program.jaxpr)]
        return (start, constants, *rows, *(self.variable(v, names) for v in program.jaxpr.outvars))

    def equation(self, eqn, names):
        name, params = eqn.primitive.name, eqn.params
        operands = tuple(self.variable(v, names) for v in eqn.invars)
        known = is_of_jax(eqn.primitive)
        program = (INLINED.get(name) or CUSTOM.get(name)) if known else None
        params = {"program": params[program]} if program else params
        params = tuple((k, self.value(v)) for k, v in sorted(params.items()))
        rule = self.rule(eqn) if known and name in CUSTOM else ()
        results = tuple(self.variable(v, names) for v in eqn.outvars)
        return (self.operation(eqn.primitive), operands, params, rule, results)

    def variable(self, variable, names):
        if isinstance(variable, Literal):
            return ("number", self.array(np.asarray(variable.val, dtype=type_of_array(variable).dtype)))
        return (names.setdefault(variable, len(names)), *_kind(variable))

    def value(self, value):
        match value:
            case ClosedJaxpr() | Jaxpr():
                return self.program(value)
            case None | bool() | int() | str() | bytes():
                return (type(value).__name__, value)
            case float():
                return ("float", value.hex())
            case complex():
                return ("complex", value.real.hex(), value.imag.hex())
            case tuple() | list():
                return (type(value).__name__, *map(self.value, value))
            case frozenset():
                return ("set", *sorted(map(self.value, value), key=repr))
            case dict():
                return ("dict", *sorted(((self.value(k), self.value(v)) for k, v in value.items()), key=repr))
            case np.dtype():
                return ("dtype", value.str)
            case enum.Enum():
                return (type(value).__qualname__, value.name)
            case type():
                return ("type", value.__module__, value.__qualname__)
            case np.ndarray() | np.generic() | jax.Array():
                return self.array(value)
        if is_dataclass(value):
            return (type(value).__qualname__, *((f.name, self.value(getattr(value, f.name))) for f in fields(value)))
        return self.other(value)

    def array(self, array):
        """Shape, type and content; of a value inside a JAX transformation its identity."""
        if is_tracer(array):
            return Identity(array)
        array = np.asarray(array)
        if array.dtype == object:
            raise NoKey("an array of objects")
        content = array.tobytes()
        content = content if len(content) <= _LARGE else hashlib.blake2b(content, digest_size=32).digest()
        return ("array", array.shape, array.dtype.str, content)

    def operation(self, primitive):
        return (primitive.name, Identity(primitive))

    def rule(self, eqn):
        """The Python functions of a derivative rule, and their static arguments."""
        program = CUSTOM[eqn.primitive.name]
        found = [(k, _origin(v)) for k, v in sorted(eqn.params.items()) if k != program]
        if not any(isinstance(part, Identity) for part in _flat(found)):
            raise NoKey("a derivative rule whose function is hidden")
        return tuple(found)

    def other(self, value):
        """A tree of operands, as JAX 0.12 describes those of loops; what is unknown has no key."""
        match type(value).__name__:
            case "FTTuple":
                return ("tuple of trees", *map(self.value, value.elts))
            case "FTSingleton":
                return ("leaf", self.value(value.val))
            case "FTPyTree":
                return ("tree", self.value(tuple(value.xs)), str(value.tree))
            case "ShapedArray":
                return ("array", value.shape, np.dtype(value.dtype).str)
        raise NoKey(f"a parameter {type(value).__name__}")


def _kind(variable):
    """Shape and type of a variable; NoKey for one that is no array."""
    try:
        return (variable.aval.shape, np.dtype(variable.aval.dtype).str)
    except (AttributeError, TypeError) as error:
        raise NoKey(f"a variable {variable.aval}") from error


def _flat(value):
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, tuple | list) else [value]


def _origin(value):
    """What a rule was made of: functions by identity, static arguments by content.

    JAX wraps a rule in functions of its own, made anew for each equation: these are what their code is and what they
    close over. Anything unknown there has no key.
    """
    if isinstance(value, types.FunctionType):
        if str(value.__module__).partition(".")[0] != "jax":
            return Identity(value)
        cells = tuple(_origin(_content(cell)) for cell in value.__closure__ or ())
        return (Identity(value.__code__), _origin(value.__defaults__), cells)
    if isinstance(value, tuple | list):
        return tuple(map(_origin, value))
    kind = type(value).__name__
    if kind in _MACHINERY:
        return kind
    if hasattr(value, "f_transformed"):  # a function and what JAX does with it
        return (_origin(value.f), _origin(value.transforms), _origin(value.params))
    if type(value).__module__.startswith("jax") and hasattr(value, "val"):  # a static argument
        return _origin(value.val)
    if callable(value):
        return Identity(value)
    return value_key(value)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


class _Contents(Keys):
    """Keys without identities, for other processes; derivative rules are followed `depth` times."""

    def __init__(self, depth: int, rules: dict | None = None):
        """rules: keys of the derivative rules that were followed, by the rules' own functions and operands."""
        self.depth = depth
        self.rules = {} if rules is None else rules

    def operation(self, primitive):
        return primitive.name if is_of_jax(primitive) else f"{primitive.name} of others"

    def array(self, array):
        if is_tracer(array):
            raise NoKey("a value inside a JAX transformation")
        return super().array(array)

    def rule(self, eqn):
        """The program of the derivative; of the same function of the same kind of operands it is traced once."""
        if not self.depth:
            return ()
        try:
            same = (
                self.depth,
                Keys().rule(eqn),
                *map(_kind, eqn.invars),
                self.value(eqn.params[CUSTOM[eqn.primitive.name]]),
            )
        except NoKey:
            return self.traced_rule(eqn)
        if same not in self.rules:
            self.rules[same] = self.traced_rule(eqn)
        return self.rules[same]

    def traced_rule(self, eqn):
        """The key of the program that a derivative rule traces to."""
        code, specs = equation_code(eqn), [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in operands_of(eqn)]
        moving = [i for i, s in enumerate(specs) if jnp.issubdtype(s.dtype, jnp.inexact)]

        def at(values):
            return lambda *moved: code(*(dict(zip(moving, moved, strict=True)).get(i, x) for i, x in enumerate(values)))

        def forward(values, tangents):
            return jax.jvp(at(values), tuple(values[i] for i in moving), tuple(tangents))[1]

        def backward(values, cotangents):
            return jax.vjp(at(values), *(values[i] for i in moving))[1](cotangents)

        if eqn.primitive.name == "custom_jvp_call":
            program = jax.make_jaxpr(forward)(specs, [specs[i] for i in moving])
        else:
            results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
            program = jax.make_jaxpr(backward)(specs, results)
        return _Contents(self.depth - 1, self.rules).program(program)

    def other(self, value):
        try:
            return super().other(value)
        except NoKey:
            return type(value).__qualname__


_PACKAGE, _JAX = Path(__file__).resolve().parents[2], Path(jax.__file__).resolve().parent
_SOURCES = {"_cube_root": "autofd/core/roots.py", "lambert_w": "functionals/special.py"}


def function_name(eqn) -> str:
    """The name of an operation; of a function with a derivative rule the name that it has in Python, with its file if
    it is no function of this package or of JAX: it may be called stop_gradient, and is not."""
    name, source = _named(eqn)
    if not name:
        return eqn.primitive.name
    return name if _is_itself(eqn, name, source) else f"{name} of {source}"


def package_function(eqn) -> str:
    """The name of a function with a derivative rule whose meaning is known; nothing for one that has only its name."""
    name, source = _named(eqn)
    known = name in _SOURCES and Path(source).resolve() == (_PACKAGE / _SOURCES[name]).resolve()
    return name if known and _is_itself(eqn, name, source) else ""


def _named(eqn) -> tuple[str, str]:
    """The name that a function with a derivative rule says and its file; of anything else, nothing."""
    program = CUSTOM.get(eqn.primitive.name)
    info = closed(eqn.params[program]).jaxpr.debug_info if program else None
    name, _, place = (info.func_src_info or "" if info else "").partition(" at ")
    return name, place.rpartition(":")[0]


def _is_itself(eqn, name: str, source: str) -> bool:
    places = (Path(source), Path(source).resolve())  # functionals is a link in the source tree
    if not any(place.is_relative_to(home) for place in places for home in (_PACKAGE, _JAX)):
        return False
    operands = tuple((v.aval.shape, v.aval.dtype, v.aval.weak_type) for v in eqn.invars)
    try:
        return _key(eqn) == _key_of(name, source, operands, len(eqn.outvars))
    except NoKey:
        return False


def _key(eqn):
    return Keys().program(eqn.params[CUSTOM[eqn.primitive.name]])


@functools.lru_cache(maxsize=1024)
def _key_of(name: str, source: str, operands: tuple, results: int):
    """Of the value of the function with this name in the module of this file; a number of results may be its last
    argument. None where there is none."""
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == source), None)
    specs = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in operands]
    for last in ((), (results,)):
        try:
            equations = jax.make_jaxpr(lambda *x, last=last: getattr(module, name)(*x, *last))(*specs).jaxpr.eqns
            while len(equations) == 1 and equations[0].primitive.name in INLINED:
                equations = closed(equations[0].params[INLINED[equations[0].primitive.name]]).jaxpr.eqns
            return _key(equations[0]) if len(equations) == 1 else None
        except (AttributeError, KeyError, TypeError, ValueError, NoKey):
            continue
    return None
