"""Auditor of functionals: are the derivatives that a code returns those of its energy?

Every derivative of order k, of ours, of libxc or of a function written for PySCF, is compared with differences of the
same code's derivatives of order k - 1, extrapolated so that a relative error of 1e-6 shows, and, where a functional of
this package is given as reference, with its derivatives by functional automatic differentiation.

Differences: L. F. Richardson, J. A. Gaunt, Phil. Trans. R. Soc. A 226, 299 (1927). doi:10.1098/rsta.1927.0008

A source is code of libxc's variables that gives an energy and its derivatives by component. It is called with x
(variable, point), rows `VARIABLES[n_spin]`, the number of spins and an order; it returns for each order up to that one
a dict {component: (point,)}, a component being an ascending tuple of positions in VARIABLES. The energy is per volume.
Components that a source does not give are left out; orders that it does not offer too.
"""

import importlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from dftfd.errors import FunctionalError, InputError, UnsupportedError, one_line, shown
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import signature_of
from dftfd.functionals.named_files import code_in_file, functional_in_file, names_file, names_formula
from dftfd.functionals.registry import get_functional
from dftfd.interop import libxc
from dftfd.interop.numint import LAYOUT
from dftfd.runtime.arguments import Kind, choice, public, whole
from dftfd.verify.grid_functional_conditions import audit_grid_functionals
from dftfd.verify.point_comparison import scaled_error
from dftfd.verify.reports import AuditReport, Checked, Finding
from dftfd.verify.sampling import EDGES, describe, edge_points, equal_spins, inner_points
from dftfd.xc.channels import FAMILIES, MEMBERS, VARIABLES, family_of, named_components
from dftfd.xc.pointwise import pointwise_kernel

FIRST_STEPS = (0.1, 0.02, 0.004)
"""Largest step of each ladder, in units of the variable's scale; the others of the ladder are halves of it."""
LEVELS = 4


@dataclass(frozen=True)
class Estimates:
    """Estimate of a derivative and of its error, each (point,).

    Two ladders of steps whose results agree make one estimate; the error is what they differ by, since neither rounding
    nor cancellation inside the code is the same for both.
    """

    value: np.ndarray
    error: np.ndarray


def differences(code, x: np.ndarray, scale: np.ndarray) -> list[dict]:
    """Derivatives of everything that `code` returns: for each variable {key: Estimates}.

    code: x (variable, point) -> {key: (point,)}; called once.   scale: (variable, point), what steps are measured by.
    """
    n_variables, n_points = x.shape
    fractions = np.array([first / 2**level for first in FIRST_STEPS for level in range(LEVELS)])
    steps = fractions[:, None] * scale[:, None, :]  # (variable, step, point)
    moved = np.broadcast_to(x[:, None, None, None, :], (n_variables, n_variables, fractions.size, 2, n_points)).copy()
    for i in range(n_variables):
        moved[i, i] += steps[i][:, None, :] * np.array([1.0, -1.0])[:, None]
    given = code(moved.reshape(n_variables, -1))
    results: list[dict] = [{} for _ in range(n_variables)]
    for key, rows in given.items():
        values = np.reshape(rows, (n_variables, fractions.size, 2, n_points))
        with np.errstate(all="ignore"):
            slopes = (values[:, :, 0] - values[:, :, 1]) / (2 * steps)
            noise = np.finfo(float).eps * np.abs(values).max(axis=2) / steps
        shape = (n_variables, len(FIRST_STEPS), LEVELS, n_points)
        slopes, noise = slopes.reshape(shape), noise.reshape(shape)
        for i in range(n_variables):
            results[i][key] = _extrapolated(slopes[i], noise[i])
    return results


def _extrapolated(slopes, noise) -> Estimates:
    """Romberg's table over the levels of each ladder, and the pair of neighbouring ladders that agrees best."""
    table = slopes  # (ladder, level, point)
    with np.errstate(all="ignore"):
        for k in range(1, LEVELS):
            last = table[:, -1]
            table = table[:, 1:] + (table[:, 1:] - table[:, :-1]) / (4**k - 1)
        value = table[:, 0]
        own = np.abs(value - last) + noise[:, -1]
        error = np.abs(value[1:] - value[:-1]) + np.minimum(own[1:], own[:-1])
    error = np.where(np.isfinite(error), error, np.inf)
    best = np.argmin(error, axis=0)[None]
    middle = np.where(own[1:] < own[:-1], value[1:], value[:-1])
    return Estimates(np.take_along_axis(middle, best, axis=0)[0], np.take_along_axis(error, best, axis=0)[0])


N_POINTS, MOST_POINTS = 12, 100_000
RELIABLE = 1e-7
"""Estimated relative error up to which a difference decides."""
ENERGY_CLOSE = 1e-9
ROUNDING = 1e-13
"""Derivatives, times their variables, that are smaller than this part of the largest one of their order are rounding.

Components that are exactly zero, such as mixed ones of exchange, are up to 6e-16 of it in libxc.
"""


@public
def audit(
    target: Any,
    *,
    xctype: Annotated[str, choice("LDA", "GGA", "MGGA")] = "GGA",
    reference: Any = None,
    libxc: bool = False,
    points: Annotated[int, whole(3, MOST_POINTS)] = N_POINTS,
) -> AuditReport:
    """Check the derivatives of a functional: an `AuditReport`, with `.passed` and `.findings`.

    target: a name, expression or Functional, with dftfd's derivatives; with libxc=True a libxc name, with libxc's
        derivatives; a function like PySCF's eval_xc(xc_code, rho, spin=0, deriv=1) -> (exc, vxc, fxc, kxc), or an
        object with such a method, such as PySCF's NumInt.
    xctype: LDA, GGA or MGGA, the rows of rho that eval_xc takes.
    reference: functional of dftfd that the target should equal, with automatic derivatives. Default: the functional of
        the same name for libxc=True, none for eval_xc.
    points: number of densities in each region (`dftfd.verify.sampling`).

    Detects wrong factors (down to a relative 1e-6), wrong signs, exchanged components, missing terms, zeros although
    the energy depends on the variable, derivatives of the energy per electron instead of per volume, and values that
    are not finite. Only the orders that the target offers are checked, up to the third.

    >>> import dftfd
    >>> print(dftfd.audit("lda_x").passed)
    True
    """
    if (grid_functionals := _with_grid_functionals(target, libxc)) is not None:
        return audit_grid_functionals(grid_functionals)
    source, ours = _sources(target, xctype, reference, libxc)
    checked, findings, notes, energies = [], [], [], {}
    for n_spin in (1, 2):
        x = inner_points(n_spin, points)
        equal = x[:, :points] if n_spin == 1 else equal_spins(inner_points(1, points)[:, :points])
        try:
            energies[n_spin] = source(equal, n_spin, 1)[0][()]
        except NotOfferedError as error:
            notes.append(f"not checked, because not offered: {error}")
            continue
        except CodeRaisedError as error:
            if 1 not in energies:
                raise
            notes.append(f"two spins were not checked: {error}")
            continue
        for rows, found in _audit_layout(source, ours, x, n_spin, notes):
            checked.append(rows)
            findings += found
        findings += _edges(source, n_spin, notes)
    if not checked:
        raise UnsupportedError(f"{source.name} offers no derivatives: {'; '.join(notes)}.")
    if len(energies) == 2:
        findings += _layouts(energies, inner_points(1, points)[:, :points])
    return AuditReport(source.name, tuple(checked), tuple(findings), tuple(dict.fromkeys(notes)))


_CODE = Kind(
    "a name, an expression, a Functional, or code of PySCF's kind, eval_xc",
    lambda target: getattr(target, "eval_xc", target if callable(target) else None),
)
_NAME = Kind("a name of libxc", lambda target: str(target).lower())


def _with_grid_functionals(target, libxc) -> Functional | None:
    if libxc or not isinstance(target, str | Functional):
        return None
    functional = get_functional(target)
    return functional if functional.grid_functionals else None


def _sources(target, xctype, reference, libxc):
    """(what is audited, the functional of ours that it is compared with or None)."""
    code = _CODE.checked("target", target)
    source: LibxcSource | EvalXCSource | OwnSource
    if libxc:
        source = LibxcSource(_NAME.checked("target", target))
        if reference is None:
            reference = _counterpart(source.name)
    elif code is not None:
        source = EvalXCSource(code, xctype.upper(), getattr(code, "__qualname__", None) or shown(code))
    else:
        source = OwnSource(get_functional(target))
    return source, None if reference is None else OwnSource(get_functional(reference))


def _counterpart(name):
    try:
        return get_functional(name)
    except (FunctionalError, UnsupportedError, ImportError):
        return None


def import_target(text: str) -> Any:
    """What "module:function" or "file.py:function" names: code of PySCF's kind, or a functional in a file."""
    if names_formula(text):
        return functional_in_file(text)
    found = import_code(text)
    is_functional = names_file(text) and (isinstance(found, Functional) or _is_formula(found))
    return functional_in_file(text) if is_functional else found


def import_code(text: str) -> Any:
    """The object that "module:name" or "file.py:name" names, as it is; the file or module is executed."""
    if names_file(text):
        return code_in_file(text)
    place, _, attribute = text.rpartition(":")
    try:
        return getattr(importlib.import_module(place), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"{text!r} can't be imported: {error}; module:function or file.py:function expected."
        ) from error


def _is_formula(found):
    """Whether this is code of densities, def own(n, *, mu=0.2)."""
    try:
        signature_of(found, "")
    except FunctionalError:
        return False
    return True


# ---- derivatives in the inside


def _scale(x, n_spin):
    """(variable, point): what steps are measured by."""
    scale = np.abs(x)
    if n_spin == 2:
        scale[3] = 0.2 * np.sqrt(x[2] * x[4])
    return scale


def _audit_layout(source, ours, x, n_spin, notes):
    """(Checked, findings) for each order that the source offers."""
    families = source.ingredients(n_spin)
    used = [k for family in families for k in MEMBERS[n_spin][family]]
    rows = source(x, n_spin, HIGHEST)
    known = None if ours is None else ours(x, n_spin, len(rows) - 1)
    if known is not None and not _close(rows[0][()], known[0][()], ENERGY_CLOSE).all():
        worst = int(np.argmin(_close(rows[0][()], known[0][()], ENERGY_CLOSE)))
        numbers = (float(rows[0][()][worst]), float(known[0][()][worst]))
        yield (
            Checked(0, n_spin, 1, 0, ours.name),
            [Finding("other energy", "e", n_spin, f"is not that of {ours.name}", _place(x, worst, n_spin), *numbers)],
        )
        known = None
    if len(rows) <= HIGHEST:
        notes.append(f"no derivatives above order {len(rows) - 1} are offered")
    wrong: set[tuple[int, ...]] = set()
    steps = _scale(x, n_spin)
    for order in range(1, len(rows)):
        code = lambda moved, order=order: source(_embed(moved, x, used), n_spin, order - 1)[order - 1]
        slopes = dict(zip(used, differences(code, x[used], steps[used]), strict=True))
        reference = None if known is None else known[order]
        yield _audit_order(_Order(order, n_spin, x, steps, rows, slopes, reference, used), wrong, source, ours)


def _embed(moved, x, used):
    """All variables, of which those in `used` were moved and the others are repeated."""
    full = np.tile(x, (1, moved.shape[1] // x.shape[1]))
    full[used] = moved
    return full


class _Order:
    """The derivatives of one order, and what they are compared with."""

    def __init__(self, order, n_spin, x, steps, rows, slopes, reference, used):
        self.order, self.n_spin, self.x, self.steps, self.used = order, n_spin, x, steps, used
        self.given, self.energy = rows[order], rows[0][()]
        self.slopes, self.reference = slopes, reference
        self.n = x[:n_spin].sum(axis=0)
        sizes = [np.abs(v) * self._unit(c) for c, v in self.given.items()]
        self.largest = np.max([np.where(np.isfinite(v), v, 0.0) for v in (np.abs(self.energy), *sizes)], axis=0)

    def _unit(self, component):
        return np.prod(self.steps[list(component)], axis=0)

    def rounding(self, component):
        """(point,): what a component may differ by, or from zero, without a mistake."""
        return ROUNDING * self.largest / self._unit(component)

    def components(self):
        return list(itertools.combinations_with_replacement(self.used, self.order))

    def values(self, component):
        return self.given.get(component, np.zeros(self.x.shape[1]))

    def estimates(self, component, avoided=()):
        """(value, error) with one row for each way to the component through differences, (way, point)."""
        values, errors = [], []
        for i in dict.fromkeys(component):
            lower = list(component)
            lower.remove(i)
            found = self.slopes[i].get(tuple(lower))
            if found is not None and tuple(lower) not in avoided:
                values.append(found.value)
                errors.append(found.error)
        shape = (len(values), self.x.shape[1])
        return np.reshape(values, shape), np.reshape(errors, shape)

    def expected(self, component, avoided=()):
        """(value, error), each (point,): the most reliable one; NaN where there is none."""
        if self.reference is not None and component in self.reference:
            return self.reference[component], np.zeros(self.x.shape[1])
        values, errors = self.estimates(component, avoided)
        if not len(values):
            return (np.full(self.x.shape[1], np.nan),) * 2
        best = np.argmin(np.where(np.isfinite(values), errors, np.inf), axis=0)[None]
        return np.take_along_axis(values, best, axis=0)[0], np.take_along_axis(errors, best, axis=0)[0]


def _audit_order(level: _Order, wrong, source, ours):
    findings, looked_at, passed = [], 0, 0
    for component in level.components():
        verdict = _verdict(level, component, wrong)
        if verdict is None:
            continue
        looked_at += 1
        if verdict.any():
            wrong.add(component)
            findings.append(_finding(level, component, wrong, verdict))
        else:
            passed += 1
    against = "differences" if level.reference is None else f"differences, {ours.name}"
    return Checked(level.order, level.n_spin, looked_at, passed, against), findings


def _verdict(level, component, wrong):
    """(point,): where the component is wrong; None if it can't be told anywhere (it is zero, as far as one can see)."""
    given = level.values(component)
    values, errors = level.estimates(component, wrong)
    scale, rounding = np.maximum(np.abs(values), np.abs(given)), level.rounding(component)
    with np.errstate(all="ignore"):
        reliable = np.isfinite(values) & (errors <= RELIABLE * scale) & (scale > rounding)
        agrees = np.abs(values - given) <= CLOSE * scale
    bad = (reliable & ~agrees).any(axis=0) & ~(reliable & agrees).any(axis=0)
    decided = reliable.any(axis=0)
    if level.reference is not None:
        exact = level.reference.get(component, np.zeros_like(given))
        families = tuple(family_of(k, level.n_spin) for k in component)
        bad |= (scaled_error(given, exact, level.n, families) > CLOSE) & (np.abs(given - exact) > rounding) & decided
    bad |= ~np.isfinite(given)
    return bad if decided.any() or bad.any() else None


def _finding(level, component, wrong, bad):
    given, quantity = level.values(component), named(component, level.n_spin)
    if not np.isfinite(given).all():
        worst = int(np.flatnonzero(~np.isfinite(given))[0])
        place = _place(level.x, worst, level.n_spin)
        return Finding("not finite", quantity, level.n_spin, "is not finite", place, float(given[worst]), None)
    expected, error = level.expected(component, wrong - {component})
    sure = bad & (error <= RELIABLE * np.abs(expected))
    bad, n = sure if sure.any() else bad, level.n
    others = {named(c, level.n_spin): level.expected(c)[0][bad] for c in level.components() if c != component}
    per_electron = level.energy / n if component[0] < level.n_spin else np.zeros_like(n)
    kind, message = diagnose(component, given[bad], expected[bad], n[bad], others, per_electron[bad])
    if component not in level.given:
        message = "was not returned (None), but is not zero"
    shown = int(np.argmin(np.where(bad, np.abs(np.log(n)), np.inf)))  # the density closest to one
    place = _place(level.x, shown, level.n_spin, level.used)
    return Finding(kind, quantity, level.n_spin, message, place, float(given[shown]), float(expected[shown]))


def _close(a, b, tolerance):
    return np.abs(a - b) <= tolerance * np.abs(b)


def _place(x, k, n_spin, used=None):
    return f"{_numbers(x, k, n_spin, used)} ({describe(x[:, k])})"


def _numbers(x, k, n_spin, used=None):
    """Values of the variables in `used`, of all if it is None."""
    used = range(len(x)) if used is None else used
    return ", ".join(f"{VARIABLES[n_spin][i]} = {x[i, k]:.6g}" for i in used)


# ---- the edges, and the two layouts


def _edges(source, n_spin, notes):
    """Energies and first derivatives that are not finite at the edge of what densities can be."""
    x, findings = edge_points(n_spin), []
    for order, rows in enumerate(source(x, n_spin, HIGHEST)):
        for component, values in rows.items():
            for k in np.flatnonzero(~np.isfinite(values)):
                if order > 1:
                    notes.append(f"derivatives of order {order} are not finite at {EDGES[k]} ({n_spin} spin layout)")
                    continue
                quantity, at = named(component, n_spin), f"{EDGES[k]}: {_numbers(x, k, n_spin)}"
                findings.append(Finding("not finite", quantity, n_spin, "is not finite", at, float(values[k]), None))
    return findings


def _layouts(energies, x):
    """The energy of equal spins has to be that of the total density."""
    agrees = _close(energies[2], energies[1], 1e-8) | ~np.isfinite(energies[1])
    if agrees.all():
        return []
    worst = int(np.argmin(agrees))
    numbers = float(energies[2][worst]), float(energies[1][worst])
    message = "of equal spins is not the unpolarised one"
    return [Finding("layouts", "e", 2, message, _place(x, worst, 1), *numbers)]


CLOSE = 4e-7
"""Relative difference below which two derivatives are the same."""


def diagnose(component, given, expected, n, alternatives, energy_per_electron) -> tuple[str, str]:
    """(kind, message) for a component with wrong values.

    given, expected: (point,).   n: total density.   alternatives: {name: (point,)}, what else it could have been meant
    to be, other components of the same order.   energy_per_electron: (point,), where it is a first derivative with
    respect to a density, 0.0 else.
    """
    if not np.any(given):
        return "silent zero", "is zero without being it"
    if _same(given, -expected):
        return "sign", "has the wrong sign"
    with np.errstate(all="ignore"):
        ratio = given / expected
        typical = float(np.median(ratio))
        is_constant = bool(ratio.size > 2 and np.all(np.abs(ratio - typical) < 0.3 * abs(typical - 1)))
    if is_constant and abs(typical - 1) < 0.01:
        return "factor", f"is {typical:.8g} times what it should be"
    for name, values in alternatives.items():
        if _same(given, values) and not _same(values, expected):
            return "order", f"holds {name}"
    if len(component) == 1 and _is_per_electron(given, expected, n, energy_per_electron):
        return "per electron", "is the derivative of the energy per electron, not per volume"
    if is_constant:
        return "factor", f"is {typical:.8g} times what it should be"
    return "wrong", "is not the derivative; a term is wrong or missing"


def _is_per_electron(given, expected, n, energy_per_electron):
    """n d(e/n)/dx + (e/n) dn/dx = de/dx, at points where the first of the two counts."""
    right = np.abs(n * given + energy_per_electron - expected) <= 10 * CLOSE * np.abs(expected)
    return bool(right.all() and np.any(np.abs(n * given) > 0.1 * np.abs(expected)))


def _same(a, b):
    return bool(np.all(np.abs(a - b) <= 10 * CLOSE * np.abs(b)) and np.any(b))


INGREDIENTS = {"LDA": FAMILIES[:1], "GGA": FAMILIES[:2], "MGGA": FAMILIES}
HIGHEST = 3
NUMBERS = Kind("an array of real numbers", lambda value: np.asarray(value).astype(np.float64, casting="same_kind"))
_ROWS = {"LDA": ((0,),), "GGA": ((0, 1, 2, 3),), "MGGA": ((0, 1, 2, 3, 5), (0, 1, 2, 3, 4, 5))}
"""Rows of density, gradient, Laplacian, tau that PySCF passes: five of a meta-GGA, with the Laplacian before 2.0."""

_WITHOUT_LAPLACIAN = {
    1: ("vrho", "vsigma", "vtau"),
    2: ("v2rho2", "v2rhosigma", "v2sigma2", "v2rhotau", "v2sigmatau", "v2tau2"),
    3: tuple(name for name in LAYOUT[3] if "lapl" not in name),
}
"""The shorter tuples that PySCF's `define_xc_` takes of a meta-GGA."""


class NotOfferedError(UnsupportedError):
    """A spin layout that the code does not know."""


class OwnSource:
    """A Functional of this package, by automatic differentiation."""

    def __init__(self, functional: Functional):
        self.functional = functional.semilocal_part
        self.name = functional.name

    def ingredients(self, n_spin):
        return pointwise_kernel(self.functional, n_spin).ingredients

    def __call__(self, x, n_spin, order):
        return pointwise_kernel(self.functional, n_spin).by_component(x, order, compiled=False)


class LibxcSource:
    """A functional of PySCF's libxc, by libxc's own code."""

    def __init__(self, name: str):
        self.name = name
        self.used = libxc.ingredients(name)

    def ingredients(self, n_spin):
        return self.used

    def __call__(self, x, n_spin, order):
        d = libxc.reference([(1.0, self.name)], x, n_spin, order=max(order, 1))
        result = [{(): d.energy}]
        for k in range(1, order + 1):
            arrays: Any = {1: d.first, 2: d.second, 3: d.third}[k]
            if arrays is None:
                break
            named = named_components(n_spin, self.used, k)
            components = [c for group in named.values() for c in group]
            zero = np.zeros(x.shape[1])
            entries: dict = {c: arrays.get(c, zero) if k == 3 else arrays[c] for c in components}
            result.append(entries)
        return result


class CodeRaisedError(FunctionalError):
    """The audited code raised an exception."""


class EvalXCSource:
    """A function of PySCF's kind: eval_xc(xc_code, rho, spin=, deriv=) -> (exc, vxc, fxc, kxc).

    xctype: LDA, GGA or MGGA, which says what rho holds: the density, its gradient, tau. A function of meta-GGAs that
    does not take five rows is given six, with the Laplacian before tau, as older versions of PySCF did.
    Gradients point in all directions, as on a molecule's grid.
    """

    def __init__(self, code: Callable, xctype: str, name: str):
        if xctype not in INGREDIENTS:
            raise FunctionalError(f"xctype {xctype!r} was given; LDA, GGA or MGGA expected.")
        self.code, self.xctype, self.name = code, xctype, name
        self.rows = next((rows for rows in _ROWS[xctype][:-1] if self._takes(rows)), _ROWS[xctype][-1])

    def _takes(self, rows):
        """True unless the function fails on a density of these rows as code does that unpacks another number.

        One spin decides where it is offered: a function without spins fails on two whatever their rows.
        """
        for n_spin in (1, 2):
            try:
                self._offered(np.ones((2, len(rows), 2))[:n_spin].reshape([2] * (n_spin - 1) + [-1, 2]), n_spin, 1)
            except (ValueError, IndexError):
                return False
            except NotOfferedError:
                continue
            return True
        return True

    def ingredients(self, n_spin):
        families = INGREDIENTS[self.xctype]
        return families if 4 in self.rows else tuple(f for f in families if f != "lapl")

    def __call__(self, x, n_spin, order):
        rho = _density_rows(x, n_spin)[:, self.rows]
        rho = rho[:, 0] if self.xctype == "LDA" else rho
        with np.errstate(all="ignore"):
            given = self._offered(rho if n_spin == 2 else rho[0], n_spin, order)
        n, points = x[:n_spin].sum(axis=0), x.shape[1]
        result = [{(): n * self._row(given[0], "exc", 1, points)[0]}]
        for k in range(1, min(order, len(given) - 1) + 1):
            if given[k] is None:
                break
            result.append(self._components(given[k], n_spin, k, points))
        return result

    def _offered(self, rho, n_spin, order):
        """The tuple of the highest order that does not raise NotImplementedError."""
        for deriv in range(max(order, 1), 0, -1):
            try:
                given = self.code("", rho, spin=n_spin - 1, deriv=deriv)
            except NotImplementedError as error:
                reason = error
            except Exception as error:  # the audited code may raise anything: then it cannot be audited
                raise CodeRaisedError(
                    f"{self.name} raised {type(error).__name__} ({one_line(str(error), 80)}) for rho of shape "
                    f"{np.shape(rho)}, spin={n_spin - 1}, deriv={deriv}; a function as PySCF's eval_xc expected."
                ) from error
            else:
                if not isinstance(given, tuple | list) or len(given) < 2:
                    raise FunctionalError(f"{self.name} returned {shown(given)}; (exc, vxc, fxc, kxc) expected.")
                return given
        raise NotOfferedError(str(reason)) from reason

    def _components(self, arrays, n_spin, order, points):
        layout = LAYOUT[order]
        if 4 not in self.rows and len(arrays) == len(_WITHOUT_LAPLACIAN[order]):
            layout = _WITHOUT_LAPLACIAN[order]
        if len(arrays) > len(layout):
            raise FunctionalError(
                f"{self.name} returned {len(arrays)} arrays of order {order}; at most {len(layout)} expected."
            )
        named = named_components(n_spin, INGREDIENTS["MGGA"], order)
        result: dict = {}
        for name, array in zip(layout, arrays, strict=False):
            if array is not None:
                rows = self._row(array, name, len(named[name]), points)
                result.update(zip(named[name], rows, strict=True))
        return result

    def _row(self, array, name, count, points):
        """(component, point) of an array (point, component), or (point,) for one component."""
        array = NUMBERS.checked(f"{self.name} returned {name}", array, FunctionalError)
        if array.shape != (points, count) and not (count == 1 and array.shape == (points,)):
            raise FunctionalError(
                f"{self.name} returned {name} of shape {array.shape} for {points} points; ({points}, {count}) expected."
            )
        return array.reshape(points, count).T


def _density_rows(x, n_spin):
    """(spin, component, point): density, gradient, Laplacian, tau, from libxc's variables."""
    if n_spin == 1:
        gradients = np.stack([np.sqrt(x[1]), *np.zeros((2, x.shape[1]))])[None]
        rho, lapl, tau = x[:1], x[2:3], x[3:4]
    else:
        aa, ab, bb = x[2:5]
        length, zero = np.sqrt(aa), np.zeros_like(aa)
        along = np.divide(ab, length, out=np.zeros_like(aa), where=length > 0)
        across = np.sqrt(np.maximum(bb - along**2, 0.0))
        gradients = np.stack([np.stack([length, zero, zero]), np.stack([along, across, zero])])
        rho, lapl, tau = x[:2], x[5:7], x[7:9]
    gradients = np.einsum("ij,sjp->sip", _ROTATION, gradients)
    return np.concatenate([rho[:, None], gradients, lapl[:, None], tau[:, None]], axis=1)


_ROTATION = np.array([[2.0, -2.0, 1.0], [1.0, 2.0, 2.0], [-2.0, -1.0, 2.0]]) / 3
"""Turns gradients out of the axes, orthogonal to the last digit."""


def named(component: tuple[int, ...], n_spin: int) -> str:
    """A component in words, such as v2rhosigma[a, ab]; the energy is e."""
    if not component:
        return "e"
    array = next(n for n, g in named_components(n_spin, FAMILIES, len(component)).items() if component in g)
    if n_spin == 1:
        return array
    return f"{array}[{', '.join(VARIABLES[2][k].split('_')[1] for k in component)}]"
