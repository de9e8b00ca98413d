"""A GGA learned from potentials: v_xc of a handful of atoms and molecules, recovered from wave functions.

    e_xc = e_x^PBE (1 + N_x(u)) + e_c^PBE (1 + N_c(u, q)),   u = s^2 / (1 + s^2),   q = r_s / (1 + r_s)

Densities of CCSD, exact for two electrons, are inverted (`dftfd.invert`): orbitals of one local potential that have
them. A functional with that potential is stationary there, so what is minimised are the slopes of its energy along
turns of these orbitals (`dftfd.losses.orbital_gradient`), where differences of potentials count as much as the
density feels them, and constants not at all. Beside them stand the exact total energies of the same systems, which fix
what a potential leaves open. No molecule's atomisation energy is learned; those of W4-17 are held out.

The idea, with other data and a larger network: B. Kanungo et al., arXiv:2409.06498 (2024), whose GGA comes to about
SCAN's accuracy; this one, in Gaussians, does not (docs/training.md). Total energies: S. J. Chakravorty et al., Phys.
Rev. A 47, 3649 (1993), doi:10.1103/PhysRevA.47.3649 (atoms, not relativistic); K. Pachucki, Phys. Rev. A 82, 032509
(2010), doi:10.1103/PhysRevA.82.032509 (H2); W. Cencek, J. Rychlewski, Chem. Phys. Lett. 320, 549 (2000),
doi:10.1016/S0009-2614(00)00262-9 (LiH).

    python examples/13_functional_from_potentials.py [--quick] [--save rows.json]
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
from dftfd.functionals import pbe
from dftfd.functionals.common import (
    reduced_gradient_squared,
    slater_exchange,
    spin_scaled,
    total_density,
    wigner_seitz_radius,
)
from dftfd.interop.pyscf import correlated_density

SYSTEMS = {
    "He": ("He 0 0 0;", 0, -2.903724),
    "Li": ("Li 0 0 0;", 1, -7.478060),
    "Be": ("Be 0 0 0;", 0, -14.667360),
    "Ne": ("Ne 0 0 0;", 0, -128.9376),
    "H2": ("H 0 0 0; H 0 0 0.74144", 0, -1.174476),
    "LiH": ("Li 0 0 0; H 0 0 1.5957", 0, -8.070548),
}
"""Geometry [angstrom], unpaired electrons, total energy [hartree]."""

BASIS, TEST_BASIS = "def2-tzvp", "def2-tzvp"
OPTIONS = {"grid_level": 1, "density_fit": False}
HELD_OUT = ("h2o", "nh3", "ch4", "hf", "co", "n2", "oh", "nh", "ch", "hcn")
RIVALS = ("pbe", "tpss", "scan")
WIDTH, DEVIATION, SEED = 4, 1.0, 2024
SLOPE = 0.01
"""Hartree of a slope that counts as a kcal/mol of energy does."""


def network(W, *variables):
    """A number that vanishes where all variables do."""
    at = lambda x: jnp.tanh(sum(W[k] * value for k, value in zip("ab", x, strict=False)) + W["d"])
    zero = (0.0 * variables[0], *variables[1:])
    return jnp.dot(W["c"], at(variables) - at(zero))


def numbers(seed, names="abcd", width=WIDTH):
    """The numbers of a network before it has learned."""
    random = np.random.default_rng(seed)
    return {name: jnp.asarray((0.01 if name == "c" else 1.0) * random.normal(size=width)) for name in names}


def bounded(x):
    return x / (1 + x)


def student():
    """The functional before it has learned, PBE but for small random numbers."""
    ((_, of_pbe),) = pbe.correlation.terms

    @dftfd.functional("gga_x_of_potentials")
    @spin_scaled
    def exchange(n, *, W_x=numbers(SEED, "acd")):  # noqa: B008
        """PBE's exchange times 1 + N_x."""
        s2 = reduced_gradient_squared(n)
        return slater_exchange(n) * pbe.enhancement(s2) * (1 + compose(partial(network, W_x), bounded(s2)))

    @dftfd.functional("gga_c_of_potentials")
    def correlation(rho, *, W_c=numbers(SEED + 1)):  # noqa: B008
        """PBE's correlation times 1 + N_c."""
        n = total_density(rho)
        variables = bounded(reduced_gradient_squared(n)), bounded(wigner_seitz_radius(n))
        return of_pbe.formula(rho) * (1 + compose(partial(network, W_c), *variables))

    return exchange + correlation


def targets(names, basis=BASIS):
    """Terms of potentials and of energies, and how well densities were recovered [electrons for each electron]."""
    potentials, energies, errors = [], [], {}
    for name in names:
        atoms, spin, exact = SYSTEMS[name]
        molecule = dftfd.molecule(atoms, basis=basis, spin=spin)
        found = dftfd.invert(molecule, correlated_density(molecule, "ccsd"), reference="svwn")
        errors[name] = found.density_error / molecule.n_electrons
        scf = dftfd.differentiable_scf(molecule, **OPTIONS)
        P = found.density_matrix
        potentials.append(dftfd.losses.scaled(dftfd.losses.orbital_gradient(scf, P), SLOPE))
        energies.append(energy_of_each_electron(scf, P, exact, molecule.n_electrons))
        print(f"{name}: density recovered to {errors[name]:.1e} electrons each", flush=True)
    return potentials, energies, errors


def energy_of_each_electron(scf, P, exact, n_electrons):
    """(E[P] - exact) for each electron [millihartree], without an SCF."""
    energy = []

    def residual(f):
        if not energy:
            energy.append(scf.at_fixed_density(student(), P))
        return jnp.reshape(1e3 * (energy[0](f) - exact) / n_electrons, (1,))

    return residual


def fitted(terms, evaluations=12):
    """The functional with the parameters that the terms ask for."""
    prior = {"W_x": DEVIATION, "W_c": DEVIATION}
    tell = lambda step: print(f"{step.number:3d} {step.loss:.6g}", flush=True)
    return dftfd.fit(student(), parameters=list(prior), terms=terms, prior=prior, evaluations=evaluations, on_step=tell)


def sizes(functional, potentials, energies):
    """Root mean squares of slopes [hartree] and of energies for each electron [millihartree]."""
    rms = lambda terms: float(np.sqrt(np.mean(np.concatenate([np.asarray(t(functional)) for t in terms]) ** 2)))
    return {"slopes": SLOPE * rms(potentials), "energies": rms(energies)}


def held_out(functionals, names, basis):
    """Mean absolute errors of atomisation energies of W4-17 [kcal/mol], self-consistent, and each one's errors."""
    energies = read_set("w4-17")
    part = energies.of(r for r in energies.reactions if r.name.lower() in names)
    rows = {}
    for name, functional in functionals.items():
        verdict = dftfd.benchmark(part, functional, basis=basis, grid_level=1)
        (known,) = verdict.functionals
        rows[name] = {reaction.name: error for reaction, error in verdict.known(known)}
        print(f"{name:28s}{np.mean(np.abs(list(rows[name].values()))):8.2f} kcal/mol", flush=True)
    return rows


def main(quick=False, save=None):
    names = ("He", "H2") if quick else tuple(SYSTEMS)
    basis, test = ("def2-svp", "def2-svp") if quick else (BASIS, TEST_BASIS)
    begun = time.process_time()
    potentials, energies, errors = targets(names, basis)
    rounds = 8 if quick else 12
    fits = {"potentials alone": fitted(potentials, rounds)}
    fits["potentials and energies"] = fitted(potentials + energies, rounds)
    learned = {"begun with": student()} | {name: found.functional for name, found in fits.items()}
    seconds = time.process_time() - begun
    reached = {name: sizes(functional, potentials, energies) for name, functional in learned.items()}
    for name, row in reached.items():
        print(f"{name:28s}slopes {row['slopes']:.2e} hartree, energies {row['energies']:.2f} millihartree an electron")
    rivals = {} if quick else {name: name for name in RIVALS}
    errors_of = held_out(learned | rivals, ("oh",) if quick else HELD_OUT, test)
    means = {name: float(np.mean(np.abs(list(of.values())))) for name, of in errors_of.items()}
    if save is not None:
        rows = {"systems": names, "basis": basis, "test_basis": test, "density_errors": errors, "reached": reached}
        rows |= {"parameters": {name: found.parameters.tolist() for name, found in fits.items()}}
        rows |= {"held_out": errors_of, "mean_absolute_errors": means, "processor_seconds": round(seconds, 1)}
        Path(save).write_text(json.dumps(rows, indent=1) + "\n")
    return reached, means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--save")
    main(**vars(parser.parse_args()))
