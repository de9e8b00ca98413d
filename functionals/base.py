"""What a functional is: terms given by an energy density, plus exact exchange; functionals add and scale.

An energy density is a Function of r built from density Functions by operators and arithmetic. Nothing here knows about
grids, orbitals or molecules.
"""

import functools
import operator
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from numbers import Number, Real
from typing import Annotated, Any

from dftfd.autofd import Function, compose, constant, integrate, vjp, with_quadrature
from dftfd.autofd.lowering import has_integrals
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.densities import (
    EXACT_EXCHANGE,
    Density,
    Quadrature,
    in_words,
    signature_of,
    unknown_densities,
)
from dftfd.functionals.densities import SPACE as SPACE  # own functionals import it from here
from dftfd.functionals.empirical_dispersion import refuse_in_sums
from dftfd.functionals.exchange_ranges import distinct, merged, with_range
from dftfd.functionals.numerics import where_dense
from dftfd.functionals.parameters import (
    in_notebooks,
    multiple,
    name_of,
    place_of,
    plain,
    plain_leaves,
    replaced,
    require_settable,
    varies,
)
from dftfd.runtime.arguments import number, public_raising

KINDS = {"x": "exchange", "c": "correlation", "xc": "exchange-correlation", "k": "kinetic"}
"""Kinds of energy, as names in libxc's manner have them (gga_x_pbe), in words."""


def kind_of_name(name: str) -> str:
    """One of `KINDS`, or "" for a name that does not tell it."""
    found = re.search(r"(?:^|[_:])(x|c|xc|k)(?=_|$)", name)
    return found[1] if found else ""


MOST_FRACTION = 4.0
"""No functional has a larger part of exact exchange or of another: 25 stands for 25 %."""


def require_fraction(what: str, fraction: float) -> None:
    """Raise FunctionalError for a number that can only be percent."""
    if abs(fraction) > MOST_FRACTION:
        percent = f"write {abs(fraction) / 100:g} for percent"
        raise FunctionalError(f"{what}: a fraction expected, {fraction:g} found; {percent}.")


COEFFICIENT = ""
"""Stands for a term's coefficient among the names of its parameters."""

_made: weakref.WeakValueDictionary[str, "EnergyTerm"] = weakref.WeakValueDictionary()


def last_made(name: str) -> "EnergyTerm | None":
    """The last term of this name that was made in this process, registered or not, if it is still there."""
    return _made.get(name)


@dataclass(frozen=True)
class EnergyTerm:
    """One formula for an energy per volume [hartree bohr^-3], with its parameters and source.

    formula: code of the ingredient Functions named in `ingredients` and of keyword parameters.
    has_energy: False for a model potential, see `potential_term`.
    declared_kind: one of `KINDS`, where the name does not tell it.
    set_by_hand: parameters, and COEFFICIENT, that a user gave a value, and may give more: no code is compiled for each.
    """

    name: str
    formula: Callable
    ingredients: tuple[str, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)
    doi: str | None = None
    has_energy: bool = True
    set_by_hand: frozenset[str] = field(default=frozenset(), compare=False)
    declared_kind: str = ""
    is_grid_functional = False

    @classmethod
    def from_formula(cls, formula: Callable, name: str, doi: str | None = None, kind: str = "") -> "EnergyTerm":
        """Ingredients are the positional parameters of `formula`, parameters its keyword-only ones."""
        _made[name] = term = cls(name, formula, *signature_of(formula, name), doi, declared_kind=kind)
        return term

    @property
    def kind(self) -> str:
        """One of `KINDS`, or "" where neither a declaration nor a name in libxc's manner (gga_x_pbe) tells it."""
        return self.declared_kind or kind_of_name(self.name)

    @property
    def needs_tau(self) -> bool:
        return "tau" in self.ingredients

    @property
    def exact_exchange_densities(self) -> tuple[str, ...]:
        """Those of `EXACT_EXCHANGE` that the formula takes."""
        return tuple(name for name in EXACT_EXCHANGE if name in self.ingredients)

    @functools.cached_property
    def is_nonlocal(self) -> bool:
        """True if the formula holds integrals."""
        return has_integrals(self.energy_density(*unknown_densities()))

    @property
    def plain_parameters(self) -> dict:
        """Parameters as numbers and text."""
        return {name: plain(value) for name, value in self.parameters.items()}

    def with_parameters(self, changes: Mapping, by_hand: bool = False) -> "EnergyTerm":
        if varies(changes):
            self.is_nonlocal  # noqa: B018  asked once, of the term that others come from
        return self.with_values({**self.parameters, **changes}, changes if by_hand else ())

    def with_values(self, parameters: Mapping, by_hand: Iterable[str] = ()) -> "EnergyTerm":
        """The term with these; where arrays alone are new, which decide no branch, it has integrals as it had."""
        parameters = replaced(self.parameters, parameters)
        made = replace(self, parameters=parameters, set_by_hand=self.set_by_hand.union(by_hand))
        if "is_nonlocal" in vars(self) and plain_leaves(parameters) <= plain_leaves(self.parameters):
            vars(made)["is_nonlocal"] = self.is_nonlocal
        return made

    def energy_density(self, rho: Function, tau: Function | None = None, *e_x: Function) -> Function:
        """Energy per volume as a Function of r; zero where the density is below the floor of `where_dense`.

        e_x: the exact-exchange energy densities `EXACT_EXCHANGE`, where they are known.
        """
        if self.needs_tau and tau is None:
            raise FunctionalError(
                f"functional {self.name!r} needs the kinetic energy density, but none was given. "
                "Build the density with density_function(..., tau=True)."
            )
        if self.exact_exchange_densities and not e_x:
            raise UnsupportedError(
                f"functional {self.name!r} depends on the exact-exchange energy density, and so on orbitals, not "
                "on a density alone; use it in calculations (dftfd.run_scf)."
            )

        def evaluate(rho):
            given = {"rho": rho, "tau": tau} | dict(zip(EXACT_EXCHANGE, e_x, strict=False))
            given |= {"n": compose(_total, rho)} if "n" in self.ingredients else {}
            return self.formula(*(given[name] for name in self.ingredients), **self.parameters)

        e = evaluate(rho) if getattr(self.formula, "is_guarded", False) else where_dense(evaluate, rho)
        if not isinstance(e, Function) or e.result.shape != ():
            raise FunctionalError(
                f"functional {self.name!r} returned {in_words(e)}; an energy per volume, one number at each r, "
                "expected (sum over components, as in tau[0] + tau[1] or dot(nabla(n), nabla(n)))."
            )
        return e


def _total(rho):
    return rho.sum()


_public = public_raising(FunctionalError)


@dataclass(frozen=True)
class Functional:
    """A sum of energy terms and exact exchange.

    terms: pairs (coefficient, EnergyTerm).
    exact_exchange: pairs (omega, fraction): fraction of exact exchange with the operator 1/r for omega = 0, otherwise
        with its long-range part erf(omega r)/r [1/bohr].
    dispersion: (version, functional with its parameters) of a correction that depends on nuclear positions alone, such
        as ('d3bj', 'pbe'), or None. Calculations add it. Energies of densities exclude it.
    papers: DOIs of the papers of the combination. Its terms have their own. Sums have none.
    pt2: fractions of opposite-spin and same-spin second-order perturbation theory, added after the SCF, or nothing.
    """

    name: str
    terms: tuple[tuple[float, EnergyTerm], ...] = ()
    exact_exchange: tuple[tuple[float, float], ...] = ()
    dispersion: tuple[str, str] | None = None
    papers: tuple[str, ...] = field(default=(), compare=False)
    pt2: tuple[float, ...] = ()
    _repr_html_ = in_notebooks

    @property
    def is_semilocal(self) -> bool:
        """True if there are semilocal terms, those without integrals."""
        return any(not t.is_nonlocal for _, t in self.terms)

    @property
    def is_nonlocal(self) -> bool:
        """True if there are terms with integrals, such as VV10, or grid functionals."""
        return any(t.is_nonlocal for _, t in self.terms)

    @property
    def grid_functionals(self) -> tuple[tuple[float, EnergyTerm], ...]:
        """The grid functionals among the terms (dftfd.functionals.grid_functionals)."""
        return tuple((c, t) for c, t in self.terms if t.is_grid_functional)

    @property
    def double_integral_part(self) -> "Functional":
        """The terms with integrals, without grid functionals."""
        return replace(
            self.nonlocal_part, terms=tuple((c, t) for c, t in self.nonlocal_part.terms if not t.is_grid_functional)
        )

    @property
    def has_energy(self) -> bool:
        """False if a term is a model potential that is not the derivative of an energy, such as TB09.

        Self-consistent orbitals and their energies are then well defined, the total energy and forces are not.
        """
        return all(t.has_energy for _, t in self.terms)

    @property
    def semilocal_part(self) -> "Functional":
        """The terms without integrals."""
        kept = tuple((c, t) for c, t in self.terms if not t.is_nonlocal)
        return replace(self, terms=kept, exact_exchange=(), pt2=())

    @property
    def nonlocal_part(self) -> "Functional":
        """The terms with integrals."""
        kept = tuple((c, t) for c, t in self.terms if t.is_nonlocal)
        return replace(self, terms=kept, exact_exchange=(), pt2=())

    @property
    def needs_tau(self) -> bool:
        return any(t.needs_tau for _, t in self.terms)

    @property
    def exact_exchange_ranges(self) -> tuple[float, ...]:
        """omega [1/bohr] of the exact-exchange energy densities in the terms, 0 for 1/r, in ascending order."""
        of_term = lambda t: [t.parameters["omega"] if name == "e_x_lr" else 0.0 for name in t.exact_exchange_densities]
        return distinct(omega for _, t in self.terms for omega in of_term(t))

    @property
    def ingredients(self) -> frozenset[str]:
        return frozenset(i for _, t in self.terms for i in t.ingredients)

    @property
    def parameters(self) -> dict:
        """Parameters by name. If several terms have a parameter of one name, the value of the last term.

        `with_parameters` sets it in all of these terms, unless they have different values.
        """
        return {k: v for _, t in self.terms for k, v in t.parameters.items()}

    @property
    def definition(self) -> dict:
        """The functional as numbers and text: terms with coefficients and parameters, exact exchange."""
        terms = [
            {
                "name": term.name,
                "coefficient": float(coefficient),
                "parameters": term.plain_parameters,
            }
            for coefficient, term in self.terms
        ]
        definition = {"terms": terms, "exact_exchange": [list(map(float, pair)) for pair in self.exact_exchange]}
        definition |= {"pt2": list(map(float, self.pt2))} if self.pt2 else {}
        return definition if self.dispersion is None else definition | {"dispersion": list(self.dispersion)}

    @property
    def dois(self) -> tuple[str, ...]:
        """The papers to cite: those of the combination first, then those of its terms."""
        return tuple(dict.fromkeys([*self.papers, *(t.doi for _, t in self.terms if t.doi)]))

    @_public
    def energy_density(self, rho: Density, tau: Density | None = None, *e_x: Density) -> Function:
        """Energy per volume [hartree bohr^-3] as a Function of r, without the terms of `exact_exchange`.

        rho: R^3 -> R^2 (alpha, beta).   tau, e_x, e_x_lr: R^3 -> R^2, where the functional needs them.
        """
        if not self.terms:
            return constant(0.0, *rho.domains)
        parts = [(coefficient, term.energy_density(rho, tau, *e_x)) for coefficient, term in self.terms]
        return functools.reduce(operator.add, (e if isinstance(c, Number) and c == 1 else c * e for c, e in parts))

    @_public
    def energy(self, rho: Density, tau: Density | None = None, *, quadrature: Quadrature | None = None) -> Any:
        """Energy [hartree], by the quadrature of the density's domain or the given (points, weights).

        Raises UnsupportedError for model potentials, which have no energy.
        """
        if not self.has_energy:
            without = ", ".join(repr(t.name) for _, t in self.terms if not t.has_energy)
            raise UnsupportedError(f"{without} is a model potential; it has no energy.")
        e = self.energy_density(rho, tau)
        return integrate(e if quadrature is None else with_quadrature(e, *quadrature), quadrature=quadrature)

    @_public
    def potential(self, rho: Density, tau: Density | None = None, *, quadrature: Quadrature | None = None) -> Any:
        """Strong form of the derivative: v_rho [hartree], a Function R^3 -> R^2; with tau the pair (v_rho, v_tau).

        v_rho = dE/d rho. With tau the Kohn-Sham operator is v_rho - 1/2 div(v_tau grad).
        quadrature: (points, weights) for the integrals of nonlocal terms, unless the density's domain has its own.
        """
        given = (rho, tau) if self.needs_tau else (rho,)
        e, pull = vjp(self.energy_density, *given)
        parts = pull(constant(1.0, *e.domains))
        if quadrature is not None:
            parts = tuple(with_quadrature(v, *quadrature) for v in parts)
        return parts if self.needs_tau else parts[0]

    @_public
    def named(self, name: str) -> "Functional":
        return replace(self, name=name)

    def settled(self) -> "Functional":
        """The functional with constant coefficients, which are compiled into kernels, as those of the library."""
        return replace(self, terms=tuple((c, replace(t, set_by_hand=frozenset())) for c, t in self.terms))

    def workbench(self, other: Any = None) -> Any:
        """A page that evaluates this functional, or two, while sliders move their parameters; see `dftfd.workbench`."""
        return sys.modules["dftfd"].workbench(self, other)  # a public name, loaded when it is asked for

    @_public
    def with_parameters(self, /, **changes: Any) -> "Functional":
        """The functional with other parameter values, as in with_parameters(kappa=1.245).

        The name of a term may precede that of the parameter: **{"lyp.a": 0.05}. Raises FunctionalError for unknown
        names, values of another shape, a name with different values in several terms, and ambiguous names of a hybrid's
        term, such as a and alpha, which could mean its exact exchange.
        """
        if not changes:
            return self
        own: dict[int, dict] = {id(t): {} for _, t in self.terms}
        for given, value in changes.items():
            name, chosen = place_of(self.name, [t for _, t in self.terms], self.exact_exchange, given)
            require_settable(self.name, chosen, name, value)
            for t in chosen:
                own[id(t)][name] = value
        terms = tuple((c, t.with_parameters(own[id(t)], by_hand=True)) for c, t in self.terms)
        exchange = self.exact_exchange
        if "omega" in changes:  # follows that of the semilocal exchange that complements it
            exchange = with_range(self.name, self.terms, exchange, changes["omega"])
        return replace(self, name=name_of(self.name, changes), terms=terms, exact_exchange=exchange)

    @_public
    def with_exact_exchange(self, fraction: float) -> "Functional":
        """The global hybrid with another fraction a of exact exchange, a E_x^HF + (1 - a) E_x + E_c.

        Semilocal exchange is scaled as a whole, so a functional without exact exchange becomes a hybrid. Raises
        FunctionalError if the two do not add up to one, as in hybrids that were fitted together with their formula.
        """
        require_fraction(f"functional {self.name!r}, exact_exchange={fraction:g}", fraction)
        is_exchange = lambda t: t.kind == "x"
        (old,) = [c for w, c in self.exact_exchange if w == 0] or [0.0]
        exchange = [c for c, t in self.terms if is_exchange(t)]
        if any(w for w, _ in self.exact_exchange) or not exchange or abs(sum(exchange) + old - 1) > 1e-12 or old == 1:
            raise FunctionalError(
                f"functional {self.name!r} is not a sum of a times exact exchange, 1 - a times semilocal exchange "
                "and correlation, so its fraction can't be changed; write the sum out, as in '0.3*HF + 0.7*PBE, "
                "PBE'."
            )
        scale = (1 - fraction) / (1 - old)
        terms = tuple(row for c, t in self.terms for row in _scaled(((c, t),), scale if is_exchange(t) else 1))
        pairs = ((0.0, float(fraction)),) if fraction else ()
        return replace(self, name=f"{self.name}(exact_exchange={fraction})", terms=terms, exact_exchange=pairs)

    def __add__(self, other: "Functional") -> "Functional":
        if not isinstance(other, Functional):
            return NotImplemented
        refuse_in_sums(self, other)
        return Functional(
            f"{self.name} + {other.name}",
            self.terms + other.terms,
            merged(self.exact_exchange + other.exact_exchange),
            pt2=tuple(map(sum, zip_longest(self.pt2, other.pt2, fillvalue=0.0))),
        )

    def __sub__(self, other: "Functional") -> "Functional":
        return self + (-1) * other

    def __mul__(self, factor: Any) -> "Functional":
        if isinstance(factor, Functional | str) or not (isinstance(factor, Number) or hasattr(factor, "dtype")):
            return NotImplemented
        refuse_in_sums(self)
        return Functional(
            multiple(factor, self.name, len(self.terms)),
            _scaled(self.terms, factor),
            tuple((omega, factor * fraction) for omega, fraction in self.exact_exchange),
            pt2=tuple(factor * fraction for fraction in self.pt2),
        )

    __rmul__ = __mul__

    def __neg__(self) -> "Functional":
        return (-1) * self

    def __repr__(self) -> str:
        return f"Functional({self.name})"


def _scaled(terms, factor):
    """Terms with coefficients that are set by hand, unless they stay what they are but for a sign."""
    by_hand = () if isinstance(factor, Real) and abs(factor) == 1 else (COEFFICIENT,)
    return tuple((factor * c, t.with_values(t.parameters, by_hand) if by_hand else t) for c, t in terms)


exact_exchange = Functional("hf", exact_exchange=((0.0, 1.0),))
"""Exact (Hartree-Fock) exchange with the operator 1/r."""


@_public
def long_range_exchange(omega: Annotated[float, number(lambda w: w > 0, "a number, omega > 0 [1/bohr]")]) -> Functional:
    """Exact exchange with the operator erf(omega r)/r, omega in 1/bohr."""
    return Functional(f"lr_hf({omega})", exact_exchange=((omega, 1.0),))
