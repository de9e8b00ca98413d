"""What can be audited, in one form: code of libxc's variables that gives an energy and its derivatives by component.

A source is called with x (variable, point), rows `VARIABLES[n_spin]`, the number of spins and an order; it returns for
each order up to that one a dict {component: (point,)}, a component being an ascending tuple of positions in VARIABLES.
The energy is per volume. Components that a source does not give are left out; orders that it does not offer too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dftfd.errors import FunctionalError, UnsupportedError, one_line, shown
from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.interop.numint import LAYOUT
from dftfd.runtime.arguments import Kind
from dftfd.xc.channels import FAMILIES, VARIABLES, named_components
from dftfd.xc.pointwise import pointwise_kernel

INGREDIENTS = {"LDA": FAMILIES[:1], "GGA": FAMILIES[:2], "MGGA": FAMILIES}
HIGHEST = 3
NUMBERS = Kind("an array of real numbers", lambda value: np.asarray(value).astype(np.float64, casting="same_kind"))
_ROWS = {"LDA": ((0,),), "GGA": ((0, 1, 2, 3),), "MGGA": ((0, 1, 2, 3, 5), (0, 1, 2, 3, 4, 5))}
"""Rows of density, gradient, Laplacian, tau that PySCF passes: five of a meta-GGA, with the Laplacian before 2.0."""

_WITHOUT_LAPLACIAN = {
    1: ("vrho", "vsigma", "vtau"),
    2: ("v2rho2", "v2rhosigma", "v2sigma2", "v2rhotau", "v2sigmatau", "v2tau2"),
    3: tuple(name for name in LAYOUT[3] if "lapl" not in name),
}
"""The shorter tuples that PySCF's `define_xc_` takes of a meta-GGA."""


class NotOfferedError(UnsupportedError):
    """A spin layout that the code does not know."""


class OwnSource:
    """A Functional of this package, by automatic differentiation."""

    def __init__(self, functional: Functional):
        self.functional = functional.semilocal_part
        self.name = functional.name

    def ingredients(self, n_spin):
        return pointwise_kernel(self.functional, n_spin).ingredients

    def __call__(self, x, n_spin, order):
        return pointwise_kernel(self.functional, n_spin).by_component(x, order, compiled=False)


class LibxcSource:
    """A functional of PySCF's libxc, by libxc's own code."""

    def __init__(self, name: str):
        self.name = name
        self.used = libxc.ingredients(name)

    def ingredients(self, n_spin):
        return self.used

    def __call__(self, x, n_spin, order):
        d = libxc.reference([(1.0, self.name)], x, n_spin, order=max(order, 1))
        result = [{(): d.energy}]
        for k in range(1, order + 1):
            arrays: Any = {1: d.first, 2: d.second, 3: d.third}[k]
            if arrays is None:
                break
            named = named_components(n_spin, self.used, k)
            components = [c for group in named.values() for c in group]
            zero = np.zeros(x.shape[1])
            entries: dict = {c: arrays.get(c, zero) if k == 3 else arrays[c] for c in components}
            result.append(entries)
        return result


class CodeRaisedError(FunctionalError):
    """Somebody's code raised instead of answering."""


class EvalXCSource:
    """A function of PySCF's kind: eval_xc(xc_code, rho, spin=, deriv=) -> (exc, vxc, fxc, kxc).

    xctype: LDA, GGA or MGGA, which says what rho holds: the density, its gradient, tau. A function of meta-GGAs that
    does not take five rows is given six, with the Laplacian before tau, as older versions of PySCF did.
    Gradients point in all directions, as on a molecule's grid.
    """

    def __init__(self, code: Callable, xctype: str, name: str):
        if xctype not in INGREDIENTS:
            raise FunctionalError(f"xctype {xctype!r} was given; LDA, GGA or MGGA expected.")
        self.code, self.xctype, self.name = code, xctype, name
        self.rows = next((rows for rows in _ROWS[xctype][:-1] if self._takes(rows)), _ROWS[xctype][-1])

    def _takes(self, rows):
        """True unless the function fails on a density of these rows as code does that unpacks another number.

        One spin decides where it is offered: a function without spins fails on two whatever their rows.
        """
        for n_spin in (1, 2):
            try:
                self._offered(np.ones((2, len(rows), 2))[:n_spin].reshape([2] * (n_spin - 1) + [-1, 2]), n_spin, 1)
            except (ValueError, IndexError):
                return False
            except NotOfferedError:
                continue
            return True
        return True

    def ingredients(self, n_spin):
        families = INGREDIENTS[self.xctype]
        return families if 4 in self.rows else tuple(f for f in families if f != "lapl")

    def __call__(self, x, n_spin, order):
        rho = _density_rows(x, n_spin)[:, self.rows]
        rho = rho[:, 0] if self.xctype == "LDA" else rho
        with np.errstate(all="ignore"):
            given = self._offered(rho if n_spin == 2 else rho[0], n_spin, order)
        n, points = x[:n_spin].sum(axis=0), x.shape[1]
        result = [{(): n * self._row(given[0], "exc", 1, points)[0]}]
        for k in range(1, min(order, len(given) - 1) + 1):
            if given[k] is None:
                break
            result.append(self._components(given[k], n_spin, k, points))
        return result

    def _offered(self, rho, n_spin, order):
        """The tuple of the highest order that does not raise NotImplementedError."""
        for deriv in range(max(order, 1), 0, -1):
            try:
                given = self.code("", rho, spin=n_spin - 1, deriv=deriv)
            except NotImplementedError as error:
                reason = error
            except Exception as error:  # somebody's code: whatever it raises, it is that which cannot be audited
                raise CodeRaisedError(
                    f"{self.name} raised {type(error).__name__} ({one_line(str(error), 80)}) for rho of shape "
                    f"{np.shape(rho)}, spin={n_spin - 1}, deriv={deriv}; a function as PySCF's eval_xc expected."
                ) from error
            else:
                if not isinstance(given, tuple | list) or len(given) < 2:
                    raise FunctionalError(f"{self.name} returned {shown(given)}; (exc, vxc, fxc, kxc) expected.")
                return given
        raise NotOfferedError(str(reason)) from reason

    def _components(self, arrays, n_spin, order, points):
        layout = LAYOUT[order]
        if 4 not in self.rows and len(arrays) == len(_WITHOUT_LAPLACIAN[order]):
            layout = _WITHOUT_LAPLACIAN[order]
        if len(arrays) > len(layout):
            raise FunctionalError(
                f"{self.name} returned {len(arrays)} arrays of order {order}; at most {len(layout)} expected."
            )
        named = named_components(n_spin, INGREDIENTS["MGGA"], order)
        result: dict = {}
        for name, array in zip(layout, arrays, strict=False):
            if array is not None:
                rows = self._row(array, name, len(named[name]), points)
                result.update(zip(named[name], rows, strict=True))
        return result

    def _row(self, array, name, count, points):
        """(component, point) of an array (point, component), or (point,) for one component."""
        array = NUMBERS.checked(f"{self.name} returned {name}", array, FunctionalError)
        if array.shape != (points, count) and not (count == 1 and array.shape == (points,)):
            raise FunctionalError(
                f"{self.name} returned {name} of shape {array.shape} for {points} points; ({points}, {count}) expected."
            )
        return array.reshape(points, count).T


def _density_rows(x, n_spin):
    """(spin, component, point): density, gradient, Laplacian, tau, from libxc's variables."""
    if n_spin == 1:
        gradients = np.stack([np.sqrt(x[1]), *np.zeros((2, x.shape[1]))])[None]
        rho, lapl, tau = x[:1], x[2:3], x[3:4]
    else:
        aa, ab, bb = x[2:5]
        length, zero = np.sqrt(aa), np.zeros_like(aa)
        along = np.divide(ab, length, out=np.zeros_like(aa), where=length > 0)
        across = np.sqrt(np.maximum(bb - along**2, 0.0))
        gradients = np.stack([np.stack([length, zero, zero]), np.stack([along, across, zero])])
        rho, lapl, tau = x[:2], x[5:7], x[7:9]
    gradients = np.einsum("ij,sjp->sip", _ROTATION, gradients)
    return np.concatenate([rho[:, None], gradients, lapl[:, None], tau[:, None]], axis=1)


_ROTATION = np.array([[2.0, -2.0, 1.0], [1.0, 2.0, 2.0], [-2.0, -1.0, 2.0]]) / 3
"""Turns gradients out of the axes, orthogonal to the last digit."""


def named(component: tuple[int, ...], n_spin: int) -> str:
    """A component in words, such as v2rhosigma[a, ab]; the energy is e."""
    if not component:
        return "e"
    array = next(n for n, g in named_components(n_spin, FAMILIES, len(component)).items() if component in g)
    if n_spin == 1:
        return array
    return f"{array}[{', '.join(VARIABLES[2][k].split('_')[1] for k in component)}]"
