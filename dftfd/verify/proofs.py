"""`prove`: an inequality decided for all points of a domain, by proof, or by a counterexample."""

import base64
import json
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dftfd.autofd.scalar.on_mpmath import mpmath
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.errors import DamagedFileError, InputError, NumericalError, UnsupportedError, closest_names, shown
from dftfd.functionals.base import Functional
from dftfd.functionals.fingerprint import present_fingerprint
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import accepted, public, text, whole
from dftfd.runtime.arguments import path as a_path
from dftfd.runtime.files import picture, read_bytes, written_whole
from dftfd.runtime.json_reader import parse_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.version import VERSION
from dftfd.runtime.written_numbers import as_real
from dftfd.verify.extended import DIGITS, STEP, ExtendedEnergy
from dftfd.verify.inequality import (
    FACE,
    PROVED,
    UNDECIDED,
    VIOLATED,
    Inequality,
    Subdivision,
    arguments_of,
    condition_of,
    own_fingerprint,
    own_inequality,
    subdivide,
    whole_domain,
)
from dftfd.verify.local_conditions import CONDITIONS, FAR, part_of
from dftfd.verify.model_systems import C_F, C_X
from dftfd.verify.proof_checker import Recheck, recheck_tree, values_at
from dftfd.xc.pointwise import scalar_form

SAMPLE = 4096
"""Random points that are looked at before boxes are."""

_KIND = "dftfd proof"
_TEXTS = ("functional", "condition", "statement", "value", "fingerprint", "version")
_OF_PROCESS = ("inequality", "origin")  # are not in a file
_LARGEST = 10**8  # bytes of a certificate and of the tree in it: fifty for each box that is looked at by default


class Rechecked(tuple):
    """(boxes that hold, boxes in all).   directly: those that hold from the formula as it was given."""

    directly: int

    def __new__(cls, found: Recheck) -> "Rechecked":
        pair = super().__new__(cls, (found.held, found.total))
        pair.directly = found.directly
        return pair


@dataclass(frozen=True, repr=False)
class Proof(ShownAsText):
    """What `prove` found; print it.

    outcome: "proved" on the whole domain, "violated" at `point`, or "undecided" in the boxes `open_boxes`.
    functional, condition: names; condition is "" for an inequality given as code.   statement: the inequality.
    domain: {variable: (from, to)}.   value: the left side at `point`, in digits.
    undefined_at: a random point at which the left side has no value, None where none is known.
    region: where random points violate it, {variable: (from, to)}, and fraction of them.
    tree: kinds of the boxes, each before its parts (dftfd.verify.inequality).   boxes: how many were proved.
    fingerprint: of the functional's traced formulas and their parameters, and of an inequality given as code.
    origin: () -> what the fingerprint would be now.
    """

    functional: str
    condition: str
    statement: str
    domain: dict[str, tuple[float, float]]
    outcome: str
    point: dict[str, float] | None = None
    value: str = ""
    undefined_at: dict[str, float] | None = None
    region: dict[str, tuple[float, float]] = field(default_factory=dict)
    fraction: float = 0.0
    boxes: int = 0
    open_boxes: tuple = ()
    tree: tuple[int, ...] = ()
    seconds: float = 0.0
    fingerprint: str = ""
    version: str = VERSION
    inequality: Inequality | None = field(default=None, repr=False, compare=False)
    origin: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    @property
    def proved(self) -> bool:
        return self.outcome == "proved"

    def __str__(self) -> str:
        on = ", ".join(
            f"{k} = {_text(a)}" if a == b else f"{k} from {_text(a)} to {_text(b)}" for k, (a, b) in self.domain.items()
        )
        head = f"{self.functional}: {self.statement}\non {on}".removeprefix(": ")
        if self.outcome == "proved":
            return f"{head}\nproved, {self.boxes} boxes, {self.seconds:.1f} s"
        if self.outcome == "violated":
            at = ", ".join(f"{k} = {v:.17g}" for k, v in (self.point or {}).items())
            lines = [head, f"violated at {at}", f"left side {self.value}"]
            if self.region:
                where = ", ".join(f"{k} {a:.3g} to {b:.3g}" for k, (a, b) in self.region.items())
                lines.append(f"{100 * self.fraction:.1f} % of {SAMPLE} random points violate it, at {where}")
            return "\n".join(lines)
        line = f"{head}\nundecided: {self.boxes} boxes proved, {len(self.open_boxes)} listed that are open"
        if self.undefined_at:
            at = ", ".join(f"{k} = {v:.6g}" for k, v in self.undefined_at.items())
            line += f"\nthe left side is undefined at {at}: give a domain on which it is defined"
        return line

    @property
    def line(self) -> str:
        """proved, violated at a point, or undecided, and where: as the report card says it."""
        on = ", ".join(f"{k} {_text(a)} to {_text(b)}" for k, (a, b) in self.domain.items())
        if self.outcome == "violated":
            at = ", ".join(f"{k} = {v:.6g}" for k, v in (self.point or {}).items())
            return f"  violated at {at}: {self.statement}"
        return f"  {self.outcome}: {self.statement}, {on}"

    @public
    def save(self, path: Annotated[Path, a_path]) -> None:
        """Write the certificate as JSON; `load_proof` reads it. FileError where the file cannot be written, InputError
        for one that is too large to be read."""
        if 2 * len(self.tree) > _LARGEST:
            raise InputError(
                f"the tree has {len(self.tree)} nodes, a file holds {_LARGEST // 2}: prove parts of the domain."
            )
        names = [f.name for f in fields(self) if f.name not in ("tree", *_OF_PROCESS)]
        entries = {name: getattr(self, name) for name in names}
        packed = base64.b64encode(zlib.compress(np.asarray(self.tree, dtype="<i2").tobytes(), 9)).decode()
        text = json.dumps({"kind": _KIND, **entries, "tree": packed}, indent=1)
        with written_whole(path) as temporary:
            Path(temporary).write_text(text + "\n")

    @public
    def recheck(self, seconds: float | None = None) -> "Rechecked":
        """(boxes that hold, boxes in all) by Arb's ball arithmetic (python-flint), from the formula as it was given.

        Its `directly` is the number of boxes that hold without the prover's algebra (docs/proofs.md).
        After `seconds` the rest is left; boxes that would have to be cut too often do not count as held either.
        NumericalError if a box is refuted or the boxes do not cover the domain. InputError for what was not proved, for
        a formula that has changed, for a file whose domain or statement is not the condition's or whose formula is not
        the functional's, and for inequalities given as code that were read from a file: prove those again.
        """
        if not self.proved:
            raise InputError(f"only a proof can be rechecked; this one is {self.outcome!r}.")
        if self.origin is not None and self.origin() != self.fingerprint:
            raise InputError("the formula has changed since it was proved: prove it again.")
        found = recheck_tree(self._claimed(), list(self.tree), seconds)
        if not found.unrefuted:
            raise NumericalError(
                f"the certificate of {self.functional!r}, {self.condition or 'own inequality'}, does not hold in "
                f"Arb's arithmetic after {found.held} of {found.total} boxes."
            )
        return Rechecked(found)

    def _claimed(self) -> Inequality:
        """The inequality that the texts and the domain say; a changed copy of a proof may hold another one."""
        if self.inequality is None:
            return self._rebuilt()
        if self.inequality.claim != _claim(self.functional, self.condition, self.statement, self.domain):
            functional, _, statement, ends = self.inequality.claim
            raise InputError(
                f"the proof says {shown(self.statement)} of {self.functional!r} on {shown(self.domain)}, but its boxes "
                f"are about {shown(statement)} of {functional!r} on {shown(dict(ends))}: prove it again."
            )
        return self.inequality

    def _rebuilt(self) -> Inequality:
        if self.condition not in CONDITIONS:
            raise InputError("the inequality was given as code, which the file does not hold: prove it again.")
        functional = get_functional(self.functional)
        domain, statement = whole_domain(functional, self.domain), CONDITIONS[self.condition].title
        if domain != self.domain or statement != self.statement:
            raise InputError(
                f"the certificate is about {shown(self.statement)} on {shown(self.domain)}, but {self.condition} of "
                f"{self.functional!r} is {statement!r} on all of {', '.join(domain)}: prove it again."
            )
        if present_fingerprint(functional) != self.fingerprint:
            found = "is about another formula or other parameters" if self.fingerprint else "has no fingerprint"
            raise InputError(
                f"the certificate {found}; that of {self.functional!r} as registered here was expected: prove it again."
            )
        return condition_of(functional, self.condition, domain)

    @public
    def plot(self, path: Annotated[Path, a_path], boxes: Annotated[int, whole(1, 10**8)] = 6000) -> None:
        """Write the map of the first two variables, at the ends and the middle of a third, as a picture.

        MissingDependencyError without Matplotlib, InputError for an unknown ending, FileError where it is not written.
        """
        inequality = self._claimed()
        cuts = _slices(inequality)
        with picture(path, 4 * len(cuts) + 1, 3.6) as figure:
            _draw(figure, self, inequality, cuts, boxes)


def _claim(functional, condition, statement, domain) -> tuple:
    return functional, condition, statement, tuple(sorted(domain.items()))


@public
def load_proof(path: Path) -> Proof:
    """Read a certificate written by `Proof.save`. Raises FileError, or DamagedFileError for other files."""
    content = read_bytes(path, _LARGEST)
    try:
        entries = parse_json(content)
        if entries.pop("kind") != _KIND or entries.keys() & set(_OF_PROCESS):
            raise ValueError
        tree = _tree(base64.b64decode(entries.pop("tree"), validate=True))
        pairs = lambda d: {str(k): (float(a), float(b)) for k, (a, b) in d.items()}
        at = lambda d: None if d is None else {str(k): float(x) for k, x in d.items()}
        entries["domain"], entries["region"] = pairs(entries["domain"]), pairs(entries["region"])
        entries["point"], entries["undefined_at"] = at(entries["point"]), at(entries["undefined_at"])
        entries["seconds"], entries["fraction"] = float(entries["seconds"]), float(entries["fraction"])
        entries["open_boxes"] = tuple(tuple(map(tuple, box)) for box in entries["open_boxes"])
        proof = Proof(**entries, tree=tree)
        fits = proof.outcome in ("proved", "violated", "undecided")
        fits &= all(isinstance(getattr(proof, name), str) for name in _TEXTS)
        fits &= proof.proved == bool(tree) and not (proof.proved and proof.boxes != tree.count(PROVED))
        return accepted(fits, proof)
    except Exception as error:
        raise DamagedFileError(f"{str(path)!r} is not a proof that dftfd saved.") from error


def _tree(content: bytes) -> tuple[int, ...]:
    """Kinds of the nodes of a tree whose leaves are all proved; of a small file, that may stand for many nodes, those
    of nothing else are not kept."""
    kinds = np.frombuffer(_inflated(content), dtype="<i2")
    is_cut, is_leaf = (kinds >= 0) & (kinds < PROVED), kinds == PROVED
    pending = 1 + np.cumsum(is_cut.astype(np.int8) - is_leaf.astype(np.int8), dtype=np.int32)
    complete = not kinds.size or (pending[-1] == 0 and (pending[:-1] > 0).all())
    return tuple(accepted(complete and (is_cut | is_leaf | (kinds >= FACE)).all(), kinds).tolist())


def _inflated(content: bytes) -> bytes:
    """Decompressed, but no more than a tree can be: a small file can be made to stand for any number of bytes."""
    inflater = zlib.decompressobj()
    found = inflater.decompress(content, _LARGEST)
    if not inflater.eof:
        raise ValueError("it goes on")
    return found


@public
def prove(
    functional: Any,
    condition: Any = None,
    domain: dict | None = None,
    *,
    boxes: Annotated[int, whole(1, 10**8)] = 2_000_000,
) -> Proof:
    """Prove or refute an inequality for all points of a domain.

    functional: a name, expression or Functional, with a `condition`: a name of
        `dftfd.verify.local_conditions.CONDITIONS`, or a function that must be >= 0, whose arguments are F_x, F_c, F_xc
        (energy divided by the exchange energy of the unpolarised gas) and variables, selected by name. Or a function of
        variables alone, without a condition.
    domain: {variable: (from, to)}. Defaults of rs, s, alpha, q, zeta are XCVerifier's: r_s 1e-4 to 5, s and alpha 0 to
        5, zeta 0; q -1 to 1.
    boxes: maximum number of boxes, after which the outcome is undecided.

    Raises InputError for unknown names and invalid domains, UnsupportedError for functionals without a value at a
    point.

    >>> import dftfd
    >>> dftfd.prove("lda_c_vwn_rpa", "ec_scaling").outcome
    'proved'
    >>> dftfd.prove(lambda x: x * x - x + 0.26, domain={"x": (0, 1)}).outcome
    'proved'
    """
    began = time.perf_counter()
    if condition is None and not isinstance(functional, str | int | Functional) and callable(functional):
        build, origin = lambda: own_inequality(None, functional, domain or {}), lambda: own_fingerprint(functional)
        return _decided(build, ("", "", lambda: _text_of(functional)), None, origin, boxes, began)
    f = get_functional(functional)
    condition = text.checked("condition", condition) if isinstance(condition, str) else condition
    if callable(condition):
        build, texts = lambda: own_inequality(f, condition, domain or {}), (f.name, "", lambda: _text_of(condition))
        origin = lambda: present_fingerprint(get_functional(functional)) + own_fingerprint(condition)
        return _decided(build, texts, None, origin, boxes, began)
    if not isinstance(condition, str) or condition not in CONDITIONS:
        close = ", ".join(closest_names(condition if isinstance(condition, str) else "", CONDITIONS))
        raise InputError(f"condition={shown(condition)}: give code or a known condition; the closest are {close}.")
    ends = whole_domain(f, domain or {})
    texts = f.name, condition, lambda: CONDITIONS[condition].title
    origin = lambda: present_fingerprint(get_functional(functional))
    return _decided(lambda: (condition_of(f, condition, ends), ends), texts, f, origin, boxes, began)


def parsed_domain(texts) -> dict[str, tuple[float, float]]:
    """{variable: (from, to)} of texts VARIABLE=FROM:TO, or VARIABLE=NUMBER."""
    domain = {}
    for said in texts or ():
        name, _, ends = (part.strip() for part in said.partition("="))
        if name in domain:
            raise InputError(f"domain {said!r}: {name} was given before; give each variable once.")
        try:
            low, colon, high = ends.partition(":")
            domain[name] = (as_real(low.strip()), as_real((high if colon else low).strip()))
        except ValueError as error:
            raise InputError(f"domain {said!r}: VARIABLE=FROM:TO expected, as zeta=0:1.") from error
    return domain


def prove_and_report(name, conditions, domain, boxes, recheck, save, plot, say, at_work) -> bool:
    """`dftfd prove`: says what is found, condition by condition; True if all is proved.

    at_work: (text) -> context around what takes long.
    """
    ends, wanted = parsed_domain(domain), conditions or decidable(name)
    if not wanted:
        try:
            part_of(get_functional(name), "x")
        except UnsupportedError as error:
            raise UnsupportedError(f"no local condition is about {shown(name)}: {error}.") from error
    if (save or plot) and len(wanted) > 1:
        raise InputError(
            f"a certificate or picture is for one condition, {len(wanted)} were requested: give --condition."
        )
    fine = True
    for condition in wanted:
        with at_work(f"{condition}: looking at up to {boxes} boxes"):
            proof = prove(name, condition, ends, boxes=boxes)
        say(f"{proof}\n" if recheck is None or not proof.proved else str(proof))
        if recheck is not None and proof.proved:
            with at_work(f"{condition}: rechecking in ball arithmetic"):
                found = proof.recheck(recheck)
            held = "{} of {} boxes".format(*found)
            say(f"rechecked in Arb's ball arithmetic: {held}, {found.directly} from the formula alone\n")
        fine &= proof.proved
        if save:
            proof.save(save)
        if plot:
            proof.plot(plot)
    return fine


def decidable(functional: Any) -> list[str]:
    """Names of the conditions that are about a functional."""
    f, found = get_functional(functional), []
    for name, known in CONDITIONS.items():
        try:
            for part in known.parts:
                part_of(f, part[0])
        except UnsupportedError:
            continue
        found.append(name)
    return found


def decided_conditions(functional: Functional, boxes: int = 200_000) -> tuple[str, ...]:
    """A line for each local condition that is about a functional, decided on the default domain."""
    return tuple(prove(functional, name, boxes=boxes).line for name in decidable(functional))


def decide(functional: Functional, condition: str, domain: dict, boxes: int) -> Proof:
    """`prove` of a known condition for many formulas: without the fingerprint, which takes longer than most proofs.

    domain: of every variable that the formula has, and of no other; zeta only where it has a width.
    """
    build = lambda: (condition_of(functional, condition, domain), domain)
    texts = functional.name, condition, lambda: CONDITIONS[condition].title
    return _decided(build, texts, functional, lambda: "", boxes, time.perf_counter())


def _text(x: float) -> str:
    """A number in full: what is proved up to 0.9999999 is not proved up to 1."""
    return f"{x:g}" if float(f"{x:g}") == x else repr(float(x))


def _text_of(code) -> str:
    return f"{getattr(code, '__name__', 'code')}({', '.join(arguments_of(code))}) >= 0"


def _sampled(inequality: Inequality):
    """Random points (input, point), and the left sides there."""
    rng = np.random.default_rng(5)
    u = rng.uniform(size=(len(inequality.names), SAMPLE))
    x = inequality.lo[:, None] + u * (inequality.hi - inequality.lo)[:, None]
    if inequality.names and inequality.names[0] == "rs":  # half of them evenly in ln r_s
        a, b = np.log(inequality.lo[0]), np.log(inequality.hi[0])
        x[0, ::2] = np.exp(a + u[0, ::2] * (b - a))
    x = np.clip(x, inequality.lo[:, None], inequality.hi[:, None])
    return x, inequality.enclosed(x, x)


def _of_one_formula(build, origin, is_own: bool):
    """(inequality, domain, fingerprint); InputError where a user's formula is another one each time."""
    try:
        before = origin() if is_own else None
    except Exception:  # the builder says it better
        before = None
    inequality, domain = build()
    fingerprint = origin()
    if before is not None and fingerprint != before:
        raise InputError(
            "the formula changes each time it is traced, as with random numbers, a clock or a counter; it must "
            "depend on its arguments alone."
        )
    return inequality, dict(domain), fingerprint


def _decided(build, texts, f, origin, boxes: int, began: float) -> Proof:
    is_own = f is None or not all(getattr(t.formula, "__module__", "").startswith("dftfd.") for _, t in f.terms)
    inequality, domain, fingerprint = _of_one_formula(build, origin, is_own)
    functional, condition, statement = texts[0], texts[1], texts[2]()
    found: dict[str, Any] = {"functional": functional, "condition": condition, "statement": statement}
    if not inequality.names:
        raise InputError("the domain is a single point: give one variable a width.")
    inequality = replace(inequality, claim=_claim(functional, condition, statement, domain))
    found |= {"domain": domain, "fingerprint": fingerprint, "origin": origin}
    x, sides = _sampled(inequality)
    bad, point, tree = sides.violated, None, Subdivision()
    at = lambda point: dict(zip(inequality.names, map(float, point), strict=True))
    place = lambda point: {k: a for k, (a, _) in domain.items()} | at(point)
    nowhere = np.flatnonzero(sides.defined.hi == 0)
    if nowhere.size and not bad.any() and _has_no_value(inequality, f, condition, place(x[:, nowhere[0]])):
        found["undefined_at"] = at(x[:, nowhere[0]])
    if bad.any():
        where = x[:, bad]
        found["region"] = {k: (float(v.min()), float(v.max())) for k, v in zip(inequality.names, where, strict=True)}
        found["fraction"] = float(bad.mean())
        point = x[:, int(np.argmin(np.where(bad, sides.value.r.hi, np.inf)))]
    else:
        tree, point = subdivide(inequality, boxes)
    found["inequality"] = inequality
    if point is not None:
        named = place(point)
        value = _verified(inequality, f, condition, named, point)
        if value:
            found |= {"point": named, "value": value}
        return Proof(**found, outcome="violated" if value else "undecided", seconds=time.perf_counter() - began)
    kinds = tree.kind[: tree.count]
    found["boxes"], left = int((kinds == PROVED).sum()), np.flatnonzero(kinds == UNDECIDED)
    if left.size:
        ends = tuple((tuple(tree.lo[:, i].tolist()), tuple(tree.hi[:, i].tolist())) for i in left[:1000])
        return Proof(**found, outcome="undecided", open_boxes=ends, seconds=time.perf_counter() - began)
    return Proof(**found, outcome="proved", tree=tuple(tree.preorder()), seconds=time.perf_counter() - began)


def _has_no_value(inequality, f, condition, named) -> bool:
    """Whether none is found at a point: what counts as undefined may be a part that a choice leaves out."""
    statement = inequality.statement
    if f is None and (statement is None or statement.energies):
        return False
    try:
        if f is not None:
            return not math.isfinite(float(_in_digits(f, condition, named)))
        with np.errstate(all="ignore"):
            found = run_on_numpy(statement.code, [np.array([named[k]]) for k in statement.arguments])
        return not np.isfinite(found[0]).all()
    except (ArithmeticError, ValueError, TypeError):  # as float of a complex number's text
        return True


def _in_digits(f, condition, named) -> str:
    known = CONDITIONS[condition]
    return left_side_in_digits(f, {(p, k): c for p, k, c in known.terms}, known.constant, named)


def _verified(inequality, f, condition, named, point) -> str:
    """The negative left side at a point in 50 digits, or nothing if it is not negative there."""
    if f is not None:
        value = _in_digits(f, condition, named)
        return value if value.startswith("-") else ""
    ball, defined = values_at(inequality, list(map(float, point)))
    return ball.str(50, radius=False) if defined and ball < 0 else ""


def left_side_in_digits(functional: Functional, terms: dict, constant: float, point: dict[str, float]) -> str:
    """constant + sum of coefficient times Taylor coefficient {(part, order): coefficient} at {variable: number}.

    In 50 digits, from the formula as it stands: nothing of the prover takes part. The energy's own program runs on
    mpmath's numbers of 150 digits, and derivatives along ln r_s are central differences with a step of 1e-30, whose
    error is the square of it.
    """
    n_spin = 2 if "zeta" in point else 1
    parts = {part[0]: part_of(functional, part[0]) for part, _ in terms}
    energies = {kind: ExtendedEnergy(f, n_spin, scalar_form(f, n_spin, fold=False)) for kind, f in parts.items()}
    with mpmath.workdps(DIGITS):
        total = mpmath.mpf(constant)
        for (part, order), coefficient in terms.items():
            energy = energies[part[0]]
            rs = FAR if part == "c far" else point["rs"]
            F = lambda t, energy=energy, rs=rs: _enhancement(energy, point, mpmath.mpf(rs) * mpmath.exp(t), n_spin)
            total += coefficient * _coefficient(F, order)
        return mpmath.nstr(total, 50)


def _coefficient(F, order: int):
    """Taylor coefficient at t = 0."""
    h = STEP
    if order == 0:
        return F(mpmath.mpf(0))
    if order == 1:
        return (F(h) - F(-h)) / (2 * h)
    return (F(h) - 2 * F(mpmath.mpf(0)) + F(-h)) / (2 * h * h)


def _enhancement(energy, point, rs, n_spin):
    """e / e_x^LDA, in libxc's variables as in `local_conditions.Gas`."""
    third = mpmath.mpf(1) / 3
    s, alpha, q, zeta = (mpmath.mpf(point.get(k, 0.0)) for k in ("s", "alpha", "q", "zeta"))
    n = mpmath.mpf(3 / (4 * math.pi)) / rs**3
    k_F2 = mpmath.mpf(4 * (3 * math.pi**2) ** (2 / 3))
    sigma, unit = k_F2 * s**2 * n ** (8 * third), n ** (5 * third)
    lapl, tau_W, tau = k_F2 * q * unit, sigma * mpmath.mpf(0.125) / n, mpmath.mpf(C_F) * alpha * unit
    if n_spin == 1:
        x = [n, sigma, lapl, tau + tau_W]
    else:
        up, down = (1 + zeta) / 2, (1 - zeta) / 2
        tau = tau * ((2 * up) ** (5 * third) + (2 * down) ** (5 * third)) / 2 + tau_W
        x = [up * n, down * n, up * up * sigma, up * down * sigma, down * down * sigma]
        x += [up * lapl, down * lapl, up * tau, down * tau]
    return energy(x) / (mpmath.mpf(C_X) * n ** (4 * third))


_COLOURS = {PROVED: "#7fb77e", VIOLATED: "#c8553d", UNDECIDED: "#d9d9d9"}
_WORDS = {PROVED: "proved", VIOLATED: "violated", UNDECIDED: "open"}


def _slices(inequality: Inequality) -> list[dict[int, float]]:
    """Values of the inputs beyond the second: lower ends, middles, upper ends."""
    rest = range(2, len(inequality.names))
    if not rest:
        return [{}]
    at = lambda u: {k: float(inequality.lo[k] + u * (inequality.hi[k] - inequality.lo[k])) for k in rest}
    return [at(u) for u in (0.0, 0.2, 1.0)]


def _classified(inequality: Inequality, fixed: dict[int, float], boxes: int) -> list[tuple]:
    """(kind, lo, hi) of the boxes of a slice."""
    lo, hi = inequality.lo.copy(), inequality.hi.copy()
    for k, x in fixed.items():
        lo[k] = hi[k] = x
    part = Inequality(inequality.program, inequality.names, lo, hi, inequality.terms, inequality.constant)
    tree, _ = subdivide(part, boxes, whole_map=True)
    kinds = tree.kind[: tree.count]
    leaves = np.flatnonzero((kinds >= PROVED) & (kinds <= UNDECIDED))
    return [(int(kinds[i]), tree.lo[:, i], tree.hi[:, i]) for i in leaves]


def _draw(figure, proof, inequality, cuts, boxes):
    """The slices beside each other, with the point of a violation."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    flat = len(inequality.names) == 1
    for axes, fixed in zip(np.atleast_1d(figure.subplots(1, len(cuts))), cuts, strict=True):
        groups: dict[int, list] = {}
        for kind, lo, hi in _classified(inequality, fixed, boxes):
            y0, y1 = (0.0, 1.0) if flat else (lo[1], hi[1])
            groups.setdefault(kind, []).append(Rectangle((lo[0], y0), hi[0] - lo[0], y1 - y0))
        for kind, shapes in groups.items():
            axes.add_collection(PatchCollection(shapes, facecolor=_COLOURS[kind], edgecolor="none"))
        axes.set(xlim=(inequality.lo[0], inequality.hi[0]), xlabel=inequality.names[0])
        axes.set_ylim((0, 1) if flat else (inequality.lo[1], inequality.hi[1]))
        axes.set_ylabel("" if flat else inequality.names[1])
        axes.set_title(", ".join(f"{inequality.names[k]} = {x:g}" for k, x in fixed.items()), fontsize=9)
        if proof.point and not flat:
            axes.plot(*(proof.point[k] for k in inequality.names[:2]), "kx")
    figure.suptitle(f"{proof.functional}: {proof.statement}", fontsize=10)
    figure.legend(handles=[Patch(color=_COLOURS[k], label=w) for k, w in _WORDS.items()], loc="outside right upper")
