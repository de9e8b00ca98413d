"""Exported functionals inside libxc's own source tree: registered by libxc's script, built, run through libxc's check.

    python -m tests.verification.libxc_tree TREE FOLDER [--all] [NAME ...]

TREE: libxc 7 with its generated C (src/maple2c), as its releases have it; it is not changed. FOLDER: where the copy is
built, again only what is new where it is there. Each NAME is one that libxc has, too: the reference values that libxc's
testsuite holds for it (molecules and atoms, both spin layouts, energy to second derivatives as far as they go) are
those that the exported functional has to give, under its own name, to libxc's own tolerances. --all: the check of
libxc's own functionals, too. Prints one line of JSON for each name and writes data/export/libxc_tree.json.
"""

import argparse
import bz2
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import dftfd
from dftfd.runtime.version import VERSION
from dftfd.translate.c_files import Exported
from dftfd.translate.libxc_source import name_in_tree
from dftfd.translate.programs import identifier

FILE = Path(__file__).parents[2] / "data/export/libxc_tree.json"
NAMES = ("lda_c_pw", "gga_x_pbe", "gga_c_pbe", "gga_c_lyp", "mgga_x_r2scan", "mgga_c_tpss", "hyb_gga_xc_b3lyp")
ORDER = 2
"""As far as libxc's reference values go."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def copy_of(tree: Path, folder: Path) -> Path:
    """A copy of the tree without its generated C, which is linked."""
    copy = folder / "libxc"
    if not copy.exists():
        shutil.copytree(tree, copy, ignore=lambda path, names: {"maple2c"} & set(names))
        (copy / "src/maple2c").symlink_to(tree.resolve() / "src/maple2c")
    return copy


def without_what_is_missing(copy: Path) -> list[str]:
    """Take out functionals whose generated C is missing or ends within an #if; a tree may be no whole release.

    Their numbers and functions stay, for others that name them.
    """
    count = lambda text, word: len(re.findall(rf"^\s*#\s*{word}", text, re.MULTILINE))
    left_out, kept = [], copy / "left_out.txt"
    if kept.exists():
        return kept.read_text().split()
    for source in sorted(copy.glob("src/*.c")):
        text = source.read_text(errors="replace")
        for name in re.findall(r'#include "(maple2c/[^"]+)"', text):
            found = copy / "src" / name
            generated = found.read_text(errors="replace") if found.exists() else "#if"
            if count(generated, "if") != count(generated, "endif"):
                numbers = re.findall(r"^#define\s+XC_\S+\s+\d+.*$", text, re.MULTILINE)
                with (copy / "src/left_out.h").open("a") as file:
                    file.write("\n".join(numbers) + "\n")
                source.write_text(text[: text.index(f'#include "{name}"')])
                left_out.append(source.stem)
                break
    kept.write_text("\n".join(left_out))
    return left_out


def put_in(copy: Path, functional) -> str:
    """Write a functional's exported code into the tree's src and list it; its name there."""
    exported = Exported(identifier(functional.name), functional, ORDER)
    name, source = name_in_tree(exported), copy / "src"
    with tempfile.TemporaryDirectory() as folder:
        paths = dftfd.export(functional, folder, order=ORDER)
        kept = [p for p in paths if p.parent == Path(folder) and p.suffix in (".c", ".h") and "_test" not in p.name]
        for path in kept:  # libxc has files of the functional's name itself
            shutil.copy(path, source / (path.name if path.suffix == ".h" else f"dftfd_{path.name}"))
        shutil.copy(Path(folder) / f"libxc/{exported.name}_libxc.c", source / f"{name}.c")
    added = [f"{name}.c", *(f"dftfd_{p.name}" for p in kept if p.suffix == ".c")]
    lists = copy / "CMakeLists.txt"
    text = lists.read_text()
    for file in added:
        if f"\n  {file}\n" not in text:
            text = text.replace("\n  version.c\n", f"\n  version.c\n  {file}\n")
    if "INSIDE_LIBXC" not in text:
        text = text.replace('set(src_prefix "src/")', 'add_definitions(-DINSIDE_LIBXC)\nset(src_prefix "src/")')
    lists.write_text(text)
    return name


def build(copy: Path, jobs: int) -> Path:
    """Register all functionals by libxc's script, compile; the folder of the build."""
    source, made = copy / "src", copy / "build"
    subprocess.run([sys.executable, "../scripts/get_functional_info.py", "--srcdir=."], cwd=source, check=True)
    if (source / "left_out.h").exists():
        with (source / "xc_funcs.h").open("a") as file:
            file.write((source / "left_out.h").read_text())
    flags = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0 -w", "-DBUILD_TESTING=ON"]
    subprocess.run(["cmake", "-S", copy, "-B", made, *flags], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", made, f"-j{jobs}"], check=True, stdout=subprocess.DEVNULL)
    return made


def give_references(copy: Path, theirs: str, ours: str) -> int:
    """libxc's reference values of one name for another; how many files. Each begins with the number of its name."""
    found = list(copy.glob(f"testsuite/regression/*/{theirs}.*.bz2"))
    (number,) = re.findall(rf"(?mi)^#define\s+XC_{ours}\s+(\d+)", (copy / f"src/{ours}.c").read_text())
    for path in found:
        _, rest = bz2.decompress(path.read_bytes()).split(b" ", 1)
        path.with_name(path.name.replace(theirs, ours, 1)).write_bytes(bz2.compress(number.encode() + b" " + rest))
    return len(found)


def checked(copy: Path, name: str = "") -> dict:
    """{"OK": count, "FAIL": count} of libxc's check for a name, or for all, and the lines that fail."""
    programs = next((copy / "build").rglob("xc-regression")).parent
    with tempfile.TemporaryDirectory() as scratch:
        suite = copy / "testsuite"
        places = {"srcdir": str(suite), "builddir": str(programs), "tmpdir": scratch, "PATH": "/usr/bin:/bin"}
        arguments = ["bash", str(suite / "xc-run_testsuite"), *([name] if name else [])]
        found = subprocess.run(arguments, env=places, capture_output=True, text=True)
    lines = [_COLOURS.sub("", line).split() for line in found.stdout.splitlines() if " * " in _COLOURS.sub("", line)]
    counts = Counter(line[-1] for line in lines)
    return {**counts, "failing": [" ".join(line[1:-1]) for line in lines if line[-1] != "OK"], "exit": found.returncode}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--built", action="store_true", help="check what an earlier run built")
    given = parser.parse_args()
    copy = copy_of(given.tree, given.folder)
    left_out = without_what_is_missing(copy)
    if given.built:
        of_name = lambda name: Exported(identifier(name), dftfd.get_functional(name), ORDER)
        inside = {name: name_in_tree(of_name(name)) for name in given.names}
    else:
        inside = {name: put_in(copy, dftfd.get_functional(name)) for name in given.names}
        build(copy, given.jobs)
    rows = []
    for theirs, ours in inside.items():
        files = give_references(copy, theirs, ours)
        rows.append({"functional": theirs, "in libxc's tree": ours, "reference files": files, **checked(copy, ours)})
        print(json.dumps(rows[-1]), flush=True)
    if given.all:
        found = checked(copy)
        found["failing"] = dict(Counter(line.split()[0] for line in found["failing"]))  # cases by name
        rows.append({"functional": "all names of libxc and ours", **found})
        print(json.dumps(rows[-1]), flush=True)
    found = {"version": VERSION, "left out": left_out, "rows": rows}
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
