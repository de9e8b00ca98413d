"""Where functionals are audited: points inside the domain of densities, and at its edges."""

import numpy as np

from dftfd.verify.sampling import sample

REGIONS = ("dense", "dilute")
EDGES = ("n = 0", "n = 1e-14", "gradient zero", "fully polarised", "one orbital (tau = tau_W)")


def inner_points(n_spin, count):
    """Points of all regions; angles and tau leave room for steps of a tenth in each variable."""
    x = np.concatenate([sample(n_spin, region, count) for region in REGIONS], axis=1)
    if n_spin == 1:
        x[3] += 0.5 * x[1] / (8 * x[0])
    else:
        x[3] *= 0.8
        x[7:9] += 0.5 * x[[2, 4]] / (8 * x[:2])
    return x


def equal_spins(x):
    """The polarised variables of unpolarised points."""
    n, sigma, lapl, tau = x
    return np.stack([n / 2, n / 2, sigma / 4, sigma / 4, sigma / 4, lapl / 2, lapl / 2, tau / 2, tau / 2])


def edge_points(n_spin):
    """(variable, point), one for each of EDGES; the fully polarised one is no edge of a total density."""
    x = sample(n_spin, "dense", len(EDGES), seed=3)
    spins, sigma, tau = (
        [slice(0, 1), slice(1, 2), slice(3, 4)] if n_spin == 1 else [slice(0, 2), slice(2, 5), slice(7, 9)]
    )
    x[:, 0] = 0.0
    x[:, 1] *= 1e-14 / x[spins, 1].sum()
    x[sigma, 1] *= 1e-14
    x[sigma, 2] = 0.0
    if n_spin == 2:
        x[[1, 3, 4, 6, 8], 3] = 0.0
    x[tau, 4] = x[sigma, 4][::2] / (8 * x[spins, 4])  # of two spins, aa and bb
    return x
