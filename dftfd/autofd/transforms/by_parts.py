"""Does a functional derivative belong to its functional? <grad E, df> = dE, tried with bumps.

dE along a bump comes from the derivative forward, which knows no partial integration; <grad E, df> from the strong
form, integrated with the measure of the space. They differ where that is another one than the space says, where the
quadrature is too coarse, or where a rule is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

from dftfd.autofd.core.domain import Domain, centres, half_widths, measure_in_words
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import function
from dftfd.autofd.transforms.gradients import grad, jvp
from dftfd.autofd.transforms.transposition import pairing
from dftfd.errors import SignatureError

POWER, WIDEST, FEWEST, AGREE = 3, 3, 3, 0.05
"""Bumps are (1 - u^2)^POWER with FEWEST nodes a coordinate, one of so many of the widest is drawn; up to AGREE of the
largest derivative the two sides count as equal: quadratures of a dozen points in each coordinate leave a percent."""


@dataclass(frozen=True, eq=False, repr=False)
class ByParts:
    """derivatives, paired: dE and <grad E, df> of each bump (k,).   remarks: on the spaces, in words."""

    derivatives: np.ndarray
    paired: np.ndarray
    remarks: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Largest difference, as a share of the largest of all numbers."""
        size = max(np.abs(self.derivatives).max(), np.abs(self.paired).max())
        return float(np.abs(self.derivatives - self.paired).max() / size) if size else 0.0

    @property
    def passed(self) -> bool:
        """Whether they agree to AGREE."""
        return self.error <= AGREE

    def __repr__(self):
        rows = [f"{'bump':>4} {'dE':>16} {'<grad E, df>':>16}"]
        for number, (dE, pair) in enumerate(zip(self.derivatives, self.paired, strict=True), start=1):
            rows.append(f"{number:4d} {dE:16.8g} {pair:16.8g}")
        words = "they agree" if self.passed else "THEY DISAGREE: the strong form is not that of the functional here"
        rows += [f"largest difference {self.error:.1e} of the largest number: {words}", *self.remarks]
        if not self.passed and not self.remarks:
            rows.append("no other measure is recognised: a finer quadrature, or density= if weights hold a Jacobian")
        return "\n".join(rows)


def check(functional: Callable, f: Function, bumps: int = 4, seed: int = 0) -> ByParts:
    """<grad E, df> beside dE for random bumps df, of a functional E of one function f.

    bumps: how many.   seed: of their places, widths and signs. They vanish, with two derivatives, at the
    ends of their supports, which lie inside of the quadrature's points. Large differences of both sides on a quadrature
    that is fine enough say that the measure of a space is another one: `remarks` says of which.
    """
    if not isinstance(f, Function) or not f.domains or any(d.points is None for d in f.domains):
        raise SignatureError(f"check(E, f) takes a Function on spaces with points and weights, {f!r} found.")
    for name, value, least in (("bumps", bumps, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= value:
            raise SignatureError(f"{name}={value!r}: a whole number of at least {least} expected.")
    rng = np.random.default_rng(seed)
    directions = [_bump(f, rng) for _ in range(bumps)]
    gradient = grad(functional)(f)
    derivatives = np.array([float(jvp(functional, (f,), (df,))[1]) for df in directions])
    paired = np.array([float(pairing(gradient, df)) for df in directions])
    return ByParts(derivatives, paired, tuple(filter(None, map(measure_in_words, dict.fromkeys(f.domains)))))


def _bump(f, rng) -> Function:
    """A bump around a point of each space, for each number of the result with a random factor."""
    boxes = tuple(_box(domain, rng) for domain in f.domains)
    factors = tree_map(lambda s: jnp.asarray(rng.uniform(0.5, 1.0, s.shape) * rng.choice([-1, 1]), s.dtype), f.result)
    return function(Bump(), *f.domains, params=(boxes, factors))


def _box(domain: Domain, rng):
    """(centre, half widths) inside of the points of a space, in their shape."""
    x = np.asarray(domain.points).reshape(len(domain.points), -1)
    boxes = [(centre, half) for centre in centres(x) if (half := half_widths(x, centre)) is not None]
    boxes = [box for box in boxes if (np.abs(x - box[0]) < box[1]).all(axis=1).sum() >= FEWEST ** x.shape[1]]
    if not boxes:
        raise SignatureError(f"{domain!r} has {len(x)} points, too few to put bumps between them; check needs more.")
    boxes.sort(key=lambda box: -np.prod(box[1]))
    chosen = boxes[rng.integers((len(boxes) + WIDEST - 1) // WIDEST)]
    return tuple(jnp.asarray(part.reshape(domain.shape)) for part in chosen)


class Bump(Code):
    """(boxes, factors, *point) -> factors times prod (1 - u^2)^POWER, zero where |u| > 1."""

    __name__ = "bump"

    def __call__(self, boxes, factors, *point):
        value: float | jax.Array = 1.0
        for (centre, half), x in zip(boxes, point, strict=True):
            value = value * jnp.prod(jnp.maximum(1.0 - ((x - centre) / half) ** 2, 0.0) ** POWER)
        return tree_map(lambda factor: factor * value, factors)
