"""Requests that are legal but look like a mistake: they run with a warning (dftfd.errors.InputWarning) or are refused.

Distances that look like the wrong unit are warned about where the geometry is read (dftfd/system/molecule.py).
"""

import re
import warnings

import numpy as np
from scipy.spatial import KDTree

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import InputWarning
from dftfd.functionals.aliases import in_ascii
from dftfd.functionals.base import Functional
from dftfd.functionals.empirical_dispersion import basis_of
from dftfd.functionals.registry import lookup
from dftfd.libcint.basis_sets import display_name, key_of, load_basis

CLOSE_CHARGE = 1.9
"""Distance [bohr] of a point charge from an atom, 1 angstrom, below which those of QM/MM do not come: a hydrogen bond
of 1.8 angstrom that is taken for bohr does."""

HOT, STRONG = 0.05, 0.1
"""Widths of smearing [hartree], 16,000 K, and fields [hartree/(e bohr)], 5 V/angstrom, from which on other units are
likelier: molecules do not last there."""

SCAN_LEVEL = 5
"""Grid level from which SCAN's energy is good to half a millihartree; at level 3 water errs by 0.9, Ar2 by 6."""

_KIND = re.compile(r"(?:^|_)[xc](?:_|$)")
_KINETIC = re.compile(r"(^|_)k_")
_SIGN = re.compile(r"[*+]|(?<!\w)-|-(?!\w)")
_BARE_VV10, _OF_VV10 = re.compile(r"[+,]\s*(r?vv10)\s*(?=$|[+,-])"), {"gga_x_rpw86", "gga_c_pbe", "vv10", "rvv10"}
"""VV10 without numbers in a sum, and what its own number belongs to."""
_SCAN = re.compile(r"_(rev)?scan")  # but not rSCAN, r++SCAN, r2SCAN and r4SCAN, made to be smoother


_INNER_SHELLS = (*range(21, 31), *range(39, 49), *range(57, 81), *range(89, 113))
"""Atomic numbers of elements whose d or f shells are being filled."""


DEAR_EXCHANGE = 120
"""Basis functions from which on exact exchange takes most of the time, on a coarse grid as on a fine one."""


def may_have_several_states(calculation) -> bool:
    """Whether an SCF may end in one of several states: elements with open d or f shells, and other open shells.

    Those of other elements are left out where it would cost much to look, with exact exchange in large molecules.
    """
    molecule = calculation.molecule
    dear = calculation.functional.exact_exchange and molecule.n_ao > DEAR_EXCHANGE
    return molecule.spin != 0 and not dear or any(Z in _INNER_SHELLS for Z in molecule.atomic_numbers)


def warn_about_functional(spec, functional: Functional, grid) -> None:
    """Warn about exchange or correlation alone and kinetic energies under short names, odd sums, SCAN on a coarse grid.

    spec: what the user wrote.   grid: the Quadrature.
    """
    names = [term.name for _, term in functional.terms]
    short = isinstance(spec, str) and "," not in spec and lookup(spec.strip()) is None
    if short and names and all(term.kind == "x" for _, term in functional.terms):
        _warn(
            f"functional {spec.strip()!r} is exchange alone ({', '.join(names)}), without correlation; write "
            f"'{spec.strip()},' if this is meant, or name a correlation functional after the comma."
        )
    elif short and names and not functional.exact_exchange and all(term.kind == "c" for _, term in functional.terms):
        _warn(
            f"functional {spec.strip()!r} is correlation alone ({', '.join(names)}), without exchange; write "
            f"',{spec.strip()}' if this is meant, or name an exchange functional before the comma."
        )
    if (
        isinstance(spec, str)
        and (kinetic := [name for name in names if _KINETIC.search(name)])
        and not _KINETIC.search(spec)
    ):
        _warn(f"functional {spec.strip()!r} is a kinetic energy ({', '.join(kinetic)}), no exchange and correlation.")
    if isinstance(spec, str) and re.fullmatch(r"\s*-[^*+,]+", in_ascii(spec)):
        _warn(f"functional {spec.strip()!r} is negative as a whole; leave the dash out if it belongs to a list.")
    elif isinstance(spec, str) and (shares := _odd_shares(spec, functional)):
        _warn(
            f"the exchange of {spec.strip()!r} adds up to {shares[0]:.4g} and its correlation to {shares[1]:.4g}, not "
            "to 1: names without a comma are exchange and correlation together; '0.25*HF + 0.75*PBE, PBE' is PBE0."
        )
    if isinstance(spec, str) and (bare := _BARE_VV10.search(in_ascii(spec))) and set(names) - _OF_VV10:
        _warn(
            f"the b of {bare[1]} in {spec.strip()!r} was fitted to rPW86 exchange with PBE correlation; others have "
            f"another (VV10: PBE 6.4, TPSS 5.0, B3LYP 4.8): write {bare[1]}(b=...), or 1.0*{bare[1]} if it is meant."
        )
    if grid.moves and grid.level < SCAN_LEVEL and any(map(_SCAN.search, names)):
        _warn(
            f"the energy of {functional.name!r} needs a fine grid: level {grid.level} leaves errors of millihartrees, "
            f"use grid_level={SCAN_LEVEL} or the smoother r2scan."
        )


def _odd_shares(spec, functional) -> tuple[float, float] | None:
    """How much exchange and correlation a sum of names without a comma has; None where both add up to one.

    None too for a single name, full names with correlation that is not negative, PT2 and parts that were fitted
    together. Exchange of several ranges is not looked at.
    """
    bare = re.sub(r"\([^()]*\)", "", in_ascii(spec))
    names = re.findall(r"[A-Za-z][\w-]*", bare)
    known = [(c, term.kind) for c, term in functional.terms if not term.is_nonlocal]
    is_sum, negative = "," not in bare and _SIGN.search(bare), re.search(r"(?:^|,)\s*-", bare)
    if not (is_sum or negative) or any(functional.pt2) or {kind for _, kind in known} - {"x", "c"}:
        return None
    has_range = any(omega for omega, _ in functional.exact_exchange) or functional.exact_exchange_ranges
    exchange = sum(c for c, kind in known if kind == "x") + sum(c for _, c in functional.exact_exchange)
    correlation = sum(c for c, kind in known if kind == "c")
    if correlation >= 0 and not negative and all(map(_KIND.search, names)):
        return None
    is_odd = not has_range and abs(exchange - 1) > 1e-3 or (correlation and abs(correlation - 1) > 1e-3)
    return (exchange, correlation) if is_odd else None


def warn_about_sizes(options, molecule) -> None:
    """Warn about numbers that look like those of another unit, or of another order of charge, x, y, z."""
    width = options.smearing[1] if isinstance(options.smearing, tuple) else options.smearing or 0.0
    field = 0.0 if options.electric_field is None else float(np.abs(options.electric_field).max())
    charges = [] if options.point_charges is None else np.abs(np.asarray(options.point_charges)[:, 0])
    is_kt_in_ev = 0.0249 < width < 0.0262
    odd = {
        f"smearing of {width:g} hartree; 1000 K is 0.0032, 1 eV is 0.0367": width >= HOT,
        f"smearing of {width:g} hartree; at room temperature it is 0.00094 hartree or 0.0257 eV": is_kt_in_ev,
        f"conv_tol of {options.conv_tol:g} hartree; 1e-9 is usual": options.conv_tol > 0.01,
        f"linear_dependence of {options.linear_dependence:g}; 1e-6 is usual": options.linear_dependence >= 0.5,
        f"electric_field of {field:g} hartree/(e bohr), where 1 is 51 V/angstrom": field >= STRONG,
        "point_charges with charges of 0 or above 5; rows are charge, x, y, z": any(q < 1e-9 or q > 5 for q in charges),
    }
    for words in (words for words, is_odd in odd.items() if is_odd):
        _warn(f"{words}: is another unit or order meant?")
    _warn_about_occupations(options.occupations, molecule.n_electrons)
    if len(charges) and max(charges) <= 5:
        rows = np.asarray(options.point_charges)
        if _are_charges(rows[:, 3], rows):
            _warn("point_charges: the last numbers of the rows look like charges; rows are charge, x, y, z.")
        elif len(rows) == 4 and _are_charges(rows[0], rows):
            _warn("point_charges: the first row looks like charges; each row is charge, x, y, z of one of them.")
    _warn_about_close_charges(options.point_charges, molecule)


def _warn_about_occupations(occupations, n_electrons) -> None:
    """Warn where they hold more than two electrons more or less than the molecule: occupations of one spin alone."""
    held = n_electrons if occupations is None else sum(float(np.sum(spin)) for spin in occupations)
    if abs(held - n_electrons) > 2:
        _warn(
            f"occupations of {held:g} electrons, the molecule has {n_electrons}, so that its charge changes by "
            f"{n_electrons - held:+g}; restricted orbitals hold 2: is another order meant?"
        )


def _are_charges(numbers, rows) -> bool:
    """Whether these numbers of rows may be the charges and the first column coordinates.

    They may be charges, none is zero, and they are of fewer kinds, add up to a whole number or are whole, where
    those in front do not and are not; or those in front are above 2 and not whole.
    """
    q, last = rows[:, 0], numbers
    if not np.all(last) or np.abs(last).max() > 2:
        return False
    is_whole = lambda x: np.abs(x - np.round(x)) < 1e-4
    n_kinds = lambda x: len(np.unique(np.round(x, 4)))
    is_sum = len(rows) > 1 and is_whole(last.sum()) and not is_whole(q.sum())
    is_ion = is_whole(last).all() and not is_whole(q).any() and not is_whole(rows[:, 1:3]).all()
    is_alike = len(rows) > 2 and n_kinds(last) < n_kinds(q) == len(q)
    return bool(is_sum or is_ion or is_alike or np.any((np.abs(q) > 2) & ~is_whole(q)))


def _warn_about_close_charges(charges, molecule):
    real = np.flatnonzero(molecule.nuclear_charges)
    if charges is None or not len(real):
        return
    distances, nearest = KDTree(molecule.coordinates[real]).query(charges[:, 1:])
    k = int(np.argmin(distances))
    if distances[k] < CLOSE_CHARGE:
        atom = real[nearest[k]]
        _warn(
            f"point_charges: number {k + 1} is {distances[k]:.3g} bohr from {molecule.symbols[atom]}{atom + 1}; is "
            "angstrom meant? That is (rows, 'angstrom'), or angstrom behind the rows of a command."
        )


_RELATIVISTIC = re.compile(r"(?!unc)(?:.*(?:dk|zora|x2c|sarc|/sf/)|ano(?:rcc.*|r\d?)?$)")
"""Keys of basis sets with contractions of relativistic calculations; PySCF's ano is ANO-RCC."""


def warn_about_basis(functional: Functional, molecule, relativity: str | None = None) -> None:
    """Warn about a 3c method in another basis set than its own, and about contractions for another relativity.

    Shells that are given as numbers are let alone, and so are elements up to argon, whose valence changes little.
    """
    for key, symbol in dict.fromkeys(
        (basis, symbol)
        for basis, symbol, ecp in zip(molecule.atom_basis, molecule.symbols, molecule.atom_ecp, strict=True)
        if ATOMIC_NUMBERS[symbol] > 18 and ecp is None and isinstance(basis, str)
    ):
        if _RELATIVISTIC.match(key):
            if relativity is None:
                _warn(
                    f"basis set {display_name(key)} is contracted for relativistic calculations, and this one is not: "
                    "add relativity='x2c', or take another basis set."
                )
        elif relativity is not None and any(isinstance(shell[-2], tuple) for shell in load_basis(key, symbol)):
            name = display_name(key)
            _warn(
                f"basis set {name} is contracted for calculations without relativity, and this one of {symbol} has "
                f"relativity={relativity!r}: take 'unc-{name}', or one that is made for it, as x2c-TZVPall."
            )
    own = basis_of(functional.dispersion) if functional.dispersion else None
    names = {name for name in molecule.atom_basis if isinstance(name, str)}
    if own and any(name != key_of(own) for name in names):
        _warn(
            f"the corrections of {functional.name!r} were made for the basis set {own}; in {molecule.basis} it is "
            "another method."
        )


def _warn(text):
    warnings.warn(text, InputWarning, stacklevel=5)
