"""How long the workbench takes to draw itself anew while a slider moves, in Chromium without a window.

    python examples/benchmarks/workbench.py [--save]

For each functional every parameter's slider, and those of the place, are moved 25 times; the page measures itself, from
the frame in which it begins to the end of all drawing. Median and slowest over all moves; a page is made anew for each.
--save keeps the table in data/benchmarks/workbench.json. Asked: 50 ms for PBE, 100 ms for SCAN.
"""

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

import dftfd

RECORD = Path(__file__).parents[2] / "data" / "benchmarks" / "workbench.json"
ASKED = {"pbe": 50, "scan": 100, "r2scan": None}
MOVES = 25
MOVE = """(bar, k) => {
  bar.value = +bar.min + (0.2 + 0.6 * ((7 * k) % 25) / 25) * (bar.max - bar.min);
  delete document.body.dataset.milliseconds;
  bar.dispatchEvent(new Event('input'));
}"""


def moved(opened, bar) -> list[float]:
    """Milliseconds of each redraw while one slider moves."""
    found = []
    for k in range(MOVES):
        bar.evaluate(MOVE, k)
        opened.wait_for_function("document.body.dataset.milliseconds !== undefined")
        found.append(float(opened.evaluate("document.body.dataset.milliseconds")))
    return found


def measured(chromium, name, folder) -> dict:
    path, began = Path(folder) / f"{name}.html", time.perf_counter()
    dftfd.workbench(name).write(path)
    made = time.perf_counter() - began
    opened = chromium.new_page(viewport={"width": 1280, "height": 800})
    opened.goto(path.as_uri())
    opened.wait_for_function("document.body.dataset.milliseconds !== undefined")
    bars = opened.locator("input[type=range]")
    labels = [bars.nth(k).get_attribute("aria-label").removesuffix(", slider") for k in range(bars.count())]
    of_place = {"r_s [bohr]", "ζ", "α", "q"}
    rows = {label: moved(opened, bars.nth(k)) for k, label in enumerate(labels)}
    opened.close()
    parameters = [x for label, row in rows.items() if label not in of_place for x in row]
    places = [x for label, row in rows.items() if label in of_place for x in row]
    told = lambda row: {"median": round(statistics.median(row), 1), "slowest": round(max(row), 1), "moves": len(row)}
    return {
        "functional": name,
        "asked_ms": ASKED[name],
        "megabytes": round(path.stat().st_size / 1e6, 2),
        "made_in_s": round(made, 1),
        "parameters_ms": told(parameters) if parameters else None,
        "place_ms": told(places),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--save", action="store_true")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        rows = [measured(chromium, name, folder) for name in ASKED]
        about = {"machine": platform.processor() or platform.machine(), "chromium": chromium.version}
        chromium.close()
    for row in rows:
        print(json.dumps(row))
    if options.parse_args().save:
        RECORD.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
