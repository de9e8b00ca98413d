"""A functional in the place of libxc in PySCF's numerical integration.

PySCF asks an object NumInt for energies and derivatives in terms of rho, sigma and tau, and for what else it has to
know of a functional: its ingredients, its exact exchange. `NumInt` here answers from a Functional, with derivatives by
automatic differentiation, and inherits everything else. Both ways in which PySCF asks are served: through the attribute
`libxc` (2.9 to 2.14) and by methods of NumInt itself (https://github.com/pyscf/pyscf/pull/3396).
"""

import warnings
from dataclasses import replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pyscf
from pyscf.dft import numint as pyscf_numint

from dftfd.errors import FunctionalError, InputWarning, MissingDependencyError, UnsupportedError
from dftfd.functionals import supports
from dftfd.functionals.base import Functional
from dftfd.functionals.definition import from_definition, require_reproducible
from dftfd.functionals.grid_functionals import without_grid_functionals
from dftfd.functionals.names import refuse_part
from dftfd.functionals.registry import get_functional
from dftfd.functionals.vv10 import vv10 as VV10
from dftfd.interop.libxc import empty_spins, evaluate
from dftfd.runtime.version import VERSION
from dftfd.xc.channels import MEMBERS, SIGMA_PAIRS, VARIABLES, named_components
from dftfd.xc.pointwise import pointwise_kernel

OLDEST, TESTED = (2, 9), (2, 14)
MAX_ORDER = 4

_USED = {"HF": (), "LDA": ("rho",), "GGA": ("rho", "sigma"), "MGGA": ("rho", "sigma", "tau")}
ROWS = {"HF": 1, "LDA": 1, "GGA": 4, "MGGA": 5}
"""Rows of PySCF's rho: density, gradient, tau."""

_ORDER_2 = "rho2 rhosigma sigma2 lapl2 tau2 rholapl rhotau lapltau sigmalapl sigmatau"
_ORDER_3 = (
    "rho3 rho2sigma rhosigma2 sigma3 rho2lapl rho2tau rhosigmalapl rhosigmatau rholapl2 rholapltau rhotau2 "
    "sigma2lapl sigma2tau sigmalapl2 sigmalapltau sigmatau2 lapl3 lapl2tau lapltau2 tau3"
)
LAYOUT = {
    1: ("vrho", "vsigma", "vlapl", "vtau"),
    2: tuple("v2" + name for name in _ORDER_2.split()),
    3: tuple("v3" + name for name in _ORDER_3.split()),
}
"""PySCF's order of libxc's arrays in the result of `eval_xc`."""


def numint(functional: Any) -> "NumInt":
    """An object for PySCF's `mf._numint` that makes the mean field use a functional of dftfd.

    functional: name, expression or Functional of rho, sigma and tau. Hybrids include their exact exchange. The mean
    field's own `xc` is ignored. PySCF prints it, so set it to the same name.

    >>> from pyscf import dft, gto
    >>> from dftfd.interop.pyscf import numint
    >>> mf = dft.RKS(gto.M(atom="He", basis="sto-3g", verbose=0))
    >>> mf._numint = numint("pbe0")
    >>> round(mf.kernel(), 6)
    -2.809984

    VV10 is computed by PySCF's loop over pairs of points, with the functional's parameters. `mf.nlc = 0` removes it,
    and `mf.nlc = "vv10"` adds PySCF's VV10 to a functional without one.

    Raises UnsupportedError for functionals of the Laplacian, double integrals other than VV10, model potentials,
    exact exchange with several omegas, and two- and four-component orbitals; MissingDependencyError for unsupported
    versions of PySCF. Newer versions give an InputWarning.
    """
    found = get_functional(functional)
    refuse_part(functional, found)
    return NumInt(found)


class NumInt(pyscf_numint.NumInt):
    """PySCF's NumInt for one functional, in the attribute `functional`. See `numint`."""

    _keys = {"functional", "libxc", "omega", "short_range_by_difference"}

    short_range_by_difference = False
    """Whether exchange at short range is that at full range less that at long range, as in dftfd, each with its own fit
    of densities; PySCF's energy has a third fit, its gradient takes the difference."""

    def __init__(self, functional: Functional):
        _require_supported_pyscf()
        super().__init__()
        self.libxc = Library(functional)

    @property
    def functional(self) -> Functional:
        return self.libxc.functional

    def __reduce__(self):
        require_reproducible(self.functional)
        state = {key: value for key, value in self.__dict__.items() if key != "libxc"}
        return _from_data, (self.functional.definition, self.functional.name, state)

    def __copy__(self):
        other = type(self)(self.functional)
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo):
        return self.__copy__()

    # PySCF's methods, for one functional whatever xc_code says; omega is the mean field's own.

    def _library(self, omega=None) -> "Library":
        omega = self.omega if omega is None else omega
        return self.libxc if omega is None else self.libxc.with_omega(omega)

    def is_hybrid_xc(self, xc_code=None):
        return self.libxc.is_hybrid_xc(xc_code)

    def is_nlc(self, xc_code=None):
        return self.libxc.is_nlc(xc_code)

    def nlc_coeff(self, xc_code=None):
        return self.libxc.nlc_coeff(xc_code)

    def rsh_coeff(self, xc_code=None):
        omega, alpha, beta = self._library().rsh_coeff(xc_code)
        if omega and not alpha and self.short_range_by_difference:
            alpha = float(np.nextafter(0.0, 1.0))  # PySCF's way for what is at short range alone asks for zero
        return omega, alpha, beta

    def eval_xc(self, xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
        return self._library(omega).eval_xc(xc_code, rho, spin, relativity, deriv)

    def eval_xc1(self, xc_code, rho, spin=0, deriv=1, omega=None):
        return self._library(omega).eval_xc1(xc_code, rho, spin, deriv)

    @property
    def collinear(self):
        """PySCF asks for it with orbitals of two and four components (GKS, DKS), whose NumInt is another class."""
        raise UnsupportedError(
            "two- and four-component orbitals (GKS, DKS) need PySCF's own NumInt2C, which takes no functional of dftfd."
        )

    def _gen_rho_evaluator(self, mol, dms, *args, **options):
        """PySCF's, through which every density goes, for density matrices of one-component orbitals alone."""
        shape = np.shape(dms[0] if isinstance(dms, (list, tuple)) else dms)
        return self.collinear if shape[-1] != mol.nao else super()._gen_rho_evaluator(mol, dms, *args, **options)


def _from_data(definition, name, state):
    made = NumInt(from_definition(definition, name))
    made.__dict__.update(state)
    return made


class _ScaledVV10(tuple):
    """VV10 with a factor for PySCF's energy and potential, which go through it.

    PySCF's derivatives by the nuclei take the first entry, once they know that there is one, and leave its factor out:
    forces of PBE + VV10/2 were 4e-4 hartree/bohr off.
    """

    def __len__(self):
        raise UnsupportedError(
            "PySCF's gradients and second derivatives ignore the factor of VV10, here "
            f"{', '.join(f'{float(factor):g}' for _, factor in self)}; take dftfd's own, result.forces() and "
            "result.hessian()."
        )


class Library:
    """What PySCF asks its module `pyscf.dft.libxc`, answered for one functional."""

    __name__ = "dftfd"
    __reference__ = "functional automatic differentiation"

    def __init__(self, functional: Functional):
        _require_passable(functional)
        without_grid_functionals(functional, "of which PySCF knows nothing")
        self.functional, self._pointwise = functional, functional.semilocal_part
        self._by_omega: dict[float, Library] = {}

    @property
    def __version__(self):
        return VERSION

    def with_omega(self, omega: float) -> "Library":
        """The same with another omega, in the semilocal exchange and in the integrals alike."""
        if omega not in self._by_omega:
            f, separated = self.functional, any(w for w, _ in self.functional.exact_exchange)
            if "omega" in f.parameters:
                f = f.with_parameters(omega=omega)
            elif separated:
                f = replace(f, exact_exchange=tuple((omega if w else w, share) for w, share in f.exact_exchange))
            else:
                raise UnsupportedError(f"omega={omega}: {f.name!r} is not range-separated.")
            self._by_omega[omega] = Library(f)
        return self._by_omega[omega]

    @cached_property
    def type(self) -> str:
        """HF, LDA, GGA or MGGA: what PySCF has to compute on the grid."""
        if not self._pointwise.terms:
            return "HF"
        used = pointwise_kernel(self._pointwise, 2).ingredients
        return "MGGA" if "tau" in used else "GGA" if "sigma" in used else "LDA"

    def xc_type(self, xc_code=None):
        return self.type

    def is_hybrid_xc(self, xc_code=None):
        return bool(self.functional.exact_exchange)

    def is_meta_gga(self, xc_code=None):
        return self.type == "MGGA"

    def is_gga(self, xc_code=None):
        return self.type == "GGA"

    def is_lda(self, xc_code=None):
        return self.type == "LDA"

    def is_nlc(self, xc_code=None):
        """True where PySCF has to add VV10: that of the functional, or PySCF's own, which mf.nlc asks for by name."""
        return self.functional.is_nonlocal or _is_pyscfs_vv10(xc_code)

    def nlc_coeff(self, xc_code=None):
        """(((b, C), factor), ...) for PySCF's VV10."""
        terms = self.functional.nonlocal_part.terms
        if not terms and _is_pyscfs_vv10(xc_code):
            terms = VV10.terms
        found = (((term.parameters["b"], term.parameters["C"]), coefficient) for coefficient, term in terms)
        return (tuple if all(coefficient == 1 for coefficient, _ in terms) else _ScaledVV10)(found)

    def needs_laplacian(self, xc_code=None):
        return False

    def max_deriv_order(self, xc_code=None):
        return MAX_ORDER

    def test_deriv_order(self, xc_code, deriv, raise_error=False):
        if deriv > MAX_ORDER and raise_error:
            raise UnsupportedError(f"PySCF takes derivatives to order {MAX_ORDER}, order {deriv} was asked for.")
        return deriv <= MAX_ORDER

    def xc_reference(self, xc_code=None):
        return [f"{self.functional.name}: doi:{doi}" for doi in self.functional.dois]

    def rsh_coeff(self, xc_code=None):
        """(omega, alpha, beta): long-range fraction alpha, short-range fraction alpha + beta."""
        fractions = dict(self.functional.exact_exchange)
        full = fractions.pop(0.0, 0.0)
        if not fractions:
            return 0.0, full, 0.0
        ((omega, long_range),) = fractions.items()
        return omega, full + long_range, -long_range

    def hybrid_coeff(self, xc_code=None, spin=0):
        """Fraction of exact exchange at short range, which is that at full range without range separation."""
        return dict(self.functional.exact_exchange).get(0.0, 0.0)

    def eval_xc1(self, xc_code, rho, spin=0, deriv=1, omega=None):
        """(1 + derivatives, point): energy per electron, then the derivatives of each order in lexicographic order."""
        if omega is not None:
            return self.with_omega(omega).eval_xc1(xc_code, rho, spin, deriv)
        self.test_deriv_order(xc_code, deriv, raise_error=True)
        positions, x, n = self._variables(rho, spin)
        wanted = [list(combinations_with_replacement(positions, order)) for order in range(deriv + 1)]
        out = np.zeros((sum(map(len, wanted)), x.shape[1]))
        if not self._pointwise.terms:
            return out
        kernel, start = pointwise_kernel(self._pointwise, spin + 1), 0
        for order, rows in enumerate(kernel(x, deriv)):
            place = {combination: start + i for i, combination in enumerate(wanted[order])}
            for combination, row in zip(kernel.combinations(order), rows, strict=True):
                out[place[combination]] = row
            start += len(place)
        np.divide(out[0], n, out=out[0], where=n > 0)
        return out

    def eval_xc(self, xc_code, rho, spin=0, relativity=0, deriv=1, omega=None, verbose=None):
        """(exc, vxc, fxc, kxc) as PySCF's function of this name: tuples of arrays (point, component).

        A tuple has the arrays that PySCF's has for an LDA, a GGA or a meta-GGA; those of the Laplacian are None.
        """
        if omega is not None:
            return self.with_omega(omega).eval_xc(xc_code, rho, spin, relativity, deriv)
        if deriv > 3:
            raise UnsupportedError(f"eval_xc gives derivatives to order 3, order {deriv} was asked for.")
        _, x, n = self._variables(np.asarray(rho), spin)
        if not self._pointwise.terms:
            return np.zeros(n.size), None, None, None
        members = {f: MEMBERS[spin + 1][f] for f in _USED["MGGA"]}
        groups = {f: x[m[0]] if spin == 0 else x[m[0] : m[-1] + 1] for f, m in members.items()}
        arrays = evaluate(self._pointwise, **groups, order=deriv)

        def of_order(k):
            expected = named_components(spin + 1, _USED[self.type], k)
            names = LAYOUT[k] if self.type == "MGGA" else [name for name in LAYOUT[k] if name in expected]
            zeros = lambda name: np.zeros((len(expected[name]), n.size) if len(expected[name]) > 1 else n.size)
            given = lambda name: np.ascontiguousarray(arrays.get(name, zeros(name)).T)
            return tuple(given(name) if name in expected else None for name in names)

        return arrays.exc, *(of_order(k) if k <= deriv else None for k in (1, 2, 3))

    def energy_per_electron(self, rho):
        """(point,) for rho (2, component, point), by NumPy: for a few points, where compiling would take longer."""
        if not self._pointwise.terms:
            return np.zeros(np.shape(rho)[-1])
        _, x, n = self._variables(rho, 1)
        return pointwise_kernel(self._pointwise, 2)(x, 0, compiled=False)[0][0] / n

    def _variables(self, rho, spin):
        """(positions in VARIABLES, x (variable, point), total density) of PySCF's rho (spin, component, point)."""
        rho = np.asarray(rho, dtype=np.float64).reshape(spin + 1, -1, np.shape(rho)[-1])
        used, members = _USED[self.type], MEMBERS[spin + 1]
        least = ROWS[self.type]
        if rho.shape[1] < least:
            raise FunctionalError(f"a {self.type} takes {least} components of the density, {rho.shape[1]} were given.")
        x, g = np.zeros((len(VARIABLES[spin + 1]), rho.shape[-1])), rho[:, 1:4]
        x[: spin + 1] = rho[:, 0]
        if "sigma" in used:
            for row, (s, t) in zip(members["sigma"], SIGMA_PAIRS[spin + 1], strict=True):
                np.einsum("ip,ip->p", g[s], g[t], out=x[row])
        if "tau" in used:
            x[list(members["tau"])] = rho[:, -1]  # PySCF's last component, with and without the Laplacian before it
        empty_spins(x, spin + 1)
        return sum((members[f] for f in used), ()), x, x[: spin + 1].sum(axis=0)


def _is_pyscfs_vv10(xc_code):
    return isinstance(xc_code, str) and xc_code.strip().lower() == "vv10"


def _require_supported_pyscf():
    found = tuple(int(part) for part in pyscf.__version__.split(".")[:2])
    complete = hasattr(pyscf_numint.NumInt, "eval_xc1") and hasattr(pyscf_numint.NumInt, "eval_xc_eff")
    tested = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, TESTED))}"
    if found < OLDEST or found[0] > TESTED[0] or not complete:
        raise MissingDependencyError(
            f"PySCF {pyscf.__version__} calls functionals in another way than the supported versions {tested}; "
            "install one of them."
        )
    if found > TESTED:
        message = f"PySCF {pyscf.__version__} is newer than the versions {tested} that this was compared with."
        warnings.warn(message, InputWarning, stacklevel=4)


def _require_passable(functional: Functional):
    supports.require("numint", functional)
    semilocal = functional.semilocal_part
    if semilocal.terms and "lapl" in pointwise_kernel(semilocal, 2).ingredients:
        supports.require("numint", functional, {"Laplacian"})
