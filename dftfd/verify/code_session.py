"""Asking a target of `dftfd audit-code`: what was asked once is not computed again, answers are checked."""

import numpy as np

from dftfd.errors import DftfdError, NumericalError, UnsupportedError
from dftfd.interop.asked import Setting, Target, shape_of
from dftfd.verify.audit_sources import CodeRaisedError
from dftfd.verify.code_differences import noise

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
