r"""Scalar products instead of vectors: a program of gradients g_s as a program of g_s . g_t.

A semilocal energy sees the density gradients through their scalar products alone. Written in vectors, its derivatives
with respect to sigma_st = g_s . g_t are 0/0 where a gradient vanishes or two are parallel, and lose digits nearby. So
the program itself is rewritten: each scalar is carried along as a polynomial of second degree in the components,

    c + sum_k c_k g_k + sum_kl c_kl g_k g_l + sum_ij d_ij H_ij,

with scalars as coefficients, until an operation asks for its value. There it has to be isotropic,
c_(si)(tj) = c_st delta_ij and d_(s)ij = d_s delta_ij, and becomes c + sum c_st sigma_st + sum d_s lapl_s.
"""

from dataclasses import replace

from dftfd.autofd.scalar.program import Node, ScalarProgram, evaluate
from dftfd.autofd.scalar.simplify import POINT, Nodes
from dftfd.errors import UnsupportedError


def in_scalar_products(
    program: ScalarProgram, plain: dict, vectors: dict, matrices: dict, products: dict, traces: dict
):
    """The program in terms of scalar products and traces; UnsupportedError if it takes anything else of the vectors.

    plain: {old input: new input}.
    vectors: {old input: (vector, axis)}.   products: {(vector, vector), ascending: new input}.
    matrices: {old input: (matrix, axis, axis)}.   traces: {matrix: new input}.
    """
    forms = Quadratics(vectors, matrices, products, traces)
    outputs = evaluate(program, forms, [forms.input(k, plain) for k in range(program.n_inputs)])
    numbers = tuple(map(forms.value, outputs))
    count = 1 + max([*plain.values(), *products.values(), *traces.values()])
    return ScalarProgram(tuple(forms.build.nodes), numbers, count)


class Quadratics:
    """Scalars are forms, dicts: sorted tuple of old inputs -> number of the coefficient's node in `build`."""

    def __init__(self, vectors, matrices, products, traces):
        self.build = Nodes(POINT)
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
        if node.op == "select_n" and forms[0].keys() == {()}:
            return self._selected(node, forms)
        return {(): self._plain(node, [self.value(form) for form in forms])}

    def _settled(self, form):
        """A sum by its value, where it has one, so that what follows is computed as it is written.

        In 1 - min(x, c) as a sum of selected coefficients, and in x q - y q for (x - y) q, rounding undoes what the
        formula promises.
        """
        if () not in form or len(form) == 1:
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
        """The node of an isotropic form's value."""
        total = form.get((), self.build.number(0.0))
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
        return total


def _degree(form) -> int:
    return max(map(len, form))


def _common(entries: dict) -> int:
    """The coefficient c of c delta_ij."""
    if entries.keys() != {(0, 0), (1, 1), (2, 2)} or len(set(entries.values())) > 1:
        raise _anisotropic()
    return entries[0, 0]


def _anisotropic():
    return UnsupportedError(
        "the energy density takes something else of the density gradients than their scalar products (or of the second "
        "derivatives than the Laplacian), so it is no function of rho, sigma, lapl and tau."
    )
