"""What has to hold between the answers of one program: each check is a function of a Session and a Setting.

Derivatives of answers are central differences with error bars. Steps h, 2h and 4h give order 4 twice, and order 2 three
times. Half of what the best two differ by is the error bar: where the step is too long they differ by fifteen (order 2:
three) times the error of the better one, where the answers are noisy by about the noise of either.

A Session computes nothing twice and checks the answers. `judge` says whether two of them agree within their error bars,
and by which pattern they differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import DftfdError, NumericalError, UnsupportedError
from dftfd.interop.audit_targets import Setting, Target, shape_of
from dftfd.libcint.mole import common_masses
from dftfd.results.vibrations import KM_PER_MOL
from dftfd.verify.audit import CodeRaisedError

NOISE_STEP = 1e-3
"""Step [bohr] of the fourth differences that show the noise: smooth answers leave less than 1e-11 in them."""


class Slope(NamedTuple):
    """A derivative of order 4 with its error bar, and of order 2 with its own."""

    value: np.ndarray
    bar: np.ndarray
    second: np.ndarray
    second_bar: np.ndarray


def derivative(of: Callable[[float], np.ndarray], step: float) -> Slope:
    """The derivative at zero; `of` is called six times."""
    sizes, slopes = [], []
    for k in (1, 2, 4):
        above, below = np.asarray(of(k * step)), np.asarray(of(-k * step))
        slopes.append((above - below) / (2 * k * step))
        sizes.append(np.abs(above))
    fourth = [(4 * slopes[0] - slopes[1]) / 3, (4 * slopes[1] - slopes[2]) / 3]
    rounding = np.finfo(float).eps * np.max(sizes, axis=0) / step
    bars = [np.abs(a - b) / 2 + rounding for a, b in (fourth, slopes[:2])]
    return Slope(fourth[0] + (fourth[0] - fourth[1]) / 15, bars[0], slopes[0], bars[1])


def gradient(of: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float) -> Slope:
    """The derivatives by each number in x, with the shape of x before that of the answer.

    One draw of noise may leave two orders equal by chance, so no bar is below the root mean square of all.
    """
    rows = []
    for index in np.ndindex(x.shape):
        along = np.zeros(x.shape)
        along[index] = 1.0
        rows.append(derivative(_line(of, x, along), step))
    value, bar, second, second_bar = (np.reshape(part, x.shape + np.shape(part[0])) for part in zip(*rows, strict=True))
    least = lambda bar: np.maximum(bar, np.sqrt(np.mean(bar**2)))
    return Slope(value, least(bar), second, least(second_bar))


def _line(of, x, along):
    return lambda t: of(x + t * along)


def noise(of: Callable[[float], np.ndarray]) -> float:
    """Root mean square of the noise in `of`, from its fourth differences (R. W. Hamming, Numerical Methods, ch. 10)."""
    values = [np.asarray(of(k * NOISE_STEP)) for k in range(-2, 3)]
    fourth = values[0] - 4 * values[1] + 6 * values[2] - 4 * values[3] + values[4]
    return float(np.sqrt(np.mean(fourth**2) / 70))


SMALLEST = 0.1
"""Below it [atomic units] errors are measured against this size, not against the quantity's own."""
SIGMAS = 6.0
"""How many error bars, and times the noise, answers may differ by."""
NEGLIGIBLE = 1e-5
"""Part of a quantity's size that nobody would call a mistake."""
UNSETTLED = 1e-2
"""Part of a quantity's size above which an error bar decides nothing."""
CLOSE_FACTOR = 0.05
"""Part of the deviation that a constant factor may leave."""
SLIGHT = 0.1
"""Part of the largest deviation that atoms of another kind may have where one kind alone is wrong."""
GONE = 0.25
"""Part of the deviation that is left, at most, where an ingredient is taken out that caused it."""

CONSISTENT, INCONSISTENT, UNDECIDED = "consistent", "INCONSISTENT", "undecided"
FAILED, NOT_OFFERED = "FAILED", "not offered"


@dataclass(frozen=True, eq=False)
class Comparison:
    """A quantity as a program gives it, and as it follows from other answers of the program.

    bar: error bar of `expected`, from differences.   noise: of what is given.   unit: of both.
    scale: size that errors are measured by; by default the largest expected value, SMALLEST at least.
    atoms: symbol for each entry of the first axis, where it has one.
    upper: True if `given` may be below `expected`.   drawn: of derivatives, the same in a few drawn directions.
    slope: of derivatives, `expected` and `bar` with those of order 2.
    """

    given: np.ndarray
    expected: np.ndarray
    unit: str
    bar: np.ndarray | float = 0.0
    noise: float = 0.0
    scale: float | None = None
    atoms: tuple[str, ...] = ()
    upper: bool = False
    drawn: "Comparison | None" = None
    slope: Slope | None = None

    @property
    def size(self) -> float:
        """What errors are measured by."""
        return self.scale or max(SMALLEST, float(np.max(np.abs(self.expected), initial=0.0)))


@dataclass(frozen=True)
class Judgement:
    """What came of one comparison. deviation, limit, bar: the largest deviation, its limit and error bar.

    second, second_bar: deviation and error bar of this entry by differences of order 2; None where there are none.
    """

    verdict: str
    deviation: float
    limit: float
    wrong: np.ndarray
    bar: float
    second: float | None = None
    second_bar: float | None = None


def judge(found: Comparison) -> Judgement:
    """Whether the deviation is within the error bars."""
    difference = found.given - found.expected
    deviation = np.maximum(difference, 0.0) if found.upper else np.abs(difference)
    limit = np.maximum(SIGMAS * np.hypot(found.bar, found.noise), NEGLIGIBLE * found.size)
    limit = np.broadcast_to(limit, deviation.shape)
    wrong = ~(deviation <= limit)
    worst = np.unravel_index(np.argmax(deviation - limit), deviation.shape)
    settled = limit.max() <= UNSETTLED * found.size
    verdict = INCONSISTENT if wrong.any() else CONSISTENT if settled else UNDECIDED
    bar = np.broadcast_to(np.hypot(found.bar, found.noise), deviation.shape)
    second = found.slope and (abs(found.given - found.slope.second)[worst], found.slope.second_bar[worst])
    orders = map(float, (bar[worst], *(second or ())))
    return Judgement(verdict, float(deviation[worst]), float(limit[worst]), wrong, *orders)


Again = Callable[[], Comparison | None]


def pattern_of(
    found: Comparison, judged: Judgement, variants: Mapping[str, Again], exchanged: Again
) -> tuple[str, str]:
    """(pattern, evidence): what the deviations have in common; an empty pattern where nothing was recognised.

    variants: the same check of the program without an ingredient, or with less of an approximation, by name.
    exchanged: the same check with alpha and beta electrons exchanged.
    """
    if judged.verdict == UNDECIDED:
        return "noise", f"answers are noisy or differences unsettled, by {judged.limit:.0e} {found.unit}"
    if judged.verdict == CONSISTENT:
        return "", ""
    for recognise in (_nothing_given, _factor):
        if (answer := recognise(found)) is not None:
            return answer
    if (answer := _variant(found, variants)) is not None:
        return answer
    if (answer := _spin(found, judged, exchanged)) is not None:
        return answer
    return _atoms(found) or ("", "")


def _nothing_given(found):
    if found.given.any() or not found.expected.any():
        return None
    return "silent zero", f"zero is given, up to {np.abs(found.expected).max():.2e} {found.unit} expected"


def _factor(found):
    """given = c expected with one c, which leaves a small part of the deviation."""
    square = float(np.vdot(found.expected, found.expected))
    if found.upper or square == 0.0 or found.given.size < 3:
        return None
    c = float(np.vdot(found.given, found.expected)) / square
    left = np.abs(found.given - c * found.expected).max()
    if left > CLOSE_FACTOR * np.abs(found.given - found.expected).max():
        return None
    if abs(c + 1) < 1e-3:
        return "sign", "all entries have the wrong sign"
    names = {2.0: "factor two", 0.5: "factor one half"}
    name = next((text for value, text in names.items() if abs(c - value) < 1e-2), "factor")
    return name, f"all entries are {c:.4f} times what they should be, up to {left:.0e} {found.unit}"


GRID, SURFACE = "missing grid response", "missing solvent term"
KNOWN = {"finer grid": GRID, "without solvent": SURFACE}


def _variant(found, variants):
    before = judge(found.drawn or found).deviation
    for name, again in variants.items():
        if (other := again()) is None:
            continue
        left = judge(other.drawn or other).deviation
        if left <= GONE * before:
            pattern = KNOWN.get(name, f"belongs to what is {name}")
            return pattern, f"{name}: {left:.1e} in place of {before:.1e} {other.unit}"
    return None


def _spin(found, judged, exchanged):
    if (other := exchanged()) is None:
        return None
    found, other = found.drawn or found, other.drawn or other
    change = np.abs(other.given - found.given).max()
    same = np.abs(other.expected - found.expected).max() <= max(judged.limit, 1e-3 * judged.deviation)
    if not same or change <= max(judged.limit, 0.05 * judged.deviation):
        return None
    return "one spin", f"it changes by {change:.1e} {found.unit} when alpha and beta are exchanged, which it must not"


def _atoms(found):
    kinds = np.array(found.atoms)
    if len(set(found.atoms)) < 2:
        return None
    off = np.abs(found.given - found.expected).reshape(len(kinds), -1).max(axis=1)
    wrong, right = set(kinds[off > SLIGHT * off.max()]), set(kinds[off <= SLIGHT * off.max()])
    if len(wrong) != 1 or wrong & right:
        return None
    return "one atom kind", f"{wrong.pop()} is wrong; {', '.join(sorted(right))} is not, or by a tenth at most"


SEED = 7


class Session:
    """Asks a target.   is_brief: derivatives in drawn directions suffice."""

    def __init__(self, target: Target, is_brief: bool = False):
        self.target, self.is_brief, self.calls = target, is_brief, 0
        self._known: dict[tuple, np.ndarray] = {}
        self._noise: dict[tuple, float] = {}

    def __call__(self, quantity: str, setting: Setting) -> np.ndarray:
        """The answer, from memory where it was asked before.

        Raises UnsupportedError for what is not offered, CodeRaisedError where the program fails, NumericalError.
        """
        key = quantity, setting.key
        if key not in self._known:
            self._known[key] = self.anew(quantity, setting)
        return self._known[key]

    def anew(self, quantity: str, setting: Setting) -> np.ndarray:
        """The answer, computed."""
        if quantity not in self.target.offers:
            raise UnsupportedError(f"no {quantity.replace('_', ' ')} offered.")
        if missing := sorted(setting.conditions - self.target.conditions):
            raise UnsupportedError(f"no calculation with {' and '.join(missing)} offered.")
        self.calls += 1
        try:
            found = np.asarray(self.target.compute(quantity, setting), dtype=float)
        except DftfdError:
            raise
        except NotImplementedError as error:
            raise UnsupportedError(f"no {quantity} here: {str(error) or 'not implemented'}") from error
        except Exception as error:  # anybody's code
            raise CodeRaisedError(f"{quantity}: {type(error).__name__}: {error}") from error
        shape = shape_of(quantity, setting)
        if shape is not None and found.shape != shape:
            raise CodeRaisedError(f"{quantity} has shape {found.shape}, expected {shape}.")
        if not np.isfinite(found).all():
            raise NumericalError(f"{quantity} is not finite.")
        return found

    def noise(self, quantity: str, setting: Setting) -> float:
        """Root mean square of the noise of a quantity near a geometry, along one direction."""
        key = quantity, setting.key
        if key not in self._noise:
            along = np.random.default_rng(SEED).normal(size=np.shape(setting.positions))
            along /= np.linalg.norm(along)
            moved = lambda t: self(quantity, setting.but(positions=setting.positions + t * along))
            self._noise[key] = noise(moved)
        return self._noise[key]


FIELD = np.array([0.004, -0.006, 0.005])
FAR = 500.0
"""Distance [bohr] of molecules that do not feel each other: dipoles of 1 e bohr by 2e-8 hartree."""
NESTED = ("6-31g", "6-31g*", "6-31++g**")
SYNONYMS = ("6-31g*", "6-31g(d)")
NARROW = 0.9
"""Factor of the positions at which units are compared."""
DISPLACED, LEFT = 0.1, 0.2
"""Length [bohr] of the displacement along which fitted and exact energies are compared, and the part of the error of
density fitting that may be left in differences."""
DIRECTIONS = 3
"""In how many drawn directions derivatives are compared first; all coordinates follow where these disagree."""


# ---- derivatives


def compared(ask, given, of, x, step, unit, noise=0.0, atoms=()) -> Comparison:
    """`given`, (*x.shape, ...), beside the derivatives of `of` by x: in drawn directions, and by each coordinate of x
    where there are few of them or where the directions disagree, unless the session is brief."""
    first = None
    if x.size > DIRECTIONS:
        drawn = np.random.default_rng(SEED).normal(size=(DIRECTIONS, *x.shape))
        drawn /= np.linalg.norm(drawn.reshape(DIRECTIONS, -1), axis=1).reshape(-1, *[1] * x.ndim)
        slope = gradient(lambda t: of(x + np.tensordot(t, drawn, 1)), np.zeros(DIRECTIONS), step)
        first = Comparison(np.tensordot(drawn, given, x.ndim), slope.value, unit, slope.bar, noise, slope=slope)
        if ask.is_brief or judge(first).verdict != INCONSISTENT:
            return first
    slope = gradient(of, x, step)
    return Comparison(given, slope.value, unit, slope.bar, noise, atoms=atoms, drawn=first, slope=slope)


def forces(ask: Session, s: Setting) -> Comparison:
    """Forces are minus the derivatives of the energy by the positions."""
    given, energy = ask("forces", s), lambda x: -ask("energy", s.but(positions=x))
    return compared(ask, given, energy, s.positions, STEP, "hartree/bohr", ask.noise("forces", s), s.symbols)


def hessian(ask: Session, s: Setting) -> Comparison:
    """The Hessian is minus the derivative of the forces."""
    given, slope = ask("hessian", s), lambda x: -ask("forces", s.but(positions=x))
    return compared(ask, given, slope, s.positions, STEP, "hartree/bohr^2", atoms=s.symbols)


def dipole(ask: Session, s: Setting) -> Comparison:
    """The dipole is minus the derivative of the energy by a field."""
    given, energy = ask("dipole", s), lambda f: -ask("energy", s.but(field=f))
    return compared(ask, given, energy, s.field, FIELD_STEP, "e bohr", ask.noise("dipole", s))


def polarizability(ask: Session, s: Setting) -> Comparison:
    """The polarisability is the derivative of the dipole by a field."""
    given, moment = ask("polarizability", s), lambda f: ask("dipole", s.but(field=f))
    return compared(ask, given, moment, s.field, FIELD_STEP, "bohr^3")


def dipole_derivatives(ask: Session, s: Setting) -> Comparison:
    given, moment = ask("dipole_derivatives", s), lambda x: ask("dipole", s.but(positions=x))
    return compared(ask, given, moment, s.positions, STEP, "e", atoms=s.symbols)


def polarizability_derivatives(ask: Session, s: Setting) -> Comparison:
    """Derivatives of the polarisability by the positions, from which Raman intensities follow."""
    given, moved = ask("polarizability_derivatives", s), lambda x: ask("polarizability", s.but(positions=x))
    return compared(ask, given, moved, s.positions, STEP, "bohr^2", atoms=s.symbols)


def infrared(ask: Session, s: Setting) -> Comparison:
    """Infrared intensities, from derivatives of the dipole along the modes of the program's own Hessian."""
    given = np.sort(ask("infrared", s).ravel())
    n = 3 * len(s.symbols)
    masses = np.repeat(common_masses([ATOMIC_NUMBERS[symbol] for symbol in s.symbols]), 3)
    weighted = ask("hessian", s).reshape(n, n) / np.sqrt(np.outer(masses, masses))
    _, modes = np.linalg.eigh(weighted)
    slope, bar, *_ = gradient(lambda x: ask("dipole", s.but(positions=x)), s.positions, STEP)
    along = (modes / np.sqrt(masses)[:, None]).T[-len(given) :]
    expected = KM_PER_MOL * ((along @ slope.reshape(n, 3)) ** 2).sum(axis=1)
    uncertain = 2 * KM_PER_MOL * np.abs(along @ slope.reshape(n, 3)).sum(axis=1) * bar.max()
    scale = 1e3 * max(1.0, expected.max())  # masses of isotopes and mean ones differ by up to 1 %
    return Comparison(given, np.sort(expected), "km/mol", uncertain, scale=scale)


def charge_forces(ask: Session, s: Setting) -> Comparison:
    """Forces on point charges are minus the derivatives of the energy by their positions."""
    s = _beside_charges(s)
    given, q = ask("charge_forces", s), s.charges[:, 3:]
    energy = lambda x: -ask("energy", s.but(charges=np.concatenate([x, q], axis=1)))
    return compared(ask, given, energy, s.charges[:, :3], STEP, "hartree/bohr", ask.noise("charge_forces", s))


def _beside_charges(s):
    top = s.positions.max(axis=0)
    return s.but(charges=np.array([[*(top + [2.6, 3.1, 2.9]), 0.6], [*(-top - [3.4, 2.2, 3.7]), -0.4]]))


# ---- sums and equivalence


def net_force(ask: Session, s: Setting) -> Comparison:
    """Forces on a free molecule have no sum."""
    f = ask("forces", s)
    noise = ask.noise("forces", s)
    return Comparison(f.sum(axis=0), np.zeros(3), "hartree/bohr", noise=noise, scale=SMALLEST)


def torque(ask: Session, s: Setting) -> Comparison:
    """Forces on a free molecule have no torque."""
    f, r = ask("forces", s), s.positions - s.positions.mean(axis=0)
    noise = ask.noise("forces", s) * float(np.linalg.norm(r))
    return Comparison(np.cross(r, f).sum(axis=0), np.zeros(3), "hartree", noise=noise, scale=SMALLEST)


def _answers(ask, s, turn=None, order=None):
    """Energy, forces and dipole in one row, turned back and with the atoms in the order of before."""
    turn = np.eye(3) if turn is None else turn
    parts = [np.ravel(ask("energy", s))]
    if "forces" in ask.target.offers:
        found = ask("forces", s) @ turn
        parts.append((found if order is None else found[np.argsort(order)]).ravel())
    if "dipole" in ask.target.offers and s.charge == 0:
        parts.append(ask("dipole", s) @ turn)
    return np.concatenate(parts)


def _same(given, expected, ask, s):
    """Answers that have to be equal."""
    offered = [q for q in ("energy", "forces") if q in ask.target.offers]
    noise = max(ask.noise(quantity, s) for quantity in offered)
    return Comparison(given, expected, "atomic units", noise=noise, scale=SMALLEST)


def translation(ask: Session, s: Setting) -> Comparison:
    """Nothing depends on where the molecule is."""
    moved = s.but(positions=s.positions + [1.7, -2.3, 0.9])
    return _same(_answers(ask, moved), _answers(ask, s), ask, s)


def rotation(ask: Session, s: Setting) -> Comparison:
    """Energy, forces and dipole turn with the molecule."""
    turn = Rotation.from_rotvec([0.3, -0.5, 0.4]).as_matrix()
    return _same(_answers(ask, s.but(positions=s.positions @ turn.T), turn), _answers(ask, s), ask, s)


def order_of_atoms(ask: Session, s: Setting) -> Comparison:
    """Nothing depends on the order of the atoms."""
    order = np.arange(len(s.symbols))[::-1]
    other = s.but(symbols=tuple(s.symbols[k] for k in order), positions=s.positions[order])
    return _same(_answers(ask, other, order=order), _answers(ask, s), ask, s)


def symmetry(ask: Session, s: Setting) -> Comparison:
    """Equivalent atoms have equivalent forces."""
    f = ask("forces", s)
    found = [(f @ turn)[order] for turn, order in symmetries(s)]
    if not found:
        raise UnsupportedError("the molecule has no symmetry.")
    expected = np.array([f] * len(found))
    return Comparison(np.array(found), expected, "hartree/bohr", noise=ask.noise("forces", s), scale=SMALLEST)


def symmetries(s: Setting) -> list[tuple[np.ndarray, np.ndarray]]:
    """Twofold axes, mirror planes and inversion: (matrix, order) with (x @ matrix)[order] = x."""
    r = s.positions - s.positions.mean(axis=0)
    _, axes = np.linalg.eigh(r.T @ r)
    found = []
    for signs in np.ndindex(2, 2, 2):
        turn = axes @ np.diag(1.0 - 2 * np.array(signs)) @ axes.T
        gaps = np.linalg.norm((r @ turn)[None] - r[:, None], axis=2)
        order = gaps.argmin(axis=1)
        kinds = all(s.symbols[a] == s.symbols[b] for a, b in enumerate(order))
        if any(signs) and kinds and gaps.min(axis=1).max() < 1e-9:
            found.append((turn, order))
    return found


def spin_exchange(ask: Session, s: Setting) -> Comparison:
    """Alpha and beta electrons may be exchanged."""
    if s.spin == 0:
        raise UnsupportedError("a closed shell has no spins to exchange.")
    return _same(_answers(ask, s.but(spin=-s.spin)), _answers(ask, s), ask, s)


def size(ask: Session, s: Setting) -> Comparison:
    """Two molecules far from each other have twice the energy, and the same forces."""
    far = s.positions + FAR * np.array([0.6, 0.64, 0.48])
    pair = s.but(
        symbols=s.symbols * 2, positions=np.concatenate([s.positions, far]), charge=2 * s.charge, spin=2 * s.spin
    )
    if s.charge:
        raise UnsupportedError("ions interact at any distance.")
    given, expected = [ask("energy", pair)], [2 * ask("energy", s)]
    if "forces" in ask.target.offers:
        given += [*ask("forces", pair).ravel()]
        expected += [*ask("forces", s).ravel()] * 2
    return _same(np.array(given), np.array(expected), ask, s)


# ---- equivalent ways


def again(ask: Session, s: Setting) -> Comparison:
    """An answer is the same after other geometries."""
    ask.anew("energy", s.but(positions=1.1 * s.positions))
    what = [q for q in ("forces", "energy") if q in ask.target.offers]
    given = np.concatenate([np.ravel(ask.anew(q, s)) for q in what])
    expected = np.concatenate([np.ravel(ask(q, s)) for q in what])
    return _same(given, expected, ask, s)


def _other_way(quantity, ask, s):
    return _same(np.ravel(ask(quantity, s)), np.ravel(ask("energy", s)), ask, s)


def units(ask: Session, s: Setting) -> Comparison:
    """Positions in angstrom and in bohr give one energy, of a molecule so narrow that lengths show in it."""
    narrow, noise = s.but(positions=NARROW * s.positions), ask.noise("energy", s)
    given, expected = (np.ravel(ask(quantity, narrow)) for quantity in ("in_angstrom", "energy"))
    return Comparison(given, expected, "hartree", noise=noise, scale=SMALLEST)


def density_fitting(ask: Session, s: Setting) -> Comparison:
    """Differences of energies along a displacement lose most of the error that density fitting has."""
    along = np.random.default_rng(SEED).normal(size=s.positions.shape)
    along *= DISPLACED / np.linalg.norm(along)
    settings = [s.but(positions=s.positions + t * along) for t in (0, -1, 1)]
    fitted, exact = (np.array([ask(q, x) for x in settings]) for q in ("other_integrals", "energy"))
    bar, noise = LEFT * abs(fitted[0] - exact[0]) / SIGMAS, ask.noise("energy", s)
    return Comparison(fitted[1:] - fitted[0], exact[1:] - exact[0], "hartree", bar, noise)


def nested_bases(ask: Session, s: Setting) -> Comparison:
    """A basis set that holds another one gives no higher energy."""
    energies = np.array([_in_basis(ask, basis, s) for basis in NESTED])
    return Comparison(energies[1:], energies[:-1], "hartree", scale=SMALLEST, upper=True)


def two_names(ask: Session, s: Setting) -> Comparison:
    """Two names of one basis set give one energy."""
    energies = [_in_basis(ask, basis, s) for basis in SYNONYMS]
    return _same(np.ravel(energies[0]), np.ravel(energies[1]), ask, s)


def _in_basis(ask, basis, s):
    """The energy in another basis set; programs need not know each by this name."""
    try:
        return Session(ask.target.in_basis(basis))("energy", s)
    except (CodeRaisedError, NumericalError) as error:
        raise UnsupportedError(f"no energy in {basis}: {error}") from error


# ---- the list


@dataclass(frozen=True)
class Check:
    """compare: (Session, Setting) -> Comparison.   needs: quantities.   turns: True if a grid fixed in space shows."""

    compare: Callable[[Session, Setting], Comparison]
    needs: frozenset[str]
    turns: bool = False


def _under(**changes):
    """Forces under a condition."""

    def compare(ask, s):
        return forces(ask, s.but(**changes))

    return compare


def _with_charges(compare):
    """A comparison beside point charges."""
    return lambda ask, s: compare(ask, _beside_charges(s))


def _check(compare, *needs, turns=False):
    return Check(compare, frozenset(needs), turns)


CHECKS: dict[str, Check] = {
    "forces": _check(forces, "energy", "forces"),
    "forces in a field": _check(_under(field=FIELD), "energy", "forces"),
    "forces beside charges": _check(_with_charges(forces), "energy", "forces"),
    "forces on charges": _check(charge_forces, "energy", "charge_forces"),
    "forces of state 1": _check(_under(state=1), "energy", "forces"),
    "Hessian": _check(hessian, "forces", "hessian"),
    "Hessian beside charges": _check(_with_charges(hessian), "forces", "hessian"),
    "dipole": _check(dipole, "energy", "dipole"),
    "polarisability": _check(polarizability, "dipole", "polarizability"),
    "dipole derivatives": _check(dipole_derivatives, "dipole", "dipole_derivatives"),
    "Raman": _check(polarizability_derivatives, "polarizability", "polarizability_derivatives"),
    "infrared": _check(infrared, "dipole", "infrared", "hessian"),
    "net force": _check(net_force, "forces"),
    "torque": _check(torque, "forces", turns=True),
    "symmetry": _check(symmetry, "forces", turns=True),
    "spin exchange": _check(spin_exchange, "energy"),
    "order of atoms": _check(order_of_atoms, "energy"),
    "translation": _check(translation, "energy"),
    "rotation": _check(rotation, "energy", turns=True),
    "size consistency": _check(size, "energy"),
    "units": _check(units, "energy", "in_angstrom"),
    "density fitting": _check(density_fitting, "energy", "other_integrals"),
    "nested bases": _check(nested_bases, "energy"),
    "two names": _check(two_names, "energy"),
    "after others": _check(again, "energy"),
    "restart": _check(partial(_other_way, "restarted"), "energy", "restarted"),
    "save and load": _check(partial(_other_way, "reloaded"), "energy", "reloaded"),
}


STEP, FIELD_STEP = 0.01, 2e-3
"""Smallest steps, of nuclei and charges [bohr] and of fields [hartree / (e bohr)]."""
