"""Becke's 1997 form fitted to atomisation and barrier energies, with exact conditions as penalties.

    e_xc = sum_s [e_x(rho_s) g_x + e_c(rho_s, 0) g_ss] + e_c^ab g_ab,   g = c_0 + c_1 u + c_2 u^2,   0 <= u < 1

(A. D. Becke, J. Chem. Phys. 107, 8554 (1997). doi:10.1063/1.475007.) The energy is linear in the nine coefficients at a
fixed density, and a gradient-corrected density is nearly as good as any other, so that energies at PBE's densities take
one SCF a molecule and then none: the fit is minutes, of which the SCFs are most. Data are atomisation energies of small
molecules and barriers; others are held out and never seen. Penalties ask for the uniform gas (c_0 = 1), for
exchange within the Lieb-Oxford bound (0 < g_x < 1.804) and correlation that is not positive (g_ss, g_ab >= 0).
A record makes an interrupted fit go on; it ends at the same parameters.

    python examples/08_refit_of_b97.py [--quick] [--record FILE.h5] [--save rows.json]
"""

import argparse
import time

import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import BenchmarkSet

OPTIONS = {"basis": "def2-tzvp", "grid_level": 2, "conv_tol": 1e-8}
NAMES = ["c_x", "c_ss", "c_ab"]
START = {"c_x": (1.0, 0.5, 0.5), "c_ss": (1.0, -0.5, 0.0), "c_ab": (1.0, 0.5, -1.0)}
U = np.linspace(0.0, 1.0, 21)
LIEB_OXFORD = 1.804
STRENGTH = 30.0  # kcal/mol that a violation by one counts
HEAVIEST = {"H", "B", "C", "N", "O", "F"}


def elements(species):
    """Symbols of a molecule's atoms."""
    return [line.split()[0] for line in species.atoms.replace("\n", ";").split(";") if line.split()]


def is_small(reaction, species, most):
    """Whether all molecules have so many atoms beside hydrogen at most, of the first rows."""
    atoms = [elements(species[name]) for name, _ in reaction.stoichiometry]
    return all(set(of) <= HEAVIEST and sum(a != "H" for a in of) <= most for of in atoms)


def chosen(name, most):
    """A shipped set without large molecules."""
    whole = read_set(name)
    return whole.of(reaction for reaction in whole.reactions if is_small(reaction, whole.species, most))


def joined(*sets):
    """One set of the reactions of several."""
    species = {name: one for found in sets for name, one in found.species.items()}
    return BenchmarkSet("training", species, tuple(r for found in sets for r in found.reactions))


def parts(quick=False):
    """(training, held out): every second atomisation energy in the order that a seed gives, and all barriers."""
    energies, barriers = chosen("w4-17", 1 if quick else 2), chosen("dbh22", 2)
    order = np.random.default_rng(1997).permutation(len(energies.reactions))
    pick = lambda numbers: energies.of(energies.reactions[k] for k in sorted(numbers))
    if quick:
        return pick(order[:3]), pick(order[3:5])
    half = len(order) // 2
    return joined(pick(order[:half]), barriers), pick(order[half:])


def power_series(c):
    """g at the points U."""
    return sum(c_i * U**i for i, c_i in enumerate(jnp.asarray(c)))


def conditions(f):
    """What is missing to exact conditions, as residuals [kcal/mol]."""
    g_x, g_ss, g_ab = (power_series(jnp.stack(list(f.parameters[name]))) for name in NAMES)
    bounds = [
        jnp.maximum(g_x - LIEB_OXFORD, 0.0),
        jnp.maximum(-g_x, 0.0),
        jnp.maximum(-g_ss, 0.0),
        jnp.maximum(-g_ab, 0.0),
    ]
    uniform = jnp.stack([g_x[0] - 1.0, g_ss[0] - 1.0, g_ab[0] - 1.0])
    return STRENGTH * jnp.concatenate([*bounds, 10.0 * uniform])


def fitted(quick=False, record=None, on_step=print):
    """The fit."""
    training, held_out = parts(quick)
    start = dftfd.get_functional("gga_xc_hcth_93").with_parameters(**START)
    options = OPTIONS | ({"basis": "6-31g", "grid_level": 0} if quick else {})
    prior = dict.fromkeys(NAMES, 3.0)
    found = dftfd.fit(
        start,
        training,
        parameters=NAMES,
        validation=held_out,
        terms=[conditions],
        prior=prior,
        fixed_densities="pbe",
        record=record,
        patience=20,
        on_step=on_step,
        **options,
    )
    return found, training, held_out, options


def self_consistent_errors(functional, held_out: BenchmarkSet, options):
    """Errors [kcal/mol] of the held-out set by SCFs of a functional."""
    given = {name: value for name, value in options.items() if name != "basis"}
    found = dftfd.benchmark(held_out, functional, basis=options["basis"], **given)
    return {row.reaction.name: row.error for row in found.rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record")
    parser.add_argument("--save")
    arguments = parser.parse_args()
    start = time.process_time()
    found, training, held_out, options = fitted(arguments.quick, arguments.record)
    print(found)
    print("violations:", float(np.abs(conditions(found.functional)).max() / STRENGTH))
    print(
        f"{len(training.reactions)} reactions, {len(held_out.reactions)} held out; {time.process_time() - start:.0f} s"
    )
    return found


if __name__ == "__main__":
    main()
