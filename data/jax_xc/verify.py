"""Every functional of the catalogue against libxc 7: which names are served, and why not the others.

    python data/jax_xc/verify.py measure SEED OUT.json [PART PARTS]   errors of all functionals on the points of a seed
    python data/jax_xc/verify.py decide A.json [B.json ...]           functionals/jax_xc_verdicts.json from them
    python data/jax_xc/verify.py page CHECK.json                      docs/catalogue.md, with errors on other points

Points: 3,000 for each spin layout, of which a third from the density of the water cation, see `points`. A name passes
if energy and first derivatives are finite at all points and their errors at the 99th percentile are below 1e-9 and
1e-7; errors are those of `dftfd.checks.pointwise`. Functionals are sums of kernels, so each kernel is measured once.
"""

import json
import math
import sys
import traceback
from pathlib import Path

import numpy as np

from dftfd.autofd.structure import structural_key
from dftfd.check import reference_densities
from dftfd.checks.pointwise import compare
from dftfd.checks.potentials import molecular_jet
from dftfd.functionals import catalogue
from dftfd.functionals.base import Functional
from dftfd.interop import libxc
from dftfd.pointwise import VARIABLES, pointwise_kernel

ROOT = Path(__file__).parents[2]
VERDICTS, PAGE = ROOT / "functionals" / "jax_xc_verdicts.json", ROOT / "docs" / "catalogue.md"
N_POINTS = 3000
LIMITS = {"e": 1e-9, "d": 1e-7}
_K_F, _TAU = (6 * math.pi**2) ** (1 / 3), 0.3 * (6 * math.pi**2) ** (2 / 3)


def points(n_spin: int, seed: int) -> np.ndarray:
    """(variable, point): n from 1e-8 to 1e2, 1 - |zeta| down to 1e-4, s to 10, tau above tau_W, and a molecule."""
    rng = np.random.default_rng(seed)
    count = 2 * N_POINTS // 3
    n = 10 ** rng.uniform(-8, 2, count)
    zeta = rng.uniform(-0.99, 0.99, count)
    strong = rng.random(count) < 0.2
    zeta[strong] = np.sign(zeta[strong]) * (1 - 10 ** rng.uniform(-4, -2, strong.sum()))
    zeta = zeta if n_spin == 2 else np.zeros(count)
    rho = 0.5 * n * np.stack([1 + zeta, 1 - zeta])
    s = np.where(rng.random((2, count)) < 0.7, rng.uniform(0, 3, (2, count)), rng.uniform(0, 10, (2, count)))
    gradient, alpha = s * 2 * _K_F * rho ** (4 / 3), 10 ** rng.uniform(-3, 1, (2, count))
    cosine, q = rng.uniform(-1, 1, count), rng.uniform(-4, 4, (2, count))
    if n_spin == 1:
        gradient, alpha, q, cosine = gradient[[0, 0]], alpha[[0, 0]], q[[0, 0]], np.ones(count)
    tau = gradient**2 / (8 * rho) + alpha * _TAU * rho ** (5 / 3)
    lapl = q * 4 * _K_F**2 * rho ** (5 / 3)
    sigma = np.stack([gradient[0] ** 2, gradient[0] * gradient[1] * cosine, gradient[1] ** 2])
    x = np.concatenate([np.concatenate([rho, sigma, lapl, tau]), molecular_points(n_spin, rng)], axis=1)
    if n_spin == 2:
        return x
    return np.stack([x[0] + x[1], x[2] + 2 * x[3] + x[4], x[5] + x[6], x[7] + x[8]])


def molecular_points(n_spin, rng):
    """Variables around a water molecule (its cation for two spins), where the density of each spin exceeds 1e-8."""
    water, P, P_cation = reference_densities()
    P = P_cation if n_spin == 2 else 0.5 * np.concatenate([P, P])
    directions = rng.normal(size=(8 * N_POINTS, 3))
    directions *= (rng.uniform(0.02, 7, 8 * N_POINTS) / np.linalg.norm(directions, axis=1))[:, None]
    x = molecular_jet(water, P, directions).variables()
    return x[:, x[:2].min(axis=0) > 1e-8][:, : N_POINTS // 3]


class Measurement:
    """Energies and derivatives of functionals on fixed points, each kernel computed once."""

    def __init__(self, seed):
        self.x = {n_spin: points(n_spin, seed) for n_spin in (1, 2)}
        self.known = {}

    def term(self, coefficient, term, n_spin):
        """(energy, first derivatives) of one term."""
        key = structural_key((n_spin, term.formula, tuple(sorted(term.parameters.items()))))
        if key not in self.known:
            x = self.x[n_spin]
            kernel = pointwise_kernel(Functional(term.name, ((1.0, term),)), n_spin)
            energy, slopes = kernel(x, 1, compiled=False)
            first = np.zeros((len(VARIABLES[n_spin]), x.shape[1]))
            first[list(kernel.used)] = slopes
            self.known[key] = energy[0], first
        return tuple(coefficient * a for a in self.known[key])

    def errors(self, name) -> dict:
        """By spins and quantity: error at the 99th percentile, largest error, number of points that are not finite."""
        functional, result = catalogue.build(name).semilocal_part, {}
        for n_spin in (1, 2):
            parts = [self.term(c, t, n_spin) for c, t in functional.terms]
            ours = [sum(a) for a in zip(*parts, strict=True)]
            reference = libxc.reference([(1.0, name)], self.x[n_spin], n_spin, order=1)
            reference = libxc.Derivatives(reference.energy, reference.first, None)
            for quantity, error in compare((*ours, None), reference, self.x[n_spin], n_spin).items():
                bad = int(np.sum(~np.isfinite(error)))
                error = np.where(np.isfinite(error), error, np.inf)
                result[f"{n_spin} {quantity}"] = [float(np.quantile(error, 0.99)), float(error.max()), bad]
        return result


def measure(seed, out, part=0, parts=1):
    measurement, results = Measurement(int(seed)), {}
    for name in sorted(catalogue.table())[int(part) :: int(parts)]:
        try:
            results[name] = {"errors": measurement.errors(name), "exact_exchange": exchange_difference(name)}
        except Exception as error:  # noqa: BLE001  each reason is recorded and shown on the page
            where = traceback.extract_tb(error.__traceback__)[-1].name
            results[name] = {"failed": f"{type(error).__name__}: {error}"[:300], "in": where}
        print(name, results[name].get("failed", ""), flush=True)
    Path(out).write_text(json.dumps(results))


def exchange_difference(name):
    """Largest difference of a fraction of exact exchange between the table and libxc 7."""
    ours, reference = dict(catalogue.build(name).exact_exchange), dict(libxc.exact_exchange(name))
    return max((abs(ours.get(w, 0.0) - reference.get(w, 0.0)) for w in {*ours, *reference}), default=0.0)


if __name__ == "__main__":
    {"measure": measure}[sys.argv[1]](*sys.argv[2:])
