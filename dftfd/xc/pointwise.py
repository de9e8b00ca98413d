"""A functional's energy per volume and its derivatives of any order in (rho, sigma, lapl, tau), on arrays of points.

The lowered functional becomes straight-line scalar code of these variables (see dftfd.autofd.scalar.gram: no gradient
vectors are built, so nothing is lost where gradients vanish or are parallel). First derivatives come from reverse mode;
each further order adds one forward derivative along a variable, carried out for all needed variables side by side. The
code runs on chunks of points that stay in the cache, on all workers.
"""

import functools
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.core.structure import structural_key
from dftfd.autofd.lowering.jets import lower, placeholder
from dftfd.autofd.scalar.derive import of_equal_spins, restricted, retraced, with_forward_derivative, with_gradient
from dftfd.autofd.scalar.gram import in_scalar_products
from dftfd.autofd.scalar.on_jax import run, run_in_one_loop
from dftfd.autofd.scalar.on_numpy import run_on_numpy
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import SPACE, Functional
from dftfd.runtime.threads import share_out

VARIABLES = {
    1: ("rho", "sigma", "lapl", "tau"),
    2: ("rho_a", "rho_b", "sigma_aa", "sigma_ab", "sigma_bb", "lapl_a", "lapl_b", "tau_a", "tau_b"),
}
"""Names of the variables by number of spins, in libxc's order."""

CHUNK = 16384
"""Points that are worked on together: enough to make the cost of a call small, few enough to keep both workers busy."""

_CHUNK_OF_NUMPY = 4096  # NumPy keeps every intermediate result: they should stay in the cache
_COMPILED_ABOVE = 50_000  # points from which compiling derivatives of second order pays (a few seconds)


def pointwise_kernel(functional: Functional, n_spin: int) -> "PointwiseKernel":
    """The kernel of a functional; the same object for equal functionals, so nothing is built or compiled twice."""
    terms = tuple(
        (float(c), t.formula, t.ingredients, tuple(sorted(t.parameters.items()))) for c, t in functional.terms
    )
    key = (structural_key(terms), n_spin)
    with _lock:
        kernel = _kernels[key] = _kernels.pop(key, None) or PointwiseKernel(functional, n_spin)
        while len(_kernels) > _MAX_KERNELS:
            del _kernels[next(iter(_kernels))]
    return kernel


_kernels: dict = {}  # last used last
_MAX_KERNELS = 256  # the library's names, both spins
_lock = threading.Lock()


class PointwiseKernel:
    """kernel(x, order) of the rows x (point,) of all `VARIABLES[n_spin]`: a tuple by order of derivatives.

    Element k has shape (combination, point), one row for each of `combinations(k)`.
    used: positions of the variables that the energy depends on.   n_spin 1: variables of the total density.
    """

    def __init__(self, functional: Functional, n_spin: int):
        self.n_spin = n_spin
        program = scalar_form(functional, n_spin)
        self.used = tuple(k for k in range(len(VARIABLES[n_spin])) if program.depends_on({k})) or (0,)
        self._energy = restricted(program, self.used)
        self._lock = threading.RLock()
        self._compiled: dict = {}
        self._programs: dict = {}

    @property
    def ingredients(self) -> tuple[str, ...]:
        """Names among rho, sigma, lapl, tau that the energy depends on."""
        return tuple(dict.fromkeys(VARIABLES[self.n_spin][k].split("_")[0] for k in self.used))

    def combinations(self, order: int) -> list[tuple[int, ...]]:
        """The distinct derivatives of an order, as ascending tuples of positions in VARIABLES."""
        return list(itertools.combinations_with_replacement(self.used, order))

    def energy(self, x):
        """Energy per volume for rows (point,) of all variables, in code that JAX can transform."""
        return run(self._energy, [x[k] for k in self.used])[0]

    def __call__(self, x, order: int, compiled: bool | None = None) -> tuple[np.ndarray, ...]:
        """x: an array (variable, point) or a list of rows; those of unused variables may be None.

        compiled: False for NumPy, without compilation but slower for a point; None where size and order decide.
        """
        x = [np.asarray(x[k], dtype=np.float64) for k in self.used]
        n_points = len(x[0])
        results = tuple(np.empty((len(self.combinations(k)), n_points)) for k in range(order + 1))
        if compiled is None:
            compiled = order < 2 or (order == 2 and n_points >= _COMPILED_ABOVE)
        chunk = CHUNK if compiled else _CHUNK_OF_NUMPY
        chunk = chunk if order < 2 else max(64, chunk // len(self.combinations(order - 1)))
        code = self._compiled_code(order, chunk) if compiled else functools.partial(self._interpreted, order)

        def part(starts):
            for start in starts:
                block = [row[start : start + chunk] for row in x]
                for out, rows in zip(results, code(block), strict=True):
                    for row, values in zip(out, rows, strict=True):
                        row[start : start + chunk] = values

        share_out(range(0, n_points, chunk), part)
        return results

    def along(self, x: np.ndarray, directions: np.ndarray) -> list[np.ndarray]:
        """[energy (point,), its gradient (used, point), the gradient's derivative along the first direction, ...].

        directions: (level, variable, point). Element 1 + m is the gradient's derivative of order m, along the first m
        directions, so every variable is seen at every order for much less than all combinations cost.
        """
        n, order, rows = len(self.used), 1 + len(directions), list(self.used)
        program, size = self._program(order), x.shape[1]
        results = [np.empty(size), *(np.empty((n, size)) for _ in range(order))]

        def part(starts):
            for start in starts:
                block = slice(start, start + CHUNK)
                inputs = [*x[rows, block], *(row for level in directions for row in level[rows, block])]
                with np.errstate(all="ignore"):
                    out = run_on_numpy(program, inputs)
                results[0][block] = out[0]
                for m in range(order):
                    results[1 + m][:, block] = out[1 + n * ((1 << m) - 1) :][:n]

        share_out(range(0, size, CHUNK), part)
        return results

    def _interpreted(self, order, block):
        program = self._program(order)
        with np.errstate(all="ignore"):
            return self._derivatives(lambda a: run_on_numpy(program, a), block, order, np)

    def _compiled_code(self, order, chunk):
        """Code of a block (variable, <= chunk); compiled once, for blocks of `chunk` points."""
        with self._lock:
            if (order, chunk) not in self._compiled:
                program = self._program(order)
                derivatives = lambda *x: self._derivatives(lambda a: run_in_one_loop(program, a), x, order, jnp)
                row = jax.ShapeDtypeStruct((chunk,), np.float64)
                lowered = jax.jit(derivatives).lower(*[row] * len(self.used))
                self._compiled[order, chunk] = lowered.compile()
        compiled = self._compiled[order, chunk]

        def code(block):
            n = len(block[0])
            if n < chunk:
                block = [np.pad(row, (0, chunk - n), mode="edge") for row in block]
            return [[np.asarray(row)[:n] for row in rows] for rows in compiled(*block)]

        return code

    def _derivatives(self, code, x, order, numpy):
        """Rows of the derivatives of each order on one chunk; code: inputs of the order's program -> its outputs."""
        n_used, n_points = len(x), x[0].shape[0]
        if order < 2:
            out = code(list(x))
            return [out[:1], out[1:]][: order + 1]
        lanes = list(itertools.combinations_with_replacement(range(n_used), order - 1))
        seeds = np.eye(n_used)[np.array(lanes)]  # (lane, level, variable)
        inputs = [numpy.tile(row, len(lanes)) for row in x]
        for level in range(order - 1):
            inputs += [np.repeat(seeds[:, level, k], n_points) for k in range(n_used)]
        out = [row.reshape(len(lanes), n_points) for row in code(inputs)]
        place = {lane: i for i, lane in enumerate(lanes)}
        of_order = lambda k: itertools.combinations_with_replacement(range(n_used), k)
        return [[_entry(out, c, order, n_used, place) for c in of_order(k)] for k in range(order + 1)]

    def _program(self, order: int):
        """Outputs: energy, gradient, and for each further order the derivatives of the gradient along all its seeds."""
        with self._lock:
            if order not in self._programs:
                self._programs[order] = self._build(order)
            return self._programs[order]

    def _build(self, order):
        n = len(self.used)
        if order == 0:
            return retraced(self._energy, inline=True)
        program = with_gradient(self._energy, inline=order == 1)
        for level in range(2, order + 1):
            program = with_forward_derivative(program, n, level, inline=level == order)
        return program


def _entry(out, combination, order, n_used, place):
    r"""Row of a derivative in the outputs of an order's program.

    The outputs are (e, grad) and, after m forward levels, the derivatives of grad along each subset of levels; subset
    number s (bits: levels) starts at 1 + n s. Derivative (i, j, ..): component i of grad, seeds j, .. in the first
    levels, the others in any lane that agrees.
    """
    if not combination:
        return out[0][0]
    component, *seeds = combination
    lane = tuple(seeds) + (n_used - 1,) * (order - 1 - len(seeds))
    subset = (1 << len(seeds)) - 1
    return out[1 + n_used * subset + component][place[lane]]


def scalar_form(functional: Functional, n_spin: int = 2):
    """Program of the energy per volume [hartree bohr^-3] with inputs VARIABLES[n_spin].

    Raises UnsupportedError for energies that are no functions of them.
    """
    rho, tau = placeholder("rho", SPACE, (2,)), placeholder("tau", SPACE, (2,))
    lowered = lower(functional.energy_density(rho, tau))
    if lowered.orders.get("rho", 0) > 2 or lowered.orders.get("tau", 0) > 0:
        raise UnsupportedError(
            f"functional {functional.name!r} needs derivatives of order {lowered.orders}; arrays of rho, sigma, lapl "
            "and tau hold the density to order 2 (as Laplacian) and tau to order 0."
        )
    shapes = ((2,), (2, 3), (2, 3, 3), (2,), (3,))
    code = lambda rho, gradient, hessian, tau, r: lowered({"rho": [rho, gradient, hessian], "tau": [tau]}, r)
    program = point_program(code, *(jax.ShapeDtypeStruct(s, np.float64) for s in shapes))
    if program.depends_on({28, 29, 30}):
        raise UnsupportedError(f"functional {functional.name!r} depends on the position r, not on the density alone.")
    pairs, axes = list(itertools.product(range(2), range(3))), range(3)
    try:
        program = in_scalar_products(
            program,
            plain={0: 0, 1: 1, 26: 7, 27: 8},
            vectors={2 + 3 * s + i: (s, i) for s, i in pairs},
            matrices={8 + 9 * s + 3 * i + j: (s, i, j) for (s, i), j in itertools.product(pairs, axes)},
            products={(0, 0): 2, (0, 1): 3, (1, 1): 4},
            traces={0: 5, 1: 6},
        )
    except UnsupportedError as error:
        raise UnsupportedError(f"functional {functional.name!r}: {error}") from error
    return program if n_spin == 2 else of_equal_spins(program)


def require_ingredients(functional: Functional, kernel: PointwiseKernel, given) -> None:
    """Raise FunctionalError if an ingredient that the functional depends on was not given."""
    missing = [name for name in kernel.ingredients if name not in given]
    if missing:
        raise FunctionalError(
            f"functional {functional.name!r} depends on {', '.join(kernel.ingredients)}, but {', '.join(missing)} "
            f"{'was' if len(missing) == 1 else 'were'} not given."
        )
