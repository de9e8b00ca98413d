"""Radial quadratures: nodes r_k [bohr] and weights w_k [bohr^3] with

    int_0^inf f(r) r^2 dr  ~  sum_k w_k f(r_k).

Every scheme maps a quadrature on a finite interval to [0, inf); the weights contain the Jacobian and r^2. Nodes ascend.
"""

import math
from collections.abc import Callable

import numpy as np

from dftfd.grids.radii import BRAGG_SLATER, TREUTLER_AHLRICHS_SCALE

Quadrature = tuple[np.ndarray, np.ndarray]


def treutler_ahlrichs(n: int, atomic_number: int) -> Quadrature:
    r"""M4 grid of Treutler and Ahlrichs: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = xi / ln 2  (1 + x)^0.6  ln(2 / (1 - x)),   x in (-1, 1)

    on the Chebyshev nodes of the second kind, with an extent xi for each element.

    O. Treutler, R. Ahlrichs, J. Chem. Phys. 102, 346 (1995). doi:10.1063/1.469408
    """
    angle = _chebyshev_angles(n)[::-1]
    one_plus_x = 2.0 * np.cos(0.5 * angle) ** 2
    one_minus_x = 2.0 * np.sin(0.5 * angle) ** 2  # 1 - cos would lose digits at the outermost nodes
    scale = TREUTLER_AHLRICHS_SCALE[atomic_number] / math.log(2.0)
    logarithm = np.log(2.0 / one_minus_x)
    r = scale * one_plus_x**0.6 * logarithm
    dr_dx = scale * one_plus_x**0.6 * (0.6 / one_plus_x * logarithm + 1.0 / one_minus_x)
    return r, r**2 * dr_dx * np.pi / (n + 1) * np.sin(angle)


def mura_knowles(n: int, atomic_number: int) -> Quadrature:
    r"""Log3 grid of Mura and Knowles: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = -alpha ln(1 - x^3),   x_k = (k - 1/2) / n,  k = 1 ... n

    alpha is 7 for alkali and alkaline-earth metals up to Ca and 5.2 otherwise. The paper has 5 and end-point nodes; 5.2
    and mid-points are PySCF's choice.

    M. E. Mura, P. J. Knowles, J. Chem. Phys. 104, 9848 (1996). doi:10.1063/1.471749
    """
    alpha = 7.0 if atomic_number in (3, 4, 11, 12, 19, 20) else 5.2
    x = (np.arange(n) + 0.5) / n
    r = -alpha * np.log1p(-(x**3))
    dr_dx = 3.0 * alpha * x**2 / (1.0 - x**3)
    return r, r**2 * dr_dx / n


def gauss_chebyshev(n: int, atomic_number: int) -> Quadrature:
    r"""Grid of Krack and Koester, the same for all elements: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = 1 - ln(1 + x) / ln 2,   x in (-1, 1)

    on the nodes of a Gauss-Chebyshev quadrature transformed to unit weight, with t = k pi / (n + 1):
    x_k = 1 - 2k / (n + 1) + 2/pi (1 + 2/3 sin^2 t) cos t sin t,   w_k = 16 sin^4 t / (3 (n + 1)).
    Three terms cancel in 1 + x at the outermost nodes, where x_k' = -w_k (n + 1) / pi is integrated instead.

    M. Krack, A. M. Koester, J. Chem. Phys. 108, 3226 (1998). doi:10.1063/1.475719
    """
    t = _chebyshev_angles(n)
    one_minus_x = _integral_of_sin4(t) * 16.0 / (3.0 * np.pi)
    one_plus_x = one_minus_x[::-1]
    log2_one_plus_x = np.log(one_plus_x) / math.log(2.0)
    # Near the nucleus r is small: ln(1 + x) = ln 2 + ln(1 - (1 - x) / 2).
    r = np.where(t < 0.5 * np.pi, -np.log1p(-0.5 * np.minimum(one_minus_x, 1.0)) / math.log(2.0), 1.0 - log2_one_plus_x)
    dr_dx = 1.0 / (math.log(2.0) * one_plus_x)
    return r, r**2 * dr_dx * 16.0 / (3.0 * (n + 1)) * np.sin(t) ** 4


def _integral_of_sin4(t: np.ndarray) -> np.ndarray:
    """int_0^t sin^4 u du to full relative accuracy, by a Gauss-Legendre rule of 20 points on each interval [0, t]."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = 0.5 * t
    return half * (np.sin(half[:, None] * (1.0 + nodes[None, :])) ** 4 @ weights)


def becke(n: int, atomic_number: int) -> Quadrature:
    r"""Grid of Becke: nodes (n,) [bohr], weights (n,) [bohr^3].

    r(x) = r_m (1 + x) / (1 - x),   x in (-1, 1)                                          (eq. 25)

    on the Chebyshev nodes of the second kind; r_m is half the Bragg-Slater radius, the whole one for hydrogen.

    A. D. Becke, J. Chem. Phys. 88, 2547 (1988). doi:10.1063/1.454033
    """
    angle = _chebyshev_angles(n)[::-1]
    midpoint = BRAGG_SLATER[atomic_number] * (1.0 if atomic_number == 1 else 0.5)
    one_minus_x = 2.0 * np.sin(0.5 * angle) ** 2
    r = midpoint / np.tan(0.5 * angle) ** 2
    dr_dx = 2.0 * midpoint / one_minus_x**2
    return r, r**2 * dr_dx * np.pi / (n + 1) * np.sin(angle)


def _chebyshev_angles(n: int) -> np.ndarray:
    """Angles k pi / (n + 1), k = 1 ... n; their cosines are the Chebyshev nodes of the second kind.

    int_-1^1 g(x) dx ~ sum_k pi / (n + 1) sin(angle_k) g(cos angle_k).
    """
    return np.arange(1, n + 1) * (np.pi / (n + 1))


RADIAL_SCHEMES: dict[str, Callable[[int, int], Quadrature]] = {
    "treutler_ahlrichs": treutler_ahlrichs,
    "mura_knowles": mura_knowles,
    "gauss_chebyshev": gauss_chebyshev,
    "becke": becke,
}
