"""Which properties are supported for which functionals and calculations: one table, checked before a calculation.

A functional or a calculation has features, and a row of `REFUSALS` says which of them a property cannot serve, and why;
what no row refuses is there. docs/supports.md prints the table, and random calculations are held to it
(tests/combinations): what is refused must be in it, and what is in it must be refused.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from dftfd.errors import DftfdError, InputError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import EXACT_EXCHANGE
from dftfd.functionals.vv10 import vv10

PROPERTIES = {
    "energy": "`run_scf`",
    "energy differences": "`numerical_forces`, scans, benchmarks",
    "forces": "`result.forces()`, `result.point_charge_forces()`, `optimize`, reaction paths",
    "second derivatives": "`result.hessian()`, `result.vibrations()`",
    "stability": "second-order and direct minimisation, and what follows",
    "stability of a state": "`result.stability()`",
    "static response": "`result.polarizability()`, `result.hyperpolarizability()`",
    "response": "second derivatives by coupled-perturbed orbitals",
    "response at a frequency": "`result.polarizability(omega)`",
    "excitations": "`result.excitations()`",
    "excited states": "`excitations.state()`, `excitations.forces()`",
    "spin flips": '`result.excitations(spin="flip")`',
    "parameter gradient": "`result.parameter_gradient()`",
    "energy in JAX": "`dftfd.energy`",
    "differentiable SCF": "`dftfd.differentiable_scf`",
    "derivatives of the solution": "derivatives of `dftfd.differentiable_scf`, fits",
    "another density": "energies of another functional on the density of a result",
    "to_pyscf": "`result.to_pyscf()`",
    "numint": "`dftfd.interop.pyscf.numint`",
    "export": "`dftfd.export`, `dftfd export`",
}
"""What may be asked for, and by which calls."""

INCLUDES = {
    "forces": ("energy differences",),
    "second derivatives": ("forces",),
    "static response": ("stability",),
    "stability of a state": ("stability",),
    "response": ("static response",),
    "response at a frequency": ("response",),
    "excitations": ("response",),
    "excited states": ("excitations", "energy differences"),
    "differentiable SCF": ("energy differences",),
    "derivatives of the solution": ("differentiable SCF",),
    "energy in JAX": ("energy differences",),
    "another density": ("energy differences",),
}
"""What else has to be there for a property."""

OF_FUNCTIONALS: dict[str, Callable[[Functional], bool]] = {
    "model potential": lambda f: not f.has_energy,
    "double hybrid": lambda f: bool(f.pt2),
    "local hybrid": lambda f: any(name in f.ingredients for name in EXACT_EXCHANGE),
    "long-range local hybrid": lambda f: "e_x_lr" in f.ingredients,
    "grid functional": lambda f: bool(f.grid_functionals),
    "several ranges": lambda f: len([omega for omega, _ in f.exact_exchange if omega]) > 1,
    "dispersion correction": lambda f: f.dispersion is not None,
    "double integral other than VV10": lambda f: any(
        term.formula is not vv10.terms[0][1].formula for _, term in f.nonlocal_part.terms
    ),
    "correction that PySCF lacks": lambda f: (
        f.dispersion is not None and (not f.dispersion[0].startswith(("d3", "d4")) or "+" in f.dispersion[0])
    ),
    "no exact exchange": lambda f: not f.exact_exchange,
    "exact exchange alone": lambda f: not (f.is_semilocal or f.is_nonlocal),
}
"""Features that a functional alone decides."""


class Refusal(NamedTuple):
    """A row of the table: what calculations with all of `features` do not have.

    reason: the sentence of the error, with {name} of the functional, {models} and {grid_functionals} among its terms.
    """

    features: tuple[str, ...]
    property: str
    reason: str
    error: type[DftfdError] = UnsupportedError


def require(what: str, functional: Functional, others: Collection[str] = ()) -> None:
    """Raise the error of the first row that refuses a property of a functional; `others`: more features."""
    if found := refusal(what, functional, others):
        raise found


@contextmanager
def wanted(*properties: str) -> Iterator[None]:
    """Properties that are asked of what is computed inside: calculations check them before they begin."""
    token = _wanted.set((*_wanted.get(), *properties))
    try:
        yield
    finally:
        _wanted.reset(token)


def require_wanted(functional: Functional, others: Collection[str]) -> None:
    """`require` for the energy and what is `wanted` besides."""
    for what in ("energy", *_wanted.get()):
        require(what, functional, others)


_wanted: ContextVar[tuple[str, ...]] = ContextVar("wanted", default=())


def refusal(what: str, functional: Functional, others: Collection[str] = ()) -> DftfdError | None:
    """That error; None for what is there."""
    asked = _with_included(what)
    for row in REFUSALS:
        if row.property in asked and all(_has(functional, feature, others) for feature in row.features):
            names = {
                "name": repr(functional.name[:60]),
                "models": ", ".join(repr(term.name) for _, term in functional.terms if not term.has_energy),
                "grid_functionals": ", ".join(repr(term.name) for _, term in functional.grid_functionals),
                "correction": repr(functional.dispersion and functional.dispersion[0]),
                "parent": repr(functional.dispersion and functional.dispersion[-1]),
            }
            return row.error(row.reason.format(**names))
    return None


def _with_included(what):
    return {what}.union(*(_with_included(other) for other in INCLUDES.get(what, ())))


def _has(functional, feature, others):
    known = OF_FUNCTIONALS.get(feature)
    return feature in others if known is None else known(functional)


def _model(then):
    return "{models} is a model potential without an energy: " + then


def _double_hybrid(then):
    return "{name} is a double hybrid, " + then


def _local_hybrid(then):
    return "functional {name} is a local hybrid, which depends on the exact-exchange energy density: " + then


def _grid(then):
    return "{grid_functionals} is a grid functional, code on the molecular grid: " + then


_NO_RESPONSE = _double_hybrid(
    "whose responses need derivatives of PT2, which are not implemented; for those of the orbitals without PT2 use "
    "dftfd.functionals.hybrids.orbitals_alone(functional)."
)
_IN_PYSCF = "to_pyscf() cannot hand over "
_SET_UP = "; run the calculation without them, or set them up in PySCF."

REFUSALS = (
    Refusal(
        ("double hybrid", "ROKS"),
        "energy",
        _double_hybrid("which needs RKS or UKS; use method='UKS' instead of ROKS."),
        InputError,
    ),
    *(
        Refusal(
            ("double hybrid", state),
            "energy",
            _double_hybrid("which needs the lowest orbitals fully occupied; leave out smearing= and occupations=."),
            InputError,
        )
        for state in ("smearing", "occupations")
    ),
    Refusal(
        ("ROKS", "smearing"),
        "energy",
        "smearing needs method='UKS' or 'RKS', not ROKS: with fractional occupations, orbitals shared by both spins "
        "are not eigenvectors of a Fock matrix; use UKS, or leave out smearing.",
        InputError,
    ),
    Refusal(
        ("relativity", "core potentials"),
        "energy",
        "relativity='x2c' needs all electrons; choose a basis set without core potentials.",
    ),
    Refusal(
        ("model potential",),
        "energy differences",
        _model("there are no energy differences and no forces."),
    ),
    Refusal(
        ("model potential",),
        "stability",
        _model(
            "there is no Hessian, so responses, excitations, stability and second-order or direct minimisation are not "
            "available; use convergence='auto', 'diis' or 'adiis'."
        ),
    ),
    Refusal(
        ("model potential",),
        "parameter gradient",
        "the parameter gradient is that of an energy, and {models} is a model potential without one.",
    ),
    Refusal(
        ("double hybrid",),
        "forces",
        _double_hybrid(
            "whose forces need derivatives of PT2, which are not implemented; use numerical forces: "
            "dftfd.numerical_forces, dftfd gradient --numerical."
        ),
    ),
    *(Refusal(("double hybrid",), what, _NO_RESPONSE) for what in ("static response", "spin flips")),
    *(
        Refusal(("double hybrid",), what, _double_hybrid(then))
        for what, then in (
            ("parameter gradient", "and derivatives of PT2 with respect to parameters are not implemented."),
            ("energy in JAX", "and PT2 is not a function of the density matrix."),
            ("differentiable SCF", "and derivatives of PT2 are not implemented."),
            ("another density", "and PT2 needs the orbitals of its own SCF."),
            ("to_pyscf", "and a PySCF mean field has no PT2; use orbitals_alone(functional)."),
            ("numint", "and PT2 is not part of PySCF's numerical integration; pass orbitals_alone(functional)."),
        )
    ),
    *(
        Refusal(("local hybrid",), what, _local_hybrid(then))
        for what, then in (
            ("excited states", "excited-state forces are not implemented."),
            ("spin flips", "the coupling of flipped spins is not implemented."),
            ("energy in JAX", "its integrals are not available in JAX; use dftfd.run_scf."),
            ("derivatives of the solution", "derivatives of the SCF solution are not implemented."),
            ("to_pyscf", "PySCF's numerical integration does not have it."),
            ("numint", "PySCF's numerical integration does not have it."),
            ("export", "exported code has only the density and tau at a point."),
        )
    ),
    Refusal(
        ("long-range local hybrid",),
        "parameter gradient",
        "derivatives by omega of e_x_lr need derivatives of integrals, which are not implemented.",
    ),
    *(
        Refusal(("grid functional",), what, _grid(then))
        for what, then in (
            ("spin flips", "the coupling of flipped spins is not implemented."),
            ("parameter gradient", "differentiate its code with jax.grad instead."),
            ("energy in JAX", "dftfd.energy does not support it; use dftfd.run_scf."),
            ("derivatives of the solution", "derivatives of the SCF solution are not implemented."),
            ("to_pyscf", "PySCF has no such functionals."),
            ("numint", "PySCF's numint evaluates functionals point by point."),
            ("export", "exported code is evaluated point by point."),
        )
    ),
    Refusal(
        ("no exact exchange",),
        "spin flips",
        "spin-flip excitations with {name}: only exact exchange couples flipped collinear spins; use a hybrid, best "
        "with half of exact exchange, such as bhandhlyp.",
    ),
    Refusal(
        ("smearing",),
        "response",
        "with smeared occupations only static polarisabilities are available; for other responses use whole or fixed "
        "occupations.",
    ),
    Refusal(("smearing",), "stability of a state", "stability is defined for results without smearing.", InputError),
    *(
        Refusal(
            (state,),
            "response at a frequency",
            "responses at a frequency need RKS or UKS with full and empty orbitals; the static response, omega=0.0, "
            "also works for restricted open shells and other occupations.",
        )
        for state in ("ROKS", "unequal occupations")
    ),
    Refusal(
        ("ROKS",),
        "excitations",
        "excitations need RKS or UKS; run method='UKS', with this result as guess.",
        InputError,
    ),
    Refusal(
        ("partly filled orbitals",),
        "excitations",
        "excitations need full and empty orbitals; this result has other occupations.",
        InputError,
    ),
    *(
        Refusal(("given grid",), what, f"a given grid does not move with the nuclei; {then}", InputError)
        for what, then in (
            ("second derivatives", "choose a grid_level= for vibrations."),
            ("excited states", "choose a grid_level= for these forces."),
        )
    ),
    Refusal(("solvent",), "energy in JAX", "dftfd.energy does not support solvents; use run_scf."),
    *(
        Refusal((what,), "to_pyscf", f"{_IN_PYSCF}{words}{_SET_UP}")
        for what, words in (
            ("electric field", "electric fields"),
            ("point charges", "point charges"),
            ("relativity", "relativity"),
            ("external potential", "external potentials"),
            ("solvent", "solvents"),
        )
    ),
    *(
        Refusal(
            ("double integral other than VV10",),
            what,
            "{name} contains a double integral other than VV10, which PySCF does not have.",
        )
        for what in ("to_pyscf", "numint")
    ),
    Refusal(
        ("correction that PySCF lacks",),
        "to_pyscf",
        "to_pyscf() cannot hand over the correction {correction} of {parent}, which PySCF lacks; run the calculation "
        "without it.",
    ),
    Refusal(
        ("dispersion correction",),
        "numint",
        "{name} has a dispersion correction, which PySCF adds separately; leave out the suffix and set mf.disp = "
        "{correction}.",
    ),
    Refusal(
        ("model potential",),
        "export",
        "functional {models} is a model potential; only functionals with an energy can be exported.",
    ),
    Refusal(
        ("exact exchange alone",),
        "export",
        "functional {name} has no semilocal part and no double integral, and only these can be exported.",
    ),
    Refusal(("position",), "export", "functional {name} depends on the position r, not on the density alone."),
    *(
        Refusal((feature,), what, sentence)
        for what in ("to_pyscf", "numint")
        for feature, sentence in (
            ("model potential", "{name} is a model potential; PySCF also needs the energy."),
            ("several ranges", "{name} has exact exchange with several omegas; PySCF takes one."),
            ("Laplacian", "{name} depends on the Laplacian of the density, which PySCF's interface does not pass."),
            ("position", "functional {name} depends on the position r, not on the density alone."),
        )
    ),
)
"""Rows; the first that applies gives the reason."""
