"""A functional's energy per volume and its derivatives of any order in (rho, sigma, lapl, tau), on arrays of points.

The lowered functional becomes straight-line scalar code of these variables, and xc.code makes numbers of it. No
gradient vectors are built, so nothing is lost where gradients vanish or are parallel.

A semilocal energy sees the density gradients through their scalar products alone. Written in vectors, its derivatives
with respect to sigma_st = g_s . g_t are 0/0 where a gradient vanishes or two are parallel, and lose digits nearby. So
the program itself is rewritten: each scalar is carried along as a polynomial of second degree in the components,

    c + sum_k c_k g_k + sum_kl c_kl g_k g_l + sum_ij d_ij H_ij,

with scalars as coefficients, until an operation asks for its value. There it has to be isotropic,
c_(si)(tj) = c_st delta_ij and d_(s)ij = d_s delta_ij, and becomes c + sum c_st sigma_st + sum d_s lapl_s.
"""

import itertools
from dataclasses import replace
from functools import cached_property, partial

import jax
import numpy as np

from dftfd.autofd.lowering import lower
from dftfd.autofd.scalar.derive import of_equal_spins, restricted
from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.reader import point_program, written_program
from dftfd.autofd.scalar.simplify import POINT, Nodes, is_symmetric
from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import unknown_densities
from dftfd.xc.channels import EXCHANGED, HIGHEST, VARIABLES, family_of, without_exact_exchange
from dftfd.xc.code import PointCode, apart, shared
from dftfd.xc.operands import Operand, code_with_operands, values_of, with_values


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

    Nothing is simplified, so that it tells where the formula is defined, and on what it may depend. Raises
    UnsupportedError where any part, even one that the kernel drops, takes more than scalar products and Laplacians: the
    conditions of such a part depend on directions, which a point of (rho, sigma, lapl, tau) does not have.
    """
    lowered = lower(functional.energy_density(*unknown_densities()))
    without_exact_exchange(functional, lowered.orders, "which is no scalar of the density at a point")
    code = lambda rho, gradient, hessian, tau, r: lowered({"rho": [rho, gradient, hessian], "tau": [tau]}, r)
    program = written_program(code, *_SPECS)
    _require_no_position(functional, program)
    _in_variables(functional, program, count=3, fold=False)
    return program


def _require_no_position(functional: Functional, program: ScalarProgram) -> None:
    if program.depends_on({28, 29, 30}):
        raise UnsupportedError(f"functional {functional.name!r} depends on the position r, not on the density alone.")


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


def scalar_form(functional: Functional, n_spin: int = 2, count: int = 0, with_numbers=None, fold: bool = True):
    """Program of the energy per volume [hartree bohr^-3] with inputs VARIABLES[n_spin], then `count` numbers.

    with_numbers: makes the functional of these numbers, parameters for instance; None: it is the given one.
    fold: whether numbers of the formula are joined, as in kernels, where float64 rounds them.
    Raises UnsupportedError for energies that are no functions of them.
    """

    def lowered_form(given):
        lowered = lower(given.energy_density(*unknown_densities()))
        without_exact_exchange(functional, lowered.orders, "which is not a scalar of the density at a point")
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

    program = point_program(code, *_SPECS, *[jax.ShapeDtypeStruct((), np.float64)] * count, fold=fold)
    _require_no_position(functional, program)
    program = _in_variables(functional, program, count, fold, first=31)
    return program if n_spin == 2 else of_equal_spins(program, fold)


def _in_variables(functional: Functional, program: ScalarProgram, count: int, fold: bool, first: int = 28):
    """The program of the entries of `_SPECS` in terms of VARIABLES[2] and of `count` inputs from the `first` on."""
    pairs, axes = list(itertools.product(range(2), range(3))), range(3)
    try:
        return in_scalar_products(
            program,
            plain={0: 0, 1: 1, 26: 7, 27: 8, **{first + k: 9 + k for k in range(count)}},
            vectors={2 + 3 * s + i: (s, i) for s, i in pairs},
            matrices={8 + 9 * s + 3 * i + j: (s, i, j) for (s, i), j in itertools.product(pairs, axes)},
            products={(0, 0): 2, (0, 1): 3, (1, 1): 4},
            traces={0: 5, 1: 6},
            fold=fold,
        )
    except UnsupportedError as error:
        raise UnsupportedError(f"functional {functional.name!r}: {error}") from error


def in_scalar_products(
    program: ScalarProgram, plain: dict, vectors: dict, matrices: dict, products: dict, traces: dict, fold: bool = True
):
    """The program in terms of scalar products and traces; UnsupportedError if it takes anything else of the vectors.

    plain: {old input: new input}.
    vectors: {old input: (vector, axis)}.   products: {(vector, vector), ascending: new input}.
    matrices: {old input: (matrix, axis, axis)}.   traces: {matrix: new input}.
    """
    forms = Quadratics(vectors, matrices, products, traces, fold)
    outputs = evaluate(program, forms, [forms.input(k, plain) for k in range(program.n_inputs)])
    numbers = tuple(map(forms.value, outputs))
    count = 1 + max([*plain.values(), *products.values(), *traces.values()])
    return ScalarProgram(tuple(forms.build.nodes), numbers, count)


class Quadratics:
    """Scalars are forms, dicts: sorted tuple of old inputs -> number of the coefficient's node in `build`."""

    def __init__(self, vectors, matrices, products, traces, fold: bool = True):
        self.build = Nodes(POINT, fold)
        self.vectors, self.matrices, self.products, self.traces = vectors, matrices, products, traces

    def input(self, k: int, plain: dict):
        """The form of an old input."""
        if k in plain:
            return {(): self.build.intern(Node("input", value=plain[k]))}
        return {(k,): self.build.number(1.0)}

    def constant(self, value):
        return {(): self.build.intern(Node("const", value=value))}

    def apply(self, node, forms):
        if node.op not in ("add", "add_any", "sub", "neg"):
            forms = [self._settled(form) for form in forms]
        if all(form.keys() == {()} for form in forms):
            return {(): self._plain(node, [form[()] for form in forms])}
        if node.op in ("add", "add_any"):
            return self._sum(*forms)
        if node.op == "sub":
            return self._sum(forms[0], self._scaled(forms[1], self.build.number(-1.0)))
        if node.op == "neg":
            return self._scaled(forms[0], self.build.number(-1.0))
        if node.op == "mul":
            return self._product(*forms)
        if node.op == "square" or (node.op == "integer_pow" and node.params["y"] == 2):
            return self._product(forms[0], forms[0])
        if node.op == "div" and forms[1].keys() == {()}:
            return self._without_zeros({m: self._plain(node, [c, forms[1][()]]) for m, c in forms[0].items()})
        if node.op == "select_n" and forms[0].keys() == {()}:
            return self._selected(node, forms)
        return {(): self._plain(node, [self.value(form) for form in forms])}

    def _settled(self, form):
        """A form by its value, where it has one, so that what follows is computed as it is written.

        In 1 - min(x, c) as a sum of selected coefficients, and in x q - y q for (x - y) q, rounding undoes what the
        formula promises; in c sigma_aa + 2 c sigma_ab + c sigma_bb that of opposite gradients is c times too large.
        """
        if form.keys() == {()}:
            return form
        try:
            return {(): self.value(form)}
        except UnsupportedError:
            return form

    def _plain(self, node, args) -> int:
        if not node.real or node.value is not None:
            return self.build.intern(replace(node, args=tuple(args)))
        return self.build.make(node.op, args, node.code, node.params)

    def _sum(self, a, b):
        total = dict(a)
        for monomial, coefficient in b.items():
            known = total.get(monomial)
            total[monomial] = coefficient if known is None else self.build.sum(known, coefficient)
        return self._without_zeros(total)

    def _scaled(self, form, factor: int):
        return self._without_zeros({m: self.build.product(c, factor) for m, c in form.items()})

    def _without_zeros(self, form):
        kept = {m: c for m, c in form.items() if not self.build.is_value(c, 0)}
        return kept or {(): self.build.number(0.0)}

    def _product(self, a, b):
        if _degree(a) + _degree(b) > 2 or self._has_matrix(a, b):
            a, b = ({(): self.value(f)} if _degree(f) > 1 or self._has_matrix(f) else f for f in (a, b))
        total = {(): self.build.number(0.0)}
        for m, c in a.items():
            for n, d in b.items():
                total = self._sum(total, {tuple(sorted(m + n)): self.build.product(c, d)})
        return total

    def _has_matrix(self, *forms) -> bool:
        """True if a product of these forms would multiply matrix entries by more than plain numbers."""
        matrix = any(k in self.matrices for f in forms for m in f for k in m)
        return matrix and not any(f.keys() == {()} for f in forms)

    def _selected(self, node, forms):
        predicate, *branches = forms
        zero = self.build.number(0.0)
        monomials = dict.fromkeys(m for branch in branches for m in branch)
        choose = lambda m: self._plain(node, [predicate[()], *(branch.get(m, zero) for branch in branches)])
        return self._without_zeros({m: choose(m) for m in monomials})

    def value(self, form) -> int:
        """The node of an isotropic form's value.

        The constant is added last: in 1 + c sigma_aa + 2 c sigma_ab + c sigma_bb with a large c it would be lost beside
        the first term where gradients cancel.
        """
        total = self.build.number(0.0)
        quadratic: dict[tuple[int, int], dict] = {}
        traces: dict[int, dict] = {}
        for monomial, coefficient in form.items():
            if len(monomial) == 1 and monomial[0] in self.matrices:
                matrix, i, j = self.matrices[monomial[0]]
                traces.setdefault(matrix, {})[i, j] = coefficient
            elif len(monomial) == 2:
                (s, i), (t, j) = sorted(self.vectors[k] for k in monomial)
                quadratic.setdefault((s, t), {})[i, j] = coefficient
            elif len(monomial) == 1:
                raise _anisotropic()
        for parts, inputs in ((quadratic, self.products), (traces, self.traces)):
            for key, entries in parts.items():
                coefficient = _common(entries)
                new = self.build.intern(Node("input", value=inputs[key]))
                total = self.build.sum(total, self.build.product(coefficient, new))
        return self.build.sum(total, form[()]) if () in form else total


def _degree(form) -> int:
    return max(map(len, form))


def _common(entries: dict) -> int:
    """The coefficient c of c delta_ij."""
    if entries.keys() != {(0, 0), (1, 1), (2, 2)} or len(set(entries.values())) > 1:
        raise _anisotropic()
    return entries[0, 0]


def _anisotropic():
    return UnsupportedError(
        "the energy density depends on more of the density gradients than their scalar products (or of the "
        "second derivatives than the Laplacian), so it is not a function of rho, sigma, lapl and tau."
    )
