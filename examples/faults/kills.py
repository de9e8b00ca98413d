"""SIGKILL at random instants of a run, every other one inside the write of a checkpoint; then the run goes on.

python examples/faults/kills.py --save        50 kills
"""

import os
import signal
import time

from common import TOLERANCE, report, resumed, right_energy, start


def kill_in_cycles(process, path, rng):
    """At a random instant after a random one of the SCF cycles, which take milliseconds."""
    wanted = f"cycle= {int(rng.integers(1, 6))} "
    for line in process.stdout:
        if line.startswith(wanted):
            break
    time.sleep(rng.uniform(0.0, 3e-3))
    process.send_signal(signal.SIGKILL)


def kill_in_write(process, path, rng):
    """While the temporary file of a randomly chosen cycle's checkpoint, or of one after it, is there.

    The process is held for the look whether the file is still there, and goes on where it is not.
    """
    last, wanted = None, int(rng.integers(1, 6))
    while process.poll() is None:
        found = next((file for file in path.parent.iterdir() if file.suffix == ".tmp"), None)
        if found is None or found == last:
            continue
        last, wanted = found, wanted - 1
        if wanted <= 0:
            time.sleep(rng.uniform(0.0, 5e-4))
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            process.send_signal(signal.SIGKILL if found.exists() else signal.SIGCONT)


def kills(runs, folder, rng):
    """Figures of `runs` killed runs; those that end before their kill are tried again."""
    energy, worst = right_energy(), 0.0
    figures = {"kills": 0, "inside a write": 0, "with two generations": 0, "resumed": 0, "unreadable": 0}
    while figures["kills"] < runs:
        place = folder / str(figures["kills"])
        place.mkdir(exist_ok=True)
        path = place / "run.chk"
        process = start("--checkpoint", path)
        (kill_in_write if figures["kills"] % 2 else kill_in_cycles)(process, path, rng)
        process.communicate()
        if process.returncode != -signal.SIGKILL or not path.exists():
            for file in place.iterdir():
                file.unlink()
            continue
        figures["kills"] += 1
        figures["inside a write"] += any(file.suffix == ".tmp" for file in place.iterdir())
        figures["with two generations"] += path.with_name("run.chk.previous").exists()
        result, said = resumed(path)
        figures["unreadable"] += bool(said)
        error = abs(result.energy - energy)
        figures["resumed"] += result.converged and error < TOLERANCE
        worst = max(worst, error)
    return {**figures, "largest error of an energy [hartree]": worst}


if __name__ == "__main__":
    report("kills", kills, 50)
