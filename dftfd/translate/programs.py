"""What is exported of a functional: scalar programs of its energy and derivatives, with its parameters as inputs.

Parameters that are real numbers may be changed when the exported code runs. Those stay as they are that decide about
the code itself, exponents for instance, and the arrays of networks.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real

import jax
import numpy as np
from jax.tree_util import tree_flatten, tree_unflatten

from dftfd.autofd.scalar.derive import (
    restricted,
    retraced,
    with_all_derivatives,
    with_forward_derivative,
    with_gradient,
)
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.errors import DftfdError
from dftfd.functionals.base import Functional
from dftfd.functionals.parameters import are_equal
from dftfd.translate.on_c import CUBE_ROOT
from dftfd.xc.channels import VARIABLES, family_of
from dftfd.xc.code import place_of
from dftfd.xc.operands import exponents
from dftfd.xc.pointwise import scalar_form

KEEP = frozenset([CUBE_ROOT])

WRITTEN_OUT = 2
"""Order up to which code holds each derivative. Above it follows directions, one after the other."""


@dataclass(frozen=True)
class Parameter:
    """A number, or a list of numbers, of one or several terms of a functional.

    places: the terms that hold it under `key`.
    """

    name: str
    key: str
    values: tuple[float, ...]
    is_list: bool
    places: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """Where a derivative comes out: output `row` of the program, with unit seeds along the variables `seeds`."""

    derivative: tuple[int, ...]
    row: int
    seeds: tuple[int, ...]


class SpinPrograms:
    """Programs of a functional of one or two spins, `program(order)`: inputs are the variables `used`, the parameters,
    and seeds."""

    def __init__(self, functional: Functional, n_spin: int, parameters: tuple[Parameter, ...]):
        self.n_spin, self.parameters = n_spin, parameters
        count = sum(len(p.values) for p in parameters)
        form = scalar_form(functional, n_spin, count, lambda numbers: with_numbers(functional, parameters, numbers))
        n_variables = len(VARIABLES[n_spin])
        self.used = tuple(k for k in range(n_variables) if form.depends_on({k})) or (0,)
        self._energy = restricted(form, (*self.used, *range(n_variables, n_variables + count)))
        self.program = cache(self._build)
        self._open = cache(self._derive)

    @property
    def n(self) -> int:
        return len(self.used)

    @property
    def families(self) -> tuple[str, ...]:
        """Names among rho, sigma, lapl, tau that the energy depends on."""
        return tuple(dict.fromkeys(family_of(k, self.n_spin) for k in self.used))

    def _build(self, order: int) -> ScalarProgram:
        """Outputs: energy, gradient, second derivatives (i, j), i <= j; above, gradients along more and more seeds."""
        if order == 0:
            return retraced(self._energy, inline=True, keep=KEEP)
        if order == 1:
            return with_gradient(self._energy, count=self.n, inline=True, keep=KEEP)
        if order == WRITTEN_OUT:
            program = with_all_derivatives(self._open(1), self.n, inline=True, keep=KEEP)
            second = [1 + self.n * (1 + j) + i for i, j in itertools.combinations_with_replacement(range(self.n), 2)]
            return replace(program, outputs=tuple(program.outputs[k] for k in (*range(1 + self.n), *second)))
        program = with_forward_derivative(self._open(order - 1), self.n, inline=True, keep=KEEP)
        return replace(program, outputs=tuple(program.outputs[k] for k in self._outputs(order)))

    def along(self, levels: int) -> ScalarProgram:
        """Outputs: energy, gradient, then for each level a seed for each variable used, and behind what is there its
        derivative along them, energy apart: slopes, along 1; along 2, along 1 and 2."""
        return with_forward_derivative(self._open(levels), self.n, inline=True, keep=KEEP)

    def _derive(self, order) -> ScalarProgram:
        """The gradient's derivatives along seeds, with functions that have derivative rules still whole."""
        if order == 1:
            return with_gradient(self._energy, count=self.n, keep=KEEP)
        return with_forward_derivative(self._open(order - 1), self.n, inline=False, keep=KEEP)

    def _outputs(self, order) -> list[int]:
        """What is needed of the outputs of a program with seeds: derivatives along the first seeds alone."""
        return [0, *(1 + self.n * ((1 << k) - 1) + i for k in range(order) for i in range(self.n))]

    def rows(self, order: int) -> list[Row]:
        """All derivatives up to an order in the outputs of its program; derivatives are positions in VARIABLES."""
        rows: list[Row] = []
        for k in range(order + 1):
            for which in itertools.combinations_with_replacement(range(self.n), k):
                row, seeds = len(rows), tuple[int, ...]()
                if order > WRITTEN_OUT:
                    output, seeds = place_of(which, order, self.n)
                    row = self._outputs(order).index(output)
                rows.append(Row(tuple(self.used[i] for i in which), row, seeds))
        return rows


def with_numbers(functional: Functional, parameters: Iterable[Parameter], numbers) -> Functional:
    """The functional with numbers, traced or not, in place of those of the parameters."""
    numbers, terms = iter(numbers), list(functional.terms)
    for parameter in parameters:
        values = list(itertools.islice(numbers, len(parameter.values)))
        for place in parameter.places:
            coefficient, term = terms[place]
            structure = tree_flatten(term.parameters[parameter.key])[1]
            terms[place] = coefficient, term.with_parameters({parameter.key: tree_unflatten(structure, values)})
    return replace(functional, terms=tuple(terms))


def changeable_parameters(functional: Functional) -> tuple[Parameter, ...]:
    """The parameters with which the functional's energy can be written as code of their values.

    One after the other is left out, from the first, where the formulas do not take them all together.
    """
    candidates = tuple(_candidates(functional))
    if _is_code_of(functional, candidates):
        return candidates
    return tuple(p for p in candidates if _is_code_of(functional, (p,)))


def _candidates(functional):
    """Numbers and tuples of numbers; one name for terms that hold the same values, else one for each."""
    holders: dict[str, list[int]] = {}
    for place, (_, term) in enumerate(functional.terms):
        for key, value in term.parameters.items():
            if _is_of_numbers(value):
                holders.setdefault(key, []).append(place)
    names: set[str] = set()
    for key, places in holders.items():
        values = [functional.terms[place][1].parameters[key] for place in places]
        together = all(are_equal(values[0], value) for value in values)
        apart = [((place,), value) for place, value in zip(places, values, strict=True)]
        for group, value in [(tuple(places), values[0])] if together else apart:
            name = key if together else f"{functional.terms[group[0]][1].name}_{key}"
            while (name := identifier(name)).lower() in names:  # Fortran knows no case
                name += "_2"
            names.add(name.lower())
            leaves = tuple(map(float, tree_flatten(value)[0]))
            yield Parameter(name, key, leaves, not isinstance(value, Real), group)


def _is_of_numbers(value) -> bool:
    leaves = jax.tree_util.tree_leaves(value)
    is_real = lambda x: isinstance(x, Real | np.floating) and not isinstance(x, bool | int)
    return bool(leaves) and isinstance(value, Real | tuple | list) and all(map(is_real, leaves))


def _is_code_of(functional, parameters) -> bool:
    """Whether the energy can be written with these parameters as inputs, none of which is an exponent."""
    count = sum(len(p.values) for p in parameters)
    try:
        form = scalar_form(functional, 2, count, lambda numbers: with_numbers(functional, parameters, numbers))
    except (DftfdError, TypeError, ValueError, jax.errors.JAXTypeError):
        return False
    return not exponents(form, range(len(VARIABLES[2]), form.n_inputs))


_LONGEST_NAME = 48
"""Characters; Fortran allows 63, endings included."""

_RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while class new
    delete this template typename operator private public protected namespace using try catch throw friend virtual
    bool true false and or not xor export explicit mutable""".split()
)


def identifier(name: str) -> str:
    """A name as C, C++ and Fortran take it."""
    text = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "functional"
    if len(text) > _LONGEST_NAME:
        text = f"{text[: _LONGEST_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    text = text if text[0].isalpha() else f"f_{text}"
    return f"{text}_" if text.lower() in _RESERVED else text
