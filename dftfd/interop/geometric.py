"""geomeTRIC's geometry optimiser, given energies and gradients from elsewhere.

L.-P. Wang, C. Song, J. Chem. Phys. 144, 214108 (2016). doi:10.1063/1.4952956
"""

import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dftfd.errors import (
    DftfdError,
    InputError,
    InputWarning,
    MissingDependencyError,
    UnsupportedError,
    closest_names,
    shown,
)
from dftfd.libcint.mole import BOHR_IN_ANGSTROM
from dftfd.runtime.written_numbers import real
from dftfd.system.internal_coordinates import warn_about_dihedrals, warn_about_distances

# Name: geomeTRIC's class, whether fragments are connected, whether Cartesians are added.
_COORDINATES = {
    "tric": ("DelocalizedInternalCoordinates", False, False),
    "dlc": ("DelocalizedInternalCoordinates", True, False),
    "hdlc": ("DelocalizedInternalCoordinates", False, True),
    "prim": ("PrimitiveInternalCoordinates", True, False),
    "tric-p": ("PrimitiveInternalCoordinates", False, False),
    "cart": ("CartesianCoordinates", False, False),
}
COORDINATE_SYSTEMS = tuple(_COORDINATES)


MINIMUM, SADDLE, REACTION_PATH = "minimum", "saddle", "reaction path"
_ARGUMENTS = {
    "transition": "transition_state=True",
    "irc": "dftfd.reaction_path",
    "hessian": "hessian=",
    "maxiter": "max_steps=",
    "xyzout": "trajectory=",
}
"""Parameters of geomeTRIC that are arguments of dftfd."""

_LOOSE = 100.0
"""Times geomeTRIC's own thresholds of convergence, above which almost any geometry meets one: another unit is meant."""

_OF_KIND: dict[str, dict] = {MINIMUM: {}, SADDLE: {"transition": True}, REACTION_PATH: {"irc": True}}


def minimise(
    symbols: Sequence[str],
    coordinates: Any,
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    *,
    constraints: str | None = None,
    coordinate_system: str = "tric",
    max_steps: int = 100,
    hessian: np.ndarray | None = None,
    kind: str = MINIMUM,
    options: Mapping | None = None,
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Minimise an energy over coordinates, starting from (atom, 3) [bohr], or look for what else `kind` says.

    Returns whether it converged, and the steps taken, coordinates (step, atom, 3) [bohr] and energies (step,)
    [hartree]; those of a reaction path go from one end of it to the other.

    evaluate: coordinates (atom, 3) -> energy [hartree] and gradient (atom, 3); its last call has the last geometry.
    constraints: text in geomeTRIC's format, such as '$freeze' and 'distance 1 2' on two lines.
    coordinate_system: one of COORDINATE_SYSTEMS.
    hessian: (atom, 3, atom, 3) [hartree/bohr^2] at the start; without, a guess.   kind: MINIMUM, SADDLE (of first
        order) or REACTION_PATH (downhill on both sides of a saddle); the last two need a Hessian.
    options: more of geomeTRIC's parameters, by its names.

    Raises InputError with geomeTRIC's words where it refuses a request; errors of `evaluate` pass unchanged.
    """
    try:
        from geometric import engine, errors, molecule, optimize, params
    except ImportError as error:
        raise MissingDependencyError("optimising geometries needs geomeTRIC: pip install 'dftfd[opt]'.") from error

    failures: list[Exception] = []  # of `evaluate`

    class Engine(engine.Engine):
        def calc_new(self, coords, dirname):
            try:
                energy, gradient = evaluate(coords.reshape(-1, 3))
            except Exception as error:
                failures.append(error)
                raise
            return {"energy": float(energy), "gradient": np.array(gradient).ravel()}

    options = dict(options or {})
    _require_known(symbols, coordinate_system, options, vars(params.OptParams()))
    try:
        params.OptParams(**options)
    except (errors.Error, LookupError, OSError, TypeError, ValueError) as error:
        raise InputError(
            f"geomeTRIC does not take optimizer={shown(options)} ({type(error).__name__}: {error}); see the parameters "
            "in its documentation."
        ) from error
    system = molecule.Molecule()
    system.elem, system.xyzs = list(symbols), [np.array(coordinates) * BOHR_IN_ANGSTROM]
    try:
        objects, targets = _constraints(system, constraints)
        internals = _internal_coordinates(system, coordinate_system, objects, targets[0])
        with tempfile.TemporaryDirectory() as folder:
            given = {"maxiter": max_steps} | _OF_KIND[kind] | options
            if hessian is not None:
                H = np.reshape(hessian, (3 * len(symbols),) * 2)
                given |= {"hessian": "never", "hess_data": H.tolist(), "frequency": kind == REACTION_PATH}
            given["xyzout"] = f"{folder}/path_optim.xyz"
            start = np.array(coordinates, dtype=float).ravel()
            optimizer = optimize.Optimizer(
                start, system, internals, Engine(system), folder, params.OptParams(**given), print_info=False
            )
            converged = _runs_to_the_end(optimizer, errors.GeomOptNotConvergedError)
            frames = optimizer.progress
    except Exception as error:  # geomeTRIC raises whatever it ends in
        if isinstance(error, DftfdError) or error in failures:
            raise
        raise InputError(f"geomeTRIC: {' '.join(str(error).split())}") from error
    return converged, np.array(frames.xyzs) / BOHR_IN_ANGSTROM, np.array(frames.qm_energies, dtype=float)


def _runs_to_the_end(optimizer, not_converged) -> bool:
    """Whether geomeTRIC's loop ends with convergence."""
    try:
        optimizer.optimizeGeometry()
    except not_converged:
        return False
    return True


def _require_known(symbols, coordinate_system, options, known):
    if len(symbols) < 2:
        raise InputError("a single atom has no geometry to optimise; give a molecule of two atoms or more.")
    if coordinate_system not in _COORDINATES:
        closest = ", ".join(closest_names(str(coordinate_system), COORDINATE_SYSTEMS))
        raise InputError(f"unknown coordinate system {coordinate_system!r}; closest: {closest}.")
    defaults = {name.lower(): default for name, default in known.items()} | {"convergence_set": ""}
    for name, value in options.items():  # geomeTRIC itself ignores what it does not know
        if name in _ARGUMENTS:
            raise InputError(f"optimizer option {name!r} is {_ARGUMENTS[name]} here.")
        if name not in defaults:
            raise InputError(f"unknown optimizer option {name!r}; closest: {', '.join(closest_names(name, defaults))}.")
        default = defaults[name]
        if default is not None and not isinstance(value, Real if isinstance(default, float) else type(default)):
            raise InputError(f"optimizer option {name}={shown(value)}: give a value like geomeTRIC's {default!r}.")
        if isinstance(value, Real) and not math.isfinite(value):
            raise InputError(f"optimizer option {name}={value}: give a finite number.")
        if name.startswith("convergence_") and isinstance(default, float) and value > _LOOSE * default:
            warnings.warn(
                f"optimizer option {name}={value:g} is met by almost any geometry; {default:g} is geomeTRIC's default "
                "(hartree, angstrom, hartree/bohr).",
                InputWarning,
                stacklevel=5,
            )


def _constraints(system, text):
    """geomeTRIC's objects and their target values; None and [None] without constraints."""
    from geometric import prepare

    if not text:
        return None, [None]
    _require_constraints(text, system)
    try:
        objects, targets = prepare.parse_constraints(system, text)
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise InputError(
            f"geomeTRIC does not understand the constraints ({type(error).__name__}: {error}); its format is a line "
            "'$freeze' or '$set' and below it lines such as 'distance 1 2' or 'angle 1 2 3 104.5'."
        ) from error
    if len(targets) > 1:
        raise UnsupportedError("a scan has several targets for one constraint; optimise to each of them in turn.")
    seen = dict[str, float | None]()
    for coordinate, value in zip(map(str, objects), targets[0], strict=True):  # geomeTRIC takes the last without a word
        if seen.setdefault(coordinate, value) != value:
            raise InputError(f"constraints have {coordinate} twice, with two values; leave one out.")
    return objects, targets


_ATOMS_OF = {"distance": 2, "angle": 3, "dihedral": 4}


def _require_constraints(text, system):
    """InputError for what geomeTRIC takes without a word: no constraint at all, text behind $, impossible values,
    radians, elements that no atom has, zx, whose values it takes for x and z, and the rotation of one atom, which does
    not end; a warning for distances in other units than angstrom.
    """
    known = {str(k): r for k, r in enumerate(system.xyzs[0], start=1)}  # angstrom
    lines = [words for line in text.split("\n") if (words := line.partition("#")[0].lower().split())]
    modes = [words for words in lines if words[0].startswith("$")]
    if wrong := next((words for words in modes if words not in (["$freeze"], ["$set"], ["$scan"])), None):
        raise InputError(f"constraints have the line {shown(' '.join(wrong))}; $freeze or $set alone expected in it.")
    if len(modes) == len(lines):
        raise InputError("constraints hold none; below '$freeze' or '$set' a line such as 'distance 1 2' is expected.")
    mode = None
    for kind, *words in lines:
        mode = kind if kind.startswith("$") else mode
        value = real(words[-1]) if mode == "$set" and words else None
        atoms = words[: _ATOMS_OF.get(kind, 0)]
        axes = kind.removeprefix("trans-")
        if set(axes) <= set("xyz") and words and words[0].isalpha() and words[0].capitalize() not in system.elem:
            raise InputError(f"constraints have {shown(' '.join([kind, *words]))}, but no atom is {shown(words[0])}.")
        if mode == "$set" and set(axes) <= set("xyz") and list(axes) != sorted(axes):
            raise InputError(f"$set {shown(kind)}: write {''.join(sorted(axes))}, with the values in that order.")
        if kind == "rotation" and words and words[0].isdecimal():
            raise InputError(f"constraints have {shown(' '.join([kind, *words]))}; one atom does not rotate.")
        limits = {"distance": (0.0, math.inf), "angle": (2 * math.pi, 180.0)}.get(kind, (-math.inf, math.inf))
        if mode == "$set" and kind != mode and (value is None or not limits[0] < value <= limits[1]):
            line = " ".join([kind, *words])
            raise InputError(f"$set {shown(line)}: a distance [angstrom] or an angle [degree] expected at its end.")
        if kind == "dihedral" and value is not None:
            warn_about_dihedrals(f"$set {' '.join([kind, *words])}", [value])
        if kind == "distance" and value is not None and known.keys() >= {*atoms}:
            present = float(np.linalg.norm(known[atoms[1]] - known[atoms[0]]))
            warn_about_distances(f"$set {kind} {' '.join(atoms)}", [value], present)


def _internal_coordinates(system, name, constraints, targets):
    from geometric import internal

    kind, connect, add_cartesians = _COORDINATES[name]
    return getattr(internal, kind)(
        system, build=True, connect=connect, addcart=add_cartesians, constraints=constraints, cvals=targets
    )
