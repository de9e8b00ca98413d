"""Scalar programs from scalar programs: with derivatives, with fewer inputs.

A program is carried out on the nodes of a new one. Its derivatives are put together from those of its operations, each
of which JAX has traced once in a process: formulas of derivatives are JAX's, and a long program costs no tracing.
"""

from dataclasses import replace

import jax
import numpy as np

from dftfd.autofd.scalar.differentiation import Derivatives
from dftfd.autofd.scalar.on_nodes import OnNodes
from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
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
    new = Derivatives(program, inline, keep, reverse=True)
    return new.program([new.outputs()[0], *new.gradient(count)])


def with_forward_derivative(program: ScalarProgram, n: int, inline: bool, keep=frozenset()) -> ScalarProgram:
    """Adds n seeds for the first n inputs, and to the outputs the derivative along them of all but the first."""
    new = Derivatives(program, inline, keep, more_inputs=n)
    derivatives = new.along(dict(enumerate(new.inputs[program.n_inputs :])))
    return new.program([*new.outputs(), *derivatives[1:]])


def with_all_derivatives(program: ScalarProgram, n: int, inline: bool, keep=frozenset()) -> ScalarProgram:
    """Adds to the outputs the derivatives of all but the first with respect to each of the first n inputs in turn."""
    new = Derivatives(program, inline, keep)
    derivatives = [d for k in range(n) for d in new.along({k: new.number(1.0)})[1:]]
    return new.program([*new.outputs(), *derivatives])


def of_equal_spins(program: ScalarProgram) -> ScalarProgram:
    """Program of (rho, sigma, lapl, tau) of the total density, and of what else it takes; what spin symmetry makes zero
    is gone."""
    new = OnNodes(program.n_inputs - 5)
    rho, sigma, lapl, tau, *others = new.inputs
    n, s, l, t = (new.product(new.number(a), x) for a, x in ((0.5, rho), (0.25, sigma), (0.5, lapl), (0.5, tau)))
    return new.program(evaluate(program, new, [n, n, s, s, s, l, l, t, t, *others]))


def restricted(program: ScalarProgram, used) -> ScalarProgram:
    """The program as a function of the inputs at these positions, all that it depends on."""
    new = OnNodes(len(used))
    given = dict(zip(used, new.inputs, strict=True))
    zero = new.number(0.0)
    return new.program(evaluate(program, new, [given.get(k, zero) for k in range(program.n_inputs)]))


def retraced(program: ScalarProgram, inline: bool, keep=frozenset()) -> ScalarProgram:
    """The same program, simplified once more."""
    new = OnNodes(program.n_inputs, inline, keep)
    return new.program(evaluate(program, new, new.inputs))


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
