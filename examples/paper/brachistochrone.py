"""The curve of fastest descent, found by a neural network trained in three ways.

M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024, section 4.1 and appendix G (figure 1). A bead slides
without friction from (0, 0) to (1, -1) along y(x); its time is F[y] / sqrt(2 g) with

    F[y] = integral of sqrt(1 + y'(x)^2) / sqrt(-y(x)) dx.

The curve is y(x) = sin(pi x) MLP(x) - x, the integral a sum over 50 points from 0.01 to 1. Three losses:

    direct       F[y_theta], differentiated with respect to theta as it stands: the gradient of the sum over points
    projected    integral of (dF/dy)(x) y_theta(x) dx with dF/dy held fixed: the functional derivative, pulled back
    stationary   integral of (dF/dy)^2 dx: the functional derivative is made to vanish

On so coarse a grid the sum can be lowered in ways that the integral cannot: between its points the direct loss leaves
the curve free. The functional derivative knows the curve's slope and curvature, and losses made of it come closer to
the cycloid that solves the problem.

    python examples/paper/brachistochrone.py             10,000 steps of each, about 2 minutes on two cores
    python examples/paper/brachistochrone.py --quick     300 steps of a smaller network, no figure
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from dftfd import autofd

FIGURE = Path("paper_brachistochrone.png")  # in the current folder
X = autofd.Domain((), points=np.linspace(0.01, 1.0, 50), weights=np.full(50, 1 / 50), name="x")


def descent(y):
    """The time of descent times sqrt(2 g), a functional of the curve."""
    return autofd.integrate(autofd.sqrt(1.0 + autofd.nabla(y) ** 2) / autofd.sqrt(-y))


# ---- the curve


def initial_layers(key, sizes):
    """(weights, bias) of each layer: truncated normal with standard deviation 1 / sqrt(inputs), and zero."""
    layers = []
    for n, m in zip(sizes[:-1], sizes[1:], strict=True):
        key, own = jax.random.split(key)
        layers.append((jax.random.truncated_normal(own, -2.0, 2.0, (n, m)) / np.sqrt(n), jnp.zeros(m)))
    return layers


def network(layers, x):
    """Multilayer perceptron R -> R with sigmoid activations."""
    h = jnp.reshape(x, (1,))
    for weights, bias in layers[:-1]:
        h = jax.nn.sigmoid(h @ weights + bias)
    weights, bias = layers[-1]
    return (h @ weights + bias)[0]


def curve(layers):
    """y(x) = sin(pi x) MLP(x) - x, which passes through (0, 0) and (1, -1)."""
    return autofd.function(lambda layers, x: jnp.sin(np.pi * x) * network(layers, x) - x, X, params=(layers,))


# ---- the three losses


def direct(layers):
    return descent(curve(layers))


def projected(layers):
    y = curve(layers)
    slope = jax.lax.stop_gradient(jax.vmap(autofd.grad(descent)(y))(X.points))
    return jnp.sum(X.weights * slope * jax.vmap(y)(X.points))


def stationary(layers):
    return autofd.integrate(autofd.grad(descent)(curve(layers)) ** 2)


LOSSES = {"direct": direct, "projected": projected, "stationary": stationary}


def adam(loss, parameters, steps, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    """Parameters after `steps` of D. P. Kingma and J. Ba, arXiv 1412.6980, and the loss at each step."""
    tree_map = jax.tree_util.tree_map

    def step(state, k):
        p, m, v = state
        value, g = jax.value_and_grad(loss)(p)
        m = tree_map(lambda a, b: b1 * a + (1 - b1) * b, m, g)
        v = tree_map(lambda a, b: b2 * a + (1 - b2) * b * b, v, g)
        first, second = 1 - b1**k, 1 - b2**k
        p = tree_map(lambda a, b, c: a - rate * (b / first) / (jnp.sqrt(c / second) + eps), p, m, v)
        return (p, m, v), value

    zero = tree_map(jnp.zeros_like, parameters)
    run = jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(1.0, steps + 1)))
    (parameters, _, _), values = run((parameters, zero, zero))
    return parameters, values


# ---- the solution


def cycloid():
    """(x, y) of the exact curve on a fine mesh: x = r (t - sin t), y = -r (1 - cos t), and its F, sqrt(2 r) t_1."""
    end = brentq(lambda t: (t - np.sin(t)) - (1 - np.cos(t)), 1.0, 4.0)
    r = 1 / (1 - np.cos(end))
    t = np.linspace(0.0, end, 4001)
    return r * (t - np.sin(t)), -r * (1 - np.cos(t)), np.sqrt(2 * r) * end


def exact_time(layers):
    """F of the trained curve by an accurate quadrature; x = s^2 takes out the singularity at the start."""
    s, w = np.polynomial.legendre.leggauss(2000)
    s, w = (s + 1) / 2, w / 2
    y = curve(layers)
    values, slopes = jax.vmap(lambda x: (y(x), autofd.nabla(y)(x)))(s**2)
    return float(np.sum(w * 2 * s * np.sqrt(1 + slopes**2) / np.sqrt(-values)))


def main(quick: bool, seed: int = 3):
    steps, sizes = (300, [1, 32, 32, 1]) if quick else (10_000, [1, 128, 128, 128, 1])
    x, y_exact, best = cycloid()
    print(f"network {'-'.join(map(str, sizes[1:]))}, {steps} steps of adam, seed {seed}")
    heads = ("first", "last", "F[y] - exact", "rms error", "max error", "seconds")
    print("loss        ", " ".join(h.rjust(n) for h, n in zip(heads, (11, 11, 13, 10, 10, 8), strict=True)))
    start, results = initial_layers(jax.random.key(seed), sizes), {}
    if not np.isfinite(direct(start)):
        raise SystemExit(
            f"seed {seed}: the first curve rises above its start, where the speed is not real; try another."
        )
    for name, loss in LOSSES.items():
        began = time.perf_counter()
        layers, values = jax.block_until_ready(adam(loss, start, steps))
        seconds = time.perf_counter() - began
        y = np.asarray(jax.vmap(curve(layers))(x))
        error = np.abs(y - y_exact)
        rms = float(np.sqrt(np.trapezoid(error**2, x)))
        results[name] = {"x": x, "y": y, "rms": rms, "losses": np.asarray(values), "layers": layers}
        print(
            f"{name:12} {values[0]:11.6f} {values[-1]:11.6f} {exact_time(layers) - best:13.2e} {rms:10.2e} "
            f"{error.max():10.2e} {seconds:8.1f}",
            flush=True,
        )
    return results, (x, y_exact)


def picture(results, exact, path):
    """Figure 1 of the paper: the curves, their distance from the cycloid, and the functional derivative left."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    left.plot(*exact, color="black", lw=3, alpha=0.3, label="cycloid")
    for name, r in results.items():
        left.plot(r["x"], r["y"], lw=1, label=name)
        middle.plot(r["x"], np.abs(r["y"] - exact[1]) + 1e-9, lw=1, label=name)
        y = curve(r["layers"])
        inside = np.linspace(0.02, 0.99, 300)
        right.plot(inside, np.abs(jax.vmap(autofd.grad(descent)(y))(inside)) + 1e-9, lw=1, label=name)
    left.set(xlabel="x", ylabel="y", title="curve")
    middle.set(xlabel="x", yscale="log", ylim=(1e-6, 1), title="distance from the cycloid")
    right.set(xlabel="x", yscale="log", title="|functional derivative|")
    left.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smaller network and fewer steps, no figure")
    parser.add_argument("--seed", type=int, default=3, help="seed of the initial network")
    options = parser.parse_args()
    results, exact = main(options.quick, options.seed)
    if not options.quick:
        picture(results, exact, FIGURE)
        print(f"figure: {FIGURE}")
        closer = [name for name in ("projected", "stationary") if results[name]["rms"] < results["direct"]["rms"]]
        print(f"closer to the cycloid than the direct loss: {', '.join(closer) or 'none'}")
