"""A found functional as a file of Python code, which `FILE.py:NAME` names wherever a functional is wanted."""

import itertools
from collections.abc import Sequence

from dftfd.discovery import expressions
from dftfd.discovery.expressions import Tree
from dftfd.discovery.forms import Candidate, Form

_ENERGY = {
    "factor": ["return n * (eps * (1 + {hole}))"],
    "pbe": [
        "bt2, phi3 = BETA / GAMMA * t2, phi * phi * phi",
        "return n * (eps + GAMMA * phi3 * log1p(bt2 * (1 + {hole})))",
    ],
}


def file_text(form: Form, candidate: Candidate, name: str, notes: Sequence[str] = ()) -> str:
    """The file's content.   name: of the functional in it.   notes: lines for its docstring."""
    trees = {part: candidate.x if part == "x" else candidate.c for part in form.parts}
    code, terms = [], []
    for part, whole in (("x", form.exchange), ("c", form.correlation)):
        if part in trees:
            code += [*(_exchange(trees[part], name) if part == "x" else _correlation(form, trees[part], name)), ""]
            terms.append("exchange" if part == "x" else "correlation")
        elif whole:
            terms.append(f"get_functional({whole!r})")
    used = "\n".join(code)
    lines = [f'"""{name}, found by dftfd discover.', ""]
    lines += [f"    {line}" for line in equations(form, candidate)]
    lines += ["", *notes, '"""', "", *_imports(used, terms), ""]
    if "u(" in used.replace("tau(", ""):
        lines += ["", "def u(x):", '    """x / (1 + x)"""', "    return x / (1 + x)", ""]
    lines += ["", *code, f"{name} = register(({' + '.join(terms)}).named({name!r}))"]
    return "\n".join(lines) + "\n"


def equations(form: Form, candidate: Candidate) -> list[str]:
    """The formulas in words of Python, with six digits."""
    short = lambda tree: "" if tree is None else f" + {_short(tree)}"
    found = [f"e_x = e_x^LDA (1{short(candidate.x)})"] if "x" in form.parts else []
    if "c" in form.parts:
        hole = f"(1{short(candidate.c)})"
        gradient = f"gamma phi^3 ln(1 + beta/gamma t^2 {hole})"
        found.append(
            f"e_c = n eps_c^PW92 {hole}" if form.correlation == "factor" else f"e_c = n [eps_c^PW92 + {gradient}]"
        )
    return found


def latex_text(form: Form, candidate: Candidate) -> str:
    """The formulas in LaTeX, a line each."""
    plus = lambda tree: "" if tree is None else f" + {expressions.latex(tree)}".replace("+ -", "- ")
    found = []
    if "x" in form.parts:
        found.append(rf"e_x = e_x^{{\mathrm{{LDA}}}}\left[1{plus(candidate.x)}\right]")
    if "c" in form.parts:
        hole = rf"\left[1{plus(candidate.c)}\right]"
        eps = r"\varepsilon_c^{\mathrm{PW92}}"
        gradient = rf"\gamma\phi^3\ln\left(1 + \tfrac{{\beta}}{{\gamma}} t^2 {hole}\right)"
        found.append(
            rf"e_c = n\, {eps} {hole}" if form.correlation == "factor" else rf"e_c = n \left[{eps} + {gradient}\right]"
        )
    return "\n".join(found)


def _short(tree):
    return expressions.python(
        expressions.with_parameters(tree, [float(f"{p:.6g}") for p in expressions.parameters(tree)])
    )


def _named(tree):
    """(formula, its keyword parameters as text)."""
    if tree is None:
        return "0.0", ""
    letters = {"c": itertools.count(1), "p": itertools.count(1)}
    names = [f"{'a' if sign == 'c' else 'b'}{next(letters[sign])}" for sign in expressions.signs(tree)]
    given = ", ".join(f"{n}={v!r}" for n, v in zip(names, expressions.parameters(tree), strict=True))
    return expressions.python(tree, iter(names)), f", *, {given}" if given else ""


def _names(tree: Tree | None) -> set[str]:
    return set() if tree is None else {node[1] for node in expressions.nodes(tree) if node[0] == "v"}


def _kinetic(names, density, tau, unit):
    if not names & {"alpha", "d", "w"}:
        return []
    lines = [f"    tau_W, tau_unif = weizsaecker_kinetic_energy({density}), {unit}"]
    if names & {"alpha", "d"}:
        lines.append(f"    alpha = at_least(({tau} - tau_W) / tau_unif, 0.0)")
    lines += ["    d = (1 - alpha) / (1 + alpha)"] * ("d" in names)
    lines += [f"    w = (tau_unif - {tau}) / (tau_unif + {tau})"] * ("w" in names)
    return lines


def _exchange(tree, name):
    names, (formula, given) = _names(tree), _named(tree)
    takes = "n, tau" if names & {"alpha", "d", "w"} else "n"
    kind = "mgga" if "tau" in takes else "gga"
    lines = [f'@functional("{kind}_x_{name}")', "@spin_scaled", f"def exchange({takes}{given}):"]
    lines += ["    s2 = reduced_gradient_squared(n)"] * ("s2" in names)
    lines += _kinetic(names, "n", "tau", "uniform_kinetic_energy(n)")
    return [*lines, f"    return slater_exchange(n) * (1 + {formula})", ""]


def _correlation(form, tree, name):
    names, (formula, given) = _names(tree), _named(tree)
    takes = "rho, tau" if names & {"alpha", "d", "w"} else "rho"
    kind = "mgga" if "tau" in takes else "gga"
    lines = [f'@functional("{kind}_c_{name}")', f"def correlation({takes}{given}):"]
    lines += ["    n, eps = total_density(rho), pw92.correlation_energy(rho)"]
    if form.correlation == "pbe" or names & {"t2", "y"}:
        lines += ["    phi = spin_scaling_factor(rho)", "    t2 = correlation_gradient_squared(n, phi)"]
    lines += ["    s2 = reduced_gradient_squared(n)"] * ("s2" in names)
    lines += ["    rs = wigner_seitz_radius(n)"] * ("rs" in names)
    lines += ["    z2 = polarisation(rho) ** 2"] * ("z2" in names)
    if takes == "rho, tau":
        lines += ["    up, down = spin_powers(rho, 5 / 3)"]
        lines += _kinetic(names, "n", "(tau[0] + tau[1])", "uniform_kinetic_energy(n) * (0.5 * (up + down))")
    energy = [f"    {line.format(hole=formula)}" for line in _ENERGY[form.correlation]]
    if "y" in names:
        lines += ["    y = BETA / GAMMA * t2 / expm1(-eps / (GAMMA * (phi * phi * phi)))"]
    return [*lines, *energy, ""]


_SOURCES = {
    "dftfd.autofd": ("exp", "expm1", "log1p", "sqrt"),
    "dftfd.functionals": ("pw92",),
    "dftfd.functionals.common": (
        "polarisation",
        "reduced_gradient_squared",
        "slater_exchange",
        "spin_powers",
        "spin_scaled",
        "spin_scaling_factor",
        "total_density",
        "uniform_kinetic_energy",
        "weizsaecker_kinetic_energy",
        "wigner_seitz_radius",
    ),
    "dftfd.functionals.numerics": ("at_least", "x_asinh_x"),
    "dftfd.functionals.pbe": ("BETA", "GAMMA", "correlation_gradient_squared"),
}


def _imports(code, terms):
    """Lines that import what the code names."""
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in code).split())
    lines = ["from dftfd import functional, register"]
    if any(t.startswith("get_") for t in terms):
        lines = ["from dftfd import functional, get_functional, register"]
    for module, names in _SOURCES.items():
        if used := [name for name in names if name in words]:
            lines.append(f"from {module} import {', '.join(used)}")
    return lines
