"""Numbers of a functional as operands of compiled code, so that other values compile nothing.

Kernels hold the numbers of a functional as constants, from which simplification and XLA make the shortest code. Code
takes when it runs: the values of parameters and coefficients that a user set, and will set again (`set_by_hand`), as
far as the formulas let it; and all arrays of a functional that is fitted or differentiated (`arrays_of`). Constants
stay what decides about the code itself: exponents, integers, zeros, and whatever a formula looks at in Python.

`code_with_operands` is the one way by which kernels come to such code.
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jax.tree_util import tree_flatten, tree_leaves, tree_unflatten

from dftfd.autofd.core.structure import structural_key
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.pytree import owners
from dftfd.xc.code import apart, kept

MOST = 64
"""Numbers set by hand that code takes as operands; a functional with more of them is a network, or like one."""

MOST_IN_ARRAYS = 400
"""Numbers in arrays that are scalars of one program; twice as many compile for minutes."""

_SAMPLES = 64  # points where code with operands is compared with that of the constants


class Operand(NamedTuple):
    """A leaf of a functional as a pytree, with its value; owner: (term, parameter) that it belongs to."""

    leaf: int
    owner: tuple[int | None, str]
    value: Any


T = TypeVar("T")
Trace = Callable[[tuple[Operand, ...]], ScalarProgram]


def set_by_hand(functional: Functional) -> tuple[Operand, ...]:
    """The numbers set by hand that code may take as operands."""
    by_hand = {(place, name) for place, (_, term) in enumerate(functional.terms) for name in term.set_by_hand}
    found = [
        Operand(k, owner, float(x))
        for k, (owner, x) in enumerate(zip(owners(functional), tree_leaves(functional), strict=True))
        if owner in by_hand and isinstance(x, Real) and math.isfinite(x) and x != 0
    ]
    return tuple(found) if len(found) <= MOST else ()


def arrays_of(functional: Functional) -> tuple[Operand, ...]:
    """The arrays of a functional, which code takes whatever they hold. UnsupportedError where they are too large."""
    places = zip(owners(functional), tree_leaves(functional), strict=True)
    found = tuple(Operand(k, owner, x) for k, (owner, x) in enumerate(places) if not isinstance(x, Real))
    count = sum(np.size(operand.value) for operand in found)
    if count > MOST_IN_ARRAYS:
        raise UnsupportedError(
            f"a functional with {count} numbers that vary; at most {MOST_IN_ARRAYS} are served: hold others fixed as "
            "plain numbers, or train a large network on densities with dftfd.energy."
        )
    return found


def with_values(functional: Functional, operands, values) -> Functional:
    """The functional with others, traced or not, in the places of operands."""
    leaves, structure = tree_flatten(functional)
    for operand, value in zip(operands, values, strict=True):
        leaves[operand.leaf] = value
    return tree_unflatten(structure, leaves)


def code_with_operands(
    kind: tuple,
    functional: Functional,
    trace: Trace,
    make: Callable[[tuple[Operand, ...], Trace], T],
    operands: tuple[Operand, ...] | None = None,
) -> tuple[T, tuple[Operand, ...]]:
    """(what `make` gives, operands): made once for functionals that differ by the values of operands alone.

    kind: of the kernel.   trace: the program of given operands, its last inputs; `make` gets it with a memory.
    operands: all of these; None: of the numbers set by hand those that the formulas can take.
    """
    trace = _remembered(trace)
    key = lambda what, some: (*kind, what, key_without_values(functional, some))
    if operands is None and (by_hand := set_by_hand(functional)):

        def choice():
            taken = accepted(by_hand, trace)
            if taken:
                kept(key("code", taken), make, taken, trace)
            return taken

        places = {operand.leaf for operand in kept(key("choice", by_hand), choice)}
        operands = tuple(o for o in by_hand if o.leaf in places)  # with these values: others may have made the choice
    if not operands:
        return apart(make, (), trace), ()
    return kept(key("code", operands), make, operands, trace), operands


def _remembered(trace: Trace) -> Trace:
    """The same, each program made once; operands differ by their leaves, their values may be arrays."""
    made: dict = {}

    def remembered(operands):
        leaves = tuple(operand.leaf for operand in operands)
        if leaves not in made:
            made[leaves] = trace(operands)
        return made[leaves]

    return remembered


def values_of(operands: tuple[Operand, ...]) -> np.ndarray:
    """All numbers of operands, in their order."""
    return np.concatenate([np.ravel(operand.value) for operand in operands]) if operands else np.zeros(0)


def key_without_values(functional: Functional, operands):
    """Equal for functionals that differ by the values of their operands alone."""
    same = with_values(functional, operands, [f"operand of shape {np.shape(o.value)}" for o in operands])
    terms = [(t.formula, t.ingredients, sorted(t.parameters.items())) for _, t in same.terms]
    coefficients = [c if isinstance(c, str) else float(c) for c, _ in same.terms]
    return structural_key([coefficients, terms, [operand.leaf for operand in operands]])


def accepted(operands: tuple[Operand, ...], trace: Trace) -> tuple[Operand, ...]:
    """Those of the operands that the formulas take; what they do not take together they are asked for one by one."""
    try:
        constants = trace(())
    except UnsupportedError:  # no scalar form, in which it could be seen
        return ()
    taken = _taken(constants, operands, trace)
    if taken is None:
        parameters = [
            tuple(o for o in operands if o.owner == owner) for owner in dict.fromkeys(o.owner for o in operands)
        ]
        taken = tuple(o for alone in parameters for o in _taken(constants, alone, trace) or ())
        taken = _taken(constants, taken, trace) or ()
    return taken


def _taken(constants, operands, trace) -> tuple[Operand, ...] | None:
    """Those of the operands that are in no exponent; None where a formula does not take them, or looks at their values,
    so that another energy comes out than that of the constants.
    """
    try:
        program = trace(operands)
    except Exception:  # a formula may do anything with a number that it cannot do with one that is traced
        return None
    if not _agree(program, constants, [operand.value for operand in operands]):
        return None
    in_exponents = exponents(program, range(constants.n_inputs, program.n_inputs))
    return tuple(o for k, o in enumerate(operands, constants.n_inputs) if k not in in_exponents)


def exponents(program: ScalarProgram, positions: range) -> set[int]:
    """Inputs among `positions` on which the exponent of a power depends."""
    on = dict[int, frozenset[int]]()
    found = set[int]()
    for i in program.needed:
        node = program.nodes[i]
        if node.op == "input":
            on[i] = frozenset({node.value} & set(positions))
        else:
            on[i] = frozenset().union(*(on[a] for a in node.args))
        if node.op == "pow":
            found |= on[node.args[1]]
    return found


def _agree(program, constants, values) -> bool:
    """Whether both give the same at random inputs, to rounding."""
    rng = np.random.default_rng(0)
    x = list(np.exp(rng.normal(size=(constants.n_inputs, _SAMPLES))))
    with np.errstate(all="ignore"):
        a = run_on_numpy(program, [*x, *(np.full(_SAMPLES, value) for value in values)])
        b = run_on_numpy(constants, x)
    return len(a) == len(b) and bool(np.allclose(a, b, rtol=1e-10, atol=0, equal_nan=True))
