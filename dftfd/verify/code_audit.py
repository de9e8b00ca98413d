"""The audit of whole programs: are their answers derivatives of their energies, and consistent with each other?

What was found is a table, data or a page. dftfd itself is a target, too.
"""

import inspect
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.console import Group
from rich.text import Text

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
from dftfd.interop.audit_targets import QUANTITIES, ASETarget, PySCFTarget, QCEngineTarget, Setting, Target
from dftfd.interop.program_targets import SHIPPED, read_program, shipped
from dftfd.model.options import OPTIONS
from dftfd.results.html_report import table
from dftfd.results.result import SCFResult
from dftfd.results.result_file import load_result
from dftfd.results.web_page import web_page
from dftfd.runtime.arguments import Kind, callback, optional, public, refuse_unknown
from dftfd.runtime.files import write_text
from dftfd.runtime.version import VERSION
from dftfd.system.geometry import is_coordinate_text, parse_geometry, read_geometry_file
from dftfd.system.molecule import UNITS, molecule
from dftfd.tasks.run import run_scf
from dftfd.verify.audit import CodeRaisedError, import_code
from dftfd.verify.code_checks import (
    CHECKS,
    CONSISTENT,
    FAILED,
    GRID,
    INCONSISTENT,
    NOT_OFFERED,
    SURFACE,
    UNDECIDED,
    Session,
    judge,
    pattern_of,
)
from dftfd.verify.reports import Printed, _table

HEADINGS = ("check", "molecule", "verdict", "deviation", "limit", "pattern")
ORDERS = ("error bar", "by order 2")
"""What the page of HTML has besides; on the screen it stands with what was found."""


@dataclass(frozen=True)
class Outcome:
    """One check of one molecule.

    verdict: consistent, INCONSISTENT, undecided, not offered or FAILED.   deviation, limit: the largest deviation and
    what error bars allow there [unit].   pattern, evidence: what the deviations have in common, and how one knows.
    bar: error bar of that entry.   second, second_bar: of derivatives, its deviation and error bar by order 2.
    """

    check: str
    molecule: str
    verdict: str
    deviation: float | None = None
    limit: float | None = None
    unit: str = ""
    pattern: str = ""
    evidence: str = ""
    bar: float | None = None
    second: float | None = None
    second_bar: float | None = None

    def __str__(self) -> str:
        head = f"{self.check}, {self.molecule}: {self.verdict}"
        if self.verdict in (FAILED, NOT_OFFERED):
            return f"{head}: {self.evidence}"
        by = f" to {self.limit:.1e}"
        if self.verdict == INCONSISTENT:
            bar, second = self.orders
            by = f" by {self.deviation:.1e} +- {bar} {self.unit}{f' (order 2: {second})' if second else ''}"
        why = f": {self.pattern}" if self.pattern else ""
        return f"{head}{by}{why}{f' ({self.evidence})' if self.evidence else ''}"

    @property
    def row(self) -> tuple[str, ...]:
        """A line of the table."""
        numbers = ("" if x is None else f"{x:.1e}" for x in (self.deviation, self.limit))
        return (self.check, self.molecule, self.verdict, *numbers, self.pattern)

    @property
    def orders(self) -> tuple[str, str]:
        """The error bar, and the deviation by differences of order 2 with its own; empty without."""
        bar = "" if self.bar is None else f"{self.bar:.0e}"
        return bar, "" if self.second is None else f"{self.second:.1e} +- {self.second_bar:.0e}"


@dataclass(frozen=True, repr=False)
class CodeAudit(Printed):
    """Whether a program's answers are consistent with each other.

    name: the program with its version.   outcomes: one for each check of each molecule.   calculations: how many.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    calculations: int

    @property
    def passed(self) -> bool:
        """True if nothing is inconsistent and nothing failed."""
        return not any(outcome.verdict in (INCONSISTENT, FAILED) for outcome in self.outcomes)

    @property
    def findings(self) -> tuple[Outcome, ...]:
        """Outcomes that need attention."""
        return tuple(o for o in self.outcomes if o.verdict in (INCONSISTENT, FAILED, UNDECIDED))

    @property
    def summary(self) -> str:
        """One line."""
        asked = [o for o in self.outcomes if o.verdict != NOT_OFFERED]
        right = sum(o.verdict == CONSISTENT for o in asked)
        return f"{self.name}: {right} of {len(asked)} checks consistent, {self.calculations} calculations"

    @property
    def left_out(self) -> str:
        """What was not asked, in one line; empty without."""
        asked = {o.check for o in self.outcomes if o.verdict != NOT_OFFERED}
        names = dict.fromkeys(o.check for o in self.outcomes if o.check not in asked)
        return f"not offered: {', '.join(names)}" if names else ""

    def _rows(self) -> Sequence[tuple[str, ...]]:
        return [o.row for o in self.outcomes if o.verdict != NOT_OFFERED]

    def __rich__(self) -> Group:
        shown = _table(HEADINGS, self._rows(), right=("deviation", "limit"))
        lines = [f"{k}. {outcome}" for k, outcome in enumerate(self.findings, start=1)]
        return Group(Text(self.summary), shown, *map(Text, (*lines, *([self.left_out] if self.left_out else []))))

    def html(self) -> str:
        """A page of its own."""
        shown = [o for o in self.outcomes if o.verdict != NOT_OFFERED]
        rows = [tuple(map(escape, (*o.row, *o.orders))) for o in shown]
        body = [
            f"<h1>{escape(self.summary)}</h1>",
            f'<div class="scroll" tabindex="0">{table(rows, (*HEADINGS, *ORDERS))}</div>',
            *(f'<p class="warning">{escape(str(o))}</p>' for o in self.findings),
            f"<p>{escape(self.left_out)}</p><p>dftfd {escape(VERSION)}</p>",
        ]
        return web_page(self.name, "\n".join(body))

    def write(self, path: Path) -> None:
        """Write a file .json or .html."""
        texts = {".json": lambda: json.dumps(self.to_json(), indent=1) + "\n", ".html": self.html}
        if path.suffix.lower() not in texts:
            raise InputError(f"{path}: an audit is written as .json or .html.")
        write_text(path, texts[path.suffix.lower()]())


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
    """Check whether the results of a program are consistent with each other: a `CodeAudit`, with `.passed`.

    target: an ASE calculator, its class or a factory; a function Mole -> PySCF mean field; an object with `name`,
        `offers`, `conditions` and `compute` (`dftfd.interop.audit_targets.Target`); or text: 'dftfd', 'psi4', 'nwchem',
        'FILE.toml' for another executable, 'qcengine:PROGRAM:METHOD:BASIS', 'FILE.py:NAME' or 'module:NAME'.
    molecules: names ('water', 'NH2'), coordinates as text [angstrom], xyz files ('own.xyz:-1', 'own.xyz:0,3'), or
        `dftfd.interop.audit_targets.Setting` objects. Default: water and NH2. An odd electron is unpaired.
    checks: names of checks; by default all that the target offers.
    progress: called with a line of text before each check.

    Forces, Hessians, dipole moments and other derivatives are compared with central differences of the program's own
    results, with error bars. Sum rules, symmetry, the order of atoms and equivalent inputs are tested as well.
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


class OwnTarget:
    """dftfd with options of `run_scf`; derivatives are its own, differences those of its energies.

    excited: options of `excitations`, such as tda.   conv_tol is 1e-12 unless it is given.
    """

    offers = frozenset(QUANTITIES)
    conditions = frozenset({"spin", "field", "charges", "state"})

    def __init__(self, xc: Any = "pbe", basis: Any = "6-31g", excited: Any = None, **options: Any):
        refuse_unknown("OwnTarget", options, list(OPTIONS))
        self.xc, self.basis, self.excited = xc, basis, dict(excited or {})
        self.options = {"conv_tol": 1e-12} | options
        self._last: tuple[tuple, SCFResult] | None = None

    @property
    def name(self) -> str:
        said = "".join(f", {key}={value}" for key, value in self.options.items() if key != "conv_tol")
        return f"dftfd {VERSION}, {self.xc}/{self.basis}{said}"

    def in_basis(self, basis: str) -> "OwnTarget":
        return OwnTarget(self.xc, basis, self.excited, **self.options)

    def variants(self, setting: Setting) -> dict[str, "OwnTarget"]:
        finer = {"grid_level": min(self.options.get("grid_level", 3) + 3, 9)}
        found = {"finer grid": OwnTarget(self.xc, self.basis, self.excited, **self.options | finer)}
        if self.options.get("solvent") is not None:
            without = {key: value for key, value in self.options.items() if not key.startswith("solvent")}
            found["without solvent"] = OwnTarget(self.xc, self.basis, self.excited, **without)
        return found

    def _run(self, setting: Setting, options: dict[str, Any], unit: str = "bohr") -> SCFResult:
        positions = setting.in_angstrom if unit == "angstrom" else setting.positions
        atoms = list(zip(setting.symbols, np.asarray(positions).tolist(), strict=True))
        nuclei = molecule(atoms, self.basis, setting.charge, setting.spin, unit=unit, allow_close=True)
        options = self.options | options
        if np.any(setting.field):
            options["electric_field"] = setting.field
        if len(setting.charges):
            options["point_charges"] = np.roll(setting.charges, 1, axis=1)
        result = run_scf(nuclei, self.xc, progress=False, **options)
        if not result.converged:
            raise NotConvergedError(f"the SCF of {setting.name or nuclei.formula} has not converged.")
        return result

    def compute(self, quantity: str, setting: Setting) -> Any:
        """The quantity; calculations start from the density of the one before where that has the same atoms."""
        if setting.state and quantity not in ("energy", "forces"):
            raise UnsupportedError("energies and forces of excited states only.")
        ground = setting.but(state=0).key
        if self._last is None or self._last[0] != ground:
            same = self._last is not None and self._last[0][:3] == ground[:3]
            self._last = ground, self._run(setting, {"guess": self._last[1]} if same and self._last else {})
        return getattr(self, f"_{quantity}")(self._last[1], setting)

    def _excitations(self, result, setting):
        return result.excitations(setting.state + 3, **self.excited)

    def _energy(self, result, setting):
        return result.free_energy + (
            self._excitations(result, setting).energies[setting.state - 1] if setting.state else 0.0
        )

    def _forces(self, result, setting):
        if setting.state:
            return self._excitations(result, setting).forces(setting.state - 1)
        return result.forces()

    def _hessian(self, result, setting):
        return result.hessian()

    def _dipole(self, result, setting):
        return result.dipole

    def _polarizability(self, result, setting):
        return result.polarizability()

    def _dipole_derivatives(self, result, setting):
        return result.vibrations().dipole_derivatives

    def _polarizability_derivatives(self, result, setting):
        return result.vibrations(raman=True).polarizability_derivatives

    def _infrared(self, result, setting):
        return result.vibrations().infrared

    def _charge_forces(self, result, setting):
        return result.point_charge_forces()

    def _restarted(self, result, setting):
        return self._run(setting, {"guess": result}).free_energy

    def _reloaded(self, result, setting):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.h5"
            result.save(path)
            return load_result(path, self.xc if not isinstance(self.xc, str) else None).free_energy

    def _in_angstrom(self, result, setting):
        return self._run(setting, {"guess": result}, "angstrom").free_energy

    def _other_integrals(self, result, setting):
        other = {"guess": result, "density_fit": not result.calculation.density_fit}
        return self._run(setting, other).free_energy
