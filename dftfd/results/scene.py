"""Molecules and functions of r as scenes that turn in a browser: balls and sticks, isosurfaces.

A scene is data: atoms, bonds, and fields, which are values on a box of points in half precision (1/2048 of a value).
scene.js beside this file makes surfaces of them by marching tetrahedra (A. Doi, A. Koide, IEICE Trans. E74, 214
(1991)) and draws them; it needs neither WebGL nor a network.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, NumericalError, UnsupportedError
from dftfd.libcint.mole import HARTREE_IN_EV, covalent_radii
from dftfd.xc.density import evaluate_at, orbital_function

MAX_POINTS = 20_000_000
"""Of a box."""


@dataclass(frozen=True, eq=False)
class Box:
    """Points origin + i a + j b + k c. origin (3,), steps (3, 3) with one row per axis [bohr], counts (3,)."""

    origin: np.ndarray
    steps: np.ndarray
    counts: tuple[int, int, int]

    @classmethod
    def around(cls, coordinates, margin: float = 4.0, spacing: float = 0.2) -> "Box":
        """The box along x, y, z that holds all atoms (atom, 3) with `margin` on every side [bohr]."""
        low, high = np.min(coordinates, axis=0) - margin, np.max(coordinates, axis=0) + margin
        with np.errstate(over="ignore"):
            counts = np.ceil((high - low) / spacing) + 1
            n_points = np.prod(counts)
        if not n_points <= MAX_POINTS:
            raise InputError(
                f"a box with {n_points:.3g} points is too large; use a larger spacing or a smaller margin."
            )
        return cls(low, spacing * np.eye(3), tuple(counts.astype(int).tolist()))

    @property
    def points(self) -> np.ndarray:
        """All points (point, 3), the last axis fastest."""
        return self.origin + np.indices(self.counts).reshape(3, -1).T @ self.steps


POINTS = 40_000
"""Of a field's box at most: 110 kB in the page."""

POTENTIAL_POINTS = 6_000
"""Of the electrostatic potential's, which is smooth where it is looked at, and costs an integral for each point."""

MARGIN = 4.0
"""Of the box around the nuclei [bohr]."""

FRONTIER = 3
"""Orbitals on either side of the gap."""

ROOTS = 5
"""Excitations whose pair of orbitals is shown."""

BOND = 1.3
"""Atoms nearer than so many sums of their covalent radii are joined."""

STYLE = """
[data-scene] { margin: 0 } canvas.large { width: min(100%, 40rem); height: 28rem; touch-action: none; cursor: grab }
figure[data-scene] { display: block; margin: 1rem 0 } figcaption label { margin-right: 1rem }
figcaption select, figcaption input { font: inherit; vertical-align: middle; max-width: 100% }
"""

_BALL = 0.42
"""Radius of an atom's ball, in covalent radii, hydrogen's a little larger."""


def molecule_scene(symbols, coordinates, words: str, margin: float = 1.0) -> dict:
    """Atoms and bonds.   coordinates: (atom, 3) [bohr].   words: for those who do not see it.   margin: [bohr]."""
    at = np.asarray(coordinates, dtype=float).reshape(-1, 3)
    radii = covalent_radii([ATOMIC_NUMBERS[symbol] for symbol in symbols])
    distances = np.linalg.norm(at[:, None] - at, axis=2)
    joined = np.argwhere(np.triu(distances < BOND * (radii[:, None] + radii), 1))
    atoms = [
        {"symbol": symbol, "at": position, "radius": round(_BALL * float(radius) + 0.15, 4)}
        for symbol, position, radius in zip(symbols, at.tolist(), radii, strict=True)
    ]
    turn = _facing(at).round(6).tolist()
    return {"atoms": atoms, "bonds": joined.tolist(), "fields": [], "margin": margin, "words": words, "turn": turn}


def _facing(positions):
    """A rotation (3, 3) that lays the longest axis of a molecule (atom, 3) across the screen and its plane into it."""
    centred = positions - positions.mean(axis=0) if len(positions) else np.zeros((1, 3))
    _, axes = np.linalg.eigh(centred.T @ centred)
    x, y = axes[:, 2], axes[:, 1]
    x, y = (axis * (np.sign(axis[np.argmax(np.abs(axis) > 0.5 * np.abs(axis).max())]) or 1) for axis in (x, y))
    return np.stack([x, y, np.cross(x, y)])


def _begin_at(result, excitations) -> bool:
    """Whether the occupied orbitals are those of the result, up to rotations and the SCF's threshold."""
    P = result.density_matrix * len(result.density_matrix) / 2  # spin-flip excitations begin at alpha's alone
    return all(any(np.allclose(C @ C.T, P_s, atol=1e-3) for P_s in P) for C in excitations.occupied)


def result_scene(result, excitations=None) -> dict:
    """Of a result: its molecule, and the fields that its density and its excitations have."""
    molecule = result.molecule
    if excitations is not None and len(excitations.occupied[0]) != result.mo_coeff.shape[1]:
        found = f"{len(excitations.occupied[0])} basis functions, the result has {result.mo_coeff.shape[1]}"
        raise InputError(
            f"excitations of {excitations.what}: they are of another result, with {found}; give those of this result."
        )
    if excitations is not None and not _begin_at(result, excitations):
        raise InputError(
            f"excitations of {excitations.what}: they were computed from other orbitals; give those of this result."
        )
    real = [a for a in range(molecule.n_atoms) if not molecule.ghost[a]]
    symbols, positions = [molecule.symbols[a] for a in real], molecule.coordinates[real]
    scene = molecule_scene(symbols, positions, f"{molecule.formula}, balls and sticks", 1.5)
    if result.has_properties:
        scene["fields"] = list(_fields(result, excitations))
    return scene


def scene_figure(name: str, fields=(), large: bool = False) -> str:
    """The canvas of a scene, with its controls where it has fields."""
    size = 'class="large"' if large else 'width="200" height="200"'
    canvas = f'<canvas {size} role="img" tabindex="0" aria-label="a molecule"></canvas>'
    if not large:
        return f'<span data-scene="{escape(name)}">{canvas}</span>'
    options = "".join(f'<option value="{escape(f["name"])}">{escape(f["label"])}</option>' for f in fields)
    surface = (
        f'<label>surface <select>{options}<option value="">none</option></select></label>'
        '<label>level <input type="range" min="0" max="1000" value="500"></label>'
    )
    controls = (surface if fields else "") + '<label><input type="checkbox"> names</label>'
    keys = "<small>Drag or arrow keys turn it, the wheel or + and - bring it nearer.</small>"
    return (
        f'<figure data-scene="{escape(name)}">{canvas}<figcaption>{controls}<br><output></output><br>{keys}'
        "</figcaption></figure>"
    )


def scene_script(scenes: dict) -> str:
    """The script element that draws the page's scenes, to stand behind their figures."""
    data = json.dumps(scenes).replace("<", "\\u003c")
    code = Path(__file__).with_name("scene.js").read_text(encoding="utf-8")
    return f"<script>const SCENES = {data};\n{code}</script>"


# -------------------------------------------------------------------------------------------------------------- fields


def _fields(result, excitations) -> Iterator[dict]:
    """The density first; what is signed has surfaces at both signs of a level."""
    around = lambda most: _box(result.molecule.coordinates, most)
    box, sparse = around(POINTS), around(POTENTIAL_POINTS)
    density = _values(result.density, box)
    per_volume, per_root = "bohr\u207b\u00b3", "bohr\u207b\u00b3\u141f\u00b2"
    yield _field("tinted", "density, coloured by the potential", per_volume, 2e-3, box, density.sum(axis=1)) | {
        "tint": "potential"
    }
    orbitals = [*_frontier(result), *(() if excitations is None else _transitions(result.molecule, excitations))]
    for name, f in orbitals:
        yield _field(name, name, per_root, 0.05, box, _values(f, box), signed=True)
    if len(result.density_matrix) == 2:
        yield _field("spin", "spin density", per_volume, 5e-3, box, density[:, 0] - density[:, 1], signed=True)
    yield _field("elf", "electron localisation", "", 0.8, box, _values(result.elf, box))
    yield from _potentials(result, box)
    potential = _values(result.electrostatic_potential, sparse)
    yield _field("potential", "electrostatic potential", "hartree/e", 0.05, sparse, potential, signed=True)


def _potentials(result, box):
    """The exchange-correlation potential of each spin; grid functionals and local hybrids have none."""
    try:
        v_xc = _values(result.v_xc, box)
    except UnsupportedError:
        return
    for s, spin in enumerate(("alpha", "beta") if len(result.density_matrix) == 2 else ("alpha",)):
        label = f"exchange-correlation potential{f', {spin}' if len(result.density_matrix) == 2 else ''}"
        yield _field(f"v_xc {spin}", label, "hartree", 0.3, box, v_xc[:, s], signed=True)


def _frontier(result):
    """(name, orbital) of some orbitals on either side of the gap, of each spin."""
    least = result.calculation.capacity / 2 if result.settings.smearing else 0.0
    unrestricted = result.method == "UKS"
    occupations = result.mo_occ if unrestricted else result.mo_occ.sum(axis=0, keepdims=True)
    for s, n in enumerate(occupations):
        spin = (" alpha", " beta")[s] if unrestricted else ""
        full, empty = np.flatnonzero(n > least)[::-1], np.flatnonzero(n <= least)
        for name, places in (("HOMO-", full), ("LUMO+", empty)):
            for k, place in enumerate(places[:FRONTIER]):
                yield f"{name}{k}{spin}" if k else f"{name[:4]}{spin}", result.orbital(int(place), s)


def _transitions(molecule, excitations):
    """(name, orbital) of the hole and the electron of each excitation's largest pair."""
    for root, energy in enumerate(excitations.energies[:ROOTS]):
        pairs = [excitations.natural_transition_orbitals(root, s) for s in range(len(excitations.X))]
        largest = max(pairs, key=lambda found: found.weights[0])
        for what, C in (("hole", largest.holes), ("electron", largest.particles)):
            words = f"excitation {root + 1}, {energy * HARTREE_IN_EV:.2f} eV: {what}"
            yield words, orbital_function(molecule, C[:, 0])


def _box(coordinates, most):
    """The box of cubes around the nuclei with at most so many points."""
    extent = np.ptp(coordinates, axis=0) + 2 * MARGIN
    spacing = 1.02 * float(np.prod(extent) / most) ** (1 / 3)
    while True:
        box = Box.around(coordinates, MARGIN, spacing)
        if np.prod(box.counts) <= most:
            return box
        spacing *= 1.02


def _values(f, box):
    return np.asarray(evaluate_at(f, box.points))


def _field(name, label, unit, level, box, values, signed=False) -> dict:
    """One function of r; poles at nuclei are cut where half precision ends."""
    if np.any(np.isnan(values)):
        raise NumericalError(f"the {label} is not a number at {np.sum(np.isnan(values))} points of the box.")
    kept = np.clip(values, -6e4, 6e4).astype("<f2")
    return {
        "name": name, "label": label, "unit": unit, "level": level, "signed": signed,
        "origin": box.origin.tolist(), "step": float(box.steps[0, 0]), "counts": list(box.counts),
        "values": base64.b64encode(kept.tobytes()).decode(),
    }  # fmt: skip
