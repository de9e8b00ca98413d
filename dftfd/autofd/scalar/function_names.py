"""Names of functions with a derivative rule, which count where name and program are those of the function itself.

What functools.wraps decorates says the name and file of what it wraps, and may compute anything. So a name is known
where the program of the value is that which the module's own function has.
"""

import functools
import sys
from pathlib import Path

import jax

from dftfd.autofd.scalar.jaxprs import CUSTOM, INLINED, closed
from dftfd.autofd.scalar.keys import Keys, NoKey

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
