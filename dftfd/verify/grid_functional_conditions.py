"""Exact conditions and an audit for functionals with grid functionals, on atoms and gases whose energies are known.

A grid functional has no value at a point: it is evaluated on the grid of nuclei. The densities are one or two
electrons in orbitals exp(-Z r), a pair of such atoms, and the uniform gas far from a nucleus. Where a functional is a
sum, its semilocal terms are evaluated on the same grid and added.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from dftfd.errors import DftfdError, UnsupportedError
from dftfd.functionals.base import Functional
from dftfd.functionals.common import FERMI
from dftfd.functionals.grid_functionals import trial_features
from dftfd.functionals.registry import get_functional
from dftfd.grids.molecular import molecular_grid
from dftfd.verify.conditions import Condition
from dftfd.verify.reports import AuditReport, Checked, Finding
from dftfd.xc.code import shared
from dftfd.xc.grid_functional_kernel import GridFunctionalKernel
from dftfd.xc.kernel import XCKernel

HELIUM_Z = 27 / 16
LIEB_OXFORD = 1.679
FAR = 40.0
"""Distance [bohr] of atoms that are to be free, and of the gas from its nucleus."""


@dataclass(frozen=True, eq=False)
class System:
    """Densities on the grid of some nuclei.

    features: what grid functionals may take (dftfd.functionals.grid_functionals.FEATURES).
    """

    features: dict

    @property
    def n(self):
        return self.features["rho"].sum(axis=0)

    def energy(self, functional: Functional) -> float:
        """Exchange-correlation energy [hartree] of grid functionals and semilocal terms."""
        if functional.exact_exchange or functional.double_integral_part.terms or functional.exact_exchange_ranges:
            raise UnsupportedError("orbitals and double integrals are not evaluated on these densities")
        f, total = self.features, 0.0
        channels = [f["rho"][:, None], f["grad_rho"]]
        hessian = f["hess_rho"][:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
        points, weights, tau = np.asarray(f["points"]), np.asarray(f["weights"]), f["tau"][:, None]

        def density(kernel):
            rows = [*channels, hessian][: kernel.order + 1] + [tau] * kernel.needs_tau
            return np.concatenate([np.asarray(x) for x in rows], axis=1)

        for grid_functional in functional.grid_functionals:
            alone = Functional(grid_functional[1].name, (grid_functional,))
            kernel = GridFunctionalKernel(alone, 2, f["nuclei"], f["charges"], f["owner"])
            total += kernel(points, weights, density(kernel))[0]
        if functional.is_semilocal:
            semilocal = shared(XCKernel, functional.semilocal_part, 2)
            total += float(semilocal(points, weights, density(semilocal))[0])
        return total


@jax.jit
def _densities(points, centres, occupations, Z):
    """Densities of orbitals exp(-Z r), their gradients and second derivatives, (point, spin, ...)."""

    def rho(r):
        distances = jnp.linalg.norm(r[None] - centres, axis=1)
        return (Z**3 / np.pi) * (occupations.T @ jnp.exp(-2 * Z * distances))

    return tuple(jax.vmap(f)(points) for f in (rho, jax.jacfwd(rho), jax.jacfwd(jax.jacfwd(rho))))


def atoms(centres, occupations, Z, scale=1.0, turned=None) -> System:
    """Atoms at centres (atom, 3) [bohr] with (alpha, beta) electrons in orbitals exp(-Z r), scaled uniformly.

    turned: a rotation of all, by a matrix (3, 3).
    """
    centres = np.asarray(centres, float)
    grid = molecular_grid([2] * len(centres), centres, 3)
    centres, Z = centres / scale, Z * scale
    points, weights = np.asarray(grid.points) / scale, np.asarray(grid.weights) / scale**3
    n, gradient, hessian = _densities(points, centres, np.asarray(occupations, float), Z)
    if turned is not None:
        points, centres = points @ turned.T, centres @ turned.T
        gradient, hessian = gradient @ turned.T, turned @ hessian @ turned.T
    tau = jnp.sum(gradient**2, axis=-1) / (8 * jnp.maximum(n, 1e-300))
    return System(
        {
            "rho": n.T,
            "grad_rho": gradient.transpose(1, 2, 0),
            "hess_rho": hessian.transpose(1, 2, 3, 0),
            "tau": tau.T,
            "points": jnp.asarray(points),
            "weights": jnp.asarray(weights),
            "nuclei": jnp.asarray(centres),
            "charges": jnp.full(len(centres), Z),
            "owner": grid.owner,
        }
    )


def gas(rs: float, zeta: float) -> System:
    """A point of unit weight in the uniform gas of r_s, far from a nucleus."""
    n = 3 / (4 * np.pi * rs**3) * 0.5 * np.array([1 + zeta, 1 - zeta])
    tau = 0.5 * 0.6 * (2 * FERMI) ** (2 / 3) * n ** (5 / 3)
    copies = {
        "rho": n[:, None],
        "tau": tau[:, None],
        "grad_rho": np.zeros((2, 3, 1)),
        "hess_rho": np.zeros((2, 3, 3, 1)),
    }
    place = {"points": np.full((1, 3), FAR), "weights": np.ones(1), "owner": np.zeros(1, int)}
    return System(copies | place | {"nuclei": np.zeros((1, 3)), "charges": np.ones(1)})


HYDROGEN = ([[0.0, 0.0, 0.0]], [[1, 0]], 1.0)
HELIUM = ([[0.0, 0.0, 0.0]], [[1, 1]], HELIUM_Z)
PAIR = ([[0.0, 0.0, -0.7], [0.0, 0.0, 0.7]], [[0.7, 0.4], [0.5, 0.4]], 1.2)


def _hydrogen(f):
    E = atoms(*HYDROGEN).energy(f)
    return abs(E / -0.3125 - 1) < 0.01, f"E_xc[H] = {E:.6f} hartree, exact -0.312500"


def _correlation(f):
    E, E_x = atoms(*HELIUM).energy(f), -0.625 * HELIUM_Z
    return E <= E_x, f"E_c = {E - E_x:.6f} hartree of two electrons in exp(-{HELIUM_Z:.4f} r)"


def _scaling(f):
    worst, place = np.inf, ""
    for name, system in (("H", HYDROGEN), ("He", HELIUM)):
        E = atoms(*system).energy(f)
        for scale in (1.2, 1.5, 2.0, 3.0):
            excess = atoms(*system, scale=scale).energy(f) / scale - E
            if excess < worst:
                worst, place = excess, f"{excess:.6f} hartree at {name}, L = {scale:g}"
    return worst >= -1e-6, f"smallest E_xc[n_L] / L - E_xc[n] = {place}"


def _lieb_oxford(f):
    largest, place = -np.inf, ""
    for name, system in (("H", HYDROGEN), ("He", HELIUM), ("two centres", PAIR)):
        s = atoms(*system)
        bound = float(s.features["weights"] @ s.n ** (4 / 3))
        ratio = -s.energy(f) / bound
        if ratio > largest:
            largest, place = ratio, name
    return largest <= LIEB_OXFORD, f"largest -E_xc / int n^(4/3) = {largest:.4f} ({place}), bound {LIEB_OXFORD}"


def _gas(f):
    exact, worst, said = get_functional("lda_x") + get_functional("lda_c_pw"), 0.0, []
    for zeta in (0.0, 1.0):
        systems = {rs: gas(rs, zeta) for rs in (0.5, 1.0, 2.0, 5.0, 10.0)}
        deviations = {rs: abs(s.energy(f) / s.energy(exact) - 1) for rs, s in systems.items()}
        rs = max(deviations, key=deviations.__getitem__)
        worst = max(worst, deviations[rs])
        said.append(f"{deviations[rs]:.1e} at r_s = {rs:g}, zeta = {zeta:g}")
    return worst <= 0.02, f"largest relative deviations {', '.join(said)}"


def _free_atoms(f):
    one = atoms(*HYDROGEN).energy(f) + atoms([[0.0, 0.0, 0.0]], [[0, 1]], 1.0).energy(f)
    two = atoms([[0.0, 0.0, 0.0], [0.0, 0.0, FAR]], [[1, 0], [0, 1]], 1.0).energy(f)
    return abs(
        two - one
    ) < 1e-5, f"E_xc of two hydrogen atoms {FAR:g} bohr apart less twice one: {two - one:.1e} hartree"


def _rotation(f):
    R = Rotation.from_euler("xyz", [0.4, 1.1, -0.7]).as_matrix()
    change = atoms(*PAIR, turned=R).energy(f) - atoms(*PAIR).energy(f)
    return abs(change) < 1e-8, f"change of E_xc {change:.1e} hartree"


CONDITIONS: dict[str, Callable] = {
    "uniform gas": _gas,
    "hydrogen without self-interaction": _hydrogen,
    "negative correlation of two electrons": _correlation,
    "coordinate scaling, E_xc[n_L] >= L E_xc[n]": _scaling,
    "Lieb-Oxford bound": _lieb_oxford,
    "free atoms": _free_atoms,
    "rotation": _rotation,
}


def grid_functional_conditions(functional: Functional) -> tuple[Condition, ...]:
    """The outcome of each condition; those that cannot be evaluated say why."""
    found = []
    for name, test in CONDITIONS.items():
        try:
            passed, detail = test(functional)
        except UnsupportedError as error:
            found.append(Condition(name, None, str(error)))
            continue
        found.append(Condition(name, bool(passed), detail))
    return tuple(found)


EXTREMES = (1e-12, 1e-8, 1e-4, 1e2, 1e4)
"""Factors of a density, as of one that is uniformly scaled, at which derivatives are to be finite."""


def audit_grid_functionals(functional: Functional) -> AuditReport:
    """First and second derivatives of grid functionals against differences, invariances, and extreme densities."""
    checked, findings = [], []
    for _, term in functional.grid_functionals:
        alone = Functional(term.name, ((1.0, term),))
        rows, found = _differences(alone)
        checked += rows
        findings += found + _extremes(alone)
    system = atoms(*PAIR)
    turned = atoms(*PAIR, turned=Rotation.from_euler("xyz", [0.3, -0.8, 1.2]).as_matrix())
    grid_functionals = Functional(functional.name, functional.grid_functionals)
    values = system.energy(grid_functionals), turned.energy(grid_functionals)
    if abs(values[0] - values[1]) > 1e-8 * abs(values[0]):
        findings.append(Finding("wrong", "E", 2, "changes with a rotation", "two centres", values[1], values[0]))
    note = "grid functionals: derivatives by channels of the density, on a made-up density and scaled ones"
    return AuditReport(functional.name, tuple(checked), tuple(findings), (note,))


def _trial(functional, scale=1.0):
    """(kernel, points, weights, density (2, channel, point)) of the made-up density times a scale."""
    f = trial_features()
    kernel = GridFunctionalKernel(functional, 2, f["nuclei"], f["charges"], f["owner"])
    hessian = f["hess_rho"][:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    rows = [f["rho"][:, None], f["grad_rho"], hessian][: kernel.order + 1] + [f["tau"][:, None]] * kernel.needs_tau
    factors = [scale, scale ** (4 / 3), scale ** (5 / 3)][: kernel.order + 1] + [scale ** (5 / 3)] * kernel.needs_tau
    density = np.concatenate([factor * np.asarray(x) for factor, x in zip(factors, rows, strict=True)], axis=1)
    return kernel, np.asarray(f["points"]), np.asarray(f["weights"]), density


def _differences(functional):
    """Slopes and their change along a direction against differences; a row each, and what is wrong."""
    kernel, points, weights, density = _trial(functional)
    direction = density * np.random.default_rng(3).uniform(-1, 1, density.shape)
    h = 1e-4
    at = {k: kernel(points, weights, density + k * h * direction) for k in (-2, -1, 1, 2)}
    slope = lambda values: (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * h)
    _, potential = kernel(points, weights, density)
    given = float(np.sum(potential * direction)), kernel.changes(points, weights, density)(direction)
    expected = slope({k: e for k, (e, _) in at.items()}), slope({k: v for k, (_, v) in at.items()})
    rows, findings = [], []
    for order, (a, b) in enumerate(zip(given, expected, strict=True), start=1):
        wrong = np.abs(np.asarray(a) - b) > 1e-6 * np.max(np.abs(b))
        rows.append(Checked(order, 2, int(np.size(b)), int(np.size(b) - np.count_nonzero(wrong)), "differences"))
        if np.any(wrong):
            i = np.unravel_index(np.argmax(np.abs(np.asarray(a) - b)), np.shape(b))
            message = f"of {kernel.term.name} is not that of the energy"
            values = float(np.asarray(a)[i]), float(np.asarray(b)[i])
            findings.append(Finding("wrong", f"derivative {order}", 2, message, "the made-up density", *values))
    return rows, findings


def _extremes(functional) -> list[Finding]:
    findings = []
    for scale in EXTREMES:
        kernel, points, weights, density = _trial(functional, scale)
        try:
            kernel(points, weights, density)
            kernel.changes(points, weights, density)(density)
        except DftfdError as error:
            where = f"a density of {scale:g} times the made-up one"
            findings.append(Finding("not finite", kernel.term.name, 2, str(error), where, None, None))
    return findings
