"""What prover and recheck say of drawn functionals of both spins' densities, gradients, Laplacians and tau.

    python -m tests.verification.density_proofs [--count N] [--from SEED]

The formulas are those of judged_proofs, with operations of numbers alone beside them, of ingredients that are made of
densities; mpmath judges them in r_s, s, alpha, q and zeta. F_c, or its first derivative along ln r_s, is enclosed on 24
boxes from points to all of the domain. An error is a value beyond an enclosure of the prover or the recheck, a point
without a value in a box that counts as defined, or an error that is not one of dftfd's. Exponents of functionals count
as fractions, so values differ by 1e-16; the numbers' roundings are enlarged to 0.1 and more.
"""

import argparse
import math
import random
from collections import Counter

import jax.numpy as jnp
import mpmath
import numpy as np

from dftfd.autofd import compose, dot, laplacian, nabla
from dftfd.autofd.core.roots import power
from dftfd.errors import DftfdError
from dftfd.functionals.common import C_F, gradient_squared, slater_exchange, total_density
from dftfd.functionals.registry import term
from dftfd.verify.ball_intervals import Between
from dftfd.verify.inequality import condition_of, own_inequality, whole_domain
from dftfd.verify.proof_checker import BITS, _arb, _left_side
from tests.verification import judged_proofs
from tests.verification.judged_proofs import Undefined, _over

M, DIGITS = mpmath.mpf, 60

_NUMBERS = {
    "product": (
        lambda u: 1e16 * (0.1 * (0.3 * u) - 0.03 * u),
        lambda u: M(1e16) * (M(0.1) * (M(0.3) * u) - M(0.03) * u),
    ),
    "exp(1)": (
        lambda u: 1e16 * (jnp.exp(jnp.float64(1.0)) * u - math.e * u),
        lambda u: M(1e16) * (mpmath.e * u - M(math.e) * u),
    ),
    "sum": (lambda u: u + ((1e16 + 0 * u) + 1 - 1e16), lambda u: u + 1),
    "three": (lambda u: (0.1 + 0 * u) + 0.2 - 0.3, lambda u: M(0.1) + M(0.2) - M(0.3)),
    "quotient": (lambda u: 1e16 * (1 / (3 * u) - (1 / 3) / u), lambda u: M(1e16) * (1 / M(3) - M(1 / 3)) * _over(u)),
    "root": (
        lambda u: 1e15 * u * (power(jnp.float64(2.0), 1 / 3) - 1.2599210498948732),
        lambda u: M(1e15) * u * (mpmath.cbrt(2) - M(1.2599210498948732)),
    ),
    "choice": (
        lambda u: 1e16 * (jnp.where(u > 0.3, 0.1 * u, 0.7) - 0.1 * jnp.where(u > 0.3, u, 7.0)),
        lambda u: M(0) if u > 0.3 else M(1e16) * (M(0.7) - M(0.1) * 7),
    ),
    "square": (lambda u: 1e16 * (jnp.sqrt(jnp.float64(2.0) + 0 * u) ** 2 - 2.0) + u, lambda u: u),
    "log": (lambda u: jnp.log(jnp.float64(0.5)) + u, lambda u: u - mpmath.log(2)),
    "tiny": (lambda u: (u * 1e-200) * (1e-200 + 0 * u) * 1e300, lambda u: u * M(1e-200) ** 2 * M(1e300)),
}  # fmt: skip
"""Operations whose numbers float64 would round: code in JAX, and on mpmath's numbers."""


def _n(p):
    return M(3 / (4 * math.pi)) / p["rs"] ** 3


def _share(p, sign):
    return (1 + sign * p["zeta"]) / 2


_K2 = 4 * (3 * math.pi**2) ** (2 / 3)


def _s2(p):
    """|nabla n|^2 n^(-8/3)."""
    return M(_K2) * p["s"] ** 2


def _tau_W(p):
    return _s2(p) * M(0.125)


def _tau(p):
    """tau n^(-5/3)."""
    up, down = (mpmath.cbrt(2 * _share(p, sign)) ** 5 for sign in (1, -1))
    return M(C_F) * p["alpha"] * (up + down) / 2 + _tau_W(p)


def _sum(tau):
    return tau[0] + tau[1]


def _turned(rho):
    """rho_b nabla rho_a - rho_a nabla rho_b, which vanishes where spins share the gradient as the density."""
    return rho[1] * nabla(rho)[0] - rho[0] * nabla(rho)[1]


_of = total_density
INGREDIENTS = {
    "n": (lambda rho, tau: _of(rho) ** (-1 / 3), lambda p: 1 / mpmath.cbrt(_n(p))),
    "zeta": (lambda rho, tau: (rho[0] - rho[1]) / _of(rho), lambda p: p["zeta"]),
    "share a": (lambda rho, tau: rho[0] / _of(rho), lambda p: _share(p, 1)),
    "share b": (lambda rho, tau: rho[1] / (rho[0] + rho[1]), lambda p: _share(p, -1)),
    "s2": (lambda rho, tau: gradient_squared(_of(rho)) * _of(rho) ** (-8 / 3), _s2),
    "s aa": (lambda rho, tau: gradient_squared(rho[0]) * _of(rho) ** (-8 / 3), lambda p: _share(p, 1) ** 2 * _s2(p)),
    "s ab": (
        lambda rho, tau: dot(nabla(rho[0]), nabla(rho[1])) * _of(rho) ** (-8 / 3),
        lambda p: _share(p, 1) * _share(p, -1) * _s2(p),
    ),
    "s bb": (lambda rho, tau: gradient_squared(rho[1]) / _of(rho) ** (8 / 3), lambda p: _share(p, -1) ** 2 * _s2(p)),
    "turned": (lambda rho, tau: dot(_turned(rho), 2 * _turned(rho)) * _of(rho) ** (-14 / 3), lambda p: M(0)),
    "slope": (
        lambda rho, tau: gradient_squared(_of(rho)) ** 0.5 * _of(rho) ** (-4 / 3),
        lambda p: mpmath.sqrt(_s2(p)),
    ),
    "lapl": (lambda rho, tau: laplacian(_of(rho)) * _of(rho) ** (-5 / 3), lambda p: M(_K2) * p["q"]),
    "lapl a": (lambda rho, tau: laplacian(rho[0]) * _of(rho) ** (-5 / 3), lambda p: _share(p, 1) * M(_K2) * p["q"]),
    "tau": (lambda rho, tau: _sum(tau) * _of(rho) ** (-5 / 3), _tau),
    "tau a": (lambda rho, tau: tau[0] * _of(rho) ** (-5 / 3), lambda p: _share(p, 1) * _tau(p)),
    "tau - tau_W": (
        lambda rho, tau: (_sum(tau) - gradient_squared(_of(rho)) / (8 * _of(rho))) * _of(rho) ** (-5 / 3),
        lambda p: _tau(p) - _tau_W(p),
    ),
    "tau_W / tau": (
        lambda rho, tau: gradient_squared(_of(rho)) / (8 * _of(rho) * _sum(tau)),
        lambda p: _tau_W(p) * _over(_tau(p)),
    ),
}
"""Code of densities, and its value at r_s, s, alpha, q, zeta; all but the first without a dimension."""

_DOMAINS = {
    "rs": ((1e-4, 5.0), (0.3, 2.0), (1e-3, 1e3), (1.0, 1.0 + 1e-6)),
    "s": ((0.0, 5.0), (0.0, 1.0), (0.2, 0.9), (0.0, 1e-6)),
    "alpha": ((0.0, 5.0), (0.0, 1.0), (0.5, 1.5), (-0.1, 0.1)),
    "q": ((-1.0, 1.0), (0.0, 1.0), (-1e-3, 1e-3)),
    "zeta": ((-1.0, 1.0), (0.0, 0.9), (0.0, 0.0), (-0.5, 0.5), (0.999, 1.0)),
}


class Drawn:
    """A drawn F_c.   formula: of densities.   value: at a point, None where there is none, "?" where it is unknown."""

    def __init__(self, seed: int):
        self.rng = r = random.Random(seed)
        names = r.sample(sorted(INGREDIENTS), r.choice([1, 2, 2, 3]))
        self.made = dict(zip("uvw", names, strict=False))
        self._drawn = judged_proofs.Formula(seed, list(self.made), dict.fromkeys(self.made, (0.0, 1.0)))
        self._beside = r.choice(sorted(_NUMBERS)) if r.random() < 0.6 else None
        code = lambda *x: self._at(self._drawn.jax, dict(zip(self.made, x, strict=True)), 0)
        factor = lambda rho, tau: compose(code, *(INGREDIENTS[k][0](rho, tau) for k in names))
        of_tau = lambda rho, tau: 0.05 * slater_exchange(_of(rho)) * factor(rho, tau)
        of_rho = lambda rho: 0.05 * slater_exchange(_of(rho)) * factor(rho, None)
        self.formula = of_tau if any("tau" in k for k in names) else of_rho
        self.domain = {k: r.choice(ends) for k, ends in _DOMAINS.items()}

    def _at(self, function, values, which):
        return function(values) + (_NUMBERS[self._beside][which](values["u"]) if self._beside else 0)

    def value(self, p):
        made = self.made

        class Values(dict):  # of what the formula takes alone
            def __missing__(self, k):
                return INGREDIENTS[made[k]][1](p)

        try:
            x = self._at(self._drawn.judge, Values(), 1)
        except (Undefined, ZeroDivisionError):
            return None
        except (OverflowError, ValueError):
            return "?"
        return M(0.05) * x if isinstance(x, mpmath.mpf) and mpmath.isfinite(x) else "?"

    def coefficient(self, order, p):
        if order == 0:
            return self.value(p)
        h = M(10) ** -18
        below, at, above = (self.value(p | {"rs": p["rs"] * mpmath.exp(t)}) for t in (-h, 0, h))
        if "?" in (below, at, above) or None in (below, at, above):
            return None if at is None else "?"
        left, right = (at - below) / h, (above - at) / h
        return (left + right) / 2 if abs(right - left) < 1e-6 * (1 + abs(right)) else "?"  # a kink


def _boxes(inequality, rng, count=24):
    for _ in range(count):
        lo, hi, width = [], [], rng.choice([0.0, 1e-9, 1e-4, 0.05, 1.0])
        for a, b in zip(inequality.lo, inequality.hi, strict=True):
            x = a + rng.choice([rng.random(), rng.random(), 0.0, 1.0]) * (b - a)
            x = float(min(max(x, a), b))
            lo.append(x)
            hi.append(x if rng.random() < 0.15 else float(min(b, x + width * (b - a))))
        yield lo, hi


def _exact(end):
    """A number of Arb's as mpmath's."""
    if not end.is_finite():
        return mpmath.nan
    with mpmath.workdps(DIGITS):
        man, two = end.man_exp()
        return mpmath.ldexp(int(man), int(two))


def tried(seed: int) -> tuple[str, list]:
    """(kind, what is wrong)."""
    drawn, wrong = Drawn(seed), []
    order = drawn.rng.choice([0, 0, 1])
    try:
        f = term("mgga_c_drawn")(drawn.formula)
        domain = whole_domain(f, drawn.domain)
        given = {k: drawn.domain[k] for k in domain}
        inequality = condition_of(f, "ec_scaling", domain) if order else own_inequality(f, lambda F_c: F_c, given)[0]
    except DftfdError as error:
        return f"refused: {error}"[:60], []
    flint = _arb()
    for number, (lo, hi) in enumerate(_boxes(inequality, drawn.rng)):
        found = inequality.enclosed(np.array(lo)[:, None], np.array(hi)[:, None])
        known = [(bool(found.defined.lo[0] == 1), float(found.value.r.lo[0]), float(found.value.r.hi[0]))]
        if number % 4 == 0:
            before, flint.ctx.prec = flint.ctx.prec, BITS
            try:
                side = _left_side(flint, inequality, lo, hi)
                ends = (side.value.lo, side.value.hi) if isinstance(side.value, Between) else (side.value,) * 2
                known.append((side.known is True, _exact(ends[0].lower()), _exact(ends[1].upper())))
            except DftfdError:
                pass
            finally:
                flint.ctx.prec = before
        for _ in range(5):
            at = {}
            for k, a, b in zip(inequality.names, lo, hi, strict=True):
                share = drawn.rng.choice([0.0, 0.5, 1.0, drawn.rng.random()])
                at[k] = min(max(a + share * (b - a), a), b)
            with mpmath.workdps(DIGITS):
                point = dict.fromkeys(_DOMAINS, M(0)) | {k: M(a) for k, (a, _) in domain.items()}
                value = drawn.coefficient(order, point | {k: M(x) for k, x in at.items()})
                slack = (1e-12 if order else 1e-15) * (1 + abs(value)) if value not in (None, "?") else 0
                for defined, low, high in known:
                    if value is None and defined:
                        wrong.append((at, lo, hi, "defined"))
                    elif value not in (None, "?") and (value + slack < low or value - slack > high):
                        wrong.append((at, lo, hi, low, high, mpmath.nstr(value, 30)))
    return f"order {order}", wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--from", dest="start", type=int, default=0)
    given, kinds = parser.parse_args(), Counter()
    for seed in range(given.start, given.start + given.count):
        try:
            kind, wrong = tried(seed)
        except Exception as error:  # noqa: BLE001  counted as an error of the prover
            kind, wrong = "raw", [repr(error)]
        kinds[kind] += 1
        if wrong:
            print(seed, len(wrong), wrong[0], flush=True)
    print(kinds)


if __name__ == "__main__":
    main()
