"""A benchmark on a cluster, planned before it is submitted: work, memory, and the time on so many nodes.

Nothing is computed. Molecules go to workers as `dftfd benchmark --scheduler` sends them, the cheapest first, and the
time ends with the last one. Processor times are orders of magnitude, scaled from one measured run (docs/benchmark.md).

    python examples/14_plan_for_a_cluster.py                                            a built-in set on two nodes
    python examples/14_plan_for_a_cluster.py gmtkn55 --data GMTKN55 --nodes 100 --threads 8 --basis def2-tzvp

Threads of a worker share the memory of one molecule. They count fully, so that the time is a lower limit.
"""

import argparse
import heapq

import dftfd
from dftfd.benchmarks.energies import SECONDS, cost
from dftfd.runtime.progress import in_time

EXACT_EXCHANGE = 2.0
"""Times the work of a pure functional, about."""


def time_on(workers, seconds):
    """Until the last of these calculations ends, begun in this order, each on the worker that is free first."""
    free = [0.0] * workers
    for each in seconds:
        heapq.heapreplace(free, free[0] + each)
    return max(free)


def main(arguments=None):
    """Prints the plan; returns the processor time and the time on all nodes, in seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", nargs="?", default="w4-17", help="as `dftfd benchmark` names it")
    parser.add_argument("--data", help="folder of a collection that does not come along")
    parser.add_argument("--xc", default="pbe", help="functionals, with commas between them")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cores", type=int, default=32, help="of a node")
    parser.add_argument("--threads", type=int, default=1, help="cores of a worker")
    given = parser.parse_args(arguments)

    names = given.xc.split(",")
    plan = dftfd.benchmarks.plan_benchmark(given.benchmark, names, data=given.data, basis=given.basis)
    print(plan)
    factors = [EXACT_EXCHANGE if dftfd.get_functional(name).exact_exchange else 1.0 for name in names]
    times = [factor * SECONDS * size for size in sorted(map(cost, plan.molecules.values())) for factor in factors]
    here, work, longest = given.cores // given.threads, sum(times), max(times)
    workers = given.nodes * here
    end = time_on(workers, [each / given.threads for each in times])
    busy = 100 * work / (workers * given.threads * end)
    threads = f"{given.threads} thread{'s' * (given.threads > 1)}"
    print(f"\n{given.nodes} nodes of {given.cores} cores, {workers} workers of {threads}")
    print(f"  processor time    {in_time(work)}, the longest calculation {in_time(longest)}")
    print(f"  time              {in_time(end)} at best, workers busy for {busy:.0f} % of it")
    print(f"  beyond {int(work / longest) + 1} workers the longest calculation decides: give each more threads")
    print("\n  dask scheduler")
    print(f"  OMP_NUM_THREADS={given.threads} dask worker ADDRESS --nworkers {here} --nthreads 1        # on each node")
    data = f" --data {given.data}" if given.data else ""
    print(
        f"  dftfd benchmark {given.benchmark}{data} --xc {given.xc} --basis {given.basis} --scheduler ADDRESS "
        "--record energies.jsonl"
    )
    return work, end


if __name__ == "__main__":
    main()
