"""From the scalar program of an energy per volume to numbers on points: the energy, and derivatives of any order.

The variables of the program may be any: channels of the density (xc.kernel) or libxc's scalars (xc.pointwise). First
derivatives come from reverse mode; each further order adds one forward derivative along a direction. A program becomes
one fused loop over the points, compiled once for each number of points, or NumPy carries it out without compilation.
What is made of a functional is kept, for the last few functionals, by their content.
"""

import copy
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.jax_adapter import holds_tracers
from dftfd.autofd.core.structure import structural_key
from dftfd.autofd.scalar.derive import retraced, with_forward_derivative, with_gradient, with_numbers_first
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.functionals.base import Functional
from dftfd.runtime.threads import share_out

T = TypeVar("T")

CHUNK = 16384
"""Points that are worked on together: enough to make the cost of a call small, few enough to keep both workers busy."""

POINTS = 4096
"""Points per call of code that has no scalar form."""

_CHUNK_OF_NUMPY = 4096  # NumPy keeps every intermediate result: they should stay in the cache
_COMPILED_ABOVE = 50_000  # points from which compiling derivatives of second order pays (a few seconds)
_MOST_KEPT = 64  # each holds compiled programs, of whose memory maps a process may have 65,530 on Linux
_kept: dict = {}  # last used last
_lock = threading.RLock()


def shared(kind: Callable[..., T], functional: Functional, n_spin: int, **options) -> T:
    """kind(functional, n_spin, **options): the same object for equal functionals, so nothing is compiled twice.

    Equal are functionals of the same formulas, coefficients and parameters, whoever made them and whatever their names.
    """
    if holds_tracers([(c, dict(t.parameters)) for c, t in functional.terms]):
        return kind(functional, n_spin, **options)
    return kept((kind, n_spin, *options.items(), content_key(functional)), kind, functional, n_spin, **options)


def content_key(functional: Functional):
    """A hashable key: equal for equal formulas, coefficients and parameters, which are set by hand or not.

    Coefficients in arrays are others than plain numbers of the same value, since arrays may vary.
    """
    coefficient = lambda c: (float(c), isinstance(c, int | float))
    terms = [(coefficient(c), t.formula, t.ingredients, sorted(t.parameters.items())) for c, t in functional.terms]
    return structural_key([*terms, *(tuple(sorted(t.set_by_hand)) for _, t in functional.terms)])


def kept(key, make: Callable[..., T], *arguments, **options) -> T:
    """make(...), the same object for equal keys as long as it is one of the last that were asked for."""
    made = _kept.get(key) or apart(make, *arguments, **options)
    with _lock:  # not while a formula runs, which may ask for other kernels
        found = _kept[key] = _kept.pop(key, made)  # the first of two threads' is everybody's
        while len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
    return found


def apart(make: Callable[..., T], *arguments, **options) -> T:
    """make(...) in a thread of its own, so that what is kept holds nothing of a JAX transformation around this call.

    `jax.ensure_compile_time_eval` would not do: under it numbers of a formula become arrays, not constants.
    """
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(make, *arguments, **options).result()


class OnPoints:
    """A scalar program on arrays of points, in one loop; compiled for each number of points when it is first met.

    arrange: (code of rows (point,) -> the program's outputs, rows) -> what to give instead of the outputs.
    uniform: positions of inputs that are numbers, the same for all points; other numbers need no compilation.
    """

    def __init__(self, program: ScalarProgram, arrange=None, uniform=range(0)):
        self._uniform = uniform
        if uniform:
            self._of_numbers, program = with_numbers_first(program, uniform)
        nodes = [program.nodes[i] for i in program.outputs]
        self._numbers = [node.value if node.op == "const" and not arrange else None for node in nodes]
        varying = (i for i, number in zip(program.outputs, self._numbers, strict=True) if number is None)
        self._program, self._arrange = replace(program, outputs=tuple(varying)), arrange
        self._compiled: dict[int, tuple[Callable, list | None]] = {}  # by the number of points
        self._lock = threading.Lock()

    def __call__(self, *blocks, numbers=()) -> list[np.ndarray]:
        """Its outputs (point,), from arrays (row, point) and (point,) whose rows are the inputs, float64.

        Inputs that the program does not depend on may be left out at the end. numbers: what `at` gives.
        """
        code, constants = self._compiled.get(blocks[0].shape[-1]) or self._compile(blocks, numbers)
        found = [np.asarray(row) for row in code(*blocks, *numbers)]
        if not constants:
            return found
        varying = iter(found)
        return [next(varying) if constant is None else constant for constant in constants]

    def at(self, values) -> tuple[jax.Array, ...]:
        """What the program needs to know of values of the inputs `uniform`."""
        if not self._uniform:
            return ()
        inputs = list(np.zeros((self._of_numbers.n_inputs, 1)))
        inputs[self._uniform.start : self._uniform.stop] = np.reshape(values, (-1, 1))
        with np.errstate(all="ignore"), jax.ensure_compile_time_eval():  # they are numbers inside of jit as well
            return tuple(jax.device_put(x[0]) for x in run_on_numpy(self._of_numbers, inputs))

    def _compile(self, blocks, numbers):
        n_points = blocks[0].shape[-1]
        with self._lock:  # all workers ask for the first block at once
            if n_points not in self._compiled:
                arrays = [jax.ShapeDtypeStruct(np.shape(x), np.float64) for x in (*blocks, *numbers)]
                code = jax.jit(self._rows).lower(*arrays).compile() if self._program.outputs else lambda *blocks: ()
                constants = [None if c is None else np.broadcast_to(c, n_points) for c in self._numbers]
                self._compiled[n_points] = code, constants if len(self._program.outputs) < len(constants) else None
        return self._compiled[n_points]

    def _rows(self, *arrays):
        rows = [row for a in arrays if a.ndim for row in (a if a.ndim == 2 else [a])]
        code = partial(run_in_one_loop, self._program, numbers=[a for a in arrays if not a.ndim])
        return self._arrange(code, rows) if self._arrange else code(rows)


class PointCode:
    """Numbers from the program of an energy per volume whose first `n` inputs are its variables.

    By further inputs (the point) there are first derivatives only. operands: so many of the last inputs are numbers for
    all points, such as parameters; `at` gives the code for their values, which shares what is compiled. Derivatives by
    them, of first and second order, have methods of their own, `*_by_all`.
    """

    def __init__(self, program: ScalarProgram, n: int, operands: int = 0):
        self.n, self._energy = n, program
        self._uniform = range(program.n_inputs - operands, program.n_inputs)
        self._values: tuple[float, ...] = ()
        self._of_values: dict = {}
        self._made: dict = {}
        self._lock = threading.RLock()

    def at(self, values) -> "PointCode":
        """The same code for these values of the operands."""
        other = copy.copy(self)
        other._values, other._of_values = tuple(map(float, values)), {}
        return other

    @property
    def of_all_inputs(self) -> "PointCode":
        """The same code whose variables are all inputs but the operands, the point among them."""
        operands = len(self._uniform)
        return self._once("of all inputs", lambda: PointCode(self._energy, self._uniform.start, operands)).at(
            self._values
        )

    def combinations(self, order: int) -> list[tuple[int, ...]]:
        """The distinct derivatives of an order, as ascending tuples of positions of variables."""
        return list(itertools.combinations_with_replacement(range(self.n), order))

    def energy(self, x):
        """Energy per volume for inputs (point,), or numbers, in code that JAX can transform."""
        return run(self._energy, [*x, *self._values])[0]

    def slopes(self, *blocks) -> list[np.ndarray]:
        """[energy, its derivatives by all inputs], (point,) each; blocks: see `OnPoints`."""
        return self._on_points("slopes", lambda: self.program(1), blocks)

    def slopes_in_jax(self, x, points) -> jax.Array:
        """The energy and its derivatives by the variables (1 + n, ...), on JAX's devices where the arrays are.

        x: (n, ...).   points: (..., 3).
        """

        def make():
            program = replace(self.program(1), outputs=self.program(1).outputs[: 1 + self.n])
            return jax.jit(
                lambda x, points, numbers: jnp.stack(run(program, [*x, *jnp.moveaxis(points, -1, 0), *numbers]))
            )

        return self._once("slopes in JAX", make)(x, points, self._values)

    def change_of_slopes(self, *blocks) -> list[np.ndarray]:
        """[derivative of de/dx_i along a direction for each variable]; blocks: the inputs, then the direction."""

        def make():
            program = self.program(2)
            return replace(program, outputs=program.outputs[-self.n :])

        return self._on_points("change", make, blocks)

    def slopes_by_all(self, *blocks) -> list[np.ndarray]:
        """The same as `slopes`, and after them the derivatives by the operands."""
        return self._on_points("slopes by all", lambda: retraced(self._slopes_by_all, inline=True), blocks)

    def changes_by_all(self, *blocks) -> list[np.ndarray]:
        """How derivatives by all inputs and operands change along a direction; blocks: inputs, direction of them all.

        The direction has rows for operands too.
        """

        def make():
            n = self._energy.n_inputs
            program = with_forward_derivative(self._slopes_by_all, n, inline=True)
            return replace(program, outputs=program.outputs[-n:])

        return self._on_points("changes by all", make, blocks)

    @property
    def _slopes_by_all(self):
        return self._once("gradient by all", lambda: with_gradient(self._energy))

    def _on_points(self, name, make, blocks):
        code, numbers = self._compiled(name, lambda: OnPoints(make(), uniform=self._uniform))
        return code(*blocks, numbers=numbers)

    def _compiled(self, name, make):
        """(code on points, what it needs to know of the values of operands)."""
        code = self._once(name, make)
        if name not in self._of_values:
            self._of_values[name] = code.at(self._values)
        return code, self._of_values[name]

    def derivatives(self, x, order: int, compiled: bool | None = None) -> tuple[np.ndarray, ...]:
        """By order up to `order`: (combination, point), one row for each of `combinations`; x: n rows (point,).

        compiled: False for NumPy, without compilation but slower for a point; None where size and order decide.
        """
        x = [np.asarray(row, dtype=np.float64) for row in x]
        n_points = len(x[0])
        results = tuple(np.empty((len(self.combinations(k)), n_points)) for k in range(order + 1))
        result_rows = list(itertools.chain(*results))
        if compiled is None:
            compiled = order < 2 or (order == 2 and n_points >= _COMPILED_ABOVE)
        chunk = CHUNK if compiled else _CHUNK_OF_NUMPY
        chunk = chunk if order < 2 else max(64, chunk // len(self.combinations(order - 1)))
        if compiled:
            arrange = partial(self._of_all_orders, order, jnp)
            make = lambda: OnPoints(self.program(order), arrange if order > 1 else None, self._uniform)
            on_points, numbers = self._compiled(("all", order), make)
            code: Callable = partial(on_points, numbers=numbers)
        else:
            code = lambda *rows: self._of_all_orders(order, np, partial(self._interpreted, order), rows)

        def part(starts):
            for start in starts:
                block = [row[start : start + chunk] for row in x]
                size = len(block[0])
                if compiled and size < chunk:  # one number of points is compiled
                    block = [np.pad(row, (0, chunk - size), mode="edge") for row in block]
                for row, values in zip(result_rows, code(*block), strict=True):
                    row[start : start + size] = values[:size]

        share_out(range(0, n_points, chunk), part)
        return results

    def along(self, x, directions) -> list[np.ndarray]:
        """[energy (point,), its gradient (n, point), the gradient's derivative along the first direction, ...].

        x: n rows (point,).   directions: n rows for each level. Element 1 + m is the gradient's derivative of order m,
        along the first m directions, so every variable is seen at every order for much less than all combinations cost.
        """
        order, size = 1 + len(directions), len(x[0])
        results = [np.empty(size), *(np.empty((self.n, size)) for _ in range(order))]

        def part(starts):
            for start in starts:
                block = slice(start, start + CHUNK)
                out = self._interpreted(order, [row[block] for level in (x, *directions) for row in level])
                results[0][block] = out[0]
                for m in range(order):
                    results[1 + m][:, block] = out[1 + self.n * ((1 << m) - 1) :][: self.n]

        share_out(range(0, size, CHUNK), part)
        return results

    def program(self, order: int) -> ScalarProgram:
        """Outputs: energy, gradient, and for each further order the derivatives of the gradient along all its seeds."""
        return self._once(order, lambda: self._build(order))

    def _build(self, order):
        if order == 0:
            return retraced(self._energy, inline=True)
        if order == 1:
            return with_gradient(self._energy, self._uniform.start, inline=True)
        return with_forward_derivative(self._unfinished(order - 1), self.n, inline=True)

    def _unfinished(self, order):
        """The program of an order, of which a higher one can be made; both orders above it share it."""
        if order == 1:
            return self._once(("unfinished", 1), lambda: with_gradient(self._energy, self.n))
        lower = lambda: with_forward_derivative(self._unfinished(order - 1), self.n, inline=False)
        return self._once(("unfinished", order), lower)

    def _once(self, name, make):
        """What `make` gives, made once."""
        if name not in self._made:
            with self._lock:
                if name not in self._made:
                    self._made[name] = make()
        return self._made[name]

    def _interpreted(self, order, rows):
        inputs = list(rows)
        inputs[self._uniform.start : self._uniform.start] = self._values
        with np.errstate(all="ignore"):
            return run_on_numpy(self.program(order), inputs)

    def _of_all_orders(self, order, numpy, code, x):
        """Rows of the derivatives order by order on one chunk; code: inputs of the order's program -> its outputs."""
        if order < 2:
            return code(x)
        n_points = len(x[0])
        lanes = self.combinations(order - 1)
        seeds = np.eye(self.n)[np.array(lanes)]  # (lane, level, variable)
        inputs = [numpy.tile(row, len(lanes)) for row in x]
        for level in range(order - 1):
            inputs += [np.repeat(seeds[:, level, k], n_points) for k in range(self.n)]
        out = [row.reshape(len(lanes), n_points) for row in code(inputs)]
        place = {lane: i for i, lane in enumerate(lanes)}
        return [_entry(out, c, order, self.n, place) for k in range(order + 1) for c in self.combinations(k)]


def _entry(out, combination, order, n, place):
    """Row of a derivative in the outputs of an order's program, of all lanes."""
    row, lane = place_of(combination, order, n)
    return out[row][place[lane]]


def place_of(combination, order: int, n: int) -> tuple[int, tuple[int, ...]]:
    r"""(output, seeds) of a derivative by n variables in an order's program, order >= 2, whose seeds are unit vectors.

    The outputs are (e, grad) and, after m forward levels, the derivatives of grad along each subset of levels; subset
    number s (bits: levels) starts at 1 + n s. Derivative (i, j, ..): component i of grad, seeds j, .. in the first
    levels, the others in any lane that agrees.
    """
    if not combination:
        return 0, (0,) * (order - 1)
    component, *seeds = combination
    lane = tuple(seeds) + (n - 1,) * (order - 1 - len(seeds))
    subset = (1 << len(seeds)) - 1
    return 1 + n * subset + component, lane


def jets_along(code, x, first, second):
    """code(x) and its first two derivatives by e at x + e first + e^2/2 second, e = 0; pytrees of arrays for JAX."""
    value = lambda x: jax.jvp(code, (x,), (first,))
    (y, along), (_, twice) = jax.jvp(value, (x,), (first,))
    return y, along, jax.tree_util.tree_map(jnp.add, twice, jax.jvp(code, (x,), (second,))[1])


def on_points(code):
    """JAX code at one point as code on arrays with a last axis of points, in calls of one fixed size."""
    compiled = jax.jit(jax.vmap(code, in_axes=-1, out_axes=-1))

    def run(*args):
        n_points = jax.tree_util.tree_leaves(args)[0].shape[-1]
        blocks = []
        for start in range(0, n_points, POINTS):
            cut = partial(_block, start=start)
            blocks.append(jax.tree_util.tree_map(np.asarray, compiled(*jax.tree_util.tree_map(cut, args))))
        return jax.tree_util.tree_map(lambda *parts: np.concatenate(parts, axis=-1)[..., :n_points], *blocks)

    return run


def _block(array, start):
    """POINTS points from `start` on; the last block is filled up with its last point."""
    block = array[..., start : start + POINTS]
    missing = POINTS - block.shape[-1]
    return np.pad(block, [(0, 0)] * (block.ndim - 1) + [(0, missing)], mode="edge") if missing else block
