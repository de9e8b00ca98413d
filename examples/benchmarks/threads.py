"""Where an SCF and its gradient spend their time on one thread and on two, and what part of it no second thread shares.

    python examples/benchmarks/threads.py                                  caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/threads.py --xc b3lyp --rounds 3 --save
    python examples/benchmarks/threads.py --turns 5 --save                 one process, one and two threads in turns

Processes with one thread and with two, in turns; each computes once for what is compiled, then once for the clock, on
a geometry displaced by 1e-3 bohr. By Amdahl's law T(k) = serial + shared / k, so that serial = 2 T(2) - T(1), and the
efficiency of two threads is T(1) / (2 T(2)).

What the machine allows is measured beside it: two processes with one thread each, at once, share nothing but memory,
caches and what two virtual cores have of a real one. One of them takes T(1) / T(1, beside its like) of its speed alone.

Minutes lie between such processes, in which a shared machine changes its speed by a fifth. --turns leaves seconds
between one thread and two; with one thread XLA may use a second all the same, which processor time tells.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from functools import partial

import measuring
import numpy as np
from molecules import NAMES

COUNTS = (1, 2)


def measure(molecule, xc, basis):
    """Seconds of each stage, of the whole and of the gradient, and what the system took, of this process."""
    from molecules import geometry

    import dftfd
    from dftfd.terms.on_grid import GridEnergy

    def run(number):
        return dftfd.run_scf(dftfd.molecule(geometry(molecule, basis, 0, number)), xc=xc, density_fit=True)

    run(None).forces()
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = run(0)
    whole, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    gradient, _ = measuring.seconds(result.forces)
    ingredients = result.calculation.build(dftfd.runtime.progress.as_progress(False))
    P, C = result.density_matrix, [result.mo_coeff[0] * np.sqrt(result.mo_occ[0])]
    P, C = np.reshape(P, (-1, *P.shape[-2:])), [c[:, np.any(c != 0, axis=0)] for c in C]
    parts = {}
    for term in ingredients.energy.terms:
        name = "XC matrix" if isinstance(term, GridEnergy) else type(term).__name__
        parts[name] = min(measuring.seconds(lambda term=term: term.evaluate(P, C))[0] for _ in range(3))
    return {
        "stages": {k: round(v, 3) for k, v in result.seconds.items()},
        "whole": round(whole, 3),
        "gradient": round(gradient, 3),
        "one evaluation": {k: round(v, 4) for k, v in parts.items() if v > 1e-3},
        "system_seconds": round(after.ru_stime - before.ru_stime, 3),
        "page_faults": after.ru_minflt - before.ru_minflt,
        "energy": result.energy,
    }


def in_processes(options, *cores):
    """`measure` in a process for each list of cores, with as many threads, all at once."""
    mine = [sys.executable, __file__, "--here", "--molecule", options.molecule, "--xc", options.xc]
    started = []
    for some in cores:
        command = ["taskset", "-c", ",".join(map(str, some)), *mine, "--basis", options.basis]
        environment = os.environ | {"OMP_NUM_THREADS": str(len(some))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
    outputs = [process.communicate() for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("".join(errors for _, errors in outputs))
    return [json.loads(printed.splitlines()[-1]) for printed, _ in outputs]


def one_round(options):
    """Rows of one thread, of two, and of one thread beside its like."""
    (one,), (two,) = (in_processes(options, range(count)) for count in COUNTS)
    return {1: one, 2: two, "beside": in_processes(options, [0], [1])}


def in_turns(molecule, xc, basis, turns):
    """Median wall and processor seconds of one thread and of two, {what: {threads: (wall, processor)}}."""
    from molecules import geometry

    import dftfd
    from dftfd.terms.coulomb_exchange import CoulombExchangeEnergy
    from dftfd.terms.on_grid import GridEnergy

    kinds = {GridEnergy: "XC matrix", CoulombExchangeEnergy: "Coulomb and exchange matrices"}

    def run(number):
        return dftfd.run_scf(dftfd.molecule(geometry(molecule, basis, 0, number)), xc=xc, density_fit=True)

    def matrices_of(count):
        os.environ["OMP_NUM_THREADS"] = str(count)
        energy = result.calculation.build(dftfd.runtime.progress.as_progress(False)).energy
        calls = {name: partial(energy.of_kind(kind).evaluate, P, C) for kind, name in kinds.items()}
        for call in calls.values():
            call()
        return calls

    result = run(None)
    result.forces()
    P, C = result.density_matrix, [result.mo_coeff[0][:, result.mo_occ[0] > 0] * np.sqrt(result.mo_occ[0].max())]
    matrices = {count: matrices_of(count) for count in COUNTS}
    found: dict[str, dict[int, list]] = {}
    for turn in range(turns):
        for count in COUNTS:
            os.environ["OMP_NUM_THREADS"] = str(count)
            for name, call in ({"whole SCF": partial(run, turn), "gradient": result.forces} | matrices[count]).items():
                processor = time.process_time()
                wall, _ = measuring.seconds(call)
                times = wall, time.process_time() - processor
                found.setdefault(name, {}).setdefault(count, []).append(times)
    median = lambda rows: [round(float(t), 3) for t in np.median(rows, axis=0)]
    return {name: {count: median(rows) for count, rows in of_name.items()} for name, of_name in found.items()}


def flat(row) -> dict:
    """Name -> seconds of all that was timed."""
    return {"whole SCF": row["whole"], "gradient": row["gradient"]} | {
        **{f"stage {k}": v for k, v in row["stages"].items()},
        **{f"one {k}": v for k, v in row["one evaluation"].items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, help="so many of one thread and of two, in one process")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/threads.json")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in a process for one count
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.molecule, options.xc, options.basis)))
        return
    case = {"molecule": options.molecule, "xc": options.xc, "basis": options.basis}
    if options.turns:
        turns = in_turns(**case, turns=options.turns)
        for name, row in turns.items():
            (one, of_one), (two, of_two) = (row[count] for count in COUNTS)
            print(f"{name:30s} {one:7.3f} {two:7.3f} s, {of_one:7.3f} {of_two:7.3f} of processors", end="")
            print(f", efficiency {one / two / 2:5.2f}, of processor time {of_one / two / 2:5.2f}")
        if options.save:
            row = case | {"turns": options.turns, "wall_and_processor_seconds": turns}
            measuring.keep("threads", [measuring.machine() | row])
        return
    rounds = [one_round(options) for _ in range(options.rounds)]
    times = {count: [flat(row[count]) for row in rounds] for count in COUNTS}
    beside = [flat(of_one) for row in rounds for of_one in row["beside"]]
    table = {}
    for name in times[1][0]:
        one, two = (float(np.median([row[name] for row in times[count]])) for count in COUNTS)
        if one < 1e-3:
            continue
        together = float(np.median([row[name] for row in beside]))
        table[name] = {"one": round(one, 3), "two": round(two, 3), "serial": round(max(0.0, 2 * two - one), 3)}
        table[name]["one_beside_its_like"] = round(together, 3)
        efficiency, allowed = (one / t if t else float("nan") for t in (2 * two, together))  # 0: below the last digit
        shared = f"serial {2 * two - one:7.3f}, efficiency {efficiency:5.2f}, the machine's {allowed:5.2f}"
        print(f"{name:30s} {one:8.3f} {two:8.3f} s, {shared}")
    system = {count: [row[count]["system_seconds"] for row in rounds] for count in COUNTS}
    print("system seconds:", system)
    if options.save:
        row = case | {"seconds": table}
        measuring.keep("threads", [measuring.machine() | row | {"system_seconds": system, "rounds": options.rounds}])


if __name__ == "__main__":
    main()
