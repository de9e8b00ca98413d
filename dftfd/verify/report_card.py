"""Report card of a functional: what it is, which exact conditions of the theory it meets, its enhancement factor."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dftfd.errors import UnsupportedError
from dftfd.functionals.base import EnergyTerm, Functional
from dftfd.functionals.parameters import parameter_text, pt2_rows
from dftfd.functionals.registry import get_functional
from dftfd.runtime.arguments import public
from dftfd.runtime.files import picture
from dftfd.runtime.notebook import ShownAsText
from dftfd.verify.conditions import CONDITIONS, HELIUM_Z, Condition, Parts
from dftfd.verify.grid_functional_conditions import grid_functional_conditions
from dftfd.verify.model_systems import C_F, C_X, OneOrbital, energy, gas
from dftfd.verify.point_comparison import counterpart
from dftfd.xc.pointwise import pointwise_kernel

_MARKS = {True: "pass", False: "FAIL"}
_WIDTH, _HEIGHT = 61, 13
_FLAT = 1e-3
"""Half the height of the plot of what is constant to this."""


@dataclass(frozen=True, repr=False)
class ReportCard(ShownAsText):
    """What `report_card` found; print it.

    conditions: the outcome of each exact condition; `passed` is None where it is not about this functional.
    proofs: a line for each local condition that was decided for all points of a domain (dftfd show NAME --prove).
    """

    functional: Functional
    conditions: tuple[Condition, ...]
    proofs: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Condition:
        """The outcome of the condition with this name."""
        return next(c for c in self.conditions if c.name == name)

    def __str__(self) -> str:
        f = self.functional
        lines = [f.name, *(f"https://doi.org/{doi}" for doi in f.papers)]
        lines += [f"in libxc: {_in_libxc(f)}", f"ingredients: {_ingredients(f)}"]
        for omega, fraction in f.exact_exchange:
            lines.append(
                f"{fraction:+.6g} exact exchange" + (f", erf(omega r)/r with omega = {omega:g}" if omega else "")
            )
        lines += pt2_rows(f)
        for coefficient, term in f.terms:
            lines += _about(coefficient, term)
        lines += ["", "exact conditions, sampled:", *self._outcomes()]
        if self.proofs:
            lines += ["", "local conditions, for all points of their domains:", *self.proofs]
        return "\n".join([*lines, *_text_plot(f)])

    def _outcomes(self) -> list[str]:
        """One line for each condition with an outcome, one for those that can't be tested for the same reason."""
        lines = [f"  {_MARKS[c.passed]}  {c.name}: {c.detail}" for c in self.conditions if c.passed is not None]
        open_ones = [c for c in self.conditions if c.passed is None and c.detail]
        rest = "all others" if lines else "all conditions"
        for reason in dict.fromkeys(c.detail for c in open_ones):
            names = [c.name for c in open_ones if c.detail == reason]
            shown = ", ".join(names) if len(names) < len(self.conditions) / 2 else rest
            lines.append(f"  -     not tested, as {reason}: {shown}")
        return lines or ["  none is about such terms"]

    @public
    def plot(self, path: Path, compared_with: Any = None, surface: bool = False, potential: bool = False) -> None:
        """Write the enhancement factor for r_s = 0.5, 2 and 5 as a picture; needs Matplotlib.

        compared_with: another functional (name, expression, Functional), drawn with broken lines.
        surface: a second panel, the factor over s and alpha = (tau - tau_W) / tau_unif at r_s = 2; with two functionals
            their difference.
        potential: a panel with v_xc(r) of the semilocal part for the conditions' helium-like density, and exact
            exchange.

        UnsupportedError for what has none: model potentials, double integrals alone, exact exchange. InputError
        for an unknown ending, FileError where the file cannot be written.
        """
        other = None if compared_with is None else get_functional(compared_with)
        count = 1 + surface + potential
        with picture(path, 5 * count, 3.5) as figure:
            panels = figure.subplots(1, count, squeeze=False)[0]
            self._curves(panels[0], other)
            if surface:
                _surface(figure, panels[1], self.functional, other)
            if potential:
                _potentials(panels[-1], self.functional, other)

    def _curves(self, axes, other):
        s = np.linspace(0, 5, 201)
        for colour, rs in enumerate((0.5, 2.0, 5.0)):
            axes.plot(s, enhancement_factor(self.functional, s, rs), f"C{colour}", label=f"$r_s$ = {rs:g}")
            if other is not None:
                axes.plot(s, enhancement_factor(other, s, rs), f"C{colour}--")
        what = "$t / t_{TF}$" if _is_kinetic(self.functional) else r"$e_{xc} / e_x^{LDA}$"
        part = ", semilocal part" if self.functional.exact_exchange or self.functional.is_nonlocal else ""
        title = self.functional.name if other is None else f"{self.functional.name}, broken: {other.name}"
        axes.set(xlabel="reduced gradient s", ylabel=what + part, title=title)
        low, high = axes.get_ylim()
        if high - low < _FLAT:
            axes.set_ylim(0.5 * (low + high) - _FLAT, 0.5 * (low + high) + _FLAT)
        axes.legend()


def _surface(figure, axes, functional, other, rs=2.0):
    """The factor, or the difference of two, over s and alpha."""
    s, alpha = np.meshgrid(np.linspace(0, 4, 81), np.linspace(0, 4, 81))
    factor = lambda f: enhancement_factor(f, s.ravel(), rs, alpha.ravel()).reshape(s.shape)
    values = factor(functional) if other is None else factor(functional) - factor(other)
    figure.colorbar(axes.contourf(s, alpha, values, 20), ax=axes)
    what = "factor" if other is None else f"less that of {other.name}"
    axes.set(xlabel="reduced gradient s", ylabel=r"$\alpha$", title=f"{what}, $r_s$ = {rs:g}")


def _potentials(axes, functional, other):
    """v_xc of a helium-like density, of one or two functionals, and its exact exchange potential."""
    helium = OneOrbital(2, HELIUM_Z)
    shown = (helium.r > 0.02) & (helium.r < 6)
    r = helium.r[shown]
    for f, style in ((functional, "C0"), (other, "C0--")):
        if f is not None:
            axes.plot(r, helium.potential(f.semilocal_part)[shown], style, label=f.name)
    exact = -(1 - (1 + HELIUM_Z * r) * np.exp(-2 * HELIUM_Z * r)) / r  # of two electrons in one orbital: -v_H / 2
    axes.plot(r, exact, color="0.6", lw=1, label="exact exchange")
    axes.set(xlabel="r / bohr", ylabel=r"$v_{xc}$ / hartree", ylim=(2 * exact[0], -0.3 * exact[0]))
    axes.set_title("helium-like density, semilocal part", fontsize=9)
    axes.legend()


@public
def report_card(functional: Any, **parameters: Any) -> ReportCard:
    """The report card of a functional: name, expression or Functional.

    >>> import dftfd
    >>> dftfd.report_card("pbe")["Lieb-Oxford bound"].passed
    True
    """
    functional = get_functional(functional, **parameters)
    if functional.grid_functionals:
        return ReportCard(functional, grid_functional_conditions(functional))
    return ReportCard(functional, tuple(test(Parts(functional)) for test in CONDITIONS.values()))


def enhancement_factor(functional: Functional, s, rs: float, alpha=1.0) -> np.ndarray:
    """e_xc / e_x^LDA, or t / t^TF for kinetic energies, of the semilocal part at zeta = 0 and q = 0."""
    x = gas(rs, s, alpha)
    scale, power = (C_F, 5 / 3) if _is_kinetic(functional) else (C_X, 4 / 3)
    return energy(Parts(functional).semilocal(), x) / (scale * x[0] ** power)


def _is_kinetic(functional):
    return any(term.kind == "k" for _, term in functional.terms)


def _in_libxc(functional) -> str:
    """The libxc functionals it corresponds to; exact exchange and integrals apart."""
    try:
        return " + ".join(name if c == 1 else f"{c:g} {name}" for c, name in counterpart(functional))
    except UnsupportedError:
        return "no counterpart"


def _ingredients(functional) -> str:
    """Variables at a point, and what is beyond them."""
    found: list[str] = []
    semilocal = functional.semilocal_part
    if semilocal.terms:
        found += pointwise_kernel(semilocal, 2).ingredients
    for _, grid_functional in functional.grid_functionals:
        found += sorted(grid_functional.features)
    if functional.double_integral_part.terms:
        found.append("integrals over a second point")
    if functional.exact_exchange:
        found.append("orbitals (exact exchange)")
    if functional.pt2:
        found.append("all orbitals (perturbation theory)")
    return ", ".join(found)


def _about(coefficient: float, term: EnergyTerm) -> list[str]:
    """Name, source, formula and parameters of a term."""
    kind = "" if term.has_energy else ", a model potential"
    lines = ["", f"{coefficient:+.6g} {term.name}{kind}" + (f"  https://doi.org/{term.doi}" if term.doi else "")]
    lines += [f"    {line}".rstrip() for line in (inspect.getdoc(term.formula) or "").splitlines()]
    shown = term.plain_parameters if term.is_grid_functional else term.parameters
    lines += [f"    {name} = {_short(value)}" for name, value in shown.items()]
    return lines


def _short(value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return f"{value:.12g}" if isinstance(value, float) else parameter_text(value)


def _text_plot(functional) -> list[str]:
    """The enhancement factor over s in characters, for two densities."""
    s, curves = np.linspace(0, 5, _WIDTH), {}
    try:
        for mark, rs in (("o", 0.5), ("*", 5.0)):
            curves[mark, rs] = enhancement_factor(functional, s, rs)
    except UnsupportedError:
        return []
    low, high = np.min(list(curves.values())), np.max(list(curves.values()))
    if high - low < _FLAT:
        low, high = 0.5 * (low + high) - _FLAT, 0.5 * (low + high) + _FLAT
    step = (high - low) / (_HEIGHT - 1)
    canvas = np.full((_HEIGHT, _WIDTH), " ")
    for (mark, _), F in curves.items():
        canvas[np.round((high - F) / step).astype(int), np.arange(_WIDTH)] = mark
    margins = [f"{high:8.3f} |", *["         |"] * (_HEIGHT - 2), f"{low:8.3f} |"]
    legend = ", ".join(f"{mark} r_s = {rs:g}" for mark, rs in curves)
    what = "t / t_TF" if _is_kinetic(functional) else "e_xc / e_x^LDA"
    return [
        "",
        f"enhancement factor {what} of the semilocal part over s ({legend}):",
        *((margin + "".join(row)).rstrip() for margin, row in zip(margins, canvas, strict=True)),
        "          0" + "s".center(_WIDTH - 2) + "5",
    ]
