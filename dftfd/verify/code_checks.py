"""What has to hold between the answers of one program: each check is a function of a Session and a Setting."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.spatial.transform import Rotation

from dftfd.elements import ATOMIC_NUMBERS
from dftfd.errors import NumericalError, UnsupportedError
from dftfd.interop.asked import Setting
from dftfd.libcint.mole import common_masses
from dftfd.results.vibrations import KM_PER_MOL
from dftfd.verify.audit_sources import CodeRaisedError
from dftfd.verify.code_differences import FIELD_STEP, STEP, gradient
from dftfd.verify.code_session import SEED, Session
from dftfd.verify.code_verdicts import INCONSISTENT, SIGMAS, SMALLEST, Comparison, judge

FIELD = np.array([0.004, -0.006, 0.005])
FAR = 500.0
"""Distance [bohr] of molecules that do not feel each other: dipoles of 1 e bohr by 2e-8 hartree."""
NESTED = ("6-31g", "6-31g*", "6-31++g**")
SYNONYMS = ("6-31g*", "6-31g(d)")
NARROW = 0.9
"""Factor of the positions at which units are compared."""
DISPLACED, LEFT = 0.1, 0.2
"""Length [bohr] of the displacement along which fitted and exact energies are compared, and the part of the error of
density fitting that may be left in differences."""
DIRECTIONS = 3
"""In how many drawn directions derivatives are compared first; all coordinates follow where these disagree."""


# ---- derivatives


def compared(ask, given, of, x, step, unit, noise=0.0, atoms=()) -> Comparison:
    """`given`, (*x.shape, ...), beside the derivatives of `of` by x: in drawn directions, and by each coordinate of x
    where there are few of them or where the directions disagree, unless the session is brief."""
    first = None
    if x.size > DIRECTIONS:
        drawn = np.random.default_rng(SEED).normal(size=(DIRECTIONS, *x.shape))
        drawn /= np.linalg.norm(drawn.reshape(DIRECTIONS, -1), axis=1).reshape(-1, *[1] * x.ndim)
        slope = gradient(lambda t: of(x + np.tensordot(t, drawn, 1)), np.zeros(DIRECTIONS), step)
        first = Comparison(np.tensordot(drawn, given, x.ndim), slope.value, unit, slope.bar, noise, slope=slope)
        if ask.is_brief or judge(first).verdict != INCONSISTENT:
            return first
    slope = gradient(of, x, step)
    return Comparison(given, slope.value, unit, slope.bar, noise, atoms=atoms, drawn=first, slope=slope)


def forces(ask: Session, s: Setting) -> Comparison:
    """Forces are minus the derivatives of the energy by the positions."""
    given, energy = ask("forces", s), lambda x: -ask("energy", s.but(positions=x))
    return compared(ask, given, energy, s.positions, STEP, "hartree/bohr", ask.noise("forces", s), s.symbols)


def hessian(ask: Session, s: Setting) -> Comparison:
    """The Hessian is minus the derivative of the forces."""
    given, slope = ask("hessian", s), lambda x: -ask("forces", s.but(positions=x))
    return compared(ask, given, slope, s.positions, STEP, "hartree/bohr^2", atoms=s.symbols)


def dipole(ask: Session, s: Setting) -> Comparison:
    """The dipole is minus the derivative of the energy by a field."""
    given, energy = ask("dipole", s), lambda f: -ask("energy", s.but(field=f))
    return compared(ask, given, energy, s.field, FIELD_STEP, "e bohr", ask.noise("dipole", s))


def polarizability(ask: Session, s: Setting) -> Comparison:
    """The polarisability is the derivative of the dipole by a field."""
    given, moment = ask("polarizability", s), lambda f: ask("dipole", s.but(field=f))
    return compared(ask, given, moment, s.field, FIELD_STEP, "bohr^3")


def dipole_derivatives(ask: Session, s: Setting) -> Comparison:
    """Derivatives of the dipole by the positions."""
    given, moment = ask("dipole_derivatives", s), lambda x: ask("dipole", s.but(positions=x))
    return compared(ask, given, moment, s.positions, STEP, "e", atoms=s.symbols)


def polarizability_derivatives(ask: Session, s: Setting) -> Comparison:
    """Derivatives of the polarisability by the positions, from which Raman intensities follow."""
    given, moved = ask("polarizability_derivatives", s), lambda x: ask("polarizability", s.but(positions=x))
    return compared(ask, given, moved, s.positions, STEP, "bohr^2", atoms=s.symbols)


def infrared(ask: Session, s: Setting) -> Comparison:
    """Infrared intensities, from derivatives of the dipole along the modes of the program's own Hessian."""
    given = np.sort(ask("infrared", s).ravel())
    n = 3 * len(s.symbols)
    masses = np.repeat(common_masses([ATOMIC_NUMBERS[symbol] for symbol in s.symbols]), 3)
    weighted = ask("hessian", s).reshape(n, n) / np.sqrt(np.outer(masses, masses))
    _, modes = np.linalg.eigh(weighted)
    slope, bar, *_ = gradient(lambda x: ask("dipole", s.but(positions=x)), s.positions, STEP)
    along = (modes / np.sqrt(masses)[:, None]).T[-len(given) :]
    expected = KM_PER_MOL * ((along @ slope.reshape(n, 3)) ** 2).sum(axis=1)
    uncertain = 2 * KM_PER_MOL * np.abs(along @ slope.reshape(n, 3)).sum(axis=1) * bar.max()
    scale = 1e3 * max(1.0, expected.max())  # masses of isotopes and mean ones differ by up to 1 %
    return Comparison(given, np.sort(expected), "km/mol", uncertain, scale=scale)


def charge_forces(ask: Session, s: Setting) -> Comparison:
    """Forces on point charges are minus the derivatives of the energy by their positions."""
    s = _beside_charges(s)
    given, q = ask("charge_forces", s), s.charges[:, 3:]
    energy = lambda x: -ask("energy", s.but(charges=np.concatenate([x, q], axis=1)))
    return compared(ask, given, energy, s.charges[:, :3], STEP, "hartree/bohr", ask.noise("charge_forces", s))


def _beside_charges(s):
    top = s.positions.max(axis=0)
    return s.but(charges=np.array([[*(top + [2.6, 3.1, 2.9]), 0.6], [*(-top - [3.4, 2.2, 3.7]), -0.4]]))


# ---- sums and equivalence


def net_force(ask: Session, s: Setting) -> Comparison:
    """Forces on a free molecule have no sum."""
    f = ask("forces", s)
    noise = ask.noise("forces", s)
    return Comparison(f.sum(axis=0), np.zeros(3), "hartree/bohr", noise=noise, scale=SMALLEST)


def torque(ask: Session, s: Setting) -> Comparison:
    """Forces on a free molecule have no torque."""
    f, r = ask("forces", s), s.positions - s.positions.mean(axis=0)
    noise = ask.noise("forces", s) * float(np.linalg.norm(r))
    return Comparison(np.cross(r, f).sum(axis=0), np.zeros(3), "hartree", noise=noise, scale=SMALLEST)


def _answers(ask, s, turn=None, order=None):
    """Energy, forces and dipole in one row, turned back and with the atoms in the order of before."""
    turn = np.eye(3) if turn is None else turn
    parts = [np.ravel(ask("energy", s))]
    if "forces" in ask.target.offers:
        found = ask("forces", s) @ turn
        parts.append((found if order is None else found[np.argsort(order)]).ravel())
    if "dipole" in ask.target.offers and s.charge == 0:
        parts.append(ask("dipole", s) @ turn)
    return np.concatenate(parts)


def _same(given, expected, ask, s):
    """Answers that have to be equal."""
    offered = [q for q in ("energy", "forces") if q in ask.target.offers]
    noise = max(ask.noise(quantity, s) for quantity in offered)
    return Comparison(given, expected, "atomic units", noise=noise, scale=SMALLEST)


def translation(ask: Session, s: Setting) -> Comparison:
    """Nothing depends on where the molecule is."""
    moved = s.but(positions=s.positions + [1.7, -2.3, 0.9])
    return _same(_answers(ask, moved), _answers(ask, s), ask, s)


def rotation(ask: Session, s: Setting) -> Comparison:
    """Energy, forces and dipole turn with the molecule."""
    turn = Rotation.from_rotvec([0.3, -0.5, 0.4]).as_matrix()
    return _same(_answers(ask, s.but(positions=s.positions @ turn.T), turn), _answers(ask, s), ask, s)


def order_of_atoms(ask: Session, s: Setting) -> Comparison:
    """Nothing depends on the order of the atoms."""
    order = np.arange(len(s.symbols))[::-1]
    other = s.but(symbols=tuple(s.symbols[k] for k in order), positions=s.positions[order])
    return _same(_answers(ask, other, order=order), _answers(ask, s), ask, s)


def symmetry(ask: Session, s: Setting) -> Comparison:
    """Equivalent atoms have equivalent forces."""
    f = ask("forces", s)
    found = [(f @ turn)[order] for turn, order in symmetries(s)]
    if not found:
        raise UnsupportedError("the molecule has no symmetry.")
    expected = np.array([f] * len(found))
    return Comparison(np.array(found), expected, "hartree/bohr", noise=ask.noise("forces", s), scale=SMALLEST)


def symmetries(s: Setting) -> list[tuple[np.ndarray, np.ndarray]]:
    """Twofold axes, mirror planes and inversion: (matrix, order) with (x @ matrix)[order] = x."""
    r = s.positions - s.positions.mean(axis=0)
    _, axes = np.linalg.eigh(r.T @ r)
    found = []
    for signs in np.ndindex(2, 2, 2):
        turn = axes @ np.diag(1.0 - 2 * np.array(signs)) @ axes.T
        gaps = np.linalg.norm((r @ turn)[None] - r[:, None], axis=2)
        order = gaps.argmin(axis=1)
        kinds = all(s.symbols[a] == s.symbols[b] for a, b in enumerate(order))
        if any(signs) and kinds and gaps.min(axis=1).max() < 1e-9:
            found.append((turn, order))
    return found


def spin_exchange(ask: Session, s: Setting) -> Comparison:
    """Alpha and beta electrons may be exchanged."""
    if s.spin == 0:
        raise UnsupportedError("a closed shell has no spins to exchange.")
    return _same(_answers(ask, s.but(spin=-s.spin)), _answers(ask, s), ask, s)


def size(ask: Session, s: Setting) -> Comparison:
    """Two molecules far from each other have twice the energy, and the same forces."""
    far = s.positions + FAR * np.array([0.6, 0.64, 0.48])
    pair = s.but(
        symbols=s.symbols * 2, positions=np.concatenate([s.positions, far]), charge=2 * s.charge, spin=2 * s.spin
    )
    if s.charge:
        raise UnsupportedError("ions feel each other at any distance.")
    given, expected = [ask("energy", pair)], [2 * ask("energy", s)]
    if "forces" in ask.target.offers:
        given += [*ask("forces", pair).ravel()]
        expected += [*ask("forces", s).ravel()] * 2
    return _same(np.array(given), np.array(expected), ask, s)


# ---- equivalent ways


def again(ask: Session, s: Setting) -> Comparison:
    """An answer is the same after other geometries."""
    ask.anew("energy", s.but(positions=1.1 * s.positions))
    what = [q for q in ("forces", "energy") if q in ask.target.offers]
    given = np.concatenate([np.ravel(ask.anew(q, s)) for q in what])
    expected = np.concatenate([np.ravel(ask(q, s)) for q in what])
    return _same(given, expected, ask, s)


def _other_way(quantity, ask, s):
    return _same(np.ravel(ask(quantity, s)), np.ravel(ask("energy", s)), ask, s)


def units(ask: Session, s: Setting) -> Comparison:
    """Positions in angstrom and in bohr give one energy, of a molecule so narrow that lengths show in it."""
    narrow, noise = s.but(positions=NARROW * s.positions), ask.noise("energy", s)
    given, expected = (np.ravel(ask(quantity, narrow)) for quantity in ("in_angstrom", "energy"))
    return Comparison(given, expected, "hartree", noise=noise, scale=SMALLEST)


def density_fitting(ask: Session, s: Setting) -> Comparison:
    """Differences of energies along a displacement lose most of the error that density fitting has."""
    along = np.random.default_rng(SEED).normal(size=s.positions.shape)
    along *= DISPLACED / np.linalg.norm(along)
    settings = [s.but(positions=s.positions + t * along) for t in (0, -1, 1)]
    fitted, exact = (np.array([ask(q, x) for x in settings]) for q in ("other_integrals", "energy"))
    bar, noise = LEFT * abs(fitted[0] - exact[0]) / SIGMAS, ask.noise("energy", s)
    return Comparison(fitted[1:] - fitted[0], exact[1:] - exact[0], "hartree", bar, noise)


def nested_bases(ask: Session, s: Setting) -> Comparison:
    """A basis set that holds another one gives no higher energy."""
    energies = np.array([_in_basis(ask, basis, s) for basis in NESTED])
    return Comparison(energies[1:], energies[:-1], "hartree", scale=SMALLEST, upper=True)


def two_names(ask: Session, s: Setting) -> Comparison:
    """Two names of one basis set give one energy."""
    energies = [_in_basis(ask, basis, s) for basis in SYNONYMS]
    return _same(np.ravel(energies[0]), np.ravel(energies[1]), ask, s)


def _in_basis(ask, basis, s):
    """The energy in another basis set; programs need not know each by this name."""
    try:
        return Session(ask.target.in_basis(basis))("energy", s)
    except (CodeRaisedError, NumericalError) as error:
        raise UnsupportedError(f"no energy in {basis}: {error}") from error


# ---- the list


@dataclass(frozen=True)
class Check:
    """compare: (Session, Setting) -> Comparison.   needs: quantities.   turns: True if a grid fixed in space shows."""

    compare: Callable[[Session, Setting], Comparison]
    needs: frozenset[str]
    turns: bool = False


def _under(**changes):
    """Forces under a condition."""

    def compare(ask, s):
        return forces(ask, s.but(**changes))

    return compare


def _with_charges(compare):
    """A comparison beside point charges."""
    return lambda ask, s: compare(ask, _beside_charges(s))


def _check(compare, *needs, turns=False):
    return Check(compare, frozenset(needs), turns)


CHECKS: dict[str, Check] = {
    "forces": _check(forces, "energy", "forces"),
    "forces in a field": _check(_under(field=FIELD), "energy", "forces"),
    "forces beside charges": _check(_with_charges(forces), "energy", "forces"),
    "forces on charges": _check(charge_forces, "energy", "charge_forces"),
    "forces of state 1": _check(_under(state=1), "energy", "forces"),
    "Hessian": _check(hessian, "forces", "hessian"),
    "Hessian beside charges": _check(_with_charges(hessian), "forces", "hessian"),
    "dipole": _check(dipole, "energy", "dipole"),
    "polarisability": _check(polarizability, "dipole", "polarizability"),
    "dipole derivatives": _check(dipole_derivatives, "dipole", "dipole_derivatives"),
    "Raman": _check(polarizability_derivatives, "polarizability", "polarizability_derivatives"),
    "infrared": _check(infrared, "dipole", "infrared", "hessian"),
    "net force": _check(net_force, "forces"),
    "torque": _check(torque, "forces", turns=True),
    "symmetry": _check(symmetry, "forces", turns=True),
    "spin exchange": _check(spin_exchange, "energy"),
    "order of atoms": _check(order_of_atoms, "energy"),
    "translation": _check(translation, "energy"),
    "rotation": _check(rotation, "energy", turns=True),
    "size consistency": _check(size, "energy"),
    "units": _check(units, "energy", "in_angstrom"),
    "density fitting": _check(density_fitting, "energy", "other_integrals"),
    "nested bases": _check(nested_bases, "energy"),
    "two names": _check(two_names, "energy"),
    "after others": _check(again, "energy"),
    "restart": _check(partial(_other_way, "restarted"), "energy", "restarted"),
    "save and load": _check(partial(_other_way, "reloaded"), "energy", "reloaded"),
}
