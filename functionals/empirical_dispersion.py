"""Dispersion corrections as suffix of a functional's name: 'pbe-d3bj', 'b3lyp-d4'.

The correction depends on the positions of the nuclei alone (D4: on the charge too); its parameters belong to the
functional as a whole and to one kind of damping.

S. Grimme, J. Antony, S. Ehrlich, H. Krieg, J. Chem. Phys. 132, 154104 (2010). doi:10.1063/1.3382344 (D3, d3zero)
S. Grimme, S. Ehrlich, L. Goerigk, J. Comput. Chem. 32, 1456 (2011). doi:10.1002/jcc.21759 (d3bj)
D. G. A. Smith et al., J. Phys. Chem. Lett. 7, 2197 (2016). doi:10.1021/acs.jpclett.6b00780 (d3bjm, d3zerom)
J. Witte, N. Mardirossian, J. B. Neaton, M. Head-Gordon, J. Chem. Theory Comput. 13, 2043 (2017).
doi:10.1021/acs.jctc.7b00176 (d3op)
E. Caldeweyher et al., J. Chem. Phys. 150, 154122 (2019). doi:10.1063/1.5090222 (D4)
"""

import re

from dftfd.errors import FunctionalError, closest_names

VERSIONS = ("d3bj", "d3zero", "d3bjm", "d3zerom", "d3op", "d4")
"""Kinds of damping; those of D3 may end in 'atm', for the three-body term, which D4 always has."""

_SUFFIXES = (*VERSIONS, *(version + "atm" for version in VERSIONS if version != "d4"))
_SUFFIX = re.compile(r"(?P<base>.+)-(?P<version>d[34][a-z0-9]*)", re.I | re.S)

WITHOUT_VV10 = {"wb97x": "wb97x-v", "wb97m": "wb97m-v", "b97m": "b97m-v"}
"""Functionals whose D3 and D4 variants are those with VV10 in which the correction takes VV10's place.

A. Najibi, L. Goerigk, J. Chem. Theory Comput. 14, 5725 (2018). doi:10.1021/acs.jctc.8b00842 (D3)
A. Najibi, L. Goerigk, J. Comput. Chem. 41, 2562 (2020). doi:10.1002/jcc.26411 (D4)
"""


def split_dispersion(text: str) -> tuple[str, str | None]:
    """A functional's name without its suffix, and the version in lower case, None without a suffix.

    Raises FunctionalError for a suffix that leaves the damping open or is unknown.
    """
    match = _SUFFIX.fullmatch(text.strip())
    if match is None:
        return text, None
    base, version = match["base"].strip(), match["version"].lower()
    if version == "d3":
        raise FunctionalError(f"{text.strip()!r} leaves the damping of D3 open; write {base}-d3bj or {base}-d3zero.")
    if version not in _SUFFIXES:
        closest = ", ".join(closest_names(version, _SUFFIXES))
        raise FunctionalError(f"unknown dispersion correction {version!r} in {text.strip()!r}; the closest: {closest}.")
    return base, version


def parameter_name(base: str) -> str:
    """What the tables of parameters call a functional: lower case, without hyphens and underscores."""
    return re.sub(r"[-_\s]", "", base.lower())
