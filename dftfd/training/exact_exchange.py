r"""Exact exchange as code that JAX differentiates by the density matrix, by fractions and by the range omega.

    E_x = -1/2 sum_omega f_omega sum_s tr(P_s K_omega[P_s])

K is linear in P; its derivatives by omega are those of dftfd.libcint.range_derivatives.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import derivative_rules, host_primitive, is_zero, shaped
from dftfd.functionals.exchange_ranges import require_range
from dftfd.terms.integrals import CoulombExchange, share
from dftfd.training.on_grids import drop_oldest

_COMPILED = (
    "exact exchange is computed outside of compiled programs: take jax.jit, lax.scan and the like off what calls it."
)


def exchange_energy(builder: CoulombExchange, omega, P) -> Any:
    """E_x [hartree] of a range omega, 0 for 1/r, at P (spin, ao, ao)."""
    (K,) = EXCHANGE.bind(P, jnp.asarray(omega, dtype=jnp.float64), builder=builder, order=0)
    return -0.5 * jnp.sum(P * K)


class ExchangeAtDensity:
    """E_x of one density matrix P (spin, ao, ao) as a function of the range; no integrals are kept.

    build: makes a builder of J and K.
    """

    def __init__(self, build: Callable[[], CoulombExchange], P):
        self._build, self._P = build, np.asarray(P)
        self._known: OrderedDict = OrderedDict()

    def energy(self, exact_exchange) -> Any:
        """E_x [hartree] of pairs (omega, fraction)."""
        total: Any = 0.0
        for omega, fraction in exact_exchange:
            (of_range,) = ENERGY.bind(jnp.asarray(omega, dtype=jnp.float64), at=self, order=0)
            total = total + fraction * of_range
        return total

    def number(self, omega: float, order: int) -> float:
        """The derivative of this order by omega of E_x for the fraction 1."""
        if (omega, order) not in self._known:
            K = _matrices(self._P, omega, builder=self._build(), order=order)[0]
            self._known[omega, order] = -0.5 * float(np.sum(self._P * K))
            drop_oldest(self._known)
        self._known.move_to_end((omega, order))
        return self._known[omega, order]


def _matrices(P, omega, *, builder, order):
    P, omega = np.asarray(P), require_range(float(omega))
    P = 0.5 * (P + P.transpose(0, 2, 1))
    return [share(P) * (builder.exchange_by_range(P, omega, order) if order else builder.exchange(P, omega=omega))]


EXCHANGE = host_primitive("exact_exchange", _matrices, lambda P, omega, **_: [P], _COMPILED)
"""(P, omega) -> the derivative of this order by omega of K[P] (spin, ao, ao), of a restricted P half of it."""


def _jvp_of_exchange(primals, tangents, *, builder, order):
    (P, omega), (dP, domega) = primals, tangents
    found = EXCHANGE.bind(P, omega, builder=builder, order=order)
    change = jnp.zeros_like(found[0])
    if not is_zero(dP):
        change += EXCHANGE.bind(dP, omega, builder=builder, order=order)[0]
    if not is_zero(domega):
        change += domega * EXCHANGE.bind(P, omega, builder=builder, order=order + 1)[0]
    return found, [change]


def _transposed_exchange(cotangents, P, omega, **params):
    """K is its own adjoint as a map of P."""
    (cotangent,) = cotangents
    return [None if is_zero(cotangent) else EXCHANGE.bind(cotangent, omega, **params)[0], None]


derivative_rules(EXCHANGE, _jvp_of_exchange, _transposed_exchange)

ENERGY = host_primitive(
    "exact_exchange_at_density",
    lambda omega, *, at, order: [at.number(float(omega), order)],
    lambda omega, **_: [shaped(jax.ShapeDtypeStruct((), np.float64))],
    _COMPILED,
)


def _jvp_of_energy(primals, tangents, *, at, order):
    found, ((omega,), (domega,)) = ENERGY.bind(*primals, at=at, order=order), (primals, tangents)
    if is_zero(domega):
        return found, [jnp.zeros_like(found[0])]
    return found, [domega * ENERGY.bind(omega, at=at, order=order + 1)[0]]


derivative_rules(ENERGY, _jvp_of_energy)
