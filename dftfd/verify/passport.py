r"""Passport of a functional: its energies of atoms on fixed densities, which tell it from others of the same name.

The densities are those of Hartree-Fock orbitals in Slater functions, spherical atoms up to krypton, so that no basis
set, SCF or molecular grid comes in: E = 4 pi int r^2 e(n_a, n_b, |grad n|^2, lapl n, tau) dr, on two radial grids. The
difference of both is the error bar. Exact exchange is not part of it; its share is written beside.

S. Lehtola, M. A. L. Marques, J. Chem. Phys. 159, 114116 (2023). doi:10.1063/5.0167763
T. Koga, K. Kanayama, T. Watanabe, A. J. Thakkar, Int. J. Quantum Chem. 71, 491 (1999).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from dftfd.errors import FileError, InputError, NumericalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import Kind, number, public
from dftfd.runtime.arguments import path as as_path
from dftfd.runtime.documents import refusing_damage
from dftfd.runtime.files import read_bytes, write_text
from dftfd.runtime.json_reader import parse_json, shipped_json
from dftfd.runtime.notebook import ShownAsText
from dftfd.runtime.version import VERSION
from dftfd.xc.pointwise import pointwise_kernel

POINTS = (500, 1000)
"""Of the two radial grids."""

INSIDE, OUTSIDE = 1e-7, 90.0
"""Radii [bohr] between which the grids lie; what is beyond weighs less than rounding."""

ROUNDING = 1e-13
"""Of an energy, relative; no error bar is smaller."""

FORM, MAX_BYTES = 1, 2**24


@dataclass(frozen=True)
class AtomEnergy:
    """An atom: energy, its error bar, and the energy of each term of the functional [hartree]."""

    energy: float
    error: float
    terms: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Passport(ShownAsText):
    """Energies of a functional's semilocal part on fixed densities, by atom; print it.

    definition: of the functional: terms, parameters, exact exchange.   version: of dftfd, or whoever wrote it.
    """

    functional: str
    definition: Mapping[str, Any]
    atoms: Mapping[str, AtomEnergy]
    version: str

    def __str__(self):
        names = list(next(iter(self.atoms.values())).terms)
        lines = [f"passport of {self.functional} ({self.version}), energies in hartree on Hartree-Fock densities"]
        if self.definition.get("exact_exchange"):
            lines.append(f"without its exact exchange {self.definition['exact_exchange']}")
        lines += ["", "  ".join(["    ", f"{'energy':>20}", f"{'error':>8}", *(f"{name:>20}" for name in names)])]
        for symbol, atom in self.atoms.items():
            parts = [f"{atom.terms[name]:20.12f}" for name in names]
            lines.append("  ".join([f"{symbol:<4}", f"{atom.energy:20.12f}", f"{atom.error:8.1e}", *parts]))
        return "\n".join(lines)

    def document(self) -> dict:
        """The passport, for JSON."""
        return {
            "dftfd_passport": FORM,
            "functional": self.functional,
            "definition": dict(self.definition),
            "version": self.version,
            "densities": atom_tables()["source"],
            "unit": "hartree",
            "atoms": {
                symbol: {"energy": atom.energy, "error": atom.error, "terms": dict(atom.terms)}
                for symbol, atom in self.atoms.items()
            },
        }

    def write(self, path) -> None:
        """Write the passport to a JSON file."""
        write_text(as_path.checked("path", path), json.dumps(self.document(), indent=1, default=str) + "\n")


@dataclass(frozen=True, repr=False)
class Comparison(ShownAsText):
    """Two passports side by side; `same` where no atom differs by more than the error bars of both."""

    first: Passport
    second: Passport

    @property
    def differences(self) -> dict[str, float]:
        """Second less first [hartree], by the atoms that both have."""
        other = self.second.atoms
        return {s: other[s].energy - atom.energy for s, atom in self.first.atoms.items() if s in other}

    @property
    def same(self) -> bool:
        return all(abs(value) <= self._allowed(symbol) for symbol, value in self.differences.items())

    def _allowed(self, symbol):
        return self.first.atoms[symbol].error + self.second.atoms[symbol].error

    def __str__(self):
        names = f"{self.first.functional} ({self.first.version}) and {self.second.functional} ({self.second.version})"
        if self.same:
            return f"{names}: the same energies on {len(self.differences)} atoms, within their error bars"
        lines = [f"{names} differ [hartree]:"]
        for symbol, value in self.differences.items():
            mark = "" if abs(value) <= self._allowed(symbol) else "  *"
            lines.append(f"{symbol:<4}{value:+16.3e}  error bars {self._allowed(symbol):.1e}{mark}")
        return "\n".join(lines)


_NAME = Kind("the name of a functional, or a Functional", lambda value: get_functional(value))


@public
def passport(functional: Annotated[Any, _NAME]) -> Passport:
    """The passport of a functional: energies [hartree] of 18 spherical atoms, H to Kr, on fixed densities.

    Raises UnsupportedError for what has no semilocal energy: exact exchange alone, double integrals, potentials.

    >>> from dftfd.verify.passport import passport
    >>> round(passport("lda").atoms["He"].energy, 4)  # Dirac exchange of helium's Hartree-Fock density
    -0.8617
    """
    found: Functional = functional
    if not found.terms or not found.is_semilocal or found.is_nonlocal:
        raise UnsupportedError(
            f"functional {found.name!r} has no semilocal energy alone; passports are for LDA, GGA and meta-GGA, "
            "hybrid or not, without double integrals."
        )
    if not all(term.has_energy for _, term in found.terms):
        raise UnsupportedError(f"functional {found.name!r} is a model potential, which has no energy.")
    atoms = {symbol: _atom(found, symbol) for symbol in atom_tables()["atoms"]}
    return Passport(found.name, found.definition, atoms, f"dftfd {VERSION}")


def _atom(functional, symbol) -> AtomEnergy:
    coarse, fine = (_energies(functional, symbol, n) for n in POINTS)
    total, less = math.fsum(fine.values()), math.fsum(coarse.values())
    if not math.isfinite(total):
        raise NumericalError(
            f"the energy of {functional.name!r} on the density of {symbol} is {total}; see dftfd.audit."
        )
    size = math.fsum(map(abs, fine.values()))
    return AtomEnergy(total, max(abs(total - less), ROUNDING * size), fine)


def _energies(functional, symbol, n_points) -> dict[str, float]:
    """Energy of each term [hartree], with its coefficient."""
    weights, variables = spherical_density(symbol, n_points)
    energies: dict[str, float] = {}
    for coefficient, term in functional.terms:
        alone = Functional(term.name, ((1.0, term),))
        (e,) = pointwise_kernel(alone, 2)(list(variables), 0)[0]
        energies[term.name] = energies.get(term.name, 0.0) + coefficient * math.fsum(weights * e)
    return energies


# ----------------------------------------------------------------------------------------------------------- densities


@lru_cache(maxsize=1)
def atom_tables() -> dict:
    return shipped_json("dftfd.verify", "koga_atoms.json")


@lru_cache(maxsize=64)
def spherical_density(symbol: str, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (point,) [bohr^3] of a radial grid, and libxc's nine variables of two spins on it (variable, point).

    r = exp(s) with equal steps of s: the trapezoidal rule converges exponentially for what vanishes at both ends.
    """
    s, step = np.linspace(math.log(INSIDE), math.log(OUTSIDE), n_points, retstep=True)
    r = np.exp(s)
    n, slope, curvature, tau = (np.zeros((2, n_points)) for _ in range(4))
    for shell in atom_tables()["atoms"][symbol]["shells"]:
        l = shell["l"]
        for orbital in shell["orbitals"]:
            R, R1, R2 = _radial(shell, orbital["coefficients"], r)
            for spin, occupation in enumerate(orbital["occupation"]):
                share = occupation / (4 * math.pi)
                n[spin] += share * R**2
                slope[spin] += share * 2 * R * R1
                curvature[spin] += share * 2 * (R1**2 + R * R2)
                tau[spin] += share * 0.5 * (R1**2 + l * (l + 1) * (R / r) ** 2)
    lapl = curvature + 2 * slope / r
    sigma = np.stack([slope[0] ** 2, slope[0] * slope[1], slope[1] ** 2])
    return 4 * math.pi * r**3 * step, np.concatenate([n, sigma, lapl, tau])


def _radial(shell, coefficients, r):
    """R(r) of an orbital and its first two derivatives: a sum of N r^(n - 1) exp(-zeta r)."""
    R, R1, R2 = np.zeros((3, len(r)))
    for n, zeta, c in zip(shell["n"], shell["zeta"], coefficients, strict=True):
        norm = c * (2 * zeta) ** (n + 0.5) / math.sqrt(math.factorial(2 * n))
        f = norm * r ** (n - 1) * np.exp(-zeta * r)
        k = (n - 1) / r - zeta
        R, R1, R2 = R + f, R1 + f * k, R2 + f * (k**2 - (n - 1) / r**2)
    return R, R1, R2


# ---------------------------------------------------------------------------------------------------------------- files


def read_passport(path) -> Passport:
    """The passport of a JSON file; FileError where it is none."""
    path = as_path.checked("path", path)
    with refusing_damage(path, "is not a passport of a functional; `dftfd passport NAME` writes one", FileError):
        document = parse_json(read_bytes(path, MAX_BYTES))
        if document["dftfd_passport"] != FORM:
            raise ValueError(f"form {document['dftfd_passport']!r}")
        atoms = {
            str(symbol): AtomEnergy(
                _finite(atom["energy"]), _finite(atom["error"]), {str(k): _finite(x) for k, x in atom["terms"].items()}
            )
            for symbol, atom in document["atoms"].items()
        }
        if len({frozenset(atom.terms) for atom in atoms.values()}) != 1:
            raise ValueError("no atoms, or other terms for each")
        return Passport(str(document["functional"]), dict(document["definition"]), atoms, str(document["version"]))


def _finite(value) -> float:
    return number().convert(value)


def passport_of(what: str | Functional) -> Passport:
    """The passport of a file, *.json, or of a functional."""
    if not isinstance(what, str | Functional):
        raise InputError("give the name of a functional, a Functional, or a passport's file.")
    return read_passport(what) if isinstance(what, str) and what.lower().endswith(".json") else passport(what)
