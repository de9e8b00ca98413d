"""Derivatives of functionals: grad, value_and_grad, jvp.

A functional E takes Functions (and arrays, and pytrees of both) and returns a scalar; `grad(E)(f)` is the functional
derivative, a Function v with dE = integral of v df. Only public JAX is used; everything works under jit, vmap and scan.
"""

import functools

import jax
import jax.numpy as jnp
from jax.tree_util import tree_flatten, tree_map, tree_unflatten

from dftfd.autofd.function import is_function, pack, unpack
from dftfd.autofd.graph import backward, forward, or_zero, without_variables
from dftfd.autofd.operators.compose import check_same_type
from dftfd.autofd.operators.integrate import check_one_measure
from dftfd.autofd.operators.leaf import constant
from dftfd.autofd.tape import ForwardTape, ReverseTape, is_nested, recording, rehearsal, starts_clean
from dftfd.errors import LeakError, SignatureError


class Arguments:
    """The arguments to differentiate, taken apart into Functions and arrays and put together again."""

    def __init__(self, args, argnums):
        self.args = args
        self.positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not all(-len(args) <= i < len(args) for i in self.positions):
            raise SignatureError(f"argnums {argnums}, but the functional was called with {len(args)} argument(s).")
        if len({i % len(args) for i in self.positions}) != len(self.positions):
            raise SignatureError(f"argnums {argnums} name an argument twice.")
        chosen = tuple(args[i] for i in self.positions)
        self.leaves, self.treedef = tree_flatten(chosen, is_leaf=is_function)
        self.functions = [x for x in self.leaves if is_function(x)]
        self.arrays = [_differentiable(x) for x in self.leaves if not is_function(x)]

    def join(self, functions, arrays):
        """The chosen arguments with other Functions and arrays in the places of theirs."""
        functions, arrays = iter(functions), iter(arrays)
        return tree_unflatten(self.treedef, [next(functions if is_function(x) else arrays) for x in self.leaves])

    def full(self, functions, arrays):
        """All arguments, the chosen ones replaced."""
        args = list(self.args)
        for i, a in zip(self.positions, self.join(functions, arrays), strict=True):
            args[i] = a
        return args


def _differentiable(x):
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        raise SignatureError(f"an argument to differentiate has dtype {x.dtype.name}; float or complex expected.")
    return x


def _checked_scalar(value):
    if is_function(value):
        raise SignatureError(f"the functional returned a Function, {value!r}; a scalar expected: integrate it.")
    value = jnp.asarray(value)
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise SignatureError(
            f"the functional returned {value.dtype.name}{list(value.shape)}; a real scalar expected "
            "(take the real part of a complex energy)."
        )
    return value


def _clean(tree, tag):
    """A result of the functional without marks of the transformation."""
    return tree_map(lambda x: without_variables(x, tag) if is_function(x) else x, tree, is_leaf=is_function)


def value_and_grad(functional, argnums: int | tuple[int, ...] = 0, has_aux: bool = False):
    """(*args) -> (value, gradient) of a functional with a real scalar value.

    argnums: positions of the arguments to differentiate; each may be a Function, an array or a pytree of them. The
        gradient has the same structure: a Function for a Function, an array for an array. With complex functions the
        convention is JAX's: dE = Re of the integral of gradient times df.
    has_aux: the functional returns (value, auxiliary data).
    """

    @functools.wraps(functional)
    def run(*args, **kwargs):
        chosen, clean = Arguments(args, argnums), starts_clean()

        def trial(stage, arrays, earlier=None, eps=None):
            tape = ReverseTape(clean, stage, earlier, eps)
            with recording(tape):
                out = functional(*chosen.full(map(tape.watch, chosen.functions), arrays), **kwargs)
            value, aux = _pair(out) if has_aux else (out, None)
            return (_checked_scalar(value), _Data(_clean(aux, tape.tag))), tape

        earlier = _rehearse(trial, chosen.arrays)
        eps = [tree_map(lambda s: jnp.zeros(s.shape, s.dtype), s) for s in earlier.specs]
        tapes = []

        def differentiate(eps, arrays):
            (value, aux), tape = trial("differentiate", arrays, earlier, eps)
            tapes.append(tape)
            if len(tape.models) != len(eps):
                raise LeakError(
                    "the functional evaluated fewer integrals in a second run: it must not depend on state."
                )
            return value, (aux, pack([m.node for m in tape.models]))

        value, pull, (aux, nodes) = jax.vjp(differentiate, eps, chosen.arrays, has_aux=True)
        d_eps, d_arrays = pull(jnp.ones_like(value))
        tag, gradients = tapes[-1].tag, [None] * len(chosen.functions)
        for node, sensitivity in zip(unpack(nodes), d_eps, strict=True):
            backward(node, constant(sensitivity), tag, gradients)
        gradient = chosen.join(finished(gradients, chosen.functions, tag), d_arrays)
        gradient = gradient[0] if isinstance(argnums, int) else gradient
        return ((value, aux.tree) if has_aux else value), gradient

    return run


@jax.tree_util.register_pytree_node_class
class _Data:
    """A tree of Functions, arrays and anything else as a pytree of its arrays."""

    def __init__(self, tree):
        self.tree = tree

    def tree_flatten(self):
        leaves, structure = tree_flatten(pack(self.tree))
        arrays = [isinstance(x, jax.Array) for x in leaves]
        rest = tuple(None if a else x for x, a in zip(leaves, arrays, strict=True))
        return [x for x, a in zip(leaves, arrays, strict=True) if a], (structure, tuple(arrays), rest)

    @classmethod
    def tree_unflatten(cls, static, leaves):
        (structure, arrays, rest), leaves = static, iter(leaves)
        return cls(
            unpack(tree_unflatten(structure, [next(leaves) if a else x for a, x in zip(arrays, rest, strict=True)]))
        )


def _pair(out):
    if not isinstance(out, tuple) or len(out) != 2:
        raise SignatureError(
            f"has_aux: the functional must return (value, auxiliary data), {type(out).__name__} found."
        )
    return out


def finished(gradients, functions, tag):
    """Gradients without marks of the transformation, zero where nothing arrived."""
    found = [without_variables(or_zero(g, f.signature), tag) for g, f in zip(gradients, functions, strict=True)]
    check_one_measure(*found)
    return found


def _rehearse(trial, arrays):
    """The tape of a run before the one that JAX differentiates; see dftfd.autofd.tape."""
    tapes = []

    def run(arrays):
        def along(t, arrays):
            tapes.append(trial("rehearse", arrays, None, t)[-1])
            return t

        return jax.jvp(along, (jnp.zeros(()), arrays), (jnp.ones(()), [jnp.ones_like(a) for a in arrays]))

    with rehearsal():
        try:
            jax.eval_shape(run, arrays)
        except jax.errors.TracerBoolConversionError:  # the functional branches on a value: run it with values
            run(arrays)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise LeakError(
                "the functional turns a value that depends on its arguments into a Python number or a NumPy array "
                "(float, int, item, np.asarray), so its derivative would be lost. Keep it an array of JAX; use "
                "jax.lax.stop_gradient where that is intended."
            ) from error
    return trial("observe", arrays, tapes[-1])[-1] if is_nested() else tapes[-1]


def grad(functional, argnums: int | tuple[int, ...] = 0, has_aux: bool = False):
    """(*args) -> functional derivative. See `value_and_grad`; with has_aux (gradient, aux)."""
    both = value_and_grad(functional, argnums, has_aux)

    @functools.wraps(functional)
    def run(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def jvp(functional, primals: tuple, tangents: tuple):
    """(value, derivative) of a functional or operator along `tangents`.

    primals, tangents: tuples of Functions, arrays and pytrees of them; a tangent has the type of its primal. Values and
    derivatives may be arrays, Functions and pytrees of them.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise SignatureError("jvp: primals and tangents must be tuples: jvp(F, (f,), (df,)).")
    chosen = Arguments(tuple(primals), tuple(range(len(primals))))
    along = Arguments(tuple(tangents), tuple(range(len(tangents))))
    if chosen.treedef != along.treedef:
        raise SignatureError(f"jvp: primals {chosen.treedef} and tangents {along.treedef} differ in structure.")
    for f, df in zip(chosen.leaves, along.leaves, strict=True):
        check_same_type(f, df, "jvp", "tangent")
    clean = starts_clean()

    def trial(stage, arrays, earlier=None, t=None):
        tape = ForwardTape(clean, stage, earlier, t)
        with recording(tape):
            watched = [tape.watch_along(f, df) for f, df in zip(chosen.functions, along.functions, strict=True)]
            return functional(*chosen.full(watched, arrays)), tape

    earlier = _rehearse(trial, chosen.arrays) if is_nested() else None
    tapes = []

    def line(t, arrays):
        out, tape = trial("differentiate", arrays, earlier, t)
        tapes.append(tape)
        return pack(out)

    start, direction = (jnp.zeros(()), chosen.arrays), (jnp.ones(()), along.arrays)
    out, moved = map(unpack, jax.jvp(line, start, direction))
    tape = tapes[-1]

    def tangent(value, d_value):
        if not is_function(value):
            return d_value
        derivative = or_zero(forward(value, tape.tag, tape.seeds, d_value), value.signature)
        return without_variables(derivative, tape.tag)

    derivative = tree_map(tangent, out, moved, is_leaf=is_function)
    return _clean(out, tape.tag), derivative
