"""libxc, the reference for functionals: energies per volume and their derivatives on arrays, potentials and matrices.

`reference` gives libxc's own numbers, `model_potential` those of model potentials, `evaluate` ours in libxc's
layout.

libxc is the one that PySCF brings along, called through its C interface. Variables and components are libxc's, see
dftfd.xc.channels.

S. Lehtola, C. Steigemann, M. J. T. Oliveira, M. A. L. Marques, SoftwareX 7, 1 (2018). doi:10.1016/j.softx.2017.11.002
"""

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyscf.lib
from pyscf.dft import libxc as pyscf_libxc
from pyscf.dft import numint

from dftfd.errors import FunctionalError, MissingDependencyError, UnsupportedError
from dftfd.functionals.registry import get_functional
from dftfd.libcint.mole import to_pyscf
from dftfd.xc.channels import FAMILIES, MEMBERS, SIGMA_PAIRS, VARIABLES, named_components, of_spin
from dftfd.xc.pointwise import pointwise_kernel

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
    """v_s (spin, point) [hartree] of libxc's model potentials, LB94 and such, which have no energy.

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


MAX_ORDER = 4


class Derivatives(Mapping):
    """Arrays by libxc's names: result.vrho or result["vrho"]."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._arrays = arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __getattr__(self, name: str) -> np.ndarray:
        if name.startswith("_") or name not in self._arrays:
            raise AttributeError(f"no array {name!r}; there are {', '.join(self.__dict__.get('_arrays', ()))}.")
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"Derivatives({', '.join(f'{name} {a.shape}' for name, a in self._arrays.items())})"


def evaluate(
    functional: Any, *, rho: Any, sigma: Any = None, lapl: Any = None, tau: Any = None, order: int = 1
) -> Derivatives:
    """Energy per electron `exc` [hartree] and derivatives of the energy per volume, as libxc names and orders them.

    functional: name, expression or Functional; exact exchange is left out, as libxc leaves it out.
    rho: (N,), the total density, or (2, N), alpha and beta.   sigma: (N,), or (3, N): aa, ab, bb.
    lapl, tau: (N,) or (2, N); tau = 1/2 sum occ |grad phi|^2.
    order: highest derivative, 0 to 4.

    `exc` is (N,). Each derivative has one row per component, or is (N,) with one component:
    order 1: vrho, vsigma, vlapl, vtau; order 2: v2rho2 (aa, ab, bb), v2rhosigma (a_aa, a_ab, a_bb, b_aa, ...),
    v2sigma2, ...; order 3: v3rho3, v3rho2sigma, ...; order 4: v4rho4, ... The last index runs fastest. Only arrays of
    the variables that the functional depends on are there, and `exc` where there is an energy: model potentials
    have `vrho` without it.

    A spin without a positive density is empty, as in libxc: its gradient, Laplacian and tau count as zero.

    Raises FunctionalError for arrays that are missing or do not fit, and UnsupportedError for functionals that depend
    on anything else.

    >>> from dftfd.interop.libxc import evaluate
    >>> evaluate("lda_x", rho=[1.0]).vrho
    array([-0.98474502])
    """
    functional = get_functional(functional)
    if functional.is_nonlocal:
        raise UnsupportedError(
            f"functional {functional.name!r} depends on integrals over a second point; from arrays of rho, sigma, lapl "
            "and tau, evaluate its semilocal_part."
        )
    if not isinstance(order, int) or not 0 <= order <= MAX_ORDER:
        raise FunctionalError(f"order {order!r} was requested; an integer from 0 to {MAX_ORDER} expected.")
    arrays = _checked({"rho": rho, "sigma": sigma, "lapl": lapl, "tau": tau})
    n_spin, n_points = (1 if arrays["rho"].ndim == 1 else 2), arrays["rho"].shape[-1]
    kernel = pointwise_kernel(functional, n_spin)
    kernel.require_ingredients(functional, arrays)
    x: list = []  # of arrays, None where the functional needs none
    for family, members in MEMBERS[n_spin].items():
        x += list(arrays[family].reshape(len(members), n_points)) if family in arrays else [None] * len(members)
    if arrays["rho"].min(initial=1.0) < 0:
        x = [None if row is None else row.copy() for row in x]
        empty_spins(x, n_spin)
    by_order = kernel(x, order)
    n = sum(x[:n_spin])
    out = {}
    if functional.has_energy:
        out["exc"] = np.divide(by_order[0][0], n, out=np.zeros(n_points), where=n > 0)
    for k in range(1, order + 1):
        out.update(_named(kernel, k, by_order[k]))
    return Derivatives(out)


def empty_spins(x: Any, n_spin: int) -> None:
    """Sets to zero, in place, all variables of a spin where its density is not positive; rows of None are left out.

    Differences of densities and rounding leave small negative spin densities, of which no functional is defined.
    """
    for spin in range(n_spin):
        empty = x[spin] <= 0
        if empty.any():
            for k in of_spin(spin, n_spin):
                if x[k] is not None:
                    x[k][empty] = 0.0


def _checked(given) -> dict[str, np.ndarray]:
    """The given arrays as float64, of fitting shapes."""
    arrays = {}
    for name, value in given.items():
        if value is None:
            continue
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise FunctionalError(f"{name} is not an array, its rows differ in length: {error}") from error
        if array.dtype.kind not in "fiu":
            raise FunctionalError(f"{name} has dtype {array.dtype}; real numbers expected.")
        arrays[name] = array.astype(np.float64, copy=False)
        finite = np.isfinite(arrays[name])
        if not finite.all():
            place = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise FunctionalError(f"{name}{list(place)} is {arrays[name][place]}; finite numbers expected.")
    shape = arrays["rho"].shape if "rho" in arrays else ()
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 2):
        raise FunctionalError(f"rho has shape {shape}; (N,), the total density, or (2, N), alpha and beta, expected.")
    for name, array in arrays.items():
        n_components = len(MEMBERS[len(shape)][name])
        expected = shape if len(shape) == 1 else (n_components, shape[1])
        if array.shape != expected:
            raise FunctionalError(f"{name} has shape {array.shape}; {expected} expected beside rho of shape {shape}.")
    return arrays


def _named(kernel, order, rows) -> dict[str, np.ndarray]:
    """The derivatives of one order by libxc's names."""
    place = {combination: i for i, combination in enumerate(kernel.combinations(order))}
    wanted = named_components(kernel.n_spin, kernel.ingredients, order)
    return {name: _rows(rows, place, components) for name, components in wanted.items()}


def _rows(rows, place, wanted):
    """Rows of the wanted combinations, zero where a variable does not occur in the energy."""
    numbers = [place.get(c) for c in wanted]
    if None not in numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        out = rows[numbers[0] : numbers[-1] + 1]  # no copy
    else:
        zero = np.zeros(rows.shape[1])
        out = np.stack([zero if k is None else rows[k] for k in numbers])
    return out[0] if len(wanted) == 1 else out
