"""Places outside of arrays in traced code: NumPy refuses x[:, 3] of an array (n, 3), JAX takes x[:, 2] instead.

Followed are integers that the code fixes, and what it computes from them: in inner programs and in the steps of loops.
Places that depend on data are left alone, as look-ups in tables clip them on purpose. So are places for which the code
asks for a value, x.at[i].get(mode="fill", fill_value=0), and fixed tables of places with mode="clip".
"""

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.lax import GatherScatterMode

from dftfd.autofd.core.jax_adapter import is_tracer, type_of_array
from dftfd.autofd.scalar.jaxprs import scan_layout
from dftfd.errors import SignatureError

MOST_STEPS, LARGEST = 1000, 100_000
"""Steps of a loop that are followed, and entries of an array of fixed integers."""

_SLICES = ("dynamic_slice", "dynamic_update_slice")
_READS = (*_SLICES, "gather")


def refuse_places_outside(program) -> None:
    """Raise SignatureError where a closed program reads or writes fixed places outside of an array."""
    if _reads(program.jaxpr):
        with jax.ensure_compile_time_eval():
            _follow(program, [None] * len(program.jaxpr.invars))


def _reads(jaxpr) -> bool:
    """Whether a program picks entries by numbers, at any depth."""
    return any(
        eqn.primitive.name in _READS
        or eqn.primitive.name.startswith("scatter")
        or any(_reads(_opened(inner)) for inner in _inner_programs(eqn))
        for eqn in jaxpr.eqns
    )


def _opened(program) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _inner_programs(eqn) -> list:
    given = [p for value in eqn.params.values() for p in (value if isinstance(value, tuple | list) else (value,))]
    return [p for p in given if isinstance(p, Jaxpr | ClosedJaxpr)]


def _fixed(value):
    """An array of integers that the code fixes; None for anything else."""
    if is_tracer(value) or np.size(value) > LARGEST:
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "biu" else None


def _follow(program, given) -> list:
    """The results that are fixed integers, else None; `given` are the arguments in the same way."""
    jaxpr, constants = _opened(program), program.consts if isinstance(program, ClosedJaxpr) else ()
    known = {v: _fixed(c) for v, c in zip(jaxpr.constvars, constants, strict=False)}
    known |= dict(zip(jaxpr.invars, given, strict=True))
    read = lambda v: _fixed(v.val) if isinstance(v, Literal) else known.get(v)
    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        known |= dict(zip(eqn.outvars, _results(eqn, operands), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _results(eqn, operands) -> list:
    name, inner, unknown = eqn.primitive.name, _inner_programs(eqn), [None] * len(eqn.outvars)
    _check(eqn, operands)
    if name == "scan":
        return _steps(eqn, inner[0], operands)
    if name == "cond":
        if operands[0] is not None:
            chosen = np.clip(int(operands[0]), 0, len(inner) - 1)
            return _follow(inner[chosen], operands[1:])
        for branch in inner:
            _follow(branch, operands[1:])
        return unknown
    if inner:
        whole = len(inner) == 1 or name.startswith("custom")
        fits = whole and len(_opened(inner[0]).invars) == len(operands)
        found = _follow(inner[0], operands) if fits else None
        for program in [] if fits else inner:
            _follow(program, [None] * len(_opened(program).invars))
        return found if found is not None and len(found) == len(unknown) else unknown
    types = [type_of_array(v) for v in eqn.outvars]
    small = all(t.dtype.kind in "biu" and t.size <= LARGEST for t in types if hasattr(t, "dtype"))
    if any(x is None for x in operands) or not small or eqn.effects:
        return unknown
    found = eqn.primitive.bind(*operands, **eqn.params)
    return [_fixed(x) for x in (found if eqn.primitive.multiple_results else [found])]


def _steps(eqn, body, operands) -> list:
    """A loop, step by step while fixed integers go from one to the next."""
    constants, last = scan_layout(eqn, _opened(body))
    fixed, carry, scanned, carried = operands[:constants], operands[constants:last], operands[last:], last - constants
    moves = any(x is not None for x in (*carry, *scanned))
    steps = range(eqn.params["length"])
    for k in (reversed(steps) if eqn.params["reverse"] else steps) if moves and len(steps) <= MOST_STEPS else (None,):
        entry = [None if x is None or k is None else x[k] for x in scanned]
        carry = _follow(body, [*fixed, *(carry if k is not None else [None] * carried), *entry])[:carried]
    return [*carry, *[None] * (len(eqn.outvars) - carried)]


def _check(eqn, operands) -> None:
    name, types = eqn.primitive.name, [type_of_array(v) for v in eqn.invars]
    if name in _SLICES:
        size, first = (eqn.params["slice_sizes"], 1) if name == "dynamic_slice" else (types[1].shape, 2)
        for axis, start in enumerate(operands[first:]):
            _require_inside(start, axis, size[axis], types[0].shape)
        return
    if name != "gather" and not name.startswith("scatter") or operands[1] is None:
        return
    places, mode, numbers = operands[1], eqn.params["mode"], eqn.params["dimension_numbers"]
    if name == "gather":
        axes, size, filled = numbers.start_index_map, eqn.params["slice_sizes"], eqn.params["fill_value"]
        asked = mode == GatherScatterMode.FILL_OR_DROP and filled is not None and not np.isnan(filled)
    else:
        axes, inserted, window = (
            numbers.scatter_dims_to_operand_dims,
            numbers.inserted_window_dims,
            iter(types[2].shape[i] for i in numbers.update_window_dims),
        )
        batching = (*inserted, *numbers.operand_batching_dims)
        size = [1 if axis in batching else next(window) for axis in range(types[0].ndim)]
        asked = name != "scatter" and places.size > len(axes)  # sums by numbers of groups drop what has none
    if asked or mode == GatherScatterMode.CLIP and places.size > len(axes):
        return
    for column, axis in enumerate(axes):
        _require_inside(places[..., column], axis, size[axis], types[0].shape)


def _require_inside(places, axis, size, shape) -> None:
    if places is None or not np.size(places):
        return
    lowest, highest = int(np.min(places)), int(np.max(places))
    if lowest >= 0 and highest + size <= shape[axis]:
        return
    which = f"place {highest + size - 1}" if lowest >= 0 else "a place before the first"
    raise SignatureError(
        f"code takes {which} along axis {axis} of an array of shape {shape}, which has 0 to {shape[axis] - 1} "
        "there: JAX would silently use another entry; correct the index."
    )
