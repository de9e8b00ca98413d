"""Processor time and memory of a fit over the number of its molecules: processes, and a cluster that loses a worker.

PBE's kappa and mu, fitted to atomisation energies of W4-17 in its order of size. The cluster's first worker is killed
after the first evaluation; parameters have to be those of the processes to the digits that SCFs have.

    OMP_NUM_THREADS=1 python examples/benchmarks/fits_of_many.py [--molecules 25 50 100] [--cluster] [--save]
"""

import argparse
import os
import resource
import signal

import measuring
import numpy as np

import dftfd
from dftfd.benchmarks import read_set
from dftfd.system.geometry import parse_geometry

OPTIONS = {"basis": "6-31g", "grid_level": 0, "conv_tol": 1e-8}
HOW = {"parameters": ["kappa", "mu"], "bounds": {"kappa": (0.3, 2.0), "mu": (0.1, 0.5)}, "evaluations": 4}


def chosen(count):
    """Reactions with so many molecules in all, the smallest ones."""
    whole = read_set("w4-17")
    size = lambda reaction: max(
        len(parse_geometry(whole.species[name].atoms).names) for name, _ in reaction.stoichiometry
    )
    kept, met = [], set()
    for reaction in sorted(whole.reactions, key=size):
        names = {name for name, _ in reaction.stoichiometry}
        if len(met | names) <= count:
            kept.append(reaction)
            met |= names
    return whole.of(kept)


def in_processes(data):
    """(Fit, processor seconds of both processes, mebibytes of the largest)."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    start = used()
    found = dftfd.fit("pbe", data, jobs=2, on_step=lambda step: None, **HOW, **OPTIONS)
    return found, used() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def on_cluster(data):
    """The fit with a worker killed after the first evaluation."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        killed = []

        def kill(step):
            if not killed:
                killed.append(cluster.workers[0].process.process.pid)
                os.kill(killed[0], signal.SIGKILL)

        return dftfd.fit("pbe", data, client=client, on_step=kill, **HOW, **OPTIONS)


def row(count, cluster):
    """One row of results."""
    data = chosen(count)
    found, seconds, memory = in_processes(data)
    kept = {"molecules": len(data.species), "reactions": len(data.reactions), "evaluations": len(found.steps)}
    kept |= {"processor_seconds": round(seconds, 1), "largest_process_mebibytes": round(memory)}
    kept |= {"parameters": found.parameters.tolist(), "training": [step.training for step in found.steps]}
    if cluster:
        other = on_cluster(data)
        kept |= {"cluster_parameters_off": float(np.abs(other.parameters - found.parameters).max())}
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--molecules", type=int, nargs="+", default=(25, 50, 100))
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    for count in arguments.molecules:
        found = row(count, arguments.cluster)
        print(found, flush=True)
        if arguments.save:
            measuring.keep("fits_of_many", [measuring.machine() | OPTIONS | found])


if __name__ == "__main__":
    main()
