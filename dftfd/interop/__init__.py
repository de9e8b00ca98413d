"""Bridges to other packages: PySCF's mean fields and numerical integration, libxc, geomeTRIC, Molden."""

from dftfd import libcint  # noqa: F401  before PySCF itself: it decides which configuration PySCF reads
