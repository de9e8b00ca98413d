"""Derivatives through the whole calculation, and what is made of them: losses, fits, inverted densities."""

from dftfd.training import losses

__all__ = ["losses"]
