"""Exact integrals: rules that know the value of an integral from its integrand's graph.

`integrate` asks the registered rules before it uses a quadrature. A rule gets (f, argnums, args): the Function to be
integrated, which of its arguments, and the values of the others. It returns the value, traceable and differentiable
like any JAX code, or None if the integrand is not of its kind.
"""

from collections.abc import Callable
from typing import Any

import jax

from dftfd.autofd.core.domain import checked_argnums
from dftfd.autofd.core.function import Function
from dftfd.autofd.core.graph import without_variables

Rule = Callable[[Function, tuple[int, ...], tuple], object]
_RULES: dict[str, Rule] = {}


def register_analytic_rule(name: str, rule: Rule) -> None:
    """Let `integrate` use `rule`; a rule of the same name is replaced."""
    _RULES[name] = rule


def analytic_integral(f: Function, argnums: tuple[int, ...], args: tuple) -> Any:
    """(name of the rule, exact value) of the integral of f over the arguments `argnums`; None if no rule applies.

    args: values of the other arguments, in order.
    """
    for name, rule in _RULES.items():
        value = rule(f, argnums, args)
        if value is not None:
            return name, value
    return None


def exact_rule(f: Function, argnums: tuple[int, ...]) -> str | None:
    """Name of the rule that knows the integral, whatever the values of the other arguments; None if none does."""
    found = []

    def ask(*args):
        found.append(analytic_integral(f, argnums, args))
        return 0.0

    jax.eval_shape(ask, *(d.spec for i, d in enumerate(f.domains) if i not in argnums))
    return found[-1] and found[-1][0]


def explain_integral(f: Function, argnums: int | tuple[int, ...] | None = None) -> str:
    """How `integrate(f, argnums)` is computed: by which analytic rule, or by which quadrature."""
    argnums = tuple(range(len(f.domains))) if argnums is None else checked_argnums(argnums, f, "explain_integral")
    rule = exact_rule(without_variables(f), argnums)
    if rule is not None:
        return f"analytic: {rule}"
    lengths = [None if f.domains[i].points is None else len(f.domains[i].weights) for i in argnums]
    return " x ".join("no quadrature" if n is None else f"quadrature with {n} points" for n in lengths)
