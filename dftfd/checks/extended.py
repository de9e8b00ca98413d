"""Functionals in extended precision: what a formula gives when no digit is lost.

The lowered functional is taken apart into scalar code, which runs on mpmath numbers. Wrong formulas and parameters are
found by comparison with libxc; this finds what rounding does to right ones, and decides where libxc and dftfd differ.
Special functions that dftfd computes by series carry the error of the truncated series, below 1e-16.
"""

import jax
import mpmath
import numpy as np

from dftfd.autofd.point_program import point_program
from dftfd.functionals.base import Functional
from dftfd.kernel import XCKernel

DIGITS = 50

_FUNCTIONS = {
    "add": lambda a, b: a + b,
    "add_any": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": mpmath.sign,
    "max": max,
    "min": min,
    "square": lambda a: a * a,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda a: 1 / mpmath.sqrt(a),
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "atan": mpmath.atan,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "pow": lambda a, b: a**b,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "select_n": lambda case, *branches: branches[int(case)],
}


class ExtendedEnergy:
    """energy(density (spin, channel), nested lists of numbers) -> energy per volume, an mpmath number.

    Channels are those of `dftfd.kernel.XCKernel`. Evaluate inside `mpmath.workdps(DIGITS)`.
    """

    def __init__(self, functional: Functional, n_spin: int):
        kernel = XCKernel(functional.semilocal_part, n_spin)
        self.shape = (n_spin, kernel.channels)
        specs = [jax.ShapeDtypeStruct(shape, np.float64) for shape in (self.shape, (3,))]
        self._program = point_program(kernel.energy_density, *specs, inline=True)

    def __call__(self, density):
        inputs = [mpmath.mpf(x) for spin in density for x in spin] + [mpmath.mpf(0)] * 3
        values = {}
        for i in self._program.needed:
            node = self._program.nodes[i]
            values[i] = self._value(node, inputs, [values[a] for a in node.args])
        (result,) = (values[i] for i in self._program.outputs)
        return result

    def derivative(self, density, direction, order: int = 1):
        """d^order/dt^order of the energy at density + t direction, at t = 0, by central differences.

        The step 10^(-DIGITS/(order + 2)) makes their error, the square of it, far smaller than the rounding unit.
        """
        shape = self.shape
        entries = [
            [(mpmath.mpf(density[s][c]), mpmath.mpf(direction[s][c])) for c in range(shape[1])] for s in range(shape[0])
        ]
        along = lambda t: self([[x + t * dx for x, dx in spin] for spin in entries])
        return mpmath.diff(along, 0, order, h=mpmath.mpf(10) ** (-DIGITS // (order + 2)))

    @staticmethod
    def _value(node, inputs, args):
        if node.op == "input":
            return inputs[node.value]
        if node.op == "const":
            is_real = np.issubdtype(node.value.dtype, np.floating)
            return mpmath.mpf(float(node.value)) if is_real else node.value
        if node.op == "integer_pow":
            return args[0] ** node.params["y"]
        if node.op in _FUNCTIONS and all(isinstance(a, mpmath.mpf | bool | np.bool_) for a in args):
            return _FUNCTIONS[node.op](*args)
        return _on_machine_numbers(node, args)


def _on_machine_numbers(node, args):
    """Integer arithmetic, as in the seed of the cube root, which Newton steps then refine."""
    machine = [np.float64(a) if isinstance(a, mpmath.mpf) else a for a in args]
    value = np.asarray(node.primitive.bind(*map(jax.numpy.asarray, machine), **node.params))[()]
    return mpmath.mpf(float(value)) if np.issubdtype(value.dtype, np.floating) else value
