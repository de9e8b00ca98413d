"""A functional's energy per volume and its derivatives of any order in (rho, sigma, lapl, tau), on arrays of points.

The lowered functional becomes straight-line scalar code of these variables (see dftfd.autofd.scalar.gram: no gradient
vectors are built, so nothing is lost where gradients vanish or are parallel), and xc.code makes numbers of it.
"""

import itertools
from functools import cached_property, partial

import jax
import numpy as np

from dftfd.autofd.lowering.jets import lower
from dftfd.autofd.scalar.derive import of_equal_spins, restricted
from dftfd.autofd.scalar.gram import in_scalar_products
from dftfd.autofd.scalar.program import ScalarProgram
from dftfd.autofd.scalar.reader import point_program, written_program
from dftfd.autofd.scalar.symmetry import is_symmetric
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.xc.channels import HIGHEST, without_exact_exchange
from dftfd.xc.code import PointCode, apart, shared
from dftfd.xc.operands import Operand, code_with_operands, values_of, with_values
from dftfd.xc.variables import EXCHANGED, VARIABLES, family_of


def pointwise_kernel(functional: Functional, n_spin: int) -> "PointwiseKernel":
    """The kernel of a functional; the same object for equal functionals, so nothing is built or compiled twice."""
    return shared(PointwiseKernel, functional, n_spin)


class PointwiseKernel:
    """kernel(x, order) of the rows x (point,) of all `VARIABLES[n_spin]`: a tuple by order of derivatives.

    Element k has shape (combination, point), one row for each of `combinations(k)`.
    used: positions of the variables that the energy depends on.   n_spin 1: variables of the total density.
    """

    _form: "_Form"
    _operands: tuple[Operand, ...]

    def __init__(self, functional: Functional, n_spin: int):
        self.n_spin, self._functional = n_spin, functional
        kind, make = (PointwiseKernel, n_spin), partial(_Form, n_spin)
        if n_spin == 1:
            polarised = pointwise_kernel(functional, 2)
            trace, operands = lambda operands: of_equal_spins(polarised._form.program), polarised._operands
        else:
            trace, operands = self._traced, None
        self._form, self._operands = code_with_operands(kind, functional, trace, make, operands)
        self.used = self._form.used
        self.code = self._form.code.at(values_of(self._operands))

    def _traced(self, operands):
        """The program of all variables, then of operands."""
        count = values_of(operands).size
        made = lambda values: with_values(self._functional, operands, values)
        return scalar_form(self._functional, 2, count, made)

    @cached_property
    def program(self) -> ScalarProgram:
        """Of the energy as a function of all variables, with the functional's numbers as constants."""
        if not self._operands:
            return self._form.program
        if self.n_spin == 1:
            return of_equal_spins(pointwise_kernel(self._functional, 2).program)
        return apart(self._traced, ())

    @property
    def spins_are_alike(self) -> bool:
        """Whether the energy of two spins is proven to stay the same when they are exchanged."""
        return self._form.spins_are_alike

    @property
    def ingredients(self) -> tuple[str, ...]:
        """Names among rho, sigma, lapl, tau that the energy depends on."""
        return tuple(dict.fromkeys(family_of(k, self.n_spin) for k in self.used))

    def combinations(self, order: int) -> list[tuple[int, ...]]:
        """The distinct derivatives of an order, as ascending tuples of positions in VARIABLES."""
        return list(itertools.combinations_with_replacement(self.used, order))

    def energy(self, x):
        """Energy per volume for rows (point,) of all variables, in code that JAX can transform."""
        return self.code.energy([x[k] for k in self.used])

    def __call__(self, x, order: int, compiled: bool | None = None) -> tuple[np.ndarray, ...]:
        """x: an array (variable, point) or a list of rows; those of unused variables may be None.

        compiled: False for NumPy, without compilation but slower for a point; None where size and order decide.
        """
        return self.code.derivatives([x[k] for k in self.used], order, compiled)

    def by_component(self, x, order: int, compiled: bool | None = None) -> list[dict[tuple[int, ...], np.ndarray]]:
        """The same as {combination: (point,)} for each order."""
        by_order = self(x, order, compiled)
        return [dict(zip(self.combinations(k), rows, strict=True)) for k, rows in enumerate(by_order)]

    def along(self, x: np.ndarray, directions: np.ndarray) -> list[np.ndarray]:
        """Energy, gradient (used, point), and its derivatives along directions (level, variable, point) in turn."""
        rows = list(self.used)
        return self.code.along(x[rows], directions[:, rows])

    def require_ingredients(self, functional: Functional, given) -> None:
        """Raise FunctionalError if an ingredient that the functional depends on was not given."""
        missing = [name for name in self.ingredients if name not in given]
        if missing:
            raise FunctionalError(
                f"functional {functional.name!r} depends on {', '.join(self.ingredients)}, but {', '.join(missing)} "
                f"{'was' if len(missing) == 1 else 'were'} not given."
            )


class _Form:
    """What functionals have in common that differ by the values of operands: the program's last inputs."""

    def __init__(self, n_spin, operands, trace):
        self.program = program = trace(operands)
        count = len(VARIABLES[n_spin])
        self.used = tuple(k for k in range(count) if program.depends_on({k})) or (0,)
        inputs = [*self.used, *range(count, program.n_inputs)]
        self.code = PointCode(restricted(program, inputs), len(self.used), program.n_inputs - count)

    @cached_property
    def spins_are_alike(self):
        return is_symmetric(self.program, [*EXCHANGED, *range(len(EXCHANGED), self.program.n_inputs)])


_SPECS = tuple(jax.ShapeDtypeStruct(s, np.float64) for s in ((2,), (2, 3), (2, 3, 3), (2,), (3,)))
"""Of rho, its gradient, its second derivatives, tau and r, which a lowered functional takes."""


def written_form(functional: Functional) -> ScalarProgram:
    """Program of the energy per volume as the formula was written, of the entries of `_SPECS` one after the other.

    Nothing is simplified, so that it tells where the formula is defined, and on what it may depend.
    """
    lowered = lower(functional.energy_density(*unknown_densities()))
    code = lambda rho, gradient, hessian, tau, r: lowered({"rho": [rho, gradient, hessian], "tau": [tau]}, r)
    return written_program(code, *_SPECS)


def as_vectors(of_spins, zero) -> list:
    """What `written_form` takes, of pairs n, |nabla n|, nabla^2 n, tau: gradients and second derivatives along x alone,
    r = 0."""
    n, slope, lapl, tau = of_spins
    gradient = [entry for x in slope for entry in (x, zero, zero)]
    hessian = [entry for x in lapl for entry in (x, *[zero] * 8)]
    return [*n, *gradient, *hessian, *tau, zero, zero, zero]


def written_ingredients(functional: Functional) -> tuple[str, ...]:
    """Names among rho, sigma, lapl, tau of all that stands in the formula."""
    program = written_form(functional)
    places = {"rho": range(2), "sigma": range(2, 8), "lapl": range(8, 26), "tau": range(26, 28)}
    return tuple(name for name, inputs in places.items() if program.depends_on(inputs))


def scalar_form(functional: Functional, n_spin: int = 2, count: int = 0, with_numbers=None):
    """Program of the energy per volume [hartree bohr^-3] with inputs VARIABLES[n_spin], then `count` numbers.

    with_numbers: makes the functional of these numbers, parameters for instance; None: it is the given one.
    Raises UnsupportedError for energies that are no functions of them.
    """

    def lowered_form(given):
        lowered = lower(given.energy_density(*unknown_densities()))
        without_exact_exchange(functional, lowered.orders, "which is no scalar of the density at a point")
        if any(lowered.orders.get(name, 0) > highest for name, highest in HIGHEST.items()):
            raise UnsupportedError(
                f"functional {functional.name!r} needs derivatives of order {lowered.orders}; arrays of rho, sigma, "
                "lapl and tau hold the density to order 2 (as Laplacian) and tau to order 0."
            )
        return lowered

    given = lowered_form(functional)

    def code(rho, gradient, hessian, tau, r, *numbers):
        lowered = lowered_form(with_numbers(numbers)) if numbers else given
        return lowered({"rho": [rho, gradient, hessian], "tau": [tau]}, r)

    program = point_program(code, *_SPECS, *[jax.ShapeDtypeStruct((), np.float64)] * count)
    if program.depends_on({28, 29, 30}):
        raise UnsupportedError(f"functional {functional.name!r} depends on the position r, not on the density alone.")
    pairs, axes = list(itertools.product(range(2), range(3))), range(3)
    try:
        program = in_scalar_products(
            program,
            plain={0: 0, 1: 1, 26: 7, 27: 8, **{31 + k: 9 + k for k in range(count)}},
            vectors={2 + 3 * s + i: (s, i) for s, i in pairs},
            matrices={8 + 9 * s + 3 * i + j: (s, i, j) for (s, i), j in itertools.product(pairs, axes)},
            products={(0, 0): 2, (0, 1): 3, (1, 1): 4},
            traces={0: 5, 1: 6},
        )
    except UnsupportedError as error:
        raise UnsupportedError(f"functional {functional.name!r}: {error}") from error
    return program if n_spin == 2 else of_equal_spins(program)
