r"""How the energy changes with the numbers in its functional: dE/dp for every parameter at once.

The energy is stationary in the orbitals, so its derivative by a parameter p is that of E_xc at fixed density,

    dE/dp = sum over grid points w_i de(rho(r_i), ...; p)/dp

where with smeared occupations E stands for the free energy E - T S, which is the stationary one then. JAX
differentiates the energy per volume by all parameters in reverse. The range omega of exact exchange, where it is that
of the semilocal exchange beside it, changes its integrals, too (libcint.range_derivatives).
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map

from dftfd.errors import UnsupportedError
from dftfd.functionals.double_hybrids import without_pt2
from dftfd.functionals.exchange_ranges import holders
from dftfd.functionals.guests import without_guests
from dftfd.runtime.progress import as_progress
from dftfd.terms import CoulombExchangeEnergy, DoubleIntegralEnergy
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import ao_order
from dftfd.xc.code import shared
from dftfd.xc.in_jax import double_integral_of_density
from dftfd.xc.kernel import XCKernel
from dftfd.xc.local_exchange import LocalExchangeBuilder
from dftfd.xc.matrix import MatrixBuilder


def parameter_gradient(calculation, P) -> dict[str, dict[str, Any]]:
    """{name of a term: {parameter: dE/dp [hartree per unit of p]}} of a converged density matrix P (spin, ao, ao).

    Where terms of one name share a parameter, its derivative is the sum of theirs. That by the range omega of exact
    exchange stands with the first term that has this omega. UnsupportedError for models of the potential, and for
    e_x_lr, on whose omega integrals depend.
    """
    functional = calculation.functional
    without_guests(functional, "whose derivatives by parameters are jax.grad's of its own code")
    without_pt2(functional, "whose orbitals change with parameters, and its perturbation theory with them")
    others = [t.name for _, t in functional.terms if not t.has_energy]
    if others:
        raise UnsupportedError(f"the gradient by parameters is that of an energy, which {', '.join(others)} has not.")
    if "e_x_lr" in functional.ingredients:
        raise UnsupportedError("the gradient by omega of e_x_lr needs derivatives of integrals that are not there.")
    found: dict[str, dict[str, Any]] = {}
    if functional.is_semilocal:
        _add(found, _of_semilocal(calculation, P))
    if functional.is_nonlocal:
        _add(found, _of_double_integrals(calculation, P))
    _add_ranges(found, calculation, P)
    return found


def _of_semilocal(calculation, P):
    """A Functional of the derivatives of the semilocal energy."""
    semilocal, n_spin = calculation.functional.semilocal_part, len(P)
    kernel = shared(XCKernel, semilocal, n_spin)
    points, weights = calculation.grid.on(calculation.molecule)
    store = AOStore(calculation.molecule, points, weights, ao_order(kernel), memory_limit=0)
    with_exact_exchange = partial(LocalExchangeBuilder, molecule=calculation.molecule)
    builder = (with_exact_exchange if kernel.exact_exchange else MatrixBuilder)(kernel, store)
    density = np.split(builder.density(P), len(store.blocks), axis=-1)
    parts = [_slopes(semilocal, n_spin, b.points, b.weights, d) for b, d in zip(store.blocks, density, strict=True)]
    return tree_map(lambda *x: sum(x), *parts)


def _of_double_integrals(calculation, P):
    """A Functional of the derivatives of the double integrals, whose pairs of points JAX goes through in rows."""
    builder = calculation.energy(as_progress(False)).of_kind(DoubleIntegralEnergy).builder
    (points, weights), density = builder.grid, builder.density(P)
    code = lambda f, *given: double_integral_of_density(f, *given)
    return jax.jit(jax.grad(code))(calculation.functional.double_integral_part, density, points, weights)


def _add(found, total) -> None:
    """Adds a Functional of derivatives by parameters."""
    for _, slope in total.terms:
        of_term = found.setdefault(slope.name, {})
        for name, value in slope.parameters.items():
            if any(isinstance(x, jax.Array) for x in jax.tree_util.tree_leaves(value)):  # integers stay as they are
                value = tree_map(lambda x: float(x) if jnp.ndim(x) == 0 else np.asarray(x), value)
                of_term[name] = value if name not in of_term else tree_map(lambda a, b: a + b, of_term[name], value)


def _add_ranges(found, calculation, P) -> None:
    """Adds what exact exchange has to the derivatives by omega of the semilocal terms that it has in common with them.

    An omega that no term has is no parameter of the functional, and one that differs from the terms' is not theirs.
    """
    functional = calculation.functional
    terms = {omega: holders(functional.terms, omega) for omega, _ in functional.exact_exchange}
    pairs = [(omega, fraction) for omega, fraction in functional.exact_exchange if terms[omega]]
    if pairs:
        exchange = CoulombExchangeEnergy(calculation.coulomb_exchange(), pairs)
        for omega, slope in exchange.gradient_by_ranges(P).items():
            found[terms[omega][0].name]["omega"] += slope


@partial(jax.jit, static_argnums=1)
def _slopes(functional, n_spin, points, weights, density):
    """A Functional of the derivatives of E_xc on a block by all coefficients and parameters."""
    return jax.grad(lambda f: XCKernel(f, n_spin).energy(points, weights, density))(functional)
