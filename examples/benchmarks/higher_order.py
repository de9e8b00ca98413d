"""Cost of higher functional derivatives: Taylor mode, Hessian-vector products in three ways, Jacobians in two.

    python examples/benchmarks/higher_order.py             all tables
    python examples/benchmarks/higher_order.py --save      and data/benchmarks/higher_order.json
    python examples/benchmarks/higher_order.py --quick     small orders, few repetitions

1. d^n/dt^n E[f + t d] of a one-dimensional functional of f and f', by Taylor mode and by forward mode nested n times:
   operations as traced (results of all equations, per point) and as counted by XLA in the compiled program, which finds
   many that are repeated; seconds to trace and compile, and to run.
2. The second derivative of the PBE exchange energy applied to a change of the density, at the points of a grid in R^3.
3. Jacobians of vmapped values of functions: the exchange potential at all points with respect to the parameters of the
   density (many rows, few columns), and the energy with respect to them (one row).

Each comparison checks that the ways agree before it times them. Times are medians of interleaved repetitions.
"""

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import dftfd
from dftfd import autofd
from dftfd.functionals.registry import get_functional

RESULTS = Path(__file__).parents[2] / "data" / "benchmarks" / "higher_order.json"


def compiled(code, *args):
    """(executable, seconds to trace and compile, floating-point operations that XLA counts)"""
    began = time.perf_counter()
    executable = jax.jit(code).lower(*args).compile()
    seconds = time.perf_counter() - began
    cost = executable.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return executable, seconds, float(cost["flops"])


def traced_operations(code, *args) -> int:
    """Numbers computed by the equations of a program, inner programs included."""
    count, stack = 0, [jax.make_jaxpr(code)(*args).jaxpr]
    while stack:
        for eqn in stack.pop().eqns:
            values = jax.tree_util.tree_leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns"))
            inner = [getattr(p, "jaxpr", p) for p in values if hasattr(p, "eqns")]
            stack.extend(inner)
            count += 0 if inner else sum(int(np.prod(v.aval.shape)) for v in eqn.outvars)
    return count


def medians(executables: dict, args: dict, repeats: int) -> dict:
    """Median wall time of each executable, taken in turns."""
    times = {name: [] for name in executables}
    for _ in range(repeats + 1):
        for name, executable in executables.items():
            began = time.perf_counter()
            jax.block_until_ready(executable(*args[name]))
            times[name].append(time.perf_counter() - began)
    return {name: float(np.median(t[1:])) for name, t in times.items()}


# ---- 1. order n along a line

X = autofd.periodic(4000, name="x")


def energy(f):
    return autofd.integrate(autofd.cbrt(f) * autofd.nabla(f) ** 2 + autofd.exp(f) * autofd.tanh(f))


def line(t):
    f = autofd.function(lambda x: 1.5 + jnp.sin(x), X)
    d = autofd.function(lambda x: jnp.cos(2 * x), X)
    return energy(f + d * t)


def nested(n):
    code = line
    for _ in range(n):
        code = lambda t, g=code: jax.jvp(g, (t,), (jnp.ones(()),))[1]
    return code


def taylor(n):
    return lambda t: autofd.derivatives_along(line, (t,), (jnp.ones(()),), n)[n]


def along_a_line(orders, deepest_nest, repeats):
    zero, rows = jnp.zeros(()), []
    print(f"\n1. d^n E / dt^n, operations per point{'Taylor mode':>20}{'nested forward mode':>52}")
    heads = f"{'traced':>9} {'compiled':>9} {'compile [s]':>12} {'run [ms]':>9}"
    print(f"{'n':>3} {heads}   {heads}")
    for n in orders:
        row, programs = {"order": n}, {}
        for name, code in (("taylor", taylor(n)), ("nested", nested(n))):
            if name == "taylor" or n <= deepest_nest:
                programs[name], row[f"{name}_compile_seconds"], operations = compiled(code, zero)
                row[f"{name}_operations"] = operations / len(X.weights)
                row[f"{name}_traced_operations"] = traced_operations(code, zero) / len(X.weights)
        values = [float(p(zero)) for p in programs.values()]
        if not np.allclose(values, values[0], rtol=1e-9):
            raise SystemExit(f"order {n}: {values}")
        for name, seconds in medians(programs, dict.fromkeys(programs, (zero,)), repeats).items():
            row[f"{name}_run_seconds"] = seconds
        rows.append(row)
        cells = [
            f"{row[f'{k}_traced_operations']:9.0f} {row[f'{k}_operations']:9.0f} "
            f"{row[f'{k}_compile_seconds']:12.2f} {1e3 * row[f'{k}_run_seconds']:9.3f}"
            for k in programs
        ]
        print(f"{n:3d} {'   '.join(cells)}", flush=True)
    return rows


# ---- 2. Hessian-vector products


def gaussian_density(points, weights):
    R3 = autofd.Domain((3,), points=points, weights=weights, name="r")
    n = autofd.function(lambda r: jnp.exp(-jnp.sum(r**2)) + 0.3 * jnp.exp(-0.5 * jnp.sum((r - 0.4) ** 2)), R3)
    dn = autofd.function(lambda r: r[0] * jnp.exp(-0.8 * jnp.sum(r**2)), R3)
    return n, dn


def space(size):
    line = autofd.gauss_hermite(size)
    plain = autofd.Domain((), points=line.points, weights=line.weights / jax.vmap(line.density)(line.points))
    return autofd.product(plain, plain, plain)


def exchange(n):
    return get_functional("gga_x_pbe").energy(autofd.compose(lambda n: jnp.stack([n / 2, n / 2]), n))


def hessian_vector_products(size, repeats):
    R3 = space(size)
    n, dn = gaussian_density(R3.points, R3.weights)
    modes = ("forward-over-reverse", "reverse-over-forward", "reverse-over-reverse")
    programs, rows, values = {}, [], {}
    for mode in modes:
        code = lambda points, mode=mode: jax.vmap(autofd.hvp(exchange, n, dn, mode=mode))(points)
        programs[mode], seconds, operations = compiled(code, R3.points)
        values[mode] = np.asarray(programs[mode](R3.points))
        rows.append({"mode": mode, "points": len(R3.weights), "compile_seconds": seconds, "operations": operations})
    times = medians(programs, dict.fromkeys(programs, (R3.points,)), repeats)
    print(f"\n2. E_x''[n] dn of PBE exchange at {len(R3.weights)} points")
    print(f"{'mode':>22} {'operations':>12} {'compile [s]':>12} {'run [ms]':>9} {'deviation':>10}")
    for row in rows:
        mode = row["mode"]
        row["run_seconds"] = times[mode]
        scale = np.abs(values[modes[0]]).max()
        row["deviation"] = float(np.abs(values[mode] - values[modes[0]]).max() / scale)
        print(
            f"{mode:>22} {row['operations']:12.0f} {row['compile_seconds']:12.2f} {1e3 * row['run_seconds']:9.3f} "
            f"{row['deviation']:10.1e}"
        )
    return rows


# ---- 3. Jacobians


def jacobians(size, parameters, repeats):
    R3 = space(size)
    exponents = jnp.linspace(0.5, 2.0, parameters)

    def density(c):
        return autofd.function(lambda c, r: jnp.sum(c**2 * jnp.exp(-exponents * jnp.sum(r**2))), R3, params=(c,))

    tall = lambda c: jax.vmap(autofd.grad(exchange)(density(c)))(R3.points)
    flat = lambda c: exchange(density(c))[None]
    c, rows = jnp.linspace(1.0, 0.5, parameters), []
    print(f"\n3. Jacobians with respect to {parameters} parameters of the density")
    print(f"{'map':>28} {'mode':>7} {'operations':>12} {'compile [s]':>12} {'run [ms]':>9}")
    for name, code in ((f"potential at {len(R3.weights)} points", tall), ("energy", flat)):
        programs, own = {}, []
        for mode, jacobian in (("jacfwd", jax.jacfwd), ("jacrev", jax.jacrev)):
            programs[mode], seconds, operations = compiled(jacobian(code), c)
            own.append({"map": name, "mode": mode, "compile_seconds": seconds, "operations": operations})
        a, b = (np.asarray(p(c)) for p in programs.values())
        if not np.allclose(a, b, rtol=1e-8, atol=1e-10 * np.abs(a).max()):
            raise SystemExit(f"{name}: jacfwd and jacrev differ by {np.abs(a - b).max()}")
        times = medians(programs, dict.fromkeys(programs, (c,)), repeats)
        for row in own:
            row["run_seconds"] = times[row["mode"]]
            print(
                f"{name:>28} {row['mode']:>7} {row['operations']:12.0f} {row['compile_seconds']:12.2f} "
                f"{1e3 * row['run_seconds']:9.3f}",
                flush=True,
            )
        rows += own
    return rows


def main(quick: bool) -> dict:
    repeats = 2 if quick else 15
    return {
        "date": datetime.date.today().isoformat(),
        "versions": {"dftfd": dftfd.__version__, "jax": jax.__version__, "python": platform.python_version()},
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "taylor": along_a_line(range(1, 4 if quick else 9), 2 if quick else 6, repeats),
        "hessian_vector_products": hessian_vector_products(4 if quick else 12, repeats),
        "jacobians": jacobians(4 if quick else 8, 4 if quick else 12, repeats),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small orders and grids")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)  # or compile times are those of a look-up on disk
    table = main(options.quick)
    if options.save:
        RESULTS.write_text(json.dumps(table, indent=1) + "\n")
