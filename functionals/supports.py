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
    "model of the potential": lambda f: not f.has_energy,
    "double hybrid": lambda f: bool(f.pt2),
    "local hybrid": lambda f: any(name in f.ingredients for name in EXACT_EXCHANGE),
    "long-range local hybrid": lambda f: "e_x_lr" in f.ingredients,
    "grid functional": lambda f: bool(f.guests),
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

    reason: the sentence of the error, with {name} of the functional, {models} and {guests} among its terms.
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
                "guests": ", ".join(repr(term.name) for _, term in functional.guests),
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
    return "{models} is a model of the potential alone: " + then


def _double_hybrid(then):
    return "{name} is a double hybrid, " + then


def _local_hybrid(then):
    more = "; it has its energy, matrix, response and forces in calculations (dftfd.run_scf)."
    return "functional {name} takes the exact-exchange energy density, " + then + more


def _grid(then):
    more = "; it has its energy, matrix, response and forces in calculations (dftfd.run_scf)."
    return "{guests} is a guest, code on a molecule's grid, " + then + more


_NO_RESPONSE = _double_hybrid(
    "whose responses need derivatives of its perturbation theory; those of its orbitals alone are those of "
    "dftfd.functionals.hybrids.orbitals_alone(functional)."
)
_IN_PYSCF = "to_pyscf() cannot hand over "
_SET_UP = "; run the calculation without them, or set them up in PySCF."

REFUSALS = (
    Refusal(
        ("double hybrid", "ROKS"),
        "energy",
        _double_hybrid("of RKS and UKS; take method='UKS' instead of ROKS."),
        InputError,
    ),
    *(
        Refusal(
            ("double hybrid", state),
            "energy",
            _double_hybrid("of the lowest orbitals, full; leave smearing, occupations out."),
            InputError,
        )
        for state in ("smearing", "occupations")
    ),
    Refusal(
        ("ROKS", "smearing"),
        "energy",
        "smearing needs method='UKS' or 'RKS', not ROKS: orbitals that both spins share with fractional occupations "
        "are eigenvectors of no Fock matrix; take UKS, or leave smearing out.",
        InputError,
    ),
    Refusal(
        ("relativity", "core potentials"),
        "energy",
        "relativity='x2c' needs all electrons; choose a basis set without core potentials.",
    ),
    Refusal(
        ("model of the potential",),
        "energy differences",
        _model("it has no energy, so neither energy differences nor forces exist."),
    ),
    Refusal(
        ("model of the potential",),
        "stability",
        _model(
            "without an energy there is no Hessian, so neither responses and excitations nor stability exist, and "
            "second-order or direct minimisation neither; use convergence='auto', 'diis' or 'adiis'."
        ),
    ),
    Refusal(
        ("model of the potential",),
        "parameter gradient",
        "the gradient by parameters is that of an energy, which {models} has not.",
    ),
    Refusal(
        ("double hybrid",),
        "forces",
        _double_hybrid(
            "whose forces need derivatives of its perturbation theory; numerical ones are there: "
            "dftfd.numerical_forces, dftfd gradient --numerical."
        ),
    ),
    *(Refusal(("double hybrid",), what, _NO_RESPONSE) for what in ("static response", "spin flips")),
    *(
        Refusal(("double hybrid",), what, _double_hybrid(then))
        for what, then in (
            ("parameter gradient", "whose orbitals change with parameters, and its perturbation theory with them."),
            ("energy in JAX", "whose perturbation theory is no function of the density matrix."),
            ("differentiable SCF", "of whose perturbation theory the solution has no derivatives."),
            ("another density", "whose perturbation theory is not that of another functional's density."),
            ("to_pyscf", "of which a mean field is a part only; hand over that of its orbitals alone."),
            ("numint", "whose perturbation theory PySCF has in pyscf.mp; pass orbitals_alone(functional)."),
        )
    ),
    *(
        Refusal(("local hybrid",), what, _local_hybrid(then))
        for what, then in (
            ("excited states", "which has no forces on excited states"),
            ("spin flips", "whose coupling of flipped spins is not there"),
            ("energy in JAX", "whose integrals JAX does not have"),
            ("derivatives of the solution", "of which the solution has no derivatives yet"),
            ("to_pyscf", "which PySCF's numerical integration does not have"),
            ("numint", "which PySCF's numerical integration does not have"),
            ("export", "which code of a point does not know"),
        )
    ),
    Refusal(
        ("long-range local hybrid",),
        "parameter gradient",
        "the gradient by omega of e_x_lr needs derivatives of integrals that are not there.",
    ),
    *(
        Refusal(("grid functional",), what, _grid(then))
        for what, then in (
            ("spin flips", "whose coupling of flipped spins is not there"),
            ("parameter gradient", "whose derivatives by parameters are jax.grad's of its own code"),
            ("energy in JAX", "which is not written out here"),
            ("derivatives of the solution", "of which the solution has no derivatives yet"),
            ("to_pyscf", "of which PySCF knows nothing"),
            ("numint", "which PySCF's numint can't be given"),
            ("export", "which code of a point does not know"),
        )
    ),
    Refusal(
        ("no exact exchange",),
        "spin flips",
        "spin-flip excitations with {name}: without exact exchange nothing couples flipped spins of one axis; take a "
        "hybrid, better one with half of exact exchange, such as bhandhlyp.",
    ),
    Refusal(
        ("smearing",),
        "response",
        "smeared occupations, which move electrons between orbitals, have static polarisabilities alone; for other "
        "responses give whole or fixed occupations.",
    ),
    Refusal(("smearing",), "stability of a state", "stability is defined for results without smearing.", InputError),
    *(
        Refusal(
            (state,),
            "response at a frequency",
            "responses at a frequency are those of RKS and UKS with full and empty orbitals; the static one, "
            "omega=0.0, has restricted open shells and other occupations, too.",
        )
        for state in ("ROKS", "unequal occupations")
    ),
    Refusal(
        ("ROKS",),
        "excitations",
        "excitations are those of RKS and UKS; run method='UKS', with the result as guess.",
        InputError,
    ),
    Refusal(
        ("partly filled orbitals",),
        "excitations",
        "excitations need full and empty orbitals; this result has other occupations.",
        InputError,
    ),
    *(
        Refusal(("given grid",), what, f"a given grid stays where it is while the nuclei move; {then}", InputError)
        for what, then in (
            ("second derivatives", "choose a grid_level= for vibrations."),
            ("excited states", "choose a grid_level= for these forces."),
        )
    ),
    Refusal(("solvent",), "energy in JAX", "dftfd.energy knows no solvent; take run_scf."),
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
            "{name} holds a double integral other than VV10, which can't be passed to PySCF.",
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
        "{name} has a dispersion correction, which PySCF has elsewhere; leave the suffix out and set mf.disp = "
        "{correction}.",
    ),
    Refusal(
        ("model of the potential",),
        "export",
        "functional {models} is a model of the potential; only what has an energy can be exported.",
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
            ("model of the potential", "{name} is a model of the potential; PySCF needs the energy too."),
            ("several ranges", "{name} has exact exchange with several omegas; PySCF takes one."),
            ("Laplacian", "{name} depends on the Laplacian of the density, which PySCF can't pass on."),
            ("position", "functional {name} depends on the position r, not on the density alone."),
        )
    ),
)
"""Rows; the first that holds says why."""
