"""A neural operator trained by functional gradient descent: its kernels and biases are functions, not arrays.

M. Lin, "Automatic Functional Differentiation in JAX", ICLR 2024, appendix H (figures 4 to 6). Two layers

    g(y) = activation( integral of k(y, x) f(x) dx + b(y) ),       tanh, then none,

map the function f(x) = sin(4 pi x) to a target cos(pi y). The loss is the integral of the squared difference. One step
of gradient descent is  k <- k - 0.1 dL/dk,  b <- b - 0.1 dL/db  with functional derivatives, which are functions again:
after n steps the first kernel is a graph of operators through all the steps, and still a function of (y, x) that can be
evaluated anywhere.

    python examples/paper/neural_operator.py             4 steps on 100 points, and the figures
    python examples/paper/neural_operator.py --quick     2 steps on 20 points
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from dftfd import autofd

IMAGES = Path()  # the current folder
RATE = 0.1


def problem(n: int):
    """(parameters, input, target) on [0, 1] with n equidistant points of equal weight."""
    X = autofd.Domain((), points=np.linspace(0.0, 1.0, n), weights=np.full(n, 1 / n), name="x")
    f = autofd.function(lambda x: jnp.sin(4 * np.pi * x), X)
    b = autofd.function(lambda x: jnp.sin(np.pi * x), X)
    k = autofd.function(lambda y, x: jnp.sin(y) + jnp.cos(x), X, X)
    target = autofd.function(lambda x: jnp.cos(np.pi * x), X)
    return (k, b, k, b), f, target


def layer(k, b, f, activation=None):
    """y -> activation(integral of k(y, x) f(x) dx + b(y))"""
    g = autofd.integrate(k * autofd.broadcast(f, k.domains, 1), argnums=1) + b
    return g if activation is None else activation(g)


def output(parameters, f):
    k1, b1, k2, b2 = parameters
    return layer(k2, b2, layer(k1, b1, f, autofd.tanh))


def loss(parameters, f, target):
    return autofd.integrate((output(parameters, f) - target) ** 2)


def train(parameters, f, target, steps: int):
    """The parameters before the first and after every step, and the losses."""
    history, losses = [parameters], []
    derivative = autofd.value_and_grad(loss)
    for step in range(steps + 1):
        began = time.perf_counter()
        if step == steps:
            value = loss(parameters, f, target)
        else:
            value, gradient = derivative(parameters, f, target)
            parameters = tuple(p - g * RATE for p, g in zip(parameters, gradient, strict=True))
            history.append(parameters)
        losses.append(float(value))
        print(f"step {step}: loss {losses[-1]:.12f}   {time.perf_counter() - began:6.2f} s", flush=True)
    return history, losses


def graph_size(f) -> int:
    """Number of different nodes in the graph of a function."""
    seen, stack = set(), [f]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.operands)
    return len(seen)


def main(quick: bool):
    steps, n = (2, 20) if quick else (4, 100)
    parameters, f, target = problem(n)
    history, losses = train(parameters, f, target, steps)
    print("nodes in the graph of the first kernel:", ", ".join(str(graph_size(p[0])) for p in history))
    return history, losses, f, target


def on_mesh(k, mesh):
    """Values of a function of two arguments, first argument along rows."""
    return jax.jit(jax.vmap(jax.vmap(k, (None, 0)), (0, None)))(mesh, mesh)


def picture(history, losses, f, target):
    """Figures 4 to 6 of the paper: loss and output for each step, first kernel, second kernel."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x = np.linspace(0.0, 1.0, 61)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
    left.semilogy(losses, "o-")
    left.set(xlabel="step", ylabel="loss", xticks=range(len(losses)))
    for step, parameters in enumerate(history):
        right.plot(x, jax.jit(jax.vmap(output(parameters, f)))(x), label=f"step {step}")
    right.plot(x, jax.vmap(target)(x), color="black", ls="--", label="target")
    right.set(xlabel="y", title="output of the operator")
    right.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGES / "paper_neural_operator.png", dpi=130)
    plt.close(figure)

    figure, rows = plt.subplots(2, len(history), figsize=(2.4 * len(history), 4.8), layout="constrained")
    for row, (index, name) in zip(rows, ((0, "k1"), (2, "k2")), strict=True):
        for step, (axes, parameters) in enumerate(zip(row, history, strict=True)):
            values = on_mesh(parameters[index], x)
            image = axes.imshow(values, origin="lower", extent=(0, 1, 0, 1), cmap="viridis", vmin=0, vmax=2.4)
            axes.set(title=f"{name}, step {step}", xlabel="x", ylabel="y" if step == 0 else "")
    figure.colorbar(image, ax=rows, shrink=0.8, extend="both")
    figure.savefig(IMAGES / "paper_neural_operator_kernels.png", dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and points, no figures")
    options = parser.parse_args()
    history, losses, f, target = main(options.quick)
    if not options.quick:
        picture(history, losses, f, target)
