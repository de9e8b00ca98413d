"""A functional's energy per volume and its derivatives of any order in (rho, sigma, lapl, tau), on arrays of points.

The lowered functional becomes straight-line scalar code of these variables (see dftfd.autofd.scalar.gram: no gradient
vectors are built, so nothing is lost where gradients vanish or are parallel), and xc.code makes numbers of it.
"""

import itertools

import jax
import numpy as np

from dftfd.autofd.lowering.jets import lower
from dftfd.autofd.scalar.derive import of_equal_spins, restricted
from dftfd.autofd.scalar.gram import in_scalar_products
from dftfd.autofd.scalar.reader import point_program
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.xc.channels import HIGHEST, without_exact_exchange
from dftfd.xc.code import PointCode, shared
from dftfd.xc.variables import VARIABLES, family_of


def pointwise_kernel(functional: Functional, n_spin: int) -> "PointwiseKernel":
    """The kernel of a functional; the same object for equal functionals, so nothing is built or compiled twice."""
    return shared(PointwiseKernel, functional, n_spin)


class PointwiseKernel:
    """kernel(x, order) of the rows x (point,) of all `VARIABLES[n_spin]`: a tuple by order of derivatives.

    Element k has shape (combination, point), one row for each of `combinations(k)`.
    program: of the energy as a function of all variables.   used: positions of those that it depends on.
    n_spin 1: variables of the total density.
    """

    def __init__(self, functional: Functional, n_spin: int):
        self.n_spin = n_spin
        self.program = (
            of_equal_spins(pointwise_kernel(functional, 2).program) if n_spin == 1 else scalar_form(functional)
        )
        self.used = tuple(k for k in range(len(VARIABLES[n_spin])) if self.program.depends_on({k})) or (0,)
        self.code = PointCode(restricted(self.program, self.used), len(self.used))

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

    shapes = ((2,), (2, 3), (2, 3, 3), (2,), (3,), *[()] * count)
    program = point_program(code, *(jax.ShapeDtypeStruct(s, np.float64) for s in shapes))
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
