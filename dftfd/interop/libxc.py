"""libxc, the reference for functionals: energies per volume and their derivatives on arrays, potentials and matrices.

`reference` gives libxc's own numbers, `model_potential` those of models of the potential, `evaluate` ours in libxc's
layout.

libxc is the one that PySCF brings along, called through its C interface. Variables and components are libxc's, see
dftfd.xc.channels.

S. Lehtola, C. Steigemann, M. J. T. Oliveira, M. A. L. Marques, SoftwareX 7, 1 (2018). doi:10.1016/j.softx.2017.11.002
"""

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyscf.lib
from pyscf.dft import libxc as pyscf_libxc
from pyscf.dft import numint

from dftfd.errors import FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.interop.libxc_layout import evaluate
from dftfd.libcint.mole import to_pyscf
from dftfd.xc.channels import FAMILIES, MEMBERS, SIGMA_PAIRS, VARIABLES, named_components

__all__ = [
    "evaluate",
    "exact_exchange",
    "ingredients",
    "is_known",
    "is_yukawa_screened",
    "matrix",
    "model_potential",
    "names",
    "needs_laplacian",
    "potential",
    "reference",
    "version",
]

_KINDS = {1: "lda", 2: "gga", 4: "mgga", 128: "lda", 32: "gga", 64: "mgga"}  # the last three are hybrids
_USED = {"lda": FAMILIES[:1], "gga": FAMILIES[:2], "mgga": FAMILIES}
_HAS_ENERGY, _HAS_ENERGY_AND_POTENTIAL, _HAS_KERNEL, _HAS_THIRD = 0b1, 0b11, 0b100, 0b1000
_NEEDS_LAPLACIAN = 1 << 15
_YUKAWA = 1 << 9

Terms = Sequence[tuple[float, str]]
"""A sum of libxc functionals: pairs (coefficient, name)."""


class Reference(NamedTuple):
    """Energy per volume [hartree bohr^-3] and its derivatives with respect to `VARIABLES`.

    energy: (point,).   first: (variable, point).   second: (variable, variable, point), or None where libxc has none.
    third: ascending triples of variables -> (point,), the same; None where they were not asked for.
    """

    energy: np.ndarray
    first: np.ndarray
    second: np.ndarray | None
    third: dict[tuple[int, ...], np.ndarray] | None = None


def version() -> str:
    """Version of the libxc that is used."""
    return pyscf_libxc.libxc_version()


def is_known(name: str) -> bool:
    """True if libxc has a functional of this name (any case)."""
    return _number(name) > 0


def names() -> list[str]:
    """All names of libxc's functionals, sorted."""
    count = _c_function("xc_number_of_functionals", ctypes.c_int)()
    numbers = (ctypes.c_int * count)()
    _c_function("xc_available_functional_numbers", None, ctypes.c_void_p)(numbers)
    name = _c_function("xc_functional_get_name", ctypes.c_char_p, ctypes.c_int)
    return sorted(name(number).decode() for number in numbers)


def needs_laplacian(name: str) -> bool:
    """True if the functional depends on the Laplacian of the density."""
    with _initialised(name, 1) as functional:
        return bool(functional.flags & _NEEDS_LAPLACIAN)


def ingredients(name: str) -> tuple[str, ...]:
    """What the functional is a function of in libxc: rho, then sigma, then lapl and tau."""
    with _initialised(name, 1) as functional:
        return _USED[functional.family]


def is_yukawa_screened(name: str) -> bool:
    """True if the exact exchange is separated by exp(-omega r)/r; PySCF takes it for erfc(omega r)/r."""
    with _initialised(name, 1) as functional:
        return bool(functional.flags & _YUKAWA)


def exact_exchange(name: str) -> tuple[tuple[float, float], ...]:
    """Pairs (omega, fraction) of a hybrid: 1/r for omega = 0, else erf(omega r)/r; empty for a pure functional."""
    omega, long_range, short_minus_long = pyscf_libxc.rsh_coeff(name)
    full = pyscf_libxc.hybrid_coeff(name)
    pairs = [(0.0, full)]
    if omega:
        pairs = [(0.0, long_range + short_minus_long), (omega, -short_minus_long)]
    return tuple((float(w), float(c)) for w, c in pairs if c)


def reference(
    terms: Terms, variables: np.ndarray, n_spin: int, order: int = 2, threshold: float | None = None
) -> Reference:
    """Energy per volume of a sum of libxc functionals, with derivatives up to `order` (2 or 3), where all have them.

    variables: (variable, point), the rows of `VARIABLES[n_spin]`.   threshold: what libxc puts in place of smaller
    densities and smaller 1 - |zeta|, if not its own numbers.
    """
    variables = np.asarray(variables, dtype=np.float64)
    n_variables, n_points = len(VARIABLES[n_spin]), variables.shape[-1]
    if variables.shape != (n_variables, n_points):
        raise FunctionalError(
            f"variables of shape {variables.shape} were given; expected ({n_variables}, point), one row for each of "
            f"{', '.join(VARIABLES[n_spin])}."
        )
    energy, first = np.zeros(n_points), np.zeros((n_variables, n_points))
    second: np.ndarray | None = np.zeros((n_variables, n_variables, n_points))
    third: dict | None = {} if order == 3 else None
    for coefficient, name in terms:
        part = _evaluate_one(name, variables, n_spin, order, threshold)
        energy += coefficient * part.energy
        first += coefficient * part.first
        second = None if second is None or part.second is None else second + coefficient * part.second
        if third is not None:
            entries = (part.third or {}).items()
            third = None if part.third is None else third | {t: third.get(t, 0) + coefficient * d for t, d in entries}
    return Reference(energy, first, second, third)


def model_potential(name: str, variables: np.ndarray, n_spin: int, threshold: float | None = None) -> np.ndarray:
    """v_s (spin, point) [hartree] of libxc's models of the potential, LB94 and such, which have no energy.

    variables, threshold: see `reference`.
    """
    groups = MEMBERS[n_spin]
    with _initialised(name, n_spin, threshold) as functional:
        if functional.flags & _HAS_ENERGY:
            raise UnsupportedError(f"libxc's {name!r} has an energy; `reference` gives its derivatives.")
        inputs = [np.ascontiguousarray(variables[list(groups[g])].T) for g in _USED[functional.family]]
        outputs = [np.zeros_like(a) for a in inputs]
        flat = [*inputs, *outputs]
        arguments = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * len(flat)]
        call = _c_function(f"xc_{functional.family}_vxc", None, *arguments)
        call(functional.pointer, variables.shape[-1], *(a.ctypes.data for a in flat))
    return outputs[0].T


def potential(terms: Terms, density: "DensityJet", threshold: float | None = None) -> np.ndarray:
    r"""Strong form of the potential v_s = dE/d rho_s (2, point) [hartree], built from libxc's second derivatives.

    v_s = e_{rho_s} - div(2 e_{sigma_ss} grad rho_s + e_{sigma_st} grad rho_t),   t the other spin

    where grad e_x = sum_y e_{xy} grad y over all variables y. Functionals of the Laplacian would need derivatives of
    e to third order and are refused.   threshold: see `reference`.
    """
    if any(needs_laplacian(name) for _, name in terms):
        raise UnsupportedError("the strong form of a Laplacian-dependent functional can't be built from libxc.")
    values, gradients = density.variables(), density.variable_gradients()
    derivatives = reference(terms, values, n_spin=2, threshold=threshold)
    if derivatives.second is None:
        raise UnsupportedError("libxc has no second derivatives of this functional, so no strong form can be built.")
    _, _, aa, ab, bb, *_ = range(len(VARIABLES[2]))
    laplacians = np.trace(density.hessian, axis1=1, axis2=2)
    slope = lambda x: np.einsum("yp,yip->ip", derivatives.second[x], gradients)

    def divergence(x, s):
        """div(e_x grad rho_s)"""
        return derivatives.first[x] * laplacians[s] + np.einsum("ip,ip->p", slope(x), density.gradient[s])

    return np.stack(
        [
            derivatives.first[0] - 2 * divergence(aa, 0) - divergence(ab, 1),
            derivatives.first[1] - 2 * divergence(bb, 1) - divergence(ab, 0),
        ]
    )


@dataclass(frozen=True, eq=False)
class DensityJet:
    """A spin-resolved density with what a potential needs of it, at points.

    value (2, point), gradient (2, 3, point), hessian (2, 3, 3, point); tau (2, point) and its gradient
    tau_gradient (2, 3, point), zeros where no functional asks for them.
    """

    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    tau: np.ndarray
    tau_gradient: np.ndarray

    def variables(self) -> np.ndarray:
        """libxc's variables (9, point)."""
        g = self.gradient
        sigma = [np.einsum("ip,ip->p", g[s], g[t]) for s, t in SIGMA_PAIRS[2]]
        return np.stack([*self.value, *sigma, *np.trace(self.hessian, axis1=1, axis2=2), *self.tau])

    def variable_gradients(self) -> np.ndarray:
        """grad of libxc's variables (9, 3, point); that of the Laplacian is left zero."""
        g, H = self.gradient, self.hessian
        along = lambda s, t: np.einsum("ijp,jp->ip", H[s], g[t])
        sigma = [2 * along(0, 0), along(0, 1) + along(1, 0), 2 * along(1, 1)]
        return np.stack([*g, *sigma, *np.zeros_like(g), *self.tau_gradient])


def matrix(terms: Terms, molecule: Any, points: Any, weights: Any, P: Any) -> tuple[float, np.ndarray]:
    """(energy, matrix (spin, ao, ao)) of PySCF's numint on the given grid; P (spin, ao, ao) as in `XCBuilder`.

    PySCF's screening of small orbital values is all but switched off.
    """
    grid = SimpleNamespace(
        coords=np.asarray(points), weights=np.asarray(weights), non0tab=None, cutoff=1e-40, mol=to_pyscf(molecule)
    )
    code = " + ".join(f"{coefficient!r}*{name}" for coefficient, name in terms)
    ni = numint.NumInt()
    if len(P) == 1:
        _, energy, V = ni.nr_rks(grid.mol, grid, code, P[0], hermi=1)
        return float(energy), V[None]
    _, energy, V = ni.nr_uks(grid.mol, grid, code, P, hermi=1)
    return float(energy), V


# ---- libxc's C interface


@functools.cache
def _c_function(name: str, result, *arguments):
    """A C function of libxc, with types that PySCF's own use of the library does not share."""
    try:
        return ctypes.CFUNCTYPE(result, *arguments)((name, pyscf.lib.load_library("libxc_itrf")))
    except (AttributeError, OSError) as error:
        raise MissingDependencyError(
            f"this PySCF has no libxc with the function {name}; install PySCF from its binary package."
        ) from error


@functools.cache
def _number(name: str) -> int:
    return _c_function("xc_functional_get_number", ctypes.c_int, ctypes.c_char_p)(name.encode())


@contextlib.contextmanager
def _initialised(name: str, n_spin: int, threshold: float | None = None):
    """A libxc functional for the time of a `with` block: its pointer, family (lda, gga, mgga) and flags."""
    if not is_known(name):
        raise FunctionalError(f"libxc {version()} has no functional {name!r}; its names are like gga_x_pbe, gga_c_pbe.")
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    functional = _c_function("xc_func_alloc", pointer)()
    try:
        failed = _c_function("xc_func_init", integer, pointer, integer, integer)(functional, _number(name), n_spin)
        if failed:
            raise UnsupportedError(f"libxc can't set up {name!r} for {n_spin} spin(s).")
        try:
            info = _c_function("xc_func_get_info", pointer, pointer)(functional)
            family = _KINDS.get(_c_function("xc_func_info_get_family", integer, pointer)(info))
            if family is None:
                raise UnsupportedError(f"{name!r} is neither an LDA, a GGA nor a meta-GGA of libxc.")
            flags = _c_function("xc_func_info_get_flags", integer, pointer)(info)
            for kind in ("dens", "zeta") if threshold is not None else ():
                _c_function(f"xc_func_set_{kind}_threshold", None, pointer, ctypes.c_double)(functional, threshold)
            yield SimpleNamespace(pointer=functional, family=family, flags=flags)
        finally:
            _c_function("xc_func_end", None, pointer)(functional)
    finally:
        _c_function("xc_func_free", None, pointer)(functional)


def _evaluate_one(name, variables, n_spin, order, threshold) -> Reference:
    groups = MEMBERS[n_spin]
    n_variables, n_points = variables.shape
    with _initialised(name, n_spin, threshold) as functional:
        if functional.flags & _HAS_ENERGY_AND_POTENTIAL != _HAS_ENERGY_AND_POTENTIAL:
            raise UnsupportedError(f"libxc's {name!r} has no energy, or no derivative of it, to compare with.")
        has = (True, True, bool(functional.flags & _HAS_KERNEL), bool(functional.flags & _HAS_THIRD))
        known = max(k for k in range(1, order + 1) if all(has[: k + 1]))
        used = _USED[functional.family]
        inputs = [np.ascontiguousarray(variables[list(groups[g])].T) for g in used]
        layout = [list(named_components(n_spin, used, k).values()) for k in range(known + 1)]
        outputs = [[np.zeros((n_points, len(components))) for components in blocks] for blocks in layout]
        flat = [*inputs, *itertools.chain(*outputs)]
        call = _c_function(
            f"xc_{functional.family}_exc_vxc{''.join(('_fxc', '_kxc')[: known - 1])}",
            None,
            ctypes.c_void_p,
            ctypes.c_size_t,
            *[ctypes.c_void_p] * len(flat),
        )
        call(functional.pointer, n_points, *(a.ctypes.data for a in flat))
    tables = [
        {c: row for components, block in zip(*pair, strict=True) for c, row in zip(components, block.T, strict=True)}
        for pair in zip(layout, outputs, strict=True)
    ]
    gradient, hessian = np.zeros((n_variables, n_points)), np.zeros((n_variables, n_variables, n_points))
    for (i,), row in tables[1].items():
        gradient[i] = row
    for (i, j), row in tables[2].items() if known >= 2 else ():
        hessian[i, j] = hessian[j, i] = row
    density = variables[list(groups["rho"])].sum(axis=0)
    return Reference(
        density * tables[0][()], gradient, hessian if known >= 2 else None, tables[3] if known >= 3 else None
    )
