"""Jumps of energy and potential of every native formula where it is cut off or changes its form.

    python data/extremes/make_jumps.py

writes data/extremes/jumps.json, in five minutes. What the numbers are is said in README.md and
`tests.verification.continuity`.
"""

import json
from pathlib import Path

from tests.verification.continuity import jump, paths
from tests.verification.native import native_formulas

FILE = Path(__file__).parent / "jumps.json"


def main():
    by_border = paths()
    results = {}
    for name, functional in native_formulas().items():
        results[name] = {border: jump(functional, path) for border, path in by_border.items()}
        print(name, max((max(pair), border) for border, pair in results[name].items()), flush=True)
    rounded = lambda pair: [float(f"{value:.2g}") for value in pair]
    table = {name: {border: rounded(pair) for border, pair in row.items()} for name, row in results.items()}
    FILE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
