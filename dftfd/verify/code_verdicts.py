"""Whether two answers of a program agree within their error bars, and the pattern of what they differ by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dftfd.verify.code_differences import Slope

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
