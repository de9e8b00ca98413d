"""The functional library: exchange-correlation energies written on functions."""

if __name__ != "dftfd.functionals":
    raise ImportError("import dftfd.functionals, not functionals: the folder is part of the package dftfd")

from dftfd.functionals import (  # noqa: E402  each registers its functionals
    attenuation,
    b86,
    b88,
    b97,
    b97m,
    bc95,
    br89,
    chachiyo,
    deorbitalised,
    dm21,
    double_hybrids,
    hartree,
    hybrids,
    kinetic,
    lda,
    local_hybrids,
    lyp,
    minnesota,
    optx,
    p86,
    pbe,
    potentials,
    pw86,
    pw91,
    pw92,
    range_separated,
    scan,
    skala,
    tpss,
    vdw_df,
    vv10,
    wpbe,
)
from dftfd.functionals import catalogue as _catalogue  # noqa: E402, F401  enters itself as a source of functionals
from dftfd.functionals import names as _names  # noqa: E402, F401  enters itself as what reads expressions
from dftfd.functionals.registry import seal  # noqa: E402

seal()

__all__ = [
    "attenuation",
    "b86",
    "b88",
    "b97",
    "b97m",
    "bc95",
    "br89",
    "chachiyo",
    "deorbitalised",
    "dm21",
    "double_hybrids",
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
    "pw86",
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
