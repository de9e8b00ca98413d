"""Time of functionals on arrays, value and first derivatives, against libxc as PySCF calls it.

    python examples/benchmarks/functional_kernels.py pbe scan                       these, both spin layouts
    python examples/benchmarks/functional_kernels.py --all --save                   every native functional
    OMP_NUM_THREADS=1 python examples/benchmarks/functional_kernels.py --clock cpu --all      for a busy machine

Both get the same points, and end with energy and first derivatives in arrays: `dftfd.interop.libxc.evaluate` from rho,
sigma and tau, `pyscf.dft.libxc.eval_xc1` from rho, its gradient and tau. Calls alternate, the ratio is the median over
pairs. Energies are compared first, so a fast wrong answer stops the benchmark. PySCF does not pass Laplacians to libxc;
functionals of them, and those that libxc lacks, are timed alone.
"""

import argparse
from functools import partial

import jax
import measuring
import numpy as np
from measuring import CLOCKS, machine, ratio_of, seconds
from pyscf.dft import libxc as pyscf_libxc

import dftfd
from dftfd.errors import UnsupportedError
from dftfd.functionals.registry import list_functionals
from dftfd.interop import libxc
from dftfd.verify.point_comparison import counterpart
from dftfd.verify.sampling import sample
from dftfd.xc.pointwise import pointwise_kernel

TARGETS = dict.fromkeys(("pbe", "blyp", "tpss"), 2.0) | dict.fromkeys(("scan", "r2scan"), 1.5)
OTHERS = 1 / 1.2
"""Asked of libxc's time over ours."""

TOLERANCE = 1e-7
"""Of the total energy density, relative; some of libxc's short-range functionals are off by 2e-6 at single points."""


def points(n_spin: int, count: int) -> np.ndarray:
    """Half of the points from cores and valence, half from the tails."""
    half = count // 2
    return np.hstack([sample(n_spin, region, n) for region, n in (("dense", half), ("dilute", count - half))])


def arrays(x, n_spin) -> dict:
    """Rows of libxc's variables by name."""
    names = {1: (1, 1, 1, 1), 2: (2, 3, 2, 2)}[n_spin]
    stops = np.cumsum(names)
    rows = {f: x[b - a : b] for f, a, b in zip(("rho", "sigma", "lapl", "tau"), names, stops, strict=True)}
    return {f: np.ascontiguousarray(block[0] if n_spin == 1 else block) for f, block in rows.items()}


def density_of(given, n_spin, family) -> np.ndarray:
    """PySCF's density array: rho, a gradient with these scalar products, tau."""
    if family == "LDA":
        return given["rho"]
    if n_spin == 1:
        gradient = np.zeros((1, 3, given["rho"].size))
        gradient[0, 0] = np.sqrt(given["sigma"])
    else:
        aa, ab, bb = given["sigma"]
        along = ab / np.sqrt(aa)
        gradient = np.zeros((2, 3, aa.size))
        gradient[0, 0], gradient[1, 0], gradient[1, 1] = np.sqrt(aa), along, np.sqrt(bb - along**2)
    rho, tau = (np.atleast_2d(given[name])[:, None] for name in ("rho", "tau"))
    out = np.concatenate([rho, gradient] + ([tau] if family == "MGGA" else []), axis=1)
    return np.ascontiguousarray(out[0] if n_spin == 1 else out)


def peer_of(functional, given, n_spin):
    """PySCF's evaluation of the same functional, or None with the reason."""
    try:
        terms = counterpart(functional)
    except UnsupportedError:
        return None, "libxc lacks it"
    if any(libxc.needs_laplacian(name) for _, name in terms):
        return None, "PySCF passes no Laplacian"
    text = " + ".join(f"{c!r}*{name.upper()}" for c, name in terms) + ","
    density = density_of(given, n_spin, pyscf_libxc.xc_type(text))
    return lambda: pyscf_libxc.eval_xc1(text, density, n_spin - 1, deriv=1), ""


def measure(name: str, n_spin: int, count: int, pairs: int, clock: str) -> dict:
    """One row of results."""
    timed = partial(seconds, clock=CLOCKS[clock])
    functional = dftfd.get_functional(name).semilocal_part
    given = arrays(points(n_spin, count), n_spin)
    kernel = pointwise_kernel(functional, n_spin)
    ours = lambda: libxc.evaluate(functional, **{f: given[f] for f in kernel.ingredients})
    few = {f: given[f][..., :10] for f in kernel.ingredients}
    compile_seconds, _ = seconds(lambda: libxc.evaluate(functional, **few))
    theirs, reason = peer_of(dftfd.get_functional(name), given, n_spin)
    row = {
        "functional": name,
        "spins": n_spin,
        "points": count,
        "clock": clock,
        "operations": kernel.code.program(1).length,
        "compile_seconds": round(compile_seconds, 2),
    }
    our_seconds, our_result = timed(ours)
    if theirs is None:
        times = [our_seconds, *(timed(ours)[0] for _ in range(pairs - 1))]
        return row | {"pairs": 0, "dftfd_seconds": round(float(np.median(times)), 4), "no_peer": reason}
    n = np.atleast_2d(given["rho"]).sum(axis=0)
    e, their_e = n * our_result.exc, n * theirs()[0]
    error = float(np.abs(e - their_e).sum() / np.abs(their_e).sum())
    if not error < TOLERANCE:
        raise SystemExit(f"{name}, {n_spin} spin(s): energies differ by {error:.1e}")
    return row | ratio_of([(timed(theirs)[0], timed(ours)[0]) for _ in range(pairs)]) | {"energy_error": error}


def natives() -> list[str]:
    """Names of all functionals with an energy and a semilocal part, one name for each."""
    found, kept = [], set()
    for name in sorted(list_functionals(), key=len):
        f = dftfd.get_functional(name)
        if not f.has_energy or not f.is_semilocal or f.semilocal_part.exact_exchange_ranges:
            continue
        key = pointwise_kernel(f.semilocal_part, 1)
        if key not in kept:
            kept.add(key)
            found.append(name)
    return sorted(found)


def report(row) -> str:
    """One line; * where less than asked."""
    start = f"{row['functional']:24s} {row['spins']} {row['operations']:5d} operations"
    start += f", compiled in {row['compile_seconds']:5.2f} s | dftfd {_nanoseconds(row, 'dftfd')}"
    if "no_peer" in row:
        return f"{start}, {row['no_peer']}"
    low, high = row["ratio_range"]
    missed = "*" if row["ratio"] < TARGETS.get(row["functional"], OTHERS) else " "
    times = f"libxc {_nanoseconds(row, 'pyscf')}, ratio {row['ratio']:5.2f}{missed} ({low} to {high})"
    return f"{start}, {times}, energies differ by {row['energy_error']:.0e}"


def _nanoseconds(row, code) -> str:
    return f"{row[f'{code}_seconds'] / row['points'] * 1e9:6.1f} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(TARGETS))
    parser.add_argument("--all", action="store_true", help="every native functional")
    parser.add_argument("--spins", type=int, nargs="+", choices=(1, 2), default=(1, 2))
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs of calls")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: CPU seconds, needs OMP_NUM_THREADS=1")
    parser.add_argument("--save", action="store_true", help="append to data/benchmarks/functional_kernels.json")
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # compilation is timed
    measuring.require_one_thread_for(options.clock)
    rows = []
    try:
        for name in natives() if options.all else options.names:
            for n_spin in options.spins:
                rows.append(measure(name, n_spin, options.points, options.pairs, options.clock))
                print(report(rows[-1]), flush=True)
    finally:
        if options.save and rows:
            measuring.keep("functional_kernels", [{**machine(), "rows": rows}])


if __name__ == "__main__":
    main()
