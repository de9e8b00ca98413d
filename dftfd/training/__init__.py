"""Derivatives through the whole calculation, and what is made of them: losses, fits, inverted densities."""
