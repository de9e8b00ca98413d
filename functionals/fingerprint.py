"""Fingerprints of functionals: what a formula is, not only what it is called.

A name and parameters do not tell that a formula was edited. The programs that its terms trace to do: any other number
or operation gives another fingerprint, the same formula the same one in every process with this version of JAX.
"""

import hashlib
import json

from dftfd.autofd.scalar.keys import code_fingerprint
from dftfd.errors import shown
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.grid_functionals import GridFunctionalTerm
from dftfd.functionals.validation import trial_of


def program_fingerprint(functional: Functional) -> str:
    """64 hexadecimal digits: coefficients, parameters and exact exchange, and the program of each formula."""
    return _of_programs(functional, _of_term)


def present_fingerprint(functional: Functional) -> str:
    """The same of the formulas as they are now: what they read elsewhere, from a file for instance, may have changed
    since their kernels and their `program_fingerprint` were made."""
    return _of_programs(functional, _traced)


def _of_programs(functional, fingerprint) -> str:
    programs = [fingerprint(term) for _, term in functional.terms]
    return hashlib.sha256(json.dumps([functional.definition, programs], sort_keys=True).encode()).hexdigest()


def differences(before: Functional, after: Functional) -> str:
    """What makes two functionals of one name different, in words; nothing where they are the same."""
    old, new = before.definition, after.definition
    parts = [(t["name"], t["coefficient"]) for t in old["terms"]], [(t["name"], t["coefficient"]) for t in new["terms"]]
    if parts[0] != parts[1] or any(old.get(k) != new.get(k) for k in ("exact_exchange", "dispersion", "pt2")):
        return "it consists of other terms"
    said = []
    for a, b in zip(old["terms"], new["terms"], strict=True):
        names = {**a["parameters"], **b["parameters"]}
        for name in names:
            values = [d["parameters"].get(name, "absent") for d in (a, b)]
            if values[0] != values[1]:
                said.append(f"{name} is {shown(values[1], 30)}, was {shown(values[0], 30)}")
    if any(_with(t, s) != _of_term(t) for (_, t), (_, s) in zip(after.terms, before.terms, strict=True)):
        said.insert(0, "its formula has changed")
    return ", ".join(said)


def _with(term, before) -> str:
    """The fingerprint of the formula of before with the parameters of a term, where it takes them."""
    if before.parameters.keys() != term.parameters.keys():
        return _of_term(before)
    return _of_term(before.with_parameters(term.parameters))


def _of_term(term: EnergyTerm) -> str:
    """The fingerprint of one formula with its parameters; it is kept with the term, which never changes."""
    known = vars(term)
    if "_fingerprint" not in known:
        known["_fingerprint"] = _traced(term)
    return known["_fingerprint"]


def _traced(term) -> str:
    if isinstance(term, GridFunctionalTerm):  # code on arrays, by what it gives; files hold this word
        return f"guest {term.plain_parameters} {term.trial_energy():.9e}"
    trial = trial_of(term)
    return code_fingerprint(trial.code, *trial.specs)
