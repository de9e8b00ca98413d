"""The functional library: exchange-correlation energies written on functions."""

if __name__ != "dftfd.functionals":
    raise ImportError("import dftfd.functionals, not functionals: the folder is part of the package dftfd")
