"""Comparisons of a functional with a reference; see `dftfd.check`."""
