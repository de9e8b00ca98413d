"""Whether every native formula and its derivatives are finite at many points far outside of molecules.

    python data/extremes/make_scan.py [--points 1000000] [name ...]

writes data/extremes/scan.json. Formulas that it has with as many points or more are left out, unless they are named.
A million points of all formulas take half an hour on one core; results are kept after each. What the numbers are is
said in README.md and `tests.verification.extremes`.
"""

import argparse
import json
import time
from pathlib import Path

from tests.verification.extremes import extreme_points, highest_order, not_finite
from tests.verification.native import native_formulas

FILE = Path(__file__).parent / "scan.json"


def outcome(functional, x) -> dict:
    """Order of derivatives, number of points, and at how many of them each order is not finite."""
    order = highest_order(functional)
    found = not_finite(functional, x, order)
    return {"order": order, "points": x.shape[1], "not_finite": [len(places) for places in found]}


def main(names, points):
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    formulas, x = native_formulas(), extreme_points(points)
    missing = [name for name in formulas if results.get(name, {"points": 0})["points"] < points]
    for name in names or missing:
        start = time.perf_counter()
        results[name] = outcome(formulas[name], x)
        FILE.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
        print(f"{name}: {results[name]['not_finite']}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="native formulas")
    parser.add_argument("--points", type=int, default=1_000_000)
    arguments = parser.parse_args()
    main(arguments.names, arguments.points)
