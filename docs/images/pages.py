"""Pictures of every kind of page, at the width of a phone and of a desktop, in build/screenshots: what to look at;
and two pictures of docs/.

    make docs && python docs/images/pages.py

Chromium without a window (apt install chromium), driven by Playwright (pip install 'dftfd[browser]'). The workbench and
the page of a result are made anew.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import dftfd

ROOT = Path(__file__).parents[2]
SITE, FOLDER = ROOT / "build" / "site", ROOT / "build" / "screenshots"
KINDS = {
    "start": "index",
    "path": "learn/design",
    "question": "howto/potential_at_a_point",
    "lesson": "lessons/derivatives",
    "theory": "theory",
    "gallery": "examples/index",
    "example": "examples/02_potential_along_a_bond.py",
    "guide": "results",
    "measured": "performance",
    "reliability": "reliability",
    "regression": "regression",
    "reference": "reference/functionals",
}
WIDTHS = {"phone": {"width": 390, "height": 780}, "desktop": {"width": 1280, "height": 800}}
WATER = "O 0 0 0.1173; H 0 0.7572 -0.4692; H 0 -0.7572 -0.4692"
QUALITY = 55


def made(folder: Path) -> dict[str, Path]:
    """The workbench, with two functionals, and the page of a result with its excitations."""
    found = {"workbench": folder / "workbench.html", "result": folder / "result.html"}
    dftfd.workbench("pbe", "b88,lyp").write(found["workbench"])
    result = dftfd.run_scf(dftfd.molecule(WATER, basis="def2-svp"), "pbe")
    result.view(result.excitations(5)).write(found["result"])
    return found


def documentation(chromium, opened: dict[str, Path]):
    """The pictures of docs/: a result on a desktop; the workbench and a result on phones, side by side."""
    page = chromium.new_page(viewport={"width": 1200, "height": 650})
    page.goto(opened["result"].as_uri())
    page.wait_for_timeout(1500)
    page.screenshot(path=Path(__file__).parent / "view.png")
    phones = "".join(f'<iframe src="{opened[kind].as_uri()}"></iframe>' for kind in ("workbench", "result"))
    path = opened["result"].with_name("phones.html")
    path.write_text(f"<style>body {{ margin: 0 }} iframe {{ width: 390px; height: 780px; border: 0 }}</style>{phones}")
    page.set_viewport_size({"width": 786, "height": 780})
    page.goto(path.as_uri())
    page.wait_for_timeout(2500)
    page.screenshot(path=Path(__file__).parent / "on_a_phone.png")
    page.close()


def main():
    missing = [name for name in KINDS.values() if not (SITE / f"{name}.html").is_file()]
    if missing:
        sys.exit(f"{SITE} lacks {', '.join(missing)}; run make docs.")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        pages = {kind: SITE / f"{name}.html" for kind, name in KINDS.items()} | made(Path(folder))
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for kind, path in pages.items():
            for width, viewport in WIDTHS.items():
                for scheme in ("light", "dark") if kind in ("start", "workbench") else ("light",):
                    opened = chromium.new_page(viewport=viewport, color_scheme=scheme)
                    opened.goto(path.as_uri())
                    opened.wait_for_timeout(1500)
                    name = f"{kind}_{width}{'_dark' if scheme == 'dark' else ''}.jpg"
                    opened.screenshot(path=FOLDER / name, type="jpeg", quality=QUALITY)
                    opened.close()
        documentation(chromium, pages)
        chromium.close()
    sizes = [path.stat().st_size for path in FOLDER.glob("*.jpg")]
    print(f"{len(sizes)} pictures, {sum(sizes) / 1e6:.2f} MB, in {FOLDER}")


if __name__ == "__main__":
    main()
