"""Which basis set and core potential each atom gets: from what the user wrote to one entry per atom."""

import re
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral, Real

from dftfd.elements import ATOMIC_NUMBERS, AtomName, parse_atom_name
from dftfd.errors import InputError, InputWarning, shown
from dftfd.libcint.basis_sets import (
    display_name,
    functions_by_momentum,
    has_functions,
    has_nothing,
    is_known_basis,
    load_basis,
    load_ecp,
    normalise_basis_name,
    require_orbital_basis,
    to_tuples,
)

MAX_ANGULAR_MOMENTUM = 12

_MOST_ECP_MOMENTUM = 5
"""Above it PySCF's integrals of core potentials depend on the molecule's orientation."""

LEAST_EXPONENT, LARGEST_EXPONENT = 1e-8, 1e12
"""bohr^-2: functions of 1e4 bohr, farther than any grid reaches, and of 1e-6 bohr, a tenth of a proton's radius."""

_DIFFUSE = re.compile(r"[dtqs]?aug(?=c?c?p|ccx|ano)|\++|(?<=vp)d$|(?<=vpp)d$")
"""What keys of basis sets say of diffuse functions: augccpvdz, 631++g*, def2tzvpd."""

_STEEP, _DIFFUSE_ENOUGH = 0.3, 1.0
"""STO-2G's steepest exponent is 0.6 Z^2 bohr^-2 at least, its most diffuse one 0.6. Sets for pseudopotentials end at
0.15 Z^2 (GTH, PAW), and those of quantum protons begin at 2 (PB4-D)."""

_CARTESIAN = re.compile(r"(?:unc)?(?:321|421|431|521|621|631)\+{0,2}g")
"""Keys of sets that were made with Cartesian d functions."""

_CARDINAL, _ONE_LOWER = re.compile(r"(?<=v)[tq5](?=z)|(?<=anor)[123]"), str.maketrans("tq5321", "dtq210")
"""What keys say of the size: anopvtz, anor3."""


def resolve_basis(basis, names: tuple[AtomName, ...]) -> tuple:
    """Per atom a key of the basis set library, or shells; `basis` is a name or a dictionary (see `molecule`)."""
    entries = _per_atom(basis, names, "basis")
    for index, (entry, name) in enumerate(zip(entries, names, strict=True), start=1):
        if entry is _MISSING:
            raise InputError(f"the basis dictionary has no entry for atom {index} ({name.label}) and no 'default'.")
    return tuple(map(checked_basis, entries, names))


def checked_basis(entry, name: AtomName):
    """One atom's basis: a key of the library that knows the element, or shells of positive exponents as tuples."""
    if not isinstance(entry, str):
        return _check_shells(to_tuples(entry), name)
    entry = normalise_basis_name(entry)
    require_orbital_basis(entry)
    load_basis(entry, name.symbol)  # raises if the set does not know the element
    return entry


def basis_remarks(symbols, atom_basis) -> tuple[str, ...]:
    """What the names of basis sets promise and their tables lack, a line each.

    Minimally augmented sets, ma-X, are X and a few diffuse functions. J. Zheng, X. Xu, D. G. Truhlar, Theor. Chem. Acc.
    128, 295 (2011). doi:10.1007/s00214-010-0846-z
    """
    named = {(key, symbol) for key, symbol in zip(atom_basis, symbols, strict=True) if isinstance(key, str)}
    lacking: dict[tuple[str, str, str], list[str]] = {}
    for key, symbol in sorted(named):
        base = _without_diffuse(key)
        if base != key and is_known_basis(base.removeprefix("unc")) and has_functions(base, symbol):
            counts, of_whole = (functions_by_momentum(load_basis(k, symbol)) for k in (key, base))
            for l in sorted(l for l in of_whole if counts[l] < of_whole[l]):
                lacking.setdefault((key, base, "spdfghiklmnoq"[l]), []).append(symbol)
    smaller = _equal_sets(named, lambda key: _CARDINAL.sub(lambda match: match[0].translate(_ONE_LOWER), key))
    return (
        *(
            f"the table of {display_name(key)} lacks {letter} functions of {', '.join(elements)} that "
            f"{display_name(base)} has; take {f'{display_name(base)}d, or ' if key == 'ma' + base else ''}"
            f"{display_name(base)} for these elements."
            for (key, base, letter), elements in lacking.items()
        ),
        *(
            f"the table of {display_name(key)} is that of {display_name(base)} for {', '.join(elements)}: nothing is "
            "gained by the larger one."
            for (key, base), elements in smaller.items()
        ),
    )


def _without_diffuse(key):
    """The key of the set that this one adds diffuse functions to."""
    return key[2:] if key.startswith("ma") and is_known_basis(key[2:]) else _DIFFUSE.sub("", key)


def _equal_sets(named, simpler: Callable[[str], str]) -> dict[tuple[str, str], list[str]]:
    """{(key, the simpler set that its name promises more than): elements for which both tables are equal}"""
    found: dict[tuple[str, str], list[str]] = {}
    for key, symbol in sorted(named):
        base = simpler(key)
        if base != key and is_known_basis(base.removeprefix("unc")) and has_functions(base, symbol):
            if sorted(load_basis(key, symbol)) == sorted(load_basis(base, symbol)):
                found.setdefault((key, base), []).append(symbol)
    return found


def core_remarks(symbols, atom_basis, atom_ecp) -> tuple[str, ...]:
    """A line for each named set beside a core potential of another number of core electrons than its own has."""
    remarks = {}
    for symbol, key, potential in zip(symbols, atom_basis, atom_ecp, strict=True):
        if potential is None or not isinstance(key, str):
            continue
        try:
            own = load_ecp(key, symbol)
        except InputError:  # its potential is not in the library
            continue
        if (count := own[0] if own else 0) != potential[0]:
            made = f"was made for a core potential of {count}" if own else "has functions for all electrons"
            remarks[symbol, key] = (
                f"the core potential of {symbol} stands for {potential[0]} electrons, but {display_name(key)} {made}: "
                "energies and geometries may be far off; choose the potential's own basis set, or leave ecp out."
            )
    return tuple(remarks.values())


def diffuse_remarks(symbols, atom_basis) -> tuple[str, ...]:
    """A line for each set whose name promises diffuse functions that its table has not for some elements.

    6-31+G and its like add diffuse functions to heavy atoms only, so H and He are not checked for one plus.
    """
    pairs = dict.fromkeys(zip(atom_basis, symbols, strict=True))
    named = [(k, s) for k, s in pairs if isinstance(k, str) and (s not in ("H", "He") or k.count("+") != 1)]
    lacking = _equal_sets(named, lambda key: _DIFFUSE.sub("", key))
    return tuple(
        f"{display_name(key)} has no diffuse functions for {', '.join(elements)}: it is {display_name(base)} there."
        for (key, base), elements in lacking.items()
    )


def cartesian_remarks(symbols, atom_basis) -> tuple[str, ...]:
    """A line for each of Pople's sets whose d functions are Cartesian in Gaussian and in most publications.

    They are those of 3-21G to 6-31G. The d functions of 6-311G and of other families are spherical everywhere.
    """
    momenta: dict[str, int] = {}
    for key, symbol in zip(atom_basis, symbols, strict=True):
        if isinstance(key, str) and _CARTESIAN.match(key):
            momenta[key] = max([momenta.get(key, 0), *functions_by_momentum(load_basis(key, symbol))])
    return tuple(
        f"the d functions of {display_name(key)} are spherical here (5 in a shell) and Cartesian in Gaussian and most "
        f"publications (6){', beside spherical f functions' if highest > 2 else ', as with cartesian=True'}."
        for key, highest in momenta.items()
        if highest > 1
    )


def checked_ecp(entry, name: AtomName):
    """One atom's core potential as tuples of numbers, or None."""
    return None if entry is None else _check_ecp(to_tuples(entry), name)


def resolve_ecp(ecp, names: tuple[AtomName, ...], atom_basis: tuple) -> tuple:
    """Per atom None or a core potential as numbers; ghosts have none. `ecp` as in `molecule`."""
    potentials = _resolved_ecp(ecp, names, atom_basis)
    for potential, basis, name in zip(potentials, atom_basis, names, strict=True):
        require_core(potential, basis, name)
    return potentials


def require_core(potential, basis, name: AtomName) -> None:
    """Raise InputError for core electrons that neither the basis set has functions for nor a potential stands for.

    Shells that are given as numbers may be meant so, with a warning.
    """
    if name.ghost or potential is not None:
        return
    Z = ATOMIC_NUMBERS[name.symbol]
    if not isinstance(basis, str):
        if Z > 2 and (steepest := max(_exponents(basis))) < _STEEP * Z**2:
            warnings.warn(
                f"the basis of {name.label} has no exponent above {steepest:g} bohr^-2, no functions for its core "
                "electrons: is a core potential missing (ecp=), or do the coefficients stand before the exponents?",
                InputWarning,
                stacklevel=6,
            )
        return
    if own := load_ecp(basis, name.symbol):
        raise InputError(
            f"basis set {display_name(basis)!r} has no functions for the {own[0]} core electrons of {name.symbol}, "
            "which its core potential stands for; leave ecp out, or take an all-electron basis set, as 'dyall-v2z'."
        )
    exponents = _exponents(load_basis(basis, name.symbol))
    if Z > 2 and max(exponents) < _STEEP * Z**2:
        raise InputError(
            f"basis set {display_name(basis)!r} has no functions for the core electrons of {name.symbol}: it was made "
            "for a pseudopotential that is not here. Give a core potential with ecp=, or take an all-electron set."
        )
    if min(exponents) > _DIFFUSE_ENOUGH:
        raise InputError(
            f"basis set {display_name(basis)!r} has no exponent below {_DIFFUSE_ENOUGH:g} bohr^-2 for {name.symbol}: "
            "it was not made for electrons. Take another one."
        )


def _exponents(shells) -> list[float]:
    return [row[0] for shell in shells for row in shell[1:] if isinstance(row, tuple)]


def _resolved_ecp(ecp, names, atom_basis) -> tuple:
    if ecp is None:
        return tuple(
            load_ecp(basis, name.symbol) if isinstance(basis, str) and not name.ghost else None
            for basis, name in zip(atom_basis, names, strict=True)
        )
    if ecp is False or (isinstance(ecp, Mapping) and not ecp):
        return (None,) * len(names)
    entries = _per_atom(ecp, names, "ecp")
    general = ecp if isinstance(ecp, str) else ecp.get("default")
    potentials = tuple(
        None if entry is _MISSING else _given_ecp(entry, name, required=entry is not general)
        for entry, name in zip(entries, names, strict=True)
    )
    if isinstance(ecp, str) and not any(potentials):
        raise InputError(f"ecp {shown(ecp)} has no core potential for any element of this molecule.")
    return potentials


def _given_ecp(entry, name, required):
    if entry is None or entry is False or name.ghost:
        return None
    if isinstance(entry, str):
        potential = load_ecp(normalise_basis_name(entry), name.symbol)
        if potential is None and required:
            raise InputError(f"ecp {shown(entry)} has no core potential for {name.symbol}.")
        return potential
    return _require_terms(_check_ecp(to_tuples(entry), name), name)


_MISSING = object()


def _per_atom(spec, names, what):
    """The entry of each atom: its label before its element (with or without ghost) before 'default'."""
    if isinstance(spec, str):
        return [spec] * len(names)
    if not isinstance(spec, Mapping):
        raise InputError(f"{what} must be a name or a dictionary from element to name, not {shown(spec)}.")
    table = {}
    labels = {name.label for name in names}
    for key, value in spec.items():
        if isinstance(key, str) and key.lower() == "default":
            if "default" in table:
                raise InputError(f"the {what} dictionary has two entries 'default'; leave one out.")
            table["default"] = value
            continue
        parsed = parse_atom_name(key, f"{what} dictionary")
        if str(key).strip().isdigit() and parsed.symbol not in {name.symbol for name in names}:
            raise InputError(
                f"the {what} dictionary has an entry for {shown(key)}, an atomic number ({parsed.symbol}) that no atom "
                "has; single atoms are named by labels, 'H1'."
            )
        if parsed.label not in labels and parsed.label.removeprefix("ghost-") != parsed.symbol:
            raise InputError(f"the {what} dictionary has an entry for {shown(key)}, but no atom carries this label.")
        if parsed.ghost and what == "ecp" and value is not None and value is not False:
            raise InputError(f"the ecp dictionary has a core potential for {shown(key)}; ghost atoms have none.")
        if parsed.label in table:
            raise InputError(
                f"the {what} dictionary has two entries for {parsed.label}, as {shown(key)}; leave one out."
            )
        table[parsed.label] = value
    keys = ((n.label, f"ghost-{n.symbol}" if n.ghost else n.label, n.symbol, "default") for n in names)
    return [next((table[key] for key in of_atom if key in table), _MISSING) for of_atom in keys]


def _check_shells(shells, name):
    """Shells ((l, [kappa,] (exponent, coefficient, ...), ...), ...) with positive exponents and equal rows."""
    if not isinstance(shells, tuple) or not shells:
        raise InputError(f"the basis of {name.label} must be a name or a list of shells, not {shown(shells)}.")
    for shell in shells:
        if not isinstance(shell, tuple) or len(shell) < 2 or not _is_count(shell[0], MAX_ANGULAR_MOMENTUM):
            raise InputError(
                f"basis of {name.label}: shell {shown(shell)} is not [l, [exponent, coefficient, ...], ...]."
            )
        rows = shell[2:] if isinstance(shell[1], Integral) else shell[1:]
        lengths = {len(row) for row in rows if isinstance(row, tuple)}
        if len(lengths) != 1 or min(lengths) < 2 or not all(_is_row(row) and row[0] > 0 for row in rows):
            raise InputError(
                f"basis of {name.label}: a shell with l = {shell[0]} holds {shown(rows)}; "
                "each row needs a positive exponent and the same number of coefficients."
            )
        if odd := next((row[0] for row in rows if not LEAST_EXPONENT <= row[0] <= LARGEST_EXPONENT), None):
            raise InputError(
                f"basis of {name.label}: a shell with l = {shell[0]} has the exponent {odd:g}; from {LEAST_EXPONENT:g} "
                f"to {LARGEST_EXPONENT:g} bohr^-2 expected."
            )
        if has_nothing(shell):
            raise InputError(
                f"basis of {name.label}: a shell with l = {shell[0]} has a function whose coefficients are all zero; "
                "leave that column out."
            )
    return tuple(sorted(shells, key=lambda shell: shell[0]))


def _is_row(row):
    """A tuple of finite numbers."""
    return isinstance(row, tuple) and all(isinstance(value, Real) and abs(float(value)) < float("inf") for value in row)


def _check_ecp(ecp, name):
    well_formed = isinstance(ecp, tuple) and len(ecp) == 2 and isinstance(ecp[1], tuple)
    if not well_formed or not _is_count(ecp[0], 118) or not all(_is_channel(channel) for channel in ecp[1]):
        raise InputError(
            f"ecp of {name.label}: expected a name or [core electrons, [[l, [[[exponent, coefficient], ...], ...]], "
            f"...]], l from -1 (the local part) to {_MOST_ECP_MOMENTUM}, exponents above 0, found {shown(ecp)}."
        )
    if ecp[0] >= (Z := ATOMIC_NUMBERS[name.symbol]):
        raise InputError(f"ecp of {name.label}: {ecp[0]} core electrons, but {name.symbol} has {Z}; some stay outside.")
    return ecp


def _require_terms(ecp, name):
    """The potential; InputError where it has none of its terms, a warning where a term has a third number."""
    terms = [term for _, powers in ecp[1] for power in powers for term in power]
    if not terms:
        raise InputError(
            f"ecp of {name.label}: {shown(ecp)} has no terms, and nothing would keep electrons out of the core; give "
            "them, the name of a potential, or None for all electrons."
        )
    if odd := next((term for term in terms if len(term) > 2), None):
        warnings.warn(
            f"ecp of {name.label}: the third number of {shown(odd)} is taken for a coefficient of spin-orbit coupling, "
            "which is left out; terms are [exponent, coefficient], in a list for each power of r, r^-2 first.",
            InputWarning,
            stacklevel=3,
        )
    return ecp


def _is_channel(channel):
    if not isinstance(channel, tuple) or len(channel) != 2 or not isinstance(channel[1], tuple):
        return False
    l, powers = channel
    if not _is_count(l, _MOST_ECP_MOMENTUM) and l != -1 or not all(isinstance(power, tuple) for power in powers):
        return False
    return all(_is_row(term) and len(term) in (2, 3) and term[0] > 0 for power in powers for term in power)


def _is_count(value, largest):
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) <= largest
