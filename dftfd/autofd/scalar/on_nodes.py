"""Scalar programs on the nodes of a new one: how a program becomes part of another, simplified once more."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from dftfd.autofd.scalar.on_numpy import exactly
from dftfd.autofd.scalar.program import Node, ScalarProgram
from dftfd.autofd.scalar.reader import Reader, Table, kept_whole
from dftfd.autofd.scalar.simplify import POINT


class OnNodes(Reader):
    """Scalars are numbers of nodes; results of an equation that was kept whole are arrays of them.

    inputs: nodes of the new program's inputs.   inline, keep: as in `point_program`.
    """

    def __init__(self, n_inputs: int, inline: bool = False, keep=frozenset()):
        super().__init__(POINT, kept_whole(inline), keep=keep)
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
            return self.constant(self._carried_out(node, [self.nodes[a].value for a in args]))
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
