"""Functionals and the dispersion corrections that were fitted to them: 'pbe-d3bj', 'wB97X-D', 'B97-3c'.

The correction depends on the positions of the nuclei alone (D4: on the charge too). Its parameters belong to one
functional and one kind of damping: `dispersion_pairs.json` holds these pairs, each with its paper; data/dispersion/
makes and checks it. A name that promises a correction means a pair of this table, or is refused.

S. Grimme, J. Comput. Chem. 27, 1787 (2006). doi:10.1002/jcc.20495 (d2)
J.-D. Chai, M. Head-Gordon, Phys. Chem. Chem. Phys. 10, 6615 (2008). doi:10.1039/b810189b (chg, of wB97X-D)
S. Grimme, J. Antony, S. Ehrlich, H. Krieg, J. Chem. Phys. 132, 154104 (2010). doi:10.1063/1.3382344 (D3, d3zero)
S. Grimme, S. Ehrlich, L. Goerigk, J. Comput. Chem. 32, 1456 (2011). doi:10.1002/jcc.21759 (d3bj)
D. G. A. Smith et al., J. Phys. Chem. Lett. 7, 2197 (2016). doi:10.1021/acs.jpclett.6b00780 (d3bjm, d3zerom)
J. Witte, N. Mardirossian, J. B. Neaton, M. Head-Gordon, J. Chem. Theory Comput. 13, 2043 (2017).
doi:10.1021/acs.jctc.7b00176 (d3op)
E. Caldeweyher et al., J. Chem. Phys. 150, 154122 (2019). doi:10.1063/1.5090222 (D4)
H. Kruse, S. Grimme, J. Chem. Phys. 136, 154101 (2012). doi:10.1063/1.3700154 (gCP of the 3c methods)
"""

import functools
import re
from collections.abc import Callable
from typing import cast

import numpy as np

from dftfd.errors import FunctionalError, UnsupportedError, closest_names
from dftfd.functionals.aliases import COMBINATIONS, OTHER_PROGRAMS, refuse_ambiguous
from dftfd.runtime.json_reader import shipped_json
from dftfd.runtime.written_numbers import real

VERSIONS = ("d2", "d3bj", "d3zero", "d3bjm", "d3zerom", "d3op", "d4", "d4rev", "3c")
"""Suffixes; those of D3 may end in 'atm', for the three-body term, which D4 always has."""

_SUFFIX = re.compile(r"(?P<base>.+)-(?P<version>d|d[234][a-z0-9]*|3c)", re.S)
_DAMPINGS = {
    "(bj)": "bj", "(0)": "zero", "(zero)": "zero", "(op)": "op", "m(bj)": "bjm", "m(0)": "zerom", "(bjm)": "bjm",
    "mbj": "bjm", "mzero": "zerom", "m0": "zerom", "0": "zero",
}  # fmt: skip
"""How papers and programs write the damping of D3 after 'D3'."""
DISPUTED = {
    ("b97_2", "d3zero"): "simple-dftd3 has s8 = 1.6418, which is B97-1's, and QCEngine and Psi4 have 2.4661",
    ("mn15", "d3bj"): (
        "simple-dftd3 has a1 = 2.0971 and s8 = 0.7862, and QCEngine and Psi4 have a1 = 0.7862 and s8 = 2.0971"
    ),
}
"""Pairs that the table leaves out: programs have different numbers, each of the same paper (doi:10.1039/c7cp04913g)."""


@functools.cache
def pairs() -> dict[str, dict[str, dict]]:
    """{functional's name: {version: row}}; a row has functional, parameters, numbers, doi, and where they differ from
    the version's: corrections, basis, without_vv10."""
    return shipped_json("dftfd.functionals", "dispersion_pairs.json")


@functools.cache
def _numbers() -> dict[tuple[str, str], dict[str, float]]:
    found = {}
    for version, row in (item for rows in pairs().values() for item in rows.items()):
        for part in row.get("corrections", version).split("+"):
            found[part, row["parameters"]] = row["numbers"]
    return found


def numbers_of(part: str, parameters: str) -> dict[str, float]:
    """Numbers of one correction, as 'd4' of 'd4+gcp': the table's by their makers' name, none for what it lacks, or
    those of a text such as 's8=0.79 a1=0.49 a2=5.73', for d3bj and d4. FunctionalError for a text that is none."""
    if not is_own(parameters):
        return _numbers().get((part, parameters), {})
    if part not in ("d3bj", "d3bjatm", "d4"):
        raise FunctionalError(f"dispersion {part!r} with {parameters!r}: d3bj, d3bjatm and d4 take own parameters.")
    given = {name: value for name, _, value in (word.partition("=") for word in parameters.split())}
    numbers = {name: real(value) for name, value in given.items()}
    needed = {"s8", "a1", "a2"}
    is_whole = needed <= numbers.keys() <= needed | {"s6"} and len(given) == len(parameters.split())
    if not is_whole or any(x is None or not 0 <= x < np.inf for x in numbers.values()):
        raise FunctionalError(
            f"dispersion parameters {parameters!r}: 's8=... a1=... a2=...' with numbers that are not negative expected "
            "(a2 in bohr), and s6=... where it is not 1."
        )
    return {name: float(cast(float, x)) for name, x in numbers.items()}


def is_own(parameters: str) -> bool:
    """Whether the parameters of a correction are given as numbers."""
    return "=" in parameters


def basis_of(dispersion: tuple[str, str]) -> str | None:
    """The basis set for which a 3c method's corrections were made, by `Functional.dispersion`; None for others."""
    rows = (row for versions in pairs().values() for row in versions.values() if "basis" in row)
    return next((row["basis"] for row in rows if (row["corrections"], row["parameters"]) == tuple(dispersion)), None)


@functools.cache
def _by_spelling() -> dict[str, tuple[str, str]]:
    """{name with its suffix, letters and digits alone: (name, version)}."""
    found = {}
    for name, rows in pairs().items():
        for version in rows:
            found[_squashed(name + version)] = name, version
            if version.startswith("d3") and version != "d3":
                found[_squashed(name + version + "atm")] = name, version + "atm"
    return found | {"b97d": ("b97d", "d2"), "wb97xd": ("wb97x", "d2"), "cf22d": ("cf22d", "d3zero")}


def _squashed(text):
    return re.sub(r"[-_\s]", "", text)


def find_pair(text: str, require_known: Callable[[str], object]) -> dict | None:
    """The row of the table, with the 'corrections' that belong to it, that a name promises; None for another name.

    text: in lower case, ASCII. require_known: raises FunctionalError for a functional that there is not.
    FunctionalError for a suffix that is unknown, leaves the damping open, or goes with no functional of this name.
    """
    text = re.sub(r"g?d3[-\s]?(m?\([a-z0]+\)|[a-z0]+?)(-?(?:atm|abc))?$", _damping, text.strip())
    name, version = _by_spelling().get(_squashed(text), ("", ""))
    if name:
        refuse_ambiguous(_before(text, version))
        row = pairs()[name][version.removesuffix("atm")]
        return {"corrections": version, **row}
    for pair, why in DISPUTED.items():
        if _squashed(text).removesuffix("atm") == _squashed("".join(pair)):
            raise FunctionalError(f"{text!r} has different parameters in different programs: {why}.")
    base, suffix = split_dispersion(text)
    if suffix is None:
        return None
    version = suffix
    refuse_ambiguous(base)
    other = OTHER_PROGRAMS.get(_squashed(base), COMBINATIONS.get(_squashed(base)))
    fitted = [k for k, row in pairs().items() if other in (k, row.get(version, {}).get("functional"))] if other else []
    if fitted and _squashed(fitted[0]) != _squashed(base):
        return find_pair(f"{fitted[0]}-{version}", require_known)
    versions = [v for v in VERSIONS if any(v in row for k, row in pairs().items() if _squashed(k) == _squashed(base))]
    if version == "d" and not versions:
        return None
    require_known(base)
    if version in ("d", "d3"):
        fitting = [v for v in versions if v.startswith(version)]
        choice = " or ".join(f"{base}-{v}" for v in fitting[:2]) or "it without a correction"
        raise FunctionalError(f"{text!r} does not specify the damping of the correction; write {choice}.")
    others = f"there are {', '.join(versions)}" if versions else "no other was fitted to it either"
    raise FunctionalError(f"there is no {version} correction of {base!r}; {others}.")


def _before(text, version):
    """The name in front of a version, as it is written."""
    start = (i for i in range(len(text)) if _squashed(text[i:]) == version)
    return text[: next(start, len(text))].rstrip("-_ ")


def _damping(match):
    return "d3" + _DAMPINGS.get(match[1], match[1]) + ("atm" if match[2] else "")


def split_dispersion(text: str) -> tuple[str, str | None]:
    """A functional's name without its suffix, and the version, None without a suffix.

    Raises FunctionalError for a suffix that is unknown.
    """
    match = _SUFFIX.fullmatch(text.strip().lower())
    if match is None:
        return text, None
    base, version = match["base"].strip(), match["version"]
    if version not in (*VERSIONS, "d", "d3") and version.removesuffix("atm") not in VERSIONS:
        closest = ", ".join(closest_names(version, VERSIONS))
        raise FunctionalError(f"unknown dispersion correction {version!r} in {text.strip()!r}; the closest: {closest}.")
    return base, version


def refuse_in_sums(*functionals) -> None:
    """Raise FunctionalError for a functional with a correction, which does not add or scale."""
    for f in functionals:
        if f.dispersion is not None:
            raise FunctionalError(
                f"functional {f.name!r} has a dispersion correction, which belongs to a functional as a whole; combine "
                "functionals without it."
            )


_C6 = (
    *(0.14, 0.08, 1.61, 1.61, 3.13, 1.75, 1.23, 0.70, 0.75, 0.63, 5.71, 5.71, 10.79, 9.23, 7.84, 5.57, 5.07, 4.61),
    *(10.80,) * 12,
    *(16.99, 17.10, 16.37, 12.64, 12.47, 12.01),
    *(24.67,) * 12,
    *(37.32, 38.71, 38.44, 31.74, 31.50, 29.99),
)
"""J nm^6/mol, from hydrogen to xenon."""
_R0 = (
    *(1.001, 1.012, 0.825, 1.408, 1.485, 1.452, 1.397, 1.342, 1.287, 1.243),
    *(1.144, 1.364, 1.639, 1.716, 1.705, 1.683, 1.639, 1.595, 1.485, 1.474),
    *(1.562,) * 10,
    *(1.650, 1.727, 1.760, 1.771, 1.749, 1.727, 1.628, 1.606),
    *(1.639,) * 10,
    *(1.672, 1.804, 1.881, 1.892, 1.892, 1.881),
)
"""Angstrom."""
_BOHR = 0.52917721092
_C6_UNIT = 1e-3 / (2625.4996394798254 * (_BOHR / 10) ** 6)
"""J nm^6/mol in hartree bohr^6."""


def pairwise_dispersion(numbers, positions, *, s6: float, d: float = 0.0, a: float = 0.0):
    """Energy [hartree] and its gradient (atom, 3) [hartree/bohr].

    numbers: (atom,) atomic numbers.   positions: (atom, 3) [bohr].   d: steepness of Grimme's damping, or a: of Chai's.
    UnsupportedError beyond xenon, where the paper has no coefficients.

    Dispersion from fixed coefficients of atoms, table 1 of Grimme's D2 paper and eqs. 6 and 7 of Chai's:

        E = -s6 sum_{i<j} C6_ij f(r_ij) / r_ij^6,   C6_ij = sqrt(C6_i C6_j),   R_ij = R_i + R_j
        d2:   f = 1 / (1 + exp(-d (r/R - 1)))
        chg:  f = 1 / (1 + a (r/R)^-12)
    """
    if max(numbers, default=0) > len(_C6):
        raise UnsupportedError("D2 has coefficients of the elements up to xenon; take D3 or D4 for heavier ones.")
    positions, index = np.asarray(positions), np.asarray(numbers, dtype=int) - 1
    C6, R0 = np.sqrt(np.array(_C6)[index] * _C6_UNIT), np.array(_R0)[index] / _BOHR
    i, j = np.triu_indices(len(index), 1)
    vectors = positions[i] - positions[j]
    r = np.linalg.norm(vectors, axis=1)
    x = r / (R0[i] + R0[j])
    damping = np.exp(-d * (x - 1)) if d else a * x**-12.0
    f = 1 / (1 + damping)
    df = f**2 * damping * (d * x if d else 12) / r
    energies = -s6 * C6[i] * C6[j] / r**6
    along = (energies * (df - 6 * f / r) / r)[:, None] * vectors
    gradient = np.zeros_like(positions)
    np.add.at(gradient, i, along)
    np.add.at(gradient, j, -along)
    return float((energies * f).sum()), gradient
