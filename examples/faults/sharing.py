"""Eight processes that write the same checkpoint and fill the same compilation cache, at the same time.

    python examples/faults/sharing.py --save        20 rounds; the cache is empty at the start

In each round all of them begin together, forget what they have compiled and run the same calculation.
"""

import os
import subprocess
import sys
import time

from common import OPTIONS, TOLERANCE, molecule, report, resumed, right_energy

import dftfd

PROCESSES, PAUSE = 8, 0.05


def wait_for(file):
    """Until a file is there; five minutes at most."""
    end = time.monotonic() + 300
    while not os.path.exists(file):
        if time.monotonic() > end:
            raise TimeoutError(file)
        time.sleep(PAUSE)


def worker(folder, number, rounds, processes):
    """One of the processes: an energy per line on standard output."""
    import jax

    from dftfd.xc import code

    for k in range(rounds):
        open(os.path.join(folder, f"ready-{k}-{number}"), "x").close()
        for other in range(processes):
            wait_for(os.path.join(folder, f"ready-{k}-{other}"))
        jax.clear_caches()
        code._kept.clear()
        result = dftfd.run_scf(molecule(), **OPTIONS, checkpoint=os.path.join(folder, "shared.chk"))
        print(result.energy if result.converged else "not converged", flush=True)


def sharing(rounds, folder, rng, processes=PROCESSES):
    """Figures of `rounds` rounds."""
    energy, code = right_energy(), [sys.executable, __file__, "worker", str(folder)]
    environment = os.environ | {"DFTFD_CACHE_DIR": str(folder / "cache"), "PYTHONWARNINGS": "default"}
    started = [
        subprocess.Popen([*code, str(k), str(rounds), str(processes)], env=environment, stdout=-1, stderr=-1, text=True)
        for k in range(processes)
    ]
    outputs = [process.communicate() for process in started]
    energies = [float(line) for out, _ in outputs for line in out.split()]
    for _, err in outputs:
        print(err, end="", file=sys.stderr)
    result, said = resumed(folder / "shared.chk")
    return {
        "processes": processes,
        "rounds": rounds,
        "calculations": len(energies),
        "failed processes": sum(process.returncode != 0 for process in started),
        "right energies": sum(abs(e - energy) < TOLERANCE for e in energies),
        "warnings": sum(err.count("Warning") for _, err in outputs),
        "temporary files left": len(list(folder.glob(".*.tmp"))),
        "last checkpoint readable": not said and abs(result.energy - energy) < TOLERANCE,
        "compiled programs in the cache": len(list((folder / "cache").iterdir())),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        report("sharing", sharing, 20)
