"""Ctrl-C at random instants of a run: exit code 130 within five seconds, the last cycle saved.

    python examples/faults/interrupts.py --save        30 interrupts

Every third comes at any time of the process, the imports of its libraries included, where Python itself answers and the
shell says 130; the others while the calculation is at work.
"""

import signal
import time

from common import TOLERANCE, report, resumed, right_energy, start

SHELL_130 = (130, -signal.SIGINT)


def interrupts(runs, folder, rng):
    """Figures of `runs` interrupted runs; those that end before are tried again."""
    energy, worst, slowest, k = right_energy(), 0.0, 0.0, 0
    figures = dict.fromkeys(("interrupts", "exit code 130", "ended by the signal itself", "tracebacks"), 0)
    figures |= dict.fromkeys(("with a checkpoint", "told how to go on", "resumed"), 0)
    while figures["interrupts"] < runs:
        k += 1
        path = folder / f"{k}.chk"
        process = start("--checkpoint", path)
        if k % 3:
            for line in process.stdout:
                if line.startswith("init E="):
                    break
            time.sleep(rng.uniform(0.0, 0.3))
        else:
            time.sleep(rng.uniform(0.1, 4.0))
        process.send_signal(signal.SIGINT)
        before = time.monotonic()
        _, err = process.communicate()
        if process.returncode == 0:
            continue
        slowest = max(slowest, time.monotonic() - before)
        figures["interrupts"] += 1
        figures["exit code 130"] += process.returncode in SHELL_130
        figures["ended by the signal itself"] += process.returncode == -signal.SIGINT
        figures["tracebacks"] += "Traceback" in err
        figures["told how to go on"] += "--restart" in err
        if path.exists():
            result, said = resumed(path)
            error = abs(result.energy - energy)
            worst = max(worst, error)
            figures["with a checkpoint"] += 1
            figures["resumed"] += error < TOLERANCE and not said
    return figures | {"slowest end [s]": round(slowest, 2), "largest error of an energy [hartree]": worst}


if __name__ == "__main__":
    report("interrupts", interrupts, 30)
