"""Derivatives of converged calculations against differences of converged calculations, extrapolated to no step.

Every output (energy, its components, dipole, densities at points, orbital energies, gap, elements of the density
matrix) by the numbers of the functional, all of them along one random direction, and by an electric field; of the
energy by the positions of the nuclei, too. In reverse, one output after the other, and forward, all at once.

    python examples/benchmarks/derivatives_of_scf.py [--save data/benchmarks/derivatives_of_scf.json] [NAME ...]

A deviation is |derivative - difference| / max(|difference|, 1e-2), so that what is zero counts by its size [hartree
and other atomic units per relative change of all numbers].
"""

import argparse
import json
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.autofd import compose
from dftfd.functionals.common import reduced_gradient_squared, slater_exchange, spin_scaled

SYSTEMS = {
    "H2O": ("O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692", {}),
    "NH2": ("N 0 0 0.14; H 0 0.80 -0.49; H 0 -0.80 -0.49", {"spin": 1}),
    "OH": ("O 0 0 0; H 0.02 0 0.97", {"spin": 1}),
    "Li": ("Li 0 0 0;", {"spin": 1}),
    "H2 at 1.6 angstrom": ("H 0 0 0; H 0 0 1.6", {}),
    "H2 at 3 angstrom": ("H 0 0 0; H 0 0 3.0", {}),
    "H4 nearly square": ("H 0 0 0; H 0 0 1.30; H 0 1.27 0; H 0 1.27 1.30", {}),
}
OPTIONS = {"grid_level": 0, "nlc_grid_level": 0, "conv_tol": 1e-14, "density_fit": False}
STEP = {"numbers": 8e-3, "field": 2e-3, "nuclei": 4e-3}
HELD = {"r2SCAN": ("c2", "d")}
"""Parameters that stay: with others the switching function of r2SCAN jumps at alpha = 2.5, and so would energies."""

HALVINGS = 4

POINTS = np.array([[0.3, 0.4, 0.5], [0.0, -1.0, 0.7], [1.5, 0.2, -0.3]])


def network():
    """An exchange energy with a small network in its enhancement factor, of plain arrays."""
    keys = jax.random.split(jax.random.key(1), 2)
    W = {"a": jax.random.normal(keys[0], (6,)), "b": jnp.linspace(-1, 1, 6), "c": jax.random.normal(keys[1], (6,))}

    def enhancement(W, s2):
        u = s2 / (1 + s2)
        return 1 + 0.804 * u * jax.nn.sigmoid(jnp.dot(W["c"], jax.nn.silu(W["a"] * u + W["b"])))

    @dftfd.functional("gga_x_of_a_small_network")
    @spin_scaled
    def exchange(n, *, W=W):
        return slater_exchange(n) * compose(partial(enhancement, W), reduced_gradient_squared(n))

    return exchange + dftfd.get_functional("gga_c_pbe")


FUNCTIONALS = {
    "PBE": lambda: dftfd.get_functional("pbe"),
    "r2SCAN": lambda: dftfd.get_functional("r2scan"),
    "B3LYP": lambda: dftfd.get_functional("b3lyp"),
    "omegaB97M-V": lambda: dftfd.get_functional("wb97m-v"),
    "r2SCAN-L": lambda: dftfd.get_functional("r2scan_l"),
    "network": network,
}


def outputs(found, weights):
    """All outputs of a result, those with many numbers as one random combination."""
    return {
        "energy": found.energy,
        **{f"energy, {name}": value for name, value in found.energies.items() if name != "nuclear"},
        "density matrix": jnp.sum(weights[: found.density_matrix.size] * found.density_matrix.ravel()),
        "orbital energies": jnp.sum(weights[: found.mo_energy.size] * found.mo_energy.ravel()),
        "gap": found.gap,
        "dipole": found.dipole @ weights[:3],
        "density at points": jnp.sum(found.density(POINTS) * weights[:3]),
    }


def refined(f, h):
    """{name: (derivative at 0, what it is uncertain by)} of a dictionary of numbers.

    Central differences at h, h/2, h/4, h/8, extrapolated to no step (C. J. F. Ridders, Adv. Eng. Softw. 4, 75 (1982).
    doi:10.1016/S0141-1195(82)80057-0): the entry of the table that differs least from its neighbours.
    """
    rows = []
    for k in range(HALVINGS):
        step = h / 2**k
        plus, minus = f(step), f(-step)
        rows.append({name: float(plus[name] - minus[name]) / (2 * step) for name in plus})
    return {name: _extrapolated([row[name] for row in rows]) for name in rows[0]}


def _extrapolated(differences):
    """(value, difference to its neighbours) of central differences whose step is halved each time."""
    table, best = [differences], (differences[0], np.inf)
    for order in range(1, len(differences)):
        before = table[-1]
        table.append([b + (b - a) / (4**order - 1) for a, b in zip(before, before[1:], strict=False)])
        for k, value in enumerate(table[-1]):
            off = max(abs(value - before[k]), abs(value - before[k + 1]))
            best = min(best, (value, off), key=lambda found: found[1])
    return best


def compared(f, h):
    """{output: deviation} of reverse and of forward derivatives from differences."""
    values, pull = jax.vjp(f, 0.0)
    reverse = {}
    for name in values:
        (reverse[name],) = pull({other: jnp.asarray(float(other == name)) for other in values})
    forward = jax.jvp(f, (0.0,), (1.0,))[1]
    expected = refined(f, h)
    scale = lambda name: max(abs(expected[name][0]), 1e-2)
    deviation = lambda found, name: abs(float(found[name]) - expected[name][0]) / scale(name)
    return {
        name: {
            "difference": expected[name][0],
            "uncertainty": expected[name][1] / scale(name),
            "reverse": deviation(reverse, name),
            "forward": deviation(forward, name),
        }
        for name in expected
    }


def polished(scf, functional, P=None, **given):
    """A density matrix better than convergence asks for, as differences need it: found again from itself."""
    for _ in range(4):
        P = np.asarray(scf(functional, guess=P, **given).density_matrix)
    return P


def case(name, system):
    """All deviations of one functional and molecule, and the processor time of derivatives."""
    geometry, options = SYSTEMS[system]
    molecule = dftfd.molecule(geometry, basis="6-31g", **options)
    leaves, tree = jax.tree_util.tree_flatten(FUNCTIONALS[name]())
    random = np.random.default_rng(20)
    directions = [random.uniform(-1, 1, np.shape(leaf)) for leaf in leaves]
    held = [FUNCTIONALS[name]().parameters[parameter] for parameter in HELD.get(name, ())]
    directions = [d * (leaf not in held) if held else d for leaf, d in zip(leaves, directions, strict=True)]
    weights = random.normal(size=4 * molecule.n_ao**2)
    scf = dftfd.differentiable_scf(molecule, **OPTIONS)

    def along(t):
        return tree.unflatten([leaf * (1 + t * d) for leaf, d in zip(leaves, directions, strict=True)])

    plain = tree.unflatten(leaves)
    P0 = polished(scf, plain)

    def at(t, functional, **given):
        """The solution; where t is a number, from a density of its own."""
        known = not isinstance(t, float) or t == 0.0
        return scf(functional, guess=P0 if known else polished(scf, functional, P0, **given), **given)

    u = jnp.array([0.3, -0.5, 0.8])
    R, shift = jnp.asarray(molecule.coordinates), jnp.asarray(random.normal(size=molecule.coordinates.shape))
    by_numbers = lambda t: outputs(at(t, along(t)), weights)
    by_field = lambda t: outputs(at(t, plain, electric_field=t * u), weights)
    found = {"numbers": compared(by_numbers, STEP["numbers"]), "field": compared(by_field, STEP["field"])}
    by_nuclei = lambda t: {"energy": at(t, plain, coordinates=R + t * shift).energy}
    expected, uncertain = refined(by_nuclei, STEP["nuclei"])["energy"]
    slope = float(jax.grad(lambda t: by_nuclei(t)["energy"])(0.0))
    deviation = abs(slope - expected) / max(abs(expected), 1e-2)
    found["nuclei"] = {"energy": {"difference": expected, "uncertainty": uncertain, "reverse": deviation}}
    return found


def worst(rows):
    """(deviation, output) of the largest."""
    return max((max(row.get("reverse", 0), row.get("forward", 0)), name) for name, row in rows.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(FUNCTIONALS)}")
    parser.add_argument("--save")
    parser.add_argument("--field-step", type=float, default=STEP["field"], help="the largest of differences by a field")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="between commas")
    arguments = parser.parse_args()
    STEP["field"] = arguments.field_step
    table = {}
    for name in arguments.names or FUNCTIONALS:
        for system in arguments.systems.split(","):
            start = time.process_time()
            try:
                found = case(name, system)
            except dftfd.DftfdError as error:
                found = {"refused": str(error)}
                print(f"{name:12s} {system:20s} {error}", flush=True)
            else:
                words = ", ".join(f"by {what} {worst(rows)[0]:.1e} ({worst(rows)[1]})" for what, rows in found.items())
                print(f"{name:12s} {system:20s} {words}; {time.process_time() - start:.0f} s", flush=True)
            table.setdefault(name, {})[system] = found
            if arguments.save:
                with open(arguments.save, "w") as file:
                    json.dump({"options": OPTIONS, "steps": STEP, "basis": "6-31G", "cases": table}, file, indent=1)


if __name__ == "__main__":
    main()
