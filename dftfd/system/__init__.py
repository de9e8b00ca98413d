"""Molecules: readers of xyz, mol and Z-matrices, basis sets, checks of input."""
