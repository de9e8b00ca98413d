"""The audit of whole programs: are their answers derivatives of their energies, and consistent with each other?"""

import inspect
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import (
    DftfdError,
    InputError,
    NotConvergedError,
    NumericalError,
    UnsupportedError,
    closest_names,
    shown,
)
from dftfd.interop.asked import Setting, Target
from dftfd.interop.asked_ase import ASETarget
from dftfd.interop.asked_program import SHIPPED, read_program, shipped
from dftfd.interop.asked_pyscf import PySCFTarget
from dftfd.interop.asked_qcengine import QCEngineTarget
from dftfd.runtime.arguments import Kind, callback, optional, public
from dftfd.system.geometry import is_coordinate_text, parse_geometry, read_geometry_file
from dftfd.system.molecule import UNITS
from dftfd.verify.audit import import_code
from dftfd.verify.audit_sources import CodeRaisedError
from dftfd.verify.code_checks import CHECKS
from dftfd.verify.code_own import OwnTarget
from dftfd.verify.code_report import CodeAudit, Outcome
from dftfd.verify.code_session import Session
from dftfd.verify.code_verdicts import FAILED, GRID, INCONSISTENT, NOT_OFFERED, SURFACE, UNDECIDED, judge, pattern_of

MOLECULES = {
    "water": "O 0 0.02 0.12; H 0.05 0.79 -0.45; H -0.03 -0.72 -0.51",
    "NH2": "N 0 0 0.14; H 0 0.80 -0.50; H 0 -0.80 -0.50",
}
"""A closed shell bent out of symmetry, and an open shell with symmetry [angstrom]."""
SHORT = 12
"""Characters of a molecule's name in the table."""
GRID_LIMIT = 1e-4
"""Deviation [atomic units] that the orientation of a quadrature grid may have, where no finer grid tells."""


def as_target(found: Any) -> Target:
    """The Target for what was given; InputError for what is none."""
    if isinstance(found, str | Path):
        return _named_target(str(found))
    if hasattr(found, "compute") and hasattr(found, "offers"):
        sets = isinstance(found.offers, frozenset | set) and isinstance(found.conditions, frozenset | set)
        if not (sets and isinstance(found.name, str) and callable(found.compute)):
            raise InputError(f"{shown(found)} is not a target: name is text, offers and conditions are sets of text.")
        return found
    if hasattr(found, "implemented_properties"):
        return ASETarget(found if isinstance(found, type) else lambda: found)
    if not callable(found):
        raise InputError(
            f"{shown(found)} cannot be audited: an ASE calculator, code Mole -> mean field of PySCF, 'dftfd', "
            "FILE.toml, 'qcengine:PROGRAM' or an object with name, offers, conditions and compute is expected."
        )
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        return PySCFTarget(found)
    try:
        made = found()
    except Exception as error:  # anybody's code
        raise CodeRaisedError(f"{shown(found)} raised {type(error).__name__}: {error}") from error
    if made is found or callable(made) and not hasattr(made, "implemented_properties"):
        raise InputError(f"{shown(found)} returns {shown(made)}; a calculator or a target is expected.")
    return ASETarget(found) if hasattr(made, "implemented_properties") else as_target(made)


def _named_target(text):
    """A program by its name or file, or what code names."""
    if text == "dftfd":
        return OwnTarget()
    if text.lower() in SHIPPED:
        return shipped(text.lower())
    if text.lower().endswith(".toml"):
        return read_program(Path(text))
    if text.startswith("qcengine:"):
        return QCEngineTarget(*text.split(":")[1:4])
    return as_target(import_code(text))


def _names(checks) -> tuple[str, ...]:
    names = [checks] if isinstance(checks, str) else list(checks)
    known = {name.lower(): name for name in CHECKS}
    for name in names:
        if str(name).lower() not in known:
            close = ", ".join(closest_names(str(name), list(CHECKS)))
            raise InputError(f"there is no check {shown(name)}; the closest names are {close}.")
    return tuple(known[str(name).lower()] for name in names)


def setting_of(source: Any) -> Setting:
    """The Setting for a name of MOLECULES, a text, a file or a Setting."""
    if isinstance(source, Setting):
        return source
    text = MOLECULES.get(source, source)
    geometry = parse_geometry(text) if is_coordinate_text(text) else read_geometry_file(text)
    symbols = tuple(("ghost-" if name.ghost else "") + name.symbol for name in geometry.names)
    charge = geometry.charge or 0
    n_electrons = sum(ATOMIC_NUMBERS[name.symbol] for name in geometry.names if not name.ghost) - charge
    spin = n_electrons % 2 if geometry.spin is None else geometry.spin
    positions = geometry.coordinates * UNITS[geometry.unit or "angstrom"]
    return Setting(symbols, positions, charge, spin, name=source if len(source) <= SHORT else "".join(symbols))


def _settings(sources) -> tuple[Setting, ...]:
    found = [sources] if isinstance(sources, str | Setting) else list(sources)
    return tuple(setting_of(one) for one in found)


_TARGET = Kind(
    "an ASE calculator, code Mole -> mean field of PySCF, 'dftfd', FILE.toml, 'qcengine:PROGRAM' or a target",
    as_target,
)
_SETTINGS = Kind("names of molecules, coordinates, files or Settings", _settings)
_NAMES = Kind("names of checks", _names)


@public
def audit_code(
    target: Annotated[Any, _TARGET],
    molecules: Annotated[Any, optional(_SETTINGS)] = None,
    checks: Annotated[Any, optional(_NAMES)] = None,
    progress: Annotated[Any, optional(callback(1))] = None,
) -> CodeAudit:
    """Whether a program's answers are consistent with each other, a `CodeAudit`; print it, or ask `.passed`.

    target: an ASE calculator, a class of calculators or code that makes one; code Mole -> mean field of PySCF; an
        object with `name`, `offers`, `conditions` and `compute`, see `dftfd.interop.asked.Target`; or as text 'dftfd',
        'psi4', 'nwchem', 'FILE.toml' of another executable,
        'qcengine:PROGRAM:METHOD:BASIS', 'FILE.py:NAME' or 'module:NAME' of the above.
    molecules: names ('water', 'NH2'), coordinates as text [angstrom], xyz files ('own.xyz:-1', 'own.xyz:0,3'), or
        `dftfd.interop.asked.Setting` objects. By default water and NH2;
        an odd electron is unpaired.
    checks: names of checks; by default all that the target can answer.
    progress: called with a line before each check.

    Forces, Hessians, dipoles and other derivatives are compared with central differences of what the program itself
    answers, with error bars; sums, symmetry, order of atoms and equivalent inputs with each other. The program is
    asked nothing that it does not offer.
    """
    ask, outcomes = Session(target), []
    for setting in _settings(MOLECULES) if molecules is None else molecules:
        for name in checks or CHECKS:
            if not CHECKS[name].needs <= target.offers:
                outcomes.append(Outcome(name, setting.name, NOT_OFFERED, evidence="not among what is offered"))
                continue
            if progress is not None:
                progress(f"{setting.name}: {name}, {ask.calls} calculations so far")
            outcomes.append(_outcome(name, ask, setting))
    return CodeAudit(target.name, tuple(outcomes), ask.calls)


def _outcome(name, ask, setting) -> Outcome:
    """One check, with the errors that a program may answer with."""
    check = CHECKS[name]
    try:
        found = check.compare(ask, setting)
    except UnsupportedError as error:
        return Outcome(name, setting.name, NOT_OFFERED, evidence=str(error))
    except (CodeRaisedError, NumericalError, NotConvergedError) as error:
        return Outcome(name, setting.name, FAILED, evidence=str(error))
    judged = judge(found)
    variants = {}
    if judged.verdict == INCONSISTENT:
        variants = {key: partial(_again, check, other, setting) for key, other in ask.target.variants(setting).items()}
    exchanged = partial(_again, check, ask.target, setting.but(spin=-setting.spin)) if setting.spin else lambda: None
    pattern, evidence = pattern_of(found, judged, variants, exchanged)
    verdict, small = judged.verdict, judged.deviation < GRID_LIMIT and "finer grid" not in variants
    if verdict == INCONSISTENT and check.turns and (pattern in (GRID, SURFACE) or small):
        verdict = UNDECIDED
        pattern = "orientation of the surface" if pattern == SURFACE else "orientation of the grid"
    numbers = judged.bar, judged.second, judged.second_bar
    return Outcome(name, setting.name, verdict, judged.deviation, judged.limit, found.unit, pattern, evidence, *numbers)


def _again(check, target, setting):
    """The same comparison elsewhere; None where it cannot be made."""
    try:
        return check.compare(Session(target, is_brief=True), setting)
    except DftfdError:
        return None
