r"""Tabulate the kernel phi(d1, d2) of vdW-DF: writes functionals/vdw_df_kernel.json. Ten minutes on two cores.

    phi(d1, d2) = 2/pi^2 int_0^inf int_0^inf da db a^2 b^2 W(a, b) T(nu(a), nu(b), nu'(a), nu'(b))          (eq. 14)
    T(w, x, y, z) = 1/2 (1/(w+x) + 1/(y+z)) (1/((w+y)(x+z)) + 1/((w+z)(y+x)))                               (eq. 15)
    W(a, b) = 2 ((3-a^2) b cos b sin a + (3-b^2) a cos a sin b + (a^2+b^2-3) sin a sin b - 3ab cos a cos b) / (a^3 b^3)
    nu(a) = a^2 / (2 h(a/d1)),   nu'(a) = a^2 / (2 h(a/d2)),   h(t) = 1 - exp(-4 pi t^2 / 9)            (eqs. 10, 16)

M. Dion, H. Rydberg, E. Schroeder, D. C. Langreth, B. I. Lundqvist, Phys. Rev. Lett. 92, 246401 (2004), erratum 95,
109902 (2005). doi:10.1103/PhysRevLett.92.246401

The integrand oscillates in a and b while T is smooth, so it is cut off smoothly far out: with the cut below, changes of
its place and of the nodes move phi by less than 1e-11 relative. The table holds Chebyshev coefficients of

    psi(ln D, delta^2) = phi (5 + d1^2) (5 + d2^2) (10 + d1^2 + d2^2),   d1,2 = D (1 +- delta)

which is bounded: it grows like ln D for D -> 0 and tends to -12 (4 pi / 9)^3 for D -> infinity.
"""

import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.special import erfc

GAMMA = 4 * np.pi / 9
D_RANGE = (1e-3, 200.0)
N_D, N_DELTA = 104, 44
CUT, PANEL, NODES = 150.0, 1.5, 8
TARGET = Path(__file__).parents[2] / "functionals" / "vdw_df_kernel.json"


def quadrature(smallest: float):
    """Nodes and weights on (0, CUT): panels halved towards zero down to `smallest`, times the smooth cut-off."""
    graded = 2.0 ** -np.arange(np.ceil(-np.log2(smallest)), -1.0, -1.0)
    edges = np.concatenate([[0.0], graded[graded < PANEL], np.arange(PANEL, CUT + PANEL / 2, PANEL)])
    x, w = np.polynomial.legendre.leggauss(NODES)
    low, high = edges[:-1, None], edges[1:, None]
    a = (0.5 * (low + high) + 0.5 * (high - low) * x).ravel()
    w = (0.5 * (high - low) * w).ravel()
    return a, w * 0.5 * erfc(10 * ((a / CUT - 0.2) / 0.8 - 0.5))


def kernel(d1: float, d2: float) -> float:
    """phi(d1, d2), d1, d2 > 0."""
    a, w = quadrature(min(d1, d2, 4.0) / 8)
    sinc = np.sin(a) / a
    small = a < 0.05
    series = -(a**2) / 3 * (1 - a**2 / 10 * (1 - a**2 / 28 * (1 - a**2 / 54)))
    difference = np.where(small, series, np.cos(a) - sinc)  # cos a - sin a / a, without cancellation
    # a^2 b^2 W / 2 = -3 p(a) p(b) - a^2 s(a) p(b) - b^2 s(b) p(a) with s = sin a / a, p = cos a - s
    left = w * difference
    right = w * a**2 * sinc
    W = -2 * (3 * np.outer(left, left) + np.outer(right, left) + np.outer(left, right))
    nu_1, nu_2 = (a**2 / (-2 * np.expm1(-GAMMA * (a / d) ** 2)) for d in (d1, d2))
    w, x, y, z = nu_1[:, None], nu_1[None, :], nu_2[:, None], nu_2[None, :]
    T = 0.5 * (1 / (w + x) + 1 / (y + z)) * (1 / ((w + y) * (x + z)) + 1 / ((w + z) * (y + x)))
    return 2 / np.pi**2 * float(np.sum(W * T))


def scaled(d1: float, d2: float) -> float:
    """psi, bounded."""
    return kernel(d1, d2) * (5 + d1**2) * (5 + d2**2) * (10 + d1**2 + d2**2)


def nodes(count: int) -> np.ndarray:
    """Chebyshev nodes on (-1, 1)."""
    return np.cos(np.pi * (np.arange(count) + 0.5) / count)


def row(u: float) -> list[float]:
    """psi at one ln D and all delta^2."""
    D, delta = np.exp(u), np.sqrt(0.5 * (1 + nodes(N_DELTA)))
    return [scaled(D * (1 + t), D * (1 - t)) for t in delta]


def coefficients(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients of a function given on the tensor grid of nodes."""

    def transform(n):
        T = np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n) * 2 / n
        T[0] /= 2
        return T

    return transform(values.shape[0]) @ values @ transform(values.shape[1]).T


def main():
    low, high = np.log(D_RANGE)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        values = np.array(list(pool.map(row, low + (high - low) * 0.5 * (1 + nodes(N_D)))))
    c = coefficients(values)
    tail = max(np.abs(c[-4:]).max(), np.abs(c[:, -4:]).max()) / np.abs(values).max()
    print(f"last coefficients, relative to the largest value: {tail:.1e}")
    table = {
        "quantity": "Chebyshev coefficients of psi(ln D, delta^2); rows: degree in ln D, columns: degree in delta^2",
        "source": "data/vdw_df_kernel/make_kernel.py; doi:10.1103/PhysRevLett.92.246401",
        "D_range": list(D_RANGE),
        "coefficients": [[float(f"{x:.10g}") for x in line] for line in c],
    }
    TARGET.write_text(json.dumps(table, indent=0).replace(",\n", ",").replace("],[", "],\n["))


if __name__ == "__main__":
    main()
