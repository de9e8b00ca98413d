"""Named basis sets and effective core potentials, as plain numbers.

A name is looked up in PySCF's table of names, then among those of the Basis Set Exchange, and in no other place: PySCF
itself would also take a name for a file or for basis set text. Shells are nested tuples (l, (exponent, coefficient,
...), ...); an effective core potential is (number of core electrons, ((l, powers of r), ...)), both as PySCF keeps them
internally.

B. P. Pritchard and others, J. Chem. Inf. Model. 59, 4814 (2019). doi:10.1021/acs.jcim.9b00725
"""

import functools
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from numbers import Integral

from pyscf.gto import basis as tables
from pyscf.gto import mole
from pyscf.gto.basis import parse_nwchem_ecp
from pyscf.lib.exceptions import BasisNotFoundError

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputError, closest_names, shown

_POPLE = re.compile(
    r"(?:321|431|631|6311)\+{0,2}g(?:\*{1,2}|\((?=[^,)])(?:[1-4]?d)?(?:[1-4]?f)?(?:,(?=[^)])(?:[1-4]?p)?(?:[1-4]?d)?)?\))?"
)
_AUXILIARY = re.compile(r"fit|ri$|so$|^sap|etb|^demon|^ahlrichs|cfit")
_ALSO_CALLED = {"vdzp": "grimmevdzp"}
"""Keys that papers have and neither table."""
_COMPONENT = re.compile(r"(?P<of>.*)\((?:fi|pt)/sf/(?:lc|sc)\)")
"""Sets for the large or the small component of Dirac's equation."""
_FITTING = re.compile(r"(?P<of>.*?)(?:mp2|opt|[jkcx])*(?:fit|ri)|sapgrasp.*|demon|ahlrichs|weigend(?:\+etb)?")
"""Sets that expand densities or potentials."""
# Families that share the potentials of one member, whose file holds them.
_ECP_FAMILIES = (
    (r"(?:aug)?ccpw?c?v[dtq5]zpp(?:nr)?", "ccpvdzpp"),
    (r"ccecp(?:aug)?ccp.*", "ccecp"),
    (r"ccecphe(?:aug)?ccp.*", "ccecphe"),
    (r"ccecpreg(?:aug)?ccp.*", "ccecpreg"),
    (r"ccecp28(?:aug)?ccp.*", "ccecp28"),
    (r"ccecp36(?:aug)?ccp.*", "ccecp36"),
    (r"bfdv[dtq5]z", "bfd"),
)
_FAILURES = (BasisNotFoundError, KeyError, AttributeError, IndexError, TypeError, OSError, RuntimeError, ValueError)

NO_FILE = "-" * 4096
"""Put before a name that PySCF looks up. It asks the file system before its table, and would evaluate what a file of
that name holds. Dashes do not count in its table, and no system takes a path of this length: the answer is no."""


def normalise_basis_name(name) -> str:
    """The key of PySCF's table for a written name, 'def2-SVP' -> 'def2svp'; a prefix 'unc-' (uncontracted) is kept.

    A name that only the Basis Set Exchange has becomes such a key, too. Raises InputError for others, with the nearest.
    """
    if not isinstance(name, str):
        raise InputError(f"the basis set must be a name, not {shown(name)}.")
    key = key_of(name.strip())
    bare = key.removeprefix("unc")
    if not is_known_basis(bare):
        near = ", ".join(repr(known) for known in closest_names(bare, known_basis_names()))
        more = "" if _package() else "; pip install 'dftfd[basis]' brings those of the Basis Set Exchange"
        raise InputError(f"unknown basis set {shown(name)}; the closest known names are {near}{more}.")
    return key


def key_of(name: str) -> str:
    """Letters, digits and signs that tell names of basis sets apart."""
    key = re.sub(r"[-_ ]", "", name.lower())
    return _ALSO_CALLED.get(key, key)


_SEVERAL_MEANINGS = {"dzp": "PySCF's and NWChem's is 'jorge-dzp', Psi4's Dunning's, 'dzp-dunning'"}
"""Keys of sets that are different ones in different programs, and what to write."""


def require_orbital_basis(key: str) -> None:
    """InputError for a key that means different sets in different programs, and for one that is no orbital basis: that
    fits densities, or one of Dirac's components.
    """
    contracted = key.removeprefix("unc")
    if meanings := _SEVERAL_MEANINGS.get(contracted):
        raise InputError(f"{key!r} means different basis sets in different programs: {meanings}.")
    if component := _COMPONENT.fullmatch(contracted):
        raise InputError(
            f"{key!r} is made for one component of four-component calculations; is {display_name(component['of'])!r} "
            "meant?"
        )
    if contracted in tables.ALIAS and (match := _FITTING.fullmatch(contracted)):
        meant = match["of"] or ""
        of_orbitals = f"; is {display_name(meant)!r} meant?" if is_known_basis(meant) else "."
        raise InputError(f"{key!r} is a set that fits densities, not an orbital basis set{of_orbitals}")


def fitting_set(name) -> str:
    """The key of a set that fits densities; InputError for other names, and for sets of orbitals."""
    key = normalise_basis_name(name)
    if not _FITTING.fullmatch(key):
        raise InputError(
            f"{name!r} is an orbital basis set, not one that fits densities; expected a name such as "
            "'def2-universal-jkfit' (hybrids), 'def2-universal-jfit' (other functionals) or 'cc-pVTZ-jkfit'."
        )
    return key


def is_known_basis(key: str) -> bool:
    """Whether `load_basis` has a basis set of this key."""
    return _is_of_pyscf(key) or key in exchange_names()


def _is_of_pyscf(bare):
    return bare in tables.ALIAS or _POPLE.fullmatch(bare) is not None


@functools.cache
def known_basis_names() -> tuple[str, ...]:
    """Names of orbital basis sets, written as the Basis Set Exchange does where it knows them."""
    keys = (key for key in tables.ALIAS if not _AUXILIARY.search(key))
    return tuple(display_name(key) for key in keys)


@functools.lru_cache(maxsize=512)
def load_basis(key: str, symbol: str) -> tuple:
    """Shells of one element in a basis set (a key of `normalise_basis_name`), sorted by angular momentum."""
    bare = key.removeprefix("unc")
    shells = _shells(bare, symbol)
    if not shells:
        table = "PySCF's table" if _is_of_pyscf(bare) else "the Basis Set Exchange"
        near = [name for name in closest_names(bare, known_basis_names(), 12) if has_functions(key_of(name), symbol)]
        advice = f"take one that has, such as {', '.join(near[:3])}" if near else "choose another one for this element"
        raise InputError(f"basis set {key!r} has no functions for {symbol} in {table}; {advice}.")
    if key.startswith("unc"):
        shells = mole.uncontracted_basis(shells)
    found = to_tuples(sorted((shell for shell in shells if shell), key=lambda shell: shell[0]))
    for shell in found:
        if has_nothing(shell):
            raise InputError(
                f"basis set {key!r} has a function of l = {shell[0]} for {symbol} whose coefficients are all zero "
                "in its table; choose another basis set for this element."
            )
    return found


def functions_by_momentum(shells: tuple) -> Counter:
    """Number of contracted radial functions for each angular momentum."""
    counts: Counter = Counter()
    for l, *rows in shells:
        counts[l] += len(rows[-1]) - 1
    return counts


def has_nothing(shell: tuple) -> bool:
    """Whether one of the contractions of a shell (l, [kappa,] (exponent, coefficient, ...), ...) is zero throughout."""
    rows = shell[2:] if isinstance(shell[1], Integral) else shell[1:]
    return not all(map(any, list(zip(*rows, strict=True))[1:]))


@functools.lru_cache(maxsize=4096)
def has_functions(key: str, symbol: str) -> bool:
    """Whether a known basis set has functions for an element."""
    return bool(_shells(key.removeprefix("unc"), symbol))


def _shells(bare, symbol):
    return _shells_of_pyscf(bare, symbol) if _is_of_pyscf(bare) else exchange_shells(bare, symbol)


def _shells_of_pyscf(bare, symbol):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySCF recommends to install another package when an element is missing
        try:
            return tables.load(NO_FILE + bare, symbol)
        except _FAILURES:
            return None


@functools.lru_cache(maxsize=512)
def load_ecp(key: str, symbol: str) -> tuple | None:
    """The effective core potential that belongs to a basis set for one element, or None for an all-electron set.

    Raises InputError for a valence-only set whose potential is not in the library.
    """
    key = key.removeprefix("unc")
    if not _is_of_pyscf(key):
        return to_tuples(exchange_potential(key, symbol))
    shared = [family for pattern, family in _ECP_FAMILIES if re.fullmatch(pattern, key)]
    for source in [key, *shared]:
        files = tables.ALIAS.get(source, ())
        for file in (files,) if isinstance(files, str) else files:
            if potential := _read_ecp(file, symbol):
                return to_tuples(potential)
    if shared or (re.match(r"(?:ma)?def2", key) and ATOMIC_NUMBERS[symbol] > ATOMIC_NUMBERS["Kr"]):
        raise InputError(
            f"basis set {key!r} has no core functions for {symbol} and its core potential is not in the library; "
            "choose another basis set for this element, or give the potential with ecp={...}."
        )
    return None


def _read_ecp(file, symbol):
    if not file.endswith(".dat"):
        return None
    try:
        return parse_nwchem_ecp.load(f"{tables._BASIS_DIR}/{file}", symbol)
    except _FAILURES:
        return None


def to_tuples(value):
    """Nested lists and arrays as nested tuples of Python numbers: immutable, comparable."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(to_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def to_lists(value):
    """The inverse of `to_tuples`, for PySCF."""
    return [to_lists(item) for item in value] if isinstance(value, list | tuple) else value


def display_name(key: str) -> str:
    """A known name as it is usually written, 'def2svp' -> 'def2-svp'."""
    if key in mole.BSE_META:
        return mole.BSE_META[key][0].lower()
    return key if _is_of_pyscf(key) else exchange_names().get(key, key).lower()


_POWERS = 7
"""Of r in a potential, 0 to 6, as PySCF's have them."""


def _package():
    try:
        import basis_set_exchange
    except ImportError:
        return None
    return basis_set_exchange


@functools.cache
def exchange_names() -> Mapping[str, str]:
    """Its orbital basis sets as it writes them, by key; none without the package."""
    package = _package()
    if package is None:
        return {}
    names = [entry["display_name"] for entry in package.get_metadata().values() if entry["role"] == "orbital"]
    return {key_of(name): name for name in names}


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
