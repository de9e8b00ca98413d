"""Accuracy of exported C code: against our kernels and 150 digits at the oracle's points, and at extreme points.

    python -m tests.verification.exported [--order 4] [--again] [--table] [name ...]

writes data/export/accuracy.json, one row for each functional: largest errors by order (`scaled_error`), what the
exported test program prints, lines of C, results that are no numbers among 10^6 extreme points of one and two spins
(second order), and what compilers say: gcc and clang, C99 and C++, without a warning, and clang's sanitizers for
addresses and undefined behaviour. Rows that are complete are not made again. --table prints them in Markdown.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

import dftfd
from dftfd.functionals.registry import get_functional
from dftfd.runtime.version import VERSION
from dftfd.translate.c_files import Exported
from dftfd.translate.programs import identifier
from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import VARIABLES, family_of
from dftfd.xc.pointwise import pointwise_kernel
from tests.exported_code import WARNINGS, Code, own_functional, run_test, shared_library
from tests.test_export import learned
from tests.verification.oracle_points import ORACLE, errors_to_oracle, extreme_points, oracle_points

FILE = Path(__file__).parents[2] / "data/export/accuracy.json"
FORMULAS = """own learned_8 learned_40 lda_x lda_c_vwn lda_c_pw lda_x_erf gga_x_pbe gga_x_b88 gga_x_pw91 gga_x_optx
gga_c_pbe gga_c_lyp gga_c_p86 gga_x_wpbeh_sr hyb_gga_xc_wb97x mgga_x_tpss mgga_c_tpss mgga_x_scan
mgga_c_scan mgga_x_r2scan mgga_c_r2scan mgga_x_m06_l mgga_c_bc95 mgga_x_br89 mgga_x_mn15_l mgga_k_pc07""".split()
EXTREME, BLOCKS = 100_000, 10
BUILDS = {
    "gcc, C99": ("gcc", "-std=c99", "-pedantic"),
    "clang, C99": ("clang", "-std=c99", "-pedantic"),
    "gcc, C++": ("gcc", "-xc++"),
    "clang, C++": ("clang", "-xc++"),
    "sanitizers": ("clang", "-std=c99", "-fsanitize=address,undefined", "-fno-sanitize-recover"),
}
OWN = {"own": own_functional, "learned_8": lambda: learned(8, 2), "learned_40": lambda: learned(40, 2)}


def errors_to_kernel(code, functional, n_spin, order):
    """Largest error by order, against our kernel at the oracle's points."""
    x, errors = oracle_points(n_spin), []
    n = x[0] if n_spin == 1 else x[0] + x[1]
    reference = pointwise_kernel(functional.semilocal_part, n_spin).by_component(x, order, compiled=False)
    for found, expected in zip(code.derivatives(x, n_spin, order), reference, strict=True):
        kinds = {c: [family_of(k, n_spin) for k in c] for c in found}
        zero = np.zeros_like(n)
        scaled = {c: scaled_error(y, expected.get(c, zero), n, kinds[c]) for c, y in found.items()}
        errors.append(max(float(error.max()) for error in scaled.values()))
    return errors


def without_a_number(code, n_spin, order):
    """How many results at extreme points are none."""
    count = 0
    for seed in range(BLOCKS):
        found = code.derivatives(extreme_points(n_spin, EXTREME, seed), n_spin, order)
        count += sum(int((~np.isfinite(row)).sum()) for rows in found for row in rows.values())
    return count


def builds(folder):
    """{setup: what the test program prints, or what the compiler says}."""
    found = {}
    for name, (compiler, *flags) in BUILDS.items():
        try:
            found[name] = run_test(folder, "-O0", *WARNINGS, *flags, compiler=compiler).strip()
        except subprocess.CalledProcessError as error:
            found[name] = f"fails: {error}"
    return found


def row_of(name, order):
    functional = OWN[name]() if name in OWN else get_functional(name)
    exported = Exported(identifier(functional.name), functional, order)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        start = time.perf_counter()
        paths = dftfd.export(functional, folder, order=order)
        exporting = time.perf_counter() - start
        lines = sum(len(p.read_text().splitlines()) for p in paths if p.suffix == ".c")
        code = Code(shared_library(folder, "-O1", *WARNINGS), exported)
        row = {"functional": name, "order": order, "lines": lines, "export_seconds": round(exporting, 1)}
        for n_spin in VARIABLES:
            row[f"errors to our kernel, {n_spin} spins"] = errors_to_kernel(code, functional, n_spin, order)
            row[f"no numbers, {n_spin} spins"] = without_a_number(code, n_spin, min(order, 2))
        with h5py.File(ORACLE) as file:
            known = name in file
        if known and order >= 2:
            row["errors to 150 digits"] = errors_to_oracle(code, name)
        row["builds"] = builds(folder)
    return row


def table(rows) -> str:
    """Largest errors by order of both spins, results that are no numbers, builds that are right."""
    orders = "energy, first, second, third, fourth".split(", ")
    lines = [
        "| Functional | " + " | ".join(orders) + " | from 150 digits | no numbers | builds |",
        "| --- |" + " --- |" * 8,
    ]
    for row in rows:
        pairs = zip(row["errors to our kernel, 1 spins"], row["errors to our kernel, 2 spins"], strict=True)
        errors = [f"{max(pair):.1e}" for pair in pairs]
        digits = ", ".join(f"{e:.0e}" for e in row.get("errors to 150 digits", [])) or "-"
        none = row["no numbers, 1 spins"] + row["no numbers, 2 spins"]
        right = [" 0 wrong" in text for text in row.get("builds", {}).values()]
        lines.append(
            f"| {row['functional']} | {' | '.join(errors)} | {digits} | {none} | {sum(right)} of {len(right)} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FORMULAS)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--again", action="store_true", help="make rows that are complete once more")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"version": VERSION, "rows": []}
    complete = {r["functional"] for r in stored["rows"] if "builds" in r}
    if given.table:
        print(table(stored["rows"]))
        return
    for name in [n for n in given.names if given.again or n not in complete]:
        row = row_of(name, given.order)
        print(json.dumps(row), flush=True)
        stored = json.loads(FILE.read_text()) if FILE.exists() else {"version": VERSION, "rows": []}
        stored["rows"] = sorted(
            [r for r in stored["rows"] if r["functional"] != name] + [row], key=lambda r: r["functional"]
        )
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
