"""Energies per volume as SymPy expressions and LaTeX, in libxc's variables and the parameters' own names.

What keeps low densities harmless (docs/floors.md) is left out: the expression is the formula where the density is not
next to nothing.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from dftfd.autofd.scalar.on_objects import SympyAlgebra, require_sympy
from dftfd.autofd.scalar.program import evaluate
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.numerics import DENSITY_FLOOR, POLARISATION_FLOOR, ROOT_FLOOR, SPIN_FLOOR
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import public, whole
from dftfd.translate.programs import Parameter, changeable_parameters, with_numbers
from dftfd.xc.channels import FAMILIES, MEMBERS, VARIABLES
from dftfd.xc.pointwise import scalar_form

FLOORS = (DENSITY_FLOOR, SPIN_FLOOR, POLARISATION_FLOOR, ROOT_FLOOR)
_HIGHEST_FLOOR = max(FLOORS)

NAMES = {"rho": "n", "sigma": "sigma", "lapl": "l", "tau": "tau"}


@dataclass(frozen=True)
class SympyTerm:
    """One term: name, coefficient, energy per volume [hartree bohr^-3] as a SymPy expression, parameters' values."""

    name: str
    coefficient: float
    expression: Any
    parameters: tuple[Parameter, ...]

    @property
    def latex(self) -> str:
        """e_NAME = ..., and what the parameters are, as LaTeX."""
        s = require_sympy()
        name = self.name.replace("_", r"\_")
        lines = [rf"e_\mathrm{{{name}}} = {s.latex(self.expression)}"]
        for p in self.parameters:
            symbols = [s.latex(symbol) for symbol in _symbols(p)]
            lines += [f"{symbol} = {value!r}" for symbol, value in zip(symbols, p.values, strict=True)]
        return "\n".join(lines)


@public
def to_sympy(functional: Any, n_spin: Annotated[int, whole(1, 2)] = 1) -> list[SympyTerm]:
    """The semilocal terms as expressions of n, sigma, l (Laplacian) and tau, of one or of two spins.

    functional: name, expression or Functional. MissingDependencyError without SymPy; UnsupportedError for operations
    that have no symbol.
    """
    functional = functional if isinstance(functional, Functional) else get_functional(functional)
    if not functional.has_energy:
        raise UnsupportedError(f"{functional.name!r} is a model potential, which has no energy.")
    return [_term(functional, c, t, n_spin) for c, t in functional.semilocal_part.terms]


def _term(functional, coefficient, term, n_spin) -> SympyTerm:
    alone = Functional(term.name, ((1.0, term),))
    parameters = changeable_parameters(alone)
    count = sum(len(p.values) for p in parameters)
    form = scalar_form(alone, n_spin, count, lambda numbers: with_numbers(alone, parameters, numbers))
    variables = [_variable(k, n_spin) for k in range(len(VARIABLES[n_spin]))]
    (expression,) = evaluate(form, _Dense(), [*variables, *(x for p in parameters for x in _symbols(p))])
    return SympyTerm(term.name, float(coefficient), expression, parameters)


def _variable(k: int, n_spin: int):
    """Of one family; densities, gradients squared and tau are positive."""
    s, family = require_sympy(), next(f for f in FAMILIES if k in MEMBERS[n_spin][f])
    name = VARIABLES[n_spin][k].replace(family, NAMES[family], 1)
    positive = family in ("rho", "tau") or (family == "sigma" and not name.endswith("_ab"))
    return s.Symbol(name, positive=True) if positive else s.Symbol(name, real=True)


def _symbols(parameter: Parameter) -> list:
    s, count = require_sympy(), len(parameter.values)
    names = [f"{parameter.name}_{k}" for k in range(count)] if parameter.is_list else [parameter.name]
    return [s.Symbol(name, real=True) for name in names]


class _Dense(SympyAlgebra):
    """Comparisons with what is next to nothing come out as for a density that is something."""

    def __init__(self):
        super().__init__()
        s = self.sympy
        for name, relation in (("gt", s.Gt), ("ge", s.Ge), ("lt", s.Lt), ("le", s.Le)):
            self.functions[name] = lambda a, b, relation=relation: self._compared(a, b, relation)

    def _compared(self, a, b, relation):
        floor = b.is_number and a.free_symbols and abs(float(b)) <= _HIGHEST_FLOOR
        return relation(1, 0) if floor else relation(a, b)
