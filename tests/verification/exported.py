"""Accuracy of exported C code: against our kernels and 150 digits at the oracle's points, and at extreme points.

    python -m tests.verification.exported [--order 4] [name ...]

writes data/export/accuracy.json, one row for each functional: largest errors by order (`scaled_error`), what the
exported test program prints, lines of C, results that are no numbers among 10^5 extreme points of one and two spins.
"""

import argparse
import json
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
from dftfd.xc.pointwise import pointwise_kernel
from dftfd.xc.variables import VARIABLES, family_of
from tests.exported_code import Code, run_test, shared_library
from tests.verification.oracle_points import ORACLE, errors_to_oracle, extreme_points, oracle_points

FILE = Path(__file__).parents[2] / "data/export/accuracy.json"
FORMULAS = """lda_x lda_c_vwn lda_c_pw lda_x_erf gga_x_pbe gga_x_b88 gga_x_pw91 gga_x_optx gga_c_pbe gga_c_lyp gga_c_p86
gga_x_wpbeh_sr hyb_gga_xc_wb97x mgga_x_tpss mgga_c_tpss mgga_x_scan mgga_c_scan mgga_x_r2scan mgga_c_r2scan mgga_x_m06_l
mgga_c_bc95 mgga_x_br89 mgga_x_mn15_l mgga_k_pc07""".split()
EXTREME = 100_000


def errors_to_kernel(code, functional, n_spin, order):
    """Largest error by order, against our kernel at the oracle's points."""
    x, errors = oracle_points(n_spin), []
    n = x[0] if n_spin == 1 else x[0] + x[1]
    reference = pointwise_kernel(functional.semilocal_part, n_spin).by_component(x, order, compiled=False)
    for found, expected in zip(code.derivatives(x, n_spin, order), reference, strict=True):
        kinds = {c: [family_of(k, n_spin) for k in c] for c in found}
        zero = np.zeros_like(n)
        errors.append(max(float(scaled_error(y, expected.get(c, zero), n, kinds[c]).max()) for c, y in found.items()))
    return errors


def without_a_number(code, n_spin, order):
    """How many results at extreme points are none."""
    found = code.derivatives(extreme_points(n_spin, EXTREME), n_spin, order)
    return sum(int((~np.isfinite(row)).sum()) for rows in found for row in rows.values())


def row_of(name, order):
    functional = get_functional(name)
    exported = Exported(identifier(functional.name), functional, order)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        start = time.perf_counter()
        paths = dftfd.export(functional, folder, order=order)
        exporting = time.perf_counter() - start
        lines = sum(len(p.read_text().splitlines()) for p in paths if p.suffix == ".c")
        code = Code(shared_library(folder, "-O1", "-Wall", "-Wextra", "-Werror"), exported)
        row = {"functional": name, "order": order, "lines": lines, "export_seconds": round(exporting, 1)}
        for n_spin in VARIABLES:
            row[f"errors to our kernel, {n_spin} spins"] = errors_to_kernel(code, functional, n_spin, order)
            row[f"no numbers, {n_spin} spins"] = without_a_number(code, n_spin, min(order, 2))
        with h5py.File(ORACLE) as file:
            known = name in file
        if known and order >= 2:
            row["errors to 150 digits"] = errors_to_oracle(code, name)
        row["test program"] = run_test(folder, "-O0").strip()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FORMULAS)
    parser.add_argument("--order", type=int, default=4)
    given = parser.parse_args()
    for name in given.names:
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
