"""Becke's 1997 form fitted to atomisation and barrier energies, with exact conditions as penalties.

    e_xc = sum_s [e_x(rho_s) g_x + e_c(rho_s, 0) g_ss] + e_c^ab g_ab,   g = c_0 + c_1 u + c_2 u^2,   0 <= u < 1

(A. D. Becke, J. Chem. Phys. 107, 8554 (1997). doi:10.1063/1.475007.) The energy is linear in the nine coefficients at a
fixed density, and a gradient-corrected density is nearly as good as any other, so that energies at PBE's densities take
one SCF a molecule and then none. Data are atomisation energies of small molecules and barriers; other molecules are
held out, and computed self-consistently at the end. Penalties ask for the uniform gas (c_0 = 1), for exchange within
the Lieb-Oxford bound (0 < g_x < 1.804) and for correlation that is not positive (g_ss, g_ab >= 0). A record makes an
interrupted fit go on; it ends at the same parameters.

    python examples/08_refit_of_b97.py [--quick] [--record FILE.h5] [--save rows.json]
"""

import argparse
import json
import time

import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import BenchmarkSet

OPTIONS = {"basis": "def2-svp", "grid_level": 1, "conv_tol": 1e-8}
NAMES = ["c_x", "c_ss", "c_ab"]
START = {"c_x": (1.0, 0.4, 0.3), "c_ss": (1.0, -0.5, 0.0), "c_ab": (1.0, 0.5, -1.0)}
U = np.linspace(0.0, 1.0, 21)
LIEB_OXFORD, MARGIN = 1.804, 0.02
"""The bound, and how far inside of it penalties begin, since a penalty gives way a little."""

UNIFORM, BOUNDS = 3000.0, 60.0
"""kcal/mol that a violation by one counts."""

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


def enhancements(f):
    """g_x, g_ss, g_ab at U."""
    return tuple(power_series(jnp.stack(list(f.parameters[name]))) for name in NAMES)


def conditions(f):
    """What is missing to exact conditions, as residuals [kcal/mol]."""
    g_x, g_ss, g_ab = enhancements(f)
    outside = [g_x - LIEB_OXFORD, -g_x, -g_ss, -g_ab]
    uniform = jnp.stack([g[0] - 1.0 for g in (g_x, g_ss, g_ab)])
    return jnp.concatenate([BOUNDS * jnp.maximum(v + MARGIN, 0.0) for v in outside] + [UNIFORM * uniform])


def violations(f):
    """(largest violation of a bound, largest deviation from the uniform gas)."""
    g_x, g_ss, g_ab = map(np.asarray, enhancements(f))
    outside = max(g_x.max() - LIEB_OXFORD, -g_x.min(), -g_ss.min(), -g_ab.min(), 0.0)
    return float(outside), float(max(abs(g[0] - 1.0) for g in (g_x, g_ss, g_ab)))


def fitted(quick=False, record=None, on_step=print):
    """The fit."""
    training, held_out = parts(quick)
    start = dftfd.get_functional("gga_xc_b97_d").with_parameters(**START)
    options = OPTIONS | ({"basis": "6-31g", "grid_level": 0} if quick else {})
    prior = dict.fromkeys(NAMES, 3.0)
    found = dftfd.fit(
        start,
        training,
        parameters=NAMES,
        terms=[conditions],
        prior=prior,
        fixed_densities="pbe",
        record=record,
        evaluations=40,
        on_step=on_step,
        **options,
    )
    return found, training, held_out, options


def self_consistent_errors(functional, held_out: BenchmarkSet, options):
    """Errors [kcal/mol] of the held-out set by SCFs of a functional."""
    given = {name: value for name, value in options.items() if name != "basis"}
    verdict = dftfd.benchmark(held_out, functional, basis=options["basis"], **given)
    (name,) = verdict.functionals
    return {reaction.name: error for reaction, error in verdict.known(name)}


def main(quick=False, record=None, save=None):
    start = time.process_time()
    found, training, held_out, options = fitted(quick, record)
    print(found)
    violation, seconds = violations(found.functional), time.process_time() - start
    print(f"bounds are violated by {violation[0]:.1e}, the uniform gas by {violation[1]:.1e}; {seconds:.0f} s")
    functionals = {"pbe": "pbe", "fit": found.functional}
    errors = {name: self_consistent_errors(f, held_out, options) for name, f in functionals.items()}
    mean = {name: float(np.mean(np.abs(list(of.values())))) for name, of in errors.items()}
    print(f"{len(held_out.reactions)} held out: PBE {mean['pbe']:.2f}, the fit {mean['fit']:.2f} kcal/mol")
    if save is not None:
        row = {"options": options, "names": found.names, "parameters": found.parameters.tolist()}
        row |= {"violation": violation, "uncertainties": found.uncertainties.tolist()}
        row |= {"training": [r.name for r in training.reactions], "training_errors": found.errors.tolist()}
        row |= {"held_out": errors, "mean_absolute_errors": mean, "processor_seconds": seconds}
        with open(save, "w") as stream:
            json.dump(row, stream, indent=1)
            stream.write("\n")
    return found, mean, violation


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record")
    parser.add_argument("--save")
    main(**vars(parser.parse_args()))
