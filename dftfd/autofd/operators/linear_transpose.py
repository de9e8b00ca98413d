"""linear_transpose: the transposed map of a function that is linear in one argument.   f(x) = M x   gives   y -> M^T y

JVP         linear_transpose(df)
transpose   depends on the pairing of functions; `pairing` says which:

  "l2" (default)      <f, g> = int f(x) . g(x) dmu(x), as for all other operators. For linear f(x) = M x,
                      <f^T, ct> = tr(M N^T) with N = int ct(y) y^T dmu(y), which equals <G, f> for the linear function
                      G(x) = N^T S^-1 x, S = int x x^T dmu(x). Needs quadratures on both spaces.
  "hilbert-schmidt"   <f, g> = tr(M_f^T M_g) on linear functions: linear_transpose(ct). ct must be linear.
  "inverse"           eq. 16 of the paper: <f^T, ct> = int y . f(ct(y)) dy = <f, ct^-1 |det D ct^-1|> by substitution of
                      x = ct(y). Needs the registered inverse of ct; f need not be linear for the identity to hold.
"""

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.degree import is_linear
from dftfd.autofd.core.domain import Domain, Signature, checked_argnums, describe, same_spec, value_space
from dftfd.autofd.core.function import SYMBOLIC, Function
from dftfd.autofd.core.operator import Operator
from dftfd.autofd.core.operator_table import op
from dftfd.autofd.core.structure import Code
from dftfd.errors import NoRuleError, SignatureError

PAIRINGS = ("l2", "hilbert-schmidt", "inverse")


def linear_transpose(f: Function, argnum: int = 0, domain: Domain | None = None, pairing: str = "l2") -> Function:
    """(other arguments, y) -> f^T y, where f is linear in argument `argnum`.

    domain: the space of y; its quadrature serves the "l2" pairing.   pairing: which transpose rule; see the module.
    """
    if not isinstance(f, Function):
        raise SignatureError(f"linear_transpose takes a Function, {type(f).__name__} found.")
    (argnum,) = checked_argnums(argnum, f, "linear_transpose")
    if pairing not in PAIRINGS:
        raise SignatureError(f"linear_transpose: pairing {pairing!r}, one of {', '.join(PAIRINGS)} expected.")
    domain = value_space(f.result) if domain is None else domain
    if not same_spec(domain.spec, f.result):
        raise SignatureError(
            f"linear_transpose: {domain!r} is not the space of {describe(f.result)}, the values of {f!r}."
        )
    if SYMBOLIC not in f.tags:  # of a function that JAX stands for, its program is known when the result is evaluated
        _check_linear(f, argnum)
    return Function(_linear_transpose, (f,), (), {"argnum": argnum, "domain": domain, "pairing": pairing})


def _check_linear(f, argnum):
    if not is_linear(f, (argnum,)):
        raise SignatureError(
            f"linear_transpose: {f!r} is not linear in argument {argnum}, or its program has steps that are not known "
            "to be."
        )


class LinearTranspose(Operator):
    name, linear = "linear_transpose", True

    def signature(self, operands, arrays, static):
        (f,), k = operands, static["argnum"]
        return Signature((*f.domains[:k], *f.domains[k + 1 :], static["domain"]), f.domains[k].spec)

    def evaluate(self, node, *args):
        (f,), k = node.operands, node.static["argnum"]
        *rest, y = args
        _check_linear(f, k)
        spec = f.domains[k].spec
        return jax.linear_transpose(lambda x: f.evaluate(*rest[:k], x, *rest[k:]), spec)(y)[0]

    def transpose(self, node, cotangent, needed):
        (f,), k = node.operands, node.static["argnum"]
        rule = {"l2": _projected, "hilbert-schmidt": _transposed, "inverse": _inverted}[node.static["pairing"]]
        last = len(f.domains) - 1
        # the rules return a function of (other arguments, x); x goes back to its place
        return [op.permute(rule(cotangent, f.domains[k]), (*range(k), last, *range(k, last)))]


_linear_transpose = LinearTranspose()


def _transposed(ct, domain):
    last = len(ct.domains) - 1
    if not is_linear(ct, (last,)):
        raise NoRuleError(f"the Hilbert-Schmidt pairing of linear_transpose needs a linear cotangent, {ct!r} is not.")
    return linear_transpose(ct, last, domain, "hilbert-schmidt")


def _inverted(ct, domain):
    if len(ct.domains) != 1:
        raise NoRuleError(f"the inverse pairing of linear_transpose needs a cotangent of one argument, {ct!r} found.")
    return op.transport(op.identity(ct.domains[0]), (ct,), (domain,))


def _projected(ct, domain):
    if not domain.is_array or not ct.domains[-1].is_array:
        raise NoRuleError("the l2 pairing of linear_transpose is defined for arrays, not for trees.")
    points, weights = domain.quadrature()
    ct.domains[-1].quadrature()
    x = np.reshape(points, (len(points), -1))
    second_moment = np.einsum("k,ki,kj->ij", weights, x, x)
    last = len(ct.domains) - 1
    y = op.broadcast(op.identity(ct.domains[last]), ct.domains, (last,))
    N = op.integrate_over(op.outer_product(ct, y), (last,))  # of the other arguments; axes: those of x, those of y
    domains = (*ct.domains[:last], domain)
    return op.compose(
        Projection(second_moment),
        op.broadcast(N, domains, tuple(range(last))),
        op.broadcast(op.identity(domain), domains, (last,)),
    )


class Projection(Code):
    """(N, x) -> N^T S^-1 x"""

    __name__ = "projection"

    def __init__(self, second_moment):
        self._inverse = np.linalg.inv(second_moment)

    def __call__(self, N, x):
        solved = (self._inverse.astype(x.dtype) @ x.reshape(-1)).reshape(x.shape)
        return jnp.tensordot(solved, N, x.ndim)
