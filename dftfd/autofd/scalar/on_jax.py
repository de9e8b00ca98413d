"""Scalar programs in JAX: on numbers, on arrays of points, and on long arrays as one loop over the points, or a few.

XLA makes a loop for each array that it keeps. What several results share it either stores, or computes again for each
of them: a meta-GGA with its derivatives became 160 loops with twice the arithmetic. A reduction over windows of one
point may have any number of results and any scalar code, and is one loop with everything in registers: 2.5 times
faster, compiled in a quarter of the time.

Beyond some 3,000 operations such a loop becomes slow, a hundred times slower than it should be from 3,700 on
(gga_x_wpbeh_sr of two spins: 60 microseconds per point). Long programs are therefore cut close to their results, which
are sums, of the spins' exchange and of correlation for instance, and what is cut off is shared out over loops that stay
short of that.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from dftfd.autofd.core import roots
from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.vocabulary import KEPT_APART

LONGEST = 2800
"""Operations that one loop may have."""

_CODES = {"add": jax.lax.add, "mul": jax.lax.mul, "div": jax.lax.div, "max": jax.lax.max, "min": jax.lax.min}
"""What simplification makes anew, without the parameters that JAX gives some of these (mul's out_dtype)."""


class OnJax:
    """Scalars are JAX numbers, or arrays of one shape, (point,)."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def constant(self, value):
        return jnp.full(self.shape, value)

    def apply(self, node, args):
        if node.op in KEPT_APART and self.shape:
            return jax.vmap(lambda *a: node.code.bind(*a, **node.params))(*args)
        return _CODES[node.op](*args) if node.op in _CODES else node.code.bind(*args, **node.params)


class _InLoop(OnJax):
    """Scalars of a loop that LLVM is to make one of vectors.

    One call that is not known in vectors, and all of the loop goes point by point. XLA's cube root is one, and, where
    vectors have 256 bits, rsqrt, to which it turns 1/sqrt(x) but not 1/|sqrt(x)|: B88 took 130 ns per point, now 56.
    """

    def __init__(self):
        super().__init__(())

    def apply(self, node, args):
        if node.op in ("sqrt", "rsqrt"):
            root = jax.lax.abs(jax.lax.sqrt(*args))
            return root if node.op == "sqrt" else 1.0 / root
        if node.op == "cbrt":
            return roots.cbrt(*args)
        return super().apply(node, args)


def run(program: ScalarProgram, inputs) -> list:
    """Outputs of a program on numbers, or on arrays (point,), as such."""
    return evaluate(program, OnJax(jnp.shape(inputs[0]) if len(inputs) else ()), inputs)


def run_in_one_loop(program: ScalarProgram, inputs, numbers=()) -> list:
    """Outputs (point,) of a program on arrays (point,), to be compiled; for results that JAX need not differentiate.

    numbers: its last inputs, each the same for all points. Inputs before them that it does not need may be left out.
    """
    absent = [None] * (program.n_inputs - len(inputs) - len(numbers))
    everywhere = [jnp.full(inputs[0].shape, number) for number in numbers]
    plain = lambda part, more=(): run(part, [*inputs, *absent, *everywhere, *more])
    if any(program.nodes[i].op in KEPT_APART for i in program.needed):
        return plain(program)
    if program.length <= LONGEST:
        return _loop(program, inputs, absent, numbers)
    nodes, found = list(program.nodes), []
    for group in groups_for_loops(program):
        for place, i in enumerate(group, program.n_inputs + len(found)):
            nodes[i] = Node("input", value=place)
        found += _loop(replace(program, outputs=group), inputs, absent, numbers)
    rest = ScalarProgram(tuple(nodes), program.outputs, program.n_inputs + len(found))
    return plain(rest, found)


def groups_for_loops(program: ScalarProgram) -> list[tuple[int, ...]]:
    """Nodes from which few operations lead to the outputs, in groups of at most LONGEST operations each.

    The largest first, each to the group that it makes least longer.
    """
    groups: list[tuple[list[int], set[int]]] = []
    for i, needed in sorted(_cut(program).items(), key=lambda item: (-len(item[1]), item[0])):
        fitting = [g for g in groups if len(g[1] | needed) <= LONGEST]
        if fitting:
            members, operations = min(fitting, key=lambda g: len(needed - g[1]))
            members.append(i)
            operations |= needed
        else:
            groups.append(([i], set(needed)))
    return [tuple(members) for members, _ in groups]


def _cut(program) -> dict[int, frozenset[int]]:
    """{node: its operations}: the summands of the outputs, or what they are made of where they are too long."""
    found, pending = {}, list(program.outputs)
    while pending:
        i = pending.pop()
        node = program.nodes[i]
        constants = [a for a in node.args if program.nodes[a].op == "const"]
        is_sum = node.op in ("add", "add_any", "sub", "neg") or node.op == "mul" and len(constants) == 1
        operations = replace(program, outputs=(i,)).operations
        if is_sum or not node.real or len(operations) > LONGEST:
            pending += node.args
        elif operations:
            found[i] = operations
    return found


def _loop(program, inputs, absent, numbers):
    code = lambda values, numbers: evaluate(program, _InLoop(), [*values, *absent, *numbers])
    return in_one_loop(code, inputs, numbers, len(program.outputs))


def in_one_loop(code, arrays, numbers, n_out: int) -> list:
    """The `n_out` results (point,) of code(numbers at a point, numbers of all points) on arrays (point,), to be
    compiled.

    Windows of one point meet what a reduction starts from, (start, value), so that numbers come along as starts: they
    cost no arrays.
    """
    count = max(len(arrays), n_out, len(numbers))  # a reduction has as many operands as results and starts
    operands = (*arrays, *[arrays[0]] * (count - len(arrays)))
    starts = (*numbers, *[jnp.zeros(())] * (count - len(numbers)))

    def of_point(starts, values):
        out = code(list(values[: len(arrays)]), list(starts[: len(numbers)]))
        return (*out, *values[len(out) :])

    return list(jax.lax.reduce_window(operands, starts, of_point, (1,), (1,), "VALID"))[:n_out]
