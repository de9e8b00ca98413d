"""Pictures of where an inequality is proved, violated, or open."""

from pathlib import Path

import numpy as np

from dftfd.runtime.files import picture
from dftfd.verify.inequality import PROVED, UNDECIDED, VIOLATED, Inequality, subdivide

_COLOURS = {PROVED: "#7fb77e", VIOLATED: "#c8553d", UNDECIDED: "#d9d9d9"}
_WORDS = {PROVED: "proved", VIOLATED: "violated", UNDECIDED: "open"}


def slices(inequality: Inequality) -> list[dict[int, float]]:
    """Values of the inputs beyond the second: lower ends, middles, upper ends."""
    rest = range(2, len(inequality.names))
    if not rest:
        return [{}]
    at = lambda u: {k: float(inequality.lo[k] + u * (inequality.hi[k] - inequality.lo[k])) for k in rest}
    return [at(u) for u in (0.0, 0.2, 1.0)]


def classified(inequality: Inequality, fixed: dict[int, float], boxes: int) -> list[tuple]:
    """(kind, lo, hi) of the boxes of a slice."""
    lo, hi = inequality.lo.copy(), inequality.hi.copy()
    for k, x in fixed.items():
        lo[k] = hi[k] = x
    part = Inequality(inequality.program, inequality.names, lo, hi, inequality.terms, inequality.constant)
    tree, _ = subdivide(part, boxes, whole_map=True)
    kinds = tree.kind[: tree.count]
    leaves = np.flatnonzero((kinds >= PROVED) & (kinds <= UNDECIDED))
    return [(int(kinds[i]), tree.lo[:, i], tree.hi[:, i]) for i in leaves]


def draw(proof, inequality: Inequality, path, boxes: int) -> None:
    """Write the map as a picture; see `Proof.plot`."""
    cuts = slices(inequality)
    with picture(Path(path), 4 * len(cuts) + 1, 3.6) as figure:
        _fill(figure, proof, inequality, cuts, boxes)


def _fill(figure, proof, inequality, cuts, boxes):
    """The slices beside each other, with the point of a violation."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle

    flat = len(inequality.names) == 1
    for axes, fixed in zip(np.atleast_1d(figure.subplots(1, len(cuts))), cuts, strict=True):
        groups: dict[int, list] = {}
        for kind, lo, hi in classified(inequality, fixed, boxes):
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
