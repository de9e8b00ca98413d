"""First and second derivatives of exchange-correlation energies by where orbitals and grid points are.

The energy of a block is a function of weights, points and the components A_c of the orbitals (values and derivatives).
A kernel gives its slopes v with respect to weights and density channels, and with them those by the components,
D_c = dE/dA_c, the same for any functional:

    D_0 = 2 P (v_0 A_0 + sum_i v_i A_i + sum_{i<=j} v_ij A_ij),   D_ij = 2 v_ij P A_0,
    D_i = 2 v_i P A_0 + 2 sum_{j != i} v_ij P A_j + 4 v_ii P A_i + v_tau P A_i

Moving point p by dr, or the centre of orbital mu by -dr, changes the components by A_c -> A_c + dr . nabla A_c:

    dE/dr_p = sum_mu X_mu,p,   dE/dR_mu = -sum_p X_mu,p,   X_mu,p = sum_c D_c,mu,p nabla A_c,mu,p

Neither D_c nor nabla A_c is formed. The orbitals of a contraction are S_m(y) g_0, y = r - R, with polynomials S_m of
degree l and g_0 = sum_k d_k exp(-a_k y^2); nabla g_k = y g_{k+1}. With S = sum_m V_m S_m for the
coefficients V of each term of f, and the indices of S its derivatives, the terms' gradients are y a + X,

    V:                          a = S g_1,                          X_i = S_i g_0
    V along s, s . nabla:       a = S (y.s) g_2 + s_j S_j g_1,      X_i = (s_i S + (y.s) S_i) g_1 + s_j S_ij g_0
    V by M, M_jk d_j d_k:       a = (y.My) S g_3 + (tr M S + 2 (My)_j S_j) g_2 + M_jk S_jk g_1,
                                X_i = (2 (My)_i S + (y.My) S_i) g_2
                                      + (tr M S_i + 2 M_ij S_j + 2 (My)_j S_ij) g_1 + M_jk S_ijk g_0

The highest derivatives of S are sums of monomials, those below follow by Euler, (l - k) S_c = y_i S_ci at order k.

Second derivatives: at a fixed density matrix P the energy E = sum_p w_p e(n_p) depends on the nuclei through the
weights w and through the density's channels n_c = <A| B_c |P A>, bilinear in the orbitals A on a point p. An orbital of
atom a moves by dR_a, a point by that of its owner o: A changes by (dR_o - dR_a) . nabla A, everything on a point
depends on differences, and the derivative by the owner is minus the sum of all others. With n^a = dn/dR_a,
w^a = dw/dR_a and v = de/dn,

    E^ab = sum_p w^ab e + w^a v . n^b + w^b v . n^a + w n^a . f . n^b + w v . n^ab,   f = d2e/dn dn
    F^a  = dF/dR_a = dE^a/dP: the matrix of the potential w^a v + w f n^a, and that of w v with one orbital moved

The matrices are only wanted where they act on the orbitals that have electrons.
"""

import itertools
import operator
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd.scalar.on_jax import in_one_loop
from dftfd.libcint.derivatives import MovingCentres, runs
from dftfd.libcint.gto import GaussianBasis, component_count, monomial_powers, slopes_of_monomials
from dftfd.runtime.array_types import MatrixJet
from dftfd.xc.ao_store import AOStore
from dftfd.xc.channels import GRADIENT, HESSIAN, RAISED, ROW, TAU, ao_order
from dftfd.xc.code import kept
from dftfd.xc.density import ao_tables
from dftfd.xc.kernel import FunctionalKernel, Slopes
from dftfd.xc.matrix import MatrixBuilder, Scratch, jet_of_products
from dftfd.xc.transitions import Transitions, kernel_hessian


@dataclass(frozen=True, eq=False)
class XCGradient:
    """Slopes of the energy at fixed density matrices.

    orbitals: (atom, 3), by the centres of each atom's orbitals [hartree/bohr].   points: (point, 3), by the grid's
    points.   weights: (point,), by its weights.   nuclei: (atom, 3), by an explicit dependence on them, or 0.
    """

    orbitals: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    nuclei: np.ndarray | float = 0.0


def density_times(A, form, scratch, out):
    """P A for A (..., ao, point), written to `out`.   form: (P, None) or (None, occupied orbitals C)."""
    P, C = form
    if C is None:
        return np.matmul(P, A, out=out)
    orbitals = np.matmul(C.T, A, out=scratch("orbitals", *A.shape[:-2], C.shape[1], A.shape[-1]))
    return np.matmul(C, orbitals, out=out)


class GradientBuilder(MatrixBuilder):
    """XCGradient of a kernel; `store` has the AO derivatives that its matrices need."""

    def __init__(self, kernel, store: AOStore, progress=None):
        super().__init__(kernel, store, progress)
        most = max(len(block.aos) for block in store.blocks)
        self._moved = MovedOrbitals(
            store.basis, kernel.order, kernel.needs_tau, most, store.block_size, len(store.blocks)
        )

    def build(self, P, C_occ=None) -> XCGradient:
        """Slopes of the energy of P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        slopes = self.kernel.slopes(*self.grid, self.density(P, C_occ)) if self.kernel.whole_grid else None
        return self._of_slopes(P, slopes, C_occ)

    def _of_slopes(self, P, slopes, C_occ=None) -> XCGradient:
        """That of densities P, linear in them where the kernel's slopes on the whole grid are given."""
        n = self.store.n_points
        points, weights = np.zeros((n, 3)), np.zeros(n)
        done = itertools.count(1)
        parts = self._on_workers(self._build_part, P, C_occ, slopes, points, weights, done)
        return XCGradient(sum(parts), points, weights, 0.0 if slopes is None else slopes.nuclei)

    def _build_part(self, part, scratch, P, C_occ, slopes, points, weights, done) -> np.ndarray:
        """Sum (atom, 3) over the blocks of one worker; writes to `points` and `weights`."""
        form = self._moved.form
        by_atom = np.zeros((len(self.store.basis.atm), 3))
        for index in part:
            block = self.store.blocks[index]
            ao, n_ao = self._values(index, scratch), len(block.aos)
            forms = [self._density_form(index, s, P, C_occ) for s in range(len(P))]
            PA = [scratch(f"PA {s}", form.n_products, form.n_orbitals, ao.shape[2]) for s in range(len(P))]
            for products, of_spin in zip(PA, forms, strict=True):
                density_times(ao[: form.n_alone], of_spin, scratch, products[: form.n_alone, :n_ao])
            of_block = self._slopes_of_block(
                index, ao, [products[: form.n_alone, :n_ao] for products in PA], slopes, scratch
            )
            by_point = of_block.points.copy()
            for potential, of_spin, products in zip(of_block.density, forms, PA, strict=True):
                if form.n_products > form.n_alone:
                    out = scratch("weighted", *ao.shape[1:])
                    weighted = np.einsum("cmp,cp->mp", ao[form.rest], potential[form.rest], out=out)
                    density_times(weighted, of_spin, scratch, products[-1, :n_ao])
                of_atoms, of_points = self._moved(block, products, potential)
                by_atom -= of_atoms
                by_point += of_points
            self._add_other_slopes(index, ao, of_block, by_atom, by_point)
            n = len(block.members)
            points[block.members] = by_point.T[:n]
            weights[block.members] = of_block.weights[:n]
            if self._progress is not None:
                self._progress(next(done), len(self.store.blocks))
        return by_atom

    def _slopes_of_block(self, index, ao, PA, slopes, scratch) -> Slopes:
        """From those of the whole grid, or by the kernel from the products P A of each spin."""
        if slopes is not None:
            return Slopes(*(self._of_block(s, index) for s in slopes[:3]))
        kernel, block = self.kernel, self.store.blocks[index]
        density = scratch("density", len(PA), kernel.channels, self.store.block_size)
        for PA_s, out in zip(PA, density, strict=True):
            jet_of_products(PA_s, ao, PA_s[0], ao, kernel.order, kernel.needs_tau, out)
        self._add_other_channels(index, ao, density)
        self._require_finite(density)
        return kernel.slopes(block.points, block.weights, density)

    def _add_other_channels(self, index, ao, density) -> None:
        """Writes the channels that are no products of orbitals at a point, where a kernel has any."""

    def _add_other_slopes(self, index, ao, slopes, by_atom, by_point):
        """Adds to by_atom (atom, 3) and by_point (3, point) what these channels change with orbitals and points."""


class BentGradientBuilder(GradientBuilder):
    """Second derivatives along e of the XCGradient of densities P_0 + e P_1 + e^2/2 P_2."""

    kernel: FunctionalKernel

    def build(self, P: MatrixJet, C_occ=None) -> XCGradient:
        """The slopes at P_0 to second order in e."""
        jets = [self._checked(P_k, None)[0] for P_k in P]
        found = self.kernel.second_slopes(*self.grid, *(self.density(P_k) for P_k in jets))
        nothing = np.zeros_like(found.second.weights), np.zeros_like(found.second.points)
        of_density = (Slopes(nothing[0], potential, nothing[1]) for potential in (found.change, found.potential))
        whole, along, potential = (
            self._of_slopes(*pair) for pair in zip(jets, (found.second, *of_density), strict=True)
        )
        orbitals = whole.orbitals + 2.0 * along.orbitals + potential.orbitals
        points = whole.points + 2.0 * along.points + potential.points
        return XCGradient(orbitals, points, whole.weights, whole.nuclei)


FEWEST = 256
"""Orbitals of a block that code is compiled for at least, so that small molecules share it."""

WORTH_COMPILING = 4000
"""Contractions times blocks of points from which on code is compiled: NumPy takes a second for them."""

_AT_ONCE = 16384
"""Numbers in the arrays of NumPy's way: a few dozen of them stay in the cache."""


class Form(NamedTuple):
    """What code is compiled for.

    order, tau: as a kernel has them.   n_orbitals: of a block at most.   n_points: of a block.
    contractions: (l, primitives of one, orbitals of one) for each angular momentum.
    """

    order: int
    tau: bool
    n_orbitals: int
    n_points: int
    contractions: tuple[tuple[int, int, int], ...]

    @property
    def highest(self) -> int:
        """Order of the derivatives of orbitals whose sums there are."""
        return max(self.order, int(self.tau)) + 1

    @property
    def n_alone(self) -> int:
        """Components A_c of the orbitals for which P A_c is needed."""
        return 4 if self.order >= 2 or self.tau else 1

    @property
    def rest(self) -> slice:
        """The other components, for which P sum_c v_c A_c will do; may be empty."""
        return slice(self.n_alone, max(self.n_alone, component_count(self.order)))

    @property
    def n_products(self) -> int:
        """Products with P, the rest's at the end."""
        return self.n_alone + (self.rest.stop > self.rest.start)


class MovedOrbitals:
    """The module's sums for the orbitals of a basis, block by block.

    order, tau: of the kernel.   most: orbitals of a block at most.   n_points, n_blocks: points of each, how many.
    """

    def __init__(self, basis: GaussianBasis, order: int, tau: bool, most: int, n_points: int, n_blocks: int):
        tables = ao_tables(basis)
        aos = np.argsort(tables.positions)
        of_shell = np.repeat(np.arange(basis.n_shells), np.diff(basis.ao_offsets))
        self._basis, self._rows, polynomials, start = basis, [], [], 0
        contractions: list[tuple[int, int, int]] = []
        for l, table in zip(tables.angular_momenta, tables.shells, strict=True):
            N, count = np.asarray(table.angular), len(table.centres)
            first = aos[start : start + N.shape[1] * count : N.shape[1]]
            start += N.shape[1] * count
            self._rows.append((first, of_shell[first], np.hstack([table.centres, table.exponents, table.coefficients])))
            polynomials.append(N)
            contractions.append((l, table.exponents.shape[1], N.shape[1]))
        compiled = sum(len(first) for first, *_ in self._rows) * n_blocks >= WORTH_COMPILING
        n_orbitals = max(FEWEST, 1 << (most - 1).bit_length()) if compiled else most
        self.form = Form(order, tau, n_orbitals, n_points, tuple(contractions))
        highest = [_highest(self.form, N, l) for N, (l, *_) in zip(polynomials, contractions, strict=True)]
        self._code = partial(_by_numpy, self.form, highest)
        if compiled:
            self._code = kept((MovedOrbitals, self.form), _compiled, self.form, highest)

    def __call__(self, block, products, potential) -> tuple[np.ndarray, np.ndarray]:
        """Gains by each atom's orbitals (atom, 3) and at each point (3, point) [hartree/bohr].

        products: (product, n_orbitals of the form, point), those of the form.
        potential: (channel, point), slopes of the energy by the channels of the density.
        """
        basis, most = self._basis, self.form.n_orbitals
        place, present = np.full(basis.n_ao, -1), np.zeros(basis.n_shells, dtype=bool)
        place[block.aos], present[block.shells] = np.arange(len(block.aos)), True
        tables, atoms = [], []
        for first, shells, numbers in self._rows:
            here = np.flatnonzero(present[shells])
            of_rows, places = np.zeros((most, numbers.shape[1])), np.zeros(most, dtype=np.int64)
            of_rows[: len(here)], places[: len(here)] = numbers[here], place[first[here]]
            tables.append((len(here), places, of_rows))
            atoms.append(basis.atoms[shells[here]])
        v = potential[: component_count(self.form.order)], potential[TAU]
        at_points, *of_rows = self._code(np.ascontiguousarray(block.points.T), *v, products, tables)
        by_atom = np.zeros((len(basis.atm), 3))
        for at, rows in zip(atoms, of_rows, strict=True):
            np.add.at(by_atom, at, np.asarray(rows)[: len(at)])
        return by_atom, np.asarray(at_points)


def _compiled(form: Form, highest):
    shape = lambda *n: jax.ShapeDtypeStruct(n, np.float64)
    integer = lambda *n: jax.ShapeDtypeStruct(n, np.int64)
    n, most = form.n_points, form.n_orbitals
    tables = [(integer(), integer(most), shape(most, 3 + 2 * k)) for _, k, _ in form.contractions]
    at_points = shape(3, n), shape(component_count(form.order), n), shape(n)
    return jax.jit(partial(_in_jax, form, highest)).lower(*at_points, shape(form.n_products, most, n), tables).compile()


def _in_jax(form, highest, points, v, v_tau, products, tables):
    """The gain at each point (3, point), then of each contraction (row, 3) for each angular momentum.

    One loop over the points for each contraction, in which all stays in registers: see autofd.scalar.on_jax.
    """
    at_points, of_rows = [jnp.zeros(form.n_points)] * 3, []
    at_all = [*points, *v, v_tau]  # the same for all contractions
    for of_l, T, table in zip(form.contractions, highest, tables, strict=True):

        def body(row, carry, of_l=of_l, T=T, table=table):
            at_points, of_rows = carry
            _, place, numbers = table
            orbitals = jax.lax.dynamic_slice_in_dim(products, place[row], of_l[2], axis=1)
            values = [*at_all, *orbitals.reshape(-1, form.n_points)]
            gain = in_one_loop(partial(_gain, form, of_l, T), values, list(numbers[row]), 3)
            at_points = [total + of_row for total, of_row in zip(at_points, gain, strict=True)]
            return at_points, of_rows.at[row].set(jnp.stack([of_row.sum() for of_row in gain]))

        start = at_points, jnp.zeros((form.n_orbitals, 3))
        at_points, gained = jax.lax.fori_loop(0, table[0], body, start)
        of_rows.append(gained)
    return jnp.stack(at_points), *of_rows


def _by_numpy(form, highest, points, v, v_tau, products, tables):
    """The same, for some contractions at a time."""
    at_points, of_rows = np.zeros(points.shape), []
    at_all = [*points, *v, v_tau]
    for of_l, T, (count, place, numbers) in zip(form.contractions, highest, tables, strict=True):
        gained, few = np.zeros((count, 3)), max(1, _AT_ONCE // form.n_points)
        for start in range(0, count, few):
            rows = slice(start, min(start + few, count))
            orbitals = products[:, place[rows] + np.arange(of_l[2])[:, None]]  # (product, m, row, point)
            values = [*at_all, *orbitals.reshape(-1, *orbitals.shape[2:])]
            for x, gain in enumerate(_gain(form, of_l, T, values, list(numbers[rows].T[:, :, None]))):
                at_points[x] += gain.sum(axis=0)
                gained[rows, x] = gain.sum(axis=1)
        of_rows.append(gained)
    return at_points, *of_rows


def _gain(form, of_l, T, values, numbers) -> list:
    """nabla f (3) of the orbitals of one contraction at a point, in numbers, arrays, or what JAX has for them.

    values: point, v_c, v_tau, then each product's orbitals.   numbers: centre, exponents, coefficients.   T: _highest.
    """
    l, k, width = of_l
    y = [x - centre for x, centre in zip(values[:3], numbers[:3], strict=True)]
    n_v = component_count(form.order)
    v, v_tau, products = values[3 : 3 + n_v], values[3 + n_v], values[4 + n_v :]
    P = [products[c * width : (c + 1) * width] for c in range(form.n_products)]
    g = _radial(numbers[3 : 3 + k], numbers[3 + k :], _dot(y, y), form.highest + 1)
    powers = _monomials(l - _top(form, l), y)
    of = lambda V: _derivatives(form, l, T, powers, y, V)

    alone, rest = (v[: form.n_alone] if form.order else v[:1]), P[form.n_alone :]
    D = of(_combined([*(2.0 * v_c for v_c in alone), *[2.0] * len(rest)], [*P[: len(alone)], *rest]))
    a, X = _times(D[0], g[1]), [_times(D.get(1 + i), g[0]) for i in range(3)]
    terms = []
    if form.n_alone == 1 and form.order:
        terms.append(_along(of(P[0]), [2.0 * v_i for v_i in v[1:4]], y, g))
    for i in range(3) if form.n_alone == 4 else ():
        factors = {1 + i: v_tau} if form.tau else {}
        if form.order >= 1:
            factors[0] = 2.0 * v[1 + i]
        for j in range(3) if form.order >= 2 else ():
            factors[1 + j] = _plus(factors.get(1 + j), (4.0 if i == j else 2.0) * v[ROW[i, j]])
        terms.append(_along(of(_combined(factors.values(), [P[c] for c in factors])), i, y, g))
    if form.order >= 2:
        M = [[(2.0 if i == j else 1.0) * v[ROW[i, j]] for j in range(3)] for i in range(3)]
        terms.append(_by_two(of(P[0]), M, y, g))
    a = _plus(a, *(term[0] for term in terms))
    return [_plus(X[i], *(term[1][i] for term in terms), _times(y[i], a)) for i in range(3)]


def _along(S, s, y, g):
    """(a, X) of s . nabla; s: three numbers, or a direction."""
    component = (lambda V: V[s]) if isinstance(s, int) else (lambda V: _dot(V, s))
    w, slope = component(y), component([S.get(1 + i) for i in range(3)])
    unit = [1.0 if i == s else None for i in range(3)] if isinstance(s, int) else s
    X = [
        _plus(
            _times(_plus(_times(unit[i], S[0]), _times(w, S.get(1 + i))), g[1]),
            _times(component([S.get(ROW[i, j]) for j in range(3)]), g[0]),
        )
        for i in range(3)
    ]
    return _plus(_times(S[0], w, g[2]), _times(slope, g[1])), X


def _by_two(S, M, y, g):
    """(a, X) of M_jk d_j d_k."""
    slope, axes = [S.get(1 + i) for i in range(3)], range(3)
    My, trace = [_dot(row, y) for row in M], M[0][0] + M[1][1] + M[2][2]
    w, along, two = _dot(My, y), _dot(My, slope), [[S.get(ROW[i, j]) for j in axes] for i in axes]
    a = _plus(
        _times(w, S[0], g[3]),
        _times(_plus(_times(trace, S[0]), _times(2.0, along)), g[2]),
        _times(_plus(*map(_dot, M, two)), g[1]),
    )
    X = []
    for i in axes:
        three = [[S.get(RAISED[i, ROW[j, k]]) for k in axes] for j in axes]
        of_first = _plus(_times(trace, slope[i]), _times(2.0, _dot(M[i], slope)), _times(2.0, _dot(My, two[i])))
        X.append(
            _plus(
                _times(_plus(_times(2.0, My[i], S[0]), _times(w, slope[i])), g[2]),
                _times(of_first, g[1]),
                _times(_plus(*map(_dot, M, three)), g[0]),
            )
        )
    return a, X


def _radial(exponents, coefficients, squared, count) -> list:
    """g_k for k < count."""
    terms, g = [c * _exp(-a * squared) for a, c in zip(exponents, coefficients, strict=True)], []
    for k in range(count):
        g.append(_plus(*terms))
        if k < count - 1:
            terms = [(-2.0 * a) * term for a, term in zip(exponents, terms, strict=True)]
    return g


def _exp(x):
    return np.exp(x) if isinstance(x, np.ndarray) else jnp.exp(x)


def _top(form, l) -> int:
    """The highest order of derivatives of the polynomials that is needed and does not vanish."""
    return min(l, form.highest)


def _highest(form, N, l) -> np.ndarray:
    """Derivatives of order `_top` of the polynomials N (monomial, m): (derivative, monomial of degree l - top, m)."""
    return np.einsum("scd,cm->sdm", slopes_of_monomials(l, _top(form, l)), N)


def _monomials(l, y) -> list:
    """x^i y^j z^k of degree l; None for 1."""
    return [
        reduce(operator.mul, [y[i] for i in np.repeat(range(3), powers)]) if l else None
        for powers in monomial_powers(l)
    ]


def _derivatives(form, l, T, powers, y, V) -> dict:
    """S_c = sum_m V_m S_m,c by the component c, as far as they are needed and do not vanish."""
    top, S = _top(form, l), {}
    components = lambda k: range(component_count(k - 1), component_count(k))
    for c, of_monomials in zip(components(top), T, strict=True):
        parts = []
        for of_m, power in zip(of_monomials, powers, strict=True):
            factor = _plus(*(float(n) * V_m for n, V_m in zip(of_m, V, strict=True) if n))
            parts.append(factor if power is None else _times(factor, power))
        S[c] = _plus(*parts)
    for k in range(top - 1, -1, -1):
        for c in components(k):
            S[c] = _times(*([1.0 / (l - k)] if l > k + 1 else ()), _dot([S[RAISED[i, c]] for i in range(3)], y))
    return {c: value for c, value in S.items() if value is not None}


def _combined(factors, rows) -> list:
    """sum over rows (m) of factors times them."""
    return [_plus(*(f * V for f, V in zip(factors, of_m, strict=True))) for of_m in zip(*rows, strict=True)]


def _dot(a, b):
    return _plus(*map(_times, a, b))


def _times(*factors):
    """The product; None, for zero, where one is."""
    return None if any(f is None for f in factors) else reduce(operator.mul, factors)


def _plus(*terms):
    """The sum; None is zero."""
    given = [t for t in terms if t is not None]
    return reduce(operator.add, given) if given else None


@dataclass(frozen=True, eq=False)
class XCCurvature:
    """hessian: E^ab without w^ab e (atom, 3, atom, 3) [hartree/bohr^2].   on_orbitals: F^a C, per spin (atom, 3,
    orbital, ao).   energies: e (point,), which w^ab takes.
    """

    hessian: np.ndarray
    on_orbitals: list[np.ndarray]
    energies: np.ndarray


def has_curvature(kernel) -> bool:
    """Whether a kernel's energy can be differentiated here: of densities, their gradients and tau at a point alone."""
    return not kernel.whole_grid and kernel.order < 2 and not (kernel.exact_exchange or kernel.knows_the_point)


class CurvatureBuilder(MatrixBuilder):
    """XCCurvature of a kernel on points that move with one atom, the owner.

    store: of these points, with derivatives of two orders more than matrices need.
    weight_changes: w^a (atom, 3, point).   C: per spin the orbitals (orbital, ao) that F^a acts on.
    """

    def __init__(self, kernel, store, molecule, owner: int, weight_changes, C):
        super().__init__(kernel, store)
        self._owner, self._weight_changes, self._C = owner, weight_changes, C
        self._transitions = Transitions(self, C)
        self._centres = MovingCentres(molecule)
        self._n_atoms, self._atom_of_ao = self._centres.n_atoms, self._centres.atom_of_ao

    def build(self, P, C_occ=None) -> XCCurvature:
        """Of density matrices P; arguments as in XCBuilder.build."""
        P, C_occ = self._checked(P, C_occ)
        energies = np.zeros(self.store.n_points)
        parts = self._on_workers(self._build_part, P, C_occ, energies)
        H, moved, *on_orbitals = (sum(of_part) for of_part in zip(*parts, strict=True))
        for s, found in enumerate(on_orbitals):
            self._centres.add_first(found, moved[s], self._C[s], self._owner)
        return XCCurvature(H, on_orbitals, energies)

    def _build_part(self, part, scratch, P, C_occ, energies):
        """Sums over the blocks of one worker: E^ab, Z (spin, 3, ao, ao) of `_moved_matrices`, F^a C of potentials."""
        n, n_ao, n_spin = self._n_atoms, self.store.n_ao, len(P)
        H, moved = np.zeros((n, 3, n, 3)), np.zeros((n_spin, 3, n_ao, n_ao))
        on_orbitals = [np.zeros((n, 3, *C.shape)) for C in self._C]
        for index in part:
            block, ao = self.store.blocks[index], self._values(index, scratch)
            if not len(block.aos):  # far from all nuclei there is nothing
                continue
            forms = [self._density_form(index, s, P, C_occ) for s in range(n_spin)]
            n_left = 4 if ao_order(self.kernel) else 1
            PA = [
                density_times(ao[:n_left], form, scratch, scratch(f"PA {s}", n_left, *ao.shape[1:]))
                for s, form in enumerate(forms)
            ]
            density = scratch("density", n_spin, self.kernel.channels, self.store.block_size)
            for PA_s, out in zip(PA, density, strict=True):
                jet_of_products(PA_s, ao, PA_s[0], ao, self.kernel.order, self.kernel.needs_tau, out)
            self._require_finite(density)
            slopes = self.kernel.slopes(block.points, np.ones(len(block.weights)), density)
            energies[block.members] = slopes.weights[: len(block.members)]
            changes = self._density_changes(ao, PA, self._atom_of_ao[block.aos])
            potentials = self._potential_changes(block, density, slopes.density, changes, H)
            self._apply(potentials, ao, block.aos, on_orbitals, scratch)
            for s in range(n_spin):
                v = block.weights * slopes.density[s]
                self._add_moved_matrices(ao, v, block.aos, moved[s], scratch)
                P_s = P[s].take(block.aos, axis=0).take(block.aos, axis=1)
                self._add_second(ao, PA[s], P_s, v, block.aos, H, scratch)
        return H, moved, *on_orbitals

    def _density_changes(self, ao, PA, atoms) -> np.ndarray:
        """n^a (atom, 3, spin, channel, point) of a block."""
        kernel, shape = self.kernel, (len(PA), self.kernel.channels, ao.shape[2])
        found = np.zeros((self._n_atoms, 3, *shape))
        for atom, rows in runs(atoms):
            if atom == self._owner:
                continue
            A = ao[:, rows]
            for s, PA_s in enumerate(PA):
                B, out = PA_s[:, rows], found[atom, :, s]
                out[:, 0] = -2.0 * np.einsum("xmp,mp->xp", A[GRADIENT], B[0])
                if kernel.order:
                    by_two = np.einsum("hmp,mp->hp", A[HESSIAN], B[0])
                    pairs = np.einsum("xmp,imp->xip", A[GRADIENT], B[GRADIENT])
                    out[:, GRADIENT] = -2.0 * (by_two[_SECOND] + pairs)
                if kernel.needs_tau:
                    for x in range(3):
                        out[x, TAU] = -np.einsum("imp,imp->p", A[RAISED[x, GRADIENT]], B[GRADIENT])
        found[self._owner] = -found.sum(axis=0)
        return found

    def _potential_changes(self, block, density, v, changes, H) -> np.ndarray:
        """w^a v + w f n^a (atom 3, spin, channel, point); adds to H what of E^ab is bilinear in first changes."""
        n = len(block.members)
        by_atom = np.zeros((self._n_atoms, 3, len(block.weights)))
        by_atom[:, :, :n] = self._weight_changes[:, :, block.members]
        w = by_atom.reshape(-1, by_atom.shape[2])
        f = kernel_hessian(self.kernel, block.points, block.weights, density)
        n_channels, size = v.shape[0] * v.shape[1], v.shape[2]
        rows = changes.reshape(len(w), n_channels, size)
        found = np.einsum("cdp,adp->acp", f.reshape(n_channels, n_channels, size), rows, optimize=False)
        found += w[:, None] * v.reshape(n_channels, size)
        along = np.einsum("cp,acp->ap", v.reshape(n_channels, size), rows)  # e^a
        pairs = found.reshape(len(w), -1) @ rows.reshape(len(w), -1).T + along @ w.T
        H += pairs.reshape(H.shape)
        return found.reshape(len(w), *v.shape)

    def _apply(self, potentials, ao, aos, on_orbitals, scratch):
        """Adds what potentials (atom 3, spin, channel, point) do to the orbitals of a block."""
        few = ao[: 4 if ao_order(self.kernel) else 1]
        phi = [np.matmul(C.take(aos, axis=1), few) for C in self._C]
        flat = [found.reshape(found.shape[0] * found.shape[1], *found.shape[2:]) for found in on_orbitals]
        for number, potential in enumerate(potentials):
            self._transitions.apply(potential, phi, few, aos, [found[number] for found in flat], scratch)

    def _add_moved_matrices(self, ao, v, aos, Z, scratch):
        """Adds Z_x (3, ao, ao) = sum_p v_c B_c(nabla_x A_m, A_n) of one spin; v (channel, point) with weights."""
        kernel = self.kernel
        weighted = v[0] * ao[0]
        if kernel.order:
            weighted += np.einsum("imp,ip->mp", ao[GRADIENT], v[GRADIENT])
        rows = scratch("rows of Z", len(aos), self.store.n_ao)
        for x in range(3):
            M = ao[1 + x] @ weighted.T
            if kernel.order:
                M += np.einsum("imp,ip->mp", ao[RAISED[x, GRADIENT]], v[GRADIENT]) @ ao[0].T
            if kernel.needs_tau:
                for i in range(1, 4):
                    M += (0.5 * v[TAU] * ao[RAISED[x, i]]) @ ao[i].T
            rows[...] = 0.0
            rows[:, aos] = M
            Z[x][aos] += rows

    def _add_second(self, ao, PA, P, v, aos, H, scratch: Scratch):
        """Adds sum_p v . n^ab of one spin to H, v (channel, point) with weights; P of the block's orbitals."""
        kernel, n_ao = self.kernel, len(aos)
        S, twice = np.empty((3, 3, n_ao, n_ao)), np.empty((3, 3, n_ao))
        for y in range(3):
            Q = 0.5 * v[0] * ao[1 + y]
            if kernel.order:
                Q += np.einsum("imp,ip->mp", ao[RAISED[y, GRADIENT]], v[GRADIENT])
            bent = [0.25 * v[TAU] * ao[RAISED[y, i]] for i in range(1, 4)] if kernel.needs_tau else []
            for x in range(3):
                S[x, y] = ao[1 + x] @ Q.T
                for i, right in enumerate(bent, start=1):
                    S[x, y] += ao[RAISED[x, i]] @ right.T
        S = 2.0 * P * (S + S.transpose(1, 0, 3, 2))
        D = scratch("D", len(PA), *PA.shape[1:])
        D[0] = 2.0 * np.einsum("cmp,cp->mp", PA[: 4 if kernel.order else 1], v[: 4 if kernel.order else 1])
        for i in range(1, len(PA)):  # those of dftfd.xc.gradient
            D[i] = 2.0 * v[i] * PA[0] if kernel.order else 0.0
            D[i] += v[TAU] * PA[i] if kernel.needs_tau else 0.0
        for x, y in itertools.combinations_with_replacement(range(3), 2):
            components = [RAISED[x, RAISED[y, c]] for c in range(len(D))]
            found = sum(np.einsum("mp,mp->m", D_c, ao[c]) for D_c, c in zip(D, components, strict=True))
            twice[x, y] = twice[y, x] = found
        self._centres.add_second(H, *self._centres.pairs(S, twice, aos), self._owner)


_SECOND = RAISED[:, GRADIENT] - HESSIAN.start
"""Of nabla_x A_i its place among the second derivatives, (3, 3)."""
