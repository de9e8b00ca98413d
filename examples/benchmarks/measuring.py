"""What the benchmarks share: clocks, the machine they ran on, results kept as JSON.

Import it first: it sets the number of threads before any numerical library starts its own.
"""

import json
import os
import platform
import resource
import time
from pathlib import Path

THREADS = 2
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pyscf  # noqa: E402
from pyscf import lib  # noqa: E402

import dftfd  # noqa: E402
from dftfd.runtime.threads import worker_count  # noqa: E402

DATA = Path(__file__).parents[2] / "data" / "benchmarks"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def seconds(call, clock=CLOCKS["wall"]):
    """(time, result)"""
    start = clock()
    result = call()
    return clock() - start, result


def machine() -> dict:
    """Processor, versions and threads that timings belong to, and how busy the machine is."""
    told = {row.split("\t")[0]: row.split(":")[1].strip() for row in _lines("/proc/cpuinfo") if ":" in row}
    model = " ".join(filter(None, [told.get("model name"), told.get("model") and f"(model {told['model']})"]))
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": model or platform.machine(),
        "cores": os.cpu_count(),
        "threads": {"dftfd": worker_count(), "pyscf": lib.num_threads()},
        "load_average": round(os.getloadavg()[0], 2),
        "versions": {
            "dftfd": dftfd.__version__,
            "pyscf": pyscf.__version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def require_one_thread_for(clock: str) -> None:
    """Stop unless the clock tells something: CPU seconds of idling threads mean nothing."""
    if clock == "cpu" and worker_count() != 1:
        raise SystemExit("CPU seconds of idling threads mean nothing; set OMP_NUM_THREADS=1 for --clock cpu.")


def ratio_of(pairs) -> dict:
    """Medians of pairs (pyscf, ours) [s], and of PySCF's time over ours."""
    times = np.array(pairs)
    ratios = times[:, 0] / times[:, 1]
    return {
        "pairs": len(times),
        "pyscf_seconds": round(float(np.median(times[:, 0])), 4),
        "dftfd_seconds": round(float(np.median(times[:, 1])), 4),
        "ratio": round(float(np.median(ratios)), 2),
        "ratio_range": [round(float(ratios.min()), 2), round(float(ratios.max()), 2)],
    }


def peak_gigabytes() -> float:
    """Peak memory of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)


def keep(name: str, rows: list[dict]) -> None:
    """Append rows to data/benchmarks/NAME.json."""
    path = DATA / f"{name}.json"
    stored = json.loads(path.read_text()) if path.exists() else []
    DATA.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored + rows, indent=1) + "\n")


def _lines(path):
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
