r"""How the energy changes with the numbers in its functional: dE/dp for every parameter at once.

The energy is stationary in the orbitals, so its derivative by a parameter p is that of E_xc at fixed density,

    dE/dp = sum over grid points w_i de(rho(r_i), ...; p)/dp

where with smeared occupations E stands for the free energy E - T S, which is the stationary one then. JAX
differentiates the energy per volume by all parameters in reverse. The range omega of exact exchange, where it is that
of the semilocal exchange beside it, changes its integrals, too (libcint.range_derivatives).
"""

from typing import Any

from jax.tree_util import tree_map

from dftfd.functionals import supports
from dftfd.runtime.progress import as_progress


def parameter_gradient(calculation, P) -> dict[str, dict[str, Any]]:
    """{name of a term: {parameter: dE/dp [hartree per unit of p]}} of a converged density matrix P (spin, ao, ao).

    Where terms of one name share a parameter, its derivative is the sum of theirs. That by the range omega of exact
    exchange stands with the first term that has this omega. UnsupportedError for models of the potential, and for
    e_x_lr, on whose omega integrals depend.
    """
    functional = calculation.functional
    supports.require("parameter gradient", functional)
    found: dict[str, dict[str, Any]] = {}
    for term in calculation.energy(as_progress(False)).terms:
        for name, slopes in term.parameter_gradient(P, functional).items():
            of_term = found.setdefault(name, {})
            for parameter, slope in slopes.items():
                known = of_term.get(parameter)
                of_term[parameter] = slope if known is None else tree_map(lambda a, b: a + b, known, slope)
    return found
