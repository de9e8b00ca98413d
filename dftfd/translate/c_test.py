"""The test program of exported C code: values in extended precision, without automatic differentiation."""

import itertools

import numpy as np

from dftfd.autofd.scalar.on_c import number_text
from dftfd.translate.c_files import Exported, filled
from dftfd.translate.c_text import TEST
from dftfd.verify.extended import DIGITS, ExtendedEnergy, mpmath
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.variables import FAMILIES, MEMBERS, family_of

TOLERANCES = (1e-12, 1e-11, 1e-10, 1e-9, 1e-9)
"""Relative, by order of the derivative."""

SAMPLE = 6
"""Derivatives of each order above the second that are tested at a point: one takes 2^order energies."""

POINTS = {
    1: [[0.31, 0.52], [0.12, 0.011], [-0.4, 0.15], [0.24, 0.031]],
    2: [
        [0.21, 0.13, 0.04, 0.41],
        [0.09, -0.02, 0.05, 0.013, 0.007, 0.11],
        [-0.3, 0.2, 0.1, -0.5],
        [0.17, 0.12, 0.021, 0.33],
    ],
}
"""Two points: rho, sigma, lapl and tau of each, as libxc lays them out."""


def test_program(exported: Exported) -> str:
    """The text of the program."""
    rows = [row for n_spin in POINTS for row in _checks(exported, n_spin)]
    table = ",\n".join(
        f"    {{{', '.join(map(str, place))}, {value}, {tolerance}}}" for *place, value, tolerance in rows
    )
    tables = [
        f"static const double {family}_{n_spin}[] = {{{', '.join(map(number_text, values))}}};"
        for n_spin, arrays in POINTS.items()
        for family, values in zip(FAMILIES, arrays, strict=True)
    ]
    tables.append(f"\nstatic const check checks[] = {{\n{table}}};\n")
    most = max(len(c) for c in exported.components(2).values())
    text = TEST.replace("NAME", exported.name)
    slots = filled(", ".join(f"out[{k}]" for k in range(len(exported.slots))))
    for key, value in {
        "digits": DIGITS, "TABLES": "\n".join(tables), "N_SLOTS": len(exported.slots), "N_POINTS": 2, "MOST": most,
        "SLOTS": slots,
    }.items():  # fmt: skip
        text = text.replace(f"{{{key}}}", str(value))
    return text


def _checks(exported, n_spin):
    """Rows (n_spin, point, slot, stride, offset, value, tolerance)."""
    energy = ExtendedEnergy(exported.semilocal, n_spin)
    rng = np.random.default_rng(7)
    for point, x in enumerate(_variables(n_spin)):
        n = x[list(MEMBERS[n_spin]["rho"])].sum()
        components = exported.components(n_spin)
        for order in range(exported.order + 1):
            named = [(s, k, d) for s, of in components.items() for k, d in enumerate(of) if exported.slots[s] == order]
            known = [row for row in named if set(row[2]) <= set(energy.used)]
            if order > 2:
                known = [known[i] for i in sorted(rng.permutation(len(known))[:SAMPLE])]
            for slot, offset, derivative in known:
                with mpmath.workdps(DIGITS):
                    value = float(energy.derivative(x, derivative) if derivative else energy(x))
                value = value / n if slot == "zk" else value
                size = _natural_size(n, n_spin, derivative) / (n if slot == "zk" else 1)
                tolerance = TOLERANCES[order] * (abs(value) + size)
                place = n_spin, point, list(exported.slots).index(slot), len(components[slot]), offset
                yield *place, number_text(value), f"{tolerance:.2e}"


def _natural_size(n, n_spin, derivative):
    families = [family_of(k, n_spin) for k in derivative]
    return 1 / scaled_error(1.0, 0.0, n, families)


def _variables(n_spin) -> list[np.ndarray]:
    """The variables of each point, as in VARIABLES."""
    columns = [np.reshape(values, (2, -1)) for values in POINTS[n_spin]]
    return [np.array(list(itertools.chain(*(c[p] for c in columns)))) for p in range(2)]
