"""Basis sets that the Basis Set Exchange has and PySCF does not, where the package `basis_set_exchange` is installed.

Keys are names in lower case without '-', '_' and blanks; shells and potentials have the form of `basis_sets`, in lists.

B. P. Pritchard and others, J. Chem. Inf. Model. 59, 4814 (2019). doi:10.1021/acs.jcim.9b00725
"""

import functools
import re
from collections.abc import Mapping

from dftfd.elements import ATOMIC_NUMBERS

_POWERS = 7
"""Of r in a potential, 0 to 6, as PySCF's have them."""


def _package():
    try:
        import basis_set_exchange
    except ImportError:
        return None
    return basis_set_exchange


def exchange_is_installed() -> bool:
    """Whether the package is there."""
    return _package() is not None


@functools.cache
def exchange_names() -> Mapping[str, str]:
    """Its orbital basis sets as it writes them, by key; none without the package."""
    package = _package()
    if package is None:
        return {}
    names = [entry["display_name"] for entry in package.get_metadata().values() if entry["role"] == "orbital"]
    return {re.sub(r"[-_ ]", "", name.lower()): name for name in names}


@functools.lru_cache(maxsize=512)
def _of_element(key, symbol):
    """The entry of an element, {} where the basis set has none."""
    number = ATOMIC_NUMBERS[symbol]
    try:
        found = _package().get_basis(exchange_names()[key], elements=[number], uncontract_spdf=True)
    except KeyError:  # the element is not in the set
        return {}
    return found["elements"][str(number)]


def exchange_shells(key: str, symbol: str) -> list:
    """The shells of an element, [] where the set has none."""
    return [
        [
            shell["angular_momentum"][0],
            *([float(x) for x in row] for row in zip(shell["exponents"], *shell["coefficients"], strict=True)),
        ]
        for shell in _of_element(key, symbol).get("electron_shells", ())
    ]


def exchange_potential(key: str, symbol: str) -> list | None:
    """The effective core potential of an element, None where the set has none."""
    entry = _of_element(key, symbol)
    if "ecp_potentials" not in entry:
        return None
    parts = sorted((part["angular_momentum"][0], part) for part in entry["ecp_potentials"])
    highest = max(momentum for momentum, _ in parts)
    potential = []
    for momentum, part in parts:
        powers: list = [[] for _ in range(_POWERS)]
        for power, exponent, coefficient in zip(
            part["r_exponents"], part["gaussian_exponents"], part["coefficients"][0], strict=True
        ):
            if float(coefficient):
                powers[power].append([float(exponent), float(coefficient)])
        potential.append([-1 if momentum == highest else momentum, powers])
    return [entry["ecp_electrons"], sorted(potential, key=lambda part: part[0])]
