"""Weighted points that stand for the densities of molecules, and energies of formulas on them.

    E(m) = base(m) + sum_p x_weight_p F_x(s2_p, alpha_p) + sum_p c_weight_p eps_c(rs_p, zeta_p, s2_p, alpha_p)

with the points p of molecule m, a few hundred where the molecular grid has 1e5. `dftfd.discovery.compression` makes
them, docs/discovery_data.md says how good they are.
"""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import FileError, InputError, shown
from dftfd.runtime.files import read_bytes, write_bytes
from dftfd.runtime.records import digest, recorded

SHIPPED = Path(__file__).parent / "points.npz"
ROLES = ("training", "validation", "held out")
HELD_OUT = ROLES[2]
LEDGER = "looks at data that no search may see"  # as files have it
MAX_BYTES = 2**30
_TEXTS = ("molecules", "reaction_names", "subsets", "role")
_AXES = {
    "molecule": ("molecules", "base"),
    "reaction": ("reference", "reaction_weight", *_TEXTS[1:]),
    "x point": ("x_weight", "x_s2", "x_alpha"),
    "c point": ("c_weight", "c_rs", "c_zeta", "c_s2", "c_alpha"),
}
"""Fields of one axis; the others are offsets and the stoichiometry."""


@dataclass(frozen=True, eq=False)
class TrainingPoints:
    """Molecules as points of their densities, and reactions between them.

    molecules: names.   base: (molecule,) all of the energy but semilocal exchange and correlation [hartree].
    x_offsets: (molecule + 1,), points of molecule m are x_offsets[m]:x_offsets[m + 1]; c_offsets likewise.
    x_weight: (x point,) half the quadrature weight times the LDA exchange energy density of a doubled spin density
        [hartree].   x_s2, x_alpha: its squared reduced gradient, and (tau - tau_W) / tau_unif.
    c_weight: (c point,) quadrature weight times density [electrons].   c_rs [bohr], c_zeta (0 to 1), c_s2 of the total
        density, c_alpha = (tau - tau_W) / (tau_unif d_s), d_s = ((1 + zeta)^(5/3) + (1 - zeta)^(5/3)) / 2.
    stoichiometry: (reaction, molecule), products less reactants.   reference: (reaction,) [hartree].
    reaction_weight: (reaction,) of the square of its error.   reaction_names, subsets, role: (reaction,) texts, a role
    one of ROLES.
    corrections: (molecule, correction) [hartree] energies of which a fit may add any multiples; they are in no file.
    """

    molecules: tuple[str, ...]
    base: np.ndarray
    x_offsets: np.ndarray
    x_weight: np.ndarray
    x_s2: np.ndarray
    x_alpha: np.ndarray
    c_offsets: np.ndarray
    c_weight: np.ndarray
    c_rs: np.ndarray
    c_zeta: np.ndarray
    c_s2: np.ndarray
    c_alpha: np.ndarray
    stoichiometry: np.ndarray
    reference: np.ndarray
    reaction_weight: np.ndarray
    reaction_names: tuple[str, ...]
    subsets: tuple[str, ...]
    role: tuple[str, ...]
    corrections: np.ndarray | None = None

    # ------------------------------------------------------------------------------------------------- energies

    def sum_x(self, values) -> np.ndarray:
        """sum_p x_weight_p values_p over the points of each molecule: (..., x point) to (..., molecule) [hartree]."""
        return _sums(self.x_weight, values, self.x_offsets)

    def sum_c(self, values) -> np.ndarray:
        """sum_p c_weight_p values_p over the points of each molecule: (..., c point) to (..., molecule) [hartree]."""
        return _sums(self.c_weight, values, self.c_offsets)

    def energies(self, F_x, eps_c) -> np.ndarray:
        """Energies (molecule,) [hartree] of an enhancement factor (x point,) and a correlation energy per electron
        (c point,) [hartree]."""
        return self.base + self.sum_x(F_x) + self.sum_c(eps_c)

    def errors(self, energies) -> np.ndarray:
        """Reaction energies of energies (..., molecule) less the references, (..., reaction) [hartree]."""
        return energies @ self.stoichiometry.T - self.reference

    # --------------------------------------------------------------------------------------------------- subsets

    def of(self, role: str) -> "TrainingPoints":
        """The reactions of a role and their molecules; InputError for held-out ones, which `held_out` returns."""
        if role not in ROLES[:2]:
            raise InputError(
                f"{shown(role)} reactions were requested, but of() only returns {' and '.join(ROLES[:2])} ones; "
                "use held_out(...) for held-out reactions, which is counted in a file."
            )
        return self.chosen([one == role for one in self.role])

    def held_out(self, ledger: Any, why: str) -> "TrainingPoints":
        """The held-out reactions and their molecules, counted in the file `ledger`; raises as `count_evaluation`."""
        found = self.chosen([one == HELD_OUT for one in self.role])
        count_evaluation(ledger, "held-out reactions", found.reaction_names, why)
        return found

    def chosen(self, reactions) -> "TrainingPoints":
        """The reactions of a mask (reaction,) and the molecules that they need."""
        rows = np.flatnonzero(np.asarray(reactions, dtype=bool))
        columns = np.flatnonzero(np.any(self.stoichiometry[rows] != 0, axis=0))
        x, x_offsets = _points_of(columns, self.x_offsets)
        c, c_offsets = _points_of(columns, self.c_offsets)
        places = {"molecule": columns, "reaction": rows, "x point": x, "c point": c}
        pick = lambda name, at: tuple(getattr(self, name)[k] for k in at) if name in _TEXTS else getattr(self, name)[at]
        given: dict[str, Any] = {name: pick(name, places[axis]) for axis, names in _AXES.items() for name in names}
        given["stoichiometry"] = self.stoichiometry[np.ix_(rows, columns)]
        given["corrections"] = None if self.corrections is None else self.corrections[columns]
        return replace(self, x_offsets=x_offsets, c_offsets=c_offsets, **given)

    # ----------------------------------------------------------------------------------------------------- files

    @classmethod
    def read(cls, path: Any = None) -> "TrainingPoints":
        """Those of a file of `write`, or the ones that come with dftfd; FileError for another file."""
        path = SHIPPED if path is None else Path(path)
        content = read_bytes(path, MAX_BYTES)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = {name: file[name] for name in _stored(cls)}
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise FileError(f"{path} does not hold training points: {error}.") from error
        given: dict[str, Any] = {
            name: tuple(map(str, value))
            if name in _TEXTS
            else value.astype(np.int64 if name.endswith("offsets") else np.float64)
            for name, value in arrays.items()
        }
        return cls(**given).checked(str(path))

    def checked(self, where: str = "these") -> "TrainingPoints":
        """Itself; InputError for arrays that do not go together."""
        n, reactions = len(self.molecules), len(self.reaction_names)
        sizes = {"molecule": n, "reaction": reactions}
        sizes |= {"x point": int(self.x_offsets[-1]), "c point": int(self.c_offsets[-1])}
        shapes: dict[str, tuple[int, ...]] = {name: (sizes[axis],) for axis, names in _AXES.items() for name in names}
        shapes |= {"x_offsets": (n + 1,), "c_offsets": (n + 1,), "stoichiometry": (reactions, n)}
        for name, shape in shapes.items():
            found = getattr(self, name)
            if np.shape(found) != shape or name not in _TEXTS and not np.all(np.isfinite(found)):
                raise InputError(f"{where} points: {name} has shape {np.shape(found)}; {shape}, finite, expected.")
            if name.endswith("offsets") and (found[0] != 0 or np.any(np.diff(found) < 1)):
                raise InputError(f"{where} points: {name} has to rise from 0, with a point or more for each molecule.")
        if not set(self.role) <= set(ROLES):
            raise InputError(f"{where} points: a role ({', '.join(ROLES)}) expected for each reaction.")
        return self

    def write(self, path: Any) -> None:
        """To a file .npz; points in single precision, energies in double. FileError where it cannot be written."""
        arrays = {}
        for name in _stored(self):
            value = getattr(self, name)
            single = name.startswith(("x_", "c_")) and not name.endswith("offsets")
            arrays[name] = np.asarray(value, dtype=np.float32) if single else np.asarray(value)
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **arrays)
        write_bytes(path, stream.getvalue())


def _stored(points) -> list[str]:
    """Names of what a file has."""
    return [field.name for field in fields(points) if field.name != "corrections"]


def ledger_in(folder: Path) -> Path:
    """The file of a folder that counts evaluations of held-out data; looks.jsonl if an earlier search began it."""
    earlier = folder / "looks.jsonl"
    return earlier if earlier.exists() else folder / "held_out.jsonl"


def count_evaluation(ledger: Any, what: str, reactions: Sequence[str], why: str) -> int:
    """Add a line to the file `ledger` for an evaluation of data that no search may see; their number.

    what: in words.   reactions: names.   why: the reason. Raises InputError without a reason, FileError where the line
    cannot be written, DamagedFileError for a ledger whose lines were changed.
    """
    if not str(why).strip():
        raise InputError(f"{what} cannot be evaluated without a reason, which is written to the ledger; give one.")
    with recorded(ledger, LEDGER, {"counts": "every look"}) as record:
        number = len(record.pieces) + 1
        record.add(
            {
                "evaluation": number,
                "what": what,
                "why": str(why),
                "reactions": len(reactions),
                "of": digest([*reactions]),
            }
        )
    return number


def _sums(weight, values, offsets):
    return np.add.reduceat(weight * values, offsets[:-1], axis=-1)


def _points_of(columns, offsets):
    """Places of the points of some molecules, and their offsets among these."""
    sizes = np.diff(offsets)[columns]
    places = [np.arange(offsets[k], offsets[k + 1]) for k in columns]
    return np.concatenate([*places, np.zeros(0, dtype=int)]).astype(int), np.concatenate([[0], np.cumsum(sizes)])
