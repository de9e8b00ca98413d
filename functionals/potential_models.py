"""Models of the potential alone as terms of a functional."""

from collections.abc import Callable

from dftfd.autofd import Function, compose
from dftfd.errors import FunctionalError
from dftfd.functionals.base import EnergyTerm
from dftfd.functionals.densities import in_words, signature_of
from dftfd.functionals.numerics import zero_with_slope


def potential_term(formula: Callable, name: str, doi: str | None = None) -> EnergyTerm:
    """The term of a model potential (v_alpha, v_beta) [hartree], given as a formula like an energy's.

    Its energy per volume is zero, but with the derivative v_s with respect to rho_s, so it goes the way of all others.
    """
    ingredients, parameters = signature_of(formula, name)

    def energy(rho, tau=None, **parameters):
        given = {"n": rho[0] + rho[1], "rho": rho, "tau": tau}
        v = formula(*(given[i] for i in ingredients), **parameters)
        if not isinstance(v, Function) or v.result.shape != (2,):
            raise FunctionalError(
                f"potential {name!r} returned {in_words(v)}; (v_alpha, v_beta), a function R^3 -> R^2, expected."
            )
        return compose(lambda rho, v: zero_with_slope(rho, v).sum(), rho, v)

    energy.__doc__, energy.__module__ = formula.__doc__, formula.__module__
    used = ("rho", "tau") if "tau" in ingredients else ("rho",)
    return EnergyTerm(name, energy, used, parameters, doi, has_energy=False)
