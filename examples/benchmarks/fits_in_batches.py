"""Batches of a fit against all reactions at once: how far from the optimum both end after as many passes over the data.

PBE's kappa and mu and the eight atomisation energies of examples/07_refit_of_pbe.py. Levenberg's and Marquardt's
method finds the optimum; Adam's rule, its rate falling to nothing, goes step by step with all reactions, and with
batches of two whose order three seeds decide.

    OMP_NUM_THREADS=1 python examples/benchmarks/fits_in_batches.py [--save]
"""

import argparse
import time

import measuring
import numpy as np
import optax

import dftfd
from dftfd.benchmarks import read_set

MOLECULES = ("h2", "ch4", "nh3", "h2o", "hf", "n2", "co", "f2")
PRIOR = {"kappa": 0.1, "mu": 0.02}
"""Without one the data leave a valley whose end is far away, kappa above eight."""

HOW = {"parameters": ["kappa", "mu"], "prior": PRIOR, "basis": "6-31g*", "grid_level": 1, "conv_tol": 1e-8}
RATE, PASSES, SIZE, SEEDS = 0.05, 16, 2, (0, 1, 2)


def adam(steps):
    """Adam's rule with a rate that falls to nothing over the steps."""
    return optax.adam(optax.cosine_decay_schedule(RATE, steps))


def row(way, data, **how):
    """A fit's end: parameters, mean absolute error, half the sum of all squares, processor time."""
    start = time.process_time()
    found = dftfd.fit("pbe", data, **how, **HOW)
    from_prior = (found.parameters - found.start) / [PRIOR[name] for name in found.names]
    return {
        "way": way,
        "evaluations": len(found.steps),
        "parameters": dict(zip(found.names, found.parameters.tolist(), strict=True)),
        "mean_absolute_error": float(np.abs(found.errors).mean()),
        "loss": 0.5 * float(found.errors @ found.errors + np.sum(from_prior**2)),
        "processor_seconds": round(time.process_time() - start, 1),
    }


def rows(data):
    """The optimum, then each way."""
    yield row("Levenberg and Marquardt", data)
    yield row("Adam, all reactions", data, optimiser=adam(PASSES), evaluations=PASSES + 1)
    steps = PASSES * (len(data.reactions) // SIZE)
    for seed in SEEDS:
        how = {"batch_size": SIZE, "seed": seed, "optimiser": adam(steps), "evaluations": steps + 1}
        yield row(f"Adam, batches of {SIZE}, seed {seed}", data, **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/fits_in_batches.json")
    arguments = parser.parse_args()
    everything = read_set("w4-17")
    data = everything.of(reaction for reaction in everything.reactions if reaction.name in MOLECULES)
    found = []
    for one in rows(data):
        found.append(one)
        print(one, flush=True)
    if arguments.save:
        measuring.keep("fits_in_batches", [measuring.machine() | one for one in found])


if __name__ == "__main__":
    main()
