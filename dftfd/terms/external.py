r"""The energy in an external potential that is given as a function of r.

    E_ext = int n(r) f(r) d^3r - sum_A Z_A f(R_A)

f(r) [hartree] is the potential energy of an *electron* at r, the sign of v_xc and of every other potential in a
Kohn-Sham matrix: an electrostatic potential phi acts as f = -phi, a field F as f(r) = F . r. Nuclei have the opposite
charge and feel -Z f, unless the potential is said to act on electrons alone, as one that confines them does. f stays
where it is when the nuclei move. The integral is taken on the quadrature grid, so f should be smooth on its scale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from dftfd.errors import InputError, shown, users_code
from dftfd.runtime.arguments import Kind
from dftfd.terms.on_grid import GridEnergy, GridOrbitals
from dftfd.terms.term import Contribution
from dftfd.xc.code import on_points
from dftfd.xc.kernel import Slopes
from dftfd.xc.matrix import XCBuilder

ACTS_ON = ("all", "electrons")
NEAR = (0.31, -0.17, 0.23)  # bohr from a nucleus, where potentials that are singular there are finite


@dataclass(frozen=True, eq=False)
class ExternalPotential:
    """f: code of one point (3,) [bohr] -> an electron's energy [hartree].   on_nuclei: whether nuclei feel it.

    Files hold `name`, `on_nuclei` and the `fingerprint`, no code; what they give back refuses to be evaluated.
    """

    f: Callable
    on_nuclei: bool = True
    read: tuple[str, np.ndarray] | None = None

    @classmethod
    def from_file(cls, name: str, on_nuclei: bool, fingerprint) -> "ExternalPotential":
        """What a file knows of a potential."""

        def forgotten(r):
            raise InputError(
                f"the result was computed in the external potential {name!r}, whose code a file does not hold; pass it "
                "as load_result(path, external_potential=f)."
            )

        return cls(forgotten, bool(on_nuclei), (str(name), np.asarray(fingerprint, dtype=float)))

    @property
    def name(self) -> str:
        """What the output calls it."""
        return self.read[0] if self.read else getattr(self.f, "__name__", type(self.f).__name__)

    def fingerprint(self, molecule) -> np.ndarray:
        """Its values (atom,) near the nuclei, by which it is known again."""
        return self.read[1] if self.read else self.values(molecule.coordinates + NEAR)

    def known_as(self, other: "ExternalPotential", molecule) -> bool:
        """Whether it acts like another on the same molecule."""
        here, there = self.fingerprint(molecule), other.fingerprint(molecule)
        same = here.shape == there.shape and np.allclose(here, there, rtol=1e-9, atol=1e-12)
        return same and self.on_nuclei == other.on_nuclei

    def values(self, points) -> np.ndarray:
        """f (point,) at points (point, 3)."""
        return self._finite(points, self._compiled[0], "")

    def slopes(self, points) -> np.ndarray:
        """Gradient of f (point, 3) at points (point, 3)."""
        return self._finite(points, self._compiled[1], "the gradient of ").T

    @cached_property
    def _compiled(self):
        f = lambda r: jnp.asarray(self.f(r), dtype=jnp.float64)
        return on_points(f), on_points(jax.grad(f))

    def _finite(self, points, code, what):
        """(..., point) of compiled code; InputError where it is not finite."""
        points = np.asarray(points, dtype=float)
        found = code(points.T)
        wrong = np.flatnonzero(~np.isfinite(found.reshape(-1, len(points))).all(axis=0))
        if wrong.size:
            raise InputError(
                f"{what}external_potential is NaN or Inf at {points[wrong[0]].tolist()} bohr; soften it there, as in "
                "1 / sqrt(r^2 + a^2), or, if that is a nucleus, let it act on electrons alone: (f, 'electrons')."
            )
        return found


def checked_potential(given) -> ExternalPotential | None:
    """The potential of run_scf's option: None, f, or a pair (f, 'all' or 'electrons')."""
    return _POTENTIAL.checked("external_potential", given)


def _potential(given):
    if given is None or isinstance(given, ExternalPotential):
        return given
    f, acts_on = given if isinstance(given, tuple | list) and len(given) == 2 else (given, "all")
    if acts_on not in ACTS_ON:
        raise InputError(f"external_potential acts on {shown(acts_on)}; allowed: {' or '.join(map(repr, ACTS_ON))}.")
    if not callable(f):
        raise InputError(
            f"external_potential={type(f).__name__}: give a function of one point r (3,) [bohr] in hartree, such as a "
            "Function R^3 -> R, or a pair (f, 'electrons')."
        )
    how = "write it with jax.numpy or dftfd.autofd"
    with users_code(f"external_potential can't be evaluated at one point r (3,); {how}"):
        # a callable of Python's own around f: JAX may crash where it keeps another, such as a NumPy ufunc
        result = jax.eval_shape(lambda r: f(r), jax.ShapeDtypeStruct((3,), np.float64))
        wrong = _index_out_of_bounds(f)
    if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
        raise InputError(f"external_potential returns {shown(result)} at a point; one real number in hartree expected.")
    if wrong:
        raise InputError(
            f"external_potential takes an element that is not there, instead of which JAX takes another: {wrong}. A "
            "point r has the elements 0, 1 and 2."
        )
    return ExternalPotential(f, acts_on == "all")


def _index_out_of_bounds(f) -> str | None:
    """What JAX has to say of an index beyond a point's end, which it moves to the end; None without one.

    Tables are left alone: what stands beyond their ends is the business of those who made them.
    """
    error, _ = checkify.checkify(lambda r: f(r), errors=checkify.index_checks)(jnp.array(NEAR))
    said = (error.get() or "").partition("array ")[2].strip(" .")
    return said if "shape (3,)" in said else None


_POTENTIAL = Kind(
    "a function of one point r (3,) [bohr] in hartree, or a pair (f, 'electrons') that leaves the nuclei out",
    _potential,
)


class ExternalEnergy(GridEnergy):
    """E_ext on a grid."""

    components = {"external": "external potential"}
    stage = "external derivatives"
    is_linear = True

    def __init__(self, potential: ExternalPotential, molecule, grid, orbitals: GridOrbitals):
        self.potential = potential
        super().__init__(_Kernel(potential), molecule, grid, orbitals)

    def made_on(self, store):
        return XCBuilder(self.kernel, store)

    @cached_property
    def _matrices(self):
        """f and 1 as matrices over the basis functions on the grid, (ao, ao) each."""
        store = self.builder.store
        nothing = np.zeros((1, store.n_ao, store.n_ao))
        return [builder.build(nothing).matrix[0] for builder in (self.builder, XCBuilder(_Kernel(None), store))]

    @cached_property
    def _nuclei(self):
        """Charges (nucleus,) that feel the potential, their positions (nucleus, 3), and which atoms they are."""
        Z = self._molecule.nuclear_charges
        real = np.flatnonzero(Z) if self.potential.on_nuclei else np.zeros(0, dtype=int)
        return Z[real], self._molecule.coordinates[real], real

    @cached_property
    def _energy_of_nuclei(self):
        Z, R, _ = self._nuclei
        return -float(Z @ self.potential.values(R)) if len(Z) else 0.0

    def prepare(self, progress):
        with progress.stage("external potential"):
            self.evaluate(np.zeros((1, self._molecule.n_ao, self._molecule.n_ao)))

    def evaluate(self, P, C_occ=None):
        V, overlap = self._matrices
        energy = float(np.sum(P * V)) + self._energy_of_nuclei
        return Contribution({"external": energy}, {"external": V[None]}, np.einsum("smn,mn->s", P, overlap))

    def gradient(self, P, C_occ, grid_response, progress):
        gradient = super().gradient(P, C_occ, grid_response, progress)
        Z, R, atoms = self._nuclei
        if len(Z):
            gradient[atoms] -= Z[:, None] * self.potential.slopes(R)
        return gradient


class _Kernel:
    """int n(r) f(r) d^3r as a kernel like dftfd.xc.kernel.XCKernel. Without a potential f is 1: it counts electrons."""

    order, needs_tau, channels, whole_grid = 0, False, 1, False

    def __init__(self, potential: ExternalPotential | None):
        self._potential = potential

    def __call__(self, points, weights, density):
        f = self._values(points)
        slopes = np.broadcast_to(weights * f, density[:, 0].shape)[:, None]
        return float(np.sum(slopes * density)), slopes

    def slopes(self, points, weights, density) -> Slopes:
        """Derivatives of the energy by weights, density and points."""
        n = density[:, 0].sum(axis=0)
        by_point = np.zeros(points.shape) if self._potential is None else self._potential.slopes(points)
        return Slopes(n * self._values(points), self(points, weights, density)[1], weights * n * by_point.T)

    def _values(self, points):
        return np.ones(len(points)) if self._potential is None else self._potential.values(points)
