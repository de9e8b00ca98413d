"""Molecular quadrature grids, differentiable in the nuclear positions."""

if __name__ != "dftfd.grids":
    raise ImportError("import dftfd.grids, not grids: the folder is part of the package dftfd")
