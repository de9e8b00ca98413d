"""v_xc(r) of a density matrix: from the scalar program of a semilocal energy and exact derivatives of the density.

    v_s = de/drho_s - div sum_t (1 + delta_st) de/dsigma_st grad rho_t + laplacian(de/dlapl_s)

The divergence is carried out: div(a grad rho) = a laplacian(rho) + grad(a) . grad(rho), and grad(a) . grad(rho) is the
derivative of a along the change of all variables in the direction of grad(rho), one forward derivative of the program.
Likewise laplacian(a) = sum_i a''[d_i x, d_i x] + a'[laplacian x]. So a GGA takes the orbitals' second derivatives, a
functional of the Laplacian the fourth. `Functional.potential` is the same by the operators, for any functional, and
what JAX's transformations see: at a point it takes a hundred times as long, most of it to trace and compile.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dftfd.autofd import Function, function
from dftfd.autofd.core.domain import Signature
from dftfd.autofd.core.structure import Code
from dftfd.autofd.operators.leaf import leaf
from dftfd.errors import UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.densities import SPACE
from dftfd.libcint.gto import gaussian_basis
from dftfd.xc.channels import FAMILIES, MEMBERS, SIGMA_PAIRS, both_spins
from dftfd.xc.density import ao_tables, density_at, density_function, kinetic_energy_density_at
from dftfd.xc.pointwise import pointwise_kernel

BATCH = 8192
"""Points whose orbitals are worked on together: 35 components of 100 orbitals take 0.2 GB."""

AXES = range(3)

_TAKES = {
    "rho": {"rho": 0, "sigma": 2, "lapl": 4, "tau": 1},
    "tau": {"rho": 0, "sigma": 1, "lapl": 2, "tau": 1},
}
"""Order of the orbitals' derivatives that v_rho and v_tau take for each ingredient."""

_POWERS = [(i, j, n - i - j) for n in range(5) for i in range(n, -1, -1) for j in range(n - i, -1, -1)]


def potentials(functional: Functional, molecule, P, quadrature=None) -> tuple[Function, Function | None]:
    """(v_rho, v_tau), Functions R^3 -> R^2 [hartree; 1], on the density of P (spin, ao, ao); v_tau None without tau.

    The semilocal part as above; terms with integrals, over `quadrature`, and what has no such form by the operators.
    """
    semilocal, rest = functional.semilocal_part, functional.nonlocal_part
    if not semilocal.terms or rest.needs_tau or not functional.has_energy:
        return _by_operators(functional, molecule, P, quadrature)
    try:
        v = _of_program(semilocal, "rho", molecule, P)
    except UnsupportedError:
        return _by_operators(functional, molecule, P, quadrature)
    if rest.terms:
        v = v + _by_operators(rest, molecule, P, quadrature)[0]
    return v, _of_program(semilocal, "tau", molecule, P) if functional.needs_tau else None


def _by_operators(functional, molecule, P, quadrature):
    if functional.needs_tau:
        return functional.potential(*density_function(molecule, P, tau=True), quadrature=quadrature)
    return functional.potential(density_function(molecule, P), quadrature=quadrature), None


def _of_program(functional, family, molecule, P):
    arrays = jnp.asarray(P, dtype=jnp.float64), ao_tables(molecule)
    static = {"code": PotentialCode(functional, family, molecule, len(P)), "domains": (SPACE,)}
    signature = Signature((SPACE,), jax.ShapeDtypeStruct((2,), np.float64))
    return Function(leaf, (), arrays, static, signature)


class PotentialCode(Code):
    """(P, tables, r) -> (v_alpha, v_beta) in JAX; `on_points` for many points, in NumPy and without compilation.

    family: rho, or tau for the derivative by tau.
    """

    def __init__(self, functional: Functional, family: str, molecule, n_spin: int):
        self.functional, self.family, self.molecule = functional, family, molecule
        alike = n_spin == 1 and pointwise_kernel(functional, 2).spins_are_alike
        self.kernel = pointwise_kernel(functional, 1 if alike else 2)
        self.__name__ = "v_xc" if family == "rho" else "v_tau"

    def __call__(self, P, tables, r):
        rho, tau = (function(code, SPACE, params=(P, tables)) for code in (density_at, kinetic_energy_density_at))
        functional = self.functional
        v = functional.potential(rho, tau) if functional.needs_tau else (functional.potential(rho),)
        return v[self.family == "tau"].evaluate(r)

    def on_points(self, P, tables, points) -> np.ndarray:
        """v (point, 2) at points (point, 3) [bohr]; P, tables: the arrays of the Function."""
        P = np.asarray(both_spins(P) if self.kernel.n_spin == 2 else P)
        points = np.asarray(points, dtype=np.float64)
        parts = [self._on_batch(P, points[k : k + BATCH]) for k in range(0, len(points), BATCH)]
        return np.concatenate(parts) if parts else np.empty((0, 2))

    def _on_batch(self, P, points):
        highest = max([0, *(_TAKES[self.family][name] for name in self.kernel.ingredients)])
        ao = gaussian_basis(self.molecule).evaluate(np.asfortranarray(points), order=max(1, highest))
        jet = [DensityJet(ao, P_s, highest) for P_s in P]
        v = self._strong_form(jet) if self.family == "rho" and highest > 1 else self._slopes(jet, self.family)
        return np.stack([v[0], v[-1]], axis=1)

    def _slopes(self, jet, family):
        _, rows = self.kernel.code.derivatives(variables(jet)[list(self.kernel.used)], 1, compiled=False)
        known = dict(zip(self.kernel.used, rows, strict=True))
        return np.stack([known.get(k, np.zeros_like(jet[0].value)) for k in MEMBERS[len(jet)][family]])

    def _strong_form(self, jet):
        members, pairs = MEMBERS[len(jet)], SIGMA_PAIRS[len(jet)]
        x, moved = variables(jet), changes(jet)
        along_gradient = [self._changed(x, np.einsum("vip,ip->vp", moved, j.gradient)) for j in jet]
        slopes, _ = along_gradient[0]
        v = slopes[list(members["rho"])]
        for pair, k in zip(pairs, members["sigma"], strict=True):
            for s, t in {pair, pair[::-1]}:
                v[s] -= (2.0 if s == t else 1.0) * (slopes[k] * jet[t].laplacian + along_gradient[t][1][k])
        if "lapl" in self.kernel.ingredients:
            lapl = list(members["lapl"])
            v += self._changed(x, laplacians(jet))[1][lapl]
            for i in AXES:
                v += self._changed(x, moved[:, i], moved[:, i])[1][lapl]
        return v

    def _changed(self, x, *directions):
        """(slopes, their derivative along all directions), each (variable, point) with zeros for what is not used."""
        used = list(self.kernel.used)
        _, slopes, *changed = self.kernel.code.along(x[used], [d[used] for d in directions])
        full = np.zeros((2, *x.shape))
        full[0, used], full[1, used] = slopes, changed[-1]
        return full


class DensityJet:
    """The density of P (ao, ao) and tau at points, with exact derivatives as far as AO values of this order go.

    Always: value, tau (point,), gradient (3, point). From 2: hessian (3, 3, point), laplacian, tau_gradient.
    With 4: laplacian_gradient, bilaplacian, tau_laplacian.
    """

    def __init__(self, ao, P, order):
        component = lambda *axes: ao[_POWERS.index(tuple(axes.count(i) for i in AXES))]
        known: dict = {}

        def with_P(*axes):
            axes = tuple(sorted(axes))
            if axes not in known:
                known[axes] = P @ component(*axes)
            return known[axes]

        product = lambda a, b: np.einsum("mp,mp->p", component(*a), with_P(*b))
        pairs = list(itertools.product(AXES, AXES))
        self.value = product((), ())
        self.gradient = np.stack([2 * product((i,), ()) for i in AXES])
        self.tau = 0.5 * sum(product((i,), (i,)) for i in AXES)
        if order > 1:
            hessian = [2 * (product((i, j), ()) + product((i,), (j,))) for i, j in pairs]
            self.hessian = np.reshape(hessian, (3, 3, -1))
            self.laplacian = np.einsum("iip->p", self.hessian)
            self.tau_gradient = np.stack([sum(product((i, k), (i,)) for i in AXES) for k in AXES])
        if order > 3:
            of_laplacian = lambda i, k: product((i, i, k), ()) + product((i, i), (k,)) + 2 * product((i, k), (i,))
            self.laplacian_gradient = np.stack([2 * sum(of_laplacian(i, k) for i in AXES) for k in AXES])
            self.bilaplacian = 2 * sum(
                product((i, i, k, k), ())
                + 4 * product((i, i, k), (k,))
                + product((i, i), (k, k))
                + 2 * product((i, k), (i, k))
                for i, k in pairs
            )
            self.tau_laplacian = sum(product((i, k, k), (i,)) + product((i, k), (i, k)) for i, k in pairs)


def variables(jet) -> np.ndarray:
    """Values of all VARIABLES, (variable, point), from the DensityJet of each spin."""
    pairs = SIGMA_PAIRS[len(jet)]
    zero = np.zeros_like(jet[0].value)
    rows = {
        "rho": [j.value for j in jet],
        "sigma": [np.einsum("ip,ip->p", jet[s].gradient, jet[t].gradient) for s, t in pairs],
        "lapl": [getattr(j, "laplacian", zero) for j in jet],
        "tau": [j.tau for j in jet],
    }
    return np.stack([row for name in FAMILIES for row in rows[name]])


def changes(jet) -> np.ndarray:
    """Their gradients, (variable, 3, point)."""
    pairs, zero = SIGMA_PAIRS[len(jet)], np.zeros_like(jet[0].gradient)
    product = lambda s, t: np.einsum("ijp,jp->ip", jet[s].hessian, jet[t].gradient)
    rows = {
        "rho": [j.gradient for j in jet],
        "sigma": [product(s, t) + product(t, s) for s, t in pairs],
        "lapl": [getattr(j, "laplacian_gradient", zero) for j in jet],
        "tau": [j.tau_gradient for j in jet],
    }
    return np.stack([row for name in FAMILIES for row in rows[name]])


def laplacians(jet) -> np.ndarray:
    """Their Laplacians, (variable, point)."""

    def of_sigma(s, t):
        slopes = [np.sum(jet[a].gradient * jet[b].laplacian_gradient, axis=0) for a, b in ((s, t), (t, s))]
        return sum(slopes) + 2 * np.sum(jet[s].hessian * jet[t].hessian, axis=(0, 1))

    rows = {
        "rho": [j.laplacian for j in jet],
        "sigma": [of_sigma(s, t) for s, t in SIGMA_PAIRS[len(jet)]],
        "lapl": [j.bilaplacian for j in jet],
        "tau": [j.tau_laplacian for j in jet],
    }
    return np.stack([row for name in FAMILIES for row in rows[name]])
