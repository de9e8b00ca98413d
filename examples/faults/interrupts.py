"""Ctrl-C at random instants of a run: exit code 130 within five seconds, the last cycle saved.

    python examples/faults/interrupts.py --save        30 interrupts

Every third comes at any time from the first statement of dftfd on, the imports of its libraries included, during which
the signal itself ends the process and the shell says 130; the others while the calculation is at work. Whenever there
is a checkpoint, the last line has to tell how to go on from it.
"""

import signal
import time

from common import TOLERANCE, report, resumed, right_energy, start

SHELL_130 = (130, -signal.SIGINT)
SIGINT_CAUGHT = 1 << signal.SIGINT - 1


def catches_interrupts(process):
    """Whether the process has a handler for SIGINT."""
    with open(f"/proc/{process.pid}/status") as status:
        return any(int(line.split()[1], 16) & SIGINT_CAUGHT for line in status if line.startswith("SigCgt"))


def wait_for_first_statement(process):
    """Until dftfd is being imported: Python has set its handler, and dftfd has put it aside."""
    for state in (True, False):
        while process.poll() is None and catches_interrupts(process) is not state:
            time.sleep(5e-4)


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
            wait_for_first_statement(process)
            time.sleep(rng.uniform(0.0, 4.0))
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
