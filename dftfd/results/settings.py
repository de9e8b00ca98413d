"""What the numbers of a result depend on."""

from collections.abc import Mapping
from dataclasses import dataclass

from dftfd.model.options import OPTIONS, Options


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on, as it was used; those of `options` can be asked for here, as in `settings.conv_tol`.

    functional, definition: its name, and the terms, parameters and exact exchange that the name stood for.
    auxiliary_basis: None for exact Coulomb and exchange integrals.   n_points: of the grid.   guess: where it began, in
    words.   versions: package -> version.   nlc_grid_level: None without double integrals.
    """

    options: Options
    functional: str
    definition: Mapping
    basis: str
    auxiliary_basis: str | None
    n_points: int
    guess: str
    versions: Mapping[str, str]
    nlc_grid_level: int | None = None

    @property
    def grid_level(self) -> int | None:
        """None where the points were given."""
        return self.options.grid_level if self.options.grid is None else None

    def __getattr__(self, name):
        if name not in OPTIONS:
            raise AttributeError(f"Settings has no attribute {name!r}")
        return getattr(self.options, name)
