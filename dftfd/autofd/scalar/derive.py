"""Scalar programs from scalar programs: with derivatives, with fewer inputs.

A program is carried out on the nodes of a new one. Its derivatives are put together from those of its operations, each
of which JAX has traced once in a process: formulas of derivatives are JAX's, and a long program costs no tracing, which
took half a second for a thousand operations.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from dftfd.autofd.scalar.jaxprs import has_reverse_rule
from dftfd.autofd.scalar.on_jax import OnJax
from dftfd.autofd.scalar.on_numpy import Operation, exactly
from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.reader import Reader, Table, kept_whole, point_program
from dftfd.autofd.scalar.simplify import POINT
from dftfd.autofd.scalar.vocabulary import LOGICAL
from dftfd.errors import UnsupportedError


class OnNodes(Reader):
    """Scalars are numbers of nodes; results of an equation that was kept whole are arrays of them.

    inputs: nodes of the new program's inputs.   inline, keep, fold: as in `point_program`.
    """

    def __init__(self, n_inputs: int, inline: bool = False, keep=frozenset(), fold: bool = True):
        super().__init__(POINT, kept_whole(inline), keep=keep, fold=fold)
        self.inputs = [self.intern(Node("input", value=k)) for k in range(n_inputs)]

    def program(self, outputs) -> ScalarProgram:
        return ScalarProgram(tuple(self.nodes), tuple(outputs), len(self.inputs))

    def constant(self, value):
        return self.intern(Node("const", value=value))

    def apply(self, node, args):
        if node.op == "entry":
            results = args[0]
            return int(results[node.params["result"]].reshape(-1)[node.params["index"]])
        if node.op == "call":
            with jax.ensure_compile_time_eval():
                return self._equation(node.code.eqn, self._operands(node.code, args))
        if all(self.nodes[a].op == "const" for a in args):
            values = [self.nodes[a].value for a in args]
            if self.fold or not (node.real or any(map(np.iscomplexobj, values))):
                return self.constant(self._carried_out(node, values))
        if node.op == "look up":
            return self.intern(replace(node, args=tuple(args)))
        make = self.make if node.real else self.plain
        return make(node.op, args, node.code, node.params, **({} if node.real else {"real": False}))

    @staticmethod
    def _carried_out(node, values):
        with np.errstate(all="ignore"), jax.ensure_compile_time_eval():
            exact = exactly(node.op, node.params, [np.asarray(v) for v in values])
            found = node.code.bind(*map(np.asarray, values), **node.params) if exact is None else exact
        return np.asarray(found)[()]

    def _operands(self, block, scalars):
        """What the equation of a block takes, from its scalar operands one after the other."""
        given: dict[Any, Table | np.ndarray] = {v: Table(values) for v, values in block.tables.items()}
        place = 0
        for v in block.inputs:
            size = int(np.prod(v.aval.shape))
            given[v] = np.array(scalars[place : place + size], dtype=np.int64).reshape(v.aval.shape)
            place += size
        return [self.constants(v.val) if isinstance(v, Literal) else given[v] for v in block.eqn.invars]


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


def of_equal_spins(program: ScalarProgram, fold: bool = True) -> ScalarProgram:
    """Program of (rho, sigma, lapl, tau) of the total density, and of what else it takes; what spin symmetry makes zero
    is gone."""
    new = OnNodes(program.n_inputs - 5, fold=fold)
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


class Derivatives(OnNodes):
    """The nodes of a program and of its derivatives; inline, keep: as in `point_program`.

    reverse: whether a gradient is wanted, with which functions of jax.custom_vjp have the value that their rule gives.
    values: by node of the program, its node here; of an equation that was kept whole, arrays of those of its results.
    """

    def __init__(self, program: ScalarProgram, inline: bool, keep, more_inputs: int = 0, reverse: bool = False):
        super().__init__(program.n_inputs + more_inputs, inline, keep)
        self._of, self._options, self._reverse = program, (inline, frozenset(keep)), reverse
        self._opened: list[str] = []
        everything = replace(program, outputs=program.needed)
        self.values = dict(zip(program.needed, evaluate(everything, self, self.inputs), strict=True))
        self._picked: dict[int, list[int]] = {}  # of equations kept whole
        for i in program.needed:
            if program.nodes[i].op == "entry":
                self._picked.setdefault(program.nodes[i].args[0], []).append(i)

    def apply(self, node, args):
        """As carried out in JAX: the value of jax.custom_vjp is that of its rule, which can be differentiated once more
        in either mode; the function itself cannot."""
        if not (self._reverse and node.op == "call" and has_reverse_rule(node.code.eqn)):
            return super().apply(node, args)
        written = str(node.code.eqn)
        if written in self._opened:  # in the value of a rule that calls its own function
            return super().apply(node, args)
        shapes = [v.aval.shape for v in node.code.eqn.outvars]
        ends = np.cumsum([0, *map(math.prod, shapes)])
        picks = tuple((r, k) for r, shape in enumerate(shapes) for k in range(math.prod(shape)))
        types = tuple(self._type(a) for a in node.args)
        operands = tuple(p for p, t in enumerate(types) if np.issubdtype(t, np.floating))
        self._opened.append(written)
        found = evaluate(_values(Operation(node.kind, node), types, operands, picks, self._options), self, args)
        self._opened.pop()
        return [np.array(found[a:b]).reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]

    def outputs(self) -> list[int]:
        return [self.values[i] for i in self._of.outputs]

    def gradient(self, count: int | None) -> list[int]:
        """Slopes of the first output by the first `count` inputs, None for all."""
        first = range(self._of.n_inputs if count is None else count)
        moving = self._moving(first)
        slopes, found = {self._of.outputs[0]: self.number(1.0)}, dict.fromkeys(first, self.number(0.0))
        for i in reversed(self._of.needed):
            node, results = self._of.nodes[i], self._results(i, moving)
            if i not in moving or node.op == "entry" or not any(k in slopes for k in results):
                continue
            if node.op == "input":
                found[node.value] = slopes[i]
                continue
            operands = [p for p, a in enumerate(node.args) if a in moving]
            given = [slopes.get(k, self.number(0.0)) for k in results]
            for p, slope in zip(operands, self._rule(_backwards, i, operands, results, given), strict=True):
                a = node.args[p]
                if not self.is_value(slope, 0):
                    slopes[a] = self.sum(slopes[a], slope) if a in slopes else slope
        return [found[k] for k in first]

    def along(self, seeds: dict[int, int]) -> list[int]:
        """Rates of all outputs from those of inputs, by position."""
        rates: dict[int, int] = {}
        moving = self._moving(seeds)
        for i in (i for i in self._of.needed if i in moving):
            node = self._of.nodes[i]
            operands = [p for p, a in enumerate(node.args) if a in rates]
            if node.op == "input":
                rates[i] = seeds[node.value]
            elif operands and node.op != "entry":
                if node.op == "call" and has_reverse_rule(node.code.eqn):
                    raise UnsupportedError(
                        f"{node.code.name} has a derivative rule for reverse mode alone (jax.custom_vjp), a forward "
                        "derivative is needed; write it with jax.custom_jvp, which serves both."
                    )
                results = self._results(i, moving)
                found = self._rule(_forwards, i, operands, results, [rates[node.args[p]] for p in operands])
                rates |= {k: r for k, r in zip(results, found, strict=True) if not self.is_value(r, 0)}
        return [rates.get(i, self.number(0.0)) for i in self._of.outputs]

    def _moving(self, inputs) -> set[int]:
        """Nodes that change with these inputs, in so far as they are real numbers."""
        found: set[int] = set()
        for i in self._of.needed:
            node = self._of.nodes[i]
            if node.value in inputs if node.op == "input" else node.real and found.intersection(node.args):
                found.add(i)
        return found

    def _results(self, i, moving) -> list[int]:
        """The scalars that a node stands for: itself, or the entries of an equation that was kept whole."""
        return [k for k in self._picked.get(i, ()) if k in moving] if self._of.nodes[i].op == "call" else [i]

    def _rule(self, rule, i, operands, results, given) -> list[int]:
        """What a rule makes of a node, and of slopes or rates."""
        nodes = self._of.nodes
        node = nodes[i]
        picks = tuple((nodes[k].params["result"], nodes[k].params["index"]) for k in results if node.op == "call")
        types = tuple(self._type(a) for a in node.args)
        program = rule(Operation(node.kind, node), types, tuple(operands), picks, self._options)
        return evaluate(program, self, [*(self.values[a] for a in node.args), *given])

    def _type(self, i) -> np.dtype:
        node = self._of.nodes[i]
        if node.op == "const":
            return node.value.dtype
        if node.real:
            return np.dtype(np.float64)
        if node.op in LOGICAL:
            return np.dtype(bool) if node.op not in ("and", "or", "not", "xor") else self._type(node.args[0])
        if "new_dtype" in node.params:
            return np.dtype(node.params["new_dtype"])
        if node.op == "entry":
            return self._of.nodes[node.args[0]].code.eqn.outvars[node.params["result"]].aval.dtype
        if node.op == "look up":
            return node.code.array.dtype
        return self._type(node.args[-1])  # of select_n a branch


def _code(node, picks, operands):
    """(operands of the node) -> code of those that move, with a tuple of the results that are used."""

    def at(values):
        def code(*moving):
            given = dict(zip(operands, moving, strict=True))
            results = OnJax(()).apply(node, [given.get(p, x) for p, x in enumerate(values)])
            return tuple(results[r][k] for r, k in picks) if node.op == "call" else (results,)

        return code, [values[p] for p in operands]

    return at


def _program(code, types, count, options) -> ScalarProgram:
    specs = [jax.ShapeDtypeStruct((), t) for t in (*types, *[np.float64] * count)]
    return point_program(lambda *x: code(x[: len(types)], x[len(types) :]), *specs, inline=options[0], keep=options[1])


@lru_cache(maxsize=1024)
def _backwards(operation: Operation, types, operands, picks, options) -> ScalarProgram:
    """Of all operands, then slopes by the results: slopes by operands."""
    at = _code(operation.node, picks, operands)

    def code(values, slopes):
        function, moving = at(values)
        return jax.vjp(function, *moving)[1](tuple(slopes))

    return _program(code, types, len(picks) if operation.node.op == "call" else 1, options)


@lru_cache(maxsize=1024)
def _values(operation: Operation, types, operands, picks, options) -> ScalarProgram:
    """Of all operands: the results, by the rules for reverse mode."""
    at = _code(operation.node, picks, operands)

    def code(values, _):
        function, moving = at(values)
        return jax.vjp(function, *moving)[0]

    return _program(code, types, 0, options)


@lru_cache(maxsize=1024)
def _forwards(operation: Operation, types, operands, picks, options) -> ScalarProgram:
    """Of all operands, then rates of some: rates of the results."""
    at = _code(operation.node, picks, operands)

    def code(values, rates):
        function, moving = at(values)
        return jax.jvp(function, tuple(moving), tuple(rates))[1]

    return _program(code, types, len(operands), options)
