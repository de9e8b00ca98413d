"""The functional library: exchange-correlation energies written on functions."""

if __name__ != "dftfd.functionals":
    raise ImportError("import dftfd.functionals, not functionals: the folder is part of the package dftfd")

from dftfd.functionals import b88, hybrids, lda, lyp, pbe  # noqa: E402  each registers its functionals

__all__ = ["b88", "hybrids", "lda", "lyp", "pbe"]
