"""Time of exported C code, energy and first derivatives, against libxc's C.

    OMP_NUM_THREADS=1 python examples/benchmarks/exported_code.py              28 formulas of all rungs, both spins
    OMP_NUM_THREADS=1 python examples/benchmarks/exported_code.py gga_x_pbe --flags "-O3 -march=native" --save
    ... --code FOLDER --compile     writes and compiles what FOLDER has not; without --compile what is there is timed

Both are called through ctypes on the same arrays in libxc's layout, in turns, one thread, CPU seconds; the ratio is the
median over pairs of our time to libxc's. The library is the one that PySCF brings along. Ours is compiled as its CMake
file says; `--flags` replaces -O3. Energies are compared first, so a fast wrong answer stops the benchmark.
"""

import argparse
import contextlib
import ctypes
import statistics
import subprocess
import tempfile
from pathlib import Path

import measuring
import numpy as np
from measuring import CLOCKS, machine, seconds

from dftfd.errors import UnsupportedError
from dftfd.functionals.registry import get_functional
from dftfd.interop import libxc
from dftfd.translate.c_files import Exported, c_files
from dftfd.translate.programs import identifier
from dftfd.verify.point_comparison import counterpart
from dftfd.verify.sampling import sample
from dftfd.xc.channels import FAMILIES, MEMBERS, named_components

FORMULAS = """lda_x lda_c_vwn lda_c_pw lda_c_pz lda_x_erf gga_x_pbe gga_x_b88 gga_x_pw91 gga_x_optx gga_c_pbe gga_c_lyp
gga_c_p86 gga_c_pw91 gga_xc_hcth_407 hyb_gga_xc_wb97x mgga_x_tpss mgga_c_tpss mgga_x_scan mgga_c_scan mgga_x_r2scan
mgga_c_r2scan mgga_x_m06_l mgga_c_m06_l mgga_c_bc95 mgga_x_br89 mgga_x_mn15_l mgga_k_pc07 hyb_mgga_xc_wb97m_v""".split()
VECTORISED = ("-fno-math-errno", "-fno-trapping-math", "-fno-tree-pre", "-fno-thread-jumps")
"""What the exported CMake file adds for GCC."""


def compiled(functional, folder: Path, flags):
    """Our function and its results by name, for one order of derivatives."""
    exported, library = Exported(identifier(functional.name), functional, 1), folder / "exported.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in c_files(exported).items():
            (folder / name).write_text(text)
        sources = map(str, folder.glob("*.c"))
        command = ["gcc", *flags, *VECTORISED, "-fPIC", "-shared", *sources, "-lm", "-o", str(library)]
        subprocess.run(command, check=True)
    function = getattr(ctypes.CDLL(str(library)), f"{exported.name}_evaluate")
    function.argtypes = [ctypes.c_int, ctypes.c_size_t, *[ctypes.c_void_p] * 6]
    return exported, function


def our_call(exported, function, arrays, n_spin, n_points):
    """(call, results by name, which have to live as long as the call)"""
    components = exported.components(n_spin)
    results = {s: np.empty((n_points, len(components[s]))) for s in exported.slots if s != "e"}
    table = (ctypes.c_void_p * len(exported.slots))(
        *(results[s].ctypes.data if s in results else None for s in exported.slots)
    )
    pointers = [a.ctypes.data for a in arrays]
    return lambda: function(n_spin, n_points, *pointers, None, ctypes.addressof(table)), results


def libxc_call(terms, arrays, n_spin, n_points, stack):
    """(call of all of libxc's functionals in the sum, function of their energies per particle)"""
    calls = []
    for coefficient, name in terms:
        functional = stack.enter_context(libxc._initialised(name, n_spin))
        used = libxc._USED[functional.family]
        layout = [named_components(n_spin, used, order) for order in (0, 1)]
        outputs = [np.zeros((n_points, len(places))) for of_order in layout for places in of_order.values()]
        flat = [*(arrays[FAMILIES.index(f)] for f in used), *outputs]
        types = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * len(flat)]
        call = libxc._c_function(f"xc_{functional.family}_exc_vxc", None, *types)
        calls.append((coefficient, call, functional.pointer, flat, outputs[0]))

    def run():
        for _, call, pointer, flat, _ in calls:
            call(pointer, n_points, *(a.ctypes.data for a in flat))

    return run, lambda: sum(coefficient * zk for coefficient, *_, zk in calls)


def measure(name, n_spin, n_points, pairs, code):
    """One row of the table."""
    functional = get_functional(name)
    half = n_points // 2
    x = np.hstack([sample(n_spin, "dense", half), sample(n_spin, "dilute", n_points - half)])
    arrays = [np.ascontiguousarray(np.stack([x[k] for k in MEMBERS[n_spin][f]], axis=-1)) for f in FAMILIES]
    with contextlib.ExitStack() as stack:
        ours, results = our_call(*code, arrays, n_spin, n_points)
        theirs, their_energy = libxc_call(counterpart(functional), arrays, n_spin, n_points, stack)
        ours()
        theirs()
        np.testing.assert_allclose(results["zk"][:, 0], np.ravel(their_energy()), rtol=2e-6, atol=1e-9)
        clock = CLOCKS["cpu"]
        times = [(seconds(ours, clock)[0], seconds(theirs, clock)[0]) for _ in range(pairs)]
    ratios = sorted(a / b for a, b in times)
    ns = [1e9 * statistics.median(t[k] for t in times) / n_points for k in (0, 1)]
    return {
        "functional": name, "spins": n_spin, "points": n_points, "pairs": pairs, "ns_per_point": round(ns[0], 1),
        "libxc_ns_per_point": round(ns[1], 1), "ratio": round(statistics.median(ratios), 3),
        "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
    }  # fmt: skip


def timed(name, given, code):
    """Rows of one formula, printed; none where libxc has not the same."""
    rows = []
    for n_spin in (1, 2):
        try:
            row = measure(name, n_spin, given.points, given.pairs, code)
        except UnsupportedError as error:
            print(f"{name}: {error}", flush=True)
            break
        print(
            f"{name:22} {n_spin} {row['ns_per_point']:7.1f} ns, libxc {row['libxc_ns_per_point']:7.1f} ns, "
            f"ratio {row['ratio']:.2f} ({row['ratio_range'][0]:.2f} to {row['ratio_range'][1]:.2f})",
            flush=True,
        )
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=FORMULAS)
    parser.add_argument("--flags", default="-O3")
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--code", type=Path, help="where code is kept; a folder that goes away otherwise")
    parser.add_argument("--compile", action="store_true", help="time nothing")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    measuring.require_one_thread_for("cpu")
    rows = []
    with tempfile.TemporaryDirectory() as passing:
        for name in given.names:
            code = compiled(get_functional(name), (given.code or Path(passing)) / name, given.flags.split())
            if not given.compile:
                rows += timed(name, given, code)
    if given.compile:
        return
    print(
        f"median ratio {statistics.median(r['ratio'] for r in rows):.2f}, largest {max(r['ratio'] for r in rows):.2f}"
    )
    if given.save:
        version = subprocess.run(["gcc", "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]
        how = {"flags": f"{given.flags} {' '.join(VECTORISED)}", "compiler": version, "libxc": libxc.version()}
        measuring.keep("exported_code", [{**machine(), **how, "rows": rows}])


if __name__ == "__main__":
    main()
