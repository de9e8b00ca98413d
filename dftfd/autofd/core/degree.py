"""Is a function, or an operator, linear? Found by walking through its program: the degree of each value in the inputs.

Degrees: zero, constant, linear (without a constant part), affine, and `NONLINEAR`, which is also the degree of whatever
is not in the table, so a map is never taken for linear by mistake.
"""

import functools

import jax
import numpy as np
from jax.tree_util import tree_flatten, tree_leaves

from dftfd.autofd.core.function import SYMBOLIC, Function, is_zero, nodes_of, parts
from dftfd.autofd.core.graph import without_variables
from dftfd.autofd.core.jax_adapter import is_tracer
from dftfd.autofd.core.packed import assemble
from dftfd.autofd.scalar.jaxprs import scan_layout, walk

ZERO, CONSTANT, LINEAR, AFFINE, NONLINEAR = range(5)

_SMALL = 4096  # entries; larger arrays are not looked at for being zero
_KEEPS = frozenset(  # linear in the first operand; the others are constants
    "neg reshape broadcast_in_dim transpose squeeze expand_dims slice rev reduce_sum cumsum copy copy_p real imag conj "
    "gather dynamic_slice reduce_precision fft convert_element_type optimization_barrier".split()
)
_JOINS = frozenset("add sub add_any concatenate complex pad scatter scatter-add".split())
_MULTIPLIES = frozenset("mul dot_general conv_general_dilated".split())


def join(degrees) -> int:
    """Degree of a sum, or of a value that is one of several."""
    found = set(degrees) - {ZERO}
    if NONLINEAR in found:
        return NONLINEAR
    return ZERO if not found else found.pop() if len(found) == 1 else AFFINE


def is_linear(f: Function, argnums: tuple[int, ...]) -> bool:
    """True if f(a u + b v) = a f(u) + b f(v) in the arguments `argnums` together."""
    return _degree_of(f, argnums) in (ZERO, LINEAR)


def is_affine(f: Function, argnums: tuple[int, ...]) -> bool:
    """True if f - f(0) is linear in the arguments `argnums` together."""
    return _degree_of(f, argnums) != NONLINEAR


def _degree_of(f, argnums):
    return degree_in_arguments(f, [LINEAR if i in argnums else CONSTANT for i in range(len(f.domains))])


def degree_in_arguments(f: Function, degrees) -> int:
    """Degree of f(g_1, ..., g_n) for arguments of given degrees."""
    if SYMBOLIC in f.tags:  # a function that JAX stands for: nothing is known of its program
        return CONSTANT if join(degrees) in (ZERO, CONSTANT) else NONLINEAR
    arrays, structure = parts(f)
    specs = tuple(jax.ShapeDtypeStruct(np.shape(x), jax.numpy.result_type(x)) for x in arrays)
    return _degree_of_structure(structure, specs, tuple(map(_of_array, arrays)), tuple(degrees))


@functools.lru_cache(maxsize=1024)
def _degree_of_structure(structure, specs, of_arrays, degrees):
    def code(arrays, *args):
        return without_variables(assemble(structure, arrays)).evaluate(*args)

    domains = structure.signature.domains
    counts = [len(tree_flatten(d.spec)[0]) for d in domains]
    of_points = [degree for degree, count in zip(degrees, counts, strict=True) for _ in range(count)]
    program = jax.make_jaxpr(code)(specs, *(d.spec for d in domains))
    return join(of_program(program, [*of_arrays, *of_points]))


def of_graph(root: Function, variables, of_arrays: dict) -> int:
    """Degree of a graph in its variables.

    variables: node -> True for those.   of_arrays: {number of an array that the graph carries: its degree}; the others
    are constants.
    """
    done: dict[int, int] = {}
    start = 0
    for node in nodes_of(root):
        leaves = tree_flatten(node.arrays)[0]
        own = [of_arrays.get(start + k, _of_array(x)) for k, x in enumerate(leaves)]
        start += len(leaves)
        done[id(node)] = LINEAR if variables(node) else _of_node(node, [done[id(f)] for f in node.operands], own)
    return done[id(root)]


def _of_node(node, operands, arrays):
    moving = join(arrays) not in (ZERO, CONSTANT)
    if node.operator.name == "function":
        return _of_leaf(node, arrays) if moving else ZERO if is_zero(node) else CONSTANT
    if moving:
        at_values = node.operator.name == "partial" and operands[0] in (ZERO, CONSTANT)
        return _of_partial(node, arrays) if at_values else NONLINEAR
    if node.operator.name == "compose":
        outer, *inner = operands
        if outer in (ZERO, CONSTANT):
            return degree_in_arguments(node.operands[0], inner)
        return outer if join(inner) in (ZERO, CONSTANT) else NONLINEAR
    degree = join(operands) if operands else CONSTANT
    return degree if node.operator.linear or degree in (ZERO, CONSTANT) else NONLINEAR


def _of_leaf(node, arrays):
    program = jax.make_jaxpr(lambda a, *args: node.static["code"](*a, *args))(
        node.arrays, *(d.spec for d in node.domains)
    )
    inputs = arrays + [CONSTANT] * (len(program.jaxpr.invars) - len(arrays))
    return join(of_program(program, inputs))


def _of_partial(node, arrays):
    """Degree of a known function, some arguments of which are fixed at values that move."""
    (f,), left = node.operands, iter(arrays)
    degrees = [CONSTANT] * len(f.domains)
    for i, value in zip(node.static["argnums"], node.arrays, strict=True):
        degrees[i] = join(next(left) for _ in tree_leaves(value))
    return degree_in_arguments(f, degrees)


def of_program(program, inputs) -> list[int]:
    """Degrees of the outputs of a program for inputs of given degrees."""
    return walk(program, inputs, _of_equation, _of_array)


def _of_array(x) -> int:
    if isinstance(x, Function):
        return CONSTANT
    known = not is_tracer(x) and np.size(x) <= _SMALL and np.asarray(x).dtype != object
    return ZERO if known and not np.any(np.asarray(x)) else CONSTANT


def _of_equation(equation, inputs) -> list[int]:
    name, params = equation.primitive.name, equation.params
    if "degree" in params:  # an equation that knows
        return params["degree"](inputs)
    moving = [d for d in inputs if d not in (ZERO, CONSTANT)]
    if name in ("scan", "while", "cond") and moving:
        return {"scan": _of_scan, "while": _of_while, "cond": _of_cond}[name](equation, inputs)
    return [_of_operation(name, params, inputs, moving, v.aval) for v in equation.outvars]


def _of_operation(name, params, inputs, moving, result) -> int:
    rest = inputs[1:]
    still = all(d in (ZERO, CONSTANT) for d in rest)
    if name in _KEEPS and still:
        to_integers = name == "convert_element_type" and moving and not np.issubdtype(result.dtype, np.inexact)
        return NONLINEAR if to_integers else inputs[0]
    if name in _JOINS:
        return join(inputs)
    if name in ("select_n", "dynamic_update_slice", "triangular_solve"):
        chosen, fixed = {"select_n": (rest, inputs[:1]), "triangular_solve": (rest, inputs[:1])}.get(
            name, (inputs[:2], inputs[2:])
        )
        return join(chosen) if all(d in (ZERO, CONSTANT) for d in fixed) else NONLINEAR
    if name in _MULTIPLIES:
        if ZERO in inputs:
            return ZERO
        return CONSTANT if not moving else moving[0] if len(moving) == 1 else NONLINEAR
    if name == "div" and still:
        return inputs[0]
    if name == "integer_pow" and params["y"] == 1:
        return inputs[0]
    return NONLINEAR if moving else CONSTANT


def _of_cond(equation, inputs):
    predicate, *inputs = inputs
    results = [of_program(branch, inputs) for branch in equation.params["branches"]]
    same = predicate in (ZERO, CONSTANT)
    return [join(degrees) if same else NONLINEAR for degrees in zip(*results, strict=True)]


def _of_scan(equation, inputs):
    body = equation.params["jaxpr"]
    first, last = scan_layout(equation, body.jaxpr)
    fixed, carry, rows, carried = inputs[:first], inputs[first:last], inputs[last:], last - first
    while True:
        out = of_program(body, [*fixed, *carry, *rows])
        joined = [join(pair) for pair in zip(carry, out[:carried], strict=True)]
        if joined == carry:
            return carry + out[carried:]
        carry = joined


def _of_while(equation, inputs):
    params = equation.params
    a, b = params["cond_nconsts"], params["body_nconsts"]
    of_condition, fixed, carry = inputs[:a], inputs[a : a + b], inputs[a + b :]
    while True:
        out = of_program(params["body_jaxpr"], [*fixed, *carry])
        joined = [join(pair) for pair in zip(carry, out, strict=True)]
        if joined == carry:
            break
        carry = joined
    (decides,) = of_program(params["cond_jaxpr"], [*of_condition, *carry])
    return carry if decides in (ZERO, CONSTANT) else [NONLINEAR] * len(carry)
