"""Exact integrals: rules that know the value of an integral from its integrand's graph.

`integrate` asks the registered rules before it uses a quadrature. A rule gets (f, argnums, args): the Function to be
integrated, which of its arguments, and the values of the others. It returns the value, traceable and differentiable
like any JAX code, or None if the integrand is not of its kind.
"""

from collections.abc import Callable
from typing import Any

from dftfd.autofd.function import Function

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


def explain_integral(f: Function, argnums: int | tuple[int, ...] | None = None) -> str:
    """How `integrate(f, argnums)` is computed: by which analytic rule, or by which quadrature."""
    import jax

    from dftfd.autofd.graph import without_variables

    count = len(f.domains)
    argnums = tuple(range(count)) if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    rest = [f.domains[i].spec for i in range(count) if i not in argnums]
    found = []

    def attempt(*args):
        outcome = analytic_integral(without_variables(f), argnums, args)
        found.append(None if outcome is None else outcome[0])
        return 0.0

    jax.eval_shape(attempt, *rest)
    if found[-1] is not None:
        return f"analytic: {found[-1]}"
    parts = []
    for i in argnums:
        domain = f.domains[i]
        parts.append("no quadrature" if domain.points is None else f"quadrature with {len(domain.weights)} points")
    return " x ".join(parts)
