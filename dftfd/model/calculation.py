"""One calculation: molecule, functional and surroundings as a list of terms of the energy, within a limit of memory.

A cheaper energy has a coarse grid, no double integrals, or fitted integrals. It finds starts of an SCF and first
vectors of a response, which the whole energy then corrects.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dftfd.errors import InputError, shown
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.exchange_ranges import with_plain_ranges
from dftfd.functionals.registry import get_functional
from dftfd.model.input_warnings import may_have_several_states
from dftfd.model.kohn_sham import KohnSham
from dftfd.model.option_values import method_for
from dftfd.model.options import Options
from dftfd.runtime.chosen_terms import ChosenTerm
from dftfd.runtime.memory import Need, memory_budget, memory_plan
from dftfd.runtime.threads import threads_for_matrices
from dftfd.scf.orbitals import Aufbau, GivenOccupations, Occupier, Smearing, canonical_orthonormaliser
from dftfd.scf.problem import Problem
from dftfd.system.molecule import Molecule
from dftfd.terms import (
    COMPONENTS,
    CoulombExchangeEnergy,
    DispersionEnergy,
    DoubleIntegralEnergy,
    ExternalEnergy,
    GridFunctionalEnergy,
    LocalHybridEnergy,
    NuclearEnergy,
    OneElectronEnergy,
    SemilocalEnergy,
    SolventEnergy,
    Term,
)
from dftfd.terms.double_integral import suitable_level
from dftfd.terms.fitted_integrals import DensityFittedCoulombExchange, DeviceCoulombExchange
from dftfd.terms.integrals import CoulombExchange, ExactCoulombExchange, OneElectron
from dftfd.terms.on_grid import GridOrbitals, Quadrature, quadrature_grid
from dftfd.terms.one_electron import Surroundings, surroundings_for
from dftfd.xc.channels import ao_order
from dftfd.xc.device import accelerated_devices

COARSE_LEVEL = 0

EXCHANGE_CORRELATION = (SemilocalEnergy, GridFunctionalEnergy, DoubleIntegralEnergy)
"""Terms that are made for a number of spins."""

_INTEGRALS = "of which a calculation needs the number for its integrals"

HEAVY_ATOMS = 4
"""From this number on a coarse grid saves more cycles on the fine one than it costs to build."""


@dataclass(frozen=True, eq=False)
class Calculation:
    """Checked options that define the energy as a functional of the density matrix; `build` computes what it needs.

    method: 'RKS', 'UKS' or 'ROKS'.   nlc_level: of the grid of double integrals.
    max_memory: limit of the process as in `runtime.memory.memory_budget`, for the SCF and all that follows from it.
    terms: of the user, beside those of dftfd.   auxiliary_basis: name of the fitting functions, or None.
    """

    molecule: Molecule
    functional: Functional
    method: str
    grid: Quadrature
    nlc_level: int
    density_fit: bool
    linear_dependence: float
    surroundings: Surroundings
    max_memory: Any = None
    terms: tuple[ChosenTerm, ...] = ()
    auxiliary_basis: str | None = None

    @classmethod
    def of(cls, molecule: Molecule, options: Options) -> "Calculation":
        """The calculation that options ask for; InputError for what does not suit the molecule."""
        functional, nlc_level = with_plain_ranges(get_functional(options.xc), _INTEGRALS), options.nlc_grid_level
        found = cls(
            molecule=molecule,
            functional=functional,
            method=method_for(options.method, molecule.spin),
            grid=Quadrature(options.grid_level) if options.grid is None else Quadrature(None, options.grid),
            nlc_level=suitable_level(functional) if nlc_level is None else nlc_level,
            density_fit=options.density_fit,
            auxiliary_basis=options.auxiliary_basis,
            linear_dependence=options.linear_dependence,
            surroundings=surroundings_for(
                molecule,
                options.electric_field,
                options.point_charges,
                options.relativity,
                options.external_potential,
                options.solvent,
                options.solvent_model,
            ),
            max_memory=options.max_memory,
            terms=options.terms,
        )
        supports.require_wanted(functional, found.features(options))
        return found

    def features(self, options: Options) -> frozenset[str]:
        """What dftfd.functionals.supports knows of the calculation, and of how its orbitals are filled."""
        surroundings = self.surroundings
        there = {
            self.method: True,
            "smearing": options.smearing is not None,
            "occupations": options.occupations is not None,
            "given grid": not self.grid.moves,
            "core potentials": any(ecp is not None for ecp in self.molecule.atom_ecp),
            "relativity": surroundings.relativity is not None,
            "electric field": bool(np.any(surroundings.electric_field)),
            "point charges": bool(len(surroundings.charges)),
            "external potential": surroundings.potential is not None,
            "solvent": surroundings.solvent is not None,
        }
        return frozenset(name for name, is_there in there.items() if is_there)

    @property
    def n_spin(self) -> int:
        """Number of density matrices."""
        return 1 if self.method == "RKS" else 2

    @property
    def capacity(self) -> int:
        """Electrons that one orbital of one spin can hold."""
        return 3 - self.n_spin

    @property
    def n_occupied(self) -> tuple[int, ...]:
        """Occupied orbitals per spin."""
        return (self.molecule.n_alpha, self.molecule.n_beta)[: self.n_spin]

    def occupier(self, options: Options) -> Occupier:
        """The rule for occupation numbers that options ask for, but for orbitals that are to be followed."""
        if options.occupations is not None:
            return GivenOccupations(options.occupations)
        if options.smearing is not None:
            return self.smearing(*options.smearing)
        return Aufbau(self.n_occupied, self.capacity)

    def smearing(self, kind: str, width: float) -> Smearing:
        """Smeared occupations of a kind and width [hartree]."""
        return Smearing(tuple(self.capacity * n for n in self.n_occupied), self.capacity, width, kind)

    @property
    def is_large(self) -> bool:
        """Whether a coarse grid saves more cycles on the fine one than it costs to build."""
        heavy = sum(charge > 2 for charge in self.molecule.atomic_numbers)
        return heavy >= HEAVY_ATOMS and self.density_fit and self._has_more_points

    @property
    def _has_more_points(self) -> bool:
        return self.grid.finer_than(COARSE_LEVEL + 1, self.molecule)

    @property
    def has_finer_grid(self) -> bool:
        """Whether the grid has a level, and more points than a coarse one."""
        return self.grid.moves and self._has_more_points

    @property
    def rehearses(self) -> bool:
        """Whether one exact matrix may be enough, after those of a coarse grid and one that is nearly exact."""
        functional = self.functional
        local = functional.is_semilocal and not functional.semilocal_part.exact_exchange_ranges
        whole = local and not functional.double_integral_part.terms and not functional.grid_functionals
        return (
            bool(whole)
            and self.is_large
            and not may_have_several_states(self)
            and accelerated_devices(self.molecule.n_ao) is None
        )

    def unrestricted(self) -> "Calculation":
        """The same energy for different orbitals of both spins."""
        return replace(self, method="UKS")

    def nlc_grid(self):
        """(points, weights) for the integrals of a nonlocal functional's potential; None for a semilocal one."""
        return quadrature_grid(self.molecule, self.nlc_level) if self.functional.double_integral_part.terms else None

    def energy(self, progress) -> KohnSham:
        """The terms of the energy, which compute what they need when they are first asked.

        The memory that they take is told, as by `build`. ResourceError beyond its limit.
        """
        return self._planned(progress)[0]

    def energy_once(self, progress, chosen=None) -> KohnSham:
        """Those terms of `energy` whose numbers are in `chosen`, or all, for one evaluation: they keep no orbitals on
        grids, and no memory is asked for."""
        orbitals = GridOrbitals(self.molecule, progress)
        terms = self._terms(orbitals, memory_budget(self.max_memory), progress)
        return KohnSham(tuple(term for number, term in enumerate(terms) if chosen is None or number in chosen))

    def build(self, progress) -> "Ingredients":
        """The terms of the energy with their integrals, grids and orbitals."""
        energy, orbitals = self._planned(progress)
        with progress.stage("integrals"):
            matrices = energy.of_kind(OneElectronEnergy).matrices
            with threads_for_matrices(len(matrices.S)):
                X = canonical_orthonormaliser(matrices.S, self.linear_dependence)
        for term in energy.terms:
            term.prepare(progress)
        return Ingredients(self, energy, matrices, X, orbitals)

    def _planned(self, progress) -> tuple[KohnSham, GridOrbitals]:
        """The terms, and the orbitals on their grids, told how much memory they may keep."""
        budget = memory_budget(self.max_memory)
        orbitals = GridOrbitals(self.molecule, progress, rare=self.rehearses)
        terms = tuple(self._terms(orbitals, budget, progress))
        coarse = self._coarse_orbitals(KohnSham(terms), progress)
        of_coarse = Need(flexible={"orbitals on a coarse grid": coarse} if coarse else {})
        needs = [*(term.memory() for term in terms), of_coarse, orbitals.memory()]
        plan = memory_plan(self.molecule.n_ao, self.n_spin, needs, budget)
        progress.fact(str(plan), plan.needs_in_words)
        plan.require_room()
        room = plan.room - sum(term.keep_within(plan.room) for term in terms)
        orbitals.coarse_room = min(coarse, max(room, 0))
        orbitals.room = room - orbitals.coarse_room
        return KohnSham(terms), orbitals

    def _coarse_orbitals(self, energy: KohnSham, progress) -> float:
        """Bytes of all orbitals on the grid on which a large molecule's SCF begins, and responses and looks do."""
        semilocal = energy.find(SemilocalEnergy)
        if semilocal is None or not (self.has_finer_grid or self.is_large):
            return 0.0
        orbitals = GridOrbitals(self.molecule, progress)
        orbitals.reserve(Quadrature(COARSE_LEVEL), ao_order(semilocal.kernel))
        return sum(orbitals.memory().flexible.values())

    def _terms(self, orbitals, budget, progress):
        """Each term of the energy that the calculation has."""
        molecule, functional, surroundings = self.molecule, self.functional, self.surroundings
        yield NuclearEnergy(molecule, surroundings)
        yield OneElectronEnergy(molecule, surroundings)
        yield CoulombExchangeEnergy(self.coulomb_exchange(budget), functional.exact_exchange)
        if functional.terms:
            with progress.stage("functional"):
                yield from self._exchange_correlation(orbitals, progress)
        if functional.dispersion is not None:
            yield DispersionEnergy(molecule, *functional.dispersion)
        if surroundings.potential is not None:
            yield ExternalEnergy(surroundings.potential, molecule, self.grid, orbitals)
        if surroundings.solvent is not None:
            yield SolventEnergy(molecule, surroundings.solvent)
        yield from map(self._users_term, self.terms)

    def _users_term(self, chosen: ChosenTerm) -> Term:
        term = chosen(self.molecule)
        if not isinstance(term, Term):
            raise InputError(f"terms= holds {shown(chosen.maker)}, which gave {shown(term)}; a Term expected.")
        if taken := sorted(COMPONENTS.keys() & term.components):
            raise InputError(
                f"the energy term {type(term).__name__} has a component {taken[0]!r}, which is dftfd's own."
            )
        return term

    def _exchange_correlation(self, orbitals, progress):
        functional = self.functional
        if functional.is_semilocal:
            part = functional.semilocal_part
            kind = LocalHybridEnergy if part.exact_exchange_ranges else SemilocalEnergy
            yield kind(part, self.n_spin, self.molecule, self.grid, orbitals, progress)
        for grid_functional in functional.grid_functionals:
            alone = Functional(grid_functional[1].name, (grid_functional,))
            yield GridFunctionalEnergy(alone, self.n_spin, self.molecule, self.grid, orbitals)
        if functional.double_integral_part.terms:
            part = functional.double_integral_part
            yield DoubleIntegralEnergy(part, self.n_spin, self.molecule, Quadrature(self.nlc_level), orbitals)

    def coulomb_exchange(self, budget: int | None = None) -> CoulombExchange:
        """The builder of J and K, which may take `budget` bytes, by default those of the calculation."""
        budget = memory_budget(self.max_memory) if budget is None else budget
        exact_exchange = self.functional.exact_exchange
        if not self.density_fit:
            return ExactCoulombExchange(self.molecule, n_operators=len({0.0, *(omega for omega, _ in exact_exchange)}))
        devices, chosen = accelerated_devices(self.molecule.n_ao), self.auxiliary_basis
        if devices is not None and DeviceCoulombExchange.has_room(self.molecule, exact_exchange, devices[0], chosen):
            return DeviceCoulombExchange(self.molecule, bool(exact_exchange), devices[0], budget, chosen)
        return DensityFittedCoulombExchange(self.molecule, bool(exact_exchange), budget, chosen)


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What a calculation has computed before its first cycle.

    X: orthonormaliser (ao, mo).   orbitals: those on the grids, which know the memory that is left.
    """

    calculation: Calculation
    energy: KohnSham
    matrices: OneElectron
    X: np.ndarray
    orbitals: GridOrbitals

    @property
    def n_points(self) -> int:
        """Of the grid of the semilocal energy; zero where no term has one."""
        return self.orbitals.n_points(self.calculation.grid)

    @property
    def auxiliary_basis(self) -> str | None:
        """Name of the fitting functions, None for exact integrals."""
        return getattr(self.energy.of_kind(CoulombExchangeEnergy).builder, "auxiliary_basis", None)

    def unrestricted(self, progress) -> "Ingredients":
        """The same energy for different orbitals of both spins, on the same grids."""
        calculation = self.calculation.unrestricted()
        others = (term for term in self.energy.terms if not isinstance(term, EXCHANGE_CORRELATION))
        parts = calculation._exchange_correlation(self.orbitals, progress)
        return replace(self, calculation=calculation, energy=KohnSham((*others, *parts)))

    def problem(self, occupy: Occupier) -> Problem:
        """The SCF problem with a rule for the occupations."""
        shared = self.calculation.method == "ROKS"
        response = None if self.energy.lacks_response else self.energy.orbital_response
        incremental_build = self.energy.incremental_build
        return Problem(self.energy.evaluate, self.matrices.S, self.X, occupy, shared, response, incremental_build)

    def grid_overlap(self) -> np.ndarray:
        """Integrals of products of orbitals by the quadrature that counts the electrons, (ao, ao)."""
        grid = self.calculation.grid if self.n_points else Quadrature(self.calculation.nlc_level)
        return self.orbitals.store(grid).overlap()

    def with_terms(self, *terms: Term) -> "Ingredients":
        """The same with other terms of the energy."""
        return replace(self, energy=KohnSham(terms))


@dataclass(frozen=True, eq=False)
class Cheaper:
    """What costs less than a calculation.

    ingredients: the calculation with what costs most left out.   words: what that is.   with_exchange: the same with
    the calculation's own exchange, where that has been left out, too, else None.   rehearsal: the calculation in less
    precision, where that is worth while, else None.
    """

    ingredients: Ingredients
    words: str
    with_exchange: Ingredients | None = None
    rehearsal: Ingredients | None = None


def cheaper_ingredients(ingredients: Ingredients, progress, looks=False) -> Cheaper | None:
    """The calculation with what costs most left out; None where little would be saved.

    A coarse grid does not help to save cycles where these are spent on exact integrals; a look at several states,
    `looks`, needs no more than it gives.
    """
    calculation, energy = ingredients.calculation, ingredients.energy
    semilocal, double = energy.find(SemilocalEnergy), energy.find(DoubleIntegralEnergy)
    coarse = calculation.has_finer_grid if looks else calculation.is_large
    if semilocal is None or not (coarse or double):
        return None
    coulomb = energy.of_kind(CoulombExchangeEnergy)
    words: list[str] = []
    cheaper = semilocal
    if coarse:
        words.append(f"on grid level {COARSE_LEVEL}")
        estimates = not semilocal.kernel.exact_exchange
        made = lambda: GridOrbitals(calculation.molecule, progress, estimates=estimates)
        orbitals = ingredients.orbitals.of_looks if looks else made()
        orbitals.room = ingredients.orbitals.coarse_room
        grid, molecule = Quadrature(COARSE_LEVEL), calculation.molecule
        cheaper = type(semilocal)(
            semilocal.functional, calculation.n_spin, molecule, grid, orbitals, progress, semilocal.arrays_vary
        )
        cheaper.prepare(progress)
    if double is not None:
        words.append("without double integrals")
    other: dict[int, Term | None] = {id(semilocal): cheaper, id(double): None}
    if looks and not calculation.density_fit:
        words.append("with fitted integrals")
        room = ingredients.orbitals.room
        integrals = replace(calculation, density_fit=True).coulomb_exchange(int(room))
        other[id(coulomb)] = in_its_place = CoulombExchangeEnergy(integrals, calculation.functional.exact_exchange)
        in_its_place.keep_within(room)
    whole = rehearsal = None
    rehearsed: dict = {}
    fitted = coulomb.builder
    if not looks and isinstance(fitted, DensityFittedCoulombExchange):
        of_builder = lambda builder: {id(coulomb): CoulombExchangeEnergy(builder, coulomb.exact_exchange)}
        rough = fitted.for_estimates()
        if rough.exchange_is_rough:
            words.append("with few fitting functions for exchange")
            rehearsed = of_builder(fitted.rehearsal())
            whole = _with_terms(ingredients, other | rehearsed)
        other |= of_builder(rough)
    if not looks and calculation.rehearses:
        rehearsal = _with_terms(ingredients, {id(semilocal): semilocal.rehearsal()} | rehearsed)
    return Cheaper(_with_terms(ingredients, other), " ".join(words), whole, rehearsal)


def _with_terms(ingredients, other) -> Ingredients:
    """Ingredients with other terms in the place of some: by the identity of these, None where there is to be none."""
    terms = (other.get(id(term), term) for term in ingredients.energy.terms)
    return ingredients.with_terms(*(term for term in terms if term is not None))
