"""Excitations read from HDF5 files, which `Excitations.save` writes."""

from pathlib import Path

from dftfd.response.excitations import FORMAT, PER_SPIN, TEXT, Excitations
from dftfd.runtime.arguments import public
from dftfd.runtime.documents import require_types, saved_part


@public
def load_excitations(path: Path) -> Excitations:
    """The Excitations in a file that `Excitations.save` wrote. Raises FileError for other files."""
    with saved_part(path, "excitations", FORMAT) as (text, arrays):
        n_spin = 1 if "X_1" not in arrays else 2
        text = {"solvation": ""} | text  # older files have none
        entries = dict(arrays) | {name: text[name] for name in TEXT}
        entries |= {name: tuple(entries.pop(f"{name}_{s}") for s in range(n_spin)) for name in PER_SPIN}
        found = Excitations(**entries | {"converged": arrays["converged"].astype(bool)})
        _require_shapes(require_types(found))
        return found


def _require_shapes(found):
    n = len(found.energies)
    for name in ("energies", "oscillator_strengths", "rotatory_strengths", "converged", "residuals"):
        if getattr(found, name).shape != (n,):
            raise ValueError(f"{name} has the shape {getattr(found, name).shape}")
    for X, Y, C_o, C_v in zip(found.X, found.Y, found.occupied, found.virtual, strict=True):
        if X.shape != (n, C_o.shape[1], C_v.shape[1]) or Y.shape != X.shape or len(C_o) != len(C_v):
            raise ValueError("amplitudes and orbitals of different sizes")
