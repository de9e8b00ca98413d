"""Where a second core stands idle: a calculation sampled every few milliseconds, by the function of its main thread.

    python examples/benchmarks/serial_time.py                               caffeine, PBE, def2-SVP, density fitting
    python examples/benchmarks/serial_time.py --xc b3lyp --what gradient --save

Wall time and processor time of all threads are summed up for each place; cores x wall - processor time is what the
cores stood idle there. A first calculation compiles; the second, of a geometry displaced by 1e-3 bohr, is sampled.
"""

import argparse
import collections
import os
import sys
import threading
import time
from pathlib import Path

import measuring
from molecules import NAMES, geometry

import dftfd

STEP = 0.004  # s


def place(frame, depth) -> str:
    """The innermost functions of dftfd that a frame is in, the outer one first."""
    names = []
    while frame is not None and len(names) < depth:
        file = frame.f_code.co_filename
        if any(f"{os.sep}{part}{os.sep}" in file for part in ("dftfd", "grids", "functionals")):
            names.append(f"{Path(file).stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names) or "elsewhere"


class Sampler(threading.Thread):
    """Seconds, of the clock and of processors, by place of the main thread, while it runs."""

    def __init__(self, depth):
        super().__init__(daemon=True)
        self.depth, self.main, self.done = depth, threading.main_thread().ident, threading.Event()
        self.seconds = collections.defaultdict(lambda: [0.0, 0.0])

    def run(self):
        clock, used = time.perf_counter(), time.process_time()
        while not self.done.wait(STEP):
            here = place(sys._current_frames()[self.main], self.depth)
            now, total = time.perf_counter(), time.process_time()
            self.seconds[here][0] += now - clock
            self.seconds[here][1] += total - used
            clock, used = now, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecule", choices=NAMES, default="caffeine")
    parser.add_argument("--xc", default="pbe")
    parser.add_argument("--basis", default="def2-svp")
    parser.add_argument("--what", choices=["scf", "gradient"], default="scf")
    parser.add_argument("--depth", type=int, default=2, help="functions of the stack that are told apart")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/serial_time.json")
    options = parser.parse_args()

    def scf(number):
        return dftfd.run_scf(dftfd.molecule(geometry(options.molecule, options.basis, 0, number)), xc=options.xc)

    first = scf(None)
    if options.what == "gradient":
        first.forces()
    work = (lambda: scf(0)) if options.what == "scf" else scf(0).forces
    sampler = Sampler(options.depth)
    sampler.start()
    elapsed, _ = measuring.seconds(work)
    sampler.done.set()
    sampler.join()
    cores = len(os.sched_getaffinity(0))
    wall, processor = (sum(entry[k] for entry in sampler.seconds.values()) for k in range(2))
    print(f"{elapsed:.2f} s, {processor:.2f} of processors, {cores * wall - processor:.2f} idle")
    places = sorted(sampler.seconds.items(), key=lambda item: item[1][1] - cores * item[1][0])
    for where, (clock, used) in places[:25]:
        print(f"{clock:7.3f} s {used:7.3f} of processors {cores * clock - used:7.3f} idle  {where}")
    if options.save:
        table = {where: [round(value, 3) for value in entry] for where, entry in places if sum(entry) > 0.02}
        row = {"molecule": options.molecule, "xc": options.xc, "basis": options.basis, "what": options.what}
        row |= {"seconds": round(elapsed, 3), "processors": round(processor, 3), "places": table}
        measuring.keep("serial_time", [measuring.machine() | row])


if __name__ == "__main__":
    main()
