"""Errors of reactions in numbers: means with confidence by bootstrap, and the weighted means of GMTKN55.

B. Efron, Ann. Statist. 7, 1 (1979). doi:10.1214/aos/1176344552
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES, SEED = 2000, 20261122
CONFIDENCE = 95
"""Percent of the resampled means that lie inside an interval."""

SMALL, LARGE = 7.5, 75.0
"""Mean absolute reference energies [kcal/mol] below and above which WTMAD-1 weights errors by 10 and 0.1."""


@dataclass(frozen=True)
class Statistics:
    """Errors, computed less reference [kcal/mol].

    n: how many reactions, of `total`.   largest: the error of largest magnitude, of the reaction `worst`.
    low, high: where the mean absolute error lies with 95 % confidence, if these reactions are a sample of many.
    """

    n: int
    total: int
    mean: float
    mean_absolute: float
    root_mean_square: float
    largest: float
    worst: str
    low: float
    high: float


def statistics_of(errors: Sequence[float], names: Sequence[str], total: int) -> Statistics | None:
    """The Statistics of some errors, None of none."""
    if not len(errors):
        return None
    values = np.asarray(errors, dtype=float)
    magnitude = np.abs(values)
    worst = int(np.argmax(magnitude))
    low, high = interval(magnitude)
    return Statistics(
        len(values),
        total,
        float(values.mean()),
        float(magnitude.mean()),
        float(np.sqrt(np.mean(values**2))),
        float(values[worst]),
        names[worst],
        low,
        high,
    )


def interval(values) -> tuple[float, float]:
    """Where the mean of a sample lies with 95 % confidence, by resampling it; the same for the same values."""
    values = np.asarray(values, dtype=float)
    rng = np.random.default_rng(SEED)
    blocks = max(1, 10**6 // len(values))  # rows at a time, so that large sets take little memory
    means = [
        values[rng.integers(len(values), size=(min(blocks, RESAMPLES - k), len(values)))].mean(axis=1)
        for k in range(0, RESAMPLES, blocks)
    ]
    tail = (100 - CONFIDENCE) / 2
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    return float(low), float(high)


def wtmad2(errors: Sequence[float], weights: Sequence[float | None]) -> float | None:
    """Mean of weight times absolute error [kcal/mol]; None where a reaction has no weight.

    With weights 56.84 / (mean absolute reference energy of the subset) this is WTMAD-2, eq. 2 of L. Goerigk et al.,
    Phys. Chem. Chem. Phys. 19, 32184 (2017), doi:10.1039/C7CP04913G.
    """
    if not len(errors) or any(weight is None for weight in weights):
        return None
    return float(np.mean(np.abs(np.asarray(errors)) * np.asarray(weights, dtype=float)))


def wtmad1(means: Sequence[float], references: Sequence[float | None]) -> float | None:
    """Mean over subsets of their mean absolute errors, times 10 for small and 0.1 for large reference energies, eq. 1.

    means: mean absolute errors.   references: mean absolute reference energies; None where one is not known.
    """
    if not len(means) or any(reference is None for reference in references):
        return None
    known = np.asarray(references, dtype=float)
    return float(np.mean(np.where(known < SMALL, 10.0, np.where(known > LARGE, 0.1, 1.0)) * np.asarray(means)))
