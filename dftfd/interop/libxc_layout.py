"""Functionals of dftfd evaluated in libxc's layout, for programs that are built around libxc."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dftfd.errors import FunctionalError, UnsupportedError
from dftfd.functionals.registry import get_functional
from dftfd.xc.channels import MEMBERS, named_components, of_spin
from dftfd.xc.pointwise import pointwise_kernel

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
    the variables that the functional depends on are there, and `exc` where there is an energy: models of the potential
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
        raise FunctionalError(f"order {order!r} was asked for; an integer from 0 to {MAX_ORDER} expected.")
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
