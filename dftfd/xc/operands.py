"""Parameters that were set by hand as operands of compiled code, so that another value compiles nothing.

Kernels hold the numbers of a functional as constants, from which simplification and XLA make the shortest code. Of
parameters that a user sets, and will set again, the code takes the values when it runs. Constants stay what decides
about the code itself: exponents, integers, zeros, networks, and whatever a formula looks at in Python.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from numbers import Real
from typing import NamedTuple

import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from dftfd.autofd.core.structure import structural_key
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.functionals.base import Functional

MOST = 64
"""Numbers that code takes as operands; a functional with more of them is a network, or like one."""

_SAMPLES = 64  # points where code with operands is compared with that of the constants


class Operand(NamedTuple):
    """A number of a functional: entry `leaf` of a parameter of a term, with its value."""

    term: int
    parameter: str
    leaf: int
    value: float


def operands_of(functional: Functional) -> tuple[Operand, ...]:
    """The numbers set by hand that code may take as operands."""
    found = [
        Operand(place, name, k, float(x))
        for place, (_, term) in enumerate(functional.terms)
        for name in sorted(term.set_by_hand)
        for k, x in enumerate(tree_flatten(term.parameters[name])[0])
        if isinstance(x, Real) and not isinstance(x, int) and np.isfinite(x) and x != 0
    ]
    return tuple(found) if len(found) <= MOST else ()


def with_values(functional: Functional, operands, values) -> Functional:
    """The functional with other numbers, traced or not, in the places of operands."""
    terms = list(functional.terms)
    for operand, value in zip(operands, values, strict=True):
        coefficient, term = terms[operand.term]
        leaves, structure = tree_flatten(term.parameters[operand.parameter])
        leaves[operand.leaf] = value
        terms[operand.term] = coefficient, term.with_parameters({operand.parameter: tree_unflatten(structure, leaves)})
    return replace(functional, terms=tuple(terms))


def key_without_values(functional: Functional, operands):
    """Equal for functionals that differ by the values of their operands alone."""
    same = with_values(functional, operands, [structural_key] * len(operands))
    terms = [(float(c), t.formula, t.ingredients, sorted(t.parameters.items())) for c, t in same.terms]
    return structural_key([terms, [operand[:3] for operand in operands]])


def program_of_operands(
    operands: tuple[Operand, ...], trace: Callable[[tuple[Operand, ...]], ScalarProgram]
) -> tuple[ScalarProgram, tuple[Operand, ...]]:
    """(program, those of the operands that are its last inputs).

    trace: the program of these operands. What the formulas do not take together they are asked for one by one.
    """
    trace = cache(trace)
    constants = trace(())
    parameters = [tuple(o for o in operands if o[:2] == key) for key in dict.fromkeys(o[:2] for o in operands)]
    taken = _taken(constants, operands, trace)
    if taken is None:
        taken = tuple(o for alone in parameters for o in _taken(constants, alone, trace) or ())
        taken = _taken(constants, taken, trace) or ()
    return trace(taken) if taken else constants, taken


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
    """Whether both give the same energy at random inputs, to rounding."""
    rng = np.random.default_rng(0)
    x = list(np.exp(rng.normal(size=(constants.n_inputs, _SAMPLES))))
    with np.errstate(all="ignore"):
        a = run_on_numpy(program, [*x, *(np.full(_SAMPLES, value) for value in values)])[0]
        b = run_on_numpy(constants, x)[0]
    return bool(np.allclose(a, b, rtol=1e-10, atol=0, equal_nan=True))
