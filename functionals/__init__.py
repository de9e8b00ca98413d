"""The functional library: exchange-correlation energies written on functions."""

if __name__ != "dftfd.functionals":
    raise ImportError("import dftfd.functionals, not functionals: the folder is part of the package dftfd")

import importlib

__all__ = [
    "attenuation",
    "b86",
    "b88",
    "b97",
    "b97m",
    "bc95",
    "br89",
    "chachiyo",
    "dm21",
    "hartree",
    "hybrids",
    "kinetic",
    "lda",
    "local_hybrids",
    "lyp",
    "minnesota",
    "optx",
    "p86",
    "pbe",
    "potentials",
    "pw91",
    "pw92",
    "range_separated",
    "scan",
    "skala",
    "tpss",
    "vdw_df",
    "vv10",
    "wpbe",
]

# Each family registers its functionals. The catalogue enters itself as a source of functionals, names as what reads
# expressions; then the registry is sealed.
for _module in (*__all__, "catalogue", "names"):
    importlib.import_module(f"dftfd.functionals.{_module}")
importlib.import_module("dftfd.functionals.registry").seal()
