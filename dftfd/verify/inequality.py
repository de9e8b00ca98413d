"""An inequality on a box of its variables, made of a condition or of code, and its proof by subdivision.

A box is done where the enclosure of the left side is nowhere negative. Else it loses the directions along which the
left side is monotonous (its least value lies on a face), or is cut in two where the value varies most.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from dftfd.autofd.scalar.keys import code_fingerprint
from dftfd.autofd.scalar.program import ScalarProgram, evaluate
from dftfd.autofd.scalar.reader import exact_program
from dftfd.errors import InputError, UnsupportedError, closest_names, shown
from dftfd.functionals.base import Functional
from dftfd.runtime.arguments import accepted, require_bare
from dftfd.verify.enclosures import Boxes, Dual, OnSeries
from dftfd.verify.factored import Factored, factored
from dftfd.verify.intervals import Interval, exactly, require_nearest
from dftfd.verify.local_conditions import CONDITIONS, DOMAIN, VARIABLES, enhancements, used_variables
from dftfd.verify.statements import Statement

PROVED, VIOLATED, UNDECIDED, FACE = 16, 17, 18, 32
"""Kinds of a node of the tree; numbers below 16 are the input that is cut, those from FACE on say which sides remain:
FACE + sum of 3^k for the lower and 2 * 3^k for the upper side of input k."""

BATCH = 2048
_CLEAR = 1e-6
"""Least over largest slope that counts as monotonous; at s = 0 slopes vanish, and rounding decides nothing."""
_SMALLEST = 1e-9
"""Width of a box, in units of the domain's, that is not cut any more."""


@dataclass(frozen=True, eq=False)
class Inequality:
    """constant + sum of coefficient times Taylor coefficient of an output >= 0 on a domain.

    program: factored, of inputs `names`; its last output says where the formula is defined.
    terms: (output, order along ln of input 0, coefficient).   lo, hi: ends of the domain (input,).
    statement: the inequality as it was given, for the recheck.   claim: what a proof of it says, in its texts.
    """

    program: ScalarProgram
    names: tuple[str, ...]
    lo: np.ndarray
    hi: np.ndarray
    terms: tuple[tuple[int, int, float], ...]
    constant: float = 0.0
    statement: Statement | None = None
    claim: tuple = ()

    @property
    def order(self) -> int:
        return max((k for _, k, _ in self.terms), default=0)

    def enclosed(self, lo: np.ndarray, hi: np.ndarray) -> "Enclosure":
        """The left side on boxes with ends (input, box)."""
        require_nearest()
        boxes = Boxes.of(lo, hi)
        algebra = OnSeries(boxes, self.order)
        with np.errstate(all="ignore"):
            *outputs, (inside, at_centre, _) = evaluate(self.program, algebra, algebra.inputs)
            total = algebra.number(exactly(self.constant))[0]
            for output, order, coefficient in self.terms:
                if order < len(outputs[output]):
                    total = total + outputs[output][order].times(exactly(coefficient))
            total = total._met()
        shape = lo.shape[1]
        full = lambda x: Interval(np.broadcast_to(x.lo, shape), np.broadcast_to(x.hi, shape))
        value = Dual(full(total.r), full(total.c), {k: full(g) for k, g in total.g.items()}, boxes)
        return Enclosure(value, full(inside), full(at_centre))


class Enclosure(NamedTuple):
    """value: of the left side.   defined, at_centre: whether it is, everywhere in the boxes and in their centres."""

    value: Dual
    defined: Interval
    at_centre: Interval

    @property
    def proved(self):
        return (self.value.r.lo >= 0) & (self.defined.lo == 1)

    @property
    def violated(self):
        """Everywhere, as far as it is defined."""
        return (self.value.r.hi < 0) & (self.defined.lo == 1)

    @property
    def violated_at_centre(self):
        return (self.value.c.hi < 0) & (self.at_centre.lo == 1)


def end(x, towards: float) -> float:
    """An end of a domain as float64, further out where a number of another kind is none."""
    require_bare(accepted(not isinstance(x, bool | np.bool_), x))
    x = x.item() if hasattr(x, "item") else x
    near = float(x)
    exact = Fraction(*x.as_integer_ratio()) if math.isfinite(near) else near
    return math.nextafter(near, towards) if (near > exact if towards < 0 else near < exact) else near


def cut(lo: float, hi: float) -> float:
    """Where a side is cut: in the geometric mean where it spans more than a factor of four."""
    if lo > 0 and hi > 4 * lo:
        return float(np.sqrt(lo) * np.sqrt(hi))
    return float(lo + 0.5 * (hi - lo))


def _middle(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """`cut` of many sides."""
    return np.where((lo > 0) & (hi > 4 * lo), np.sqrt(np.abs(lo)) * np.sqrt(np.abs(hi)), lo + 0.5 * (hi - lo))


@dataclass
class Subdivision:
    """The tree of boxes: kind of each node, number of its first child (the second follows), ends (input, node)."""

    kinds: list[np.ndarray] = field(default_factory=list)
    kind: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    child: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lo: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    hi: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    count: int = 0

    def grow(self, lo, hi) -> np.ndarray:
        """Adds boxes; their numbers."""
        n, new = self.count, lo.shape[1]
        if n + new > self.kind.size:
            size = max(2 * self.kind.size, n + new, 4096)
            wider = lambda a: np.concatenate([a, np.zeros((*a.shape[:-1], size - a.shape[-1]), a.dtype)], axis=-1)
            if not n:
                self.lo = self.hi = np.zeros((lo.shape[0], 0))
            self.kind, self.child, self.lo, self.hi = map(wider, (self.kind, self.child, self.lo, self.hi))
        self.lo[:, n : n + new], self.hi[:, n : n + new] = lo, hi
        self.kind[n : n + new] = UNDECIDED
        self.count = n + new
        return np.arange(n, n + new)

    def preorder(self) -> list[int]:
        """Kinds of the nodes, each before its children."""
        found, pending = [], [0]
        kind, child = self.kind.tolist(), self.child.tolist()
        while pending:
            i = pending.pop()
            found.append(kind[i])
            if kind[i] < PROVED:
                pending += [child[i] + 1, child[i]]
            elif kind[i] >= FACE:
                pending.append(child[i])
        return found


def subdivide(
    inequality: Inequality, limit: int, whole_map: bool = False, stop=None
) -> tuple[Subdivision, np.ndarray | None]:
    """The tree of at most `limit` evaluated boxes, and a point (input,) that violates the inequality, or None.

    whole_map: go on after a violation, until all is decided or the limit is reached.   stop: () -> True ends it.
    """
    tree, point, worst = Subdivision(), None, 0.0
    queue = [tree.grow(inequality.lo[:, None], inequality.hi[:, None])]
    scale = np.maximum(inequality.hi - inequality.lo, 1e-300)[:, None]
    evaluated = 0
    while queue and evaluated < limit and not (stop and stop()):
        numbers = _next_batch(queue)
        lo, hi = tree.lo[:, numbers], tree.hi[:, numbers]
        found = inequality.enclosed(lo, hi)
        evaluated += numbers.size
        violated = found.violated_at_centre
        if violated.any():
            highest = np.where(violated, found.value.c.hi, 0.0)
            i = int(np.argmin(highest))
            if highest[i] < worst:
                worst, point = highest[i], np.array([np.asarray(m.lo)[i] for m in found.value.boxes.centres])
            if not whole_map:
                return tree, point
        proved, wrong = found.proved, found.violated
        tree.kind[numbers[proved]] = PROVED
        if whole_map:  # a proof knows a violation by its point; without one the box is not decided
            tree.kind[numbers[wrong]] = VIOLATED
        open_ones = ~(proved | wrong | (found.defined.hi == 0))
        middle = _middle(lo, hi)
        width = np.where((lo < middle) & (middle < hi), (hi - lo) / scale, 0.0)  # no number lies between: no cut
        open_ones &= (width > _SMALLEST).any(axis=0)
        if open_ones.any():
            with np.errstate(all="ignore"):
                queue += _refined(tree, found, numbers, open_ones, lo, hi, width, whole_map)
    return tree, point


def _next_batch(queue) -> np.ndarray:
    """Boxes from the end of the queue, as many as a batch has; small groups are joined."""
    taken, count = [], 0
    while queue and count < BATCH:
        group = queue.pop()
        room = BATCH - count
        if group.size > room:
            queue.append(group[room:])
            group = group[:room]
        taken.append(group)
        count += group.size
    return np.concatenate(taken)


def _refined(tree, found, numbers, open_ones, lo, hi, width, whole_map) -> list[np.ndarray]:
    """Numbers of the children of boxes that are open: faces, where all of the box is known to be defined, or halves."""
    d, value = lo.shape[0], found.value
    code = np.zeros(numbers.size, dtype=np.int32)
    smear = np.where(width > _SMALLEST, width * 1e-3, 0.0)
    for k in range(d):
        g = value.g.get(k)
        if g is None:  # constant along this input
            smear[k] = 0.0
            code += np.where(hi[k] > lo[k], 3**k, 0).astype(np.int32)
            continue
        rising, falling = (g.lo > _CLEAR * g.hi) & (hi[k] > lo[k]), (g.hi < _CLEAR * g.lo) & (hi[k] > lo[k])
        code += (np.where(rising, 1, np.where(falling, 2, 0)) * 3**k).astype(np.int32)
        change = np.maximum(np.abs(g.lo), np.abs(g.hi)) * (hi[k] - lo[k])
        smear[k] = np.where(np.isfinite(change) & (width[k] > _SMALLEST), change, smear[k])
    # where a gradient is unknown, the widest side of those is cut
    for k in range(d):
        g = value.g.get(k)
        if g is not None:
            blind = ~(np.isfinite(g.lo) & np.isfinite(g.hi)) & (width[k] > _SMALLEST)
            smear[k] = np.where(blind, 1e30 * width[k], smear[k])
    children = []
    faces = open_ones & (code > 0) & (not whole_map) & (found.defined.lo == 1)
    if faces.any():
        children.append(_faces(tree, numbers[faces], code[faces], lo[:, faces], hi[:, faces]))
    halves = open_ones & ~faces & (smear.max(axis=0) > 0)
    if halves.any():
        axis = np.argmax(smear, axis=0)
        children.append(_halves(tree, numbers[halves], axis[halves], lo[:, halves], hi[:, halves]))
    return children


def _faces(tree, numbers, code, lo, hi) -> np.ndarray:
    lo, hi = lo.copy(), hi.copy()
    for k in range(lo.shape[0]):
        side = code // 3**k % 3
        hi[k] = np.where(side == 1, lo[k], hi[k])
        lo[k] = np.where(side == 2, hi[k], lo[k])
    new = tree.grow(lo, hi)
    tree.kind[numbers], tree.child[numbers] = FACE + code, new
    return new


def _halves(tree, numbers, axis, lo, hi) -> np.ndarray:
    columns = np.arange(numbers.size)
    middle = _middle(lo[axis, columns], hi[axis, columns])
    low, high = np.repeat(lo, 2, axis=1), np.repeat(hi, 2, axis=1)
    high[axis, 2 * columns] = middle
    low[axis, 2 * columns + 1] = middle
    new = tree.grow(low, high)
    tree.kind[numbers], tree.child[numbers] = axis, new[::2]
    return new


_LIMITS = {"rs": (1e-12, 1e7), "s": (0.0, 1e30), "zeta": (-1.0, 1.0)}
"""Of domains. At larger r_s kernels lift spin densities (functionals/numerics.py), and below their floor are zero."""

_MOST = 9
"""Variables that have a width: as many as the tree of a certificate has places for (dftfd.verify.inequality)."""

_PARTS = {"F_x": ("x",), "F_c": ("c",), "F_xc": ("x", "c")}


def arguments_of(code) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(code).parameters)
    except Exception as error:
        raise InputError(
            f"the inequality cannot be read: its arguments have no names ({type(error).__name__}); write a function."
        ) from error


def _checked_ends(name: str, ends) -> tuple[float, float]:
    try:
        require_bare(ends)
        a, b = (end(x, far) for x, far in zip(ends, (-math.inf, math.inf), strict=True))
    except Exception as error:
        raise InputError(f"domain of {name}: {shown(ends)} found; a pair of numbers expected.") from error
    least, most = _LIMITS.get(name, (-1e30, 1e30))
    if not (least <= a <= b <= most):
        raise InputError(f"domain of {name}: {shown(ends)} found; give ends in order, from {least:g} to {most:g}.")
    return a, b


def whole_domain(f: Functional, given: Mapping) -> dict[str, tuple[float, float]]:
    """The whole domain of a functional's variables."""
    _require_names(given, VARIABLES)
    used = used_variables(f.semilocal_part) if f.semilocal_part.terms else ("rs",)
    ends = {k: _checked_ends(k, given.get(k, DOMAIN[k])) for k in used}
    if (ends.get("zeta", (0.0, 0.0))) == (0.0, 0.0):
        ends.pop("zeta", None)
    return ends


def _require_names(given, known) -> None:
    for name in given:
        if name not in known:
            close = ", ".join(closest_names(name if isinstance(name, str) else "", known)) or "none"
            raise InputError(f"domain has no variable {shown(name)}; the closest are {close}.")


def _prepared(domain: Mapping, keep: tuple[str, ...]) -> tuple[Factored, dict, tuple[str, ...]]:
    """Algebra and polynomials of the variables; those of no width are numbers, but for `keep`."""
    names = tuple(k for k, (a, b) in domain.items() if a < b or k in keep)
    if len(names) > _MOST:
        raise InputError(f"the domain has {len(names)} variables with a width; {_MOST} at most: fix the others.")
    algebra = Factored([Interval(*domain[k]) for k in names])
    variables = {k: algebra.number(a) for k, (a, _) in domain.items() if k not in names}
    return algebra, variables | dict(zip(names, algebra.inputs, strict=True)), names


def condition_of(f: Functional, condition: str, domain: Mapping) -> Inequality:
    """A known condition of a functional on a domain."""
    known = CONDITIONS[condition]
    if known.order and domain["rs"][0] == domain["rs"][1]:  # a switch at this r_s would choose for r_s beside it
        raise InputError(
            f"{condition} holds derivatives along r_s, which one value of r_s does not tell: give rs two ends."
        )
    algebra, variables, names = _prepared(domain, ("rs",))
    polarised = "zeta" in domain
    polynomials, energies = zip(*enhancements(f, known.parts, algebra, variables, polarised), strict=True)
    terms = tuple((known.parts.index(part), k, c) for part, k, c in known.terms)
    statement = Statement(energies, polarised, _fixed(domain, names))
    return _inequality(algebra, polynomials, domain, names, terms, known.constant, statement)


def _fixed(domain, names) -> dict[str, float]:
    return {k: float(a) for k, (a, _) in domain.items() if k not in names}


def own_inequality(f: Functional | None, code: Callable, given: Mapping) -> tuple[Inequality, dict]:
    """An inequality that is given as code; and its domain."""
    wanted = arguments_of(code)
    energies = [k for k in wanted if f is not None and k in _PARTS]
    domain = whole_domain(f, {k: v for k, v in given.items() if k in VARIABLES}) if energies and f is not None else {}
    for k in wanted:
        if k not in energies and k not in domain:
            if k not in given and k not in DOMAIN:
                raise InputError(f"the domain of {k!r} is missing: give domain={{{k!r}: (from, to)}}.")
            domain[k] = _checked_ends(k, given.get(k, DOMAIN.get(k)))
    _require_names(given, domain)
    algebra, variables, names = _prepared(domain, ())
    formulas: list = []
    if f is not None:
        for k in energies:
            found, own = zip(*enhancements(f, _PARTS[k], algebra, variables, "zeta" in domain), strict=True)
            variables[k] = found[0] if len(found) == 1 else algebra.add(*found)
            formulas += own
    try:
        program = exact_program(*_by_places(code, wanted))
    except UnsupportedError:
        raise
    except Exception as error:
        raise InputError(
            f"the inequality cannot be read: {type(error).__name__}. Write it in JAX's functions."
        ) from error
    if len(program.outputs) != 1:
        raise InputError(f"the inequality has {len(program.outputs)} values; one expected.")
    _require_same_of_numbers(code, wanted, domain)
    algebra.literal = True
    polynomials = factored(program, [variables[k] for k in wanted], algebra)
    statement = _own_statement(wanted, energies, formulas, program, "zeta" in domain, _fixed(domain, names))
    return _inequality(algebra, polynomials, domain, names, ((0, 0, 1.0),), 0.0, statement), domain


def _require_same_of_numbers(code, wanted, domain) -> None:
    """InputError for code that does with numbers what it does not while JAX traces it: it asks which it is given.

    Both run one operation after the other in float64, so they give the same number; three points are tried.
    """
    called, *specs = _by_places(code, wanted)
    for share in (0.3, 0.6, 0.9):
        at = [jnp.float64(a + share * (b - a)) for a, b in (domain.get(k, (0.1, 1.1)) for k in wanted)]
        with jax.debug_nans(False), jax.debug_infs(False):
            traced = jaxpr_as_fun(jax.make_jaxpr(called)(*specs))(*at)[0]
            try:
                (value,) = jax.tree_util.tree_leaves(called(*at))  # one, in a tuple or dict perhaps
            except Exception as error:
                value = type(error).__name__
        same = not isinstance(value, str) and np.allclose(value, traced, rtol=1e-9, atol=0, equal_nan=True)
        if not same:
            where = ", ".join(f"{k} = {float(x):.6g}" for k, x in zip(wanted, at, strict=True))
            raise InputError(
                f"the inequality is {shown(value)} where it is called with {where}, but {float(traced):.10g} where JAX "
                "traces it: give code that does the same with numbers and with traced values."
            )


def _by_places(code, wanted) -> tuple:
    """(code of its arguments one after the other, their types)."""
    specs = [jax.ShapeDtypeStruct((), np.float64)] * len(wanted)
    return lambda *x: code(**dict(zip(wanted, x, strict=True))), *specs


def own_fingerprint(code: Callable) -> str:
    """Of an inequality's own code, as it is now."""
    return code_fingerprint(*_by_places(code, arguments_of(code)), rules=False)


def _own_statement(wanted, energies, formulas, program, polarised, fixed) -> Statement:
    numbers = {
        k: tuple(range(n := sum(len(_PARTS[j]) for j in energies[:i]), n + len(_PARTS[k])))
        for i, k in enumerate(energies)
    }
    return Statement(tuple(formulas), polarised, fixed, program, tuple(numbers.get(k, k) for k in wanted))


def _inequality(algebra, polynomials, domain, names, terms, constant, statement) -> Inequality:
    lo, hi = (np.array([domain[k][side] for k in names], dtype=float) for side in (0, 1))
    return Inequality(algebra.program(polynomials), names, lo, hi, terms, constant, statement)
