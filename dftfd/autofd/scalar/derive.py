"""Scalar programs from scalar programs: with derivatives, with fewer inputs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.on_jax import run
from dftfd.autofd.scalar.program import Node, ScalarProgram
from dftfd.autofd.scalar.reader import point_program
from dftfd.autofd.scalar.vocabulary import LOGICAL
from dftfd.errors import UnsupportedError

SCALAR = jax.ShapeDtypeStruct((), np.float64)


def with_gradient(
    program: ScalarProgram, count: int | None = None, inline: bool = False, keep=frozenset()
) -> ScalarProgram:
    """Program of (value, derivatives with respect to the first `count` inputs) from the program of one value.

    inline, keep: see `point_program`.
    UnsupportedError for loops whose number of turns depends on the inputs, which have no derivative in reverse.
    """
    if any(node.op == "call" and node.code.name == "while" for node in map(program.nodes.__getitem__, program.needed)):
        raise UnsupportedError("a while_loop has no derivative; write a fori_loop or scan of a fixed number of turns.")
    count = program.n_inputs if count is None else count

    def code(*inputs):
        moving, still = inputs[:count], inputs[count:]
        value, pull = jax.vjp(lambda *x: run(program, [*x, *still])[0], *moving)
        return value, *pull(jnp.ones_like(value))

    return point_program(code, *[SCALAR] * program.n_inputs, inline=inline, keep=keep)


def with_forward_derivative(program: ScalarProgram, n: int, inline: bool, keep=frozenset()) -> ScalarProgram:
    """Adds n seeds for the first n inputs, and to the outputs the derivative along them of all but the first."""

    def code(*inputs):
        before, seeds = inputs[: program.n_inputs], inputs[program.n_inputs :]
        rest = [jnp.zeros(())] * (program.n_inputs - n)
        values, derivatives = jax.jvp(lambda *a: tuple(run(program, list(a))), before, (*seeds, *rest))
        return *values, *derivatives[1:]

    return point_program(code, *[SCALAR] * (program.n_inputs + n), inline=inline, keep=keep)


def with_all_derivatives(program: ScalarProgram, n: int, inline: bool, keep=frozenset()) -> ScalarProgram:
    """Adds to the outputs the derivatives of all but the first with respect to each of the first n inputs in turn."""

    def code(*inputs):
        values = run(program, list(inputs))
        along = lambda x, still: tuple(run(program, [*x, *still])[1:])
        moving, still = inputs[:n], inputs[n:]
        found = [jax.jvp(lambda *x: along(x, still), moving, tuple(unit))[1] for unit in np.eye(n)]
        return *values, *(derivative for of_one in found for derivative in of_one)

    return point_program(code, *[SCALAR] * program.n_inputs, inline=inline, keep=keep)


def of_equal_spins(program: ScalarProgram) -> ScalarProgram:
    """Program of (rho, sigma, lapl, tau) of the total density, and of what else it takes; what spin symmetry makes zero
    is gone."""

    def code(rho, sigma, lapl, tau, *others):
        n, s, l, t = 0.5 * rho, 0.25 * sigma, 0.5 * lapl, 0.5 * tau
        return run(program, [n, n, s, s, s, l, l, t, t, *others])

    return point_program(code, *[SCALAR] * (program.n_inputs - 5))


def restricted(program: ScalarProgram, used) -> ScalarProgram:
    """The program as a function of the inputs at these positions, all that it depends on."""

    def code(*x):
        inputs = dict(zip(used, x, strict=True))
        return run(program, [inputs.get(k, jnp.zeros(())) for k in range(program.n_inputs)])

    return point_program(code, *[SCALAR] * len(used))


def retraced(program: ScalarProgram, inline: bool, keep=frozenset()) -> ScalarProgram:
    """The same program, simplified once more."""
    return point_program(lambda *x: run(program, list(x)), *[SCALAR] * program.n_inputs, inline=inline, keep=keep)


def with_numbers_first(program: ScalarProgram, uniform: range) -> tuple[ScalarProgram, ScalarProgram]:
    """(what depends on the inputs `uniform` alone, the rest): the second takes the other inputs, then the first's
    outputs. Where `uniform` are the same for many points, the first is computed once for all of them. Truth values stay
    in the second, since its inputs are numbers.
    """
    nodes, alone = program.nodes, set[int]()
    for i in program.needed:
        node = nodes[i]
        known = bool(node.args) and all(a in alone or nodes[a].op == "const" for a in node.args)
        inside = node.value in uniform if node.op == "input" else known and node.op not in LOGICAL
        if inside:
            alone.add(i)
    used = {a for i in program.needed if i not in alone for a in nodes[i].args if a in alone}
    border = sorted(used | alone.intersection(program.outputs))
    count = program.n_inputs - len(uniform)
    place = {i: count + k for k, i in enumerate(border)}
    shifted = lambda k: k if k < uniform.start else k - len(uniform)
    rest = [
        Node("input", value=place[i])
        if i in place
        else Node("input", value=shifted(node.value))
        if node.op == "input" and i not in alone
        else node
        for i, node in enumerate(nodes)
    ]
    return (
        replace(program, outputs=tuple(border)),
        ScalarProgram(tuple(rest), program.outputs, count + len(border)),
    )
