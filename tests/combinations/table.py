"""Whether the table of supported properties (dftfd.functionals.supports) agrees with the outcome of a random case."""

import re

from dftfd.errors import DftfdError, NotConvergedError, NumericalError, ResourceError, UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.registry import get_functional
from dftfd.xc.pointwise import pointwise_kernel
from tests.combinations.cases import Case
from tests.combinations.solving import solved

ASKED = {
    "energy": ("energy",),
    "orbital_energies": ("energy",),
    "components": ("energy",),
    "traced_energy": ("energy in JAX",),
    "janak": ("energy",),
    "forces": ("forces",),
    "force_sums": ("forces",),
    "hessian": ("second derivatives",),
    "dipole": ("energy",),
    "parameters": ("parameter gradient",),
    "order": ("forces",),
    "rotation": ("energy",),
    "spins": ("forces",),
    "spin_exchange": ("forces",),
    "size": ("energy",),
    "polarizability": ("static response",),
    "dynamic_polarizability": ("excitations", "response at a frequency"),
    "hyperpolarizability": ("static response",),
    "infrared": ("second derivatives",),
    "vibrations": ("second derivatives",),
    "raman": ("second derivatives", "static response"),
    "excitations": ("excitations",),
    "tamm_dancoff": ("excitations",),
    "excitations_of_pyscf": ("excitations",),
    "spin_flips": ("spin flips",),
    "excited_forces": ("excitations", "excited states"),
    "excited_dipole": ("excitations", "excited states"),
    "stability": ("stability of a state",),
    "save_load": ("forces",),
    "restart": ("energy",),
    "memory": ("forces",),
    "threads": ("forces",),
    "to_pyscf": ("to_pyscf",),
    "export": ("export",),
}
"""Rows of the table that a property needs."""

STATES = (
    "no empty orbital",
    "give fewer",
    "is not a minimum",
    "hands over nothing",
    "too fast for differences of forces",
    "the energy jumps between them",
    "a resonance",
    "the molecule has no electrons",
    "double integrals; C code holds one",
    "is not symmetric in both points",
    "takes more than the density and its gradient",
    "has no functions for",
    "must be occupied but the basis set gives only",
    "which a PySCF mean field cannot hold",
    "spin-flip excitations need UKS or ROKS",
    "knows atoms with all their electrons only",
    "which needs the lowest orbitals fully occupied",
)
"""Words of refusals that the numbers decide, not the kinds of what was asked for."""


def offered(case: Case) -> DftfdError | None:
    """None where the table offers the case, else its error; the SCF's own error where there is no solution."""
    if case.property == "export":  # of the functional alone
        functional, features = get_functional(case.xc), frozenset()
    else:
        try:
            result = solved(case)
        except (NotConvergedError, NumericalError, ResourceError):
            raise
        except DftfdError as error:
            return error if _is_row(error) else None
        functional, features = result.functional, result.features
    features = features | _of_formula(functional.semilocal_part)
    errors = (supports.refusal(what, functional, features) for what in ASKED[case.property])
    return next((error for error in errors if error is not None), None)


def _is_row(error) -> bool:
    """Whether a row of the energy, or of the minimisers that find it, says this."""
    asked = ("energy", "stability")
    rows = (row for row in supports.REFUSALS if row.property in asked and isinstance(error, row.error))
    words = (re.sub(r"\\{\w+\\}", ".*", re.escape(row.reason)) for row in rows)
    return any(re.fullmatch(pattern, str(error)) for pattern in words)


def _of_formula(semilocal) -> set[str]:
    """Features that only the lowered formula shows."""
    if not semilocal.terms or semilocal.exact_exchange_ranges:
        return set()
    try:
        return {"Laplacian"} if "lapl" in pointwise_kernel(semilocal, 2).ingredients else set()
    except UnsupportedError:
        return {"position"}


def disagrees(case: Case, refused: DftfdError | None) -> str:
    """How what came of a case differs from the table, in words; empty where it does not."""
    if refused is not None and any(words in str(refused) for words in STATES):
        return ""
    expected = offered(case)
    if refused is None:
        return f"computed, though the table refuses it: {expected}" if expected is not None else ""
    if expected is None:
        return f"refused, though the table offers it: {refused}"
    return "" if str(expected) == str(refused) else f"refused by other words than the table's: {refused}"
