"""Energies of every native formula in 50 digits, with first and second derivatives, at 120 points.

    python data/oracle/make_oracle.py [name ...]

writes dftfd/verify/oracle.h5, or replaces the named groups in it. What the numbers are is said in README.md and in
`dftfd.verify.extended`. All formulas take half an hour on one core with gmpy2 installed, and hours without.
"""

import itertools
import sys
import time
from pathlib import Path

import h5py
import mpmath
import numpy as np

from dftfd.verify.extended import DIGITS, ExtendedEnergy
from tests.verification.native import native_formulas

FILE = Path(__file__).parents[2] / "dftfd/verify/oracle.h5"

K_F = (6 * np.pi**2) ** (1 / 3)


def log_uniform(rng, low, high, count):
    return 10 ** rng.uniform(np.log10(low), np.log10(high), count)


def one_spin(rho, s, alpha, q):
    """(rho, |grad rho|, laplacian, tau) of one spin; tau = tau_W + alpha tau_unif, (1 + alpha) tau_W if alpha < 0."""
    g = 2 * K_F * s * rho ** (4 / 3)
    tau_W, tau_unif = g * g / (8 * rho), 0.3 * K_F**2 * rho ** (5 / 3)
    tau = np.where(alpha < 0, (1 + alpha) * tau_W, tau_W + np.abs(alpha) * tau_unif)
    return rho, g, q * 4 * K_F**2 * rho ** (5 / 3), tau


def variables(up, down, cosine):
    """Points (9, count) in the variables of two spins."""
    (a, g_a, l_a, t_a), (b, g_b, l_b, t_b) = up, down
    return np.stack([a, b, g_a**2, g_a * g_b * cosine, g_b**2, l_a, l_b, t_a, t_b])


def points() -> dict[str, np.ndarray]:
    """Points (9, count) by kind.

    regular: n = 1e-20 to 1e4, 1 - |zeta| = 1e-4 to 1, s = 0.02 to 5, alpha = 0.01 to 5.
    polarised: n = 1e-8 to 1e3, 1 - |zeta| = 1e-14 to 1e-4.
    extreme: n = 1e-20 to 1e6, s = 1e-6 to 1e2, alpha = 1e-3 to 1e3.
    below: tau between tau_W / 2 and tau_W, which no orbitals have.
    one spin: n = 1e-20 to 1e6 of alpha alone.
    """
    rng = np.random.default_rng(50)
    kinds = {
        "regular": (60, (1e-20, 1e4), (1e-4, 1.0), (0.02, 5.0), (0.01, 5.0)),
        "polarised": (20, (1e-8, 1e3), (1e-14, 1e-4), (0.02, 5.0), (0.01, 5.0)),
        "extreme": (20, (1e-20, 1e6), (1e-2, 1.0), (1e-6, 1e2), (1e-3, 1e3)),
        "below": (8, (1e-10, 1e2), (1e-2, 1.0), (0.02, 5.0), None),
    }
    result = {}
    for kind, (count, n_range, distance, s_range, alpha_range) in kinds.items():
        n, minority = log_uniform(rng, *n_range, count), log_uniform(rng, *distance, count) / 2
        fractions = rng.permuted(np.stack([1 - minority, minority]), axis=0)
        draw = log_uniform if kind == "extreme" else np.random.Generator.uniform
        s = draw(rng, *s_range, (2, count))
        alpha = draw(rng, *alpha_range, (2, count)) if alpha_range else rng.uniform(-0.49, -0.01, (2, count))
        q = rng.uniform(-3, 3, (2, count))
        up, down = (one_spin(n * fractions[k], s[k], alpha[k], q[k]) for k in (0, 1))
        result[kind] = variables(up, down, rng.uniform(-0.95, 0.95, count))
    count, nothing = 12, np.zeros((4, 12))
    n, s, alpha = log_uniform(rng, 1e-20, 1e6, count), rng.uniform(0.02, 5, count), rng.uniform(0.01, 5, count)
    result["one spin"] = variables(one_spin(n, s, alpha, rng.uniform(-3, 3, count)), nothing, np.zeros(count))
    return result


def derivatives(energy: ExtendedEnergy, x, variables):
    """(energy, first, second) at one point, as floats, with respect to the given variables."""
    with mpmath.workdps(DIGITS):
        pairs = itertools.combinations_with_replacement(variables, 2)
        first = [float(energy.derivative(x, (k,))) for k in variables]
        return float(energy(x)), first, [float(energy.derivative(x, pair)) for pair in pairs]


def write(group, functional, kinds):
    """Datasets `kind`/energy (point,), first (variable, point), second (pair, point), and attribute `variables`."""
    energy = ExtendedEnergy(functional)
    for kind, x in kinds.items():
        moving = [k for k in energy.used if kind != "one spin" or k in (0, 2, 5, 7)]
        rows = [derivatives(energy, point, moving) for point in x.T]
        part = group.create_group(kind)
        part.attrs["variables"] = moving
        for name, values in zip(("energy", "first", "second"), zip(*rows, strict=True), strict=True):
            part[name] = np.array(values).T


def main(names):
    kinds = points()
    with h5py.File(FILE, "a") as file:
        file.attrs["digits"] = DIGITS
        for kind, x in kinds.items():
            if f"points/{kind}" not in file:
                file[f"points/{kind}"] = x
        for name, functional in native_formulas().items():
            if names and name not in names:
                continue
            start = time.perf_counter()
            if name in file:
                del file[name]
            write(file.create_group(name), functional, kinds)
            file.flush()
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
