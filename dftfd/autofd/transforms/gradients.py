"""Derivatives of functionals: grad, value_and_grad, jvp, and what is made of them: linearize, hvp, Jacobians.

A functional E takes Functions (and arrays, and pytrees of both) and returns a scalar; `grad(E)(f)` is the functional
derivative, a Function v with dE = integral of v df. Only public JAX is used; everything works under jit, vmap and scan.

`check` asks whether a functional derivative belongs to its functional: <grad E, df> = dE, tried with bumps. dE along a
bump comes from the derivative forward, which knows no partial integration; <grad E, df> from the strong form,
integrated with the measure of the space. They differ where that is another one than the space says, where the
quadrature is too coarse, or where a rule is wrong.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves, tree_map

from dftfd.autofd.core.domain import Domain, centres, half_widths, measure_in_words, spec_of
from dftfd.autofd.core.function import Function, is_function
from dftfd.autofd.core.graph import nested_derivatives
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.compose import compose
from dftfd.autofd.operators.leaf import function, zeros
from dftfd.autofd.operators.linear_transpose import linear_transpose as _transposed_function
from dftfd.autofd.operators.linearize import linearize as _linearized_function
from dftfd.autofd.operators.zip_split import Stack
from dftfd.autofd.transforms.outcome import Arguments, Outcome, clean, units
from dftfd.autofd.transforms.tape import ForwardTape
from dftfd.autofd.transforms.transposition import Run, is_linear_operator, pairing, vjp
from dftfd.errors import InputWarning, SignatureError

DEEP = 6
"""Derivatives one inside of another from which on a gradient warns: three steps of a descent on an energy of slopes."""


def _checked_scalar(value):
    if is_function(value):
        raise SignatureError(f"the functional returned a Function, {value!r}; a scalar expected: integrate it.")
    if not isinstance(value, float | int | np.ndarray | np.generic | jax.Array):
        raise SignatureError(
            f"the functional returned a {type(value).__name__}; a real scalar expected, or (scalar, data) with "
            "has_aux=True. jacrev differentiates arrays."
        )
    value = jnp.asarray(value)
    if value.shape != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise SignatureError(
            f"the functional returned {value.dtype.name}{list(value.shape)}; a real scalar expected "
            "(take the real part of a complex energy)."
        )
    return value


def value_and_grad(
    functional: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """(*args) -> (value, gradient) of a functional with a real scalar value.

    argnums: positions of the arguments to differentiate; each may be a Function, an array or a pytree of them. The
        gradient has the same structure: a Function for a Function, an array for an array. With complex functions the
        convention is JAX's: dE = Re of the integral of gradient times df.
    has_aux: the functional returns (value, auxiliary data).
    """

    @functools.wraps(functional)
    def run(*args, **kwargs):
        def scalar(*args):
            out = functional(*args, **kwargs)
            value, aux = _pair(out) if has_aux else (out, None)
            return _checked_scalar(value), aux

        _warn_about_nesting(args)
        found = Run(scalar, Arguments(args, argnums), has_aux=True)
        gradient = found.pull(jnp.ones_like(found.value))
        gradient = gradient[0] if isinstance(argnums, int) else gradient
        return ((found.value, found.aux) if has_aux else found.value), gradient

    return run


def _warn_about_nesting(args):
    deepest = max((nested_derivatives(f) for f in tree_leaves(args, is_leaf=is_function) if is_function(f)), default=0)
    if deepest >= DEEP:
        warnings.warn(
            f"a function with {deepest} nested derivatives is differentiated, and each doubles the time for its "
            "values. In a descent, continue after each step from values at the points of the space, f = "
            "fd.interpolate(X, jax.vmap(f)(X.points)).",
            InputWarning,
            stacklevel=3,
        )


def _pair(out):
    if not isinstance(out, tuple) or len(out) != 2:
        raise SignatureError(
            f"has_aux: the functional must return (value, auxiliary data), {type(out).__name__} found."
        )
    return out


def grad(functional: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """(*args) -> functional derivative. See `value_and_grad`; with has_aux (gradient, aux)."""
    both = value_and_grad(functional, argnums, has_aux)

    @functools.wraps(functional)
    def run(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def jvp(functional: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """(value, derivative) of a functional or operator along `tangents`.

    primals, tangents: tuples of Functions, arrays and pytrees of them; a tangent has the type of its primal. Values and
    derivatives may be arrays, Functions and pytrees of them.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise SignatureError("jvp: primals and tangents must be tuples: jvp(F, (f,), (df,)).")
    chosen, tape, kept = Arguments(primals), ForwardTape(), []
    along = chosen.tangents(tangents, "jvp")

    def line(thread, arrays):
        with tape.recording(thread):
            watched = [tape.watch_along(f, df) for f, df in zip(chosen.functions, along.functions, strict=True)]
            kept.append(Outcome(functional(*chosen.full(watched, arrays))))
        return kept[-1].arrays

    start, direction = (jnp.zeros(()), chosen.arrays), (jnp.ones(()), along.arrays)
    arrays, moved = jax.jvp(line, start, direction)
    out = kept[-1].filled(arrays)
    return clean(kept[-1].tree(out), tape.tag), kept[-1].along(out, moved, tape.tag, tape.seeds)


def linearize(functional: Callable, *primals: Any, **options: Any) -> Any:
    """(value, linear map of tangents) of a functional or operator at `primals`.

    Of a Function, linearize(f, argnums, tangent=...), the operator that makes the Function (x, y) -> f'(x) y; see
    `operators.linearize`.
    """
    if is_function(functional):
        return _linearized_function(functional, *primals, **options)
    run = Run(functional, Arguments(primals))
    return run.value, lambda *tangents: run.push(tangents)


def linear_transpose(operator: Callable, *primals: Any, **options: Any) -> Callable[..., Any]:
    """Transpose of a linear operator or functional: cotangent -> tuple of cotangents of the arguments.

    primals: arguments of the types that the operator takes; their values do not matter.
    Of a Function, linear_transpose(f, argnum, domain, pairing), the operator that makes the Function y -> f^T y; see
    `operators.linear_transpose`.
    """
    if is_function(operator):
        return _transposed_function(operator, *primals, **options)
    zero = tree_map(lambda f: zeros(f.signature) if is_function(f) else jnp.zeros_like(f), primals, is_leaf=is_function)
    if not is_linear_operator(operator, zero):
        raise SignatureError(
            "linear_transpose: the operator is not linear in its arguments, or its program has steps that are not "
            "known to be. The transpose of its derivative is vjp(operator, *primals)[1]."
        )
    return vjp(operator, *zero)[1]


def hvp(functional: Callable, f: Any, df: Any, mode: str = "forward-over-reverse") -> Any:
    """Second functional derivative at f applied to df.

    mode: "forward-over-reverse" (the derivative of grad(functional) along df), "reverse-over-forward" (the gradient of
        the derivative along df) or "reverse-over-reverse" (the gradient of <grad, df>); the same result.
    """
    if mode == "forward-over-reverse":
        return jvp(grad(functional), (f,), (df,))[1]
    if mode == "reverse-over-forward":
        return grad(lambda f: jvp(functional, (f,), (df,))[1])(f)
    if mode == "reverse-over-reverse":
        return grad(lambda f: pairing(df, grad(functional)(f)))(f)
    raise SignatureError(f"hvp: mode {mode!r}; forward-over-reverse, reverse-over-forward or reverse-over-reverse.")


def jacrev(functional: Callable, argnum: int = 0) -> Callable[..., Any]:
    """(*args) -> Jacobian of a functional with array value, by one transposition per entry.

    For a Function argument the Jacobian is a Function whose values have the axes of the result first, then those of
    the Function's values; for an array argument the array of the shape (*result, *argument). Complex values of real
    arguments have a complex Jacobian. With respect to a complex argument only real values are differentiated, with
    JAX's convention: dE is the real part of the Jacobian times the change.
    """

    def run(*args):
        value, pull = vjp(lambda x: functional(*args[:argnum], x, *args[argnum + 1 :]), args[argnum])
        if is_function(value) or len(tree_leaves(value)) != 1:
            raise SignatureError("jacrev takes functionals with one array as value.")
        spec = spec_of(value)
        rows = [pull(unit)[0] for unit in units(spec)]
        if jnp.issubdtype(spec.dtype, jnp.complexfloating):
            if _is_complex(args[argnum]):
                raise SignatureError(
                    "jacrev of a complex value with respect to a complex argument: that is a Jacobian for holomorphic "
                    "functions alone. Take the real and imaginary part of the value one after the other."
                )
            # pull(c) is the gradient of Re c v
            rows = [_complex(row, pull(-1j * unit)[0]) for row, unit in zip(rows, units(spec), strict=True)]
        return _stacked(rows, spec.shape, axis_last=False)

    return run


def jacfwd(functional: Callable, argnum: int = 0) -> Callable[..., Any]:
    """(*args) -> Jacobian with respect to an array argument, by one forward derivative per entry.

    The functional may return an array or a Function; the axes of the argument are appended to those of the value.
    """

    def run(*args):
        x = args[argnum]
        if is_function(x) or len(tree_leaves(x)) != 1:
            raise SignatureError("jacfwd takes an array argument; a function has infinitely many entries, use jacrev.")
        if _is_complex(x):
            raise SignatureError(
                "jacfwd with respect to a complex argument: that is a Jacobian for holomorphic functions alone. Take "
                "the real and imaginary part of the argument as two real ones, or use grad for a real value."
            )
        spec = spec_of(jnp.asarray(x))

        def of_one(x):
            return functional(*args[:argnum], x, *args[argnum + 1 :])

        columns = [jvp(of_one, (x,), (unit,))[1] for unit in units(spec)]
        return _stacked(columns, spec.shape, axis_last=True)

    return run


def _is_complex(x) -> bool:
    leaves = tree_leaves(x.result if is_function(x) else x)
    return any(jnp.issubdtype(jnp.result_type(v), jnp.complexfloating) for v in leaves)


def _complex(real, imag):
    """real + i imag, of arrays or Functions."""
    return compose(jax.lax.complex, real, imag) if is_function(real) else jax.lax.complex(real, imag)


def _stacked(values, shape, axis_last):
    code = Stack(shape, axis_last)
    return compose(code, *values) if is_function(values[0]) else code(*values)


POWER, WIDEST, FEWEST, AGREE = 3, 3, 3, 0.05
"""Bumps are (1 - u^2)^POWER with FEWEST nodes a coordinate, one of so many of the widest is drawn; up to AGREE of the
largest derivative the two sides count as equal: quadratures of a dozen points in each coordinate leave a percent."""


@dataclass(frozen=True, eq=False, repr=False)
class ByParts:
    """derivatives, paired: dE and <grad E, df> of each bump (k,).   remarks: on the spaces, in words."""

    derivatives: np.ndarray
    paired: np.ndarray
    remarks: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Largest difference, as a share of the largest of all numbers."""
        size = max(np.abs(self.derivatives).max(), np.abs(self.paired).max())
        return float(np.abs(self.derivatives - self.paired).max() / size) if size else 0.0

    @property
    def passed(self) -> bool:
        """Whether they agree to AGREE."""
        return self.error <= AGREE

    def __repr__(self):
        rows = [f"{'bump':>4} {'dE':>16} {'<grad E, df>':>16}"]
        for number, (dE, pair) in enumerate(zip(self.derivatives, self.paired, strict=True), start=1):
            rows.append(f"{number:4d} {dE:16.8g} {pair:16.8g}")
        words = "they agree" if self.passed else "THEY DISAGREE: the strong form is not that of the functional here"
        rows += [f"largest difference {self.error:.1e} of the largest number: {words}", *self.remarks]
        if not self.passed and not self.remarks:
            rows.append("no other measure is recognised: a finer quadrature, or density= if weights hold a Jacobian")
        return "\n".join(rows)


def check(functional: Callable, f: Function, bumps: int = 4, seed: int = 0) -> ByParts:
    """Compare <grad E, df> with dE for random bumps df, for a functional E of one function f.

    bumps: number of bumps.   seed: of their positions, widths and signs.

    Bumps vanish, with two derivatives, at the ends of their supports, which lie inside the region of the quadrature
    points. If both sides differ although the quadrature is fine, a space has another measure than its weights suggest:
    `remarks` says which space.
    """
    if not isinstance(f, Function) or not f.domains or any(d.points is None for d in f.domains):
        raise SignatureError(f"check(E, f) takes a Function on spaces with points and weights, {f!r} found.")
    for name, value, least in (("bumps", bumps, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= value:
            raise SignatureError(f"{name}={value!r}: a whole number of at least {least} expected.")
    rng = np.random.default_rng(seed)
    directions = [_bump(f, rng) for _ in range(bumps)]
    gradient = grad(functional)(f)
    derivatives = np.array([float(jvp(functional, (f,), (df,))[1]) for df in directions])
    paired = np.array([float(pairing(gradient, df)) for df in directions])
    return ByParts(derivatives, paired, tuple(filter(None, map(measure_in_words, dict.fromkeys(f.domains)))))


def _bump(f, rng) -> Function:
    """A bump around a point of each space, for each number of the result with a random factor."""
    boxes = tuple(_box(domain, rng) for domain in f.domains)
    factors = tree_map(lambda s: jnp.asarray(rng.uniform(0.5, 1.0, s.shape) * rng.choice([-1, 1]), s.dtype), f.result)
    return function(Bump(), *f.domains, params=(boxes, factors))


def _box(domain: Domain, rng):
    """(centre, half widths) inside of the points of a space, in their shape."""
    x = np.asarray(domain.points).reshape(len(domain.points), -1)
    boxes = [(centre, half) for centre in centres(x) if (half := half_widths(x, centre)) is not None]
    boxes = [box for box in boxes if (np.abs(x - box[0]) < box[1]).all(axis=1).sum() >= FEWEST ** x.shape[1]]
    if not boxes:
        raise SignatureError(f"{domain!r} has {len(x)} points, too few to put bumps between them; check needs more.")
    boxes.sort(key=lambda box: -np.prod(box[1]))
    chosen = boxes[rng.integers((len(boxes) + WIDEST - 1) // WIDEST)]
    return tuple(jnp.asarray(part.reshape(domain.shape)) for part in chosen)


class Bump(Code):
    """(boxes, factors, *point) -> factors times prod (1 - u^2)^POWER, zero where |u| > 1."""

    __name__ = "bump"

    def __call__(self, boxes, factors, *point):
        value: float | jax.Array = 1.0
        for (centre, half), x in zip(boxes, point, strict=True):
            value = value * jnp.prod(jnp.maximum(1.0 - ((x - centre) / half) ** 2, 0.0) ** POWER)
        return tree_map(lambda factor: factor * value, factors)
