"""Derivatives of the energy by every number in a hybrid, beside differences of whole self-consistent calculations.

    python -m tests.verification.parameter_derivatives [NAME ...]

Coefficients, parameters, fractions of exact exchange and its range omega are moved, one after the other, by one and two
steps of STEP of themselves (of 0.1, where they are zero), and the SCF is converged anew at each point. Beside the
differences stand jax.grad of differentiable_scf's energy, and parameter_gradient() where it has the number. Rows are
kept in data/reliability/parameter_derivatives.json.

HSE06 and LC-omegaPBE are taken with s_from=0: with libxc's s_from=1 their formula jumps, energies with it, and
differences of those are off by 1e-6 hartree. With VV10 steps are SHORT: points whose density crosses 1e-8 make its
energy jump, and differences by omega of omegaB97X-V are off by 5e-7, 2e-7, 3e-8, 4e-10 hartree for steps of 0.012,
0.006, 0.0015, 0.0004.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.errors import UnsupportedError
from dftfd.functionals.pytree import owners, put_together, taken_apart

RECORD = Path(__file__).parents[2] / "data" / "reliability" / "parameter_derivatives.json"
ATOMS, BASIS = "Li 0 0 0; H 0 0 1.6", "6-31g"
OPTIONS = {"grid_level": 1, "nlc_grid_level": 0, "conv_tol": 1e-13, "density_fit": False}
STEP, SHORT = 5e-3, 5e-4
NOISE = 2e-13
"""Error of a converged energy [hartree], which the step divides."""

SMOOTH = {"s_from": 0.0}
"""Parameters that are not moved but set: where a formula jumps."""


def hybrids() -> list[str]:
    """One name of each functional of the library with exact exchange, but double hybrids and what has no number."""
    found: dict[str, str] = {}
    for name in dftfd.list_functionals():
        functional = dftfd.get_functional(name)
        if functional.terms and functional.exact_exchange and not functional.pt2:
            key = json.dumps(functional.definition, sort_keys=True)
            found[key] = min(found.get(key, name), name, key=len)
    return sorted(found.values())


def varying(functional):
    """The functional with all its real numbers as arrays."""
    omegas = [omega for omega, _ in functional.exact_exchange if omega]
    if omegas:
        functional = functional.with_parameters(omega=jnp.asarray(omegas[0]))
    return jax.tree_util.tree_map(jnp.asarray, functional)


def rows_of(name: str) -> list[dict]:
    """A row for each number of a functional."""
    functional = dftfd.get_functional(name)
    functional = functional.with_parameters(**{k: v for k, v in SMOOTH.items() if k in functional.parameters})
    molecule = dftfd.molecule(ATOMS, basis=BASIS)
    scf = dftfd.differentiable_scf(molecule, functional, **OPTIONS)
    made = varying(functional)
    structure, values = taken_apart(made)
    start = np.asarray(scf(made).density_matrix)

    def energy(*values):
        return scf(put_together(structure, values), guess=start).energy

    slopes = jax.grad(energy, argnums=tuple(range(len(values))))(*values)
    try:
        known = dftfd.run_scf(molecule, functional, **OPTIONS).parameter_gradient()
    except UnsupportedError:
        known = {}
    rows, seen = [], {}
    for k, (place, key) in enumerate(owners(made)):
        term = "exact exchange" if place is None else made.terms[place][1].name
        number = seen[place, key] = seen.get((place, key), -1) + 1
        if key in SMOOTH:
            continue
        of_term = np.ravel(jax.tree_util.tree_leaves(known.get(term, {}).get(key, [])))
        value = float(values[k])
        step = (SHORT if functional.is_nonlocal else STEP) * (abs(value) or 0.1)
        step = min(step, 1e-3 / max(abs(float(slopes[k])), 1e-10))  # M06-2X: 5e3 hartree a unit of d_3 = 0
        at = lambda d, k=k: float(energy(*(v + d if k == j else v for j, v in enumerate(values))))
        differences = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
        rows.append(
            {
                "functional": name,
                "term": term,
                "number": f"{key}[{number}]" if key else "coefficient",
                "value": value,
                "differences": differences,
                "differentiable_scf": float(slopes[k]),
                "parameter_gradient": float(of_term[number]) if key and number < len(of_term) else None,
                "noise": NOISE / step,
            }
        )
    return rows


def error_of(row: dict) -> float:
    """Largest deviation of a derivative from the differences, as a part of them, less their noise."""
    found = [row[key] for key in ("differentiable_scf", "parameter_gradient") if row[key] is not None]
    worst = max(abs(x - row["differences"]) for x in found)
    return max(0.0, worst - row["noise"]) / max(abs(row["differences"]), 1e-30)


def main(names) -> None:
    for name in names or hybrids():
        rows = rows_of(name)
        worst = max(rows, key=error_of)
        which = f"{worst['term']} {worst['number']}"
        print(f"{name}: {len(rows)} numbers, worst {error_of(worst):.1e} ({which})", flush=True)
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        RECORD.write_text(json.dumps(dict(sorted({**record, name: rows}.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
