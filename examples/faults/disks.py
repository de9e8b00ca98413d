"""Runs whose checkpoint meets a full disk or a folder that takes no files: the result is printed, the exit code is 5.

    python examples/faults/disks.py --save        20 full disks, 20 read-only folders

Root mounts small file systems in memory. Others, or where mounting is not allowed, get a limit on the size of files for
the full disk, and a folder without permission to write.
"""

import contextlib
import io
import os
import resource
import signal
import subprocess

from common import TOLERANCE, arguments, report, right_energy

from dftfd.cli import main


@contextlib.contextmanager
def full_disk(place, rng):
    """A folder on a disk that is full after some 4 to 64 kB, which is before the third generation of a checkpoint."""
    size = 4096 * int(rng.integers(1, 16))
    if mounted(place, f"size={size}"):
        try:
            yield "tmpfs"
        finally:
            subprocess.run(["umount", place], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(size, 16384), before[1]))
    try:
        yield "limit on the size of files"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def read_only_folder(place, rng):
    """A folder that takes no files."""
    if mounted(place, "ro"):
        try:
            yield "tmpfs"
        finally:
            subprocess.run(["umount", place], check=True)
        return
    os.chmod(place, 0o500)
    try:
        yield "permissions"
    finally:
        os.chmod(place, 0o700)


def mounted(place, option):
    """Whether a small file system in memory is now mounted there."""
    command = ["mount", "-t", "tmpfs", "-o", option, "tmpfs", place]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def disks(runs, folder, rng):
    """Figures of `runs` runs on each kind of folder."""
    energy, figures, place = right_energy(), {}, folder / "disk"
    place.mkdir()
    for name, fault in (("full disk", full_disk), ("read-only folder", read_only_folder)):
        right = codes = told = 0
        for _ in range(runs):
            out, err = io.StringIO(), io.StringIO()
            with fault(place, rng) as kind, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments("--quiet", "--checkpoint", place / "run.chk"))
            right += abs(float(out.getvalue()) - energy) < max(TOLERANCE, 1e-10)
            codes += code == 5
            told += "its checkpoint was not written" in err.getvalue() and "Traceback" not in err.getvalue()
        figures |= {name: f"{runs} runs, {kind}", f"{name}: result printed": right}
        figures |= {f"{name}: exit code 5": codes, f"{name}: reason told": told}
    return figures


if __name__ == "__main__":
    report("disks", disks, 20)
