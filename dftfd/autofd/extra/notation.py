"""Formulas for people: unknown functions and their derivatives as SymPy symbols, and as text and LaTeX.

On a line u, u', u'', u^(4); in several dimensions |nabla u|, laplace u and nabla u . H . nabla u (H: second
derivatives) where the formula does not depend on the orientation of the axes, else u_x, u_xy, ...
"""

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dftfd.autofd.core.domain import Domain
from dftfd.autofd.scalar.on_sympy import SympyAlgebra, require_sympy

_SIMPLIFY_UP_TO = 600  # operations; longer formulas are only collected


@dataclass(frozen=True)
class Formula:
    """A formula in three forms.

    expression: SymPy, with Function, Derivative and Integral objects.
    compact: SymPy, with one symbol for each derivative.   names: LaTeX of these symbols.
    """

    expression: object
    compact: object
    names: dict = field(repr=False)

    @property
    def latex(self) -> str:
        return require_sympy().latex(self.compact, symbol_names=self.names)

    def __str__(self):
        return str(self.compact)

    def _repr_latex_(self):
        return f"$\\displaystyle {self.latex}$"


class Notation:
    """Symbols for the point, the jets of the unknown functions and the integrals over them."""

    def __init__(self, domain: Domain, unknowns, jets, positive: bool):
        self.sympy = require_sympy()
        self.positive = positive
        self.names: dict[Any, str] = {}
        self.meaning: dict[Any, Any] = {}
        self.axes = self._coordinates(domain)
        self.point = np.array(self.axes, object).reshape(domain.shape)
        self.jets = {
            u.name: [self._jet(u, order, spec.shape) for order, spec in enumerate(jets[u.name])]
            for u in unknowns.values()
        }

    def _coordinates(self, domain: Domain) -> list:
        count = int(np.prod(domain.shape))
        if domain.shape == ():
            letters = [domain.name if domain.name.isidentifier() else "x"]
        else:
            letters = "x y z".split()[:count] if count <= 3 else [f"x_{i + 1}" for i in range(count)]
        return [self.sympy.Symbol(letter, real=True) for letter in letters]

    def _jet(self, unknown, order: int, shape) -> np.ndarray:
        """Symbols of all derivatives of one order, (*result, *axes of the argument order times)."""
        out = np.empty(shape, object)
        rank = len(unknown.shape)
        for place in np.ndindex(*shape):
            along = sorted(place[rank:]) if unknown.domain.shape else [0] * order
            out[place] = self._derivative(unknown.name, place[:rank], along)
        return out

    def _derivative(self, name: str, component, along):
        label = name + "".join(f"_{i + 1}" for i in component)
        latex = name if not component else f"{name}_{{{','.join(str(i + 1) for i in component)}}}"
        axes = [self.axes[i] for i in along]
        if len(self.axes) == 1:
            marks = "'" * len(along) if len(along) < 4 else f"^({len(along)})"
            text, latex = label + marks, latex + ("'" * len(along) if len(along) < 4 else f"^{{({len(along)})}}")
        elif axes:
            index = "".join(map(str, axes))
            text, latex = f"{label}_{index}", f"\\partial_{{{index}}} {latex}"
        else:
            text = label
        kind = {"positive": True} if self.positive else {"real": True}
        f = self.sympy.Function(label, **kind)(*self.axes)
        symbol = self.sympy.Symbol(text, **({"real": True} if axes else kind))
        self.names[symbol] = latex
        self.meaning[symbol] = self.sympy.Derivative(f, *axes) if axes else f
        return symbol

    def numbers(self, count: int) -> np.ndarray:
        """Symbols of the integrals inside the functional."""
        self.integrals = [self.sympy.Symbol(f"I_{k + 1}", real=True) for k in range(count)]
        return np.array(self.integrals, object)

    def formula(self, results, simplify: bool) -> Formula:
        """results: the derivative (object array), then the integrands whose integrals are the numbers, in order."""
        algebra = SympyAlgebra()
        scalar = lambda e: e if isinstance(e, self.sympy.Basic) else algebra.constant(e)
        derivative, *integrands = (np.asarray(r, object) for r in results)
        entries = itertools.chain.from_iterable(i.ravel() for i in integrands)
        integrals: dict[Any, Any] = {}
        for symbol, entry in zip(self.integrals, entries, strict=False):
            integrals[symbol] = self._integral(self._readable(scalar(entry).xreplace(integrals), simplify))
        shown = [self._readable(scalar(e).xreplace(integrals), simplify) for e in derivative.ravel()]
        compact = shown[0] if derivative.shape == () else self.sympy.Array(shown, derivative.shape)
        expression = compact
        for symbol in reversed(self.meaning):  # later symbols are defined by earlier ones
            expression = expression.xreplace({symbol: self.meaning[symbol]})
        return Formula(expression, compact, dict(self.names))

    def _integral(self, inner):
        """A symbol for the integral of `inner` over the space."""
        measure = " ".join(f"d{a}" for a in self.axes)
        symbol = self._named(
            f"[int {inner} {measure}]",
            f"\\left[\\int {self.sympy.latex(inner, symbol_names=self.names)}\\, {measure}\\right]",
            self.sympy.Integral(inner, *self.axes),
        )
        return symbol

    def _named(self, text: str, latex: str, meaning, **assumptions):
        symbol = self.sympy.Symbol(text, **(assumptions or {"real": True}))
        self.names[symbol], self.meaning[symbol] = latex, meaning
        return symbol

    def _readable(self, expression, simplify: bool):
        """The shortest form found."""
        s = self.sympy
        shorter = self._without_axes(expression) if len(self.axes) > 1 else None
        expression = expression if shorter is None else shorter
        forms = [expression]
        if simplify and s.count_ops(expression) <= _SIMPLIFY_UP_TO:
            slow = expression.has(s.functions.elementary.trigonometric.TrigonometricFunction, s.sinh, s.cosh, s.tanh)
            simple = s.cancel(expression) if slow else s.simplify(expression)
            forms += [s.expand(expression), simple, s.expand(simple), s.factor_terms(simple)]
        return min(forms, key=s.count_ops)

    def _without_axes(self, expression):
        """The expression in |grad u|, lap u and grad u . H . grad u, if it is a function of these; else None.

        A function of these is the same in all frames, so it is read off in one whose first axis is along the gradient;
        a comparison at a random point in another frame shows whether it is such a function at all.
        """
        s, n = self.sympy, len(self.axes)
        if len(self.jets) != 1 or any(len(j) == 0 or np.ndim(j[0]) for j in self.jets.values()):
            return None
        ((name, jet),) = self.jets.items()
        if not 2 <= len(jet) <= 3 or np.ndim(self.point) != 1:
            return None
        gradient, hessian = jet[1], jet[2] if len(jet) == 3 else np.zeros((n, n), object)
        square = sum(p**2 for p in gradient)
        laplacian, curvature = np.trace(hessian), gradient @ hessian @ gradient
        g = self._named(f"|grad {name}|", f"\\left|\\nabla {name}\\right|", s.sqrt(square), positive=True)
        L = self._named(f"lap({name})", f"\\left(\\nabla^{{2}} {name}\\right)", laplacian)
        B = self._named(
            f"(grad {name}.H.grad {name})",
            f"\\left(\\nabla {name} \\cdot H_{{{name}}} \\nabla {name}\\right)",
            curvature,
        )
        frame = {p: g if i == 0 else s.Integer(0) for i, p in enumerate(gradient)}
        if len(jet) == 3:
            frame[hessian[0, 0]] = B / g**2
            frame[hessian[-1, -1]] = L - B / g**2 - sum(hessian[i, i] for i in range(1, n - 1))
        invariant = s.simplify(expression.xreplace(frame))
        if invariant.free_symbols & {*gradient, *hessian.ravel()} - {s.Integer(0)}:
            return None
        places = random.Random(1)
        values = {p: s.Float(places.uniform(0.5, 1.5)) for p in expression.free_symbols | {*gradient, *hessian.ravel()}}
        meaning = {g: s.sqrt(square), L: laplacian, B: curvature}
        here, there = (s.N(e.xreplace(values)) for e in (expression, invariant.xreplace(meaning)))
        return invariant if abs(here - there) <= 1e-9 * (1 + abs(here)) else None
