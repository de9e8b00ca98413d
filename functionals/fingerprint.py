"""Fingerprints of functionals: what a formula is, not only what it is called.

A name and parameters do not tell that a formula was edited. The programs that its terms trace to do: any other number
or operation gives another fingerprint, the same formula the same one in every process with this version of JAX.
"""

import hashlib
import json

from dftfd.autofd.scalar.keys import code_fingerprint
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.validation import trial_of


def program_fingerprint(functional: Functional) -> str:
    """64 hexadecimal digits: coefficients, parameters and exact exchange, and the program of each formula."""
    programs = [_of_term(term) for _, term in functional.terms]
    return hashlib.sha256(json.dumps([functional.definition, programs], sort_keys=True).encode()).hexdigest()


def _of_term(term: EnergyTerm) -> str:
    """The fingerprint of one formula with its parameters; it is kept with the term, which never changes."""
    known = vars(term)
    if "_fingerprint" not in known:
        known["_fingerprint"] = _traced(term)
    return known["_fingerprint"]


def _traced(term) -> str:
    trial = trial_of(term)
    return code_fingerprint(trial.code, *trial.specs)
