"""A small network as a meta-GGA, trained through the SCF: on energies alone, and on their derivatives, too.

    e_xc = e_x^PBE (1 + N_x(u, w)) + e_c^PBE (1 + N_c(u, w))
    u = s^2 / (1 + s^2),   w = (tau - tau_unif) / (tau + tau_unif),   N = 0 in the uniform gas

What is learned is B3LYP in def2-SVP, a functional that is not semilocal, so that references are exact in the same
basis: total energies of atoms and small molecules, and, as losses on derivatives, the slopes of B3LYP's energy along
turns of the orbitals (its Fock matrix between filled and empty orbitals) at two densities of each training molecule,
B3LYP's own and Hartree-Fock's, along a few random turns of each. These take no SCF. Distillation of a hybrid, and
slopes on the manifold of density matrices: E. S. Eberhard et al., arXiv:2606.04279 (2026).

Both fits begin with the same networks, PBE but for small random numbers (the seed), and minimise with the same prior;
what is best on the validation molecules is kept, and other molecules are held out of everything.

    python examples/12_network_from_derivatives.py [--quick] [--seeds 3] [--records FOLDER] [--save FILE] [--plot FILE]
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd.autofd import compose
from dftfd.benchmarks import read_set
from dftfd.benchmarks.reactions import BenchmarkSet, Reaction
from dftfd.functionals import pbe
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    total_density,
    uniform_kinetic_energy,
)
from dftfd.libcint.mole import HARTREE_IN_KCAL
from dftfd.runtime.files import picture
from dftfd.xc.density import evaluate_at

TEACHER, BASIS = "b3lyp", "def2-svp"
OPTIONS = {"grid_level": 1, "conv_tol": 1e-8}
ATOMS = ("h", "c", "n", "o", "f")
TRAINING = (*ATOMS, "h2", "ch4", "nh3", "h2o", "hf", "co")
VALIDATION = ("n2", "ch3", "oh", "f2")
HELD_OUT = (
    "ch",
    "ch2-trip",
    "nh",
    "nh2",
    "c2h2",
    "c2h4",
    "hcn",
    "hnc",
    "h2co",
    "hof",
    "hno",
    "hooh",
    "n2h4",
    "ch3f",
    "o2",
)
QUICK = {"training": ("h", "h2"), "validation": ("h2",), "held out": ("oh",)}
WIDTH, DEVIATION = 5, 1.0
"""Hidden functions of each network, and the prior's standard deviation of each of its numbers."""

SLOPE, TURNS = 1e-2, 8
"""Hartree of a slope that counts as a kcal/mol does, about what a semilocal form has to leave of them, and random turns
of the orbitals of a density."""


def bounded(n, tau):
    """(u, w) of a density, unpolarised."""
    s2, unit = reduced_gradient_squared(n), uniform_kinetic_energy(n)
    return s2 / (1 + s2), (tau - unit) / (tau + unit)


def network(W, u, w):
    """A number that vanishes at u = w = 0."""
    hidden = jnp.tanh(W["a"] * u + W["b"] * w + W["d"]) - jnp.tanh(W["d"])
    return jnp.dot(W["c"], hidden)


def numbers(seed, width=WIDTH):
    """The numbers of a network before it has learned."""
    random = np.random.default_rng(seed)
    sizes = {"a": 1.0, "b": 1.0, "c": 0.01, "d": 1.0}
    return {name: jnp.asarray(size * random.normal(size=width)) for name, size in sizes.items()}


((_, PBE_CORRELATION),) = pbe.correlation.terms


@dftfd.functional("mgga_x_student")
@spin_scaled
def exchange(n, tau, *, W_x=numbers(0)):  # noqa: B008
    """PBE's exchange times 1 + N_x."""
    s2 = reduced_gradient_squared(n)
    return slater_exchange(n) * (pbe.enhancement(s2) * (1 + compose(partial(network, W_x), *bounded(n, tau))))


@dftfd.functional("mgga_c_student")
def correlation(rho, tau, *, W_c=numbers(1)):  # noqa: B008
    """PBE's correlation times 1 + N_c."""
    variables = bounded(total_density(rho), total_density(tau))
    return PBE_CORRELATION.formula(rho) * (1 + compose(partial(network, W_c), *variables))


def student(seed):
    """The functional before it has learned."""
    return (exchange + correlation).with_parameters(W_x=numbers(2 * seed), W_c=numbers(2 * seed + 1))


# ------------------------------------------------------------------------------------------------- what is learned from


class Teacher:
    """B3LYP's results for atoms and molecules of W4-17's geometries."""

    def __init__(self, names):
        everything = read_set("w4-17").species
        lower = {name.lower(): one for name, one in everything.items()}
        self.species = {name: lower[name] for name in names}
        self.molecules = {
            name: dftfd.molecule(one.atoms, basis=BASIS, charge=one.charge, spin=one.spin)
            for name, one in self.species.items()
        }
        run = lambda name, xc: dftfd.run_scf(self.molecules[name], xc, **OPTIONS)
        self.results = {name: run(name, TEACHER) for name in names}
        self._other = partial(run, xc="hf")

    def energies(self, names):
        """A set of total energies [kcal/mol]."""
        reactions = [
            Reaction(name, "total", ((name, 1.0),), HARTREE_IN_KCAL * self.results[name].energy) for name in names
        ]
        return BenchmarkSet("totals", {name: self.species[name] for name in names}, tuple(reactions))

    def slopes(self, names):
        """Terms of the slopes of the teacher's energy, weighted as SLOPE says."""
        random = np.random.default_rng(12)
        return [
            dftfd.losses.scaled(along(dftfd.losses.orbital_gradient(scf, P, F), random), SLOPE)
            for name in names
            for scf, P, F in self._slopes_of(name)
        ]

    def _slopes_of(self, name):
        """(SCF, P, Fock matrices of the teacher at P) of two densities."""
        scf = dftfd.differentiable_scf(self.molecules[name], **OPTIONS)
        for P in (self.results[name].density_matrix, self._other(name).density_matrix):
            yield scf, P, np.asarray(scf.fock(TEACHER, P))


def along(term, random):
    """The slopes along a few random turns in the place of all of them, of the same sum of squares on average."""
    seed, turns = int(random.integers(2**31)), []

    def residuals(f):
        slopes = term(f)
        if not turns:
            turns.append(np.random.default_rng(seed).normal(size=(TURNS, len(slopes))) / np.sqrt(TURNS))
        return turns[0] @ slopes

    return residuals


# --------------------------------------------------------------------------------------------------------------- fits


def fitted(teacher, parts, seed, with_slopes, record=None, evaluations=14):
    """The fit of one seed; with the same start for both losses."""
    return dftfd.fit(
        student(seed),
        teacher.energies(parts["training"]),
        parameters=["W_x", "W_c"],
        validation=teacher.energies(parts["validation"]),
        terms=teacher.slopes(parts["training"]) if with_slopes else (),
        prior={"W_x": DEVIATION, "W_c": DEVIATION},
        basis=BASIS,
        evaluations=evaluations,
        patience=4,
        record=record,
        on_step=lambda step: print(f"{step.number:3d} {step.loss:10.3f} {step.training} {step.validation}", flush=True),
        **OPTIONS,
    )


def held_out_errors(teacher, functional, names):
    """Self-consistent errors of one functional: total and atomisation energies [kcal/mol], dipoles and densities.

    The density's is int |n - n_teacher| d^3r for each electron.
    """
    rows = {}
    of_atoms = {name: _error(teacher, functional, name)[0] for name in ATOMS}
    for name in names:
        total, dipole, density = _error(teacher, functional, name)
        atoms = [symbol.lower() for symbol in teacher.molecules[name].symbols]
        atomisation = sum(of_atoms[atom] for atom in atoms) - total
        rows[name] = {"total": total, "atomisation": atomisation, "dipole": dipole, "density": density}
    return rows


def _error(teacher, functional, name):
    molecule, expected = teacher.molecules[name], teacher.results[name]
    found = dftfd.run_scf(molecule, functional, guess=expected.density_matrix, **OPTIONS)
    points, weights = expected.grid
    n = [np.asarray(evaluate_at(result.density, points)).sum(axis=1) for result in (found, expected)]
    density = float(weights @ np.abs(n[0] - n[1])) / molecule.n_electrons
    dipole = float(np.linalg.norm(found.dipole - expected.dipole))
    return HARTREE_IN_KCAL * (found.energy - expected.energy), dipole, density


def means(rows):
    """Mean magnitudes of what `held_out_errors` gives."""
    return {what: float(np.mean([abs(row[what]) for row in rows.values()])) for what in next(iter(rows.values()))}


def draw(found, path):
    """Held-out errors of all fits as shares of PBE's, from what --save wrote."""
    what = {"total": "total energy", "atomisation": "atomisation", "dipole": "dipole", "density": "density"}
    before = means(found["pbe"])
    with picture(path) as figure:
        axes = figure.subplots()
        for loss, shift, colour in (("energies", -0.12, "tab:orange"), ("energies and slopes", 0.12, "tab:blue")):
            fits = [row["means"] for row in found["fits"] if row["loss"] == loss]
            for place, name in enumerate(what):
                shares = [row[name] / before[name] for row in fits]
                axes.plot([place + shift] * len(shares), shares, "o", color=colour, label=None if place else loss)
                axes.plot([place + shift - 0.08, place + shift + 0.08], [np.mean(shares)] * 2, color=colour)
        axes.axhline(1.0, color="gray", linewidth=0.8)
        axes.set(yscale="log", ylabel="error held out, PBE's = 1", title="B3LYP learned by a meta-GGA, each dot a seed")
        axes.set_xticks(range(len(what)), what.values())
        axes.legend()


def main(quick=False, seeds=3, records=None, save=None, plot=None):
    parts = QUICK if quick else {"training": TRAINING, "validation": VALIDATION, "held out": HELD_OUT}
    needed = dict.fromkeys((*ATOMS, *(name for part in parts.values() for name in part)))
    teacher = Teacher(list(needed))
    table = {"pbe": held_out_errors(teacher, "pbe", parts["held out"])}
    print("PBE:", means(table["pbe"]))
    rows = []
    for seed in range(1 if quick else seeds):
        for with_slopes in (False, True):
            begun, what = time.process_time(), "energies and slopes" if with_slopes else "energies"
            record = None if records is None else Path(records, f"{what.replace(' ', '_')}_{seed}.h5")
            found = fitted(teacher, parts, seed, with_slopes, record, 3 if quick else 14)
            errors = held_out_errors(teacher, found.functional, parts["held out"])
            row = {"loss": what, "seed": seed, "held_out": errors, "means": means(errors), "reason": found.reason}
            row |= {"processor_seconds": round(time.process_time() - begun, 1), "evaluations": len(found.steps)}
            row["training"] = float(np.abs(found.errors).mean())
            row["validation"] = min(s.validation for s in found.steps if s.accepted)
            rows.append(row)
            print(f"{what}, seed {seed}: held out", row["means"], flush=True)
            if save is not None:
                settings = {"basis": BASIS, "teacher": TEACHER, "parts": parts, **OPTIONS}
                Path(save).write_text(json.dumps(settings | {"pbe": table["pbe"], "fits": rows}, indent=1) + "\n")
    if plot is not None:
        draw({"pbe": table["pbe"], "fits": rows}, plot)
    return means(table["pbe"]), rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--records")
    parser.add_argument("--save")
    parser.add_argument("--plot")
    main(**vars(parser.parse_args()))
