"""Why evaluations of a graph are cached: a nest of functions in which each level uses the one below twice.

M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024, figure 2. With

    h_0(x) = sin(x),   h_{n+1}(x) = exp(h_n(x)) + tanh(h_n(x)),   each divided by 8 to keep values small,

a naive evaluation calls h_n twice from h_{n+1}: 2^n calls. Inside one outermost call dftfd evaluates each node of the
graph once for each point, so the cost is linear in the depth, and so is that of the functional derivative.

    python examples/paper/call_cache.py             naive to depth 14, cached to depth 30, and the figure
    python examples/paper/call_cache.py --quick     naive to depth 10, cached to depth 12
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dftfd import autofd

FIGURE = Path("paper_call_cache.png")  # in the current folder
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(8)
X = autofd.Domain((), points=POINTS, weights=WEIGHTS, name="x")


def naive(depth):
    """The nest as Python functions that call each other."""
    h = jnp.sin
    for _ in range(depth):
        h = lambda x, below=h: (jnp.exp(below(x)) + jnp.tanh(below(x))) / 8
    return h


def nested(h, depth):
    """The nest as a graph of operators."""
    for _ in range(depth):
        h = (autofd.exp(h) + autofd.tanh(h)) / 8
    return h


def seconds(action):
    """Wall time of a first call, which includes tracing and compilation, and its result."""
    jax.clear_caches()
    began = time.perf_counter()
    value = jax.block_until_ready(action())
    return time.perf_counter() - began, value


def main(quick: bool):
    deepest, deepest_naive = (12, 10) if quick else (30, 14)
    depths = range(0, deepest + 1, 2)
    sine = autofd.function(jnp.sin, X)
    energy = lambda depth: lambda f: autofd.integrate(nested(f, depth))
    rows = []
    print(f"{'depth':>5} {'naive [s]':>10} {'equations':>10} {'cached [s]':>11} {'equations':>10} {'gradient [s]':>13}")
    for depth in depths:
        h = nested(sine, depth)
        row = {"depth": depth, "cached_equations": len(jax.make_jaxpr(h.evaluate)(0.3).eqns)}
        row["cached"], value = seconds(lambda h=h: h(0.3))
        row["gradient"], _ = seconds(lambda depth=depth: autofd.grad(energy(depth))(sine)(0.3))
        if depth <= deepest_naive:
            row["naive_equations"] = len(jax.make_jaxpr(naive(depth))(0.3).eqns)
            row["naive"], reference = seconds(lambda depth=depth: jax.jit(naive(depth))(0.3))
            assert abs(float(value) - float(reference)) < 1e-14
        rows.append(row)
        print(
            f"{depth:5d} {row.get('naive', np.nan):10.3f} {row.get('naive_equations', 0):10d} {row['cached']:11.3f} "
            f"{row['cached_equations']:10d} {row['gradient']:13.3f}",
            flush=True,
        )
    return rows


def picture(rows, path):
    """Figure 2 of the paper: time of a first call against depth."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for axes, suffix, label in ((left, "", "time of a first call [s]"), (right, "_equations", "equations")):
        for name, marker in (("naive", "o"), ("cached", "s")):
            chosen = [r for r in rows if name + suffix in r]
            axes.plot([r["depth"] for r in chosen], [r[name + suffix] for r in chosen], marker + "-", ms=4, label=name)
        axes.set(xlabel="depth of the nest", ylabel=label, yscale="log")
    left.plot([r["depth"] for r in rows], [r["gradient"] for r in rows], "^-", ms=4, label="cached, with gradient")
    figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller depths, no figure")
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # compilations of earlier runs are kept on disk
    rows = main(options.quick)
    if not options.quick:
        picture(rows, FIGURE)
