"""Exact conditions on exchange, correlation and kinetic energies, each tested on numbers.

A condition takes the parts of a functional and says whether it holds, how well, and where it is worst. Conditions on
the energy per volume are tested on a sample of the variables (rho, sigma, lapl, tau), those on energies and potentials
on one or two electrons in the orbital exp(-Z r), where exact exchange is known. Terms with integrals are left out.

J. P. Perdew et al., J. Chem. Phys. 123, 062201 (2005). doi:10.1063/1.1904565 (the conditions and their use)
"""

from dataclasses import dataclass, replace

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.registry import get_functional
from dftfd.verify.model_systems import C_F, C_X, OneOrbital, energy, gas, uniform_gas
from dftfd.verify.sampling import total_density, total_reduced_gradient, wide_sample, wigner_seitz

LIEB_OXFORD = 1.679 / -C_X
"""Bound on E_xc / E_x^LDA. E. H. Lieb, S. Oxford, Int. J. Quantum Chem. 19, 427 (1981). doi:10.1002/qua.560190306"""

CONDITIONS: dict = {}
"""Conditions by name, in the order of the report; each is code of `Parts` that gives a `Condition`."""

_RS = np.geomspace(0.05, 20, 60)
_KINDS = ("x", "c", "xc", "k")
HELIUM_Z = 27 / 16
"""Of the best single exponential for the helium atom."""


@dataclass(frozen=True)
class Condition:
    """name; passed (None: not applicable); detail: how well and where, or why not, empty if it is about other terms."""

    name: str
    passed: bool | None
    detail: str


class _OtherTerms(UnsupportedError):
    """The functional has no term of the kind that a condition is about."""


@dataclass(frozen=True)
class Parts:
    """A functional by what its terms are, as their declaration or the letters x, c, xc and k in their names say."""

    whole: Functional

    def semilocal(self) -> Functional:
        """The energy without integrals and exact exchange."""
        if not self.whole.has_energy:
            raise UnsupportedError(f"{self.whole.name!r} is a model potential")
        semilocal = self.whole.semilocal_part
        if not semilocal.terms:
            raise UnsupportedError(f"{self.whole.name!r} has no semilocal part")
        return semilocal

    def only(self, kind: str) -> Functional:
        """The terms of one kind; UnsupportedError where there are none, or others that may hold a share of it."""
        terms = self.semilocal().terms
        self.require_known_kinds()
        of_kind = tuple((c, t) for c, t in terms if _is_kind(t, kind))
        if kind in ("x", "c") and any(_is_kind(t, "xc") for _, t in terms):
            raise UnsupportedError("exchange and correlation are one formula")
        if not of_kind:
            raise _OtherTerms(f"no term of kind {kind}")
        return replace(self.semilocal(), terms=of_kind)

    def require_known_kinds(self) -> None:
        """UnsupportedError where neither declaration nor name of a semilocal energy tells its kind."""
        for _, term in self.semilocal().terms:
            if not _is_kind(term, *_KINDS):
                raise UnsupportedError(
                    f"the name {term.name!r} does not show its kind: declare it, as in "
                    f"@dftfd.functional({term.name!r}, kind='exchange'), or name it with _x_, _c_, _xc_ or _k_, "
                    f"as in {f'own_x_{term.name}'!r}"
                )

    def require_local_correlation(self) -> None:
        """UnsupportedError where terms with integrals or PT2 hold a share of correlation."""
        if self.whole.is_nonlocal:
            raise UnsupportedError("terms with integrals contribute to it and are not evaluated")
        if self.whole.pt2:
            raise UnsupportedError("second-order perturbation theory contributes to it and has no value at a point")

    def correlation(self) -> Functional:
        """All of correlation, where it has a value at a point."""
        correlation = self.only("c")
        self.require_local_correlation()
        return correlation

    def exchange(self) -> Functional:
        """All of exchange, where it has a value at a point."""
        if self.is_hybrid:
            raise UnsupportedError("exact exchange has no value at a point")
        exchange = self.only("x")
        if any(t.is_nonlocal and not _is_kind(t, "c") for _, t in self.whole.terms):
            raise UnsupportedError("terms with integrals may contribute to it and are not evaluated")
        return exchange

    @property
    def is_hybrid(self) -> bool:
        return bool(self.whole.exact_exchange)

    def exact_exchange_of(self, system: OneOrbital) -> float:
        """Exact exchange energy [hartree] in the functional's proportion."""
        return sum(fraction * system.exact_exchange(omega) for omega, fraction in self.whole.exact_exchange)

    def exact_exchange_of_gas(self, x) -> np.ndarray:
        """Exact exchange of the uniform gas per volume, in the functional's proportion."""
        full, total = energy(get_functional("lda_x"), x), np.zeros(x.shape[1])
        for omega, fraction in self.whole.exact_exchange:
            short_range = energy(get_functional("lda_x_erf", omega=omega), x) if omega else 0.0
            total += fraction * (full - short_range)
        return total


def _is_kind(term: EnergyTerm, *kinds: str) -> bool:
    return term.kind in kinds


def condition(title: str):
    """Decorator: code of Parts that gives (passed, detail) becomes a condition of the report."""

    def enter(code):
        def tested(parts: Parts) -> Condition:
            try:
                return Condition(title, *code(parts))
            except _OtherTerms:
                return Condition(title, None, "")
            except UnsupportedError as error:
                return Condition(title, None, str(error))

        tested.__doc__ = code.__doc__
        CONDITIONS[title] = tested
        return tested

    return enter


def _within(deviation, tolerance, place):
    """Verdict on deviations (point,): the largest one and its place."""
    i = int(np.argmax(np.where(np.isnan(deviation), np.inf, deviation)))
    return bool(deviation[i] <= tolerance), f"largest relative deviation {deviation[i]:.1e} at {place(i)}"


# ---- Exchange


@condition("uniform gas, exchange")
def _uniform_gas_exchange(parts):
    """e_x = C_x n^(4/3), with exact exchange if the functional has it, for r_s = 0.05 to 20, within 1e-6."""
    x = gas(_RS)
    e = energy(parts.only("x"), x) + parts.exact_exchange_of_gas(x)
    return _within(np.abs(e / (C_X * x[0] ** (4 / 3)) - 1), 1e-6, lambda i: f"r_s = {_RS[i]:.2f}")


@condition("spin scaling of exchange")
def _spin_scaling(parts):
    """E_x[a, b] = (E_x[2a] + E_x[2b]) / 2, in the sample."""
    exchange = parts.only("x")
    _, x = wide_sample()
    doubled = np.array([2.0, 4.0, 2.0, 2.0])[:, None]
    scaled = sum(0.5 * energy(exchange, doubled * x[[s, 2 + 2 * s, 5 + s, 7 + s]]) for s in (0, 1))
    deviation = np.abs(energy(exchange, x) / scaled - 1)
    return _within(deviation, 1e-9, lambda i: f"rho = {x[0, i]:.2e}, {x[1, i]:.2e}")


@condition("coordinate scaling of exchange")
def _coordinate_scaling(parts):
    """E_x[n_L] = L E_x[n], n_L(r) = L^3 n(L r), L = 3, in the sample."""
    exchange = parts.only("x")
    return _homogeneous(exchange, degree=1)


def _homogeneous(functional, degree, L=3.0):
    x, _ = wide_sample()
    scaled = energy(functional, x * L ** np.array([3.0, 8.0, 5.0, 5.0])[:, None])
    deviation = np.abs(scaled / (L ** (3 + degree) * energy(functional, x)) - 1)
    return _within(deviation, 1e-9, lambda i: f"r_s = {wigner_seitz(x[0, i]):.2f}")


@condition("exchange of hydrogen")
def _hydrogen_exchange(parts):
    """E_x = -5/16 hartree for the 1s density, within 1 %."""
    return _energy_of_hydrogen(parts, "x")


def _energy_of_hydrogen(parts, kind):
    hydrogen = OneOrbital(1, 1.0)
    E = hydrogen.energy(parts.only(kind)) + parts.exact_exchange_of(hydrogen)
    return abs(E / -0.3125 - 1) < 0.01, f"E_{kind}[H] = {E:.6f} hartree, exact -0.312500"


@condition("virial of exchange")
def _virial(parts):
    """E_x = -int n r . grad v_x with the derived potential, for the helium-like density."""
    helium, exchange = OneOrbital(2, HELIUM_Z), parts.only("x")
    E, W = helium.energy(exchange), helium.virial(exchange)
    finer = OneOrbital(2, HELIUM_Z, count=300).virial(exchange)
    if abs(finer - W) > 1e-6:
        raise UnsupportedError(f"the potential varies too fast for a quadrature ({W:.4f} and {finer:.4f} hartree)")
    return abs(W / E - 1) < 1e-5, f"E_x = {E:.7f} hartree, from the potential {W:.7f}"


# ---- Correlation


@condition("uniform gas, correlation")
def _uniform_gas_correlation(parts):
    """e_c of the gas at zeta = 0 and 1, within the 2 % by which fits to it differ."""
    correlation, deviations = parts.only("c"), []
    for x in _gas_of_both_polarisations():
        deviations.append(np.abs(energy(correlation, x) / energy(get_functional("lda_c_pw"), x) - 1))
    return _within(np.concatenate(deviations), 0.02, _place_in_both)


def _gas_of_both_polarisations():
    return [uniform_gas(_RS, fraction) for fraction in (0.5, 1 - 1e-9)]


def _place_in_both(i):
    return f"r_s = {_RS[i % len(_RS)]:.2f}, zeta = {i // len(_RS)}"


@condition("E_c <= 0")
def _negative_correlation(parts):
    """e_c <= 0 at every point of the sample."""
    correlation, points = parts.correlation(), wide_sample()
    n, s = (np.concatenate([code(x) for x in points]) for code in (total_density, total_reduced_gradient))
    eps = np.concatenate([energy(correlation, x) for x in points]) / n
    i = int(np.argmax(eps))
    return bool(eps[i] <= 1e-12), f"largest e_c / n = {eps[i]:.1e} at r_s = {wigner_seitz(n[i]):.2f}, s = {s[i]:.2f}"


@condition("E_c = 0 for one electron")
def _one_electron(parts):
    """No correlation of the 1s density, within 1e-6 hartree."""
    E = OneOrbital(1, 1.0).energy(parts.correlation())
    return abs(E) < 1e-6, f"E_c[H] = {E:.6f} hartree"


@condition("scaling of correlation")
def _correlation_scaling(parts):
    """E_c[n_L] > L E_c[n] for L = 2, for the helium-like density."""
    correlation = parts.correlation()
    plain, scaled = OneOrbital(2, HELIUM_Z).energy(correlation), OneOrbital(2, 2 * HELIUM_Z).energy(correlation)
    return scaled > 2 * plain, f"helium: E_c[n_2] = {scaled:.6f} hartree, 2 E_c[n] = {2 * plain:.6f}"


@condition("T_c >= 0")
def _kinetic_correlation(parts):
    """T_c = dE_c[n_L]/dL - E_c[n] >= 0 at L = 1, for the helium-like density."""
    correlation, step = parts.correlation(), 1e-4
    plain, up, down = (OneOrbital(2, HELIUM_Z * L).energy(correlation) for L in (1.0, 1 + step, 1 - step))
    T = (up - down) / (2 * step) - plain
    return T >= 0, f"helium: T_c = {T:.6f} hartree"


# ---- Exchange and correlation together


@condition("uniform gas, exchange and correlation")
def _uniform_gas_of_both(parts):
    """e_xc of the gas if the two are one formula, at zeta = 0 and 1, within 2 %."""
    parts.only("xc")
    deviations = []
    exact = get_functional("lda_x") + get_functional("lda_c_pw")
    for x in _gas_of_both_polarisations():
        e = energy(parts.semilocal(), x) + parts.exact_exchange_of_gas(x)
        deviations.append(np.abs(e / energy(exact, x) - 1))
    return _within(np.concatenate(deviations), 0.02, _place_in_both)


@condition("hydrogen without self-interaction")
def _self_interaction(parts):
    """E_xc = -5/16 hartree for the 1s density, within 1 %."""
    parts.only("xc")
    parts.require_local_correlation()
    return _energy_of_hydrogen(parts, "xc")


@condition("Lieb-Oxford bound")
def _lieb_oxford(parts):
    """Its local form, e_xc >= 2.273 C_x n^(4/3) at every point of the sample; sufficient, not necessary."""
    semilocal = parts.semilocal()
    if parts.is_hybrid:
        raise UnsupportedError("exact exchange has no value at a point")
    parts.require_known_kinds()
    if not any(_is_kind(t, "x", "xc") for _, t in semilocal.terms):
        raise _OtherTerms("no exchange")
    parts.require_local_correlation()
    values, places = [], []
    for x in wide_sample():
        n = total_density(x)
        values.append(energy(semilocal, x) / (C_X * n ** (4 / 3)))
        zeta = np.zeros_like(n) if len(x) == 4 else (x[0] - x[1]) / n
        places.append(np.stack([wigner_seitz(n), total_reduced_gradient(x), zeta]))
    F, place = np.concatenate(values), np.concatenate(places, axis=1)
    i = int(np.argmax(F))
    rs, s, zeta = place[:, i]
    return bool(F[i] <= LIEB_OXFORD), f"largest F_xc = {F[i]:.4f} at r_s = {rs:.2f}, s = {s:.2f}, zeta = {zeta:.2f}"


@condition("v_xc -> -1/r")
def _asymptotic_potential(parts):
    """At r = 14 bohr of the helium-like density, with long-range exact exchange, within 10 %."""
    whole = parts.whole
    if whole.has_energy and not parts.is_hybrid and not any(_is_kind(t, "x", "xc") for _, t in whole.terms):
        parts.require_known_kinds()
        raise _OtherTerms("no exchange")
    helium, semilocal = OneOrbital(2, HELIUM_Z), whole.semilocal_part
    v = helium.potential(semilocal) if semilocal.terms else np.zeros_like(helium.r)
    near, far = (int(np.argmin(np.abs(helium.r - r))) for r in (10.0, 14.0))
    rv = helium.r * v - sum(fraction for _, fraction in whole.exact_exchange)
    place = lambda i: f"{round(rv[i], 3) + 0.0:.3f} at r = {helium.r[i]:.1f}"
    limit = (rv[far] - rv[near]) / (helium.r[far] - helium.r[near])
    constant = f"; v_xc tends to {limit:.2f} hartree" if abs(limit) > 0.01 else ""
    return bool(abs(rv[far] + 1) < 0.1), f"r v_xc = {place(near)}, {place(far)}{constant}"


# ---- Kinetic energy


@condition("uniform gas, kinetic energy")
def _uniform_gas_kinetic(parts):
    """t = C_F n^(5/3) for r_s = 0.05 to 20."""
    x = gas(_RS)
    e = energy(parts.only("k"), x)
    return _within(np.abs(e / (C_F * x[0] ** (5 / 3)) - 1), 1e-6, lambda i: f"r_s = {_RS[i]:.2f}")


@condition("coordinate scaling of kinetic energy")
def _kinetic_scaling(parts):
    """T[n_L] = L^2 T[n]."""
    return _homogeneous(parts.only("k"), degree=2)


@condition("kinetic energy of hydrogen")
def _hydrogen_kinetic(parts):
    """T = 1/2 hartree, within 1 %."""
    T = OneOrbital(1, 1.0).energy(parts.only("k"))
    return abs(T / 0.5 - 1) < 0.01, f"T[H] = {T:.6f} hartree, exact 0.500000"
