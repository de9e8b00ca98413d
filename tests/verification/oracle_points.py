"""The points of data/oracle in both layouts of spins, errors of code there, and extreme points."""

import itertools
from pathlib import Path

import h5py
import numpy as np

from dftfd.verify.point_comparison import scaled_error
from dftfd.xc.channels import family_of

ORACLE = Path(__file__).parents[2] / "dftfd/verify/oracle.h5"
_K_F = (6 * np.pi**2) ** (1 / 3)


def oracle_points(n_spin: int) -> np.ndarray:
    """The variables (variable, point) of the oracle's 120 points, of two spins or of their sum."""
    with h5py.File(ORACLE) as file:
        return _of_spins(np.hstack([group[()] for group in file["points"].values()]), n_spin)


def _of_spins(x, n_spin):
    return x if n_spin == 2 else np.stack([x[0] + x[1], x[2] + 2 * x[3] + x[4], x[5] + x[6], x[7] + x[8]])


def errors_to_oracle(code, name: str) -> list[float]:
    """Largest `scaled_error` by order up to the second; code: with `derivatives(x, n_spin, order)`."""
    errors = [0.0, 0.0, 0.0]
    with h5py.File(ORACLE) as file:
        for kind, group in file[name].items():
            x = file["points"][kind][()]
            found, n, used = code.derivatives(x, 2, 2), x[0] + x[1], group.attrs["variables"]
            for order, key in enumerate(("energy", "first", "second")):
                rows = np.atleast_2d(group[key][()])
                for c, row in zip(itertools.combinations_with_replacement(used, order), rows, strict=True):
                    ours = found[order].get(c, np.zeros_like(n))
                    error = scaled_error(ours, row, n, [family_of(k, 2) for k in c]).max()
                    errors[order] = max(errors[order], float(error))
    return errors


def extreme_points(n_spin: int, count: int, seed: int = 19) -> np.ndarray:
    """Spin densities from 1e-30 to 1e6 and zero, s from 1e-6 to 1e2, tau from 0 to far above the uniform gas's."""
    rng = np.random.default_rng(seed)
    rho = np.where(rng.random((2, count)) < 0.02, 0.0, 10 ** rng.uniform(-30, 6, (2, count)))
    g = 2 * _K_F * 10 ** rng.uniform(-6, 2, (2, count)) * rho ** (4 / 3)
    tau_W = g * g / (8 * np.where(rho > 0, rho, 1.0))
    share = np.where(rng.random((2, count)) < 0.1, rng.random((2, count)), 1.0)
    tau = share * tau_W + 10 ** rng.uniform(-3, 3, (2, count)) * 0.3 * _K_F**2 * rho ** (5 / 3)
    lapl = rng.uniform(-3, 3, (2, count)) * 4 * _K_F**2 * rho ** (5 / 3)
    cross = g[0] * g[1] * rng.uniform(-1, 1, count)
    return _of_spins(np.stack([*rho, g[0] ** 2, cross, g[1] ** 2, *lapl, *tau]), n_spin)
